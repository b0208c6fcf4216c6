/*
 * batch.c - implements leat_copy_batch(), which makes many copies at once.
 *
 * leat checks and sorts all ops (batch_ops.h) before it submits any of them. It combines small ranges into one
 * group for each direction, and plans each group as one transfer. The groups and their protocols are:
 *
 *   DEVICE  KERNEL: the device can access both sides, and leat_copy_pieces copies all ranges in one launch
 *   IN      STAGED: pageable sources are packed into pinned memory, from which the same launch reads them. The
 *           caller's thread packs if the sources may be read at once, else a host function of the stream
 *   OUT     STAGED: the launch copies to pinned memory, and a host function copies from there to the destinations
 *   HOST    HOST: both sides are host memory, one of them is pageable. The host function of OUT copies these too
 *
 * leat plans large ranges, and ranges in memory of other devices, one by one, as leat_copy() does. If a batch has
 * few ranges, it plans all of them one by one. If packed ranges are also contiguous on the device and large
 * together, one DMA moves them instead of the kernel. All data that the stream needs is in one block of pinned
 * memory, which is freed in stream order.
 */
#include "base/assert.h"
#include "copy/batch_ops.h"
#include "copy/pieces.h"
#include "copy/plan.h"
#include "copy/scratch.h"

#include <leat/copy.h>
#include <leat/pool.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BYTES ((size_t)16) /* the kernel copies in words if both sides have the same address modulo this */
#define TOGETHER_BYTES ((size_t)512 << 10)     /* workers help to pack at least this many bytes */
#define TOGETHER_PART_BYTES ((size_t)64 << 10) /* about the bytes that a thread packs at a time */

/* The group of a range: its enum leati_direction, or ALONE for a range that is planned by itself. */
enum { ALONE = LEATI_DIRECTION_DEVICE + 1, GROUPS };

struct batch {
    leat_stream *stream;
    struct leati_ops ops;
    size_t largest_bytes; /* ranges with more bytes are ALONE */
    leat_kernel *kernel;
    size_t counts[GROUPS], bytes[GROUPS]; /* number of ranges in each group; their bytes together */
    const char *why_alone;
};

/* ---- planning ---- */

static inline uint32_t group_of(const struct batch *batch, const struct leati_op *op)
{
    const struct leati_ops *ops = &batch->ops;
    enum leati_side to = ops->allocations[op->to].side, from = ops->allocations[op->from].side;

    leati_assert(op->to < ops->allocation_count && op->from < ops->allocation_count);
    if (op->bytes > batch->largest_bytes || to == LEATI_SIDE_PEER || from == LEATI_SIDE_PEER)
        return ALONE;
    if ((to != LEATI_SIDE_PAGEABLE && from != LEATI_SIDE_PAGEABLE) || ops->look.one_pass)
        return LEATI_DIRECTION_DEVICE;
    if (!ops->look.stager)
        return ALONE;
    if (to == LEATI_SIDE_LOCAL)
        return LEATI_DIRECTION_IN;
    return from == LEATI_SIDE_LOCAL ? LEATI_DIRECTION_OUT : LEATI_DIRECTION_HOST;
}

static void count_groups(struct batch *batch)
{
    memset(batch->counts, 0, sizeof batch->counts);
    memset(batch->bytes, 0, sizeof batch->bytes);
    for (size_t i = 0; i < batch->ops.count; i++) {
        struct leati_op *op = &batch->ops.list[i];

        op->group = group_of(batch, op);
        leati_assert(op->group < GROUPS);
        batch->counts[op->group]++;
        batch->bytes[op->group] += op->bytes;
    }
}

static size_t count_together(const struct batch *batch)
{
    leati_assert(batch->counts[ALONE] <= batch->ops.count);
    return batch->ops.count - batch->counts[ALONE];
}

static void all_alone(struct batch *batch, const char *why)
{
    memset(batch->counts, 0, sizeof batch->counts);
    memset(batch->bytes, 0, sizeof batch->bytes);
    batch->counts[ALONE] = batch->ops.count;
    batch->bytes[ALONE] = batch->ops.bytes;
    for (size_t i = 0; i < batch->ops.count; i++)
        batch->ops.list[i].group = ALONE;
    batch->why_alone = why;
}

