/*
 * fault_scenarios.h - shared by the files of fault_walk: what a run of a scenario owns, macros for its steps, and
 * the scenarios.
 */
#ifndef FAULT_SCENARIOS_H
#define FAULT_SCENARIOS_H

#include "harness.h"

#include "core/core.h"
#include "driver/fault/fault.h"
#include "driver/registry.h"

#include <leat/device_code.h>

#include <stdio.h>

enum {
    BYTES = 5000,
    OWN_BYTES = 20000,
    RUN_SECONDS = 90, /* of wall-clock time: a run takes tenths of a second, but more on a busy machine */
    BLOCKS = 8,
    TICKETS = 8,
    MIB = 1 << 20,
    MANAGED_BYTES = 200000,      /* some of the smallest chunks of a prefetch */
    LONG_BYTES = (512 << 10) + 3 /* more than twice around the smallest ring */
};

/* What copies of pageable memory use. Not on the stack: a copy whose call has failed may be on its way for a
 * while. */
extern leat_file *walk_file; /* of all copy scenarios */
extern unsigned char host_in[LONG_BYTES], host_out[LONG_BYTES], host_other[LONG_BYTES], end_seen[600];

/* What a run owns. NULL and 0 mean: not there, or given back. */
struct world {
    leat_device *device, *other;
    leat_stream *stream, *second, *wrapped_stream, *far_stream;
    leat_event *start, *end, *wrapped_event;
    leat_module *module, *file_module, *own_module;
    void *ordered, *past_pools, *plain, *pinned, *managed, *far, *own;
    bool registered, wrapped;

    /* of the scenarios of pools */
    leat_pool *pool, *second_pool;
    leat_budget *budget;
    void *blocks[BLOCKS], *imported;
    int fd;

    /* of the scenarios of copies */
    leat_ticket *tickets[TICKETS];

    bool failed;         /* a call has returned an error */
    const char *call;    /* the first that did */
    bool fault_was_said; /* an error had the fault driver's words */
    char message[2048];
    atomic_int host_calls;
};

extern struct leati_driver *wrapper;
extern leat_device_info device_info;

extern struct fault_run {
    uint64_t n;
    const char *scenario;
    const char *entry; /* whose call was made to fail; NULL for none, or not yet */
    leat_pool_options pool;
    bool of_pools;       /* the scenario is one of pools */
    bool of_copies;      /* or of pageable memory */
    bool without_memory; /* nothing is allocated in it, so leat has no events of its own */
} now;

/* Prints the scenario, the driver call that was made to fail, and this message; then ends the process. */
void give_up(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* A step of a scenario: returns false from the scenario when the call fails. */
#define STEP(call)                                                                                                \
    do {                                                                                                          \
        if (keep(w, #call, (call)) != LEAT_OK)                                                                    \
            return false;                                                                                         \
    } while (0)

/* A call that frees something: after an error the thing still exists, so a second call must succeed. */
#define FREE(call)                                                                                                \
    do {                                                                                                          \
        if (keep(w, #call, (call)) != LEAT_OK && (call) != LEAT_OK)                                               \
            give_up("%s fails a second time: %s", #call, leat_last_error());                                      \
    } while (0)

/* A call that ends something (destroy, close): the thing no longer exists, whatever the call returns. */
#define END(call) keep(w, #call, (call))

/* ---- fault_walk.c ---- */

/* Notes the status of a call, and the message of the first error. Returns the status. */
leat_status keep(struct world *w, const char *call, leat_status status);

void count_call(void *argument);
void count_slowly(void *argument);

/* ---- fault_public.c ---- */

/* To device memory, at another pitch, and back. */
bool move_rows(struct world *w, unsigned char *out, unsigned char *in, size_t width, size_t height, size_t pitch);

/* Streams and events by themselves. */
void order_scenario(struct world *w);

void managed_scenario(struct world *w);

/* Memory, a stream, copies both ways, on a device that may have seen a failure. */
void must_work(leat_device *device, const struct world *after);

void public_scenario(struct world *w);

/* The same, but the last close has to give everything back, and to wait for work that still runs. */
void lazy_scenario(struct world *w);

/* Virtual memory, by the table. Everything that was made is given back, in any case. */
void table_scenario(struct world *w);

void virtual_scenario(struct world *w);

/* ---- fault_pools.c ---- */

void pool_scenario(struct world *w);

/* The last close finds pools with live blocks, and freed ones. What still runs then uses no memory, because a
 * close that cannot wait frees it all the same. */
void lazy_pool_scenario(struct world *w);

/* ---- fault_copies.c ---- */

void copy_scenario(struct world *w);

/* Devices are closed with copies on their way. Nobody but the close waits for them. */
void lazy_copy_scenario(struct world *w);

#endif
