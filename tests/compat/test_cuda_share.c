/* test_cuda_share.c - tests pools of the CUDA driver that are shared by file descriptor: descriptors that do not
 * belong to a pool, and pointers that belong to another pool. */
#include <cuda.h>

#include "compat.h"

#include <unistd.h>

#define BYTES 100000
#define FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static CUmemoryPool new_pool(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = FD,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool;

    OK(cuMemPoolCreate(&pool, &props));
    return pool;
}

static void pointers_belong_to_their_pool(void **state)
{
    CUmemoryPool pools[2] = {new_pool(), new_pool()}, imported[2];
    CUmemPoolPtrExportData data[2];
    CUdeviceptr blocks[2], there;
    unsigned char byte = 0;

    (void)state;
    for (int i = 0; i < 2; i++) {
        int fd;

        OK(cuMemPoolExportToShareableHandle(&fd, pools[i], FD, 0));
        OK(cuMemPoolImportFromShareableHandle(&imported[i], (void *)(intptr_t)fd, FD, 0));
        close(fd);
        OK(cuMemAllocFromPoolAsync(&blocks[i], BYTES, pools[i], NULL));
        OK(cuMemsetD8(blocks[i], (unsigned char)(10 + i), BYTES));
        OK(cuMemPoolExportPointer(&data[i], blocks[i]));
    }
    for (int i = 0; i < 2; i++) {
        GIVES(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&there, imported[!i], &data[i]));
        GIVES(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&there, imported[i], NULL));
        OK(cuMemPoolImportPointer(&there, imported[i], &data[i]));
        OK(cuMemcpyDtoH(&byte, there, 1));
        assert_int_equal(byte, 10 + i);
        OK(cuMemFreeAsync(there, NULL));
        OK(cuMemFreeAsync(blocks[i], NULL));
        OK(cuCtxSynchronize());
        GIVES(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&there, imported[i], &data[i]));
        OK(cuMemPoolDestroy(imported[i]));
        OK(cuMemPoolDestroy(pools[i]));
    }
}

static void descriptors_of_something_else_are_refused(void **state)
{
    void *wrong[] = {(void *)(intptr_t)-1, (void *)(intptr_t)12345, (void *)(uintptr_t)0x123456789000, wrong};
    CUmemGenericAllocationHandle memory;
    CUmemoryPool pool;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        GIVES(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportFromShareableHandle(&pool, wrong[i], FD, 0));
        GIVES(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(&memory, wrong[i], FD));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pointers_belong_to_their_pool),
        cmocka_unit_test(descriptors_of_something_else_are_refused),
    };
    CUcontext context;
    int wrong;

    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 1;
    wrong = cmocka_run_group_tests(tests, NULL, NULL);
    wrong += cuDevicePrimaryCtxRelease(0) != CUDA_SUCCESS;
    return wrong ? 1 : 0;
}
