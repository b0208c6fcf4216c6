/*
 * layout_run.c - submits copies between layouts, after the planner has chosen the protocol.
 *
 * All work is submitted to the copy's own stream, in order. Scratch memory of the copy has the data that the
 * stream, its host functions and leat's threads use. It is freed in stream order.
 */
#include "copy/layout.h"

#include "base/assert.h"
#include "base/fault_handler.h"
#include "base/hugepage.h"
#include "copy/scratch.h"
#include "layout/gpu_convert.h"
#include "layout/host_convert.h"
#include "pool/pool.h"

#include <leat/kernel.h>
#include <leat/memory.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BYTES ((size_t)16)
#define PIECE_BYTES ((size_t)64 << 20) /* packed memory of one piece */

/* ---- by processors ---- */

/* A copy, or a piece of a copy, on processors. run() must be the first member, as in struct parts of
 * kernels/builtin_kernels.c. */
struct leati_parts {
    void (*run)(struct leati_parts *parts, uint64_t part);
    struct leati_canonical canonical;
    struct leati_host_layout host;
    void *dst;
    const void *src;
    struct leati_indices indices;
    struct leati_convert convert;  /* src_bytes is 0 if the parts convert nothing */
    struct leati_factors *factors; /* in the scratch memory, or NULL */
    bool guarded; /* a side is pageable, so the program may unmap it during the copy */
    struct leati_fault_range ranges[2];
    struct leati_timeline *timeline; /* a failure is reported to it */
};

struct one_part {
    const struct leati_parts *parts;
    void *dst;
    const void *src;
    uint64_t number;
};

static void copy_part(void *context)
{
    const struct one_part *one = context;
    const struct leati_parts *parts = one->parts;

    if (parts->convert.src_bytes)
        leati_host_convert_run(&parts->canonical, &parts->host, &parts->convert, parts->factors, one->dst,
                               one->src, one->number, one->number + 1);
    else
        leati_host_layout_run(&parts->canonical, &parts->host, one->dst, one->src, &parts->indices, one->number,
                              one->number + 1);
}

/* Implements the function copy() of struct leati_list (staging.h). */
static size_t copy_parts(const void *list, size_t first, size_t count, uintptr_t *fault)
{
    const struct leati_parts *parts = list;
    size_t i;

    for (i = first; i < first + count; i++) {
        struct one_part one = {parts, parts->dst, parts->src, i};

        if (!leati_fault_handler_run(parts->ranges, copy_part, &one, fault))
            break;
    }
    return i - first;
}

static void fail(struct leati_parts *parts, uintptr_t fault)
{
    char message[256];

    snprintf(message, sizeof message,
             "a copy between layouts from %p to %p stopped: the pageable memory at %p could not be reached (unmapped, protected, or its file shrank); keep it until the stream has completed the copy",
             parts->src, parts->dst, (void *)fault);
    leati_timeline_failed(parts->timeline, LEAT_ERROR_POINTER, message);
}

/* Copies one part on a thread of the CPU device. */
static void run_part(struct leati_parts *parts, uint64_t part)
{
    struct one_part one = {parts, parts->dst, parts->src, part};
    uintptr_t fault;

    if (!parts->guarded)
        copy_part(&one);
    else if (!copy_parts(parts, part, 1, &fault))
        fail(parts, fault);
}

/* Requests huge pages for a destination without gaps. run() must be the first member, as in struct leati_parts. */
struct huge {
    void (*run)(struct huge *huge, uint64_t part);
    void *dst;
};

static void collapse_hugepage(struct huge *huge, uint64_t part)
{
    leati_hugepage_collapse(huge->dst, part);
}

/* The host function that copies all parts. */
static void run_all(void *argument)
{
    struct leati_parts *parts = argument;
    struct leati_timeline *timeline = parts->timeline;
    uintptr_t fault;

    if (copy_parts(parts, 0, parts->host.parts, &fault) < parts->host.parts)
        fail(parts, fault);
    leati_timeline_release(timeline);
}

static void let_timeline_go(void *argument)
{
    leati_timeline_release(((struct leati_parts *)argument)->timeline);
}

/* ---- scratch memory ---- */

struct scratch {
    struct leati_parts parts;
    struct huge huge;
    _Alignas(64) char rest[]; /* a copy of the list of indices, or the numbers of a conversion; packed elements */
};

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static size_t list_bytes(const leat_layout *listed)
{
    return listed ? (size_t)listed->size[listed->index_dim] * listed->index_bytes : 0;
}

