/*
 * operation.c - one read or write: its checks, its device, cuFileRead() and cuFileWrite().
 */
#include "cufile/inside.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>

/* ---- arguments ---- */

/* Returns 0, or the negative result of cuFileRead() for a place in memory. */
static ssize_t check_place(const void *base, size_t bytes, off_t buffer_offset)
{
    size_t offset = (size_t)buffer_offset, registered;

    if (!base || buffer_offset < 0 || bytes > SSIZE_MAX || offset > UINTPTR_MAX - (uintptr_t)base ||
        bytes > UINTPTR_MAX - (uintptr_t)base - offset)
        return -CU_FILE_INVALID_VALUE;
    if (leatcf_buffer_find(base, &registered) && (offset > registered || bytes > registered - offset))
        return -CU_FILE_INVALID_MAPPING_RANGE;
    return 0;
}

ssize_t leatcf_operation_make(CUfileHandle_t handle, const void *base, size_t bytes, off_t file_offset,
                              off_t buffer_offset, bool write, struct leatcf_operation *operation)
{
    ssize_t failed = check_place(base, bytes, buffer_offset);
    struct leatcf_file *file;

    if (failed)
        return failed;
    if (file_offset < 0 || bytes > (size_t)(INT64_MAX - file_offset))
        return -CU_FILE_INVALID_VALUE;
    file = leatcf_file_hold(handle);
    if (!file)
        return -CU_FILE_HANDLE_NOT_REGISTERED;
    if (write ? !file->writable : !file->readable) {
        leatcf_file_release(file);
        errno = EBADF;
        return -1;
    }
    leatcf_operation_begins();
    *operation = (struct leatcf_operation){file, (char *)(uintptr_t)base + buffer_offset, (uint64_t)file_offset,
                                           bytes, write};
    return 0;
}

void leatcf_operation_end(struct leatcf_operation *operation)
{
    leatcf_file_release(operation->file);
    leatcf_operation_ends();
}

leat_status leatcf_operation_clip(struct leatcf_operation *operation, bool *cut)
{
    uint64_t size;
    leat_status status;

    *cut = false;
    if (operation->write)
        return LEAT_OK;
    status = leat_file_size(operation->file->file, &size);
    if (status != LEAT_OK)
        return status;
    size = size > operation->offset ? size - operation->offset : 0;
    *cut = operation->bytes > size;
    if (*cut)
        operation->bytes = (size_t)size;
    return LEAT_OK;
}

leat_status leatcf_operation_start(const struct leatcf_operation *operation, leat_stream *stream,
                                   leat_ticket **ticket)
{
    const struct leatcf_operation *o = operation;

    if (o->write)
        return leat_file_write_start(stream, o->file->file, o->offset, o->memory, o->bytes, NULL, ticket);
    return leat_file_read_start(stream, o->memory, o->file->file, o->offset, o->bytes, NULL, ticket);
}

/* ---- devices ---- */

int leatcf_device_of(const void *memory, int *ordinal)
{
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    struct leatc_memory known;
    leat_status status;
    int current, count;

    LEATC_TRY(leatc_memory_find(memory, &known));
    LEATC_TRY(leatc_device_get(&current));
    *ordinal = known.kind != LEATC_MEMORY_PAGEABLE && known.ordinal >= 0 ? known.ordinal : current;
    LEATC_TRY(leatc_device_open(*ordinal, NULL));
    if (known.kind != LEATC_MEMORY_PAGEABLE)
        return LEATC_OK;
    /* Memory that the engine does not know: leat's own, or that of other code. leat finds the latter only on open
     * devices. */
    LEATC_TRY(leatc_device_count(&count));
    for (int i = 0;; i++) {
        status = leat_pointer_get_info(memory, &info);
        if (status != LEAT_OK)
            return leatc_result_of(status);
        if (info.kind == LEAT_KIND_PAGEABLE || info.device || i == count)
            break;
        LEATC_TRY(leatc_device_open(i, NULL));
    }
    if (info.device && leatc_device_ordinal(info.device) >= 0)
        *ordinal = leatc_device_ordinal(info.device);
    return LEATC_OK;
}

/* ---- streams of the library's own ---- */

#define IDLE_MOST 64

/* Any threads may read and write at the same time. Each call takes a stream that no other call uses, so that calls
 * do not wait for one another. */
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static struct leatcf_stream idle[IDLE_MOST]; /* guarded by idle_lock */
static unsigned idle_count;                  /* guarded by idle_lock */

bool leatcf_stream_is_alive(const struct leatcf_stream *stream)
{
    unsigned long long id;

    return leatc_stream_id(stream->stream, &id) == LEATC_OK && id == stream->id;
}

bool leatcf_device_is_lost(int ordinal)
{
    if (!leatc_device_is_open(ordinal))
        return false;
    /* One failure may have another cause, so ask twice. In a host function the driver may refuse to answer. */
    for (int asked = 0; asked < 2; asked++) {
        int result = leatc_device_memory(ordinal, NULL, NULL);

        if (result == LEATC_OK || result == LEATC_NOT_PERMITTED)
            return false;
    }
    return true;
}

static bool take_idle(int ordinal, struct leatcf_stream *stream)
{
    bool found = false;

    pthread_mutex_lock(&idle_lock);
    for (unsigned i = idle_count; i-- && !found;)
        if (idle[i].ordinal == ordinal) {
            *stream = idle[i];
            idle[i] = idle[--idle_count];
            found = leatcf_stream_is_alive(stream);
        }
    pthread_mutex_unlock(&idle_lock);
    return found;
}

