/*
 * run_table.h - the counters of "leat run": a table in shared memory that the command creates and prints, and that
 * the preloaded library of each process fills.
 *
 * The command keeps the table in a memory file and passes its path in the environment (RUN_TABLE_VARIABLE). A
 * process takes a slot at its first CUDA call. Counts of a process that crashes are therefore not lost.
 */
#ifndef RUN_TABLE_H
#define RUN_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

/* Not options of leat, so their names do not begin with LEAT_. */
#define RUN_TABLE_VARIABLE "LEATRUN_TABLE" /* the path of the table */
#define RUN_MODE_VARIABLE "LEATRUN_MODE"   /* RUN_MODE_LOG: observe only; anything else: serve */
#define RUN_MODE_LOG "log"
#define RUN_LEAST_VARIABLE "LEATRUN_LEAST" /* bytes of the shortest copy that leat makes; unset: the default */

/* Its default. From it on, copies were 1.2 times as fast as the driver's and more after rests of 0 to 100 ms;
 * those of 4 MiB 1.0 times and more, and those of 1 MiB slower (docs/drop-in.md). */
#define RUN_LEAST_BYTES (UINT64_C(8) << 20)

#define RUN_PINNED_VARIABLE "LEATRUN_PINNED" /* "1": leat serves pinned allocations */

#define RUN_POOL_VARIABLE "LEATRUN_POOL" /* "1": leat serves allocations of device memory */

/* The default for batches, whose copies the driver makes one by one. */
#define RUN_BATCH_LEAST_BYTES ((uint64_t)4 << 20)

#define RUN_TRACE_VARIABLE "LEATRUN_TRACE" /* the file of the trace; unset or empty: none */
#define RUN_CUPTI_VARIABLE "LEATRUN_CUPTI" /* the file of CUPTI; "none": events; unset: leat looks for it */

/* For tests: a file in the place of /proc/loadavg. */
#define RUN_LOAD_VARIABLE "LEATRUN_LOADAVG"

/* The shortest pinned allocation that leat makes. */
#define RUN_PINNED_LEAST_BYTES ((size_t)8 << 20)

/* Changes with the layout of the table, so that a library of another version does not write to it. */
#define RUN_TABLE_MAGIC UINT64_C(0x3174616572746c04)

/* The kinds of calls: the driver's names without the suffixes of versions and default streams. */
#define RUN_CALL_LIST(X)                                                                                          \
    X(HTOD, "cuMemcpyHtoD")                                                                                       \
    X(HTOD_ASYNC, "cuMemcpyHtoDAsync")                                                                            \
    X(DTOH, "cuMemcpyDtoH")                                                                                       \
    X(DTOH_ASYNC, "cuMemcpyDtoHAsync")                                                                            \
    X(COPY, "cuMemcpy")                                                                                           \
    X(COPY_ASYNC, "cuMemcpyAsync")                                                                                \
    X(COPY_2D, "cuMemcpy2D")                                                                                      \
    X(COPY_2D_UNALIGNED, "cuMemcpy2DUnaligned")                                                                   \
    X(COPY_2D_ASYNC, "cuMemcpy2DAsync")                                                                           \
    X(BATCH_ASYNC, "cuMemcpyBatchAsync")                                                                          \
    X(HOST_ALLOC, "cuMemHostAlloc")                                                                               \
    X(ALLOC_HOST, "cuMemAllocHost")                                                                               \
    X(FREE_HOST, "cuMemFreeHost")                                                                                 \
    X(ALLOC, "cuMemAlloc")                                                                                        \
    X(ALLOC_PITCH, "cuMemAllocPitch")                                                                             \
    X(ALLOC_ASYNC, "cuMemAllocAsync")                                                                             \
    X(ALLOC_FROM_POOL, "cuMemAllocFromPoolAsync")                                                                 \
    X(FREE, "cuMemFree")                                                                                          \
    X(FREE_ASYNC, "cuMemFreeAsync")

