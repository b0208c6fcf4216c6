/*
 * test_pool_limits.c - tests limits of pools, budgets that several pools share, trimming, and how little memory a
 * pool wastes when block sizes change.
 */
#include "test_pool.h"

/* ---- limits ---- */

/* Fills a pool with blocks until it refuses one. Returns their number. */
static int fill_up(leat_pool *pool, leat_stream *stream, size_t bytes, void **blocks, int most)
{
    int count = 0;

    while (count < most && leat_pool_alloc(stream, pool, bytes, &blocks[count]) == LEAT_OK)
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
        leat_pool_stats figures = test_statistics(pool);

        /* The sizes are whole pages, so a pool with virtual memory loses nothing to rounding. */
        if (test_has_virtual_memory(t->device))
            assert_int_equal(count, 64 * MIB / sizes[i]);
        assert_true(count >= 1);
        assert_true(figures.reserved_peak_bytes <= 64 * MIB);
        assert_true(figures.failures >= 1);
        assert_int_equal(figures.live_blocks, count);
        REFUSED(leat_pool_alloc(t->stream, pool, sizes[i], &one), LEAT_ERROR_DEVICE_MEMORY, "limited");
        OK(leat_free(t->stream, blocks[--count]));
        blocks[count++] = test_block(pool, t->stream, sizes[i]);
        while (count)
            OK(leat_free(t->stream, blocks[--count]));
        OK(leat_pool_destroy(pool));
    }
}

/* Small blocks use their own pages. If the limit leaves no page for them, they use gaps between large blocks. */
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
    REFUSED(leat_pool_alloc(t->stream, pool, 1000, &more), LEAT_ERROR_DEVICE_MEMORY, "tight");
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

    REFUSED(leat_pool_alloc(t->stream, pool, 8 * MIB, &more), LEAT_ERROR_HOST_MEMORY, "small");
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
    /* The message names the bytes in use and the requested limit. */
    REFUSED(leat_pool_set_limits(pool, 10 * MIB, 0), LEAT_ERROR_BUSY, "10485760");
    assert_non_null(strstr(leat_last_error(), "20971520"));
    /* A refused call changes nothing. */
    more = test_block(pool, t->stream, 100 * MIB);
    OK(leat_free(t->stream, more));
    OK(leat_stream_synchronize(t->stream));
    /* The new limit is below the held bytes but above the used bytes, so the pool releases idle memory. */
    OK(leat_pool_set_limits(pool, 24 * MIB, 0));
    held = test_statistics(pool).reserved_bytes;
    assert_true(held >= 20 * MIB && held <= 24 * MIB);
    REFUSED(leat_pool_alloc(t->stream, pool, 20 * MIB, &more), LEAT_ERROR_DEVICE_MEMORY, "limit");
    /* A soft limit may be below the used bytes. */
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

/* While the pool holds more than the soft limit, later calls of the program release idle memory. */
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

/* ---- budgets ---- */

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
    REFUSED(leat_pool_alloc(t->stream, second, 40 * MIB, &more), LEAT_ERROR_DEVICE_MEMORY, "budget");
    assert_ptr_equal(more, &more);
    OK(leat_free(t->stream, block));
    OK(leat_stream_synchronize(t->stream));
    /* The second pool takes idle memory of the first. */
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

/* A pool that reaches its own limit, or the limit of its budget, takes idle memory only from pools that help. */
static void full_pools_strip_no_others(void **state)
{
    struct test_state *t = *state;
    leat_pool *limited, *idle[2], *sharing;
    leat_budget *budget;
    void *blocks[2], *refused;

    OK(leat_budget_create(40 * MIB, &budget));
    limited = POOL(t->device, .limit_bytes = 8 * MIB);
    sharing = POOL(t->device, .budget = budget);
    idle[0] = POOL(t->device, .budget = budget);
    idle[1] = POOL(t->device, .name = "other memory");
    for (int i = 0; i < 2; i++)
        blocks[i] = test_block(idle[i], t->stream, 30 * MIB);
    for (int i = 0; i < 2; i++)
        OK(leat_free(t->stream, blocks[i]));
    OK(leat_stream_synchronize(t->stream));
    REFUSED(leat_pool_alloc(t->stream, limited, 16 * MIB, &refused), LEAT_ERROR_DEVICE_MEMORY, "limit");
    for (int i = 0; i < 2; i++)
        assert_true(test_statistics(idle[i]).reserved_bytes >= 30 * MIB);
    OK(leat_free(t->stream, test_block(sharing, t->stream, 30 * MIB)));
    assert_true(test_statistics(idle[0]).reserved_bytes <= 10 * MIB);
    assert_true(test_statistics(idle[1]).reserved_bytes >= 30 * MIB);
    for (int i = 0; i < 2; i++)
        OK(leat_pool_destroy(idle[i]));
    OK(leat_pool_destroy(limited));
    OK(leat_pool_destroy(sharing));
    OK(leat_budget_destroy(budget));
}

