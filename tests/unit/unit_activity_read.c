/*
 * unit_activity_read.c - tests what "leat trace" reads and writes: traces of leat's own format and of PyTorch's
 * profiler, files that are truncated, foreign or damaged, the page for a browser, and the timeline for Perfetto.
 */
#include "../../cli/activity_join.h"
#include "../../cli/activity_names.h"
#include "activity_file.h"
#include "large_trace.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- reading ---- */

static const struct activity *find(const struct activity_log *log, enum activity_kind kind)
{
    for (size_t i = 0; i < log->count; i++)
        if (log->list[i].kind == kind)
            return &log->list[i];
    fail_msg("no %s", activity_kind_names[kind]);
    return NULL;
}

/* Both files have the same work. */
static void check_made(const struct activity_log *log, const char *copy_name)
{
    const struct activity *copy = find(log, ACTIVITY_COPY), *kernel = find(log, ACTIVITY_KERNEL);
    const struct activity *alloc = find(log, ACTIVITY_ALLOC), *wait = find(log, ACTIVITY_HOST_WAIT);
    struct activity_breakdown *breakdown = activity_breakdown_make(log);

    assert_int_equal(log->count, 5);
    assert_int_equal(log->start_ns, 1050);
    assert_int_equal(log->span_ns, 3000);
    assert_true(log->device_count == 1 && log->stream_count == 1 && log->thread_count == 1);
    assert_int_equal(log->streams[0].number, 3);
    assert_int_equal(copy->host_begin_ns, 150);
    assert_int_equal(copy->host_end_ns, 170);
    assert_int_equal(copy->device_begin_ns, 200);
    assert_int_equal(copy->device_end_ns, 400);
    assert_int_equal(copy->bytes, 4096);
    assert_int_equal(copy->flags, ACTIVITY_FLAG_HOST | ACTIVITY_FLAG_DEVICE | ACTIVITY_FLAG_BLOCKS);
    assert_int_equal(copy->from_memory, ACTIVITY_MEMORY_PAGEABLE);
    assert_int_equal(copy->to_memory, ACTIVITY_MEMORY_DEVICE);
    assert_string_equal(activity_name(log, copy->name), copy_name);
    assert_string_equal(activity_name(log, copy->range), "step");
    assert_int_equal(kernel->device_begin_ns, 430);
    assert_int_equal(kernel->device_end_ns, 2430);
    assert_string_equal(activity_name(log, kernel->name), "square");
    assert_int_equal(alloc->to_memory, ACTIVITY_MEMORY_DEVICE);
    assert_int_equal(wait->host_end_ns - wait->host_begin_ns, 2048);
    assert_non_null(breakdown);
    assert_int_equal(breakdown->all.parts.copy_ns, 200);
    assert_int_equal(breakdown->all.parts.compute_ns, 2000);
    assert_int_equal(breakdown->all.parts.idle_ns, 800);
    assert_int_equal(breakdown->all.idle_by_ns[ACTIVITY_IDLE_ALLOC], 50);
    activity_breakdown_destroy(breakdown);
}

static void leat_traces_are_read(void **state)
{
    struct made_file file = {NULL, 0, 0};
    char error[ACTIVITY_ERROR_MAX], place[ACTIVITY_PLACE_MAX];
    struct activity_log *log;

    (void)state;
    made_trace(&file);
    log = made_read(file.bytes, file.count, error);
    if (!log)
        fail_msg("%s", error);
    check_made(log, "leat_copy_sync");
    assert_int_equal(log->lost, 7);
    assert_false(log->truncated);
    assert_string_equal(activity_place(log, find(log, ACTIVITY_COPY), place),
                        "leat_copy_sync at program(load+0x12) in 'step'");
    assert_int_equal(find(log, ACTIVITY_COPY)->address, 0x2000);
    activity_log_destroy(log);
    free(file.bytes);
}

static void memory_of_pools_is_read(void **state)
{
    struct made_file file = {NULL, 0, 0};
    char error[ACTIVITY_ERROR_MAX], name[ACTIVITY_POOL_NAME_MAX];
    struct activity_log *log;
    size_t order[2];

    (void)state;
    made_trace(&file);
    log = made_read(file.bytes, file.count, error);
    if (!log)
        fail_msg("%s", error);
    assert_true(log->pool_count == 2 && log->change_count == 4);
    assert_true(log->pools[0].used_peak_bytes == 4000 && log->pools[0].reserved_peak_bytes == 8192);
    assert_true(log->pools[0].used_bytes == 7 && log->pools[0].reserved_bytes == 2048);
    assert_true(log->pools[0].device == 0 && log->pools[1].device == ACTIVITY_NONE);
    assert_int_equal(log->pools[0].memory, ACTIVITY_MEMORY_DEVICE);
    assert_string_equal(activity_pool_name(log, 0, name), "a pool on cpu:0");
    assert_int_equal(log->changes[0].ns, 0); /* the span begins at 1050 */
    assert_int_equal(log->changes[1].ns, 450);
    assert_int_equal(log->changes[2].ns, 950);
    assert_int_equal(log->changes[3].ns, log->span_ns);
    assert_int_equal(activity_pool_order(log, order), 1); /* the other one never had memory */
    assert_int_equal(order[0], 0);
    activity_log_destroy(log);
    free(file.bytes);
}

