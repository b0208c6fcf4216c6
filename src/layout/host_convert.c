/* host_convert.c - see host_convert.h. */
#include "layout/host_convert.h"

#include "layout/host_kernels.h"

#include "base/assert.h"
#include "base/options.h"
#include "kernels/convert_numbers.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* The size of a part's buffer. Threads have stacks of 8 MiB, or the program's. */
#define BUFFER_BYTES 65536

/* A block of a transposing layout has about as many elements in its dense dimensions of both sides, but whole
 * lines of the cache. */
#define SIDE_LEAST 128

#define VECTOR 8 /* elements of a vector */

/* ---- parts ---- */

/* Returns the dimension to cut, besides the slowest of a block: the one that is dense on the source; or 0. */
static unsigned source_dim(const struct leati_canonical *canonical)
{
    int dense = leati_canonical_dense_src(canonical);

    return dense > 0 ? (unsigned)dense : 0;
}

void leati_host_convert_make(const struct leati_canonical *canonical, struct leati_host_layout *host)
{
    uint64_t room = BUFFER_BYTES / (canonical->src_unit_bytes > canonical->unit_bytes ? canonical->src_unit_bytes
                                                                                      : canonical->unit_bytes);
    unsigned dense = canonical->dims ? source_dim(canonical) : 0;

    host->kernel = LEATI_HOST_CONVERT;
    host->parts = 1;
    host->streaming = false;
    host->unit_bytes = canonical->unit_bytes;
    host->dims = canonical->dims;
    /* First give both dense dimensions a side, then fill the block in the order of the destination. */
    for (unsigned k = 0; k < canonical->dims; k++) {
        host->order[k] = k;
        host->part_size[k] = k == dense && dense ? SIDE_LEAST : 1;
        if (host->part_size[k] > canonical->size[k])
            host->part_size[k] = canonical->size[k];
        leati_assert(host->part_size[k] > 0); /* an empty layout is not planned */
        room /= host->part_size[k];
    }
    for (unsigned k = 0; k < canonical->dims; k++) {
        uint64_t size = host->part_size[k] * (room ? room : 1);

        host->part_size[k] = size < canonical->size[k] ? size : canonical->size[k];
        leati_assert(host->part_size[k] > 0);
        room = size / host->part_size[k];
        host->part_count[k] = (canonical->size[k] + host->part_size[k] - 1) / host->part_size[k];
        host->parts *= host->part_count[k];
    }
}

/* ---- one row ---- */

static uint32_t load(const char *from, uint32_t bytes)
{
    uint32_t value = 0;

    memcpy(&value, from, bytes);
    return value;
}

static uint32_t widen(uint32_t number, uint32_t value)
{
    switch (number) {
    case LEATI_U8:
        return leati_widen_u8(value);
    case LEATI_F16:
        return leati_widen_f16(value, 1);
    case LEATI_BF16:
        return value << 16;
    default:
        return value;
    }
}

static uint32_t narrow(uint32_t number, uint32_t bits)
{
    switch (number) {
    case LEATI_F16:
        return leati_narrow_f16(bits, 1);
    case LEATI_BF16:
        return leati_narrow_bf16(bits, 1);
    default:
        return bits;
    }
}

static void convert_one(const struct leati_convert *convert, float scale, float bias, char *dst, const char *src)
{
    uint32_t value = load(src, convert->src_bytes);

    if (convert->flags & LEATI_SWAP_SRC)
        value = leati_swap(value, convert->src_bytes);
    if (convert->dst_number != LEATI_BITS) {
        uint32_t before = widen(convert->src_number, value);

        value = narrow(convert->dst_number, leati_settle_nan(before, leati_scale(before, scale, bias)));
    }
    if (convert->flags & LEATI_SWAP_DST)
        value = leati_swap(value, convert->dst_bytes);
    memcpy(dst, &value, convert->dst_bytes);
}

static void swap_one_wide(const struct leati_convert *convert, char *dst, const char *src)
{
    uint64_t value;

    memcpy(&value, src, sizeof value);
    if (!(convert->flags & LEATI_SWAP_SRC) != !(convert->flags & LEATI_SWAP_DST))
        value = __builtin_bswap64(value);
    memcpy(dst, &value, sizeof value);
}

/* Reverses, or only moves, elements of one size. A loop of its own for each size, which compilers make vectors of.
 */
