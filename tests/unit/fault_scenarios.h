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
    RUN_SECONDS = 90, /* limit of wall-clock time; a run takes tenths of a second, or more on a busy machine */
    BLOCKS = 8,
    TICKETS = 8,
    MIB = 1 << 20,
    MANAGED_BYTES = 200000,      /* several of the smallest chunks of a prefetch */
    LONG_BYTES = (512 << 10) + 3 /* more than twice the smallest ring */
};

/* Memory and files of the copy scenarios. They are static, because a copy may still run for a while after its call
 * has failed. */
extern leat_file *walk_file; /* used by all copy scenarios */
extern unsigned char host_in[LONG_BYTES], host_out[LONG_BYTES], host_other[LONG_BYTES], end_seen[600];

/* Everything that a run owns. NULL or 0 means not created yet, or already freed. */
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
    const char *entry; /* the driver entry that was made to fail; NULL: none so far */
    leat_pool_options pool;
    bool of_pools;       /* this scenario tests pools */
    bool of_copies;      /* this scenario tests pageable copies */
    bool of_traces;      /* a trace is recorded, whose driver calls may fail without a word */
    bool without_memory; /* this scenario allocates nothing, so leat has no events of its own */
} now;

/* Prints the scenario, the driver call that was made to fail, and this message. Then ends the process. */
void give_up(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Makes one call of a scenario. If it fails, the scenario returns false. */
#define STEP(call)                                                                                                \
    do {                                                                                                          \
        if (keep(w, #call, (call)) != LEAT_OK)                                                                    \
            return false;                                                                                         \
    } while (0)

/* Makes a call that frees an object. After an error the object still exists, so a second call must succeed. */
#define FREE(call)                                                                                                \
    do {                                                                                                          \
        if (keep(w, #call, (call)) != LEAT_OK && (call) != LEAT_OK)                                               \
            give_up("%s fails a second time: %s", #call, leat_last_error());                                      \
    } while (0)

/* Makes a call that ends an object (destroy, close). The object no longer exists, whatever the call returns. */
#define END(call) keep(w, #call, (call))

/* ---- fault_walk.c ---- */

/* Records the status of a call, and the message of the first error. Returns the status. */
leat_status keep(struct world *w, const char *call, leat_status status);

void count_call(void *argument);
void count_slowly(void *argument);

/* ---- fault_public.c ---- */

/* Copies rows to device memory with another pitch, and back. */
bool move_rows(struct world *w, unsigned char *out, unsigned char *in, size_t width, size_t height, size_t pitch);

/* Uses streams and events only. */
void order_scenario(struct world *w);

void managed_scenario(struct world *w);

/* Fails unless memory, a stream and copies in both directions still work after a failure. */
void must_work(leat_device *device, const struct world *after);

void public_scenario(struct world *w);

/* Like public_scenario(), but frees nothing itself: the last close must free everything, and wait for work that
 * still runs. */
void lazy_scenario(struct world *w);

/* Uses virtual memory through the driver's table. Frees everything, even after a failure. */
void table_scenario(struct world *w);

void virtual_scenario(struct world *w);

/* ---- fault_traces.c ---- */

void traced_scenario(struct world *w);

/* ---- fault_pools.c ---- */

void pool_scenario(struct world *w);

/* Leaves pools with live and freed blocks to the last close. Work that still runs uses none of these blocks,
 * because a close that fails to wait frees them nevertheless. */
void lazy_pool_scenario(struct world *w);

/* ---- fault_shares.c ---- */

void share_scenario(struct world *w);

/* Leaves the shares, and streams that wait for the other side, to the close of the device. */
void lazy_share_scenario(struct world *w);

/* ---- fault_copies.c ---- */

void copy_scenario(struct world *w);

/* Closes devices while copies run. Nothing but the close waits for the copies. */
void lazy_copy_scenario(struct world *w);

/* ---- fault_files.c ---- */

/* Creates and removes the folder of the files that the scenarios read and write. */
void make_walk_folder(void);
void remove_walk_folder(void);

void file_scenario(struct world *w);

/* Closes the device while copies and a commit run. */
void lazy_file_scenario(struct world *w);

#endif
