/* test_hip_stream.c - tests HIP's streams, events, pools, virtual memory and launches: their order, which calls
 * wait, and refusals. */
#include <hip/hip_runtime.h>

#include "compat.h"

#include <leat/device_code.h>

#include <pthread.h>
#include <unistd.h>

#define BYTES 4096

/* ---- streams ---- */

static void the_null_stream_waits_for_blocking_ones(void **state)
{
    hipStream_t blocking, other;
    unsigned flags;
    int low, high, priority, device;
    gate open = 0;

    (void)state;
    OK(hipStreamCreate(&blocking));
    OK(hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
    OK(hipStreamGetFlags(other, &flags));
    assert_int_equal(flags, hipStreamNonBlocking);
    OK(hipLaunchHostFunc(blocking, wait_at_gate, &open));
    GIVES(hipErrorNotReady, hipStreamQuery(blocking));
    GIVES(hipErrorNotReady, hipStreamQuery(NULL));
    OK(hipStreamQuery(other));
    atomic_store(&open, 1);
    OK(hipStreamSynchronize(NULL));
    OK(hipStreamQuery(blocking));
    OK(hipDeviceGetStreamPriorityRange(&low, &high));
    assert_true(high < low);
    OK(hipStreamDestroy(blocking));
    OK(hipStreamCreateWithPriority(&blocking, hipStreamDefault, high - 5));
    OK(hipStreamGetPriority(blocking, &priority));
    assert_int_equal(priority, high);
    OK(hipStreamGetDevice(blocking, &device));
    assert_int_equal(device, 0);
    OK(hipStreamDestroy(blocking));
    OK(hipStreamDestroy(other));
}

static void refused_streams(void **state)
{
    hipStream_t stream;
    unsigned flags;
    int priority;

    (void)state;
    GIVES(hipErrorInvalidValue, hipStreamCreate(NULL));
    GIVES(hipErrorInvalidValue, hipStreamCreateWithFlags(&stream, 8));
    GIVES(hipErrorInvalidValue, hipStreamGetFlags(NULL, &flags));
    OK(hipStreamCreate(&stream));
    GIVES(hipErrorInvalidValue, hipStreamGetFlags(stream, NULL));
    GIVES(hipErrorInvalidValue, hipStreamGetPriority(stream, NULL));
    OK(hipStreamGetPriority(NULL, &priority));
    GIVES(hipErrorInvalidValue, hipStreamAddCallback(stream, NULL, NULL, 0));
    GIVES(hipErrorInvalidValue, hipLaunchHostFunc(stream, NULL, NULL));
    GIVES(hipErrorInvalidHandle, hipStreamWaitEvent(stream, NULL, 0));
    OK(hipStreamDestroy(stream));
    GIVES(hipErrorContextIsDestroyed, hipStreamDestroy(stream));
    GIVES(hipErrorContextIsDestroyed, hipStreamSynchronize(stream));
    GIVES(hipErrorContextIsDestroyed, hipStreamQuery(stream));
    GIVES(hipErrorInvalidHandle, hipStreamDestroy(NULL));
}

static void keep_call(hipStream_t stream, hipError_t status, void *argument)
{
    hipStream_t *seen = argument;

    *seen = status == hipSuccess ? stream : NULL;
}

static void callbacks_get_their_stream(void **state)
{
    hipStream_t stream, seen = NULL;

    (void)state;
    OK(hipStreamCreate(&stream));
    OK(hipStreamAddCallback(stream, keep_call, &seen, 0));
    GIVES(hipErrorInvalidValue, hipStreamAddCallback(stream, keep_call, &seen, 1));
    OK(hipStreamSynchronize(stream));
    assert_ptr_equal(seen, stream);
    OK(hipStreamDestroy(stream));
}

static void streams_wait_for_values(void **state)
{
    uint32_t *word;
    uint64_t *wide;
    hipStream_t stream;

    (void)state;
    OK(hipStreamCreate(&stream));
    OK(hipHostMalloc((void **)&word, 8, hipHostMallocDefault));
    wide = (uint64_t *)(void *)word;
    __atomic_store_n(wide, 0, __ATOMIC_SEQ_CST);
    OK(hipStreamWaitValue32(stream, word, 0x12, hipStreamWaitValueEq, 0xff));
    OK(hipStreamWriteValue32(stream, word + 1, 5, 0));
    GIVES(hipErrorNotReady, hipStreamQuery(stream));
    __atomic_store_n(word, 0xa12, __ATOMIC_SEQ_CST);
    OK(hipStreamSynchronize(stream));
    assert_int_equal(__atomic_load_n(word + 1, __ATOMIC_SEQ_CST), 5);
    OK(hipStreamWaitValue64(stream, wide, 0xb00, hipStreamWaitValueGte, 0xffff));
    GIVES(hipErrorNotReady, hipStreamQuery(stream));
    __atomic_store_n(wide, 0xb01, __ATOMIC_SEQ_CST);
    OK(hipStreamSynchronize(stream));
    OK(hipStreamWaitValue32(stream, word, 1, hipStreamWaitValueAnd, UINT32_MAX));
    OK(hipStreamWaitValue32(stream, word, UINT32_MAX - 1, hipStreamWaitValueNor, UINT32_MAX - 1));
    __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
    GIVES(hipErrorInvalidValue, hipStreamWaitValue32(stream, word, 1, 4, UINT32_MAX));
    GIVES(hipErrorInvalidValue, hipStreamWaitValue32(stream, NULL, 1, hipStreamWaitValueEq, UINT32_MAX));
    GIVES(hipErrorInvalidValue, hipStreamWriteValue64(stream, NULL, 1, 0));
    __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
    OK(hipStreamSynchronize(stream));
    OK(hipHostFree(word));
    OK(hipHostMalloc((void **)&word, 4, hipHostMallocDefault)); /* a block shorter than a wide word */
    GIVES(hipErrorInvalidValue, hipStreamWriteValue64(stream, word, 1, 0));
    GIVES(hipErrorInvalidValue, hipStreamWaitValue64(stream, word, 1, hipStreamWaitValueEq, UINT64_MAX));
    OK(hipStreamWriteValue32(stream, word, 1, 0));
    OK(hipStreamSynchronize(stream));
    OK(hipHostFree(word));
    OK(hipStreamDestroy(stream));
    GIVES(hipErrorContextIsDestroyed, hipStreamWriteValue32(stream, NULL, 1, 0));
}

/* ---- events ---- */

static void events(void **state)
{
    hipEvent_t start, stop, untimed;
    hipStream_t stream;
    gate open = 0;
    float ms;

    (void)state;
    OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    OK(hipEventCreate(&start));
    OK(hipEventCreateWithFlags(&stop, hipEventBlockingSync));
    OK(hipEventCreateWithFlags(&untimed, hipEventDisableTiming | hipEventReleaseToDevice));
    OK(hipEventQuery(start));
    OK(hipEventRecord(start, stream));
    GIVES(hipErrorInvalidHandle, hipEventElapsedTime(&ms, start, stop)); /* the events are not recorded yet */
    OK(hipLaunchHostFunc(stream, wait_at_gate, &open));
    OK(hipEventRecord(stop, stream));
    GIVES(hipErrorNotReady, hipEventQuery(stop));
    GIVES(hipErrorNotReady, hipEventElapsedTime(&ms, start, stop));
    atomic_store(&open, 1);
    OK(hipEventSynchronize(stop));
    OK(hipEventElapsedTime(&ms, start, stop));
    assert_true(ms >= 0);
    OK(hipEventRecord(untimed, stream));
    OK(hipEventSynchronize(untimed));
    GIVES(hipErrorInvalidHandle, hipEventElapsedTime(&ms, untimed, stop));
    GIVES(hipErrorInvalidValue, hipEventElapsedTime(NULL, start, stop));
    GIVES(hipErrorInvalidHandle, hipEventElapsedTime(&ms, NULL, stop));
    GIVES(hipErrorInvalidValue, hipEventCreate(NULL));
    GIVES(hipErrorInvalidValue, hipEventCreateWithFlags(&start, 0x10));
    GIVES(hipErrorInvalidValue,
          hipEventCreateWithFlags(&start, hipEventReleaseToDevice | hipEventReleaseToSystem));
    GIVES(hipErrorInvalidHandle, hipEventRecord(NULL, stream));
    GIVES(hipErrorInvalidHandle, hipEventQuery(NULL));
    GIVES(hipErrorInvalidHandle, hipEventSynchronize(NULL));
    GIVES(hipErrorInvalidHandle, hipEventDestroy(NULL));
    OK(hipEventDestroy(start));
    GIVES(hipErrorContextIsDestroyed, hipEventDestroy(start));
    GIVES(hipErrorContextIsDestroyed, hipEventQuery(start));
    OK(hipEventDestroy(stop));
    OK(hipEventDestroy(untimed));
    OK(hipStreamDestroy(stream));
}

/* ---- pools ---- */

static void pools(void **state)
{
    hipMemPoolProps properties = {.allocType = hipMemAllocationTypePinned,
                                  .location = {hipMemLocationTypeDevice, 0}};
    hipMemLocation where = {hipMemLocationTypeDevice, 1};
    hipMemAccessDesc access = {where, hipMemAccessFlagsProtReadWrite};
    hipMemAccessFlags flags;
    hipMemPool_t pool, usual;
    hipStream_t stream;
    uint64_t value;
    char *ptr, out[BYTES];

    (void)state;
    OK(hipStreamCreate(&stream));
    OK(hipMemPoolCreate(&pool, &properties));
    OK(hipMallocFromPoolAsync((void **)&ptr, BYTES, pool, stream));
    OK(hipMemsetAsync(ptr, 3, BYTES, stream));
    OK(hipMemcpyAsync(out, ptr, BYTES, hipMemcpyDeviceToHost, stream));
    OK(hipMemPoolGetAttribute(pool, hipMemPoolAttrUsedMemCurrent, &value));
    assert_int_equal(value, BYTES);
    OK(hipFreeAsync(ptr, stream));
    OK(hipStreamSynchronize(stream));
    HAS_BYTES(out, BYTES, 3);
    value = 1 << 20;
    OK(hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &value));
    value = 1;
    GIVES(hipErrorInvalidValue, hipMemPoolSetAttribute(pool, hipMemPoolAttrUsedMemHigh, &value));
    OK(hipMemPoolSetAccess(pool, &access, 1));
    OK(hipMemPoolGetAccess(&flags, pool, &where));
    assert_int_equal(flags, hipMemAccessFlagsProtReadWrite);
    OK(hipDeviceGetDefaultMemPool(&usual, 0));
    OK(hipDeviceSetMemPool(0, pool));
    OK(hipMallocAsync((void **)&ptr, BYTES, stream));
    OK(hipFree(ptr));
    OK(hipMemPoolDestroy(pool)); /* the default pool becomes the current one again */
    OK(hipDeviceGetMemPool(&pool, 0));
    assert_ptr_equal(pool, usual);
    OK(hipMemPoolTrimTo(usual, 0));
    GIVES(hipErrorInvalidValue, hipMemPoolDestroy(usual));
    GIVES(hipErrorInvalidValue, hipMemPoolDestroy(NULL));
    GIVES(hipErrorInvalidValue, hipMemPoolTrimTo(NULL, 0));
    GIVES(hipErrorInvalidValue, hipMemPoolCreate(NULL, &properties));
    GIVES(hipErrorInvalidValue, hipMallocAsync(NULL, 1, stream));
    GIVES(hipErrorInvalidValue, hipFreeAsync(NULL, stream));
    GIVES(hipErrorInvalidValue, hipMallocFromPoolAsync((void **)&ptr, 1, NULL, stream));
    GIVES(hipErrorOutOfMemory, hipMallocAsync((void **)&ptr, (size_t)1 << 50, stream));
    properties.location.id = 99;
    GIVES(hipErrorInvalidValue, hipMemPoolCreate(&pool, &properties));
    OK(hipStreamDestroy(stream));
}

