/*
 * hip_managed.c - managed memory: prefetch, advice, range attributes, attaching to streams.
 */
#include "driver/hip/hip_driver.h"

static int number_of(const struct hip_device *place)
{
    return place ? place->number : LEATI_hipCpuDeviceId;
}

/* Devices that cannot use managed memory while the host does have neither. */
static leat_status check_concurrent(const struct hip_device *device, const char *what)
{
    if (device->concurrent)
        return LEAT_OK;
    return leati_fail(
        LEAT_ERROR_UNSUPPORTED,
        "hip:%d cannot use managed memory while the host does (concurrentManagedAccess is 0, as it is "
        "without HSA_XNACK=1 on most GPUs), and has no %s then",
        device->number, what);
}

static leat_status fail_without(const char *call)
{
    return leati_fail(LEAT_ERROR_UNSUPPORTED, "the HIP library has no %s", call);
}

leat_status leati_hip_managed_prefetch(struct leati_driver *driver, void *stream, void *ptr, size_t bytes,
                                       void *to)
{
    struct hip_stream *on = stream;
    struct hip_device *place = to;

    (void)driver;
    if (!on->device->api->prefetch)
        return fail_without(leati_hip_names.prefetch);
    LEATI_TRY(check_concurrent(on->device, "prefetch"));
    if (place)
        LEATI_TRY(check_concurrent(place, "prefetch"));
    LEATI_HIP_TRY(on->device, prefetch, ptr, bytes, number_of(place), on->handle);
    return LEAT_OK;
}

leat_status leati_hip_managed_advise(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                                     leat_advice advice, void *where)
{
    struct hip_device *self = device;
    struct hip_device *place = where;

    (void)driver;
    if (!self->api->advise)
        return fail_without(leati_hip_names.advise);
    if (place)
        LEATI_TRY(check_concurrent(place, "advice"));
    /* The numbers of leat_advice are the vendor's. */
    LEATI_HIP_TRY(self, advise, ptr, bytes, (hi_mem_advice)advice, number_of(place));
    return LEAT_OK;
}

static leat_location place_of(int number)
{
    leat_location place = {.kind = LEAT_LOCATION_NONE, .ordinal = -1};

    if (number == LEATI_hipCpuDeviceId)
        place.kind = LEAT_LOCATION_HOST;
    if (number >= 0)
        place = (leat_location){.kind = LEAT_LOCATION_DEVICE, .ordinal = number};
    return place;
}

leat_status leati_hip_managed_query(struct leati_driver *driver, void *device, const void *ptr, size_t bytes,
                                    leat_managed_info *info)
{
    struct hip_device *self = device;
    int read_mostly = 0, preferred = LEATI_hipInvalidDeviceId, prefetched = LEATI_hipInvalidDeviceId;
    int users[LEATI_HIP_PEERS_MAX + 1]; /* all devices, and the host */
    void *values[] = {&read_mostly, &preferred, users, &prefetched};
    size_t sizes[] = {sizeof read_mostly, sizeof preferred, sizeof users, sizeof prefetched};
    hi_range_attribute wanted[] = {
        LEATI_hipMemRangeAttributeReadMostly, LEATI_hipMemRangeAttributePreferredLocation,
        LEATI_hipMemRangeAttributeAccessedBy, LEATI_hipMemRangeAttributeLastPrefetchLocation};

    (void)driver;
    if (!self->api->range_attributes)
        return fail_without(leati_hip_names.range_attributes);
    for (unsigned i = 0; i < sizeof users / sizeof users[0]; i++)
        users[i] = LEATI_hipInvalidDeviceId;
    LEATI_HIP_TRY(self, range_attributes, values, sizes, wanted, sizeof wanted / sizeof wanted[0], ptr, bytes);
    info->read_mostly = read_mostly != 0;
    info->preferred = place_of(preferred);
    info->last_prefetch = place_of(prefetched);
    for (unsigned i = 0; i < sizeof users / sizeof users[0]; i++) {
        info->accessed_by_host |= users[i] == LEATI_hipCpuDeviceId;
        if (users[i] >= 0 && users[i] < 32)
            info->accessed_by |= UINT32_C(1) << users[i];
    }
    return LEAT_OK;
}

leat_status leati_hip_managed_attach(struct leati_driver *driver, void *stream, void *ptr, size_t bytes,
                                     leat_attach attach)
{
    struct hip_stream *on = stream;

    (void)driver, (void)bytes;
    if (!on->device->api->stream_attach)
        return fail_without(leati_hip_names.stream_attach);
    /* A length of 0 stands for the whole allocation, and the numbers of leat_attach are the vendor's. */
    LEATI_HIP_TRY(on->device, stream_attach, on->handle, ptr, 0, (unsigned int)attach);
    return LEAT_OK;
}
