/*
 * unit_trace.c - tests how "leat replay" reads files of recorded allocations: pickles, of which leat accepts only
 * plain data; PyTorch snapshots in that format; and files that are truncated, changed or random.
 */
#include "../../cli/pickle.h"
#include "../../cli/trace_read.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST_BYTES ((size_t)64 << 20)

/* Number of random files in each test that draws files. */
enum { DRAWS = 2000 };

/* ---- files ---- */

struct bytes {
    unsigned char *at;
    size_t count, room;
};

static void put(struct bytes *bytes, const void *from, size_t count)
{
    if (bytes->count + count > bytes->room) {
        bytes->room = 2 * (bytes->count + count);
        bytes->at = realloc(bytes->at, bytes->room);
        assert_non_null(bytes->at);
    }
    memcpy(bytes->at + bytes->count, from, count);
    bytes->count += count;
}

/* Appends a string literal, which may contain zero bytes. */
#define PUT(bytes, literal) put(bytes, literal, sizeof literal - 1)

/* Creates a memory file with this content. Returns its descriptor, and its path in path. */
static int make_file(const void *content, size_t count, char path[64])
{
    int fd = memfd_create("trace", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, count), count);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static struct trace *read_trace(const struct bytes *content, int device, char error[TRACE_ERROR_MAX])
{
    char path[64];
    int fd = make_file(content->at, content->count, path);
    struct trace *trace = trace_read(path, device, error);

    close(fd);
    return trace;
}

static struct pickle *load(const void *content, size_t count, size_t most_bytes, char error[PICKLE_ERROR_MAX])
{
    struct pickle *pickle;
    char path[64];
    int fd = make_file(content, count, path);
    gzFile file = gzopen(path, "re");

    assert_non_null(file);
    error[0] = '\0';
    pickle = pickle_load(file, most_bytes, error);
    gzclose(file);
    close(fd);
    return pickle;
}

#define LOAD(literal, error) load(literal, sizeof literal - 1, MOST_BYTES, error)

/* ---- pickles ---- */

static void assert_integer(const struct pickle_value *value, int64_t wanted)
{
    int64_t integer;

    assert_true(pickle_integer(value, &integer));
    assert_int_equal(integer, wanted);
}

static void numbers(void **state)
{
    /* 0, 255, 65535, -2, a 0 without bytes, 128 and -128 as long integers, 2^63 - 1, -1, 2^63, True, 1.0, None */
    static const char content[] = "\x80\x04("
                                  "K\x00"
                                  "K\xff"
                                  "M\xff\xff"
                                  "J\xfe\xff\xff\xff"
                                  "\x8a\x00"
                                  "\x8a\x02\x80\x00"
                                  "\x8a\x01\x80"
                                  "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
                                  "\x8b\x01\x00\x00\x00\xff"
                                  "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00"
                                  "\x88"
                                  "G\x3f\xf0\x00\x00\x00\x00\x00\x00"
                                  "Nt.";
    static const int64_t wanted[] = {0, 255, 65535, -2, 0, 128, -128, INT64_MAX, -1};
    char error[PICKLE_ERROR_MAX];
    struct pickle *pickle = LOAD(content, error);
    const struct pickle_value *root;
    int64_t integer;

    (void)state;
    assert_string_equal(error, "");
    root = pickle_root(pickle);
    assert_true(pickle_is_list(root));
    assert_int_equal(pickle_count(root), 13);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        assert_integer(pickle_item(root, i), wanted[i]);
    for (size_t i = sizeof wanted / sizeof wanted[0]; i < 14; i++)
        assert_false(pickle_integer(pickle_item(root, i), &integer));
    pickle_destroy(pickle);
}

