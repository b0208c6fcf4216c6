/* activity_join.c - see activity_join.h. */
#include "activity_join.h"

#include <stdlib.h>
#include <string.h>

static bool no_memory(struct activity_input *input)
{
    return activity_input_fail(input, "out of host memory");
}

bool activity_part_add(struct activity_input *input, struct activity_part_list *parts,
                       const struct activity_part *part)
{
    if (parts->count == parts->room) {
        size_t room = parts->room ? parts->room * 2 : 256;
        struct activity_part *list = realloc(parts->list, room * sizeof *list);

        if (!list)
            return no_memory(input);
        parts->list = list;
        parts->room = room;
    }
    parts->list[parts->count++] = *part;
    return true;
}

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static enum activity_kind call_kind(const char *name)
{
    if (begins(name, "cudaMalloc") || begins(name, "cuMemAlloc") || begins(name, "cudaHostAlloc") ||
        begins(name, "cudaHostRegister") || begins(name, "cuMemHostAlloc") || begins(name, "cuMemHostRegister"))
        return ACTIVITY_ALLOC;
    if (begins(name, "cudaFree") || begins(name, "cuMemFree") || begins(name, "cudaHostUnregister") ||
        begins(name, "cuMemHostUnregister"))
        return ACTIVITY_FREE;
    if (strstr(name, "Synchronize"))
        return ACTIVITY_HOST_WAIT;
    if (begins(name, "cudaMemcpy") || begins(name, "cuMemcpy"))
        return ACTIVITY_COPY;
    if (strstr(name, "StreamWaitEvent"))
        return ACTIVITY_STREAM_WAIT;
    if (strstr(name, "LaunchHostFunc") || strstr(name, "StreamAddCallback"))
        return ACTIVITY_HOST_FUNCTION;
    return ACTIVITY_OTHER;
}

void activity_describe_call(struct activity *call, const char *name)
{
    call->kind = (uint8_t)call_kind(name);
    call->flags = ACTIVITY_FLAG_HOST;
    if ((call->kind == ACTIVITY_ALLOC || call->kind == ACTIVITY_FREE) && strstr(name, "Host"))
        call->to_memory = ACTIVITY_MEMORY_PINNED;
    else if (call->kind == ACTIVITY_ALLOC && strstr(name, "Managed"))
        call->to_memory = ACTIVITY_MEMORY_MANAGED;
    else if (call->kind == ACTIVITY_ALLOC)
        call->to_memory = ACTIVITY_MEMORY_DEVICE;
    if (call->kind == ACTIVITY_COPY && !strstr(name, "Async"))
        call->flags |= ACTIVITY_FLAG_BLOCKS;
}

/* Orders by correlation, and calls with the same one by their beginning. */
static int compare_parts(const void *a, const void *b)
{
    const struct activity_part *one = a, *other = b;

    if (one->correlation != other->correlation)
        return one->correlation < other->correlation ? -1 : 1;
    if (one->activity.host_begin_ns != other->activity.host_begin_ns)
        return one->activity.host_begin_ns < other->activity.host_begin_ns ? -1 : 1;
    return 0;
}

/* Returns the first call that has the correlation of the work, or NULL. */
static struct activity_part *find_call(const struct activity_part_list *calls, const struct activity_part *work)
{
    size_t low = 0, high = work->correlation ? calls->count : 0;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (calls->list[middle].correlation < work->correlation)
            low = middle + 1;
        else
            high = middle;
    }
    return work->correlation && low < calls->count && calls->list[low].correlation == work->correlation
               ? &calls->list[low]
               : NULL;
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

/* Gives work what is known of its call. */
static void join_work(struct activity *work, const struct activity *call)
{
    work->flags |= call->flags;
    work->host_begin_ns = call->host_begin_ns;
    work->host_end_ns = call->host_end_ns;
    work->thread = call->thread;
    work->place = call->name;
}

bool activity_join(struct activity_input *input, struct activity_log *log, struct activity_part_list *calls,
                   const struct activity_part_list *work)
{
    size_t i;

    if (calls->count)
        qsort(calls->list, calls->count, sizeof *calls->list, compare_parts);
    drop_inner(calls);
    for (i = 0; i < work->count; i++) {
        struct activity_part *call = find_call(calls, &work->list[i]);
        struct activity a = work->list[i].activity;

        if (call && (call->dropped || call->hollow))
            continue;
        if (call) {
            call->used = true;
            join_work(&a, &call->activity);
        }
        if (!activity_log_add(log, &a))
            return no_memory(input);
    }
    for (i = 0; i < calls->count; i++)
        if (!calls->list[i].used && !calls->list[i].dropped && !activity_log_add(log, &calls->list[i].activity))
            return no_memory(input);
    return true;
}
