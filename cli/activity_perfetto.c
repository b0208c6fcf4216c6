/*
 * activity_perfetto.c - writes a recorded run for ui.perfetto.dev, as protocol buffers of the format "track
 * event".
 *
 * Each thread is a track with its calls and ranges, each stream one with its work, and each device has a counter
 * of the bytes in flight. Each pool has two counters of its memory. Slices of one track must nest there, so work
 * of a stream that overlaps other work of it goes to further tracks, and a call that ends after the call around it
 * is cut. Every packet is written as soon as it is made.
 */
#include "activity_perfetto.h"
#include "perfetto.h"

#include <inttypes.h>
#include <stdlib.h>

enum { DEPTH_MAX = 64 };

/* ---- tracks, names and slices ---- */

/* The number of a track is 1, or more, above that of its thread, device, stream or pool times TRACKS_EACH. */
enum {
    TRACKS_EACH = 16,
    TRACK_THREAD = 1,
    TRACK_DEVICE,
    TRACK_COUNTER,
    TRACK_POOL,
    TRACK_STREAM = TRACK_POOL + 2
};
_Static_assert((int)TRACK_STREAM + (int)ACTIVITY_LANES <= (int)TRACKS_EACH + 1, "tracks of one index");

uint64_t activity_thread_track(size_t thread)
{
    return TRACKS_EACH * thread + TRACK_THREAD;
}

static uint64_t device_track(size_t device)
{
    return TRACKS_EACH * device + TRACK_DEVICE;
}

uint64_t activity_counter_track(size_t device)
{
    return TRACKS_EACH * device + TRACK_COUNTER;
}

uint64_t activity_pool_track(size_t pool)
{
    return TRACKS_EACH * pool + TRACK_POOL;
}

static uint64_t stream_track(size_t stream, unsigned lane)
{
    return TRACKS_EACH * stream + TRACK_STREAM + lane;
}

void activity_define_thread(const struct activity_log *log, FILE *file, size_t thread)
{
    char name[ACTIVITY_THREAD_MAX];

    perfetto_track(file, activity_thread_track(thread), 0, activity_thread_name(log, thread, name), false);
}

void activity_define_device(const struct activity_log *log, FILE *file, size_t device)
{
    char name[80];

    snprintf(name, sizeof name, "%.79s", activity_name(log, log->devices[device].name));
    perfetto_track(file, device_track(device), 0, name, false);
    perfetto_track(file, activity_counter_track(device), device_track(device), "bytes in flight", true);
}

void activity_define_pool(const struct activity_log *log, FILE *file, size_t pool)
{
    char name[ACTIVITY_POOL_NAME_MAX], text[ACTIVITY_POOL_NAME_MAX + 12];
    uint32_t device = log->pools[pool].device;
    uint64_t parent = device < log->device_count ? device_track(device) : 0;

    snprintf(text, sizeof text, "%s: used", activity_pool_name(log, pool, name));
    perfetto_track(file, activity_pool_track(pool), parent, text, true);
    snprintf(text, sizeof text, "%s: reserved", name);
    perfetto_track(file, activity_pool_track(pool) + 1, parent, text, true);
}

void activity_perfetto_kinds(FILE *file)
{
    size_t i;

    perfetto_begin(file);
    for (i = 0; i < ACTIVITY_KIND_COUNT; i++)
        perfetto_name(file, 1 + i, activity_kind_names[i]);
}

void activity_perfetto_name(const struct activity_log *log, FILE *file, size_t name)
{
    perfetto_name(file, 1 + ACTIVITY_KIND_COUNT + name, log->names[name][0] ? log->names[name] : "?");
}

void activity_write_begin(FILE *file, const struct activity *a, uint64_t flow, uint64_t track, uint64_t ns,
                          bool work)
{
    const struct perfetto_slice slice = {
        .track = track,
        .ns = ns,
        .name = a->name == ACTIVITY_NONE ? 1u + a->kind : 1 + (uint64_t)ACTIVITY_KIND_COUNT + a->name,
        .bytes = work ? a->bytes : 0,
        .flow = (a->flags & ACTIVITY_FLAG_HOST) && (a->flags & ACTIVITY_FLAG_DEVICE) ? flow : 0};

    perfetto_slice_begin(file, &slice);
}

void activity_write_work(const struct activity_log *log, FILE *file, const struct activity *a, uint64_t flow,
                         struct activity_lanes *lanes)
{
    uint64_t begin = a->device_begin_ns, end = a->device_end_ns, track;
    unsigned lane = 0;

    while (lane < ACTIVITY_LANES - 1 && lane < lanes->count && lanes->end_ns[lane] > begin)
        lane++;
    track = stream_track(a->stream, lane);
    if (lane >= lanes->count) {
        char name[64];

        snprintf(name, sizeof name, lane ? "stream %" PRIu64 " (%u)" : "stream %" PRIu64,
                 log->streams[a->stream].number, lane + 1);
        perfetto_track(file, track, device_track(log->streams[a->stream].device), name, false);
        lanes->count = lane + 1;
    }
    begin = begin < lanes->end_ns[lane] ? lanes->end_ns[lane] : begin;
    end = end < begin ? begin : end;
    activity_write_begin(file, a, flow, track, begin, true);
    perfetto_slice_end(file, track, end);
    lanes->end_ns[lane] = end;
}

/* ---- threads ---- */

struct open_calls {
    uint64_t end_ns[DEPTH_MAX];
    int depth;
};

