/*
 * compat.h - defines what the tests of the compatibility libraries share: checks of a call's result, patterns of
 * bytes, and gates that hold up a stream.
 *
 * Each test program includes its vendor's header before this one. The tests run on the devices that the library
 * finds. They are written for the two devices of the CPU driver.
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

/* Fails the test if the call does not return this result. */
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

/* wait_at_gate() is a host function that holds up its stream until the gate is open. It gives up after 30 seconds,
 * so that a failing test ends. */
typedef atomic_int gate;

static inline void wait_at_gate(void *argument)
{
    gate *open = argument;

    for (int i = 0; i < 30000 && !atomic_load(open); i++)
        sleep_ms(1);
}

/* Writes bytes that depend on their position, so that a test notices a copy to a wrong position. */
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
