/*
 * virtual.c - implements virtual memory, with the calls of leat/virtual.h.
 *
 * As soon as a part of a reservation is accessible, this file adds the whole reservation to the engine as one
 * allocation. The reason is that copies may cross adjacent mappings. leat itself knows which parts are mapped.
 */
#include "hip/layer.h"

#include <leat/virtual.h>

#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

struct reservation {
    char *base;
    size_t bytes; /* the requested size */
    bool known;   /* the reservation was added to the engine */
    struct reservation *next;
};

/* Guards the list. A thread holds it while it changes access to mappings or frees a reservation. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct reservation *reservations;

static leat_physical *physical_of(hipMemGenericAllocationHandle_t handle)
{
    return (leat_physical *)(void *)handle;
}

/* Converts a status of leat. HIP's calls return hipErrorInvalidValue for all invalid arguments, including
 * handles. */
static int of_status(leat_status status)
{
    switch (status) {
    case LEAT_ERROR_HANDLE:
    case LEAT_ERROR_BUSY:
        return LEATC_INVALID_VALUE;
    default:
        return leatc_result_of(status);
    }
}

static int granularity_of(int ordinal, size_t *bytes)
{
    leat_device *device = NULL;

    LEATC_TRY(leatc_device_open(ordinal, &device));
    return of_status(leat_virtual_granularity(device, bytes));
}

static int check_properties(const hipMemAllocationProp *properties)
{
    return properties &&
                   (properties->type == hipMemAllocationTypePinned ||
                    properties->type == hipMemAllocationTypeUncached) &&
                   properties->location.type == hipMemLocationTypeDevice
               ? LEATC_OK
               : LEATC_INVALID_VALUE;
}

hipError_t hipMemGetAllocationGranularity(size_t *bytes, const hipMemAllocationProp *properties,
                                          hipMemAllocationGranularity_flags option)
{
    if (!bytes || check_properties(properties) != LEATC_OK || check_device(properties->location.id) != LEATC_OK ||
        (unsigned)option > hipMemAllocationGranularityRecommended)
        return note(LEATC_INVALID_VALUE);
    return note(granularity_of(properties->location.id, bytes));
}

/* ---- reservations ---- */

#define HOST_PAGE 4096

static int reserve(void **ptr, size_t bytes, size_t alignment)
{
    struct reservation *made;
    leat_device *device = NULL;
    size_t unit = 0, whole;
    void *base = NULL;
    int ordinal = 0, result;

    LEATC_TRY(leatc_device_get(&ordinal));
    LEATC_TRY(leatc_device_open(ordinal, &device));
    LEATC_TRY(granularity_of(ordinal, &unit));
    if (__builtin_add_overflow(bytes, unit - 1, &whole))
        return LEATC_OUT_OF_MEMORY;
    whole -= whole % unit;
    made = malloc(sizeof *made);
    if (!made)
        return LEATC_OUT_OF_MEMORY;
    result = of_status(leat_virtual_reserve(device, whole, alignment, &base));
    if (result != LEATC_OK) {
        free(made);
        return result;
    }
    *made = (struct reservation){.base = base, .bytes = bytes};
    pthread_mutex_lock(&lock);
    made->next = reservations;
    reservations = made;
    pthread_mutex_unlock(&lock);
    *ptr = base;
    return LEATC_OK;
}

/* Reserves addresses. address is a hint, which HIP allows to ignore. For an invalid size or alignment, HIP 6
 * returns hipErrorOutOfMemory. */
hipError_t hipMemAddressReserve(void **ptr, size_t bytes, size_t alignment, void *address,
                                unsigned long long flags)
{
    (void)address;
    if (!ptr || flags)
        return note(LEATC_INVALID_VALUE);
    if (!bytes || bytes % HOST_PAGE || (alignment & (alignment - 1)))
        return note(LEATC_OUT_OF_MEMORY);
    return note(reserve(ptr, bytes, alignment));
}

/* Returns the reservation that contains a range, or NULL. The caller holds the lock. */
static struct reservation *find(const void *ptr, size_t bytes)
{
    struct reservation *found = reservations;

    while (found &&
           !((const char *)ptr >= found->base && (size_t)((const char *)ptr - found->base) < found->bytes &&
             bytes <= found->bytes - (size_t)((const char *)ptr - found->base)))
        found = found->next;
    return found;
}

static int give_back(void *ptr)
{
    return of_status(leat_virtual_unreserve(ptr));
}

/* Frees a reservation. If the engine has a record of it, leatc_memory_end() removes the record together with the
 * reservation, or keeps both. */
