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
    RUN_SECONDS = 90, /* wall-clock time; a run takes tenths of a second, but more on a busy machine */
    BLOCKS = 8,
    TICKETS = 8,
    MIB = 1 << 20,
    MANAGED_BYTES = 200000,      /* several of the smallest chunks of a prefetch */
    LONG_BYTES = (512 << 10) + 3 /* more than twice the smallest ring */
};

/* Memory and files of the copy scenarios. Not on the stack: a copy may still run for a while after its call
 * failed. */
extern leat_file *walk_file; /* for all copy scenarios */
extern unsigned char host_in[LONG_BYTES], host_out[LONG_BYTES], host_other[LONG_BYTES], end_seen[600];

/* Everything that a run owns. NULL and 0: not created yet, or already freed. */
struct world {
    leat_device *device, *other;
    leat_stream *stream, *second, *wrapped_stream, *far_stream;
    leat_event *start, *end, *wrapped_event;
    leat_module *module, *file_module, *own_module;
    void *ordered, *past_pools, *plain, *pinned, *managed, *far, *own;
    bool registered, wrapped;

    /* For the scenarios of pools: */
    leat_pool *pool, *second_pool;
    leat_budget *budget;
    void *blocks[BLOCKS], *imported;
    int fd;

    /* For the scenarios of copies: */
    leat_ticket *tickets[TICKETS];

    bool failed;         /* a call has returned an error */
    const char *call;    /* the first call that failed */
    bool fault_was_said; /* an error message named the fault driver */
    char message[2048];
    atomic_int host_calls;
};

extern struct leati_driver *wrapper;
extern leat_device_info device_info;

extern struct fault_run {
    uint64_t n;
    const char *scenario;
    const char *entry; /* the entry whose call was made to fail; NULL: none so far */
    leat_pool_options pool;
    bool of_pools;       /* this is a scenario of pools */
    bool of_copies;      /* this is a scenario of pageable copies */
    bool without_memory; /* nothing is allocated, so leat has no events of its own */
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

/* Copies rows to device memory with another pitch, and back. */
bool move_rows(struct world *w, unsigned char *out, unsigned char *in, size_t width, size_t height, size_t pitch);

/* Streams and events alone. */
void order_scenario(struct world *w);

void managed_scenario(struct world *w);

/* Fails unless memory, a stream and copies in both directions still work after a failure. */
void must_work(leat_device *device, const struct world *after);

void public_scenario(struct world *w);

/* The same, but the last close must free everything, and wait for work that still runs. */
void lazy_scenario(struct world *w);

/* Virtual memory by the driver's table. Frees everything in any case. */
void table_scenario(struct world *w);

void virtual_scenario(struct world *w);

/* ---- fault_pools.c ---- */

void pool_scenario(struct world *w);

/* The last close finds pools with live and freed blocks. Work that still runs uses none of them, because a close
 * that cannot wait frees them nevertheless. */
void lazy_pool_scenario(struct world *w);

/* ---- fault_copies.c ---- */

void copy_scenario(struct world *w);

/* Closes devices while copies run. Only the close waits for them. */
void lazy_copy_scenario(struct world *w);

/* ---- fault_files.c ---- */

/* The folder of the files that the scenarios read and write. */
void make_walk_folder(void);
void remove_walk_folder(void);

void file_scenario(struct world *w);

/* Closes the device while copies and a commit run. */
void lazy_file_scenario(struct world *w);

#endif
