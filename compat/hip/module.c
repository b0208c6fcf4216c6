/*
 * module.c - modules of device code, and launches.
 *
 * An image is what leat's driver beneath takes. There is one more: the code objects of leat's own kernels. Their
 * code is for AMD's GPUs, but leat has the same kernels for every device, and takes those. So leat's own hip
 * driver finds here what it needs.
 */
#include "hip/layer.h"

#include <elf.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ihipModuleSymbol_t {
    struct ihipModuleSymbol_t *next;
    void *kernel; /* the engine's; NULL: one of leat's own */
    char *name;
};

struct ihipModule_t {
    struct ihipModule_t *next;
    struct leatc_library *library; /* NULL: leat's own kernels */
    hipFunction_t functions;
};

/* Guards the list, and all that hangs on it. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static hipModule_t modules;

/* ---- images ---- */

static size_t at_least(size_t bytes, uint64_t end)
{
    return end > bytes && end <= SIZE_MAX / 2 ? (size_t)end : bytes;
}

/* HIP gives images without their size; an ELF file says by itself how long it is. 0 for anything else. */
static size_t elf_bytes(const char *image)
{
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    size_t bytes;

    if (memcmp(image, ELFMAG, SELFMAG) != 0)
        return 0;
    memcpy(&header, image, sizeof header);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof segment)
        return 0;
    bytes = at_least(sizeof header, header.e_shoff + (uint64_t)header.e_shentsize * header.e_shnum);
    bytes = at_least(bytes, header.e_phoff + (uint64_t)header.e_phentsize * header.e_phnum);
    for (unsigned i = 0; i < header.e_phnum; i++) {
        memcpy(&segment, image + header.e_phoff + i * sizeof segment, sizeof segment);
        bytes = at_least(bytes, segment.p_offset + segment.p_filesz);
    }
    return bytes;
}

static bool is_for_amd(const char *image)
{
    Elf64_Ehdr header;

    memcpy(&header, image, sizeof header);
    return header.e_machine == EM_AMDGPU;
}

static bool has_own_kernels(const char *image, size_t bytes)
{
    /* One kernel of the basic ones; those of layouts by how their names begin, since they are many modules. */
    static const char *const names[] = {"leat_fill_u8.kd", "leat_layout_", "leat_transpose_"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (memmem(image, bytes, names[i], strlen(names[i])))
            return true;
    return false;
}

static int add_module(struct leatc_library *library, hipModule_t *module)
{
    hipModule_t made = calloc(1, sizeof *made);

    if (!made)
        return LEATC_OUT_OF_MEMORY;
    made->library = library;
    pthread_rwlock_wrlock(&lock);
    made->next = modules;
    modules = made;
    pthread_rwlock_unlock(&lock);
    *module = made;
    return LEATC_OK;
}

static int load(const void *image, size_t bytes, const char *path, hipModule_t *module)
{
    struct leatc_library *library = NULL;
    int result;

    LEATC_TRY(leatc_library_load(image, bytes, path, &library));
    result = add_module(library, module);
    if (result != LEATC_OK)
        (void)leatc_library_unload(library);
    return result;
}

static int load_data(hipModule_t *module, const char *image)
{
    size_t bytes;

    if (!module || !image)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_init());
    bytes = elf_bytes(image);
    if (!bytes)
        return LEATC_INVALID_IMAGE;
    if (!is_for_amd(image))
        return load(image, bytes, NULL, module);
    return has_own_kernels(image, bytes) ? add_module(NULL, module) : hipErrorNoBinaryForGpu;
}

hipError_t hipModuleLoadData(hipModule_t *module, const void *image)
{
    return note(load_data(module, image));
}

hipError_t hipModuleLoadDataEx(hipModule_t *module, const void *image, unsigned int count, hipJitOption *options,
                               void **values)
{
    (void)count, (void)options, (void)values; /* nothing is compiled here */
    return note(load_data(module, image));
}

hipError_t hipModuleLoad(hipModule_t *module, const char *path)
{
    if (!module || !path)
        return note(LEATC_INVALID_VALUE);
    if (access(path, R_OK) != 0)
        return note(HIP_FILE_NOT_FOUND);
    return note(load(NULL, 0, path, module));
}

/* ---- what is alive ---- */

/* The link to a module, or to the NULL at the list's end. Under the lock. */
static hipModule_t *find_module(hipModule_t module)
{
    hipModule_t *link = &modules;

    while (*link && *link != module)
        link = &(*link)->next;
    return link;
}

/* Under the lock. */
static bool is_function(hipFunction_t function)
{
    for (hipModule_t module = modules; module; module = module->next)
        for (hipFunction_t f = module->functions; f; f = f->next)
            if (f == function)
                return true;
    return false;
}

