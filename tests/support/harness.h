/*
 * harness.h - what the API tests share: the device under test, calls that must work or be refused, patterns,
 * gates.
 *
 * LEAT_TEST_DEVICE names the device ("cpu:0" when not set). LEAT_REQUIRE=cuda makes a test fail that would
 * otherwise be skipped because something is missing. Only public headers are used here.
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

/* The call must return this status and leave a message that names the call and contains words. */
#define REFUSED(call, status, words) test_refused((call), (status), (words), #call, __FILE__, __LINE__)

void test_ok(leat_status status, const char *call, const char *file, int line);
void test_refused(leat_status status, leat_status wanted, const char *words, const char *call, const char *file,
                  int line);

/* Ends the test as skipped, with the reason; as failed when LEAT_REQUIRE is set. */
#define SKIP_MISSING(reason) test_skip_missing((reason), __FILE__, __LINE__)
void test_skip_missing(const char *reason, const char *file, int line);

/* Ends the test as skipped: it says nothing about this driver, or needs a second GPU. */
#define SKIP_OTHER(reason) test_skip_other((reason), __FILE__, __LINE__)
void test_skip_other(const char *reason, const char *file, int line);

/* The name of the device under test, and whether its driver is the CPU's. */
const char *test_device_name(void);
bool test_on_cpu(void);

/* For programs about the CPU device alone: false, having said so, where another device is to be tested. */
bool test_only_on_cpu(void);

/* Does the driver stand on one of leat's own compatibility libraries? Then there is another leat beneath, and CPU
 * devices with their kernels. Opens the device. */
bool test_on_names(void);

/* The kernels of kernels_user.c as the device under test takes them. */
const char *test_kernels_path(void);

/* Opens the device under test. */
leat_device *test_open(void);

/* Opens another device of the same driver; NULL when there is none. */
leat_device *test_open_other(void);

/* The state of most tests: a device and two streams, opened before each test and closed after it. */
struct test_state {
    leat_device *device;
    leat_stream *stream;
    leat_stream *second;
};

int test_setup(void **state);
int test_teardown(void **state);
#define STATE_TEST(function) cmocka_unit_test_setup_teardown(function, test_setup, test_teardown)

/* Runs the tests of an array; 77 when there is no device to test. */
#define TEST_MAIN(tests)                                                                                          \
    int main(void)                                                                                                \
    {                                                                                                             \
        if (!test_device_there())                                                                                 \
            return 77;                                                                                            \
        return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;                                                 \
    }
bool test_device_there(void);

/* Every byte says where it is: byte i is byte i % 8 of leat_pattern_value(i / 8, seed). */
void test_pattern(void *ptr, size_t bytes, uint64_t seed);

/* Fails, naming the first wrong byte, when host memory does not hold the pattern. */
#define EXPECT_PATTERN(ptr, bytes, seed) test_expect_pattern((ptr), (bytes), (seed), __FILE__, __LINE__)
void test_expect_pattern(const void *ptr, size_t bytes, uint64_t seed, const char *file, int line);

/* Fails, naming the first wrong byte, when host memory does not hold value everywhere. */
#define EXPECT_BYTES(ptr, bytes, value) test_expect_bytes((ptr), (bytes), (value), __FILE__, __LINE__)
void test_expect_bytes(const void *ptr, size_t bytes, unsigned char value, const char *file, int line);

/* Memory that must be there: malloc, leat_memory_alloc. */
void *test_buffer(size_t bytes);
void *test_alloc(leat_device *device, leat_kind kind, size_t bytes);

/* A copy with a ticket, which is there; and how far it is. */
leat_ticket *test_copy_start(leat_stream *stream, void *dst, const void *src, size_t bytes);
leat_ticket_info test_ticket_info(leat_ticket *ticket);

/*
 * A gate holds a stream up: work behind test_gate_close() starts after test_gate_open(). So a test can look at
 * what happens while the work is certainly not done. A gate that nobody opens gives up after half a minute.
 */
struct test_gate {
    atomic_int open;
    atomic_int passed;
};

/* The gate stays valid to the end of the program, so that a test that fails can leave it behind. */
struct test_gate *test_gate_close(leat_stream *stream);
void test_gate_open(struct test_gate *gate);

/* Fails if stream says within a moment that it is done. For a stream that is held up by a gate. */
#define EXPECT_HELD(stream, gate) test_expect_held((stream), (gate), __FILE__, __LINE__)
void test_expect_held(leat_stream *stream, struct test_gate *gate, const char *file, int line);

/* Waits until *value is wanted; false after half a minute. */
bool test_wait_for(atomic_int *value, int wanted);

void test_sleep_us(long microseconds);

/*
 * cmocka has handlers of its own for faults in each test, which know nothing of leat's. So leat's are kept from
 * before the first test, and put back in those tests that need them.
 */
void test_keep_handlers(void);
void test_let_leat_catch_faults(void);

/* The built-in kernel of this name. */
leat_kernel *test_kernel(leat_device *device, const char *name);

#endif
