/* occupancy.c - computes how many blocks one multiprocessor of a device can run concurrently, from the device's
 * limits. */
#include "engine/inside.h"

int leatc_occupancy(int ordinal, int block_threads, size_t shared_bytes, int *blocks)
{
    int threads, most, shared;

    if (!blocks || block_threads <= 0)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_device_attribute(ordinal, LEATC_ATTRIBUTE_UNIT_THREADS, &threads));
    LEATC_TRY(leatc_device_attribute(ordinal, LEATC_ATTRIBUTE_UNIT_BLOCKS, &most));
    LEATC_TRY(leatc_device_attribute(ordinal, LEATC_ATTRIBUTE_UNIT_SHARED, &shared));
    if (threads / block_threads < most)
        most = threads / block_threads;
    if (shared_bytes && (size_t)shared / shared_bytes < (size_t)most)
        most = (int)((size_t)shared / shared_bytes);
    *blocks = most;
    return LEATC_OK;
}
