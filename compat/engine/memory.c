/*
 * memory.c - keeps the table of allocations; allocates and frees memory by the calls that have no stream.
 *
 * leat knows its own blocks. For each allocation this table adds what only the compatibility libraries need
 * (flags, pool, id), and every call finds the allocation of a pointer here. It is a treap keyed by address.
 * Look-ups share its lock.
 */
#include "base/lock.h"
#include "engine/inside.h"

#include <leat/managed.h>
#include <stdlib.h>
#include <unistd.h>

struct node {
    struct leatc_memory memory;
    uint32_t weight; /* random heap priority; no child has a higher weight */
    struct node *left, *right;
};

static struct leati_rwlock lock = LEATI_RWLOCK_INITIALIZER;
static struct node *root LEATI_GUARDED_BY(lock);
static uint32_t random_state LEATI_GUARDED_BY(lock) = 2463534242u;
static _Atomic unsigned long long latest_id = 1;

unsigned long long leatc_memory_id(void)
{
    return atomic_fetch_add_explicit(&latest_id, 1, memory_order_relaxed);
}

static uintptr_t start(const struct node *node)
{
    return (uintptr_t)node->memory.base;
}

/* ---- the treap, with the lock held ---- */

/* Splits a treap: nodes below key go to *left, all others to *right. */
static void split(struct node *node, uintptr_t key, struct node **left, struct node **right)
{
    while (node) {
        if (start(node) < key) {
            *left = node;
            left = &node->right;
            node = node->right;
        } else {
            *right = node;
            right = &node->left;
            node = node->left;
        }
    }
    *left = *right = NULL;
}

/* Merges two treaps. All addresses of left are below those of right. */
static struct node *merge(struct node *left, struct node *right)
{
    struct node *top = NULL, **place = &top;

    while (left && right) {
        struct node **next;

        if (left->weight > right->weight) {
            *place = left;
            next = &left->right;
            left = left->right;
        } else {
            *place = right;
            next = &right->left;
            right = right->left;
        }
        place = next;
    }
    *place = left ? left : right;
    return top;
}

static void insert(struct node *node) LEATI_REQUIRES(lock)
{
    struct node **place = &root;

    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    node->weight = random_state;
    while (*place && (*place)->weight >= node->weight)
        place = start(node) < start(*place) ? &(*place)->left : &(*place)->right;
    split(*place, start(node), &node->left, &node->right);
    *place = node;
}

/* Returns the allocation that contains address, or NULL. */
static struct node *find(uintptr_t address) LEATI_REQUIRES_SHARED(lock)
{
    struct node *node = root, *best = NULL;

    while (node) {
        if (start(node) <= address) {
            best = node;
            node = node->right;
        } else {
            node = node->left;
        }
    }
    return best && address - start(best) < best->memory.bytes ? best : NULL;
}

static struct node *take(uintptr_t base) LEATI_REQUIRES(lock)
{
    struct node **place = &root, *node;

    while (*place && start(*place) != base)
        place = base < start(*place) ? &(*place)->left : &(*place)->right;
    node = *place;
    if (node)
        *place = merge(node->left, node->right);
    return node;
}

/* ---- the table ---- */

/* Fills in memory for ptr, as leatc_memory_find() documents. The caller holds the lock. */
static void describe(const void *ptr, struct leatc_memory *memory) LEATI_REQUIRES_SHARED(lock)
{
    const struct node *node = find((uintptr_t)ptr);

    *memory = node ? node->memory : (struct leatc_memory){.kind = LEATC_MEMORY_PAGEABLE, .ordinal = -1};
}

int leatc_memory_find(const void *ptr, struct leatc_memory *memory)
{
    if (!ptr)
        return LEATC_INVALID_VALUE;
    leati_read_lock(&lock);
    describe(ptr, memory);
    leati_read_unlock(&lock);
    return LEATC_OK;
}

