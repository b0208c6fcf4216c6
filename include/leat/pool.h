/*
 * leat/pool.h - pools: where leat_alloc() gets its memory from, and everything that can be set and seen there.
 *
 * Model. A pool holds memory of one kind (device, pinned or managed) of one device and hands blocks of it out in
 * stream order. leat_free() gives a block back to its pool: work given to the same stream later may use it at
 * once, without an event and without the driver; another stream may use it as soon as it is ordered after the
 * free, which the pool finds out from the waits that the program made anyway, by asking the device, or by making
 * the new stream wait, as the pool's policy says. Nothing here waits on the host, but for the last step before the
 * error "out of memory", and where a pool without virtual memory gives chunks back: the driver's own call may wait
 * for the device then.
 *
 * Device pools reserve one large range of addresses and map physical pages there. What is mapped stays where it is
 * (only small blocks may take over idle pages of large ones, when there is no other memory). A request for which
 * enough is idle, but not in one piece, gets a block that is stitched together from idle pages, which are mapped once
 * more (enum leat_pool_packing says when). So it fails only when the device is full or a limit says so. Where a
 * driver has no virtual memory, and for pinned and managed memory, a pool splits and joins chunks. docs/pools.md
 * explains how all of it works.
 *
 * Each device has a default pool for each kind; leat_alloc() uses that for device memory, leat_memory_alloc() that
 * of the kind asked for. A program may make pools of its own, with limits, policies and names.
 *
 * Call order. leat_pool_create() or leat_pool_default(), leat_pool_alloc(), leat_free() (leat/memory.h),
 * leat_pool_destroy(). Blocks of all pools go back through leat_free() or leat_memory_free(), which find the pool
 * from the pointer. Closing the device destroys its pools.
 *
 *     leat_pool *pinned;
 *     leat_pool_default(device, LEAT_KIND_PINNED, &pinned);
 *     leat_pool_alloc(pinned, stream, bytes, &host);
 *     leat_copy(stream, host, d, bytes);
 *     leat_free(stream, host);          // the copy above still finishes in it
 *
 * Order. A block may be used by work given to its stream after leat_pool_alloc(). Work of another stream that uses
 * it must be ordered after that point, by an event; and either the stream that frees is ordered after that work,
 * or leat_pool_use() (or leat_pool_use_until()) told the pool of it. A block that nobody used may be freed on any
 * stream. CUDA's per-thread default stream (leat_stream_wrap()) is another stream for each thread: what is freed
 * on it comes back once that work is done, and each such free costs an event.
 *
 * Other devices. leat_copy() copies between pools of any devices of a driver. Kernels of another GPU reach pinned
 * and managed memory, and memory of a device pool once a first leat_copy() between the two devices has switched
 * peer access on, where the hardware has it.
 *
 * Threads. Every call may come from any thread, and two threads may use one stream. Callers that mostly keep to a
 * stream of their own do not wait for each other. That holds for eight pools of a device at a time, the first
 * ones; calls on further pools take the pool's lock.
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

/* What a pool may do with memory that another stream has freed but may still be using. Memory of which it is
 * known that the new stream is ordered after the free, or that the work is done, is taken under every policy. */
typedef enum leat_pool_reuse {
    LEAT_POOL_WAIT_LAST = 0, /* make the new stream wait for it only when there is no other memory left */
    LEAT_POOL_WAIT = 1,      /* make the new stream wait for it before asking the driver for more memory */
    LEAT_POOL_WAIT_NEVER = 2 /* never make a stream wait */
} leat_pool_reuse;

/*
 * What a device pool does when no idle memory fits in one piece, though there may be enough of it in pieces. It can get
 * new memory from the driver; or it can put a block together from whole idle pages that lie apart, by mapping them once
 * more, one behind the other ("stitched"). The first holds more memory, the second takes driver calls the first time a
 * program needs that block; neither waits for the device.
 */
