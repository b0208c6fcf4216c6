/*
 * activity_perfetto_pass.c - writes a trace of leat's format for ui.perfetto.dev while it reads it, for traces
 * that are too long for memory. The memory that it needs does not depend on how many operations there are.
 *
 * What the file has in another order than a timeline needs is held back in tables of fixed size: operations whose
 * device times come later, and work, so that it can be written in the order of time. What does not come in time
 * for that is left out, and counted. Ranges are in the file when they end, so they have tracks of their own.
 */
#include "activity_leat.h"
#include "activity_perfetto.h"
#include "perfetto.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    PENDING = 1 << 16, /* a power of two */
    HELD = 1 << 15,    /* work that is put in order */
    RUNNING = 1 << 12, /* copies of which the ends are not counted yet */
    DEPTHS = 64        /* tracks of nested ranges of a thread */
};

/* Above the numbers of all other tracks: there are at most 65536 threads, streams and pools, with 16 each. */
#define RANGE_TRACKS (UINT64_C(1) << 20)

/* An operation whose device times come later, or work. */
struct item {
    uint64_t id; /* 0: none */
    struct activity activity;
};

/* The end of a copy. */
struct end {
    uint64_t ns;
    int64_t bytes;
    uint32_t device;
};

struct pass {
    struct activity_leat leat;
    FILE *file;
    uint64_t start_ns;
    size_t names, threads, devices; /* that are written */
    struct activity_lanes *lanes;   /* by stream */
    size_t lane_count;
    uint64_t *depths; /* by thread: bits of the depths of which the tracks are defined */
    size_t depth_count;
    bool *pools; /* by pool: its tracks are defined */
    size_t pool_count;
    struct item *pending, *held;
    uint32_t *heap, *unused; /* indices of held: those in use, the earliest first, and the others */
    size_t heap_count, unused_count;
    struct end *ends; /* the earliest first */
    size_t end_count;
    int64_t in_flight[ACTIVITY_DEVICES_MAX];
    uint64_t missed;
};

static bool no_memory(struct pass *pass)
{
    return activity_input_fail(pass->leat.input, "out of host memory");
}

/* Makes room for an index in a list, and sets what is new to zero. */
static bool grow(struct pass *pass, void **list, size_t *count, size_t index, size_t size)
{
    size_t wanted = *count ? *count : 64;
    void *grown;

    if (index < *count)
        return true;
    while (wanted <= index)
        wanted *= 2;
    grown = realloc(*list, wanted * size);
    if (!grown)
        return no_memory(pass);
    memset((char *)grown + *count * size, 0, (wanted - *count) * size);
    *list = grown;
    *count = wanted;
    return true;
}

static uint64_t since_start(const struct pass *pass, uint64_t ns)
{
    return ns > pass->start_ns ? ns - pass->start_ns : 0;
}

/* ---- bytes in flight ---- */

static void sift_ends(struct pass *pass, size_t at)
{
    struct end *ends = pass->ends, moved = ends[at];

    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < pass->end_count && ends[child + 1].ns < ends[child].ns)
            child++;
        if (child >= pass->end_count || ends[child].ns >= moved.ns)
            break;
        ends[at] = ends[child];
        at = child;
    }
    ends[at] = moved;
}

/* Counts the end of the copy that ends first. */
static void count_end(struct pass *pass)
{
    struct end end = pass->ends[0];

    pass->ends[0] = pass->ends[--pass->end_count];
    if (pass->end_count)
        sift_ends(pass, 0);
    pass->in_flight[end.device] -= end.bytes;
    perfetto_count(pass->file, activity_counter_track(end.device), end.ns, pass->in_flight[end.device]);
}

