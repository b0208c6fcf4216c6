/*
 * cuda_managed.c - managed memory: prefetch, advice, range attributes, attaching to streams.
 *
 * CUDA 12.2 has second versions of the first two, which take a struct in place of a device's number; drivers
 * before that have the first ones only.
 */
#include "driver/cuda/cuda_driver.h"

static cu_device number_of(const struct cuda_device *place)
{
    return place ? place->number : LEATI_CU_DEVICE_CPU;
}

static cu_mem_location location_of(const struct cuda_device *place)
{
    if (!place)
        return (cu_mem_location){.type = LEATI_CU_MEM_LOCATION_TYPE_HOST};
    return (cu_mem_location){.type = LEATI_CU_MEM_LOCATION_TYPE_DEVICE, .id = place->number};
}

/* Devices that cannot use managed memory while the host does have neither. */
static leat_status check_concurrent(const struct cuda_device *device, const char *what)
{
    if (device->concurrent)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_UNSUPPORTED,
                      "cuda:%d cannot use managed memory while the host does (concurrentManagedAccess is 0), and "
                      "has no %s then",
                      device->ordinal, what);
}

leat_status leati_cuda_managed_prefetch(struct leati_driver *driver, void *stream, void *ptr, size_t bytes,
                                        void *to)
{
    struct cuda_stream *on = stream;
    struct cuda_device *place = to;
    cu_deviceptr address = leati_cuda_address(ptr);

    (void)driver;
    LEATI_TRY(check_concurrent(on->device, "prefetch"));
    if (place)
        LEATI_TRY(check_concurrent(place, "prefetch"));
    if (on->device->cu->prefetch) {
        LEATI_CUDA_TRY(on->device, prefetch, address, bytes, location_of(place), 0, on->handle);
        return LEAT_OK;
    }
    if (!on->device->cu->prefetch_first)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "the CUDA driver has no cuMemPrefetchAsync");
    LEATI_CUDA_TRY(on->device, prefetch_first, address, bytes, number_of(place), on->handle);
    return LEAT_OK;
}

leat_status leati_cuda_managed_advise(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                                      leat_advice advice, void *where)
{
    struct cuda_device *self = device;
    struct cuda_device *place = where;
    cu_deviceptr address = leati_cuda_address(ptr);

    (void)driver;
    if (place)
        LEATI_TRY(check_concurrent(place, "advice"));
    /* The numbers of leat_advice are the vendor's. */
    if (self->cu->advise) {
        LEATI_CUDA_TRY(self, advise, address, bytes, (cu_mem_advice)advice, location_of(place));
        return LEAT_OK;
    }
    if (!self->cu->advise_first)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "the CUDA driver has no cuMemAdvise");
    LEATI_CUDA_TRY(self, advise_first, address, bytes, (cu_mem_advice)advice, number_of(place));
    return LEAT_OK;
}

static leat_location place_of(int number)
{
    leat_location place = {.kind = LEAT_LOCATION_NONE, .ordinal = -1};

    if (number == LEATI_CU_DEVICE_CPU)
        place.kind = LEAT_LOCATION_HOST;
    if (number >= 0)
        place = (leat_location){.kind = LEAT_LOCATION_DEVICE, .ordinal = number};
    return place;
}

leat_status leati_cuda_managed_query(struct leati_driver *driver, void *device, const void *ptr, size_t bytes,
                                     leat_managed_info *info)
{
    struct cuda_device *self = device;
    int read_mostly = 0, preferred = LEATI_CU_DEVICE_INVALID, prefetched = LEATI_CU_DEVICE_INVALID;
    int users[LEATI_CUDA_PEERS_MAX + 1]; /* all devices, and the host */
    void *values[] = {&read_mostly, &preferred, users, &prefetched};
    size_t sizes[] = {sizeof read_mostly, sizeof preferred, sizeof users, sizeof prefetched};
    cu_range_attribute wanted[] = {
        LEATI_CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, LEATI_CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
        LEATI_CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, LEATI_CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION};

    (void)driver;
    for (unsigned i = 0; i < sizeof users / sizeof users[0]; i++)
        users[i] = LEATI_CU_DEVICE_INVALID;
    LEATI_CUDA_TRY(self, range_attributes, values, sizes, wanted, sizeof wanted / sizeof wanted[0],
                   leati_cuda_address(ptr), bytes);
    info->read_mostly = read_mostly != 0;
    info->preferred = place_of(preferred);
    info->last_prefetch = place_of(prefetched);
    for (unsigned i = 0; i < sizeof users / sizeof users[0]; i++) {
        info->accessed_by_host |= users[i] == LEATI_CU_DEVICE_CPU;
        if (users[i] >= 0 && users[i] < 32)
            info->accessed_by |= UINT32_C(1) << users[i];
    }
    return LEAT_OK;
}

leat_status leati_cuda_managed_attach(struct leati_driver *driver, void *stream, void *ptr, size_t bytes,
                                      leat_attach attach)
{
    struct cuda_stream *on = stream;

    (void)driver, (void)bytes;
    /* A length of 0 stands for the whole allocation, and the numbers of leat_attach are the vendor's. */
    LEATI_CUDA_TRY(on->device, stream_attach, on->handle, leati_cuda_address(ptr), 0, (unsigned int)attach);
    return LEAT_OK;
}
