/*
 * track.h - marks idle memory of pools as inaccessible, so that AddressSanitizer and Valgrind report host accesses
 * to it.
 *
 * Only memory that the host can reach is marked: pinned memory, managed memory, and device memory of the CPU
 * device. Memory with pending work is not marked. After a free on a stream, earlier work of that stream may still
 * use the memory. On the CPU device threads of this process run that work, and the checker would report their
 * accesses. So a block becomes inaccessible at leat_memory_free(), or some time after leat_free(), when the pool
 * finds that the stream has completed the work. Of an allocated block, the bytes that the user requested are
 * accessible. In guard mode or with scrubbing the whole extent is accessible, because the pool itself writes to
 * it.
 *
 * These functions are empty unless leat is built with AddressSanitizer or with -DLEAT_VALGRIND=1.
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
/* If clean is false, pending work may still use the bytes. Then Valgrind must regard them as initialized, because
 * that work may read what it wrote before. */
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

/* Marks idle memory as inaccessible. Call when no pending work uses [base, base + bytes) any more. */
static inline void leati_track_idle(const struct leat_pool *pool, uintptr_t base, size_t bytes)
{
    if (leati_track_reaches(pool))
        LEATI_CLOSE_BYTES(base, bytes);
}

/* Marks a block as accessible. Call when it is allocated. clean: no pending work uses its memory. */
static inline void leati_track_live(const struct leat_pool *pool, const struct leati_block *block, bool clean)
{
    if (!leati_track_reaches(pool))
        return;
    if (pool->guard || pool->scrub)
        LEATI_OPEN_BYTES(leati_base(block), leati_bytes(block), clean);
    else
        LEATI_OPEN_BYTES(leati_user_base(block), leati_requested(block), clean);
}

/* Call when the pool gives up the addresses. Removes the marks, because the process may reuse the addresses for
 * other memory. */
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
