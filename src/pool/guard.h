/*
 * guard.h - what is remembered of blocks in guard mode, and with LEAT_POOL_BACKTRACES=1.
 *
 * A block has a note (struct leati_note) from its allocation on. Without guard mode it holds the call stack and
 * goes with the free. In guard mode it also says who used the block last, stays with the block while that is kept
 * out of use, and is then remembered for a while by its addresses alone, for messages about pointers that are
 * long dead.
 *
 * Files: guard.c has red zones, poison and the quarantine; race_check.c races between streams; backtraces.c
 * call stacks. Notes are under one lock for all pools (leati_notes_lock), the last of all pool locks: under it
 * nothing is waited for, and no other lock of leat is taken.
 */
#ifndef LEATI_GUARD_H
#define LEATI_GUARD_H

#include "base/lock.h"
#include "pool/pool.h"

/* How much is written around blocks, and what: as many debuggers do, so that it is known when it is seen. */
enum { LEATI_BYTE_RED_ZONE = 0xfd, LEATI_BYTE_FRESH = 0xcd, LEATI_BYTE_FREED = 0xdd };

/* Freed blocks that a pool keeps out of use: so many, and so many bytes of them. */
enum { LEATI_QUARANTINE_BLOCKS = 64 };
#define LEATI_QUARANTINE_BYTES ((size_t)64 << 20)

/* Notes that a pool remembers of blocks that it does not keep any more. */
enum { LEATI_REMEMBERED = 256 };

enum { LEATI_BACKTRACE_FRAMES = 24, LEATI_BACKTRACE_TEXT_BYTES = 420 };

/* A call stack, as addresses to return to. */
struct leati_backtrace {
    unsigned count;
    void *at[LEATI_BACKTRACE_FRAMES];
};

/* Something that a stream did with [from, to). */
struct leati_recorded_access {
    struct leati_timeline *timeline; /* of that stream, held; NULL: none, or nothing that can be compared */
    uint64_t seq;
    void *event; /* the driver's, behind it; NULL: it was done when the call returned */
    uintptr_t from, to;
    struct leati_backtrace trace;
};

enum leati_access_kind { LEATI_ALLOCATION, LEATI_WRITE, LEATI_READ, LEATI_ACCESSES };

struct leati_note {
    uintptr_t base, from, to; /* the user's first byte; the extent */
    size_t requested_bytes;
    struct leati_recorded_access at[LEATI_ACCESSES]; /* the latest of each */
    struct leati_backtrace freed;
    void *poisoned; /* the driver's event behind the poison; NULL: that was waited for */
    bool is_freed;
};

/* What a checked pool has beyond others. */
struct leati_checker {
    void *stream;                          /* the driver's, for what is done without a stream of the user's */
    struct leati_block *oldest, *youngest; /* in quarantine, through link; under the pool's lock */
    size_t quarantine_bytes;
    unsigned quarantine_blocks;
    struct leati_note *remembered[LEATI_REMEMBERED]; /* under leati_notes_lock */
    unsigned next;                                   /* the place to overwrite */
};

extern struct leati_lock leati_notes_lock;

/* Frees a note that no block has any more. */
void leati_note_free(struct leati_driver *driver, struct leati_note *note);

/* Forgets an access; under the lock, or for a note that nobody knows. */
void leati_recorded_access_end(struct leati_driver *driver, struct leati_recorded_access *access);

/* An event of the pool's device behind what was given to stream so far. */
leat_status leati_guard_fence(struct leat_pool *pool, void *native_stream, void **event);

/* ---- backtraces.c ---- */

/* The caller's own call stack. */
void leati_backtrace_capture(struct leati_backtrace *trace);

/* "function+0x1c (library) < ...": calls, the innermost first, cut off at bytes. Addresses are those of the calls,
 * so that addr2line finds their lines. */
void leati_backtrace_print(const struct leati_backtrace *trace, char *text, size_t bytes);

/* ---- race_check.c ---- */

leat_status leati_race_check(struct leati_block *block, leat_stream *stream, const void *ptr, size_t bytes,
                             bool write);
void leati_race_check_record(struct leati_block *block, leat_stream *stream, const void *ptr, size_t bytes,
                             bool write, uint64_t seq);

#endif
