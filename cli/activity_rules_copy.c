/*
 * activity_rules_copy.c - the rules of "leat trace" about copies. docs/trace.md says when each of them fires.
 */
#include "activity_advice.h"
#include "text.h"

#include <inttypes.h>
#include <string.h>

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
    bool one_size;
    uint64_t busy_ns;
};

static bool is_small(const struct activity *a)
{
    return a->kind == ACTIVITY_COPY && a->bytes > 0 && a->bytes <= SMALL_BYTES_MAX &&
           !(a->flags & ACTIVITY_FLAG_FAILED);
}

/* Takes the run of small copies that begins at index *at of the stream's work, and moves *at behind it. */
static void take_run(const struct advice_scene *scene, size_t *at, size_t end, struct run *run)
{
    const struct activity *first = scene->by_stream[*at];

    *run = (struct run){.first = first, .last = first, .one_size = true};
    for (; *at < end; ++*at) {
        const struct activity *a = scene->by_stream[*at];
        int64_t stride = (int64_t)(a->address - run->last->address);

        if (a->kind == ACTIVITY_STREAM_WAIT || a->kind == ACTIVITY_OTHER)
            continue;
        if (!is_small(a) || advice_direction_of(a) != advice_direction_of(first))
            break;
        if (run->count == 1)
            run->stride = a->address && first->address ? stride : 0;
        else if (run->count > 1 && stride != run->stride)
            run->stride = 0;
        run->one_size = run->one_size && a->bytes == first->bytes && a->pieces == first->pieces;
        run->count++;
        run->bytes += a->bytes;
        run->busy_ns += a->device_end_ns - a->device_begin_ns;
        run->last = a;
    }
    if (run->count == 0)
        ++*at;
}

/* Returns true if the run has the pattern of a transpose: equal copies, the sources of which are equally far apart
 * and not one behind the other. */
static bool is_strided(const struct run *run)
{
    uint64_t distance = (uint64_t)(run->stride < 0 ? -run->stride : run->stride);

    return run->one_size && run->stride != 0 && (run->first->pieces > 1 || distance != run->first->bytes);
}

/* What all runs of a kind have together. */
struct runs {
    uint64_t saving_ns, count, bytes, busy_ns, wall_ns;
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
            uint64_t wall, least;
            enum advice_direction direction;

            take_run(scene, &at, scene->stream_begins[stream + 1], &run);
            if (run.count < RUN_MIN || is_strided(&run) != strided)
                continue;
            direction = advice_direction_of(run.first);
            wall = run.last->device_end_ns - run.first->device_begin_ns;
            least = advice_time_ns(scene, direction, run.bytes);
            if (!least) {
                /* Without a rate only the gaps between the copies are sure to go. */
                runs->rate_known = false;
                least = cover_within(&scene->busy, run.first->device_begin_ns, run.last->device_end_ns);
            }
            runs->saving_ns += wall > least ? wall - least : 0;
            runs->count += run.count;
            runs->bytes += run.bytes;
            runs->busy_ns += run.busy_ns;
            runs->wall_ns += wall;
            if (run.count > runs->longest.count)
                runs->longest = run;
        }
    }
}

static void describe_runs(const struct advice_scene *scene, const struct runs *runs,
                          struct activity_advice *advice)
{
    char bytes[TEXT_MAX], each[TEXT_MAX], figure[TEXT_MAX], wall[32], rate[96];

