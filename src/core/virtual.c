/*
 * virtual.c - implements leat/virtual.h by calls of the driver table: reservations of addresses, physical memory,
 * mappings and access.
 *
 * A reservation is an entry in the table of pointers, so that its range cannot be entered again and a lookup finds
 * every address in it. Each reservation has a list of its mappings. Physical memory may belong to another device
 * than the reservation; driver calls about a mapping go to the device of the memory.
 */
#include "core/virtual.h"

#include "base/lock.h"
#include "base/ranges.h"
#include "base/sized.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RIGHTS_MAX = 32 };

struct leat_physical {
    struct leati_handle handle;
    struct leat_device *device;
    uint64_t native; /* the driver's handle */
    size_t bytes;
    bool exportable, imported;
    int imported_fd; /* imported: a duplicate of the descriptor, because CUDA does not export imported memory */
    unsigned holds; /* references of the user; 0: the handle is dead, only mappings remain; guarded by turn, like
                       maps */
    unsigned maps;
    struct leati_link link; /* place in the list all_physical */
};

/* The access of one device to a mapping. */
struct right {
    struct leat_device *device;
    leat_access access;
};

struct mapping {
    struct leat_physical *physical;
    struct right rights[RIGHTS_MAX];
    unsigned right_count;
};

struct leati_reservation {
    struct leat_device *device;
    uintptr_t base;
    size_t bytes;
    uintptr_t outer_base; /* the driver's reservation, which is larger if the user wants a larger alignment */
    size_t outer_bytes;
    struct leati_ranges maps; /* the value of each range is a struct mapping */
    struct leati_link link;   /* place in the list all_reservations */
};

static struct leati_handles physical_handles = LEATI_HANDLES(struct leat_physical);

/* Serializes all calls that change reservations, mappings or physical memory; held during driver calls. Guards the
 * two lists. */
static struct leati_lock turn = LEATI_LOCK_INITIALIZER;
static struct leati_link all_physical LEATI_GUARDED_BY(turn) = {.next = &all_physical, .previous = &all_physical};
static struct leati_link all_reservations LEATI_GUARDED_BY(turn) = {.next = &all_reservations,
                                                                    .previous = &all_reservations};

/* Guards the lists of mappings and their rights against concurrent lookups. A writer holds turn and this lock; a
 * reader holds at least one of the two. Taken after turn and after the lock of the table of pointers. */
static struct leati_rwlock maps_lock = LEATI_RWLOCK_INITIALIZER;

static leat_status check_physical(const char *what, const leat_physical *physical)
{
    if (leati_handle_live(&physical_handles, physical))
        return LEAT_OK;
    return leati_fail(
        LEAT_ERROR_HANDLE,
        "%s: %p is no live physical memory: it was released, its device was closed, or it never came from leat",
        what, (const void *)physical);
}

static leat_status granularity(leat_device *device, size_t *bytes)
{
    const struct leati_driver_ops *ops = device->driver->ops;

    if (!ops->vm_reserve)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "the %s driver has no virtual memory", device->driver->name);
    return ops->vm_granularity(device->driver, device->native, bytes);
}

leat_status leat_virtual_granularity(leat_device *device, size_t *bytes)
{
    leat_status status;
    size_t found;

    LEATI_TRY(leati_check_device("leat_virtual_granularity", device));
    LEATI_TRY(leati_check_not_null("leat_virtual_granularity", "bytes", bytes));
    status = granularity(device, &found);
    if (status != LEAT_OK)
        return leati_fail_in(status, "leat_virtual_granularity of %s", device->name);
    *bytes = found;
    return LEAT_OK;
}

/* Fails if bytes is not a multiple of the device's granularity, or 0. */
static leat_status check_bytes(leat_device *device, size_t bytes, size_t *unit_bytes)
{
    LEATI_TRY(granularity(device, unit_bytes));
    if (bytes && bytes % *unit_bytes == 0)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_INVALID, "%zu bytes are not a multiple of %zu, the granularity of %s", bytes,
                      *unit_bytes, device->name);
}

/* ---- reservations ---- */

