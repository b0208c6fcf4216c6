/* pieces.c - see pieces.h. */
#include "copy/pieces.h"

#include "base/assert.h"

#define BLOCK_THREADS 256u
#define BLOCK_PIECES (BLOCK_THREADS / 32)
#define BLOCKS_MOST 2048u
#define HOST_BLOCKS_MOST 256u

bool leati_pieces_kernel(leat_device *device, leat_kernel **kernel)
{
    return LEATI_QUIETLY(leati_kernel_builtin(device, LEATI_BUILTIN_BASIC, "leat_copy_pieces", kernel)) == LEAT_OK;
}

void leati_pieces_add(struct leati_piece *list, size_t *count, uintptr_t dst, uintptr_t src, size_t bytes,
                      size_t piece_bytes, uint32_t number)
{
    leati_assert(piece_bytes && piece_bytes <= UINT32_MAX);
    for (size_t at = 0; at < bytes; at += piece_bytes)
        list[(*count)++] =
            (struct leati_piece){.dst = dst + at,
                                 .src = src + at,
                                 .bytes = (uint32_t)(bytes - at < piece_bytes ? bytes - at : piece_bytes),
                                 .number = number};
}

leat_status leati_pieces_launch(leat_stream *stream, leat_kernel *kernel, uintptr_t list, size_t count,
                                struct leati_copier *copier)
{
    bool on_host = stream->device->driver->can->host_kernels;
    uint64_t pieces = list, number = count;
    size_t blocks = on_host ? (count + 3) / 4 : (count + BLOCK_PIECES - 1) / BLOCK_PIECES;
    size_t most = on_host ? HOST_BLOCKS_MOST : BLOCKS_MOST;
    void *args[] = {&pieces, &number, &copier};

    leati_assert(count);
    return leat_launch(stream, kernel, leat_dim((uint32_t)(blocks < most ? blocks : most), 1, 1),
                       leat_dim(on_host ? 1 : BLOCK_THREADS, 1, 1), 0, args, 3);
}
