/*
 * batch.c - batches of operations.
 *
 * The operations of a submission run on streams of this library's own, one for each device. Consecutive operations
 * of one device and direction form groups of up to GROUP_BYTES. A group is one leat_file_read_batch_start() or
 * leat_file_write_batch_start() with one ticket, so small operations that are adjacent in a file become few reads.
 * The operations of a group are complete together. If a group cannot be started, or fails, its operations are
 * started one by one, so that each of them has a result of its own. An operation that is complete stays in its
 * batch until cuFileBatchIOGetStatus() has returned it.
 */
#include "cufile/inside.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define POLL_NS 1000000 /* the longest wait for one operation, after which the others are checked too */
#define ASK_NS 10000000 /* how often cuFileBatchIOGetStatus() asks whether a device is lost */

/* The most bytes of the operations of one group. Longer groups would complete their first operations later. */
#define GROUP_BYTES ((size_t)4 << 20)
#define GROUP_MOST 1024 /* operations of a group */

/* Operations that were started together. */
struct group {
    leat_ticket *ticket;
    unsigned entries; /* the entries that are not over */
    int ordinal;      /* the device of its stream */
    bool alone;       /* one operation: its failure is that of the operation */
    bool lost;        /* the device is lost, so that its ticket may never be done */
};

struct entry {
    struct leatcf_operation operation;
    void *cookie;
    struct group *group; /* NULL: it is over, with the result in moved */
    ssize_t moved;
    bool cancelled; /* cuFileBatchIOCancel() was called after the operation was started */
};

struct batch {
    struct batch *next;   /* in the list of batches */
    unsigned users;       /* guarded by batches_lock: calls that use the batch */
    bool ended;           /* guarded by batches_lock: it is no longer in the list */
    unsigned most;        /* operations */
    pthread_mutex_t lock; /* guards what follows */
    bool collecting;      /* cuFileBatchIOGetStatus() runs, the only call that removes entries */
    pthread_cond_t collected;
    uint64_t asked_ns; /* when it asked last whether a device is lost */
    struct leatcf_stream streams[LEATC_DEVICES_MAX];
    bool has_stream[LEATC_DEVICES_MAX], failed;
    unsigned count;
    struct entry entries[];
};

/* Protects the list against calls of other threads. cuFileBatchIODestroy() waits on batch_unused until no other
 * call uses the batch. */
static pthread_mutex_t batches_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t batch_unused = PTHREAD_COND_INITIALIZER;
static struct batch *batches; /* guarded by batches_lock */

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- the list of batches ---- */

/* Returns the batch of a handle, which the caller leaves; NULL: there is none. */
static struct batch *enter(CUfileBatchHandle_t handle)
{
    struct batch *batch;

    pthread_mutex_lock(&batches_lock);
    for (batch = batches; batch && batch != handle; batch = batch->next)
        continue;
    if (batch)
        batch->users++;
    pthread_mutex_unlock(&batches_lock);
    return batch;
}

static void leave(struct batch *batch)
{
    pthread_mutex_lock(&batches_lock);
    if (!--batch->users && batch->ended)
        pthread_cond_broadcast(&batch_unused);
    pthread_mutex_unlock(&batches_lock);
}

/* Takes the batch out of the list, and waits until no call uses it. */
static struct batch *take_out(CUfileBatchHandle_t handle)
{
    struct batch **place, *batch;

    pthread_mutex_lock(&batches_lock);
    for (place = &batches; *place && *place != handle; place = &(*place)->next)
        continue;
    batch = *place;
    if (batch) {
        *place = batch->next;
        batch->ended = true;
        while (batch->users)
            pthread_cond_wait(&batch_unused, &batches_lock);
    }
    pthread_mutex_unlock(&batches_lock);
    return batch;
}

CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t *batch_idp, unsigned nr)
{
    struct batch *batch;
    pthread_condattr_t clock;

    if (!batch_idp || !nr || nr > LEATCF_BATCH_MOST)
        return leatcf_error(CU_FILE_INVALID_VALUE);
    leatcf_driver_use();
    batch = calloc(1, sizeof *batch + nr * sizeof batch->entries[0]);
    if (!batch)
        return leatcf_error(CU_FILE_NOMEM_ERROR);
    batch->most = nr;
    batch->asked_ns = now_ns();
    pthread_mutex_init(&batch->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&batch->collected, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_lock(&batches_lock);
    batch->next = batches;
    batches = batch;
    pthread_mutex_unlock(&batches_lock);
    *batch_idp = batch;
    return leatcf_error(CU_FILE_SUCCESS);
}

/* ---- submitting ---- */

/* The caller holds the batch's lock. */
static int find_stream(struct batch *batch, const void *memory, struct leatcf_stream **stream)
{
    int ordinal;

    LEATC_TRY(leatcf_device_of(memory, &ordinal));
    *stream = &batch->streams[ordinal];
    if (!batch->has_stream[ordinal] || !leatcf_stream_is_alive(*stream))
        LEATC_TRY(leatcf_stream_take(ordinal, *stream));
    batch->has_stream[ordinal] = true;
    return LEATC_OK;
}

/* Removes an entry from its group, which it may free. */
static void leave_group(struct entry *entry)
{
    struct group *group = entry->group;

    entry->group = NULL;
    if (!group || --group->entries)
        return;
    (void)leat_ticket_destroy(group->ticket);
    free(group);
}

/* Starts consecutive entries as one group. Returns false if that is not possible, such as for two reads into the
 * same memory; then nothing was started. The caller holds the batch's lock. */
static bool start_group(const struct leatcf_stream *stream, struct entry *entries, unsigned count)
{
    leat_file_op *ops = malloc(count * sizeof *ops);
    struct group *group = malloc(sizeof *group);
    leat_status status = LEAT_ERROR_HOST_MEMORY;
    int result = LEATC_OK;

    for (unsigned i = 0; ops && i < count; i++) {
        const struct leatcf_operation *o = &entries[i].operation;

        ops[i] = (leat_file_op){o->file->file, o->offset, o->memory, o->bytes};
    }
    if (ops && group) {
        *group = (struct group){.entries = count, .ordinal = stream->ordinal};
        status = leatcf_stream_start_list(stream, ops, count, entries[0].operation.write, &group->ticket, &result);
    }
    free(ops);
    if (status == LEAT_OK && result == LEATC_OK) {
        for (unsigned i = 0; i < count; i++)
            entries[i].group = group;
        return true;
    }
    free(group);
    return false;
}

/* Starts an operation alone, or stores why it has failed. The caller holds the batch's lock. */
static void start_alone(const struct leatcf_stream *stream, struct entry *entry)
{
    struct group *group = malloc(sizeof *group);
    leat_status status;
    int result;

    if (!group) {
        entry->moved = -CU_FILE_NOMEM_ERROR;
        return;
    }
    *group = (struct group){.entries = 1, .ordinal = stream->ordinal, .alone = true};
    status = leatcf_stream_start(stream, &entry->operation, &group->ticket, &result);
    if (status == LEAT_OK && result == LEATC_OK) {
        entry->group = group;
        return;
    }
    free(group);
    entry->moved = result != LEATC_OK ? -(ssize_t)leatcf_error_of(result).err : leatcf_bytes_of_status(status);
}

/* Cuts a read at the end of its file, and finds the stream for an entry. Returns false if the entry is over: it
 * has no bytes, or has failed. The caller holds the batch's lock. */
static bool prepare(struct batch *batch, struct entry *entry, struct leatcf_stream **stream)
{
    struct leatcf_operation *operation = &entry->operation;
    leat_status status;
    bool cut;
    int result;

    status = leatcf_operation_clip(operation, &cut);
    if (status != LEAT_OK || !operation->bytes) {
        entry->moved = status == LEAT_OK ? 0 : leatcf_bytes_of_status(status);
        return false;
    }
    result = find_stream(batch, operation->memory, stream);
    if (result == LEATC_OK)
        return true;
    entry->moved =
        result == LEATC_INVALID_VALUE ? -CU_FILE_CUDA_POINTER_INVALID : -(ssize_t)leatcf_error_of(result).err;
    return false;
}

/* Starts the entries of a group, alone if need be. The caller holds the batch's lock. */
static void start_entries(const struct leatcf_stream *stream, struct entry *entries, unsigned count)
{
    if (count > 1 && start_group(stream, entries, count))
        return;
    for (unsigned i = 0; i < count; i++)
        start_alone(stream, &entries[i]);
}

/* Starts entries in groups. The caller holds the batch's lock. */
static void start(struct batch *batch, struct entry *entries, unsigned count)
{
    struct leatcf_stream *of_group = NULL, *stream = NULL;
    unsigned first = 0;
    size_t bytes = 0;

    for (unsigned i = 0; i < count; i++) {
        bool going = prepare(batch, &entries[i], &stream);

        if (first < i && (!going || stream != of_group || i - first == GROUP_MOST ||
                          entries[i].operation.write != entries[first].operation.write ||
                          entries[i].operation.bytes > GROUP_BYTES - bytes)) {
            start_entries(of_group, &entries[first], i - first);
            first = i;
        }
        if (first == i)
            bytes = 0;
        if (!going) {
            first = i + 1;
            continue;
        }
        of_group = stream;
        bytes +=
            entries[i].operation.bytes < GROUP_BYTES - bytes ? entries[i].operation.bytes : GROUP_BYTES - bytes;
    }
    if (first < count)
        start_entries(of_group, &entries[first], count - first);
}

/* Makes the entries behind the batch's last one, without starting them. Returns how many it made; if that is fewer
 * than nr, *error says why. */
static unsigned make_entries(struct batch *batch, const CUfileIOParams_t *params, unsigned nr,
                             CUfileOpError *error)
{
    for (unsigned i = 0; i < nr; i++) {
        const CUfileIOParams_t *p = &params[i];
        struct entry *entry = &batch->entries[batch->count + i];
        ssize_t failed = -CU_FILE_INVALID_VALUE;

        *entry = (struct entry){.cookie = p->cookie};
        if (p->mode == CUFILE_BATCH && (p->opcode == CUFILE_READ || p->opcode == CUFILE_WRITE))
            failed = leatcf_operation_make(p->fh, p->u.batch.devPtr_base, p->u.batch.size, p->u.batch.file_offset,
                                           p->u.batch.devPtr_offset, p->opcode == CUFILE_WRITE, &entry->operation);
        if (failed) {
            *error = failed == -1 ? CU_FILE_INVALID_FILE_OPEN_FLAG : (CUfileOpError)-failed;
            return i;
        }
    }
    return nr;
}

/* The caller holds the batch's lock. */
static CUfileOpError submit(struct batch *batch, const CUfileIOParams_t *params, unsigned nr)
{
    CUfileOpError error = CU_FILE_SUCCESS;
    unsigned made;

    if (nr > batch->most - batch->count)
        return CU_FILE_BATCH_FULL;
    made = make_entries(batch, params, nr, &error);
    if (made < nr) {
        while (made--)
            leatcf_operation_end(&batch->entries[batch->count + made].operation);
        return error;
    }
    start(batch, &batch->entries[batch->count], nr);
    batch->count += nr;
    return CU_FILE_SUCCESS;
}

CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t batch_idp, unsigned nr, CUfileIOParams_t *iocbp,
                                  unsigned int flags)
{
    struct batch *batch;
    CUfileOpError error;

    if (!nr || !iocbp || flags)
        return leatcf_error(CU_FILE_INVALID_VALUE);
    batch = enter(batch_idp);
    if (!batch)
        return leatcf_error(CU_FILE_INVALID_VALUE);
    pthread_mutex_lock(&batch->lock);
    error = submit(batch, iocbp, nr);
    pthread_mutex_unlock(&batch->lock);
    leave(batch);
    return leatcf_error(error);
}

