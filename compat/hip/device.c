/* device.c - devices, and what is left of contexts: each device has one. */
#include "hip/layer.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct ihipCtx_t {
    char unused;
};

static struct ihipCtx_t contexts[LEATC_DEVICES_MAX];

/* Runs when the library is loaded, so before a device is looked for. */
__attribute__((constructor)) static void announce(void)
{
    leatc_announce_hip();
}

hipCtx_t leatc_hip_context(int ordinal)
{
    return &contexts[ordinal];
}

static int ordinal_of(hipCtx_t context)
{
    uintptr_t at = (uintptr_t)context;

    return at >= (uintptr_t)contexts && at < (uintptr_t)(contexts + LEATC_DEVICES_MAX)
               ? (int)(at - (uintptr_t)contexts)
               : -1;
}

/* ---- start ---- */

FORWARD(hipError_t hipInit(unsigned int flags), flags ? LEATC_INVALID_VALUE : leatc_init())

static hipError_t put_version(int *version)
{
    if (!version)
        return note(LEATC_INVALID_VALUE);
    *version = HIP_VERSION;
    return hipSuccess;
}

hipError_t hipDriverGetVersion(int *driverVersion)
{
    return put_version(driverVersion);
}

hipError_t hipRuntimeGetVersion(int *runtimeVersion)
{
    return put_version(runtimeVersion);
}

/* The function of this library that a program means by a name: with per_thread the one whose 0 is the per-thread
 * stream, and of two names the one with the struct of HIP 6. NULL: none. */
static void *find_name(void *self, const char *symbol, bool per_thread)
{
    const char *ends[] = {per_thread ? "_spt" : "", "R0600", ""};
    char name[128];
    void *found = NULL;

    if (strncmp(symbol, "hip", 3) != 0 || strlen(symbol) > sizeof name - 8)
        return NULL;
    for (int i = 0; i < 3 && !found; i++) {
        snprintf(name, sizeof name, "%s%s", symbol, ends[i]);
        found = dlsym(self, name);
    }
    return found;
}

static int get_function(const char *symbol, void **function, bool per_thread)
{
    void *self, *found = NULL;
    Dl_info info;

    if (dladdr((void *)&contexts, &info) && (self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD))) {
        found = find_name(self, symbol, per_thread);
        dlclose(self);
    }
    *function = found;
    return found ? LEATC_OK : LEATC_INVALID_VALUE;
}

hipError_t hipGetProcAddress(const char *symbol, void **function, int version, uint64_t flags,
                             hipDriverProcAddressQueryResult *result)
{
    int status;

    (void)version;
    if (!symbol || !function || flags > hipEnablePerThreadDefaultStream)
        return note(LEATC_INVALID_VALUE);
    status = get_function(symbol, function, flags == hipEnablePerThreadDefaultStream);
    if (result)
        *result = status == LEATC_OK ? HIP_GET_PROC_ADDRESS_SUCCESS : HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return note(status);
}

static int get_entry(const char *symbol, void **function, unsigned long long flags, bool per_thread,
                     hipDriverEntryPointQueryResult *result)
{
    int status;

    if (!symbol || !*symbol || !function || flags > hipEnablePerThreadDefaultStream)
        return LEATC_INVALID_VALUE;
    status = get_function(symbol, function,
                          flags == hipEnablePerThreadDefaultStream || (per_thread && flags == hipEnableDefault));
    if (result)
        *result = status == LEATC_OK ? hipDriverEntryPointSuccess : hipDriverEntryPointSymbolNotFound;
    return status;
}

FORWARD(hipError_t hipGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                          hipDriverEntryPointQueryResult *result),
        get_entry(symbol, function, flags, false, result))
FORWARD(hipError_t hipGetDriverEntryPoint_spt(const char *symbol, void **function, unsigned long long flags,
                                              hipDriverEntryPointQueryResult *result),
        get_entry(symbol, function, flags, true, result))

/* ---- devices ---- */

FORWARD(hipError_t hipGetDeviceCount(int *count), leatc_device_count(count))
FORWARD(hipError_t hipGetDevice(int *device), leatc_device_get(device))
FORWARD(hipError_t hipSetDevice(int device), leatc_device_set(device))

hipError_t hipSetValidDevices(int *devices, int count)
{
    int all = 0;
    int result = leatc_device_count(&all);

    if (result != LEATC_OK)
        return note(result);
    if (count < 0 || count > all || (count && !devices))
        return note(LEATC_INVALID_VALUE);
    for (int i = 0; i < count; i++)
        if (check_device(devices[i]) != LEATC_OK)
            return note(LEATC_INVALID_DEVICE);
    return hipSuccess;
}

