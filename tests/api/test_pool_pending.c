/*
 * test_pool_pending.c - tests pools whose freed memory is still in use: repeated allocation in a loop, stitching
 * while a gate holds a stream up, and frees that are submitted before slow work has run.
 */
#include "pool_scene.h"

/* ---- allocation in a loop ---- */

/* A loop allocates a block, launches a kernel and frees the block. Each round must get the same address, and after
 * the first round the pool must not call the driver. */
static void a_loop_gets_the_same_block_each_time(void **state)
{
    static const size_t sizes[] = {400, 100000, 3 * MIB, 64 * MIB};
    struct test_state *t = *state;
    leat_pool *pool = test_default_pool(t->device, LEAT_KIND_DEVICE);
    leat_kernel *add = test_kernel(t->device, "leat_add_u32");

    for (int size = 0; size < 4; size++) {
        leat_pool_stats first = {0}, last;
        void *block, *seen = NULL;
        uint64_t count = 100;
        uint32_t one = 1;
        void *args[] = {&block, &count, &one};

        for (int i = 0; i < 100; i++) {
            OK(leat_alloc(t->stream, sizes[size], &block));
            OK(leat_launch(t->stream, add, leat_dim(1, 1, 1), leat_dim(64, 1, 1), 0, args, 3));
            OK(leat_free(t->stream, block));
            if (i == 0) {
                seen = block;
                first = test_statistics(pool);
            }
            assert_ptr_equal(block, seen);
        }
        last = test_statistics(pool);
        assert_int_equal(last.driver_calls, first.driver_calls);
        assert_int_equal(last.events, first.events);
        assert_int_equal(last.queries, first.queries);
        assert_int_equal(last.stream_waits, first.stream_waits);
        assert_int_equal(last.host_waits, 0);
        assert_int_equal(last.allocations, first.allocations + 99);
    }
}

/* A loop allocates, fills and frees a block while a gate holds the stream up, so that no work ever completes. Each
 * round must get the same address. */
static void a_stream_that_stands_still_reuses_its_memory(void **state)
{
    struct test_state *t = *state;

    for (int sort = 0; sort < KINDS; sort++) {
        leat_pool_options options = {.size = sizeof options,
                                     .no_virtual_memory = sort == PLAIN,
                                     .dedicated = sort == DEDICATED,
                                     .kind = sort == PINNED ? LEAT_KIND_PINNED : LEAT_KIND_DEVICE};
        leat_pool *pool = test_pool_try(t->device, &options);
        leat_pool_stats first, last;
        struct test_gate *gate;
        void *block;

        if (!pool)
            continue;
        block = test_block(pool, t->stream, BYTES);
        first = test_statistics(pool);
        gate = test_gate_close(t->stream);
        OK(leat_free(t->stream, block));
        for (int i = 0; i < 200; i++) {
            void *again = test_block(pool, t->stream, BYTES);

            assert_ptr_equal(again, block);
            OK(leat_fill(t->stream, again, (uint8_t)i, BYTES));
            OK(leat_free(t->stream, again));
        }
        last = test_statistics(pool);
        assert_int_equal(last.driver_calls, first.driver_calls);
        assert_int_equal(last.events, first.events);
        assert_int_equal(last.reserved_bytes, first.reserved_bytes);
        test_gate_open(gate);
        OK(leat_stream_synchronize(t->stream));
        OK(leat_pool_destroy(pool));
    }
}

/* ---- calls that must not wait ---- */

/* Allocates, frees, reuses and trims memory on the held stream and on another one. After each call the gate must
 * still be closed. */
static void nothing_waits_while_a_stream_is_held_up(void **state)
{
    enum { SLOTS = 12, STEPS = 400 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .reuse = LEAT_POOL_REUSE_WAIT_NEVER);
    struct test_gate *gate = test_gate_close(t->stream);
    void *blocks[SLOTS] = {NULL};
    leat_stream *owners[SLOTS] = {NULL};

    for (uint64_t step = 0; step < STEPS; step++) {
        uint64_t slot = leat_pattern_value(step, 5) % SLOTS;
        leat_stream *stream = leat_pattern_value(step, 6) % 2 ? t->stream : t->second;

        if (blocks[slot]) {
            if (leat_pattern_value(step, 7) % 4 == 0)
                OK(leat_block_use(stream, blocks[slot]));
            OK(leat_free(owners[slot], blocks[slot]));
            blocks[slot] = NULL;
        } else {
            owners[slot] = stream;
            blocks[slot] = test_block(pool, stream, 1 + leat_pattern_value(step, 8) % (9 * MIB));
            OK(leat_fill(stream, blocks[slot], (uint8_t)step, 1));
        }
        if (step % 10 == 9)
            OK(leat_pool_trim(pool, step % 20 == 9 ? 0 : 16 * MIB, NULL, NULL));
        assert_int_equal(atomic_load(&gate->passed), 0);
    }
    assert_int_equal(test_statistics(pool).host_waits, 0);
    assert_int_equal(leat_stream_query(t->stream), LEAT_NOT_READY);
    OK(leat_stream_synchronize(t->second));
    assert_int_equal(atomic_load(&gate->passed), 0);
    test_gate_open(gate);
    for (int i = 0; i < SLOTS; i++)
        OK(leat_free(owners[i] ? owners[i] : t->stream, blocks[i]));
    OK(leat_device_synchronize(t->device));
    OK(leat_pool_destroy(pool));
}

