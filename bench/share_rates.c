/*
 * share_rates.c - measures memory that two processes share (leat/share.h): copies, hand-overs, and a file that one
 * process reads for the GPUs of both.
 *
 *     make share-rates                                   # the best device, and the next one of its driver
 *     build/bench/share_rates cuda:0 cuda:1 --quick      # two devices by name; the same name twice: one device
 *
 * The program splits into two processes. A has the memory on the first device and shares it; B receives it.
 *
 *     copies     B copies from A's memory to its own on the first device, and on the second one; in turns with the
 *                same copy from its own memory on the first device.
 *     handover   A and B hand the memory over to each other again and again. The same with the driver's own means:
 *                counters, interprocess events, and two streams of one process.
 *     broadcast  A loads a file to the first device in chunks and hands each chunk over; B copies it to the second
 *                device meanwhile. In turns with A alone.
 *
 * Each figure is a median and the 90th percentile. The exit status is 1 if bytes were wrong or a call failed, and
 * 3 if a step took longer than --limit.
 */
#include <leat/file.h>
#include <leat/leat.h>
#include <leat/native.h>
#include <leat/share.h>

#include <cuda.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define PIECE_BYTES (64 * MIB) /* the host checks and writes memory in pieces of this size */
#define SAMPLES_MAX 99u
#define ROUNDS_MAX 200u   /* a CUDA stream has room for about 1000 operations */
#define CHUNKS_MAX 512u   /* a share has room for 1024 hand-overs */
#define COPIES_MAX 300u   /* copies of one sample */
#define SAMPLE_US 5000.0  /* a sample takes about this long */
#define BROADCASTS 3u     /* counted ones; one more comes before them */
#define COUNTER_PAGE 4096 /* bytes of memory for counters */
#define COUNTER_STRIDE 64 /* numbers between two counters, which need cache lines of their own */

/* Salts: each memory has bytes of its own, so that a copy of other memory is noticed. */
enum { SALT_SHARED = 1, SALT_OWN, SALT_FILE };
enum { READERS = 4 };

static struct {
    const char *names[2]; /* of devices, as given */
    size_t bytes;         /* of the file; 0: what fits, at most 8 GiB */
    size_t chunk_bytes;
    unsigned rounds, samples, limit_s;
    bool quick;
    const char *only; /* NULL: all parts */
} options = {.chunk_bytes = 64 * MIB, .rounds = 100, .samples = 21, .limit_s = 120};

/* This process: A is the parent, and the other one its child. */
static bool is_a = true;
static pid_t child;
static const char *step = "start";
static int control = -1, share_socket = -1; /* sockets to the other process: for messages, for shares */

static leat_device *devices[2]; /* A uses the first one only */
static leat_stream *streams[2];
/* Of A, for the chunks of a file. */
static leat_stream *readers[READERS];
static leat_event *chunk_read;
static leat_device_info infos[2];
static bool has_two;
static uint64_t *host; /* PIECE_BYTES of pinned memory */

/* ---- failures and the time limit ------------------------------------------------------------------------ */

_Noreturn static void fail(const char *what, const char *why)
{
    fflush(stdout);
    fprintf(stderr, "share_rates: process %c, %s: %s: %s\n", is_a ? 'A' : 'B', step, what, why);
    if (child > 0)
        (void)kill(child, SIGKILL);
    /* Without exit handlers: those of a driver could wait for streams that wait for the other process. */
    _exit(1);
}

static void must(leat_status status, const char *what)
{
    if (status != LEAT_OK)
        fail(what, status == LEAT_NOT_READY ? "not ready" : leat_last_error());
}
#define MUST(call) must(call, #call)

static void must_system(bool is_right, const char *what)
{
    if (!is_right)
        fail(what, strerror(errno));
}

static void too_late(int number)
{
    static const char message[] = "share_rates: this took longer than --limit allows: ";

    (void)number;
    if (child > 0)
        (void)kill(child, SIGKILL);
    if (write(STDERR_FILENO, message, sizeof message - 1) < 0 || write(STDERR_FILENO, step, strlen(step)) < 0 ||
        write(STDERR_FILENO, "\n", 1) < 0)
        _exit(3);
    _exit(3);
}

/* Begins a step, which has options.limit_s seconds. */
static void begin(const char *name)
{
    step = name;
    (void)alarm(options.limit_s);
}

/* ---- messages between the processes --------------------------------------------------------------------- */

static void send_bytes(const void *bytes, size_t count)
{
    if (send(control, bytes, count, MSG_NOSIGNAL) != (ssize_t)count)
        fail("sending a message", "the other process has ended");
}

static void receive_bytes(void *bytes, size_t count)
{
    if (recv(control, bytes, count, MSG_WAITALL) != (ssize_t)count)
        fail("receiving a message", "the other process has ended");
}

static void say(uint64_t value)
{
    send_bytes(&value, sizeof value);
}

static uint64_t hear(void)
{
    uint64_t value;

    receive_bytes(&value, sizeof value);
    return value;
}

/* Waits in B until A needs it. A has the time limit meanwhile, and B ends with A. */
static uint64_t hear_from_a(void)
{
    uint64_t value;

    (void)alarm(0);
    value = hear();
    (void)alarm(options.limit_s);
    return value;
}

/* ---- figures -------------------------------------------------------------------------------------------- */

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

struct figure {
    double median, p90;
};

static struct figure figure_of(double *samples, unsigned count)
{
    qsort(samples, count, sizeof samples[0], compare);
    return (struct figure){samples[count / 2], samples[(9 * count + 9) / 10 - 1]};
}

/* ---- bytes ---------------------------------------------------------------------------------------------- */

