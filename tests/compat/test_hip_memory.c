/* test_hip_memory.c - tests HIP's memory: allocations, copies, fills, and refusals that differ from CUDA's. */
#include <hip/hip_runtime.h>

#include "compat.h"

#include <stdlib.h>

#define BYTES ((size_t)1 << 20)

static void wrong_frees_are_refused(void **state)
{
    char *device, *host, plain[16];
    void *ptr = &ptr;

    (void)state;
    OK(hipMalloc(&ptr, 0));
    assert_null(ptr);
    OK(hipFree(NULL));
    OK(hipHostFree(NULL));
    OK(hipMalloc((void **)&device, 4096));
    OK(hipHostMalloc((void **)&host, 4096, hipHostMallocDefault));
    GIVES(hipErrorInvalidValue, hipFree(device + 1));
    GIVES(hipErrorInvalidValue, hipFree(plain));
    GIVES(hipErrorInvalidValue, hipFree(host + 1));
    GIVES(hipErrorInvalidValue, hipHostFree(device));
    OK(hipFree(device));
    GIVES(hipErrorInvalidValue, hipFree(device));
    OK(hipHostFree(host));
    GIVES(hipErrorInvalidValue, hipHostFree(host));
    GIVES(hipErrorInvalidValue, hipMalloc(NULL, 1));
    GIVES(hipErrorOutOfMemory, hipMalloc(&ptr, SIZE_MAX));
    GIVES(hipErrorInvalidValue, hipHostMalloc(NULL, 1, hipHostMallocDefault));
    GIVES(hipErrorInvalidValue, hipHostMalloc(&ptr, 1, 0x10));
    GIVES(hipErrorInvalidValue, hipHostMalloc(&ptr, 1, hipHostMallocCoherent | hipHostMallocNonCoherent));
    GIVES(hipErrorInvalidValue, hipExtMallocWithFlags(&ptr, 4, hipMallocSignalMemory));
    GIVES(hipErrorInvalidValue, hipExtMallocWithFlags(&ptr, 16, 0x40));
    OK(hipExtMallocWithFlags(&ptr, 8, hipMallocSignalMemory));
    OK(hipFree(ptr));
}

static void the_last_error_stays_until_it_is_read(void **state)
{
    (void)state;
    (void)hipGetLastError();
    GIVES(hipErrorInvalidValue, hipMalloc(NULL, 1));
    OK(hipFree(NULL));
    GIVES(hipErrorInvalidValue, hipPeekAtLastError());
    GIVES(hipErrorInvalidValue, hipExtGetLastError()); /* the result of hipPeekAtLastError() */
    OK(hipExtGetLastError());
    GIVES(hipErrorInvalidValue, hipGetLastError());
    OK(hipGetLastError());
    GIVES(hipErrorInvalidValue, hipMalloc(NULL, 1));
    GIVES(hipErrorInvalidValue, hipGetLastError());
    GIVES(hipErrorInvalidValue, hipExtGetLastError()); /* hipGetLastError() does not clear it */
    GIVES(hipErrorInvalidValue, hipMalloc(NULL, 1));
    OK(hipFree(NULL));
    OK(hipExtGetLastError()); /* the last call succeeded */
    GIVES(hipErrorInvalidValue, hipGetLastError());
    assert_string_equal(hipGetErrorName(hipErrorInvalidValue), "hipErrorInvalidValue");
    assert_string_equal(hipGetErrorString(hipErrorInvalidValue), "invalid argument");
    assert_string_equal(hipGetErrorName(hipErrorContextIsDestroyed), "hipErrorContextIsDestroyed");
}