typedef enum leat_pool_packing {
    LEAT_POOL_AUTO = 0,  /* new memory while there is some and the pool holds at most 4 % more than the most that was in
                            use; else as TIGHT */
    LEAT_POOL_STILL = 1, /* new memory only */
    LEAT_POOL_TIGHT = 2  /* stitched blocks first, new memory for what is missing then */
} leat_pool_packing;

/* How a pool is made. Start with zeros and size = sizeof(leat_pool_options): every zero means "as usual". */
typedef struct leat_pool_options {
    size_t size;      /* sizeof(leat_pool_options), so that the struct can grow */
    const char *name; /* for reports; copied; NULL: "pool" and a number */
    leat_kind kind;   /* DEVICE, PINNED or MANAGED; 0: DEVICE */
    leat_pool_reuse reuse;
    uint64_t limit_bytes;      /* most physical memory that the pool holds; 0: no limit */
    uint64_t soft_limit_bytes; /* above this, idle memory goes back when the pool next looks for memory; 0: none */
    leat_budget *budget;       /* shared with other pools; NULL: none */
    uint8_t dedicated;        /* 1: each block is one physical allocation, of whole 2 MiB: RDMA, NCCL, IPC */
    uint8_t exportable;       /* 1: blocks can be given to leat_pool_export(); needs dedicated */
    uint8_t no_virtual_memory; /* 1: no virtual memory even where the driver has it */
    uint8_t guard;             /* 1: as LEAT_POOL_GUARD=1, for this pool alone */
    uint8_t scrub;             /* 1: as LEAT_SCRUB=1, for this pool alone */
    uint32_t history;          /* events that leat_pool_history() remembers; 0: as LEAT_POOL_HISTORY says */
    leat_pool_packing packing; /* of a device pool with virtual memory; others have no stitched blocks. AUTO: as
                                  LEAT_POOL_PACKING says */
    const char *plan;          /* file that 'leat plan' made: where large blocks go; NULL: none. For device memory,
                                  without dedicated and no_virtual_memory; ignored with guard, scrub, history or
                                  LEAT_POOL_BACKTRACES, and where there is no virtual memory */
} leat_pool_options;

/*
 * Makes a pool. options may be NULL: all as usual. The pool holds no memory until something is allocated.
 * Errors: HANDLE (device, or budget), INVALID (pool NULL, options->size 0 or larger than this library knows, a
 * kind, a policy or a packing that there is not, limits the wrong way round, exportable without dedicated,
 * dedicated with no_virtual_memory, a plan with another kind than DEVICE, with dedicated or no_virtual_memory, a
 * plan that 'leat plan' did not write, LEAT_POOL_HISTORY or LEAT_POOL_PACKING with a value that it cannot have),
 * SYSTEM (the plan cannot be opened), UNSUPPORTED (no managed memory; dedicated where there is no virtual memory),
 * HOST_MEMORY, DRIVER, NOT_PERMITTED.
 */
LEAT_API leat_status leat_pool_create(leat_device *device, const leat_pool_options *options, leat_pool **pool);

/*
 * Ends a pool and gives its memory back to the driver; waits for the work that still uses freed blocks. Refused
 * with LEAT_ERROR_BUSY while blocks are live: the message counts them and names the largest, and the pool goes
 * on. A default pool cannot be destroyed: NOT_PERMITTED. NULL does nothing. Errors: HANDLE, BUSY, NOT_PERMITTED,
 * DRIVER (the pool is gone anyway).
 */
LEAT_API leat_status leat_pool_destroy(leat_pool *pool);

/* The default pool of a device for DEVICE, PINNED or MANAGED, made at the first use. It belongs to the device.
 * Errors: HANDLE, INVALID (another kind, pool NULL, LEAT_POOL_HISTORY, LEAT_POOL_PACKING or LEAT_POOL_PLAN with a
 * value that it cannot have), SYSTEM (the plan cannot be opened), UNSUPPORTED (no managed memory), HOST_MEMORY,
 * DRIVER, NOT_PERMITTED. */
