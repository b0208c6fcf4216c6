/*
 * layout_batch.c - implements leat_copy_layouts(), which makes many copies between layouts at once.
 *
 * All copies are checked and planned before the first one is submitted. Copies with the same plan, the same
 * conversion and the protocol KERNEL form a group, which one launch makes if it has room for their addresses. On
 * a GPU a group has a plan of its own, because a launch of many copies needs fewer blocks for each of them, and
 * because not all kernels can make several copies. All other copies are submitted one by one.
 */
#include "base/assert.h"
#include "base/sized.h"
#include "copy/layout.h"

#include <leat/layout.h>

#include <stdlib.h>
#include <string.h>

/* Larger copies are made one by one if a group would need another, slower kernel than one copy: then a launch
 * costs less than the slower kernel. Not measured yet. */
#define OTHER_KERNEL_MOST_BYTES ((uint64_t)512 << 10)

/* The plan of a group is for a power of two of copies, at most this number, so that there are few plans. */
#define PLANNED_COPIES_MOST 64u

/* The number of shapes among which a copy looks for its own. */
#define SHAPES_LOOKED 16

/* What copies with the same layouts share. */
struct layout_batch_shape {
    const leat_layout *dst_layout, *src_layout;
    const leat_conversion *conversion;
    size_t dst_align, src_align;
    struct leati_layout_plan *layouts; /* with a reference */
    struct leati_layout_start start;
    struct leati_convert convert;
    struct leati_factors *factors; /* NULL without a conversion */
    bool owns_factors;             /* false: they are those of another shape */
};

struct layout_batch_entry {
    struct leati_layout_copy copy; /* must be the first member */
    struct leati_transfer_use use;
    bool together;                  /* the copy belongs to a group */
    size_t group_count;             /* only in the first entry of a group: the number of its copies */
    struct leati_layout_plan *plan; /* only there, and only on a GPU: the group's plan, with a reference */
};

struct layout_batch {
    leat_stream *stream;
    size_t count;
    struct layout_batch_entry *entries;
    struct layout_batch_shape *shapes;
    size_t shape_count;
    /* The copies of all groups, in which each group is contiguous. */
    struct leati_layout_copy **order;
    size_t order_count;
};

/* ---- shapes ---- */

static bool same_factors(const struct leati_factors *a, const struct leati_factors *b)
{
    return a->count == b->count && !memcmp(a->scale, b->scale, a->count * sizeof a->scale[0]) &&
           !memcmp(a->bias, b->bias, a->count * sizeof a->bias[0]);
}

static size_t first_looked(const struct layout_batch *batch)
{
    return batch->shape_count > SHAPES_LOOKED ? batch->shape_count - SHAPES_LOOKED : 0;
}

/* Lets a new shape share the factors of an earlier one if they are equal, so that their copies form a group. */
static void share_factors(const struct layout_batch *batch, struct layout_batch_shape *shape)
{
    for (size_t i = first_looked(batch); shape->factors && i < batch->shape_count; i++) {
        struct layout_batch_shape *other = &batch->shapes[i];

        if (!other->factors || !same_factors(other->factors, shape->factors))
            continue;
        free(shape->factors);
        shape->factors = other->factors;
        shape->owns_factors = false;
        return;
    }
}

static leat_status make_shape(struct layout_batch *batch, struct leati_layout_copy *copy,
                              const leat_conversion *conversion, struct layout_batch_shape *shape)
{
    leat_status status;

    shape->dst_layout = copy->dst_layout;
    shape->src_layout = copy->src_layout;
    shape->conversion = conversion;
    shape->dst_align = leati_layout_align(copy->dst);
    shape->src_align = leati_layout_align(copy->src);
    shape->factors = NULL;
    if (conversion) {
        LEATI_TRY(LEATI_SIZED_CHECK("the copy", "conversion", leat_conversion, conversion));
        shape->factors = malloc(sizeof *shape->factors);
        if (!shape->factors)
            return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the numbers of a conversion");
    }
    shape->owns_factors = conversion != NULL;
    status = leati_layout_find(copy, conversion, shape->factors);
    if (status != LEAT_OK) {
        free(shape->factors);
        return status;
    }
    shape->layouts = copy->layouts;
    shape->start = copy->start;
    shape->convert = copy->convert;
    share_factors(batch, shape);
    return LEAT_OK;
}

