/*
 * graph_memory.c - manages the memory that nodes of graphs allocate.
 *
 * The address of an allocation is fixed when its node is created; physical memory is mapped there at the first
 * launch. Address and memory belong to an arena: a reservation of virtual addresses on one device for the
 * allocations of one graph, and one piece of physical memory, which may be mapped at these addresses. An
 * allocation is live from the launch of its node until a node or a call frees it. The moment of the call counts,
 * not the completion of the work: the program must order its own work. Freed memory stays in its arena, so that no
 * other allocation gets its addresses.
 *
 * An allocation ends when no task refers to it and it is not live. An arena ends with its last allocation. Memory
 * may be unmapped only when the work that uses it has completed. To detect this, each launch and each free in
 * stream order records an event for the arena, called a mark.
 */
#include "base/lock.h"
#include "engine/inside.h"

#include <leat/virtual.h>
#include <stdlib.h>

/* An event after work that uses an arena. The work is the latest launch of the executable graph whose id is key,
 * or one free (key 0). */
struct mark {
    struct mark *next;
    unsigned long long key;
    leat_event *event;
    leat_device *device;
};

struct arena {
    struct arena *next;
    struct leatc_device *device;
    unsigned long long graph; /* id of the graph whose allocations may be placed in this arena */
    uint64_t peers;           /* bit n: device n has access to the memory too */
    bool gone;                /* the device was closed, which released the addresses and the memory */
    char *base;
    size_t bytes, used;
    leat_physical *physical; /* the memory that is mapped at base; NULL: none */
    struct leatc_block *blocks;
    unsigned live;
    unsigned pins; /* number of launches of this memory that are being submitted */
    struct mark *marks;
};

struct leatc_block {
    struct leatc_block *next; /* next block of the arena */
    struct arena *arena;
    char *ptr;
    size_t bytes;
    unsigned long long owner; /* id of the graph whose node allocates this block */
    unsigned references;      /* one reference for each task, and one while the block is live */
    unsigned freed_by_owner, freed_by_others;
    bool live;
    bool next_live; /* used by check_launch(): whether the block is live after the nodes that were checked so
                     * far */
};

struct alloc_payload {
    struct leatc_alloc_task shown;
    struct leatc_block *block;
};

struct free_payload {
    struct leatc_free_task shown;
    struct leatc_block *block;
    bool by_owner;
};

/* Guards the arenas, their blocks and marks, and the usage figures. */
static struct leati_lock lock = LEATI_LOCK_INITIALIZER;
static struct arena *arenas LEATI_GUARDED_BY(lock);

static struct {
    uint64_t used, used_high, reserved, reserved_high;
} figures[LEATC_DEVICES_MAX];

#define BLOCK_STEP ((size_t)512)

static size_t rounded(size_t bytes, size_t step)
{
    leati_assert(step);
    return (bytes + step - 1) / step * step;
}

static void count_up(uint64_t *value, uint64_t *high, uint64_t bytes)
{
    *value += bytes;
    if (*value > *high)
        *high = *value;
}

/* ---- marks ---- */

static void free_mark(struct mark **link)
{
    struct mark *mark = *link;

    leati_assert_locked(&lock);
    *link = mark->next;
    (void)leat_event_destroy(mark->event);
    free(mark);
}

/* Returns true if work that may use the arena has not completed. Also frees the marks of completed work. */
static bool is_busy(struct arena *arena)
{
    leati_assert_locked(&lock);
    for (struct mark **link = &arena->marks; *link;) {
        if (leat_event_query((*link)->event) == LEAT_NOT_READY)
            link = &(*link)->next;
        else
            free_mark(link);
    }
    return arena->pins || arena->marks;
}

static struct mark *find_mark(const struct arena *arena, unsigned long long key, const leat_device *device)
{
    struct mark *mark = arena->marks;

    /* Each free has a mark of its own with key 0, so key 0 never finds an existing mark. */
    while (mark && !(key && mark->key == key && mark->device == device))
        mark = mark->next;
    return mark;
}

static struct mark *new_mark(struct arena *arena, unsigned long long key, leat_device *device)
{
    struct mark *mark = malloc(sizeof *mark);

