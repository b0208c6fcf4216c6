/*
 * gpu_module.h - launches kernels. See gpu_driver.h.
 *
 * The vendor's file has the entries for modules and kernels, and allow_shared().
 */
#include "driver/gpu/gpu_driver.h"

/* Lets the kernel use shared_bytes of dynamic shared memory; fails if it cannot. Called only if shared_bytes is
 * not 0.
 */
static leat_status allow_shared(const struct gpu_device *device, gpu_function function, size_t shared_bytes);

/* Fails if the kernel's static shared memory (fixed) and shared_bytes together exceed the shared memory of a
 * block. *limit becomes the largest dynamic shared memory that the device allows for this kernel. */
static leat_status check_shared(const struct gpu_device *device, int fixed, size_t shared_bytes, int *limit)
{
    *limit = device->max_shared_bytes - fixed;
    if (*limit >= 0 && shared_bytes <= (size_t)*limit)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_INVALID,
                      "%zu bytes of dynamic and %d bytes of static shared memory exceed the %d bytes of a block",
                      shared_bytes, fixed, device->max_shared_bytes);
}

leat_status GPU(launch)(struct leati_driver *driver, void *stream, void *kernel, leat_dim3 grid, leat_dim3 block,
                        size_t shared_bytes, void *const *args, unsigned argument_count)
{
    struct gpu_stream *on = stream;
    gpu_function function = kernel;

    (void)driver;
    (void)argument_count; /* unused, because the vendor knows the number of arguments */
    if (shared_bytes > 0)
        LEATI_TRY(allow_shared(on->device, function, shared_bytes));
    GPU_TRY(on->device, launch, function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
            (unsigned int)shared_bytes, on->handle, (void **)(uintptr_t)args, NULL);
    return LEAT_OK;
}
