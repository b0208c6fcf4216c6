/*
 * leat/managed.h - prefetches, advises and queries managed memory, and records which pages moved and why.
 *
 * Model. Managed memory (LEAT_KIND_MANAGED of leat_memory_alloc() or of a pool) has one address for the host and
 * for all devices of its driver. Each page is at one place at a time: on the host, on a device, or nowhere before
 * the first access. If the host or a device accesses a page that is elsewhere, the access waits until the page has
 * moved (a fault). Faults are slow: they reach only a fraction of the link's bandwidth (docs/memory.md). So
 * prefetch:
 *
 *     leat_memory_alloc(device, LEAT_KIND_MANAGED, bytes, &m);
 *     ... the host writes m ...
 *     leat_managed_prefetch(stream, m, bytes, device);       // before the kernel that uses it
 *     leat_launch(stream, ...);
 *     leat_managed_prefetch(stream, m, bytes, LEAT_HOST);    // before the host reads it
 *     leat_stream_synchronize(stream);
 *
 * A program is correct without any call of this header. Prefetch and advice only control where pages are, and
 * when.
 *
 * Ranges may begin and end anywhere within one allocation; a call applies to all pages that the range touches.
 * Blocks of a pool that are smaller than a page share pages with their neighbours. A page keeps its place and its
 * advice when its block is freed, so undo advice before freeing a block; otherwise it still applies to the next
 * owner of the memory.
 *
 * Calls with a device parameter accept LEAT_HOST for the host.
 *
 * The CPU device has the same memory as the host, so no page really moves. It keeps the same attributes, page by
 * page, and on request (leat_managed_record()) a record of where each page would be on a machine with separate
 * memories, what moved it there, and how often. So a program can see on the CPU device what its accesses would
 * cost on a GPU.
 *
 * Threads. Any thread may make any call here.
 */
#ifndef LEAT_MANAGED_H
#define LEAT_MANAGED_H

#include <leat/device.h>
#include <leat/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The host, in place of a device. */
#define LEAT_HOST ((leat_device *)0)

/*
 * Moves the pages of [ptr, ptr + bytes) to a device, or to the host, in stream order. Returns at once. Pages that
 * were never accessed get their first place there. Pages with read-mostly advice are copied instead of moved. The
 * stream may belong to any device of the memory's driver. leat makes one driver call, unless
 * LEAT_PREFETCH_STREAMS_IN or LEAT_PREFETCH_STREAMS_OUT sets a number of leat's own streams, over which it then
 * spreads the range in chunks. bytes 0 does nothing.
 * Errors: HANDLE (stream; or to is not open), POINTER (not managed memory, freed, NULL), RANGE (past the end of
 * the allocation), UNSUPPORTED (to or the stream is of another driver than the memory; the device cannot use
 * managed memory concurrently with the host; a driver without prefetch), HOST_MEMORY, DRIVER, NOT_PERMITTED;
 * INVALID (an invalid value of a LEAT_PREFETCH_* variable).
 */
LEAT_NODISCARD LEAT_API leat_status leat_managed_prefetch(leat_stream *stream, void *ptr, size_t bytes,
                                                          leat_device *to);

/* Advice about a range. Each advice has a second value that undoes it. The numbers are those of CUDA and HIP. */
typedef enum leat_advice {
    /* Mostly read, by several sides: each reader gets a copy, and the other copies stay valid; a write leaves only
     * the writer's copy. This does not set a preferred place. */
    LEAT_ADVICE_READ_MOSTLY = 1,
    LEAT_ADVICE_NOT_READ_MOSTLY = 2,
    /* Sets the preferred place. A page at its preferred place moves only if the side that accesses the page cannot
     * reach that place. (Devices can reach the host's memory; the host cannot reach a device's.) The advice itself
     * moves nothing. NOT_PREFERRED ignores the place. */
    LEAT_ADVICE_PREFERRED = 3,
    LEAT_ADVICE_NOT_PREFERRED = 4,
    /* A device, or the host, accesses pages where they are, without faults, if it can reach them there. The advice
     * itself moves nothing. */
    LEAT_ADVICE_ACCESSED_BY = 5,
    LEAT_ADVICE_NOT_ACCESSED_BY = 6
} leat_advice;

/* Returns the name of an advice: "read mostly", "not read mostly", "preferred", ...; "unknown" for another
 * number. */
LEAT_API const char *leat_advice_name(leat_advice advice);

