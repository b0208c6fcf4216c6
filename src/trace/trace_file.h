/*
 * trace_file.h - defines the file that leat_trace_start() and LEAT_TRACE write, for the recorder and for readers.
 *
 * A file is a header and then chunks, one after the other:
 *
 *     struct leati_trace_header, 64 bytes
 *     struct leati_trace_chunk, 32 bytes, and its payload; as often as needed
 *
 * All numbers are little-endian. Every struct here has a multiple of 8 bytes and no padding, and every payload is
 * a multiple of 8 bytes, so all of them are aligned in a file that is mapped to memory. Times are nanoseconds of
 * CLOCK_MONOTONIC, also those of devices; 0 means unknown.
 *
 * The recorder only appends, one or more whole chunks at a time. So a file can be read at any moment: if the
 * process was killed, or the disk was full, the last chunk may be incomplete, and a reader ignores it. A file that
 * ends without a LEATI_TRACE_CHUNK_STATE chunk whose ended is 1 was not completed.
 *
 * Strings, threads, devices, lanes and pools are defined by chunks that precede the first chunk that uses them.
 * Operations of one thread are in the order in which its calls ended. Chunks of different threads are in no order;
 * sort by time.
 *
 * Under "leat run --trace" the file also has calls that the program made without leat, and their work, as another
 * recorder (CUPTI) tells of them: see LEATI_TRACE_FOREIGN. They are in chunks of their own, in no order.
 *
 * Readers skip chunks of an unknown type, treat unknown values of kind as LEATI_TRACE_OTHER, and refuse a version
 * other than LEATI_TRACE_VERSION. A new version is needed only if a field changes its meaning. Nothing here needs
 * another header of leat.
 */
#ifndef LEATI_TRACE_FILE_H
#define LEATI_TRACE_FILE_H

#include <assert.h>
#include <stdint.h>

#define LEATI_TRACE_MAGIC "leattrc\n"                /* the file's first 8 bytes */
#define LEATI_TRACE_CHUNK_MAGIC UINT32_C(0x4b435254) /* "TRCK" */
#define LEATI_TRACE_VERSION 1u
#define LEATI_TRACE_STRING_BYTES_MAX 1024u
#define LEATI_TRACE_CHUNK_BYTES_MAX (1u << 20) /* no payload is longer */

struct leati_trace_header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes; /* 64 */
    uint32_t op_bytes;     /* size of struct leati_trace_op: 64 */
    uint32_t reserved;
    uint64_t start_ns;          /* when the trace began */
    uint64_t start_realtime_ns; /* the same moment in nanoseconds since 1970, CLOCK_REALTIME */
    uint64_t process;           /* process ID */
    uint64_t reserved_2[2];
};

/* What a chunk has. An id is defined once in a file. */
enum leati_trace_chunk_type {
    LEATI_TRACE_CHUNK_STRINGS = 1, /* count times struct leati_trace_string, each followed by its text */
    LEATI_TRACE_CHUNK_THREADS = 2, /* struct leati_trace_thread */
    LEATI_TRACE_CHUNK_DEVICES = 3, /* struct leati_trace_device */
    LEATI_TRACE_CHUNK_LANES = 4,   /* struct leati_trace_lane */
    LEATI_TRACE_CHUNK_OPS = 5,     /* struct leati_trace_op, all of one thread */
    LEATI_TRACE_CHUNK_TIMES = 6,   /* struct leati_trace_times */
    LEATI_TRACE_CHUNK_CLOCKS = 7,  /* struct leati_trace_clock */
    LEATI_TRACE_CHUNK_STATE = 8,   /* struct leati_trace_state, one */
    LEATI_TRACE_CHUNK_SOURCE = 9,  /* struct leati_trace_source, one; none: only calls of leat have operations */
    LEATI_TRACE_CHUNK_POOLS = 10,  /* struct leati_trace_pool */
    LEATI_TRACE_CHUNK_POOL_MEMORY = 11, /* struct leati_trace_pool_memory */
    LEATI_TRACE_CHUNK_COSTS = 12        /* struct leati_trace_cost */
};

