/*
 * hip_virtual.c - converts the file descriptors of exported memory; gpu/gpu_virtual.h has the rest.
 */
#include "driver/hip/hip_driver.h"

#include "driver/gpu/gpu_virtual.h"

/* HIP's import call takes a pointer to the file descriptor. Since HIP 7.1 it takes the number of the file
 * descriptor, converted to a pointer, as CUDA does. */
static void *import_argument(const struct gpu_device *device, int *fd)
{
    return device->api->number >= LEATI_HIP_VERSION(7, 1) ? (void *)(intptr_t)*fd : fd;
}
