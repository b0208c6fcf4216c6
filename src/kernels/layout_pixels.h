/*
 * layout_pixels.h - defines the kernels that join planes to pixels and split pixels into planes. Only
 * layout_kernels.c includes it.
 *
 * A pixel is a few units, one of each channel, that are contiguous on one side; on the other side the units of
 * each channel are contiguous and form a plane. Examples are images with three channels, and records of small
 * fields.
 *
 * A gang of threads copies a strip: as many pixels as have 16 bytes in each plane for each thread. A thread owns a
 * group of the strip: one word of 16 bytes from each plane, which are also as many contiguous words of pixels. So
 * it permutes the bytes of its group in registers. Shared memory carries words between the thread that owns them
 * and the thread that loads or stores them, always 16 bytes at a time. Neighbouring threads load and store
 * neighbouring words on both sides.
 */
#ifndef LEATI_KERNELS_LAYOUT_PIXELS_H
#define LEATI_KERNELS_LAYOUT_PIXELS_H

#define PIXEL_THREADS 128 /* maximum number of threads of a block */
#define PIXEL_WORDS 1024  /* words of shared memory; as in layout/gpu_pixels.c */
#define PIXEL_LOADS 4     /* number of words that a thread loads at once */

/* The kind of a kernel. All fields are compile-time constants. */
struct pixel_kind {
    uint32_t unit;
    int split;          /* 1: pixels to planes, 0: planes to pixels */
    uint32_t gang_bits; /* for gangs of 2^gang_bits threads there is faster code */
    int wide;           /* 1: more than LEATI_PIXEL_CHANNELS_FEW channels, 0: at most so many */
};

/* The strip of a thread's gang. */
struct strip {
    int64_t dst, src; /* byte offsets of the first unit from the task's addresses */
    uint32_t pixels;  /* 0 for a gang without a strip, at the end of the grid */
    uint32_t thread;  /* number of the thread in its gang */
    uint32_t first;   /* the gang's first word of shared memory */
    int full;         /* the strip has its full size, and the gang 2^gang_bits threads of the kind */
    int readable;     /* whole words may be loaded for all of a full strip */
    uint32_t copy;    /* number of the copy of the launch to which the strip belongs */
};

/* Returns the number of pixels whose units fill a word. */
#define GROUP_PIXELS(kind) (WORD_BYTES / (kind).unit)

/* Returns true if load_any_word() may read all words of a full strip. */
INLINE int is_strip_readable(const layout_task *task, struct pixel_kind kind, const struct strip *strip)
{
    const GLOBAL char *from = src_at(task, strip->src);
    uint32_t channels = task->dim[0].by.size, bytes = strip->pixels * kind.unit * (kind.split ? channels : 1);
    int64_t last_plane = kind.split ? 0 : (channels - 1) * task->dim[0].src;
    uint64_t base = range_base(task, strip->copy);

    if (!task->odd_src)
        return 1;
    return strip->full && is_readable(task, base, from) && is_readable(task, base, from + bytes - WORD_BYTES) &&
           is_readable(task, base, from + last_plane) &&
           is_readable(task, base, from + last_plane + bytes - WORD_BYTES);
}

/* Finds the strip of a thread. copy: number of the copy in the launch. first: the block's first strip. */
INLINE void find_strip(const layout_task *task, struct pixel_kind kind, uint32_t copy, uint32_t first,
                       uint32_t thread, struct strip *strip)
{
    uint32_t gang = thread >> task->gang_bits, number = first + gang;
    uint32_t line = divide(number, &task->tiles_i), channels = task->dim[0].by.size;
    uint64_t pixel = (uint64_t)(number - line * task->tiles_i.size) * task->step_i, left = task->size_i - pixel;
    uint64_t in_pixels = pixel * channels * kind.unit, in_planes = task->splits ? 0 : pixel * kind.unit;
    struct spot spot = first_spot(task, copy);

    strip->copy = copy;
    walk(task, 1, task->dims, line, &spot);
    strip->dst = spot.dst + (int64_t)(kind.split ? in_planes : in_pixels);
    strip->src = spot.src + (int64_t)(kind.split ? in_pixels : in_planes);
    strip->pixels = number < task->strips ? left < task->step_i ? (uint32_t)left : task->step_i : 0;
    strip->thread = thread - (gang << task->gang_bits);
    strip->first = (gang << task->gang_bits) * channels;
    strip->full = task->gang_bits == kind.gang_bits && strip->pixels == task->step_i;
    strip->readable = !task->splits && is_strip_readable(task, kind, strip);
}

