/*
 * activity_read_leat.c - reads the traces that LEAT_TRACE and leat_trace_start() write. trace_file.h has the
 * format.
 */
#include "activity_join.h"
#include "activity_leat.h"
#include "activity_names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Where the operations of a chunk are, so that later chunks can supply their device times. */
struct block {
    uint64_t first_id; /* leati_trace_op_id() of the first */
    size_t count, index;
};

struct reader {
    struct activity_leat leat;
    struct block *blocks;
    size_t block_count, block_room;
    bool sorted;                           /* blocks */
    struct activity_part_list calls, work; /* foreign operations */
};

static bool no_memory(struct activity_leat *leat)
{
    return activity_input_fail(leat->input, "out of host memory");
}

static bool set_id(struct activity_leat *leat, struct activity_ids *ids, uint32_t id, uint32_t index,
                   const char *what)
{
    if (!activity_chunks_check_id(leat->input, id, what))
        return false;
    if (id >= ids->count) {
        size_t count = ids->count ? ids->count : 64;
        uint32_t *list;

        while (count <= id)
            count *= 2;
        list = realloc(ids->list, count * sizeof *list);
        if (!list)
            return no_memory(leat);
        memset(list + ids->count, 0xff, (count - ids->count) * sizeof *list);
        ids->list = list;
        ids->count = count;
    }
    ids->list[id] = index;
    return true;
}

static uint32_t get_id(const struct activity_ids *ids, uint32_t id)
{
    return id < ids->count ? ids->list[id] : ACTIVITY_NONE;
}

/* ---- records ---- */

bool activity_leat_string(struct activity_leat *leat, uint32_t id, const char *text)
{
    char *decoded = activity_name_decode(text);
    uint32_t name = activity_log_name(leat->log, decoded ? decoded : text);

    free(decoded);
    return name == ACTIVITY_NONE ? no_memory(leat) : set_id(leat, &leat->strings, id, name, "string");
}

static bool read_thread(struct activity_leat *leat, const void *record)
{
    struct leati_trace_thread thread;
    uint32_t index;

    memcpy(&thread, record, sizeof thread);
    index = activity_log_thread(leat->log, thread.id);
    if (index == ACTIVITY_NONE)
        return activity_input_fail(leat->input, "it has more than %d threads, or memory is short",
                                   ACTIVITY_THREADS_MAX);
    leat->log->threads[index].name = get_id(&leat->strings, thread.name);
    return set_id(leat, &leat->threads, thread.id, index, "thread");
}

static bool read_device(struct activity_leat *leat, const void *record)
{
    struct leati_trace_device device;
    uint32_t index;

    memcpy(&device, record, sizeof device);
    index =
        activity_log_device(leat->log, device.id, activity_name(leat->log, get_id(&leat->strings, device.name)));
    if (index == ACTIVITY_NONE)
        return activity_input_fail(leat->input, "it has more than %d devices, or memory is short",
                                   ACTIVITY_DEVICES_MAX);
    return set_id(leat, &leat->devices, device.id, index, "device");
}

static bool read_lane(struct activity_leat *leat, const void *record)
{
    struct leati_trace_lane lane;
    uint32_t index, device;

    memcpy(&lane, record, sizeof lane);
    device = get_id(&leat->devices, lane.device);
    if (device == ACTIVITY_NONE)
        return activity_input_fail(leat->input, "the file is damaged: lane %" PRIu32 " has no device", lane.id);
    index = activity_log_stream(leat->log, device, lane.serial);
    if (index == ACTIVITY_NONE)
        return activity_input_fail(leat->input, "it has more than %d streams, or memory is short",
                                   ACTIVITY_STREAMS_MAX);
    return set_id(leat, &leat->lanes, lane.id, index, "lane");
}

static enum activity_memory memory_of(unsigned memory)
{
    switch (memory) {
    case LEATI_TRACE_MEMORY_PAGEABLE:
        return ACTIVITY_MEMORY_PAGEABLE;
    case LEATI_TRACE_MEMORY_PINNED:
        return ACTIVITY_MEMORY_PINNED;
    case LEATI_TRACE_MEMORY_DEVICE:
        return ACTIVITY_MEMORY_DEVICE;
    case LEATI_TRACE_MEMORY_MANAGED:
        return ACTIVITY_MEMORY_MANAGED;
    case LEATI_TRACE_MEMORY_FILE:
        return ACTIVITY_MEMORY_FILE;
    default:
        return ACTIVITY_MEMORY_UNKNOWN;
    }
}

