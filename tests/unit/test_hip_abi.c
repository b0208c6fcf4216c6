/*
 * test_hip_abi.c - compares leat's own HIP declarations with AMD's hip/hip_runtime_api.h, if it is installed.
 *
 * The compiler checks the values of constants, the sizes and offsets of struct members, and that every function of
 * the list has the type that the header declares. The test skips declarations that the installed version of the
 * header lacks; so with a header before HIP 6 nothing checks the declarations of HIP 6 and later. The program
 * prints what was compared.
 */
#include <stdio.h>

#if __has_include(<hip/hip_runtime_api.h>)

#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>

#include "abi.h"

#include "driver/hip/hip_symbols.h"
#include "driver/hip/hip_types.h"

#define SINCE(major, minor) (HIP_VERSION_MAJOR * 100 + HIP_VERSION_MINOR >= (major)*100 + (minor))

LEATI_HIP_CONSTANT_LIST(CHECK_CONSTANT)
#if SINCE(6, 0)
LEATI_HIP_6_CONSTANT_LIST(CHECK_CONSTANT)
#else
LEATI_HIP_5_CONSTANT_LIST(CHECK_CONSTANT)
#endif
#if SINCE(5, 3)
LEATI_HIP_53_CONSTANT_LIST(CHECK_CONSTANT)
#endif

CHECK_TYPE(hi_device, hipDevice_t);
CHECK_TYPE(hi_deviceptr, hipDeviceptr_t);
CHECK_TYPE(hi_mem_handle, hipMemGenericAllocationHandle_t);
CHECK_TYPE(hi_context, hipCtx_t);
CHECK_TYPE(hi_stream, hipStream_t);
CHECK_TYPE(hi_event, hipEvent_t);
CHECK_TYPE(hi_module, hipModule_t);
CHECK_TYPE(hi_function, hipFunction_t);
CHECK_TYPE(hi_host_function, hipHostFn_t);

CHECK_ENUM(hi_result, hipError_t);
CHECK_ENUM(hi_device_attribute, hipDeviceAttribute_t);
CHECK_ENUM(hi_function_attribute, hipFunction_attribute);
CHECK_ENUM(hi_copy_kind, hipMemcpyKind);
CHECK_ENUM(hi_mem_advice, hipMemoryAdvise);
CHECK_ENUM(hi_range_attribute, hipMemRangeAttribute);
CHECK_ENUM(hi_handle_type, hipMemAllocationHandleType);
CHECK_ENUM(hi_granularity_kind, hipMemAllocationGranularity_flags);

CHECK_SIZE(hi_mem_location, hipMemLocation);
CHECK_MEMBER(hi_mem_location, type, hipMemLocation, type);
CHECK_MEMBER(hi_mem_location, id, hipMemLocation, id);
CHECK_SIZE(hi_mem_access, hipMemAccessDesc);
CHECK_MEMBER(hi_mem_access, location, hipMemAccessDesc, location);
CHECK_MEMBER(hi_mem_access, flags, hipMemAccessDesc, flags);
CHECK_SIZE(hi_mem_properties, hipMemAllocationProp);
#if SINCE(5, 3)
CHECK_MEMBER(hi_mem_properties, type, hipMemAllocationProp, type);
CHECK_MEMBER(hi_mem_properties, handle_types, hipMemAllocationProp, requestedHandleType);
CHECK_MEMBER(hi_mem_properties, location, hipMemAllocationProp, location);
CHECK_MEMBER(hi_mem_properties, win32_metadata, hipMemAllocationProp, win32HandleMetaData);
CHECK_MEMBER(hi_mem_properties, flags.compression, hipMemAllocationProp, allocFlags.compressionType);
CHECK_MEMBER(hi_mem_properties, flags.gpu_direct_rdma, hipMemAllocationProp, allocFlags.gpuDirectRDMACapable);
CHECK_MEMBER(hi_mem_properties, flags.usage, hipMemAllocationProp, allocFlags.usage);
#endif

CHECK_SIZE(hi_pointer_attributes, hipPointerAttribute_t);
#if SINCE(6, 0)
CHECK_MEMBER(hi_pointer_attributes, type, hipPointerAttribute_t, type);
#else
CHECK_MEMBER(hi_pointer_attributes, type, hipPointerAttribute_t, memoryType);
#endif
CHECK_MEMBER(hi_pointer_attributes, device, hipPointerAttribute_t, device);
CHECK_MEMBER(hi_pointer_attributes, device_pointer, hipPointerAttribute_t, devicePointer);
CHECK_MEMBER(hi_pointer_attributes, host_pointer, hipPointerAttribute_t, hostPointer);
CHECK_MEMBER(hi_pointer_attributes, is_managed, hipPointerAttribute_t, isManaged);
CHECK_MEMBER(hi_pointer_attributes, flags, hipPointerAttribute_t, allocationFlags);