/* Reserves addresses, with enough extra bytes for an aligned start. */
static leat_status reserve(struct leati_reservation *made, size_t alignment_bytes, size_t unit_bytes)
{
    const struct leati_driver_ops *ops = made->device->driver->ops;
    size_t more_bytes = alignment_bytes > unit_bytes ? alignment_bytes - unit_bytes : 0;
    void *start;

    if (made->bytes > SIZE_MAX - more_bytes)
        return leati_fail(LEAT_ERROR_INVALID, "%zu bytes aligned to %zu are more than there are addresses",
                          made->bytes, alignment_bytes);
    leati_assert(unit_bytes && (!alignment_bytes || LEATI_IS_POWER_OF_TWO(alignment_bytes)));
    made->outer_bytes = made->bytes + more_bytes;
    LEATI_TRY(ops->vm_reserve(made->device->driver, made->device->native, made->outer_bytes, &start));
    made->outer_base = (uintptr_t)start;
    made->base = more_bytes ? (made->outer_base + alignment_bytes - 1) & ~(alignment_bytes - 1) : made->outer_base;
    leati_assert(made->base >= made->outer_base &&
                 made->base + made->bytes <= made->outer_base + made->outer_bytes);
    return LEAT_OK;
}

static leat_status unreserve(struct leati_reservation *reservation)
{
    struct leat_device *device = reservation->device;

    return device->driver->ops->vm_unreserve(device->driver, device->native, (void *)reservation->outer_base,
                                             reservation->outer_bytes);
}

static leat_status reserve_and_enter(struct leati_reservation *made, size_t alignment_bytes)
{
    struct leati_memory memory = {.device = made->device,
                                  .bytes = made->bytes,
                                  .kind = LEAT_KIND_DEVICE,
                                  .origin = LEATI_RESERVED,
                                  .reservation = made};
    leat_status status;
    size_t unit_bytes;

    LEATI_TRY(check_bytes(made->device, made->bytes, &unit_bytes));
    LEATI_TRY(reserve(made, alignment_bytes, unit_bytes));
    memory.base = made->base;
    status = leati_pointers_add(&memory);
    if (status != LEAT_OK)
        (void)LEATI_QUIETLY(unreserve(made));
    return status;
}

leat_status leat_virtual_reserve(leat_device *device, size_t bytes, size_t alignment_bytes, void **ptr)
{
    struct leati_reservation *made;
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_virtual_reserve"));
    LEATI_TRY(leati_check_device("leat_virtual_reserve", device));
    LEATI_TRY(leati_check_not_null("leat_virtual_reserve", "ptr", ptr));
    if (alignment_bytes & (alignment_bytes - 1))
        return leati_fail(LEAT_ERROR_INVALID, "leat_virtual_reserve: an alignment of %zu bytes is no power of two",
                          alignment_bytes);
    made = calloc(1, sizeof *made);
    if (!made)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "leat_virtual_reserve: no memory for its record");
    made->device = device;
    made->bytes = bytes;
    leati_lock(&turn);
    status = reserve_and_enter(made, alignment_bytes);
    if (status == LEAT_OK)
        leati_link_add(&all_reservations, &made->link);
    leati_unlock(&turn);
    if (status != LEAT_OK) {
        free(made);
        return leati_fail_in(status, "leat_virtual_reserve of %zu bytes on %s", bytes, device->name);
    }
    *ptr = (void *)made->base;
    return LEAT_OK;
}

/* Removes an empty reservation. Call with turn held. */
static leat_status end_reservation(struct leati_reservation *reservation)
{
    struct leati_memory memory;
    leat_status status;

    leati_assert_locked(&turn);
    leati_assert(!reservation->maps.count);
    LEATI_TRY(
        leati_pointers_take("leat_virtual_unreserve", (void *)reservation->base, LEATI_RESERVED, NULL, &memory));
    leati_link_remove(&reservation->link);
    leati_ranges_clear(&reservation->maps);
    status = unreserve(reservation);
    free(reservation);
    return status;
}

/* Finds the reservation that contains [ptr, ptr + bytes). Call with turn held. */
static leat_status find_reservation(const void *ptr, size_t bytes, struct leati_reservation **found)
    LEATI_REQUIRES(turn)
{
    leati_assert_locked(&turn);
    for (struct leati_link *at = all_reservations.next; at != &all_reservations; at = at->next) {
        struct leati_reservation *reservation = LEATI_CONTAINER_OF(at, struct leati_reservation);
        size_t offset = (uintptr_t)ptr - reservation->base;

        if (offset >= reservation->bytes)
            continue;
        if (bytes > reservation->bytes - offset)
            return leati_fail(LEAT_ERROR_RANGE, "%p + %zu goes past the end of the reservation %p + %zu", ptr,
                              bytes, (void *)reservation->base, reservation->bytes);
        *found = reservation;
        return LEAT_OK;
    }
    return leati_fail(LEAT_ERROR_POINTER,
                      "%p is not reserved: leat_virtual_reserve() never gave it, or it was given back", ptr);
}