    leati_assert_locked(&lock);
    if (!mark)
        return NULL;
    *mark = (struct mark){.next = arena->marks, .key = key, .device = device};
    if (leat_event_create(device, &mark->event) != LEAT_OK) {
        free(mark);
        return NULL;
    }
    arena->marks = mark;
    return mark;
}

static void mark_busy(struct arena *arena, unsigned long long key, leat_stream *stream)
{
    leat_device *device = NULL;
    struct mark *mark = NULL;

    if (leat_stream_device(stream, &device) != LEAT_OK)
        return; /* the device of the stream was closed, so no work is pending */
    mark = find_mark(arena, key, device);
    if (!mark) {
        (void)is_busy(arena);
        mark = new_mark(arena, key, device);
    }
    /* If no event can be recorded, the completion of the work cannot be detected later, so wait for the work
     * now. */
    if (!mark || leat_event_record(stream, mark->event) != LEAT_OK)
        (void)leat_stream_synchronize(stream);
}

/* ---- arenas ---- */

static int map(struct arena *arena)
{
    leat_device *native = atomic_load(&arena->device->native), *peer;
    leat_physical *physical = NULL;
    leat_status status;

    leati_assert_locked(&lock);
    leati_assert(arena->base && arena->bytes && !arena->gone);
    if (arena->physical)
        return LEATC_OK;
    LEATC_TRY(leatc_result_of(leat_physical_create(native, arena->bytes, 0, &physical)));
    status = leat_virtual_map(arena->base, arena->bytes, physical);
    if (status != LEAT_OK) {
        leat_physical_release(physical);
        return leatc_result_of(status);
    }
    status = leat_virtual_set_access(native, arena->base, arena->bytes, LEAT_ACCESS_READ_WRITE);
    for (int i = 0; i < LEATC_DEVICES_MAX && status == LEAT_OK; i++) {
        peer = arena->peers >> i & 1 ? atomic_load(&leatc_device_known(i)->native) : NULL;
        if (peer && peer != native)
            status = leat_virtual_set_access(peer, arena->base, arena->bytes, LEAT_ACCESS_READ_WRITE);
    }
    if (status != LEAT_OK) {
        (void)leat_virtual_unmap(arena->base, arena->bytes);
        leat_physical_release(physical);
        return leatc_result_of(status);
    }
    arena->physical = physical;
    count_up(&figures[arena->device->ordinal].reserved, &figures[arena->device->ordinal].reserved_high,
             arena->bytes);
    return LEATC_OK;
}

/* Unmaps the memory of an arena. Returns false if this is impossible now, because the calling thread runs a host
 * function. */
static bool unmap(struct arena *arena)
{
    leati_assert_locked(&lock);
    if (!arena->physical)
        return true;
    if (leat_virtual_unmap(arena->base, arena->bytes) == LEAT_ERROR_NOT_PERMITTED)
        return false;
    (void)leat_physical_release(arena->physical);
    arena->physical = NULL;
    leati_assert(figures[arena->device->ordinal].reserved >= arena->bytes);
    figures[arena->device->ordinal].reserved -= arena->bytes;
    return true;
}

/* Postpones the end of an arena until some thread waits for the device (leatc_graph_memory_waited()). */
static void put_off(const struct arena *arena)
{
    atomic_store(&arena->device->trim, true);
}

static void end_arena(struct arena *arena)
{
    struct arena **link = &arenas;

    leati_assert_locked(&lock);
    leati_assert(!arena->blocks && !arena->live);
    if (!arena->gone && (!unmap(arena) || leat_virtual_unreserve(arena->base) == LEAT_ERROR_NOT_PERMITTED)) {
        put_off(arena);
        return;
    }
    while (*link != arena)
        link = &(*link)->next;
    *link = arena->next;
    free(arena);
}

/* Ends an arena without allocations: now if no work uses the arena, otherwise after a thread has waited for that
 * work. */
static void end_if_idle(struct arena *arena)
{
    if (arena->blocks)
        return;
    if (is_busy(arena))
        put_off(arena);
    else
        end_arena(arena);
}

