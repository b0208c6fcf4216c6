/*
 * unit_activity.c - tests how "leat trace" divides the time of a recorded run: against plain references that look
 * at each nanosecond, with random intervals and random runs.
 */
#include "../../cli/activity.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SETS = 1000000, INTERVALS_MAX = 8, SPAN_MAX = 40, RUNS = 30000, ACTIVITIES_MAX = 14 };

static uint64_t seed, state_of_random;

static unsigned draw(unsigned below)
{
    state_of_random ^= state_of_random << 13;
    state_of_random ^= state_of_random >> 7;
    state_of_random ^= state_of_random << 17;
    return (unsigned)(state_of_random >> 20) % below;
}

static int set_up(void **state)
{
    (void)state;
    seed = test_seed();
    state_of_random = seed * 2654435761u + 88172645463325252u;
    printf("TEST_SEED=%" PRIu64 "\n", seed);
    return 0;
}

/* ---- intervals ---- */

/* The idle pieces that activity_divide() told. */
struct told {
    uint64_t mask, last_end;
};

static void on_idle(void *context, uint64_t begin, uint64_t end)
{
    struct told *told = context;

    assert_true(begin < end && begin >= told->last_end);
    told->last_end = end;
    for (; begin < end; begin++)
        told->mask |= UINT64_C(1) << begin;
}

static uint64_t mask_of(uint64_t begin, uint64_t end, uint64_t span)
{
    uint64_t mask = 0;

    for (; begin < end && begin < span; begin++)
        mask |= UINT64_C(1) << begin;
    return mask;
}

static unsigned bits(uint64_t mask)
{
    return (unsigned)__builtin_popcountll(mask);
}

static void parts_equal_a_reference(void **state)
{
    (void)state;
    for (int set = 0; set < SETS; set++) {
        struct activity_interval intervals[INTERVALS_MAX];
        unsigned count = draw(INTERVALS_MAX + 1), span = draw(SPAN_MAX + 1);
        uint64_t masks[2] = {0, 0}, whole = mask_of(0, span, span);
        struct told told = {0, 0};
        struct activity_parts parts;

        for (unsigned i = 0; i < count; i++) {
            uint64_t begin = draw(SPAN_MAX + 4), end = begin + draw(12);
            unsigned class = draw(2);

            intervals[i] = (struct activity_interval){begin, end, (enum activity_class) class};
            masks[class] |= mask_of(begin, end, span);
        }
        parts = activity_divide(intervals, count, span, on_idle, &told);
        if (parts.copy_ns != bits(masks[0] & ~masks[1]) || parts.compute_ns != bits(masks[1] & ~masks[0]) ||
            parts.overlap_ns != bits(masks[0] & masks[1]) ||
            parts.idle_ns != bits(whole & ~masks[0] & ~masks[1]) || told.mask != (whole & ~masks[0] & ~masks[1]))
            fail_msg("set %d of seed %" PRIu64, set, seed);
        assert_int_equal(parts.idle_ns + parts.copy_ns + parts.compute_ns + parts.overlap_ns, span);
    }
}

static void no_intervals_are_idle(void **state)
{
    struct activity_parts parts = activity_divide(NULL, 0, UINT64_MAX, NULL, NULL);

    (void)state;
    assert_true(parts.idle_ns == UINT64_MAX && parts.copy_ns == 0);
}

/* ---- runs ---- */

static bool is_work(const struct activity *a)
{
    return activity_is_copy(a) || activity_is_compute(a);
}

/* Makes a random run of two devices with two streams each, and two threads. */
static struct activity_log *draw_log(void)
{
    struct activity_log *log = activity_log_create();
    unsigned count = 1 + draw(ACTIVITIES_MAX);
    char error[ACTIVITY_ERROR_MAX];

    assert_non_null(log);
    for (unsigned i = 0; i < 4; i++) {
        uint32_t device = activity_log_device(log, i / 2, i / 2 ? "gpu:1" : "gpu:0");

        assert_int_equal(activity_log_stream(log, device, i), i);
    }
    assert_int_equal(activity_log_thread(log, 11), 0);
    assert_int_equal(activity_log_thread(log, 12), 1);
    for (unsigned i = 0; i < count; i++) {
        struct activity a = {.kind = (uint8_t)draw(ACTIVITY_KIND_COUNT),
                             .flags = (uint8_t)(1 + draw(3)),
                             .stream = draw(4),
                             .thread = draw(3) ? draw(2) : ACTIVITY_NONE,
                             .name = ACTIVITY_NONE,
                             .place = ACTIVITY_NONE,
                             .bytes = draw(100)};

        a.host_begin_ns = 1000 + draw(SPAN_MAX - 10);
        a.host_end_ns = a.host_begin_ns + draw(8);
        a.device_begin_ns = 1000 + draw(SPAN_MAX - 10);
        a.device_end_ns = a.device_begin_ns + draw(8);
        assert_true(activity_log_add(log, &a));
    }
    if (!activity_log_finish(log, error))
        fail_msg("%s", error);
    return log;
}

