/*
 * cuda_load.c - finds libcuda.so.1, takes its functions, and says in words why it cannot be used.
 */
#include "driver/cuda/cuda_driver.h"

#include "base/library.h"
#include "base/options.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The oldest driver that has all that we call: CUDA 11.4. */
#define VERSION_FLOOR 11040

enum need { OPTIONAL, REQUIRED };

static const struct {
    const char *name;
    size_t offset; /* of its field in struct cuda_api */
    enum need need;
} symbols[] = {
#define SYMBOL(field, name, need, parameters) {#name, offsetof(struct cuda_api, field), need},
    LEATI_CUDA_SYMBOL_LIST(SYMBOL) LEATI_CUDA_FIRST_SYMBOL_LIST(SYMBOL)
#undef SYMBOL
};

#define SYMBOL_COUNT (sizeof symbols / sizeof symbols[0])

static leat_status check_file(const char *path)
{
    uint64_t bytes, needed;

    if (!leati_library_is_cut(path, &bytes, &needed))
        return LEAT_OK;
    return leati_fail(
        LEAT_ERROR_NO_DRIVER,
        "the CUDA driver library %s is cut off: it has %llu bytes and needs %llu; reinstall the NVIDIA "
        "driver, or set LEAT_CUDA_LIBRARY to the path of a good libcuda.so.1",
        path, (unsigned long long)bytes, (unsigned long long)needed);
}

static leat_status open_library(struct cuda_driver *cuda, const char *path)
{
    const char *reason;

    cuda->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (cuda->library)
        return LEAT_OK;
    reason = dlerror();
    if (!reason)
        reason = "no reason given";
    if (strstr(reason, "No such file"))
        return leati_fail(LEAT_ERROR_NO_DRIVER,
                          "the CUDA driver library is not on this machine (%s); install the NVIDIA driver, or set "
                          "LEAT_CUDA_LIBRARY to the path of its libcuda.so.1",
                          reason);
    return leati_fail(LEAT_ERROR_NO_DRIVER,
                      "the CUDA driver library cannot be loaded (%s); the file is damaged or for another machine: "
                      "reinstall the NVIDIA driver, or set LEAT_CUDA_LIBRARY to the path of a good libcuda.so.1",
                      reason);
}

/* Copies an address that dlsym gave. ISO C has no cast from void * to a function pointer; POSIX has both look
 * alike. */
static void put_function(struct cuda_api *cu, size_t offset, void *function)
{
    memcpy((char *)cu + offset, &function, sizeof function);
}

/* leat has a library of CUDA's names of its own, which may be loaded here as if it were the vendor's: for tests,
 * and for programs of leat's that shall see what CUDA's names make of them. It must stand on another copy of leat
 * than this one, which would wait for itself. */
static leat_status check_names(const struct cuda_driver *cuda, const char *path)
{
    const void *(*known_names)(void);
    void *function = dlsym(cuda->library, "leat_known_names");

    if (!function)
        return LEAT_OK;
    memcpy(&known_names, &function, sizeof known_names);
    if (known_names() != (const void *)(uintptr_t)&leat_version)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_NO_DRIVER,
                      "%s offers CUDA's names over this very copy of leat, which cannot be its own driver; unset "
                      "LEAT_CUDA_LIBRARY, or use a program that is linked with libleat.a",
                      path);
}

/* Looks at the version before the functions: an old driver also lacks functions, but its age is the reason. */
static leat_status check_version(struct cuda_driver *cuda, const char *path)
{
    void *function = dlsym(cuda->library, leati_cuda_names.driver_version);
    cu_result code;
    int version;

    if (!function)
        return leati_fail(
            LEAT_ERROR_NO_DRIVER,
            "%s is no CUDA driver library: it has no function cuDriverGetVersion; set LEAT_CUDA_LIBRARY "
            "to the path of the NVIDIA driver's libcuda.so.1, or unset it",
            path);
    put_function(&cuda->cu, offsetof(struct cuda_api, driver_version), function);
    code = cuda->cu.driver_version(&version);
    if (code == LEATI_CUDA_ERROR_STUB_LIBRARY)
        return LEAT_OK; /* cuInit says it again, and start() has the words for it. */
    if (code != LEATI_CUDA_SUCCESS)
        return leati_fail(LEAT_ERROR_NO_DRIVER,
                          "%s: cuDriverGetVersion: CUDA error %u; reinstall the NVIDIA driver", path, code);
    snprintf(cuda->base.version, sizeof cuda->base.version, "%d.%d", version / 1000, version % 1000 / 10);
    if (version < VERSION_FLOOR)
        return leati_fail(
            LEAT_ERROR_DRIVER_TOO_OLD,
            "leat needs an NVIDIA driver for CUDA %d.%d or newer, found %d.%d (%s); update the driver",
            VERSION_FLOOR / 1000, VERSION_FLOOR % 1000 / 10, version / 1000, version % 1000 / 10, path);
    return LEAT_OK;
}

