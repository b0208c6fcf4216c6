/*
 * calls.c - replaces calls of the driver that leat only records, where there is no CUPTI: kernels, fills, copies
 * within a device, and waits (traced_names.h). Each makes the program's own call with its own arguments.
 */
#include "wrappers.h"

#include <string.h>

static cu_stream or_else(cu_stream stream, cu_stream otherwise)
{
    return stream ? stream : otherwise;
}

static const void *at(cu_address address)
{
    return (const void *)(uintptr_t)address;
}

/* CUlaunchConfig, up to the stream. */
struct launch {
    unsigned grid[3], block[3], shared_bytes;
    cu_stream stream;
};

/* Defines a replacement. ...: the fields of struct dropin_call. */
#define REPLACE(symbol, parameters, arguments, ...)                                                               \
    cu_result symbol parameters                                                                                   \
    {                                                                                                             \
        void *real_ = dropin_real(DROPIN_##symbol);                                                               \
        cu_result(*typed_) parameters, code_;                                                                     \
                                                                                                                  \
        if (!real_)                                                                                               \
            return CU_NOT_FOUND;                                                                                  \
        memcpy(&typed_, &real_, sizeof real_);                                                                    \
        if (dropin_inside || !atomic_load_explicit(&dropin_by_events, memory_order_relaxed) ||                    \
            !dropin_call_begin(&(struct dropin_call){.caller = __builtin_return_address(0), __VA_ARGS__}))        \
            return typed_ arguments;                                                                              \
        code_ = typed_ arguments;                                                                                 \
        dropin_call_end(code_);                                                                                   \
        return code_;                                                                                             \
    }

/* Both forms of a function, with the default stream of each. default_: the stream for NULL. */
#define REPLACE_BOTH(symbol, twin, parameters, arguments, ...)                                                    \
    REPLACE_WITH(symbol, LEGACY_STREAM, parameters, arguments, __VA_ARGS__)                                       \
    REPLACE_WITH(twin, PER_THREAD_STREAM, parameters, arguments, __VA_ARGS__)
#define REPLACE_WITH(symbol, default_, parameters, arguments, kind_, name_, stream_, ...)                         \
    REPLACE(symbol, parameters, arguments, .kind = kind_, .name = name_, .in_stream = true,                       \
            .stream = or_else(stream_, default_), __VA_ARGS__)

// clang-format off
REPLACE_BOTH(cuLaunchKernel, cuLaunchKernel_ptsz, DROPIN_LAUNCH,
             (kernel, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra),
             DROPIN_KERNEL, "cuLaunchKernel", stream, .bytes = 0)
REPLACE_BOTH(cuLaunchKernelEx, cuLaunchKernelEx_ptsz, DROPIN_LAUNCH_EX, (config, kernel, arguments, extra),
             DROPIN_KERNEL, "cuLaunchKernelEx", config ? ((const struct launch *)config)->stream : NULL, .bytes = 0)
REPLACE_BOTH(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz, DROPIN_LAUNCH_COOPERATIVE,
             (kernel, gx, gy, gz, bx, by, bz, shared, stream, arguments),
             DROPIN_KERNEL, "cuLaunchCooperativeKernel", stream, .bytes = 0)
REPLACE_BOTH(cuGraphLaunch, cuGraphLaunch_ptsz, (void *graph, cu_stream stream), (graph, stream),
             DROPIN_KERNEL, "cuGraphLaunch", stream, .bytes = 0)

#define FILLS(bits, type)                                                                                         \
    REPLACE_BOTH(cuMemsetD##bits##_v2, cuMemsetD##bits##_v2_ptds, (cu_address dst, type value, size_t count),     \
                 (dst, value, count), DROPIN_FILL, "cuMemsetD" #bits, NULL,                                       \
                 .bytes = (uint64_t)count * sizeof value, .dst = at(dst))                                         \
    REPLACE_BOTH(cuMemsetD##bits##Async, cuMemsetD##bits##Async_ptsz,                                             \
                 (cu_address dst, type value, size_t count, cu_stream stream), (dst, value, count, stream),       \
                 DROPIN_FILL, "cuMemsetD" #bits "Async", stream,                                                  \
                 .bytes = (uint64_t)count * sizeof value, .dst = at(dst))
FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned)

REPLACE_BOTH(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, (cu_address dst, cu_address src, size_t bytes),
             (dst, src, bytes), DROPIN_COPY, "cuMemcpyDtoD", NULL, .bytes = bytes, .dst = at(dst), .src = at(src))
REPLACE_BOTH(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz,
             (cu_address dst, cu_address src, size_t bytes, cu_stream stream), (dst, src, bytes, stream),
             DROPIN_COPY, "cuMemcpyDtoDAsync", stream, .bytes = bytes, .dst = at(dst), .src = at(src))

REPLACE(cuStreamSynchronize, (cu_stream stream), (stream), .kind = DROPIN_WAIT, .name = "cuStreamSynchronize")
REPLACE(cuStreamSynchronize_ptsz, (cu_stream stream), (stream), .kind = DROPIN_WAIT, .name = "cuStreamSynchronize")
REPLACE(cuCtxSynchronize, (void), (), .kind = DROPIN_WAIT, .name = "cuCtxSynchronize")
REPLACE(cuEventSynchronize, (void *event), (event), .kind = DROPIN_WAIT, .name = "cuEventSynchronize")
// clang-format on
