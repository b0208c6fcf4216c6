/*
 * activity_perfetto.c - writes a recorded run for ui.perfetto.dev, as protocol buffers of the format "track
 * event".
 *
 * Each thread is a track with its calls and ranges, each stream one with its work, and each device has a counter
 * of the bytes in flight. Each pool has two counters of its memory. Slices of one track must nest there, so work
 * of a stream that overlaps other work of it goes to further tracks, and a call that ends after the call around it
 * is cut. Every packet is written as soon as it is made.
 */
#include "activity.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of fields, from the published definition of the format. */
enum {
    TRACE_PACKET = 1,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_DESCRIPTOR = 60,
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK = 11,
    EVENT_COUNTER = 30,
    EVENT_FLOW = 47,
    DESCRIPTOR_UUID = 1,
    DESCRIPTOR_NAME = 2,
    DESCRIPTOR_PARENT = 5,
    DESCRIPTOR_COUNTER = 8,
    COUNTER_UNIT = 3,
    INTERNED_EVENT_NAMES = 2,
    INTERNED_ANNOTATION_NAMES = 3,
    NAME_IID = 1,
    NAME_TEXT = 2,
    ANNOTATION_NAME_IID = 1,
    ANNOTATION_UINT = 3
};

enum { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_COUNTER = 4, UNIT_BYTES = 3, SEQUENCE = 1, ANNOTATION_BYTES = 1 };
enum { FLAG_CLEARED = 1, FLAG_NEEDS_STATE = 2 };
enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };
enum { MESSAGE_MAX = 1200, NAME_BYTES_MAX = 1000, DEPTH_MAX = 64, LANES = 4 };

/* A message in the making. What does not fit is left out; MESSAGE_MAX leaves room for the longest name. */
struct message {
    size_t bytes;
    unsigned char data[MESSAGE_MAX];
};

static void put_varint(struct message *message, uint64_t value)
{
    do {
        if (message->bytes == MESSAGE_MAX)
            return;
        message->data[message->bytes++] = (unsigned char)((value & 127) | (value > 127 ? 128 : 0));
        value >>= 7;
    } while (value);
}

static void put_tag(struct message *message, unsigned field, unsigned wire)
{
    put_varint(message, (uint64_t)field << 3 | wire);
}

static void put_number(struct message *message, unsigned field, uint64_t value)
{
    put_tag(message, field, WIRE_VARINT);
    put_varint(message, value);
}

static void put_fixed64(struct message *message, unsigned field, uint64_t value)
{
    int i;

    put_tag(message, field, WIRE_FIXED64);
    for (i = 0; i < 8 && message->bytes < MESSAGE_MAX; i++)
        message->data[message->bytes++] = (unsigned char)(value >> 8 * i);
}

static void put_bytes(struct message *message, unsigned field, const void *data, size_t bytes)
{
    put_tag(message, field, WIRE_BYTES);
    put_varint(message, bytes);
    if (bytes > MESSAGE_MAX - message->bytes)
        bytes = MESSAGE_MAX - message->bytes;
    memcpy(message->data + message->bytes, data, bytes);
    message->bytes += bytes;
}

static void put_message(struct message *message, unsigned field, const struct message *inner)
{
    put_bytes(message, field, inner->data, inner->bytes);
}

static void put_text(struct message *message, unsigned field, const char *text)
{
    put_bytes(message, field, text, strnlen(text, NAME_BYTES_MAX));
}

/* ---- packets ---- */

static void write_packet(FILE *file, const struct message *packet)
{
    struct message head = {.bytes = 0};

    put_tag(&head, TRACE_PACKET, WIRE_BYTES);
    put_varint(&head, packet->bytes);
    fwrite(head.data, 1, head.bytes, file);
    fwrite(packet->data, 1, packet->bytes, file);
}

/* Tracks have the numbers 1, 2, ...: threads, then devices, then counters of devices, then LANES for each stream,
 * then two for each pool. */
static uint64_t thread_track(size_t thread)
{
    return 1 + thread;
}

static uint64_t device_track(const struct activity_log *log, size_t device)
{
    return 2 + log->thread_count + device;
}

static uint64_t counter_track(const struct activity_log *log, size_t device)
{
    return device_track(log, log->device_count + device);
}

static uint64_t stream_track(const struct activity_log *log, size_t stream, unsigned lane)
{
    return counter_track(log, log->device_count) + stream * LANES + lane;
}

static uint64_t pool_track(const struct activity_log *log, size_t pool)
{
    return stream_track(log, log->stream_count, 0) + 2 * pool;
}

