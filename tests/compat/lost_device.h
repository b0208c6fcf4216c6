/*
 * lost_device.h - lets all devices count as lost, for tests of libleat-cufile, which asks them for their memory. The
 * fault driver has no mode for this.
 */
#ifndef LOST_DEVICE_H
#define LOST_DEVICE_H

#include <dlfcn.h>
#include <leat/leat.h>
#include <stdatomic.h>

static atomic_bool device_is_lost;

/* Stands in for leat's. */
leat_status leat_device_memory(leat_device *device, uint64_t *free_bytes, uint64_t *total_bytes)
{
    leat_status (*real)(leat_device *, uint64_t *, uint64_t *) = NULL;

    if (atomic_load(&device_is_lost))
        return LEAT_ERROR_DEVICE_LOST;
    *(void **)&real = dlsym(RTLD_NEXT, "leat_device_memory");
    return real ? real(device, free_bytes, total_bytes) : LEAT_ERROR_DRIVER;
}

#endif
