/*
 * module.c - implements modules and kernels.
 *
 * A module is an image that leat can load on the device: PTX or a cubin on a GPU, a shared object on the CPU
 * device. The CPU device cannot run PTX, but many programs have no other image. So on the CPU device a module of
 * PTX is only a list of kernel names. The library looks up each kernel by name, in this order: in the shared
 * object beside the file (kernels.so for kernels.ptx), in the shared objects that LEAT_CPU_KERNELS lists, among
 * leat's built-in kernels, and among the functions that `leat cu` has compiled into the program or into one of
 * these shared objects.
 */
#include "cuda/names.h"
#include "cuda/slots.h"

#include <leat/compat/kernel_support.h>

#include <elf.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODULES_MAX 4096
#define FUNCTIONS_MAX 65536
#define STAND_INS_MAX 16

struct CUmod_st {
    struct leatcu_slot slot;
    int ordinal;
    char *text; /* PTX on the CPU device, from which kernel names are read; NULL for other images */
    leat_module *modules[STAND_INS_MAX];
    unsigned module_count;
    struct CUfunc_st *functions;
};

struct CUfunc_st {
    struct leatcu_slot slot;
    leat_kernel *kernel;
    leat_module *own;      /* for a function that `leat cu` compiled: the module that was made for it; NULL: a
                            * module of the image has the kernel */
    leat_kernel *together; /* the cooperative form of the kernel, or NULL */
    unsigned parameter_count;
    struct CUmod_st *module;
    struct CUfunc_st *next; /* next function of the module */
    char *name;
};

static struct CUmod_st module_slots[MODULES_MAX];
static struct CUfunc_st function_slots[FUNCTIONS_MAX];
static struct leatcu_slots modules = LEATCU_SLOTS(module_slots);
static struct leatcu_slots functions = LEATCU_SLOTS(function_slots);

/* Guards the lists of the modules' functions. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_module(CUmodule module)
{
    return leatcu_slot_is_alive(&modules, module);
}

static bool is_function(CUfunction function)
{
    return leatcu_slot_is_alive(&functions, function);
}

/* ---- images ---- */

/* Returns the length of an image, for which CUDA's call has no parameter. The header of an ELF file or a fatbin
 * has the length; any other image is a text. */
size_t leatcu_image_bytes(const void *image)
{
    const Elf64_Ehdr *elf = image;
    const uint32_t *fat = image;
    uint64_t bytes;

    if (!memcmp(image, ELFMAG, SELFMAG))
        return elf->e_shoff + (size_t)elf->e_shentsize * elf->e_shnum;
    if (*fat == 0xba55ed50) { /* the header of a fatbin has its own size and that of the content */
        memcpy(&bytes, (const char *)image + 8, sizeof bytes);
        return ((const uint16_t *)image)[3] + bytes;
    }
    return strlen(image);
}

static bool is_ptx(const char *image)
{
    return memcmp(image, ELFMAG, SELFMAG) && strstr(image, ".version") && strstr(image, ".target");
}

/* Returns the next kernel's name in the text, and the length of the name. Returns NULL if there are no more
 * kernels. */
static const char *next_entry(const char *text, size_t *length)
{
    text = strstr(text, ".entry");
    if (!text)
        return NULL;
    text += 6;
    text += strspn(text, " \t\n");
    *length = strcspn(text, " \t\n(");
    return text;
}

/* Returns true if the text has a kernel of this name. */
static bool has_entry(const char *text, const char *name)
{
    size_t length;

    while ((text = next_entry(text, &length)))
        if (length == strlen(name) && !strncmp(text, name, length))
            return true;
    return false;
}

static void add_stand_in(struct CUmod_st *module, leat_device *device, const char *path)
{
    if (module->module_count < STAND_INS_MAX &&
        leat_module_load_file(device, path, &module->modules[module->module_count]) == LEAT_OK)
        module->module_count++;
}