/* Strings by each opcode, a dict that is built in three ways, a list that is referenced twice, sets and bytes. */
static void texts_and_containers(void **state)
{
    static const char content[] = "\x80\x02"
                                  "}("
                                  "\x8c\x01"
                                  "a"
                                  "]q\x00(K\x01K\x02"
                                  "e"
                                  "X\x01\x00\x00\x00"
                                  "b"
                                  "h\x00"
                                  "\x8d\x01\x00\x00\x00\x00\x00\x00\x00"
                                  "c"
                                  "(U\x01zK\x03"
                                  "d"
                                  "u"
                                  "U\x01"
                                  "d"
                                  "K\x07K\x08\x86"
                                  "s"
                                  "U\x01"
                                  "e"
                                  "\x8f(K\x01\x90"
                                  "s"
                                  "U\x01"
                                  "f"
                                  "C\x03\x00\x01\x02"
                                  "s"
                                  "U\x01"
                                  "a"
                                  "K\x09"
                                  "s2\x30.";
    char error[PICKLE_ERROR_MAX];
    struct pickle *pickle = LOAD(content, error);
    const struct pickle_value *root, *list;

    (void)state;
    assert_string_equal(error, "");
    root = pickle_root(pickle);
    assert_true(pickle_is_dict(root));
    assert_integer(pickle_get(root, "a"), 9); /* the last value of this key */
    list = pickle_get(root, "b");
    assert_int_equal(pickle_count(list), 2);
    assert_integer(pickle_item(list, 1), 2);
    assert_null(pickle_item(list, 2));
    assert_integer(pickle_get(pickle_get(root, "c"), "z"), 3);
    assert_integer(pickle_item(pickle_get(root, "d"), 1), 8);
    assert_non_null(pickle_get(root, "e"));
    assert_false(pickle_is_list(pickle_get(root, "e")));
    assert_null(pickle_text(pickle_get(root, "f")));
    assert_null(pickle_get(root, "g"));
    pickle_destroy(pickle);
}

static void long_text_is_not_kept(void **state)
{
    struct bytes content = {.at = NULL};
    char text[PICKLE_TEXT_MAX + 1], error[PICKLE_ERROR_MAX];
    struct pickle *pickle;

    (void)state;
    memset(text, 'x', sizeof text);
    PUT(&content, "\x80\x04\x8c\x40");
    put(&content, text, PICKLE_TEXT_MAX);
    PUT(&content, "X\x41\x00\x00\x00");
    put(&content, text, PICKLE_TEXT_MAX + 1);
    PUT(&content, "\x86.");
    pickle = load(content.at, content.count, MOST_BYTES, error);
    assert_string_equal(error, "");
    assert_int_equal(strlen(pickle_text(pickle_item(pickle_root(pickle), 0))), PICKLE_TEXT_MAX);
    assert_string_equal(pickle_text(pickle_item(pickle_root(pickle), 1)), "");
    pickle_destroy(pickle);
    free(content.at);
}

