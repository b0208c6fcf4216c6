/* device.c - lists devices, returns their properties and settings, and selects devices. */
#include "cudart/cudart.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

FORWARD(cudaError_t cudaGetDeviceCount(int *count), leatc_device_count(count))
FORWARD(cudaError_t cudaSetDevice(int device), leatc_device_set(device))
FORWARD(cudaError_t cudaGetDevice(int *device), leatc_device_get(device))

static bool flags_are_valid(unsigned flags)
{
    unsigned schedule = flags & cudaDeviceScheduleMask;

    return !(flags & ~(unsigned)cudaDeviceMask) &&
           (schedule == cudaDeviceScheduleAuto || schedule == cudaDeviceScheduleSpin ||
            schedule == cudaDeviceScheduleYield || schedule == cudaDeviceScheduleBlockingSync);
}

cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags)
{
    int result;

    if (flags & ~(unsigned)cudaInitDeviceFlagsAreValid ||
        (flags & cudaInitDeviceFlagsAreValid && !flags_are_valid(deviceFlags)))
        return note(LEATC_INVALID_VALUE);
    result = leatc_device_open(device, NULL);
    if (result == LEATC_OK && flags & cudaInitDeviceFlagsAreValid)
        result = leatc_device_set_flags(device, deviceFlags);
    return note(result);
}

cudaError_t cudaSetValidDevices(int *device_arr, int len)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    if (len < 0 || (len && !device_arr))
        return note(LEATC_INVALID_VALUE);
    for (int i = 0; i < len; i++)
        if (leatc_device_describe(device_arr[i], &info) != LEATC_OK)
            return note(LEATC_INVALID_DEVICE);
    return cudaSuccess;
}

FORWARD(cudaError_t cudaSetDeviceFlags(unsigned int flags),
        flags_are_valid(flags) ? leatc_device_set_flags(current_device(), flags) : LEATC_INVALID_VALUE)
FORWARD(cudaError_t cudaGetDeviceFlags(unsigned int *flags),
        flags ? leatc_device_flags(current_device(), flags) : LEATC_INVALID_VALUE)
FORWARD(cudaError_t cudaDeviceReset(void), leatc_device_reset(current_device()))
FORWARD(cudaError_t cudaDeviceSynchronize(void), leatc_device_synchronize(current_device()))
FORWARD(cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device),
        leatc_device_attribute(device, (int)attr, value))

/* ---- properties ---- */

/* Properties whose value is that of an attribute. */
static const struct {
    size_t offset;
    int attribute;
} int_properties[] = {
#define AT(field, number)                                                                                         \
    {                                                                                                             \
        offsetof(struct cudaDeviceProp, field), number                                                            \
    }
    AT(regsPerBlock, 12),
    AT(warpSize, 10),
    AT(maxThreadsPerBlock, 1),
    AT(maxThreadsDim[0], 2),
    AT(maxThreadsDim[1], 3),
    AT(maxThreadsDim[2], 4),
    AT(maxGridSize[0], 5),
    AT(maxGridSize[1], 6),
    AT(maxGridSize[2], 7),
    AT(major, 75),
    AT(minor, 76),
    AT(multiProcessorCount, 16),
    AT(integrated, 18),
    AT(canMapHostMemory, 19),
    AT(maxTexture1D, 21),
    AT(maxTexture1DMipmap, 77),
    AT(maxTexture2D[0], 22),
    AT(maxTexture2D[1], 23),
    AT(maxTexture3D[0], 24),
    AT(maxTexture3D[1], 25),
    AT(maxTexture3D[2], 26),
    AT(maxTexture2DLinear[0], 70),
    AT(maxTexture2DLinear[1], 71),
    AT(maxTexture2DLinear[2], 72),
    AT(maxTexture1DLayered[0], 42),
    AT(maxTexture1DLayered[1], 43),
    AT(maxTexture2DLayered[0], 27),
    AT(maxTexture2DLayered[1], 28),
    AT(maxTexture2DLayered[2], 29),
    AT(maxSurface1D, 55),
    AT(maxSurface2D[0], 56),
    AT(maxSurface2D[1], 57),
    AT(maxSurface3D[0], 58),
    AT(maxSurface3D[1], 59),
    AT(maxSurface3D[2], 60),
    AT(concurrentKernels, 31),
    AT(ECCEnabled, 32),
    AT(pciBusID, 33),
    AT(pciDeviceID, 34),
    AT(pciDomainID, 50),
    AT(tccDriver, 35),
    AT(asyncEngineCount, 40),
    AT(unifiedAddressing, 41),
    AT(memoryBusWidth, 37),
    AT(l2CacheSize, 38),
    AT(persistingL2CacheMaxSize, 108),
    AT(maxThreadsPerMultiProcessor, 39),
    AT(streamPrioritiesSupported, 78),
    AT(globalL1CacheSupported, 79),
    AT(localL1CacheSupported, 80),
    AT(regsPerMultiprocessor, 82),
    AT(managedMemory, 83),
    AT(isMultiGpuBoard, 84),
    AT(multiGpuBoardGroupID, 85),
    AT(hostNativeAtomicSupported, 86),
    AT(pageableMemoryAccess, 88),
    AT(concurrentManagedAccess, 89),
    AT(computePreemptionSupported, 90),
    AT(canUseHostPointerForRegisteredMem, 91),
    AT(cooperativeLaunch, 95),
    AT(pageableMemoryAccessUsesHostPageTables, 100),
    AT(directManagedMemAccessFromHost, 101),
    AT(maxBlocksPerMultiProcessor, 106),
    AT(accessPolicyMaxWindowSize, 109),
    AT(hostRegisterSupported, 99),
    AT(sparseCudaArraySupported, 112),
    AT(hostRegisterReadOnlySupported, 113),
    AT(timelineSemaphoreInteropSupported, 114),
    AT(memoryPoolsSupported, 115),
    AT(gpuDirectRDMASupported, 116),
    AT(gpuDirectRDMAWritesOrdering, 118),
    AT(deferredMappingCudaArraySupported, 121),
    AT(ipcEventSupported, 125),
    AT(clusterLaunch, 120),
    AT(deviceNumaConfig, 130),
    AT(deviceNumaId, 131),
    AT(mpsEnabled, 133),
    AT(hostNumaId, 134),
    AT(hostNumaMultinodeIpcSupported, 143),
#undef AT
};

