/*
 * unit_timeline.c - tests core/timeline.c: what it records about fences, completions and waits, and what other
 * threads may do at the same time. Gates in the driver's streams hold work up without leat's knowledge (held.h),
 * so that the test notices every time that leat considers work complete too early.
 */
#include "held.h"

#include "core/core.h"
#include "driver/fault/fault.h"

#include <leat/managed.h>

#include <string.h>
#include <time.h>

#define PATIENCE_MS 30000

/* Submits work that a gate holds up. Returns its sequence number. */
static uint64_t give_held(leat_stream *stream, struct test_gate **gate)
{
    *gate = held_close(stream->native);
    return leati_timeline_now(stream->timeline);
}

static bool is_done(struct leati_timeline *timeline, uint64_t seq)
{
    bool done;

    OK(leati_timeline_query(timeline, seq, &done, NULL));
    return done;
}

static bool is_done_soon(struct leati_timeline *timeline, uint64_t seq)
{
    for (int i = 0; i < PATIENCE_MS; i++) {
        if (is_done(timeline, seq))
            return true;
        test_sleep_us(1000);
    }
    return false;
}

/* ---- what leat knows of a stream ---- */

static void failures_are_told_once(void **state)
{
    struct test_state *t = *state;
    struct leati_timeline *timeline = t->stream->timeline;

    leati_timeline_failed(timeline, LEAT_ERROR_POINTER, "the first one");
    leati_timeline_failed(timeline, LEAT_ERROR_DRIVER, "the second one");
    assert_int_equal(leati_timeline_take_failure(timeline), LEAT_ERROR_POINTER);
    assert_non_null(strstr(leat_last_error(), "the first one"));
    assert_int_equal(leati_timeline_take_failure(timeline), LEAT_OK);
}

/* Outcomes of copies that have ended well are forgotten, also if several timelines subscribe to them, and the
 * failures of the others are returned. */
static void outcomes_are_forgotten(void **state)
{
    enum { COPIES = 100 };
    struct test_state *t = *state;
    struct leati_timeline *timelines[2] = {t->stream->timeline, t->second->timeline};
    struct leati_outcome *running = leati_outcome_new();

    assert_non_null(running);
    leati_outcome_copy_begins(running);
    for (int i = 0; i < 2; i++)
        OK(leati_timeline_subscribe(timelines[i], running));
    for (int copy = 0; copy < COPIES; copy++) {
        struct leati_outcome *outcome = leati_outcome_new();

        assert_non_null(outcome);
        leati_outcome_copy_begins(outcome);
        for (int i = 0; i < 2; i++)
            OK(leati_timeline_subscribe(timelines[i], outcome));
        leati_outcome_copy_ends(outcome);
        leati_outcome_release(outcome);
        for (int i = 0; i < 2; i++)
            assert_in_range(timelines[i]->subscription_count, 1, 18);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(leati_timeline_take_failure(timelines[i]), LEAT_OK);
        assert_int_equal(timelines[i]->subscription_count, 1);
    }
    leati_outcome_failed(running, LEAT_ERROR_FILE, "the running copy");
    leati_outcome_copy_ends(running);
    leati_outcome_release(running);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(leati_timeline_take_failure(timelines[i]), LEAT_ERROR_FILE);
        assert_non_null(strstr(leat_last_error(), "the running copy"));
        assert_int_equal(leati_timeline_take_failure(timelines[i]), LEAT_OK);
        assert_int_equal(timelines[i]->subscription_count, 0);
    }
}

static void what_is_done_stays_done(void **state)
{
    struct test_state *t = *state;
    struct leati_timeline *timeline = t->stream->timeline;
    uint64_t seq = leati_timeline_now(timeline) + 100;

    leati_timeline_complete(timeline, seq);
    leati_timeline_complete(timeline, seq - 50);
    assert_true(leati_timeline_is_complete(timeline, seq));
    assert_false(leati_timeline_is_complete(timeline, seq + 1));
}

/* ---- fences ---- */

/* Submits more pieces of work than there are fences. leat must see that an early piece is complete while later
 * pieces are held up. The second round reuses the fences. */
