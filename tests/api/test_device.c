/*
 * test_device.c - tests devices (names, opening, closing), the lists of devices, drivers and options, statuses,
 * resource limits, and child processes. leat reads its environment once, so for wrong settings the program runs
 * itself again.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void open_gives_the_same_handle_until_the_last_close(void **state)
{
    leat_device *first = test_open(), *again;
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    (void)state;
    OK(leat_device_open(test_device_name(), &again));
    assert_ptr_equal(first, again);
    OK(leat_device_close(again));
    OK(leat_device_get_info(first, &info));
    OK(leat_device_close(first));
    REFUSED(leat_device_get_info(first, &info), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_device_close(first), LEAT_ERROR_HANDLE, "device");
}

static void query_describes_the_device(void **state)
{
    leat_device *device = test_open();
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    uint64_t free_bytes, total_bytes;

    (void)state;
    memset(&info, 0xee, sizeof info);
    info.size = sizeof info;
    OK(leat_device_get_info(device, &info));
    assert_string_equal(info.name, test_device_name());
    assert_int_equal(strncmp(info.driver, test_device_name(), strcspn(test_device_name(), ":")), 0);
    assert_int_equal(info.ordinal, atoi(strchr(test_device_name(), ':') + 1));
    assert_true(strlen(info.model) > 0);
    assert_true(strlen(info.architecture) > 0);
    /* leat has code objects for some of AMD's architectures only. */
    assert_true(strlen(info.kernel_code) > 0 || !strcmp(info.driver, "hip"));
    assert_true(strlen(info.kernel_code) < sizeof info.kernel_code);
    assert_true(info.memory_bytes > 0);
    assert_true(info.compute_units > 0);
    assert_false(info.peer_mask >> info.ordinal & 1);
    assert_true(info.max_block_threads >= 256);
    assert_int_equal(info.unified_addressing, 1);
    OK(leat_device_memory(device, &free_bytes, &total_bytes));
    assert_true(total_bytes > 0 && free_bytes <= total_bytes);
    OK(leat_device_memory(device, NULL, NULL));
    OK(leat_device_close(device));
}

static void list_has_the_device_and_ends(void **state)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    unsigned index = 0;
    bool found = false;
    leat_status status;

    (void)state;
    while ((status = leat_device_list(index, &info)) == LEAT_OK) {
        leat_device *device;

        found = found || !strcmp(info.name, test_device_name());
        /* Opening each listed device must succeed. */
        OK(leat_device_open(info.name, &device));
        OK(leat_device_close(device));
        index++;
    }
    assert_true(found);
    REFUSED(leat_device_list(index, &info), LEAT_ERROR_NO_DEVICE, "past the last");
    REFUSED(leat_device_list(UINT32_MAX, &info), LEAT_ERROR_NO_DEVICE, "past the last");
    REFUSED(leat_device_list(0, NULL), LEAT_ERROR_INVALID, "info");
}

static void null_opens_the_best(void **state)
{
    leat_device_info listed = LEAT_DEVICE_INFO_INIT, opened = LEAT_DEVICE_INFO_INIT;
    leat_device *device;

    (void)state;
    if (getenv("LEAT_DEVICE"))
        SKIP_OTHER("LEAT_DEVICE is set, which NULL takes");
    OK(leat_device_list(0, &listed));
    OK(leat_device_open(NULL, &device));
    OK(leat_device_get_info(device, &opened));
    assert_string_equal(opened.name, listed.name);
    OK(leat_device_close(device));
    OK(leat_device_close(NULL));
}

static void a_driver_alone_means_its_first_device(void **state)
{
    leat_device *by_driver, *by_name;

    (void)state;
    OK(leat_device_open("cpu", &by_driver));
    OK(leat_device_open("cpu:0", &by_name));
    assert_ptr_equal(by_driver, by_name);
    OK(leat_device_close(by_name));
    OK(leat_device_close(by_driver));
}

static void there_are_two_cpu_devices(void **state)
{
    leat_device *first, *second;
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    (void)state;
    if (getenv("LEAT_CPU_DEVICES"))
        SKIP_OTHER("LEAT_CPU_DEVICES is set");
    OK(leat_device_open("cpu:0", &first));
    OK(leat_device_open("cpu:1", &second));
    assert_ptr_not_equal(first, second);
    OK(leat_device_get_info(second, &info));
    assert_string_equal(info.name, "cpu:1");
    assert_int_equal(info.ordinal, 1);
    OK(leat_device_close(first));
    OK(leat_device_close(second));
}

