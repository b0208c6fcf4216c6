/*
 * test_hip_loader.c - what becomes of a HIP library that is missing, damaged, too old or without a GPU.
 *
 * Drivers are loaded once in a process, so each case runs in one of its own: this program again, with a library to
 * try in its environment, which writes what it found to its standard output. The libraries are made from
 * tests/fake/.
 */
#include <leat/leat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct found {
    leat_driver_info hip;
    leat_status opened;
    char device[16]; /* what leat_device_open(NULL) gave */
};

static char folder[3072]; /* where this program is, and the fakes in its subfolder */

/* ---- the child ---- */

static int look(void)
{
    struct found found = {.opened = LEAT_ERROR_INVALID};
    leat_driver_info driver;
    leat_device_info info;
    leat_device *device;

    for (unsigned i = 0; leat_driver_list(i, &driver) == LEAT_OK; i++)
        if (!strcmp(driver.name, "hip"))
            found.hip = driver;
    found.opened = leat_device_open(NULL, &device);
    if (found.opened == LEAT_OK) {
        if (leat_device_query(device, &info) == LEAT_OK)
            memcpy(found.device, info.name, sizeof found.device);
        if (leat_device_close(device) != LEAT_OK)
            return 1;
    }
    return write(STDOUT_FILENO, &found, sizeof found) == (ssize_t)sizeof found ? 0 : 1;
}

/* ---- the parent ---- */

static void start_child(int out, const char *library, const char *fake, const char *search)
{
    char self[4096];

    snprintf(self, sizeof self, "%s/test_hip_loader", folder);
    if (dup2(out, STDOUT_FILENO) < 0 || setenv("LEAT_HIP_LIBRARY", library, 1) != 0 ||
        setenv("FAKE_HIP", fake, 1) != 0 || setenv("LEAT_DRIVERS", "hip,cpu", 1) != 0 ||
        (search && setenv("LD_LIBRARY_PATH", search, 1) != 0))
        _exit(99);
    unsetenv("LEAT_DEVICE");
    unsetenv("LEAT_FAULT");
    unsetenv("LEAT_STRICT");
    execl(self, self, "look", (char *)NULL);
    _exit(98);
}

static struct found try_library(const char *library, const char *fake, const char *search)
{
    struct found found;
    int ends[2], status;
    ssize_t got;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        start_child(ends[1], library, fake, search);
    close(ends[1]);
    got = read(ends[0], &found, sizeof found); /* one write of less than a page arrives whole */
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the process that tried %s ended with wait status %#x", library, (unsigned)status);
    assert_int_equal(got, sizeof found);
    return found;
}

/* The driver is left out with this status and a sentence that has all of the words, and a CPU device opens
 * instead. */
static void expect(const struct found *found, leat_status status, const char *const *words)
{
    if (found->hip.status != status)
        fail_msg("%s, not %s: %s", leat_status_name(found->hip.status), leat_status_name(status),
                 found->hip.reason);
    for (; *words; words++)
        if (!strstr(found->hip.reason, *words))
            fail_msg("the sentence lacks \"%s\": %s", *words, found->hip.reason);
    assert_int_equal(found->hip.device_count, 0);
    assert_int_equal(found->opened, LEAT_OK);
    assert_string_equal(found->device, "cpu:0");
}

#define EXPECT(found, status, ...) expect(&(found), status, (const char *const[]){__VA_ARGS__, NULL})

static const char *fake_path(const char *name)
{
    static char path[4096];

    snprintf(path, sizeof path, "%s/fake/%s.so", folder, name);
    return path;
}

/* A file with the first bytes of the good fake. */
static const char *cut_path(size_t bytes)
{
    static char path[4096];
    FILE *from, *to;
    int c;

    snprintf(path, sizeof path, "%s/fake_cut.so", folder);
    from = fopen(fake_path("fake_hip"), "rb");
    to = fopen(path, "wb");
    assert_true(from && to);
    while (bytes-- > 0 && (c = getc(from)) != EOF)
        putc(c, to);
    fclose(from);
    assert_int_equal(fclose(to), 0);
    return path;
}

static void test_missing(void **state)
{
    struct found found = try_library("/nowhere/libamdhip64.so.6", "", NULL);

    (void)state;
    EXPECT(found, LEAT_ERROR_NO_DRIVER, "not on this machine", "/nowhere/libamdhip64.so.6", "LEAT_HIP_LIBRARY");
    assert_string_equal(found.hip.library, "");
}

