/* test_pool_bad.c - tests wrong calls of pools: each call must return the status that its header names and a
 * message that names the wrong argument. Nothing may leak, and the pool must still work. */
#include "test_pool.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Checks that the pool still works and has this number of live blocks. */
static void still_works(struct test_state *t, leat_pool *pool, uint64_t live_blocks)
{
    void *block;

    assert_int_equal(test_statistics(pool).live_blocks, live_blocks);
    block = test_block(pool, t->stream, 5000);
    OK(leat_fill(t->stream, block, 0x5a, 5000));
    test_block_holds(t->stream, block, 5000, 0x5a);
    OK(leat_free(t->stream, block));
    assert_int_equal(test_statistics(pool).live_blocks, live_blocks);
}

static void keep_nothing(void *argument, const char *text, size_t bytes)
{
    (void)argument, (void)text, (void)bytes;
}

/* ---- handles ------------------------------------------------------------------------------------------------ */

static int make_no_room(void *argument, leat_pool *pool, uint64_t bytes)
{
    (void)argument, (void)pool, (void)bytes;
    return 0;
}

static void refuse_pool(struct test_state *t, leat_pool *pool)
{
    leat_pool_stats figures = {.size = sizeof figures, .live_blocks = 77};
    leat_pool_share share = LEAT_POOL_SHARE_INIT;
    leat_pool_event events[2];
    uint64_t released = 77, pending = 77;
    size_t count = 2;
    void *ptr = NULL;

    REFUSED(leat_pool_alloc(t->stream, pool, 100, &ptr), LEAT_ERROR_HANDLE, "pool");
    REFUSED(leat_pool_alloc(NULL, pool, 0, &ptr), LEAT_ERROR_HANDLE, "pool");
    REFUSED(leat_pool_alloc_aligned(t->stream, pool, 100, 512, &ptr), LEAT_ERROR_HANDLE, "pool");
    REFUSED(leat_pool_set_limits(pool, 0, 0), LEAT_ERROR_HANDLE, "pool");
    REFUSED(leat_pool_set_reuse_methods(pool, LEAT_POOL_REUSE_METHOD_ALL), LEAT_ERROR_HANDLE, "pool");
    REFUSED(leat_pool_trim(pool, 0, &released, &pending), LEAT_ERROR_HANDLE, "pool");
    REFUSED(leat_pool_trim_idle(pool, 0, &released, &pending), LEAT_ERROR_HANDLE, "pool");
    REFUSED(leat_pool_on_full(pool, make_no_room, NULL), LEAT_ERROR_HANDLE, "pool");
    REFUSED(leat_pool_get_stats(pool, &figures), LEAT_ERROR_HANDLE, "pool");
    REFUSED(leat_pool_get_stream_share(pool, 0, &share), LEAT_ERROR_HANDLE, "pool");
    REFUSED(leat_pool_get_tag_share(pool, 0, &share), LEAT_ERROR_HANDLE, "pool");
    REFUSED(leat_pool_history(pool, events, &count), LEAT_ERROR_HANDLE, "pool");
    REFUSED(leat_pool_snapshot(pool, keep_nothing, NULL), LEAT_ERROR_HANDLE, "pool");
    if (pool)
        REFUSED(leat_pool_destroy(pool), LEAT_ERROR_HANDLE, "pool");
    assert_null(ptr);
    assert_int_equal(figures.live_blocks, 77);
    assert_int_equal(released, 77);
    assert_int_equal(pending, 77);
}

static void refuse_budget(struct test_state *t, leat_budget *budget)
{
    leat_pool_options options = {.size = sizeof options, .budget = budget};
    leat_pool *pool = NULL;
    uint64_t bytes;

    REFUSED(leat_budget_query(budget, &bytes, &bytes), LEAT_ERROR_HANDLE, "budget");
    if (!budget)
        return;
    REFUSED(leat_pool_create(t->device, &options, &pool), LEAT_ERROR_HANDLE, "budget");
    REFUSED(leat_budget_destroy(budget), LEAT_ERROR_HANDLE, "budget");
    assert_null(pool);
}

