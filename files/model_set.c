/*
 * model_set.c - leat_model_load_all() and leat_model_load_replicas(): allocate one block for each file, and each
 * stream, and fill it by few large reads.
 *
 * A run is a range of a file that one read loads: consecutive tensors with short padding between them. The block
 * contains an exact copy of the run. A new run begins where a tensor would not be aligned in the block.
 */
#include "model_load.h"

#include <leat/memory.h>

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { PADDING_MAX = 512, BLOCK_ALIGN = 256 };

struct leat_model_set {
    leat_stream *stream;
    leat_model_load *load; /* replicas share one */
    size_t count;          /* the number of the model's tensors */
    void **at;             /* the address of each tensor */
    bool *has;
    void **blocks; /* the block of each file; NULL if the set has no tensor of the file */
    size_t block_count;
};

/* Returns the alignment of a tensor: the largest power of two that divides the size of its blocks, at most 16. */
static uint64_t alignment_of(uint32_t block_bytes)
{
    uint64_t least = block_bytes & (~block_bytes + 1);

    return least > 16 ? 16 : least;
}

/* Plans the reads of a file and the place of each tensor in its block. The block does not exist yet, so the
 * addresses in set->at and reads are offsets in the block. */
static void place(const leat_model *model, size_t number, struct leat_model_set *set, struct leatm_read *reads,
                  size_t *count, uint64_t *block_bytes)
{
    const struct leatm_model_file *file = &model->files[number];
    struct leatm_read *run = NULL;
    uint64_t end = 0; /* bytes of the block that are in use so far */

    for (size_t i = file->first; i < file->first + file->count; i++) {
        const struct leatm_model_tensor *tensor = &model->tensors[i];
        uint64_t align, at;

        if (!set->has[i] || !tensor->bytes)
            continue;
        align = alignment_of(leatm_model_types[tensor->type].bytes);
        at = run ? (uint64_t)(uintptr_t)run->dst + (tensor->offset - run->offset) : 0;
        if (!run || tensor->offset < run->offset + run->bytes ||
            tensor->offset - (run->offset + run->bytes) > PADDING_MAX || at % align) {
            at = (end + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN;
            run = &reads[(*count)++];
            memset(run, 0, sizeof *run);
            run->stream = set->stream;
            run->file = file->file;
            run->file_number = (uint32_t)number;
            run->offset = tensor->offset;
            run->dst = (char *)(uintptr_t)at; /* prepare_file() adds the block's address */
        }
        run->bytes = tensor->offset + tensor->bytes - run->offset;
        end = at + tensor->bytes;
        set->at[i] = (void *)(uintptr_t)at;
    }
    *block_bytes = end;
}

/* Adds the reads of a file, allocates its block, and turns the offsets in the block into addresses. */
static leat_status prepare_file(const leat_model *model, size_t number, struct leat_model_set *set,
                                struct leatm_read *reads, size_t *count)
{
    const struct leatm_model_file *file = &model->files[number];
    size_t first = *count;
    uint64_t bytes = 0;
    uintptr_t block;

    place(model, number, set, reads, count, &bytes);
    if (!bytes)
        return LEAT_OK;
    TRY(leat_alloc(set->stream, (size_t)bytes, &set->blocks[number]));
    block = (uintptr_t)set->blocks[number];
    for (size_t i = first; i < *count; i++)
        reads[i].dst = (char *)(block + (uintptr_t)reads[i].dst);
    for (size_t i = file->first; i < file->first + file->count; i++)
        if (set->has[i] && model->tensors[i].bytes)
            set->at[i] = (void *)(block + (uintptr_t)set->at[i]);
    return LEAT_OK;
}

/* Marks the tensors whose names match. */
static leat_status select_tensors(const leat_model *model, const char *pattern, struct leat_model_set *set)
{
    size_t selected = 0;

    for (size_t i = 0; i < model->count; i++) {
        set->has[i] = !pattern || !fnmatch(pattern, leatm_tensor_name(model, &model->tensors[i]), 0);
        selected += set->has[i];
    }
    if (selected || !pattern)
        return LEAT_OK;
    return leatc_fail(LEAT_ERROR_NOT_FOUND, "no tensor matches '%s'", pattern);
}

/* Allocates the blocks of a set, and adds the reads that fill them. reads has room for one for each tensor. */
static leat_status prepare(const leat_model *model, const char *pattern, struct leat_model_set *set,
                           struct leatm_read *reads, size_t *count)
{
    set->at = calloc(model->count + 1, sizeof *set->at);
    set->has = calloc(model->count + 1, sizeof *set->has);
    set->blocks = calloc(model->file_count + 1, sizeof *set->blocks);
    set->count = model->count;
    set->block_count = model->file_count;
    if (!set->at || !set->has || !set->blocks)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a set of %zu tensors", model->count);
    TRY(select_tensors(model, pattern, set));
    for (size_t i = 0; i < model->file_count; i++)
        TRY(prepare_file(model, i, set, reads, count));
    return LEAT_OK;
}

/* Starts one load that fills all sets. */
static leat_status load_sets(const leat_model *model, const char *pattern, leat_model_set *const *sets,
                             size_t set_count)
{
    struct leatm_read *reads;
    size_t count = 0;
    leat_status status = LEAT_OK;

    reads = calloc((model->count + 1) * set_count, sizeof *reads);
    if (!reads)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the reads of %zu tensors", model->count);
    for (size_t i = 0; i < set_count && status == LEAT_OK; i++)
        status = prepare(model, pattern, sets[i], reads, &count);
    if (status == LEAT_OK)
        status = leatm_load_reads(sets[0]->load, reads, count);
    free(reads);
    return status;
}

/* Destroys sets after a failure, and keeps its message. */
static leat_status drop_sets(leat_model_set **sets, size_t count, leat_status status)
{
    char message[1500];

    strncpy(message, leat_last_error(), sizeof message - 1);
    message[sizeof message - 1] = '\0';
    if (count && sets[0]->load)
        (void)leat_model_load_cancel(sets[0]->load);
    for (size_t i = 0; i < count; i++)
        (void)leat_model_set_destroy(sets[i]);
    return leat_error_set(status, message);
}

/* Makes empty sets with one load for all of them. After a failure *made of them exist. */
static leat_status make_sets(const char *what, leat_stream *const *streams, size_t count,
                             const leat_model_options *options, leat_model_set **sets, size_t *made)
{
    for (*made = 0; *made < count; ++*made) {
        leat_model_set *set;

        /* The static analyzer does not see that leatc_fail() returns its first argument. */
        if (!streams[*made]) {
            (void)leatc_fail(LEAT_ERROR_INVALID, "%s: streams[%zu] is NULL", what, *made);
            return LEAT_ERROR_INVALID;
        }
        set = calloc(1, sizeof *set);
        if (!set) {
            (void)leatc_fail(LEAT_ERROR_HOST_MEMORY, "%s: no memory for the set", what);
            return LEAT_ERROR_HOST_MEMORY;
        }
        set->stream = streams[*made];
        sets[*made] = set;
    }
    TRY(leatm_load_create(what, options, &sets[0]->load));
    for (size_t i = 1; i < count; i++) {
        sets[i]->load = sets[0]->load;
        /* Relaxed: no other thread knows the load yet. */
        atomic_fetch_add_explicit(&sets[0]->load->holders, 1, memory_order_relaxed);
    }
    return LEAT_OK;
}

static leat_status load_replicas(const char *what, leat_stream *const *streams, size_t count,
                                 const leat_model *model, const char *pattern, const leat_model_options *options,
                                 leat_model_set **sets)
{
    size_t made = 0;
    leat_status status = make_sets(what, streams, count, options, sets, &made);

    if (status == LEAT_OK) {
        status = load_sets(model, pattern, sets, count);
        if (status == LEAT_OK)
            return LEAT_OK;
        status = leatc_fail_in(status, "%s", what);
    }
    return drop_sets(sets, made, status);
}

leat_status leat_model_load_all(leat_stream *stream, const leat_model *model, const char *pattern,
                                const leat_model_options *options, leat_model_set **set)
{
    leat_model_set *made;

    if (!model || !stream || !set)
        return leatc_fail(LEAT_ERROR_INVALID, "leat_model_load_all: %s is NULL",
                          !model    ? "model"
                          : !stream ? "stream"
                                    : "set");
    TRY(load_replicas("leat_model_load_all", &stream, 1, model, pattern, options, &made));
    *set = made;
    return LEAT_OK;
}

leat_status leat_model_load_replicas(leat_stream *const *streams, size_t count, const leat_model *model,
                                     const char *pattern, const leat_model_options *options, leat_model_set **sets)
{
    leat_model_set **made;
    leat_status status;

    if (!model || !streams || !sets || !count)
        return leatc_fail(LEAT_ERROR_INVALID, "leat_model_load_replicas: %s",
                          !model     ? "model is NULL"
                          : !streams ? "streams is NULL"
                          : !sets    ? "sets is NULL"
                                     : "count is 0");
    made = calloc(count, sizeof(leat_model_set *));
    if (!made)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "leat_model_load_replicas: no memory for %zu sets", count);
    status = load_replicas("leat_model_load_replicas", streams, count, model, pattern, options, made);
    if (status == LEAT_OK)
        memcpy(sets, made, count * sizeof(leat_model_set *));
    free(made);
    return status;
}