static int new_arena(unsigned long long graph, struct leatc_device *device, uint64_t peers, size_t bytes,
                     struct arena **made) LEATI_REQUIRES(lock)
{
    leat_device *native = atomic_load(&device->native);
    struct arena *arena;
    void *base = NULL;
    size_t unit;
    int result;

    leati_assert_locked(&lock);
    LEATC_TRY(leatc_result_of(leat_virtual_granularity(native, &unit)));
    if (bytes > SIZE_MAX - unit)
        return LEATC_OUT_OF_MEMORY;
    arena = calloc(1, sizeof *arena);
    if (!arena)
        return LEATC_OUT_OF_MEMORY;
    arena->bytes = rounded(bytes, unit);
    result = leatc_result_of(leat_virtual_reserve(native, arena->bytes, 0, &base));
    if (result != LEATC_OK) {
        free(arena);
        return result;
    }
    leati_assert(arena->bytes % unit == 0 && base);
    arena->base = base;
    arena->device = device;
    arena->graph = graph;
    arena->peers = peers;
    arena->next = arenas;
    arenas = arena;
    *made = arena;
    return LEATC_OK;
}

static int arena_for(unsigned long long graph, struct leatc_device *device, uint64_t peers, size_t bytes,
                     struct arena **found) LEATI_REQUIRES(lock)
{
    leati_assert_locked(&lock);
    for (struct arena *arena = arenas; arena; arena = arena->next)
        if (arena->graph == graph && arena->device == device && arena->peers == peers && !arena->gone &&
            arena->bytes - arena->used >= bytes) {
            *found = arena;
            return LEATC_OK;
        }
    return new_arena(graph, device, peers, bytes, found);
}

/* ---- allocations ---- */

static uint64_t counted(const struct leatc_block *block)
{
    return rounded(block->bytes, BLOCK_STEP);
}

static void drop_block(struct leatc_block *block)
{
    struct arena *arena = block->arena;
    struct leatc_block **link = &arena->blocks;

    leati_assert(block->references);
    if (--block->references)
        return;
    leati_assert(!block->live);
    if (!arena->gone)
        (void)leatc_memory_remove(block->ptr);
    while (*link != block)
        link = &(*link)->next;
    *link = block->next;
    free(block);
    end_if_idle(arena);
}

static void begin_live(struct leatc_block *block)
{
    int ordinal = block->arena->device->ordinal;

    leati_assert_locked(&lock);
    leati_assert(!block->live && block->references);
    block->live = true;
    block->references++;
    block->arena->live++;
    count_up(&figures[ordinal].used, &figures[ordinal].used_high, counted(block));
    leatc_memory_set_idle(block->ptr, false);
}

static void end_live(struct leatc_block *block)
{
    leati_assert_locked(&lock);
    leati_assert(block->live && block->arena->live);
    block->live = false;
    block->arena->live--;
    leati_assert(figures[block->arena->device->ordinal].used >= counted(block));
    figures[block->arena->device->ordinal].used -= counted(block);
    leatc_memory_set_idle(block->ptr, true);
    drop_block(block);
}

static int new_block(unsigned long long graph, struct leatc_device *device, uint64_t peers, size_t bytes,
                     struct leatc_block **made) LEATI_REQUIRES(lock)
{
    struct leatc_block *block = calloc(1, sizeof *block);
    struct arena *arena = NULL;
    int result = block ? arena_for(graph, device, peers, rounded(bytes, BLOCK_STEP), &arena) : LEATC_OUT_OF_MEMORY;

    leati_assert_locked(&lock);
    if (result == LEATC_OK) {
        *block = (struct leatc_block){.next = arena->blocks,
                                      .arena = arena,
                                      .ptr = arena->base + arena->used,
                                      .bytes = bytes,
                                      .owner = graph,
                                      .references = 1};
        result = leatc_memory_add(&(struct leatc_memory){.base = block->ptr,
                                                         .bytes = bytes,
                                                         .kind = LEATC_MEMORY_DEVICE,
                                                         .ordinal = device->ordinal,
                                                         .block = block,
                                                         .idle = true});
        if (result != LEATC_OK)
            end_if_idle(arena);
    }
    if (result != LEATC_OK) {
        free(block);
        return result;
    }
    leati_assert(arena->used + rounded(bytes, BLOCK_STEP) <= arena->bytes);
    arena->used += rounded(bytes, BLOCK_STEP);
    arena->blocks = block;
    *made = block;
    return LEATC_OK;
}

