/*
 * layout_kernels.c - the kernels of leat_copy_layout(), and the slower ones that show why they are as they are.
 *
 * As builtin_kernels.c one source for all devices: PTX, AMD code objects, and functions for the CPU device, which
 * launches them for tests only (LEAT_LAYOUT_AS_GPU). layout/gpu.c chooses the kernel and fills in the task.
 *
 * What all of them have in common: a GPU's memory is fast only for neighbouring threads that touch neighbouring
 * bytes, best 16 of them each, with several reads under way before the first write; and indices are taken apart by
 * 32-bit multiplications, 64 bits being for the sums of bytes alone.
 */
#if !defined(__NVPTX__) && !defined(__AMDGCN__)
#define LEAT_CPU_KERNEL_EXPORT __attribute__((visibility("hidden")))
#endif
#include "kernels/layout_task.h"
#include "kernels/phases.h"

typedef struct leati_layout_task layout_task;

/* Always: numbers that callers know shall be known within, so that arrays become registers. */
#define INLINE static inline __attribute__((always_inline))

typedef uint8_t unit_1 __attribute__((may_alias));
typedef uint16_t unit_2 __attribute__((may_alias));
typedef uint32_t unit_4 __attribute__((may_alias));
typedef uint64_t unit_8 __attribute__((may_alias));
typedef uint32_t unit_16 __attribute__((vector_size(16), may_alias));

#define WORD_BYTES 16

INLINE uint32_t divide(uint32_t number, const struct leati_divisor *by)
{
    return ((uint32_t)(((uint64_t)number * by->multiplier) >> 32) + number) >> by->shift;
}

/* ---- where an item is ---- */

struct spot {
    int64_t dst, src;   /* bytes from the task's */
    int64_t entry;      /* of the list */
    uint32_t elsewhere; /* 0 where only the list's dimension is not at its beginning */
};

/* Adds what number is worth in dimensions first to end - 1, of which the first runs fastest. */
INLINE void walk(const layout_task *task, uint32_t first, uint32_t end, uint32_t number, struct spot *spot)
{
    KEEP_LOOP
    for (uint32_t k = first; k < end; k++) {
        const struct leati_task_dim *dim = &task->dim[k];
        uint32_t rest = k + 1 < end ? divide(number, &dim->by) : 0, digit = number - rest * dim->by.size;

        number = rest;
        spot->dst += digit * dim->dst;
        spot->src += digit * dim->src;
        if (task->list) {
            spot->entry += (int64_t)digit * dim->entries;
            spot->elsewhere |= dim->entries ? 0 : digit;
        }
    }
}

/* Looks the spot's entry up. 0: it is out of bounds, which is counted once, and nothing may be copied. */
INLINE int look_up(const layout_task *task, struct spot *spot)
{
    int64_t index;

    if (task->list_entry_bytes == 4)
        index = ((const GLOBAL int32_t *)(uintptr_t)task->list)[spot->entry];
    else
        index = ((const GLOBAL int64_t *)(uintptr_t)task->list)[spot->entry];
    if (index < 0 || index >= task->list_bound) {
        if (!spot->elsewhere && task->wrong)
            leat_atomic_add_u64((uintptr_t)task->wrong, 1);
        return 0;
    }
    spot->dst += index * task->list_dst;
    spot->src += index * task->list_src;
    return 1;
}

/* A block's share of the items, for elements and rows. */
struct share {
    struct spot spot; /* of the block */
    uint64_t piece;
    uint32_t first, end; /* items */
};

INLINE struct share find_share(const layout_task *task, uint32_t block, uint32_t items)
{
    uint32_t outer = divide(block, &task->blocks);
    struct share share = {.first = (block - outer * task->blocks.size) * items, .end = task->items};

    if (task->pieces > 1) {
        share.piece = outer - divide(outer, &task->dim[task->inner].by) * task->pieces;
        if (share.piece == task->pieces - 1)
            share.end = task->last_items;
    }
    walk(task, task->inner, task->dims, outer, &share.spot);
    return share;
}

INLINE GLOBAL char *dst_at(const layout_task *task, int64_t offset)
{
    return (GLOBAL char *)(uintptr_t)(task->dst + (uint64_t)offset);
}

INLINE const GLOBAL char *src_at(const layout_task *task, int64_t offset)
{
    return (const GLOBAL char *)(uintptr_t)(task->src + (uint64_t)offset);
}

/* ---- single units: what every form can be copied by ---- */

#define ELEMENTS_EACH 4 /* under way in each thread; as in layout/gpu.c */

