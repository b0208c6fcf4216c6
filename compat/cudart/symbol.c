/* symbol.c - symbols: variables of the program itself. */
#include "cudart/cudart.h"

cudaError_t cudaGetSymbolAddress(void **devPtr, const void *symbol)
{
    return note(devPtr ? leatc_symbol_range(symbol, 0, 0, devPtr) : LEATC_INVALID_VALUE);
}

cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol)
{
    return note(size ? leatc_symbol_bytes(symbol, size) : LEATC_INVALID_VALUE);
}

/* The memory of a symbol is the host's as well, so the kinds that name it as the device's are the default one. */
int cudart_symbol(const void *symbol, size_t offset, size_t count, bool to_symbol, enum cudaMemcpyKind kind,
                  void **at)
{
    LEATC_TRY(leatc_symbol_range(symbol, offset, count, at));
    return kind == (to_symbol ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost) ||
                   kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault
               ? LEATC_OK
               : LEATC_INVALID_DIRECTION;
}

int cudart_copy_to_symbol(const void *symbol, const void *src, size_t count, size_t offset,
                          enum cudaMemcpyKind kind, struct leatc_stream *stream, bool async)
{
    void *at = NULL;

    LEATC_TRY(cudart_symbol(symbol, offset, count, true, kind, &at));
    return leatc_copy(at, src, count, LEATC_DEFAULT, stream, async);
}

int cudart_copy_from_symbol(void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind,
                            struct leatc_stream *stream, bool async)
{
    void *at = NULL;

    LEATC_TRY(cudart_symbol(symbol, offset, count, false, kind, &at));
    return leatc_copy(dst, at, count, LEATC_DEFAULT, stream, async);
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
