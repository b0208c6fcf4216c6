/* kernel.c - loads modules, finds kernels in them and launches kernels. */
#include "base/lock.h"
#include "core/core.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct leati_handles leati_module_handles = LEATI_HANDLES(struct leat_module);
struct leati_handles leati_kernel_handles = LEATI_HANDLES(struct leat_kernel);

static leat_status check_module(const char *what, const leat_module *module)
{
    if (leati_handle_live(&leati_module_handles, module))
        return LEAT_OK;
    return leati_fail(
        LEAT_ERROR_HANDLE,
        "%s: module %p is not loaded: it was unloaded, its device was closed, or it never came from leat", what,
        (const void *)module);
}

static leat_status check_kernel(const char *what, const leat_kernel *kernel)
{
    if (leati_handle_live(&leati_kernel_handles, kernel))
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_HANDLE,
                      "%s: kernel %p is not a live kernel: its module was unloaded, or it never came from leat",
                      what, (const void *)kernel);
}

static leat_module *new_module(leat_device *device)
{
    leat_module *module = leati_handle_new(&leati_module_handles);

    if (!module) {
        leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the module handle");
        return NULL;
    }
    module->device = device;
    return module;
}

/* Enters a loaded module into its device's list and publishes its handle. */
static void publish_module(leat_module *module)
{
    leat_device *device = module->device;

    leati_lock(&device->module_lock);
    leati_link_add(&device->modules, &module->link);
    leati_unlock(&device->module_lock);
    leati_handle_publish(module);
}

/* Loads an image of bytes bytes, which must be followed by a NUL. */
static leat_status load(leat_device *device, const void *image, size_t bytes, leat_module **module)
{
    struct leati_driver *driver = device->driver;
    leat_module *made = new_module(device);
    leat_status status;

    if (!made)
        return LEAT_ERROR_HOST_MEMORY;
    status = driver->ops->module_load(driver, device->native, image, bytes, &made->native);
    if (status != LEAT_OK) {
        leati_handle_free(&leati_module_handles, made);
        return status;
    }
    publish_module(made);
    *module = made;
    return LEAT_OK;
}

leat_status leat_module_load(leat_device *device, const void *image, size_t bytes, leat_module **module)
{
    leat_status status;
    char *copy;

    LEATI_SPAN(LEATI_TRACE_MODULE_LOAD, "leat_module_load");
    LEATI_TRY(leati_check_permitted("leat_module_load"));
    LEATI_TRY(leati_check_device("leat_module_load", device));
    if (leati_traced())
        leati_span_stream(&device->traced_calls);
    LEATI_TRY(leati_check_not_null("leat_module_load", "image", image));
    LEATI_TRY(leati_check_not_null("leat_module_load", "module", module));
    if (!bytes || bytes == SIZE_MAX)
        return leati_fail(LEAT_ERROR_INVALID, "leat_module_load: an image of %zu bytes; give its size", bytes);
    copy = malloc(bytes + 1);
    if (!copy)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "leat_module_load: no memory for a copy of %zu bytes", bytes);
    memcpy(copy, image, bytes);
    copy[bytes] = '\0';
    status = load(device, copy, bytes, module);
    free(copy);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_module_load on %s", device->name);
}

/* The most bytes to read from a file. No kernel image is larger, but a file such as /dev/zero has no end. */
#define FILE_MOST_BYTES ((size_t)512 << 20)

