/*
 * cpu_virtual.c - reserves, creates, maps, exports and imports virtual memory of the CPU device.
 *
 * Physical pages are pieces of one sparse memory file per device; each handle that may be exported has a file of
 * its own. So one piece can be mapped at several addresses, moved to another address with its contents, and shared
 * between processes, as on a GPU.
 */
#include "base/lock.h"
#include "driver/cpu/cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

/* A handle of physical pages; guarded by the device's virtual_lock. */
struct cpu_handle {
    int fd;
    uint64_t offset;
    size_t bytes;
    size_t charged_bytes;
    unsigned maps;
    bool own_file;  /* true: no other handle uses fd */
    bool read_only; /* true: fd is sealed against further writable mappings; under virtual_lock */
    bool released;
};

leat_status cpu_vm_granularity(struct leati_driver *driver, void *device, size_t *bytes)
{
    (void)driver, (void)device;
    *bytes = CPU_HUGE_BYTES;
    return LEAT_OK;
}

leat_status cpu_vm_reserve(struct leati_driver *driver, void *handle, size_t bytes, void **ptr)
{
    struct cpu_device *device = handle;
    struct cpu_block block = {.kind = LEAT_KIND_DEVICE, .asked_bytes = bytes, .reserved = true};
    uintptr_t base;

    (void)driver;
    LEATI_TRY(cpu_space_take(&device->space, bytes, &block, &base));
    *ptr = (void *)base;
    return LEAT_OK;
}

leat_status cpu_vm_unreserve(struct leati_driver *driver, void *handle, void *ptr, size_t bytes)
{
    struct cpu_device *device = handle;
    struct cpu_block block;

    (void)driver;
    return cpu_space_give_back(&device->space, (uintptr_t)ptr, &block, &bytes);
}

static leat_status new_file(unsigned flags, int *fd)
{
    *fd = memfd_create("leat-cpu-device", MFD_CLOEXEC | flags);
    if (*fd < 0)
        return leati_fail(LEAT_ERROR_SYSTEM, "memfd_create: %s", strerror(errno));
    return LEAT_OK;
}

/* Sets the size of a memory file. Checks the limit on file sizes first, because it applies to memory files too,
 * and a larger file would kill the process by SIGXFSZ. */
static leat_status size_file(int fd, uint64_t bytes)
{
    struct rlimit limit;

    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur)
        return leati_fail(
            LEAT_ERROR_DEVICE_MEMORY,
            "the CPU device needs a memory file of %llu bytes; the limit on files is %llu: raise 'ulimit -f'",
            (unsigned long long)bytes, (unsigned long long)limit.rlim_cur);
    if (ftruncate(fd, (off_t)bytes))
        return leati_fail(LEAT_ERROR_DEVICE_MEMORY, "ftruncate of a memory file to %llu bytes: %s",
                          (unsigned long long)bytes, strerror(errno));
    return LEAT_OK;
}

/* Seals of exported files: a process that imports one can write to it, but cannot change its size (which would
 * crash every process that accesses the removed pages), and cannot remove the seals. */
#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define EXPORT_SEALS (SIZE_SEALS | F_SEAL_SEAL)
#define WRITE_SEALS (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)

static leat_status add_seals(int fd, int seals)
{
    if (!fcntl(fd, F_ADD_SEALS, seals))
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_SYSTEM, "fcntl: a memory file could not be sealed: %s", strerror(errno));
}

/* Creates a file that only this handle uses, so that it can be exported. The export adds the last seals. */
static leat_status place_in_own_file(struct cpu_handle *made)
{
    leat_status status;

    LEATI_TRY(new_file(MFD_ALLOW_SEALING, &made->fd));
    made->own_file = true;
    status = size_file(made->fd, made->bytes);
    if (status == LEAT_OK)
        status = add_seals(made->fd, SIZE_SEALS);
    if (status != LEAT_OK)
        close(made->fd);
    return status;
}

