/* pointers.c - keeps the table of memory that leat knows, and looks up addresses. */
#include "core/core.h"
#include "core/virtual.h"

#include "base/lock.h"
#include "base/quick.h"
#include "base/ranges.h"
#include "base/sized.h"
#include "driver/registry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

/* Guards the table: lookups take it shared, changes take it exclusively. */
static struct leati_rwlock table_lock = LEATI_RWLOCK_INITIALIZER;
static struct leati_ranges table LEATI_GUARDED_BY(table_lock);

/* Bounds of all entries, for a lock-free negative lookup. Relaxed: a thread may rely on an entry only after it
 * learned that the call that added it has returned. That thread then sees the bounds of that call or of a later
 * call, which include the entry as long as it exists. */
static _Atomic uintptr_t table_low = UINTPTR_MAX, table_end;

/* Call after each change of the table, with the lock held exclusively. */
static void set_bounds(void) LEATI_REQUIRES(table_lock)
{
    const struct leati_range *last = table.count ? &table.entries[table.count - 1] : NULL;

    atomic_store_explicit(&table_low, last ? table.entries[0].base : UINTPTR_MAX, memory_order_relaxed);
    atomic_store_explicit(&table_end, last ? last->base + last->bytes : 0, memory_order_relaxed);
}

LEATI_HOT static bool is_in_bounds(uintptr_t address)
{
    return address >= atomic_load_explicit(&table_low, memory_order_relaxed) &&
           address < atomic_load_explicit(&table_end, memory_order_relaxed);
}

const char *leat_kind_name(leat_kind kind)
{
    switch (kind) {
    case LEAT_KIND_PAGEABLE:
        return "pageable";
    case LEAT_KIND_PINNED:
        return "pinned";
    case LEAT_KIND_DEVICE:
        return "device";
    case LEAT_KIND_MANAGED:
        return "managed";
    }
    return "unknown";
}

leat_status leati_pointers_add(const struct leati_memory *memory)
{
    struct leati_memory *kept = malloc(sizeof *kept);
    const struct leati_range *other;
    leat_status status = LEAT_OK;

    if (!kept)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the table of pointers");
    *kept = *memory;
    leati_assert(memory->bytes && memory->base && memory->device);
    leati_write_lock(&table_lock);
    other = leati_ranges_overlap(&table, memory->base, memory->bytes);
    if (other)
        status = leati_fail(LEAT_ERROR_REGISTERED,
                            "the range %p + %zu overlaps %p + %zu, which leat already knows as %s memory",
                            (void *)memory->base, memory->bytes, (void *)other->base, other->bytes,
                            leat_kind_name(((struct leati_memory *)other->value)->kind));
    else if (!leati_ranges_insert(&table, memory->base, memory->bytes, kept))
        status = leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the table of pointers");
    set_bounds();
    leati_write_unlock(&table_lock);
    if (status != LEAT_OK)
        free(kept);
    return status;
}

void leati_pointers_put_back(const struct leati_memory *memory)
{
    /* This needs no more memory than the removal of the entry has just freed. If it fails nevertheless, the caller
     * still owns the memory, but the table no longer has it. */
    (void)leati_pointers_add(memory);
}

static const char *origin_words(const struct leati_memory *memory)
{
    switch (memory->origin) {
    case LEATI_ALLOCATED:
        return "it was allocated by leat; use leat_free()";
    case LEATI_REGISTERED:
        return "it was registered; use leat_unregister()";
    case LEATI_WRAPPED:
        return "it is wrapped memory of the user's own; use leat_pointer_unwrap()";
    case LEATI_IMPORTED:
        return "it was imported; use leat_memory_free()";
    case LEATI_RESERVED:
        return "it is reserved virtual memory; use leat_virtual_unmap() and leat_virtual_unreserve()";
    }
    return "";
}

/* Writes the error for a pointer that is not in the table. */
static leat_status refuse_unknown(const char *what, const void *ptr)
{
    struct leat_pool *pool;
    struct leati_block *block = leati_block_find(ptr, &pool);

    if (pool && block && atomic_load_explicit(&block->state, memory_order_acquire) == LEATI_BLOCK_LIVE)
        return leati_fail(LEAT_ERROR_POINTER,
                          "%s: %p cannot be given back this way: it was allocated by leat; use leat_free() or leat_memory_free()",
                          what, ptr);
    return leati_fail(LEAT_ERROR_POINTER, "%s: %p is not memory that leat knows: freed already, or never leat's",
                      what, ptr);
}