/* Reads a whole file and appends a NUL. */
static leat_status read_file(const char *path, char **content, size_t *bytes)
{
    size_t capacity = 1 << 16, used = 0, got;
    leat_status status = LEAT_OK;
    char *buffer = NULL;
    FILE *file = fopen(path, "rbe");

    if (!file)
        return leati_fail(errno == ENOENT ? LEAT_ERROR_NOT_FOUND : LEAT_ERROR_SYSTEM, "%s: %s", path,
                          strerror(errno));
    do {
        char *larger;

        if (capacity >= FILE_MOST_BYTES) {
            status = leati_fail(LEAT_ERROR_IMAGE, "%s has %zu bytes or more, which no kernel image has", path,
                                FILE_MOST_BYTES);
            break;
        }
        larger = realloc(buffer, capacity *= 2);
        if (!larger) {
            status = leati_fail(LEAT_ERROR_HOST_MEMORY, "%s: no memory to read it", path);
            break;
        }
        buffer = larger;
        got = fread(buffer + used, 1, capacity - used - 1, file);
        used += got;
    } while (got && !feof(file) && !ferror(file));
    if (status == LEAT_OK && ferror(file))
        status = leati_fail(LEAT_ERROR_SYSTEM, "%s: cannot be read: %s", path, strerror(errno));
    fclose(file);
    if (status == LEAT_OK && !used)
        status = leati_fail(LEAT_ERROR_IMAGE, "%s is empty", path);
    if (status != LEAT_OK) {
        free(buffer);
        return status;
    }
    buffer[used] = '\0';
    *content = buffer;
    *bytes = used;
    return LEAT_OK;
}

leat_status leat_module_load_file(leat_device *device, const char *path, leat_module **module)
{
    leat_status status;
    char *content = NULL;
    size_t bytes = 0;

    LEATI_SPAN(LEATI_TRACE_MODULE_LOAD, "leat_module_load_file");
    LEATI_TRY(leati_check_permitted("leat_module_load_file"));
    LEATI_TRY(leati_check_device("leat_module_load_file", device));
    if (leati_traced())
        leati_span_stream(&device->traced_calls);
    LEATI_TRY(leati_check_not_null("leat_module_load_file", "path", path));
    LEATI_TRY(leati_check_not_null("leat_module_load_file", "module", module));
    status = read_file(path, &content, &bytes);
    if (status == LEAT_OK) {
        status = load(device, content, bytes, module);
        free(content);
    }
    return status == LEAT_OK ? status
                             : leati_fail_in(status, "leat_module_load_file of %s on %s", path, device->name);
}

static leat_status check_embedded(const leat_embedded_kernel *kernels, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!kernels[i].name || !*kernels[i].name || !kernels[i].code)
            return leati_fail(LEAT_ERROR_INVALID,
                              "leat_module_load_embedded: kernel %zu of the list has no name or no code; the code is the address of leat_cpu_kernel_NAME",
                              i);
    return LEAT_OK;
}

leat_status leat_module_load_embedded(leat_device *device, const leat_embedded_kernel *kernels, size_t count,
                                      leat_module **module)
{
    struct leati_driver *driver;
    leat_status status;
    leat_module *made;

    LEATI_SPAN(LEATI_TRACE_MODULE_LOAD, "leat_module_load_embedded");
    LEATI_TRY(leati_check_permitted("leat_module_load_embedded"));
    LEATI_TRY(leati_check_device("leat_module_load_embedded", device));
    if (leati_traced())
        leati_span_stream(&device->traced_calls);
    LEATI_TRY(leati_check_not_null("leat_module_load_embedded", "kernels", kernels));
    LEATI_TRY(leati_check_not_null("leat_module_load_embedded", "module", module));
    if (!count)
        return leati_fail(LEAT_ERROR_INVALID, "leat_module_load_embedded: a list of 0 kernels; give at least one");
    LEATI_TRY(check_embedded(kernels, count));
    driver = device->driver;
    if (!driver->ops->module_embedded)
        return leati_fail(
            LEAT_ERROR_UNSUPPORTED,
            "leat_module_load_embedded: %s cannot run what was compiled for the host; load PTX or a cubin by leat_module_load()",
            device->name);
    made = new_module(device);
    if (!made)
        return LEAT_ERROR_HOST_MEMORY;
    status = driver->ops->module_embedded(driver, device->native, kernels, count, &made->native);
    if (status != LEAT_OK) {
        leati_handle_free(&leati_module_handles, made);
        return leati_fail_in(status, "leat_module_load_embedded on %s", device->name);
    }
    publish_module(made);
    *module = made;
    return LEAT_OK;
}

