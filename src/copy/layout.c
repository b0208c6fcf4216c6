/*
 * layout.c - implements leat_copy_layout(): resolves and checks layouts and pointers, and plans the copy.
 *
 * The layer src/layout/ computes canonical layouts, and how processors and GPUs copy them. This file finds out
 * where the memory is and which device can access it. layout_run.c makes the copy with the chosen protocol.
 */
#include "copy/layout.h"

#include "base/assert.h"
#include "base/options.h"
#include "base/sized.h"

#include <leat/layout.h>

#include <string.h>

/* leat copies a side with its gaps if payload and gaps together are at most this many times the payload. Threads
 * pack at about the speed of the link, so it pays off to copy gaps that are smaller than the payload. Not measured
 * yet. */
#define GAPS_MOST 2

struct leat_layout_plan {
    struct leati_handle handle;
    bool as_gpu; /* GPU kernels make the copy: on a GPU, or on the CPU device with LEAT_LAYOUT_AS_GPU=1 */
    struct leati_layout_plan *plan;
    struct leati_layout_start start;
    leat_layout dst_layout, src_layout;
    size_t dst_align, src_align;
};

static struct leati_handles plan_handles = LEATI_HANDLES(struct leat_layout_plan);

/* Returns true if the endpoint is memory of another device than the stream's device. */
static bool is_on_peer(const struct leati_layout_copy *copy, const struct leati_endpoint *endpoint)
{
    return endpoint->location.kind == LEAT_KIND_DEVICE &&
           endpoint->location.device != copy->plan.transfer.stream->device->native;
}

/* ---- layouts, pointers and lists ---- */

/* Computes the range that the copy accesses on a side, from the range's offsets low and high from the side's
 * pointer. *first: address of the first byte; *reach: number of bytes. */
static leat_status find_reach(const char *name, const void *pointer, int64_t low, int64_t high, uintptr_t *first,
                              size_t *reach)
{
    if (__builtin_add_overflow((uintptr_t)pointer, low, first))
        return leati_fail(LEAT_ERROR_RANGE, "%s %p: the layout reaches from byte %lld on, which is no address",
                          name, pointer, (long long)low);
    /* If index_bound is 0, the range is empty because all indices are wrong. The copy must still count the wrong
     * indices, so use a range of 1 byte. */
    *reach = high > low ? (size_t)(high - low) : 1;
    return LEAT_OK;
}

static leat_status find_sides(struct leati_layout_copy *copy)
{
    const struct leati_canonical *canonical = &copy->layouts->canonical;
    struct leati_transfer *transfer = &copy->plan.transfer;
    uintptr_t dst, src;

    LEATI_TRY(find_reach("dst", copy->dst, copy->start.dst + canonical->dst_low,
                         copy->start.dst + canonical->dst_high, &dst, &transfer->to_reach));
    LEATI_TRY(find_reach("src", copy->src, copy->start.src + canonical->src_low,
                         copy->start.src + canonical->src_high, &src, &transfer->from_reach));
    LEATI_TRY(leati_transfer_resolve(transfer, (void *)dst, (const void *)src, true));
    return leati_transfer_check_mapped(transfer);
}

static size_t list_bytes(const leat_layout *listed)
{
    return (size_t)listed->size[listed->index_dim] * listed->index_bytes;
}

static leat_status find_list(struct leati_layout_copy *copy, const leat_layout *listed)
{
    struct leati_driver *driver = copy->plan.transfer.stream->device->driver;
    size_t bytes = list_bytes(listed);

    LEATI_TRY(leati_pointers_find_range(driver, "the list of indices", listed->index, bytes, false, &copy->list));
    LEATI_TRY(leati_check_reach(copy->plan.transfer.stream, "the list of indices", &copy->list));
    copy->list_place = leati_is_on_host(&copy->list) ? LEATI_LIST_ON_HOST : LEATI_LIST_ON_DEVICE;
    if (is_on_peer(copy, &copy->list))
        return leati_fail(LEAT_ERROR_INVALID,
                          "the list of indices is in memory of %s; use memory of %s, or of the host",
                          copy->list.device->name, copy->plan.transfer.stream->device->name);
    if (!listed->index_wrong)
        return LEAT_OK;
    LEATI_TRY(leati_pointers_find_range(driver, "index_wrong", listed->index_wrong, sizeof *listed->index_wrong,
                                        true, &copy->wrong));
    LEATI_TRY(leati_check_reach(copy->plan.transfer.stream, "index_wrong", &copy->wrong));
    if (leati_is_pageable(&copy->wrong) || is_on_peer(copy, &copy->wrong))
        return leati_fail(
            LEAT_ERROR_INVALID,
            "index_wrong %p is in memory that %s does not reach; use device, pinned or managed memory",
            (void *)listed->index_wrong, copy->plan.transfer.stream->device->name);
    return LEAT_OK;
}