/* ---- tasks ---- */

static void end_alloc(void *payload)
{
    leati_lock(&lock);
    if (((struct alloc_payload *)payload)->block)
        drop_block(((struct alloc_payload *)payload)->block);
    leati_unlock(&lock);
}

int leatc_graph_alloc(unsigned long long id, int ordinal, uint64_t peers, size_t bytes, struct leatc_task **task)
{
    int result;
    struct leatc_device *device = leatc_device_at(ordinal, &result);
    struct alloc_payload *payload;
    struct leatc_task *made;

    if (!device)
        return result;
    if (!bytes)
        return LEATC_INVALID_VALUE;
    if (bytes > SIZE_MAX - BLOCK_STEP)
        return LEATC_OUT_OF_MEMORY;
    for (int i = 0; i < LEATC_DEVICES_MAX; i++)
        if (peers >> i & 1)
            LEATC_TRY(leatc_device_open(i, NULL));
    made = leatc_task_new(LEATC_NODE_ALLOC, NULL, end_alloc, sizeof *payload);
    if (!made)
        return LEATC_OUT_OF_MEMORY;
    payload = (struct alloc_payload *)(void *)made->payload;
    leati_lock(&lock);
    result = new_block(id, device, peers, bytes, &payload->block);
    leati_unlock(&lock);
    if (result != LEATC_OK) {
        leatc_task_drop(made);
        return result;
    }
    payload->shown = (struct leatc_alloc_task){payload->block->ptr, bytes, ordinal};
    *task = made;
    return LEATC_OK;
}

static void end_free(void *payload)
{
    struct free_payload *freed = payload;

    if (!freed->block)
        return;
    leati_lock(&lock);
    if (freed->by_owner)
        freed->block->freed_by_owner--;
    else
        freed->block->freed_by_others--;
    drop_block(freed->block);
    leati_unlock(&lock);
}

/* Returns true if a node of the graph already frees the block. */
static bool frees(const struct leatc_graph *graph, const struct leatc_block *block)
{
    for (size_t i = 0; i < graph->count; i++) {
        const struct leatc_task *task = graph->nodes[i]->task;

        if (task->type == LEATC_NODE_FREE &&
            ((const struct free_payload *)(const void *)task->payload)->block == block)
            return true;
    }
    return false;
}

/* Checks that a new node may free the allocation at ptr, and counts the node. The caller holds both locks. */
static int begin_free(const struct leatc_graph *graph, void *ptr, struct free_payload *payload)
    LEATI_REQUIRES(leatc_graph_lock)
{
    struct leatc_memory memory;
    struct leatc_block *block;
    bool by_owner;

    if (!leatc_graph_live(graph) || leatc_memory_find(ptr, &memory) != LEATC_OK || memory.base != ptr ||
        !memory.block)
        return LEATC_INVALID_VALUE;
    block = memory.block;
    by_owner = block->owner == graph->id;
    if (block->freed_by_owner || (by_owner && block->freed_by_others) || frees(graph, block))
        return LEATC_INVALID_VALUE;
    block->freed_by_owner += by_owner;
    block->freed_by_others += !by_owner;
    block->references++;
    *payload = (struct free_payload){.shown = {ptr}, .block = block, .by_owner = by_owner};
    return LEATC_OK;
}

int leatc_graph_free(const struct leatc_graph *graph, void *ptr, struct leatc_task **task)
{
    struct leatc_task *made = leatc_task_new(LEATC_NODE_FREE, NULL, end_free, sizeof(struct free_payload));
    int result;

    leati_assert_locked(&leatc_graph_lock);
    if (!made)
        return LEATC_OUT_OF_MEMORY;
    leati_lock(&lock);
    result = begin_free(graph, ptr, (struct free_payload *)(void *)made->payload);
    leati_unlock(&lock);
    if (result == LEATC_OK)
        *task = made;
    else
        leatc_task_drop(made);
    return result;
}