leat_status leati_pointers_take(const char *what, const void *ptr, enum leati_origin origin,
                                const struct leat_device *device, struct leati_memory *memory)
{
    const struct leati_range *range;
    struct leati_memory *found = NULL;
    leat_status status = LEAT_OK;

    leati_write_lock(&table_lock);
    range = leati_ranges_find(&table, (uintptr_t)ptr);
    if (range)
        found = range->value;
    leati_assert(!found || found->base == range->base);
    if (!found)
        status = refuse_unknown(what, ptr);
    else if (found->origin != origin)
        status = leati_fail(LEAT_ERROR_POINTER, "%s: %p cannot be given back this way: %s", what, ptr,
                            origin_words(found));
    else if (found->base != (uintptr_t)ptr)
        status = leati_fail(LEAT_ERROR_POINTER, "%s: %p is %zu bytes inside the allocation at %p; give its start",
                            what, ptr, (size_t)((uintptr_t)ptr - found->base), (void *)found->base);
    else if (device && found->device != device)
        status = leati_fail(LEAT_ERROR_POINTER, "%s: %p is memory of %s, and the stream is of %s", what, ptr,
                            found->device->name, device->name);
    else
        leati_ranges_remove(&table, found->base);
    set_bounds();
    leati_write_unlock(&table_lock);
    if (status == LEAT_OK) {
        *memory = *found;
        free(found);
    }
    return status;
}

/* Removes one entry of device from the table. Returns false if the table has no entry of device. */
static bool take_any(const struct leat_device *device, struct leati_memory *memory)
{
    struct leati_memory *found = NULL;

    leati_write_lock(&table_lock);
    leati_assert(device);
    for (size_t i = table.count; i-- && !found;)
        if (((struct leati_memory *)table.entries[i].value)->device == device)
            found = table.entries[i].value;
    if (found)
        leati_ranges_remove(&table, found->base);
    if (!table.count)
        leati_ranges_clear(&table);
    set_bounds();
    leati_write_unlock(&table_lock);
    if (!found)
        return false;
    *memory = *found;
    free(found);
    return true;
}

leat_status leati_memory_close(struct leat_device *device)
{
    const struct leati_driver_ops *ops = device->driver->ops;
    struct leati_memory memory;
    leat_status first = LEAT_OK;

    while (take_any(device, &memory)) {
        void *ptr = (void *)memory.base;
        leat_status status = LEAT_OK;

        if (memory.origin == LEATI_REGISTERED)
            status = ops->host_unregister(device->driver, device->native, ptr);
        else if (memory.origin == LEATI_IMPORTED)
            status = leati_import_end(&memory);
        else if (memory.origin == LEATI_ALLOCATED) {
            if (memory.serial)
                LEATI_RECORD(.op = LEATI_RECORD_FREE, .block = memory.serial, .bytes = memory.bytes);
            status = ops->mem_free(device->driver, device->native, ptr);
        }
        first = first != LEAT_OK ? first : status;
    }
    return first;
}

/* ---- looking up addresses ---- */

LEATI_HOT static void fill_pageable(const void *ptr, struct leati_endpoint *endpoint)
{
    memset(endpoint, 0, sizeof *endpoint);
    endpoint->location.ptr = (void *)(uintptr_t)ptr;
}

/* Writes what guard mode knows about memory that is not in a live block; "" if guard mode is off. */
static void describe(struct leat_pool *pool, const void *ptr, char *words, size_t bytes)
{
    /* Acquire: pairs with the release in leati_guard_start(). */
    const struct leati_guard_hooks *hooks = atomic_load_explicit(&leati_guard_hooks, memory_order_acquire);

    *words = '\0';
    if (hooks)
        hooks->describe(pool, ptr, words, bytes);
}