static void older_fences_are_reached_first(void **state)
{
    enum { PIECES = LEATI_FENCES + 2 };
    struct test_state *t = *state;
    struct leati_timeline *timeline = t->stream->timeline;

    for (int round = 0; round < 2; round++) {
        struct test_gate *gates[PIECES];
        uint64_t seqs[PIECES];

        for (int i = 0; i < PIECES; i++) {
            seqs[i] = give_held(t->stream, &gates[i]);
            assert_false(is_done(timeline, seqs[i]));
        }
        for (int i = 0; i < PIECES; i++) {
            test_gate_open(gates[i]);
            if (i < LEATI_FENCES - 1)
                assert_true(is_done_soon(timeline, seqs[i]));
            if (i < PIECES - 1)
                assert_false(is_done(timeline, seqs[i + 1]));
        }
        assert_true(is_done_soon(timeline, seqs[PIECES - 1]));
    }
}

static void what_is_fenced_needs_one_question(void **state)
{
    struct test_state *t = *state;
    struct leati_timeline_counts counts;
    struct test_gate *gate;
    uint64_t seq = give_held(t->stream, &gate);
    bool done;

    memset(&counts, 0, sizeof counts);
    OK(leati_timeline_query(t->stream->timeline, seq, &done, &counts));
    assert_false(done);
    assert_int_equal(atomic_load(&counts.events), 1);
    assert_int_equal(atomic_load(&counts.queries), 2);
    OK(leati_timeline_query(t->stream->timeline, seq, &done, &counts));
    assert_false(done);
    assert_int_equal(atomic_load(&counts.events), 1);
    assert_int_equal(atomic_load(&counts.queries), 3);
    test_gate_open(gate);
}

/* ---- other threads ---- */

/* Late work: submitted to the stream, as if by another thread, just after leat has called the driver function that
 * entry names. */
static struct {
    leat_stream *stream;
    const char *entry;
    struct test_gate *gate;
    uint64_t seq;
} late;

static void give_late_work(const char *entry, bool after)
{
    if (!after || strcmp(entry, late.entry) || late.gate)
        return;
    late.seq = give_held(late.stream, &late.gate);
    leati_timeline_submitted(late.stream->timeline);
}

static void begin_late(leat_stream *stream, const char *entry)
{
    late.stream = stream;
    late.entry = entry;
    late.gate = NULL;
    held_around = give_late_work;
}

/* Fails if leat considers the late work complete, or the earlier work (seq) not complete. */
static void end_late(leat_stream *stream, uint64_t seq)
{
    held_around = NULL;
    assert_non_null(late.gate);
    assert_false(leati_stream_known_idle(stream));
    assert_true(is_done_soon(stream->timeline, seq));
    assert_false(leati_timeline_is_complete(stream->timeline, late.seq));
    assert_false(is_done(stream->timeline, late.seq));
    test_gate_open(late.gate);
    OK(leat_stream_synchronize(stream));
    assert_true(leati_timeline_is_complete(stream->timeline, late.seq));
}

static void work_that_comes_late_is_not_done(void **state)
{
    struct test_state *t = *state;
    leat_stream *stream = t->stream;
    struct test_gate *gate;
    leat_event *event;
    uint64_t seq;

    OK(leat_event_create(t->device, &event));
    /* In the next three cases the stream is idle when the driver answers, and the late work is submitted after
     * that. */
    seq = leati_timeline_now(stream->timeline);
    begin_late(stream, "stream_query");
    assert_true(is_done(stream->timeline, seq));
    end_late(stream, seq);
    begin_late(stream, "stream_query");
    seq = leati_timeline_now(stream->timeline);
    OK(leat_stream_query(stream));
    end_late(stream, seq);
    begin_late(stream, "stream_synchronize");
    seq = leati_timeline_now(stream->timeline);
    OK(leat_stream_synchronize(stream));
    end_late(stream, seq);
    /* The fence is recorded before the late work is submitted. */
    seq = give_held(stream, &gate);
    begin_late(stream, "event_record");
    assert_false(is_done(stream->timeline, seq));
    test_gate_open(gate);
    end_late(stream, seq);
    seq = leati_timeline_now(stream->timeline);
    begin_late(stream, "event_record");
    OK(leat_event_record(stream, event));
    OK(leat_event_synchronize(event));
    assert_true(leati_timeline_is_complete(stream->timeline, seq));
    end_late(stream, seq);
    OK(leat_event_destroy(event));
}

