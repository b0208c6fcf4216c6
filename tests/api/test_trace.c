/* test_trace.c - tests what a trace has: operations of every kind with their bytes, kinds and times; streams,
 * threads, ranges; starting and stopping. test_trace_ends.c tests how traces end. */
#include "harness.h"
#include "temporary.h"
#include "trace_reader.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 4096, ROWS = 8 };

static char path[TEMPORARY_PATH];

/* Besides the uncertainty that the file states: a measurement that the system has interrupted. */
#define SLACK_NS 100000u

static void start(uint32_t flags)
{
    leat_trace_options options = LEAT_TRACE_OPTIONS_INIT;
    int fd = temporary_file(path);

    assert_true(fd >= 0);
    close(fd);
    options.flags = flags;
    OK(leat_trace_start(path, &options));
    leat_trace_mark("start", 0);
}

/* Removes the mark of start() and, unless all is set, what other threads have done: leat's own threads may
 * allocate pinned memory at any time. */
static void keep_own(struct trace *trace, bool all)
{
    uint32_t own = 0;
    size_t kept = 0;

    for (size_t i = 0; i < trace->count; i++)
        if (!strcmp(trace->ops[i].name, "start"))
            own = trace->ops[i].thread;
    for (size_t i = 0; i < trace->count; i++)
        if ((all || trace->ops[i].thread == own) && strcmp(trace->ops[i].name, "start") != 0)
            trace->ops[kept++] = trace->ops[i];
    trace->count = kept;
}

/* Stops the trace and reads it. all: as keep_own(). */
static void stop_all(struct trace *trace, bool all)
{
    leat_trace_stats stats = LEAT_TRACE_STATS_INIT;

    OK(leat_trace_stop(&stats));
    trace_read(trace, path, false);
    unlink(path);
    assert_int_equal(stats.ops, trace->count);
    assert_int_equal(stats.lost_ops, trace->lost_ops);
    assert_int_equal(stats.lost_times, trace->lost_times);
    for (size_t i = 0; i < trace->count; i++) {
        const struct trace_op *op = &trace->ops[i];

        assert_true(op->host_start_ns <= op->host_end_ns);
        assert_true(op->device_start_ns <= op->device_end_ns);
        if (op->device_start_ns)
            assert_true(op->device_start_ns + trace->uncertainty_ns + SLACK_NS >= op->host_start_ns);
    }
    keep_own(trace, all);
}

static void stop(struct trace *trace)
{
    stop_all(trace, false);
}

/* An operation that a trace must have; NULL and 0: not compared, but kinds of memory and protocols are. */
struct wanted {
    const char *kind, *name, *source, *destination;
    uint64_t bytes;
    const void *value;
    bool timed, synchronous;
    uint32_t pieces;
};

static void expect_op(const struct trace_op *op, const struct wanted *wanted)
{
    assert_string_equal(op->kind, wanted->kind);
    assert_string_equal(op->name, wanted->name);
    assert_string_equal(op->source, wanted->source);
    assert_string_equal(op->destination, wanted->destination);
    assert_int_equal(op->bytes, wanted->bytes);
    if (wanted->value)
        assert_int_equal(op->value, (uintptr_t)wanted->value);
    if (wanted->pieces)
        assert_int_equal(op->pieces, wanted->pieces);
    assert_int_equal(op->synchronous, wanted->synchronous);
    assert_int_equal(op->status, LEAT_OK);
    assert_int_equal(op->device_start_ns != 0, wanted->timed);
    assert_false(op->times_lost);
    assert_true(op->lane == 0 || !strcmp(op->device, test_device_name()));
    assert_non_null(strstr(op->place, "test_trace("));
}

static void expect_ops(const struct trace *trace, const struct wanted *wanted, size_t count)
{
    assert_int_equal(trace->lost_ops, 0);
    assert_int_equal(trace->lost_times, 0);
    for (size_t i = 0; i < count && i < trace->count; i++) {
        if (strcmp(trace->ops[i].name, wanted[i].name) != 0)
            print_error("operation %zu is %s %s and not %s %s\n", i, trace->ops[i].kind, trace->ops[i].name,
                        wanted[i].kind, wanted[i].name);
        expect_op(&trace->ops[i], &wanted[i]);
    }
    assert_int_equal(trace->count, count);
}

