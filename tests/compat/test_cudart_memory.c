/* test_cudart_memory.c - tests the CUDA runtime's memory: allocations, copies, fills, and all refusals. */
#include <cuda_runtime.h>

#include "compat.h"

#define BYTES ((size_t)3 << 20)

static void nothing_costs_nothing(void **state)
{
    void *ptr = &ptr;
    size_t pitch;

    (void)state;
    OK(cudaMalloc(&ptr, 0));
    assert_null(ptr);
    OK(cudaFree(NULL));
    OK(cudaFreeHost(NULL));
    OK(cudaFreeArray(NULL));
    OK(cudaMallocPitch(&ptr, &pitch, 0, 5));
    assert_null(ptr);
    OK(cudaMemcpy(NULL, NULL, 0, cudaMemcpyDefault));
    OK(cudaMemset(NULL, 0, 0));
}

static void wrong_frees_are_refused(void **state)
{
    char *device, *host, plain[16];

    (void)state;
    OK(cudaMalloc((void **)&device, 4096));
    OK(cudaMallocHost((void **)&host, 4096));
    GIVES(cudaErrorInvalidValue, cudaFree(device + 1));
    GIVES(cudaErrorInvalidValue, cudaFree(plain));
    GIVES(cudaErrorInvalidValue, cudaFree(host));
    GIVES(cudaErrorInvalidValue, cudaFreeHost(device));
    GIVES(cudaErrorInvalidValue, cudaFreeHost(plain));
    OK(cudaFree(device));
    GIVES(cudaErrorInvalidValue, cudaFree(device));
    OK(cudaFreeHost(host));
    GIVES(cudaErrorInvalidValue, cudaFreeHost(host));
    GIVES(cudaErrorInvalidValue, cudaMemset(device, 0, 1));
    GIVES(cudaErrorInvalidValue, cudaMalloc(NULL, 1));
    GIVES(cudaErrorMemoryAllocation, cudaMalloc((void **)&device, SIZE_MAX));
    GIVES(cudaErrorMemoryAllocation, cudaMalloc((void **)&device, (size_t)1 << 50));
    GIVES(cudaErrorInvalidValue, cudaHostAlloc((void **)&host, 16, 8));
    GIVES(cudaErrorInvalidValue, cudaMallocManaged((void **)&host, 0, cudaMemAttachGlobal));
    GIVES(cudaErrorInvalidValue, cudaMallocManaged((void **)&host, 16, 7));
}

