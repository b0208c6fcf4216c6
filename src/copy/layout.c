/*
 * layout.c - leat_copy_layout(): what the layouts and pointers are, and which way the bytes go.
 *
 * The arithmetic is below (layout/): what is left of two layouts, and how processors and GPUs copy that. Here it
 * is found out where the memory is, and who reaches it. layout_run.c does what was chosen.
 */
#include "copy/layout.h"

#include "base/options.h"
#include "base/text.h"
#include "copy/copy.h"

#include <leat/layout.h>

#include <string.h>

/* With its gaps a side is moved when it is no more than so many times as large as without. Threads pack at about
 * the link's speed, so that moving gaps pays while there are fewer of them than bytes; to be measured. */
#define GAPS_MOST 2

struct leat_layout_plan {
    struct leati_handle handle;
    leat_device *device;
    struct leati_layout_plan *plan;
    struct leati_layout_start start;
    leat_layout dst_layout, src_layout;
    size_t dst_align, src_align;
};

static struct leati_handles plan_handles = LEATI_HANDLES(struct leat_layout_plan);

/* Memory of another device than the stream's. */
static bool is_far(const struct leati_layout_copy *copy, const struct leati_target *target)
{
    return target->end.kind == LEAT_KIND_DEVICE && target->end.device != copy->stream->device->native;
}

/* ---- what was given ---- */

static leat_status find_side(struct leati_layout_copy *copy, const char *name, const void *pointer, int64_t low,
                             int64_t high, bool write, struct leati_target *target, size_t *bytes)
{
    uintptr_t first;

    if (__builtin_add_overflow((uintptr_t)pointer, low, &first))
        return leati_fail(LEAT_ERROR_RANGE, "%s %p: the layout reaches from byte %lld on, which is no address",
                          name, pointer, (long long)low);
    /* A list that has no element to choose from leaves nothing to copy; its indices are counted all the same. */
    *bytes = high > low ? (size_t)(high - low) : 1;
    LEATI_TRY(leati_pointers_find_range(copy->stream->device->driver, name, (void *)first, *bytes, write, target));
    return leati_check_reach(copy->stream, name, target);
}

