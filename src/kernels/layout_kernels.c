/*
 * layout_kernels.c - defines the kernels of leat_copy_layout(), and slower kernels that show what each
 * optimization gains.
 *
 * Like builtin_kernels.c, this is one source for all devices: it becomes PTX, AMD code objects, and functions for
 * the CPU device, which launches them only for tests (LEAT_LAYOUT_AS_GPU). layout/gpu.c chooses the kernel and
 * fills in the task.
 *
 * All kernels follow two rules. Neighbouring threads access neighbouring bytes, if possible 16 each, and each
 * thread starts several loads before its first store, because a GPU's memory is fast only then. Divisions of
 * indices are replaced by 32-bit multiplications, and only byte offsets have 64 bits.
 */
#if !defined(__NVPTX__) && !defined(__AMDGCN__)
#define LEAT_CPU_KERNEL_EXPORT __attribute__((visibility("hidden")))
#endif
#include "kernels/device_units.h"
#include "kernels/layout_task.h"
#include "kernels/phases.h"

typedef struct leati_layout_task layout_task;

#define SECTOR_BYTES 32 /* a GPU writes its memory in sectors of this size */

/* ---- where an item is ---- */

struct spot {
    int64_t dst, src;   /* byte offsets from the task's addresses */
    int64_t entry;      /* number of the entry in the list */
    uint32_t elsewhere; /* 0 if the indices of all dimensions without the list are 0 */
};

/* Returns the spot where a copy of the launch begins. copy: its number, the y of the block. */
INLINE struct spot first_spot(const layout_task *task, uint32_t copy)
{
    struct spot spot = {.dst = 0};

    if (task->places) {
        spot.dst = (int64_t)task->place[leati_task_place_of(copy)].dst;
        spot.src = (int64_t)task->place[leati_task_place_of(copy)].src;
    }
    return spot;
}

/* Returns the address to which src_first and src_end of the task are relative. */
INLINE uint64_t range_base(const layout_task *task, uint32_t copy)
{
    return task->places ? task->place[leati_task_place_of(copy)].src - LEATI_TASK_REACH : 0;
}

/* Splits number into indices of the dimensions first to end - 1, of which the first is the fastest. Adds the
 * offsets of these indices to *spot. */
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

/* Looks up the spot's entry in the list and adds the offset of its index. Returns 0 if the index is out of bounds.
 * Then the caller must copy nothing. Only the item with elsewhere 0 counts the wrong index. */
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

/* The items that a block copies, in the kernels for single units and for rows. */
struct share {
    struct spot spot; /* offset of the block, from the dimensions that the block number counts */
    uint64_t piece;
    uint32_t first, end; /* the block's items are first to end - 1 */
};

