/* model_load.c - loads: turns items into reads, and reads into batches, which each have a ticket. */
#include "model_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- loads ---- */

leat_status leatm_load_create(const char *what, const leat_model_options *options, leat_model_load **load)
{
    leat_model_options known = LEAT_MODEL_OPTIONS_INIT;
    leat_model_load *made;

    if (options) {
        leat_status status = leatm_sized_check("options->size", "leat_model_options", options, sizeof known);

        if (status != LEAT_OK)
            return leatm_model_fail_in(status, "%s", what);
        leatm_sized_read(&known, sizeof known, options);
    }
    made = calloc(1, sizeof *made);
    if (!made)
        return leatm_model_fail(LEAT_ERROR_HOST_MEMORY, "%s: no memory for the load", what);
    made->end_ns = known.deadline_ns ? leatm_end_ns(known.deadline_ns) : 0;
    *load = made;
    return LEAT_OK;
}

static int compare_reads(const void *a, const void *b)
{
    const struct leatm_read *left = a, *right = b;

    if (left->stream != right->stream)
        return (uintptr_t)left->stream < (uintptr_t)right->stream ? -1 : 1;
    if (left->file_number != right->file_number)
        return left->file_number < right->file_number ? -1 : 1;
    if (left->offset != right->offset)
        return left->offset < right->offset ? -1 : 1;
    return left->bytes < right->bytes ? -1 : left->bytes > right->bytes;
}

/* Returns true if read continues before in the file and at the destination, so that
 * leat_file_read_batch_start() can merge them. */
static bool continues(const struct leatm_read *before, const struct leatm_read *read)
{
    return read->stream == before->stream && read->file_number == before->file_number &&
           read->offset == before->offset + before->bytes && read->dst == before->dst + before->bytes;
}

/* Starts one batch: the reads at the beginning of a sorted list that belong to one stream. *taken receives their
 * number. ops has room for LEATM_BATCH_MAX. */
static leat_status start_batch(leat_model_load *load, const struct leatm_read *reads, size_t count,
                               leat_file_op *ops, size_t *taken)
{
    leat_copy_options options = LEAT_COPY_OPTIONS_INIT;
    leat_ticket *ticket;
    uint64_t bytes = 0, ranges = 0, now;
    size_t used = 0;

    while (used < count && used < LEATM_BATCH_MAX && reads[used].stream == reads[0].stream) {
        const struct leatm_read *read = &reads[used];

        ranges += !used || !continues(read - 1, read);
        bytes += read->bytes;
        ops[used++] = (leat_file_op){
            .file = read->file, .offset = read->offset, .memory = read->dst, .bytes = (size_t)read->bytes};
    }
    if (load->end_ns) {
        now = leatm_now_ns();
        options.deadline_ns = load->end_ns > now ? load->end_ns - now : 1;
    }
    TRY(leatm_model_room(&load->tickets, &load->room, load->count, sizeof *load->tickets));
    TRY(leat_file_read_batch_start(reads[0].stream, ops, used, &options, &ticket));
    load->tickets[load->count++] = ticket;
    load->bytes += bytes;
    load->reads += ranges;
    *taken = used;
    return LEAT_OK;
}

leat_status leatm_load_reads(leat_model_load *load, struct leatm_read *reads, size_t count)
{
    leat_file_op *ops;
    leat_status status = LEAT_OK;
    size_t taken;

    if (!count)
        return LEAT_OK;
    ops = malloc((count < LEATM_BATCH_MAX ? count : LEATM_BATCH_MAX) * sizeof *ops);
    if (!ops)
        return leatm_model_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a list of %zu reads", count);
    if (count > 1)
        qsort(reads, count, sizeof *reads, compare_reads);
    for (size_t i = 0; i < count && status == LEAT_OK; i += taken) {
        taken = 0;
        status = start_batch(load, reads + i, count - i, ops, &taken);
    }
    free(ops);
    return status;
}

leat_status leatm_load_event(leat_model_load *load, leat_stream *stream)
{
    leat_device *device;
    leat_event *event;
    leat_status status;

    TRY(leatm_model_room(&load->events, &load->event_room, load->event_count, sizeof *load->events));
    TRY(leat_stream_device(stream, &device));
    TRY(leat_event_create(device, &event));
    status = leat_event_record(stream, event);
    if (status != LEAT_OK) {
        leat_event_destroy(event);
        return status;
    }
    load->events[load->event_count++] = event;
    return LEAT_OK;
}

/* ---- items ---- */

static leat_status check_item(const leat_model_item *item)
{
    if (!item->stream)
        return leatm_model_fail(LEAT_ERROR_INVALID, "its stream is NULL");
    return LEAT_OK;
}

static leat_status item_failed(const leat_model *model, const leat_model_item *item, size_t index,
                               leat_status status)
{
    struct leatm_shown shown;
    const char *name =
        item->tensor < model->count ? leatm_tensor_name(model, &model->tensors[item->tensor]) : "(no such)";

    return leatm_model_fail_in(status, "item %zu, tensor %s", index, leatm_shown(&shown, name, strlen(name)));
}