/* The first operation must be complete before the second begins. A clock that is measured anew may be corrected.
 */
static void expect_order(const struct trace *trace, const struct trace_op *first, const struct trace_op *second)
{
    assert_true(second->device_start_ns + (trace->uncertainty_ns ? SLACK_NS : 0) >= first->device_end_ns);
}

static void nothing(void *argument)
{
    (void)argument;
}

static void copies_and_work(void **state)
{
    struct test_state *t = *state;
    char *device = test_alloc(t->device, LEAT_KIND_DEVICE, 2 * BYTES), *other = device + BYTES;
    char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, BYTES), *pageable = test_buffer(BYTES);
    leat_copy_region rows = {
        .width_bytes = 64, .height = ROWS, .depth = 1, .dst_pitch_bytes = 128, .src_pitch_bytes = 256};
    leat_copy_op ops[] = {{.dst = device, .src = pinned, .bytes = 64},
                          {.dst = device + 256, .src = pinned + 512, .bytes = 64}};
    int64_t size[] = {16, 32}, turned[] = {32, 16};
    leat_layout from, to;
    leat_kernel *kernel = test_kernel(t->device, "leat_fill_u64");
    uint64_t count = BYTES / 8, word = 1, pattern[] = {1, 2};
    void *args[] = {&device, &count, &word};
    leat_ticket *ticket;
    struct trace trace;
    const struct wanted wanted[] = {
        {"copy", "leat_copy", "pageable", "device", BYTES, pageable, true, false, 1},
        {"copy", "leat_copy", "device", "pageable", BYTES, device, true, false, 1},
        {"copy", "leat_copy", "pinned", "device", BYTES, pinned, true, false, 1},
        {"copy", "leat_copy", "device", "device", BYTES, device, true, false, 1},
        {"copy", "leat_copy_sync", "device", "pageable", BYTES, device, true, true, 1},
        {"copy", "leat_copy_3d", "pinned", "device", 64 * ROWS, pinned, true, false, ROWS},
        {"copy", "leat_copy_batch", "pinned", "device", 128, NULL, true, false, 2},
        {"layout", "leat_copy_layout", "device", "device", 16 * 32 * 4, device, true, false, 1},
        {"fill", "leat_fill", "", "device", BYTES, device, true, false, 1},
        {"fill", "leat_fill_pattern", "", "device", BYTES, device, true, false, 1},
        {"kernel", "leat_fill_u64", "", "", 0, (void *)128, true, false, 1},
        {"host function", "leat_launch_host", "", "", 0, NULL, true, false, 1},
        {"copy", "leat_copy_start", "pageable", "device", BYTES, pageable, true, false, 1},
        {"synchronize", "leat_ticket_wait", "", "", 0, NULL, false, false, 1},
        {"synchronize", "leat_stream_synchronize", "", "", 0, NULL, false, false, 1},
        {"synchronize", "leat_device_synchronize", "", "", 0, NULL, false, false, 1},
    };

    OK(leat_layout_dense(&from, 2, size, 4));
    OK(leat_layout_transpose(&from, 0, 1));
    OK(leat_layout_dense(&to, 2, turned, 4));
    OK(leat_copy(t->stream, device, pageable,
                 BYTES)); /* the first copy of a process prepares much in the background */
    OK(leat_stream_synchronize(t->stream));
    start(0);
    OK(leat_copy(t->stream, device, pageable, BYTES));
    OK(leat_copy(t->stream, pageable, device, BYTES));
    OK(leat_copy(t->stream, device, pinned, BYTES));
    OK(leat_copy(t->stream, other, device, BYTES));
    OK(leat_copy_sync(t->stream, pageable, device, BYTES));
    OK(leat_copy_3d(t->stream, device, pinned, &rows));
    OK(leat_copy_batch(t->stream, ops, 2));
    OK(leat_copy_layout(t->stream, other, &to, device, &from));
    OK(leat_fill(t->stream, device, 1, BYTES));
    OK(leat_fill_pattern(t->stream, device, pattern, sizeof pattern, BYTES));
    OK(leat_launch(t->stream, kernel, leat_dim(2, 1, 1), leat_dim(64, 1, 1), 0, args, 3));
    OK(leat_launch_host(t->stream, nothing, NULL));
    OK(leat_copy_start(t->stream, device, pageable, BYTES, NULL, &ticket));
    OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_device_synchronize(t->device));
    stop(&trace);
    expect_ops(&trace, wanted, sizeof wanted / sizeof wanted[0]);
    /* Work of one stream is in order, and complete before the wait for it returns. */
    for (size_t i = 1; i < 13; i++)
        expect_order(&trace, &trace.ops[i - 1], &trace.ops[i]);
    assert_true(trace.ops[12].device_end_ns <= trace.ops[14].host_end_ns + trace.uncertainty_ns + SLACK_NS);
    assert_int_equal(trace.ops[13].value, trace.ops[12].id);
    for (size_t i = 1; i < trace.count; i++)
        assert_true(trace.ops[i].host_start_ns >= trace.ops[i - 1].host_end_ns);
    assert_true(trace.ops[0].serial && trace.ops[0].lane == trace.ops[14].lane);
    assert_true(!trace.ops[15].serial && trace.ops[15].lane);
    trace_free(&trace);
    OK(leat_ticket_destroy(ticket));
    OK(leat_memory_free(device));
    OK(leat_memory_free(pinned));
    free(pageable);
}