static uint64_t word_at(uint64_t index, uint64_t salt)
{
    return (index + (salt << 40) + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static void write_words(uint64_t *words, size_t bytes, uint64_t first, uint64_t salt)
{
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        words[i] = word_at(first + i, salt);
}

static size_t piece_of(size_t bytes, size_t offset)
{
    return bytes - offset < PIECE_BYTES ? bytes - offset : PIECE_BYTES;
}

/* Writes the words of a salt to memory of a device, and waits. */
static void write_device(leat_stream *stream, void *memory, size_t bytes, uint64_t salt)
{
    for (size_t offset = 0; offset < bytes; offset += PIECE_BYTES) {
        size_t piece = piece_of(bytes, offset);

        write_words(host, piece, offset / sizeof *host, salt);
        MUST(leat_copy(stream, (char *)memory + offset, host, piece));
        MUST(leat_stream_synchronize(stream));
    }
}

static void check_device(leat_stream *stream, const void *memory, size_t bytes, uint64_t salt)
{
    for (size_t offset = 0; offset < bytes; offset += PIECE_BYTES) {
        size_t piece = piece_of(bytes, offset);

        MUST(leat_copy(stream, host, (const char *)memory + offset, piece));
        MUST(leat_stream_synchronize(stream));
        for (size_t i = 0; i < piece / sizeof *host; i++)
            if (host[i] != word_at(offset / sizeof *host + i, salt)) {
                char why[96];

                snprintf(why, sizeof why, "byte %zu of %zu is the first wrong one", offset + i * sizeof *host,
                         bytes);
                fail("comparing bytes", why);
            }
    }
}

/* Fills memory with other bytes than a copy will bring, and waits. */
static void clear(leat_stream *stream, void *memory, size_t bytes)
{
    MUST(leat_fill(stream, memory, 0xee, bytes));
    MUST(leat_stream_synchronize(stream));
}

/* ---- shared memory -------------------------------------------------------------------------------------- */

/* Memory of A on the first device, in this process. */
static struct {
    leat_share *share;
    leat_pool *pool; /* A */
    void *memory;
} shared;

static void share_begins(size_t bytes)
{
    leat_pool_options pool_options = LEAT_POOL_OPTIONS_INIT;

    if (!is_a) {
        MUST(leat_share_receive(devices[0], share_socket, &shared.share));
        MUST(leat_share_get_pointer(shared.share, &shared.memory, NULL));
        return;
    }
    pool_options.dedicated = 1;
    pool_options.exportable = 1;
    MUST(leat_pool_create(devices[0], &pool_options, &shared.pool));
    MUST(leat_pool_alloc(streams[0], shared.pool, bytes, &shared.memory));
    MUST(leat_share_create(streams[0], shared.memory, NULL, &shared.share));
    MUST(leat_share_send(shared.share, share_socket));
}

/* B gives the memory up first, so that A can free it. */
static void share_ends(void)
{
    MUST(leat_stream_synchronize(streams[0]));
    if (is_a)
        (void)hear();
    MUST(leat_share_destroy(shared.share));
    if (!is_a) {
        say(1);
        return;
    }
    MUST(leat_free(streams[0], shared.memory));
    MUST(leat_stream_synchronize(streams[0]));
    MUST(leat_pool_destroy(shared.pool));
}

/* ---- part 1: copies ------------------------------------------------------------------------------------- */

static const size_t copy_sizes[] = {MIB, 16 * MIB, 256 * MIB, GIB};

static unsigned copy_size_count(void)
{
    return options.quick ? 2 : sizeof copy_sizes / sizeof copy_sizes[0];
}

/* Returns the microseconds of a copy, of count in a row. */
static double time_copies(void *to, const void *from, size_t bytes, unsigned count)
{
    double since;

    MUST(leat_stream_synchronize(streams[0]));
    since = now_us();
    for (unsigned i = 0; i < count; i++)
        MUST(leat_copy(streams[0], to, from, bytes));
    MUST(leat_stream_synchronize(streams[0]));
    return (now_us() - since) / count;
}

static unsigned copies_of_sample(double copy_us)
{
    double count = SAMPLE_US / copy_us;

    return count < 2 ? 2 : count > COPIES_MAX ? COPIES_MAX : (unsigned)count;
}

/* Compares copies from shared memory and from own memory to device number target. */
static void compare_copies(unsigned target, void *to, const void *own, size_t bytes)
{
    double of_shared[SAMPLES_MAX], of_own[SAMPLES_MAX];
    struct figure of_share, alone;
    unsigned count;

    /* The first copies between two devices enable peer access. */
    (void)time_copies(to, shared.memory, bytes, 2);
    count = copies_of_sample(time_copies(to, own, bytes, 2));
    for (unsigned i = 0; i < options.samples; i++) {
        if (i % 2)
            of_shared[i] = time_copies(to, shared.memory, bytes, count);
        of_own[i] = time_copies(to, own, bytes, count);
        if (i % 2 == 0)
            of_shared[i] = time_copies(to, shared.memory, bytes, count);
    }
    clear(streams[target], to, bytes);
    (void)time_copies(to, shared.memory, bytes, 1);
    check_device(streams[target], to, bytes, SALT_SHARED);
    clear(streams[target], to, bytes);
    (void)time_copies(to, own, bytes, 1);
    check_device(streams[target], to, bytes, SALT_OWN);
    of_share = figure_of(of_shared, options.samples);
    alone = figure_of(of_own, options.samples);
    printf("%-7s %-7s %5zu %6u %12.1f %10.1f %12.1f %10.1f %10.1f %10.1f %7.3f\n", infos[0].name,
           infos[target].name, bytes / MIB, count, of_share.median, of_share.p90, alone.median, alone.p90,
           (double)bytes / of_share.median / 1e3, (double)bytes / alone.median / 1e3,
           alone.median / of_share.median);
    fflush(stdout);
}

static void measure_copies_in_b(size_t most_bytes)
{
    void *own;

    MUST(leat_share_take_over(streams[0], shared.share));
    MUST(leat_alloc(streams[0], most_bytes, &own));
    write_device(streams[0], own, most_bytes, SALT_OWN);
    for (unsigned target = 0; target < (has_two ? 2u : 1u); target++) {
        void *to;

        MUST(leat_alloc(streams[target], most_bytes, &to));
        MUST(leat_stream_synchronize(streams[target]));
        for (unsigned i = 0; i < copy_size_count(); i++) {
            (void)alarm(options.limit_s);
            compare_copies(target, to, own, copy_sizes[i]);
            say(1); /* so that A's time limit begins again */
        }
        MUST(leat_free(streams[target], to));
    }
    MUST(leat_free(streams[0], own));
    MUST(leat_stream_synchronize(streams[0]));
}

static void measure_copies(void)
{
    size_t most_bytes = copy_sizes[copy_size_count() - 1];

    begin("copies");
    if (is_a) {
        printf("\ncopies by process B from memory that it shares with A, and from its own memory (us a copy)\n");
        printf("%-7s %-7s %5s %6s %12s %10s %12s %10s %10s %10s %7s\n", "from", "to", "MiB", "in row", "shared",
               "p90", "own", "p90", "GB/s", "own GB/s", "ratio");
        fflush(stdout);
    }
    share_begins(most_bytes);
    if (is_a) {
        write_device(streams[0], shared.memory, most_bytes, SALT_SHARED);
        MUST(leat_share_hand_over(streams[0], shared.share));
        for (unsigned i = 0; i < copy_size_count() * (has_two ? 2 : 1); i++) {
            (void)hear();
            begin("copies");
        }
    } else {
        measure_copies_in_b(most_bytes);
    }
    share_ends();
}

/* ---- the driver's own means ----------------------------------------------------------------------------- */

#define FUNCTIONS(X)                                                                                              \
    X(cuCtxSetCurrent)                                                                                            \
    X(cuGetErrorName)                                                                                             \
    X(cuEventCreate)                                                                                              \
    X(cuEventDestroy_v2)                                                                                          \
    X(cuEventRecord)                                                                                              \
    X(cuIpcGetEventHandle)                                                                                        \
    X(cuIpcOpenEventHandle)                                                                                       \
    X(cuMemHostGetDevicePointer_v2)                                                                               \
    X(cuMemHostRegister_v2)                                                                                       \
    X(cuMemHostUnregister)                                                                                        \
    X(cuStreamSynchronize)                                                                                        \
    X(cuStreamWaitEvent)                                                                                          \
    X(cuStreamWaitValue32_v2)                                                                                     \
    X(cuStreamWriteValue32_v2)
#define DEFINE(name) static __typeof__(&name) find_##name;
FUNCTIONS(DEFINE)
#define CALL(name) find_##name

static const char *cuda_error(CUresult code)
{
    const char *name = NULL;

    if (CALL(cuGetErrorName)(code, &name) != CUDA_SUCCESS || !name)
        return "an unknown error";
    return name;
}

static void must_cuda(CUresult code, const char *what)
{
    if (code != CUDA_SUCCESS)
        fail(what, cuda_error(code));
}
#define MUST_CUDA(name, ...) must_cuda(CALL(name)(__VA_ARGS__), #name)

/* Finds the driver's functions in the library that leat has loaded, and makes the device's context current. */
static void find_driver(void)
{
    void *found, *context;

#define FIND(name)                                                                                                \
    MUST(leat_native_symbol(devices[0], #name, &found));                                                          \
    memcpy(&find_##name, &found, sizeof found);
    FUNCTIONS(FIND)
    MUST(leat_device_native(devices[0], &context));
    MUST_CUDA(cuCtxSetCurrent, context);
}

/* ---- part 2: hand-overs --------------------------------------------------------------------------------- */

static leat_stream *second;              /* A: another stream of the first device */
static _Atomic uint32_t *gate;           /* A: the streams begin when the host has counted up here */
static uint32_t gates;                   /* A: how often it did */
static uint32_t *pinned_counters;        /* A: for two streams of one process */
static uint32_t pinned_count;            /* A: the last number in them */
static leat_event *leat_events[2];       /* A */
static CUstream native_streams[2];       /* of streams[0] and second */
static CUevent plain_events[2];          /* A: of this process only */
static CUevent own_event, other_event;   /* interprocess events */
static uint32_t *two_counters;           /* memory of both processes */
static CUdeviceptr two_counters_address; /* the same for the device */
static uint32_t two_count;               /* the last number in them */

/* Makes a stream wait until open_gate(), so that all work is submitted before the first of it runs. */
static void close_gate(leat_stream *stream)
{
    MUST(leat_stream_wait_u32(stream, gate, ++gates));
}

/* Returns the microseconds that streams[0] needs from now. */
static double open_gate(void)
{
    double since = now_us();

    atomic_store_explicit(gate, gates, memory_order_release);
    MUST(leat_stream_synchronize(streams[0]));
    return now_us() - since;
}

static double lead_leat_ahead(unsigned rounds)
{
    close_gate(streams[0]);
    for (unsigned i = 0; i < rounds; i++) {
        MUST(leat_share_hand_over(streams[0], shared.share));
        MUST(leat_share_take_over(streams[0], shared.share));
    }
    (void)hear();
    return open_gate();
}

static void follow_leat_ahead(unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        MUST(leat_share_take_over(streams[0], shared.share));
        MUST(leat_share_hand_over(streams[0], shared.share));
    }
    say(1);
    MUST(leat_stream_synchronize(streams[0]));
}

/* The address for the device of a counter of A (0) or B (1). */
static CUdeviceptr counter_of(unsigned side)
{
    return two_counters_address + side * COUNTER_STRIDE * sizeof *two_counters;
}

static void write_counter(unsigned side, uint32_t value)
{
    MUST_CUDA(cuStreamWriteValue32_v2, native_streams[0], counter_of(side), value, CU_STREAM_WRITE_VALUE_DEFAULT);
}

static void wait_for_counter(unsigned side, uint32_t value)
{
    MUST_CUDA(cuStreamWaitValue32_v2, native_streams[0], counter_of(side), value, CU_STREAM_WAIT_VALUE_GEQ);
}

static double lead_counters_ahead(unsigned rounds)
{
    close_gate(streams[0]);
    for (unsigned i = 0; i < rounds; i++) {
        write_counter(0, ++two_count);
        wait_for_counter(1, two_count);
    }
    (void)hear();
    return open_gate();
}

static void follow_counters_ahead(unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        wait_for_counter(0, ++two_count);
        write_counter(1, two_count);
    }
    say(1);
    MUST_CUDA(cuStreamSynchronize, native_streams[0]);
}

/* The driver cannot wait for an event that another process has not recorded yet, so the hosts tell each other. */
static double lead_events(unsigned rounds, bool synchronizes)
{
    double since = now_us();

    for (unsigned i = 0; i < rounds; i++) {
        MUST_CUDA(cuEventRecord, own_event, native_streams[0]);
        say(1);
        (void)hear();
        MUST_CUDA(cuStreamWaitEvent, native_streams[0], other_event, 0);
        if (synchronizes)
            MUST_CUDA(cuStreamSynchronize, native_streams[0]);
    }
    MUST_CUDA(cuStreamSynchronize, native_streams[0]);
    return now_us() - since;
}

static void follow_events(unsigned rounds, bool synchronizes)
{
    for (unsigned i = 0; i < rounds; i++) {
        (void)hear();
        MUST_CUDA(cuStreamWaitEvent, native_streams[0], other_event, 0);
        if (synchronizes)
            MUST_CUDA(cuStreamSynchronize, native_streams[0]);
        MUST_CUDA(cuEventRecord, own_event, native_streams[0]);
        say(1);
    }
    MUST_CUDA(cuStreamSynchronize, native_streams[0]);
}

static double lead_events_told(unsigned rounds)
{
    return lead_events(rounds, false);
}

static void follow_events_told(unsigned rounds)
{
    follow_events(rounds, false);
}

static double lead_events_host(unsigned rounds)
{
    return lead_events(rounds, true);
}

static void follow_events_host(unsigned rounds)
{
    follow_events(rounds, true);
}

static double lead_leat_host(unsigned rounds)
{
    double since = now_us();

    for (unsigned i = 0; i < rounds; i++) {
        MUST(leat_share_hand_over(streams[0], shared.share));
        MUST(leat_share_take_over(streams[0], shared.share));
        MUST(leat_stream_synchronize(streams[0]));
    }
    return now_us() - since;
}

static void follow_leat_host(unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        MUST(leat_share_take_over(streams[0], shared.share));
        MUST(leat_stream_synchronize(streams[0]));
        MUST(leat_share_hand_over(streams[0], shared.share));
    }
    MUST(leat_stream_synchronize(streams[0]));
}

static double lead_one_counters(unsigned rounds)
{
    uint32_t *first = pinned_counters, *other = pinned_counters + COUNTER_STRIDE;

    close_gate(streams[0]);
    for (unsigned i = 0; i < rounds; i++) {
        pinned_count++;
        MUST(leat_stream_write_u32(streams[0], first, pinned_count));
        MUST(leat_stream_wait_u32(second, first, pinned_count));
        MUST(leat_stream_write_u32(second, other, pinned_count));
        MUST(leat_stream_wait_u32(streams[0], other, pinned_count));
    }
    return open_gate();
}

static double lead_one_leat_events(unsigned rounds)
{
    close_gate(streams[0]);
    for (unsigned i = 0; i < rounds; i++) {
        MUST(leat_event_record(streams[0], leat_events[0]));
        MUST(leat_stream_wait(second, leat_events[0]));
        MUST(leat_event_record(second, leat_events[1]));
        MUST(leat_stream_wait(streams[0], leat_events[1]));
    }
    return open_gate();
}

static double lead_one_driver_events(unsigned rounds)
{
    close_gate(streams[0]);
    for (unsigned i = 0; i < rounds; i++) {
        MUST_CUDA(cuEventRecord, plain_events[0], native_streams[0]);
        MUST_CUDA(cuStreamWaitEvent, native_streams[1], plain_events[0], 0);
        MUST_CUDA(cuEventRecord, plain_events[1], native_streams[1]);
        MUST_CUDA(cuStreamWaitEvent, native_streams[0], plain_events[1], 0);
    }
    return open_gate();
}

enum { NEEDS_NOTHING, NEEDS_DRIVER, NEEDS_COUNTERS, NEEDS_EVENTS };

/* How memory is handed over. */
static const struct method {
    const char *name;
    unsigned needs;
    double (*lead)(unsigned rounds); /* in A: returns the microseconds of all rounds */
    void (*follow)(unsigned rounds); /* in B; NULL: B takes no part */
} methods[] = {
    {"two processes, leat, submitted ahead", NEEDS_NOTHING, lead_leat_ahead, follow_leat_ahead},
    {"two processes, the driver's counters, submitted ahead", NEEDS_COUNTERS, lead_counters_ahead,
     follow_counters_ahead},
    {"two processes, the driver's events, a socket tells", NEEDS_EVENTS, lead_events_told, follow_events_told},
    {"two processes, leat, the host synchronizes each time", NEEDS_NOTHING, lead_leat_host, follow_leat_host},
    {"two processes, the driver's events, the same", NEEDS_EVENTS, lead_events_host, follow_events_host},
    {"one process, leat's counters, submitted ahead", NEEDS_NOTHING, lead_one_counters, NULL},
    {"one process, leat's events, submitted ahead", NEEDS_NOTHING, lead_one_leat_events, NULL},
    {"one process, the driver's events, submitted ahead", NEEDS_DRIVER, lead_one_driver_events, NULL},
};
enum { METHODS = sizeof methods / sizeof methods[0] };

/* Notes why a means of the driver is left out. Returns false. */
static bool leave_out(const char *call, CUresult code)
{
    printf("left out in process %c: %s: %s\n", is_a ? 'A' : 'B', call, cuda_error(code));
    fflush(stdout);
    return false;
}

static bool make_counters(void)
{
    CUresult code = CALL(cuMemHostRegister_v2)(two_counters, COUNTER_PAGE, CU_MEMHOSTREGISTER_DEVICEMAP);

    if (code != CUDA_SUCCESS)
        return leave_out("cuMemHostRegister", code);
    code = CALL(cuMemHostGetDevicePointer_v2)(&two_counters_address, two_counters, 0);
    if (code != CUDA_SUCCESS)
        return leave_out("cuMemHostGetDevicePointer", code);
    return true;
}

/* Makes an event that the other process can open. Returns false if the driver refuses. */
static bool make_event(CUipcEventHandle *handle)
{
    CUresult code = CALL(cuEventCreate)(&own_event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);

    if (code != CUDA_SUCCESS)
        return leave_out("cuEventCreate of an interprocess event", code);
    code = CALL(cuIpcGetEventHandle)(handle, own_event);
    return code == CUDA_SUCCESS || leave_out("cuIpcGetEventHandle", code);
}

/* Both processes exchange their events, and both return false if one of them cannot. */
static bool exchange_events(void)
{
    struct {
        uint64_t is_made;
        CUipcEventHandle handle;
    } own, other;
    CUresult code;
    bool opened;

    memset(&own, 0, sizeof own);
    own.is_made = make_event(&own.handle);
    send_bytes(&own, sizeof own);
    receive_bytes(&other, sizeof other);
    if (!own.is_made || !other.is_made)
        return false;
    code = CALL(cuIpcOpenEventHandle)(&other_event, other.handle);
    opened = code == CUDA_SUCCESS || leave_out("cuIpcOpenEventHandle", code);
    say(opened);
    return hear() && opened;
}

/* Makes what the methods need, and says in available what both processes have. */
static void handovers_begin(bool available[])
{
    bool is_cuda = !strcmp(infos[0].driver, "cuda"), counters = false;
    void *native;

    available[NEEDS_NOTHING] = true;
    available[NEEDS_DRIVER] = is_cuda;
    available[NEEDS_COUNTERS] = available[NEEDS_EVENTS] = false;
    if (is_a) {
        MUST(leat_stream_create(devices[0], &second));
        MUST(leat_memory_alloc(devices[0], LEAT_KIND_PINNED, sizeof *gate, (void **)&gate));
        MUST(leat_memory_alloc(devices[0], LEAT_KIND_PINNED, 2 * COUNTER_STRIDE * sizeof *pinned_counters,
                               (void **)&pinned_counters));
        atomic_store(gate, 0);
        memset(pinned_counters, 0, 2 * COUNTER_STRIDE * sizeof *pinned_counters);
        for (unsigned i = 0; i < 2; i++)
            MUST(leat_event_create(devices[0], &leat_events[i]));
    }
    if (!is_cuda)
        return;
    find_driver();
    MUST(leat_stream_native(streams[0], &native));
    native_streams[0] = native;
    if (is_a) {
        MUST(leat_stream_native(second, &native));
        native_streams[1] = native;
        for (unsigned i = 0; i < 2; i++)
            MUST_CUDA(cuEventCreate, &plain_events[i], CU_EVENT_DISABLE_TIMING);
    }
    counters = make_counters();
    say(counters);
    available[NEEDS_COUNTERS] = hear() && counters;
    available[NEEDS_EVENTS] = exchange_events();
}

static void handovers_end(void)
{
    if (two_counters_address)
        MUST_CUDA(cuMemHostUnregister, two_counters);
    if (other_event)
        MUST_CUDA(cuEventDestroy_v2, other_event);
    /* The other process may still use own_event. The end of this process destroys it. */
    if (!is_a)
        return;
    for (unsigned i = 0; i < 2; i++) {
        if (plain_events[i])
            MUST_CUDA(cuEventDestroy_v2, plain_events[i]);
        MUST(leat_event_destroy(leat_events[i]));
    }
    MUST(leat_stream_synchronize(second));
    MUST(leat_stream_destroy(second));
    MUST(leat_memory_free((void *)gate));
    MUST(leat_memory_free(pinned_counters));
}

/* One sample in A: microseconds of a hand-over, which is half of a round. */
static double lead(const struct method *method, unsigned rounds)
{
    begin(method->name);
    if (method->follow)
        say(1);
    return method->lead(rounds) / rounds / 2;
}

static void measure_handovers(void)
{
    static double samples[METHODS][SAMPLES_MAX];
    bool available[NEEDS_EVENTS + 1];

    begin("hand-overs");
    if (is_a) {
        printf("\nhand-overs (us each; %u samples of %u rounds)\n%-55s %10s %10s\n", options.samples,
               options.rounds, "", "median", "p90");
        fflush(stdout);
    }
    share_begins(4096);
    handovers_begin(available);
    /* The first sample of each method is not counted. */
    for (unsigned i = 0; i < options.samples + 1; i++)
        for (unsigned m = 0; m < METHODS; m++) {
            if (!available[methods[m].needs])
                continue;
            if (is_a) {
                double us = lead(&methods[m], options.rounds);

                if (i)
                    samples[m][i - 1] = us;
            } else if (methods[m].follow) {
                (void)hear_from_a();
                step = methods[m].name;
                methods[m].follow(options.rounds);
            }
        }
    begin("the end of the hand-overs");
    for (unsigned m = 0; is_a && m < METHODS; m++)
        if (available[methods[m].needs]) {
            struct figure figure = figure_of(samples[m], options.samples);

            printf("%-55s %10.2f %10.2f\n", methods[m].name, figure.median, figure.p90);
        } else {
            printf("%-55s %10s %10s\n", methods[m].name, "left out", "");
        }
    fflush(stdout);
    if (!is_a)
        (void)alarm(0); /* A is at work until share_ends() */
    handovers_end();
    share_ends();
}

/* ---- part 3: broadcast ---------------------------------------------------------------------------------- */

/* Returns a number of /proc/self/io or /proc/meminfo in its own unit, or 0. */
static uint64_t read_number(const char *path, const char *name)
{
    FILE *file = fopen(path, "r");
    unsigned long long value = 0;
    char line[256];

    if (!file)
        return 0;
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name))) {
            if (sscanf(line + strlen(name), "%llu", &value) != 1)
                value = 0;
            break;
        }
    fclose(file);
    return value;
}

