/*
 * cpu_copy.c - copies and fills memory for the CPU device, with all cores and non-temporal stores.
 *
 * Large copies are split into parts for the workers, and written with non-temporal stores, which do not read the
 * destination first. Results are in bench/results/: on a 2-core Sapphire Rapids guest 256 MiB are copied nearly
 * twice as fast as with memcpy() on as many threads.
 */
#include "driver/cpu/cpu.h"

#include "base/hugepage.h"
#include "base/stream_copy.h"

#include <stdlib.h>
#include <string.h>

#define PART_BYTES ((size_t)1 << 20)          /* size of a part, which one thread copies at a time */
#define HERE_BYTES ((size_t)256 << 10)        /* pageable copies up to this size may run on the caller's thread */
#define PARALLEL_BYTES ((size_t)1 << 20)      /* copies from this size on use several threads */
#define NON_TEMPORAL_BYTES ((size_t)32 << 20) /* smaller copies use normal stores and profit from the caches */

/* ---- copies by several threads ---- */

static void collapse_hugepages(void *context, uint64_t i)
{
    leati_hugepage_collapse(context, i);
}

/* Requests huge pages for a range of device memory that has no pages yet. Call before the whole range is
 * written. */
static void collapse_hugepage(const struct cpu_device *device, void *dst, size_t bytes)
{
    if ((uintptr_t)dst - device->space.base < device->space.bytes && leati_hugepage_any_missing(dst, bytes))
        cpu_workers_run(collapse_hugepages, dst, leati_hugepage_count(dst, bytes));
}

struct copy_job {
    char *dst;
    const char *src;
    size_t bytes;
    bool guarded;                  /* true: a side is pageable, so the program may unmap it during the copy */
    _Atomic uintptr_t unreachable; /* the lowest address whose access faulted; UINTPTR_MAX: none */
};

struct copy_part {
    char *dst;
    const char *src;
    size_t bytes;
    bool streaming;
};

static void move(void *context)
{
    const struct copy_part *part = context;

    if (part->streaming)
        leati_stream_copy(part->dst, part->src, part->bytes);
    else
        memcpy(part->dst, part->src, part->bytes);
}

void cpu_copy_guarded(const struct leati_fault_range ranges[2], void (*move_part)(void *part), void *part,
                      _Atomic uintptr_t *unreachable)
{
    uintptr_t fault, first;

    if (leati_fault_handler_run(ranges, move_part, part, &fault))
        return;
    /* Linux takes the thread's rights to protection keys away when it calls a handler, and the jump out of the
     * handler does not restore them. */
    if (cpu_strict_allowed())
        cpu_strict_allow();
    leati_stream_fence();
    /* Relaxed: *unreachable is read only after all workers have finished. */
    first = atomic_load_explicit(unreachable, memory_order_relaxed);
    while (fault < first && !atomic_compare_exchange_weak_explicit(unreachable, &first, fault,
                                                                   memory_order_relaxed, memory_order_relaxed))
        continue;
}

static void move_guarded(struct copy_job *job, struct copy_part *part)
{
    const struct leati_fault_range ranges[] = {{(uintptr_t)part->src, part->bytes},
                                               {(uintptr_t)part->dst, part->bytes}};

    cpu_copy_guarded(ranges, move, part, &job->unreachable);
}

static void copy_part(void *context, uint64_t i)
{
    struct copy_job *job = context;
    size_t start = (size_t)i * PART_BYTES;
    struct copy_part part = {.dst = job->dst + start, .src = job->src + start, .bytes = job->bytes - start};

    part.bytes = part.bytes < PART_BYTES ? part.bytes : PART_BYTES;
    part.streaming = job->bytes >= NON_TEMPORAL_BYTES;
    if (job->guarded)
        move_guarded(job, &part);
    else
        move(&part);
}

struct copy_work {
    struct cpu_work work;
    const struct cpu_device *device;
    struct cpu_stream *stream;
    struct copy_job job;
};