static int unreserve(void *ptr, size_t bytes)
{
    struct reservation **link = &reservations, *gone;

    while (*link && (*link)->base != ptr)
        link = &(*link)->next;
    gone = *link;
    if (!gone || gone->bytes != bytes)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(gone->known ? leatc_memory_end(ptr, give_back) : give_back(ptr));
    *link = gone->next;
    free(gone);
    return LEATC_OK;
}

hipError_t hipMemAddressFree(void *ptr, size_t bytes)
{
    int result;

    if (!ptr || !bytes)
        return note(LEATC_INVALID_VALUE);
    pthread_mutex_lock(&lock);
    result = unreserve(ptr, bytes);
    pthread_mutex_unlock(&lock);
    return note(result);
}

/* ---- physical memory ---- */

static int create(hipMemGenericAllocationHandle_t *handle, size_t bytes, const hipMemAllocationProp *properties)
{
    bool exportable = properties->requestedHandleType == hipMemHandleTypePosixFileDescriptor;
    leat_physical *made = NULL;
    leat_device *device = NULL;

    if (check_device(properties->location.id) != LEATC_OK)
        return LEATC_INVALID_VALUE;
    if (!exportable && properties->requestedHandleType != hipMemHandleTypeNone)
        return LEATC_NOT_SUPPORTED;
    LEATC_TRY(leatc_device_open(properties->location.id, &device));
    LEATC_TRY(of_status(leat_physical_create(device, bytes, exportable ? LEAT_PHYSICAL_EXPORTABLE : 0, &made)));
    *handle = (hipMemGenericAllocationHandle_t)(void *)made;
    return LEATC_OK;
}

FORWARD(hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *handle, size_t bytes,
                                const hipMemAllocationProp *properties, unsigned long long flags),
        !handle || !bytes || flags || check_properties(properties) != LEATC_OK ? LEATC_INVALID_VALUE
                                                                               : create(handle, bytes, properties))
FORWARD(hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle),
        handle ? of_status(leat_physical_release(physical_of(handle))) : LEATC_INVALID_VALUE)

hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t *handle, void *ptr)
{
    leat_physical *found = NULL;
    int result = handle && ptr ? of_status(leat_physical_retain(ptr, &found)) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *handle = (hipMemGenericAllocationHandle_t)(void *)found;
    return note(result);
}

hipError_t hipMemGetAllocationPropertiesFromHandle(hipMemAllocationProp *properties,
                                                   hipMemGenericAllocationHandle_t handle)
{
    leat_physical_info info = LEAT_PHYSICAL_INFO_INIT;
    int result =
        properties && handle ? of_status(leat_physical_get_info(physical_of(handle), &info)) : LEATC_INVALID_VALUE;

    if (result != LEATC_OK)
        return note(result);
    *properties = (hipMemAllocationProp){
        .type = hipMemAllocationTypePinned,
        .requestedHandleType = info.exportable ? hipMemHandleTypePosixFileDescriptor : hipMemHandleTypeNone,
        .location = {hipMemLocationTypeDevice, leatc_device_ordinal(info.device)}};
    return hipSuccess;
}

/* ---- mappings ---- */

FORWARD(hipError_t hipMemMap(void *ptr, size_t bytes, size_t offset, hipMemGenericAllocationHandle_t handle,
                             unsigned long long flags),
        !ptr || !bytes || offset || !handle || flags
            ? LEATC_INVALID_VALUE
            : of_status(leat_virtual_map(ptr, bytes, physical_of(handle))))

/* Unmaps a range. First waits for all devices, as AMD's runtime does, because their pending work may use the
 * memory. */
hipError_t hipMemUnmap(void *ptr, size_t bytes)
{
    int result = ptr && bytes ? leatc_devices_wait() : LEATC_INVALID_VALUE;

    return note(result == LEATC_OK ? of_status(leat_virtual_unmap(ptr, bytes)) : result);
}

/* Sets *ordinal to the device whose memory is mapped at an address. */
static int owner_of(const void *ptr, int *ordinal)
{
    leat_physical *physical = NULL;
    leat_physical_info info = LEAT_PHYSICAL_INFO_INIT;
    int result;

    LEATC_TRY(of_status(leat_physical_retain(ptr, &physical)));
    result = of_status(leat_physical_get_info(physical, &info));
    (void)leat_physical_release(physical);
    if (result == LEATC_OK)
        *ordinal = leatc_device_ordinal(info.device);
    return result;
}

