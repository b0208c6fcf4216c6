/*
 * guard.h - declares the diagnostics for each block: guard mode, and call stacks with LEAT_POOL_BACKTRACES=1.
 *
 * Each block gets a note (struct leati_note) when it is allocated. Without guard mode the note holds the call
 * stack of the allocation and is freed together with the block. In guard mode the note also records the latest
 * accesses, and stays with the block while the block is in quarantine. After that the pool keeps the note in a
 * ring of LEATI_REMEMBERED notes and finds it by address, so that messages about dangling pointers can name the
 * block.
 *
 * Files: guard.c has red zones, poison and the quarantine; race_check.c detects races between streams;
 * backtraces.c captures and prints call stacks. One lock (leati_notes_lock) guards the notes of all pools. It is
 * the last in the lock order of pools: a thread that holds it does not wait and takes no other lock of leat.
 */
#ifndef LEATI_GUARD_H
#define LEATI_GUARD_H

#include "base/lock.h"
#include "pool/pool.h"

/* Fill bytes. Many debuggers use these values, so programmers recognize them. */
enum { LEATI_BYTE_RED_ZONE = 0xfd, LEATI_BYTE_FRESH = 0xcd, LEATI_BYTE_FREED = 0xdd };

/* The maximum number and total size of the freed blocks in a pool's quarantine. */
enum { LEATI_QUARANTINE_BLOCKS = 64 };
#define LEATI_QUARANTINE_BYTES ((size_t)64 << 20)

/* The number of notes that a pool keeps of blocks that have left quarantine. */
enum { LEATI_REMEMBERED = 256 };

enum { LEATI_BACKTRACE_FRAMES = 24, LEATI_BACKTRACE_TEXT_BYTES = 420 };

/* A call stack: return addresses, the innermost first. */
struct leati_backtrace {
    unsigned count;
    void *at[LEATI_BACKTRACE_FRAMES];
};

/* An access of a stream to the bytes [from, to). */
struct leati_recorded_access {
    struct leati_timeline
        *timeline; /* timeline of the stream, held; NULL: no access recorded, or leat cannot tell its order */
    uint64_t seq;
    void *event; /* driver event recorded after the access; NULL: the access was complete when it was recorded */
    uintptr_t from, to;
    struct leati_backtrace trace;
};

enum leati_access_kind { LEATI_ALLOCATION, LEATI_WRITE, LEATI_READ, LEATI_ACCESSES };

struct leati_note {
    uintptr_t base, from, to; /* base is the user's first byte, [from, to) the extent with its red zones */
    size_t requested_bytes;
    struct leati_recorded_access at[LEATI_ACCESSES]; /* the latest access of each kind */
    struct leati_backtrace freed;
    void *poisoned; /* driver event recorded after the poison was written; NULL: the host waited for the write */
    bool is_freed;
};

/* State of a checked pool (guard, scrub or backtraces). */
struct leati_checker {
    void *stream;                          /* the pool's own driver stream, for work on no stream of the user */
    struct leati_block *oldest, *youngest; /* the quarantine: a list linked by link, guarded by the pool's lock */
    size_t quarantine_bytes;
    unsigned quarantine_blocks;
    struct leati_note *remembered[LEATI_REMEMBERED]; /* ring of old notes, guarded by leati_notes_lock */
    unsigned next;                                   /* index of the entry in the ring to overwrite next */
};

extern struct leati_lock leati_notes_lock;

/* Frees a note that no block refers to any more. note may be NULL. */
void leati_note_free(struct leati_driver *driver, struct leati_note *note);

/* Releases the event and the timeline of an access. Call under leati_notes_lock, or for an access that no other
 * thread can reach. */
void leati_recorded_access_end(struct leati_driver *driver, struct leati_recorded_access *access);

/* Creates an event of the pool's device and records it on a driver stream. The event completes after all work that
 * was submitted to the stream so far. */
leat_status leati_guard_fence(struct leat_pool *pool, void *native_stream, void **event);

/* ---- backtraces.c ---- */

/* Captures the call stack of the caller. */
void leati_backtrace_capture(struct leati_backtrace *trace);

/* Prints "function+0x1c (library) < ...", the innermost frame first. Leaves out frames that do not fit into bytes.
 * The printed addresses are inside the call instructions, so addr2line finds the lines of the calls. */
void leati_backtrace_print(const struct leati_backtrace *trace, char *text, size_t bytes);

/* ---- race_check.c ---- */

/* Returns NOT_PERMITTED if stream may not yet access [ptr, ptr + bytes) of block, because it is not ordered after
 * an earlier access of another stream. */
leat_status leati_race_check(struct leati_block *block, leat_stream *stream, const void *ptr, size_t bytes,
                             bool write);
/* Records an access that was submitted to stream. seq is the stream's sequence number, read before the submission;
 * 0: the access is complete. */
void leati_race_check_record(struct leati_block *block, leat_stream *stream, const void *ptr, size_t bytes,
                             bool write, uint64_t seq);

#endif
