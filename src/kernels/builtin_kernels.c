/*
 * builtin_kernels.c - defines leat's built-in kernels: fill, add, square, vector addition, pattern, verify,
 * checksum, memory latency and bandwidth, and batches of copies.
 *
 * This is one source for all devices: the host's compiler makes the kernels of the CPU device from it, and
 * clang-19 makes the PTX and the AMD code objects in built/ (tools/build-kernels.sh). leat/kernel.h describes the
 * kernels, except for the last seven kernels of this file, which only leat itself uses.
 *
 * Arrays are read and written in words of 16 bytes, the widest access of a GPU thread. Each GPU thread starts
 * several loads before its first store, because a GPU's memory reaches its bandwidth only with many outstanding
 * loads. Elements before the first aligned word and after the last aligned word are handled one by one.
 */
#if !defined(__NVPTX__) && !defined(__AMDGCN__)
#define LEAT_CPU_KERNEL_EXPORT __attribute__((visibility("hidden")))
#endif
#include <leat/device_code.h>

#if !defined(__NVPTX__) && !defined(__AMDGCN__)
#include <string.h>
#endif

#define WORD_BYTES 16

/* A word as a vector of elements. It needs may_alias, because the array itself has another type. */
typedef uint32_t word_u32 __attribute__((vector_size(WORD_BYTES), may_alias));
typedef uint64_t word_u64 __attribute__((vector_size(WORD_BYTES), may_alias));
typedef float word_f32 __attribute__((vector_size(WORD_BYTES), may_alias));

/* The three parts of an array: first `head` single elements, then `words` aligned words, then single elements,
 * beginning with element number `tail`. */
struct word_cut {
    uint64_t head;
    uint64_t words;
    uint64_t tail;
};

/* Divides an array into these parts. alike is 0 if the arrays of a kernel have different offsets from word bounds.
 * Then all elements are handled one by one. */
static inline struct word_cut cut_words(const void *ptr, uint64_t count, uint64_t element_bytes, int alike)
{
    uint64_t bytes = (WORD_BYTES - (uintptr_t)ptr % WORD_BYTES) % WORD_BYTES;
    uint64_t elements = WORD_BYTES / element_bytes;
    struct word_cut cut = {count, 0, count};

    if (alike && bytes % element_bytes == 0 && bytes / element_bytes < count) {
        cut.head = bytes / element_bytes;
        cut.words = (count - cut.head) / elements;
        cut.tail = cut.head + cut.words * elements;
    }
    return cut;
}

static inline int lie_alike(const void *a, const void *b)
{
    return ((uintptr_t)a ^ (uintptr_t)b) % WORD_BYTES == 0;
}

/*
 * MAP stores the value of an expression of i at out[i] for every i from start to end - 1. SUM adds the values to
 * total instead. Both distribute the range over the threads of the grid. MAP_FEW and SUM_FEW do the same for few
 * elements, with less code.
 */
#define MAP_FEW(out, i, start, end, value)                                                                        \
    do {                                                                                                          \
        const uint64_t start_ = (start);                                                                          \
        LEAT_FOR (at_, (end)-start_) {                                                                            \
            uint64_t i = start_ + at_;                                                                            \
            (out)[i] = (value);                                                                                   \
        }                                                                                                         \
    } while (0)

#define SUM_FEW(total, i, start, end, value)                                                                      \
    do {                                                                                                          \
        const uint64_t start_ = (start);                                                                          \
        LEAT_FOR (at_, (end)-start_) {                                                                            \
            uint64_t i = start_ + at_;                                                                            \
            (total) += (value);                                                                                   \
        }                                                                                                         \
    } while (0)

#if defined(__NVPTX__) || defined(__AMDGCN__)

/* The number of loads that each thread starts before it uses the first result. */
#define GROUP 4
#define EACH_OF_GROUP(k) _Pragma("unroll") for (uint32_t k = 0; k < GROUP; k++)