    advice->saving_ns = runs->saving_ns;
    advice->count = runs->count;
    activity_place(scene->log, runs->longest.first, advice->place);
    snprintf(advice->evidence, ACTIVITY_TEXT_MAX,
             "%" PRIu64 " copies in a row, the first of %s, %s together, take %s: %s GB/s.", runs->count,
             text_bytes(each, runs->longest.first->bytes), text_bytes(bytes, runs->bytes),
             activity_duration(wall, runs->wall_ns),
             text_figure(figure, runs->wall_ns ? (double)runs->bytes / (double)runs->wall_ns : 0));
    if (runs->rate_known)
        snprintf(advice->basis, ACTIVITY_TEXT_MAX, "Counts on %s.",
                 advice_rate_text(scene, advice_direction_of(runs->longest.first), rate));
    else
        snprintf(advice->basis, ACTIVITY_TEXT_MAX,
                 "Counts only the gaps between the copies, since no large copy tells a rate.");
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
        bytes[direction] += a->bytes;
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
    bytes[ADVICE_TO_DEVICE] += bytes[ADVICE_FROM_DEVICE];
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
    const struct activity *worst = NULL;
    uint64_t worst_ns = 0, bytes = 0, busy = 0;
    char figure[TEXT_MAX], size[TEXT_MAX], rate[96];
    size_t i;

    for (i = 0; i < scene->by_device_count; i++) {
        const struct activity *a = scene->by_device[i];
        enum advice_direction direction = advice_direction_of(a);
        uint64_t length = a->device_end_ns - a->device_begin_ns, least, exposed, saving;

        if (a->kind != ACTIVITY_COPY || direction > ADVICE_FROM_DEVICE || a->bytes <= SMALL_BYTES_MAX ||
            (a->from_memory != ACTIVITY_MEMORY_PAGEABLE && a->to_memory != ACTIVITY_MEMORY_PAGEABLE))
            continue;
        least = advice_time_ns(scene, direction, a->bytes);
        /* A copy that is nearly as fast as the link gains nothing. */
        if (!least || length < least + least / 4)
            continue;
        /* Under computation the copy costs nothing. */
        exposed = length - cover_within(&scene->compute, a->device_begin_ns, a->device_end_ns);
        saving = length - least < exposed ? length - least : exposed;
        advice->saving_ns += saving;
        advice->count++;
        bytes += a->bytes;
        busy += length;
        if (!worst || saving > worst_ns) {
            worst = a;
            worst_ns = saving;
        }
    }
    if (!worst)
        return false;
    activity_place(scene->log, worst, advice->place);
    snprintf(advice->evidence, ACTIVITY_TEXT_MAX,
             "%" PRIu64 " copies of pageable memory, %s together, at %s GB/s.", advice->count,
             text_bytes(size, bytes), text_figure(figure, busy ? (double)bytes / (double)busy : 0));
    snprintf(
        advice->change, ACTIVITY_TEXT_MAX,
        "Allocate the host memory as LEAT_KIND_PINNED once and reuse it, or copy by leat_copy() (a CUDA program: "
        "start it under leat run).");
    snprintf(advice->basis, ACTIVITY_TEXT_MAX, "Counts on %s.",
             advice_rate_text(scene, advice_direction_of(worst), rate));
    return true;
}

/* ---- blocking copies ---- */

bool advice_blocking_copies(const struct advice_scene *scene, struct activity_advice *advice)
{
    const struct activity *worst = NULL;
    uint64_t worst_ns = 0;
    size_t i;
    char idle[32];

    for (i = 0; i < scene->by_device_count; i++) {
        const struct activity *a = scene->by_device[i], *next;
        uint64_t gap;

        /* After a copy to the host the program may need the bytes. One to the device hands over nothing. */
        if (a->kind != ACTIVITY_COPY || !(a->flags & ACTIVITY_FLAG_BLOCKS) || !(a->flags & ACTIVITY_FLAG_HOST) ||
            advice_direction_of(a) != ADVICE_TO_DEVICE)
            continue;
        next = advice_next_work(scene, activity_device(scene->log, a), a->device_end_ns);
        /* The gap counts only if the call for the next work had to wait for this copy. */
        if (!next || next == a || !(next->flags & ACTIVITY_FLAG_HOST) || next->thread != a->thread ||
            next->host_begin_ns < a->host_end_ns)
            continue;
        gap = next->device_begin_ns - a->device_end_ns;
        gap -= cover_within(&scene->busy, a->device_end_ns, next->device_begin_ns);
        advice->saving_ns += gap;
        advice->count++;
        if (!worst || gap > worst_ns) {
            worst = a;
            worst_ns = gap;
        }
    }
    if (advice->count < BLOCKING_MIN)
        return false;
    activity_place(scene->log, worst, advice->place);
    snprintf(advice->evidence, ACTIVITY_TEXT_MAX,
             "%" PRIu64
             " copies to the device block the host, and the device then idles for %s until the host has "
             "called for more.",
             advice->count, activity_duration(idle, advice->saving_ns));
    snprintf(advice->change, ACTIVITY_TEXT_MAX,
             "Use leat_copy(), or cudaMemcpyAsync from pinned memory, and submit the next work at once.");
    snprintf(advice->basis, ACTIVITY_TEXT_MAX, "Counts the idle time between each copy and the work after it.");
    return true;
}

