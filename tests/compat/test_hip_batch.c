/* test_hip_batch.c - tests HIP's calls that perform several operations at once, calls with a memory location, and
 * attributes of streams. */
#include <hip/hip_runtime.h>

#include "compat.h"

#define COUNT 4
#define BYTES ((size_t)4096)

static void copies_in_batches(void **state)
{
    hipMemcpyAttributes attribute = {.srcAccessOrder = hipMemcpySrcAccessOrderStream};
    size_t bytes[COUNT], index = 0, late = COUNT, failed = 7;
    unsigned char in[COUNT][BYTES], out[BYTES];
    void *from[COUNT], *to[COUNT];
    hipStream_t stream;

    (void)state;
    OK(hipStreamCreate(&stream));
    for (unsigned i = 0; i < COUNT; i++) {
        write_pattern(in[i], BYTES, i);
        from[i] = in[i];
        bytes[i] = BYTES - i;
        OK(hipMalloc(&to[i], BYTES));
        OK(hipMemset(to[i], 0xee, BYTES));
    }
    OK(hipMemcpyBatchAsync(to, from, bytes, COUNT, NULL, NULL, 0, &failed, stream));
    assert_true(failed == SIZE_MAX);
    OK(hipMemcpyBatchAsync(to, from, bytes, COUNT, &attribute, &index, 1, NULL, stream));
    OK(hipStreamSynchronize(stream));
    for (unsigned i = 0; i < COUNT; i++) {
        OK(hipMemcpy(out, to[i], BYTES, hipMemcpyDeviceToHost));
        HAS_PATTERN(out, BYTES - i, i);
        HAS_BYTES(out + BYTES - i, i, 0xee);
    }
    GIVES(hipErrorInvalidValue, hipMemcpyBatchAsync(NULL, from, bytes, COUNT, NULL, NULL, 0, NULL, stream));
    GIVES(hipErrorInvalidValue, hipMemcpyBatchAsync(to, NULL, bytes, COUNT, NULL, NULL, 0, NULL, stream));
    GIVES(hipErrorInvalidValue, hipMemcpyBatchAsync(to, from, NULL, COUNT, NULL, NULL, 0, NULL, stream));
    GIVES(hipErrorInvalidValue, hipMemcpyBatchAsync(to, from, bytes, 0, NULL, NULL, 0, NULL, stream));
    GIVES(hipErrorInvalidValue, hipMemcpyBatchAsync(to, from, bytes, COUNT, NULL, &index, 1, NULL, stream));
    GIVES(hipErrorInvalidValue, hipMemcpyBatchAsync(to, from, bytes, COUNT, &attribute, &late, 1, NULL, stream));
    bytes[2] = BYTES + 1;
    GIVES(hipErrorInvalidValue, hipMemcpyBatchAsync(to, from, bytes, COUNT, NULL, NULL, 0, &failed, stream));
    assert_true(failed == 2);
    for (unsigned i = 0; i < COUNT; i++)
        OK(hipFree(to[i]));
    OK(hipStreamDestroy(stream));
}

static void regions_in_batches(void **state)
{
    unsigned char in[16 * 8], out[16 * 8];
    hipChannelFormatDesc desc = {32, 0, 0, 0, hipChannelFormatKindUnsigned};
    hipMemcpy3DBatchOp op[2] = {{.srcAccessOrder = hipMemcpySrcAccessOrderStream}};
    hipArray_t array;
    size_t failed;

    (void)state;
    write_pattern(in, sizeof in, 3);
    OK(hipMallocArray(&array, &desc, 4, 8, hipArrayDefault));
    op[0].extent = make_hipExtent(4, 8, 1);
    op[0].src.type = hipMemcpyOperandTypePointer;
    op[0].src.op.ptr.ptr = in;
    op[0].dst.type = hipMemcpyOperandTypeArray;
    op[0].dst.op.array.array = array;
    op[1] = op[0];
    op[1].src = op[0].dst;
    op[1].dst = op[0].src;
    op[1].dst.op.ptr.ptr = out;
    op[1].dst.op.ptr.rowLength = 4; /* counts elements of the array */
    OK(hipMemcpy3DBatchAsync(2, op, &failed, 0, NULL));
    OK(hipStreamSynchronize(NULL));
    HAS_PATTERN(out, sizeof out, 3);
    op[1].dst.op.ptr.rowLength = 3;
    GIVES(hipErrorInvalidValue, hipMemcpy3DBatchAsync(2, op, &failed, 0, NULL));
    assert_true(failed == 1);
    op[0].dst.op.array.offset.x = SIZE_MAX / 4 + 1; /* 0 if the number of bytes wraps around */
    GIVES(hipErrorInvalidValue, hipMemcpy3DBatchAsync(1, op, &failed, 0, NULL));
    GIVES(hipErrorInvalidValue, hipMemcpy3DBatchAsync(0, op, &failed, 0, NULL));
    GIVES(hipErrorInvalidValue, hipMemcpy3DBatchAsync(1, op, &failed, 1, NULL));
    OK(hipFreeArray(array));
}