/* leat must refuse opcodes that call code, with a message that names the opcode and its position. */
static void code_is_refused(void **state)
{
    static const struct {
        const char *content;
        size_t count;
        const char *says;
    } cases[] = {
#define CASE(literal, says) {literal, sizeof literal - 1, says}
        CASE("\x80\x02"
             "cos\nsystem\n(X\x02\x00\x00\x00lstR.",
             "byte 2 of the pickle: opcode GLOBAL asks for Python objects or code"),
        CASE("\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R.", "opcode STACK_GLOBAL"),
        CASE("\x80\x02NN\x52.", "opcode REDUCE"),
        CASE("\x80\x02N}\x62.", "opcode BUILD"),
        CASE("\x80\x02(ios\nsystem\n.", "opcode INST"),
        CASE("\x80\x02(N\x6f.", "opcode OBJ"),
        CASE("\x80\x02N)\x81.", "opcode NEWOBJ"),
        CASE("\x80\x04N)}\x92.", "opcode NEWOBJ_EX"),
        CASE("\x80\x02\x82\x01.", "opcode EXT1"),
        CASE("\x80\x02\x83\x01\x00.", "opcode EXT2"),
        CASE("\x80\x02\x84\x01\x00\x00\x00.", "opcode EXT4"),
        CASE("\x80\x02P1\n.", "opcode PERSID"),
        CASE("\x80\x02NQ.", "opcode BINPERSID"),
        CASE("\x80\x05\x97.", "opcode NEXT_BUFFER"),
        CASE("\x80\x05N\x98.", "opcode READONLY_BUFFER"),
        CASE("\x80\x02I1\n.", "0x49 is no opcode for plain data"),
        CASE("\x80\x02\xff.", "0xff is no opcode for plain data"),
        CASE("\x80\x06N.", "it is of protocol 6, and 2 to 5 are known"),
        CASE("\x80\x01N.", "it is of protocol 1"),
        CASE("\x80\x02.", "it needs 1 values of the stack"),
        CASE("\x80\x02]K\x01(a.", "it needs 2 values of the stack"),
        CASE("\x80\x02K\x01K\x02s.", "it needs 3 values of the stack"),
        CASE("\x80\x02K\x01K\x02\x87.", "it needs 3 values of the stack"),
        CASE("\x80\x02K\x01t.", "it needs a mark"),
        CASE("\x80\x02(K\x01\x65.", "it adds values to nothing"),
        CASE("\x80\x02((K\x01\x65.", "it adds values to nothing"),
        CASE("\x80\x02)(K\x01\x65.", "no list"),
        CASE("\x80\x02](K\x01K\x01u.", "no dict"),
        CASE("\x80\x04](K\x01\x90.", "no set"),
        CASE("\x80\x02}(K\x01u.", "a key without a value"),
        CASE("\x80\x02(K\x01\x64.", "a key without a value"),
        CASE("\x80\x02h\x00.", "it wants value 0 again, and 0 were remembered"),
        CASE("\x80\x02Nr\xff\xff\xff\xff.", "it remembers value 4294967295, and 0 were remembered before"),
        CASE("\x80\x04\x94.", "it needs 1 values of the stack"),
        CASE("\x80\x02X\xff\xff\xff\xffxx", "the file ends within it"),
        CASE("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff", "the file ends within it"),
        CASE("\x80\x02\x8b\xff\xff\xff\xff", "the file ends within it"),
        CASE("\x80\x02\x31.", "it needs a mark"),
        CASE("\x80\x02\x30.", "it needs 1 values of the stack"),
#undef CASE
    };
    char error[PICKLE_ERROR_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (load(cases[i].content, cases[i].count, MOST_BYTES, error))
            fail_msg("case %zu was read, and should say '%s'", i, cases[i].says);
        if (!strstr(error, cases[i].says))
            fail_msg("case %zu says '%s' and not '%s'", i, error, cases[i].says);
    }
}

/* Lists that are nested deeply must not overflow the stack, and values must not take more memory than the
 * limit. */
static void depth_and_memory(void **state)
{
    enum { DEPTH = 400000 };
    struct bytes content = {.at = NULL};
    char error[PICKLE_ERROR_MAX];
    const struct pickle_value *value;
    struct pickle *pickle;
    int depth = 0;

    (void)state;
    PUT(&content, "\x80\x04");
    for (int i = 0; i < DEPTH; i++)
        PUT(&content, "]");
    for (int i = 1; i < DEPTH; i++)
        PUT(&content, "a");
    PUT(&content, ".");
    pickle = load(content.at, content.count, MOST_BYTES, error);
    assert_string_equal(error, "");
    for (value = pickle_root(pickle); value; value = pickle_item(value, 0))
        depth++;
    assert_int_equal(depth, DEPTH);
    pickle_destroy(pickle);
    assert_null(load(content.at, content.count, 1 << 20, error));
    assert_non_null(strstr(error, "take more than 1048576 bytes of memory"));
    free(content.at);

    /* A list that contains itself. */
    pickle = LOAD("\x80\x04]\x94h\x00"
                  "a.",
                  error);
    assert_string_equal(error, "");
    assert_ptr_equal(pickle_item(pickle_root(pickle), 0), pickle_root(pickle));
    pickle_destroy(pickle);
}

/* ---- snapshots ---- */

static void put_text(struct bytes *bytes, const char *text)
{
    unsigned char length = (unsigned char)strlen(text);

    PUT(bytes, "\x8c");
    put(bytes, &length, 1);
    put(bytes, text, length);
}

