/* attribute.c - returns the attributes and properties of devices, and chooses a device by properties. */
#include "hip/layer.h"

#include <stdio.h>
#include <string.h>

/* The rate of the clocks in hip_runtime.h, which count nanoseconds. */
#define CLOCK_KHZ 1000000

/* HIP's numbers of attributes, and CUDA's numbers for the same attributes, which the engine uses. */
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

/* Returns the value of an attribute that only HIP has. Returns false for all other attributes. */
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
    case hipDeviceAttributeImageSupport: /* 1 because leat has arrays, although it has no textures */
        *value = 1;
        return true;
    default:
        return false;
    }
}

/* Returns an attribute that the engine knows. If the clock rate is unknown (0), returns the rate of clock64() in
 * hip_runtime.h instead, because programs divide by the clock rate. */
static int known_attribute(int device, const struct attribute *known, int *value)
{
    LEATC_TRY(leatc_device_attribute(device, known->number, value));
    if (known->hip == hipDeviceAttributeClockRate && !*value)
        *value = CLOCK_KHZ;
    return LEATC_OK;
}

static int get_attribute(int *value, hipDeviceAttribute_t attribute, int device)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

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

/* Returns the maximum number of elements, which is the same for all formats. */
hipError_t hipDeviceGetTexture1DLinearMaxWidth(size_t *width, const hipChannelFormatDesc *desc, int device)
{
    int most = 0;
    int result =
        width && desc ? get_attribute(&most, hipDeviceAttributeMaxTexture1DLinear, device) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *width = (size_t)most;
    return note(result);
}

/* Returns an attribute of a device. The caller knows that the device exists. */
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
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    int result = properties ? leatc_device_describe(device, &info) : LEATC_INVALID_VALUE;

    if (result != LEATC_OK)
        return note(result);
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "%s", info.model);
    (void)leatc_device_uuid(device, (unsigned char *)properties->uuid.bytes);
    properties->totalGlobalMem = info.memory_bytes;
    /* Reports an architecture name that no GPU has, so that programs do not mistake this device for a GPU. */
    snprintf(properties->gcnArchName, sizeof properties->gcnArchName, "leat-%s", info.architecture);
    put_limits(properties, device);
    put_textures(properties, device);
    put_abilities(properties, device);
    return hipSuccess;
}

/* Returns how many of the wanted properties a device meets or exceeds. */
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
