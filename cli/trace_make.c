/*
 * trace_make.c - builds a trace event by event: see trace_make.h.
 */
#include "trace_make.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A slot of the hash table (open addressing) that maps ids to blocks. A taken slot with TRACE_NO_BLOCK belongs to
 * an id that was used before, and that names no block now. */
struct trace_slot {
    uint64_t id;
    uint32_t block;
    bool taken;
};

bool trace_complain(struct trace_maker *maker, const char *format, ...)
{
    const struct trace *trace = maker->trace;
    va_list list;
    int used;

    if (trace && trace->format != TRACE_PYTORCH)
        used = snprintf(maker->error, TRACE_ERROR_MAX, "%.200s:%llu: ", maker->path,
                        (unsigned long long)maker->place);
    else if (trace && maker->in_events)
        used = snprintf(maker->error, TRACE_ERROR_MAX, "%.200s: device_traces[%u][%llu]: ", maker->path,
                        trace->device, (unsigned long long)maker->place);
    else
        used = snprintf(maker->error, TRACE_ERROR_MAX, "%.200s: ", maker->path);
    va_start(list, format);
    vsnprintf(maker->error + used, TRACE_ERROR_MAX - (size_t)used, format, list);
    va_end(list);
    return false;
}

static bool out_of_memory(struct trace_maker *maker)
{
    return trace_complain(maker, "out of host memory");
}

/* ---- arrays and the table of ids ---- */

/* Grows an array so that one more element of size bytes fits. */
static bool make_room(void *array, size_t *room, size_t count, size_t size)
{
    size_t wanted = *room ? *room * 2 : 1024;
    void *old, *grown;

    if (count < *room)
        return true;
    memcpy(&old, array, sizeof old);
    grown = wanted > SIZE_MAX / size ? NULL : realloc(old, wanted * size);
    if (!grown)
        return false;
    memcpy(array, &grown, sizeof grown);
    *room = wanted;
    return true;
}

static struct trace_slot *find_slot(const struct trace_maker *maker, uint64_t id)
{
    uint64_t hash = (id ^ id >> 32) * 0x9e3779b97f4a7c15u;
    size_t at = (size_t)(hash >> 20) & (maker->slot_count - 1);

    while (maker->slots[at].taken && maker->slots[at].id != id)
        at = (at + 1) & (maker->slot_count - 1);
    return &maker->slots[at];
}

/* Grows the table of ids if it is half full. */
static bool grow_slots(struct trace_maker *maker)
{
    struct trace_slot *old = maker->slots;
    size_t old_count = maker->slot_count, i;

    if (old && maker->slots_taken < old_count / 2)
        return true;
    maker->slot_count = old ? old_count * 2 : 4096;
    maker->slots = calloc(maker->slot_count, sizeof *maker->slots);
    if (!maker->slots) {
        maker->slots = old;
        maker->slot_count = old_count;
        return false;
    }
    for (i = 0; old && i < old_count; i++)
        if (old[i].taken)
            *find_slot(maker, old[i].id) = old[i];
    free(old);
    return true;
}

uint32_t trace_find_block(const struct trace_maker *maker, uint64_t id)
{
    const struct trace_slot *slot = maker->slots ? find_slot(maker, id) : NULL;

    return slot && slot->taken ? slot->block : TRACE_NO_BLOCK;
}

void trace_forget_id(struct trace_maker *maker, uint64_t id)
{
    struct trace_slot *slot = maker->slots ? find_slot(maker, id) : NULL;

    if (slot && slot->taken)
        slot->block = TRACE_NO_BLOCK;
}

bool trace_forgot_id(const struct trace_maker *maker, uint64_t id)
{
    const struct trace_slot *slot = maker->slots ? find_slot(maker, id) : NULL;

    return slot && slot->taken && slot->block == TRACE_NO_BLOCK;
}

bool trace_name(struct trace_maker *maker, uint64_t id, uint32_t index)
{
    struct trace_slot *slot;

    if (!grow_slots(maker))
        return out_of_memory(maker);
    slot = find_slot(maker, id);
    maker->slots_taken += !slot->taken;
    *slot = (struct trace_slot){id, index, true};
    return true;
}

/* ---- streams, pools, blocks, events ---- */

/* The number that replaces the number of an ended stream in trace.streams. No file contains this number. */
#define ENDED (TRACE_HOST - 1)

/* Returns the index of a stream, or TRACE_STREAMS_MAX if it is not in the trace. */
static unsigned find_stream(const struct trace *trace, uint64_t number)
{
    unsigned i;

    for (i = 0; i < trace->stream_count; i++)
        if (trace->streams[i] == number)
            return i;
    return TRACE_STREAMS_MAX;
}

bool trace_make_stream(struct trace_maker *maker, uint64_t number, uint16_t *index)
{
    struct trace *trace = maker->trace;
    unsigned found = find_stream(trace, number);

    if (found == TRACE_STREAMS_MAX && number != TRACE_HOST)
        found = find_stream(trace, ENDED);
    if (found == TRACE_STREAMS_MAX && trace->stream_count == TRACE_STREAMS_MAX)
        return trace_complain(maker, "there are more than %d streams", TRACE_STREAMS_MAX);
    if (found == TRACE_STREAMS_MAX)
        found = trace->stream_count++;
    trace->streams[found] = number;
    *index = (uint16_t)found;
    return true;
}

bool trace_make_stream_end(struct trace_maker *maker, uint64_t number)
{
    struct trace *trace = maker->trace;
    unsigned found = find_stream(trace, number);

    if (found == TRACE_STREAMS_MAX)
        return true;
    trace->streams[found] = ENDED;
    return trace_make_event(maker, (struct trace_event){.op = TRACE_STREAM_END, .stream = (uint16_t)found});
}

