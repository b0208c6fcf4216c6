/* chunks.c - cuts a copy into chunks and parts, and places the chunks in a ring. See chunks.h. */
#include "staging/chunks.h"
#include "base/assert.h"

#define PAGE_BYTES ((size_t)4096)
#define GRAIN_BYTES ((size_t)64 << 10)
#define FIRST_IN_BYTES ((size_t)1 << 20)
#define LAST_OUT_BYTES ((size_t)256 << 10)
#define LEAST_PART_BYTES ((size_t)64 << 10)
#define MOST_PART_BYTES ((size_t)256 << 10)
#define CHUNKS_IN_RING 4
#define HOST_CHUNK_BYTES ((size_t)4 << 20) /* chunk size without a ring; only the progress of tickets needs it */

static size_t round_up(size_t bytes, size_t unit)
{
    leati_assert(unit);
    return (bytes + unit - 1) / unit * unit;
}

size_t leati_staging_ring_bytes(size_t bytes, size_t most_bytes)
{
    size_t all = round_up(bytes, PAGE_BYTES);

    return all < most_bytes ? all : most_bytes / PAGE_BYTES * PAGE_BYTES;
}

/* Rounds size down to whole units. The result is at least one unit. */
static size_t whole_units(const struct leati_cut *cut, size_t size)
{
    if (cut->unit_bytes < 2)
        return size;
    return size > cut->unit_bytes ? size / cut->unit_bytes * cut->unit_bytes : cut->unit_bytes;
}

/* Returns the size of the next chunk, half as large again as the one before it, but at most most. */
static size_t grow(const struct leati_cut *cut, size_t size, size_t most)
{
    size_t grown = whole_units(cut, round_up(size + size / 2, GRAIN_BYTES));

    return grown < most ? grown : most;
}

/* Returns the size of the next chunk if left bytes are left. A rest of up to a quarter of a chunk does not become
 * a chunk of its own, but belongs to the last chunk. */
static size_t next_size(size_t size, size_t left)
{
    return left <= size + size / 4 ? left : size;
}

static void set_parts(const struct leati_cut *cut, struct leati_chunk *chunk)
{
    unsigned threads = cut->threads;
    size_t part = round_up(chunk->bytes / (2 * (threads ? threads : 1)), PAGE_BYTES);

    part = part < LEAST_PART_BYTES ? LEAST_PART_BYTES : part > MOST_PART_BYTES ? MOST_PART_BYTES : part;
    if (cut->part_bytes)
        part = cut->part_bytes;
    leati_assert(chunk->bytes && part && part % PAGE_BYTES == 0);
    chunk->part_bytes = part;
    chunk->parts = (uint32_t)((chunk->bytes + part - 1) / part);
    atomic_init(&chunk->finished, 0);
    leati_assert(chunk->parts && (chunk->parts - 1) * chunk->part_bytes < chunk->bytes);
}

/* Removes the oldest chunk from the queue. */
static void remove_oldest(struct leati_ring_queue *queue)
{
    leati_assert(queue->first < queue->end);
    queue->gone = queue->chunks[queue->first++ % LEATI_RING_CHUNKS];
}

static const struct leati_ring_chunk *oldest(const struct leati_ring_queue *queue)
{
    return queue->first < queue->end ? &queue->chunks[queue->first % LEATI_RING_CHUNKS] : NULL;
}

/* Removes all chunks from the queue that share a page with a new chunk, and those that came before them. Whole pages are
 * compared, because a read of whole blocks may write all of a page. */
static void make_room(struct leati_ring_queue *queue, const struct leati_ring_chunk *chunk)
{
    const struct leati_ring_chunk *old;
    uint64_t keep = queue->first;

    for (uint64_t i = queue->first; i < queue->end; i++) {
        old = &queue->chunks[i % LEATI_RING_CHUNKS];
        if (old->place < chunk->place + chunk->bytes && chunk->place < old->place + old->bytes)
            keep = i + 1;
    }
    while (queue->first < keep)
        remove_oldest(queue);
    while ((old = oldest(queue)) &&
           (queue->end - queue->first == LEATI_RING_CHUNKS || chunk->copy - old->copy >= LEATI_RING_COPIES_BACK))
        remove_oldest(queue);
}

/* Places the chunks in the ring one after the other. A chunk that does not fit before the end of the ring starts
 * at offset 0. */
