/*
 * test_cuda_abi.c - compares leat's own CUDA declarations with NVIDIA's cuda.h, if it is installed.
 *
 * The compiler checks the values of constants, the sizes and offsets of struct members, and that every function of
 * the list has the type that the header declares. The program compares the names and prints what was compared.
 */
#include <stdio.h>
#include <string.h>

#if __has_include(<cuda.h>)

#include "abi.h"

#include "driver/cuda/cuda_types.h"

#include "driver/cuda/cuda_symbols.h"

#include <cuda.h>

#if CUDA_VERSION < 13000 /* older headers lack these */
#define CUDA_ERROR_CONTAINED 226
#define CUDA_ERROR_TENSOR_MEMORY_LEAK 721
#endif

LEATI_CUDA_CONSTANT_LIST(CHECK_CONSTANT)

CHECK_TYPE(cu_device, CUdevice);
CHECK_TYPE(cu_deviceptr, CUdeviceptr);
CHECK_TYPE(cu_mem_handle, CUmemGenericAllocationHandle);
CHECK_TYPE(cu_context, CUcontext);
CHECK_TYPE(cu_stream, CUstream);
CHECK_TYPE(cu_event, CUevent);
CHECK_TYPE(cu_module, CUmodule);
CHECK_TYPE(cu_function, CUfunction);
CHECK_TYPE(cu_host_function, CUhostFn);

CHECK_ENUM(cu_result, CUresult);
CHECK_ENUM(cu_device_attribute, CUdevice_attribute);
CHECK_ENUM(cu_pointer_attribute, CUpointer_attribute);
CHECK_ENUM(cu_function_attribute, CUfunction_attribute);
CHECK_ENUM(cu_jit_option, CUjit_option);
CHECK_ENUM(cu_handle_type, CUmemAllocationHandleType);
CHECK_ENUM(cu_granularity_kind, CUmemAllocationGranularity_flags);
CHECK_ENUM(cu_mem_advice, CUmem_advise);
CHECK_ENUM(cu_range_attribute, CUmem_range_attribute);

