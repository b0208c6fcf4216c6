/*
 * hip_virtual.c - addresses and physical memory apart: reserve, create, map, export.
 */
#include "driver/hip/hip_driver.h"

static leat_status check_virtual(const struct hip_device *device)
{
    if (device->virtual_memory)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_UNSUPPORTED, "the GPU has no virtual memory management");
}

/* The vendor's handle is a pointer, leat's a number. */
static hi_mem_handle handle_of(uint64_t number)
{
    return (hi_mem_handle)(uintptr_t)number;
}

static uint64_t handle_number(hi_mem_handle handle)
{
    return (uint64_t)(uintptr_t)handle;
}

static hi_mem_properties properties(const struct hip_device *device, bool exportable)
{
    hi_mem_properties wanted = {
        .type = LEATI_hipMemAllocationTypePinned,
        .handle_types = exportable ? LEATI_hipMemHandleTypePosixFileDescriptor : 0,
        .location = {.type = LEATI_hipMemLocationTypeDevice, .id = device->number},
    };

    return wanted;
}

leat_status leati_hip_vm_granularity(struct leati_driver *driver, void *device, size_t *bytes)
{
    struct hip_device *self = device;
    hi_mem_properties wanted = properties(self, false);
    size_t found;

    (void)driver;
    LEATI_TRY(check_virtual(self));
    LEATI_HIP_TRY(self, vm_granularity, &found, &wanted, LEATI_hipMemAllocationGranularityMinimum);
    *bytes = found;
    return LEAT_OK;
}

leat_status leati_hip_vm_reserve(struct leati_driver *driver, void *device, size_t bytes, void **ptr)
{
    struct hip_device *self = device;
    void *address;

    (void)driver;
    LEATI_TRY(check_virtual(self));
    LEATI_HIP_TRY(self, vm_reserve, &address, bytes, 0, NULL, 0);
    *ptr = address;
    return LEAT_OK;
}

leat_status leati_hip_vm_unreserve(struct leati_driver *driver, void *device, void *ptr, size_t bytes)
{
    struct hip_device *self = device;

    (void)driver;
    LEATI_HIP_TRY(self, vm_unreserve, ptr, bytes);
    return LEAT_OK;
}

leat_status leati_hip_vm_create(struct leati_driver *driver, void *device, size_t bytes, bool exportable,
                                uint64_t *handle)
{
    struct hip_device *self = device;
    hi_mem_properties wanted = properties(self, exportable);
    hi_mem_handle created;

    (void)driver;
    LEATI_TRY(check_virtual(self));
    LEATI_HIP_TRY(self, vm_create, &created, bytes, &wanted, 0);
    *handle = handle_number(created);
    return LEAT_OK;
}

leat_status leati_hip_vm_release(struct leati_driver *driver, void *device, uint64_t handle)
{
    struct hip_device *self = device;

    (void)driver;
    LEATI_HIP_TRY(self, vm_release, handle_of(handle));
    return LEAT_OK;
}

leat_status leati_hip_vm_map(struct leati_driver *driver, void *device, void *ptr, size_t bytes, uint64_t handle)
{
    struct hip_device *self = device;

    (void)driver;
    LEATI_HIP_TRY(self, vm_map, ptr, bytes, 0, handle_of(handle), 0);
    return LEAT_OK;
}

static hi_mem_access access_of(hi_device number)
{
    hi_mem_access access = {
        .location = {.type = LEATI_hipMemLocationTypeDevice, .id = number},
        .flags = LEATI_hipMemAccessFlagsProtReadWrite,
    };

    return access;
}

/* With maps_lock held. */
static leat_status set_access(struct hip_device *self, void *ptr, size_t bytes)
{
    hi_mem_access access[1 + LEATI_HIP_PEERS_MAX];

    access[0] = access_of(self->number);
    for (unsigned i = 0; i < self->peer_count; i++)
        access[1 + i] = access_of(self->peers[i]);
    if (!leati_ranges_reserve(&self->maps))
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the list of mappings");
    LEATI_HIP_TRY(self, vm_set_access, ptr, bytes, access, 1 + self->peer_count);
    leati_ranges_insert(&self->maps, (uintptr_t)ptr, bytes, self);
    return LEAT_OK;
}