bool trace_make_pool(struct trace_maker *maker, leat_kind kind, const char *name)
{
    struct trace *trace = maker->trace;
    struct trace_pool *pool;

    if (!make_room(&trace->pools, &maker->pool_room, trace->pool_count, sizeof *trace->pools))
        return out_of_memory(maker);
    pool = &trace->pools[trace->pool_count++];
    pool->kind = kind;
    snprintf(pool->name, sizeof pool->name, "%s", name);
    return true;
}

bool trace_make_event(struct trace_maker *maker, struct trace_event event)
{
    struct trace *trace = maker->trace;

    if (!make_room(&trace->events, &maker->event_room, trace->event_count, sizeof *trace->events))
        return out_of_memory(maker);
    trace->events[trace->event_count++] = event;
    return true;
}

static bool add_event(struct trace_maker *maker, enum trace_op op, uint32_t block, uint16_t stream)
{
    return trace_make_event(maker, (struct trace_event){.block = block, .stream = stream, .op = (uint16_t)op});
}

static bool add_block(struct trace_maker *maker, uint64_t id, uint64_t bytes, uint16_t stream, bool before)
{
    struct trace *trace = maker->trace;

    if (trace->block_count == TRACE_NO_BLOCK)
        return trace_complain(maker, "there are more allocations than this program can number");
    /* Check that the sum of all blocks does not overflow; then no sum of live blocks can overflow later. */
    if (bytes > UINT64_MAX - maker->total_bytes)
        return trace_complain(maker, "%llu bytes cannot be right: all allocations together exceed 2^64 bytes",
                              (unsigned long long)bytes);
    maker->total_bytes += bytes;
    if (!make_room(&maker->fates, &maker->fate_room, trace->block_count, sizeof *maker->fates) ||
        !make_room(&trace->blocks, &maker->block_room, trace->block_count, sizeof *trace->blocks))
        return out_of_memory(maker);
    if (!trace_name(maker, id, (uint32_t)trace->block_count))
        return false;
    maker->fates[trace->block_count] = (struct trace_fate){0, 0, false};
    trace->blocks[trace->block_count++] =
        (struct trace_block){.id = id, .bytes = bytes, .place = maker->place, .stream = stream, .before = before};
    return true;
}

bool trace_make_alloc(struct trace_maker *maker, uint64_t id, uint64_t bytes, uint16_t stream)
{
    return add_block(maker, id, bytes, stream, false) &&
           add_event(maker, TRACE_ALLOC, (uint32_t)maker->trace->block_count - 1, stream);
}

bool trace_make_before(struct trace_maker *maker, uint64_t id, uint64_t bytes, uint16_t stream, uint32_t *block)
{
    if (!add_block(maker, id, bytes, stream, true))
        return false;
    maker->trace->before++;
    if (block)
        *block = (uint32_t)maker->trace->block_count - 1;
    return true;
}

bool trace_make_free(struct trace_maker *maker, uint32_t block, uint16_t stream)
{
    struct trace_fate *fate = &maker->fates[block];

    fate->free_record = maker->record;
    fate->free_place = maker->place;
    maker->trace->blocks[block].used_elsewhere = true; /* trace_make_freed() clears this if "freed" is the next
                                                        * record */
    return add_event(maker, TRACE_FREE, block, stream);
}

bool trace_make_freed(struct trace_maker *maker, uint32_t block, uint16_t stream)
{
    struct trace_fate *fate = &maker->fates[block];

    fate->freed = true;
    maker->trace->has_freed = true;
    if (fate->free_record + 1 == maker->record)
        maker->trace->blocks[block].used_elsewhere = false;
    return add_event(maker, TRACE_FREED, block, stream);
}

/* ---- beginning and end ---- */

bool trace_maker_begin(struct trace_maker *maker, const char *path, char error[TRACE_ERROR_MAX])
{
    *maker = (struct trace_maker){.path = path, .error = error, .trace = calloc(1, sizeof *maker->trace)};
    if (!maker->trace)
        return out_of_memory(maker);
    maker->trace->host_stream = -1;
    if (trace_make_pool(maker, LEAT_KIND_DEVICE, ""))
        return true;
    (void)trace_maker_end(maker, false);
    return false;
}

/* Inserts allocations of the blocks that are older than the recording in front of all events. */
static bool put_before(struct trace_maker *maker)
{
    struct trace *trace = maker->trace;
    size_t count = trace->event_count + trace->before, at = 0, i;
    struct trace_event *events;

    if (!trace->before)
        return true;
    events = calloc(count, sizeof *events);
    if (!events)
        return out_of_memory(maker);
    for (i = 0; i < trace->block_count; i++)
        if (trace->blocks[i].before)
            events[at++] =
                (struct trace_event){.block = (uint32_t)i, .stream = trace->blocks[i].stream, .op = TRACE_ALLOC};
    if (trace->event_count)
        memcpy(events + at, trace->events, trace->event_count * sizeof *events);
    free(trace->events);
    trace->events = events;
    trace->event_count = count;
    return true;
}

struct trace *trace_maker_end(struct trace_maker *maker, bool whole)
{
    struct trace *trace = maker->trace;
    size_t i;

    if (whole)
        whole = put_before(maker);
    free(maker->slots);
    free(maker->fates);
    if (!whole) {
        trace_destroy(trace);
        return NULL;
    }
    /* If the file has no event "freed", it does not say which blocks other streams used, so clear
     * used_elsewhere. */
    for (i = 0; i < trace->block_count && !trace->has_freed; i++)
        trace->blocks[i].used_elsewhere = false;
    return trace;
}