static void memory_and_files(void **state)
{
    struct test_state *t = *state;
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    char *own = test_buffer(3 * BYTES), name[TEMPORARY_PATH];
    void *ordered, *plain, *pinned, *driver, *managed = NULL;
    int fd = temporary_file(name);
    leat_pool *pool;
    leat_file *file;
    struct trace trace;

    assert_true(fd >= 0);
    close(fd);
    OK(leat_pool_default(t->device, LEAT_KIND_DEVICE, &pool));
    OK(leat_device_get_info(t->device, &info));
    OK(leat_file_open(name, LEAT_FILE_READ | LEAT_FILE_WRITE, &file));
    if (info.managed_memory)
        managed = test_alloc(t->device, LEAT_KIND_MANAGED, BYTES);
    start(0);
    OK(leat_thread_set_tag("weights"));
    OK(leat_alloc(t->stream, 1000, &ordered));
    OK(leat_thread_set_tag(NULL));
    OK(leat_memory_alloc(t->device, LEAT_KIND_DEVICE, BYTES, &plain));
    OK(leat_memory_alloc(t->device, LEAT_KIND_PINNED, BYTES, &pinned));
    OK(leat_alloc_driver(t->stream, BYTES, &driver));
    OK(leat_register(t->device, own, BYTES));
    OK(leat_file_write(t->stream, file, 0, plain, BYTES));
    OK(leat_file_read(t->stream, plain, file, 0, BYTES));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_unregister(own));
    OK(leat_free(t->stream, driver));
    OK(leat_memory_free(pinned));
    OK(leat_memory_free(plain));
    OK(leat_free(t->stream, ordered));
    OK(leat_pool_trim(pool, UINT64_MAX, NULL, NULL));
    if (managed) {
        OK(leat_managed_prefetch(t->stream, managed, BYTES, t->device));
        OK(leat_stream_synchronize(t->stream));
    }
    stop(&trace);
    {
        const struct wanted wanted[] = {
            {"alloc", "leat_alloc", "", "device", 1000, ordered, false, false, 0},
            {"alloc", "leat_memory_alloc", "", "device", BYTES, plain, false, false, 0},
            {"alloc", "leat_memory_alloc", "", "pinned", BYTES, pinned, false, false, 0},
            {"alloc", "leat_alloc_driver", "", "device", BYTES, driver, false, false, 0},
            {"pin", "leat_register", "", "pinned", BYTES, own, false, false, 1},
            {"file write", "leat_file_write", "device", "file", BYTES, plain, true, false, 1},
            {"file read", "leat_file_read", "file", "device", BYTES, NULL, true, false, 1},
            {"synchronize", "leat_stream_synchronize", "", "", 0, NULL, false, false, 1},
            {"unpin", "leat_unregister", "", "pinned", BYTES, own, false, false, 1},
            {"free", "leat_free", "", "device", BYTES, driver, false, false, 1},
            {"free", "leat_memory_free", "", "pinned", BYTES, pinned, false, false, 1},
            {"free", "leat_memory_free", "", "device", BYTES, plain, false, false, 1},
            {"free", "leat_free", "", "device", 1000, ordered, false, false, 1},
            {"free", "leat_pool_trim", "", "device", 0, NULL, false, false, 1},
            {"page move", "leat_managed_prefetch", "", "device", BYTES, managed, true, false, 1},
            {"synchronize", "leat_stream_synchronize", "", "", 0, NULL, false, false, 1},
        };

        expect_ops(&trace, wanted, sizeof wanted / sizeof wanted[0] - (managed ? 0 : 2));
    }
    assert_string_equal(trace.strings[trace.ops[0].pieces], "weights");
    assert_int_equal(trace.ops[1].pieces, 0);
    trace_free(&trace);
    if (managed)
        OK(leat_memory_free(managed));
    OK(leat_file_close(file));
    unlink(name);
    free(own);
}

