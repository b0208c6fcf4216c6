/*
 * fault_public.c - scenarios of fault_walk: every call of the public API except pools and pageable copies, and the
 * entries of the driver's table that no call of the public API reaches.
 */
#include "fault_scenarios.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- public_scenario() and lazy_scenario() ---------------------------------------------------- */

static bool open_things(struct world *w)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    leat_device *again;
    uint64_t free_bytes;
    void *native, *symbol;
    char other_name[16];

    STEP(leat_device_open(test_device_name(), &w->device));
    STEP(leat_device_open(test_device_name(), &again));
    STEP(leat_device_close(again));
    STEP(leat_device_get_info(w->device, &info));
    STEP(leat_device_list(0, &info));
    STEP(leat_device_memory(w->device, &free_bytes, NULL));
    STEP(leat_device_native(w->device, &native));
    if (leat_native_symbol(w->device, "cuInit", &symbol) != (test_on_cpu() ? LEAT_ERROR_UNSUPPORTED : LEAT_OK))
        STEP(LEAT_ERROR_NOT_FOUND);
    if (wrapper->device_count > 1) {
        snprintf(other_name, sizeof other_name, "%s:%d", wrapper->name, device_info.ordinal == 0);
        STEP(leat_device_open(other_name, &w->other));
        STEP(leat_stream_create(w->other, &w->far_stream));
        STEP(leat_memory_alloc(w->other, LEAT_KIND_DEVICE, BYTES, &w->far));
    }
    STEP(leat_stream_create(w->device, &w->stream));
    STEP(leat_stream_create(w->device, &w->second));
    STEP(leat_stream_native(w->stream, &native));
    STEP(leat_stream_wrap(w->device, native, &w->wrapped_stream));
    STEP(leat_event_create(w->device, &w->start));
    STEP(leat_event_create(w->device, &w->end));
    STEP(leat_event_native(w->end, &native));
    STEP(leat_event_wrap(w->device, native, &w->wrapped_event));
    return true;
}

static bool take_memory(struct world *w)
{
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    void *none = NULL;

    STEP(leat_alloc(w->stream, BYTES, &w->ordered));
    STEP(leat_alloc_driver(w->stream, BYTES, &w->past_pools));
    STEP(leat_memory_alloc(w->device, LEAT_KIND_DEVICE, BYTES, &w->plain));
    STEP(leat_memory_alloc(w->device, LEAT_KIND_PINNED, 3 * BYTES, &w->pinned));
    if (device_info.managed_memory)
        STEP(leat_memory_alloc(w->device, LEAT_KIND_MANAGED, BYTES, &w->managed));
    w->own = malloc(OWN_BYTES);
    if (!w->own)
        give_up("no memory");
    STEP(leat_register(w->device, (char *)w->own + 1, BYTES));
    w->registered = true;
    STEP(leat_pointer_get_info((char *)w->own + 2, &info));
    STEP(leat_pointer_get_info(w->pinned, &info));
    STEP(leat_pointer_get_info(w->plain, &info));
    STEP(leat_pointer_get_info(w, &info));
    STEP(leat_pointer_wrap(w->device, LEAT_KIND_PINNED, (char *)w->own + OWN_BYTES - 10, 10));
    w->wrapped = true;
    /* leat always refuses this size. For the error message it queries the free memory, which is one more driver
     * call that may fail. */
    if (leat_alloc(w->stream, SIZE_MAX / 2, &none) != LEAT_ERROR_DEVICE_MEMORY)
        STEP(LEAT_ERROR_DRIVER);
    return true;
}

static void expect_rows(const unsigned char *seen, const unsigned char *wanted, size_t width, size_t height,
                        size_t pitch)
{
    for (size_t y = 0; y < height; y++)
        if (memcmp(seen + y * pitch, wanted + y * pitch, width))
            give_up("row %zu of %zu is wrong, without an error", y, height);
}

bool move_rows(struct world *w, unsigned char *out, unsigned char *in, size_t width, size_t height, size_t pitch)
{
    leat_copy_region there = {width, height, 1, width + 20, pitch, 0, 0},
                     back = {width, height, 1, pitch, width + 20, 0, 0};

    memset(out, 0, height * pitch);
    STEP(leat_copy_3d(w->stream, w->plain, in, &there));
    STEP(leat_copy_3d(w->stream, out, w->plain, &back));
    STEP(leat_stream_synchronize(w->stream));
    expect_rows(out, in, width, height, pitch);
    return true;
}

