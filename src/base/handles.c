/* handles.c - see handles.h. */
#include "base/lock.h"
#include "base/quick.h"
#include "base/handles.h"

#include "base/addresses.h"

#include <string.h>
#include <sys/mman.h>

#define SLOT_COUNT (1u << 20)
#define SLOTS_LEAST 64u
#define GROW_SLOTS 256u
#define MARK ((uintptr_t)0x6c65617468616e64)

static size_t stride_bytes(const struct leati_handles *table)
{
    return (table->object_bytes + 63) & ~(size_t)63;
}

static struct leati_handle *slot(struct leati_handles *table, uint32_t number)
{
    char *base = atomic_load_explicit(&table->base, memory_order_relaxed);

    leati_assert(base && number < table->slots);
    return (struct leati_handle *)(void *)(base + (size_t)number * stride_bytes(table));
}

/* LeakSanitizer searches mmap()ed memory for pointers only if it is registered. */
__attribute__((weak)) void __lsan_register_root_region(const void *begin, size_t bytes);

/* Reserves the address range of a table, with fewer slots if address space is limited. Call under the lock. */
static bool reserve(struct leati_handles *table) LEATI_REQUIRES(table->lock)
{
    size_t stride = stride_bytes(table);
    size_t slots = leati_addresses_share(SLOT_COUNT * stride, 256, SLOTS_LEAST * stride) / stride;
    char *base = mmap(NULL, slots * stride, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    leati_assert_locked(&table->lock);
    leati_assert(!atomic_load_explicit(&table->base, memory_order_relaxed));
    leati_assert(table->object_bytes >= sizeof(struct leati_handle) && slots >= SLOTS_LEAST);
    if (base == MAP_FAILED)
        return false;
    table->slots = (uint32_t)slots;
    /* Release: pairs with the acquire in leati_handle_live(). */
    atomic_store_explicit(&table->base, base, memory_order_release);
    return true;
}

/* Makes one more slot readable. Call under the lock. */
static bool grow(struct leati_handles *table) LEATI_REQUIRES(table->lock)
{
    size_t stride = stride_bytes(table);
    uint32_t more;
    char *start;

    leati_assert_locked(&table->lock);
    leati_assert(table->accessible <= table->slots);
    if (!atomic_load_explicit(&table->base, memory_order_relaxed) && !reserve(table))
        return false;
    more = table->slots - table->accessible;
    more = more < GROW_SLOTS ? more : GROW_SLOTS;
    start = atomic_load_explicit(&table->base, memory_order_relaxed) + (size_t)table->accessible * stride;
    if (!more || mprotect(start, more * stride, PROT_READ | PROT_WRITE))
        return false;
    if (__lsan_register_root_region)
        __lsan_register_root_region(start, more * stride);
    table->accessible += more;
    return true;
}

static struct leati_handle *take_oldest_free(struct leati_handles *table)
{
    struct leati_handle *object = slot(table, table->oldest_free - 1);

    leati_assert(table->free_count && table->oldest_free);
    leati_assert(!atomic_load_explicit(&object->live, memory_order_relaxed));
    table->oldest_free = object->next_free;
    table->free_count--;
    return object;
}

void *leati_handle_new(struct leati_handles *table)
{
    struct leati_handle *object = NULL;
    uint32_t used;

    leati_lock(&table->lock);
    used = atomic_load_explicit(&table->used, memory_order_relaxed);
    leati_assert(used <= table->accessible);
    if (table->free_count > LEATI_HANDLES_QUARANTINE) {
        object = take_oldest_free(table);
    } else if (used < table->accessible || grow(table)) {
        object = slot(table, used);
        /* Release: a thread that sees the new count may read the slot, which grow() has made accessible. */
        atomic_store_explicit(&table->used, used + 1, memory_order_release);
    } else if (table->free_count) {
        object = take_oldest_free(table);
    }
    leati_unlock(&table->lock);
    return object;
}

void leati_handle_publish(void *object)
{
    leati_assert(!atomic_load_explicit(&((struct leati_handle *)object)->live, memory_order_relaxed));
    atomic_store_explicit(&((struct leati_handle *)object)->mark, (uintptr_t)object ^ MARK, memory_order_relaxed);
    /* Release: a thread that finds the handle live sees the finished object. */
    atomic_store_explicit(&((struct leati_handle *)object)->live, 1, memory_order_release);
}

LEATI_HOT bool leati_handle_live(struct leati_handles *table, const void *handle)
{
    /* All three loads acquire, and pair with the releases in reserve(), leati_handle_new() and
     * leati_handle_publish(). */
    char *base = atomic_load_explicit(&table->base, memory_order_acquire);
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)base;
    const struct leati_handle *object = handle;

    if (!base || offset >= atomic_load_explicit(&table->used, memory_order_acquire) * stride_bytes(table) ||
        offset % 64)
        return false;
    return atomic_load_explicit(&object->live, memory_order_acquire) == 1 &&
           atomic_load_explicit(&object->mark, memory_order_relaxed) == ((uintptr_t)object ^ MARK);
}

bool leati_handle_retire(struct leati_handles *table, void *handle)
{
    if (!leati_handle_live(table, handle))
        return false;
    /* If several threads retire the handle, only one of them gets true. Acquire and release order that thread's
     * teardown after the uses by other threads. */
    return atomic_exchange_explicit(&((struct leati_handle *)handle)->live, 0, memory_order_acq_rel) == 1;
}

void leati_handle_free(struct leati_handles *table, void *object)
{
    struct leati_handle *freed = object;
    uint32_t number = (uint32_t)(((char *)object - (char *)slot(table, 0)) / (ptrdiff_t)stride_bytes(table)) + 1;

    leati_assert((size_t)((char *)object - (char *)slot(table, 0)) % stride_bytes(table) == 0);
    leati_assert(number <= atomic_load_explicit(&table->used, memory_order_relaxed));
    leati_assert(!atomic_load_explicit(&freed->live, memory_order_relaxed));
    /* Clear the object for LeakSanitizer: the table is a root region, so old pointers in the object would hide
     * leaks. */
    memset((char *)object + sizeof *freed, 0, table->object_bytes - sizeof *freed);
    leati_lock(&table->lock);
    leati_assert(table->free_count < atomic_load_explicit(&table->used, memory_order_relaxed));
    freed->next_free = 0;
    if (table->free_count++)
        slot(table, table->newest_free - 1)->next_free = number;
    else
        table->oldest_free = number;
    table->newest_free = number;
    leati_unlock(&table->lock);
}

void leati_handles_each(struct leati_handles *table, void (*visit)(void *object, void *argument), void *argument)
{
    /* Acquire: pairs with the release in leati_handle_new(). */
    uint32_t used = atomic_load_explicit(&table->used, memory_order_acquire);

    for (uint32_t i = 0; i < used; i++) {
        struct leati_handle *object = slot(table, i);

        if (leati_handle_live(table, object))
            visit(object, argument);
    }
}