hipError_t hipDeviceGet(hipDevice_t *device, int ordinal)
{
    int result = device ? check_device(ordinal) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *device = ordinal;
    return note(result);
}

hipError_t hipDeviceGetName(char *name, int bytes, hipDevice_t device)
{
    leat_device_info info;
    int result = name && bytes > 0 ? leatc_device_describe(device, &info) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        snprintf(name, (size_t)bytes, "%s", info.model);
    return note(result);
}

FORWARD(hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device),
        uuid ? leatc_device_uuid(device, (unsigned char *)uuid->bytes) : LEATC_INVALID_VALUE)

hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t device)
{
    leat_device_info info;
    int result = bytes ? leatc_device_describe(device, &info) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *bytes = info.memory_bytes;
    return note(result);
}

hipError_t hipDeviceComputeCapability(int *major, int *minor, hipDevice_t device)
{
    int result = major && minor ? leatc_device_attribute(device, 75, major) : LEATC_INVALID_VALUE;

    return note(result == LEATC_OK ? leatc_device_attribute(device, 76, minor) : result);
}

hipError_t hipDeviceGetPCIBusId(char *text, int bytes, int device)
{
    int domain, bus, slot;
    int result = text && bytes > 0 ? leatc_device_address(device, &domain, &bus, &slot) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        snprintf(text, (size_t)bytes, "%04x:%02x:%02x.0", (unsigned)domain, (unsigned)bus, (unsigned)slot);
    return note(result);
}

hipError_t hipDeviceGetByPCIBusId(int *device, const char *text)
{
    int result = device && text ? leatc_device_by_address(text, device) : LEATC_INVALID_VALUE;

    return note(result == LEATC_INVALID_DEVICE ? LEATC_INVALID_VALUE : result);
}

static int here(int *ordinal)
{
    LEATC_TRY(leatc_init());
    return leatc_device_get(ordinal);
}

hipError_t hipDeviceSynchronize(void)
{
    int ordinal = 0;
    int result = here(&ordinal);

    return note(result == LEATC_OK ? leatc_device_synchronize(ordinal) : result);
}

hipError_t hipDeviceReset(void)
{
    int ordinal = 0;
    int result = here(&ordinal);

    return note(result == LEATC_OK ? leatc_device_reset(ordinal) : result);
}

/* ---- attributes ---- */

/* hip_runtime.h's clocks count nanoseconds. */
#define CLOCK_KHZ 1000000

