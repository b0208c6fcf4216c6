/*
 * fault.h - a driver that wraps another one and makes its calls fail, wait or go wrong.
 *
 * Tests arm it to visit every error path, and switch on the faults that a good test must notice. LEAT_FAULT does
 * the same for a whole process, through the registry. It only sees a table: any driver can be wrapped.
 */
#ifndef LEATI_FAULT_H
#define LEATI_FAULT_H

#include "driver/driver.h"

enum leati_fault_mode {
    LEATI_FAULT_NONE,
    LEATI_FAULT_FAIL,       /* the n-th call returns LEAT_ERROR_DRIVER; calls that take something away do it first,
                               but mem_free, mem_free_async, host_free and host_unregister do not */
    LEATI_FAULT_DELAY,      /* the n-th call takes 20 ms longer */
    LEATI_FAULT_CORRUPT,    /* the n-th copy or fill writes one wrong byte */
    LEATI_FAULT_COPY_SHORT, /* every copy leaves its last byte out */
    LEATI_FAULT_FILL_OFF,   /* every fill writes its pattern + 1 */
    LEATI_FAULT_QUERY_READY,  /* every query of a stream or event says ready */
    LEATI_FAULT_WAIT_NOTHING, /* a stream that should wait for an event does not */
    LEATI_FAULT_ORDER_LOOSE /* one stream at a time, the first made, then the first made after its end, runs every
                               other piece of work on a hidden second stream */
};

/* A driver that passes everything through to inner, faults aside. It lives as long as the process; NULL when out
 * of memory. */
struct leati_driver *leati_fault_wrap(struct leati_driver *inner);

/* Arms wrapper. entry: the name of a table entry ("copy"), or NULL for any; n: 1 for the next such call. Resets
 * the count of calls and leati_fault_fired(). Entries that cannot fail (device_native, symbol, stream_native,
 * event_native) are not counted. */
void leati_fault_arm(struct leati_driver *wrapper, enum leati_fault_mode mode, const char *entry, uint64_t n);

/* Arms wrapper from the words of LEAT_FAULT ("fail=copy:3", "copy-short"). INVALID, with a message, for others.
 */
leat_status leati_fault_arm_text(struct leati_driver *wrapper, const char *text);

/* Calls counted since it was armed, and whether the fault happened. */
uint64_t leati_fault_calls(const struct leati_driver *wrapper);
bool leati_fault_fired(const struct leati_driver *wrapper);

/* The name of the entry whose call was made to fail, or NULL. */
const char *leati_fault_entry(const struct leati_driver *wrapper);

/* Things made through the wrapper and not given back yet: devices, memory, reservations, handles, mapped pages,
 * registrations, streams, events, modules. */
uint64_t leati_fault_live(const struct leati_driver *wrapper);

/* One entry of the table, as this wrapper saw it. */
struct leati_fault_visit {
    const char *entry;
    bool present;   /* the wrapped driver has it */
    uint64_t calls; /* since leati_fault_wrap() */
};

/* Lists the entries: index 0, 1, ...; false past the last one. */
bool leati_fault_visited(const struct leati_driver *wrapper, unsigned index, struct leati_fault_visit *visit);

#endif
