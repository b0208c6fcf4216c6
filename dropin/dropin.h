/*
 * dropin.h - what the files of libleat-run share.
 *
 * libleat-run is the library that "leat run" preloads into a program. It replaces a few functions of the CUDA
 * driver (names.h) by functions that hand copies of pageable memory to leat, and all others to the driver. It
 * refers to no CUDA library and to no leat library: libleat-run-engine, which contains leat, is loaded at the
 * first copy or allocation that leat makes (engine.h). Nothing runs when the library is loaded.
 */
#ifndef DROPIN_H
#define DROPIN_H

#include "engine.h"
#include "names.h"
#include "run_table.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DROPIN_EXPORT __attribute__((visibility("default")))

/* ---- declarations of the driver API, as its manual has them ---- */

typedef int cu_result;
typedef int cu_device;
typedef uint64_t cu_address; /* CUdeviceptr */
typedef struct CUctx_st *cu_context;
typedef struct CUstream_st *cu_stream;
typedef struct CUmemPoolHandle_st *cu_pool;

enum {
    CU_SUCCESS = 0,
    CU_INVALID_VALUE = 1,
    CU_OUT_OF_MEMORY = 2,
    CU_NOT_INITIALIZED = 3,
    CU_NOT_FOUND = 500,
    CU_ALREADY_REGISTERED = 712,
    CU_NOT_REGISTERED = 713,
    CU_CAPTURE_UNSUPPORTED = 900,
    CU_CAPTURE_INVALIDATED = 901,

    CU_MEMORY_HOST = 1,
    CU_MEMORY_DEVICE = 2,
    CU_MEMORY_UNIFIED = 4,

    CU_POINTER_CONTEXT = 1,
    CU_POINTER_MEMORY_TYPE = 2,
    CU_POINTER_IS_MANAGED = 8,
    CU_POINTER_DEVICE_ORDINAL = 9,

    CU_CAPTURE_NONE = 0,
    CU_CAPTURE_MODE_RELAXED = 2,

    CU_LOOKUP_LEGACY_STREAM = 1,
    CU_LOOKUP_PER_THREAD_STREAM = 2
};

/* CUDA_MEMCPY2D */
struct cu_copy_2d {
    size_t src_x, src_y;
    unsigned src_type;
    const void *src_host;
    cu_address src_device;
    void *src_array;
    size_t src_pitch;
    size_t dst_x, dst_y;
    unsigned dst_type;
    void *dst_host;
    cu_address dst_device;
    void *dst_array;
    size_t dst_pitch;
    size_t width, height;
};

/* ---- lookup.c ---- */

/* The driver's functions that libleat-run calls without replacing them. Those that a driver lacks are NULL. */
struct dropin_driver {
    cu_result (*context_current)(cu_context *);
    cu_result (*context_device)(cu_device *);
    cu_result (*pointer_attributes)(unsigned, int *, void **, cu_address);
    cu_result (*stream_capturing)(cu_stream, int *);
    cu_result (*capture_mode)(int *);
    cu_result (*primary_state)(cu_device, unsigned *, int *);
    cu_result (*host_device_pointer)(cu_address *, void *, unsigned);
    bool complete; /* no function is missing */

    /* Only for --pool. */
    cu_result (*context_push)(cu_context);
    cu_result (*context_pop)(cu_context *);
    cu_result (*context_synchronize)(void);
    cu_result (*stream_synchronize)(cu_stream);
    cu_result (*device_count)(int *);
    cu_result (*device_total)(size_t *, cu_device);
    cu_result (*device_pool)(cu_pool *, cu_device);
    cu_result (*device_default_pool)(cu_pool *, cu_device);
    bool pool_complete;                            /* none of these is missing */
    cu_result (*stream_green)(cu_stream, void **); /* NULL before CUDA 12.4 */
};

extern struct dropin_driver dropin_driver;

/* Not 0 while this thread is in code of leat's. What leat calls and looks up goes to the driver and is not
 * counted. */
extern _Thread_local unsigned dropin_inside;

/* Returns the driver's own function, or NULL if libcuda.so.1 is not loaded or does not have it. */
void *dropin_real(enum dropin_name name);

/* Calls the real dlsym(). */
void *dropin_real_dlsym(void *handle, const char *name);

/* ---- count.c ---- */

/* Takes a slot of the table for this process, unless it has one. */
void dropin_count_begin(void);

void dropin_count(enum run_call call, enum run_outcome outcome, uint64_t bytes, uint64_t ns);

/* Keeps the first message of this process. */
void dropin_count_message(const char *message);

