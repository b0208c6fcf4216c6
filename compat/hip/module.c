/*
 * module.c - loads modules of device code and launches their functions.
 *
 * An image may be anything that leat's driver can load. Code objects of leat's built-in kernels are accepted too:
 * their code is for AMD's GPUs, but leat has the same kernels for every device and uses those. leat's own hip
 * driver needs this when it runs on this library.
 */
#include "hip/module.h"

#include <elf.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ihipModuleSymbol_t {
    struct ihipModuleSymbol_t *next;
    void *kernel; /* a kernel of the engine; NULL: the function is one of leat's built-in kernels */
    char *name;
};

struct ihipModule_t {
    struct ihipModule_t *next;
    struct leatc_library *library; /* NULL: the module stands for leat's built-in kernels */
    hipFunction_t functions;
};

/* Guards the list of modules and the lists of their functions. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static hipModule_t modules;

/* The functions of the program for which hipGetFuncBySymbol() was called. This module is not in the list and is
 * never unloaded. */
static struct ihipModule_t program;

/* ---- images ---- */

static size_t at_least(size_t bytes, uint64_t end)
{
    return end > bytes && end <= SIZE_MAX / 2 ? (size_t)end : bytes;
}

/* Returns the length of an image, for which HIP's calls have no parameter: the headers of an ELF file have it.
 * Returns 0 for other images. */
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

static bool has_embedded_kernels(const char *image, size_t bytes)
{
    /* Names in an image that identify leat's code objects: a kernel of the basic module, and prefixes of kernels
     * in the modules of layouts and conversions. */
    static const char *const names[] = {"leat_fill_u8.kd", "leat_layout_", "leat_transpose_", "leat_convert_"};

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
    return has_embedded_kernels(image, bytes) ? add_module(NULL, module) : hipErrorNoBinaryForGpu;
}

FORWARD(hipError_t hipModuleLoadData(hipModule_t *module, const void *image), load_data(module, image))

/* A fat binary is refused: it is not an ELF file, and has code for AMD's GPUs, which leat's devices cannot run. */
FORWARD(hipError_t hipModuleLoadFatBinary(hipModule_t *module, const void *fatBinary),
        load_data(module, fatBinary))