static void end_kernels(leat_kernel *kernel)
{
    while (kernel) {
        leat_kernel *next = kernel->next;

        leati_handle_retire(&leati_kernel_handles, kernel);
        free(kernel->name);
        leati_handle_free(&leati_kernel_handles, kernel);
        kernel = next;
    }
}

/* Unloads a module. Its handle is already retired, and the module is no longer in its device's list. */
static leat_status end_module(leat_module *module)
{
    struct leati_driver *driver = module->device->driver;
    leat_status status;

    for (unsigned i = 0; i < LEATI_KERNEL_BUCKETS; i++)
        end_kernels(module->kernels[i]);
    status = driver->ops->module_unload(driver, module->device->native, module->native);
    leati_handle_free(&leati_module_handles, module);
    return status;
}

leat_status leat_module_unload(leat_module *module)
{
    leat_device *device;
    leat_status status;

    if (!module)
        return LEAT_OK;
    LEATI_TRY(leati_check_permitted("leat_module_unload"));
    LEATI_TRY(check_module("leat_module_unload", module));
    if (module->builtin)
        return leati_fail(LEAT_ERROR_INVALID,
                          "leat_module_unload: the built-in module belongs to %s and goes with it",
                          module->device->name);
    if (!leati_handle_retire(&leati_module_handles, module))
        return check_module("leat_module_unload", module);
    device = module->device;
    leati_lock(&device->module_lock);
    leati_link_remove(&module->link);
    leati_unlock(&device->module_lock);
    status = end_module(module);
    return status == LEAT_OK ? status
                             : leati_fail_in(status, "leat_module_unload on %s: it is gone, but", device->name);
}

leat_status leati_modules_close(struct leat_device *device)
{
    leat_status first = LEAT_OK;

    while (device->modules.next != &device->modules) {
        leat_module *module = LEATI_CONTAINER_OF(device->modules.next, leat_module);
        leat_status status;

        leati_link_remove(&module->link);
        leati_handle_retire(&leati_module_handles, module);
        status = end_module(module);
        first = first != LEAT_OK ? first : status;
    }
    memset(device->builtin, 0, sizeof device->builtin);
    return first;
}

/* Returns the hash bucket for a kernel name. */
static leat_kernel **bucket_of(leat_module *module, const char *name)
{
    uint32_t hash = 2166136261u;

    while (*name)
        hash = (hash ^ (unsigned char)*name++) * 16777619u;
    return &module->kernels[(hash ^ hash >> 16) % LEATI_KERNEL_BUCKETS];
}

static leat_kernel *find_kernel(leat_module *module, const char *name)
{
    leat_kernel *kernel = *bucket_of(module, name);

    while (kernel && strcmp(kernel->name, name))
        kernel = kernel->next;
    return kernel;
}

/* Looks a kernel up in the driver, and creates its handle. Call under the device's module_lock. */
static leat_status make_kernel(leat_module *module, const char *name, leat_kernel **kernel)
{
    struct leati_driver *driver = module->device->driver;
    leat_kernel *made = leati_handle_new(&leati_kernel_handles);
    char *kept = strdup(name);
    leat_status status;

    status = made && kept ? driver->ops->kernel_get(driver, module->device->native, module->native, name,
                                                    &made->native, &made->shape)
                          : leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the kernel handle");
    if (status != LEAT_OK) {
        if (made)
            leati_handle_free(&leati_kernel_handles, made);
        free(kept);
        return status;
    }
    made->module = module;
    made->name = kept;
    made->next = *bucket_of(module, name);
    *bucket_of(module, name) = made;
    leati_handle_publish(made);
    *kernel = made;
    return LEAT_OK;
}