/* Plans a group. All groups except ALONE share one launch, so their transfer.count is the number of ranges in all
 * these groups. */
static leat_status plan_group(const struct batch *batch, uint32_t group, struct leati_plan *plan)
{
    leati_assert(group < GROUPS);
    *plan = batch->ops.look;
    plan->transfer =
        (struct leati_transfer){.stream = batch->stream,
                                .shape = LEATI_SHAPE_BATCH,
                                .direction = (enum leati_direction)group,
                                .bytes = batch->bytes[group],
                                .count = group == ALONE ? batch->counts[ALONE] : count_together(batch)};
    if (!plan->unstaged)
        plan->unstaged = "no side is pageable";
    LEATI_TRY(leati_protocol_forced(&plan->forced));
    /* If LEAT_COPY_PROTOCOL forces the protocol KERNEL, groups that no kernel can copy alone use the protocol that
     * shares the launch. */
    if (plan->forced == LEATI_PROTOCOL_KERNEL)
        plan->forced = group == LEATI_DIRECTION_DEVICE ? LEATI_PROTOCOL_KERNEL
                       : group == LEATI_DIRECTION_HOST ? LEATI_PROTOCOL_HOST
                                                       : LEATI_PROTOCOL_STAGED;
    return leati_plan_compare(plan);
}

/* Plans all groups. If one driver call for each range is faster for any group, all ranges become ALONE. */
static leat_status plan_groups(struct batch *batch)
{
    for (uint32_t group = 0; group < ALONE; group++) {
        struct leati_plan plan;

        if (!batch->counts[group])
            continue;
        LEATI_TRY(plan_group(batch, group, &plan));
        if (plan.protocol == LEATI_PROTOCOL_DRIVER) {
            all_alone(batch,
                      plan.forced == LEATI_PROTOCOL_DRIVER ? "they are planned by themselves" : "they are few");
            break;
        }
    }
    return LEAT_OK;
}

static leat_status choose(struct batch *batch)
{
    enum leati_protocol_id forced;

    LEATI_TRY(leati_protocol_forced(&forced));
    batch->why_alone = NULL;
    batch->largest_bytes =
        forced == LEATI_PROTOCOL_KERNEL ? SIZE_MAX : batch->stream->device->driver->can->batch.largest_bytes;
    count_groups(batch);
    LEATI_TRY(plan_groups(batch));
    if (count_together(batch) && !leati_pieces_kernel(batch->stream->device, &batch->kernel))
        all_alone(batch, "the device has no kernel for it");
    return LEAT_OK;
}

/* Checks the pageable sources that leati_ops_read() did not check, because a call must find bad addresses before
 * it submits anything. Sources of the group IN that may be read early need no check: packing detects unmapped
 * memory, and precedes the launch. DECLINED: a source that counts as pageable is device memory from outside leat,
 * so the caller must try again with asking.
 */
static leat_status check_unread(struct batch *batch)
{
    struct leati_ops *ops = &batch->ops;
    struct leati_driver *driver = batch->stream->device->driver;
    struct leati_endpoint endpoint;

    if (!ops->unread || (ops->look.early && batch->counts[ALONE] + batch->counts[LEATI_DIRECTION_HOST] == 0))
        return LEAT_OK;
    for (size_t i = 0; i < ops->count; i++) {
        const struct leati_op *op = &ops->list[i];
        leat_status status;

        if (op->from || (op->group == LEATI_DIRECTION_IN && ops->look.early))
            continue;
        status = leati_pointers_find_range(driver, "src", (void *)op->src, op->bytes, false, &endpoint);
        if (status != LEAT_OK)
            return leati_fail_in(status, "op %u", op->number);
        if (!leati_is_on_host(&endpoint) && !ops->asking)
            return LEATI_DECLINED;
    }
    return LEAT_OK;
}

static leat_status plan(struct batch *batch, leat_stream *stream, const leat_copy_op *given, size_t count,
                        bool asking)
{
    batch->stream = stream;
    LEATI_TRY(leati_ops_read(&batch->ops, stream, given, count, asking));
    LEATI_TRY(choose(batch));
    return check_unread(batch);
}

/* ---- read-only memory, and guard mode ---- */

