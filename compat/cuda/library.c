/*
 * library.c - implements libraries: images of device code that belong to no context. A library is loaded as a
 * module (module.c) on each device on which one of its kernels is used, and again after a reset of the device.
 */
#include "cuda/names.h"
#include "cuda/slots.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARIES_MAX 1024
#define KERNELS_MAX 65536

struct CUlib_st {
    struct leatcu_slot slot;
    char *image; /* a copy, followed by zeros */
    size_t bytes;
    char *path; /* of the file; NULL: the image came from memory */
    struct CUkern_st *kernels;
    CUmodule modules[LEATC_DEVICES_MAX];
    uint64_t generations[LEATC_DEVICES_MAX]; /* of the device, when its module was loaded */
};

struct CUkern_st {
    struct leatcu_slot slot;
    struct CUlib_st *library;
    struct CUkern_st *next; /* next kernel of the library */
    char *name;
};

static struct CUlib_st library_slots[LIBRARIES_MAX];
static struct CUkern_st kernel_slots[KERNELS_MAX];
static struct leatcu_slots libraries = LEATCU_SLOTS(library_slots);
static struct leatcu_slots kernels = LEATCU_SLOTS(kernel_slots);

/* Guards the kernels and the modules of libraries. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_library(CUlibrary library)
{
    return leatcu_slot_is_alive(&libraries, library);
}

static bool is_kernel(CUkernel kernel)
{
    return leatcu_slot_is_alive(&kernels, kernel);
}

/* Returns the number of the device of the current context, or 0 if no context is current. */
static int device_here(void)
{
    CUcontext context = NULL;

    return cuCtxGetCurrent(&context) == CUDA_SUCCESS && context ? context->ordinal : 0;
}

/* Returns the module of a library on a device. The caller holds the lock. */
static CUresult module_on(struct CUlib_st *library, int ordinal, CUmodule *module)
{
    if (library->modules[ordinal] && library->generations[ordinal] != leatc_device_generation(ordinal)) {
        leatcu_module_forget(library->modules[ordinal]);
        library->modules[ordinal] = NULL;
    }
    if (!library->modules[ordinal]) {
        CU_TRY(leatcu_module_load_on(ordinal, library->image, library->path, &library->modules[ordinal]));
        library->generations[ordinal] = leatc_device_generation(ordinal);
    }
    *module = library->modules[ordinal];
    return CUDA_SUCCESS;
}