static void the_last_error_is_read_once(void **state)
{
    (void)state;
    (void)cudaGetLastError();
    GIVES(cudaErrorInvalidValue, cudaMalloc(NULL, 1));
    OK(cudaFree(NULL));
    GIVES(cudaErrorInvalidValue, cudaPeekAtLastError());
    GIVES(cudaErrorInvalidValue, cudaGetLastError());
    OK(cudaGetLastError());
    assert_string_equal(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue");
    assert_string_equal(cudaGetErrorName((cudaError_t)12345), "unrecognized error code");
    assert_string_equal(cudaGetErrorString(cudaSuccess), "no error");
}

static void copies_between_all_kinds(void **state)
{
    unsigned char *in = malloc(BYTES), *out = malloc(BYTES), *pinned, *managed, *a, *b;

    (void)state;
    write_pattern(in, BYTES, 1);
    OK(cudaMalloc((void **)&a, BYTES));
    OK(cudaMalloc((void **)&b, BYTES));
    OK(cudaMallocHost((void **)&pinned, BYTES));
    OK(cudaMallocManaged((void **)&managed, BYTES, cudaMemAttachGlobal));
    OK(cudaMemcpy(a, in, BYTES, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(b, a, BYTES, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpy(pinned, b, BYTES, cudaMemcpyDeviceToHost));
    HAS_PATTERN(pinned, BYTES, 1);
    OK(cudaMemcpy(managed, pinned, BYTES, cudaMemcpyDefault));
    HAS_PATTERN(managed, BYTES, 1);
    OK(cudaMemcpy(a, managed, BYTES, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(out, a, BYTES, cudaMemcpyDefault));
    HAS_PATTERN(out, BYTES, 1);
    memset(out, 0, BYTES);
    OK(cudaMemcpy(out, in, BYTES, cudaMemcpyHostToHost));
    HAS_PATTERN(out, BYTES, 1);
    OK(cudaMemcpy(a, a, BYTES, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpy(a + 4096, a, BYTES - 4096, cudaMemcpyDeviceToDevice)); /* overlapping ranges: like memmove() */
    OK(cudaMemcpy(out, a + 4096, BYTES - 4096, cudaMemcpyDeviceToHost));
    HAS_PATTERN(out, BYTES - 4096, 1);
    OK(cudaFree(managed));
    OK(cudaFreeHost(pinned));
    OK(cudaFree(b));
    OK(cudaFree(a));
    free(out);
    free(in);
}

static void wrong_copies_are_refused(void **state)
{
    unsigned char host[64], *device;

    (void)state;
    OK(cudaMalloc((void **)&device, sizeof host));
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy(device, host, 1, (enum cudaMemcpyKind)5));
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy(device, host, 1, (enum cudaMemcpyKind) - 1));
    GIVES(cudaErrorInvalidValue, cudaMemcpy(device, host, 1, cudaMemcpyDeviceToHost));
    GIVES(cudaErrorInvalidValue, cudaMemcpy(host, device, 1, cudaMemcpyHostToHost));
    GIVES(cudaErrorInvalidValue, cudaMemcpy(NULL, host, 1, cudaMemcpyHostToDevice));
    GIVES(cudaErrorInvalidValue, cudaMemcpy(device, NULL, 1, cudaMemcpyHostToDevice));
    GIVES(cudaErrorInvalidValue, cudaMemcpy(host, device, sizeof host + 1, cudaMemcpyDeviceToHost));
    GIVES(cudaErrorInvalidValue, cudaMemset(device, 0, sizeof host + 1));
    GIVES(cudaErrorInvalidValue, cudaMemset(host, 0, 1));
    GIVES(cudaErrorInvalidPitchValue, cudaMemcpy2D(device, 7, host, 8, 8, 2, cudaMemcpyHostToDevice));
    GIVES(cudaErrorInvalidPitchValue, cudaMemcpy2D(device, 8, host, 7, 8, 2, cudaMemcpyHostToDevice));
    GIVES(cudaErrorInvalidValue, cudaMemcpy2D(device, 32, host, 32, 32, 3, cudaMemcpyHostToDevice));
    GIVES(cudaErrorInvalidValue, cudaMemset2D(device, 7, 0, 8, 2));
    GIVES(cudaErrorInvalidDevice, cudaMemcpyPeer(device, 99, device, 0, 1));
    GIVES(cudaErrorInvalidSymbol, cudaMemcpyToSymbol(NULL, host, 1, 0, cudaMemcpyHostToDevice));
    OK(cudaFree(device));
}

static void copies_are_bounded_by_their_symbol(void **state)
{
    static int symbol[4];
    int in[5] = {1, 2, 3, 4, 5}, out[4];
    size_t bytes = 0;
    void *there;

    (void)state;
    OK(cudaMemcpyToSymbol(symbol, in, 16, 0, cudaMemcpyHostToDevice));
    OK(cudaMemcpyFromSymbol(out, symbol, 16, 0, cudaMemcpyDeviceToHost));
    assert_memory_equal(in, out, 16);
    GIVES(cudaErrorInvalidValue, cudaMemcpyToSymbol(symbol, in, 17, 0, cudaMemcpyHostToDevice));
    GIVES(cudaErrorInvalidValue, cudaMemcpyToSymbolAsync(symbol, in, 4, 13, cudaMemcpyHostToDevice, 0));
    GIVES(cudaErrorInvalidValue, cudaMemcpyFromSymbol(out, symbol, 16, 1, cudaMemcpyDeviceToHost));
    GIVES(cudaErrorInvalidValue, cudaMemcpyFromSymbolAsync(out, symbol, 1, 16, cudaMemcpyDeviceToHost, 0));
    GIVES(cudaErrorInvalidSymbol, cudaMemcpyToSymbol(in, out, 4, 0, cudaMemcpyHostToDevice));
    GIVES(cudaErrorInvalidSymbol, cudaMemcpyFromSymbol(out, symbol + 1, 4, 0, cudaMemcpyDeviceToHost));
    GIVES(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&there, in));
    OK(cudaGetSymbolSize(&bytes, symbol));
    assert_int_equal(bytes, sizeof symbol);
}

static void rectangles_and_regions(void **state)
{
    enum { W = 100, H = 37, D = 5 };
    unsigned char in[W * H * D], out[W * H * D];
    struct cudaPitchedPtr there;
    struct cudaMemcpy3DParms p = {.extent = {W, H, D}, .kind = cudaMemcpyHostToDevice};
    unsigned char *rows;
    size_t pitch;

    (void)state;
    write_pattern(in, sizeof in, 2);
    OK(cudaMallocPitch((void **)&rows, &pitch, W, H));
    assert_true(pitch >= W && pitch % 32 == 0);
    OK(cudaMemset2D(rows, pitch, 9, pitch, H));
    OK(cudaMemcpy2D(rows, pitch, in, W, W, H, cudaMemcpyHostToDevice));
    OK(cudaMemset2D(rows + 10, pitch, 0xee, 5, H)); /* one column, 5 bytes wide */
    OK(cudaMemcpy2D(out, W, rows, pitch, W, H, cudaMemcpyDeviceToHost));
    for (size_t y = 0; y < H; y++) {
        HAS_BYTES(out + y * W + 10, 5, 0xee);
        memcpy(out + y * W + 10, in + y * W + 10, 5);
    }
    HAS_PATTERN(out, (size_t)W * H, 2);
    OK(cudaFree(rows));

    OK(cudaMalloc3D(&there, make_cudaExtent(W, H, D)));
    OK(cudaMemset3D(there, 3, make_cudaExtent(W, H, D)));
    p.srcPtr = make_cudaPitchedPtr(in, W, W, H);
    p.dstPtr = there;
    OK(cudaMemcpy3D(&p));
    p.srcPtr = there;
    p.dstPtr = make_cudaPitchedPtr(out, W, W, H);
    p.kind = cudaMemcpyDeviceToHost;
    OK(cudaMemcpy3D(&p));
    HAS_PATTERN(out, sizeof out, 2);
    p.srcPtr.ptr = NULL;
    GIVES(cudaErrorInvalidValue, cudaMemcpy3D(&p));
    GIVES(cudaErrorInvalidValue, cudaMemcpy3D(NULL));
    OK(cudaFree(there.ptr));
}

static void arrays_by_handle(void **state)
{
    enum { W = 33, H = 11 };
    struct cudaChannelFormatDesc four = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat), seen;
    float in[H][W], out[H][W];
    struct cudaExtent extent;
    unsigned flags;
    cudaArray_t a, b;

    (void)state;
    write_pattern(in, sizeof in, 3);
    OK(cudaMallocArray(&a, &four, W, H, 0));
    OK(cudaMallocArray(&b, &four, W, H, 0));
    OK(cudaMemcpy2DToArray(a, 0, 0, in, sizeof in[0], sizeof in[0], H, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2DArrayToArray(b, 0, 0, a, 0, 0, sizeof in[0], H, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpy2DFromArray(out, sizeof out[0], b, 0, 0, sizeof out[0], H, cudaMemcpyDeviceToHost));
    HAS_PATTERN(out, sizeof out, 3);
    OK(cudaArrayGetInfo(&seen, &extent, &flags, a));
    assert_int_equal(seen.x, 32);
    assert_int_equal(extent.width, W);
    assert_int_equal(extent.height, H);
    assert_int_equal(extent.depth, 0);
    GIVES(cudaErrorInvalidValue,
          cudaMemcpy2DToArray(a, 4, 0, in, sizeof in[0], sizeof in[0], H, cudaMemcpyHostToDevice));
    GIVES(cudaErrorInvalidValue, cudaMallocArray(&a, &four, 0, 1, 0));
    four.x = 7;
    GIVES(cudaErrorInvalidChannelDescriptor, cudaMallocArray(&a, &four, 1, 1, 0));
    OK(cudaFreeArray(a));
    GIVES(cudaErrorInvalidValue, cudaFreeArray(a));
    OK(cudaFreeArray(b));
}

static void registering_what_the_program_has(void **state)
{
    unsigned char *mine = aligned_alloc(4096, 8192), *device, *mapped;
    struct cudaPointerAttributes attributes;
    unsigned flags;

    (void)state;
    GIVES(cudaErrorInvalidValue, cudaHostRegister(NULL, 1, 0));
    GIVES(cudaErrorInvalidValue, cudaHostRegister(mine, 0, 0));
    GIVES(cudaErrorInvalidValue, cudaHostRegister(mine, 8192, 16));
    GIVES(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(mine));
    OK(cudaHostRegister(mine, 8192, cudaHostRegisterPortable));
    GIVES(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(mine, 8192, 0));
    OK(cudaHostGetDevicePointer((void **)&mapped, mine + 5, 0));
    GIVES(cudaErrorInvalidValue, cudaHostGetDevicePointer((void **)&mapped, mine, 1));
    OK(cudaPointerGetAttributes(&attributes, mine + 5));
    assert_int_equal(attributes.type, cudaMemoryTypeHost);
    assert_ptr_equal(attributes.hostPointer, mine + 5);
    OK(cudaHostGetFlags(&flags, mine));
    assert_true(flags & cudaHostRegisterPortable);
    GIVES(cudaErrorInvalidValue, cudaFreeHost(mine));
    OK(cudaMalloc((void **)&device, 8192));
    OK(cudaMemset(device, 4, 8192));
    OK(cudaMemcpyAsync(mine, device, 8192, cudaMemcpyDeviceToHost, 0));
    OK(cudaDeviceSynchronize());
    HAS_BYTES(mine, 8192, 4);
    OK(cudaHostUnregister(mine));
    GIVES(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(mine));
    OK(cudaPointerGetAttributes(&attributes, mine));
    assert_int_equal(attributes.type, cudaMemoryTypeUnregistered);
    OK(cudaFree(device));
    free(mine);
}

static void what_pointers_are(void **state)
{
    struct cudaPointerAttributes attributes;
    char *device, *managed, *pinned;

    (void)state;
    OK(cudaMalloc((void **)&device, 100));
    OK(cudaMallocManaged((void **)&managed, 100, cudaMemAttachGlobal));
    OK(cudaHostAlloc((void **)&pinned, 100, cudaHostAllocMapped | cudaHostAllocWriteCombined));
    OK(cudaPointerGetAttributes(&attributes, device + 50));
    assert_int_equal(attributes.type, cudaMemoryTypeDevice);
    assert_int_equal(attributes.device, 0);
    assert_ptr_equal(attributes.devicePointer, device + 50);
    assert_null(attributes.hostPointer);
    OK(cudaPointerGetAttributes(&attributes, managed));
    assert_int_equal(attributes.type, cudaMemoryTypeManaged);
    assert_ptr_equal(attributes.hostPointer, managed);
    OK(cudaPointerGetAttributes(&attributes, pinned));
    assert_int_equal(attributes.type, cudaMemoryTypeHost);
    GIVES(cudaErrorInvalidValue, cudaPointerGetAttributes(&attributes, NULL));
    GIVES(cudaErrorInvalidValue, cudaPointerGetAttributes(NULL, device));
    OK(cudaFree(device));
    OK(cudaFree(managed));
    OK(cudaFreeHost(pinned));
}

static void managed_memory_is_advised(void **state)
{
    struct cudaMemLocation device = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0},
                           nobody = {cudaMemLocationTypeDevice, 99};
    char *managed, *plain;
    int value, ids[3];

    (void)state;
    OK(cudaMallocManaged((void **)&managed, 1 << 20, cudaMemAttachGlobal));
    OK(cudaMalloc((void **)&plain, 4096));
    memset(managed, 1, 1 << 20);
    OK(cudaMemAdvise(managed, 1 << 20, cudaMemAdviseSetReadMostly, device));
    OK(cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributeReadMostly, managed, 1 << 20));
    assert_int_equal(value, 1);
    OK(cudaMemAdvise(managed, 1 << 20, cudaMemAdviseUnsetReadMostly, device));
    OK(cudaMemAdvise(managed, 1 << 20, cudaMemAdviseSetPreferredLocation, host));
    OK(cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributePreferredLocation, managed, 1 << 20));
    assert_int_equal(value, cudaCpuDeviceId);
    OK(cudaMemAdvise(managed, 1 << 20, cudaMemAdviseSetAccessedBy, device));
    OK(cudaMemRangeGetAttribute(ids, sizeof ids, cudaMemRangeAttributeAccessedBy, managed, 1 << 20));
    assert_int_equal(ids[0], 0);
    assert_int_equal(ids[1], cudaInvalidDeviceId);
    OK(cudaMemPrefetchAsync(managed, 1 << 20, device, 0, 0));
    OK(cudaDeviceSynchronize());
    OK(cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributeLastPrefetchLocation, managed,
                                1 << 20));
    assert_int_equal(value, 0);
    GIVES(cudaErrorInvalidDevice, cudaMemPrefetchAsync(managed, 1 << 20, nobody, 0, 0));
    GIVES(cudaErrorInvalidValue, cudaMemPrefetchAsync(managed, (1 << 20) + 1, device, 0, 0));
    GIVES(cudaErrorInvalidValue, cudaMemPrefetchAsync(plain, 4096, device, 0, 0));
    GIVES(cudaErrorInvalidValue, cudaMemAdvise(plain, 4096, cudaMemAdviseSetReadMostly, device));
    GIVES(cudaErrorInvalidValue, cudaMemAdvise(managed, 4096, (enum cudaMemoryAdvise)9, device));
    GIVES(cudaErrorInvalidValue, cudaMemRangeGetAttribute(&value, 3, cudaMemRangeAttributeReadMostly, managed, 1));
    OK(cudaFree(plain));
    OK(cudaFree(managed));
}