LEAT_API leat_status leat_pool_default(leat_device *device, leat_kind kind, leat_pool **pool);

/*
 * A block of pool for work on stream, aligned to 512 bytes; contents undefined (zeros with LEAT_SCRUB). As
 * leat_alloc(), from a pool of the caller's choice. stream NULL: the block is ready for the host and for every
 * stream when the call returns, as of leat_memory_alloc(). bytes 0: *ptr becomes NULL.
 * Errors: HANDLE, INVALID (ptr NULL, stream of another device), DEVICE_MEMORY (HOST_MEMORY for a pinned pool): the
 * device is full or a limit is reached; the first line of leat_last_error() says what is idle, in how many pieces, what
 * is live, and what is pending (freed, and perhaps still in use) on which streams, the second what to do about it;
 * HOST_MEMORY (for the pool's records), DRIVER, NOT_PERMITTED.
 */
LEAT_API leat_status leat_pool_alloc(leat_pool *pool, leat_stream *stream, size_t bytes, void **ptr);

/* The same with an alignment: a power of two up to 1 GiB; 0 means the usual 512 bytes, and a smaller one gives
 * those as well. Also INVALID: another alignment. */
LEAT_API leat_status leat_pool_alloc_aligned(leat_pool *pool, leat_stream *stream, size_t bytes, size_t alignment,
                                             void **ptr);

/*
 * Tells the pool that work given to stream so far uses the block that starts at ptr. The block, once freed, is not
 * used again before stream has reached the place where it was when the block was freed. May be called several
 * times, for several streams. (What PyTorch calls record_stream; no host polling is needed for the memory to come
 * back.) Errors: HANDLE, POINTER (not the start of a live block of a pool), UNSUPPORTED (stream of another
 * driver), HOST_MEMORY, NOT_PERMITTED.
 */
LEAT_API leat_status leat_pool_use(void *ptr, leat_stream *stream);

/*
 * The same with an event of the caller's: the block, once freed, is not used again before what event marks now is
 * reached. The event may be recorded again or destroyed after the call. An event that was never recorded changes
 * nothing.
 * Errors: HANDLE, POINTER (as leat_pool_use), UNSUPPORTED (event of another driver), HOST_MEMORY, DRIVER,
 * NOT_PERMITTED.
 */
LEAT_API leat_status leat_pool_use_until(void *ptr, leat_event *event);

/* How a stream may come by memory that another stream has freed. */
enum {
    LEAT_POOL_REUSE_ORDERED = 1,  /* the program's own waits order the stream after the free */
    LEAT_POOL_REUSE_FINISHED = 2, /* the pool asks the device, and the work before the free is finished */
    LEAT_POOL_REUSE_WAITING = 4,  /* the pool makes the stream wait, or at last the host, as its policy says */
    LEAT_POOL_REUSE_ALL = 7
};

/*
 * Allows the ways in which the pool's memory passes from one stream to another: any of LEAT_POOL_REUSE_* together;
 * 0: none. A new pool has all. Applies to memory that is freed already, too. Memory that a stream freed itself is
 * always its own, and memory is everybody's once leat knows that the work before the free is finished without the
 * pool asking for it: because the program waited for that stream or asked about it, or the pool was trimmed.
 * Without LEAT_POOL_REUSE_WAITING the host does not wait either: a request for which there is no other memory
 * fails. Errors: HANDLE, INVALID (a way that there is not), NOT_PERMITTED.
 */
LEAT_API leat_status leat_pool_set_reuse(leat_pool *pool, uint32_t reuse_flags);

/* ---- limits ---------------------------------------------------------------------------------------------- */

/*
 * Changes the limits of a pool; 0: none. A hard limit below what is in use is refused (BUSY, the message has both
 * figures); below what the pool holds, idle memory goes back first. A soft limit may be below what is in use.
 * Errors: HANDLE, INVALID (soft above hard), BUSY, DRIVER, NOT_PERMITTED.
 */