static leat_status may_use_end(struct batch *batch, const char *name, uint32_t allocation, uintptr_t ptr,
                               const struct leati_op *op, struct leati_access *use)
{
    struct leati_endpoint endpoint = leati_ops_endpoint(&batch->ops, allocation, ptr);
    leat_status status = leati_may_use(use, batch->stream, name, &endpoint, op->bytes, *name == 'd');

    return status == LEAT_OK ? status : leati_fail_in(status, "op %u", op->number);
}

/* Checks that no destination is read-only, and asks guard mode whether all ranges may be used. Fills *use for
 * was_used(), with the timeline's sequence number. use->hooks is NULL if guard mode is off. */
static leat_status may_use(struct batch *batch, struct leati_access *use)
{
    struct leati_access one;

    /* Acquire: makes visible what the pool wrote before it set the hooks. */
    use->hooks = atomic_load_explicit(&leati_guard_hooks, memory_order_acquire);
    use->seq = 0;
    if (!use->hooks && !batch->ops.read_only)
        return LEAT_OK;
    use->seq = leati_timeline_now(batch->stream->timeline);
    for (size_t i = 0; i < batch->ops.count; i++) {
        const struct leati_op *op = &batch->ops.list[i];

        LEATI_TRY(may_use_end(batch, "dst", op->to, op->dst, op, &one));
        LEATI_TRY(may_use_end(batch, "src", op->from, op->src, op, &one));
    }
    return LEAT_OK;
}

static void end_was_used(struct batch *batch, const struct leati_access *use, uint32_t allocation, uintptr_t ptr,
                         size_t bytes, bool write)
{
    struct leati_endpoint endpoint = leati_ops_endpoint(&batch->ops, allocation, ptr);
    struct leati_access one = {.hooks = endpoint.block ? use->hooks : NULL, .seq = use->seq};

    leati_was_used(&one, batch->stream, &endpoint, bytes, write);
}

/* Reports the ranges from first to end - 1, except ALONE ranges, to guard mode as used. */
static void was_used(struct batch *batch, const struct leati_access *use, size_t first, size_t end)
{
    leati_assert(first <= end && end <= batch->ops.count);
    for (size_t i = first; i < end && use->hooks; i++) {
        const struct leati_op *op = &batch->ops.list[i];

        if (op->group == ALONE)
            continue;
        end_was_used(batch, use, op->to, op->dst, op->bytes, true);
        end_was_used(batch, use, op->from, op->src, op->bytes, false);
    }
}

/* ---- a round: as many ranges as fit into the pinned memory for packing ---- */

/* A copy by a host thread. */
struct batch_part {
    char *dst;
    const char *src;
    size_t bytes;
    uint32_t number;
};

/* A copy by the driver between the packed memory and the device. */
struct dma {
    struct leati_location dst, src;
    size_t bytes;
};

/* The argument of a host function of the stream. */
struct host_parts {
    struct leati_timeline *timeline;
    struct batch_part *list;
    size_t count;
};

/* The block of pinned memory of a round. It contains all data that the stream and its host functions use. */
struct block {
    struct host_parts in, out;
    struct leati_copier copier;
    struct leati_piece *pieces;
    size_t piece_count;
    char *pack;
    uintptr_t pack_shift; /* device address minus host address of the block */
    size_t packed_bytes;
    struct dma *dmas;
    size_t dma_count;
};

/* A run of packed ranges that are contiguous both in pinned memory and on the device. */
struct packed_run {
    uint32_t group;
    uint32_t allocation;
    uintptr_t local, packed;
    size_t bytes; /* 0: there is no run */
};

static size_t align_up(size_t bytes, size_t to)
{
    leati_assert(LEATI_IS_POWER_OF_TWO(to));
    return (bytes + to - 1) / to * to;
}

/* Adds the space that count ranges of a group, with bytes bytes in total, need at most in a block. */
static void add_needs(struct block *needs, uint32_t group, size_t count, size_t bytes)
{
    if (group == LEATI_DIRECTION_IN || group == LEATI_DIRECTION_OUT)
        needs->packed_bytes += bytes + count * 2 * WORD_BYTES;
    if (group == LEATI_DIRECTION_IN)
        needs->in.count += count;
    if (group == LEATI_DIRECTION_OUT || group == LEATI_DIRECTION_HOST)
        needs->out.count += count;
    if (group != LEATI_DIRECTION_HOST && group != ALONE)
        needs->piece_count += bytes / LEATI_PIECE_BYTES + count;
}

