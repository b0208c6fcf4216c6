/*
 * hooks.h - defines the hook by which the layers above report allocations, frees and stream order to a recorder.
 *
 * There is one hook; it is NULL unless a recorder has set it. An operation calls the hook after it has succeeded,
 * except for a free, which calls it before the memory can be reused. So the order of hook calls is a possible
 * order of the program's operations: a block is allocated before its uses and freed after them, and an event is
 * recorded before the waits for it.
 *
 * The hook may be called on any thread, while leat holds locks, so it must not call anything above this layer.
 */
#ifndef LEATI_HOOKS_H
#define LEATI_HOOKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The operations, each with the fields of struct leati_record_event that it sets. */
enum leati_record_op {
    LEATI_RECORD_POOL_CREATE,    /* pool, kind, device, name */
    LEATI_RECORD_POOL_DESTROY,   /* pool */
    LEATI_RECORD_ALLOC,          /* block, bytes, stream, pool, alignment */
    LEATI_RECORD_ALLOC_FAILED,   /* bytes, stream, pool, alignment */
    LEATI_RECORD_FREE,           /* block, bytes, stream */
    LEATI_RECORD_USE,            /* block, stream: leat_block_use() */
    LEATI_RECORD_USE_UNTIL,      /* block, event: leat_block_use_until() */
    LEATI_RECORD_RECORD,         /* event, stream */
    LEATI_RECORD_WAIT,           /* stream, event */
    LEATI_RECORD_SYNC,           /* the host learned that all work of stream, event or device is complete */
    LEATI_RECORD_EVENT_DESTROY,  /* event */
    LEATI_RECORD_STREAM_DESTROY, /* stream */
    LEATI_RECORD_DEVICE_CLOSE,   /* device */
    LEATI_RECORD_OP_COUNT
};

/* One operation. block, stream, event and pool are serial numbers, which start at 1 and are never reused in a
 * process. 0 means none; as the stream of a block, 0 means the host. */
struct leati_record_event {
    enum leati_record_op op;
    uint64_t block, bytes, stream, event, pool;
    size_t alignment;                 /* 0: the default alignment */
    const char *kind, *device, *name; /* NULL: none */
};

typedef void (*leati_record_function)(const struct leati_record_event *event);

extern _Atomic(leati_record_function) leati_record_hook;

/* The serial number of the newest block. */
extern _Atomic uint64_t leati_record_last_block;

/* Returns true if a recorder has set the hook. */
static inline bool leati_recorded(void)
{
    /* Relaxed, because this is only a hint: LEATI_RECORD() loads the hook again, with acquire. */
    return __builtin_expect(atomic_load_explicit(&leati_record_hook, memory_order_relaxed) != NULL, 0) != 0;
}

/* Returns the serial number for a new block. */
static inline uint64_t leati_record_serial(void)
{
    /* Relaxed: the number orders no other data. */
    return 1 + atomic_fetch_add_explicit(&leati_record_last_block, 1, memory_order_relaxed);
}

/* Calls the hook, if it is set, with these fields: LEATI_RECORD(.op = ..., .block = ...). */
#define LEATI_RECORD(...)                                                                                         \
    do {                                                                                                          \
        /* Acquire: pairs with the recorder's release store. */                                                   \
        leati_record_function leati_hook_ = atomic_load_explicit(&leati_record_hook, memory_order_acquire);       \
                                                                                                                  \
        if (__builtin_expect(leati_hook_ != NULL, 0))                                                             \
            leati_hook_(&(struct leati_record_event){__VA_ARGS__});                                               \
    } while (0)

#endif
