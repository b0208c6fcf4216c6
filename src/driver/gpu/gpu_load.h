/*
 * gpu_load.h - loads the vendor's library and its functions, or reports why it cannot be used. See gpu_driver.h.
 *
 * The vendor's file defines GPU_PATH_OPTION, the option with the path of another library, and has
 *
 *   library_names[]          the usual names; leat uses the first name that exists
 *   is_reported_by_start()   returns true if init will report this failure of the version call again
 *   check_number()           writes the version to base.version, and fails if it is too old
 *   fail_init()              sets the message for a failure of init
 */
#include "driver/gpu/gpu_driver.h"

#include "base/library.h"
#include "base/options.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum need { OPTIONAL, REQUIRED };

static const struct {
    const char *name;
    size_t offset; /* offset of the function's field in struct gpu_api */
    enum need need;
} symbols[] = {
#define SYMBOL(field, name, need, parameters) {#name, offsetof(struct gpu_api, field), need},
    GPU_SYMBOL_LIST(SYMBOL) GPU_TEXT_LIST(SYMBOL)
#undef SYMBOL
};

#define SYMBOL_COUNT (sizeof symbols / sizeof symbols[0])

static leat_status check_file(const char *path)
{
    uint64_t bytes, needed;

    if (!leati_library_is_cut(path, &bytes, &needed))
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_NO_DRIVER,
                      "the " GPU_LIBRARY " %s is cut off: it has %llu bytes and needs %llu; " GPU_INSTALL_AGAIN
                      ", or set " GPU_LIBRARY_OPTION " to the path of a good " GPU_LIBRARY_FILE,
                      path, (unsigned long long)bytes, (unsigned long long)needed);
}

static leat_status fail_open(const char *reason)
{
    if (!reason)
        reason = "no reason given";
    if (strstr(reason, "No such file"))
        return leati_fail(LEAT_ERROR_NO_DRIVER,
                          "the " GPU_LIBRARY " is not on this machine (%s); " GPU_INSTALL
                          ", or set " GPU_LIBRARY_OPTION " to the path of its " GPU_LIBRARY_FILE,
                          reason);
    return leati_fail(LEAT_ERROR_NO_DRIVER,
                      "the " GPU_LIBRARY " cannot be loaded (%s); the file " GPU_LIBRARY_DAMAGED
                      ": " GPU_INSTALL_AGAIN ", or set " GPU_LIBRARY_OPTION
                      " to the path of a good " GPU_LIBRARY_FILE,
                      reason);
}

static leat_status open_library(struct gpu_driver *gpu, const char *path)
{
    LEATI_TRY(check_file(path));
    gpu->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return gpu->library ? LEAT_OK : fail_open(dlerror());
}

/* Opens the first of the usual names that can be loaded. If none can, the message is about the first name. */
static leat_status open_usual(struct gpu_driver *gpu, const char **path)
{
    leat_status status = LEAT_OK;

    for (size_t i = 0; i < sizeof library_names / sizeof library_names[0]; i++) {
        *path = library_names[i];
        LEATI_TRY(check_file(*path));
        gpu->library = dlopen(*path, RTLD_NOW | RTLD_LOCAL);
        if (gpu->library)
            return LEAT_OK;
        if (i == 0)
            status = fail_open(dlerror());
    }
    return status;
}

/* Stores an address that dlsym() has returned in a field of *api. Uses memcpy(), because ISO C has no cast from
 * void * to a function pointer; POSIX guarantees that both have the same representation. */
static void put_function(struct gpu_api *api, size_t offset, void *function)
{
    memcpy((char *)api + offset, &function, sizeof function);
}

/* Fails if the library is one of leat's compatibility libraries that must not be used. They export the vendor's
 * names over leat's own devices. Under a usual name (named is false), such a library stands there for the programs
 * of a user, and its devices are no GPUs. Tests name one by the option GPU_PATH_OPTION to load it in place of the
 * vendor's library. It must then use another copy of leat, because a copy that is its own driver would deadlock.
 */
static leat_status check_names(const struct gpu_driver *gpu, const char *path, bool named)
{
    const void *(*compat_names)(void);
    void *function = dlsym(gpu->library, "leat_compat_names");

    if (!function)
        return LEAT_OK;
    memcpy(&compat_names, &function, sizeof compat_names);
    if (compat_names() == (const void *)(uintptr_t)&leat_version)
        return leati_fail(
            LEAT_ERROR_NO_DRIVER,
            "%s offers " GPU_VENDOR
            "'s names over this very copy of leat, which cannot be its own driver; unset " GPU_LIBRARY_OPTION
            ", or use a program that is linked with libleat.a",
            path);
    if (named)
        return LEAT_OK;
    return leati_fail(
        LEAT_ERROR_NO_DRIVER,
        "the %s that this process finds is leat's own compatibility library and not " GPU_LIBRARY_OWNER
        ", and its devices are no GPUs; take its folder out of LD_LIBRARY_PATH, or set " GPU_LIBRARY_OPTION
        " to the path of the library to use",
        path);
}

