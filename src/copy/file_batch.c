/*
 * file_batch.c - copies between many ranges of files and many places in memory, as one copy.
 *
 * leat checks the ops together, sorts them by file and offset, and merges ops that are adjacent on both sides. The
 * result is one transfer for all memory of devices and one for all memory of the host. The storage (staging/job.h)
 * of each is a list of ranges, and the bytes of the transfer are the bytes of its ranges, one after the other. So
 * these transfers use rings, chunks, threads and tickets like any other copy. Ranges of a chunk that are adjacent
 * in a file are read with few system calls. Each range of a chunk goes to the device with a DMA of its own.
 */
#include "copy/file.h"

#include "base/assert.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_MOST LEATI_FILE_PARTS_MOST

/* ---- a list of ranges as storage ---- */

struct range {
    uint64_t start; /* offset in the copy */
    struct leati_open_file *open;
    uint64_t offset; /* in the file */
    struct leati_location at;
    size_t bytes;
    uint32_t number; /* index of the caller's op; if ops were merged, of the first of them */
};

struct range_list {
    atomic_uint holders; /* reference count: one for the call, one for the job */
    size_t count;
    uint64_t bytes;
    struct range ranges[];
};

/* Returns the index of the range that contains offset of the copy. */
static size_t find_range(const struct range_list *list, uint64_t offset)
{
    size_t low = 0, high = list->count;

    leati_assert(offset < list->bytes);
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (list->ranges[middle].start <= offset)
            low = middle;
        else
            high = middle;
    }
    leati_assert(offset - list->ranges[low].start < list->ranges[low].bytes);
    return low;
}

static struct leati_location locate(const void *object, size_t offset, size_t *bytes)
{
    const struct range_list *list = object;
    const struct range *range = &list->ranges[find_range(list, offset)];
    size_t within = offset - range->start;

    if (*bytes > range->bytes - within)
        *bytes = range->bytes - within;
    return leati_location_at(range->at, within);
}

/* A piece of the copy that is contiguous in a file. */
struct run {
    const struct range *first;
    uint64_t offset; /* in the file */
    size_t bytes;
    struct iovec parts[PARTS_MOST];
    unsigned count;
};

/* Fills *run with the longest run that starts at offset and has at most this many bytes. in_memory: also fills the
 * parts of the run with the places in memory. */
static void find_run(const struct range_list *list, uint64_t offset, size_t bytes, bool in_memory, struct run *run)
{
    size_t i = find_range(list, offset), within = offset - list->ranges[i].start;

    run->first = &list->ranges[i];
    run->offset = run->first->offset + within;
    run->bytes = 0;
    run->count = 0;
    do {
        const struct range *range = &list->ranges[i];
        size_t some = range->bytes - within < bytes - run->bytes ? range->bytes - within : bytes - run->bytes;

        if (in_memory)
            run->parts[run->count++] = (struct iovec){(char *)range->at.ptr + within, some};
        run->bytes += some;
        within = 0;
        i++;
    } while (run->bytes < bytes && run->count < PARTS_MOST && list->ranges[i].open == run->first->open &&
             list->ranges[i].offset == run->offset + run->bytes);
}

static size_t move(void *object, uint64_t offset, void *memory, size_t bytes, bool write, int *error)
{
    size_t moved = 0, some;
    struct run run;

    while (moved < bytes) {
        find_run(object, offset + moved, bytes - moved, !memory, &run);
        if (memory) {
            run.parts[0] = (struct iovec){(char *)memory + moved, run.bytes};
            run.count = 1;
        }
        some = leati_file_move(run.first->open, run.offset, run.parts, run.count, write, error);
        moved += some;
        if (some < run.bytes)
            break;
    }
    return moved;
}

static void describe(const void *object, uint64_t offset, bool write, int error, char *text, size_t text_bytes)
{
    const struct range_list *list = object;
    const struct range *range = &list->ranges[find_range(list, offset)];
    uint64_t within = offset - range->start;
    char why[360];

    leati_file_describe(range->open, range->offset + within, write, error, why, sizeof why);
    if (error == EFAULT)
        snprintf(text, text_bytes, "op %u: the memory at %p could not be reached (unmapped or protected)",
                 range->number, (void *)((char *)range->at.ptr + within));
    else
        snprintf(text, text_bytes, "op %u: %s", range->number, why);
}

static void hold(void *object)
{
    struct range_list *list = object;

    atomic_fetch_add_explicit(&list->holders, 1, memory_order_relaxed);
}