/* A kernel on one stream, an event behind it, another stream that waits for the event, and a kernel there. */
static void waits_of_streams_get_their_times(void **state)
{
    const struct leati_trace_thread thread = {.id = 1};
    const struct leati_trace_device device = {.id = 1};
    const struct leati_trace_lane lanes[] = {{.id = 1, .device = 1, .serial = 1},
                                             {.id = 2, .device = 1, .serial = 2}};
    const struct leati_trace_op ops[] = {
        {.host_start_ns = 100,
         .host_time = 10,
         .device_start_ns = 200,
         .device_end_ns = 900,
         .lane = 1,
         .kind = LEATI_TRACE_HOST_FUNCTION},
        {.host_start_ns = 120, .host_time = 10, .lane = 1, .kind = LEATI_TRACE_EVENT_RECORD},
        {.host_start_ns = 140,
         .host_time = 10,
         .device_start_ns = 160,
         .device_end_ns = 300,
         .lane = 2,
         .kind = LEATI_TRACE_KERNEL},
        {.host_start_ns = 150,
         .host_time = 10,
         .lane = 2,
         .value = leati_trace_op_id(1, 8),
         .kind = LEATI_TRACE_EVENT_WAIT},
        {.host_start_ns = 170,
         .host_time = 10,
         .device_start_ns = 910,
         .device_end_ns = 1000,
         .lane = 2,
         .kind = LEATI_TRACE_KERNEL},
        {.host_start_ns = 2000,
         .host_time = 10,
         .lane = 2,
         .value = leati_trace_op_id(1, 8),
         .kind = LEATI_TRACE_EVENT_WAIT},
        {.host_start_ns = 2020,
         .host_time = 10,
         .lane = 2,
         .value = leati_trace_op_id(5, 8),
         .kind = LEATI_TRACE_EVENT_WAIT}};
    struct made_file file = {NULL, 0, 0};
    char error[ACTIVITY_ERROR_MAX];
    struct activity_breakdown *breakdown;
    struct activity_log *log;
    size_t timed = 0;

    (void)state;
    made_header(&file);
    made_chunk(&file, LEATI_TRACE_CHUNK_THREADS, 0, 0, &thread, 1, sizeof thread);
    made_chunk(&file, LEATI_TRACE_CHUNK_DEVICES, 0, 0, &device, 1, sizeof device);
    made_chunk(&file, LEATI_TRACE_CHUNK_LANES, 0, 0, lanes, 2, sizeof lanes[0]);
    made_chunk(&file, LEATI_TRACE_CHUNK_OPS, 1, 7, ops, 7, sizeof ops[0]);
    log = made_read(file.bytes, file.count, error);
    if (!log)
        fail_msg("%s", error);
    for (size_t i = 0; i < log->count; i++) {
        const struct activity *a = &log->list[i];

        if (a->kind != ACTIVITY_STREAM_WAIT || !(a->flags & ACTIVITY_FLAG_DEVICE))
            continue;
        timed++; /* only the first: the others find the event complete, or do not know it */
        assert_int_equal(a->device_begin_ns, 300 - 100);
        assert_int_equal(a->device_end_ns, 900 - 100);
    }
    assert_int_equal(timed, 1);
    breakdown = activity_breakdown_make(log);
    assert_non_null(breakdown);
    assert_int_equal(breakdown->all.idle_by_ns[ACTIVITY_IDLE_EVENT], 600);
    assert_int_equal(breakdown->all.idle_by_ns[ACTIVITY_IDLE_LAUNCH], 10 + 20);
    activity_breakdown_destroy(breakdown);
    activity_log_destroy(log);
    free(file.bytes);
}

/* Calls of CUDA that another recorder has told of, beside an operation of leat's: a launch of a graph with two
 * kernels, with the driver's call in it, a copy that leat serves, with the copies that leat makes for it, and work
 * without a call. */
