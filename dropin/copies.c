/*
 * copies.c - replaces the driver's calls for copies. Each asks dropin_serve() to make the copy, and otherwise
 * makes the program's own call with its own arguments.
 *
 * A call that asks no driver and is not timed costs least, so copies that are too short by their arguments are
 * only counted; with --log they are timed too.
 */
#include "wrappers.h"

#include <string.h>

static void *pointer(cu_address address)
{
    return (void *)(uintptr_t)address;
}

/* A call in progress. */
struct call {
    enum run_call kind;
    enum run_outcome outcome;
    uint64_t bytes, begun_ns;
};

/* Begins a call. plain: *copy describes it. Returns true if leat has made the copy. */
static bool begin(struct call *call, enum run_call kind, const struct dropin_copy *copy, bool plain)
{
    *call = (struct call){.kind = kind, .bytes = (uint64_t)copy->bytes * copy->rows};
    call->outcome = plain ? RUN_OUTCOME_SHORT : RUN_OUTCOME_ARRAY;
    if (call->bytes >= dropin_least_bytes() || dropin_only_observes()) {
        call->begun_ns = dropin_clock_ns();
        if (plain && call->bytes >= dropin_least_bytes())
            call->outcome = dropin_serve(copy);
    }
    return call->outcome == RUN_OUTCOME_LEAT;
}

static cu_result end(const struct call *call, cu_result code)
{
    dropin_count(call->kind, call->outcome, call->bytes, call->begun_ns ? dropin_clock_ns() - call->begun_ns : 0);
    return code;
}

const char *const dropin_call_names[RUN_CALLS] = {
#define CALL_NAME(id, name) name,
    RUN_CALL_LIST(CALL_NAME)
#undef CALL_NAME
};

/* Begins to record a call that the driver makes. */
static bool trace(const struct call *call, const struct dropin_copy *copy, const void *caller)
{
    struct dropin_call traced = {.kind = DROPIN_COPY,
                                 .name = dropin_call_names[call->kind],
                                 .caller = caller,
                                 .in_stream = true,
                                 .waits = copy->sync,
                                 .stream = copy->stream,
                                 .bytes = call->bytes,
                                 .dst = copy->dst,
                                 .src = copy->src};

    return dropin_call_begin(&traced);
}

/* Defines the replacement of a function. description: fills copy_, and is false if leat cannot make such a copy.
 * Calls of leat's own are passed on uncounted. */
