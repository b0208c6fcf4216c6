/*
 * gpu_table.h - defines the table of a GPU driver, and the names of the vendor's functions. See gpu_driver.h.
 *
 * Before it includes this file, the vendor's file defines GPU_MORE_ENTRIES, the entries that only this vendor has.
 */
#include "driver/gpu/gpu_driver.h"

const struct gpu_names GPU(names) = {
#define GPU_NAME_OF(field, name, need, parameters) .field = #name,
    GPU_SYMBOL_LIST(GPU_NAME_OF) GPU_TEXT_LIST(GPU_NAME_OF)
#undef GPU_NAME_OF
};

// clang-format off
static const struct leati_driver_ops gpu_ops = {
    .load = GPU(load),
    .device_info = GPU(device_info),
    .device_open = GPU(device_open),
    .device_close = GPU(device_close),
    .device_synchronize = GPU(device_synchronize),
    .device_native = GPU(device_native),
    .device_memory = GPU(device_memory),
    .peer_enable = GPU(peer_enable),
    .symbol = GPU(symbol),
    .mem_alloc = GPU(mem_alloc),
    .mem_free = GPU(mem_free),
    .mem_alloc_async = GPU(mem_alloc_async),
    .mem_free_async = GPU(mem_free_async),
    .host_alloc = GPU(host_alloc),
    .host_free = GPU(host_free),
    .host_register = GPU(host_register),
    .host_unregister = GPU(host_unregister),
    .host_device_pointer = GPU(host_device_pointer),
    .managed_alloc = GPU(managed_alloc),
    .managed_prefetch = GPU(managed_prefetch),
    .managed_advise = GPU(managed_advise),
    .managed_query = GPU(managed_query),
    .managed_attach = GPU(managed_attach),
    .pointer_query = GPU(pointer_query),
    .vm_granularity = GPU(vm_granularity),
    .vm_reserve = GPU(vm_reserve),
    .vm_unreserve = GPU(vm_unreserve),
    .vm_create = GPU(vm_create),
    .vm_release = GPU(vm_release),
    .vm_map = GPU(vm_map),
    .vm_set_access = GPU(vm_set_access),
    .vm_unmap = GPU(vm_unmap),
    .vm_export = GPU(vm_export),
    .vm_import = GPU(vm_import),
    .copy = GPU(copy),
    .copy_3d = GPU(copy_3d),
    .fill = GPU(fill),
    .stream_create = GPU(stream_create),
    .stream_destroy = GPU(stream_destroy),
    .stream_adopt = GPU(stream_adopt),
    .stream_native = GPU(stream_native),
    .stream_query = GPU(stream_query),
    .stream_synchronize = GPU(stream_synchronize),
    .stream_wait = GPU(stream_wait),
    .stream_mem_ops = GPU(stream_mem_ops),
    .capture_mode = GPU(capture_mode),
    .launch_host = GPU(launch_host),
    .event_create = GPU(event_create),
    .event_destroy = GPU(event_destroy),
    .event_adopt = GPU(event_adopt),
    .event_native = GPU(event_native),
    .event_record = GPU(event_record),
    .event_query = GPU(event_query),
    .event_synchronize = GPU(event_synchronize),
    .event_elapsed = GPU(event_elapsed),
    .module_load = GPU(module_load),
    .module_builtin = GPU(module_builtin),
    .module_unload = GPU(module_unload),
    .kernel_get = GPU(kernel_get),
    .launch = GPU(launch),
    GPU_MORE_ENTRIES
};
// clang-format on
