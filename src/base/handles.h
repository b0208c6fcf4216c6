/*
 * handles.h - objects behind public handles, so that a dead or wild handle is recognised instead of followed.
 *
 * Each type of handle has one table: one reserved address range, cut into slots of equal size, never given back. A
 * pointer is a live handle if it is the start of a slot whose live mark is set; that takes no lock and touches no
 * foreign memory. A freed slot is used again only after LEATI_HANDLES_QUARANTINE younger ones were freed, so a
 * stale handle stays recognisable for that long.
 *
 * The compatibility libraries have tables of their own: compat/compat.mk compiles this file into them too.
 */
#ifndef LEATI_HANDLES_H
#define LEATI_HANDLES_H

#include "base/lock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEATI_HANDLES_QUARANTINE 4096

/* The first member of every object. */
struct leati_handle {
    atomic_uint live;       /* 1 between publish and retire */
    _Atomic uintptr_t mark; /* its own address, mixed: what tells the start of a slot from a place inside of one */
    uint32_t next_free;     /* slot number + 1 of the next free slot; under the table's lock */
};

struct leati_handles {
    size_t object_bytes;  /* set by the definition below; the rest starts as zeros */
    struct leati_lock lock; /* guards all but base and used */
    _Atomic(char *) base;
    _Atomic uint32_t used; /* slots that were ever handed out; those below it are readable */
    uint32_t slots;        /* that the range has room for */
    uint32_t accessible;   /* slots whose pages are readable */
    uint32_t free_count;
    uint32_t oldest_free, newest_free; /* slot number + 1, a queue */
};

#define LEATI_HANDLES(type)                                                                                       \
    {                                                                                                             \
        .object_bytes = sizeof(type), .lock = LEATI_LOCK_INITIALIZER                                              \
    }

/* A zeroed object that is not live yet; NULL when out of memory. */
void *leati_handle_new(struct leati_handles *table);

/* Makes an object live: from now on the handle is accepted. */
void leati_handle_publish(void *object);

/* Is this a live handle of the table? Any pointer may be asked for. */
bool leati_handle_live(struct leati_handles *table, const void *handle);

/* Ends a live handle; false if it was not one (another thread was faster). The object stays readable for the
 * caller until leati_handle_free(). */
bool leati_handle_retire(struct leati_handles *table, void *handle);

/* Gives an object that is not live back; all of it is cleared but the handle. */
void leati_handle_free(struct leati_handles *table, void *object);

/* Calls visit for each live object, which may end it. No lock is held. */
void leati_handles_each(struct leati_handles *table, void (*visit)(void *object, void *argument), void *argument);

#endif