#define COPY_ELEMENTS(type)                                                                                       \
    do {                                                                                                          \
        type held_[ELEMENTS_EACH];                                                                                \
        UNROLL                                                                                                    \
        for (uint32_t k_ = 0; k_ < ELEMENTS_EACH; k_++)                                                           \
            held_[k_] = there[k_] ? *(const GLOBAL type *)src_at(task, spots[k_].src) : (type){0};                \
        UNROLL                                                                                                    \
        for (uint32_t k_ = 0; k_ < ELEMENTS_EACH; k_++)                                                           \
            if (there[k_])                                                                                        \
                *(GLOBAL type *)dst_at(task, spots[k_].dst) = held_[k_];                                          \
    } while (0)

INLINE void copy_elements(const layout_task *task, uint32_t block, uint32_t thread, uint32_t threads)
{
    struct share share = find_share(task, block, threads * ELEMENTS_EACH);
    struct spot spots[ELEMENTS_EACH];
    int there[ELEMENTS_EACH];

    UNROLL
    for (uint32_t k = 0; k < ELEMENTS_EACH; k++) {
        uint32_t item = share.first + k * threads + thread;

        spots[k] = share.spot;
        there[k] = item < share.end;
        if (there[k])
            walk(task, 0, task->inner, item, &spots[k]);
        if (task->list && there[k])
            there[k] = look_up(task, &spots[k]);
    }
    if (task->unit_bytes == 1)
        COPY_ELEMENTS(unit_1);
    else if (task->unit_bytes == 2)
        COPY_ELEMENTS(unit_2);
    else if (task->unit_bytes == 4)
        COPY_ELEMENTS(unit_4);
    else if (task->unit_bytes == 8)
        COPY_ELEMENTS(unit_8);
    else
        COPY_ELEMENTS(unit_16);
}

LEAT_KERNEL(leat_layout_elements, 1, layout_task, task)
{
    copy_elements(&task, leat_block_x(), leat_thread_x(), leat_block_threads_x());
}

/* ---- 16 bytes in registers ---- */

struct word {
    uint32_t part[4];
};

INLINE struct word load_word(const GLOBAL char *from)
{
    unit_16 loaded = *(const GLOBAL unit_16 *)from;
    struct word word = {{loaded[0], loaded[1], loaded[2], loaded[3]}};

    return word;
}

INLINE void store_word(GLOBAL char *to, struct word word)
{
    unit_16 stored = {word.part[0], word.part[1], word.part[2], word.part[3]};

    *(GLOBAL unit_16 *)to = stored;
}

/* Puts a unit into place number k of a word that is 0 there. Both numbers are known to the compiler. */
INLINE void load_into(struct word *word, uint32_t unit, uint32_t k, const GLOBAL char *from)
{
    uint32_t at = k * unit;

    if (unit == 1) {
        word->part[at / 4] |= (uint32_t) * (const GLOBAL unit_1 *)from << at % 4 * 8;
    } else if (unit == 2) {
        word->part[at / 4] |= (uint32_t) * (const GLOBAL unit_2 *)from << at % 4 * 8;
    } else if (unit == 4) {
        word->part[at / 4] = *(const GLOBAL unit_4 *)from;
    } else {
        uint64_t both = *(const GLOBAL unit_8 *)from;

        word->part[at / 4] = (uint32_t)both;
        word->part[at / 4 + 1] = (uint32_t)(both >> 32);
    }
}

INLINE void store_from(const struct word *word, uint32_t unit, uint32_t k, GLOBAL char *to)
{
    uint32_t at = k * unit, part = word->part[at / 4];

    if (unit == 1)
        *(GLOBAL unit_1 *)to = (unit_1)(part >> at % 4 * 8);
    else if (unit == 2)
        *(GLOBAL unit_2 *)to = (unit_2)(part >> at % 4 * 8);
    else if (unit == 4)
        *(GLOBAL unit_4 *)to = part;
    else
        *(GLOBAL unit_8 *)to = part | (uint64_t)word->part[at / 4 + 1] << 32;
}

/* The bytes from number bytes on of two words, one behind the other. The units tell what bytes is a multiple of.
 */
INLINE struct word shift_words(struct word low, struct word high, uint32_t bytes, uint32_t unit)
{
    uint32_t bits = bytes % 4 * 8;
    struct word out;

    if (bytes & 8) {
        low.part[0] = low.part[2], low.part[1] = low.part[3];
        low.part[2] = high.part[0], low.part[3] = high.part[1];
        high.part[0] = high.part[2], high.part[1] = high.part[3];
    }
    if (unit <= 4 && bytes & 4) {
        low.part[0] = low.part[1], low.part[1] = low.part[2], low.part[2] = low.part[3];
        low.part[3] = high.part[0], high.part[0] = high.part[1];
    }
    if (unit >= 4)
        return low;
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t next = k < 3 ? low.part[k < 3 ? k + 1 : 3] : high.part[0];

        out.part[k] = (uint32_t)((low.part[k] | (uint64_t)next << 32) >> bits);
    }
    return out;
}

