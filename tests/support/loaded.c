/* loaded.c - see loaded.h. */
#include "loaded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char self[3072];   /* path of this program */
static char folder[3072]; /* folder of this program; the fakes are in its subfolder */

/* ---- the child ---- */

static int look(void)
{
    struct loaded_found found = {.opened = LEAT_ERROR_INVALID};
    leat_driver_info driver = LEAT_DRIVER_INFO_INIT;
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    leat_device *device;

    for (unsigned i = 0; leat_driver_list(i, &driver) == LEAT_OK; i++)
        if (!strcmp(driver.name, loaded_vendor.driver))
            found.driver = driver;
    found.opened = leat_device_open(NULL, &device);
    if (found.opened == LEAT_OK) {
        if (leat_device_get_info(device, &info) == LEAT_OK)
            memcpy(found.device, info.name, sizeof found.device);
        if (leat_device_close(device) != LEAT_OK)
            return 1;
    }
    return write(STDOUT_FILENO, &found, sizeof found) == (ssize_t)sizeof found ? 0 : 1;
}

/* ---- the parent ---- */

static void start_child(int out, const char *library, const char *setting, const char *search)
{
    unsetenv("LEAT_DEVICE");
    unsetenv("LEAT_DRIVERS");
    unsetenv("LEAT_FAULT");
    unsetenv("LEAT_STRICT");
    if (dup2(out, STDOUT_FILENO) < 0 ||
        (library ? setenv(loaded_vendor.library_variable, library, 1)
                 : unsetenv(loaded_vendor.library_variable)) ||
        setenv(loaded_vendor.fake_variable, setting, 1) != 0 ||
        (loaded_vendor.drivers && setenv("LEAT_DRIVERS", loaded_vendor.drivers, 1) != 0) ||
        (search && setenv("LD_LIBRARY_PATH", search, 1) != 0))
        _exit(99);
    execl(self, self, "look", (char *)NULL);
    _exit(98);
}

/* Tries a library in a child process. If library is a name without a folder, search is the folder for
 * LD_LIBRARY_PATH. library is NULL: leat looks for the usual names. */
static struct loaded_found try_in(const char *library, const char *setting, const char *search)
{
    struct loaded_found found;
    int ends[2], status;
    ssize_t got;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        start_child(ends[1], library, setting, search);
    close(ends[1]);
    got = read(ends[0], &found, sizeof found); /* a pipe delivers a single write of less than a page whole */
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the process that tried %s ended with wait status %#x", library ? library : "the usual names",
                 (unsigned)status);
    assert_int_equal(got, sizeof found);
    return found;
}

/* Returns the path of a fake library of this vendor. kind is empty for the one without errors. */
static const char *fake_path(const char *kind)
{
    static char path[4096];

    snprintf(path, sizeof path, "%s/fake/fake_%s%s.so", folder, loaded_vendor.driver, kind);
    return path;
}

struct loaded_found loaded_try(const char *library, const char *setting)
{
    return try_in(library, setting, NULL);
}

struct loaded_found loaded_fake(const char *setting)
{
    return loaded_try(fake_path(""), setting);
}

void loaded_left_out(struct loaded_found found, leat_status status, const char *const *words)
{
    if (found.driver.status != status)
        fail_msg("%s, not %s: %s", leat_status_name(found.driver.status), leat_status_name(status),
                 found.driver.reason);
    for (; *words; words++)
        if (!strstr(found.driver.reason, *words))
            fail_msg("the message lacks \"%s\": %s", *words, found.driver.reason);
    assert_int_equal(found.driver.device_count, 0);
    assert_int_equal(found.opened, LEAT_OK);
    assert_string_equal(found.device, "cpu:0");
}

void loaded_begin(int argc, char **argv)
{
    ssize_t length;

    if (argc == 2 && !strcmp(argv[1], "look"))
        exit(look());
    length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (length < 0)
        exit(1);
    strcpy(self, folder);
    *strrchr(folder, '/') = '\0';
}

/* ---- the tests ---- */