int leatc_memory_find_both(const void *dst, struct leatc_memory *to, const void *src, struct leatc_memory *from)
{
    if (!dst || !src)
        return LEATC_INVALID_VALUE;
    leati_read_lock(&lock);
    describe(dst, to);
    describe(src, from);
    leati_read_unlock(&lock);
    return LEATC_OK;
}

int leatc_memory_set_synchronous(const void *ptr, bool on)
{
    struct node *node;
    bool is_device;

    leati_write_lock(&lock);
    node = find((uintptr_t)ptr);
    is_device = node && node->memory.kind == LEATC_MEMORY_DEVICE;
    if (is_device)
        node->memory.synchronous = on;
    leati_write_unlock(&lock);
    return is_device ? LEATC_OK : LEATC_INVALID_VALUE;
}

int leatc_memory_set_device(void *base, int ordinal)
{
    struct node *node;

    leati_write_lock(&lock);
    node = find((uintptr_t)base);
    if (node && node->memory.base != base)
        node = NULL;
    if (node)
        node->memory.ordinal = ordinal;
    leati_write_unlock(&lock);
    return node ? LEATC_OK : LEATC_INVALID_VALUE;
}

void leatc_memory_set_idle(void *base, bool idle)
{
    struct node *node;

    leati_write_lock(&lock);
    node = find((uintptr_t)base);
    if (node && node->memory.base == base)
        node->memory.idle = idle;
    leati_write_unlock(&lock);
}

void leatc_managed_reported(const void *ptr, bool sent)
{
    struct node *node;

    leati_write_lock(&lock);
    node = find((uintptr_t)ptr);
    if (node) {
        node->memory.reported = true;
        node->memory.sent |= sent;
    }
    leati_write_unlock(&lock);
}

int leatc_memory_add(const struct leatc_memory *memory)
{
    struct node *node = malloc(sizeof *node);

    if (!node)
        return LEATC_OUT_OF_MEMORY;
    node->memory = *memory;
    if (!node->memory.id)
        node->memory.id = leatc_memory_id();
    leati_write_lock(&lock);
    insert(node);
    leati_write_unlock(&lock);
    return LEATC_OK;
}

bool leatc_memory_take(void *ptr, struct leatc_memory *memory)
{
    struct node *node;

    leati_write_lock(&lock);
    node = take((uintptr_t)ptr);
    leati_write_unlock(&lock);
    if (node)
        *memory = node->memory;
    free(node);
    return node != NULL;
}

int leatc_memory_remove(void *base)
{
    struct leatc_memory memory;

    return leatc_memory_take(base, &memory) ? LEATC_OK : LEATC_INVALID_VALUE;
}

int leatc_memory_end(void *base, int (*give_back)(void *base))
{
    int result;

    leati_write_lock(&lock);
    result = give_back(base);
    if (result == LEATC_OK)
        free(take((uintptr_t)base));
    leati_write_unlock(&lock);
    return result;
}

/* Returns any allocation of the device, or NULL. The caller holds the lock. */
static struct node *find_of(struct node *node, int ordinal) LEATI_REQUIRES_SHARED(lock)
{
    struct node *found;

    if (!node || node->memory.ordinal == ordinal)
        return node;
    found = find_of(node->left, ordinal);
    return found ? found : find_of(node->right, ordinal);
}

void leatc_memory_close(struct leatc_device *device)
{
    struct node *node;

    leati_write_lock(&lock);
    while ((node = find_of(root, device->ordinal))) {
        leatc_share_end(LEATC_SHARE_MEMORY, node->memory.id);
        free(take(start(node)));
    }
    leati_write_unlock(&lock);
}

/* ---- allocating and freeing ---- */

/*
 * On the CPU device, leatc_alloc() takes memory from a pool whose blocks can be shared with other processes,
 * because a program asks for a handle only after the allocation. A block of this pool takes whole units of 2 MiB
 * of the device's memory. To limit the waste, at most this number of blocks smaller than 2 MiB comes from the
 * pool. On a GPU no block comes from it.
 */