LEAT_API leat_status leat_pool_set_limits(leat_pool *pool, uint64_t limit_bytes, uint64_t soft_limit_bytes);

/*
 * Gives idle physical memory back to the driver until the pool holds keep_bytes or less: whole pages of 2 MiB and
 * more, or whole chunks, in which nothing is live. Waits for no work: memory whose last work is not finished yet
 * stays and is counted in *pending_bytes. (For chunks of a pool without virtual memory the driver's own call may
 * wait for the device.) *released_bytes: what went back. Both may be NULL. To give back all of it, synchronize the
 * device first.
 * Errors: HANDLE, DRIVER, NOT_PERMITTED.
 */
LEAT_API leat_status leat_pool_trim(leat_pool *pool, uint64_t keep_bytes, uint64_t *released_bytes,
                                    uint64_t *pending_bytes);

/* The same for memory that has been idle for at least idle_ms milliseconds. */
LEAT_API leat_status leat_pool_trim_idle(leat_pool *pool, uint64_t idle_ms, uint64_t *released_bytes,
                                         uint64_t *pending_bytes);

/*
 * Called when the pool can get no memory for a request: after all idle memory of this and other pools was tried
 * and before the error. Returns 1 if it made room and the request should be tried again (at most 64 times for one
 * request), 0 to let it fail. It may free blocks, allocate from other pools (from this one too, then without being
 * called again), and destroy streams and events. It runs on the thread that asked, with no lock of leat held. NULL
 * takes it away.
 */
typedef int (*leat_pool_full_function)(void *argument, leat_pool *pool, uint64_t bytes);

/* Errors: HANDLE. */
LEAT_API leat_status leat_pool_on_full(leat_pool *pool, leat_pool_full_function function, void *argument);

/* A budget: physical memory that several pools, of any devices, may hold together. A pool that cannot grow within
 * it takes idle memory from the others first. Errors of create: INVALID (budget NULL, limit 0), HOST_MEMORY. Of
 * destroy: HANDLE, BUSY (a pool still has it); NULL does nothing. */
LEAT_API leat_status leat_budget_create(uint64_t limit_bytes, leat_budget **budget);
LEAT_API leat_status leat_budget_destroy(leat_budget *budget);

/* Either pointer may be NULL. Errors: HANDLE. */
LEAT_API leat_status leat_budget_query(leat_budget *budget, uint64_t *limit_bytes, uint64_t *used_bytes);

/*
 * ---- guard mode ------------------------------------------------------------------------------------------
 *
 * LEAT_POOL_GUARD=1, or options.guard for one pool, looks for wrong use of blocks, on every device. It costs
 * fills, copies and waits at each call, and memory; it is for finding faults, not for use.
 *
 * Zones. 512 bytes in front of a block and at least as many behind it hold 0xfd. leat_free() and
 * leat_memory_free() look at them, for which they wait for their stream and for those that leat_pool_use() and
 * leat_pool_use_until() told of. Where something else is written, they return LEAT_ERROR_RANGE, with a message
 * that says how many bytes in front or behind, the first one's offset and value, where the block was allocated and
 * where it is freed. The zones are mended then, and the block is still live: it can be freed again.
 *
 * Contents. A new block holds 0xcd (zeros with scrub), a freed one 0xdd.
 *
 * Use after free. What is freed is kept out of use: the latest 64 blocks of a pool, and 64 MiB of them, until
 * memory is needed or the pool is trimmed, has its limits lowered, or ends. Who writes there meanwhile is found
 * out when the block leaves: that is said on standard error, with both call stacks, and counted in guard_reports.
 * Calls of leat that are given a pointer into a freed block say where it was allocated and freed.
 *
 * Use before order. leat_copy(), leat_fill() and leat_fill_pattern() are refused with LEAT_ERROR_NOT_PERMITTED,
 * and both call stacks, when another stream has not got to its allocation of the block yet, or to the latest write
 * of these calls to the same bytes (or the latest read, for one that writes), and no event orders this stream
 * after it. What kernels do with their arguments is not seen. A stream that waited for more than eight others, or
 * that may be ordered by other means because it is wrapped or its native handle was asked for, is not judged. Host
 * functions that wait for each other are no order that leat can see.
 *
 * An alignment of more than 512 bytes costs as much again in front. Pools with exportable have neither red zones
 * nor poison, because other processes may write there.
 *
 * Call stacks, which LEAT_POOL_BACKTRACES=1 keeps without guard mode, are addresses until they are said: as
 * "function+offset (library)" where the dynamic linker knows the function (link with -rdynamic), or else as
 * "program+offset", of which 'addr2line -f -e program offset' says the line. They are in snapshots, in the
 * list of LEAT_LEAKS=1, and in the error of a pool that is full.
 */