static void bad_names_are_refused(void **state)
{
    static const char *const malformed[] = {"",
                                            ":",
                                            ":0",
                                            "cpu:",
                                            "cpu:x",
                                            "cpu:-1",
                                            "cpu:0x",
                                            "cpu:1 ",
                                            "cpu: 1",
                                            "cpu:99999999999999999999",
                                            "averylongdrivername:0"};
    leat_device *device = (leat_device *)(uintptr_t)1;

    (void)state;
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++)
        REFUSED(leat_device_open(malformed[i], &device), LEAT_ERROR_INVALID, malformed[i]);
    REFUSED(leat_device_open("cpu:99", &device), LEAT_ERROR_NO_DEVICE, "cpu:0");
    REFUSED(leat_device_open("tpu:0", &device), LEAT_ERROR_NO_DEVICE, "tpu:0");
    REFUSED(leat_device_open("cpu:0", NULL), LEAT_ERROR_INVALID, "device");
    /* Out pointers are written only on success. */
    assert_ptr_equal(device, (leat_device *)(uintptr_t)1);
}

static void closing_takes_everything_with_it(void **state)
{
    leat_device *device = test_open();
    leat_stream *stream;
    leat_event *event;
    leat_module *module;
    leat_kernel *kernel;
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    void *memory, *pinned, *own = test_buffer(10000);
    size_t bytes;
    int count;

    (void)state;
    OK(leat_stream_create(device, &stream));
    OK(leat_event_create(device, &event));
    OK(leat_alloc(stream, 1000, &memory));
    pinned = test_alloc(device, LEAT_KIND_PINNED, 1000);
    OK(leat_register(device, own, 10000));
    OK(leat_module_builtin(device, &module));
    OK(leat_kernel_get(module, "leat_fill_u8", &kernel));
    OK(leat_device_close(device));

    REFUSED(leat_stream_synchronize(stream), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_event_query(event), LEAT_ERROR_HANDLE, "event");
    REFUSED(leat_kernel_parameter_count(kernel, &count), LEAT_ERROR_HANDLE, "kernel");
    REFUSED(leat_kernel_parameter_bytes(kernel, 0, &bytes), LEAT_ERROR_HANDLE, "kernel");
    REFUSED(leat_kernel_get(module, "leat_fill_u8", &kernel), LEAT_ERROR_HANDLE, "module");
    REFUSED(leat_memory_free(pinned), LEAT_ERROR_POINTER, "leat_memory_free");
    REFUSED(leat_memory_free(memory), LEAT_ERROR_POINTER, "leat_memory_free");
    REFUSED(leat_unregister(own), LEAT_ERROR_POINTER, "leat_unregister");
    OK(leat_pointer_get_info(own, &info));
    assert_int_equal(info.kind, LEAT_KIND_PAGEABLE);
    memset(own, 1, 10000);
    free(own);
}

static void set_number(void *argument)
{
    test_sleep_us(20000);
    *(int *)argument = 42;
}

static void closing_waits_for_work(void **state)
{
    leat_device *device = test_open();
    leat_stream *stream;
    int number = 0;

    (void)state;
    OK(leat_stream_create(device, &stream));
    OK(leat_launch_host(stream, set_number, &number));
    OK(leat_device_close(device));
    assert_int_equal(number, 42);
}

/* Closing a device waits for its work before it frees the memory and unloads the modules that the work uses. */
static void closing_lets_work_keep_what_it_uses(void **state)
{
    leat_device *device = test_open();
    uint64_t rounds = 1 << 20, *memory;
    leat_module *module;
    leat_kernel *kernel;
    leat_stream *stream;
    int number = 0, other_number = 0;

    (void)state;
    OK(leat_stream_create(device, &stream));
    OK(leat_module_load_file(device, test_kernels_path(), &module));
    OK(leat_kernel_get(module, "user_spin", &kernel));
    OK(leat_alloc(stream, sizeof *memory, (void **)&memory));
    /* The host function is slow, so the kernel starts after leat_device_close() has been called. */
    OK(leat_launch_host(stream, set_number, &number));
    OK(leat_launch(stream, kernel, leat_dim(1, 1, 1), leat_dim(1, 1, 1), 0, (void *[]){&memory, &rounds}, 2));
    OK(leat_fill(stream, memory, 1, sizeof *memory));
    OK(leat_launch_host(stream, set_number, &other_number));
    OK(leat_device_close(device));
    assert_int_equal(number, 42);
    assert_int_equal(other_number, 42);
}

