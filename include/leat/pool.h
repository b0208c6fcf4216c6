/*
 * leat/pool.h - manages the memory pools from which leat_alloc() gets its memory: limits, policies, statistics.
 *
 * Model. A pool holds memory of one kind (device, pinned or managed) of one device and hands out blocks of it in
 * stream order. leat_free() returns a block to its pool. Work submitted to the same stream later may use the
 * memory at once, without an event and without a driver call. Another stream may use it as soon as that stream is
 * ordered after the free. The pool learns this order from the waits that the program makes anyway, by asking the
 * device, or by making the new stream wait, as the pool's policy says. Pools do not make the host wait, with two
 * exceptions: the last attempt before a request fails with "out of memory", and a pool without virtual memory that
 * returns chunks to the driver, where the driver's own call may wait for the device. (Guard mode, below, waits
 * too.)
 *
 * A device pool reserves one large address range and maps physical pages into it. A mapped page stays where it is.
 * (Only when there is no other memory, small blocks may take over idle pages of large ones.) If enough memory is
 * idle for a request, but not in one piece, the pool builds a stitched block: it maps idle pages a second time, at
 * adjacent addresses (enum leat_pool_packing says when). So a request fails only when the device is full or a
 * limit is reached. Where a driver has no virtual memory, and for pinned and managed memory, a pool splits and
 * joins chunks instead. docs/pools.md explains all of this.
 *
 * Each device has a default pool for each kind. leat_alloc() uses the default pool for device memory,
 * leat_memory_alloc() the default pool for the requested kind. A program may also create pools with their own
 * limits, policies and names.
 *
 * Call order. leat_pool_create() or leat_pool_default(), leat_pool_alloc(), leat_free() (leat/memory.h),
 * leat_pool_destroy(). leat_free() and leat_memory_free() free the blocks of all pools; they find the pool from
 * the pointer. Closing the device destroys its pools.
 *
 *     leat_pool *pinned;
 *     leat_pool_default(device, LEAT_KIND_PINNED, &pinned);
 *     leat_pool_alloc(stream, pinned, bytes, &host);
 *     leat_copy(stream, host, d, bytes);
 *     leat_free(stream, host);          // the copy above still completes in this memory
 *
 * Order. Work that is submitted to the block's stream after leat_pool_alloc() may use the block. Work of another
 * stream that uses it must be ordered after that point, by an event. Before the block is freed, one of two things
 * must be done for that work: either the stream that frees is ordered after it, or the program reports it to the
 * pool with leat_block_use() or leat_block_use_until(). A block that no work has used may be freed on any stream.
 * CUDA's per-thread default stream (leat_stream_wrap()) is a different stream in each thread, so memory that is
 * freed on it is reused only once that work is complete, and each such free costs an event.
 *
 * Other devices. leat_copy() copies between the pools of all devices of a driver. Kernels of another GPU can
 * access pinned and managed memory. They can access memory of a device pool after the first leat_copy() between
 * the two devices, which enables peer access where the hardware supports it.
 *
 * Threads. Any thread may make any call, and two threads may use one stream. Threads that mostly use different
 * streams do not wait for each other. This holds for at most eight pools of a device at a time, the first ones
 * created; calls on further pools take the pool's lock.
 */
#ifndef LEAT_POOL_H
#define LEAT_POOL_H

#include <leat/device.h>
#include <leat/memory.h>
#include <leat/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leat_pool leat_pool;
typedef struct leat_budget leat_budget;

/* What a pool may do with memory that another stream has freed but may still be using. Memory may be reused under
 * every policy if leat knows that the new stream is ordered after the free, or that the work is complete. */
typedef enum leat_pool_reuse {
    LEAT_POOL_REUSE_WAIT_LAST = 0, /* make the new stream wait for that use, but only if no other memory is left */
    LEAT_POOL_REUSE_WAIT = 1,      /* make the new stream wait for that use before growing the pool */
    LEAT_POOL_REUSE_WAIT_NEVER = 2 /* never make a stream wait */
} leat_pool_reuse;

/*
 * What a device pool does when no idle memory fits in one piece, although the idle pieces together may be large
 * enough. It can get new memory from the driver. Or it can build a "stitched" block: it maps whole idle pages from
 * different places a second time, at adjacent addresses. The first choice holds more memory; the second takes
 * driver calls the first time a program needs that block. Neither waits for the device.
 */
