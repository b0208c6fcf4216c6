/*
 * unit_pinned_refused.c - tests pinned memory on kernels that lack or refuse a system call. On each such kernel
 * leat must return memory that works or an error, and must not crash.
 *
 * A seccomp filter makes the kernel refuse the calls. A process cannot remove such a filter, so each case runs in
 * a child process: this program again, with the name of the case as its argument.
 */
#include "pinned_chunks.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- kernels that refuse a system call, in a child process -------------------------------------------------- */

/* Makes the kernel refuse this system call with error from now on, for this thread and all threads that it
 * creates. If argument is not -1, only calls are refused whose argument of this number has this value. If error is
 * 0, the kernel kills the process instead. */
static bool refuse_call(unsigned call, int argument, uint32_t value, int error)
{
    uint32_t action = error ? SECCOMP_RET_ERRNO | (uint32_t)error : SECCOMP_RET_KILL_PROCESS;
    uint32_t place = (uint32_t)offsetof(struct seccomp_data, args) + 8 * (uint32_t)(argument < 0 ? 0 : argument);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, (uint8_t)(argument < 0 ? 1 : 3)),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, place),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_filter without_argument[] = {filter[0], filter[1], filter[4], filter[5]};
    struct sock_fprog program = {.len = argument < 0 ? 4 : 6, .filter = argument < 0 ? without_argument : filter};

    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { CHILD_CANNOT = 70, CHILD_WRONG = 71 };

static void child_needs(bool true_here, int code, int line)
{
    if (true_here)
        return;
    fprintf(stderr, "unit_pinned_refused.c:%d: %s\n", line, leat_last_error());
    _exit(code);
}

#define CHILD_CHECK(true_here) child_needs((true_here), CHILD_WRONG, __LINE__)
#define CHILD_CAN(true_here) child_needs((true_here), CHILD_CANNOT, __LINE__)

static void child_takes(leat_device *device, size_t bytes)
{
    void *ptr = NULL;

    CHILD_CHECK(leati_pinned_take(device, bytes, &ptr) == LEAT_OK);
    CHILD_CHECK(resident_bytes(ptr, bytes) == (long long)bytes);
    memset(ptr, 1, bytes);
    CHILD_CHECK(leati_pinned_give_back(device, ptr, bytes) == LEAT_OK);
}

static void child_is_refused(leat_device *device, size_t bytes, const char *words)
{
    size_t before = address_bytes();
    void *ptr = NULL;

    CHILD_CHECK(leati_pinned_take(device, bytes, &ptr) == LEAT_ERROR_HOST_MEMORY);
    CHILD_CHECK(strstr(leat_last_error(), words) != NULL);
    CHILD_CHECK(!ptr);
    CHILD_CHECK(address_bytes() == before);
}