/* HIP's numbers, and CUDA's for the same, by which the engine knows them. */
static const struct attribute {
    hipDeviceAttribute_t hip;
    int number;
} attributes[] = {
    {hipDeviceAttributeEccEnabled, 32},
    {hipDeviceAttributeAccessPolicyMaxWindowSize, 109},
    {hipDeviceAttributeAsyncEngineCount, 40},
    {hipDeviceAttributeCanMapHostMemory, 19},
    {hipDeviceAttributeCanUseHostPointerForRegisteredMem, 91},
    {hipDeviceAttributeClockRate, 13},
    {hipDeviceAttributeComputeMode, 20},
    {hipDeviceAttributeComputePreemptionSupported, 90},
    {hipDeviceAttributeConcurrentKernels, 31},
    {hipDeviceAttributeConcurrentManagedAccess, 89},
    {hipDeviceAttributeCooperativeLaunch, 95},
    {hipDeviceAttributeCooperativeMultiDeviceLaunch, 96},
    {hipDeviceAttributeDeviceOverlap, 15},
    {hipDeviceAttributeDirectManagedMemAccessFromHost, 101},
    {hipDeviceAttributeGlobalL1CacheSupported, 79},
    {hipDeviceAttributeHostNativeAtomicSupported, 86},
    {hipDeviceAttributeIntegrated, 18},
    {hipDeviceAttributeIsMultiGpuBoard, 84},
    {hipDeviceAttributeKernelExecTimeout, 17},
    {hipDeviceAttributeL2CacheSize, 38},
    {hipDeviceAttributeLocalL1CacheSupported, 80},
    {hipDeviceAttributeComputeCapabilityMajor, 75},
    {hipDeviceAttributeManagedMemory, 83},
    {hipDeviceAttributeMaxBlocksPerMultiProcessor, 106},
    {hipDeviceAttributeMaxBlockDimX, 2},
    {hipDeviceAttributeMaxBlockDimY, 3},
    {hipDeviceAttributeMaxBlockDimZ, 4},
    {hipDeviceAttributeMaxGridDimX, 5},
    {hipDeviceAttributeMaxGridDimY, 6},
    {hipDeviceAttributeMaxGridDimZ, 7},
    {hipDeviceAttributeMaxSurface1D, 55},
    {hipDeviceAttributeMaxSurface1DLayered, 61},
    {hipDeviceAttributeMaxSurface2D, 57},
    {hipDeviceAttributeMaxSurface2DLayered, 63},
    {hipDeviceAttributeMaxSurface3D, 60},
    {hipDeviceAttributeMaxSurfaceCubemap, 66},
    {hipDeviceAttributeMaxSurfaceCubemapLayered, 67},
    {hipDeviceAttributeMaxTexture1DWidth, 21},
    {hipDeviceAttributeMaxTexture1DLayered, 42},
    {hipDeviceAttributeMaxTexture1DLinear, 69},
    {hipDeviceAttributeMaxTexture1DMipmap, 77},
    {hipDeviceAttributeMaxTexture2DWidth, 22},
    {hipDeviceAttributeMaxTexture2DHeight, 23},
    {hipDeviceAttributeMaxTexture2DGather, 45},
    {hipDeviceAttributeMaxTexture2DLayered, 27},
    {hipDeviceAttributeMaxTexture2DLinear, 70},
    {hipDeviceAttributeMaxTexture2DMipmap, 73},
    {hipDeviceAttributeMaxTexture3DWidth, 24},
    {hipDeviceAttributeMaxTexture3DHeight, 25},
    {hipDeviceAttributeMaxTexture3DDepth, 26},
    {hipDeviceAttributeMaxTexture3DAlt, 47},
    {hipDeviceAttributeMaxTextureCubemap, 52},
    {hipDeviceAttributeMaxTextureCubemapLayered, 53},
    {hipDeviceAttributeMaxThreadsDim, 2},
    {hipDeviceAttributeMaxThreadsPerBlock, 1},
    {hipDeviceAttributeMaxThreadsPerMultiProcessor, 39},
    {hipDeviceAttributeMaxPitch, 11},
    {hipDeviceAttributeMemoryBusWidth, 37},
    {hipDeviceAttributeMemoryClockRate, 36},
    {hipDeviceAttributeComputeCapabilityMinor, 76},
    {hipDeviceAttributeMultiGpuBoardGroupID, 85},
    {hipDeviceAttributeMultiprocessorCount, 16},
    {hipDeviceAttributePageableMemoryAccess, 88},
    {hipDeviceAttributePageableMemoryAccessUsesHostPageTables, 100},
    {hipDeviceAttributePciBusId, 33},
    {hipDeviceAttributePciDeviceId, 34},
    {hipDeviceAttributePciDomainID, 50},
    {hipDeviceAttributePersistingL2CacheMaxSize, 108},
    {hipDeviceAttributeMaxRegistersPerBlock, 12},
    {hipDeviceAttributeMaxRegistersPerMultiprocessor, 82},
    {hipDeviceAttributeReservedSharedMemPerBlock, 111},
    {hipDeviceAttributeMaxSharedMemoryPerBlock, 97},
    {hipDeviceAttributeSharedMemPerBlockOptin, 97},
    {hipDeviceAttributeSharedMemPerMultiprocessor, 81},
    {hipDeviceAttributeSingleToDoublePrecisionPerfRatio, 87},
    {hipDeviceAttributeStreamPrioritiesSupported, 78},
    {hipDeviceAttributeSurfaceAlignment, 30},
    {hipDeviceAttributeTccDriver, 35},
    {hipDeviceAttributeTextureAlignment, 14},
    {hipDeviceAttributeTotalConstantMemory, 9},
    {hipDeviceAttributeUnifiedAddressing, 41},
    {hipDeviceAttributeWarpSize, 10},
    {hipDeviceAttributeMemoryPoolsSupported, 115},
    {hipDeviceAttributeVirtualMemoryManagementSupported, 102},
    {hipDeviceAttributeHostRegisterSupported, 99},
    {hipDeviceAttributeMemoryPoolSupportedHandleTypes, 119},
    {hipDeviceAttributeMaxSharedMemoryPerMultiprocessor, 81},
    {hipDeviceAttributePhysicalMultiProcessorCount, 16},
};

