/*
 * contexts.c - replaces cuInit() and the calls that retain, release and reset primary contexts.
 *
 * leat's device holds a reference to the primary context too. Without these replacements the context would outlive
 * the program's last release, and leat would hold memory of a context that was reset.
 */
#include "wrappers.h"

#include <string.h>

#define CALL_REAL(name, type, ...)                                                                                \
    do {                                                                                                          \
        void *real_ = dropin_real(DROPIN_##name);                                                                 \
        cu_result(*typed_) type;                                                                                  \
                                                                                                                  \
        if (!real_)                                                                                               \
            return CU_NOT_FOUND;                                                                                  \
        memcpy(&typed_, &real_, sizeof real_);                                                                    \
        code = typed_(__VA_ARGS__);                                                                               \
    } while (0)

cu_result cuInit(unsigned flags)
{
    cu_result code;

    if (!dropin_inside)
        dropin_count_begin();
    CALL_REAL(cuInit, (unsigned), flags);
    if (code == CU_SUCCESS && !dropin_inside)
        dropin_trace_begin();
    return code;
}

cu_result cuDevicePrimaryCtxRetain(cu_context *context, cu_device device)
{
    cu_result code;

    CALL_REAL(cuDevicePrimaryCtxRetain, (cu_context *, cu_device), context, device);
    if (code == CU_SUCCESS && !dropin_inside)
        dropin_context_retained(device);
    return code;
}

cu_result cuDevicePrimaryCtxRelease(cu_device device)
{
    cu_result code;

    if (!dropin_inside)
        dropin_context_releasing(device);
    CALL_REAL(cuDevicePrimaryCtxRelease, (cu_device), device);
    return code;
}

cu_result cuDevicePrimaryCtxRelease_v2(cu_device device)
{
    cu_result code;

    if (!dropin_inside)
        dropin_context_releasing(device);
    CALL_REAL(cuDevicePrimaryCtxRelease_v2, (cu_device), device);
    return code;
}

cu_result cuDevicePrimaryCtxReset(cu_device device)
{
    cu_result code;

    if (!dropin_inside)
        dropin_context_resetting(device);
    CALL_REAL(cuDevicePrimaryCtxReset, (cu_device), device);
    return code;
}

cu_result cuDevicePrimaryCtxReset_v2(cu_device device)
{
    cu_result code;

    if (!dropin_inside)
        dropin_context_resetting(device);
    CALL_REAL(cuDevicePrimaryCtxReset_v2, (cu_device), device);
    return code;
}