static int make_stream(int ordinal, struct leatcf_stream *stream)
{
    int current, result;

    LEATC_TRY(leatc_device_get(&current));
    if (current != ordinal)
        LEATC_TRY(leatc_device_set(ordinal));
    result = leatc_stream_create(LEATC_STREAM_NON_BLOCKING, 0, &stream->stream);
    if (current != ordinal)
        (void)leatc_device_set(current);
    if (result != LEATC_OK)
        return result;
    stream->ordinal = ordinal;
    return leatc_stream_id(stream->stream, &stream->id);
}

int leatcf_stream_take(int ordinal, struct leatcf_stream *stream)
{
    return take_idle(ordinal, stream) ? LEATC_OK : make_stream(ordinal, stream);
}

void leatcf_stream_give(const struct leatcf_stream *stream, bool failed)
{
    bool kept = false;

    if (!failed) {
        pthread_mutex_lock(&idle_lock);
        kept = idle_count < IDLE_MOST;
        if (kept)
            idle[idle_count++] = *stream;
        pthread_mutex_unlock(&idle_lock);
    }
    if (!kept && leatcf_stream_is_alive(stream))
        (void)leatc_stream_destroy(stream->stream);
}

leat_status leatcf_stream_start(const struct leatcf_stream *stream, const struct leatcf_operation *operation,
                                leat_ticket **ticket, int *result)
{
    struct leatc_work work;
    leat_status status;

    *result = leatc_work_begin(stream->stream, &work);
    if (*result != LEATC_OK)
        return LEAT_ERROR_HANDLE;
    status = leatcf_operation_start(operation, work.stream, ticket);
    (void)leatc_work_end(&work, status);
    return status;
}

leat_status leatcf_stream_start_list(const struct leatcf_stream *stream, const leat_file_op *ops, size_t count,
                                     bool write, leat_ticket **ticket, int *result)
{
    struct leatc_work work;
    leat_status status;

    *result = leatc_work_begin(stream->stream, &work);
    if (*result != LEATC_OK)
        return LEAT_ERROR_HANDLE;
    status = write ? leat_file_write_batch_start(work.stream, ops, count, NULL, ticket)
                   : leat_file_read_batch_start(work.stream, ops, count, NULL, ticket);
    (void)leatc_work_end(&work, status);
    return status;
}

/* ---- the calls that wait ---- */

static ssize_t run_once(const struct leatcf_operation *operation, int ordinal, leat_status *status)
{
    struct leatcf_stream stream;
    leat_ticket *ticket;
    int result = leatcf_stream_take(ordinal, &stream);

    if (result != LEATC_OK)
        return -(ssize_t)leatcf_error_of(result).err;
    *status = leatcf_stream_start(&stream, operation, &ticket, &result);
    if (*status == LEAT_OK) {
        *status = leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER);
        (void)leat_ticket_destroy(ticket);
    }
    /* Inside a host function nothing was submitted, and the stream could not be destroyed. */
    leatcf_stream_give(&stream, *status != LEAT_OK && *status != LEAT_ERROR_NOT_PERMITTED);
    if (result != LEATC_OK)
        return -(ssize_t)leatcf_error_of(result).err;
    return *status == LEAT_OK ? (ssize_t)operation->bytes : leatcf_bytes_of_status(*status);
}

static ssize_t run(struct leatcf_operation *operation)
{
    leat_status status;
    ssize_t moved;
    bool cut;
    int ordinal, result;

    status = leatcf_operation_clip(operation, &cut);
    if (status != LEAT_OK)
        return leatcf_bytes_of_status(status);
    if (!operation->bytes)
        return 0;
    result = leatcf_device_of(operation->memory, &ordinal);
    if (result != LEATC_OK)
        return result == LEATC_INVALID_VALUE ? -CU_FILE_CUDA_POINTER_INVALID
                                             : -(ssize_t)leatcf_error_of(result).err;
    do {
        status = LEAT_OK;
        moved = run_once(operation, ordinal, &status);
        /* If the file became shorter meanwhile, the read ends at the new end. */
        cut = false;
        if (status == LEAT_ERROR_FILE || status == LEAT_ERROR_RANGE)
            status = leatcf_operation_clip(operation, &cut);
    } while (cut && operation->bytes);
    return cut ? 0 : moved;
}

static ssize_t call(CUfileHandle_t handle, const void *base, size_t bytes, off_t file_offset, off_t buffer_offset,
                    bool write)
{
    struct leatcf_operation operation;
    ssize_t moved = leatcf_operation_make(handle, base, bytes, file_offset, buffer_offset, write, &operation);

    if (moved)
        return moved;
    moved = run(&operation);
    leatcf_operation_end(&operation);
    return moved;
}

ssize_t cuFileRead(CUfileHandle_t fh, void *bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset)
{
    return call(fh, bufPtr_base, size, file_offset, bufPtr_offset, false);
}

ssize_t cuFileWrite(CUfileHandle_t fh, const void *bufPtr_base, size_t size, off_t file_offset,
                    off_t bufPtr_offset)
{
    return call(fh, bufPtr_base, size, file_offset, bufPtr_offset, true);
}