/* Those that only HIP has. False when there is no such number. */
static bool own_attribute(const leat_device_info *info, hipDeviceAttribute_t attribute, int *value)
{
    switch (attribute) {
    case hipDeviceAttributeTotalGlobalMem:
        *value = info->memory_bytes > INT32_MAX ? INT32_MAX : (int)info->memory_bytes;
        return true;
    case hipDeviceAttributeCanUseStreamWaitValue:
    case hipDeviceAttributeIsLargeBar:
    case hipDeviceAttributeFineGrainSupport:
        *value = !strcmp(info->driver, "cpu");
        return true;
    case hipDeviceAttributeTexturePitchAlignment:
        *value = HIP_PITCH_BYTES;
        return true;
    case hipDeviceAttributeClockInstructionRate:
    case hipDeviceAttributeWallClockRate:
        *value = CLOCK_KHZ;
        return true;
    case hipDeviceAttributeCooperativeMultiDeviceUnmatchedFunc:
    case hipDeviceAttributeCooperativeMultiDeviceUnmatchedGridDim:
    case hipDeviceAttributeCooperativeMultiDeviceUnmatchedBlockDim:
    case hipDeviceAttributeCooperativeMultiDeviceUnmatchedSharedMem:
    case hipDeviceAttributeAsicRevision:
        *value = 0;
        return true;
    case hipDeviceAttributeImageSupport: /* arrays; there are no textures */
        *value = 1;
        return true;
    default:
        return false;
    }
}

/* Programs divide by the clock, so where leat knows none it is that of hip_runtime.h's clock64(). */
static int known_attribute(int device, const struct attribute *known, int *value)
{
    LEATC_TRY(leatc_device_attribute(device, known->number, value));
    if (known->hip == hipDeviceAttributeClockRate && !*value)
        *value = CLOCK_KHZ;
    return LEATC_OK;
}

static int get_attribute(int *value, hipDeviceAttribute_t attribute, int device)
{
    leat_device_info info;

    if (!value)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_device_describe(device, &info));
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++)
        if (attributes[i].hip == attribute)
            return known_attribute(device, &attributes[i], value);
    return own_attribute(&info, attribute, value) ? LEATC_OK : LEATC_INVALID_VALUE;
}

FORWARD(hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int device),
        get_attribute(value, attribute, device))

/* Elements, whatever their format. */
hipError_t hipDeviceGetTexture1DLinearMaxWidth(size_t *width, const hipChannelFormatDesc *desc, int device)
{
    int most = 0;
    int result =
        width && desc ? get_attribute(&most, hipDeviceAttributeMaxTexture1DLinear, device) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *width = (size_t)most;
    return note(result);
}

/* An attribute of a device that there is. */
static int value_of(int device, hipDeviceAttribute_t attribute)
{
    int value = 0;

    (void)get_attribute(&value, attribute, device);
    return value;
}

static void put_textures(hipDeviceProp_t *p, int device)
{
    p->maxTexture1D = value_of(device, hipDeviceAttributeMaxTexture1DWidth);
    p->maxTexture1DMipmap = value_of(device, hipDeviceAttributeMaxTexture1DMipmap);
    p->maxTexture1DLinear = value_of(device, hipDeviceAttributeMaxTexture1DLinear);
    p->maxTexture2D[0] = value_of(device, hipDeviceAttributeMaxTexture2DWidth);
    p->maxTexture2D[1] = value_of(device, hipDeviceAttributeMaxTexture2DHeight);
    p->maxTexture3D[0] = value_of(device, hipDeviceAttributeMaxTexture3DWidth);
    p->maxTexture3D[1] = value_of(device, hipDeviceAttributeMaxTexture3DHeight);
    p->maxTexture3D[2] = value_of(device, hipDeviceAttributeMaxTexture3DDepth);
    p->textureAlignment = (size_t)value_of(device, hipDeviceAttributeTextureAlignment);
    p->texturePitchAlignment = (size_t)value_of(device, hipDeviceAttributeTexturePitchAlignment);
    p->surfaceAlignment = (size_t)value_of(device, hipDeviceAttributeSurfaceAlignment);
}

