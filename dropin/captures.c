/*
 * captures.c - replaces the calls that begin and end captures and that destroy streams, for --pool.
 *
 * leat's pool records events in the program's streams, and asks whether their work is complete, to learn when
 * freed memory may be used again. Both must not happen to a stream that captures, and a stream joins a capture by
 * waiting for an event, which leat does not see. So, when a capture begins, the pool leaves all streams (it
 * records its events before), and until the last capture has ended, the driver makes all allocations.
 */
#include "pool.h"
#include "wrappers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Writers come first: a program that allocates all the time must not keep a capture from beginning. */
#define FRESH_GATE PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
static pthread_rwlock_t gate = FRESH_GATE;

/* The streams in which captures have begun; guarded by the gate. A per-thread stream may be in it several times.
 */
static cu_stream *capturing;
static size_t capturing_count, capturing_room;
static bool is_lost; /* there was no memory for the list: the number of captures is not known any more */

/* Relaxed: a call of another thread is not ordered with the capture's begin anyway; the pool reads the value again
 * with the gate. */
static atomic_bool any_capturing;

static void begin_child(void)
{
    pthread_rwlock_t fresh = FRESH_GATE;

    memcpy(&gate, &fresh, sizeof fresh);
}

static void watch_forks(void)
{
    static atomic_bool watched; /* relaxed: only one thread may register the function */

    if (!atomic_exchange_explicit(&watched, true, memory_order_relaxed))
        (void)pthread_atfork(NULL, NULL, begin_child);
}

void dropin_pool_enter(void)
{
    watch_forks();
    pthread_rwlock_rdlock(&gate);
}

void dropin_pool_leave(void)
{
    pthread_rwlock_unlock(&gate);
}

bool dropin_is_any_capturing(void)
{
    return atomic_load_explicit(&any_capturing, memory_order_relaxed);
}

/* Called with the gate held for writing. */
static void update(void)
{
    atomic_store_explicit(&any_capturing, is_lost || capturing_count, memory_order_relaxed);
}

/* Lets leat's pool leave one stream, or all of them if stream is NULL. Called with the gate held for writing. */
static void leave_streams(cu_stream stream)
{
    int mode = CU_CAPTURE_MODE_RELAXED;
    const struct engine *made_by;

    if (dropin_is_forked() || !(made_by = dropin_loaded_engine()) ||
        dropin_driver.capture_mode(&mode) != CU_SUCCESS)
        return;
    dropin_inside++;
    made_by->pool_leave_stream(stream);
    dropin_inside--;
    (void)dropin_driver.capture_mode(&mode);
}

/* ---- contexts ---- */

void dropin_pool_closing(cu_device device)
{
    struct dropin_block *block;
    cu_result (*free_real)(cu_address);
    void *real = dropin_real(DROPIN_cuMemFree_v2);
    cu_context popped;

    watch_forks();
    pthread_rwlock_wrlock(&gate);
    /* Usually the context ends now. The program may also hold it by a reference that leat has not seen. */
    memcpy(&free_real, &real, sizeof real);
    while (device >= 0 && device < DROPIN_DEVICES_MOST && real && (block = dropin_block_claim_oldest(device, 0))) {
        cu_result code = dropin_driver.context_push(block->context);

        if (code == CU_SUCCESS) {
            code = free_real(block->ptr);
            (void)dropin_driver.context_pop(&popped);
        }
        dropin_block_forget(block);
        if (code != CU_SUCCESS)
            break;
    }
    dropin_block_forget_all(device);
}

void dropin_pool_closed(void)
{
    pthread_rwlock_unlock(&gate);
}

/* ---- captures ---- */

static bool is_capturing(cu_stream stream)
{
    int state = CU_CAPTURE_NONE;

    return dropin_driver.stream_capturing(stream, &state) != CU_SUCCESS || state != CU_CAPTURE_NONE;
}

static void add(cu_stream stream)
{
    size_t room = capturing_room ? 2 * capturing_room : 8;
    cu_stream *longer;

    if (capturing_count == capturing_room) {
        longer = realloc(capturing, room * sizeof *longer);
        if (!longer) {
            is_lost = true;
            return;
        }
        capturing = longer;
        capturing_room = room;
    }
    capturing[capturing_count++] = stream;
}

