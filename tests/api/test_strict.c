/*
 * test_strict.c - tests LEAT_STRICT=1 on the CPU device. If host code accesses device memory, the process must end
 * by SIGSEGV after a message with the pointer, the kind of access and the allocation. All accesses through leat
 * must work.
 *
 * leat reads LEAT_STRICT once per process, so each case runs in a child process: this program again, with the name
 * of the case.
 */
#include "harness.h"

#include <leat/virtual.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 100000
#define VIRTUAL_BYTES ((size_t)2 << 20)
#define LOST_BYTES ((size_t)512 << 10) /* leat_copy() reads so many bytes later, in stream order */
#define FREED ((size_t)0)

/* ---- in the child, where cmocka is not used ----------------------------------------------------------------- */

/* State of a case. The child prints each address before it accesses it. */
struct child {
    leat_device *device;
    leat_stream *stream;
    unsigned char *memory;
};

static void must(leat_status status)
{
    if (status == LEAT_OK)
        return;
    fprintf(stderr, "child: %s\n", leat_last_error());
    exit(status == LEAT_ERROR_UNSUPPORTED ? 77 : 1);
}

static void announce(const char *access, const unsigned char *place, size_t offset)
{
    fprintf(stderr, "child: %s %p offset %zu\n", access, (const void *)place, offset);
}

static int case_read(struct child *c)
{
    announce("read of", c->memory + 12345, 12345);
    return ((volatile unsigned char *)c->memory)[12345];
}

static int case_write(struct child *c)
{
    announce("write to", c->memory + 7, 7);
    ((volatile unsigned char *)c->memory)[7] = 1;
    return 0;
}

static int case_freed(struct child *c)
{
    must(leat_memory_free(c->memory));
    announce("freed", c->memory, 0);
    return ((volatile unsigned char *)c->memory)[0];
}

static void touch(void *argument)
{
    ((volatile unsigned char *)argument)[99] = 1;
}

static int case_host_function(struct child *c)
{
    announce("write to", c->memory + 99, 99);
    must(leat_launch_host(c->stream, touch, c->memory));
    must(leat_stream_synchronize(c->stream));
    return 0;
}

static void *read_in_thread(void *argument)
{
    (void)((volatile unsigned char *)argument)[3];
    return NULL;
}

static int case_other_thread(struct child *c)
{
    pthread_t thread;

    announce("read of", c->memory + 3, 3);
    if (pthread_create(&thread, NULL, read_in_thread, c->memory))
        return 1;
    pthread_join(thread, NULL);
    return 0;
}

/* The calling thread may itself run a short copy on an idle stream. Afterwards this thread must have no access to
 * device memory. */
static int case_after_copy(struct child *c)
{
    char own[64] = {0};

    must(leat_stream_synchronize(c->stream));
    must(leat_copy_sync(c->stream, c->memory, own, sizeof own));
    must(leat_copy_sync(c->stream, own, c->memory, sizeof own));
    announce("read of", c->memory + 5, 5);
    return ((volatile unsigned char *)c->memory)[5];
}

/* The host accesses device memory that belongs to no pool. */
static int case_plain(struct child *c)
{
    void *plain;

    must(leat_alloc_driver(c->stream, BYTES, &plain));
    must(leat_fill(c->stream, plain, 1, BYTES));
    must(leat_stream_synchronize(c->stream));
    announce("write to", (unsigned char *)plain + 77, 77);
    ((volatile unsigned char *)plain)[77] = 1;
    return 0;
}

/* The host accesses memory that the program mapped itself. leat_virtual_set_access() gave the device access to it,
 * but not the host. */
static int case_virtual(struct child *c)
{
    leat_physical *physical;
    size_t bytes;
    void *base;

    must(leat_virtual_granularity(c->device, &bytes));
    must(leat_virtual_reserve(c->device, bytes, 0, &base));
    must(leat_physical_create(c->device, bytes, 0, &physical));
    must(leat_virtual_map(base, bytes, physical));
    must(leat_virtual_set_access(c->device, base, bytes, LEAT_ACCESS_READ));
    must(leat_virtual_set_access(c->device, base, bytes, LEAT_ACCESS_READ_WRITE));
    must(leat_fill(c->stream, base, 1, bytes));
    must(leat_stream_synchronize(c->stream));
    announce("read of", base, 0);
    return ((volatile unsigned char *)base)[0];
}