/* The destination of an item without a layout, which is contiguous. */
struct taken {
    const char *at;
    uint64_t bytes;
    size_t item;
};

static int compare_taken(const void *a, const void *b)
{
    const struct taken *left = a, *right = b;

    return (uintptr_t)left->at < (uintptr_t)right->at ? -1 : left->at != right->at;
}

static leat_status check_overlaps(struct taken *taken, size_t count)
{
    if (count > 1)
        qsort(taken, count, sizeof *taken, compare_taken);
    for (size_t i = 1; i < count; i++)
        if ((uintptr_t)taken[i].at - (uintptr_t)taken[i - 1].at < taken[i - 1].bytes)
            return leatm_model_fail(LEAT_ERROR_OVERLAP, "items %zu and %zu overlap at %p", taken[i - 1].item,
                                    taken[i].item, (const void *)taken[i].at);
    return LEAT_OK;
}

/* The work for all items: staged regions, direct reads, and the destinations for the overlap check. */
struct work {
    struct leatm_region *staged;
    size_t *staged_item;
    size_t staged_count, staged_room, staged_item_room;
    struct leatm_read *reads;
    size_t count, room;
    struct taken *taken;
    size_t taken_count;
};

static leat_status add_region(const leat_model *model, const leat_model_item *item, size_t index,
                              const struct leatm_region *region, struct work *work)
{
    struct leatm_read read = {.stream = item->stream, .file_number = model->tensors[item->tensor].file};
    uint64_t row_bytes, rows;

    if (!item->layout)
        work->taken[work->taken_count++] = (struct taken){item->dst, region->bytes, index};
    if (region->staged) {
        TRY(leatm_model_room(&work->staged, &work->staged_room, work->staged_count, sizeof *work->staged));
        TRY(leatm_model_room(&work->staged_item, &work->staged_item_room, work->staged_count,
                             sizeof *work->staged_item));
        work->staged_item[work->staged_count] = index;
        work->staged[work->staged_count++] = *region;
        return LEAT_OK;
    }
    read.file = model->files[read.file_number].file;
    rows = leatm_region_rows(region, &row_bytes);
    for (uint64_t row = 0; row < rows; row++) {
        TRY(leatm_model_room(&work->reads, &work->room, work->count, sizeof *work->reads));
        leatm_region_row(region, row, &read);
        work->reads[work->count++] = read;
    }
    return LEAT_OK;
}

static leat_status plan(const leat_model *model, const leat_model_item *items, size_t count, struct work *work)
{
    work->taken = malloc((count ? count : 1) * sizeof *work->taken);
    if (!work->taken)
        return leatm_model_fail(LEAT_ERROR_HOST_MEMORY, "no memory for %zu items", count);
    for (size_t i = 0; i < count; i++) {
        struct leatm_region region;
        leat_status status = check_item(&items[i]);

        if (status == LEAT_OK)
            status = leatm_region_make(model, &items[i], &region);
        if (status == LEAT_OK && region.bytes)
            status = add_region(model, &items[i], i, &region, work);
        if (status != LEAT_OK)
            return item_failed(model, &items[i], i, status);
    }
    return check_overlaps(work->taken, work->taken_count);
}

static leat_status submit(leat_model_load *load, const leat_model *model, const leat_model_item *items,
                          struct work *work)
{
    TRY(leatm_load_reads(load, work->reads, work->count));
    for (size_t i = 0; i < work->staged_count; i++) {
        const leat_model_item *item = &items[work->staged_item[i]];
        leat_status status = leatm_region_stage(load, model, item, &work->staged[i]);

        /* Consecutive items of one stream share one event, which follows their last copy. */
        if (status == LEAT_OK &&
            (i + 1 == work->staged_count || items[work->staged_item[i + 1]].stream != item->stream))
            status = leatm_load_event(load, item->stream);
        if (status != LEAT_OK)
            return item_failed(model, item, work->staged_item[i], status);
    }
    return LEAT_OK;
}

leat_status leat_model_load_start(const leat_model *model, const leat_model_item *items, size_t count,
                                  const leat_model_options *options, leat_model_load **load)
{
    struct work work = {0};
    leat_model_item *known = NULL;
    leat_model_load *made = NULL;
    leat_status status;

    if (!model || !load || (!items && count))
        return leatm_model_fail(LEAT_ERROR_INVALID, "leat_model_load_start: %s is NULL",
                                !model  ? "model"
                                : !load ? "load"
                                        : "items");
    TRY(leatm_load_create("leat_model_load_start", options, &made));
    status = leatm_sized_read_list("leat_model_item", items, count, sizeof *known, (void **)&known);
    if (status == LEAT_OK)
        status = plan(model, known, count, &work);
    if (status == LEAT_OK)
        status = submit(made, model, known, &work);
    free(known);
    free(work.staged);
    free(work.staged_item);
    free(work.reads);
    free(work.taken);
    if (status != LEAT_OK) {
        status = leatm_model_fail_in(status, "leat_model_load_start");
        (void)leat_model_load_cancel(made);
        (void)leat_model_load_destroy(made);
        return status;
    }
    *load = made;
    return LEAT_OK;
}

