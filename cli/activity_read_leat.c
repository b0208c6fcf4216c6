/*
 * activity_read_leat.c - reads the traces that LEAT_TRACE and leat_trace_start() write. trace_file.h has the
 * format.
 */
#include "activity_join.h"
#include "activity_names.h"
#include "activity_read.h"
#include "trace_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Larger ids are taken for damage, so that a damaged file does not make the reader allocate much. */
enum { ID_MAX = 1 << 22 };

/* A table from ids of the file to indices of the log; ACTIVITY_NONE for ids without a definition. */
struct ids {
    uint32_t *list;
    size_t count;
};

/* Where the operations of a chunk are, so that later chunks can supply their device times. */
struct block {
    uint64_t first_id; /* leati_trace_op_id() of the first */
    size_t count, index;
};

struct reader {
    struct activity_input *input;
    struct activity_log *log;
    unsigned char *payload;
    struct ids strings, threads, devices, lanes;
    struct block *blocks;
    size_t block_count, block_room;
    bool sorted;                           /* blocks */
    struct activity_part_list calls, work; /* foreign operations */
    bool ended;
};

static bool no_memory(struct reader *reader)
{
    return activity_input_fail(reader->input, "out of host memory");
}

static bool set_id(struct reader *reader, struct ids *ids, uint32_t id, uint32_t index, const char *what)
{
    if (id == 0 || id > ID_MAX)
        return activity_input_fail(reader->input, "the file is damaged: a %s has the id %" PRIu32, what, id);
    if (id >= ids->count) {
        size_t count = ids->count ? ids->count : 64;
        uint32_t *list;

        while (count <= id)
            count *= 2;
        list = realloc(ids->list, count * sizeof *list);
        if (!list)
            return no_memory(reader);
        memset(list + ids->count, 0xff, (count - ids->count) * sizeof *list);
        ids->list = list;
        ids->count = count;
    }
    ids->list[id] = index;
    return true;
}

static uint32_t get_id(const struct ids *ids, uint32_t id)
{
    return id < ids->count ? ids->list[id] : ACTIVITY_NONE;
}

/* ---- chunks ---- */

static uint32_t add_name(struct reader *reader, const char *text)
{
    char *decoded = activity_name_decode(text);
    uint32_t name = activity_log_name(reader->log, decoded ? decoded : text);

    free(decoded);
    return name;
}

static bool read_strings(struct reader *reader, const struct leati_trace_chunk *chunk)
{
    uint32_t at = 0, i;

    for (i = 0; i < chunk->count; i++) {
        struct leati_trace_string string;
        char text[LEATI_TRACE_STRING_BYTES_MAX + 1];
        uint32_t name;

        if (chunk->payload_bytes - at < sizeof string)
            break;
        memcpy(&string, reader->payload + at, sizeof string);
        at += (uint32_t)sizeof string;
        if (string.bytes > LEATI_TRACE_STRING_BYTES_MAX || string.bytes > chunk->payload_bytes - at)
            break;
        memcpy(text, reader->payload + at, string.bytes);
        text[string.bytes] = '\0';
        at += (string.bytes + 7) & ~7u;
        name = add_name(reader, text);
        if (name == ACTIVITY_NONE)
            return no_memory(reader);
        if (!set_id(reader, &reader->strings, string.id, name, "string"))
            return false;
        if (at > chunk->payload_bytes)
            break;
    }
    if (i < chunk->count)
        return activity_input_fail(reader->input, "the file is damaged: a string ends behind its chunk");
    return true;
}

static bool read_thread(struct reader *reader, const void *record)
{
    struct leati_trace_thread thread;
    uint32_t index;

    memcpy(&thread, record, sizeof thread);
    index = activity_log_thread(reader->log, thread.id);
    if (index == ACTIVITY_NONE)
        return activity_input_fail(reader->input, "it has more than %d threads, or memory is short",
                                   ACTIVITY_THREADS_MAX);
    reader->log->threads[index].name = get_id(&reader->strings, thread.name);
    return set_id(reader, &reader->threads, thread.id, index, "thread");
}

static bool read_device(struct reader *reader, const void *record)
{
    struct leati_trace_device device;
    uint32_t index;

    memcpy(&device, record, sizeof device);
    index = activity_log_device(reader->log, device.id,
                                activity_name(reader->log, get_id(&reader->strings, device.name)));
    if (index == ACTIVITY_NONE)
        return activity_input_fail(reader->input, "it has more than %d devices, or memory is short",
                                   ACTIVITY_DEVICES_MAX);
    return set_id(reader, &reader->devices, device.id, index, "device");
}

