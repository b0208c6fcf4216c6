/*
 * leat/managed.h - managed memory: bring it where it is needed, advise about it, ask where it is, and be shown
 * what moved and why.
 *
 * Model. Managed memory (LEAT_KIND_MANAGED of leat_memory_alloc() or of a pool) has one address for the host and
 * for all devices of its driver, and its pages lie at one place at a time: at the host, on a device, or nowhere
 * before the first touch. Who touches a page that lies elsewhere waits until it has come (a fault). Faults are
 * slow, a fraction of what the link carries (docs/memory.md). So:
 *
 *     leat_memory_alloc(device, LEAT_KIND_MANAGED, bytes, &m);
 *     ... the host writes m ...
 *     leat_managed_prefetch(stream, m, bytes, device);       // before the kernel that uses it
 *     leat_launch(stream, ...);
 *     leat_managed_prefetch(stream, m, bytes, LEAT_HOST);    // before the host reads it
 *     leat_stream_synchronize(stream);
 *
 * Nothing here is needed for a right result. Prefetch and advice only say where pages should be, and when.
 *
 * Ranges may begin and end anywhere within one allocation; what is said counts for all pages that they touch.
 * Blocks of a pool that are smaller than a page share pages with their neighbours, and a page keeps its place and
 * its advice when its block is freed: undo advice first, so that the next owner of the memory is not troubled by
 * it.
 *
 * Each call that takes a device takes LEAT_HOST for the host.
 *
 * The CPU device has one memory for all, so nothing moves there in truth. It keeps the same attributes, page by
 * page, and on request (leat_managed_record()) a record of where each page would be on a machine with separate
 * memories, what moved it there, and how often: so a program can be shown what it would cost on a GPU.
 *
 * Threads. Any thread may call anything here.
 */
#ifndef LEAT_MANAGED_H
#define LEAT_MANAGED_H

#include <leat/device.h>
#include <leat/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where a leat_device is asked for: the host. */
#define LEAT_HOST ((leat_device *)0)

/*
 * Brings the pages of ptr + bytes to a device, or to the host, in stream order; returns at once. Pages that were
 * never touched get their place there. Pages that are advised to be read mostly are copied instead of moved. The
 * stream may be of any device of the memory's driver. It is the driver's one call, unless LEAT_PREFETCH_STREAMS_IN
 * or _OUT say over how many streams of leat's it shall go, in chunks. bytes 0 does nothing.
 * Errors: HANDLE (stream, or to: not open), POINTER (not managed memory, freed, NULL), RANGE (past the end of the
 * allocation), UNSUPPORTED (to or the stream is of another driver than the memory; the device cannot use managed
 * memory beside the host; a driver without prefetch), HOST_MEMORY, DRIVER, NOT_PERMITTED; INVALID (LEAT_PREFETCH_*
 * with a value that it cannot have).
 */
LEAT_API leat_status leat_managed_prefetch(leat_stream *stream, void *ptr, size_t bytes, leat_device *to);

/* What can be said of a range. Each has its undoing; the numbers are those of CUDA and HIP. */
typedef enum leat_advice {
    /* It is read by many and hardly written: who reads it gets a copy and the others keep theirs; a write ends all
     * copies but the writer's. No place belongs to it. */
    LEAT_ADVICE_READ_MOSTLY = 1,
    LEAT_ADVICE_NOT_READ_MOSTLY = 2,
    /* It belongs at a place: from there it moves only if who touches it cannot reach it there. (Devices can reach
     * the host's memory; the host cannot reach a device's.) Moves nothing by itself. For NOT_PREFERRED the place
     * does not matter. */
    LEAT_ADVICE_PREFERRED = 3,
    LEAT_ADVICE_NOT_PREFERRED = 4,
    /* A device, or the host, uses it where it lies, without faults, as far as it can reach it there. Moves
     * nothing. */
    LEAT_ADVICE_ACCESSED_BY = 5,
    LEAT_ADVICE_NOT_ACCESSED_BY = 6
} leat_advice;

/* "read mostly", "not read mostly", "preferred", ...; "unknown" for another number. */
LEAT_API const char *leat_advice_name(leat_advice advice);

