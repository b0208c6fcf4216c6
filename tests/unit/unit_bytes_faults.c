/*
 * unit_bytes_faults.c - tests memory faults in the middle of a copy by leat's threads. The copy must stop with an
 * error that names the address, and all other signal handlers must still work.
 *
 * cmocka installs its own handlers for SIGSEGV and SIGBUS, so each case runs in a child process: this program
 * again, with the name of the case as its argument.
 */
#include "bytes_child.h"
#include "temporary.h"

#include "base/fault_handler.h"
#include "staging/bytes.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 80                                     /* number of pages of each buffer */
#define LOW ((unsigned char *)64)                    /* an address where nothing is ever mapped */
#define WILD ((unsigned char *)((uintptr_t)1 << 60)) /* on x86-64 an address that cannot exist */

/* ---- faults: in the child, where cmocka is not used --------------------------------------------------------- */

static unsigned char *map_pages(size_t pages)
{
    void *ptr = mmap(NULL, pages * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(ptr != MAP_FAILED);
    for (size_t i = 0; i < pages * page_bytes; i++)
        ((unsigned char *)ptr)[i] = (unsigned char)(i * 7 + i / page_bytes);
    return ptr;
}

static void unmap_pages(unsigned char *ptr, size_t pages)
{
    CHECK(!munmap(ptr, pages * page_bytes));
}

/* Makes a guarded copy of bytes bytes. It must stop after reached bytes, with a fault at the address bad. */
static void expect_stop(unsigned char *dst, const unsigned char *src, size_t bytes, size_t reached,
                        const unsigned char *bad)
{
    for (int stores = LEATI_STORE_POLICY_CACHED; stores <= LEATI_STORE_POLICY_STREAMING; stores++) {
        uintptr_t fault = 0;
        size_t got = leati_staging_copy_guarded(dst, src, bytes, (enum leati_store_policy)stores, &fault);

        if (got != reached || fault != (uintptr_t)bad) {
            fprintf(stderr, "child: %s: %zu of %zu bytes and a fault at %p; should be %zu and %p\n",
                    leati_store_policy_name((enum leati_store_policy)stores), got, bytes, (void *)fault, reached,
                    (const void *)bad);
            _exit(1);
        }
        CHECK(!reached || !memcmp(dst, src, reached));
    }
}

static void expect_whole(unsigned char *dst, const unsigned char *src, size_t bytes)
{
    for (int stores = LEATI_STORE_POLICY_CACHED; stores <= LEATI_STORE_POLICY_STREAMING; stores++) {
        uintptr_t fault = 5;

        memset(dst, 0, bytes);
        CHECK(leati_staging_copy_guarded(dst, src, bytes, (enum leati_store_policy)stores, &fault) == bytes);
        CHECK(fault == 5 && !memcmp(dst, src, bytes));
    }
}

/* State of every case: two buffers. leat finds the default signal handlers installed. */
struct scene {
    unsigned char *dst, *src;
};

/* Makes copies from several offsets, which must stop at the given page of one side. */
static void stop_everywhere(struct scene *s, unsigned char *base, size_t page, bool source)
{
    unsigned char *bad = base + page * page_bytes;

    for (size_t skip = 0; skip <= 130; skip += 13) {
        size_t reached = page * page_bytes - skip;

        /* First shift both sides by the same number of bytes, and then by different numbers. */
        expect_stop(s->dst + skip, s->src + skip, PAGES * page_bytes - skip, reached, bad);
        if (source)
            expect_stop(s->dst, s->src + skip, PAGES * page_bytes - skip, reached, bad);
        else
            expect_stop(s->dst + skip, s->src, PAGES * page_bytes - skip, reached, bad);
        expect_whole(s->dst + skip, s->src + skip, reached);
    }
}

static int case_unreadable(struct scene *s)
{
    CHECK(!mprotect(s->src + 40 * page_bytes, page_bytes, PROT_NONE));
    stop_everywhere(s, s->src, 40, true);
    CHECK(!mprotect(s->src + 3 * page_bytes, page_bytes, PROT_NONE));
    stop_everywhere(s, s->src, 3, true);
    CHECK(!mprotect(s->src, PAGES * page_bytes, PROT_NONE));
    expect_stop(s->dst, s->src + 9, 5 * page_bytes, 0, s->src + 9);
    CHECK(!mprotect(s->src, PAGES * page_bytes, PROT_READ));
    expect_whole(s->dst, s->src, PAGES * page_bytes);
    return 0;
}

static int case_unmapped(struct scene *s)
{
    unmap_pages(s->src + 40 * page_bytes, PAGES - 40);
    stop_everywhere(s, s->src, 40, true);
    unmap_pages(s->dst + 20 * page_bytes, PAGES - 20);
    stop_everywhere(s, s->dst, 20, false);
    /* Copy from and to addresses where nothing is mapped, and where nothing can be mapped. */
    expect_stop(s->dst, LOW, 100, 0, LOW);
    expect_stop(LOW, s->src, 100 * KIB, 0, LOW);
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    expect_stop(s->dst, WILD, 100 * KIB, 0, WILD);
    expect_stop(WILD, s->src, 100 * KIB, 0, WILD);
#endif
    return 0;
}

static int case_truncated(struct scene *s)
{
    char name[TEMPORARY_PATH];
    int file = temporary_file(name);
    size_t bytes = PAGES * page_bytes;

    CHECK(file >= 0 && !unlink(name) && !ftruncate(file, (off_t)bytes));
    unmap_pages(s->src, PAGES);
    s->src = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(s->src != MAP_FAILED);
    memset(s->src, 3, bytes);
    expect_whole(s->dst, s->src, bytes);
    CHECK(!ftruncate(file, (off_t)(50 * page_bytes)));
    stop_everywhere(s, s->src, 50, true);
    /* Use the same mapping as the destination. */
    expect_stop(s->src, s->dst, bytes, 50 * page_bytes, s->src + 50 * page_bytes);
    return close(file);
}

static int case_read_only(struct scene *s)
{
    CHECK(!mprotect(s->dst + 40 * page_bytes, (PAGES - 40) * page_bytes, PROT_READ));
    stop_everywhere(s, s->dst, 40, false);
    /* If several pages are inaccessible, the copy must report the first fault in its own order. */
    CHECK(!mprotect(s->src + 20 * page_bytes, page_bytes, PROT_NONE));
    expect_stop(s->dst, s->src, PAGES * page_bytes, 20 * page_bytes, s->src + 20 * page_bytes);
    return 0;
}

static int case_nothing(struct scene *s)
{
    uintptr_t fault = 5;

    CHECK(leati_staging_copy_guarded(NULL, NULL, 0, LEATI_STORE_POLICY_STREAMING, &fault) == 0 && fault == 5);
    expect_whole(s->dst + 1, s->src, PAGES * page_bytes - 1);
    return 0;
}

/* Runs in several threads. In some of them the copies fault, in others they do not, and some of them block all
 * signals. */
static void *copy_much(void *argument)
{
    unsigned number = *(unsigned *)argument;
    unsigned char *dst = map_pages(PAGES), *src = map_pages(PAGES);
    sigset_t all;

    sigfillset(&all);
    if (number & 1)
        CHECK(!pthread_sigmask(SIG_BLOCK, &all, NULL));
    if (number & 2)
        CHECK(!mprotect((number & 4 ? src : dst) + 30 * page_bytes, page_bytes, PROT_NONE));
    for (int round = 0; round < 100; round++) {
        if (number & 2)
            expect_stop(dst, src, PAGES * page_bytes, 30 * page_bytes, (number & 4 ? src : dst) + 30 * page_bytes);
        else
            expect_whole(dst, src, PAGES * page_bytes);
    }
    unmap_pages(dst, PAGES);
    unmap_pages(src, PAGES);
    return NULL;
}

static int case_threads(struct scene *s)
{
    enum { COUNT = 8 };
    pthread_t threads[COUNT];
    unsigned numbers[COUNT];

    (void)s;
    for (unsigned i = 0; i < COUNT; i++) {
        numbers[i] = i;
        CHECK(!pthread_create(&threads[i], NULL, copy_much, &numbers[i]));
    }
    for (int i = 0; i < COUNT; i++)
        CHECK(!pthread_join(threads[i], NULL));
    return 0;
}

/* After a fault, the thread's signal mask must be unchanged. */
static int case_mask(struct scene *s)
{
    sigset_t usr2, before, after;

    unmap_pages(s->src, PAGES);
    expect_stop(s->dst, s->src, 100, 0, s->src);
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    CHECK(!pthread_sigmask(SIG_BLOCK, &usr2, NULL) && !pthread_sigmask(SIG_BLOCK, NULL, &before));
    expect_stop(s->dst, s->src, 100, 0, s->src);
    CHECK(!pthread_sigmask(SIG_BLOCK, NULL, &after));
    for (int i = 1; i < NSIG; i++)
        CHECK(sigismember(&before, i) == sigismember(&after, i));
    CHECK(sigismember(&after, SIGUSR2) == 1 && sigismember(&after, SIGSEGV) == 0);
    return 0;
}

/* ---- other handlers ---- */

static sigjmp_buf way_out;
static void *volatile seen_address;
static volatile int seen_signal, seen_usr1_blocked;
static struct sigaction below;

static void leave(int signal_number, siginfo_t *info, void *context)
{
    sigset_t mask;

    (void)context;
    seen_signal = signal_number;
    seen_address = info->si_addr;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    seen_usr1_blocked = sigismember(&mask, SIGUSR1);
    siglongjmp(way_out, 1);
}

static void leave_plainly(int signal_number)
{
    seen_signal = signal_number;
    siglongjmp(way_out, 1);
}

static void hand_down(int signal_number, siginfo_t *info, void *context)
{
    seen_signal = -1;
    below.sa_sigaction(signal_number, info, context);
}

static void install(int signal_number, void (*handler)(int, siginfo_t *, void *), struct sigaction *before)
{
    struct sigaction action = {0};

    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaddset(&action.sa_mask, SIGUSR1);
    CHECK(!sigaction(signal_number, &action, before));
}

static unsigned char read_byte(const volatile unsigned char *ptr)
{
    return *ptr;
}

/* Makes the program itself fault at this address. The program's handler must see the fault as if leat were not
 * there. */
static void expect_seen(const unsigned char *bad)
{
    for (volatile int round = 0; round < 3; round++) {
        seen_signal = 0;
        seen_address = NULL;
        if (!sigsetjmp(way_out, 1)) {
            read_byte(bad);
            CHECK(false && "the access went through");
        }
        CHECK(seen_signal == SIGSEGV || seen_signal == SIGBUS);
        CHECK(!seen_address || seen_address == (const void *)bad);
    }
}

static int case_handler_before(struct scene *s)
{
    install(SIGSEGV, leave, NULL);
    unmap_pages(s->src, PAGES);
    expect_stop(s->dst, s->src, 100, 0, s->src);
    expect_seen(s->src + 17);
    CHECK(seen_address == s->src + 17 && seen_usr1_blocked == 1);
    expect_stop(s->dst, s->src, 100, 0, s->src);
    return 0;
}

/* Runs a kernel on the CPU device, which installs leat's second handler. */
static void run_kernel(void)
{
    const uint64_t word = 1;
    leat_device *device;
    leat_stream *stream;
    void *memory;

    setenv("LEAT_DRIVERS", "cpu", 1);
    CHECK(leat_device_open("cpu:0", &device) == LEAT_OK && leat_stream_create(device, &stream) == LEAT_OK);
    CHECK(leat_memory_alloc(device, LEAT_KIND_DEVICE, 800, &memory) == LEAT_OK);
    CHECK(leat_fill_pattern(stream, memory, &word, sizeof word, 800) == LEAT_OK);
    CHECK(leat_stream_synchronize(stream) == LEAT_OK);
    CHECK(leat_memory_free(memory) == LEAT_OK && leat_stream_destroy(stream) == LEAT_OK);
    CHECK(leat_device_close(device) == LEAT_OK);
}

/* The first leat work is a kernel. When the program's handler has seen a fault, leat's first handler must still be
 * installed. */
static int case_kernel_first(struct scene *s)
{
    install(SIGSEGV, leave, NULL);
    run_kernel();
    CHECK(!mprotect(s->src, page_bytes, PROT_NONE));
    expect_stop(s->dst, s->src, 100, 0, s->src);
    expect_seen(s->src + 17);
    expect_stop(s->dst, s->src, 100, 0, s->src);
    return 0;
}

static int case_plain_handler_before(struct scene *s)
{
    CHECK(signal(SIGSEGV, leave_plainly) != SIG_ERR);
    unmap_pages(s->src, PAGES);
    expect_stop(s->dst, s->src, 100, 0, s->src);
    expect_seen(s->src);
    expect_stop(s->dst, s->src, 100, 0, s->src);
    return 0;
}

static int case_handler_after(struct scene *s)
{
    unmap_pages(s->src, PAGES);
    expect_stop(s->dst, s->src, 100, 0, s->src);
    install(SIGSEGV, leave, NULL);
    expect_seen(s->src + 17);
    CHECK(seen_address == s->src + 17);
    return 0;
}

/* A handler that is installed later must work if it calls leat's handler. */
static int case_handler_passes_on(struct scene *s)
{
    unmap_pages(s->src, PAGES);
    expect_stop(s->dst, s->src, 100, 0, s->src);
    install(SIGSEGV, hand_down, &below);
    for (int round = 0; round < 3; round++) {
        seen_signal = 0;
        expect_stop(s->dst, s->src, 100, 0, s->src);
        CHECK(seen_signal == -1);
    }
    return 0;
}

/* ---- faults outside of the copy ---- */

static void touch(void *context)
{
    read_byte(context);
}

/* A fault in a guarded section, at an address outside the guarded ranges, goes to the program's handler. */
static int case_elsewhere(struct scene *s)
{
    const struct leati_fault_range ranges[] = {{(uintptr_t)s->src, page_bytes}, {0, 0}};
    uintptr_t fault = 0;

    install(SIGSEGV, leave, NULL);
    /* The pages stay mapped, because the thread sanitizer might reuse their addresses. */
    CHECK(!mprotect(s->src, 2 * page_bytes, PROT_NONE));
    CHECK(!leati_fault_handler_run(ranges, touch, s->src + page_bytes - 1, &fault));
    CHECK(fault == (uintptr_t)s->src + page_bytes - 1);
    if (!sigsetjmp(way_out, 1)) {
        leati_fault_handler_run(ranges, touch, s->src + page_bytes, &fault);
        CHECK(false && "the access went through");
    }
    CHECK(seen_address == s->src + page_bytes);
    return 0;
}

static void send_to_self(void *context)
{
    (void)context;
    raise(SIGSEGV);
    raise(SIGBUS);
}

/* A signal that a process has sent is no fault, even if it arrives in a guarded section. */
static int case_sent_and_ignored(struct scene *s)
{
    const struct leati_fault_range everything[] = {{0, SIZE_MAX}, {0, 0}};
    uintptr_t fault = 0;

    CHECK(signal(SIGSEGV, SIG_IGN) != SIG_ERR && signal(SIGBUS, SIG_IGN) != SIG_ERR);
    for (int round = 0; round < 3; round++)
        CHECK(leati_fault_handler_run(everything, send_to_self, NULL, &fault));
    unmap_pages(s->src, PAGES);
    expect_stop(s->dst, s->src, 100, 0, s->src);
    return 0;
}

static void copy_and_touch(void *context)
{
    struct scene *s = context;

    expect_stop(s->dst, s->src, 100, 0, s->src);
    read_byte(s->src + 5);
}

/* Enters a guarded section inside of a guarded section. */
static int case_nested(struct scene *s)
{
    const struct leati_fault_range ranges[] = {{(uintptr_t)s->src, page_bytes}, {0, 0}};
    uintptr_t fault = 0;

    unmap_pages(s->src, PAGES);
    for (int round = 0; round < 3; round++) {
        CHECK(!leati_fault_handler_run(ranges, copy_and_touch, s, &fault));
        CHECK(fault == (uintptr_t)s->src + 5);
    }
    return 0;
}

static int case_alternate_stack(struct scene *s)
{
    stack_t stack = {.ss_sp = map_pages(32), .ss_size = 32 * page_bytes};

    CHECK(!sigaltstack(&stack, NULL));
    unmap_pages(s->src, PAGES);
    for (int round = 0; round < 100; round++)
        expect_stop(s->dst, s->src, 100, 0, s->src);
    return 0;
}

/* Checks ranges of one, three and many pages, which were touched before or not. First all pages are usable; then
 * one page, the first, the middle or the last, is read-only; then that page is missing. leati_staging_usable()
 * must not change the contents. */
static int case_usable(struct scene *s)
{
    static const size_t counts[] = {1, 3, PAGES};

    (void)s;
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
        for (int touched = 0; touched < 2; touched++)
            for (size_t where = 0; where < 3; where++) {
                size_t pages = counts[n], bytes = pages * page_bytes, odd = where * (pages - 1) / 2;
                unsigned char *ptr = map_pages(pages);
                /* From the last byte of the first page to the first byte of the last page. */
                unsigned char *inner = ptr + (pages > 1 ? page_bytes - 1 : 0);
                size_t inner_bytes = pages > 1 ? bytes - 2 * page_bytes + 2 : bytes;

                if (touched)
                    memset(ptr, 0xa5, bytes);
                else
                    CHECK(!madvise(ptr, bytes, MADV_DONTNEED));
                CHECK(leati_staging_usable(ptr + 5, bytes - 5, true) && leati_staging_usable(ptr, bytes, false));
                CHECK(leati_staging_usable(inner, inner_bytes, true) &&
                      leati_staging_usable(inner, inner_bytes, false));
                for (size_t i = 0; i < bytes; i++)
                    CHECK(ptr[i] == (touched ? 0xa5 : 0));
                CHECK(touched || !madvise(ptr, bytes, MADV_DONTNEED));
                CHECK(!mprotect(ptr + odd * page_bytes, page_bytes, PROT_READ));
                CHECK(!leati_staging_usable(ptr, bytes, true) && leati_staging_usable(ptr, bytes, false));
                CHECK(!leati_staging_usable(inner, inner_bytes, true) &&
                      leati_staging_usable(inner, inner_bytes, false));
                unmap_pages(ptr + odd * page_bytes, 1);
                CHECK(!leati_staging_usable(ptr, bytes, true) && !leati_staging_usable(ptr, bytes, false));
                CHECK(!leati_staging_usable(inner, inner_bytes, true) &&
                      !leati_staging_usable(inner, inner_bytes, false));
                unmap_pages(ptr, pages);
            }
    return 0;
}

/* Stops this process for a moment, so that the parent knows that a case that kills the process has come this
 * far. */
static void print_last_line(void)
{
    raise(SIGSTOP);
}

/* Strict mode installs its handler after leat's, because the CPU device is opened later. */
static int case_strict_after(struct scene *s)
{
    struct sigaction before, after;
    leat_device *device;
    void *memory;

    CHECK(!mprotect(s->src, page_bytes, PROT_NONE));
    expect_stop(s->dst, s->src, 100, 0, s->src);
    setenv("LEAT_STRICT", "1", 1);
    setenv("LEAT_DRIVERS", "cpu", 1);
    if (leat_device_open("cpu:0", &device) != LEAT_OK)
        return 77;
    CHECK(leat_memory_alloc(device, LEAT_KIND_DEVICE, 100, &memory) == LEAT_OK);
    CHECK(!sigaction(SIGSEGV, NULL, &before));
    for (int round = 0; round < 3; round++)
        expect_stop(s->dst, s->src, 100, 0, s->src);
    /* The copies must not have changed the installed handler. */
    CHECK(!sigaction(SIGSEGV, NULL, &after) && before.sa_sigaction == after.sa_sigaction);
    /* test_strict checks the text of the message, so discard it here. */
    CHECK(freopen("/dev/null", "w", stderr));
    print_last_line();
    return read_byte(memory);
}

static int case_dies_by_access(struct scene *s)
{
    unmap_pages(s->src, PAGES);
    expect_stop(s->dst, s->src, 100, 0, s->src);
    print_last_line();
    return read_byte(s->src);
}

static int case_dies_though_ignored(struct scene *s)
{
    CHECK(signal(SIGSEGV, SIG_IGN) != SIG_ERR);
    return case_dies_by_access(s);
}

static int case_dies_by_bus(struct scene *s)
{
    CHECK(!case_truncated(s));
    print_last_line();
    return read_byte(s->src + 60 * page_bytes);
}

static int case_dies_by_kill(struct scene *s)
{
    expect_whole(s->dst, s->src, 100);
    print_last_line();
    raise(SIGSEGV);
    return 0;
}

/* The second handler does not swallow a signal that was sent. */
static int case_dies_by_kill_after_a_kernel(struct scene *s)
{
    (void)s;
    run_kernel();
    print_last_line();
    raise(SIGSEGV);
    return 0;
}

static int case_dies_by_bus_kill(struct scene *s)
{
    expect_whole(s->dst, s->src, 100);
    print_last_line();
    raise(SIGBUS);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(struct scene *s);
    int dies_by; /* signal that kills the child; 0: the case returns 0 */
} cases[] = {
    {"unreadable", case_unreadable, 0},
    {"unmapped", case_unmapped, 0},
    {"truncated", case_truncated, 0},
    {"read_only", case_read_only, 0},
    {"nothing", case_nothing, 0},
    {"threads", case_threads, 0},
    {"mask", case_mask, 0},
    {"handler_before", case_handler_before, 0},
    {"kernel_first", case_kernel_first, 0},
    {"plain_handler_before", case_plain_handler_before, 0},
    {"handler_after", case_handler_after, 0},
    {"handler_passes_on", case_handler_passes_on, 0},
    {"elsewhere", case_elsewhere, 0},
    {"sent_and_ignored", case_sent_and_ignored, 0},
    {"nested", case_nested, 0},
    {"alternate_stack", case_alternate_stack, 0},
    {"usable", case_usable, 0},
    {"strict_after", case_strict_after, SIGSEGV},
    {"dies_by_access", case_dies_by_access, SIGSEGV},
    {"dies_though_ignored", case_dies_though_ignored, SIGSEGV},
    {"dies_by_bus", case_dies_by_bus, SIGBUS},
    {"dies_by_kill", case_dies_by_kill, SIGSEGV},
    {"dies_by_kill_after_a_kernel", case_dies_by_kill_after_a_kernel, SIGSEGV},
    {"dies_by_bus_kill", case_dies_by_bus_kill, SIGBUS},
};

enum { CASES = sizeof cases / sizeof *cases };

static int run_case(const char *name)
{
    struct scene scene;

    /* A sanitizer may have installed its own handlers, so restore the default ones. */
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    scene.dst = map_pages(PAGES);
    scene.src = map_pages(PAGES);
    for (int i = 0; i < CASES; i++)
        if (!strcmp(cases[i].name, name))
            return cases[i].run(&scene);
    return 2;
}

static void faults_do_what_they_should(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        bool stopped;
        int status = run_child("case", cases[i].name, &stopped);

        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            print_message("           skipped: faults in strict mode, which this machine does not have\n");
        else if (cases[i].dies_by ? !stopped || !WIFSIGNALED(status) || WTERMSIG(status) != cases[i].dies_by
                                  : status)
            fail_msg("%s: the child ended with 0x%x", cases[i].name, (unsigned)status);
    }
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_do_what_they_should),
    };

    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (argc == 3 && !strcmp(argv[1], "case"))
        return run_case(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