static void wild_handles(void **state)
{
    struct test_state *t = *state;
    char *heap = test_buffer(1000);
    char stack[1000] = {0};
    leat_pool *pool = POOL(t->device, .name = "tame"), *made = NULL;
    void *block = test_block(pool, t->stream, 100), *ptr = NULL;
    void *wild[] = {NULL,
                    (void *)(uintptr_t)1,
                    (void *)(uintptr_t)4096,
                    (void *)~(uintptr_t)0,
                    heap,
                    stack,
                    (char *)pool + 8,
                    t->device,
                    t->stream,
                    block};

    memset(heap, 0, 1000);
    for (size_t i = 0; i < sizeof wild / sizeof wild[0]; i++) {
        refuse_pool(t, wild[i]);
        refuse_budget(t, wild[i]);
        if (wild[i] != t->device) {
            REFUSED(leat_pool_create(wild[i], NULL, &made), LEAT_ERROR_HANDLE, "device");
            REFUSED(leat_pool_default(wild[i], LEAT_KIND_DEVICE, &made), LEAT_ERROR_HANDLE, "device");
            REFUSED(leat_block_import(wild[i], 0, MIB, &ptr), LEAT_ERROR_HANDLE, "device");
        }
        if (wild[i] && wild[i] != t->stream) {
            REFUSED(leat_pool_alloc(wild[i], pool, 100, &ptr), LEAT_ERROR_HANDLE, "stream");
            REFUSED(leat_pool_alloc_aligned(wild[i], pool, 100, 512, &ptr), LEAT_ERROR_HANDLE, "stream");
        }
        if (wild[i] != t->stream)
            REFUSED(leat_block_use(wild[i], block), LEAT_ERROR_HANDLE, "stream");
        REFUSED(leat_block_use_until(wild[i], block), LEAT_ERROR_HANDLE, "event");
    }
    assert_true(!made && !ptr);
    still_works(t, pool, 1);
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
    free(heap);
}

static void dead_handles(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "dead"), *live = POOL(t->device, .name = "alive");
    leat_budget *budget;
    leat_stream *stream;
    leat_event *event;
    void *block = test_block(live, t->stream, 100), *ptr = NULL;

    OK(leat_budget_create(MIB, &budget));
    OK(leat_stream_create(t->device, &stream));
    OK(leat_event_create(t->device, &event));
    OK(leat_pool_destroy(pool));
    OK(leat_budget_destroy(budget));
    OK(leat_stream_destroy(stream));
    OK(leat_event_destroy(event));
    refuse_pool(t, pool);
    refuse_budget(t, budget);
    REFUSED(leat_pool_alloc(stream, live, 100, &ptr), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_pool_alloc(stream, live, 0, &ptr), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_block_use(stream, block), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_block_use_until(event, block), LEAT_ERROR_HANDLE, "event");
    REFUSED(leat_free(stream, block), LEAT_ERROR_HANDLE, "stream");
    assert_null(ptr);
    still_works(t, live, 1);
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(live));
}

static void null_results(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .history = 16, .dedicated = test_has_virtual_memory(t->device),
                           .exportable = test_has_virtual_memory(t->device));
    void *block = test_block(pool, t->stream, 100);
    leat_pool_event event;
    size_t bytes = 77;
    int fd = -7;

    REFUSED(leat_pool_create(t->device, NULL, NULL), LEAT_ERROR_INVALID, "pool");
    REFUSED(leat_pool_default(t->device, LEAT_KIND_DEVICE, NULL), LEAT_ERROR_INVALID, "pool");
    REFUSED(leat_pool_alloc(t->stream, pool, 100, NULL), LEAT_ERROR_INVALID, "ptr");
    REFUSED(leat_pool_alloc(NULL, pool, 0, NULL), LEAT_ERROR_INVALID, "ptr");
    REFUSED(leat_pool_alloc_aligned(t->stream, pool, 100, 512, NULL), LEAT_ERROR_INVALID, "ptr");
    REFUSED(leat_budget_create(100, NULL), LEAT_ERROR_INVALID, "budget");
    REFUSED(leat_pool_get_stats(pool, NULL), LEAT_ERROR_INVALID, "statistics");
    REFUSED(leat_pool_get_stream_share(pool, 0, NULL), LEAT_ERROR_INVALID, "share");
    REFUSED(leat_pool_get_tag_share(pool, 0, NULL), LEAT_ERROR_INVALID, "share");
    REFUSED(leat_pool_history(pool, NULL, &bytes), LEAT_ERROR_INVALID, "events");
    REFUSED(leat_pool_history(pool, &event, NULL), LEAT_ERROR_INVALID, "count");
    REFUSED(leat_pool_snapshot(pool, NULL, NULL), LEAT_ERROR_INVALID, "write");
    REFUSED(leat_block_export(block, NULL, &bytes), LEAT_ERROR_INVALID, "fd");
    REFUSED(leat_block_export(block, &fd, NULL), LEAT_ERROR_INVALID, "bytes");
    REFUSED(leat_block_import(t->device, 0, MIB, NULL), LEAT_ERROR_INVALID, "ptr");
    assert_int_equal(fd, -7);
    still_works(t, pool, 1);
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* ---- options ------------------------------------------------------------------------------------------------ */

