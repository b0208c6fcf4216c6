/*
 * test_pool_races.c - tests the race check of guard mode: leat must refuse work on a stream that is not ordered
 * after the allocation or an earlier use. It must not refuse work if it cannot know the order.
 */
#include "pool_guard.h"

#include <unistd.h>

/* ---- uses without order ------------------------------------------------------------------------------------- */

static void expect_early(const char *words)
{
    expect_words(leat_last_error(), words);
    assert_true(count_words(leat_last_error(), "test_pool_races") >= 2);
}

static void use_before_the_allocation_is_refused(void **state)
{
    struct test_state *t = *state;
    const uint64_t eight = 1234567890123;

    test_kernel(t->device, "leat_fill_u64");
    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);
        unsigned char *block, *ready, host[8] = {0};
        struct test_gate *gate;

        if (!pool)
            continue;
        ready = test_block(pool, NULL, 1000);
        test_order(t, t->stream, t->second);
        gate = test_gate_close(t->stream);
        block = test_block(pool, t->stream, 1000);
        REFUSED(leat_fill(t->second, block, 1, 1000), LEAT_ERROR_NOT_PERMITTED, "was allocated on another stream");
        expect_early("allocated at ");
        expect_early("used at ");
        REFUSED(leat_fill_pattern(t->second, block, &eight, 8, 1000), LEAT_ERROR_NOT_PERMITTED, "dst");
        REFUSED(leat_copy(t->second, block, ready, 1000), LEAT_ERROR_NOT_PERMITTED, "dst");
        REFUSED(leat_copy(t->second, ready, block, 1000), LEAT_ERROR_NOT_PERMITTED, "src");
        REFUSED(leat_copy(t->second, host, block, 8), LEAT_ERROR_NOT_PERMITTED, "src");
        REFUSED(leat_copy(t->second, block, host, 8), LEAT_ERROR_NOT_PERMITTED, "dst");
        assert_int_equal(reports(pool), 6);
        /* The allocating stream may use the block, and any stream may use a block allocated without a stream. */
        OK(leat_fill(t->stream, block, 1, 1000));
        OK(leat_fill(t->second, ready, 2, 1000));
        test_order(t, t->stream, t->second);
        OK(leat_fill(t->second, block, 3, 1000));
        assert_int_equal(reports(pool), 6);
        test_gate_open(gate);
        test_block_holds(t->second, block, 1000, 3);
        OK(leat_free(t->second, block));
        OK(leat_free(t->second, ready));
        OK(leat_pool_destroy(pool));
    }
}

static void use_is_judged_by_its_bytes(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .guard = 1);
    unsigned char *block = test_block(pool, NULL, 1000), *other = test_block(pool, NULL, 1000);
    struct test_gate *gate = test_gate_close(t->stream);

    /* The first stream's write is pending, so other streams may neither read nor write its bytes. */
    OK(leat_fill(t->stream, block, 1, 500));
    REFUSED(leat_copy(t->second, other, block + 499, 1), LEAT_ERROR_NOT_PERMITTED, "was last written");
    expect_early("the other use was at ");
    expect_early("used at ");
    expect_early("; allocated at ");
    REFUSED(leat_fill(t->second, block, 2, 1000), LEAT_ERROR_NOT_PERMITTED, "was last written");
    OK(leat_fill(t->second, block + 500, 2, 500));
    OK(leat_copy(t->second, other, block + 500, 500));
    test_gate_open(gate);
    OK(leat_device_synchronize(t->device));
    /* The first stream's read is pending, so other streams may read its bytes but not write them. */
    gate = test_gate_close(t->stream);
    OK(leat_copy(t->stream, other + 500, block, 100));
    REFUSED(leat_fill(t->second, block + 99, 3, 1), LEAT_ERROR_NOT_PERMITTED, "was last read");
    OK(leat_fill(t->second, block + 100, 3, 100));
    OK(leat_copy(t->second, other, block, 100));
    assert_int_equal(reports(pool), 3);
    test_gate_open(gate);
    /* After the host has waited for the first stream, its uses are complete. */
    OK(leat_stream_synchronize(t->stream));
    OK(leat_fill(t->second, block, 4, 1000));
    OK(leat_fill(t->second, other, 4, 1000));
    OK(leat_stream_synchronize(t->second));
    OK(leat_free(t->stream, block));
    OK(leat_free(t->stream, other));
    assert_int_equal(reports(pool), 3);
    OK(leat_pool_destroy(pool));
}

/* The second stream is ordered after the first over a third one. Later the host waits for the third stream
 * only. */