static int64_t index_at(const leat_layout *listed, int64_t i)
{
    int32_t narrow;
    int64_t wide;

    if (listed->index_bytes == sizeof narrow) {
        memcpy(&narrow, (const char *)listed->index + i * (int64_t)sizeof narrow, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, (const char *)listed->index + i * (int64_t)sizeof wide, sizeof wide);
    return wide;
}

static leat_status check_list(const leat_layout *listed)
{
    for (int64_t i = 0; i < listed->size[listed->index_dim]; i++) {
        int64_t index = index_at(listed, i);

        if (!listed->index_bound)
            return leati_fail(LEAT_ERROR_RANGE,
                              "index %lld, entry %lld of the list, is out of bounds: dimension %u has no elements",
                              (long long)index, (long long)i, listed->index_dim);
        if (index < 0 || index >= listed->index_bound)
            return leati_fail(
                LEAT_ERROR_RANGE,
                "index %lld, entry %lld of the list, is out of bounds: dimension %u has elements 0 to %lld",
                (long long)index, (long long)i, listed->index_dim, (long long)listed->index_bound - 1);
    }
    return LEAT_OK;
}

/* ---- choosing ---- */

static bool has_few_gaps(const struct leati_layout_copy *copy)
{
    return copy->plan.transfer.from_reach / GAPS_MOST <= leati_src_payload_bytes(&copy->layouts->canonical);
}

/* Returns true if the copy writes every byte between the first and the last byte of the destination. */
static bool has_no_gaps(const struct leati_layout_copy *copy)
{
    return copy->plan.transfer.to_reach == copy->layouts->canonical.payload_bytes && !copy->dst_layout->index;
}

/* Sets how the protocol STAGED makes the copy. in, whole, why: see struct leati_layout_copy. */
static void stage(struct leati_layout_copy *copy, bool in, bool whole, const char *why)
{
    copy->in = in;
    copy->whole = whole;
    copy->why = why;
}

static void choose_in(struct leati_layout_copy *copy)
{
    if (copy->list_place == LEATI_LIST_ON_DEVICE && copy->src_layout->index)
        stage(copy, true, true, "the source is pageable, and only the device can read the list of indices");
    else if (has_few_gaps(copy))
        stage(copy, true, true,
              "the source is pageable and has few gaps, and the device rearranges faster than the link brings it");
    else
        stage(copy, true, false,
              "the source is pageable, and most of what lies between its first and last byte is not wanted");
}

static void choose_out(struct leati_layout_copy *copy)
{
    if (has_no_gaps(copy))
        stage(copy, false, true, "the destination is pageable and has no gaps: it can be made on the device");
    else
        stage(copy, false, false, "the destination is pageable and has gaps, which must stay as they are");
}

static leat_status choose_for_peer(struct leati_layout_copy *copy)
{
    const struct leati_transfer *transfer = &copy->plan.transfer;
    bool from_peer = is_on_peer(copy, &transfer->from), to_peer = is_on_peer(copy, &transfer->to);

    if (from_peer && to_peer)
        return leati_fail(LEAT_ERROR_UNSUPPORTED,
                          "both sides are in memory of other devices than %s; give the copy to a stream of %s",
                          transfer->stream->device->name, transfer->to.device->name);
    if (from_peer) {
        stage(copy, true, true, "the source is in another device's memory");
        return LEAT_OK;
    }
    if (!has_no_gaps(copy))
        return leati_fail(LEAT_ERROR_UNSUPPORTED,
                          "dst is in memory of %s and has gaps; give the copy to a stream of that device",
                          transfer->to.device->name);
    stage(copy, false, true, "the destination is in another device's memory");
    return LEAT_OK;
}

/* Chooses how the protocol STAGED would make the copy. Fails if no protocol can make the copy. */
static leat_status choose_staged(struct leati_layout_copy *copy)
{
    const struct leati_transfer *transfer = &copy->plan.transfer;
    bool listed_on_device = copy->list_place == LEATI_LIST_ON_DEVICE;

    copy->on_peer = is_on_peer(copy, &transfer->to) || is_on_peer(copy, &transfer->from);
    copy->on_host = transfer->direction == LEATI_DIRECTION_HOST && !listed_on_device;
    if (listed_on_device && copy->dst_layout->index && leati_is_pageable(&transfer->to))
        return leati_fail(LEAT_ERROR_UNSUPPORTED,
                          "a list of indices in device memory cannot scatter into memory that the device does not reach; keep the list in host memory");
    if (copy->on_peer)
        return choose_for_peer(copy);
    if (transfer->direction == LEATI_DIRECTION_DEVICE || copy->on_host)
        return LEAT_OK;
    if (leati_is_pageable(&transfer->to) && leati_is_pageable(&transfer->from))
        return leati_fail(LEAT_ERROR_UNSUPPORTED,
                          "a list of indices in device memory is of no use between pageable memory; keep the list in host memory");
    if (leati_is_pageable(&transfer->from))
        choose_in(copy);
    else
        choose_out(copy);
    return LEAT_OK;
}

static leat_status choose(struct leati_layout_copy *copy)
{
    LEATI_TRY(leati_plan_look(&copy->plan));
    if (!copy->plan.one_pass)
        LEATI_TRY(choose_staged(copy));
    LEATI_TRY(leati_plan_compare(&copy->plan));
    if (!copy->plan.one_pass && copy->plan.protocol != LEATI_PROTOCOL_HOST && !copy->layouts->gpu.kernel)
        return leati_fail(LEAT_ERROR_UNSUPPORTED,
                          "the layouts have too many rows for one launch on %s; convert slices of them",
                          copy->plan.transfer.stream->device->name);
    return LEAT_OK;
}

/* ---- checks and plan ---- */

static leat_status find_memory(struct leati_layout_copy *copy)
{
    const struct leati_canonical *canonical = &copy->layouts->canonical;
    const leat_layout *listed = leati_layout_listed(copy->dst_layout, copy->src_layout);

    if (listed)
        LEATI_TRY(find_list(copy, listed));
    if (copy->list_place == LEATI_LIST_ON_HOST)
        LEATI_TRY(check_list(listed));
    LEATI_TRY(find_sides(copy));
    if (leati_canonical_may_overlap(canonical, leati_layout_first(copy->dst, copy->start.dst),
                                    leati_layout_first(copy->src, copy->start.src)))
        return leati_fail(LEAT_ERROR_OVERLAP,
                          "dst %p and src %p: a byte that is written may also be read, by what can be told of the strides; use a third place",
                          copy->dst, copy->src);
    return LEAT_OK;
}

leat_status leati_layout_choose(struct leati_layout_copy *copy)
{
    leati_assert(copy->layouts && !copy->layouts->canonical.empty);
    copy->plan.transfer.shape = LEATI_SHAPE_LAYOUT;
    copy->plan.transfer.layout = copy;
    copy->plan.transfer.bytes = copy->layouts->canonical.payload_bytes;
    LEATI_TRY(find_memory(copy));
    return choose(copy);
}

/* Checks and plans a copy. plan: the plan of the program's call, or NULL. On return copy->layouts is NULL or has a
 * reference, which the caller must drop. */
static leat_status make(struct leati_layout_copy *copy, const leat_layout_plan *plan)
{
    if (plan) {
        leati_layout_plan_hold(plan->plan);
        copy->layouts = plan->plan;
        copy->start = plan->start;
    } else {
        LEATI_TRY(leati_layout_plan_get_convert(copy->dst_layout, leati_layout_align(copy->dst), copy->src_layout,
                                                leati_layout_align(copy->src), &copy->convert, &copy->layouts,
                                                &copy->start));
    }
    leati_assert(copy->layouts != NULL);
    return copy->layouts->canonical.empty ? LEAT_OK : leati_layout_choose(copy);
}

/* Memory that guard mode checks besides dst and src: the list of indices, and the counter of wrong indices. */
struct list_use {
    struct leati_access list, wrong;
};

static leat_status may_use_list(const struct leati_layout_copy *copy, const leat_layout *listed,
                                struct list_use *use)
{
    leat_stream *stream = copy->plan.transfer.stream;

    LEATI_TRY(leati_may_use(&use->list, stream, "the list of indices", &copy->list, list_bytes(listed), false));
    if (!listed->index_wrong)
        return LEAT_OK;
    return leati_may_use(&use->wrong, stream, "index_wrong", &copy->wrong, sizeof *listed->index_wrong, true);
}

static void list_was_used(const struct leati_layout_copy *copy, const leat_layout *listed,
                          const struct list_use *use)
{
    leat_stream *stream = copy->plan.transfer.stream;

    leati_was_used(&use->list, stream, &copy->list, list_bytes(listed), false);
    if (listed->index_wrong)
        leati_was_used(&use->wrong, stream, &copy->wrong, sizeof *listed->index_wrong, true);
}

leat_status leati_layout_run(struct leati_layout_copy *copy)
{
    const leat_layout *listed = leati_layout_listed(copy->dst_layout, copy->src_layout);
    bool on_device = copy->list_place == LEATI_LIST_ON_DEVICE;
    struct list_use use;

    if (copy->layouts->canonical.empty)
        return LEAT_OK;
    if (on_device)
        LEATI_TRY(may_use_list(copy, listed, &use));
    LEATI_TRY(leati_plan_submit(&copy->plan, NULL));
    if (on_device)
        list_was_used(copy, listed, &use);
    return LEAT_OK;
}

static leat_status make_and_run(struct leati_layout_copy *copy, const leat_layout_plan *plan)
{
    leat_status status = make(copy, plan);

    if (status == LEAT_OK)
        status = leati_layout_run(copy);
    if (copy->layouts)
        leati_layout_plan_drop(copy->layouts);
    return status;
}

/* ---- the public calls ---- */

static leat_status check_call(const char *what, leat_stream *stream, const leat_layout *dst_layout,
                              const leat_layout *src_layout)
{
    LEATI_TRY(leati_check_permitted(what));
    LEATI_TRY(leati_check_stream(what, stream));
    LEATI_TRY(leati_check_not_null(what, "dst_layout", dst_layout));
    return leati_check_not_null(what, "src_layout", src_layout);
}

leat_status leat_copy_layout(leat_stream *stream, void *dst, const leat_layout *dst_layout, const void *src,
                             const leat_layout *src_layout)
{
    struct leati_layout_copy copy = {.plan.transfer.stream = stream,
                                     .dst = dst,
                                     .src = src,
                                     .dst_layout = dst_layout,
                                     .src_layout = src_layout};
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_LAYOUT, "leat_copy_layout");
    LEATI_TRY(check_call("leat_copy_layout", stream, dst_layout, src_layout));
    status = make_and_run(&copy, NULL);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_copy_layout on %s", stream->device->name);
}

