/* test_pool_reuse.c - pools: how freed memory is found again, and what waits for it. */
#include "pool_scene.h"

#include <pthread.h>

/* ---- memory comes back ----------------------------------------------------------------------------------------
 */

/* With one block's worth of memory, and streams that may never wait: each must find that the last owner is done.
 */
static void memory_comes_back(void **state)
{
    struct test_state *t = *state;
    struct scene x = {.t = t, .s = t->stream, .u = t->second};
    leat_event *event;

    OK(leat_event_create(t->device, &event));
    x.pool = POOL(t->device, .limit_bytes = BYTES, .reuse = LEAT_POOL_WAIT_NEVER);
    for (int i = 0; i < 12; i++) {
        leat_stream *stream = i % 2 ? x.s : x.u, *next = i % 2 ? x.u : x.s;
        void *block = test_block(x.pool, stream, BYTES);

        OK(leat_fill(stream, block, (uint8_t)i, BYTES));
        OK(leat_free(stream, block));
        switch (i % 4) {
        case 0: /* ordered by the program */
            order(&x, stream, next);
            break;
        case 1: /* the program knows that it is done */
            OK(leat_stream_synchronize(stream));
            break;
        case 2:
            OK(leat_event_record(event, stream));
            OK(leat_event_synchronize(event));
            break;
        case 3:
            OK(leat_device_synchronize(t->device));
            break;
        }
    }
    assert_int_equal(test_statistics(x.pool).host_waits, 0);
    assert_int_equal(test_statistics(x.pool).stream_waits, 0);
    assert_true(test_statistics(x.pool).reserved_peak_bytes <= BYTES);
    OK(leat_event_destroy(event));
    OK(leat_pool_destroy(x.pool));
}

/* By the waits that the program made, also over a third stream, while the first is still held up. */
static void ordered_memory_is_taken_while_its_work_is_pending(void **state)
{
    struct test_state *t = *state;
    struct scene x = {.t = t, .s = t->stream, .u = t->second};

    for (int hops = 1; hops <= 2; hops++) {
        leat_stream *third = new_stream(&x);
        void *block, *again;

        x.pool = POOL(t->device, .limit_bytes = BYTES, .reuse = LEAT_POOL_WAIT_NEVER);
        x.kept = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
        block = test_block(x.pool, x.s, BYTES);
        work_late(&x, x.s, block);
        OK(leat_free(x.s, block));
        order(&x, x.s, hops == 1 ? x.u : third);
        if (hops == 2)
            order(&x, third, x.u);
        /* The pool has no other memory, and this call must not wait. */
        again = test_block(x.pool, x.u, BYTES);
        EXPECT_HELD(x.u, x.gate);
        assert_int_equal(test_statistics(x.pool).host_waits, 0);
        assert_int_equal(test_statistics(x.pool).stream_waits, 0);
        both_are_right(&x, x.u, again);
        OK(leat_stream_destroy(third));
        OK(leat_pool_destroy(x.pool));
        OK(leat_memory_free(x.kept));
    }
}

/* What a policy may do while the first stream is held up. */
static void policies_decide_who_waits(void **state)
{
    struct test_state *t = *state;

    for (int way = 0; way < 4; way++) {
        struct scene x = {.t = t, .s = t->stream, .u = t->second};
        bool limited = way == 3, waits = way == 1 || limited;
        void *block, *again;

        x.pool = POOL(t->device, .reuse = (leat_pool_reuse)(way % 3), .limit_bytes = limited ? BYTES : 0);
        x.kept = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
        block = test_block(x.pool, x.s, BYTES);
        work_late(&x, x.s, block);
        OK(leat_free(x.s, block));
        again = test_block(x.pool, x.u, BYTES);
        OK(leat_fill(x.u, again, NEW, BYTES));
        if (waits) {
            EXPECT_HELD(x.u, x.gate);
            assert_true(test_statistics(x.pool).stream_waits > 0);
            assert_true(test_statistics(x.pool).reserved_bytes < 2 * BYTES);
        } else {
            OK(leat_stream_synchronize(x.u));
            assert_int_equal(test_statistics(x.pool).stream_waits, 0);
            assert_true(test_statistics(x.pool).reserved_bytes >= 2 * BYTES);
        }
        assert_true(test_statistics(x.pool).host_waits == 0);
        both_are_right(&x, x.u, again);
        OK(leat_pool_destroy(x.pool));
        OK(leat_memory_free(x.kept));
    }
}

