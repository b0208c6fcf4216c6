/* occupancy.c - how many blocks a device runs at a time, from its limits alone. */
#include "cuda/names.h"

static CUresult check_function(CUfunction function)
{
    int threads;

    return cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int block_threads,
                                                              size_t shared_bytes, unsigned flags)
{
    int threads, most;
    CUcontext context;

    (void)shared_bytes;
    CU_TRY(leatcu_enter(&context));
    CU_CHECK(blocks && block_threads > 0 && !(flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE));
    CU_TRY(check_function(function));
    CU_TRY(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, context->ordinal));
    CU_TRY(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, context->ordinal));
    *blocks = threads / block_threads < most ? threads / block_threads : most;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block_threads,
                                                     size_t shared_bytes)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_threads, shared_bytes, 0);
}

/* A block as large as the device takes, and blocks for all of its multiprocessors. */
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *min_blocks, int *block_threads, CUfunction function,
                                                   CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit,
                                                   unsigned flags)
{
    int threads, processors, blocks;
    CUcontext context;

    (void)shared_of;
    CU_TRY(leatcu_enter(&context));
    CU_CHECK(min_blocks && block_threads);
    CU_TRY(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
    CU_TRY(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, context->ordinal));
    if (limit > 0 && limit < threads)
        threads = limit;
    CU_TRY(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, function, threads, shared_bytes, flags));
    *block_threads = threads;
    *min_blocks = blocks * processors;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *min_blocks, int *block_threads, CUfunction function,
                                          CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(min_blocks, block_threads, function, shared_of, shared_bytes,
                                                     limit, 0);
}