struct leati_trace_chunk {
    uint32_t magic;         /* LEATI_TRACE_CHUNK_MAGIC */
    uint32_t type;          /* enum leati_trace_chunk_type */
    uint32_t payload_bytes; /* bytes that follow this struct; at most LEATI_TRACE_CHUNK_BYTES_MAX */
    uint32_t count;         /* number of records in the payload */
    uint32_t record_bytes;  /* size of a record: payload_bytes = count * record_bytes; STRINGS: 0 */
    uint32_t thread;        /* OPS: the thread that made the calls; foreign work, and other chunks: 0 */
    uint64_t first;         /* OPS: number of the first operation; else 0; see leati_trace_op_id() */
};

/* A text. Its bytes follow, without a NUL, and up to 7 zero bytes, so that the next record begins at a multiple
 * of 8. It may be any bytes, UTF-8 or not. */
struct leati_trace_string {
    uint32_t id;    /* 1 or more; 0 stands for no string */
    uint32_t bytes; /* at most LEATI_TRACE_STRING_BYTES_MAX */
};

/* These strings are in each file. */
enum leati_trace_known_string {
    LEATI_TRACE_STRING_PROGRAM = 1, /* path of the program */
    LEATI_TRACE_STRING_VERSION = 2, /* version of leat */
    LEATI_TRACE_STRING_FULL = 3     /* stands for all strings for which the recorder had no more room */
};

struct leati_trace_thread {
    uint32_t id;        /* 1 or more; never reused in a file */
    uint32_t system_id; /* gettid() */
    uint32_t name;      /* string; 0: none */
    uint32_t reserved;
};

struct leati_trace_device {
    uint32_t id;           /* 1 or more */
    uint32_t name;         /* string, such as "cuda:0" */
    uint32_t product;      /* string, such as "NVIDIA H200"; 0: unknown */
    uint32_t driver;       /* string, such as "cuda" */
    uint64_t memory_bytes; /* 0: unknown */
    uint64_t reserved;
};

/* Where work is submitted: a stream, or, for calls that have none, the device as a whole. */
struct leati_trace_lane {
    uint32_t id;     /* 1 or more; never reused in a file; 0 in an operation: no device, or unknown */
    uint32_t device; /* id of its device */
    uint64_t serial; /* the stream's number in messages and statistics of leat; 0: calls without a stream */
};

enum leati_trace_kind {
    LEATI_TRACE_COPY = 1, /* also batches and regions: see pieces */
    LEATI_TRACE_FILL = 2,
    LEATI_TRACE_KERNEL = 3,        /* name: the kernel's; value: threads of the launch */
    LEATI_TRACE_LAYOUT = 4,        /* a copy that changes the layout */
    LEATI_TRACE_HOST_FUNCTION = 5, /* device times: while the function ran */
    LEATI_TRACE_EVENT_RECORD = 6,  /* lane: the stream in which the event is recorded */
    /* The stream lane waits for the event; value: id of its EVENT_RECORD, 0: unknown. */
    LEATI_TRACE_EVENT_WAIT = 7,
    /* The host waits. lane: for that stream, or for the device; value: for an event, id of its EVENT_RECORD; for a
     * ticket, id of the copy; else 0. */
    LEATI_TRACE_SYNCHRONIZE = 8,
    LEATI_TRACE_ALLOC = 9,        /* kinds: destination; value: address; pieces: string of the tag, 0: none */
    LEATI_TRACE_FREE = 10,        /* kinds: destination; value: address, 0: of a trim; bytes may be 0: unknown */
    LEATI_TRACE_PIN = 11,         /* registers host memory; value: address */
    LEATI_TRACE_UNPIN = 12,       /* value: address; bytes 0 */
    LEATI_TRACE_PAGE_MOVE = 13,   /* prefetch of managed memory; kinds: destination DEVICE or PAGEABLE */
    LEATI_TRACE_FILE_READ = 14,   /* kinds: from FILE to memory */
    LEATI_TRACE_FILE_WRITE = 15,  /* kinds: from memory to FILE */
    LEATI_TRACE_RANGE = 16,       /* written when the range ends; name; pieces: depth, 1 is the outermost */
    LEATI_TRACE_MARK = 17,        /* a moment; name; value: of the caller's choice */
    LEATI_TRACE_MODULE_LOAD = 18, /* loads kernels */
    LEATI_TRACE_OTHER = 255       /* something else; name says what */
};