/* Checks the conversion, and sets it in the copy. factors: room for its numbers. */
static leat_status take_conversion(struct leati_layout_copy *copy, const leat_conversion *conversion,
                                   struct leati_factors *factors)
{
    LEATI_TRY(leati_layout_check("dst_layout", copy->dst_layout));
    LEATI_TRY(leati_layout_check("src_layout", copy->src_layout));
    LEATI_TRY(leati_canonical_check_same(copy->dst_layout, copy->src_layout, true));
    LEATI_TRY(leati_convert_make(conversion, copy->dst_layout, copy->src_layout, &copy->convert, factors));
    copy->conversion = conversion;
    copy->factors = factors;
    return LEAT_OK;
}

leat_status leati_layout_find(struct leati_layout_copy *copy, const leat_conversion *conversion,
                              struct leati_factors *factors)
{
    if (conversion)
        LEATI_TRY(take_conversion(copy, conversion, factors));
    return leati_layout_plan_get_convert(copy->dst_layout, leati_layout_align(copy->dst), copy->src_layout,
                                         leati_layout_align(copy->src), &copy->convert, &copy->layouts,
                                         &copy->start);
}

leat_status leat_copy_convert(leat_stream *stream, void *dst, const leat_layout *dst_layout, const void *src,
                              const leat_layout *src_layout, const leat_conversion *conversion)
{
    static const char what[] = "leat_copy_convert";
    struct leati_layout_copy copy = {.plan.transfer.stream = stream,
                                     .dst = dst,
                                     .src = src,
                                     .dst_layout = dst_layout,
                                     .src_layout = src_layout};
    struct leati_factors factors;
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_LAYOUT, "leat_copy_convert");
    LEATI_TRY(check_call(what, stream, dst_layout, src_layout));
    LEATI_TRY(LEATI_SIZED_CHECK(what, "conversion", leat_conversion, conversion));
    status = take_conversion(&copy, conversion, &factors);
    if (status == LEAT_OK)
        status = make_and_run(&copy, NULL);
    return status == LEAT_OK ? status : leati_fail_in(status, "%s on %s", what, stream->device->name);
}

