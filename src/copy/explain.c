/* explain.c - how a copy would be made, in words. */
#include "base/text.h"
#include "copy/copy.h"

#include <leat/copy.h>

#include <stdio.h>
#include <string.h>

void leati_explain_end(struct leati_text *text, const struct leati_target *end)
{
    if (end->end.kind == LEAT_KIND_DEVICE)
        leati_text_add(text, "%s", end->device->name);
    else
        leati_text_add(text, "%s memory", leat_kind_name(end->end.kind));
}

static void add_staged(struct leati_text *text, const struct leati_plan *plan)
{
    const struct leati_stager *stager = plan->stager;
    size_t ring_bytes = leati_staging_ring_bytes(plan->bytes, (size_t)stager->ring_bytes);
    struct leati_cut cut = {.bytes = plan->bytes,
                            .ring_bytes = plan->direction == LEATI_DIRECTION_HOST ? 0 : ring_bytes,
                            .out = plan->direction == LEATI_DIRECTION_OUT,
                            .threads = stager->share};
    enum leati_store_policy policy = leati_stager_policy(stager, plan->direction, plan->bytes);

    if (plan->direction == LEATI_DIRECTION_HOST) {
        leati_text_add(text, "by leat's threads, in one pass");
    } else {
        uint32_t chunks = leati_staging_cut(&cut, NULL);

        leati_text_add(text, "staged, in %u chunk%s through a ring of ", chunks, chunks == 1 ? "" : "s");
        leati_text_add_bytes(text, ring_bytes);
        leati_text_add(text, " of pinned memory");
    }
    leati_text_add(text, "; at most %u of %u threads, %s stores", stager->share, stager->threads,
                   leati_store_policy_name(policy));
    if (policy == LEATI_STORES_STREAMING)
        leati_text_add(text, " (%s)", leati_staging_streaming_by());
}

static void add_path(struct leati_text *text, const struct leati_plan *plan)
{
    switch (plan->path) {
    case LEATI_PATH_DRIVER:
        leati_text_add(text, "the driver's asynchronous copy");
        break;
    case LEATI_PATH_PAGEABLE:
        leati_text_add(text, "the driver's copy for pageable memory");
        break;
    case LEATI_PATH_EAGER:
        leati_text_add(text, "eager");
        break;
    case LEATI_PATH_STAGED:
        add_staged(text, plan);
        break;
    }
}

static void add_bound(struct leati_text *text, const struct leati_plan *plan)
{
    const struct leati_target *to = &plan->to, *from = &plan->from;
    const struct leati_staging_choice *choice = plan->stager ? &plan->stager->choice : NULL;
    double gbps = 0;

    if (!strcmp(plan->to.driver     ? plan->to.driver->name
                : plan->from.driver ? plan->from.driver->name
                                    : "",
                "cpu") &&
        (plan->path == LEATI_PATH_PAGEABLE || plan->path == LEATI_PATH_DRIVER)) {
        leati_text_add(text, "the host's memory, read and written");
        return;
    }
    if (to->end.kind == LEAT_KIND_DEVICE && from->end.kind == LEAT_KIND_DEVICE)
        leati_text_add(text, to->device == from->device ? "the device's memory, read and written"
                                                        : "the link between the two devices");
    else if (plan->path == LEATI_PATH_STAGED && plan->direction == LEATI_DIRECTION_HOST)
        leati_text_add(text, "the host's memory");
    else if (plan->path == LEATI_PATH_EAGER || plan->path == LEATI_PATH_EAGER)
        leati_text_add(text, "the latency of one DMA");
    else
        leati_text_add(text, "the link between host and device");
    if (plan->path != LEATI_PATH_STAGED || !choice->probed)
        return;
    gbps = (plan->direction == LEATI_DIRECTION_OUT
                ? choice->out_gbps
                : choice->in_gbps)[leati_stager_policy(plan->stager, plan->direction, plan->bytes)];
    leati_text_add(text, "; the threads move %.1f GB/s (measured at the first use)", gbps);
}

static leat_status explain(leat_stream *stream, void *dst, const void *src, size_t bytes, struct leati_text *text)
{
    struct leati_plan plan, quick;
    leat_status status;

    if (!bytes) {
        leati_text_add(text, "0 B: nothing to do\n");
        return LEAT_OK;
    }
    LEATI_TRY(leati_plan_copy(stream, dst, src, bytes, false, &plan));
    status = leati_plan_unasked(stream, dst, src, bytes, &quick);
    if (status == LEAT_OK) {
        plan.path = quick.path;
        plan.why = quick.why;
    } else if (status != LEAT_NOT_READY) {
        return status;
    }
    leati_text_add_bytes(text, bytes);
    leati_text_add(text, " from ");
    leati_explain_end(text, &plan.from);
    leati_text_add(text, " to ");
    leati_explain_end(text, &plan.to);
    leati_text_add(text, "\n  path   ");
    add_path(text, &plan);
    if (plan.helpers)
        leati_text_add(text, "; over %u host links, and across from %u other device%s", plan.helpers + 1,
                       plan.helpers, plan.helpers > 1 ? "s" : "");
    leati_text_add(text, "\n  why    %s\n  bound  ", plan.why);
    add_bound(text, &plan);
    leati_text_add(text, "\n");
    return LEAT_OK;
}

leat_status leat_copy_explain(leat_stream *stream, void *dst, const void *src, size_t bytes, char *text,
                              size_t text_bytes)
{
    struct leati_text out = {.at = text, .left = text_bytes};
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_copy_explain"));
    LEATI_TRY(leati_check_stream("leat_copy_explain", stream));
    LEATI_TRY(leati_check_not_null("leat_copy_explain", "text", text));
    if (!text_bytes)
        return leati_fail(LEAT_ERROR_INVALID, "leat_copy_explain: text_bytes is 0; a few hundred are enough");
    text[0] = '\0';
    status = explain(stream, dst, src, bytes, &out);
    return status == LEAT_OK
               ? status
               : leati_fail_in(status, "leat_copy_explain of %zu bytes on %s", bytes, stream->device->name);
}
