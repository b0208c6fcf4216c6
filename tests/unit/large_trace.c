/* large_trace.c - writes a trace of this many operations to standard output, and its contents to standard error.
 */
#include "large_trace.h"

#include <inttypes.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    uint64_t unit = (uint64_t)LARGE_THREADS * LARGE_OPS, count = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    struct large_trace has = large_write(stdout, (count + unit - 1) / unit * unit);

    fprintf(stderr, "slices %" PRIu64 " counts %" PRIu64 "\n", has.calls + has.work + has.ranges,
            2 * has.copies + 2 * has.memory);
    return fflush(stdout) != 0 || ferror(stdout);
}
