/* occupancy.c - computes how many blocks a device can run concurrently, only from the limits of the device. */
#include "cuda/names.h"

static CUresult check_function(CUfunction function)
{
    int threads;

    return cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int block_threads,
                                                              size_t shared_bytes, unsigned flags)
{
    CUcontext context;

    CU_TRY(leatcu_enter(&context));
    CU_CHECK(blocks && block_threads > 0 && !(flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE));
    CU_TRY(check_function(function));
    return leatcu_result(leatc_occupancy(context->ordinal, block_threads, shared_bytes, blocks));
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block_threads,
                                                     size_t shared_bytes)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_threads, shared_bytes, 0);
}

/* Returns the shared memory of a multiprocessor, divided by the number of blocks. INVALID_VALUE: this number of
 * blocks cannot run concurrently. */
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *shared_bytes, CUfunction function, int blocks,
                                                 int block_threads)
{
    CUcontext context;
    int most, shared;

    CU_TRY(leatcu_enter(&context));
    CU_CHECK(shared_bytes && blocks > 0 && block_threads > 0);
    CU_TRY(check_function(function));
    CU_TRY(leatcu_result(leatc_occupancy(context->ordinal, block_threads, 0, &most)));
    CU_CHECK(blocks <= most);
    CU_TRY(leatcu_result(leatc_device_attribute(context->ordinal, LEATC_ATTRIBUTE_UNIT_SHARED, &shared)));
    *shared_bytes = (size_t)(shared / blocks);
    return CUDA_SUCCESS;
}

/* Returns the largest block size with maximum occupancy, and the number of such blocks that all multiprocessors
 * can run. Tries the largest allowed block size, and the smaller multiples of the warp size. */
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *min_blocks, int *block_threads, CUfunction function,
                                                   CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit,
                                                   unsigned flags)
{
    int most, processors, blocks, best = 0;
    CUcontext context;

    CU_TRY(leatcu_enter(&context));
    CU_CHECK(min_blocks && block_threads && !(flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE));
    CU_TRY(cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
    CU_TRY(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, context->ordinal));
    if (limit > 0 && limit < most)
        most = limit;
    for (int threads = most; threads > 0; threads = (threads - 1) / 32 * 32) {
        CU_TRY(leatcu_result(
            leatc_occupancy(context->ordinal, threads, shared_of ? shared_of(threads) : shared_bytes, &blocks)));
        if (blocks * threads > best) {
            best = blocks * threads;
            *block_threads = threads;
            *min_blocks = blocks * processors;
        }
    }
    return best ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *min_blocks, int *block_threads, CUfunction function,
                                          CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(min_blocks, block_threads, function, shared_of, shared_bytes,
                                                     limit, 0);
}
