/* test_pool_limits.c - pools: limits, budgets, giving back, running out of memory, and how little is wasted. */
#include "test_pool.h"

#include <stdio.h>

/* ---- limits ---------------------------------------------------------------------------------------------------
 */

/* Fills a pool with blocks until it refuses one; returns how many there are. */
static int fill_up(leat_pool *pool, leat_stream *stream, size_t bytes, void **blocks, int most)
{
    int count = 0;

    while (count < most && leat_pool_alloc(pool, stream, bytes, &blocks[count]) == LEAT_OK)
        count++;
    assert_true(count < most);
    return count;
}

static void a_hard_limit_holds(void **state)
{
    enum { MOST = 100 };
    struct test_state *t = *state;
    static const size_t sizes[] = {2 * MIB, 4 * MIB, 16 * MIB, 64 * MIB};

    for (int i = 0; i < 4; i++) {
        leat_pool *pool = POOL(t->device, .limit_bytes = 64 * MIB, .name = "limited");
        void *blocks[MOST], *one;
        int count = fill_up(pool, t->stream, sizes[i], blocks, MOST);
        leat_pool_statistics figures = test_statistics(pool);

        /* Whole pages: nothing is lost to rounding where there is virtual memory. */
        if (test_has_virtual_memory(t->device))
            assert_int_equal(count, 64 * MIB / sizes[i]);
        assert_true(count >= 1);
        assert_true(figures.reserved_peak_bytes <= 64 * MIB);
        assert_true(figures.failures >= 1);
        assert_int_equal(figures.live_blocks, count);
        REFUSED(leat_pool_alloc(pool, t->stream, sizes[i], &one), LEAT_ERROR_DEVICE_MEMORY, "limited");
        OK(leat_free(t->stream, blocks[--count]));
        blocks[count++] = test_block(pool, t->stream, sizes[i]);
        while (count)
            OK(leat_free(t->stream, blocks[--count]));
        OK(leat_pool_destroy(pool));
    }
}

/* Small blocks have pages of their own. Where the limit leaves none for them, they take what large ones leave. */
static void small_blocks_fit_between_large_ones(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = 4 * MIB, .name = "tight");
    void *large[3], *small, *more;

    if (!test_has_virtual_memory(t->device)) {
        OK(leat_pool_destroy(pool));
        SKIP_MISSING("no virtual memory");
    }
    for (int i = 0; i < 3; i++)
        large[i] = test_block(pool, t->stream, MIB);
    small = test_block(pool, t->stream, 1000);
    OK(leat_fill(t->stream, small, 7, 1000));
    OK(leat_free(t->stream, small));
    small = test_block(pool, t->stream, 300000);
    REFUSED(leat_pool_alloc(pool, t->stream, 1000, &more), LEAT_ERROR_DEVICE_MEMORY, "tight");
    OK(leat_free(t->stream, small));
    for (int i = 0; i < 3; i++)
        OK(leat_free(t->stream, large[i]));
    OK(leat_pool_destroy(pool));
}

static void the_limit_of_a_pinned_pool_is_about_host_memory(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = 8 * MIB, .kind = LEAT_KIND_PINNED, .name = "small");
    void *block = test_block(pool, t->stream, 3 * MIB), *more = &more;

    REFUSED(leat_pool_alloc(pool, t->stream, 8 * MIB, &more), LEAT_ERROR_HOST_MEMORY, "small");
    assert_ptr_equal(more, &more);
    OK(leat_free(t->stream, block));
    OK(leat_stream_synchronize(t->stream));
    block = test_block(pool, t->stream, 8 * MIB);
    assert_true(test_statistics(pool).reserved_bytes <= 8 * MIB);
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

static void limits_change(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "changing");
    void *block = test_block(pool, t->stream, 20 * MIB), *idle = test_block(pool, t->stream, 20 * MIB), *more;
    uint64_t held;

    OK(leat_free(t->stream, idle));
    OK(leat_stream_synchronize(t->stream));
    /* The message has what is in use and what was asked for. */
    REFUSED(leat_pool_set_limits(pool, 10 * MIB, 0), LEAT_ERROR_BUSY, "10485760");
    assert_non_null(strstr(leat_last_error(), "20971520"));
    /* A refusal changes nothing. */
    more = test_block(pool, t->stream, 100 * MIB);
    OK(leat_free(t->stream, more));
    OK(leat_stream_synchronize(t->stream));
    /* Below what the pool holds, but not below what is used: idle memory goes back. */
    OK(leat_pool_set_limits(pool, 24 * MIB, 0));
    held = test_statistics(pool).reserved_bytes;
    assert_true(held >= 20 * MIB && held <= 24 * MIB);
    REFUSED(leat_pool_alloc(pool, t->stream, 20 * MIB, &more), LEAT_ERROR_DEVICE_MEMORY, "limit");
    /* A soft one may be below what is used. */
    OK(leat_pool_set_limits(pool, 0, MIB));
    more = test_block(pool, t->stream, 20 * MIB);
    OK(leat_free(t->stream, more));
    REFUSED(leat_pool_set_limits(pool, 30 * MIB, 40 * MIB), LEAT_ERROR_INVALID, "soft");
    OK(leat_pool_set_limits(pool, 0, 0));
    more = test_block(pool, t->stream, 100 * MIB);
    OK(leat_free(t->stream, more));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* Above the soft limit idle memory goes back by itself, as the program goes on allocating and freeing. */