static void put_integer(struct bytes *bytes, int64_t integer)
{
    PUT(bytes, "\x8a\x08");
    put(bytes, &integer, sizeof integer);
}

static void put_pair(struct bytes *bytes, const char *key, int64_t integer)
{
    put_text(bytes, key);
    put_integer(bytes, integer);
}

/* Appends an event to the list on top of the stack. */
static void put_event(struct bytes *bytes, const char *action, int64_t address, int64_t size, int64_t stream)
{
    PUT(bytes, "}(");
    put_text(bytes, "action");
    put_text(bytes, action);
    put_pair(bytes, "addr", address);
    put_pair(bytes, "size", size);
    put_pair(bytes, "stream", stream);
    PUT(bytes, "ua");
}

/* Appends the opcodes for {"device_traces": [[ */
static void begin(struct bytes *bytes)
{
    PUT(bytes, "\x80\x04}");
    put_text(bytes, "device_traces");
    PUT(bytes, "]]");
}

/* Appends the opcodes for ], [ */
static void next_device(struct bytes *bytes)
{
    PUT(bytes, "a]");
}

/* Appends the opcodes for ]], "segments": [{"address": 4096, "stream": 0, "blocks": [ */
static void begin_segments(struct bytes *bytes)
{
    PUT(bytes, "as");
    put_text(bytes, "segments");
    PUT(bytes, "]}");
    put_text(bytes, "address");
    put_integer(bytes, 4096);
    PUT(bytes, "s");
    put_text(bytes, "stream");
    put_integer(bytes, 0);
    PUT(bytes, "s");
    put_text(bytes, "blocks");
    PUT(bytes, "]");
}

static void put_block(struct bytes *bytes, const char *block_state, int64_t size, int64_t requested_size)
{
    PUT(bytes, "}(");
    put_text(bytes, "state");
    put_text(bytes, block_state);
    put_pair(bytes, "size", size);
    put_pair(bytes, "requested_size", requested_size);
    PUT(bytes, "ua");
}

static void end_segments(struct bytes *bytes)
{
    PUT(bytes, "sas.");
}

static struct trace *accept(struct bytes *content, int device)
{
    char error[TRACE_ERROR_MAX] = "";
    struct trace *trace = read_trace(content, device, error);

    assert_string_equal(error, "");
    assert_non_null(trace);
    assert_int_equal(trace->format, TRACE_PYTORCH);
    free(content->at);
    *content = (struct bytes){.at = NULL};
    return trace;
}

static void refuse(struct bytes *content, int device, const char *says)
{
    char error[TRACE_ERROR_MAX] = "";

    assert_null(read_trace(content, device, error));
    if (!strstr(error, says))
        fail_msg("it says '%s' and not '%s'", error, says);
    free(content->at);
    *content = (struct bytes){.at = NULL};
}

static void assert_event(const struct trace *trace, size_t i, enum trace_op op, uint64_t address)
{
    assert_int_equal(trace->events[i].op, op);
    assert_int_equal(trace->blocks[trace->events[i].block].id, address);
}

/* A block may reuse an address after the free of the last block there is complete. Events that are neither
 * allocations nor frees must not get into the trace. If a free is complete directly after its request, no other
 * stream has delayed it. If other events come in between, another stream has delayed it. */
