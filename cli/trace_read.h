/*
 * trace_read.h - recorded allocations, read from a file, plain or compressed by gzip: traces of leat's own format,
 * logs of RMM's logging adaptor, and PyTorch's memory snapshots. The content says which of them a file is.
 *
 * leat's format is CSV with the columns t_us, op (alloc, free, freed), id, bytes, stream; with the column pool, as
 * LEAT_RECORD_ALLOCATIONS writes it, there are further ops (docs/traces.md). RMM's is CSV with
 * Thread, Time, Action (allocate, free, allocate failure), Pointer, Size, Stream. The header line says which one
 * it is and in what order the columns come; further columns are skipped. A snapshot is what
 * torch.cuda.memory._dump_snapshot() writes: a pickle with a list of events for each device.
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
    TRACE_FREE,  /* the program let go of the block */
    TRACE_FREED, /* the recording allocator used its memory again from here on; not in RMM's logs */
    /* What leat records beside that. */
    TRACE_USE,        /* stream uses block */
    TRACE_USE_UNTIL,  /* block is used until what mark marks */
    TRACE_RECORD,     /* mark marks the work of stream */
    TRACE_WAIT,       /* stream waits for what mark marks */
    TRACE_SYNC,       /* the host saw the work of stream done */
    TRACE_SYNC_MARK,  /* what mark marks */
    TRACE_SYNC_ALL,   /* all work */
    TRACE_STREAM_END, /* stream ended; another one may have its index from here on */
    TRACE_MARK_END
};

struct trace_event {
    uint32_t block;  /* index of trace.blocks; 0 from TRACE_RECORD on */
    uint16_t stream; /* index of trace.streams; of a free, the stream that it was given to */
    uint16_t op;     /* enum trace_op */
    uint32_t mark;   /* TRACE_USE_UNTIL and later: index of an event of the program's */
};

enum { TRACE_POOL_NAME_MAX = 48 };

/* A pool of the recorded program. */
struct trace_pool {
    leat_kind kind;
    char name[TRACE_POOL_NAME_MAX];
};

struct trace_block {
    uint64_t id; /* number of the block, or its pointer */
    uint64_t bytes;
    uint64_t place;      /* of its allocation: the line, or the index of a snapshot's event */
    uint64_t alignment;  /* 0: as usual */
    uint32_t pool;       /* index of trace.pools */
    uint16_t stream;     /* index of trace.streams */
    bool used_elsewhere; /* other streams used it: its "freed" does not directly follow its "free" */
    bool is_reported;    /* the same, as events TRACE_USE and TRACE_USE_UNTIL say */
    bool before;         /* it was allocated before the recording began; place says nothing */
};

struct trace {
    enum trace_format format;
    struct trace_event *events;
    size_t event_count;
    struct trace_block *blocks; /* as many as there are allocations */
    size_t block_count;
    uint64_t streams[TRACE_STREAMS_MAX]; /* their numbers in the file, in the order in which they appear */
    unsigned stream_count;
    int host_stream;          /* index of the "stream" that stands for the host; -1: there is none */
    struct trace_pool *pools; /* the first one stands for what is in none */
    size_t pool_count;
    size_t mark_count;
    uint64_t left_out; /* blocks that trace_choose() took away */
    uint64_t failures; /* allocations that failed when the file was recorded */
    uint64_t before;   /* blocks that were allocated before the recording began; they are allocated first */
    unsigned device;   /* whose events these are; snapshots only */
    bool has_freed;    /* there is an event "freed" */
};

/* The trace in a file, or NULL; error then says where it is wrong and why. device: which device of a snapshot, or
 * TRACE_ANY_DEVICE for the only one that has events. */
struct trace *trace_read(const char *path, int device, char error[TRACE_ERROR_MAX]);
void trace_destroy(struct trace *trace);

/* Leaves only blocks of this kind of memory; pool: and of pools of this name, or NULL. False when none are left,
 * or memory is short: error says so then. */
bool trace_choose(struct trace *trace, leat_kind kind, const char *pool, char error[TRACE_ERROR_MAX]);

/* "leat", "rmm" or "pytorch". */
const char *trace_format_name(enum trace_format format);

/* Where the trace allocates a block, in words: "line 12". Returns text. */
const char *trace_place(const struct trace *trace, uint32_t block, char text[TRACE_PLACE_MAX]);

/* The most bytes that are live at once, from "alloc" to "free" or, with until_freed, to "freed"; *event, which may
 * be NULL, gets the index of the allocation that reaches it first. */
uint64_t trace_peak_bytes(const struct trace *trace, bool until_freed, size_t *event);

#endif
