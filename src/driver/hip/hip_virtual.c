/*
 * hip_virtual.c - the descriptors of exported memory; gpu/gpu_virtual.h has the rest.
 */
#include "driver/hip/hip_driver.h"

#include "driver/gpu/gpu_virtual.h"

/* A pointer to the number, and since HIP 7.1 the number itself. */
static void *import_argument(const struct gpu_device *device, int *fd)
{
    return device->api->number >= LEATI_HIP_VERSION(7, 1) ? (void *)(intptr_t)*fd : fd;
}