static size_t size_of(int device, int attribute)
{
    int value = 0;

    (void)leatc_device_attribute(device, attribute, &value);
    return (size_t)value;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    int result = leatc_device_describe(device, &info);

    if (!prop)
        return note(LEATC_INVALID_VALUE);
    if (result != LEATC_OK)
        return note(result);
    memset(prop, 0, sizeof *prop);
    snprintf(prop->name, sizeof prop->name, "%s", info.model);
    (void)leatc_device_uuid(device, (unsigned char *)prop->uuid.bytes);
    prop->totalGlobalMem = info.memory_bytes;
    prop->sharedMemPerBlock = size_of(device, 8);
    prop->memPitch = size_of(device, 11);
    prop->totalConstMem = size_of(device, 9);
    prop->textureAlignment = size_of(device, 14);
    prop->texturePitchAlignment = size_of(device, 51);
    prop->surfaceAlignment = size_of(device, 30);
    prop->sharedMemPerMultiprocessor = size_of(device, 81);
    prop->sharedMemPerBlockOptin = size_of(device, 97);
    prop->reservedSharedMemPerBlock = size_of(device, 111);
    prop->memoryPoolSupportedHandleTypes = (unsigned)size_of(device, 119);
    for (size_t i = 0; i < sizeof int_properties / sizeof int_properties[0]; i++)
        (void)leatc_device_attribute(device, int_properties[i].attribute,
                                     (int *)(void *)((char *)prop + int_properties[i].offset));
    return cudaSuccess;
}

/* Returns the device that meets most of two requirements in prop: compute capability and memory. If several
 * devices meet as many, returns the first of them. */
cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *prop)
{
    int count = 0, chosen = 0, best = -1, result = leatc_device_count(&count);

    if (!device || !prop)
        return note(LEATC_INVALID_VALUE);
    if (result != LEATC_OK)
        return note(result);
    for (int i = 0; i < count; i++) {
        leat_device_info info = LEAT_DEVICE_INFO_INIT;
        int major = 0, matches;

        (void)leatc_device_describe(i, &info);
        (void)leatc_device_attribute(i, 75, &major);
        matches = (major >= prop->major) + (info.memory_bytes >= prop->totalGlobalMem);
        if (matches > best)
            best = matches, chosen = i;
    }
    *device = chosen;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int srcDevice, int dstDevice)
{
    int possible = 0, result;

    if (!value || attr < cudaDevP2PAttrPerformanceRank || attr > cudaDevP2PAttrCudaArrayAccessSupported)
        return note(LEATC_INVALID_VALUE);
    result = leatc_peer_possible(srcDevice, dstDevice, &possible);
    if (result == LEATC_OK && srcDevice == dstDevice)
        result = LEATC_INVALID_DEVICE;
    if (result == LEATC_OK)
        *value = attr == cudaDevP2PAttrPerformanceRank ? 0 : possible;
    return note(result);
}