static void free_memory_is_counted(void **state)
{
    size_t before, during, after, total;
    void *ptr;

    (void)state;
    OK(cudaMemGetInfo(&before, &total));
    OK(cudaMalloc(&ptr, 64 << 20));
    OK(cudaMemGetInfo(&during, &total));
    OK(cudaFree(ptr));
    OK(cudaMemGetInfo(&after, &total));
    assert_true(during + (64 << 20) <= before + (4 << 20));
    assert_true(after + (4 << 20) >= before);
    GIVES(cudaErrorInvalidValue, cudaMemGetInfo(NULL, NULL));
}

/* Blocks that other processes can open take 2 MiB each, so only some of many small blocks may be of this kind. */
static void thousands_of_small_blocks(void **state)
{
    enum { COUNT = 3000 };
    void **blocks = malloc(COUNT * sizeof *blocks);
    size_t before, during, total;

    (void)state;
    OK(cudaMemGetInfo(&before, &total));
    for (int i = 0; i < COUNT; i++)
        OK(cudaMalloc(&blocks[i], 100));
    OK(cudaMemGetInfo(&during, &total));
    assert_true(before - during < (size_t)1 << 30);
    for (int i = 0; i < COUNT; i++)
        OK(cudaFree(blocks[i]));
    free(blocks);
}

