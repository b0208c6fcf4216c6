/*
 * activity_rules_copy.c - the rules of "leat trace" about copies. docs/trace.md says when each of them fires.
 */
#include "activity_advice.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    SMALL_BYTES_MAX = 64 << 10, /* above, a call costs less than its bytes */
    RUN_MIN = 16,               /* copies in a row that are a loop */
    ALTERNATIONS_MIN = 4,
    BLOCKING_MIN = 4,
    FAULTS_MIN = 16
};

/* ---- runs of small copies ---- */

/* Small copies of one direction that follow each other on a stream. */
struct run {
    const struct activity *first, *last;
    size_t count;
    uint64_t bytes;
    int64_t stride; /* distance of the sources of neighbours; 0: it changes, or is unknown */
    bool one_size, strided;
};

static bool is_small(const struct activity *a)
{
    return a->kind == ACTIVITY_COPY && a->bytes > 0 && a->bytes <= SMALL_BYTES_MAX &&
           !(a->flags & (ACTIVITY_FLAG_FAILED | ACTIVITY_FLAG_CUT));
}

/* Returns true if a run may go over this work of its stream, which moves no bytes. */
static bool is_passed_over(const struct activity *a)
{
    return a->kind == ACTIVITY_STREAM_WAIT || a->kind == ACTIVITY_OTHER;
}

static bool is_of_run(const struct activity *a, const struct activity *first)
{
    return is_small(a) && advice_direction_of(a) == advice_direction_of(first);
}

/* Returns true if a follows last in a pattern of equal copies with sources this far apart. */
static bool follows(const struct activity *a, const struct activity *last, int64_t stride)
{
    return a->bytes == last->bytes && a->pieces == last->pieces && a->address && last->address &&
           (int64_t)(a->address - last->address) == stride;
}

/* Returns true if copies of this pattern are those of a transpose: their sources are equally far apart, and not
 * one behind the other. */
static bool is_strided(const struct activity *first, int64_t stride)
{
    uint64_t distance = stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride; /* a damaged file may have any */

    return stride != 0 && (first->pieces > 1 || distance != first->bytes);
}

/* Returns true if RUN_MIN copies with the pattern of a transpose begin at this index. */
static bool begins_strided(const struct advice_scene *scene, size_t at, size_t end)
{
    const struct activity *first = scene->by_stream[at], *last = first;
    int64_t stride = 0;
    size_t count = 1;

    if (!is_small(first))
        return false;
    for (at++; at < end && count < RUN_MIN; at++) {
        const struct activity *a = scene->by_stream[at];

        if (is_passed_over(a))
            continue;
        if (count == 1)
            stride = (int64_t)(a->address - first->address);
        if (!is_of_run(a, first) || !follows(a, last, stride))
            return false;
        last = a;
        count++;
    }
    return count == RUN_MIN && is_strided(first, stride);
}

static void add_to_run(struct run *run, const struct activity *a)
{
    int64_t stride = (int64_t)(a->address - run->last->address);

    if (run->count == 1)
        run->stride = a->address && run->first->address ? stride : 0;
    else if (run->count > 1 && stride != run->stride)
        run->stride = 0;
    run->one_size = run->one_size && a->bytes == run->first->bytes && a->pieces == run->first->pieces;
    run->count++;
    activity_add_bytes(&run->bytes, a->bytes);
    run->last = a;
}

/* Takes the run of small copies that begins at index *at of the stream's work, and moves *at behind it. A run with
 * the pattern of a transpose ends where the pattern does, and another one where such a pattern begins. */
static void take_run(const struct advice_scene *scene, size_t *at, size_t end, struct run *run)
{
    const struct activity *first;

    while (*at + 1 < end && is_passed_over(scene->by_stream[*at]))
        ++*at;
    first = scene->by_stream[*at];
    *run =
        (struct run){.first = first, .last = first, .one_size = true, .strided = begins_strided(scene, *at, end)};
    for (; *at < end; ++*at) {
        const struct activity *a = scene->by_stream[*at];

        if (is_passed_over(a))
            continue;
        if (!is_of_run(a, first))
            break;
        if (run->strided ? run->count > 1 && !follows(a, run->last, run->stride)
                         : run->count > 0 && begins_strided(scene, *at, end))
            break;
        add_to_run(run, a);
    }
    if (run->count == 0 && *at < end)
        ++*at;
}

