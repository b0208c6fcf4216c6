/*
 * activity_join.h - declares what the readers share whose recorders tell of calls of the host and of the work of
 * devices separately: a call and its work have the same correlation number, and become one activity.
 */
#ifndef CLI_ACTIVITY_JOIN_H
#define CLI_ACTIVITY_JOIN_H

#include "activity_read.h"

/* A call of the host, or work of a device, until the two are joined. */
struct activity_part {
    struct activity activity;
    uint64_t correlation; /* 0: none */
    int64_t text;         /* for the reader: the name's number in the file */
    bool used;            /* calls: some work was joined with it */
    bool dropped;         /* calls: the call and its work do not count */
    bool hollow;          /* calls: its work does not count */
};

struct activity_part_list {
    struct activity_part *list;
    size_t count, room;
};

/* Adds a part, which is copied. Returns false with the error set if memory is short. */
bool activity_part_add(struct activity_input *input, struct activity_part_list *parts,
                       const struct activity_part *part);

/* Sets what the name of a call of CUDA's runtime or driver tells: kind, flags, and memory of allocations. */
void activity_describe_call(struct activity *call, const char *name);

/* Adds all work to the log, joined with its calls, and then the calls without work. A call may have several works.
 * Of several calls with the same correlation, the first one is around the others and counts. Sorts the calls.
 * Returns false with the error set if memory is short. */
bool activity_join(struct activity_input *input, struct activity_log *log, struct activity_part_list *calls,
                   const struct activity_part_list *work);

#endif