static void events_of_a_snapshot(void **state)
{
    struct bytes content = {.at = NULL};
    struct trace *trace;

    (void)state;
    begin(&content);
    put_event(&content, "segment_alloc", 4096, 1 << 20, 0);
    put_event(&content, "alloc", 4096, 100, 0);
    put_event(&content, "alloc", 12288, 0, 0); /* ignored: it has 0 bytes */
    put_event(&content, "alloc", 8192, 200, 7);
    put_event(&content, "free_requested", 4096, 100, 0);
    put_event(&content, "snapshot", 0, 0, 0);
    put_event(&content, "free_completed", 4096, 100, 0);
    put_event(&content, "alloc", 4096, 300, 0);
    put_event(&content, "oom", 0, 1 << 30, 0);
    put_event(&content, "free_requested", 8192, 200, 7);
    put_event(&content, "free_requested", 4096, 300, 0);
    put_event(&content, "free_completed", 4096, 300, 0);
    put_event(&content, "free_completed", 8192, 200, 7);
    PUT(&content, "as.");
    trace = accept(&content, TRACE_ANY_DEVICE);
    assert_int_equal(trace->event_count, 9);
    assert_int_equal(trace->block_count, 3);
    assert_int_equal(trace->stream_count, 2);
    assert_int_equal(trace->streams[1], 7);
    assert_int_equal(trace->failures, 1);
    assert_int_equal(trace->before, 0);
    assert_true(trace->has_freed);
    assert_event(trace, 0, TRACE_ALLOC, 4096);
    assert_event(trace, 2, TRACE_FREE, 4096);
    assert_event(trace, 3, TRACE_FREED, 4096);
    assert_event(trace, 4, TRACE_ALLOC, 4096);
    assert_event(trace, 8, TRACE_FREED, 8192);
    assert_int_equal(trace->events[4].block, 2);
    assert_int_equal(trace->blocks[2].bytes, 300);
    assert_int_equal(trace->blocks[2].place, 7);
    assert_int_equal(trace->events[8].stream, 1);
    assert_false(trace->blocks[0].used_elsewhere);
    assert_true(trace->blocks[1].used_elsewhere);
    assert_false(trace->blocks[2].used_elsewhere);
    assert_int_equal(trace_peak_bytes(trace, false, NULL), 500);
    trace_destroy(trace);
}

/* The trace must begin with the blocks that were allocated before the recording: those that were freed during the
 * recording, and then those that were in use at its end. */
static void older_blocks(void **state)
{
    struct bytes content = {.at = NULL};
    char place[TRACE_PLACE_MAX];
    struct trace *trace;

    (void)state;
    begin(&content);
    put_event(&content, "free_completed", 99, 5, 0); /* ignored: the free was requested before the recording */
    put_event(&content, "alloc", 4608, 10, 0);
    put_event(&content, "free_requested", 64, 20, 3);
    put_event(&content, "free_completed", 64, 20, 3);
    begin_segments(&content);
    put_block(&content, "inactive", 512, 0);
    put_block(&content, "active_allocated", 512, 10);     /* the block of the alloc event */
    put_block(&content, "active_allocated", 512, 30);     /* at address 5120 */
    put_block(&content, "active_awaiting_free", 512, 40); /* ignored: its free was requested earlier */
    end_segments(&content);
    trace = accept(&content, TRACE_ANY_DEVICE);
    assert_int_equal(trace->block_count, 3);
    assert_int_equal(trace->event_count, 5);
    assert_int_equal(trace->before, 2);
    assert_event(trace, 0, TRACE_ALLOC, 64);
    assert_event(trace, 1, TRACE_ALLOC, 5120);
    assert_event(trace, 2, TRACE_ALLOC, 4608);
    assert_event(trace, 4, TRACE_FREED, 64);
    assert_int_equal(trace->blocks[trace->events[0].block].bytes, 20);
    assert_int_equal(trace->blocks[trace->events[1].block].bytes, 30);
    assert_string_equal(trace_place(trace, trace->events[1].block, place), "a block from before the recording");
    assert_string_equal(trace_place(trace, trace->events[2].block, place), "device_traces[0][1]");
    trace_destroy(trace);
}

static void put_three_devices(struct bytes *content)
{
    begin(content);
    next_device(content);
    put_event(content, "alloc", 4096, 100, 0);
    next_device(content);
    put_event(content, "alloc", 4096, 200, 0);
    PUT(content, "as.");
}

static void devices_of_a_snapshot(void **state)
{
    struct bytes content = {.at = NULL};
    struct trace *trace;

    (void)state;
    put_three_devices(&content);
    refuse(&content, TRACE_ANY_DEVICE, "of the devices 1 and 2: choose one by --trace-device");
    put_three_devices(&content);
    refuse(&content, 0, "no allocation of device 0");
    put_three_devices(&content);
    refuse(&content, 3, "no allocation of device 3");
    put_three_devices(&content);
    trace = accept(&content, 2);
    assert_int_equal(trace->device, 2);
    assert_int_equal(trace->blocks[0].bytes, 200);
    trace_destroy(trace);
}