static void regions_between_devices(void **state)
{
    hipMemcpy3DPeerParms copy = {.srcDevice = 0, .dstDevice = 1};
    unsigned char in[64 * 4], out[64 * 4];
    void *first, *second;

    (void)state;
    write_pattern(in, sizeof in, 5);
    OK(hipMalloc(&first, sizeof in));
    OK(hipMemcpy(first, in, sizeof in, hipMemcpyHostToDevice));
    OK(hipSetDevice(1));
    OK(hipMalloc(&second, sizeof in));
    OK(hipSetDevice(0));
    copy.srcPtr = make_hipPitchedPtr(first, 64, 64, 4);
    copy.dstPtr = make_hipPitchedPtr(second, 64, 64, 4);
    copy.extent = make_hipExtent(64, 4, 1);
    OK(hipMemcpy3DPeer(&copy));
    OK(hipMemcpy(out, second, sizeof out, hipMemcpyDeviceToHost));
    HAS_PATTERN(out, sizeof out, 5);
    OK(hipMemset(second, 0, sizeof out));
    OK(hipMemcpy3DPeerAsync(&copy, NULL));
    OK(hipMemcpy(out, second, sizeof out, hipMemcpyDeviceToHost));
    HAS_PATTERN(out, sizeof out, 5);
    copy.dstDevice = 2;
    GIVES(hipErrorInvalidDevice, hipMemcpy3DPeer(&copy));
    GIVES(hipErrorInvalidValue, hipMemcpy3DPeer(NULL));
    OK(hipFree(first));
    OK(hipFree(second));
}

static void rows_of_wider_units(void **state)
{
    uint16_t out[8 * 16];
    char *device;

    (void)state;
    OK(hipMalloc((void **)&device, sizeof out));
    OK(hipMemset(device, 0, sizeof out));
    OK(hipMemsetD2D16(device, 32, 0x0102, 3, 8));
    OK(hipMemsetD2D32Async(device + 8, 32, 0x03040506, 2, 4, NULL));
    OK(hipMemsetD2D8(device + 16, 32, 7, 16, 8));
    OK(hipMemcpy(out, device, sizeof out, hipMemcpyDeviceToHost));
    for (int y = 0; y < 8; y++) {
        assert_int_equal(out[y * 16 + 2], 0x0102);
        assert_int_equal(out[y * 16 + 3], 0);
        assert_int_equal(out[y * 16 + 7], y < 4 ? 0x0304 : 0);
        assert_int_equal(out[y * 16 + 15], 0x0707);
    }
    GIVES(hipErrorInvalidValue, hipMemsetD2D32(device, 32, 1, 9, 1));
    GIVES(hipErrorInvalidValue, hipMemsetD2D16(NULL, 32, 1, 1, 1));
    OK(hipFree(device));
}