/* Reserves a piece of the device's file for a handle. Call under virtual_lock. */
static leat_status place_in_shared_file(struct cpu_device *device, struct cpu_handle *made)
{
    uintptr_t low = CPU_HUGE_BYTES, high = (uintptr_t)1 << 46, place;

    leati_assert_locked(&device->virtual_lock);
    leati_assert(made->bytes && made->bytes % CPU_HUGE_BYTES == 0);
    if (device->virtual_fd < 0) {
        LEATI_TRY(new_file(0, &device->virtual_fd));
        device->virtual_cursor = low;
    }
    leati_assert(device->virtual_fd >= 0);
    place = leati_ranges_room(&device->virtual_handles, low, high, &device->virtual_cursor, made->bytes,
                              CPU_HUGE_BYTES, 0);
    if (!place)
        return leati_fail(LEAT_ERROR_DEVICE_MEMORY, "no room for %zu bytes in the CPU device's memory file",
                          made->bytes);
    made->fd = device->virtual_fd;
    made->offset = place;
    if (lseek(made->fd, 0, SEEK_END) < (off_t)(place + made->bytes))
        LEATI_TRY(size_file(made->fd, place + made->bytes));
    if (!leati_ranges_insert(&device->virtual_handles, place, made->bytes, made))
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the CPU device's records");
    return LEAT_OK;
}

leat_status cpu_vm_create(struct leati_driver *driver, void *opened, size_t bytes, bool exportable,
                          uint64_t *handle)
{
    struct cpu_device *device = opened;
    struct cpu_handle *made = calloc(1, sizeof *made);
    leat_status status;

    (void)driver;
    if (!made)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the CPU device's records");
    made->bytes = made->charged_bytes = bytes;
    status = cpu_charge(device, bytes);
    if (status == LEAT_OK) {
        leati_lock(&device->virtual_lock);
        status = exportable ? place_in_own_file(made) : place_in_shared_file(device, made);
        leati_unlock(&device->virtual_lock);
        if (status != LEAT_OK)
            cpu_uncharge(device, bytes);
    }
    if (status != LEAT_OK) {
        free(made);
        return status;
    }
    *handle = (uintptr_t)made;
    return LEAT_OK;
}

/* Frees the pages if the handle was released and has no mapping left. Call under virtual_lock. */
static void end_handle(struct cpu_device *device, struct cpu_handle *handle)
{
    leati_assert_locked(&device->virtual_lock);
    if (handle->maps || !handle->released)
        return;
    if (handle->own_file) {
        close(handle->fd);
    } else {
        leati_ranges_remove(&device->virtual_handles, handle->offset);
        /* Return the pages to the system. If that fails, the only harm is that the memory stays in use. */
        (void)fallocate(handle->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)handle->offset,
                        (off_t)handle->bytes);
    }
    cpu_uncharge(device, handle->charged_bytes);
    free(handle);
}

leat_status cpu_vm_release(struct leati_driver *driver, void *opened, uint64_t number)
{
    struct cpu_device *device = opened;
    struct cpu_handle *handle = (struct cpu_handle *)(uintptr_t)number;

    (void)driver;
    leati_lock(&device->virtual_lock);
    leati_assert(!handle->released);
    handle->released = true;
    end_handle(device, handle);
    leati_unlock(&device->virtual_lock);
    return LEAT_OK;
}