/* A stream waits for another one, which a gate holds up. */
static void streams_that_wait(void **state)
{
    struct test_state *t = *state;
    void *memory = test_alloc(t->device, LEAT_KIND_DEVICE, BYTES);
    struct test_gate *gate;
    leat_event *event;
    struct trace trace;
    uint64_t opened_ns;
    const struct wanted wanted[] = {
        {"host function", "leat_launch_host", "", "", 0, NULL, true, false, 1},
        {"fill", "leat_fill", "", "device", BYTES, memory, true, false, 1},
        {"record", "leat_event_record", "", "", 0, NULL, false, false, 1},
        {"wait", "leat_stream_wait", "", "", 0, NULL, false, false, 1},
        {"fill", "leat_fill", "", "device", 64, memory, true, false, 1},
        {"mark", "opening", "", "", 0, (void *)42, false, false, 1},
        {"synchronize", "leat_event_synchronize", "", "", 0, NULL, false, false, 1},
        {"synchronize", "leat_stream_synchronize", "", "", 0, NULL, false, false, 1},
    };

    OK(leat_event_create(t->device, &event));
    OK(leat_fill(t->stream, memory, 0, BYTES));
    OK(leat_device_synchronize(t->device));
    start(0);
    gate = test_gate_close(t->stream);
    OK(leat_fill(t->stream, memory, 1, BYTES));
    OK(leat_event_record(t->stream, event));
    OK(leat_stream_wait(t->second, event));
    OK(leat_fill(t->second, memory, 2, 64));
    leat_trace_mark("opening", 42);
    test_gate_open(gate);
    OK(leat_event_synchronize(event));
    OK(leat_stream_synchronize(t->second));
    stop(&trace);
    assert_int_equal(trace.count, sizeof wanted / sizeof wanted[0]);
    for (size_t i = 1; i < trace.count; i++)
        expect_op(&trace.ops[i], &wanted[i]);
    opened_ns = trace.ops[5].host_start_ns;
    assert_true(trace.ops[1].device_start_ns + trace.uncertainty_ns + SLACK_NS >= opened_ns);
    expect_order(&trace, &trace.ops[1], &trace.ops[4]);
    assert_int_equal(trace.ops[3].value, trace.ops[2].id);
    assert_int_equal(trace.ops[6].value, trace.ops[2].id);
    assert_int_not_equal(trace.ops[2].lane, trace.ops[3].lane);
    assert_int_equal(trace.ops[1].lane, trace.ops[2].lane);
    assert_int_equal(trace.ops[3].lane, trace.ops[4].lane);
    trace_free(&trace);
    OK(leat_event_destroy(event));
    OK(leat_memory_free(memory));
}

