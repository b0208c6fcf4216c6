/*
 * compat.h - what the tests of the compatibility libraries share: calls with the result that is wanted, and a gate
 * that holds a stream up.
 *
 * Each test program includes its vendor's header, then this. It runs on the devices that the library finds; the
 * tests are made for the CPU device, which has two.
 */
#ifndef COMPAT_TEST_H
#define COMPAT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* The call must return this number. */
#define GIVES(result, call) expect_result((int)(call), (int)(result), #call, __FILE__, __LINE__)
#define OK(call) GIVES(0, call)

static inline void expect_result(int result, int wanted, const char *call, const char *file, int line)
{
    if (result == wanted)
        return;
    print_error("%s gave %d instead of %d\n", call, result, wanted);
    _fail(file, line);
}

static inline void sleep_ms(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};

    while (nanosleep(&time, &time))
        continue;
}

/* A host function that waits until the gate opens; it gives up after half a minute, so that no failure hangs. */
typedef atomic_int gate;

static inline void wait_at_gate(void *argument)
{
    gate *open = argument;

    for (int i = 0; i < 30000 && !atomic_load(open); i++)
        sleep_ms(1);
}

/* Every byte says where it is. */
static inline void write_pattern(void *to, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)to)[i] = (unsigned char)(i * 7 + (i >> 8) * 13 + seed);
}

#define HAS_PATTERN(at, bytes, seed) expect_pattern((at), (bytes), (seed), __FILE__, __LINE__)
static inline void expect_pattern(const void *at, size_t bytes, unsigned seed, const char *file, int line)
{
    for (size_t i = 0; i < bytes; i++)
        if (((const unsigned char *)at)[i] != (unsigned char)(i * 7 + (i >> 8) * 13 + seed)) {
            print_error("byte %zu of %zu is wrong\n", i, bytes);
            _fail(file, line);
        }
}

#define HAS_BYTES(at, bytes, value) expect_bytes((at), (bytes), (value), __FILE__, __LINE__)
static inline void expect_bytes(const void *at, size_t bytes, unsigned char value, const char *file, int line)
{
    for (size_t i = 0; i < bytes; i++)
        if (((const unsigned char *)at)[i] != value) {
            print_error("byte %zu of %zu is %u instead of %u\n", i, bytes, ((const unsigned char *)at)[i], value);
            _fail(file, line);
        }
}

#endif
