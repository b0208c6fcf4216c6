/* launch.c - launches functions of modules and function pointers; also cooperatively, or with an event before and
 * after. */
#include "hip/module.h"

static dim3 size_of(unsigned x, unsigned y, unsigned z)
{
    return (dim3){x, y, z};
}

/* Refuses packed arguments (extra): leat cannot unpack them, because its kernels do not report the offset of each
 * argument. */
static int check_extra(void **arguments, void **extra)
{
    if (arguments && extra)
        return LEATC_INVALID_VALUE;
    return extra ? LEATC_NOT_SUPPORTED : LEATC_OK;
}

/* ---- of modules ---- */

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned int gridX, unsigned int gridY,
                                 unsigned int gridZ, unsigned int blockX, unsigned int blockY, unsigned int blockZ,
                                 unsigned int sharedBytes, hipStream_t stream, void **arguments, void **extra)
{
    int result = check_extra(arguments, extra);

    return note(result == LEATC_OK ? leatc_hip_launch_function(function, size_of(gridX, gridY, gridZ),
                                                               size_of(blockX, blockY, blockZ), arguments,
                                                               sharedBytes, stream_of(stream), false)
                                   : result);
}

FORWARD(hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t function, unsigned int gridX, unsigned int gridY,
                                                    unsigned int gridZ, unsigned int blockX, unsigned int blockY,
                                                    unsigned int blockZ, unsigned int sharedBytes,
                                                    hipStream_t stream, void **arguments),
        leatc_hip_launch_function(function, size_of(gridX, gridY, gridZ), size_of(blockX, blockY, blockZ),
                                  arguments, sharedBytes, stream_of(stream), true))

/* ---- by function pointer ---- */

FORWARD_STREAM(hipLaunchKernel, hipLaunchKernel_spt,
               (const void *function, dim3 grid, dim3 block, void **arguments, size_t sharedBytes,
                hipStream_t stream),
               leatc_hip_launch_pointer(function, grid, block, arguments, sharedBytes, on, false))
FORWARD_STREAM(hipLaunchCooperativeKernel, hipLaunchCooperativeKernel_spt,
               (const void *function, dim3 grid, dim3 block, void **arguments, unsigned int sharedBytes,
                hipStream_t stream),
               leatc_hip_launch_pointer(function, grid, block, arguments, sharedBytes, on, true))

static int launch_between(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                          struct leatc_stream *stream, hipEvent_t start, hipEvent_t stop)
{
    if (start)
        LEATC_TRY(leatc_event_record(event_of(start), stream));
    LEATC_TRY(leatc_hip_launch_pointer(function, grid, block, arguments, shared_bytes, stream, false));
    return stop ? leatc_event_record(event_of(stop), stream) : LEATC_OK;
}

hipError_t hipExtLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t sharedBytes,
                              hipStream_t stream, hipEvent_t start, hipEvent_t stop, int flags)
{
    (void)flags; /* flags allow kernels to run out of order, but leat never does that */
    return note(launch_between(function, grid, block, arguments, sharedBytes, stream_of(stream), start, stop));
}

/* ---- with attributes ---- */

/* Sets *together to whether the attributes ask for a cooperative launch. All other attributes are hints and have
 * no effect. */
static int read_attributes(const hipLaunchAttribute *attributes, unsigned count, bool *together)
{
    *together = false;
    if (count && !attributes)
        return LEATC_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        switch (attributes[i].id) {
        case hipLaunchAttributeCooperative:
            *together = attributes[i].val.cooperative != 0;
            break;
        case hipLaunchAttributeAccessPolicyWindow:
        case hipLaunchAttributeSynchronizationPolicy:
        case hipLaunchAttributePriority:
        case hipLaunchAttributeMemSyncDomainMap:
        case hipLaunchAttributeMemSyncDomain:
            break;
        default:
            return LEATC_INVALID_VALUE;
        }
    return LEATC_OK;
}

hipError_t hipLaunchKernelExC(const hipLaunchConfig_t *config, const void *function, void **arguments)
{
    bool together;
    int result = config ? read_attributes(config->attrs, config->numAttrs, &together) : LEATC_INVALID_VALUE;

    return note(result == LEATC_OK
                    ? leatc_hip_launch_pointer(function, config->gridDim, config->blockDim, arguments,
                                               config->dynamicSmemBytes, stream_of(config->stream), together)
                    : result);
}

hipError_t hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG *config, hipFunction_t function, void **arguments,
                                void **extra)
{
    bool together;
    int result = config ? read_attributes(config->attrs, config->numAttrs, &together) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        result = check_extra(arguments, extra);
    if (result != LEATC_OK)
        return note(result);
    return note(leatc_hip_launch_function(function, size_of(config->gridDimX, config->gridDimY, config->gridDimZ),
                                          size_of(config->blockDimX, config->blockDimY, config->blockDimZ),
                                          arguments, config->sharedMemBytes, stream_of(config->hStream),
                                          together));
}

/* ---- on several devices at once (not supported) ---- */

static int refuse_several(const void *launches, int count, unsigned flags)
{
    int devices = 0;

    LEATC_TRY(leatc_device_count(&devices));
    if (!launches || count <= 0 || count > devices ||
        flags & ~(unsigned)(hipCooperativeLaunchMultiDeviceNoPreSync | hipCooperativeLaunchMultiDeviceNoPostSync))
        return LEATC_INVALID_VALUE;
    return LEATC_NOT_SUPPORTED;
}

FORWARD(hipError_t hipLaunchCooperativeKernelMultiDevice(hipLaunchParams *launches, int count, unsigned int flags),
        refuse_several(launches, count, flags))
FORWARD(hipError_t hipExtLaunchMultiKernelMultiDevice(hipLaunchParams *launches, int count, unsigned int flags),
        refuse_several(launches, count, flags))
FORWARD(hipError_t hipModuleLaunchCooperativeKernelMultiDevice(hipFunctionLaunchParams *launches,
                                                               unsigned int count, unsigned int flags),
        refuse_several(launches, count > INT32_MAX ? -1 : (int)count, flags))