/* ---- settings: stored and returned; only the stack size has an effect ---- */

static _Atomic size_t limits[] = {
    [cudaLimitStackSize] = 1024,
    [cudaLimitPrintfFifoSize] = 1048576,
    [cudaLimitMallocHeapSize] = 8388608,
    [cudaLimitDevRuntimeSyncDepth] = 2,
    [cudaLimitDevRuntimePendingLaunchCount] = 2048,
    [cudaLimitMaxL2FetchGranularity] = 64,
    [cudaLimitPersistingL2CacheSize] = 0,
};

static _Atomic int cache_config;

static bool is_limit(enum cudaLimit limit)
{
    return (unsigned)limit < sizeof limits / sizeof limits[0];
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    if (!is_limit(limit))
        return note(cudaErrorUnsupportedLimit);
    if (limit == cudaLimitMaxL2FetchGranularity && value > 128)
        return note(LEATC_INVALID_VALUE);
    if (limit == cudaLimitStackSize)
        leatc_stack_want(value);
    atomic_store(&limits[limit], value);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetLimit(size_t *pValue, enum cudaLimit limit)
{
    if (!pValue)
        return note(LEATC_INVALID_VALUE);
    if (!is_limit(limit))
        return note(cudaErrorUnsupportedLimit);
    *pValue = atomic_load(&limits[limit]);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *pCacheConfig)
{
    if (!pCacheConfig)
        return note(LEATC_INVALID_VALUE);
    *pCacheConfig = (enum cudaFuncCache)atomic_load(&cache_config);
    return cudaSuccess;
}

cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache cacheConfig)
{
    if ((unsigned)cacheConfig > cudaFuncCachePreferEqual)
        return note(LEATC_INVALID_VALUE);
    atomic_store(&cache_config, (int)cacheConfig);
    return cudaSuccess;
}

static _Atomic int bank_config;

cudaError_t cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *pConfig)
{
    if (!pConfig)
        return note(LEATC_INVALID_VALUE);
    *pConfig = (enum cudaSharedMemConfig)atomic_load(&bank_config);
    return cudaSuccess;
}

cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config)
{
    if ((unsigned)config > cudaSharedMemBankSizeEightByte)
        return note(LEATC_INVALID_VALUE);
    atomic_store(&bank_config, (int)config);
    return cudaSuccess;
}

/* Does nothing: no other device writes to leat's devices by RDMA, so there are no writes to flush. */
FORWARD(cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(enum cudaFlushGPUDirectRDMAWritesTarget target,
                                                       enum cudaFlushGPUDirectRDMAWritesScope scope),
        target != cudaFlushGPUDirectRDMAWritesTargetCurrentDevice ||
                (scope != cudaFlushGPUDirectRDMAWritesToOwner && scope != cudaFlushGPUDirectRDMAWritesToAllDevices)
            ? LEATC_INVALID_VALUE
            : LEATC_NOT_SUPPORTED)

cudaError_t cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    if (leastPriority)
        *leastPriority = 0;
    if (greatestPriority)
        *greatestPriority = LEATC_PRIORITY_HIGHEST;
    return cudaSuccess;
}

/* ---- addresses and peers ---- */

FORWARD(cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *pciBusId),
        !device || !pciBusId ? LEATC_INVALID_VALUE : leatc_device_by_address(pciBusId, device))

cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
    int domain = 0, bus = 0, slot = 0, result;

    if (!pciBusId || len < 13)
        return note(LEATC_INVALID_VALUE);
    result = leatc_device_address(device, &domain, &bus, &slot);
    if (result == LEATC_OK)
        snprintf(pciBusId, (size_t)len, "%04x:%02x:%02x.0", (unsigned)domain & 0xffff, (unsigned)bus & 0xff,
                 (unsigned)slot & 0xff);
    return note(result);
}

FORWARD(cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice),
        !canAccessPeer ? LEATC_INVALID_VALUE : leatc_peer_possible(device, peerDevice, canAccessPeer))
FORWARD(cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags),
        leatc_peer_enable(peerDevice, flags))
FORWARD(cudaError_t cudaDeviceDisablePeerAccess(int peerDevice), leatc_peer_disable(peerDevice))