CHECK_SIZE(cu_mem_location, CUmemLocation);
CHECK_MEMBER(cu_mem_location, type, CUmemLocation, type);
CHECK_MEMBER(cu_mem_location, id, CUmemLocation, id);
CHECK_SIZE(cu_mem_properties, CUmemAllocationProp);
CHECK_MEMBER(cu_mem_properties, type, CUmemAllocationProp, type);
CHECK_MEMBER(cu_mem_properties, handle_types, CUmemAllocationProp, requestedHandleTypes);
CHECK_MEMBER(cu_mem_properties, location, CUmemAllocationProp, location);
CHECK_MEMBER(cu_mem_properties, win32_metadata, CUmemAllocationProp, win32HandleMetaData);
CHECK_MEMBER(cu_mem_properties, flags.compression, CUmemAllocationProp, allocFlags.compressionType);
CHECK_MEMBER(cu_mem_properties, flags.gpu_direct_rdma, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
CHECK_MEMBER(cu_mem_properties, flags.usage, CUmemAllocationProp, allocFlags.usage);
CHECK_MEMBER(cu_mem_properties, flags.reserved, CUmemAllocationProp, allocFlags.reserved);
CHECK_SIZE(cu_value_operation, CUstreamBatchMemOpParams);
#define CHECK_VALUE_MEMBER(ours, real)                                                                            \
    _Static_assert(offsetof(cu_value_operation, ours) == offsetof(CUstreamBatchMemOpParams, waitValue.real) &&    \
                       offsetof(cu_value_operation, ours) == offsetof(CUstreamBatchMemOpParams, writeValue.real), \
                   #real)
CHECK_VALUE_MEMBER(operation, operation);
CHECK_VALUE_MEMBER(address, address);
CHECK_VALUE_MEMBER(value, value);
CHECK_VALUE_MEMBER(flags, flags);
CHECK_VALUE_MEMBER(alias, alias);
CHECK_SIZE(cu_mem_access, CUmemAccessDesc);
CHECK_MEMBER(cu_mem_access, location, CUmemAccessDesc, location);
CHECK_MEMBER(cu_mem_access, flags, CUmemAccessDesc, flags);

CHECK_SIZE(cu_region_copy, CUDA_MEMCPY3D);
CHECK_SIZE(cu_region_copy, CUDA_MEMCPY3D_PEER);
#define CHECK_REGION_MEMBER(ours, real)                                                                           \
    CHECK_MEMBER(cu_region_copy, ours, CUDA_MEMCPY3D, real);                                                      \
    CHECK_MEMBER(cu_region_copy, ours, CUDA_MEMCPY3D_PEER, real)
#define CHECK_REGION_END(ours, real)                                                                              \
    CHECK_REGION_MEMBER(ours##_x, real##XInBytes);                                                                \
    CHECK_REGION_MEMBER(ours##_y, real##Y);                                                                       \
    CHECK_REGION_MEMBER(ours##_z, real##Z);                                                                       \
    CHECK_REGION_MEMBER(ours##_level, real##LOD);                                                                 \
    CHECK_REGION_MEMBER(ours##_type, real##MemoryType);                                                           \
    CHECK_REGION_MEMBER(ours##_host, real##Host);                                                                 \
    CHECK_REGION_MEMBER(ours##_device, real##Device);                                                             \
    CHECK_REGION_MEMBER(ours##_array, real##Array);                                                               \
    CHECK_MEMBER(cu_region_copy, ours##_context, CUDA_MEMCPY3D_PEER, real##Context);                              \
    CHECK_REGION_MEMBER(ours##_pitch, real##Pitch);                                                               \
    CHECK_REGION_MEMBER(ours##_height, real##Height)
CHECK_REGION_END(src, src);
CHECK_REGION_END(dst, dst);
CHECK_MEMBER(cu_region_copy, src_context, CUDA_MEMCPY3D, reserved0);
CHECK_MEMBER(cu_region_copy, dst_context, CUDA_MEMCPY3D, reserved1);
CHECK_REGION_MEMBER(width, WidthInBytes);
CHECK_REGION_MEMBER(height, Height);
CHECK_REGION_MEMBER(depth, Depth);

_Static_assert(CU_DEVICE_CPU == LEATI_CU_DEVICE_CPU && CU_DEVICE_INVALID == LEATI_CU_DEVICE_INVALID, "CUdevice");
_Static_assert(sizeof(CU_STREAM_LEGACY) == sizeof LEATI_CU_STREAM_LEGACY, "CU_STREAM_LEGACY");

/*
 * Expands the list again with the vendor's types in place of ours. Each entry must have the type of the header's
 * function.
 */
#define cu_result CUresult
#define cu_device_attribute CUdevice_attribute
#define cu_pointer_attribute CUpointer_attribute
#define cu_function_attribute CUfunction_attribute
#define cu_jit_option CUjit_option
#define cu_handle_type CUmemAllocationHandleType
#define cu_granularity_kind CUmemAllocationGranularity_flags
#define cu_mem_properties CUmemAllocationProp
#define cu_mem_location CUmemLocation
#define cu_mem_advice CUmem_advise
#define cu_range_attribute CUmem_range_attribute
#define cu_mem_access CUmemAccessDesc
#define cu_value_operation CUstreamBatchMemOpParams
#define cu_region_copy CUDA_MEMCPY3D
#define cu_region_copy_peer CUDA_MEMCPY3D_PEER

#define CHECK_FUNCTION(field, name, need, parameters)                                                             \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), CUresult(CUDAAPI *) parameters), #name);
LEATI_CUDA_SYMBOL_LIST(CHECK_FUNCTION)

/* Compares a name in the list with the name that a program gets from the header, whose macros turn a bare name
 * into its newest version. Returns 1 if the names differ. cuEventElapsedTime is an exception: older drivers have
 * only its first version, and both versions have the same type. */
static int check_name(const char *listed, const char *real)
{
    if (!strcmp(listed, real) || !strcmp(listed, "cuEventElapsedTime"))
        return 0;
    printf("%s: cuda.h makes this %s; look which of the two the oldest driver has and what differs\n", listed,
           real);
    return 1;
}

#define EXPANDED(name) EXPANDED_(name)
#define EXPANDED_(name) #name

int main(void)
{
    unsigned constants = 0;
    unsigned functions = 0;
    int wrong = 0;

#define COUNT_CONSTANT(name, value) constants++;
    LEATI_CUDA_CONSTANT_LIST(COUNT_CONSTANT)
#define CHECK_NAME(field, name, need, parameters)                                                                 \
    functions++;                                                                                                  \
    wrong |= check_name(#name, EXPANDED(name));
    LEATI_CUDA_SYMBOL_LIST(CHECK_NAME)
    if (wrong)
        return 1;

    /* The default streams are pointer constants, which can be compared at run time only. */
    if (CU_STREAM_LEGACY != LEATI_CU_STREAM_LEGACY || CU_STREAM_PER_THREAD != LEATI_CU_STREAM_PER_THREAD) {
        printf("the numbers of the default streams differ from those of cuda.h\n");
        return 1;
    }
    printf("cuda.h of CUDA %d.%d: %u constants, %u functions and 5 structs are as leat declares them\n",
           CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10, constants, functions);
    return 0;
}

#else

int main(void)
{
    printf("skipped: there is no cuda.h to compare with; set CUDA_HOME to a CUDA toolkit\n");
    return 77;
}

#endif