#define SHARABLE_SMALL_MAX 256

static bool may_share(struct leatc_device *device, size_t bytes)
{
    if (!device->shared || bytes >= LEATC_SHARE_UNIT)
        return device->shared;
    if (atomic_fetch_add(&device->small_shared, 1) < SHARABLE_SMALL_MAX)
        return true;
    atomic_fetch_sub(&device->small_shared, 1);
    return false;
}

void leatc_memory_unshare(const struct leatc_memory *memory)
{
    if (!memory->sharable)
        return;
    leatc_share_end(LEATC_SHARE_MEMORY, memory->id);
    if (memory->bytes < LEATC_SHARE_UNIT)
        atomic_fetch_sub(&leatc_device_known(memory->ordinal)->small_shared, 1);
}

static int take_device_memory(struct leatc_device *device, struct leatc_memory *memory)
{
    memory->sharable = may_share(device, memory->bytes);
    if (memory->sharable) {
        if (leat_pool_alloc(NULL, device->shared, memory->bytes, &memory->base) == LEAT_OK)
            return LEATC_OK;
        leatc_memory_unshare(memory);
        memory->sharable = false;
    }
    return leatc_result_of(
        leat_memory_alloc(atomic_load(&device->native), LEAT_KIND_DEVICE, memory->bytes, &memory->base));
}

/* Allocates whole pages, because the driver stores advice for each page. */
static int take_managed_memory(struct leatc_device *device, struct leatc_memory *memory)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (memory->bytes + page - 1) / page * page;
    leat_pool *pool;
    leat_status status = leat_pool_default(atomic_load(&device->native), LEAT_KIND_MANAGED, &pool);

    if (bytes < memory->bytes)
        return LEATC_OUT_OF_MEMORY;
    if (status == LEAT_OK)
        status = leat_pool_alloc_aligned(NULL, pool, bytes, page, &memory->base);
    return leatc_result_of(status);
}

/* Takes back all advice about managed memory. The location of the last prefetch cannot be taken back. */
static void untell(const struct leatc_memory *memory)
{
    int count = 0;
    leat_device *place;

    (void)leat_managed_advise(memory->base, memory->bytes, LEAT_ADVICE_NOT_READ_MOSTLY, LEAT_HOST);
    (void)leat_managed_advise(memory->base, memory->bytes, LEAT_ADVICE_NOT_PREFERRED, LEAT_HOST);
    (void)leat_managed_advise(memory->base, memory->bytes, LEAT_ADVICE_NOT_ACCESSED_BY, LEAT_HOST);
    (void)leatc_device_count(&count);
    for (int i = 0; i < count; i++)
        if (leatc_device_is_open(i) && leatc_device_open(i, &place) == LEATC_OK)
            (void)leat_managed_advise(memory->base, memory->bytes, LEAT_ADVICE_NOT_ACCESSED_BY, place);
}

/* Trims the pool of managed memory, so that the driver gets unused pages back and forgets their last prefetch.
 * Otherwise the next allocation of these pages would report that prefetch. Pages that other managed memory still
 * uses stay. */
static void give_pages_back(const struct leatc_memory *memory)
{
    leat_pool *pool;
    leat_device *native = atomic_load(&leatc_device_known(memory->ordinal)->native);

    if (leat_pool_default(native, LEAT_KIND_MANAGED, &pool) == LEAT_OK)
        (void)leat_pool_trim(pool, 0, NULL, NULL);
}

static int take_memory(struct leatc_device *device, leat_kind kind, struct leatc_memory *memory)
{
    switch (kind) {
    case LEAT_KIND_DEVICE:
        return take_device_memory(device, memory);
    case LEAT_KIND_MANAGED:
        return take_managed_memory(device, memory);
    default:
        return leatc_result_of(
            leat_memory_alloc(atomic_load(&device->native), kind, memory->bytes, &memory->base));
    }
}