static void test_empty(void **state)
{
    struct found found = try_library(cut_path(0), "", NULL);

    (void)state;
    EXPECT(found, LEAT_ERROR_NO_DRIVER, "cannot be loaded", "install ROCm");
}

/* Wherever the file ends before its last segment does: a sentence, and never SIGBUS. */
static void test_cut_off(void **state)
{
    static const size_t lengths[] = {1, 16, 63, 64, 100, 600, 832, 1000, 4096, 5000, 9000, 12288};
    struct found found;

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        found = try_library(cut_path(lengths[i]), "", NULL);
        EXPECT(found, LEAT_ERROR_NO_DRIVER, "install ROCm");
    }
    EXPECT(found, LEAT_ERROR_NO_DRIVER, "cut off", "12288 bytes");
    found = try_library("fake_cut.so", "", folder);
    EXPECT(found, LEAT_ERROR_NO_DRIVER, "cut off", "12288 bytes");
    unlink(cut_path(0));
}

static void test_other_library(void **state)
{
    struct found found = try_library("libm.so.6", "", NULL);

    (void)state;
    EXPECT(found, LEAT_ERROR_NO_DRIVER, "libm.so.6", "hipRuntimeGetVersion", "LEAT_HIP_LIBRARY");
}

static void test_missing_functions(void **state)
{
    struct found found = try_library(fake_path("fake_hip_partial"), "", NULL);

    (void)state;
    EXPECT(found, LEAT_ERROR_NO_DRIVER, "functions are missing", "hipGetDeviceCount", "install ROCm");
}

static void test_too_old(void **state)
{
    struct found found = try_library(fake_path("fake_hip"), "version=40421401", NULL);

    (void)state;
    EXPECT(found, LEAT_ERROR_DRIVER_TOO_OLD, "HIP 5.2 or newer", "found 4.4", "update");
    assert_string_equal(found.hip.version, "4.4");
}

static void test_no_device(void **state)
{
    static const char *const settings[] = {"init=100", "init=101", "devices=0"};

    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        struct found found = try_library(fake_path("fake_hip"), settings[i], NULL);

        EXPECT(found, LEAT_ERROR_NO_DEVICE, "no AMD GPU", "HIP_VISIBLE_DEVICES", "/dev/kfd");
    }
}

/* The vendor's own library, where it is installed, on a machine without such a GPU. */
static void test_real_library(void **state)
{
    struct found found = try_library("", "", NULL);

    (void)state;
    if (found.hip.status == LEAT_ERROR_NO_DRIVER && strstr(found.hip.reason, "not on this machine"))
        skip();
    if (found.hip.status == LEAT_OK)
        assert_true(found.hip.device_count > 0);
    else
        EXPECT(found, LEAT_ERROR_NO_DEVICE, "no AMD GPU", "rocminfo");
    assert_non_null(strstr(found.hip.library, "/libamdhip64.so"));
}

static void test_does_not_start(void **state)
{
    struct found found = try_library(fake_path("fake_hip"), "init=35", NULL);

    (void)state;
    EXPECT(found, LEAT_ERROR_DRIVER_TOO_OLD, "hipErrorInsufficientDriver", "amdgpu");
    found = try_library(fake_path("fake_hip"), "init=999", NULL);
    EXPECT(found, LEAT_ERROR_NO_DRIVER, "does not start", "hipErrorUnknown", "rocminfo");
}

static void test_good(void **state)
{
    struct found found = try_library(fake_path("fake_hip"), "", NULL);

    (void)state;
    assert_int_equal(found.hip.status, LEAT_OK);
    assert_string_equal(found.hip.reason, "");
    assert_string_equal(found.hip.version, "6.3");
    assert_non_null(strstr(found.hip.library, "/fake/fake_hip.so"));
    assert_int_equal(found.hip.device_count, 2);
    assert_string_equal(found.device, "hip:0");
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing),           cmocka_unit_test(test_empty),
        cmocka_unit_test(test_cut_off),           cmocka_unit_test(test_other_library),
        cmocka_unit_test(test_missing_functions), cmocka_unit_test(test_too_old),
        cmocka_unit_test(test_no_device),         cmocka_unit_test(test_real_library),
        cmocka_unit_test(test_does_not_start),    cmocka_unit_test(test_good),
    };
    ssize_t length;

    if (argc == 2 && !strcmp(argv[1], "look"))
        return look();
    length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (length < 0)
        return 1;
    *strrchr(folder, '/') = '\0';
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
