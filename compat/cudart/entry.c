/* entry.c - looks up functions of the driver API by name, in libleat-cuda if that library can be found. */
#include "cudart/cudart.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define TEXT_(text) #text
#define TEXT(text) TEXT_(text)

typedef int (*get_proc_address)(const char *name, void **function, int version, uint64_t flags, int *status);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static get_proc_address ask;

/* Finds cuGetProcAddress(). Searches the program first, which may be linked with libleat-cuda, and then loads
 * libleat-cuda. */
static void find_driver(void)
{
    void *found = dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2");

    if (!found) {
        void *driver = dlopen("libleat-cuda.so." TEXT(LEAT_VERSION_MAJOR), RTLD_NOW | RTLD_LOCAL);

        found = driver ? dlsym(driver, "cuGetProcAddress_v2") : NULL;
    }
    /* Copy with memcpy(), because ISO C has no cast from void * to a function pointer. POSIX guarantees that both
     * have the same representation. */
    memcpy(&ask, &found, sizeof ask);
}

static int get_entry(const char *symbol, void **function, unsigned version, unsigned long long flags,
                     unsigned long long usual, enum cudaDriverEntryPointQueryResult *status)
{
    int why = cudaDriverEntryPointSymbolNotFound, result = LEATC_NOT_FOUND;

    if (!symbol || !function || flags > cudaEnablePerThreadDefaultStream)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_init());
    pthread_once(&once, find_driver);
    *function = NULL;
    if (ask)
        result = ask(symbol, function, (int)version, flags ? flags : usual, &why);
    if (status)
        *status = (enum cudaDriverEntryPointQueryResult)why;
    return result;
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
