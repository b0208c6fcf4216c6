/*
 * layout_triples.h - defines the kernels that transpose elements of three units: 3, 6 or 12 bytes. Only
 * layout_kernels.c includes it.
 *
 * A tile is like those of the other transposing kernels, with triples as its units: triple (i, j) is triple i of
 * line j on the destination, and triple j of line i on the source. A thread reads 48 bytes of each of four lines
 * of the source, which are 16, 8 or 4 triples. The triples of 4, 2 or 1 neighbouring lines are a cell of 12 bytes
 * on the destination. So a thread composes cells in its registers, and writes each of them as three words of 4
 * bytes into shared memory, where the tile lies in the order of the destination. After the barrier, neighbouring
 * threads read neighbouring words of 16 bytes from there and write them to the destination.
 *
 * Neither side needs to be aligned. Words of the source are shifted in registers, and words of the destination are
 * composed of two words of shared memory.
 */
#ifndef LEATI_KERNELS_LAYOUT_TRIPLES_H
#define LEATI_KERNELS_LAYOUT_TRIPLES_H

#define TRIPLE_BYTES(unit) (3 * (unit))
#define TRIPLE_COLUMNS 8       /* threads along a line of the source */
#define TRIPLE_COLUMN_BYTES 48 /* bytes of a line that a thread reads */
#define TRIPLE_HELD 4          /* lines that a thread reads */
#define TRIPLE_PARTS 12        /* registers for the bytes of one of them */
#define TRIPLE_CELL_BYTES 12   /* size of a cell */
#define TRIPLE_THREADS LEATI_TRIPLES_THREADS

_Static_assert(TRIPLE_THREADS == LEATI_TRIPLES_I / TRIPLE_HELD * TRIPLE_COLUMNS, "each thread reads its lines");
_Static_assert(LEATI_TRIPLES_LINE_BYTES == TRIPLE_COLUMNS * TRIPLE_COLUMN_BYTES, "threads read whole lines");

/* The number of lines of a cell, and the number of triples of a line that a thread reads. */
#define CELL_LINES(unit) (4 / (unit))
#define COLUMN_TRIPLES(unit) (TRIPLE_COLUMN_BYTES / TRIPLE_BYTES(unit))

/* The number of destination lines in a tile, and the number of words in each. */
#define TRIPLES_J(unit) (TRIPLE_COLUMNS * COLUMN_TRIPLES(unit))
#define TRIPLE_LINE_WORDS(unit) (LEATI_TRIPLES_I * TRIPLE_BYTES(unit) / WORD_BYTES)

/* The size of a tile in shared memory in words. */
#define TRIPLE_WORDS(unit) (TRIPLES_J(unit) * TRIPLE_LINE_WORDS(unit) + TRIPLE_COLUMNS)

/* A line of the destination, and the bytes of it that the tile writes: from offset `from` to end - 1. */
struct triple_line {
    uint64_t dst;
    uint32_t from, end;
};

/* Returns the number of bytes up to the next sector. */
INLINE uint32_t before_sector(uint64_t address)
{
    return (0 - (uint32_t)address) % SECTOR_BYTES;
}

/* Finds line j of a tile. As with other tiles (find_span()), each tile writes a line from the first sector that
 * begins in the tile to the first sector that begins in the next one. */
INLINE void find_triple_line(const layout_task *task, struct cut cut, const struct tile *tile, uint32_t j,
                             SHARED struct triple_line *line)
{
    struct spot spot = {.dst = j * task->dim[task->inner].dst};
    uint32_t from = 0, end = tile->count_i * cut.unit, step = task->step_i * cut.unit;
    uint64_t dst;

    if (task->middle > task->inner + 1) {
        spot.dst = 0;
        walk(task, task->inner, task->middle, (uint32_t)tile->j + j, &spot);
    }
    dst = task->dst + (uint64_t)(tile->dst + spot.dst);
    if (task->step_i < LEATI_TRIPLES_I) {
        uint32_t next = step + before_sector(dst + step);

        if (tile->i)
            from = before_sector(dst);
        if (tile->i + task->step_i < task->size_i && next < end)
            end = next;
    }
    line->dst = dst;
    line->from = from < end ? from : end;
    line->end = end;
}

