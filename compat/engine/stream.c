/*
 * stream.c - implements streams, and the ordering rules of the default streams.
 *
 * leat has no default stream. A device's legacy default stream is an ordinary leat stream, and two rules give it
 * the order that the vendors describe. Before work is submitted to it, it waits for the blocking streams that have
 * work for which it has not waited (their field dirty). Before work is submitted to a blocking stream, that stream
 * waits for the latest work of the legacy stream, unless it has waited for it already (epoch and seen). If a
 * program uses only one kind of stream, each check costs two loads.
 *
 * A copy between two devices, or by a call with Peer in its name, is ordered with all streams of its devices.
 * Before the copy, each device's legacy stream also waits for the non-blocking streams. After the copy, each
 * device gets a fence: an event for which each non-blocking stream waits before its next work (fences and seen).
 *
 * A thread records a mark and makes a stream wait for it with the device's lock held, so that no other thread
 * records the same mark in between. A thread never holds the locks of two devices. If two threads submit work to
 * the legacy stream and to another stream at the same time, the order is undefined, as in the vendors' libraries.
 */
#include "base/lock.h"
#include "engine/inside.h"

#include <stdlib.h>

static struct leati_handles streams = LEATI_HANDLES(struct leatc_stream);
static _Atomic unsigned long long latest_id = 2; /* ids 1 and 2 belong to the default streams */

/* A stream on another device for work that must run on that device. After a reset of that device, another stream
 * may have the same handle; it has another id. */
struct leatc_helper {
    struct leatc_stream *stream;
    unsigned long long id;
};

/* ---- creation and destruction ---- */

static bool is_blocking(const struct leatc_stream *stream)
{
    return !(stream->flags & LEATC_STREAM_NON_BLOCKING);
}

static struct leatc_stream *live_helper(const struct leatc_helper *helper)
{
    return helper->stream && leati_handle_live(&streams, helper->stream) && helper->stream->id == helper->id
               ? helper->stream
               : NULL;
}

static void free_stream(struct leatc_stream *stream)
{
    leati_assert(stream->device);
    leatc_capture_stream_ends(stream);
    for (int i = 0; stream->helpers && i < LEATC_DEVICES_MAX; i++) {
        struct leatc_stream *helper = live_helper(&stream->helpers[i]);

        if (helper && leati_handle_retire(&streams, helper))
            free_stream(helper);
    }
    free(stream->helpers);
    leat_event_destroy(stream->mark);
    leat_stream_destroy(stream->native);
    leati_handle_free(&streams, stream);
}

static int new_stream(struct leatc_device *device, unsigned flags, int priority, struct leatc_stream **made)
{
    struct leatc_stream *stream = leati_handle_new(&streams);
    leat_device *native = atomic_load_explicit(&device->native, memory_order_relaxed);
    leat_status status;

    if (!stream)
        return LEATC_OUT_OF_MEMORY;
    stream->device = device;
    stream->flags = flags;
    stream->priority = priority;
    stream->id = atomic_fetch_add_explicit(&latest_id, 1, memory_order_relaxed);
    status = leat_stream_create(native, &stream->native);
    if (status == LEAT_OK)
        status = leat_event_create(native, &stream->mark);
    if (status != LEAT_OK) {
        free_stream(stream);
        return leatc_result_of(status);
    }
    *made = stream;
    return LEATC_OK;
}

/* Returns the list of the device to which the stream belongs: blocking or non-blocking streams. */
static struct leatc_stream **list_of(const struct leatc_stream *stream)
{
    return is_blocking(stream) ? &stream->device->blocking : &stream->device->non_blocking;
}

/* Adds a stream to the list of its device. The caller holds the device's lock. */
static void list_stream(struct leatc_stream *stream)
{
    struct leatc_stream **list = list_of(stream);

    leati_assert_locked(&stream->device->lock);
    leati_assert(*list != stream);
    stream->next = *list;
    *list = stream;
}

/* Makes the handle of a stream live and adds the stream to the list of its device, so that the legacy default
 * stream waits for it. */
static void announce_stream(struct leatc_stream *stream)
{
    leati_handle_publish(stream);
    leati_lock(&stream->device->lock);
    list_stream(stream);
    leati_unlock(&stream->device->lock);
}

