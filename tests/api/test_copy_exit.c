/*
 * test_copy_exit.c - tests processes that exit, close the device, fork, crash, or run out of memory while copies
 * run. None may hang, and each must end with the expected status. Each case is a child process, which runs this
 * program with the name of the case as its argument.
 */
#include "copy_broken.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- in a child, where cmocka is not used ---- */

static void must(leat_status status)
{
    if (status == LEAT_OK)
        return;
    fprintf(stderr, "child: %s\n", leat_last_error());
    _exit(1);
}

#define CHILD_BYTES (96 * MIB)

/* Starts copies in both directions on two streams and returns while they run. If slow is true, a gate holds the
 * streams up. */
static leat_device *start_much(bool slow)
{
    leat_device *device;

    must(leat_device_open(test_device_name(), &device));
    for (int i = 0; i < 2; i++) {
        char *in = malloc(CHILD_BYTES), *out = malloc(CHILD_BYTES);
        leat_stream *stream;
        leat_ticket *ticket;
        void *memory;

        if (!in || !out)
            _exit(1);
        memset(in, 1, CHILD_BYTES);
        must(leat_stream_create(device, &stream));
        must(leat_memory_alloc(device, LEAT_KIND_DEVICE, CHILD_BYTES, &memory));
        if (slow)
            (void)test_gate_close(stream);
        must(leat_copy(stream, memory, in, CHILD_BYTES));
        must(leat_copy_start(stream, out, memory, CHILD_BYTES, NULL, &ticket));
        must(leat_copy(stream, memory, in, CHILD_BYTES));
    }
    return device;
}

static int child_returns(void)
{
    start_much(false);
    return 42;
}

static int child_returns_while_held(void)
{
    start_much(true);
    return 42;
}

static int child_exits(void)
{
    start_much(false);
    exit(42);
}

static void *exit_in_thread(void *argument)
{
    (void)argument;
    exit(42);
}

static int child_exits_in_thread(void)
{
    pthread_t thread;

    start_much(false);
    if (pthread_create(&thread, NULL, exit_in_thread, NULL))
        return 1;
    pthread_join(thread, NULL);
    return 2;
}

static int child_ends_at_once(void)
{
    start_much(false);
    _exit(42);
}

static int child_closes(void)
{
    must(leat_device_close(start_much(false)));
    return 42;
}

/* Forks while copies run. The grandchild has none of leat's threads and only exits. */
static int child_forks(void)
{
    leat_device *device = start_much(false);
    pid_t grandchild = fork();
    int status;

    if (grandchild == 0)
        _exit(7);
    if (waitpid(grandchild, &status, 0) != grandchild || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
        return 1;
    must(leat_device_synchronize(device));
    must(leat_device_close(device));
    return 42;
}

/* Makes a staged copy fail, which makes leat install every signal handler that it needs. */
static void fail_once(leat_device **device, leat_stream **stream)
{
    struct test_gate *gate;
    void *memory;
    char *own;

    must(leat_device_open(test_device_name(), device));
    must(leat_stream_create(*device, stream));
    must(leat_memory_alloc(*device, LEAT_KIND_DEVICE, MIB, &memory));
    own = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED)
        _exit(1);
    gate = test_gate_close(*stream);
    must(leat_copy(*stream, memory, own, MIB));
    mprotect(own, MIB, PROT_NONE);
    test_gate_open(gate);
    if (leat_stream_synchronize(*stream) != LEAT_ERROR_POINTER)
        _exit(4);
    munmap(own, MIB);
}

static volatile char *volatile nowhere = (volatile char *)(uintptr_t)16;

/* A fault in the program's own code must still end the process. */
static int child_crashes(void)
{
    leat_device *device;
    leat_stream *stream;

    fail_once(&device, &stream);
    *nowhere = 1;
    return 1;
}

/* A handler that the program installs before or after leat's must still be called for the program's own fault. */
static int child_handles(bool before)
{
    struct sigaction action = {.sa_sigaction = own_handler, .sa_flags = SA_SIGINFO};
    leat_device *device;
    leat_stream *stream;

    if (before)
        sigaction(SIGSEGV, &action, NULL);
    fail_once(&device, &stream);
    if (!before)
        sigaction(SIGSEGV, &action, NULL);
    *nowhere = 1;
    return 1;
}