/* Returns the end of a round: the index of the first range that does not fit into most_packed bytes. Fills *needs
 * with the space that the block needs. */
static size_t find_round(const struct batch *batch, size_t first, size_t most_packed, struct block *needs)
{
    size_t i = batch->ops.count;

    memset(needs, 0, sizeof *needs);
    for (uint32_t group = 0; group < GROUPS && first == 0; group++)
        add_needs(needs, group, batch->counts[group], batch->bytes[group]);
    if (first || needs->packed_bytes > most_packed) {
        memset(needs, 0, sizeof *needs);
        for (i = first; i < batch->ops.count; i++) {
            const struct leati_op *op = &batch->ops.list[i];

            if (needs->packed_bytes && needs->packed_bytes + op->bytes + 2 * WORD_BYTES > most_packed)
                break;
            add_needs(needs, op->group, 1, op->bytes);
        }
    }
    /* A packed run becomes a DMA only if it is larger than largest_bytes. */
    needs->dma_count = needs->packed_bytes / batch->largest_bytes;
    leati_assert(i > first);
    return i;
}

static struct block *take_block(struct batch *batch, const struct block *needs)
{
    size_t in_bytes = align_up(needs->in.count * sizeof(struct batch_part), 64);
    size_t out_bytes = align_up(needs->out.count * sizeof(struct batch_part), 64);
    size_t piece_bytes = align_up(needs->piece_count * sizeof(struct leati_piece), 64);
    size_t dma_bytes = align_up(needs->dma_count * sizeof(struct dma), 64);
    size_t head_bytes = align_up(sizeof(struct block), 64);
    struct block *block =
        leati_scratch_take(batch->stream->device, LEAT_KIND_PINNED,
                           head_bytes + in_bytes + out_bytes + piece_bytes + dma_bytes + needs->packed_bytes);
    char *at;

    if (!block)
        return NULL;
    memset(block, 0, sizeof *block);
    at = (char *)block + head_bytes;
    block->in.list = (struct batch_part *)(void *)at;
    block->out.list = (struct batch_part *)(void *)(at += in_bytes);
    block->pieces = (struct leati_piece *)(void *)(at += out_bytes);
    block->dmas = (struct dma *)(void *)(at += piece_bytes);
    block->pack = at + dma_bytes;
    return block;
}

static void add_pieces(struct block *block, uintptr_t dst, uintptr_t src, size_t bytes, uint32_t number)
{
    leati_pieces_add(block->pieces, &block->piece_count, dst, src, bytes, LEATI_PIECE_BYTES, number);
}

static leat_status end_run(struct batch *batch, struct block *block, struct packed_run *run)
{
    struct leati_allocation *allocation = &batch->ops.allocations[run->allocation];
    struct leati_location local = allocation->endpoint.location,
                          pinned = {.ptr = (void *)run->packed, .kind = LEAT_KIND_PINNED};
    uintptr_t device_local, device_packed = run->packed + block->pack_shift;

    leati_assert(run->group == LEATI_DIRECTION_IN || run->group == LEATI_DIRECTION_OUT || !run->bytes);
    if (!run->bytes)
        return LEAT_OK;
    local.ptr = (void *)run->local;
    if (run->bytes > batch->largest_bytes) {
        block->dmas[block->dma_count++] = run->group == LEATI_DIRECTION_IN
                                              ? (struct dma){local, pinned, run->bytes}
                                              : (struct dma){pinned, local, run->bytes};
    } else {
        LEATI_TRY(leati_ops_map(&batch->ops, allocation));
        device_local = run->local + (uintptr_t)allocation->shift;
        if (run->group == LEATI_DIRECTION_IN)
            add_pieces(block, device_local, device_packed, run->bytes, 0);
        else
            add_pieces(block, device_packed, device_local, run->bytes, 0);
    }
    run->bytes = 0;
    return LEAT_OK;
}

