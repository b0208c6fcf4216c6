/*
 * convert_kernels.c - defines the kernels of leat_copy_convert().
 *
 * Like layout_kernels.c, this is one source for all devices: it becomes PTX, AMD code objects, and functions for
 * the CPU device, which launches them only for tests (LEAT_LAYOUT_AS_GPU). layout/gpu_convert.c chooses the kernel
 * and fills in the task.
 *
 * Types are not compile-time constants, so that there are few kernels: all threads take the same branches, and a
 * thread takes each of them once for all of its elements. Elements are held as 32 bits: first as they are on the
 * source, then as the bits of an F32, then as they will be on the destination.
 */
#if !defined(__NVPTX__) && !defined(__AMDGCN__)
#define LEAT_CPU_KERNEL_EXPORT __attribute__((visibility("hidden")))
#endif
#include "kernels/convert_numbers.h"
#include "kernels/convert_task.h"
#include "kernels/device_units.h"
#include "kernels/phases.h"

typedef struct leati_convert_task convert_task;
typedef struct leati_factors factors_of;

/* As in layout/gpu_convert.c. */
#define THREADS 128
#define PIXELS_MOST 4
#define ELEMENTS_EACH 4
#define TILE_SIDE 64
#define TILE_THREADS 256

/* The largest number of elements of a word of the destination. */
#define GROUP_MOST 8

/* ---- numbers ---- */

INLINE void swap_all(uint32_t *values, uint32_t count, uint32_t bytes)
{
    UNROLL
    for (uint32_t k = 0; k < count; k++)
        values[k] = leati_swap(values[k], bytes);
}

/* Turns elements of the source into F32. */
INLINE void widen_all(uint32_t number, uint32_t *values, uint32_t count)
{
    if (number == LEATI_U8)
        UNROLL
    for (uint32_t k = 0; k < count; k++)
        values[k] = leati_widen_u8(values[k]);
    if (number == LEATI_F16)
        UNROLL
    for (uint32_t k = 0; k < count; k++)
        values[k] = leati_widen_f16(values[k]);
    if (number == LEATI_BF16)
        UNROLL
    for (uint32_t k = 0; k < count; k++)
        values[k] <<= 16;
}

/* Turns F32 into elements of the destination. */
INLINE void narrow_all(uint32_t number, int may_be_nan, uint32_t *values, uint32_t count)
{
    if (number == LEATI_F16)
        UNROLL
    for (uint32_t k = 0; k < count; k++)
        values[k] = leati_narrow_f16(values[k], may_be_nan);
    if (number == LEATI_BF16)
        UNROLL
    for (uint32_t k = 0; k < count; k++)
        values[k] = leati_narrow_bf16(values[k], may_be_nan);
}

/* What the compiler knows of a kernel's elements: their number, and their sizes or 0. */
struct known {
    uint32_t count, src_bytes, dst_bytes;
};

/* Converts elements, each with its own scale and bias. Bytes cannot become NaN, since scales and biases are
 * finite. */
INLINE void convert_all(const convert_task *task, struct known known, const float *scale, const float *bias,
                        uint32_t *values)
{
    const uint32_t count = known.count;
    uint32_t from = known.src_bytes == 1 ? LEATI_U8 : task->src_number;
    uint32_t to = known.dst_bytes == 4 && task->dst_number != LEATI_BITS ? LEATI_F32 : task->dst_number;

    if (known.src_bytes != 1 && task->flags & LEATI_SWAP_SRC)
        swap_all(values, count, task->src_bytes);
    if (known.src_bytes == 1 || task->dst_number != LEATI_BITS) {
        widen_all(from, values, count);
        UNROLL
        for (uint32_t k = 0; k < count; k++) {
            uint32_t before = values[k];

            values[k] = leati_scale(before, scale[k], bias[k]);
            if (known.src_bytes != 1)
                values[k] = leati_settle_nan(before, values[k]);
        }
        narrow_all(to, known.src_bytes != 1, values, count);
    }
    if (task->flags & LEATI_SWAP_DST)
        swap_all(values, count, task->dst_bytes);
}

/* ---- elements in memory ---- */