static void mem_ops_in_batches(void **state)
{
    hipStreamBatchMemOpParams op[3] = {{.operation = hipStreamMemOpWaitValue32}};
    hipStream_t stream, other;
    uint32_t *words;

    (void)state;
    OK(hipHostMalloc((void **)&words, 16, hipHostMallocDefault));
    memset(words, 0, 16);
    OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    OK(hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
    op[0].waitValue.address = words;
    op[0].waitValue.value = 3;
    op[0].waitValue.flags = hipStreamWaitValueGte;
    op[1].operation = hipStreamMemOpWriteValue64;
    op[1].writeValue.address = words + 2;
    op[1].writeValue.value64 = 0x100000002;
    op[2].operation = hipStreamMemOpFlushRemoteWrites;
    OK(hipStreamBatchMemOp(stream, 3, op, 0));
    GIVES(hipErrorNotReady, hipStreamQuery(stream));
    OK(hipStreamWriteValue32(other, words, 4, 0));
    OK(hipStreamSynchronize(stream));
    assert_int_equal(words[2], 2);
    assert_int_equal(words[3], 1);
    GIVES(hipErrorInvalidValue, hipStreamBatchMemOp(stream, 0, op, 0));
    GIVES(hipErrorInvalidValue, hipStreamBatchMemOp(stream, 1, NULL, 0));
    op[0].operation = (hipStreamBatchMemOpType)9;
    GIVES(hipErrorInvalidValue, hipStreamBatchMemOp(stream, 1, op, 0));
    OK(hipStreamDestroy(other));
    OK(hipStreamDestroy(stream));
    OK(hipHostFree(words));
}

static void streams_keep_their_attributes(void **state)
{
    hipStreamAttrValue set = {.syncPolicy = hipSyncPolicySpin}, get;
    hipStream_t stream, other, wrong = (hipStream_t)(uintptr_t)-1;
    unsigned long long id, second;

    (void)state;
    OK(hipStreamCreate(&stream));
    OK(hipStreamCreate(&other));
    OK(hipStreamGetAttribute(stream, hipStreamAttributeSynchronizationPolicy, &get));
    assert_int_equal(get.syncPolicy, hipSyncPolicyAuto);
    OK(hipStreamSetAttribute(stream, hipStreamAttributeSynchronizationPolicy, &set));
    OK(hipStreamCopyAttributes(other, stream));
    OK(hipStreamGetAttribute(other, hipStreamAttributeSynchronizationPolicy, &get));
    assert_int_equal(get.syncPolicy, hipSyncPolicySpin);
    set.syncPolicy = (hipSynchronizationPolicy)9;
    GIVES(hipErrorInvalidValue, hipStreamSetAttribute(stream, hipStreamAttributeSynchronizationPolicy, &set));
    GIVES(hipErrorInvalidValue, hipStreamSetAttribute(stream, hipStreamAttributeSynchronizationPolicy, NULL));
    GIVES(hipErrorInvalidValue, hipStreamGetAttribute(stream, (hipStreamAttrID)99, &get));
    GIVES(hipErrorInvalidHandle, hipStreamGetAttribute(wrong, hipStreamAttributeSynchronizationPolicy, &get));
    GIVES(hipErrorInvalidHandle, hipStreamCopyAttributes(stream, wrong));
    GIVES(hipErrorInvalidHandle, hipStreamCopyAttributes(wrong, stream));
    OK(hipStreamGetId(stream, &id));
    OK(hipStreamGetId(other, &second));
    assert_true(id != second);
    GIVES(hipErrorInvalidValue, hipStreamGetId(stream, NULL));
    OK(hipStreamDestroy(other));
    OK(hipStreamDestroy(stream));
}

static void places(void **state)
{
    hipMemLocation device = {hipMemLocationTypeDevice, 1}, host = {hipMemLocationTypeHost, 0};
    hipMemLocation wrong = {(hipMemLocationType)9, 0}, both[2] = {device, host};
    size_t bytes[2] = {BYTES, BYTES}, index[2] = {0, 1};
    hipMemPool_t pool, now;
    void *managed, *ranges[2];
    int place;

    (void)state;
    OK(hipMallocManaged(&managed, 2 * BYTES, hipMemAttachGlobal));
    OK(hipMemPrefetchAsync_v2(managed, BYTES, device, 0, NULL));
    OK(hipMemAdvise_v2(managed, BYTES, hipMemAdviseSetPreferredLocation, host));
    OK(hipMemRangeGetAttribute(&place, sizeof place, hipMemRangeAttributePreferredLocation, managed, BYTES));
    assert_int_equal(place, hipCpuDeviceId);
    ranges[0] = managed;
    ranges[1] = (char *)managed + BYTES;
    OK(hipMemPrefetchBatchAsync(ranges, bytes, 2, both, index, 2, 0, NULL));
    OK(hipMemRangeGetAttribute(&place, sizeof place, hipMemRangeAttributeLastPrefetchLocation, managed, BYTES));
    assert_int_equal(place, 1);
    index[1] = 2;
    GIVES(hipErrorInvalidValue, hipMemPrefetchBatchAsync(ranges, bytes, 2, both, index, 2, 0, NULL));
    GIVES(hipErrorInvalidValue, hipMemAdvise_v2(managed, BYTES, hipMemAdviseSetReadMostly, wrong));
    GIVES(hipErrorInvalidValue, hipMemAdvise_v2(managed, 0, hipMemAdviseSetReadMostly, host));
    device.id = 2;
    GIVES(hipErrorInvalidDevice, hipMemPrefetchAsync_v2(managed, BYTES, device, 0, NULL));
    GIVES(hipErrorInvalidValue, hipMemPrefetchAsync_v2(managed, BYTES, host, 1, NULL));
    GIVES(hipErrorInvalidValue, hipMemGetMemPool(&now, &device, hipMemAllocationTypePinned));
    device.id = -1; /* the number of the host where a call takes no location */
    GIVES(hipErrorInvalidDevice, hipMemPrefetchAsync_v2(managed, BYTES, device, 0, NULL));
    GIVES(hipErrorInvalidDevice, hipMemAdvise_v2(managed, BYTES, hipMemAdviseSetAccessedBy, device));
    device.id = 1;
    OK(hipMemGetDefaultMemPool(&pool, &device, hipMemAllocationTypePinned));
    OK(hipMemSetMemPool(&device, hipMemAllocationTypePinned, pool));
    OK(hipMemGetMemPool(&now, &device, hipMemAllocationTypePinned));
    assert_ptr_equal(now, pool);
    GIVES(hipErrorInvalidValue, hipMemGetMemPool(&now, &host, hipMemAllocationTypePinned));
    GIVES(hipErrorInvalidValue, hipMemGetMemPool(NULL, &device, hipMemAllocationTypePinned));
    GIVES(hipErrorInvalidValue, hipMemGetMemPool(&now, &device, hipMemAllocationTypeInvalid));
    OK(hipFree(managed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_in_batches),
        cmocka_unit_test(regions_in_batches),
        cmocka_unit_test(regions_between_devices),
        cmocka_unit_test(rows_of_wider_units),
        cmocka_unit_test(mem_ops_in_batches),
        cmocka_unit_test(streams_keep_their_attributes),
        cmocka_unit_test(places),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    for (int device = 0; device < 2; device++)
        if (hipSetDevice(device) != hipSuccess || hipDeviceReset() != hipSuccess)
            return 1;
    return failed;
}