/* Returns the median time from one call of a run to the next. at: index of its first copy. */
static uint64_t usual_period(const struct advice_scene *scene, const struct run *run, size_t at)
{
    uint64_t *periods = calloc(run->count, sizeof *periods), median;
    const struct activity *before = run->first;
    size_t count = 0;

    if (!periods)
        return 0;
    for (; before != run->last; at++) {
        const struct activity *a = scene->by_stream[at];

        if (is_passed_over(a) || a == before)
            continue;
        periods[count++] = a->host_begin_ns > before->host_begin_ns ? a->host_begin_ns - before->host_begin_ns : 0;
        before = a;
    }
    qsort(periods, count, sizeof *periods, advice_compare);
    median = count ? periods[count / 2] : 0;
    free(periods);
    return median;
}

/* Returns how long a run would have taken without the recorder. If the device waits for the calls of the host, as
 * it does between small copies, the recorder makes each of them longer. Besides, its thread holds up some of them.
 */
static uint64_t unrecorded_ns(const struct advice_scene *scene, const struct run *run, size_t at, uint64_t wall_ns)
{
    const struct activity *first = run->first, *last = run->last;
    uint32_t device = activity_device(scene->log, first);
    uint64_t recording = device < scene->log->device_count ? scene->log->devices[device].recording_ns : 0, period;

    if (!recording || !(first->flags & last->flags & ACTIVITY_FLAG_HOST) ||
        last->host_end_ns < first->host_begin_ns ||
        (double)(last->host_end_ns - first->host_begin_ns) < 0.75 * (double)wall_ns)
        return wall_ns;
    period = usual_period(scene, run, at);
    period = period > recording ? period - recording : 0;
    return period * run->count < wall_ns ? period * run->count : wall_ns;
}

/* What all runs of a kind have together. */
struct runs {
    uint64_t saving_ns, count, bytes, wall_ns, recording_ns;
    struct run longest;
    bool rate_known;
};

static void find_runs(const struct advice_scene *scene, bool strided, struct runs *runs)
{
    size_t stream, at;

    *runs = (struct runs){.rate_known = true};
    for (stream = 0; stream < scene->log->stream_count; stream++) {
        for (at = scene->stream_begins[stream]; at < scene->stream_begins[stream + 1];) {
            struct run run;
            uint64_t wall, least, unrecorded;
            enum advice_direction direction;
            size_t begin = at;

            take_run(scene, &at, scene->stream_begins[stream + 1], &run);
            if (run.count < RUN_MIN || run.strided != strided)
                continue;
            direction = advice_direction_of(run.first);
            wall = run.last->device_end_ns - run.first->device_begin_ns;
            least = advice_time_ns(scene, direction, run.bytes);
            if (scene->rate_gb_s[direction] <= 0) {
                /* Without a rate only the gaps between the copies are sure to go. */
                runs->rate_known = false;
                least = cover_within(&scene->busy, run.first->device_begin_ns, run.last->device_end_ns);
            }
            unrecorded = unrecorded_ns(scene, &run, begin, wall);
            runs->saving_ns += unrecorded > least ? unrecorded - least : 0;
            runs->recording_ns += wall - unrecorded;
            runs->count += run.count;
            activity_add_bytes(&runs->bytes, run.bytes);
            runs->wall_ns += wall;
            if (run.count > runs->longest.count)
                runs->longest = run;
        }
    }
}

static void describe_runs(const struct advice_scene *scene, const struct runs *runs,
                          struct activity_advice *advice)
{
    char bytes[TEXT_MAX], each[TEXT_MAX], figure[TEXT_MAX], wall[32], rate[96], time[32], recording[64] = "";

    advice->saving_ns = runs->saving_ns;
    advice->count = runs->count;
    activity_place(scene->log, runs->longest.first, advice->place);
    snprintf(advice->evidence, ACTIVITY_TEXT_MAX,
             "%" PRIu64 " copies in a row, the first of %s, %s together, take %s: %s GB/s.", runs->count,
             text_bytes(each, runs->longest.first->bytes), text_bytes(bytes, runs->bytes),
             activity_duration(wall, runs->wall_ns),
             text_figure(figure, runs->wall_ns ? (double)runs->bytes / (double)runs->wall_ns : 0));
    if (runs->recording_ns)
        snprintf(recording, sizeof recording, " Without the recording they would take %s less.",
                 activity_duration(time, runs->recording_ns));
    if (runs->rate_known)
        snprintf(advice->basis, ACTIVITY_TEXT_MAX, "Counts on %s.%s",
                 advice_rate_text(scene, advice_direction_of(runs->longest.first), rate), recording);
    else
        snprintf(advice->basis, ACTIVITY_TEXT_MAX,
                 "Counts only the gaps between the copies, since no large copy tells a rate.%s", recording);
}

