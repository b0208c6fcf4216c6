/*
 * activity_join.h - declares what the readers of other tools' traces share: calls of the host and work of devices,
 * which have the same correlation number if the call has submitted the work. The two become one activity.
 */
#ifndef CLI_ACTIVITY_JOIN_H
#define CLI_ACTIVITY_JOIN_H

#include "activity_read.h"

/* A call of the host, or work of a device, until the two are joined. */
struct activity_part {
    struct activity activity;
    uint64_t correlation; /* 0: none */
    int64_t text;         /* for the reader: the name's number in the file */
    bool used;            /* a call that some work was joined with */
};

struct activity_part_list {
    struct activity_part *list;
    size_t count, room;
};

/* Returns false with the error set if memory is short. */
bool activity_part_add(struct activity_input *input, struct activity_part_list *parts,
                       const struct activity_part *part);

/* Sets what the name of a call of CUDA's runtime or driver tells: kind, flags, and memory of allocations. */
void activity_describe_call(struct activity *call, const char *name);

/* Adds all work to the log, joined with its calls, and then the calls without work. Sorts the calls. Returns false
 * with the error set if memory is short. */
bool activity_join(struct activity_input *input, struct activity_log *log, struct activity_part_list *calls,
                   struct activity_part_list *work);

#endif