static void raise_flag(void *flag)
{
    atomic_store((atomic_int *)flag, 1);
}

/* Frees BYTES on the first stream, and does what lets the second have them in one way: 0 orders it after the free,
 * 1 finishes the first stream's work unseen by leat, 2 does nothing. Whatever holds the first stream is opened by
 * the caller; NULL: nothing does. */
static struct test_gate *free_elsewhere(struct scene *x, int way)
{
    void *block = test_block(x->pool, x->s, BYTES);
    struct test_gate *gate = NULL;
    atomic_int done = 0;

    if (way == 1) {
        OK(leat_launch_host(x->s, raise_flag, &done));
        while (!atomic_load(&done))
            test_sleep_us(100);
    } else {
        gate = test_gate_close(x->s);
    }
    OK(leat_free(x->s, block));
    if (way == 0)
        order(x, x->s, x->u);
    return gate;
}

/* With a way switched off the memory is not taken in that way, and no other stands in for it. */
static void ways_of_reuse_can_be_switched_off(void **state)
{
    static const uint32_t ways[] = {LEAT_POOL_REUSE_ORDERED, LEAT_POOL_REUSE_FINISHED, LEAT_POOL_REUSE_WAITING};
    struct test_state *t = *state;

    for (int way = 0; way < 3; way++) {
        struct scene x = {.t = t, .s = t->stream, .u = new_stream(&(struct scene){.t = t})};
        leat_status status = LEAT_ERROR_DEVICE_MEMORY;
        struct test_gate *gate;
        void *block = NULL;

        x.pool = POOL(t->device, .limit_bytes = BYTES);
        gate = free_elsewhere(&x, way);
        OK(leat_pool_set_reuse(x.pool, LEAT_POOL_REUSE_ALL & ~ways[way] & ~(uint32_t)LEAT_POOL_REUSE_WAITING));
        for (int i = 0; i < 3; i++) /* asking again changes nothing */
            REFUSED(leat_pool_alloc(x.pool, x.u, BYTES, &block), LEAT_ERROR_DEVICE_MEMORY, "limit");
        assert_int_equal(test_statistics(x.pool).stream_waits, 0);
        OK(leat_pool_set_reuse(x.pool, ways[way]));
        for (int i = 0; i < 10000 && status == LEAT_ERROR_DEVICE_MEMORY; i++) { /* way 1: finished any time now */
            status = leat_pool_alloc(x.pool, x.u, BYTES, &block);
            if (status != LEAT_OK)
                test_sleep_us(1000);
        }
        assert_int_equal(status, LEAT_OK);
        assert_int_equal(test_statistics(x.pool).stream_waits, way == 2);
        assert_int_equal(test_statistics(x.pool).host_waits, 0);
        OK(leat_fill(x.u, block, NEW, BYTES));
        if (gate) {
            EXPECT_HELD(x.u, gate);
            test_gate_open(gate);
        }
        test_block_holds(x.u, block, BYTES, NEW);
        OK(leat_free(x.u, block));
        OK(leat_device_synchronize(t->device));
        OK(leat_pool_destroy(x.pool));
        OK(leat_stream_destroy(x.u));
    }
}

/* New memory joins idle memory that a stream's work still uses: what is left of that is that stream's. */
static void new_memory_takes_on_its_neighbours_order(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .packing = LEAT_POOL_STILL, .limit_bytes = 8 * MIB);
    struct test_gate *gate;
    char *low, *high;
    void *joined, *other;

    NEEDS_VIRTUAL_MEMORY(t);
    OK(leat_pool_set_reuse(pool, 0));
    low = test_block(pool, t->stream, 3 * MIB);
    high = test_block(pool, t->stream, 3 * MIB);
    assert_ptr_equal(high, low + 3 * MIB);
    gate = test_gate_close(t->stream);
    OK(leat_free(t->stream, high));
    OK(leat_pool_alloc_aligned(pool, t->stream, 4 * MIB, 2 * MIB, &joined));
    assert_ptr_equal(joined, low + 4 * MIB);
    assert_int_equal(test_statistics(pool).reserved_bytes, 8 * MIB);
    REFUSED(leat_pool_alloc(pool, t->second, 1 * MIB, &other), LEAT_ERROR_DEVICE_MEMORY, "limit");
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_pool_alloc(pool, t->second, 1 * MIB, &other));
    assert_ptr_equal(other, high);
    OK(leat_free(t->second, other));
    OK(leat_free(t->stream, joined));
    OK(leat_free(t->stream, low));
    OK(leat_pool_destroy(pool));
}