/* ---- sharing with other processes ------------------------------------------------------------------------ */

/*
 * A file descriptor for the physical memory of the block that starts at ptr, of a pool with exportable. Another
 * process gets the memory with leat_pool_import(); send the descriptor over a Unix socket (SCM_RIGHTS). The
 * caller closes it. The memory lives until every process has let go of it. *bytes: the size to import.
 * A process that got the descriptor can read and write the block's pages, and nothing else of the pool; on the CPU
 * device the descriptor is sealed, so it cannot change their size. It keeps these pages until it lets go, also when
 * leat_free() was called and they serve another block of the pool: leat_pool_trim() parts from pages that are idle.
 * Errors: INVALID (fd or bytes NULL), POINTER (not a live block of an exportable pool), DRIVER, NOT_PERMITTED.
 */
LEAT_API leat_status leat_pool_export(void *ptr, int *fd, size_t *bytes);

/* Maps memory that another process (or this one) exported. bytes: as leat_pool_export() gave it. The caller still
 * owns fd. Goes back through leat_memory_free(). The CPU device takes no file that could be cut off while it is
 * mapped: memory files with the seals of an export only.
 * Errors: HANDLE, INVALID (ptr NULL, bytes 0, fd is no exported memory of that size), UNSUPPORTED (no virtual
 * memory), DRIVER, SYSTEM, NOT_PERMITTED. */
LEAT_API leat_status leat_pool_import(leat_device *device, int fd, size_t bytes, void **ptr);

/* ---- seeing ---------------------------------------------------------------------------------------------- */

/*
 * Names what this thread allocates from now on, for statistics, snapshots and reports; NULL ends it. Copied; up to
 * 31 bytes count, whole characters where it is UTF-8. There are 62 tags in a process: further names count as
 * "other". Errors: none.
 */
LEAT_API leat_status leat_pool_tag(const char *tag);

/* Figures of a pool. Bytes, counts since the pool was made. Read without stopping anyone, so figures that change
 * together may be a moment apart. */
typedef struct leat_pool_statistics {
    size_t size;                   /* sizeof(leat_pool_statistics), set by the caller */
    uint64_t requested_bytes;      /* live now, as the program asked for it */
    uint64_t requested_peak_bytes; /* the most of that; exact while one thread uses the pool on one stream, else
                                      the most that was seen whenever the pool had to look for memory */
    uint64_t used_bytes;           /* live now, rounded up to 512 bytes (dedicated: to 2 MiB), with guards */
    uint64_t reserved_bytes;       /* physical memory that the pool holds from the driver */
    uint64_t reserved_peak_bytes;
    uint64_t pending_bytes; /* freed, but other streams were still using it when that was last looked at */
    uint64_t live_blocks;
    uint64_t allocations, frees, failures;
    uint64_t cache_hits;   /* allocations that took no lock but their stream's own */
    uint64_t driver_calls; /* of memory: reserve, create, map, set access, unmap, release, allocate, free... */
    uint64_t driver_ns;    /* time spent in them */
    uint64_t pages_created, pages_stitched, pages_released; /* in bytes: physical memory from the driver, mapped once
                                                               more for stitched blocks, back to the driver */
    uint64_t events, queries, stream_waits;              /* given to the driver to order reuse */
    uint64_t host_waits;    /* times that the host waited for the device, but for guard mode */
    uint64_t callbacks;     /* calls of the function of leat_pool_on_full() */
    uint64_t guard_reports; /* damage and wrong uses that guard mode has found */
    uint64_t stitches;      /* allocations that got a stitched block */
    uint64_t stitch_reuses; /* of these, those whose pages were mapped already */
    uint64_t planned;       /* allocations that got the place that the pool's plan has for them */
    leat_pool_packing packing; /* what the pool did when it last looked for memory: LEAT_POOL_STILL or _TIGHT */
} leat_pool_statistics;