static void two_devices(void **state)
{
    unsigned char in[1000], out[1000], *first, *second;
    struct cudaDeviceProp properties;
    int count, device, value;
    char address[32];

    (void)state;
    OK(cudaGetDeviceCount(&count));
    assert_true(count >= 2);
    write_pattern(in, sizeof in, 5);
    OK(cudaMalloc((void **)&first, sizeof in));
    OK(cudaSetDevice(1));
    OK(cudaMalloc((void **)&second, sizeof in));
    OK(cudaMemcpy(first, in, sizeof in, cudaMemcpyHostToDevice));
    OK(cudaMemcpyPeer(second, 1, first, 0, sizeof in));
    OK(cudaMemcpy(out, second, sizeof out, cudaMemcpyDeviceToHost));
    HAS_PATTERN(out, sizeof out, 5);
    OK(cudaMemset(first, 8, sizeof in)); /* this memory belongs to the other device */
    OK(cudaMemcpy(out, first, sizeof out, cudaMemcpyDeviceToHost));
    HAS_BYTES(out, sizeof out, 8);
    GIVES(cudaErrorInvalidDevice, cudaSetDevice(count));
    GIVES(cudaErrorInvalidDevice, cudaSetDevice(-1));
    OK(cudaGetDevice(&device));
    assert_int_equal(device, 1);
    OK(cudaDeviceCanAccessPeer(&value, 0, 1));
    if (value) {
        OK(cudaDeviceEnablePeerAccess(0, 0));
        GIVES(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(0, 0));
        OK(cudaDeviceDisablePeerAccess(0));
        GIVES(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(0));
    }
    GIVES(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(1, 0));
    OK(cudaGetDeviceProperties(&properties, 1));
    assert_true(properties.totalGlobalMem > 0 && properties.warpSize > 0 && properties.name[0]);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxThreadsPerBlock, 1));
    assert_int_equal(value, properties.maxThreadsPerBlock);
    GIVES(cudaErrorInvalidValue, cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)9999, 1));
    OK(cudaDeviceGetPCIBusId(address, sizeof address, 1));
    OK(cudaDeviceGetByPCIBusId(&device, address));
    assert_int_equal(device, 1);
    OK(cudaDeviceGetByPCIBusId(&device, strchr(address, ':') + 1)); /* without the domain, which is 0 */
    assert_int_equal(device, 1);
    OK(cudaSetDevice(0));
    OK(cudaFree(second));
    OK(cudaFree(first));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(nothing_costs_nothing),
    cmocka_unit_test(wrong_frees_are_refused),
    cmocka_unit_test(the_last_error_is_read_once),
    cmocka_unit_test(copies_between_all_kinds),
    cmocka_unit_test(wrong_copies_are_refused),
    cmocka_unit_test(copies_are_bounded_by_their_symbol),
    cmocka_unit_test(rectangles_and_regions),
    cmocka_unit_test(arrays_by_handle),
    cmocka_unit_test(registering_what_the_program_has),
    cmocka_unit_test(what_pointers_are),
    cmocka_unit_test(managed_memory_is_advised),
    cmocka_unit_test(free_memory_is_counted),
    cmocka_unit_test(thousands_of_small_blocks),
    cmocka_unit_test(two_devices),
};

int main(void)
{
    int wrong = cmocka_run_group_tests(tests, NULL, NULL);

    for (int i = 0; i < 2; i++)
        wrong += cudaSetDevice(i) || cudaDeviceReset();
    return wrong ? 1 : 0;
}