static void put_limits(hipDeviceProp_t *p, int device)
{
    p->regsPerBlock = value_of(device, hipDeviceAttributeMaxRegistersPerBlock);
    p->warpSize = value_of(device, hipDeviceAttributeWarpSize);
    p->memPitch = (size_t)value_of(device, hipDeviceAttributeMaxPitch);
    p->maxThreadsPerBlock = value_of(device, hipDeviceAttributeMaxThreadsPerBlock);
    for (int i = 0; i < 3; i++) {
        p->maxThreadsDim[i] = value_of(device, (hipDeviceAttribute_t)(hipDeviceAttributeMaxBlockDimX + i));
        p->maxGridSize[i] = value_of(device, (hipDeviceAttribute_t)(hipDeviceAttributeMaxGridDimX + i));
    }
    p->clockRate = value_of(device, hipDeviceAttributeClockRate);
    p->totalConstMem = (size_t)value_of(device, hipDeviceAttributeTotalConstantMemory);
    p->major = value_of(device, hipDeviceAttributeComputeCapabilityMajor);
    p->minor = value_of(device, hipDeviceAttributeComputeCapabilityMinor);
    p->multiProcessorCount = value_of(device, hipDeviceAttributeMultiprocessorCount);
    p->maxThreadsPerMultiProcessor = value_of(device, hipDeviceAttributeMaxThreadsPerMultiProcessor);
    p->maxBlocksPerMultiProcessor = value_of(device, hipDeviceAttributeMaxBlocksPerMultiProcessor);
    p->sharedMemPerBlock = (size_t)value_of(device, hipDeviceAttributeMaxSharedMemoryPerBlock);
    p->sharedMemPerBlockOptin = p->sharedMemPerBlock;
    p->sharedMemPerMultiprocessor = (size_t)value_of(device, hipDeviceAttributeSharedMemPerMultiprocessor);
    p->maxSharedMemoryPerMultiProcessor = p->sharedMemPerMultiprocessor;
    p->regsPerMultiprocessor = value_of(device, hipDeviceAttributeMaxRegistersPerMultiprocessor);
    p->l2CacheSize = value_of(device, hipDeviceAttributeL2CacheSize);
    p->memoryClockRate = value_of(device, hipDeviceAttributeMemoryClockRate);
    p->memoryBusWidth = value_of(device, hipDeviceAttributeMemoryBusWidth);
    p->clockInstructionRate = value_of(device, hipDeviceAttributeClockInstructionRate);
}

static void put_abilities(hipDeviceProp_t *p, int device)
{
    p->deviceOverlap = value_of(device, hipDeviceAttributeDeviceOverlap);
    p->integrated = value_of(device, hipDeviceAttributeIntegrated);
    p->canMapHostMemory = value_of(device, hipDeviceAttributeCanMapHostMemory);
    p->concurrentKernels = value_of(device, hipDeviceAttributeConcurrentKernels);
    p->pciBusID = value_of(device, hipDeviceAttributePciBusId);
    p->pciDeviceID = value_of(device, hipDeviceAttributePciDeviceId);
    p->pciDomainID = value_of(device, hipDeviceAttributePciDomainID);
    p->asyncEngineCount = value_of(device, hipDeviceAttributeAsyncEngineCount);
    p->unifiedAddressing = value_of(device, hipDeviceAttributeUnifiedAddressing);
    p->streamPrioritiesSupported = value_of(device, hipDeviceAttributeStreamPrioritiesSupported);
    p->managedMemory = value_of(device, hipDeviceAttributeManagedMemory);
    p->concurrentManagedAccess = value_of(device, hipDeviceAttributeConcurrentManagedAccess);
    p->directManagedMemAccessFromHost = value_of(device, hipDeviceAttributeDirectManagedMemAccessFromHost);
    p->hostNativeAtomicSupported = value_of(device, hipDeviceAttributeHostNativeAtomicSupported);
    p->pageableMemoryAccess = value_of(device, hipDeviceAttributePageableMemoryAccess);
    p->canUseHostPointerForRegisteredMem = value_of(device, hipDeviceAttributeCanUseHostPointerForRegisteredMem);
    p->hostRegisterSupported = value_of(device, hipDeviceAttributeHostRegisterSupported);
    p->memoryPoolsSupported = value_of(device, hipDeviceAttributeMemoryPoolsSupported);
    p->memoryPoolSupportedHandleTypes =
        (unsigned)value_of(device, hipDeviceAttributeMemoryPoolSupportedHandleTypes);
    p->isLargeBar = value_of(device, hipDeviceAttributeIsLargeBar);
    p->multiGpuBoardGroupID = value_of(device, hipDeviceAttributeMultiGpuBoardGroupID);
    p->arch = (hipDeviceArch_t){.hasGlobalInt32Atomics = 1,
                                .hasSharedInt32Atomics = 1,
                                .hasGlobalInt64Atomics = 1,
                                .hasSharedInt64Atomics = 1,
                                .hasDoubles = 1,
                                .hasThreadFenceSystem = 1,
                                .has3dGrid = 1};
}

hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600 *properties, int device)
{
    leat_device_info info;
    int result = properties ? leatc_device_describe(device, &info) : LEATC_INVALID_VALUE;

    if (result != LEATC_OK)
        return note(result);
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "%s", info.model);
    (void)leatc_device_uuid(device, (unsigned char *)properties->uuid.bytes);
    properties->totalGlobalMem = info.memory_bytes;
    /* The name of an architecture that no GPU has, so that nobody takes this for one. */
    snprintf(properties->gcnArchName, sizeof properties->gcnArchName, "leat-%s", info.architecture);
    put_limits(properties, device);
    put_textures(properties, device);
    put_abilities(properties, device);
    return hipSuccess;
}

/* How many of the fields that a program looks for are at least as large in a device. */
static int count_matches(const hipDeviceProp_tR0600 *wanted, const hipDeviceProp_tR0600 *device)
{
    const size_t pairs[][2] = {
        {(size_t)wanted->major, (size_t)device->major},
        {(size_t)wanted->minor, (size_t)device->minor},
        {wanted->totalGlobalMem, device->totalGlobalMem},
        {wanted->sharedMemPerBlock, device->sharedMemPerBlock},
        {(size_t)wanted->maxThreadsPerBlock, (size_t)device->maxThreadsPerBlock},
        {wanted->totalConstMem, device->totalConstMem},
        {(size_t)wanted->multiProcessorCount, (size_t)device->multiProcessorCount},
        {(size_t)wanted->maxThreadsPerMultiProcessor, (size_t)device->maxThreadsPerMultiProcessor},
        {(size_t)wanted->memoryClockRate, (size_t)device->memoryClockRate},
    };
    int matches = 0;

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        matches += pairs[i][0] && pairs[i][1] >= pairs[i][0];
    return matches;
}

hipError_t hipChooseDeviceR0600(int *device, const hipDeviceProp_tR0600 *wanted)
{
    int count = 0, best = 0, most = -1;
    int result = device && wanted ? leatc_device_count(&count) : LEATC_INVALID_VALUE;

    for (int i = 0; i < count && result == LEATC_OK; i++) {
        hipDeviceProp_tR0600 properties = {.major = 0};
        int matches;

        result = (int)hipGetDevicePropertiesR0600(&properties, i);
        matches = result == LEATC_OK ? count_matches(wanted, &properties) : -1;
        if (matches > most) {
            best = i;
            most = matches;
        }
    }
    if (result == LEATC_OK)
        *device = best;
    return note(result);
}

/* ---- settings, which are kept and have no effect ---- */

static _Atomic size_t limits[hipLimitRange] = {1024, 1 << 20, 8 << 20};

hipError_t hipDeviceGetLimit(size_t *value, enum hipLimit_t limit)
{
    if (!value)
        return note(LEATC_INVALID_VALUE);
    if ((unsigned)limit >= hipLimitRange)
        return note(HIP_UNSUPPORTED_LIMIT);
    *value = limits[limit];
    return note(leatc_init());
}

hipError_t hipDeviceSetLimit(enum hipLimit_t limit, size_t value)
{
    if ((unsigned)limit >= hipLimitRange)
        return note(HIP_UNSUPPORTED_LIMIT);
    limits[limit] = value;
    return note(leatc_init());
}

static hipError_t get_cache(hipFuncCache_t *config)
{
    if (!config)
        return note(LEATC_INVALID_VALUE);
    *config = hipFuncCachePreferNone;
    return note(leatc_init());
}

static hipError_t set_cache(hipFuncCache_t config)
{
    return note((unsigned)config > hipFuncCachePreferEqual ? LEATC_INVALID_VALUE : leatc_init());
}

static hipError_t get_banks(hipSharedMemConfig *config)
{
    if (!config)
        return note(LEATC_INVALID_VALUE);
    *config = hipSharedMemBankSizeFourByte;
    return note(leatc_init());
}

static hipError_t set_banks(hipSharedMemConfig config)
{
    return note((unsigned)config > hipSharedMemBankSizeEightByte ? LEATC_INVALID_VALUE : leatc_init());
}

