/*
 * visible.h - runs a copy of the program with other variables, and checks which devices the copy prints as
 * visible. The tests of CUDA_VISIBLE_DEVICES and similar variables use it.
 */
#ifndef COMPAT_TEST_VISIBLE_H
#define COMPAT_TEST_VISIBLE_H

#include "compat.h"

#include <limits.h>
#include <unistd.h>

/* Fails if the copy does not print this text. It runs with these variables and four CPU devices. */
#define SEES(says, variables) expect_sight((says), (variables), __FILE__, __LINE__)
static inline void expect_sight(const char *says, const char *variables, const char *file, int line)
{
    char own[PATH_MAX] = "", command[PATH_MAX + 512], said[128] = "";
    FILE *copy;

    assert_true(readlink("/proc/self/exe", own, sizeof own - 1) > 0);
    snprintf(command, sizeof command,
             "unset CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES; "
             "LEAT_DEVICE=cpu:0 LEAT_CPU_DEVICES=4 %s '%s' look",
             variables, own);
    copy = popen(command, "r");
    assert_non_null(copy);
    if (fgets(said, sizeof said, copy))
        said[strcspn(said, "\n")] = '\0';
    assert_int_equal(pclose(copy), 0);
    if (!strcmp(said, says))
        return;
    print_error("with %s the devices were \"%s\" instead of \"%s\"\n", variables, said, says);
    _fail(file, line);
}

#endif