/* Returns the address of a thread's bytes in the n-th line that it reads. */
INLINE const GLOBAL char *find_triples(const layout_task *task, struct cut cut, const struct tile *tile,
                                       uint32_t thread, uint32_t n)
{
    uint32_t group = thread / TRIPLE_COLUMNS + n / CELL_LINES(cut.unit / 3) * (TRIPLE_THREADS / TRIPLE_COLUMNS);
    uint32_t i = group * CELL_LINES(cut.unit / 3) + n % CELL_LINES(cut.unit / 3);
    struct spot spot = {.dst = 0};

    if (i >= tile->count_i)
        i = tile->count_i - 1;
    spot.src = i * task->dim[0].src;
    if (task->inner > 1) {
        spot.src = 0;
        walk(task, 0, task->inner, (uint32_t)tile->i + i, &spot);
    }
    return src_at(task, tile->src + spot.src + thread % TRIPLE_COLUMNS * TRIPLE_COLUMN_BYTES);
}

/* Loads 48 bytes from an address that need not be aligned to 16, in words that are. The address is a multiple of
 * unit, so the compiler can omit steps. */
INLINE void load_column(const GLOBAL char *from, uint32_t unit, int odd, uint32_t *held)
{
    uint32_t across = odd ? (uint32_t)(uintptr_t)from % WORD_BYTES : 0, loaded[TRIPLE_PARTS + 4];

    UNROLL
    for (uint32_t k = 0; k < (odd ? 4 : 3); k++) {
        struct word word = load_word(from - across + (k < 3 || across ? k : 2) * WORD_BYTES);

        UNROLL
        for (uint32_t m = 0; m < 4; m++)
            loaded[4 * k + m] = word.part[m];
    }
    if (odd) {
        UNROLL
        for (uint32_t k = 0; k < TRIPLE_PARTS + 2; k++) {
            uint32_t here = loaded[k], further = loaded[k + 2];

            loaded[k] = across & 8 ? further : here;
        }
        UNROLL
        for (uint32_t k = 0; k < TRIPLE_PARTS + 1; k++) {
            uint32_t here = loaded[k], further = loaded[k + 1];

            loaded[k] = across & 4 ? further : here;
        }
    }
    UNROLL
    for (uint32_t k = 0; k < TRIPLE_PARTS; k++)
        held[k] = odd && unit < 4 ? (uint32_t)((loaded[k] | (uint64_t)loaded[k + 1] << 32) >> across % 4 * 8)
                                  : loaded[k];
}

/* Copies the part of a thread in a tile into shared memory unit by unit, because whole words would extend beyond
 * the bytes of the source. */
INLINE void put_triple_units(const layout_task *task, struct cut cut, const struct tile *tile, uint32_t thread,
                             SHARED unit_16 *words)
{
    const uint32_t unit = cut.unit / 3, column = thread % TRIPLE_COLUMNS;

    KEEP_LOOP
    for (uint32_t k = 0; k < TRIPLE_HELD * TRIPLE_COLUMN_BYTES / unit; k++) {
        uint32_t n = k % TRIPLE_HELD, at = k / TRIPLE_HELD * unit,
                 j = column * COLUMN_TRIPLES(unit) + at / cut.unit;
        uint32_t group = thread / TRIPLE_COLUMNS + n / CELL_LINES(unit) * (TRIPLE_THREADS / TRIPLE_COLUMNS);
        uint32_t i = group * CELL_LINES(unit) + n % CELL_LINES(unit);

        if (i < tile->count_i && j < tile->count_j)
            MOVE_UNIT(unit, (SHARED char *)&words[leati_triple_line_place(unit, j)] + i * cut.unit + at % cut.unit,
                      SHARED, find_triples(task, cut, tile, thread, n) + at, GLOBAL);
    }
}

