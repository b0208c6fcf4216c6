/* explain.c - describes the plan of a copy as text, for all shapes of copies. */
#include "copy/eager.h"
#include "copy/plan.h"

#include <leat/copy.h>

#include <stdio.h>
#include <string.h>

static void add_endpoint(struct leati_strbuf *text, const struct leati_transfer *transfer,
                         const struct leati_endpoint *endpoint)
{
    if (transfer->shape == LEATI_SHAPE_FILE &&
        endpoint == (transfer->file.write ? &transfer->to : &transfer->from))
        leati_strbuf_add(text, "a file");
    else if (endpoint->location.kind == LEAT_KIND_DEVICE)
        leati_strbuf_add(text, "%s", endpoint->device->name);
    else
        leati_strbuf_add(text, "%s memory", leat_kind_name(endpoint->location.kind));
}

void leati_explain_transfer(struct leati_strbuf *text, const struct leati_transfer *transfer)
{
    leati_strbuf_add_bytes(text, transfer->bytes);
    leati_strbuf_add(text, " from ");
    add_endpoint(text, transfer, &transfer->from);
    leati_strbuf_add(text, " to ");
    add_endpoint(text, transfer, &transfer->to);
    leati_strbuf_add(text, "\n");
}

void leati_explain_threads(const struct leati_plan *plan, struct leati_strbuf *text)
{
    const struct leati_stager *stager = plan->stager;
    bool host = plan->protocol == LEATI_PROTOCOL_HOST;
    enum leati_store_policy policy;

    if (plan->transfer.shape == LEATI_SHAPE_FILE && !plan->transfer.file.in_order) {
        leati_strbuf_add(text, "at most %u of %u threads for files",
                         leati_stager_share(stager, &plan->transfer.file, plan->transfer.bytes),
                         atomic_load_explicit(&stager->file_threads, memory_order_relaxed));
        return;
    }
    policy =
        leati_stager_policy(stager, host ? LEATI_DIRECTION_HOST : plan->transfer.direction, plan->transfer.bytes);

    leati_strbuf_add(text, "at most %u of %u threads, %s stores", stager->share, stager->threads,
                     leati_store_policy_name(policy));
    if (policy == LEATI_STORE_POLICY_STREAMING)
        leati_strbuf_add(text, " (%s)", leati_staging_streaming_by());
}

/* ---- why a protocol was chosen ---- */

static const char *why_file_in(const struct leati_plan *plan)
{
    if (plan->idle)
        return "the source is a file, and the stream is idle: it is read at once";
    if (plan->early)
        return "the source is a file, and nothing before it on the stream writes host memory or files: it is read at once";
    return "the source is a file, and earlier work of the stream may write it: it is read when the stream gets there";
}

static const char *why_in(const struct leati_plan *plan)
{
    if (plan->idle)
        return "the source is pageable, and the stream is idle: it is read at once";
    if (plan->early)
        return "the source is pageable, and nothing before it on the stream writes host memory: it is read at once";
    return "the source is pageable, and earlier work of the stream may write it: it is read when the stream gets there";
}

static const char *why_of(const struct leati_plan *plan)
{
    const struct leati_transfer *transfer = &plan->transfer;

    if (transfer->shape == LEATI_SHAPE_FILE && (plan->one_pass || transfer->direction == LEATI_DIRECTION_HOST))
        return "leat's threads reach the memory, so it is read or written in one pass";
    if (plan->one_pass && transfer->followed)
        return "somebody follows the copy, which threads can stop";
    if (plan->one_pass && transfer->direction != LEATI_DIRECTION_DEVICE)
        return "the device reads and writes pageable memory itself";
    switch (transfer->direction) {
    case LEATI_DIRECTION_IN:
        return !plan->stager                         ? plan->unstaged
               : transfer->shape == LEATI_SHAPE_FILE ? why_file_in(plan)
                                                     : why_in(plan);
    case LEATI_DIRECTION_OUT:
        return !plan->stager ? plan->unstaged
               : plan->idle  ? "the destination is pageable, and the stream is idle"
                             : "the destination is pageable";
    case LEATI_DIRECTION_HOST:
        return plan->stager ? "both sides are in host memory" : plan->unstaged;
    default:
        return transfer->shape == LEATI_SHAPE_BATCH ? "the ranges are small, and the device reaches both sides"
                                                    : "the device reaches both sides";
    }
}