#define MAP(type, out, i, start, end, value)                                                                      \
    do {                                                                                                          \
        const uint64_t step_ = leat_global_count(), end_ = (end);                                                 \
        uint64_t at_ = (start) + leat_global_index();                                                             \
        for (; at_ + (GROUP - 1) * step_ < end_; at_ += GROUP * step_) {                                          \
            type held_[GROUP];                                                                                    \
            EACH_OF_GROUP(k_)                                                                                     \
            {                                                                                                     \
                uint64_t i = at_ + k_ * step_;                                                                    \
                (void)i;                                                                                          \
                held_[k_] = (value);                                                                              \
            }                                                                                                     \
            EACH_OF_GROUP(k_)                                                                                     \
            {                                                                                                     \
                (out)[at_ + k_ * step_] = held_[k_];                                                              \
            }                                                                                                     \
        }                                                                                                         \
        for (; at_ < end_; at_ += step_) {                                                                        \
            uint64_t i = at_;                                                                                     \
            (out)[i] = (value);                                                                                   \
        }                                                                                                         \
    } while (0)

#define SUM(total, i, start, end, value)                                                                          \
    do {                                                                                                          \
        const uint64_t step_ = leat_global_count(), end_ = (end);                                                 \
        uint64_t at_ = (start) + leat_global_index();                                                             \
        for (; at_ + (GROUP - 1) * step_ < end_; at_ += GROUP * step_)                                            \
            EACH_OF_GROUP(k_)                                                                                     \
            {                                                                                                     \
                uint64_t i = at_ + k_ * step_;                                                                    \
                (total) += (value);                                                                               \
            }                                                                                                     \
        for (; at_ < end_; at_ += step_) {                                                                        \
            uint64_t i = at_;                                                                                     \
            (total) += (value);                                                                                   \
        }                                                                                                         \
    } while (0)

#else /* processors prefetch in hardware, and their compilers unroll and vectorise plain loops best */

#define MAP(type, out, i, start, end, value) MAP_FEW(out, i, start, end, value)
#define SUM(total, i, start, end, value) SUM_FEW(total, i, start, end, value)

#endif

/*
 * Adds each thread's value to *total. All threads of the block must call it. On NVIDIA GPUs the threads of a warp
 * first add up their values, because hundreds of thousands of atomic additions to one address would take longer
 * than reading the data. For AMD GPUs clang generates such code itself. On the CPU device only one thread of a
 * block has a value that is not 0.
 */
#if defined(__NVPTX__)
static inline void add_to_total(uint64_t *total, uint64_t value, uint32_t thread, uint32_t block_threads)
{
    uint32_t lane = thread % 32;
    uint32_t rest = block_threads - (thread - lane);
    uint32_t lanes = rest < 32 ? rest : 32; /* the last warp of a block may be short */
    uint32_t mask = 0xffffffffu >> (32 - lanes);

    for (uint32_t apart = 16; apart > 0; apart /= 2) {
        uint32_t low = (uint32_t)__nvvm_shfl_sync_down_i32(mask, (int)(uint32_t)value, (int)apart, 31);
        uint32_t high = (uint32_t)__nvvm_shfl_sync_down_i32(mask, (int)(uint32_t)(value >> 32), (int)apart, 31);

        if (lane + apart < lanes)
            value += (uint64_t)high << 32 | low;
    }
    if (lane == 0 && value != 0)
        leat_atomic_add_u64(total, value);
}
#else
static inline void add_to_total(uint64_t *total, uint64_t value, uint32_t thread, uint32_t block_threads)
{
    (void)thread;
    (void)block_threads;
    if (value != 0)
        leat_atomic_add_u64(total, value);
}
#endif