/* Composes the cells of a thread and writes them into shared memory. held: the bytes of all lines. */
INLINE void put_cells(struct cut cut, uint32_t thread, const uint32_t *held, SHARED unit_16 *words)
{
    const uint32_t unit = cut.unit / 3, column = thread % TRIPLE_COLUMNS;
    const uint32_t pitch = TRIPLE_LINE_WORDS(unit) * WORD_BYTES;
    SHARED char *first = (SHARED char *)&words[leati_triple_line_place(unit, column * COLUMN_TRIPLES(unit))];

    UNROLL
    for (uint32_t s = 0; s < TRIPLE_HELD / CELL_LINES(unit); s++) {
        uint32_t group = thread / TRIPLE_COLUMNS + s * (TRIPLE_THREADS / TRIPLE_COLUMNS);
        SHARED char *cells = first + group * TRIPLE_CELL_BYTES;

        UNROLL
        for (uint32_t j = 0; j < COLUMN_TRIPLES(unit); j++)
            UNROLL
        for (uint32_t part = 0; part < TRIPLE_CELL_BYTES / 4; part++) {
            uint32_t at[4];

            UNROLL
            for (uint32_t b = 0; b < 4; b++)
                at[b] = (s * CELL_LINES(unit) + (part * 4 + b) / cut.unit) * TRIPLE_COLUMN_BYTES + j * cut.unit +
                        (part * 4 + b) % cut.unit;
            *(SHARED unit_4 *)(cells + j * pitch + part * 4) = compose_bytes(held, at);
        }
    }
}

INLINE void read_triples(const layout_task *task, struct cut cut, const struct tile *tile, int odd,
                         uint32_t thread, SHARED unit_16 *words)
{
    uint32_t held[TRIPLE_HELD * TRIPLE_PARTS];
    const GLOBAL char *from[TRIPLE_HELD];
    int readable = 1;

    UNROLL
    for (uint32_t n = 0; n < TRIPLE_HELD; n++) {
        from[n] = find_triples(task, cut, tile, thread, n);
        readable &=
            is_readable(task, 0, from[n]) & is_readable(task, 0, from[n] + TRIPLE_COLUMN_BYTES - WORD_BYTES);
    }
    if (!readable) {
        put_triple_units(task, cut, tile, thread, words);
        return;
    }
    UNROLL
    for (uint32_t n = 0; n < TRIPLE_HELD; n++)
        load_column(from[n], cut.unit / 3, odd, held + n * TRIPLE_PARTS);
    put_cells(cut, thread, held, words);
}

/* Returns 16 bytes of a line in shared memory, beginning at offset byte. Bytes beyond the line may have any value.
 */
INLINE struct word triple_bytes(struct cut cut, const SHARED unit_16 *words, uint32_t j, uint32_t byte)
{
    const uint32_t unit = cut.unit / 3;
    uint32_t b = byte / WORD_BYTES, next = byte % WORD_BYTES && b + 1 < TRIPLE_LINE_WORDS(unit) ? b + 1 : b;
    unit_16 low = words[leati_triple_line_place(unit, j) + b],
            high = words[leati_triple_line_place(unit, j) + next];

    return shift_words((struct word){{low[0], low[1], low[2], low[3]}},
                       (struct word){{high[0], high[1], high[2], high[3]}}, byte % WORD_BYTES, unit);
}