static void wrong_options(void **state)
{
    struct test_state *t = *state;
    const size_t size = sizeof(leat_pool_options);
    const struct {
        leat_pool_options options;
        leat_status status;
        const char *words;
    } wrong[] = {
        {{.size = 0}, LEAT_ERROR_INVALID, "size"},
        {{.size = 1}, LEAT_ERROR_INVALID, "size"},
        {{.size = SIZE_MAX}, LEAT_ERROR_INVALID, "size"},
        {{.size = size, .kind = (leat_kind)9}, LEAT_ERROR_INVALID, "kind"},
        {{.size = size, .kind = (leat_kind)-1}, LEAT_ERROR_INVALID, "kind"},
        {{.size = size, .reuse = (leat_pool_reuse)3}, LEAT_ERROR_INVALID, "policy"},
        {{.size = size, .limit_bytes = 10, .soft_limit_bytes = 11}, LEAT_ERROR_INVALID, "soft"},
        {{.size = size, .exportable = 1}, LEAT_ERROR_INVALID, "dedicated"},
        {{.size = size, .dedicated = 1, .no_virtual_memory = 1}, LEAT_ERROR_INVALID, "dedicated"},
        {{.size = size, .dedicated = 1, .kind = LEAT_KIND_PINNED}, LEAT_ERROR_UNSUPPORTED, "dedicated"},
    };
    leat_pool *pool = NULL;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        REFUSED(leat_pool_create(t->device, &wrong[i].options, &pool), wrong[i].status, wrong[i].words);
    REFUSED(leat_pool_default(t->device, (leat_kind)9, &pool), LEAT_ERROR_INVALID, "kind");
    REFUSED(leat_pool_default(t->device, LEAT_KIND_PAGEABLE, &pool), LEAT_ERROR_INVALID, "kind");
    assert_null(pool);
}

static void wrong_structs_of_statistics(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "figures");
    static const size_t sizes[] = {0, 1, SIZE_MAX};

    for (int i = 0; i < 3; i++) {
        leat_pool_stats figures = {.size = sizes[i], .callbacks = 77};

        REFUSED(leat_pool_get_stats(pool, &figures), LEAT_ERROR_INVALID, "size");
        assert_int_equal(figures.callbacks, 77);
    }
    OK(leat_pool_destroy(pool));
}

static void wrong_budgets(void **state)
{
    struct test_state *t = *state;
    leat_budget *budget = NULL;

    (void)t;
    REFUSED(leat_budget_create(0, &budget), LEAT_ERROR_INVALID, "0 bytes");
    assert_null(budget);
}

static void no_history_is_said(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool;
    leat_pool_event events[4];
    size_t count = 4;

    if (getenv("LEAT_POOL_HISTORY"))
        SKIP_OTHER("LEAT_POOL_HISTORY is set");
    pool = POOL(t->device, .name = "forgetful");
    if (leat_pool_history(pool, events, &count) != LEAT_OK)
        REFUSED(leat_pool_history(pool, events, &count), LEAT_ERROR_UNSUPPORTED, "remember");
    OK(leat_pool_destroy(pool));
}

/* ---- sizes -------------------------------------------------------------------------------------------------- */

static void wrong_alignments(void **state)
{
    static const size_t wrong[] = {3, 513, 768, 4097, GIB + 1, 2 * GIB, 3 * GIB, SIZE_MAX, SIZE_MAX / 2 + 1};
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "aligned");
    void *ptr = &ptr;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        REFUSED(leat_pool_alloc_aligned(t->stream, pool, 100, wrong[i], &ptr), LEAT_ERROR_INVALID, "align");
        REFUSED(leat_pool_alloc_aligned(NULL, pool, 0, wrong[i], &ptr), LEAT_ERROR_INVALID, "align");
    }
    assert_ptr_equal(ptr, &ptr);
    still_works(t, pool, 0);
    OK(leat_pool_destroy(pool));
}