static leat_status find_list(struct leati_layout_copy *copy, const leat_layout *listed)
{
    struct leati_driver *driver = copy->stream->device->driver;
    size_t bytes = (size_t)listed->size[listed->index_dim] * listed->index_bytes;

    LEATI_TRY(leati_pointers_find_range(driver, "the list of indices", listed->index, bytes, false, &copy->list));
    LEATI_TRY(leati_check_reach(copy->stream, "the list of indices", &copy->list));
    copy->list_place = leati_is_on_host(&copy->list) ? LEATI_LIST_ON_HOST : LEATI_LIST_ON_DEVICE;
    if (is_far(copy, &copy->list))
        return leati_fail(LEAT_ERROR_INVALID,
                          "the list of indices is in memory of %s; use memory of %s, or of the host",
                          copy->list.device->name, copy->stream->device->name);
    if (!listed->index_wrong)
        return LEAT_OK;
    LEATI_TRY(leati_pointers_find_range(driver, "index_wrong", listed->index_wrong, sizeof *listed->index_wrong,
                                        true, &copy->wrong));
    LEATI_TRY(leati_check_reach(copy->stream, "index_wrong", &copy->wrong));
    if (leati_is_pageable(&copy->wrong) || is_far(copy, &copy->wrong))
        return leati_fail(
            LEAT_ERROR_INVALID,
            "index_wrong %p is in memory that %s does not reach; use device, pinned or managed memory",
            (void *)listed->index_wrong, copy->stream->device->name);
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

static leat_status find_stager(struct leati_layout_copy *copy)
{
    struct leati_sentence before;
    leat_status status;

    leati_error_keep(&before);
    status = leati_stager_get(copy->stream->device, &copy->stager);
    if (status == LEAT_ERROR_INVALID)
        return status; /* an environment variable is wrong, which is the caller's business */
    if (status != LEAT_OK)
        leati_error_restore(status, &before);
    if (status != LEAT_OK || copy->stager->refused[0])
        copy->stager = NULL;
    return LEAT_OK;
}

static void choose(struct leati_layout_copy *copy, enum leati_layout_way way, const char *why)
{
    copy->way = way;
    copy->why = why;
}

static bool has_few_gaps(const struct leati_layout_copy *copy, size_t bytes)
{
    return bytes / GAPS_MOST <= copy->plan->form.payload_bytes;
}

/* The bytes of the destination that lie between its first and its last are all written. */
static bool has_no_gaps(const struct leati_layout_copy *copy)
{
    return copy->dst_bytes == copy->plan->form.payload_bytes && !copy->dst_layout->index;
}

static void choose_in(struct leati_layout_copy *copy)
{
    bool listed_on_device = copy->list_place == LEATI_LIST_ON_DEVICE && copy->src_layout->index;

    if (listed_on_device || has_few_gaps(copy, copy->src_bytes))
        choose(copy, LEATI_LAYOUT_IN_WHOLE,
               listed_on_device
                   ? "only the device can read the list of indices"
                   : "the source has few gaps, and the device rearranges faster than the link brings it");
    else
        choose(copy, LEATI_LAYOUT_IN_PACKED,
               "most of what lies between the source's first and last byte is not wanted");
    if (leati_is_pageable(&copy->from) && copy->way == LEATI_LAYOUT_IN_PACKED)
        copy->early = leati_stream_reads_now(copy->stream);
}

static void choose_out(struct leati_layout_copy *copy)
{
    if (has_no_gaps(copy))
        choose(copy, LEATI_LAYOUT_OUT_WHOLE, "the destination has no gaps: it can be made on the device");
    else
        choose(copy, LEATI_LAYOUT_OUT_PACKED, "the destination has gaps, which must stay as they are");
}

static leat_status choose_far(struct leati_layout_copy *copy)
{
    if (is_far(copy, &copy->from) && is_far(copy, &copy->to))
        return leati_fail(LEAT_ERROR_UNSUPPORTED,
                          "both sides are in memory of other devices than %s; give the copy to "
                          "a stream of %s",
                          copy->stream->device->name, copy->to.device->name);
    if (is_far(copy, &copy->from)) {
        choose(copy, LEATI_LAYOUT_IN_WHOLE, "the source is in another device's memory");
        return LEAT_OK;
    }
    if (!has_no_gaps(copy))
        return leati_fail(LEAT_ERROR_UNSUPPORTED,
                          "dst is in memory of %s and has gaps; give the copy to a stream of that device",
                          copy->to.device->name);
    choose(copy, LEATI_LAYOUT_OUT_WHOLE, "the destination is in another device's memory");
    return LEAT_OK;
}

/* The CPU device reaches all memory; its threads know how to go on where pageable memory is gone. */
static bool is_cpu(const leat_device *device)
{
    return device->is_cpu && !leati_option_flag(LEATI_OPTION_LAYOUT_AS_GPU);
}

static leat_status choose_way(struct leati_layout_copy *copy)
{
    bool pageable = leati_is_pageable(&copy->to) || leati_is_pageable(&copy->from);

    if (is_cpu(copy->stream->device)) {
        choose(copy, LEATI_LAYOUT_BY_CPU, "the CPU device reaches both sides");
        return LEAT_OK;
    }
    if (copy->list_place == LEATI_LIST_ON_DEVICE && copy->dst_layout->index && leati_is_pageable(&copy->to))
        return leati_fail(LEAT_ERROR_UNSUPPORTED,
                          "a list of indices in device memory cannot scatter into memory that "
                          "the device does not reach; keep the list in host memory");
    if (is_far(copy, &copy->to) || is_far(copy, &copy->from))
        return choose_far(copy);
    if (!pageable) {
        choose(copy, LEATI_LAYOUT_BY_KERNEL, "the device reaches both sides");
        return LEAT_OK;
    }
    LEATI_TRY(find_stager(copy));
    if (leati_is_on_host(&copy->to) && leati_is_on_host(&copy->from) && copy->list_place != LEATI_LIST_ON_DEVICE) {
        choose(copy, LEATI_LAYOUT_ON_HOST, "both sides are in host memory");
        return LEAT_OK;
    }
    if (leati_is_pageable(&copy->to) && leati_is_pageable(&copy->from))
        return leati_fail(LEAT_ERROR_UNSUPPORTED,
                          "a list of indices in device memory is of no use between pageable "
                          "memory; keep the list in host memory");
    if (leati_is_pageable(&copy->from))
        choose_in(copy);
    else
        choose_out(copy);
    return LEAT_OK;
}

/* ---- checks and plan ---- */

static leat_status find_memory(struct leati_layout_copy *copy)
{
    const struct leati_form *form = &copy->plan->form;
    const leat_layout *listed = leati_layout_listed(copy->dst_layout, copy->src_layout);

    if (listed)
        LEATI_TRY(find_list(copy, listed));
    if (copy->list_place == LEATI_LIST_ON_HOST)
        LEATI_TRY(check_list(listed));
    LEATI_TRY(find_side(copy, "dst", copy->dst, copy->start.dst + form->dst_low, copy->start.dst + form->dst_high,
                        true, &copy->to, &copy->dst_bytes));
    LEATI_TRY(find_side(copy, "src", copy->src, copy->start.src + form->src_low, copy->start.src + form->src_high,
                        false, &copy->from, &copy->src_bytes));
    if (leati_form_may_overlap(form, leati_layout_first(copy->dst, copy->start.dst),
                               leati_layout_first(copy->src, copy->start.src)))
        return leati_fail(LEAT_ERROR_OVERLAP,
                          "dst %p and src %p: a byte that is written may also be read, by what can be told of the "
                          "strides; use a third place",
                          copy->dst, copy->src);
    return LEAT_OK;
}

/* plan: of the caller's, or NULL. Leaves copy->plan held, or NULL. */
static leat_status make(struct leati_layout_copy *copy, const leat_layout_plan *plan)
{
    if (plan) {
        leati_layout_plan_hold(plan->plan);
        copy->plan = plan->plan;
        copy->start = plan->start;
    } else {
        LEATI_TRY(leati_layout_plan_get(copy->dst_layout, leati_layout_align(copy->dst), copy->src_layout,
                                        leati_layout_align(copy->src), &copy->plan, &copy->start));
    }
    if (copy->plan->form.empty)
        return LEAT_OK;
    LEATI_TRY(find_memory(copy));
    return choose_way(copy);
}

/* Memory that a copy uses, for guard mode (core/access.h). */
struct use {
    const char *name;
    const struct leati_target *target;
    size_t bytes;
    bool write;
    struct leati_access access;
};

/* The memory of a copy, in the order of the array; returns how many. */
static unsigned list_uses(const struct leati_layout_copy *copy, struct use uses[4])
{
    const leat_layout *listed = leati_layout_listed(copy->dst_layout, copy->src_layout);
    unsigned count = 0;

    uses[count++] = (struct use){.name = "dst", .target = &copy->to, .bytes = copy->dst_bytes, .write = true};
    uses[count++] = (struct use){.name = "src", .target = &copy->from, .bytes = copy->src_bytes};
    if (copy->list_place != LEATI_LIST_ON_DEVICE)
        return count;
    uses[count++] = (struct use){.name = "the list of indices",
                                 .target = &copy->list,
                                 .bytes = (size_t)listed->size[listed->index_dim] * listed->index_bytes};
    if (listed->index_wrong)
        uses[count++] = (struct use){
            .name = "index_wrong", .target = &copy->wrong, .bytes = sizeof *listed->index_wrong, .write = true};
    return count;
}

static leat_status run(struct leati_layout_copy *copy)
{
    const struct leati_target *to = &copy->to, *from = &copy->from;
    struct use uses[4];
    leat_status status;
    unsigned count;

    if (copy->plan->form.empty)
        return LEAT_OK;
    if (to->end.device && from->end.device && to->end.device != from->end.device)
        LEATI_TRY(leati_enable_peers(to->device, from->device));
    count = list_uses(copy, uses);
    for (unsigned i = 0; i < count; i++)
        LEATI_TRY(leati_may_use(&uses[i].access, copy->stream, uses[i].name, uses[i].target, uses[i].bytes,
                                uses[i].write));
    status = leati_layout_run(copy);
    leati_order_given(copy->stream->order);
    LEATI_TRY(status);
    for (unsigned i = 0; i < count; i++)
        leati_was_used(&uses[i].access, copy->stream, uses[i].target, uses[i].bytes, uses[i].write);
    return LEAT_OK;
}

static leat_status make_and_run(struct leati_layout_copy *copy, const leat_layout_plan *plan)
{
    leat_status status = make(copy, plan);

    if (status == LEAT_OK)
        status = run(copy);
    if (copy->plan)
        leati_layout_plan_drop(copy->plan);
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
    struct leati_layout_copy copy = {
        .stream = stream, .dst = dst, .src = src, .dst_layout = dst_layout, .src_layout = src_layout};
    leat_status status;

    LEATI_TRY(check_call("leat_copy_layout", stream, dst_layout, src_layout));
    status = make_and_run(&copy, NULL);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_copy_layout on %s", stream->device->name);
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

leat_status leat_layout_plan_get(leat_device *device, const leat_layout *dst_layout, size_t dst_align,
                                 const leat_layout *src_layout, size_t src_align, leat_layout_plan **plan)
{
    static const char what[] = "leat_layout_plan_get";
    struct leat_layout_plan *made;
    leat_status status;

    LEATI_TRY(leati_check_device(what, device));
    LEATI_TRY(leati_check_not_null(what, "dst_layout", dst_layout));
    LEATI_TRY(leati_check_not_null(what, "src_layout", src_layout));
    LEATI_TRY(leati_check_not_null(what, "plan", plan));
    made = leati_handle_new(&plan_handles);
    if (!made)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "leat_layout_plan_get: no memory for the handle");
    made->device = device;
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
    struct leati_layout_copy copy = {.stream = stream, .dst = dst, .src = src};
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_layout_plan_copy"));
    LEATI_TRY(leati_check_stream("leat_layout_plan_copy", stream));
    LEATI_TRY(check_plan("leat_layout_plan_copy", plan));
    if (!plan->plan->form.empty && ((uintptr_t)dst % plan->dst_align || (uintptr_t)src % plan->src_align))
        return leati_fail(LEAT_ERROR_INVALID,
                          "leat_layout_plan_copy: dst %p and src %p; the plan is for multiples of %zu and %zu",
                          dst, src, plan->dst_align, plan->src_align);
    copy.dst_layout = &plan->dst_layout;
    copy.src_layout = &plan->src_layout;
    status = make_and_run(&copy, plan);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_layout_plan_copy on %s", stream->device->name);
}

leat_status leat_layout_plan_describe(const leat_layout_plan *plan, leat_layout_plan_info *info)
{
    LEATI_TRY(check_plan("leat_layout_plan_describe", plan));
    LEATI_TRY(leati_check_not_null("leat_layout_plan_describe", "info", info));
    *info = (leat_layout_plan_info){.class_of_plan = plan->plan->class_of_plan,
                                    .payload_bytes = plan->plan->form.payload_bytes,
                                    .read_sectors = leati_layout_plan_reads(plan->plan, &plan->start),
                                    .written_sectors = leati_layout_plan_writes(plan->plan, &plan->start)};
    return LEAT_OK;
}

static leat_status check_text(const char *what, const char *text, size_t text_bytes)
{
    LEATI_TRY(leati_check_not_null(what, "text", text));
    if (!text_bytes)
        return leati_fail(LEAT_ERROR_INVALID, "%s: text_bytes is 0; a thousand are enough", what);
    return LEAT_OK;
}

leat_status leat_layout_plan_text(const leat_layout_plan *plan, char *text, size_t text_bytes)
{
    LEATI_TRY(check_plan("leat_layout_plan_text", plan));
    LEATI_TRY(check_text("leat_layout_plan_text", text, text_bytes));
    leati_layout_plan_text(plan->plan, &plan->start, !is_cpu(plan->device), text, text_bytes);
    return LEAT_OK;
}

leat_status leat_layout_plan_free(leat_layout_plan *plan)
{
    struct leati_layout_plan *kept;

    if (!plan)
        return LEAT_OK;
    if (!leati_handle_live(&plan_handles, plan))
        return check_plan("leat_layout_plan_free", plan);
    kept = plan->plan;
    if (!leati_handle_retire(&plan_handles, plan))
        return check_plan("leat_layout_plan_free", plan);
    leati_layout_plan_drop(kept);
    leati_handle_free(&plan_handles, plan);
    return LEAT_OK;
}

/* ---- in words ---- */

static const char *path_of(const struct leati_layout_copy *copy)
{
    switch (copy->way) {
    case LEATI_LAYOUT_BY_CPU:
        return "the device's threads, in one pass";
    case LEATI_LAYOUT_BY_KERNEL:
        return "one kernel";
    case LEATI_LAYOUT_IN_WHOLE:
        return "all from the source's first byte to its last into memory of the stream's device, then one kernel";
    case LEATI_LAYOUT_IN_PACKED:
        return copy->stager
                   ? "packed into pinned memory by leat's threads, from there by one kernel"
                   : "packed into pinned memory by a host function of the stream, from there by one kernel";
    case LEATI_LAYOUT_OUT_WHOLE:
        return "one kernel into memory of the stream's device that lies like the destination, then one copy";
    case LEATI_LAYOUT_OUT_PACKED:
        return copy->stager ? "one kernel into pinned memory, from there to their places by leat's threads"
                            : "one kernel into pinned memory, from there to their places by a host function";
    default:
        return copy->stager ? "leat's threads, in one pass" : "a host function of the stream, in one pass";
    }
}

static leat_status explain(struct leati_layout_copy *copy, char *text, size_t text_bytes)
{
    struct leati_text out = {.at = text, .left = text_bytes};

    LEATI_TRY(make(copy, NULL));
    if (copy->plan->form.empty) {
        leati_text_add(&out, "nothing to do: a size is 0\n");
        return LEAT_OK;
    }
    leati_text_add(&out, "path   %s\nwhy    %s\n", path_of(copy), copy->why);
    leati_layout_plan_text(copy->plan, &copy->start,
                           copy->way != LEATI_LAYOUT_BY_CPU && copy->way != LEATI_LAYOUT_ON_HOST, out.at,
                           out.left);
    return LEAT_OK;
}

leat_status leat_copy_layout_explain(leat_stream *stream, void *dst, const leat_layout *dst_layout,
                                     const void *src, const leat_layout *src_layout, char *text, size_t text_bytes)
{
    static const char what[] = "leat_copy_layout_explain";
    struct leati_layout_copy copy = {
        .stream = stream, .dst = dst, .src = src, .dst_layout = dst_layout, .src_layout = src_layout};
    leat_status status;

    LEATI_TRY(check_call(what, stream, dst_layout, src_layout));
    LEATI_TRY(check_text(what, text, text_bytes));
    text[0] = '\0';
    status = explain(&copy, text, text_bytes);
    if (copy.plan)
        leati_layout_plan_drop(copy.plan);
    return status == LEAT_OK ? status : leati_fail_in(status, "%s on %s", what, stream->device->name);
}