static int allocate(leat_kind kind, const struct leatc_memory *like, void **ptr)
{
    struct leatc_memory memory = *like;
    int result;
    struct leatc_device *device = leatc_device_here(&result);

    if (!ptr)
        return LEATC_INVALID_VALUE;
    if (!device)
        return result;
    LEATC_TRY(leatc_capture_refuse_unsafe());
    if (!memory.bytes) {
        *ptr = NULL;
        return LEATC_OK;
    }
    memory.ordinal = device->ordinal;
    LEATC_TRY(take_memory(device, kind, &memory));
    result = leatc_memory_add(&memory);
    if (result != LEATC_OK)
        leat_memory_free(memory.base);
    else
        *ptr = memory.base;
    return result;
}

int leatc_alloc(size_t bytes, void **ptr)
{
    return allocate(LEAT_KIND_DEVICE, &(struct leatc_memory){.bytes = bytes, .kind = LEATC_MEMORY_DEVICE}, ptr);
}

int leatc_alloc_host(size_t bytes, unsigned flags, void **ptr)
{
    return allocate(LEAT_KIND_PINNED,
                    &(struct leatc_memory){.bytes = bytes, .kind = LEATC_MEMORY_HOST, .flags = flags}, ptr);
}

int leatc_alloc_managed(size_t bytes, unsigned flags, void **ptr)
{
    if (!bytes || (flags != 1 && flags != 2))
        return LEATC_INVALID_VALUE;
    return allocate(LEAT_KIND_MANAGED,
                    &(struct leatc_memory){.bytes = bytes, .kind = LEATC_MEMORY_MANAGED, .flags = flags}, ptr);
}

/* Waits for the work that may use an allocation: the work of its device for device memory, and the work of all
 * devices for other memory. */
static int wait_for_users(const struct leatc_memory *memory)
{
    return memory->kind == LEATC_MEMORY_DEVICE ? leatc_device_wait(leatc_device_known(memory->ordinal))
                                               : leatc_devices_wait();
}

int leatc_devices_wait(void)
{
    int result = LEATC_OK, count = 0;

    LEATC_TRY(leatc_device_count(&count));
    for (int i = 0; i < count && result == LEATC_OK; i++)
        if (leatc_device_is_open(i))
            result = leatc_device_wait(leatc_device_known(i));
    return result;
}

/* Frees an allocation whose record the caller has taken out of the table. If that fails, puts the record back. */
static int give_back(const struct leatc_memory *memory)
{
    int result = wait_for_users(memory);

    if (result == LEATC_OK && memory->reported)
        untell(memory);
    if (result == LEATC_OK)
        result = memory->pool ? leatc_pool_free(memory, NULL) : leatc_result_of(leat_memory_free(memory->base));
    if (result != LEATC_OK) {
        (void)leatc_memory_add(memory);
        return result;
    }
    leatc_memory_unshare(memory);
    if (memory->reported)
        give_pages_back(memory);
    return LEATC_OK;
}

/* If an allocation of one of two kinds starts at ptr, takes its record out of the table. Returns false
 * otherwise. */
static bool take_kind(void *ptr, enum leatc_memory_kind first, enum leatc_memory_kind second,
                      struct leatc_memory *memory)
{
    struct node *node;

    leati_write_lock(&lock);
    node = find((uintptr_t)ptr);
    node = node && node->memory.base == ptr && !node->memory.foreign && !node->memory.block &&
                   (node->memory.kind == first || node->memory.kind == second)
               ? take((uintptr_t)ptr)
               : NULL;
    leati_write_unlock(&lock);
    if (node)
        *memory = node->memory;
    free(node);
    return node != NULL;
}

/* Frees memory of a graph. The physical memory stays with the graph. */
static int free_of_graph(const struct leatc_memory *memory)
{
    if (memory->idle)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(wait_for_users(memory));
    return leatc_graph_memory_free(memory->base, NULL);
}

