/*
 * unit_activity_advice.c - tests the rules of "leat trace": for each rule a made run in which it alone fires, with
 * the saving that its definition gives, and a healthy run with the same work in which all rules are silent.
 */
#include "../../cli/activity.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

enum { CALL_NS = 2000, START_NS = 1000, PAGEABLE = ACTIVITY_MEMORY_PAGEABLE, PINNED = ACTIVITY_MEMORY_PINNED };
enum { DEVICE = ACTIVITY_MEMORY_DEVICE, MIB = 1 << 20 };

/* A run in the making: one thread, one device with streams that each do one thing after the other. */
struct made {
    struct activity_log *log;
    uint64_t now;           /* of the host */
    uint64_t busy_until[3]; /* of each stream */
    struct activity_breakdown *breakdown;
    struct activity_advice advice[ACTIVITY_ADVICE_MAX];
    int count;
};

static void begin(struct made *made)
{
    uint32_t device;

    *made = (struct made){.log = activity_log_create(), .now = 1000};
    assert_non_null(made->log);
    device = activity_log_device(made->log, 0, "gpu:0");
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(activity_log_stream(made->log, device, i), i);
    assert_int_equal(activity_log_thread(made->log, 1), 0);
}

static struct activity blank(enum activity_kind kind)
{
    return (struct activity){.kind = (uint8_t)kind,
                             .thread = 0,
                             .stream = 0,
                             .name = ACTIVITY_NONE,
                             .place = ACTIVITY_NONE,
                             .pieces = 1};
}

/* A call of the host that takes this long and has no work. */
static void call(struct made *made, struct activity a, uint64_t host_ns)
{
    a.flags |= ACTIVITY_FLAG_HOST;
    a.host_begin_ns = made->now;
    a.host_end_ns = made->now += host_ns;
    assert_true(activity_log_add(made->log, &a));
}

/* Work that begins START_NS after its call, or behind the work before it on its stream. */
static void work(struct made *made, struct activity a, uint64_t device_ns)
{
    uint64_t *until = &made->busy_until[a.stream];

    a.flags |= ACTIVITY_FLAG_HOST | ACTIVITY_FLAG_DEVICE;
    a.host_begin_ns = made->now;
    a.host_end_ns = made->now += CALL_NS;
    a.device_begin_ns = a.host_end_ns + START_NS;
    if (a.device_begin_ns < *until)
        a.device_begin_ns = *until;
    a.device_end_ns = *until = a.device_begin_ns + device_ns;
    if (a.flags & ACTIVITY_FLAG_BLOCKS)
        a.host_end_ns = made->now = a.device_end_ns;
    assert_true(activity_log_add(made->log, &a));
}

static void copy(struct made *made, uint32_t stream, int from, int to, uint64_t bytes, uint64_t gb_s, int flags)
{
    struct activity a = blank(ACTIVITY_COPY);

    a.from_memory = (uint8_t)from;
    a.to_memory = (uint8_t)to;
    a.bytes = bytes;
    a.stream = stream;
    a.flags = (uint8_t)flags;
    work(made, a, bytes / gb_s);
}

static void kernel(struct made *made, uint32_t stream, uint64_t ns)
{
    struct activity a = blank(ACTIVITY_KERNEL);

    a.stream = stream;
    work(made, a, ns);
}

/* The host waits until all streams are done. */
static void wait_for_all(struct made *made)
{
    uint64_t until = made->now + 500;

    for (int i = 0; i < 3; i++)
        until = made->busy_until[i] > until ? made->busy_until[i] : until;
    call(made, blank(ACTIVITY_HOST_WAIT), until - made->now);
}

static void advise(struct made *made, double rate_gb_s)
{
    char error[ACTIVITY_ERROR_MAX];

    assert_true(activity_log_finish(made->log, error));
    made->breakdown = activity_breakdown_make(made->log);
    assert_non_null(made->breakdown);
    made->count = activity_advise(made->log, made->breakdown, rate_gb_s, made->advice);
    for (int i = 0; i < made->count; i++)
        printf("    %s saves %llu of %llu ns: %s %s %s\n", made->advice[i].rule,
               (unsigned long long)made->advice[i].saving_ns, (unsigned long long)made->log->span_ns,
               made->advice[i].evidence, made->advice[i].change, made->advice[i].basis);
}