/* ---- virtual memory ---- */

static void virtual_memory(void **state)
{
    hipMemAllocationProp properties = {.type = hipMemAllocationTypePinned,
                                       .requestedHandleType = hipMemHandleTypePosixFileDescriptor,
                                       .location = {hipMemLocationTypeDevice, 0}};
    hipMemAccessDesc access = {{hipMemLocationTypeDevice, 0}, hipMemAccessFlagsProtReadWrite};
    hipMemGenericAllocationHandle_t memory, again;
    unsigned long long flags;
    char *base, out[BYTES];
    size_t unit;
    int fd;

    (void)state;
    OK(hipMemGetAllocationGranularity(&unit, &properties, hipMemAllocationGranularityMinimum));
    OK(hipMemAddressReserve((void **)&base, 4 * unit, 0, NULL, 0));
    OK(hipMemCreate(&memory, unit, &properties, 0));
    OK(hipMemMap(base + unit, unit, 0, memory, 0));
    OK(hipMemSetAccess(base + unit, unit, &access, 1));
    OK(hipMemGetAccess(&flags, &access.location, base + unit));
    assert_int_equal(flags, hipMemAccessFlagsProtReadWrite);
    OK(hipMemset(base + unit, 0x44, unit));
    OK(hipMemcpy(out, base + 2 * unit - BYTES, BYTES, hipMemcpyDeviceToHost));
    HAS_BYTES(out, BYTES, 0x44);
    GIVES(hipErrorInvalidValue, hipMemcpy(out, base, BYTES, hipMemcpyDeviceToHost)); /* base is not mapped */
    OK(hipMemRetainAllocationHandle(&again, base + unit));
    OK(hipMemRelease(again));
    OK(hipMemExportToShareableHandle(&fd, memory, hipMemHandleTypePosixFileDescriptor, 0));
    OK(hipMemImportFromShareableHandle(&again, (void *)(intptr_t)fd, hipMemHandleTypePosixFileDescriptor));
    OK(hipMemMap(base, unit, 0, again, 0)); /* maps the same memory a second time */
    OK(hipMemSetAccess(base, unit, &access, 1));
    OK(hipMemset(base, 0x55, 16));
    OK(hipMemcpy(out, base + unit, 16, hipMemcpyDeviceToHost));
    HAS_BYTES(out, 16, 0x55);
    OK(hipMemUnmap(base, unit));
    OK(hipMemRelease(again));
    close(fd);
    GIVES(hipErrorInvalidValue, hipMemAddressFree(base, 4 * unit)); /* a part of the reservation is mapped */
    OK(hipMemRelease(memory));
    OK(hipMemUnmap(base + unit, unit));
    OK(hipMemAddressFree(base, 4 * unit));
    GIVES(hipErrorInvalidValue, hipMemCreate(&memory, unit - 1, &properties, 0));
    GIVES(hipErrorInvalidValue, hipMemCreate(NULL, unit, &properties, 0));
    GIVES(hipErrorInvalidValue, hipMemAddressReserve(NULL, unit, 0, NULL, 0));
    GIVES(hipErrorInvalidValue, hipMemAddressReserve((void **)&base, unit, 0, NULL, 1));
    GIVES(hipErrorInvalidValue, hipMemAddressFree(NULL, unit));
    GIVES(hipErrorInvalidValue, hipMemRelease(NULL));
    GIVES(hipErrorInvalidValue, hipMemUnmap(NULL, unit));
}