/*
 * Sets advice for the pages of [ptr, ptr + bytes). It applies to work submitted afterwards. where: a device or
 * LEAT_HOST; ignored by READ_MOSTLY, NOT_READ_MOSTLY and NOT_PREFERRED. bytes 0 does nothing.
 * Errors: INVALID (advice), HANDLE (where is not open), POINTER, RANGE, UNSUPPORTED (where is of another driver;
 * the driver has no advice), DRIVER, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_managed_advise(void *ptr, size_t bytes, leat_advice advice,
                                                        leat_device *where);

typedef enum leat_location_kind {
    LEAT_LOCATION_KIND_NONE = 0, /* nowhere, or parts of the range differ */
    LEAT_LOCATION_KIND_HOST = 1,
    LEAT_LOCATION_KIND_DEVICE = 2
} leat_location_kind;

/* The place of a page: the host, a device, or none. Does not grow: it is a part of other structs. */
typedef struct leat_location {
    leat_location_kind kind;
    int ordinal; /* number of the device within its driver: 1 is "cuda:1"; else -1 */
} leat_location;

enum { LEAT_MANAGED_DEVICES_MAX = 16 };

/* The places of a range's pages, and the range's advice. */
typedef struct leat_managed_info {
    size_t size;                 /* sizeof(leat_managed_info): leat/base.h */
    uint8_t read_mostly;         /* 1: advised for the entire range */
    uint8_t accessed_by_host;    /* 1: advised for the entire range */
    uint8_t places_known;        /* 1: the last four fields have values (CPU devices with a record) */
    uint32_t accessed_by;        /* bit n: advised for device n, for the entire range */
    leat_location preferred;     /* preferred place of the entire range */
    leat_location last_prefetch; /* target of the last prefetch of the entire range, complete or not */
    size_t page_bytes;           /* size of the pages that the range touches; 0: the driver does not report it */
    uint64_t pages;              /* number of pages that the range touches */
    uint64_t pages_nowhere;      /* pages that were never accessed */
    uint64_t pages_on_host;      /* a page with several copies counts at each of their places */
    uint64_t pages_on_device[LEAT_MANAGED_DEVICES_MAX];
} leat_managed_info;
#define LEAT_MANAGED_INFO_INIT LEAT_SIZED_INIT_(leat_managed_info)

/* Returns the places of a range's pages, and the range's advice. bytes 0: up to the end of the allocation.
 * Errors: INVALID (info NULL, or its size; bytes 0 if the driver does not report the size of the allocation),
 * POINTER, RANGE, UNSUPPORTED (the driver cannot answer), DRIVER, NOT_PERMITTED. */
LEAT_NODISCARD LEAT_API leat_status leat_managed_get_info(const void *ptr, size_t bytes, leat_managed_info *info);

/* The streams, and the host, that may use managed memory while a device works. The numbers are those of CUDA and
 * HIP. */
typedef enum leat_attach {
    LEAT_ATTACH_ALL = 1,   /* every stream and the host: the initial state */
    LEAT_ATTACH_HOST = 2,  /* only the host */
    LEAT_ATTACH_STREAM = 4 /* work of this one stream, and the host while that stream is idle */
} leat_attach;

/*
 * Attaches a whole allocation in stream order. Devices that cannot use managed memory concurrently with the host
 * (old GPUs) need this call. For other devices it is a promise from which drivers may benefit; the CPU device
 * checks the arguments and does nothing else. ptr is the start of an allocation that the program itself made by a
 * call of the vendor's driver, with or without leat_pointer_wrap(). Blocks of pools are only parts of a driver's
 * allocation, and drivers attach only whole allocations.
 * Errors: INVALID (attach), HANDLE, POINTER (not managed, not the start), UNSUPPORTED (a block of a pool; the
 * stream is of another driver; the driver cannot attach memory), HOST_MEMORY, DRIVER, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_managed_attach(leat_stream *stream, void *ptr, leat_attach attach);

#ifndef LEAT_NO_EXPERIMENTAL /* may still change: see leat/version.h */

/* ---- what moved, when and why: the CPU device ------------------------------------------------------------ */

