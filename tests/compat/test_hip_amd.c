/* test_hip_amd.c - tests behaviour of AMD's runtime on which programs rely, but which neither HIP's header nor
 * CUDA suggests. */
#include <hip/hip_runtime.h>

#include "compat.h"

#include <unistd.h>

/* ---- addresses ---- */

static void a_boolean_attribute_writes_one_byte(void **state)
{
    static const hipPointer_attribute booleans[] = {
        HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS, HIP_POINTER_ATTRIBUTE_IS_MANAGED, HIP_POINTER_ATTRIBUTE_MAPPED};
    unsigned char answer[4];
    void *device, *managed, *data[1] = {answer};

    (void)state;
    OK(hipMalloc(&device, 64));
    OK(hipMallocManaged(&managed, 64, hipMemAttachGlobal));
    for (unsigned i = 0; i < 3; i++) {
        hipPointer_attribute one[1] = {booleans[i]};

        memset(answer, 0xee, sizeof answer);
        OK(hipPointerGetAttribute(answer, booleans[i], device));
        assert_int_equal(answer[0], booleans[i] == HIP_POINTER_ATTRIBUTE_MAPPED);
        HAS_BYTES(answer + 1, 3, 0xee);
        OK(hipDrvPointerGetAttributes(1, one, data, managed));
        assert_int_equal(answer[0], booleans[i] != HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS);
        HAS_BYTES(answer + 1, 3, 0xee);
    }
    OK(hipFree(managed));
    OK(hipFree(device));
}

static void pinned_memory_is_freed_by_hipFree_too(void **state)
{
    hipPointerAttribute_t attributes;
    char plain[64];
    void *pinned;

    (void)state;
    OK(hipHostMalloc(&pinned, 4096, hipHostMallocDefault));
    OK(hipFree(pinned));
    OK(hipPointerGetAttributes(&attributes, pinned));
    assert_int_equal(attributes.type, hipMemoryTypeUnregistered);
    GIVES(hipErrorInvalidValue, hipFree(pinned));
    OK(hipHostRegister(plain, sizeof plain, hipHostRegisterDefault));
    GIVES(hipErrorInvalidValue, hipFree(plain));
    OK(hipHostUnregister(plain));
}

static void a_range_may_be_registered_again(void **state)
{
    char plain[128];
    unsigned flags;

    (void)state;
    OK(hipHostRegister(plain, sizeof plain, hipHostRegisterPortable));
    OK(hipHostRegister(plain, sizeof plain, hipHostRegisterMapped));
    OK(hipHostGetFlags(&flags, plain));
    assert_int_equal(flags, hipHostRegisterPortable);
    GIVES(hipErrorHostMemoryAlreadyRegistered, hipHostRegister(plain, 64, 0)); /* the registered size differs */
    GIVES(hipErrorInvalidValue, hipHostRegister(plain, sizeof plain, 0x1000));
    OK(hipHostUnregister(plain));
    GIVES(hipErrorHostMemoryNotRegistered, hipHostUnregister(plain)); /* the first hipHostUnregister() has ended
                                                                       * both registrations */
}

static void rows_are_aligned_to_256_bytes(void **state)
{
    hipPitchedPtr cube;
    void *device;
    size_t pitch;
    int value;

    (void)state;
    OK(hipMallocPitch(&device, &pitch, 1, 4));
    assert_int_equal(pitch, 256);
    OK(hipFree(device));
    OK(hipMemAllocPitch(&device, &pitch, 257, 4, 4));
    assert_int_equal(pitch, 512);
    OK(hipFree(device));
    OK(hipMalloc3D(&cube, make_hipExtent(600, 2, 2)));
    assert_int_equal(cube.pitch, 768);
    OK(hipFree(cube.ptr));
    OK(hipDeviceGetAttribute(&value, hipDeviceAttributeTexturePitchAlignment, 0));
    assert_int_equal(value, 256);
}

/* ---- arrays ---- */

