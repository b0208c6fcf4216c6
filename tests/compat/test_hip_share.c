/*
 * test_hip_share.c - tests how HIP programs pass file descriptors (by value, by value with other bits in the upper
 * half, or by address), which descriptors are refused, and pointers that belong to another pool. It also tests
 * copies of virtual memory whose parts belong to two devices.
 */
#include <hip/hip_runtime_api.h>

#include "compat.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES ((size_t)100000)
#define FD hipMemHandleTypePosixFileDescriptor

static hipMemPool_t new_pool(void)
{
    hipMemPoolProps props = {
        .allocType = hipMemAllocationTypePinned, .handleTypes = FD, .location = {hipMemLocationTypeDevice, 0}};
    hipMemPool_t pool;

    OK(hipMemPoolCreate(&pool, &props));
    return pool;
}

static void expect_pool(void *handle)
{
    hipMemPool_t imported = NULL;

    OK(hipMemPoolImportFromShareableHandle(&imported, handle, FD, 0));
    OK(hipMemPoolDestroy(imported));
}

static void refuse_pool(void *handle)
{
    hipMemPool_t imported = NULL;

    GIVES(hipErrorInvalidValue, hipMemPoolImportFromShareableHandle(&imported, handle, FD, 0));
    assert_null(imported);
}

/* AMD's own programs store the descriptor in a 64-bit variable. The export writes only the lower half of the
 * variable. */
static void descriptors_come_in_several_ways(void **state)
{
    hipMemPool_t pool = new_pool();
    uint64_t kept = 0xa5a5a5a500000000u;
    int fd, high, none = 12345, negative = -1;
    char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    OK(hipMemPoolExportToShareableHandle(&fd, pool, FD, 0));
    expect_pool((void *)(intptr_t)fd);
    expect_pool((void *)(uintptr_t)(kept | (unsigned)fd));
    expect_pool(&fd);
    /* If the limit on descriptors allows it, use a descriptor whose number is larger than the lowest address that
     * can be mapped. */
    high = fcntl(fd, F_DUPFD_CLOEXEC, 70000);
    if (high >= 0) {
        expect_pool((void *)(intptr_t)high);
        expect_pool(&high);
        close(high);
    }
    refuse_pool(NULL);
    refuse_pool((void *)(intptr_t)none);
    refuse_pool((void *)(intptr_t)-1);
    refuse_pool(&none);
    refuse_pool(&negative);
    refuse_pool((char *)&fd + 1);
    refuse_pool(page);
    refuse_pool((void *)(uintptr_t)0x123456789000);
    refuse_pool((void *)(uintptr_t)0xdeadbeefdeadbee0);
    close(fd);
    refuse_pool((void *)(intptr_t)fd);
    munmap(page, 4096);
    OK(hipMemPoolDestroy(pool));
    (void)hipGetLastError();
}

static void memory_comes_the_same_ways(void **state)
{
    hipMemAllocationProp properties = {
        .type = hipMemAllocationTypePinned, .requestedHandleType = FD, .location = {hipMemLocationTypeDevice, 0}};
    hipMemGenericAllocationHandle_t memory, again;
    size_t unit;
    int fd, none = 12345;

    (void)state;
    OK(hipMemGetAllocationGranularity(&unit, &properties, hipMemAllocationGranularityMinimum));
    OK(hipMemCreate(&memory, unit, &properties, 0));
    OK(hipMemExportToShareableHandle(&fd, memory, FD, 0));
    OK(hipMemImportFromShareableHandle(&again, (void *)(intptr_t)fd, FD));
    OK(hipMemRelease(again));
    OK(hipMemImportFromShareableHandle(&again, &fd, FD));
    OK(hipMemRelease(again));
    GIVES(hipErrorInvalidValue, hipMemImportFromShareableHandle(&again, &none, FD));
    GIVES(hipErrorInvalidValue, hipMemImportFromShareableHandle(&again, (void *)(uintptr_t)0x123456789000, FD));
    close(fd);
    OK(hipMemRelease(memory));
    (void)hipGetLastError();
}