/* Ends the calls that are over at this time. */
static void close_calls(FILE *file, struct open_calls *open, size_t thread, uint64_t ns)
{
    while (open->depth > 0 && open->end_ns[open->depth - 1] <= ns)
        perfetto_slice_end(file, activity_thread_track(thread), open->end_ns[--open->depth]);
}

static bool write_threads(const struct activity_log *log, FILE *file)
{
    struct open_calls *open = calloc(log->thread_count ? log->thread_count : 1, sizeof *open);
    size_t i;

    if (!open)
        return false;
    for (i = 0; i < log->count; i++) {
        const struct activity *a = &log->list[i];
        struct open_calls *of;
        uint64_t end = a->host_end_ns;

        if (!(a->flags & ACTIVITY_FLAG_HOST) || a->thread >= log->thread_count)
            continue;
        of = &open[a->thread];
        close_calls(file, of, a->thread, a->host_begin_ns);
        if (of->depth == DEPTH_MAX)
            continue;
        if (of->depth > 0 && end > of->end_ns[of->depth - 1])
            end = of->end_ns[of->depth - 1];
        activity_write_begin(file, a, (uint64_t)i + 1, activity_thread_track(a->thread), a->host_begin_ns, false);
        of->end_ns[of->depth++] = end;
    }
    for (i = 0; i < log->thread_count; i++)
        close_calls(file, &open[i], i, UINT64_MAX);
    free(open);
    return true;
}

/* ---- streams ---- */

static int compare_work(const void *a, const void *b)
{
    const struct activity *one = *(const struct activity *const *)a, *other = *(const struct activity *const *)b;

    if (one->device_begin_ns != other->device_begin_ns)
        return one->device_begin_ns < other->device_begin_ns ? -1 : 1;
    return one == other ? 0 : one < other ? -1 : 1;
}

/* ---- bytes in flight ---- */

struct change {
    uint64_t ns;
    int64_t bytes;
    uint32_t device;
};

static int compare_changes(const void *a, const void *b)
{
    const struct change *one = a, *other = b;

    if (one->ns != other->ns)
        return one->ns < other->ns ? -1 : 1;
    return one->bytes == other->bytes ? 0 : one->bytes < other->bytes ? -1 : 1; /* ends before beginnings */
}

/* Writes the changes of all devices; of several at the same time only the last. */
static void write_changes(FILE *file, struct change *changes, size_t count)
{
    int64_t now[ACTIVITY_DEVICES_MAX] = {0};
    size_t i;

    qsort(changes, count, sizeof *changes, compare_changes);
    for (i = 0; i < count; i++) {
        const struct change *change = &changes[i];

        now[change->device] += change->bytes;
        if (i + 1 < count && changes[i + 1].ns == change->ns && changes[i + 1].device == change->device)
            continue;
        perfetto_count(file, activity_counter_track(change->device), change->ns, now[change->device]);
    }
}

static void write_pools(const struct activity_log *log, FILE *file)
{
    size_t i;

    for (i = 0; i < log->change_count; i++) {
        const struct activity_memory_change *change = &log->changes[i];

        if (!log->pools[change->pool].reserved_peak_bytes)
            continue;
        perfetto_count(file, activity_pool_track(change->pool), change->ns, (int64_t)change->used_bytes);
        perfetto_count(file, activity_pool_track(change->pool) + 1, change->ns, (int64_t)change->reserved_bytes);
    }
}

static bool write_streams(const struct activity_log *log, FILE *file)
{
    const struct activity **work = calloc(log->count + 1, sizeof *work);
    struct change *changes = calloc(2 * log->count + 1, sizeof *changes);
    struct activity_lanes *lanes = calloc(log->stream_count + 1, sizeof *lanes);
    bool fine = work && changes && lanes;
    size_t count = 0, change_count = 0, i;

    for (i = 0; i < log->count && fine; i++) {
        const struct activity *a = &log->list[i];

        if (!(a->flags & ACTIVITY_FLAG_DEVICE) || a->stream >= log->stream_count)
            continue;
        work[count++] = a;
        if (activity_is_copy(a) && a->bytes && a->bytes < INT64_MAX >> 20) {
            uint32_t device = log->streams[a->stream].device;

            changes[change_count++] = (struct change){a->device_begin_ns, (int64_t)a->bytes, device};
            changes[change_count++] = (struct change){a->device_end_ns, -(int64_t)a->bytes, device};
        }
    }
    if (fine) {
        qsort(work, count, sizeof *work, compare_work);
        for (i = 0; i < count; i++)
            activity_write_work(log, file, work[i], (uint64_t)(work[i] - log->list) + 1, &lanes[work[i]->stream]);
        write_changes(file, changes, change_count);
    }
    free(work);
    free(changes);
    free(lanes);
    return fine;
}

bool activity_write_perfetto(const struct activity_log *log, FILE *file)
{
    size_t i;

    activity_perfetto_kinds(file);
    for (i = 0; i < log->name_count; i++)
        activity_perfetto_name(log, file, i);
    for (i = 0; i < log->thread_count; i++)
        activity_define_thread(log, file, i);
    for (i = 0; i < log->device_count; i++)
        activity_define_device(log, file, i);
    for (i = 0; i < log->pool_count; i++)
        if (log->pools[i].reserved_peak_bytes) /* others never had memory */
            activity_define_pool(log, file, i);
    write_pools(log, file);
    return write_threads(log, file) && write_streams(log, file);
}
