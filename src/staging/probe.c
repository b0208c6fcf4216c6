/*
 * probe.c - measures on this machine whether cached or streaming stores are faster (bytes.h).
 *
 * Rates depend on the number of threads, so as many threads take part as a copy uses. Time is split into short
 * windows, and in each window all threads copy with the same direction and store policy. The median of all copies
 * counts, so the result is right even if a thread loses its processor now and then. Before each copy the
 * measurement evicts ordinary memory from the caches, because real copies are larger than the caches. It leaves
 * slots in the caches, because real copies reuse them all the time.
 */
#include "staging/bytes.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"
#include "base/stream_copy.h"
#include "base/workers.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#define PART_BYTES ((size_t)256 << 10) /* size of one copy, like a part of a job */
#define LEAST_BYTES ((size_t)16 << 10) /* minimum slot memory for one thread */
#define SHARE_BYTES (4 * PART_BYTES)   /* ordinary memory of each thread, and its largest share of the slot */
#define THREADS_MAX 64
#define ROUNDS 3
#define WINDOW_NS 500000
#define SAMPLES_MAX 64 /* measured copies of each thread, for each variant */
#define FASTER 1.05    /* out of slots: streaming is chosen if its rate is this many times that of cached stores */
/* The factor for copies into slots, which a DMA reads next. After streaming stores the DMA reads from memory and
 * competes with the workers, which read their sources: an H200 reached 46 GB/s, and 53 GB/s with cached stores. */
#define FASTER_IN 1.5

/* How long the measurement waits for workers that are busy with other copies. Workers that arrive later miss
 * windows. */
#define PATIENCE_NS 20000000u

/* The variants (direction and store policy). Each window measures one of them. */
enum { IN_CACHED, IN_STREAMING, OUT_CACHED, OUT_STREAMING, VARIANTS };

/* ---- cache eviction ---- */

#if defined(__x86_64__)

static bool can_evict(void)
{
    unsigned a, b, c, d;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 23);
}

__attribute__((target("clflushopt"))) static void evict(char *ptr, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        _mm_clflushopt(ptr + i);
    _mm_sfence();
}

#else

static bool can_evict(void)
{
    return false;
}

static void evict(char *ptr, size_t bytes)
{
    (void)ptr;
    (void)bytes;
}

#endif

/* ---- one thread ---- */

struct probe {
    struct leati_loop loop; /* one iteration for each thread */
    struct prober *probers;
    char *slot;
    size_t share_bytes; /* part of the slot that each thread uses */
    size_t part_bytes;
    bool evict;
    atomic_uint ready;
    atomic_uint_least64_t start_ns; /* start of the first window; 0: not set yet */
};

struct prober {
    struct probe *probe;
    unsigned index;
    unsigned counts[VARIANTS];
    double rates[VARIANTS][SAMPLES_MAX]; /* rate of each copy in bytes per nanosecond */
};

static bool goes_out(unsigned variant)
{
    return variant == OUT_CACHED || variant == OUT_STREAMING;
}

static enum leati_store_policy policy_of(unsigned variant)
{
    return variant == IN_STREAMING || variant == OUT_STREAMING ? LEATI_STORE_POLICY_STREAMING
                                                               : LEATI_STORE_POLICY_CACHED;
}

