/*
 * async.c - operations in the order of a CUDA stream.
 *
 * A stream is one of the engine's, or the vendor's own if other code in the process uses the vendor's library;
 * leat wraps the latter for the call. The operation is followed by a host function in the same stream, which
 * stores the number of bytes.
 */
#include "cufile/inside.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct async {
    struct leatcf_operation operation;
    leat_ticket *ticket;
    ssize_t *bytes; /* the program's */
    int ordinal;    /* the device of the stream */
    uint64_t generation;
    bool given_up; /* guarded by list_lock: leatcf_asyncs_give_up() has ended it */
    struct async *next, *previous;
};

/* The operations under way. A read behind a write may begin beyond the present end of the file. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct async *list; /* guarded by list_lock */

static void enlist(struct async *async)
{
    pthread_mutex_lock(&list_lock);
    async->next = list;
    if (list)
        list->previous = async;
    list = async;
    pthread_mutex_unlock(&list_lock);
}

/* The caller holds list_lock. */
static void unlist(struct async *async)
{
    if (async->previous)
        async->previous->next = async->next;
    else
        list = async->next;
    if (async->next)
        async->next->previous = async->previous;
}

/* Returns true if a write to this file is under way, by whatever handle. */
static bool is_being_written(const struct leatcf_file *file)
{
    bool found = false;

    pthread_mutex_lock(&list_lock);
    for (const struct async *async = list; async && !found; async = async->next)
        found = async->operation.write && async->operation.file->device == file->device &&
                async->operation.file->inode == file->inode;
    pthread_mutex_unlock(&list_lock);
    return found;
}

/* ---- streams ---- */

struct target {
    struct leatc_stream *engine; /* if wrapped is NULL */
    leat_stream *wrapped;
    int ordinal; /* the device of wrapped */
};

static bool is_default(CUstream stream)
{
    return (uintptr_t)stream <= (uintptr_t)LEATC_STREAM_PER_THREAD;
}

static bool has_vendor_streams(int ordinal)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    return leatc_device_describe(ordinal, &info) == LEATC_OK && strcmp(info.driver, "cpu") != 0;
}

/* Finds the stream. memory: that of the operation, which tells whose default stream is meant. */
static int find_stream(CUstream stream, const void *memory, int ordinal, struct target *target)
{
    struct leatc_stream *engine = (struct leatc_stream *)stream;
    struct leatc_memory known;
    leat_device *device;

    *target = (struct target){.engine = engine, .ordinal = ordinal};
    if (is_default(stream)) {
        LEATC_TRY(leatc_memory_find(memory, &known));
        if (known.kind != LEATC_MEMORY_PAGEABLE || leatc_has_noted() || !has_vendor_streams(ordinal))
            return LEATC_OK;
    } else if (leatc_stream_check(engine) == LEATC_OK) {
        return LEATC_OK;
    } else if (!has_vendor_streams(ordinal)) {
        return LEATC_INVALID_HANDLE;
    }
    LEATC_TRY(leatc_device_open(ordinal, &device));
    return leatc_result_of(leat_stream_wrap(device, stream, &target->wrapped));
}

static leat_status wait_for_event(leat_device *device, leat_stream *stream)
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

/* Waits for the work of the stream. Synchronizing the stream would also return the failure of an earlier copy,
 * which the program's own next synchronization must return. */
static int wait_for_work(const struct target *target)
{
    struct leatc_work work = {.stream = target->wrapped, .ordinal = target->ordinal};
    leat_device *device;

    if (!target->wrapped)
        LEATC_TRY(leatc_work_begin(target->engine, &work));
    LEATC_TRY(leatc_device_open(work.ordinal, &device));
    return leatc_result_of(wait_for_event(device, work.stream));
}

static void end_target(const struct target *target)
{
    if (target->wrapped)
        (void)leat_stream_destroy(target->wrapped);
}

/* ---- operations ---- */

static void end(struct async *async)
{
    (void)leat_ticket_destroy(async->ticket);
    leatcf_operation_end(&async->operation);
}

/* The host function behind an operation. Also called if the operation could not be submitted as a whole. */
static void finish(void *argument)
{
    struct async *async = argument;
    leat_ticket_info info = LEAT_TICKET_INFO_INIT;
    leat_status status;
    bool given_up;

    pthread_mutex_lock(&list_lock);
    given_up = async->given_up;
    if (!given_up)
        unlist(async);
    pthread_mutex_unlock(&list_lock);
    if (!given_up) {
        status = leat_ticket_get_info(async->ticket, &info);
        if (status == LEAT_OK)
            status = info.status;
        *async->bytes = status == LEAT_OK ? (ssize_t)async->operation.bytes : leatcf_bytes_of_status(status);
        end(async);
    }
    free(async);
}

void leatcf_asyncs_give_up(void)
{
    bool lost[LEATC_DEVICES_MAX];
    struct async *next;

    /* Ask before taking list_lock: the reset of a device waits for host functions, and finish() takes that lock. */
    for (int i = 0; i < LEATC_DEVICES_MAX; i++)
        lost[i] = !leatc_device_is_open(i) || leatcf_device_is_lost(i);
    pthread_mutex_lock(&list_lock);
    for (struct async *async = list; async; async = next) {
        next = async->next;
        if (!lost[async->ordinal] && leatc_device_generation(async->ordinal) == async->generation)
            continue;
        /* async itself stays: the driver may still call finish(). */
        unlist(async);
        async->given_up = true;
        end(async);
    }
    pthread_mutex_unlock(&list_lock);
}