/* Loads the shared objects that LEAT_CPU_KERNELS lists, separated by colons, into the module. */
static void add_listed(struct CUmod_st *module, leat_device *device)
{
    leat_option_info option = LEAT_OPTION_INFO_INIT;
    const char *list = NULL;

    for (unsigned i = 0; leat_option_list(i, &option) == LEAT_OK; i++)
        if (!strcmp(option.name, "LEAT_CPU_KERNELS"))
            list = option.value;
    while (list && *list) {
        size_t length = strcspn(list, ":");
        char path[4096];

        if (length && length < sizeof path) {
            snprintf(path, sizeof path, "%.*s", (int)length, list);
            add_stand_in(module, device, path);
        }
        list += length + (list[length] == ':');
    }
}

/* If path ends in .ptx and there is a file with .so instead, loads that file into the module. */
static void add_neighbour(struct CUmod_st *module, leat_device *device, const char *path)
{
    size_t length = strlen(path);
    char beside[4096];

    if (length < 4 || length >= sizeof beside || strcmp(path + length - 4, ".ptx"))
        return;
    snprintf(beside, sizeof beside, "%.*s.so", (int)(length - 4), path);
    if (!access(beside, R_OK))
        add_stand_in(module, device, beside);
}

/* Makes a module of PTX on the CPU device, and loads the shared objects that may have its kernels. path: the PTX
 * file, or NULL if the image came from memory. */
static CUresult stand_in(struct CUmod_st *made, leat_device *device, const char *text, const char *path)
{
    leat_status (*const own[])(leat_device *, leat_module **) = {leat_module_builtin, leat_module_layout};

    made->text = strdup(text);
    if (!made->text)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (path)
        add_neighbour(made, device, path);
    add_listed(made, device);
    for (unsigned i = 0; i < 2; i++)
        if (made->module_count < STAND_INS_MAX && own[i](device, &made->modules[made->module_count]) == LEAT_OK)
            made->module_count++;
    return CUDA_SUCCESS;
}

static CUresult load_image(struct CUmod_st *made, const void *image, const char *path)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    leat_device *device;
    leat_status status;

    CU_TRY(leatcu_result(leatc_device_open(made->ordinal, &device)));
    CU_TRY(leatcu_result(leatc_device_describe(made->ordinal, &info)));
    if (!strcmp(info.driver, "cpu") && is_ptx(image))
        return stand_in(made, device, image, path);
    if (!leatcu_image_bytes(image))
        return CUDA_ERROR_INVALID_IMAGE;
    status = leat_module_load(device, image, leatcu_image_bytes(image), &made->modules[0]);
    made->module_count = status == LEAT_OK;
    return leatcu_result(leatc_result_of(status));
}

/* ---- modules ---- */

static void end_module(struct CUmod_st *module)
{
    for (unsigned i = 0; i < module->module_count; i++)
        (void)leat_module_unload(module->modules[i]); /* this fails for leat's built-in modules, which stay
                                                       * loaded */
    free(module->text);
    module->text = NULL;
    module->module_count = 0;
}

CUresult leatcu_module_load_on(int ordinal, const void *image, const char *path, CUmodule *module)
{
    struct CUmod_st *made = leatcu_slot_take(&modules);
    CUresult result;

    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->ordinal = ordinal;
    result = load_image(made, image, path);
    if (result != CUDA_SUCCESS) {
        end_module(made);
        leatcu_slot_free(&modules, &made->slot);
        return result;
    }
    leatcu_slot_set_alive(&made->slot);
    *module = made;
    return CUDA_SUCCESS;
}

static CUresult load(CUmodule *module, const void *image, const char *path)
{
    CUcontext context;

    CU_TRY(leatcu_enter(&context));
    CU_TRY(leatcu_result(leatc_capture_refuse_unsafe()));
    CU_CHECK(module && image);
    return leatcu_module_load_on(context->ordinal, image, path, module);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    return load(module, image, NULL);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    return load(module, image, NULL);
}

static CUresult find_kernel(struct CUmod_st *module, const char *name, leat_kernel **kernel)
{
    leat_status status = LEAT_ERROR_NOT_FOUND;

    if (module->text && !has_entry(module->text, name))
        return CUDA_ERROR_NOT_FOUND;
    for (unsigned i = 0; i < module->module_count && status == LEAT_ERROR_NOT_FOUND; i++)
        status = leat_kernel_get(module->modules[i], name, kernel);
    /* The PTX lists the kernel, but no shared object has it. */
    if (status == LEAT_ERROR_NOT_FOUND && module->text)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    return leatcu_result(leatc_result_of(status));
}