/* The pool must stitch idle pages into one block while a gate holds up another stream's work on a live block. */
static void pages_are_stitched_while_a_stream_is_held_up(void **state)
{
    enum { COUNT = 16 };
    struct test_state *t = *state;
    leat_pool *pool;
    struct test_gate *gate;
    void *kept, *blocks[COUNT], *large;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = POOL(t->device, .limit_bytes = (COUNT + 1) * BYTES);
    kept = test_block(pool, t->stream, BYTES);
    for (int round = 0; round < 3; round++) {
        OK(leat_fill(t->stream, kept, 1, BYTES));
        gate = test_gate_close(t->stream);
        OK(leat_fill(t->stream, kept, 2, BYTES));
        for (int i = 0; i < COUNT; i++) {
            blocks[i] = test_block(pool, t->second, BYTES);
            OK(leat_fill(t->second, blocks[i], 3, BYTES));
        }
        OK(leat_stream_synchronize(t->second));
        for (int i = 0; i < COUNT; i += 2)
            OK(leat_free(t->second, blocks[i]));
        OK(leat_stream_synchronize(t->second));
        large = test_block(pool, t->second, COUNT / 2 * BYTES);
        OK(leat_fill(t->second, large, 4, COUNT / 2 * BYTES));
        OK(leat_stream_synchronize(t->second));
        assert_int_equal(atomic_load(&gate->passed), 0);
        for (int i = 1; i < COUNT; i += 2) {
            test_block_holds(t->second, blocks[i], BYTES, 3);
            OK(leat_free(t->second, blocks[i]));
        }
        test_block_holds(t->second, large, COUNT / 2 * BYTES, 4);
        OK(leat_free(t->second, large));
        assert_int_equal(test_statistics(pool).host_waits, 0);
        test_gate_open(gate);
        test_block_holds(t->stream, kept, BYTES, 2);
        OK(leat_stream_synchronize(t->second));
    }
    assert_true(test_statistics(pool).pages_stitched > 0);
    OK(leat_free(t->stream, kept));
    OK(leat_pool_destroy(pool));
}

/* State of the callback. A request fails after it has collected pages that its own stream still uses; then the
 * callback allocates on another stream, which must wait for that use. */
struct collected {
    struct scene *x;
    void *block;
    leat_status status;
};

static int take_what_was_collected(void *argument, leat_pool *pool, uint64_t bytes)
{
    struct collected *c = argument;

    (void)bytes;
    c->status = leat_pool_alloc(c->x->u, pool, 2 * BYTES, &c->block);
    return 0;
}

static void what_a_failed_request_collected_is_still_in_use(void **state)
{
    struct test_state *t = *state;

    NEEDS_VIRTUAL_MEMORY(t);
    for (int reuse = 0; reuse < 2; reuse++) {
        struct scene x = {.t = t, .s = t->stream, .u = t->second};
        struct collected c = {.x = &x};
        void *live, *block, *behind, *more;

        x.pool = POOL(t->device, .limit_bytes = 4 * BYTES, .reuse = (leat_pool_reuse)reuse);
        x.kept = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
        OK(leat_pool_on_full(x.pool, take_what_was_collected, &c));
        live = test_block(x.pool, x.s, BYTES);
        /* This block is between live blocks, so the pool must remap its pages to make a larger one. */
        block = test_block(x.pool, x.s, BYTES);
        behind = test_block(x.pool, x.s, BYTES);
        work_late(&x, x.s, block);
        OK(leat_free(x.s, block));
        STATUS(leat_pool_alloc(x.s, x.pool, 3 * BYTES, &more), LEAT_ERROR_DEVICE_MEMORY);
        OK(c.status);
        OK(leat_fill(x.u, c.block, NEW, 2 * BYTES));
        give_a_chance(x.u);
        test_gate_open(x.gate);
        OK(leat_device_synchronize(t->device));
        EXPECT_BYTES(x.kept, BYTES, OLD);
        test_block_holds(x.u, c.block, 2 * BYTES, NEW);
        OK(leat_free(x.u, c.block));
        OK(leat_free(x.s, live));
        OK(leat_free(x.s, behind));
        OK(leat_pool_destroy(x.pool));
        OK(leat_memory_free(x.kept));
    }
}