leat_status leat_model_set_get_pointer(const leat_model_set *set, size_t index, void **ptr)
{
    if (!set || !ptr || index >= set->count)
        return leatc_fail(LEAT_ERROR_INVALID, "leat_model_set_get_pointer: %s",
                          !set   ? "set is NULL"
                          : !ptr ? "ptr is NULL"
                                 : "the model does not have so many tensors");
    if (!set->has[index])
        return leatc_fail(LEAT_ERROR_NOT_FOUND, "leat_model_set_get_pointer: tensor %zu did not match the pattern",
                          index);
    *ptr = set->at[index];
    return LEAT_OK;
}

leat_model_load *leat_model_set_get_load(leat_model_set *set)
{
    return set ? set->load : NULL;
}

leat_status leat_model_set_destroy(leat_model_set *set)
{
    leat_status status = LEAT_OK;

    if (!set)
        return LEAT_OK;
    for (size_t i = 0; set->blocks && i < set->block_count; i++) {
        leat_status one = set->blocks[i] ? leat_free(set->stream, set->blocks[i]) : LEAT_OK;

        status = status == LEAT_OK ? one : status;
    }
    (void)leat_model_load_destroy(set->load);
    free(set->at);
    free(set->has);
    free(set->blocks);
    free(set);
    return status;
}
