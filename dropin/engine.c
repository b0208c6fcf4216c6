/*
 * engine.c - makes copies by leat in a program's own streams. This file and leat are libleat-run-engine.
 */
#include "engine_pool.h"

#include "engine_cupti.h"
#include "engine_trace.h"

#include "base/fresh_pages.h"
#include "core/core.h"

#include <leat/leat.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A device of leat's for the primary context of a device of the driver's. */
struct slot {
    /* Held for reading during a copy, and for writing while the device is opened, prepared or closed. So a device
     * is not closed under a copy. A copy may wait for work of other threads, so each device has its own lock, and
     * waiting writers do not keep readers out (the default of glibc). */
    pthread_rwlock_t gate;
    leat_device *device; /* NULL: not open */
    void *context;
    bool prepared; /* the staging memory exists, or cannot be made */
    bool refused;  /* the device could not be opened for a call that is only recorded, which is not tried again */
};

static struct slot slots[ENGINE_DEVICES_MOST] = {
    [0 ... ENGINE_DEVICES_MOST - 1] = {.gate = PTHREAD_RWLOCK_INITIALIZER}};

static enum engine_result fail(enum engine_result result, char *message, size_t message_bytes)
{
    snprintf(message, message_bytes, "%s", leat_last_error());
    return result;
}

/* Opens the device of a slot. Called with its gate held for writing. */
static enum engine_result open_device(int number, char *message, size_t message_bytes)
{
    struct slot *slot = &slots[number];
    char name[32];

    if (slot->device)
        return ENGINE_DONE;
    snprintf(name, sizeof name, "cuda:%d", number);
    if (leat_device_open(name, &slot->device) != LEAT_OK) {
        slot->device = NULL;
        return fail(ENGINE_NOT_STARTED, message, message_bytes);
    }
    slot->prepared = false;
    if (leat_device_native(slot->device, &slot->context) != LEAT_OK)
        slot->context = NULL; /* no copy will match */
    return ENGINE_DONE;
}

enum engine_result engine_open(int device, leat_device **opened, void **context, char *message,
                               size_t message_bytes)
{
    struct slot *slot = &slots[device];
    enum engine_result result = ENGINE_DONE;

    /* Take the gate for writing only to open the device: a copy of another thread may hold it for reading, and may
     * wait for work that this thread submits later. */
    pthread_rwlock_rdlock(&slot->gate);
    if (!slot->device) {
        pthread_rwlock_unlock(&slot->gate);
        pthread_rwlock_wrlock(&slot->gate);
        result = open_device(device, message, message_bytes);
    }
    *opened = slot->device;
    *context = slot->context;
    pthread_rwlock_unlock(&slot->gate);
    return result;
}

/* Waits for work of the program that the driver's synchronous calls wait for: the stream's own, and, for a default
 * stream, that of the streams which it waits for. An event counts as work of the stream, so it waits for those
 * too. */
static leat_status wait_for_earlier(leat_device *device, leat_stream *stream)
{
    leat_event *event;
    leat_status status = leat_event_create(device, &event);

    if (status != LEAT_OK)
        return status;
    status = leat_event_record(stream, event);
    if (status == LEAT_OK)
        status = leat_event_synchronize(event);
    (void)leat_event_destroy(event);
    return status;
}

/* Makes a batch, and waits for it. The driver waits in such a call too until the stream reaches it. */
static leat_status copy_batch(leat_stream *stream, const struct engine_copy *copy)
{
    leat_copy_op *ops = malloc(copy->batch_count * sizeof *ops);
    leat_status status;

    if (!ops)
        return LEAT_ERROR_HOST_MEMORY;
    for (size_t i = 0; i < copy->batch_count; i++)
        ops[i] = (leat_copy_op){(void *)(uintptr_t)copy->batch_dsts[i],
                                (const void *)(uintptr_t)copy->batch_srcs[i], copy->batch_sizes[i]};
    status = leat_copy_batch(stream, ops, copy->batch_count);
    if (status == LEAT_OK)
        status = leat_stream_synchronize(stream);
    free(ops);
    return status;
}

static leat_status copy_in_stream(leat_device *device, leat_stream *stream, const struct engine_copy *copy)
{
    leat_copy_region region = {.width_bytes = copy->bytes,
                               .height = copy->rows,
                               .depth = 1,
                               .dst_pitch_bytes = copy->dst_pitch,
                               .src_pitch_bytes = copy->src_pitch};
    leat_status status = LEAT_OK;

    if (copy->batch_count)
        return copy_batch(stream, copy);
    if (copy->sync && copy->in)
        status = wait_for_earlier(device, stream);
    if (status == LEAT_OK)
        status = copy->rows > 1 ? leat_copy_3d(stream, copy->dst, copy->src, &region)
                                : leat_copy_sync(stream, copy->dst, copy->src, copy->bytes);
    /* leat_copy_sync() has waited for pageable memory of either side. Rows have no such call. */
    if (status == LEAT_OK && ((copy->sync && copy->in) || copy->rows > 1))
        status = leat_stream_synchronize(stream);
    return status;
}

/* Creates the staging memory of the device now, and not in a thread behind the first copies: that thread's calls
 * would end a capture that another thread of the program has begun. The text is not needed. */