static void one_row_is_copied_to_and_from_an_array_of_two_dimensions(void **state)
{
    hipChannelFormatDesc desc = hipCreateChannelDesc(32, 0, 0, 0, hipChannelFormatKindUnsigned);
    unsigned char in[64], out[128], rows[4 * 64], *device;
    hipArray_t array, cube;

    (void)state;
    write_pattern(in, sizeof in, 9);
    OK(hipMallocArray(&array, &desc, 16, 4, hipArrayDefault));
    OK(hipMalloc3DArray(&cube, &desc, make_hipExtent(16, 4, 2), hipArrayDefault));
    OK(hipMalloc((void **)&device, 64));
    memset(rows, 0x11, sizeof rows);
    OK(hipMemcpy2DToArray(array, 0, 0, rows, 64, 64, 4, hipMemcpyHostToDevice));
    OK(hipMemcpyHtoA(array, 0, in, 64));
    OK(hipMemcpyAtoH(out, array, 4, 60));
    assert_memory_equal(out, in + 4, 60);
    OK(hipMemcpyAtoD(device, array, 0, 64));
    OK(hipMemcpyDtoH(out, device, 64));
    HAS_PATTERN(out, 64, 9);
    OK(hipMemset(device, 0x22, 64));
    OK(hipMemcpyDtoA(array, 32, device, 32));
    OK(hipMemcpyHtoAAsync(array, 0, in, 16, NULL));
    OK(hipMemcpyAtoHAsync(out, array, 0, 64, NULL));
    OK(hipStreamSynchronize(NULL));
    HAS_PATTERN(out, 32, 9);
    HAS_BYTES(out + 32, 32, 0x22);
    OK(hipMemcpy2DFromArray(rows, 64, array, 0, 0, 64, 4, hipMemcpyDeviceToHost));
    HAS_BYTES(rows + 64, 3 * 64, 0x11);                           /* the other rows are unchanged */
    GIVES(hipErrorInvalidValue, hipMemcpyHtoA(array, 4, in, 64)); /* beyond the end of the row */
    GIVES(hipErrorInvalidValue, hipMemcpyAtoH(out, array, 0, 65));
    GIVES(hipErrorInvalidValue, hipMemcpyAtoH(out, array, 65, 0));
    GIVES(hipErrorInvalidValue, hipMemcpyHtoA(cube, 0, in, 64));
    OK(hipFree(device));
    OK(hipFreeArray(cube));
    OK(hipFreeArray(array));
}

static void a_copy_by_struct_refuses_an_array_that_is_NULL(void **state)
{
    char host[64];
    hip_Memcpy2D to = {.srcMemoryType = hipMemoryTypeHost,
                       .srcHost = host,
                       .dstMemoryType = hipMemoryTypeArray,
                       .WidthInBytes = 4,
                       .Height = 1};
    hip_Memcpy2D from = {.srcMemoryType = hipMemoryTypeArray,
                         .dstMemoryType = hipMemoryTypeHost,
                         .dstHost = host,
                         .WidthInBytes = 4,
                         .Height = 1};

    (void)state;
    GIVES(hipErrorInvalidValue, hipMemcpyParam2D(&to));
    GIVES(hipErrorInvalidValue, hipMemcpyParam2DAsync(&from, NULL));
    GIVES(hipErrorInvalidValue, hipDrvMemcpy2DUnaligned(&to));
    GIVES(hipErrorInvalidValue, hipDrvMemcpy2DUnaligned(&from));
    from.Height = 0;
    GIVES(hipErrorInvalidValue, hipMemcpyParam2D(&from));
}

/* ---- streams ---- */

static void priority_1_is_kept(void **state)
{
    int least, greatest, priority;
    hipStream_t stream;

    (void)state;
    OK(hipDeviceGetStreamPriorityRange(&least, &greatest));
    assert_int_equal(least, 1);
    for (int wanted = greatest - 1; wanted <= least + 1; wanted++) {
        OK(hipStreamCreateWithPriority(&stream, hipStreamDefault, wanted));
        OK(hipStreamGetPriority(stream, &priority));
        assert_int_equal(priority, wanted < greatest ? greatest : wanted > least ? least : wanted);
        OK(hipStreamDestroy(stream));
    }
}

static void a_query_of_an_idle_stream_does_not_see_the_default_stream(void **state)
{
    hipStream_t stream;
    gate open = 0;
    void *device;

    (void)state;
    OK(hipMalloc(&device, 64));
    OK(hipStreamCreate(&stream));
    OK(hipLaunchHostFunc(NULL, wait_at_gate, &open));
    OK(hipStreamQuery(stream));
    OK(hipStreamQuery_spt(stream));
    OK(hipStreamQuery(hipStreamPerThread));
    GIVES(hipErrorNotReady, hipStreamQuery(NULL));
    OK(hipMemsetAsync(device, 1, 64, stream)); /* the set comes after the default stream's work */
    GIVES(hipErrorNotReady, hipStreamQuery(stream));
    atomic_store(&open, 1);
    OK(hipStreamSynchronize(stream));
    OK(hipStreamQuery(stream));
    OK(hipStreamDestroy(stream));
    GIVES(hipErrorContextIsDestroyed, hipStreamQuery(stream));
    OK(hipFree(device));
}

