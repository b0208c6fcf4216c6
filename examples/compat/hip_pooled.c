/*
 * hip_pooled.c - allocates and frees memory of a pool in stream order, through HIP's API.
 *
 *     cc hip_pooled.c -o hip_pooled $(pkg-config --cflags --libs leat-hip)
 *     hipcc -x hip hip_pooled.c -o hip_pooled       # the same with AMD's library
 *
 * Each round allocates and frees its memory without waiting for the device. The pool keeps freed memory up to its
 * release threshold, so only the first round asks the driver for memory.
 */
#include <hip/hip_runtime.h>

#include <inttypes.h>
#include <stdio.h>

#define BYTES ((size_t)1 << 20)
#define ROUNDS 100

#define CHECK(call) check((call), #call)

static int check(hipError_t error, const char *call)
{
    if (error == hipSuccess)
        return 0;
    fprintf(stderr, "hip_pooled: %s: %s (%s)\n", call, hipGetErrorString(error), hipGetErrorName(error));
    return 1;
}

static int one_round(int number, hipStream_t stream, unsigned char *last)
{
    unsigned char *memory;

    return CHECK(hipMallocAsync((void **)&memory, BYTES, stream)) ||
           CHECK(hipMemsetAsync(memory, number, BYTES, stream)) ||
           CHECK(hipMemcpyAsync(last, memory + BYTES - 1, 1, hipMemcpyDeviceToHost, stream)) ||
           CHECK(hipFreeAsync(memory, stream));
}

int main(void)
{
    uint64_t keep = 4 * BYTES, most = 0;
    unsigned char *last;
    hipStream_t stream;
    hipMemPool_t pool;

    if (CHECK(hipStreamCreate(&stream)) || CHECK(hipDeviceGetDefaultMemPool(&pool, 0)) ||
        CHECK(hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &keep)) ||
        CHECK(hipHostMalloc((void **)&last, ROUNDS, hipHostMallocDefault)))
        return 1;
    for (int i = 0; i < ROUNDS; i++)
        if (one_round(i, stream, last + i))
            return 1;
    if (CHECK(hipStreamSynchronize(stream)) ||
        CHECK(hipMemPoolGetAttribute(pool, hipMemPoolAttrReservedMemHigh, &most)))
        return 1;
    for (int i = 0; i < ROUNDS; i++)
        if (last[i] != i) {
            fprintf(stderr, "hip_pooled: round %d left %d\n", i, last[i]);
            return 1;
        }
    printf("%d rounds of %zu bytes took %" PRIu64 " bytes of the device\n", ROUNDS, BYTES, most);
    if (CHECK(hipHostFree(last)) || CHECK(hipStreamDestroy(stream)))
        return 1;
    return CHECK(hipDeviceReset()); /* frees everything, so that leak checkers find nothing */
}