/* Fails if the library is too old. Called before take_functions(), because an old library also lacks functions,
 * but the message should be about its age. */
static leat_status check_version(struct gpu_driver *gpu, const char *path)
{
    void *function = dlsym(gpu->library, GPU(names).version);
    gpu_result code;
    int version;

    if (!function)
        return leati_fail(LEAT_ERROR_NO_DRIVER,
                          "%s is no " GPU_LIBRARY ": it has no function %s; set " GPU_LIBRARY_OPTION
                          " to the path of " GPU_LIBRARY_OWNER " " GPU_LIBRARY_FILE ", or unset it",
                          path, GPU(names).version);
    put_function(&gpu->api, offsetof(struct gpu_api, version), function);
    code = gpu->api.version(&version);
    if (is_reported_by_start(code))
        return LEAT_OK; /* init will fail with the same result, and start() will set the message */
    if (code != GPU_SUCCESS)
        return leati_fail(LEAT_ERROR_NO_DRIVER, "%s: %s: " GPU_VENDOR " error %u; " GPU_INSTALL_AGAIN, path,
                          GPU(names).version, code);
    gpu->api.number = version;
    return check_number(gpu, version, path);
}

static leat_status take_functions(struct gpu_driver *gpu, const char *path)
{
    char missing[128] = "";
    size_t length = 0;
    unsigned count = 0;

    for (size_t i = 0; i < SYMBOL_COUNT; i++) {
        void *function = dlsym(gpu->library, symbols[i].name);

        put_function(&gpu->api, symbols[i].offset, function);
        if (function || symbols[i].need == OPTIONAL)
            continue;
        if (count++ < 3)
            length += (size_t)snprintf(missing + length, sizeof missing - length, "%s%s", length ? ", " : "",
                                       symbols[i].name);
    }
    if (count == 0)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_NO_DRIVER,
                      "%s is not a whole " GPU_LIBRARY ": %u functions are missing (%s%s); " GPU_INSTALL_AGAIN
                      ", or set " GPU_LIBRARY_OPTION " to the path of its " GPU_LIBRARY_FILE,
                      path, count, missing, count > 3 ? ", ..." : "");
}

/* Fills base.library with the path of the loaded file, without symbolic links, because the real name has the exact
 * version, such as libcuda.so.580.65.06. */
static void find_path(struct gpu_driver *gpu, const char *path)
{
    char *real = NULL;
    Dl_info info;
    void *function = dlsym(gpu->library, GPU(names).init);

    if (function && dladdr(function, &info) && info.dli_fname)
        real = realpath(info.dli_fname, NULL);
    snprintf(gpu->base.library, sizeof gpu->base.library, "%s", real ? real : path);
    free(real);
}

static leat_status start(struct gpu_driver *gpu)
{
    gpu_result code;
    int count = 0;

    code = gpu->api.init(0);
    if (code != GPU_SUCCESS)
        return fail_init(gpu, code);
    code = gpu->api.device_count(&count);
    if (code == GPU_ERROR_NO_DEVICE || (code == GPU_SUCCESS && count <= 0))
        return fail_init(gpu, GPU_ERROR_NO_DEVICE);
    if (code != GPU_SUCCESS)
        return GPU(fail_as)(&gpu->api, LEAT_ERROR_NO_DRIVER, GPU(names).device_count, code);
    gpu->base.device_count = count;
    return LEAT_OK;
}

leat_status GPU(load)(struct leati_driver *driver)
{
    struct gpu_driver *gpu = gpu_of(driver);
    const char *path = leati_option(GPU_PATH_OPTION);
    const bool named = path != NULL;
    leat_status status;

    LEATI_TRY(named ? open_library(gpu, path) : open_usual(gpu, &path));
    status = check_names(gpu, path, named);
    if (status == LEAT_OK)
        status = check_version(gpu, path);
    if (status == LEAT_OK)
        status = take_functions(gpu, path);
    if (status != LEAT_OK)
        goto close_library;
    find_path(gpu, path);

    /* After this point the library stays loaded, even after a failure, because init may have started threads. */
    return start(gpu);

close_library:
    dlclose(gpu->library);
    gpu->library = NULL;
    return status;
}

void *GPU(symbol)(struct leati_driver *driver, const char *name)
{
    return dlsym(gpu_of(driver)->library, name);
}
