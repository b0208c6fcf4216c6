/*
 * activity_leat.h - declares how records of leat's format become activities: for the reader of whole runs, and for
 * the writer of timelines that reads a trace in one pass.
 */
#ifndef CLI_ACTIVITY_LEAT_H
#define CLI_ACTIVITY_LEAT_H

#include "activity_chunks.h"

/* A table from ids of the file to indices of the log; ACTIVITY_NONE for ids without a definition. */
struct activity_ids {
    uint32_t *list;
    size_t count;
};

/* What the file has defined so far. Starts as zero, but for input and log. */
struct activity_leat {
    struct activity_input *input;
    struct activity_log *log;
    struct activity_ids strings, threads, devices, lanes, pools;
    bool ended;
};

/* Take a string, and a record of threads, devices, lanes, pools, costs, the source of calls or the state. Return
 * false with the error set. */
bool activity_leat_string(struct activity_leat *leat, uint32_t id, const char *text);
bool activity_leat_define(struct activity_leat *leat, const struct leati_trace_chunk *chunk, const void *record);

/* Returns the activity of a record of operations. */
struct activity activity_leat_op(const struct activity_leat *leat, const struct leati_trace_chunk *chunk,
                                 const void *record);

/* Makes the change of a record of a pool's memory. Returns false with the error set. */
bool activity_leat_change(struct activity_leat *leat, const void *record, struct activity_memory_change *change);

void activity_leat_clear(struct activity_leat *leat);

#endif