/*
 * Advises about the pages of ptr + bytes, for work that is given afterwards. where: a device or LEAT_HOST; read
 * mostly and its undoing take no notice of it. bytes 0 does nothing.
 * Errors: INVALID (advice), HANDLE (where is not open), POINTER, RANGE, UNSUPPORTED (where is of another driver;
 * the driver has no advice), DRIVER, NOT_PERMITTED.
 */
LEAT_API leat_status leat_managed_advise(void *ptr, size_t bytes, leat_advice advice, leat_device *where);

typedef enum leat_location_kind {
    LEAT_LOCATION_NONE = 0, /* nowhere, or not the same for the entire range */
    LEAT_LOCATION_HOST = 1,
    LEAT_LOCATION_DEVICE = 2
} leat_location_kind;

typedef struct leat_location {
    leat_location_kind kind;
    int ordinal; /* of a device among those of its driver: 1 is "cuda:1"; else -1 */
} leat_location;

enum { LEAT_MANAGED_DEVICES_MAX = 16 };

/* What is known of a range. Set size to sizeof(leat_managed_info) before the call. */
typedef struct leat_managed_info {
    size_t size;
    uint8_t read_mostly;         /* 1: the entire range is */
    uint8_t accessed_by_host;    /* 1: that was advised for the entire range */
    uint8_t places_known;        /* 1: the last four have figures: CPU device, while it records, and after it */
    uint32_t accessed_by;        /* bit n: device n, for the entire range */
    leat_location preferred;     /* of the entire range */
    leat_location last_prefetch; /* to where the entire range was sent last, whether it has arrived or not */
    size_t page_bytes;           /* pages that the range touches are of this size; 0: the driver does not say */
    uint64_t pages;              /* all of them */
    uint64_t pages_nowhere;      /* never touched */
    uint64_t pages_on_host;      /* pages with copies count at each place that has one */
    uint64_t pages_on_device[LEAT_MANAGED_DEVICES_MAX];
} leat_managed_info;

/*
 * Where a range is, and what was said of it. bytes 0: up to the end of the allocation.
 * Errors: INVALID (info NULL, or size 0 or larger than this library knows), POINTER, RANGE, UNSUPPORTED (a driver
 * that does not say), DRIVER, NOT_PERMITTED.
 */
LEAT_API leat_status leat_managed_query(const void *ptr, size_t bytes, leat_managed_info *info);

/* Who may use managed memory while a device works. The numbers are those of CUDA and HIP. */
typedef enum leat_attach {
    LEAT_ATTACH_ALL = 1,   /* every stream and the host: how memory begins */
    LEAT_ATTACH_HOST = 2,  /* the host alone */
    LEAT_ATTACH_STREAM = 4 /* work of this one stream, and the host while that stream is idle */
} leat_attach;

/*
 * Attaches a whole allocation in stream order. It is needed on devices that cannot use managed memory while the
 * host does (old GPUs); elsewhere it is a promise that drivers may make use of, and the CPU device checks it and
 * makes none. ptr is the start of memory that the driver allocated by itself: leat_pointer_wrap(), or the user's
 * own call. Blocks of pools are parts of such memory, and drivers attach only all of it.
 * Errors: INVALID (attach), HANDLE, POINTER (not managed, not the start), UNSUPPORTED (a block of a pool; the
 * stream is of another driver; the driver has no such call), HOST_MEMORY, DRIVER, NOT_PERMITTED.
 */
LEAT_API leat_status leat_managed_attach(leat_stream *stream, void *ptr, leat_attach attach);

/* ---- what moved, when and why: the CPU device ------------------------------------------------------------ */

