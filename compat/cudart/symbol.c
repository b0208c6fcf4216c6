/* symbol.c - copies to and from symbols, which are variables of the program. */
#include "cudart/cudart.h"

FORWARD(cudaError_t cudaGetSymbolAddress(void **devPtr, const void *symbol),
        devPtr ? leatc_symbol_range(symbol, 0, 0, devPtr) : LEATC_INVALID_VALUE)
FORWARD(cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol),
        size ? leatc_symbol_bytes(symbol, size) : LEATC_INVALID_VALUE)

/* Returns the address of a symbol's memory at an offset, and checks kind. Kinds that name the symbol as device
 * memory are valid, but the symbol is in host memory, so callers copy with LEATC_DEFAULT. */
int cudart_symbol(const void *symbol, size_t offset, size_t count, bool to_symbol, enum cudaMemcpyKind kind,
                  void **at)
{
    LEATC_TRY(leatc_symbol_range(symbol, offset, count, at));
    return kind == (to_symbol ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost) ||
                   kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault
               ? LEATC_OK
               : LEATC_INVALID_DIRECTION;
}

static int copy_to_symbol(const void *symbol, const void *src, size_t count, size_t offset,
                          enum cudaMemcpyKind kind, struct leatc_stream *stream, bool async)
{
    void *at = NULL;

    LEATC_TRY(cudart_symbol(symbol, offset, count, true, kind, &at));
    return leatc_copy(at, src, count, LEATC_DEFAULT, stream, async);
}

static int copy_from_symbol(void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind,
                            struct leatc_stream *stream, bool async)
{
    void *at = NULL;

    LEATC_TRY(cudart_symbol(symbol, offset, count, false, kind, &at));
    return leatc_copy(dst, at, count, LEATC_DEFAULT, stream, async);
}

FORWARD_SYNC(cudaMemcpyToSymbol, cudaMemcpyToSymbol_ptds,
             (const void *symbol, const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind),
             copy_to_symbol(symbol, src, count, offset, kind, on, false))
FORWARD_SYNC(cudaMemcpyFromSymbol, cudaMemcpyFromSymbol_ptds,
             (void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind),
             copy_from_symbol(dst, symbol, count, offset, kind, on, false))
FORWARD_STREAM(cudaMemcpyToSymbolAsync, cudaMemcpyToSymbolAsync_ptsz,
               (const void *symbol, const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind,
                cudaStream_t stream),
               copy_to_symbol(symbol, src, count, offset, kind, on, true))
FORWARD_STREAM(cudaMemcpyFromSymbolAsync, cudaMemcpyFromSymbolAsync_ptsz,
               (void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind,
                cudaStream_t stream),
               copy_from_symbol(dst, symbol, count, offset, kind, on, true))