/* Takes scratch memory. If the list of indices is in host memory, copies the list to the scratch memory. */
static leat_status take_scratch(const struct leati_layout_copy *copy, const leat_layout *listed,
                                size_t packed_bytes, struct scratch **scratch)
{
    size_t indices = copy->list_place == LEATI_LIST_ON_HOST ? list_bytes(listed) : 0;

    *scratch = leati_scratch_take(copy->plan.transfer.stream->device, LEAT_KIND_PINNED,
                                  sizeof **scratch + round_up(indices) + packed_bytes);
    if (!*scratch)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no %zu bytes of pinned memory for packing",
                          sizeof **scratch + round_up(indices) + packed_bytes);
    memset(*scratch, 0, sizeof **scratch);
    if (indices)
        memcpy((*scratch)->rest, listed->index, indices);
    return LEAT_OK;
}

static void *first_dst(const struct leati_layout_copy *copy)
{
    return leati_layout_first(copy->dst, copy->start.dst);
}

static const void *first_src(const struct leati_layout_copy *copy)
{
    return leati_layout_first(copy->src, copy->start.src);
}

/* Sets the parts of a copy by processors. dst and src: addresses of the first unit. */
static void set_parts(struct scratch *scratch, const struct leati_layout_copy *copy,
                      const struct leati_layout_plan *plan, void *dst, const void *src, const leat_layout *listed)
{
    struct leati_parts *parts = &scratch->parts;
    const struct leati_canonical *canonical = &plan->canonical;

    parts->run = run_part;
    parts->canonical = *canonical;
    parts->host = plan->host;
    parts->dst = dst;
    parts->src = src;
    parts->guarded = copy->plan.transfer.to.location.kind == LEAT_KIND_PAGEABLE ||
                     copy->plan.transfer.from.location.kind == LEAT_KIND_PAGEABLE;
    parts->ranges[0] = (struct leati_fault_range){(uintptr_t)dst + (uintptr_t)canonical->dst_low,
                                                  (size_t)(canonical->dst_high - canonical->dst_low)};
    parts->ranges[1] = (struct leati_fault_range){(uintptr_t)src + (uintptr_t)canonical->src_low,
                                                  (size_t)(canonical->src_high - canonical->src_low)};
    parts->timeline = copy->plan.transfer.stream->timeline;
    parts->convert = plan->key.convert;
    if (canonical->index_dim < 0)
        return;
    parts->indices.list = copy->list_place == LEATI_LIST_ON_HOST ? scratch->rest : listed->index;
    if (copy->list_place == LEATI_LIST_ON_DEVICE)
        parts->indices.wrong = (_Atomic uint64_t *)listed->index_wrong;
}

/* ---- by threads of the CPU device, and on the host ---- */

/* Launches count parts on the threads of the CPU device. parts: a struct leati_parts, a struct huge, or a struct
 * layout_batch_parts. */
static leat_status launch_parts(leat_stream *stream, void *parts, uint64_t count)
{
    void *args[] = {&parts, &count};
    leat_kernel *kernel;

    LEATI_TRY(leati_kernel_builtin(stream->device, LEATI_BUILTIN_BASIC, "leat_run_parts", &kernel));
    return leat_launch(stream, kernel, leat_dim((uint32_t)count, 1, 1), leat_dim(1, 1, 1), 0, args, 2);
}

static leat_status collapse_hugepages(const struct leati_layout_copy *copy, struct scratch *scratch)
{
    const struct leati_canonical *canonical = &copy->layouts->canonical;
    size_t bytes = (size_t)(canonical->dst_high - canonical->dst_low);
    char *dst = (char *)scratch->parts.dst + canonical->dst_low;

    if (copy->plan.transfer.to.location.kind != LEAT_KIND_DEVICE || canonical->payload_bytes != bytes ||
        !leati_hugepage_any_missing(dst, bytes))
        return LEAT_OK;
    scratch->huge = (struct huge){.run = collapse_hugepage, .dst = dst};
    return launch_parts(copy->plan.transfer.stream, &scratch->huge, leati_hugepage_count(dst, bytes));
}

