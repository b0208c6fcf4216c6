/*
 * launch.c - launches kernels by function pointer, and loads libraries of device code.
 *
 * A function pointer is either registered (registered.c) or the address of a leat_cpu_kernel, which LEAT_KERNEL
 * defines in the program. The engine reads a leat_cpu_kernel once with a system call, so that an invalid address
 * causes an error instead of a crash. It caches the leat_kernel that leat makes from it on a device.
 */
#include "base/lock.h"
#include "engine/inside.h"

#include <leat/compat/kernel_support.h>

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct own {
    const void *function;
    int ordinal;
    leat_module *module;
    leat_kernel *kernel;
    unsigned parameters;
    struct own *next;
};

#define OWN_BUCKETS 256
#define PARAMETERS_MAX 64

/* Guards the cache and the modules of libraries. */
static struct leati_rwlock lock = LEATI_RWLOCK_INITIALIZER;
static struct own *buckets[OWN_BUCKETS] LEATI_GUARDED_BY(lock);

static struct own **bucket_of(const void *function)
{
    return &buckets[((uintptr_t)function >> 4) % OWN_BUCKETS];
}

/* ---- kernels of the program ---- */

bool leatc_read_safely(const void *from, void *to, size_t bytes)
{
    struct iovec local = {to, bytes}, remote = {(void *)(uintptr_t)from, bytes};

    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

static bool is_embedded_kernel(const void *function, leat_cpu_kernel *code)
{
    return (uintptr_t)function % _Alignof(leat_cpu_kernel) == 0 &&
           leatc_read_safely(function, code, sizeof *code) && code->abi == LEAT_CPU_KERNEL_ABI &&
           code->parameter_count <= PARAMETERS_MAX && code->run &&
           (code->parameter_bytes || !code->parameter_count);
}

/* Returns the leat_cpu_kernel of a registered function. If function is not registered, returns function itself. */
static const void *description_of(const void *function)
{
    const leat_cpu_kernel *known = leat_kernel_of_function(function);

    return known ? known : function;
}

/* Returns the cached kernel of a function on a device, or NULL. The caller holds the lock. */
static struct own *find_own(const void *function, int ordinal) LEATI_REQUIRES_SHARED(lock)
{
    struct own *own = *bucket_of(function);

    while (own && (own->function != function || own->ordinal != ordinal))
        own = own->next;
    return own;
}

static int make_own(const void *function, struct leatc_device *device, struct own *made)
{
    leat_embedded_kernel one = {"function", function};
    leat_cpu_kernel code;
    leat_status status;

    if (!is_embedded_kernel(function, &code))
        return LEATC_INVALID_FUNCTION;
    status = leat_module_load_embedded(atomic_load(&device->native), &one, 1, &made->module);
    if (status == LEAT_ERROR_UNSUPPORTED)
        return LEATC_INVALID_FUNCTION;
    LEATC_TRY(leatc_result_of(status));
    status = leat_kernel_get(made->module, one.name, &made->kernel);
    if (status != LEAT_OK)
        leat_module_unload(made->module);
    made->function = function;
    made->ordinal = device->ordinal;
    made->parameters = code.parameter_count;
    return leatc_result_of(status);
}

static int add_own(const void *function, struct leatc_device *device, struct own *found)
{
    struct own *own = calloc(1, sizeof *own);
    struct own **bucket = bucket_of(function);
    int result;

    if (!own)
        return LEATC_OUT_OF_MEMORY;
    result = make_own(function, device, own);
    if (result != LEATC_OK) {
        free(own);
        return result;
    }
    *found = *own;
    leati_write_lock(&lock);
    if (find_own(function, device->ordinal)) {
        /* Another thread has added the same kernel. The kernel made here stays valid for this launch; closing the
         * device frees it. */
        free(own);
    } else {
        own->next = *bucket;
        *bucket = own;
    }
    leati_write_unlock(&lock);
    return LEATC_OK;
}

static int embedded_kernel(const void *function, struct leatc_device *device, struct own *found)
{
    struct own *own;

    leati_read_lock(&lock);
    own = find_own(function, device->ordinal);
    if (own)
        *found = *own;
    leati_read_unlock(&lock);
    return own ? LEATC_OK : add_own(function, device, found);
}

/* ---- libraries ---- */

struct leatc_library {
    struct leati_handle handle;
    char *image;  /* a copy of the image, or the path of the file */
    size_t bytes; /* size of the image; 0: image is a path */
    leat_module *modules[LEATC_DEVICES_MAX];
    uint64_t generations[LEATC_DEVICES_MAX]; /* for each device: its generation when the module was loaded */
};

struct library_kernel {
    struct leati_handle handle;
    struct leatc_library *library;
    char *name;
};

static struct leati_handles libraries = LEATI_HANDLES(struct leatc_library);
static struct leati_handles library_kernels = LEATI_HANDLES(struct library_kernel);

/* Returns the module of a library on a device, and loads the module if it is not loaded. The caller holds the lock
 * for writing. */
static int load_on(struct leatc_library *library, struct leatc_device *device, leat_module **module)
    LEATI_REQUIRES(lock)
{
    uint64_t generation = atomic_load(&device->generation);
    leat_device *native = atomic_load(&device->native);
    int i = device->ordinal;

    if (!library->modules[i] || library->generations[i] != generation) {
        LEATC_TRY(leatc_result_of(library->bytes ? leat_module_load(native, library->image, library->bytes, module)
                                                 : leat_module_load_file(native, library->image, module)));
        library->modules[i] = *module;
        library->generations[i] = generation;
    }
    *module = library->modules[i];
    return LEATC_OK;
}

static int kernel_on(struct leatc_library *library, const char *name, struct leatc_device *device,
                     leat_kernel **kernel)
{
    leat_module *module = NULL;
    int result;

    leati_write_lock(&lock);
    result = load_on(library, device, &module);
    leati_write_unlock(&lock);
    return result == LEATC_OK ? leatc_result_of(leat_kernel_get(module, name, kernel)) : result;
}

int leatc_library_load(const void *image, size_t bytes, const char *path, struct leatc_library **library)
{
    struct leatc_library *made;
    leat_module *module;
    int result;
    struct leatc_device *device = leatc_device_here(&result);

    if (!library || (!path && (!image || !bytes)))
        return LEATC_INVALID_VALUE;
    if (!device)
        return result;
    LEATC_TRY(leatc_capture_refuse_unsafe());
    made = leati_handle_new(&libraries);
    if (!made)
        return LEATC_OUT_OF_MEMORY;
    made->bytes = path ? 0 : bytes;
    made->image = path ? strdup(path) : malloc(bytes);
    if (made->image && !path)
        memcpy(made->image, image, bytes);
    /* Load the library on the current device now, so that an invalid image is reported at once. */
    leati_write_lock(&lock);
    result = made->image ? load_on(made, device, &module) : LEATC_OUT_OF_MEMORY;
    leati_write_unlock(&lock);
    if (result != LEATC_OK) {
        free(made->image);
        leati_handle_free(&libraries, made);
        return result;
    }
    leati_handle_publish(made);
    *library = made;
    return LEATC_OK;
}

static void end_kernel_of(void *object, void *library)
{
    struct library_kernel *kernel = object;

    if (kernel->library == library && leati_handle_retire(&library_kernels, kernel)) {
        free(kernel->name);
        leati_handle_free(&library_kernels, kernel);
    }
}

int leatc_library_unload(struct leatc_library *library)
{
    if (!leati_handle_retire(&libraries, library))
        return LEATC_INVALID_HANDLE;
    leati_handles_each(&library_kernels, end_kernel_of, library);
    for (int i = 0; i < LEATC_DEVICES_MAX; i++)
        if (library->modules[i] && library->generations[i] == atomic_load(&leatc_device_known(i)->generation) &&
            leatc_device_is_open(i)) {
            (void)leatc_device_wait(leatc_device_known(i));
            (void)leat_module_unload(library->modules[i]);
        }
    free(library->image);
    leati_handle_free(&libraries, library);
    return LEATC_OK;
}

int leatc_library_kernel(struct leatc_library *library, const char *name, void **kernel)
{
    struct library_kernel *made;
    leat_kernel *there;
    int result;
    struct leatc_device *device = leatc_device_here(&result);

    if (!name || !kernel)
        return LEATC_INVALID_VALUE;
    if (!leati_handle_live(&libraries, library))
        return LEATC_INVALID_HANDLE;
    if (!device)
        return result;
    LEATC_TRY(kernel_on(library, name, device, &there));
    made = leati_handle_new(&library_kernels);
    if (!made || !(made->name = strdup(name))) {
        if (made)
            leati_handle_free(&library_kernels, made);
        return LEATC_OUT_OF_MEMORY;
    }
    made->library = library;
    leati_handle_publish(made);
    *kernel = made;
    return LEATC_OK;
}

/* The kernels of a library that have been listed. */
struct listing {
    struct leatc_library *library;
    unsigned count, most;
    void **kernels; /* NULL: the listing only counts */
    int result;
};

static bool take_listed(void *argument, const char *name, size_t length)
{
    struct listing *listing = argument;
    char *copy;

    if (!listing->kernels) {
        listing->count++;
        return true;
    }
    if (listing->count == listing->most)
        return false;
    copy = strndup(name, length);
    listing->result = copy ? leatc_library_kernel(listing->library, copy, &listing->kernels[listing->count])
                           : LEATC_OUT_OF_MEMORY;
    free(copy);
    listing->count += listing->result == LEATC_OK;
    return listing->result == LEATC_OK;
}

/* Lists the kernels of a file. */
static int list_file(const char *path, struct listing *listing)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), visited = -1;
    struct stat state;
    void *image;

    if (fd < 0)
        return LEATC_NOT_FOUND;
    if (fstat(fd, &state) == 0 && state.st_size > 0) {
        image = mmap(NULL, (size_t)state.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (image != MAP_FAILED) {
            visited = leatc_image_kernels(image, (size_t)state.st_size, take_listed, listing);
            (void)munmap(image, (size_t)state.st_size);
        }
    }
    close(fd);
    return visited < 0 ? LEATC_NOT_SUPPORTED : listing->result;
}