/* A copy of leat_pattern_value() from leat/kernel.h, because device code cannot include that header. */
static inline uint64_t pattern_value(uint64_t index, uint64_t seed)
{
    uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* ---- fill ------------------------------------------------------------------------------------ */

/* ones is a 64-bit number in which each element is 1, so that a multiplication by it repeats the value. */
#define FILL(name, type, ones)                                                                                    \
    LEAT_KERNEL(name, 3, type *, dst, uint64_t, count, type, value)                                               \
    {                                                                                                             \
        struct word_cut cut = cut_words(dst, count, sizeof(type), 1);                                             \
        word_u64 *words = (word_u64 *)(dst + cut.head);                                                           \
        word_u64 word = {value * (ones), value * (ones)};                                                         \
                                                                                                                  \
        MAP_FEW(dst, i, 0, cut.head, value);                                                                      \
        MAP(word_u64, words, i, 0, cut.words, word);                                                              \
        MAP_FEW(dst, i, cut.tail, count, value);                                                                  \
    }

FILL(leat_fill_u8, uint8_t, UINT64_C(0x0101010101010101))
FILL(leat_fill_u16, uint16_t, UINT64_C(0x0001000100010001))
FILL(leat_fill_u32, uint32_t, UINT64_C(0x0000000100000001))
FILL(leat_fill_u64, uint64_t, UINT64_C(1))

/* dst must be aligned to at least 8 bytes. The kernel is faster if it is aligned to 16. */
LEAT_KERNEL(leat_fill_u128, 4, void *, dst, uint64_t, count, uint64_t, low, uint64_t, high)
{
    struct word_cut cut = cut_words(dst, count, WORD_BYTES, 1);
    word_u64 *words = (word_u64 *)dst;
    uint64_t *halves = (uint64_t *)dst;
    word_u64 word = {low, high};

    MAP(word_u64, words, i, 0, cut.words, word);
    MAP_FEW(halves, i, 0, 2 * cut.head, i % 2 ? high : low);
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

#define ADD(name, type, word_type)                                                                                \
    LEAT_KERNEL(name, 3, type *, data, uint64_t, count, type, value)                                              \
    {                                                                                                             \
        struct word_cut cut = cut_words(data, count, sizeof(type), 1);                                            \
        word_type *words = (word_type *)(data + cut.head);                                                        \
        word_type word = {value, value, value, value};                                                            \
                                                                                                                  \
        MAP_FEW(data, i, 0, cut.head, data[i] + value);                                                           \
        MAP(word_type, words, i, 0, cut.words, words[i] + word);                                                  \
        MAP_FEW(data, i, cut.tail, count, data[i] + value);                                                       \
    }

ADD(leat_add_f32, float, word_f32)
ADD(leat_add_u32, uint32_t, word_u32)

#define VECTOR_ADD(name, type, word_type)                                                                         \
    LEAT_KERNEL(name, 4, type *, sum, const type *, a, const type *, b, uint64_t, count)                          \
    {                                                                                                             \
        struct word_cut cut = cut_words(sum, count, sizeof(type), lie_alike(sum, a) && lie_alike(sum, b));        \
        word_type *sum_words = (word_type *)(sum + cut.head);                                                     \
        const word_type *a_words = (const word_type *)(a + cut.head);                                             \
        const word_type *b_words = (const word_type *)(b + cut.head);                                             \
                                                                                                                  \
        MAP(type, sum, i, 0, cut.head, a[i] + b[i]);                                                              \
        MAP(word_type, sum_words, i, 0, cut.words, a_words[i] + b_words[i]);                                      \
        MAP_FEW(sum, i, cut.tail, count, a[i] + b[i]);                                                            \
    }

VECTOR_ADD(leat_vector_add_f32, float, word_f32)
VECTOR_ADD(leat_vector_add_u32, uint32_t, word_u32)

LEAT_KERNEL(leat_square_u32, 2, uint32_t *, data, uint64_t, count)
{
    struct word_cut cut = cut_words(data, count, sizeof *data, 1);
    word_u32 *words = (word_u32 *)(data + cut.head);

    MAP_FEW(data, i, 0, cut.head, data[i] * data[i]);
    MAP(word_u32, words, i, 0, cut.words, words[i] * words[i]);
    MAP_FEW(data, i, cut.tail, count, data[i] * data[i]);
}

/* ---- pattern, verify, checksum --------------------------------------------------------------- */

LEAT_KERNEL(leat_pattern_u64, 3, uint64_t *, dst, uint64_t, count, uint64_t, seed)
{
    struct word_cut cut = cut_words(dst, count, sizeof *dst, 1);
    word_u64 *words = (word_u64 *)(dst + cut.head);

    MAP_FEW(dst, i, 0, cut.head, pattern_value(i, seed));
    MAP(word_u64, words, i, 0, cut.words,
        ((word_u64){pattern_value(cut.head + 2 * i, seed), pattern_value(cut.head + 2 * i + 1, seed)}));
    MAP_FEW(dst, i, cut.tail, count, pattern_value(i, seed));
}

static inline uint64_t is_wrong(uint64_t index, uint64_t seed, uint64_t found)
{
    return found != pattern_value(index, seed);
}

LEAT_KERNEL(leat_verify_u64, 4, const uint64_t *, src, uint64_t, count, uint64_t, seed, uint64_t *, wrong)
{
    struct word_cut cut = cut_words(src, count, sizeof *src, 1);
    const word_u64 *words = (const word_u64 *)(src + cut.head);
    uint64_t found = 0;

    SUM_FEW(found, i, 0, cut.head, is_wrong(i, seed, src[i]));
    SUM(found, i, 0, cut.words,
        is_wrong(cut.head + 2 * i, seed, words[i][0]) + is_wrong(cut.head + 2 * i + 1, seed, words[i][1]));
    SUM_FEW(found, i, cut.tail, count, is_wrong(i, seed, src[i]));
    add_to_total(wrong, found, leat_thread_x(), leat_block_threads_x());
}

/* Adds up one value for each element: the pattern value of its index, with the element itself as the seed. */
LEAT_KERNEL(leat_checksum_u64, 3, const uint64_t *, src, uint64_t, count, uint64_t *, sum)
{
    struct word_cut cut = cut_words(src, count, sizeof *src, 1);
    const word_u64 *words = (const word_u64 *)(src + cut.head);
    uint64_t found = 0;

    SUM_FEW(found, i, 0, cut.head, pattern_value(i, src[i]));
    SUM(found, i, 0, cut.words,
        pattern_value(cut.head + 2 * i, words[i][0]) + pattern_value(cut.head + 2 * i + 1, words[i][1]));
    SUM_FEW(found, i, cut.tail, count, pattern_value(i, src[i]));
    add_to_total(sum, found, leat_thread_x(), leat_block_threads_x());
}

/* ---- memory bandwidth and latency, for "leat bench memory" ------------------------------------- */

/* Reads all elements and adds them up, to measure the bandwidth of reading. The additions cost almost nothing. */
LEAT_KERNEL(leat_sum_u64, 3, const uint64_t *, src, uint64_t, count, uint64_t *, sum)
{
    struct word_cut cut = cut_words(src, count, sizeof *src, 1);
    const word_u64 *words = (const word_u64 *)(src + cut.head);
    uint64_t found = 0;

    SUM_FEW(found, i, 0, cut.head, src[i]);
    SUM(found, i, 0, cut.words, words[i][0] + words[i][1]);
    SUM_FEW(found, i, cut.tail, count, src[i]);
    add_to_total(sum, found, leat_thread_x(), leat_block_threads_x());
}

/* Like leat_sum_u64, but reads runs of 1 << shift elements. A run begins every stride elements. */
LEAT_KERNEL(leat_sum_runs_u64, 5, const uint64_t *, src, uint64_t, runs, uint64_t, shift, uint64_t, stride,
            uint64_t *, sum)
{
    const uint64_t mask = ((uint64_t)1 << shift) - 1;
    uint64_t found = 0;

    SUM(found, i, 0, runs << shift, src[(i >> shift) * stride + (i & mask)]);
    add_to_total(sum, found, leat_thread_x(), leat_block_threads_x());
}

/* One thread follows a chain in memory, to measure latency: each element is the index of the next element. */
LEAT_KERNEL(leat_chase_u64, 3, const uint64_t *, chain, uint64_t, steps, uint64_t *, end)
{
    uint64_t at = 0;

    if (leat_global_index())
        return;
    for (uint64_t i = 0; i < steps; i++)
        at = chain[at];
    *end = at;
}

/* Like leat_chase_u64, but in local memory (on AMD GPUs, scratch memory): the chain is a private array that is too
 * large for registers. */
#define LOCAL_WORDS 256

LEAT_KERNEL(leat_chase_local_u64, 2, uint64_t, steps, uint64_t *, end)
{
    volatile uint32_t chain[LOCAL_WORDS];
    uint32_t at = 0;

    if (leat_global_index())
        return;
    for (uint32_t i = 0; i < LOCAL_WORDS; i++)
        chain[i] = (i + 97) % LOCAL_WORDS; /* 97 and LOCAL_WORDS are coprime, so the chain visits all elements */
    for (uint64_t i = 0; i < steps; i++)
        at = chain[at];
    *end = at;
}

/* A chain of dependent steps that uses only registers. Each step is a multiplication and an addition. */
LEAT_KERNEL(leat_chain_u64, 3, uint64_t, steps, uint64_t, factor, uint64_t *, end)
{
    uint64_t value = 1;

    if (leat_global_index())
        return;
    for (uint64_t i = 0; i < steps; i++)
        value = value * factor + 1;
    *end = value;
}

/* ---- batches of copies ----------------------------------------------------------------------- */

/* These two structs must match struct batch_piece and struct batch_copier of copy/batch.c. */
struct piece {
    char *dst;
    const char *src;
    uint32_t bytes;
    uint32_t number; /* number of the piece, which only the copier uses */
};

/* On the CPU device, if the program could unmap the memory during the copies, the kernel gets a copier, which
 * makes them. Otherwise the kernel's argument copier is NULL. */
struct copier {
    void (*copy)(struct copier *copier, const struct piece *piece);
};

#if defined(__NVPTX__) || defined(__AMDGCN__)

/* The number of threads that copy a piece together: on NVIDIA GPUs a warp, on AMD GPUs a half or a whole
 * wavefront. */
#define LANES 32
#define UNITS 8 /* number of loads that each thread starts before its first store; 4 KiB for a warp */

typedef uint16_t unit_u16 __attribute__((may_alias));
typedef uint32_t unit_u32 __attribute__((may_alias));
typedef uint64_t unit_u64 __attribute__((may_alias));

#define COPY_UNITS(type, out, in, count, lane)                                                                    \
    do {                                                                                                          \
        type *out_ = (type *)(out);                                                                               \
        const type *in_ = (const type *)(in);                                                                     \
        uint64_t at_ = (lane), count_ = (count);                                                                  \
        for (; at_ + (UNITS - 1) * LANES < count_; at_ += UNITS * LANES) {                                        \
            type held_[UNITS];                                                                                    \
            _Pragma("unroll") for (uint32_t k_ = 0; k_ < UNITS; k_++) held_[k_] = in_[at_ + k_ * LANES];          \
            _Pragma("unroll") for (uint32_t k_ = 0; k_ < UNITS; k_++) out_[at_ + k_ * LANES] = held_[k_];         \
        }                                                                                                         \
        for (; at_ < count_; at_ += LANES)                                                                        \
            out_[at_] = in_[at_];                                                                                 \
    } while (0)

/* Copies a piece in the largest units for which both sides have the same alignment. Copies the bytes before the
 * first unit and after the last unit one by one. */
static inline void copy_piece(const struct piece *piece, uint32_t lane)
{
    char *dst = piece->dst;
    const char *src = piece->src;
    uint64_t bytes = piece->bytes, apart = ((uintptr_t)dst ^ (uintptr_t)src) % WORD_BYTES;
    uint64_t unit_bytes = apart == 0 ? 16 : apart % 8 == 0 ? 8 : apart % 4 == 0 ? 4 : apart % 2 == 0 ? 2 : 1;
    uint64_t head = (unit_bytes - (uintptr_t)dst % unit_bytes) % unit_bytes, units, tail;

    head = head < bytes ? head : bytes;
    units = (bytes - head) / unit_bytes;
    tail = head + units * unit_bytes;
    if (lane < head)
        dst[lane] = src[lane];
    if (tail + lane < bytes)
        dst[tail + lane] = src[tail + lane];
    dst += head;
    src += head;
    if (unit_bytes == 16)
        COPY_UNITS(word_u64, dst, src, units, lane);
    else if (unit_bytes == 8)
        COPY_UNITS(unit_u64, dst, src, units, lane);
    else if (unit_bytes == 4)
        COPY_UNITS(unit_u32, dst, src, units, lane);
    else if (unit_bytes == 2)
        COPY_UNITS(unit_u16, dst, src, units, lane);
    else
        COPY_UNITS(char, dst, src, units, lane);
}

/* Copies count pieces, which must not overlap. The number of threads of a block must be a multiple of 32. */
LEAT_KERNEL(leat_copy_pieces, 3, const struct piece *, pieces, uint64_t, count, struct copier *, copier)
{
    uint64_t step = leat_global_count() / LANES;

    (void)copier;
    for (uint64_t i = leat_global_index() / LANES; i < count; i += step)
        copy_piece(&pieces[i], leat_thread_x() % LANES);
}

#else

LEAT_KERNEL(leat_copy_pieces, 3, const struct piece *, pieces, uint64_t, count, struct copier *, copier)
{
    LEAT_FOR (i, count) {
        if (copier)
            copier->copy(copier, &pieces[i]);
        else
            memcpy(pieces[i].dst, pieces[i].src, pieces[i].bytes);
    }
}

#endif

/* ---- only on the CPU device: running the parts of a function on all threads ---------------------- */

#if !defined(__NVPTX__) && !defined(__AMDGCN__)

/* This struct must match the beginning of struct leati_parts in copy/layout_run.c. */
struct parts {
    void (*run)(struct parts *parts, uint64_t part);
};

LEAT_KERNEL(leat_run_parts, 2, struct parts *, parts, uint64_t, count)
{
    LEAT_FOR (i, count)
        parts->run(parts, i);
}

#endif