static void kernel_without_populate(leat_device *device)
{
    CHILD_CAN(refuse_call(SYS_madvise, 2, MADV_POPULATE_WRITE, EINVAL));
    /* Without huge pages, leat must touch each small page. */
    CHILD_CAN(!prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
    child_takes(device, 98 * MIB);
}

static void kernel_without_pages(leat_device *device)
{
    CHILD_CAN(refuse_call(SYS_madvise, 2, MADV_POPULATE_WRITE, ENOMEM));
    child_is_refused(device, 2 * MIB, "Cannot allocate memory");
}

static void kernel_with_bad_pages(leat_device *device)
{
    CHILD_CAN(refuse_call(SYS_madvise, 2, MADV_POPULATE_WRITE, EHWPOISON));
    child_is_refused(device, 2 * MIB, "madvise: ");
}

static void kernel_without_huge_pages(leat_device *device)
{
    CHILD_CAN(refuse_call(SYS_madvise, 2, MADV_HUGEPAGE, EINVAL));
    child_takes(device, 2 * MIB);
}

static void kernel_without_threads(leat_device *device)
{
    CHILD_CAN(refuse_call(SYS_clone3, -1, 0, EAGAIN) && refuse_call(SYS_clone, -1, 0, EAGAIN));
    child_takes(device, 98 * MIB);
}

/* This mmap() reserves the addresses of a chunk that is to be registered. It fails, but the driver's own call
 * still works, because the CPU driver has reserved its addresses before. */
static void kernel_without_addresses(leat_device *device)
{
    CHILD_CAN(refuse_call(SYS_mmap, 1, 6 * MIB, ENOMEM));
    child_takes(device, 4 * MIB);
    child_takes(device, 2 * MIB);
}

static void kernel_without_policies(leat_device *device)
{
    struct odd_driver *odd = odd_driver(device);

    odd->node = 0;
    CHILD_CAN(refuse_call(SYS_get_mempolicy, -1, 0, ENOSYS) && refuse_call(SYS_mbind, -1, 0, EPERM));
    child_takes(&odd->device, 2 * MIB);
}

/* A small chunk must start no thread, so the kernel does not kill this child. */
static void kernel_that_ends_who_starts_threads(leat_device *device)
{
    CHILD_CAN(refuse_call(SYS_clone3, -1, 0, 0) && refuse_call(SYS_clone, -1, 0, 0));
    child_takes(device, 62 * MIB);
}

/* A large chunk starts threads, so the kernel must kill this child. */
static void kernel_that_ends_who_starts_threads_again(leat_device *device)
{
    CHILD_CAN(leati_fresh_threads(64 * MIB) == 2);
    CHILD_CAN(refuse_call(SYS_clone3, -1, 0, 0) && refuse_call(SYS_clone, -1, 0, 0));
    child_takes(device, 64 * MIB);
    _exit(CHILD_WRONG);
}

static void limit_of_addresses(leat_device *device)
{
    struct rlimit limit;

    CHILD_CAN(!SANITIZED);
    CHILD_CHECK(!getrlimit(RLIMIT_AS, &limit));
    limit.rlim_cur = address_bytes() + 4 * MIB;
    CHILD_CHECK(!setrlimit(RLIMIT_AS, &limit));
    child_takes(device, 30 * MIB);
}

/* A limit of locked memory must not matter, because the CPU device locks no memory when it registers it. */
static void limit_of_locked_memory(leat_device *device)
{
    struct rlimit limit;

    CHILD_CHECK(!getrlimit(RLIMIT_MEMLOCK, &limit));
    limit.rlim_cur = 0;
    CHILD_CHECK(!setrlimit(RLIMIT_MEMLOCK, &limit));
    child_takes(device, 30 * MIB);
}

static const struct child {
    const char *name;
    void (*run)(leat_device *device);
    int signal; /* the signal that must kill the child; 0: the child must succeed */
} children[] = {
    {"without-populate", kernel_without_populate, 0},
    {"without-pages", kernel_without_pages, 0},
    {"with-bad-pages", kernel_with_bad_pages, 0},
    {"without-huge-pages", kernel_without_huge_pages, 0},
    {"without-threads", kernel_without_threads, 0},
    {"without-addresses", kernel_without_addresses, 0},
    {"without-policies", kernel_without_policies, 0},
    {"no-threads-for-small", kernel_that_ends_who_starts_threads, 0},
    {"threads-for-large", kernel_that_ends_who_starts_threads_again, SIGSYS},
    {"limit-of-addresses", limit_of_addresses, 0},
    {"limit-of-locked-memory", limit_of_locked_memory, 0},
};

static int run_child(const char *name)
{
    leat_device *device = test_open();

    for (size_t i = 0; i < sizeof children / sizeof children[0]; i++)
        if (!strcmp(children[i].name, name)) {
            children[i].run(device);
            /* Do not call exit(), where a sanitizer may need a system call that is refused. */
            _exit(0);
        }
    return CHILD_WRONG;
}

static void kernels_that_refuse_do_no_harm(void **state)
{
    (void)state;
    if (!test_on_cpu())
        SKIP_OTHER("a vendor's driver makes system calls of its own");
    for (size_t i = 0; i < sizeof children / sizeof children[0]; i++) {
        int status;
        pid_t child;

        fflush(NULL);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            execl("/proc/self/exe", "unit_pinned_refused", "child", children[i].name, (char *)NULL);
            _exit(126);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_CANNOT)
            print_message("           left out here: %s\n", children[i].name);
        else if (children[i].signal ? !WIFSIGNALED(status) || WTERMSIG(status) != children[i].signal
                                    : !WIFEXITED(status) || WEXITSTATUS(status))
            fail_msg("%s: wait status 0x%x", children[i].name, (unsigned)status);
    }
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_that_refuse_do_no_harm),
    };

    setenv("LEAT_FAULT", "none", 1);
    if (argc == 3 && !strcmp(argv[1], "child"))
        return run_child(argv[2]);
    if (!test_device_there())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
