/* occupancy.c - how many blocks a device runs at a time, by its limits alone, and grids whose blocks run together.
 */
#include "engine/inside.h"

int leatc_occupancy(int ordinal, int block_threads, size_t shared_bytes, int *blocks)
{
    int threads, most, shared;

    if (!blocks || block_threads <= 0)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_device_attribute(ordinal, 39, &threads));
    LEATC_TRY(leatc_device_attribute(ordinal, 106, &most));
    LEATC_TRY(leatc_device_attribute(ordinal, 81, &shared));
    if (threads / block_threads < most)
        most = threads / block_threads;
    if (shared_bytes && (size_t)shared / shared_bytes < (size_t)most)
        most = (int)((size_t)shared / shared_bytes);
    *blocks = most;
    return LEATC_OK;
}

/* Blocks of leat's kernels cannot wait for one another. */
int leatc_launch_together(const void *function, leat_dim3 grid, leat_dim3 block, void **args, size_t shared_bytes,
                          struct leatc_stream *stream)
{
    (void)grid, (void)block, (void)args, (void)shared_bytes;
    LEATC_TRY(leatc_function_check(function));
    LEATC_TRY(leatc_stream_check(stream));
    return LEATC_NOT_SUPPORTED;
}
