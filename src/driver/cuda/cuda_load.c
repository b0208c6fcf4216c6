/*
 * cuda_load.c - names and checks libcuda.so.1, and explains why it does not start; gpu/gpu_load.h has the rest.
 */
#include "driver/cuda/cuda_driver.h"

#include <stdio.h>

/* The oldest driver that has all required functions: CUDA 11.4. */
#define VERSION_FLOOR 11040

#define GPU_PATH_OPTION LEATI_OPTION_CUDA_LIBRARY

static const char *const library_names[] = {GPU_LIBRARY_FILE};

static bool is_reported_by_start(gpu_result code)
{
    return code == LEATI_CUDA_ERROR_STUB_LIBRARY;
}

static leat_status check_number(struct gpu_driver *cuda, int version, const char *path)
{
    snprintf(cuda->base.version, sizeof cuda->base.version, "%d.%d", version / 1000, version % 1000 / 10);
    if (version < VERSION_FLOOR)
        return leati_fail(
            LEAT_ERROR_DRIVER_TOO_OLD,
            "leat needs an NVIDIA driver for CUDA %d.%d or newer, found %d.%d (%s); update the driver",
            VERSION_FLOOR / 1000, VERSION_FLOOR % 1000 / 10, version / 1000, version % 1000 / 10, path);
    return LEAT_OK;
}

static leat_status fail_init(const struct gpu_driver *cuda, cu_result code)
{
    const char *library = cuda->base.library;
    leat_status status;

    switch (code) {
    case LEATI_CUDA_ERROR_NO_DEVICE:
        return leati_fail(
            LEAT_ERROR_NO_DEVICE,
            "the CUDA driver finds no GPU that this process may use; check nvidia-smi and CUDA_VISIBLE_DEVICES");
    case LEATI_CUDA_ERROR_STUB_LIBRARY:
        return leati_fail(
            LEAT_ERROR_NO_DRIVER,
            "%s is the CUDA toolkit's stub, which is only for linking; install the NVIDIA driver, and keep the stubs folder out of LD_LIBRARY_PATH and LEAT_CUDA_LIBRARY",
            library);
    case LEATI_CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        status = leati_cuda_fail_as(&cuda->api, LEAT_ERROR_NO_DRIVER, "cuInit", code);
        return leati_fail_in(
            status,
            "%s and the NVIDIA kernel module have different versions; restart the machine or reload the module",
            library);
    case LEATI_CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
        status = leati_cuda_fail_as(&cuda->api, LEAT_ERROR_DRIVER_TOO_OLD, "cuInit", code);
        return leati_fail_in(
            status,
            "%s is a forward compatibility library that this GPU rejects; use the driver's own libcuda.so.1",
            library);
    case LEATI_CUDA_ERROR_SYSTEM_NOT_READY:
        status = leati_cuda_fail_as(&cuda->api, LEAT_ERROR_NO_DRIVER, "cuInit", code);
        return leati_fail_in(status, "the GPUs are not ready; check that nvidia-fabricmanager runs");
    default:
        status = leati_cuda_fail_as(&cuda->api, LEAT_ERROR_NO_DRIVER, "cuInit", code);
        return leati_fail_in(
            status,
            "the CUDA driver does not start; check nvidia-smi, /dev/nvidia* and the kernel module nvidia_uvm");
    }
}

#include "driver/gpu/gpu_load.h"