static void ranges(void **state)
{
    struct trace trace;
    char name[2000];

    (void)state;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    leat_trace_range_push("before");
    leat_trace_mark("before", 0);
    start(0);
    leat_trace_range_pop(); /* of a range that began before the trace */
    leat_trace_range_push("outer");
    leat_trace_range_push(NULL);
    leat_trace_mark("within", 1);
    leat_trace_range_pop();
    leat_trace_range_push(name);
    leat_trace_range_pop();
    leat_trace_range_pop();
    leat_trace_range_pop();
    for (int i = 0; i < 40; i++)
        leat_trace_range_push("deep");
    for (int i = 0; i < 40; i++)
        leat_trace_range_pop();
    leat_trace_range_push("open");
    stop(&trace);
    leat_trace_range_pop();
    assert_int_equal(trace.count, 4 + 32);
    assert_string_equal(trace.ops[0].kind, "mark");
    assert_string_equal(trace.ops[1].name, "");
    assert_int_equal(trace.ops[1].pieces, 2);
    assert_int_equal(strlen(trace.ops[2].name), 1024);
    assert_string_equal(trace.ops[3].name, "outer");
    assert_int_equal(trace.ops[3].pieces, 1);
    assert_true(trace.ops[3].host_start_ns <= trace.ops[1].host_start_ns);
    assert_true(trace.ops[3].host_end_ns >= trace.ops[2].host_end_ns);
    assert_true(trace.ops[1].host_start_ns <= trace.ops[0].host_start_ns);
    assert_true(trace.ops[1].host_end_ns >= trace.ops[0].host_start_ns);
    assert_int_equal(trace.ops[4].pieces, 32);
    trace_free(&trace);
}

static void failures(void **state)
{
    struct test_state *t = *state;
    void *memory = test_alloc(t->device, LEAT_KIND_DEVICE, BYTES);
    struct trace trace;

    start(0);
    REFUSED(leat_fill(t->stream, memory, 0, (size_t)1 << 40), LEAT_ERROR_RANGE, "leat_fill");
    REFUSED(leat_fill(NULL, memory, 0, 1), LEAT_ERROR_HANDLE, "leat_fill");
    OK(leat_fill(t->stream, memory, 0, 1));
    OK(leat_stream_synchronize(t->stream));
    stop(&trace);
    assert_int_equal(trace.count, 4);
    assert_int_equal(trace.ops[0].status, LEAT_ERROR_RANGE);
    assert_int_equal(trace.ops[1].status, LEAT_ERROR_HANDLE);
    assert_int_equal(trace.ops[2].status, LEAT_OK);
    assert_true(!trace.ops[0].device_start_ns && !trace.ops[1].lane && trace.ops[2].device_start_ns);
    trace_free(&trace);
    OK(leat_memory_free(memory));
}

static void host_only(void **state)
{
    struct test_state *t = *state;
    void *memory = test_alloc(t->device, LEAT_KIND_DEVICE, BYTES);
    struct trace trace;

    start(LEAT_TRACE_HOST_ONLY);
    OK(leat_fill(t->stream, memory, 0, BYTES));
    OK(leat_stream_synchronize(t->stream));
    stop(&trace);
    assert_int_equal(trace.count, 2);
    assert_true(!trace.ops[0].device_start_ns && !trace.ops[0].times_lost && !trace.lost_times);
    assert_int_equal(trace.ops[0].bytes, BYTES);
    trace_free(&trace);
    OK(leat_memory_free(memory));
}

