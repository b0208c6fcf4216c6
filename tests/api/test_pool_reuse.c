/*
 * test_pool_reuse.c - tests how a pool finds freed memory again, and what waits for the work that still uses it:
 * the policies of leat_pool_options.reuse, the order of streams, and memory that the host frees.
 */
#include "pool_scene.h"

#include <pthread.h>
#include <stdlib.h>

/* Skips a test under compute-sanitizer, where on an H200 fills on other streams waited for the held stream. */
#define NEEDS_INDEPENDENT_STREAMS                                                                                 \
    do {                                                                                                          \
        if (getenv("LEAT_TEST_MEMCHECK"))                                                                         \
            SKIP_OTHER("here a held stream holds up others");                                                     \
    } while (0)

/* ---- reuse of freed memory ---- */

/* The pool has memory for one block, and streams may not wait. So a request succeeds only if the pool finds out
 * that the last owner's work is complete, or that the requesting stream is ordered after it. */
static void memory_comes_back(void **state)
{
    struct test_state *t = *state;
    struct scene x = {.t = t, .s = t->stream, .u = t->second};
    leat_event *event;

    OK(leat_event_create(t->device, &event));
    x.pool = POOL(t->device, .limit_bytes = BYTES, .reuse = LEAT_POOL_REUSE_WAIT_NEVER);
    for (int i = 0; i < 12; i++) {
        leat_stream *stream = i % 2 ? x.s : x.u, *next = i % 2 ? x.u : x.s;
        void *block = test_block(x.pool, stream, BYTES);

        OK(leat_fill(stream, block, (uint8_t)i, BYTES));
        OK(leat_free(stream, block));
        switch (i % 4) {
        case 0: /* the program orders the streams */
            order(&x, stream, next);
            break;
        case 1: /* the host waits for the work */
            OK(leat_stream_synchronize(stream));
            break;
        case 2:
            OK(leat_event_record(stream, event));
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

/* A gate holds the first stream up. The second stream may take its freed memory, because the program ordered the
 * second after the first, directly or over a third one. */
static void ordered_memory_is_taken_while_its_work_is_pending(void **state)
{
    struct test_state *t = *state;
    struct scene x = {.t = t, .s = t->stream, .u = t->second};

    for (int hops = 1; hops <= 2; hops++) {
        leat_stream *third = new_stream(&x);
        void *block, *again;

        x.pool = POOL(t->device, .limit_bytes = BYTES, .reuse = LEAT_POOL_REUSE_WAIT_NEVER);
        x.kept = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
        block = test_block(x.pool, x.s, BYTES);
        work_late(&x, x.s, block);
        OK(leat_free(x.s, block));
        order(&x, x.s, hops == 1 ? x.u : third);
        if (hops == 2)
            order(&x, third, x.u);
        /* The pool has no other memory, and the host must not wait. */
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

/* Checks what each policy does while a gate holds the first stream up. */
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

/* Frees BYTES on the first stream and prepares one way of reuse by the second: 0 orders the second stream after
 * the free, 1 completes the first stream's work without telling leat, 2 prepares nothing. Returns the gate that
 * holds the first stream up, which the caller must open, or NULL. */
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

/* A pool must not use a way of reuse that is switched off, nor replace it by another one. */
static void ways_of_reuse_can_be_switched_off(void **state)
{
    static const uint32_t ways[] = {LEAT_POOL_REUSE_METHOD_ORDERED, LEAT_POOL_REUSE_METHOD_FINISHED,
                                    LEAT_POOL_REUSE_METHOD_WAITING};
    struct test_state *t = *state;

    for (int way = 0; way < 3; way++) {
        struct scene x = {.t = t, .s = t->stream, .u = new_stream(&(struct scene){.t = t})};
        leat_status status = LEAT_ERROR_DEVICE_MEMORY;
        struct test_gate *gate;
        void *block = NULL;

        x.pool = POOL(t->device, .limit_bytes = BYTES);
        gate = free_elsewhere(&x, way);
        OK(leat_pool_set_reuse_methods(x.pool, LEAT_POOL_REUSE_METHOD_ALL & ~ways[way] &
                                                   ~(uint32_t)LEAT_POOL_REUSE_METHOD_WAITING));
        for (int i = 0; i < 3; i++) /* another try does not help */
            REFUSED(leat_pool_alloc(x.u, x.pool, BYTES, &block), LEAT_ERROR_DEVICE_MEMORY, "limit");
        assert_int_equal(test_statistics(x.pool).stream_waits, 0);
        OK(leat_pool_set_reuse_methods(x.pool, ways[way]));
        for (int i = 0; i < 10000 && status == LEAT_ERROR_DEVICE_MEMORY; i++) { /* way 1 may need several tries */
            status = leat_pool_alloc(x.u, x.pool, BYTES, &block);
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

/* The pool joins new memory with idle memory that a stream still uses, for a block of this stream. The rest of the
 * idle memory must still be reserved for the stream. */
static void new_memory_takes_on_its_neighbours_order(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .packing = LEAT_POOL_PACKING_STILL, .limit_bytes = 8 * MIB);
    struct test_gate *gate;
    char *low, *high;
    void *joined, *other;

    NEEDS_VIRTUAL_MEMORY(t);
    OK(leat_pool_set_reuse_methods(pool, 0));
    low = test_block(pool, t->stream, 3 * MIB);
    high = test_block(pool, t->stream, 3 * MIB);
    assert_ptr_equal(high, low + 3 * MIB);
    gate = test_gate_close(t->stream);
    OK(leat_free(t->stream, high));
    OK(leat_pool_alloc_aligned(t->stream, pool, 4 * MIB, 2 * MIB, &joined));
    assert_ptr_equal(joined, low + 4 * MIB);
    assert_int_equal(test_statistics(pool).reserved_bytes, 8 * MIB);
    REFUSED(leat_pool_alloc(t->second, pool, 1 * MIB, &other), LEAT_ERROR_DEVICE_MEMORY, "limit");
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_pool_alloc(t->second, pool, 1 * MIB, &other));
    assert_ptr_equal(other, high);
    OK(leat_free(t->second, other));
    OK(leat_free(t->stream, joined));
    OK(leat_free(t->stream, low));
    OK(leat_pool_destroy(pool));
}

/* All ways of reuse are switched off. A stream must still get its own memory, and memory whose work the program
 * has waited for. */
static void without_any_way_a_stream_has_its_own_memory(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = BYTES);
    leat_status status = LEAT_ERROR_DEVICE_MEMORY;
    struct test_gate *gate;
    atomic_int done = 0;
    void *block;

    OK(leat_pool_set_reuse_methods(pool, 0));
    REFUSED(leat_pool_set_reuse_methods(pool, 8), LEAT_ERROR_INVALID, "0x8");
    gate = test_gate_close(t->stream);
    for (int i = 0; i < 3; i++) {
        block = test_block(pool, t->stream, BYTES - (size_t)i * MIB); /* a new size, which no magazine has */
        OK(leat_free(t->stream, block));
    }
    REFUSED(leat_pool_alloc(t->second, pool, BYTES, &block), LEAT_ERROR_DEVICE_MEMORY, "limit");
    assert_int_equal(test_statistics(pool).host_waits, 0);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    block = test_block(pool, t->second, BYTES);
    /* Work of another stream on the block completes, but no call tells leat. The freeing stream must get the block
     * again. */
    OK(leat_launch_host(t->stream, raise_flag, &done));
    OK(leat_block_use(t->stream, block));
    OK(leat_free(t->second, block));
    for (int i = 0; i < 10000 && status == LEAT_ERROR_DEVICE_MEMORY; i++) {
        test_sleep_us(1000);
        status = leat_pool_alloc(t->second, pool, BYTES, &block);
    }
    OK(status);
    assert_int_equal(test_statistics(pool).host_waits, 0);
    OK(leat_free(t->second, block));
    OK(leat_pool_destroy(pool));
}

static void without_waiting_a_pool_that_would_wait_asks_for_more(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .reuse = LEAT_POOL_REUSE_WAIT);
    struct test_gate *gate = test_gate_close(t->stream);
    void *block = test_block(pool, t->stream, BYTES);

    OK(leat_pool_set_reuse_methods(pool, LEAT_POOL_REUSE_METHOD_ORDERED | LEAT_POOL_REUSE_METHOD_FINISHED));
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

/* The pool is full and its streams may not wait, so the host waits for memory that another stream freed. If the
 * gate opens before the pool checks, no wait is needed, and the test passes without testing the wait. */
static void the_host_waits_where_streams_may_not(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = BYTES, .reuse = LEAT_POOL_REUSE_WAIT_NEVER);
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

/* A program that calls leat_memory_free() promises that no work uses the block any more. So the pool must not wait
 * for streams that leat_block_use() named. */
static void memory_that_the_host_frees_has_no_users(void **state)
{
    NEEDS_INDEPENDENT_STREAMS;
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = BYTES);
    struct test_gate *gate = test_gate_close(t->second);

    for (int kind = 0; kind < 3; kind++) {
        void *block = test_block(pool, kind == 1 ? NULL : t->stream, BYTES);
        leat_event *event;

        OK(leat_event_create(t->device, &event));
        OK(leat_event_record(t->second, event));
        if (kind == 2)
            OK(leat_block_use_until(event, block));
        else
            OK(leat_block_use(t->second, block));
        OK(leat_memory_free(block));
        OK(leat_event_destroy(event));
        /* The pool has no other memory, and a gate holds the named stream up. */
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

/* The program never waits, so the pool must ask the device itself which work is complete. */
static void finished_memory_is_found_without_the_programs_help(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .reuse = LEAT_POOL_REUSE_WAIT_NEVER);
    uint64_t released = 0, pending = 1;
    void *block;

    block = test_block(pool, t->stream, BYTES);
    OK(leat_fill(t->stream, block, 1, BYTES));
    OK(leat_block_use(t->second, block));
    OK(leat_free(t->stream, block));
    for (int i = 0; i < 10000 && test_statistics(pool).reserved_bytes; i++) {
        OK(leat_pool_trim(pool, 0, &released, &pending));
        test_sleep_us(1000);
    }
    assert_int_equal(test_statistics(pool).reserved_bytes, 0);
    assert_int_equal(test_statistics(pool).host_waits, 0);
    OK(leat_pool_destroy(pool));
}

/* A gate holds the stream up after the event's record. The pool must get the memory back nevertheless. */
static void use_until_does_not_wait_for_later_work(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = BYTES, .reuse = LEAT_POOL_REUSE_WAIT_NEVER);
    void *block = test_block(pool, NULL, BYTES), *again;
    struct test_gate *gate;
    leat_event *event, *never;

    OK(leat_event_create(t->device, &event));
    OK(leat_event_create(t->device, &never));
    OK(leat_fill(t->second, block, 1, BYTES));
    OK(leat_event_record(t->second, event));
    OK(leat_block_use_until(event, block));
    OK(leat_block_use_until(never, block));
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

/* The event of one block is behind a gate. The event of another block is complete, so the memory of this block
 * must be available. */
static void marks_do_not_wait_for_each_other(void **state)
{
    NEEDS_INDEPENDENT_STREAMS;
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = 2 * BYTES, .reuse = LEAT_POOL_REUSE_WAIT_NEVER);
    void *held = test_block(pool, NULL, BYTES), *block = test_block(pool, NULL, BYTES);
    struct test_gate *gate = test_gate_close(t->second);
    leat_event *late, *reached;
    leat_stream *third;

    OK(leat_stream_create(t->device, &third));
    OK(leat_event_create(t->device, &late));
    OK(leat_event_create(t->device, &reached));
    OK(leat_event_record(t->second, late));
    OK(leat_block_use_until(late, held));
    OK(leat_fill(third, block, 1, BYTES));
    OK(leat_event_record(third, reached));
    OK(leat_block_use_until(reached, block));
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
    leat_pool *pool = POOL(t->device, .reuse = LEAT_POOL_REUSE_WAIT_NEVER);
    void *block = test_block(pool, t->stream, BYTES), *again;
    struct test_gate *gate;

    OK(leat_block_use(t->second, block));
    gate = test_gate_close(t->second);
    OK(leat_free(t->stream, block));
    assert_true(test_statistics(pool).pending_bytes >= BYTES);
    test_gate_open(gate);
    OK(leat_device_synchronize(t->device));
    /* The next request notices that the work is complete. */
    again = test_block(pool, t->stream, BYTES);
    assert_int_equal(test_statistics(pool).pending_bytes, 0);
    assert_true(test_statistics(pool).reserved_bytes < 2 * BYTES);
    OK(leat_free(t->stream, again));
    OK(leat_pool_destroy(pool));
}

/* Another stream takes one of ten freed blocks. The other nine must stay with their stream. */
static void blocks_are_taken_one_by_one(void **state)
{
    enum { COUNT = 10 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = COUNT * BYTES, .reuse = LEAT_POOL_REUSE_WAIT_NEVER);
    void *blocks[COUNT], *taken;
    struct test_gate *gate;
    leat_pool_stats before = LEAT_POOL_STATS_INIT;

    for (int i = 0; i < COUNT; i++)
        blocks[i] = test_block(pool, t->stream, BYTES);
    for (int i = 0; i < COUNT; i++)
        OK(leat_free(t->stream, blocks[i]));
    OK(leat_stream_synchronize(t->stream));
    taken = test_block(pool, t->second, BYTES);
    /* A gate now holds the taking stream up. The other blocks must be available to their own stream at once. */
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

static unsigned count_shares(leat_pool *pool)
{
    leat_pool_share share = LEAT_POOL_SHARE_INIT;
    unsigned count = 0;

    while (leat_pool_get_stream_share(pool, count, &share) == LEAT_OK)
        count++;
    return count;
}

/* Streams that come and go must not each leave a cache behind in the pool, if its memory is trimmed. */
static void trimmed_caches_are_reused(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .kind = LEAT_KIND_PINNED);

    for (int i = 0; i < 20; i++) {
        leat_stream *stream;

        OK(leat_stream_create(t->device, &stream));
        OK(leat_free(stream, test_block(pool, stream, 16 * MIB)));
        OK(leat_stream_synchronize(stream));
        OK(leat_pool_trim(pool, 0, NULL, NULL));
        assert_int_equal(test_statistics(pool).reserved_bytes, 0);
        OK(leat_stream_destroy(stream));
    }
    assert_true(count_shares(pool) <= 2);
    OK(leat_pool_destroy(pool));
}

/* A pool forgets a stream that is destroyed, even if the stream's device has no pool. */
static void streams_of_devices_without_pools_are_forgotten(void **state)
{
    struct test_state *t = *state;
    leat_device *other = test_open_other();
    leat_pool_share share = LEAT_POOL_SHARE_INIT;
    leat_stream *stream;
    leat_pool *pool;

    if (!other)
        SKIP_OTHER("this driver has one device");
    pool = POOL(t->device, .kind = LEAT_KIND_PINNED);
    OK(leat_stream_create(other, &stream));
    OK(leat_free(stream, test_block(pool, NULL, MIB)));
    assert_int_equal(count_shares(pool), 2);
    OK(leat_stream_destroy(stream));
    for (unsigned i = 0; leat_pool_get_stream_share(pool, i, &share) == LEAT_OK; i++)
        assert_null(share.stream);
    OK(leat_pool_destroy(pool));
    OK(leat_device_close(other));
}

/* A pool may refer to a stream of another device after that device was closed. */
static void pools_outlive_devices_of_their_streams(void **state)
{
    struct test_state *t = *state;

    for (int way = 0; way < 3; way++) {
        leat_device *other = test_open_other();
        leat_pool *pool = POOL(t->device, .kind = LEAT_KIND_PINNED, .limit_bytes = BYTES);
        leat_stream *stream;
        void *block;

        if (!other)
            SKIP_OTHER("this driver has one device");
        OK(leat_stream_create(other, &stream));
        block = test_block(pool, NULL, BYTES);
        OK(leat_fill(stream, block, OLD, BYTES));
        OK(leat_free(stream, block));
        if (way)
            OK(leat_stream_destroy(stream));
        OK(leat_device_close(other));
        /* The work of the closed device is complete, so each stream may use the memory. */
        if (way == 2) {
            block = test_block(pool, t->stream, BYTES);
            OK(leat_fill(t->stream, block, NEW, BYTES));
            OK(leat_free(t->stream, block));
        }
        OK(leat_pool_destroy(pool));
    }
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
    STATE_TEST(trimmed_caches_are_reused),
    STATE_TEST(streams_of_devices_without_pools_are_forgotten),
    STATE_TEST(pools_outlive_devices_of_their_streams),
};

TEST_MAIN(tests)