int leatc_free(void *ptr)
{
    struct leatc_memory memory;

    LEATC_TRY(leatc_init());
    LEATC_TRY(leatc_capture_refuse_unsafe());
    if (!ptr)
        return LEATC_OK;
    if (take_kind(ptr, LEATC_MEMORY_DEVICE, LEATC_MEMORY_MANAGED, &memory))
        return give_back(&memory);
    if (leatc_memory_find(ptr, &memory) == LEATC_OK && memory.block)
        return memory.base == ptr ? free_of_graph(&memory) : LEATC_INVALID_VALUE;
    return leatc_share_is_open(ptr) ? leatc_share_close(ptr) : LEATC_INVALID_VALUE;
}

int leatc_free_host(void *ptr)
{
    struct leatc_memory memory;

    LEATC_TRY(leatc_init());
    LEATC_TRY(leatc_capture_refuse_unsafe());
    if (!ptr)
        return LEATC_OK;
    if (!take_kind(ptr, LEATC_MEMORY_HOST, LEATC_MEMORY_HOST, &memory))
        return LEATC_INVALID_VALUE;
    return give_back(&memory);
}

/* ---- registered memory of the program ---- */

int leatc_register(void *ptr, size_t bytes, unsigned flags)
{
    int result;
    struct leatc_device *device = leatc_device_here(&result);
    struct leatc_memory memory = {.base = ptr, .bytes = bytes, .kind = LEATC_MEMORY_REGISTERED, .flags = flags};
    struct leatc_memory known;

    if (!device)
        return result;
    if (!ptr || !bytes)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_capture_refuse_unsafe());
    if (leatc_memory_find(ptr, &known) == LEATC_OK && known.kind == LEATC_MEMORY_HOST)
        return LEATC_REGISTERED;
    memory.ordinal = device->ordinal;
    LEATC_TRY(leatc_result_of(leat_register(atomic_load(&device->native), ptr, bytes)));
    result = leatc_memory_add(&memory);
    if (result != LEATC_OK)
        leat_unregister(ptr);
    return result;
}

int leatc_unregister(void *ptr)
{
    struct leatc_memory memory;
    int result;

    LEATC_TRY(leatc_init());
    if (!ptr)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_capture_refuse_unsafe());
    if (!take_kind(ptr, LEATC_MEMORY_REGISTERED, LEATC_MEMORY_REGISTERED, &memory))
        return LEATC_NOT_REGISTERED;
    result = wait_for_users(&memory);
    if (result == LEATC_OK)
        result = leatc_result_of(leat_unregister(ptr));
    if (result != LEATC_OK)
        (void)leatc_memory_add(&memory);
    return result;
}

static bool is_host(const struct leatc_memory *memory)
{
    return memory->kind == LEATC_MEMORY_HOST || memory->kind == LEATC_MEMORY_REGISTERED;
}

int leatc_host_flags(const void *ptr, unsigned *flags)
{
    struct leatc_memory memory;

    if (!flags)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_init());
    LEATC_TRY(leatc_memory_find(ptr, &memory));
    if (!is_host(&memory))
        return LEATC_INVALID_VALUE;
    *flags = memory.flags;
    return LEATC_OK;
}

int leatc_host_device_pointer(void *ptr, void **device_pointer)
{
    struct leatc_memory memory;
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;

    if (!device_pointer)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_init());
    LEATC_TRY(leatc_memory_find(ptr, &memory));
    if (!is_host(&memory) && memory.kind != LEATC_MEMORY_MANAGED)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_result_of(leat_pointer_get_info(ptr, &info)));
    *device_pointer = info.device_pointer;
    return LEATC_OK;
}

size_t leatc_pitch(size_t width_bytes, size_t alignment)
{
    return width_bytes > SIZE_MAX - (alignment - 1) ? 0 : (width_bytes + alignment - 1) & ~(alignment - 1);
}
