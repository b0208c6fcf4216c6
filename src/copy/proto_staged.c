/*
 * proto_staged.c - makes copies of pageable memory by leat's threads, through a ring of pinned memory.
 *
 * The call returns at once. After that, the stream and the worker threads wait for each other (staging/job.h).
 * Layouts and batches use no ring: layout_run.c and batch.c pack them into pinned memory, or unpack them from it.
 */
#include "base/assert.h"
#include "base/quick.h"
#include "copy/costs.h"
#include "copy/layout.h"
#include "copy/plan.h"

static bool supports_layout(const struct leati_plan *plan, const char **why_not)
{
    const struct leati_layout_copy *layout = plan->transfer.layout;

    if (plan->one_pass)
        *why_not = "the device reaches both sides";
    else if (layout->on_host)
        *why_not = "both sides are in host memory";
    else if (plan->transfer.direction == LEATI_DIRECTION_DEVICE && !layout->on_peer)
        *why_not = "the device reaches both sides";
    return !*why_not;
}

LEATI_HOT static bool supports(const struct leati_plan *plan, const char **why_not)
{
    const struct leati_transfer *transfer = &plan->transfer;

    if (transfer->shape == LEATI_SHAPE_LAYOUT)
        return supports_layout(plan, why_not);
    if (!plan->stager)
        *why_not = plan->unstaged;
    else if (transfer->direction == LEATI_DIRECTION_HOST)
        *why_not = "both sides are in host memory";
    else if (transfer->direction == LEATI_DIRECTION_DEVICE)
        *why_not = "no side is pageable";
    else if (plan->one_pass)
        *why_not = "the device reaches pageable memory by itself";
    /* Chunks are whole rows, and several chunks must fit into a ring. */
    else if (transfer->shape == LEATI_SHAPE_REGION && transfer->region.width_bytes > plan->stager->ring_bytes / 8)
        *why_not = "a row fills too much of a ring";
    return !*why_not;
}

LEATI_HOT static uint64_t cost_ns(const struct leati_plan *plan)
{
    const struct leati_transfer *transfer = &plan->transfer;

    if (transfer->shape == LEATI_SHAPE_BATCH)
        return leati_cost_together(transfer->stream->device, transfer->bytes);
    return leati_cost_staged(transfer->stream->device, plan->stager, transfer->direction == LEATI_DIRECTION_OUT,
                             transfer->bytes);
}

/* The copy of a region between the ring, which has the rows without gaps, and the device. */
struct ring_side {
    struct leati_location to, from;
    leat_copy_region region;
    enum leati_protocol_id protocol;
};

static struct ring_side ring_side_of(const struct leati_plan *plan)
{
    const struct leati_transfer *transfer = &plan->transfer;
    struct leati_location ring = {.kind = LEAT_KIND_PINNED}; /* NULL stands for any place in the ring */
    struct ring_side side = {
        .to = transfer->to.location, .from = transfer->from.location, .region = transfer->region};
    size_t slice_bytes = side.region.depth > 1 ? side.region.height * side.region.width_bytes : 0;

    leati_assert(transfer->shape == LEATI_SHAPE_REGION);
    if (transfer->direction == LEATI_DIRECTION_IN) {
        side.from = ring;
        side.region.src_pitch_bytes = side.region.width_bytes;
        side.region.src_slice_bytes = slice_bytes;
    } else {
        side.to = ring;
        side.region.dst_pitch_bytes = side.region.width_bytes;
        side.region.dst_slice_bytes = slice_bytes;
    }
    side.protocol = leati_region_choose(transfer->stream, plan->forced, &side.to, &side.from, &side.region);
    return side;
}

leat_status leati_stage_transfer(struct leati_plan *plan, bool eager, struct leati_job **job)
{
    const struct leati_transfer *transfer = &plan->transfer;
    bool region = transfer->shape == LEATI_SHAPE_REGION, host = plan->protocol == LEATI_PROTOCOL_HOST;
    struct leati_stage_request request = {.direction = host ? LEATI_DIRECTION_HOST : transfer->direction,
                                          .early = host ? plan->at_once : plan->early,
                                          .eager = eager,
                                          .deadline_ns = transfer->deadline_ns};
    struct leati_staged_region staged;

    leati_assert(plan->stager && (!eager || plan->protocol == LEATI_PROTOCOL_EAGER));
    if (transfer->shape == LEATI_SHAPE_FILE) {
        request.storage = transfer->file;
        request.scatter = transfer->scatter;
    }
    if (region) {
        staged.region = transfer->region;
        staged.protocol = host ? LEATI_PROTOCOL_HOST : ring_side_of(plan).protocol;
        request.region = &staged;
    }
    return leati_stage_start(plan->stager, transfer->stream, &transfer->to, &transfer->from, transfer->bytes,
                             &request, job);
}