static bool move_bytes(struct world *w)
{
    unsigned char *in = (unsigned char *)w->pinned + BYTES, *out = in + BYTES;
    uint32_t four = 0x01020304;
    uint64_t eight = 0x0102030405060708;

    test_pattern(in, BYTES, 1);
    STEP(leat_copy(w->stream, w->plain, in, BYTES));
    STEP(leat_copy(w->stream, w->past_pools, w->plain, BYTES));
    STEP(leat_copy(w->stream, w->ordered, w->past_pools, BYTES));
    STEP(leat_copy(w->stream, w->pinned, w->ordered, BYTES));
    STEP(leat_copy(w->stream, w->plain, w->pinned, BYTES));
    if (w->far) {
        STEP(leat_copy(w->stream, w->far, w->plain, BYTES));
        STEP(leat_event_record(w->stream, w->end));
        STEP(leat_stream_wait(w->far_stream, w->end));
        STEP(leat_copy(w->far_stream, w->pinned, w->far, BYTES));
        STEP(leat_stream_synchronize(w->far_stream));
    }
    STEP(leat_copy(w->stream, out, w->plain, BYTES));
    STEP(leat_stream_synchronize(w->stream));
    if (memcmp(in, out, BYTES))
        give_up("wrong bytes without an error");
    if (!move_rows(w, out, in, 100, 30, 150))
        return false;
    STEP(leat_copy(w->stream, (char *)w->own + 1, w->plain, BYTES));
    STEP(leat_fill(w->stream, w->plain, 1, BYTES));
    STEP(leat_fill(w->stream, (char *)w->own + 1, 1, BYTES));
    STEP(leat_fill_pattern(w->stream, w->plain, &four, 4, BYTES));
    STEP(leat_fill_pattern(w->stream, w->plain, &eight, 8, BYTES));
    STEP(leat_stream_synchronize(w->stream));
    if (w->managed)
        STEP(leat_copy(w->stream, w->managed, in, BYTES));
    return true;
}

/* A kernel that is compiled into this program. */
LEAT_KERNEL(walk_halve, 2, float *, data, uint64_t, count)
{
    LEAT_FOR (i, count)
        data[i] /= 2;
}

/* Launches kernels of all modules. Most are launched twice, so that the second look-up finds them in the cache. */
static bool run_kernels(struct world *w)
{
    const char *path = test_kernels_path();
    uint64_t count = BYTES / 4;
    float factor = 2;
    void *args[] = {&w->plain, &count, &factor};

    STEP(leat_module_builtin(w->device, &w->module));
    STEP(leat_module_load_file(w->device, path, &w->file_module));
    if (test_on_cpu()) {
        static const leat_embedded_kernel own[] = {{"halve", &leat_cpu_kernel_walk_halve}};
        leat_kernel *halve;

        STEP(leat_module_load_embedded(w->device, own, 1, &w->own_module));
        STEP(leat_kernel_get(w->own_module, "halve", &halve));
        STEP(leat_launch(w->stream, halve, leat_dim(2, 1, 1), leat_dim(32, 1, 1), 0, args, 2));
    }
    for (int i = 0; i < 2; i++) {
        leat_kernel *add, *scale;
        size_t bytes;
        int parameters;

        STEP(leat_kernel_get(w->module, "leat_add_f32", &add));
        STEP(leat_kernel_get(w->file_module, "user_scale_f32", &scale));
        STEP(leat_kernel_parameter_count(add, &parameters));
        if (parameters >= 0)
            STEP(leat_kernel_parameter_bytes(add, 0, &bytes));
        STEP(leat_launch(w->stream, add, leat_dim(2, 1, 1), leat_dim(32, 1, 1), 0, args, 3));
        STEP(leat_launch(w->wrapped_stream, scale, leat_dim(2, 1, 1), leat_dim(32, 1, 1), 0, args, 3));
    }
    return true;
}

static leat_status poll_stream(leat_stream *stream)
{
    leat_status status;

    while ((status = leat_stream_query(stream)) == LEAT_NOT_READY)
        continue;
    return status;
}

static leat_status poll_event(leat_event *event)
{
    leat_status status;

    while ((status = leat_event_query(event)) == LEAT_NOT_READY)
        continue;
    return status;
}