static void count_copy(struct pass *pass, const struct activity *a)
{
    uint32_t device = activity_device(pass->leat.log, a);
    size_t at;

    while (pass->end_count && pass->ends[0].ns <= a->device_begin_ns)
        count_end(pass);
    if (!activity_is_copy(a) || !a->bytes || a->bytes >= INT64_MAX >> 20)
        return;
    if (pass->end_count == RUNNING)
        count_end(pass);
    pass->in_flight[device] += (int64_t)a->bytes;
    perfetto_count(pass->file, activity_counter_track(device), a->device_begin_ns, pass->in_flight[device]);
    for (at = pass->end_count++; at && pass->ends[(at - 1) / 2].ns > a->device_end_ns; at = (at - 1) / 2)
        pass->ends[at] = pass->ends[(at - 1) / 2];
    pass->ends[at] = (struct end){a->device_end_ns, (int64_t)a->bytes, device};
}

/* ---- work, in the order of time ---- */

static uint64_t begin_of(const struct pass *pass, size_t at)
{
    return pass->held[pass->heap[at]].activity.device_begin_ns;
}

/* Writes the earliest work that is held. */
static void write_earliest(struct pass *pass)
{
    uint32_t first = pass->heap[0], moved = pass->heap[--pass->heap_count];
    const struct item *item = &pass->held[first];
    uint64_t moved_ns = pass->held[moved].activity.device_begin_ns;
    size_t at = 0;

    while (2 * at + 1 < pass->heap_count) {
        size_t child = 2 * at + 1;

        if (child + 1 < pass->heap_count && begin_of(pass, child + 1) < begin_of(pass, child))
            child++;
        if (begin_of(pass, child) >= moved_ns)
            break;
        pass->heap[at] = pass->heap[child];
        at = child;
    }
    pass->heap[at] = moved;
    activity_write_work(pass->leat.log, pass->file, &item->activity, item->id,
                        &pass->lanes[item->activity.stream]);
    count_copy(pass, &item->activity);
    pass->unused[pass->unused_count++] = first;
}

static bool hold_work(struct pass *pass, const struct activity *a, uint64_t id)
{
    uint32_t index;
    size_t at;
    void *lanes = pass->lanes;

    if (a->stream >= pass->leat.log->stream_count)
        return true;
    if (!grow(pass, &lanes, &pass->lane_count, a->stream, sizeof *pass->lanes))
        return false;
    pass->lanes = lanes;
    if (!pass->unused_count)
        write_earliest(pass);
    index = pass->unused[--pass->unused_count];
    pass->held[index] = (struct item){id, *a};
    for (at = pass->heap_count++; at && begin_of(pass, (at - 1) / 2) > a->device_begin_ns; at = (at - 1) / 2)
        pass->heap[at] = pass->heap[(at - 1) / 2];
    pass->heap[at] = index;
    return true;
}

/* ---- records ---- */

/* The times of work that runs backwards, since two clocks differ a little, become a moment. */
static void set_device_times(const struct pass *pass, struct activity *a)
{
    a->device_begin_ns = since_start(pass, a->device_begin_ns);
    a->device_end_ns = since_start(pass, a->device_end_ns);
    if (a->device_end_ns < a->device_begin_ns)
        a->device_end_ns = a->device_begin_ns;
}

/* Writes the call of an operation, or a range. */
static bool write_call(struct pass *pass, const struct activity *a, uint64_t id, uint32_t depth)
{
    uint64_t track = activity_thread_track(a->thread);
    void *depths = pass->depths;

    if (a->kind == ACTIVITY_RANGE) {
        if (!grow(pass, &depths, &pass->depth_count, a->thread, sizeof *pass->depths))
            return false;
        pass->depths = depths;
        depth %= DEPTHS;
        track = RANGE_TRACKS + (uint64_t)a->thread * DEPTHS + depth;
        if (!(pass->depths[a->thread] >> depth & 1))
            perfetto_track(pass->file, track, activity_thread_track(a->thread), "ranges", false);
        pass->depths[a->thread] |= UINT64_C(1) << depth;
    }
    activity_write_begin(pass->file, a, id, track, a->host_begin_ns, false);
    perfetto_slice_end(pass->file, track, a->host_end_ns);
    return true;
}

