/*
 * convert_kernels.c - defines the kernels of leat_copy_convert().
 *
 * Like layout_kernels.c, this is one source for all devices: it becomes PTX, AMD code objects, and functions for
 * the CPU device, which launches them only for tests (LEAT_LAYOUT_AS_GPU). layout/gpu_convert.c chooses the kernel
 * and fills in the task.
 *
 * In the rows kernel each pair of types has code of its own. In the others types are not compile-time constants,
 * so that there is less code: all threads take the same branches, and a thread takes each of them once for all of
 * its elements. These are held as 32 bits: first as they are on the source, then as the bits of an F32, then as
 * they will be on the destination.
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

/* Turns elements of the source into F32. exact: as may_be_nan of leati_widen_f16(). */
INLINE void widen_all(uint32_t number, int exact, uint32_t *values, uint32_t count)
{
    if (number == LEATI_U8)
        UNROLL
    for (uint32_t k = 0; k < count; k++)
        values[k] = leati_widen_u8(values[k]);
    if (number == LEATI_F16)
        UNROLL
    for (uint32_t k = 0; k < count; k++)
        values[k] = leati_widen_f16(values[k], exact);
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

/* Converts elements, each with its own scale and bias. If one becomes NaN, all are converted again, in a way that
 * gives the right NaN. Bytes cannot become NaN, since scales and biases are finite. */
INLINE void convert_all(const convert_task *task, struct known known, const float *scale, const float *bias,
                        uint32_t *values)
{
    const uint32_t count = known.count;
    uint32_t from = known.src_bytes == 1 ? LEATI_U8 : task->src_number;
    uint32_t to = known.dst_bytes == 4 && task->dst_number != LEATI_BITS ? LEATI_F32 : task->dst_number;

    if (known.src_bytes != 1 && task->flags & LEATI_SWAP_SRC)
        swap_all(values, count, task->src_bytes);
    if (known.src_bytes == 1 || task->dst_number != LEATI_BITS) {
        uint32_t before[GROUP_MOST];
        int any_nan = 0;

        UNROLL
        for (uint32_t k = 0; k < count; k++)
            before[k] = values[k];
        widen_all(from, 0, values, count);
        UNROLL
        for (uint32_t k = 0; k < count; k++) {
            values[k] = leati_scale(values[k], scale[k], bias[k]);
            any_nan |= known.src_bytes != 1 && leati_is_nan(values[k]);
        }
        narrow_all(to, 0, values, count);
        if (any_nan) {
            widen_all(from, 1, before, count);
            UNROLL
            for (uint32_t k = 0; k < count; k++)
                values[k] = leati_settle_nan(before[k], leati_scale(before[k], scale[k], bias[k]));
            narrow_all(to, 1, values, count);
        }
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
    uint32_t apart = (uint32_t)(uintptr_t)from % 4, low, high;
    const GLOBAL unit_4 *at = (const GLOBAL unit_4 *)(from - apart);

    UNROLL
    for (uint32_t k = 0; k < count; k++)
        words[k] = at[k];
    high = at[apart ? count : count - 1];
    UNROLL
    for (uint32_t k = 0; k < count; k++) {
        low = words[k];
        words[k] = (uint32_t)((low | (uint64_t)(k + 1 < count ? words[k + 1] : high) << 32) >> apart * 8);
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
    int there;         /* 0 for a gang without a strip, at the end of the grid */
    uint32_t elements; /* 0 for such a gang */
    uint32_t thread;   /* number of the thread in its gang */
    uint32_t channel;  /* of the line */
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
    uint32_t gang = divide(thread, &task->gang), number = block * divide(threads, &task->gang) + gang;
    uint32_t line = divide(number, &task->strips), in_line = number - line * task->strips.size;
    uint64_t left;

    first_spot(task, copy, &strip->dst, &strip->src);
    strip->copy = copy;
    strip->channel = 0;
    strip->first = (uint64_t)in_line * task->step;
    left = task->size - strip->first;
    strip->there = number < task->all_strips;
    strip->elements = strip->there ? left < task->step ? (uint32_t)left : task->step : 0;
    strip->thread = thread - gang * task->gang.size;
    walk(task, task->inner, task->dims, line, &strip->dst, &strip->src, &strip->channel);
}

INLINE GLOBAL char *dst_at(const convert_task *task, int64_t offset)
{
    return (GLOBAL char *)(uintptr_t)(task->dst + (uint64_t)offset);
}

INLINE const GLOBAL char *src_at(const convert_task *task, int64_t offset)
{
    return (const GLOBAL char *)(uintptr_t)(task->src + (uint64_t)offset);
}

/* ---- pixels: a few bytes that follow one another become planes ---- */

/*
 * A thread converts a group of pixels: as many as fill a word in each plane. It loads the group as a whole into
 * registers, and stores a word for each channel. If planes do not begin at words, the words go through shared
 * memory, and neighbouring threads store neighbouring elements. Single elements are converted at the ends of
 * lines, and where a whole group cannot be loaded.
 */
struct group_kind {
    uint32_t channels, src_bytes, dst_bytes;
};

#define GROUP(kind) (WORD_BYTES / (kind).dst_bytes)

/* Loads a group and takes it apart: values[c * GROUP + k] is element k of channel c. */
INLINE void load_group(const convert_task *task, struct group_kind kind, const GLOBAL char *from, uint32_t *values)
{
    const uint32_t bytes = kind.src_bytes, all = GROUP(kind) * kind.channels * bytes;
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
    uint32_t gang = divide(thread, &task->gang), in_gang = thread - gang * task->gang.size;

    return (gang * kind.channels + c) * task->gang.size + in_gang;
}

/* The group of a thread. */
struct group {
    const GLOBAL char *from;
    GLOBAL char *to;
    uint32_t elements; /* of each channel, 0 to GROUP */
    uint32_t channel;  /* of the first plane */
    uint32_t thread;   /* number of the thread in its block */
};

INLINE void convert_whole(const convert_task *task, const factors_of *factors, struct group_kind kind,
                          const struct group *group, SHARED unit_16 *room)
{
    const struct known known = {GROUP(kind), kind.src_bytes, kind.dst_bytes};
    uint32_t values[GROUP_MOST * PIXELS_MOST];

    load_group(task, kind, group->from, values);
    UNROLL
    for (uint32_t c = 0; c < kind.channels; c++) {
        uint32_t channel = group->channel + c * task->repeat_channel;
        float scale[GROUP_MOST], bias[GROUP_MOST];
        unit_16 word;

        UNROLL
        for (uint32_t k = 0; k < GROUP(kind); k++) {
            scale[k] = factors->scale[channel];
            bias[k] = factors->bias[channel];
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
    const uint32_t bytes = kind.src_bytes;

    KEEP_LOOP
    for (uint32_t k = 0; k < group->elements; k++) {
        KEEP_LOOP
        for (uint32_t c = 0; c < kind.channels; c++) {
            uint32_t own = group->channel + c * task->repeat_channel, at = k * kind.dst_bytes;
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
    }
}

INLINE void convert_group(const convert_task *task, const factors_of *factors, struct group_kind kind,
                          const struct converted_strip *strip, uint32_t thread, SHARED unit_16 *room)
{
    const uint32_t pixel_bytes = kind.channels * kind.src_bytes;
    uint32_t at = strip->thread * GROUP(kind);
    uint64_t element = strip->first + at;
    struct group group = {.from = src_at(task, strip->src + (int64_t)(element * pixel_bytes)),
                          .to = dst_at(task, strip->dst + (int64_t)(element * kind.dst_bytes)),
                          .elements = at >= strip->elements ? 0 : strip->elements - at,
                          .channel = strip->channel,
                          .thread = thread};

    if (!group.elements)
        return;
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
    const uint32_t gang = task->gang.size;

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
        uint32_t at = k * task->gang.size + strip.thread;
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

/* ---- rows: both sides are dense in the same dimension ---- */

/*
 * A thread converts a few groups of elements. Neighbouring threads have neighbouring groups, and the groups of a
 * thread are a gang apart. It loads a chunk of groups before it converts the first of them. On the destination,
 * groups begin at multiples of their size. So the first and the last group of a line may have only some of their
 * elements; those are converted one by one.
 */
struct row {
    /* Offsets from the task's addresses, and addresses, of the thread's first group as if it were whole. */
    int64_t dst, src;
    const GLOBAL char *from;
    GLOBAL char *to;
    uint32_t src_step, dst_step; /* bytes from one group to the next */
    int32_t step;                /* the same in elements */
    int32_t first, end;   /* the strip has elements first to end - 1, counted from the thread's first group */
    uint32_t group;       /* number of elements of a group */
    uint32_t channel;     /* of the first element of each group */
    int odd;              /* the groups on the source are not aligned to their size */
    uint32_t some, whole; /* bit i: group i has elements; it has all and can be loaded as a whole */
};

#define ROW_CHUNK 2 /* number of groups of a chunk */

/* All fields are compile-time constants. */
struct row_kind {
    uint32_t from, to; /* types */
    uint32_t src_bytes, dst_bytes;
    uint32_t group; /* number of elements */
};

/* Returns a bit for each group of a thread that is among the first `count` groups of its strip. */
INLINE uint32_t first_bits(const convert_task *task, uint32_t thread, uint32_t count)
{
    return count > thread ? (1u << divide(count - thread + task->gang.size - 1, &task->gang)) - 1 : 0;
}

INLINE void find_row(const convert_task *task, const struct converted_strip *strip, struct row *row)
{
    const uint32_t group = leati_row_group(task->dst_bytes, task->src_bytes);
    const uint32_t group_bits = group == 4 ? 2 : 3;
    uint32_t at = strip->thread * group, before, all;
    int64_t end;

    /* The line begins so many elements after a multiple of the group's size. */
    before = (uint32_t)(task->dst + (uint64_t)strip->dst) >> (task->dst_bytes == 4 ? 2 : 1) & (group - 1);
    row->dst = strip->dst + ((int64_t)(strip->first + at) - before) * task->dst_bytes;
    row->src = strip->src + ((int64_t)(strip->first + at) - before) * task->src_bytes;
    row->to = dst_at(task, row->dst);
    row->from = src_at(task, row->src);
    row->group = group;
    row->step = (int32_t)(task->gang.size * group);
    row->src_step = (uint32_t)row->step * task->src_bytes;
    row->dst_step = (uint32_t)row->step * task->dst_bytes;
    end = (int64_t)(task->size + before - strip->first);
    all = !strip->there || end < 0 ? 0 : end < task->step ? (uint32_t)end : task->step;
    row->first = strip->first ? 0 : (int32_t)before - (int32_t)at;
    row->end = (int32_t)all - (int32_t)at;
    row->channel = strip->channel;
    if (task->channels.size)
        row->channel =
            remainder_of(at + task->channels.size - remainder_of(before, &task->channels), &task->channels);
    row->some = first_bits(task, strip->thread, (all + group - 1) >> group_bits);
    row->whole = first_bits(task, strip->thread, all >> group_bits);
    if (row->first > 0)
        row->whole &= ~1u;
    row->odd = ((uint32_t)(uintptr_t)row->from & (group * task->src_bytes - 1)) != 0;
    if (row->odd && row->whole &&
        !is_odd_readable(task, strip->copy, row->from,
                         row->src_step * (31 - (uint32_t)__builtin_clz(row->whole)) + group * task->src_bytes))
        row->whole = 0;
}

/* Reverses the bytes of each element in a word of 4 bytes. */
INLINE uint32_t swap_word(uint32_t word, uint32_t bytes)
{
    return bytes == 2 ? (word >> 8 & 0x00ff00ffu) | (word & 0x00ff00ffu) << 8 : leati_swap(word, 4);
}

/* Converts a group from the words of its source to those of its destination. */
INLINE void convert_group_words(const convert_task *task, struct row_kind kind, const float *scale,
                                const float *bias, uint32_t *before, uint32_t *after)
{
    const uint32_t before_each = 4 / kind.src_bytes, after_each = 4 / kind.dst_bytes;

    if (kind.src_bytes > 1 && task->flags & LEATI_SWAP_SRC)
        UNROLL
    for (uint32_t k = 0; k < kind.group / before_each; k++)
        before[k] = swap_word(before[k], kind.src_bytes);
    UNROLL
    for (uint32_t k = 0; k < kind.group / after_each; k++)
        after[k] = kind.to == LEATI_BITS ? before[k] : 0;
    if (kind.to != LEATI_BITS)
        UNROLL
    for (uint32_t k = 0; k < kind.group; k++)
        after[k / after_each] |=
            leati_convert(kind.from, kind.to, before[k / before_each], k % before_each, scale[k], bias[k])
            << k % after_each * 16;
    if (task->flags & LEATI_SWAP_DST)
        UNROLL
    for (uint32_t k = 0; k < kind.group / after_each; k++)
        after[k] = swap_word(after[k], kind.dst_bytes);
}

/* Stores 2 or 4 words of 4 bytes to an address that is aligned to all of them. */
INLINE void store_even(GLOBAL char *to, const uint32_t *words, uint32_t count)
{
    if (count == 4)
        *(GLOBAL unit_16 *)to = (unit_16){words[0], words[1], words[2], words[3]};
    else
        *(GLOBAL unit_8 *)to = words[0] | (uint64_t)words[1] << 32;
}

/* Loads, converts and stores the groups whose bits in `whole` are 1. */
INLINE void convert_chunk(const convert_task *task, struct row_kind kind, const struct row *row, uint32_t whole,
                          const GLOBAL char *from, GLOBAL char *to, const float *scale, const float *bias)
{
    const uint32_t words = kind.group * kind.src_bytes / 4;
    uint32_t before[ROW_CHUNK][4] = {{0}};

    if (row->odd)
        UNROLL
    for (uint32_t i = 0; i < ROW_CHUNK; i++) {
        /* Not skipped, so that all loads are under way together: then group 0 or 1, which is whole, again. */
        uint32_t n = whole >> i & 1 ? i : !(whole & 1);

        load_odd(from + n * row->src_step, before[i], words);
    }
    if (!row->odd)
        UNROLL
    for (uint32_t i = 0; i < ROW_CHUNK; i++) {
        if (whole >> i & 1)
            load_even(from + i * row->src_step, before[i], words, words * 4);
    }
    UNROLL
    for (uint32_t i = 0; i < ROW_CHUNK; i++) {
        uint32_t after[4];

        convert_group_words(task, kind, scale, bias, before[i], after);
        if (whole >> i & 1)
            store_even(to + i * row->dst_step, after, kind.group * kind.dst_bytes / 4);
    }
}

/* Converts the whole groups. */
INLINE void convert_row(const convert_task *task, const factors_of *factors, struct row_kind kind,
                        const struct row *row)
{
    uint32_t channel = row->channel, whole = row->whole;
    const GLOBAL char *from = row->from;
    float scale[GROUP_MOST], bias[GROUP_MOST];
    GLOBAL char *to = row->to;

    UNROLL
    for (uint32_t k = 0; k < kind.group && kind.to != LEATI_BITS; k++) {
        scale[k] = k ? scale[0] : factors->scale[channel];
        bias[k] = k ? bias[0] : factors->bias[channel];
    }
    if (task->channels.size && kind.to != LEATI_BITS)
        UNROLL
    for (uint32_t k = 1; k < kind.group; k++) {
        channel = channel + 1 < task->channels.size ? channel + 1 : 0;
        scale[k] = factors->scale[channel];
        bias[k] = factors->bias[channel];
    }
    KEEP_LOOP
    for (; whole; whole >>= ROW_CHUNK) {
        convert_chunk(task, kind, row, whole, from, to, scale, bias);
        from += ROW_CHUNK * row->src_step;
        to += ROW_CHUNK * row->dst_step;
    }
}

/* Converts the other groups, element by element. */
INLINE void convert_ends(const convert_task *task, const factors_of *factors, const struct row *row)
{
    const uint32_t halves = row->group / ELEMENTS_EACH;

    KEEP_LOOP
    for (uint32_t i = 0; row->some >> i / halves; i++) {
        int64_t dst[ELEMENTS_EACH], src[ELEMENTS_EACH];
        uint32_t channels[ELEMENTS_EACH];
        int there[ELEMENTS_EACH];

        if (row->whole >> i / halves & 1)
            continue;
        UNROLL
        for (uint32_t k = 0; k < ELEMENTS_EACH; k++) {
            uint32_t in_group = i % halves * ELEMENTS_EACH + k;
            int32_t at = (int32_t)(i / halves) * row->step + (int32_t)in_group;

            there[k] = at >= row->first && at < row->end;
            dst[k] = row->dst + (int64_t)at * task->dst_bytes;
            src[k] = row->src + (int64_t)at * task->src_bytes;
            channels[k] =
                task->channels.size ? remainder_of(row->channel + in_group, &task->channels) : row->channel;
        }
        convert_elements(task, factors, dst, src, channels, there);
    }
}

/* Each pair of types has code of its own. */
#define ROW_TYPES(from, to) ((from) << 4 | (to))
#define CONVERT_ROW(from, src_bytes, to, dst_bytes)                                                               \
    convert_row(task, &argument.factors,                                                                          \
                (struct row_kind){from, to, src_bytes, dst_bytes, leati_row_group(dst_bytes, src_bytes)}, &row)
#define ROW_CASE(from, src_bytes, to, dst_bytes)                                                                  \
    case ROW_TYPES(from, to):                                                                                     \
        CONVERT_ROW(from, src_bytes, to, dst_bytes);                                                              \
        break

LEAT_KERNEL(leat_convert_rows, 1, struct leati_convert_argument, argument)
{
    const convert_task *task = &argument.task;
    struct converted_strip strip;
    struct row row;

    find_strip(task, leat_block_y(), leat_block_x(), leat_block_threads_x(), leat_thread_x(), &strip);
    find_row(task, &strip, &row);
    switch (ROW_TYPES(task->src_number, task->dst_number)) {
        ROW_CASE(LEATI_U8, 1, LEATI_F16, 2);
        ROW_CASE(LEATI_U8, 1, LEATI_BF16, 2);
        ROW_CASE(LEATI_U8, 1, LEATI_F32, 4);
        ROW_CASE(LEATI_F16, 2, LEATI_F16, 2);
        ROW_CASE(LEATI_F16, 2, LEATI_BF16, 2);
        ROW_CASE(LEATI_F16, 2, LEATI_F32, 4);
        ROW_CASE(LEATI_BF16, 2, LEATI_F16, 2);
        ROW_CASE(LEATI_BF16, 2, LEATI_BF16, 2);
        ROW_CASE(LEATI_BF16, 2, LEATI_F32, 4);
        ROW_CASE(LEATI_F32, 4, LEATI_F16, 2);
        ROW_CASE(LEATI_F32, 4, LEATI_BF16, 2);
        ROW_CASE(LEATI_F32, 4, LEATI_F32, 4);
    default:
        if (task->dst_bytes == 2)
            CONVERT_ROW(LEATI_BITS, 2, LEATI_BITS, 2);
        else
            CONVERT_ROW(LEATI_BITS, 4, LEATI_BITS, 4);
    }
    if (row.some != row.whole)
        convert_ends(task, &argument.factors, &row);
}

/* ---- quads: 4 elements that follow one another on the source ---- */

#define QUAD 4
#define QUADS 4 /* the largest number of quads of a thread */

/* The quads of a thread, each in a row of its own. */
struct quads {
    const GLOBAL char *from;
    int64_t step;                    /* bytes from one row to the next */
    uint32_t rows, there;            /* number of quads, and of elements of each, 1 to 4 */
    uint32_t channel;                /* of the first element */
    uint32_t next_row, next_element; /* how far the channel of the next one is away */
};

/* Loads quads. bytes: the size of an element, a compile-time constant. */
INLINE void load_quads_of(const struct quads *quads, uint32_t bytes, uint32_t *values)
{
    const uint32_t all = QUAD * bytes;

    if (quads->there == QUAD && ((uint32_t)(uintptr_t)quads->from | (uint32_t)quads->step) % all == 0) {
        UNROLL
        for (uint32_t r = 0; r < QUADS; r++)
            if (r < quads->rows)
                load_even(quads->from + r * quads->step, values + r * QUAD, bytes, all);
        UNROLL
        for (uint32_t k = QUADS * QUAD; bytes < 4 && k-- > 0;) {
            uint32_t in_row = k % QUAD * bytes;

            values[k] = values[k / QUAD * QUAD + in_row / 4] >> in_row % 4 * 8 & ((1u << bytes % 4 * 8) - 1);
        }
    } else {
        UNROLL
        for (uint32_t k = 0; k < QUADS * QUAD; k++)
            if (k / QUAD < quads->rows && k % QUAD < quads->there)
                values[k] = load_element(quads->from + k / QUAD * quads->step + k % QUAD * bytes, bytes);
    }
}

/* Loads all quads, each into 4 values. */
INLINE void load_quads(const convert_task *task, const struct quads *quads, uint32_t *values)
{
    if (task->src_bytes == 1)
        load_quads_of(quads, 1, values);
    else if (task->src_bytes == 2)
        load_quads_of(quads, 2, values);
    else
        load_quads_of(quads, 4, values);
}

/* Converts the quad of the first row. dst_bytes: a compile-time constant. */
INLINE void convert_quad(const convert_task *task, const factors_of *factors, const struct quads *quads,
                         uint32_t dst_bytes, uint32_t *values)
{
    const struct known known = {QUAD, 0, dst_bytes};
    float scale[QUAD], bias[QUAD];

    UNROLL
    for (uint32_t k = 0; k < QUAD; k++) {
        scale[k] = k ? scale[0] : factors->scale[quads->channel];
        bias[k] = k ? bias[0] : factors->bias[quads->channel];
    }
    if (quads->next_element)
        UNROLL
    for (uint32_t k = 1; k < QUAD; k++) {
        uint32_t channel = quads->channel + (k < quads->there ? k : 0);

        scale[k] = factors->scale[channel];
        bias[k] = factors->bias[channel];
    }
    convert_all(task, known, scale, bias, values);
}

/* Makes the next row the first one, whose quad moves up in the registers. So the rows need no code of their own.
 */
INLINE void next_quad(struct quads *quads, uint32_t *values)
{
    UNROLL
    for (uint32_t k = 0; k < (QUADS - 1) * QUAD; k++)
        values[k] = values[k + QUAD];
    quads->channel += quads->next_row;
}

/* Puts an element of the destination into shared memory. */
INLINE void put_element(SHARED char *to, uint32_t value, uint32_t bytes)
{
    if (bytes == 2)
        *(SHARED unit_2 *)to = (unit_2)value;
    else
        *(SHARED unit_4 *)to = value;
}

INLINE uint32_t get_element(const SHARED char *from, uint32_t bytes)
{
    return bytes == 2 ? *(const SHARED unit_2 *)from : *(const SHARED unit_4 *)from;
}

/* Stores count elements from shared memory, as many as a word has or fewer, to an address that is aligned to
 * words. */
INLINE void store_elements(GLOBAL char *to, const SHARED char *from, uint32_t count, uint32_t bytes)
{
    if (count == WORD_BYTES / bytes) {
        *(GLOBAL unit_16 *)to = *(const SHARED unit_16 *)from;
        return;
    }
    KEEP_LOOP
    for (uint32_t k = 0; k < count; k++)
        store_element(to + k * bytes, get_element(from + k * bytes, bytes), bytes);
}

/* ---- joins: planes become pixels of a few elements ---- */

/*
 * A gang converts a strip of pixels, of which each thread has 4. It loads a quad of each plane, and puts the
 * elements into shared memory in the order of the destination. From there neighbouring threads store neighbouring
 * words, or elements if the strip does not begin at a word. After each 128 bytes of shared memory there is a word
 * of padding, so that fewer elements of a warp are in one bank.
 */
#define JOIN_BYTES (THREADS * QUAD * QUADS * 4)

INLINE uint32_t join_place(const convert_task *task, uint32_t byte)
{
    return task->repeat % 2 ? byte : byte + byte / 128 * WORD_BYTES;
}

/* Converts quads and puts them into shared memory. place: of the first element. dst_bytes: a compile-time
 * constant.
 */
INLINE void put_join(const convert_task *task, const factors_of *factors, struct quads *quads, uint32_t dst_bytes,
                     uint32_t place, uint32_t *values, SHARED char *room)
{
    KEEP_LOOP
    for (uint32_t r = 0; r < quads->rows; r++) {
        convert_quad(task, factors, quads, dst_bytes, values);
        UNROLL
        for (uint32_t k = 0; k < QUAD; k++)
            put_element(room + join_place(task, (place + k * task->repeat + r) * dst_bytes), values[k], dst_bytes);
        next_quad(quads, values);
    }
}

INLINE void load_join(const convert_task *task, const factors_of *factors, const struct converted_strip *strip,
                      uint32_t thread, SHARED char *room)
{
    uint32_t at = strip->thread * QUAD, left = at < strip->elements ? strip->elements - at : 0;
    uint32_t place = thread * QUAD * task->repeat, values[QUADS * QUAD] = {0};
    struct quads quads = {.from = src_at(task, strip->src + (int64_t)((strip->first + at) * task->src_bytes)),
                          .step = task->repeat_src,
                          .rows = task->repeat,
                          .there = left < QUAD ? left : QUAD,
                          .channel = strip->channel,
                          .next_row = task->repeat_channel};

    if (!left)
        return;
    load_quads(task, &quads, values);
    if (task->dst_bytes == 2)
        put_join(task, factors, &quads, 2, place, values, room);
    else
        put_join(task, factors, &quads, 4, place, values, room);
}

/* dst_bytes: a compile-time constant. */
INLINE void store_join(const convert_task *task, const struct converted_strip *strip, uint32_t dst_bytes,
                       uint32_t thread, const SHARED char *room)
{
    const uint32_t each = WORD_BYTES / dst_bytes;
    uint32_t place = (thread - strip->thread) * QUAD * task->repeat, count = strip->elements * task->repeat;
    GLOBAL char *to = dst_at(task, strip->dst + (int64_t)(strip->first * task->repeat * dst_bytes));

    if ((uint32_t)(uintptr_t)to % WORD_BYTES == 0) {
        KEEP_LOOP
        for (uint32_t k = strip->thread * each; k < count; k += task->gang.size * each)
            store_elements(to + k * dst_bytes, room + join_place(task, (place + k) * dst_bytes),
                           count - k < each ? count - k : each, dst_bytes);
    } else {
        KEEP_LOOP
        for (uint32_t k = strip->thread; k < count; k += task->gang.size)
            store_element(to + k * dst_bytes,
                          get_element(room + join_place(task, (place + k) * dst_bytes), dst_bytes), dst_bytes);
    }
}

LEAT_KERNEL(leat_convert_joins, 1, struct leati_convert_argument, argument)
{
    const convert_task *task = &argument.task;
    SHARED_ARRAY(char, room, JOIN_BYTES + JOIN_BYTES / 128 * WORD_BYTES);

    PHASE(t)
    {
        struct converted_strip strip;

        find_strip(task, leat_block_y(), leat_block_x(), leat_block_threads_x(), t, &strip);
        load_join(task, &argument.factors, &strip, t, room);
    }
    BARRIER();
    PHASE(t)
    {
        struct converted_strip strip;

        find_strip(task, leat_block_y(), leat_block_x(), leat_block_threads_x(), t, &strip);
        if (task->dst_bytes == 2)
            store_join(task, &strip, 2, t, room);
        else
            store_join(task, &strip, 4, t, room);
    }
}

/* ---- tiles: the sides are dense in different dimensions ---- */

/*
 * A block converts a tile of TILE_SIDE x TILE_SIDE elements. A thread loads quads of a few rows of the source, and
 * puts their elements into shared memory, where they are in lines of the destination. Threads then store words of
 * these lines, or elements if the words are not aligned. Lines exchange their words, so that neighbouring quads,
 * whose elements are in different lines, use different banks.
 */
#define TILE_QUADS (TILE_SIDE / QUAD)         /* quads of a row */
#define TILE_STEP (TILE_THREADS / TILE_QUADS) /* rows between two quads of a thread */

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

/* Returns the place in shared memory of a word of line j, in bytes. */
INLINE uint32_t tile_place(uint32_t dst_bytes, uint32_t j, uint32_t word)
{
    return j * TILE_SIDE * dst_bytes + (word ^ (j / QUAD & 7)) * WORD_BYTES;
}

/* Converts quads, the first one at row i and element j, and puts them into shared memory. bytes: the size of an
 * element of the destination, a compile-time constant. */
INLINE void put_tile(const convert_task *task, const factors_of *factors, struct quads *quads, uint32_t bytes,
                     uint32_t i, uint32_t j, uint32_t *values, SHARED char *room)
{
    KEEP_LOOP
    for (uint32_t r = 0; r < quads->rows; r++, i += TILE_STEP) {
        SHARED char *to = room + tile_place(bytes, j, i * bytes / WORD_BYTES) + i * bytes % WORD_BYTES;

        convert_quad(task, factors, quads, bytes, values);
        UNROLL
        for (uint32_t k = 0; k < QUAD; k++)
            put_element(to + k * TILE_SIDE * bytes, values[k], bytes);
        next_quad(quads, values);
    }
}

INLINE void load_tile(const convert_task *task, const factors_of *factors, const struct converted_tile *tile,
                      uint32_t thread, SHARED char *room)
{
    const uint32_t step = TILE_STEP;
    uint32_t j = thread % TILE_QUADS * QUAD, i = thread / TILE_QUADS, values[QUADS * QUAD] = {0};
    struct quads quads = {.step = task->dim[0].src * step,
                          .next_row = task->dim[0].channel * step,
                          .next_element = task->dim[1].channel};

    if (i >= tile->i || j >= tile->j)
        return;
    quads.from = src_at(task, tile->src + (int64_t)i * task->dim[0].src + (int64_t)(j * task->src_bytes));
    quads.rows = (tile->i - i + step - 1) / step;
    quads.there = tile->j - j < QUAD ? tile->j - j : QUAD;
    quads.channel = tile->channel + i * task->dim[0].channel + j * task->dim[1].channel;
    load_quads(task, &quads, values);
    if (task->dst_bytes == 2)
        put_tile(task, factors, &quads, 2, i, j, values, room);
    else
        put_tile(task, factors, &quads, 4, i, j, values, room);
}

/* bytes: the size of an element of the destination, a compile-time constant. */
INLINE void store_tile(const convert_task *task, const struct converted_tile *tile, uint32_t bytes,
                       uint32_t thread, const SHARED char *room)
{
    const uint32_t each = WORD_BYTES / bytes, words = TILE_SIDE / each;
    GLOBAL char *to = dst_at(task, tile->dst);
    uint32_t i = thread % words * each;

    if (((uint32_t)(uintptr_t)to | (uint32_t)task->dim[1].dst) % WORD_BYTES) {
        i = thread % TILE_SIDE;
        KEEP_LOOP
        for (uint32_t j = thread / TILE_SIDE; i < tile->i && j < tile->j; j += TILE_THREADS / TILE_SIDE)
            store_element(to + (int64_t)j * task->dim[1].dst + (int64_t)(i * bytes),
                          get_element(room + tile_place(bytes, j, i / each) + i % each * bytes, bytes), bytes);
        return;
    }
    UNROLL
    for (uint32_t n = 0; n < TILE_SIDE * words / TILE_THREADS; n++) {
        uint32_t j = thread / words + n * (TILE_THREADS / words);

        if (i < tile->i && j < tile->j)
            store_elements(to + (int64_t)j * task->dim[1].dst + (int64_t)(i * bytes),
                           room + tile_place(bytes, j, i / each), tile->i - i < each ? tile->i - i : each, bytes);
    }
}

LEAT_KERNEL(leat_convert_tiles, 1, struct leati_convert_argument, argument)
{
    const convert_task *task = &argument.task;
    SHARED_ARRAY(char, room, TILE_SIDE *TILE_SIDE * 4);
    struct converted_tile tile;

    find_tile(task, leat_block_y(), leat_block_x(), &tile);
    PHASE(t)
    {
        load_tile(task, &argument.factors, &tile, t, room);
    }
    BARRIER();
    PHASE(t)
    {
        if (task->dst_bytes == 2)
            store_tile(task, &tile, 2, t, room);
        else
            store_tile(task, &tile, 4, t, room);
    }
}
