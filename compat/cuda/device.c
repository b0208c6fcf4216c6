/* device.c - implements the driver API's calls for devices: their number, names and attributes. */
#include "cuda/names.h"

#include <stdio.h>
#include <string.h>

FORWARD_STARTED(CUresult cuDeviceGetCount(int *count), count ? leatc_device_count(count) : LEATC_INVALID_VALUE)

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    CU_TRY(leatcu_started());
    CU_CHECK(device);
    CU_TRY(leatcu_check_device(ordinal));
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    CU_TRY(leatcu_started());
    CU_CHECK(name && length > 0);
    CU_TRY(leatcu_check_device(device));
    CU_TRY(leatcu_result(leatc_device_describe(device, &info)));
    snprintf(name, (size_t)length, "%s", info.model);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    CU_TRY(leatcu_started());
    CU_CHECK(uuid);
    CU_TRY(leatcu_check_device(device));
    return leatcu_result(leatc_device_uuid(device, (unsigned char *)uuid->bytes));
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid_v2(uuid, device);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    CU_TRY(leatcu_started());
    CU_CHECK(bytes);
    CU_TRY(leatcu_check_device(device));
    CU_TRY(leatcu_result(leatc_device_describe(device, &info)));
    *bytes = info.memory_bytes;
    return CUDA_SUCCESS;
}

/* Returns attributes of stream memory operations, which only this library implements, so the engine does not know
 * them. Returns false for other attributes. */
static bool own_attribute(CUdevice_attribute attribute, int *value)
{
    switch ((unsigned)attribute) {
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
        *value = 1;
        return true;
    default:
        return false;
    }
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    CU_TRY(leatcu_started());
    CU_CHECK(value);
    CU_TRY(leatcu_check_device(device));
    if (own_attribute(attribute, value))
        return CUDA_SUCCESS;
    return leatcu_result(leatc_device_attribute(device, (int)attribute, value));
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    CU_TRY(leatcu_started());
    CU_CHECK(major && minor);
    CU_TRY(cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    return cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
}

CUresult cuDeviceGetProperties(CUdevprop *properties, CUdevice device)
{
    CUdevprop filled;
    const struct {
        CUdevice_attribute attribute;
        int *value;
    } wanted[] = {
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &filled.maxThreadsPerBlock},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, &filled.maxThreadsDim[0]},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, &filled.maxThreadsDim[1]},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, &filled.maxThreadsDim[2]},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, &filled.maxGridSize[0]},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, &filled.maxGridSize[1]},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, &filled.maxGridSize[2]},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, &filled.sharedMemPerBlock},
        {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, &filled.totalConstantMemory},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, &filled.SIMDWidth},
        {CU_DEVICE_ATTRIBUTE_MAX_PITCH, &filled.memPitch},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, &filled.regsPerBlock},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &filled.clockRate},
        {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, &filled.textureAlign},
    };

    CU_TRY(leatcu_started());
    CU_CHECK(properties);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        CU_TRY(cuDeviceGetAttribute(wanted[i].value, wanted[i].attribute, device));
    *properties = filled;
    return CUDA_SUCCESS;
}

FORWARD_STARTED(CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *address),
                !device || !address ? LEATC_INVALID_VALUE : leatc_device_by_address(address, device))

CUresult cuDeviceGetPCIBusId(char *address, int length, CUdevice device)
{
    int domain, bus, slot;

    CU_TRY(leatcu_started());
    CU_CHECK(address && length > 0);
    CU_TRY(leatcu_check_device(device));
    CU_TRY(leatcu_result(leatc_device_address(device, &domain, &bus, &slot)));
    snprintf(address, (size_t)length, "%04x:%02x:%02x.0", (unsigned)domain, (unsigned)bus, (unsigned)slot);
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *possible, CUdevice device, CUdevice peer)
{
    CU_TRY(leatcu_started());
    CU_CHECK(possible);
    CU_TRY(leatcu_check_device(device));
    CU_TRY(leatcu_check_device(peer));
    return leatcu_result(leatc_peer_possible(device, peer, possible));
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer)
{
    int possible = 0;

    CU_TRY(leatcu_started());
    CU_CHECK(value && attribute >= CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK &&
             attribute <= CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED);
    CU_TRY(leatcu_check_device(device));
    CU_TRY(leatcu_check_device(peer));
    if (device == peer)
        return CUDA_ERROR_INVALID_DEVICE;
    CU_TRY(leatcu_result(leatc_peer_possible(device, peer, &possible)));
    *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
                     attribute == CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED
                 ? possible
                 : 0;
    return CUDA_SUCCESS;
}

bool leatcu_host_reaches_device(int ordinal)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    return leatc_device_describe(ordinal, &info) == LEATC_OK && !strcmp(info.driver, "cpu") && !info.strict;
}