INLINE struct word repeat_unit(const GLOBAL char *from, uint32_t unit)
{
    struct word word = {{0, 0, 0, 0}};

    if (unit == 16)
        return load_word(from);
    load_into(&word, unit, 0, from);
    if (unit == 1)
        word.part[0] *= 0x01010101u;
    if (unit == 2)
        word.part[0] *= 0x00010001u;
    if (unit <= 4)
        word.part[1] = word.part[0];
    word.part[2] = word.part[0], word.part[3] = word.part[1];
    return word;
}

/* ---- rows: runs of bytes, the same on both sides, or repeated ---- */

/*
 * Items are chunks of 16 bytes that lie on words of the destination; dim[0] are the chunks of a row. A row that
 * begins within a word has a first and a last chunk of which only a part is its own: that goes unit by unit. Where
 * the source lies otherwise across its words than the destination, a chunk is cut out of two words of it.
 * task->splits is 1 where a row repeats one unit of the source.
 */

struct chunk {
    int64_t dst, src;   /* bytes from the task's to the chunk's begin, which may be before the row's */
    uint32_t low, high; /* bytes of the chunk that are the row's */
};

/* Cuts a chunk at the ends of its row; place: its first byte's in the row, if the row began with a word. */
INLINE struct chunk cut_chunk(const layout_task *task, const struct spot *spot, uint64_t place, uint32_t unit,
                              uint32_t *before)
{
    uint32_t apart = unit == 16 ? 0 : (uint32_t)(task->dst + (uint64_t)spot->dst) % WORD_BYTES;
    struct chunk chunk = {.dst = spot->dst - apart, .src = spot->src - (task->splits ? 0 : apart)};
    uint64_t left = task->row_bytes + apart - place; /* wraps below 0 for a chunk that is not needed */

    chunk.low = place ? 0 : apart;
    chunk.high = left < WORD_BYTES ? (uint32_t)left : WORD_BYTES;
    if (task->row_bytes + apart <= place)
        chunk.high = 0;
    *before = apart;
    return chunk;
}

/* A whole chunk of a source that may lie across its words. place: of the chunk's first byte in the row. */
INLINE int load_chunk(const layout_task *task, const struct chunk *chunk, uint64_t place, uint32_t unit,
                      struct word *word)
{
    const GLOBAL char *from = src_at(task, chunk->src);
    uint32_t across = unit == 16 ? 0 : (uint32_t)(uintptr_t)from % WORD_BYTES;

    if (!across) {
        *word = load_word(from);
        return 1;
    }
    /* The two words must not reach past the row: that may be the end of the memory. */
    if (place < across || place + 2 * WORD_BYTES - across > task->row_bytes)
        return 0;
    *word = shift_words(load_word(from - across), load_word(from - across + WORD_BYTES), across, unit);
    return 1;
}

INLINE struct word load_units(const layout_task *task, const struct chunk *chunk, uint32_t unit)
{
    struct word word = {{0, 0, 0, 0}};

    UNROLL
    for (uint32_t k = 0; k < WORD_BYTES / unit; k++)
        if (k * unit >= chunk->low && k * unit < chunk->high)
            load_into(&word, unit, k, src_at(task, chunk->src + k * unit));
    return word;
}

INLINE void store_chunk(const layout_task *task, const struct chunk *chunk, uint32_t unit, struct word word)
{
    if (unit == 16 || (!chunk->low && chunk->high == WORD_BYTES)) {
        store_word(dst_at(task, chunk->dst), word);
        return;
    }
    UNROLL
    for (uint32_t k = 0; k < WORD_BYTES / unit; k++)
        if (k * unit >= chunk->low && k * unit < chunk->high)
            store_from(&word, unit, k, dst_at(task, chunk->dst + k * unit));
}

INLINE struct word get_chunk(const layout_task *task, const struct chunk *chunk, uint64_t place, uint32_t unit)
{
    struct word word;

    if (task->splits)
        return repeat_unit(src_at(task, chunk->src), unit);
    if (unit == 16 || (!chunk->low && chunk->high == WORD_BYTES))
        if (load_chunk(task, chunk, place, unit, &word))
            return word;
    return load_units(task, chunk, unit);
}

/* Chunks under way in each thread; as in layout/gpu.c. */
#define ROWS_EACH(unit) ((unit) >= 4 ? 4u : 2u)