/*
 * Starts (on 1) or ends (on 0) the record of all managed memory of all CPU devices. Starting drops the earlier
 * record and sets all pages to nowhere. Start the record while the devices are idle.
 *
 * Method. leat makes pages inaccessible. The first access by a side faults; leat records it and lets it continue.
 * So each page that a side accesses costs some microseconds, once each time after the other side had it. Copies
 * and fills are recorded without faults. They count as accesses by the stream's device, as on a GPU, whose copy
 * engines access managed memory in the device's place. When a device starts work, the pages that the host accessed
 * become inaccessible to the device; when the work is complete, the pages that the device accessed become
 * inaccessible to the host.
 *
 * Limits. If the host and a device, or two devices, access the same page at the same time, only the first access
 * is recorded. A system call (read(), write()) cannot continue after such a fault: it returns EFAULT for
 * inaccessible pages, so access them before, or end the record. If the program has installed its own SIGSEGV
 * handler after leat's, leat sees no faults, and the call is refused. If the process has reached the system's
 * limit of mappings (vm.max_map_count), the rest of an allocation stays accessible, and leat_managed_stats.unseen
 * is 1.
 * Errors: HANDLE, UNSUPPORTED (a driver that keeps no such record; another handler of SIGSEGV is installed),
 * HOST_MEMORY, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_managed_record(leat_device *device, int on);

/* Counts of pages. */
typedef struct leat_managed_stats {
    size_t size;               /* sizeof(leat_managed_stats): leat/base.h */
    size_t page_bytes;         /* size of one page */
    uint64_t pages;            /* pages in the range */
    uint64_t first_touch_host; /* pages first accessed by the host */
    uint64_t first_touch_device;
    uint64_t faults_to_device;     /* moves because a device accessed a page that was elsewhere */
    uint64_t faults_to_host;       /* moves because the host accessed a page that was elsewhere */
    uint64_t prefetched_to_device; /* moves by prefetch */
    uint64_t prefetched_to_host;
    uint64_t prefetched_in_vain; /* prefetched pages that were already there */
    uint64_t copied;             /* copies of read-mostly pages */
    uint64_t copies_ended;       /* copies removed by a write, or when the advice was undone */
    uint64_t used_in_place;      /* accesses from elsewhere that moved nothing because of advice */
    uint64_t thrashing;          /* pages that faults moved at least three times, in both directions */
    uint8_t unseen;              /* 1: some accesses were not recorded, see leat_managed_record() */
} leat_managed_stats;
#define LEAT_MANAGED_STATS_INIT LEAT_SIZED_INIT_(leat_managed_stats)

/*
 * Returns the sums of the record over the pages of a range. ptr NULL: of all managed memory that is allocated now
 * (bytes is then ignored). bytes 0: up to the end of the allocation.
 * Errors: HANDLE, INVALID (counts NULL or its size), POINTER, RANGE, UNSUPPORTED (no record was ever started;
 * another driver), NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_managed_get_stats(leat_device *device, const void *ptr, size_t bytes,
                                                           leat_managed_stats *counts);

/* Why pages moved, or got their first place. */
typedef enum leat_move_cause {
    LEAT_MOVE_CAUSE_FIRST_TOUCH = 1, /* the first access */
    LEAT_MOVE_CAUSE_FAULT = 2,       /* an access by another side than the one that had the page */
    LEAT_MOVE_CAUSE_PREFETCH = 3,
    LEAT_MOVE_CAUSE_COPY = 4,      /* read mostly: an additional copy; the old place keeps its own */
    LEAT_MOVE_CAUSE_END_COPIES = 5 /* read mostly: a write left one copy; to is the writer */
} leat_move_cause;

/* One move, of adjacent pages that moved for the same reason during the same work. Does not grow: it is an element
 * of an array. */
typedef struct leat_managed_move {
    uint64_t time_ns; /* when the first page moved, since the record was started */
    void *ptr;        /* the first page */
    uint64_t bytes;   /* size of the moved pages */
    leat_location from, to;
    leat_move_cause cause;
} leat_managed_move;

/*
 * Returns the latest moves, oldest first; leat keeps the last 4096. *count: in, the room in moves; out, the number
 * of moves written.
 * Errors: HANDLE, INVALID (moves or count NULL), UNSUPPORTED (no record was ever started; another driver),
 * HOST_MEMORY, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_managed_history(leat_device *device, leat_managed_move *moves,
                                                         size_t *count);

/* Describes as text the counts of a range, with advice, and the latest moves in it. ptr and bytes: as in
 * leat_managed_get_stats(). text_bytes: the size of text, including the terminating 0; longer output is truncated.
 * Errors: as leat_managed_get_stats(); INVALID (text NULL or text_bytes 0). */
LEAT_NODISCARD LEAT_API leat_status leat_managed_report(leat_device *device, const void *ptr, size_t bytes,
                                                        char *text, size_t text_bytes);

#endif /* LEAT_NO_EXPERIMENTAL */

#ifdef __cplusplus
}
#endif

#endif