int leatc_free_make(struct leatc_graph *graph, void *ptr, struct leatc_task **task)
{
    int result;

    leatc_graphs_lock();
    result = leatc_graph_free(graph, ptr, task);
    leatc_graphs_unlock();
    return result;
}

/* ---- launches ---- */

static struct leatc_block *block_of(const struct leatc_task *task)
{
    return task->type == LEATC_NODE_ALLOC ? ((const struct alloc_payload *)(const void *)task->payload)->block
                                          : ((const struct free_payload *)(const void *)task->payload)->block;
}

/* Goes through the nodes in the order of the launch. Returns OK if each node that allocates finds its allocation
 * not live, and each node that frees finds its allocation live. */
static int check_launch(struct leatc_task *const *tasks, size_t count, bool auto_free)
{
    for (size_t i = 0; i < count; i++)
        block_of(tasks[i])->next_live = block_of(tasks[i])->live;
    for (size_t i = 0; auto_free && i < count; i++)
        if (tasks[i]->type == LEATC_NODE_ALLOC)
            block_of(tasks[i])->next_live = false;
    for (size_t i = 0; i < count; i++) {
        struct leatc_block *block = block_of(tasks[i]);
        bool allocates = tasks[i]->type == LEATC_NODE_ALLOC;

        if (block->arena->gone || block->next_live == allocates)
            return LEATC_INVALID_VALUE;
        block->next_live = allocates;
    }
    return LEATC_OK;
}

static int map_all(struct leatc_task *const *tasks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (tasks[i]->type == LEATC_NODE_ALLOC && !block_of(tasks[i])->arena->gone)
            LEATC_TRY(map(block_of(tasks[i])->arena));
    return LEATC_OK;
}

/* Makes the stream wait for earlier work that used the memory: frees in other streams, and launches of other
 * executable graphs. Launches of the executable graph key are ordered among themselves, so it does not wait for
 * them. */
static void wait_for_frees(struct leatc_task *const *tasks, size_t count, unsigned long long key,
                           leat_stream *stream)
{
    const struct arena *latest = NULL;

    for (size_t i = 0; i < count; i++) {
        struct arena *arena = block_of(tasks[i])->arena;

        if (tasks[i]->type != LEATC_NODE_ALLOC || arena == latest)
            continue;
        latest = arena;
        for (const struct mark *mark = arena->marks; mark; mark = mark->next)
            if (mark->key != key && leat_event_query(mark->event) == LEAT_NOT_READY &&
                leat_stream_wait(stream, mark->event) != LEAT_OK)
                (void)leat_event_synchronize(mark->event);
    }
}

int leatc_graph_memory_launch(struct leatc_task *const *tasks, size_t count, bool auto_free,
                              unsigned long long key, leat_stream *stream)
{
    int result;

    if (!count)
        return LEATC_OK;
    leati_lock(&lock);
    result = check_launch(tasks, count, auto_free);
    if (result == LEATC_OK)
        result = map_all(tasks, count);
    if (result == LEATC_OK) {
        wait_for_frees(tasks, count, key, stream);
        for (size_t i = 0; i < count; i++) {
            /* The pin keeps the arena alive until leatc_graph_memory_busy() has recorded a mark for this
             * launch. */
            block_of(tasks[i])->arena->pins++;
            /* This happens only with auto_free: an earlier launch left this allocation live. */
            if (tasks[i]->type == LEATC_NODE_ALLOC && block_of(tasks[i])->live)
                end_live(block_of(tasks[i]));
        }
        for (size_t i = 0; i < count; i++) {
            if (tasks[i]->type == LEATC_NODE_ALLOC)
                begin_live(block_of(tasks[i]));
            else
                end_live(block_of(tasks[i]));
        }
    }
    leati_unlock(&lock);
    return result;
}

int leatc_graph_memory_map(struct leatc_task *const *tasks, size_t count)
{
    int result;

    leati_lock(&lock);
    result = map_all(tasks, count);
    leati_unlock(&lock);
    return result;
}