static bool order_work(struct world *w)
{
    double milliseconds;
    leat_device *device;

    STEP(leat_event_record(w->stream, w->start));
    STEP(leat_launch_host(w->stream, count_call, &w->host_calls));
    STEP(leat_event_record(w->stream, w->end));
    STEP(leat_stream_wait(w->second, w->end));
    STEP(leat_stream_wait(w->second, w->wrapped_event));
    STEP(leat_launch_host(w->second, count_call, &w->host_calls));
    STEP(leat_event_synchronize(w->end));
    STEP(poll_event(w->end));
    STEP(leat_event_elapsed(w->start, w->end, &milliseconds));
    STEP(leat_stream_synchronize(w->second));
    STEP(poll_stream(w->second));
    STEP(leat_device_synchronize(w->device));
    STEP(leat_stream_device(w->stream, &device));
    if (atomic_load(&w->host_calls) != 2)
        give_up("%d of 2 host functions ran", atomic_load(&w->host_calls));
    return true;
}

void order_scenario(struct world *w)
{
    void *native;

    if (keep(w, "open", leat_device_open(test_device_name(), &w->device)) == LEAT_OK &&
        keep(w, "create", leat_stream_create(w->device, &w->stream)) == LEAT_OK &&
        keep(w, "create", leat_stream_create(w->device, &w->second)) == LEAT_OK &&
        keep(w, "create", leat_event_create(w->device, &w->start)) == LEAT_OK &&
        keep(w, "create", leat_event_create(w->device, &w->end)) == LEAT_OK &&
        keep(w, "native", leat_event_native(w->end, &native)) == LEAT_OK &&
        keep(w, "wrap", leat_event_wrap(w->device, native, &w->wrapped_event)) == LEAT_OK)
        order_work(w);
    if (w->device)
        FREE(leat_device_synchronize(w->device));
    END(leat_event_destroy(w->wrapped_event));
    END(leat_event_destroy(w->start));
    END(leat_event_destroy(w->end));
    END(leat_stream_destroy(w->second));
    END(leat_stream_destroy(w->stream));
    END(leat_device_close(w->device));
}

/* Frees everything that exists, so that the close of the device has nothing left to free. */
static void give_all_back(struct world *w)
{
    if (w->device) {
        FREE(leat_device_synchronize(w->device));
        if (w->wrapped)
            FREE(leat_pointer_unwrap((char *)w->own + OWN_BYTES - 10));
        if (w->registered)
            FREE(leat_unregister((char *)w->own + 1));
        if (w->stream)
            FREE(leat_free(w->stream, w->ordered));
        if (w->stream)
            FREE(leat_free(w->stream, w->past_pools));
        FREE(leat_memory_free(w->plain));
        FREE(leat_memory_free(w->pinned));
        FREE(leat_memory_free(w->managed));
        END(leat_module_unload(w->file_module));
        END(leat_module_unload(w->own_module));
        END(leat_event_destroy(w->wrapped_event));
        END(leat_event_destroy(w->start));
        END(leat_event_destroy(w->end));
        END(leat_stream_destroy(w->wrapped_stream));
        END(leat_stream_destroy(w->second));
        END(leat_stream_destroy(w->stream));
    }
    if (w->other) {
        FREE(leat_device_synchronize(w->other));
        FREE(leat_memory_free(w->far));
        END(leat_stream_destroy(w->far_stream));
        END(leat_device_close(w->other));
    }
    END(leat_device_close(w->device));
    free(w->own);
}

/* Tests managed memory: prefetches in one call and in chunks, advice, queries, and the record of page moves. */
static bool move_managed(struct world *w)
{
    leat_managed_stats counts = {.size = sizeof counts};
    leat_managed_info info = {.size = sizeof info};
    leat_managed_move moves[4];
    size_t count = 4;

    STEP(leat_device_open(test_device_name(), &w->device));
    STEP(leat_stream_create(w->device, &w->stream));
    STEP(leat_memory_alloc(w->device, LEAT_KIND_MANAGED, MANAGED_BYTES, &w->managed));
    if (test_on_cpu())
        STEP(leat_managed_record(w->device, 1));
    memset(w->managed, 1, MANAGED_BYTES);
    STEP(leat_managed_advise(w->managed, MANAGED_BYTES, LEAT_ADVICE_ACCESSED_BY, w->device));
    STEP(leat_managed_prefetch(w->stream, w->managed, MANAGED_BYTES, w->device));
    STEP(leat_fill(w->stream, w->managed, 2, MANAGED_BYTES));
    STEP(leat_managed_prefetch(w->stream, w->managed, MANAGED_BYTES, LEAT_HOST));
    STEP(leat_stream_synchronize(w->stream));
    for (size_t i = 0; i < MANAGED_BYTES; i++)
        if (((unsigned char *)w->managed)[i] != 2)
            give_up("byte %zu of managed memory is wrong, without an error", i);
    STEP(leat_managed_get_info(w->managed, MANAGED_BYTES, &info));
    if (test_on_cpu()) {
        STEP(leat_managed_get_stats(w->device, w->managed, 0, &counts));
        STEP(leat_managed_history(w->device, moves, &count));
        STEP(leat_managed_record(w->device, 0));
    }
    return true;
}

