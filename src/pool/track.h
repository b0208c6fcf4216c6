/*
 * track.h - tells AddressSanitizer and Valgrind what pools hold back, so that they report the host when it touches
 * it.
 *
 * Only memory that the host can reach is told of: pinned, managed, and device memory of the CPU device. And only
 * memory of which the pool knows that all work is done: what is freed on a stream may still be used by work that
 * the stream was given before, on the CPU device by threads of this very process, which a checker would then
 * blame. So a block is out of bounds from the moment on when it is everybody's: at leat_memory_free(), and after
 * leat_free() once the pool has seen the stream pass. A block that is handed out is open again, from its first
 * byte to the last one that was asked for; with guards or scrubbing all of its extent, because the pool itself
 * writes there.
 *
 * AddressSanitizer is told when leat is built with it, Valgrind when it is built with -DLEAT_VALGRIND=1; otherwise
 * nothing of this is left.
 */
#ifndef LEATI_TRACK_H
#define LEATI_TRACK_H

#include "pool/pool.h"

#if defined(__SANITIZE_ADDRESS__)
#define LEATI_TRACK_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEATI_TRACK_ASAN 1
#endif
#endif

#if defined(LEATI_TRACK_ASAN)
#include <sanitizer/asan_interface.h>
#define LEATI_CLOSE_BYTES(base, bytes) __asan_poison_memory_region((void *)(base), (bytes))
#define LEATI_OPEN_BYTES(base, bytes, clean)                                                                      \
    ((void)(clean), __asan_unpoison_memory_region((void *)(base), (bytes)))
#define LEATI_FORGET_BYTES(base, bytes) __asan_unpoison_memory_region((void *)(base), (bytes))
#elif defined(LEAT_VALGRIND) && LEAT_VALGRIND
#include <valgrind/memcheck.h>
#define LEATI_CLOSE_BYTES(base, bytes) VALGRIND_MAKE_MEM_NOACCESS((base), (bytes))
/* Work that is still on its way may read what it wrote there, so only bytes that nobody uses count as not written.
 */
#define LEATI_OPEN_BYTES(base, bytes, clean)                                                                      \
    ((clean) ? VALGRIND_MAKE_MEM_UNDEFINED((base), (bytes)) : VALGRIND_MAKE_MEM_DEFINED((base), (bytes)))
#define LEATI_FORGET_BYTES(base, bytes) VALGRIND_MAKE_MEM_DEFINED((base), (bytes))
#endif

#if defined(LEATI_CLOSE_BYTES)
#define LEATI_TRACKS 1

static inline bool leati_track_reaches(const struct leat_pool *pool)
{
    return pool->kind != LEAT_KIND_DEVICE || pool->device->driver->can->host_reaches_device;
}

/* [base, base + bytes) is idle, and no work uses it any more. */
static inline void leati_track_idle(const struct leat_pool *pool, uintptr_t base, size_t bytes)
{
    if (leati_track_reaches(pool))
        LEATI_CLOSE_BYTES(base, bytes);
}

/* The block is the user's now. clean: no work uses it. */
static inline void leati_track_live(const struct leat_pool *pool, const struct leati_block *block, bool clean)
{
    if (!leati_track_reaches(pool))
        return;
    if (pool->guard || pool->scrub)
        LEATI_OPEN_BYTES(leati_base(block), leati_bytes(block), clean);
    else
        LEATI_OPEN_BYTES(leati_user_base(block), leati_requested(block), clean);
}

/* The pool gives the addresses up: whatever comes there next is not its business. */
static inline void leati_track_forget(const struct leat_pool *pool, uintptr_t base, size_t bytes)
{
    if (leati_track_reaches(pool))
        LEATI_FORGET_BYTES(base, bytes);
}

#else
#define LEATI_TRACKS 0

static inline void leati_track_idle(const struct leat_pool *pool, uintptr_t base, size_t bytes)
{
    (void)pool, (void)base, (void)bytes;
}

static inline void leati_track_live(const struct leat_pool *pool, const struct leati_block *block, bool clean)
{
    (void)pool, (void)block, (void)clean;
}

static inline void leati_track_forget(const struct leat_pool *pool, uintptr_t base, size_t bytes)
{
    (void)pool, (void)base, (void)bytes;
}

#endif
#endif