static int list_kernels(struct leatc_library *library, struct listing *listing)
{
    int visited;

    if (!leati_handle_live(&libraries, library))
        return LEATC_INVALID_HANDLE;
    if (!library->bytes)
        return list_file(library->image, listing);
    visited = leatc_image_kernels(library->image, library->bytes, take_listed, listing);
    return visited < 0 ? LEATC_NOT_SUPPORTED : listing->result;
}

int leatc_library_kernel_count(struct leatc_library *library, unsigned *count)
{
    struct listing listing = {.library = library};

    if (!count)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(list_kernels(library, &listing));
    *count = listing.count;
    return LEATC_OK;
}

int leatc_library_kernels(struct leatc_library *library, unsigned most, void **kernels)
{
    struct listing listing = {.library = library, .most = most, .kernels = kernels};

    return kernels || !most ? list_kernels(library, &listing) : LEATC_INVALID_VALUE;
}

/* Removes cached kernels from a bucket: those of a function on all devices or, if function is NULL, those of all
 * functions on the device. The caller holds the lock. */
static void remove_own(struct own **bucket, const void *function, int ordinal) LEATI_REQUIRES(lock)
{
    for (struct own **link = bucket; *link;) {
        struct own *own = *link;

        if (function ? own->function == function : own->ordinal == ordinal) {
            *link = own->next;
            free(own);
        } else {
            link = &own->next;
        }
    }
}