static void pointers_belong_to_their_pool(void **state)
{
    hipMemPool_t pools[2] = {new_pool(), new_pool()}, imported[2];
    hipMemPoolPtrExportData data[2];
    void *blocks[2], *there;
    unsigned char byte = 0;

    (void)state;
    for (int i = 0; i < 2; i++) {
        int fd;

        OK(hipMemPoolExportToShareableHandle(&fd, pools[i], FD, 0));
        OK(hipMemPoolImportFromShareableHandle(&imported[i], (void *)(intptr_t)fd, FD, 0));
        close(fd);
        OK(hipMallocFromPoolAsync(&blocks[i], BYTES, pools[i], NULL));
        OK(hipMemset(blocks[i], 10 + i, BYTES));
        OK(hipMemPoolExportPointer(&data[i], blocks[i]));
    }
    for (int i = 0; i < 2; i++) {
        GIVES(hipErrorInvalidValue, hipMemPoolImportPointer(&there, imported[!i], &data[i]));
        OK(hipMemPoolImportPointer(&there, imported[i], &data[i]));
        OK(hipMemcpy(&byte, there, 1, hipMemcpyDeviceToHost));
        assert_int_equal(byte, 10 + i);
        OK(hipFreeAsync(there, NULL));
        OK(hipFreeAsync(blocks[i], NULL));
        OK(hipDeviceSynchronize());
        GIVES(hipErrorInvalidValue, hipMemPoolImportPointer(&there, imported[i], &data[i]));
        OK(hipMemPoolDestroy(imported[i]));
        OK(hipMemPoolDestroy(pools[i]));
    }
    (void)hipGetLastError();
}

/* A copy waits for the device that owns the copied part of the range, even if another device owns the other
 * part. */
static void parts_of_virtual_memory_have_their_own_device(void **state)
{
    hipMemGenericAllocationHandle_t parts[2];
    hipMemAccessDesc both[2] = {{{hipMemLocationTypeDevice, 0}, hipMemAccessFlagsProtReadWrite},
                                {{hipMemLocationTypeDevice, 1}, hipMemAccessFlagsProtReadWrite}};
    hipMemAllocationProp properties = {.type = hipMemAllocationTypePinned,
                                       .location = {hipMemLocationTypeDevice, 0}};
    hipStream_t stream;
    unsigned char *range, host[64] = {0};
    gate open = 0;
    size_t unit;

    (void)state;
    OK(hipMemGetAllocationGranularity(&unit, &properties, hipMemAllocationGranularityMinimum));
    OK(hipMemAddressReserve((void **)&range, 2 * unit, 0, NULL, 0));
    for (unsigned i = 0; i < 2; i++) { /* device 1 owns the first part, device 0 the second */
        properties.location.id = !i;
        OK(hipMemCreate(&parts[i], unit, &properties, 0));
        OK(hipMemMap(range + i * unit, unit, 0, parts[i], 0));
        OK(hipMemSetAccess(range + i * unit, unit, both, 2));
    }
    OK(hipSetDevice(1));
    OK(hipStreamCreate(&stream));
    OK(hipMemset(range, 1, sizeof host));
    OK(hipDeviceSynchronize());
    OK(hipLaunchHostFunc(stream, wait_at_gate, &open));
    OK(hipMemsetAsync(range, 2, sizeof host, stream));
    OK(hipSetDevice(0));
    /* This copy between two devices returns while the gate is closed, but runs after the set. */
    OK(hipMemcpy(range + unit, range, sizeof host, hipMemcpyDeviceToDevice));
    atomic_store(&open, 1);
    OK(hipMemcpy(host, range + unit, sizeof host, hipMemcpyDeviceToHost));
    HAS_BYTES(host, sizeof host, 2);
    OK(hipSetDevice(1));
    OK(hipStreamDestroy(stream));
    OK(hipSetDevice(0));
    OK(hipMemUnmap(range, 2 * unit));
    OK(hipMemAddressFree(range, 2 * unit));
    OK(hipMemRelease(parts[0]));
    OK(hipMemRelease(parts[1]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_come_in_several_ways),
        cmocka_unit_test(memory_comes_the_same_ways),
        cmocka_unit_test(pointers_belong_to_their_pool),
        cmocka_unit_test(parts_of_virtual_memory_have_their_own_device),
    };
    int wrong = cmocka_run_group_tests(tests, NULL, NULL);

    for (int i = 0; i < 2; i++)
        wrong += hipSetDevice(i) || hipDeviceReset();
    return wrong ? 1 : 0;
}
