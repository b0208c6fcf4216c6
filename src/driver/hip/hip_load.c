/*
 * hip_load.c - finds libamdhip64.so, takes its functions, and says in words why it cannot be used.
 */
#include "driver/hip/hip_driver.h"

#include "base/library.h"
#include "base/options.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The oldest library that has all that we call. */
#define VERSION_FLOOR LEATI_HIP_VERSION(5, 2)

/* Every major version of ROCm has a name of its own; the last is there where somebody installed for development.
 */
static const char *const library_names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                            "libamdhip64.so"};

enum need { OPTIONAL, REQUIRED };

static const struct {
    const char *name;
    size_t offset; /* of its field in struct hip_api */
    enum need need;
} symbols[] = {
#define SYMBOL(field, name, need, parameters) {#name, offsetof(struct hip_api, field), need},
    LEATI_HIP_SYMBOL_LIST(SYMBOL) LEATI_HIP_TEXT_LIST(SYMBOL)
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
        "the HIP library %s is cut off: it has %llu bytes and needs %llu; install ROCm's HIP runtime "
        "again, or set LEAT_HIP_LIBRARY to the path of a good libamdhip64.so",
        path, (unsigned long long)bytes, (unsigned long long)needed);
}

static leat_status fail_open(const char *reason)
{
    if (!reason)
        reason = "no reason given";
    if (strstr(reason, "No such file"))
        return leati_fail(LEAT_ERROR_NO_DRIVER,
                          "the HIP library is not on this machine (%s); install ROCm's HIP runtime (Debian: "
                          "libamdhip64-5), or set LEAT_HIP_LIBRARY to the path of its libamdhip64.so",
                          reason);
    return leati_fail(
        LEAT_ERROR_NO_DRIVER,
        "the HIP library cannot be loaded (%s); the file is damaged, for another machine, or lacks a "
        "library of ROCm: install ROCm's HIP runtime again, or set LEAT_HIP_LIBRARY to the path of a "
        "good libamdhip64.so",
        reason);
}

static leat_status open_library(struct hip_driver *hip, const char *path)
{
    LEATI_TRY(check_file(path));
    hip->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return hip->library ? LEAT_OK : fail_open(dlerror());
}

/* The first of the usual names that is there; where none is, the sentence is about the newest. */
static leat_status open_usual(struct hip_driver *hip, const char **path)
{
    for (size_t i = 0; i < sizeof library_names / sizeof library_names[0]; i++) {
        *path = library_names[i];
        LEATI_TRY(check_file(*path));
        hip->library = dlopen(*path, RTLD_NOW | RTLD_LOCAL);
        if (hip->library)
            return LEAT_OK;
    }
    *path = library_names[0];
    return open_library(hip, *path);
}

/* Copies an address that dlsym gave. ISO C has no cast from void * to a function pointer; POSIX has both look
 * alike. */
static void put_function(struct hip_api *api, size_t offset, void *function)
{
    memcpy((char *)api + offset, &function, sizeof function);
}

/* leat has a library of HIP's names of its own, which may be loaded here as if it were the vendor's: for tests,
 * and for programs of leat's that shall see what HIP's names make of them. It must stand on another copy of leat
 * than this one, which would wait for itself. */
static leat_status check_names(const struct hip_driver *hip, const char *path)
{
    const void *(*known_names)(void);
    void *function = dlsym(hip->library, "leat_known_names");

    if (!function)
        return LEAT_OK;
    memcpy(&known_names, &function, sizeof known_names);
    if (known_names() != (const void *)(uintptr_t)&leat_version)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_NO_DRIVER,
                      "%s offers HIP's names over this very copy of leat, which cannot be its own driver; unset "
                      "LEAT_HIP_LIBRARY, or use a program that is linked with libleat.a",
                      path);
}

/* Looks at the version before the functions: an old library also lacks functions, but its age is the reason. */
static leat_status check_version(struct hip_driver *hip, const char *path)
{
    void *function = dlsym(hip->library, leati_hip_names.runtime_version);
    hi_result code;
    int version;

    if (!function)
        return leati_fail(
            LEAT_ERROR_NO_DRIVER,
            "%s is no HIP library: it has no function hipRuntimeGetVersion; set LEAT_HIP_LIBRARY to the "
            "path of ROCm's libamdhip64.so, or unset it",
            path);
    put_function(&hip->api, offsetof(struct hip_api, runtime_version), function);
    code = hip->api.runtime_version(&version);
    if (code == LEATI_hipErrorNoDevice || code == LEATI_hipErrorInvalidDevice)
        return LEAT_OK; /* hipInit says it again, and start() has the words for it. */
    if (code != LEATI_hipSuccess)
        return leati_fail(LEAT_ERROR_NO_DRIVER,
                          "%s: hipRuntimeGetVersion: HIP error %u; install ROCm's HIP runtime again", path, code);
    hip->api.version = version;
    snprintf(hip->base.version, sizeof hip->base.version, "%d.%d", version / 10000000, version / 100000 % 100);
    if (version < VERSION_FLOOR)
        return leati_fail(LEAT_ERROR_DRIVER_TOO_OLD,
                          "leat needs HIP %d.%d or newer, found %d.%d (%s); update ROCm", VERSION_FLOOR / 10000000,
                          VERSION_FLOOR / 100000 % 100, version / 10000000, version / 100000 % 100, path);
    return LEAT_OK;
}

