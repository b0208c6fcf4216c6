/*
 * cpu_copy_3d.c - copies pitched regions for the CPU device. It distributes rows to the workers, and cuts long
 * rows into pieces.
 */
#include "driver/cpu/cpu.h"

#include "base/stream_copy.h"

#include <stdlib.h>
#include <string.h>

#define PART_BYTES ((size_t)1 << 20)          /* size of a part, which one thread copies at a time */
#define HERE_BYTES ((size_t)256 << 10)        /* pageable copies up to this size may run on the caller's thread */
#define PARALLEL_BYTES ((size_t)1 << 20)      /* copies from this size on use several threads */
#define NON_TEMPORAL_BYTES ((size_t)32 << 20) /* from this size on, if rows have at least the following size */
#define NON_TEMPORAL_ROW_BYTES ((size_t)4096)

struct region_job {
    char *dst;
    const char *src;
    leat_copy_region region;
    size_t rows;                   /* number of rows in all slices */
    size_t part_rows, pieces;      /* rows in a part; for long rows, pieces in a row */
    bool streaming;                /* true: use non-temporal stores */
    bool guarded;                  /* true: a side is pageable, so the program may unmap it during the copy */
    _Atomic uintptr_t unreachable; /* the lowest address whose access faulted; UINTPTR_MAX: none */
};

/* Some of the rows, or a piece of one row. */
struct region_part {
    const struct region_job *job;
    size_t first, end;    /* rows first to end - 1 */
    size_t start, length; /* offset and number of the bytes to copy of each row */
};

/* Return the offset of a row in dst or src. */
static size_t dst_row(const struct region_job *job, size_t row)
{
    const leat_copy_region *region = &job->region;

    return row / region->height * region->dst_slice_bytes + row % region->height * region->dst_pitch_bytes;
}

static size_t src_row(const struct region_job *job, size_t row)
{
    const leat_copy_region *region = &job->region;

    return row / region->height * region->src_slice_bytes + row % region->height * region->src_pitch_bytes;
}

static void move_part(void *context)
{
    const struct region_part *part = context;
    const struct region_job *job = part->job;
    size_t y = part->first % job->region.height;
    char *dst = job->dst + dst_row(job, part->first) + part->start;
    const char *src = job->src + src_row(job, part->first) + part->start;

    for (size_t row = part->first; row < part->end; row++) {
        if (job->streaming)
            leati_stream_copy(dst, src, part->length);
        else
            memcpy(dst, src, part->length);
        if (++y < job->region.height) {
            dst += job->region.dst_pitch_bytes;
            src += job->region.src_pitch_bytes;
        } else if (row + 1 < part->end) {
            y = 0;
            dst = job->dst + dst_row(job, row + 1) + part->start;
            src = job->src + src_row(job, row + 1) + part->start;
        }
    }
}

static void move_guarded(struct region_job *job, struct region_part *part)
{
    size_t dst_start = dst_row(job, part->first) + part->start,
           src_start = src_row(job, part->first) + part->start;
    size_t dst_end = dst_row(job, part->end - 1) + part->start + part->length;
    size_t src_end = src_row(job, part->end - 1) + part->start + part->length;
    const struct leati_fault_range ranges[] = {{(uintptr_t)job->src + src_start, src_end - src_start},
                                               {(uintptr_t)job->dst + dst_start, dst_end - dst_start}};

    cpu_copy_guarded(ranges, move_part, part, &job->unreachable);
}

static void copy_part(void *context, uint64_t i)
{
    struct region_job *job = context;
    struct region_part part = {.job = job, .length = job->region.width_bytes};

    if (job->pieces > 1) {
        part.first = (size_t)i / job->pieces;
        part.end = part.first + 1;
        part.start = (size_t)i % job->pieces * PART_BYTES;
        part.length = job->region.width_bytes - part.start;
        part.length = part.length < PART_BYTES ? part.length : PART_BYTES;
    } else {
        part.first = (size_t)i * job->part_rows;
        part.end = job->rows - part.first < job->part_rows ? job->rows : part.first + job->part_rows;
    }
    if (job->guarded)
        move_guarded(job, &part);
    else
        move_part(&part);
}

struct region_work {
    struct cpu_work work;
    const struct cpu_device *device;
    struct cpu_stream *stream;
    struct region_job job;
};

static void run_region(struct cpu_work *work)
{
    struct region_work *copy = (struct region_work *)(void *)work;
    struct region_job *job = &copy->job;
    int earlier = cpu_managed_enter(copy->device);
    uintptr_t fault;

    cpu_workers_run(copy_part, job,
                 job->pieces > 1 ? job->rows * job->pieces : (job->rows + job->part_rows - 1) / job->part_rows);
    cpu_managed_leave(earlier);
    fault = atomic_load_explicit(&job->unreachable, memory_order_relaxed);
    if (fault != UINTPTR_MAX)
        cpu_stream_lost(copy->stream, job->dst, job->src, job->rows * job->region.width_bytes, fault);
}

leat_status cpu_copy_3d(struct leati_driver *driver, void *stream, struct leati_location dst,
                        struct leati_location src, const leat_copy_region *region)
{
    bool pageable = dst.kind == LEAT_KIND_PAGEABLE || src.kind == LEAT_KIND_PAGEABLE;
    size_t rows = region->depth * region->height, bytes = rows * region->width_bytes;
    struct region_work *work = malloc(sizeof *work);
    struct region_job *job;

    (void)driver;
    if (!work)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory to queue the work");
    *work = (struct region_work){
        .work.run = run_region,
        .device = cpu_stream_device(stream),
        .stream = cpu_stream_core(stream),
        .job = {
            .dst = dst.ptr, .src = src.ptr, .region = *region, .rows = rows, .guarded = pageable, .pieces = 1}};
    job = &work->job;
    if (region->depth == 1)
        job->region.dst_slice_bytes = job->region.src_slice_bytes = 0;
    job->streaming = bytes >= NON_TEMPORAL_BYTES && region->width_bytes >= NON_TEMPORAL_ROW_BYTES;
    if (bytes < PARALLEL_BYTES)
        job->part_rows = rows;
    else if (region->width_bytes > PART_BYTES)
        job->pieces = (region->width_bytes + PART_BYTES - 1) / PART_BYTES;
    else
        job->part_rows = PART_BYTES / region->width_bytes;
    atomic_init(&job->unreachable, UINTPTR_MAX);
    /* Try to make a short pageable copy on this thread, because it takes less time than waking the stream's
     * thread. */
    if (pageable && bytes <= HERE_BYTES && cpu_stream_run_here(stream, &work->work))
        return LEAT_OK;
    cpu_stream_push(stream, &work->work);
    return LEAT_OK;
}