#define SWAP_ROW(type, swap)                                                                                      \
    for (uint64_t i = 0; i < count; i++) {                                                                        \
        type value_;                                                                                              \
                                                                                                                  \
        memcpy(&value_, src + i * sizeof value_, sizeof value_);                                                  \
        value_ = swap(value_);                                                                                    \
        memcpy(dst + i * sizeof value_, &value_, sizeof value_);                                                  \
    }

static void swap_row(const struct leati_convert *convert, char *dst, const char *src, uint64_t count)
{
    if (!(convert->flags & LEATI_SWAP_SRC) == !(convert->flags & LEATI_SWAP_DST))
        memcpy(dst, src, count * convert->dst_bytes);
    else if (convert->dst_bytes == 2)
        SWAP_ROW(uint16_t, __builtin_bswap16)
    else if (convert->dst_bytes == 4)
        SWAP_ROW(uint32_t, __builtin_bswap32)
    else
        SWAP_ROW(uint64_t, __builtin_bswap64)
}

void leati_convert_row_plain(const struct leati_convert *convert, const float *scale, const float *bias,
                             uint32_t cycle, char *dst, const char *src, uint64_t count)
{
    uint32_t at = 0;

    if (convert->dst_number == LEATI_BITS) {
        swap_row(convert, dst, src, count);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        convert_one(convert, scale[at], bias[at], dst + i * convert->dst_bytes, src + i * convert->src_bytes);
        at = at + 1 < cycle ? at + 1 : 0;
    }
}

/* ---- one part ---- */

/* What the rows of a part need. */
struct rows {
    const struct leati_convert *convert;
    leati_convert_row row;
    int64_t dst_stride;
    uint64_t count;
    uint32_t cycle;
    float scale[LEATI_FACTORS * VECTOR], bias[LEATI_FACTORS * VECTOR];
};

/* Sets the scales and biases of a row that begins at `channel`. cyclic: its elements are of channel, channel + 1
 * and so on, round and round. They are repeated until there is a whole number of vectors. */
static void set_factors(struct rows *rows, const struct leati_factors *factors, uint64_t channel, bool cyclic)
{
    uint32_t at = (uint32_t)channel;

    rows->cycle = cyclic ? factors->count * VECTOR : VECTOR;
    leati_assert(rows->cycle > 0);
    for (uint32_t i = 0; i < rows->cycle; i++) {
        rows->scale[i] = factors->scale[at];
        rows->bias[i] = factors->bias[at];
        if (cyclic)
            at = at + 1 < factors->count ? at + 1 : 0;
    }
}

static void convert_row(const struct rows *rows, char *dst, const char *src)
{
    const struct leati_convert *convert = rows->convert;
    uint32_t at = 0;

    if (rows->dst_stride == (int64_t)convert->dst_bytes) {
        rows->row(convert, rows->scale, rows->bias, rows->cycle, dst, src, rows->count);
        return;
    }
    for (uint64_t i = 0; i < rows->count; i++) {
        if (convert->dst_bytes == 8)
            swap_one_wide(convert, dst, src);
        else
            convert_one(convert, rows->scale[at], rows->bias[at], dst, src);
        dst += rows->dst_stride;
        src += convert->src_bytes;
        at = at + 1 < rows->cycle ? at + 1 : 0;
    }
}

/* A part of the copy. */
struct converted_part {
    const struct leati_canonical *canonical;
    const struct leati_convert *convert;
    const struct leati_factors *factors; /* in the order of the canonical layout */
    uint64_t start[LEATI_CANONICAL_MAX_DIMS], size[LEATI_CANONICAL_MAX_DIMS];
    int64_t src_stride[LEATI_CANONICAL_MAX_DIMS]; /* of the source, or of the buffer that has its elements */
    char *dst;
    const char *src;
};

static void find_block(const struct leati_canonical *canonical, const struct leati_host_layout *host,
                       uint64_t part, struct converted_part *block)
{
    for (unsigned k = 0; k < canonical->dims; k++) {
        uint64_t start = part % host->part_count[k] * host->part_size[k], left = canonical->size[k] - start;

        part /= host->part_count[k];
        block->start[k] = start;
        block->size[k] = left < host->part_size[k] ? left : host->part_size[k];
        block->src_stride[k] = canonical->src_stride[k];
        block->dst += (int64_t)start * canonical->dst_stride[k];
        block->src += (int64_t)start * canonical->src_stride[k];
    }
}

