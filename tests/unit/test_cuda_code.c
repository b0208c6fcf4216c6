/*
 * test_cuda_code.c - tests which form of its kernels leat loads on CUDA devices: machine code where it has some,
 * and PTX if there is none for the GPU, the driver is too old, or the driver refuses the machine code; and that leat
 * loads them before it makes a stream wait for a program.
 *
 * Each case runs in its own process, because a process loads the fake CUDA library (tests/fake/fake_cuda.c) once.
 */
#include "run_self.h"

#include <leat/storage.h>

#include <dlfcn.h>
#include <string.h>

/* Sets the numbers of fatbins and of other images that leat has tried to load. */
static void count_images(unsigned *fatbins, unsigned *texts)
{
    void (*images)(unsigned *, unsigned *);
    void *library = dlopen(getenv("LEAT_CUDA_LIBRARY"), RTLD_NOW | RTLD_NOLOAD), *function;

    assert_non_null(library);
    function = dlsym(library, "fake_cuda_images");
    assert_non_null(function);
    memcpy(&images, &function, sizeof images);
    images(fatbins, texts);
    dlclose(library);
}

static void expect_code(leat_device *device, const char *expected)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    OK(leat_device_get_info(device, &info));
    assert_string_equal(info.kernel_code, expected);
}

/* Loads two built-in modules on the first device. before and after: kernel_code before and after it. fatbins and
 * texts: how many images leat must try to load. */
static void load_modules(const char *before, const char *after, unsigned expected_fatbins, unsigned expected_texts)
{
    unsigned fatbins, texts;
    leat_device *device, *other;
    leat_module *module;
    leat_kernel *kernel;

    OK(leat_device_open("cuda:0", &device));
    OK(leat_device_open("cuda:1", &other));
    expect_code(device, before);
    REFUSED(leat_module_load(device, "?", 0, &module), LEAT_ERROR_INVALID, "0 bytes");
    OK(leat_module_builtin(device, &module));
    OK(leat_kernel_get(module, "leat_fill_u64", &kernel));
    OK(leat_module_layout(device, &module));
    OK(leat_kernel_get(module, "leat_layout_elements", &kernel));

    /* A refusal is no error: the message of the last one stays. */
    assert_non_null(strstr(leat_last_error(), "0 bytes"));
    expect_code(device, after);
    expect_code(other, before);
    count_images(&fatbins, &texts);
    assert_int_equal(fatbins > 1 ? 2 : fatbins, expected_fatbins);
    assert_int_equal(texts > 1 ? 2 : texts, expected_texts);
    OK(leat_device_close(other));
    OK(leat_device_close(device));
}

/* Runs load_modules() in a child with this setting of the fake library. fatbins, texts: "0", "1" or "2" (several).
 */
#define EXPECT_CODE(setting, before, after, images)                                                               \
    assert_int_equal(run_self("FAKE_CUDA", setting, (const char *const[]){before, after, images}, 3), CONTENT)

static void machine_code_is_loaded(void **state)
{
    (void)state;
    EXPECT_CODE("compute=75", "sm_75", "sm_75", "20");
    EXPECT_CODE("compute=80", "sm_80", "sm_80", "20");
    EXPECT_CODE("compute=90", "sm_90", "sm_90", "20");
    EXPECT_CODE("compute=100", "sm_100", "sm_100", "20");
    EXPECT_CODE("compute=120", "sm_120", "sm_120", "20");
}

static void minor_versions_share_machine_code(void **state)
{
    (void)state;
    EXPECT_CODE("compute=86", "sm_80", "sm_80", "20");
    EXPECT_CODE("compute=89", "sm_80", "sm_80", "20");
    EXPECT_CODE("compute=91", "sm_90", "sm_90", "20");
    EXPECT_CODE("compute=103", "sm_100", "sm_100", "20");
    EXPECT_CODE("compute=121", "sm_120", "sm_120", "20");
}