/* Returns the position in shared memory of word k of a group. */
INLINE uint32_t group_place(const layout_task *task, const struct strip *strip, uint32_t group, uint32_t k)
{
    return strip->first +
           leati_pixel_place(task->dim[0].by.size, task->swizzle_shift, task->swizzle_mask, group, k);
}

/* Returns the position in shared memory of a word of the pixels, counted along all groups. */
INLINE uint32_t pixel_place(const layout_task *task, const struct strip *strip, uint32_t word)
{
    uint32_t group = task->swizzle_mask ? divide(word, &task->dim[0].by) : 0;

    return group_place(task, strip, group, word - group * task->dim[0].by.size);
}

INLINE struct word get_pixel_word(const SHARED unit_16 *words, uint32_t place)
{
    unit_16 there = words[place];
    struct word word = {{there[0], there[1], there[2], there[3]}};

    return word;
}

INLINE void put_pixel_word(SHARED unit_16 *words, uint32_t place, struct word word)
{
    unit_16 stored = {word.part[0], word.part[1], word.part[2], word.part[3]};

    words[place] = stored;
}

/* ---- from memory to shared memory ---- */

/* A word that a thread loads. */
struct portion {
    const GLOBAL char *from;
    uint32_t bytes; /* number of its bytes that belong to the strip, 0 to 16 */
    uint32_t place;
};

/* Finds the k-th word that a thread loads. From planes, this is the word of its group in plane k. */
INLINE struct portion find_piece(const layout_task *task, struct pixel_kind kind, const struct strip *strip,
                                 uint32_t k)
{
    uint32_t channels = task->dim[0].by.size, word = strip->thread, end = strip->pixels * kind.unit;
    struct portion piece;

    if (kind.split) {
        word += k << task->gang_bits;
        end *= channels;
    }
    piece.from = src_at(task, strip->src + (kind.split ? 0 : k * task->dim[0].src) +
                                  (task->splits ? 0 : word * WORD_BYTES));
    piece.bytes = k >= channels || word * WORD_BYTES >= end ? 0 : end - word * WORD_BYTES;
    if (piece.bytes > WORD_BYTES)
        piece.bytes = WORD_BYTES;
    piece.place = kind.split ? pixel_place(task, strip, word) : group_place(task, strip, word, k);
    return piece;
}

/* Loads a piece unit by unit, because a whole word would extend beyond the bytes of the source. */
INLINE void load_piece_units(uint32_t unit, const struct portion *piece, SHARED unit_16 *words)
{
    SHARED char *to = (SHARED char *)&words[piece->place];

    KEEP_LOOP
    for (uint32_t at = 0; at < piece->bytes; at += unit)
        MOVE_UNIT(unit, to + at, SHARED, piece->from + at, GLOBAL);
}