static void a_soft_limit_gives_idle_memory_back(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .soft_limit_bytes = 16 * MIB);
    void *blocks[10];

    for (int i = 0; i < 10; i++)
        blocks[i] = test_block(pool, t->stream, 10 * MIB);
    assert_true(test_statistics(pool).reserved_bytes >= 100 * MIB);
    for (int i = 0; i < 10; i++)
        OK(leat_free(t->stream, blocks[i]));
    for (int i = 0; i < 20 && test_statistics(pool).reserved_bytes > 16 * MIB; i++) {
        OK(leat_stream_synchronize(t->stream));
        OK(leat_free(t->stream, test_block(pool, t->stream, 11 * MIB)));
    }
    assert_true(test_statistics(pool).reserved_bytes <= 16 * MIB);
    assert_int_equal(test_statistics(pool).host_waits, 0);
    OK(leat_pool_destroy(pool));
}

/* ---- budgets --------------------------------------------------------------------------------------------------
 */

static uint64_t budget_used(leat_budget *budget)
{
    uint64_t limit = 0, used = 0;

    OK(leat_budget_query(budget, &limit, &used));
    assert_true(used <= limit);
    return used;
}

static void two_pools_share_a_budget(void **state)
{
    struct test_state *t = *state;
    leat_budget *budget;
    leat_pool *first, *second;
    void *block, *more = &more;
    uint64_t limit;

    OK(leat_budget_create(64 * MIB, &budget));
    OK(leat_budget_query(budget, &limit, NULL));
    assert_int_equal(limit, 64 * MIB);
    OK(leat_budget_query(budget, NULL, NULL));
    first = POOL(t->device, .budget = budget, .name = "first");
    second = POOL(t->device, .budget = budget, .name = "second");
    assert_int_equal(budget_used(budget), 0);
    block = test_block(first, t->stream, 40 * MIB);
    assert_true(budget_used(budget) >= 40 * MIB);
    assert_int_equal(budget_used(budget), test_statistics(first).reserved_bytes);
    REFUSED(leat_pool_alloc(second, t->stream, 40 * MIB, &more), LEAT_ERROR_DEVICE_MEMORY, "budget");
    assert_ptr_equal(more, &more);
    OK(leat_free(t->stream, block));
    OK(leat_stream_synchronize(t->stream));
    /* Idle memory of the first one moves over. */
    block = test_block(second, t->stream, 60 * MIB);
    assert_true(test_statistics(first).reserved_bytes <= 4 * MIB);
    assert_int_equal(budget_used(budget),
                     test_statistics(first).reserved_bytes + test_statistics(second).reserved_bytes);
    REFUSED(leat_budget_destroy(budget), LEAT_ERROR_BUSY, "pool");
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(first));
    REFUSED(leat_budget_destroy(budget), LEAT_ERROR_BUSY, "pool");
    OK(leat_pool_destroy(second));
    assert_int_equal(budget_used(budget), 0);
    OK(leat_budget_destroy(budget));
    OK(leat_budget_destroy(NULL));
    REFUSED(leat_budget_query(budget, NULL, NULL), LEAT_ERROR_HANDLE, "budget");
}

/* Device and pinned memory, and a second device, under one budget. */
static void a_budget_is_for_any_pools(void **state)
{
    struct test_state *t = *state;
    leat_device *other = test_open_other();
    leat_budget *budget;
    leat_pool *pools[3];
    void *block;

    OK(leat_budget_create(40 * MIB, &budget));
    pools[0] = POOL(t->device, .budget = budget);
    pools[1] = POOL(t->device, .budget = budget, .kind = LEAT_KIND_PINNED);
    pools[2] = POOL(other ? other : t->device, .budget = budget);
    for (int round = 0; round < 6; round++) {
        block = test_block(pools[round % 3], NULL, 30 * MIB);
        assert_true(budget_used(budget) >= 30 * MIB);
        OK(leat_memory_free(block));
    }
    for (int i = 0; i < 3; i++)
        OK(leat_pool_destroy(pools[i]));
    OK(leat_budget_destroy(budget));
    OK(leat_device_close(other));
}

