/* bytes.c - see bytes.h; the measurement is in probe.c. */
#include "staging/bytes.h"

#include "base/assert.h"
#include "base/fault_handler.h"
#include "base/quick.h"
#include "base/stream_copy.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define AHEAD_BYTES ((size_t)32 * 4096) /* prefetch distance of touch(): hardware does not prefetch across pages  \
                                         */
#define LOOKS 8                         /* how many pages leati_staging_resident() checks */

/* For ranges larger than this, a system call or two to populate all pages at once is faster. */
#define POPULATE_BYTES ((size_t)64 << 10)

/* ---- copying ---- */

const char *leati_store_policy_name(enum leati_store_policy policy)
{
    return policy == LEATI_STORE_POLICY_STREAMING ? "streaming" : "cached";
}

const char *leati_staging_streaming_by(void)
{
    return leati_stream_name(leati_stream_best());
}

LEATI_HOT void leati_staging_copy(void *dst, const void *src, size_t bytes, enum leati_store_policy policy)
{
    leati_assert(policy == LEATI_STORE_POLICY_CACHED || policy == LEATI_STORE_POLICY_STREAMING);
    if (policy == LEATI_STORE_POLICY_STREAMING)
        leati_stream_copy(dst, src, bytes);
    else
        memcpy(dst, src, bytes);
}

struct bytes_job {
    char *dst;
    const char *src;
    size_t bytes;
    enum leati_store_policy policy;
    volatile size_t done; /* of step_by_step() */
};

LEATI_HOT static void all_at_once(void *context)
{
    struct bytes_job *job = context;

    leati_staging_copy(job->dst, job->src, job->bytes, job->policy);
}

static size_t to_page_end(const char *ptr, size_t page_bytes)
{
    leati_assert(LEATI_IS_POWER_OF_TWO(page_bytes));
    return page_bytes - ((uintptr_t)ptr & (page_bytes - 1));
}

/* Copies in pieces that cross no page boundary on either side, so that each piece is copied completely or faults.
 */
static void step_by_step(void *context)
{
    struct bytes_job *job = context;
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);

    while (job->done < job->bytes) {
        char *dst = job->dst + job->done;
        const char *src = job->src + job->done;
        size_t step = job->bytes - job->done, to_end = to_page_end(dst, page_bytes);

        step = to_end < step ? to_end : step;
        to_end = to_page_end(src, page_bytes);
        step = to_end < step ? to_end : step;
        leati_assert(step && step <= page_bytes);
        memcpy(dst, src, step);
        job->done += step;
    }
}

LEATI_HOT size_t leati_staging_copy_guarded(void *dst, const void *src, size_t bytes,
                                            enum leati_store_policy policy, uintptr_t *fault)
{
    const struct leati_fault_range ranges[] = {{(uintptr_t)src, bytes}, {(uintptr_t)dst, bytes}};
    struct bytes_job job = {.dst = dst, .src = src, .bytes = bytes, .policy = policy};
    uintptr_t where;

    leati_assert(fault);
    if (!bytes || leati_fault_handler_run(ranges, all_at_once, &job, &where))
        return bytes;
    leati_stream_fence();
    /* memcpy() may copy in any order, so it is unknown how much was copied. Copy again, in order, to find out. */
    if (leati_fault_handler_run(ranges, step_by_step, &job, &where))
        return bytes;
    *fault = (where - ranges[0].base < bytes ? ranges[0].base : ranges[1].base) + job.done;
    leati_assert(job.done < bytes);
    return job.done;
}

/* ---- pages ---- */

bool leati_staging_resident(const void *ptr, size_t bytes)
{
    uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t)ptr & -page_bytes, pages;

    if (!bytes)
        return true;
    pages = (((uintptr_t)ptr + bytes - 1 - first) / page_bytes) + 1;
    leati_assert(pages && first % page_bytes == 0);
    for (uintptr_t i = 0; i < LOOKS && i < pages; i++) {
        uintptr_t page = pages <= LOOKS ? i : i * ((pages - 1) / (LOOKS - 1));
        unsigned char there;

        if (mincore((void *)(first + page * page_bytes), page_bytes, &there) || !(there & 1))
            return false;
    }
    return true;
}

/* Returns true if all pages of the range are now present, and allow the access of the advice (read or write). */
static bool populate(const void *ptr, size_t bytes, int advice)
{
    uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)ptr & -page_bytes;

    leati_assert(bytes);
    return !madvise((void *)first, (uintptr_t)ptr + bytes - first, advice);
}

void leati_staging_fetch(const void *ptr, size_t bytes)
{
    (void)populate(ptr, bytes, MADV_POPULATE_READ);
}

/* Writes a byte without changing it, atomically, so that other threads' writes are not lost. Faults if the page is
 * not writable. Does not read the byte first: on an untouched page that would cause two page faults, one for the
 * read and one for the write. */
static inline void rewrite(unsigned char *byte)
{
#if defined(__x86_64__)
    __asm__ volatile("lock orb $0, %0" : "+m"(*byte) : : "cc");
#else
    unsigned char value = 0;

    while (!__atomic_compare_exchange_n(byte, &value, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
#endif
}

/* Accesses one byte of each 4 KiB (pages are not smaller): writes if the job has no source, else reads. */
LEATI_HOT static void touch(void *context)
{
    struct bytes_job *job = context;
    const size_t page_bytes = 4096;

    /* Atomic writes are serialised, and each would wait for memory, so prefetch all of them. */
    if (!job->src)
        for (size_t at = 0; at < job->bytes; at += page_bytes)
            __builtin_prefetch(job->dst + at, 1);
    for (size_t at = 0; at < job->bytes; at += to_page_end(job->dst + at, page_bytes)) {
        unsigned char *byte = (unsigned char *)job->dst + at;

        if (job->src) {
            __builtin_prefetch(byte + AHEAD_BYTES);
            (void)__atomic_load_n(byte, __ATOMIC_RELAXED);
        } else
            rewrite(byte);
    }
}

LEATI_HOT bool leati_staging_usable(const void *ptr, size_t bytes, bool write)
{
    const struct leati_fault_range ranges[] = {{(uintptr_t)ptr, bytes}, {0, 0}};
    struct bytes_job job = {.dst = (char *)(uintptr_t)ptr, .src = write ? NULL : ptr, .bytes = bytes};
    uintptr_t fault;

    leati_assert(bytes);
    /* Populate untouched pages with one system call; for pages that are present, touching is faster. */
    if (write && bytes > POPULATE_BYTES && !leati_staging_resident((const char *)ptr + bytes - 1, 1) &&
        populate(ptr, bytes, MADV_POPULATE_WRITE))
        return true;
    return leati_fault_handler_run(ranges, touch, &job, &fault);
}

void leati_staging_prefault(void *ptr, size_t bytes)
{
    if (bytes)
        (void)populate(ptr, bytes, MADV_POPULATE_WRITE);
}