/* Loads the words of a thread into shared memory. */
INLINE void load_pieces(const layout_task *task, struct pixel_kind kind, const struct strip *strip,
                        SHARED unit_16 *words)
{
    KEEP_LOOP
    for (uint32_t k = 0; k < task->dim[0].by.size; k += PIXEL_LOADS) {
        struct portion pieces[PIXEL_LOADS];
        struct word held[PIXEL_LOADS];
        int readable = 1;

        UNROLL
        for (uint32_t g = 0; g < PIXEL_LOADS; g++) {
            pieces[g] = find_piece(task, kind, strip, k + g);
            readable &= task->splits || !pieces[g].bytes ||
                        is_readable(task, range_base(task, strip->copy), pieces[g].from);
        }
        if (!readable) {
            KEEP_LOOP
            for (uint32_t g = 0; g < PIXEL_LOADS; g++) {
                struct portion piece = find_piece(task, kind, strip, k + g);

                load_piece_units(kind.unit, &piece, words);
            }
            continue;
        }
        UNROLL
        for (uint32_t g = 0; g < PIXEL_LOADS; g++)
            if (pieces[g].bytes && task->splits)
                held[g] = repeat_unit(pieces[g].from, kind.unit);
            else if (pieces[g].bytes)
                held[g] = task->odd_src ? load_any_word(pieces[g].from, kind.unit) : load_word(pieces[g].from);
        UNROLL
        for (uint32_t g = 0; g < PIXEL_LOADS; g++)
            if (pieces[g].bytes)
                put_pixel_word(words, pieces[g].place, held[g]);
    }
}

/* Loads the words of a thread of a full strip into shared memory. */
INLINE void load_full(const layout_task *task, struct pixel_kind kind, int odd, const struct strip *strip,
                      SHARED unit_16 *words)
{
    const uint32_t gang = 1u << kind.gang_bits;
    const uint32_t channels = task->dim[0].by.size;
    const int64_t step = kind.split ? (int64_t)gang * WORD_BYTES : task->dim[0].src;
    const GLOBAL char *from = src_at(task, strip->src + strip->thread * WORD_BYTES);

    KEEP_LOOP
    for (uint32_t k = 0; k < channels; k += PIXEL_LOADS) {
        struct word held[PIXEL_LOADS];

        UNROLL
        for (uint32_t g = 0; g < PIXEL_LOADS; g++) {
            if (k + g < channels)
                held[g] = odd ? load_any_word(from, kind.unit) : load_word(from);
            from += step;
        }
        UNROLL
        for (uint32_t g = 0; g < PIXEL_LOADS; g++)
            if (k + g < channels)
                put_pixel_word(words,
                               kind.split ? pixel_place(task, strip, (k + g) * gang + strip->thread)
                                          : group_place(task, strip, strip->thread, k + g),
                               held[g]);
    }
}

INLINE void load_strip(const layout_task *task, struct pixel_kind kind, const struct strip *strip,
                       SHARED unit_16 *words)
{
    if (!strip->full || !strip->readable)
        load_pieces(task, kind, strip, words);
    else if (task->odd_src)
        load_full(task, kind, 1, strip, words);
    else
        load_full(task, kind, 0, strip, words);
}

/* ---- within a group ---- */

/* Returns the number of the byte, before a group is permuted, that becomes byte `byte` of it. */
INLINE uint32_t byte_before(struct pixel_kind kind, uint32_t channels, uint32_t byte)
{
    uint32_t unit = byte / kind.unit, in_unit = byte % kind.unit;

    if (kind.split)
        return (unit % GROUP_PIXELS(kind) * channels + unit / GROUP_PIXELS(kind)) * kind.unit + in_unit;
    return unit % channels * WORD_BYTES + unit / channels * kind.unit + in_unit;
}

/* Composes 4 bytes of a permuted group. part is a compile-time constant. */
INLINE uint32_t compose(struct pixel_kind kind, uint32_t channels, const uint32_t *before, uint32_t part)
{
    uint32_t at[4];

    UNROLL
    for (uint32_t b = 0; b < 4; b++)
        at[b] = byte_before(kind, channels, part * 4 + b);
    return compose_bytes(before, at);
}

