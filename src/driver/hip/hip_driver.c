/*
 * hip_driver.c - defines the table and the capabilities of the HIP driver.
 */
#include "base/lock.h"
#include "driver/hip/hip_driver.h"

#define GPU_MORE_ENTRIES /* none */

#include "driver/gpu/gpu_table.h"

/* The values of batch are those of NVIDIA GPUs (cuda_driver.c). They were not measured on AMD GPUs. */
static const struct leati_capabilities capabilities = {
    .dma_engines = true,
    .per_thread_stream = LEATI_HIP_STREAM_PER_THREAD,
    .batch = {.fewest_ranges = 16, .largest_bytes = (size_t)128 << 10},
};

struct leati_driver *leati_hip_driver(void)
{
    static struct gpu_driver driver = {
        .base = {.name = GPU_DRIVER_NAME, .ops = &gpu_ops, .can = &capabilities},
        .open_lock = LEATI_LOCK_INITIALIZER,
    };

    return &driver.base;
}
