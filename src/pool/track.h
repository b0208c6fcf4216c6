/*
 * track.h - marks memory that pools hold as inaccessible for AddressSanitizer and Valgrind, so that they report
 * host accesses to it.
 *
 * Only memory that the host can reach is marked: pinned, managed, and device memory of the CPU device. And only
 * memory without pending work: memory freed on a stream may still be used by earlier work of that stream, on the
 * CPU device even by threads of this process, which the checker would then report. So a block becomes inaccessible
 * when it has no pending work: at leat_memory_free(), or some time after leat_free(), when the pool finds that the
 * stream has completed that work. An allocated block is accessible from its first byte to the last one requested;
 * with guards or scrubbing its whole extent is, because the pool itself writes there.
 *
 * These functions do something only if leat is built with AddressSanitizer or with -DLEAT_VALGRIND=1; otherwise
 * they are empty.
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
/* If work may still be using the bytes (clean is false), they count as initialized, because that work may read
 * what it wrote there. */
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

/* Call when [base, base + bytes) is idle and no pending work uses it. */
static inline void leati_track_idle(const struct leat_pool *pool, uintptr_t base, size_t bytes)
{
    if (leati_track_reaches(pool))
        LEATI_CLOSE_BYTES(base, bytes);
}

/* Call when a block is allocated. clean: no pending work uses it. */
static inline void leati_track_live(const struct leat_pool *pool, const struct leati_block *block, bool clean)
{
    if (!leati_track_reaches(pool))
        return;
    if (pool->guard || pool->scrub)
        LEATI_OPEN_BYTES(leati_base(block), leati_bytes(block), clean);
    else
        LEATI_OPEN_BYTES(leati_user_base(block), leati_requested(block), clean);
}

/* Call when the pool gives up the addresses: removes the marks, because the addresses may be reused by others. */
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