/* Takes packed memory for a range. If the range follows the current run on the device, its packed memory also
 * follows the memory of the run. */
static leat_status pack(struct batch *batch, struct block *block, struct packed_run *run, uint32_t group,
                        uint32_t allocation, uintptr_t local, size_t bytes, char **packed)
{
    if (run->bytes && (run->group != group || run->allocation != allocation || run->local + run->bytes != local))
        LEATI_TRY(end_run(batch, block, run));
    if (!run->bytes) {
        block->packed_bytes = align_up(block->packed_bytes, WORD_BYTES) + local % WORD_BYTES;
        *run = (struct packed_run){.group = group,
                                   .allocation = allocation,
                                   .local = local,
                                   .packed = (uintptr_t)block->pack + block->packed_bytes};
    }
    leati_assert((uintptr_t)(block->pack + block->packed_bytes) % WORD_BYTES == local % WORD_BYTES);
    *packed = block->pack + block->packed_bytes;
    block->packed_bytes += bytes;
    run->bytes += bytes;
    return LEAT_OK;
}

static void add_part(struct host_parts *parts, char *dst, const char *src, const struct leati_op *op)
{
    parts->list[parts->count++] =
        (struct batch_part){.dst = dst, .src = src, .bytes = op->bytes, .number = op->number};
}

static leat_status add_range(struct batch *batch, struct block *block, struct packed_run *run,
                             const struct leati_op *op)
{
    struct leati_allocation *to = &batch->ops.allocations[op->to], *from = &batch->ops.allocations[op->from];
    uint32_t group = op->group;
    char *packed;

    switch (group) {
    case LEATI_DIRECTION_DEVICE:
        LEATI_TRY(leati_ops_map(&batch->ops, to));
        LEATI_TRY(leati_ops_map(&batch->ops, from));
        add_pieces(block, op->dst + (uintptr_t)to->shift, op->src + (uintptr_t)from->shift, op->bytes, op->number);
        break;
    case LEATI_DIRECTION_IN:
        LEATI_TRY(pack(batch, block, run, group, op->to, op->dst, op->bytes, &packed));
        add_part(&block->in, packed, (const char *)op->src, op);
        break;
    case LEATI_DIRECTION_OUT:
        LEATI_TRY(pack(batch, block, run, group, op->from, op->src, op->bytes, &packed));
        add_part(&block->out, (char *)op->dst, packed, op);
        break;
    case LEATI_DIRECTION_HOST:
        add_part(&block->out, (char *)op->dst, (const char *)op->src, op);
        break;
    default:
        break;
    }
    return LEAT_OK;
}

static leat_status fill_block(struct batch *batch, struct block *block, size_t first, size_t end)
{
    struct leati_driver *driver = batch->stream->device->driver;
    struct packed_run run = {.bytes = 0};
    void *device_pack = block->pack;

    if (driver->ops->host_device_pointer)
        LEATI_TRY(
            driver->ops->host_device_pointer(driver, batch->stream->device->native, block->pieces, &device_pack));
    block->pack_shift = driver->ops->host_device_pointer ? (uintptr_t)device_pack - (uintptr_t)block->pieces : 0;
    for (size_t i = first; i < end; i++)
        LEATI_TRY(add_range(batch, block, &run, &batch->ops.list[i]));
    return end_run(batch, block, &run);
}

/* ---- the host's part ---- */

/* Copies parts. Returns the number of parts before the first that could not be read or written. */
static size_t copy_parts(const void *list, size_t first, size_t count, uintptr_t *fault)
{
    const struct batch_part *parts = list;
    size_t i;

    for (i = first; i < first + count; i++)
        if (leati_staging_copy_guarded(parts[i].dst, parts[i].src, parts[i].bytes, LEATI_STORE_POLICY_CACHED,
                                       fault) != parts[i].bytes)
            break;
    return i - first;
}

static void describe_fault(uint32_t number, uintptr_t fault, char *text, size_t bytes)
{
    snprintf(text, bytes,
             "op %u: the pageable memory at %p could not be reached (unmapped, protected, or its file shrank); keep it until the stream has completed the copies",
             number, (void *)fault);
}

