/*
 * trace_snapshot.c - reads PyTorch's memory snapshots, which torch.cuda.memory._dump_snapshot() writes after
 * torch.cuda.memory._record_memory_history(), as traces.
 *
 * A snapshot is a dict. Its "device_traces" are lists of events, one list for each device. This file reads the
 * events alloc, free_requested (the program freed the block) and free_completed (its memory can be reused), counts
 * the events oom, and leaves out the others, which are about segments and snapshots. The snapshot's "segments"
 * list the memory at the end of the recording.
 *
 * The recording may have begun late, or have lost its oldest events. A block is older than the recording if the
 * first event with its address is a free, or if it is in use at the end and no event has its address.
 */
#include "pickle.h"
#include "trace_make.h"

#include <errno.h>
#include <string.h>

/* The limit of the memory for a snapshot's values. It is enough for more than a million events with call
 * stacks. */
static const size_t most_bytes = (size_t)8 << 30;

static bool is_event(const struct pickle_value *event)
{
    const char *action = pickle_text(pickle_get(event, "action"));

    return action && (!strcmp(action, "alloc") || !strcmp(action, "free_requested"));
}

/* Returns true if the list has an allocation or a free. */
static bool has_events(const struct pickle_value *list)
{
    for (size_t i = 0; i < pickle_count(list); i++)
        if (is_event(pickle_item(list, i)))
            return true;
    return false;
}

/* ---- choosing the device ---- */

static bool choose_device(struct trace_maker *maker, const struct pickle_value *lists, int wanted)
{
    int found = TRACE_ANY_DEVICE;

    if (wanted != TRACE_ANY_DEVICE) {
        maker->trace->device = (unsigned)wanted;
        return has_events(pickle_item(lists, (size_t)wanted)) ||
               trace_complain(maker, "device_traces has no allocation of device %d", wanted);
    }
    for (size_t i = 0; i < pickle_count(lists); i++) {
        if (!has_events(pickle_item(lists, i)))
            continue;
        if (found != TRACE_ANY_DEVICE)
            return trace_complain(
                maker, "device_traces has allocations of the devices %d and %zu: choose one by --trace-device",
                found, i);
        found = (int)i;
    }
    if (found == TRACE_ANY_DEVICE)
        return trace_complain(
            maker, "device_traces has no allocation; record with torch.cuda.memory._record_memory_history()");
    maker->trace->device = (unsigned)found;
    return true;
}

/* ---- events ---- */

static bool get_number(struct trace_maker *maker, const struct pickle_value *dict, const char *key,
                       uint64_t *number)
{
    int64_t integer;

    if (!pickle_integer(pickle_get(dict, key), &integer))
        return trace_complain(maker, "'%s' is missing or no whole number of 64 bits", key);
    *number = (uint64_t)integer;
    return true;
}

static bool get_size(struct trace_maker *maker, const struct pickle_value *dict, const char *key, uint64_t *bytes)
{
    if (!get_number(maker, dict, key, bytes))
        return false;
    return *bytes <= INT64_MAX || trace_complain(maker, "'%s' is negative", key);
}

static bool read_alloc(struct trace_maker *maker, uint64_t address, uint64_t bytes, uint16_t stream)
{
    uint32_t block = trace_find_block(maker, address);

    if (block != TRACE_NO_BLOCK)
        return trace_complain(maker, "address 0x%llx is allocated, and its block was not freed before",
                              (unsigned long long)address);
    return trace_make_alloc(maker, address, bytes, stream);
}

static bool read_free_requested(struct trace_maker *maker, uint64_t address, uint64_t bytes, uint16_t stream)
{
    uint32_t block = trace_find_block(maker, address);

    if (block == TRACE_NO_BLOCK && !trace_make_before(maker, address, bytes, stream, &block))
        return false;
    if (maker->fates[block].free_record)
        return trace_complain(maker, "the block at 0x%llx is freed a second time", (unsigned long long)address);
    return trace_make_free(maker, block, stream);
}

static bool read_free_completed(struct trace_maker *maker, uint64_t address, uint16_t stream)
{
    uint32_t block = trace_find_block(maker, address);

    if (block == TRACE_NO_BLOCK)
        return true; /* ignore it: the program freed the block before the recording began */
    if (!maker->fates[block].free_record)
        return trace_complain(maker, "free_completed of the block at 0x%llx comes without free_requested",
                              (unsigned long long)address);
    trace_forget_id(maker, address);
    return trace_make_freed(maker, block, stream);
}