static void prepare(leat_stream *stream, const struct engine_copy *copy)
{
    char text[64];

    (void)leat_copy_explain(stream, copy->dst, copy->src, copy->bytes, text, sizeof text);
}

/* Opens and prepares a device. */
static enum engine_result make_ready(const struct engine_copy *copy, char *message, size_t message_bytes)
{
    struct slot *slot = &slots[copy->device];
    enum engine_result result;
    leat_stream *stream;

    pthread_rwlock_wrlock(&slot->gate);
    result = open_device(copy->device, message, message_bytes);
    if (result == ENGINE_DONE && !slot->prepared && slot->context == copy->context &&
        leat_stream_wrap(slot->device, copy->stream, &stream) == LEAT_OK) {
        prepare(stream, copy);
        (void)leat_stream_destroy(stream);
    }
    slot->prepared = true;
    pthread_rwlock_unlock(&slot->gate);
    return result;
}

/* Makes the copy on an open device. Called with the gate held for reading. */
static enum engine_result copy_on(struct slot *slot, const struct engine_copy *copy, char *message,
                                  size_t message_bytes)
{
    leat_stream *stream;
    leat_status status;

    if (slot->context != copy->context)
        return ENGINE_OTHER_CONTEXT;
    /* A wrapping for each copy, so that none outlives the program's stream. */
    if (leat_stream_wrap(slot->device, copy->stream, &stream) != LEAT_OK)
        return fail(ENGINE_FAILED, message, message_bytes);
    /* In a trace the wrapping is the program's stream. */
    stream->traced.serial = engine_trace_stream(copy->device, copy->context, copy->stream, stream->traced.serial);
    status = copy_in_stream(slot->device, stream, copy);
    if (status != LEAT_OK)
        (void)fail(ENGINE_FAILED, message, message_bytes);
    (void)leat_stream_destroy(stream);
    return status == LEAT_OK ? ENGINE_DONE : ENGINE_FAILED;
}

static enum engine_result copy(const struct engine_copy *copy, char *message, size_t message_bytes)
{
    struct slot *slot = &slots[copy->device];
    enum engine_result result;

    pthread_rwlock_rdlock(&slot->gate);
    /* Another thread may close the device between the two locks. */
    while (!slot->device || !slot->prepared) {
        pthread_rwlock_unlock(&slot->gate);
        result = make_ready(copy, message, message_bytes);
        if (result != ENGINE_DONE)
            return result;
        pthread_rwlock_rdlock(&slot->gate);
    }
    result = copy_on(slot, copy, message, message_bytes);
    pthread_rwlock_unlock(&slot->gate);
    return result;
}

struct leat_device *engine_enter(int number, void *context)
{
    struct slot *slot;
    char message[200];

    if (number < 0 || number >= ENGINE_DEVICES_MOST)
        return NULL;
    slot = &slots[number];
    pthread_rwlock_rdlock(&slot->gate);
    if (!slot->device && !slot->refused) {
        pthread_rwlock_unlock(&slot->gate);
        pthread_rwlock_wrlock(&slot->gate);
        slot->refused = open_device(number, message, sizeof message) != ENGINE_DONE;
        pthread_rwlock_unlock(&slot->gate);
        pthread_rwlock_rdlock(&slot->gate);
    }
    if (slot->device && slot->context == context)
        return slot->device;
    pthread_rwlock_unlock(&slot->gate);
    return NULL;
}

void engine_leave(int number)
{
    pthread_rwlock_unlock(&slots[number].gate);
}

static void close_slot(int device)
{
    struct slot *slot = &slots[device];

    pthread_rwlock_wrlock(&slot->gate);
    engine_pool_close(device);
    if (slot->device) {
        engine_trace_closes(device);
        (void)leat_device_close(slot->device);
    }
    slot->device = NULL;
    pthread_rwlock_unlock(&slot->gate);
}

/* Pages are on the node of the calling thread, as those of the driver's calls. */
static void *map_pages(size_t bytes, char *message, size_t message_bytes)
{
    unsigned processor, node = 0;
    void *memory = NULL;
    bool hopeless;

    if (leati_fresh_claim(bytes) != LEAT_OK ||
        leati_fresh_map(bytes, getcpu(&processor, &node) == 0 ? (int)node : -1, &memory, &hopeless) != LEAT_OK) {
        (void)fail(ENGINE_FAILED, message, message_bytes);
        return NULL;
    }
    return memory;
}

__attribute__((visibility("default"))) extern const struct engine leat_run_engine;
const struct engine leat_run_engine = {.version = ENGINE_VERSION,
                                       .copy = copy,
                                       .close = close_slot,
                                       .map = map_pages,
                                       .unmap = leati_fresh_unmap,
                                       .pool_alloc = engine_pool_alloc,
                                       .pool_free = engine_pool_free,
                                       .pool_free_now = engine_pool_free_now,
                                       .pool_knows = engine_pool_knows,
                                       .pool_leave_stream = engine_pool_leave_stream,
                                       .pool_find = engine_pool_find,
                                       .pool_trim = engine_pool_trim,
                                       .pool_figures = engine_pool_figures,
                                       .trace = engine_trace,
                                       .call_begin = engine_call_begin,
                                       .call_end = engine_call_end,
                                       .range_push = leat_trace_range_push,
                                       .range_pop = leat_trace_range_pop,
                                       .mark = leat_trace_mark};