int leatc_streams_open(struct leatc_device *device)
{
    struct leatc_stream *legacy = NULL;

    leati_assert(atomic_load(&device->native));
    LEATC_TRY(leatc_result_of(leat_event_create(atomic_load(&device->native), &device->latest)));
    LEATC_TRY(leatc_result_of(leat_event_create(atomic_load(&device->native), &device->fence)));
    LEATC_TRY(new_stream(device, 0, 0, &legacy));
    legacy->legacy = true;
    legacy->id = 1;
    leati_handle_publish(legacy);
    device->blocking = device->non_blocking = device->leftover = NULL;
    atomic_store(&device->dirty_count, 0);
    device->legacy = legacy;
    return LEATC_OK;
}

static void close_stream(void *object, void *device)
{
    struct leatc_stream *stream = object;

    if (stream->device == device && leati_handle_retire(&streams, stream))
        free_stream(stream);
}

void leatc_streams_close(struct leatc_device *device)
{
    device->legacy = NULL;
    leati_handles_each(&streams, close_stream, device);
    device->blocking = device->non_blocking = device->leftover = NULL;
    leat_event_destroy(device->latest);
    leat_event_destroy(device->fence);
}

/* ---- the legacy default stream's order ---- */

/* Records the event device->latest after the legacy stream's latest work, unless it is recorded there already. The
 * caller holds the device's lock. */
static leat_status mark_latest(struct leatc_device *device)
{
    uint64_t epoch = atomic_load(&device->epoch);
    leat_status status = LEAT_OK;

    if (device->marked_epoch != epoch)
        status = leat_event_record(device->legacy->native, device->latest);
    if (status == LEAT_OK)
        device->marked_epoch = epoch;
    return status;
}

/* Makes the legacy stream wait for the work of another stream. First records the event latest, so that streams
 * that wait for the legacy stream's earlier work do not wait for the other stream too. The caller holds the
 * device's lock. */
static leat_status wait_for(struct leatc_device *device, struct leatc_stream *stream)
{
    leat_status status;

    /* Do not wait for a stream without pending work, because the wait would make the legacy stream appear busy for
     * a moment. */
    if (leat_stream_query(stream->native) == LEAT_OK)
        return LEAT_OK;
    status = mark_latest(device);
    if (status == LEAT_OK)
        status = leat_event_record(stream->native, stream->mark);
    return status == LEAT_OK ? leat_stream_wait(device->legacy->native, stream->mark) : status;
}

/* Makes the legacy stream wait for a blocking stream, if that is dirty. The caller holds the device's lock. */
static leat_status join(struct leatc_device *device, struct leatc_stream *stream)
{
    if (!atomic_exchange(&stream->dirty, false))
        return LEAT_OK;
    atomic_fetch_sub(&device->dirty_count, 1);
    return wait_for(device, stream);
}

static int join_all(struct leatc_device *device)
{
    leat_status status = LEAT_OK;

    leati_lock(&device->lock);
    for (struct leatc_stream *stream = device->blocking; stream && status == LEAT_OK; stream = stream->next)
        status = join(device, stream);
    leati_unlock(&device->lock);
    return leatc_result_of(status);
}

static int join_non_blocking(struct leatc_device *device)
{
    leat_status status = LEAT_OK;

    leati_lock(&device->lock);
    for (struct leatc_stream *stream = device->non_blocking; stream && status == LEAT_OK; stream = stream->next)
        status = wait_for(device, stream);
    leati_unlock(&device->lock);
    return leatc_result_of(status);
}

/* Makes a blocking stream wait for the legacy stream's latest work. */
static int follow(struct leatc_device *device, struct leatc_stream *stream)
{
    leat_status status = LEAT_OK;
    uint64_t epoch;

    leati_lock(&device->lock);
    epoch = atomic_load(&device->epoch);
    if (leat_stream_query(device->legacy->native) != LEAT_OK) {
        bool marked = device->marked_epoch == epoch;

        status = mark_latest(device);
        if (status == LEAT_OK && (!marked || leat_event_query(device->latest) != LEAT_OK))
            status = leat_stream_wait(stream->native, device->latest);
    }
    leati_unlock(&device->lock);
    if (status == LEAT_OK)
        atomic_store_explicit(&stream->seen, epoch, memory_order_release);
    return leatc_result_of(status);
}