/* ---- the status ---- */

/* Starts an operation again, alone, because its group has failed. The caller holds the batch's lock. */
static void start_again(struct batch *batch, struct entry *entry)
{
    struct leatcf_stream *stream;

    leave_group(entry);
    entry->moved = 0;
    if (prepare(batch, entry, &stream))
        start_alone(stream, entry);
}

/* Checks without waiting whether an operation is over. Returns LEAT_OK, and *state; LEAT_NOT_READY; or
 * LEAT_ERROR_NOT_PERMITTED: inside a host function leat does not tell it. The caller collects, and holds the batch's
 * lock. */
static leat_status check_entry(struct batch *batch, struct entry *entry, CUfileStatus_t *state)
{
    leat_status status = LEAT_OK;

    if (entry->group) {
        status = leat_ticket_wait(entry->group->ticket, LEAT_COPY_POINT_DONE, 0);
        if (status == LEAT_NOT_READY && entry->group->lost)
            status = LEAT_ERROR_DEVICE_LOST;
        if (status == LEAT_NOT_READY || status == LEAT_ERROR_NOT_PERMITTED)
            return status;
        batch->failed |= status != LEAT_OK;
        if (status != LEAT_OK && entry->cancelled && !entry->group->alone) {
            status = LEAT_ERROR_CANCELLED;
        } else if (status != LEAT_OK && !entry->group->alone && !entry->group->lost) {
            start_again(batch, entry);
            if (entry->group)
                return LEAT_NOT_READY;
            status = LEAT_OK;
        }
        if (entry->group)
            entry->moved = status == LEAT_OK ? (ssize_t)entry->operation.bytes : leatcf_bytes_of_status(status);
    }
    *state = status == LEAT_ERROR_CANCELLED ? CUFILE_CANCELED : entry->moved < 0 ? CUFILE_FAILED : CUFILE_COMPLETE;
    return LEAT_OK;
}