leat_status cpu_vm_map(struct leati_driver *driver, void *opened, void *ptr, size_t bytes, uint64_t number)
{
    struct cpu_device *device = opened;
    struct cpu_handle *handle = (struct cpu_handle *)(uintptr_t)number;
    leat_status status = LEAT_OK;

    (void)driver;
    leati_assert((uintptr_t)ptr % CPU_PAGE_BYTES == 0 && bytes);
    leati_lock(&device->virtual_lock);
    if (leati_ranges_overlap(&device->virtual_maps, (uintptr_t)ptr, bytes))
        status = leati_fail(LEAT_ERROR_INVALID, "something is mapped within %p + %zu already", ptr, bytes);
    else if (bytes > handle->bytes)
        status = leati_fail(LEAT_ERROR_INVALID, "%zu bytes to map, and the handle has %zu", bytes, handle->bytes);
    else if (!leati_ranges_reserve(&device->virtual_maps))
        status = leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the CPU device's records");
    else
        status = cpu_space_map(ptr, bytes, PROT_NONE, MAP_SHARED, handle->fd, (off_t)handle->offset);
    if (status == LEAT_OK) {
        handle->maps++;
        leati_ranges_insert(&device->virtual_maps, (uintptr_t)ptr, bytes, handle);
    }
    leati_unlock(&device->virtual_lock);
    return status;
}

leat_status cpu_vm_set_access(struct leati_driver *driver, void *device, void *ptr, size_t bytes)
{
    (void)driver, (void)device;
    if (mprotect(ptr, bytes, PROT_READ | PROT_WRITE))
        return leati_fail(LEAT_ERROR_SYSTEM, "mprotect of %p + %zu: %s", ptr, bytes, strerror(errno));
    return cpu_strict_protect(ptr, bytes, PROT_READ | PROT_WRITE);
}

/* All CPU devices share one address space, so each device gets the widest right of any device in the list. */
leat_status cpu_vm_set_rights(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                              const struct leati_right *rights, unsigned count)
{
    leat_access most = LEAT_ACCESS_NONE;
    int protection;

    (void)driver, (void)device;
    for (unsigned i = 0; i < count; i++)
        if (rights[i].access > most)
            most = rights[i].access;
    protection = most == LEAT_ACCESS_READ_WRITE ? PROT_READ | PROT_WRITE
                 : most == LEAT_ACCESS_READ     ? PROT_READ
                                                : 0;
    if (mprotect(ptr, bytes, protection))
        return leati_fail(LEAT_ERROR_SYSTEM, "mprotect of %p + %zu: %s", ptr, bytes, strerror(errno));
    return cpu_strict_protect(ptr, bytes, protection);
}

leat_status cpu_vm_unmap(struct leati_driver *driver, void *opened, void *ptr, size_t bytes)
{
    struct cpu_device *device = opened;
    const struct leati_range *map;
    leat_status status;

    (void)driver;
    leati_lock(&device->virtual_lock);
    status = cpu_space_unmap(ptr, bytes);
    while (status == LEAT_OK && (map = leati_ranges_overlap(&device->virtual_maps, (uintptr_t)ptr, bytes))) {
        struct cpu_handle *handle = map->value;

        leati_ranges_remove(&device->virtual_maps, map->base);
        leati_assert(handle->maps);
        handle->maps--;
        end_handle(device, handle);
    }
    leati_unlock(&device->virtual_lock);
    return status;
}

bool cpu_vm_find(struct cpu_device *device, const void *ptr, uintptr_t *base, size_t *bytes)
{
    const struct leati_range *map;

    leati_lock(&device->virtual_lock);
    map = leati_ranges_find(&device->virtual_maps, (uintptr_t)ptr);
    if (map) {
        *base = map->base;
        *bytes = map->bytes;
    }
    leati_unlock(&device->virtual_lock);
    return map != NULL;
}

/* Adds the seals that the export needs. Call under virtual_lock. */
static leat_status seal_for_export(struct cpu_handle *handle, bool read_only)
{
    int seals = fcntl(handle->fd, F_GET_SEALS), wanted = EXPORT_SEALS | (read_only ? F_SEAL_FUTURE_WRITE : 0);

    if (seals >= 0 && (seals & F_SEAL_SEAL) && read_only != handle->read_only)
        return leati_fail(
            LEAT_ERROR_INVALID,
            "the memory was exported %s before, so it cannot be exported %s any more",
            handle->read_only ? "for reading only" : "for writing", read_only ? "for reading only" : "for writing");
    if (seals < 0 || (seals & wanted) != wanted)
        LEATI_TRY(add_seals(handle->fd, wanted));
    handle->read_only = read_only;
    return LEAT_OK;
}