/* Bytes that this process has read from files. */
static uint64_t read_bytes(void)
{
    return read_number("/proc/self/io", "rchar:");
}

/* Returns the size of the file: what was asked for, or the largest of 8 GiB, 4 GiB, ... for which there is memory.
 * other_free: free memory of B's device. */
static size_t choose_bytes(uint64_t other_free)
{
    uint64_t available = read_number("/proc/meminfo", "MemAvailable:") * 1024, own_free, total;
    bool is_cpu = !strcmp(infos[0].driver, "cpu");
    size_t bytes;

    MUST(leat_device_memory(devices[0], &own_free, &total));
    for (bytes = options.quick ? 256 * MIB : 8 * GIB; !options.bytes && bytes > 64 * MIB; bytes /= 2)
        if (bytes * (is_cpu ? 3 : 1) + GIB <= available && bytes * (has_two ? 1 : 2) + GIB <= own_free &&
            bytes + GIB <= other_free)
            break;
    return options.bytes ? options.bytes : bytes;
}

/* Makes a file without a name in memory: in /dev/shm if there is room, otherwise by memfd_create(). */
static int make_file(size_t bytes, const char **place)
{
    struct statvfs folder;
    int fd = -1;

    *place = "/dev/shm";
    if (!statvfs(*place, &folder) && (uint64_t)folder.f_bavail * folder.f_frsize >= bytes + 64 * MIB)
        fd = open(*place, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        *place = "memfd_create()";
        fd = (int)syscall(SYS_memfd_create, "share_rates", 1u /* MFD_CLOEXEC */);
        must_system(fd >= 0, "memfd_create");
    }
    for (size_t offset = 0; offset < bytes;) {
        size_t piece = piece_of(bytes, offset);
        ssize_t written;

        write_words(host, piece, offset / sizeof *host, SALT_FILE);
        written = pwrite(fd, host, piece, (off_t)offset);
        must_system(written > 0, "writing the file; a smaller --bytes needs less memory");
        /* The next piece begins with a whole word. */
        offset += (size_t)written - (size_t)written % sizeof *host;
        must_system((size_t)written >= sizeof *host, "writing the file");
    }
    return fd;
}

