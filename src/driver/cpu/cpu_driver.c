/* cpu_driver.c - describes, opens and closes the CPU devices, and defines their driver table. */
#include "driver/cpu/cpu.h"

#include "base/addresses.h"
#include "base/assert.h"
#include "base/lock.h"
#include "base/mem_limit.h"
#include "base/options.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* An array that is never freed, so that another thread can look up an address while a device is being closed. */
static struct cpu_device devices[CPU_DEVICES_MAX];

struct cpu_device *cpu_device_number(int ordinal)
{
    return &devices[ordinal];
}

static uint64_t machine_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);

    return pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : (uint64_t)1 << 30;
}

/* Under a limit on addresses (ulimit -v) a device has 1/16 of the free addresses as memory. It reserves four times
 * as many addresses as it has memory, that is, a quarter of the free addresses. So two devices, host memory and
 * the program fit into the limit. */
#define MEMORY_PARTS 16

static char memory_reason[400];

const char *cpu_memory_reason(void)
{
    return memory_reason;
}

/* Returns the memory of a device if LEAT_CPU_MEMORY is not set: at most as much as this process can fill. Leaves
 * out a sixteenth of a control group's limit, because page tables and the program count against that limit too. */
static uint64_t usual_memory_bytes(void)
{
    uint64_t bytes = machine_bytes(), addresses = leati_addresses_left();
    struct leati_mem_limit group;

    leati_mem_limit_of_groups("", &group);
    if (group.bytes != UINT64_MAX && group.bytes - group.bytes / 16 < bytes) {
        bytes = group.bytes - group.bytes / 16;
        snprintf(memory_reason, sizeof memory_reason,
                 "; %s allows no more: raise its limit of memory, or set LEAT_CPU_MEMORY", group.whose);
    }
    if (addresses != UINT64_MAX && addresses / MEMORY_PARTS < bytes) {
        bytes = addresses / MEMORY_PARTS;
        snprintf(memory_reason, sizeof memory_reason,
                 "; the limit on addresses ('ulimit -v') leaves no more: raise it, or set LEAT_CPU_MEMORY");
    }
    bytes &= ~(uint64_t)(CPU_HUGE_BYTES - 1);
    return bytes > CPU_HUGE_BYTES ? bytes : CPU_HUGE_BYTES;
}

static leat_status load(struct leati_driver *driver)
{
    uint64_t usual_bytes = usual_memory_bytes(), memory_bytes, count;
    struct utsname system;

    LEATI_TRY(leati_option_number(LEATI_OPTION_CPU_MEMORY, usual_bytes, &memory_bytes));
    if (leati_option(LEATI_OPTION_CPU_MEMORY))
        memory_reason[0] = '\0';
    LEATI_TRY(leati_option_number(LEATI_OPTION_CPU_DEVICES, 2, &count));
    leati_assert(count <= CPU_DEVICES_MAX);
    LEATI_TRY(cpu_workers_load());
    for (int i = 0; i < CPU_DEVICES_MAX; i++) {
        devices[i].driver = driver;
        devices[i].ordinal = i;
        devices[i].memory_bytes = memory_bytes;
        devices[i].virtual_fd = -1;
        leati_lock_init(&devices[i].space.lock);
        leati_lock_init(&devices[i].streams_lock);
        leati_lock_init(&devices[i].virtual_lock);
    }
    driver->device_count = (int)count;
    if (uname(&system) == 0)
        snprintf(driver->version, sizeof driver->version, "%.16s %.46s", system.sysname, system.release);
    return LEAT_OK;
}

/* Reads the processor's name as Linux prints it. */
static void read_model(char *model, size_t bytes)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];

    snprintf(model, bytes, "CPU");
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');

        if (!strncmp(line, "model name", 10) && colon) {
            snprintf(model, bytes, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
            break;
        }
    }
    fclose(file);
}

static leat_status device_info(struct leati_driver *driver, int ordinal, leat_device_info *info)
{
    struct utsname system;

    read_model(info->model, sizeof info->model);
    if (uname(&system) == 0)
        snprintf(info->architecture, sizeof info->architecture, "%.31s", system.machine);
    snprintf(info->kernel_code, sizeof info->kernel_code, "%.15s", info->architecture);
    info->memory_bytes = devices[ordinal].memory_bytes;
    info->compute_units = cpu_workers_threads();
    info->max_block_threads = CPU_BLOCK_THREADS_MAX;
    info->max_shared_bytes = CPU_SHARED_BYTES_MAX;
    info->copy_engines = cpu_workers_threads();
    info->peer_mask = ((UINT64_C(1) << driver->device_count) - 1) & ~(UINT64_C(1) << ordinal);
    info->managed_memory = 1;
    info->virtual_memory = 1;
    info->strict = leati_option_flag(LEATI_OPTION_STRICT);
    return LEAT_OK;
}

static leat_status device_open(struct leati_driver *driver, int ordinal, void *native_context, void **handle)
{
    struct cpu_device *device = &devices[ordinal];
    size_t wanted_bytes = CPU_SPACE_BYTES;
    leat_status status;

    (void)driver;
    if (native_context)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "the CPU device has no contexts to wrap");
    LEATI_TRY(cpu_strict_open());
    LEATI_TRY(cpu_host_space_open());
    /* Pools need several times as many addresses as memory, so that they can map pages at new addresses. */
    if (leati_addresses_left() != UINT64_MAX && device->memory_bytes < CPU_SPACE_BYTES / 8)
        wanted_bytes = (size_t)device->memory_bytes * 4;
    leati_lock(&device->space.lock);
    status = cpu_space_reserve(&device->space, wanted_bytes, 2);
    leati_unlock(&device->space.lock);
    if (status != LEAT_OK) {
        cpu_host_space_close();
        return status;
    }
    atomic_init(&device->used_bytes, 0);
    *handle = device;
    return LEAT_OK;
}