bool advice_strided_copies(const struct advice_scene *scene, struct activity_advice *advice)
{
    struct runs runs;

    find_runs(scene, true, &runs);
    if (!runs.count)
        return false;
    describe_runs(scene, &runs, advice);
    snprintf(advice->change, ACTIVITY_TEXT_MAX,
             "Their sources are %" PRId64 " bytes apart, as the columns of a matrix are: make one copy with two "
             "layouts instead, leat_copy_layout().",
             runs.longest.stride);
    return true;
}

bool advice_small_copies(const struct advice_scene *scene, struct activity_advice *advice)
{
    struct runs runs;

    find_runs(scene, false, &runs);
    if (!runs.count)
        return false;
    describe_runs(scene, &runs, advice);
    snprintf(advice->change, ACTIVITY_TEXT_MAX, "%s",
             runs.longest.one_size && runs.longest.stride == (int64_t)runs.longest.first->bytes
                 ? "They follow each other in memory: make one copy of the whole."
                 : "Make one call of them, leat_copy_batch().");
    return true;
}

/* ---- managed memory ---- */

/* Returns the direction in which pages move because of a fault, or ADVICE_OTHER. */
static enum advice_direction fault_direction(const struct activity *a)
{
    bool from = a->from_memory == ACTIVITY_MEMORY_DEVICE, to = a->to_memory == ACTIVITY_MEMORY_DEVICE;

    if (a->kind != ACTIVITY_PAGE_MOVE || !(a->flags & ACTIVITY_FLAG_FAULT) || from == to)
        return ADVICE_OTHER;
    return to ? ADVICE_TO_DEVICE : ADVICE_FROM_DEVICE;
}

bool advice_managed_faults(const struct advice_scene *scene, struct activity_advice *advice)
{
    uint64_t bytes[ADVICE_DIRECTIONS] = {0}, wall = 0, least = 0, end = 0;
    const struct activity *longest = NULL;
    char size[TEXT_MAX], figure[TEXT_MAX], time[32], rate[96];
    uint32_t device = ACTIVITY_NONE;
    size_t i;

    for (i = 0; i < scene->by_device_count; i++) { /* of each device in the order of time */
        const struct activity *a = scene->by_device[i];
        enum advice_direction direction = fault_direction(a);
        uint64_t begin = a->device_begin_ns;

        if (direction == ADVICE_OTHER || scene->rate_gb_s[direction] <= 0)
            continue;
        end = device == activity_device(scene->log, a) ? end : 0;
        device = activity_device(scene->log, a);
        begin = begin > end ? begin : end;
        wall += a->device_end_ns > begin ? a->device_end_ns - begin : 0;
        end = a->device_end_ns > end ? a->device_end_ns : end;
        activity_add_bytes(&bytes[direction], a->bytes);
        advice->count++;
        if (!longest || a->device_end_ns - a->device_begin_ns > longest->device_end_ns - longest->device_begin_ns)
            longest = a;
    }
    for (i = 0; i < ADVICE_OTHER; i++)
        least += advice_time_ns(scene, (enum advice_direction)i, bytes[i]);
    if (advice->count < FAULTS_MIN || wall <= least)
        return false;
    advice->saving_ns = wall - least;
    activity_place(scene->log, longest, advice->place);
    activity_add_bytes(&bytes[ADVICE_TO_DEVICE], bytes[ADVICE_FROM_DEVICE]);
    snprintf(advice->evidence, ACTIVITY_TEXT_MAX,
             "%" PRIu64
             " times pages of managed memory move although no call asks for it, %s together, in %s: %s GB/s.",
             advice->count, text_bytes(size, bytes[ADVICE_TO_DEVICE]), activity_duration(time, wall),
             text_figure(figure, (double)bytes[ADVICE_TO_DEVICE] / (double)wall));
    snprintf(
        advice->change, ACTIVITY_TEXT_MAX,
        "Move the pages before they are used, leat_managed_prefetch() or cudaMemPrefetchAsync(), or copy between "
        "pinned and device memory.");
    snprintf(advice->basis, ACTIVITY_TEXT_MAX, "Counts on %s: an upper bound, since kernels may run meanwhile.",
             advice_rate_text(scene, fault_direction(longest), rate));
    return true;
}

/* ---- pageable memory ---- */

