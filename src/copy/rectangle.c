/*
 * rectangle.c - leat_copy_rectangle(): boxes of rows.
 *
 * What is one run of bytes on both sides is left to leat_copy(). Memory that the driver knows is moved by the hand
 * that suits the rows (box.h): the driver's call, or a kernel for layouts. Where a side is pageable, leat's
 * threads pack its rows into the ring of a staged copy or unpack them from there (staged.h), and the same hand
 * moves them between the ring and the device; between host memory and host memory they go from place to place.
 * Rows that are too long for that are copies of their own.
 */
#include "base/options.h"
#include "copy/box.h"
#include "copy/copy.h"
#include "copy/layout.h"
#include "copy/eager.h"

#include <leat/copy.h>

#include <string.h>

struct plan {
    leat_copy_box box; /* in its simplest form */
    size_t bytes;
    struct leati_target to, from;
    struct leati_stager *stager; /* NULL: nothing is staged */
    enum leati_direction direction;
    bool early;
    bool row_by_row;
};

static bool is_idle(leat_stream *stream)
{
    struct leati_driver *driver = stream->device->driver;
    struct leati_sentence before;
    leat_status status;

    leati_error_keep(&before);
    status = driver->ops->stream_query(driver, stream->native);
    if (status < LEAT_OK)
        leati_error_restore(status, &before);
    return status == LEAT_OK;
}

/* ---- choosing ---- */

static bool ranges_overlap(const struct plan *plan)
{
    uintptr_t dst = (uintptr_t)plan->to.end.ptr, src = (uintptr_t)plan->from.end.ptr;

    return src - dst < leati_box_reach(&plan->box, LEATI_BOX_DST) ||
           dst - src < leati_box_reach(&plan->box, LEATI_BOX_SRC);
}

/* As between layouts. */
static leat_status check_overlap(const struct plan *plan)
{
    const void *dst = plan->to.end.ptr, *src = plan->from.end.ptr;
    leat_layout dst_layout, src_layout;
    struct leati_form form;

    if (!ranges_overlap(plan))
        return LEAT_OK;
    leati_box_layouts(&plan->box, &dst_layout, &src_layout);
    LEATI_TRY(leati_form_make(&dst_layout, 1, &src_layout, 1, &form));
    if (leati_form_may_overlap(&form, dst, src))
        return leati_fail(LEAT_ERROR_OVERLAP,
                          "dst %p and src %p: a row of one overlaps a row of the other; use a third place", dst,
                          src);
    return LEAT_OK;
}

/* Finds the stager. Without one the driver is given pageable memory; only a wrong environment variable is the
 * caller's business. */
static leat_status find_stager(leat_stream *stream, struct plan *plan)
{
    struct leati_sentence before;
    leat_status status;

    /* The CPU device reads and writes pageable memory itself. */
    if (stream->device->is_cpu && !leati_option_flag(LEATI_OPTION_COPY_STAGE))
        return LEAT_OK;
    leati_error_keep(&before);
    status = leati_stager_get(stream->device, &plan->stager);
    if (status == LEAT_ERROR_INVALID)
        return status;
    if (status != LEAT_OK) {
        leati_error_restore(status, &before);
        plan->stager = NULL;
    } else if (plan->stager->refused[0]) {
        plan->stager = NULL;
    }
    return LEAT_OK;
}

static leat_status choose_pageable(leat_stream *stream, struct plan *plan)
{
    LEATI_TRY(find_stager(stream, plan));
    if (!plan->stager)
        return LEAT_OK;
    plan->direction = leati_is_on_host(&plan->to) && leati_is_on_host(&plan->from) ? LEATI_DIRECTION_HOST
                      : leati_is_pageable(&plan->from)                             ? LEATI_DIRECTION_IN
                                                                                   : LEATI_DIRECTION_OUT;
    if (plan->direction == LEATI_DIRECTION_IN)
        plan->early = leati_stream_reads_now(stream) || is_idle(stream);
    /* Several chunks of whole rows must fit into a ring. */
    plan->row_by_row =
        plan->direction != LEATI_DIRECTION_HOST && plan->box.width_bytes > plan->stager->ring_bytes / 8;
    return LEAT_OK;
}

static leat_status make_plan(leat_stream *stream, void *dst, const void *src, struct plan *plan)
{
    struct leati_driver *driver = stream->device->driver;
    const leat_copy_box *box = &plan->box;

    plan->bytes = box->width_bytes * box->height * box->depth;
    LEATI_TRY(leati_pointers_find_range(driver, "dst", dst, leati_box_reach(box, LEATI_BOX_DST), true, &plan->to));
    LEATI_TRY(
        leati_pointers_find_range(driver, "src", src, leati_box_reach(box, LEATI_BOX_SRC), false, &plan->from));
    LEATI_TRY(leati_check_reach(stream, "dst", &plan->to));
    LEATI_TRY(leati_check_reach(stream, "src", &plan->from));
    LEATI_TRY(check_overlap(plan));
    return leati_is_pageable(&plan->to) || leati_is_pageable(&plan->from) ? choose_pageable(stream, plan)
                                                                          : LEAT_OK;
}