static void a_stream_that_is_gone_is_an_invalid_handle_to_allocation_and_waits(void **state)
{
    hipStream_t gone, wild = (hipStream_t)(void *)&gone;
    hipEvent_t event;
    hipMemPool_t pool;
    void *ptr, *none = NULL;

    (void)state;
    OK(hipStreamCreate(&gone));
    OK(hipStreamDestroy(gone));
    OK(hipEventCreate(&event));
    OK(hipDeviceGetDefaultMemPool(&pool, 0));
    OK(hipMallocAsync(&ptr, 64, NULL));
    for (int i = 0; i < 2; i++) {
        hipStream_t stream = i ? wild : gone;

        GIVES(hipErrorInvalidHandle, hipMallocAsync(&none, 64, stream));
        GIVES(hipErrorInvalidHandle, hipMallocFromPoolAsync(&none, 64, pool, stream));
        GIVES(hipErrorInvalidHandle, hipFreeAsync(ptr, stream));
        GIVES(hipErrorInvalidHandle, hipStreamWaitEvent(stream, event, 0));
        GIVES(hipErrorInvalidHandle, hipStreamWaitEvent_spt(stream, event, 0));
    }
    assert_null(none);
    OK(hipFreeAsync(ptr, NULL));
    OK(hipEventDestroy(event));
}

static void memory_is_not_attached_singly_to_the_default_stream(void **state)
{
    hipStream_t stream;
    void *managed;

    (void)state;
    OK(hipMallocManaged(&managed, 4096, hipMemAttachGlobal));
    OK(hipStreamCreate(&stream));
    GIVES(hipErrorInvalidValue, hipStreamAttachMemAsync(NULL, managed, 0, hipMemAttachSingle));
    GIVES(hipErrorInvalidValue, hipStreamAttachMemAsync(hipStreamLegacy, managed, 0, hipMemAttachSingle));
    OK(hipStreamAttachMemAsync(stream, managed, 0, hipMemAttachSingle));
    OK(hipStreamAttachMemAsync(hipStreamPerThread, managed, 0, hipMemAttachSingle));
    OK(hipStreamAttachMemAsync(NULL, managed, 0, hipMemAttachGlobal));
    OK(hipStreamAttachMemAsync(NULL, managed, 4096, hipMemAttachHost));
    OK(hipStreamDestroy(stream));
    OK(hipFree(managed));
}

/* ---- virtual and managed memory ---- */

static void results_of_virtual_memory_are_those_of_HIP_6(void **state)
{
    hipMemAllocationProp of = {.type = hipMemAllocationTypePinned, .location = {hipMemLocationTypeDevice, 0}};
    hipMemGenericAllocationHandle_t memory = NULL;
    void *base = NULL;
    size_t unit;

    (void)state;
    OK(hipMemGetAllocationGranularity(&unit, &of, hipMemAllocationGranularityMinimum));
    GIVES(hipErrorOutOfMemory, hipMemAddressReserve(&base, 0, 0, NULL, 0));
    GIVES(hipErrorOutOfMemory, hipMemAddressReserve(&base, unit - 1, 0, NULL, 0));
    GIVES(hipErrorOutOfMemory, hipMemAddressReserve(&base, unit, 3, NULL, 0));
    assert_null(base);
    of.location.id = 99;
    GIVES(hipErrorInvalidValue, hipMemCreate(&memory, unit, &of, 0));
    of.location.id = -1;
    GIVES(hipErrorInvalidValue, hipMemCreate(&memory, unit, &of, 0));
    assert_null(memory);
}

static int coherency(const void *ptr, size_t bytes)
{
    int mode = -1, place = -1;
    void *data[] = {&place, &mode};
    size_t sizes[] = {sizeof place, sizeof mode};
    hipMemRangeAttribute both[] = {hipMemRangeAttributePreferredLocation, hipMemRangeAttributeCoherencyMode};
    int alone = -1;

    OK(hipMemRangeGetAttributes(data, sizes, both, 2, ptr, bytes));
    OK(hipMemRangeGetAttribute(&alone, sizeof alone, hipMemRangeAttributeCoherencyMode, ptr, bytes));
    assert_int_equal(alone, mode);
    return mode;
}

