/* trace_reader.c - see trace_reader.h. */
#include "trace_reader.h"

#include "harness.h"

#include "trace/trace_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IDS_MAX = 4096 };

static const char *const kinds[256] = {
    [LEATI_TRACE_COPY] = "copy",
    [LEATI_TRACE_FILL] = "fill",
    [LEATI_TRACE_KERNEL] = "kernel",
    [LEATI_TRACE_LAYOUT] = "layout",
    [LEATI_TRACE_HOST_FUNCTION] = "host function",
    [LEATI_TRACE_EVENT_RECORD] = "record",
    [LEATI_TRACE_EVENT_WAIT] = "wait",
    [LEATI_TRACE_SYNCHRONIZE] = "synchronize",
    [LEATI_TRACE_ALLOC] = "alloc",
    [LEATI_TRACE_FREE] = "free",
    [LEATI_TRACE_PIN] = "pin",
    [LEATI_TRACE_UNPIN] = "unpin",
    [LEATI_TRACE_PAGE_MOVE] = "page move",
    [LEATI_TRACE_FILE_READ] = "file read",
    [LEATI_TRACE_FILE_WRITE] = "file write",
    [LEATI_TRACE_RANGE] = "range",
    [LEATI_TRACE_MARK] = "mark",
    [LEATI_TRACE_MODULE_LOAD] = "module load",
    [LEATI_TRACE_OTHER] = "other",
};
static const char *const memories[16] = {"", "pageable", "pinned", "device", "managed", "file", "mixed"};
static const char *const protocols[16] = {"", "driver", "eager", "staged", "kernel", "rails", "host"};

/* What the file has defined so far, by id. */
static struct {
    uint32_t device;
    uint64_t serial;
} lanes[IDS_MAX];
static const char *devices[IDS_MAX];
static bool threads[IDS_MAX];

static const char *string_of(const struct trace *trace, uint32_t id)
{
    assert_true(id < trace->string_room && (!id || trace->strings[id]));
    return id ? trace->strings[id] : "";
}

static void read_strings(struct trace *trace, const char *at, const char *end, uint32_t count)
{
    while (count--) {
        struct leati_trace_string string;
        char *text;

        assert_true((size_t)(end - at) >= sizeof string);
        memcpy(&string, at, sizeof string);
        assert_true(string.bytes <= LEATI_TRACE_STRING_BYTES_MAX && string.id);
        assert_true((size_t)(end - at) >= sizeof string + ((string.bytes + 7u) & ~7u));
        while (string.id >= trace->string_room) {
            size_t room = trace->string_room ? trace->string_room * 2 : 64;

            trace->strings = realloc(trace->strings, room * sizeof *trace->strings);
            assert_non_null(trace->strings);
            memset(trace->strings + trace->string_room, 0, (room - trace->string_room) * sizeof *trace->strings);
            trace->string_room = room;
        }
        assert_null(trace->strings[string.id]);
        text = test_buffer(string.bytes + 1);
        memcpy(text, at + sizeof string, string.bytes);
        text[string.bytes] = '\0';
        trace->strings[string.id] = text;
        at += sizeof string + ((string.bytes + 7u) & ~7u);
    }
    assert_ptr_equal(at, end);
}

static void read_op(struct trace *trace, const struct leati_trace_op *op, uint32_t thread, uint64_t number)
{
    struct trace_op *made = &trace->ops[trace->count++];

    assert_true(op->lane < IDS_MAX && (!op->lane || lanes[op->lane].device));
    assert_true(thread < IDS_MAX && threads[thread]);
    assert_non_null(kinds[op->kind]);
    *made = (struct trace_op){
        .id = leati_trace_op_id(thread, number),
        .host_start_ns = op->host_start_ns,
        .host_end_ns = leati_trace_op_host_end(op),
        .device_start_ns = op->device_start_ns,
        .device_end_ns = op->device_end_ns,
        .bytes = op->bytes,
        .value = op->value,
        .thread = thread,
        .lane = op->lane,
        .pieces = op->pieces,
        .serial = lanes[op->lane].serial,
        .device = op->lane ? devices[lanes[op->lane].device] : "",
        .kind = kinds[op->kind],
        .name = string_of(trace, op->name),
        .place = string_of(trace, op->place),
        .source = memories[leati_trace_op_source(op)],
        .destination = memories[leati_trace_op_destination(op)],
        .protocol = protocols[op->how & LEATI_TRACE_PROTOCOL_MASK],
        .synchronous = op->how & LEATI_TRACE_SYNCHRONOUS,
        .times_lost = op->how & LEATI_TRACE_TIMES_LOST,
        .status = op->status,
    };
}

static void read_times(struct trace *trace, const struct leati_trace_times *times)
{
    size_t i = trace->count;

    while (i && trace->ops[i - 1].id != times->id)
        i--;
    assert_true(i && !trace->ops[i - 1].device_start_ns);
    trace->ops[i - 1].device_start_ns = times->device_start_ns;
    trace->ops[i - 1].device_end_ns = times->device_end_ns;
}

