/*
 * activity_rules_host.c - the rules of "leat trace" about what the host does between the work of devices:
 * allocations, waits and launches. docs/trace.md says when each of them fires.
 */
#include "activity_advice.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ALLOC_MIN = 16, PINNED_MIN = 4, SYNC_MIN = 8, LAUNCH_MIN = 100 };

/* Returns how long all devices idle during a call. */
static uint64_t idle_within(const struct advice_scene *scene, uint64_t begin, uint64_t end)
{
    return end - begin - cover_within(&scene->busy, begin, end);
}

/* Returns true if ns is after the first work of all devices and before the end of the last. */
static bool is_inside(const struct advice_scene *scene, uint64_t ns)
{
    return scene->busy.count && ns > scene->busy.begin_ns[0] && ns < scene->busy.end_ns[scene->busy.count - 1];
}

/* ---- allocation in a loop ---- */

/* Finds allocations of pinned memory, or of other memory, between the work, and the idle time that they and the
 * frees cause. */
static bool find_allocs(const struct advice_scene *scene, bool pinned, uint64_t least,
                        struct activity_advice *advice)
{
    struct advice_vote vote = {.votes = 0};
    uint64_t host = 0, bytes = 0, until = 0; /* the calls of several threads may overlap */
    char time[32], size[TEXT_MAX], sizes[TEXT_MAX + 16] = "";
    size_t i;

    for (i = 0; i < scene->log->count; i++) {
        const struct activity *a = &scene->log->list[i];

        if ((a->kind != ACTIVITY_ALLOC && a->kind != ACTIVITY_FREE) || !(a->flags & ACTIVITY_FLAG_HOST) ||
            (a->to_memory == ACTIVITY_MEMORY_PINNED) != pinned || !is_inside(scene, a->host_begin_ns))
            continue;
        if (a->host_end_ns > until) {
            advice->saving_ns +=
                idle_within(scene, a->host_begin_ns > until ? a->host_begin_ns : until, a->host_end_ns);
            until = a->host_end_ns;
        }
        host += a->host_end_ns - a->host_begin_ns;
        if (a->kind != ACTIVITY_ALLOC)
            continue;
        advice->count++;
        activity_add_bytes(&bytes, a->bytes);
        advice_vote(&vote, a);
    }
    if (advice->count < least)
        return false;
    activity_place(scene->log, vote.usual, advice->place);
    if (bytes)
        snprintf(sizes, sizeof sizes, ", %s together,", text_bytes(size, bytes));
    snprintf(advice->evidence, ACTIVITY_TEXT_MAX,
             "%" PRIu64 " allocations%s%s between the work; with the frees they take the host %s.", advice->count,
             pinned ? " of pinned memory" : "", sizes, activity_duration(time, host));
    snprintf(advice->basis, ACTIVITY_TEXT_MAX, "Counts the idle time of the devices during these calls.");
    return true;
}

bool advice_alloc_loop(const struct advice_scene *scene, struct activity_advice *advice)
{
    if (!find_allocs(scene, false, ALLOC_MIN, advice))
        return false;
    snprintf(advice->change, ACTIVITY_TEXT_MAX,
             "Allocate from a pool, leat_alloc() and leat_free(), or once before the loop.");
    return true;
}

bool advice_pinned_loop(const struct advice_scene *scene, struct activity_advice *advice)
{
    if (!find_allocs(scene, true, PINNED_MIN, advice))
        return false;
    snprintf(advice->change, ACTIVITY_TEXT_MAX,
             "Pin once before the loop and reuse the memory, or take it from a pool of LEAT_KIND_PINNED.");
    return true;
}

/* ---- needless synchronisation ---- */

static bool is_host_memory(unsigned memory)
{
    return memory != ACTIVITY_MEMORY_DEVICE;
}

/* Returns true if the host may need the result of the work, or may want to reuse its memory. */
static bool concerns_host(const struct activity *a)
{
    switch ((enum activity_kind)a->kind) {
    case ACTIVITY_COPY:
        return is_host_memory(a->from_memory) || is_host_memory(a->to_memory);
    case ACTIVITY_KERNEL:
    case ACTIVITY_FILL:
    case ACTIVITY_STREAM_WAIT:
    case ACTIVITY_HOST_WAIT:
    case ACTIVITY_ALLOC:
    case ACTIVITY_OTHER:
        return false;
    default:
        return true;
    }
}

/* Waits that nobody needs. */
struct waits {
    struct activity_interval *gaps;  /* in which devices idle because of them, as far as they do */
    struct activity_interval *times; /* of the host; without the waits the program gains no more than that */
    size_t count;
    struct advice_vote vote;
};

/* Counts a needless wait: the device idles from the end of the work that it waits for until the next work begins.
 */