static void copies_between_all_kinds(void **state)
{
    unsigned char *in = malloc(BYTES), *out = malloc(BYTES), *pinned, *managed, *a, *b;

    (void)state;
    write_pattern(in, BYTES, 1);
    OK(hipMalloc((void **)&a, BYTES));
    OK(hipMalloc((void **)&b, BYTES));
    OK(hipHostMalloc((void **)&pinned, BYTES, hipHostMallocMapped));
    OK(hipMallocManaged((void **)&managed, BYTES, hipMemAttachGlobal));
    OK(hipMemcpyHtoD(a, in, BYTES));
    OK(hipMemcpyDtoD(b, a, BYTES));
    OK(hipMemcpy(pinned, b, BYTES, hipMemcpyDeviceToHost));
    HAS_PATTERN(pinned, BYTES, 1);
    OK(hipMemcpy(managed, pinned, BYTES, hipMemcpyDefault));
    HAS_PATTERN(managed, BYTES, 1);
    OK(hipMemset(a, 0x5a, BYTES));
    OK(hipMemcpy(a, managed, BYTES, hipMemcpyHostToHost)); /* the pointers decide the direction, not the kind */
    OK(hipMemcpyDtoH(out, a, BYTES));
    HAS_PATTERN(out, BYTES, 1);
    OK(hipMemcpyPeer(b, 0, a, 0, BYTES));
    GIVES(hipErrorInvalidValue, hipMemcpy(NULL, in, 1, hipMemcpyHostToDevice));
    GIVES(hipErrorInvalidValue, hipMemcpy(a, NULL, 1, hipMemcpyHostToDevice));
    GIVES(hipErrorInvalidMemcpyDirection, hipMemcpy(a, in, 1, (hipMemcpyKind)77));
    GIVES(hipErrorInvalidValue, hipMemcpy(a, in, BYTES + 1, hipMemcpyHostToDevice));
    OK(hipMemcpy(a, in, 0, hipMemcpyHostToDevice));
    OK(hipHostFree(pinned));
    OK(hipFree(managed));
    OK(hipFree(b));
    OK(hipFree(a));
    free(in);
    free(out);
}

static void fills_of_all_widths(void **state)
{
    uint32_t out[64];
    uint16_t *halves = (uint16_t *)out;
    char *device;

    (void)state;
    OK(hipMalloc((void **)&device, sizeof out));
    OK(hipMemset(device, 0, sizeof out));
    OK(hipMemsetD32(device, 0x01020304, 4));
    OK(hipMemsetD16(device + 16, 0x0506, 2));
    OK(hipMemsetD8(device + 20, 7, 4));
    OK(hipMemcpy(out, device, sizeof out, hipMemcpyDeviceToHost));
    assert_int_equal(out[0], 0x01020304);
    assert_int_equal(out[3], 0x01020304);
    assert_int_equal(halves[8], 0x0506);
    assert_int_equal(out[5], 0x07070707);
    HAS_BYTES(out + 6, sizeof out - 24, 0);
    GIVES(hipErrorInvalidValue, hipMemsetD32(device, 1, 65));
    GIVES(hipErrorInvalidValue, hipMemset(NULL, 1, 4));
    GIVES(hipErrorInvalidValue, hipMemset2D(device, 4, 1, 8, 2));
    OK(hipMemset2D(device, 16, 9, 8, 16));
    OK(hipMemcpy(out, device, sizeof out, hipMemcpyDeviceToHost));
    assert_int_equal(out[4], 0x09090909);
    assert_int_equal(out[2], 0x01020304); /* the bytes between the rows are unchanged */
    OK(hipFree(device));
}