static leat_status export_as(struct cpu_device *device, uint64_t number, bool read_only, int *fd)
{
    struct cpu_handle *handle = (struct cpu_handle *)(uintptr_t)number;
    leat_status status;
    int copy;

    if (!handle->own_file)
        return leati_fail(LEAT_ERROR_INVALID, "the memory was not created to be exported");
    leati_lock(&device->virtual_lock);
    status = seal_for_export(handle, read_only);
    leati_unlock(&device->virtual_lock);
    LEATI_TRY(status);
    copy = fcntl(handle->fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return leati_fail(LEAT_ERROR_SYSTEM, "dup: %s", strerror(errno));
    *fd = copy;
    return LEAT_OK;
}

leat_status cpu_vm_export(struct leati_driver *driver, void *device, uint64_t number, int *fd)
{
    (void)driver;
    return export_as(device, number, false, fd);
}

/* The seal F_SEAL_FUTURE_WRITE is on the file itself. So the receiver cannot get rid of it, for example by opening
 * the file again through /proc. The exporter's own mapping stays writable. */
leat_status cpu_vm_export_read(struct leati_driver *driver, void *device, uint64_t number, int *fd)
{
    (void)driver;
    return export_as(device, number, true, fd);
}

/* Accepts only files that an export can have made, that is, memory files with its seals: any other file
 * could be truncated while it is mapped, and writes would change the file. Refuses memory files of huge pages
 * (which are not on tmpfs), because they can lose pages in spite of the seals. */
static leat_status check_import(int fd, size_t bytes, int write_seals)
{
    int flags = fcntl(fd, F_GETFL), seals = fcntl(fd, F_GET_SEALS);
    struct statfs system;
    struct stat file;

    if (flags < 0)
        return leati_fail(LEAT_ERROR_INVALID, "file descriptor %d is not exported memory: it is not open", fd);
    if (seals < 0 || (seals & EXPORT_SEALS) != EXPORT_SEALS || (seals & WRITE_SEALS) != write_seals ||
        (flags & O_ACCMODE) != O_RDWR || fstatfs(fd, &system) || system.f_type != TMPFS_MAGIC)
        return leati_fail(
            LEAT_ERROR_INVALID,
            "file descriptor %d is not exported memory: leat_block_export() or leat_physical_export() must have returned it",
            fd);
    if (fstat(fd, &file) || (uint64_t)file.st_size != bytes)
        return leati_fail(
            LEAT_ERROR_INVALID,
            "file descriptor %d is exported memory of %llu bytes, and not of %zu; give the size that the export gave",
            fd, (unsigned long long)file.st_size, bytes);
    return LEAT_OK;
}

static leat_status import_as(int fd, size_t bytes, bool read_only, uint64_t *handle)
{
    struct cpu_handle *made;
    int copy;

    LEATI_TRY(check_import(fd, bytes, read_only ? F_SEAL_FUTURE_WRITE : 0));
    made = calloc(1, sizeof *made);
    if (!made)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the CPU device's records");
    copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) {
        free(made);
        return leati_fail(LEAT_ERROR_SYSTEM, "dup: %s", strerror(errno));
    }
    /* Imported memory is not charged here, because the device that created it has charged it. */
    *made = (struct cpu_handle){.fd = copy, .bytes = bytes, .own_file = true, .read_only = read_only};
    *handle = (uintptr_t)made;
    return LEAT_OK;
}

leat_status cpu_vm_import(struct leati_driver *driver, void *device, int fd, size_t bytes, uint64_t *handle)
{
    (void)driver, (void)device;
    return import_as(fd, bytes, false, handle);
}

leat_status cpu_vm_import_read(struct leati_driver *driver, void *device, int fd, size_t bytes, uint64_t *handle)
{
    (void)driver, (void)device;
    return import_as(fd, bytes, true, handle);
}