static void write_track(FILE *file, uint64_t track, uint64_t parent, const char *name, bool counter)
{
    struct message packet = {.bytes = 0}, descriptor = {.bytes = 0}, unit = {.bytes = 0};

    put_number(&descriptor, DESCRIPTOR_UUID, track);
    put_text(&descriptor, DESCRIPTOR_NAME, name);
    if (parent)
        put_number(&descriptor, DESCRIPTOR_PARENT, parent);
    if (counter) {
        put_number(&unit, COUNTER_UNIT, UNIT_BYTES);
        put_message(&descriptor, DESCRIPTOR_COUNTER, &unit);
    }
    put_number(&packet, PACKET_SEQUENCE, SEQUENCE);
    put_message(&packet, PACKET_DESCRIPTOR, &descriptor);
    write_packet(file, &packet);
}

static void write_tracks(const struct activity_log *log, FILE *file)
{
    char name[ACTIVITY_THREAD_MAX];
    size_t i;

    for (i = 0; i < log->thread_count; i++) {
        activity_thread_name(log, i, name);
        write_track(file, thread_track(i), 0, name, false);
    }
    for (i = 0; i < log->device_count; i++) {
        snprintf(name, sizeof name, "%.79s", activity_name(log, log->devices[i].name));
        write_track(file, device_track(log, i), 0, name, false);
        write_track(file, counter_track(log, i), device_track(log, i), "bytes in flight", true);
    }
}

/* Pools that never had memory get no track. */
static void write_pool_tracks(const struct activity_log *log, FILE *file)
{
    char name[ACTIVITY_POOL_NAME_MAX], text[ACTIVITY_POOL_NAME_MAX + 12];
    size_t i;

    for (i = 0; i < log->pool_count; i++) {
        const struct activity_pool *pool = &log->pools[i];
        uint64_t parent = pool->device < log->device_count ? device_track(log, pool->device) : 0;

        if (!pool->reserved_peak_bytes)
            continue;
        snprintf(text, sizeof text, "%s: used", activity_pool_name(log, i, name));
        write_track(file, pool_track(log, i), parent, text, true);
        snprintf(text, sizeof text, "%s: reserved", name);
        write_track(file, pool_track(log, i) + 1, parent, text, true);
    }
}

/* Interns a text under iid: in names of events, or of annotations. */
static void write_name(FILE *file, unsigned kind, uint64_t iid, const char *text, unsigned flags)
{
    struct message packet = {.bytes = 0}, interned = {.bytes = 0}, name = {.bytes = 0};

    put_number(&name, NAME_IID, iid);
    put_text(&name, NAME_TEXT, text);
    put_message(&interned, kind, &name);
    put_number(&packet, PACKET_SEQUENCE, SEQUENCE);
    put_number(&packet, PACKET_SEQUENCE_FLAGS, flags);
    put_message(&packet, PACKET_INTERNED, &interned);
    write_packet(file, &packet);
}

/* Interns the names of the log as 1 + index, and the names of the kinds behind them. */
static void write_names(const struct activity_log *log, FILE *file)
{
    size_t i;

    write_name(file, INTERNED_ANNOTATION_NAMES, ANNOTATION_BYTES, "bytes", FLAG_CLEARED | FLAG_NEEDS_STATE);
    for (i = 0; i < log->name_count; i++)
        write_name(file, INTERNED_EVENT_NAMES, 1 + i, log->names[i][0] ? log->names[i] : "?", FLAG_NEEDS_STATE);
    for (i = 0; i < ACTIVITY_KIND_COUNT; i++)
        write_name(file, INTERNED_EVENT_NAMES, 1 + log->name_count + i, activity_kind_names[i], FLAG_NEEDS_STATE);
}

static void write_event(FILE *file, uint64_t ns, const struct message *event)
{
    struct message packet = {.bytes = 0};

    put_number(&packet, PACKET_TIMESTAMP, ns);
    put_number(&packet, PACKET_SEQUENCE, SEQUENCE);
    put_number(&packet, PACKET_SEQUENCE_FLAGS, FLAG_NEEDS_STATE);
    put_message(&packet, PACKET_TRACK_EVENT, event);
    write_packet(file, &packet);
}