hipError_t hipModuleLoadDataEx(hipModule_t *module, const void *image, unsigned int count, hipJitOption *options,
                               void **values)
{
    (void)count, (void)options, (void)values; /* these are options of a compiler, but leat compiles nothing here */
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

/* ---- checks of handles ---- */

/* Returns the pointer in the list that points to a module, or the NULL pointer at the end of the list. The caller
 * holds the lock. */
static hipModule_t *find_module(hipModule_t module)
{
    hipModule_t *link = &modules;

    while (*link && *link != module)
        link = &(*link)->next;
    return link;
}

/* Returns true if the function belongs to the module. The caller holds the lock. */
static bool has_function(hipModule_t module, hipFunction_t function)
{
    hipFunction_t f = module->functions;

    while (f && f != function)
        f = f->next;
    return f != NULL;
}

/* Returns the module of a function, or NULL. The caller holds the lock. */
static hipModule_t module_of(hipFunction_t function)
{
    hipModule_t module = modules;

    if (!function || has_function(&program, function))
        return function ? &program : NULL;
    while (module && !has_function(module, function))
        module = module->next;
    return module;
}

static bool is_function(hipFunction_t function)
{
    return module_of(function) != NULL;
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

/* Returns one of leat's built-in kernels on a device. */
static int embedded_kernel(int ordinal, const char *name, leat_kernel **kernel)
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
        LEATC_TRY(embedded_kernel(ordinal, name, &own));
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
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
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

int leatc_hip_check_function(hipFunction_t function)
{
    bool known;

    pthread_rwlock_rdlock(&lock);
    known = is_function(function);
    pthread_rwlock_unlock(&lock);
    return known ? LEATC_OK : LEATC_INVALID_HANDLE;
}

int leatc_hip_check_pointer(const void *function)
{
    return leatc_function_check(function) == LEATC_OK ||
                   leatc_hip_check_function((hipFunction_t)(uintptr_t)function) == LEATC_OK
               ? LEATC_OK
               : LEATC_INVALID_FUNCTION;
}

hipError_t hipFuncGetAttribute(int *value, hipFunction_attribute attribute, hipFunction_t function)
{
    int result;

    if (!value || (unsigned)attribute >= HIP_FUNC_ATTRIBUTE_MAX)
        return note(LEATC_INVALID_VALUE);
    result = leatc_hip_check_function(function);
    return note(result == LEATC_OK ? get_attribute(value, attribute) : result);
}

/* Returns properties of a kernel. As in get_attribute(), properties that leat does not know are 0. */
hipError_t hipFuncGetAttributes(struct hipFuncAttributes *attributes, const void *function)
{
    struct hipFuncAttributes made = {0};
    int result = attributes ? leatc_hip_check_pointer(function) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        result = get_attribute(&made.maxThreadsPerBlock, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    if (result == LEATC_OK)
        result = get_attribute(&made.maxDynamicSharedSizeBytes, HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    if (result == LEATC_OK)
        *attributes = made;
    return note(result);
}

/* Returns the function of a function pointer, and makes it at the first call. The caller holds the lock. */
static int function_of_pointer(hipFunction_t *function, void *pointer)
{
    hipFunction_t found = program.functions;

    while (found && found->kernel != pointer)
        found = found->next;
    if (!found) {
        found = calloc(1, sizeof *found);
        if (!found)
            return LEATC_OUT_OF_MEMORY;
        found->kernel = pointer;
        found->next = program.functions;
        program.functions = found;
    }
    *function = found;
    return LEATC_OK;
}

hipError_t hipGetFuncBySymbol(hipFunction_t *function, const void *symbol)
{
    int result = function ? leatc_function_check(symbol) : LEATC_INVALID_VALUE;

    if (result != LEATC_OK)
        return note(result);
    pthread_rwlock_wrlock(&lock);
    result = function_of_pointer(function, (void *)(uintptr_t)symbol);
    pthread_rwlock_unlock(&lock);
    return note(result);
}

/* ---- libraries: newer names for modules, with the same handles ---- */

/* Checks options. Compiler options are refused, as by AMD's runtime, because leat compiles nothing here. */
static int check_options(unsigned jit_count, const hipLibraryOption *options, unsigned option_count)
{
    if (jit_count || (option_count && !options))
        return LEATC_INVALID_VALUE;
    for (unsigned i = 0; i < option_count; i++)
        if ((unsigned)options[i] > hipLibraryBinaryIsPreserved)
            return LEATC_INVALID_VALUE;
    return LEATC_OK;
}

hipError_t hipLibraryLoadData(hipLibrary_t *library, const void *code, hipJitOption *jitOptions, void **jitValues,
                              unsigned int jitCount, hipLibraryOption *options, void **values, unsigned int count)
{
    int result = check_options(jitCount, options, count);

    (void)jitOptions, (void)jitValues, (void)values;
    return note(result == LEATC_OK ? load_data((hipModule_t *)(void *)library, code) : result);
}

hipError_t hipLibraryLoadFromFile(hipLibrary_t *library, const char *path, hipJitOption *jitOptions,
                                  void **jitValues, unsigned int jitCount, hipLibraryOption *options,
                                  void **values, unsigned int count)
{
    int result = check_options(jitCount, options, count);

    (void)jitOptions, (void)jitValues, (void)values;
    return result == LEATC_OK ? hipModuleLoad((hipModule_t *)(void *)library, path) : note(result);
}

hipError_t hipLibraryUnload(hipLibrary_t library)
{
    return hipModuleUnload((hipModule_t)(void *)library);
}

hipError_t hipLibraryGetKernel(hipKernel_t *kernel, hipLibrary_t library, const char *name)
{
    return hipModuleGetFunction((hipFunction_t *)(void *)kernel, (hipModule_t)(void *)library, name);
}

hipError_t hipKernelGetLibrary(hipLibrary_t *library, hipKernel_t kernel)
{
    hipModule_t module;

    if (!library)
        return note(LEATC_INVALID_VALUE);
    pthread_rwlock_rdlock(&lock);
    module = module_of((hipFunction_t)(void *)kernel);
    pthread_rwlock_unlock(&lock);
    if (!module || module == &program)
        return note(LEATC_INVALID_HANDLE);
    *library = (hipLibrary_t)(void *)module;
    return hipSuccess;
}

/* Returns the name of a kernel. The string is valid while the library is loaded. */
hipError_t hipKernelGetName(const char **name, hipKernel_t kernel)
{
    hipFunction_t function = (hipFunction_t)(void *)kernel;
    const char *found = NULL;

    if (!name)
        return note(LEATC_INVALID_VALUE);
    pthread_rwlock_rdlock(&lock);
    if (is_function(function))
        found = function->name;
    pthread_rwlock_unlock(&lock);
    if (!found)
        return note(LEATC_INVALID_HANDLE);
    *name = found;
    return hipSuccess;
}

/* Checks the arguments and returns hipErrorNotFound: on leat's devices, modules have no variables. */
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

/* Checks the arguments. The settings are hints and have no effect. */
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

    LEATC_TRY(leatc_work_begin_capturable(stream, &work));
    LEATC_TRY(embedded_kernel(work.ordinal, function->name, &kernel));
    if (work.captured)
        return leatc_launch_captured(&work, &(struct leatc_kernel_task){.function = function,
                                                                        .kernel = kernel,
                                                                        .grid = grid,
                                                                        .block = block,
                                                                        .shared_bytes = shared_bytes,
                                                                        .args = arguments});
    LEATC_TRY(leatc_result_of(leat_kernel_parameter_count(kernel, &count)));
    if (count > 0 && !arguments)
        return LEATC_INVALID_VALUE;
    status = leat_launch(work.stream, kernel, grid, block, shared_bytes, arguments, (unsigned)count);
    return status == LEAT_ERROR_INVALID ? LEATC_INVALID_CONFIGURATION : leatc_work_end(&work, status);
}

static leat_dim3 dim_of(dim3 size)
{
    return leat_dim(size.x, size.y, size.z);
}

/* Launches a function. The caller holds the lock, so that the function exists until its work is submitted. */
static int launch_locked(hipFunction_t function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                         struct leatc_stream *stream, bool together)
{
    if (!is_function(function))
        return LEATC_INVALID_HANDLE;
    if (together)
        return function->kernel ? leatc_launch_together(function->kernel, dim_of(grid), dim_of(block), arguments,
                                                        shared_bytes, stream)
                                : LEATC_NOT_SUPPORTED;
    return function->kernel
               ? leatc_launch(function->kernel, dim_of(grid), dim_of(block), arguments, shared_bytes, stream)
               : launch_own(function, dim_of(grid), dim_of(block), arguments, shared_bytes, stream);
}

int leatc_hip_launch_function(hipFunction_t function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                              struct leatc_stream *stream, bool together)
{
    int result;

    LEATC_TRY(check_stream(stream));
    pthread_rwlock_rdlock(&lock);
    result = launch_locked(function, grid, block, arguments, shared_bytes, stream, together);
    pthread_rwlock_unlock(&lock);
    return result;
}

/* Launches a function pointer. If the pointer is not a registered function, it may be the handle of a library's
 * kernel. */
int leatc_hip_launch_pointer(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                             struct leatc_stream *stream, bool together)
{
    hipFunction_t of_library = (hipFunction_t)(uintptr_t)function;
    int result;

    LEATC_TRY(check_stream(stream));
    result = together
                 ? leatc_launch_together(function, dim_of(grid), dim_of(block), arguments, shared_bytes, stream)
                 : leatc_launch(function, dim_of(grid), dim_of(block), arguments, shared_bytes, stream);
    if (result != LEATC_INVALID_FUNCTION || leatc_hip_check_function(of_library) != LEATC_OK)
        return result;
    return leatc_hip_launch_function(of_library, grid, block, arguments, shared_bytes, stream, together);
}

/* The address of this variable is the tag under which a task stores the function that it was made from. */
static const char function_tag;

/* Makes a task that launches a function of a module on the current device. The caller holds the lock. */
static int make_of_module(struct leatc_kernel_task *launch, hipFunction_t function, struct leatc_task **task)
{
    int ordinal = 0, result;

    launch->function = function->kernel ? function->kernel : function;
    if (!function->kernel) {
        LEATC_TRY(leatc_device_get(&ordinal));
        LEATC_TRY(embedded_kernel(ordinal, function->name, &launch->kernel));
    }
    LEATC_TRY(leatc_kernel_make(launch, task));
    result = leatc_task_keep(*task, &function_tag, &function, sizeof(hipFunction_t));
    if (result != LEATC_OK)
        leatc_task_drop(*task);
    return result;
}

void *leatc_hip_kernel_function(const struct leatc_task *task)
{
    const struct leatc_kernel_task *launch = leatc_task_payload(task);
    const hipFunction_t *kept = leatc_task_kept(task, &function_tag);

    return kept ? (void *)*kept : (void *)(uintptr_t)launch->function;
}

int leatc_hip_kernel_make(const hipKernelNodeParams *p, struct leatc_task **task)
{
    struct leatc_kernel_task launch;
    hipFunction_t function;
    int result;

    if (!p || !p->func || (p->kernelParams && p->extra))
        return LEATC_INVALID_VALUE;
    if (p->extra)
        return LEATC_NOT_SUPPORTED;
    launch = (struct leatc_kernel_task){.function = p->func,
                                        .grid = leat_dim(p->gridDim.x, p->gridDim.y, p->gridDim.z),
                                        .block = leat_dim(p->blockDim.x, p->blockDim.y, p->blockDim.z),
                                        .shared_bytes = p->sharedMemBytes,
                                        .args = p->kernelParams};
    function = p->func;
    pthread_rwlock_rdlock(&lock);
    result = is_function(function) ? make_of_module(&launch, function, task) : leatc_kernel_make(&launch, task);
    pthread_rwlock_unlock(&lock);
    return result;
}

/* ---- detection by leat's hip driver ---- */

/* leat's hip driver calls this after it has loaded this library in place of AMD's. Returns &leat_version of the
 * leat that this library uses. */
const void *leat_compat_names(void);

const void *leat_compat_names(void)
{
    return (const void *)(uintptr_t)&leat_version;
}