static void sizes_beyond_the_device(void **state)
{
    static const struct test_pool_sort sorts[] = TEST_POOL_SORTS;
    struct test_state *t = *state;
    uint64_t total;

    OK(leat_device_memory(t->device, NULL, &total));
    for (size_t sort = 0; sort < sizeof sorts / sizeof sorts[0]; sort++) {
        /* The last size, slightly more than the device's memory, is tested only for device memory: the host may
         * have more memory, and managed memory may exceed the device's. */
        bool device = !sorts[sort].options.kind;
        const size_t sizes[] = {SIZE_MAX,       SIZE_MAX - 511,  SIZE_MAX - 4095, SIZE_MAX / 2 + 1,   SIZE_MAX / 2,
                                SIZE_MAX - MIB, (size_t)1 << 62, (size_t)1 << 48, (size_t)total + MIB};
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);
        leat_status status =
            sorts[sort].options.kind == LEAT_KIND_PINNED ? LEAT_ERROR_HOST_MEMORY : LEAT_ERROR_DEVICE_MEMORY;

        for (size_t i = 0; pool && i < sizeof sizes / sizeof sizes[0]; i++) {
            void *ptr = &ptr;

            if (!device && sizes[i] == (size_t)total + MIB)
                continue;
            REFUSED(leat_pool_alloc(t->stream, pool, sizes[i], &ptr), status, "bytes");
            REFUSED(leat_pool_alloc(NULL, pool, sizes[i], &ptr), status, "bytes");
            REFUSED(leat_pool_alloc_aligned(t->stream, pool, sizes[i], 2 * MIB, &ptr), status, "bytes");
            assert_ptr_equal(ptr, &ptr);
        }
        if (!pool)
            continue;
        still_works(t, pool, 0);
        OK(leat_pool_destroy(pool));
    }
}

/* ---- pointers ----------------------------------------------------------------------------------------------- */

/* Checks that every call that takes a block refuses ptr. */
static void refuse_block(struct test_state *t, void *ptr)
{
    leat_event *event;
    size_t bytes = 77;
    int fd = -7;

    OK(leat_event_create(t->device, &event));
    OK(leat_event_record(t->stream, event));
    REFUSED(leat_free(t->stream, ptr), LEAT_ERROR_POINTER, "");
    REFUSED(leat_memory_free(ptr), LEAT_ERROR_POINTER, "");
    REFUSED(leat_block_use(t->stream, ptr), LEAT_ERROR_POINTER, "");
    REFUSED(leat_block_use_until(event, ptr), LEAT_ERROR_POINTER, "");
    REFUSED(leat_block_export(ptr, &fd, &bytes), LEAT_ERROR_POINTER, "");
    assert_int_equal(fd, -7);
    OK(leat_event_destroy(event));
}

static void wrong_pointers(void **state)
{
    static const struct test_pool_sort sorts[] = TEST_POOL_SORTS;
    struct test_state *t = *state;
    char *own = test_buffer(1000), on_stack[16];

    for (size_t sort = 0; sort < sizeof sorts / sizeof sorts[0]; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);
        static const size_t sizes[] = {100, 5000, 300000, 5 * MIB};

        for (int i = 0; pool && i < 4; i++) {
            char *block = test_block(pool, t->stream, sizes[i]);

            OK(leat_fill(t->stream, block, 3, sizes[i]));
            refuse_block(t, block + 1);
            refuse_block(t, block + sizes[i] / 2);
            refuse_block(t, block + sizes[i] - 1);
            refuse_block(t, block + sizes[i]);
            refuse_block(t, block + 512);
            test_block_holds(t->stream, block, sizes[i], 3);
            OK(leat_free(t->stream, block));
            /* All calls must refuse a freed block, also after its memory went back to the device. */
            refuse_block(t, block);
            refuse_block(t, block + 1);
            OK(leat_stream_synchronize(t->stream));
            OK(leat_pool_trim(pool, 0, NULL, NULL));
            refuse_block(t, block);
        }
        if (!pool)
            continue;
        refuse_block(t, own);
        refuse_block(t, on_stack);
        refuse_block(t, (void *)(uintptr_t)3);
        refuse_block(t, (void *)~(uintptr_t)511);
        refuse_block(t, pool);
        still_works(t, pool, 0);
        OK(leat_pool_destroy(pool));
    }
    free(own);
}