static leat_status submit(struct leati_plan *plan, struct leati_job **job)
{
    if (plan->transfer.shape == LEATI_SHAPE_LAYOUT)
        return leati_layout_run_staged(plan);
    return leati_stage_transfer(plan, false, job);
}

void leati_stage_explain_region(const struct leati_plan *plan, const char *by, struct leati_strbuf *text)
{
    struct ring_side side = ring_side_of(plan);

    leati_strbuf_add(text,
                     plan->transfer.direction == LEATI_DIRECTION_IN
                         ? "rows packed into a ring of pinned memory by %s, from there by "
                         : "rows unpacked from a ring of pinned memory by %s, to there by ",
                     by);
    leati_region_explain(text, plan->transfer.stream, side.protocol, &side.to, &side.from, &side.region);
}

static void explain_batch(const struct leati_plan *plan, struct leati_strbuf *text)
{
    if (plan->transfer.direction == LEATI_DIRECTION_OUT)
        leati_strbuf_add(text,
                         "gathered into pinned memory by DMA or by one kernel, from there by a host function of the stream");
    else if (plan->early)
        leati_strbuf_add(text,
                         "packed into pinned memory by the caller and leat's threads, from there by DMA or by one kernel that scatters");
    else
        leati_strbuf_add(text,
                         "packed into pinned memory by a host function of the stream, from there by DMA or by one kernel that scatters");
}

static void explain_run(const struct leati_plan *plan, struct leati_strbuf *text)
{
    const struct leati_stager *stager = plan->stager;
    bool of_file = plan->transfer.shape == LEATI_SHAPE_FILE;
    size_t lead = of_file ? plan->transfer.file.lead : 0;
    size_t ring_bytes = leati_staging_ring_bytes(plan->transfer.bytes + lead, (size_t)stager->ring_bytes);
    struct leati_cut cut = {.bytes = plan->transfer.bytes,
                            .ring_bytes = ring_bytes,
                            .in_blocks = of_file,
                            .lead_bytes = lead,
                            .out = plan->transfer.direction == LEATI_DIRECTION_OUT,
                            .threads = stager->share};
    uint32_t chunks = leati_staging_cut(&cut, NULL);

    leati_strbuf_add(text, "in %u chunk%s through a ring of ", chunks, chunks == 1 ? "" : "s");
    leati_strbuf_add_bytes(text, ring_bytes);
    leati_strbuf_add(text, " of pinned memory; ");
    leati_explain_threads(plan, text);
}

static void explain(const struct leati_plan *plan, struct leati_strbuf *text)
{
    switch (plan->transfer.shape) {
    case LEATI_SHAPE_RUN:
    case LEATI_SHAPE_FILE:
        explain_run(plan, text);
        break;
    case LEATI_SHAPE_REGION:
        leati_stage_explain_region(plan, "leat's threads", text);
        break;
    case LEATI_SHAPE_LAYOUT:
        leati_layout_explain_staged(plan, text);
        break;
    case LEATI_SHAPE_BATCH:
        explain_batch(plan, text);
        break;
    }
}

const struct leati_protocol leati_proto_staged = {
    .name = "staged",
    .shapes = LEATI_BIT(LEATI_SHAPE_RUN) | LEATI_BIT(LEATI_SHAPE_REGION) | LEATI_BIT(LEATI_SHAPE_LAYOUT) |
              LEATI_BIT(LEATI_SHAPE_FILE) | LEATI_BIT(LEATI_SHAPE_BATCH),
    .directions = LEATI_ALL_DIRECTIONS,
    .is_for = "",
    .supports = supports,
    .cost_ns = cost_ns,
    .submit = submit,
    .explain = explain,
};
