/*
 * pool.c - implements pools with CUDA's semantics, each over one pool of leat, and allocation in stream order.
 *
 * After each wait, a vendor's pool gives back what it holds above its release threshold, which is 0 by default. A
 * leat pool keeps its memory until it is trimmed. So each free marks the device, and each wait trims the pools of
 * a marked device. A pool that is destroyed while it has live blocks ends with the last of them: its field
 * references counts the handle and the blocks.
 */
#include "base/lock.h"
#include "engine/inside.h"

struct leatc_pool {
    struct leati_handle handle;
    struct leatc_device *device;
    leat_pool *native;                /* NULL: the pool stands for a pool of another process */
    uint64_t id;                      /* unique in this process, also among allocations */
    uint64_t maker_process, maker_id; /* of a pool of another process: that process's number, and the pool's id
                                       * there */
    bool is_default, exportable;
    atomic_int references;
    unsigned visitors;       /* number of threads that trim the pool; the last one frees it if has_ended is set */
    bool has_ended;          /* the last reference is gone, or the device was closed */
    atomic_uint reuse_flags; /* leat_pool_reuse_method; written under reuse_lock */
    _Atomic uint64_t threshold;
    _Atomic uint64_t used, used_high;
    _Atomic uint64_t reserved_high; /* the maximum since the last reset that this file has seen; leat's own peak is
                                     * added when it is read */
    _Atomic uint64_t peak_at_reset; /* leat's peak when the maximum was reset; only a higher peak counts */
    _Atomic unsigned access[LEATC_DEVICES_MAX];
};

static struct leati_handles pools = LEATI_HANDLES(struct leatc_pool);

/* default_lock serializes the creation of default pools. reuse_lock is held while a pool's reuse flags change, so
 * that those in struct leatc_pool and those in leat's pool stay the same. live_lock is held while a handle is
 * retired, and guards visitors and has_ended of all pools. */
static struct leati_lock default_lock = LEATI_LOCK_INITIALIZER;
static struct leati_lock reuse_lock = LEATI_LOCK_INITIALIZER;
static struct leati_lock live_lock = LEATI_LOCK_INITIALIZER;

#define USED_STEP 512

static uint64_t rounded(size_t bytes)
{
    return ((uint64_t)bytes + USED_STEP - 1) & ~(uint64_t)(USED_STEP - 1);
}

int leatc_pool_check(struct leatc_pool *pool)
{
    LEATC_TRY(leatc_check_child());
    return leati_handle_live(&pools, pool) ? LEATC_OK : LEATC_INVALID_VALUE;
}

/* Initializes a pool and makes its handle live. The caller has set native, or leaves it NULL. */
static void begin_pool(struct leatc_pool *pool, struct leatc_device *device)
{
    pool->device = device;
    pool->id = leatc_memory_id();
    atomic_store_explicit(&pool->reuse_flags, LEAT_POOL_REUSE_METHOD_ALL, memory_order_relaxed);
    atomic_store_explicit(&pool->references, 1, memory_order_relaxed);
    atomic_store_explicit(&pool->access[device->ordinal], 3, memory_order_relaxed);
    leati_handle_publish(pool);
}

bool leatc_pool_is_exportable(const struct leatc_pool *pool)
{
    return pool->exportable;
}

uint64_t leatc_pool_id(const struct leatc_pool *pool)
{
    return pool->id;
}

bool leatc_pool_stands_for(struct leatc_pool *pool, uint64_t process, uint64_t id, int *ordinal)
{
    if (leatc_pool_check(pool) != LEATC_OK || pool->native || pool->maker_process != process ||
        pool->maker_id != id)
        return false;
    *ordinal = pool->device->ordinal;
    return true;
}

void leatc_pool_describe(struct leatc_pool *pool, struct leatc_pool_export *description)
{
    for (int i = 0; i < LEATC_DEVICES_MAX; i++)
        description->access[i] = (uint8_t)atomic_load(&pool->access[i]);
}