#define REPLACE(symbol, kind, parameters, arguments, description)                                                 \
    cu_result symbol parameters                                                                                   \
    {                                                                                                             \
        void *real_ = dropin_real(DROPIN_##symbol);                                                               \
        cu_result(*typed_) parameters;                                                                            \
        struct dropin_copy copy_ = {.rows = 1};                                                                   \
        struct call call_;                                                                                        \
        cu_result code_;                                                                                          \
                                                                                                                  \
        if (!real_)                                                                                               \
            return CU_NOT_FOUND;                                                                                  \
        memcpy(&typed_, &real_, sizeof real_);                                                                    \
        if (dropin_inside)                                                                                        \
            return typed_ arguments;                                                                              \
        if (begin(&call_, RUN_CALL_##kind, &copy_, description))                                                  \
            return end(&call_, CU_SUCCESS);                                                                       \
        if (!atomic_load_explicit(&dropin_by_events, memory_order_relaxed) ||                                     \
            !trace(&call_, &copy_, __builtin_return_address(0)))                                                  \
            return end(&call_, typed_ arguments);                                                                 \
        code_ = typed_ arguments;                                                                                 \
        dropin_call_end(code_);                                                                                   \
        return end(&call_, code_);                                                                                \
    }

enum direction { IN, OUT, EITHER };

static bool describe(struct dropin_copy *copy, void *dst, const void *src, size_t bytes, cu_stream stream,
                     bool sync, enum direction direction)
{
    copy->dst = dst;
    copy->src = src;
    copy->bytes = bytes;
    copy->stream = stream;
    copy->sync = sync;
    copy->src_host = copy->dst_device = direction == IN;
    copy->dst_host = copy->src_device = direction == OUT;
    return true;
}

#define RANGE_IN (cu_address dst, const void *src, size_t bytes)
#define RANGE_IN_STREAM (cu_address dst, const void *src, size_t bytes, cu_stream stream)
#define RANGE_OUT (void *dst, cu_address src, size_t bytes)
#define RANGE_OUT_STREAM (void *dst, cu_address src, size_t bytes, cu_stream stream)
#define RANGE (cu_address dst, cu_address src, size_t bytes)
#define RANGE_STREAM (cu_address dst, cu_address src, size_t bytes, cu_stream stream)

// clang-format off
REPLACE(cuMemcpyHtoD_v2, HTOD, RANGE_IN, (dst, src, bytes),
        describe(&copy_, pointer(dst), src, bytes, LEGACY_STREAM, true, IN))
REPLACE(cuMemcpyHtoD_v2_ptds, HTOD, RANGE_IN, (dst, src, bytes),
        describe(&copy_, pointer(dst), src, bytes, PER_THREAD_STREAM, true, IN))
REPLACE(cuMemcpyHtoDAsync_v2, HTOD_ASYNC, RANGE_IN_STREAM, (dst, src, bytes, stream),
        describe(&copy_, pointer(dst), src, bytes, or_legacy(stream), false, IN))
REPLACE(cuMemcpyHtoDAsync_v2_ptsz, HTOD_ASYNC, RANGE_IN_STREAM, (dst, src, bytes, stream),
        describe(&copy_, pointer(dst), src, bytes, or_per_thread(stream), false, IN))
REPLACE(cuMemcpyDtoH_v2, DTOH, RANGE_OUT, (dst, src, bytes),
        describe(&copy_, dst, pointer(src), bytes, LEGACY_STREAM, true, OUT))
REPLACE(cuMemcpyDtoH_v2_ptds, DTOH, RANGE_OUT, (dst, src, bytes),
        describe(&copy_, dst, pointer(src), bytes, PER_THREAD_STREAM, true, OUT))
REPLACE(cuMemcpyDtoHAsync_v2, DTOH_ASYNC, RANGE_OUT_STREAM, (dst, src, bytes, stream),
        describe(&copy_, dst, pointer(src), bytes, or_legacy(stream), false, OUT))
REPLACE(cuMemcpyDtoHAsync_v2_ptsz, DTOH_ASYNC, RANGE_OUT_STREAM, (dst, src, bytes, stream),
        describe(&copy_, dst, pointer(src), bytes, or_per_thread(stream), false, OUT))
REPLACE(cuMemcpy, COPY, RANGE, (dst, src, bytes),
        describe(&copy_, pointer(dst), pointer(src), bytes, LEGACY_STREAM, true, EITHER))
REPLACE(cuMemcpy_ptds, COPY, RANGE, (dst, src, bytes),
        describe(&copy_, pointer(dst), pointer(src), bytes, PER_THREAD_STREAM, true, EITHER))
REPLACE(cuMemcpyAsync, COPY_ASYNC, RANGE_STREAM, (dst, src, bytes, stream),
        describe(&copy_, pointer(dst), pointer(src), bytes, or_legacy(stream), false, EITHER))
REPLACE(cuMemcpyAsync_ptsz, COPY_ASYNC, RANGE_STREAM, (dst, src, bytes, stream),
        describe(&copy_, pointer(dst), pointer(src), bytes, or_per_thread(stream), false, EITHER))
// clang-format on

/* ---- rows ---- */

/* Shorter rows would need a kernel of leat's (copy/region.c). */
#define ROW_LEAST_BYTES ((size_t)1 << 10)

/* Finds where a side of a 2-D copy begins. Returns false for an array and for overflow. */
static bool begin_of(unsigned type, void *host, cu_address device, size_t x, size_t y, size_t pitch,
                     void **begin_at)
{
    size_t offset;

    if (type != CU_MEMORY_HOST && type != CU_MEMORY_DEVICE && type != CU_MEMORY_UNIFIED)
        return false;
    if (__builtin_mul_overflow(y, pitch, &offset) || __builtin_add_overflow(offset, x, &offset))
        return false;
    /* Integer arithmetic: NULL and wrong addresses are the driver's to report. */
    *begin_at = pointer((type == CU_MEMORY_HOST ? (cu_address)(uintptr_t)host : device) + offset);
    return true;
}

static bool describe_2d(struct dropin_copy *copy, const struct cu_copy_2d *given, cu_stream stream, bool sync)
{
    size_t reach;
    void *src;

    if (!given)
        return false;
    copy->bytes = given->width;
    copy->rows = given->height;
    copy->dst_pitch = given->dst_pitch;
    copy->src_pitch = given->src_pitch;
    copy->stream = stream;
    copy->sync = sync;
    copy->src_host = given->src_type == CU_MEMORY_HOST;
    copy->dst_host = given->dst_type == CU_MEMORY_HOST;
    copy->src_device = given->src_type == CU_MEMORY_DEVICE;
    copy->dst_device = given->dst_type == CU_MEMORY_DEVICE;
    if (!given->width || !given->height || given->width < ROW_LEAST_BYTES || given->dst_pitch < given->width ||
        given->src_pitch < given->width || __builtin_mul_overflow(given->height, given->dst_pitch, &reach) ||
        __builtin_mul_overflow(given->height, given->src_pitch, &reach))
        return false;
    /* The drivers' limit of a pitch depends on the device; leat has none, and a program must get the error. */
    if (given->dst_pitch > INT32_MAX || given->src_pitch > INT32_MAX)
        return false;
    if (!begin_of(given->src_type, (void *)(uintptr_t)given->src_host, given->src_device, given->src_x,
                  given->src_y, given->src_pitch, &src))
        return false;
    copy->src = src;
    return begin_of(given->dst_type, given->dst_host, given->dst_device, given->dst_x, given->dst_y,
                    given->dst_pitch, &copy->dst);
}

#define ROWS (const struct cu_copy_2d *copy)
#define ROWS_STREAM (const struct cu_copy_2d *copy, cu_stream stream)

// clang-format off
REPLACE(cuMemcpy2D_v2, COPY_2D, ROWS, (copy), describe_2d(&copy_, copy, LEGACY_STREAM, true))
REPLACE(cuMemcpy2D_v2_ptds, COPY_2D, ROWS, (copy), describe_2d(&copy_, copy, PER_THREAD_STREAM, true))
REPLACE(cuMemcpy2DUnaligned_v2, COPY_2D_UNALIGNED, ROWS, (copy), describe_2d(&copy_, copy, LEGACY_STREAM, true))
REPLACE(cuMemcpy2DUnaligned_v2_ptds, COPY_2D_UNALIGNED, ROWS, (copy),
        describe_2d(&copy_, copy, PER_THREAD_STREAM, true))
REPLACE(cuMemcpy2DAsync_v2, COPY_2D_ASYNC, ROWS_STREAM, (copy, stream),
        describe_2d(&copy_, copy, or_legacy(stream), false))
REPLACE(cuMemcpy2DAsync_v2_ptsz, COPY_2D_ASYNC, ROWS_STREAM, (copy, stream),
        describe_2d(&copy_, copy, or_per_thread(stream), false))
// clang-format on