INLINE void copy_rows(const layout_task *task, uint32_t unit, uint32_t block, uint32_t thread, uint32_t threads)
{
    struct share share = find_share(task, block, threads * ROWS_EACH(unit));
    struct chunk chunks[ROWS_EACH(1) + 2];
    struct word words[ROWS_EACH(1) + 2];

    UNROLL
    for (uint32_t k = 0; k < ROWS_EACH(unit); k++) {
        uint32_t item = share.first + k * threads + thread, before, in_row, row;
        struct spot spot = share.spot;
        uint64_t place;

        chunks[k].high = 0;
        if (item < share.end) {
            /* The chunk in its row, and the row. */
            row = divide(item, &task->dim[0].by);
            in_row = task->inner > 1 ? item - row * task->dim[0].by.size : item;
            place = share.piece * task->piece_bytes + (uint64_t)in_row * WORD_BYTES;
            spot.dst += in_row * task->dim[0].dst;
            spot.src += in_row * task->dim[0].src;
            spot.elsewhere |= in_row;
            if (task->inner > 1)
                walk(task, 1, task->inner, row, &spot);
            if (!task->list || look_up(task, &spot)) {
                chunks[k] = cut_chunk(task, &spot, place, unit, &before);
                if (chunks[k].high > chunks[k].low)
                    words[k] = get_chunk(task, &chunks[k], place - before, unit);
            }
        }
    }
    UNROLL
    for (uint32_t k = 0; k < ROWS_EACH(unit); k++)
        if (chunks[k].high > chunks[k].low)
            store_chunk(task, &chunks[k], unit, words[k]);
}

#define ROWS(unit)                                                                                                \
    LEAT_KERNEL(leat_layout_rows_##unit, 1, layout_task, task)                                                    \
    {                                                                                                             \
        copy_rows(&task, unit, leat_block_x(), leat_thread_x(), leat_block_threads_x());                          \
    }

ROWS(1)
ROWS(2)
ROWS(4)
ROWS(8)
ROWS(16)

/* ---- the steps to a fast transpose ---- */

/* Neighbouring threads read neighbours, and each writes to a row of its own: of every 32 bytes that the memory is
 * given 4 are new. */
LEAT_KERNEL(leat_transpose_naive_u32, 4, uint32_t *, dst, const uint32_t *, src, uint64_t, rows, uint64_t, columns)
{
    uint64_t item = leat_global_index();

    if (item < rows * columns) {
        uint64_t row = item / columns, column = item - row * columns;

        dst[column * rows + row] = src[item];
    }
}

#define LADDER_TILE 32
#define LADDER_ROWS 8 /* that 256 threads read at once */

/* A tile passes through shared memory, so that both sides see neighbours; pitch says how far apart its rows are
 * there. With 32 words a column of the tile is in a single bank, which gives one word at a time. */
#define LADDER(name, pitch)                                                                                       \
    LEAT_KERNEL(name, 4, uint32_t *, dst, const uint32_t *, src, uint64_t, rows, uint64_t, columns)               \
    {                                                                                                             \
        SHARED_ARRAY(uint32_t, tile, LADDER_TILE *(pitch));                                                       \
        uint32_t across = (uint32_t)((columns + LADDER_TILE - 1) / LADDER_TILE);                                  \
        uint64_t row = (uint64_t)(leat_block_x() / across) * LADDER_TILE;                                         \
        uint64_t column = (uint64_t)(leat_block_x() % across) * LADDER_TILE;                                      \
                                                                                                                  \
        PHASE(t)                                                                                                  \
        {                                                                                                         \
            uint32_t x = t % LADDER_TILE;                                                                         \
                                                                                                                  \
            UNROLL                                                                                                \
            for (uint32_t y = t / LADDER_TILE; y < LADDER_TILE; y += LADDER_ROWS)                                 \
                if (row + y < rows && column + x < columns)                                                       \
                    tile[y * (pitch) + x] = src[(row + y) * columns + column + x];                                \
        }                                                                                                         \
        BARRIER();                                                                                                \
        PHASE(t)                                                                                                  \
        {                                                                                                         \
            uint32_t x = t % LADDER_TILE;                                                                         \
                                                                                                                  \
            UNROLL                                                                                                \
            for (uint32_t y = t / LADDER_TILE; y < LADDER_TILE; y += LADDER_ROWS)                                 \
                if (column + y < columns && row + x < rows)                                                       \
                    dst[(column + y) * rows + row + x] = tile[x * (pitch) + y];                                   \
        }                                                                                                         \
    }

LADDER(leat_transpose_shared_u32, LADDER_TILE)
LADDER(leat_transpose_padded_u32, LADDER_TILE + 1)