static void read_record(struct trace *trace, const struct leati_trace_chunk *chunk, uint32_t index, const char *at)
{
    union {
        struct leati_trace_thread thread;
        struct leati_trace_device device;
        struct leati_trace_lane lane;
        struct leati_trace_op op;
        struct leati_trace_times times;
        struct leati_trace_clock clock;
        struct leati_trace_cost cost;
        struct leati_trace_state state;
    } is;

    assert_true(chunk->record_bytes <= sizeof is);
    memcpy(&is, at, chunk->record_bytes);
    switch (chunk->type) {
    case LEATI_TRACE_CHUNK_THREADS:
        assert_true(is.thread.id && is.thread.id < IDS_MAX && !threads[is.thread.id]);
        threads[is.thread.id] = true;
        trace->threads++;
        break;
    case LEATI_TRACE_CHUNK_DEVICES:
        assert_true(is.device.id && is.device.id < IDS_MAX && !devices[is.device.id]);
        devices[is.device.id] = string_of(trace, is.device.name);
        trace->devices++;
        break;
    case LEATI_TRACE_CHUNK_LANES:
        assert_true(is.lane.id && is.lane.id < IDS_MAX && !lanes[is.lane.id].device);
        assert_non_null(devices[is.lane.device]);
        lanes[is.lane.id].device = is.lane.device;
        lanes[is.lane.id].serial = is.lane.serial;
        trace->lanes++;
        break;
    case LEATI_TRACE_CHUNK_OPS:
        read_op(trace, &is.op, chunk->thread, chunk->first + index);
        break;
    case LEATI_TRACE_CHUNK_TIMES:
        read_times(trace, &is.times);
        break;
    case LEATI_TRACE_CHUNK_CLOCKS:
        assert_non_null(devices[is.clock.device]);
        trace->clocks++;
        if (is.clock.uncertainty_ns > trace->uncertainty_ns)
            trace->uncertainty_ns = is.clock.uncertainty_ns;
        break;
    case LEATI_TRACE_CHUNK_COSTS:
        assert_non_null(devices[is.cost.device]);
        assert_true(is.cost.samples && is.cost.host_ns);
        trace->cost_samples = is.cost.samples;
        break;
    case LEATI_TRACE_CHUNK_STATE:
        assert_false(trace->ended);
        trace->lost_ops = is.state.lost_ops;
        trace->lost_times = is.state.lost_times;
        trace->lost_strings = is.state.lost_strings;
        trace->ended = is.state.ended;
        assert_int_equal(is.state.ops, trace->count);
        break;
    default:
        fail_msg("a chunk of type %u", chunk->type);
    }
}

static size_t read_file(struct trace *trace, const char *path)
{
    FILE *file = fopen(path, "re");
    long bytes;

    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    bytes = ftell(file);
    rewind(file);
    trace->content = test_buffer((size_t)bytes + 1);
    assert_int_equal(fread(trace->content, 1, (size_t)bytes, file), bytes);
    fclose(file);
    return (size_t)bytes;
}

void trace_read(struct trace *trace, const char *path, bool cut)
{
    struct leati_trace_header header;
    struct leati_trace_chunk chunk;
    size_t bytes, at = sizeof header;

    memset(trace, 0, sizeof *trace);
    memset(lanes, 0, sizeof lanes);
    memset(devices, 0, sizeof devices);
    memset(threads, 0, sizeof threads);
    bytes = read_file(trace, path);
    trace->ops = test_buffer(bytes / sizeof(struct leati_trace_op) * sizeof *trace->ops + 1);
    assert_true(bytes >= sizeof header);
    memcpy(&header, trace->content, sizeof header);
    assert_memory_equal(header.magic, LEATI_TRACE_MAGIC, 8);
    assert_int_equal(header.version, LEATI_TRACE_VERSION);
    while (bytes - at >= sizeof chunk) {
        memcpy(&chunk, trace->content + at, sizeof chunk);
        assert_int_equal(chunk.magic, LEATI_TRACE_CHUNK_MAGIC);
        assert_true(chunk.payload_bytes <= LEATI_TRACE_CHUNK_BYTES_MAX && chunk.payload_bytes % 8 == 0);
        if (bytes - at - sizeof chunk < chunk.payload_bytes)
            break;
        at += sizeof chunk;
        if (chunk.type == LEATI_TRACE_CHUNK_STRINGS) {
            read_strings(trace, trace->content + at, trace->content + at + chunk.payload_bytes, chunk.count);
        } else {
            assert_int_equal(chunk.payload_bytes, chunk.count * chunk.record_bytes);
            for (uint32_t i = 0; i < chunk.count; i++)
                read_record(trace, &chunk, i, trace->content + at + i * chunk.record_bytes);
        }
        at += chunk.payload_bytes;
    }
    assert_true(cut || (at == bytes && trace->ended));
}

void trace_free(struct trace *trace)
{
    for (size_t i = 0; i < trace->string_room; i++)
        free((void *)trace->strings[i]);
    free(trace->strings);
    free(trace->ops);
    free(trace->content);
}