bool leati_describe_pooled(const void *address, uintptr_t *base, size_t *bytes)
{
    struct leat_pool *pool;
    struct leati_block *block = leati_block_find(address, &pool);

    *base = *bytes = 0;
    leati_assert(!block || pool);
    if (block && atomic_load_explicit(&block->state, memory_order_acquire) == LEATI_BLOCK_LIVE) {
        *base = atomic_load_explicit(&block->base, memory_order_relaxed) + block->front_bytes;
        *bytes = atomic_load_explicit(&block->requested_bytes, memory_order_relaxed);
        if ((uintptr_t)address - *base >= *bytes)
            *bytes = 0;
    }
    return pool != NULL;
}

/* Not inlined, because its large buffer would enlarge the stack frame of the fast path. */
static __attribute__((noinline)) leat_status refuse_unused(struct leat_pool *pool, const void *ptr)
{
    char words[1400];

    describe(pool, ptr, words, sizeof words);
    return leati_fail(LEAT_ERROR_POINTER,
                      "%p is in the addresses of a pool, but not allocated: freed, or past the end of a block%s",
                      ptr, words);
}

/* Looks up ptr in the pools. Returns false if ptr is not in the address range of a pool; otherwise *status says
 * whether it is in a live block. */
LEATI_HOT static bool find_block(const void *ptr, struct leati_endpoint *endpoint, leat_status *status)
{
    struct leat_pool *pool;
    struct leati_block *block = leati_block_find(ptr, &pool);
    uintptr_t base;
    size_t bytes;

    if (!pool)
        return false;
    /* Acquire: if the state is LIVE, the other fields of the record are visible too. */
    if (block && atomic_load_explicit(&block->state, memory_order_acquire) == LEATI_BLOCK_LIVE) {
        base = atomic_load_explicit(&block->base, memory_order_relaxed) +
               atomic_load_explicit(&block->front_bytes, memory_order_relaxed);
        bytes = atomic_load_explicit(&block->requested_bytes, memory_order_relaxed);
        if ((uintptr_t)ptr - base < bytes) {
            fill_pageable(ptr, endpoint);
            endpoint->location.kind = block->kind;
            endpoint->location.device = block->kind == LEAT_KIND_DEVICE ? block->device->native : NULL;
            endpoint->device = block->device;
            endpoint->driver = block->device->driver;
            endpoint->base = base;
            endpoint->bytes = bytes;
            endpoint->owned = true;
            endpoint->block = block;
            *status = LEAT_OK;
            return true;
        }
    }
    *status = refuse_unused(pool, ptr);
    return true;
}

/* Looks up ptr in the table. Returns false if it has no entry there; otherwise *status says whether the memory
 * can be used. */
LEATI_HOT static bool find_known(const void *ptr, struct leati_endpoint *endpoint, leat_status *status)
{
    const struct leati_range *range;

    if (!is_in_bounds((uintptr_t)ptr))
        return false;
    leati_read_lock(&table_lock);
    range = leati_ranges_find(&table, (uintptr_t)ptr);
    if (range) {
        const struct leati_memory *memory = range->value;

        fill_pageable(ptr, endpoint);
        if (memory->origin == LEATI_RESERVED) {
            *status = leati_virtual_find(memory, ptr, endpoint);
        } else {
            leati_assert(memory->device && memory->base == range->base && memory->bytes == range->bytes);
            endpoint->location.kind = memory->kind;
            endpoint->location.device = memory->kind == LEAT_KIND_DEVICE ? memory->device->native : NULL;
            endpoint->device = memory->device;
            endpoint->driver = memory->device->driver;
            endpoint->base = memory->base;
            endpoint->bytes = memory->bytes;
            endpoint->owned = memory->origin == LEATI_ALLOCATED || memory->origin == LEATI_IMPORTED;
        }
    }
    leati_read_unlock(&table_lock);
    return range != NULL;
}

/*
 * A cache of 2 MiB pieces that drivers recently reported as pageable. An entry can be wrong: the program may have
 * pinned the memory outside leat since, or a driver may have put other memory there. Relaxed, because entries are
 * independent of each other. A driver query takes about 1 us, and about 10 us in a program that copies so rarely
 * that the driver is no longer in the processor's caches.
 */