/* A loads the file into the shared memory, and hands each chunk over if there is somebody to take it. Reads of one
 * stream follow one another, and the link is idle in between, so the chunks are read on several streams in turns.
 * All hand-overs are on one stream, because those of several could change places. */
static double load_file(leat_file *file, size_t bytes, size_t chunk_bytes, bool hands_over)
{
    double since = now_us();
    unsigned turn = 0;

    for (size_t offset = 0; offset < bytes; offset += chunk_bytes) {
        size_t chunk = bytes - offset < chunk_bytes ? bytes - offset : chunk_bytes;

        MUST(leat_file_read(readers[turn], (char *)shared.memory + offset, file, offset, chunk));
        MUST(leat_event_record(readers[turn], chunk_read));
        MUST(leat_stream_wait(streams[0], chunk_read));
        if (hands_over)
            MUST(leat_share_hand_over(streams[0], shared.share));
        turn = (turn + 1) % READERS;
    }
    MUST(leat_stream_synchronize(streams[0]));
    return now_us() - since;
}

/* One broadcast in A. Returns the microseconds until both processes have all bytes; *own_us: until A has them. */
static double broadcast_in_a(leat_file *file, size_t bytes, size_t chunk_bytes, double *own_us)
{
    double since, us;

    clear(streams[0], shared.memory, bytes);
    say(1);
    (void)hear(); /* B is ready */
    since = now_us();
    say(1);
    *own_us = load_file(file, bytes, chunk_bytes, true);
    (void)hear(); /* B has all bytes */
    us = now_us() - since;
    check_device(streams[0], shared.memory, bytes, SALT_FILE);
    return us;
}