/* Where a call went: through leat, or to the driver, with the reason. */
#define RUN_OUTCOME_LIST(X)                                                                                       \
    X(LEAT, "leat")                                                                                               \
    X(OBSERVED, "driver: --log only observes; leat would have served the call")                                   \
    X(SHORT, "driver: too short for leat to be faster")                                                           \
    X(PINNED, "driver: the host side is pinned or registered")                                                    \
    X(MANAGED, "driver: managed memory")                                                                          \
    X(ON_DEVICE, "driver: both sides are on a device")                                                            \
    X(ON_HOST, "driver: both sides are in host memory")                                                           \
    X(ARRAY, "driver: a side is an array, or the rows are short or overlap")                                      \
    X(BUSY, "driver: most processors were busy, so leat would not have been faster")                              \
    X(BATCH, "driver: a batch with a mistake, or of copies in both directions")                                   \
    X(OTHER_DEVICE, "driver: the device side is not plain memory of the current device")                          \
    X(CAPTURE, "driver: a stream is capturing")                                                                   \
    X(CONTEXT, "driver: the context is not the device's primary one")                                             \
    X(FORKED, "driver: the process was forked after its parent had begun to copy through leat")                   \
    X(OLD_DRIVER, "driver: it lacks functions that leat needs")                                                   \
    X(NO_LEAT, "driver: leat did not start")                                                                      \
    X(FAILED, "driver: leat could not make the copy")                                                             \
    X(FAILED_ALLOC, "driver: leat could not make the allocation")                                                 \
    X(NO_PINNED, "driver: leat run was called without --pinned")                                                  \
    X(WRITE_COMBINED, "driver: write-combined memory")                                                            \
    X(NO_CONTEXT, "driver: no context is current")                                                                \
    X(NOT_KEPT, "driver: leat had kept no memory of this size")                                                   \
    X(OWN_POOL, "driver: a pool of the program's own")                                                            \
    X(SEVERAL_GPUS, "driver: there are several GPUs, and others may use the memory")                              \
    X(FULL, "driver: leat's pool could get no more memory")                                                       \
    X(SHARED, "driver: the memory was shared, or has attributes of its own")                                      \
    X(DRIVERS, "driver: memory of cuMemAlloc, which the driver frees in stream order")                            \
    X(NO_WAIT, "driver: the wait for the device has failed")                                                      \
    X(MUCH_KEPT, "driver: leat keeps much memory already")

enum run_call {
#define RUN_CALL(id, name) RUN_CALL_##id,
    RUN_CALL_LIST(RUN_CALL)
#undef RUN_CALL
        RUN_CALLS
};

/* The first call in the list that is no copy, and the first for device memory. */
#define RUN_CALL_COPIES RUN_CALL_HOST_ALLOC
#define RUN_CALL_DEVICE RUN_CALL_ALLOC

enum run_outcome {
#define RUN_OUTCOME(id, text) RUN_OUTCOME_##id,
    RUN_OUTCOME_LIST(RUN_OUTCOME)
#undef RUN_OUTCOME
        RUN_OUTCOMES
};

/* Counters of one kind of call and one outcome. They are only added up, so relaxed order suffices: the command
 * reads them after the process has ended, or accepts the values of a moment. */
struct run_count {
    atomic_uint_least64_t calls, bytes, ns; /* ns: the duration of the calls; 0 for calls that are not timed */
};

#define RUN_MESSAGE_BYTES 400
#define RUN_TRACED_BYTES 600

/* The counters of one process. */
struct run_process {
    atomic_int pid;
    atomic_int message_state;        /* 0: no message, 1: being written, 2: written */
    char message[RUN_MESSAGE_BYTES]; /* the first reason why leat failed in this process */
    atomic_int traced_state;         /* 0: no trace was asked for; 2: traced is written */
    char traced[RUN_TRACED_BYTES];   /* the file of the trace, and how it is recorded */
    struct run_count counts[RUN_CALLS][RUN_OUTCOMES];
};

/* When all slots are taken, the remaining processes share the last one. */
#define RUN_PROCESSES 64

struct run_table {
    uint64_t magic;
    atomic_uint processes; /* the number of processes that made CUDA calls; may exceed RUN_PROCESSES */
    atomic_uint traces;    /* the number of processes that began a trace */
    struct run_process slots[RUN_PROCESSES];
};

#endif