static bool read_pool(struct activity_leat *leat, const void *record)
{
    struct leati_trace_pool pool;
    struct activity_pool made = {.device = ACTIVITY_NONE};
    uint32_t index;

    memcpy(&pool, record, sizeof pool);
    made.name = get_id(&leat->strings, pool.name);
    made.device_name = get_id(&leat->strings, pool.device);
    made.memory = (uint8_t)memory_of(pool.memory);
    index = activity_log_pool(leat->log, &made);
    if (index == ACTIVITY_NONE)
        return activity_input_fail(leat->input, "it has more than %d pools, or memory is short",
                                   ACTIVITY_POOLS_MAX);
    return set_id(leat, &leat->pools, pool.id, index, "pool");
}

bool activity_leat_change(struct activity_leat *leat, const void *record, struct activity_memory_change *change)
{
    struct leati_trace_pool_memory memory;

    memcpy(&memory, record, sizeof memory);
    *change = (struct activity_memory_change){.ns = memory.time_ns,
                                              .used_bytes = memory.used_bytes,
                                              .reserved_bytes = memory.reserved_bytes,
                                              .pool = get_id(&leat->pools, memory.pool)};
    if (change->pool == ACTIVITY_NONE)
        return activity_input_fail(leat->input, "the file is damaged: there is no pool %" PRIu32, memory.pool);
    if (memory.used_bytes > ACTIVITY_BYTES_MAX || memory.reserved_bytes > ACTIVITY_BYTES_MAX)
        return activity_input_fail(
            leat->input, "the file is damaged: pool %" PRIu32 " has %" PRIu64 " bytes", memory.pool,
            memory.used_bytes > ACTIVITY_BYTES_MAX ? memory.used_bytes : memory.reserved_bytes);
    return true;
}

static enum activity_kind kind_of(uint8_t kind)
{
    switch (kind) {
    case LEATI_TRACE_COPY:
    case LEATI_TRACE_LAYOUT:
        return ACTIVITY_COPY;
    case LEATI_TRACE_FILL:
        return ACTIVITY_FILL;
    case LEATI_TRACE_KERNEL:
        return ACTIVITY_KERNEL;
    case LEATI_TRACE_HOST_FUNCTION:
        return ACTIVITY_HOST_FUNCTION;
    case LEATI_TRACE_EVENT_WAIT:
        return ACTIVITY_STREAM_WAIT;
    case LEATI_TRACE_SYNCHRONIZE:
        return ACTIVITY_HOST_WAIT;
    case LEATI_TRACE_ALLOC:
    case LEATI_TRACE_PIN:
        return ACTIVITY_ALLOC;
    case LEATI_TRACE_FREE:
    case LEATI_TRACE_UNPIN:
        return ACTIVITY_FREE;
    case LEATI_TRACE_PAGE_MOVE:
        return ACTIVITY_PAGE_MOVE;
    case LEATI_TRACE_FILE_READ:
        return ACTIVITY_FILE_READ;
    case LEATI_TRACE_FILE_WRITE:
        return ACTIVITY_FILE_WRITE;
    case LEATI_TRACE_RANGE:
        return ACTIVITY_RANGE;
    default:
        return ACTIVITY_OTHER;
    }
}