/* Attaches managed memory to a stream. A driver attaches only whole allocations, but leat's managed memory is a
 * block of a pool, so this function allocates through the driver's table. A vendor's driver reports which device
 * owns the memory; the CPU device does not, so there leat_pointer_wrap() makes the memory known to leat. */
static void attach_managed(struct world *w)
{
    const struct leati_driver_ops *ops = wrapper->ops;
    void *device = w->device->native, *ptr = NULL;

    if (!ops->managed_attach)
        return;
    if (keep(w, "managed_alloc", ops->managed_alloc(wrapper, device, MANAGED_BYTES, &ptr)) != LEAT_OK)
        return;
    if (test_on_cpu() && leat_pointer_wrap(w->device, LEAT_KIND_MANAGED, ptr, MANAGED_BYTES) != LEAT_OK)
        give_up("memory is not taken: %s", leat_last_error());
    keep(w, "leat_managed_attach", leat_managed_attach(w->stream, ptr, LEAT_ATTACH_STREAM));
    keep(w, "leat_stream_synchronize", leat_stream_synchronize(w->stream));
    if (test_on_cpu() && leat_pointer_unwrap(ptr) != LEAT_OK)
        give_up("memory is not given back: %s", leat_last_error());
    keep(w, "mem_free", ops->mem_free(wrapper, device, ptr));
}

void managed_scenario(struct world *w)
{
    if (move_managed(w))
        attach_managed(w);
    if (w->device) {
        FREE(leat_device_synchronize(w->device));
        /* Switch the record off even if an earlier call failed. */
        if (test_on_cpu())
            FREE(leat_managed_record(w->device, 0));
        FREE(leat_memory_free(w->managed));
        END(leat_stream_destroy(w->stream));
    }
    END(leat_device_close(w->device));
}

void must_work(leat_device *device, const struct world *after)
{
    unsigned char in[1000], out[1000] = {0};
    leat_stream *stream;
    void *memory;
    bool good;

    test_pattern(in, sizeof in, 2);
    good = leat_stream_create(device, &stream) == LEAT_OK && leat_alloc(stream, sizeof in, &memory) == LEAT_OK &&
           leat_copy(stream, memory, in, sizeof in) == LEAT_OK &&
           leat_copy(stream, out, memory, sizeof in) == LEAT_OK && leat_free(stream, memory) == LEAT_OK &&
           leat_stream_synchronize(stream) == LEAT_OK && leat_stream_destroy(stream) == LEAT_OK;
    if (!good)
        give_up("the device does not work any more: %s; what failed first was %s: %s", leat_last_error(),
                after->call ? after->call : "nothing", after->message);
    if (memcmp(in, out, sizeof in))
        give_up("the device copies wrong bytes after the failure");
}

void public_scenario(struct world *w)
{
    if (open_things(w) && take_memory(w) && move_bytes(w) && run_kernels(w))
        order_work(w);
    if (w->failed && w->device)
        must_work(w->device, w);
    give_all_back(w);
}

void lazy_scenario(struct world *w)
{
    int calls;

    if (open_things(w) && take_memory(w) && move_bytes(w) && run_kernels(w))
        order_work(w);
    /* Work of one device may use memory of the other device or of the caller, so wait for both devices before this
     * memory is unregistered. */
    if (w->device)
        FREE(leat_device_synchronize(w->device));
    if (w->other)
        FREE(leat_device_synchronize(w->other));
    if (w->registered)
        FREE(leat_unregister((char *)w->own + 1));
    if (w->wrapped)
        FREE(leat_pointer_unwrap((char *)w->own + OWN_BYTES - 10));
    calls = atomic_load(&w->host_calls);
    if (w->second)
        calls += END(leat_launch_host(w->second, count_slowly, &w->host_calls)) == LEAT_OK;
    END(leat_device_close(w->other));
    END(leat_device_close(w->device));
    if (atomic_load(&w->host_calls) != calls)
        give_up("the device was closed before its last host function had run");
    free(w->own);
}

