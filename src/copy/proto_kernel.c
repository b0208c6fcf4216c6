/*
 * proto_kernel.c - makes copies by one kernel that can access both sides: regions with narrow rows, layouts,
 * batches.
 */
#include "base/quick.h"
#include "copy/costs.h"
#include "copy/layout.h"
#include "copy/plan.h"

LEATI_HOT static bool supports(const struct leati_plan *plan, const char **why_not)
{
    const struct leati_transfer *transfer = &plan->transfer;

    switch (transfer->shape) {
    case LEATI_SHAPE_RUN:
    case LEATI_SHAPE_FILE:
        break;
    case LEATI_SHAPE_REGION:
        (void)leati_region_suits_kernel(transfer->stream, &transfer->to.location, &transfer->from.location,
                                        why_not);
        break;
    case LEATI_SHAPE_LAYOUT:
        if (!plan->one_pass && transfer->layout->on_peer)
            *why_not = "a side is another device's memory";
        else if (!plan->one_pass && transfer->direction != LEATI_DIRECTION_DEVICE)
            *why_not = "a side is pageable";
        break;
    case LEATI_SHAPE_BATCH:
        if (transfer->direction != LEATI_DIRECTION_DEVICE)
            *why_not = "a side is pageable";
        break;
    }
    return !*why_not;
}

static uint64_t cost_ns(const struct leati_plan *plan)
{
    const struct leati_transfer *transfer = &plan->transfer;
    const leat_device *device = transfer->stream->device;

    if (transfer->shape == LEATI_SHAPE_BATCH)
        return leati_cost_together(device, transfer->bytes);
    return leati_cost_kernel(device, transfer->bytes);
}

static leat_status submit(struct leati_plan *plan, struct leati_job **job)
{
    const struct leati_transfer *transfer = &plan->transfer;
    const struct leati_location *to = &transfer->to.location, *from = &transfer->from.location;

    (void)job;
    if (transfer->shape == LEATI_SHAPE_LAYOUT)
        return leati_layout_run_kernel(plan);
    if (!leati_region_has_kernel(transfer->stream->device, to, from, &transfer->region))
        return LEATI_DECLINED;
    return leati_region_move(transfer->stream, LEATI_PROTOCOL_KERNEL, *to, *from, &transfer->region);
}

static void explain(const struct leati_plan *plan, struct leati_strbuf *text)
{
    const struct leati_transfer *transfer = &plan->transfer;

    if (transfer->shape == LEATI_SHAPE_REGION)
        leati_region_explain(text, transfer->stream, LEATI_PROTOCOL_KERNEL, &transfer->to.location,
                             &transfer->from.location, &transfer->region);
    else if (transfer->shape == LEATI_SHAPE_BATCH)
        leati_strbuf_add(text, plan->one_pass ? "one that gathers and scatters, and reaches pageable memory too"
                                              : "one that gathers and scatters over mapped memory");
    else if (plan->one_pass)
        leati_strbuf_add(text, "the device's threads, in one pass");
    else
        leati_strbuf_add(text, "one, over mapped memory");
}

const struct leati_protocol leati_proto_kernel = {
    .name = "kernel",
    .shapes = LEATI_BIT(LEATI_SHAPE_REGION) | LEATI_BIT(LEATI_SHAPE_LAYOUT) | LEATI_BIT(LEATI_SHAPE_BATCH),
    .directions = LEATI_ALL_DIRECTIONS,
    .is_for = "it is for regions, layouts and batches",
    .supports = supports,
    .cost_ns = cost_ns,
    .submit = submit,
    .explain = explain,
};