/* Permutes a group in shared memory, through the registers of its thread. */
INLINE void permute_channels(const layout_task *task, struct pixel_kind kind, uint32_t channels,
                             const struct strip *strip, SHARED unit_16 *words)
{
    uint32_t before[4 * LEATI_PIXEL_CHANNELS];

    UNROLL
    for (uint32_t k = 0; k < channels; k++) {
        struct word word = get_pixel_word(words, group_place(task, strip, strip->thread, k));

        UNROLL
        for (uint32_t n = 0; n < 4; n++)
            before[4 * k + n] = word.part[n];
    }
    UNROLL
    for (uint32_t k = 0; k < channels; k++) {
        struct word word;

        UNROLL
        for (uint32_t n = 0; n < 4; n++)
            word.part[n] = compose(kind, channels, before, 4 * k + n);
        put_pixel_word(words, group_place(task, strip, strip->thread, k), word);
    }
}

INLINE void permute_group(const layout_task *task, struct pixel_kind kind, const struct strip *strip,
                          SHARED unit_16 *words)
{
    if (strip->thread * GROUP_PIXELS(kind) >= strip->pixels)
        return;
#define PERMUTE_CASE(n)                                                                                           \
    case n:                                                                                                       \
        permute_channels(task, kind, n, strip, words);                                                            \
        break;
    if (kind.wide)
        switch (task->dim[0].by.size) {
            LEATI_PIXEL_CHANNELS_WIDE_LIST(PERMUTE_CASE)
        }
    else
        switch (task->dim[0].by.size) {
            LEATI_PIXEL_CHANNELS_FEW_LIST(PERMUTE_CASE)
        }
#undef PERMUTE_CASE
}

/* ---- from shared memory to memory ---- */

/* Stores an aligned word of a run of bytes: the pixels of the strip, or plane k. If the run does not begin at a
 * word, composes each word of two words of shared memory. Words that are only partly in the run are stored in
 * smaller pieces. */
INLINE void store_run_word(const layout_task *task, struct pixel_kind kind, const struct strip *strip, uint32_t k,
                           uint32_t number, const SHARED unit_16 *words)
{
    uint32_t bytes = strip->pixels * kind.unit * (kind.split ? 1 : task->dim[0].by.size);
    GLOBAL char *run = dst_at(task, strip->dst + (kind.split ? k * task->dim[0].dst : 0));
    uint32_t apart = task->odd_dst ? (uint32_t)(uintptr_t)run % WORD_BYTES : 0;
    uint32_t from = number ? number * WORD_BYTES - apart : 0, end = (number + 1) * WORD_BYTES - apart;
    uint32_t b = from / WORD_BYTES;
    struct word word;

    if (end > bytes)
        end = bytes;
    if (from >= end)
        return;
    word = get_pixel_word(words, kind.split ? group_place(task, strip, b, k) : pixel_place(task, strip, b));
    if (from % WORD_BYTES) {
        struct word next = word;

        if (end > (b + 1) * WORD_BYTES)
            next = get_pixel_word(words, kind.split ? group_place(task, strip, b + 1, k)
                                                    : pixel_place(task, strip, b + 1));
        word = shift_words(word, next, from % WORD_BYTES, kind.unit);
    }
    if (end - from == WORD_BYTES)
        store_word(run + from, word);
    else
        store_part(run + from, word, end - from, kind.unit);
}

/* Stores the words of a thread that are whole if the strip is full. odd: runs may begin inside words. Then the
 * first and the last word of each run are left to store_strip(). */