/* Makes a non-blocking stream wait for the device's latest fence. */
static int follow_fence(struct leatc_device *device, struct leatc_stream *stream)
{
    leat_status status = LEAT_OK;
    uint64_t fences;

    leati_lock(&device->lock);
    fences = atomic_load(&device->fences);
    if (leat_event_query(device->fence) != LEAT_OK)
        status = leat_stream_wait(stream->native, device->fence);
    leati_unlock(&device->lock);
    if (status == LEAT_OK)
        atomic_store_explicit(&stream->seen, fences, memory_order_release);
    return leatc_result_of(status);
}

/* Returns true if count, the device's epoch or fences, has changed since the stream last waited. */
static bool is_behind(const struct leatc_stream *stream, const _Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_acquire) !=
           atomic_load_explicit(&stream->seen, memory_order_acquire);
}

static int order(struct leatc_stream *stream)
{
    struct leatc_device *device = stream->device;

    if (stream->legacy) {
        LEATC_TRY(leatc_capture_refuse_legacy(device, true));
        return atomic_load_explicit(&device->dirty_count, memory_order_acquire) ? join_all(device) : LEATC_OK;
    }
    if (is_blocking(stream))
        return is_behind(stream, &device->epoch) ? follow(device, stream) : LEATC_OK;
    return is_behind(stream, &device->fences) ? follow_fence(device, stream) : LEATC_OK;
}

/* ---- per-thread default streams ---- */

struct thread_streams {
    struct leatc_stream *of[LEATC_DEVICES_MAX];
    uint64_t generation[LEATC_DEVICES_MAX];
};

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static _Thread_local struct thread_streams *mine;

/* Destroys the per-thread streams of a thread that ends. It calls leatc_device_if_open(), because another thread
 * may reset a device at the same time. */
static void end_thread(void *argument)
{
    struct thread_streams *of_thread = argument;

    /* Destructors of other keys may run after this one and use the per-thread stream, which makes a new one. */
    mine = NULL;
    for (int i = 0; i < LEATC_DEVICES_MAX; i++)
        if (of_thread->of[i])
            leatc_device_if_open(i, of_thread->generation[i], leatc_stream_destroy, of_thread->of[i]);
    free(of_thread);
}

static void make_key(void)
{
    (void)pthread_key_create(&thread_key, end_thread);
}

static int of_this_thread(struct leatc_stream **found)
{
    int result;
    struct leatc_device *device = leatc_device_here(&result);
    uint64_t generation;

    if (!device)
        return result;
    if (!mine) {
        pthread_once(&thread_once, make_key);
        mine = calloc(1, sizeof *mine);
        if (!mine || pthread_setspecific(thread_key, mine))
            return LEATC_OUT_OF_MEMORY;
    }
    generation = atomic_load_explicit(&device->generation, memory_order_relaxed);
    if (!mine->of[device->ordinal] || mine->generation[device->ordinal] != generation) {
        struct leatc_stream *made = NULL;

        LEATC_TRY(new_stream(device, 0, 0, &made));
        made->id = 2;
        announce_stream(made);
        mine->of[device->ordinal] = made;
        mine->generation[device->ordinal] = generation;
    }
    *found = mine->of[device->ordinal];
    return LEATC_OK;
}

/* ---- submitting work ---- */

int leatc_stream_find(struct leatc_stream *stream, struct leatc_stream **found)
{
    if (!stream || stream == LEATC_STREAM_LEGACY) {
        int result;
        struct leatc_device *device = leatc_device_here(&result);

        if (device)
            *found = device->legacy;
        return result;
    }
    if (stream == LEATC_STREAM_PER_THREAD)
        return of_this_thread(found);
    LEATC_TRY(leatc_check_child());
    if (!leati_handle_live(&streams, stream) || stream->legacy)
        return LEATC_INVALID_HANDLE;
    *found = stream;
    return LEATC_OK;
}