static void order_goes_through_others(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .guard = 1);
    struct test_gate *gate = test_gate_close(t->stream);
    unsigned char *block = test_block(pool, t->stream, 1000), host[1000];
    leat_stream *third;

    OK(leat_stream_create(t->device, &third));
    test_order(t, t->stream, third);
    REFUSED(leat_fill(t->second, block, 1, 1000), LEAT_ERROR_NOT_PERMITTED, "was allocated");
    test_order(t, third, t->second);
    OK(leat_fill(t->second, block, 1, 1000));
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->second));
    OK(leat_fill(third, block, 2, 1000));
    OK(leat_stream_synchronize(third));
    /* This copy waits on the host, which is then ordered after all work before the copy. */
    OK(leat_copy_sync(third, host, block, 1000));
    OK(leat_fill(t->second, block, 3, 1000));
    OK(leat_stream_synchronize(t->second));
    OK(leat_free(t->stream, block));
    assert_int_equal(reports(pool), 1);
    OK(leat_pool_destroy(pool));
    OK(leat_stream_destroy(third));
}

/* leat cannot know the order of a stream that waited for more streams than leat records, or that the program may
 * have ordered by the vendor's calls. */
static void what_is_not_known_is_not_judged(void **state)
{
    enum { MANY = 20 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .guard = 1);
    struct test_gate *gate = test_gate_close(t->stream);
    unsigned char *block = test_block(pool, t->stream, 1000);
    leat_stream *many[MANY], *fresh, *wrapped;
    leat_event *event;
    void *native;

    test_order(t, t->stream, t->second);
    for (int i = 0; i < MANY; i++) {
        OK(leat_stream_create(t->device, &many[i]));
        test_order(t, many[i], t->second);
    }
    OK(leat_fill(t->second, block, 1, 1000));
    OK(leat_stream_create(t->device, &fresh));
    REFUSED(leat_fill(fresh, block, 2, 1000), LEAT_ERROR_NOT_PERMITTED, "not ordered");
    /* The program has the vendor's handle of this event, so it may have recorded the event without leat's
     * knowledge. */
    OK(leat_event_create(t->device, &event));
    OK(leat_event_native(event, &native));
    OK(leat_event_record(t->second, event));
    OK(leat_stream_wait(fresh, event));
    OK(leat_fill(fresh, block, 2, 1000));
    OK(leat_event_destroy(event));
    /* Once many[0] waits for the stream fresh, leat does not know its order either. */
    REFUSED(leat_fill(many[0], block, 3, 1000), LEAT_ERROR_NOT_PERMITTED, "not ordered");
    test_order(t, fresh, many[0]);
    OK(leat_fill(many[0], block, 3, 1000));
    /* After the program has got the vendor's handle of a stream, leat cannot know the stream's order. */
    REFUSED(leat_fill(many[1], block, 3, 1000), LEAT_ERROR_NOT_PERMITTED, "not ordered");
    OK(leat_stream_native(many[0], &native));
    OK(leat_stream_wrap(t->device, native, &wrapped));
    OK(leat_fill(wrapped, block, 4, 1000));
    OK(leat_fill(many[0], block, 5, 1000));
    test_gate_open(gate);
    OK(leat_device_synchronize(t->device));
    OK(leat_stream_destroy(wrapped));
    OK(leat_stream_destroy(fresh));
    for (int i = 0; i < MANY; i++)
        OK(leat_stream_destroy(many[i]));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* A stream has two handles. Order that leat saw through one of them must count for the other. */
static void a_stream_may_have_two_names(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .guard = 1);
    struct test_gate *gate;
    unsigned char *block;
    leat_stream *alias;
    void *native;

    OK(leat_stream_native(t->stream, &native));
    OK(leat_stream_wrap(t->device, native, &alias));
    gate = test_gate_close(t->stream);
    block = test_block(pool, alias, 1000);
    OK(leat_fill(alias, block, 1, 1000));
    test_order(t, t->stream, t->second);
    OK(leat_fill(t->second, block, 2, 1000));
    test_gate_open(gate);
    test_block_holds(t->second, block, 1000, 2);
    OK(leat_free(t->second, block));
    OK(leat_stream_destroy(alias));
    OK(leat_pool_destroy(pool));
}

/* The recorded uses of a block may belong to destroyed streams. */
static void streams_end_before_their_blocks(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .guard = 1);

    for (int round = 0; round < 10; round++) {
        unsigned char *block;
        leat_stream *gone;

        OK(leat_stream_create(t->device, &gone));
        block = test_block(pool, gone, 1000);
        OK(leat_fill(gone, block, 1, 1000));
        if (round % 2) {
            OK(leat_free(gone, block));
            OK(leat_stream_destroy(gone));
        } else {
            OK(leat_stream_destroy(gone));
            OK(leat_device_synchronize(t->device));
            OK(leat_fill(t->stream, block, 2, 1000));
            OK(leat_free(t->stream, block));
        }
    }
    OK(leat_pool_trim(pool, 0, NULL, NULL));
    assert_int_equal(reports(pool), 0);
    OK(leat_pool_destroy(pool));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(use_before_the_allocation_is_refused),
    STATE_TEST(use_is_judged_by_its_bytes),
    STATE_TEST(order_goes_through_others),
    STATE_TEST(what_is_not_known_is_not_judged),
    STATE_TEST(a_stream_may_have_two_names),
    STATE_TEST(streams_end_before_their_blocks),
};

TEST_MAIN(tests)
