/*
 * gpu_virtual.h - reserves addresses, creates physical memory, and maps, exports and imports it. See gpu_driver.h.
 *
 * The vendor's file has import_argument().
 */
#include "driver/gpu/gpu_driver.h"
#include "base/assert.h"

/* Converts a file descriptor to the pointer that the vendor's import call takes. */
static void *import_argument(const struct gpu_device *device, int *fd);

static leat_status check_virtual(const struct gpu_device *device)
{
    if (device->virtual_memory)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_UNSUPPORTED, "the GPU has no virtual memory management");
}

/* These convert a handle, which is a number in CUDA and a pointer in HIP, from and to a 64-bit number. */
static gpu_mem_handle handle_of(uint64_t number)
{
    return (gpu_mem_handle)(uintptr_t)number;
}

static uint64_t handle_number(gpu_mem_handle handle)
{
    return (uint64_t)(uintptr_t)handle;
}

static gpu_mem_properties properties(const struct gpu_device *device, bool exportable)
{
    gpu_mem_properties wanted = {
        .type = GPU_MEM_ALLOCATION_PINNED,
        .handle_types = exportable ? GPU_MEM_HANDLE_DESCRIPTOR : 0,
        .location = {.type = GPU_MEM_LOCATION_DEVICE, .id = device->number},
    };

    return wanted;
}

leat_status GPU(vm_granularity)(struct leati_driver *driver, void *device, size_t *bytes)
{
    struct gpu_device *self = device;
    gpu_mem_properties wanted = properties(self, false);
    size_t found;

    (void)driver;
    LEATI_TRY(check_virtual(self));
    GPU_TRY(self, vm_granularity, &found, &wanted, GPU_MEM_GRANULARITY_MINIMUM);
    *bytes = found;
    return LEAT_OK;
}

leat_status GPU(vm_reserve)(struct leati_driver *driver, void *device, size_t bytes, void **ptr)
{
    struct gpu_device *self = device;
    gpu_address address;

    (void)driver;
    LEATI_TRY(check_virtual(self));
    GPU_TRY(self, vm_reserve, &address, bytes, 0, gpu_address_of(NULL), 0);
    *ptr = gpu_pointer_of(address);
    return LEAT_OK;
}

leat_status GPU(vm_unreserve)(struct leati_driver *driver, void *device, void *ptr, size_t bytes)
{
    struct gpu_device *self = device;

    (void)driver;
    leati_assert(ptr && bytes);
    GPU_TRY(self, vm_unreserve, gpu_address_of(ptr), bytes);
    return LEAT_OK;
}

leat_status GPU(vm_create)(struct leati_driver *driver, void *device, size_t bytes, bool exportable,
                           uint64_t *handle)
{
    struct gpu_device *self = device;
    gpu_mem_properties wanted = properties(self, exportable);
    gpu_mem_handle created;

    (void)driver;
    leati_assert(bytes && handle);
    LEATI_TRY(check_virtual(self));
    if (exportable && !self->exportable)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "the GPU's memory cannot be exported as a file descriptor here");
    GPU_TRY(self, vm_create, &created, bytes, &wanted, 0);
    *handle = handle_number(created);
    return LEAT_OK;
}

leat_status GPU(vm_release)(struct leati_driver *driver, void *device, uint64_t handle)
{
    struct gpu_device *self = device;

    (void)driver;
    GPU_TRY(self, vm_release, handle_of(handle));
    return LEAT_OK;
}

leat_status GPU(vm_map)(struct leati_driver *driver, void *device, void *ptr, size_t bytes, uint64_t handle)
{
    struct gpu_device *self = device;

    (void)driver;
    leati_assert(ptr && bytes);
    GPU_TRY(self, vm_map, gpu_address_of(ptr), bytes, 0, handle_of(handle), 0);
    return LEAT_OK;
}

static gpu_mem_access access_of(gpu_number number)
{
    gpu_mem_access access = {
        .location = {.type = GPU_MEM_LOCATION_DEVICE, .id = number},
        .flags = GPU_MEM_ACCESS_READ_WRITE,
    };

    return access;
}

/* Gives the device and its peers access to the range, and adds the range to the list of mappings. */
static leat_status set_access(struct gpu_device *self, void *ptr, size_t bytes) LEATI_REQUIRES(self->maps_lock)
{
    gpu_mem_access access[1 + GPU_PEERS_MAX];

    leati_assert_locked(&self->maps_lock);
    leati_assert(self->peer_count <= GPU_PEERS_MAX && bytes);
    access[0] = access_of(self->number);
    for (unsigned i = 0; i < self->peer_count; i++)
        access[1 + i] = access_of(self->peers[i]);
    /* Reserve the list entry first, because nothing may fail after the vendor's call has succeeded. */
    if (!leati_ranges_reserve(&self->maps))
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the list of mappings");
    GPU_TRY(self, vm_set_access, gpu_address_of(ptr), bytes, access, 1 + self->peer_count);
    leati_ranges_insert(&self->maps, (uintptr_t)ptr, bytes, self);
    return LEAT_OK;
}