/* What needs no way: the stream's own memory, and what the program has waited for. */
static void without_any_way_a_stream_has_its_own_memory(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = BYTES);
    leat_status status = LEAT_ERROR_DEVICE_MEMORY;
    struct test_gate *gate;
    atomic_int done = 0;
    void *block;

    OK(leat_pool_set_reuse(pool, 0));
    REFUSED(leat_pool_set_reuse(pool, 8), LEAT_ERROR_INVALID, "0x8");
    gate = test_gate_close(t->stream);
    for (int i = 0; i < 3; i++) {
        block = test_block(pool, t->stream, BYTES - (size_t)i * MIB); /* not from the cache of one size */
        OK(leat_free(t->stream, block));
    }
    REFUSED(leat_pool_alloc(pool, t->second, BYTES, &block), LEAT_ERROR_DEVICE_MEMORY, "limit");
    assert_int_equal(test_statistics(pool).host_waits, 0);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    block = test_block(pool, t->second, BYTES);
    /* Another stream uses it, and finishes unseen; it comes back to the one that frees it. */
    OK(leat_launch_host(t->stream, raise_flag, &done));
    OK(leat_pool_use(block, t->stream));
    OK(leat_free(t->second, block));
    for (int i = 0; i < 10000 && status == LEAT_ERROR_DEVICE_MEMORY; i++) {
        test_sleep_us(1000);
        status = leat_pool_alloc(pool, t->second, BYTES, &block);
    }
    OK(status);
    assert_int_equal(test_statistics(pool).host_waits, 0);
    OK(leat_free(t->second, block));
    OK(leat_pool_destroy(pool));
}

static void without_waiting_a_pool_that_would_wait_asks_for_more(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .reuse = LEAT_POOL_WAIT);
    struct test_gate *gate = test_gate_close(t->stream);
    void *block = test_block(pool, t->stream, BYTES);

    OK(leat_pool_set_reuse(pool, LEAT_POOL_REUSE_ORDERED | LEAT_POOL_REUSE_FINISHED));
    OK(leat_free(t->stream, block));
    block = test_block(pool, t->second, BYTES);
    assert_int_equal(test_statistics(pool).stream_waits, 0);
    test_gate_open(gate);
    OK(leat_free(t->second, block));
    OK(leat_pool_destroy(pool));
}

static void *open_later(void *gate)
{
    test_sleep_us(100000);
    test_gate_open(gate);
    return NULL;
}

/* A full pool whose streams may not wait: the host waits for the memory that another stream freed. Where the gate
 * opens before the pool looks, nobody waits, and the test passes without having tried anything. */
static void the_host_waits_where_streams_may_not(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = BYTES, .reuse = LEAT_POOL_WAIT_NEVER);
    void *block = test_block(pool, t->stream, BYTES), *again;
    struct test_gate *gate = test_gate_close(t->stream);
    pthread_t opener;

    OK(leat_fill(t->stream, block, LATE, BYTES));
    OK(leat_free(t->stream, block));
    assert_int_equal(pthread_create(&opener, NULL, open_later, gate), 0);
    again = test_block(pool, t->second, BYTES);
    assert_int_equal(test_statistics(pool).stream_waits, 0);
    pthread_join(opener, NULL);
    OK(leat_fill(t->second, again, NEW, BYTES));
    OK(leat_device_synchronize(t->device));
    test_block_holds(t->second, again, BYTES, NEW);
    OK(leat_free(t->second, again));
    OK(leat_pool_destroy(pool));
}

