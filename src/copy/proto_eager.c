/*
 * proto_eager.c - makes short copies of pageable memory, and short reads of cached files, on the caller's thread.
 *
 * The calling thread copies the bytes between pageable and pinned memory, and DMAs copy them between pinned memory
 * and the device. So no worker has to wake up. When the call returns, a pageable source has been read, or a
 * pageable destination is complete.
 */
#include "base/assert.h"
#include "base/quick.h"
#include "copy/costs.h"
#include "copy/eager.h"
#include "copy/plan.h"
#include "copy/region.h"

LEATI_HOT static bool supports(const struct leati_plan *plan, const char **why_not)
{
    const struct leati_transfer *transfer = &plan->transfer;
    bool region = transfer->shape == LEATI_SHAPE_REGION, file = transfer->shape == LEATI_SHAPE_FILE;
    bool in = transfer->direction == LEATI_DIRECTION_IN;

    if (!plan->stager || plan->one_pass)
        *why_not = plan->unstaged;
    else if (file && !in)
        *why_not = "leat's threads write files";
    else if (file && transfer->bytes > LEATI_EAGER_MOST_BYTES)
        *why_not = "more than 2 MiB";
    else if (file && transfer->bytes + transfer->file.lead > plan->stager->ring_bytes)
        *why_not = "more than a ring has";
    else if (file && !transfer->file.at_hand)
        *why_not = "the caller would have to wait for the disk, or for several ranges";
    else if (file && transfer->followed)
        *why_not = "nothing could stop it";
    else if (region && (!in || transfer->bytes > LEATI_EAGER_SHORT_BYTES))
        *why_not = in ? "more than 64 KiB" : "the destination has gaps";
    else if (transfer->followed && (region || transfer->bytes > LEATI_EAGER_SHORT_BYTES))
        *why_not = "nothing could stop it";
    else if (transfer->bytes > LEATI_EAGER_MOST_BYTES)
        *why_not = "more than 2 MiB";
    else if (in && !plan->early)
        *why_not = "earlier work of the stream may write the source";
    else if (!in && !plan->idle)
        *why_not = "the stream is busy";
    return !*why_not;
}

LEATI_HOT static uint64_t cost_ns(const struct leati_plan *plan)
{
    leati_assert(plan->stager && !plan->one_pass);
    return leati_cost_eager(plan->transfer.stream->device, plan->stager,
                            plan->transfer.direction == LEATI_DIRECTION_OUT, plan->transfer.bytes);
}

/* Copies the rows of a region, or a range of a file, with the staging layer, as an eager copy. */
static leat_status submit_staged(struct leati_plan *plan)
{
    leat_status status = leati_stage_transfer(plan, true, NULL);

    if (status != LEATI_DECLINED)
        leati_timeline_submitted(plan->transfer.stream->timeline);
    return status;
}

LEATI_HOT static leat_status submit(struct leati_plan *plan, struct leati_job **job)
{
    const struct leati_transfer *transfer = &plan->transfer;
    bool out = transfer->direction == LEATI_DIRECTION_OUT;
    uint64_t start;
    leat_status status;

    (void)job;
    if (transfer->shape == LEATI_SHAPE_REGION || transfer->shape == LEATI_SHAPE_FILE)
        return submit_staged(plan);
    leati_assert(transfer->bytes <= LEATI_EAGER_MOST_BYTES && (out ? plan->idle : plan->early));
    start = leati_costs_start(transfer->stream->device, transfer->bytes);
    status = (out ? leati_eager_out : leati_eager_in)(plan->stager, transfer->stream, &transfer->to,
                                                      &transfer->from, transfer->bytes);
    if (status == LEAT_OK)
        leati_costs_saw(transfer->stream->device, out ? LEATI_RATE_EAGER_OUT : LEATI_RATE_EAGER_IN,
                        transfer->bytes, start);
    return status;
}

static void explain(const struct leati_plan *plan, struct leati_strbuf *text)
{
    bool helped = plan->transfer.bytes >= LEATI_HELPED_BYTES;

    if (plan->transfer.shape == LEATI_SHAPE_REGION)
        leati_stage_explain_region(plan, "the caller", text);
    else if (plan->transfer.direction == LEATI_DIRECTION_IN)
        leati_strbuf_add(text, "%sby the caller%s into pinned memory, and by DMA from there",
                         plan->transfer.shape == LEATI_SHAPE_FILE ? "read " : "",
                         helped ? ", whom leat's threads help," : "");
    else
        leati_strbuf_add(text, "by DMA into pinned memory, and by the caller%s from there",
                         helped ? ", whom leat's threads help," : ", who waits for it,");
}

const struct leati_protocol leati_proto_eager = {
    .name = "eager",
    .shapes = LEATI_BIT(LEATI_SHAPE_RUN) | LEATI_BIT(LEATI_SHAPE_REGION) | LEATI_BIT(LEATI_SHAPE_FILE),
    .directions = LEATI_BIT(LEATI_DIRECTION_IN) | LEATI_BIT(LEATI_DIRECTION_OUT),
    .is_for = "it is for short copies between pageable memory and a device",
    .supports = supports,
    .cost_ns = cost_ns,
    .submit = submit,
    .explain = explain,
};
