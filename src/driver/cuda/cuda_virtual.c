/*
 * cuda_virtual.c - addresses and physical memory apart: reserve, create, map, export.
 */
#include "driver/cuda/cuda_driver.h"

static leat_status check_virtual(const struct cuda_device *device)
{
    if (device->virtual_memory)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_UNSUPPORTED, "the GPU has no virtual memory management");
}

static cu_mem_properties properties(const struct cuda_device *device, bool exportable)
{
    cu_mem_properties wanted = {
        .type = LEATI_CU_MEM_ALLOCATION_TYPE_PINNED,
        .handle_types = exportable ? LEATI_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0,
        .location = {.type = LEATI_CU_MEM_LOCATION_TYPE_DEVICE, .id = device->number},
    };

    return wanted;
}

leat_status leati_cuda_vm_granularity(struct leati_driver *driver, void *device, size_t *bytes)
{
    struct cuda_device *self = device;
    cu_mem_properties wanted = properties(self, false);
    size_t found;

    (void)driver;
    LEATI_TRY(check_virtual(self));
    LEATI_CUDA_TRY(self, vm_granularity, &found, &wanted, LEATI_CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    *bytes = found;
    return LEAT_OK;
}

leat_status leati_cuda_vm_reserve(struct leati_driver *driver, void *device, size_t bytes, void **ptr)
{
    struct cuda_device *self = device;
    cu_deviceptr address;

    (void)driver;
    LEATI_TRY(check_virtual(self));
    LEATI_CUDA_TRY(self, vm_reserve, &address, bytes, 0, 0, 0);
    *ptr = leati_cuda_pointer(address);
    return LEAT_OK;
}

leat_status leati_cuda_vm_unreserve(struct leati_driver *driver, void *device, void *ptr, size_t bytes)
{
    struct cuda_device *self = device;

    (void)driver;
    LEATI_CUDA_TRY(self, vm_unreserve, leati_cuda_address(ptr), bytes);
    return LEAT_OK;
}

leat_status leati_cuda_vm_create(struct leati_driver *driver, void *device, size_t bytes, bool exportable,
                                 uint64_t *handle)
{
    struct cuda_device *self = device;
    cu_mem_properties wanted = properties(self, exportable);
    cu_mem_handle created;

    (void)driver;
    LEATI_TRY(check_virtual(self));
    if (exportable && !self->exportable)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "the GPU's memory cannot be exported as a file descriptor here");
    LEATI_CUDA_TRY(self, vm_create, &created, bytes, &wanted, 0);
    *handle = created;
    return LEAT_OK;
}

leat_status leati_cuda_vm_release(struct leati_driver *driver, void *device, uint64_t handle)
{
    struct cuda_device *self = device;

    (void)driver;
    LEATI_CUDA_TRY(self, vm_release, handle);
    return LEAT_OK;
}

leat_status leati_cuda_vm_map(struct leati_driver *driver, void *device, void *ptr, size_t bytes, uint64_t handle)
{
    struct cuda_device *self = device;

    (void)driver;
    LEATI_CUDA_TRY(self, vm_map, leati_cuda_address(ptr), bytes, 0, handle, 0);
    return LEAT_OK;
}

static cu_mem_access access_of(cu_device number)
{
    cu_mem_access access = {
        .location = {.type = LEATI_CU_MEM_LOCATION_TYPE_DEVICE, .id = number},
        .flags = LEATI_CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };

    return access;
}

/* With maps_lock held. */
static leat_status set_access(struct cuda_device *self, void *ptr, size_t bytes)
{
    cu_mem_access access[1 + LEATI_CUDA_PEERS_MAX];

    access[0] = access_of(self->number);
    for (unsigned i = 0; i < self->peer_count; i++)
        access[1 + i] = access_of(self->peers[i]);
    if (!leati_ranges_reserve(&self->maps))
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the list of mappings");
    LEATI_CUDA_TRY(self, vm_set_access, leati_cuda_address(ptr), bytes, access, 1 + self->peer_count);
    leati_ranges_insert(&self->maps, (uintptr_t)ptr, bytes, self);
    return LEAT_OK;
}