/* leat_memory_free() says that no work uses the block any more, whatever leat_pool_use() was told of it. */
static void memory_that_the_host_frees_has_no_users(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = BYTES);
    struct test_gate *gate = test_gate_close(t->second);

    for (int kind = 0; kind < 3; kind++) {
        void *block = test_block(pool, kind == 1 ? NULL : t->stream, BYTES);
        leat_event *event;

        OK(leat_event_create(t->device, &event));
        OK(leat_event_record(event, t->second));
        if (kind == 2)
            OK(leat_pool_use_until(block, event));
        else
            OK(leat_pool_use(block, t->second));
        OK(leat_memory_free(block));
        OK(leat_event_destroy(event));
        /* There is no other memory, and the stream that was named is held up. */
        block = test_block(pool, t->stream, BYTES);
        OK(leat_fill(t->stream, block, NEW, BYTES));
        OK(leat_stream_synchronize(t->stream));
        assert_int_equal(atomic_load(&gate->passed), 0);
        OK(leat_free(t->stream, block));
        OK(leat_stream_synchronize(t->stream));
    }
    assert_int_equal(test_statistics(pool).pending_bytes, 0);
    assert_int_equal(test_statistics(pool).host_waits, 0);
    test_gate_open(gate);
    OK(leat_pool_destroy(pool));
}

/* The pool asks the device by itself: the program never waits for anything. */
static void finished_memory_is_found_without_the_programs_help(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .reuse = LEAT_POOL_WAIT_NEVER);
    uint64_t released = 0, pending = 1;
    void *block;

    block = test_block(pool, t->stream, BYTES);
    OK(leat_fill(t->stream, block, 1, BYTES));
    OK(leat_pool_use(block, t->second));
    OK(leat_free(t->stream, block));
    for (int i = 0; i < 10000 && test_statistics(pool).reserved_bytes; i++) {
        OK(leat_pool_trim(pool, 0, &released, &pending));
        test_sleep_us(1000);
    }
    assert_int_equal(test_statistics(pool).reserved_bytes, 0);
    assert_int_equal(test_statistics(pool).host_waits, 0);
    OK(leat_pool_destroy(pool));
}

/* The stream goes on after the mark and is held up there; the memory comes back all the same. */
static void use_until_does_not_wait_for_later_work(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = BYTES, .reuse = LEAT_POOL_WAIT_NEVER);
    void *block = test_block(pool, NULL, BYTES), *again;
    struct test_gate *gate;
    leat_event *event, *never;

    OK(leat_event_create(t->device, &event));
    OK(leat_event_create(t->device, &never));
    OK(leat_fill(t->second, block, 1, BYTES));
    OK(leat_event_record(event, t->second));
    OK(leat_pool_use_until(block, event));
    OK(leat_pool_use_until(block, never));
    OK(leat_event_synchronize(event));
    gate = test_gate_close(t->second);
    OK(leat_free(t->stream, block));
    OK(leat_stream_synchronize(t->stream));
    again = test_block(pool, t->stream, BYTES);
    OK(leat_fill(t->stream, again, NEW, BYTES));
    OK(leat_stream_synchronize(t->stream));
    assert_int_equal(test_statistics(pool).host_waits, 0);
    assert_int_equal(atomic_load(&gate->passed), 0);
    test_gate_open(gate);
    test_block_holds(t->stream, again, BYTES, NEW);
    OK(leat_free(t->stream, again));
    OK(leat_event_destroy(event));
    OK(leat_event_destroy(never));
    OK(leat_pool_destroy(pool));
}