static void end(struct made *made)
{
    activity_breakdown_destroy(made->breakdown);
    activity_log_destroy(made->log);
}

/* Exactly this rule must fire, with a saving from least to most. */
static void fires(struct made *made, const char *rule, uint64_t least, uint64_t most)
{
    advise(made, 0);
    assert_int_equal(made->count, 1);
    assert_string_equal(made->advice[0].rule, rule);
    assert_in_range(made->advice[0].saving_ns, least, most);
    assert_true(made->advice[0].place[0] && made->advice[0].evidence[0] && made->advice[0].change[0] &&
                made->advice[0].basis[0]);
    end(made);
}

static void is_silent(struct made *made)
{
    advise(made, 0);
    assert_int_equal(made->count, 0);
    end(made);
}

/* ---- copies ---- */

/* 128 copies of 16 KiB that take 10 us each; their sources are distance bytes apart, or far apart for 0. */
static void many_copies(struct made *made, uint64_t distance, uint32_t pieces)
{
    struct activity a = blank(ACTIVITY_COPY);

    begin(made);
    copy(made, 0, PINNED, DEVICE, 4 * MIB, 50, 0);
    a.from_memory = PINNED;
    a.to_memory = DEVICE;
    a.bytes = 16 << 10;
    a.pieces = pieces;
    for (uint64_t i = 0; i < 128; i++) {
        a.address = 0x7f0000000000 + (distance ? i * distance : i * i * 100000);
        work(made, a, 10000);
    }
}

/* The copies take 1280 us; at 50 GB/s 41.9 us. */
static void copies_of_columns_become_one(void **state)
{
    struct made made;

    (void)state;
    many_copies(&made, 4, 4096);
    fires(&made, "copies-transpose", 1238000, 1238500);
    many_copies(&made, UINT64_C(1) << 63, 1); /* the farthest that a damaged file can have them apart */
    fires(&made, "copies-transpose", 1238000, 1238500);
    begin(&made); /* repaired: one copy */
    copy(&made, 0, PINNED, DEVICE, 6 * MIB, 50, 0);
    is_silent(&made);
}

static void small_copies_become_a_batch(void **state)
{
    struct made made;

    (void)state;
    many_copies(&made, 0, 1);
    fires(&made, "small-copies", 1238000, 1238500);
    many_copies(&made, 16 << 10, 1); /* neighbours in memory are no transpose */
    advise(&made, 0);
    assert_int_equal(made.count, 1);
    assert_string_equal(made.advice[0].rule, "small-copies");
    assert_non_null(strstr(made.advice[0].change, "one copy"));
    end(&made);
}

/* Of the 10 us of each copy, which is as long as its call, the recorder took 4. */
static void recording_is_no_saving(void **state)
{
    struct activity a = blank(ACTIVITY_COPY);
    struct made made;

    (void)state;
    begin(&made);
    made.log->devices[0].recording_ns = 4000;
    copy(&made, 0, PINNED, DEVICE, 4 * MIB, 50, 0);
    a.from_memory = PINNED;
    a.to_memory = DEVICE;
    a.bytes = 16 << 10;
    wait_for_all(&made);
    for (int i = 0; i < 128; i++) {
        work(&made, a, 5000);
        made.now += 8000;
    }
    fires(&made, "small-copies", 128 * 6000 - 42000, 128 * 6000 - 41900);
}

static void small_copies_without_a_rate_save_their_gaps(void **state)
{
    struct activity a = blank(ACTIVITY_COPY);
    struct made made;

    (void)state;
    begin(&made);
    a.from_memory = a.to_memory = DEVICE;
    a.bytes = 4096;
    for (int i = 0; i < 100; i++)
        work(&made, a, 500); /* a call takes 2 us, so 1.5 us are idle, 99 times */
    fires(&made, "small-copies", 148500, 148500);
}

