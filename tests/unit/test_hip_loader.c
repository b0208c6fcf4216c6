/*
 * test_hip_loader.c - tests loading a HIP library that is missing, damaged, too old or finds no GPU.
 */
#include "harness.h"
#include "loaded.h"

#include <string.h>

const struct loaded_vendor loaded_vendor = {
    .driver = "hip",
    .drivers = "hip,cpu",
    .library = "libamdhip64.so.6",
    .library_variable = "LEAT_HIP_LIBRARY",
    .fake_variable = "FAKE_HIP",
    .advice = "install ROCm",
    .first_function = "hipRuntimeGetVersion",
    .partial_function = "hipGetDeviceCount",
    .version = "6.3",
};

static void test_too_old(void **state)
{
    struct loaded_found found = loaded_fake("version=40421401");

    (void)state;
    EXPECT_LEFT_OUT(found, LEAT_ERROR_DRIVER_TOO_OLD, "HIP 5.2 or newer", "found 4.4", "update");
    assert_string_equal(found.driver.version, "4.4");
}

static void test_no_device(void **state)
{
    static const char *const settings[] = {"init=100", "init=101", "devices=0"};

    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        EXPECT_LEFT_OUT(loaded_fake(settings[i]), LEAT_ERROR_NO_DEVICE, "no AMD GPU", "HIP_VISIBLE_DEVICES",
                        "/dev/kfd");
}

/* Loads AMD's own library, if it is installed. The machine may have no AMD GPU. */
static void test_real_library(void **state)
{
    struct loaded_found found = loaded_try("", "");

    (void)state;
    if (found.driver.status == LEAT_ERROR_NO_DRIVER && strstr(found.driver.reason, "not on this machine"))
        SKIP_OTHER("AMD's library is not on this machine");
    if (found.driver.status == LEAT_OK)
        assert_true(found.driver.device_count > 0);
    else
        EXPECT_LEFT_OUT(found, LEAT_ERROR_NO_DEVICE, "no AMD GPU", "rocminfo");
    assert_non_null(strstr(found.driver.library, "/libamdhip64.so"));
}

static void test_does_not_start(void **state)
{
    (void)state;
    EXPECT_LEFT_OUT(loaded_fake("init=35"), LEAT_ERROR_DRIVER_TOO_OLD, "hipErrorInsufficientDriver", "amdgpu");
    EXPECT_LEFT_OUT(loaded_fake("init=999"), LEAT_ERROR_NO_DRIVER, "does not start", "hipErrorUnknown",
                    "rocminfo");
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing),       cmocka_unit_test(test_empty),
        cmocka_unit_test(test_cut_off),       cmocka_unit_test(test_own_library),
        cmocka_unit_test(test_other_library), cmocka_unit_test(test_missing_functions),
        cmocka_unit_test(test_too_old),       cmocka_unit_test(test_no_device),
        cmocka_unit_test(test_real_library),  cmocka_unit_test(test_does_not_start),
        cmocka_unit_test(test_good),
    };

    loaded_begin(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
