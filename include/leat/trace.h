/*
 * leat/trace.h - records where the time of a program goes: its copies, kernels, waits and allocations, with times.
 *
 * Model. Between leat_trace_start() and leat_trace_stop() leat writes each operation of the process to a file: the
 * times of the call on the host; for work of a device, when its stream reached the work and when the work was
 * complete; bytes, kinds of memory, stream, protocol, the caller. 'leat trace FILE' shows what it means;
 * docs/trace.md has the format. A program needs no call of this header: LEAT_TRACE=FILE traces the whole of any
 * program.
 *
 *     leat_trace_start("step.trace", NULL);
 *     leat_trace_range_push("training step");
 *     ...
 *     leat_trace_range_pop();
 *     leat_device_synchronize(device);
 *     leat_trace_stop(NULL);
 *
 * There is one trace at a time in a process. Ranges are parts of the program that its threads name. They nest: the
 * operations that a thread starts in a range belong to it.
 *
 * Cost. While nothing is traced, an operation costs one test more. docs/trace.md has what it costs in a trace.
 * Threads pass their operations to a thread of leat's through rings of fixed size. If a ring is full, leat drops
 * the operation and counts it.
 *
 * The file is written every few milliseconds, and has what was written even if the process is killed. A child of
 * fork() is not traced, and does not write to its parent's file.
 *
 * Threads. Any thread may make any call here, also inside a host function. Ranges belong to the thread that pushes
 * them.
 */
#ifndef LEAT_TRACE_H
#define LEAT_TRACE_H

#include <leat/base.h>
#include <leat/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef LEAT_NO_EXPERIMENTAL /* may still change: see leat/version.h */

/* Flags of leat_trace_options. */
#define LEAT_TRACE_HOST_ONLY 1u /* only times of the host: costs less, since no driver is called */

/* Options of a trace. Start with LEAT_TRACE_OPTIONS_INIT: zero selects the default of each field. */
typedef struct leat_trace_options {
    size_t size;    /* sizeof(leat_trace_options): leat/base.h */
    uint32_t flags; /* LEAT_TRACE_HOST_ONLY, or 0 */
    uint32_t reserved;
} leat_trace_options;
#define LEAT_TRACE_OPTIONS_INIT LEAT_SIZED_INIT_(leat_trace_options)

/* What leat_trace_stop() returns. */
typedef struct leat_trace_stats {
    size_t size;         /* sizeof(leat_trace_stats): leat/base.h */
    uint64_t ops;        /* operations in the file */
    uint64_t lost_ops;   /* operations that were dropped because a thread's ring was full */
    uint64_t lost_times; /* operations whose device times could not be learned */
    uint64_t file_bytes;
} leat_trace_stats;
#define LEAT_TRACE_STATS_INIT LEAT_SIZED_INIT_(leat_trace_stats)

/*
 * Starts a trace. path: the file, which leat makes, or empties if it is there; "%p" in it stands for the process
 * ID. options may be NULL. Operations that are under way are not recorded. Errors: INVALID (path NULL or empty,
 * options->size as leat/base.h says, an unknown flag), BUSY (a trace is being recorded), FILE (the file cannot be
 * written, or another process is recording to it), HOST_MEMORY, SYSTEM.
 */
LEAT_NODISCARD LEAT_API leat_status leat_trace_start(const char *path, const leat_trace_options *options);

/*
 * Stops the trace and closes the file. Device times of work that is not complete are not recorded, so wait for the
 * device before. stats may be NULL.
 * Errors: INVALID (nothing is being recorded, stats->size as leat/base.h says); FILE (the file could not be
 * written to its end, for instance because the disk is full; it can be read as far as it was written, and nothing
 * is recorded any more).
 */
LEAT_NODISCARD LEAT_API leat_status leat_trace_stop(leat_trace_stats *stats);

/* Begins a range of this thread. Does nothing if nothing is being recorded. leat copies name, up to 1024 bytes. A
 * thread may have 32 ranges open at once; leat does not record more. name NULL counts as "". Use few names, since
 * leat keeps each until the process ends: 32768 at most, and 4 MiB of them. */
LEAT_API void leat_trace_range_push(const char *name);

/* Ends the range that this thread has pushed last. Does nothing if there is none. A range is recorded when it
 * ends, if it began in the same trace. */
LEAT_API void leat_trace_range_pop(void);

/* Records a moment of this thread, and a number of the program's choice. name: as above. */
LEAT_API void leat_trace_mark(const char *name, uint64_t value);

#endif /* LEAT_NO_EXPERIMENTAL */

#ifdef __cplusplus
}
#endif

#endif