static bool read_event(struct trace_maker *maker, const struct pickle_value *event)
{
    const char *action = pickle_text(pickle_get(event, "action"));
    uint64_t address = 0, bytes = 0, number = 0;
    uint16_t stream = 0;

    if (!action)
        return trace_complain(maker, "it is no dict with a text 'action'");
    if (!strcmp(action, "oom"))
        maker->trace->failures++;
    if (strcmp(action, "alloc") && strcmp(action, "free_requested") && strcmp(action, "free_completed"))
        return true;
    if (!get_number(maker, event, "addr", &address) || !get_size(maker, event, "size", &bytes) ||
        !get_number(maker, event, "stream", &number) || !trace_make_stream(maker, number, &stream))
        return false;
    if (bytes == 0)
        return true;
    maker->record++;
    if (!strcmp(action, "alloc"))
        return read_alloc(maker, address, bytes, stream);
    return !strcmp(action, "free_requested") ? read_free_requested(maker, address, bytes, stream)
                                             : read_free_completed(maker, address, stream);
}

static bool read_events(struct trace_maker *maker, const struct pickle_value *events)
{
    maker->in_events = true;
    for (size_t i = 0; i < pickle_count(events); i++) {
        maker->place = i;
        if (!read_event(maker, pickle_item(events, i)))
            return false;
    }
    maker->in_events = false;
    return true;
}

/* ---- blocks that were live during the whole recording ---- */

/* Reads a block of a segment. address: its start. stream: the number of its stream in the file. */
static bool read_segment_block(struct trace_maker *maker, const struct pickle_value *block, uint64_t address,
                               uint64_t stream)
{
    const char *state = pickle_text(pickle_get(block, "state"));
    uint16_t index = 0;
    uint64_t bytes = 0;

    if (!state)
        return trace_complain(maker, "segments: a block is no dict with a text 'state'");
    /* Ignore blocks in other states, because the program has freed them. */
    if (strcmp(state, "active_allocated") || trace_find_block(maker, address) != TRACE_NO_BLOCK)
        return true;
    if (trace_forgot_id(maker, address))
        return trace_complain(maker, "segments: the block at 0x%llx is in use, and the events have freed it",
                              (unsigned long long)address);
    /* Older versions of PyTorch do not write the requested size. */
    if (!get_size(maker, block, pickle_get(block, "requested_size") ? "requested_size" : "size", &bytes))
        return false;
    return bytes == 0 ||
           (trace_make_stream(maker, stream, &index) && trace_make_before(maker, address, bytes, index, NULL));
}

static bool read_segment(struct trace_maker *maker, const struct pickle_value *segment)
{
    const struct pickle_value *blocks = pickle_get(segment, "blocks");
    uint64_t device = 0, address = 0, stream = 0, bytes = 0;

    if (pickle_get(segment, "device") && !get_number(maker, segment, "device", &device))
        return false;
    if (device != maker->trace->device)
        return true;
    if (!pickle_is_list(blocks))
        return trace_complain(maker, "segments: a segment has no list 'blocks'");
    if (!get_number(maker, segment, "address", &address) || !get_number(maker, segment, "stream", &stream))
        return false;
    for (size_t i = 0; i < pickle_count(blocks); i++) {
        const struct pickle_value *block = pickle_item(blocks, i);

        if (!read_segment_block(maker, block, address, stream) || !get_size(maker, block, "size", &bytes))
            return false;
        address += bytes;
    }
    return true;
}

/* ---- the whole snapshot ---- */

static bool read_root(struct trace_maker *maker, const struct pickle_value *root, int device)
{
    const struct pickle_value *lists = pickle_get(root, "device_traces"), *segments = pickle_get(root, "segments");

    if (!pickle_is_list(lists))
        return trace_complain(maker,
                              "this pickle is no memory snapshot of PyTorch: it has no list 'device_traces'");
    if (!choose_device(maker, lists, device) || !read_events(maker, pickle_item(lists, maker->trace->device)))
        return false;
    for (size_t i = 0; i < pickle_count(segments); i++)
        if (!read_segment(maker, pickle_item(segments, i)))
            return false;
    return maker->trace->block_count > 0 || trace_complain(maker, "the file has no allocation");
}

bool trace_read_snapshot(struct trace_maker *maker, gzFile file, int device)
{
    char error[PICKLE_ERROR_MAX];
    struct pickle *pickle;
    bool fine = false;
    int code;

    maker->trace->format = TRACE_PYTORCH;
    pickle = pickle_load(file, most_bytes, error);
    gzerror(file, &code);
    if (pickle)
        fine = read_root(maker, pickle_root(pickle), device);
    else if (code == Z_ERRNO)
        trace_complain(maker, "the file cannot be read: %s", strerror(errno));
    else if (code != Z_OK && code != Z_STREAM_END)
        trace_complain(maker, "the compressed file is damaged, or ends in the middle");
    else
        trace_complain(maker, "%s", error);
    pickle_destroy(pickle);
    return fine;
}