/* During a query of an event, another thread records this event on another stream, and then on the first stream
 * again. */
static struct {
    const char *entry;
    leat_event *event;
    leat_stream *here, *elsewhere;
} moved;

static void move_event(const char *entry, bool after)
{
    if (strcmp(entry, moved.entry))
        return;
    OK(leat_event_record(after ? moved.here : moved.elsewhere, moved.event));
    /* The record on the other stream must be complete when the driver is queried. */
    if (!after)
        OK(leat_stream_synchronize(moved.elsewhere));
}

static void an_event_that_moves_says_nothing(void **state)
{
    static const char *const entries[] = {"event_query", "event_synchronize"};
    struct test_state *t = *state;
    leat_event *event;

    OK(leat_event_create(t->device, &event));
    for (int i = 0; i < 2; i++) {
        struct test_gate *gate;
        uint64_t seq = give_held(t->stream, &gate);

        OK(leat_event_record(t->stream, event));
        moved.entry = entries[i];
        moved.event = event;
        moved.here = t->stream;
        moved.elsewhere = t->second;
        held_around = move_event;
        if (i)
            OK(leat_event_synchronize(event));
        else
            OK(leat_event_query(event));
        held_around = NULL;
        assert_false(leati_timeline_is_complete(t->stream->timeline, seq));
        test_gate_open(gate);
        OK(leat_stream_synchronize(t->stream));
    }
    OK(leat_event_destroy(event));
}

/* The program may record a wrapped event through its other handle, so leat must not conclude from the event's
 * state that its own record is complete. */
static void a_wrapped_event_says_nothing(void **state)
{
    struct test_state *t = *state;
    struct test_gate *gate;
    leat_event *event, *wrapped;
    uint64_t seq;
    void *native;

    OK(leat_event_create(t->device, &event));
    native = event->device->driver->ops->event_native(event->device->driver, event->native);
    OK(leat_event_wrap(t->device, native, &wrapped));
    seq = give_held(t->stream, &gate);
    OK(leat_event_record(t->stream, wrapped));
    OK(leat_event_record(t->second, event));
    OK(leat_stream_synchronize(t->second));
    OK(leat_event_query(wrapped));
    assert_false(leati_timeline_is_complete(t->stream->timeline, seq));
    test_gate_open(gate);
    OK(leat_event_destroy(wrapped));
    OK(leat_event_destroy(event));
}

/* If the program queries an event, leat must keep the result. If the driver refuses to record the event, leat must
 * keep no record. */
static void records_are_remembered(void **state)
{
    struct test_state *t = *state;
    struct leati_timeline *timeline = t->stream->timeline;
    leat_event *event;
    uint64_t seq = leati_timeline_now(timeline);

    OK(leat_event_create(t->device, &event));
    OK(leat_event_record(t->stream, event));
    assert_true(is_done_soon(timeline, leati_timeline_now(timeline)));
    assert_int_not_equal(event->point.serial, 0);
    OK(leat_event_query(event));
    assert_true(leati_timeline_is_complete(timeline, seq));
    seq = leati_timeline_now(timeline);
    OK(leat_event_record(t->stream, event));
    while (leat_event_query(event) == LEAT_NOT_READY)
        test_sleep_us(100);
    assert_true(leati_timeline_is_complete(timeline, seq));
    leati_fault_arm(held_driver, LEATI_FAULT_FAIL, "event_record", 1);
    REFUSED(leat_event_record(t->stream, event), LEAT_ERROR_DRIVER, "event_record");
    leati_fault_arm(held_driver, LEATI_FAULT_NONE, NULL, 0);
    assert_int_equal(event->point.serial, 0);
    OK(leat_event_destroy(event));
}

/* After a wait for an event, leat must assume that the work before it writes pageable memory, for example in a
 * host function. */
