/*
 * cuda_error.c - maps CUDA's result codes to leat's statuses, and formats their texts; gpu/gpu_error.h has the
 * shared part.
 */
#include "driver/cuda/cuda_driver.h"

#define LOST_ADVICE                                                                                               \
    "; earlier work on the device failed, and the device is of no more use to this process: run the program "     \
    "under compute-sanitizer to find the kernel"
#define FORK_ADVICE "; CUDA does not work in a process that was forked from one that used it: use exec as well"

static const struct gpu_meaning meanings[] = {
    {LEATI_CUDA_SUCCESS, LEAT_OK, NULL},
    {LEATI_CUDA_ERROR_NOT_READY, LEAT_NOT_READY, NULL},
    {LEATI_CUDA_ERROR_NOT_INITIALIZED, LEAT_ERROR_DRIVER, FORK_ADVICE},
    {LEATI_CUDA_ERROR_DEVICE_UNAVAILABLE, LEAT_ERROR_DRIVER,
     "; another process has the GPU to itself, or its compute mode forbids work: see nvidia-smi -q -d COMPUTE"},
    {LEATI_CUDA_ERROR_INVALID_VALUE, LEAT_ERROR_INVALID, NULL},
    {LEATI_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, LEAT_ERROR_INVALID, NULL},
    {LEATI_CUDA_ERROR_OUT_OF_MEMORY, LEAT_ERROR_DEVICE_MEMORY, NULL},
    {LEATI_CUDA_ERROR_NO_DEVICE, LEAT_ERROR_NO_DEVICE, NULL},
    {LEATI_CUDA_ERROR_INVALID_DEVICE, LEAT_ERROR_NO_DEVICE, NULL},
    {LEATI_CUDA_ERROR_INVALID_CONTEXT, LEAT_ERROR_HANDLE, NULL},
    {LEATI_CUDA_ERROR_INVALID_HANDLE, LEAT_ERROR_HANDLE, NULL},
    {LEATI_CUDA_ERROR_INVALID_IMAGE, LEAT_ERROR_IMAGE, NULL},
    {LEATI_CUDA_ERROR_NO_BINARY_FOR_GPU, LEAT_ERROR_IMAGE, NULL},
    {LEATI_CUDA_ERROR_INVALID_PTX, LEAT_ERROR_IMAGE, NULL},
    {LEATI_CUDA_ERROR_JIT_COMPILER_NOT_FOUND, LEAT_ERROR_IMAGE, NULL},
    {LEATI_CUDA_ERROR_UNSUPPORTED_PTX_VERSION, LEAT_ERROR_IMAGE,
     "; the PTX is newer than the driver: compile it for an older PTX version, or update the driver"},
    {LEATI_CUDA_ERROR_JIT_COMPILATION_DISABLED, LEAT_ERROR_IMAGE, NULL},
    {LEATI_CUDA_ERROR_INVALID_SOURCE, LEAT_ERROR_IMAGE, NULL},
    {LEATI_CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, LEAT_ERROR_IMAGE, NULL},
    {LEATI_CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, LEAT_ERROR_IMAGE, NULL},
    {LEATI_CUDA_ERROR_OPERATING_SYSTEM, LEAT_ERROR_SYSTEM, NULL},
    {LEATI_CUDA_ERROR_NOT_FOUND, LEAT_ERROR_NOT_FOUND, NULL},
    {LEATI_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, LEAT_ERROR_REGISTERED, NULL},
    {LEATI_CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, LEAT_ERROR_POINTER, NULL},
    {LEATI_CUDA_ERROR_NOT_PERMITTED, LEAT_ERROR_NOT_PERMITTED, NULL},
    {LEATI_CUDA_ERROR_NOT_SUPPORTED, LEAT_ERROR_UNSUPPORTED, NULL},
    {LEATI_CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, LEAT_ERROR_UNSUPPORTED, NULL},
    {LEATI_CUDA_ERROR_TOO_MANY_PEERS, LEAT_ERROR_UNSUPPORTED, NULL},

    /* After one of these errors every call in the context returns the same error, so the context is lost for this
     * process. */
    {LEATI_CUDA_ERROR_ECC_UNCORRECTABLE, LEAT_ERROR_DEVICE_LOST, NULL},
    {LEATI_CUDA_ERROR_NVLINK_UNCORRECTABLE, LEAT_ERROR_DEVICE_LOST, NULL},
    {LEATI_CUDA_ERROR_CONTAINED, LEAT_ERROR_DEVICE_LOST,
     "; the GPU has contained a hardware error or a wrong access to another GPU's memory: start the program again, and look for Xid errors in the kernel's log"},
    {LEATI_CUDA_ERROR_ILLEGAL_ADDRESS, LEAT_ERROR_DEVICE_LOST, LOST_ADVICE},
    {LEATI_CUDA_ERROR_LAUNCH_TIMEOUT, LEAT_ERROR_DEVICE_LOST, NULL},
    {LEATI_CUDA_ERROR_CONTEXT_IS_DESTROYED, LEAT_ERROR_DEVICE_LOST, NULL},
    {LEATI_CUDA_ERROR_ASSERT, LEAT_ERROR_DEVICE_LOST, LOST_ADVICE},
    {LEATI_CUDA_ERROR_HARDWARE_STACK_ERROR, LEAT_ERROR_DEVICE_LOST, LOST_ADVICE},
    {LEATI_CUDA_ERROR_ILLEGAL_INSTRUCTION, LEAT_ERROR_DEVICE_LOST, LOST_ADVICE},
    {LEATI_CUDA_ERROR_MISALIGNED_ADDRESS, LEAT_ERROR_DEVICE_LOST, LOST_ADVICE},
    {LEATI_CUDA_ERROR_INVALID_ADDRESS_SPACE, LEAT_ERROR_DEVICE_LOST, LOST_ADVICE},
    {LEATI_CUDA_ERROR_INVALID_PC, LEAT_ERROR_DEVICE_LOST, LOST_ADVICE},
    {LEATI_CUDA_ERROR_LAUNCH_FAILED, LEAT_ERROR_DEVICE_LOST, LOST_ADVICE},
    {LEATI_CUDA_ERROR_TENSOR_MEMORY_LEAK, LEAT_ERROR_DEVICE_LOST, LOST_ADVICE},
    {LEATI_CUDA_ERROR_MPS_CLIENT_TERMINATED, LEAT_ERROR_DEVICE_LOST, NULL},
    {LEATI_CUDA_ERROR_EXTERNAL_DEVICE, LEAT_ERROR_DEVICE_LOST, NULL},
};

#include "driver/gpu/gpu_error.h"

leat_status leati_cuda_fail_as(const struct gpu_api *api, leat_status status, const char *call, cu_result code)
{
    const char *name = NULL;
    const char *text = NULL;

    /* If the code is unknown, both calls either leave the pointer unchanged or set it to NULL. */
    if (api->error_name(code, &name) != LEATI_CUDA_SUCCESS || !name)
        return leati_fail(status, "%s: CUDA error %u%s", call, code, advice(code));
    if (api->error_string(code, &text) != LEATI_CUDA_SUCCESS || !text)
        text = "no description";
    return leati_fail(status, "%s: %s (%s)%s", call, name, text, advice(code));
}
