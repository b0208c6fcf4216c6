/* occupancy.c - computes how many blocks of a kernel a device can run concurrently, only from the limits of the
 * device. */
#include "hip/module.h"

#define FLAGS ((unsigned)hipOccupancyDisableCachingOverride)

static int block_limit(int ordinal, int *threads)
{
    return leatc_device_attribute(ordinal, 1, threads);
}

/* Returns how many blocks one multiprocessor can run concurrently: 0 if the device cannot run blocks of this
 * size. */
static int active_blocks(int *blocks, int block_threads, size_t shared_bytes, unsigned flags)
{
    int ordinal = 0, most = 0;

    if (!blocks || block_threads <= 0 || flags & ~FLAGS)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_device_get(&ordinal));
    LEATC_TRY(block_limit(ordinal, &most));
    if (block_threads <= most)
        return leatc_occupancy(ordinal, block_threads, shared_bytes, blocks);
    *blocks = 0;
    return LEATC_OK;
}

/* Returns the largest block size of the device, or limit if that is smaller, and the number of such blocks that
 * all multiprocessors can run. */
static int block_size(int *grid, int *block, size_t shared_bytes, int limit, unsigned flags)
{
    int ordinal = 0, threads = 0, processors = 0, blocks = 0;

    if (!grid || !block || flags & ~FLAGS)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_device_get(&ordinal));
    LEATC_TRY(block_limit(ordinal, &threads));
    LEATC_TRY(leatc_device_attribute(ordinal, 16, &processors));
    if (limit > 0 && limit < threads)
        threads = limit;
    LEATC_TRY(active_blocks(&blocks, threads, shared_bytes, flags));
    *grid = blocks * processors;
    *block = threads;
    return LEATC_OK;
}

static int available_shared(size_t *bytes, int blocks, int block_threads)
{
    int ordinal = 0, most = 0, of_unit = 0, of_block = 0;

    if (!bytes || blocks <= 0)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(active_blocks(&most, block_threads, 0, 0));
    if (blocks > most)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_device_get(&ordinal));
    LEATC_TRY(leatc_device_attribute(ordinal, 81, &of_unit));
    LEATC_TRY(leatc_device_attribute(ordinal, 97, &of_block));
    *bytes = (size_t)(of_unit / blocks < of_block ? of_unit / blocks : of_block);
    return LEATC_OK;
}

/* ---- by function pointer ---- */

hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function,
                                                                 int blockThreads, size_t sharedBytes,
                                                                 unsigned int flags)
{
    int result = leatc_hip_check_pointer(function);

    return note(result == LEATC_OK ? active_blocks(blocks, blockThreads, sharedBytes, flags) : result);
}

hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int blockThreads,
                                                        size_t sharedBytes)
{
    return hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, blockThreads, sharedBytes,
                                                                 hipOccupancyDefault);
}

hipError_t hipOccupancyMaxPotentialBlockSize(int *gridSize, int *blockSize, const void *function,
                                             size_t sharedBytes, int blockLimit)
{
    int result = leatc_hip_check_pointer(function);

    return note(result == LEATC_OK ? block_size(gridSize, blockSize, sharedBytes, blockLimit, 0) : result);
}

hipError_t hipOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *function, int blocks,
                                                    int blockThreads)
{
    int result = leatc_hip_check_pointer(function);

    return note(result == LEATC_OK ? available_shared(bytes, blocks, blockThreads) : result);
}

/* ---- of modules ---- */

hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, hipFunction_t function,
                                                                       int blockThreads, size_t sharedBytes,
                                                                       unsigned int flags)
{
    int result = leatc_hip_check_function(function);

    return note(result == LEATC_OK ? active_blocks(blocks, blockThreads, sharedBytes, flags) : result);
}

hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, hipFunction_t function,
                                                              int blockThreads, size_t sharedBytes)
{
    return hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, blockThreads, sharedBytes,
                                                                       hipOccupancyDefault);
}

hipError_t hipModuleOccupancyMaxPotentialBlockSizeWithFlags(int *gridSize, int *blockSize, hipFunction_t function,
                                                            size_t sharedBytes, int blockLimit, unsigned int flags)
{
    int result = leatc_hip_check_function(function);

    return note(result == LEATC_OK ? block_size(gridSize, blockSize, sharedBytes, blockLimit, flags) : result);
}

hipError_t hipModuleOccupancyMaxPotentialBlockSize(int *gridSize, int *blockSize, hipFunction_t function,
                                                   size_t sharedBytes, int blockLimit)
{
    return hipModuleOccupancyMaxPotentialBlockSizeWithFlags(gridSize, blockSize, function, sharedBytes, blockLimit,
                                                            hipOccupancyDefault);
}
