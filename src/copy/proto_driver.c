/*
 * proto_driver.c - makes copies by calls of the driver.
 *
 * If no side is pageable, these calls are asynchronous and the fastest protocol. The driver's call for pageable
 * memory may block the caller until the stream reaches the copy and the bytes are copied. So leat uses it on idle
 * streams, and if no other protocol is possible.
 */
#include "base/assert.h"
#include "base/quick.h"
#include "copy/costs.h"
#include "copy/plan.h"
#include "copy/region.h"

LEATI_HOT static bool supports(const struct leati_plan *plan, const char **why_not)
{
    const struct leati_transfer *transfer = &plan->transfer;

    if (transfer->shape == LEATI_SHAPE_BATCH || transfer->direction == LEATI_DIRECTION_DEVICE)
        return true;
    if (transfer->followed && plan->stager)
        *why_not = "nothing could stop it";
    else if (plan->one_pass || !plan->stager)
        return true;
    else if (transfer->shape == LEATI_SHAPE_REGION)
        *why_not = "a page that is gone would end the program";
    else if (!plan->idle)
        *why_not = "it might wait for the stream";
    return true;
}

LEATI_HOT static uint64_t cost_ns(const struct leati_plan *plan)
{
    const struct leati_transfer *transfer = &plan->transfer;
    const leat_device *device = transfer->stream->device;

    if (transfer->shape == LEATI_SHAPE_BATCH)
        return leati_cost_ranges(transfer->count, transfer->bytes);
    if (transfer->direction != LEATI_DIRECTION_DEVICE)
        return leati_cost_pageable(device, transfer->direction == LEATI_DIRECTION_OUT, transfer->bytes);
    if (transfer->shape == LEATI_SHAPE_REGION)
        return leati_region_cost(device, LEATI_PROTOCOL_DRIVER, transfer->to.location.ptr,
                                 transfer->from.location.ptr, &transfer->region);
    return leati_cost_link(transfer->bytes, 1);
}

LEATI_HOT static leat_status call(const struct leati_transfer *transfer)
{
    struct leati_driver *driver = transfer->stream->device->driver;

    if (transfer->shape == LEATI_SHAPE_REGION)
        return leati_region_move(transfer->stream, LEATI_PROTOCOL_DRIVER, transfer->to.location,
                                 transfer->from.location, &transfer->region);
    return driver->ops->copy(driver, transfer->stream->native, transfer->to.location, transfer->from.location,
                             transfer->bytes);
}

/* Submits a copy with a pageable side. Does not take the stream's lock, because the driver may wait for the
 * stream, and other threads must be able to submit work meanwhile. */
LEATI_HOT static leat_status submit_pageable(struct leati_plan *plan)
{
    const struct leati_transfer *transfer = &plan->transfer;
    bool out = transfer->direction == LEATI_DIRECTION_OUT;
    uint64_t start;
    leat_status status;

    leati_assert(transfer->shape == LEATI_SHAPE_RUN || transfer->shape == LEATI_SHAPE_REGION);
    /* The driver's call crashes if a page in the middle is not mapped, so check all pages. If a page is missing,
     * decline, because leat's threads can report its address. If another fault handler is installed, leat cannot
     * check all pages here, and the planner has checked the first and the last byte. */
    if (plan->stager && plan->candidates[LEATI_PROTOCOL_DRIVER].cost_ns < LEATI_COST_LAST &&
        leati_plan_is_guarded(plan) && !leati_transfer_is_usable(transfer))
        return LEATI_DECLINED;
    start = leati_costs_start(transfer->stream->device, transfer->bytes);
    status = call(transfer);
    if (status == LEAT_OK && plan->idle && transfer->shape == LEATI_SHAPE_RUN)
        leati_costs_saw(transfer->stream->device, out ? LEATI_RATE_DRIVER_OUT : LEATI_RATE_DRIVER_IN,
                        transfer->bytes, start);
    if (leati_is_pageable(&transfer->to))
        leati_stream_writes_host(transfer->stream);
    if (plan->first)
        leati_stager_prepare(transfer->stream->device);
    return status;
}

LEATI_HOT static leat_status submit(struct leati_plan *plan, struct leati_job **job)
{
    leat_stream *stream = plan->transfer.stream;
    leat_status status;

    (void)job;
    if (plan->transfer.direction != LEATI_DIRECTION_DEVICE)
        return submit_pageable(plan);
    leati_stream_piece_begins(stream);
    status = call(&plan->transfer);
    leati_stream_piece_ends(stream);
    return status;
}

static void explain(const struct leati_plan *plan, struct leati_strbuf *text)
{
    const struct leati_transfer *transfer = &plan->transfer;

    if (transfer->shape == LEATI_SHAPE_BATCH)
        leati_strbuf_add(text, "one by one, each as leat_copy()");
    else if (transfer->shape == LEATI_SHAPE_REGION)
        leati_region_explain(text, transfer->stream, LEATI_PROTOCOL_DRIVER, &transfer->to.location,
                             &transfer->from.location, &transfer->region);
    else if (transfer->direction == LEATI_DIRECTION_DEVICE)
        leati_strbuf_add(text, "its asynchronous copy");
    else
        leati_strbuf_add(text, "its copy for pageable memory");
}

const struct leati_protocol leati_proto_driver = {
    .name = "driver",
    .shapes = LEATI_BIT(LEATI_SHAPE_RUN) | LEATI_BIT(LEATI_SHAPE_REGION) | LEATI_BIT(LEATI_SHAPE_BATCH),
    .directions = LEATI_ALL_DIRECTIONS,
    .is_for = "drivers know no layouts",
    .supports = supports,
    .cost_ns = cost_ns,
    .submit = submit,
    .explain = explain,
};
