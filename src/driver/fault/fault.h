/*
 * fault.h - declares a driver that wraps another driver and injects faults: calls fail, are late, or do wrong
 * things.
 *
 * Tests use it to reach every error path, and to prove that wrong results make a test fail. Any driver can be
 * wrapped. The registry wraps the drivers for which the environment variable LEAT_FAULT names a fault.
 */
#ifndef LEATI_FAULT_H
#define LEATI_FAULT_H

#include "driver/driver.h"

enum leati_fault_mode {
    LEATI_FAULT_NONE,
    /* The n-th call returns LEAT_ERROR_DRIVER. A call that destroys an object still destroys it, but mem_free,
     * mem_free_async, host_free and host_unregister do not. */
    LEATI_FAULT_FAIL,
    LEATI_FAULT_DELAY,        /* the n-th call takes 20 ms longer */
    LEATI_FAULT_CORRUPT,      /* the n-th copy or fill writes one wrong byte */
    LEATI_FAULT_COPY_SHORT,   /* every copy omits its last byte */
    LEATI_FAULT_FILL_OFF,     /* every fill writes its pattern + 1 */
    LEATI_FAULT_QUERY_READY,  /* every query of a stream or event reports completion */
    LEATI_FAULT_WAIT_NOTHING, /* waits of streams for events and for flags do nothing */
    /* Every second piece of work of one stream, the loose one, goes to a hidden stream. The loose stream is the
     * first that is created after arming; when it is destroyed, the next that is created. */
    LEATI_FAULT_ORDER_LOOSE
};

/* Creates a driver that forwards all calls to inner, except for injected faults. The driver is never freed.
 * Returns NULL if there is no memory. */
struct leati_driver *leati_fault_wrap(struct leati_driver *inner);

/* Arms a fault. entry: the name of the table entry whose calls are counted ("copy"); NULL: all entries. n: the
 * number of the counted call that gets the fault; 1 is the next call. Resets the count of calls and
 * leati_fault_fired(). Calls of entries that cannot fail (device_native, symbol, stream_native, event_native) are
 * not counted. */
void leati_fault_arm(struct leati_driver *wrapper, enum leati_fault_mode mode, const char *entry, uint64_t n);

/* Arms the fault that text describes, in the syntax of LEAT_FAULT ("fail=copy:3", "copy-short"). INVALID, with a
 * message: text is not valid. */
leat_status leati_fault_arm_text(struct leati_driver *wrapper, const char *text);

/* leati_fault_calls() returns the number of calls that were counted since the wrapper was armed.
 * leati_fault_fired() returns true if the fault has happened since then. */
uint64_t leati_fault_calls(const struct leati_driver *wrapper);
bool leati_fault_fired(const struct leati_driver *wrapper);

/* Returns the name of the entry whose call got the fault, or NULL if the fault has not happened. */
const char *leati_fault_entry(const struct leati_driver *wrapper);

/* Returns the number of objects that were created through the wrapper and still exist: devices, memory,
 * reservations, handles, mapped pages, registrations, streams, events, modules. */
uint64_t leati_fault_live(const struct leati_driver *wrapper);

/* Statistics about one entry of the table. */
struct leati_fault_visit {
    const char *entry;
    bool present;   /* the wrapped driver has this entry */
    uint64_t calls; /* number of calls since leati_fault_wrap() */
};

/* Fills *visit with the statistics of entry number index. Returns false if the table has fewer entries. */
bool leati_fault_visited(const struct leati_driver *wrapper, unsigned index, struct leati_fault_visit *visit);

#endif