static CUfileError_t start(const struct target *target, struct async *async)
{
    struct leatc_work work;
    leat_status status;

    if (target->wrapped) {
        async->ordinal = target->ordinal;
        status = leatcf_operation_start(&async->operation, target->wrapped, &async->ticket);
    } else {
        int result = leatc_work_begin(target->engine, &work);

        if (result != LEATC_OK)
            return leatcf_error_of(result);
        async->ordinal = work.ordinal;
        status = leatcf_operation_start(&async->operation, work.stream, &async->ticket);
        (void)leatc_work_end(&work, status);
    }
    async->generation = leatc_device_generation(async->ordinal);
    return status == LEAT_OK ? leatcf_error(CU_FILE_SUCCESS) : leatcf_error_of_status(status);
}

/* Puts finish() into the stream. From then on async is its own. */
static CUfileError_t follow(const struct target *target, struct async *async)
{
    int result = target->wrapped ? leatc_result_of(leat_launch_host(target->wrapped, finish, async))
                                 : leatc_stream_host_function(target->engine, finish, async);

    if (result == LEATC_OK)
        return leatcf_error(CU_FILE_SUCCESS);
    (void)leat_ticket_wait(async->ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER);
    finish(async);
    return leatcf_error_of(result);
}

/* Cuts a read at the end of the file, which earlier writes of the stream may still move. */
static CUfileError_t clip(const struct target *target, struct leatcf_operation *operation)
{
    struct leatcf_operation whole = *operation;
    bool writing = !operation->write && is_being_written(operation->file), cut;
    leat_status status = leatcf_operation_clip(operation, &cut);

    if (status == LEAT_OK && cut && writing) {
        int result = wait_for_work(target);

        if (result != LEATC_OK)
            return leatcf_error_of(result);
        *operation = whole;
        status = leatcf_operation_clip(operation, &cut);
    }
    return status == LEAT_OK ? leatcf_error(CU_FILE_SUCCESS) : leatcf_error_of_status(status);
}

static CUfileError_t submit(const struct target *target, const struct leatcf_operation *operation, ssize_t *bytes)
{
    struct async *async = calloc(1, sizeof *async);
    CUfileError_t error;

    if (!async)
        return leatcf_error(CU_FILE_NOMEM_ERROR);
    async->operation = *operation;
    async->bytes = bytes;
    error = clip(target, &async->operation);
    if (error.err == CU_FILE_SUCCESS)
        error = start(target, async);
    if (error.err != CU_FILE_SUCCESS) {
        free(async);
        return error;
    }
    leatcf_operation_begins();
    atomic_fetch_add_explicit(&operation->file->holders, 1, memory_order_relaxed);
    enlist(async);
    return follow(target, async);
}

static CUfileError_t submit_to(CUstream stream, const struct leatcf_operation *operation, ssize_t *bytes)
{
    struct target target;
    CUfileError_t error;
    int ordinal, result = leatcf_device_of(operation->memory, &ordinal);

    if (result == LEATC_INVALID_VALUE)
        return leatcf_error(CU_FILE_CUDA_POINTER_INVALID);
    if (result == LEATC_OK)
        result = find_stream(stream, operation->memory, ordinal, &target);
    if (result != LEATC_OK)
        return leatcf_error_of(result);
    error = submit(&target, operation, bytes);
    /* The failure of the operation is in *bytes. */
    if (error.err == CU_FILE_SUCCESS && !stream)
        error = leatcf_error_of(wait_for_work(&target));
    end_target(&target);
    return error;
}

static CUfileError_t call(CUfileHandle_t handle, void *base, const size_t *size, const off_t *file_offset,
                          const off_t *buffer_offset, ssize_t *bytes, CUstream stream, bool write)
{
    struct leatcf_operation operation;
    CUfileError_t error;
    ssize_t failed;

    if (!size || !file_offset || !buffer_offset || !bytes)
        return leatcf_error(CU_FILE_INVALID_VALUE);
    failed = leatcf_operation_make(handle, base, *size, *file_offset, *buffer_offset, write, &operation);
    if (failed)
        return leatcf_error(failed == -1 ? CU_FILE_INVALID_FILE_OPEN_FLAG : (CUfileOpError)-failed);
    error = submit_to(stream, &operation, bytes);
    leatcf_operation_end(&operation);
    return error;
}

CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void *bufPtr_base, size_t *size_p, off_t *file_offset_p,
                              off_t *bufPtr_offset_p, ssize_t *bytes_read_p, CUstream stream)
{
    return call(fh, bufPtr_base, size_p, file_offset_p, bufPtr_offset_p, bytes_read_p, stream, false);
}

CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void *bufPtr_base, size_t *size_p, off_t *file_offset_p,
                               off_t *bufPtr_offset_p, ssize_t *bytes_written_p, CUstream stream)
{
    return call(fh, bufPtr_base, size_p, file_offset_p, bufPtr_offset_p, bytes_written_p, stream, true);
}

/* ---- registered streams: nothing depends on it ---- */

static CUfileError_t check_stream(CUstream stream)
{
    int current, result = leatc_device_get(&current);

    if (result == LEATC_OK && leatc_stream_check((struct leatc_stream *)stream) != LEATC_OK &&
        !has_vendor_streams(current))
        result = LEATC_INVALID_HANDLE;
    return leatcf_error_of(result);
}

CUfileError_t cuFileStreamRegister(CUstream stream, unsigned flags)
{
    if (flags & ~(unsigned)(CU_FILE_STREAM_FIXED_BUF_OFFSET | CU_FILE_STREAM_FIXED_FILE_OFFSET |
                            CU_FILE_STREAM_FIXED_FILE_SIZE | CU_FILE_STREAM_PAGE_ALIGNED_INPUTS))
        return leatcf_error(CU_FILE_INVALID_VALUE);
    return check_stream(stream);
}

CUfileError_t cuFileStreamDeregister(CUstream stream)
{
    return check_stream(stream);
}