static void foreign_operations_are_joined(void **state)
{
    enum { CALL = LEATI_TRACE_FOREIGN };
    const struct leati_trace_thread thread = {.id = 1};
    const struct leati_trace_device device = {.id = 1};
    const struct leati_trace_lane lane = {.id = 1, .device = 1, .serial = 7};
    const struct leati_trace_source source = {LEATI_TRACE_BY_CUPTI, 5};
    const struct leati_trace_op own = {.host_start_ns = 3000,
                                       .host_time = 500,
                                       .device_start_ns = 3100,
                                       .device_end_ns = 3400,
                                       .bytes = 64,
                                       .lane = 1,
                                       .kind = LEATI_TRACE_COPY};
    const struct leati_trace_op range = {
        .host_start_ns = 900, .host_time = 1500, .name = 6, .kind = LEATI_TRACE_RANGE};
    const struct leati_trace_op calls[] = {
        {.host_start_ns = 1010, .host_time = 50, .value = 1, .name = 7, .kind = LEATI_TRACE_KERNEL, .how = CALL},
        {.host_start_ns = 1000, .host_time = 100, .value = 1, .name = 8, .kind = LEATI_TRACE_KERNEL, .how = CALL},
        {.host_start_ns = 3050, .host_time = 10, .value = 2, .kind = LEATI_TRACE_COPY, .how = CALL},
        {.host_start_ns = 2900, .host_time = 900, .value = 3, .name = 9, .kind = LEATI_TRACE_COPY, .how = CALL}};
    const struct leati_trace_op works[] = {
        {.device_start_ns = 1200,
         .device_end_ns = 1300,
         .value = 1,
         .lane = 1,
         .name = 10,
         .kind = LEATI_TRACE_KERNEL},
        {.device_start_ns = 1400,
         .device_end_ns = 1600,
         .value = 1,
         .lane = 1,
         .name = 11,
         .kind = LEATI_TRACE_KERNEL},
        {.device_start_ns = 3110, .device_end_ns = 3120, .value = 2, .lane = 1, .kind = LEATI_TRACE_COPY},
        {.device_start_ns = 3130, .device_end_ns = 3140, .value = 3, .lane = 1, .kind = LEATI_TRACE_COPY},
        {.device_start_ns = 5000, .device_end_ns = 5001, .value = 99, .lane = 1, .kind = LEATI_TRACE_FILL}};
    const uint64_t number = LEATI_TRACE_FOREIGN_NUMBER;
    struct made_file file = {NULL, 0, 0};
    char error[ACTIVITY_ERROR_MAX];
    struct activity_log *log;
    unsigned kernels = 0, copies = 0, joined = 0;

    (void)state;
    made_header(&file);
    made_string(&file, 5, "CUPTI 1");
    made_string(&file, 6, "step");
    made_string(&file, 7, "cuGraphLaunch");
    made_string(&file, 8, "cudaGraphLaunch");
    made_string(&file, 9, "cudaMemcpy");
    made_string(&file, 10, "plain");
    made_string(&file, 11, "_Z6kernelPfi");
    made_chunk(&file, LEATI_TRACE_CHUNK_SOURCE, 0, 0, &source, 1, sizeof source);
    made_chunk(&file, LEATI_TRACE_CHUNK_THREADS, 0, 0, &thread, 1, sizeof thread);
    made_chunk(&file, LEATI_TRACE_CHUNK_DEVICES, 0, 0, &device, 1, sizeof device);
    made_chunk(&file, LEATI_TRACE_CHUNK_LANES, 0, 0, &lane, 1, sizeof lane);
    made_chunk(&file, LEATI_TRACE_CHUNK_OPS, 0, number, works, 5, sizeof works[0]);
    made_chunk(&file, LEATI_TRACE_CHUNK_OPS, 1, number + 5, calls, 4, sizeof calls[0]);
    made_chunk(&file, LEATI_TRACE_CHUNK_OPS, 1, 0, &own, 1, sizeof own);
    made_chunk(&file, LEATI_TRACE_CHUNK_OPS, 1, 1, &range, 1, sizeof range);
    log = made_read(file.bytes, file.count, error);
    if (!log)
        fail_msg("%s", error);
    assert_int_equal(log->calls_by, ACTIVITY_CALLS_BY_CUPTI);
    assert_string_equal(activity_name(log, log->calls_detail), "CUPTI 1");
    for (size_t i = 0; i < log->count; i++) {
        const struct activity *a = &log->list[i];

        if (a->kind == ACTIVITY_COPY && (a->flags & ACTIVITY_FLAG_DEVICE))
            copies++;
        if (a->kind != ACTIVITY_KERNEL)
            continue;
        kernels++;
        assert_int_equal(a->host_begin_ns, 100);
        assert_int_equal(a->host_end_ns, 200);
        assert_string_equal(activity_name(log, a->place), "cudaGraphLaunch");
        assert_string_equal(activity_name(log, a->range), "step");
        joined += !strcmp(activity_name(log, a->name), "kernel(float*, int)");
    }
    /* Two kernels, leat's copy, the call that leat served, the fill, and the range. */
    assert_int_equal(log->count, 6);
    assert_true(kernels == 2 && copies == 1);
    if (!joined)
        print_message("[   note   ] no library decodes names here\n");
    assert_false(activity_log_cut(log, "none", error));
    assert_string_equal(error, "it has no range 'none'");
    assert_true(activity_log_cut(log, "step", error));
    assert_int_equal(log->span_ns, 1500);
    assert_int_equal(log->count, 3);
    activity_log_destroy(log);
    free(file.bytes);
}

static void check_call(const char *name, enum activity_kind kind, enum activity_memory memory)
{
    struct activity call = {.kind = ACTIVITY_KIND_COUNT};

    activity_describe_call(&call, name);
    if (call.kind != kind || call.to_memory != memory)
        fail_msg("%s has the kind %d and memory %d", name, call.kind, call.to_memory);
}

static void calls_are_known_by_their_names(void **state)
{
    (void)state;
    check_call("cudaMalloc", ACTIVITY_ALLOC, ACTIVITY_MEMORY_DEVICE);
    check_call("cudaMallocManaged", ACTIVITY_ALLOC, ACTIVITY_MEMORY_MANAGED);
    check_call("cuMemAllocManaged", ACTIVITY_ALLOC, ACTIVITY_MEMORY_MANAGED);
    check_call("cudaMallocHost", ACTIVITY_ALLOC, ACTIVITY_MEMORY_PINNED);
    check_call("cuMemHostAlloc", ACTIVITY_ALLOC, ACTIVITY_MEMORY_PINNED);
    check_call("cuMemHostRegister_v2", ACTIVITY_ALLOC, ACTIVITY_MEMORY_PINNED);
    check_call("cudaFree", ACTIVITY_FREE, ACTIVITY_MEMORY_UNKNOWN);
    check_call("cudaFreeHost", ACTIVITY_FREE, ACTIVITY_MEMORY_PINNED);
    check_call("cuMemHostUnregister", ACTIVITY_FREE, ACTIVITY_MEMORY_PINNED);
    check_call("cuMemHostGetDevicePointer_v2", ACTIVITY_OTHER, ACTIVITY_MEMORY_UNKNOWN);
    check_call("cuMemHostGetFlags", ACTIVITY_OTHER, ACTIVITY_MEMORY_UNKNOWN);
    check_call("cudaLaunchHostFunc", ACTIVITY_HOST_FUNCTION, ACTIVITY_MEMORY_UNKNOWN);
    check_call("cuLaunchHostFunc", ACTIVITY_HOST_FUNCTION, ACTIVITY_MEMORY_UNKNOWN);
    check_call("cudaStreamAddCallback", ACTIVITY_HOST_FUNCTION, ACTIVITY_MEMORY_UNKNOWN);
}