bool advice_pageable_copies(const struct advice_scene *scene, struct activity_advice *advice)
{
    struct advice_vote vote = {.votes = 0};
    uint64_t bytes = 0, busy = 0;
    char figure[TEXT_MAX], size[TEXT_MAX], rate[96];
    size_t i;

    for (i = 0; i < scene->by_device_count; i++) {
        const struct activity *a = scene->by_device[i];
        enum advice_direction direction = advice_direction_of(a);
        uint64_t length = a->device_end_ns - a->device_begin_ns, least, exposed, saving;
        bool prepares = a->flags & ACTIVITY_FLAG_HOST && a->host_begin_ns < a->device_begin_ns &&
                        a->device_begin_ns < a->host_end_ns;

        if (a->kind != ACTIVITY_COPY || direction > ADVICE_FROM_DEVICE || a->bytes <= SMALL_BYTES_MAX ||
            (a->from_memory != ACTIVITY_MEMORY_PAGEABLE && a->to_memory != ACTIVITY_MEMORY_PAGEABLE))
            continue;
        /* The call may prepare much before the stream reaches the copy. */
        if (prepares)
            length += a->device_begin_ns - a->host_begin_ns -
                      cover_within(&scene->busy, a->host_begin_ns, a->device_begin_ns);
        least = advice_time_ns(scene, direction, a->bytes);
        /* A copy that is nearly as fast as the link gains nothing. */
        if (!least || length < least + least / 4)
            continue;
        /* Under computation the copy costs nothing. */
        exposed = length - cover_within(&scene->compute, a->device_begin_ns, a->device_end_ns);
        saving = length - least < exposed ? length - least : exposed;
        advice->saving_ns += saving;
        advice->count++;
        activity_add_bytes(&bytes, a->bytes);
        busy += length;
        advice_vote(&vote, a);
    }
    if (!vote.usual)
        return false;
    activity_place(scene->log, vote.usual, advice->place);
    snprintf(advice->evidence, ACTIVITY_TEXT_MAX,
             "%" PRIu64 " copies of pageable memory, %s together, at %s GB/s.", advice->count,
             text_bytes(size, bytes), text_figure(figure, busy ? (double)bytes / (double)busy : 0));
    snprintf(
        advice->change, ACTIVITY_TEXT_MAX,
        "Allocate the host memory as LEAT_KIND_PINNED once and reuse it, or copy by leat_copy() (a CUDA program: "
        "start it under leat run).");
    snprintf(advice->basis, ACTIVITY_TEXT_MAX, "Counts on %s.",
             advice_rate_text(scene, advice_direction_of(vote.usual), rate));
    return true;
}

/* ---- blocking copies ---- */

/* Copies for which the host waits although the device's next work could have been submitted at once. */
struct blocking {
    uint64_t gaps_ns;  /* idle time after them */
    uint64_t waits_ns; /* of the host; without the waits the program gains no more than that */
    size_t count;
    struct advice_vote vote;
};

/* Counts a copy of index i in its thread's calls. */
static void count_blocking(const struct advice_scene *scene, size_t i, size_t end, struct blocking *found)
{
    const struct activity *a = scene->by_thread[i], *next, *wait = i + 1 < end ? scene->by_thread[i + 1] : NULL;
    bool blocks = a->flags & ACTIVITY_FLAG_BLOCKS;
    uint64_t gap, waited;

    if (!blocks && (!wait || wait->kind != ACTIVITY_HOST_WAIT || wait->host_begin_ns >= a->device_end_ns ||
                    wait->host_end_ns < a->device_end_ns))
        return;
    next = advice_next_work(scene, activity_device(scene->log, a), a->device_end_ns);
    /* The gap counts only if the call for the next work had to wait for this copy. */
    if (!next || next == a || !(next->flags & ACTIVITY_FLAG_HOST) || next->thread != a->thread ||
        next->host_begin_ns < (blocks ? a : wait)->host_end_ns)
        return;
    /* Before it changes the source for a further copy, the host must wait. */
    if (!blocks && !activity_is_compute(next))
        return;
    gap = advice_gap_ns(scene, a->device_end_ns, next->device_begin_ns);
    waited = blocks ? a->host_end_ns - a->host_begin_ns : wait->host_end_ns - wait->host_begin_ns;
    found->gaps_ns += gap;
    found->waits_ns += waited;
    found->count++;
    advice_vote(&found->vote, a);
}