/* One broadcast in B. Takes the chunks over and copies them; the streams alone wait for A. */
static void broadcast_in_b(void *to, size_t bytes, size_t chunk_bytes)
{
    (void)hear_from_a();
    step = "the broadcast";
    clear(streams[has_two], to, bytes);
    say(1);
    (void)hear();
    for (size_t offset = 0; offset < bytes; offset += chunk_bytes) {
        size_t chunk = bytes - offset < chunk_bytes ? bytes - offset : chunk_bytes;

        MUST(leat_share_take_over(streams[0], shared.share));
        MUST(leat_copy(streams[0], (char *)to + offset, (char *)shared.memory + offset, chunk));
    }
    MUST(leat_stream_synchronize(streams[0]));
    say(1);
    check_device(streams[has_two], to, bytes, SALT_FILE);
}

static void print_load(const char *name, double *times, size_t bytes, double alone_us)
{
    struct figure figure = figure_of(times, BROADCASTS);

    printf("%-55s %10.2f %10.2f %10.2f %10.3f\n", name, figure.median / 1e3, figure.p90 / 1e3,
           (double)bytes / figure.median / 1e3, figure.median / alone_us);
}

static void measure_broadcast_in_a(size_t bytes, size_t chunk_bytes)
{
    double alone[BROADCASTS], chunks[BROADCASTS], own[BROADCASTS], both[BROADCASTS], alone_us;
    uint64_t read_before, read_at_a = 0, read_at_b;
    const char *place;
    leat_file *file;
    int fd;

    begin("writing the file");
    fd = make_file(bytes, &place);
    MUST(leat_file_wrap(fd, LEAT_FILE_READ, &file));
    for (unsigned i = 0; i < READERS; i++)
        MUST(leat_stream_create(devices[0], &readers[i]));
    MUST(leat_event_create(devices[0], &chunk_read));
    printf(
        "\nbroadcast of a file of %zu MiB in %s, chunks of %zu MiB, to %s by A and to %s by B (ms; %u samples)\n",
        bytes / MIB, place, chunk_bytes / MIB, infos[0].name, infos[has_two].name, BROADCASTS);
    printf("%-55s %10s %10s %10s %10s\n", "", "median", "longest", "GB/s", "ratio");
    fflush(stdout);
    /* The first one of each is not counted. */
    for (unsigned i = 0; i < BROADCASTS + 1; i++) {
        unsigned at = i ? i - 1 : 0;

        begin("loading alone");
        clear(streams[0], shared.memory, bytes);
        alone[at] = load_file(file, bytes, bytes, false);
        clear(streams[0], shared.memory, bytes);
        chunks[at] = load_file(file, bytes, chunk_bytes, false);
        begin("the broadcast");
        read_before = read_bytes();
        both[at] = broadcast_in_a(file, bytes, chunk_bytes, &own[at]);
        read_at_a = read_bytes() - read_before;
        say(1);
        read_at_b = hear();
    }
    alone_us = figure_of(alone, BROADCASTS).median;
    print_load("A alone, one leat_file_read()", alone, bytes, alone_us);
    print_load("A alone, in chunks", chunks, bytes, alone_us);
    print_load("A and B: until A has all bytes", own, bytes, alone_us);
    print_load("A and B: until both have all bytes", both, bytes, alone_us);
    printf("read from files during the last broadcast (rchar), over the size of the file: A %.3f, B %.3f\n",
           (double)read_at_a / (double)bytes, (double)read_at_b / (double)bytes);
    fflush(stdout);
    MUST(leat_event_destroy(chunk_read));
    for (unsigned i = 0; i < READERS; i++)
        MUST(leat_stream_destroy(readers[i]));
    MUST(leat_file_close(file));
    close(fd);
}