/* Returns true if device times of the operation may come later. */
static bool may_get_times(const struct activity *a, const struct leati_trace_op *op)
{
    return a->stream != ACTIVITY_NONE && !(op->how & LEATI_TRACE_TIMES_LOST) &&
           !(a->flags & ACTIVITY_FLAG_FAILED) &&
           (a->kind == ACTIVITY_COPY || a->kind == ACTIVITY_FILL || a->kind == ACTIVITY_KERNEL ||
            a->kind == ACTIVITY_HOST_FUNCTION || a->kind == ACTIVITY_PAGE_MOVE || a->kind == ACTIVITY_FILE_READ ||
            a->kind == ACTIVITY_FILE_WRITE);
}

static struct item *pending_of(const struct pass *pass, uint64_t id)
{
    /* The operations of a thread have consecutive ids. */
    return &pass->pending[(id + (id >> 40) * 40503) & (PENDING - 1)];
}

/* Parts of a foreign operation may be anywhere in the file, and those of leat's operations must be left out. */
static bool refuse_foreign(void *context, const struct leati_trace_chunk *chunk)
{
    struct pass *pass = context;

    return !leati_trace_is_foreign(chunk) ||
           activity_input_fail(pass->leat.input,
                               "it has calls and work by CUPTI (leat run --trace), which --one-pass cannot join; "
                               "write the timeline without --one-pass");
}

static bool take_op(struct pass *pass, const struct leati_trace_chunk *chunk, uint32_t index, const void *record)
{
    struct activity a = activity_leat_op(&pass->leat, chunk, record);
    uint64_t id = leati_trace_op_id(chunk->thread, chunk->first + index);
    bool waits;
    struct leati_trace_op op;

    memcpy(&op, record, sizeof op);
    a.host_begin_ns = since_start(pass, a.host_begin_ns);
    a.host_end_ns = since_start(pass, a.host_end_ns);
    set_device_times(pass, &a);
    waits = !(a.flags & ACTIVITY_FLAG_DEVICE) && may_get_times(&a, &op);
    if (waits)
        *pending_of(pass, id) = (struct item){id, a};
    if ((a.flags & ACTIVITY_FLAG_DEVICE) && !hold_work(pass, &a, id))
        return false;
    if (waits)
        a.flags |= ACTIVITY_FLAG_DEVICE; /* so that an arrow begins at the call */
    return !(a.flags & ACTIVITY_FLAG_HOST) || a.thread >= pass->leat.log->thread_count ||
           write_call(pass, &a, id, op.pieces);
}

static bool take_times(struct pass *pass, const void *record)
{
    struct leati_trace_times times;
    struct item *item;

    memcpy(&times, record, sizeof times);
    item = pending_of(pass, times.id);
    if (!item->id || item->id != times.id) {
        pass->missed++;
        return true;
    }
    item->id = 0;
    if (!times.device_start_ns || !times.device_end_ns)
        return true;
    item->activity.flags |= ACTIVITY_FLAG_DEVICE;
    item->activity.device_begin_ns = times.device_start_ns;
    item->activity.device_end_ns = times.device_end_ns;
    set_device_times(pass, &item->activity);
    return hold_work(pass, &item->activity, times.id);
}

static bool take_memory(struct pass *pass, const void *record)
{
    struct activity_memory_change change;
    void *pools = pass->pools;
    uint64_t ns;

    if (!activity_leat_change(&pass->leat, record, &change))
        return false;
    if (!grow(pass, &pools, &pass->pool_count, change.pool, sizeof *pass->pools))
        return false;
    pass->pools = pools;
    if (!pass->pools[change.pool])
        activity_define_pool(pass->leat.log, pass->file, change.pool);
    pass->pools[change.pool] = true;
    ns = since_start(pass, change.ns);
    perfetto_count(pass->file, activity_pool_track(change.pool), ns, (int64_t)change.used_bytes);
    perfetto_count(pass->file, activity_pool_track(change.pool) + 1, ns, (int64_t)change.reserved_bytes);
    return true;
}

