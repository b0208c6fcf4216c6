/*
 * slots.h - fixed arrays of slots whose addresses are handles, so that a call can check any pointer without
 * reading from it.
 *
 * A slot is free, taken (its owner fills it in) or alive (its address is a valid handle). Slots that were freed
 * are used again as late as possible, the oldest first, so that an old handle stays invalid for as long as
 * possible. Each call may run in any thread at any time.
 */
#ifndef LEATCU_SLOTS_H
#define LEATCU_SLOTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* The first member of each slot. */
struct leatcu_slot {
    atomic_bool alive;             /* read without the lock; release and acquire show the slot's other fields */
    struct leatcu_slot *next_free; /* the slot that was freed after this one */
};

struct leatcu_slots {
    char *first;
    size_t slot_bytes, count;
    pthread_mutex_t lock;                  /* guards the fields below */
    size_t used;                           /* slots that were taken at least once */
    struct leatcu_slot *oldest, *youngest; /* list of free slots that were used; NULL: empty */
};

#define LEATCU_SLOTS(array)                                                                                       \
    {                                                                                                             \
        .first = (char *)(array), .slot_bytes = sizeof(array)[0], .count = sizeof(array) / sizeof(array)[0],      \
        .lock = PTHREAD_MUTEX_INITIALIZER                                                                         \
    }

/* Returns true if the address, any address, is that of a slot that is alive. */
bool leatcu_slot_is_alive(const struct leatcu_slots *slots, const void *address);

/* Takes a free slot and returns it. It is not alive, and its fields are as its last owner left them. Returns NULL
 * if all slots are in use. */
void *leatcu_slot_take(struct leatcu_slots *slots);

/* Makes a slot that is taken alive, and shows what the caller wrote to it before. */
void leatcu_slot_set_alive(struct leatcu_slot *slot);

/* Makes a slot's address an invalid handle. The caller still owns the slot. */
void leatcu_slot_end(struct leatcu_slot *slot);

/* Frees a slot that is taken and not alive. */
void leatcu_slot_free(struct leatcu_slots *slots, struct leatcu_slot *slot);

#endif
