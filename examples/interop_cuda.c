/*
 * interop_cuda.c - vector addition over two streams, half of it by code that uses the CUDA driver API directly.
 *
 * leat and the program's own CUDA code work in one context and on each other's streams. The CUDA code allocates
 * the device memory and creates one stream, which leat uses too. leat creates the other stream, which the CUDA
 * code waits for, and supplies the kernel:
 *
 *     first half    cuMemcpyHtoDAsync, leat_launch, cuMemcpyDtoHAsync    on the stream from cuStreamCreate
 *     second half   leat_copy, leat_launch, leat_copy                    on the stream from leat_stream_create
 *
 * Building it needs cuda.h, and the NVIDIA driver's libcuda.so.1 or, on a machine without a GPU, the stub library
 * of a CUDA toolkit:
 *
 *     cc -I/usr/local/cuda/include interop_cuda.c -o interop_cuda $(pkg-config --cflags --libs leat) \
 *        -L/usr/local/cuda/lib64/stubs -lcuda
 *
 * Running it needs the driver. Exit status: 0 if the sums are right, 77 if there is no CUDA device, 1 if a step
 * failed.
 */
#include <leat/interop/cuda.h>
#include <leat/leat.h>

#include <stdio.h>

#define COUNT ((size_t)1 << 20)
#define HALF (COUNT / 2)
#define HALF_BYTES (HALF * sizeof(float))

struct work {
    leat_device *device;
    CUcontext context;     /* the device's context, borrowed from leat */
    int context_is_pushed; /* whether this thread has pushed it */

    CUstream cuda_stream; /* created by this program */
    leat_stream *first;   /* leat's handle for cuda_stream */
    leat_stream *second;  /* created by leat */
    leat_event *done;     /* recorded at the end of the second half */

    float *a, *b, *sum;             /* pinned host memory, allocated by leat */
    CUdeviceptr da, db, device_sum; /* device memory, allocated by CUDA */
    leat_kernel *add;
};

/* Both functions print what failed and return 1, so that calls can be chained with ||. */
static int leat_failed(leat_status status, const char *step)
{
    if (status == LEAT_OK)
        return 0;
    fprintf(stderr, "interop_cuda: %s: %s\n", step, leat_last_error());
    return 1;
}