/* leat knows this memory, but it is no block of a pool. */
static void foreign_memory(void **state)
{
    struct test_state *t = *state;
    char *own = test_buffer(8192);
    leat_event *event;
    void *plain;
    size_t bytes = 77;
    int fd = -7;

    OK(leat_event_create(t->device, &event));
    OK(leat_register(t->device, own, 8192));
    OK(leat_alloc_driver(t->stream, 5000, &plain));
    REFUSED(leat_block_use(t->stream, own), LEAT_ERROR_POINTER, "");
    REFUSED(leat_block_use(t->stream, plain), LEAT_ERROR_POINTER, "");
    REFUSED(leat_block_use(t->stream, NULL), LEAT_ERROR_POINTER, "");
    REFUSED(leat_block_use_until(event, own), LEAT_ERROR_POINTER, "");
    REFUSED(leat_block_use_until(event, plain), LEAT_ERROR_POINTER, "");
    REFUSED(leat_block_use_until(event, NULL), LEAT_ERROR_POINTER, "");
    REFUSED(leat_block_export(own, &fd, &bytes), LEAT_ERROR_POINTER, "");
    REFUSED(leat_block_export(plain, &fd, &bytes), LEAT_ERROR_POINTER, "");
    REFUSED(leat_block_export(NULL, &fd, &bytes), LEAT_ERROR_POINTER, "");
    REFUSED(leat_free(t->stream, own), LEAT_ERROR_POINTER, "leat_unregister");
    REFUSED(leat_memory_free(own), LEAT_ERROR_POINTER, "leat_unregister");
    OK(leat_fill(t->stream, plain, 4, 5000));
    test_block_holds(t->stream, plain, 5000, 4);
    OK(leat_free(t->stream, plain));
    REFUSED(leat_free(t->stream, plain), LEAT_ERROR_POINTER, "");
    OK(leat_unregister(own));
    OK(leat_event_destroy(event));
    free(own);
}

/* Copies, fills and queries refuse a freed block on the CPU device. */
static void a_freed_block_is_refused(void **state)
{
    static const struct test_pool_sort sorts[] = TEST_POOL_SORTS;
    struct test_state *t = *state;
    unsigned char own[100] = {0};

    for (size_t sort = 0; sort < sizeof sorts / sizeof sorts[0]; sort++) {
        static const size_t sizes[] = {700, 100000, 9 * MIB};
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);

        for (int i = 0; pool && i < 3; i++) {
            char *block = test_block(pool, t->stream, sizes[i]),
                 *neighbour = test_block(pool, t->stream, sizes[i]);
            leat_pointer_info info = LEAT_POINTER_INFO_INIT;

            OK(leat_free(t->stream, block));
            REFUSED(leat_copy(t->stream, block, own, 100), LEAT_ERROR_POINTER, "");
            REFUSED(leat_copy(t->stream, own, block + 100, 100), LEAT_ERROR_POINTER, "");
            REFUSED(leat_fill(t->stream, block, 1, 100), LEAT_ERROR_POINTER, "");
            assert_true(leat_pointer_get_info(block, &info) != LEAT_OK || info.kind == LEAT_KIND_PAGEABLE);
            OK(leat_free(t->stream, neighbour));
        }
        OK(leat_pool_destroy(pool));
    }
}

/* A new block may contain the memory of two freed ones. A pointer into its middle must then be refused. */
static void an_old_pointer_into_a_new_block(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = 8 * MIB, .name = "reused");
    char *first = test_block(pool, t->stream, 4 * MIB), *second = test_block(pool, t->stream, 4 * MIB), *both;

    OK(leat_free(t->stream, first));
    OK(leat_free(t->stream, second));
    OK(leat_stream_synchronize(t->stream));
    if (leat_pool_alloc(t->stream, pool, 8 * MIB, (void **)&both) == LEAT_OK) {
        if (both != second)
            refuse_block(t, second);
        if (both != first)
            refuse_block(t, first);
        OK(leat_free(t->stream, both));
    }
    still_works(t, pool, 0);
    OK(leat_pool_destroy(pool));
}