/* Copies, fills and kernels can access device memory; the host can access pinned memory. */
static int case_works(struct child *c)
{
    unsigned char *in = malloc(BYTES), *out = malloc(BYTES);
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    leat_module *module;
    leat_kernel *kernel;
    void *pinned;
    uint64_t count = BYTES / 8, seed = 4;
    void *args[] = {&c->memory, &count, &seed};

    if (!in || !out)
        return 1;
    must(leat_device_get_info(c->device, &info));
    if (!info.strict)
        return 2;
    must(leat_memory_alloc(c->device, LEAT_KIND_PINNED, BYTES, &pinned));
    test_pattern(in, BYTES, 3);
    must(leat_copy(c->stream, c->memory, in, BYTES));
    must(leat_copy(c->stream, pinned, c->memory, BYTES));
    must(leat_stream_synchronize(c->stream));
    if (memcmp(pinned, in, BYTES))
        return 3;
    must(leat_fill(c->stream, c->memory, 9, BYTES));
    must(leat_copy_sync(c->stream, out, c->memory, BYTES));
    if (out[0] != 9 || out[BYTES - 1] != 9)
        return 4;
    must(leat_module_builtin(c->device, &module));
    must(leat_kernel_get(module, "leat_pattern_u64", &kernel));
    must(leat_launch(c->stream, kernel, leat_dim(16, 1, 1), leat_dim(64, 1, 1), 0, args, 3));
    must(leat_copy_sync(c->stream, out, c->memory, BYTES));
    for (uint64_t i = 0; i < count; i++)
        if (((uint64_t *)(void *)out)[i] != leat_pattern_value(i, seed))
            return 5;
    memset(pinned, 1, BYTES);
    must(leat_memory_free(pinned));
    free(in);
    free(out);
    return 42;
}

static void wait_for_flag(void *flag)
{
    while (!atomic_load((atomic_int *)flag))
        sched_yield();
}

/* The source of a copy becomes inaccessible before the copy runs. Afterwards the stream's thread must still have
 * access to device memory. */
static int case_lost_copy(struct child *c)
{
    size_t bytes = LOST_BYTES;
    char *source = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char last;
    atomic_int gone = 0;
    void *memory;

    if (source == MAP_FAILED)
        return 1;
    memset(source, 1, bytes);
    must(leat_memory_alloc(c->device, LEAT_KIND_DEVICE, bytes, &memory));
    must(leat_launch_host(c->stream, wait_for_flag, &gone));
    must(leat_copy(c->stream, memory, source, bytes));
    if (mprotect(source, bytes, PROT_NONE))
        return 2;
    atomic_store(&gone, 1);
    if (leat_stream_synchronize(c->stream) == LEAT_OK)
        return 3;
    must(leat_fill(c->stream, memory, 9, bytes));
    must(leat_stream_synchronize(c->stream));
    must(leat_copy_sync(c->stream, &last, (char *)memory + bytes - 1, 1));
    must(leat_memory_free(memory));
    munmap(source, bytes);
    return last == 9 ? 42 : 4;
}

static const struct {
    const char *name;
    int (*run)(struct child *c);
} cases[] = {
    {"read", case_read},
    {"write", case_write},
    {"freed", case_freed},
    {"host-function", case_host_function},
    {"other-thread", case_other_thread},
    {"after-copy", case_after_copy},
    {"plain", case_plain},
    {"virtual", case_virtual},
    {"works", case_works},
    {"lost-copy", case_lost_copy},
};

static int run_case(const char *name)
{
    struct child c;
    int code = 1;

    must(leat_device_open("cpu:0", &c.device));
    must(leat_stream_create(c.device, &c.stream));
    must(leat_memory_alloc(c.device, LEAT_KIND_DEVICE, BYTES, (void **)&c.memory));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (!strcmp(name, cases[i].name))
            code = cases[i].run(&c);
    must(leat_device_close(c.device));
    return code;
}

/* ---- in the parent ------------------------------------------------------------------------------------------ */

struct outcome {
    int status; /* from waitpid() */
    char words[8192];
};