static void place_all(const struct leati_cut *cut, struct leati_chunk *chunks, uint32_t count)
{
    struct leati_ring_queue own = {.at = 0}, *queue = cut->queue ? cut->queue : &own;

    for (uint32_t c = 0; c < count; c++) {
        struct leati_ring_chunk chunk = {.place = queue->at,
                                         .bytes = round_up(chunks[c].bytes, PAGE_BYTES),
                                         .copy = cut->copy,
                                         .after = c + 1};

        if (chunk.place + chunks[c].bytes > cut->ring_bytes)
            chunk.place = 0;
        leati_assert(chunk.place % PAGE_BYTES == 0 && chunk.place + chunks[c].bytes <= cut->ring_bytes);
        make_room(queue, &chunk);
        queue->chunks[queue->end++ % LEATI_RING_CHUNKS] = chunk;
        queue->at = chunk.place + chunk.bytes;
        chunks[c].place = chunk.place;
        chunks[c].after = queue->gone.after;
        chunks[c].copies_back = chunks[c].after ? (uint32_t)(cut->copy - queue->gone.copy) : 0;
        leati_assert(chunks[c].copies_back <= LEATI_RING_COPIES_BACK &&
                     (chunks[c].copies_back || chunks[c].after <= c));
    }
}

/* The chunks cover whole blocks of storage. Removes the bytes before and behind the copy from the first and the
 * last chunk. */
static void trim(const struct leati_cut *cut, struct leati_chunk *chunks, uint32_t count, size_t all)
{
    for (uint32_t c = 1; c < count; c++)
        chunks[c].offset -= cut->lead_bytes;
    leati_assert(chunks[0].bytes > cut->lead_bytes);
    chunks[0].lead_bytes = cut->lead_bytes;
    chunks[0].bytes -= cut->lead_bytes;
    chunks[0].place += cut->lead_bytes;
    leati_assert(chunks[count - 1].bytes > all - cut->lead_bytes - cut->bytes);
    chunks[count - 1].bytes -= all - cut->lead_bytes - cut->bytes;
}

uint32_t leati_staging_cut(const struct leati_cut *cut, struct leati_chunk *chunks)
{
    unsigned chunks_in_ring = cut->chunks_in_ring ? cut->chunks_in_ring : CHUNKS_IN_RING;
    size_t most = round_up(cut->ring_bytes / chunks_in_ring, PAGE_BYTES);
    size_t size = cut->out ? LAST_OUT_BYTES : cut->follows ? most : FIRST_IN_BYTES;
    size_t all = cut->in_blocks ? round_up(cut->bytes + cut->lead_bytes, PAGE_BYTES) : cut->bytes, left = all;
    uint32_t count = 0;

    leati_assert(cut->bytes && (!cut->queue || !cut->out) && (!cut->follows || cut->queue));
    leati_assert(cut->in_blocks ? cut->lead_bytes < PAGE_BYTES && !cut->most_bytes && !cut->unit_bytes
                                : !cut->lead_bytes);
    /* If the whole copy fits into the ring, the ring does not limit the size of chunks. */
    if (!cut->ring_bytes || cut->ring_bytes >= all)
        most = all;
    if (cut->most_bytes && most > cut->most_bytes / 5 * 4)
        most = cut->most_bytes / 5 * 4; /* 4/5, because next_size() may make the last chunk a quarter larger */
    if (cut->even_bytes)
        size = most = cut->even_bytes < most ? cut->even_bytes : most;
    if (!cut->ring_bytes)
        size = most = HOST_CHUNK_BYTES;
    most = whole_units(cut, most);
    size = whole_units(cut, size < most ? size : most);
    while (left) {
        size_t bytes = next_size(size, left);

        leati_assert(bytes && bytes <= left);
        if (chunks)
            chunks[count].bytes = bytes;
        left -= bytes;
        size = grow(cut, size, most);
        count++;
    }
    if (!chunks)
        return count;
    for (uint32_t c = 0; cut->out && c < count / 2; c++) {
        size_t kept = chunks[c].bytes;

        chunks[c].bytes = chunks[count - 1 - c].bytes;
        chunks[count - 1 - c].bytes = kept;
    }
    for (uint32_t c = 0; c < count; c++) {
        chunks[c].offset = c ? chunks[c - 1].offset + chunks[c - 1].bytes : 0;
        chunks[c].lead_bytes = 0;
        set_parts(cut, &chunks[c]);
    }
    if (cut->ring_bytes)
        place_all(cut, chunks, count);
    if (cut->in_blocks)
        trim(cut, chunks, count, all);
    leati_assert(chunks[count - 1].offset + chunks[count - 1].bytes == cut->bytes);
    return count;
}
