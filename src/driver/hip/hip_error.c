/*
 * hip_error.c - results of the vendor's calls become a status and a sentence.
 */
#include "driver/hip/hip_driver.h"

leat_status leati_hip_status(hi_result code)
{
    if (code >= LEATI_hipErrorStreamCaptureUnsupported && code <= LEATI_hipErrorStreamCaptureWrongThread)
        return LEAT_ERROR_NOT_PERMITTED;
    switch (code) {
    case LEATI_hipSuccess:
        return LEAT_OK;
    case LEATI_hipErrorNotReady:
        return LEAT_NOT_READY;
    case LEATI_hipErrorInvalidValue:
    case LEATI_hipErrorInvalidConfiguration:
    case LEATI_hipErrorInvalidPitchValue:
    case LEATI_hipErrorLaunchOutOfResources:
        return LEAT_ERROR_INVALID;
    case LEATI_hipErrorOutOfMemory:
        return LEAT_ERROR_DEVICE_MEMORY;
    case LEATI_hipErrorNoDevice:
    case LEATI_hipErrorInvalidDevice:
        return LEAT_ERROR_NO_DEVICE;
    case LEATI_hipErrorInvalidContext:
    case LEATI_hipErrorInvalidHandle:
    case LEATI_hipErrorContextIsDestroyed: /* what HIP calls a stream or an event that was destroyed */
        return LEAT_ERROR_HANDLE;
    case LEATI_hipErrorInvalidImage:
    case LEATI_hipErrorNoBinaryForGpu:
    case LEATI_hipErrorInvalidKernelFile:
    case LEATI_hipErrorInvalidSource:
    case LEATI_hipErrorSharedObjectSymbolNotFound:
    case LEATI_hipErrorSharedObjectInitFailed:
        return LEAT_ERROR_IMAGE;
    case LEATI_hipErrorOperatingSystem:
        return LEAT_ERROR_SYSTEM;
    case LEATI_hipErrorNotFound:
        return LEAT_ERROR_NOT_FOUND;
    case LEATI_hipErrorHostMemoryAlreadyRegistered:
        return LEAT_ERROR_REGISTERED;
    case LEATI_hipErrorHostMemoryNotRegistered:
    case LEATI_hipErrorInvalidDevicePointer:
        return LEAT_ERROR_POINTER;
    case LEATI_hipErrorNotSupported:
    case LEATI_hipErrorPeerAccessUnsupported:
        return LEAT_ERROR_UNSUPPORTED;

    /* After these the device's queues are stopped: it is of no more use in this process. */
    case LEATI_hipErrorECCNotCorrectable:
    case LEATI_hipErrorIllegalAddress:
    case LEATI_hipErrorLaunchTimeOut:
    case LEATI_hipErrorAssert:
    case LEATI_hipErrorLaunchFailure:
        return LEAT_ERROR_DEVICE_LOST;
    default:
        return LEAT_ERROR_DRIVER;
    }
}

/* What a person can do about a result; "" where the vendor's text says it all. */
static const char *advice(hi_result code)
{
    switch (code) {
    case LEATI_hipErrorIllegalAddress:
    case LEATI_hipErrorAssert:
    case LEATI_hipErrorLaunchFailure:
        return "; earlier work on the device failed, and the device is of no more use to this process: run the "
               "program with AMD_SERIALIZE_KERNEL=3 to find the kernel";
    case LEATI_hipErrorNotInitialized:
    case LEATI_hipErrorDeinitialized:
        return "; HIP does not work in a process that was forked from one that used it: use exec as well";
    default:
        return "";
    }
}

leat_status leati_hip_fail_as(const struct hip_api *api, leat_status status, const char *call, hi_result code)
{
    const char *name = api->error_name(code);
    const char *text = api->error_string(code);

    if (!name)
        return leati_fail(status, "%s: HIP error %u%s", call, code, advice(code));
    return leati_fail(status, "%s: %s %u (%s)%s", call, name, code, text ? text : "no description", advice(code));
}

leat_status leati_hip_fail(const struct hip_api *api, const char *call, hi_result code)
{
    if (code == LEATI_hipErrorNotReady)
        return LEAT_NOT_READY;
    return leati_hip_fail_as(api, leati_hip_status(code), call, code);
}
