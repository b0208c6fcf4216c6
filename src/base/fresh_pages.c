/* fresh_pages.c - see fresh_pages.h. */
#include "base/fresh_pages.h"

#include "base/error.h"
#include "base/mem_limit.h"
#include "base/workers.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE /* new in Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

#define SLICE_BYTES ((size_t)32 << 20)

/* leati_fresh_claim() leaves 1/32 of the available memory unused, but at most so many bytes. */
#define SPARED_BYTES_MAX ((uint64_t)1 << 30)

enum { THREADS_MAX = 16, NODES_MAX = 1024 };

/* The number of bytes that calls in progress have still to populate. The system counts these bytes as available,
 * so leati_fresh_claim() subtracts them. Relaxed: no other data depends on the number. */
static _Atomic uint64_t claimed_bytes;

/* ---- limiting the use of memory --------------------------------------------------------------------------- */

void leati_fresh_unclaim(size_t bytes)
{
    atomic_fetch_sub_explicit(&claimed_bytes, bytes, memory_order_relaxed);
}

leat_status leati_fresh_claim(size_t bytes)
{
    uint64_t others = atomic_fetch_add_explicit(&claimed_bytes, bytes, memory_order_relaxed);
    struct leati_mem_limit available;
    uint64_t spared, left;

    leati_mem_limit_get("", bytes + others + SPARED_BYTES_MAX, &available);
    if (available.bytes == UINT64_MAX)
        return LEAT_OK;
    spared = available.bytes / 32 < SPARED_BYTES_MAX ? available.bytes / 32 : SPARED_BYTES_MAX;
    left = available.bytes - spared;
    left = left > others ? left - others : 0;
    if (bytes <= left)
        return LEAT_OK;
    leati_fresh_unclaim(bytes);
    return leati_fail(
        LEAT_ERROR_HOST_MEMORY,
        "%zu bytes of pinned memory are too many: of the %llu bytes that %s has available, %llu may be pinned",
        bytes, (unsigned long long)available.bytes, available.whose, (unsigned long long)left);
}

/* ---- populating ------------------------------------------------------------------------------------------- */

/* A chunk that several threads populate; lives on the stack of the thread that allocates it. */
struct touch {
    struct leati_loop loop; /* loop over the slices, which can be populated in any order */
    char *start;
    size_t bytes, slices;
    atomic_int error; /* the errno of a slice that failed, or 0; relaxed, because no other data depends on it */
};

/* Writes one byte per page, for kernels without MADV_POPULATE_WRITE. The pages are fresh, so no data is lost. */
static void write_bytes(char *start, size_t bytes)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);

    for (size_t i = 0; i < bytes; i += page_bytes)
        ((volatile char *)start)[i] = 0;
}

/* Populates a slice. Returns 0, or the errno of the failure. */
static int touch_slice(char *start, size_t bytes)
{
    while (madvise(start, bytes, MADV_POPULATE_WRITE)) {
        if (errno == EINTR || errno == EAGAIN)
            continue;
        /* The system has no pages, so writing a byte instead would kill the process. */
        if (errno == ENOMEM || errno == EFAULT || errno == EHWPOISON)
            return errno;
        write_bytes(start, bytes);
        return 0;
    }
    return 0;
}

/* Populates one slice and ends the claim for it. If an earlier slice failed, only ends the claim. */
static void touch_part(void *context, uint64_t i)
{
    struct touch *touch = context;
    size_t first = i * SLICE_BYTES, bytes = i + 1 < touch->slices ? SLICE_BYTES : touch->bytes - first;
    int error = atomic_load_explicit(&touch->error, memory_order_relaxed);

    if (!error && (error = touch_slice(touch->start + first, bytes)))
        atomic_store_explicit(&touch->error, error, memory_order_relaxed);
    leati_fresh_unclaim(bytes);
}

static const struct leati_task_type touch_type = {
    .class = LEATI_WORK_PAGES, .work = leati_loop_work, .look = leati_loop_look};

unsigned leati_fresh_threads(size_t bytes)
{
    size_t slices = bytes / SLICE_BYTES;
    cpu_set_t set;
    long processors = sched_getaffinity(0, sizeof set, &set) ? sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
    unsigned threads = slices < THREADS_MAX ? (unsigned)slices : THREADS_MAX;

    if (processors < (long)threads)
        threads = processors > 0 ? (unsigned)processors : 1;
    return threads ? threads : 1;
}