#define PIECE_SHIFT 21
#define PIECES 256
#define ASK_AGAIN 64 /* query the driver again after this many answers from the cache */
static _Atomic uintptr_t pageable_pieces[PIECES];
static atomic_uint pageable_answers;

LEATI_HOT bool leati_pointers_was_pageable(const void *ptr, size_t bytes)
{
    uintptr_t first = (uintptr_t)ptr >> PIECE_SHIFT, last = ((uintptr_t)ptr + bytes - 1) >> PIECE_SHIFT;

    leati_assert(bytes);
    for (uintptr_t piece = first; piece <= last; piece++)
        if (atomic_load_explicit(&pageable_pieces[piece % PIECES], memory_order_relaxed) != piece)
            return false;
    return (atomic_fetch_add_explicit(&pageable_answers, 1, memory_order_relaxed) + 1) % ASK_AGAIN;
}

/* Stores a driver's answer. */
static void remember(const void *ptr, size_t bytes, bool pageable)
{
    uintptr_t first = (uintptr_t)ptr >> PIECE_SHIFT, last = ((uintptr_t)ptr + bytes - 1) >> PIECE_SHIFT;

    for (uintptr_t piece = first; piece <= last && piece - first < PIECES; piece++)
        atomic_store_explicit(&pageable_pieces[piece % PIECES], pageable ? piece : 0, memory_order_relaxed);
}

/* Queries one driver. A failure of a driver that this lookup does not need counts as pageable: CUDA, for example,
 * fails in a child of fork(), and copies on the CPU device must work there. asked: see find(). */
static leat_status ask_driver(struct leati_driver *driver, const struct leati_driver *asked, const void *ptr,
                              struct leati_pointer_info *place)
{
    bool needed = asked ? driver == asked : leati_driver_is_open(driver);
    leat_status status;

    if (needed)
        return driver->ops->pointer_query(driver, ptr, place);
    status = LEATI_QUIETLY(driver->ops->pointer_query(driver, ptr, place));
    if (status == LEAT_ERROR_POINTER)
        return driver->ops->pointer_query(driver, ptr, place); /* again, for the message */
    if (status != LEAT_OK)
        *place = (struct leati_pointer_info){.kind = LEAT_KIND_PAGEABLE};
    return LEAT_OK;
}

/* Queries every loaded driver; uses the first answer other than pageable. */
static leat_status ask_drivers(const struct leati_driver *asked, const void *ptr, struct leati_endpoint *endpoint)
{
    struct leati_driver *driver;
    leat_status loaded;

    fill_pageable(ptr, endpoint);
    for (unsigned i = 0; (driver = leati_registry_driver(i, &loaded, NULL)); i++) {
        struct leati_pointer_info place = {.kind = LEAT_KIND_PAGEABLE};

        if (loaded != LEAT_OK || !driver->ops->pointer_query)
            continue;
        LEATI_TRY(ask_driver(driver, asked, ptr, &place));
        if (place.kind == LEAT_KIND_PAGEABLE)
            continue;
        endpoint->location.kind = place.kind;
        endpoint->location.device = place.kind == LEAT_KIND_DEVICE ? place.device : NULL;
        endpoint->device = place.device ? leati_device_of(driver, place.device) : NULL;
        endpoint->driver = driver;
        endpoint->base = place.base;
        endpoint->bytes = place.bytes;
        endpoint->device_pointer = place.device_pointer;
        return LEAT_OK;
    }
    return LEAT_OK;
}

/* Looks up ptr. If driver is not NULL, memory that other drivers pinned counts as pageable. If ask is set, queries
 * the drivers about memory that leat does not know; otherwise such memory counts as pageable. Returns POINTER if
 * the memory is certainly not usable. */
LEATI_HOT static leat_status find(struct leati_driver *driver, const void *ptr, bool ask,
                                  struct leati_endpoint *endpoint)
{
    leat_status status = LEAT_OK;

    if (find_block(ptr, endpoint, &status) || find_known(ptr, endpoint, &status)) {
        LEATI_TRY(status);
    } else {
        fill_pageable(ptr, endpoint);
        if (ask)
            LEATI_TRY(ask_drivers(driver, ptr, endpoint));
    }
    /* Memory that another vendor's driver pinned is pageable for this one. */
    if (driver && endpoint->driver && endpoint->driver != driver && endpoint->location.kind == LEAT_KIND_PINNED)
        endpoint->location.kind = LEAT_KIND_PAGEABLE;
    return LEAT_OK;
}

