/* test_trace_ends.c - tests how traces end: with the program, when it is killed, when the disk is full, in
 * children of fork(); and LEAT_TRACE. Children are this program again, with the name of a child and a path as
 * arguments. */
#include "harness.h"
#include "temporary.h"
#include "trace_reader.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ThreadSanitizer ends a child of a process with threads when it starts one. */
#ifdef __SANITIZE_THREAD__
#define NO_THREADS_IN_CHILDREN true
#else
#define NO_THREADS_IN_CHILDREN false
#endif

enum { BYTES = 4096, STEPS = 500, ROOM = 40000 };

/* ---- children ---- */

/* Fails the child, not the test. */
static void must(leat_status status, int line)
{
    if (status == LEAT_OK)
        return;
    fprintf(stdout, "line %d: %s\n", line, leat_last_error());
    exit(1);
}
#define MUST(call) must((call), __LINE__)

static leat_device *device;
static leat_stream *stream;

static void make_steps(unsigned count)
{
    void *memory;

    if (!device) {
        MUST(leat_device_open(test_device_name(), &device));
        MUST(leat_stream_create(device, &stream));
    }
    MUST(leat_alloc(stream, BYTES, &memory));
    for (unsigned i = 0; i < count; i++) {
        leat_trace_range_push("step");
        MUST(leat_fill(stream, memory, 1, BYTES));
        leat_trace_range_pop();
    }
    MUST(leat_stream_synchronize(stream));
    MUST(leat_free(stream, memory));
}

/* Ends without closing anything. */
static int plain_child(const char *path)
{
    (void)path;
    make_steps(STEPS);
    return 0;
}

static void at_exit(void)
{
    /* A vendor's library may have ended already. */
    if (test_on_cpu())
        make_steps(1);
    leat_trace_mark("at exit", 0);
}

static int exit_child(const char *path)
{
    (void)path;
    atexit(at_exit);
    make_steps(STEPS);
    exit(0);
}

__attribute__((noreturn)) static int killed_child(const char *path)
{
    MUST(leat_trace_start(path, NULL));
    make_steps(STEPS);
    for (;;) {
        make_steps(10);
        usleep(1000);
        /* The parent waits for this to be in the file. */
        leat_trace_mark("ready", 0);
    }
}

static int full_child(const char *path)
{
    struct rlimit limit = {.rlim_cur = ROOM, .rlim_max = ROOM};

    /* Before the limit: the CPU device's memory is in a file too. */
    make_steps(1);
    if (setrlimit(RLIMIT_FSIZE, &limit))
        return 1;
    MUST(leat_trace_start(path, NULL));
    make_steps(STEPS);
    if (leat_trace_stop(NULL) != LEAT_ERROR_FILE || !strstr(leat_last_error(), "too large"))
        return 2;
    /* Another trace can be recorded. */
    MUST(leat_trace_start("/dev/null", NULL));
    make_steps(10);
    MUST(leat_trace_stop(NULL));
    return 0;
}

/* Like full_child(), but with LEAT_TRACE. */
static int limited_child(const char *path)
{
    struct rlimit limit = {.rlim_cur = ROOM, .rlim_max = ROOM};

    (void)path;
    make_steps(1);
    if (setrlimit(RLIMIT_FSIZE, &limit))
        return 1;
    make_steps(STEPS);
    return 0;
}

/* Forks in the middle of a trace. The child's calls must not reach the file. */
static int forking_child(const char *path)
{
    char other[TEMPORARY_PATH + 8];
    int status;
    pid_t child;

    snprintf(other, sizeof other, "%s.other", path);
    MUST(leat_trace_start(path, NULL));
    leat_trace_mark("before", 0);
    child = fork();
    if (child == 0) {
        leat_trace_mark("in the child", 0);
        if (leat_trace_stop(NULL) != LEAT_ERROR_INVALID)
            _exit(3);
        /* No device was open, so the child can use leat, and trace what it does. */
        if (!NO_THREADS_IN_CHILDREN) {
            MUST(leat_trace_start(other, NULL));
            make_steps(STEPS);
            MUST(leat_trace_stop(NULL));
        }
        exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status)
        return 2;
    leat_trace_mark("after", 0);
    MUST(leat_trace_stop(NULL));
    return 0;
}

static const struct {
    const char *name;
    int (*run)(const char *path);
} children[] = {
    {"plain", plain_child}, {"exit", exit_child},       {"killed", killed_child},
    {"full", full_child},   {"limited", limited_child}, {"forking", forking_child},
};

/* ---- the parent ---- */

static char path[TEMPORARY_PATH], said[TEMPORARY_PATH];

static int make_paths(void **state)
{
    int fd = temporary_file(path), second = temporary_file(said);

    (void)state;
    assert_true(fd >= 0 && second >= 0);
    close(fd);
    close(second);
    return 0;
}

static int remove_paths(void **state)
{
    (void)state;
    unlink(path);
    unlink(said);
    return 0;
}

/* Starts a child, with LEAT_TRACE set to variable unless that is NULL. Its standard error goes to the file said.
 */
static pid_t start(const char *name, const char *variable)
{
    pid_t child;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child)
        return child;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* some children run until they are killed */
    if (variable)
        setenv("LEAT_TRACE", variable, 1);
    /* LeakSanitizer looks for the parent's threads in a child of fork() too, and complains that they do not stop. */
    if (!strcmp(name, "forking"))
        setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    if (!freopen(said, "w", stderr))
        _exit(90);
    execl("/proc/self/exe", "test_trace_ends", name, path, (char *)NULL);
    _exit(91);
}