static void measure_broadcast_in_b(size_t bytes, size_t chunk_bytes)
{
    uint64_t read_before;
    void *to;

    MUST(leat_alloc(streams[has_two], bytes, &to));
    clear(streams[has_two], to, bytes);
    /* The first copy between two devices enables peer access, which may wait for streams. */
    MUST(leat_copy(streams[0], to, shared.memory, chunk_bytes < MIB ? chunk_bytes : MIB));
    MUST(leat_stream_synchronize(streams[0]));
    for (unsigned i = 0; i < BROADCASTS + 1; i++) {
        read_before = read_bytes();
        broadcast_in_b(to, bytes, chunk_bytes);
        (void)hear();
        say(read_bytes() - read_before);
    }
    (void)hear_from_a();
    MUST(leat_free(streams[has_two], to));
    MUST(leat_stream_synchronize(streams[has_two]));
}

static void measure_broadcast(void)
{
    uint64_t other_free = 0, total, size[2];

    begin("preparing the broadcast");
    if (is_a) {
        size[0] = choose_bytes(hear());
        size[1] = options.chunk_bytes;
        while (size[0] / size[1] >= CHUNKS_MAX)
            size[1] *= 2;
        if (size[1] > size[0])
            size[1] = size[0];
        send_bytes(size, sizeof size);
    } else {
        MUST(leat_device_memory(devices[has_two], &other_free, &total));
        say(other_free);
        receive_bytes(size, sizeof size);
    }
    share_begins(size[0]);
    if (is_a) {
        measure_broadcast_in_a(size[0], size[1]);
        say(1);
    } else {
        measure_broadcast_in_b(size[0], size[1]);
    }
    share_ends();
}