INLINE uint32_t load_element(const GLOBAL char *from, uint32_t bytes)
{
    if (bytes == 1)
        return *(const GLOBAL unit_1 *)from;
    if (bytes == 2)
        return *(const GLOBAL unit_2 *)from;
    return *(const GLOBAL unit_4 *)from;
}

INLINE void store_element(GLOBAL char *to, uint32_t value, uint32_t bytes)
{
    if (bytes == 2)
        *(GLOBAL unit_2 *)to = (unit_2)value;
    else
        *(GLOBAL unit_4 *)to = value;
}

/* Loads elements of one size, each from its own address. Each size has a loop of its own, so that all loads of a
 * thread are under way together. */
#define LOAD_ELEMENTS(type)                                                                                       \
    UNROLL                                                                                                        \
    for (uint32_t k_ = 0; k_ < count; k_++)                                                                       \
    values[k_] = there[k_] ? *(const GLOBAL type *)from[k_] : 0

INLINE void load_elements(const GLOBAL char *const *from, const int *there, uint32_t count, uint32_t bytes,
                          uint32_t *values)
{
    if (bytes == 1)
        LOAD_ELEMENTS(unit_1);
    else if (bytes == 2)
        LOAD_ELEMENTS(unit_2);
    else
        LOAD_ELEMENTS(unit_4);
}

/* Loads count words of 4 bytes, in pieces of `piece` bytes, to which from is aligned. */
INLINE void load_even(const GLOBAL char *from, uint32_t *words, uint32_t count, uint32_t piece)
{
    UNROLL
    for (uint32_t k = 0; k < count; k += piece / 4) {
        if (piece == 16) {
            struct word word = load_word(from + k * 4);

            words[k] = word.part[0], words[k + 1] = word.part[1];
            words[k + 2] = word.part[2], words[k + 3] = word.part[3];
        } else if (piece == 8) {
            uint64_t both = *(const GLOBAL unit_8 *)(from + k * 4);

            words[k] = (uint32_t)both, words[k + 1] = (uint32_t)(both >> 32);
        } else {
            words[k] = *(const GLOBAL unit_4 *)(from + k * 4);
        }
    }
}

/* The same from any address, by words that are aligned to 4 bytes. It reads up to 3 bytes on both sides. */
INLINE void load_odd(const GLOBAL char *from, uint32_t *words, uint32_t count)
{
    uint32_t apart = (uint32_t)(uintptr_t)from % 4;
    const GLOBAL unit_4 *at = (const GLOBAL unit_4 *)(from - apart);
    uint32_t low = at[0];

    UNROLL
    for (uint32_t k = 0; k < count; k++) {
        uint32_t high = k + 1 < count || apart ? at[k + 1] : 0;

        words[k] = (uint32_t)((low | (uint64_t)high << 32) >> apart * 8);
        low = high;
    }
}

/* Returns true if load_odd() may read: only between the first and the last byte of the source. */
INLINE int is_odd_readable(const convert_task *task, uint32_t copy, const GLOBAL char *from, uint32_t bytes)
{
    uint64_t at = (uint64_t)(uintptr_t)from, end = at + bytes;
    uint64_t base = task->places ? task->place[leati_task_place_of(copy)].src - LEATI_TASK_REACH : 0;

    return (at & ~UINT64_C(3)) - base >= task->src_first && ((end + 3) & ~UINT64_C(3)) - base <= task->src_end;
}

/* ---- strips ---- */

struct converted_strip {
    int64_t dst, src;  /* byte offsets of the line's first element from the task's addresses */
    uint64_t first;    /* number of the strip's first element in the line */
    uint32_t elements; /* 0 for a gang without a strip, at the end of the grid */
    uint32_t thread;   /* number of the thread in its gang */
    uint32_t channel;  /* of the line; with cyclic channels, of the strip's first element */
    uint32_t copy;     /* number of the copy of the launch to which the strip belongs */
};

/* Splits number into indices of the dimensions first to end - 1, of which the first is the fastest. Adds the
 * offsets of these indices, and the channel. */