/* Adds a reservation to the engine. If it was added before, updates its device. The caller holds the lock. */
static int tell_engine(struct reservation *in, int ordinal)
{
    struct leatc_memory memory = {
        .base = in->base, .bytes = in->bytes, .kind = LEATC_MEMORY_DEVICE, .ordinal = ordinal, .foreign = true};

    if (in->known)
        return leatc_memory_set_device(in->base, ordinal);
    LEATC_TRY(leatc_memory_add(&memory));
    in->known = true;
    return LEATC_OK;
}

static int set_access(void *ptr, size_t bytes, const hipMemAccessDesc *accesses, size_t count)
{
    struct reservation *in = find(ptr, bytes);
    int ordinal = 0;

    if (!in)
        return LEATC_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        leat_device *device = NULL;

        if (accesses[i].location.type != hipMemLocationTypeDevice ||
            leatc_device_open(accesses[i].location.id, &device) != LEATC_OK)
            return LEATC_INVALID_VALUE;
        LEATC_TRY(of_status(leat_virtual_set_access(device, ptr, bytes, (leat_access)accesses[i].flags)));
    }
    LEATC_TRY(owner_of(ptr, &ordinal));
    return tell_engine(in, ordinal);
}

hipError_t hipMemSetAccess(void *ptr, size_t bytes, const hipMemAccessDesc *accesses, size_t count)
{
    int result;

    if (!ptr || !bytes || !accesses || !count)
        return note(LEATC_INVALID_VALUE);
    pthread_mutex_lock(&lock);
    result = set_access(ptr, bytes, accesses, count);
    pthread_mutex_unlock(&lock);
    return note(result);
}

static int get_access(unsigned long long *flags, const hipMemLocation *location, const void *ptr)
{
    leat_access access = LEAT_ACCESS_NONE;
    leat_device *device = NULL;

    if (location->type != hipMemLocationTypeDevice || leatc_device_open(location->id, &device) != LEATC_OK)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(of_status(leat_virtual_get_access(device, ptr, &access)));
    *flags = access;
    return LEATC_OK;
}

FORWARD(hipError_t hipMemGetAccess(unsigned long long *flags, const hipMemLocation *location, void *ptr),
        !flags || !location || !ptr ? LEATC_INVALID_VALUE : get_access(flags, location, ptr))

/* ---- sharing ---- */

FORWARD(hipError_t hipMemExportToShareableHandle(void *shareable, hipMemGenericAllocationHandle_t handle,
                                                 hipMemAllocationHandleType type, unsigned long long flags),
        !shareable || !handle || type != hipMemHandleTypePosixFileDescriptor || flags
            ? LEATC_INVALID_VALUE
            : of_status(leat_physical_export(physical_of(handle), shareable)))

static int import(hipMemGenericAllocationHandle_t *handle, void *os_handle)
{
    leat_physical *made = NULL;
    leat_device *device = NULL;
    struct stat file;
    int ordinal = 0, fd;

    /* Up to HIP 7.0, os_handle is the address of a descriptor. Since then it is the descriptor itself. */
    LEATC_TRY(leatc_share_descriptor(os_handle, &fd));
    if (fstat(fd, &file) != 0 || file.st_size <= 0)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_device_get(&ordinal));
    LEATC_TRY(leatc_device_open(ordinal, &device));
    LEATC_TRY(of_status(leat_physical_import(device, fd, (size_t)file.st_size, &made)));
    *handle = (hipMemGenericAllocationHandle_t)(void *)made;
    return LEATC_OK;
}

FORWARD(hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t *handle, void *osHandle,
                                                   hipMemAllocationHandleType type),
        !handle || !osHandle || type != hipMemHandleTypePosixFileDescriptor ? LEATC_INVALID_VALUE
                                                                            : import(handle, osHandle))

/* leat cannot export a range of addresses as a DMA buffer. */
FORWARD(hipError_t hipMemGetHandleForAddressRange(void *handle, hipDeviceptr_t ptr, size_t bytes,
                                                  hipMemRangeHandleType type, unsigned long long flags),
        !handle || !ptr || !bytes || type != hipMemRangeHandleTypeDmaBufFd || flags ? LEATC_INVALID_VALUE
                                                                                    : LEATC_NOT_SUPPORTED)

/* leat has no sparse arrays, whose memory is mapped separately. */
hipError_t hipMemMapArrayAsync(hipArrayMapInfo *maps, unsigned int count, hipStream_t stream)
{
    int result = maps && count ? check_stream(stream_of(stream)) : LEATC_INVALID_VALUE;

    return note(result == LEATC_OK ? LEATC_NOT_SUPPORTED : result);
}