static void contradictions(void **state)
{
    struct bytes content = {.at = NULL};

    (void)state;
    begin(&content);
    put_event(&content, "alloc", 4096, 100, 0);
    put_event(&content, "alloc", 4096, 100, 0);
    PUT(&content, "as.");
    refuse(&content, TRACE_ANY_DEVICE, "device_traces[0][1]: address 0x1000 is allocated, and its block was not");

    begin(&content);
    put_event(&content, "alloc", 4096, 100, 0);
    put_event(&content, "free_completed", 4096, 100, 0);
    PUT(&content, "as.");
    refuse(&content, TRACE_ANY_DEVICE, "device_traces[0][1]: free_completed of the block at 0x1000");

    begin(&content);
    put_event(&content, "free_requested", 4096, 100, 0);
    put_event(&content, "free_requested", 4096, 100, 0);
    PUT(&content, "as.");
    refuse(&content, TRACE_ANY_DEVICE, "the block at 0x1000 is freed a second time");

    begin(&content);
    put_event(&content, "free_requested", 4096, 100, 0);
    put_event(&content, "free_completed", 4096, 100, 0);
    begin_segments(&content);
    put_block(&content, "active_allocated", 512, 100);
    end_segments(&content);
    refuse(&content, TRACE_ANY_DEVICE, "segments: the block at 0x1000 is in use, and the events have freed it");

    begin(&content);
    put_event(&content, "alloc", 4096, -100, 0);
    PUT(&content, "as.");
    refuse(&content, TRACE_ANY_DEVICE, "device_traces[0][0]: 'size' is negative");

    begin(&content);
    PUT(&content, "}(\x8c\x06"
                  "action\x8c\x05"
                  "allocua"
                  "as.");
    refuse(&content, TRACE_ANY_DEVICE, "device_traces[0][0]: 'addr' is missing or no whole number");

    begin(&content);
    put_event(&content, "alloc", 4096, 100, 0);
    PUT(&content, "Na"
                  "as.");
    refuse(&content, TRACE_ANY_DEVICE, "device_traces[0][1]: it is no dict with a text 'action'");

    begin(&content);
    PUT(&content, "as.");
    refuse(&content, TRACE_ANY_DEVICE, "_record_memory_history()");

    PUT(&content, "\x80\x04].");
    refuse(&content, TRACE_ANY_DEVICE, "this pickle is no memory snapshot of PyTorch");
    PUT(&content, "\x80\x04}\x94\x8c\x0d"
                  "device_tracesh\x00s.");
    refuse(&content, TRACE_ANY_DEVICE, "this pickle is no memory snapshot of PyTorch");
    PUT(&content, "\x80\x04"
                  "cos\nsystem\n");
    refuse(&content, TRACE_ANY_DEVICE, "opcode GLOBAL");
}

/* ---- damaged files ---- */

static uint64_t random_state;

static uint64_t next_random(void)
{
    random_state += 0x9e3779b97f4a7c15u;
    return (random_state ^ random_state >> 31) * 0xbf58476d1ce4e5b9u >> 16;
}

/* Fails unless an accepted trace has the properties that replay relies on. */
static void check_trace(const struct trace *trace)
{
    unsigned char *seen = calloc(trace->block_count, 1);
    uint64_t live_bytes = 0;

    assert_non_null(seen);
    assert_true(trace->block_count > 0 && trace->stream_count > 0);
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];

        assert_true(event->block < trace->block_count);
        assert_true(event->stream < trace->stream_count);
        assert_int_equal(seen[event->block], event->op); /* alloc, free, freed: once each, in this order */
        seen[event->block]++;
        if (event->op == TRACE_ALLOC)
            live_bytes += trace->blocks[event->block].bytes;
        else if (event->op == TRACE_FREE)
            live_bytes -= trace->blocks[event->block].bytes;
    }
    for (size_t i = 0; i < trace->block_count; i++)
        assert_true(seen[i] && trace->blocks[i].bytes);
    assert_true(live_bytes <= trace_peak_bytes(trace, false, NULL));
    free(seen);
}

