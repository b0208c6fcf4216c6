/*
 * cpu_memory.c - allocates memory of the CPU device in an address range that each device reserves.
 *
 * Freed addresses become inaccessible and are reused as late as possible, and each block is followed by an
 * inaccessible page, so that stray accesses fault as they would on a GPU. Pinned and managed memory is in a second
 * range, which all CPU devices share; unlike device memory, the host can access it in strict mode too.
 */
#include "driver/cpu/cpu.h"

#include "base/addresses.h"
#include "base/lock.h"
#include "base/mem_limit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

static struct cpu_space host_space = {.lock = LEATI_LOCK_INITIALIZER};
static unsigned host_space_users; /* number of open devices; under host_space.lock */

/* The minimum size of a space. The size is always a multiple of this. */
#define SPACE_LEAST_BYTES ((size_t)16 << 20)

static size_t round_up(size_t bytes, size_t unit)
{
    leati_assert(LEATI_IS_POWER_OF_TWO(unit));
    return (bytes + unit - 1) & ~(unit - 1);
}

/* ---- address spaces ---- */

leat_status cpu_space_reserve(struct cpu_space *space, size_t wanted_bytes, unsigned parts)
{
    size_t share_bytes = leati_addresses_share(wanted_bytes, parts, SPACE_LEAST_BYTES);
    struct leati_addresses_hint hint;

    leati_assert_locked(&space->lock);
    leati_assert(!space->bytes && parts);
    /* Halve the size until the system grants it: under a memory checker the first request may fail. */
    for (size_t bytes = round_up(share_bytes, SPACE_LEAST_BYTES); bytes >= SPACE_LEAST_BYTES;
         bytes = bytes / 2 & ~(SPACE_LEAST_BYTES - 1)) {
        void *start =
            mmap(NULL, bytes + CPU_HUGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        uintptr_t aligned;

        if (start == MAP_FAILED)
            continue;
        aligned = round_up((uintptr_t)start, CPU_HUGE_BYTES);
        if (aligned > (uintptr_t)start)
            munmap(start, aligned - (uintptr_t)start);
        if (aligned < (uintptr_t)start + CPU_HUGE_BYTES)
            munmap((void *)(aligned + bytes), (uintptr_t)start + CPU_HUGE_BYTES - aligned);
        leati_assert(aligned % CPU_HUGE_BYTES == 0);
        space->base = aligned;
        space->bytes = bytes;
        space->small_cursor = aligned;
        space->middle = space->large_cursor = aligned + round_up(bytes / 8, CPU_HUGE_BYTES);
        return LEAT_OK;
    }
    return leati_fail(LEAT_ERROR_SYSTEM, "mmap: %s: the CPU device could not reserve %zu bytes of addresses%s",
                      strerror(errno), SPACE_LEAST_BYTES, leati_addresses_hint(&hint));
}

void cpu_space_release(struct cpu_space *space)
{
    leati_assert_locked(&space->lock);
    leati_assert(space->base && space->bytes);
    munmap((void *)space->base, space->bytes);
    for (size_t i = 0; i < space->blocks.count; i++)
        free(space->blocks.entries[i].value);
    leati_ranges_clear(&space->blocks);
    space->base = 0;
    space->bytes = 0;
}

/* Returns the system's limit on the number of mappings of a process; 0 if unknown. */
static unsigned long mappings_most(void)
{
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    unsigned long most = 0;

    if (!file)
        return 0;
    if (fscanf(file, "%lu", &most) != 1)
        most = 0;
    fclose(file);
    return most;
}

leat_status cpu_space_map(void *ptr, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    int error;

    leati_assert((uintptr_t)ptr % CPU_PAGE_BYTES == 0 && bytes);
    /* First split the addresses off the surrounding mapping, with mprotect(), which fails at the system's limit on
     * the number of mappings. mmap() alone would exceed the limit by one, and then the system refuses every
     * further mapping, also one that is needed to unmap. Use PROT_READ, because mprotect() does nothing if the
     * protection stays the same. */
    if (mprotect(ptr, bytes, PROT_READ)) {
        error = errno;
        if (error == ENOMEM)
            return leati_fail(LEAT_ERROR_HOST_MEMORY,
                              "this process has nearly all of the %lu mappings that vm.max_map_count allows; free memory, raise the limit, or use pools, which need fewer than leat_alloc_driver()",
                              mappings_most());
        return leati_fail(LEAT_ERROR_SYSTEM, "mprotect of %p + %zu: %s", ptr, bytes, strerror(error));
    }
    if (mmap(ptr, bytes, protection, flags | MAP_FIXED, fd, offset) != MAP_FAILED)
        return LEAT_OK;
    error = errno;
    (void)mprotect(ptr, bytes, PROT_NONE);
    return leati_fail(error == ENOMEM ? LEAT_ERROR_HOST_MEMORY : LEAT_ERROR_SYSTEM, "mmap of %zu bytes: %s", bytes,
                      strerror(error));
}

leat_status cpu_space_unmap(void *ptr, size_t bytes)
{
    leati_assert((uintptr_t)ptr % CPU_PAGE_BYTES == 0 && bytes);
    if (mmap(ptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED)
        return LEAT_OK;
    /* A process at the limit of mappings cannot even replace a mapping. In that case keep the old mapping,
     * inaccessible and without pages; the next block at these addresses will be mapped over it. */
    if (mprotect(ptr, bytes, PROT_NONE))
        return leati_fail(LEAT_ERROR_SYSTEM, "mprotect: %s: %p + %zu could not be given back", strerror(errno),
                          ptr, bytes);
    (void)madvise(ptr, bytes, MADV_DONTNEED);
    return LEAT_OK;
}

leat_status cpu_space_take(struct cpu_space *space, size_t bytes, const struct cpu_block *block, uintptr_t *base)
{
    bool large = bytes >= CPU_HUGE_BYTES;
    size_t step = large ? CPU_HUGE_BYTES : CPU_PAGE_BYTES;
    struct cpu_block *kept = malloc(sizeof *kept);
    struct leati_addresses_hint hint;
    leat_status status = LEAT_OK;
    uintptr_t found = 0;

    leati_assert(bytes && bytes % CPU_PAGE_BYTES == 0);
    if (!kept)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the CPU device's records");
    *kept = *block;
    leati_lock(&space->lock);
    if (bytes < space->bytes)
        found = large ? leati_ranges_room(&space->blocks, space->middle, space->base + space->bytes,
                                          &space->large_cursor, bytes, step, CPU_PAGE_BYTES)
                      : leati_ranges_room(&space->blocks, space->base, space->middle, &space->small_cursor, bytes,
                                          step, CPU_PAGE_BYTES);
    if (!found)
        status =
            leati_fail(LEAT_ERROR_DEVICE_MEMORY, "the CPU device has no %zu bytes of addresses left together%s",
                       bytes, leati_addresses_hint(&hint));
    else if (!leati_ranges_insert(&space->blocks, found, bytes, kept))
        status = leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the CPU device's records");
    leati_unlock(&space->lock);
    if (status != LEAT_OK) {
        free(kept);
        return status;
    }
    leati_assert(found % step == 0 && found >= space->base && found + bytes <= space->base + space->bytes);
    *base = found;
    return LEAT_OK;
}

leat_status cpu_space_give_back(struct cpu_space *space, uintptr_t base, struct cpu_block *block, size_t *bytes)
{
    const struct leati_range *range;
    struct cpu_block *kept = NULL;
    leat_status status;

    leati_lock(&space->lock);
    range = leati_ranges_find(&space->blocks, base);
    if (range && range->base == base)
        kept = range->value;
    if (!kept)
        status = leati_fail(LEAT_ERROR_POINTER, "no block of the CPU device starts at %p", (void *)base);
    else if (kept->kind == LEAT_KIND_MANAGED)
        status = cpu_managed_unmap((void *)base, range->bytes);
    else
        status = cpu_space_unmap((void *)base, range->bytes);
    if (status == LEAT_OK) {
        *block = *kept;
        *bytes = range->bytes;
        leati_ranges_remove(&space->blocks, base);
        free(kept);
    }
    leati_unlock(&space->lock);
    return status;
}

/* ---- a device's memory ---- */

leat_status cpu_charge(struct cpu_device *device, size_t bytes)
{
    /* Relaxed: used_bytes is only a counter. */
    uint64_t used = atomic_load_explicit(&device->used_bytes, memory_order_relaxed);

    leati_assert(used <= device->memory_bytes);
    do {
        if (bytes > device->memory_bytes - used)
            return leati_fail(LEAT_ERROR_DEVICE_MEMORY, "the CPU device is full: %llu of %llu bytes are in use%s",
                              (unsigned long long)used, (unsigned long long)device->memory_bytes,
                              cpu_memory_reason());
    } while (!atomic_compare_exchange_weak_explicit(&device->used_bytes, &used, used + bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    return LEAT_OK;
}

void cpu_uncharge(struct cpu_device *device, size_t bytes)
{
    leati_assert(atomic_load_explicit(&device->used_bytes, memory_order_relaxed) >= bytes);
    atomic_fetch_sub_explicit(&device->used_bytes, bytes, memory_order_relaxed);
}

/* Maps memory for a new block. */
static leat_status back(void *ptr, size_t bytes)
{
    LEATI_TRY(
        cpu_space_map(ptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (bytes >= CPU_HUGE_BYTES)
        madvise(ptr, bytes, MADV_HUGEPAGE); /* for speed only, so a failure is harmless */
    return LEAT_OK;
}

leat_status cpu_mem_alloc(struct leati_driver *driver, void *handle, size_t bytes, void **ptr)
{
    struct cpu_device *device = handle;
    struct cpu_block block = {.kind = LEAT_KIND_DEVICE, .asked_bytes = bytes};
    leat_status status;
    uintptr_t base;
    size_t size;

    (void)driver;
    if (bytes > device->memory_bytes)
        return leati_fail(LEAT_ERROR_DEVICE_MEMORY, "more than all memory of the CPU device, %llu bytes%s",
                          (unsigned long long)device->memory_bytes, cpu_memory_reason());
    size = round_up(bytes, CPU_PAGE_BYTES);
    block.charged_bytes = size;
    LEATI_TRY(cpu_charge(device, size));
    status = cpu_space_take(&device->space, size, &block, &base);
    if (status == LEAT_OK) {
        status = back((void *)base, size);
        if (status == LEAT_OK)
            status = cpu_strict_protect((void *)base, size, PROT_READ | PROT_WRITE);
        if (status != LEAT_OK)
            cpu_space_give_back(&device->space, base, &block, &size);
    }
    if (status != LEAT_OK) {
        cpu_uncharge(device, block.charged_bytes);
        return status;
    }
    *ptr = (void *)base;
    return LEAT_OK;
}

static bool holds(const struct cpu_space *space, const void *ptr)
{
    return (uintptr_t)ptr - space->base < space->bytes;
}

leat_status cpu_mem_free(struct leati_driver *driver, void *handle, void *ptr)
{
    struct cpu_device *device = handle;
    struct cpu_block block;
    size_t bytes;

    (void)driver;
    LEATI_TRY(cpu_space_give_back(holds(&host_space, ptr) ? &host_space : &device->space, (uintptr_t)ptr, &block,
                                  &bytes));
    cpu_uncharge(device, block.charged_bytes);
    return LEAT_OK;
}

leat_status cpu_mem_alloc_async(struct leati_driver *driver, void *stream, size_t bytes, void **ptr)
{
    struct cpu_device *device = cpu_stream_device(stream);
    leat_status status = cpu_mem_alloc(driver, device, bytes, ptr);

    if (status != LEAT_ERROR_DEVICE_MEMORY || bytes > device->memory_bytes)
        return status;
    /* Frees that are queued on the stream may make enough room, so wait for them and try again. */
    (void)cpu_stream_synchronize(driver, stream); /* cannot fail */
    return cpu_mem_alloc(driver, device, bytes, ptr);
}

struct free_work {
    struct cpu_work work;
    struct cpu_device *device;
    void *ptr;
};

static void run_free(struct cpu_work *work)
{
    struct free_work *free_work = (struct free_work *)(void *)work;

    /* This fails only if the system refuses to unmap. The block then still exists, so it stays charged. */
    (void)cpu_mem_free(free_work->device->driver, free_work->device, free_work->ptr);
}

leat_status cpu_mem_free_async(struct leati_driver *driver, void *stream, void *ptr)
{
    struct cpu_device *device = cpu_stream_device(stream);
    struct free_work *work = malloc(sizeof *work);
    const struct leati_range *range;

    (void)driver;
    if (!work)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory to queue the work");
    *work = (struct free_work){.work.run = run_free, .device = device, .ptr = ptr};
    leati_lock(&device->space.lock);
    range = leati_ranges_find(&device->space.blocks, (uintptr_t)ptr);
    if (range)
        ((struct cpu_block *)range->value)->going = true;
    leati_unlock(&device->space.lock);
    cpu_stream_push(stream, &work->work);
    return LEAT_OK;
}

/* ---- host memory ---- */

leat_status cpu_host_space_open(void)
{
    leat_status status = LEAT_OK;

    leati_lock(&host_space.lock);
    if (!host_space_users)
        status = cpu_space_reserve(&host_space, CPU_SPACE_BYTES, 8);
    if (status == LEAT_OK)
        host_space_users++;
    leati_unlock(&host_space.lock);
    return status;
}

bool cpu_host_space_close(void)
{
    bool last;

    leati_lock(&host_space.lock);
    last = --host_space_users == 0;
    /* Remove the records of managed blocks that were never freed, before their addresses are reused. */
    for (size_t i = 0; last && i < host_space.blocks.count; i++)
        cpu_managed_remove((void *)host_space.blocks.entries[i].base);
    if (last)
        cpu_space_release(&host_space);
    leati_unlock(&host_space.lock);
    return last;
}

/* Allocates in the host's range. This call populates pinned memory, so it first checks that there is enough
 * memory: without that the kernel would kill a process instead of returning an error. */
static leat_status take_host(leat_kind kind, size_t bytes, size_t charged_bytes, void **ptr)
{
    struct cpu_block block = {.kind = kind, .asked_bytes = bytes, .charged_bytes = charged_bytes};
    bool populate = kind == LEAT_KIND_PINNED;
    struct leati_mem_limit available;
    leat_status status;
    uintptr_t base;
    size_t size;

    if (bytes >= host_space.bytes)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "%zu bytes are more than the host has", bytes);
    size = round_up(bytes, CPU_PAGE_BYTES);
    if (populate && size > (64u << 20)) {
        leati_mem_limit_get("", size, &available);
        if (size > available.bytes)
            return leati_fail(LEAT_ERROR_HOST_MEMORY,
                              "%zu bytes are more than the %llu bytes of host memory that %s has available", bytes,
                              (unsigned long long)available.bytes, available.whose);
    }
    LEATI_TRY(cpu_space_take(&host_space, size, &block, &base));
    status = back((void *)base, size);
    if (status == LEAT_OK && populate && madvise((void *)base, size, MADV_POPULATE_WRITE) && errno == ENOMEM)
        status = leati_fail(LEAT_ERROR_HOST_MEMORY, "madvise: %s: %zu bytes could not be pinned", strerror(errno),
                            bytes);
    if (status != LEAT_OK) {
        cpu_space_give_back(&host_space, base, &block, &size);
        return status;
    }
    *ptr = (void *)base;
    return LEAT_OK;
}

leat_status cpu_host_alloc(struct leati_driver *driver, void *device, size_t bytes, void **ptr)
{
    (void)driver, (void)device;
    return take_host(LEAT_KIND_PINNED, bytes, 0, ptr);
}

leat_status cpu_host_free(struct leati_driver *driver, void *device, void *ptr)
{
    struct cpu_block block;
    size_t bytes;

    (void)driver, (void)device;
    return cpu_space_give_back(&host_space, (uintptr_t)ptr, &block, &bytes);
}

/* The CPU device needs no registration, but as on a GPU the memory must be mapped. */
leat_status cpu_host_register(struct leati_driver *driver, void *device, void *ptr, size_t bytes)
{
    uintptr_t start = (uintptr_t)ptr & ~(CPU_PAGE_BYTES - 1);
    unsigned char resident[1024];

    (void)driver, (void)device;
    for (uintptr_t end = (uintptr_t)ptr + bytes; start < end; start += sizeof resident * CPU_PAGE_BYTES) {
        size_t length =
            end - start < sizeof resident * CPU_PAGE_BYTES ? end - start : sizeof resident * CPU_PAGE_BYTES;

        if (mincore((void *)start, length, resident) && errno == ENOMEM)
            return leati_fail(LEAT_ERROR_POINTER, "mincore: a part of %p + %zu is not mapped", ptr, bytes);
    }
    return LEAT_OK;
}

leat_status cpu_host_unregister(struct leati_driver *driver, void *device, void *ptr)
{
    (void)driver, (void)device, (void)ptr;
    return LEAT_OK;
}

leat_status cpu_managed_alloc(struct leati_driver *driver, void *handle, size_t bytes, void **ptr)
{
    struct cpu_device *device = handle;
    struct cpu_block block;
    leat_status status;
    void *fresh;
    size_t size;

    (void)driver;
    if (bytes > device->memory_bytes)
        return leati_fail(LEAT_ERROR_DEVICE_MEMORY, "more than all memory of the CPU device, %llu bytes%s",
                          (unsigned long long)device->memory_bytes, cpu_memory_reason());
    block.charged_bytes = size = round_up(bytes, CPU_PAGE_BYTES);
    LEATI_TRY(cpu_charge(device, size));
    status = take_host(LEAT_KIND_MANAGED, bytes, size, &fresh);
    if (status == LEAT_OK) {
        status = cpu_managed_add(fresh, size);
        if (status != LEAT_OK)
            cpu_space_give_back(&host_space, (uintptr_t)fresh, &block, &size);
    }
    if (status != LEAT_OK) {
        cpu_uncharge(device, block.charged_bytes);
        return status;
    }
    *ptr = fresh;
    return LEAT_OK;
}

/* ---- looking up an address ---- */

static leat_status refuse_address(const void *ptr, const char *whose)
{
    return leati_fail(LEAT_ERROR_POINTER,
                      "%p is in the address range of %s but not allocated: freed, or past the end of a block", ptr,
                      whose);
}

/* Looks up ptr in one space; returns false if ptr is not in the space's range. Sets *reserved to true if ptr is in
 * reserved virtual memory; then the caller must check whether something is mapped there. */
static bool query_space(struct cpu_space *space, const void *ptr, const char *whose,
                        struct leati_pointer_info *place, bool *reserved, leat_status *status)
{
    const struct leati_range *range;
    const struct cpu_block *block;
    bool inside;

    *reserved = false;

    leati_lock(&space->lock);
    inside = space->base && holds(space, ptr);
    if (inside) {
        range = leati_ranges_find(&space->blocks, (uintptr_t)ptr);
        block = range ? range->value : NULL;
        if (!range || block->going) {
            *status = refuse_address(ptr, whose);
        } else {
            *reserved = block->reserved;
            place->kind = block->kind;
            place->base = range->base;
            place->bytes = range->bytes;
            place->device_pointer = (void *)(uintptr_t)ptr;
            *status = LEAT_OK;
        }
    }
    leati_unlock(&space->lock);
    return inside;
}

leat_status cpu_pointer_query(struct leati_driver *driver, const void *ptr, struct leati_pointer_info *place)
{
    leat_status status = LEAT_OK;
    bool reserved;

    if (query_space(&host_space, ptr, "the CPU devices' host memory", place, &reserved, &status))
        return status;
    for (int i = 0; i < driver->device_count; i++) {
        struct cpu_device *device = cpu_device_number(i);
        char name[16];

        snprintf(name, sizeof name, "cpu:%d", i);
        if (query_space(&device->space, ptr, name, place, &reserved, &status)) {
            place->device = device;
            if (reserved && !cpu_vm_find(device, ptr, &place->base, &place->bytes))
                status = refuse_address(ptr, name);
            return status;
        }
    }
    place->kind = LEAT_KIND_PAGEABLE;
    return LEAT_OK;
}
