/*
 * cuda_managed.c - implements prefetch and advice; gpu/gpu_managed.h has the rest of managed memory.
 *
 * CUDA 12.2 added second versions of both calls, which take a struct instead of a device number. Older drivers
 * have only the first versions.
 */
#include "driver/cuda/cuda_driver.h"

#include "driver/gpu/gpu_managed.h"

static cu_mem_location location_of(const struct gpu_device *place)
{
    if (!place)
        return (cu_mem_location){.type = LEATI_CU_MEM_LOCATION_TYPE_HOST};
    return (cu_mem_location){.type = LEATI_CU_MEM_LOCATION_TYPE_DEVICE, .id = place->number};
}

leat_status leati_cuda_managed_prefetch(struct leati_driver *driver, void *stream, void *ptr, size_t bytes,
                                        void *to)
{
    struct gpu_stream *on = stream;
    struct gpu_device *place = to;
    cu_deviceptr address = gpu_address_of(ptr);

    (void)driver;
    LEATI_TRY(check_concurrent(on->device, "prefetch"));
    if (place)
        LEATI_TRY(check_concurrent(place, "prefetch"));
    if (on->device->api->prefetch) {
        GPU_TRY(on->device, prefetch, address, bytes, location_of(place), 0, on->handle);
        return LEAT_OK;
    }
    if (!on->device->api->prefetch_first)
        return fail_without(leati_cuda_names.prefetch_first);
    GPU_TRY(on->device, prefetch_first, address, bytes, number_of(place), on->handle);
    return LEAT_OK;
}

leat_status leati_cuda_managed_advise(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                                      leat_advice advice, void *where)
{
    struct gpu_device *self = device;
    struct gpu_device *place = where;
    cu_deviceptr address = gpu_address_of(ptr);

    (void)driver;
    if (place)
        LEATI_TRY(check_concurrent(place, "advice"));
    /* leat_advice has the same values as CUDA's enumeration. */
    if (self->api->advise) {
        GPU_TRY(self, advise, address, bytes, (cu_mem_advice)advice, location_of(place));
        return LEAT_OK;
    }
    if (!self->api->advise_first)
        return fail_without(leati_cuda_names.advise_first);
    GPU_TRY(self, advise_first, address, bytes, (cu_mem_advice)advice, number_of(place));
    return LEAT_OK;
}