/* At the rate each copy takes less than a nanosecond. */
static void tiny_copies_know_their_rate(void **state)
{
    struct activity a = blank(ACTIVITY_COPY);
    struct made made;

    (void)state;
    begin(&made);
    a.from_memory = PINNED;
    a.to_memory = DEVICE;
    copy(&made, 0, PINNED, DEVICE, 4 * MIB, 50, 0);
    a.bytes = 1;
    for (int i = 0; i < 16; i++)
        work(&made, a, 10000);
    advise(&made, 0);
    assert_int_equal(made.count, 1);
    assert_non_null(strstr(made.advice[0].basis, "Counts on"));
    assert_in_range(made.advice[0].saving_ns, 160000, 160000);
    end(&made);
}

static void small_copies_behind_a_wait_are_a_run(void **state)
{
    struct activity a = blank(ACTIVITY_COPY), wait = blank(ACTIVITY_STREAM_WAIT);
    struct made made;

    (void)state;
    begin(&made);
    copy(&made, 0, PINNED, DEVICE, 4 * MIB, 50, 0);
    a.from_memory = PINNED;
    a.to_memory = DEVICE;
    a.bytes = 16 << 10;
    work(&made, wait, 100);
    for (int i = 0; i < 16; i++)
        work(&made, a, 10000);
    work(&made, wait, 100);
    fires(&made, "small-copies", 154000, 155000);
}

/* The range begins in the middle of the second copy. */
static void rates_do_not_change_by_a_range(void **state)
{
    struct activity range = blank(ACTIVITY_RANGE);
    struct activity_share *share;
    char error[ACTIVITY_ERROR_MAX];
    struct made made;

    (void)state;
    begin(&made);
    copy(&made, 0, PINNED, DEVICE, 100000000, 50, 0); /* 2 ms */
    range.flags = ACTIVITY_FLAG_HOST;
    range.name = activity_log_name(made.log, "step");
    range.host_begin_ns = made.busy_until[0] - 1000000;
    range.host_end_ns = made.busy_until[0] + 1000000;
    assert_true(activity_log_add(made.log, &range));
    assert_true(activity_log_finish(made.log, error));
    assert_true(activity_log_cut(made.log, "step", error));
    made.breakdown = activity_breakdown_make(made.log);
    share = &made.breakdown->devices[0];
    assert_int_equal(share->copy_busy_ns, 1000000);
    assert_in_range(share->copy_bytes, 49999999, 50000001);
    end(&made);
}

static void two_rates_have_a_median_between_them(void **state)
{
    struct made made;

    (void)state;
    begin(&made);
    copy(&made, 0, PINNED, DEVICE, 4 * MIB, 50, 0);
    copy(&made, 0, PINNED, DEVICE, 4 * MIB, 10, 0);
    for (int i = 0; i < 20; i++)
        copy(&made, 0, PAGEABLE, DEVICE, MIB, 2, 0);
    advise(&made, 0);
    assert_int_equal(made.count, 1);
    assert_non_null(strstr(made.advice[0].basis, "30.0"));
    end(&made);
}

static void few_small_copies_are_fine(void **state)
{
    struct made made;

    (void)state;
    begin(&made);
    copy(&made, 0, PINNED, DEVICE, 64 * MIB, 50, 0);
    for (int i = 0; i < 12; i++)
        copy(&made, 0, PINNED, DEVICE, 4096, 1, 0);
    is_silent(&made);
}

static void pageable_run(struct made *made, uint64_t gb_s, bool reference)
{
    begin(made);
    if (reference)
        copy(made, 0, PINNED, DEVICE, 4 * MIB, 50, 0);
    for (int i = 0; i < 20; i++)
        copy(made, 0, PAGEABLE, DEVICE, MIB, gb_s, 0);
}

/* A copy of 1 MiB takes 209.7 us at 5 GB/s and 21.0 us at 50. */
static void slow_pageable_copies_are_told(void **state)
{
    struct made made;

    (void)state;
    pageable_run(&made, 5, true);
    fires(&made, "pageable-copies", 20 * 188700, 20 * 188800);
    pageable_run(&made, 45, true); /* as fast as leat's copies of pageable memory */
    is_silent(&made);
    pageable_run(&made, 5, false); /* nothing tells what the link can do */
    is_silent(&made);
    pageable_run(&made, 5, false);
    advise(&made, 50);
    assert_int_equal(made.count, 1);
    assert_in_range(made.advice[0].saving_ns, 20 * 188700, 20 * 188800);
    assert_non_null(strstr(made.advice[0].basis, "--rate"));
    end(&made);
}