static void free_module(hipModule_t gone)
{
    while (gone->functions) {
        hipFunction_t function = gone->functions;

        gone->functions = function->next;
        free(function->name);
        free(function);
    }
    if (gone->library)
        (void)leatc_library_unload(gone->library);
    free(gone);
}

hipError_t hipModuleUnload(hipModule_t module)
{
    hipModule_t *link;
    hipModule_t gone;
    int result = leatc_capture_refuse_unsafe();

    if (result != LEATC_OK)
        return note(result);
    pthread_rwlock_wrlock(&lock);
    link = find_module(module);
    gone = *link;
    if (gone)
        *link = gone->next;
    pthread_rwlock_unlock(&lock);
    if (!gone)
        return note(LEATC_INVALID_HANDLE);
    free_module(gone);
    return hipSuccess;
}

/* ---- kernels ---- */

/* One of leat's own on this device. */
static int own_kernel(int ordinal, const char *name, leat_kernel **kernel)
{
    leat_device *device = NULL;
    leat_module *module;

    LEATC_TRY(leatc_device_open(ordinal, &device));
    LEATC_TRY(leatc_result_of(leat_module_builtin(device, &module)));
    if (leat_kernel_get(module, name, kernel) == LEAT_OK)
        return LEATC_OK;
    LEATC_TRY(leatc_result_of(leat_module_layout(device, &module)));
    return leatc_result_of(leat_kernel_get(module, name, kernel));
}

static int add_function(hipModule_t module, const char *name, hipFunction_t *function)
{
    struct ihipModuleSymbol_t made = {.name = NULL};
    leat_kernel *own;
    int ordinal = 0;

    if (module->library) {
        LEATC_TRY(leatc_library_kernel(module->library, name, &made.kernel));
    } else {
        LEATC_TRY(leatc_device_get(&ordinal));
        LEATC_TRY(own_kernel(ordinal, name, &own));
    }
    made.name = strdup(name);
    *function = malloc(sizeof made);
    if (!made.name || !*function) {
        free(made.name);
        free(*function);
        return LEATC_OUT_OF_MEMORY;
    }
    made.next = module->functions;
    **function = made;
    module->functions = *function;
    return LEATC_OK;
}

static int get_function(hipFunction_t *function, hipModule_t module, const char *name)
{
    hipFunction_t found = (*find_module(module))->functions;

    while (found && strcmp(found->name, name) != 0)
        found = found->next;
    if (!found)
        LEATC_TRY(add_function(module, name, &found));
    *function = found;
    return LEATC_OK;
}

hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name)
{
    int result;

    if (!function || !name || !*name)
        return note(LEATC_INVALID_VALUE);
    pthread_rwlock_wrlock(&lock);
    result = *find_module(module) ? get_function(function, module, name) : LEATC_INVALID_HANDLE;
    pthread_rwlock_unlock(&lock);
    return note(result);
}