/* ---- running loads ---- */

static leat_status no_load(const char *what)
{
    return leatm_model_fail(LEAT_ERROR_INVALID, "%s: load is NULL", what);
}

/* Waits for an event until end_ns. It polls, because leat_event_synchronize() takes no timeout. */
static leat_status wait_for_event(leat_event *event, uint64_t end_ns)
{
    const struct timespec moment = {0, 100000};

    if (end_ns == UINT64_MAX)
        return leat_event_synchronize(event);
    for (;;) {
        leat_status status = leat_event_query(event);

        if (status != LEAT_NOT_READY || leatm_now_ns() >= end_ns)
            return status;
        nanosleep(&moment, NULL);
    }
}

/* The first of several failures, with its message. */
struct first_failure {
    leat_status status;
    char message[1800];
};

static void note(struct first_failure *first, leat_status status)
{
    if (status >= LEAT_OK || first->status != LEAT_OK)
        return;
    first->status = status;
    strncpy(first->message, leat_last_error(), sizeof first->message - 1);
    first->message[sizeof first->message - 1] = '\0';
}

leat_status leat_model_load_wait(leat_model_load *load, leat_copy_point point, uint64_t timeout_ns)
{
    struct first_failure first = {.status = LEAT_OK};
    uint64_t end_ns = leatm_end_ns(timeout_ns), now;

    if (!load)
        return no_load("leat_model_load_wait");
    if (point != LEAT_COPY_POINT_STAGED && point != LEAT_COPY_POINT_DONE)
        return leatm_model_fail(LEAT_ERROR_INVALID,
                                "leat_model_load_wait: point is %d; use LEAT_COPY_POINT_STAGED or LEAT_COPY_POINT_DONE",
                                (int)point);
    for (size_t i = 0; i < load->count; i++) {
        uint64_t left = LEAT_FOREVER;
        leat_status status;

        if (end_ns != UINT64_MAX) {
            now = timeout_ns ? leatm_now_ns() : end_ns;
            left = end_ns > now ? end_ns - now : 0;
        }
        status = leat_ticket_wait(load->tickets[i], point, left);
        if (status == LEAT_NOT_READY)
            return status;
        note(&first, status);
    }
    for (size_t i = 0; point == LEAT_COPY_POINT_DONE && i < load->event_count; i++) {
        leat_status status = wait_for_event(load->events[i], end_ns);

        if (status == LEAT_NOT_READY)
            return status;
        note(&first, status);
    }
    if (first.status == LEAT_OK)
        return LEAT_OK;
    (void)leat_error_set(first.status, first.message);
    return leatm_model_fail_in(first.status, "leat_model_load_wait");
}

leat_status leat_model_load_get_info(leat_model_load *load, leat_model_load_info *info)
{
    leat_model_load_info full = LEAT_MODEL_LOAD_INFO_INIT;

    if (!load)
        return no_load("leat_model_load_get_info");
    if (!info)
        return leatm_model_fail(LEAT_ERROR_INVALID, "leat_model_load_get_info: info is NULL");
    TRY(leatm_sized_check("leat_model_load_get_info: info->size", "leat_model_load_info", info, sizeof full));
    full.bytes = load->bytes;
    full.reads = (size_t)load->reads;
    full.staged = full.done = 1;
    for (size_t i = 0; i < load->count; i++) {
        leat_ticket_info ticket = LEAT_TICKET_INFO_INIT;

        TRY(leat_ticket_get_info(load->tickets[i], &ticket));
        full.arrived_bytes += ticket.arrived_bytes;
        full.staged = full.staged && ticket.staged;
        full.done = full.done && ticket.done;
        if (full.status == LEAT_OK)
            full.status = ticket.status;
    }
    for (size_t i = 0; i < load->event_count && full.done; i++)
        full.done = leat_event_query(load->events[i]) != LEAT_NOT_READY;
    leatm_sized_write(info, &full, sizeof full);
    return LEAT_OK;
}

leat_status leat_model_load_cancel(leat_model_load *load)
{
    if (!load)
        return no_load("leat_model_load_cancel");
    for (size_t i = 0; i < load->count; i++)
        TRY(leat_ticket_cancel(load->tickets[i]));
    return LEAT_OK;
}

leat_status leat_model_load_destroy(leat_model_load *load)
{
    if (!load)
        return LEAT_OK;
    for (size_t i = 0; i < load->count; i++)
        (void)leat_ticket_destroy(load->tickets[i]);
    for (size_t i = 0; i < load->event_count; i++)
        (void)leat_event_destroy(load->events[i]);
    free(load->tickets);
    free(load->events);
    free(load);
    return LEAT_OK;
}