static leat_status unreserve_whole(void *ptr) LEATI_REQUIRES(turn)
{
    struct leati_reservation *reservation = NULL;

    leati_assert_locked(&turn);
    LEATI_TRY(find_reservation(ptr, 1, &reservation));
    leati_assert((uintptr_t)ptr - reservation->base < reservation->bytes);
    if (reservation->base != (uintptr_t)ptr)
        return leati_fail(LEAT_ERROR_POINTER, "the reservation starts at %p; give its start",
                          (void *)reservation->base);
    if (reservation->maps.count)
        return leati_fail(LEAT_ERROR_BUSY, "%zu bytes are still mapped at %p; unmap them first",
                          reservation->maps.entries[0].bytes, (void *)reservation->maps.entries[0].base);
    return end_reservation(reservation);
}

leat_status leat_virtual_unreserve(void *ptr)
{
    leat_status status;

    if (!ptr)
        return LEAT_OK;
    LEATI_TRY(leati_check_permitted("leat_virtual_unreserve"));
    leati_lock(&turn);
    status = unreserve_whole(ptr);
    leati_unlock(&turn);
    return status == LEAT_OK ? LEAT_OK : leati_fail_in(status, "leat_virtual_unreserve of %p", ptr);
}

leat_status leat_virtual_get_reservation(const void *ptr, void **base, size_t *bytes)
{
    struct leati_reservation *reservation = NULL;
    leat_status status;

    leati_lock(&turn);
    status = find_reservation(ptr, 1, &reservation);
    if (status == LEAT_OK) {
        if (base)
            *base = (void *)reservation->base;
        if (bytes)
            *bytes = reservation->bytes;
    }
    leati_unlock(&turn);
    return status == LEAT_OK ? LEAT_OK : leati_fail_in(status, "leat_virtual_get_reservation of %p", ptr);
}

/* ---- physical memory ---- */

/* Releases the memory if no handle and no mapping refers to it. Call with turn held. */
static leat_status end_if_unused(struct leat_physical *physical)
{
    struct leat_device *device = physical->device;
    leat_status status;

    leati_assert_locked(&turn);
    if (physical->holds || physical->maps)
        return LEAT_OK;
    leati_assert(!atomic_load_explicit(&physical->handle.live, memory_order_relaxed));
    leati_link_remove(&physical->link);
    status = device->driver->ops->vm_release(device->driver, device->native, physical->native);
    if (physical->imported)
        close(physical->imported_fd);
    leati_handle_free(&physical_handles, physical);
    return status;
}

/* Publishes the user's handle for new physical memory. */
static void publish(struct leat_physical *made, leat_physical **physical)
{
    leati_assert(!made->holds && !made->maps && made->bytes);
    made->holds = 1;
    leati_lock(&turn);
    leati_link_add(&all_physical, &made->link);
    leati_unlock(&turn);
    leati_handle_publish(made);
    *physical = made;
}

leat_status leat_physical_create(leat_device *device, size_t bytes, unsigned flags, leat_physical **physical)
{
    struct leat_physical *made;
    leat_status status;
    size_t unit_bytes;

    LEATI_TRY(leati_check_permitted("leat_physical_create"));
    LEATI_TRY(leati_check_device("leat_physical_create", device));
    LEATI_TRY(leati_check_not_null("leat_physical_create", "physical", physical));
    if (flags & ~(unsigned)LEAT_PHYSICAL_EXPORTABLE)
        return leati_fail(LEAT_ERROR_INVALID, "leat_physical_create: flags 0x%x are not known", flags);
    made = leati_handle_new(&physical_handles);
    if (!made)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "leat_physical_create: no memory for the handle");
    made->device = device;
    made->bytes = bytes;
    made->exportable = flags & LEAT_PHYSICAL_EXPORTABLE;
    status = check_bytes(device, bytes, &unit_bytes);
    if (status == LEAT_OK)
        status =
            device->driver->ops->vm_create(device->driver, device->native, bytes, made->exportable, &made->native);
    if (status != LEAT_OK) {
        leati_handle_free(&physical_handles, made);
        return leati_fail_in(status, "leat_physical_create of %zu bytes on %s", bytes, device->name);
    }
    publish(made, physical);
    return LEAT_OK;
}