static void coarse_grain_advice_is_kept_and_reported(void **state)
{
    enum { PAGE = 4096, FINE = hipMemRangeCoherencyModeFineGrain, COARSE = hipMemRangeCoherencyModeCoarseGrain };
    char *memory, *again;

    (void)state;
    OK(hipMallocManaged((void **)&memory, 8 * PAGE, hipMemAttachGlobal));
    assert_int_equal(coherency(memory, 8 * PAGE), FINE);
    OK(hipMemAdvise(memory, 8 * PAGE, hipMemAdviseSetCoarseGrain, 0));
    assert_int_equal(coherency(memory, 8 * PAGE), COARSE);
    OK(hipMemAdvise(memory + 2 * PAGE, 2 * PAGE, hipMemAdviseUnsetCoarseGrain, 0)); /* splits the range */
    assert_int_equal(coherency(memory, 8 * PAGE), hipMemRangeCoherencyModeIndeterminate);
    assert_int_equal(coherency(memory, 2 * PAGE), COARSE);
    assert_int_equal(coherency(memory + 2 * PAGE, 2 * PAGE), FINE);
    assert_int_equal(coherency(memory + 4 * PAGE, 4 * PAGE), COARSE);
    OK(hipMemAdvise(memory + 2 * PAGE, 1, hipMemAdviseSetCoarseGrain, hipCpuDeviceId)); /* sets a whole page */
    assert_int_equal(coherency(memory, 3 * PAGE), COARSE);
    assert_int_equal(coherency(memory + 3 * PAGE, PAGE), FINE);
    OK(hipMemAdvise(memory + PAGE, 5 * PAGE, hipMemAdviseUnsetCoarseGrain, 0)); /* overlaps two ranges */
    assert_int_equal(coherency(memory, PAGE), COARSE);
    assert_int_equal(coherency(memory + PAGE, 5 * PAGE), FINE);
    assert_int_equal(coherency(memory + 6 * PAGE, 2 * PAGE), COARSE);
    OK(hipFree(memory));
    OK(hipMallocManaged((void **)&again, 8 * PAGE, hipMemAttachGlobal)); /* it usually has the same addresses */
    assert_int_equal(coherency(again, 8 * PAGE), FINE);
    OK(hipMemAdvise(again, PAGE, hipMemAdviseSetCoarseGrain, 0));
    assert_int_equal(coherency(again, PAGE), COARSE);
    assert_int_equal(coherency(again + PAGE, 7 * PAGE), FINE);
    OK(hipFree(again));
}

/* ---- pools ---- */

static void an_imported_pool_shows_the_exporters_access(void **state)
{
    hipMemPoolProps properties = {.allocType = hipMemAllocationTypePinned,
                                  .handleTypes = hipMemHandleTypePosixFileDescriptor,
                                  .location = {hipMemLocationTypeDevice, 0}};
    hipMemLocation own = {hipMemLocationTypeDevice, 0}, other = {hipMemLocationTypeDevice, 1};
    hipMemAccessDesc read = {other, hipMemAccessFlagsProtRead};
    hipMemPool_t pool, imported;
    hipMemAccessFlags flags;
    int fd;

    (void)state;
    OK(hipMemPoolCreate(&pool, &properties));
    for (int i = 0; i < 2; i++) {
        OK(hipMemPoolExportToShareableHandle(&fd, pool, hipMemHandleTypePosixFileDescriptor, 0));
        OK(hipMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)fd,
                                               hipMemHandleTypePosixFileDescriptor, 0));
        close(fd);
        OK(hipMemPoolGetAccess(&flags, imported, &own));
        assert_int_equal(flags, hipMemAccessFlagsProtReadWrite);
        OK(hipMemPoolGetAccess(&flags, imported, &other));
        assert_int_equal(flags, i ? hipMemAccessFlagsProtRead : hipMemAccessFlagsProtNone);
        OK(hipMemPoolDestroy(imported));
        OK(hipMemPoolSetAccess(pool, &read, 1));
    }
    OK(hipMemPoolDestroy(pool));
}