bool advice_blocking_copies(const struct advice_scene *scene, struct activity_advice *advice)
{
    struct blocking found = {0};
    size_t thread, i;
    char idle[32];

    for (thread = 0; thread < scene->log->thread_count; thread++)
        for (i = scene->thread_begins[thread]; i < scene->thread_begins[thread + 1]; i++) {
            const struct activity *a = scene->by_thread[i];

            if (a->kind == ACTIVITY_COPY && (a->flags & ACTIVITY_FLAG_DEVICE) &&
                advice_direction_of(a) == ADVICE_TO_DEVICE)
                count_blocking(scene, i, scene->thread_begins[thread + 1], &found);
        }
    if (found.count < BLOCKING_MIN)
        return false;
    advice->saving_ns = found.gaps_ns < found.waits_ns ? found.gaps_ns : found.waits_ns;
    advice->count = found.count;
    activity_place(scene->log, found.vote.usual, advice->place);
    snprintf(advice->evidence, ACTIVITY_TEXT_MAX,
             "The host waits for %zu copies to the device, and the device then idles for %s until the host has "
             "called for more.",
             found.count, activity_duration(idle, found.gaps_ns));
    snprintf(
        advice->change, ACTIVITY_TEXT_MAX,
        "Use leat_copy(), or cudaMemcpyAsync from pinned memory, and submit the next work at once; wait before "
        "the host changes the source.");
    advice_gap_basis(scene, "Counts the idle time between each copy and the work after it", advice->basis);
    return true;
}

/* ---- copies that could run beside kernels ---- */

/* Copies to the device and kernels that take turns on a stream. */
struct turns {
    size_t count;
    uint64_t copy_ns, kernel_ns; /* with nothing of the other kind beside them */
    uint64_t saving_ns;
    struct advice_vote vote; /* on the copies with which they begin */
};

/* A turn: copies, and the kernels after them. */
struct turn {
    const struct activity *first; /* copy; NULL: none */
    uint64_t copy_ns, kernel_ns;
};

/* Ends a turn. Its copies could have run beside the kernels of the turn before. */
static void end_turn(struct turns *turns, struct turn *turn, uint64_t *kernels_before_ns)
{
    if (turn->first && turn->kernel_ns) {
        advice_vote(&turns->vote, turn->first);
        turns->count++;
        turns->copy_ns += turn->copy_ns;
        turns->kernel_ns += turn->kernel_ns;
        turns->saving_ns += turn->copy_ns < *kernels_before_ns ? turn->copy_ns : *kernels_before_ns;
    }
    *kernels_before_ns = turn->kernel_ns;
    *turn = (struct turn){.first = NULL};
}

static void count_turns(const struct advice_scene *scene, size_t stream, struct turns *turns)
{
    struct turn turn = {.first = NULL};
    uint64_t kernels_before_ns = 0;
    size_t i;

    *turns = (struct turns){.count = 0};
    for (i = scene->stream_begins[stream]; i < scene->stream_begins[stream + 1]; i++) {
        const struct activity *a = scene->by_stream[i];
        uint64_t length = a->device_end_ns - a->device_begin_ns;

        if (a->kind == ACTIVITY_COPY && advice_direction_of(a) == ADVICE_TO_DEVICE) {
            if (turn.kernel_ns)
                end_turn(turns, &turn, &kernels_before_ns);
            turn.first = turn.first ? turn.first : a;
            turn.copy_ns += length - cover_within(&scene->compute, a->device_begin_ns, a->device_end_ns);
        } else if (a->kind == ACTIVITY_KERNEL)
            turn.kernel_ns += length - cover_within(&scene->copies, a->device_begin_ns, a->device_end_ns);
    }
    end_turn(turns, &turn, &kernels_before_ns);
}

bool advice_no_overlap(const struct advice_scene *scene, struct activity_advice *advice)
{
    size_t stream;
    char copies[32], kernels[32];

    for (stream = 0; stream < scene->log->stream_count; stream++) {
        struct turns turns;

        count_turns(scene, stream, &turns);
        if (turns.count < ALTERNATIONS_MIN || turns.saving_ns <= advice->saving_ns)
            continue;
        advice->saving_ns = turns.saving_ns;
        advice->count = turns.count;
        activity_place(scene->log, turns.vote.usual, advice->place);
        snprintf(advice->evidence, ACTIVITY_TEXT_MAX,
                 "Copies to the device and kernels take turns on stream %" PRIu64
                 ", %zu times: %s of copies and %s of kernels, none "
                 "beside the other.",
                 scene->log->streams[stream].number, turns.count, activity_duration(copies, turns.copy_ns),
                 activity_duration(kernels, turns.kernel_ns));
        snprintf(advice->change, ACTIVITY_TEXT_MAX,
                 "Copy the next part on a second stream into a second buffer while the kernel works on this one.");
        snprintf(
            advice->basis, ACTIVITY_TEXT_MAX,
            "Counts on each copy to run beside the kernels before it, and to hide the shorter of both, if the "
            "parts do not depend on each other.");
    }
    return advice->saving_ns > 0;
}