static leat_status run_on_threads(const struct leati_layout_copy *copy, struct scratch *scratch)
{
    struct leati_driver *driver = copy->plan.transfer.stream->device->driver;
    struct leati_parts *parts = &scratch->parts;
    uint64_t count = parts->host.parts;
    leat_status status;

    LEATI_TRY(collapse_hugepages(copy, scratch));
    if (!parts->guarded)
        return launch_parts(copy->plan.transfer.stream, parts, count);
    /* Keep the timeline, to which a failure is reported, until the stream has completed the copy. */
    leati_timeline_hold(parts->timeline);
    status = launch_parts(copy->plan.transfer.stream, parts, count);
    if (status == LEAT_OK)
        status = driver->ops->launch_host(driver, copy->plan.transfer.stream->native, let_timeline_go, parts);
    leati_stream_writes_host(copy->plan.transfer.stream);
    if (status != LEAT_OK) {
        struct leati_message why;

        leati_error_keep(&why);
        (void)driver->ops->stream_synchronize(driver, copy->plan.transfer.stream->native);
        leati_error_restore(status, &why);
        leati_timeline_release(parts->timeline);
    }
    return status;
}

/* Takes scratch memory for the whole copy by processors, and sets its parts. */
static leat_status take_parts(const struct leati_layout_copy *copy, struct scratch **scratch)
{
    const leat_layout *listed = leati_layout_listed(copy->dst_layout, copy->src_layout);

    /* A copy that converts has no list. */
    LEATI_TRY(take_scratch(copy, listed, copy->convert.src_bytes ? sizeof *copy->factors : 0, scratch));
    set_parts(*scratch, copy, copy->layouts, first_dst(copy), first_src(copy), listed);
    if (copy->convert.src_bytes)
        (*scratch)->parts.factors = memcpy((*scratch)->rest, copy->factors, sizeof *copy->factors);
    return LEAT_OK;
}

static leat_status by_cpu(const struct leati_layout_copy *copy)
{
    struct scratch *scratch;

    LEATI_TRY(take_parts(copy, &scratch));
    return leati_scratch_release(copy->plan.transfer.stream, scratch, run_on_threads(copy, scratch));
}

/* Submits the parts to leat's threads, or if there is no stager, as a host function. own: the parts write only
 * scratch memory. */
static leat_status run_on_host(const struct leati_layout_copy *copy, struct scratch *scratch, bool early, bool own)
{
    struct leati_driver *driver = copy->plan.transfer.stream->device->driver;
    struct leati_parts *parts = &scratch->parts;
    struct leati_list list = {.copy = copy_parts, .list = parts, .count = parts->host.parts, .scratch = own};
    struct leati_stage_request request = {.direction = LEATI_DIRECTION_HOST, .early = early, .list = &list};
    struct leati_endpoint to = {.location.ptr = parts->dst}, from = {.location.ptr = (void *)parts->src};
    leat_status status = LEATI_DECLINED;

    if (copy->plan.stager)
        status = leati_stage_start(copy->plan.stager, copy->plan.transfer.stream, &to, &from, parts->host.parts,
                                   &request, NULL);
    if (status != LEATI_DECLINED)
        return status;
    leati_timeline_hold(parts->timeline);
    status = driver->ops->launch_host(driver, copy->plan.transfer.stream->native, run_all, parts);
    if (!own)
        leati_stream_writes_host(copy->plan.transfer.stream);
    if (status != LEAT_OK)
        leati_timeline_release(parts->timeline);
    return status;
}

leat_status leati_layout_run_host(const struct leati_plan *plan)
{
    const struct leati_layout_copy *copy = plan->transfer.layout;
    struct scratch *scratch;

    LEATI_TRY(take_parts(copy, &scratch));
    return leati_scratch_release(copy->plan.transfer.stream, scratch, run_on_host(copy, scratch, false, false));
}

/* ---- by a kernel ---- */

/* Converts ptr to a device address. ptr may lie outside of the endpoint's memory by an offset of the layout. */
static leat_status map(leat_stream *stream, const struct leati_endpoint *endpoint, const void *ptr,
                       uintptr_t *mapped)
{
    struct leati_driver *driver = stream->device->driver;
    void *device_pointer = endpoint->device_pointer;

    if (!device_pointer && endpoint->location.kind == LEAT_KIND_PINNED && driver->ops->host_device_pointer)
        LEATI_TRY(driver->ops->host_device_pointer(driver, stream->device->native, endpoint->location.ptr,
                                                   &device_pointer));
    *mapped = (uintptr_t)ptr;
    if (device_pointer)
        *mapped += (uintptr_t)device_pointer - (uintptr_t)endpoint->location.ptr;
    return LEAT_OK;
}

/* Converts an address in scratch memory to a device address. */
static leat_status map_scratch(leat_stream *stream, const void *ptr, uintptr_t *mapped)
{
    struct leati_endpoint endpoint = {.location = {.ptr = (void *)ptr, .kind = LEAT_KIND_PINNED}};

    return map(stream, &endpoint, ptr, mapped);
}