static void count_wait(const struct advice_scene *scene, const struct activity *wait, const struct activity *next,
                       struct waits *waits)
{
    uint64_t from = cover_last_end(&scene->busy, wait->host_end_ns);

    from = from < wait->host_begin_ns ? wait->host_begin_ns : from;
    waits->gaps[waits->count] = (struct activity_interval){.begin_ns = from, .end_ns = next->device_begin_ns};
    waits->times[waits->count++] =
        (struct activity_interval){.begin_ns = wait->host_begin_ns, .end_ns = wait->host_end_ns};
    advice_vote(&waits->vote, wait);
}

/* ---- what a wait is for ---- */

/* The streams with work of a thread that concerns the host and is not known to be waited for. */
struct concerns {
    const struct activity_log *log;
    uint32_t *list, *places; /* places: of each stream its place in list + 1, or 0 */
    size_t count;
    bool anywhere; /* work of an unknown stream */
    bool done;     /* only work that was complete when its call returned */
    bool unknown;  /* what came before the first wait */
};

static bool has_concerns(const struct concerns *concerns)
{
    return concerns->count || concerns->anywhere || concerns->done || concerns->unknown;
}

static void add_concern(struct concerns *concerns, const struct activity *a)
{
    if (a->kind == ACTIVITY_FREE || (a->flags & ACTIVITY_FLAG_BLOCKS))
        concerns->done = true;
    else if (a->stream >= concerns->log->stream_count)
        concerns->anywhere = true;
    else if (!concerns->places[a->stream]) {
        concerns->list[concerns->count] = a->stream;
        concerns->places[a->stream] = (uint32_t)++concerns->count;
    }
}

static void drop_concern(struct concerns *concerns, size_t place)
{
    concerns->places[concerns->list[place]] = 0;
    concerns->list[place] = concerns->list[--concerns->count];
    if (place < concerns->count)
        concerns->places[concerns->list[place]] = (uint32_t)place + 1;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);

    return length >= strlen(end) && !strcmp(text + length - strlen(end), end);
}

/* Forgets the work that a wait is surely for. A wait for an event is for work before it, which is not known here,
 * and traces of other recorders do not tell the stream of a wait. */
static void drop_waited(struct concerns *concerns, const struct activity *wait)
{
    const struct activity_log *log = concerns->log;
    const char *name = activity_name(log, wait->name);
    bool device = ends_with(name, "DeviceSynchronize") || ends_with(name, "CtxSynchronize"), known;
    size_t i;

    concerns->done = concerns->unknown = false;
    known = !device && wait->stream < log->stream_count;
    if (known && !strcmp(name, "leat_device_synchronize")) {
        for (i = concerns->count; i > 0; i--)
            if (log->streams[concerns->list[i - 1]].device == log->streams[wait->stream].device)
                drop_concern(concerns, i - 1);
    } else if (known && log->streams[wait->stream].number && concerns->places[wait->stream]) {
        drop_concern(concerns, concerns->places[wait->stream] - 1);
    }
    if (device || !strcmp(name, "leat_device_synchronize"))
        concerns->anywhere = false;
    while (device && concerns->count)
        drop_concern(concerns, concerns->count - 1);
}

/* Counts the needless waits of one thread. */
static void find_waits(const struct advice_scene *scene, size_t thread, struct concerns *concerns,
                       struct waits *waits)
{
    const struct activity *wait = NULL;
    size_t i;

    while (concerns->count)
        drop_concern(concerns, concerns->count - 1);
    concerns->anywhere = concerns->done = false;
    concerns->unknown = true;
    for (i = scene->thread_begins[thread]; i < scene->thread_begins[thread + 1]; i++) {
        const struct activity *a = scene->by_thread[i];

        if (a->kind == ACTIVITY_HOST_WAIT) {
            wait = has_concerns(concerns) ? NULL : a;
            drop_waited(concerns, a);
            continue;
        }
        if (concerns_host(a))
            add_concern(concerns, a);
        if (!wait || !activity_is_compute(a))
            continue;
        /* Work was submitted after the wait, and the host had looked at nothing in between. */
        count_wait(scene, wait, a, waits);
        wait = NULL;
    }
}

/* Returns true if the program has memory that the host reads without a copy. */
static bool has_managed_memory(const struct activity_log *log)
{
    size_t i;

    for (i = 0; i < log->count; i++) {
        const struct activity *a = &log->list[i];

        if (a->kind == ACTIVITY_PAGE_MOVE ||
            ((a->kind == ACTIVITY_ALLOC || a->kind == ACTIVITY_COPY) &&
             (a->from_memory == ACTIVITY_MEMORY_MANAGED || a->to_memory == ACTIVITY_MEMORY_MANAGED)))
            return true;
    }
    return false;
}