/* Brings the block's elements into the order of the destination, if they are not. */
static void gather_block(struct converted_part *block, char *buffer)
{
    const struct leati_canonical *canonical = block->canonical;
    int64_t step = canonical->src_unit_bytes;
    struct leati_canonical part;
    struct leati_host_layout host;

    if (!canonical->dims || canonical->src_stride[0] == step)
        return;
    leati_canonical_make_part(canonical, block->size, canonical->src_unit_bytes, &part);
    leati_host_layout_make(&part, LEAT_LAYOUT_CLASS_ELEMENTS, &host);
    leati_host_layout_run(&part, &host, buffer, block->src, NULL, 0, host.parts);
    block->src = buffer;
    for (unsigned k = 0; k < canonical->dims; k++) {
        block->src_stride[k] = step;
        step *= (int64_t)block->size[k];
    }
}

static bool is_channel_dim(const struct leati_canonical *canonical, unsigned k)
{
    return canonical->channels && canonical->channel_dim == k;
}

/* Converts the block in rows. A row is dimension 0, and the next one with it if that continues it on both sides.
 */
static void convert_block(const struct converted_part *block, struct rows *rows)
{
    const struct leati_canonical *canonical = block->canonical;
    bool cyclic = canonical->dims && is_channel_dim(canonical, 0);
    uint64_t index[LEATI_CANONICAL_MAX_DIMS] = {0};
    char *dst = block->dst;
    const char *src = block->src;
    unsigned inner = canonical->dims ? 1 : 0, k;

    rows->count = inner ? block->size[0] : 1;
    rows->dst_stride = inner ? canonical->dst_stride[0] : canonical->unit_bytes;
    while (inner && inner < canonical->dims && !is_channel_dim(canonical, inner) &&
           block->size[0] == canonical->size[0] &&
           canonical->dst_stride[inner] == rows->dst_stride * (int64_t)rows->count &&
           block->src_stride[inner] == (int64_t)(canonical->src_unit_bytes * rows->count))
        rows->count *= block->size[inner++];
    if (cyclic || !canonical->channels)
        set_factors(rows, block->factors, cyclic ? block->start[0] : 0, cyclic);
    do {
        if (canonical->channels && !cyclic)
            set_factors(rows, block->factors, block->start[canonical->channel_dim] + index[canonical->channel_dim],
                        false);
        convert_row(rows, dst, src);
        for (k = inner; k < canonical->dims; k++) {
            dst += canonical->dst_stride[k];
            src += block->src_stride[k];
            if (++index[k] < block->size[k])
                break;
            dst -= (int64_t)block->size[k] * canonical->dst_stride[k];
            src -= (int64_t)block->size[k] * block->src_stride[k];
            index[k] = 0;
        }
    } while (k < canonical->dims);
}

/* The program may have changed how its threads round, or treat subnormal numbers, and one of its threads may make
 * a part. */
#if defined(__x86_64__)
#define DEFAULT_MODE 0x1f80u
static unsigned set_mode(unsigned mode)
{
    unsigned before = _mm_getcsr();

    if (before != mode)
        _mm_setcsr(mode);
    return before;
}
#else
#define DEFAULT_MODE 0u
static unsigned set_mode(unsigned mode)
{
    return mode;
}
#endif

static leati_convert_row row_of(const struct leati_host_layout *host, const struct leati_convert *convert)
{
    if (host->level >= LEATI_HOST_AVX2 && convert->dst_number != LEATI_BITS && leati_has_convert_avx2())
        return leati_convert_row_avx2;
    return leati_convert_row_plain;
}

void leati_host_convert_run(const struct leati_canonical *canonical, const struct leati_host_layout *host,
                            const struct leati_convert *convert, const struct leati_factors *factors, void *dst,
                            const void *src, uint64_t first, uint64_t end)
{
    _Alignas(64) char buffer[BUFFER_BYTES];
    struct leati_factors turned;
    struct rows rows;
    unsigned mode;

    leati_assert(first <= end && end <= host->parts && host->kernel == LEATI_HOST_CONVERT);
    leati_factors_turn(canonical, factors, &turned);
    rows.convert = convert;
    rows.row = row_of(host, convert);
    mode = set_mode(DEFAULT_MODE);
    for (uint64_t part = first; part < end; part++) {
        struct converted_part block = {.canonical = canonical,
                                       .convert = convert,
                                       .factors = &turned,
                                       .dst = (char *)dst + canonical->dst_offset,
                                       .src = (const char *)src + canonical->src_offset};

        find_block(canonical, host, part, &block);
        gather_block(&block, buffer);
        convert_block(&block, &rows);
    }
    (void)set_mode(mode);
}
