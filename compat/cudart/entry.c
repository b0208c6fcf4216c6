/*
 * entry.c - looks up functions of the driver API by name, in libleat-cuda.
 *
 * Only a libleat-cuda that uses the same copy of leat is asked: handles and memory of the two libraries are the
 * same then. A program may have NVIDIA's libcuda loaded too, and its functions do not know leat's memory.
 */
#include "cudart/cudart.h"

#include <leat/version.h>

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define TEXT_(text) #text
#define TEXT(text) TEXT_(text)

typedef int (*get_proc_address)(const char *name, void **function, int version, uint64_t flags, int *status);

/* cuGetProcAddress() of libleat-cuda. NULL: no thread has found it yet or, if has_searched is set, there is no
 * libleat-cuda. */
static _Atomic(get_proc_address) ask;
static atomic_bool has_searched;

/* Returns cuGetProcAddress() of a library. Returns NULL if it is not libleat-cuda over the same copy of leat. */
static get_proc_address take(void *library)
{
    void *found = dlsym(library, "cuGetProcAddress_v2"), *marker = dlsym(library, "leat_compat_names");
    const void *(*compat_names)(void);
    get_proc_address taken;
    Dl_info function_info, marker_info;

    /* Among the symbols of the whole program, the two may be of different libraries. */
    if (!found || !marker || !dladdr(found, &function_info) || !dladdr(marker, &marker_info) ||
        function_info.dli_fbase != marker_info.dli_fbase)
        return NULL;
    /* Copy with memcpy(), because ISO C has no cast from void * to a function pointer. POSIX guarantees that both
     * have the same representation. */
    memcpy(&compat_names, &marker, sizeof compat_names);
    if (compat_names() != (const void *)(uintptr_t)&leat_version)
        return NULL;
    memcpy(&taken, &found, sizeof taken);
    return taken;
}

static get_proc_address load(const char *path)
{
    void *driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    return driver ? take(driver) : NULL;
}

/* Finds cuGetProcAddress(). Searches the program first, which may be linked with libleat-cuda, then the folder of
 * this library, then the folders in which the loader searches. In the folder of a library with the vendor's name
 * (compat.mk: faces), libleat-cuda has the vendor's name too. */
static get_proc_address search(void)
{
    static const char *const names[] = {"libleat-cuda.so." TEXT(LEAT_VERSION_MAJOR), "libcuda.so.1"};
    get_proc_address found = take(RTLD_DEFAULT);
    char path[4096];
    const char *end;
    Dl_info self;

    if (found)
        return found;
    if (dladdr((void *)(uintptr_t)&search, &self) && self.dli_fname && (end = strrchr(self.dli_fname, '/')))
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            int length =
                snprintf(path, sizeof path, "%.*s/%s", (int)(end - self.dli_fname), self.dli_fname, names[i]);

            found = length < (int)sizeof path ? load(path) : NULL;
            if (found)
                return found;
        }
    return load(names[0]);
}

/* Takes no lock, because the search waits for the loader's lock, and another thread may come here with that lock,
 * from the constructor of a library. Several threads may search; they use what is found first. */
static get_proc_address find_ask(void)
{
    get_proc_address none = NULL;

    if (!atomic_load_explicit(&has_searched, memory_order_acquire)) {
        (void)atomic_compare_exchange_strong(&ask, &none, search());
        atomic_store_explicit(&has_searched, true, memory_order_release);
    }
    return atomic_load_explicit(&ask, memory_order_relaxed);
}

/* A name that the driver does not have, or not in this version, is no error: *function becomes NULL and *status
 * has the reason. */
static int get_entry(const char *symbol, void **function, unsigned version, unsigned long long flags,
                     unsigned long long usual, enum cudaDriverEntryPointQueryResult *status)
{
    int why = cudaDriverEntryPointSymbolNotFound, result = LEATC_OK;
    get_proc_address driver;

    if (!symbol || !function || flags > cudaEnablePerThreadDefaultStream)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_init());
    driver = find_ask();
    *function = NULL;
    if (driver)
        result = driver(symbol, function, (int)version, flags ? flags : usual, &why);
    if (status)
        *status = (enum cudaDriverEntryPointQueryResult)why;
    return result == LEATC_NOT_FOUND ? LEATC_OK : result;
}

FORWARD(cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr, unsigned int cudaVersion,
                                                     unsigned long long flags,
                                                     enum cudaDriverEntryPointQueryResult *driverStatus),
        get_entry(symbol, funcPtr, cudaVersion, flags, cudaEnableLegacyStream, driverStatus))

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return cudaGetDriverEntryPointByVersion(symbol, funcPtr, CUDART_VERSION, flags, driverStatus);
}

cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **funcPtr, unsigned int cudaVersion,
                                                  unsigned long long flags,
                                                  enum cudaDriverEntryPointQueryResult *driverStatus);
cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **funcPtr, unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *driverStatus);

FORWARD(cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **funcPtr,
                                                          unsigned int cudaVersion, unsigned long long flags,
                                                          enum cudaDriverEntryPointQueryResult *driverStatus),
        get_entry(symbol, funcPtr, cudaVersion, flags, cudaEnablePerThreadDefaultStream, driverStatus))

cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **funcPtr, unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return cudaGetDriverEntryPointByVersion_ptsz(symbol, funcPtr, CUDART_VERSION, flags, driverStatus);
}