/* ---- doing ---- */

static leat_status move(leat_stream *stream, const struct plan *plan)
{
    enum leati_box_by by;
    leat_status status;

    LEATI_TRY(leati_box_choose(stream, &plan->to.end, &plan->from.end, &plan->box, &by));
    status = leati_box_move(stream, by, plan->to.end, plan->from.end, &plan->box);
    if (leati_is_pageable(&plan->to))
        leati_stream_writes_host(stream);
    return status;
}

/* The box as it is between the ring of a staged copy, where its rows lie packed, and the device. */
static leat_copy_box packed_box(const struct plan *plan)
{
    size_t slice_bytes = plan->box.depth > 1 ? plan->box.height * plan->box.width_bytes : 0;
    leat_copy_box packed = plan->box;

    if (plan->direction == LEATI_DIRECTION_IN) {
        packed.src_pitch_bytes = packed.width_bytes;
        packed.src_slice_bytes = slice_bytes;
    } else {
        packed.dst_pitch_bytes = packed.width_bytes;
        packed.dst_slice_bytes = slice_bytes;
    }
    return packed;
}

static leat_status stage(leat_stream *stream, const struct plan *plan)
{
    struct leati_end ring = {.kind = LEAT_KIND_PINNED}; /* its place is aligned like whole words */
    struct leati_staged_box staged = {.box = plan->box};
    leat_copy_box packed = packed_box(plan);
    struct leati_stage_request request = {.direction = plan->direction, .early = plan->early, .box = &staged};

    request.eager = plan->early && plan->bytes <= LEATI_EAGER_SHORT_BYTES;
    if (plan->direction == LEATI_DIRECTION_IN)
        LEATI_TRY(leati_box_choose(stream, &plan->to.end, &ring, &packed, &staged.by));
    else if (plan->direction == LEATI_DIRECTION_OUT)
        LEATI_TRY(leati_box_choose(stream, &ring, &plan->from.end, &packed, &staged.by));
    return leati_stage_start(plan->stager, stream, &plan->to, &plan->from, plan->bytes, &request, NULL);
}

static leat_status run_rows(leat_stream *stream, const struct plan *plan)
{
    const leat_copy_box *box = &plan->box;

    for (size_t z = 0; z < box->depth; z++)
        for (size_t y = 0; y < box->height; y++)
            LEATI_TRY(
                leat_copy(stream, (char *)plan->to.end.ptr + z * box->dst_slice_bytes + y * box->dst_pitch_bytes,
                          (const char *)plan->from.end.ptr + z * box->src_slice_bytes + y * box->src_pitch_bytes,
                          box->width_bytes));
    return LEAT_OK;
}

static leat_status run(leat_stream *stream, const struct plan *plan)
{
    leat_status status = LEATI_DECLINED;

    if (plan->stager)
        status = stage(stream, plan);
    return status == LEATI_DECLINED ? move(stream, plan) : status;
}

static leat_status run_checked(leat_stream *stream, const struct plan *plan)
{
    size_t dst_reach = leati_box_reach(&plan->box, LEATI_BOX_DST);
    size_t src_reach = leati_box_reach(&plan->box, LEATI_BOX_SRC);
    const struct leati_target *to = &plan->to, *from = &plan->from;
    struct leati_access written, read;
    leat_status status;

    if (to->end.device && from->end.device && to->end.device != from->end.device)
        LEATI_TRY(leati_enable_peers(to->device, from->device));
    LEATI_TRY(leati_may_use(&written, stream, "dst", to, dst_reach, true));
    LEATI_TRY(leati_may_use(&read, stream, "src", from, src_reach, false));
    status = run(stream, plan);
    leati_order_given(stream->order);
    LEATI_TRY(status);
    leati_was_used(&written, stream, to, dst_reach, true);
    leati_was_used(&read, stream, from, src_reach, false);
    return LEAT_OK;
}

/* ---- the public call ---- */

static leat_status copy(leat_stream *stream, void *dst, const void *src, const leat_copy_box *given)
{
    struct plan plan = {.box = *given};

    LEATI_TRY(leati_box_check(given));
    leati_box_simplify(&plan.box);
    if (plan.box.height == 1 && plan.box.depth == 1)
        return leat_copy(stream, dst, src, plan.box.width_bytes);
    LEATI_TRY(make_plan(stream, dst, src, &plan));
    return plan.row_by_row ? run_rows(stream, &plan) : run_checked(stream, &plan);
}

leat_status leat_copy_rectangle(leat_stream *stream, void *dst, const void *src, const leat_copy_box *box)
{
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_copy_rectangle"));
    LEATI_TRY(leati_check_stream("leat_copy_rectangle", stream));
    LEATI_TRY(leati_check_not_null("leat_copy_rectangle", "box", box));
    if (!box->width_bytes || !box->height || !box->depth)
        return LEAT_OK;
    status = copy(stream, dst, src, box);
    return status == LEAT_OK ? status
                             : leati_fail_in(status, "leat_copy_rectangle of %zu x %zu x %zu bytes on %s",
                                             box->width_bytes, box->height, box->depth, stream->device->name);
}

