/* device.c - lists devices and their settings. Implements HIP's contexts: each device has one, which only
 * identifies it. */
#include "hip/layer.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct ihipCtx_t {
    char unused;
};

static struct ihipCtx_t contexts[LEATC_DEVICES_MAX];

/* Runs when the library is loaded, which is before the engine looks for devices. */
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

/* ---- initialization, functions by name ---- */

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

/* Returns the function of this library that has a name, or NULL. per_thread: prefers the variant whose NULL stream
 * is the per-thread stream. Of two versions, prefers the version with HIP 6's struct. */
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
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    int result = name && bytes > 0 ? leatc_device_describe(device, &info) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        snprintf(name, (size_t)bytes, "%s", info.model);
    return note(result);
}

FORWARD(hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device),
        uuid ? leatc_device_uuid(device, (unsigned char *)uuid->bytes) : LEATC_INVALID_VALUE)

hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t device)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
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

/* ---- settings: stored and returned, without effect ---- */

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

/* Returns true if the flags are valid for a device: at most one flag for the way to wait, and flags that may be
 * combined with it. */
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

/* The number that AMD's runtime returns for a PCI Express link (HSA_AMD_LINK_INFO_TYPE_PCIE). */
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

/* The ordinals of the devices on this thread's stack of contexts; the current one is last. before_first is the
 * device that was current before the first context was pushed. */
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
