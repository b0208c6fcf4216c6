/*
 * cuda_driver.c - the CUDA driver's table.
 */
#include "driver/cuda/cuda_driver.h"

const struct cuda_names leati_cuda_names = {
#define LEATI_CUDA_NAME(field, name, need, parameters) .field = #name,
    LEATI_CUDA_SYMBOL_LIST(LEATI_CUDA_NAME)
    LEATI_CUDA_FIRST_SYMBOL_LIST(LEATI_CUDA_NAME)
#undef LEATI_CUDA_NAME
};

static const struct leati_driver_ops cuda_ops = {
    .load = leati_cuda_load,
    .device_info = leati_cuda_device_info,
    .device_open = leati_cuda_device_open,
    .device_close = leati_cuda_device_close,
    .device_synchronize = leati_cuda_device_synchronize,
    .device_native = leati_cuda_device_native,
    .device_memory = leati_cuda_device_memory,
    .peer_enable = leati_cuda_peer_enable,
    .symbol = leati_cuda_symbol,
    .mem_alloc = leati_cuda_mem_alloc,
    .mem_free = leati_cuda_mem_free,
    .mem_alloc_async = leati_cuda_mem_alloc_async,
    .mem_free_async = leati_cuda_mem_free_async,
    .host_alloc = leati_cuda_host_alloc,
    .host_free = leati_cuda_host_free,
    .host_register = leati_cuda_host_register,
    .host_unregister = leati_cuda_host_unregister,
    .host_device_pointer = leati_cuda_host_device_pointer,
    .managed_alloc = leati_cuda_managed_alloc,
    .managed_prefetch = leati_cuda_managed_prefetch,
    .managed_advise = leati_cuda_managed_advise,
    .managed_query = leati_cuda_managed_query,
    .managed_attach = leati_cuda_managed_attach,
    .pointer_query = leati_cuda_pointer_query,
    .vm_granularity = leati_cuda_vm_granularity,
    .vm_reserve = leati_cuda_vm_reserve,
    .vm_unreserve = leati_cuda_vm_unreserve,
    .vm_create = leati_cuda_vm_create,
    .vm_release = leati_cuda_vm_release,
    .vm_map = leati_cuda_vm_map,
    .vm_set_access = leati_cuda_vm_set_access,
    .vm_set_rights = leati_cuda_vm_set_rights,
    .vm_unmap = leati_cuda_vm_unmap,
    .vm_export = leati_cuda_vm_export,
    .vm_import = leati_cuda_vm_import,
    .copy = leati_cuda_copy,
    .copy_rectangle = leati_cuda_copy_rectangle,
    .fill = leati_cuda_fill,
    .stream_create = leati_cuda_stream_create,
    .stream_destroy = leati_cuda_stream_destroy,
    .stream_adopt = leati_cuda_stream_adopt,
    .stream_native = leati_cuda_stream_native,
    .stream_query = leati_cuda_stream_query,
    .stream_synchronize = leati_cuda_stream_synchronize,
    .stream_wait = leati_cuda_stream_wait,
    .stream_values = leati_cuda_stream_values,
    .launch_host = leati_cuda_launch_host,
    .event_create = leati_cuda_event_create,
    .event_destroy = leati_cuda_event_destroy,
    .event_adopt = leati_cuda_event_adopt,
    .event_native = leati_cuda_event_native,
    .event_record = leati_cuda_event_record,
    .event_query = leati_cuda_event_query,
    .event_synchronize = leati_cuda_event_synchronize,
    .event_elapsed = leati_cuda_event_elapsed,
    .module_load = leati_cuda_module_load,
    .module_builtin = leati_cuda_module_builtin,
    .module_unload = leati_cuda_module_unload,
    .kernel_get = leati_cuda_kernel_get,
    .kernel_parameter = leati_cuda_kernel_parameter,
    .launch = leati_cuda_launch,
};

/* A copy of the driver's takes about 2.5 us, a launch with its preparation 10 to 20 us, and from 128 KiB on a DMA
 * is as fast as the link (docs/copies.md, bench/results). */
static const struct leati_capabilities capabilities = {
    .dma_engines = true,
    .per_thread_stream = LEATI_CU_STREAM_PER_THREAD,
    .batch = {.fewest_ranges = 16, .largest_bytes = (size_t)128 << 10},
};

struct leati_driver *leati_cuda_driver(void)
{
    static struct cuda_driver cuda = {
        .base = {.name = "cuda", .ops = &cuda_ops, .can = &capabilities},
        .open_lock = PTHREAD_MUTEX_INITIALIZER,
    };

    return &cuda.base;
}