int leatc_pool_import(int ordinal, uint64_t process, uint64_t id, const struct leatc_pool_export *from,
                      struct leatc_pool **pool)
{
    int result;
    struct leatc_device *device = leatc_device_at(ordinal, &result);
    struct leatc_pool *made;

    if (!device)
        return result;
    made = leati_handle_new(&pools);
    if (!made)
        return LEATC_OUT_OF_MEMORY;
    made->maker_process = process;
    made->maker_id = id;
    for (int i = 0; from && i < LEATC_DEVICES_MAX; i++)
        atomic_store_explicit(&made->access[i], from->access[i], memory_order_relaxed);
    begin_pool(made, device);
    *pool = made;
    return LEATC_OK;
}

/* leat's pools hold memory in pages of 2 MiB, so limits are rounded up to a multiple of that. */
#define PAGE_BYTES ((uint64_t)2 << 20)

static uint64_t whole_pages(uint64_t bytes)
{
    return bytes > UINT64_MAX - (PAGE_BYTES - 1) ? 0 : (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static int new_pool(struct leatc_device *device, bool exportable, size_t max_bytes, struct leatc_pool **pool)
{
    leat_pool_options options = {.size = sizeof options,
                                 .kind = LEAT_KIND_DEVICE,
                                 .limit_bytes = whole_pages(max_bytes),
                                 .dedicated = exportable,
                                 .exportable = exportable};
    struct leatc_pool *made = leati_handle_new(&pools);
    leat_status status;

    if (!made)
        return LEATC_OUT_OF_MEMORY;
    status = leat_pool_create(atomic_load(&device->native), &options, &made->native);
    if (status != LEAT_OK) {
        leati_handle_free(&pools, made);
        return leatc_result_of(status);
    }
    made->exportable = exportable;
    begin_pool(made, device);
    *pool = made;
    return LEATC_OK;
}

int leatc_pool_create(int ordinal, bool exportable, size_t max_bytes, struct leatc_pool **pool)
{
    int result;
    struct leatc_device *device = leatc_device_at(ordinal, &result);

    if (!pool)
        return LEATC_INVALID_VALUE;
    return device ? new_pool(device, exportable, max_bytes, pool) : result;
}

static void free_pool(struct leatc_pool *pool)
{
    if (pool->native)
        (void)leat_pool_destroy(pool->native);
    leati_handle_free(&pools, pool);
}

/* Makes a pool invalid. Returns false if it is not live or, unless device is NULL, if it belongs to another
 * device. */
static bool retire(struct leatc_pool *pool, const struct leatc_device *device)
{
    bool retired;

    leati_lock(&live_lock);
    retired = leati_handle_live(&pools, pool) && (!device || pool->device == device) &&
              leati_handle_retire(&pools, pool);
    leati_unlock(&live_lock);
    return retired;
}

/* Called when the pool is no longer needed. Returns true if the caller must free it, false if a visitor will. */
static bool end_pool(struct leatc_pool *pool)
{
    bool visited;

    leati_lock(&live_lock);
    pool->has_ended = true;
    visited = pool->visitors > 0;
    leati_unlock(&live_lock);
    return !visited;
}

/* Begins a visit if the pool is live and belongs to the device: until leave_pool() the pool is not freed, even if
 * another thread destroys it. */
static bool visit_pool(struct leatc_pool *pool, const struct leatc_device *device)
{
    bool live;

    leati_lock(&live_lock);
    live = leati_handle_live(&pools, pool) && pool->device == device;
    if (live)
        pool->visitors++;
    leati_unlock(&live_lock);
    return live;
}

static void leave_pool(struct leatc_pool *pool)
{
    bool is_last;

    leati_lock(&live_lock);
    is_last = !--pool->visitors && pool->has_ended;
    leati_unlock(&live_lock);
    if (is_last)
        free_pool(pool);
}

static void drop(struct leatc_pool *pool)
{
    if (atomic_fetch_sub(&pool->references, 1) == 1 && end_pool(pool))
        free_pool(pool);
}

int leatc_pool_destroy(struct leatc_pool *pool)
{
    struct leatc_pool *expected = pool;

    LEATC_TRY(leatc_pool_check(pool));
    if (pool->is_default || !retire(pool, NULL))
        return LEATC_INVALID_VALUE;
    (void)atomic_compare_exchange_strong(&pool->device->current_pool, &expected, NULL);
    drop(pool);
    return LEATC_OK;
}

int leatc_pool_default(int ordinal, struct leatc_pool **pool)
{
    int result;
    struct leatc_device *device = leatc_device_at(ordinal, &result);
    struct leatc_pool *made = NULL;

    if (!pool)
        return LEATC_INVALID_VALUE;
    if (!device)
        return result;
    made = atomic_load_explicit(&device->default_pool, memory_order_acquire);
    if (!made) {
        leati_lock(&default_lock);
        /* Another thread may have made the pool while this thread waited for the lock. */
        made = atomic_load(&device->default_pool);
        if (!made && (result = new_pool(device, false, 0, &made)) == LEATC_OK) {
            made->is_default = true;
            atomic_store_explicit(&device->default_pool, made, memory_order_release);
        }
        leati_unlock(&default_lock);
    }
    if (result == LEATC_OK)
        *pool = made;
    return result;
}

int leatc_pool_current(int ordinal, struct leatc_pool **pool)
{
    int result;
    struct leatc_device *device = leatc_device_at(ordinal, &result);
    struct leatc_pool *set;

    if (!pool)
        return LEATC_INVALID_VALUE;
    if (!device)
        return result;
    set = atomic_load_explicit(&device->current_pool, memory_order_acquire);
    if (!set)
        return leatc_pool_default(ordinal, pool);
    *pool = set;
    return LEATC_OK;
}

int leatc_pool_set_current(int ordinal, struct leatc_pool *pool)
{
    int result;
    struct leatc_device *device = leatc_device_at(ordinal, &result);

    if (!device)
        return result;
    LEATC_TRY(leatc_pool_check(pool));
    if (pool->device != device || !pool->native)
        return LEATC_INVALID_VALUE;
    atomic_store(&device->current_pool, pool->is_default ? NULL : pool);
    return LEATC_OK;
}

/* Frees the pool's record. Closing the device then destroys leat's pool, and the reset removes the records of its
 * blocks. */
static void close_pool(void *object, void *device)
{
    struct leatc_pool *pool = object;

    if (retire(pool, device) && end_pool(pool))
        leati_handle_free(&pools, pool);
}

void leatc_pools_close(struct leatc_device *device)
{
    leati_handles_each(&pools, close_pool, device);
    atomic_store(&device->default_pool, NULL);
    atomic_store(&device->current_pool, NULL);
    atomic_store(&device->trim, false);
}

/* ---- attributes ---- */

static void raise_to(_Atomic uint64_t *high, uint64_t value)
{
    uint64_t seen = atomic_load_explicit(high, memory_order_relaxed);

    while (seen < value && !atomic_compare_exchange_weak(high, &seen, value))
        ;
}

static int figures_of(struct leatc_pool *pool, leat_pool_stats *figures)
{
    *figures = (leat_pool_stats){.size = sizeof *figures};
    if (!pool->native)
        return LEATC_OK; /* all figures stay 0: only the process that made the pool knows them */
    LEATC_TRY(leatc_result_of(leat_pool_get_stats(pool->native, figures)));
    raise_to(&pool->reserved_high, figures->reserved_bytes);
    if (figures->reserved_peak_bytes > atomic_load(&pool->peak_at_reset))
        raise_to(&pool->reserved_high, figures->reserved_peak_bytes);
    return LEATC_OK;
}

/* Returns leat's reuse flag for an attribute. */
static unsigned reuse_flag_of(int attribute)
{
    return attribute == LEATC_POOL_REUSE_FOLLOW_EVENTS   ? LEAT_POOL_REUSE_METHOD_ORDERED
           : attribute == LEATC_POOL_REUSE_OPPORTUNISTIC ? LEAT_POOL_REUSE_METHOD_FINISHED
                                                         : LEAT_POOL_REUSE_METHOD_WAITING;
}

static int set_reuse_flag(struct leatc_pool *pool, unsigned flag, bool on)
{
    int result = LEATC_OK;
    unsigned reuse_flags;

    leati_lock(&reuse_lock);
    reuse_flags = on ? atomic_load(&pool->reuse_flags) | flag : atomic_load(&pool->reuse_flags) & ~flag;
    if (pool->native)
        result = leatc_result_of(leat_pool_set_reuse_methods(pool->native, reuse_flags));
    if (result == LEATC_OK)
        atomic_store(&pool->reuse_flags, reuse_flags);
    leati_unlock(&reuse_lock);
    return result;
}

int leatc_pool_set(struct leatc_pool *pool, int attribute, const void *value)
{
    leat_pool_stats figures = LEAT_POOL_STATS_INIT;

    LEATC_TRY(leatc_pool_check(pool));
    if (!value)
        return LEATC_INVALID_VALUE;
    switch (attribute) {
    case LEATC_POOL_REUSE_FOLLOW_EVENTS:
    case LEATC_POOL_REUSE_OPPORTUNISTIC:
    case LEATC_POOL_REUSE_INTERNAL:
        return set_reuse_flag(pool, reuse_flag_of(attribute), *(const int *)value != 0);
    case LEATC_POOL_RELEASE_THRESHOLD:
        atomic_store(&pool->threshold, *(const uint64_t *)value);
        atomic_store(&pool->device->trim, true);
        return LEATC_OK;
    case LEATC_POOL_RESERVED_HIGH:
        if (*(const uint64_t *)value)
            return LEATC_INVALID_VALUE;
        LEATC_TRY(figures_of(pool, &figures));
        atomic_store(&pool->peak_at_reset, figures.reserved_peak_bytes);
        atomic_store(&pool->reserved_high, figures.reserved_bytes);
        return LEATC_OK;
    case LEATC_POOL_USED_HIGH:
        if (*(const uint64_t *)value)
            return LEATC_INVALID_VALUE;
        atomic_store(&pool->used_high, atomic_load(&pool->used));
        return LEATC_OK;
    default:
        return LEATC_INVALID_VALUE;
    }
}

int leatc_pool_get(struct leatc_pool *pool, int attribute, void *value)
{
    leat_pool_stats figures = LEAT_POOL_STATS_INIT;

    LEATC_TRY(leatc_pool_check(pool));
    if (!value)
        return LEATC_INVALID_VALUE;
    switch (attribute) {
    case LEATC_POOL_REUSE_FOLLOW_EVENTS:
    case LEATC_POOL_REUSE_OPPORTUNISTIC:
    case LEATC_POOL_REUSE_INTERNAL:
        *(int *)value = (atomic_load(&pool->reuse_flags) & reuse_flag_of(attribute)) != 0;
        return LEATC_OK;
    case LEATC_POOL_RELEASE_THRESHOLD:
        *(uint64_t *)value = atomic_load(&pool->threshold);
        return LEATC_OK;
    case LEATC_POOL_USED_CURRENT:
        *(uint64_t *)value = atomic_load(&pool->used);
        return LEATC_OK;
    case LEATC_POOL_USED_HIGH:
        *(uint64_t *)value = atomic_load(&pool->used_high);
        return LEATC_OK;
    case LEATC_POOL_RESERVED_CURRENT:
    case LEATC_POOL_RESERVED_HIGH:
        LEATC_TRY(figures_of(pool, &figures));
        *(uint64_t *)value =
            attribute == LEATC_POOL_RESERVED_CURRENT ? figures.reserved_bytes : atomic_load(&pool->reserved_high);
        return LEATC_OK;
    default:
        return LEATC_INVALID_VALUE;
    }
}

int leatc_pool_trim(struct leatc_pool *pool, size_t keep_bytes)
{
    leat_pool_stats figures = LEAT_POOL_STATS_INIT;

    LEATC_TRY(leatc_pool_check(pool));
    LEATC_TRY(figures_of(pool, &figures));
    if (!pool->native)
        return LEATC_OK;
    return leatc_result_of(leat_pool_trim(pool->native, keep_bytes, NULL, NULL));
}

/* Gives back the memory that a pool holds above its release threshold. If pending work still uses freed blocks,
 * marks the device again, so that the next wait trims the pool again. */
static void trim_to_threshold(struct leatc_pool *pool)
{
    uint64_t threshold = atomic_load(&pool->threshold), pending = 0;
    leat_pool_stats figures = LEAT_POOL_STATS_INIT;

    if (!pool->native || threshold == UINT64_MAX || figures_of(pool, &figures) != LEATC_OK ||
        figures.reserved_bytes <= threshold)
        return;
    if (leat_pool_trim(pool->native, threshold, NULL, &pending) == LEAT_OK && pending)
        atomic_store(&pool->device->trim, true);
}

static void visit_to_trim(void *pool, void *device)
{
    if (!visit_pool(pool, device))
        return;
    trim_to_threshold(pool);
    leave_pool(pool);
}

void leatc_pools_trim(struct leatc_device *device)
{
    atomic_store(&device->trim, false);
    leatc_graph_memory_waited(device);
    leati_handles_each(&pools, visit_to_trim, device);
}

int leatc_pool_set_access(struct leatc_pool *pool, int ordinal, unsigned access)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    int possible = 0;

    LEATC_TRY(leatc_pool_check(pool));
    if (access != 0 && access != 1 && access != 3)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_device_describe(ordinal, &info));
    if (ordinal == pool->device->ordinal)
        return access == 3 ? LEATC_OK : LEATC_INVALID_DEVICE;
    LEATC_TRY(leatc_peer_possible(ordinal, pool->device->ordinal, &possible));
    if (!possible && access)
        return LEATC_INVALID_DEVICE;
    atomic_store(&pool->access[ordinal], access);
    return LEATC_OK;
}

