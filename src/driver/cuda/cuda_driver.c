/*
 * cuda_driver.c - defines the table and the capabilities of the CUDA driver.
 */
#include "base/lock.h"
#include "driver/cuda/cuda_driver.h"

#define GPU_MORE_ENTRIES .vm_set_rights = leati_cuda_vm_set_rights, .kernel_parameter = leati_cuda_kernel_parameter

#include "driver/gpu/gpu_table.h"

/* Measured: a copy by the driver takes about 2.5 us, and a kernel launch with its preparation 10 to 20 us. A DMA
 * of 128 KiB or more saturates the link, so larger ranges gain nothing from a batch kernel (docs/copies.md,
 * bench/results). */
static const struct leati_capabilities capabilities = {
    .dma_engines = true,
    .per_thread_stream = LEATI_CU_STREAM_PER_THREAD,
    .batch = {.fewest_ranges = 16, .largest_bytes = (size_t)128 << 10},
};

struct leati_driver *leati_cuda_driver(void)
{
    static struct gpu_driver driver = {
        .base = {.name = GPU_DRIVER_NAME, .ops = &gpu_ops, .can = &capabilities},
        .open_lock = LEATI_LOCK_INITIALIZER,
    };

    return &driver.base;
}