static int cuda_failed(CUresult result, const char *step)
{
    const char *name = NULL;

    if (result == CUDA_SUCCESS)
        return 0;
    if (cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
        name = "unknown CUDA error";
    fprintf(stderr, "interop_cuda: %s: %s\n", step, name);
    return 1;
}

/* Creates the objects of CUDA and of leat, and passes each side's objects to the other. */
static int set_up(struct work *w)
{
    leat_module *kernels;

    if (leat_failed(leat_cuda_context(w->device, &w->context), "ask for the context") ||
        cuda_failed(cuCtxPushCurrent(w->context), "work in leat's context"))
        return 1;
    w->context_is_pushed = 1;
    return cuda_failed(cuStreamCreate(&w->cuda_stream, CU_STREAM_NON_BLOCKING), "make a CUstream") ||
           leat_failed(leat_cuda_stream_wrap(w->device, w->cuda_stream, &w->first), "show the CUstream to leat") ||
           leat_failed(leat_stream_create(w->device, &w->second), "make a leat stream") ||
           leat_failed(leat_event_create(w->device, &w->done), "make an event") ||
           leat_failed(leat_memory_alloc(w->device, LEAT_KIND_PINNED, 2 * HALF_BYTES, (void **)&w->a), "pin a") ||
           leat_failed(leat_memory_alloc(w->device, LEAT_KIND_PINNED, 2 * HALF_BYTES, (void **)&w->b), "pin b") ||
           leat_failed(leat_memory_alloc(w->device, LEAT_KIND_PINNED, 2 * HALF_BYTES, (void **)&w->sum),
                       "pin sum") ||
           cuda_failed(cuMemAlloc(&w->da, 2 * HALF_BYTES), "allocate a on the device") ||
           cuda_failed(cuMemAlloc(&w->db, 2 * HALF_BYTES), "allocate b on the device") ||
           cuda_failed(cuMemAlloc(&w->device_sum, 2 * HALF_BYTES), "allocate the sum on the device") ||
           leat_failed(leat_module_builtin(w->device, &kernels), "load leat's kernels") ||
           leat_failed(leat_kernel_get(kernels, "leat_vector_add_f32", &w->add), "find the kernel");
}

/* Adds the half that starts at element start. The kernel's parameters are sum, a, b and count. */
static leat_status launch_add(const struct work *w, leat_stream *stream, size_t start)
{
    CUdeviceptr sum = w->device_sum + start * sizeof(float);
    CUdeviceptr a = w->da + start * sizeof(float);
    CUdeviceptr b = w->db + start * sizeof(float);
    uint64_t count = HALF;
    void *args[] = {&sum, &a, &b, &count};

    return leat_launch(stream, w->add, leat_dim((uint32_t)((HALF + 255) / 256), 1, 1), leat_dim(256, 1, 1), 0,
                       args, 4);
}

static int add_first_half(const struct work *w)
{
    return cuda_failed(cuMemcpyHtoDAsync(w->da, w->a, HALF_BYTES, w->cuda_stream), "copy a to the device") ||
           cuda_failed(cuMemcpyHtoDAsync(w->db, w->b, HALF_BYTES, w->cuda_stream), "copy b to the device") ||
           leat_failed(launch_add(w, w->first, 0), "add on the CUstream") ||
           cuda_failed(cuMemcpyDtoHAsync(w->sum, w->device_sum, HALF_BYTES, w->cuda_stream), "copy the sum back");
}

/* Passes addresses from cuMemAlloc() to leat_copy(). leat recognizes them as device memory. */
static int add_second_half(const struct work *w)
{
    void *da = leat_cuda_pointer(w->da + HALF_BYTES);
    void *db = leat_cuda_pointer(w->db + HALF_BYTES);
    void *sum = leat_cuda_pointer(w->device_sum + HALF_BYTES);

    return leat_failed(leat_copy(w->second, da, w->a + HALF, HALF_BYTES), "copy a to the device") ||
           leat_failed(leat_copy(w->second, db, w->b + HALF, HALF_BYTES), "copy b to the device") ||
           leat_failed(launch_add(w, w->second, HALF), "add on leat's stream") ||
           leat_failed(leat_copy(w->second, w->sum + HALF, sum, HALF_BYTES), "copy the sum back") ||
           leat_failed(leat_event_record(w->second, w->done), "mark the end of the second half");
}

/* Waits for both streams: the CUDA stream waits for leat's event, and the host waits for the CUDA stream. */
static int wait_for_both(const struct work *w)
{
    CUevent done = NULL;

    return leat_failed(leat_cuda_event(w->done, &done), "ask for the CUevent") ||
           cuda_failed(cuStreamWaitEvent(w->cuda_stream, done, 0), "make the CUstream wait") ||
           cuda_failed(cuStreamSynchronize(w->cuda_stream), "wait for both halves");
}

static int check(const struct work *w)
{
    for (size_t i = 0; i < COUNT; i++) {
        if (w->sum[i] == w->a[i] + w->b[i])
            continue;
        fprintf(stderr, "interop_cuda: element %zu is %g, not %g + %g\n", i, (double)w->sum[i], (double)w->a[i],
                (double)w->b[i]);
        return 1;
    }
    return 0;
}

/* Frees whatever exists; an object that was not created is 0. After a failure the streams may still be working, so
 * wait for the device first. Destroy leat's handle of the CUDA stream before the stream itself. Closing the device
 * destroys leat's own objects. */
static int tear_down(struct work *w)
{
    CUcontext left;
    int failed = 0;

    failed |= leat_failed(leat_device_synchronize(w->device), "wait for the device");
    if (w->da)
        failed |= cuda_failed(cuMemFree(w->da), "free a");
    if (w->db)
        failed |= cuda_failed(cuMemFree(w->db), "free b");
    if (w->device_sum)
        failed |= cuda_failed(cuMemFree(w->device_sum), "free the sum");
    failed |= leat_failed(leat_stream_destroy(w->first), "end the wrapping");
    if (w->cuda_stream)
        failed |= cuda_failed(cuStreamDestroy(w->cuda_stream), "destroy the CUstream");
    if (w->context_is_pushed)
        failed |= cuda_failed(cuCtxPopCurrent(&left), "leave leat's context");
    failed |= leat_failed(leat_device_close(w->device), "close the device");
    return failed;
}

int main(void)
{
    struct work w = {0};
    leat_status status;
    int failed;

    status = leat_device_open("cuda:0", &w.device);
    if (status == LEAT_ERROR_NO_DRIVER || status == LEAT_ERROR_DRIVER_TOO_OLD || status == LEAT_ERROR_NO_DEVICE) {
        printf("skipped: there is no CUDA device: %s\n", leat_last_error());
        return 77;
    }
    if (leat_failed(status, "open cuda:0"))
        return 1;

    failed = set_up(&w);
    for (size_t i = 0; !failed && i < COUNT; i++) {
        w.a[i] = (float)i;
        w.b[i] = (float)(2 * i);
    }
    failed = failed || add_first_half(&w) || add_second_half(&w) || wait_for_both(&w) || check(&w);
    failed |= tear_down(&w);
    if (failed)
        return 1;
    printf("interop_cuda: %zu sums are right, half of them on CUDA's stream and half on leat's\n", COUNT);
    return 0;
}