/* Decodes a name in a process of its own, and returns the memory that this process had at most. */
static size_t decode_apart(const char *name)
{
    struct rusage usage;
    int status;
    pid_t child;

    fflush(stdout);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        free(activity_name_decode("_Z1fv")); /* load the library */
        setrlimit(RLIMIT_CPU, &(struct rlimit){10, 10});
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        setrlimit(RLIMIT_AS, &(struct rlimit){1 << 30, 1 << 30});
#endif
        free(activity_name_decode(name));
        _exit(0);
    }
    assert_int_equal(wait4(child, &status, 0, &usage), child);
    assert_int_equal(status, 0);
    return (size_t)usage.ru_maxrss << 10;
}

/* Each template has the one before it twice as arguments, or expands the pack in all its arguments. */
static void hostile_names_stay_encoded(void **state)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t plain = decode_apart("_Z6kernelPfi"), length;
    char name[512];

    (void)state;
    length = (size_t)snprintf(name, sizeof name, "_Z1f1AIiiES_IS0_S0_E");
    for (int i = 1; i < 34; i++)
        length += (size_t)snprintf(name + length, sizeof name - length, "S_IS%c_S%c_E", digits[i], digits[i]);
    assert_in_range(decode_apart(name), 0, plain + (64 << 20));
    length = (size_t)snprintf(name, sizeof name, "_Z1fIJiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiEEv");
    for (int i = 0; i < 8; i++)
        length += (size_t)snprintf(name + length, sizeof name - length, "Dp1AI");
    snprintf(name + length, sizeof name - length, "T_EEEEEEEE");
    assert_in_range(decode_apart(name), 0, plain + (64 << 20));
}

/* Within a range, a pool begins with the memory that it had before. */
static void ranges_cut_the_memory_of_pools(void **state)
{
    const struct leati_trace_op range = {
        .host_start_ns = 1600, .host_time = 900, .name = 12, .kind = LEATI_TRACE_RANGE};
    struct made_file file = {NULL, 0, 0};
    char error[ACTIVITY_ERROR_MAX];
    struct activity_log *log;

    (void)state;
    made_trace(&file);
    made_string(&file, 12, "inner");
    made_chunk(&file, LEATI_TRACE_CHUNK_OPS, 1, 45, &range, 1, sizeof range);
    log = made_read(file.bytes, file.count, error);
    if (!log)
        fail_msg("%s", error);
    assert_int_equal(log->change_count, 4);
    assert_true(activity_log_cut(log, "inner", error));
    assert_int_equal(log->span_ns, 900);
    assert_int_equal(log->change_count, 2);
    assert_true(log->changes[0].ns == 0 && log->changes[0].used_bytes == 4000);
    assert_true(log->changes[1].ns == 400 && log->changes[1].used_bytes == 3000);
    assert_int_equal(log->pools[0].changes, 2);
    assert_int_equal(log->pools[0].used_peak_bytes, 4000);
    assert_int_equal(log->pools[0].used_bytes, 3000);
    assert_int_equal(log->pools[0].reserved_bytes, 8192);
    assert_int_equal(log->pools[1].changes, 0);
    activity_log_destroy(log);
    free(file.bytes);
}

static void kineto_traces_are_read(void **state)
{
    char error[ACTIVITY_ERROR_MAX];
    struct activity_log *log = made_read(made_kineto, strlen(made_kineto), error);

    (void)state;
    if (!log)
        fail_msg("%s", error);
    check_made(log, "Memcpy HtoD (Pageable -> Device)");
    assert_string_equal(activity_name(log, find(log, ACTIVITY_COPY)->place), "cudaMemcpy");
    activity_log_destroy(log);
}

static struct made_file nsys; /* empty: there is no libsqlite3 */

static void nsys_exports_are_read(void **state)
{
    char error[ACTIVITY_ERROR_MAX];
    struct activity_log *log;

    (void)state;
    if (!made_nsys(&nsys)) {
        print_message("skipped: exports of nsys: there is no libsqlite3\n");
        skip();
    }
    log = made_read(nsys.bytes, nsys.count, error);
    if (!log)
        fail_msg("%s", error);
    check_made(log, "");
    assert_string_equal(log->source, "nsys");
    assert_int_equal(log->lost, 1); /* a copy without times */
    assert_string_equal(activity_name(log, log->devices[0].name), "cuda:0 GPU");
    assert_string_equal(activity_name(log, find(log, ACTIVITY_COPY)->place), "cudaMemcpy");
    assert_string_equal(activity_name(log, find(log, ACTIVITY_KERNEL)->place), "cudaLaunchKernel");
    for (size_t i = 0; i < log->name_count; i++)
        assert_null(strstr(log->names[i], "not used"));
    activity_log_destroy(log);
}

static void cut_nsys_exports_are_refused(void **state)
{
    (void)state;
    if (!nsys.count)
        skip();
    for (size_t bytes = 1; bytes < nsys.count; bytes += 101) {
        char error[ACTIVITY_ERROR_MAX] = "";
        struct activity_log *log = made_read(nsys.bytes, bytes, error);

        assert_null(log);
        assert_true(error[0] != '\0');
    }
    free(nsys.bytes);
}