static void other_gpus_get_ptx(void **state)
{
    (void)state;
    EXPECT_CODE("compute=72", "PTX", "PTX", "02");
    EXPECT_CODE("compute=110", "PTX", "PTX", "02");
    EXPECT_CODE("compute=130", "PTX", "PTX", "02");
}

static void old_drivers_get_ptx(void **state)
{
    (void)state;
    EXPECT_CODE("version=12030", "PTX", "PTX", "02");
    EXPECT_CODE("version=11040", "PTX", "PTX", "02");
    EXPECT_CODE("version=12040", "sm_90", "sm_90", "20");
}

/* leat must try the machine code once, and then load only PTX on this device. */
static void refused_machine_code_is_not_tried_again(void **state)
{
    (void)state;
    EXPECT_CODE("code=209", "sm_90", "PTX", "12"); /* CUDA_ERROR_NO_BINARY_FOR_GPU */
    EXPECT_CODE("code=200", "sm_90", "PTX", "12"); /* CUDA_ERROR_INVALID_IMAGE */
    EXPECT_CODE("code=222", "sm_90", "PTX", "12"); /* CUDA_ERROR_UNSUPPORTED_PTX_VERSION */
}

static size_t never(void *object, uint64_t offset, void *memory, size_t bytes, leat_status *status)
{
    (void)object, (void)offset, (void)memory, (void)bytes;
    *status = LEAT_NOT_READY;
    return 0;
}

/* CUDA lets a load of kernels wait for all streams. So a copy of a program's storage, for which a stream may wait
 * for ever, must load leat's kernels first. The copy itself fails here: streams of the fake library cannot wait. */
static void load_before_a_stream_waits(void)
{
    leat_storage_ops ops = LEAT_STORAGE_OPS_INIT;
    unsigned before, loaded, after, texts;
    leat_device *device;
    leat_stream *stream;
    leat_module *module;
    void *memory;

    ops.move = never;
    OK(leat_device_open("cuda:0", &device));
    OK(leat_stream_create(device, &stream));
    OK(leat_memory_alloc(device, LEAT_KIND_DEVICE, 4096, &memory));
    count_images(&before, &texts);
    assert_int_equal(before, 0);
    assert_int_not_equal(leat_storage_read_start(stream, memory, &ops, NULL, 4096, NULL, NULL), LEAT_OK);
    count_images(&loaded, &texts);
    assert_true(loaded > 1);
    OK(leat_module_builtin(device, &module));
    OK(leat_module_layout(device, &module));
    count_images(&after, &texts);
    assert_int_equal(after, loaded); /* nothing was missing */
    OK(leat_memory_free(memory));
    OK(leat_stream_destroy(stream));
    OK(leat_device_close(device));
}

static void kernels_are_loaded_before_a_stream_waits(void **state)
{
    (void)state;
    assert_int_equal(run_self("FAKE_CUDA", "compute=90", (const char *const[]){"waits"}, 1), CONTENT);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(machine_code_is_loaded),
        cmocka_unit_test(minor_versions_share_machine_code),
        cmocka_unit_test(other_gpus_get_ptx),
        cmocka_unit_test(old_drivers_get_ptx),
        cmocka_unit_test(refused_machine_code_is_not_tried_again),
        cmocka_unit_test(kernels_are_loaded_before_a_stream_waits),
    };

    if (argc == 4) {
        load_modules(argv[1], argv[2], (unsigned)(argv[3][0] - '0'), (unsigned)(argv[3][1] - '0'));
        return CONTENT;
    }
    if (argc == 2) {
        load_before_a_stream_waits();
        return CONTENT;
    }
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return 1;
    snprintf(folder, sizeof folder, "%.*s/fake/fake_cuda.so", (int)(strrchr(self, '/') - self), self);
    setenv("LEAT_CUDA_LIBRARY", folder, 1);
    unsetenv("LEAT_DRIVERS");
    unsetenv("LEAT_FAULT");
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