/* Copies with one variant until end_ns, and records the rate of each copy. */
static void run_window(struct prober *prober, char *ordinary, unsigned variant, uint64_t end_ns)
{
    const struct probe *probe = prober->probe;
    size_t part_bytes = probe->part_bytes, at = 0;
    char *share = probe->slot + prober->index * probe->share_bytes;
    uint64_t now_ns = leati_clock_ns();

    leati_assert(part_bytes && part_bytes <= probe->share_bytes && variant < VARIANTS);
    /* Slot lines in the caches make the first streaming stores three times slower. Real copies do not have this
     * cost, because they always use the same kind of stores for a slot. */
    if (probe->evict && variant == IN_STREAMING)
        evict(share, probe->share_bytes);
    while (now_ns < end_ns) {
        char *here = ordinary + at, *slot = share + at;
        uint64_t start_ns;

        if (probe->evict)
            evict(here, part_bytes);
        start_ns = leati_clock_ns();
        leati_staging_copy(goes_out(variant) ? here : slot, goes_out(variant) ? slot : here, part_bytes,
                           policy_of(variant));
        now_ns = leati_clock_ns();
        if (prober->counts[variant] < SAMPLES_MAX && now_ns > start_ns)
            prober->rates[variant][prober->counts[variant]++] = (double)part_bytes / (double)(now_ns - start_ns);
        at = at + 2 * part_bytes <= probe->share_bytes ? at + part_bytes : 0;
    }
}

/* Waits until all threads are ready, and returns the start time of the first window. The last thread that becomes
 * ready sets this time, or the first thread that has waited for PATIENCE_NS. */
static uint64_t wait_for_start(struct probe *probe)
{
    uint64_t patience_ns = leati_clock_ns() + PATIENCE_NS, start_ns, none = 0;
    /* Release and acquire: each thread sees what the others wrote before they became ready. */
    bool last = atomic_fetch_add_explicit(&probe->ready, 1, memory_order_acq_rel) + 1 == probe->loop.count;

    while (!(start_ns = atomic_load_explicit(&probe->start_ns, memory_order_acquire))) {
        uint64_t now_ns = leati_clock_ns();

        if (last || now_ns >= patience_ns)
            (void)atomic_compare_exchange_strong_explicit(&probe->start_ns, &none, now_ns + WINDOW_NS,
                                                          memory_order_acq_rel, memory_order_relaxed);
        else
            sched_yield();
    }
    return start_ns;
}

static void run(void *context, uint64_t index)
{
    struct probe *probe = context;
    struct prober *prober = &probe->probers[index];
    char *ordinary = mmap(NULL, SHARE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t start_ns;

    if (ordinary != MAP_FAILED)
        memset(ordinary, 1, SHARE_BYTES);
    start_ns = wait_for_start(probe);
    for (unsigned i = 0; i < ROUNDS * VARIANTS && ordinary != MAP_FAILED; i++)
        run_window(prober, ordinary, i % VARIANTS, start_ns + (uint64_t)(i + 1) * WINDOW_NS);
    if (ordinary != MAP_FAILED)
        munmap(ordinary, SHARE_BYTES);
}

/* Tells a thread whether the measurement needs it. Threads that wait for something else (helpers) do not take
 * part.
 */
static enum leati_taken look(const struct leati_task *task, bool helper)
{
    return helper ? LEATI_NOT_YET : leati_loop_look(task, false);
}

static const struct leati_task_type probe_type = {
    .class = LEATI_WORK_COPIES, .work = leati_loop_work, .look = look};

/* ---- all threads together ---- */

static unsigned processors(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) ? 0 : CPU_COUNT(&set);

    return count > 0 ? (unsigned)count : 1;
}

static int compare(const void *left, const void *right)
{
    double l = *(const double *)left, r = *(const double *)right;

    return (l > r) - (l < r);
}

/* Returns the rate of all threads together: the median rate of all copies, times the number of threads that took
 * part. rates is scratch memory for all samples. */
static double total(const struct prober *probers, unsigned count, unsigned variant, double *rates)
{
    size_t samples = 0;
    unsigned took_part = 0;

    for (unsigned i = 0; i < count; i++) {
        took_part += probers[i].counts[variant] > 0;
        for (unsigned j = 0; j < probers[i].counts[variant]; j++)
            rates[samples++] = probers[i].rates[variant][j];
    }
    leati_assert(took_part <= count);
    if (!samples)
        return 0;
    qsort(rates, samples, sizeof *rates, compare);
    return rates[samples / 2] * took_part;
}