/* The kernels to look up when their modules are loaded: those that leat itself launches, and the few others in
 * the same modules. */
static const struct embedded_kernel {
    enum leati_builtin module;
    const char *name;
} embedded_kernels[] = {{LEATI_BUILTIN_BASIC, "leat_fill_u64"},
                        {LEATI_BUILTIN_BASIC, "leat_fill_u128"},
                        {LEATI_BUILTIN_BASIC, "leat_copy_pieces"},
#define EMBEDDED_KERNEL(module, name) {LEATI_BUILTIN_##module, #name},
                        LEATI_LAYOUT_KERNEL_LIST(EMBEDDED_KERNEL) LEATI_CONVERT_KERNEL_LIST(EMBEDDED_KERNEL)
#undef EMBEDDED_KERNEL
};
#define EMBEDDED_KERNELS (sizeof embedded_kernels / sizeof embedded_kernels[0])

/*
 * Loads a built-in module, and looks up all of its kernels that leat itself launches. A driver may wait for all
 * work of the device when it loads a kernel (CUDA's lazy loading does), and a later fill or copy must not wait for
 * that. Call under the device's module_lock.
 */
static leat_status load_builtin(leat_device *device, enum leati_builtin which)
{
    struct leati_driver *driver = device->driver;
    leat_module *made = new_module(device);
    leat_kernel *kernel;
    leat_status status;

    if (!made)
        return LEAT_ERROR_HOST_MEMORY;
    made->builtin = true;
    status = driver->ops->module_builtin(driver, device->native, which, &made->native);
    if (status != LEAT_OK) {
        leati_handle_free(&leati_module_handles, made);
        return status;
    }
    for (size_t i = 0; i < EMBEDDED_KERNELS && status == LEAT_OK; i++)
        if (embedded_kernels[i].module == which)
            status = make_kernel(made, embedded_kernels[i].name, &kernel);
    if (status != LEAT_OK) {
        (void)LEATI_QUIETLY(end_module(made));
        return status;
    }
    leati_link_add(&device->modules, &made->link);
    leati_handle_publish(made);
    device->builtin[which] = made;
    return LEAT_OK;
}

/* Returns a built-in module, and loads it on first use. Call under the device's module_lock. */
static leat_status get_builtin(leat_device *device, enum leati_builtin which, leat_module **module)
{
    if (!device->builtin[which])
        LEATI_TRY(load_builtin(device, which));
    *module = device->builtin[which];
    return LEAT_OK;
}

/* Loads the built-in modules from first to last. If all are loaded, sets *module to the first one. */
static leat_status get_builtins(const char *what, leat_device *device, enum leati_builtin first,
                                enum leati_builtin last, leat_module **module)
{
    leat_status status = LEAT_OK;
    leat_module *loaded;

    LEATI_TRY(leati_check_permitted(what));
    LEATI_TRY(leati_check_device(what, device));
    LEATI_TRY(leati_check_not_null(what, "module", module));
    leati_lock(&device->module_lock);
    for (enum leati_builtin which = first; which <= last && status == LEAT_OK; which++)
        status = get_builtin(device, which, &loaded);
    if (status == LEAT_OK)
        *module = device->builtin[first];
    leati_unlock(&device->module_lock);
    return status == LEAT_OK ? status : leati_fail_in(status, "%s on %s", what, device->name);
}

leat_status leat_module_builtin(leat_device *device, leat_module **module)
{
    LEATI_SPAN(LEATI_TRACE_MODULE_LOAD, "leat_module_builtin");
    return get_builtins("leat_module_builtin", device, LEATI_BUILTIN_BASIC, LEATI_BUILTIN_BASIC, module);
}

leat_status leat_module_layout(leat_device *device, leat_module **module)
{
    LEATI_SPAN(LEATI_TRACE_MODULE_LOAD, "leat_module_layout");
    return get_builtins("leat_module_layout", device, LEATI_BUILTIN_ELEMENTS, LEATI_BUILTIN_CONVERT, module);
}