INLINE void walk(const convert_task *task, uint32_t first, uint32_t end, uint32_t number, int64_t *dst,
                 int64_t *src, uint32_t *channel)
{
    KEEP_LOOP
    for (uint32_t k = first; k < end; k++) {
        const struct leati_convert_dim *dim = &task->dim[k];
        uint32_t rest = k + 1 < end ? divide(number, &dim->by) : 0, digit = number - rest * dim->by.size;

        number = rest;
        *dst += digit * dim->dst;
        *src += digit * dim->src;
        *channel += digit * dim->channel;
    }
}

/* Sets the offsets where a copy of the launch begins. copy: its number, the y of the block. */
INLINE void first_spot(const convert_task *task, uint32_t copy, int64_t *dst, int64_t *src)
{
    *dst = *src = 0;
    if (task->places) {
        *dst = (int64_t)task->place[leati_task_place_of(copy)].dst;
        *src = (int64_t)task->place[leati_task_place_of(copy)].src;
    }
}

INLINE uint32_t remainder_of(uint32_t number, const struct leati_divisor *by)
{
    return number - divide(number, by) * by->size;
}

INLINE void find_strip(const convert_task *task, uint32_t copy, uint32_t block, uint32_t threads, uint32_t thread,
                       struct converted_strip *strip)
{
    uint32_t gang = thread >> task->gang_bits, number = block * (threads >> task->gang_bits) + gang;
    uint32_t line = divide(number, &task->strips), in_line = number - line * task->strips.size;
    uint64_t left;

    first_spot(task, copy, &strip->dst, &strip->src);
    strip->copy = copy;
    strip->channel = 0;
    strip->first = (uint64_t)in_line * task->step;
    left = task->size - strip->first;
    strip->elements = number < task->all_strips ? left < task->step ? (uint32_t)left : task->step : 0;
    strip->thread = thread - (gang << task->gang_bits);
    walk(task, task->inner, task->dims, line, &strip->dst, &strip->src, &strip->channel);
    if (task->channel_order == LEATI_CHANNEL_CYCLIC)
        strip->channel =
            remainder_of(remainder_of(in_line, &task->channels) * task->step_channel, &task->channels);
}

INLINE GLOBAL char *dst_at(const convert_task *task, int64_t offset)
{
    return (GLOBAL char *)(uintptr_t)(task->dst + (uint64_t)offset);
}

INLINE const GLOBAL char *src_at(const convert_task *task, int64_t offset)
{
    return (const GLOBAL char *)(uintptr_t)(task->src + (uint64_t)offset);
}

/* ---- groups: elements that follow one another on both sides, or pixels of a few bytes that become planes ---- */

/*
 * A thread converts a group: as many elements of each channel as fit into a word of the destination. It loads the
 * group as a whole into registers, and stores a word for each channel. If planes do not begin at words, the words
 * go through shared memory, and neighbouring threads store neighbouring elements. Single elements are converted at
 * the ends of lines, and where a whole group cannot be loaded.
 */
struct group_kind {
    uint32_t channels;
    uint32_t src_bytes; /* 0: known only from the task */
    uint32_t dst_bytes;
};

#define GROUP(kind) (WORD_BYTES / (kind).dst_bytes)

/* Loads a group whose elements have `bytes` bytes, a compile-time constant, and takes it apart: values[c * GROUP +
 * k] is element k of channel c. */
INLINE void load_group(const convert_task *task, struct group_kind kind, uint32_t bytes, const GLOBAL char *from,
                       uint32_t *values)
{
    const uint32_t all = GROUP(kind) * kind.channels * bytes;
    uint32_t words[GROUP_MOST * PIXELS_MOST];

    if (task->odd_src)
        load_odd(from, words, all / 4);
    else
        load_even(from, words, all / 4, all % 16 == 0 ? 16 : all % 8 == 0 ? 8 : 4);
    UNROLL
    for (uint32_t c = 0; c < kind.channels; c++)
        UNROLL
    for (uint32_t k = 0; k < GROUP(kind); k++) {
        uint32_t at = (k * kind.channels + c) * bytes;

        values[c * GROUP(kind) + k] =
            bytes == 4 ? words[at / 4] : words[at / 4] >> at % 4 * 8 & ((1u << bytes % 4 * 8) - 1);
    }
}