/* Runs a child to its end, which must be good, and checks what it has printed: NULL means nothing. */
static void run(const char *name, const char *variable, const char *words)
{
    pid_t child = start(name, variable);
    char text[4096] = "";
    int status;
    FILE *file;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    file = fopen(said, "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    if (words)
        assert_non_null(strstr(text, words));
    else
        assert_string_equal(text, "");
    /* One line at most. */
    assert_true(!strchr(text, '\n') || !strchr(text, '\n')[1]);
}

static size_t count_ops(const struct trace *trace, const char *name)
{
    size_t count = 0;

    for (size_t i = 0; i < trace->count; i++)
        count += !strcmp(trace->ops[i].name, name);
    return count;
}

static void variable(void **state)
{
    struct trace trace;

    (void)state;
    run("plain", path, NULL);
    trace_read(&trace, path, false);
    assert_int_equal(count_ops(&trace, "leat_fill"), STEPS);
    assert_int_equal(count_ops(&trace, "step"), STEPS);
    assert_int_equal(trace.lost_ops, 0);
    assert_int_equal(trace.lost_times, 0);
    assert_non_null(strstr(trace.strings[1], "test_trace_ends"));
    assert_string_equal(trace.strings[2], leat_version());
    for (size_t i = 0; i < trace.count; i++)
        if (!strcmp(trace.ops[i].name, "leat_fill"))
            assert_true(trace.ops[i].device_start_ns);
    trace_free(&trace);
}

static void variable_with_process(void **state)
{
    char pattern[TEMPORARY_PATH + 8], name[TEMPORARY_PATH + 32];
    struct trace trace;
    int status;
    pid_t child;

    (void)state;
    snprintf(pattern, sizeof pattern, "%s.%%p", path);
    child = start("plain", pattern);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    snprintf(name, sizeof name, "%s.%ld", path, (long)child);
    trace_read(&trace, name, false);
    assert_int_equal(count_ops(&trace, "step"), STEPS);
    trace_free(&trace);
    unlink(name);
}

/* What functions of atexit() do is recorded too, if they were registered before leat was used. */
static void exit_functions(void **state)
{
    struct trace trace;

    (void)state;
    run("exit", path, NULL);
    trace_read(&trace, path, false);
    assert_int_equal(count_ops(&trace, "step"), STEPS + test_on_cpu());
    assert_int_equal(count_ops(&trace, "at exit"), 1);
    trace_free(&trace);
}

static void no_file(void **state)
{
    (void)state;
    run("plain", "/no such folder/trace", "leat: LEAT_TRACE: /no such folder/trace cannot be written");
}

static void file_of_another(void **state)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);

    (void)state;
    assert_true(fd >= 0 && write(fd, "mine", 4) == 4 && !flock(fd, LOCK_EX));
    run("plain", path, "another process is recording to it");
    assert_int_equal(lseek(fd, 0, SEEK_END), 4);
    close(fd);
}

static void full_disk(void **state)
{
    struct trace trace;

    (void)state;
    run("full", NULL, NULL);
    trace_read(&trace, path, true);
    assert_false(trace.ended);
    trace_free(&trace);
    run("limited", path, "it ends after");
    trace_read(&trace, path, true);
    assert_false(trace.ended);
    trace_free(&trace);
}

/* Returns true if the file has the text, which may be cut. */
static bool file_has(const char *text)
{
    char *content = test_buffer(1 << 22);
    FILE *file = fopen(path, "re");
    size_t bytes = 0;
    bool found;

    assert_non_null(file);
    bytes = fread(content, 1, 1 << 22, file);
    fclose(file);
    found = memmem(content, bytes, text, strlen(text));
    free(content);
    return found;
}

/* Returns true if the file has a mark of this name, and so the operations before it. Its name may be in the file
 * earlier. */
static bool file_has_mark(const char *name)
{
    struct trace trace;
    bool found;

    if (!file_has(name))
        return false;
    trace_read(&trace, path, true);
    found = count_ops(&trace, name) > 0;
    trace_free(&trace);
    return found;
}

static void killed(void **state)
{
    pid_t child = start("killed", NULL);
    struct trace trace;
    int status, waits = 0;

    (void)state;
    while (!file_has_mark("ready") && waits++ < 6000)
        test_sleep_us(10000);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    trace_read(&trace, path, true);
    assert_false(trace.ended);
    assert_true(count_ops(&trace, "leat_fill") >= STEPS);
    trace_free(&trace);
}

static void forked(void **state)
{
    char other[TEMPORARY_PATH + 8];
    struct trace trace;

    (void)state;
    run("forking", NULL, NULL);
    trace_read(&trace, path, false);
    assert_int_equal(trace.count, 2);
    assert_string_equal(trace.ops[0].name, "before");
    assert_string_equal(trace.ops[1].name, "after");
    trace_free(&trace);
    if (NO_THREADS_IN_CHILDREN)
        return;
    snprintf(other, sizeof other, "%s.other", path);
    trace_read(&trace, other, false);
    assert_int_equal(count_ops(&trace, "step"), STEPS);
    assert_int_equal(count_ops(&trace, "in the child"), 0);
    trace_free(&trace);
    unlink(other);
}

#define ENDS_TEST(function) cmocka_unit_test_setup_teardown(function, make_paths, remove_paths)

static const struct CMUnitTest tests[] = {
    ENDS_TEST(variable),        ENDS_TEST(variable_with_process),
    ENDS_TEST(exit_functions),  ENDS_TEST(no_file),
    ENDS_TEST(file_of_another), ENDS_TEST(full_disk),
    ENDS_TEST(killed),          ENDS_TEST(forked),
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 3 && i < sizeof children / sizeof children[0]; i++)
        if (!strcmp(argv[1], children[i].name))
            return children[i].run(argv[2]);
    if (!test_device_there())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