leat_status leat_physical_release(leat_physical *physical)
{
    leat_status status;

    if (!physical)
        return LEAT_OK;
    LEATI_TRY(leati_check_permitted("leat_physical_release"));
    leati_lock(&turn);
    status = check_physical("leat_physical_release", physical);
    if (status == LEAT_OK) {
        leati_assert(physical->holds);
        if (!--physical->holds)
            leati_handle_retire(&physical_handles, physical);
        status = end_if_unused(physical);
        if (status != LEAT_OK)
            leati_fail_in(status, "leat_physical_release: it is given up, but");
    }
    leati_unlock(&turn);
    return status;
}

leat_status leat_physical_get_info(leat_physical *physical, leat_physical_info *info)
{
    leat_physical_info filled;

    LEATI_TRY(check_physical("leat_physical_get_info", physical));
    LEATI_TRY(LEATI_SIZED_CHECK("leat_physical_get_info", "info", leat_physical_info, info));
    filled = (leat_physical_info){.device = physical->device,
                                  .bytes = physical->bytes,
                                  .exportable = physical->exportable,
                                  .imported = physical->imported};
    LEATI_SIZED_WRITE(info, &filled);
    return LEAT_OK;
}

leat_status leati_export(leat_device *device, uint64_t native, leat_access access, int *fd)
{
    const struct leati_driver_ops *ops = device->driver->ops;

    if (access == LEAT_ACCESS_READ && ops->vm_export_read)
        return ops->vm_export_read(device->driver, device->native, native, fd);
    return ops->vm_export(device->driver, device->native, native, fd);
}

static leat_status duplicate(int fd, int *made)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (copy < 0)
        return leati_fail(LEAT_ERROR_SYSTEM, "duplicating the descriptor of the memory: %s", strerror(errno));
    *made = copy;
    return LEAT_OK;
}

leat_status leati_physical_export(leat_physical *physical, leat_access access, int *fd)
{
    if (!physical->exportable)
        return leati_fail(LEAT_ERROR_INVALID,
                          "the memory was created without LEAT_PHYSICAL_EXPORTABLE, which cannot be changed later");
    if (physical->imported && (access != LEAT_ACCESS_READ || !physical->device->driver->ops->vm_export_read))
        return duplicate(physical->imported_fd, fd);
    return leati_export(physical->device, physical->native, access, fd);
}

leat_status leat_physical_export(leat_physical *physical, int *fd)
{
    struct leat_device *device;
    leat_status status;
    int exported;

    LEATI_TRY(leati_check_permitted("leat_physical_export"));
    LEATI_TRY(check_physical("leat_physical_export", physical));
    LEATI_TRY(leati_check_not_null("leat_physical_export", "fd", fd));
    device = physical->device;
    status = leati_physical_export(physical, LEAT_ACCESS_READ_WRITE, &exported);
    if (status != LEAT_OK)
        return leati_fail_in(status, "leat_physical_export of %zu bytes of %s", physical->bytes, device->name);
    *fd = exported;
    return LEAT_OK;
}

leat_status leati_physical_import(leat_device *device, int fd, size_t bytes, leat_access access,
                                  leat_physical **physical)
{
    const struct leati_driver_ops *ops = device->driver->ops;
    struct leat_physical *made = leati_handle_new(&physical_handles);
    leat_status status;
    size_t unit_bytes;
    int kept = -1;

    if (!made)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the handle");
    made->device = device;
    made->bytes = bytes;
    made->exportable = made->imported = true;
    status = check_bytes(device, bytes, &unit_bytes);
    if (status == LEAT_OK && access == LEAT_ACCESS_READ && ops->vm_import_read)
        status = ops->vm_import_read(device->driver, device->native, fd, bytes, &made->native);
    else if (status == LEAT_OK)
        status = ops->vm_import(device->driver, device->native, fd, bytes, &made->native);
    if (status == LEAT_OK) {
        status = duplicate(fd, &kept);
        if (status != LEAT_OK)
            (void)ops->vm_release(device->driver, device->native, made->native);
    }
    if (status != LEAT_OK) {
        leati_handle_free(&physical_handles, made);
        return status;
    }
    made->imported_fd = kept;
    publish(made, physical);
    return LEAT_OK;
}

