/*
 * copy_3d.c - implements leat_copy_3d(), which copies pitched regions.
 *
 * leat_copy() copies a region that is contiguous on both sides. Other regions are planned like any transfer. If a
 * row is too long for a ring, each row is a copy of its own.
 */
#include "copy/layout.h"
#include "copy/plan.h"

#include <leat/copy.h>

static bool is_run(const leat_copy_region *region)
{
    return region->height == 1 && region->depth == 1;
}

static bool ranges_overlap(const struct leati_transfer *transfer)
{
    uintptr_t dst = (uintptr_t)transfer->to.location.ptr, src = (uintptr_t)transfer->from.location.ptr;

    return src - dst < transfer->to_reach || dst - src < transfer->from_reach;
}

/* Fails if the sides overlap. Ranges that overlap may still have disjoint rows, so the check for layouts decides.
 */
static leat_status check_overlap(const struct leati_transfer *transfer)
{
    const void *dst = transfer->to.location.ptr, *src = transfer->from.location.ptr;
    leat_layout dst_layout, src_layout;
    struct leati_canonical canonical;

    if (!ranges_overlap(transfer))
        return LEAT_OK;
    leati_region_layouts(&transfer->region, &dst_layout, &src_layout);
    LEATI_TRY(leati_canonical_make(&dst_layout, 1, &src_layout, 1, &canonical));
    if (leati_canonical_may_overlap(&canonical, dst, src))
        return leati_fail(LEAT_ERROR_OVERLAP,
                          "dst %p and src %p: a row of one overlaps a row of the other; use a third place", dst,
                          src);
    return LEAT_OK;
}

/* Plans a region that leati_region_simplify() has simplified. */
static leat_status plan_region(struct leati_plan *plan, leat_stream *stream, void *dst, const void *src,
                               const leat_copy_region *region)
{
    struct leati_transfer *transfer = &plan->transfer;

    *transfer = (struct leati_transfer){.stream = stream,
                                        .shape = LEATI_SHAPE_REGION,
                                        .region = *region,
                                        .to_reach = leati_region_reach(region, LEATI_REGION_DST),
                                        .from_reach = leati_region_reach(region, LEATI_REGION_SRC),
                                        .bytes = region->width_bytes * region->height * region->depth};
    LEATI_TRY(leati_transfer_resolve(transfer, dst, src, true));
    LEATI_TRY(leati_transfer_check_mapped(transfer));
    LEATI_TRY(check_overlap(transfer));
    return leati_plan_choose(plan);
}

/* Returns true if the rows cannot be staged together only because they are too long, so each becomes its own copy.
 */
static bool goes_row_by_row(const struct leati_plan *plan)
{
    return plan->stager && plan->protocol == LEATI_PROTOCOL_DRIVER && !plan->one_pass &&
           plan->transfer.direction < LEATI_DIRECTION_HOST;
}

static leat_status copy_rows(const struct leati_plan *plan)
{
    const struct leati_transfer *transfer = &plan->transfer;
    const leat_copy_region *region = &transfer->region;
    char *dst = transfer->to.location.ptr;
    const char *src = transfer->from.location.ptr;

    for (size_t z = 0; z < region->depth; z++)
        for (size_t y = 0; y < region->height; y++)
            LEATI_TRY(leat_copy(transfer->stream, dst + z * region->dst_slice_bytes + y * region->dst_pitch_bytes,
                                src + z * region->src_slice_bytes + y * region->src_pitch_bytes,
                                region->width_bytes));
    return LEAT_OK;
}

/* ---- the public calls ---- */

static leat_status copy(leat_stream *stream, void *dst, const void *src, leat_copy_region region)
{
    struct leati_plan plan;

    LEATI_TRY(leati_region_check(&region));
    leati_region_simplify(&region);
    if (is_run(&region))
        return leat_copy(stream, dst, src, region.width_bytes);
    LEATI_TRY(plan_region(&plan, stream, dst, src, &region));
    return goes_row_by_row(&plan) ? copy_rows(&plan) : leati_plan_submit(&plan, NULL);
}

leat_status leat_copy_3d(leat_stream *stream, void *dst, const void *src, const leat_copy_region *region)
{
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_COPY, "leat_copy_3d");
    LEATI_TRY(leati_check_permitted("leat_copy_3d"));
    LEATI_TRY(leati_check_stream("leat_copy_3d", stream));
    LEATI_TRY(leati_check_not_null("leat_copy_3d", "region", region));
    if (!region->width_bytes || !region->height || !region->depth)
        return LEAT_OK;
    status = copy(stream, dst, src, *region);
    return status == LEAT_OK
               ? status
               : leati_fail_in(status, "leat_copy_3d of %zu x %zu x %zu bytes on %s", region->width_bytes,
                               region->height, region->depth, stream->device->name);
}

static leat_status explain(struct leati_strbuf *text, leat_stream *stream, void *dst, const void *src,
                           leat_copy_region region)
{
    struct leati_plan plan;

    LEATI_TRY(leati_region_check(&region));
    leati_region_simplify(&region);
    if (is_run(&region))
        return leat_copy_explain(stream, dst, src, region.width_bytes, text->at, text->left);
    LEATI_TRY(plan_region(&plan, stream, dst, src, &region));
    leati_strbuf_add(text, "%zu rows of ", region.height * region.depth);
    leati_strbuf_add_bytes(text, region.width_bytes);
    leati_strbuf_add(text, ", ");
    leati_explain_transfer(text, &plan.transfer);
    if (goes_row_by_row(&plan))
        leati_strbuf_add(text, "  each row by itself, as leat_copy(): a row fills too much of a ring\n");
    else
        leati_explain_plan(text, &plan, NULL);
    return LEAT_OK;
}

leat_status leat_copy_3d_explain(leat_stream *stream, void *dst, const void *src, const leat_copy_region *region,
                                 char *text, size_t text_bytes)
{
    static const char what[] = "leat_copy_3d_explain";
    struct leati_strbuf out = {.at = text, .left = text_bytes};
    leat_status status;

    LEATI_TRY(leati_explain_check(what, stream, text, text_bytes));
    LEATI_TRY(leati_check_not_null(what, "region", region));
    text[0] = '\0';
    if (!region->width_bytes || !region->height || !region->depth) {
        leati_strbuf_add(&out, "0 B: nothing to do\n");
        return LEAT_OK;
    }
    status = explain(&out, stream, dst, src, *region);
    return status == LEAT_OK ? status : leati_fail_in(status, "%s on %s", what, stream->device->name);
}
