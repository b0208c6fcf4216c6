/*
 * trace_make.h - declares what the readers of recorded allocations share: functions that build a trace event by
 * event, find blocks by their ids, and write the message that says what is wrong with a file.
 */
#ifndef CLI_TRACE_MAKE_H
#define CLI_TRACE_MAKE_H

#include "trace_read.h"

#include <zlib.h>

enum { TRACE_NO_BLOCK = UINT32_MAX };

/* The frees of a block that the file has reported so far. */
struct trace_fate {
    uint64_t free_record; /* number of the record with its free; 0: not freed yet */
    uint64_t free_place;
    bool freed;
};

struct trace_slot;

struct trace_maker {
    const char *path;
    char *error;
    struct trace *trace;
    uint64_t place;  /* position of the current record in the file: the number of its line, or the index of an
                      * event in a snapshot */
    uint64_t record; /* number of the current record, not counting records that are left out */
    struct trace_slot *slots;
    size_t slot_count, slots_taken; /* slot_count is a power of two */
    size_t event_room, block_room, fate_room, pool_room;
    uint64_t total_bytes;     /* sum of all allocations */
    struct trace_fate *fates; /* an element for each block */
    bool in_events;           /* only for snapshots; true: messages name the current event; false: only the
                               * file */
};

/* Begin and end a trace. trace_maker_begin() returns false with the error set. trace_maker_end() frees the
 * temporary data and returns the trace. If the trace is not whole, it frees the trace too and returns NULL. */
bool trace_maker_begin(struct trace_maker *maker, const char *path, char error[TRACE_ERROR_MAX]);
struct trace *trace_maker_end(struct trace_maker *maker, bool whole);

/* Writes an error message with the current position to the caller's error. Returns false. */
bool trace_complain(struct trace_maker *maker, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The number of the "stream" that stands for the host. It never ends, and no file contains this number. */
#define TRACE_HOST UINT64_MAX

/* trace_make_stream() finds or adds the stream with this number in the file, and returns its index.
 * trace_make_stream_end() ends the stream with this number. */
bool trace_make_stream(struct trace_maker *maker, uint64_t number, uint16_t *index);
bool trace_make_stream_end(struct trace_maker *maker, uint64_t number);

/* Returns the index of the block that an id names now, or TRACE_NO_BLOCK. */
uint32_t trace_find_block(const struct trace_maker *maker, uint64_t id);

/* Adds an allocation at the current position. The id must not name a block. */
bool trace_make_alloc(struct trace_maker *maker, uint64_t id, uint64_t bytes, uint16_t stream);

/* Adds a block that was allocated before the recording began. block may be NULL. */
bool trace_make_before(struct trace_maker *maker, uint64_t id, uint64_t bytes, uint16_t stream, uint32_t *block);

/* Ids are also used for other objects: ids from TRACE_ID_POOL on name pools, ids from TRACE_ID_MARK on name marks
 * (recorded events). trace_name() sets the index for such an id, and trace_find_block() returns it. */
#define TRACE_ID_POOL ((uint64_t)1 << 62)
#define TRACE_ID_MARK ((uint64_t)1 << 63)
bool trace_name(struct trace_maker *maker, uint64_t id, uint32_t index);

/* trace_make_pool() adds a pool of the recorded program to the end of trace.pools. trace_make_event() adds an
 * event that is no allocation and no free. */
bool trace_make_pool(struct trace_maker *maker, leat_kind kind, const char *name);
bool trace_make_event(struct trace_maker *maker, struct trace_event event);

/* trace_make_free() adds the program's free of a block, which must be the block's first. trace_make_freed() adds
 * the moment at which the recording allocator could reuse the block's memory. */
bool trace_make_free(struct trace_maker *maker, uint32_t block, uint16_t stream);
bool trace_make_freed(struct trace_maker *maker, uint32_t block, uint16_t stream);

/* trace_forget_id() lets an id no longer name its block, so that the id can be used again. trace_forgot_id()
 * returns true if an id was used before and names no block now. */
void trace_forget_id(struct trace_maker *maker, uint64_t id);
bool trace_forgot_id(const struct trace_maker *maker, uint64_t id);

/* ---- trace_snapshot.c ---- */

/* Reads a memory snapshot of PyTorch. device: as for trace_read(). */
bool trace_read_snapshot(struct trace_maker *maker, gzFile file, int device);

#endif