/* Kinds of memory in leati_trace_op.kinds: source in the low 4 bits, destination in the high ones. */
enum leati_trace_memory {
    LEATI_TRACE_MEMORY_NONE = 0, /* none, or unknown */
    LEATI_TRACE_MEMORY_PAGEABLE = 1,
    LEATI_TRACE_MEMORY_PINNED = 2,
    LEATI_TRACE_MEMORY_DEVICE = 3,
    LEATI_TRACE_MEMORY_MANAGED = 4,
    LEATI_TRACE_MEMORY_FILE = 5,
    LEATI_TRACE_MEMORY_MIXED = 6 /* a batch with several kinds */
};

/* leati_trace_op.how: the protocol in the low 4 bits, and flags. */
enum leati_trace_how {
    LEATI_TRACE_PROTOCOL_NONE = 0, /* not a copy, or several protocols */
    LEATI_TRACE_PROTOCOL_DRIVER = 1,
    LEATI_TRACE_PROTOCOL_EAGER = 2,
    LEATI_TRACE_PROTOCOL_STAGED = 3,
    LEATI_TRACE_PROTOCOL_KERNEL = 4,
    LEATI_TRACE_PROTOCOL_RAILS = 5,
    LEATI_TRACE_PROTOCOL_HOST = 6,
    LEATI_TRACE_PROTOCOL_MASK = 15,
    LEATI_TRACE_SYNCHRONOUS = 16, /* the call returned only after the work was complete */
    LEATI_TRACE_LONG = 32,        /* host_time counts units of 1024 ns */
    LEATI_TRACE_TIMES_LOST = 64,  /* the work has device times, but they could not be learned */
    LEATI_TRACE_FOREIGN = 128     /* see leati_trace_is_foreign() */
};

/*
 * An operation: a call and the work that it submitted. device_start_ns is when the stream reached the work,
 * device_end_ns when the work was complete; leat's own staging of a copy is between them. Both are 0 if the call
 * has no work on a device, or if they are not known, or not yet: a TIMES chunk behind this one may have them.
 */
struct leati_trace_op {
    uint64_t host_start_ns;
    uint64_t device_start_ns, device_end_ns;
    uint64_t bytes;     /* payload of copies and fills, sizes of allocations; else 0 */
    uint64_t value;     /* copies: the source's address, 0: none or several; fills: address; else see the kinds */
    uint32_t host_time; /* how long the call took: see leati_trace_op_host_end() */
    uint32_t pieces;    /* copies: rows of a region, ranges of a batch; else 1, but see ALLOC and RANGE */
    uint32_t lane;
    uint32_t name;  /* string: the call ("leat_copy_sync"), the kernel, the range */
    uint32_t place; /* string: the caller, "program(function+0x12)" or "program(+0x1234)"; 0: unknown */
    uint8_t kind;   /* enum leati_trace_kind */
    uint8_t how;    /* enum leati_trace_how */
    uint8_t kinds;  /* enum leati_trace_memory, twice */
    int8_t status;  /* leat_status of the call: negative if it failed */
};

/* Device times that were not known when the operation was written. */
struct leati_trace_times {
    uint64_t id; /* see leati_trace_op_id(); its OPS chunk may be missing if the process was killed */
    uint64_t device_start_ns, device_end_ns;
};

/* How the times of a device relate to the host's clock. Written when it is first known and when it is measured
 * anew. */
struct leati_trace_clock {
    uint32_t device;
    uint32_t exact;          /* 1: the device uses the host's clock, and the rest is 0 */
    uint64_t host_ns;        /* when it was measured */
    uint64_t uncertainty_ns; /* the device's times may be wrong by this, either way */
    int64_t step_ns;         /* correction against the previous measurement; 0 for the first */
};

/* How calls of CUDA that the program made without leat are recorded. */
enum leati_trace_source_by {
    /* NVIDIA's library tells of calls and of all work: foreign operations. */
    LEATI_TRACE_BY_CUPTI = 1,
    /* leat records events around the calls that it sees: operations as of leat's own calls. */
    LEATI_TRACE_BY_EVENTS = 2
};

struct leati_trace_source {
    uint32_t by;     /* enum leati_trace_source_by */
    uint32_t detail; /* string: which library; or why there is none */
};

