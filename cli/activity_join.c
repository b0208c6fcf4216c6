/*
 * activity_join.c - see activity_join.h.
 */
#include "activity_join.h"

#include <stdlib.h>

bool activity_parts_add(struct activity_part_list *parts, const struct activity_part *part)
{
    if (parts->count == parts->room) {
        size_t room = parts->room ? parts->room * 2 : 256;
        struct activity_part *list = realloc(parts->list, room * sizeof *list);

        if (!list)
            return false;
        parts->list = list;
        parts->room = room;
    }
    parts->list[parts->count++] = *part;
    return true;
}

static int compare_parts(const void *a, const void *b)
{
    const struct activity_part *one = a, *other = b;

    if (one->correlation != other->correlation)
        return one->correlation < other->correlation ? -1 : 1;
    if (one->activity.host_begin_ns != other->activity.host_begin_ns)
        return one->activity.host_begin_ns < other->activity.host_begin_ns ? -1 : 1;
    return 0;
}

/* Returns the index of the first call with a correlation, or calls->count. */
static size_t find_first(const struct activity_part_list *calls, uint64_t correlation)
{
    size_t low = 0, high = calls->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (calls->list[middle].correlation < correlation)
            low = middle + 1;
        else
            high = middle;
    }
    return low < calls->count && calls->list[low].correlation == correlation ? low : calls->count;
}

/* Calls with the same correlation lie within the first of them. If one is dropped, all are. */
static void drop_inner(struct activity_part_list *calls)
{
    size_t first = 0, i;

    for (i = 1; i < calls->count; i++) {
        if (!calls->list[i].correlation || calls->list[i].correlation != calls->list[first].correlation) {
            first = i;
            continue;
        }
        calls->list[first].dropped |= calls->list[i].dropped;
        calls->list[first].hollow |= calls->list[i].hollow;
        calls->list[i].dropped = true;
    }
}

bool activity_join(struct activity_log *log, struct activity_part_list *calls,
                   const struct activity_part_list *work)
{
    size_t i;

    if (calls->count)
        qsort(calls->list, calls->count, sizeof *calls->list, compare_parts);
    drop_inner(calls);
    for (i = 0; i < work->count; i++) {
        const struct activity_part *part = &work->list[i];
        size_t at = part->correlation ? find_first(calls, part->correlation) : calls->count;
        struct activity a = part->activity;

        if (at < calls->count) {
            struct activity_part *call = &calls->list[at];

            if (call->dropped || call->hollow)
                continue;
            call->used = true;
            a.flags |= call->activity.flags;
            a.host_begin_ns = call->activity.host_begin_ns;
            a.host_end_ns = call->activity.host_end_ns;
            a.thread = call->activity.thread;
            a.place = call->activity.name;
        }
        if (!activity_log_add(log, &a))
            return false;
    }
    for (i = 0; i < calls->count; i++)
        if (!calls->list[i].used && !calls->list[i].dropped && !activity_log_add(log, &calls->list[i].activity))
            return false;
    return true;
}