/* Returns how many processes began a trace before this one. Call it once in a process. */
unsigned dropin_count_traced(void);

/* Keeps the file of the trace of this process, and how it is recorded. */
void dropin_count_trace(const char *path, const char *how);

/* Returns true if the command only observes (leat run --log). */
bool dropin_only_observes(void);

/* Returns true if the process is to be recorded (leat run --trace). */
bool dropin_wants_trace(void);

/* Returns true if leat serves pinned allocations. */
bool dropin_serves_pinned(void);

/* Returns true if leat serves allocations of device memory. */
bool dropin_serves_pool(void);

/* Returns the bytes of the shortest copy that leat makes. Shorter ones are passed through without a question to
 * the driver. */
uint64_t dropin_least_bytes(void);

/* Returns true if the user has chosen that size. */
bool dropin_least_is_chosen(void);

uint64_t dropin_clock_ns(void);

/* ---- busy.c ---- */

/* Returns true if so many processors are busy that a copy of so many bytes by leat would be slower than the
 * driver's. Returns false if the user has chosen which copies leat makes. */
bool dropin_is_busy(uint64_t bytes);

/* leat has made a copy. */
void dropin_copy_ended(void);

/* ---- tracing.c ---- */

/* Begins the trace of this process, if one is wanted. Call it after cuInit(). */
void dropin_trace_begin(void);

/* Not 0 if calls are recorded by events around them. Relaxed: a hint, for a test that costs little. */
extern atomic_bool dropin_by_events;

/* What is recorded of a call. */
enum dropin_traced { DROPIN_COPY, DROPIN_FILL, DROPIN_KERNEL, DROPIN_WAIT, DROPIN_ALLOC, DROPIN_FREE };

struct dropin_call {
    enum dropin_traced kind;
    const char *name;   /* a constant */
    const void *caller; /* an address in the program */
    bool in_stream;     /* it is work of stream, and the call is recorded with the device's times */
    bool waits;         /* it returns when the work is complete */
    cu_stream stream;   /* with the handles of the default streams */
    uint64_t bytes;
    const void *dst, *src; /* copies, and fills: dst */
};

/* Record a call by events, if dropin_by_events. begin returns true if end must be called. They change nothing that
 * the program can see. */
bool dropin_call_begin(const struct dropin_call *call);
void dropin_call_end(cu_result code);

/* The same for a call that allocates or frees memory, if it is to be recorded by events. */
bool dropin_memory_begin(enum run_call call, uint64_t bytes, const void *caller);

/* copies.c: the names of calls, by enum run_call. */
extern const char *const dropin_call_names[RUN_CALLS];

/* ---- serve.c ---- */

/* A copy of a range or of rows, with the stream that it runs in. */
struct dropin_copy {
    void *dst;
    const void *src;
    size_t bytes, rows; /* bytes: of a row; rows: 1 for a range */
    size_t dst_pitch, src_pitch;
    cu_stream stream;
    bool sync;                   /* the call that waits, and first waits for earlier work of the stream */
    /* A batch: its copies; bytes is their sum. 0 copies: this is none. */
    const cu_address *batch_dsts, *batch_srcs;
    const size_t *batch_sizes;
    size_t batch_count;
    bool dst_host, src_host;     /* the caller has said that this side is in host memory ... */
    bool dst_device, src_device; /* ... or in device memory; neither: find out */
};

/* Makes the copy through leat if leat may and can make it. Returns RUN_OUTCOME_LEAT if the copy was made, and
 * otherwise the reason why the driver must make it. */
enum run_outcome dropin_serve(const struct dropin_copy *copy);

/* Returns the kind of memory at an address, as enum engine_memory. */
enum engine_memory dropin_memory_of(const void *ptr);

/* Returns the engine, which the first call loads, or NULL if it cannot be loaded. */
const struct engine *dropin_engine(void);

/* The same; returns NULL also after leat has failed to start on a device. */
const struct engine *dropin_usable_engine(void);

/* The engine, if it is loaded. */
const struct engine *dropin_loaded_engine(void);

/* Returns true in a child of fork() whose parent had begun to use leat, which leat cannot serve. */
bool dropin_is_forked(void);

/* Note changes of the program's references to a device's primary context. The last release and a reset first close
 * leat's device, which has a reference too. */
void dropin_context_retained(cu_device device);
void dropin_context_releasing(cu_device device);
void dropin_context_resetting(cu_device device);

/* Returns true if the program has retained the primary contexts of several devices. */
bool dropin_uses_several_devices(void);

/* Returns the primary context of a device, or NULL if it is not active. */
cu_context dropin_primary(cu_device device);

#endif