void leati_kernels_load_early(leat_device *device)
{
    leat_module *module;

    /* Kernels for this machine's processors are part of leat. Once is enough, also after a failure, so that later
     * calls need no lock, which another thread may hold while it waits for a stream. Relaxed: only a hint. */
    if (device->driver->can->host_kernels || atomic_load_explicit(&device->kernels_tried, memory_order_relaxed))
        return;
    (void)LEATI_QUIETLY(
        get_builtins("loading kernels", device, LEATI_BUILTIN_BASIC, LEATI_BUILTIN_CONVERT, &module));
    atomic_store_explicit(&device->kernels_tried, true, memory_order_relaxed);
}

/* Returns a kernel of a module, and creates its handle on first use. Call under the device's module_lock. */
static leat_status get_kernel(leat_module *module, const char *name, leat_kernel **kernel)
{
    *kernel = find_kernel(module, name);
    return *kernel ? LEAT_OK : make_kernel(module, name, kernel);
}

leat_status leati_kernel_builtin(leat_device *device, enum leati_builtin which, const char *name,
                                 leat_kernel **kernel)
{
    leat_module *module;
    leat_status status;

    leati_lock(&device->module_lock);
    status = get_builtin(device, which, &module);
    if (status == LEAT_OK)
        status = get_kernel(module, name, kernel);
    leati_unlock(&device->module_lock);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat's kernel '%s' on %s", name, device->name);
}

/* The layout kernels are in several modules, but programs see them as one module, by the handle of the first.
 * If *module is that handle, replaces it by the module that contains the kernel. Call under the device's
 * module_lock. */
static leat_status find_part(leat_module **module, const char *name)
{
    leat_device *device = (*module)->device;

    if (*module != device->builtin[LEATI_BUILTIN_ELEMENTS])
        return LEAT_OK;
    for (size_t i = 0; i < EMBEDDED_KERNELS; i++)
        if (embedded_kernels[i].module != LEATI_BUILTIN_BASIC && !strcmp(embedded_kernels[i].name, name))
            return get_builtin(device, embedded_kernels[i].module, module);
    return LEAT_OK;
}

leat_status leat_kernel_get(leat_module *module, const char *name, leat_kernel **kernel)
{
    leat_module *part = module;
    leat_status status;
    leat_kernel *found;

    LEATI_TRY(leati_check_permitted("leat_kernel_get"));
    LEATI_TRY(check_module("leat_kernel_get", module));
    LEATI_TRY(leati_check_not_null("leat_kernel_get", "name", name));
    LEATI_TRY(leati_check_not_null("leat_kernel_get", "kernel", kernel));
    if (!*name)
        return leati_fail(LEAT_ERROR_NOT_FOUND, "leat_kernel_get of '': the name is empty");
    leati_lock(&module->device->module_lock);
    status = find_part(&part, name);
    if (status == LEAT_OK)
        status = get_kernel(part, name, &found);
    leati_unlock(&module->device->module_lock);
    if (status != LEAT_OK)
        return leati_fail_in(status, "leat_kernel_get of '%s' on %s", name, module->device->name);
    *kernel = found;
    return LEAT_OK;
}

leat_status leat_kernel_parameter_count(leat_kernel *kernel, int *count)
{
    LEATI_TRY(check_kernel("leat_kernel_parameter_count", kernel));
    LEATI_TRY(leati_check_not_null("leat_kernel_parameter_count", "count", count));
    *count = kernel->shape.parameter_count;
    return LEAT_OK;
}