leat_status leat_physical_import(leat_device *device, int fd, size_t bytes, leat_physical **physical)
{
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_physical_import"));
    LEATI_TRY(leati_check_device("leat_physical_import", device));
    LEATI_TRY(leati_check_not_null("leat_physical_import", "physical", physical));
    status = leati_physical_import(device, fd, bytes, LEAT_ACCESS_READ_WRITE, physical);
    return status == LEAT_OK ? status
                             : leati_fail_in(status, "leat_physical_import of %zu bytes on %s", bytes,
                                             device->name);
}

/* ---- mappings ---- */

static leat_status check_map(struct leati_reservation *reservation, void *ptr, size_t bytes,
                             const struct leat_physical *physical)
{
    size_t unit_bytes;

    if (reservation->device->driver != physical->device->driver)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "the addresses are the %s driver's and the memory is of %s",
                          reservation->device->driver->name, physical->device->name);
    LEATI_TRY(check_bytes(physical->device, bytes, &unit_bytes));
    if ((uintptr_t)ptr % unit_bytes)
        return leati_fail(LEAT_ERROR_INVALID, "the address is not a multiple of %zu, the granularity of %s",
                          unit_bytes, physical->device->name);
    if (bytes > physical->bytes)
        return leati_fail(LEAT_ERROR_INVALID, "the physical memory has only %zu bytes", physical->bytes);
    if (leati_ranges_overlap(&reservation->maps, (uintptr_t)ptr, bytes))
        return leati_fail(LEAT_ERROR_BUSY, "something is mapped in this range already; unmap it first");
    return LEAT_OK;
}

/* Maps the first bytes bytes of physical at ptr. Call with turn held. */
static leat_status map(void *ptr, size_t bytes, struct leat_physical *physical) LEATI_REQUIRES(turn)
{
    struct leat_device *device = physical->device;
    struct leati_reservation *reservation = NULL;
    struct mapping *made;
    leat_status status;
    bool entered;

    leati_assert_locked(&turn);
    LEATI_TRY(find_reservation(ptr, bytes, &reservation));
    LEATI_TRY(check_map(reservation, ptr, bytes, physical));
    made = calloc(1, sizeof *made);
    if (!made)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the list of mappings");
    made->physical = physical;
    status = device->driver->ops->vm_map(device->driver, device->native, ptr, bytes, physical->native);
    if (status != LEAT_OK) {
        free(made);
        return status;
    }
    leati_write_lock(&maps_lock);
    entered = leati_ranges_insert(&reservation->maps, (uintptr_t)ptr, bytes, made);
    leati_write_unlock(&maps_lock);
    if (!entered) {
        (void)device->driver->ops->vm_unmap(device->driver, device->native, ptr, bytes);
        free(made);
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the list of mappings");
    }
    leati_assert(leati_ranges_find(&reservation->maps, (uintptr_t)ptr));
    physical->maps++;
    return LEAT_OK;
}

leat_status leat_virtual_map(void *ptr, size_t bytes, leat_physical *physical)
{
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_virtual_map"));
    leati_lock(&turn);
    status = check_physical("leat_virtual_map", physical);
    if (status == LEAT_OK) {
        status = map(ptr, bytes, physical);
        if (status != LEAT_OK)
            leati_fail_in(status, "leat_virtual_map of %zu bytes at %p", bytes, ptr);
    }
    leati_unlock(&turn);
    return status;
}

/* Finds the mappings that exactly cover [ptr, ptr + bytes). Sets *first to the index of the first one, and *count
 * to their number. Call with turn held. */
static leat_status find_mappings(const void *ptr, size_t bytes, struct leati_reservation **reservation,
                                 size_t *first, size_t *count) LEATI_REQUIRES(turn)
{
    const struct leati_range *entries;
    uintptr_t at = (uintptr_t)ptr;
    size_t i = 0;

    leati_assert_locked(&turn);
    if (!bytes)
        return leati_fail(LEAT_ERROR_INVALID, "0 bytes are no range");
    LEATI_TRY(find_reservation(ptr, bytes, reservation));
    entries = (*reservation)->maps.entries;
    while (i < (*reservation)->maps.count && entries[i].base + (entries[i].bytes - 1) < at)
        i++;
    for (*first = i; at - (uintptr_t)ptr < bytes; at = entries[i].base + entries[i].bytes, i++) {
        if (i == (*reservation)->maps.count || entries[i].base > at)
            return leati_fail(LEAT_ERROR_POINTER, "nothing is mapped at %p", (void *)at);
        if (entries[i].base < at || entries[i].bytes > bytes - (at - (uintptr_t)ptr))
            return leati_fail(LEAT_ERROR_INVALID, "the range has only a part of the mapping %p + %zu",
                              (void *)entries[i].base, entries[i].bytes);
    }
    *count = i - *first;
    return LEAT_OK;
}

