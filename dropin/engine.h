/*
 * engine.h - what libleat-run-engine offers to libleat-run: copies by leat in a stream of the program's own,
 * populated memory, and device memory of a pool of leat's.
 */
#ifndef DROPIN_ENGINE_H
#define DROPIN_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENGINE_SYMBOL "leat_run_engine"
#define ENGINE_VERSION 4
#define ENGINE_PAGES_BYTES ((size_t)2 << 20) /* map() maps whole multiples */

enum engine_result {
    ENGINE_DONE,
    ENGINE_OTHER_CONTEXT, /* the context is not the primary one of the device */
    ENGINE_NOT_STARTED,   /* leat cannot use the device; message says why */
    ENGINE_FAILED,        /* leat could not make the copy or the allocation; message says why */
    ENGINE_FULL           /* the device has no more memory */
};

struct engine_copy {
    int device;             /* its number for the driver */
    void *context, *stream; /* the current context, the native stream */
    void *dst;
    const void *src;
    size_t bytes, rows, dst_pitch, src_pitch;
    /* A batch: its copies, all in one direction; dst, src and bytes are those of the first. 0 copies: this is
     * none. */
    const uint64_t *batch_dsts, *batch_srcs;
    const size_t *batch_sizes;
    size_t batch_count;
    bool in;   /* into the device */
    bool sync; /* wait for earlier work of the stream before the source is read, and for the copy */
};

/* A block of leat's pool, or a request for one. */
struct engine_block {
    int device;
    void *context, *stream; /* the native stream in whose order it is allocated or freed */
    size_t bytes;
    bool once; /* do not remember the stream */
};

/* What the pool of a device holds. */
struct engine_figures {
    uint64_t used_bytes, used_peak_bytes, reserved_bytes, reserved_peak_bytes; /* used: as requested */
};

/* How the calls of the program are recorded. */
enum engine_tracing { ENGINE_NOT_TRACED, ENGINE_BY_CUPTI, ENGINE_BY_EVENTS };

/* As enum leati_trace_memory. */
enum engine_memory {
    ENGINE_MEMORY_UNKNOWN,
    ENGINE_MEMORY_PAGEABLE,
    ENGINE_MEMORY_PINNED,
    ENGINE_MEMORY_DEVICE,
    ENGINE_MEMORY_MANAGED
};

enum engine_kind { ENGINE_COPY, ENGINE_FILL, ENGINE_KERNEL, ENGINE_WAIT, ENGINE_ALLOC, ENGINE_FREE };

/* A call of the driver that the program makes, and that is recorded by events around it. */
struct engine_call {
    enum engine_kind kind;
    const char *name; /* a constant */
    const void *caller;
    bool timed; /* it is work of stream, in the current context of device; the device's times are recorded */
    bool waits; /* it returns when the work is complete */
    int device;
    void *context, *stream;
    uint64_t bytes;
    const void *address; /* the source of a copy, or what is filled */
    enum engine_memory from, to;
};

struct engine {
    int version;
    /* Makes a copy of pageable memory. Returns when a destination in host memory is complete, when a source in
     * host memory has been read, and, with sync, when the copy is complete. message: message_bytes bytes for the
     * reason of a failure. */
    enum engine_result (*copy)(const struct engine_copy *copy, char *message, size_t message_bytes);
    /* Closes leat's device, and with it its reference to the primary context. The next copy opens it again. */
    void (*close)(int device);
    /* Maps memory and populates it with several threads. Returns NULL with a message if that fails, and if the
     * system could then run out of memory. */
    void *(*map)(size_t bytes, char *message, size_t message_bytes);
    void (*unmap)(void *memory, size_t bytes);

    /* leat's pool of a device. The caller must not call close() and pool_leave_stream() during the others. Streams
     * are remembered until pool_leave_stream(). */
    enum engine_result (*pool_alloc)(const struct engine_block *wanted, uint64_t *ptr, char *message,
                                     size_t message_bytes);
    enum engine_result (*pool_free)(uint64_t ptr, const struct engine_block *given, char *message,
                                    size_t message_bytes);
    enum engine_result (*pool_free_now)(uint64_t ptr); /* all work that uses the block is complete */
    /* Returns true if the pool remembers the stream. */
    bool (*pool_knows)(int device, void *stream);
    /* Forgets a stream of all devices, or, if stream is NULL, all streams, and records which work of theirs still
     * uses freed memory. */
    void (*pool_leave_stream)(void *stream);
    /* Finds the block that contains an address. */
    bool (*pool_find)(uint64_t ptr, uint64_t *base);
    /* Returns idle memory beyond some bytes to the driver. Returns true if there was any. */
    bool (*pool_trim)(int device, uint64_t keep_bytes);
    struct engine_figures (*pool_figures)(int device);

    /* Records this process to a trace file: leat's operations, and CUDA's calls and their work. cupti: the file of
     * CUPTI; NULL: looks for it; "none": does without. text receives how calls are recorded, or why nothing is.
     * Call it once, after cuInit(). */
    enum engine_tracing (*trace)(const char *path, const char *cupti, char *text, size_t text_bytes);
    /* Record a call, if trace() has returned ENGINE_BY_EVENTS. After call_begin(), call_end() must be called.
     * failed: the driver's call has failed. */
    void (*call_begin)(const struct engine_call *call);
    void (*call_end)(bool failed);
    /* As leat_trace_range_push() and its like. */
    void (*range_push)(const char *name);
    void (*range_pop)(void);
    void (*mark)(const char *name, uint64_t value);
};

#endif