int leatc_pool_access(struct leatc_pool *pool, int ordinal, unsigned *access)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    LEATC_TRY(leatc_pool_check(pool));
    LEATC_TRY(leatc_device_describe(ordinal, &info));
    if (!access)
        return LEATC_INVALID_VALUE;
    *access = atomic_load(&pool->access[ordinal]);
    return LEATC_OK;
}

/* ---- blocks ---- */

static int take_block(struct leatc_pool *pool, size_t bytes, struct leatc_work *work, void **ptr)
{
    struct leatc_memory memory = {.bytes = bytes,
                                  .kind = LEATC_MEMORY_DEVICE,
                                  .ordinal = pool->device->ordinal,
                                  .pool = pool,
                                  .id = leatc_memory_id()};
    /* A pool cannot order its blocks with a stream of another device. For such a stream, allocate without a
     * stream: the block is usable at once. */
    bool at_once = work->ordinal != pool->device->ordinal;
    int result;

    LEATC_TRY(leatc_result_of(leat_pool_alloc(at_once ? NULL : work->stream, pool->native, bytes, &memory.base)));
    result = leatc_memory_add(&memory);
    if (result != LEATC_OK) {
        leat_memory_free(memory.base);
        return result;
    }
    /* Each block holds a reference, so that after leatc_pool_destroy() the pool lives until the last block is
     * freed. */
    atomic_fetch_add(&pool->references, 1);
    raise_to(&pool->used_high, atomic_fetch_add(&pool->used, rounded(bytes)) + rounded(bytes));
    *ptr = memory.base;
    return LEATC_OK;
}

