/*
 * activity_join.h - joins calls of the host with the work of devices that they submitted, for recorders that tell
 * of the two separately.
 */
#ifndef CLI_ACTIVITY_JOIN_H
#define CLI_ACTIVITY_JOIN_H

#include "activity.h"

/* A call, or work, until the two are joined. */
struct activity_part {
    struct activity activity;
    uint64_t correlation; /* the same for a call and its work; 0: none */
    bool used;            /* calls: some work was joined with it */
    bool dropped;         /* calls: the call and its work do not count */
    bool hollow;          /* calls: its work does not count */
};

struct activity_part_list {
    struct activity_part *list;
    size_t count, room;
};

/* Adds a part, which is copied. Returns false if memory is short. */
bool activity_parts_add(struct activity_part_list *parts, const struct activity_part *part);

/* Adds all parts to the log. Work and its call become one activity; a call may have several works. Calls without
 * work become activities of their own. If several calls have the same correlation, the first one is the outer one
 * and counts. Sorts the calls. Returns false if memory is short. */
bool activity_join(struct activity_log *log, struct activity_part_list *calls,
                   const struct activity_part_list *work);

#endif
