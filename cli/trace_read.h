/*
 * trace_read.h - reads recorded allocations from a file, plain or compressed by gzip: traces of leat's own format,
 * logs of RMM's logging adaptor, and PyTorch's memory snapshots. The content of a file decides which it is.
 *
 * leat's format is CSV with the columns t_us, op (alloc, free, freed), id, bytes, stream. With the column pool, as
 * LEAT_RECORD_ALLOCATIONS writes it, there are further ops (docs/traces.md). RMM's format is CSV with Thread,
 * Time, Action (allocate, free, allocate failure), Pointer, Size, Stream. The header line gives the format and the
 * order of the columns; further columns are ignored. A snapshot is the output of
 * torch.cuda.memory._dump_snapshot(): a pickle with a list of events for each device.
 */
#ifndef CLI_TRACE_READ_H
#define CLI_TRACE_READ_H

#include <leat/memory.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRACE_STREAMS_MAX = 256, TRACE_ERROR_MAX = 512, TRACE_PLACE_MAX = 64, TRACE_ANY_DEVICE = -1 };

enum trace_format { TRACE_LEAT, TRACE_RMM, TRACE_PYTORCH };

enum trace_op {
    TRACE_ALLOC,
    TRACE_FREE,  /* the program freed the block */
    TRACE_FREED, /* from here on the recording allocator could reuse the memory; not in RMM's logs */
    /* Further events, which only traces of LEAT_RECORD_ALLOCATIONS have. */
    TRACE_USE,        /* stream uses block */
    TRACE_USE_UNTIL,  /* block is used until the work that mark stands for is complete */
    TRACE_RECORD,     /* an event record: mark stands for all work of stream so far */
    TRACE_WAIT,       /* stream waits for the work that mark stands for */
    TRACE_SYNC,       /* the host knows that all work of stream is complete */
    TRACE_SYNC_MARK,  /* the host knows that the work that mark stands for is complete */
    TRACE_SYNC_ALL,   /* the host knows that all work of all streams is complete */
    TRACE_STREAM_END, /* stream was destroyed; its index may be reused */
    TRACE_MARK_END
};

struct trace_event {
    uint32_t block;  /* index of trace.blocks; 0 from TRACE_RECORD on */
    uint16_t stream; /* index of trace.streams; for a free, the stream on which it was made */
    uint16_t op;     /* enum trace_op */
    uint32_t mark;   /* from TRACE_USE_UNTIL on: index of an event of the recorded program */
};

enum { TRACE_POOL_NAME_MAX = 48 };

/* A pool of the recorded program. */
struct trace_pool {
    leat_kind kind;
    char name[TRACE_POOL_NAME_MAX];
};

struct trace_block {
    uint64_t id; /* number of the block in the file, or its pointer */
    uint64_t bytes;
    uint64_t place;      /* position of its allocation: the line, or the index of a snapshot's event */
    uint64_t alignment;  /* alignment in bytes; 0: the default */
    uint32_t pool;       /* index of trace.pools */
    uint16_t stream;     /* index of trace.streams */
    bool used_elsewhere; /* other streams used it: its "freed" does not directly follow its "free" */
    bool is_reported;    /* the trace has events TRACE_USE or TRACE_USE_UNTIL of this block */
    bool before;         /* allocated before the recording began; place has no meaning */
};

struct trace {
    enum trace_format format;
    struct trace_event *events;
    size_t event_count;
    struct trace_block *blocks; /* an element for each allocation */
    size_t block_count;
    uint64_t streams[TRACE_STREAMS_MAX]; /* numbers of the streams in the file, in order of appearance */
    unsigned stream_count;
    int host_stream;          /* index of the "stream" that stands for the host; -1: there is none */
    struct trace_pool *pools; /* the first element stands for blocks outside of any pool */
    size_t pool_count;
    size_t mark_count;
    uint64_t left_out; /* number of blocks that trace_choose() removed */
    uint64_t failures; /* allocations that failed when the file was recorded */
    uint64_t before;   /* blocks that were allocated before the recording began; a replay allocates them first */
    unsigned device;   /* the device of the events; snapshots only */
    bool has_freed;    /* there is at least one event "freed" */
};

/* Reads the trace in a file (-: standard input). On failure returns NULL with error set, which says what is wrong
 * and where. device: the device of a snapshot whose events to read, or TRACE_ANY_DEVICE for the only device with
 * events. */
struct trace *trace_read(const char *path, int device, char error[TRACE_ERROR_MAX]);
void trace_destroy(struct trace *trace);

/* Keeps only the blocks of this kind of memory and, unless pool is NULL, of pools of this name. Returns false with
 * error set if no block is left or memory is short. */
bool trace_choose(struct trace *trace, leat_kind kind, const char *pool, char error[TRACE_ERROR_MAX]);

/* Returns the name of a format: "leat", "rmm" or "pytorch". */
const char *trace_format_name(enum trace_format format);

/* Writes the position at which the trace allocates a block, such as "line 12". Returns text. */
const char *trace_place(const struct trace *trace, uint32_t block, char text[TRACE_PLACE_MAX]);

/* Returns the most bytes that are live at once. A block lives from "alloc" to "free" or, with until_freed, to
 * "freed". *event receives the index of the first allocation that reaches this peak; event may be NULL. */
uint64_t trace_peak_bytes(const struct trace *trace, bool until_freed, size_t *event);

#endif
