/*
 * engine_pool.c - a pool of leat's for each device, and the program's streams in which it allocates.
 *
 * A stream is wrapped at its first use and stays so until pool_leave_stream(): what is freed on a stream can be
 * allocated there again without an event only while leat knows that it is the same stream.
 */
#include "engine_pool.h"

#include "engine_trace.h"

#include "core/core.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define STREAM_BUCKETS 64u

struct known_stream {
    void *native;
    leat_stream *stream;
    struct known_stream *next;
};

/* The pool of a device. The lock guards filling it; readers see streams that are complete. */
struct device_pool {
    _Atomic(leat_pool *) pool; /* NULL: not made */
    leat_device *device;
    void *context;
    bool has_failed; /* the pool could not be made */
    _Atomic(struct known_stream *) streams[STREAM_BUCKETS];
};

static struct device_pool pools[ENGINE_DEVICES_MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The stream that this thread has used last. It is valid in one generation; each end of a stream begins another.
 * Relaxed: streams end only while no other function of this file runs. */
static atomic_uint_least64_t generation = 1;
static _Thread_local struct {
    uint64_t generation;
    int device;
    void *native;
    leat_stream *stream;
} last;

static enum engine_result fail(char *message, size_t message_bytes)
{
    snprintf(message, message_bytes, "%s", leat_last_error());
    return ENGINE_FAILED;
}

/* ---- pools ---- */

/* Makes the pool of a device. Called with the lock held. */
static enum engine_result make_pool(int number, char *message, size_t message_bytes)
{
    struct device_pool *of = &pools[number];
    leat_pool_options options = LEAT_POOL_OPTIONS_INIT;
    enum engine_result result;
    leat_pool *pool;

    if (of->has_failed) {
        snprintf(message, message_bytes, "leat could not make a pool before");
        return ENGINE_FAILED;
    }
    result = engine_open(number, &of->device, &of->context, message, message_bytes);
    if (result != ENGINE_DONE)
        return result;
    options.name = "leat run";
    if (leat_pool_create(of->device, &options, &pool) != LEAT_OK) {
        of->has_failed = true;
        return fail(message, message_bytes);
    }
    /* Release: a thread that sees the pool sees its device and context. */
    atomic_store_explicit(&of->pool, pool, memory_order_release);
    return ENGINE_DONE;
}

static enum engine_result open_pool(int number, const void *context, leat_pool **pool, char *message,
                                    size_t message_bytes)
{
    struct device_pool *of = &pools[number];
    enum engine_result result = ENGINE_DONE;

    *pool = atomic_load_explicit(&of->pool, memory_order_acquire);
    if (!*pool) {
        pthread_mutex_lock(&lock);
        *pool = atomic_load_explicit(&of->pool, memory_order_acquire);
        if (!*pool)
            result = make_pool(number, message, message_bytes);
        *pool = atomic_load_explicit(&of->pool, memory_order_acquire);
        pthread_mutex_unlock(&lock);
    }
    return result == ENGINE_DONE && of->context != context ? ENGINE_OTHER_CONTEXT : result;
}

/* ---- streams ---- */

static _Atomic(struct known_stream *) *bucket_of(int device, void *native)
{
    return &pools[device].streams[(uintptr_t)native * UINT64_C(0x9e3779b97f4a7c15) >> 58];
}

static leat_stream *find_stream(int device, void *native)
{
    struct known_stream *known;
    uint64_t now = atomic_load_explicit(&generation, memory_order_relaxed);

    if (last.generation == now && last.native == native && last.device == device)
        return last.stream;
    /* Acquire: pairs with the release in remember(). */
    known = atomic_load_explicit(bucket_of(device, native), memory_order_acquire);
    while (known && known->native != native)
        known = known->next;
    if (!known)
        return NULL;
    last.generation = now;
    last.device = device;
    last.native = native;
    last.stream = known->stream;
    return known->stream;
}

/* Wraps a stream of the program. In a trace the wrapping is that stream. */
static leat_status wrap(int device, void *native, leat_stream **stream)
{
    leat_status status = leat_stream_wrap(pools[device].device, native, stream);

    if (status == LEAT_OK)
        (*stream)->traced.serial =
            engine_trace_stream(device, pools[device].context, native, (*stream)->traced.serial);
    return status;
}

/* Wraps a stream, and remembers it. Returns NULL, with a message of leat's, if that fails. */
static leat_stream *remember(int device, void *native)
{
    struct known_stream *made;
    leat_stream *stream;

    pthread_mutex_lock(&lock);
    stream = find_stream(device, native); /* another thread may have been first */
    made = stream ? NULL : malloc(sizeof *made);
    if (made && wrap(device, native, &stream) != LEAT_OK) {
        free(made);
        made = NULL;
        stream = NULL;
    }
    if (made) {
        made->native = native;
        made->stream = stream;
        made->next = atomic_load_explicit(bucket_of(device, native), memory_order_relaxed);
        atomic_store_explicit(bucket_of(device, native), made, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return stream;
}

bool engine_pool_knows(int device, void *stream)
{
    return find_stream(device, stream);
}

static void leave(int device, void *native, bool end)
{
    for (unsigned i = 0; i < STREAM_BUCKETS; i++) {
        struct known_stream *all = atomic_exchange_explicit(&pools[device].streams[i], NULL, memory_order_relaxed),
                            *known, *rest = NULL;

        while ((known = all)) {
            all = known->next;
            if (native && known->native != native) {
                known->next = rest;
                rest = known;
                continue;
            }
            if (end)
                (void)leat_stream_destroy(known->stream);
            free(known);
        }
        atomic_store_explicit(&pools[device].streams[i], rest, memory_order_release);
    }
}

void engine_pool_leave_stream(void *stream)
{
    atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
    for (int device = 0; device < ENGINE_DEVICES_MOST; device++)
        if (atomic_load_explicit(&pools[device].pool, memory_order_acquire))
            leave(device, stream, true);
}

void engine_pool_close(int device)
{
    atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
    /* Closing the device ends its streams and its pool. */
    leave(device, NULL, false);
    atomic_store_explicit(&pools[device].pool, NULL, memory_order_relaxed);
    pools[device].has_failed = false;
}

/* ---- blocks ---- */

enum engine_result engine_pool_alloc(const struct engine_block *wanted, uint64_t *ptr, char *message,
                                     size_t message_bytes)
{
    leat_pool *pool;
    enum engine_result result = open_pool(wanted->device, wanted->context, &pool, message, message_bytes);
    leat_stream *stream;
    leat_status status;
    void *made;

    if (result != ENGINE_DONE)
        return result;
    stream = find_stream(wanted->device, wanted->stream);
    if (!stream)
        stream = remember(wanted->device, wanted->stream);
    if (!stream)
        return fail(message, message_bytes);
    status = leat_pool_alloc(stream, pool, wanted->bytes, &made);
    if (status == LEAT_OK) {
        *ptr = (uint64_t)(uintptr_t)made;
        return ENGINE_DONE;
    }
    return status == LEAT_ERROR_DEVICE_MEMORY ? ENGINE_FULL : fail(message, message_bytes);
}

enum engine_result engine_pool_free(uint64_t ptr, const struct engine_block *given, char *message,
                                    size_t message_bytes)
{
    leat_stream *stream = given->once ? NULL : find_stream(given->device, given->stream);
    enum engine_result result = ENGINE_DONE;

    if (pools[given->device].context != given->context)
        return ENGINE_OTHER_CONTEXT;
    if (!stream && !given->once)
        stream = remember(given->device, given->stream);
    if (given->once && wrap(given->device, given->stream, &stream) != LEAT_OK)
        stream = NULL;
    if (!stream || leat_free(stream, (void *)(uintptr_t)ptr) != LEAT_OK)
        result = fail(message, message_bytes);
    if (given->once && stream)
        (void)leat_stream_destroy(stream);
    return result;
}

enum engine_result engine_pool_free_now(uint64_t ptr)
{
    return leat_memory_free((void *)(uintptr_t)ptr) == LEAT_OK ? ENGINE_DONE : ENGINE_FAILED;
}

bool engine_pool_find(uint64_t ptr, uint64_t *base)
{
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;

    if (leat_pointer_get_info((void *)(uintptr_t)ptr, &info) != LEAT_OK || !info.owned)
        return false;
    *base = (uint64_t)(uintptr_t)info.base;
    return ptr - *base < info.bytes;
}

bool engine_pool_trim(int device, uint64_t keep_bytes)
{
    leat_pool *pool = atomic_load_explicit(&pools[device].pool, memory_order_acquire);
    uint64_t released = 0;

    return pool && leat_pool_trim(pool, keep_bytes, &released, NULL) == LEAT_OK && released;
}

struct engine_figures engine_pool_figures(int device)
{
    leat_pool *pool = atomic_load_explicit(&pools[device].pool, memory_order_acquire);
    leat_pool_stats stats = LEAT_POOL_STATS_INIT;

    if (!pool || leat_pool_get_stats(pool, &stats) != LEAT_OK)
        return (struct engine_figures){0};
    return (struct engine_figures){.used_bytes = stats.requested_bytes,
                                   .used_peak_bytes = stats.requested_peak_bytes,
                                   .reserved_bytes = stats.reserved_bytes,
                                   .reserved_peak_bytes = stats.reserved_peak_bytes};
}
