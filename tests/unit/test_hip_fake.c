/*
 * test_hip_fake.c - tests the code of the HIP driver over a fake libamdhip64.so (tests/fake/fake_hip.c).
 *
 * The fake library is strict about the current device and about copy directions, and counts live objects. So the
 * test finds errors that a GPU would forgive: another device left current, a stream used on the wrong device, a
 * leak after a vendor call has failed. The kernels of the fake library do nothing. Every test runs twice: once
 * with a library that behaves as HIP 6.3, and in another process with one that behaves as HIP 5.3.
 */
#include "fakes.h"

#include <leat/native.h>

#include "driver/hip/hip_types.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 4096

/* Functions of the fake library that the tests call directly, as a user's own code would. */
static struct {
    hi_result (*current)(int *device);
    hi_result (*set)(int device);
    hi_result (*stream_create)(hi_stream *, unsigned int);
    hi_result (*stream_destroy)(hi_stream);
    hi_result (*event_create)(hi_event *, unsigned int);
    hi_result (*event_destroy)(hi_event);
    hi_result (*mem_alloc)(void **, size_t);
    hi_result (*mem_free)(void *);
    hi_result (*host_alloc)(void **, size_t, unsigned int);
    hi_result (*host_free)(void *);
    hi_result (*host_register)(void *, size_t, unsigned int);
    hi_result (*unregister)(void *);
} fake;

static const struct fakes_function functions[] = {
    {"hipGetDevice", &fake.current},
    {"hipSetDevice", &fake.set},
    {"hipStreamCreateWithFlags", &fake.stream_create},
    {"hipStreamDestroy", &fake.stream_destroy},
    {"hipEventCreateWithFlags", &fake.event_create},
    {"hipEventDestroy", &fake.event_destroy},
    {"hipMalloc", &fake.mem_alloc},
    {"hipFree", &fake.mem_free},
    {"hipHostMalloc", &fake.host_alloc},
    {"hipHostFree", &fake.host_free},
    {"hipHostRegister", &fake.host_register},
    {"hipHostUnregister", &fake.unregister},
    {NULL, NULL},
};

static void expect_current(int wanted)
{
    int device = -1;

    assert_int_equal(fake.current(&device), 0);
    assert_int_equal(device, wanted);
}

static void expect_first(void)
{
    expect_current(0);
}

static void *new_ordered_stream(void)
{
    hi_stream stream = NULL;

    assert_int_equal(fake.stream_create(&stream, 0), 0);
    return stream;
}

static void end_stream(void *stream)
{
    assert_int_equal(fake.stream_destroy(stream), 0);
}

const struct fakes_vendor fakes_vendor = {
    .name = "hip",
    .library_variable = "LEAT_HIP_LIBRARY",
    .devices = {"hip:0", "hip:1"},
    .out_of_memory = "hipErrorOutOfMemory",
    .unknown = LEATI_hipErrorUnknown,
    .lost = LEATI_hipErrorLaunchFailure,
    .shared_bytes = 60 << 10,
    .expect_as_before = expect_first,
    .new_ordered_stream = new_ordered_stream,
    .end_stream = end_stream,
};

/* ---- the current device ---- */

static void test_current_device_stays(void **state)
{
    (void)state;
    assert_int_equal(fake.set(1), 0);
    OK(fakes_do_all());
    expect_current(1);
    assert_int_equal(fake.set(0), 0);
}