static void release(void *object)
{
    struct range_list *list = object;

    /* Release and acquire: the last holder frees the list after all uses by the others. */
    if (atomic_fetch_sub_explicit(&list->holders, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < list->count; i++)
        leati_file_release(list->ranges[i].open);
    free(list);
}

static void spoil(void *object)
{
    const struct range_list *list = object;

    for (size_t i = 0; i < list->count; i++)
        leati_file_spoil(list->ranges[i].open);
}

static const struct leati_storage_ops range_storage = {
    .move = move, .spoil = spoil, .describe = describe, .hold = hold, .release = release};

/* ---- the caller's ops ---- */

/* An op of the caller that is not empty. */
struct batch_entry {
    const leat_file_op *op;
    struct leati_endpoint endpoint;
    struct leati_access use;
    uint32_t number;
};

struct file_batch {
    leat_stream *stream;
    bool write;
    struct batch_entry *entries;
    const struct batch_entry **sorted;
    size_t count;
    struct range_list *lists[LEATI_TICKET_PLANS]; /* [0]: memory of devices, [1]: of the host; NULL: no ranges */
    struct leati_scatter scatters[LEATI_TICKET_PLANS];
    struct leati_plan plans[LEATI_TICKET_PLANS];
    unsigned plan_count;
};

static const char *side_name(const struct file_batch *batch)
{
    return batch->write ? "src" : "dst";
}

static bool is_host(const struct batch_entry *entry)
{
    return leati_is_on_host(&entry->endpoint);
}

/* The file of the previous op. */
struct known_file {
    const leat_file *file; /* its handle need not be checked again; NULL: there is no previous op */
    uint64_t bytes;        /* as *known_bytes of leati_file_check_range() */
};

/* Checks an op and finds its memory. */
static leat_status read_op(struct file_batch *batch, const leat_file_op *op, struct known_file *known,
                           struct batch_entry *entry)
{
    struct leati_driver *driver = batch->stream->device->driver;

    if (!op->file || op->file != known->file) {
        LEATI_TRY(leati_file_check("leat_file_op", op->file));
        *known = (struct known_file){.file = op->file};
    }
    leati_assert(op->file);
    LEATI_TRY(leati_file_check_range(op->file->open, op->offset, op->bytes, batch->write, &known->bytes));
    LEATI_TRY(leati_pointers_find_unread(driver, side_name(batch), op->memory, op->bytes, true, &entry->endpoint));
    LEATI_TRY(leati_check_reach(batch->stream, side_name(batch), &entry->endpoint));
    return leati_may_use(&entry->use, batch->stream, side_name(batch), &entry->endpoint, op->bytes, !batch->write);
}

static leat_status read_ops(struct file_batch *batch, const leat_file_op *ops, size_t count)
{
    struct known_file known = {.file = NULL};

    batch->entries = malloc(count * sizeof *batch->entries);
    batch->sorted = malloc(count * sizeof *batch->sorted);
    if (!batch->entries || !batch->sorted || count > UINT32_MAX)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a list of %zu ops", count);
    for (size_t i = 0; i < count; i++) {
        struct batch_entry *entry = &batch->entries[batch->count];
        leat_status status;

        if (!ops[i].bytes)
            continue;
        *entry = (struct batch_entry){.op = &ops[i], .number = (uint32_t)i};
        status = read_op(batch, &ops[i], &known, entry);
        if (status != LEAT_OK)
            return leati_fail_in(status, "op %zu", i);
        batch->sorted[batch->count++] = entry;
    }
    return LEAT_OK;
}

/* ---- order ---- */

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_memory(const void *a, const void *b)
{
    const struct batch_entry *const *first = a, *const *second = b;

    return compare((uintptr_t)(*first)->op->memory, (uintptr_t)(*second)->op->memory);
}

static int by_file(const void *a, const void *b)
{
    const struct batch_entry *const *first = a, *const *second = b;
    int files = compare((uintptr_t)(*first)->op->file, (uintptr_t)(*second)->op->file);

    return files ? files : compare((*first)->op->offset, (*second)->op->offset);
}

/* Sorts the ops, unless they are in order already, as in most calls. */
static void sort(struct file_batch *batch, int (*order)(const void *a, const void *b))
{
    for (size_t i = 1; i < batch->count; i++)
        if (order(&batch->sorted[i - 1], &batch->sorted[i]) > 0) {
            qsort(batch->sorted, batch->count, sizeof *batch->sorted, order);
            return;
        }
}

/* Fails if two reads have overlapping memory, or if two writes have overlapping ranges of a file. Changes the
 * order of batch->sorted. */
static leat_status check_overlap(struct file_batch *batch)
{
    sort(batch, batch->write ? by_file : by_memory);
    for (size_t i = 1; i < batch->count; i++) {
        const struct batch_entry *entry = batch->sorted[i], *before = batch->sorted[i - 1];
        const leat_file_op *op = entry->op, *other = before->op;

        if (batch->write ? op->file == other->file && op->offset - other->offset < other->bytes
                         : (uintptr_t)op->memory - (uintptr_t)other->memory < other->bytes)
            return leati_fail(LEAT_ERROR_OVERLAP, "op %u and op %u write to the same bytes of %s", before->number,
                              entry->number, batch->write ? op->file->open->path : "memory");
    }
    return LEAT_OK;
}

/* Returns true if the entry can be merged with the range. base: the start of the range's allocation. Memory of two
 * allocations is never merged, because drivers refuse copies across allocations. */
static bool continues(const struct range *range, uintptr_t base, const struct batch_entry *entry)
{
    const leat_file_op *op = entry->op;

    return range->open == op->file->open && range->offset + range->bytes == op->offset &&
           (char *)range->at.ptr + range->bytes == (char *)op->memory && base == entry->endpoint.base &&
           range->at.kind == entry->endpoint.location.kind;
}

/* Makes the list of ranges of one transfer. The list stays NULL if there are no ranges. */
static leat_status make_list(struct file_batch *batch, unsigned which)
{
    struct range_list *list, *fitting;
    uintptr_t base = 0;
    size_t count = 0;

    for (size_t i = 0; i < batch->count; i++)
        count += is_host(batch->sorted[i]) == (which == 1);
    if (!count)
        return LEAT_OK;
    list = malloc(sizeof *list + count * sizeof list->ranges[0]);
    if (!list)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a list of %zu ranges", count);
    atomic_init(&list->holders, 1);
    list->count = 0;
    list->bytes = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const struct batch_entry *entry = batch->sorted[i];
        const leat_file_op *op = entry->op;

        if (is_host(entry) != (which == 1))
            continue;
        if (list->count && continues(&list->ranges[list->count - 1], base, entry)) {
            list->ranges[list->count - 1].bytes += op->bytes;
        } else {
            leati_file_hold(op->file->open);
            list->ranges[list->count++] = (struct range){.start = list->bytes,
                                                         .open = op->file->open,
                                                         .offset = op->offset,
                                                         .at = entry->endpoint.location,
                                                         .bytes = op->bytes,
                                                         .number = entry->number};
            base = entry->endpoint.base;
        }
        list->bytes += op->bytes;
    }
    fitting = realloc(list, sizeof *list + list->count * sizeof list->ranges[0]);
    batch->lists[which] = fitting ? fitting : list;
    return LEAT_OK;
}

