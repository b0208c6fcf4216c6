/*
 * thread_ring.h - the ring through which a thread passes its operations to the recorder.
 *
 * Each thread that is traced has a ring of its own, so it passes an operation without a lock. The ring belongs to
 * two threads: its owner writes entries and head, the recorder reads them and writes tail. If the ring is full,
 * the operation is lost and counted.
 */
#ifndef LEATI_THREAD_RING_H
#define LEATI_THREAD_RING_H

#include "trace/device_times.h"

enum { LEATI_RING_ENTRIES = 4096, LEATI_RANGE_DEPTH = 32 };

/* An operation on the way. The recorder fills op's name, place and device times from the rest. */
struct leati_ring_entry {
    struct leati_trace_op op;
    const char *call;             /* a constant; NULL: op.name is set already */
    const void *caller;           /* an address in the program; NULL: none */
    struct leati_time_slot *slot; /* NULL: none */
    uint32_t trace;               /* number of the trace in which the operation began */
};

struct leati_thread_ring {
    /* The owner's: its open span, which is written to the ring when it ends, and its open ranges. */
    unsigned depth;                        /* calls of the API that this thread is in */
    bool dropped;                          /* the ring was full when the span began */
    struct leati_traced_stream *work_lane; /* lane of now.slot */
    struct leati_ring_entry now;
    struct {
        uint32_t name, trace;
        uint64_t start_ns;
        const void *caller;
    } ranges[LEATI_RANGE_DEPTH];
    unsigned range_depth; /* may be above LEATI_RANGE_DEPTH; those ranges are not recorded */

    /* How many entries were ever written. Stored with release, so that the recorder sees the entries before it. */
    _Atomic uint64_t head;
    _Atomic uint64_t lost; /* relaxed: a counter */

    /* How many entries the recorder has read. Stored with release, so that the owner may write these entries
     * again. */
    _Alignas(64) _Atomic uint64_t tail;
    _Atomic bool ended; /* the thread has ended: stored with release after its last entry */

    uint32_t id;        /* from 1, never reused in a process */
    uint32_t system_id; /* gettid() */
    char name[16];

    /* The recorder's. */
    uint32_t defined;     /* number of the trace whose file has this thread */
    uint64_t lost_before; /* lost when that trace began */
    struct leati_thread_ring *next;

    struct leati_ring_entry entries[LEATI_RING_ENTRIES];
};

/* Returns the first of all rings. The list changes only at its start, except by leati_rings_remove(). */
struct leati_thread_ring *leati_rings_first(void);

/* Removes the rings of threads that have ended and whose entries are all read. Returns how many operations they
 * have lost since their lost_before. Call under the recorder's lock. */
uint64_t leati_rings_remove(void);

/* Set the number of the trace, 0 for none, and whether device times are wanted. Call under the recorder's lock. */
void leati_rings_trace(uint32_t number, bool device_times);

/* ---- foreign operations (foreign.h); call under the recorder's lock ---- */

/* Returns the ring of a thread, of several with this number the latest, or NULL. */
struct leati_thread_ring *leati_rings_find(uint32_t system_id);

/* Returns the id of a thread that has no ring, or none any more. *is_new receives whether the file must define it.
 * A ring that this thread gets later takes over the id. Returns 0 if there are too many such threads. */
uint32_t leati_rings_foreign_thread(uint32_t system_id, bool *is_new);

/* In recorder.c: a ring is half full; a thread that has a ring has ended. */
void leati_recorder_wake(void);
void leati_recorder_thread_ends(void);

/* In a child of fork(): forgets all rings, which belong to threads of the parent. */
void leati_rings_fork(void);

#endif