/* One block waits for a mark behind the gate; another one's mark is reached, and its memory is there. */
static void marks_do_not_wait_for_each_other(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = 2 * BYTES, .reuse = LEAT_POOL_WAIT_NEVER);
    void *held = test_block(pool, NULL, BYTES), *block = test_block(pool, NULL, BYTES);
    struct test_gate *gate = test_gate_close(t->second);
    leat_event *late, *reached;
    leat_stream *third;

    OK(leat_stream_create(t->device, &third));
    OK(leat_event_create(t->device, &late));
    OK(leat_event_create(t->device, &reached));
    OK(leat_event_record(late, t->second));
    OK(leat_pool_use_until(held, late));
    OK(leat_fill(third, block, 1, BYTES));
    OK(leat_event_record(reached, third));
    OK(leat_pool_use_until(block, reached));
    OK(leat_event_synchronize(reached));
    OK(leat_free(t->stream, held));
    OK(leat_free(t->stream, block));
    OK(leat_stream_synchronize(t->stream));
    block = test_block(pool, t->stream, BYTES);
    assert_int_equal(atomic_load(&gate->passed), 0);
    assert_int_equal(test_statistics(pool).host_waits, 0);
    test_gate_open(gate);
    OK(leat_free(t->stream, block));
    OK(leat_event_destroy(late));
    OK(leat_event_destroy(reached));
    OK(leat_stream_destroy(third));
    OK(leat_pool_destroy(pool));
}

static void pending_memory_is_counted(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .reuse = LEAT_POOL_WAIT_NEVER);
    void *block = test_block(pool, t->stream, BYTES), *again;
    struct test_gate *gate;

    OK(leat_pool_use(block, t->second));
    gate = test_gate_close(t->second);
    OK(leat_free(t->stream, block));
    assert_true(test_statistics(pool).pending_bytes >= BYTES);
    test_gate_open(gate);
    OK(leat_device_synchronize(t->device));
    /* The next request finds it. */
    again = test_block(pool, t->stream, BYTES);
    assert_int_equal(test_statistics(pool).pending_bytes, 0);
    assert_true(test_statistics(pool).reserved_bytes < 2 * BYTES);
    OK(leat_free(t->stream, again));
    OK(leat_pool_destroy(pool));
}

/* Ten blocks of one stream, of which another takes one: the other nine stay. */
static void blocks_are_taken_one_by_one(void **state)
{
    enum { COUNT = 10 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = COUNT * BYTES, .reuse = LEAT_POOL_WAIT_NEVER);
    void *blocks[COUNT], *taken;
    struct test_gate *gate;
    leat_pool_statistics before;

    for (int i = 0; i < COUNT; i++)
        blocks[i] = test_block(pool, t->stream, BYTES);
    for (int i = 0; i < COUNT; i++)
        OK(leat_free(t->stream, blocks[i]));
    OK(leat_stream_synchronize(t->stream));
    taken = test_block(pool, t->second, BYTES);
    /* The taker is held up now: the rest must be there for its own stream at once. */
    gate = test_gate_close(t->second);
    before = test_statistics(pool);
    for (int i = 0; i < COUNT - 1; i++)
        blocks[i] = test_block(pool, t->stream, BYTES);
    assert_int_equal(test_statistics(pool).stream_waits, before.stream_waits);
    assert_int_equal(test_statistics(pool).host_waits, 0);
    test_gate_open(gate);
    for (int i = 0; i < COUNT - 1; i++)
        OK(leat_free(t->stream, blocks[i]));
    OK(leat_free(t->second, taken));
    OK(leat_pool_destroy(pool));
}

/* ---- the fast loop --------------------------------------------------------------------------------------------
 */