/* Closing the device ends its pools, and so lets go of the budget. */
static void a_budget_outlives_its_devices(void **state)
{
    leat_device *other = test_open_other();
    leat_budget *budget;
    leat_pool *pool;

    (void)state;
    if (!other)
        SKIP_OTHER("needs two devices of one driver");
    OK(leat_budget_create(40 * MIB, &budget));
    pool = POOL(other, .budget = budget);
    assert_non_null(test_block(pool, NULL, 10 * MIB));
    OK(leat_device_close(other));
    assert_int_equal(budget_used(budget), 0);
    OK(leat_budget_destroy(budget));
}

/* ---- giving back ----------------------------------------------------------------------------------------------
 */

static void trimming_gives_idle_memory_back(void **state)
{
    static const struct test_pool_sort sorts[] = TEST_POOL_SORTS;
    struct test_state *t = *state;

    for (size_t sort = 0; sort < sizeof sorts / sizeof sorts[0]; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);
        uint64_t released = 77, pending = 77, held;
        void *kept, *blocks[8];

        if (!pool)
            continue;
        kept = test_block(pool, t->stream, 6 * MIB);
        OK(leat_fill(t->stream, kept, 9, 6 * MIB));
        for (int i = 0; i < 8; i++)
            blocks[i] = test_block(pool, t->stream, 6 * MIB);
        for (int i = 0; i < 8; i++)
            OK(leat_free(t->stream, blocks[i]));
        OK(leat_device_synchronize(t->device));
        held = test_statistics(pool).reserved_bytes;
        OK(leat_pool_trim(pool, held, &released, &pending));
        assert_int_equal(released, 0);
        assert_int_equal(pending, 0);
        /* As much as is wanted, not more than a page or a chunk beyond. */
        OK(leat_pool_trim(pool, 30 * MIB, &released, &pending));
        assert_int_equal(released, held - test_statistics(pool).reserved_bytes);
        assert_true(test_statistics(pool).reserved_bytes <= 30 * MIB);
        OK(leat_pool_trim(pool, 0, &released, &pending));
        assert_int_equal(pending, 0);
        held = test_statistics(pool).reserved_bytes;
        assert_true(held >= 6 * MIB);
        if (test_has_virtual_memory(t->device) && !sorts[sort].options.no_virtual_memory &&
            !sorts[sort].options.kind)
            assert_true(held <= 8 * MIB);
        test_block_holds(t->stream, kept, 6 * MIB, 9);
        OK(leat_free(t->stream, kept));
        OK(leat_device_synchronize(t->device));
        OK(leat_pool_trim(pool, 0, NULL, NULL));
        assert_int_equal(test_statistics(pool).reserved_bytes, 0);
        /* And it starts anew. */
        kept = test_block(pool, t->stream, 6 * MIB);
        OK(leat_fill(t->stream, kept, 8, 6 * MIB));
        test_block_holds(t->stream, kept, 6 * MIB, 8);
        OK(leat_free(t->stream, kept));
        OK(leat_pool_destroy(pool));
    }
}

/* Many small blocks, of which few stay: pages without any go back. */
static void trimming_gives_pages_of_small_blocks_back(void **state)
{
    enum { COUNT = 20000 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "small blocks");
    void **blocks = test_buffer(COUNT * sizeof *blocks);
    uint64_t full, left;

    for (int i = 0; i < COUNT; i++)
        blocks[i] = test_block(pool, t->stream, 4096);
    full = test_statistics(pool).reserved_bytes;
    assert_true(full >= COUNT * 4096);
    for (int i = 1; i < COUNT; i++)
        OK(leat_free(t->stream, blocks[i]));
    OK(leat_device_synchronize(t->device));
    OK(leat_pool_trim(pool, 0, NULL, NULL));
    left = test_statistics(pool).reserved_bytes;
    if (test_has_virtual_memory(t->device))
        assert_true(left <= 4 * MIB);
    assert_true(left < full);
    OK(leat_free(t->stream, blocks[0]));
    OK(leat_pool_destroy(pool));
    free(blocks);
}

static void trimming_by_age_spares_the_young(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "ages");
    uint64_t released = 77, pending = 77, held;
    void *block = test_block(pool, t->stream, 20 * MIB);

    OK(leat_free(t->stream, block));
    OK(leat_device_synchronize(t->device));
    held = test_statistics(pool).reserved_bytes;
    OK(leat_pool_trim_idle(pool, 1000000, &released, &pending));
    assert_int_equal(released, 0);
    assert_int_equal(test_statistics(pool).reserved_bytes, held);
    test_sleep_us(30000);
    OK(leat_pool_trim_idle(pool, 10, &released, &pending));
    assert_int_equal(released, held);
    assert_int_equal(test_statistics(pool).reserved_bytes, 0);
    OK(leat_pool_destroy(pool));
}