static hipMemPool_t make_pool(size_t max_bytes)
{
    hipMemPoolProps properties = {
        .allocType = hipMemAllocationTypePinned, .location = {hipMemLocationTypeDevice, 0}, .maxSize = max_bytes};
    uint64_t keep = UINT64_MAX;
    hipMemPool_t pool;

    OK(hipMemPoolCreate(&pool, &properties));
    OK(hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &keep));
    return pool;
}

static void a_small_pool_is_rounded_up(void **state)
{
    hipMemPool_t pool = make_pool(4096);
    void *ptr, *none;

    (void)state;
    OK(hipMallocFromPoolAsync(&ptr, 4096, pool, NULL));
    GIVES(hipErrorOutOfMemory, hipMallocFromPoolAsync(&none, 4 << 20, pool, NULL));
    OK(hipFreeAsync(ptr, NULL));
    OK(hipStreamSynchronize(NULL));
    OK(hipMemPoolDestroy(pool));
}

/* Each flag can stop the reuse of memory. test_cudart_pool.c tests what each flag allows. */
static void a_reuse_flag_that_is_off_stops_reuse(void **state)
{
    static const hipMemPoolAttr flags[] = {hipMemPoolReuseFollowEventDependencies,
                                           hipMemPoolReuseAllowOpportunistic,
                                           hipMemPoolReuseAllowInternalDependencies};
    const size_t bytes = (size_t)2 << 20;
    hipMemPool_t pool = make_pool(bytes);
    hipStream_t first, second;
    hipEvent_t event;
    void *ptr, *none = NULL;
    gate open = 0;

    (void)state;
    OK(hipStreamCreateWithFlags(&first, hipStreamNonBlocking));
    OK(hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
    OK(hipEventCreate(&event));
    OK(hipMallocFromPoolAsync(&ptr, bytes, pool, first));
    OK(hipLaunchHostFunc(first, wait_at_gate, &open));
    OK(hipFreeAsync(ptr, first));
    OK(hipEventRecord(event, first));
    OK(hipStreamWaitEvent(second, event, 0));
    for (int i = 0; i < 3; i++)
        OK(hipMemPoolSetAttribute(pool, flags[i], &(int){0}));
    GIVES(hipErrorOutOfMemory, hipMallocFromPoolAsync(&none, bytes, pool, second));
    OK(hipMemPoolSetAttribute(pool, flags[1], &(int){1})); /* does not help, because the work is not complete */
    GIVES(hipErrorOutOfMemory, hipMallocFromPoolAsync(&none, bytes, pool, second));
    OK(hipMemPoolSetAttribute(pool, flags[0], &(int){1})); /* allows the reuse, because the second stream waits for
                                                            * the work */
    OK(hipMallocFromPoolAsync(&ptr, bytes, pool, second));
    atomic_store(&open, 1);
    OK(hipFreeAsync(ptr, second));
    OK(hipStreamSynchronize(second));
    OK(hipEventDestroy(event));
    OK(hipStreamDestroy(first));
    OK(hipStreamDestroy(second));
    OK(hipMemPoolDestroy(pool));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_boolean_attribute_writes_one_byte),
        cmocka_unit_test(pinned_memory_is_freed_by_hipFree_too),
        cmocka_unit_test(a_range_may_be_registered_again),
        cmocka_unit_test(rows_are_aligned_to_256_bytes),
        cmocka_unit_test(one_row_is_copied_to_and_from_an_array_of_two_dimensions),
        cmocka_unit_test(a_copy_by_struct_refuses_an_array_that_is_NULL),
        cmocka_unit_test(priority_1_is_kept),
        cmocka_unit_test(a_query_of_an_idle_stream_does_not_see_the_default_stream),
        cmocka_unit_test(a_stream_that_is_gone_is_an_invalid_handle_to_allocation_and_waits),
        cmocka_unit_test(memory_is_not_attached_singly_to_the_default_stream),
        cmocka_unit_test(results_of_virtual_memory_are_those_of_HIP_6),
        cmocka_unit_test(coarse_grain_advice_is_kept_and_reported),
        cmocka_unit_test(an_imported_pool_shows_the_exporters_access),
        cmocka_unit_test(a_small_pool_is_rounded_up),
        cmocka_unit_test(a_reuse_flag_that_is_off_stops_reuse),
    };

    int wrong = cmocka_run_group_tests(tests, NULL, NULL);

    for (int i = 0; i < 2; i++) /* free everything, so that leak checkers find nothing */
        wrong += hipSetDevice(i) || hipDeviceReset();
    return wrong;
}