leat_status leati_layout_launch(leat_stream *stream, const struct leati_layout_plan *plan, uintptr_t dst,
                                uintptr_t src, uintptr_t list, uintptr_t wrong)
{
    unsigned char argument[LEATI_GPU_LAYOUT_ARGUMENT_BYTES] __attribute__((aligned(16)));
    void *args[] = {argument};
    leat_kernel *kernel;

    LEATI_TRY(leati_kernel_builtin(stream->device, plan->gpu.module, plan->gpu.kernel, &kernel));
    leati_gpu_layout_argument(&plan->canonical, &plan->gpu, (void *)dst, (const void *)src, (const void *)list,
                              (uint64_t *)wrong, argument);
    return leat_launch(stream, kernel, plan->gpu.grid, plan->gpu.block, 0, args, 1);
}

/* leati_layout_launch() for a plan that converts. */
static leat_status launch_convert(leat_stream *stream, const struct leati_layout_plan *plan,
                                  const struct leati_factors *factors, uintptr_t dst, uintptr_t src)
{
    struct leati_convert_argument argument;
    void *args[] = {&argument};
    leat_kernel *kernel;

    LEATI_TRY(leati_kernel_builtin(stream->device, plan->gpu.module, plan->gpu.kernel, &kernel));
    leati_gpu_convert_argument(&plan->canonical, &plan->gpu, &plan->key.convert, factors, (void *)dst,
                               (const void *)src, &argument);
    return leat_launch(stream, kernel, plan->gpu.grid, plan->gpu.block, 0, args, 1);
}

/* Launches the kernel of a plan for a copy, with the copy's counter of wrong indices. factors: the numbers of a
 * plan that converts. */
static leat_status launch(const struct leati_layout_copy *copy, const struct leati_layout_plan *plan,
                          const struct leati_factors *factors, uintptr_t dst, uintptr_t src, uintptr_t list)
{
    const leat_layout *listed = leati_layout_listed(copy->dst_layout, copy->src_layout);
    uintptr_t wrong = 0;

    if (plan->key.convert.src_bytes)
        return launch_convert(copy->plan.transfer.stream, plan, factors, dst, src);
    if (plan->canonical.index_dim >= 0 && copy->list_place == LEATI_LIST_ON_DEVICE && listed->index_wrong)
        LEATI_TRY(map(copy->plan.transfer.stream, &copy->wrong, listed->index_wrong, &wrong));
    return leati_layout_launch(copy->plan.transfer.stream, plan, dst, src, list, wrong);
}

/* Fills *list with the device address of the list of indices: in scratch memory if the list is on the host, else
 * the address of the program's list. Fills 0 if there is no list. */
static leat_status map_list(const struct leati_layout_copy *copy, const struct scratch *scratch, uintptr_t *list)
{
    const leat_layout *listed = leati_layout_listed(copy->dst_layout, copy->src_layout);

    *list = 0;
    if (copy->list_place == LEATI_LIST_ON_HOST)
        return map_scratch(copy->plan.transfer.stream, scratch->rest, list);
    if (copy->list_place == LEATI_LIST_ON_DEVICE)
        return map(copy->plan.transfer.stream, &copy->list, listed->index, list);
    return LEAT_OK;
}

/* Launches one kernel between addresses that the device can access. */
static leat_status launch_listed(const struct leati_layout_copy *copy, uintptr_t dst, uintptr_t src)
{
    const leat_layout *listed = leati_layout_listed(copy->dst_layout, copy->src_layout);
    struct scratch *scratch;
    leat_status status;
    uintptr_t list;

    if (copy->list_place != LEATI_LIST_ON_HOST) {
        LEATI_TRY(map_list(copy, NULL, &list));
        return launch(copy, copy->layouts, copy->factors, dst, src, list);
    }
    LEATI_TRY(take_scratch(copy, listed, 0, &scratch));
    status = map_list(copy, scratch, &list);
    if (status == LEAT_OK)
        status = launch(copy, copy->layouts, copy->factors, dst, src, list);
    return leati_scratch_release(copy->plan.transfer.stream, scratch, status);
}

leat_status leati_layout_run_kernel(const struct leati_plan *plan)
{
    const struct leati_layout_copy *copy = plan->transfer.layout;
    uintptr_t dst, src;

    if (plan->one_pass)
        return by_cpu(copy);
    LEATI_TRY(map(copy->plan.transfer.stream, &copy->plan.transfer.to, first_dst(copy), &dst));
    LEATI_TRY(map(copy->plan.transfer.stream, &copy->plan.transfer.from, first_src(copy), &src));
    return launch_listed(copy, dst, src);
}