/* Pools of device memory, of pinned memory and of a second device share one budget. */
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

/* Closing the device destroys its pools, which releases their part of the budget. */
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

/* ---- trimming ---- */

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
        /* Trimming must reach the target. */
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
        /* The pool can be used again. */
        kept = test_block(pool, t->stream, 6 * MIB);
        OK(leat_fill(t->stream, kept, 8, 6 * MIB));
        test_block_holds(t->stream, kept, 6 * MIB, 8);
        OK(leat_free(t->stream, kept));
        OK(leat_pool_destroy(pool));
    }
}

/* Of many small blocks one stays live. Trimming must release the pages without live blocks. */
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

/* ---- wasted memory ---- */

/* The program frees every second block, and one request needs nearly all of the freed memory. The pool must stitch
 * idle pages together. */
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

/* Each block is a little larger than the previous one, as in a program whose batch size grows. */
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
        /* Wait for the free, so that the next block may reuse the memory. */
        OK(leat_stream_synchronize(t->stream));
        block = next;
    }
    /* At most two blocks are live at once, and their sizes are nearly equal. */
    assert_true(test_statistics(pool).reserved_peak_bytes * 100 <=
                test_statistics(pool).requested_peak_bytes * 110);
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* Each cycle allocates and frees 91 MiB, then 45.5 MiB twice, and keeps 2 MiB. If an allocator splits the 91 MiB
 * for the 2 MiB, it holds 50 times the live bytes after 100 cycles (pytorch issue 193400). */
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

/* Runs the cycles of the previous test on two streams. Each stream frees blocks that the other one allocated. */
static void three_sizes_on_two_streams(void **state)
{
    enum { CYCLES = 50 };
    struct test_state *t = *state;
    leat_pool *pool;
    void *kept[CYCLES];
    leat_event *event;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = POOL(t->device, .name = "three sizes", .reuse = LEAT_POOL_REUSE_WAIT);
    OK(leat_event_create(t->device, &event));
    for (int i = 0; i < CYCLES; i++) {
        leat_stream *first = i % 2 ? t->stream : t->second, *second = i % 2 ? t->second : t->stream;
        void *large = test_block(pool, first, 91 * MIB), *half;

        OK(leat_event_record(first, event));
        OK(leat_stream_wait(second, event));
        OK(leat_free(second, large));
        half = test_block(pool, second, 91 * MIB / 2);
        kept[i] = test_block(pool, first, 2 * MIB);
        OK(leat_free(second, half));
        OK(leat_event_record(second, event));
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

/* Freed memory must not stay reserved for its stream: when the stream's work is complete, another stream can use
 * the memory for any size. */
static void memory_is_not_stranded_with_a_stream(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = POOL(t->device, .limit_bytes = 100 * MIB, .reuse = LEAT_POOL_REUSE_WAIT_NEVER);
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
    STATE_TEST(full_pools_strip_no_others),
    STATE_TEST(a_budget_is_for_any_pools),
    STATE_TEST(a_budget_outlives_its_devices),
    STATE_TEST(trimming_gives_idle_memory_back),
    STATE_TEST(trimming_gives_pages_of_small_blocks_back),
    STATE_TEST(trimming_by_age_spares_the_young),
    STATE_TEST(holes_become_one_block),
    STATE_TEST(growing_blocks_use_the_old_memory),
    STATE_TEST(three_sizes_do_not_pile_up),
    STATE_TEST(three_sizes_on_two_streams),
    STATE_TEST(memory_is_not_stranded_with_a_stream),
};

TEST_MAIN(tests)