static leat_status take_functions(struct hip_driver *hip, const char *path)
{
    char missing[128] = "";
    size_t length = 0;
    unsigned count = 0;

    for (size_t i = 0; i < SYMBOL_COUNT; i++) {
        void *function = dlsym(hip->library, symbols[i].name);

        put_function(&hip->api, symbols[i].offset, function);
        if (function || symbols[i].need == OPTIONAL)
            continue;
        if (count++ < 3)
            length += (size_t)snprintf(missing + length, sizeof missing - length, "%s%s", length ? ", " : "",
                                       symbols[i].name);
    }
    if (count == 0)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_NO_DRIVER,
                      "%s is not a whole HIP library: %u functions are missing (%s%s); install ROCm's HIP runtime "
                      "again, or set LEAT_HIP_LIBRARY to the path of its libamdhip64.so",
                      path, count, missing, count > 3 ? ", ..." : "");
}

/* The file that was loaded, links followed, since its name has the exact version: libamdhip64.so.5.2.21153. */
static void find_path(struct hip_driver *hip, const char *path)
{
    char *real = NULL;
    Dl_info info;
    void *function = dlsym(hip->library, leati_hip_names.init);

    if (function && dladdr(function, &info) && info.dli_fname)
        real = realpath(info.dli_fname, NULL);
    snprintf(hip->base.library, sizeof hip->base.library, "%s", real ? real : path);
    free(real);
}

static leat_status fail_init(const struct hip_driver *hip, hi_result code)
{
    leat_status status;

    switch (code) {
    case LEATI_hipErrorNoDevice:
    case LEATI_hipErrorInvalidDevice:
        return leati_fail(
            LEAT_ERROR_NO_DEVICE,
            "the HIP library finds no AMD GPU that this process may use; see what rocminfo lists, "
            "whether this user may open /dev/kfd and /dev/dri/render* (the group render), and whether "
            "HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES hides it");
    case LEATI_hipErrorInsufficientDriver:
        status = leati_hip_fail_as(&hip->api, LEAT_ERROR_DRIVER_TOO_OLD, "hipInit", code);
        return leati_fail_in(status, "the kernel's amdgpu driver is too old for %s", hip->base.library);
    default:
        status = leati_hip_fail_as(&hip->api, LEAT_ERROR_NO_DRIVER, "hipInit", code);
        return leati_fail_in(
            status, "the HIP library does not start; see whether rocminfo works, and whether this process "
                    "may open /dev/kfd and /dev/dri/render*");
    }
}

static leat_status start(struct hip_driver *hip)
{
    hi_result code;
    int count = 0;

    code = hip->api.init(0);
    if (code != LEATI_hipSuccess)
        return fail_init(hip, code);
    code = hip->api.device_count(&count);
    if (code == LEATI_hipErrorNoDevice || (code == LEATI_hipSuccess && count <= 0))
        return fail_init(hip, LEATI_hipErrorNoDevice);
    if (code != LEATI_hipSuccess)
        return leati_hip_fail_as(&hip->api, LEAT_ERROR_NO_DRIVER, leati_hip_names.device_count, code);
    hip->base.device_count = count;
    return LEAT_OK;
}

leat_status leati_hip_load(struct leati_driver *driver)
{
    struct hip_driver *hip = leati_hip_of(driver);
    const char *path = leati_option(LEATI_OPTION_HIP_LIBRARY);
    leat_status status;

    LEATI_TRY(path ? open_library(hip, path) : open_usual(hip, &path));
    status = check_names(hip, path);
    if (status == LEAT_OK)
        status = check_version(hip, path);
    if (status == LEAT_OK)
        status = take_functions(hip, path);
    if (status != LEAT_OK)
        goto close_library;
    find_path(hip, path);

    /* From here on the library stays, used or not: hipInit may have started threads of its own. */
    return start(hip);

close_library:
    dlclose(hip->library);
    hip->library = NULL;
    return status;
}

void *leati_hip_symbol(struct leati_driver *driver, const char *name)
{
    return dlsym(leati_hip_of(driver)->library, name);
}
