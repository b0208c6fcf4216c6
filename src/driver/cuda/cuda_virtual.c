/*
 * cuda_virtual.c - sets the access rights of devices to mappings; gpu/gpu_virtual.h has the rest.
 */
#include "driver/cuda/cuda_driver.h"

#include "driver/gpu/gpu_virtual.h"

/* CUDA's import call takes the number of the file descriptor, converted to a pointer. */
static void *import_argument(const struct gpu_device *device, int *fd)
{
    (void)device;
    return (void *)(intptr_t)*fd;
}

leat_status leati_cuda_vm_set_rights(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                                     const struct leati_right *rights, unsigned count)
{
    struct gpu_device *self = device;

    (void)driver;
    for (unsigned i = 0; i < count; i++) {
        const struct gpu_device *peer = rights[i].device;
        cu_mem_access access = access_of(peer->number);

        access.flags = (unsigned)rights[i].access; /* leat's values are the same as CUDA's */
        GPU_TRY(self, vm_set_access, gpu_address_of(ptr), bytes, &access, 1);
    }
    return LEAT_OK;
}