/* Returns the work of a device (or of all, with ACTIVITY_NONE) that begins first after ns. */
static const struct activity *next_work(const struct activity_log *log, uint32_t device, uint64_t ns)
{
    const struct activity *next = NULL;

    for (size_t i = 0; i < log->count; i++) {
        const struct activity *a = &log->list[i];

        if (is_work(a) && (device == ACTIVITY_NONE || activity_device(log, a) == device) &&
            a->device_begin_ns > ns && (!next || a->device_begin_ns < next->device_begin_ns))
            next = a;
    }
    return next;
}

/* Returns the reason of the first call of the thread (ACTIVITY_NONE: of any) around the moment, or otherwise. */
static enum activity_reason call_at(const struct activity_log *log, uint32_t thread, uint64_t ns,
                                    enum activity_reason otherwise)
{
    static const int reasons[ACTIVITY_KIND_COUNT] = {
        [ACTIVITY_ALLOC] = 1 + ACTIVITY_IDLE_ALLOC,    [ACTIVITY_FREE] = 1 + ACTIVITY_IDLE_ALLOC,
        [ACTIVITY_HOST_WAIT] = 1 + ACTIVITY_IDLE_SYNC, [ACTIVITY_COPY] = 1 + ACTIVITY_IDLE_COPY,
        [ACTIVITY_FILE_READ] = 1 + ACTIVITY_IDLE_COPY, [ACTIVITY_FILE_WRITE] = 1 + ACTIVITY_IDLE_COPY,
        [ACTIVITY_PAGE_MOVE] = 1 + ACTIVITY_IDLE_COPY};

    for (size_t i = 0; i < log->count; i++) {
        const struct activity *a = &log->list[i];

        if ((a->flags & ACTIVITY_FLAG_HOST) && reasons[a->kind] &&
            (thread == ACTIVITY_NONE || a->thread == thread) && a->host_begin_ns <= ns && ns < a->host_end_ns)
            return (enum activity_reason)(reasons[a->kind] - 1);
    }
    return otherwise;
}

/* Returns true if the device has had no work before or at ns. */
static bool is_first(const struct activity_log *log, uint32_t device, uint64_t ns)
{
    for (size_t i = 0; i < log->count; i++) {
        const struct activity *a = &log->list[i];

        if (is_work(a) && (device == ACTIVITY_NONE || activity_device(log, a) == device) &&
            a->device_begin_ns <= ns && a->device_end_ns > 0)
            return false;
    }
    return true;
}

/* The definition in docs/trace.md, for the nanosecond that begins at ns, in which the device is idle. */
static enum activity_reason reason_at(const struct activity_log *log, uint32_t device, uint64_t ns)
{
    const struct activity *next = next_work(log, device, ns);

    if (!next)
        return call_at(log, ACTIVITY_NONE, ns, ACTIVITY_IDLE_NONE);
    if ((next->flags & ACTIVITY_FLAG_HOST) && ns < next->host_begin_ns)
        return call_at(log, next->thread, ns, is_first(log, device, ns) ? ACTIVITY_IDLE_NONE : ACTIVITY_IDLE_HOST);
    for (size_t i = 0; i < log->count; i++) {
        const struct activity *a = &log->list[i];

        if (a->kind == ACTIVITY_STREAM_WAIT && (a->flags & ACTIVITY_FLAG_DEVICE) && a->stream == next->stream &&
            a->device_begin_ns <= ns && ns < a->device_end_ns)
            return ACTIVITY_IDLE_EVENT;
    }
    return activity_is_copy(next) ? ACTIVITY_IDLE_COPY : ACTIVITY_IDLE_LAUNCH;
}