static void closing_waits_for_work_of_destroyed_streams(void **state)
{
    leat_device *device = test_open();
    leat_stream *stream;
    int number = 0;

    (void)state;
    OK(leat_stream_create(device, &stream));
    OK(leat_launch_host(stream, set_number, &number));
    OK(leat_stream_destroy(stream));
    OK(leat_device_close(device));
    assert_int_equal(number, 42);
}

static void a_device_can_be_opened_again(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        leat_device *device = test_open();
        leat_stream *stream;
        unsigned char out[100];
        void *memory;

        OK(leat_stream_create(device, &stream));
        OK(leat_alloc(stream, sizeof out, &memory));
        OK(leat_fill(stream, memory, (uint8_t)(i + 1), sizeof out));
        OK(leat_copy_sync(stream, out, memory, sizeof out));
        EXPECT_BYTES(out, sizeof out, (unsigned char)(i + 1));
        OK(leat_device_close(device));
    }
}

static void drivers_are_listed(void **state)
{
    leat_driver_info info = LEAT_DRIVER_INFO_INIT;
    unsigned index = 0;
    bool cpu = false;

    (void)state;
    while (leat_driver_list(index, &info) == LEAT_OK) {
        index++;
        if (!strcmp(info.name, "cpu")) {
            cpu = true;
            assert_int_equal(info.status, LEAT_OK);
            assert_string_equal(info.reason, "");
            assert_true(info.device_count > 0);
        } else if (info.status != LEAT_OK) {
            /* For an unavailable driver the list has a reason and no devices. */
            assert_true(strlen(info.reason) > 10);
            assert_int_equal(info.device_count, 0);
        }
    }
    assert_true(cpu || getenv("LEAT_DRIVERS"));
    REFUSED(leat_driver_list(index, &info), LEAT_ERROR_NO_DRIVER, "past the last");
    REFUSED(leat_driver_list(0, NULL), LEAT_ERROR_INVALID, "info");
}

static void options_are_listed(void **state)
{
    leat_option_info info = LEAT_OPTION_INFO_INIT;
    unsigned index = 0;
    bool device = false;

    (void)state;
    while (leat_option_list(index, &info) == LEAT_OK) {
        index++;
        assert_true(!strncmp(info.name, "LEAT_", 5));
        assert_non_null(info.default_value);
        assert_true(strlen(info.text) > 10);
        if (!strcmp(info.name, "LEAT_DEVICE")) {
            device = true;
            assert_true(getenv("LEAT_DEVICE") ? !strcmp(info.value, getenv("LEAT_DEVICE")) : info.value == NULL);
        }
    }
    assert_true(device);
    REFUSED(leat_option_list(index, &info), LEAT_ERROR_NOT_FOUND, "options");
    REFUSED(leat_option_list(0, NULL), LEAT_ERROR_INVALID, "info");
}

static void statuses_have_names_and_texts(void **state)
{
    (void)state;
    assert_string_equal(leat_status_name(LEAT_OK), "LEAT_OK");
    assert_string_equal(leat_status_name(LEAT_ERROR_SYSTEM), "LEAT_ERROR_SYSTEM");
    assert_string_equal(leat_status_name((leat_status)-1000), "LEAT_UNKNOWN");
    assert_string_equal(leat_status_text((leat_status)-1000), "unknown status");
    for (int i = LEAT_ERROR_SYSTEM; i <= LEAT_NOT_READY; i++)
        assert_true(strlen(leat_status_text((leat_status)i)) > 0 &&
                    strcmp(leat_status_text((leat_status)i), "unknown status"));
    assert_int_equal(LEAT_ERROR_SYSTEM, -18);
    assert_string_equal(leat_kind_name(LEAT_KIND_MANAGED), "managed");
    assert_string_equal(leat_kind_name((leat_kind)77), "unknown");
}