struct activity activity_leat_op(const struct activity_leat *leat, const struct leati_trace_chunk *chunk,
                                 const void *record)
{
    struct leati_trace_op op;
    struct activity a = {.range = ACTIVITY_NONE};

    memcpy(&op, record, sizeof op);
    a.kind = (uint8_t)kind_of(op.kind);
    a.host_begin_ns = op.host_start_ns;
    a.host_end_ns = leati_trace_op_host_end(&op);
    if (op.host_start_ns)
        a.flags |= ACTIVITY_FLAG_HOST;
    a.device_begin_ns = op.device_start_ns;
    a.device_end_ns = op.device_end_ns;
    if (op.device_start_ns && op.device_end_ns)
        a.flags |= ACTIVITY_FLAG_DEVICE;
    if (op.how & LEATI_TRACE_SYNCHRONOUS)
        a.flags |= ACTIVITY_FLAG_BLOCKS;
    if (op.status < 0)
        a.flags |= ACTIVITY_FLAG_FAILED;
    a.bytes = op.bytes;
    a.pieces = op.pieces;
    a.stream = get_id(&leat->lanes, op.lane);
    a.thread = get_id(&leat->threads, chunk->thread);
    a.name = get_id(&leat->strings, op.name);
    a.place = get_id(&leat->strings, op.place);
    a.from_memory = (uint8_t)memory_of(leati_trace_op_source(&op));
    a.to_memory = (uint8_t)memory_of(leati_trace_op_destination(&op));
    if (op.kind == LEATI_TRACE_PIN || op.kind == LEATI_TRACE_UNPIN)
        a.to_memory = ACTIVITY_MEMORY_PINNED;
    if (!leati_trace_is_foreign(chunk) && (a.kind == ACTIVITY_COPY || a.kind == ACTIVITY_ALLOC ||
                                           a.kind == ACTIVITY_FREE || a.kind == ACTIVITY_STREAM_WAIT))
        a.address = op.value;
    return a;
}

static bool read_state(struct activity_leat *leat, const void *record)
{
    struct leati_trace_state state;

    memcpy(&state, record, sizeof state);
    leat->log->lost = state.lost_ops;
    leat->ended = state.ended == 1;
    return true;
}

static bool read_cost(struct activity_leat *leat, const void *record)
{
    struct leati_trace_cost cost;
    uint32_t device;

    memcpy(&cost, record, sizeof cost);
    device = get_id(&leat->devices, cost.device);
    if (device != ACTIVITY_NONE && cost.samples)
        leat->log->devices[device].recording_ns = cost.host_ns / cost.samples;
    return true;
}

static bool read_source(struct activity_leat *leat, const void *record)
{
    struct leati_trace_source source;

    memcpy(&source, record, sizeof source);
    leat->log->calls_by = source.by == LEATI_TRACE_BY_CUPTI    ? ACTIVITY_CALLS_BY_CUPTI
                          : source.by == LEATI_TRACE_BY_EVENTS ? ACTIVITY_CALLS_BY_EVENTS
                                                               : ACTIVITY_CALLS_NONE;
    leat->log->calls_detail = get_id(&leat->strings, source.detail);
    return true;
}

bool activity_leat_define(struct activity_leat *leat, const struct leati_trace_chunk *chunk, const void *record)
{
    switch (chunk->type) {
    case LEATI_TRACE_CHUNK_THREADS:
        return read_thread(leat, record);
    case LEATI_TRACE_CHUNK_DEVICES:
        return read_device(leat, record);
    case LEATI_TRACE_CHUNK_LANES:
        return read_lane(leat, record);
    case LEATI_TRACE_CHUNK_POOLS:
        return read_pool(leat, record);
    case LEATI_TRACE_CHUNK_SOURCE:
        return read_source(leat, record);
    case LEATI_TRACE_CHUNK_COSTS:
        return read_cost(leat, record);
    default:
        return read_state(leat, record);
    }
}

void activity_leat_clear(struct activity_leat *leat)
{
    free(leat->strings.list);
    free(leat->threads.list);
    free(leat->devices.list);
    free(leat->lanes.list);
    free(leat->pools.list);
}

/* ---- a whole run in memory ---- */

static bool add_block(void *context, const struct leati_trace_chunk *chunk)
{
    struct reader *reader = context;

    if (leati_trace_is_foreign(chunk))
        return true;
    if (reader->block_count == reader->block_room) {
        size_t room = reader->block_room ? reader->block_room * 2 : 64;
        struct block *blocks = realloc(reader->blocks, room * sizeof *blocks);

        if (!blocks)
            return no_memory(&reader->leat);
        reader->blocks = blocks;
        reader->block_room = room;
    }
    reader->blocks[reader->block_count++] =
        (struct block){leati_trace_op_id(chunk->thread, chunk->first), chunk->count, reader->leat.log->count};
    reader->sorted = false;
    return true;
}

static int compare_blocks(const void *a, const void *b)
{
    const struct block *one = a, *other = b;

    return one->first_id == other->first_id ? 0 : one->first_id < other->first_id ? -1 : 1;
}