static leat_status take_functions(struct cuda_driver *cuda, const char *path)
{
    char missing[128] = "";
    size_t length = 0;
    unsigned count = 0;

    for (size_t i = 0; i < SYMBOL_COUNT; i++) {
        void *function = dlsym(cuda->library, symbols[i].name);

        put_function(&cuda->cu, symbols[i].offset, function);
        if (function || symbols[i].need == OPTIONAL)
            continue;
        if (count++ < 3)
            length += (size_t)snprintf(missing + length, sizeof missing - length, "%s%s", length ? ", " : "",
                                       symbols[i].name);
    }
    if (count == 0)
        return LEAT_OK;
    return leati_fail(
        LEAT_ERROR_NO_DRIVER,
        "%s is not a whole CUDA driver library: %u functions are missing (%s%s); reinstall the NVIDIA "
        "driver, or set LEAT_CUDA_LIBRARY to the path of its libcuda.so.1",
        path, count, missing, count > 3 ? ", ..." : "");
}

/* The file that was loaded, links followed, since its name has the exact version: libcuda.so.580.65.06. */
static void find_path(struct cuda_driver *cuda, const char *path)
{
    char *real = NULL;
    Dl_info info;
    void *function = dlsym(cuda->library, leati_cuda_names.init);

    if (function && dladdr(function, &info) && info.dli_fname)
        real = realpath(info.dli_fname, NULL);
    snprintf(cuda->base.library, sizeof cuda->base.library, "%s", real ? real : path);
    free(real);
}

static leat_status fail_init(const struct cuda_driver *cuda, cu_result code)
{
    const char *library = cuda->base.library;
    leat_status status;

    switch (code) {
    case LEATI_CUDA_ERROR_NO_DEVICE:
        return leati_fail(LEAT_ERROR_NO_DEVICE,
                          "the CUDA driver finds no GPU that this process may use; see what nvidia-smi lists, and "
                          "whether CUDA_VISIBLE_DEVICES hides it");
    case LEATI_CUDA_ERROR_STUB_LIBRARY:
        return leati_fail(
            LEAT_ERROR_NO_DRIVER,
            "%s is the CUDA toolkit's stub, which is there to link against and cannot run; install the "
            "NVIDIA driver, and keep the stubs folder out of LD_LIBRARY_PATH and LEAT_CUDA_LIBRARY",
            library);
    case LEATI_CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        status = leati_cuda_fail_as(&cuda->cu, LEAT_ERROR_NO_DRIVER, "cuInit", code);
        return leati_fail_in(status,
                             "%s and the NVIDIA kernel module are of different versions; restart the machine, or "
                             "load the module again",
                             library);
    case LEATI_CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
        status = leati_cuda_fail_as(&cuda->cu, LEAT_ERROR_DRIVER_TOO_OLD, "cuInit", code);
        return leati_fail_in(status,
                             "%s is a forward compatibility library, which this GPU does not take; use the "
                             "libcuda.so.1 of the installed driver",
                             library);
    case LEATI_CUDA_ERROR_SYSTEM_NOT_READY:
        status = leati_cuda_fail_as(&cuda->cu, LEAT_ERROR_NO_DRIVER, "cuInit", code);
        return leati_fail_in(status, "the GPUs are not ready; see whether nvidia-fabricmanager runs");
    default:
        status = leati_cuda_fail_as(&cuda->cu, LEAT_ERROR_NO_DRIVER, "cuInit", code);
        return leati_fail_in(status,
                             "the CUDA driver does not start; see whether nvidia-smi works, and whether this "
                             "process may open /dev/nvidia* and the kernel module nvidia_uvm is loaded");
    }
}

static leat_status start(struct cuda_driver *cuda)
{
    cu_result code;
    int count;

    code = cuda->cu.init(0);
    if (code != LEATI_CUDA_SUCCESS)
        return fail_init(cuda, code);
    code = cuda->cu.device_count(&count);
    if (code != LEATI_CUDA_SUCCESS)
        return leati_cuda_fail_as(&cuda->cu, LEAT_ERROR_NO_DRIVER, leati_cuda_names.device_count, code);
    if (count <= 0)
        return fail_init(cuda, LEATI_CUDA_ERROR_NO_DEVICE);
    cuda->base.device_count = count;
    return LEAT_OK;
}

leat_status leati_cuda_load(struct leati_driver *driver)
{
    struct cuda_driver *cuda = leati_cuda_of(driver);
    const char *path = leati_option(LEATI_OPTION_CUDA_LIBRARY);
    leat_status status;

    if (!path)
        path = "libcuda.so.1";
    LEATI_TRY(check_file(path));
    LEATI_TRY(open_library(cuda, path));
    status = check_names(cuda, path);
    if (status == LEAT_OK)
        status = check_version(cuda, path);
    if (status == LEAT_OK)
        status = take_functions(cuda, path);
    if (status != LEAT_OK)
        goto close_library;
    find_path(cuda, path);

    /* From here on the library stays, used or not: cuInit may have started threads of its own. */
    return start(cuda);

close_library:
    dlclose(cuda->library);
    cuda->library = NULL;
    return status;
}

void *leati_cuda_symbol(struct leati_driver *driver, const char *name)
{
    return dlsym(leati_cuda_of(driver)->library, name);
}
