/*
 * hip_driver.c - the HIP driver's table.
 */
#include "driver/hip/hip_driver.h"

const struct hip_names leati_hip_names = {
#define LEATI_HIP_NAME(field, name, need, parameters) .field = #name,
    LEATI_HIP_SYMBOL_LIST(LEATI_HIP_NAME) LEATI_HIP_TEXT_LIST(LEATI_HIP_NAME)
#undef LEATI_HIP_NAME
};

static const struct leati_driver_ops hip_ops = {
    .load = leati_hip_load,
    .device_info = leati_hip_device_info,
    .device_open = leati_hip_device_open,
    .device_close = leati_hip_device_close,
    .device_synchronize = leati_hip_device_synchronize,
    .device_native = leati_hip_device_native,
    .device_memory = leati_hip_device_memory,
    .peer_enable = leati_hip_peer_enable,
    .symbol = leati_hip_symbol,
    .mem_alloc = leati_hip_mem_alloc,
    .mem_free = leati_hip_mem_free,
    .mem_alloc_async = leati_hip_mem_alloc_async,
    .mem_free_async = leati_hip_mem_free_async,
    .host_alloc = leati_hip_host_alloc,
    .host_free = leati_hip_host_free,
    .host_register = leati_hip_host_register,
    .host_unregister = leati_hip_host_unregister,
    .host_device_pointer = leati_hip_host_device_pointer,
    .managed_alloc = leati_hip_managed_alloc,
    .managed_prefetch = leati_hip_managed_prefetch,
    .managed_advise = leati_hip_managed_advise,
    .managed_query = leati_hip_managed_query,
    .managed_attach = leati_hip_managed_attach,
    .pointer_query = leati_hip_pointer_query,
    .vm_granularity = leati_hip_vm_granularity,
    .vm_reserve = leati_hip_vm_reserve,
    .vm_unreserve = leati_hip_vm_unreserve,
    .vm_create = leati_hip_vm_create,
    .vm_release = leati_hip_vm_release,
    .vm_map = leati_hip_vm_map,
    .vm_set_access = leati_hip_vm_set_access,
    .vm_unmap = leati_hip_vm_unmap,
    .vm_export = leati_hip_vm_export,
    .vm_import = leati_hip_vm_import,
    .copy = leati_hip_copy,
    .copy_rectangle = leati_hip_copy_rectangle,
    .fill = leati_hip_fill,
    .stream_create = leati_hip_stream_create,
    .stream_destroy = leati_hip_stream_destroy,
    .stream_adopt = leati_hip_stream_adopt,
    .stream_native = leati_hip_stream_native,
    .stream_query = leati_hip_stream_query,
    .stream_synchronize = leati_hip_stream_synchronize,
    .stream_wait = leati_hip_stream_wait,
    .stream_values = leati_hip_stream_values,
    .launch_host = leati_hip_launch_host,
    .event_create = leati_hip_event_create,
    .event_destroy = leati_hip_event_destroy,
    .event_adopt = leati_hip_event_adopt,
    .event_native = leati_hip_event_native,
    .event_record = leati_hip_event_record,
    .event_query = leati_hip_event_query,
    .event_synchronize = leati_hip_event_synchronize,
    .event_elapsed = leati_hip_event_elapsed,
    .module_load = leati_hip_module_load,
    .module_builtin = leati_hip_module_builtin,
    .module_unload = leati_hip_module_unload,
    .kernel_get = leati_hip_kernel_get,
    .launch = leati_hip_launch,
};

/* The limits of batch were measured on NVIDIA GPUs (cuda_driver.c). */
static const struct leati_capabilities capabilities = {
    .dma_engines = true,
    .per_thread_stream = LEATI_HIP_STREAM_PER_THREAD,
    .batch = {.fewest_ranges = 16, .largest_bytes = (size_t)128 << 10},
};

struct leati_driver *leati_hip_driver(void)
{
    static struct hip_driver hip = {
        .base = {.name = "hip", .ops = &hip_ops, .can = &capabilities},
        .open_lock = PTHREAD_MUTEX_INITIALIZER,
    };

    return &hip.base;
}