INLINE void load_any_group(const convert_task *task, struct group_kind kind, const GLOBAL char *from,
                           uint32_t *values)
{
    if (kind.src_bytes == 1 || task->src_bytes == 1)
        load_group(task, kind, 1, from, values);
    else if (task->src_bytes == 2)
        load_group(task, kind, 2, from, values);
    else
        load_group(task, kind, 4, from, values);
}

/* Returns the channel after this one. */
INLINE uint32_t next_channel(const convert_task *task, uint32_t channel)
{
    if (task->channel_order != LEATI_CHANNEL_CYCLIC)
        return channel;
    return channel + 1 < task->channels.size ? channel + 1 : 0;
}

/* Packs elements into a word. */
INLINE unit_16 pack(const uint32_t *values, uint32_t bytes)
{
    uint32_t part[4] = {0, 0, 0, 0};

    UNROLL
    for (uint32_t k = 0; k < WORD_BYTES / bytes; k++)
        part[k * bytes / 4] |= values[k] << k * bytes % 4 * 8;
    return (unit_16){part[0], part[1], part[2], part[3]};
}

/* Returns the place in shared memory of the word of channel c. The words of a gang and channel follow one another.
 */
INLINE uint32_t word_place(const convert_task *task, struct group_kind kind, uint32_t thread, uint32_t c)
{
    uint32_t gang = thread >> task->gang_bits, in_gang = thread - (gang << task->gang_bits);

    return ((gang * kind.channels + c) << task->gang_bits) + in_gang;
}

/* The group of a thread. */
struct group {
    const GLOBAL char *from;
    GLOBAL char *to;
    uint32_t elements; /* of each channel, 0 to GROUP */
    uint32_t channel;  /* of the first element */
    uint32_t thread;   /* number of the thread in its block */
};

INLINE void convert_whole(const convert_task *task, const factors_of *factors, struct group_kind kind,
                          const struct group *group, SHARED unit_16 *room)
{
    const struct known known = {GROUP(kind), kind.src_bytes, kind.dst_bytes};
    uint32_t values[GROUP_MOST * PIXELS_MOST];

    load_any_group(task, kind, group->from, values);
    UNROLL
    for (uint32_t c = 0; c < kind.channels; c++) {
        uint32_t channel = group->channel + c * task->repeat_channel;
        float scale[GROUP_MOST], bias[GROUP_MOST];
        unit_16 word;

        UNROLL
        for (uint32_t k = 0; k < GROUP(kind); k++) {
            scale[k] = factors->scale[channel];
            bias[k] = factors->bias[channel];
            channel = kind.channels == 1 ? next_channel(task, channel) : channel;
        }
        convert_all(task, known, scale, bias, values + c * GROUP(kind));
        word = pack(values + c * GROUP(kind), kind.dst_bytes);
        if (task->odd_dst)
            room[word_place(task, kind, group->thread, c)] = word;
        else
            *(GLOBAL unit_16 *)(group->to + c * task->repeat_dst) = word;
    }
}

/* The same for each element of a group by itself. */
INLINE void convert_singly(const convert_task *task, const factors_of *factors, struct group_kind kind,
                           const struct group *group, SHARED unit_16 *room)
{
    const struct known known = {1, kind.src_bytes, kind.dst_bytes};
    uint32_t bytes = kind.src_bytes ? kind.src_bytes : task->src_bytes, channel = group->channel;

    KEEP_LOOP
    for (uint32_t k = 0; k < group->elements; k++) {
        KEEP_LOOP
        for (uint32_t c = 0; c < kind.channels; c++) {
            uint32_t own = channel + c * task->repeat_channel, at = k * kind.dst_bytes;
            uint32_t value = load_element(group->from + (k * kind.channels + c) * bytes, bytes);

            convert_all(task, known, &factors->scale[own], &factors->bias[own], &value);
            if (!task->odd_dst) {
                store_element(group->to + c * task->repeat_dst + at, value, kind.dst_bytes);
            } else {
                SHARED char *to = (SHARED char *)&room[word_place(task, kind, group->thread, c)] + at;

                if (kind.dst_bytes == 2)
                    *(SHARED unit_2 *)to = (unit_2)value;
                else
                    *(SHARED unit_4 *)to = value;
            }
        }
        channel = kind.channels == 1 ? next_channel(task, channel) : channel;
    }
}