static bool covers(const struct activity_log *log, uint32_t device, uint64_t ns, bool copy)
{
    for (size_t i = 0; i < log->count; i++) {
        const struct activity *a = &log->list[i];

        if ((copy ? activity_is_copy(a) : activity_is_compute(a)) &&
            (device == ACTIVITY_NONE || activity_device(log, a) == device) && a->device_begin_ns <= ns &&
            ns < a->device_end_ns)
            return true;
    }
    return false;
}

static void check_share(const struct activity_log *log, uint32_t device, const struct activity_share *share)
{
    struct activity_parts parts = {0};
    uint64_t by[ACTIVITY_IDLE_COUNT] = {0};

    for (uint64_t ns = 0; ns < log->span_ns; ns++) {
        bool copy = covers(log, device, ns, true), compute = covers(log, device, ns, false);

        parts.copy_ns += copy && !compute;
        parts.compute_ns += compute && !copy;
        parts.overlap_ns += copy && compute;
        parts.idle_ns += !copy && !compute;
        if (!copy && !compute)
            by[reason_at(log, device, ns)]++;
    }
    assert_memory_equal(&parts, &share->parts, sizeof parts);
    assert_memory_equal(by, share->idle_by_ns, sizeof by);
}

static void runs_equal_a_reference(void **state)
{
    (void)state;
    for (int run = 0; run < RUNS; run++) {
        struct activity_log *log = draw_log();
        struct activity_breakdown *breakdown = activity_breakdown_make(log);
        uint64_t copies = 0, bytes = 0;

        assert_non_null(breakdown);
        check_share(log, ACTIVITY_NONE, &breakdown->all);
        for (uint32_t device = 0; device < 2; device++)
            check_share(log, device, &breakdown->devices[device]);
        for (size_t stream = 0; stream < 4; stream++) {
            const struct activity_parts *parts = &breakdown->streams[stream].parts;

            assert_int_equal(parts->idle_ns + parts->copy_ns + parts->compute_ns + parts->overlap_ns,
                             log->span_ns);
            copies += breakdown->streams[stream].copies;
            bytes += breakdown->streams[stream].copy_bytes;
        }
        assert_true(copies == breakdown->all.copies && bytes == breakdown->all.copy_bytes);
        activity_breakdown_destroy(breakdown);
        activity_log_destroy(log);
    }
}

static void ranges_enclose_calls(void **state)
{
    struct activity_log *log = activity_log_create();
    uint32_t thread, outer, inner;
    const struct {
        enum activity_kind kind;
        uint64_t begin, end;
        int range; /* 0: none, 1: outer, 2: inner */
    } calls[] = {{ACTIVITY_RANGE, 10, 100, 0}, {ACTIVITY_RANGE, 20, 40, 1}, {ACTIVITY_COPY, 12, 15, 1},
                 {ACTIVITY_COPY, 20, 25, 2},   {ACTIVITY_COPY, 40, 45, 1},  {ACTIVITY_COPY, 100, 110, 0},
                 {ACTIVITY_COPY, 5, 8, 0}};
    char error[ACTIVITY_ERROR_MAX];

    (void)state;
    thread = activity_log_thread(log, 1);
    outer = activity_log_name(log, "outer");
    inner = activity_log_name(log, "inner");
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        struct activity a = {.kind = (uint8_t)calls[i].kind,
                             .flags = ACTIVITY_FLAG_HOST,
                             .stream = ACTIVITY_NONE,
                             .thread = thread,
                             .name = calls[i].begin == 10 ? outer : inner,
                             .place = (uint32_t)calls[i].range,
                             .host_begin_ns = calls[i].begin,
                             .host_end_ns = calls[i].end};

        assert_true(activity_log_add(log, &a));
    }
    assert_true(activity_log_finish(log, error));
    assert_int_equal(log->start_ns, 5);
    assert_int_equal(log->span_ns, 105);
    for (size_t i = 0; i < log->count; i++)
        assert_int_equal(log->list[i].range, log->list[i].place == 0   ? ACTIVITY_NONE
                                             : log->list[i].place == 1 ? outer
                                                                       : inner);
    activity_log_destroy(log);
}

/* Cut to a range, work whose call was before the range comes where the work begins. A range without times of the
 * host, which only a damaged file has, does not count. */