/* A trace that was cut is read up to the cut, if it has any operation there, and says that it was not ended. */
static void truncated_files_are_read_as_far_as_they_go(void **state)
{
    struct made_file file = {NULL, 0, 0};
    size_t bytes, read = 0, all = strlen(made_kineto);

    (void)state;
    made_trace(&file);
    for (bytes = 0; bytes < file.count; bytes++) {
        char error[ACTIVITY_ERROR_MAX] = "";
        struct activity_log *log = made_read(file.bytes, bytes, error);

        assert_true(log ? log->truncated && log->count == 5 : error[0] != '\0');
        read += log != NULL;
        activity_log_destroy(log);
    }
    assert_in_range(read, sizeof(struct leati_trace_state), file.count / 2);
    free(file.bytes);
    for (bytes = 0; bytes < all - strlen(", \"traceName\": \"x\"}\n"); bytes++) {
        char error[ACTIVITY_ERROR_MAX] = "";

        assert_null(made_read(made_kineto, bytes, error));
        assert_true(error[0] != '\0');
    }
}

static void refuse(const void *bytes, size_t count, const char *message)
{
    char error[ACTIVITY_ERROR_MAX] = "";

    assert_null(made_read(bytes, count, error));
    if (!strstr(error, message))
        fail_msg("'%s' does not say '%s'", error, message);
}

static void refuse_text(const char *text, const char *message)
{
    refuse(text, strlen(text), message);
}

static void wrong_files_are_refused(void **state)
{
    struct made_file file = {NULL, 0, 0};
    char error[ACTIVITY_ERROR_MAX];

    (void)state;
    refuse_text("", "the file is empty");
    refuse_text("t_us,op,id,bytes,stream\n", "neither a trace of leat");
    refuse_text("SQLite format 3", "within its header");
    refuse_text("leattrc\n", "within its header");
    refuse_text("{}", "there is no list traceEvents");
    refuse_text("{\"a\": 1, \"b\": [2]}", "there is no list traceEvents");
    refuse_text("{\"traceEvents\": {}}", "the list of events");
    refuse_text("{\"traceEvents\": [1]}", "an event");
    refuse_text("{\"traceEvents\": []}", "no activity with a time");
    refuse_text("[{\"ph\": \"X\", \"cat\": \"kernel\"}]", "no activity with a time");
    refuse_text("[{\"ph\": \"X\", \"cat\": \"kernel\", \"ts\": -1, \"dur\": 1e300}]", "no activity with a time");
    refuse_text("[{\"ph\": ]", "is damaged");
    refuse_text("[{\"ph\": \033[2J\302\233}]", "near '?'"); /* no escape sequence may come through */
    assert_null(activity_read("/nonexistent/trace", error));
    assert_non_null(strstr(error, "cannot be opened"));

    made_trace(&file);
    file.bytes[8] = 2;
    refuse(file.bytes, file.count, "format version 2");
    file.bytes[8] = 1;
    file.bytes[64] ^= 1;
    refuse(file.bytes, file.count, "no chunk begins at byte 64");
    file.bytes[64] ^= 1;
    file.bytes[64 + 32 + 4] = 200; /* the length of the first string */
    refuse(file.bytes, file.count, "a string ends behind its chunk");
    free(file.bytes);
}

static void damaged_records_are_refused(void **state)
{
    const struct leati_trace_lane lane = {.id = 1, .device = 9, .serial = 3};
    const struct leati_trace_thread thread = {.id = 0};
    const struct leati_trace_device device = {.id = UINT32_MAX};
    const struct leati_trace_pool pool = {.id = 1};
    struct leati_trace_pool_memory memory = {.time_ns = 1, .pool = 2};
    struct made_file file = {NULL, 0, 0};

    (void)state;
    made_header(&file);
    made_chunk(&file, LEATI_TRACE_CHUNK_LANES, 0, 0, &lane, 1, sizeof lane);
    refuse(file.bytes, file.count, "lane 1 has no device");
    file.count = 64;
    made_chunk(&file, LEATI_TRACE_CHUNK_THREADS, 0, 0, &thread, 1, sizeof thread);
    refuse(file.bytes, file.count, "a thread has the id 0");
    file.count = 64;
    made_chunk(&file, LEATI_TRACE_CHUNK_DEVICES, 0, 0, &device, 1, sizeof device);
    refuse(file.bytes, file.count, "a device has the id 4294967295");
    file.count = 64;
    made_chunk(&file, LEATI_TRACE_CHUNK_OPS, 1, 0, &lane, 1, sizeof lane);
    refuse(file.bytes, file.count, "1 records of 16 bytes");
    file.count = 64;
    made_chunk(&file, LEATI_TRACE_CHUNK_POOLS, 0, 0, &pool, 1, sizeof pool);
    made_chunk(&file, LEATI_TRACE_CHUNK_POOL_MEMORY, 0, 0, &memory, 1, sizeof memory);
    refuse(file.bytes, file.count, "there is no pool 2");
    memory.pool = 1;
    memory.used_bytes = UINT64_MAX;
    memcpy(file.bytes + file.count - sizeof memory, &memory, sizeof memory);
    refuse(file.bytes, file.count, "pool 1 has 18446744073709551615 bytes");
    free(file.bytes);
}