static void measure(struct leati_workers *workers, unsigned count, struct probe *probe, double *rates,
                    struct leati_staging_choice *choice)
{
    double *const gbps[] = {choice->in_gbps, choice->out_gbps};

    leati_assert(count && (workers || count == 1));
    probe->loop = (struct leati_loop){.part = run, .context = probe, .count = count};
    leati_workers_loop(workers, &probe_type, &probe->loop, count - 1);
    for (unsigned variant = 0; variant < VARIANTS; variant++)
        gbps[goes_out(variant)][policy_of(variant)] = total(probe->probers, count, variant, rates);
    choice->probed = true;
}

static enum leati_store_policy faster(const double gbps[2], double much)
{
    return gbps[LEATI_STORE_POLICY_CACHED] > 0 &&
                   gbps[LEATI_STORE_POLICY_STREAMING] > gbps[LEATI_STORE_POLICY_CACHED] * much
               ? LEATI_STORE_POLICY_STREAMING
               : LEATI_STORE_POLICY_CACHED;
}

void leati_staging_probe(struct leati_workers *workers, void *slot, size_t slot_bytes, unsigned threads,
                         struct leati_staging_choice *choice)
{
    struct probe probe = {.slot = slot, .evict = can_evict()};
    unsigned count = processors();
    struct prober *probers;
    double *rates;

    *choice = (struct leati_staging_choice){.in = LEATI_STORE_POLICY_CACHED, .out = LEATI_STORE_POLICY_CACHED};
    /* Use at most one thread per processor, because a thread that waits for a processor would miss windows. */
    count = threads < count ? threads : count;
    count = count < THREADS_MAX ? count : THREADS_MAX;
    if (slot_bytes / LEAST_BYTES < count)
        count = (unsigned)(slot_bytes / LEAST_BYTES);
    if (!count || leati_stream_best() == LEATI_STREAM_PLAIN)
        return;
    probe.share_bytes = slot_bytes / count < SHARE_BYTES ? slot_bytes / count & ~(size_t)4095 : SHARE_BYTES;
    probe.part_bytes = probe.share_bytes < PART_BYTES ? probe.share_bytes : PART_BYTES;
    leati_assert(probe.part_bytes && probe.share_bytes * count <= slot_bytes);
    probers = calloc(count, sizeof *probers);
    rates = calloc(count, sizeof probers->rates[0]);
    for (unsigned i = 0; probers && i < count; i++) {
        probers[i].probe = &probe;
        probers[i].index = i;
    }
    if (probers && rates) {
        probe.probers = probers;
        measure(workers, count, &probe, rates, choice);
        choice->in = faster(choice->in_gbps, FASTER_IN);
        choice->out = faster(choice->out_gbps, FASTER);
    }
    free(probers);
    free(rates);
}

leat_status leati_staging_choose(struct leati_workers *workers, void *slot, size_t slot_bytes, unsigned threads,
                                 struct leati_staging_choice *choice)
{
    const char *word = leati_option(LEATI_OPTION_COPY_STORE_POLICY);
    enum leati_store_policy policy = LEATI_STORE_POLICY_CACHED;

    if (!word || !strcmp(word, "probe")) {
        leati_staging_probe(workers, slot, slot_bytes, threads, choice);
        return LEAT_OK;
    }
    if (!strcmp(word, leati_store_policy_name(LEATI_STORE_POLICY_STREAMING)))
        policy = LEATI_STORE_POLICY_STREAMING;
    else if (strcmp(word, leati_store_policy_name(LEATI_STORE_POLICY_CACHED)))
        return leati_fail(LEAT_ERROR_INVALID,
                          "LEAT_COPY_STORE_POLICY is set to '%s', and takes probe, cached or streaming", word);
    *choice = (struct leati_staging_choice){.in = policy, .out = policy};
    return LEAT_OK;
}