/* ---- several copies with the same layouts ---- */

/* Several copies by threads of the CPU device. run() must be the first member, as in struct leati_parts. */
struct layout_batch_parts {
    void (*run)(struct layout_batch_parts *batch, uint64_t part);
    const struct leati_parts *parts; /* those of the first copy */
    struct layout_batch_place {
        void *dst;
        const void *src;
    } places[];
};

static void run_batch_part(struct layout_batch_parts *batch, uint64_t part)
{
    uint64_t count = batch->parts->host.parts, copy = part / count;
    struct one_part one = {batch->parts, batch->places[copy].dst, batch->places[copy].src, part % count};

    copy_part(&one);
}

static leat_status batch_by_cpu(struct leati_layout_copy *const *copies, size_t count)
{
    const struct leati_layout_copy *first = copies[0];
    const leat_layout *listed = leati_layout_listed(first->dst_layout, first->src_layout);
    size_t factors_bytes = first->convert.src_bytes ? round_up(sizeof *first->factors) : 0;
    struct layout_batch_parts *batch;
    struct scratch *scratch;

    leati_assert(first->list_place == LEATI_LIST_NONE);
    LEATI_TRY(
        take_scratch(first, listed, factors_bytes + sizeof *batch + count * sizeof batch->places[0], &scratch));
    set_parts(scratch, first, first->layouts, first_dst(first), first_src(first), listed);
    if (first->convert.src_bytes)
        scratch->parts.factors = memcpy(scratch->rest, first->factors, sizeof *first->factors);
    batch = (struct layout_batch_parts *)(void *)(scratch->rest + factors_bytes);
    batch->run = run_batch_part;
    batch->parts = &scratch->parts;
    for (size_t i = 0; i < count; i++)
        batch->places[i] = (struct layout_batch_place){first_dst(copies[i]), first_src(copies[i])};
    return leati_scratch_release(
        first->plan.transfer.stream, scratch,
        launch_parts(first->plan.transfer.stream, batch, count * first->layouts->host.parts));
}

/* The argument of a launch that makes several copies. */
union batch_argument {
    struct leati_layout_task task;
    struct leati_convert_argument convert;
};

/* Launches one kernel that makes count copies. plan: the plan for as many copies. */
static leat_status launch_batch(struct leati_layout_copy *const *copies, unsigned count,
                                const struct leati_layout_plan *plan)
{
    const struct leati_layout_copy *first = copies[0];
    leat_stream *stream = first->plan.transfer.stream;
    bool converts = first->convert.src_bytes != 0;
    union batch_argument argument;
    void *args[] = {&argument};
    struct leati_task_place *places = converts ? argument.convert.task.place : argument.task.place;
    leat_kernel *kernel;

    LEATI_TRY(leati_kernel_builtin(stream->device, plan->gpu.module, plan->gpu.kernel, &kernel));
    if (converts) {
        leati_gpu_convert_argument(&plan->canonical, &plan->gpu, &plan->key.convert, first->factors, NULL, NULL,
                                   &argument.convert);
        leati_gpu_convert_batch(&argument.convert.task, count);
    } else {
        leati_gpu_layout_argument(&plan->canonical, &plan->gpu, NULL, NULL, NULL, NULL,
                                  (unsigned char *)&argument.task);
        leati_gpu_layout_batch(&argument.task, count);
    }
    for (unsigned i = 0; i < count; i++) {
        uintptr_t dst, src;

        LEATI_TRY(map(stream, &copies[i]->plan.transfer.to, first_dst(copies[i]), &dst));
        LEATI_TRY(map(stream, &copies[i]->plan.transfer.from, first_src(copies[i]), &src));
        leati_task_set_place(places, i, dst, src);
    }
    return leat_launch(stream, kernel, leat_dim(plan->gpu.grid.x, count, 1), plan->gpu.block, 0, args, 1);
}

leat_status leati_layout_run_batch(struct leati_layout_copy *const *copies, size_t count,
                                   const struct leati_layout_plan *plan)
{
    size_t most = copies[0]->plan.one_pass ? UINT32_MAX / copies[0]->layouts->host.parts : plan->gpu.most_copies;

    for (size_t done = 0, now; done < count; done += now) {
        now = count - done < most ? count - done : most;
        LEATI_TRY(copies[0]->plan.one_pass ? batch_by_cpu(copies + done, now)
                                           : launch_batch(copies + done, (unsigned)now, plan));
    }
    return LEAT_OK;
}

