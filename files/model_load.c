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
        leat_status status = leatc_sized_check("options->size", "leat_model_options", options, sizeof known);

        if (status != LEAT_OK)
            return leatc_fail_in(status, "%s", what);
        leatc_sized_read(&known, sizeof known, options);
    }
    made = calloc(1, sizeof *made);
    if (!made)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "%s: no memory for the load", what);
    atomic_init(&made->holders, 1);
    made->end_ns = known.deadline_ns ? leatc_end_ns(known.deadline_ns) : 0;
    *load = made;
    return LEAT_OK;
}

static int compare_numbers(uint64_t left, uint64_t right)
{
    return left < right ? -1 : left > right;
}

/* By file and offset. */
static int compare_places(const void *a, const void *b)
{
    const struct leatm_read *left = a, *right = b;
    int files = compare_numbers(left->file_number, right->file_number);

    return files ? files : compare_numbers(left->offset, right->offset);
}

/* By stream, file and offset. */
static int compare_reads(const void *a, const void *b)
{
    const struct leatm_read *left = a, *right = b;
    int streams = compare_numbers((uintptr_t)left->stream, (uintptr_t)right->stream);

    return streams ? streams : compare_places(a, b);
}

/* Sorts the reads, unless they are in order already, as in most loads. */
static void sort_reads(struct leatm_read *reads, size_t count, int (*order)(const void *a, const void *b))
{
    for (size_t i = 1; i < count; i++)
        if (order(&reads[i - 1], &reads[i]) > 0) {
            qsort(reads, count, sizeof *reads, order);
            return;
        }
}

/* Returns true if read continues before in the file and at the destination, so that
 * leat_file_read_batch_start() can merge them. */
static bool continues(const struct leatm_read *before, const struct leatm_read *read)
{
    return read->stream == before->stream && read->file_number == before->file_number &&
           read->offset == before->offset + before->bytes && read->dst == before->dst + before->bytes;
}

/* Returns the options of a copy that starts now. */
static leat_copy_options options_of(const leat_model_load *load)
{
    leat_copy_options options = LEAT_COPY_OPTIONS_INIT;
    uint64_t now;

    if (load->end_ns) {
        now = leatc_now_ns();
        options.deadline_ns = load->end_ns > now ? load->end_ns - now : 1;
    }
    return options;
}

leat_status leatm_load_batch(leat_model_load *load, const struct leatm_read *reads, size_t count,
                             leat_file_op *ops, size_t *taken)
{
    leat_copy_options options = options_of(load);
    leat_ticket *ticket;
    uint64_t bytes = 0, ranges = 0;
    size_t used = 0;

    while (used < count && used < LEATM_BATCH_MAX && reads[used].stream == reads[0].stream) {
        const struct leatm_read *read = &reads[used];

        ranges += !used || !continues(read - 1, read);
        bytes += read->bytes;
        ops[used++] = (leat_file_op){
            .file = read->file, .offset = read->offset, .memory = read->dst, .bytes = (size_t)read->bytes};
    }
    TRY(leatm_model_room(&load->tickets, &load->room, load->count, sizeof *load->tickets));
    TRY(leat_file_read_batch_start(reads[0].stream, ops, used, &options, &ticket));
    load->tickets[load->count++] = ticket;
    load->bytes += bytes;
    load->reads += ranges;
    *taken = used;
    return LEAT_OK;
}

leat_status leatm_load_apart(leat_model_load *load, struct leatm_read *reads, size_t count)
{
    leat_file_op *ops;
    leat_status status = LEAT_OK;
    size_t taken;

    if (!count)
        return LEAT_OK;
    ops = malloc((count < LEATM_BATCH_MAX ? count : LEATM_BATCH_MAX) * sizeof *ops);
    if (!ops)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a list of %zu reads", count);
    sort_reads(reads, count, compare_reads);
    for (size_t i = 0; i < count && status == LEAT_OK; i += taken) {
        taken = 0;
        status = leatm_load_batch(load, reads + i, count - i, ops, &taken);
    }
    free(ops);
    return status;
}