static bool read_lane(struct reader *reader, const void *record)
{
    struct leati_trace_lane lane;
    uint32_t index, device;

    memcpy(&lane, record, sizeof lane);
    device = get_id(&reader->devices, lane.device);
    if (device == ACTIVITY_NONE)
        return activity_input_fail(reader->input, "the file is damaged: lane %" PRIu32 " has no device", lane.id);
    index = activity_log_stream(reader->log, device, lane.serial);
    if (index == ACTIVITY_NONE)
        return activity_input_fail(reader->input, "it has more than %d streams, or memory is short",
                                   ACTIVITY_STREAMS_MAX);
    return set_id(reader, &reader->lanes, lane.id, index, "lane");
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

/* Keeps a call, or work, that another recorder has told of. */
static bool add_foreign(struct reader *reader, const struct activity *activity, uint64_t correlation)
{
    struct activity_part part = {.activity = *activity, .correlation = correlation};

    return activity_parts_add(activity->flags & ACTIVITY_FLAG_HOST ? &reader->calls : &reader->work, &part) ||
           no_memory(reader);
}

static bool read_op(struct reader *reader, const struct leati_trace_chunk *chunk, const void *record)
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
    a.stream = get_id(&reader->lanes, op.lane);
    a.thread = get_id(&reader->threads, chunk->thread);
    a.name = get_id(&reader->strings, op.name);
    a.place = get_id(&reader->strings, op.place);
    a.from_memory = (uint8_t)memory_of(leati_trace_op_source(&op));
    a.to_memory = (uint8_t)memory_of(leati_trace_op_destination(&op));
    if (op.kind == LEATI_TRACE_PIN || op.kind == LEATI_TRACE_UNPIN)
        a.to_memory = ACTIVITY_MEMORY_PINNED;
    if (leati_trace_is_foreign(chunk))
        return add_foreign(reader, &a, op.value);
    if (a.kind == ACTIVITY_COPY || a.kind == ACTIVITY_ALLOC || a.kind == ACTIVITY_FREE ||
        a.kind == ACTIVITY_STREAM_WAIT)
        a.address = op.value;
    return activity_log_add(reader->log, &a) || no_memory(reader);
}

static bool add_block(struct reader *reader, const struct leati_trace_chunk *chunk)
{
    if (reader->block_count == reader->block_room) {
        size_t room = reader->block_room ? reader->block_room * 2 : 64;
        struct block *blocks = realloc(reader->blocks, room * sizeof *blocks);

        if (!blocks)
            return no_memory(reader);
        reader->blocks = blocks;
        reader->block_room = room;
    }
    reader->blocks[reader->block_count++] =
        (struct block){leati_trace_op_id(chunk->thread, chunk->first), chunk->count, reader->log->count};
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
    a = &reader->log->list[index];
    a->device_begin_ns = times.device_start_ns;
    a->device_end_ns = times.device_end_ns;
    if (times.device_start_ns && times.device_end_ns)
        a->flags |= ACTIVITY_FLAG_DEVICE;
    return true;
}

static bool read_state(struct reader *reader, const void *record)
{
    struct leati_trace_state state;

    memcpy(&state, record, sizeof state);
    reader->log->lost = state.lost_ops;
    reader->ended = state.ended == 1;
    return true;
}

static bool read_source(struct reader *reader, const void *record)
{
    struct leati_trace_source source;

    memcpy(&source, record, sizeof source);
    reader->log->calls_by = source.by == LEATI_TRACE_BY_CUPTI    ? ACTIVITY_CALLS_BY_CUPTI
                            : source.by == LEATI_TRACE_BY_EVENTS ? ACTIVITY_CALLS_BY_EVENTS
                                                                 : ACTIVITY_CALLS_NONE;
    reader->log->calls_detail = get_id(&reader->strings, source.detail);
    return true;
}

static bool read_cost(struct reader *reader, const void *record)
{
    struct leati_trace_cost cost;
    uint32_t device;

    memcpy(&cost, record, sizeof cost);
    device = get_id(&reader->devices, cost.device);
    if (device != ACTIVITY_NONE && cost.samples)
        reader->log->devices[device].recording_ns = cost.host_ns / cost.samples;
    return true;
}

static bool read_record(struct reader *reader, const struct leati_trace_chunk *chunk, const void *record)
{
    switch (chunk->type) {
    case LEATI_TRACE_CHUNK_THREADS:
        return read_thread(reader, record);
    case LEATI_TRACE_CHUNK_DEVICES:
        return read_device(reader, record);
    case LEATI_TRACE_CHUNK_LANES:
        return read_lane(reader, record);
    case LEATI_TRACE_CHUNK_OPS:
        return read_op(reader, chunk, record);
    case LEATI_TRACE_CHUNK_TIMES:
        return read_times(reader, record);
    case LEATI_TRACE_CHUNK_SOURCE:
        return read_source(reader, record);
    case LEATI_TRACE_CHUNK_COSTS:
        return read_cost(reader, record);
    default:
        return read_state(reader, record);
    }
}