static void fail_timeline(struct leati_timeline *timeline, uint32_t number, uintptr_t fault)
{
    char message[256];

    describe_fault(number, fault, message, sizeof message);
    leati_timeline_failed(timeline, LEAT_ERROR_POINTER, message);
}

static void copy_piece(struct leati_copier *copier, const struct leati_piece *piece)
{
    uintptr_t fault;

    if (leati_staging_copy_guarded((void *)piece->dst, (const void *)piece->src, piece->bytes,
                                   LEATI_STORE_POLICY_CACHED, &fault) != piece->bytes)
        fail_timeline(copier->timeline, piece->number, fault);
}

/* The host function. The block that contains argument stays allocated until the stream has completed the function.
 */
static void run_parts(void *argument)
{
    const struct host_parts *parts = argument;
    struct leati_timeline *timeline = parts->timeline;
    uintptr_t fault = 0;
    size_t copied = copy_parts(parts->list, 0, parts->count, &fault);

    if (copied < parts->count)
        fail_timeline(timeline, parts->list[copied].number, fault);
    leati_timeline_release(timeline);
}

static leat_status launch_parts(struct batch *batch, struct host_parts *parts)
{
    struct leati_driver *driver = batch->stream->device->driver;
    leat_status status;

    leati_timeline_hold(batch->stream->timeline);
    parts->timeline = batch->stream->timeline;
    status = driver->ops->launch_host(driver, batch->stream->native, run_parts, parts);
    if (status != LEAT_OK)
        leati_timeline_release(batch->stream->timeline);
    return status;
}

/* ---- submitting to the stream ---- */

static leat_status launch_pieces(struct batch *batch, struct block *block)
{
    return leati_pieces_launch(batch->stream, batch->kernel, (uintptr_t)block->pieces + block->pack_shift,
                               block->piece_count, batch->ops.look.one_pass ? &block->copier : NULL);
}

static leat_status issue(struct batch *batch, struct block *block)
{
    struct leati_driver *driver = batch->stream->device->driver;
    struct leati_timeline *timeline = batch->stream->timeline;
    leat_status status;

    if (block->in.count && !batch->ops.look.early)
        LEATI_TRY(launch_parts(batch, &block->in));
    for (size_t i = 0; i < block->dma_count; i++)
        LEATI_TRY(driver->ops->copy(driver, batch->stream->native, block->dmas[i].dst, block->dmas[i].src,
                                    block->dmas[i].bytes));
    if (!batch->ops.look.one_pass) {
        if (block->piece_count)
            LEATI_TRY(launch_pieces(batch, block));
        return block->out.count ? launch_parts(batch, &block->out) : LEAT_OK;
    }
    /* One pass: the kernel accesses pageable memory directly, and reports a failure to the timeline. So a host
     * function follows the kernel, even if it has no parts, because it keeps the timeline alive until then. */
    leati_timeline_hold(timeline);
    block->copier = (struct leati_copier){.copy = copy_piece, .timeline = timeline};
    status = block->piece_count ? launch_pieces(batch, block) : LEAT_OK;
    if (status == LEAT_OK)
        status = launch_parts(batch, &block->out);
    leati_timeline_release(timeline);
    return status;
}

/* Returns the number of the op whose source contains the address fault. Earlier ops may be unreadable too: when
 * one thread fails, the others skip the parts that they have not begun. */
static uint32_t number_at(const struct host_parts *parts, uintptr_t fault)
{
    size_t i = 0;

    while (i + 1 < parts->count && fault - (uintptr_t)parts->list[i].src >= parts->list[i].bytes)
        i++;
    return parts->list[i].number;
}

/* Packs the sources if they may be read during the call. DECLINED: leat cannot read a source, and has asked no
 * driver about its address, so the caller must try again with asking. */
