/* launch.c - launches kernels by function pointer, and loads libraries of device code. */
#include "cudart/cudart.h"

#include <string.h>

cudaError_t cudaLaunchKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
                             cudaStream_t stream)
{
    int result = leatc_launch(func, leat_dim(gridDim.x, gridDim.y, gridDim.z),
                              leat_dim(blockDim.x, blockDim.y, blockDim.z), args, sharedMem, stream_of(stream));

    return (cudaError_t)leatc_note_launch(cudart_kernel_result(result, func));
}

/* Checks the attributes of a launch. Ignores those that are hints for speed, and refuses those that leat cannot
 * provide. */
static int check_launch_attributes(const cudaLaunchConfig_t *config, bool *cooperative)
{
    if (config->numAttrs && !config->attrs)
        return LEATC_INVALID_VALUE;
    for (unsigned i = 0; i < config->numAttrs; i++)
        switch (config->attrs[i].id) {
        case cudaLaunchAttributeCooperative:
            *cooperative = config->attrs[i].val.cooperative;
            break;
        case cudaLaunchAttributeClusterDimension:
        case cudaLaunchAttributeProgrammaticEvent:
            return LEATC_NOT_SUPPORTED;
        default:
            break;
        }
    return LEATC_OK;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
    bool cooperative = false;
    int result = config ? check_launch_attributes(config, &cooperative) : LEATC_INVALID_VALUE;

    if (result != LEATC_OK)
        return note(result);
    return (cooperative ? cudaLaunchCooperativeKernel : cudaLaunchKernel)(
        func, config->gridDim, config->blockDim, args, config->dynamicSmemBytes, config->stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
                                        size_t sharedMem, cudaStream_t stream)
{
    int result =
        leatc_launch_together(func, leat_dim(gridDim.x, gridDim.y, gridDim.z),
                              leat_dim(blockDim.x, blockDim.y, blockDim.z), args, sharedMem, stream_of(stream));

    return (cudaError_t)leatc_note_launch(cudart_kernel_result(result, func));
}

/* Returns an attribute of the current device. */
static int current_attribute(int number, int *value)
{
    int device = 0;

    LEATC_TRY(leatc_device_get(&device));
    return leatc_device_attribute(device, number, value);
}

/* Returns the attributes of a kernel. numRegs is 16, the number of registers of x86-64: programs divide by it, so
 * it cannot be 0. The memory use of a kernel is unknown and reported as 0. */
static int function_attributes(const void *function, struct cudaFuncAttributes *attr)
{
    int threads = 0, major = 0, minor = 0;
    size_t shared = leatc_function_shared(function);

    LEATC_TRY(cudart_function_check(function));
    LEATC_TRY(current_attribute(cudaDevAttrMaxThreadsPerBlock, &threads));
    LEATC_TRY(current_attribute(cudaDevAttrComputeCapabilityMajor, &major));
    LEATC_TRY(current_attribute(cudaDevAttrComputeCapabilityMinor, &minor));
    memset(attr, 0, sizeof *attr);
    attr->maxThreadsPerBlock = threads;
    attr->numRegs = 16;
    attr->ptxVersion = attr->binaryVersion = major * 10 + minor;
    attr->maxDynamicSharedSizeBytes = (int)(shared == SIZE_MAX ? LEATC_SHARED_BYTES : shared);
    attr->preferredShmemCarveout = -1;
    return LEATC_OK;
}

FORWARD(cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func),
        attr ? function_attributes(func, attr) : LEATC_INVALID_VALUE)

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
    int result = cudart_function_check(func), most = 0;

    if (attr < cudaFuncAttributeMaxDynamicSharedMemorySize || attr >= cudaFuncAttributeMax || value < -1)
        return note(LEATC_INVALID_VALUE);
    if (result == LEATC_OK && attr == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        result = current_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &most);
        if (result == LEATC_OK && (value < 0 || value > most))
            result = LEATC_INVALID_VALUE;
        if (result == LEATC_OK)
            leatc_function_set_shared(func, (size_t)value);
    }
    return note(result);
}

FORWARD(cudaError_t cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache cacheConfig),
        (unsigned)cacheConfig > cudaFuncCachePreferEqual ? LEATC_INVALID_VALUE : cudart_function_check(func))

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, const void *func, int blockSize,
                                                                   size_t dynamicSMemSize, unsigned int flags)
{
    int device = 0, result = cudart_function_check(func);

    if (!numBlocks || blockSize <= 0 || flags & ~(unsigned)cudaOccupancyDisableCachingOverride)
        return note(LEATC_INVALID_VALUE);
    if (result == LEATC_OK)
        result = leatc_device_get(&device);
    if (result == LEATC_OK)
        result = leatc_occupancy(device, blockSize, dynamicSMemSize, numBlocks);
    return note(result);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, const void *func, int blockSize,
                                                          size_t dynamicSMemSize)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize, 0);
}

