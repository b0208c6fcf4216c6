/*
 * hooks.h - what the layers above tell a recorder: allocations, frees, and what orders their streams.
 *
 * There is one hook, NULL unless something records. The layers fire it; whoever records sets it. A call that fires
 * it fires after its own work succeeded, but for a free, which is told before the memory can become anybody
 * else's. So the order of calls of the hook is one in which the program's threads may have made them: a block is
 * told of before its uses, those before its free, a record of an event before the waits for it.
 *
 * The function may be called on any thread, with locks of leat held: it must call nothing above this layer.
 */
#ifndef LEATI_HOOKS_H
#define LEATI_HOOKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum leati_trace_op {
    LEATI_TRACE_POOL_CREATE,   /* pool, kind, device, name */
    LEATI_TRACE_POOL_DESTROY,  /* pool */
    LEATI_TRACE_ALLOC,         /* block, bytes, stream, pool, alignment */
    LEATI_TRACE_ALLOC_FAILED,  /* bytes, stream, pool, alignment */
    LEATI_TRACE_FREE,          /* block, bytes, stream */
    LEATI_TRACE_USE,           /* block, stream: leat_pool_use() */
    LEATI_TRACE_USE_UNTIL,     /* block, event: leat_pool_use_until() */
    LEATI_TRACE_RECORD,        /* event, stream */
    LEATI_TRACE_WAIT,          /* stream, event */
    LEATI_TRACE_SYNC,          /* the host saw all work of stream as done, or what event marks, or all of device */
    LEATI_TRACE_EVENT_DESTROY, /* event */
    LEATI_TRACE_STREAM_DESTROY, /* stream */
    LEATI_TRACE_DEVICE_CLOSE,   /* device */
    LEATI_TRACE_OP_COUNT
};

/* Serials are from 1 and never used again in a process; 0: none, or, as the stream of a block, the host. */
struct leati_trace_event {
    enum leati_trace_op op;
    uint64_t block, bytes, stream, event, pool;
    size_t alignment;                 /* 0: as usual */
    const char *kind, *device, *name; /* NULL: none */
};

typedef void (*leati_trace_function)(const struct leati_trace_event *event);

extern _Atomic(leati_trace_function) leati_trace_hook;

/* The serial of the latest block. */
extern _Atomic uint64_t leati_trace_last_block;

/* Returns true if something records. */
static inline bool leati_traced(void)
{
    /* Relaxed: where it matters whether the recorder is ready, LEATI_TRACE() looks again. */
    return __builtin_expect(atomic_load_explicit(&leati_trace_hook, memory_order_relaxed) != NULL, 0) != 0;
}

/* The serial of a new block. */
static inline uint64_t leati_trace_serial(void)
{
    /* Relaxed: it guards nothing. */
    return 1 + atomic_fetch_add_explicit(&leati_trace_last_block, 1, memory_order_relaxed);
}

/* Fires the hook, if there is one, with the fields that are given: LEATI_TRACE(.op = ..., .block = ...). */
#define LEATI_TRACE(...)                                                                                          \
    do {                                                                                                          \
        /* Acquire: pairs with the release of whoever sets it. */                                                 \
        leati_trace_function leati_hook_ = atomic_load_explicit(&leati_trace_hook, memory_order_acquire);         \
                                                                                                                  \
        if (__builtin_expect(leati_hook_ != NULL, 0))                                                             \
            leati_hook_(&(struct leati_trace_event){__VA_ARGS__});                                                \
    } while (0)

#endif