/* A time of another clock, of zero or of all ones would make the span meaningless. */
/* A program may ask for any number of bytes; the call fails, and the trace is read. */
static void calls_with_any_bytes_are_read(void **state)
{
    const struct leati_trace_thread thread = {.id = 1};
    const struct leati_trace_op op = {
        .host_start_ns = 1100, .host_time = 50, .bytes = UINT64_MAX, .kind = LEATI_TRACE_ALLOC, .status = -6};
    struct made_file file = {NULL, 0, 0};
    char error[ACTIVITY_ERROR_MAX] = "";
    struct activity_log *log;

    (void)state;
    made_header(&file);
    made_chunk(&file, LEATI_TRACE_CHUNK_THREADS, 0, 0, &thread, 1, sizeof thread);
    made_chunk(&file, LEATI_TRACE_CHUNK_OPS, 1, 0, &op, 1, sizeof op);
    log = made_read(file.bytes, file.count, error);
    free(file.bytes);
    assert_string_equal(error, "");
    assert_non_null(log);
    assert_int_equal(log->count, 1);
    assert_true(log->list[0].flags & ACTIVITY_FLAG_FAILED);
    assert_true(log->list[0].bytes == ACTIVITY_BYTES_MAX);
    activity_log_destroy(log);
}

static void impossible_spans_are_refused(void **state)
{
    const struct leati_trace_op ops[] = {
        {.host_start_ns = 1, .host_time = 1, .kind = LEATI_TRACE_COPY},
        {.host_start_ns = UINT64_MAX - 5, .host_time = 1, .kind = LEATI_TRACE_COPY}};
    struct made_file file = {NULL, 0, 0};

    (void)state;
    made_header(&file);
    made_chunk(&file, LEATI_TRACE_CHUNK_OPS, 1, 0, ops, 2, sizeof ops[0]);
    refuse(file.bytes, file.count, "its times span 18446744073709551610 ns");
    free(file.bytes);
}

/* ---- a long run, to write ---- */

enum { LONG_COUNT = 60000, THREADS = 5, STREAMS = 7, POOLS = 20, CHANGES = 20000 };

/* Calls nest and work overlaps in all ways. Names have characters that a page and JSON must escape. */
static struct activity_log *make_long(void)
{
    struct activity_log *log = activity_log_create();
    uint32_t device = activity_log_device(log, 0, "gpu</script>:0");
    char error[ACTIVITY_ERROR_MAX];
    uint64_t random = 1;

    log->source = "test";

    for (unsigned i = 0; i < STREAMS; i++)
        activity_log_stream(log, device, i);
    for (unsigned i = 0; i < POOLS; i++) {
        struct activity_pool pool = {.name = activity_log_name(log, "</pool>"),
                                     .device_name = log->devices[device].name};

        assert_int_equal(activity_log_pool(log, &pool), i);
    }
    for (unsigned i = 0; i < THREADS; i++)
        activity_log_thread(log, i);
    for (unsigned i = 0; i < LONG_COUNT; i++) {
        char name[64];
        struct activity a = {.pieces = 1, .place = ACTIVITY_NONE};

        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        snprintf(name, sizeof name, "k<%u>&\"\xff\x01", (unsigned)(random >> 33) % 1000);
        a.kind = (uint8_t)((random >> 40) % ACTIVITY_KIND_COUNT);
        a.flags = (uint8_t)(1 + (random >> 50) % 3);
        a.thread = i % THREADS;
        a.stream = (uint32_t)(random >> 45) % STREAMS;
        a.name = activity_log_name(log, name);
        a.bytes = random >> 44;
        a.host_begin_ns = (uint64_t)i * 1000 + (random >> 20) % 5000;
        a.host_end_ns = a.host_begin_ns + (random >> 25) % 9000;
        a.device_begin_ns = a.host_begin_ns + (random >> 30) % 20000;
        a.device_end_ns = a.device_begin_ns + (random >> 35) % 30000;
        assert_true(activity_log_add(log, &a));
    }
    for (unsigned i = 0; i < CHANGES; i++) {
        struct activity_memory_change change = {
            .ns = i * 2999, .used_bytes = i * 512, .reserved_bytes = i * 1024, .pool = i % POOLS};

        assert_true(activity_log_change(log, &change));
    }
    assert_true(activity_log_finish(log, error));
    return log;
}

/* Returns what write() writes. */
static unsigned char *written(const struct activity_report *report, size_t *bytes,
                              bool (*write)(const struct activity_report *report, FILE *file))
{
    static char *text; /* static, since the stream keeps its address */
    FILE *file = open_memstream(&text, bytes);

    assert_non_null(file);
    assert_true(write(report, file));
    assert_int_equal(fclose(file), 0);
    return (unsigned char *)text;
}

static bool write_perfetto(const struct activity_report *report, FILE *file)
{
    return activity_write_perfetto(report->log, file);
}

static void pages_are_small_and_closed(void **state)
{
    struct activity_log *log = make_long();
    struct activity_breakdown *breakdown = activity_breakdown_make(log);
    struct activity_report report = {.path = "</script><!--", .log = log, .breakdown = breakdown};
    size_t bytes, ends = 0;
    char *page = (char *)written(&report, &bytes, activity_write_html), *at, *data;

    (void)state;
    assert_in_range(bytes, 100000, 999999);
    assert_int_equal(strlen(page), bytes);
    for (at = page; (at = strstr(at, "</script>")) != NULL; at++)
        ends++;
    assert_int_equal(ends, 2);
    assert_null(strstr(page, "<!--"));
    assert_non_null(strstr(page, "\"charts\":[{\"name\":\"\\u003c/pool> on gpu"));
    data = strstr(page, "id=\"data\">");
    assert_non_null(data);
    assert_int_equal(strncmp(data, "id=\"data\">{\"report\"", 19), 0);
    /* Nothing is loaded from elsewhere. */
    assert_null(strstr(page, "http:"));
    assert_null(strstr(page, "https:"));
    assert_null(strstr(page, " src="));
    free(page);
    activity_breakdown_destroy(breakdown);
    activity_log_destroy(log);
}