/* The makefile sets TEST_VERSION to the content of the file VERSION. */
static void header_library_and_file_have_one_version(void **state)
{
    int major, minor, patch;

    (void)state;
    assert_string_equal(LEAT_VERSION_STRING, TEST_VERSION);
    assert_string_equal(leat_version(), TEST_VERSION);
    assert_int_equal(sscanf(TEST_VERSION, "%d.%d.%d", &major, &minor, &patch), 3);
    assert_int_equal(LEAT_VERSION_MAJOR, major);
    assert_int_equal(LEAT_VERSION_MINOR, minor);
    assert_int_equal(LEAT_VERSION_PATCH, patch);
    assert_int_equal(LEAT_VERSION_NUMBER, major * 10000 + minor * 100 + patch);
    assert_int_equal(leat_version_number(), LEAT_VERSION_NUMBER);
    assert_true(LEAT_VERSION_MAKE(0, 9, 99) < LEAT_VERSION_MAKE(1, 0, 0));
#if LEAT_VERSION_NUMBER < LEAT_VERSION_MAKE(0, 1, 0)
#error "the preprocessor cannot compare versions"
#endif
}

static void success_keeps_the_last_error(void **state)
{
    leat_device *device = test_open();
    char kept[2048];

    (void)state;
    REFUSED(leat_device_open("cpu:99", &device), LEAT_ERROR_NO_DEVICE, "cpu:99");
    strncpy(kept, leat_last_error(), sizeof kept - 1);
    kept[sizeof kept - 1] = '\0';
    OK(leat_device_synchronize(device));
    OK(leat_device_close(device));
    assert_string_equal(leat_last_error(), kept);
}

/* ---- wrong settings, limits, child processes ---- */

static int exit_status_of(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Runs in the child of expect_refused(). Returns 0 if opening the best device fails with LEAT_ERROR_INVALID and a
 * message that names the setting. */
static int open_with(const char *setting)
{
    leat_device *device;
    leat_status status = leat_device_open(NULL, &device);

    if (status == LEAT_ERROR_INVALID && strstr(leat_last_error(), setting))
        return 0;
    fprintf(stderr, "with %s: %s, %s\n", setting, leat_status_name(status), leat_last_error());
    return 1;
}

static void expect_refused(const char *name, const char *value)
{
    char setting[100];
    pid_t child;

    snprintf(setting, sizeof setting, "%s is set to '%s'", name, value);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("LEAT_DRIVERS", "cpu", 1);
        unsetenv("LEAT_DEVICE");
        setenv(name, value, 1);
        execl("/proc/self/exe", "test_device", setting, (char *)NULL);
        _exit(126);
    }
    assert_int_equal(exit_status_of(child), 0);
}

/* The message must name the wrong setting and must not say that a device is missing. */
static void wrong_settings_are_refused_by_name(void **state)
{
    (void)state;
    expect_refused("LEAT_CPU_DEVICES", "17");
    expect_refused("LEAT_CPU_THREADS", "two");
    expect_refused("LEAT_CPU_MEMORY", "1 ");
    expect_refused("LEAT_COPY_WORKERS", "0");
    expect_refused("LEAT_COPY_RING", "1K");
    expect_refused("LEAT_POOL_HISTORY", "-1");
    expect_refused("LEAT_PREFETCH_CHUNK", "1");
    expect_refused("LEAT_COPY_PROTOCOL", "fast");
    expect_refused("LEAT_COPY_PROTOCOL", "or");
    expect_refused("LEAT_COPY_STORE_POLICY", "cache");
    expect_refused("LEAT_POOL_PACKING", "loose");
    expect_refused("LEAT_LAYOUT_KERNEL", "tiles");
    expect_refused("LEAT_DRIVERS", "tpu");
    expect_refused("LEAT_DRIVERS", "cpu, cuda");
}

/* Runs in a child that has the misspelt LEAT_DEVCE in its environment. Returns 0 if the list of options contains
 * this name and suggests LEAT_DEVICE, a device can still be opened, and the message of a failed open names
 * LEAT_DEVCE. */
static int look_for_unknown(void)
{
    leat_option_info info = LEAT_OPTION_INFO_INIT;
    leat_device *device;
    bool listed = false;

    for (unsigned i = 0; leat_option_list(i, &info) == LEAT_OK; i++) {
        bool meant = !strcmp(info.name, "LEAT_DEVCE");

        listed = listed || meant;
        if (meant != (info.problem != NULL) ||
            (meant && (strcmp(info.value, "cpu:1") != 0 || !strstr(info.problem, "did you mean LEAT_DEVICE?"))))
            return 1;
    }
    if (!listed || leat_device_open("cpu:0", &device) != LEAT_OK || leat_device_close(device) != LEAT_OK)
        return 2;
    return leat_device_open("cpu:99", &device) != LEAT_OK && strstr(leat_last_error(), "LEAT_DEVCE is set") ? 0 : 3;
}