/* ---- devices and processes ------------------------------------------------------------------------------ */

/* Finds a device in leat's list. Returns false if it is not there. */
static bool find_device(const char *name, leat_device_info *info)
{
    for (unsigned i = 0;; i++) {
        leat_status status;

        *info = (leat_device_info)LEAT_DEVICE_INFO_INIT;
        status = leat_device_list(i, info);
        if (status == LEAT_ERROR_NO_DEVICE)
            return false;
        must(status, "leat_device_list");
        if (!strcmp(info->name, name))
            return true;
    }
}

static void open_device(unsigned number, const char *name)
{
    MUST(leat_device_open(name, &devices[number]));
    infos[number] = (leat_device_info)LEAT_DEVICE_INFO_INIT;
    MUST(leat_device_get_info(devices[number], &infos[number]));
    MUST(leat_stream_create(devices[number], &streams[number]));
}

/* Opens the first device, and in B the second one: the given one, or the next one of the same driver. */
static void open_devices(void)
{
    char next[24];

    open_device(0, options.names[0]);
    snprintf(next, sizeof next, "%s:%d", infos[0].driver, infos[0].ordinal + 1);
    if (options.names[1]) {
        if (!find_device(options.names[1], &infos[1]))
            fail(options.names[1], "there is no such device");
        if (strcmp(infos[0].driver, infos[1].driver))
            fail(options.names[1], "the two devices have different drivers");
        has_two = strcmp(infos[0].name, infos[1].name) != 0;
    } else {
        has_two = find_device(next, &infos[1]);
    }
    if (has_two && !is_a)
        open_device(1, infos[1].name);
    MUST(leat_memory_alloc(devices[0], LEAT_KIND_PINNED, PIECE_BYTES, (void **)&host));
}

static void close_devices(void)
{
    MUST(leat_memory_free(host));
    if (devices[1])
        MUST(leat_device_close(devices[1]));
    MUST(leat_device_close(devices[0]));
}

/* The version of NVIDIA's kernel module, or "". */
static void find_module_version(char *version, size_t bytes)
{
    FILE *file = strcmp(infos[0].driver, "cuda") ? NULL : fopen("/sys/module/nvidia/version", "r");

    version[0] = 0;
    if (!file)
        return;
    if (!fgets(version, (int)bytes, file))
        version[0] = 0;
    version[strcspn(version, "\n")] = 0;
    fclose(file);
}

