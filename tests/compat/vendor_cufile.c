/*
 * vendor_cufile.c - the cuFile calls with memory and streams that the engine does not know, as those of NVIDIA's
 * own libraries on a GPU.
 *
 * This program has leat and libleat-cufile.a in it. Its driver "cuda" runs over libleat-cuda.so, which has a leat
 * of its own, and stands in for NVIDIA's library (docs/compatibility.md, CUDA driver). The program allocates
 * memory and makes streams with that library directly.
 */
#include <cuda.h>
#include <cufile.h>

#include "../support/temporary.h"
#include "compat.h"

#include <dlfcn.h>
#include <leat/leat.h>
#include <link.h>
#include <unistd.h>

#define BYTES ((size_t)3 << 20)
#define CUFILE_OK(call) expect_result((int)(call).err, 0, #call, __FILE__, __LINE__)

static void *library;

/* The function of the library under its exported name, with the type of its declaration. */
#define VENDOR(name) ((__typeof__(&name))find_function(#name))

static void *find_function(const char *name)
{
    void *function = dlsym(library, name);

    assert_non_null(function);
    return function;
}

static CUdeviceptr allocate(void)
{
    CUdeviceptr memory;

    OK(VENDOR(cuMemAlloc_v2)(&memory, BYTES));
    return memory;
}

static void expect_content(CUdeviceptr memory, size_t bytes, unsigned seed)
{
    unsigned char *out = malloc(bytes);

    assert_non_null(out);
    OK(VENDOR(cuMemcpyDtoH_v2)(out, memory, bytes));
    HAS_PATTERN(out, bytes, seed);
    free(out);
}

/* Returns a descriptor of a file with the pattern, and registers it. */
static int make_file(CUfileHandle_t *file)
{
    char path[TEMPORARY_PATH];
    CUfileDescr_t descr = {.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD, .handle = {.fd = temporary_file(path)}};
    unsigned char *data = malloc(BYTES);

    assert_true(descr.handle.fd >= 0);
    assert_non_null(data);
    assert_int_equal(unlink(path), 0);
    write_pattern(data, BYTES, 1);
    assert_int_equal(write(descr.handle.fd, data, BYTES), BYTES);
    free(data);
    CUFILE_OK(cuFileHandleRegister(file, &descr));
    return descr.handle.fd;
}

static void memory_is_read_into(void **state)
{
    CUfileHandle_t file;
    int fd = make_file(&file);
    CUdeviceptr memory = allocate();
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    leat_device_info device = LEAT_DEVICE_INFO_INIT;
    unsigned char byte;

    (void)state;
    CUFILE_OK(cuFileBufRegister((void *)(uintptr_t)memory, BYTES, 0));
    assert_int_equal(cuFileRead(file, (void *)(uintptr_t)memory, BYTES, 0, 0), BYTES);
    expect_content(memory, BYTES, 1);
    assert_int_equal(cuFileWrite(file, (void *)(uintptr_t)memory, 10, BYTES, 0), 10);
    assert_int_equal(pread(fd, &byte, 1, BYTES + 1), 1);
    assert_int_equal(byte, 7 + 1);
    OK(leat_pointer_get_info((void *)(uintptr_t)memory, &info));
    assert_non_null(info.device);
    OK(leat_device_get_info(info.device, &device));
    assert_string_equal(device.driver, "cuda");
    CUFILE_OK(cuFileBufDeregister((void *)(uintptr_t)memory));
    cuFileHandleDeregister(file);
    assert_int_equal(close(fd), 0);
    OK(VENDOR(cuMemFree_v2)(memory));
}

/* The operations wait for the stream's earlier work, which waits at a gate, and later work sees the bytes. */
static void the_order_of_streams_is_kept(void **state)
{
    CUfileHandle_t file;
    int fd = make_file(&file);
    CUdeviceptr memory = allocate(), copy = allocate();
    size_t size = BYTES, little = 1000;
    off_t start = 0, end = BYTES;
    ssize_t read = 0, written = 0;
    gate open = 0;
    CUstream stream;

    (void)state;
    OK(VENDOR(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    CUFILE_OK(cuFileStreamRegister(stream, 0));
    OK(VENDOR(cuLaunchHostFunc)(stream, wait_at_gate, &open));
    OK(VENDOR(cuMemsetD8Async)(memory, 0xee, BYTES, stream));
    CUFILE_OK(cuFileReadAsync(file, (void *)(uintptr_t)memory, &size, &start, &start, &read, stream));
    OK(VENDOR(cuMemcpyDtoDAsync_v2)(copy, memory, BYTES, stream));
    CUFILE_OK(cuFileWriteAsync(file, (void *)(uintptr_t)copy, &little, &end, &start, &written, stream));
    assert_int_equal(read, 0);
    assert_int_equal(written, 0);
    atomic_store(&open, 1);
    OK(VENDOR(cuStreamSynchronize)(stream));
    assert_int_equal(read, BYTES);
    assert_int_equal(written, 1000);
    assert_int_equal(lseek(fd, 0, SEEK_END), BYTES + 1000);
    expect_content(copy, BYTES, 1);
    CUFILE_OK(cuFileStreamDeregister(stream));
    OK(VENDOR(cuStreamDestroy_v2)(stream));
    cuFileHandleDeregister(file);
    assert_int_equal(close(fd), 0);
    OK(VENDOR(cuMemFree_v2)(memory));
    OK(VENDOR(cuMemFree_v2)(copy));
}

/* NULL is the library's default stream, in which earlier work is waited for; the call returns when all is done. */
static void the_default_stream_waits(void **state)
{
    CUfileHandle_t file;
    int fd = make_file(&file);
    CUdeviceptr memory = allocate();
    size_t size = BYTES;
    off_t start = 0;
    ssize_t read = 0;

    (void)state;
    OK(VENDOR(cuMemsetD8Async)(memory, 0xee, BYTES, NULL));
    CUFILE_OK(cuFileReadAsync(file, (void *)(uintptr_t)memory, &size, &start, &start, &read, NULL));
    assert_int_equal(read, BYTES);
    expect_content(memory, BYTES, 1);
    cuFileHandleDeregister(file);
    assert_int_equal(close(fd), 0);
    OK(VENDOR(cuMemFree_v2)(memory));
}

/* Opens the library and makes it that of leat's driver "cuda". */
static bool open_library(void)
{
    struct link_map *map;
    CUcontext context;

    library = dlopen("libleat-cuda.so", RTLD_NOW | RTLD_LOCAL);
    if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map)) {
        fprintf(stderr, "%s\n", dlerror());
        return false;
    }
    return !setenv("LEAT_CUDA_LIBRARY", map->l_name, 1) && !unsetenv("LEAT_DEVICE") &&
           VENDOR(cuInit)(0) == CUDA_SUCCESS && VENDOR(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS &&
           VENDOR(cuCtxSetCurrent)(context) == CUDA_SUCCESS;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_read_into),
        cmocka_unit_test(the_order_of_streams_is_kept),
        cmocka_unit_test(the_default_stream_waits),
    };

    if (!open_library())
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