/* Checks the pageable memory of a list. This happens after merging, because each check takes one or two system
 * calls.
 */
static leat_status check_mapped(const struct file_batch *batch, const struct range_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct range *range = &list->ranges[i];
        leat_status status = LEAT_OK;

        if (range->at.kind == LEAT_KIND_PAGEABLE)
            status = leati_pointers_check_mapped(side_name(batch), range->at.ptr, range->bytes, !batch->write);
        if (status != LEAT_OK)
            return leati_fail_in(status, "op %u", range->number);
    }
    return LEAT_OK;
}

static leat_status plan_list(struct file_batch *batch, unsigned which, bool followed)
{
    struct range_list *list = batch->lists[which];
    struct leati_storage storage = {
        .ops = &range_storage, .object = list, .write = batch->write, .scattered = true};

    if (!list)
        return LEAT_OK;
    storage.lead = (size_t)(list->ranges[0].offset % LEATI_FILE_BLOCK);
    /* The ranges of most lists are in the same state as the first one. */
    storage.part_bytes =
        leati_file_part_bytes(list->ranges[0].open, list->ranges[0].offset, (size_t)list->bytes, batch->write);
    if (list->bytes > SIZE_MAX / 2)
        return leati_fail(LEAT_ERROR_RANGE, "the ops have %llu bytes together", (unsigned long long)list->bytes);
    LEATI_TRY(check_mapped(batch, list));
    batch->scatters[which] = (struct leati_scatter){.list = list, .count = list->count, .locate = locate};
    LEATI_TRY(leati_plan_file_scattered(&batch->plans[batch->plan_count], batch->stream,
                                        which == 1 ? LEAT_KIND_PINNED : LEAT_KIND_DEVICE, &batch->scatters[which],
                                        &storage, (size_t)list->bytes, followed));
    batch->plan_count++;
    return LEAT_OK;
}