static void what_is_waited_for_may_write_anything(void **state)
{
    struct test_state *t = *state;
    struct test_gate *gate;
    leat_event *event;

    OK(leat_event_create(t->device, &event));
    OK(leat_stream_synchronize(t->second));
    assert_true(leati_stream_reads_now(t->second));
    (void)give_held(t->stream, &gate);
    OK(leat_event_record(t->stream, event));
    OK(leat_stream_wait(t->second, event));
    assert_false(leati_stream_reads_now(t->second));
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->second));
    assert_true(leati_stream_reads_now(t->second));
    OK(leat_event_destroy(event));
}

static void do_nothing(void *unused)
{
    (void)unused;
}

/* Checks whether leat knows that the stream is idle. leat knows it after all work is complete and until the next
 * submission, unless others may submit work too. */
static void expect_idle(leat_stream *stream, bool idle)
{
    assert_int_equal(leati_stream_known_idle(stream), idle);
    assert_int_equal(leati_stream_reads_now(stream), idle);
}

static void who_has_a_stream_may_use_it(void **state)
{
    struct test_state *t = *state;
    leat_stream *stream, *wrapped;
    leat_event *event;
    void *native;

    OK(leat_event_create(t->device, &event));
    OK(leat_event_record(t->second, event));
    OK(leat_stream_create(t->device, &stream));
    OK(leat_stream_synchronize(stream));
    expect_idle(stream, true);
    OK(leat_launch_host(stream, do_nothing, NULL));
    expect_idle(stream, false);
    OK(leat_stream_synchronize(stream));
    expect_idle(stream, true);
    OK(leat_stream_wait(stream, event));
    expect_idle(stream, false);
    OK(leat_stream_synchronize(stream));
    expect_idle(stream, true);
    OK(leat_stream_native(stream, &native));
    OK(leat_stream_synchronize(stream));
    expect_idle(stream, false);
    OK(leat_stream_wrap(t->device, native, &wrapped));
    OK(leat_stream_synchronize(wrapped));
    expect_idle(wrapped, false);
    OK(leat_stream_destroy(wrapped));
    OK(leat_stream_destroy(stream));
    OK(leat_event_destroy(event));
}

/* leat must count a prefetch as work, although it only moves pages. */
static void prefetches_are_work(void **state)
{
    struct test_state *t = *state;
    void *memory = test_alloc(t->device, LEAT_KIND_MANAGED, 1 << 16);

    OK(leat_stream_synchronize(t->stream));
    assert_true(leati_stream_known_idle(t->stream));
    OK(leat_managed_prefetch(t->stream, memory, 1 << 16, t->device));
    assert_false(leati_stream_known_idle(t->stream));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_memory_free(memory));
}

/* ---- destroyed streams ---- */

static bool refuse_to_wait(const char *entry, void *stream)
{
    (void)stream;
    return !strcmp(entry, "stream_synchronize");
}

static void work_outlives_its_stream(void **state)
{
    struct test_state *t = *state;
    struct leati_timeline *timeline;
    struct test_gate *gate;
    leat_stream *stream;
    uint64_t seq;

    OK(leat_stream_create(t->device, &stream));
    seq = give_held(stream, &gate);
    timeline = stream->timeline;
    leati_timeline_hold(timeline);
    OK(leat_stream_destroy(stream));
    assert_false(is_done(timeline, seq));
    assert_false(is_done(timeline, leati_timeline_now(timeline)));
    test_gate_open(gate);
    assert_true(is_done_soon(timeline, leati_timeline_now(timeline)));
    leati_timeline_release(timeline);
}

/* If leat cannot record a fence for a stream with a held timeline, the destruction of the stream must wait for it.
 * If nobody holds the timeline, the destruction must neither record a fence nor wait. */
