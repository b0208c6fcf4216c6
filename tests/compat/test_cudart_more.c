/* test_cudart_more.c - tests the CUDA runtime's batched copies, ranges of arrays, attributes of streams, and pools
 * by location. */
#include <cuda_runtime.h>

#include "compat.h"

#define BYTES ((size_t)1 << 16)

static cudaStream_t stream;

static void copies_in_a_batch(void **state)
{
    struct cudaMemcpyAttributes plain = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream}, wrong = {.flags = 0};
    unsigned char in[3][100], out[3][100], *device;
    void *to[3];
    const void *from[3];
    size_t sizes[3] = {100, 50, 7}, first = 0, second = 1;

    (void)state;
    OK(cudaMalloc((void **)&device, BYTES));
    for (int i = 0; i < 3; i++) {
        write_pattern(in[i], sizeof in[i], (unsigned)i);
        to[i] = device + i * 200;
        from[i] = in[i];
    }
    OK(cudaMemcpyBatchAsync(to, from, sizes, 3, &plain, &first, 1, stream));
    memset(in, 0, sizeof in); /* the call has already read its pageable sources */
    for (int i = 0; i < 3; i++) {
        from[i] = device + i * 200;
        to[i] = out[i];
    }
    OK(cudaMemcpyBatchAsync(to, from, sizes, 3, &plain, &first, 1, stream));
    OK(cudaStreamSynchronize(stream));
    for (unsigned i = 0; i < 3; i++)
        HAS_PATTERN(out[i], sizes[i], i);
    GIVES(cudaErrorInvalidValue, cudaMemcpyBatchAsync(to, from, sizes, 3, &plain, &first, 1, 0));
    GIVES(cudaErrorInvalidValue, cudaMemcpyBatchAsync(to, from, sizes, 0, &plain, &first, 1, stream));
    GIVES(cudaErrorInvalidValue, cudaMemcpyBatchAsync(NULL, from, sizes, 3, &plain, &first, 1, stream));
    GIVES(cudaErrorInvalidValue, cudaMemcpyBatchAsync(to, from, sizes, 3, &plain, &second, 1, stream));
    GIVES(cudaErrorInvalidValue, cudaMemcpyBatchAsync(to, from, sizes, 3, &plain, &first, 4, stream));
    GIVES(cudaErrorInvalidValue, cudaMemcpyBatchAsync(to, from, sizes, 3, &wrong, &first, 1, stream));
    OK(cudaFree(device));
}

static void regions_in_a_batch(void **state)
{
    struct cudaChannelFormatDesc two = {16, 0, 0, 0, cudaChannelFormatKindSigned};
    struct cudaMemcpy3DBatchOp ops[2];
    uint16_t in[6][20], out[6][20];
    cudaArray_t array;

    (void)state;
    write_pattern(in, sizeof in, 3);
    OK(cudaMallocArray(&array, &two, 20, 6, 0));
    memset(ops, 0, sizeof ops);
    for (int i = 0; i < 2; i++) {
        ops[i].extent = make_cudaExtent(20, 6, 1);
        ops[i].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    }
    ops[0].src.type = ops[1].dst.type = cudaMemcpyOperandTypePointer;
    ops[0].dst.type = ops[1].src.type = cudaMemcpyOperandTypeArray;
    ops[0].src.op.ptr.ptr = in;
    ops[1].dst.op.ptr.ptr = out;
    ops[0].dst.op.array.array = ops[1].src.op.array.array = array;
    OK(cudaMemcpy3DBatchAsync(2, ops, 0, stream));
    OK(cudaStreamSynchronize(stream));
    HAS_PATTERN(out, sizeof out, 3);
    GIVES(cudaErrorInvalidValue, cudaMemcpy3DBatchAsync(0, ops, 0, stream));
    GIVES(cudaErrorInvalidValue, cudaMemcpy3DBatchAsync(2, ops, 1, stream));
    GIVES(cudaErrorInvalidValue, cudaMemcpy3DBatchAsync(2, NULL, 0, stream));
    ops[0].dst.op.array.offset.x = SIZE_MAX / 2 + 1; /* 0 if the number of bytes wraps around */
    GIVES(cudaErrorInvalidValue, cudaMemcpy3DBatchAsync(1, ops, 0, stream));
    ops[0].dst.op.array.offset.x = 0;
    ops[0].extent.width = 21;
    GIVES(cudaErrorInvalidValue, cudaMemcpy3DBatchAsync(1, ops, 0, stream));
    OK(cudaFreeArray(array));
}