static leat_status plan(struct file_batch *batch, const leat_file_op *ops, size_t count, bool followed)
{
    LEATI_TRY(read_ops(batch, ops, count));
    LEATI_TRY(check_overlap(batch));
    sort(batch, by_file);
    for (unsigned which = 0; which < LEATI_TICKET_PLANS; which++) {
        LEATI_TRY(make_list(batch, which));
        LEATI_TRY(plan_list(batch, which, followed));
    }
    return LEAT_OK;
}

static void were_used(struct file_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        const struct batch_entry *entry = &batch->entries[i];

        leati_was_used(&entry->use, batch->stream, &entry->endpoint, entry->op->bytes, !batch->write);
    }
}

static void end(struct file_batch *batch)
{
    for (unsigned i = 0; i < LEATI_TICKET_PLANS; i++)
        if (batch->lists[i])
            release(batch->lists[i]);
    free(batch->entries);
    free(batch->sorted);
}

/* ---- the public calls ---- */

static leat_status fail_in(const char *what, leat_status status, const leat_stream *stream, size_t count)
{
    return status == LEAT_OK ? status
                             : leati_fail_in(status, "%s of %zu ops on %s", what, count, stream->device->name);
}

static leat_status copy(const char *what, leat_stream *stream, const leat_file_op *ops, size_t count, bool write)
{
    struct file_batch batch = {.stream = stream, .write = write};
    leat_status status;

    LEATI_TRY(leati_check_permitted(what));
    LEATI_TRY(leati_check_stream(what, stream));
    if (!count)
        return LEAT_OK;
    LEATI_TRY(leati_check_not_null(what, "ops", ops));
    status = plan(&batch, ops, count, false);
    for (unsigned i = 0; i < batch.plan_count && status == LEAT_OK; i++)
        status = leati_plan_submit(&batch.plans[i], NULL);
    if (status == LEAT_OK)
        were_used(&batch);
    end(&batch);
    return fail_in(what, status, stream, count);
}

static leat_status start(const char *what, leat_stream *stream, const leat_file_op *ops, size_t count, bool write,
                         const leat_copy_options *options, leat_ticket **ticket)
{
    struct file_batch batch = {.stream = stream, .write = write};
    leat_status status = LEAT_OK;

    LEATI_TRY(leati_ticket_check(what, stream, options, ticket));
    if (count) {
        LEATI_TRY(leati_check_not_null(what, "ops", ops));
        status = plan(&batch, ops, count, true);
    }
    if (status == LEAT_OK)
        status = leati_ticket_start(stream->device, batch.plans, batch.plan_count, options, ticket);
    if (status == LEAT_OK)
        were_used(&batch);
    end(&batch);
    return fail_in(what, status, stream, count);
}

leat_status leat_file_read_batch(leat_stream *stream, const leat_file_op *ops, size_t count)
{
    LEATI_SPAN(LEATI_TRACE_FILE_READ, "leat_file_read_batch");
    return copy("leat_file_read_batch", stream, ops, count, false);
}

leat_status leat_file_read_batch_start(leat_stream *stream, const leat_file_op *ops, size_t count,
                                       const leat_copy_options *options, leat_ticket **ticket)
{
    LEATI_SPAN(LEATI_TRACE_FILE_READ, "leat_file_read_batch_start");
    return start("leat_file_read_batch_start", stream, ops, count, false, options, ticket);
}

leat_status leat_file_write_batch(leat_stream *stream, const leat_file_op *ops, size_t count)
{
    LEATI_SPAN(LEATI_TRACE_FILE_WRITE, "leat_file_write_batch");
    return copy("leat_file_write_batch", stream, ops, count, true);
}

leat_status leat_file_write_batch_start(leat_stream *stream, const leat_file_op *ops, size_t count,
                                        const leat_copy_options *options, leat_ticket **ticket)
{
    LEATI_SPAN(LEATI_TRACE_FILE_WRITE, "leat_file_write_batch_start");
    return start("leat_file_write_batch_start", stream, ops, count, true, options, ticket);
}