static leat_status device_close(struct leati_driver *driver, void *handle)
{
    struct cpu_device *device = handle;

    (void)driver;
    cpu_streams_join(device);
    leati_lock(&device->space.lock);
    cpu_space_release(&device->space);
    leati_unlock(&device->space.lock);
    leati_ranges_clear(&device->virtual_maps);
    leati_ranges_clear(&device->virtual_handles);
    if (device->virtual_fd >= 0)
        close(device->virtual_fd);
    device->virtual_fd = -1;
    /* The core opens and closes one device at a time, so no other device can start to use the workers now. */
    if (cpu_host_space_close()) {
        cpu_workers_stop();
        cpu_gang_stop();
        cpu_managed_end();
    }
    return LEAT_OK;
}

static void *device_native(struct leati_driver *driver, void *handle)
{
    (void)driver;
    return handle;
}

static leat_status device_memory(struct leati_driver *driver, void *handle, uint64_t *free_bytes,
                                 uint64_t *total_bytes)
{
    struct cpu_device *device = handle;

    (void)driver;
    *total_bytes = device->memory_bytes;
    *free_bytes = device->memory_bytes - atomic_load_explicit(&device->used_bytes, memory_order_relaxed);
    return LEAT_OK;
}

static const struct leati_driver_ops ops = {
    .load = load,
    .device_info = device_info,
    .device_open = device_open,
    .device_close = device_close,
    .device_synchronize = cpu_device_synchronize,
    .device_native = device_native,
    .device_memory = device_memory,
    .mem_alloc = cpu_mem_alloc,
    .mem_free = cpu_mem_free,
    .mem_alloc_async = cpu_mem_alloc_async,
    .mem_free_async = cpu_mem_free_async,
    .host_alloc = cpu_host_alloc,
    .host_free = cpu_host_free,
    .host_register = cpu_host_register,
    .host_unregister = cpu_host_unregister,
    .managed_alloc = cpu_managed_alloc,
    .managed_prefetch = cpu_managed_prefetch,
    .managed_advise = cpu_managed_advise,
    .managed_query = cpu_managed_query,
    .managed_attach = cpu_managed_attach,
    .managed_record = cpu_managed_record,
    .managed_count = cpu_managed_count,
    .managed_history = cpu_managed_history,
    .pointer_query = cpu_pointer_query,
    .vm_granularity = cpu_vm_granularity,
    .vm_reserve = cpu_vm_reserve,
    .vm_unreserve = cpu_vm_unreserve,
    .vm_create = cpu_vm_create,
    .vm_release = cpu_vm_release,
    .vm_map = cpu_vm_map,
    .vm_set_access = cpu_vm_set_access,
    .vm_set_rights = cpu_vm_set_rights,
    .vm_unmap = cpu_vm_unmap,
    .vm_export = cpu_vm_export,
    .vm_import = cpu_vm_import,
    .vm_export_read = cpu_vm_export_read,
    .vm_import_read = cpu_vm_import_read,
    .copy = cpu_copy,
    .copy_3d = cpu_copy_3d,
    .fill = cpu_fill,
    .stream_create = cpu_stream_create,
    .stream_destroy = cpu_stream_destroy,
    .stream_adopt = cpu_stream_adopt,
    .stream_native = cpu_stream_native,
    .stream_query = cpu_stream_query,
    .stream_synchronize = cpu_stream_synchronize,
    .stream_take_failure = cpu_stream_take_failure,
    .stream_wait = cpu_stream_wait,
    .stream_mem_ops = cpu_stream_mem_ops,
    .launch_host = cpu_launch_host,
    .event_create = cpu_event_create,
    .event_destroy = cpu_event_destroy,
    .event_adopt = cpu_event_adopt,
    .event_native = cpu_event_native,
    .event_record = cpu_event_record,
    .stream_stamp = cpu_stream_stamp,
    .event_query = cpu_event_query,
    .event_synchronize = cpu_event_synchronize,
    .event_elapsed = cpu_event_elapsed,
    .module_load = cpu_module_load,
    .module_builtin = cpu_module_builtin,
    .module_embedded = cpu_module_embedded,
    .module_unload = cpu_module_unload,
    .kernel_get = cpu_kernel_get,
    .kernel_parameter = cpu_kernel_parameter,
    .launch = cpu_launch,
};

/* About batch: each copy of the CPU device costs one queued item of work, and from 1 MiB on it uses all workers.
 * So only smaller copies gain from a batch. */
static const struct leati_capabilities capabilities = {
    .reaches_pageable = true,
    .host_reaches_device = true,
    .host_kernels = true,
    .batch = {.fewest_ranges = 4, .largest_bytes = (size_t)1 << 20},
};

struct leati_driver *leati_cpu_driver(void)
{
    static struct leati_driver driver = {.name = "cpu", .ops = &ops, .can = &capabilities};

    return &driver;
}