int leatc_alloc_async(struct leatc_pool *pool, size_t bytes, struct leatc_stream *stream, void **ptr)
{
    struct leatc_work work;

    if (!ptr)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_work_begin_capturable(stream, &work));
    if (!pool)
        LEATC_TRY(leatc_pool_current(work.ordinal, &pool));
    LEATC_TRY(leatc_pool_check(pool));
    if (!pool->native)
        return LEATC_INVALID_VALUE;
    if (!bytes) {
        *ptr = NULL;
        return LEATC_OK;
    }
    if (work.captured)
        return leatc_capture_alloc(&work, pool->device->ordinal, bytes, ptr);
    return take_block(pool, bytes, &work, ptr);
}

/* Frees a block in the order of a stream, which may belong to another device. */
static leat_status free_on(const struct leatc_memory *memory, leat_stream *stream, int ordinal)
{
    struct leatc_device *device = leatc_device_known(memory->ordinal);
    leat_status status;

    if (ordinal == memory->ordinal || memory->kind != LEATC_MEMORY_DEVICE)
        return leat_free(stream, memory->base);
    /* Free the block in a stream of its own device. leat_block_use() prevents its reuse until the other stream has
     * completed its work. */
    status = leat_block_use(stream, memory->base);
    return status == LEAT_OK ? leat_free(device->legacy->native, memory->base) : status;
}