/* Work that is not complete at the end has no times; its slots serve later traces. */
static void work_that_goes_on(void **state)
{
    struct test_state *t = *state;
    void *memory = test_alloc(t->device, LEAT_KIND_DEVICE, BYTES);
    struct test_gate *gate = test_gate_close(t->stream);
    struct trace trace;

    start(0);
    OK(leat_fill(t->stream, memory, 0, BYTES));
    stop(&trace);
    assert_int_equal(trace.count, 1);
    assert_true(!trace.ops[0].device_start_ns);
    trace_free(&trace);
    start(0);
    test_gate_open(gate);
    OK(leat_fill(t->stream, memory, 1, BYTES));
    OK(leat_stream_synchronize(t->stream));
    stop(&trace);
    assert_int_equal(trace.count, 2);
    assert_true(trace.ops[0].device_start_ns);
    trace_free(&trace);
    OK(leat_memory_free(memory));
}

enum { THREADS = 8, MARKS = 3000, FILLS = 40 };

static void *work(void *argument)
{
    struct test_state *t = argument;
    leat_stream *stream;
    void *memory;

    OK(leat_stream_create(t->device, &stream));
    OK(leat_alloc(stream, BYTES, &memory));
    for (unsigned i = 0; i < MARKS; i++)
        leat_trace_mark("step", i);
    for (unsigned i = 0; i < FILLS; i++)
        OK(leat_fill(stream, memory, 1, BYTES));
    OK(leat_free(stream, memory));
    OK(leat_stream_synchronize(stream));
    OK(leat_stream_destroy(stream));
    return NULL;
}

/* Threads that work at once and end; the operations of each are complete and in order, but for those that were
 * counted as lost. */
static void threads_that_end(void **state)
{
    struct test_state *t = *state;
    pthread_t threads[THREADS];
    struct trace trace;
    size_t count = 0;

    start(0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, t), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    stop_all(&trace, true);
    for (size_t i = 0; i < trace.count; i++)
        count += strstr(trace.ops[i].place, "test_trace(") != NULL;
    assert_int_equal(count + trace.lost_ops, THREADS * (MARKS + FILLS + 3));
    assert_true(trace.lanes >= THREADS);
    for (size_t i = 1; i < trace.count; i++)
        if (trace.ops[i].thread == trace.ops[i - 1].thread) {
            assert_true(trace.ops[i].id > trace.ops[i - 1].id);
            assert_true(trace.ops[i].host_start_ns >= trace.ops[i - 1].host_start_ns);
            if (!strcmp(trace.ops[i].kind, "mark") && !trace.lost_ops && trace.ops[i].value)
                assert_int_equal(trace.ops[i].value, trace.ops[i - 1].value + 1);
        }
    trace_free(&trace);
}

/* More streams than the recorder takes at once; on the CPU device more work under way than it has slots. A GPU's
 * queue is shorter than that: a call would wait for the gate. */
static void many_streams(void **state)
{
    enum { STREAMS = 300 };
    unsigned held_up = test_on_cpu() ? 9000 : 200;
    struct test_state *t = *state;
    void *memory = test_alloc(t->device, LEAT_KIND_DEVICE, STREAMS);
    struct test_gate *gate;
    struct trace trace;

    start(0);
    for (unsigned i = 0; i < STREAMS; i++) {
        leat_stream *stream;

        OK(leat_stream_create(t->device, &stream));
        OK(leat_fill(stream, (char *)memory + i, 1, 1));
        OK(leat_stream_synchronize(stream));
        OK(leat_stream_destroy(stream));
    }
    gate = test_gate_close(t->stream);
    for (unsigned i = 0; i < held_up; i++)
        OK(leat_fill(t->stream, memory, 1, 1));
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    stop(&trace);
    assert_int_equal(trace.count + trace.lost_ops, STREAMS * 2 + held_up + 2);
    /* On a busy machine the ring may be full before the slots are. */
    assert_int_equal(trace.lost_times + trace.lost_ops > 0, test_on_cpu());
    assert_true(trace.lost_times < held_up);
    assert_true(trace.cost_samples >= 20); /* of at least 200 operations, one in eight */
    trace_free(&trace);
    OK(leat_memory_free(memory));
}

/* While a stream is captured into a graph in the global mode, the recorder asks about the events of another
 * stream, which must not end the capture. */
