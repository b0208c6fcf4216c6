/*
 * test_cudart_log.c - tests leat's message for a CUDA error code: leat_last_error() returns it, and it is printed
 * only with LEAT_LOG=error.
 */
#include "cuda_runtime.h"

#include <leat/status.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes one call that fails. Returns its error code as the exit status. */
static int fail_once(void)
{
    void *ptr = NULL;
    cudaError_t error = cudaMalloc(&ptr, (size_t)1 << 60);

    if (error != cudaErrorMemoryAllocation || !strstr(leat_last_error(), "1152921504606846976")) {
        printf("error %d, message: %s\n", (int)error, leat_last_error());
        return 1;
    }
    return 0;
}

/* Runs this program again in a shell in which the variable is set. Returns how many lines of its standard error
 * contain text, or -1 on failure. */
static int count_lines(const char *self, const char *variable, const char *text)
{
    char command[4200], line[4096];
    FILE *pipe;
    int count = 0;

    snprintf(command, sizeof command, "%s '%s' fail 2>&1 >/dev/null", variable, self);
    pipe = popen(command, "r");
    if (!pipe)
        return -1;
    while (fgets(line, sizeof line, pipe))
        count += strstr(line, text) != NULL;
    return pclose(pipe) == 0 ? count : -1;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return fail_once();
    if (count_lines(argv[0], "LEAT_LOG=error", "leat: ") < 1 ||
        count_lines(argv[0], "LEAT_LOG=error", "1152921504606846976") < 1) {
        puts("LEAT_LOG=error does not print the message");
        return 1;
    }
    if (count_lines(argv[0], "LEAT_LOG=none", "leat") != 0 ||
        count_lines(argv[0], "env -u LEAT_LOG", "leat") != 0) {
        puts("something is printed unasked");
        return 1;
    }
    return 0;
}