int leatc_pool_free(const struct leatc_memory *memory, leat_stream *stream)
{
    struct leatc_pool *pool = memory->pool;
    int ordinal = memory->ordinal;
    leat_device *device;

    if (stream && leat_stream_device(stream, &device) == LEAT_OK)
        ordinal = leatc_device_ordinal(device);
    LEATC_TRY(leatc_result_of(stream ? free_on(memory, stream, ordinal) : leat_memory_free(memory->base)));
    leatc_memory_unshare(memory);
    if (pool) {
        leatc_share_end(LEATC_SHARE_MEMORY, memory->id);
        atomic_fetch_sub(&pool->used, rounded(memory->bytes));
        if (atomic_load_explicit(&pool->threshold, memory_order_relaxed) != UINT64_MAX)
            atomic_store_explicit(&pool->device->trim, true, memory_order_relaxed);
        drop(pool);
    }
    return LEATC_OK;
}

/* Closes imported memory. leat unmaps the memory at once, so this function first waits for the earlier work of the
 * stream. */
static int close_import(void *ptr, struct leatc_work *work)
{
    if (work->captured)
        return leatc_capture_refuse(work->record);
    LEATC_TRY(leatc_result_of(leat_stream_synchronize(work->stream)));
    return leatc_share_close(ptr);
}