/* Returns the index of an operation by its id, or SIZE_MAX if it is not in the file. */
static size_t find_op(struct reader *reader, uint64_t id)
{
    size_t low = 0, high;

    if (!reader->sorted && reader->block_count) {
        qsort(reader->blocks, reader->block_count, sizeof *reader->blocks, compare_blocks);
        reader->sorted = true;
    }
    for (high = reader->block_count; low < high;) { /* find the first block behind the id */
        size_t middle = low + (high - low) / 2;

        if (reader->blocks[middle].first_id <= id)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || id - reader->blocks[low - 1].first_id >= reader->blocks[low - 1].count)
        return SIZE_MAX;
    return reader->blocks[low - 1].index + (size_t)(id - reader->blocks[low - 1].first_id);
}

/* Gives an operation its device times. Times of an operation that is not in the file are ignored. */
static bool read_times(struct reader *reader, const void *record)
{
    struct leati_trace_times times;
    struct activity *a;
    size_t index;

    memcpy(&times, record, sizeof times);
    index = find_op(reader, times.id);
    if (index == SIZE_MAX)
        return true;
    a = &reader->leat.log->list[index];
    a->device_begin_ns = times.device_start_ns;
    a->device_end_ns = times.device_end_ns;
    if (times.device_start_ns && times.device_end_ns)
        a->flags |= ACTIVITY_FLAG_DEVICE;
    return true;
}

static bool read_string(void *context, uint32_t id, const char *text)
{
    struct reader *reader = context;

    return activity_leat_string(&reader->leat, id, text);
}

/* Keeps a call, or work, that another recorder has told of. */
static bool add_foreign(struct reader *reader, const struct activity *activity, const void *record)
{
    struct activity_part part = {.activity = *activity};
    struct leati_trace_op op;

    memcpy(&op, record, sizeof op);
    part.correlation = op.value;
    return activity_part_add(reader->leat.input,
                             activity->flags & ACTIVITY_FLAG_HOST ? &reader->calls : &reader->work, &part);
}

static bool read_record(void *context, const struct leati_trace_chunk *chunk, uint32_t index, const void *record)
{
    struct reader *reader = context;
    struct activity_memory_change change;
    struct activity a;

    (void)index;
    switch (chunk->type) {
    case LEATI_TRACE_CHUNK_OPS:
        a = activity_leat_op(&reader->leat, chunk, record);
        if (leati_trace_is_foreign(chunk))
            return add_foreign(reader, &a, record);
        return activity_log_add(reader->leat.log, &a) || no_memory(&reader->leat);
    case LEATI_TRACE_CHUNK_TIMES:
        return read_times(reader, record);
    case LEATI_TRACE_CHUNK_POOL_MEMORY:
        return activity_leat_change(&reader->leat, record, &change) &&
               (activity_log_change(reader->leat.log, &change) || no_memory(&reader->leat));
    default:
        return activity_leat_define(&reader->leat, chunk, record);
    }
}

/* ---- waits of streams ---- */

/* A call in the order in which the streams got their work. */
struct submitted {
    uint64_t ns;
    size_t index;
};

static int compare_submitted(const void *a, const void *b)
{
    const struct submitted *one = a, *other = b;

    if (one->ns != other->ns)
        return one->ns < other->ns ? -1 : 1;
    return one->index == other->index ? 0 : one->index < other->index ? -1 : 1;
}

/*
 * The recorder does not time waits of streams. A stream waits from the end of its own work before the wait, or the
 * call, until the work before the event is complete: it gives each wait these times if that is later.
 * ends: when the work of each stream so far is complete; moments: when each event record is complete. Both are
 * zero.
 */
static void time_waits(struct reader *reader, const struct submitted *order, size_t count, uint64_t *ends,
                       uint64_t *moments)
{
    struct activity_log *log = reader->leat.log;
    size_t i;

    for (i = 0; i < count; i++) {
        struct activity *a = &log->list[order[i].index];
        uint64_t *end = &ends[a->stream];

        if (a->kind == ACTIVITY_STREAM_WAIT) {
            size_t record = find_op(reader, a->address);
            uint64_t until = record < log->count ? moments[record] : 0;
            uint64_t from = *end > a->host_end_ns ? *end : a->host_end_ns;

            a->address = 0;
            if (until <= from)
                continue;
            a->device_begin_ns = from;
            a->device_end_ns = until;
            a->flags |= ACTIVITY_FLAG_DEVICE;
        }
        moments[order[i].index] = *end;
        if ((a->flags & ACTIVITY_FLAG_DEVICE) && a->device_end_ns > *end)
            *end = a->device_end_ns;
    }
}