typedef enum leat_pool_packing {
    /* as STILL while the driver has memory and the pool holds at most 4 % more than the peak in use; otherwise as
     * TIGHT */
    LEAT_POOL_PACKING_AUTO = 0,
    LEAT_POOL_PACKING_STILL = 1, /* only new memory, never stitched blocks */
    LEAT_POOL_PACKING_TIGHT = 2  /* stitched blocks first, new memory only for what is still missing */
} leat_pool_packing;

/* Options for a new pool. Start with LEAT_POOL_OPTIONS_INIT: zero selects the default of each field. */
typedef struct leat_pool_options {
    size_t size;      /* sizeof(leat_pool_options): leat/base.h */
    const char *name; /* name in reports; leat copies it; NULL: "pool" and a number */
    leat_kind kind;   /* DEVICE, PINNED or MANAGED; 0: DEVICE */
    leat_pool_reuse reuse;
    uint64_t limit_bytes;      /* limit of the physical memory that the pool holds; 0: no limit */
    uint64_t soft_limit_bytes; /* above this, the next search for memory releases idle memory; 0: none */
    leat_budget *budget;       /* budget that the pool shares with other pools; NULL: none */
    uint8_t dedicated;         /* 1: each block has its own physical memory of whole 2 MiB (for RDMA, NCCL, IPC) */
    uint8_t exportable;        /* 1: leat_block_export() accepts its blocks; needs dedicated */
    uint8_t no_virtual_memory; /* 1: do not use virtual memory even where the driver has it */
    uint8_t guard;             /* 1: like LEAT_POOL_GUARD=1, for this pool alone */
    uint8_t scrub;             /* 1: like LEAT_SCRUB=1, for this pool alone */
    uint32_t history;          /* number of events that leat_pool_history() keeps; 0: as LEAT_POOL_HISTORY says */
    leat_pool_packing packing; /* only device pools with virtual memory have stitched blocks. AUTO: as
                                  LEAT_POOL_PACKING says */
    const char *plan;          /* file written by 'leat plan' with the place of each large block; NULL: none. Only
                                  for device memory, without dedicated and no_virtual_memory; ignored with guard,
                                  scrub, history or LEAT_POOL_BACKTRACES, and where there is no virtual memory */
} leat_pool_options;
#define LEAT_POOL_OPTIONS_INIT LEAT_SIZED_INIT_(leat_pool_options)

/*
 * Creates a pool. options may be NULL: all defaults. The pool holds no memory until the first allocation.
 * Errors: HANDLE (device, or budget), INVALID (pool NULL; options->size as leat/base.h says; an
 * unknown kind, policy or packing; the soft limit above the limit; exportable without dedicated; dedicated with
 * no_virtual_memory; a plan with a kind other than DEVICE, with dedicated or with no_virtual_memory; a plan that
 * 'leat plan' did not write; an invalid value of LEAT_POOL_HISTORY or LEAT_POOL_PACKING), SYSTEM (the plan cannot
 * be opened), UNSUPPORTED (no managed memory; dedicated where there is no virtual memory), HOST_MEMORY, DRIVER,
 * NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_pool_create(leat_device *device, const leat_pool_options *options,
                                                     leat_pool **pool);

/*
 * Destroys a pool and returns its memory to the driver. The call waits for the work that still uses freed blocks.
 * While blocks are live, it returns LEAT_ERROR_BUSY and the pool stays usable; the message counts the live blocks
 * and names the largest. A default pool cannot be destroyed: NOT_PERMITTED. NULL does nothing.
 * Errors: HANDLE, BUSY, NOT_PERMITTED, DRIVER (the pool is destroyed anyway).
 */
LEAT_API leat_status leat_pool_destroy(leat_pool *pool);