/* ---- no memory left -------------------------------------------------------------------------------------------
 */

/* Results that are collected and never freed end in an error that says who holds what, and the program goes on. */
static void a_list_that_is_never_freed_ends_in_an_error(void **state)
{
    enum { MOST = 1000 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = 100 * MIB, .name = "results");
    void *list[MOST], *block;
    leat_status status = LEAT_OK;
    const char *words;
    int count = 0;

    while (count < MOST && (status = leat_pool_alloc(pool, t->stream, 3 * MIB, &list[count])) == LEAT_OK)
        count++;
    assert_int_equal(status, LEAT_ERROR_DEVICE_MEMORY);
    assert_true(count >= 25 && count <= 33);
    words = leat_last_error();
    /* The pool, its limit, what is live. */
    assert_non_null(strstr(words, "leat_pool_alloc"));
    assert_non_null(strstr(words, "results"));
    assert_non_null(strstr(words, "104857600"));
    assert_non_null(strstr(words, "live"));
    assert_int_equal(test_statistics(pool).failures, 1);
    /* Smaller ones may still fit, other pools have nothing to do with it, and freeing helps. */
    OK(leat_alloc(t->stream, 3 * MIB, &block));
    OK(leat_free(t->stream, block));
    OK(leat_free(t->stream, list[--count]));
    block = test_block(pool, t->stream, 3 * MIB);
    OK(leat_fill(t->stream, block, 1, 3 * MIB));
    test_block_holds(t->stream, block, 3 * MIB, 1);
    OK(leat_free(t->stream, block));
    while (count)
        OK(leat_free(t->stream, list[--count]));
    OK(leat_pool_destroy(pool));
}

/* A whole device that is full: by the default pool, to which no limit was given. */
static void a_full_device_is_survived(void **state)
{
    enum { MOST = 200 };
    struct test_state *t = *state;
    leat_pool *pool = test_default_pool(t->device, LEAT_KIND_DEVICE);
    uint64_t free_bytes, total_bytes;
    leat_status status = LEAT_OK;
    void *list[MOST], *block;
    size_t bytes;
    int count = 0;

    OK(leat_device_memory(t->device, &free_bytes, &total_bytes));
    bytes = (size_t)(total_bytes / 30);
    while (count < MOST && (status = leat_alloc(t->stream, bytes, &list[count])) == LEAT_OK)
        count++;
    assert_int_equal(status, LEAT_ERROR_DEVICE_MEMORY);
    assert_true(count >= 1);
    assert_non_null(strstr(leat_last_error(), "live"));
    assert_non_null(strstr(leat_last_error(), "are free"));
    OK(leat_free(t->stream, list[--count]));
    OK(leat_alloc(t->stream, bytes, &list[count++]));
    while (count)
        OK(leat_free(t->stream, list[--count]));
    OK(leat_stream_synchronize(t->stream));
    /* What this pool keeps for later must not be in the way of others. */
    OK(leat_memory_alloc(t->device, LEAT_KIND_DEVICE, 20 * bytes, &block));
    OK(leat_memory_free(block));
    OK(leat_alloc_driver(t->stream, 1000, &block));
    OK(leat_free(t->stream, block));
    OK(leat_pool_trim(pool, 0, NULL, NULL));
}

/* Idle memory of one pool of the device goes to another before that fails. */
static void idle_memory_of_other_pools_is_taken(void **state)
{
    struct test_state *t = *state;
    leat_pool *first = POOL(t->device, .name = "idle one"), *second = POOL(t->device, .name = "hungry one");
    uint64_t free_bytes;
    size_t bytes;
    void *block;

    OK(leat_pool_trim(test_default_pool(t->device, LEAT_KIND_DEVICE), 0, NULL, NULL));
    OK(leat_device_memory(t->device, &free_bytes, NULL));
    bytes = (size_t)(free_bytes / 10 * 6);
    for (int round = 0; round < 4; round++) {
        block = test_block(round % 2 ? first : second, t->stream, bytes);
        OK(leat_fill(t->stream, block, 1, 4096));
        OK(leat_free(t->stream, block));
        OK(leat_stream_synchronize(t->stream));
    }
    OK(leat_pool_destroy(first));
    OK(leat_pool_destroy(second));
}