/* ---- plans ---- */

static leat_status check_plan(const char *what, const leat_layout_plan *plan)
{
    if (leati_handle_live(&plan_handles, plan))
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_HANDLE, "%s: plan %p is not live: it was freed, or it never came from leat", what,
                      (const void *)plan);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

leat_status leat_layout_plan_create(leat_device *device, const leat_layout *dst_layout, size_t dst_align,
                                    const leat_layout *src_layout, size_t src_align, leat_layout_plan **plan)
{
    static const char what[] = "leat_layout_plan_create";
    struct leat_layout_plan *made;
    leat_status status;

    LEATI_TRY(leati_check_device(what, device));
    LEATI_TRY(leati_check_not_null(what, "dst_layout", dst_layout));
    LEATI_TRY(leati_check_not_null(what, "src_layout", src_layout));
    LEATI_TRY(leati_check_not_null(what, "plan", plan));
    made = leati_handle_new(&plan_handles);
    if (!made)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "leat_layout_plan_create: no memory for the handle");
    made->as_gpu = !device->driver->can->host_kernels || leati_option_flag(LEATI_OPTION_LAYOUT_AS_GPU);
    made->dst_layout = *dst_layout;
    made->src_layout = *src_layout;
    made->dst_align = least(dst_align, LEAT_LAYOUT_MAX_ELEMENT_BYTES);
    made->src_align = least(src_align, LEAT_LAYOUT_MAX_ELEMENT_BYTES);
    status =
        leati_layout_plan_get(dst_layout, made->dst_align, src_layout, made->src_align, &made->plan, &made->start);
    if (status != LEAT_OK) {
        leati_handle_free(&plan_handles, made);
        return leati_fail_in(status, "%s", what);
    }
    leati_handle_publish(made);
    *plan = made;
    return LEAT_OK;
}

