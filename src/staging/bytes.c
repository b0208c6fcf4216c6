/* bytes.c - copies bytes and prefaults pages, see bytes.h. The measurement of store policies is in probe.c. */
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

#define AHEAD_BYTES ((size_t)32 * 4096) /* prefetch distance of touch(); hardware prefetches only inside pages */
#define LOOKS 8                         /* number of pages that leati_staging_resident() checks */

/* leati_staging_usable() populates ranges larger than this with one madvise(), which is faster than a page fault
 * for each page. */
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
    volatile size_t done; /* bytes that step_by_step() has copied */
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

/* Copies in order, in pieces that cross no page boundary on either side. So each piece is either copied
 * completely, or faults and leaves job->done at its start. */
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
    /* memcpy() may copy in any order, so leat does not know how many bytes it copied before the fault. Copy again
     * in order to find the first byte that cannot be copied. */
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

/* Populates the pages of a range. Returns true if all of them are now present, and can be read or written as the
 * advice demands. */
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

/* Writes a byte without changing its value; faults if the page is not writable. The write is atomic, so that no
 * write of another thread is lost. It does not read the byte first, because that would cause two page faults on an
 * untouched page, one for the read and one for the write. */
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

/* Accesses one byte of each 4 KiB, the smallest size of a page. Writes the bytes if job->src is NULL, else reads
 * them. */
LEATI_HOT static void touch(void *context)
{
    struct bytes_job *job = context;
    const size_t page_bytes = 4096;

    /* The processor executes atomic writes one after the other, and each would wait for memory, so prefetch all
     * their cache lines first. */
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
    /* If the last page is missing, probably all are, and one madvise() is fastest. If it is present, touching the
     * pages is faster. */
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
