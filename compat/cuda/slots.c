/* slots.c - implements fixed arrays of slots whose addresses are handles. */
#include "cuda/slots.h"

#include <stdint.h>

bool leatcu_slot_is_alive(const struct leatcu_slots *slots, const void *address)
{
    size_t offset = (size_t)((uintptr_t)address - (uintptr_t)slots->first);

    return offset < slots->count * slots->slot_bytes && offset % slots->slot_bytes == 0 &&
           atomic_load_explicit(&((const struct leatcu_slot *)address)->alive, memory_order_acquire);
}

void *leatcu_slot_take(struct leatcu_slots *slots)
{
    struct leatcu_slot *slot = NULL;

    pthread_mutex_lock(&slots->lock);
    if (slots->used < slots->count) {
        slot = (struct leatcu_slot *)(void *)(slots->first + slots->used++ * slots->slot_bytes);
    } else if (slots->oldest) {
        slot = slots->oldest;
        slots->oldest = slot->next_free;
    }
    pthread_mutex_unlock(&slots->lock);
    return slot;
}

void leatcu_slot_set_alive(struct leatcu_slot *slot)
{
    atomic_store_explicit(&slot->alive, true, memory_order_release);
}

void leatcu_slot_end(struct leatcu_slot *slot)
{
    atomic_store(&slot->alive, false);
}

void leatcu_slot_free(struct leatcu_slots *slots, struct leatcu_slot *slot)
{
    pthread_mutex_lock(&slots->lock);
    slot->next_free = NULL;
    if (slots->oldest)
        slots->youngest->next_free = slot;
    else
        slots->oldest = slot;
    slots->youngest = slot;
    pthread_mutex_unlock(&slots->lock);
}