/* ---- memory in use, managed memory ---- */

/* Unmapping waits for work that uses the memory. */
static void unmapping_waits_for_work(void **state)
{
    hipMemAllocationProp of = {.type = hipMemAllocationTypePinned, .location = {hipMemLocationTypeDevice, 0}};
    hipMemAccessDesc access = {{hipMemLocationTypeDevice, 0}, hipMemAccessFlagsProtReadWrite};
    hipMemGenericAllocationHandle_t memory;
    hipStream_t stream;
    size_t unit;
    void *base;

    (void)state;
    OK(hipMemGetAllocationGranularity(&unit, &of, hipMemAllocationGranularityMinimum));
    OK(hipMemCreate(&memory, unit, &of, 0));
    OK(hipMemAddressReserve(&base, unit, 0, NULL, 0));
    OK(hipMemMap(base, unit, 0, memory, 0));
    access.flags = (hipMemAccessFlags)-1;
    GIVES(hipErrorInvalidValue, hipMemSetAccess(base, unit, &access, 1));
    access.flags = hipMemAccessFlagsProtReadWrite;
    OK(hipMemSetAccess(base, unit, &access, 1));
    OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    for (int i = 0; i < 20; i++)
        OK(hipMemsetAsync(base, i, unit, stream));
    OK(hipMemUnmap(base, unit));
    OK(hipStreamQuery(stream));
    OK(hipStreamDestroy(stream));
    OK(hipMemAddressFree(base, unit));
    OK(hipMemRelease(memory));
}