leat_status leat_layout_plan_copy(leat_stream *stream, const leat_layout_plan *plan, void *dst, const void *src)
{
    struct leati_layout_copy copy = {.plan.transfer.stream = stream, .dst = dst, .src = src};
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_LAYOUT, "leat_layout_plan_copy");
    LEATI_TRY(leati_check_permitted("leat_layout_plan_copy"));
    LEATI_TRY(leati_check_stream("leat_layout_plan_copy", stream));
    LEATI_TRY(check_plan("leat_layout_plan_copy", plan));
    if (!plan->plan->canonical.empty && ((uintptr_t)dst % plan->dst_align || (uintptr_t)src % plan->src_align))
        return leati_fail(LEAT_ERROR_INVALID,
                          "leat_layout_plan_copy: dst %p and src %p; the plan is for multiples of %zu and %zu",
                          dst, src, plan->dst_align, plan->src_align);
    copy.dst_layout = &plan->dst_layout;
    copy.src_layout = &plan->src_layout;
    status = make_and_run(&copy, plan);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_layout_plan_copy on %s", stream->device->name);
}

leat_status leat_layout_plan_get_info(const leat_layout_plan *plan, leat_layout_plan_info *info)
{
    leat_layout_plan_info filled;

    LEATI_TRY(check_plan("leat_layout_plan_get_info", plan));
    LEATI_TRY(LEATI_SIZED_CHECK("leat_layout_plan_get_info", "info", leat_layout_plan_info, info));
    filled = (leat_layout_plan_info){.class_of_plan = plan->plan->class_of_plan,
                                     .payload_bytes = plan->plan->canonical.payload_bytes,
                                     .read_sectors = leati_layout_plan_reads(plan->plan, &plan->start),
                                     .written_sectors = leati_layout_plan_writes(plan->plan, &plan->start)};
    LEATI_SIZED_WRITE(info, &filled);
    return LEAT_OK;
}

static leat_status check_text(const char *what, const char *text, size_t text_bytes)
{
    LEATI_TRY(leati_check_not_null(what, "text", text));
    if (!text_bytes)
        return leati_fail(LEAT_ERROR_INVALID, "%s: text_bytes is 0; use at least 1024", what);
    return LEAT_OK;
}

leat_status leat_layout_plan_explain(const leat_layout_plan *plan, char *text, size_t text_bytes)
{
    LEATI_TRY(check_plan("leat_layout_plan_explain", plan));
    LEATI_TRY(check_text("leat_layout_plan_explain", text, text_bytes));
    leati_layout_plan_text(plan->plan, &plan->start, plan->as_gpu, text, text_bytes);
    return LEAT_OK;
}