static void captures_go_on(void **state)
{
    const struct timespec looks = {.tv_nsec = 60000000}; /* of the recorder: some */
    struct test_state *t = *state;
    int (*begin)(void *stream, int mode), (*end)(void *stream, void **graph), (*destroy)(void *graph);
    int (*push)(void *context), (*pop)(void **context);
    const struct {
        const char *name;
        void *function;
    } wanted[] = {{"cuStreamBeginCapture_v2", &begin},
                  {"cuStreamEndCapture", &end},
                  {"cuGraphDestroy", &destroy},
                  {"cuCtxPushCurrent_v2", &push},
                  {"cuCtxPopCurrent_v2", &pop}};
    void *memory, *captured, *context, *graph = NULL;
    struct test_gate *gate;
    struct trace trace;

    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (leat_native_symbol(t->device, wanted[i].name, wanted[i].function) != LEAT_OK)
            SKIP_OTHER("this device's library has no captures by CUDA's names");
    OK(leat_device_native(t->device, &context));
    assert_int_equal(push(context), 0);
    memory = test_alloc(t->device, LEAT_KIND_DEVICE, BYTES);
    OK(leat_stream_native(t->second, &captured));
    start(0);
    gate = test_gate_close(t->stream);
    OK(leat_fill(t->stream, memory, 1, BYTES));
    assert_int_equal(begin(captured, 0), 0);
    nanosleep(&looks, NULL);
    assert_int_equal(end(captured, &graph), 0);
    assert_int_equal(destroy(graph), 0);
    assert_int_equal(pop(&context), 0);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    stop(&trace);
    assert_int_equal(trace.count, 3);
    assert_true(trace.ops[1].device_start_ns);
    trace_free(&trace);
    OK(leat_memory_free(memory));
}

/* Opens and closes the device within a trace, with work of which nobody waits for the end. */
static void device_that_closes(void **state)
{
    leat_device *device;
    leat_stream *stream;
    struct trace trace;
    void *memory;

    (void)state;
    start(0);
    for (int i = 0; i < 3; i++) {
        device = test_open();
        OK(leat_stream_create(device, &stream));
        OK(leat_alloc(stream, BYTES, &memory));
        OK(leat_fill(stream, memory, 1, BYTES));
        OK(leat_device_close(device));
    }
    stop(&trace);
    assert_int_equal(trace.count, 6);
    assert_int_equal(trace.devices, 1);
    assert_int_equal(trace.lost_times, 0);
    for (size_t i = 0; i < trace.count; i++)
        assert_int_equal(trace.ops[i].device_start_ns != 0, i % 2);
    trace_free(&trace);
}

static void many_traces(void **state)
{
    struct test_state *t = *state;
    void *memory = test_alloc(t->device, LEAT_KIND_DEVICE, BYTES);
    struct trace trace;

    for (unsigned i = 0; i < 30; i++) {
        start(0);
        for (unsigned j = 0; j < i; j++)
            OK(leat_fill(t->stream, memory, 1, BYTES));
        OK(leat_stream_synchronize(t->stream));
        stop(&trace);
        assert_int_equal(trace.count, i + 1);
        assert_int_equal(trace.lost_times, 0);
        assert_int_equal(trace.clocks > 0, i > 0);
        trace_free(&trace);
    }
    OK(leat_memory_free(memory));
}

/* Returns the latest memory of a pool in the trace; NULL: there is none. */
static const struct trace_memory *memory_of(const struct trace *trace, const char *pool)
{
    const struct trace_memory *latest = NULL;

    for (size_t i = 0; i < trace->memory_count; i++)
        if (!strcmp(trace->memory[i].name, pool)) {
            assert_true(!latest || latest->time_ns < trace->memory[i].time_ns);
            latest = &trace->memory[i];
        }
    return latest;
}

/* Waits until the file says that the pool has used_bytes. */
static void wait_for_memory(const char *pool, uint64_t used_bytes)
{
    bool there = false;

    while (!there) {
        const struct trace_memory *latest;
        struct trace trace;

        usleep(1000);
        trace_read(&trace, path, true);
        latest = memory_of(&trace, pool);
        there = latest && latest->used_bytes == used_bytes;
        trace_free(&trace);
    }
}