static void blocking_run(struct made *made, int flags)
{
    begin(made);
    for (int i = 0; i < 10; i++) {
        copy(made, 0, PINNED, DEVICE, MIB, 50, flags);
        kernel(made, 0, 2000);
    }
}

/* After each copy the device waits for the next call and the start of the kernel. */
static void blocking_copies_leave_gaps(void **state)
{
    struct made made;

    (void)state;
    blocking_run(&made, ACTIVITY_FLAG_BLOCKS);
    advise(&made, 0);
    assert_true(made.count >= 1);
    for (int i = 0; i < made.count; i++)
        if (!strcmp(made.advice[i].rule, "blocking-copies"))
            assert_int_equal(made.advice[i].saving_ns, 10 * (CALL_NS + START_NS));
        else
            assert_string_equal(made.advice[i].rule, "no-overlap");
    end(&made);
    blocking_run(&made, 0);
    advise(&made, 0);
    for (int i = 0; i < made.count; i++)
        assert_string_not_equal(made.advice[i].rule, "blocking-copies");
    end(&made);
}

/* 20 times a copy of 100 us and a kernel of 80 us; copies have their own stream, or not. */
static void turns(struct made *made, bool own_stream)
{
    begin(made);
    for (int i = 0; i < 20; i++) {
        uint32_t stream = own_stream ? 1 : 0;

        copy(made, stream, PINNED, DEVICE, 5000000, 50, 0);
        if (own_stream && made->busy_until[0] < made->busy_until[1])
            made->busy_until[0] = made->busy_until[1]; /* the kernel waits for its copy */
        kernel(made, 0, 80000);
    }
}

static void copies_and_kernels_in_turns_can_overlap(void **state)
{
    struct made made;

    (void)state;
    turns(&made, false);
    fires(&made, "no-overlap", 19 * 80000, 19 * 80000);
    turns(&made, true);
    is_silent(&made);
}

/* ---- the host ---- */

static void alloc_run(struct made *made, int memory, uint64_t host_ns)
{
    struct activity alloc = blank(ACTIVITY_ALLOC), freed = blank(ACTIVITY_FREE);

    alloc.to_memory = freed.to_memory = (uint8_t)memory;
    alloc.bytes = MIB;
    begin(made);
    for (int i = 0; i < 40; i++) {
        call(made, alloc, host_ns);
        kernel(made, 0, 10000);
        call(made, freed, host_ns);
    }
    kernel(made, 0, 10000);
}

static void allocations_in_a_loop_cost_idle_time(void **state)
{
    struct made made;

    (void)state;
    alloc_run(&made, DEVICE, 50000);
    /* 39 allocations are between the work, and most of these and of the frees leaves the device idle. */
    fires(&made, "alloc-in-loop", 39 * 80000, 40 * 100000);
    alloc_run(&made, DEVICE, 100); /* a pool */
    is_silent(&made);
    alloc_run(&made, PINNED, 50000);
    fires(&made, "pinned-in-loop", 39 * 80000, 40 * 100000);
    alloc_run(&made, PINNED, 100);
    is_silent(&made);
}

/* Two threads do the same at the same time. */
static void idle_time_of_two_threads_counts_once(void **state)
{
    struct activity twin[2] = {blank(ACTIVITY_ALLOC), blank(ACTIVITY_HOST_WAIT)};
    struct made made;

    (void)state;
    for (int wait = 0; wait < 2; wait++) {
        begin(&made);
        assert_int_equal(activity_log_thread(made.log, 2), 1);
        twin[wait].to_memory = wait ? 0 : DEVICE;
        for (int i = 0; i < 20; i++) {
            uint64_t start;

            kernel(&made, 0, 1000);
            start = made.now += START_NS + 1000; /* the kernel is over */
            for (uint32_t thread = 0; thread < 2; thread++) {
                made.now = start;
                twin[wait].thread = thread;
                call(&made, twin[wait], 50000);
            }
            for (uint32_t stream = 1; wait && stream < 2; stream++) {
                struct activity a = blank(ACTIVITY_KERNEL);

                a.thread = 1;
                a.stream = stream;
                work(&made, a, 100);
            }
        }
        kernel(&made, 0, 1000);
        fires(&made, wait ? "needless-sync" : "alloc-in-loop", 19 * 40000, 20 * 54000);
    }
}

