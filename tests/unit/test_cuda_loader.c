/*
 * test_cuda_loader.c - tests loading a CUDA driver library that is missing, damaged, too old or finds no GPU.
 */
#include "loaded.h"

const struct loaded_vendor loaded_vendor = {
    .driver = "cuda",
    .library = "libcuda.so.1",
    .library_variable = "LEAT_CUDA_LIBRARY",
    .fake_variable = "FAKE_CUDA",
    .advice = "reinstall",
    .first_function = "cuDriverGetVersion",
    .partial_function = "cuDeviceGetCount",
    .version = "13.0",
};

static void test_too_old(void **state)
{
    struct loaded_found found = loaded_fake("version=10020");

    (void)state;
    EXPECT_LEFT_OUT(found, LEAT_ERROR_DRIVER_TOO_OLD, "CUDA 11.4 or newer", "found 10.2", "update");
    assert_string_equal(found.driver.version, "10.2");
}

static void test_no_device(void **state)
{
    (void)state;
    EXPECT_LEFT_OUT(loaded_fake("init=100"), LEAT_ERROR_NO_DEVICE, "no GPU", "CUDA_VISIBLE_DEVICES");
    EXPECT_LEFT_OUT(loaded_fake("devices=0"), LEAT_ERROR_NO_DEVICE, "no GPU", "CUDA_VISIBLE_DEVICES");
}

static void test_does_not_start(void **state)
{
    (void)state;
    EXPECT_LEFT_OUT(loaded_fake("init=34"), LEAT_ERROR_NO_DRIVER, "stub", "install the NVIDIA driver");
    EXPECT_LEFT_OUT(loaded_fake("init=803"), LEAT_ERROR_NO_DRIVER, "different versions",
                    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH");
    EXPECT_LEFT_OUT(loaded_fake("init=804"), LEAT_ERROR_DRIVER_TOO_OLD, "forward compatibility");
    EXPECT_LEFT_OUT(loaded_fake("init=802"), LEAT_ERROR_NO_DRIVER, "fabricmanager");
    EXPECT_LEFT_OUT(loaded_fake("init=999"), LEAT_ERROR_NO_DRIVER, "does not start", "CUDA_ERROR_UNKNOWN",
                    "nvidia-smi");
    EXPECT_LEFT_OUT(loaded_fake("init=777"), LEAT_ERROR_NO_DRIVER, "CUDA error 777");
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing),        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_cut_off),        cmocka_unit_test(test_own_library),
        cmocka_unit_test(test_other_library),  cmocka_unit_test(test_missing_functions),
        cmocka_unit_test(test_too_old),        cmocka_unit_test(test_no_device),
        cmocka_unit_test(test_does_not_start), cmocka_unit_test(test_good),
    };

    loaded_begin(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