hipError_t hipDeviceGetCacheConfig(hipFuncCache_t *config)
{
    return get_cache(config);
}

hipError_t hipDeviceSetCacheConfig(hipFuncCache_t config)
{
    return set_cache(config);
}

hipError_t hipDeviceGetSharedMemConfig(hipSharedMemConfig *config)
{
    return get_banks(config);
}

hipError_t hipDeviceSetSharedMemConfig(hipSharedMemConfig config)
{
    return set_banks(config);
}

/* One way to wait, or none, and what may stand beside it. */
static bool are_device_flags(unsigned flags)
{
    unsigned way = flags & hipDeviceScheduleMask;

    return !(flags & ~(unsigned)(hipDeviceScheduleMask | hipDeviceMapHost | hipDeviceLmemResizeToMax)) &&
           !(way & (way - 1));
}

hipError_t hipSetDeviceFlags(unsigned flags)
{
    int ordinal = 0;
    int result = here(&ordinal);

    if (result == LEATC_OK && !are_device_flags(flags))
        result = LEATC_INVALID_VALUE;
    return note(result == LEATC_OK ? leatc_device_set_flags(ordinal, flags) : result);
}

hipError_t hipGetDeviceFlags(unsigned int *flags)
{
    int ordinal = 0;
    int result = flags ? here(&ordinal) : LEATC_INVALID_VALUE;

    return note(result == LEATC_OK ? leatc_device_flags(ordinal, flags) : result);
}

FORWARD(hipError_t hipProfilerStart(void), leatc_init())
FORWARD(hipError_t hipProfilerStop(void), leatc_init())

/* ---- peers ---- */

FORWARD(hipError_t hipDeviceCanAccessPeer(int *possible, int device, int peer),
        possible ? leatc_peer_possible(device, peer, possible) : LEATC_INVALID_VALUE)
FORWARD(hipError_t hipDeviceEnablePeerAccess(int peer, unsigned int flags), leatc_peer_enable(peer, flags))
FORWARD(hipError_t hipDeviceDisablePeerAccess(int peer), leatc_peer_disable(peer))

hipError_t hipDeviceGetP2PAttribute(int *value, hipDeviceP2PAttr attribute, int device, int peer)
{
    int possible = 0;
    int result = value ? leatc_peer_possible(device, peer, &possible) : LEATC_INVALID_VALUE;

    if (result != LEATC_OK)
        return note(result);
    if (device == peer)
        return note(LEATC_INVALID_DEVICE);
    switch (attribute) {
    case hipDevP2PAttrAccessSupported:
    case hipDevP2PAttrHipArrayAccessSupported:
        *value = possible;
        return hipSuccess;
    case hipDevP2PAttrPerformanceRank:
    case hipDevP2PAttrNativeAtomicSupported:
        *value = 0;
        return hipSuccess;
    default:
        return note(LEATC_INVALID_VALUE);
    }
}

/* The number that AMD's runtime has for PCI Express. */
#define LINK_PCIE 2

hipError_t hipExtGetLinkTypeAndHopCount(int first, int second, uint32_t *type, uint32_t *hops)
{
    int possible = 0;
    int result = type && hops ? leatc_peer_possible(first, second, &possible) : LEATC_INVALID_VALUE;

    if (result != LEATC_OK)
        return note(result);
    if (first == second)
        return note(LEATC_INVALID_VALUE);
    *type = LINK_PCIE;
    *hops = 1;
    return hipSuccess;
}

/* ---- contexts ---- */

#define STACK_MOST 64

/* The devices that this thread's contexts stand for, the current one last; what was current before the first. */
static _Thread_local int stack[STACK_MOST];
static _Thread_local int depth;
static _Thread_local int before_first;

static int push(int ordinal)
{
    if (depth == STACK_MOST)
        return LEATC_OUT_OF_MEMORY;
    if (!depth)
        LEATC_TRY(leatc_device_get(&before_first));
    LEATC_TRY(leatc_device_set(ordinal));
    stack[depth++] = ordinal;
    return LEATC_OK;
}

static int pop(int *ordinal)
{
    if (!depth)
        return LEATC_INVALID_CONTEXT;
    *ordinal = stack[--depth];
    return leatc_device_set(depth ? stack[depth - 1] : before_first);
}

static int check_context(hipCtx_t context, int *ordinal)
{
    *ordinal = ordinal_of(context);
    return *ordinal < 0 || check_device(*ordinal) != LEATC_OK ? LEATC_INVALID_CONTEXT : LEATC_OK;
}