/* The memory that a request needs was freed on more streams than a stream remembers waits for. */
static void memory_of_many_streams_is_waited_for(void **state)
{
    enum { STREAMS = 12 };
    struct test_state *t = *state;
    leat_pool *pool;
    struct test_gate *gates[STREAMS];
    leat_stream *streams[STREAMS];
    void *blocks[STREAMS], *large;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = POOL(t->device, .limit_bytes = STREAMS * 8 * MIB, .name = "many streams");
    for (int i = 0; i < STREAMS; i++) {
        OK(leat_stream_create(t->device, &streams[i]));
        blocks[i] = test_block(pool, streams[i], 8 * MIB);
    }
    for (int i = 0; i < STREAMS; i++) {
        gates[i] = test_gate_close(streams[i]);
        OK(leat_fill(streams[i], blocks[i], 1, 8 * MIB));
        OK(leat_free(streams[i], blocks[i]));
    }
    large = test_block(pool, t->stream, STREAMS * 8 * MIB);
    assert_int_equal(test_statistics(pool).host_waits, 0);
    OK(leat_fill(t->stream, large, 2, STREAMS * 8 * MIB));
    /* Any of them alone would let the fill come too early. */
    for (int i = 0; i < STREAMS; i++) {
        EXPECT_HELD(t->stream, gates[i]);
        test_gate_open(gates[i]);
    }
    test_block_holds(t->stream, large, STREAMS * 8 * MIB, 2);
    OK(leat_free(t->stream, large));
    for (int i = 0; i < STREAMS; i++)
        OK(leat_stream_destroy(streams[i]));
    OK(leat_pool_destroy(pool));
}

static void destroying_a_pool_with_live_blocks_is_refused(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "lively");
    void *blocks[3];

    blocks[0] = test_block(pool, t->stream, 1000);
    blocks[1] = test_block(pool, t->stream, 7654321);
    blocks[2] = test_block(pool, t->stream, 3000);
    OK(leat_fill(t->stream, blocks[1], 6, 7654321));
    REFUSED(leat_pool_destroy(pool), LEAT_ERROR_BUSY, "3");
    assert_non_null(strstr(leat_last_error(), "lively"));
    assert_non_null(strstr(leat_last_error(), "7654321"));
    /* The pool goes on. */
    test_block_holds(t->stream, blocks[1], 7654321, 6);
    OK(leat_free(t->stream, blocks[1]));
    REFUSED(leat_pool_destroy(pool), LEAT_ERROR_BUSY, "2");
    blocks[1] = test_block(pool, t->stream, 5000);
    for (int i = 0; i < 3; i++)
        OK(leat_free(t->stream, blocks[i]));
    OK(leat_pool_destroy(pool));
}

/* ---- the callback ---------------------------------------------------------------------------------------------
 */

struct full {
    leat_stream *stream;
    leat_pool *pool, *other;
    void *list[64];
    int count, calls, answer;
    uint64_t bytes;
    leat_status status; /* of what the callback tried */
    leat_event *event;
};

static int free_one(void *argument, leat_pool *pool, uint64_t bytes)
{
    struct full *full = argument;

    full->calls++;
    full->bytes = bytes;
    if (pool != full->pool || !full->count)
        return 0;
    full->status = leat_free(full->stream, full->list[--full->count]);
    return 1;
}

static void a_callback_makes_room(void **state)
{
    struct test_state *t = *state;
    struct full full = {.stream = t->stream};
    void *block;
    int calls;

    full.pool = POOL(t->device, .limit_bytes = 32 * MIB, .name = "full");
    OK(leat_pool_on_full(full.pool, free_one, &full));
    /* Each request finds room by itself or by as many calls as it needs. */
    for (int i = 0; i < 30; i++) {
        full.list[full.count] = test_block(full.pool, t->stream, 4 * MIB);
        full.count++;
        OK(full.status);
    }
    assert_int_equal(full.bytes, 4 * MIB);
    assert_int_equal(full.calls, 30 - 8);
    assert_int_equal(test_statistics(full.pool).callbacks, full.calls);
    assert_int_equal(test_statistics(full.pool).failures, 0);
    /* A larger one needs several calls. */
    if (test_has_virtual_memory(t->device)) {
        full.list[full.count] = test_block(full.pool, t->stream, 16 * MIB);
        full.count++;
        assert_true(full.calls >= 30 - 8 + 4);
    }
    calls = full.calls;
    /* Taken away, nobody is called. */
    OK(leat_pool_on_full(full.pool, NULL, NULL));
    REFUSED(leat_pool_alloc(full.pool, t->stream, 32 * MIB, &block), LEAT_ERROR_DEVICE_MEMORY, "full");
    assert_int_equal(full.calls, calls);
    while (full.count)
        OK(leat_free(t->stream, full.list[--full.count]));
    OK(leat_pool_destroy(full.pool));
}