/* Writes a message that lists the kernels of the module's PTX that the library has not found. If it has found all
 * of them, words becomes "". */
static void missing_kernels(struct CUmod_st *module, char *words, size_t bytes)
{
    const char *text = module->text;
    size_t length, used = 0, first = 0;

    words[0] = '\0';
    while (text && (text = next_entry(text, &length))) {
        char name[256];
        leat_kernel *kernel;

        snprintf(name, sizeof name, "%.*s", (int)length, text);
        if (find_kernel(module, name, &kernel) != CUDA_ERROR_NO_BINARY_FOR_GPU || leatc_kernel_named(name))
            continue;
        used += (size_t)snprintf(words + used, bytes - used, "%s%s", first++ ? ", " : "nowhere found: ", name);
        if (used >= bytes)
            return;
    }
    if (used)
        snprintf(words + used, bytes - used,
                 ". The CPU device cannot run PTX; list shared objects with these kernels in LEAT_CPU_KERNELS, separated by colons (leat cu -shared makes them from .cu files)");
}

/* Writes a text to one of the two logs, if the caller has passed a buffer for it. Sets the option that has the
 * buffer's size to the length of the text. */
static void write_log(unsigned count, const CUjit_option *options, void **values, CUjit_option buffer,
                      CUjit_option size, const char *words)
{
    char *log = NULL;
    size_t bytes = 0;

    for (unsigned i = 0; i < count; i++) {
        if (options[i] == buffer)
            log = values[i];
        if (options[i] == size)
            bytes = (unsigned)(uintptr_t)values[i];
    }
    if (log && bytes)
        bytes = (size_t)snprintf(log, bytes, "%s", words) < bytes ? strlen(words) : bytes;
    for (unsigned i = 0; i < count; i++)
        if (options[i] == size)
            values[i] = (void *)(uintptr_t)(log ? bytes : 0);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options,
                            void **values)
{
    char missing[2048] = "";
    CUresult result;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(!count || (options && values));
    for (unsigned i = 0; i < count; i++)
        CU_CHECK((unsigned)options[i] < CU_JIT_NUM_OPTIONS);
    result = load(module, image, NULL);
    if (count && result == CUDA_SUCCESS)
        missing_kernels(*module, missing, sizeof missing);
    write_log(count, options, values, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, missing);
    write_log(count, options, values, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
              result == CUDA_SUCCESS ? "" : leat_last_error());
    return result;
}

/* Reads a whole file and appends zeros to it. *size becomes its size without them. The caller frees the contents.
 */
CUresult leatcu_file_read(const char *path, char **contents, size_t *size)
{
    FILE *file = fopen(path, "rbe");
    CUresult result = CUDA_ERROR_FILE_NOT_FOUND;
    long bytes = 0;

    if (!file)
        return result;
    if (!fseek(file, 0, SEEK_END) && (bytes = ftell(file)) >= 0 && !fseek(file, 0, SEEK_SET)) {
        *contents = calloc(1, (size_t)bytes + sizeof(Elf64_Ehdr));
        result = !*contents                                                  ? CUDA_ERROR_OUT_OF_MEMORY
                 : fread(*contents, 1, (size_t)bytes, file) == (size_t)bytes ? CUDA_SUCCESS
                                                                             : CUDA_ERROR_FILE_NOT_FOUND;
        if (result != CUDA_SUCCESS)
            free(*contents);
        *size = (size_t)bytes;
    }
    fclose(file);
    return result;
}

CUresult cuModuleLoad(CUmodule *module, const char *path)
{
    char *contents;
    CUresult result;
    size_t bytes;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(module && path);
    CU_TRY(leatcu_file_read(path, &contents, &bytes));
    result = load(module, contents, path);
    free(contents);
    return result;
}

/* Frees functions that belong to no module any more and are not running. */
static void end_functions(struct CUfunc_st *function)
{
    for (struct CUfunc_st *next; function; function = next) {
        next = function->next;
        if (function->own)
            (void)leat_module_unload(function->own);
        free(function->name);
        leatcu_slot_free(&functions, &function->slot);
    }
}

