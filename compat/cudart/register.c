/*
 * register.c - implements the calls that NVIDIA's compiler puts into a program: they register the program's GPU
 * code when it starts, and pass the configuration of a launch.
 *
 * leat cannot run this code on the CPU device, and does not load it on a GPU. It remembers the functions, so that
 * launching one returns cudaErrorNoKernelImageForDevice, as NVIDIA's runtime does if a program has no code for the
 * device. Variables need no record, because symbol.c finds them in the program.
 */
#include "cudart/cudart.h"

#include <leat/compat/kernel_support.h>

#include <pthread.h>
#include <stdlib.h>

/* The GPU code of one object file. The program's handle of it is the address. */
struct fat_binary {
    void *first; /* the type of the handle is void **; programs do not read it */
    struct fat_binary *next;
};

struct function {
    const void *address;
    const struct fat_binary *code;
    struct function *next;
};

#define BUCKETS 16384 /* PyTorch registers tens of thousands of functions */

/* Guards the records. Programs register before main(), and when they load or unload a library. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct fat_binary *binaries;
static struct function *buckets[BUCKETS];

static struct function **bucket_of(const void *address)
{
    return &buckets[((uintptr_t)address >> 4) % BUCKETS];
}

static bool is_registered(const void *address)
{
    const struct function *function;

    pthread_rwlock_rdlock(&lock);
    for (function = *bucket_of(address); function && function->address != address;)
        function = function->next;
    pthread_rwlock_unlock(&lock);
    return function != NULL;
}

int cudart_kernel_result(int result, const void *function)
{
    return result == LEATC_INVALID_FUNCTION && is_registered(function) ? cudaErrorNoKernelImageForDevice : result;
}

int cudart_function_check(const void *function)
{
    return cudart_kernel_result(leatc_function_check(function), function);
}

/* ---- registration ---- */

/* Returns the handle of GPU code. If out of memory, returns NULL; its functions are then not remembered, and
 * launching one returns cudaErrorInvalidDeviceFunction. */
void **__cudaRegisterFatBinary(void *fatCubin)
{
    struct fat_binary *made = calloc(1, sizeof *made);

    if (!made)
        return NULL;
    made->first = fatCubin;
    pthread_rwlock_wrlock(&lock);
    made->next = binaries;
    binaries = made;
    pthread_rwlock_unlock(&lock);
    return &made->first;
}

void __cudaRegisterFatBinaryEnd(void **fatCubinHandle)
{
    (void)fatCubinHandle;
}

char __cudaInitModule(void **fatCubinHandle)
{
    (void)fatCubinHandle;
    return 1;
}

void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun, const char *deviceName,
                            int thread_limit, void *tid, void *bid, dim3 *bDim, dim3 *gDim, int *wSize)
{
    struct function *made = fatCubinHandle && hostFun ? calloc(1, sizeof *made) : NULL;

    (void)deviceFun, (void)deviceName, (void)thread_limit, (void)tid, (void)bid, (void)bDim, (void)gDim,
        (void)wSize;
    if (!made)
        return;
    made->address = hostFun;
    made->code = (const struct fat_binary *)(const void *)fatCubinHandle;
    pthread_rwlock_wrlock(&lock);
    made->next = *bucket_of(hostFun);
    *bucket_of(hostFun) = made;
    pthread_rwlock_unlock(&lock);
}

void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress, const char *deviceName, int ext,
                       size_t size, int constant, int global)
{
    (void)fatCubinHandle, (void)hostVar, (void)deviceAddress, (void)deviceName;
    (void)ext, (void)size, (void)constant, (void)global;
}

/* Forgets the functions of the code. Called when the library with the code is unloaded, whose addresses others may
 * get, and when the program ends. */
void __cudaUnregisterFatBinary(void **fatCubinHandle)
{
    struct fat_binary **link = &binaries, *found;

    pthread_rwlock_wrlock(&lock);
    while (*link && (void *)*link != (void *)fatCubinHandle)
        link = &(*link)->next;
    found = *link;
    if (found) {
        *link = found->next;
        for (int i = 0; i < BUCKETS; i++)
            for (struct function **at = &buckets[i], *function; (function = *at);) {
                if (function->code != found) {
                    at = &function->next;
                    continue;
                }
                *at = function->next;
                free(function);
            }
    }
    pthread_rwlock_unlock(&lock);
    free(found);
}

/* ---- launches ---- */

/* Stores the configuration between <<< and >>>. The function of the kernel takes it. Returns 0: the kernel may be
 * launched. */
unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem, struct CUstream_st *stream)
{
    leat_launch_shape_put(&(leat_launch_shape){.grid = {gridDim.x, gridDim.y, gridDim.z},
                                               .block = {blockDim.x, blockDim.y, blockDim.z},
                                               .shared_bytes = sharedMem,
                                               .stream = stream});
    return 0;
}

/* *stream is the stream; the type of the parameter is that of NVIDIA's function. */
cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem, void *stream)
{
    leat_launch_shape shape;

    if (!gridDim || !blockDim || !sharedMem || !stream)
        return note(LEATC_INVALID_VALUE);
    if (!leat_launch_shape_take(&shape))
        return note(cudaErrorMissingConfiguration);
    *gridDim = (dim3){shape.grid.x, shape.grid.y, shape.grid.z};
    *blockDim = (dim3){shape.block.x, shape.block.y, shape.block.z};
    *sharedMem = shape.shared_bytes;
    *(void **)stream = shape.stream;
    return cudaSuccess;
}

/* Returns the kernel of a function. The kernel of GPU code is the function's own address: a launch of it returns
 * the error, so that the program finds it where it looks for errors. */
static int get_kernel(cudaKernel_t *kernel, const void *function)
{
    if (!kernel)
        return LEATC_INVALID_VALUE;
    if (!is_registered(function))
        LEATC_TRY(leatc_function_check(function));
    *kernel = (cudaKernel_t)(void *)(uintptr_t)function;
    return LEATC_OK;
}

FORWARD(cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *entryFuncAddr),
        get_kernel(kernel, entryFuncAddr))
FORWARD(cudaError_t cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr),
        get_kernel(kernelPtr, entryFuncAddr))

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
                               cudaStream_t stream)
{
    return cudaLaunchKernel(kernel, gridDim, blockDim, args, sharedMem, stream);
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
                                    size_t sharedMem, cudaStream_t stream)
{
    return cudaLaunchKernel(kernel, gridDim, blockDim, args, sharedMem,
                            stream ? stream : (cudaStream_t)(void *)LEATC_STREAM_PER_THREAD);
}