/* ---- Perfetto's format, read by a few lines ---- */

struct field {
    unsigned number, wire;
    uint64_t value; /* or the length */
    const unsigned char *data;
};

static uint64_t take_varint(const unsigned char **at, const unsigned char *end)
{
    uint64_t value = 0;
    unsigned shift = 0;

    do {
        assert_true(*at < end && shift < 64);
        value |= (uint64_t)(**at & 127) << shift;
        shift += 7;
    } while (*(*at)++ & 128);
    return value;
}

/* Takes the next field of a message. Returns false at its end. */
static bool take_field(const unsigned char **at, const unsigned char *end, struct field *field)
{
    uint64_t tag;

    if (*at == end)
        return false;
    tag = take_varint(at, end);
    *field = (struct field){(unsigned)(tag >> 3), (unsigned)tag & 7, 0, NULL};
    if (field->wire == 0)
        field->value = take_varint(at, end);
    else {
        field->value = field->wire == 1 ? 8 : take_varint(at, end);
        field->data = *at;
        assert_true(field->wire == 1 || field->wire == 2);
        assert_true(field->value <= (uint64_t)(end - *at));
        *at += field->value;
    }
    return true;
}

enum { TRACKS_MAX = 64, DEPTH_MAX = 70 };

/* An event of a track. */
struct event {
    uint64_t ns, track;
    unsigned type;
    bool flow;
    size_t order;
};

static int compare_events(const void *a, const void *b)
{
    const struct event *one = a, *other = b;

    if (one->track != other->track)
        return one->track < other->track ? -1 : 1;
    if (one->ns != other->ns)
        return one->ns < other->ns ? -1 : 1;
    return one->order < other->order ? -1 : 1;
}

/* Takes one packet. Returns true if it is an event. */
static bool take_packet(const unsigned char *at, const unsigned char *end, struct event *event)
{
    struct field field, inner;
    bool is_event = false;

    while (take_field(&at, end, &field)) {
        const unsigned char *data = field.data;

        if (field.number == 8)
            event->ns = field.value;
        if (field.number != 11)
            continue;
        is_event = true;
        while (take_field(&data, field.data + field.value, &inner)) {
            if (inner.number == 9)
                event->type = (unsigned)inner.value;
            if (inner.number == 11)
                event->track = inner.value;
            if (inner.number == 47)
                event->flow = true;
        }
    }
    return is_event;
}

/* How many events a timeline has. */
struct counted {
    size_t slices, counters, flows;
};

/* The slices of each track must nest when its events are sorted by time, as trace_processor sorts them. */
static struct counted count_events(const unsigned char *trace, size_t bytes)
{
    struct event *events = calloc(bytes / 8, sizeof *events);
    struct counted counted = {0, 0, 0};
    const unsigned char *at = trace;
    struct field packet;
    unsigned depth = 0;
    size_t count = 0;

    while (take_field(&at, trace + bytes, &packet)) {
        assert_int_equal(packet.number, 1);
        events[count].order = count;
        count += take_packet(packet.data, packet.data + packet.value, &events[count]);
    }
    qsort(events, count, sizeof *events, compare_events);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || events[i].track != events[i - 1].track)
            assert_int_equal(depth, 0);
        counted.slices += events[i].type == 1;
        counted.counters += events[i].type == 4;
        counted.flows += events[i].flow;
        depth += events[i].type == 1;
        assert_true(events[i].type != 2 || depth > 0);
        depth -= events[i].type == 2;
    }
    assert_int_equal(depth, 0);
    free(events);
    printf("    %zu bytes for %zu slices and %zu counts: %.1f each\n", bytes, counted.slices, counted.counters,
           (double)bytes / (double)(counted.slices + counted.counters));
    assert_true(bytes <= 50 * (counted.slices + counted.counters));
    return counted;
}

/* More threads than the page has tracks, each with 3 calls, and pools with long names. */
static void pages_show_some_of_many(void **state)
{
    enum { MANY_THREADS = 49, MANY_POOLS = 20000 };
    struct activity_log *log = activity_log_create();
    struct activity_breakdown *breakdown;
    struct activity_report report = {.path = "many", .log = log};
    char error[ACTIVITY_ERROR_MAX];
    unsigned char *page;
    size_t bytes;

    (void)state;
    log->source = "test";
    for (unsigned i = 0; i < MANY_POOLS; i++) {
        struct activity_memory_change change = {.ns = 50, .used_bytes = i, .reserved_bytes = i + 1, .pool = i};
        struct activity_pool pool = {.name = activity_log_name(log, "pool"), .device_name = ACTIVITY_NONE};

        assert_int_equal(activity_log_pool(log, &pool), i);
        assert_true(activity_log_change(log, &change));
    }
    for (unsigned i = 0; i < 3 * MANY_THREADS; i++) {
        struct activity a = {.kind = ACTIVITY_OTHER,
                             .flags = ACTIVITY_FLAG_HOST,
                             .host_begin_ns = i * 10,
                             .host_end_ns = i * 10 + 5,
                             .stream = ACTIVITY_NONE,
                             .thread = activity_log_thread(log, i % MANY_THREADS),
                             .name = ACTIVITY_NONE,
                             .place = ACTIVITY_NONE};

        assert_true(activity_log_add(log, &a));
    }
    assert_true(activity_log_finish(log, error));
    report.breakdown = breakdown = activity_breakdown_make(log);
    page = written(&report, &bytes, activity_write_html);
    assert_in_range(bytes, 10000, 999999);
    assert_non_null(strstr((char *)page, "\"thread 0\""));
    assert_non_null(strstr((char *)page, "\"thread 47\""));
    assert_null(strstr((char *)page, "\"thread 48\""));
    assert_non_null(strstr((char *)page, "\"reserved_peak_bytes\":20000,")); /* the largest pool */
    free(page);
    activity_breakdown_destroy(breakdown);
    activity_log_destroy(log);
}