static void rectangles(void **state)
{
    unsigned char in[16 * 20], out[16 * 20], *device;
    hipMemcpy3DParms box = {.kind = hipMemcpyDeviceToHost};
    hipPitchedPtr cube;
    hipDeviceptr_t wide;
    size_t pitch;

    (void)state;
    write_pattern(in, sizeof in, 4);
    OK(hipMallocPitch((void **)&device, &pitch, 20, 16));
    assert_true(pitch >= 20);
    OK(hipMemcpy2D(device, pitch, in, 20, 20, 16, hipMemcpyHostToDevice));
    OK(hipMemcpy2D(out, 20, device, pitch, 20, 16, hipMemcpyDeviceToHost));
    HAS_PATTERN(out, sizeof out, 4);
    GIVES(hipErrorInvalidPitchValue, hipMemcpy2D(out, 19, device, pitch, 20, 16, hipMemcpyDeviceToHost));
    GIVES(hipErrorInvalidValue, hipMemcpy2D(NULL, 20, device, pitch, 20, 16, hipMemcpyDeviceToHost));
    OK(hipFree(device));
    GIVES(hipErrorInvalidValue, hipMallocPitch(NULL, &pitch, 20, 16));
    GIVES(hipErrorInvalidValue, hipMallocPitch((void **)&device, NULL, 20, 16));
    GIVES(hipErrorInvalidValue, hipMemAllocPitch(&wide, &pitch, 20, 16, 12));
    OK(hipMemAllocPitch(&wide, &pitch, 20, 16, 16));
    OK(hipFree(wide));

    OK(hipMalloc3D(&cube, make_hipExtent(8, 4, 3)));
    OK(hipMemset3D(cube, 0x33, make_hipExtent(8, 4, 3)));
    memset(out, 0, sizeof out);
    box.srcPtr = cube;
    box.dstPtr = make_hipPitchedPtr(out, 8, 8, 4);
    box.extent = make_hipExtent(8, 4, 3);
    OK(hipMemcpy3D(&box));
    HAS_BYTES(out, 96, 0x33);
    HAS_BYTES(out + 96, 8, 0);
    GIVES(hipErrorInvalidValue, hipMemcpy3D(NULL));
    OK(hipFree(cube.ptr));
}

static void arrays(void **state)
{
    hipChannelFormatDesc desc = hipCreateChannelDesc(32, 0, 0, 0, hipChannelFormatKindFloat), wrong = desc;
    hipMemcpy3DParms region = {.kind = hipMemcpyHostToDevice};
    float in[6 * 4], out[6 * 4];
    hipArray_t array;

    (void)state;
    for (int i = 0; i < 24; i++)
        in[i] = (float)i;
    OK(hipMallocArray(&array, &desc, 6, 4, hipArrayDefault));
    OK(hipMemcpy2DToArray(array, 0, 0, in, 24, 24, 4, hipMemcpyHostToDevice));
    OK(hipMemcpy2DFromArray(out, 24, array, 0, 0, 24, 4, hipMemcpyDeviceToHost));
    assert_memory_equal(in, out, sizeof in);
    region.srcPtr = make_hipPitchedPtr(in, 24, 6, 4);
    region.dstArray = array;
    region.extent = make_hipExtent(6, 4, 1);
    OK(hipMemcpy3D(&region));
    region.dstPos.x = SIZE_MAX / 4 + 1; /* 0 if the number of bytes wraps around */
    GIVES(hipErrorInvalidValue, hipMemcpy3D(&region));
    OK(hipFreeArray(array));
    GIVES(hipErrorContextIsDestroyed, hipFreeArray(array));
    GIVES(hipErrorInvalidValue, hipFreeArray(NULL));
    wrong.y = 16;
    GIVES(hipErrorInvalidValue, hipMallocArray(&array, &wrong, 6, 4, hipArrayDefault));
    GIVES(hipErrorInvalidValue, hipMallocArray(NULL, &desc, 6, 4, hipArrayDefault));
    GIVES(hipErrorInvalidValue, hipMallocArray(&array, &desc, 0, 4, hipArrayDefault));
}

