/*
 * test_pool_no_memory.c - tests what a pool does when the device has no memory left: it takes idle memory of other
 * pools, waits for pending frees, calls the program's callback, and returns an error if none of these helps.
 */
#include "test_pool.h"

/* ---- no memory left ---- */

/* The program keeps blocks in a list and never frees them. The error's message must say what holds the memory, and
 * the program can continue. */
static void a_list_that_is_never_freed_ends_in_an_error(void **state)
{
    enum { MOST = 1000 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = 100 * MIB, .name = "results");
    void *list[MOST], *block;
    leat_status status = LEAT_OK;
    const char *words;
    int count = 0;

    while (count < MOST && (status = leat_pool_alloc(t->stream, pool, 3 * MIB, &list[count])) == LEAT_OK)
        count++;
    assert_int_equal(status, LEAT_ERROR_DEVICE_MEMORY);
    assert_true(count >= 25 && count <= 33);
    words = leat_last_error();
    /* The message names the pool, its limit and the live bytes. */
    assert_non_null(strstr(words, "leat_pool_alloc"));
    assert_non_null(strstr(words, "results"));
    assert_non_null(strstr(words, "104857600"));
    assert_non_null(strstr(words, "live"));
    assert_int_equal(test_statistics(pool).failures, 1);
    /* Other pools are not affected, and freeing a block helps. */
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

/* The default pool, which has no limit, fills the whole device. */
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
    /* The idle memory of this pool must not make other allocations fail. */
    OK(leat_memory_alloc(t->device, LEAT_KIND_DEVICE, 20 * bytes, &block));
    OK(leat_memory_free(block));
    OK(leat_alloc_driver(t->stream, 1000, &block));
    OK(leat_free(t->stream, block));
    OK(leat_pool_trim(pool, 0, NULL, NULL));
}

/* A pool without virtual memory makes its chunks larger than a small request needs. If the device has no room for
 * this, it must still serve the request. */
static void the_last_memory_is_given_in_small_chunks(void **state)
{
    struct test_state *t = *state;
    leat_pool *rest = POOL(t->device, .no_virtual_memory = 1), *pool = POOL(t->device, .no_virtual_memory = 1);
    uint64_t free_bytes;
    void *most, *block;

    if (!test_on_cpu())
        SKIP_OTHER("a GPU reserves some of its memory");
    OK(leat_device_memory(t->device, &free_bytes, NULL));
    most = test_block(rest, t->stream, (size_t)(free_bytes - 6 * MIB) / (2 * MIB) * (2 * MIB));
    block = test_block(pool, t->stream, 3 * MIB);
    OK(leat_fill(t->stream, block, 1, 3 * MIB));
    OK(leat_free(t->stream, block));
    OK(leat_free(t->stream, most));
    OK(leat_pool_destroy(pool));
    OK(leat_pool_destroy(rest));
}

/* A pool that was created with a low limit can use the whole device after the limit was removed. */
static void a_low_limit_can_be_removed(void **state)
{
    struct test_state *t = *state;
    uint64_t free_bytes, total_bytes;
    leat_pool *pool;

    NEEDS_VIRTUAL_MEMORY(t);
    if (!test_on_cpu())
        SKIP_OTHER("other programs may use memory of a GPU");
    OK(leat_device_memory(t->device, &free_bytes, &total_bytes));
    pool = POOL(t->device, .limit_bytes = total_bytes / 64);
    OK(leat_free(t->stream, test_block(pool, t->stream, 3 * MIB)));
    OK(leat_pool_set_limits(pool, 0, 0));
    OK(leat_free(t->stream, test_block(pool, t->stream, (size_t)(free_bytes / 100 * 90))));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_pool_destroy(pool));
}

/* A pool takes idle memory of other pools of the device before it fails. */
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

/* The request needs memory that was freed on many streams: more than leat can record as waits of one stream. */
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
    /* The fill must wait for all of these streams. */
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
    /* The pool is still usable. */
    test_block_holds(t->stream, blocks[1], 7654321, 6);
    OK(leat_free(t->stream, blocks[1]));
    REFUSED(leat_pool_destroy(pool), LEAT_ERROR_BUSY, "2");
    blocks[1] = test_block(pool, t->stream, 5000);
    for (int i = 0; i < 3; i++)
        OK(leat_free(t->stream, blocks[i]));
    OK(leat_pool_destroy(pool));
}

/* ---- the callback ---- */

