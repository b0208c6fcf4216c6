/* pinned.c - allocates the chunks of pinned memory pools (pinned.h) from fresh pages (base/fresh_pages.h). */
#include "pool/pinned.h"

#include "base/fresh_pages.h"
#include "base/lock.h"

#include <stdlib.h>

enum { DEVICES_MAX = 64 };

/* A chunk in use. */
struct pinned_chunk {
    void *ptr;
    size_t bytes;
    void *from_driver; /* the driver's allocation, for host_free(); NULL: leat mapped and registered the chunk */
    struct pinned_chunk *next;
};

/* Guards the list of chunks and the table of nodes below; never held during a driver call. A chunk is removed from
 * the list before it is freed, so the system or the driver may reuse its address at once. */
static struct leati_lock lock = LEATI_LOCK_INITIALIZER;
static struct pinned_chunk *chunks LEATI_GUARDED_BY(lock);

/* The NUMA nodes of devices. They are cached, because the driver's query takes longer than mapping a small
 * chunk. */
static struct {
    const struct leati_driver *driver;
    int ordinal, node;
} nodes[DEVICES_MAX];
static unsigned node_count;

static void list_chunk(struct pinned_chunk *chunk)
{
    leati_lock(&lock);
    chunk->next = chunks;
    chunks = chunk;
    leati_unlock(&lock);
}

static struct pinned_chunk *unlist_chunk(const void *ptr, size_t bytes)
{
    struct pinned_chunk **place, *found;

    leati_lock(&lock);
    place = &chunks;
    while ((found = *place) && !(found->ptr == ptr && found->bytes == bytes))
        place = &found->next;
    if (found)
        *place = found->next;
    leati_unlock(&lock);
    return found;
}

/* ---- allocating a chunk ----------------------------------------------------------------------------------- */

/* Returns the NUMA node of a device, or -1 if it is not known. */
static int node_of(const struct leat_device *device)
{
    leat_device_info info = {.numa_node = -1};
    int node = -1;
    unsigned i;

    leati_lock(&lock);
    for (i = 0; i < node_count; i++)
        if (nodes[i].driver == device->driver && nodes[i].ordinal == device->ordinal)
            break;
    if (i < node_count)
        node = nodes[i].node;
    leati_unlock(&lock);
    if (i < node_count)
        return node;
    if (LEATI_QUIETLY(device->driver->ops->device_info(device->driver, device->ordinal, &info)) != LEAT_OK)
        return -1;
    /* Two threads may query the same device at the same time and both add an entry, which is harmless. */
    leati_lock(&lock);
    if (node_count < DEVICES_MAX) {
        nodes[node_count].driver = device->driver;
        nodes[node_count].ordinal = device->ordinal;
        nodes[node_count++].node = info.numa_node;
    }
    leati_unlock(&lock);
    return info.numa_node;
}

/* Checks that registered memory has the same address on the device as on the host. This is not so on all
 * hardware. */
static leat_status check_address(const struct leat_device *device, void *ptr)
{
    const struct leati_driver_ops *ops = device->driver->ops;
    void *device_pointer = ptr;

    if (ops->host_device_pointer)
        LEATI_TRY(ops->host_device_pointer(device->driver, device->native, ptr, &device_pointer));
    if (device_pointer != ptr)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "registered memory at %p has the address %p on the device", ptr,
                          device_pointer);
    return LEAT_OK;
}

/* Registers mapped memory with the driver. If this fails, unmaps the memory. */
static leat_status register_or_unmap(const struct leat_device *device, void *ptr, size_t bytes)
{
    const struct leati_driver_ops *ops = device->driver->ops;
    leat_status status = ops->host_register(device->driver, device->native, ptr, bytes);

    if (status == LEAT_OK) {
        status = check_address(device, ptr);
        if (status == LEAT_OK)
            return LEAT_OK;
        /* If unregistering fails, the device is lost. Leak the memory then, because the device may still write to
         * it. */
        if (LEATI_QUIETLY(ops->host_unregister(device->driver, device->native, ptr)) != LEAT_OK)
            return status;
    }
    leati_fresh_unmap(ptr, bytes);
    return status;
}