static void read_anything(const struct bytes *content)
{
    char error[TRACE_ERROR_MAX] = "";
    struct trace *trace = read_trace(content, TRACE_ANY_DEVICE, error);

    if (!trace) {
        assert_true(error[0] != '\0');
        return;
    }
    check_trace(trace);
    trace_destroy(trace);
}

static struct bytes read_whole(const char *path)
{
    FILE *file = fopen(path, "re");
    struct bytes content = {.at = NULL};
    char part[4096];
    size_t got;

    assert_non_null(file);
    while ((got = fread(part, 1, sizeof part, file)) > 0)
        put(&content, part, got);
    fclose(file);
    return content;
}

/* leat must refuse every truncated file. */
static void cut_off(void **state)
{
    struct bytes content = read_whole(TEST_SNAPSHOT);
    size_t whole = content.count;
    char error[TRACE_ERROR_MAX];
    struct trace *trace;

    (void)state;
    trace = read_trace(&content, TRACE_ANY_DEVICE, error);
    assert_non_null(trace);
    check_trace(trace);
    trace_destroy(trace);
    for (content.count = 1; content.count < whole; content.count++) {
        assert_null(read_trace(&content, TRACE_ANY_DEVICE, error));
        assert_non_null(strstr(error, "the file ends within it"));
    }
    free(content.at);
}

static void changed(void **state)
{
    struct bytes original = read_whole(TEST_SNAPSHOT), content = {.at = NULL};

    (void)state;
    for (int draw = 0; draw < DRAWS; draw++) {
        unsigned changes = 1 + (unsigned)(next_random() % 4);

        content.count = 0;
        put(&content, original.at, original.count);
        while (changes--) {
            size_t at = next_random() % content.count, length = 1 + next_random() % 16;

            if (length > content.count - at)
                length = content.count - at;
            switch (next_random() % 4) {
            case 0: /* random bytes */
                while (length--)
                    content.at[at + length] = (unsigned char)next_random();
                break;
            case 1: /* removes bytes */
                memmove(content.at + at, content.at + at + length, content.count - at - length);
                content.count -= length;
                break;
            case 2: /* copies bytes of the original file */
                memmove(content.at + at, original.at + next_random() % (original.count - length), length);
                break;
            default: /* one flipped bit */
                content.at[at] ^= (unsigned char)(1u << next_random() % 8);
            }
        }
        read_anything(&content);
    }
    free(content.at);
    free(original.at);
}

static void random_opcodes(void **state)
{
    static const char opcodes[] = ")]}(0 12.NJKMXU\x88\x89\x8a\x8c\x8f\x85\x86\x87tdlaseuqhr\x94\x90\x91\x95";
    struct bytes content = {.at = NULL};

    (void)state;
    for (int draw = 0; draw < DRAWS; draw++) {
        size_t count = next_random() % 400;

        content.count = 0;
        PUT(&content, "\x80\x04");
        while (count--) {
            unsigned char byte = (unsigned char)opcodes[next_random() % (sizeof opcodes - 1)];

            if (next_random() % 8 == 0)
                byte = (unsigned char)next_random();
            put(&content, &byte, 1);
        }
        read_anything(&content);
    }
    free(content.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(texts_and_containers),
        cmocka_unit_test(long_text_is_not_kept),
        cmocka_unit_test(code_is_refused),
        cmocka_unit_test(depth_and_memory),
        cmocka_unit_test(events_of_a_snapshot),
        cmocka_unit_test(older_blocks),
        cmocka_unit_test(devices_of_a_snapshot),
        cmocka_unit_test(contradictions),
        cmocka_unit_test(cut_off),
        cmocka_unit_test(changed),
        cmocka_unit_test(random_opcodes),
    };

    random_state = test_seed();
    printf("seed %llu\n", (unsigned long long)random_state);
    return cmocka_run_group_tests_name("unit_trace", tests, NULL, NULL);
}
