/* run_self.h - shared by the tests that run their own program again in another process. */
#ifndef RUN_SELF_H
#define RUN_SELF_H

#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

/* The path of this program, and the folder that contains it. The fake libraries are in the subfolder fake. */
static char self[3072], folder[3072];

/* Exit status of a child that succeeded. Sanitizers use other values when a program ends. */
enum { CONTENT = 42 };

/* Returns the exit status of a child, or 128 plus the signal that killed it. */
static inline int wait_for_child(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline pid_t fork_child(void)
{
    pid_t child;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    return child;
}

/* Runs this program again with up to three arguments. Sets an environment variable for it, unless variable is
 * NULL. */
static inline int run_self(const char *variable, const char *value, const char *const *words, unsigned count)
{
    char *arguments[5] = {self};
    pid_t child = fork_child();

    for (unsigned i = 0; i < count && i < 3; i++)
        arguments[i + 1] = (char *)(uintptr_t)words[i];
    if (child == 0) {
        if (variable && setenv(variable, value, 1) != 0)
            _exit(97);
        execv(self, arguments);
        _exit(98);
    }
    return wait_for_child(child);
}

#endif