/* Errors: HANDLE, INVALID (statistics NULL, or size 0 or larger than this library knows). */
LEAT_API leat_status leat_pool_query(leat_pool *pool, leat_pool_statistics *statistics);

/* One line of the statistics by stream or by tag. */
typedef struct leat_pool_share {
    char name[32];       /* "stream 12", "host", or the tag; "" for what has no tag */
    leat_stream *stream; /* NULL: a tag, or a stream that was destroyed, or the host */
    uint64_t requested_bytes;
    uint64_t live_blocks;
    uint64_t cached_bytes; /* freed on this stream and kept for it; 0 for tags */
} leat_pool_share;

/* Index 0, 1, ...; NOT_FOUND past the last one. Errors: HANDLE, INVALID (share NULL), NOT_FOUND. */
LEAT_API leat_status leat_pool_stream_share(leat_pool *pool, unsigned index, leat_pool_share *share);
LEAT_API leat_status leat_pool_tag_share(leat_pool *pool, unsigned index, leat_pool_share *share);

/* What happened in a pool: for leat_pool_history(). */
typedef enum leat_pool_action {
    LEAT_POOL_ALLOC = 1,
    LEAT_POOL_FREE = 2,
    LEAT_POOL_GROW = 3,    /* physical memory from the driver */
    LEAT_POOL_MAP = 4,     /* physical memory put behind addresses, new or for a stitched block */
    LEAT_POOL_RELEASE = 5, /* physical memory back to the driver */
    LEAT_POOL_FULL = 6     /* a request that failed */
} leat_pool_action;

typedef struct leat_pool_event {
    uint64_t time_ns; /* since the pool was made */
    void *ptr;
    uint64_t bytes;
    uint64_t stream; /* number of the stream; 0: none */
    leat_pool_action action;
    uint32_t tag; /* index for leat_pool_tag_share() */
} leat_pool_event;

/*
 * The latest events of a pool that remembers them, oldest first. *count: on entry the room in events, on return
 * how many were written. Errors: HANDLE, INVALID (NULL), UNSUPPORTED (the pool remembers none).
 */
LEAT_API leat_status leat_pool_history(leat_pool *pool, leat_pool_event *events, size_t *count);

/*
 * Writes the state of a pool as JSON, piece by piece, to write(argument, text, bytes): figures, streams, tags, and
 * every extent of its addresses with its state, stream, tag and, in guard mode or with LEAT_POOL_BACKTRACES, call
 * stack. States: live; cached (freed, kept whole for its stream or by guard mode); free (idle); pending (freed,
 * waits for other streams); lent (a stitched block has its memory); dormant (addresses of a stitched or planned block
 * that is not in use); stale (given up, but old work may still use the addresses); hole (addresses without memory).
 * 'leat pool-map' draws it. All of it is UTF-8: bytes of names and tags that are not become U+FFFD. The pool stands
 * still meanwhile, so write must not call leat.
 * Errors: HANDLE, INVALID (write NULL), HOST_MEMORY.
 */
LEAT_API leat_status leat_pool_snapshot(leat_pool *pool,
                                        void (*write)(void *argument, const char *text, size_t bytes),
                                        void *argument);

#ifdef __cplusplus
}
#endif

#endif