/* Returns the shared memory of a multiprocessor, divided by the number of blocks. Fails with cudaErrorInvalidValue
 * if this number of blocks cannot run concurrently. */
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, const void *func, int numBlocks,
                                                      int blockSize)
{
    int device = 0, most = 0, shared = 0, result = cudart_function_check(func);

    if (!dynamicSmemSize || numBlocks <= 0 || blockSize <= 0)
        return note(LEATC_INVALID_VALUE);
    if (result == LEATC_OK)
        result = leatc_device_get(&device);
    if (result == LEATC_OK)
        result = leatc_occupancy(device, blockSize, 0, &most);
    if (result == LEATC_OK && numBlocks > most)
        result = LEATC_INVALID_VALUE;
    if (result == LEATC_OK)
        result = leatc_device_attribute(device, LEATC_ATTRIBUTE_UNIT_SHARED, &shared);
    if (result == LEATC_OK)
        *dynamicSmemSize = (size_t)(shared / numBlocks);
    return note(result);
}

/* ---- libraries ---- */

/* Returns the length of an image, for which CUDA's call has no parameter. A text ends at its NUL; the header of an
 * ELF file has the length. Returns 0 for other images. */
static size_t image_bytes(const void *code)
{
    const unsigned char *image = code;
    uint64_t sections;
    uint16_t size, count;

    if (memcmp(image, "\177ELF", 4))
        return image[0] == '\n' || image[0] == '/' || image[0] == '.' || image[0] == ' ' ? strlen(code) + 1 : 0;
    /* The section table is the last part of an ELF file. Read the table's offset, entry size and number of
     * entries. */
    memcpy(&sections, image + 40, sizeof sections);
    memcpy(&size, image + 58, sizeof size);
    memcpy(&count, image + 60, sizeof count);
    return (size_t)sections + (size_t)size * count;
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *jitOptions,
                                void **jitOptionsValues, unsigned int numJitOptions,
                                enum cudaLibraryOption *libraryOptions, void **libraryOptionValues,
                                unsigned int numLibraryOptions)
{
    size_t bytes;

    (void)jitOptionsValues, (void)libraryOptionValues;
    if (!library || !code || (numJitOptions && !jitOptions) || (numLibraryOptions && !libraryOptions))
        return note(LEATC_INVALID_VALUE);
    bytes = image_bytes(code);
    if (!bytes)
        return note(LEATC_INVALID_IMAGE);
    return note(leatc_library_load(code, bytes, NULL, (struct leatc_library **)(void *)library));
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *fileName, enum cudaJitOption *jitOptions,
                                    void **jitOptionsValues, unsigned int numJitOptions,
                                    enum cudaLibraryOption *libraryOptions, void **libraryOptionValues,
                                    unsigned int numLibraryOptions)
{
    int result;

    (void)jitOptionsValues, (void)libraryOptionValues;
    if (!library || !fileName || (numJitOptions && !jitOptions) || (numLibraryOptions && !libraryOptions))
        return note(LEATC_INVALID_VALUE);
    result = leatc_library_load(NULL, 0, fileName, (struct leatc_library **)(void *)library);
    return note(result == LEATC_NOT_FOUND ? cudaErrorFileNotFound : result);
}

FORWARD(cudaError_t cudaLibraryUnload(cudaLibrary_t library),
        leatc_library_unload((struct leatc_library *)(void *)library))
FORWARD(cudaError_t cudaLibraryGetKernel(cudaKernel_t *pKernel, cudaLibrary_t library, const char *name),
        leatc_library_kernel((struct leatc_library *)(void *)library, name, (void **)(void *)pKernel))
FORWARD(cudaError_t cudaLibraryGetKernelCount(unsigned int *count, cudaLibrary_t lib),
        leatc_library_kernel_count((struct leatc_library *)(void *)lib, count))
FORWARD(cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned int numKernels, cudaLibrary_t lib),
        leatc_library_kernels((struct leatc_library *)(void *)lib, numKernels, (void **)(void *)kernels))

/* Checks the arguments and returns NOT_FOUND: leat's libraries have kernels, and no variables or functions that
 * the host can name. */
static int find_in(cudaLibrary_t library, const char *name, const void *result)
{
    unsigned count;
    int checked;

    if (!name || !result)
        return LEATC_INVALID_VALUE;
    checked = leatc_library_kernel_count((struct leatc_library *)(void *)library, &count);
    return checked == LEATC_INVALID_HANDLE ? checked : LEATC_NOT_FOUND;
}

FORWARD(cudaError_t cudaLibraryGetGlobal(void **dptr, size_t *bytes, cudaLibrary_t library, const char *name),
        find_in(library, name, dptr ? (void *)dptr : bytes))
FORWARD(cudaError_t cudaLibraryGetManaged(void **dptr, size_t *bytes, cudaLibrary_t library, const char *name),
        find_in(library, name, dptr ? (void *)dptr : bytes))
FORWARD(cudaError_t cudaLibraryGetUnifiedFunction(void **fptr, cudaLibrary_t library, const char *symbol),
        find_in(library, symbol, fptr))

/* Attributes of a kernel are the same on all devices. */
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attr, int value,
                                            int device)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    int result = leatc_device_describe(device, &info);

    return result == LEATC_OK ? cudaFuncSetAttribute(kernel, attr, value) : note(result);
}