/* Allocate, launch, free: the same address each time, and after the first time nothing for the driver to do. */
static void a_loop_gets_the_same_block_each_time(void **state)
{
    static const size_t sizes[] = {400, 100000, 3 * MIB, 64 * MIB};
    struct test_state *t = *state;
    leat_pool *pool = test_default_pool(t->device, LEAT_KIND_DEVICE);
    leat_kernel *add = test_kernel(t->device, "leat_add_u32");

    for (int size = 0; size < 4; size++) {
        leat_pool_statistics first = {0}, last;
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

/* The same while the stream stands still, so that no block is ever done. */
static void a_stream_that_stands_still_reuses_its_memory(void **state)
{
    struct test_state *t = *state;

    for (int sort = 0; sort < KINDS; sort++) {
        leat_pool_options options = {.size = sizeof options,
                                     .no_virtual_memory = sort == PLAIN,
                                     .dedicated = sort == DEDICATED,
                                     .kind = sort == PINNED ? LEAT_KIND_PINNED : LEAT_KIND_DEVICE};
        leat_pool *pool = test_pool_try(t->device, &options);
        leat_pool_statistics first, last;
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

/* ---- nothing waits --------------------------------------------------------------------------------------------
 */

/* Growing, freeing, moving and trimming, on the held stream and beside it. Every call comes back while the gate is
 * closed, which is looked at after each. */
static void nothing_waits_while_a_stream_is_held_up(void **state)
{
    enum { SLOTS = 12, STEPS = 400 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .reuse = LEAT_POOL_WAIT_NEVER);
    struct test_gate *gate = test_gate_close(t->stream);
    void *blocks[SLOTS] = {NULL};
    leat_stream *owners[SLOTS] = {NULL};

    for (uint64_t step = 0; step < STEPS; step++) {
        uint64_t slot = leat_pattern_value(step, 5) % SLOTS;
        leat_stream *stream = leat_pattern_value(step, 6) % 2 ? t->stream : t->second;

        if (blocks[slot]) {
            if (leat_pattern_value(step, 7) % 4 == 0)
                OK(leat_pool_use(blocks[slot], stream));
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

/* Idle pages are stitched to a block while a stream is held up in a block that stays. */
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

/* A request fails that had collected pages which its own stream still uses. In the callback another stream asks.
 */
struct collected {
    struct scene *x;
    void *block;
    leat_status status;
};

static int take_what_was_collected(void *argument, leat_pool *pool, uint64_t bytes)
{
    struct collected *c = argument;

    (void)bytes;
    c->status = leat_pool_alloc(pool, c->x->u, 2 * BYTES, &c->block);
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
        /* Between live ones, so that its pages must move. */
        block = test_block(x.pool, x.s, BYTES);
        behind = test_block(x.pool, x.s, BYTES);
        work_late(&x, x.s, block);
        OK(leat_free(x.s, block));
        STATUS(leat_pool_alloc(x.pool, x.s, 3 * BYTES, &more), LEAT_ERROR_DEVICE_MEMORY);
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

/* An aligned block grows out of memory that its stream still uses. What the alignment leaves of that in front
 * stays in use. Where it lies depends on where the addresses begin, so there are two tries. */
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
            OK(leat_pool_alloc_aligned(x.pool, x.s, 2 * BYTES, BYTES, &aligned));
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

/* A page of a stitched block goes to small blocks while old work on the stitched block is still on its way: the
 * old addresses stay until that is done. */
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

/* ---- slow work ------------------------------------------------------------------------------------------------
 */

static void be_slow(void *unused)
{
    (void)unused;
    test_sleep_us(40000);
}

/* Two blocks of a stream that is slow are wanted as one by another: their pages cannot move before the work is
 * done, and there are no others. That is the one time when the host waits. */
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

/* The end of a pool waits for what its freed blocks are still used for. */
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
        OK(leat_pool_use(used, t->second));
        OK(leat_free(t->stream, used));
        OK(leat_pool_destroy(pool));
        OK(leat_device_synchronize(t->device));
        EXPECT_BYTES(kept, BYTES, 1);
        EXPECT_BYTES(kept + BYTES, BYTES, 2);
    }
    OK(leat_memory_free(kept));
}

/* Pages that were freed elsewhere, and are still in use, are not given back by a smaller limit. */
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
    STATE_TEST(memory_comes_back),
    STATE_TEST(ordered_memory_is_taken_while_its_work_is_pending),
    STATE_TEST(policies_decide_who_waits),
    STATE_TEST(ways_of_reuse_can_be_switched_off),
    STATE_TEST(without_any_way_a_stream_has_its_own_memory),
    STATE_TEST(new_memory_takes_on_its_neighbours_order),
    STATE_TEST(without_waiting_a_pool_that_would_wait_asks_for_more),
    STATE_TEST(the_host_waits_where_streams_may_not),
    STATE_TEST(memory_that_the_host_frees_has_no_users),
    STATE_TEST(finished_memory_is_found_without_the_programs_help),
    STATE_TEST(use_until_does_not_wait_for_later_work),
    STATE_TEST(marks_do_not_wait_for_each_other),
    STATE_TEST(pending_memory_is_counted),
    STATE_TEST(blocks_are_taken_one_by_one),
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