/* Writes the beginning of a slice. Activities with both times get a flow from the call to the work. */
static void write_begin(const struct activity_log *log, FILE *file, const struct activity *a, uint64_t track,
                        uint64_t ns, bool work)
{
    struct message event = {.bytes = 0}, bytes = {.bytes = 0};

    put_number(&event, EVENT_TYPE, TYPE_BEGIN);
    put_number(&event, EVENT_NAME_IID,
               1 + (a->name < log->name_count ? a->name : log->name_count + (size_t)a->kind));
    put_number(&event, EVENT_TRACK, track);
    if (work && a->bytes) {
        put_number(&bytes, ANNOTATION_NAME_IID, ANNOTATION_BYTES);
        put_number(&bytes, ANNOTATION_UINT, a->bytes);
        put_message(&event, EVENT_ANNOTATION, &bytes);
    }
    if ((a->flags & ACTIVITY_FLAG_HOST) && (a->flags & ACTIVITY_FLAG_DEVICE))
        put_fixed64(&event, EVENT_FLOW, (uint64_t)(a - log->list) + 1);
    write_event(file, ns, &event);
}

static void write_end(FILE *file, uint64_t track, uint64_t ns)
{
    struct message event = {.bytes = 0};

    put_number(&event, EVENT_TYPE, TYPE_END);
    put_number(&event, EVENT_TRACK, track);
    write_event(file, ns, &event);
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
        write_end(file, thread_track(thread), open->end_ns[--open->depth]);
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
        write_begin(log, file, a, thread_track(a->thread), a->host_begin_ns, false);
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

/* The tracks of one stream: when the last slice of each ends. */
struct lanes {
    uint64_t end_ns[LANES];
    unsigned count;
};

/* Writes one piece of work to the first track of its stream that is free. If none is, cuts its beginning. */
static void write_work(const struct activity_log *log, FILE *file, const struct activity *a, struct lanes *lanes)
{
    uint64_t begin = a->device_begin_ns, end = a->device_end_ns, track;
    unsigned lane = 0;

    while (lane < LANES - 1 && lane < lanes->count && lanes->end_ns[lane] > begin)
        lane++;
    track = stream_track(log, a->stream, lane);
    if (lane >= lanes->count) {
        char name[64];

        snprintf(name, sizeof name, lane ? "stream %" PRIu64 " (%u)" : "stream %" PRIu64,
                 log->streams[a->stream].number, lane + 1);
        write_track(file, track, device_track(log, log->streams[a->stream].device), name, false);
        lanes->count = lane + 1;
    }
    begin = begin < lanes->end_ns[lane] ? lanes->end_ns[lane] : begin;
    end = end < begin ? begin : end;
    write_begin(log, file, a, track, begin, true);
    write_end(file, track, end);
    lanes->end_ns[lane] = end;
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

static void write_counter(FILE *file, uint64_t track, uint64_t ns, int64_t value)
{
    struct message event = {.bytes = 0};

    put_number(&event, EVENT_TYPE, TYPE_COUNTER);
    put_number(&event, EVENT_TRACK, track);
    put_number(&event, EVENT_COUNTER, (uint64_t)value);
    write_event(file, ns, &event);
}

/* Writes the changes of all devices; of several at the same time only the last. */
static void write_changes(const struct activity_log *log, FILE *file, struct change *changes, size_t count)
{
    int64_t now[ACTIVITY_DEVICES_MAX] = {0};
    size_t i;

    qsort(changes, count, sizeof *changes, compare_changes);
    for (i = 0; i < count; i++) {
        const struct change *change = &changes[i];

        now[change->device] += change->bytes;
        if (i + 1 < count && changes[i + 1].ns == change->ns && changes[i + 1].device == change->device)
            continue;
        write_counter(file, counter_track(log, change->device), change->ns, now[change->device]);
    }
}

static void write_pools(const struct activity_log *log, FILE *file)
{
    size_t i;

    for (i = 0; i < log->change_count; i++) {
        const struct activity_memory_change *change = &log->changes[i];

        if (!log->pools[change->pool].reserved_peak_bytes)
            continue;
        write_counter(file, pool_track(log, change->pool), change->ns, (int64_t)change->used_bytes);
        write_counter(file, pool_track(log, change->pool) + 1, change->ns, (int64_t)change->reserved_bytes);
    }
}

static bool write_streams(const struct activity_log *log, FILE *file)
{
    const struct activity **work = calloc(log->count + 1, sizeof *work);
    struct change *changes = calloc(2 * log->count + 1, sizeof *changes);
    struct lanes *lanes = calloc(log->stream_count + 1, sizeof *lanes);
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
            write_work(log, file, work[i], &lanes[work[i]->stream]);
        write_changes(log, file, changes, change_count);
    }
    free(work);
    free(changes);
    free(lanes);
    return fine;
}

bool activity_write_perfetto(const struct activity_log *log, FILE *file)
{
    write_tracks(log, file);
    write_pool_tracks(log, file);
    write_names(log, file);
    write_pools(log, file);
    return write_threads(log, file) && write_streams(log, file);
}