/* ---- one side with its gaps, in device memory ---- */

/* Frees device memory in stream order, also if status, the result of the work that uses the memory, is a failure.
 * Returns status, or the failure of freeing. */
static leat_status give_back(leat_stream *stream, void *whole, leat_status status)
{
    struct leati_message why;
    leat_status freed;

    leati_error_keep(&why);
    freed = leat_free(stream, whole);
    return status == LEAT_OK ? freed : leati_error_restore(status, &why);
}

/* Takes device memory for bytes bytes at *place. *place and like have the same alignment within a word, so that
 * the same plan is valid for both. */
static leat_status take_whole(leat_stream *stream, const void *like, size_t bytes, void **whole, char **place)
{
    leat_pool *pool;

    LEATI_TRY(leati_pool_get_own(stream->device, LEAT_KIND_DEVICE, &pool));
    LEATI_TRY(leat_pool_alloc(stream, pool, bytes + WORD_BYTES, whole));
    *place = (char *)*whole + (uintptr_t)like % WORD_BYTES;
    return LEAT_OK;
}

/* Copies between the two sides, one of which was replaced by temporary memory on the stream's device: src with in,
 * else dst. dst and src: addresses of the first unit. If the side that was not replaced is pageable,
 * leat_copy_layout() makes this copy; the replaced side was then on another device. */
static leat_status run_local(const struct leati_layout_copy *copy, bool in, void *dst, const void *src)
{
    const struct leati_endpoint *stays = in ? &copy->plan.transfer.to : &copy->plan.transfer.from;
    uintptr_t mapped;

    if (stays->location.kind == LEAT_KIND_PAGEABLE && copy->conversion)
        return leat_copy_convert(copy->plan.transfer.stream, leati_layout_first(dst, -copy->start.dst),
                                 copy->dst_layout, leati_layout_first(src, -copy->start.src), copy->src_layout,
                                 copy->conversion);
    if (stays->location.kind == LEAT_KIND_PAGEABLE)
        return leat_copy_layout(copy->plan.transfer.stream, leati_layout_first(dst, -copy->start.dst),
                                copy->dst_layout, leati_layout_first(src, -copy->start.src), copy->src_layout);
    LEATI_TRY(map(copy->plan.transfer.stream, stays, in ? dst : src, &mapped));
    return in ? launch_listed(copy, mapped, (uintptr_t)src) : launch_listed(copy, (uintptr_t)dst, mapped);
}

static leat_status in_whole(const struct leati_layout_copy *copy)
{
    leat_status status;
    void *whole;
    char *place;

    LEATI_TRY(take_whole(copy->plan.transfer.stream, copy->plan.transfer.from.location.ptr,
                         copy->plan.transfer.from_reach, &whole, &place));
    status = leat_copy(copy->plan.transfer.stream, place, copy->plan.transfer.from.location.ptr,
                       copy->plan.transfer.from_reach);
    if (status == LEAT_OK)
        status = run_local(copy, true, first_dst(copy), place - copy->layouts->canonical.src_low);
    return give_back(copy->plan.transfer.stream, whole, status);
}

/* Returns true if the copy may leave out elements. The host cannot check a list in device memory, so the list may
 * have wrong indices. Temporary memory must then be cleared, so that the program does not get its old contents. */
static bool may_leave_out(const struct leati_layout_copy *copy)
{
    return copy->list_place == LEATI_LIST_ON_DEVICE && copy->src_layout->index;
}

static leat_status out_whole(const struct leati_layout_copy *copy)
{
    leat_status status = LEAT_OK;
    void *whole;
    char *place;

    LEATI_TRY(take_whole(copy->plan.transfer.stream, copy->plan.transfer.to.location.ptr,
                         copy->plan.transfer.to_reach, &whole, &place));
    if (may_leave_out(copy))
        status = leat_fill(copy->plan.transfer.stream, place, 0, copy->plan.transfer.to_reach);
    if (status == LEAT_OK)
        status = run_local(copy, false, place - copy->layouts->canonical.dst_low, first_src(copy));
    if (status == LEAT_OK)
        status = leat_copy(copy->plan.transfer.stream, copy->plan.transfer.to.location.ptr, place,
                           copy->plan.transfer.to_reach);
    return give_back(copy->plan.transfer.stream, whole, status);
}

/* ---- one side packed, in pieces ---- */

static int64_t step_of(const leat_layout *layout, uint32_t dim)
{
    return layout->stride_bytes[dim] < 0 ? -layout->stride_bytes[dim] : layout->stride_bytes[dim];
}