static void what_is_known_of_an_address(void **state)
{
    hipPointerAttribute_t attributes;
    char *device, *pinned, plain[64];
    size_t bytes;
    void *base;
    unsigned flags;

    (void)state;
    OK(hipMalloc((void **)&device, 1000));
    OK(hipHostMalloc((void **)&pinned, 2000, hipHostMallocPortable));
    OK(hipPointerGetAttributes(&attributes, device + 10));
    assert_int_equal(attributes.type, hipMemoryTypeDevice);
    assert_ptr_equal(attributes.devicePointer, device + 10);
    assert_null(attributes.hostPointer);
    OK(hipPointerGetAttributes(&attributes, pinned));
    assert_int_equal(attributes.type, hipMemoryTypeHost);
    OK(hipPointerGetAttributes(&attributes, plain));
    assert_int_equal(attributes.type, hipMemoryTypeUnregistered);
    GIVES(hipErrorInvalidValue, hipPointerGetAttributes(NULL, device));
    GIVES(hipErrorInvalidValue, hipPointerGetAttributes(&attributes, NULL));
    OK(hipMemPtrGetInfo(device, &bytes));
    assert_int_equal(bytes, 1000);
    GIVES(hipErrorInvalidValue, hipMemPtrGetInfo(plain, &bytes));
    OK(hipMemGetAddressRange(&base, &bytes, device + 999));
    assert_ptr_equal(base, device);
    GIVES(hipErrorNotFound, hipMemGetAddressRange(&base, &bytes, plain));
    GIVES(hipErrorNotFound, hipMemGetAddressRange(&base, &bytes, NULL));
    OK(hipMemPtrGetInfo(NULL, &bytes)); /* NULL is valid, because hipMalloc() of 0 bytes returns it */
    assert_int_equal(bytes, 0);
    OK(hipHostGetFlags(&flags, pinned));
    assert_int_equal(flags, hipHostMallocPortable);
    GIVES(hipErrorInvalidValue, hipHostGetFlags(&flags, plain));
    OK(hipHostRegister(plain, sizeof plain, hipHostRegisterDefault));
    GIVES(hipErrorHostMemoryAlreadyRegistered, hipHostRegister(plain, 32, hipHostRegisterDefault));
    OK(hipHostGetDevicePointer(&base, plain, 0));
    GIVES(hipErrorInvalidValue, hipHostGetDevicePointer(&base, plain, 1));
    OK(hipHostUnregister(plain));
    GIVES(hipErrorHostMemoryNotRegistered, hipHostUnregister(plain));
    OK(hipHostFree(pinned));
    OK(hipFree(device));
}