static void a_cut_log_is_in_order(void **state)
{
    struct activity_log *log = activity_log_create();
    uint32_t device = activity_log_device(log, 0, "gpu:0"), stream = activity_log_stream(log, device, 0);
    uint32_t thread = activity_log_thread(log, 1), step = activity_log_name(log, "step");
    const struct activity list[] = {{.kind = ACTIVITY_KERNEL,
                                     .flags = ACTIVITY_FLAG_HOST | ACTIVITY_FLAG_DEVICE,
                                     .host_begin_ns = 10,
                                     .host_end_ns = 20,
                                     .device_begin_ns = 180,
                                     .device_end_ns = 190,
                                     .stream = stream,
                                     .thread = thread,
                                     .name = ACTIVITY_NONE},
                                    {.kind = ACTIVITY_RANGE,
                                     .flags = ACTIVITY_FLAG_HOST,
                                     .host_begin_ns = 100,
                                     .host_end_ns = 200,
                                     .stream = ACTIVITY_NONE,
                                     .thread = thread,
                                     .name = step},
                                    {.kind = ACTIVITY_RANGE,
                                     .flags = ACTIVITY_FLAG_DEVICE,
                                     .host_end_ns = 9000,
                                     .device_begin_ns = 120,
                                     .device_end_ns = 130,
                                     .stream = stream,
                                     .thread = thread,
                                     .name = step},
                                    {.kind = ACTIVITY_OTHER,
                                     .flags = ACTIVITY_FLAG_HOST,
                                     .host_begin_ns = 150,
                                     .host_end_ns = 160,
                                     .stream = ACTIVITY_NONE,
                                     .thread = thread,
                                     .name = ACTIVITY_NONE}};
    char error[ACTIVITY_ERROR_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        assert_true(activity_log_add(log, &list[i]));
    assert_true(activity_log_finish(log, error));
    assert_true(activity_log_cut(log, "step", error));
    assert_int_equal(log->span_ns, 100);
    assert_int_equal(log->count, 4);
    for (size_t i = 1; i < log->count; i++)
        assert_true(activity_begin_ns(&log->list[i - 1]) <= activity_begin_ns(&log->list[i]));
    assert_int_equal(log->list[3].kind, ACTIVITY_KERNEL);
    activity_log_destroy(log);
}

static void times_that_run_backwards_are_moments(void **state)
{
    struct activity_log *log = activity_log_create();
    struct activity a = {.flags = ACTIVITY_FLAG_HOST | ACTIVITY_FLAG_DEVICE,
                         .host_begin_ns = 50,
                         .host_end_ns = 40,
                         .device_begin_ns = 60,
                         .device_end_ns = 10};
    char error[ACTIVITY_ERROR_MAX];

    (void)state;
    assert_false(activity_log_finish(log, error));
    assert_true(activity_log_add(log, &a));
    assert_true(activity_log_finish(log, error));
    assert_int_equal(log->backward, 2);
    assert_int_equal(log->span_ns, 10);
    assert_int_equal(log->list[0].device_end_ns, 10);
    activity_log_destroy(log);
}

/* 3000 copies of the most bytes have more than UINT64_MAX together. */
static void sums_of_bytes_have_a_limit(void **state)
{
    struct activity_log *log = activity_log_create();
    struct activity a = {.kind = ACTIVITY_COPY,
                         .flags = ACTIVITY_FLAG_DEVICE,
                         .thread = ACTIVITY_NONE,
                         .name = ACTIVITY_NONE,
                         .place = ACTIVITY_NONE,
                         .bytes = UINT64_MAX};
    struct activity_breakdown *breakdown;
    char error[ACTIVITY_ERROR_MAX];

    (void)state;
    assert_non_null(log);
    assert_int_equal(activity_log_stream(log, activity_log_device(log, 0, "gpu:0"), 0), 0);
    for (uint64_t i = 0; i < 3000; i++) {
        a.device_begin_ns = 1000 + 10 * i;
        a.device_end_ns = a.device_begin_ns + 5;
        assert_true(activity_log_add(log, &a));
    }
    assert_true(activity_log_finish(log, error));
    breakdown = activity_breakdown_make(log);
    assert_non_null(breakdown);
    assert_true(breakdown->all.copy_bytes == INT64_MAX);
    activity_breakdown_destroy(breakdown);
    activity_log_destroy(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_equal_a_reference),    cmocka_unit_test(no_intervals_are_idle),
        cmocka_unit_test(runs_equal_a_reference),     cmocka_unit_test(ranges_enclose_calls),
        cmocka_unit_test(a_cut_log_is_in_order),      cmocka_unit_test(times_that_run_backwards_are_moments),
        cmocka_unit_test(sums_of_bytes_have_a_limit),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