void leati_layout_pack(const leat_layout *given, leat_layout *packed)
{
    bool taken[LEAT_LAYOUT_MAX_DIMS] = {false};
    int64_t stride = given->element_bytes;

    *packed = (leat_layout){.dims = given->dims, .element_bytes = given->element_bytes};
    memcpy(packed->size, given->size, sizeof packed->size);
    for (uint32_t i = 0; i < given->dims; i++) {
        uint32_t next = given->dims;

        for (uint32_t dim = 0; dim < given->dims; dim++)
            if (!taken[dim] && (next == given->dims || step_of(given, dim) < step_of(given, next)))
                next = dim;
        taken[next] = true;
        if (!given->stride_bytes[next])
            continue;
        packed->stride_bytes[next] = stride;
        stride *= given->size[next];
    }
}

static size_t packed_bytes(const leat_layout *packed)
{
    size_t bytes = packed->element_bytes;

    for (uint32_t dim = 0; dim < packed->dims; dim++)
        if (packed->stride_bytes[dim])
            bytes *= (size_t)packed->size[dim];
    return bytes;
}

/* Returns the dimension with the largest stride. Pieces along this dimension are the most compact. */
static uint32_t outermost(const leat_layout *side)
{
    uint32_t found = 0;

    for (uint32_t dim = 1; dim < side->dims; dim++)
        if (step_of(side, dim) > step_of(side, found) || side->size[found] == 1)
            if (side->size[dim] > 1 && side->stride_bytes[dim])
                found = dim;
    return found;
}

/* Reduces one dimension of a layout to count elements, from element start on. */
static void cut(leat_layout *layout, uint32_t dim, int64_t start, int64_t count)
{
    if (layout->index && layout->index_dim == dim)
        layout->index = (const char *)layout->index + start * (int64_t)layout->index_bytes;
    else
        layout->offset_bytes += start * layout->stride_bytes[dim];
    layout->size[dim] = count;
}

/* Reduces repeated dimensions (stride 0) to size 1. */
static void drop_repeats(leat_layout *layout, const leat_layout *packed)
{
    for (uint32_t dim = 0; dim < layout->dims; dim++)
        if (!packed->stride_bytes[dim])
            layout->size[dim] = 1;
}

/* A piece of a copy: both sides, and the packed memory between them. */
struct run_piece {
    leat_layout dst, src, packed;
    struct leati_convert convert; /* of the piece's channels */
    struct leati_factors factors;
    struct scratch *scratch;
    char *pack;
};

/* Reduces the conversion of a piece to its channels, if the copy is cut along them: `count` of them, from start
 * on. */
static void cut_channels(struct run_piece *piece, const struct leati_layout_copy *copy, uint32_t dim,
                         int64_t start, int64_t count)
{
    piece->convert = copy->convert;
    if (!copy->convert.src_bytes)
        return;
    piece->factors = *copy->factors;
    if (!copy->convert.channels || copy->convert.channel_dim != dim)
        return;
    piece->convert.channels = piece->factors.count = (uint32_t)count;
    memcpy(piece->factors.scale, copy->factors->scale + start, (size_t)count * sizeof piece->factors.scale[0]);
    memcpy(piece->factors.bias, copy->factors->bias + start, (size_t)count * sizeof piece->factors.bias[0]);
}

static leat_status take_piece(const struct leati_layout_copy *copy, struct run_piece *piece, bool in)
{
    const leat_layout *listed = leati_layout_listed(&piece->dst, &piece->src);

    leati_layout_pack(in ? &piece->src : &piece->dst, &piece->packed);
    LEATI_TRY(take_scratch(copy, listed, packed_bytes(&piece->packed), &piece->scratch));
    piece->pack =
        piece->scratch->rest + (copy->list_place == LEATI_LIST_ON_HOST ? round_up(list_bytes(listed)) : 0);
    if (!in && may_leave_out(copy))
        memset(piece->pack, 0, packed_bytes(&piece->packed));
    return LEAT_OK;
}