int leatc_work_begin_capturable(struct leatc_stream *stream, struct leatc_work *work)
{
    struct leatc_stream *found = NULL;

    LEATC_TRY(leatc_stream_find(stream, &found));
    work->stream = found->native;
    work->record = found;
    work->ordinal = found->device->ordinal;
    work->captured = false;
    if (leatc_capturing()) {
        LEATC_TRY(leatc_capture_check(found, &work->captured));
        if (work->captured)
            return LEATC_OK;
    }
    return order(found);
}

int leatc_work_begin(struct leatc_stream *stream, struct leatc_work *work)
{
    int result = leatc_work_begin_capturable(stream, work);

    return __builtin_expect(result == LEATC_OK && work->captured, 0) ? leatc_capture_refuse(work->record) : result;
}

leat_status leatc_stream_chain(struct leatc_stream *first, struct leatc_stream *then)
{
    leat_status status;

    leati_lock(&first->device->lock);
    status = leat_event_record(first->native, first->mark);
    if (status == LEAT_OK)
        status = leat_stream_wait(then->native, first->mark);
    leati_unlock(&first->device->lock);
    return status;
}

/* ---- order with whole devices ---- */

/* Removes the first device from a set and returns it. */
static struct leatc_device *next_device(uint64_t *devices)
{
    struct leatc_device *device = leatc_device_known(__builtin_ctzll(*devices));

    *devices &= *devices - 1;
    return device;
}

int leatc_work_after_devices(const struct leatc_work *work, uint64_t devices, bool all)
{
    while (devices) {
        struct leatc_device *device = next_device(&devices);

        LEATC_TRY(order(device->legacy));
        if (all)
            LEATC_TRY(join_non_blocking(device));
        if (device->legacy != work->record && leat_stream_query(device->legacy->native) != LEAT_OK)
            LEATC_TRY(leatc_result_of(leatc_stream_chain(device->legacy, work->record)));
    }
    return LEATC_OK;
}

/* Makes the next work of each non-blocking stream wait for the work submitted to the legacy stream so far. */
static leat_status put_fence(struct leatc_device *device)
{
    leat_status status;

    leati_lock(&device->lock);
    status = leat_event_record(device->legacy->native, device->fence);
    atomic_fetch_add_explicit(&device->fences, 1, memory_order_release);
    leati_unlock(&device->lock);
    return status;
}

int leatc_devices_after_work(const struct leatc_work *work, uint64_t devices, bool all)
{
    while (devices) {
        struct leatc_device *device = next_device(&devices);

        if (device->legacy != work->record) {
            LEATC_TRY(leatc_result_of(leatc_stream_chain(work->record, device->legacy)));
            atomic_fetch_add_explicit(&device->epoch, 1, memory_order_release);
        }
        if (all)
            LEATC_TRY(leatc_result_of(put_fence(device)));
    }
    return LEATC_OK;
}

int leatc_work_begin_legacy(int ordinal, struct leatc_work *work)
{
    struct leatc_stream *legacy = leatc_device_known(ordinal)->legacy;

    *work = (struct leatc_work){.stream = legacy->native, .record = legacy, .ordinal = ordinal};
    return order(legacy);
}

/* Returns the stream's helper on a device. If there is none, creates it. The caller holds the lock of the stream's
 * device. */
static int find_helper(struct leatc_stream *stream, int ordinal, struct leatc_stream **found)
    LEATI_REQUIRES(stream->device->lock)
{
    struct leatc_helper *helper;

    leati_assert_locked(&stream->device->lock);
    if (!stream->helpers && !(stream->helpers = calloc(LEATC_DEVICES_MAX, sizeof *stream->helpers)))
        return LEATC_OUT_OF_MEMORY;
    helper = &stream->helpers[ordinal];
    *found = live_helper(helper);
    if (*found)
        return LEATC_OK;
    LEATC_TRY(new_stream(leatc_device_known(ordinal), LEATC_STREAM_NON_BLOCKING, 0, found));
    leati_handle_publish(*found);
    *helper = (struct leatc_helper){*found, (*found)->id};
    return LEATC_OK;
}

int leatc_work_begin_helper(const struct leatc_work *work, int ordinal, struct leatc_work *helper)
{
    struct leatc_stream *found = NULL;
    int result;

    leati_lock(&work->record->device->lock);
    result = find_helper(work->record, ordinal, &found);
    leati_unlock(&work->record->device->lock);
    LEATC_TRY(result);
    *helper = (struct leatc_work){.stream = found->native, .record = found, .ordinal = ordinal};
    return LEATC_OK;
}

