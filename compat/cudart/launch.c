/* launch.c - kernels: by function pointer, and from libraries of device code. */
#include "cudart/cudart.h"

#include <string.h>

cudaError_t cudaLaunchKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
                             cudaStream_t stream)
{
    return note(leatc_launch(func, leat_dim(gridDim.x, gridDim.y, gridDim.z),
                             leat_dim(blockDim.x, blockDim.y, blockDim.z), args, sharedMem, stream_of(stream)));
}

/* Of the attributes, those that say how a launch may be made faster are not needed, and the others not there. */
static int check_launch_attributes(const cudaLaunchConfig_t *config)
{
    if (config->numAttrs && !config->attrs)
        return LEATC_INVALID_VALUE;
    for (unsigned i = 0; i < config->numAttrs; i++)
        switch (config->attrs[i].id) {
        case cudaLaunchAttributeCooperative:
            if (config->attrs[i].val.cooperative)
                return LEATC_NOT_SUPPORTED;
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
    int result = config ? check_launch_attributes(config) : LEATC_INVALID_VALUE;

    if (result != LEATC_OK)
        return note(result);
    return cudaLaunchKernel(func, config->gridDim, config->blockDim, args, config->dynamicSmemBytes,
                            config->stream);
}

/* Kernels of leat's cannot wait for one another. */
cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
                                        size_t sharedMem, cudaStream_t stream)
{
    (void)gridDim, (void)blockDim, (void)args, (void)sharedMem, (void)stream;
    return note(func ? LEATC_NOT_SUPPORTED : LEATC_INVALID_FUNCTION);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
    int device = 0, threads = 0, result = leatc_function_check(func);

    if (!attr)
        return note(LEATC_INVALID_VALUE);
    if (result == LEATC_OK)
        result = leatc_device_get(&device);
    if (result == LEATC_OK)
        result = leatc_device_attribute(device, 1, &threads);
    if (result != LEATC_OK)
        return note(result);
    memset(attr, 0, sizeof *attr);
    attr->maxThreadsPerBlock = threads;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
    if (attr < cudaFuncAttributeMaxDynamicSharedMemorySize || attr >= cudaFuncAttributeMax || value < -1)
        return note(LEATC_INVALID_VALUE);
    return note(leatc_function_check(func));
}

cudaError_t cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache cacheConfig)
{
    if ((unsigned)cacheConfig > cudaFuncCachePreferEqual)
        return note(LEATC_INVALID_VALUE);
    return note(leatc_function_check(func));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, const void *func, int blockSize,
                                                                   size_t dynamicSMemSize, unsigned int flags)
{
    int device = 0, threads = 0, blocks = 0, result = leatc_function_check(func);

    (void)dynamicSMemSize;
    if (!numBlocks || blockSize <= 0 || flags & ~(unsigned)cudaOccupancyDisableCachingOverride)
        return note(LEATC_INVALID_VALUE);
    if (result == LEATC_OK)
        result = leatc_device_get(&device);
    if (result == LEATC_OK)
        result = leatc_device_attribute(device, 39, &threads);
    if (result == LEATC_OK)
        result = leatc_device_attribute(device, 106, &blocks);
    if (result == LEATC_OK)
        *numBlocks = threads / blockSize < blocks ? threads / blockSize : blocks;
    return note(result);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, const void *func, int blockSize,
                                                          size_t dynamicSMemSize)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize, 0);
}

/* ---- libraries ---- */

/* The length of an image, which the vendor's call does not ask for: that of a text, or of an ELF file as its
 * header says. 0 for anything else. */
static size_t image_bytes(const void *code)
{
    const unsigned char *image = code;
    uint64_t sections;
    uint16_t size, count;

    if (memcmp(image, "\177ELF", 4))
        return image[0] == '\n' || image[0] == '/' || image[0] == '.' || image[0] == ' ' ? strlen(code) + 1 : 0;
    /* The table of sections is the last thing in a file: its place, and the size and count of its entries. */
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

cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
    return note(leatc_library_unload((struct leatc_library *)(void *)library));
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *pKernel, cudaLibrary_t library, const char *name)
{
    return note(leatc_library_kernel((struct leatc_library *)(void *)library, name, (void **)(void *)pKernel));
}
