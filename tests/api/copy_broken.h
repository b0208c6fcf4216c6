/* copy_broken.h - helpers for the tests of copies that fail, are cancelled, or are cut off by the end of the
 * process. */
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

/* Returns true if copies of pageable memory are staged. Worker threads then copy the bytes. While a gate holds the
 * stream up they do not start, so a test can stop a copy before it moves anything. */
static inline bool staged(void)
{
    const char *stage = getenv("LEAT_COPY_STAGE");

    return !test_on_cpu() || (stage && atoi(stage));
}

/* Checks after a failure that the stream still copies in both directions. */
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

/* ---- faults of the program itself ---- */

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
