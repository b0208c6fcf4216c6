/*
 * batch.c - replaces the driver's calls for batches of copies.
 *
 * leat makes a batch in which all copies are from pageable memory to the device, or all are from the device to
 * pageable memory. The driver waits in such a call too until the stream reaches it, and makes the copies one by
 * one.
 */
#include "wrappers.h"

#include <string.h>

/* CUmemcpyAttributes. The hints about places have no effect on pageable memory. */
struct attributes {
    int source_order;
    int src_place[2], dst_place[2];
    unsigned flags;
};

enum { ORDER_STREAM = 1, ORDER_ANY = 3 };

/* The arguments of the calls. */
struct batch {
    const cu_address *dsts, *srcs;
    const size_t *sizes;
    size_t count;
    const struct attributes *attributes;
    const size_t *first; /* attribute i is for the copies from first[i] on */
    size_t attribute_count;
    cu_stream stream;
};

static bool has_attributes(const struct batch *batch)
{
    if (!batch->attributes || !batch->first || !batch->attribute_count || batch->attribute_count > batch->count ||
        batch->first[0])
        return false;
    for (size_t i = 0; i < batch->attribute_count; i++)
        if (batch->attributes[i].source_order < ORDER_STREAM || batch->attributes[i].source_order > ORDER_ANY ||
            batch->first[i] >= batch->count || (i && batch->first[i] <= batch->first[i - 1]))
            return false;
    return true;
}

/* Adds the sizes up. Returns false if the call has a mistake, which the driver reports. */
static bool add_sizes(const struct batch *batch, size_t *bytes)
{
    *bytes = 0;
    if (!batch->dsts || !batch->srcs || !batch->sizes || !batch->count)
        return false;
    for (size_t i = 0; i < batch->count; i++)
        if (!batch->sizes[i] || __builtin_add_overflow(*bytes, batch->sizes[i], bytes))
            return false;
    return true;
}

static enum run_outcome serve(const struct batch *batch, size_t *bytes)
{
    struct dropin_copy copy = {.rows = 1, .batch_count = batch->count, .stream = batch->stream};

    if (!add_sizes(batch, bytes))
        return RUN_OUTCOME_BATCH;
    if (*bytes < (dropin_least_is_chosen() ? dropin_least_bytes() : RUN_BATCH_LEAST_BYTES))
        return RUN_OUTCOME_SHORT;
    /* Batches are not allowed on the legacy default stream. */
    if ((uintptr_t)batch->stream <= 1 || !has_attributes(batch))
        return RUN_OUTCOME_BATCH;
    copy.bytes = *bytes;
    copy.batch_dsts = batch->dsts;
    copy.batch_srcs = batch->srcs;
    copy.batch_sizes = batch->sizes;
    return dropin_serve(&copy);
}

/* Begins to record a batch that the driver makes. */
static bool trace(const struct batch *batch, size_t bytes, const void *caller)
{
    struct dropin_call traced = {.kind = DROPIN_COPY,
                                 .name = "cuMemcpyBatchAsync",
                                 .caller = caller,
                                 .in_stream = true,
                                 .stream = batch->stream,
                                 .bytes = bytes};

    return atomic_load_explicit(&dropin_by_events, memory_order_relaxed) && dropin_call_begin(&traced);
}

/* Defines the replacement of a function, whose parameters are those of struct batch and the
 * place for the number of a failed copy. default_stream: the handle that stands for NULL. */
#define REPLACE(symbol, parameters, arguments, default_stream)                                                    \
    cu_result symbol parameters                                                                                   \
    {                                                                                                             \
        void *real_ = dropin_real(DROPIN_##symbol);                                                               \
        struct batch batch_ = {                                                                                   \
            dsts,       srcs,  sizes,           count,                                                            \
            attributes, first, attribute_count, stream ? stream : (cu_stream)(uintptr_t)(default_stream)};        \
        uint64_t begun_ns_ = dropin_clock_ns();                                                                   \
        cu_result(*typed_) parameters, code_ = CU_SUCCESS;                                                        \
        enum run_outcome outcome_;                                                                                \
        size_t bytes_ = 0;                                                                                        \
        bool traced_;                                                                                             \
                                                                                                                  \
        if (!real_)                                                                                               \
            return CU_NOT_FOUND;                                                                                  \
        memcpy(&typed_, &real_, sizeof real_);                                                                    \
        if (dropin_inside)                                                                                        \
            return typed_ arguments;                                                                              \
        outcome_ = serve(&batch_, &bytes_);                                                                       \
        if (outcome_ != RUN_OUTCOME_LEAT) {                                                                       \
            traced_ = trace(&batch_, bytes_, __builtin_return_address(0));                                        \
            code_ = typed_ arguments;                                                                             \
            if (traced_)                                                                                          \
                dropin_call_end(code_);                                                                           \
        }                                                                                                         \
        dropin_count(RUN_CALL_BATCH_ASYNC, outcome_, bytes_, dropin_clock_ns() - begun_ns_);                      \
        return code_;                                                                                             \
    }

// clang-format off
#define BATCH (DROPIN_BATCH, size_t *failed, cu_stream stream)
#define BATCH_V2 (DROPIN_BATCH, cu_stream stream)

REPLACE(cuMemcpyBatchAsync, BATCH,
        (dsts, srcs, sizes, count, attributes, first, attribute_count, failed, stream), 1)
REPLACE(cuMemcpyBatchAsync_ptsz, BATCH,
        (dsts, srcs, sizes, count, attributes, first, attribute_count, failed, stream), 2)
REPLACE(cuMemcpyBatchAsync_v2, BATCH_V2,
        (dsts, srcs, sizes, count, attributes, first, attribute_count, stream), 1)
REPLACE(cuMemcpyBatchAsync_v2_ptsz, BATCH_V2,
        (dsts, srcs, sizes, count, attributes, first, attribute_count, stream), 2)
// clang-format on