static leat_status pack_now(struct batch *batch, struct block *block, bool first)
{
    const struct host_parts *in = &block->in;
    struct leati_list list = {.copy = copy_parts, .list = in->list, .count = in->count};
    struct leati_stager *stager = batch->ops.look.stager;
    char message[256];
    uintptr_t fault = 0;
    size_t packed;

    if (!in->count || !batch->ops.look.early)
        return LEAT_OK;
    if (block->packed_bytes < TOGETHER_BYTES)
        packed = copy_parts(in->list, 0, in->count, &fault);
    else
        packed = leati_stager_copy_now(stager, &list, block->packed_bytes, TOGETHER_PART_BYTES, &fault);
    if (packed == in->count)
        return LEAT_OK;
    if (!first) { /* earlier rounds are already submitted, so the timeline reports the failure */
        fail_timeline(batch->stream->timeline, number_at(in, fault), fault);
        return LEAT_OK;
    }
    if (!batch->ops.asking)
        return LEATI_DECLINED;
    describe_fault(number_at(in, fault), fault, message, sizeof message);
    return leati_fail(LEAT_ERROR_POINTER, "%s", message);
}

static leat_status copy_alone(struct batch *batch, const struct leati_op *op)
{
    struct leati_plan plan;
    leat_status status =
        leati_plan_copy(&plan, batch->stream, (void *)op->dst, (const void *)op->src, op->bytes, false, false);

    if (status == LEAT_OK)
        status = leati_plan_submit(&plan, NULL);
    return status == LEAT_OK ? status : leati_fail_in(status, "op %u", op->number);
}

/* Copies ranges one by one, from first to end - 1: those that are ALONE, or with together all the others. */
static leat_status copy_each(struct batch *batch, size_t first, size_t end, bool together)
{
    for (size_t i = first; i < end; i++)
        if ((batch->ops.list[i].group != ALONE) == together)
            LEATI_TRY(copy_alone(batch, &batch->ops.list[i]));
    return LEAT_OK;
}

/* Describes a round that was submitted to the trace. */
static void trace_round(const struct batch *batch, size_t first, size_t end)
{
    leati_span_work_ends(&batch->stream->traced);
    leati_span_stream(&batch->stream->traced);
    for (size_t i = first; i < end; i++) {
        uint32_t group = batch->ops.list[i].group;

        if (group != ALONE)
            leati_ops_trace(&batch->ops, &batch->ops.list[i],
                            group == LEATI_DIRECTION_DEVICE ? LEATI_PROTOCOL_KERNEL
                            : group == LEATI_DIRECTION_HOST ? LEATI_PROTOCOL_HOST
                                                            : LEATI_PROTOCOL_STAGED);
    }
}

static leat_status copy_round(struct batch *batch, const struct block *needs, size_t first, size_t end)
{
    struct block *block = take_block(batch, needs);
    leat_status status;

    if (!block)
        return copy_each(batch, first, end, true);
    status = fill_block(batch, block, first, end);
    if (status == LEAT_OK)
        status = pack_now(batch, block, first == 0);
    if (status != LEAT_OK) {
        /* The block can be freed at once, because no submitted work uses it. */
        (void)leat_memory_free(block);
        return status;
    }
    if (leati_traced())
        leati_span_work_begins(&batch->stream->traced);
    status = issue(batch, block);
    if (leati_traced())
        trace_round(batch, first, end);
    if (block->out.count || batch->ops.look.one_pass)
        leati_stream_writes_host(batch->stream);
    leati_timeline_submitted(batch->stream->timeline);
    return leati_scratch_release(batch->stream, block, status);
}

/* Copies all groups except ALONE, in rounds. The packed memory of a round is freed in stream order, so this call
 * waits for the stream if the rounds would hold more than the stager's limit. */
static leat_status copy_together(struct batch *batch, const struct leati_access *use)
{
    struct leati_driver *driver = batch->stream->device->driver;
    struct leati_stager *stager = batch->ops.look.stager;
    size_t most = stager ? (size_t)stager->ring_bytes : 0, limit = stager ? stager->limit_bytes : SIZE_MAX,
           held = 0;

    for (size_t first = 0, end; first < batch->ops.count; first = end) {
        struct block needs;

        end = find_round(batch, first, most, &needs);
        if (held && held + needs.packed_bytes > limit) {
            LEATI_TRY(driver->ops->stream_synchronize(driver, batch->stream->native));
            held = 0;
        }
        held += needs.packed_bytes;
        LEATI_TRY(copy_round(batch, &needs, first, end));
        was_used(batch, use, first, end);
    }
    return LEAT_OK;
}