INLINE void convert_group(const convert_task *task, const factors_of *factors, struct group_kind kind,
                          const struct converted_strip *strip, uint32_t thread, SHARED unit_16 *room)
{
    uint32_t pixel_bytes = kind.channels * (kind.src_bytes ? kind.src_bytes : task->src_bytes);
    uint32_t at = strip->thread * GROUP(kind);
    uint64_t element = strip->first + at;
    struct group group = {.from = src_at(task, strip->src + (int64_t)(element * pixel_bytes)),
                          .to = dst_at(task, strip->dst + (int64_t)(element * kind.dst_bytes)),
                          .elements = at >= strip->elements ? 0 : strip->elements - at,
                          .channel = strip->channel,
                          .thread = thread};

    if (!group.elements)
        return;
    if (task->channel_order == LEATI_CHANNEL_CYCLIC)
        group.channel = remainder_of(strip->channel + at, &task->channels);
    if (group.elements > GROUP(kind))
        group.elements = GROUP(kind);
    if (group.elements == GROUP(kind) &&
        (!task->odd_src || is_odd_readable(task, strip->copy, group.from, GROUP(kind) * pixel_bytes)))
        convert_whole(task, factors, kind, &group, room);
    else
        convert_singly(task, factors, kind, &group, room);
}

/* Stores the elements of a strip from shared memory. */
INLINE void store_strip(const convert_task *task, struct group_kind kind, const struct converted_strip *strip,
                        uint32_t thread, const SHARED unit_16 *room)
{
    const uint32_t gang = 1u << task->gang_bits;

    KEEP_LOOP
    for (uint32_t c = 0; c < kind.channels; c++) {
        const SHARED char *from = (const SHARED char *)&room[word_place(task, kind, thread - strip->thread, c)];
        GLOBAL char *to =
            dst_at(task, strip->dst + c * task->repeat_dst + (int64_t)(strip->first * kind.dst_bytes));

        KEEP_LOOP
        for (uint32_t k = strip->thread; k < strip->elements; k += gang)
            if (kind.dst_bytes == 2)
                store_element(to + k * 2, *(const SHARED unit_2 *)(from + k * 2), 2);
            else
                store_element(to + k * 4, *(const SHARED unit_4 *)(from + k * 4), 4);
    }
}

#define CONVERT_GROUPS(channels, src_bytes, dst_bytes)                                                            \
    do {                                                                                                          \
        const struct group_kind kind_ = {channels, src_bytes, dst_bytes};                                         \
                                                                                                                  \
        PHASE(t)                                                                                                  \
        {                                                                                                         \
            struct converted_strip strip_;                                                                        \
                                                                                                                  \
            find_strip(task, leat_block_y(), leat_block_x(), leat_block_threads_x(), t, &strip_);                 \
            convert_group(task, &argument.factors, kind_, &strip_, t, room);                                      \
        }                                                                                                         \
        if (task->odd_dst) {                                                                                      \
            BARRIER();                                                                                            \
            PHASE(t)                                                                                              \
            {                                                                                                     \
                struct converted_strip strip_;                                                                    \
                                                                                                                  \
                find_strip(task, leat_block_y(), leat_block_x(), leat_block_threads_x(), t, &strip_);             \
                store_strip(task, kind_, &strip_, t, room);                                                       \
            }                                                                                                     \
        }                                                                                                         \
    } while (0)

LEAT_KERNEL(leat_convert_rows, 1, struct leati_convert_argument, argument)
{
    const convert_task *task = &argument.task;
    SHARED_ARRAY(unit_16, room, THREADS);

    if (task->dst_bytes == 2)
        CONVERT_GROUPS(1, 0, 2);
    else
        CONVERT_GROUPS(1, 0, 4);
}

LEAT_KERNEL(leat_convert_pixels, 1, struct leati_convert_argument, argument)
{
    const convert_task *task = &argument.task;
    SHARED_ARRAY(unit_16, room, THREADS * PIXELS_MOST);

    if (task->dst_bytes == 2 && task->repeat == 3)
        CONVERT_GROUPS(3, 1, 2);
    else if (task->dst_bytes == 2)
        CONVERT_GROUPS(4, 1, 2);
    else if (task->repeat == 3)
        CONVERT_GROUPS(3, 1, 4);
    else
        CONVERT_GROUPS(4, 1, 4);
}