/* Creates a file with only the first bytes of the good fake library. Returns its path. */
static const char *cut_path(size_t bytes)
{
    static char path[4096];
    FILE *from, *to;
    int c;

    snprintf(path, sizeof path, "%s/fake_cut.so", folder);
    from = fopen(fake_path(""), "rb");
    to = fopen(path, "wb");
    assert_true(from && to);
    while (bytes-- > 0 && (c = getc(from)) != EOF)
        putc(c, to);
    fclose(from);
    assert_int_equal(fclose(to), 0);
    return path;
}

void test_missing(void **state)
{
    char path[64];
    struct loaded_found found;

    (void)state;
    snprintf(path, sizeof path, "/nowhere/%s", loaded_vendor.library);
    found = loaded_try(path, "");
    EXPECT_LEFT_OUT(found, LEAT_ERROR_NO_DRIVER, "not on this machine", path, loaded_vendor.library_variable);
    assert_string_equal(found.driver.library, "");
}

void test_empty(void **state)
{
    (void)state;
    EXPECT_LEFT_OUT(loaded_try(cut_path(0), ""), LEAT_ERROR_NO_DRIVER, "cannot be loaded", loaded_vendor.advice);
}

/* Cuts the library off at many lengths before the end of its last segment. leat must report each and never cause
 * SIGBUS. */
void test_cut_off(void **state)
{
    static const size_t lengths[] = {1, 16, 63, 64, 100, 600, 832, 1000, 4096, 5000, 9000, 12288};
    struct loaded_found found;

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        found = loaded_try(cut_path(lengths[i]), "");
        EXPECT_LEFT_OUT(found, LEAT_ERROR_NO_DRIVER, loaded_vendor.advice);
    }
    EXPECT_LEFT_OUT(found, LEAT_ERROR_NO_DRIVER, "cut off", "12288 bytes");
    found = try_in("fake_cut.so", "", folder);
    EXPECT_LEFT_OUT(found, LEAT_ERROR_NO_DRIVER, "cut off", "12288 bytes");
    unlink(cut_path(0));
}

/* leat's own compatibility library has the vendor's file name in a folder of LD_LIBRARY_PATH, and LEAT_..._LIBRARY
 * does not name it. The driver must not use it, because its devices are no GPUs. */
void test_own_library(void **state)
{
    char target[4096], link_path[4096], search[8192], made[] = "/tmp/leat-loader-XXXXXX";
    struct loaded_found found;

    (void)state;
    assert_non_null(mkdtemp(made));
    snprintf(target, sizeof target, "%s/../libleat-%s.so", folder, loaded_vendor.driver);
    snprintf(link_path, sizeof link_path, "%s/%s", made, loaded_vendor.library);
    snprintf(search, sizeof search, "%s:%s/..", made, folder);
    assert_int_equal(symlink(target, link_path), 0);
    found = try_in(NULL, "", search);
    EXPECT_LEFT_OUT(found, LEAT_ERROR_NO_DRIVER, loaded_vendor.library, "leat's own",
                    loaded_vendor.library_variable);
    found = try_in(link_path, "", search); /* tests of the API use the library in this way */
    assert_int_equal(found.driver.status, LEAT_OK);
    assert_int_equal(unlink(link_path), 0);
    assert_int_equal(rmdir(made), 0);
}

void test_other_library(void **state)
{
    (void)state;
    EXPECT_LEFT_OUT(loaded_try("libm.so.6", ""), LEAT_ERROR_NO_DRIVER, "libm.so.6", loaded_vendor.first_function,
                    loaded_vendor.library_variable);
}

void test_missing_functions(void **state)
{
    (void)state;
    EXPECT_LEFT_OUT(loaded_try(fake_path("_partial"), ""), LEAT_ERROR_NO_DRIVER, "functions are missing",
                    loaded_vendor.partial_function, loaded_vendor.advice);
}

void test_good(void **state)
{
    struct loaded_found found = loaded_fake("");
    char device[16];

    (void)state;
    assert_int_equal(found.driver.status, LEAT_OK);
    assert_string_equal(found.driver.reason, "");
    assert_string_equal(found.driver.version, loaded_vendor.version);
    assert_non_null(strstr(found.driver.library, fake_path("") + strlen(folder)));
    assert_int_equal(found.driver.device_count, 2);
    snprintf(device, sizeof device, "%s:0", loaded_vendor.driver);
    assert_string_equal(found.device, device);
}