static void things_of_another_device(void **state)
{
    struct test_state *t = *state;
    leat_device *other = test_open_other();
    leat_pool *pool, *far;
    leat_stream *stream;
    leat_event *event;
    void *block, *far_block, *ptr = NULL;

    if (!other)
        SKIP_OTHER("needs two devices of one driver");
    pool = POOL(t->device, .name = "near");
    far = POOL(other, .name = "far");
    OK(leat_stream_create(other, &stream));
    OK(leat_event_create(other, &event));
    block = test_block(pool, t->stream, 1000);
    far_block = test_block(far, stream, 1000);
    REFUSED(leat_pool_alloc(stream, pool, 100, &ptr), LEAT_ERROR_INVALID, "device");
    REFUSED(leat_pool_alloc(t->stream, far, 100, &ptr), LEAT_ERROR_INVALID, "device");
    assert_null(ptr);
    REFUSED(leat_free(stream, block), LEAT_ERROR_POINTER, "is memory of");
    REFUSED(leat_free(t->stream, far_block), LEAT_ERROR_POINTER, "is memory of");
    /* A stream of another device of the same driver may be passed to leat_block_use(), because it may copy from
     * the block. */
    OK(leat_block_use(stream, block));
    OK(leat_event_record(stream, event));
    OK(leat_block_use_until(event, block));
    OK(leat_free(t->stream, block));
    OK(leat_device_close(other));
    REFUSED(leat_memory_free(far_block), LEAT_ERROR_POINTER, "");
    REFUSED(leat_block_use(t->stream, far_block), LEAT_ERROR_POINTER, "");
    refuse_pool(t, far);
    still_works(t, pool, 0);
    OK(leat_pool_destroy(pool));
}

static void things_of_another_driver(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "ours");
    leat_device *other;
    leat_stream *stream;
    leat_event *event;
    void *block;

    if (test_on_cpu())
        SKIP_OTHER("runs on a GPU, where there are two drivers");
    OK(leat_device_open("cpu:0", &other));
    OK(leat_stream_create(other, &stream));
    OK(leat_event_create(other, &event));
    OK(leat_event_record(stream, event));
    block = test_block(pool, t->stream, 1000);
    REFUSED(leat_block_use(stream, block), LEAT_ERROR_UNSUPPORTED, "cpu:0");
    REFUSED(leat_block_use_until(event, block), LEAT_ERROR_UNSUPPORTED, "cpu:0");
    OK(leat_free(t->stream, block));
    OK(leat_device_close(other));
    OK(leat_pool_destroy(pool));
}

/* ---- host functions ----------------------------------------------------------------------------------------- */

struct forbidden {
    struct test_state *t;
    leat_pool *pool;
    leat_event *event;
    void *block;
    int count, wrong;
};

static void try_all(void *argument)
{
    struct forbidden *f = argument;
    leat_pool *pool;
    size_t bytes;
    void *ptr;
    int fd;
    leat_status seen[] = {
        leat_pool_create(f->t->device, NULL, &pool),
        leat_pool_default(f->t->device, LEAT_KIND_DEVICE, &pool),
        leat_pool_destroy(f->pool),
        leat_pool_alloc(f->t->stream, f->pool, 100, &ptr),
        leat_pool_alloc_aligned(NULL, f->pool, 100, 512, &ptr),
        leat_alloc_driver(f->t->stream, 100, &ptr),
        leat_block_use(f->t->stream, f->block),
        leat_block_use_until(f->event, f->block),
        leat_pool_set_limits(f->pool, 0, 0),
        leat_pool_set_reuse_methods(f->pool, LEAT_POOL_REUSE_METHOD_ALL),
        leat_pool_trim(f->pool, 0, NULL, NULL),
        leat_pool_trim_idle(f->pool, 0, NULL, NULL),
        leat_block_export(f->block, &fd, &bytes),
        leat_block_import(f->t->device, 0, MIB, &ptr),
        leat_free(f->t->stream, f->block),
        leat_memory_free(f->block),
    };

    f->count = (int)(sizeof seen / sizeof seen[0]);
    f->wrong = -1;
    for (int i = f->count; i-- > 0;)
        if (seen[i] != LEAT_ERROR_NOT_PERMITTED)
            f->wrong = i;
}

static void ask_questions(void *argument)
{
    struct forbidden *f = argument;
    leat_pool_stats figures = {.size = sizeof figures};
    leat_pool_share share = LEAT_POOL_SHARE_INIT;

    f->wrong = leat_pool_get_stats(f->pool, &figures) != LEAT_OK || figures.live_blocks != 1 ||
               leat_pool_get_stream_share(f->pool, 0, &share) != LEAT_OK;
}