/* Returns the function of a kernel on a device. */
static CUresult function_on(CUkernel kernel, int ordinal, CUfunction *function)
{
    CUmodule module = NULL;
    CUresult result = CUDA_ERROR_INVALID_HANDLE;

    pthread_mutex_lock(&lock);
    if (is_kernel(kernel)) {
        result = module_on(kernel->library, ordinal, &module);
        if (result == CUDA_SUCCESS)
            result = leatcu_module_function(module, kernel->name, function);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult leatcu_kernel_resolve(int ordinal, CUfunction *function)
{
    CUkernel kernel = (CUkernel)(void *)*function;

    return is_kernel(kernel) ? function_on(kernel, ordinal, function) : CUDA_SUCCESS;
}

/* ---- libraries ---- */

/* Makes a library of an image, which it takes over also if it fails. Loads it on the current device at once, so
 * that an invalid image is reported. */
static CUresult make_library(char *image, size_t bytes, const char *path, CUlibrary *library)
{
    struct CUlib_st *made = leatcu_slot_take(&libraries);
    char *kept = path ? strdup(path) : NULL;
    CUmodule module;
    CUresult result;

    if (!made) {
        free(kept);
        free(image);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&lock);
    made->image = image;
    made->bytes = bytes;
    made->path = kept;
    made->kernels = NULL;
    result = path && !kept ? CUDA_ERROR_OUT_OF_MEMORY : module_on(made, device_here(), &module);
    if (result == CUDA_SUCCESS) {
        leatcu_slot_set_alive(&made->slot);
        *library = made;
    }
    pthread_mutex_unlock(&lock);
    if (result != CUDA_SUCCESS) {
        free(image);
        free(kept);
        leatcu_slot_free(&libraries, &made->slot);
    }
    return result;
}

/* Checks what both calls that load a library have. Options are ignored: they concern a compiler, or say that the
 * image stays, of which the library has a copy. */
static CUresult check_load(const CUlibrary *library, const void *source, const CUjit_option *options,
                           unsigned count, const CUlibraryOption *library_options, unsigned library_count)
{
    CU_TRY(leatcu_started());
    CU_TRY(leatcu_result(leatc_capture_refuse_unsafe()));
    CU_CHECK(library && source && (!count || options) && (!library_count || library_options));
    for (unsigned i = 0; i < count; i++)
        CU_CHECK((unsigned)options[i] < CU_JIT_NUM_OPTIONS);
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options, void **values,
                           unsigned count, CUlibraryOption *library_options, void **library_values,
                           unsigned library_count)
{
    enum { ZEROS = 64 }; /* as many as reading a header of an ELF file needs */
    size_t bytes;
    char *image;

    (void)values, (void)library_values;
    CU_TRY(check_load(library, code, options, count, library_options, library_count));
    bytes = leatcu_image_bytes(code);
    if (!bytes)
        return CUDA_ERROR_INVALID_IMAGE;
    image = calloc(1, bytes + ZEROS);
    if (!image)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(image, code, bytes);
    return make_library(image, bytes, NULL, library);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *options, void **values,
                               unsigned count, CUlibraryOption *library_options, void **library_values,
                               unsigned library_count)
{
    size_t bytes = 0;
    char *image;

    (void)values, (void)library_values;
    CU_TRY(check_load(library, path, options, count, library_options, library_count));
    CU_TRY(leatcu_file_read(path, &image, &bytes));
    return make_library(image, bytes, path, library);
}

CUresult cuLibraryUnload(CUlibrary library)
{
    CUresult result = CUDA_SUCCESS;

    CU_TRY(leatcu_started());
    CU_TRY(leatcu_result(leatc_capture_refuse_unsafe()));
    pthread_mutex_lock(&lock);
    if (!is_library(library)) {
        pthread_mutex_unlock(&lock);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    leatcu_slot_end(&library->slot);
    for (struct CUkern_st *kernel = library->kernels, *next; kernel; kernel = next) {
        next = kernel->next;
        leatcu_slot_end(&kernel->slot);
        free(kernel->name);
        leatcu_slot_free(&kernels, &kernel->slot);
    }
    for (int i = 0; i < LEATC_DEVICES_MAX; i++) {
        if (library->modules[i] && library->generations[i] == leatc_device_generation(i))
            result = leatcu_module_unload(library->modules[i]);
        else if (library->modules[i])
            leatcu_module_forget(library->modules[i]);
        library->modules[i] = NULL;
    }
    free(library->path);
    free(library->image);
    leatcu_slot_free(&libraries, &library->slot);
    pthread_mutex_unlock(&lock);
    return result;
}

/* Returns the module of a library for the current context. */
CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    CUresult result = CUDA_ERROR_INVALID_HANDLE;
    CUcontext context;

    CU_TRY(leatcu_enter(&context));
    CU_CHECK(module);
    pthread_mutex_lock(&lock);
    if (is_library(library))
        result = module_on(library, context->ordinal, module);
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- kernels ---- */

struct search {
    const char *name;
    bool found;
};

static bool compare(void *argument, const char *name, size_t length)
{
    struct search *search = argument;

    search->found = length == strlen(search->name) && !strncmp(name, search->name, length);
    return !search->found;
}

/* Returns CUDA_SUCCESS if the library has a kernel of this name. The caller holds the lock. */
static CUresult check_name(struct CUlib_st *library, const char *name)
{
    struct search search = {.name = name};
    CUfunction function;
    CUmodule module;

    if (leatc_image_kernels(library->image, library->bytes, compare, &search) >= 0)
        return search.found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
    /* leat cannot list the kernels of such an image: ask the device. */
    CU_TRY(module_on(library, device_here(), &module));
    return leatcu_module_function(module, name, &function);
}

/* Returns the handle of a kernel, and makes it if there is none. The caller holds the lock. */
static CUresult get_kernel(struct CUlib_st *library, const char *name, CUkernel *kernel)
{
    struct CUkern_st *made = library->kernels;
    char *kept;

    while (made && strcmp(made->name, name))
        made = made->next;
    if (made) {
        *kernel = made;
        return CUDA_SUCCESS;
    }
    CU_TRY(check_name(library, name));
    kept = strdup(name);
    made = kept ? leatcu_slot_take(&kernels) : NULL;
    if (!made) {
        free(kept);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->library = library;
    made->name = kept;
    made->next = library->kernels;
    library->kernels = made;
    leatcu_slot_set_alive(&made->slot);
    *kernel = made;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    CUresult result = CUDA_ERROR_INVALID_HANDLE;

    CU_TRY(leatcu_started());
    CU_CHECK(kernel && name);
    pthread_mutex_lock(&lock);
    if (is_library(library))
        result = get_kernel(library, name, kernel);
    pthread_mutex_unlock(&lock);
    return result;
}

struct listing {
    struct CUlib_st *library;
    CUkernel *kernels; /* NULL: the listing only counts */
    unsigned count, most;
    CUresult result;
};

static bool take_listed(void *argument, const char *name, size_t length)
{
    struct listing *listing = argument;
    char *copy;

    if (listing->kernels && listing->count == listing->most)
        return false;
    if (listing->kernels) {
        copy = strndup(name, length);
        listing->result = copy ? get_kernel(listing->library, copy, &listing->kernels[listing->count])
                               : CUDA_ERROR_OUT_OF_MEMORY;
        free(copy);
    }
    listing->count++;
    return listing->result == CUDA_SUCCESS;
}

static CUresult list_kernels(CUlibrary library, struct listing *listing)
{
    CUresult result = CUDA_ERROR_INVALID_HANDLE;

    pthread_mutex_lock(&lock);
    if (is_library(library))
        result = leatc_image_kernels(library->image, library->bytes, take_listed, listing) < 0
                     ? CUDA_ERROR_NOT_SUPPORTED
                     : listing->result;
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuLibraryGetKernelCount(unsigned *count, CUlibrary library)
{
    struct listing listing = {.library = library};

    CU_TRY(leatcu_started());
    CU_CHECK(count);
    CU_TRY(list_kernels(library, &listing));
    *count = listing.count;
    return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel *found, unsigned most, CUlibrary library)
{
    struct listing listing = {.library = library, .kernels = found, .most = most};

    CU_TRY(leatcu_started());
    CU_CHECK(found);
    return list_kernels(library, &listing);
}

/* Checks the arguments and returns NOT_FOUND: leat's libraries have kernels, and no variables or functions that
 * the host can name. */
static CUresult find_in(CUlibrary library, const char *name, const void *result)
{
    CU_TRY(leatcu_started());
    CU_CHECK(name && result);
    return is_library(library) ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name)
{
    return find_in(library, name, address ? (void *)address : bytes);
}

CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name)
{
    return find_in(library, name, address ? (void *)address : bytes);
}

CUresult cuLibraryGetUnifiedFunction(void **function, CUlibrary library, const char *name)
{
    return find_in(library, name, function);
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    CUcontext context;

    CU_TRY(leatcu_enter(&context));
    CU_CHECK(function);
    return function_on(kernel, context->ordinal, function);
}

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
    CU_TRY(leatcu_started());
    CU_CHECK(library);
    if (!is_kernel(kernel))
        return CUDA_ERROR_INVALID_HANDLE;
    *library = kernel->library;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
    CU_TRY(leatcu_started());
    CU_CHECK(name);
    if (!is_kernel(kernel))
        return CUDA_ERROR_INVALID_HANDLE;
    *name = kernel->name;
    return CUDA_SUCCESS;
}

/* Returns the function of a kernel on the device that a call names. */
static CUresult function_of(CUkernel kernel, CUdevice device, CUfunction *function)
{
    CU_TRY(leatcu_check_device(device));
    return function_on(kernel, device, function);
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device)
{
    CUfunction function;

    CU_TRY(function_of(kernel, device, &function));
    return leatcu_function_attribute(value, attribute, function);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device)
{
    CUfunction function;

    CU_TRY(function_of(kernel, device, &function));
    return leatcu_function_set(function, attribute, value);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache setting, CUdevice device)
{
    CUfunction function;

    CU_TRY(function_of(kernel, device, &function));
    CU_CHECK((unsigned)setting <= CU_FUNC_CACHE_PREFER_EQUAL);
    return CUDA_SUCCESS;
}