/* An aligned block gets memory that its own stream still uses. The part in front of the aligned address stays in
 * use. Whether there is such a part depends on the address range, so the test tries two positions. */
static void what_an_alignment_leaves_is_still_in_use(void **state)
{
    struct test_state *t = *state;

    for (int reuse = 0; reuse < 3; reuse++) {
        for (size_t front = 1; front <= 2; front++) {
            struct scene x = {.t = t, .s = t->stream, .u = t->second};
            void *first, *block, *aligned, *pieces[2];

            x.pool = POOL(t->device, .reuse = (leat_pool_reuse)reuse);
            x.kept = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
            first = test_block(x.pool, x.s, front * BYTES / 2);
            block = test_block(x.pool, x.s, BYTES);
            work_late(&x, x.s, block);
            OK(leat_free(x.s, block));
            OK(leat_pool_alloc_aligned(x.s, x.pool, 2 * BYTES, BYTES, &aligned));
            for (int i = 0; i < 2; i++) {
                pieces[i] = test_block(x.pool, x.u, BYTES / 2);
                OK(leat_fill(x.u, pieces[i], NEW, BYTES / 2));
            }
            give_a_chance(x.u);
            test_gate_open(x.gate);
            OK(leat_device_synchronize(t->device));
            EXPECT_BYTES(x.kept, BYTES, OLD);
            for (int i = 0; i < 2; i++) {
                test_block_holds(x.u, pieces[i], BYTES / 2, NEW);
                OK(leat_free(x.u, pieces[i]));
            }
            OK(leat_free(x.s, aligned));
            OK(leat_free(x.s, first));
            OK(leat_pool_destroy(x.pool));
            OK(leat_memory_free(x.kept));
        }
    }
}

/* A page of a freed stitched block goes to small blocks while old work still uses the stitched block. The block's
 * addresses must stay mapped until that work is complete. */
static void a_page_leaves_a_stitched_block_behind_its_work(void **state)
{
    struct test_state *t = *state;
    struct scene x = {.t = t, .s = t->stream, .u = t->second};
    void *between[2], *block, *small;

    NEEDS_VIRTUAL_MEMORY(t);
    x.pool = POOL(t->device, .limit_bytes = 2 * BYTES);
    x.kept = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
    take_every_second_page(&x, between);
    block = test_block(x.pool, x.s, BYTES);
    assert_int_equal(test_statistics(x.pool).stitches, 1);
    work_late(&x, x.s, block);
    OK(leat_free(x.s, block));
    small = test_block(x.pool, x.s, 4096);
    OK(leat_fill(x.s, small, NEW, 4096));
    test_gate_open(x.gate);
    OK(leat_device_synchronize(t->device));
    EXPECT_BYTES(x.kept, BYTES, OLD);
    test_block_holds(x.s, small, 4096, NEW);
    OK(leat_free(x.s, small));
    for (int i = 0; i < 2; i++)
        OK(leat_free(x.s, between[i]));
    OK(leat_pool_destroy(x.pool));
    OK(leat_memory_free(x.kept));
}

/* ---- slow work ---- */

static void be_slow(void *unused)
{
    (void)unused;
    test_sleep_us(40000);
}

/* Another stream requests two freed blocks of a slow stream as one block. The pool has no other pages and cannot
 * remap these before the work is complete, so the host waits. */