/* Kernels before each of which pages move to the device, because of faults or because a call asks for it, and one
 * large copy, which tells the rate. */
static void managed_run(struct made *made, int flags, uint64_t gb_s, unsigned moves)
{
    begin(made);
    copy(made, 0, PINNED, DEVICE, 64 * MIB, 20, 0);
    for (unsigned i = 0; i < moves; i++) {
        struct activity a = blank(ACTIVITY_PAGE_MOVE);

        a.bytes = 2 * MIB;
        a.from_memory = ACTIVITY_MEMORY_MANAGED;
        a.to_memory = DEVICE;
        a.flags = (uint8_t)flags;
        work(made, a, a.bytes / gb_s);
        kernel(made, 0, 1000000);
    }
    wait_for_all(made);
}

static void managed_faults(void **state)
{
    struct made made;

    (void)state;
    /* 40 times 2 MiB at 2 GB/s instead of 20. */
    managed_run(&made, ACTIVITY_FLAG_FAULT, 2, 40);
    fires(&made, "managed-faults", 40 * (2 * MIB / 2 - 2 * MIB / 20 - 100),
          40 * (2 * MIB / 2 - 2 * MIB / 20 + 100));
    managed_run(&made, 0, 2, 40); /* a call has asked for it */
    is_silent(&made);
    managed_run(&made, ACTIVITY_FLAG_FAULT, 20, 40);
    is_silent(&made);
    managed_run(&made, ACTIVITY_FLAG_FAULT, 2, 15);
    is_silent(&made);
}

static void wait_run(struct made *made, bool waits, bool reads)
{
    begin(made);
    for (int i = 0; i < 40; i++) {
        kernel(made, 0, 20000);
        if (reads)
            copy(made, 0, DEVICE, PINNED, 4096, 1, 0);
        if (waits)
            wait_for_all(made);
    }
    if (!waits)
        wait_for_all(made);
}

static void waits_between_kernels_are_needless(void **state)
{
    struct made made;

    (void)state;
    wait_run(&made, true, false);
    /* The first wait is behind unknown work, and nothing follows the last: 38 gaps of a call and a start. */
    fires(&made, "needless-sync", 38 * (CALL_NS + START_NS), 38 * (CALL_NS + START_NS));
    wait_run(&made, false, false);
    is_silent(&made);
    wait_run(&made, true, true); /* the host reads a result each time */
    is_silent(&made);
}

/* The host waits for one stream, as the call with this name does. */
static void wait_for(struct made *made, uint32_t stream, const char *call_name)
{
    struct activity a = blank(ACTIVITY_HOST_WAIT);
    uint64_t until = made->now + 500;

    a.stream = stream;
    a.name = activity_log_name(made->log, call_name);
    for (uint32_t i = 0; i < 3; i++)
        if ((stream == i || stream == ACTIVITY_NONE) && made->busy_until[i] > until)
            until = made->busy_until[i];
    call(made, a, until - made->now);
}

/* Results come in two streams. */
static void two_copies_run(struct made *made, const uint32_t waits[2], const char *call_name)
{
    begin(made);
    for (int i = 0; i < 12; i++) {
        copy(made, 1, DEVICE, PINNED, 4096, 4, 0);
        copy(made, 2, DEVICE, PINNED, 4096, 4, 0);
        wait_for(made, waits[0], call_name);
        wait_for(made, waits[1], call_name);
        kernel(made, 1, 1000);
    }
}

static void count_rule(struct made *made, const char *rule, int count)
{
    int found = 0;

    advise(made, 0);
    for (int i = 0; i < made->count; i++)
        found += !strcmp(made->advice[i].rule, rule);
    assert_int_equal(found, count);
    end(made);
}