/* Has a failure of its own, then frees. */
static int fail_and_free(void *argument, leat_pool *pool, uint64_t bytes)
{
    return leat_stream_query(NULL) == LEAT_ERROR_HANDLE ? free_one(argument, pool, bytes) : 0;
}

/* The driver refused memory and the callback failed on the way, but the request succeeded: the message of this
 * thread stays. Where the request fails, it is about the request. */
static void a_success_leaves_the_message(void **state)
{
    struct test_state *t = *state;
    struct full full = {.stream = t->stream};
    void *block;

    full.pool = POOL(t->device, .limit_bytes = 8 * MIB, .name = "full");
    OK(leat_pool_on_full(full.pool, fail_and_free, &full));
    full.list[0] = test_block(full.pool, t->stream, 8 * MIB);
    full.count = 1;
    REFUSED(leat_event_query(NULL), LEAT_ERROR_HANDLE, "leat_event_query");
    block = test_block(full.pool, t->stream, 4 * MIB);
    assert_int_equal(full.calls, 1);
    assert_non_null(strstr(leat_last_error(), "leat_event_query"));
    REFUSED(leat_pool_alloc(full.pool, t->stream, 8 * MIB, &block), LEAT_ERROR_DEVICE_MEMORY,
            "the limit of 8388608 bytes is reached");
    assert_int_equal(full.calls, 2);
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(full.pool));
}

static int answer_only(void *argument, leat_pool *pool, uint64_t bytes)
{
    struct full *full = argument;

    (void)pool, (void)bytes;
    full->calls++;
    return full->answer;
}

/* A callback that always says yes and makes no room must not keep the call for ever. */
static void a_callback_that_makes_no_room_ends_in_the_error(void **state)
{
    struct test_state *t = *state;

    for (int answer = 0; answer < 2; answer++) {
        struct full full = {.answer = answer};
        void *block, *more = &more;

        full.pool = POOL(t->device, .limit_bytes = 8 * MIB, .name = "no room");
        OK(leat_pool_on_full(full.pool, answer_only, &full));
        block = test_block(full.pool, t->stream, 8 * MIB);
        REFUSED(leat_pool_alloc(full.pool, t->stream, MIB, &more), LEAT_ERROR_DEVICE_MEMORY, "no room");
        assert_ptr_equal(more, &more);
        assert_true(full.calls >= 1 && full.calls <= 1000);
        assert_int_equal(test_statistics(full.pool).failures, 1);
        assert_int_equal(test_statistics(full.pool).callbacks, full.calls);
        OK(leat_free(t->stream, block));
        OK(leat_pool_destroy(full.pool));
    }
}

/* Allocates from the full pool itself, which fails without another call, and from another pool, which works. */
static int allocate_inside(void *argument, leat_pool *pool, uint64_t bytes)
{
    struct full *full = argument;
    void *block = NULL;

    (void)bytes;
    full->calls++;
    if (full->calls > 1)
        return 0;
    if (leat_pool_alloc(pool, full->stream, 8 * MIB, &block) != LEAT_ERROR_DEVICE_MEMORY)
        full->status = LEAT_ERROR_INVALID;
    if (leat_pool_alloc(full->other, full->stream, 8 * MIB, &block) != LEAT_OK ||
        leat_fill(full->stream, block, 1, 8 * MIB) != LEAT_OK || leat_free(full->stream, block) != LEAT_OK)
        full->status = LEAT_ERROR_INVALID;
    /* Small enough for what is left, from the full pool. */
    if (leat_pool_alloc(pool, full->stream, 1000, &full->list[0]) != LEAT_OK)
        full->status = LEAT_ERROR_INVALID;
    if (leat_stream_destroy(full->list[1]) != LEAT_OK || leat_event_destroy(full->event) != LEAT_OK)
        full->status = LEAT_ERROR_INVALID;
    full->status = full->status == LEAT_OK ? leat_free(full->stream, full->list[2]) : full->status;
    return 1;
}

static void a_callback_may_use_leat(void **state)
{
    struct test_state *t = *state;
    struct full full = {.stream = t->stream};
    leat_stream *gone;
    void *block;

    full.pool = POOL(t->device, .limit_bytes = 16 * MIB, .name = "outer");
    full.other = POOL(t->device, .name = "inner");
    OK(leat_stream_create(t->device, &gone));
    full.list[1] = gone;
    full.list[2] = test_block(full.pool, t->stream, 12 * MIB);
    OK(leat_event_create(t->device, &full.event));
    OK(leat_pool_on_full(full.pool, allocate_inside, &full));
    block = test_block(full.pool, t->stream, 8 * MIB);
    OK(full.status);
    assert_int_equal(full.calls, 1);
    OK(leat_free(t->stream, block));
    OK(leat_free(t->stream, full.list[0]));
    OK(leat_pool_destroy(full.pool));
    OK(leat_pool_destroy(full.other));
}

