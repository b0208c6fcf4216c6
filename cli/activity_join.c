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
        begins(name, "cudaHostRegister") || begins(name, "cuMemHost"))
        return ACTIVITY_ALLOC;
    if (begins(name, "cudaFree") || begins(name, "cuMemFree") || begins(name, "cudaHostUnregister"))
        return ACTIVITY_FREE;
    if (strstr(name, "Synchronize"))
        return ACTIVITY_HOST_WAIT;
    if (begins(name, "cudaMemcpy") || begins(name, "cuMemcpy"))
        return ACTIVITY_COPY;
    if (strstr(name, "StreamWaitEvent"))
        return ACTIVITY_STREAM_WAIT;
    return ACTIVITY_OTHER;
}

void activity_describe_call(struct activity *call, const char *name)
{
    call->kind = (uint8_t)call_kind(name);
    call->flags = ACTIVITY_FLAG_HOST;
    if (call->kind == ACTIVITY_ALLOC && strstr(name, "Host") != NULL)
        call->to_memory = ACTIVITY_MEMORY_PINNED;
    else if (call->kind == ACTIVITY_ALLOC)
        call->to_memory = ACTIVITY_MEMORY_DEVICE;
    if (call->kind == ACTIVITY_COPY && !strstr(name, "Async"))
        call->flags |= ACTIVITY_FLAG_BLOCKS;
}

static int compare_parts(const void *a, const void *b)
{
    const struct activity_part *one = a, *other = b;

    return one->correlation == other->correlation ? 0 : one->correlation < other->correlation ? -1 : 1;
}

/* Returns the call that submitted the work, or NULL. */
static struct activity_part *find_call(const struct activity_part_list *calls, const struct activity_part *work)
{
    if (!work->correlation || !calls->count)
        return NULL;
    return bsearch(work, calls->list, calls->count, sizeof *work, compare_parts);
}

bool activity_join(struct activity_input *input, struct activity_log *log, struct activity_part_list *calls,
                   struct activity_part_list *work)
{
    size_t i;

    if (calls->count)
        qsort(calls->list, calls->count, sizeof *calls->list, compare_parts);
    for (i = 0; i < work->count; i++) {
        struct activity_part *call = find_call(calls, &work->list[i]);
        struct activity *a = &work->list[i].activity;

        if (call) {
            call->used = true;
            a->flags |= call->activity.flags;
            a->host_begin_ns = call->activity.host_begin_ns;
            a->host_end_ns = call->activity.host_end_ns;
            a->thread = call->activity.thread;
            a->place = call->activity.name;
        }
        if (!activity_log_add(log, a))
            return no_memory(input);
    }
    for (i = 0; i < calls->count; i++)
        if (!calls->list[i].used && !activity_log_add(log, &calls->list[i].activity))
            return no_memory(input);
    return true;
}