struct full {
    leat_stream *stream;
    leat_pool *pool, *other;
    void *list[64];
    int count, calls, answer;
    uint64_t bytes;
    leat_status status; /* result of the calls that the callback makes */
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
    /* The limit has room for 8 blocks. Each later request needs one call of the callback. */
    for (int i = 0; i < 30; i++) {
        full.list[full.count] = test_block(full.pool, t->stream, 4 * MIB);
        full.count++;
        OK(full.status);
    }
    assert_int_equal(full.bytes, 4 * MIB);
    assert_int_equal(full.calls, 30 - 8);
    assert_int_equal(test_statistics(full.pool).callbacks, full.calls);
    assert_int_equal(test_statistics(full.pool).failures, 0);
    /* A larger request needs several calls of the callback. */
    if (test_has_virtual_memory(t->device)) {
        full.list[full.count] = test_block(full.pool, t->stream, 16 * MIB);
        full.count++;
        assert_true(full.calls >= 30 - 8 + 4);
    }
    calls = full.calls;
    /* Without a callback the request fails at once. */
    OK(leat_pool_on_full(full.pool, NULL, NULL));
    REFUSED(leat_pool_alloc(t->stream, full.pool, 32 * MIB, &block), LEAT_ERROR_DEVICE_MEMORY, "full");
    assert_int_equal(full.calls, calls);
    while (full.count)
        OK(leat_free(t->stream, full.list[--full.count]));
    OK(leat_pool_destroy(full.pool));
}

/* A callback that makes a failing call, which sets an error message, and then frees a block. */
static int fail_and_free(void *argument, leat_pool *pool, uint64_t bytes)
{
    return leat_stream_query(NULL) == LEAT_ERROR_HANDLE ? free_one(argument, pool, bytes) : 0;
}

/* The driver refuses memory and the callback makes a failing call. If the request succeeds, the thread's earlier
 * message must stay. If it fails, the message must be about the request. */
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
    REFUSED(leat_pool_alloc(t->stream, full.pool, 8 * MIB, &block), LEAT_ERROR_DEVICE_MEMORY,
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

/* A callback that returns 1 but frees nothing must not cause an endless loop. */
static void a_callback_that_makes_no_room_ends_in_the_error(void **state)
{
    struct test_state *t = *state;

    for (int answer = 0; answer < 2; answer++) {
        struct full full = {.answer = answer};
        void *block, *more = &more;

        full.pool = POOL(t->device, .limit_bytes = 8 * MIB, .name = "no room");
        OK(leat_pool_on_full(full.pool, answer_only, &full));
        block = test_block(full.pool, t->stream, 8 * MIB);
        REFUSED(leat_pool_alloc(t->stream, full.pool, MIB, &more), LEAT_ERROR_DEVICE_MEMORY, "no room");
        assert_ptr_equal(more, &more);
        assert_true(full.calls >= 1 && full.calls <= 1000);
        assert_int_equal(test_statistics(full.pool).failures, 1);
        assert_int_equal(test_statistics(full.pool).callbacks, full.calls);
        OK(leat_free(t->stream, block));
        OK(leat_pool_destroy(full.pool));
    }
}

/* A callback that allocates from two pools. The full pool must fail without calling the callback again; the other
 * pool must succeed. */
static int allocate_inside(void *argument, leat_pool *pool, uint64_t bytes)
{
    struct full *full = argument;
    void *block = NULL;

    (void)bytes;
    full->calls++;
    if (full->calls > 1)
        return 0;
    if (leat_pool_alloc(full->stream, pool, 8 * MIB, &block) != LEAT_ERROR_DEVICE_MEMORY)
        full->status = LEAT_ERROR_INVALID;
    if (leat_pool_alloc(full->stream, full->other, 8 * MIB, &block) != LEAT_OK ||
        leat_fill(full->stream, block, 1, 8 * MIB) != LEAT_OK || leat_free(full->stream, block) != LEAT_OK)
        full->status = LEAT_ERROR_INVALID;
    /* The full pool still has room for a small block. */
    if (leat_pool_alloc(full->stream, pool, 1000, &full->list[0]) != LEAT_OK)
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

/* The callback allocates from another full pool, whose own callback frees blocks of the first pool. */
static int free_for_the_other(void *argument, leat_pool *pool, uint64_t bytes)
{
    struct full *full = argument;
    void *block = NULL;

    (void)bytes;
    full->calls++;
    if (pool == full->pool) {
        full->status = leat_pool_alloc(full->stream, full->other, 8 * MIB, &block);
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

static const struct CMUnitTest tests[] = {
    STATE_TEST(a_list_that_is_never_freed_ends_in_an_error),
    STATE_TEST(a_full_device_is_survived),
    STATE_TEST(the_last_memory_is_given_in_small_chunks),
    STATE_TEST(a_low_limit_can_be_removed),
    STATE_TEST(idle_memory_of_other_pools_is_taken),
    STATE_TEST(memory_of_many_streams_is_waited_for),
    STATE_TEST(destroying_a_pool_with_live_blocks_is_refused),
    STATE_TEST(a_callback_makes_room),
    STATE_TEST(a_success_leaves_the_message),
    STATE_TEST(a_callback_that_makes_no_room_ends_in_the_error),
    STATE_TEST(a_callback_may_use_leat),
    STATE_TEST(callbacks_may_nest),
};

TEST_MAIN(tests)