/* Copies a piece between pageable and packed memory, by processors. */
static leat_status run_host_side(const struct leati_layout_copy *copy, struct run_piece *piece, bool in)
{
    leat_layout packed = piece->packed, side = in ? piece->src : piece->dst;
    struct leati_layout_start start;
    struct leati_layout_plan *plan;
    leat_status status;

    if (in) {
        drop_repeats(&side, &piece->packed);
        drop_repeats(&packed, &piece->packed);
        LEATI_TRY(leati_layout_plan_get(&packed, WORD_BYTES, &side, leati_layout_align(copy->src), &plan, &start));
        set_parts(piece->scratch, copy, plan, leati_layout_first(piece->pack, start.dst),
                  leati_layout_first(copy->src, start.src), &side);
    } else {
        LEATI_TRY(leati_layout_plan_get(&side, leati_layout_align(copy->dst), &packed, WORD_BYTES, &plan, &start));
        set_parts(piece->scratch, copy, plan, leati_layout_first(copy->dst, start.dst),
                  leati_layout_first(piece->pack, start.src), &side);
    }
    status = run_on_host(copy, piece->scratch, in && copy->plan.early, in);
    leati_layout_plan_drop(plan);
    return status;
}

/* Copies a piece between packed and device memory, by a kernel, which also converts it: the packed elements are
 * those of the pageable side. */
static leat_status run_device_side(const struct leati_layout_copy *copy, struct run_piece *piece, bool in)
{
    const leat_layout *dst = in ? &piece->dst : &piece->packed, *src = in ? &piece->packed : &piece->src;
    const struct leati_endpoint *endpoint = in ? &copy->plan.transfer.to : &copy->plan.transfer.from;
    size_t align = leati_layout_align(in ? copy->dst : copy->src);
    struct leati_layout_start start;
    struct leati_layout_plan *plan;
    uintptr_t local, pack, list;
    leat_status status;

    LEATI_TRY(map(copy->plan.transfer.stream, endpoint, in ? copy->dst : copy->src, &local));
    LEATI_TRY(map_scratch(copy->plan.transfer.stream, piece->pack, &pack));
    LEATI_TRY(map_list(copy, piece->scratch, &list));
    LEATI_TRY(leati_layout_plan_get_convert(dst, in ? align : WORD_BYTES, src, in ? WORD_BYTES : align,
                                            &piece->convert, &plan, &start));
    status = launch(copy, plan, &piece->factors, (in ? local : pack) + (uintptr_t)start.dst,
                    (in ? pack : local) + (uintptr_t)start.src, list);
    leati_layout_plan_drop(plan);
    return status;
}

static leat_status run_piece(const struct leati_layout_copy *copy, struct run_piece *piece, bool in)
{
    leat_status status;

    LEATI_TRY(take_piece(copy, piece, in));
    status = in ? run_host_side(copy, piece, true) : run_device_side(copy, piece, false);
    if (status == LEAT_OK)
        status = in ? run_device_side(copy, piece, true) : run_host_side(copy, piece, false);
    return leati_scratch_release(copy->plan.transfer.stream, piece->scratch, status);
}

static leat_status in_pieces(const struct leati_layout_copy *copy, bool in)
{
    struct leati_driver *driver = copy->plan.transfer.stream->device->driver;
    const leat_layout *side = in ? copy->src_layout : copy->dst_layout;
    uint64_t limit = copy->plan.stager ? copy->plan.stager->limit_bytes : PIECE_BYTES, held = 0;
    uint32_t dim = outermost(side);
    leat_layout packed;
    size_t row_bytes;
    int64_t rows;

    leati_layout_pack(side, &packed);
    row_bytes = packed_bytes(&packed) / (size_t)side->size[dim];
    rows = row_bytes < PIECE_BYTES ? (int64_t)(PIECE_BYTES / (row_bytes ? row_bytes : 1)) : 1;
    for (int64_t start = 0; start < side->size[dim]; start += rows) {
        struct run_piece piece = {.dst = *copy->dst_layout, .src = *copy->src_layout};
        int64_t count = side->size[dim] - start < rows ? side->size[dim] - start : rows;

        cut(&piece.dst, dim, start, count);
        cut(&piece.src, dim, start, count);
        cut_channels(&piece, copy, dim, start, count);
        /* The pinned memory of a piece is freed in stream order, so wait for the stream if the pieces would hold
         * more than the limit. */
        if (held && held + (size_t)count * row_bytes > limit) {
            LEATI_TRY(driver->ops->stream_synchronize(driver, copy->plan.transfer.stream->native));
            held = 0;
        }
        held += (size_t)count * row_bytes;
        LEATI_TRY(run_piece(copy, &piece, in));
    }
    return LEAT_OK;
}

leat_status leati_layout_run_staged(const struct leati_plan *plan)
{
    const struct leati_layout_copy *copy = plan->transfer.layout;

    if (!copy->whole)
        return in_pieces(copy, copy->in);
    return copy->in ? in_whole(copy) : out_whole(copy);
}