static int get_attribute(int *value, hipFunction_attribute attribute)
{
    leat_device_info info;
    int ordinal = 0;

    LEATC_TRY(leatc_device_get(&ordinal));
    LEATC_TRY(leatc_device_describe(ordinal, &info));
    *value = 0;
    if (attribute == HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
        *value = (int)info.max_block_threads;
    if (attribute == HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        *value = (int)info.max_shared_bytes;
    return LEATC_OK;
}

hipError_t hipFuncGetAttribute(int *value, hipFunction_attribute attribute, hipFunction_t function)
{
    bool known;

    if (!value || (unsigned)attribute >= HIP_FUNC_ATTRIBUTE_MAX)
        return note(LEATC_INVALID_VALUE);
    pthread_rwlock_rdlock(&lock);
    known = is_function(function);
    pthread_rwlock_unlock(&lock);
    return note(known ? get_attribute(value, attribute) : LEATC_INVALID_HANDLE);
}

/* No module here has variables. */
hipError_t hipModuleGetGlobal(hipDeviceptr_t *ptr, size_t *bytes, hipModule_t module, const char *name)
{
    bool known;

    if ((!ptr && !bytes) || !name || !*name)
        return note(LEATC_INVALID_VALUE);
    pthread_rwlock_rdlock(&lock);
    known = *find_module(module) != NULL;
    pthread_rwlock_unlock(&lock);
    return note(known ? LEATC_NOT_FOUND : LEATC_INVALID_HANDLE);
}

/* What follows are wishes, which change nothing. */
hipError_t hipFuncSetAttribute(const void *function, hipFuncAttribute attribute, int value)
{
    if (!function)
        return note(LEATC_INVALID_FUNCTION);
    if (value < 0 || (unsigned)attribute >= hipFuncAttributeMax ||
        attribute < hipFuncAttributeMaxDynamicSharedMemorySize)
        return note(LEATC_INVALID_VALUE);
    return note(leatc_init());
}

hipError_t hipFuncSetCacheConfig(const void *function, hipFuncCache_t config)
{
    if (!function)
        return note(LEATC_INVALID_FUNCTION);
    return note((unsigned)config > hipFuncCachePreferEqual ? LEATC_INVALID_VALUE : leatc_init());
}

hipError_t hipFuncSetSharedMemConfig(const void *function, hipSharedMemConfig config)
{
    if (!function)
        return note(LEATC_INVALID_FUNCTION);
    return note((unsigned)config > hipSharedMemBankSizeEightByte ? LEATC_INVALID_VALUE : leatc_init());
}

/* ---- launches ---- */

static int launch_own(hipFunction_t function, leat_dim3 grid, leat_dim3 block, void **arguments,
                      size_t shared_bytes, struct leatc_stream *stream)
{
    struct leatc_work work;
    leat_kernel *kernel;
    leat_status status;
    int count = 0;

    LEATC_TRY(leatc_work_begin(stream, &work));
    LEATC_TRY(own_kernel(work.ordinal, function->name, &kernel));
    LEATC_TRY(leatc_result_of(leat_kernel_parameter_count(kernel, &count)));
    if (count > 0 && !arguments)
        return LEATC_INVALID_VALUE;
    status = leat_launch(work.stream, kernel, grid, block, shared_bytes, arguments, (unsigned)count);
    return status == LEAT_ERROR_INVALID ? LEATC_INVALID_CONFIGURATION : leatc_work_end(&work, status);
}

static int launch(hipFunction_t function, leat_dim3 grid, leat_dim3 block, size_t shared_bytes,
                  struct leatc_stream *stream, void **arguments)
{
    int result = LEATC_INVALID_HANDLE;

    LEATC_TRY(check_stream(stream));
    pthread_rwlock_rdlock(&lock);
    if (is_function(function))
        result = function->kernel ? leatc_launch(function->kernel, grid, block, arguments, shared_bytes, stream)
                                  : launch_own(function, grid, block, arguments, shared_bytes, stream);
    pthread_rwlock_unlock(&lock);
    return result;
}

/* extra, arguments packed by the caller, needs a kernel that says where each of them begins; none here does. */
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned int gridX, unsigned int gridY,
                                 unsigned int gridZ, unsigned int blockX, unsigned int blockY, unsigned int blockZ,
                                 unsigned int sharedBytes, hipStream_t stream, void **arguments, void **extra)
{
    if (arguments && extra)
        return note(LEATC_INVALID_VALUE);
    if (extra)
        return note(LEATC_NOT_SUPPORTED);
    return note(launch(function, leat_dim(gridX, gridY, gridZ), leat_dim(blockX, blockY, blockZ), sharedBytes,
                       stream_of(stream), arguments));
}

static int launch_pointer(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                          struct leatc_stream *stream)
{
    LEATC_TRY(check_stream(stream));
    return leatc_launch(function, leat_dim(grid.x, grid.y, grid.z), leat_dim(block.x, block.y, block.z), arguments,
                        shared_bytes, stream);
}

hipError_t hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t sharedBytes,
                           hipStream_t stream)
{
    return note(launch_pointer(function, grid, block, arguments, sharedBytes, stream_of(stream)));
}

hipError_t hipLaunchKernel_spt(const void *function, dim3 grid, dim3 block, void **arguments, size_t sharedBytes,
                               hipStream_t stream)
{
    return note(launch_pointer(function, grid, block, arguments, sharedBytes, leatc_per_thread(stream)));
}

static int launch_between(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                          struct leatc_stream *stream, hipEvent_t start, hipEvent_t stop)
{
    if (start)
        LEATC_TRY(leatc_event_record(event_of(start), stream));
    LEATC_TRY(launch_pointer(function, grid, block, arguments, shared_bytes, stream));
    return stop ? leatc_event_record(event_of(stop), stream) : LEATC_OK;
}

hipError_t hipExtLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t sharedBytes,
                              hipStream_t stream, hipEvent_t start, hipEvent_t stop, int flags)
{
    (void)flags; /* whether kernels may run out of order; here they do not */
    return note(launch_between(function, grid, block, arguments, sharedBytes, stream_of(stream), start, stop));
}

/* ---- leat knows itself ---- */

/* What leat's hip driver asks of a library that it loads: &leat_version of the leat that is underneath. */
const void *leat_known_names(void);

const void *leat_known_names(void)
{
    return (const void *)(uintptr_t)&leat_version;
}