static void unknown_variables_are_listed_with_the_nearest_name(void **state)
{
    pid_t child;

    (void)state;
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char *const words[] = {(char *)"test_device", (char *)"unknown", NULL};
        char *const environment[] = {(char *)"LEAT_DRIVERS=cpu", (char *)"LEAT_DEVCE=cpu:1", (char *)"LEAT_TEST_X=1",
                                     NULL};

        execve("/proc/self/exe", words, environment);
        _exit(126);
    }
    assert_int_equal(exit_status_of(child), 0);
}

static void a_limit_for_files_is_no_end_of_the_process(void **state)
{
    leat_device *device = test_open();
    struct rlimit usual, low;
    void *ptr;

    (void)state;
    if (test_on_cpu()) {
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
        low = usual;
        low.rlim_cur = 1 << 20;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
        REFUSED(leat_memory_alloc(device, LEAT_KIND_DEVICE, 64 << 20, &ptr), LEAT_ERROR_DEVICE_MEMORY,
                "ulimit -f");
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
    }
    OK(leat_memory_alloc(device, LEAT_KIND_DEVICE, 64 << 20, &ptr));
    OK(leat_device_close(device));
}

/* A child process has none of the parent's threads. So every call must fail there at once and not wait for such a
 * thread. */
static void a_forked_child_is_told_so(void **state)
{
    leat_device *device = test_open(), *again;
    leat_stream *stream;
    pid_t child;
    void *ptr;

    (void)state;
    OK(leat_stream_create(device, &stream));
    OK(leat_alloc(stream, 100, &ptr));
    OK(leat_fill(stream, ptr, 1, 100));
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        REFUSED(leat_stream_synchronize(stream), LEAT_ERROR_NOT_PERMITTED, "fork");
        REFUSED(leat_fill(stream, ptr, 2, 100), LEAT_ERROR_NOT_PERMITTED, "fork");
        REFUSED(leat_alloc(stream, 100, &ptr), LEAT_ERROR_NOT_PERMITTED, "fork");
        REFUSED(leat_device_open(test_device_name(), &again), LEAT_ERROR_NOT_PERMITTED, "fork");
        REFUSED(leat_device_close(device), LEAT_ERROR_NOT_PERMITTED, "fork");
        _exit(42);
    }
    assert_int_equal(exit_status_of(child), 42);
    OK(leat_stream_synchronize(stream));
    OK(leat_device_close(device));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(open_gives_the_same_handle_until_the_last_close),
    cmocka_unit_test(query_describes_the_device),
    cmocka_unit_test(list_has_the_device_and_ends),
    cmocka_unit_test(null_opens_the_best),
    cmocka_unit_test(a_driver_alone_means_its_first_device),
    cmocka_unit_test(there_are_two_cpu_devices),
    cmocka_unit_test(bad_names_are_refused),
    cmocka_unit_test(closing_takes_everything_with_it),
    cmocka_unit_test(closing_waits_for_work),
    cmocka_unit_test(closing_lets_work_keep_what_it_uses),
    cmocka_unit_test(closing_waits_for_work_of_destroyed_streams),
    cmocka_unit_test(a_device_can_be_opened_again),
    cmocka_unit_test(drivers_are_listed),
    cmocka_unit_test(options_are_listed),
    cmocka_unit_test(statuses_have_names_and_texts),
    cmocka_unit_test(header_library_and_file_have_one_version),
    cmocka_unit_test(success_keeps_the_last_error),
    cmocka_unit_test(unknown_variables_are_listed_with_the_nearest_name),
    cmocka_unit_test(wrong_settings_are_refused_by_name),
    cmocka_unit_test(a_limit_for_files_is_no_end_of_the_process),
    cmocka_unit_test(a_forked_child_is_told_so),
};

int main(int argc, char **argv)
{
    if (argc > 1)
        return strcmp(argv[1], "unknown") ? open_with(argv[1]) : look_for_unknown();
    if (!test_device_there())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