leat_status GPU(vm_set_access)(struct leati_driver *driver, void *device, void *ptr, size_t bytes)
{
    struct gpu_device *self = device;
    leat_status status;

    (void)driver;
    leati_lock(&self->maps_lock);
    status = set_access(self, ptr, bytes);
    leati_unlock(&self->maps_lock);
    return status;
}

/* Gives a peer access to all listed mappings, and adds the peer to those that get access to later mappings. */
static leat_status add_peer(struct gpu_device *self, gpu_number peer) LEATI_REQUIRES(self->maps_lock)
{
    gpu_mem_access access = access_of(peer);

    leati_assert_locked(&self->maps_lock);
    leati_assert(peer != self->number);
    for (unsigned i = 0; i < self->peer_count; i++)
        if (self->peers[i] == peer)
            return LEAT_OK;
    for (size_t i = 0; i < self->maps.count; i++)
        GPU_TRY(self, vm_set_access, gpu_address_of((void *)self->maps.entries[i].base),
                self->maps.entries[i].bytes, &access, 1);
    /* If there are already GPU_PEERS_MAX peers, this peer gets no direct access to later mappings. */
    if (self->peer_count < GPU_PEERS_MAX)
        self->peers[self->peer_count++] = peer;
    return LEAT_OK;
}

leat_status GPU(vm_add_peer)(struct gpu_device *self, const struct gpu_device *peer)
{
    leat_status status;

    leati_lock(&self->maps_lock);
    status = add_peer(self, peer->number);
    leati_unlock(&self->maps_lock);
    return status;
}

/* Removes a range from the list of mappings. If the range is a part of a mapping, the rest stays in the list. */
static void forget_maps(struct gpu_device *self, uintptr_t base, size_t bytes) LEATI_REQUIRES(self->maps_lock)
{
    const struct leati_range *range;

    leati_assert_locked(&self->maps_lock);
    leati_assert(bytes && base + bytes > base);
    while ((range = leati_ranges_overlap(&self->maps, base, bytes))) {
        uintptr_t start = range->base, end = start + range->bytes;

        /* leati_ranges_remove() leaves room for one insertion. If the second insertion fails for lack of memory,
         * peers that are added later get no direct access to the piece that was not inserted. */
        leati_ranges_remove(&self->maps, start);
        if (start < base)
            (void)leati_ranges_insert(&self->maps, start, base - start, self);
        if (end > base + bytes)
            (void)leati_ranges_insert(&self->maps, base + bytes, end - (base + bytes), self);
    }
}

/* Unmaps a range, under the lock so that no other thread gives a peer access to the range meanwhile. */
static leat_status unmap(struct gpu_device *self, void *ptr, size_t bytes) LEATI_REQUIRES(self->maps_lock)
{
    leati_assert_locked(&self->maps_lock);
    GPU_TRY(self, vm_unmap, gpu_address_of(ptr), bytes);
    return LEAT_OK;
}

leat_status GPU(vm_unmap)(struct leati_driver *driver, void *device, void *ptr, size_t bytes)
{
    struct gpu_device *self = device;
    leat_status status;

    (void)driver;
    leati_lock(&self->maps_lock);
    status = unmap(self, ptr, bytes);
    /* Forget the range even if the vendor's call failed: add_peer() must not fail because of a range that may no
     * longer be mapped. */
    forget_maps(self, (uintptr_t)ptr, bytes);
    leati_unlock(&self->maps_lock);
    return status;
}

leat_status GPU(vm_export)(struct leati_driver *driver, void *device, uint64_t handle, int *fd)
{
    struct gpu_device *self = device;
    int exported;

    (void)driver;
    GPU_TRY(self, vm_export, &exported, handle_of(handle), GPU_MEM_HANDLE_DESCRIPTOR, 0);
    *fd = exported;
    return LEAT_OK;
}

leat_status GPU(vm_import)(struct leati_driver *driver, void *device, int fd, size_t bytes, uint64_t *handle)
{
    struct gpu_device *self = device;
    gpu_mem_handle imported;
    leat_status status;
    gpu_result code;

    (void)driver;
    (void)bytes; /* unused, because the vendor's handle includes the size */
    LEATI_TRY(check_virtual(self));

    GPU_CALL(self, code, vm_import, &imported, import_argument(self, &fd), GPU_MEM_HANDLE_DESCRIPTOR);
    if (code == GPU_ERROR_INVALID_VALUE || code == GPU_ERROR_UNKNOWN) {
        /* The vendor returns these results if the descriptor is closed or is not of exported memory. */
        status = GPU(fail_as)(self->api, LEAT_ERROR_INVALID, GPU(names).vm_import, code);
        return leati_fail_in(status, "file descriptor %d is not exported memory", fd);
    }
    if (code != GPU_SUCCESS)
        return GPU(fail)(self->api, GPU(names).vm_import, code);
    *handle = handle_number(imported);
    return LEAT_OK;
}
