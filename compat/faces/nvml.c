/*
 * nvml.c - libnvidia-ml.so.1 for programs without a GPU: the functions of NVIDIA's management library that PyTorch
 * calls, over the devices of the engine. Other functions are missing, so that a program that looks one up sees it.
 */
#include "engine/engine.h"

#include <string.h>
#include <unistd.h>

/* The numbers of nvmlReturn_t. */
enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    TOO_SMALL = 7,
    UNKNOWN = 999
};

/* A device's handle is its number plus 1. */
typedef void *nvml_device;

struct process_info {
    unsigned pid;
    unsigned long long used_bytes;
};

/* The first fields of nvmlGpuFabricInfo_v2_t and of newer versions. */
struct fabric_info {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state; /* 0: not supported */
};

int nvmlInit_v2(void);
int nvmlSystemGetCudaDriverVersion_v2(int *version);
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvml_device *device);
int nvmlDeviceGetComputeRunningProcesses(nvml_device device, unsigned *count, struct process_info *infos);
int nvmlDeviceGetGpuFabricInfoV(nvml_device device, struct fabric_info *info);
int nvmlDeviceGetNvLinkRemoteDeviceType(nvml_device device, unsigned link, int *type);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(nvml_device device, unsigned link, void *info);

static int code_of(int result)
{
    return result == LEATC_OK ? SUCCESS : result == LEATC_INVALID_DEVICE ? NOT_FOUND : UNKNOWN;
}

/* Returns true if the handle is that of a device, and its number. */
static bool is_device(nvml_device device, int *ordinal)
{
    int count = 0;

    *ordinal = (int)((uintptr_t)device - 1);
    return (uintptr_t)device - 1 < LEATC_DEVICES_MAX && leatc_device_count(&count) == LEATC_OK && *ordinal < count;
}

int nvmlInit_v2(void)
{
    return leatc_init() == LEATC_OK ? SUCCESS : UNINITIALIZED;
}

/* The version of libleat-cuda. */
int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    if (!version)
        return INVALID_ARGUMENT;
    *version = LEATC_CUDA_DRIVER_VERSION;
    return SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvml_device *device)
{
    int ordinal = 0, result;

    if (!address || !device)
        return INVALID_ARGUMENT;
    result = leatc_device_by_address(address, &ordinal);
    if (result != LEATC_OK)
        return NOT_FOUND;
    *device = (nvml_device)((uintptr_t)ordinal + 1);
    return SUCCESS;
}

/* Returns this process alone, with all memory that is in use on the device: leat does not know who else uses it.
 */
int nvmlDeviceGetComputeRunningProcesses(nvml_device device, unsigned *count, struct process_info *infos)
{
    size_t free_bytes = 0, total = 0;
    int ordinal, result;
    unsigned room;

    if (!count || !is_device(device, &ordinal))
        return INVALID_ARGUMENT;
    room = *count;
    *count = 1;
    if (!room || !infos)
        return TOO_SMALL;
    result = leatc_device_memory(ordinal, &free_bytes, &total);
    if (result == LEATC_OK)
        infos[0] = (struct process_info){(unsigned)getpid(), total - free_bytes};
    return code_of(result);
}

/* leat's devices have no fabric, and that is what NVIDIA's library returns for such a GPU. */
int nvmlDeviceGetGpuFabricInfoV(nvml_device device, struct fabric_info *info)
{
    int ordinal;

    if (!info || !is_device(device, &ordinal))
        return INVALID_ARGUMENT;
    memset(info->cluster, 0, sizeof info->cluster);
    info->status = SUCCESS;
    info->clique = 0;
    info->state = 0;
    return SUCCESS;
}

/* leat's devices have no NVLink. */
int nvmlDeviceGetNvLinkRemoteDeviceType(nvml_device device, unsigned link, int *type)
{
    int ordinal;

    (void)link;
    return type && is_device(device, &ordinal) ? NOT_SUPPORTED : INVALID_ARGUMENT;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(nvml_device device, unsigned link, void *info)
{
    int ordinal;

    (void)link;
    return info && is_device(device, &ordinal) ? NOT_SUPPORTED : INVALID_ARGUMENT;
}