/* ---- entries of the driver's table, called directly --------------------------------------------------------- */

void table_scenario(struct world *w)
{
    const struct leati_driver_ops *ops = wrapper->ops;
    uint64_t handle = 0, imported = 0;
    bool reserved, created = false, have_import = false, mapped = false;
    void *device = NULL, *place = NULL;
    size_t bytes = 0;
    int fd = -1;

    if (!ops->vm_reserve)
        return;
    if (keep(w, "device_open", ops->device_open(wrapper, device_info.ordinal, NULL, &device)) != LEAT_OK)
        return;
    reserved = keep(w, "vm_granularity", ops->vm_granularity(wrapper, device, &bytes)) == LEAT_OK &&
               keep(w, "vm_reserve", ops->vm_reserve(wrapper, device, bytes, &place)) == LEAT_OK;
    if (reserved)
        created = keep(w, "vm_create", ops->vm_create(wrapper, device, bytes, true, &handle)) == LEAT_OK;
    if (created)
        mapped = keep(w, "vm_map", ops->vm_map(wrapper, device, place, bytes, handle)) == LEAT_OK;
    if (mapped)
        keep(w, "vm_set_access", ops->vm_set_access(wrapper, device, place, bytes));
    if (mapped && ops->vm_set_rights) {
        struct leati_right right = {.device = device, .access = LEAT_ACCESS_READ};

        keep(w, "vm_set_rights", ops->vm_set_rights(wrapper, device, place, bytes, &right, 1));
    }
    if (created && keep(w, "vm_export", ops->vm_export(wrapper, device, handle, &fd)) == LEAT_OK)
        have_import = keep(w, "vm_import", ops->vm_import(wrapper, device, fd, bytes, &imported)) == LEAT_OK;
    if (fd >= 0)
        close(fd);
    if (have_import)
        keep(w, "vm_release", ops->vm_release(wrapper, device, imported));
    if (mapped)
        keep(w, "vm_unmap", ops->vm_unmap(wrapper, device, place, bytes));
    if (created)
        keep(w, "vm_release", ops->vm_release(wrapper, device, handle));
    if (reserved)
        keep(w, "vm_unreserve", ops->vm_unreserve(wrapper, device, place, bytes));
    keep(w, "device_close", ops->device_close(wrapper, device));
}

/* Uses virtual memory through the public API. If a call fails, the close of the device frees what this run has
 * created. */
static bool use_addresses(struct world *w, leat_physical **memory)
{
    leat_physical *retained;
    leat_access access;
    size_t unit_bytes;
    void *base;

    STEP(leat_virtual_granularity(w->device, &unit_bytes));
    STEP(leat_virtual_reserve(w->device, 2 * unit_bytes, 4 * unit_bytes, &base));
    STEP(leat_physical_create(w->device, unit_bytes, LEAT_PHYSICAL_EXPORTABLE, &memory[0]));
    STEP(leat_physical_export(memory[0], &w->fd));
    STEP(leat_physical_import(w->device, w->fd, unit_bytes, &memory[1]));
    STEP(leat_virtual_map(base, unit_bytes, memory[0]));
    STEP(leat_virtual_map((char *)base + unit_bytes, unit_bytes, memory[1]));
    STEP(leat_virtual_set_access(w->device, base, 2 * unit_bytes, LEAT_ACCESS_READ_WRITE));
    STEP(leat_virtual_get_access(w->device, base, &access));
    STEP(leat_physical_retain(base, &retained));
    STEP(leat_physical_release(retained));
    STEP(leat_fill(w->stream, base, 5, 2 * unit_bytes));
    STEP(leat_stream_synchronize(w->stream));
    STEP(leat_virtual_unmap(base, 2 * unit_bytes));
    STEP(leat_physical_release(memory[1]));
    STEP(leat_physical_release(memory[0]));
    STEP(leat_virtual_unreserve(base));
    return true;
}

void virtual_scenario(struct world *w)
{
    leat_physical *memory[2] = {NULL, NULL};

    w->fd = -1;
    if (!wrapper->ops->vm_reserve)
        return;
    if (keep(w, "leat_device_open", leat_device_open(test_device_name(), &w->device)) != LEAT_OK)
        return;
    if (keep(w, "leat_stream_create", leat_stream_create(w->device, &w->stream)) == LEAT_OK)
        use_addresses(w, memory);
    if (w->fd >= 0)
        close(w->fd);
    END(leat_device_close(w->device));
}