void leatc_graph_memory_busy(struct leatc_task *const *tasks, size_t count, unsigned long long key,
                             leat_stream *stream)
{
    const struct arena *latest = NULL;

    leati_lock(&lock);
    for (size_t i = 0; i < count; i++) {
        struct arena *arena = block_of(tasks[i])->arena;

        arena->pins--;
        if (arena != latest && !arena->gone)
            mark_busy(arena, key, stream);
        latest = arena;
    }
    leati_unlock(&lock);
}

int leatc_graph_memory_free(void *ptr, leat_stream *stream)
{
    struct leatc_memory memory;
    int result = LEATC_INVALID_VALUE;

    leati_lock(&lock);
    if (leatc_memory_find(ptr, &memory) == LEATC_OK && memory.base == ptr && memory.block && memory.block->live) {
        if (stream)
            mark_busy(memory.block->arena, 0, stream);
        end_live(memory.block);
        result = LEATC_OK;
    }
    leati_unlock(&lock);
    return result;
}

/* ---- devices ---- */

int leatc_graph_memory_trim(int ordinal)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    LEATC_TRY(leatc_device_describe(ordinal, &info));
    leati_lock(&lock);
    for (struct arena *arena = arenas, *next; arena; arena = next) {
        next = arena->next;
        if (arena->device->ordinal != ordinal || arena->gone || arena->live || is_busy(arena))
            continue;
        if (arena->blocks)
            (void)unmap(arena);
        else
            end_arena(arena);
    }
    leati_unlock(&lock);
    return LEATC_OK;
}

void leatc_graph_memory_waited(struct leatc_device *device)
{
    leati_lock(&lock);
    for (struct arena *arena = arenas, *next; arena; arena = next) {
        next = arena->next;
        if (arena->device == device)
            end_if_idle(arena);
    }
    leati_unlock(&lock);
}

/* Ends the live allocations of an arena and releases its addresses and memory, because its device is being
 * closed. */
static void close_arena(struct arena *arena)
{
    arena->pins++;
    for (struct leatc_block *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        if (block->live)
            end_live(block);
    }
    while (arena->marks)
        free_mark(&arena->marks);
    (void)unmap(arena);
    (void)leat_virtual_unreserve(arena->base);
    arena->gone = true;
    arena->pins--;
    end_if_idle(arena);
}

void leatc_graph_memory_close(struct leatc_device *device)
{
    leati_lock(&lock);
    for (struct arena *arena = arenas, *next; arena; arena = next) {
        next = arena->next;
        if (arena->device == device && !arena->gone)
            close_arena(arena);
    }
    leati_unlock(&lock);
}

int leatc_graph_memory_get(int ordinal, int attribute, uint64_t *value)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    int result = LEATC_OK;

    LEATC_TRY(leatc_device_describe(ordinal, &info));
    if (!value)
        return LEATC_INVALID_VALUE;
    leati_lock(&lock);
    switch (attribute) {
    case LEATC_GRAPH_MEMORY_USED:
        *value = figures[ordinal].used;
        break;
    case LEATC_GRAPH_MEMORY_USED_HIGH:
        *value = figures[ordinal].used_high;
        break;
    case LEATC_GRAPH_MEMORY_RESERVED:
        *value = figures[ordinal].reserved;
        break;
    case LEATC_GRAPH_MEMORY_RESERVED_HIGH:
        *value = figures[ordinal].reserved_high;
        break;
    default:
        result = LEATC_INVALID_VALUE;
    }
    leati_unlock(&lock);
    return result;
}

int leatc_graph_memory_set(int ordinal, int attribute, const uint64_t *value)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    LEATC_TRY(leatc_device_describe(ordinal, &info));
    if ((attribute != LEATC_GRAPH_MEMORY_USED_HIGH && attribute != LEATC_GRAPH_MEMORY_RESERVED_HIGH) || !value ||
        *value)
        return LEATC_INVALID_VALUE;
    leati_lock(&lock);
    if (attribute == LEATC_GRAPH_MEMORY_USED_HIGH)
        figures[ordinal].used_high = figures[ordinal].used;
    else
        figures[ordinal].reserved_high = figures[ordinal].reserved;
    leati_unlock(&lock);
    return LEATC_OK;
}
