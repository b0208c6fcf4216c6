/*
 * fault.h - a driver that wraps another driver and injects faults: calls fail, are late, or do something wrong.
 *
 * Tests use it to reach every error path, and to prove that wrong results make a test fail. LEAT_FAULT does the
 * same for a whole process, through the registry. Any driver can be wrapped.
 */
#ifndef LEATI_FAULT_H
#define LEATI_FAULT_H

#include "driver/driver.h"

enum leati_fault_mode {
    LEATI_FAULT_NONE,
    LEATI_FAULT_FAIL,       /* the n-th call returns LEAT_ERROR_DRIVER; calls that remove an object still do so,
                               except mem_free, mem_free_async, host_free and host_unregister */
    LEATI_FAULT_DELAY,      /* the n-th call takes 20 ms longer */
    LEATI_FAULT_CORRUPT,    /* the n-th copy or fill writes one wrong byte */
    LEATI_FAULT_COPY_SHORT, /* every copy omits its last byte */
    LEATI_FAULT_FILL_OFF,   /* every fill writes its pattern + 1 */
    LEATI_FAULT_QUERY_READY,  /* every query of a stream or event says ready */
    LEATI_FAULT_WAIT_NOTHING, /* waits of streams for events do nothing */
    LEATI_FAULT_ORDER_LOOSE /* one stream at a time runs every second piece of its work on a hidden second stream:
                               the first stream made; after its end, the first one made then */
};

/* Makes a driver that forwards all calls to inner, except for injected faults. It lives as long as the process.
 * NULL: out of memory. */
struct leati_driver *leati_fault_wrap(struct leati_driver *inner);

/* Arms wrapper. entry: count only calls of this table entry ("copy"), or NULL for all. n: which of these calls
 * gets the fault, 1 for the next. Resets the count of calls and leati_fault_fired(). Entries that cannot fail
 * (device_native, symbol, stream_native, event_native) are not counted. */
void leati_fault_arm(struct leati_driver *wrapper, enum leati_fault_mode mode, const char *entry, uint64_t n);

/* Arms wrapper as a value of LEAT_FAULT says ("fail=copy:3", "copy-short"). INVALID, with a message: not a valid
 * value. */
leat_status leati_fault_arm_text(struct leati_driver *wrapper, const char *text);

/* calls: number of calls counted since the wrapper was armed. fired: true if the fault has happened. */
uint64_t leati_fault_calls(const struct leati_driver *wrapper);
bool leati_fault_fired(const struct leati_driver *wrapper);

/* The name of the entry whose call was made to fail, or NULL. */
const char *leati_fault_entry(const struct leati_driver *wrapper);

/* Number of objects made through the wrapper and not removed yet: devices, memory, reservations, handles, mapped
 * pages, registrations, streams, events, modules. */
uint64_t leati_fault_live(const struct leati_driver *wrapper);

/* Statistics about one entry of the table. */
struct leati_fault_visit {
    const char *entry;
    bool present;   /* the wrapped driver has it */
    uint64_t calls; /* since leati_fault_wrap() */
};

/* Fills *visit for entry number index; returns false if there is no such entry. */
bool leati_fault_visited(const struct leati_driver *wrapper, unsigned index, struct leati_fault_visit *visit);

#endif
