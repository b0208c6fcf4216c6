/* hugepage.c - see hugepage.h. */
#include "base/hugepage.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define PIECE_BYTES ((uintptr_t)2 << 20)
#define PAGE_BYTES ((uintptr_t)4096)
#define LEAST_BYTES ((size_t)64 << 10)

#ifndef MADV_COLLAPSE /* Linux 6.1 */
#define MADV_COLLAPSE 25
#endif

/* Set when the kernel reports that no huge pages are left. From then on leat requests none. */
static atomic_bool refused;

static uintptr_t piece_of(const void *ptr, uint64_t i)
{
    return (uintptr_t)ptr / PIECE_BYTES * PIECE_BYTES + i * PIECE_BYTES;
}

/* Returns the first byte of the range that lies in piece number i. */
static const volatile char *byte_of(const void *ptr, uint64_t i)
{
    return i ? (const volatile char *)piece_of(ptr, i) : ptr;
}

static bool is_there(const volatile char *byte)
{
    unsigned char there = 1;

    return mincore((void *)((uintptr_t)byte / PAGE_BYTES * PAGE_BYTES), PAGE_BYTES, &there) || (there & 1);
}

uint64_t leati_hugepage_count(const void *ptr, size_t bytes)
{
    if (bytes < LEAST_BYTES || atomic_load_explicit(&refused, memory_order_relaxed))
        return 0;
    return ((uintptr_t)ptr + bytes - 1) / PIECE_BYTES - (uintptr_t)ptr / PIECE_BYTES + 1;
}

bool leati_hugepage_any_missing(const void *ptr, size_t bytes)
{
    uint64_t pieces = leati_hugepage_count(ptr, bytes);

    for (uint64_t i = 0; i < pieces; i++)
        if (!is_there(byte_of(ptr, i)))
            return true;
    return false;
}

void leati_hugepage_collapse(const void *ptr, uint64_t i)
{
    if (is_there(byte_of(ptr, i)))
        return;
    /* MADV_COLLAPSE needs a page that is present, so touch one. */
    (void)*byte_of(ptr, i);
    /* Ignore other errors: without a huge page, writes fault in small pages, which is only slower. EINVAL means
     * that a memory file does not cover the whole piece, or that the kernel is older than 6.1. */
    if (madvise((void *)piece_of(ptr, i), PIECE_BYTES, MADV_COLLAPSE) && errno == ENOMEM)
        atomic_store_explicit(&refused, true, memory_order_relaxed);
}