static void managed_memory(void **state)
{
    int where = 7, device = 0;
    char *ptr;

    (void)state;
    OK(hipMallocManaged((void **)&ptr, 8192, hipMemAttachGlobal));
    memset(ptr, 1, 8192);
    OK(hipMemAdvise(ptr, 8192, hipMemAdviseSetPreferredLocation, device));
    OK(hipMemPrefetchAsync(ptr, 8192, device, NULL));
    OK(hipDeviceSynchronize());
    OK(hipMemRangeGetAttribute(&where, sizeof where, hipMemRangeAttributeLastPrefetchLocation, ptr, 8192));
    assert_int_equal(where, device);
    OK(hipMemPrefetchAsync(ptr, 8192, hipCpuDeviceId, NULL));
    GIVES(hipErrorInvalidValue, hipMemPrefetchAsync(NULL, 8192, device, NULL));
    GIVES(hipErrorInvalidDevice, hipMemPrefetchAsync(ptr, 8192, 99, NULL));
    GIVES(hipErrorInvalidValue, hipMemAdvise(ptr, 8192, (hipMemoryAdvise)99, device));
    GIVES(hipErrorInvalidValue, hipMallocManaged((void **)&ptr, 0, hipMemAttachGlobal));
    GIVES(hipErrorInvalidValue, hipMallocManaged(NULL, 16, hipMemAttachGlobal));
    OK(hipFree(ptr));
}