leat_status leati_hip_vm_set_access(struct leati_driver *driver, void *device, void *ptr, size_t bytes)
{
    struct hip_device *self = device;
    leat_status status;

    (void)driver;
    pthread_mutex_lock(&self->maps_lock);
    status = set_access(self, ptr, bytes);
    pthread_mutex_unlock(&self->maps_lock);
    return status;
}

/* Lets a peer reach what is mapped already and what will be. */
leat_status leati_hip_vm_add_peer(struct hip_device *self, const struct hip_device *peer)
{
    hi_mem_access access = access_of(peer->number);
    hi_result code = LEATI_hipSuccess;

    pthread_mutex_lock(&self->maps_lock);
    for (unsigned i = 0; i < self->peer_count; i++)
        if (self->peers[i] == peer->number)
            goto done;
    for (size_t i = 0; i < self->maps.count && code == LEATI_hipSuccess; i++)
        LEATI_HIP_CALL(self, code, vm_set_access, (void *)self->maps.entries[i].base, self->maps.entries[i].bytes,
                       &access, 1);
    if (code == LEATI_hipSuccess && self->peer_count < LEATI_HIP_PEERS_MAX)
        self->peers[self->peer_count++] = peer->number;
done:
    pthread_mutex_unlock(&self->maps_lock);
    return code == LEATI_hipSuccess ? LEAT_OK : leati_hip_fail(self->api, leati_hip_names.vm_set_access, code);
}

/* Takes a piece out of the list of mappings; what is left of one that was larger stays in it. With maps_lock held.
 */
static void forget_maps(struct hip_device *self, uintptr_t base, size_t bytes)
{
    const struct leati_range *range;

    while ((range = leati_ranges_overlap(&self->maps, base, bytes))) {
        uintptr_t start = range->base, end = start + range->bytes;

        /* Removing one leaves room for one; where there is none for the second piece, peers reach it over the
         * host. */
        leati_ranges_remove(&self->maps, start);
        if (start < base)
            (void)leati_ranges_insert(&self->maps, start, base - start, self);
        if (end > base + bytes)
            (void)leati_ranges_insert(&self->maps, base + bytes, end - (base + bytes), self);
    }
}

leat_status leati_hip_vm_unmap(struct leati_driver *driver, void *device, void *ptr, size_t bytes)
{
    struct hip_device *self = device;
    hi_result code;

    (void)driver;
    pthread_mutex_lock(&self->maps_lock);
    LEATI_HIP_CALL(self, code, vm_unmap, ptr, bytes);
    forget_maps(self, (uintptr_t)ptr, bytes);
    pthread_mutex_unlock(&self->maps_lock);
    return code == LEATI_hipSuccess ? LEAT_OK : leati_hip_fail(self->api, leati_hip_names.vm_unmap, code);
}

leat_status leati_hip_vm_export(struct leati_driver *driver, void *device, uint64_t handle, int *fd)
{
    struct hip_device *self = device;
    int exported;

    (void)driver;
    LEATI_HIP_TRY(self, vm_export, &exported, handle_of(handle), LEATI_hipMemHandleTypePosixFileDescriptor, 0);
    *fd = exported;
    return LEAT_OK;
}

leat_status leati_hip_vm_import(struct leati_driver *driver, void *device, int fd, size_t bytes, uint64_t *handle)
{
    struct hip_device *self = device;
    hi_mem_handle imported;
    void *os_handle;
    leat_status status;
    hi_result code;

    (void)driver;
    (void)bytes; /* the vendor's handle knows its size */
    LEATI_TRY(check_virtual(self));

    /* Before HIP 7.1 the vendor wants to be pointed to the number, since then the number itself. */
    os_handle = self->api->version >= LEATI_HIP_VERSION(7, 1) ? (void *)(intptr_t)fd : &fd;
    LEATI_HIP_CALL(self, code, vm_import, &imported, os_handle, LEATI_hipMemHandleTypePosixFileDescriptor);
    if (code == LEATI_hipErrorInvalidValue || code == LEATI_hipErrorUnknown) {
        /* Its answer to descriptors of something else, and to closed ones. */
        status = leati_hip_fail_as(self->api, LEAT_ERROR_INVALID, leati_hip_names.vm_import, code);
        return leati_fail_in(status, "file descriptor %d is not exported memory", fd);
    }
    if (code != LEATI_hipSuccess)
        return leati_hip_fail(self->api, leati_hip_names.vm_import, code);
    *handle = handle_number(imported);
    return LEAT_OK;
}