INLINE struct share find_share(const layout_task *task, uint32_t copy, uint32_t block, uint32_t items)
{
    uint32_t outer = divide(block, &task->blocks);
    struct share share = {
        .spot = first_spot(task, copy), .first = (block - outer * task->blocks.size) * items, .end = task->items};

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

/* ---- single units: can copy every layout ---- */

#define ELEMENTS_EACH 4 /* number of units that each thread copies; as in layout/gpu.c */

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

INLINE void copy_elements(const layout_task *task, uint32_t copy, uint32_t block, uint32_t thread,
                          uint32_t threads)
{
    struct share share = find_share(task, copy, block, threads * ELEMENTS_EACH);
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
    copy_elements(&task, leat_block_y(), leat_block_x(), leat_thread_x(), leat_block_threads_x());
}

/* ---- 16 bytes in registers ---- */

/* Permutes bytes: byte k of chosen says which byte becomes byte k of the result, a byte of a (0 to 3) or of b
 * (4 to 7). */
INLINE uint32_t pick(uint32_t a, uint32_t b, uint32_t chosen)
{
#if defined(__NVPTX__)
    return (uint32_t)__nvvm_prmt(
        a, b, (chosen >> 12 & 0xf000) | (chosen >> 8 & 0xf00) | (chosen >> 4 & 0xf0) | (chosen & 0xf));
#elif defined(__AMDGCN__)
    return __builtin_amdgcn_perm(b, a, chosen);
#else
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t out = 0;

    for (uint32_t k = 0; k < 32; k += 8)
        out |= (uint32_t)(both >> (chosen >> k & 7) * 8 & 0xff) << k;
    return out;
#endif
}

/* Loads a unit into the k-th place of a word, where the word must be 0. unit and k are compile-time constants. */
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

/* Returns 16 bytes of two consecutive words, beginning at offset `bytes`. This offset is a multiple of unit, so
 * the compiler can omit steps. */
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

/* Returns true if load_any_word() may read at this address. It reads aligned words, which must not extend beyond
 * the bytes of the source, because the memory outside of them may not be mapped. base: see range_base(); 0 in
 * kernels whose launches make one copy. */
INLINE int is_readable(const layout_task *task, uint64_t base, const GLOBAL char *from)
{
    uint64_t at = (uint64_t)(uintptr_t)from, across = at % WORD_BYTES;

    at -= base;
    return at - across >= task->src_first && at + (across ? 2 * WORD_BYTES - across : WORD_BYTES) <= task->src_end;
}

/* Loads 16 bytes from an address that need not be aligned to 16. Always makes two aligned loads and has no branch,
 * so that the loads of several words can overlap. */
INLINE struct word load_any_word(const GLOBAL char *from, uint32_t unit)
{
    uint32_t across = unit == WORD_BYTES ? 0 : (uint32_t)(uintptr_t)from % WORD_BYTES;

    if (unit == WORD_BYTES)
        return load_word(from);
    return shift_words(load_word(from - across), load_word(from - across + (across ? WORD_BYTES : 0)), across,
                       unit);
}

INLINE void store_piece(GLOBAL char *to, uint64_t bits, uint32_t bytes)
{
    if (bytes == 1)
        *(GLOBAL unit_1 *)to = (unit_1)bits;
    else if (bytes == 2)
        *(GLOBAL unit_2 *)to = (unit_2)bits;
    else if (bytes == 4)
        *(GLOBAL unit_4 *)to = (unit_4)bits;
    else
        *(GLOBAL unit_8 *)to = bits;
}

/* Stores the first bytes of a word, fewer than 16, in as few aligned stores as possible: first in stores of
 * increasing size until the address is aligned, then in stores of decreasing size. */
INLINE void store_part(GLOBAL char *to, struct word word, uint32_t bytes, uint32_t unit)
{
    uint64_t low = word.part[0] | (uint64_t)word.part[1] << 32, high = word.part[2] | (uint64_t)word.part[3] << 32;

    UNROLL
    for (uint32_t step = 0; step < 8; step++) {
        uint32_t piece = step < 4 ? 1u << step : 128u >> step; /* bytes: 1, 2, 4, 8, 8, 4, 2, 1 */

        if (piece < unit || bytes < piece || (step < 4 && !((uintptr_t)to & piece)))
            continue;
        store_piece(to, low, piece);
        low = piece == 8 ? high : low >> piece * 8 % 64 | high << (64 - piece * 8) % 64;
        high >>= piece * 8 % 64;
        to += piece;
        bytes -= piece;
    }
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

/* ---- rows: runs of bytes on the destination ---- */

/*
 * Items are chunks of 16 bytes that are aligned on the destination. dim[0] counts the chunks of a row. If a row is
 * not aligned, only parts of its first and its last chunk belong to it, and these parts are written in smaller
 * stores.
 */

/* How the units of a row lie on the source. All code for one of them is chosen at compile time. */
enum row_source {
    /* Without gaps. If the source has another alignment than the destination, a chunk is composed of two aligned
     * words of the source by shifts. If task->splits is 1, each row repeats one unit of the source. */
    RUNS,
    STRIDED, /* with a stride, which may be negative; units are loaded one by one */
    LISTED   /* at the indices of the list, which has one entry for each unit of a row */
};

struct chunk {
    int64_t dst, src;   /* byte offsets of the chunk; the first chunk may begin before its row */
    uint32_t low, high; /* bytes low to high - 1 of the chunk belong to the row */
    int32_t entry;      /* for LISTED: number of the list's entry for the chunk's first unit */
};

/* Returns the bytes of the source from one unit of a strided row to the next. */
INLINE int64_t stride_of(const layout_task *task, uint32_t unit)
{
    return task->dim[0].src / (WORD_BYTES / (int64_t)unit);
}

/* Computes the offsets of a chunk, and which of its bytes belong to its row. place is 16 times the chunk's number
 * in the row. */
INLINE struct chunk cut_chunk(const layout_task *task, enum row_source source, const struct spot *spot,
                              uint64_t place, uint32_t unit)
{
    uint32_t apart = unit == 16 ? 0 : (uint32_t)(task->dst + (uint64_t)spot->dst) % WORD_BYTES;
    struct chunk chunk = {.dst = spot->dst - apart, .src = spot->src};
    uint64_t left = task->row_bytes + apart - place; /* wraps around if the chunk is behind the end of the row */

    if (source == RUNS)
        chunk.src -= task->splits ? 0 : apart;
    else if (source == STRIDED)
        chunk.src -= apart / unit * stride_of(task, unit);
    else
        chunk.entry = (int32_t)(uint32_t)(place / unit) - (int32_t)(apart / unit);
    chunk.low = place ? 0 : apart;
    chunk.high = left < WORD_BYTES ? (uint32_t)left : WORD_BYTES;
    if (task->row_bytes + apart <= place)
        chunk.high = 0;
    return chunk;
}

INLINE struct word load_units(const layout_task *task, const struct chunk *chunk, uint32_t unit, int64_t stride)
{
    struct word word = {{0, 0, 0, 0}};

    UNROLL
    for (uint32_t k = 0; k < WORD_BYTES / unit; k++)
        if (k * unit >= chunk->low && k * unit < chunk->high)
            load_into(&word, unit, k, src_at(task, chunk->src + k * stride));
    return word;
}

/* Loads a chunk. Bytes of it that do not belong to the row may have any value. base: see range_base(). */
INLINE struct word get_chunk(const layout_task *task, uint64_t base, const struct chunk *chunk, uint32_t unit)
{
    const GLOBAL char *from = src_at(task, chunk->src);

    if (task->splits)
        return repeat_unit(from, unit);
    if (unit == WORD_BYTES || is_readable(task, base, from))
        return load_any_word(from, unit);
    return load_units(task, chunk, unit, unit);
}

INLINE struct word reverse_units(struct word word, uint32_t unit)
{
    struct word out = {{word.part[3], word.part[2], word.part[1], word.part[0]}};

    if (unit == 8)
        return (struct word){{word.part[2], word.part[3], word.part[0], word.part[1]}};
    UNROLL
    for (uint32_t k = 0; k < 4; k++)
        if (unit < 4)
            out.part[k] = pick(out.part[k], 0, unit == 1 ? 0x00010203u : 0x01000302u);
    return out;
}

/* The same as get_chunk() for a strided row. A row that is only reversed is loaded in words. */
INLINE struct word get_strided(const layout_task *task, uint64_t base, const struct chunk *chunk, uint32_t unit)
{
    int64_t stride = stride_of(task, unit);
    const GLOBAL char *from = src_at(task, chunk->src - (WORD_BYTES - (int64_t)unit));

    if (stride == -(int64_t)unit && is_readable(task, base, from))
        return reverse_units(load_any_word(from, unit), unit);
    if (!chunk->low && chunk->high == WORD_BYTES) {
        const struct chunk whole = {.src = chunk->src, .high = WORD_BYTES};

        return load_units(task, &whole, unit, stride);
    }
    return load_units(task, chunk, unit, stride);
}

/* The same as get_chunk() for a row with a list, whose entries have entry_bytes, a compile-time constant. The bits
 * of *units stand for the units of the chunk. Clears those whose index is out of bounds, and does not load these
 * units. Loads several entries before the first unit. */
INLINE struct word get_by_list(const layout_task *task, const struct chunk *chunk, uint32_t unit,
                               uint32_t entry_bytes, uint32_t *units)
{
    const GLOBAL char *entry =
        (const GLOBAL char *)(uintptr_t)(task->list + (uint64_t)((int64_t)chunk->entry * entry_bytes));
    struct word word = {{0, 0, 0, 0}};
    const uint32_t count = WORD_BYTES / unit, each = count < 4 ? count : 4;

    UNROLL
    for (uint32_t first = 0; first < count; first += each) {
        int64_t index[4];

        UNROLL
        for (uint32_t k = 0; k < each; k++) {
            const GLOBAL char *at = entry + (first + k) * entry_bytes;

            index[k] = -1;
            if (*units >> (first + k) & 1)
                index[k] = entry_bytes == 4 ? *(const GLOBAL int32_t *)at : *(const GLOBAL int64_t *)at;
        }
        UNROLL
        for (uint32_t k = 0; k < each; k++)
            if ((uint64_t)index[k] < (uint64_t)task->list_bound)
                load_into(&word, unit, first + k, src_at(task, chunk->src + index[k] * task->list_src));
            else
                *units &= ~(1u << (first + k));
    }
    return word;
}

/* Stores only the units of a word whose bit is set. */
INLINE void store_units(GLOBAL char *to, struct word word, uint32_t units, uint32_t unit)
{
    KEEP_LOOP
    for (; units; units >>= 1) {
        if (units & 1)
            store_piece(to, word.part[0] | (uint64_t)word.part[1] << 32, unit);
        word = shift_words(word, (struct word){{0, 0, 0, 0}}, unit, unit);
        to += unit;
    }
}

/* The same as get_chunk() for a row with a list. If an index is out of bounds, counts it, stores the other units
 * of the chunk, and makes the chunk empty. elsewhere: see struct spot. */
INLINE struct word get_listed(const layout_task *task, struct chunk *chunk, uint32_t elsewhere, uint32_t unit)
{
    const uint32_t all = (1u << chunk->high / unit) - (1u << chunk->low / unit);
    uint32_t units = all;
    struct word word = task->list_entry_bytes == 4 ? get_by_list(task, chunk, unit, 4, &units)
                                                   : get_by_list(task, chunk, unit, 8, &units);

    if (units != all) {
        if (!elsewhere && task->wrong)
            leat_atomic_add_u64((uintptr_t)task->wrong, (uint32_t)__builtin_popcount(all - units));
        store_units(dst_at(task, chunk->dst), word, units, unit);
        chunk->high = 0;
    }
    return word;
}

INLINE void store_chunk(const layout_task *task, const struct chunk *chunk, uint32_t unit, struct word word)
{
    struct word none = {{0, 0, 0, 0}};

    if (unit == WORD_BYTES || (!chunk->low && chunk->high == WORD_BYTES))
        store_word(dst_at(task, chunk->dst), word);
    else
        store_part(dst_at(task, chunk->dst + chunk->low), shift_words(word, none, chunk->low, unit),
                   chunk->high - chunk->low, unit);
}

/* The number of chunks that each thread copies; as in layout/gpu.c. */
#define ROWS_EACH 4u

INLINE void copy_rows(const layout_task *task, enum row_source source, uint32_t unit, uint32_t copy,
                      uint32_t block, uint32_t thread, uint32_t threads)
{
    struct share share = find_share(task, copy, block, threads * ROWS_EACH);
    struct chunk chunks[ROWS_EACH];
    struct word words[ROWS_EACH];

    UNROLL
    for (uint32_t k = 0; k < ROWS_EACH; k++) {
        uint32_t item = share.first + k * threads + thread, in_row, row;
        struct spot spot = share.spot;
        uint64_t place;

        chunks[k].high = 0;
        if (item < share.end) {
            /* row is the number of the row, in_row the number of the chunk in the row. */
            row = divide(item, &task->dim[0].by);
            in_row = task->inner > 1 ? item - row * task->dim[0].by.size : item;
            place = share.piece * task->piece_bytes + (uint64_t)in_row * WORD_BYTES;
            spot.dst += in_row * task->dim[0].dst;
            spot.src += in_row * task->dim[0].src;
            if (source != LISTED)
                spot.elsewhere |= in_row;
            if (task->inner > 1)
                walk(task, 1, task->inner, row, &spot);
            if (source == LISTED || !task->list || look_up(task, &spot)) {
                chunks[k] = cut_chunk(task, source, &spot, place, unit);
                if (chunks[k].high > chunks[k].low)
                    words[k] = source == RUNS      ? get_chunk(task, range_base(task, copy), &chunks[k], unit)
                               : source == STRIDED ? get_strided(task, range_base(task, copy), &chunks[k], unit)
                                                   : get_listed(task, &chunks[k], spot.elsewhere, unit);
            }
        }
    }
    UNROLL
    for (uint32_t k = 0; k < ROWS_EACH; k++)
        if (chunks[k].high > chunks[k].low)
            store_chunk(task, &chunks[k], unit, words[k]);
}

#define ROWS(name, source, unit)                                                                                  \
    LEAT_KERNEL(leat_layout_##name##_##unit, 1, layout_task, task)                                                \
    {                                                                                                             \
        copy_rows(&task, source, unit, leat_block_y(), leat_block_x(), leat_thread_x(), leat_block_threads_x());  \
    }

ROWS(rows, RUNS, 1)
ROWS(rows, RUNS, 2)
ROWS(rows, RUNS, 4)
ROWS(rows, RUNS, 8)
ROWS(rows, RUNS, 16)
ROWS(strided, STRIDED, 1)
ROWS(strided, STRIDED, 2)
ROWS(strided, STRIDED, 4)
ROWS(strided, STRIDED, 8)
ROWS(listed, LISTED, 1)
ROWS(listed, LISTED, 2)
ROWS(listed, LISTED, 4)
ROWS(listed, LISTED, 8)

/* ---- tiles: bytes that are neighbours on one side are far apart on the other ---- */

/*
 * Unit (i, j) of a tile is unit i of line j on the destination, and unit j of line i on the source. The dimensions
 * that continue each other on the destination are counted together by i, the dimensions that continue each other
 * on the source by j. So lines are long even if each dimension is short. If i or j counts several dimensions, a
 * table in shared memory has the offset of each line.
 *
 * Both sides are accessed in whole words of 16 bytes. A thread reads a square: if a word has n units, the square
 * is one word from each of n lines. The thread transposes the square in its registers and writes the resulting
 * words into shared memory. There word b of line j is at position b ^ (j / units & 7) of its line. With this
 * swizzle eight neighbouring threads use each of the 32 banks once, both when they write along j and when they
 * read along i.
 */

#define UNITS(unit) (WORD_BYTES / (unit))
#define WORDS_MOST 16 /* maximum number of words that a thread holds in registers */

/* Composes 4 bytes of a permutation: at[b] is the number of the byte in before[] that becomes byte b. Needs one
 * pick() fewer than the bytes come from different words of 4 bytes. at is a compile-time constant. */
INLINE uint32_t compose_bytes(const uint32_t *before, const uint32_t *at)
{
    uint32_t value, other = 0, chosen = 0;

    if (at[0] % 4 == 0 && at[1] == at[0] + 1 && at[2] == at[0] + 2 && at[3] == at[0] + 3)
        return before[at[0] / 4];
    UNROLL
    for (uint32_t b = 1; b < 4; b++)
        if (!other && at[b] / 4 != at[0] / 4)
            other = b;
    UNROLL
    for (uint32_t b = 0; b < 4; b++)
        if (at[b] / 4 == at[0] / 4)
            chosen |= at[b] % 4 << b * 8;
        else if (at[b] / 4 == at[other] / 4)
            chosen |= (4 + at[b] % 4) << b * 8;
    value = pick(before[at[0] / 4], before[at[other] / 4], chosen);
    UNROLL
    for (uint32_t b = 2; b < 4; b++) {
        int known = at[b] / 4 == at[0] / 4 || at[b] / 4 == at[other] / 4 || (b == 3 && at[3] / 4 == at[2] / 4);

        if (known)
            continue;
        chosen = 0;
        UNROLL
        for (uint32_t m = 0; m < 4; m++)
            chosen |= (at[m] / 4 == at[b] / 4 ? 4 + at[m] % 4 : m) << m * 8;
        value = pick(value, before[at[b] / 4], chosen);
    }
    return value;
}

#define LOW_HALVES 0x05040100u
#define HIGH_HALVES 0x07060302u
#define LOW_BYTES 0x05010400u
#define HIGH_BYTES 0x07030602u

INLINE void transpose_2(struct word *words)
{
    struct word out[8];

    UNROLL
    for (uint32_t c = 0; c < 8; c++)
        UNROLL
    for (uint32_t k = 0; k < 4; k++)
        out[c].part[k] =
            pick(words[2 * k].part[c / 2], words[2 * k + 1].part[c / 2], c % 2 ? HIGH_HALVES : LOW_HALVES);
    UNROLL
    for (uint32_t c = 0; c < 8; c++)
        words[c] = out[c];
}

/* Transposes a square of 1-byte units, in blocks of 4 x 4 bytes: first merges pairs of bytes, then pairs of
 * pairs. */
INLINE void transpose_1(struct word *words)
{
    struct word out[16];

    UNROLL
    for (uint32_t k = 0; k < 4; k++)
        UNROLL
    for (uint32_t c = 0; c < 4; c++) {
        uint32_t w0 = words[4 * k].part[c], w1 = words[4 * k + 1].part[c];
        uint32_t w2 = words[4 * k + 2].part[c], w3 = words[4 * k + 3].part[c];
        uint32_t low01 = pick(w0, w1, LOW_BYTES), high01 = pick(w0, w1, HIGH_BYTES);
        uint32_t low23 = pick(w2, w3, LOW_BYTES), high23 = pick(w2, w3, HIGH_BYTES);

        out[4 * c].part[k] = pick(low01, low23, LOW_HALVES);
        out[4 * c + 1].part[k] = pick(low01, low23, HIGH_HALVES);
        out[4 * c + 2].part[k] = pick(high01, high23, LOW_HALVES);
        out[4 * c + 3].part[k] = pick(high01, high23, HIGH_HALVES);
    }
    UNROLL
    for (uint32_t c = 0; c < 16; c++)
        words[c] = out[c];
}

INLINE void transpose_words(struct word *words, uint32_t unit)
{
    struct word out[4];

    if (unit == 1) {
        transpose_1(words);
    } else if (unit == 2) {
        transpose_2(words);
    } else if (unit == 4) {
        UNROLL
        for (uint32_t c = 0; c < 4; c++)
            UNROLL
        for (uint32_t k = 0; k < 4; k++)
            out[c].part[k] = words[k].part[c];
        UNROLL
        for (uint32_t c = 0; c < 4; c++)
            words[c] = out[c];
    } else if (unit == 8) {
        uint32_t part2 = words[0].part[2], part3 = words[0].part[3];

        words[0].part[2] = words[1].part[0], words[0].part[3] = words[1].part[1];
        words[1].part[0] = part2, words[1].part[1] = part3;
    }
}

/* The shape of a kernel's tiles. All fields are compile-time constants. */
struct cut {
    uint32_t unit;             /* size of a unit in bytes */
    uint32_t words_i, words_j; /* the sides of a tile in words: powers of two, at least 8 */
    uint32_t threads;
    int odd;         /* 1 if lines may begin inside words, else 0 */
    uint32_t passes; /* 2 if a tile goes through shared memory in two halves, else 1 */
};

#define TILE_I(cut) ((cut).words_i * WORD_BYTES / (cut).unit)
#define TILE_J(cut) ((cut).words_j * WORD_BYTES / (cut).unit)

/* The number of destination lines in one pass: PASS_UNITS in each square, PASS_J in the whole tile. */
#define PASS_UNITS(cut) (UNITS((cut).unit) / (cut).passes)
#define PASS_J(cut) ((cut).words_j * PASS_UNITS(cut))

struct tile {
    int64_t dst, src;          /* byte offsets of the first unit, without the offsets that the tables have */
    uint64_t i, j;             /* position of the first unit along both sides */
    uint32_t count_i, count_j; /* size of the tile in units; the last tile along a side may be smaller */
};

INLINE struct tile find_tile(const layout_task *task, struct cut cut, uint32_t block)
{
    uint32_t rest = divide(block, &task->tiles_i), along_i = block - rest * task->tiles_i.size;
    uint32_t batch = divide(rest, &task->tiles_j), along_j = rest - batch * task->tiles_j.size;
    struct spot spot = {.dst = 0};
    struct tile tile;

    tile.i = (uint64_t)along_i * task->step_i;
    tile.j = (uint64_t)along_j * TILE_J(cut);
    tile.count_i = task->size_i - tile.i < TILE_I(cut) ? (uint32_t)(task->size_i - tile.i) : TILE_I(cut);
    tile.count_j = task->size_j - tile.j < TILE_J(cut) ? (uint32_t)(task->size_j - tile.j) : TILE_J(cut);
    walk(task, task->middle, task->dims, batch, &spot);
    tile.dst = spot.dst + (int64_t)(tile.i * cut.unit);
    tile.src = spot.src + (int64_t)(tile.j * cut.unit);
    if (task->inner == 1)
        tile.src += (int64_t)tile.i * task->dim[0].src;
    if (task->middle == task->inner + 1)
        tile.dst += (int64_t)tile.j * task->dim[task->inner].dst;
    return tile;
}

/* Fills the tables of line offsets for sides that count several dimensions: first the offsets of source lines i,
 * then those of destination lines j. */
INLINE void fill_tables(const layout_task *task, struct cut cut, const struct tile *tile, uint32_t thread,
                        SHARED int64_t *lines)
{
    if (task->inner > 1)
        for (uint32_t n = thread; n < tile->count_i; n += cut.threads) {
            struct spot spot = {.dst = 0};

            walk(task, 0, task->inner, (uint32_t)tile->i + n, &spot);
            lines[n] = spot.src;
        }
    if (task->middle > task->inner + 1)
        for (uint32_t n = thread; n < tile->count_j; n += cut.threads) {
            struct spot spot = {.dst = 0};

            walk(task, task->inner, task->middle, (uint32_t)tile->j + n, &spot);
            lines[TILE_I(cut) + n] = spot.dst;
        }
}

INLINE const GLOBAL char *src_line(const layout_task *task, const struct tile *tile, const SHARED int64_t *lines,
                                   uint32_t i)
{
    return src_at(task, tile->src + (task->inner > 1 ? lines[i] : i * task->dim[0].src));
}

INLINE GLOBAL char *dst_line(const layout_task *task, struct cut cut, const struct tile *tile,
                             const SHARED int64_t *lines, uint32_t j)
{
    return dst_at(task, tile->dst + (task->middle > task->inner + 1 ? lines[TILE_I(cut) + j]
                                                                    : j * task->dim[task->inner].dst));
}

/* Returns the number j, in the whole tile, of line n of a pass. */
INLINE uint32_t line_of(struct cut cut, uint32_t pass, uint32_t n)
{
    return n / PASS_UNITS(cut) * UNITS(cut.unit) + pass * PASS_UNITS(cut) + n % PASS_UNITS(cut);
}

INLINE uint32_t word_place(struct cut cut, uint32_t n, uint32_t b)
{
    return leati_tile_place(cut.words_i, PASS_UNITS(cut), n, b);
}

INLINE SHARED char *unit_place(struct cut cut, SHARED unit_16 *words, uint32_t i, uint32_t n)
{
    return (SHARED char *)&words[word_place(cut, n, i / UNITS(cut.unit))] + i % UNITS(cut.unit) * cut.unit;
}

#define MOVE_UNIT(unit, to, to_space, from, from_space)                                                           \
    do {                                                                                                          \
        if ((unit) == 1)                                                                                          \
            *(to_space unit_1 *)(to) = *(const from_space unit_1 *)(from);                                        \
        else if ((unit) == 2)                                                                                     \
            *(to_space unit_2 *)(to) = *(const from_space unit_2 *)(from);                                        \
        else if ((unit) == 4)                                                                                     \
            *(to_space unit_4 *)(to) = *(const from_space unit_4 *)(from);                                        \
        else if ((unit) == 8)                                                                                     \
            *(to_space unit_8 *)(to) = *(const from_space unit_8 *)(from);                                        \
        else                                                                                                      \
            *(to_space unit_16 *)(to) = *(const from_space unit_16 *)(from);                                      \
    } while (0)

/* Copies the part of a thread in a pass into shared memory unit by unit. Used if whole words would extend beyond
 * the bytes of the source. */
INLINE void put_units(const layout_task *task, struct cut cut, const struct tile *tile,
                      const SHARED int64_t *lines, uint32_t pass, uint32_t thread, SHARED unit_16 *words)
{
    const uint32_t units = UNITS(cut.unit), squares = cut.words_i * cut.words_j / cut.threads;
    const uint32_t each = units * PASS_UNITS(cut);

    KEEP_LOOP
    for (uint32_t k = 0; k < squares * each; k++) {
        uint32_t square = thread + k / each * cut.threads;
        uint32_t i = square / cut.words_j * units + k / PASS_UNITS(cut) % units;
        uint32_t n = square % cut.words_j * PASS_UNITS(cut) + k % PASS_UNITS(cut), j = line_of(cut, pass, n);

        if (i < tile->count_i && j < tile->count_j)
            MOVE_UNIT(cut.unit, unit_place(cut, words, i, n), SHARED,
                      src_line(task, tile, lines, i) + j * cut.unit, GLOBAL);
    }
}

/*
 * Computes the source addresses of the words of a thread's squares. full: the tile has its full size, so no checks
 * are needed. Otherwise words outside of the tile get the address of a word inside of it, and their values are
 * never used. Returns 0 if a word would extend beyond the bytes of the source.
 */
INLINE int find_squares(const layout_task *task, struct cut cut, const struct tile *tile,
                        const SHARED int64_t *lines, int full, uint32_t thread, const GLOBAL char **from)
{
    const uint32_t units = UNITS(cut.unit), squares = cut.words_i * cut.words_j / cut.threads;
    int readable = 1;

    UNROLL
    for (uint32_t s = 0; s < squares; s++) {
        uint32_t square = thread + s * cut.threads, bj = square % cut.words_j, bi = square / cut.words_j;
        uint32_t last = full ? 0 : (tile->count_j - 1) / units;

        if (!full && bj > last)
            bj = last;
        UNROLL
        for (uint32_t r = 0; r < units; r++) {
            uint32_t i = bi * units + r;

            if (!full && i >= tile->count_i)
                i = tile->count_i - 1;
            from[s * units + r] = src_line(task, tile, lines, i) + bj * WORD_BYTES;
            if (!full)
                readable &= is_readable(task, 0, from[s * units + r]);
        }
    }
    return readable;
}

/* Writes the words of a thread in a pass into shared memory. In the first pass, also transposes the squares. */
INLINE void put_squares(struct cut cut, uint32_t pass, uint32_t thread, struct word *held, SHARED unit_16 *words)
{
    const uint32_t units = UNITS(cut.unit), squares = cut.words_i * cut.words_j / cut.threads;

    UNROLL
    for (uint32_t s = 0; s < squares; s++) {
        uint32_t square = thread + s * cut.threads, bj = square % cut.words_j, bi = square / cut.words_j;

        if (!pass)
            transpose_words(&held[s * units], cut.unit);
        UNROLL
        for (uint32_t r = 0; r < PASS_UNITS(cut); r++) {
            struct word *word = &held[s * units + pass * PASS_UNITS(cut) + r];
            unit_16 stored = {word->part[0], word->part[1], word->part[2], word->part[3]};

            words[word_place(cut, bj * PASS_UNITS(cut) + r, bi)] = stored;
        }
    }
}

/* Loads the squares of a thread into registers. Returns 0 if whole words would extend beyond the bytes of the
 * source. */
INLINE int read_squares(const layout_task *task, struct cut cut, const struct tile *tile,
                        const SHARED int64_t *lines, int full, uint32_t thread, struct word *held)
{
    const uint32_t squares = cut.words_i * cut.words_j / cut.threads;
    const GLOBAL char *from[WORDS_MOST];
    int readable = find_squares(task, cut, tile, lines, full, thread, from);

    if (!full && !readable)
        return 0;
    UNROLL
    for (uint32_t n = 0; n < squares * UNITS(cut.unit); n++)
        held[n] = cut.odd ? load_any_word(from[n], cut.unit) : load_word(from[n]);
    return 1;
}

/* Reads the squares of a thread and writes them into shared memory, for tiles with a single pass. */
INLINE void read_tile(const layout_task *task, struct cut cut, const struct tile *tile,
                      const SHARED int64_t *lines, int full, uint32_t thread, SHARED unit_16 *words)
{
    struct word held[WORDS_MOST];

    if (!read_squares(task, cut, tile, lines, full, thread, held)) {
        put_units(task, cut, tile, lines, 0, thread, words);
        return;
    }
    put_squares(cut, 0, thread, held, words);
}

INLINE struct word tile_word(struct cut cut, const SHARED unit_16 *words, uint32_t n, uint32_t b)
{
    unit_16 there = words[word_place(cut, n, b)];
    struct word word = {{there[0], there[1], there[2], there[3]}};

    return word;
}

/* Returns 16 bytes of line n of a pass, beginning at offset byte. Bytes beyond the tile may have any value. */
INLINE struct word tile_bytes(struct cut cut, const SHARED unit_16 *words, uint32_t n, uint32_t byte)
{
    uint32_t b = byte / WORD_BYTES, next = byte % WORD_BYTES && b + 1 < cut.words_i ? b + 1 : b;

    return shift_words(tile_word(cut, words, n, b), tile_word(cut, words, n, next), byte % WORD_BYTES, cut.unit);
}

/* The bytes of a line that a tile writes: from offset `from` to end - 1. Aligned words begin at offset body.
 * Offsets count from the line's first byte in the tile. */
struct span {
    uint32_t from, body, end;
};

/*
 * Writing a part of a sector is slow, because the GPU must read the sector first. So if lines do not begin at
 * sectors, neighbouring tiles overlap by a sector. Each tile writes a line from the first sector that begins in
 * the tile to the first sector that begins in the next tile. So only at the two ends of the whole line are sectors
 * written in part.
 */
INLINE struct span find_span(const layout_task *task, struct cut cut, const struct tile *tile,
                             const GLOBAL char *line)
{
    struct span span = {0, 0, tile->count_i * cut.unit};
    uint32_t step = task->step_i * cut.unit, before = (0 - (uint32_t)(uintptr_t)line) % SECTOR_BYTES;

    if (!cut.odd)
        return span;
    if (task->step_i < TILE_I(cut)) {
        if (tile->i)
            span.from = before;
        if (tile->i + task->step_i < task->size_i && step + before < span.end)
            span.end = step + before;
    }
    span.body = span.from + (0 - (uint32_t)(uintptr_t)line - span.from) % WORD_BYTES;
    return span;
}

/* Returns true if a full tile needs no checks of single words. For this its source lines must continue by at least
 * a word at both ends. It must also write only whole words, because its destination lines are aligned or because
 * it overlaps both neighbouring tiles. */
INLINE int is_inner(const layout_task *task, struct cut cut, const struct tile *tile)
{
    int whole_words =
        !task->overlap || (task->step_i < TILE_I(cut) && tile->i && tile->i + task->step_i < task->size_i);

    return whole_words && tile->j >= UNITS(cut.unit) && tile->j + TILE_J(cut) + UNITS(cut.unit) <= task->size_j;
}

/* Writes the aligned words of each line. If a line is not aligned, each word is composed of two words of the tile
 * by shifts. */
INLINE void write_words(const layout_task *task, struct cut cut, const struct tile *tile,
                        const SHARED int64_t *lines, int full, uint32_t pass, uint32_t thread,
                        const SHARED unit_16 *words)
{
    /* A thread writes word number b of each of its lines. */
    const uint32_t each = cut.words_i * PASS_J(cut) / cut.threads, b = thread % cut.words_i;

    /* If word b is in the overlap, the next tile writes it. Check this outside the loop, so that the loads in the
     * loop can overlap in time. */
    if (full && cut.odd && b * WORD_BYTES >= task->step_i * cut.unit)
        return;
    UNROLL
    for (uint32_t k = 0; k < each; k++) {
        uint32_t n = thread / cut.words_i + k * (cut.threads / cut.words_i), j = line_of(cut, pass, n), at;
        GLOBAL char *line = dst_line(task, cut, tile, lines, full || j < tile->count_j ? j : 0);

        if (full && !cut.odd) {
            store_word(line + b * WORD_BYTES, tile_word(cut, words, n, b));
        } else if (full) {
            at = (0 - (uint32_t)(uintptr_t)line) % SECTOR_BYTES * task->overlap + b * WORD_BYTES;
            store_word(line + at, tile_bytes(cut, words, n, at));
        } else {
            struct span span = find_span(task, cut, tile, line);

            at = span.body + b * WORD_BYTES;
            if (j < tile->count_j && at + WORD_BYTES <= span.end)
                store_word(line + at, cut.odd ? tile_bytes(cut, words, n, at) : tile_word(cut, words, n, b));
        }
    }
}

/* Writes the bytes of each line before its first aligned word and after its last aligned word. */
INLINE void write_ends(const layout_task *task, struct cut cut, const struct tile *tile,
                       const SHARED int64_t *lines, uint32_t pass, uint32_t thread, const SHARED unit_16 *words)
{
    KEEP_LOOP
    for (uint32_t k = thread + (cut.odd ? 0 : PASS_J(cut)); k < 2 * PASS_J(cut); k += cut.threads) {
        uint32_t n = k % PASS_J(cut), j = line_of(cut, pass, n), from, end;
        struct span span;
        GLOBAL char *line;

        if (j >= tile->count_j)
            continue;
        line = dst_line(task, cut, tile, lines, j);
        span = find_span(task, cut, tile, line);
        from = span.from;
        end = span.body < span.end ? span.body : span.end;
        if (k >= PASS_J(cut)) {
            from = end + (span.end - end) / WORD_BYTES * WORD_BYTES;
            end = span.end;
        }
        if (from < end)
            store_part(line + from, tile_bytes(cut, words, n, from), end - from, cut.unit);
    }
}

#define TILE_BEGIN(unit_, across_, down_, threads_, odd_, passes_)                                                \
    const struct cut cut = {unit_, across_, down_, threads_, odd_, passes_};                                      \
    SHARED_ARRAY(unit_16, words, UNITS(unit_) * (across_) * (down_) / (passes_));                                 \
    SHARED_ARRAY(int64_t, lines, UNITS(unit_) * ((across_) + (down_)));                                           \
    const struct tile tile = find_tile(&task, cut, leat_block_x());                                               \
    int full =                                                                                                    \
        tile.count_i == TILE_I(cut) && tile.count_j == TILE_J(cut) && (!cut.odd || is_inner(&task, cut, &tile));  \
                                                                                                                  \
    if (task.middle > 2) {                                                                                        \
        PHASE(t)                                                                                                  \
        fill_tables(&task, cut, &tile, t, lines);                                                                 \
        BARRIER();                                                                                                \
    }

#define WRITE_LINES(full_, pass_, t)                                                                              \
    do {                                                                                                          \
        write_words(&task, cut, &tile, lines, full_, pass_, t, words);                                            \
        if (!(full_) && cut.unit < WORD_BYTES)                                                                    \
            write_ends(&task, cut, &tile, lines, pass_, t, words);                                                \
    } while (0)

#define TRANSPOSE(name, unit_, across_, down_, threads_, odd_)                                                    \
    LEAT_KERNEL(name, 1, layout_task, task)                                                                       \
    {                                                                                                             \
        TILE_BEGIN(unit_, across_, down_, threads_, odd_, 1);                                                     \
        PHASE(t)                                                                                                  \
        {                                                                                                         \
            if (full)                                                                                             \
                read_tile(&task, cut, &tile, lines, 1, t, words);                                                 \
            else                                                                                                  \
                read_tile(&task, cut, &tile, lines, 0, t, words);                                                 \
        }                                                                                                         \
        BARRIER();                                                                                                \
        PHASE(t)                                                                                                  \
        {                                                                                                         \
            if (full)                                                                                             \
                WRITE_LINES(1, 0, t);                                                                             \
            else                                                                                                  \
                WRITE_LINES(0, 0, t);                                                                             \
        }                                                                                                         \
    }

/*
 * Transposes in two passes, each with half the lines of every square, so that a tile needs half as much shared
 * memory. This helps because a multiprocessor uses the rest of that memory as L1 cache, which all outstanding
 * loads need. struct squares holds the words of a thread between the passes.
 */
struct squares {
    struct word held[WORDS_MOST];
    int readable;
};

#define HALF(full_, pass_)                                                                                        \
    PHASE(t)                                                                                                      \
    {                                                                                                             \
        if ((full_) || OWN(mine, t).readable)                                                                     \
            put_squares(cut, pass_, t, OWN(mine, t).held, words);                                                 \
        else                                                                                                      \
            put_units(&task, cut, &tile, lines, pass_, t, words);                                                 \
    }                                                                                                             \
    BARRIER();                                                                                                    \
    PHASE(t)                                                                                                      \
    WRITE_LINES(full_, pass_, t)

#define HALVES(full_)                                                                                             \
    do {                                                                                                          \
        PHASE(t)                                                                                                  \
        OWN(mine, t).readable = read_squares(&task, cut, &tile, lines, full_, t, OWN(mine, t).held);              \
        HALF(full_, 0);                                                                                           \
        BARRIER();                                                                                                \
        HALF(full_, 1);                                                                                           \
    } while (0)

#define TRANSPOSE_BY_HALVES(name, unit_, across_, down_, threads_, odd_)                                          \
    LEAT_KERNEL(name, 1, layout_task, task)                                                                       \
    {                                                                                                             \
        OWN_ARRAY(struct squares, mine, threads_);                                                                \
        TILE_BEGIN(unit_, across_, down_, threads_, odd_, 2);                                                     \
        if (full)                                                                                                 \
            HALVES(1);                                                                                            \
        else                                                                                                      \
            HALVES(0);                                                                                            \
    }

/* The kernels for small and wide tiles, for aligned lines and for lines that begin anywhere. The shapes must be as
 * in layout/gpu.c. Two passes are used for the kernels that were faster with them on an H200. */
TRANSPOSE_BY_HALVES(leat_layout_transpose_1, 1, 8, 8, 64, 0)
TRANSPOSE(leat_layout_transpose_2, 2, 8, 8, 64, 0)
TRANSPOSE(leat_layout_transpose_4, 4, 8, 8, 64, 0)
TRANSPOSE(leat_layout_transpose_8, 8, 8, 8, 64, 0)
TRANSPOSE(leat_layout_transpose_16, 16, 8, 8, 64, 0)
TRANSPOSE(leat_layout_transpose_odd_1, 1, 8, 8, 64, 1)
TRANSPOSE(leat_layout_transpose_odd_2, 2, 8, 8, 64, 1)
TRANSPOSE(leat_layout_transpose_odd_4, 4, 8, 8, 64, 1)
TRANSPOSE(leat_layout_transpose_odd_8, 8, 8, 8, 64, 1)
TRANSPOSE(leat_layout_transpose_odd_16, 16, 8, 8, 64, 1)
TRANSPOSE_BY_HALVES(leat_layout_transpose_wide_1, 1, 8, 16, 128, 0)
TRANSPOSE(leat_layout_transpose_wide_2, 2, 16, 16, 256, 0)
TRANSPOSE(leat_layout_transpose_wide_4, 4, 16, 16, 128, 0)
TRANSPOSE(leat_layout_transpose_wide_8, 8, 16, 16, 64, 0)
TRANSPOSE(leat_layout_transpose_wide_16, 16, 16, 16, 64, 0)
TRANSPOSE(leat_layout_transpose_wide_odd_1, 1, 16, 8, 128, 1)
TRANSPOSE(leat_layout_transpose_wide_odd_2, 2, 16, 8, 128, 1)
TRANSPOSE_BY_HALVES(leat_layout_transpose_wide_odd_4, 4, 16, 8, 128, 1)
TRANSPOSE(leat_layout_transpose_wide_odd_8, 8, 16, 16, 64, 1)
TRANSPOSE(leat_layout_transpose_wide_odd_16, 16, 16, 16, 64, 1)
TRANSPOSE(leat_layout_transpose_long_1, 1, 16, 8, 128, 0)
TRANSPOSE_BY_HALVES(leat_layout_transpose_long_odd_4, 4, 32, 8, 128, 1)

/* ---- n-dimensional (ND) tiles: lines consist of several short dimensions, which may be on both sides ---- */

/*
 * An ND tile consists of some whole dimensions and of a part of one more dimension, which is called cut. The tile
 * is stored into shared memory in the order of the source and read from there in the order of the destination, so
 * that both sides are accessed in long lines. If units have less than 4 bytes and the lines allow it, threads move
 * words of 4 bytes, and gather the units of each word from shared memory.
 *
 * All ND tiles of a copy have the same shape. So each block copies several tiles, and each thread computes the
 * offsets of its words from a tile's corner only once. A thread moves the words with the numbers thread, thread +
 * ND_TILE_THREADS and so on, and has a slot for each of them. The offsets of all slots stay in registers, so the
 * number of slots is small and a compile-time constant. While a thread writes one tile, its loads of the next tile
 * are in progress.
 */

#define ND_TILE_THREADS 256
#define ND_TILE_ROOM_BYTES 20480 /* shared memory for a tile, with the padding between its lines */
#define ND_TILES_PER_BLOCK 16
#define ND_TILE_GROUP 4         /* number of slots whose offsets are computed together */
#define ND_TILE_SINGLE_SLOTS 12 /* number of slots for single units; no pass has more slots */
#define ND_TILE_HELD 16         /* number of registers for words that are being loaded */
#define ND_TILE_PLACES 40       /* number of offsets in shared memory: one per word read and per unit written */

/* The slots of a kernel. All fields are compile-time constants. */
struct slots {
    uint32_t unit;                    /* size of a unit in bytes */
    uint32_t read_units, write_units; /* number of units in a word that is read, and that is written */
    uint32_t read, write;             /* number of slots of each pass, a multiple of ND_TILE_GROUP */
};

struct mine {
    int32_t src[ND_TILE_SINGLE_SLOTS], dst[ND_TILE_SINGLE_SLOTS]; /* offset of each word from the corner, units */
    uint32_t place[ND_TILE_PLACES / 2]; /* offsets in shared memory; each element has two of 16 bits */
    uint32_t read, write;               /* bit k: slot k has a word; bit 16 + k: also in the shorter tile */
    uint32_t held[ND_TILE_HELD];        /* the words that are being loaded */
};

/* The position of an ND tile. */
struct corner {
    int64_t dst, src; /* byte offsets from the task's addresses */
    uint32_t shift;   /* first bit of struct mine's read and write to use: 16 for a shorter tile, else 0 */
};

/* Prevents the compiler from moving computations with this number out of a loop, because that would need more
 * registers. */
#if defined(__NVPTX__)
#define IN_LOOP(number) __asm__ volatile("" : "+r"(number))
#elif defined(__AMDGCN__)
#define IN_LOOP(number) __asm__ volatile("" : "+v"(number))
#else
#define IN_LOOP(number) ((void)(number))
#endif

INLINE void find_corner(const layout_task *task, uint32_t copy, uint32_t number, SHARED struct corner *corner)
{
    struct spot spot = first_spot(task, copy);

    walk(task, task->middle, task->dims, number, &spot);
    corner->dst = spot.dst;
    corner->src = spot.src;
    corner->shift =
        task->pieces > 1 && number - divide(number, &task->dim[task->middle].by) * task->pieces == task->pieces - 1
            ? 16
            : 0;
}

INLINE uint32_t place_at(const struct mine *mine, uint32_t n)
{
    return mine->place[n / 2] >> n % 2 * 16 & 0xffff;
}

/* Finds unit number `unit` of the thread's word in each slot; words have `units` units. Stores the offset of the
 * first unit from the tile's corner in offset[], and the offset of this unit in shared memory in place[], from
 * number first on. Returns the bits for read or write of struct mine. */
INLINE uint32_t find_words(const layout_task *task, const struct leati_task_pass *pass, uint32_t unit,
                           uint32_t units, uint32_t slots, uint32_t first, uint32_t thread, int32_t *offset,
                           uint32_t *place)
{
    uint32_t there = 0;

    UNROLL
    for (uint32_t k = 0; k < slots; k += ND_TILE_GROUP) {
        uint32_t number[ND_TILE_GROUP], both[ND_TILE_GROUP];
        int32_t from_corner[ND_TILE_GROUP];

        UNROLL
        for (uint32_t g = 0; g < ND_TILE_GROUP; g++) {
            number[g] = ((k + g) * ND_TILE_THREADS + thread) * units + unit;
            there |= (uint32_t)(number[g] < pass->units) << (k + g);
            both[g] = 0;
            from_corner[g] = 0;
        }
        if (k * ND_TILE_THREADS * units < pass->units) {
            KEEP_LOOP
            for (uint32_t d = pass->first; d < pass->end; d++) {
                const struct leati_nd_tile_dim dim = task->nd_tile[d];

                UNROLL
                for (uint32_t g = 0; g < ND_TILE_GROUP; g++) {
                    uint32_t rest = divide(number[g], &dim.by), digit = number[g] - rest * dim.by.size;

                    number[g] = rest;
                    from_corner[g] += (int32_t)digit * dim.offset;
                    both[g] += digit * dim.place;
                }
            }
        }
        UNROLL
        for (uint32_t g = 0; g < ND_TILE_GROUP; g++) {
            uint32_t n = first + k + g;

            if (unit == 0)
                offset[k + g] = from_corner[g];
            place[n / 2] |= (both[g] & 0xffff) << n % 2 * 16;
            there |= (there >> (k + g) & (both[g] >> 16 < pass->last ? 1u : 0u)) << (16 + k + g);
        }
    }
    return there;
}

INLINE void find_slots(const layout_task *task, struct slots slots, uint32_t thread, struct mine *mine)
{
    UNROLL
    for (uint32_t n = 0; n < ND_TILE_PLACES / 2; n++)
        mine->place[n] = 0;
    mine->read = find_words(task, &task->read, 0, 1, slots.read, 0, thread, mine->src, mine->place);
    UNROLL
    for (uint32_t u = 0; u < slots.write_units; u++) {
        uint32_t there = find_words(task, &task->write, u, slots.write_units, slots.write,
                                    slots.read + u * slots.write, thread, mine->dst, mine->place);

        mine->write = u ? mine->write : there;
    }
}

/* HOLD loads a word into registers, and PUT stores it. bytes is a compile-time constant. */
#define HOLD(part, bytes, from, space)                                                                            \
    do {                                                                                                          \
        if ((bytes) == 1) {                                                                                       \
            (part)[0] = *(const space unit_1 *)(from);                                                            \
        } else if ((bytes) == 2) {                                                                                \
            (part)[0] = *(const space unit_2 *)(from);                                                            \
        } else if ((bytes) == 4) {                                                                                \
            (part)[0] = *(const space unit_4 *)(from);                                                            \
        } else if ((bytes) == 8) {                                                                                \
            uint64_t both_ = *(const space unit_8 *)(from);                                                       \
                                                                                                                  \
            (part)[0] = (uint32_t)both_;                                                                          \
            (part)[1] = (uint32_t)(both_ >> 32);                                                                  \
        } else {                                                                                                  \
            unit_16 all_ = *(const space unit_16 *)(from);                                                        \
                                                                                                                  \
            (part)[0] = all_[0], (part)[1] = all_[1], (part)[2] = all_[2], (part)[3] = all_[3];                   \
        }                                                                                                         \
    } while (0)

#define PUT(part, bytes, to, space)                                                                               \
    do {                                                                                                          \
        if ((bytes) == 1)                                                                                         \
            *(space unit_1 *)(to) = (unit_1)(part)[0];                                                            \
        else if ((bytes) == 2)                                                                                    \
            *(space unit_2 *)(to) = (unit_2)(part)[0];                                                            \
        else if ((bytes) == 4)                                                                                    \
            *(space unit_4 *)(to) = (part)[0];                                                                    \
        else if ((bytes) == 8)                                                                                    \
            *(space unit_8 *)(to) = (part)[0] | (uint64_t)(part)[1] << 32;                                        \
        else                                                                                                      \
            *(space unit_16 *)(to) = (unit_16){(part)[0], (part)[1], (part)[2], (part)[3]};                       \
    } while (0)

/* The number of registers that a word needs. */
#define PARTS(bytes) ((bytes) > 4 ? (bytes) / 4 : 1)

/* Loads the words of a thread in a tile from memory into registers. */
INLINE void fetch_nd_tile(const layout_task *task, struct slots slots, const SHARED struct corner *corner,
                          struct mine *mine)
{
    const uint32_t bytes = slots.unit * slots.read_units;
    const GLOBAL char *src = src_at(task, corner->src);
    uint32_t there = mine->read >> corner->shift;

    UNROLL
    for (uint32_t k = 0; k < slots.read; k++) {
        IN_LOOP(mine->src[k]);
        if (there >> k & 1)
            HOLD(mine->held + k * PARTS(bytes), bytes, src + (int64_t)mine->src[k] * (int64_t)slots.unit, GLOBAL);
    }
}

/* Stores a thread's words from registers into shared memory. */
INLINE void lay_nd_tile(struct slots slots, uint32_t shift, struct mine *mine, SHARED char *room)
{
    const uint32_t bytes = slots.unit * slots.read_units;
    uint32_t there = mine->read >> shift;

    UNROLL
    for (uint32_t k = 0; k < slots.read; k++) {
        if (k % 2 == 0)
            IN_LOOP(mine->place[k / 2]);
        if (there >> k & 1)
            PUT(mine->held + k * PARTS(bytes), bytes, room + place_at(mine, k), SHARED);
    }
}

/* Copies a thread's words from shared memory to the destination. Gathers a group of words before it stores the
 * first of them. */
INLINE void write_nd_tile(const layout_task *task, struct slots slots, const SHARED struct corner *corner,
                          struct mine *mine, const SHARED char *room)
{
    const uint32_t bytes = slots.unit * slots.write_units, parts = PARTS(bytes);
    GLOBAL char *dst = dst_at(task, corner->dst);
    uint32_t there = mine->write >> corner->shift;

    UNROLL
    for (uint32_t n = slots.read / 2; n < (slots.read + slots.write * slots.write_units + 1) / 2; n++)
        IN_LOOP(mine->place[n]);
    UNROLL
    for (uint32_t k = 0; k < slots.write; k += ND_TILE_GROUP) {
        uint32_t word[ND_TILE_GROUP * 4] = {0};

        UNROLL
        for (uint32_t g = 0; g < ND_TILE_GROUP; g++)
            UNROLL
        for (uint32_t u = 0; u < slots.write_units; u++) {
            const SHARED char *from = room + place_at(mine, slots.read + u * slots.write + k + g);
            uint32_t one[4];

            /* A slot without a word loads some value here, which is not stored. */
            HOLD(slots.write_units > 1 ? one : word + g * parts, slots.unit, from, SHARED);
            if (slots.write_units > 1)
                word[g] |= one[0] << u * slots.unit * 8;
        }
        UNROLL
        for (uint32_t g = 0; g < ND_TILE_GROUP; g++) {
            IN_LOOP(mine->dst[k + g]);
            if (there >> (k + g) & 1)
                PUT(word + g * parts, bytes, dst + (int64_t)mine->dst[k + g] * (int64_t)slots.unit, GLOBAL);
        }
    }
}

/* Copies the ND tiles of a block, which have the numbers block, block + grid and so on. */
#define COPY_ND_TILES(slots_)                                                                                     \
    do {                                                                                                          \
        PHASE(t)                                                                                                  \
        {                                                                                                         \
            find_slots(&task, slots_, t, &OWN(mine, t));                                                          \
            fetch_nd_tile(&task, slots_, &corners[0], &OWN(mine, t));                                             \
        }                                                                                                         \
        KEEP_LOOP                                                                                                 \
        for (uint32_t n_ = 0; n_ < tiles; n_++) {                                                                 \
            PHASE(t)                                                                                              \
            {                                                                                                     \
                lay_nd_tile(slots_, corners[n_].shift, &OWN(mine, t), (SHARED char *)room);                       \
            }                                                                                                     \
            BARRIER();                                                                                            \
            PHASE(t)                                                                                              \
            {                                                                                                     \
                if (n_ + 1 < tiles)                                                                               \
                    fetch_nd_tile(&task, slots_, &corners[n_ + 1], &OWN(mine, t));                                \
                write_nd_tile(&task, slots_, &corners[n_], &OWN(mine, t), (const SHARED char *)room);             \
            }                                                                                                     \
            BARRIER();                                                                                            \
        }                                                                                                         \
    } while (0)

#define ND_TILE_BEGIN()                                                                                           \
    SHARED_ARRAY(unit_16, room, ND_TILE_ROOM_BYTES / WORD_BYTES);                                                 \
    SHARED_ARRAY(struct corner, corners, ND_TILES_PER_BLOCK);                                                     \
    OWN_ARRAY(struct mine, mine, ND_TILE_THREADS);                                                                \
    const uint32_t grid = leat_grid_blocks_x(), block = leat_block_x();                                           \
    const uint32_t tiles = (task.nd_tiles - block + grid - 1) / grid;                                             \
                                                                                                                  \
    PHASE(t)                                                                                                      \
    {                                                                                                             \
        if (t < tiles)                                                                                            \
            find_corner(&task, leat_block_y(), block + t * grid, &corners[t]);                                    \
    }                                                                                                             \
    BARRIER()

#define ND_TILE(one, units, each)                                                                                 \
    LEAT_KERNEL(leat_layout_nd_tile_##one, 1, layout_task, task)                                                  \
    {                                                                                                             \
        const struct slots all_words = {one, units, units, each, each};                                           \
                                                                                                                  \
        ND_TILE_BEGIN();                                                                                          \
        COPY_ND_TILES(all_words);                                                                                 \
    }

/* The number of slots that a tile needs if its words have so many units. */
#define ND_TILE_WORD_SLOTS(units)                                                                                 \
    ((ND_TILE_SINGLE_SLOTS / (units) + ND_TILE_GROUP - 1) / ND_TILE_GROUP * ND_TILE_GROUP)

/* The kernel for units of less than 4 bytes if at least one side cannot be moved in words of 4 bytes. */
#define ND_TILE_SINGLE(one, units)                                                                                \
    LEAT_KERNEL(leat_layout_nd_tile_single_##one, 1, layout_task, task)                                           \
    {                                                                                                             \
        const struct slots no_words = {one, 1, 1, ND_TILE_SINGLE_SLOTS, ND_TILE_SINGLE_SLOTS};                    \
        const struct slots words_in = {one, units, 1, ND_TILE_WORD_SLOTS(units), ND_TILE_SINGLE_SLOTS};           \
        const struct slots words_out = {one, 1, units, ND_TILE_SINGLE_SLOTS, ND_TILE_WORD_SLOTS(units)};          \
                                                                                                                  \
        ND_TILE_BEGIN();                                                                                          \
        if (task.read.word_units > 1)                                                                             \
            COPY_ND_TILES(words_in);                                                                              \
        else if (task.write.word_units > 1)                                                                       \
            COPY_ND_TILES(words_out);                                                                             \
        else                                                                                                      \
            COPY_ND_TILES(no_words);                                                                              \
    }

/* The numbers of slots must be as in layout/gpu.c. */
ND_TILE(1, 4, 8)
ND_TILE(2, 2, 8)
ND_TILE(4, 1, 8)
ND_TILE(8, 1, 8)
ND_TILE(16, 1, 4)
ND_TILE_SINGLE(1, 4)
ND_TILE_SINGLE(2, 2)

/* ---- pixels: a few units on one side, planes of many units on the other ---- */

#include "kernels/layout_pixels.h"

/* ---- triples: elements of three units ---- */

#include "kernels/layout_triples.h"

/* ---- the steps to a fast transpose ---- */

/* Neighbouring threads read neighbouring elements, but each writes to a different row. So only 4 bytes are new in
 * each sector of 32 bytes that the memory writes. */
LEAT_KERNEL(leat_transpose_naive_u32, 4, uint32_t *, dst, const uint32_t *, src, uint64_t, rows, uint64_t, columns)
{
    uint64_t item = leat_global_index();

    if (item < rows * columns) {
        uint64_t row = item / columns, column = item - row * columns;

        dst[column * rows + row] = src[item];
    }
}

#define LADDER_TILE 32
#define LADDER_ROWS 8 /* number of rows that 256 threads read at once */

/* A tile goes through shared memory, so that neighbouring threads access neighbouring elements on both sides.
 * pitch is the number of words from one row to the next in shared memory. With pitch 32 all words of a column are
 * in one bank, which serves only one of them at a time. */
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