INLINE void store_full(const layout_task *task, struct pixel_kind kind, int odd, const struct strip *strip,
                       const SHARED unit_16 *words)
{
    const uint32_t gang = 1u << kind.gang_bits;
    const uint32_t channels = task->dim[0].by.size;
    const int64_t step = kind.split ? task->dim[0].dst : (int64_t)gang * WORD_BYTES;
    GLOBAL char *to = dst_at(task, strip->dst);

    KEEP_LOOP
    for (uint32_t k = 0; k < channels; k += PIXEL_LOADS) {
        UNROLL
        for (uint32_t g = 0; g < PIXEL_LOADS; g++) {
            uint32_t number = strip->thread + (kind.split ? 0 : (k + g) * gang);
            uint32_t apart = odd ? (uint32_t)(uintptr_t)to % WORD_BYTES : 0, before = number - (apart ? 1 : 0);
            GLOBAL char *word_at = to + strip->thread * WORD_BYTES - apart;
            struct word word;

            to += step;
            if (k + g >= channels || (odd && !number))
                continue;
            word = get_pixel_word(words, kind.split ? group_place(task, strip, number, k + g)
                                                    : pixel_place(task, strip, number));
            if (odd)
                word = shift_words(get_pixel_word(words, kind.split ? group_place(task, strip, before, k + g)
                                                                    : pixel_place(task, strip, before)),
                                   word, (0 - apart) % WORD_BYTES, kind.unit);
            store_word(word_at, word);
        }
    }
}

/* Stores the words of a thread. */
INLINE void store_strip(const layout_task *task, struct pixel_kind kind, const struct strip *strip,
                        const SHARED unit_16 *words)
{
    const uint32_t gang = 1u << task->gang_bits, channels = task->dim[0].by.size;
    const uint32_t runs = kind.split ? channels : 1, last = kind.split ? gang : gang * channels;

    if (strip->full && task->odd_dst)
        store_full(task, kind, 1, strip, words);
    else if (strip->full)
        store_full(task, kind, 0, strip, words);
    else
        KEEP_LOOP
    for (uint32_t k = 0; k < channels; k++)
        store_run_word(task, kind, strip, k, kind.split ? strip->thread : strip->thread + k * gang, words);
    if (!task->odd_dst)
        return;
    /* The first word of each run, and the last one, which is an additional one if the run begins inside a word. */
    KEEP_LOOP
    for (uint32_t n = strip->thread + (strip->full ? 0 : runs); n < 2 * runs; n += gang)
        store_run_word(task, kind, strip, n % runs, n < runs ? 0 : last, words);
}

/* If planes do not begin at words, other threads' groups are needed to store them. */
#define PIXELS(name, unit_, split_, gang_bits_, wide_)                                                            \
    LEAT_KERNEL(name, 1, layout_task, task)                                                                       \
    {                                                                                                             \
        const struct pixel_kind kind = {unit_, split_, gang_bits_, wide_};                                        \
        SHARED_ARRAY(unit_16, words, PIXEL_WORDS);                                                                \
        OWN_ARRAY(struct strip, strips, PIXEL_THREADS);                                                           \
        const uint32_t first = leat_block_x() * (leat_block_threads_x() >> task.gang_bits);                       \
                                                                                                                  \
        PHASE(t)                                                                                                  \
        {                                                                                                         \
            find_strip(&task, kind, leat_block_y(), first, t, &OWN(strips, t));                                   \
                                                                                                                  \
            load_strip(&task, kind, &OWN(strips, t), words);                                                      \
            if (!kind.split)                                                                                      \
                permute_group(&task, kind, &OWN(strips, t), words);                                               \
        }                                                                                                         \
        BARRIER();                                                                                                \
        if (kind.split) {                                                                                         \
            PHASE(t)                                                                                              \
            permute_group(&task, kind, &OWN(strips, t), words);                                                   \
            if (task.odd_dst)                                                                                     \
                BARRIER();                                                                                        \
        }                                                                                                         \
        PHASE(t)                                                                                                  \
        store_strip(&task, kind, &OWN(strips, t), words);                                                         \
    }

PIXELS(leat_layout_join_1, 1, 0, 7, 0)
PIXELS(leat_layout_join_2, 2, 0, 7, 0)
PIXELS(leat_layout_join_wide_1, 1, 0, 6, 1)
PIXELS(leat_layout_split_1, 1, 1, 7, 0)
PIXELS(leat_layout_split_2, 2, 1, 7, 0)
PIXELS(leat_layout_split_wide_1, 1, 1, 6, 1)

#endif