/* ---- in words ---- */

static leat_status add_hand(struct leati_text *text, leat_stream *stream, const struct plan *plan)
{
    struct leati_end to = plan->to.end, from = plan->from.end, ring = {.kind = LEAT_KIND_PINNED};
    leat_copy_box box = plan->stager ? packed_box(plan) : plan->box;
    enum leati_box_by by;
    const char *kernel;

    if (plan->stager && plan->direction == LEATI_DIRECTION_IN)
        from = ring;
    else if (plan->stager)
        to = ring;
    LEATI_TRY(leati_box_choose(stream, &to, &from, &box, &by));
    if (by == LEATI_BOX_BY_DRIVER) {
        leati_text_add(text, "the driver's call for rectangles\n");
    } else if (by == LEATI_BOX_BY_KERNEL) {
        LEATI_TRY(leati_box_kernel(&to, &from, &box, &kernel));
        leati_text_add(text, "one kernel, %s, since its rows are narrow or lie across words\n", kernel);
    } else {
        leati_text_add(text, "the driver's call for each row\n");
    }
    return LEAT_OK;
}

static leat_status add_path(struct leati_text *text, leat_stream *stream, const struct plan *plan)
{
    if (plan->row_by_row) {
        leati_text_add(text, "each row by itself, as leat_copy()\n  why    a row fills too much of a ring\n");
        return LEAT_OK;
    }
    if (!plan->stager) {
        LEATI_TRY(add_hand(text, stream, plan));
        leati_text_add(text, "  why    the device reaches both sides\n");
        return LEAT_OK;
    }
    switch (plan->direction) {
    case LEATI_DIRECTION_IN:
        leati_text_add(text, "rows packed into a ring of pinned memory by leat's threads, from there by ");
        LEATI_TRY(add_hand(text, stream, plan));
        leati_text_add(text, "  why    the source is pageable%s\n",
                       plan->early ? ", and may be read at once"
                                   : ", and earlier work of the stream may write it");
        return LEAT_OK;
    case LEATI_DIRECTION_OUT:
        leati_text_add(text, "unpacked from a ring of pinned memory by leat's threads, to there by ");
        LEATI_TRY(add_hand(text, stream, plan));
        leati_text_add(text, "  why    the destination is pageable\n");
        return LEAT_OK;
    default:
        leati_text_add(text, "leat's threads, in one pass\n  why    both sides are in host memory\n");
        return LEAT_OK;
    }
}

static const char *bound_of(const struct plan *plan)
{
    if (leati_is_on_host(&plan->to) && leati_is_on_host(&plan->from))
        return "the host's memory";
    if (leati_is_on_host(&plan->to) || leati_is_on_host(&plan->from))
        return "the link between host and device, and where rows are narrow the pieces of 32 bytes in which "
               "memory "
               "is read and written";
    return "the memory of the devices, in pieces of 32 bytes, or the link between the two";
}

static leat_status explain(struct leati_text *text, leat_stream *stream, void *dst, const void *src,
                           const leat_copy_box *given)
{
    struct plan plan = {.box = *given};

    LEATI_TRY(leati_box_check(given));
    leati_box_simplify(&plan.box);
    if (plan.box.height == 1 && plan.box.depth == 1)
        return leat_copy_explain(stream, dst, src, plan.box.width_bytes, text->at, text->left);
    LEATI_TRY(make_plan(stream, dst, src, &plan));
    leati_text_add(text, "%zu rows of ", plan.box.height * plan.box.depth);
    leati_text_add_bytes(text, plan.box.width_bytes);
    leati_text_add(text, ", ");
    leati_text_add_bytes(text, plan.bytes);
    leati_text_add(text, " from ");
    leati_explain_end(text, &plan.from);
    leati_text_add(text, " to ");
    leati_explain_end(text, &plan.to);
    leati_text_add(text, "\n  path   ");
    LEATI_TRY(add_path(text, stream, &plan));
    leati_text_add(text, "  bound  %s\n", bound_of(&plan));
    return LEAT_OK;
}

leat_status leat_copy_rectangle_explain(leat_stream *stream, void *dst, const void *src, const leat_copy_box *box,
                                        char *text, size_t text_bytes)
{
    static const char what[] = "leat_copy_rectangle_explain";
    struct leati_text out = {.at = text, .left = text_bytes};
    leat_status status;

    LEATI_TRY(leati_check_permitted(what));
    LEATI_TRY(leati_check_stream(what, stream));
    LEATI_TRY(leati_check_not_null(what, "box", box));
    LEATI_TRY(leati_check_not_null(what, "text", text));
    if (!text_bytes)
        return leati_fail(LEAT_ERROR_INVALID, "%s: text_bytes is 0; a few hundred are enough", what);
    text[0] = '\0';
    if (!box->width_bytes || !box->height || !box->depth) {
        leati_text_add(&out, "0 B: nothing to do\n");
        return LEAT_OK;
    }
    status = explain(&out, stream, dst, src, box);
    return status == LEAT_OK ? status : leati_fail_in(status, "%s on %s", what, stream->device->name);
}