static void print_machine(void)
{
    leat_driver_info driver = LEAT_DRIVER_INFO_INIT;
    char module[64];

    for (unsigned i = 0; leat_driver_list(i, &driver) == LEAT_OK && strcmp(driver.name, infos[0].driver); i++)
        driver = (leat_driver_info)LEAT_DRIVER_INFO_INIT;
    find_module_version(module, sizeof module);
    printf("leat %s, driver %s %s%s%s, %ld processors\n", LEAT_VERSION_STRING, infos[0].driver, driver.version,
           module[0] ? ", NVIDIA kernel module " : "", module, sysconf(_SC_NPROCESSORS_ONLN));
    for (unsigned i = 0; i < (has_two ? 2u : 1u); i++)
        printf("%s: %s, %s%s%.1f GiB\n", infos[i].name, infos[i].model, infos[i].pci_address,
               infos[i].pci_address[0] ? ", " : "", (double)infos[i].memory_bytes / (double)GIB);
    if (has_two)
        printf("direct access between the two: %s\n", infos[0].peer_mask >> infos[1].ordinal & 1 ? "yes" : "no");
    else
        printf("one device: process B copies to the device of process A\n");
    printf("%u samples of each figure\n", options.samples);
    fflush(stdout);
}

static void measure(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"copies", measure_copies}, {"handover", measure_handovers}, {"broadcast", measure_broadcast}};

    begin("opening the devices");
    open_devices();
    if (is_a)
        print_machine();
    for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!options.only || !strcmp(options.only, parts[i].name))
            parts[i].run();
    begin("closing the devices");
    close_devices();
}

/* Splits the program, before the first call of leat: a child cannot use what its parent has opened. */
static void split(void)
{
    int ends[2][2];
    pid_t parent = getpid();
    void *mapped;

    for (unsigned i = 0; i < 2; i++)
        must_system(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[i]), "socketpair");
    mapped = mmap(NULL, COUNTER_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must_system(mapped != MAP_FAILED, "mmap");
    two_counters = mapped;
    child = fork();
    must_system(child >= 0, "fork");
    is_a = child > 0;
    if (!is_a) {
        /* The parent may have ended before this call. */
        must_system(!prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == parent, "waiting for the end of A");
        child = 0;
    }
    control = ends[0][!is_a];
    share_socket = ends[1][!is_a];
    close(ends[0][is_a]);
    close(ends[1][is_a]);
}

/* Waits for B. The time limit is that of the last step. */
static int end_of_child(void)
{
    int status;

    must_system(waitpid(child, &status, 0) == child, "waitpid");
    if (WIFEXITED(status) && !WEXITSTATUS(status))
        return 0;
    fail("the end", "process B failed");
}

/* ---- arguments ------------------------------------------------------------------------------------------ */

_Noreturn static void usage(int status)
{
    fputs("usage: share_rates [DEVICE [DEVICE]] [--quick] [--only copies|handover|broadcast] [--bytes N[K|M|G]]\n"
          "                   [--chunk N[K|M|G]] [--rounds N] [--samples N] [--limit SECONDS]\n"
          "  --quick    small copies, a file of 256 MiB, 9 samples\n"
          "  --bytes    size of the file; default: 8 GiB, or what fits\n"
          "  --chunk    the part of the file that is handed over at once; default: 64M\n"
          "  --rounds   hand-overs there and back of one sample, at most 200; default: 100\n"
          "  --samples  samples of each figure, 9 to 99; default: 21\n"
          "  --limit    time limit of a step; default: 120\n",
          status ? stderr : stdout);
    exit(status);
}

static size_t parse_bytes(const char *text)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;

    if (end == text || end[shift != 0] || !number || number > ((size_t)1 << 44) >> shift ||
        number << shift & 4095) {
        fprintf(stderr, "share_rates: '%s' is not a size in bytes that is a multiple of 4096\n", text);
        exit(2);
    }
    return (size_t)number << shift;
}

static unsigned parse_count(const char *text, unsigned least, unsigned most)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    if (end == text || *end || number < least || number > most) {
        fprintf(stderr, "share_rates: '%s' is not a number from %u to %u\n", text, least, most);
        exit(2);
    }
    return (unsigned)number;
}

static void parse(int argc, char **argv)
{
    static const struct option names[] = {{"quick", no_argument, NULL, 'q'},
                                          {"only", required_argument, NULL, 'o'},
                                          {"bytes", required_argument, NULL, 'b'},
                                          {"chunk", required_argument, NULL, 'c'},
                                          {"rounds", required_argument, NULL, 'r'},
                                          {"samples", required_argument, NULL, 's'},
                                          {"limit", required_argument, NULL, 'l'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", names, NULL)) >= 0)
        switch (option) {
        case 'q':
            options.quick = true;
            options.samples = 9;
            break;
        case 'o':
            options.only = optarg;
            if (strcmp(optarg, "copies") && strcmp(optarg, "handover") && strcmp(optarg, "broadcast"))
                usage(2);
            break;
        case 'b':
            options.bytes = parse_bytes(optarg);
            break;
        case 'c':
            options.chunk_bytes = parse_bytes(optarg);
            break;
        case 'r':
            options.rounds = parse_count(optarg, 1, ROUNDS_MAX);
            break;
        case 's':
            options.samples = parse_count(optarg, 9, SAMPLES_MAX);
            break;
        case 'l':
            options.limit_s = parse_count(optarg, 1, 3600);
            break;
        default:
            usage(option == 'h' ? 0 : 2);
        }
    if (argc - optind > 2)
        usage(2);
    for (int i = optind; i < argc; i++)
        options.names[i - optind] = argv[i];
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    (void)signal(SIGALRM, too_late);
    split();
    measure();
    return is_a ? end_of_child() : 0;
}