/* Sets the layouts and the conversion of a copy: those of an earlier copy with the same structs, or new ones. */
static leat_status take_shape(struct layout_batch *batch, struct leati_layout_copy *copy,
                              const leat_conversion *conversion)
{
    struct layout_batch_shape *shape = NULL;

    for (size_t i = batch->shape_count; i > first_looked(batch) && !shape; i--) {
        struct layout_batch_shape *other = &batch->shapes[i - 1];

        if (other->dst_layout == copy->dst_layout && other->src_layout == copy->src_layout &&
            other->conversion == conversion && other->dst_align == leati_layout_align(copy->dst) &&
            other->src_align == leati_layout_align(copy->src))
            shape = other;
    }
    if (!shape) {
        shape = &batch->shapes[batch->shape_count];
        LEATI_TRY(make_shape(batch, copy, conversion, shape));
        batch->shape_count++;
    }
    copy->layouts = shape->layouts;
    copy->start = shape->start;
    copy->conversion = conversion;
    copy->convert = shape->convert;
    copy->factors = shape->factors;
    return LEAT_OK;
}

/* ---- checks and plans ---- */

static leat_status make_entry(struct layout_batch *batch, const leat_layout_copy *given,
                              struct layout_batch_entry *entry)
{
    struct leati_layout_copy *copy = &entry->copy;

    LEATI_TRY(leati_check_not_null("the copy", "dst_layout", given->dst_layout));
    LEATI_TRY(leati_check_not_null("the copy", "src_layout", given->src_layout));
    copy->plan.transfer.stream = batch->stream;
    copy->dst = given->dst;
    copy->src = given->src;
    copy->dst_layout = given->dst_layout;
    copy->src_layout = given->src_layout;
    LEATI_TRY(take_shape(batch, copy, given->conversion));
    if (copy->layouts->canonical.empty)
        return LEAT_OK;
    LEATI_TRY(leati_layout_choose(copy));
    return leati_transfer_may_start(&copy->plan.transfer, &entry->use);
}

static leat_status make_entries(struct layout_batch *batch, const leat_layout_copy *given)
{
    for (size_t i = 0; i < batch->count; i++) {
        leat_status status = make_entry(batch, &given[i], &batch->entries[i]);

        if (status != LEAT_OK)
            return leati_fail_in(status, "copy %zu", i);
    }
    return LEAT_OK;
}

/* ---- groups ---- */

/* Returns true if the copy may be part of a group. Pageable memory on the CPU device needs a fault handler for
 * each copy. */
static bool may_join(const struct leati_layout_copy *copy)
{
    const struct leati_transfer *transfer = &copy->plan.transfer;

    return !copy->layouts->canonical.empty && copy->plan.protocol == LEATI_PROTOCOL_KERNEL &&
           copy->list_place == LEATI_LIST_NONE && !leati_is_pageable(&transfer->to) &&
           !leati_is_pageable(&transfer->from);
}

static int compare_pointers(const void *a, const void *b)
{
    return (uintptr_t)a < (uintptr_t)b ? -1 : (uintptr_t)a > (uintptr_t)b;
}

/* Compares by plan, then by factors; copies that are equal in both keep their order. */
static int compare_copies(const void *first, const void *second)
{
    const struct leati_layout_copy *a = *(struct leati_layout_copy *const *)first,
                                   *b = *(struct leati_layout_copy *const *)second;
    int order = compare_pointers(a->layouts, b->layouts);

    if (!order)
        order = compare_pointers(a->factors, b->factors);
    return order ? order : compare_pointers(a, b);
}

static bool same_group(const struct leati_layout_copy *a, const struct leati_layout_copy *b)
{
    return a->layouts == b->layouts && a->factors == b->factors;
}

static struct layout_batch_entry *entry_of(struct leati_layout_copy *copy)
{
    return (struct layout_batch_entry *)copy;
}

/* Finds the plan for count copies like this one. Sets *plan to NULL if they are better made one by one. */
static leat_status plan_group(const struct leati_layout_copy *copy, size_t count, struct leati_layout_plan **plan)
{
    struct leati_layout_start start;
    uint32_t copies = 2;

    while (copies < PLANNED_COPIES_MOST && copies * 2 <= count)
        copies *= 2;
    LEATI_TRY(leati_layout_plan_get_copies(copy->dst_layout, leati_layout_align(copy->dst), copy->src_layout,
                                           leati_layout_align(copy->src), &copy->convert, copies, plan, &start));
    leati_assert(start.dst == copy->start.dst && start.src == copy->start.src);
    if ((*plan)->gpu.most_copies > 1 && (!strcmp((*plan)->gpu.kernel, copy->layouts->gpu.kernel) ||
                                         copy->layouts->canonical.payload_bytes <= OTHER_KERNEL_MOST_BYTES))
        return LEAT_OK;
    leati_layout_plan_drop(*plan);
    *plan = NULL;
    return LEAT_OK;
}