static void memory_of_pools(void **state)
{
    struct test_state *t = *state;
    leat_pool_options options = LEAT_POOL_OPTIONS_INIT;
    const struct trace_memory *latest;
    const uint64_t mib = 1 << 20;
    leat_pool *pools[80], *pool;
    struct trace trace;
    void *memory;

    options.name = "before the trace";
    OK(leat_pool_create(t->device, &options, &pool));
    OK(leat_pool_alloc(t->stream, pool, 8 * mib, &memory));
    start(0);
    wait_for_memory("before the trace", 8 * mib);
    OK(leat_free(t->stream, memory));
    wait_for_memory("before the trace", 0);
    OK(leat_pool_destroy(pool));
    options.name = "many";
    for (unsigned i = 0; i < 80; i++) /* more than the recorder takes */
        OK(leat_pool_create(t->device, &options, &pools[i]));
    for (unsigned i = 0; i < 80; i++)
        OK(leat_pool_destroy(pools[i]));
    options.name = "at the end";
    OK(leat_pool_create(t->device, &options, &pool));
    OK(leat_pool_alloc(t->stream, pool, 4 * mib, &memory));
    wait_for_memory("at the end", 4 * mib);
    OK(leat_free(t->stream, memory));
    OK(leat_stream_synchronize(t->stream));
    stop(&trace);
    latest = memory_of(&trace, "before the trace");
    assert_string_equal(latest->memory, "device");
    assert_string_equal(latest->device, test_device_name());
    assert_int_equal(latest->reserved_bytes, 0); /* it was destroyed */
    latest = memory_of(&trace, "at the end");
    assert_true(latest->used_bytes == 0 && latest->reserved_bytes >= 4 * mib);
    trace_free(&trace);
    OK(leat_pool_destroy(pool));
}

static void refused(void **state)
{
    leat_trace_options options = LEAT_TRACE_OPTIONS_INIT;
    leat_trace_stats stats = LEAT_TRACE_STATS_INIT;
    struct trace trace;

    (void)state;
    REFUSED(leat_trace_stop(NULL), LEAT_ERROR_INVALID, "no trace");
    REFUSED(leat_trace_start(NULL, NULL), LEAT_ERROR_INVALID, "NULL");
    REFUSED(leat_trace_start("", NULL), LEAT_ERROR_INVALID, "empty");
    REFUSED(leat_trace_start("/no such folder/trace", NULL), LEAT_ERROR_FILE, "/no such folder/trace");
    REFUSED(leat_trace_start("/tmp", NULL), LEAT_ERROR_FILE, "/tmp");
    options.flags = 2;
    REFUSED(leat_trace_start("/dev/null", &options), LEAT_ERROR_INVALID, "0x2");
    options.size = 1;
    REFUSED(leat_trace_start("/dev/null", &options), LEAT_ERROR_INVALID, "size");
    if (access("/dev/full", W_OK) == 0)
        REFUSED(leat_trace_start("/dev/full", NULL), LEAT_ERROR_FILE, "No space left");
    start(0);
    REFUSED(leat_trace_start("/dev/null", NULL), LEAT_ERROR_BUSY, "already");
    stats.size = 1;
    REFUSED(leat_trace_stop(&stats), LEAT_ERROR_INVALID, "size");
    stop(&trace);
    assert_int_equal(trace.count, 0);
    trace_free(&trace);
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(copies_and_work),
    STATE_TEST(memory_and_files),
    STATE_TEST(streams_that_wait),
    cmocka_unit_test(ranges),
    STATE_TEST(failures),
    STATE_TEST(host_only),
    STATE_TEST(work_that_goes_on),
    STATE_TEST(threads_that_end),
    STATE_TEST(many_streams),
    STATE_TEST(many_traces),
    STATE_TEST(captures_go_on),
    cmocka_unit_test(device_that_closes),
    STATE_TEST(memory_of_pools),
    cmocka_unit_test(refused),
};

TEST_MAIN(tests)
