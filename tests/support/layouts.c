/* layouts.c - see layouts.h. */
#include "layouts.h"

#include <stdio.h>
#include <string.h>

uint64_t layouts_random(uint64_t *random, uint64_t below)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return (*random >> 11) % below;
}

/* ---- drawing ---- */

static int64_t draw_size(uint64_t *random)
{
    static const int64_t near[] = {3,  4,  7,  8,  15,  16,  17,  31,  32,  33,
                                   63, 64, 65, 96, 127, 128, 129, 255, 256, 257};

    switch (layouts_random(random, 5)) {
    case 0:
        return 1;
    case 1:
        return near[layouts_random(random, sizeof near / sizeof near[0])];
    case 2:
        return 1 + (int64_t)layouts_random(random, 4);
    case 3:
        return 1 + (int64_t)layouts_random(random, 20);
    default:
        return 1 + (int64_t)layouts_random(random, 300);
    }
}

static uint32_t draw_dims(uint64_t *random)
{
    switch (layouts_random(random, 8)) {
    case 0:
        return (uint32_t)layouts_random(random, LEAT_LAYOUT_MAX_DIMS + 1);
    case 1:
        return (uint32_t)layouts_random(random, 2);
    default:
        return 2 + (uint32_t)layouts_random(random, 4);
    }
}

/* Draws a random order of the dimensions, so that any of them may be the fastest one. */
static void draw_order(uint64_t *random, uint32_t dims, uint32_t *order)
{
    for (uint32_t i = 0; i < dims; i++) {
        uint32_t at = (uint32_t)layouts_random(random, i + 1);

        order[i] = order[at];
        order[at] = i;
    }
}

static int64_t draw_gap(uint64_t *random, int64_t step, uint32_t element_bytes)
{
    switch (layouts_random(random, 10)) {
    case 0:
        return (int64_t)layouts_random(random, 5) * element_bytes;
    case 1:
        return (16 - step % 16) % 16;
    case 2:
        return (128 - step % 128) % 128;
    case 3:
        return (int64_t)layouts_random(random, 40);
    default:
        return 0;
    }
}

/* Places the dimensions in memory in this order, the last one fastest. Some of them run backwards. */
static void draw_strides(uint64_t *random, const uint32_t *order, leat_layout *layout)
{
    int64_t step = layout->element_bytes;

    for (uint32_t i = layout->dims; i-- > 0;) {
        uint32_t dim = order[i];
        int64_t size = layout->index && dim == layout->index_dim ? layout->index_bound : layout->size[dim];

        step += draw_gap(random, step, layout->element_bytes);
        layout->stride_bytes[dim] = step;
        step *= size ? size : 1;
        if (layouts_random(random, 8) == 0) {
            layout->offset_bytes += (size - 1) * layout->stride_bytes[dim];
            layout->stride_bytes[dim] *= -1;
        }
    }
    if (layouts_random(random, 4) == 0)
        layout->offset_bytes += (int64_t)layouts_random(random, 100) * (layouts_random(random, 2) ? 16 : 1);
}

/* Makes the source read elements repeatedly, by dimensions with stride 0 or by overlapping windows. */
static void draw_repeats(uint64_t *random, struct layouts_pair *pair)
{
    leat_layout *src = &pair->src;

    for (uint32_t i = 0; i < src->dims; i++) {
        if (src->index && i == src->index_dim)
            continue;
        if (layouts_random(random, 3) == 0) {
            src->stride_bytes[i] = 0;
        } else if (layouts_random(random, 4) == 0) {
            src->stride_bytes[i] = (int64_t)layouts_random(random, 3) * src->element_bytes;
            pair->nested = false;
        }
    }
}

static void draw_list(uint64_t *random, leat_layout *layout, struct layouts_pair *pair)
{
    int64_t bound = layout->index_bound;

    for (int64_t i = 0; i < layout->size[layout->index_dim]; i++) {
        uint64_t index = layouts_random(random, (uint64_t)bound);

        if (layout->index_bytes == 4)
            ((uint32_t *)pair->list)[i] = (uint32_t)index;
        else
            pair->list[i] = index;
    }
}

static void find_reach(const leat_layout *layout, int64_t *low, int64_t *high)
{
    *low = *high = layout->offset_bytes;
    *high += layout->element_bytes;
    for (uint32_t i = 0; i < layout->dims; i++) {
        int64_t size = layout->index && i == layout->index_dim ? layout->index_bound : layout->size[i];
        int64_t way = (size - 1) * layout->stride_bytes[i];

        *(way < 0 ? low : high) += way;
    }
}

void layouts_measure(struct layouts_pair *pair)
{
    pair->elements = 1;
    for (uint32_t i = 0; i < pair->dst.dims; i++)
        pair->elements *= (uint64_t)pair->dst.size[i];
    find_reach(&pair->dst, &pair->dst_low, &pair->dst_high);
    find_reach(&pair->src, &pair->src_low, &pair->src_high);
}

/* Fills the list with a part of a random permutation, so that it names no element twice. */
static void draw_distinct(uint64_t *random, leat_layout *layout, struct layouts_pair *pair)
{
    uint32_t order[256];

    draw_order(random, (uint32_t)layout->index_bound, order);
    for (int64_t i = 0; i < layout->size[layout->index_dim]; i++) {
        if (layout->index_bytes == 4)
            ((uint32_t *)pair->list)[i] = order[i];
        else
            pair->list[i] = order[i];
    }
}