static int child_handles_before(void)
{
    return child_handles(true);
}

static int child_handles_after(void)
{
    return child_handles(false);
}

static void be_slow(void *argument)
{
    (void)argument;
    test_sleep_us(500);
}

/* Together the threads' copies exceed LEAT_COPY_MEMORY. A copy must then wait until others are complete; it must
 * neither fail nor hang. */
static void *copy_out_and_back(void *argument)
{
    struct {
        leat_device *device;
        unsigned number;
    } *job = argument;
    size_t bytes = 3 * MIB;
    unsigned char *in = malloc(bytes), *out = malloc(bytes);
    leat_stream *stream;
    void *memory;

    if (!in || !out)
        _exit(1);
    must(leat_stream_create(job->device, &stream));
    must(leat_memory_alloc(job->device, LEAT_KIND_DEVICE, bytes, &memory));
    for (int round = 0; round < 10; round++) {
        memset(in, (int)job->number + round, bytes);
        must(leat_launch_host(stream, be_slow, NULL));
        must(leat_copy(stream, memory, in, bytes));
        must(leat_copy(stream, out, memory, bytes));
        must(leat_stream_synchronize(stream));
        if (memcmp(in, out, bytes))
            _exit(5);
    }
    must(leat_stream_destroy(stream));
    free(in);
    free(out);
    return NULL;
}

static int child_has_little_memory(void)
{
    struct {
        leat_device *device;
        unsigned number;
    } jobs[8];
    pthread_t threads[8];
    leat_device *device;

    must(leat_device_open(test_device_name(), &device));
    for (unsigned i = 0; i < 8; i++) {
        jobs[i].device = device;
        jobs[i].number = i * 20;
        if (pthread_create(&threads[i], NULL, copy_out_and_back, &jobs[i]))
            return 1;
    }
    for (unsigned i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    must(leat_device_close(device));
    return 42;
}

static void block_all_signals(void *argument)
{
    sigset_t all;

    (void)argument;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
}

enum { COPY, COPY_SYNC, COPY_START, COPY_MANY, COPY_ROWS, COPY_LAYOUT, COPIES };

/* Copies between device memory and partly inaccessible pageable memory. Returns true if the call or the stream
 * returned LEAT_ERROR_POINTER. */
static bool copy_says_pointer(leat_stream *stream, int sort, char *dst, const char *src, size_t bytes)
{
    leat_copy_op halves[] = {{dst, src, bytes / 2}, {dst + bytes / 2, src + bytes / 2, bytes - bytes / 2}};
    leat_copy_region rows = {.width_bytes = bytes / 64, .height = 64, .depth = 1};
    leat_layout to, from;
    leat_ticket *ticket = NULL;
    leat_status status, waited = LEAT_OK;

    rows.dst_pitch_bytes = rows.src_pitch_bytes = rows.width_bytes;
    if (leat_layout_dense(&to, 2, (int64_t[]){64, (int64_t)(bytes / 64)}, 1) ||
        leat_layout_dense(&from, 2, (int64_t[]){(int64_t)(bytes / 64), 64}, 1) ||
        leat_layout_permute(&from, (uint32_t[]){1, 0}))
        return false;
    switch (sort) {
    case COPY_SYNC:
        status = leat_copy_sync(stream, dst, src, bytes);
        break;
    case COPY_START:
        status = leat_copy_start(stream, dst, src, bytes, NULL, &ticket);
        if (status == LEAT_OK)
            waited = leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER);
        (void)leat_ticket_destroy(ticket);
        break;
    case COPY_MANY:
        status = leat_copy_batch(stream, halves, 2);
        break;
    case COPY_ROWS:
        status = leat_copy_3d(stream, dst, src, &rows);
        break;
    case COPY_LAYOUT:
        status = leat_copy_layout(stream, dst, &to, src, &from);
        break;
    default:
        status = leat_copy(stream, dst, src, bytes);
    }
    if (waited == LEAT_OK)
        waited = status;
    status = leat_stream_synchronize(stream);
    return waited == LEAT_ERROR_POINTER || status == LEAT_ERROR_POINTER;
}

/* The program's thread and the stream's thread block all signals after their first use of leat. A fault during a
 * copy must still become an error status. */