static void add_why(struct leati_strbuf *text, const struct leati_plan *plan, const char *why)
{
    unsigned supported = 0;

    for (enum leati_protocol_id id = 0; id < LEATI_PROTOCOLS; id++)
        supported += plan->candidates[id].cost_ns < LEATI_COST_LAST;
    leati_strbuf_add(text, "\n  why       %s", why ? why : why_of(plan));
    if (plan->protocol == plan->forced)
        leati_strbuf_add(text, "; LEAT_COPY_PROTOCOL asks for this protocol");
    else if (supported > 1)
        leati_strbuf_add(text, "; this protocol should take the least time");
}

/* ---- the other protocols ---- */

static void add_time(struct leati_strbuf *text, uint64_t ns)
{
    if (ns < 100000)
        leati_strbuf_add(text, "%.1f us", (double)ns * 1e-3);
    else
        leati_strbuf_add(text, "%.3g ms", (double)ns * 1e-6);
}

/* Returns true if this protocol was already listed together with an earlier protocol, because the same reason
 * excludes both. */
static bool is_named(const struct leati_plan *plan, enum leati_protocol_id id)
{
    const struct leati_candidate *candidates = plan->candidates;

    for (enum leati_protocol_id before = 0; before < id; before++)
        if (before != plan->protocol && candidates[before].cost_ns == LEATI_COST_NONE &&
            !strcmp(candidates[before].why_not, candidates[id].why_not))
            return true;
    return false;
}

/* Lists an unsupported protocol and its reason, together with all later protocols that the same reason excludes.
 */
static void add_unsupported(struct leati_strbuf *text, const struct leati_plan *plan, enum leati_protocol_id id)
{
    const char *why_not = plan->candidates[id].why_not;

    leati_strbuf_add(text, "%s", leati_protocols[id]->name);
    for (enum leati_protocol_id next = id + 1; next < LEATI_PROTOCOLS; next++)
        if (next != plan->protocol && plan->candidates[next].cost_ns == LEATI_COST_NONE &&
            !strcmp(plan->candidates[next].why_not, why_not))
            leati_strbuf_add(text, " and %s", leati_protocols[next]->name);
    leati_strbuf_add(text, ": %s", why_not);
}

static void add_others(struct leati_strbuf *text, const struct leati_plan *plan)
{
    const char *separator = "";

    leati_strbuf_add(text, "\n  others    ");
    for (enum leati_protocol_id id = 0; id < LEATI_PROTOCOLS; id++) {
        const struct leati_candidate *candidate = &plan->candidates[id];

        if (id == plan->protocol || (candidate->cost_ns == LEATI_COST_NONE && is_named(plan, id)))
            continue;
        leati_strbuf_add(text, "%s", separator);
        separator = ", ";
        if (candidate->cost_ns == LEATI_COST_NONE) {
            add_unsupported(text, plan, id);
        } else if (candidate->cost_ns == LEATI_COST_LAST) {
            leati_strbuf_add(text, "%s if no other can: %s", leati_protocols[id]->name, candidate->why_not);
        } else {
            leati_strbuf_add(text, "%s ", leati_protocols[id]->name);
            add_time(text, candidate->cost_ns);
        }
    }
}

/* ---- the bound ---- */

static const char *bound_on_host(const struct leati_transfer *transfer)
{
    return transfer->direction == LEATI_DIRECTION_HOST ? "the host's memory"
                                                       : "the host's memory, read and written";
}

static bool is_on_device(const struct leati_endpoint *endpoint)
{
    return endpoint->location.kind == LEAT_KIND_DEVICE || endpoint->location.kind == LEAT_KIND_MANAGED;
}