#if SINCE(6, 0)
CHECK_SIZE(hi_properties_6, hipDeviceProp_tR0600);
CHECK_MEMBER(hi_properties_6, architecture, hipDeviceProp_tR0600, gcnArchName);
#else
CHECK_SIZE(hi_properties_5, hipDeviceProp_t);
CHECK_MEMBER(hi_properties_5, architecture, hipDeviceProp_t, gcnArchName);
#endif

CHECK_SIZE(hi_region_copy, hipMemcpy3DParms);
#define CHECK_REGION_END(side)                                                                                    \
    CHECK_MEMBER(hi_region_copy, side##_array, hipMemcpy3DParms, side##Array);                                    \
    CHECK_MEMBER(hi_region_copy, side##_x, hipMemcpy3DParms, side##Pos.x);                                        \
    CHECK_MEMBER(hi_region_copy, side##_y, hipMemcpy3DParms, side##Pos.y);                                        \
    CHECK_MEMBER(hi_region_copy, side##_z, hipMemcpy3DParms, side##Pos.z);                                        \
    CHECK_MEMBER(hi_region_copy, side.ptr, hipMemcpy3DParms, side##Ptr.ptr);                                      \
    CHECK_MEMBER(hi_region_copy, side.pitch, hipMemcpy3DParms, side##Ptr.pitch);                                  \
    CHECK_MEMBER(hi_region_copy, side.width, hipMemcpy3DParms, side##Ptr.xsize);                                  \
    CHECK_MEMBER(hi_region_copy, side.height, hipMemcpy3DParms, side##Ptr.ysize)
CHECK_REGION_END(src);
CHECK_REGION_END(dst);
CHECK_MEMBER(hi_region_copy, width, hipMemcpy3DParms, extent.width);
CHECK_MEMBER(hi_region_copy, height, hipMemcpy3DParms, extent.height);
CHECK_MEMBER(hi_region_copy, depth, hipMemcpy3DParms, extent.depth);
CHECK_MEMBER(hi_region_copy, kind, hipMemcpy3DParms, kind);

/*
 * Expands the list again with the vendor's types in place of ours. Each entry must have the type of the header's
 * function.
 */
#define hi_result hipError_t
#define hi_device_attribute hipDeviceAttribute_t
#define hi_function_attribute hipFunction_attribute
#define hi_copy_kind hipMemcpyKind
#define hi_mem_advice hipMemoryAdvise
#define hi_range_attribute hipMemRangeAttribute
#define hi_handle_type hipMemAllocationHandleType
#define hi_granularity_kind hipMemAllocationGranularity_flags
#define hi_mem_properties hipMemAllocationProp
#define hi_mem_access hipMemAccessDesc
#define hi_pointer_attributes hipPointerAttribute_t
#define hi_region_copy hipMemcpy3DParms
#define hi_stream_callback hipStreamCallback_t
#define hi_properties_5 hipDeviceProp_t
#define hi_properties_6 hipDeviceProp_tR0600

/* From HIP 6 on, AMD's header has a macro that turns the plain name into the newer function's name. */
#if SINCE(6, 0)
#undef hipGetDeviceProperties
hipError_t hipGetDeviceProperties(hi_properties_5 *properties, int device);
#else
typedef struct hip_properties_tR0600 hipDeviceProp_tR0600;
hipError_t hipGetDevicePropertiesR0600(hi_properties_6 *properties, int device);
#endif
#if !SINCE(5, 6)
hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t *device);
#endif

#define CHECK_FUNCTION(field, name, need, parameters)                                                             \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), hipError_t(*) parameters), #name);
LEATI_HIP_SYMBOL_LIST(CHECK_FUNCTION)
#define CHECK_TEXT(field, name, need, parameters)                                                                 \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), const char *(*)parameters), #name);
LEATI_HIP_TEXT_LIST(CHECK_TEXT)

int main(void)
{
    unsigned constants = 0;
    unsigned functions = 0;

#define COUNT(...) constants++;
    LEATI_HIP_CONSTANT_LIST(COUNT)
#undef COUNT
#define COUNT(...) functions++;
    LEATI_HIP_SYMBOL_LIST(COUNT)
    LEATI_HIP_TEXT_LIST(COUNT)
#undef COUNT

    /* The default stream is a pointer constant, which can be compared at run time only. */
    if (hipStreamPerThread != LEATI_HIP_STREAM_PER_THREAD) {
        printf("the number of the default stream differs from that of hip_runtime_api.h\n");
        return 1;
    }
    printf("hip_runtime_api.h of HIP %d.%d: %u constants, %u functions and 6 structs are as leat declares them\n",
           HIP_VERSION_MAJOR, HIP_VERSION_MINOR, constants, functions);
    return 0;
}

#else

int main(void)
{
    printf("skipped: there is no hip/hip_runtime_api.h to compare with (Debian: libamdhip64-dev)\n");
    return 77;
}

#endif