static void remove_one(cu_stream stream)
{
    for (size_t i = 0; i < capturing_count; i++)
        if (capturing[i] == stream) {
            capturing[i] = capturing[--capturing_count];
            return;
        }
}

/* Defines the replacement of a function that begins a capture. */
#define BEGIN(symbol, parameters, arguments, in)                                                                  \
    cu_result symbol parameters                                                                                   \
    {                                                                                                             \
        void *real_ = dropin_real(DROPIN_##symbol);                                                               \
        cu_result(*typed_) parameters;                                                                            \
        cu_result code_;                                                                                          \
                                                                                                                  \
        if (!real_)                                                                                               \
            return CU_NOT_FOUND;                                                                                  \
        memcpy(&typed_, &real_, sizeof real_);                                                                    \
        if (dropin_inside || !dropin_serves_pool() || !dropin_driver.pool_complete)                               \
            return typed_ arguments;                                                                              \
        watch_forks();                                                                                            \
        pthread_rwlock_wrlock(&gate);                                                                             \
        leave_streams(NULL);                                                                                      \
        code_ = typed_ arguments;                                                                                 \
        if (code_ == CU_SUCCESS)                                                                                  \
            add(in);                                                                                              \
        update();                                                                                                 \
        pthread_rwlock_unlock(&gate);                                                                             \
        return code_;                                                                                             \
    }

#define END(symbol, in)                                                                                           \
    cu_result symbol(cu_stream stream, void **graph)                                                              \
    {                                                                                                             \
        void *real_ = dropin_real(DROPIN_##symbol);                                                               \
        cu_result (*typed_)(cu_stream, void **);                                                                  \
        cu_result code_;                                                                                          \
                                                                                                                  \
        if (!real_)                                                                                               \
            return CU_NOT_FOUND;                                                                                  \
        memcpy(&typed_, &real_, sizeof real_);                                                                    \
        code_ = typed_(stream, graph);                                                                            \
        if (dropin_inside || !dropin_serves_pool() || !dropin_driver.pool_complete)                               \
            return code_;                                                                                         \
        watch_forks();                                                                                            \
        pthread_rwlock_wrlock(&gate);                                                                             \
        if (!is_capturing(in))                                                                                    \
            remove_one(in);                                                                                       \
        update();                                                                                                 \
        pthread_rwlock_unlock(&gate);                                                                             \
        return code_;                                                                                             \
    }

BEGIN(cuStreamBeginCapture, (cu_stream stream), (stream), or_legacy(stream))
BEGIN(cuStreamBeginCapture_ptsz, (cu_stream stream), (stream), or_per_thread(stream))
BEGIN(cuStreamBeginCapture_v2, (cu_stream stream, int mode), (stream, mode), or_legacy(stream))
BEGIN(cuStreamBeginCapture_v2_ptsz, (cu_stream stream, int mode), (stream, mode), or_per_thread(stream))
BEGIN(cuStreamBeginCaptureToGraph, (DROPIN_TO_GRAPH), (stream, graph, dependencies, edges, count, mode),
      or_legacy(stream))
BEGIN(cuStreamBeginCaptureToGraph_ptsz, (DROPIN_TO_GRAPH), (stream, graph, dependencies, edges, count, mode),
      or_per_thread(stream))
END(cuStreamEndCapture, or_legacy(stream))
END(cuStreamEndCapture_ptsz, or_per_thread(stream))

/* ---- the end of streams ---- */

static cu_result destroy(enum dropin_name name, cu_stream stream)
{
    void *real = dropin_real(name);
    cu_result (*typed)(cu_stream);
    cu_result code;

    if (!real)
        return CU_NOT_FOUND;
    memcpy(&typed, &real, sizeof real);
    if (dropin_inside || !stream || !dropin_serves_pool() || !dropin_driver.pool_complete)
        return typed(stream);
    watch_forks();
    pthread_rwlock_wrlock(&gate);
    leave_streams(stream);
    /* Destroying a stream ends its capture. */
    remove_one(stream);
    update();
    code = typed(stream);
    pthread_rwlock_unlock(&gate);
    return code;
}

cu_result cuStreamDestroy(cu_stream stream)
{
    return destroy(DROPIN_cuStreamDestroy, stream);
}

cu_result cuStreamDestroy_v2(cu_stream stream)
{
    return destroy(DROPIN_cuStreamDestroy_v2, stream);
}