/* Populates a chunk with several threads. Ends the claim for the chunk, even if it fails. */
static leat_status touch_all(void *ptr, size_t bytes)
{
    struct touch touch = {.start = ptr, .bytes = bytes, .slices = bytes / SLICE_BYTES};
    unsigned wanted = leati_fresh_threads(bytes) - 1;
    struct leati_workers *workers = NULL;
    int error;

    if (!touch.slices)
        touch.slices = 1;
    touch.loop = (struct leati_loop){.part = touch_part, .context = &touch, .count = touch.slices};
    /* If fewer threads start than wanted, each takes more slices. Start all of them before any thread populates
     * pages, because the creation of a thread would have to wait for that. */
    if (wanted)
        (void)leati_workers_get(-1, LEATI_WORK_PAGES, wanted, &workers);
    leati_workers_loop(workers, &touch_type, &touch.loop, workers ? wanted : 0);
    if (workers)
        leati_workers_put(workers, LEATI_WORK_PAGES);
    error = atomic_load_explicit(&touch.error, memory_order_relaxed);
    if (!error)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_HOST_MEMORY,
                      "madvise: %s: the system could not find pages for all of %zu bytes of pinned memory",
                      strerror(error), bytes);
}

/* ---- mapping ---------------------------------------------------------------------------------------------- */

void leati_fresh_unmap(void *ptr, size_t bytes)
{
    /* munmap() in the middle of a mapping splits the mapping, which fails if the process has vm.max_map_count
     * mappings already. Then free only the pages, and leak the addresses, which are plentiful. */
    if (munmap(ptr, bytes))
        (void)madvise(ptr, bytes, MADV_DONTNEED);
}

/* Maps bytes of memory at a multiple of LEATI_FRESH_UNIT. If this fails, returns NULL with errno set. */
static void *map_aligned(size_t bytes)
{
    size_t mapped_bytes = bytes + LEATI_FRESH_UNIT, before;
    char *mapped = mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (mapped == MAP_FAILED)
        return NULL;
    before = -(uintptr_t)mapped & (LEATI_FRESH_UNIT - 1);
    if (before)
        leati_fresh_unmap(mapped, before);
    leati_fresh_unmap(mapped + before + bytes, LEATI_FRESH_UNIT - before);
    /* A kernel without huge pages refuses this call, and the memory gets small pages. */
    (void)madvise(mapped + before, bytes, MADV_HUGEPAGE);
    return mapped + before;
}

/*
 * Sets a NUMA node as the preferred node of a range. Call before the range is populated. If this node
 * has no free pages, or the process's container may not use it, the kernel takes pages of other nodes. A program
 * that was started with a policy of its own (numactl) keeps that policy.
 */
static void prefer_node(int node, void *ptr, size_t bytes)
{
    enum { WORD_BITS = 8 * sizeof(unsigned long) };
    unsigned long mask[NODES_MAX / WORD_BITS] = {0};
    int policy = MPOL_DEFAULT;

    if (node < 0 || node >= NODES_MAX)
        return;
    if (!syscall(SYS_get_mempolicy, &policy, NULL, 0, NULL, 0) && policy != MPOL_DEFAULT)
        return;
    mask[node / WORD_BITS] = 1ul << (node % WORD_BITS);
    /* The kernel reads one bit less of the mask than maxnode, so pass one more. */
    (void)syscall(SYS_mbind, ptr, bytes, MPOL_PREFERRED, mask, (unsigned long)NODES_MAX + 1, 0);
}

leat_status leati_fresh_map(size_t bytes, int node, void **ptr, bool *hopeless)
{
    leat_status status;
    void *mapped = map_aligned(bytes);

    *hopeless = true;
    if (!mapped) {
        leati_fresh_unclaim(bytes);
        *hopeless = false;
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "mmap: %s: no room for %zu bytes of pinned memory",
                          strerror(errno), bytes);
    }
    prefer_node(node, mapped, bytes);
    status = touch_all(mapped, bytes);
    if (status != LEAT_OK) {
        leati_fresh_unmap(mapped, bytes);
        return status;
    }
    *ptr = mapped;
    return LEAT_OK;
}