/* The other pool of the callback is full as well, and its callback frees a block of the first. */
static int free_for_the_other(void *argument, leat_pool *pool, uint64_t bytes)
{
    struct full *full = argument;
    void *block = NULL;

    (void)bytes;
    full->calls++;
    if (pool == full->pool) {
        full->status = leat_pool_alloc(full->other, full->stream, 8 * MIB, &block);
        if (full->status == LEAT_OK)
            full->status = leat_free(full->stream, block);
        return 1;
    }
    for (int i = 0; i < 2; i++)
        if (full->list[i] && leat_free(full->stream, full->list[i]) != LEAT_OK)
            return 0;
    return 1;
}

static void callbacks_may_nest(void **state)
{
    struct test_state *t = *state;
    struct full full = {.stream = t->stream};
    void *block;

    full.pool = POOL(t->device, .limit_bytes = 8 * MIB);
    full.other = POOL(t->device, .limit_bytes = 8 * MIB);
    full.list[0] = test_block(full.pool, t->stream, 8 * MIB);
    full.list[1] = test_block(full.other, t->stream, 8 * MIB);
    OK(leat_pool_on_full(full.pool, free_for_the_other, &full));
    OK(leat_pool_on_full(full.other, free_for_the_other, &full));
    block = test_block(full.pool, t->stream, 8 * MIB);
    OK(full.status);
    assert_int_equal(full.calls, 2);
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(full.pool));
    OK(leat_pool_destroy(full.other));
}

/* ---- waste ----------------------------------------------------------------------------------------------------
 */

/* Every second block goes, and one of nearly all that was freed is asked for: idle pages are stitched together. */
static void holes_become_one_block(void **state)
{
    static const size_t sizes[] = {2 * MIB, 4 * MIB, 10 * MIB};
    struct test_state *t = *state;

    NEEDS_VIRTUAL_MEMORY(t);
    for (int i = 0; i < 3; i++) {
        size_t bytes = sizes[i], count = 120 * MIB / bytes;
        leat_pool *pool = POOL(t->device, .limit_bytes = 120 * MIB, .name = "holes");
        void *blocks[64], *large;

        for (size_t k = 0; k < count; k++) {
            blocks[k] = test_block(pool, t->stream, bytes);
            OK(leat_fill(t->stream, blocks[k], (uint8_t)(k + 1), bytes));
        }
        for (size_t k = 0; k < count; k += 2)
            OK(leat_free(t->stream, blocks[k]));
        large = test_block(pool, t->stream, 60 * MIB - bytes / 2);
        OK(leat_fill(t->stream, large, 0xff, 60 * MIB - bytes / 2));
        for (size_t k = 1; k < count; k += 2) {
            test_block_holds(t->stream, blocks[k], bytes, (unsigned char)(k + 1));
            OK(leat_free(t->stream, blocks[k]));
        }
        test_block_holds(t->stream, large, 60 * MIB - bytes / 2, 0xff);
        assert_true(test_statistics(pool).reserved_peak_bytes <= 120 * MIB);
        OK(leat_free(t->stream, large));
        OK(leat_pool_destroy(pool));
    }
}