static void run_child(const char *name, struct outcome *outcome)
{
    size_t used = 0;
    ssize_t got;
    int ends[2];
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char *const arguments[] = {(char *)(uintptr_t) "test_strict", (char *)(uintptr_t)name, NULL};

        setenv("LEAT_STRICT", "1", 1);
        /* The SIGSEGV handlers of sanitizers would turn the signal into an exit status. */
        setenv("ASAN_OPTIONS", "handle_segv=0:detect_leaks=0", 1);
        setenv("TSAN_OPTIONS", "handle_segv=0", 1);
        setenv("UBSAN_OPTIONS", "handle_segv=0", 1);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execv("/proc/self/exe", arguments);
        _exit(126);
    }
    close(ends[1]);
    while (used < sizeof outcome->words - 1) {
        got = read(ends[0], outcome->words + used, sizeof outcome->words - 1 - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    outcome->words[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &outcome->status, 0), child);
    if (WIFEXITED(outcome->status) && WEXITSTATUS(outcome->status) == 77)
        SKIP_OTHER("this processor has no memory protection keys (make check-strict has others in their place)");
}

/* Checks that the child ends by SIGSEGV, and that the message names the address that the child printed and an
 * allocation of this size. If bytes is FREED, the message must name freed memory. */
static void expect_death(const char *name, size_t bytes)
{
    bool freed = bytes == FREED;
    struct outcome outcome;
    char access[32], pointer[32], wanted[64];
    const char *announced, *message;
    size_t offset;

    run_child(name, &outcome);
    /* With AddressSanitizer the pool has poisoned freed memory, so the sanitizer reports the access first. */
    if (freed && strstr(outcome.words, "use-after-poison"))
        return;
    if (!WIFSIGNALED(outcome.status) || WTERMSIG(outcome.status) != SIGSEGV)
        fail_msg("'%s' ended with wait status 0x%x and not by SIGSEGV; it said: %s", name,
                 (unsigned)outcome.status, outcome.words);
    announced = strstr(outcome.words, "child: ");
    message = strstr(outcome.words, "leat: LEAT_STRICT");
    if (!announced || !message)
        fail_msg("'%s' said: %s", name, outcome.words);
    if (freed) {
        assert_int_equal(sscanf(announced, "child: freed %31s", pointer), 1);
        assert_non_null(strstr(message, pointer));
        assert_non_null(strstr(message, "freed"));
        return;
    }
    assert_int_equal(sscanf(announced, "child: %31[a-z ] %31s offset %zu", access, pointer, &offset), 3);
    snprintf(wanted, sizeof wanted, "byte %zu of the %zu bytes", offset, bytes);
    if (!strstr(message, pointer) || !strstr(message, wanted) || !strstr(message, "cpu:0") ||
        !strstr(message, access))
        fail_msg("'%s': the message should have \"%s\", \"%s\" and \"%s\": %s", name, access, pointer, wanted,
                 message);
}

static void a_read_dies(void **state)
{
    (void)state;
    expect_death("read", BYTES);
}

static void a_write_dies(void **state)
{
    (void)state;
    expect_death("write", BYTES);
}

static void freed_memory_dies(void **state)
{
    (void)state;
    expect_death("freed", FREED);
}

static void a_host_function_dies(void **state)
{
    (void)state;
    expect_death("host-function", BYTES);
}

static void every_thread_dies(void **state)
{
    (void)state;
    expect_death("other-thread", BYTES);
}

static void the_right_ends_with_the_copy(void **state)
{
    (void)state;
    expect_death("after-copy", BYTES);
}

static void plain_memory_dies(void **state)
{
    (void)state;
    expect_death("plain", BYTES);
}

/* The message must name the whole reservation, which is one granule long. */
static void mapped_memory_dies(void **state)
{
    (void)state;
    expect_death("virtual", VIRTUAL_BYTES);
}

static void expect_success(const char *name)
{
    struct outcome outcome;

    run_child(name, &outcome);
    if (!WIFEXITED(outcome.status) || WEXITSTATUS(outcome.status) != 42)
        fail_msg("'%s': wait status 0x%x; it said: %s", name, (unsigned)outcome.status, outcome.words);
}

static void what_goes_through_leat_works(void **state)
{
    (void)state;
    expect_success("works");
}

static void a_stream_works_after_a_lost_copy(void **state)
{
    (void)state;
    expect_success("lost-copy");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_read_dies),
    cmocka_unit_test(a_write_dies),
    cmocka_unit_test(freed_memory_dies),
    cmocka_unit_test(a_host_function_dies),
    cmocka_unit_test(every_thread_dies),
    cmocka_unit_test(the_right_ends_with_the_copy),
    cmocka_unit_test(plain_memory_dies),
    cmocka_unit_test(mapped_memory_dies),
    cmocka_unit_test(what_goes_through_leat_works),
    cmocka_unit_test(a_stream_works_after_a_lost_copy),
};

int main(int argc, char **argv)
{
    if (argc == 2)
        return run_case(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