static leat_status map_chunk(const struct leat_device *device, struct pinned_chunk *chunk, bool *hopeless)
{
    void *mapped = NULL;

    *hopeless = false;
    if (!device->driver->ops->host_register)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "the %s driver cannot register memory", device->driver->name);
    /* The claim comes first: what there is no memory for must not reach the driver, which node_of() asks. */
    *hopeless = true;
    LEATI_TRY(leati_fresh_claim(chunk->bytes));
    LEATI_TRY(leati_fresh_map(chunk->bytes, node_of(device), &mapped, hopeless));
    *hopeless = false;
    LEATI_TRY(register_or_unmap(device, mapped, chunk->bytes));
    chunk->ptr = mapped;
    return LEAT_OK;
}

/* Allocates a chunk by the driver's own call, which is slower. If the memory is not aligned, frees it and
 * allocates a longer piece that contains an aligned chunk. */
static leat_status allocate_chunk(const struct leat_device *device, struct pinned_chunk *chunk)
{
    const struct leati_driver_ops *ops = device->driver->ops;
    void *memory;

    LEATI_TRY(ops->host_alloc(device->driver, device->native, chunk->bytes, &memory));
    if ((uintptr_t)memory & (LEATI_PINNED_UNIT - 1)) {
        LEATI_TRY(ops->host_free(device->driver, device->native, memory));
        LEATI_TRY(ops->host_alloc(device->driver, device->native, chunk->bytes + LEATI_PINNED_UNIT, &memory));
    }
    chunk->from_driver = memory;
    chunk->ptr = (char *)memory + (-(uintptr_t)memory & (LEATI_PINNED_UNIT - 1));
    return LEAT_OK;
}

/* Allocates a chunk by the driver's own call after mapping or registering memory failed. On entry this thread's
 * error message has the reason of that failure. */
static leat_status fall_back(const struct leat_device *device, struct pinned_chunk *chunk)
{
    struct leati_message reason, message;
    leat_status status;

    leati_error_keep(&reason);
    status = leati_fresh_claim(chunk->bytes);
    if (status == LEAT_OK) {
        status = allocate_chunk(device, chunk);
        leati_fresh_unclaim(chunk->bytes);
    }
    if (status == LEAT_OK)
        return LEAT_OK;
    leati_error_keep(&message);
    /* Pinned memory is host memory, so do not return the status for device memory that some drivers use. */
    if (status == LEAT_ERROR_DEVICE_MEMORY)
        status = LEAT_ERROR_HOST_MEMORY;
    return leati_fail(status, "%.900s; the driver was asked for the memory because of this: %.900s", message.text,
                      reason.text);
}

leat_status leati_pinned_take(struct leat_device *device, size_t bytes, void **ptr)
{
    struct leati_message before;
    struct pinned_chunk *chunk;
    leat_status status;
    bool hopeless;

    if (!bytes || bytes % LEATI_PINNED_UNIT || bytes > PTRDIFF_MAX - LEATI_PINNED_UNIT)
        return leati_fail(LEAT_ERROR_INVALID, "a chunk of %zu bytes of pinned memory is not whole units of 2 MiB",
                          bytes);
    chunk = malloc(sizeof *chunk);
    if (!chunk)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory to describe a chunk of pinned memory");
    *chunk = (struct pinned_chunk){.bytes = bytes};
    leati_error_keep(&before);
    status = map_chunk(device, chunk, &hopeless);
    if (status != LEAT_OK && !hopeless)
        status = fall_back(device, chunk);
    if (status != LEAT_OK) {
        free(chunk);
        return status;
    }
    *ptr = chunk->ptr;
    list_chunk(chunk);
    /* If the first attempt failed and the second succeeded, drop the message of the first. */
    return leati_error_restore(LEAT_OK, &before);
}

leat_status leati_pinned_give_back(struct leat_device *device, void *ptr, size_t bytes)
{
    const struct leati_driver_ops *ops = device->driver->ops;
    struct pinned_chunk *chunk = unlist_chunk(ptr, bytes);
    leat_status status;

    if (!chunk)
        return leati_fail(LEAT_ERROR_POINTER, "no chunk of %zu bytes of pinned memory starts at %p", bytes, ptr);
    if (chunk->from_driver)
        status = ops->host_free(device->driver, device->native, chunk->from_driver);
    else
        status = ops->host_unregister(device->driver, device->native, ptr);
    if (status != LEAT_OK) {
        list_chunk(chunk);
        return status;
    }
    if (!chunk->from_driver)
        leati_fresh_unmap(ptr, bytes);
    free(chunk);
    return LEAT_OK;
}
