/* spread.c - see spread.h. */
#include "copy/spread.h"

#include "base/assert.h"
#include "copy/scratch.h"

/* If the ranges have more bytes than this on average, a DMA for each is as fast as a kernel for all. */
#define AVERAGE_MOST_BYTES ((size_t)512 << 10)

/* With more ranges, DMAs would fill the driver's queue for the stream (stager.c, ring_most()), and a write to
 * files, which are often slower than the link, would hold up its caller. So all their chunks of several ranges are
 * spread. */
#define WRITE_RANGES_MOST 256
#define WRITE_LEAST 3

#define PIECES_MOST ((size_t)1 << 20) /* limits the pinned memory for the list of a very long copy: 24 MiB */

/* Sets the size of pieces, the number of them that the chunks of a copy may have, and how many ranges a chunk must
 * have to be spread. Returns false if no chunk should be spread. */
static bool plan(struct leati_spread *spread, const struct leati_capabilities *can,
                 const struct leati_scatter *scatter, bool in, size_t bytes, uint32_t chunks)
{
    bool fills_queue = !in && scatter->count > WRITE_RANGES_MOST;

    spread->least = fills_queue ? WRITE_LEAST : can->batch.fewest_ranges;
    spread->piece_bytes = LEATI_PIECE_BYTES;
    while (bytes / spread->piece_bytes > PIECES_MOST)
        spread->piece_bytes *= 2;
    /* Each range and each chunk may end with a piece that is not full. */
    spread->room = bytes / spread->piece_bytes + scatter->count + 2 * (size_t)chunks;
    return scatter->count >= spread->least && (fills_queue || bytes / scatter->count <= AVERAGE_MOST_BYTES);
}

static bool take_memory(struct leati_spread *spread, leat_device *device, size_t buffer_bytes)
{
    struct leati_driver *driver = device->driver;
    void *mapped;

    spread->pieces = leati_scratch_take(device, LEAT_KIND_PINNED, spread->room * sizeof *spread->pieces);
    spread->buffer = spread->pieces ? leati_scratch_take(device, LEAT_KIND_DEVICE, buffer_bytes) : NULL;
    mapped = spread->pieces;
    if (spread->buffer && driver->ops->host_device_pointer &&
        LEATI_QUIETLY(driver->ops->host_device_pointer(driver, device->native, spread->pieces, &mapped)) !=
            LEAT_OK) {
        (void)leat_memory_free(spread->buffer);
        spread->buffer = NULL;
    }
    if (spread->buffer) {
        spread->shift = (uintptr_t)mapped - (uintptr_t)spread->pieces;
        return true;
    }
    if (spread->pieces)
        (void)leat_memory_free(spread->pieces);
    return false;
}

void leati_spread_begin(struct leati_spread *spread, leat_stream *stream, const struct leati_scatter *scatter,
                        bool in, size_t bytes, const struct leati_chunk *chunks, uint32_t count)
{
    size_t largest = 0;
    leat_kernel *kernel;

    *spread = (struct leati_spread){.kernel = NULL};
    leati_assert(count && scatter->count);
    if (!plan(spread, stream->device->driver->can, scatter, in, bytes, count) ||
        !leati_pieces_kernel(stream->device, &kernel))
        return;
    for (uint32_t c = 0; c < count; c++)
        largest = chunks[c].bytes > largest ? chunks[c].bytes : largest;
    if (take_memory(spread, stream->device, largest))
        spread->kernel = kernel;
}

/* Adds the pieces of a chunk. Returns false if the chunk should be moved by one DMA for each range: it has few
 * ranges, or kernels do not reach all its places. */
static bool add_pieces(struct leati_spread *spread, const leat_stream *stream, const struct leati_scatter *scatter,
                       bool in, size_t offset, size_t bytes)
{
    uintptr_t buffer = (uintptr_t)spread->buffer;
    unsigned ranges = 0;

    for (size_t at = 0, some; at < bytes; at += some, ranges++) {
        struct leati_location placed;
        uintptr_t place;

        some = bytes - at;
        placed = scatter->locate(scatter->list, offset + at, &some);
        place = (uintptr_t)placed.ptr;
        if (placed.kind != LEAT_KIND_DEVICE || placed.device != stream->device->native)
            return false;
        leati_pieces_add(spread->pieces, &spread->used, in ? place : buffer + at, in ? buffer + at : place, some,
                         spread->piece_bytes, 0);
        leati_assert(spread->used <= spread->room);
    }
    return ranges >= spread->least;
}

/* Moves a chunk by a DMA for each range. */
static leat_status move_each(leat_stream *stream, const struct leati_scatter *scatter, bool in, size_t offset,
                             size_t bytes, struct leati_location ring)
{
    struct leati_driver *driver = stream->device->driver;

    for (size_t at = 0, some; at < bytes; at += some) {
        struct leati_location packed = leati_location_at(ring, at), placed;

        some = bytes - at;
        placed = scatter->locate(scatter->list, offset + at, &some);
        leati_assert(some && some <= bytes - at);
        LEATI_TRY(driver->ops->copy(driver, stream->native, in ? placed : packed, in ? packed : placed, some));
    }
    return LEAT_OK;
}

leat_status leati_spread_move(struct leati_spread *spread, leat_stream *stream,
                              const struct leati_scatter *scatter, bool in, size_t offset, size_t bytes,
                              struct leati_location ring)
{
    struct leati_driver *driver = stream->device->driver;
    struct leati_location buffer = {
        .ptr = spread->buffer, .kind = LEAT_KIND_DEVICE, .device = stream->device->native};
    size_t first = spread->used;
    uintptr_t list = (uintptr_t)(spread->pieces + first) + spread->shift;

    if (!spread->kernel || !add_pieces(spread, stream, scatter, in, offset, bytes)) {
        spread->used = first;
        return move_each(stream, scatter, in, offset, bytes, ring);
    }
    if (in)
        LEATI_TRY(driver->ops->copy(driver, stream->native, buffer, ring, bytes));
    LEATI_TRY(leati_pieces_launch(stream, spread->kernel, list, spread->used - first, NULL));
    return in ? LEAT_OK : driver->ops->copy(driver, stream->native, ring, buffer, bytes);
}

void leati_spread_end(struct leati_spread *spread, leat_stream *stream)
{
    if (!spread->kernel)
        return;
    leati_timeline_submitted(stream->timeline);
    (void)leati_scratch_release(stream, spread->pieces, LEAT_OK);
    (void)leati_scratch_release(stream, spread->buffer, LEAT_OK);
    spread->kernel = NULL;
}