static void host_functions_may_ask_only(void **state)
{
    struct test_state *t = *state;
    struct forbidden f = {.t = t, .pool = POOL(t->device, .name = "asked")};

    f.block = test_block(f.pool, t->stream, 1000);
    OK(leat_event_create(t->device, &f.event));
    OK(leat_launch_host(t->stream, try_all, &f));
    OK(leat_stream_synchronize(t->stream));
    if (f.wrong >= 0)
        fail_msg("call %d of %d in the list did not return NOT_PERMITTED", f.wrong, f.count);
    OK(leat_launch_host(t->stream, ask_questions, &f));
    OK(leat_stream_synchronize(t->stream));
    assert_int_equal(f.wrong, 0);
    still_works(t, f.pool, 1);
    OK(leat_free(t->stream, f.block));
    OK(leat_event_destroy(f.event));
    OK(leat_pool_destroy(f.pool));
}

/* ---- export and import -------------------------------------------------------------------------------------- */

static void wrong_exports(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool, *closed;
    void *block, *not_exportable;
    size_t bytes = 77;
    int fd = -7;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = POOL(t->device, .dedicated = 1, .exportable = 1);
    closed = POOL(t->device, .dedicated = 1);
    block = test_block(pool, t->stream, 5000);
    not_exportable = test_block(closed, t->stream, 5000);
    REFUSED(leat_block_export((char *)block + 512, &fd, &bytes), LEAT_ERROR_POINTER, "");
    REFUSED(leat_block_export(not_exportable, &fd, &bytes), LEAT_ERROR_POINTER, "exportable");
    OK(leat_free(t->stream, block));
    REFUSED(leat_block_export(block, &fd, &bytes), LEAT_ERROR_POINTER, "");
    assert_int_equal(fd, -7);
    assert_int_equal(bytes, 77);
    OK(leat_free(t->stream, not_exportable));
    OK(leat_pool_destroy(closed));
    OK(leat_pool_destroy(pool));
}

static void wrong_imports(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool;
    void *block, *ptr = NULL;
    size_t bytes;
    int fd, null_fd = open("/dev/null", O_RDWR);

    assert_true(null_fd >= 0);
    if (!test_has_virtual_memory(t->device)) {
        REFUSED(leat_block_import(t->device, null_fd, MIB, &ptr), LEAT_ERROR_UNSUPPORTED, "virtual");
        close(null_fd);
        SKIP_OTHER("this driver has no virtual memory");
    }
    pool = POOL(t->device, .dedicated = 1, .exportable = 1);
    block = test_block(pool, t->stream, 5000);
    OK(leat_block_export(block, &fd, &bytes));
    REFUSED(leat_block_import(t->device, fd, 0, &ptr), LEAT_ERROR_INVALID, "size");
    REFUSED(leat_block_import(t->device, -1, bytes, &ptr), LEAT_ERROR_INVALID, "");
    REFUSED(leat_block_import(t->device, 1 << 20, bytes, &ptr), LEAT_ERROR_INVALID, "");
    /* Only on the CPU device can leat check the size, because on a GPU it cannot ask a descriptor for its size.
     * There the vendor's driver decides about other sizes. */
    if (test_on_cpu()) {
        REFUSED(leat_block_import(t->device, null_fd, bytes, &ptr), LEAT_ERROR_INVALID, "");
        REFUSED(leat_block_import(t->device, fd, 64 * bytes, &ptr), LEAT_ERROR_INVALID, "");
    }
    REFUSED(leat_block_import(t->device, fd, SIZE_MAX, &ptr), LEAT_ERROR_INVALID, "");
    assert_null(ptr);
    close(fd);
    close(null_fd);
    OK(leat_free(t->stream, block));
    still_works(t, pool, 0);
    OK(leat_pool_destroy(pool));
}

/* ---- processes and threads ---------------------------------------------------------------------------------- */

/* A forked child that only exits must not affect the parent's pool. */
static void a_child_that_only_ends(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "forked");
    void *block = test_block(pool, t->stream, 5000), *cached;
    int status;
    pid_t child;

    OK(leat_fill(t->stream, block, 7, 5000));
    OK(leat_free(t->stream, test_block(pool, t->stream, 3 * MIB)));
    OK(leat_stream_synchronize(t->stream));
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(42);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    test_block_holds(t->stream, block, 5000, 7);
    cached = test_block(pool, t->stream, 3 * MIB);
    OK(leat_fill(t->stream, cached, 8, 3 * MIB));
    test_block_holds(t->stream, cached, 3 * MIB, 8);
    OK(leat_free(t->stream, cached));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