static int free_on_work(void *ptr, struct leatc_work *work)
{
    struct leatc_memory memory;
    int result;

    if (!leatc_memory_take(ptr, &memory))
        return LEATC_INVALID_VALUE;
    result = leatc_pool_free(&memory, work->stream);
    if (result != LEATC_OK)
        (void)leatc_memory_add(&memory);
    return result;
}

/* Frees memory of a graph, in the order of the stream. */
static int free_of_graph(void *ptr, struct leatc_work *work)
{
    LEATC_TRY(leatc_graph_memory_free(ptr, work->stream));
    return leatc_work_end(work, LEAT_OK);
}

int leatc_free_async(void *ptr, struct leatc_stream *stream)
{
    struct leatc_work work;
    struct leatc_memory memory;
    int result;

    LEATC_TRY(leatc_work_begin_capturable(stream, &work));
    if (!ptr)
        return LEATC_OK;
    LEATC_TRY(leatc_memory_find(ptr, &memory));
    if (memory.base == ptr && memory.foreign && leatc_share_is_open(ptr))
        return close_import(ptr, &work);
    if (memory.base != ptr || memory.kind != LEATC_MEMORY_DEVICE || memory.foreign)
        return LEATC_INVALID_VALUE;
    if (work.captured)
        return leatc_capture_free(&work, ptr);
    if (memory.block)
        return free_of_graph(ptr, &work);
    result = free_on_work(ptr, &work);
    return leatc_work_end(&work, LEAT_OK) == LEATC_OK ? result : LEATC_UNKNOWN;
}