/*
 * Returns the default pool of a device for DEVICE, PINNED or MANAGED memory; the first call for a kind creates it.
 * The pool belongs to the device.
 * Errors: HANDLE, INVALID (another kind; pool NULL; an invalid value of LEAT_POOL_HISTORY, LEAT_POOL_PACKING or
 * LEAT_POOL_PLAN), SYSTEM (the plan cannot be opened), UNSUPPORTED (no managed memory), HOST_MEMORY, DRIVER,
 * NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_pool_default(leat_device *device, leat_kind kind, leat_pool **pool);

/*
 * Allocates a block of pool for work on stream. It is aligned to 512 bytes; its contents are undefined (zeros with
 * LEAT_SCRUB). This is leat_alloc() with a pool that the caller chooses. stream NULL: the block is ready for the
 * host and for every stream when the call returns, as with leat_memory_alloc(). bytes 0: *ptr becomes NULL.
 * Errors: HANDLE, INVALID (ptr NULL, stream of another device), DEVICE_MEMORY (HOST_MEMORY for a pinned pool): the
 * device is full or a limit is reached. The first line of leat_last_error() then says how much memory is idle and
 * in how many pieces, what is live, and what is pending (freed, but perhaps still in use) on which streams; the
 * second line says what to do about it. HOST_MEMORY (for the pool's records), DRIVER, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_pool_alloc(leat_stream *stream, leat_pool *pool, size_t bytes,
                                                    void **ptr);

/* leat_pool_alloc() with an alignment: a power of two up to 1 GiB. 0 and powers of two below 512 give the usual
 * alignment of 512 bytes.
 * Errors: as leat_pool_alloc(); INVALID also for any other alignment. */
LEAT_NODISCARD LEAT_API leat_status leat_pool_alloc_aligned(leat_stream *stream, leat_pool *pool, size_t bytes,
                                                            size_t alignment, void **ptr);

/*
 * Reports that work submitted to stream so far uses the block that starts at ptr. When the block is freed, the
 * pool notes how much work stream has at that moment, and does not reuse the block before stream has completed it.
 * May be called several times, for several streams. (PyTorch calls this record_stream. Here the host need not poll
 * to get the memory back.)
 * Errors: HANDLE, POINTER (not the start of a live block of a pool), UNSUPPORTED (stream of another driver),
 * HOST_MEMORY, DRIVER, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_block_use(leat_stream *stream, void *ptr);

/*
 * leat_block_use() with an event of the caller's: after the block is freed, the pool does not reuse it before the
 * current record of event is reached. The event may be recorded again or destroyed after the call. An event that
 * was never recorded has no effect.
 * Errors: HANDLE, POINTER (as leat_block_use()), UNSUPPORTED (event of another driver), HOST_MEMORY, DRIVER,
 * NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_block_use_until(leat_event *event, void *ptr);

/* The methods by which a stream may get memory that another stream has freed; combine with |. */
typedef enum leat_pool_reuse_method {
    LEAT_POOL_REUSE_METHOD_ORDERED = 1,  /* the program's own waits order the stream after the free */
    LEAT_POOL_REUSE_METHOD_FINISHED = 2, /* the pool asks the device, and the work before the free is complete */
    /* the pool makes the stream wait, or as a last resort the host, as its policy says */
    LEAT_POOL_REUSE_METHOD_WAITING = 4,
    LEAT_POOL_REUSE_METHOD_ALL = 7
} leat_pool_reuse_method;

/*
 * Selects the methods by which memory of the pool may pass from one stream to another. methods: any combination of
 * leat_pool_reuse_method; 0: none. A new pool uses all of them. The call also applies to memory that is already
 * freed. Two kinds of memory are always reusable: a stream's own freed memory, by that stream; and, by every
 * stream, memory whose work leat knows to be complete without the pool asking for it, because the program waited
 * for that stream or queried it, or because the pool was trimmed. Without LEAT_POOL_REUSE_METHOD_WAITING the host
 * does not wait either: a request fails if there is no other memory.
 * Errors: HANDLE, INVALID (unknown methods), NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_pool_set_reuse_methods(leat_pool *pool, uint32_t methods);

/* ---- limits ---------------------------------------------------------------------------------------------- */