leat_status leatm_load_reads(leat_model_load *load, struct leatm_read *reads, size_t count)
{
    uint64_t reach = 0;

    for (size_t i = 0; i < count; i++)
        reads[i].order = i;
    sort_reads(reads, count, compare_places);
    for (size_t i = 0; i < count; i++) {
        uint64_t end = reads[i].offset + reads[i].bytes;

        if (i && reads[i].file_number == reads[i - 1].file_number) {
            if (reads[i].offset < reach)
                return leatm_load_shared(load, reads, count);
            reach = end > reach ? end : reach;
        } else {
            reach = end;
        }
    }
    return leatm_load_apart(load, reads, count);
}

leat_status leatm_load_copy(leat_model_load *load, leat_stream *stream, char *dst, const char *src, size_t bytes,
                            bool followed)
{
    leat_copy_options options = options_of(load);
    leat_ticket *ticket;

    if (!followed)
        return leat_copy(stream, dst, src, bytes);
    TRY(leatm_model_room(&load->marks, &load->mark_room, load->mark_count, sizeof *load->marks));
    TRY(leat_copy_start(stream, dst, src, bytes, &options, &ticket));
    load->marks[load->mark_count++] = (struct leatm_mark){.ticket = ticket, .bytes = bytes};
    return LEAT_OK;
}

leat_status leatm_load_mark(leat_model_load *load, leat_stream *stream, uint64_t bytes)
{
    leat_device *device;
    leat_event *event;
    leat_status status;

    TRY(leatm_model_room(&load->marks, &load->mark_room, load->mark_count, sizeof *load->marks));
    TRY(leat_stream_device(stream, &device));
    TRY(leat_event_create(device, &event));
    status = leat_event_record(stream, event);
    if (status != LEAT_OK) {
        leat_event_destroy(event);
        return status;
    }
    load->marks[load->mark_count++] = (struct leatm_mark){.event = event, .bytes = bytes};
    return LEAT_OK;
}

/* ---- items ---- */

static leat_status check_item(const leat_model_item *item)
{
    if (!item->stream)
        return leatc_fail(LEAT_ERROR_INVALID, "its stream is NULL");
    return LEAT_OK;
}

static leat_status item_failed(const leat_model *model, const leat_model_item *item, size_t index,
                               leat_status status)
{
    struct leatc_shown shown;
    const char *name =
        item->tensor < model->count ? leatm_tensor_name(model, &model->tensors[item->tensor]) : "(no such)";

    return leatc_fail_in(status, "item %zu, tensor %s", index, leatc_shown(&shown, name, strlen(name)));
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
            return leatc_fail(LEAT_ERROR_OVERLAP, "items %zu and %zu overlap at %p", taken[i - 1].item,
                              taken[i].item, (const void *)taken[i].at);
    return LEAT_OK;
}