static void ranges_of_arrays(void **state)
{
    enum { W = 32, H = 5 };
    struct cudaChannelFormatDesc four = {32, 0, 0, 0, cudaChannelFormatKindFloat};
    unsigned char in[H * W * 4], out[H * W * 4];
    cudaArray_t a, b;

    (void)state;
    write_pattern(in, sizeof in, 4);
    OK(cudaMallocArray(&a, &four, W, H, 0));
    OK(cudaMallocArray(&b, &four, W / 2, H * 2, 0));
    /* Copy a part of a row, then whole rows, then a part of a row. */
    OK(cudaMemcpyToArray(a, 0, 0, in, 12, cudaMemcpyHostToDevice));
    OK(cudaMemcpyToArray(a, 12, 0, in + 12, sizeof in - 32, cudaMemcpyHostToDevice));
    OK(cudaMemcpyToArrayAsync(a, W * 4 - 20, H - 1, in + sizeof in - 20, 20, cudaMemcpyHostToDevice, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpyArrayToArray(b, 0, 0, a, 0, 0, sizeof in, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpyFromArray(out, b, 0, 0, 100, cudaMemcpyDeviceToHost));
    OK(cudaMemcpyFromArrayAsync(out + 100, b, 36, 1, sizeof out - 100, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    HAS_PATTERN(out, sizeof out, 4);
    GIVES(cudaErrorInvalidValue, cudaMemcpyToArray(a, 4, 0, in, sizeof in, cudaMemcpyHostToDevice));
    GIVES(cudaErrorInvalidValue, cudaMemcpyToArray(a, 0, H, in, 1, cudaMemcpyHostToDevice));
    GIVES(cudaErrorInvalidValue, cudaMemcpyFromArray(out, NULL, 0, 0, 1, cudaMemcpyDeviceToHost));
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpyArrayToArray(b, 0, 0, a, 0, 0, 1, cudaMemcpyHostToDevice));
    OK(cudaFreeArray(b));
    OK(cudaFreeArray(a));
}

static void what_arrays_are_not(void **state)
{
    struct cudaArrayMemoryRequirements requirements;
    struct cudaArraySparseProperties sparse;
    struct cudaChannelFormatDesc one = {8, 0, 0, 0, cudaChannelFormatKindUnsigned};
    cudaArray_t array, plane;

    (void)state;
    OK(cudaMallocArray(&array, &one, 8, 8, 0));
    GIVES(cudaErrorInvalidValue, cudaArrayGetPlane(&plane, array, 0));
    GIVES(cudaErrorInvalidValue, cudaArrayGetMemoryRequirements(&requirements, array, 0));
    GIVES(cudaErrorInvalidValue, cudaArrayGetSparseProperties(&sparse, array));
    OK(cudaFreeArray(array));
    GIVES(cudaErrorInvalidValue, cudaArrayGetInfo(&one, NULL, NULL, array));
    GIVES(cudaErrorInvalidValue, cudaGetChannelDesc(&one, array));
}

static void prefetches_in_a_batch(void **state)
{
    struct cudaMemLocation places[] = {{cudaMemLocationTypeDevice, 0}, {cudaMemLocationTypeHost, 0}};
    size_t sizes[3] = {BYTES, BYTES, BYTES}, indexes[] = {0, 2};
    void *ptrs[3];
    int where;

    (void)state;
    for (int i = 0; i < 3; i++) {
        OK(cudaMallocManaged(&ptrs[i], BYTES, cudaMemAttachGlobal));
        memset(ptrs[i], 1, BYTES);
    }
    OK(cudaMemPrefetchBatchAsync(ptrs, sizes, 3, places, indexes, 2, 0, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemRangeGetAttribute(&where, sizeof where, cudaMemRangeAttributeLastPrefetchLocation, ptrs[1], BYTES));
    assert_int_equal(where, 0);
    OK(cudaMemRangeGetAttribute(&where, sizeof where, cudaMemRangeAttributeLastPrefetchLocation, ptrs[2], BYTES));
    assert_int_equal(where, cudaCpuDeviceId);
    OK(cudaMemDiscardBatchAsync(ptrs, sizes, 3, 0, stream));
    OK(cudaMemDiscardAndPrefetchBatchAsync(ptrs, sizes, 3, places, indexes, 1, 0, stream));
    GIVES(cudaErrorInvalidValue, cudaMemPrefetchBatchAsync(ptrs, sizes, 3, places, indexes, 2, 1, stream));
    GIVES(cudaErrorInvalidValue, cudaMemPrefetchBatchAsync(ptrs, sizes, 2, places, indexes, 2, 0, stream));
    GIVES(cudaErrorInvalidValue, cudaMemDiscardBatchAsync(ptrs, sizes, 3, 0, 0));
    places[0].id = 99;
    GIVES(cudaErrorInvalidDevice, cudaMemPrefetchBatchAsync(ptrs, sizes, 3, places, indexes, 2, 0, stream));
    GIVES(cudaErrorInvalidValue, cudaStreamAttachMemAsync(0, ptrs[0], 0, cudaMemAttachSingle));
    OK(cudaStreamAttachMemAsync(stream, ptrs[0], 0, cudaMemAttachSingle));
    OK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 3; i++)
        OK(cudaFree(ptrs[i]));
}

static void streams_have_attributes(void **state)
{
    cudaStreamAttrValue value;
    cudaStream_t copy;

    (void)state;
    OK(cudaStreamGetAttribute(stream, cudaStreamAttributeSynchronizationPolicy, &value));
    assert_int_equal(value.syncPolicy, cudaSyncPolicyAuto);
    value.syncPolicy = cudaSyncPolicyYield;
    OK(cudaStreamSetAttribute(stream, cudaStreamAttributeSynchronizationPolicy, &value));
    OK(cudaStreamCreate(&copy));
    OK(cudaStreamCopyAttributes(copy, stream));
    OK(cudaStreamGetAttribute(copy, cudaStreamAttributeSynchronizationPolicy, &value));
    assert_int_equal(value.syncPolicy, cudaSyncPolicyYield);
    OK(cudaStreamGetAttribute(copy, cudaStreamAttributePriority, &value));
    assert_int_equal(value.priority, 0);
    value.syncPolicy = (enum cudaSynchronizationPolicy)9;
    GIVES(cudaErrorInvalidValue, cudaStreamSetAttribute(stream, cudaStreamAttributeSynchronizationPolicy, &value));
    GIVES(cudaErrorInvalidValue, cudaStreamGetAttribute(stream, (cudaStreamAttrID)77, &value));
    GIVES(cudaErrorInvalidValue, cudaStreamGetAttribute(stream, cudaStreamAttributePriority, NULL));
    OK(cudaStreamDestroy(copy));
    GIVES(cudaErrorInvalidResourceHandle, cudaStreamGetAttribute(copy, cudaStreamAttributePriority, &value));
}

static void pools_by_place(void **state)
{
    struct cudaMemLocation device = {cudaMemLocationTypeDevice, 1}, host = {cudaMemLocationTypeHost, 0},
                           none = {cudaMemLocationTypeNone, 0};
    cudaMemPool_t pool, same;

    (void)state;
    OK(cudaMemGetDefaultMemPool(&pool, &device, cudaMemAllocationTypePinned));
    OK(cudaDeviceGetDefaultMemPool(&same, 1));
    assert_ptr_equal(pool, same);
    OK(cudaMemSetMemPool(&device, cudaMemAllocationTypePinned, pool));
    OK(cudaMemGetMemPool(&same, &device, cudaMemAllocationTypePinned));
    assert_ptr_equal(pool, same);
    GIVES(cudaErrorNotSupported, cudaMemGetMemPool(&same, &host, cudaMemAllocationTypePinned));
    GIVES(cudaErrorInvalidValue, cudaMemGetMemPool(&same, &none, cudaMemAllocationTypePinned));
    GIVES(cudaErrorInvalidValue, cudaMemGetMemPool(NULL, &device, cudaMemAllocationTypePinned));
    GIVES(cudaErrorInvalidValue, cudaMemGetMemPool(&same, NULL, cudaMemAllocationTypePinned));
    GIVES(cudaErrorInvalidValue, cudaMemGetMemPool(&same, &device, cudaMemAllocationTypeInvalid));
    device.id = 99;
    GIVES(cudaErrorInvalidDevice, cudaMemGetMemPool(&same, &device, cudaMemAllocationTypePinned));
}

/* This program is not linked with libleat-cuda, so the runtime loads libleat-cuda from its own folder. */
static void functions_of_the_driver_are_found_by_name(void **state)
{
    enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointVersionNotSufficent;
    int (*get_count)(int *) = NULL, count = 0, expected = 0;
    void *function = NULL;

    (void)state;
    OK(cudaGetDriverEntryPoint("cuDeviceGetCount", &function, cudaEnableDefault, &result));
    assert_int_equal(result, cudaDriverEntryPointSuccess);
    assert_non_null(function);
    memcpy(&get_count, &function, sizeof get_count);
    assert_int_equal(get_count(&count), 0);
    OK(cudaGetDeviceCount(&expected));
    assert_int_equal(count, expected);
}

static int set_up(void **state)
{
    (void)state;
    return cudaStreamCreate(&stream) != cudaSuccess;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(copies_in_a_batch),     cmocka_unit_test(regions_in_a_batch),
    cmocka_unit_test(ranges_of_arrays),      cmocka_unit_test(what_arrays_are_not),
    cmocka_unit_test(prefetches_in_a_batch), cmocka_unit_test(streams_have_attributes),
    cmocka_unit_test(pools_by_place),        cmocka_unit_test(functions_of_the_driver_are_found_by_name),
};

int main(void)
{
    int wrong = cmocka_run_group_tests(tests, set_up, NULL);

    for (int i = 0; i < 2; i++)
        wrong += cudaSetDevice(i) || cudaDeviceReset();
    return wrong ? 1 : 0;
}