static void waits_for_copies_of_two_streams_are_needed(void **state)
{
    static const uint32_t both[2] = {1, 2}, same[2] = {1, 1}, unknown[2] = {ACTIVITY_NONE, ACTIVITY_NONE};
    struct made made;

    (void)state;
    two_copies_run(&made, both, "leat_stream_synchronize");
    count_rule(&made, "needless-sync", 0);
    two_copies_run(&made, unknown, "cudaStreamSynchronize");
    count_rule(&made, "needless-sync", 0);
    two_copies_run(&made, same, "leat_stream_synchronize"); /* stream 2 is never waited for */
    count_rule(&made, "needless-sync", 0);
    two_copies_run(&made, unknown, "cudaDeviceSynchronize"); /* the first waits for all */
    count_rule(&made, "needless-sync", 1);
}

static void waits_for_the_device_are_for_all_its_streams(void **state)
{
    static const uint32_t device[2] = {0, 0};
    struct made made;

    (void)state;
    two_copies_run(&made, device, "leat_device_synchronize");
    count_rule(&made, "needless-sync", 1);
    two_copies_run(&made, device, "leat_event_synchronize"); /* stream 0: of calls without a stream */
    count_rule(&made, "needless-sync", 0);
}

static void waits_of_programs_with_managed_memory_are_needed(void **state)
{
    enum activity_kind kinds[] = {ACTIVITY_ALLOC, ACTIVITY_COPY, ACTIVITY_PAGE_MOVE};
    struct activity function = blank(ACTIVITY_HOST_FUNCTION);
    struct made made;

    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct activity a = blank(kinds[kind]);

        a.to_memory = ACTIVITY_MEMORY_MANAGED;
        begin(&made);
        call(&made, a, 100);
        for (int i = 0; i < 40; i++) {
            kernel(&made, 0, 20000);
            wait_for_all(&made);
        }
        is_silent(&made);
    }
    function.stream = ACTIVITY_NONE; /* as in traces of Kineto */
    begin(&made);
    for (int i = 0; i < 40; i++) {
        kernel(&made, 0, 20000);
        call(&made, function, 100);
        wait_for_all(&made);
    }
    is_silent(&made);
}

static void launch_run(struct made *made, uint64_t kernel_ns)
{
    begin(made);
    for (int i = 0; i < 300; i++)
        kernel(made, 0, kernel_ns);
}

static void short_kernels_are_bound_by_launches(void **state)
{
    struct made made;

    (void)state;
    launch_run(&made, 500); /* every 2 us a kernel of 0.5 us */
    fires(&made, "launch-bound", 298 * 1500, 299 * 1500);
    launch_run(&made, 20000);
    is_silent(&made);
}

static void an_empty_run_has_no_advice(void **state)
{
    struct made made;

    (void)state;
    begin(&made);
    call(&made, blank(ACTIVITY_OTHER), 0);
    is_silent(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(managed_faults),
        cmocka_unit_test(copies_of_columns_become_one),
        cmocka_unit_test(small_copies_become_a_batch),
        cmocka_unit_test(recording_is_no_saving),
        cmocka_unit_test(small_copies_without_a_rate_save_their_gaps),
        cmocka_unit_test(tiny_copies_know_their_rate),
        cmocka_unit_test(small_copies_behind_a_wait_are_a_run),
        cmocka_unit_test(rates_do_not_change_by_a_range),
        cmocka_unit_test(two_rates_have_a_median_between_them),
        cmocka_unit_test(few_small_copies_are_fine),
        cmocka_unit_test(slow_pageable_copies_are_told),
        cmocka_unit_test(blocking_copies_leave_gaps),
        cmocka_unit_test(copies_and_kernels_in_turns_can_overlap),
        cmocka_unit_test(allocations_in_a_loop_cost_idle_time),
        cmocka_unit_test(idle_time_of_two_threads_counts_once),
        cmocka_unit_test(waits_between_kernels_are_needless),
        cmocka_unit_test(waits_for_copies_of_two_streams_are_needed),
        cmocka_unit_test(waits_for_the_device_are_for_all_its_streams),
        cmocka_unit_test(waits_of_programs_with_managed_memory_are_needed),
        cmocka_unit_test(short_kernels_are_bound_by_launches),
        cmocka_unit_test(an_empty_run_has_no_advice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