static void an_end_without_a_fence_waits(void **state)
{
    struct test_state *t = *state;
    struct held_watch watch = {.until_fault = true};
    struct leati_timeline *timeline;
    struct test_gate *gate;
    leat_stream *stream;
    uint64_t seq;
    bool done;

    OK(leat_stream_create(t->device, &stream));
    seq = give_held(stream, &watch.gate);
    timeline = stream->timeline;
    leati_timeline_hold(timeline);
    leati_fault_arm(held_driver, LEATI_FAULT_FAIL, "event_record", 1);
    held_watch_start(&watch);
    OK(leat_stream_destroy(stream));
    held_watch_end(&watch);
    leati_fault_arm(held_driver, LEATI_FAULT_NONE, NULL, 0);
    assert_true(is_done(timeline, seq));
    leati_timeline_release(timeline);

    OK(leat_stream_create(t->device, &stream));
    (void)give_held(stream, &gate);
    leati_fault_arm(held_driver, LEATI_FAULT_FAIL, "event_record", 1);
    OK(leat_stream_destroy(stream));
    assert_false(leati_fault_fired(held_driver));
    assert_int_equal(atomic_load(&gate->passed), 0);
    test_gate_open(gate);
    OK(leat_device_synchronize(t->device));

    /* If the wait for the stream fails too, later queries and waits must return an error. */
    OK(leat_stream_create(t->device, &stream));
    seq = give_held(stream, &gate);
    timeline = stream->timeline;
    leati_timeline_hold(timeline);
    leati_fault_arm(held_driver, LEATI_FAULT_FAIL, "event_record", 1);
    held_refuse = refuse_to_wait;
    OK(leat_stream_destroy(stream));
    held_refuse = NULL;
    leati_fault_arm(held_driver, LEATI_FAULT_NONE, NULL, 0);
    assert_int_equal(leati_timeline_query(timeline, seq, &done, NULL), LEAT_ERROR_DRIVER);
    assert_false(done);
    assert_int_equal(leati_timeline_host_wait(timeline, seq, NULL), LEAT_ERROR_DRIVER);
    test_gate_open(gate);
    OK(leat_device_synchronize(t->device));
    leati_timeline_release(timeline);
}

/* ---- recorded waits ---- */

static struct leati_timeline *make_order(struct test_state *t)
{
    struct leati_timeline *timeline = leati_timeline_new(t->device, t->stream->native);

    assert_non_null(timeline);
    return timeline;
}

static const struct leati_points nothing;

static void note_wait(struct leati_timeline *stream, const struct leati_timeline *timeline, uint64_t seq)
{
    leati_timeline_waited(stream, &(struct leati_point){.serial = timeline->serial, .seq = seq}, &nothing);
}

/* A timeline records up to LEATI_POINTS_MAX waits. Waits that add no new order must not use up this number. */
static void waits_are_remembered(void **state)
{
    struct test_state *t = *state;
    struct leati_timeline *stream = make_order(t), *orders[LEATI_POINTS_MAX + 1], *other = make_order(t);
    struct leati_points known = {.more = false};

    for (int i = 0; i <= LEATI_POINTS_MAX; i++)
        orders[i] = make_order(t);
    for (int i = 0; i < LEATI_POINTS_MAX; i++)
        note_wait(stream, orders[i], 5);
    note_wait(stream, orders[0], 3);
    note_wait(stream, stream, 7);
    known.at[0] = (struct leati_point){.serial = stream->serial, .seq = 1};
    leati_timeline_waited(stream, &(struct leati_point){.serial = 0, .seq = 9}, &known);
    for (int i = 0; i < LEATI_POINTS_MAX; i++) {
        assert_true(leati_timeline_is_ordered_after(stream, orders[i], 5));
        assert_true(leati_timeline_may_be_ordered_after(stream, orders[i], 5));
        assert_false(leati_timeline_is_ordered_after(stream, orders[i], 6));
        assert_false(leati_timeline_may_be_ordered_after(stream, orders[i], 6));
    }
    assert_true(leati_timeline_is_ordered_after(stream, stream, 100));
    assert_false(leati_timeline_may_be_ordered_after(stream, other, 1));
    /* One more wait makes leat drop the oldest one. leat then no longer knows this order, but must still consider
     * it possible. */
    note_wait(stream, orders[LEATI_POINTS_MAX], 5);
    assert_true(leati_timeline_is_ordered_after(stream, orders[LEATI_POINTS_MAX], 5));
    assert_false(leati_timeline_is_ordered_after(stream, orders[0], 5));
    assert_true(leati_timeline_may_be_ordered_after(stream, orders[0], 5));

    /* A wait for a stream includes the waits that this stream has recorded. If known.more is set, it may also
     * include waits that this stream has dropped. */
    known = (struct leati_points){.at = {{.serial = orders[1]->serial, .seq = 4}}};
    leati_timeline_waited(other, &(struct leati_point){.serial = orders[2]->serial, .seq = 2}, &known);
    assert_true(leati_timeline_is_ordered_after(other, orders[1], 4));
    assert_true(leati_timeline_is_ordered_after(other, orders[2], 2));
    assert_false(leati_timeline_may_be_ordered_after(other, orders[3], 1));
    known.more = true;
    leati_timeline_waited(other, &(struct leati_point){.serial = orders[2]->serial, .seq = 2}, &known);
    assert_true(leati_timeline_may_be_ordered_after(other, orders[3], 1));
    leati_timeline_get_waits(stream, &known);
    assert_true(known.more);
    for (int i = 0; i <= LEATI_POINTS_MAX; i++)
        leati_timeline_release(orders[i]);
    leati_timeline_release(stream);
    leati_timeline_release(other);
}