/* Sizes that grow by and by, each a little larger than the hole of the one before: what a growing batch does. */
static void growing_blocks_use_the_old_memory(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool;
    void *block, *next;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = POOL(t->device, .name = "growing");
    block = test_block(pool, t->stream, 10 * MIB);
    for (size_t bytes = 11 * MIB; bytes <= 60 * MIB; bytes += MIB) {
        next = test_block(pool, t->stream, bytes);
        OK(leat_free(t->stream, block));
        /* What comes next may have them once their work is done. */
        OK(leat_stream_synchronize(t->stream));
        block = next;
    }
    /* At the most two neighbours in size are live. */
    assert_true(test_statistics(pool).reserved_peak_bytes * 100 <=
                test_statistics(pool).requested_peak_bytes * 110);
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* 91 MiB come and go, then 45.5 MiB twice, and 2 MiB stay each time: an allocator that splits 91 for what stays
 * holds 50 times what is live after 100 cycles (pytorch issue 193400). */
static void three_sizes_do_not_pile_up(void **state)
{
    enum { CYCLES = 100 };
    struct test_state *t = *state;
    leat_pool *pool;
    void *kept[CYCLES];

    NEEDS_VIRTUAL_MEMORY(t);
    pool = POOL(t->device, .name = "three sizes");
    for (int i = 0; i < CYCLES; i++) {
        void *large = test_block(pool, t->stream, 91 * MIB), *half;

        OK(leat_free(t->stream, large));
        for (int k = 0; k < 2; k++) {
            half = test_block(pool, t->stream, 91 * MIB / 2);
            if (k == 0)
                kept[i] = test_block(pool, t->stream, 2 * MIB);
            OK(leat_fill(t->stream, kept[i], (uint8_t)(i + 1), 2 * MIB));
            OK(leat_free(t->stream, half));
        }
        OK(leat_stream_synchronize(t->stream));
    }
    assert_true(test_statistics(pool).reserved_peak_bytes * 100 <=
                test_statistics(pool).requested_peak_bytes * 110);
    for (int i = 0; i < CYCLES; i++) {
        test_block_holds(t->stream, kept[i], 2 * MIB, (unsigned char)(i + 1));
        OK(leat_free(t->stream, kept[i]));
    }
    OK(leat_pool_destroy(pool));
}

/* The same on two streams, one of which frees what the other allocated. */
static void three_sizes_on_two_streams(void **state)
{
    enum { CYCLES = 50 };
    struct test_state *t = *state;
    leat_pool *pool;
    void *kept[CYCLES];
    leat_event *event;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = POOL(t->device, .name = "three sizes", .reuse = LEAT_POOL_WAIT);
    OK(leat_event_create(t->device, &event));
    for (int i = 0; i < CYCLES; i++) {
        leat_stream *first = i % 2 ? t->stream : t->second, *second = i % 2 ? t->second : t->stream;
        void *large = test_block(pool, first, 91 * MIB), *half;

        OK(leat_event_record(event, first));
        OK(leat_stream_wait(second, event));
        OK(leat_free(second, large));
        half = test_block(pool, second, 91 * MIB / 2);
        kept[i] = test_block(pool, first, 2 * MIB);
        OK(leat_free(second, half));
        OK(leat_event_record(event, second));
        OK(leat_stream_wait(first, event));
        OK(leat_device_synchronize(t->device));
    }
    assert_true(test_statistics(pool).reserved_peak_bytes * 100 <=
                test_statistics(pool).requested_peak_bytes * 110);
    for (int i = 0; i < CYCLES; i++)
        OK(leat_free(t->stream, kept[i]));
    OK(leat_event_destroy(event));
    OK(leat_pool_destroy(pool));
}

/* Two streams are enough to strand memory: what one freed and is done with serves the other, whatever the sizes.
 */
static void memory_is_not_stranded_with_a_stream(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = POOL(t->device, .limit_bytes = 100 * MIB, .reuse = LEAT_POOL_WAIT_NEVER);
    for (int round = 0; round < 10; round++) {
        leat_stream *stream = round % 2 ? t->stream : t->second;
        size_t bytes = round % 3 ? 2 * MIB : 10 * MIB, count = 100 * MIB / bytes;
        void *blocks[50];

        for (size_t i = 0; i < count; i++)
            blocks[i] = test_block(pool, stream, bytes);
        for (size_t i = 0; i < count; i++)
            OK(leat_free(stream, blocks[i]));
        OK(leat_stream_synchronize(stream));
    }
    assert_int_equal(test_statistics(pool).host_waits, 0);
    OK(leat_pool_destroy(pool));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(a_hard_limit_holds),
    STATE_TEST(small_blocks_fit_between_large_ones),
    STATE_TEST(the_limit_of_a_pinned_pool_is_about_host_memory),
    STATE_TEST(limits_change),
    STATE_TEST(a_soft_limit_gives_idle_memory_back),
    STATE_TEST(two_pools_share_a_budget),
    STATE_TEST(a_budget_is_for_any_pools),
    STATE_TEST(a_budget_outlives_its_devices),
    STATE_TEST(trimming_gives_idle_memory_back),
    STATE_TEST(trimming_gives_pages_of_small_blocks_back),
    STATE_TEST(trimming_by_age_spares_the_young),
    STATE_TEST(a_list_that_is_never_freed_ends_in_an_error),
    STATE_TEST(a_full_device_is_survived),
    STATE_TEST(idle_memory_of_other_pools_is_taken),
    STATE_TEST(memory_of_many_streams_is_waited_for),
    STATE_TEST(destroying_a_pool_with_live_blocks_is_refused),
    STATE_TEST(a_callback_makes_room),
    STATE_TEST(a_success_leaves_the_message),
    STATE_TEST(a_callback_that_makes_no_room_ends_in_the_error),
    STATE_TEST(a_callback_may_use_leat),
    STATE_TEST(callbacks_may_nest),
    STATE_TEST(holes_become_one_block),
    STATE_TEST(growing_blocks_use_the_old_memory),
    STATE_TEST(three_sizes_do_not_pile_up),
    STATE_TEST(three_sizes_on_two_streams),
    STATE_TEST(memory_is_not_stranded_with_a_stream),
};

TEST_MAIN(tests)