/* Makes all copies of a batch. DECLINED: nothing was copied; the caller must call again with asking. */
static leat_status copy_batch(struct batch *batch, leat_stream *stream, const leat_copy_op *given, size_t count,
                              bool asking)
{
    struct leati_access use;

    LEATI_TRY(plan(batch, stream, given, count, asking));
    LEATI_TRY(may_use(batch, &use));
    if (batch->counts[ALONE] < batch->ops.count)
        LEATI_TRY(copy_together(batch, &use));
    return batch->counts[ALONE] ? copy_each(batch, 0, batch->ops.count, false) : LEAT_OK;
}

/* ---- the public calls ---- */

static leat_status check(const char *what, leat_stream *stream, const leat_copy_op *ops, size_t count)
{
    LEATI_TRY(leati_check_permitted(what));
    LEATI_TRY(leati_check_stream(what, stream));
    return count ? leati_check_not_null(what, "ops", ops) : LEAT_OK;
}

leat_status leat_copy_batch(leat_stream *stream, const leat_copy_op *ops, size_t count)
{
    leat_status status = LEATI_DECLINED;

    LEATI_SPAN(LEATI_TRACE_COPY, "leat_copy_batch");
    LEATI_TRY(check("leat_copy_batch", stream, ops, count));
    if (!count)
        return LEAT_OK;
    for (int asking = 0; asking < 2 && status == LEATI_DECLINED; asking++) {
        struct batch batch;

        status = copy_batch(&batch, stream, ops, count, asking);
        leati_ops_end(&batch.ops);
    }
    return status == LEAT_OK
               ? status
               : leati_fail_in(status, "leat_copy_batch of %zu ops on %s", count, stream->device->name);
}

/* ---- the text of plans ---- */

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

static const char *why_alone(const struct batch *batch)
{
    const struct leati_ops *ops = &batch->ops;

    if (batch->why_alone)
        return batch->why_alone;
    return ops->pageable && !ops->look.stager && !ops->look.one_pass
               ? "they are large, another device's, or pageable where nothing can be staged"
               : "they are large, or another device's";
}

static leat_status explain_group(struct batch *batch, uint32_t group, struct leati_strbuf *text)
{
    struct leati_plan plan;

    leati_strbuf_add(text, "%zu range%s, %zu bytes\n", batch->counts[group], plural(batch->counts[group]),
                     batch->bytes[group]);
    if (group == ALONE) {
        leati_strbuf_add(
            text,
            "  protocol  planned one by one, as leat_copy()\n  why       %s\n  bound     the time that one copy takes; leat_copy_explain() has more\n",
            why_alone(batch));
        return LEAT_OK;
    }
    LEATI_TRY(plan_group(batch, group, &plan));
    leati_explain_plan(text, &plan, NULL);
    return LEAT_OK;
}

static leat_status explain(struct batch *batch, leat_stream *stream, const leat_copy_op *given, size_t count,
                           struct leati_strbuf *text)
{
    const struct leati_ops *ops = &batch->ops;

    LEATI_TRY(plan(batch, stream, given, count, true));
    leati_strbuf_add(text, "%zu op%s, %zu bytes, merged into %zu range%s\n", ops->submitted_count,
                     plural(ops->submitted_count), ops->bytes, ops->count, plural(ops->count));
    for (uint32_t group = 0; group < GROUPS; group++)
        if (batch->counts[group])
            LEATI_TRY(explain_group(batch, group, text));
    return LEAT_OK;
}

leat_status leat_copy_batch_explain(leat_stream *stream, const leat_copy_op *ops, size_t count, char *text,
                                    size_t text_bytes)
{
    static const char what[] = "leat_copy_batch_explain";
    struct leati_strbuf out = {.at = text, .left = text_bytes};
    struct batch batch;
    leat_status status;

    LEATI_TRY(check(what, stream, ops, count));
    LEATI_TRY(leati_explain_check(what, stream, text, text_bytes));
    text[0] = '\0';
    if (!count) {
        leati_strbuf_add(&out, "no ops: nothing to do\n");
        return LEAT_OK;
    }
    status = explain(&batch, stream, ops, count, &out);
    leati_ops_end(&batch.ops);
    return status == LEAT_OK ? status
                             : leati_fail_in(status, "%s of %zu ops on %s", what, count, stream->device->name);
}
