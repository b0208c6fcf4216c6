/*
 * cuda_error.c - results of the vendor's calls become a status and a sentence.
 */
#include "driver/cuda/cuda_driver.h"

leat_status leati_cuda_status(cu_result code)
{
    if (code >= LEATI_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
        code <= LEATI_CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
        return LEAT_ERROR_NOT_PERMITTED;
    switch (code) {
    case LEATI_CUDA_SUCCESS:
        return LEAT_OK;
    case LEATI_CUDA_ERROR_NOT_READY:
        return LEAT_NOT_READY;
    case LEATI_CUDA_ERROR_INVALID_VALUE:
    case LEATI_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
        return LEAT_ERROR_INVALID;
    case LEATI_CUDA_ERROR_OUT_OF_MEMORY:
        return LEAT_ERROR_DEVICE_MEMORY;
    case LEATI_CUDA_ERROR_NO_DEVICE:
    case LEATI_CUDA_ERROR_INVALID_DEVICE:
        return LEAT_ERROR_NO_DEVICE;
    case LEATI_CUDA_ERROR_INVALID_CONTEXT:
    case LEATI_CUDA_ERROR_INVALID_HANDLE:
        return LEAT_ERROR_HANDLE;
    case LEATI_CUDA_ERROR_INVALID_IMAGE:
    case LEATI_CUDA_ERROR_NO_BINARY_FOR_GPU:
    case LEATI_CUDA_ERROR_INVALID_PTX:
    case LEATI_CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case LEATI_CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case LEATI_CUDA_ERROR_JIT_COMPILATION_DISABLED:
    case LEATI_CUDA_ERROR_INVALID_SOURCE:
    case LEATI_CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND:
    case LEATI_CUDA_ERROR_SHARED_OBJECT_INIT_FAILED:
        return LEAT_ERROR_IMAGE;
    case LEATI_CUDA_ERROR_OPERATING_SYSTEM:
        return LEAT_ERROR_SYSTEM;
    case LEATI_CUDA_ERROR_NOT_FOUND:
        return LEAT_ERROR_NOT_FOUND;
    case LEATI_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
        return LEAT_ERROR_REGISTERED;
    case LEATI_CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED:
        return LEAT_ERROR_POINTER;
    case LEATI_CUDA_ERROR_NOT_PERMITTED:
        return LEAT_ERROR_NOT_PERMITTED;
    case LEATI_CUDA_ERROR_NOT_SUPPORTED:
    case LEATI_CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
    case LEATI_CUDA_ERROR_TOO_MANY_PEERS:
        return LEAT_ERROR_UNSUPPORTED;

    /* After these the context answers every call with the same error: it is of no more use in this process. */
    case LEATI_CUDA_ERROR_ECC_UNCORRECTABLE:
    case LEATI_CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case LEATI_CUDA_ERROR_ILLEGAL_ADDRESS:
    case LEATI_CUDA_ERROR_LAUNCH_TIMEOUT:
    case LEATI_CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case LEATI_CUDA_ERROR_ASSERT:
    case LEATI_CUDA_ERROR_HARDWARE_STACK_ERROR:
    case LEATI_CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case LEATI_CUDA_ERROR_MISALIGNED_ADDRESS:
    case LEATI_CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case LEATI_CUDA_ERROR_INVALID_PC:
    case LEATI_CUDA_ERROR_LAUNCH_FAILED:
    case LEATI_CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case LEATI_CUDA_ERROR_EXTERNAL_DEVICE:
        return LEAT_ERROR_DEVICE_LOST;
    default:
        return LEAT_ERROR_DRIVER;
    }
}

/* What a person can do about a result; "" where the vendor's text says it all. */
static const char *advice(cu_result code)
{
    switch (code) {
    case LEATI_CUDA_ERROR_ILLEGAL_ADDRESS:
    case LEATI_CUDA_ERROR_ASSERT:
    case LEATI_CUDA_ERROR_HARDWARE_STACK_ERROR:
    case LEATI_CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case LEATI_CUDA_ERROR_MISALIGNED_ADDRESS:
    case LEATI_CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case LEATI_CUDA_ERROR_INVALID_PC:
    case LEATI_CUDA_ERROR_LAUNCH_FAILED:
        return "; earlier work on the device failed, and the device is of no more use to this process: run the "
               "program "
               "under compute-sanitizer to find the kernel";
    case LEATI_CUDA_ERROR_NOT_INITIALIZED:
        return "; CUDA does not work in a process that was forked from one that used it: use exec as well";
    case LEATI_CUDA_ERROR_DEVICE_UNAVAILABLE:
        return "; another process has the GPU to itself, or its compute mode forbids work: see nvidia-smi -q -d "
               "COMPUTE";
    case LEATI_CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
        return "; the PTX is newer than the driver: compile it for an older PTX version, or update the driver";
    default:
        return "";
    }
}

leat_status leati_cuda_fail_as(const struct cuda_api *cu, leat_status status, const char *call, cu_result code)
{
    const char *name = NULL;
    const char *text = NULL;

    /* Both leave the pointer as it was, or set it to NULL, for a number that they do not know. */
    if (cu->error_name(code, &name) != LEATI_CUDA_SUCCESS || !name)
        return leati_fail(status, "%s: CUDA error %u%s", call, code, advice(code));
    if (cu->error_string(code, &text) != LEATI_CUDA_SUCCESS || !text)
        text = "no description";
    return leati_fail(status, "%s: %s (%s)%s", call, name, text, advice(code));
}

leat_status leati_cuda_fail(const struct cuda_api *cu, const char *call, cu_result code)
{
    if (code == LEATI_CUDA_ERROR_NOT_READY)
        return LEAT_NOT_READY;
    return leati_cuda_fail_as(cu, leati_cuda_status(code), call, code);
}