/* Moves operations that are over to events, at most `most`, and adds their number to *found. Returns LEAT_OK, or
 * LEAT_ERROR_NOT_PERMITTED if leat did not tell of some whether they are over. The caller collects, and holds the
 * batch's lock. */
static leat_status collect(struct batch *batch, CUfileIOEvents_t *events, unsigned most, unsigned *found)
{
    leat_status result = LEAT_OK;
    unsigned moved = 0, kept = 0;

    for (unsigned i = 0; i < batch->count; i++) {
        struct entry *entry = &batch->entries[i];
        CUfileStatus_t state = CUFILE_COMPLETE;
        leat_status status = moved == most ? LEAT_NOT_READY : check_entry(batch, entry, &state);

        if (status != LEAT_OK) {
            if (status != LEAT_NOT_READY)
                result = status;
            batch->entries[kept++] = *entry;
            continue;
        }
        events[moved++] = (CUfileIOEvents_t){entry->cookie, state, (size_t)entry->moved};
        leave_group(entry);
        leatcf_operation_end(&entry->operation);
    }
    batch->count = kept;
    *found += moved;
    return result;
}

/* Returns when the wait ends; UINT64_MAX: never. */
static uint64_t deadline_of(const struct timespec *timeout)
{
    uint64_t now = now_ns();

    if (!timeout || (uint64_t)timeout->tv_sec >= (UINT64_MAX - now) / 1000000000 - 1)
        return UINT64_MAX;
    return now + (uint64_t)timeout->tv_sec * 1000000000 + (uint64_t)timeout->tv_nsec;
}

/* Marks and cancels the operations of lost devices, and returns true if there are any. leat_ticket_wait() says that a
 * device is lost only in longer waits. The caller collects, and holds the batch's lock. */
static bool look_for_losses(struct batch *batch, uint64_t now)
{
    bool asked[LEATC_DEVICES_MAX] = {false}, lost[LEATC_DEVICES_MAX] = {false}, found = false;

    if (now - batch->asked_ns < ASK_NS)
        return false;
    batch->asked_ns = now;
    for (unsigned i = 0; i < batch->count; i++) {
        struct group *group = batch->entries[i].group;

        if (!group)
            continue;
        if (!asked[group->ordinal])
            lost[group->ordinal] = leatcf_device_is_lost(group->ordinal);
        asked[group->ordinal] = true;
        group->lost = lost[group->ordinal];
        if (group->lost)
            (void)leat_ticket_cancel(group->ticket); /* so that leat's threads leave its memory alone */
        found |= group->lost;
    }
    return found;
}

/* Makes the calling thread the one that collects. Returns false if another one does until the deadline. */
static bool begin_collecting(struct batch *batch, uint64_t deadline)
{
    const struct timespec end = {(time_t)(deadline / 1000000000), (long)(deadline % 1000000000)};
    bool begun;

    pthread_mutex_lock(&batch->lock);
    while (batch->collecting && now_ns() < deadline)
        if (deadline == UINT64_MAX)
            pthread_cond_wait(&batch->collected, &batch->lock);
        else
            pthread_cond_timedwait(&batch->collected, &batch->lock, &end);
    begun = !batch->collecting;
    batch->collecting = true;
    pthread_mutex_unlock(&batch->lock);
    return begun;
}

static void end_collecting(struct batch *batch)
{
    pthread_mutex_lock(&batch->lock);
    batch->collecting = false;
    pthread_cond_signal(&batch->collected);
    pthread_mutex_unlock(&batch->lock);
}

/* Returns LEAT_OK, or LEAT_ERROR_NOT_PERMITTED inside a host function. The calling thread collects, so no other
 * one destroys a ticket. */