/*
 * Starts (on 1) or ends (on 0) the record of all managed memory of all CPU devices. Starting forgets what was
 * recorded before, and all pages begin nowhere. Start it while the devices are idle.
 *
 * How touches are seen: pages are taken out of reach, and the first access by a side faults, is written down and
 * let through. So every page that a side touches costs some microseconds, once each time that the other side had
 * it. Copies and fills are known without faults, and count as touches by the stream's device, as on a GPU, whose
 * copy engines work on managed memory in its place. After all work of a device the pages that it touched are out
 * of the host's reach again, and before it those that the host touched out of the device's.
 *
 * What is not seen: what the host touches while a device works on the same page at the same time, of which only
 * the first is; and the second of two devices likewise. What a system call reads or writes (read(), write())
 * cannot be let through: it returns EFAULT for pages that are out of reach, so touch them before, or end the
 * record. A program with a handler of SIGSEGV of its own, installed after leat's, keeps leat from seeing anything:
 * then the call is refused. Where the system has no room for so many pieces of memory with rights of their own
 * (vm.max_map_count), the rest of that allocation is left in reach and leat_managed_counts.unseen says so.
 *
 * Errors: HANDLE, UNSUPPORTED (a driver that keeps no such record; another handler of SIGSEGV is in place),
 * HOST_MEMORY, NOT_PERMITTED.
 */
LEAT_API leat_status leat_managed_record(leat_device *device, int on);

/* Counts of pages. Set size before the call. */
typedef struct leat_managed_counts {
    size_t size;
    size_t page_bytes;         /* of one page */
    uint64_t pages;            /* in the range */
    uint64_t first_touch_host; /* got their place because the host touched them first */
    uint64_t first_touch_device;
    uint64_t faults_to_device;     /* moves because a device touched a page that lay elsewhere */
    uint64_t faults_to_host;       /* moves because the host did */
    uint64_t prefetched_to_device; /* moves by prefetch */
    uint64_t prefetched_to_host;
    uint64_t prefetched_in_vain; /* pages of prefetches that were there already */
    uint64_t copied;             /* copies of read mostly pages */
    uint64_t copies_ended;       /* by a write, or by undoing the advice */
    uint64_t used_in_place;      /* touches from elsewhere that moved nothing, because of advice */
    uint64_t thrashing;          /* pages that faults moved three times or more, and both ways */
    uint8_t unseen;              /* 1: some touches were not seen, see leat_managed_record() */
} leat_managed_counts;

/*
 * Adds up what was recorded for a range; ptr NULL: for all managed memory that is allocated now (bytes then does
 * not matter). bytes 0: up to the end of the allocation.
 * Errors: HANDLE, INVALID (counts NULL or its size), POINTER, RANGE, UNSUPPORTED (no record was ever started;
 * another driver), NOT_PERMITTED.
 */
LEAT_API leat_status leat_managed_count(leat_device *device, const void *ptr, size_t bytes,
                                        leat_managed_counts *counts);

/* Why pages moved, or got a place. */
typedef enum leat_move_cause {
    LEAT_MOVE_FIRST_TOUCH = 1, /* nobody had touched them before */
    LEAT_MOVE_FAULT = 2,       /* who touched them did not find them */
    LEAT_MOVE_PREFETCH = 3,
    LEAT_MOVE_COPY = 4,      /* read mostly: a further copy; the old place keeps its own */
    LEAT_MOVE_END_COPIES = 5 /* read mostly: a write left one copy; to is the writer */
} leat_move_cause;

/* One move, of pages that are next to each other and moved for the same reason during the same work. */
typedef struct leat_managed_move {
    uint64_t time_ns; /* of the first page, since the record was started */
    void *ptr;        /* the first page */
    uint64_t bytes;   /* whole pages */
    leat_location from, to;
    leat_move_cause cause;
} leat_managed_move;

/*
 * The latest moves, oldest first; the last 4096 are remembered. *count: on entry the room in moves, on return how
 * many were written.
 * Errors: HANDLE, INVALID (NULL), UNSUPPORTED (no record was ever started; another driver), NOT_PERMITTED.
 */
LEAT_API leat_status leat_managed_history(leat_device *device, leat_managed_move *moves, size_t *count);

/*
 * The counts of a range (as leat_managed_count() takes it) in words, with what to do about them, and its latest
 * moves. text_bytes: the room in text, with the closing 0; what is longer is cut.
 * Errors: as leat_managed_count(); INVALID (text NULL or text_bytes 0).
 */
LEAT_API leat_status leat_managed_report(leat_device *device, const void *ptr, size_t bytes, char *text,
                                         size_t text_bytes);

#ifdef __cplusplus
}
#endif

#endif