/* ---- single elements: can convert every layout ---- */

/* Converts elements of 8 bytes, which can only be reversed. */
INLINE void swap_wide(const convert_task *task, const int64_t *dst, const int64_t *src, const int *there)
{
    int swaps = (task->flags & LEATI_SWAP_SRC) != 0, swaps_back = (task->flags & LEATI_SWAP_DST) != 0;
    uint64_t held[ELEMENTS_EACH];

    UNROLL
    for (uint32_t k = 0; k < ELEMENTS_EACH; k++)
        held[k] = there[k] ? *(const GLOBAL unit_8 *)src_at(task, src[k]) : 0;
    UNROLL
    for (uint32_t k = 0; k < ELEMENTS_EACH; k++)
        if (there[k])
            *(GLOBAL unit_8 *)dst_at(task, dst[k]) = swaps != swaps_back ? __builtin_bswap64(held[k]) : held[k];
}

INLINE void convert_elements(const convert_task *task, const factors_of *factors, const int64_t *dst,
                             const int64_t *src, const uint32_t *channels, const int *there)
{
    const struct known known = {ELEMENTS_EACH, 0, 0};
    float scale[ELEMENTS_EACH], bias[ELEMENTS_EACH];
    const GLOBAL char *from[ELEMENTS_EACH];
    uint32_t values[ELEMENTS_EACH];

    UNROLL
    for (uint32_t k = 0; k < ELEMENTS_EACH; k++) {
        from[k] = src_at(task, src[k]);
        scale[k] = factors->scale[channels[k]];
        bias[k] = factors->bias[channels[k]];
    }
    load_elements(from, there, ELEMENTS_EACH, task->src_bytes, values);
    convert_all(task, known, scale, bias, values);
    UNROLL
    for (uint32_t k = 0; k < ELEMENTS_EACH; k++)
        if (there[k])
            store_element(dst_at(task, dst[k]), values[k], task->dst_bytes);
}

LEAT_KERNEL(leat_convert_elements, 1, struct leati_convert_argument, argument)
{
    const convert_task *task = &argument.task;
    int64_t dst[ELEMENTS_EACH], src[ELEMENTS_EACH];
    uint32_t channels[ELEMENTS_EACH];
    int there[ELEMENTS_EACH];
    struct converted_strip strip;

    find_strip(task, leat_block_y(), leat_block_x(), leat_block_threads_x(), leat_thread_x(), &strip);
    UNROLL
    for (uint32_t k = 0; k < ELEMENTS_EACH; k++) {
        uint32_t at = (k << task->gang_bits) + strip.thread;
        uint64_t element = strip.first + at;

        there[k] = at < strip.elements;
        dst[k] = strip.dst, src[k] = strip.src;
        channels[k] = strip.channel;
        if (there[k] && task->inner == 1) {
            dst[k] += (int64_t)element * task->dim[0].dst;
            src[k] += (int64_t)element * task->dim[0].src;
            channels[k] += (uint32_t)element * task->dim[0].channel;
        } else if (there[k]) {
            walk(task, 0, task->inner, (uint32_t)element, &dst[k], &src[k], &channels[k]);
        }
    }
    KEEP_LOOP
    for (uint32_t r = 0; r < task->repeat; r++) {
        if (task->dst_bytes == 8)
            swap_wide(task, dst, src, there);
        else
            convert_elements(task, &argument.factors, dst, src, channels, there);
        UNROLL
        for (uint32_t k = 0; k < ELEMENTS_EACH; k++) {
            dst[k] += task->repeat_dst;
            src[k] += task->repeat_src;
            channels[k] += task->repeat_channel;
        }
    }
}

/* ---- tiles: the sides are dense in different dimensions ---- */

/*
 * A block converts a tile of TILE_SIDE x TILE_SIDE elements. Neighbouring threads read neighbouring elements of
 * the source, convert them, and put them into shared memory. There the rows are one element apart more than they
 * are long, so that both the columns and the rows lie in different banks.
 */
