/*
 * harness.h - shared by the tests of the API: the device under test, calls that must succeed or fail, byte
 * patterns, gates.
 *
 * LEAT_TEST_DEVICE names the device (default: "cpu:0"). With LEAT_REQUIRE=cuda a test fails if it would
 * otherwise be skipped because something is missing. This code uses only public headers.
 */
#ifndef HARNESS_H
#define HARNESS_H

#include <leat/leat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The call must return LEAT_OK. */
#define OK(call) test_ok((call), #call, __FILE__, __LINE__)

/* The call must return this status. Its message must contain the name of the call and the given text (words). */
#define REFUSED(call, status, words) test_refused((call), (status), (words), #call, __FILE__, __LINE__)

void test_ok(leat_status status, const char *call, const char *file, int line);
void test_refused(leat_status status, leat_status wanted, const char *words, const char *call, const char *file,
                  int line);

/* Skips the test and prints the reason. With LEAT_REQUIRE the test fails instead. */
#define SKIP_MISSING(reason) test_skip_missing((reason), __FILE__, __LINE__)
void test_skip_missing(const char *reason, const char *file, int line);

/* Skips the test and prints the reason, also with LEAT_REQUIRE. For tests that do not apply to this driver or that
 * need a second GPU. */
#define SKIP_OTHER(reason) test_skip_other((reason), __FILE__, __LINE__)
void test_skip_other(const char *reason, const char *file, int line);

/* Return the name of the device under test, and whether it is a CPU device. */
const char *test_device_name(void);
bool test_on_cpu(void);

/* For programs that test only the CPU device: returns false and prints the reason if another device is under
 * test. */
bool test_only_on_cpu(void);

/* Returns true if the driver under test runs over one of leat's own compatibility libraries. Below such a library
 * is a second leat with CPU devices. Opens the device. */
bool test_on_names(void);

/* Returns the path of the compiled kernels of kernels_user.c, in the format that the device under test loads. */
const char *test_kernels_path(void);

/* Opens the device under test. */
leat_device *test_open(void);

/* Opens another device of the same driver. Returns NULL if there is none. */
leat_device *test_open_other(void);

/* The state of most tests: a device and two streams, created before each test and destroyed after it. */
struct test_state {
    leat_device *device;
    leat_stream *stream;
    leat_stream *second;
};

int test_setup(void **state);
int test_teardown(void **state);
#define STATE_TEST(function) cmocka_unit_test_setup_teardown(function, test_setup, test_teardown)

/* Defines a main() that runs an array of tests. Its exit status is 77 if the device under test does not exist. */
#define TEST_MAIN(tests)                                                                                          \
    int main(void)                                                                                                \
    {                                                                                                             \
        if (!test_device_there())                                                                                 \
            return 77;                                                                                            \
        return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;                                                 \
    }
bool test_device_there(void);

/* Fills memory so that each byte depends on its position: byte i is byte i % 8 of leat_pattern_value(i / 8,
 * seed). */
void test_pattern(void *ptr, size_t bytes, uint64_t seed);

/* Fails and names the first wrong byte if host memory does not hold the pattern. */
#define EXPECT_PATTERN(ptr, bytes, seed) test_expect_pattern((ptr), (bytes), (seed), __FILE__, __LINE__)
void test_expect_pattern(const void *ptr, size_t bytes, uint64_t seed, const char *file, int line);

/* Fails and names the first wrong byte if host memory does not hold value in each byte. */
#define EXPECT_BYTES(ptr, bytes, value) test_expect_bytes((ptr), (bytes), (value), __FILE__, __LINE__)
void test_expect_bytes(const void *ptr, size_t bytes, unsigned char value, const char *file, int line);

/* Allocate with malloc() and with leat_memory_alloc(). If that fails, the test fails, so the result is never
 * NULL. */
void *test_buffer(size_t bytes);
void *test_alloc(leat_device *device, leat_kind kind, size_t bytes);

/* The first starts a copy and returns its ticket, never NULL. The second queries the progress of a ticket. */
leat_ticket *test_copy_start(leat_stream *stream, void *dst, const void *src, size_t bytes);
leat_ticket_info test_ticket_info(leat_ticket *ticket);

/* A gate holds a stream up: work submitted after test_gate_close() starts only after test_gate_open(). Until then
 * a test can be sure that the work has not run. A gate that is not opened opens itself after half a minute. */
struct test_gate {
    atomic_int open;
    atomic_int passed;
};

/* Close and open a gate. A gate stays valid until the program ends, so a test that fails may leave it closed. */
struct test_gate *test_gate_close(leat_stream *stream);
void test_gate_open(struct test_gate *gate);

/* Fails if a stream that a gate holds up becomes idle within 20 ms. */
#define EXPECT_HELD(stream, gate) test_expect_held((stream), (gate), __FILE__, __LINE__)
void test_expect_held(leat_stream *stream, struct test_gate *gate, const char *file, int line);

/* Waits until *value equals wanted. Returns false after half a minute. */
bool test_wait_for(atomic_int *value, int wanted);

void test_sleep_us(long microseconds);

/* In each test cmocka installs its own SIGSEGV and SIGBUS handlers, which do not chain to leat's. The first
 * function saves leat's handlers before the first test. The second one restores them in tests where leat must
 * catch faults, and does nothing if the first one was not called. */
void test_keep_handlers(void);
void test_let_leat_catch_faults(void);

/* Returns the built-in kernel of this name. */
leat_kernel *test_kernel(leat_device *device, const char *name);

#endif
