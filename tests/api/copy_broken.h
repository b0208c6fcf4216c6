/* copy_broken.h - shared by the tests of copies that do not end well. */
#ifndef COPY_BROKEN_H
#define COPY_BROKEN_H

#include "harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* Is pageable memory staged, by threads that a copy can be stopped in front of? */
static inline bool staged(void)
{
    const char *stage = getenv("LEAT_COPY_STAGE");

    return !test_on_cpu() || (stage && atoi(stage));
}

/* The stream copies as if nothing had been. */
static inline void still_copies(leat_stream *stream, leat_device *device)
{
    size_t bytes = 3 * MIB + 1;
    unsigned char *in = test_buffer(bytes), *out = test_buffer(bytes);
    void *memory = test_alloc(device, LEAT_KIND_DEVICE, bytes);

    test_pattern(in, bytes, 99);
    memset(out, 0, bytes);
    OK(leat_copy(stream, memory, in, bytes));
    OK(leat_copy_sync(stream, out, memory, bytes));
    EXPECT_PATTERN(out, bytes, 99);
    OK(leat_memory_free(memory));
    free(in);
    free(out);
}

/* ---- faults that are not leat's ---- */

static inline void own_handler(int number, siginfo_t *info, void *context)
{
    static const char words[] = "child: my own handler\n";

    (void)number;
    (void)info;
    (void)context;
    if (write(STDERR_FILENO, words, sizeof words - 1) < 0)
        _exit(3);
    _exit(42);
}

#endif
