/*
 * handles.h - tables of the objects behind public handles. They detect stale and wild handles without
 * dereferencing them.
 *
 * Each type of handle has one table: a reserved address range that is cut into slots of equal size and never
 * freed. A pointer is a live handle if it is the start of a slot whose live flag is set. The check takes no lock,
 * and reads no memory outside the table. A freed slot is reused only after LEATI_HANDLES_QUARANTINE more slots
 * were freed, so a stale handle is detected for that long.
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
    atomic_uint live;       /* 1 between leati_handle_publish() and _retire() */
    _Atomic uintptr_t mark; /* a hash of its own address; identifies the start of a slot */
    uint32_t next_free;     /* slot number + 1 of the next free slot; under the table's lock */
};

struct leati_handles {
    size_t object_bytes;    /* set by LEATI_HANDLES(); all other fields start as zeros */
    struct leati_lock lock; /* guards all fields but base and used */
    _Atomic(char *) base;
    _Atomic uint32_t used; /* number of slots that were ever used; these slots are all readable */
    uint32_t slots;        /* number of slots that the range can have */
    uint32_t accessible;   /* number of slots whose pages are readable */
    uint32_t free_count;
    uint32_t oldest_free, newest_free; /* ends of the queue of free slots: slot number + 1; 0: empty */
};

#define LEATI_HANDLES(type)                                                                                       \
    {                                                                                                             \
        .object_bytes = sizeof(type), .lock = LEATI_LOCK_INITIALIZER                                              \
    }

/* Returns a zeroed object that is not live yet; NULL if out of memory. */
void *leati_handle_new(struct leati_handles *table);

/* Makes an object live, so that leati_handle_live() accepts its handle. */
void leati_handle_publish(void *object);

/* Returns true if handle is a live handle of the table. handle may be any pointer. */
bool leati_handle_live(struct leati_handles *table, const void *handle);

/* Makes a live handle invalid. Returns false if it is not live (perhaps another thread was faster). The caller may
 * use the object until leati_handle_free(). */
bool leati_handle_retire(struct leati_handles *table, void *handle);

/* Frees an object that is not live, and clears all of it but struct leati_handle. */
void leati_handle_free(struct leati_handles *table, void *object);

/* Calls visit for each live object, without a lock. visit may free the object. */
void leati_handles_each(struct leati_handles *table, void (*visit)(void *object, void *argument), void *argument);

#endif