/* Makes a group of count copies, or leaves them to be made one by one. */
static leat_status make_group(struct leati_layout_copy **copies, size_t count)
{
    struct layout_batch_entry *first = entry_of(copies[0]);

    if (!first->copy.plan.one_pass) {
        LEATI_TRY(plan_group(copies[0], count, &first->plan));
        if (!first->plan)
            return LEAT_OK;
    }
    first->group_count = count;
    for (size_t i = 0; i < count; i++)
        entry_of(copies[i])->together = true;
    return LEAT_OK;
}

static leat_status make_groups(struct layout_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (may_join(&batch->entries[i].copy))
            batch->order[batch->order_count++] = &batch->entries[i].copy;
    qsort(batch->order, batch->order_count, sizeof batch->order[0], compare_copies);
    for (size_t first = 0, end; first < batch->order_count; first = end) {
        end = first + 1;
        while (end < batch->order_count && same_group(batch->order[first], batch->order[end]))
            end++;
        if (end - first > 1)
            LEATI_TRY(make_group(batch->order + first, end - first));
    }
    return LEAT_OK;
}

/* ---- submitting ---- */

static void trace_group(struct leati_layout_copy *const *copies, size_t count, leat_status status)
{
    leat_stream *stream = copies[0]->plan.transfer.stream;

    leati_span_work_ends(&stream->traced);
    leati_span_stream(&stream->traced);
    for (size_t i = 0; i < count && status == LEAT_OK; i++)
        leati_plan_trace(&copies[i]->plan);
}

static leat_status run_group(struct leati_layout_copy **copies, size_t count, const struct leati_layout_plan *plan)
{
    leat_stream *stream = copies[0]->plan.transfer.stream;
    leat_status status;

    if (leati_traced())
        leati_span_work_begins(&stream->traced);
    status = leati_layout_run_batch(copies, count, plan);
    if (leati_traced())
        trace_group(copies, count, status);
    leati_timeline_submitted(stream->timeline);
    if (status != LEAT_OK)
        return leati_fail_in(status, "kernel for %zu copies", count);
    for (size_t i = 0; i < count; i++)
        leati_transfer_was_submitted(&copies[i]->plan.transfer, &entry_of(copies[i])->use, false);
    return LEAT_OK;
}

static leat_status run_all(struct layout_batch *batch)
{
    for (size_t first = 0; first < batch->order_count; first++) {
        struct layout_batch_entry *entry = entry_of(batch->order[first]);

        if (entry->group_count)
            LEATI_TRY(run_group(batch->order + first, entry->group_count, entry->plan));
    }
    for (size_t i = 0; i < batch->count; i++) {
        struct layout_batch_entry *entry = &batch->entries[i];
        leat_status status = entry->together ? LEAT_OK : leati_layout_run(&entry->copy);

        if (status != LEAT_OK)
            return leati_fail_in(status, "copy %zu", i);
    }
    return LEAT_OK;
}

/* ---- the public call ---- */

static leat_status take_memory(struct layout_batch *batch)
{
    batch->entries = calloc(batch->count, sizeof *batch->entries);
    batch->shapes = calloc(batch->count, sizeof *batch->shapes);
    batch->order = calloc(batch->count, sizeof *batch->order);
    if (batch->entries && batch->shapes && batch->order)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the plans of the copies");
}

static void free_memory(struct layout_batch *batch)
{
    for (size_t i = 0; i < batch->order_count; i++)
        if (entry_of(batch->order[i])->plan)
            leati_layout_plan_drop(entry_of(batch->order[i])->plan);
    for (size_t i = 0; i < batch->shape_count; i++) {
        leati_layout_plan_drop(batch->shapes[i].layouts);
        if (batch->shapes[i].owns_factors)
            free(batch->shapes[i].factors);
    }
    free(batch->order);
    free(batch->shapes);
    free(batch->entries);
}

leat_status leat_copy_layouts(leat_stream *stream, const leat_layout_copy *copies, size_t count)
{
    static const char what[] = "leat_copy_layouts";
    struct layout_batch batch = {.stream = stream, .count = count};
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_LAYOUT, "leat_copy_layouts");
    LEATI_TRY(leati_check_permitted(what));
    LEATI_TRY(leati_check_stream(what, stream));
    if (!count)
        return LEAT_OK;
    LEATI_TRY(leati_check_not_null(what, "copies", copies));
    status = take_memory(&batch);
    if (status == LEAT_OK)
        status = make_entries(&batch, copies);
    if (status == LEAT_OK)
        status = make_groups(&batch);
    if (status == LEAT_OK)
        status = run_all(&batch);
    free_memory(&batch);
    return status == LEAT_OK ? status
                             : leati_fail_in(status, "%s of %zu copies on %s", what, count, stream->device->name);
}