/* ---- copies that could run beside kernels ---- */

/* Copies to the device and kernels that take turns on a stream. */
struct turns {
    const struct activity *first;
    size_t count;
    uint64_t copy_ns; /* of the copies, without the time in which the device also computes */
};

static void count_turns(const struct advice_scene *scene, size_t stream, struct turns *turns)
{
    const struct activity *before = NULL;
    size_t i;

    *turns = (struct turns){.count = 0};
    for (i = scene->stream_begins[stream]; i < scene->stream_begins[stream + 1]; i++) {
        const struct activity *a = scene->by_stream[i];
        bool copy = a->kind == ACTIVITY_COPY && advice_direction_of(a) == ADVICE_TO_DEVICE;

        if (copy) {
            turns->first = turns->first ? turns->first : a;
            turns->copy_ns += a->device_end_ns - a->device_begin_ns -
                              cover_within(&scene->compute, a->device_begin_ns, a->device_end_ns);
        } else if (a->kind != ACTIVITY_KERNEL)
            continue;
        if (before && before->kind == ACTIVITY_COPY && !copy)
            turns->count++;
        before = a;
    }
}

bool advice_no_overlap(const struct advice_scene *scene, struct activity_advice *advice)
{
    size_t stream;
    char copies[32], kernels[32];

    for (stream = 0; stream < scene->log->stream_count; stream++) {
        const struct activity_share *share = &scene->breakdown->streams[stream];
        const struct activity_share *device = &scene->breakdown->devices[scene->log->streams[stream].device];
        uint64_t copy, compute = share->parts.compute_ns, saving;
        struct turns turns;

        count_turns(scene, stream, &turns);
        if (turns.count < ALTERNATIONS_MIN)
            continue;
        /* Other streams may already fill the time. */
        copy = turns.copy_ns < device->parts.copy_ns ? turns.copy_ns : device->parts.copy_ns;
        compute = compute < device->parts.compute_ns ? compute : device->parts.compute_ns;
        /* The first copy and the last computation remain alone. */
        saving = (copy < compute ? copy : compute) / turns.count * (turns.count - 1);
        if (saving <= advice->saving_ns)
            continue;
        advice->saving_ns = saving;
        advice->count = turns.count;
        activity_place(scene->log, turns.first, advice->place);
        snprintf(advice->evidence, ACTIVITY_TEXT_MAX,
                 "Copies to the device and kernels take turns on stream %" PRIu64
                 ", %zu times: %s of copies and %s of kernels, none "
                 "beside the other.",
                 scene->log->streams[stream].number, turns.count, activity_duration(copies, copy),
                 activity_duration(kernels, compute));
        snprintf(advice->change, ACTIVITY_TEXT_MAX,
                 "Copy the next part on a second stream into a second buffer while the kernel works on this one.");
        snprintf(advice->basis, ACTIVITY_TEXT_MAX,
                 "Counts on the shorter of both to be hidden but for one turn, if the parts do not depend on each "
                 "other.");
    }
    return advice->saving_ns > 0;
}
