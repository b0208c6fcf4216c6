/*
 * hip_load.c - names and checks libamdhip64.so, and explains why it does not start; gpu/gpu_load.h has the rest.
 */
#include "driver/hip/hip_driver.h"

#include <stdio.h>

/* The version of the oldest library that has all required functions. */
#define VERSION_FLOOR LEATI_HIP_VERSION(5, 2)

#define GPU_PATH_OPTION LEATI_OPTION_HIP_LIBRARY

/* Each major version of ROCm has its own soname. The last name, without a version, exists only in installations
 * for development. */
static const char *const library_names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                            "libamdhip64.so"};

static bool is_reported_by_start(gpu_result code)
{
    return code == LEATI_hipErrorNoDevice || code == LEATI_hipErrorInvalidDevice;
}

static leat_status check_number(struct gpu_driver *hip, int version, const char *path)
{
    snprintf(hip->base.version, sizeof hip->base.version, "%d.%d", version / 10000000, version / 100000 % 100);
    if (version < VERSION_FLOOR)
        return leati_fail(LEAT_ERROR_DRIVER_TOO_OLD,
                          "leat needs HIP %d.%d or newer, found %d.%d (%s); update ROCm", VERSION_FLOOR / 10000000,
                          VERSION_FLOOR / 100000 % 100, version / 10000000, version / 100000 % 100, path);
    return LEAT_OK;
}

static leat_status fail_init(const struct gpu_driver *hip, hi_result code)
{
    leat_status status;

    switch (code) {
    case LEATI_hipErrorNoDevice:
    case LEATI_hipErrorInvalidDevice:
        return leati_fail(
            LEAT_ERROR_NO_DEVICE,
            "the HIP library finds no AMD GPU that this process may use; check rocminfo, access to /dev/kfd (group render), HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES");
    case LEATI_hipErrorInsufficientDriver:
        status = leati_hip_fail_as(&hip->api, LEAT_ERROR_DRIVER_TOO_OLD, "hipInit", code);
        return leati_fail_in(status, "the kernel's amdgpu driver is too old for %s", hip->base.library);
    default:
        status = leati_hip_fail_as(&hip->api, LEAT_ERROR_NO_DRIVER, "hipInit", code);
        return leati_fail_in(
            status, "the HIP library does not start; check rocminfo and access to /dev/kfd and /dev/dri/render*");
    }
}

#include "driver/gpu/gpu_load.h"
