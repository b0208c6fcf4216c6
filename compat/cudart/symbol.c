/*
 * symbol.c - symbols: variables of the program itself, since kernels of the CPU device use them where they are. On
 * a GPU there are none, which only a compiler for devices makes.
 */
#include "cudart/cudart.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

static int check_symbol(const void *symbol)
{
    leat_device_info info;
    int ordinal = 0;

    LEATC_TRY(leatc_device_get(&ordinal));
    LEATC_TRY(leatc_device_describe(ordinal, &info));
    return symbol && !strcmp(info.driver, "cpu") ? (int)LEATC_OK : (int)cudaErrorInvalidSymbol;
}

cudaError_t cudaGetSymbolAddress(void **devPtr, const void *symbol)
{
    int result = devPtr ? check_symbol(symbol) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *devPtr = (void *)(uintptr_t)symbol;
    return note(result);
}

/* Only a variable that others can link with has a size that can be asked for; C++ knows it by the type. */
cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol)
{
    const ElfW(Sym) *found = NULL;
    int result = size ? check_symbol(symbol) : LEATC_INVALID_VALUE;
    Dl_info info;

    if (result != LEATC_OK)
        return note(result);
    if (!dladdr1(symbol, &info, (void **)(void *)&found, RTLD_DL_SYMENT) || !found || info.dli_saddr != symbol)
        return note(cudaErrorInvalidSymbol);
    *size = found->st_size;
    return cudaSuccess;
}

/* The memory of a symbol is the host's as well, so the kinds that name it as the device's are the default one. */
int cudart_copy_to_symbol(const void *symbol, const void *src, size_t count, size_t offset,
                          enum cudaMemcpyKind kind, struct leatc_stream *stream, bool async)
{
    LEATC_TRY(check_symbol(symbol));
    if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault)
        return LEATC_INVALID_DIRECTION;
    return leatc_copy((char *)(uintptr_t)symbol + offset, src, count, LEATC_DEFAULT, stream, async);
}

int cudart_copy_from_symbol(void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind,
                            struct leatc_stream *stream, bool async)
{
    LEATC_TRY(check_symbol(symbol));
    if (kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault)
        return LEATC_INVALID_DIRECTION;
    return leatc_copy(dst, (const char *)symbol + offset, count, LEATC_DEFAULT, stream, async);
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset,
                               enum cudaMemcpyKind kind)
{
    return note(cudart_copy_to_symbol(symbol, src, count, offset, kind, NULL, false));
}

cudaError_t cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count, size_t offset,
                                 enum cudaMemcpyKind kind)
{
    return note(cudart_copy_from_symbol(dst, symbol, count, offset, kind, NULL, false));
}

cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count, size_t offset,
                                    enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return note(cudart_copy_to_symbol(symbol, src, count, offset, kind, stream_of(stream), true));
}

cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count, size_t offset,
                                      enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return note(cudart_copy_from_symbol(dst, symbol, count, offset, kind, stream_of(stream), true));
}
