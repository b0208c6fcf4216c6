/*
 * hip_error.c - maps HIP's result codes to leat's statuses, and formats their texts; gpu/gpu_error.h has the
 * shared part.
 */
#include "driver/hip/hip_driver.h"

#define LOST_ADVICE                                                                                               \
    "; earlier work on the device failed, and the device is of no more use to this process: run the program "     \
    "with AMD_SERIALIZE_KERNEL=3 to find the kernel"
#define FORK_ADVICE "; HIP does not work in a process that was forked from one that used it: use exec as well"

static const struct gpu_meaning meanings[] = {
    {LEATI_hipSuccess, LEAT_OK, NULL},
    {LEATI_hipErrorNotReady, LEAT_NOT_READY, NULL},
    {LEATI_hipErrorNotInitialized, LEAT_ERROR_DRIVER, FORK_ADVICE},
    {LEATI_hipErrorDeinitialized, LEAT_ERROR_DRIVER, FORK_ADVICE},
    {LEATI_hipErrorInvalidValue, LEAT_ERROR_INVALID, NULL},
    {LEATI_hipErrorInvalidConfiguration, LEAT_ERROR_INVALID, NULL},
    {LEATI_hipErrorInvalidPitchValue, LEAT_ERROR_INVALID, NULL},
    {LEATI_hipErrorLaunchOutOfResources, LEAT_ERROR_INVALID, NULL},
    {LEATI_hipErrorOutOfMemory, LEAT_ERROR_DEVICE_MEMORY, NULL},
    {LEATI_hipErrorNoDevice, LEAT_ERROR_NO_DEVICE, NULL},
    {LEATI_hipErrorInvalidDevice, LEAT_ERROR_NO_DEVICE, NULL},
    {LEATI_hipErrorInvalidContext, LEAT_ERROR_HANDLE, NULL},
    {LEATI_hipErrorInvalidHandle, LEAT_ERROR_HANDLE, NULL},
    /* HIP returns ContextIsDestroyed for a stream or an event that was destroyed. */
    {LEATI_hipErrorContextIsDestroyed, LEAT_ERROR_HANDLE, NULL},
    {LEATI_hipErrorInvalidImage, LEAT_ERROR_IMAGE, NULL},
    {LEATI_hipErrorNoBinaryForGpu, LEAT_ERROR_IMAGE, NULL},
    {LEATI_hipErrorInvalidKernelFile, LEAT_ERROR_IMAGE, NULL},
    {LEATI_hipErrorInvalidSource, LEAT_ERROR_IMAGE, NULL},
    {LEATI_hipErrorSharedObjectSymbolNotFound, LEAT_ERROR_IMAGE, NULL},
    {LEATI_hipErrorSharedObjectInitFailed, LEAT_ERROR_IMAGE, NULL},
    {LEATI_hipErrorOperatingSystem, LEAT_ERROR_SYSTEM, NULL},
    {LEATI_hipErrorNotFound, LEAT_ERROR_NOT_FOUND, NULL},
    {LEATI_hipErrorHostMemoryAlreadyRegistered, LEAT_ERROR_REGISTERED, NULL},
    {LEATI_hipErrorHostMemoryNotRegistered, LEAT_ERROR_POINTER, NULL},
    {LEATI_hipErrorInvalidDevicePointer, LEAT_ERROR_POINTER, NULL},
    {LEATI_hipErrorNotSupported, LEAT_ERROR_UNSUPPORTED, NULL},
    {LEATI_hipErrorPeerAccessUnsupported, LEAT_ERROR_UNSUPPORTED, NULL},

    /* After one of these errors the runtime stops the device's queues, so the device is lost for this process. */
    {LEATI_hipErrorECCNotCorrectable, LEAT_ERROR_DEVICE_LOST, NULL},
    {LEATI_hipErrorIllegalAddress, LEAT_ERROR_DEVICE_LOST, LOST_ADVICE},
    {LEATI_hipErrorLaunchTimeOut, LEAT_ERROR_DEVICE_LOST, NULL},
    {LEATI_hipErrorAssert, LEAT_ERROR_DEVICE_LOST, LOST_ADVICE},
    {LEATI_hipErrorLaunchFailure, LEAT_ERROR_DEVICE_LOST, LOST_ADVICE},
};

#include "driver/gpu/gpu_error.h"

leat_status leati_hip_fail_as(const struct gpu_api *api, leat_status status, const char *call, hi_result code)
{
    const char *name = api->error_name(code);
    const char *text = api->error_string(code);

    if (!name)
        return leati_fail(status, "%s: HIP error %u%s", call, code, advice(code));
    return leati_fail(status, "%s: %s %u (%s)%s", call, name, code, text ? text : "no description", advice(code));
}