static const char *bound_of(const struct leati_plan *plan)
{
    const struct leati_transfer *transfer = &plan->transfer;
    const struct leati_endpoint *to = &transfer->to, *from = &transfer->from;

    if (transfer->shape == LEATI_SHAPE_BATCH)
        return plan->protocol == LEATI_PROTOCOL_DRIVER
                   ? "the time that one copy takes; leat_copy_explain() has more"
               : plan->protocol == LEATI_PROTOCOL_KERNEL
                   ? "the link between host and device, or the device's memory where both sides are there"
                   : "the host's memory, or one thread that copies where the stream has to get there first";
    if (transfer->direction == LEATI_DIRECTION_HOST || plan->one_pass ||
        transfer->stream->device->driver->can->reaches_pageable) {
        if (transfer->direction == LEATI_DIRECTION_HOST || plan->protocol == LEATI_PROTOCOL_DRIVER ||
            plan->protocol == LEATI_PROTOCOL_KERNEL)
            return bound_on_host(transfer);
    }
    if (is_on_device(to) && is_on_device(from))
        return to->device == from->device ? "the device's memory, read and written"
                                          : "the link between the two devices";
    if (plan->protocol == LEATI_PROTOCOL_EAGER && transfer->bytes <= LEATI_EAGER_SHORT_BYTES)
        return "the latency of one DMA";
    return transfer->shape == LEATI_SHAPE_REGION ? "the link between host and device, and where rows are narrow the 32 bytes in which memory is read and written"
                                                 : "the link between host and device";
}

static void add_bound(struct leati_strbuf *text, const struct leati_plan *plan)
{
    const struct leati_staging_choice *choice = plan->stager ? &plan->stager->choice : NULL;
    enum leati_direction direction = plan->transfer.direction;

    leati_strbuf_add(text, "\n  bound     %s", bound_of(plan));
    if (plan->protocol == LEATI_PROTOCOL_STAGED && choice && choice->probed && direction < LEATI_DIRECTION_HOST) {
        const double *gbps = direction == LEATI_DIRECTION_OUT ? choice->out_gbps : choice->in_gbps;

        leati_strbuf_add(text, "; the threads move %.1f GB/s (measured at the first use)",
                         gbps[leati_stager_policy(plan->stager, direction, plan->transfer.bytes)]);
    }
    leati_strbuf_add(text, "\n");
}

void leati_explain_plan(struct leati_strbuf *text, const struct leati_plan *plan, const char *why)
{
    const struct leati_protocol *protocol = leati_protocols[plan->protocol];

    leati_strbuf_add(text, "  protocol  %s: ", protocol->name);
    protocol->explain(plan, text);
    add_why(text, plan, why);
    add_others(text, plan);
    add_bound(text, plan);
}

/* ---- the public call ---- */

/* Creates the device's stager. The first copies of a process may have to do without a stager, but the text shall
 * describe later copies. */
static void get_ready(leat_device *device)
{
    struct leati_stager *stager;

    if (device->driver->can->dma_engines)
        (void)LEATI_QUIETLY(leati_stager_get(device, &stager));
}

leat_status leati_explain_check(const char *what, leat_stream *stream, const char *text, size_t text_bytes)
{
    LEATI_TRY(leati_check_permitted(what));
    LEATI_TRY(leati_check_stream(what, stream));
    LEATI_TRY(leati_check_not_null(what, "text", text));
    if (!text_bytes)
        return leati_fail(LEAT_ERROR_INVALID, "%s: text_bytes is 0; use at least 1024", what);
    get_ready(stream->device);
    return LEAT_OK;
}

static leat_status explain(leat_stream *stream, void *dst, const void *src, size_t bytes,
                           struct leati_strbuf *text)
{
    struct leati_plan plan;

    /* Plan with quick, as leat_copy() does, so that both make the same plan. */
    LEATI_TRY(leati_plan_copy(&plan, stream, dst, src, bytes, false, true));
    LEATI_TRY(leati_plan_choose(&plan));
    LEATI_TRY(leati_transfer_check_mapped(&plan.transfer));
    leati_explain_transfer(text, &plan.transfer);
    leati_explain_plan(text, &plan, NULL);
    return LEAT_OK;
}

leat_status leat_copy_explain(leat_stream *stream, void *dst, const void *src, size_t bytes, char *text,
                              size_t text_bytes)
{
    struct leati_strbuf out = {.at = text, .left = text_bytes};
    leat_status status;

    LEATI_TRY(leati_explain_check("leat_copy_explain", stream, text, text_bytes));
    text[0] = '\0';
    if (!bytes) {
        leati_strbuf_add(&out, "0 B: nothing to do\n");
        return LEAT_OK;
    }
    status = explain(stream, dst, src, bytes, &out);
    return status == LEAT_OK
               ? status
               : leati_fail_in(status, "leat_copy_explain of %zu bytes on %s", bytes, stream->device->name);
}