static void attributes_of_addresses(void **state)
{
    char *device, *pinned;
    int host = 0;
    unsigned value;
    void *at = &host;
    hipArray_t array;
    hipChannelFormatDesc desc = {.x = 32, .f = hipChannelFormatKindSigned};
    hipPointer_attribute asked[] = {HIP_POINTER_ATTRIBUTE_HOST_POINTER, HIP_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *answers[] = {&at, &value};

    (void)state;
    OK(hipMalloc((void **)&device, 1000));
    OK(hipHostMalloc((void **)&pinned, 64, 0));
    OK(hipDrvPointerGetAttributes(2, asked, answers, device + 1));
    assert_null(at);
    assert_int_equal(value, 1000);
    GIVES(hipErrorInvalidValue, hipPointerGetAttribute(&at, HIP_POINTER_ATTRIBUTE_HOST_POINTER, device));
    OK(hipPointerGetAttribute(&at, HIP_POINTER_ATTRIBUTE_HOST_POINTER, pinned + 1));
    assert_ptr_equal(at, pinned + 1);
    GIVES(hipErrorNotSupported, hipPointerGetAttribute(&at, HIP_POINTER_ATTRIBUTE_CONTEXT, device));
    GIVES(hipErrorNotSupported, hipPointerGetAttribute(&at, HIP_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, device));
    OK(hipMallocArray(&array, &desc, 16, 16, 0));
    OK(hipPointerGetAttribute(&value, HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, array));
    assert_int_equal(value, hipMemoryTypeArray);
    GIVES(hipErrorInvalidValue, hipMemcpyHtoA(array, 0, pinned, 65)); /* the range is longer than a row */
    GIVES(hipErrorInvalidValue, hipMemcpyHtoA(NULL, 0, pinned, 64));
    GIVES(hipErrorInvalidValue, hipMemcpyAtoD(&host, array, 0, 4));
    OK(hipFreeArray(array));
    GIVES(hipErrorInvalidDevicePointer, hipPointerSetAttribute(&value, HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS, &host));
    GIVES(hipErrorInvalidValue, hipPointerSetAttribute(&value, HIP_POINTER_ATTRIBUTE_MAPPED, device));
    OK(hipHostFree(pinned));
    OK(hipFree(device));
}

static void wait_a_little(void *argument)
{
    (void)argument;
    sleep_ms(20);
}

static void copies_of_device_memory_wait_when_told(void **state)
{
    unsigned on = 1;
    bool value = false;
    char *a, *b;
    gate open = 0;
    hipStream_t stream;

    (void)state;
    OK(hipMalloc((void **)&a, 64));
    OK(hipMalloc((void **)&b, 64));
    OK(hipStreamCreate(&stream));
    OK(hipLaunchHostFunc(stream, wait_at_gate, &open));
    OK(hipMemcpy(a, b, 64, hipMemcpyDeviceToDevice));
    GIVES(hipErrorNotReady, hipStreamQuery(stream));
    atomic_store(&open, 1);
    OK(hipPointerSetAttribute(&on, HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS, b));
    OK(hipPointerGetAttribute(&value, HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS, b + 1));
    assert_true(value);
    OK(hipLaunchHostFunc(stream, wait_a_little, NULL));
    OK(hipMemcpy(a, b, 64, hipMemcpyDeviceToDevice));
    OK(hipStreamQuery(stream));
    OK(hipLaunchHostFunc(stream, wait_a_little, NULL));
    OK(hipMemset(b, 1, 64));
    OK(hipStreamQuery(stream));
    OK(hipStreamDestroy(stream));
    OK(hipFree(a));
    OK(hipFree(b));
}

/* Advice for managed memory ends when the memory is freed. It affects neither new memory at these addresses nor
 * memory next to them. */
static void advice_ends_with_the_memory(void **state)
{
    enum { PAGE = 4096 };
    char *first, *second;
    int users[2], place;

    (void)state;
    for (int i = 0; i < 2; i++) {
        OK(hipMallocManaged((void **)&first, PAGE, hipMemAttachGlobal));
        OK(hipMallocManaged((void **)&second, 10, hipMemAttachGlobal));
        assert_int_equal((uintptr_t)first % PAGE, 0);
        OK(hipMemRangeGetAttribute(users, sizeof users, hipMemRangeAttributeAccessedBy, first, PAGE));
        assert_int_equal(users[0], hipInvalidDeviceId);
        OK(hipMemRangeGetAttribute(&place, sizeof place, hipMemRangeAttributePreferredLocation, first, PAGE));
        assert_int_equal(place, hipInvalidDeviceId);
        OK(hipMemRangeGetAttribute(&place, sizeof place, hipMemRangeAttributeLastPrefetchLocation, first, PAGE));
        assert_int_equal(place, hipInvalidDeviceId);
        OK(hipMemAdvise(first, PAGE, hipMemAdviseSetAccessedBy, hipCpuDeviceId));
        OK(hipMemAdvise(first, PAGE, hipMemAdviseSetAccessedBy, 0));
        OK(hipMemAdvise(first, PAGE, hipMemAdviseSetPreferredLocation, 0));
        OK(hipMemPrefetchAsync(first, PAGE, 0, NULL));
        OK(hipMemRangeGetAttribute(users, sizeof users, hipMemRangeAttributeAccessedBy, first, PAGE));
        assert_int_equal(users[0], 0);
        assert_int_equal(users[1], hipCpuDeviceId);
        OK(hipMemRangeGetAttribute(&place, sizeof place, hipMemRangeAttributeLastPrefetchLocation, first, PAGE));
        assert_int_equal(place, 0);
        OK(hipMemRangeGetAttribute(&place, sizeof place, hipMemRangeAttributeLastPrefetchLocation, second, 10));
        assert_int_equal(place, hipInvalidDeviceId);
        OK(hipFree(first));
        if (i)
            OK(hipFree(second)); /* round 0 does not free it, so that its page is not reused */
    }
}

static void symbols_are_variables(void **state)
{
    static int symbol[4];
    int in[4] = {1, 2, 3, 4}, out[4] = {0};

    (void)state;
    OK(hipMemcpyToSymbol(HIP_SYMBOL(symbol), in, sizeof in, 0, hipMemcpyHostToDevice));
    OK(hipMemcpyFromSymbol(out, HIP_SYMBOL(symbol), 8, 8, hipMemcpyDeviceToHost));
    assert_int_equal(out[0], 3);
    GIVES(hipErrorInvalidSymbol, hipMemcpyToSymbol(NULL, in, 4, 0, hipMemcpyHostToDevice));
    GIVES(hipErrorInvalidValue, hipGetSymbolSize(NULL, symbol));
}

static void devices(void **state)
{
    hipDeviceProp_t properties;
    int count, value, version;

    (void)state;
    OK(hipGetDeviceCount(&count));
    assert_true(count >= 2);
    OK(hipSetDevice(1));
    OK(hipGetDevice(&value));
    assert_int_equal(value, 1);
    OK(hipSetDevice(0));
    GIVES(hipErrorInvalidDevice, hipSetDevice(count));
    GIVES(hipErrorInvalidDevice, hipSetDevice(-1));
    GIVES(hipErrorInvalidValue, hipGetDeviceCount(NULL));
    OK(hipGetDeviceProperties(&properties, 0));
    OK(hipDeviceGetAttribute(&value, hipDeviceAttributeWarpSize, 0));
    assert_int_equal(value, properties.warpSize);
    OK(hipDeviceGetAttribute(&value, hipDeviceAttributeMaxThreadsPerBlock, 0));
    assert_int_equal(value, properties.maxThreadsPerBlock);
    GIVES(hipErrorInvalidDevice, hipDeviceGetAttribute(&value, hipDeviceAttributeWarpSize, count));
    OK(hipRuntimeGetVersion(&version));
    assert_int_equal(version / 10000000, 6);
    OK(hipDeviceCanAccessPeer(&value, 0, 1));
    assert_int_equal(value, 1);
    OK(hipDeviceCanAccessPeer(&value, 0, 0));
    assert_int_equal(value, 0);
    OK(hipDeviceEnablePeerAccess(1, 0));
    GIVES(hipErrorPeerAccessAlreadyEnabled, hipDeviceEnablePeerAccess(1, 0));
    OK(hipDeviceDisablePeerAccess(1));
    GIVES(hipErrorPeerAccessNotEnabled, hipDeviceDisablePeerAccess(1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_frees_are_refused),
        cmocka_unit_test(the_last_error_stays_until_it_is_read),
        cmocka_unit_test(copies_between_all_kinds),
        cmocka_unit_test(fills_of_all_widths),
        cmocka_unit_test(rectangles),
        cmocka_unit_test(arrays),
        cmocka_unit_test(what_is_known_of_an_address),
        cmocka_unit_test(attributes_of_addresses),
        cmocka_unit_test(copies_of_device_memory_wait_when_told),
        cmocka_unit_test(advice_ends_with_the_memory),
        cmocka_unit_test(symbols_are_variables),
        cmocka_unit_test(devices),
    };

    int wrong = cmocka_run_group_tests(tests, NULL, NULL);

    for (int i = 0; i < 2; i++) /* free everything, so that leak checkers find nothing */
        wrong += hipSetDevice(i) || hipDeviceReset();
    return wrong;
}