int leatc_work_end(struct leatc_work *work, leat_status status)
{
    struct leatc_stream *stream = work->record;
    struct leatc_device *device = stream->device;

    /* Update the counts after the work was submitted, so that a thread that sees a new count records its mark
     * after the work. */
    if (stream->legacy)
        atomic_fetch_add_explicit(&device->epoch, 1, memory_order_release);
    else if (is_blocking(stream) && !atomic_load_explicit(&stream->dirty, memory_order_relaxed) &&
             !atomic_exchange(&stream->dirty, true))
        atomic_fetch_add(&device->dirty_count, 1);
    return leatc_result_of(status);
}

/* ---- calls ---- */

int leatc_stream_create(unsigned flags, int priority, struct leatc_stream **stream)
{
    struct leatc_stream *made = NULL;
    int result;
    struct leatc_device *device = leatc_device_here(&result);

    if (!stream || flags & ~LEATC_STREAM_NON_BLOCKING)
        return LEATC_INVALID_VALUE;
    if (!device)
        return result;
    LEATC_TRY(new_stream(device, flags, priority, &made));
    announce_stream(made);
    *stream = made;
    return LEATC_OK;
}

/* Called when a non-blocking stream is destroyed. If it has pending work, makes the device's leftover stream wait
 * for that work, so that copies that wait for all streams include it. The caller holds the device's lock. */
static void hand_over(struct leatc_device *device, struct leatc_stream *stream)
{
    if (leat_stream_query(stream->native) != LEAT_NOT_READY)
        return;
    if (!device->leftover && new_stream(device, LEATC_STREAM_NON_BLOCKING, 0, &device->leftover) == LEATC_OK) {
        leati_handle_publish(device->leftover);
        list_stream(device->leftover);
    }
    if (!device->leftover || leat_event_record(stream->native, stream->mark) != LEAT_OK ||
        leat_stream_wait(device->leftover->native, stream->mark) != LEAT_OK)
        (void)wait_for(device, stream);
}

int leatc_stream_new_on(struct leatc_device *device, struct leatc_stream **stream)
{
    LEATC_TRY(new_stream(device, LEATC_STREAM_NON_BLOCKING, 0, stream));
    announce_stream(*stream);
    return LEATC_OK;
}

int leatc_stream_destroy(struct leatc_stream *stream)
{
    struct leatc_device *device;
    struct leatc_stream **link;

    LEATC_TRY(leatc_check_child());
    if (!stream || stream == LEATC_STREAM_LEGACY || stream == LEATC_STREAM_PER_THREAD ||
        !leati_handle_live(&streams, stream) || stream->legacy || !leati_handle_retire(&streams, stream))
        return LEATC_INVALID_HANDLE;
    device = stream->device;
    leati_lock(&device->lock);
    for (link = list_of(stream); *link && *link != stream; link = &(*link)->next)
        ;
    if (*link)
        *link = stream->next;
    /* The stream's work continues after its destruction. Make the legacy stream, or the leftover stream, wait for
     * it now. */
    if (is_blocking(stream))
        (void)join(device, stream);
    else
        hand_over(device, stream);
    leati_unlock(&device->lock);
    free_stream(stream);
    return LEATC_OK;
}

int leatc_stream_check(struct leatc_stream *stream)
{
    struct leatc_stream *found;

    return leatc_stream_find(stream, &found);
}

/* Finds the stream of a wait or a query. The legacy default stream first waits for the blocking streams, because a
 * wait or query includes their work. No other stream waits for the legacy stream here, as it would before a
 * submission. */
static int find_to_ask(struct leatc_stream *stream, struct leatc_stream **found)
{
    bool captured = false;

    LEATC_TRY(leatc_stream_find(stream, found));
    if (leatc_capturing())
        LEATC_TRY(leatc_capture_check(*found, &captured));
    if (captured)
        return leatc_capture_refuse(*found);
    return (*found)->legacy ? order(*found) : LEATC_OK;
}