/* leat knows that a wait covers the work up to its fence only. The other stream may have waited for more by now,
 * so leat must consider any further order possible. */
static void a_wait_is_for_its_fence(void **state)
{
    struct test_state *t = *state;
    struct leati_timeline *timeline = t->stream->timeline, *other = make_order(t);
    struct test_gate *gates[2];
    uint64_t seqs[2];

    seqs[0] = give_held(t->stream, &gates[0]);
    assert_false(is_done(timeline, seqs[0]));
    seqs[1] = give_held(t->stream, &gates[1]);
    OK(leat_stream_synchronize(t->second));
    assert_true(leati_stream_known_idle(t->second));
    assert_false(leati_timeline_may_be_ordered_after(t->second->timeline, other, 1));
    OK(leati_timeline_wait(t->second->timeline, timeline, seqs[0], NULL));
    assert_false(leati_stream_known_idle(t->second));
    assert_true(leati_timeline_is_ordered_after(t->second->timeline, timeline, seqs[0]));
    assert_false(leati_timeline_is_ordered_after(t->second->timeline, timeline, seqs[1]));
    assert_true(leati_timeline_may_be_ordered_after(t->second->timeline, other, 1));
    assert_int_equal(leat_stream_query(t->second), LEAT_NOT_READY);
    test_gate_open(gates[0]);
    OK(leat_stream_synchronize(t->second));
    assert_int_equal(atomic_load(&gates[0]->passed), 1);
    assert_int_equal(leat_stream_query(t->stream), LEAT_NOT_READY);
    test_gate_open(gates[1]);
    leati_timeline_release(other);
}

/* The host must wait for the fence of its sequence number, and not for later work. */
static void the_host_waits_for_a_fence(void **state)
{
    struct test_state *t = *state;
    struct leati_timeline *timeline = t->stream->timeline;
    struct held_watch watch = {.until_fault = false};
    uint64_t seqs[2];
    struct test_gate *gate;

    seqs[0] = give_held(t->stream, &watch.gate);
    assert_false(is_done(timeline, seqs[0]));
    seqs[1] = give_held(t->stream, &gate);
    held_watch_start(&watch);
    OK(leati_timeline_host_wait(timeline, seqs[0], NULL));
    held_watch_end(&watch);
    assert_true(leati_timeline_is_complete(timeline, seqs[0]));
    assert_false(leati_timeline_is_complete(timeline, seqs[1]));
    test_gate_open(gate);
}

/* What another thread does while the host waits: it uses the stream, then opens the gate. */
static void *use_and_open(void *gate)
{
    leat_event *event;

    held_moment();
    OK(leat_event_create(late.stream->device, &event));
    OK(leat_event_record(late.stream, event));
    (void)leati_timeline_is_over(late.stream->timeline);
    OK(leat_event_destroy(event));
    test_gate_open(gate);
    return NULL;
}