/* Returns the size of the records of a chunk; 0: the type is unknown or has no records of one size. */
static uint32_t record_bytes(uint32_t type)
{
    switch (type) {
    case LEATI_TRACE_CHUNK_THREADS:
        return sizeof(struct leati_trace_thread);
    case LEATI_TRACE_CHUNK_DEVICES:
        return sizeof(struct leati_trace_device);
    case LEATI_TRACE_CHUNK_LANES:
        return sizeof(struct leati_trace_lane);
    case LEATI_TRACE_CHUNK_OPS:
        return sizeof(struct leati_trace_op);
    case LEATI_TRACE_CHUNK_TIMES:
        return sizeof(struct leati_trace_times);
    case LEATI_TRACE_CHUNK_STATE:
        return sizeof(struct leati_trace_state);
    case LEATI_TRACE_CHUNK_SOURCE:
        return sizeof(struct leati_trace_source);
    case LEATI_TRACE_CHUNK_COSTS:
        return sizeof(struct leati_trace_cost);
    default:
        return 0;
    }
}

static bool read_payload(struct reader *reader, const struct leati_trace_chunk *chunk)
{
    uint32_t bytes = record_bytes(chunk->type), i;

    if (chunk->type == LEATI_TRACE_CHUNK_STRINGS)
        return read_strings(reader, chunk);
    if (bytes == 0)
        return true;
    if (chunk->record_bytes != bytes || (uint64_t)chunk->count * bytes != chunk->payload_bytes)
        return activity_input_fail(reader->input,
                                   "the file is damaged: a chunk of type %" PRIu32 " has %" PRIu32
                                   " records of %" PRIu32 " bytes in %" PRIu32 " bytes",
                                   chunk->type, chunk->count, chunk->record_bytes, chunk->payload_bytes);
    if (chunk->type == LEATI_TRACE_CHUNK_OPS && !leati_trace_is_foreign(chunk) && !add_block(reader, chunk))
        return false;
    for (i = 0; i < chunk->count; i++)
        if (!read_record(reader, chunk, reader->payload + (size_t)i * bytes))
            return false;
    return true;
}

/* Reads one chunk. *more receives false at the end of the file, also if it is in the middle of a chunk. */
static bool read_chunk(struct reader *reader, bool *more)
{
    struct leati_trace_chunk chunk;
    uint64_t at = reader->input->at;
    size_t got = activity_input_read(reader->input, &chunk, sizeof chunk);

    *more = false;
    if (got < sizeof chunk)
        return true;
    if (got == SIZE_MAX)
        return false;
    if (chunk.magic != LEATI_TRACE_CHUNK_MAGIC || chunk.payload_bytes > LEATI_TRACE_CHUNK_BYTES_MAX)
        return activity_input_fail(reader->input, "the file is damaged: no chunk begins at byte %" PRIu64, at);
    got = activity_input_read(reader->input, reader->payload, chunk.payload_bytes);
    if (got == SIZE_MAX)
        return false;
    if (got < chunk.payload_bytes)
        return true;
    *more = true;
    return read_payload(reader, &chunk);
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
    struct activity_log *log = reader->log;
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
    const struct activity_log *log = reader->log;
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
        no_memory(reader);
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
    const struct activity_log *log = reader->log;
    struct inside *list = reader->calls.count ? calloc(log->count + 1, sizeof *list) : NULL;
    size_t count = 0, i;

    if (reader->calls.count && !list)
        return no_memory(reader);
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
    return activity_join(reader->log, &reader->calls, &reader->work) || no_memory(reader);
}

static bool read_header(struct reader *reader)
{
    struct leati_trace_header header;
    size_t got = activity_input_read(reader->input, &header, sizeof header);

    if (got == SIZE_MAX)
        return false;
    if (got < sizeof header)
        return activity_input_fail(reader->input, "the file ends after %zu bytes, within its header", got);
    if (header.version != LEATI_TRACE_VERSION || header.header_bytes != sizeof header ||
        header.op_bytes != sizeof(struct leati_trace_op))
        return activity_input_fail(reader->input,
                                   "the trace has format version %" PRIu32 ", and this leat reads version %u",
                                   header.version, LEATI_TRACE_VERSION);
    return true;
}

bool activity_read_leat(struct activity_input *input, struct activity_log *log)
{
    struct reader reader = {.input = input, .log = log, .payload = malloc(LEATI_TRACE_CHUNK_BYTES_MAX)};
    bool more = true, fine;

    log->source = "leat";
    log->calls_detail = ACTIVITY_NONE;
    if (!reader.payload)
        return no_memory(&reader);
    fine = read_header(&reader);
    while (fine && more)
        fine = read_chunk(&reader, &more);
    fine = fine && find_waits(&reader) && add_foreign_ops(&reader);
    log->truncated = !reader.ended;
    free(reader.strings.list);
    free(reader.threads.list);
    free(reader.devices.list);
    free(reader.lanes.list);
    free(reader.blocks);
    free(reader.calls.list);
    free(reader.work.list);
    free(reader.payload);
    return fine;
}