void leatc_kernels_close(struct leatc_device *device)
{
    leati_write_lock(&lock);
    for (int i = 0; i < OWN_BUCKETS; i++)
        remove_own(&buckets[i], NULL, device->ordinal);
    leati_write_unlock(&lock);
}

void leatc_kernel_gone(const struct leat_cpu_kernel *code)
{
    leati_write_lock(&lock);
    remove_own(bucket_of(code), code, 0);
    leati_write_unlock(&lock);
}

/* ---- launch ---- */

static int find_kernel(const void *function, struct leatc_device *device, leat_kernel **kernel,
                       unsigned *parameters)
{
    struct own own;
    int count = -1;

    if (leati_handle_live(&library_kernels, function)) {
        const struct library_kernel *made = function;

        LEATC_TRY(kernel_on(made->library, made->name, device, kernel));
        LEATC_TRY(leatc_result_of(leat_kernel_parameter_count(*kernel, &count)));
        if (count < 0)
            return LEATC_NOT_SUPPORTED; /* the driver does not report the number of parameters */
        *parameters = (unsigned)count;
        return LEATC_OK;
    }
    LEATC_TRY(embedded_kernel(description_of(function), device, &own));
    *kernel = own.kernel;
    *parameters = own.parameters;
    return LEATC_OK;
}