static void pages_in_use_do_not_move(void **state)
{
    struct test_state *t = *state;
    unsigned char *kept = test_alloc(t->device, LEAT_KIND_PINNED, 2 * BYTES);

    for (int reuse = 0; reuse < 3; reuse++) {
        leat_pool *pool = POOL(t->device, .limit_bytes = 3 * BYTES, .reuse = (leat_pool_reuse)reuse);
        char *first = test_block(pool, t->stream, BYTES), *between = test_block(pool, t->stream, BYTES);
        char *last = test_block(pool, t->stream, BYTES), *both;

        OK(leat_fill(t->stream, first, 1, BYTES));
        OK(leat_fill(t->stream, last, 2, BYTES));
        OK(leat_launch_host(t->stream, be_slow, NULL));
        OK(leat_copy(t->stream, kept, first, BYTES));
        OK(leat_copy(t->stream, kept + BYTES, last, BYTES));
        OK(leat_fill(t->stream, first, 3, BYTES));
        OK(leat_fill(t->stream, last, 3, BYTES));
        OK(leat_free(t->stream, first));
        OK(leat_free(t->stream, last));
        if (test_has_virtual_memory(t->device)) {
            both = test_block(pool, t->second, 2 * BYTES);
            OK(leat_fill(t->second, both, 5, 2 * BYTES));
            OK(leat_device_synchronize(t->device));
            test_block_holds(t->second, both, 2 * BYTES, 5);
            OK(leat_free(t->second, both));
        }
        OK(leat_device_synchronize(t->device));
        EXPECT_BYTES(kept, BYTES, 1);
        EXPECT_BYTES(kept + BYTES, BYTES, 2);
        OK(leat_free(t->stream, between));
        OK(leat_pool_destroy(pool));
    }
    OK(leat_memory_free(kept));
}

/* Destroying a pool must wait for work that still uses freed blocks. */
static void a_pool_ends_after_its_work(void **state)
{
    struct test_state *t = *state;
    unsigned char *kept = test_alloc(t->device, LEAT_KIND_PINNED, 2 * BYTES);

    for (int kind = 0; kind < KINDS; kind++) {
        leat_pool_options options = {.size = sizeof options,
                                     .no_virtual_memory = kind == PLAIN,
                                     .dedicated = kind == DEDICATED,
                                     .kind = kind == PINNED ? LEAT_KIND_PINNED : LEAT_KIND_DEVICE};
        leat_pool *pool = test_pool_try(t->device, &options);
        void *freed, *used;

        if (!pool)
            continue;
        memset(kept, 0, 2 * BYTES);
        freed = test_block(pool, t->stream, BYTES);
        used = test_block(pool, t->stream, BYTES);
        OK(leat_fill(t->stream, freed, 1, BYTES));
        OK(leat_launch_host(t->stream, be_slow, NULL));
        OK(leat_copy(t->stream, kept, freed, BYTES));
        OK(leat_free(t->stream, freed));
        OK(leat_fill(t->second, used, 2, BYTES));
        OK(leat_launch_host(t->second, be_slow, NULL));
        OK(leat_copy(t->second, kept + BYTES, used, BYTES));
        OK(leat_block_use(t->second, used));
        OK(leat_free(t->stream, used));
        OK(leat_pool_destroy(pool));
        OK(leat_device_synchronize(t->device));
        EXPECT_BYTES(kept, BYTES, 1);
        EXPECT_BYTES(kept + BYTES, BYTES, 2);
    }
    OK(leat_memory_free(kept));
}

/* A lower limit must not release pages that another stream still uses after their free. */
static void a_smaller_limit_spares_what_is_in_use(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "shrinking");
    unsigned char *kept = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
    void *block = test_block(pool, t->stream, BYTES);
    leat_status status;

    OK(leat_fill(t->stream, block, 1, BYTES));
    OK(leat_launch_host(t->stream, be_slow, NULL));
    OK(leat_copy(t->stream, kept, block, BYTES));
    OK(leat_free(t->stream, block));
    status = leat_pool_set_limits(pool, 1, 0);
    assert_true(status == LEAT_OK || status == LEAT_ERROR_BUSY);
    OK(leat_device_synchronize(t->device));
    EXPECT_BYTES(kept, BYTES, 1);
    OK(leat_pool_set_limits(pool, 1, 0));
    assert_int_equal(test_statistics(pool).reserved_bytes, 0);
    OK(leat_pool_destroy(pool));
    OK(leat_memory_free(kept));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(a_loop_gets_the_same_block_each_time),
    STATE_TEST(a_stream_that_stands_still_reuses_its_memory),
    STATE_TEST(nothing_waits_while_a_stream_is_held_up),
    STATE_TEST(pages_are_stitched_while_a_stream_is_held_up),
    STATE_TEST(what_a_failed_request_collected_is_still_in_use),
    STATE_TEST(what_an_alignment_leaves_is_still_in_use),
    STATE_TEST(a_page_leaves_a_stitched_block_behind_its_work),
    STATE_TEST(pages_in_use_do_not_move),
    STATE_TEST(a_pool_ends_after_its_work),
    STATE_TEST(a_smaller_limit_spares_what_is_in_use),
};

TEST_MAIN(tests)