hipError_t hipCtxCreate(hipCtx_t *context, unsigned int flags, hipDevice_t device)
{
    int result = context ? check_device(device) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        result = push(device);
    if (result == LEATC_OK)
        result = leatc_device_set_flags(device, flags);
    if (result == LEATC_OK)
        *context = leatc_hip_context(device);
    return note(result);
}

hipError_t hipCtxDestroy(hipCtx_t context)
{
    int ordinal, popped;
    int result = context ? check_context(context, &ordinal) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK && depth && stack[depth - 1] == ordinal)
        result = pop(&popped);
    return note(result);
}

hipError_t hipCtxPushCurrent(hipCtx_t context)
{
    int ordinal;
    int result = context ? check_context(context, &ordinal) : LEATC_INVALID_CONTEXT;

    return note(result == LEATC_OK ? push(ordinal) : result);
}

hipError_t hipCtxPopCurrent(hipCtx_t *context)
{
    int ordinal = 0;
    int result = pop(&ordinal);

    if (result == LEATC_OK && context)
        *context = leatc_hip_context(ordinal);
    return note(result);
}

hipError_t hipCtxSetCurrent(hipCtx_t context)
{
    int ordinal;
    int result;

    if (!context)
        return note(depth ? pop(&ordinal) : LEATC_OK);
    result = check_context(context, &ordinal);
    if (result == LEATC_OK && depth) {
        result = leatc_device_set(ordinal);
        stack[depth - 1] = ordinal;
        return note(result);
    }
    return note(result == LEATC_OK ? push(ordinal) : result);
}

hipError_t hipCtxGetCurrent(hipCtx_t *context)
{
    int ordinal = 0;
    int result = context ? here(&ordinal) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *context = leatc_hip_context(ordinal);
    return note(result);
}

FORWARD(hipError_t hipCtxGetDevice(hipDevice_t *device), leatc_device_get(device))

hipError_t hipCtxGetApiVersion(hipCtx_t context, int *version)
{
    (void)context;
    if (!version)
        return note(LEATC_INVALID_VALUE);
    *version = 4;
    return hipSuccess;
}

hipError_t hipCtxGetCacheConfig(hipFuncCache_t *config)
{
    return get_cache(config);
}

hipError_t hipCtxSetCacheConfig(hipFuncCache_t config)
{
    return set_cache(config);
}

hipError_t hipCtxSetSharedMemConfig(hipSharedMemConfig config)
{
    return set_banks(config);
}

hipError_t hipCtxGetSharedMemConfig(hipSharedMemConfig *config)
{
    return get_banks(config);
}

hipError_t hipCtxSynchronize(void)
{
    return hipDeviceSynchronize();
}

hipError_t hipCtxGetFlags(unsigned int *flags)
{
    return hipGetDeviceFlags(flags);
}

hipError_t hipCtxEnablePeerAccess(hipCtx_t peer, unsigned int flags)
{
    int ordinal;
    int result = check_context(peer, &ordinal);

    return note(result == LEATC_OK ? leatc_peer_enable(ordinal, flags) : result);
}

hipError_t hipCtxDisablePeerAccess(hipCtx_t peer)
{
    int ordinal;
    int result = check_context(peer, &ordinal);

    return note(result == LEATC_OK ? leatc_peer_disable(ordinal) : result);
}

hipError_t hipDevicePrimaryCtxGetState(hipDevice_t device, unsigned int *flags, int *active)
{
    unsigned found = 0;
    int result = check_device(device);

    if (result == LEATC_OK)
        result = leatc_device_flags(device, &found);
    if (result != LEATC_OK)
        return note(result);
    if (flags)
        *flags = found;
    if (active)
        *active = leatc_device_is_open(device);
    return hipSuccess;
}

hipError_t hipDevicePrimaryCtxRetain(hipCtx_t *context, hipDevice_t device)
{
    int result = context ? check_device(device) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        result = leatc_device_open(device, NULL);
    if (result == LEATC_OK)
        *context = leatc_hip_context(device);
    return note(result);
}

FORWARD(hipError_t hipDevicePrimaryCtxRelease(hipDevice_t device), check_device(device))
FORWARD(hipError_t hipDevicePrimaryCtxReset(hipDevice_t device), leatc_device_reset(device))
FORWARD(hipError_t hipDevicePrimaryCtxSetFlags(hipDevice_t device, unsigned int flags),
        leatc_device_set_flags(device, flags))