struct worker {
    leat_pool *pool;
    leat_stream *stream;
    leat_status status;
};

/* Frees blocks of several sizes into the stream's magazine that this thread uses. */
static void *allocate_free_and_end(void *argument)
{
    static const size_t sizes[] = {100, 5000, 70000, MIB, 5 * MIB};
    struct worker *w = argument;
    void *blocks[40];

    for (int i = 0; i < 40 && w->status == LEAT_OK; i++)
        w->status = leat_pool_alloc(w->stream, w->pool, sizes[i % 5], &blocks[i]);
    for (int i = 0; i < 40 && w->status == LEAT_OK; i++)
        w->status = leat_free(w->stream, blocks[i]);
    return NULL;
}

/* A new thread must reuse the blocks that the last thread left in its magazine. */
static void threads_end_with_cached_blocks(void **state)
{
    struct test_state *t = *state;
    struct worker w = {.pool = POOL(t->device, .name = "left behind"), .stream = t->stream};
    leat_pool_stats first = {0};

    for (int i = 0; i < 20; i++) {
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, allocate_free_and_end, &w), 0);
        pthread_join(thread, NULL);
        OK(w.status);
        if (i == 0)
            first = test_statistics(w.pool);
    }
    assert_int_equal(test_statistics(w.pool).reserved_bytes, first.reserved_bytes);
    assert_int_equal(test_statistics(w.pool).driver_calls, first.driver_calls);
    assert_int_equal(test_statistics(w.pool).live_blocks, 0);
    /* Trimming must be able to release all memory of these blocks. */
    OK(leat_stream_synchronize(t->stream));
    OK(leat_pool_trim(w.pool, 0, NULL, NULL));
    assert_int_equal(test_statistics(w.pool).reserved_bytes, 0);
    OK(leat_pool_destroy(w.pool));
}

/* This thread has freed blocks into a magazine of its stream, and still runs when its pool and stream are
 * destroyed. */
static void *wait_and_end(void *argument)
{
    struct worker *w = ((void **)argument)[0];
    atomic_int *go = ((void **)argument)[1], *done = ((void **)argument)[2];

    allocate_free_and_end(w);
    atomic_store(done, 1);
    (void)test_wait_for(go, 1);
    return NULL;
}

static void a_thread_outlives_the_pool(void **state)
{
    struct test_state *t = *state;

    for (int i = 0; i < 3; i++) {
        struct worker w = {.pool = POOL(t->device, .name = "short-lived")};
        atomic_int go = 0, done = 0;
        void *argument[] = {&w, &go, &done};
        pthread_t thread;
        leat_pool *pool;

        OK(leat_stream_create(t->device, &w.stream));
        assert_int_equal(pthread_create(&thread, NULL, wait_and_end, argument), 0);
        assert_true(test_wait_for(&done, 1));
        OK(w.status);
        OK(leat_stream_destroy(w.stream));
        OK(leat_pool_destroy(w.pool));
        /* The new pool may have the same handle slot as the destroyed one. */
        pool = POOL(t->device, .name = "next");
        atomic_store(&go, 1);
        pthread_join(thread, NULL);
        still_works(t, pool, 0);
        OK(leat_pool_destroy(pool));
    }
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(wild_handles),
    STATE_TEST(dead_handles),
    STATE_TEST(null_results),
    STATE_TEST(wrong_options),
    STATE_TEST(wrong_structs_of_statistics),
    STATE_TEST(wrong_budgets),
    STATE_TEST(no_history_is_said),
    STATE_TEST(wrong_alignments),
    STATE_TEST(sizes_beyond_the_device),
    STATE_TEST(wrong_pointers),
    STATE_TEST(foreign_memory),
    STATE_TEST(a_freed_block_is_refused),
    STATE_TEST(an_old_pointer_into_a_new_block),
    STATE_TEST(things_of_another_device),
    STATE_TEST(things_of_another_driver),
    STATE_TEST(host_functions_may_ask_only),
    STATE_TEST(wrong_exports),
    STATE_TEST(wrong_imports),
    STATE_TEST(a_child_that_only_ends),
    STATE_TEST(threads_end_with_cached_blocks),
    STATE_TEST(a_thread_outlives_the_pool),
};

TEST_MAIN(tests)
