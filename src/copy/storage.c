/*
 * storage.c - implements the calls of leat/storage.h: copies from and to a program's own storage.
 *
 * The program's functions become a storage in order (staging/job.h) of a transfer, as a file is one.
 */
#include "copy/copy.h"

#include "base/sized.h"
#include "core/core.h"

#include <leat/storage.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* The storage of one copy. */
struct program_storage {
    leat_storage_ops ops;
    void *object;
    atomic_uint holders; /* reference count: one for the call, one for each reference of the job */
    atomic_bool stopped; /* ops.stop() was called. Relaxed: it only makes that happen once */
    bool given;          /* the call has succeeded, so ops.release() is to be called. Set by the call while it is a
                            holder, so that the last holder sees it */
};

static void hold(void *object)
{
    atomic_fetch_add_explicit(&((struct program_storage *)object)->holders, 1, memory_order_relaxed);
}

static void release(void *object)
{
    struct program_storage *storage = object;

    /* Release and acquire: the last holder frees the storage after all uses by the others. */
    if (atomic_fetch_sub_explicit(&storage->holders, 1, memory_order_acq_rel) != 1)
        return;
    if (storage->given && storage->ops.release)
        storage->ops.release(storage->object);
    free(storage);
}

/* Returns what struct leati_storage_ops calls an error, for a status with which the program's move() stopped. */
static int error_of(leat_status status)
{
    switch (status) {
    case LEAT_NOT_READY:
        return LEATI_STORAGE_NOT_YET;
    case LEAT_ERROR_POINTER:
        return EFAULT;
    case LEAT_ERROR_DRIVER:
    case LEAT_ERROR_DEVICE_LOST:
        return LEAT_ERROR_SYSTEM; /* the job keeps these two for the device itself */
    default:
        return status < LEAT_OK ? (int)status : LEAT_ERROR_INVALID;
    }
}

static size_t move(void *object, uint64_t offset, void *memory, size_t bytes, bool write, int *error)
{
    struct program_storage *storage = object;
    leat_status status = LEAT_OK;
    size_t moved = storage->ops.move(storage->object, offset, memory, bytes, &status);

    (void)write;
    if (moved > bytes) {
        moved = 0;
        status = LEAT_ERROR_INVALID;
    }
    if (moved < bytes)
        *error = error_of(status);
    return moved;
}

static void spoil(void *object)
{
    struct program_storage *storage = object;

    if (storage->ops.stop && !atomic_exchange_explicit(&storage->stopped, true, memory_order_relaxed))
        storage->ops.stop(storage->object);
}

static bool ready(const void *object)
{
    const struct program_storage *storage = object;

    return !storage->ops.ready || storage->ops.ready(storage->object);
}

static void describe(const void *object, uint64_t offset, bool write, int error, char *text, size_t text_bytes)
{
    const struct program_storage *storage = object;
    leat_status status = error == EFAULT ? LEAT_ERROR_POINTER : (leat_status)error;

    (void)write;
    text[0] = '\0';
    if (storage->ops.describe)
        storage->ops.describe(storage->object, offset, status, text, text_bytes);
    if (!text[0])
        snprintf(text, text_bytes, "%s at offset %llu", leat_status_text(status), (unsigned long long)offset);
}

static const struct leati_storage_ops storage_ops = {
    .move = move, .ready = ready, .spoil = spoil, .describe = describe, .hold = hold, .release = release};

/* The arguments of a call. */
struct storage_request {
    const leat_storage_ops *ops;
    void *object;
    void *memory;
    size_t bytes;
    bool write;
};

static leat_status submit(leat_stream *stream, const struct storage_request *request, struct program_storage *storage,
                          const leat_copy_options *options, leat_ticket **ticket)
{
    struct leati_storage described = {
        .ops = &storage_ops,
        .object = storage,
        .write = request->write,
        .in_order = true,
        .here_bytes = storage->ops.ready ? storage->ops.here_bytes : 0};
    struct leati_plan plan;

    /* The stream may soon wait for another process, and that one for a kernel of another stream here. */
    leati_kernels_load_early(stream->device);
    if (request->bytes)
        LEATI_TRY(leati_plan_file(&plan, stream, request->memory, &described, request->bytes, true));
    return leati_ticket_start(stream->device, &plan, request->bytes ? 1 : 0, options, ticket);
}

static leat_status start(const char *what, leat_stream *stream, const struct storage_request *request,
                         const leat_copy_options *options, leat_ticket **ticket)
{
    leat_ticket *made;
    struct program_storage *storage;
    leat_status status;

    LEATI_TRY(leati_ticket_check(what, stream, options, &made));
    LEATI_TRY(LEATI_SIZED_CHECK(what, "ops", leat_storage_ops, request->ops));
    storage = calloc(1, sizeof *storage);
    if (!storage)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "%s: no memory for the storage", what);
    LEATI_SIZED_READ(&storage->ops, request->ops);
    storage->object = request->object;
    atomic_init(&storage->holders, 1);
    status = storage->ops.move ? submit(stream, request, storage, options, &made)
                               : leati_fail(LEAT_ERROR_INVALID, "ops->move is NULL");
    storage->given = status == LEAT_OK;
    release(storage);
    if (status != LEAT_OK)
        return leati_fail_in(status, "%s of %zu bytes on %s", what, request->bytes, stream->device->name);
    if (ticket)
        *ticket = made;
    else
        (void)leat_ticket_destroy(made);
    return LEAT_OK;
}

leat_status leat_storage_read_start(leat_stream *stream, void *dst, const leat_storage_ops *ops, void *object,
                                    size_t bytes, const leat_copy_options *options, leat_ticket **ticket)
{
    LEATI_SPAN(LEATI_TRACE_FILE_READ, "leat_storage_read_start");
    return start("leat_storage_read_start", stream, &(struct storage_request){ops, object, dst, bytes, false}, options,
                 ticket);
}

leat_status leat_storage_write_start(leat_stream *stream, const leat_storage_ops *ops, void *object,
                                     const void *src, size_t bytes, const leat_copy_options *options,
                                     leat_ticket **ticket)
{
    LEATI_SPAN(LEATI_TRACE_FILE_WRITE, "leat_storage_write_start");
    return start("leat_storage_write_start", stream, &(struct storage_request){ops, object, (void *)src, bytes, true},
                 options, ticket);
}

void leat_storage_wake(void)
{
    leati_workers_nudge();
}

void leat_storage_work(void)
{
    leati_workers_nudge_and_help();
}