int leatc_function_check(const void *function)
{
    leat_cpu_kernel code;

    return leati_handle_live(&library_kernels, function) ||
                   (function && is_embedded_kernel(description_of(function), &code))
               ? LEATC_OK
               : LEATC_INVALID_FUNCTION;
}

/* Returns the bytes that a parameter value takes, so that each value is aligned for any type. */
static size_t room_for(size_t bytes)
{
    return (bytes + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t);
}

static int run_launch(const void *payload, struct leatc_work *work)
{
    const struct leatc_kernel_task *given = payload;
    leat_kernel *kernel = given->kernel;
    unsigned parameters = given->parameters;

    if (!kernel)
        LEATC_TRY(find_kernel(given->function, work->record->device, &kernel, &parameters));
    if (parameters != given->parameters)
        return LEATC_INVALID_FUNCTION;
    return leatc_result_of(leat_launch(work->stream, kernel, given->grid, given->block, given->shared_bytes,
                                       given->args, parameters));
}

/* Sets bytes[i] to the size of parameter i. NOT_SUPPORTED: the driver does not report the sizes. */
static int parameter_bytes(leat_kernel *kernel, unsigned parameters, size_t *bytes)
{
    for (unsigned i = 0; i < parameters; i++)
        if (leat_kernel_parameter_bytes(kernel, i, &bytes[i]) != LEAT_OK)
            return LEATC_NOT_SUPPORTED;
    return LEATC_OK;
}

/* Returns false if the device cannot run a grid or block of this size. A capture then rejects the launch at
 * once. */
static bool sizes_are_valid(struct leatc_device *device, leat_dim3 grid, leat_dim3 block)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    return grid.x && grid.y && grid.z && block.x && block.y && block.z && block.x <= UINT32_MAX / block.y &&
           block.x * block.y <= UINT32_MAX / block.z &&
           leatc_device_describe(device->ordinal, &info) == LEATC_OK &&
           block.x * block.y * block.z <= info.max_block_threads;
}

/* Makes the task of a kernel launch. The caller has found the kernel's handle and number of parameters on the
 * device. */
static int make_launch(const struct leatc_kernel_task *given, leat_kernel *kernel, unsigned parameters,
                       struct leatc_device *device, struct leatc_task **task)
{
    size_t bytes[PARAMETERS_MAX], values = room_for(sizeof *given + parameters * sizeof(void *)), at = values;
    struct leatc_kernel_task *made;

    if (!sizes_are_valid(device, given->grid, given->block))
        return LEATC_INVALID_CONFIGURATION;
    if (parameters > PARAMETERS_MAX)
        return LEATC_NOT_SUPPORTED;
    if (parameters && !given->args)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(parameter_bytes(kernel, parameters, bytes));
    for (unsigned i = 0; i < parameters; i++) {
        if (!given->args[i])
            return LEATC_INVALID_VALUE;
        values += room_for(bytes[i]);
    }
    *task = leatc_task_new(LEATC_NODE_KERNEL, run_launch, NULL, values);
    if (!*task)
        return LEATC_OUT_OF_MEMORY;
    (*task)->ordinal = device->ordinal;
    made = (struct leatc_kernel_task *)(void *)(*task)->payload;
    *made = *given;
    made->parameters = parameters;
    made->args = (void **)(void *)(made + 1);
    for (unsigned i = 0; i < parameters; i++) {
        made->args[i] = (*task)->payload + at;
        memcpy(made->args[i], given->args[i], bytes[i]);
        at += room_for(bytes[i]);
    }
    return LEATC_OK;
}