/* Unmaps mapping i. Call with turn held. */
static leat_status unmap_one(struct leati_reservation *reservation, size_t i)
{
    struct leati_range range = reservation->maps.entries[i];
    struct mapping *mapping = range.value;
    struct leat_physical *physical = mapping->physical;
    struct leat_device *device = physical->device;
    leat_status status, released;

    leati_write_lock(&maps_lock);
    leati_ranges_remove(&reservation->maps, range.base);
    leati_write_unlock(&maps_lock);
    free(mapping);
    status = device->driver->ops->vm_unmap(device->driver, device->native, (void *)range.base, range.bytes);
    physical->maps--;
    released = end_if_unused(physical);
    return status != LEAT_OK ? status : released;
}

static leat_status unmap(void *ptr, size_t bytes) LEATI_REQUIRES(turn)
{
    struct leati_reservation *reservation = NULL;
    leat_status first_failure = LEAT_OK;
    size_t first, count;

    leati_assert_locked(&turn);
    LEATI_TRY(find_mappings(ptr, bytes, &reservation, &first, &count));
    while (count--) {
        leat_status status = unmap_one(reservation, first + count);

        first_failure = first_failure != LEAT_OK ? first_failure : status;
    }
    return first_failure;
}

leat_status leat_virtual_unmap(void *ptr, size_t bytes)
{
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_virtual_unmap"));
    leati_lock(&turn);
    status = unmap(ptr, bytes);
    leati_unlock(&turn);
    return status == LEAT_OK ? LEAT_OK
                             : leati_fail_in(status, "leat_virtual_unmap of %zu bytes at %p", bytes, ptr);
}

/* Returns the mapping that contains ptr, or NULL. Call with turn or maps_lock held. */
static const struct leati_range *mapping_at(const struct leati_reservation *reservation, const void *ptr)
{
    return leati_ranges_find(&reservation->maps, (uintptr_t)ptr);
}

leat_status leat_physical_retain(const void *ptr, leat_physical **physical)
{
    struct leati_reservation *reservation = NULL;
    const struct leati_range *range = NULL;
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_physical_retain"));
    LEATI_TRY(leati_check_not_null("leat_physical_retain", "physical", physical));
    leati_lock(&turn);
    status = find_reservation(ptr, 1, &reservation);
    if (status == LEAT_OK) {
        range = mapping_at(reservation, ptr);
        if (!range)
            status = leati_fail(LEAT_ERROR_POINTER, "nothing is mapped there");
    }
    if (range) {
        struct leat_physical *found = ((struct mapping *)range->value)->physical;

        if (!found->holds++)
            leati_handle_publish(found);
        *physical = found;
    }
    leati_unlock(&turn);
    return status == LEAT_OK ? LEAT_OK : leati_fail_in(status, "leat_physical_retain of what is at %p", ptr);
}

static leat_access widest(const struct mapping *mapping);

leat_status leati_physical_at(const void *ptr, struct leati_mapped *mapped)
{
    struct leati_reservation *reservation = NULL;
    const struct leati_range *range = NULL;
    leat_status status;

    leati_lock(&turn);
    status = find_reservation(ptr, 1, &reservation);
    if (status == LEAT_OK) {
        range = mapping_at(reservation, ptr);
        if (!range || range->base != (uintptr_t)ptr)
            status = leati_fail(LEAT_ERROR_POINTER, "%p is not the start of a mapping", ptr);
    }
    if (status == LEAT_OK) {
        const struct mapping *mapping = range->value;

        mapped->physical = mapping->physical;
        mapped->device = mapping->physical->device;
        mapped->bytes = range->bytes;
        mapped->physical_bytes = mapping->physical->bytes;
        mapped->access = widest(mapping);
        if (!mapping->physical->holds++)
            leati_handle_publish(mapping->physical);
    }
    leati_unlock(&turn);
    return status;
}

/* ---- access ---- */

/* Returns device's entry in the mapping's rights or, if it has none, the next free entry; NULL if the array is
 * full. */