int leatc_stream_synchronize(struct leatc_stream *stream)
{
    struct leatc_stream *found = NULL;
    int result;

    LEATC_TRY(find_to_ask(stream, &found));
    result = leatc_result_of(leat_stream_synchronize(found->native));
    leatc_pools_waited(found->device);
    return result;
}

int leatc_stream_query(struct leatc_stream *stream)
{
    struct leatc_stream *found = NULL;

    LEATC_TRY(find_to_ask(stream, &found));
    return leatc_result_of(leat_stream_query(found->native));
}

int leatc_stream_query_own(struct leatc_stream *stream)
{
    struct leatc_stream *found = NULL;
    bool captured = false;

    LEATC_TRY(leatc_stream_find(stream, &found));
    if (found->legacy)
        return leatc_stream_query(stream);
    if (leatc_capturing())
        LEATC_TRY(leatc_capture_check(found, &captured));
    return captured ? leatc_capture_refuse(found) : leatc_result_of(leat_stream_query(found->native));
}

int leatc_stream_flags(struct leatc_stream *stream, unsigned *flags)
{
    struct leatc_stream *found = NULL;

    if (!flags)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_stream_find(stream, &found));
    *flags = found->flags;
    return LEATC_OK;
}

int leatc_stream_priority(struct leatc_stream *stream, int *priority)
{
    struct leatc_stream *found = NULL;

    if (!priority)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_stream_find(stream, &found));
    *priority = found->priority;
    return LEATC_OK;
}

int leatc_stream_ordinal(struct leatc_stream *stream, int *ordinal)
{
    struct leatc_stream *found = NULL;

    if (!ordinal)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_stream_find(stream, &found));
    *ordinal = found->device->ordinal;
    return LEATC_OK;
}

int leatc_stream_id(struct leatc_stream *stream, unsigned long long *id)
{
    struct leatc_stream *found = NULL;

    if (!id)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_stream_find(stream, &found));
    *id = found->id;
    return LEATC_OK;
}

int leatc_stream_set_policy(struct leatc_stream *stream, int policy)
{
    struct leatc_stream *found = NULL;

    LEATC_TRY(leatc_stream_find(stream, &found));
    atomic_store(&found->policy, policy);
    return LEATC_OK;
}

int leatc_stream_policy(struct leatc_stream *stream, int *policy)
{
    struct leatc_stream *found = NULL;

    LEATC_TRY(leatc_stream_find(stream, &found));
    *policy = atomic_load(&found->policy);
    if (!*policy)
        *policy = 1;
    return LEATC_OK;
}

static int run_host(const void *payload, struct leatc_work *work)
{
    const struct leatc_host_task *host = payload;

    return leatc_result_of(leat_launch_host(work->stream, host->function, host->argument));
}

int leatc_host_make(void (*function)(void *), void *argument, struct leatc_task **task)
{
    struct leatc_host_task host = {function, argument};

    return function ? leatc_task_create(LEATC_NODE_HOST, run_host, NULL, &host, sizeof host, task)
                    : LEATC_INVALID_VALUE;
}

int leatc_stream_host_function(struct leatc_stream *stream, void (*function)(void *), void *argument)
{
    struct leatc_task *task;
    struct leatc_work work;

    if (!function)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_work_begin_capturable(stream, &work));
    if (work.captured) {
        LEATC_TRY(leatc_host_make(function, argument, &task));
        return leatc_capture_add(&work, task);
    }
    return leatc_work_end(&work, leat_launch_host(work.stream, function, argument));
}

struct callback {
    void (*function)(void *stream, int result, void *argument);
    void *stream, *argument;
};

static void run_callback(void *context)
{
    struct callback *callback = context;

    callback->function(callback->stream, LEATC_OK, callback->argument);
    free(callback);
}

int leatc_stream_callback(struct leatc_stream *stream, void (*function)(void *, int, void *), void *argument)
{
    struct leatc_work work;
    struct callback *callback;
    int result;

    if (!function)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_work_begin(stream, &work));
    callback = malloc(sizeof *callback);
    if (!callback)
        return LEATC_OUT_OF_MEMORY;
    *callback = (struct callback){function, stream, argument};
    result = leatc_work_end(&work, leat_launch_host(work.stream, run_callback, callback));
    if (result != LEATC_OK)
        free(callback);
    return result;
}