#define TILE_PITCH (TILE_SIDE + 1)
#define TILE_ROWS (TILE_THREADS / TILE_SIDE)
#define TILE_EACH 8 /* elements that a thread loads at once */

struct converted_tile {
    int64_t dst, src;
    uint32_t i, j; /* number of elements of both sides */
    uint32_t channel;
};

INLINE void find_tile(const convert_task *task, uint32_t copy, uint32_t block, struct converted_tile *tile)
{
    uint32_t rest = divide(block, &task->strips), line = divide(rest, &task->tiles_j);
    uint64_t i = (uint64_t)(block - rest * task->strips.size) * TILE_SIDE;
    uint64_t j = (uint64_t)(rest - line * task->tiles_j.size) * TILE_SIDE;

    first_spot(task, copy, &tile->dst, &tile->src);
    tile->dst += (int64_t)i * task->dim[0].dst + (int64_t)j * task->dim[1].dst;
    tile->src += (int64_t)i * task->dim[0].src + (int64_t)j * task->dim[1].src;
    tile->channel = (uint32_t)i * task->dim[0].channel + (uint32_t)j * task->dim[1].channel;
    tile->i = task->size - i < TILE_SIDE ? (uint32_t)(task->size - i) : TILE_SIDE;
    tile->j = task->size_j - j < TILE_SIDE ? (uint32_t)(task->size_j - j) : TILE_SIDE;
    walk(task, 2, task->dims, line, &tile->dst, &tile->src, &tile->channel);
}

INLINE void load_tile(const convert_task *task, const factors_of *factors, const struct converted_tile *tile,
                      uint32_t thread, SHARED uint32_t *room)
{
    const struct known known = {TILE_EACH, 0, 0};
    uint32_t j = thread % TILE_SIDE, first = thread / TILE_SIDE;

    KEEP_LOOP
    for (uint32_t i = first; i < TILE_SIDE; i += TILE_ROWS * TILE_EACH) {
        float scale[TILE_EACH], bias[TILE_EACH];
        const GLOBAL char *from[TILE_EACH];
        uint32_t values[TILE_EACH];
        int there[TILE_EACH];

        UNROLL
        for (uint32_t k = 0; k < TILE_EACH; k++) {
            uint32_t row = i + k * TILE_ROWS, channel = tile->channel;

            there[k] = row < tile->i && j < tile->j;
            if (there[k])
                channel += row * task->dim[0].channel + j * task->dim[1].channel;
            from[k] = src_at(task, tile->src + (int64_t)row * task->dim[0].src + (int64_t)(j * task->src_bytes));
            scale[k] = factors->scale[channel];
            bias[k] = factors->bias[channel];
        }
        load_elements(from, there, TILE_EACH, task->src_bytes, values);
        convert_all(task, known, scale, bias, values);
        UNROLL
        for (uint32_t k = 0; k < TILE_EACH; k++)
            room[(i + k * TILE_ROWS) * TILE_PITCH + j] = values[k];
    }
}

INLINE void store_tile(const convert_task *task, const struct converted_tile *tile, uint32_t thread,
                       const SHARED uint32_t *room)
{
    uint32_t i = thread % TILE_SIDE;

    if (i >= tile->i)
        return;
    KEEP_LOOP
    for (uint32_t j = thread / TILE_SIDE; j < tile->j; j += TILE_ROWS) {
        GLOBAL char *to = dst_at(task, tile->dst + (int64_t)j * task->dim[1].dst);
        uint32_t value = room[i * TILE_PITCH + j];

        if (task->dst_bytes == 2)
            store_element(to + i * 2, value, 2);
        else
            store_element(to + i * 4, value, 4);
    }
}

LEAT_KERNEL(leat_convert_tiles, 1, struct leati_convert_argument, argument)
{
    const convert_task *task = &argument.task;
    SHARED_ARRAY(uint32_t, room, TILE_SIDE * TILE_PITCH);
    struct converted_tile tile;

    find_tile(task, leat_block_y(), leat_block_x(), &tile);
    PHASE(t)
    {
        load_tile(task, &argument.factors, &tile, t, room);
    }
    BARRIER();
    PHASE(t)
    {
        store_tile(task, &tile, t, room);
    }
}