static struct right *right_of(struct mapping *mapping, const struct leat_device *device)
{
    for (unsigned i = 0; i < mapping->right_count; i++)
        if (mapping->rights[i].device == device)
            return &mapping->rights[i];
    return mapping->right_count < RIGHTS_MAX ? &mapping->rights[mapping->right_count] : NULL;
}

/* Sets the access rights of a mapping in the driver. */
static leat_status set_rights(const struct leati_range *range, const struct mapping *changed)
{
    struct leat_device *owner = changed->physical->device;
    const struct leati_driver_ops *ops = owner->driver->ops;
    struct leati_right rights[RIGHTS_MAX];

    if (!ops->vm_set_rights) {
        if (changed->right_count == 1 && changed->rights[0].device == owner &&
            changed->rights[0].access == LEAT_ACCESS_READ_WRITE)
            return ops->vm_set_access(owner->driver, owner->native, (void *)range->base, range->bytes);
        return leati_fail(LEAT_ERROR_UNSUPPORTED,
                          "the %s driver can only let the device that has the memory read and write it",
                          owner->driver->name);
    }
    for (unsigned i = 0; i < changed->right_count; i++)
        rights[i] =
            (struct leati_right){.device = changed->rights[i].device->native, .access = changed->rights[i].access};
    return ops->vm_set_rights(owner->driver, owner->native, (void *)range->base, range->bytes, rights,
                              changed->right_count);
}

static leat_status set_one(const struct leati_range *range, leat_device *device, leat_access access)
{
    struct mapping *mapping = range->value;
    struct mapping changed = *mapping;
    struct right *right = right_of(&changed, device);

    if (device->driver != mapping->physical->device->driver)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "%s is a device of another driver than the memory's",
                          device->name);
    if (!right)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "%d devices have access already", RIGHTS_MAX);
    if (right == &changed.rights[changed.right_count])
        changed.right_count++;
    *right = (struct right){.device = device, .access = access};
    LEATI_TRY(set_rights(range, &changed));
    leati_write_lock(&maps_lock);
    *mapping = changed;
    leati_write_unlock(&maps_lock);
    return LEAT_OK;
}

static leat_status set_access(void *ptr, size_t bytes, leat_device *device, leat_access access)
    LEATI_REQUIRES(turn)
{
    struct leati_reservation *reservation = NULL;
    size_t first, count;

    leati_assert_locked(&turn);
    LEATI_TRY(find_mappings(ptr, bytes, &reservation, &first, &count));
    for (size_t i = first; i < first + count; i++)
        LEATI_TRY(set_one(&reservation->maps.entries[i], device, access));
    return LEAT_OK;
}

leat_status leat_virtual_set_access(leat_device *device, void *ptr, size_t bytes, leat_access access)
{
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_virtual_set_access"));
    LEATI_TRY(leati_check_device("leat_virtual_set_access", device));
    if (access != LEAT_ACCESS_NONE && access != LEAT_ACCESS_READ && access != LEAT_ACCESS_READ_WRITE)
        return leati_fail(LEAT_ERROR_INVALID, "leat_virtual_set_access: %d is no access that a device can have",
                          (int)access);
    leati_lock(&turn);
    status = set_access(ptr, bytes, device, access);
    leati_unlock(&turn);
    return status == LEAT_OK ? LEAT_OK
                             : leati_fail_in(status, "leat_virtual_set_access of %s to %zu bytes at %p",
                                             device->name, bytes, ptr);
}

leat_status leat_virtual_get_access(leat_device *device, const void *ptr, leat_access *access)
{
    struct leati_reservation *reservation = NULL;
    const struct leati_range *range;
    leat_status status;

    LEATI_TRY(leati_check_device("leat_virtual_get_access", device));
    LEATI_TRY(leati_check_not_null("leat_virtual_get_access", "access", access));
    leati_lock(&turn);
    status = find_reservation(ptr, 1, &reservation);
    if (status == LEAT_OK) {
        range = mapping_at(reservation, ptr);
        if (range) {
            struct mapping *mapping = range->value;
            struct right *right = right_of(mapping, device);

            *access = right && right != &mapping->rights[mapping->right_count] ? right->access : LEAT_ACCESS_NONE;
        } else {
            status = leati_fail(LEAT_ERROR_POINTER, "nothing is mapped there");
        }
    }
    leati_unlock(&turn);
    return status == LEAT_OK ? LEAT_OK : leati_fail_in(status, "leat_virtual_get_access at %p", ptr);
}

