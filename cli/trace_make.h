/*
 * trace_make.h - what the readers of recorded allocations share: a trace that grows event by event, the blocks by
 * their ids, and the message that says what is wrong with a file.
 */
#ifndef CLI_TRACE_MAKE_H
#define CLI_TRACE_MAKE_H

#include "trace_read.h"

#include <zlib.h>

enum { TRACE_NO_BLOCK = UINT32_MAX };

/* What became of a block so far. */
struct trace_fate {
    uint64_t free_record; /* 0: not freed yet */
    uint64_t free_place;
    bool freed;
};

struct trace_slot;

struct trace_maker {
    const char *path;
    char *error;
    struct trace *trace;
    uint64_t place;  /* what is being read: the number of the line, or the index of a snapshot's event */
    uint64_t record; /* its number among those that say something */
    struct trace_slot *slots;
    size_t slot_count, slots_taken; /* slot_count is a power of two */
    size_t event_room, block_room, fate_room, pool_room;
    uint64_t total_bytes;     /* of all allocations */
    struct trace_fate *fates; /* one for each block */
    bool in_events;           /* of a snapshot: an event is being read, else the file as a whole */
};

/* An empty trace; false after a complaint. trace_maker_end() frees what only the making needs, and the trace too
 * unless it is whole. */
bool trace_maker_begin(struct trace_maker *maker, const char *path, char error[TRACE_ERROR_MAX]);
struct trace *trace_maker_end(struct trace_maker *maker, bool whole);

/* Says what is wrong and where, and returns false. */
bool trace_complain(struct trace_maker *maker, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The number of the "stream" that stands for the host, which keeps its index to the end; no file has it. */
#define TRACE_HOST UINT64_MAX

/* The index of a stream by its number in the file; and its end. */
bool trace_make_stream(struct trace_maker *maker, uint64_t number, uint16_t *index);
bool trace_make_stream_end(struct trace_maker *maker, uint64_t number);

/* The block that an id stands for now, or TRACE_NO_BLOCK. */
uint32_t trace_find_block(const struct trace_maker *maker, uint64_t id);

/* An allocation here; the id must not stand for a block. */
bool trace_make_alloc(struct trace_maker *maker, uint64_t id, uint64_t bytes, uint16_t stream);

/* A block that was allocated before the recording began; *block may be NULL. */
bool trace_make_before(struct trace_maker *maker, uint64_t id, uint64_t bytes, uint16_t stream, uint32_t *block);

/* What has a name like a block and is none: ids from TRACE_ID_POOL on stand for pools, from TRACE_ID_MARK on for
 * marks, in files that have such names. trace_find_block() finds their indices too. */
#define TRACE_ID_POOL ((uint64_t)1 << 62)
#define TRACE_ID_MARK ((uint64_t)1 << 63)
bool trace_name(struct trace_maker *maker, uint64_t id, uint32_t index);

/* A pool of the recorded program, the last of trace.pools; and an event that leat records beside those of blocks.
 */
bool trace_make_pool(struct trace_maker *maker, leat_kind kind, const char *name);
bool trace_make_event(struct trace_maker *maker, struct trace_event event);

/* The program lets go of a block that it has not let go of before; the recording allocator takes it back. */
bool trace_make_free(struct trace_maker *maker, uint32_t block, uint16_t stream);
bool trace_make_freed(struct trace_maker *maker, uint32_t block, uint16_t stream);

/* From here on the id of a block stands for none, so that it can be given again. trace_forgot_id() returns true if
 * that is how it is now. */
void trace_forget_id(struct trace_maker *maker, uint64_t id);
bool trace_forgot_id(const struct trace_maker *maker, uint64_t id);

/* ---- trace_snapshot.c ---- */

/* Reads one of PyTorch's memory snapshots; device as for trace_read(). */
bool trace_read_snapshot(struct trace_maker *maker, gzFile file, int device);

#endif