static uint64_t whole_ns(const struct advice_scene *scene, uint64_t begin_ns, uint64_t end_ns)
{
    (void)scene;
    return end_ns - begin_ns;
}

bool advice_needless_sync(const struct advice_scene *scene, struct activity_advice *advice)
{
    struct waits waits = {.count = 0};
    struct concerns concerns = {
        .log = scene->log, .list = scene->stream_marks, .places = scene->stream_marks + scene->log->stream_count};
    uint64_t gaps, times;
    size_t thread;

    if (has_managed_memory(scene->log))
        return false;
    waits.gaps = scene->intervals;
    waits.times = scene->intervals + scene->by_thread_count;
    for (thread = 0; thread < scene->log->thread_count; thread++)
        find_waits(scene, thread, &concerns, &waits);
    if (waits.count < SYNC_MIN)
        return false;
    gaps = advice_union(scene, waits.gaps, waits.count, advice_gap_ns);
    times = advice_union(scene, waits.times, waits.count, whole_ns);
    advice->saving_ns = gaps < times ? gaps : times;
    advice->count = waits.count;
    activity_place(scene->log, waits.vote.usual, advice->place);
    snprintf(
        advice->evidence, ACTIVITY_TEXT_MAX,
        "%zu times the host waits for kernels and fills alone, and then submits more work: no copy to or from host "
        "memory has gone without a wait for it.",
        waits.count);
    snprintf(
        advice->change, ACTIVITY_TEXT_MAX,
        "Leave out the waits, unless the host reads what kernels write to managed or pinned memory: work of one "
        "stream is in order anyway, and leat_stream_wait() orders streams.");
    advice_gap_basis(scene, "Counts the idle time from the end of the work that each wait is for to the next work",
                     advice->basis);
    return true;
}

/* ---- launch-bound phases ---- */

/* What a device's kernels and the gaps between them have together. */
struct launches {
    uint64_t gaps_ns, kernels_ns;
    size_t count, longer; /* kernels with gaps of half their length or more; other ones */
    struct advice_vote vote;
};

/* Adds the gaps before kernels for which the host alone is to blame: it submitted the kernel while the device was
 * already idle, and did not wait, copy or allocate in between. */
static void find_gaps(const struct advice_scene *scene, uint32_t device, struct launches *launches)
{
    size_t i;

    for (i = scene->device_begins[device] + 1; i < scene->device_begins[device + 1]; i++) {
        const struct activity *before = scene->by_device[i - 1], *a = scene->by_device[i];
        uint64_t gap;

        if (a->kind != ACTIVITY_KERNEL || before->kind != ACTIVITY_KERNEL || !(a->flags & ACTIVITY_FLAG_HOST) ||
            a->stream != before->stream || a->device_begin_ns <= before->device_end_ns)
            continue;
        gap = a->device_begin_ns - before->device_end_ns;
        if (a->host_end_ns <= before->device_end_ns)
            continue; /* submitted in time */
        if (gap > before->device_end_ns - before->device_begin_ns + (a->host_end_ns - a->host_begin_ns) + 50000)
            continue; /* the host did something else */
        /* One kernel that took long, because something held it up, must not speak for the others. */
        if (gap * 2 < a->device_end_ns - a->device_begin_ns) {
            launches->longer++;
            continue;
        }
        launches->gaps_ns += gap;
        launches->kernels_ns += a->device_end_ns - a->device_begin_ns;
        launches->count++;
        advice_vote(&launches->vote, a);
    }
}

bool advice_launch_bound(const struct advice_scene *scene, struct activity_advice *advice)
{
    struct launches launches = {0};
    uint32_t device;
    char time[32], each[32];

    for (device = 0; device < scene->log->device_count; device++)
        find_gaps(scene, device, &launches);
    /* Kernels that are much longer than their gaps are not bound by launches. */
    if (launches.count < LAUNCH_MIN || launches.count < launches.longer ||
        launches.gaps_ns <= scene->turn_ns * launches.count)
        return false;
    advice->saving_ns = launches.gaps_ns - scene->turn_ns * launches.count;
    advice->count = launches.count;
    activity_place(scene->log, launches.vote.usual, advice->place);
    snprintf(advice->evidence, ACTIVITY_TEXT_MAX,
             "%zu kernels of %s on average wait for their launches, %s together.", launches.count,
             activity_duration(each, launches.kernels_ns / launches.count),
             activity_duration(time, launches.gaps_ns));
    snprintf(advice->change, ACTIVITY_TEXT_MAX,
             "Launch fewer and larger kernels, or launch them together as a graph.");
    advice_gap_basis(scene, "Counts the gaps before them", advice->basis);
    return true;
}