/* ---- launches ---- */

LEAT_KERNEL(add, 3, unsigned *, data, uint64_t, count, unsigned, addend)
{
    LEAT_FOR (i, count)
        data[i] += addend;
}

static void launches(void **state)
{
    unsigned *data, out[100], addend = 5;
    const void *kernel = &leat_cpu_kernel_add;
    uint64_t count = 100;
    void *args[] = {&data, &count, &addend};
    dim3 grid = {4, 1, 1}, block = {32, 1, 1}, none = {0, 1, 1};
    hipModule_t module;

    (void)state;
    OK(hipMalloc((void **)&data, sizeof out));
    OK(hipMemset(data, 0, sizeof out));
    OK(hipLaunchKernel(kernel, grid, block, args, 0, NULL));
    OK(hipMemcpy(out, data, sizeof out, hipMemcpyDeviceToHost));
    assert_int_equal(out[99], 5);
    GIVES(hipErrorInvalidDeviceFunction, hipLaunchKernel(NULL, grid, block, args, 0, NULL));
    GIVES(hipErrorInvalidConfiguration, hipLaunchKernel(kernel, none, block, args, 0, NULL));
    GIVES(hipErrorFileNotFound, hipModuleLoad(&module, "/nowhere/at/all"));
    GIVES(hipErrorInvalidImage, hipModuleLoadData(&module, "no image at all, but long enough to be looked at"));
    GIVES(hipErrorInvalidValue, hipModuleLoadData(&module, NULL));
    OK(hipFree(data));
}

/* ---- sharing between processes, as far as one process can test it ---- */

static void sharing(void **state)
{
    hipIpcMemHandle_t handle;
    hipIpcEventHandle_t event_handle;
    hipEvent_t event;
    char plain[16];
    void *ptr, *there;

    (void)state;
    OK(hipMalloc(&ptr, BYTES));
    OK(hipIpcGetMemHandle(&handle, ptr));
    GIVES(hipErrorInvalidContext, hipIpcOpenMemHandle(&there, handle, hipIpcMemLazyEnablePeerAccess));
    GIVES(hipErrorInvalidValue, hipIpcOpenMemHandle(&there, handle, 0));
    GIVES(hipErrorInvalidValue, hipIpcOpenMemHandle(NULL, handle, hipIpcMemLazyEnablePeerAccess));
    GIVES(hipErrorInvalidValue, hipIpcGetMemHandle(NULL, ptr));
    GIVES(hipErrorInvalidValue, hipIpcGetMemHandle(&handle, NULL));
    GIVES(hipErrorInvalidValue, hipIpcGetMemHandle(&handle, plain));
    GIVES(hipErrorInvalidValue, hipIpcCloseMemHandle(ptr));
    OK(hipFree(ptr));
    OK(hipEventCreate(&event));
    GIVES(hipErrorInvalidConfiguration, hipIpcGetEventHandle(&event_handle, event));
    GIVES(hipErrorInvalidValue, hipIpcGetEventHandle(NULL, event));
    GIVES(hipErrorInvalidValue, hipIpcGetEventHandle(&event_handle, NULL));
    OK(hipEventDestroy(event));
    OK(hipEventCreateWithFlags(&event, hipEventInterprocess | hipEventDisableTiming));
    OK(hipIpcGetEventHandle(&event_handle, event));
    OK(hipEventDestroy(event));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_null_stream_waits_for_blocking_ones),
        cmocka_unit_test(refused_streams),
        cmocka_unit_test(callbacks_get_their_stream),
        cmocka_unit_test(streams_wait_for_values),
        cmocka_unit_test(events),
        cmocka_unit_test(pools),
        cmocka_unit_test(virtual_memory),
        cmocka_unit_test(unmapping_waits_for_work),
        cmocka_unit_test(managed_memory),
        cmocka_unit_test(launches),
        cmocka_unit_test(sharing),
    };

    int wrong = cmocka_run_group_tests(tests, NULL, NULL);

    for (int i = 0; i < 2; i++) /* free everything, so that leak checkers find nothing */
        wrong += hipSetDevice(i) || hipDeviceReset();
    return wrong;
}