leat_status leat_kernel_parameter_bytes(leat_kernel *kernel, unsigned index, size_t *bytes)
{
    const char *what = "leat_kernel_parameter_bytes";
    const leat_device *device;
    leat_status status;

    LEATI_TRY(check_kernel(what, kernel));
    LEATI_TRY(leati_check_not_null(what, "bytes", bytes));
    device = kernel->module->device;
    if (kernel->shape.parameter_count < 0 || !device->driver->ops->kernel_parameter)
        return leati_fail(LEAT_ERROR_UNSUPPORTED,
                          "%s of '%s' on %s: this driver does not tell the sizes of parameters", what,
                          kernel->name, device->name);
    if (index >= (unsigned)kernel->shape.parameter_count)
        return leati_fail(LEAT_ERROR_INVALID, "%s of '%s': there is no parameter %u, it has %d", what,
                          kernel->name, index, kernel->shape.parameter_count);
    status = device->driver->ops->kernel_parameter(device->driver, device->native, kernel->native, index, bytes);
    return status == LEAT_OK ? status
                             : leati_fail_in(status, "%s of '%s' on %s", what, kernel->name, device->name);
}

static leat_status check_launch(const leat_stream *stream, const leat_kernel *kernel, leat_dim3 grid,
                                leat_dim3 block, void *const *args, unsigned argument_count)
{
    uint64_t threads = (uint64_t)block.x * block.y;

    if (kernel->module->device != stream->device)
        return leati_fail(LEAT_ERROR_INVALID,
                          "the kernel is loaded on %s and the stream is of %s; load the module there",
                          kernel->module->device->name, stream->device->name);
    if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z)
        return leati_fail(LEAT_ERROR_INVALID, "grid %u x %u x %u, block %u x %u x %u: no dimension may be 0",
                          grid.x, grid.y, grid.z, block.x, block.y, block.z);
    if (threads > kernel->shape.max_block_threads || threads * block.z > kernel->shape.max_block_threads)
        return leati_fail(LEAT_ERROR_INVALID, "a block of %u x %u x %u threads; this kernel runs at most %u",
                          block.x, block.y, block.z, kernel->shape.max_block_threads);
    if (kernel->shape.parameter_count >= 0 && argument_count != (unsigned)kernel->shape.parameter_count)
        return leati_fail(LEAT_ERROR_INVALID, "%u arguments given; the kernel takes %d", argument_count,
                          kernel->shape.parameter_count);
    for (unsigned i = 0; i < argument_count; i++)
        if (!args || !args[i])
            return leati_fail(LEAT_ERROR_INVALID, "%s is NULL; it must point to the value of parameter %u",
                              args ? "an element of args" : "args", i);
    return LEAT_OK;
}

leat_status leat_launch(leat_stream *stream, leat_kernel *kernel, leat_dim3 grid, leat_dim3 block,
                        size_t shared_bytes, void *const *args, unsigned argument_count)
{
    struct leati_driver *driver;
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_KERNEL, "leat_launch");
    LEATI_TRY(leati_check_permitted("leat_launch"));
    LEATI_TRY(leati_check_stream("leat_launch", stream));
    LEATI_TRY(check_kernel("leat_launch", kernel));
    driver = stream->device->driver;
    status = check_launch(stream, kernel, grid, block, args, argument_count);
    if (status == LEAT_OK) {
        leati_stream_piece_begins(stream);
        if (leati_traced()) {
            leati_span_stream(&stream->traced);
            leati_span_name(kernel->name, &kernel->name_string);
            leati_span_value((uint64_t)grid.x * grid.y * grid.z * block.x * block.y * block.z);
            leati_span_work_begins(&stream->traced);
        }
        status = driver->ops->launch(driver, stream->native, kernel->native, grid, block, shared_bytes, args,
                                     argument_count);
        if (leati_traced())
            leati_span_work_ends(&stream->traced);
        leati_stream_piece_ends(stream);
    }
    leati_timeline_submitted(stream->timeline);
    return status == LEAT_OK
               ? status
               : leati_fail_in(status, "leat_launch of '%s' on %s", kernel->name, stream->device->name);
}
