/*
 * hip_managed.c - implements prefetch and advice; gpu/gpu_managed.h has the rest of managed memory.
 */
#include "driver/hip/hip_driver.h"

#include "driver/gpu/gpu_managed.h"

leat_status leati_hip_managed_prefetch(struct leati_driver *driver, void *stream, void *ptr, size_t bytes,
                                       void *to)
{
    struct gpu_stream *on = stream;
    struct gpu_device *place = to;

    (void)driver;
    if (!on->device->api->prefetch)
        return fail_without(leati_hip_names.prefetch);
    LEATI_TRY(check_concurrent(on->device, "prefetch"));
    if (place)
        LEATI_TRY(check_concurrent(place, "prefetch"));
    GPU_TRY(on->device, prefetch, ptr, bytes, number_of(place), on->handle);
    return LEAT_OK;
}

leat_status leati_hip_managed_advise(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                                     leat_advice advice, void *where)
{
    struct gpu_device *self = device;
    struct gpu_device *place = where;

    (void)driver;
    if (!self->api->advise)
        return fail_without(leati_hip_names.advise);
    if (place)
        LEATI_TRY(check_concurrent(place, "advice"));
    /* leat_advice has the same values as HIP's enumeration. */
    GPU_TRY(self, advise, ptr, bytes, (hi_mem_advice)advice, number_of(place));
    return LEAT_OK;
}
