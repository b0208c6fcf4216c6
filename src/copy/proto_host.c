/*
 * proto_host.c - makes copies from host memory to host memory, in one pass, by leat's threads.
 *
 * If host threads can access device memory, this protocol also makes copies with a ticket to and from device
 * memory. Without worker threads, a host function of the stream copies layouts and batches.
 */
#include "base/quick.h"
#include "copy/costs.h"
#include "copy/layout.h"
#include "copy/plan.h"

LEATI_HOT static bool supports(const struct leati_plan *plan, const char **why_not)
{
    const struct leati_transfer *transfer = &plan->transfer;

    if (transfer->shape == LEATI_SHAPE_LAYOUT) {
        if (plan->one_pass)
            *why_not = "the device's kernels do it";
        else if (!transfer->layout->on_host)
            *why_not = "a side is not in host memory";
    } else if (transfer->shape == LEATI_SHAPE_BATCH) {
        if (transfer->direction != LEATI_DIRECTION_HOST)
            *why_not = "a side is not in host memory";
    } else if (transfer->direction == LEATI_DIRECTION_DEVICE) {
        *why_not = "no side is pageable";
    } else if (!plan->stager) {
        *why_not = plan->unstaged;
    } else if (transfer->direction != LEATI_DIRECTION_HOST && !plan->one_pass) {
        *why_not = "a side is not in host memory";
    }
    return !*why_not;
}

static uint64_t cost_ns(const struct leati_plan *plan)
{
    if (plan->transfer.shape == LEATI_SHAPE_BATCH)
        return leati_cost_together(plan->transfer.stream->device, plan->transfer.bytes);
    return leati_cost_host(plan->stager, plan->transfer.bytes);
}

static leat_status submit(struct leati_plan *plan, struct leati_job **job)
{
    return plan->transfer.shape == LEATI_SHAPE_LAYOUT ? leati_layout_run_host(plan)
                                                      : leati_stage_transfer(plan, false, job);
}

/* As leati_job_is_read_here() (staging/job.h). */
static bool is_read_here(const struct leati_plan *plan)
{
    return plan->transfer.shape == LEATI_SHAPE_FILE && plan->transfer.file.at_hand && plan->at_once;
}

static void explain(const struct leati_plan *plan, struct leati_strbuf *text)
{
    if (plan->transfer.shape == LEATI_SHAPE_BATCH || !plan->stager) {
        leati_strbuf_add(text, "by a host function of the stream");
        return;
    }
    leati_strbuf_add(text, is_read_here(plan) ? "at once, by the calling thread and leat's threads, in one pass; "
                                              : "by leat's threads, in one pass; ");
    leati_explain_threads(plan, text);
}

const struct leati_protocol leati_proto_host = {
    .name = "host",
    .shapes = LEATI_BIT(LEATI_SHAPE_RUN) | LEATI_BIT(LEATI_SHAPE_REGION) | LEATI_BIT(LEATI_SHAPE_LAYOUT) |
              LEATI_BIT(LEATI_SHAPE_FILE) | LEATI_BIT(LEATI_SHAPE_BATCH),
    .directions = LEATI_ALL_DIRECTIONS,
    .is_for = "",
    .supports = supports,
    .cost_ns = cost_ns,
    .submit = submit,
    .explain = explain,
};