static void put_list(uint64_t *random, leat_layout *layout, struct layouts_pair *pair, bool distinct)
{
    uint32_t dim = (uint32_t)layouts_random(random, layout->dims);
    int64_t size = layout->size[dim];

    layout->index = pair->list;
    layout->index_dim = dim;
    layout->index_bytes = layouts_random(random, 2) ? 4 : 8;
    layout->index_bound = 1 + (int64_t)layouts_random(random, (uint64_t)(2 * size));
    if (distinct && layout->index_bound < size)
        layout->index_bound = size;
    if (layout->index_bound > 256)
        layout->index_bound = 256;
    if (distinct)
        draw_distinct(random, layout, pair);
    else
        draw_list(random, layout, pair);
}

static void draw_sizes(uint64_t *random, uint32_t element_bytes, uint64_t most_bytes, leat_layout *layout)
{
    uint64_t bytes = element_bytes;

    layout->element_bytes = element_bytes;
    layout->dims = draw_dims(random);
    for (uint32_t i = 0; i < layout->dims; i++) {
        int64_t size = draw_size(random);

        if (bytes * (uint64_t)size > most_bytes)
            size = 1 + (int64_t)layouts_random(random, 2);
        if (bytes * (uint64_t)size > most_bytes)
            size = 1;
        layout->size[i] = size;
        bytes *= (uint64_t)size;
    }
}

static bool is_too_far(int64_t low, int64_t high, int64_t most_bytes)
{
    return high - low > 16 * most_bytes || high > 16 * most_bytes;
}

static void draw_once(uint64_t *random, uint32_t element_bytes, uint64_t most_bytes, enum layouts_list list,
                      struct layouts_pair *pair)
{
    uint32_t order[LEAT_LAYOUT_MAX_DIMS], other[LEAT_LAYOUT_MAX_DIMS];
    leat_layout sizes = {.dims = 0};

    memset(pair, 0, sizeof *pair);
    draw_sizes(random, element_bytes, most_bytes, &sizes);
    while (list != LAYOUTS_NO_LIST && !sizes.dims)
        draw_sizes(random, element_bytes, most_bytes, &sizes);
    for (uint32_t i = 0; list != LAYOUTS_NO_LIST && i < sizes.dims; i++)
        if (sizes.size[i] > 256)
            sizes.size[i] = 256;
    pair->dst = pair->src = sizes;
    pair->nested = true;
    if (list == LAYOUTS_GATHER)
        put_list(random, &pair->src, pair, false);
    else if (list == LAYOUTS_SCATTER)
        put_list(random, &pair->dst, pair, true);
    draw_order(random, sizes.dims, order);
    draw_order(random, sizes.dims, other);
    draw_strides(random, order, &pair->dst);
    draw_strides(random, layouts_random(random, 3) ? other : order, &pair->src);
    if (layouts_random(random, 4) == 0)
        draw_repeats(random, pair);
    layouts_measure(pair);
}

void layouts_draw(uint64_t *random, uint32_t element_bytes, uint64_t most_bytes, enum layouts_list list,
                  struct layouts_pair *pair)
{
    do {
        draw_once(random, element_bytes, most_bytes, list, pair);
    } while (is_too_far(pair->dst_low, pair->dst_high, (int64_t)most_bytes) ||
             is_too_far(pair->src_low, pair->src_high, (int64_t)most_bytes));
}

/* ---- the plain loop ---- */

static int64_t index_at(const leat_layout *layout, uint64_t at)
{
    if (layout->index_bytes == 4)
        return ((const int32_t *)layout->index)[at];
    return ((const int64_t *)layout->index)[at];
}

int64_t layouts_at(const leat_layout *layout, uint64_t number)
{
    int64_t at = layout->offset_bytes;

    for (uint32_t i = layout->dims; i-- > 0;) {
        uint64_t size = (uint64_t)layout->size[i], position = number % size;
        int64_t steps = (int64_t)position;

        number /= size;
        if (layout->index && i == layout->index_dim) {
            steps = index_at(layout, position);
            if (steps < 0 || steps >= layout->index_bound)
                return INT64_MIN;
        }
        at += steps * layout->stride_bytes[i];
    }
    return at;
}

uint64_t layouts_copy(const struct layouts_pair *pair, void *dst_low, const void *src_low)
{
    const leat_layout *listed = pair->dst.index ? &pair->dst : &pair->src;
    uint64_t wrong = 0;

    for (uint64_t i = 0; i < pair->elements; i++) {
        int64_t to = layouts_at(&pair->dst, i), from = layouts_at(&pair->src, i);

        if (to != INT64_MIN && from != INT64_MIN)
            memcpy((char *)dst_low + (to - pair->dst_low), (const char *)src_low + (from - pair->src_low),
                   pair->dst.element_bytes);
    }
    for (uint64_t i = 0; listed->index && i < (uint64_t)listed->size[listed->index_dim]; i++)
        wrong += index_at(listed, i) < 0 || index_at(listed, i) >= listed->index_bound;
    return wrong;
}

void layouts_print(const leat_layout *layout, char *text, size_t text_bytes)
{
    size_t used = (size_t)snprintf(text, text_bytes, "%u-byte elements from %lld:", layout->element_bytes,
                                   (long long)layout->offset_bytes);

    for (uint32_t i = 0; i < layout->dims && used < text_bytes; i++)
        used += (size_t)snprintf(text + used, text_bytes - used, " %lld by %lld%s", (long long)layout->size[i],
                                 (long long)layout->stride_bytes[i],
                                 layout->index && i == layout->index_dim ? " (list)" : "");
}
