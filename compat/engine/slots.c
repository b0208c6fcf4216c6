/* slots.c - tables of handles: see inside.h. */
#include "engine/inside.h"

#include <string.h>
#include <sys/mman.h>

/* Slots are multiples of a cache line, so two streams never share one. */
static size_t slot_bytes(const struct leatc_slots *table)
{
    return (table->object_bytes + 63) & ~(size_t)63;
}

static uint32_t slot_number(const struct leatc_slots *table, const void *object)
{
    char *base = atomic_load_explicit(&table->base, memory_order_relaxed);

    return (uint32_t)((size_t)((const char *)object - base) / slot_bytes(table));
}

static void *slot_at(const struct leatc_slots *table, uint32_t number)
{
    return atomic_load_explicit(&table->base, memory_order_relaxed) + number * slot_bytes(table);
}

/* Under the lock. */
static bool reserve(struct leatc_slots *table)
{
    void *base;

    if (atomic_load_explicit(&table->base, memory_order_relaxed))
        return true;
    base = mmap(NULL, slot_bytes(table) * LEATC_SLOTS_MAX, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return false;
    atomic_store_explicit(&table->base, base, memory_order_release);
    return true;
}

void *leatc_slot_new(struct leatc_slots *table)
{
    struct leatc_slot *object = NULL;
    uint32_t used;

    pthread_mutex_lock(&table->lock);
    used = atomic_load_explicit(&table->used, memory_order_relaxed);
    if (table->free_count > LEATC_SLOTS_REST || (table->free_count && used == LEATC_SLOTS_MAX)) {
        object = slot_at(table, table->oldest_free - 1);
        table->oldest_free = object->next_free;
        table->free_count--;
        memset(object, 0, table->object_bytes);
    } else if (used < LEATC_SLOTS_MAX && reserve(table)) {
        object = slot_at(table, used);
        atomic_store_explicit(&table->used, used + 1, memory_order_release);
    }
    pthread_mutex_unlock(&table->lock);
    return object;
}

void leatc_slot_publish(void *object)
{
    struct leatc_slot *slot = object;

    atomic_store_explicit(&slot->live, 1, memory_order_release);
}

bool leatc_slot_live(struct leatc_slots *table, const void *object)
{
    const char *base = atomic_load_explicit(&table->base, memory_order_acquire);
    size_t offset = (size_t)((uintptr_t)object - (uintptr_t)base);

    if (!base || offset >= slot_bytes(table) * atomic_load_explicit(&table->used, memory_order_acquire) ||
        offset % slot_bytes(table))
        return false;
    return atomic_load_explicit(&((const struct leatc_slot *)object)->live, memory_order_acquire) == 1;
}

bool leatc_slot_retire(struct leatc_slots *table, void *object)
{
    unsigned live = 1;

    return leatc_slot_live(table, object) &&
           atomic_compare_exchange_strong(&((struct leatc_slot *)object)->live, &live, 0);
}

void leatc_slot_free(struct leatc_slots *table, void *object)
{
    struct leatc_slot *slot = object;
    uint32_t number = slot_number(table, object) + 1;

    pthread_mutex_lock(&table->lock);
    slot->next_free = 0;
    if (table->free_count++)
        ((struct leatc_slot *)slot_at(table, table->newest_free - 1))->next_free = number;
    else
        table->oldest_free = number;
    table->newest_free = number;
    pthread_mutex_unlock(&table->lock);
}

void leatc_slots_each(struct leatc_slots *table, void (*visit)(void *object, void *argument), void *argument)
{
    uint32_t used = atomic_load_explicit(&table->used, memory_order_acquire);

    for (uint32_t i = 0; i < used; i++) {
        void *object = slot_at(table, i);

        if (leatc_slot_live(table, object))
            visit(object, argument);
    }
}