static bool find_waits(struct reader *reader)
{
    const struct activity_log *log = reader->leat.log;
    struct submitted *order = calloc(log->count + 1, sizeof *order);
    uint64_t *ends = calloc(log->stream_count + 1, sizeof *ends);
    uint64_t *moments = calloc(log->count + 1, sizeof *moments);
    bool fine = order && ends && moments;
    size_t count = 0, i;

    for (i = 0; i < log->count && fine; i++)
        if (log->list[i].stream < log->stream_count)
            order[count++] = (struct submitted){log->list[i].host_begin_ns, i};
    if (fine) {
        qsort(order, count, sizeof *order, compare_submitted);
        time_waits(reader, order, count, ends, moments);
    } else
        no_memory(&reader->leat);
    free(order);
    free(ends);
    free(moments);
    return fine;
}

/* ---- foreign operations ---- */

/* The time of an operation of leat's on its thread. */
struct inside {
    uint64_t begin_ns, end_ns;
    uint32_t thread;
};

static int compare_insides(const void *a, const void *b)
{
    const struct inside *one = a, *other = b;

    if (one->thread != other->thread)
        return one->thread < other->thread ? -1 : 1;
    return one->begin_ns == other->begin_ns ? 0 : one->begin_ns < other->begin_ns ? -1 : 1;
}

/* Returns the number of operations that are sorted before a moment of a thread, or begin at it. */
static size_t count_before(const struct inside *list, size_t count, uint32_t thread, uint64_t ns)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (list[middle].thread < thread || (list[middle].thread == thread && list[middle].begin_ns <= ns))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Finds the calls that a thread made while it was in one of leat's operations, which are sorted, and the calls of
 * CUDA's runtime that leat served: their work is that of the operations within them. */
static void find_served(struct activity_part_list *calls, const struct inside *list, size_t count)
{
    for (size_t i = 0; i < calls->count; i++) {
        struct activity_part *call = &calls->list[i];
        const struct activity *a = &call->activity;
        size_t next = count_before(list, count, a->thread, a->host_begin_ns);

        call->dropped = next > 0 && list[next - 1].thread == a->thread && a->host_end_ns <= list[next - 1].end_ns;
        call->hollow = next < count && list[next].thread == a->thread && list[next].end_ns <= a->host_end_ns;
    }
}

/* Adds the foreign operations to the log, without those that are parts of leat's own. */
static bool add_foreign_ops(struct reader *reader)
{
    struct activity_log *log = reader->leat.log;
    struct inside *list = reader->calls.count ? calloc(log->count + 1, sizeof *list) : NULL;
    size_t count = 0, i;

    if (reader->calls.count && !list)
        return no_memory(&reader->leat);
    for (i = 0; i < log->count && list; i++) {
        const struct activity *a = &log->list[i];

        if (a->kind != ACTIVITY_RANGE && (a->flags & ACTIVITY_FLAG_HOST) && a->thread != ACTIVITY_NONE)
            list[count++] = (struct inside){a->host_begin_ns, a->host_end_ns, a->thread};
    }
    if (list) {
        qsort(list, count, sizeof *list, compare_insides);
        find_served(&reader->calls, list, count);
    }
    free(list);
    return activity_join(reader->leat.input, log, &reader->calls, &reader->work);
}

bool activity_read_leat(struct activity_input *input, struct activity_log *log)
{
    static const struct activity_chunk_calls calls = {
        .string = read_string, .ops = add_block, .record = read_record};
    struct reader reader = {.leat = {.input = input, .log = log}};
    bool fine;

    log->source = "leat";
    log->calls_detail = ACTIVITY_NONE;
    fine = activity_chunks_read(input, &calls, &reader) && find_waits(&reader) && add_foreign_ops(&reader);
    log->truncated = !reader.leat.ended;
    activity_leat_clear(&reader.leat);
    free(reader.blocks);
    free(reader.calls.list);
    free(reader.work.list);
    return fine;
}