/*
 * Changes the limits of a pool; 0: none. A hard limit below what is in use is refused with BUSY, and the message
 * has both figures. If the hard limit is below what the pool holds, the pool first releases idle memory. A soft
 * limit may be below what is in use.
 * Errors: HANDLE, INVALID (soft above hard), BUSY, DRIVER, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_pool_set_limits(leat_pool *pool, uint64_t limit_bytes,
                                                         uint64_t soft_limit_bytes);

/*
 * Returns idle physical memory to the driver until the pool holds keep_bytes or less. The pool returns whole pages
 * of 2 MiB and more, or whole chunks, in which no block is live. The call waits for no work: memory whose last
 * work is not complete stays in the pool and is counted in *pending_bytes. (For chunks of a pool without virtual
 * memory the driver's own call may wait for the device.) *released_bytes: the bytes returned. Both pointers may be
 * NULL. To release everything that is idle, synchronize the device first and pass keep_bytes 0.
 * Errors: HANDLE, DRIVER, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_pool_trim(leat_pool *pool, uint64_t keep_bytes, uint64_t *released_bytes,
                                                   uint64_t *pending_bytes);

/* leat_pool_trim() for memory that has been idle for at least idle_ms milliseconds. */
LEAT_NODISCARD LEAT_API leat_status leat_pool_trim_idle(leat_pool *pool, uint64_t idle_ms,
                                                        uint64_t *released_bytes, uint64_t *pending_bytes);

/*
 * A pool calls this function when it can get no memory for a request, after it has tried all idle memory of this
 * and other pools and before the request fails. Return 1 if the function made room and the pool should try again
 * (at most 64 times for one request), 0 to let the request fail. The function may free blocks, allocate from other
 * pools, allocate from this pool (which then does not call the function again), and destroy streams and events. It
 * runs on the thread that made the request, with no lock of leat held.
 */
typedef int (*leat_pool_full_function)(void *argument, leat_pool *pool, uint64_t bytes);

/* Sets the function that the pool calls when it is full; NULL removes it. Errors: HANDLE. */
LEAT_NODISCARD LEAT_API leat_status leat_pool_on_full(leat_pool *pool, leat_pool_full_function function,
                                                      void *argument);

/*
 * A budget limits the physical memory that several pools, of any devices, hold together. A pool that cannot grow
 * within it first takes idle memory from the others. leat_budget_destroy(NULL) does nothing.
 * Errors: of leat_budget_create(): INVALID (budget NULL, limit 0), HOST_MEMORY. Of leat_budget_destroy(): HANDLE,
 * BUSY (a pool still uses it).
 */
LEAT_NODISCARD LEAT_API leat_status leat_budget_create(uint64_t limit_bytes, leat_budget **budget);
LEAT_API leat_status leat_budget_destroy(leat_budget *budget);

/* Returns a budget's limit and how much of it is used. Either pointer may be NULL. Errors: HANDLE. */
LEAT_NODISCARD LEAT_API leat_status leat_budget_query(leat_budget *budget, uint64_t *limit_bytes,
                                                      uint64_t *used_bytes);

/*
 * ---- guard mode ------------------------------------------------------------------------------------------
 *
 * LEAT_POOL_GUARD=1, or options.guard for one pool, detects wrong use of blocks, on every device. It costs fills,
 * copies and waits at each call, and memory. It is for debugging, not for production.
 *
 * Red zones. At least 512 bytes before and after each block hold 0xfd. leat_free() and leat_memory_free() check
 * them. For that they wait for their stream and for the uses reported by leat_block_use() and
 * leat_block_use_until(). If a red zone was overwritten, they return LEAT_ERROR_RANGE. The message says how many
 * bytes before or after the block were overwritten, the offset and value of the first one, where the block was
 * allocated and where it was freed. leat then restores the red zones, and the block is still live, so that it can
 * be freed again.
 *
 * Contents. A new block holds 0xcd (zeros with scrub), a freed block 0xdd.
 *
 * Use after free. Freed blocks go into quarantine: a pool keeps the latest 64 of them, and at most 64 MiB, until
 * it needs memory, is trimmed, gets lower limits or is destroyed. (A block of more than 64 MiB is checked and
 * released at once.) When a block leaves quarantine, leat checks whether it was written. If so, it reports that on
 * standard error, with the backtraces of allocation and free, and counts it in guard_reports. A call of leat that
 * gets a pointer into a freed block says in its message where the block was allocated and freed.
 *
 * Missing order. leat_copy(), leat_fill() and leat_fill_pattern() return LEAT_ERROR_NOT_PERMITTED, with both
 * backtraces, if all of the following holds: another stream has not yet reached its allocation of the block, or
 * the latest write to the same bytes by one of these calls (for a call that writes: also the latest read), and no
 * event orders this stream after that allocation or access. leat does not see the accesses of kernels. It does not
 * check a stream that waited for more than eight others, or a stream that may be ordered by other means because it
 * is wrapped or its native handle was requested. leat cannot see an order that host functions create by waiting
 * for each other.
 *
 * A block with an alignment of more than 512 bytes needs as many extra bytes in front of it. Blocks of pools with
 * exportable have neither red zones nor fill patterns, because other processes may write to them.
 *
 * Backtraces, which LEAT_POOL_BACKTRACES=1 records without guard mode, are stored as addresses and converted to
 * text only for output: "function+offset (library)" where the dynamic linker knows the function (link with
 * -rdynamic), otherwise "program+offset"; 'addr2line -f -e program offset' prints its source line. They appear in
 * snapshots, in the list of LEAT_LEAKS=1, and in the error of a full pool.
 */

