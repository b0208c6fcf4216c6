/*
 * foreign.h - adds operations to the trace that leat has not made, and of which another recorder tells: calls and
 * their work (leati_trace_is_foreign() in trace_file.h). "leat run --trace" uses it.
 */
#ifndef LEATI_TRACE_FOREIGN_H
#define LEATI_TRACE_FOREIGN_H

#include "trace/trace_file.h"

#include <stdbool.h>
#include <stdint.h>

struct leati_foreign_op {
    struct leati_trace_op op; /* all but name, lane and place; value: the number of the call */
    const char *name;         /* NULL: none */
    uint32_t system_thread;   /* gettid() of the thread that made the call; 0: this is work */
    int device;               /* of the work, its number for the driver; -1: none */
    uint64_t stream;          /* of the work, a number that is unique on the device */
};

/* Returns true if a trace is being recorded. What follows then goes to its file. */
bool leati_foreign_is_traced(void);

/* Adds operations of devices of a driver ("cuda"). lost: how many more the other recorder has lost. Any thread may
 * call it, also at the end of the program; it takes the recorder's lock and may write to the file. */
void leati_foreign_add(const char *driver, const struct leati_foreign_op *list, uint32_t count, uint64_t lost);

/* Says in the file how calls made without leat are recorded. */
void leati_foreign_source(enum leati_trace_source_by by, const char *detail);

#endif