static int child_blocks_signals(void)
{
    static const size_t sizes[] = {12288, 64 * KIB, 2 * MIB};
    leat_device *device;
    leat_stream *stream;
    void *memory;

    fail_once(&device, &stream);
    must(leat_memory_alloc(device, LEAT_KIND_DEVICE, 2 * MIB, &memory));
    for (int on_stream = 0; on_stream < 2; on_stream++) {
        if (on_stream)
            must(leat_launch_host(stream, block_all_signals, NULL));
        must(leat_stream_synchronize(stream));
        for (int i = 0; i < 3 * COPIES * 2; i++) {
            size_t bytes = sizes[i % 3];
            char *own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            int sort = i / 3 % COPIES;
            bool out = i >= 3 * COPIES;

            if (own == MAP_FAILED)
                return 1;
            memset(own, 1, bytes);
            /* Protect the second page, because the calls probe only the first and the last one. */
            if (mprotect(own + PAGE, PAGE, PROT_NONE))
                return 1;
            block_all_signals(NULL);
            if (!copy_says_pointer(stream, sort, out ? own : memory, out ? memory : own, bytes)) {
                fprintf(stderr, "child: copy %d of %zu bytes %s: OK\n", sort, bytes, out ? "out" : "in");
                return 5;
            }
            munmap(own, bytes);
        }
    }
    must(leat_memory_free(memory));
    must(leat_device_close(device));
    return 42;
}

static const struct {
    const char *name;
    int (*run)(void);
    const char *variable, *value;
} children[] = {
    {"returns from main", child_returns, NULL, NULL},
    {"returns from main while held", child_returns_while_held, NULL, NULL},
    {"exits", child_exits, NULL, NULL},
    {"exits in a thread", child_exits_in_thread, NULL, NULL},
    {"ends at once", child_ends_at_once, NULL, NULL},
    {"closes the device", child_closes, NULL, NULL},
    {"forks", child_forks, NULL, NULL},
    {"crashes", child_crashes, NULL, NULL},
    {"has a handler from before", child_handles_before, NULL, NULL},
    {"has a handler from after", child_handles_after, NULL, NULL},
    {"blocks all signals", child_blocks_signals, NULL, NULL},
    {"has little memory", child_has_little_memory, "LEAT_COPY_MEMORY", "2M"},
};
#define CHILDREN (sizeof children / sizeof children[0])

static int run_child(const char *name)
{
    for (size_t i = 0; i < CHILDREN; i++)
        if (!strcmp(name, children[i].name))
            return children[i].run();
    return 2;
}

/* ---- in the parent ---- */

/* Runs this program again for one case and returns its wait status. Kills a child that hangs. */
static int child_status(size_t index)
{
    int status = 0;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        /* Most children leak on purpose. A leak report of a sanitizer would change their exit status. */
        setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
        if (children[index].variable)
            setenv(children[index].variable, children[index].value, 1);
        execl("/proc/self/exe", "test_copy_exit", children[index].name, (char *)NULL);
        _exit(126);
    }
    for (int i = 0; i < 25000; i++) {
        if (waitpid(child, &status, WNOHANG) == child)
            return status;
        test_sleep_us(1000);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    fail_msg("a process that '%s' hangs", children[index].name);
    return status;
}

static void a_process_ends_with_copies_under_way(void **state)
{
    (void)state;
    for (size_t i = 0; i < CHILDREN; i++) {
        int status;
        bool killed;

        /* compute-sanitizer waits for all streams when the process exits, but this child's stream never becomes
         * idle. */
        if (children[i].run == child_returns_while_held && getenv("LEAT_TEST_MEMCHECK"))
            continue;
        status = child_status(i);
        killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;

        if (children[i].run == child_crashes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
            killed = true; /* the sanitizer's own handler ends the process */
#endif
            if (!killed)
                fail_msg("a process that '%s' ended with wait status 0x%x and not by SIGSEGV", children[i].name,
                         (unsigned)status);
        } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 42) {
            fail_msg("a process that '%s' ended with wait status 0x%x", children[i].name, (unsigned)status);
        }
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_process_ends_with_copies_under_way),
};

int main(int argc, char **argv)
{
    if (argc == 2)
        return run_child(argv[1]);
    if (!test_device_there())
        return 77;
    test_keep_handlers();
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