/* Returns the widest access that any device has. */
static leat_access widest(const struct mapping *mapping)
{
    leat_access most = LEAT_ACCESS_NONE;

    for (unsigned i = 0; i < mapping->right_count; i++)
        if (mapping->rights[i].access > most)
            most = mapping->rights[i].access;
    return most;
}

/* ---- for the rest of the core ---- */

/* Returns true if copies can treat two neighbouring mappings as one range. */
static bool alike(const struct leati_range *low, const struct leati_range *high)
{
    const struct mapping *one = low->value, *other = high->value;

    return low->base + low->bytes == high->base && one->physical->device == other->physical->device &&
           widest(one) == widest(other);
}

leat_status leati_virtual_find(const struct leati_memory *reserved, const void *ptr,
                               struct leati_endpoint *endpoint)
{
    const struct leati_ranges *maps = &reserved->reservation->maps;
    const struct leati_range *range, *low, *high;
    const struct mapping *mapping;
    leat_status status = LEAT_OK;

    leati_read_lock(&maps_lock);
    range = mapping_at(reserved->reservation, ptr);
    mapping = range ? range->value : NULL;
    if (!mapping) {
        status = leati_fail(LEAT_ERROR_POINTER, "%p is reserved, but nothing is mapped there", ptr);
    } else if (widest(mapping) == LEAT_ACCESS_NONE) {
        status = leati_fail(LEAT_ERROR_POINTER,
                            "%p is mapped, but no device has access: call leat_virtual_set_access() first", ptr);
    } else {
        for (low = range; low > maps->entries && alike(low - 1, low);)
            low--;
        for (high = range; high < maps->entries + maps->count - 1 && alike(high, high + 1);)
            high++;
        endpoint->location.ptr = (void *)(uintptr_t)ptr;
        endpoint->location.kind = LEAT_KIND_DEVICE;
        endpoint->location.device = mapping->physical->device->native;
        endpoint->device = mapping->physical->device;
        endpoint->driver = mapping->physical->device->driver;
        endpoint->base = low->base;
        endpoint->bytes = high->base + high->bytes - low->base;
        endpoint->owned = true;
        endpoint->read_only = widest(mapping) == LEAT_ACCESS_READ;
    }
    leati_read_unlock(&maps_lock);
    return status;
}

/* Unmaps the memory of device in a reservation, or everything if the reservation is of device, and removes the
 * device's rights in other mappings. */
static leat_status leave_reservation(struct leati_reservation *reservation, const struct leat_device *device)
{
    leat_status first_failure = LEAT_OK;

    for (size_t i = reservation->maps.count; i--;) {
        struct mapping *mapping = reservation->maps.entries[i].value;
        struct right *right = right_of(mapping, device);

        if (reservation->device == device || mapping->physical->device == device) {
            leat_status status = unmap_one(reservation, i);

            first_failure = first_failure != LEAT_OK ? first_failure : status;
        } else if (right && right != &mapping->rights[mapping->right_count]) {
            leati_write_lock(&maps_lock);
            *right = mapping->rights[--mapping->right_count];
            leati_write_unlock(&maps_lock);
        }
    }
    return first_failure;
}

leat_status leati_virtual_close(struct leat_device *device)
{
    leat_status first_failure = LEAT_OK, status;
    struct leati_link *at, *next;

    leati_lock(&turn);
    for (at = all_reservations.next; at != &all_reservations; at = next) {
        struct leati_reservation *reservation = LEATI_CONTAINER_OF(at, struct leati_reservation);

        next = at->next;
        status = leave_reservation(reservation, device);
        first_failure = first_failure != LEAT_OK ? first_failure : status;
        if (reservation->device == device) {
            status = end_reservation(reservation);
            first_failure = first_failure != LEAT_OK ? first_failure : status;
        }
    }
    for (at = all_physical.next; at != &all_physical; at = next) {
        struct leat_physical *physical = LEATI_CONTAINER_OF(at, struct leat_physical);

        next = at->next;
        if (physical->device != device)
            continue;
        leati_handle_retire(&physical_handles, physical);
        physical->holds = 0;
        status = end_if_unused(physical);
        first_failure = first_failure != LEAT_OK ? first_failure : status;
    }
    leati_unlock(&turn);
    return first_failure;
}