leat_status leat_layout_plan_destroy(leat_layout_plan *plan)
{
    struct leati_layout_plan *kept;

    if (!plan)
        return LEAT_OK;
    if (!leati_handle_live(&plan_handles, plan))
        return check_plan("leat_layout_plan_destroy", plan);
    kept = plan->plan;
    if (!leati_handle_retire(&plan_handles, plan))
        return check_plan("leat_layout_plan_destroy", plan);
    leati_layout_plan_drop(kept);
    leati_handle_free(&plan_handles, plan);
    return LEAT_OK;
}

/* ---- the text of plans ---- */

static const char *staged_text(const struct leati_layout_copy *copy)
{
    if (copy->in && copy->whole)
        return "all from the source's first byte to its last into memory of the stream's device, then one kernel";
    if (copy->whole)
        return "one kernel into memory of the stream's device that lies like the destination, then one copy";
    if (copy->in)
        return copy->plan.stager
                   ? "packed into pinned memory by leat's threads, from there by one kernel"
                   : "packed into pinned memory by a host function of the stream, from there by one kernel";
    return copy->plan.stager ? "one kernel into pinned memory, from there to their places by leat's threads"
                             : "one kernel into pinned memory, from there to their places by a host function";
}

void leati_layout_explain_staged(const struct leati_plan *plan, struct leati_strbuf *text)
{
    leati_strbuf_add(text, "%s", staged_text(plan->transfer.layout));
}

static leat_status explain(struct leati_layout_copy *copy, struct leati_strbuf *text)
{
    const struct leati_plan *plan = &copy->plan;

    LEATI_TRY(make(copy, NULL));
    if (copy->layouts->canonical.empty) {
        leati_strbuf_add(text, "nothing to do: a size is 0\n");
        return LEAT_OK;
    }
    leati_explain_transfer(text, &plan->transfer);
    leati_explain_plan(text, plan, plan->protocol == LEATI_PROTOCOL_STAGED ? copy->why : NULL);
    leati_layout_plan_text(copy->layouts, &copy->start, !plan->one_pass && plan->protocol != LEATI_PROTOCOL_HOST,
                           text->at, text->left);
    return LEAT_OK;
}

leat_status leat_copy_layout_explain(leat_stream *stream, void *dst, const leat_layout *dst_layout,
                                     const void *src, const leat_layout *src_layout, char *text, size_t text_bytes)
{
    static const char what[] = "leat_copy_layout_explain";
    struct leati_strbuf out = {.at = text, .left = text_bytes};
    struct leati_layout_copy copy = {.plan.transfer.stream = stream,
                                     .dst = dst,
                                     .src = src,
                                     .dst_layout = dst_layout,
                                     .src_layout = src_layout};
    leat_status status;

    LEATI_TRY(leati_explain_check(what, stream, text, text_bytes));
    LEATI_TRY(check_call(what, stream, dst_layout, src_layout));
    text[0] = '\0';
    status = explain(&copy, &out);
    if (copy.layouts)
        leati_layout_plan_drop(copy.layouts);
    return status == LEAT_OK ? status : leati_fail_in(status, "%s on %s", what, stream->device->name);
}

leat_status leat_copy_convert_explain(leat_stream *stream, void *dst, const leat_layout *dst_layout,
                                      const void *src, const leat_layout *src_layout,
                                      const leat_conversion *conversion, char *text, size_t text_bytes)
{
    static const char what[] = "leat_copy_convert_explain";
    struct leati_strbuf out = {.at = text, .left = text_bytes};
    struct leati_layout_copy copy = {.plan.transfer.stream = stream,
                                     .dst = dst,
                                     .src = src,
                                     .dst_layout = dst_layout,
                                     .src_layout = src_layout};
    struct leati_factors factors;
    leat_status status;

    LEATI_TRY(leati_explain_check(what, stream, text, text_bytes));
    LEATI_TRY(check_call(what, stream, dst_layout, src_layout));
    LEATI_TRY(LEATI_SIZED_CHECK(what, "conversion", leat_conversion, conversion));
    text[0] = '\0';
    status = take_conversion(&copy, conversion, &factors);
    if (status == LEAT_OK)
        status = explain(&copy, &out);
    if (copy.layouts)
        leati_layout_plan_drop(copy.layouts);
    return status == LEAT_OK ? status : leati_fail_in(status, "%s on %s", what, stream->device->name);
}