static int count_parameters(leat_kernel *kernel, unsigned *parameters)
{
    int count = -1;

    LEATC_TRY(leatc_result_of(leat_kernel_parameter_count(kernel, &count)));
    *parameters = (unsigned)count;
    return count < 0 ? LEATC_NOT_SUPPORTED : LEATC_OK;
}

/* Makes the task of a kernel launch for a node that belongs to this device. */
static int make_on(const struct leatc_kernel_task *given, struct leatc_device *device, struct leatc_task **task)
{
    leat_kernel *kernel = given->kernel;
    unsigned parameters = 0;

    if (kernel)
        LEATC_TRY(count_parameters(kernel, &parameters));
    else
        LEATC_TRY(given->function ? find_kernel(given->function, device, &kernel, &parameters)
                                  : LEATC_INVALID_FUNCTION);
    return make_launch(given, kernel, parameters, device, task);
}

int leatc_kernel_make(const struct leatc_kernel_task *given, struct leatc_task **task)
{
    int result;
    struct leatc_device *device = leatc_device_here(&result);

    return device ? make_on(given, device, task) : result;
}

int leatc_launch_captured(struct leatc_work *work, const struct leatc_kernel_task *given)
{
    struct leatc_task *task = NULL;

    LEATC_TRY(make_on(given, work->record->device, &task));
    return leatc_capture_add(work, task);
}

int leatc_launch(const void *function, leat_dim3 grid, leat_dim3 block, void **args, size_t shared_bytes,
                 struct leatc_stream *stream)
{
    struct leatc_work work;
    leat_kernel *kernel = NULL;
    unsigned parameters = 0;
    leat_status status;

    LEATC_TRY(leatc_lost());
    if (!function)
        return LEATC_INVALID_FUNCTION;
    if (shared_bytes > leatc_function_shared(function))
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_work_begin_capturable(stream, &work));
    if (work.captured)
        return leatc_launch_captured(
            &work,
            &(struct leatc_kernel_task){
                .function = function, .grid = grid, .block = block, .shared_bytes = shared_bytes, .args = args});
    LEATC_TRY(find_kernel(function, work.record->device, &kernel, &parameters));
    if (parameters && !args)
        return LEATC_INVALID_VALUE;
    status = leat_launch(work.stream, kernel, grid, block, shared_bytes, args, parameters);
    if (status == LEAT_ERROR_INVALID)
        return LEATC_INVALID_CONFIGURATION;
    return leatc_work_end(&work, status);
}

/* Returns the cooperative form of a kernel, or NULL if it has none. */
static const void *together_of(const void *function)
{
    const leat_cpu_kernel *known = leatc_kernel_together(function);
    leat_cpu_kernel code;

    if (known)
        return known;
    return is_embedded_kernel(function, &code) && code.flags & LEAT_CPU_KERNEL_TOGETHER ? function : NULL;
}

int leatc_launch_together(const void *function, leat_dim3 grid, leat_dim3 block, void **args, size_t shared_bytes,
                          struct leatc_stream *stream)
{
    const void *code = together_of(function);
    uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z, threads = (uint64_t)block.x * block.y * block.z;
    int ordinal, units = 0, most = 0;

    LEATC_TRY(leatc_function_check(function));
    if (!code)
        return LEATC_NOT_SUPPORTED;
    if (shared_bytes > leatc_function_shared(function))
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_stream_ordinal(stream, &ordinal));
    if (threads && threads <= INT_MAX) {
        LEATC_TRY(leatc_occupancy(ordinal, (int)threads, shared_bytes, &most));
        LEATC_TRY(leatc_device_attribute(ordinal, LEATC_ATTRIBUTE_UNITS, &units));
        if (blocks > (uint64_t)most * (uint64_t)units)
            return LEATC_TOO_LARGE;
    }
    return leatc_launch(code, grid, block, args, shared_bytes, stream);
}