leat_status leati_cuda_vm_set_access(struct leati_driver *driver, void *device, void *ptr, size_t bytes)
{
    struct cuda_device *self = device;
    leat_status status;

    (void)driver;
    pthread_mutex_lock(&self->maps_lock);
    status = set_access(self, ptr, bytes);
    pthread_mutex_unlock(&self->maps_lock);
    return status;
}

leat_status leati_cuda_vm_set_rights(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                                     const struct leati_right *rights, unsigned count)
{
    struct cuda_device *self = device;

    (void)driver;
    for (unsigned i = 0; i < count; i++) {
        const struct cuda_device *peer = rights[i].device;
        cu_mem_access access = access_of(peer->number);

        access.flags = (unsigned)rights[i].access; /* the vendor has the same numbers */
        LEATI_CUDA_TRY(self, vm_set_access, leati_cuda_address(ptr), bytes, &access, 1);
    }
    return LEAT_OK;
}

/* Lets a peer reach what is mapped already and what will be. */
leat_status leati_cuda_vm_add_peer(struct cuda_device *self, const struct cuda_device *peer)
{
    cu_mem_access access = access_of(peer->number);
    cu_result code = LEATI_CUDA_SUCCESS;

    pthread_mutex_lock(&self->maps_lock);
    for (unsigned i = 0; i < self->peer_count; i++)
        if (self->peers[i] == peer->number)
            goto done;
    for (size_t i = 0; i < self->maps.count && code == LEATI_CUDA_SUCCESS; i++)
        LEATI_CUDA_CALL(self, code, vm_set_access, (cu_deviceptr)self->maps.entries[i].base,
                        self->maps.entries[i].bytes, &access, 1);
    if (code == LEATI_CUDA_SUCCESS && self->peer_count < LEATI_CUDA_PEERS_MAX)
        self->peers[self->peer_count++] = peer->number;
done:
    pthread_mutex_unlock(&self->maps_lock);
    return code == LEATI_CUDA_SUCCESS ? LEAT_OK : leati_cuda_fail(self->cu, leati_cuda_names.vm_set_access, code);
}

/* Takes a piece out of the list of mappings; what is left of one that was larger stays in it. With maps_lock held.
 */
static void forget_maps(struct cuda_device *self, uintptr_t base, size_t bytes)
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

leat_status leati_cuda_vm_unmap(struct leati_driver *driver, void *device, void *ptr, size_t bytes)
{
    struct cuda_device *self = device;
    cu_result code;

    (void)driver;
    pthread_mutex_lock(&self->maps_lock);
    LEATI_CUDA_CALL(self, code, vm_unmap, leati_cuda_address(ptr), bytes);
    forget_maps(self, (uintptr_t)ptr, bytes);
    pthread_mutex_unlock(&self->maps_lock);
    return code == LEATI_CUDA_SUCCESS ? LEAT_OK : leati_cuda_fail(self->cu, leati_cuda_names.vm_unmap, code);
}

leat_status leati_cuda_vm_export(struct leati_driver *driver, void *device, uint64_t handle, int *fd)
{
    struct cuda_device *self = device;
    int exported;

    (void)driver;
    LEATI_CUDA_TRY(self, vm_export, &exported, handle, LEATI_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    *fd = exported;
    return LEAT_OK;
}

leat_status leati_cuda_vm_import(struct leati_driver *driver, void *device, int fd, size_t bytes, uint64_t *handle)
{
    struct cuda_device *self = device;
    cu_mem_handle imported;
    leat_status status;
    cu_result code;

    (void)driver;
    (void)bytes; /* the vendor's handle knows its size */
    LEATI_TRY(check_virtual(self));

    /* The vendor takes the number itself where its prototype has a pointer. */
    LEATI_CUDA_CALL(self, code, vm_import, &imported, (void *)(intptr_t)fd,
                    LEATI_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (code == LEATI_CUDA_ERROR_INVALID_VALUE || code == LEATI_CUDA_ERROR_UNKNOWN) {
        /* Its answer to descriptors of something else, and to closed ones. */
        status = leati_cuda_fail_as(self->cu, LEAT_ERROR_INVALID, leati_cuda_names.vm_import, code);
        return leati_fail_in(status, "file descriptor %d is not exported memory", fd);
    }
    if (code != LEATI_CUDA_SUCCESS)
        return leati_cuda_fail(self->cu, leati_cuda_names.vm_import, code);
    *handle = imported;
    return LEAT_OK;
}