/* Returns true if an entry of the table overlaps the range. */
LEATI_HOT static bool overlaps_known(const void *ptr, size_t bytes)
{
    uintptr_t first = (uintptr_t)ptr;
    bool overlaps;

    /* Relaxed: see table_low. */
    if (first >= atomic_load_explicit(&table_end, memory_order_relaxed) ||
        first + (bytes - 1) < atomic_load_explicit(&table_low, memory_order_relaxed))
        return false;
    leati_read_lock(&table_lock);
    overlaps = leati_ranges_overlap(&table, first, bytes);
    leati_read_unlock(&table_lock);
    return overlaps;
}

/* Returns true if the byte at address can be read. Also returns true if that is unknown, because some sandboxes
 * forbid the system call. */
static bool readable(uintptr_t address)
{
    char byte;
    struct iovec local = {.iov_base = &byte, .iov_len = 1};
    struct iovec remote = {.iov_base = (void *)address, .iov_len = 1};

    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1 || errno != EFAULT;
}

/* Returns true if the byte at address can be written. Faults the byte's page in, as the write that follows
 * would. */
static bool writable(uintptr_t address)
{
    static const uintptr_t page_bytes = 4096;
    static atomic_int supported; /* 0: not tested yet, 1: yes, -1: no; relaxed, as all threads get the same */

    if (!atomic_load_explicit(&supported, memory_order_relaxed)) {
        char own[1];
        void *page = (void *)((uintptr_t)own & ~(page_bytes - 1));
        int yes = madvise(page, page_bytes, MADV_POPULATE_WRITE) == 0;

        atomic_store_explicit(&supported, yes ? 1 : -1, memory_order_relaxed);
    }
    if (atomic_load_explicit(&supported, memory_order_relaxed) < 0)
        return readable(address);
    return madvise((void *)(address & ~(page_bytes - 1)), page_bytes, MADV_POPULATE_WRITE) == 0 || errno == EAGAIN;
}

leat_status leati_pointers_check_mapped(const char *name, const void *ptr, size_t bytes, bool write)
{
    uintptr_t ends[2] = {(uintptr_t)ptr, (uintptr_t)ptr + bytes - 1};

    for (int i = 0; i < 2; i++) {
        if (i && ends[1] >> 12 == ends[0] >> 12)
            break;
        if (!(write ? writable(ends[i]) : readable(ends[i])))
            return leati_fail(
                LEAT_ERROR_POINTER,
                "%s: the %s byte of %p + %zu (%p) is not %s: freed or unmapped memory, or a wrong size", name,
                i ? "last" : "first", ptr, bytes, (void *)ends[i],
                write ? "memory that can be written" : "memory that can be read");
    }
    return LEAT_OK;
}

LEATI_HOT leat_status leati_pointers_find_unread(struct leati_driver *driver, const char *name, const void *ptr,
                                                 size_t bytes, bool ask, struct leati_endpoint *endpoint)
{
    leat_status status;
    size_t left;

    if (!ptr)
        return leati_fail(LEAT_ERROR_POINTER, "%s is NULL", name);
    if ((uintptr_t)ptr + (bytes - 1) < (uintptr_t)ptr)
        return leati_fail(LEAT_ERROR_RANGE, "%s: %p + %zu goes past the end of the address space", name, ptr,
                          bytes);
    status = find(driver, ptr, ask, endpoint);
    if (status != LEAT_OK)
        return leati_fail_in(status, "%s", name);
    if (ask && !endpoint->block)
        remember(ptr, bytes, endpoint->location.kind == LEAT_KIND_PAGEABLE);
    if (endpoint->location.kind == LEAT_KIND_PAGEABLE) {
        endpoint->mixed = overlaps_known(ptr, bytes);
        return LEAT_OK;
    }
    left = endpoint->bytes - ((uintptr_t)ptr - endpoint->base);
    if (endpoint->bytes && bytes > left)
        return leati_fail(
            LEAT_ERROR_RANGE,
            "%s: %zu bytes from %p go past the end of the %s allocation %p + %zu: %zu bytes are left there", name,
            bytes, ptr, leat_kind_name(endpoint->location.kind), (void *)endpoint->base, endpoint->bytes, left);
    if (endpoint->location.kind == LEAT_KIND_DEVICE && !endpoint->device)
        return leati_fail(LEAT_ERROR_POINTER, "%s: %p is memory of a device that leat has not opened", name, ptr);
    return LEAT_OK;
}