/* Writes names and tracks that are new. */
static void write_new(struct pass *pass)
{
    const struct activity_log *log = pass->leat.log;

    for (; pass->names < log->name_count; pass->names++)
        activity_perfetto_name(log, pass->file, pass->names);
    for (; pass->threads < log->thread_count; pass->threads++)
        activity_define_thread(log, pass->file, pass->threads);
    for (; pass->devices < log->device_count; pass->devices++)
        activity_define_device(log, pass->file, pass->devices);
}

static void take_start(void *context, const struct leati_trace_header *header)
{
    struct pass *pass = context;

    pass->start_ns = header->start_ns;
    activity_perfetto_kinds(pass->file);
}

static bool take_string(void *context, uint32_t id, const char *text)
{
    struct pass *pass = context;
    bool fine = activity_leat_string(&pass->leat, id, text);

    write_new(pass);
    return fine;
}

static bool take_record(void *context, const struct leati_trace_chunk *chunk, uint32_t index, const void *record)
{
    struct pass *pass = context;
    bool fine;

    if (ferror(pass->file))
        return activity_input_fail(pass->leat.input, "the timeline cannot be written");
    switch (chunk->type) {
    case LEATI_TRACE_CHUNK_OPS:
        return take_op(pass, chunk, index, record);
    case LEATI_TRACE_CHUNK_TIMES:
        return take_times(pass, record);
    case LEATI_TRACE_CHUNK_POOL_MEMORY:
        return take_memory(pass, record);
    default:
        fine = activity_leat_define(&pass->leat, chunk, record);
        write_new(pass);
        return fine;
    }
}

/* ---- the whole ---- */

static bool make_tables(struct pass *pass)
{
    uint32_t i;

    pass->pending = calloc(PENDING, sizeof *pass->pending);
    pass->held = calloc(HELD, sizeof *pass->held);
    pass->heap = calloc(HELD, sizeof *pass->heap);
    pass->unused = calloc(HELD, sizeof *pass->unused);
    pass->ends = calloc(RUNNING, sizeof *pass->ends);
    if (!pass->pending || !pass->held || !pass->heap || !pass->unused || !pass->ends)
        return no_memory(pass);
    for (i = 0; i < HELD; i++)
        pass->unused[pass->unused_count++] = i;
    return true;
}

bool activity_perfetto_pass(const char *path, FILE *file, uint64_t *missed, char error[ACTIVITY_ERROR_MAX])
{
    static const struct activity_chunk_calls calls = {
        .start = take_start, .string = take_string, .ops = refuse_foreign, .record = take_record};
    struct activity_input input;
    struct pass pass = {.leat = {.input = &input, .log = activity_log_create()}, .file = file};
    bool fine = activity_input_open(&input, path, error);

    if (fine && !pass.leat.log)
        fine = no_memory(&pass);
    if (fine && !activity_input_is_leat(&input))
        fine = activity_input_fail(&input, "--one-pass reads traces of leat (LEAT_TRACE) only");
    fine = fine && make_tables(&pass) && activity_chunks_read(&input, &calls, &pass);
    while (fine && pass.heap_count)
        write_earliest(&pass);
    while (fine && pass.end_count)
        count_end(&pass);
    *missed = pass.missed;
    activity_input_close(&input);
    activity_leat_clear(&pass.leat);
    activity_log_destroy(pass.leat.log);
    free(pass.lanes);
    free(pass.depths);
    free(pass.pools);
    free(pass.pending);
    free(pass.held);
    free(pass.heap);
    free(pass.unused);
    free(pass.ends);
    return fine;
}