static leat_status wait_for(struct batch *batch, unsigned least, unsigned most, CUfileIOEvents_t *events,
                            uint64_t deadline, unsigned *count)
{
    unsigned found = 0;
    uint64_t now;

    for (;;) {
        leat_ticket *oldest = NULL;
        leat_status status;
        unsigned left;

        pthread_mutex_lock(&batch->lock);
        status = collect(batch, events + found, most - found, &found);
        if (status == LEAT_OK && found < most && look_for_losses(batch, now_ns()))
            status = collect(batch, events + found, most - found, &found);
        left = batch->count;
        for (unsigned i = 0; i < left && !oldest; i++)
            oldest = batch->entries[i].group ? batch->entries[i].group->ticket : NULL;
        pthread_mutex_unlock(&batch->lock);
        now = now_ns();
        if (status != LEAT_OK && !found)
            return status;
        if (status != LEAT_OK || found >= least || found == most || !left || now >= deadline) {
            *count = found;
            return LEAT_OK;
        }
        (void)leat_ticket_wait(oldest, LEAT_COPY_POINT_DONE, deadline - now < POLL_NS ? deadline - now : POLL_NS);
    }
}

CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t batch_idp, unsigned min_nr, unsigned *nr,
                                     CUfileIOEvents_t *iocbp, struct timespec *timeout)
{
    leat_status status = LEAT_OK;
    struct batch *batch;
    uint64_t deadline;

    if (!nr || !*nr || !iocbp || min_nr > *nr ||
        (timeout && (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= 1000000000)))
        return leatcf_error(CU_FILE_INVALID_VALUE);
    batch = enter(batch_idp);
    if (!batch)
        return leatcf_error(CU_FILE_INVALID_VALUE);
    deadline = min_nr ? deadline_of(timeout) : 0;
    if (begin_collecting(batch, deadline)) {
        status = wait_for(batch, min_nr, *nr, iocbp, deadline, nr);
        end_collecting(batch);
    } else {
        *nr = 0;
    }
    leave(batch);
    return status == LEAT_OK ? leatcf_error(CU_FILE_SUCCESS) : leatcf_error_of_status(status);
}

/* ---- the end ---- */

static void cancel(struct batch *batch)
{
    pthread_mutex_lock(&batch->lock);
    for (unsigned i = 0; i < batch->count; i++)
        if (batch->entries[i].group) {
            batch->entries[i].cancelled = true;
            (void)leat_ticket_cancel(batch->entries[i].group->ticket);
        }
    pthread_mutex_unlock(&batch->lock);
}

CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t batch_idp)
{
    struct batch *batch = enter(batch_idp);

    if (!batch)
        return leatcf_error(CU_FILE_INVALID_VALUE);
    cancel(batch);
    leave(batch);
    return leatcf_error(CU_FILE_SUCCESS);
}

/* Waits for the ticket of a group by looking at it again and again, because leat does not wait in host functions. The
 * copies of a lost device are never done. */
static void look_until_done(const struct group *group)
{
    const struct timespec pause = {.tv_nsec = 100000};
    leat_ticket_info info = LEAT_TICKET_INFO_INIT;
    uint64_t asked_ns = now_ns();

    while (leat_ticket_get_info(group->ticket, &info) == LEAT_OK && !info.done) {
        if (now_ns() - asked_ns >= ASK_NS) {
            if (leatcf_device_is_lost(group->ordinal))
                return;
            asked_ns = now_ns();
        }
        nanosleep(&pause, NULL);
    }
}

/* Waits until an operation is over. The caller is the only user of the batch. */
static void wait_for_end(struct batch *batch, const struct entry *entry)
{
    leat_status status = leat_ticket_wait(entry->group->ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER);

    /* A stream cannot be destroyed in a host function, so even one with a failure is kept for other operations. */
    if (status == LEAT_ERROR_NOT_PERMITTED)
        look_until_done(entry->group);
    else
        batch->failed |= status != LEAT_OK;
}

void cuFileBatchIODestroy(CUfileBatchHandle_t batch_idp)
{
    struct batch *batch = take_out(batch_idp);

    if (!batch)
        return;
    cancel(batch);
    for (unsigned i = 0; i < batch->count; i++) {
        struct entry *entry = &batch->entries[i];

        if (entry->group)
            wait_for_end(batch, entry);
        leave_group(entry);
        leatcf_operation_end(&entry->operation);
    }
    for (int i = 0; i < LEATC_DEVICES_MAX; i++)
        if (batch->has_stream[i])
            leatcf_stream_give(&batch->streams[i], batch->failed);
    pthread_cond_destroy(&batch->collected);
    pthread_mutex_destroy(&batch->lock);
    free(batch);
}