/* A host wait must not block other threads that use the stream. */
static void a_host_wait_blocks_no_other_thread(void **state)
{
    struct test_state *t = *state;
    struct timespec start, end;
    struct test_gate *gate;
    pthread_t thread;
    uint64_t seq;

    late.stream = t->stream;
    seq = give_held(t->stream, &gate);
    clock_gettime(CLOCK_MONOTONIC, &start);
    assert_int_equal(pthread_create(&thread, NULL, use_and_open, gate), 0);
    OK(leati_timeline_host_wait(t->stream->timeline, seq, NULL));
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_int_equal(pthread_join(thread, NULL), 0);
    /* A gate that is not opened opens itself after half a minute. */
    assert_true(end.tv_sec - start.tv_sec < 20);
    assert_true(leati_timeline_is_complete(t->stream->timeline, seq));
    for (int i = 0; i < LEATI_FENCES; i++)
        assert_int_equal(t->stream->timeline->fences[i].waiters, 0);
}

/* A per-thread default stream is a different stream for each thread. So leat must not apply what one thread sees
 * of it to other threads. */
static void streams_of_threads_say_nothing(void **state)
{
    struct test_state *t = *state;
    struct leati_timeline *mine = make_order(t), *other = make_order(t);
    struct leati_timeline_counts counts;
    bool done;

    mine->per_thread = true;
    assert_false(leati_timeline_is_ordered_after(mine, mine, 1));
    assert_true(leati_timeline_may_be_ordered_after(mine, mine, 1));
    assert_true(leati_timeline_may_be_ordered_after(mine, other, 1));
    note_wait(mine, other, 5);
    assert_false(leati_timeline_is_ordered_after(mine, other, 5));
    /* The stream is idle for this thread, but perhaps not for other threads. */
    memset(&counts, 0, sizeof counts);
    OK(leati_timeline_query(mine, leati_timeline_now(mine), &done, &counts));
    assert_int_equal(atomic_load(&counts.events), 1);
    assert_int_equal(atomic_load(&counts.queries), 1);
    OK(leati_timeline_wait(other, mine, leati_timeline_now(mine), NULL));
    assert_false(leati_timeline_is_ordered_after(other, mine, 1));
    leati_timeline_release(mine);
    leati_timeline_release(other);
    t->stream->timeline->per_thread = true;
    OK(leat_stream_synchronize(t->stream));
    OK(leat_stream_query(t->stream));
    assert_false(leati_timeline_is_complete(t->stream->timeline, 1));
    assert_false(leati_stream_known_idle(t->stream));
    assert_false(leati_stream_reads_now(t->stream));
    t->stream->timeline->per_thread = false;
}

/* ---- references to a timeline ---- */

/* Events and the stream uses of blocks hold references to the timeline of a stream, and must release them when
 * they end. */
static void what_ends_lets_go_of_orders(void **state)
{
    struct test_state *t = *state;
    struct leati_timeline *timeline = t->stream->timeline, *other = t->second->timeline;
    unsigned before = atomic_load(&timeline->holders), before_other = atomic_load(&other->holders);
    leat_pool_options options = {.size = sizeof options};
    leat_event *event, *second;
    leat_pool *pool;
    void *block;

    OK(leat_event_create(t->device, &event));
    OK(leat_event_record(t->stream, event));
    assert_true(atomic_load(&timeline->holders) > before);
    OK(leat_event_record(t->second, event));
    assert_int_equal(atomic_load(&timeline->holders), before);
    assert_true(atomic_load(&other->holders) > before_other);
    OK(leat_event_destroy(event));
    assert_int_equal(atomic_load(&other->holders), before_other);

    OK(leat_pool_create(t->device, &options, &pool));
    for (int way = 0; way < 3; way++) {
        OK(leat_pool_alloc(t->stream, pool, 4096, &block));
        OK(leat_event_create(t->device, &second));
        OK(leat_event_record(t->second, second));
        if (way == 2)
            OK(leat_block_use_until(second, block));
        else
            OK(leat_block_use(t->second, block));
        OK(leat_event_destroy(second));
        assert_true(atomic_load(&other->holders) > before_other);
        if (way == 0)
            OK(leat_memory_free(block));
        else
            OK(leat_free(t->stream, block));
        OK(leat_device_synchronize(t->device));
        OK(leat_pool_trim(pool, 0, NULL, NULL));
        assert_int_equal(atomic_load(&other->holders), before_other);
    }
    OK(leat_pool_destroy(pool));
    assert_int_equal(atomic_load(&timeline->holders), before);
}