/* What the recording itself takes the host: sampled operations of the device, and how long the calls that mark
 * their begins and ends on the device took together. Written now and then; the last one of a device counts. */
struct leati_trace_cost {
    uint32_t device;
    uint32_t reserved;
    uint64_t samples;
    uint64_t host_ns;
};

/* The recorder's counters since the trace began. Written now and then, and as the last chunk. */
struct leati_trace_state {
    uint64_t time_ns;
    uint64_t ops;          /* operations written */
    uint64_t lost_ops;     /* operations lost because a thread's ring was full */
    uint64_t lost_times;   /* operations whose device times were lost */
    uint64_t lost_strings; /* uses of LEATI_TRACE_STRING_FULL */
    uint32_t ended;        /* 1: the trace ended as it should; this is the last chunk */
    uint32_t reserved;
};

/* A pool of memory. */
struct leati_trace_pool {
    uint32_t id;     /* 1 or more; never reused in a file */
    uint32_t name;   /* string */
    uint32_t device; /* string: the name of its device, which need not be in a DEVICES chunk */
    uint32_t memory; /* enum leati_trace_memory */
};

/* The memory of a pool, from this time on. Written when it has changed, at most every 5 ms; a pool that was
 * destroyed has 0. */
struct leati_trace_pool_memory {
    uint64_t time_ns;
    uint32_t pool; /* id */
    uint32_t reserved;
    uint64_t used_bytes;     /* of live blocks */
    uint64_t reserved_bytes; /* that the pool has from the driver */
};

static_assert(sizeof(struct leati_trace_header) == 64, "file header");
static_assert(sizeof(struct leati_trace_chunk) == 32, "chunk header");
static_assert(sizeof(struct leati_trace_string) == 8, "string");
static_assert(sizeof(struct leati_trace_thread) == 16, "thread");
static_assert(sizeof(struct leati_trace_device) == 32, "device");
static_assert(sizeof(struct leati_trace_lane) == 16, "lane");
static_assert(sizeof(struct leati_trace_op) == 64, "operation");
static_assert(sizeof(struct leati_trace_times) == 24, "times");
static_assert(sizeof(struct leati_trace_clock) == 32, "clock");
static_assert(sizeof(struct leati_trace_cost) == 24, "cost");
static_assert(sizeof(struct leati_trace_state) == 48, "state");
static_assert(sizeof(struct leati_trace_pool) == 16, "pool");
static_assert(sizeof(struct leati_trace_pool_memory) == 32, "memory of a pool");
static_assert(sizeof(struct leati_trace_source) == 8, "source");

/* The numbers of foreign operations have this bit, so that they differ from those of leat's own. */
#define LEATI_TRACE_FOREIGN_NUMBER (UINT64_C(1) << 39)

/*
 * Returns true if the operations of an OPS chunk are foreign. Such an operation is either a call, with the times
 * of the host and a thread, or the work of a call, with the times of the device and a lane. value is the number by
 * which they belong together; a call has any number of works, such as a graph's. Calls that a thread makes while
 * it is in an operation of leat's, and their work, are parts of that operation. So is the work of a call in which
 * the thread makes an operation of leat's: a call of CUDA's runtime that leat serves.
 */
static inline int leati_trace_is_foreign(const struct leati_trace_chunk *chunk)
{
    return chunk->type == LEATI_TRACE_CHUNK_OPS && (chunk->first & LEATI_TRACE_FOREIGN_NUMBER) != 0;
}

/* Returns the id of an operation, unique in a file, never 0. thread: from the OPS chunk. number: the chunk's first
 * for its first operation, then 1 more for each. */
static inline uint64_t leati_trace_op_id(uint32_t thread, uint64_t number)
{
    return (uint64_t)thread << 40 | number;
}

/* Returns when the call returned. */
static inline uint64_t leati_trace_op_host_end(const struct leati_trace_op *op)
{
    return op->host_start_ns + (op->how & LEATI_TRACE_LONG ? (uint64_t)op->host_time * 1024 : op->host_time);
}

static inline unsigned leati_trace_op_source(const struct leati_trace_op *op)
{
    return op->kinds & 15u;
}

static inline unsigned leati_trace_op_destination(const struct leati_trace_op *op)
{
    return op->kinds >> 4;
}

#endif