/* The work for all items: staged regions, direct reads, and the destinations for the overlap check. */
struct work {
    struct leatm_staged *staged;
    size_t staged_count, staged_room;
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
        work->staged[work->staged_count++] = (struct leatm_staged){*region, item, index, 0};
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
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for %zu items", count);
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

/* By tensor, stream and item. */
static int compare_staged(const void *a, const void *b)
{
    const struct leatm_staged *left = a, *right = b;
    int tensors = compare_numbers(left->item->tensor, right->item->tensor);
    int streams = compare_numbers((uintptr_t)left->item->stream, (uintptr_t)right->item->stream);

    return tensors ? tensors : streams ? streams : compare_numbers(left->index, right->index);
}

/* By tensor, rank and item. */
static int compare_ranks(const void *a, const void *b)
{
    const struct leatm_staged *left = a, *right = b;
    int tensors = compare_numbers(left->item->tensor, right->item->tensor);
    int ranks = compare_numbers(left->rank, right->rank);

    return tensors ? tensors : ranks ? ranks : compare_numbers(left->index, right->index);
}

static bool same_tensor(const struct leatm_staged *one, const struct leatm_staged *two)
{
    return one->item->tensor == two->item->tensor;
}

/* Sorts the staged regions into groups that are loaded together: each stream's first region of a tensor, then each
 * stream's second one, and so on. So a stream has temporary memory for one region at a time. */
static void sort_staged(struct leatm_staged *staged, size_t count)
{
    if (count < 2)
        return;
    qsort(staged, count, sizeof *staged, compare_staged);
    for (size_t i = 1; i < count; i++)
        if (same_tensor(&staged[i], &staged[i - 1]) && staged[i].item->stream == staged[i - 1].item->stream)
            staged[i].rank = staged[i - 1].rank + 1;
    qsort(staged, count, sizeof *staged, compare_ranks);
}

/* Starts the regions that need temporary memory, tensor by tensor. */
static leat_status submit_staged(leat_model_load *load, const leat_model *model, const struct work *work)
{
    size_t count;

    sort_staged(work->staged, work->staged_count);
    for (size_t i = 0; i < work->staged_count; i += count) {
        const struct leatm_staged *first = &work->staged[i];
        size_t failed = first->index;
        leat_status status;

        for (count = 1; i + count < work->staged_count && same_tensor(&first[count], first); count++)
            if (first[count].rank != first->rank)
                break;
        status = leatm_regions_stage(load, model, first, count, &failed);
        if (status != LEAT_OK)
            return item_failed(model, first->item, failed, status);
    }
    return LEAT_OK;
}

/* Marks the end of the layout copies on each stream that has some. */
static leat_status mark_staged(leat_model_load *load, const struct work *work)
{
    for (size_t i = 0; i < work->staged_count; i++) {
        bool last = true;

        for (size_t j = i + 1; j < work->staged_count && last; j++)
            last = work->staged[j].item->stream != work->staged[i].item->stream;
        if (last)
            TRY(leatm_load_mark(load, work->staged[i].item->stream, 0));
    }
    return LEAT_OK;
}

static leat_status submit(leat_model_load *load, const leat_model *model, const struct work *work)
{
    TRY(leatm_load_reads(load, work->reads, work->count));
    TRY(submit_staged(load, model, work));
    return mark_staged(load, work);
}

leat_status leat_model_load_start(const leat_model *model, const leat_model_item *items, size_t count,
                                  const leat_model_options *options, leat_model_load **load)
{
    struct work work = {0};
    leat_model_item *known = NULL;
    leat_model_load *made = NULL;
    leat_status status;

    if (!model || !load || (!items && count))
        return leatc_fail(LEAT_ERROR_INVALID, "leat_model_load_start: %s is NULL",
                          !model  ? "model"
                          : !load ? "load"
                                  : "items");
    TRY(leatm_load_create("leat_model_load_start", options, &made));
    status = leatm_sized_read_list("leat_model_item", items, count, sizeof *known, (void **)&known);
    if (status == LEAT_OK)
        status = plan(model, known, count, &work);
    if (status == LEAT_OK)
        status = submit(made, model, &work);
    free(known);
    free(work.staged);
    free(work.reads);
    free(work.taken);
    if (status != LEAT_OK) {
        status = leatc_fail_in(status, "leat_model_load_start");
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
    return leatc_fail(LEAT_ERROR_INVALID, "%s: load is NULL", what);
}

/* Waits for an event until end_ns. It polls, because leat_event_synchronize() takes no timeout. */
static leat_status wait_for_event(leat_event *event, uint64_t end_ns)
{
    const struct timespec moment = {0, 100000};

    for (;;) {
        leat_status status = end_ns == UINT64_MAX ? leat_event_synchronize(event) : leat_event_query(event);

        if (status == LEAT_ERROR_HANDLE)
            return LEAT_OK; /* its device was closed, which completes its work */
        if (status != LEAT_NOT_READY || leatc_now_ns() >= end_ns)
            return status;
        nanosleep(&moment, NULL);
    }
}

/* Returns the time that is left until end_ns. */
static uint64_t time_left(uint64_t end_ns)
{
    uint64_t now;

    if (end_ns == UINT64_MAX)
        return LEAT_FOREVER;
    now = leatc_now_ns();
    return end_ns > now ? end_ns - now : 0;
}

static leat_status wait_for_mark(const struct leatm_mark *mark, uint64_t end_ns)
{
    if (mark->event)
        return wait_for_event(mark->event, end_ns);
    return leat_ticket_wait(mark->ticket, LEAT_COPY_POINT_DONE, time_left(end_ns));
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
    uint64_t end_ns = leatc_end_ns(timeout_ns);

    if (!load)
        return no_load("leat_model_load_wait");
    if (point != LEAT_COPY_POINT_STAGED && point != LEAT_COPY_POINT_DONE)
        return leatc_fail(LEAT_ERROR_INVALID,
                          "leat_model_load_wait: point is %d; use LEAT_COPY_POINT_STAGED or LEAT_COPY_POINT_DONE",
                          (int)point);
    for (size_t i = 0; i < load->count; i++) {
        leat_status status = leat_ticket_wait(load->tickets[i], point, timeout_ns ? time_left(end_ns) : 0);

        if (status == LEAT_NOT_READY)
            return status;
        note(&first, status);
    }
    for (size_t i = 0; point == LEAT_COPY_POINT_DONE && i < load->mark_count; i++) {
        leat_status status = wait_for_mark(&load->marks[i], end_ns);

        if (status == LEAT_NOT_READY)
            return status;
        note(&first, status);
    }
    if (first.status == LEAT_OK)
        return LEAT_OK;
    (void)leat_error_set(first.status, first.message);
    return leatc_fail_in(first.status, "leat_model_load_wait");
}

/* Adds the progress of a mark. */
static leat_status look_at_mark(const struct leatm_mark *mark, leat_model_load_info *info)
{
    leat_ticket_info ticket = LEAT_TICKET_INFO_INIT;

    if (mark->ticket) {
        TRY(leat_ticket_get_info(mark->ticket, &ticket));
        info->copied_arrived_bytes += ticket.arrived_bytes;
        if (info->status == LEAT_OK)
            info->status = ticket.status;
    } else {
        ticket.done = leat_event_query(mark->event) != LEAT_NOT_READY;
        info->copied_arrived_bytes += ticket.done ? mark->bytes : 0;
    }
    info->done = info->done && ticket.done;
    return LEAT_OK;
}

leat_status leat_model_load_get_info(leat_model_load *load, leat_model_load_info *info)
{
    leat_model_load_info full = LEAT_MODEL_LOAD_INFO_INIT;

    if (!load)
        return no_load("leat_model_load_get_info");
    if (!info)
        return leatc_fail(LEAT_ERROR_INVALID, "leat_model_load_get_info: info is NULL");
    TRY(leatc_sized_check("leat_model_load_get_info: info->size", "leat_model_load_info", info, sizeof full));
    full.bytes = load->bytes;
    full.copied_bytes = load->copied_bytes;
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
    for (size_t i = 0; i < load->mark_count; i++)
        TRY(look_at_mark(&load->marks[i], &full));
    leatc_sized_write(info, &full, sizeof full);
    return LEAT_OK;
}

leat_status leat_model_load_cancel(leat_model_load *load)
{
    if (!load)
        return no_load("leat_model_load_cancel");
    for (size_t i = 0; i < load->count; i++)
        TRY(leat_ticket_cancel(load->tickets[i]));
    for (size_t i = 0; i < load->mark_count; i++)
        if (load->marks[i].ticket)
            TRY(leat_ticket_cancel(load->marks[i].ticket));
    return LEAT_OK;
}

leat_status leat_model_load_destroy(leat_model_load *load)
{
    /* Release and acquire: the last holder frees the load after all uses by the others. */
    if (!load || atomic_fetch_sub_explicit(&load->holders, 1, memory_order_acq_rel) != 1)
        return LEAT_OK;
    for (size_t i = 0; i < load->count; i++)
        (void)leat_ticket_destroy(load->tickets[i]);
    for (size_t i = 0; i < load->mark_count; i++) {
        (void)leat_event_destroy(load->marks[i].event);
        (void)leat_ticket_destroy(load->marks[i].ticket);
    }
    free(load->tickets);
    free(load->marks);
    free(load);
    return LEAT_OK;
}
