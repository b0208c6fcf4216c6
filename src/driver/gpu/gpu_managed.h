/*
 * gpu_managed.h - queries attributes of managed memory, and attaches it to streams. See gpu_driver.h.
 *
 * The vendor's file has GPU(managed_prefetch) and GPU(managed_advise).
 */
#include "driver/gpu/gpu_driver.h"

static gpu_number number_of(const struct gpu_device *place)
{
    return place ? place->number : GPU_NUMBER_OF_HOST;
}

/* Fails if the device cannot access managed memory at the same time as the host, which prefetch and advice need.
 */
static leat_status check_concurrent(const struct gpu_device *device, const char *what)
{
    if (device->concurrent)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_UNSUPPORTED,
                      GPU_DRIVER_NAME ":%d cannot use managed memory while the host does (" GPU_NOT_CONCURRENT
                                      "), and has no %s then",
                      device->ordinal, what);
}

static leat_status fail_without(const char *call)
{
    return leati_fail(LEAT_ERROR_UNSUPPORTED, "the " GPU_LIBRARY " has no %s", call);
}

static leat_location place_of(int number)
{
    leat_location place = {.kind = LEAT_LOCATION_KIND_NONE, .ordinal = -1};

    if (number == GPU_NUMBER_OF_HOST)
        place.kind = LEAT_LOCATION_KIND_HOST;
    if (number >= 0)
        place = (leat_location){.kind = LEAT_LOCATION_KIND_DEVICE, .ordinal = number};
    return place;
}

leat_status GPU(managed_query)(struct leati_driver *driver, void *device, const void *ptr, size_t bytes,
                               leat_managed_info *info)
{
    struct gpu_device *self = device;
    int read_mostly = 0, preferred = GPU_NUMBER_OF_NONE, prefetched = GPU_NUMBER_OF_NONE;
    int users[GPU_PEERS_MAX + 1]; /* room for all devices and the host */
    void *values[] = {&read_mostly, &preferred, users, &prefetched};
    size_t sizes[] = {sizeof read_mostly, sizeof preferred, sizeof users, sizeof prefetched};
    gpu_range_attribute wanted[] = {GPU_RANGE_READ_MOSTLY, GPU_RANGE_PREFERRED, GPU_RANGE_ACCESSED_BY,
                                    GPU_RANGE_LAST_PREFETCH};

    (void)driver;
    if (!self->api->range_attributes)
        return fail_without(GPU(names).range_attributes);
    for (unsigned i = 0; i < sizeof users / sizeof users[0]; i++)
        users[i] = GPU_NUMBER_OF_NONE;
    GPU_TRY(self, range_attributes, values, sizes, wanted, sizeof wanted / sizeof wanted[0], gpu_address_of(ptr),
            bytes);
    info->read_mostly = read_mostly != 0;
    info->preferred = place_of(preferred);
    info->last_prefetch = place_of(prefetched);
    for (unsigned i = 0; i < sizeof users / sizeof users[0]; i++) {
        info->accessed_by_host |= users[i] == GPU_NUMBER_OF_HOST;
        if (users[i] >= 0 && users[i] < 32)
            info->accessed_by |= UINT32_C(1) << users[i];
    }
    return LEAT_OK;
}

leat_status GPU(managed_attach)(struct leati_driver *driver, void *stream, void *ptr, size_t bytes,
                                leat_attach attach)
{
    struct gpu_stream *on = stream;

    (void)driver, (void)bytes;
    if (!on->device->api->stream_attach)
        return fail_without(GPU(names).stream_attach);
    /* A length of 0 means the whole allocation. leat_attach has the same values as the vendor's enumeration. */
    GPU_TRY(on->device, stream_attach, on->handle, gpu_address_of(ptr), 0, (unsigned int)attach);
    return LEAT_OK;
}