leat_status leati_pointers_find_range(struct leati_driver *driver, const char *name, const void *ptr, size_t bytes,
                                      bool write, struct leati_endpoint *endpoint)
{
    LEATI_TRY(leati_pointers_find_unread(driver, name, ptr, bytes, true, endpoint));
    return endpoint->location.kind == LEAT_KIND_PAGEABLE ? leati_pointers_check_mapped(name, ptr, bytes, write)
                                                         : LEAT_OK;
}

leat_status leat_pointer_get_info(const void *ptr, leat_pointer_info *info)
{
    struct leati_endpoint endpoint;
    leat_pointer_info filled;
    leat_status status;

    LEATI_TRY(leati_check_not_null("leat_pointer_get_info", "ptr", ptr));
    LEATI_TRY(LEATI_SIZED_CHECK("leat_pointer_get_info", "info", leat_pointer_info, info));
    status = find(NULL, ptr, true, &endpoint);
    if (status != LEAT_OK)
        return leati_fail_in(status, "leat_pointer_get_info");
    memset(&filled, 0, sizeof filled);
    filled.kind = endpoint.location.kind;
    filled.device = endpoint.device;
    filled.base = (void *)endpoint.base;
    filled.bytes = endpoint.bytes;
    filled.owned = endpoint.owned;
    if (endpoint.device_pointer)
        filled.device_pointer = endpoint.device_pointer;
    else if (filled.kind == LEAT_KIND_PINNED && endpoint.device && endpoint.driver->ops->host_device_pointer)
        LEATI_TRY(endpoint.driver->ops->host_device_pointer(endpoint.driver, endpoint.device->native,
                                                            (void *)(uintptr_t)ptr, &filled.device_pointer));
    else if (filled.kind != LEAT_KIND_PAGEABLE)
        filled.device_pointer = (void *)(uintptr_t)ptr;
    LEATI_SIZED_WRITE(info, &filled);
    return LEAT_OK;
}

leat_status leat_pointer_wrap(leat_device *device, leat_kind kind, void *ptr, size_t bytes)
{
    struct leati_memory memory = {
        .device = device, .base = (uintptr_t)ptr, .bytes = bytes, .kind = kind, .origin = LEATI_WRAPPED};
    leat_status status;

    LEATI_TRY(leati_check_device("leat_pointer_wrap", device));
    LEATI_TRY(leati_check_not_null("leat_pointer_wrap", "ptr", ptr));
    if (!bytes || (uintptr_t)ptr + (bytes - 1) < (uintptr_t)ptr)
        return leati_fail(LEAT_ERROR_INVALID, "leat_pointer_wrap: %zu bytes at %p are no range of memory", bytes,
                          ptr);
    if (kind != LEAT_KIND_DEVICE && kind != LEAT_KIND_PINNED && kind != LEAT_KIND_MANAGED)
        return leati_fail(LEAT_ERROR_INVALID,
                          "leat_pointer_wrap: kind %d cannot be wrapped; use device, pinned or managed",
                          (int)kind);
    for (int i = 0; i < 2; i++) {
        struct leat_pool *pool;

        leati_block_find((char *)ptr + (i ? bytes - 1 : 0), &pool);
        if (pool)
            return leati_fail(LEAT_ERROR_REGISTERED,
                              "leat_pointer_wrap: %p + %zu overlaps the addresses of a pool of leat's own", ptr,
                              bytes);
    }
    status = leati_pointers_add(&memory);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_pointer_wrap");
}

leat_status leat_pointer_unwrap(void *ptr)
{
    struct leati_memory memory;

    return ptr ? leati_pointers_take("leat_pointer_unwrap", ptr, LEATI_WRAPPED, NULL, &memory) : LEAT_OK;
}