/* Ends a module's handle and takes its functions, so that no launch can start. */
static CUresult take_functions(CUmodule module, struct CUfunc_st **taken)
{
    pthread_mutex_lock(&lock);
    if (!is_module(module)) {
        pthread_mutex_unlock(&lock);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    leatcu_slot_end(&module->slot);
    *taken = module->functions;
    for (struct CUfunc_st *function = *taken; function; function = function->next)
        /* No launch can start after this. The caller waits for launches that are running. */
        leatcu_slot_end(&function->slot);
    module->functions = NULL;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult leatcu_module_unload(CUmodule module)
{
    struct CUfunc_st *functions_there;

    CU_TRY(take_functions(module, &functions_there));
    if (leatc_device_is_open(module->ordinal))
        (void)leatc_devices_wait();
    end_functions(functions_there);
    end_module(module);
    leatcu_slot_free(&modules, &module->slot);
    return CUDA_SUCCESS;
}

void leatcu_module_forget(CUmodule module)
{
    struct CUfunc_st *functions_there;

    if (take_functions(module, &functions_there) != CUDA_SUCCESS)
        return;
    for (struct CUfunc_st *function = functions_there; function; function = function->next)
        function->own = NULL;
    end_functions(functions_there);
    module->module_count = 0;
    end_module(module);
    leatcu_slot_free(&modules, &module->slot);
}

CUresult cuModuleUnload(CUmodule module)
{
    CU_TRY(leatcu_enter(NULL));
    CU_TRY(leatcu_result(leatc_capture_refuse_unsafe()));
    return leatcu_module_unload(module);
}

/* leat loads a module as a whole when the program loads it. */
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    CU_TRY(leatcu_started());
    CU_CHECK(mode);
    *mode = CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
}

/* Checks the arguments and returns NOT_FOUND: on leat's devices, modules have kernels but no variables. */
CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(name && (address || bytes));
    return is_module(module) ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- kernels ---- */

/* Finds a kernel of the module's PTX among the functions that `leat cu` has compiled. */
static CUresult find_known(struct CUmod_st *module, const char *name, struct CUfunc_st *found)
{
    const leat_registered_kernel *known = module->text ? leatc_kernel_named(name) : NULL;
    leat_embedded_kernel kernels[2] = {{.name = "kernel"}, {.name = "together"}};
    leat_device *device;
    leat_status status;

    if (!known)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    kernels[0].code = known->code;
    kernels[1].code = known->together;
    CU_TRY(leatcu_result(leatc_device_open(module->ordinal, &device)));
    CU_TRY(leatcu_result(leatc_result_of(leat_module_load_embedded(device, kernels, 2, &found->own))));
    status = leat_kernel_get(found->own, "kernel", &found->kernel);
    if (status == LEAT_OK)
        status = leat_kernel_get(found->own, "together", &found->together);
    if (status != LEAT_OK)
        (void)leat_module_unload(found->own);
    return leatcu_result(leatc_result_of(status));
}

/* Looks up a kernel of a module and makes a function of it. The caller holds the lock. */
static CUresult make_function(struct CUmod_st *module, const char *name, CUfunction *function)
{
    struct CUfunc_st *made, found = {.own = NULL};
    CUresult result = find_kernel(module, name, &found.kernel);
    char *kept;
    int count = 0;

    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU)
        result = find_known(module, name, &found);
    CU_TRY(result);
    CU_TRY(leatcu_result(leatc_result_of(leat_kernel_parameter_count(found.kernel, &count))));
    kept = strdup(name);
    made = kept ? leatcu_slot_take(&functions) : NULL;
    if (!made) {
        free(kept);
        if (found.own)
            (void)leat_module_unload(found.own);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->kernel = found.kernel;
    made->own = found.own;
    made->together = found.together;
    made->parameter_count = count > 0 ? (unsigned)count : 0;
    made->module = module;
    made->name = kept;
    made->next = module->functions;
    module->functions = made;
    leatcu_slot_set_alive(&made->slot);
    *function = made;
    return CUDA_SUCCESS;
}

CUresult leatcu_module_function(CUmodule module, const char *name, CUfunction *function)
{
    struct CUfunc_st *known;
    CUresult result = CUDA_SUCCESS;

    pthread_mutex_lock(&lock);
    if (!is_module(module)) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else {
        for (known = module->functions; known && strcmp(known->name, name);)
            known = known->next;
        if (known)
            *function = known;
        else
            result = make_function(module, name, function);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(function && name);
    return leatcu_module_function(module, name, function);
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(name);
    if (!is_function(function))
        return CUDA_ERROR_INVALID_HANDLE;
    *name = function->name;
    return CUDA_SUCCESS;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(state);
    if (!is_function(function))
        return CUDA_ERROR_INVALID_HANDLE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(module);
    if (!is_function(function))
        return CUDA_ERROR_INVALID_HANDLE;
    *module = function->module;
    return CUDA_SUCCESS;
}

/* Checks the handle only: leat loads a kernel when the program looks it up. */
CUresult cuFuncLoad(CUfunction function)
{
    CU_TRY(leatcu_enter(NULL));
    return is_function(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult leatcu_function_attribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    int major, minor;

    CU_CHECK(value && (unsigned)attribute < CU_FUNC_ATTRIBUTE_MAX);
    if (!is_function(function))
        return CUDA_ERROR_INVALID_HANDLE;
    CU_TRY(leatcu_result(leatc_device_describe(function->module->ordinal, &info)));
    CU_TRY(leatcu_result(
        leatc_device_attribute(function->module->ordinal, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major)));
    CU_TRY(leatcu_result(
        leatc_device_attribute(function->module->ordinal, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor)));
    switch ((unsigned)attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = (int)info.max_block_threads;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = (int)(info.max_shared_bytes < 49152 ? info.max_shared_bytes : 49152);
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 16; /* 16, the number of registers of x86-64: programs divide by this value, so it cannot be 0 */
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = major * 10 + minor;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = -1;
        break;
    default:
        *value = 0;
    }
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    CU_TRY(leatcu_enter(NULL));
    return leatcu_function_attribute(value, attribute, function);
}

CUresult leatcu_function_set(CUfunction function, CUfunction_attribute attribute, int value)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    if (!is_function(function))
        return CUDA_ERROR_INVALID_HANDLE;
    CU_TRY(leatcu_result(leatc_device_describe(function->module->ordinal, &info)));
    switch ((unsigned)attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        CU_CHECK(value >= 0 && (unsigned)value <= info.max_shared_bytes);
        return CUDA_SUCCESS; /* nothing to set, because leat raises the limit at each launch */
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        CU_CHECK(value >= -1 && value <= 100);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    CU_TRY(leatcu_enter(NULL));
    return leatcu_function_set(function, attribute, value);
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache setting)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK((unsigned)setting <= CU_FUNC_CACHE_PREFER_EQUAL);
    return is_function(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* Checks that all blocks of a cooperative launch can run concurrently. NOT_SUPPORTED: the function has no
 * cooperative form. */
static CUresult check_together(CUfunction function, leat_dim3 grid, leat_dim3 block, size_t shared_bytes)
{
    uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z, threads = (uint64_t)block.x * block.y * block.z;
    int ordinal = function->module->ordinal, most, units;

    if (!function->together)
        return CUDA_ERROR_NOT_SUPPORTED;
    CU_CHECK(threads <= INT_MAX);
    CU_TRY(leatcu_result(leatc_occupancy(ordinal, (int)threads, shared_bytes, &most)));
    CU_TRY(leatcu_result(leatc_device_attribute(ordinal, LEATC_ATTRIBUTE_UNITS, &units)));
    return blocks <= (uint64_t)most * (uint64_t)units ? CUDA_SUCCESS : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

/* Makes a graph task that launches kernel, which is one of the forms of the function. */
static CUresult make_task(CUfunction function, leat_kernel *kernel, leat_dim3 grid, leat_dim3 block,
                          size_t shared_bytes, void **parameters, struct leatc_task **task)
{
    return leatcu_result(leatc_kernel_make(&(struct leatc_kernel_task){.function = function,
                                                                       .kernel = kernel,
                                                                       .grid = grid,
                                                                       .block = block,
                                                                       .shared_bytes = shared_bytes,
                                                                       .args = parameters},
                                           task));
}

/* Makes a graph task that launches a function. The function's module must belong to the device of the current
 * context. */
CUresult leatcu_kernel_make(CUfunction function, leat_dim3 grid, leat_dim3 block, size_t shared_bytes,
                            void **parameters, struct leatc_task **task)
{
    CUcontext context;

    CU_TRY(leatcu_enter(&context));
    CU_TRY(leatcu_kernel_resolve(context->ordinal, &function));
    if (!is_function(function))
        return CUDA_ERROR_INVALID_HANDLE;
    if (function->module->ordinal != context->ordinal)
        return CUDA_ERROR_INVALID_CONTEXT;
    return make_task(function, function->kernel, grid, block, shared_bytes, parameters, task);
}

static CUresult launch(CUfunction function, bool together, leat_dim3 grid, leat_dim3 block, size_t shared_bytes,
                       struct leatc_stream *stream, void **parameters, void **extra)
{
    struct leatc_task *task;
    struct leatc_work work;
    leat_kernel *kernel;
    CUcontext context;
    leat_status status;

    CU_TRY(leatcu_enter(&context));
    CU_TRY(leatcu_kernel_resolve(context->ordinal, &function));
    if (!is_function(function))
        return CUDA_ERROR_INVALID_HANDLE;
    CU_CHECK(grid.x && grid.y && grid.z && block.x && block.y && block.z);
    CU_CHECK(!parameters || !extra);
    CU_CHECK(parameters || extra || !function->parameter_count);
    /* leat needs the address of each argument, but does not report the offsets of arguments in a packed buffer. */
    if (extra && function->parameter_count)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (function->module->ordinal != context->ordinal)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (together)
        CU_TRY(check_together(function, grid, block, shared_bytes));
    kernel = together ? function->together : function->kernel;
    CU_TRY(leatcu_result(leatc_work_begin_capturable(stream, &work)));
    if (work.ordinal != context->ordinal)
        return CUDA_ERROR_INVALID_HANDLE;
    if (work.captured) {
        CU_TRY(make_task(function, kernel, grid, block, shared_bytes, parameters, &task));
        return leatcu_result(leatc_capture_add(&work, task));
    }
    status = leat_launch(work.stream, kernel, grid, block, shared_bytes, parameters, function->parameter_count);
    if (status == LEAT_ERROR_UNSUPPORTED)
        return CUDA_ERROR_INVALID_VALUE; /* the kernel needs more shared memory than the device has */
    return leatcu_result(leatc_work_end(&work, status));
}

#define LAUNCH_PARAMETERS                                                                                         \
    CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,   \
        unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters

BOTH(cuLaunchKernel, cuLaunchKernel_ptsz, (LAUNCH_PARAMETERS, void **extra),
     launch(function, false, leat_dim(grid_x, grid_y, grid_z), leat_dim(block_x, block_y, block_z), shared_bytes,
            on, parameters, extra))
BOTH(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz, (LAUNCH_PARAMETERS),
     launch(function, true, leat_dim(grid_x, grid_y, grid_z), leat_dim(block_x, block_y, block_z), shared_bytes,
            on, parameters, NULL))

/* Checks the attributes of a launch. Ignores those that are hints for speed, and refuses those that leat cannot
 * provide. */
static CUresult check_attributes(const CUlaunchConfig *config, bool *together)
{
    CU_CHECK(!config->numAttrs || config->attrs);
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttributeValue *value = &config->attrs[i].value;

        switch ((unsigned)config->attrs[i].id) {
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
            *together = value->cooperative;
            break;
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            if (value->clusterDim.x * value->clusterDim.y * value->clusterDim.z != 1)
                return CUDA_ERROR_NOT_SUPPORTED;
            break;
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
            return CUDA_ERROR_NOT_SUPPORTED;
        default:
            break;
        }
    }
    return CUDA_SUCCESS;
}

static CUresult launch_config(const CUlaunchConfig *config, CUfunction function, struct leatc_stream *stream,
                              void **parameters, void **extra)
{
    bool together = false;

    CU_TRY(leatcu_enter(NULL));
    CU_TRY(check_attributes(config, &together));
    return launch(function, together, leat_dim(config->gridDimX, config->gridDimY, config->gridDimZ),
                  leat_dim(config->blockDimX, config->blockDimY, config->blockDimZ), config->sharedMemBytes,
                  stream, parameters, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(config);
    return launch_config(config, function, leatcu_stream(config->hStream), parameters, extra);
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(config);
    return launch_config(config, function, leatc_per_thread(config->hStream), parameters, extra);
}