/* ---- idle streams ---- */

/* leati_stream_is_idle() must query the driver unless leat knows the answer. If the query fails, it must return
 * false and leave no message. */
static void idle_streams_are_seen(void **state)
{
    struct test_state *t = *state;
    struct test_gate *gate;

    assert_int_equal(leat_stream_query(NULL), LEAT_ERROR_HANDLE);
    gate = test_gate_close(t->stream);
    assert_false(leati_stream_is_idle(t->stream));
    leati_fault_arm(held_driver, LEATI_FAULT_FAIL, "stream_query", 1);
    assert_false(leati_stream_is_idle(t->stream));
    assert_true(leati_fault_fired(held_driver));
    leati_fault_arm(held_driver, LEATI_FAULT_NONE, NULL, 0);
    assert_non_null(strstr(leat_last_error(), "leat_stream_query"));
    test_gate_open(gate);
    while (leat_stream_query(t->stream) != LEAT_OK)
        test_sleep_us(1000);
    assert_false(leati_stream_known_idle(t->stream));
    assert_true(leati_stream_is_idle(t->stream));
    assert_true(leati_stream_known_idle(t->stream));
    leati_fault_arm(held_driver, LEATI_FAULT_FAIL, "stream_query", 1);
    assert_true(leati_stream_is_idle(t->stream));
    assert_false(leati_fault_fired(held_driver));
    leati_fault_arm(held_driver, LEATI_FAULT_NONE, NULL, 0);
}

/* If the driver said once that a stream is idle, its earlier work does not keep later copies from being read early. */
static void work_that_was_seen_complete_delays_no_reads(void **state)
{
    struct test_state *t = *state;
    struct test_gate *gate = test_gate_close(t->stream);
    char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 4096);

    assert_false(leati_stream_is_idle(t->stream));
    assert_false(leati_stream_reads_now(t->stream));
    test_gate_open(gate);
    while (!leati_stream_is_idle(t->stream))
        test_sleep_us(1000);
    assert_true(leati_stream_reads_now(t->stream));
    /* This writes no host memory. */
    OK(leat_fill(t->stream, memory, 1, 4096));
    assert_false(leati_stream_known_idle(t->stream));
    assert_true(leati_stream_reads_now(t->stream));
    gate = test_gate_close(t->stream);
    assert_false(leati_stream_reads_now(t->stream));
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_memory_free(memory));
}

static const struct CMUnitTest tests[] = {
    HELD_TEST(idle_streams_are_seen),
    HELD_TEST(work_that_was_seen_complete_delays_no_reads),
    HELD_TEST(failures_are_told_once),
    HELD_TEST(outcomes_are_forgotten),
    HELD_TEST(what_is_done_stays_done),
    HELD_TEST(older_fences_are_reached_first),
    HELD_TEST(what_is_fenced_needs_one_question),
    HELD_TEST(work_that_comes_late_is_not_done),
    HELD_TEST(an_event_that_moves_says_nothing),
    HELD_TEST(who_has_a_stream_may_use_it),
    HELD_TEST(prefetches_are_work),
    HELD_TEST(a_wrapped_event_says_nothing),
    HELD_TEST(records_are_remembered),
    HELD_TEST(what_is_waited_for_may_write_anything),
    HELD_TEST(work_outlives_its_stream),
    HELD_TEST(an_end_without_a_fence_waits),
    HELD_TEST(waits_are_remembered),
    HELD_TEST(a_wait_is_for_its_fence),
    HELD_TEST(the_host_waits_for_a_fence),
    HELD_TEST(a_host_wait_blocks_no_other_thread),
    HELD_TEST(streams_of_threads_say_nothing),
    HELD_TEST(what_ends_lets_go_of_orders),
};

int main(void)
{
    if (!test_only_on_cpu())
        return 77;
    held_begin();
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
