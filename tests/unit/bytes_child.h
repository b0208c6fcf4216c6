/* bytes_child.h - shared by the tests of how bytes are copied: runs the test program again in a child process. */
#ifndef BYTES_CHILD_H
#define BYTES_CHILD_H

#include "harness.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)

static size_t page_bytes;

#define CHECK(condition)                                                                                          \
    do {                                                                                                          \
        if (!(condition)) {                                                                                       \
            fprintf(stderr, "child: line %d: %s does not hold\n", __LINE__, #condition);                          \
            _exit(1);                                                                                             \
        }                                                                                                         \
    } while (0)

/* Runs this program again in a child and returns its wait status. Sets *stopped to true if the child reached
 * print_last_line(), which stops it for a moment. */
static inline int run_child(const char *what, const char *name, bool *stopped)
{
    pid_t child = fork();
    int status = 0;

    assert_true(child >= 0);
    if (!child) {
        execl("/proc/self/exe", "child", what, name, (char *)NULL);
        _exit(126);
    }
    *stopped = false;
    do {
        if (WIFSTOPPED(status)) {
            *stopped = true;
            kill(child, SIGCONT);
        }
        while (waitpid(child, &status, WUNTRACED) < 0)
            assert_int_equal(errno, EINTR);
    } while (WIFSTOPPED(status));
    return status;
}

#endif