/* ---- sharing with other processes ------------------------------------------------------------------------ */

/*
 * Creates a file descriptor for the physical memory of the block that starts at ptr, of a pool with exportable.
 * Another process maps the memory with leat_block_import(); send it the descriptor over a Unix socket
 * (SCM_RIGHTS). The caller closes the descriptor. The memory lives until every process has released it. *bytes
 * becomes the size for leat_block_import().
 *
 * A process that received the descriptor can read and write the block's pages, and nothing else of the pool. On
 * the CPU device the descriptor is sealed, so the process cannot change their size. The process keeps access to
 * these pages until it releases them, even after leat_free(), when they may serve another block of the pool;
 * leat_pool_trim() removes such pages from the pool when they are idle. A pool with scrub clears a block in the order
 * of the stream that allocated it: wait for that stream before you send the descriptor.
 * Errors: INVALID (fd or bytes NULL), POINTER (not a live block of an exportable pool), DRIVER, SYSTEM,
 * NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_block_export(void *ptr, int *fd, size_t *bytes);

/*
 * Maps memory that this or another process exported. bytes: the size from leat_block_export(). The caller still
 * owns fd. Free the memory with leat_memory_free(). The CPU device accepts only memory files with the seals of an
 * export, because another file could be truncated while it is mapped.
 * Errors: HANDLE, INVALID (ptr NULL, bytes 0, fd is not exported memory of that size), UNSUPPORTED (no virtual
 * memory), HOST_MEMORY, DRIVER, SYSTEM, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_block_import(leat_device *device, int fd, size_t bytes, void **ptr);

/* ---- seeing ---------------------------------------------------------------------------------------------- */

/*
 * Sets the tag for the calling thread's future allocations, for statistics, snapshots and reports; NULL removes
 * it. The tag is copied, up to 31 bytes, without splitting a UTF-8 character. A process has 62 tags; further names
 * count as "other".
 * Errors: none.
 */
LEAT_API leat_status leat_thread_set_tag(const char *tag);

/* Figures of a pool: bytes now, and counts since the pool was created. They are read without stopping other
 * threads, so related figures may be from slightly different moments. */
typedef struct leat_pool_stats {
    size_t size;                   /* sizeof(leat_pool_stats): leat/base.h */
    uint64_t requested_bytes;      /* bytes requested for the live blocks */
    uint64_t requested_peak_bytes; /* peak of requested_bytes; exact while one thread uses the pool on one
                                      stream, otherwise the highest value at the times when the pool had to look
                                      for memory */
    uint64_t used_bytes;           /* live, rounded up to 512 bytes (dedicated: to 2 MiB), with red zones */
    uint64_t reserved_bytes;       /* physical memory that the pool holds from the driver */
    uint64_t reserved_peak_bytes;
    uint64_t pending_bytes; /* freed, but at the last check other streams were still using it */
    uint64_t live_blocks;
    uint64_t allocations, frees, failures;
    uint64_t cache_hits;   /* allocations that took no lock except that of a magazine of their stream */
    uint64_t driver_calls; /* memory calls: reserve, create, map, set access, unmap, release, allocate, free... */
    uint64_t driver_ns;    /* time spent in these calls */
    uint64_t pages_created, pages_stitched, pages_released; /* bytes of pages: got from the driver; mapped again
                                                               for stitched blocks; returned to the driver */
    uint64_t events, queries, stream_waits;                 /* driver calls that order the reuse of memory */
    uint64_t host_waits;       /* times that the host waited for the device, not counting guard mode */
    uint64_t callbacks;        /* calls of the function set by leat_pool_on_full() */
    uint64_t guard_reports;    /* overwritten red zones and other errors that guard mode found */
    uint64_t stitches;         /* allocations that returned a stitched block */
    uint64_t stitch_reuses;    /* stitches whose pages were already mapped */
    uint64_t planned;          /* allocations at the place that the pool's plan has for them */
    leat_pool_packing packing; /* the mode when the pool last looked for memory: STILL or TIGHT */
} leat_pool_stats;
#define LEAT_POOL_STATS_INIT LEAT_SIZED_INIT_(leat_pool_stats)