static void perfetto_slices_nest(void **state)
{
    struct activity_log *log = make_long();
    struct activity_report report = {.log = log};
    size_t bytes, expected = 0, expected_flows = 0;
    unsigned char *trace = written(&report, &bytes, write_perfetto);
    struct counted counted = count_events(trace, bytes);

    (void)state;
    for (size_t i = 0; i < log->count; i++) {
        int flags = log->list[i].flags & (ACTIVITY_FLAG_HOST | ACTIVITY_FLAG_DEVICE);

        expected += (size_t)__builtin_popcount((unsigned)flags);
        expected_flows += flags == (ACTIVITY_FLAG_HOST | ACTIVITY_FLAG_DEVICE) ? 2 : 0;
    }
    assert_int_equal(counted.slices, expected);
    assert_int_equal(counted.flows, expected_flows);
    assert_true(counted.counters > 2 * CHANGES);
    free(trace);
    activity_log_destroy(log);
}

/* Writes a file as a timeline in one pass. Returns NULL if that is refused, with the error set. */
static unsigned char *in_one_pass(const char *path, size_t *bytes, char error[ACTIVITY_ERROR_MAX])
{
    static char *text; /* static, since the stream keeps its address */
    FILE *file = open_memstream(&text, bytes);
    uint64_t missed;
    bool fine;

    assert_non_null(file);
    fine = activity_perfetto_pass(path, file, &missed, error);
    assert_int_equal(fclose(file), 0);
    assert_true(!fine || missed == 0);
    if (fine)
        return (unsigned char *)text;
    free(text);
    return NULL;
}

/* More work than is held back for its order. */
static void timelines_in_one_pass_have_all(void **state)
{
    char path[TEMPORARY_PATH], error[ACTIVITY_ERROR_MAX] = "";
    int fd = temporary_file(path);
    FILE *file = fdopen(fd, "w");
    struct counted counted;
    struct large_trace has;
    unsigned char *trace;
    size_t bytes;

    (void)state;
    assert_non_null(file);
    has = large_write(file, 200000);
    assert_int_equal(fclose(file), 0);
    trace = in_one_pass(path, &bytes, error);
    if (!trace)
        fail_msg("%s", error);
    counted = count_events(trace, bytes);
    assert_int_equal(counted.slices, has.calls + has.work + has.ranges);
    assert_int_equal(counted.flows, 2 * has.work);
    assert_int_equal(counted.counters, 2 * has.copies + 2 * has.memory);
    free(trace);
    unlink(path);
    assert_null(in_one_pass(TEST_NSYS, &bytes, error));
    assert_non_null(strstr(error, "traces of leat"));
}

static void foreign_operations_are_refused_in_one_pass(void **state)
{
    const struct leati_trace_op call = {.host_start_ns = 1010, .host_time = 50, .value = 1};
    struct made_file file = {NULL, 0, 0};
    char path[TEMPORARY_PATH], error[ACTIVITY_ERROR_MAX];
    size_t bytes;
    int fd = temporary_file(path);

    (void)state;
    made_trace(&file);
    made_chunk(&file, LEATI_TRACE_CHUNK_OPS, 1, LEATI_TRACE_FOREIGN_NUMBER, &call, 1, sizeof call);
    assert_true(fd >= 0 && write(fd, file.bytes, file.count) == (ssize_t)file.count && close(fd) == 0);
    assert_null(in_one_pass(path, &bytes, error));
    assert_non_null(strstr(error, "which --one-pass cannot join"));
    unlink(path);
    free(file.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leat_traces_are_read),
        cmocka_unit_test(memory_of_pools_is_read),
        cmocka_unit_test(waits_of_streams_get_their_times),
        cmocka_unit_test(foreign_operations_are_joined),
        cmocka_unit_test(calls_are_known_by_their_names),
        cmocka_unit_test(hostile_names_stay_encoded),
        cmocka_unit_test(kineto_traces_are_read),
        cmocka_unit_test(nsys_exports_are_read),
        cmocka_unit_test(cut_nsys_exports_are_refused),
        cmocka_unit_test(truncated_files_are_read_as_far_as_they_go),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(damaged_records_are_refused),
        cmocka_unit_test(calls_with_any_bytes_are_read),
        cmocka_unit_test(impossible_spans_are_refused),
        cmocka_unit_test(pages_are_small_and_closed),
        cmocka_unit_test(pages_show_some_of_many),
        cmocka_unit_test(perfetto_slices_nest),
        cmocka_unit_test(timelines_in_one_pass_have_all),
        cmocka_unit_test(ranges_cut_the_memory_of_pools),
        cmocka_unit_test(foreign_operations_are_refused_in_one_pass),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