/* Writes the aligned words of each line. */
INLINE void write_triple_words(struct cut cut, const struct tile *tile, int odd, uint32_t thread,
                               const SHARED struct triple_line *lines, const SHARED unit_16 *words)
{
    const uint32_t line_words = TRIPLE_LINE_WORDS(cut.unit / 3);

    UNROLL
    for (uint32_t k = 0; k < TRIPLES_J(cut.unit / 3) * line_words / TRIPLE_THREADS; k++) {
        uint32_t number = thread + k * TRIPLE_THREADS, j = number / line_words, b = number % line_words;
        uint64_t dst = lines[j].dst;
        uint32_t from = lines[j].from, body = from + (odd ? (0 - (uint32_t)dst - from) % WORD_BYTES : 0);
        uint32_t at = body + b * WORD_BYTES;

        if (j < tile->count_j && at + WORD_BYTES <= lines[j].end) {
            unit_16 there = words[leati_triple_line_place(cut.unit / 3, j) + b];

            store_word((GLOBAL char *)(uintptr_t)dst + at,
                       odd ? triple_bytes(cut, words, j, at)
                           : (struct word){{there[0], there[1], there[2], there[3]}});
        }
    }
}

/* Writes the bytes of each line before its first aligned word and after its last aligned word. */
INLINE void write_triple_ends(struct cut cut, const struct tile *tile, uint32_t thread,
                              const SHARED struct triple_line *lines, const SHARED unit_16 *words)
{
    KEEP_LOOP
    for (uint32_t k = thread; k < 2 * tile->count_j; k += TRIPLE_THREADS) {
        uint32_t j = k >> 1, from = lines[j].from, end = lines[j].end;
        uint32_t body = from + (0 - (uint32_t)lines[j].dst - from) % WORD_BYTES;

        if (k & 1) {
            from = body < end ? body + (end - body) / WORD_BYTES * WORD_BYTES : end;
        } else if (body < end) {
            end = body;
        }
        if (from < end)
            store_part((GLOBAL char *)(uintptr_t)lines[j].dst + from, triple_bytes(cut, words, j, from),
                       end - from, cut.unit / 3);
    }
}

#define TRIPLES(unit)                                                                                             \
    LEAT_KERNEL(leat_layout_triples_##unit, 1, layout_task, task)                                                 \
    {                                                                                                             \
        const struct cut cut = {TRIPLE_BYTES(unit),                                                               \
                                TRIPLE_LINE_WORDS(unit),                                                          \
                                LEATI_TRIPLES_LINE_BYTES / WORD_BYTES,                                            \
                                TRIPLE_THREADS,                                                                   \
                                1,                                                                                \
                                1};                                                                               \
        SHARED_ARRAY(unit_16, words, TRIPLE_WORDS(unit));                                                         \
        SHARED_ARRAY(struct triple_line, lines, TRIPLES_J(unit));                                                 \
        const struct tile tile = find_tile(&task, cut, leat_block_x());                                           \
                                                                                                                  \
        PHASE(t)                                                                                                  \
        {                                                                                                         \
            if (t < tile.count_j)                                                                                 \
                find_triple_line(&task, cut, &tile, t, &lines[t]);                                                \
            if (t % TRIPLE_COLUMNS * COLUMN_TRIPLES(unit) < tile.count_j &&                                       \
                t / TRIPLE_COLUMNS * CELL_LINES(unit) < tile.count_i) {                                           \
                if (task.odd_src)                                                                                 \
                    read_triples(&task, cut, &tile, 1, t, words);                                                 \
                else                                                                                              \
                    read_triples(&task, cut, &tile, 0, t, words);                                                 \
            }                                                                                                     \
        }                                                                                                         \
        BARRIER();                                                                                                \
        PHASE(t)                                                                                                  \
        {                                                                                                         \
            if (task.odd_dst)                                                                                     \
                write_triple_words(cut, &tile, 1, t, lines, words);                                               \
            else                                                                                                  \
                write_triple_words(cut, &tile, 0, t, lines, words);                                               \
            write_triple_ends(cut, &tile, t, lines, words);                                                       \
        }                                                                                                         \
    }

TRIPLES(1)
TRIPLES(2)
TRIPLES(4)

#endif