/* Returns the figures of a pool. Errors: HANDLE, INVALID (statistics NULL, or its size). */
LEAT_NODISCARD LEAT_API leat_status leat_pool_get_stats(leat_pool *pool, leat_pool_stats *statistics);

/* One row of the statistics by stream or by tag. */
typedef struct leat_pool_share {
    size_t size;         /* sizeof(leat_pool_share): leat/base.h */
    char name[32];       /* "stream 12", "host", or the tag; "" for blocks without a tag */
    leat_stream *stream; /* NULL: a tag, or a stream that was destroyed, or the host */
    uint64_t requested_bytes;
    uint64_t live_blocks;
    uint64_t cached_bytes; /* freed on this stream and kept for it; 0 for tags */
} leat_pool_share;
#define LEAT_POOL_SHARE_INIT LEAT_SIZED_INIT_(leat_pool_share)

/* Returns the figures of one stream, or of one tag. index: 0, 1, ...; past the last one the call returns
 * NOT_FOUND.
 * Errors: HANDLE, INVALID (share NULL, or its size), NOT_FOUND. */
LEAT_NODISCARD LEAT_API leat_status leat_pool_get_stream_share(leat_pool *pool, unsigned index,
                                                               leat_pool_share *share);
LEAT_NODISCARD LEAT_API leat_status leat_pool_get_tag_share(leat_pool *pool, unsigned index,
                                                            leat_pool_share *share);

/* The kinds of events in leat_pool_history(). */
typedef enum leat_pool_action {
    LEAT_POOL_ACTION_ALLOC = 1,
    LEAT_POOL_ACTION_FREE = 2,
    LEAT_POOL_ACTION_GROW = 3,    /* the pool got physical memory from the driver */
    LEAT_POOL_ACTION_MAP = 4,     /* physical memory was mapped, for the first time or for a stitched block */
    LEAT_POOL_ACTION_RELEASE = 5, /* the pool returned physical memory to the driver */
    LEAT_POOL_ACTION_FULL = 6     /* the pool had no memory for a request */
} leat_pool_action;

/* One event. Does not grow: it is an element of an array. */
typedef struct leat_pool_event {
    uint64_t time_ns; /* time since the pool was created */
    void *ptr;
    uint64_t bytes;
    uint64_t stream; /* number of the stream; 0: none */
    leat_pool_action action;
    uint32_t tag; /* index for leat_pool_get_tag_share() */
} leat_pool_event;

/* Returns the latest events of a pool that keeps a history, oldest first. *count: in, the room in events; out, the
 * number of events written.
 * Errors: HANDLE, INVALID (events or count NULL), UNSUPPORTED (the pool keeps no history). */
LEAT_NODISCARD LEAT_API leat_status leat_pool_history(leat_pool *pool, leat_pool_event *events, size_t *count);

/*
 * Writes the state of a pool as JSON, piece by piece, to write(argument, text, bytes): figures, streams, tags, and
 * every extent of its addresses with its state, stream, tag and, in guard mode or with LEAT_POOL_BACKTRACES,
 * backtrace. 'leat pool-map' draws it. The states are:
 *
 *     live      allocated
 *     cached    freed; kept whole for its stream or by guard mode
 *     free      idle
 *     pending   freed; waits for other streams
 *     in_stitch a stitched block uses its memory
 *     dormant   addresses of a stitched or planned block that is not in use
 *     stale     given up, but earlier work may still use the addresses
 *     hole      addresses without memory
 *
 * The text is UTF-8: bytes of names and tags that are not valid UTF-8 become U+FFFD. leat holds the pool's lock
 * during the call, so write must not call leat.
 * Errors: HANDLE, INVALID (write NULL), HOST_MEMORY, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_pool_snapshot(leat_pool *pool,
                                                       void (*write)(void *argument, const char *text,
                                                                     size_t bytes),
                                                       void *argument);

#ifdef __cplusplus
}
#endif

#endif