/* A HIP device has exactly one context, so leat_device_wrap() accepts no other one. */
static void test_wrapped_device(void **state)
{
    leat_device *device = fakes_open("hip:0"), *other = fakes_open("hip:1"), *wrapped = NULL;
    void *native = NULL, *again = NULL;

    (void)state;
    OK(leat_device_native(device, &native));
    REFUSED(leat_device_wrap("hip:1", native, &wrapped), LEAT_ERROR_INVALID, "not that of hip:1");
    OK(leat_device_wrap("hip:0", native, &wrapped));
    OK(leat_device_native(wrapped, &again));
    assert_ptr_equal(native, again);
    OK(leat_device_close(wrapped));
    OK(leat_device_close(other));
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

static void test_wrapped_stream(void **state)
{
    leat_device *device = fakes_open("hip:1");
    leat_stream *stream = NULL;
    hi_stream mine = NULL, foreign = NULL;

    (void)state;
    assert_int_equal(fake.stream_create(&foreign, 0), 0);
    assert_int_equal(fake.set(1), 0);
    assert_int_equal(fake.stream_create(&mine, 0), 0);
    assert_int_equal(fake.set(0), 0);

    REFUSED(leat_stream_wrap(device, foreign, &stream), LEAT_ERROR_INVALID, "belongs to hip:0");
    fakes_use_stream(device, mine);
    OK(leat_device_close(device));
    expect_current(0);

    /* leat destroyed only its wrappers, so the two streams still exist. */
    assert_int_equal(fakes.live(), 2);
    assert_int_equal(fake.stream_destroy(mine), 0);
    assert_int_equal(fake.stream_destroy(foreign), 0);
}

static void test_wrapped_event(void **state)
{
    leat_device *device = fakes_open("hip:0");
    hi_event mine = NULL;

    (void)state;
    assert_int_equal(fake.event_create(&mine, 0), 0);
    fakes_use_event(device, mine);
    assert_int_equal(fake.event_destroy(mine), 0);
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

/* HIP reports a destroyed handle as a destroyed context. leat must not conclude that the device is lost. */
static void test_destroyed_is_not_lost(void **state)
{
    leat_device *device = fakes_open("hip:0");
    leat_stream *stream = NULL;

    (void)state;
    OK(leat_stream_create(device, &stream));
    fakes.fail_at(1, LEATI_hipErrorContextIsDestroyed);
    REFUSED(leat_stream_synchronize(stream), LEAT_ERROR_HANDLE, "hipErrorContextIsDestroyed 709");
    fakes.fail_at(0, 0);
    OK(leat_stream_synchronize(stream));
    OK(leat_device_close(device));
}

/* ---- memory ---- */

/* leat must find out about memory that the user allocated with the vendor's calls. */
static void test_pointers_of_the_user(void **state)
{
    leat_device *device = fakes_open("hip:0"), *other = fakes_open("hip:1");
    void *d = NULL, *far = NULL, *pinned = NULL;
    int local = 0;

    (void)state;
    assert_int_equal(fake.mem_alloc(&d, BYTES), 0);
    assert_int_equal(fake.host_alloc(&pinned, BYTES, 0), 0);
    assert_int_equal(fake.set(1), 0);
    assert_int_equal(fake.mem_alloc(&far, BYTES), 0);
    assert_int_equal(fake.set(0), 0);
    fakes_expect_place((char *)d + 100, LEAT_KIND_DEVICE, device, d, BYTES);
    fakes_expect_place(far, LEAT_KIND_DEVICE, other, far, BYTES);
    fakes_expect_place((char *)pinned + 1, LEAT_KIND_PINNED, device, pinned, BYTES);
    fakes_expect_place(&local, LEAT_KIND_PAGEABLE, NULL, NULL, 0);
    REFUSED(leat_register(device, pinned, BYTES), LEAT_ERROR_REGISTERED, "already");
    assert_int_equal(fake.mem_free(d), 0);
    assert_int_equal(fake.mem_free(far), 0);
    assert_int_equal(fake.host_free(pinned), 0);
    OK(leat_device_close(other));
    OK(leat_device_close(device));
}

/* The user unregisters memory that leat has registered, so leat_unregister() must return an error. */
static void test_unregistered_by_the_user(void **state)
{
    leat_device *device = fakes_open("hip:0");
    void *host = test_buffer(BYTES);

    (void)state;
    OK(leat_register(device, host, BYTES));
    assert_int_equal(fake.unregister(host), 0);
    REFUSED(leat_unregister(host), LEAT_ERROR_POINTER, "hipErrorHostMemoryNotRegistered");
    assert_int_equal(fake.host_register(host, BYTES, 0), 0);
    OK(leat_unregister(host));
    OK(leat_device_close(device));
    free(host);
    assert_int_equal(fakes.live(), 0);
}

/* ---- modules ---- */

static void test_images(void **state)
{
    static const char bundle[] =
        "__CLANG_OFFLOAD_BUNDLE__\1\0\0\0\0\0\0\0\0\20\0\0\0\0\0\0\100\0\0\0\0\0\0\0\4\0\0\0"
        "\0\0\0\0host";
    static const char no_code[] = ".version 6.3";
    leat_device *device = fakes_open("hip:0");
    leat_module *module = NULL;
    unsigned char image[64];

    (void)state;
    fakes_make_elf(image, 224);
    REFUSED(leat_module_load(device, image, sizeof image, &module), LEAT_ERROR_IMAGE, "reach to byte 1192");
    REFUSED(leat_module_load(device, image, 20, &module), LEAT_ERROR_IMAGE, "cut off");
    REFUSED(leat_module_load(device, bundle, sizeof bundle - 1, &module), LEAT_ERROR_IMAGE, "reach to byte 4160");
    REFUSED(leat_module_load(device, bundle, 40, &module), LEAT_ERROR_IMAGE, "cut off");
    REFUSED(leat_module_load(device, bundle, 26, &module), LEAT_ERROR_IMAGE, "cut off");
    REFUSED(leat_module_load(device, no_code, sizeof no_code, &module), LEAT_ERROR_IMAGE, "neither a code object");
    memset(image, 0, sizeof image);
    fakes_make_elf(image, 224);
    image[40] = image[41] = image[58] = image[60] = 0;
    REFUSED(leat_module_load(device, image, sizeof image, &module), LEAT_ERROR_IMAGE, "hipErrorNoBinaryForGpu");
    REFUSED(leat_module_load(device, image, sizeof image, &module), LEAT_ERROR_IMAGE, "which is a gfx9");
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

/* ---- device properties ---- */

static bool is_five(void)
{
    return getenv("FAKE_HIP") != NULL;
}

static void test_info(void **state)
{
    (void)state;
    fakes_expect_info("Fake AMD GPU 1", is_five() ? "gfx90a" : "gfx942", "hipMalloc", "hipNothing");
}

/* Runs this program again with a library that behaves as HIP 5.3. That needs another process, because a process
 * loads a driver only once. Returns 0 if all tests passed. */
static int run_as_five(const char *self)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        setenv("FAKE_HIP", "version=50300000", 1);
        execl("/proc/self/exe", self, (char *)NULL);
        _exit(99);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_call_fails),
        cmocka_unit_test(test_current_device_stays),
        cmocka_unit_test(test_wrapped_device),
        cmocka_unit_test(test_wrapped_stream),
        cmocka_unit_test(test_wrapped_event),
        cmocka_unit_test(test_destroyed_is_not_lost),
        cmocka_unit_test(test_pointers_of_the_user),
        cmocka_unit_test(test_unregistered_by_the_user),
        cmocka_unit_test(test_regions),
        cmocka_unit_test(test_long_pitches),
        cmocka_unit_test_teardown(test_streams_wait_for_no_default_stream, fakes_let_default_stream_go),
        cmocka_unit_test_teardown(test_stream_of_each_thread, fakes_let_stream_of_thread_go),
        cmocka_unit_test(test_pageable_sources_are_read_in_order),
        cmocka_unit_test(test_copies_stay_in_one_allocation),
        cmocka_unit_test(test_tickets_leave_nothing),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_no_counters),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_info),
    };

    (void)argc;
    if (!is_five() && run_as_five(argv[0]) != 0)
        return 1;
    if (!fakes_load(functions))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