static void run_copy(struct cpu_work *work)
{
    struct copy_work *copy = (struct copy_work *)(void *)work;
    struct copy_job *job = &copy->job;
    int earlier = cpu_managed_enter(copy->device);
    uintptr_t fault;

    cpu_managed_touch(job->src, job->bytes, false);
    cpu_managed_touch(job->dst, job->bytes, true);
    collapse_hugepage(copy->device, job->dst, job->bytes);
    if (job->bytes < PARALLEL_BYTES)
        copy_part(job, 0);
    else
        cpu_workers_run(copy_part, job, (job->bytes + PART_BYTES - 1) / PART_BYTES);
    cpu_managed_leave(earlier);
    fault = atomic_load_explicit(&job->unreachable, memory_order_relaxed);
    if (fault != UINTPTR_MAX)
        cpu_stream_lost(copy->stream, job->dst, job->src, job->bytes, fault);
}

leat_status cpu_copy(struct leati_driver *driver, void *stream, struct leati_location dst,
                     struct leati_location src, size_t bytes)
{
    bool pageable = dst.kind == LEAT_KIND_PAGEABLE || src.kind == LEAT_KIND_PAGEABLE;
    struct copy_work *work = malloc(sizeof *work);

    (void)driver;
    if (!work)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory to queue the work");
    *work = (struct copy_work){.work.run = run_copy,
                               .device = cpu_stream_device(stream),
                               .stream = cpu_stream_core(stream),
                               .job = {.dst = dst.ptr, .src = src.ptr, .bytes = bytes, .guarded = pageable}};
    atomic_init(&work->job.unreachable, UINTPTR_MAX);
    /* Try to make a short pageable copy on this thread, because it takes less time than waking the stream's
     * thread. */
    if (pageable && bytes <= HERE_BYTES && cpu_stream_run_here(stream, &work->work))
        return LEAT_OK;
    cpu_stream_push(stream, &work->work);
    return LEAT_OK;
}

/* ---- fill ---- */

struct fill_job {
    char *dst;
    size_t bytes;
    uint32_t pattern; /* a pattern of 2 bytes is in it twice */
    unsigned pattern_bytes;
};

/* Fills with a pattern of 4 bytes; its last repetition may be cut off. A pattern of 2 bytes is in it twice, and
 * dst may then be aligned to 2 bytes only. */
static void fill_bytes(char *dst, size_t bytes, uint32_t pattern)
{
    size_t i;

    for (i = 0; i + sizeof pattern <= bytes; i += sizeof pattern)
        memcpy(dst + i, &pattern, sizeof pattern);
    memcpy(dst + i, &pattern, bytes - i);
}

static void fill_part(void *context, uint64_t i)
{
    const struct fill_job *job = context;
    size_t start = (size_t)i * PART_BYTES;
    size_t bytes = job->bytes - start < PART_BYTES ? job->bytes - start : PART_BYTES;

    if (job->pattern_bytes == 1)
        memset(job->dst + start, (int)(job->pattern & 0xff), bytes);
    else
        fill_bytes(job->dst + start, bytes, job->pattern);
}

struct fill_work {
    struct cpu_work work;
    const struct cpu_device *device;
    struct fill_job job;
};

static void run_fill(struct cpu_work *work)
{
    struct fill_work *fill = (struct fill_work *)(void *)work;
    int earlier = cpu_managed_enter(fill->device);

    cpu_managed_touch(fill->job.dst, fill->job.bytes, true);
    collapse_hugepage(fill->device, fill->job.dst, fill->job.bytes);
    cpu_workers_run(fill_part, &fill->job, (fill->job.bytes + PART_BYTES - 1) / PART_BYTES);
    cpu_managed_leave(earlier);
}

leat_status cpu_fill(struct leati_driver *driver, void *stream, void *dst, uint32_t pattern,
                     unsigned pattern_bytes, size_t count)
{
    struct fill_work *work = malloc(sizeof *work);

    (void)driver;
    if (!work)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory to queue the work");
    if (pattern_bytes == 2)
        pattern = (pattern & 0xffff) * 0x10001u;
    *work = (struct fill_work){
        .work.run = run_fill,
        .device = cpu_stream_device(stream),
        .job = {.dst = dst, .bytes = count * pattern_bytes, .pattern = pattern, .pattern_bytes = pattern_bytes}};
    cpu_stream_push(stream, &work->work);
    return LEAT_OK;
}
