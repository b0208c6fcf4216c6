/*
 * fuzz_layout.c - tests layouts made of random bytes. Whatever a user writes into a layout, leat must either
 * refuse it or copy it correctly.
 *
 * The bytes become two layouts, often with the same sizes, and some calls that change them. A refusal must have a
 * message. An accepted layout must keep the promises of canonical.h and plan.h. If the layout is small, the test
 * checks each of its elements.
 *
 * A build for libFuzzer (make fuzz-layout) gets its inputs from libFuzzer. The test program draws random inputs:
 * fuzz_layout [--seed N] [--inputs N].
 */
#include "layouts.h"
#include "seed.h"

#include "base/error.h"
#include "layout/plan.h"
#include "layout/sectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL 2048 /* layouts of at most this number of elements are checked element by element */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(what)                                                                                                \
    do {                                                                                                          \
        if (!(what)) {                                                                                            \
            fprintf(stderr, "fuzz_layout.c:%d: not %s\n", __LINE__, #what);                                       \
            abort();                                                                                              \
        }                                                                                                         \
    } while (0)

/* ---- bytes into layouts ---- */

struct input {
    const uint8_t *data;
    size_t left;
};

/* Returns the next byte of the input, or 0 if none is left. */
static uint8_t next_byte(struct input *input)
{
    if (!input->left)
        return 0;
    input->left--;
    return *input->data++;
}

/* Returns mostly small numbers, also powers of two and their neighbours, and sometimes any number. */
static int64_t next_number(struct input *input)
{
    uint8_t kind = next_byte(input);
    uint64_t value = 0;

    if (kind < 160)
        return kind % 20;
    if (kind < 190)
        return (int64_t)next_byte(input) - 128;
    if (kind < 220)
        return next_byte(input) * 256 + next_byte(input) - 32768;
    if (kind < 240)
        return (int64_t)(((uint64_t)1 << next_byte(input) % 64) + next_byte(input) % 3 - 1);
    for (int i = 0; i < 8; i++)
        value = value << 8 | next_byte(input);
    return (int64_t)value;
}

static uint64_t list_of_indices[SMALL];

static void next_layout(struct input *input, leat_layout *layout)
{
    memset(layout, 0, sizeof *layout);
    layout->dims = next_byte(input) % 8;
    if (layout->dims == 7)
        layout->dims = next_byte(input) % 40;
    layout->element_bytes = next_byte(input) % 20;
    layout->offset_bytes = next_number(input);
    for (uint32_t i = 0; i < layout->dims && i < LEAT_LAYOUT_MAX_DIMS; i++) {
        layout->size[i] = next_number(input);
        layout->stride_bytes[i] = next_number(input);
    }
    if (next_byte(input) % 4)
        return;
    layout->index = (char *)list_of_indices + next_byte(input) % 32 / 31;
    layout->index_dim = (uint32_t)next_number(input);
    layout->index_bytes = next_byte(input) % 10;
    layout->index_bound = next_number(input);
    if (next_byte(input) % 4 == 0)
        layout->index_wrong = (uint64_t *)(void *)((char *)list_of_indices + next_byte(input) % 32 / 31);
}

/* Calls one function that changes a layout. The function must do what it promises, or refuse with a message and
 * leave the layout unchanged. */
static void change(struct input *input, leat_layout *layout)
{
    leat_layout before = *layout;
    uint32_t dim = (uint32_t)next_number(input), order[40];
    int64_t size[40], start, stop;
    leat_status status;

    switch (next_byte(input) % 8) {
    case 0:
        for (uint32_t i = 0; i < 40; i++)
            order[i] = next_byte(input) % 40;
        status = leat_layout_permute(layout, order);
        break;
    case 1:
        status = leat_layout_transpose(layout, dim, (uint32_t)next_number(input));
        break;
    case 2:
        start = next_number(input);
        stop = next_number(input);
        status = leat_layout_slice(layout, dim, start, stop, next_number(input));
        break;
    case 3:
        status = leat_layout_flip(layout, dim);
        break;
    case 4:
        status = leat_layout_broadcast(layout, dim, next_number(input));
        break;
    case 5:
        for (uint32_t i = 0; i < 40; i++)
            size[i] = next_number(input);
        status = leat_layout_reshape(layout, next_byte(input) % 40, size);
        break;
    case 6:
        status = leat_layout_index(layout, dim, list_of_indices, next_number(input), next_byte(input) % 10, NULL);
        break;
    default:
        for (uint32_t i = 0; i < 40; i++)
            size[i] = next_number(input);
        status = leat_layout_dense(layout, next_byte(input) % 40, size, next_byte(input));
    }
    MUST(status == LEAT_OK || status == LEAT_ERROR_INVALID || status == LEAT_ERROR_RANGE ||
         status == LEAT_ERROR_UNSUPPORTED);
    MUST(status == LEAT_OK || (leat_last_error()[0] && !memcmp(&before, layout, sizeof before)));
}

/* ---- checks of canonical layouts and plans ---- */

static void check_shape(const struct leati_canonical *canonical)
{
    uint64_t all = canonical->empty ? 0 : (uint64_t)canonical->dst_offset | (uint64_t)canonical->src_offset;

    MUST(canonical->dims <= LEATI_CANONICAL_MAX_DIMS);
    MUST(canonical->unit_bytes && canonical->unit_bytes <= 16 &&
         !(canonical->unit_bytes & (canonical->unit_bytes - 1)));
    MUST(canonical->index_dim >= -1 && canonical->index_dim < (int)canonical->dims);
    for (unsigned i = 0; i < canonical->dims; i++) {
        MUST((int)i == canonical->index_dim ||
             (canonical->size[i] >= 2 && (canonical->dst_stride[i] > 0 || canonical->src_stride[i] > 0)));
        all |= (uint64_t)canonical->dst_stride[i] | (uint64_t)canonical->src_stride[i];
    }
    MUST(all % canonical->unit_bytes == 0);
    MUST(canonical->dst_low <= canonical->dst_high && canonical->src_low <= canonical->src_high);
    MUST(canonical->empty == !canonical->payload_bytes);
    MUST(canonical->payload_bytes <= (uint64_t)LEATI_CANONICAL_MAX_REACH);
}

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

/* Fails unless all elements are within the bounds that the canonical layout states, and no element of dst overlaps
 * another one. */
static void check_elements(const struct leati_canonical *canonical, const leat_layout *dst, const leat_layout *src)
{
    uint64_t elements = canonical->payload_bytes / dst->element_bytes;
    int64_t at[SMALL];

    if (elements > SMALL || dst->index || src->index)
        return;
    for (uint64_t i = 0; i < elements; i++) {
        int64_t from = layouts_at(src, i);

        at[i] = layouts_at(dst, i);
        MUST(at[i] >= canonical->dst_low && at[i] + dst->element_bytes <= canonical->dst_high);
        MUST(from >= canonical->src_low && from + src->element_bytes <= canonical->src_high);
    }
    qsort(at, elements, sizeof at[0], compare);
    for (uint64_t i = 1; i < elements; i++)
        MUST(at[i - 1] + dst->element_bytes <= at[i]);
}

static void check_class(const struct leati_canonical *canonical, leat_layout_class class_of_plan)
{
    int64_t unit = canonical->unit_bytes;

    switch (class_of_plan) {
    case LEAT_LAYOUT_CLASS_NOTHING:
        MUST(canonical->empty);
        return;
    case LEAT_LAYOUT_CLASS_GATHER:
        MUST(canonical->index_dim >= 0);
        return;
    case LEAT_LAYOUT_CLASS_COPY:
        MUST(canonical->dims == 0 ||
             (canonical->dims == 1 && canonical->dst_stride[0] == unit && canonical->src_stride[0] == unit));
        return;
    case LEAT_LAYOUT_CLASS_ROWS:
        MUST(canonical->dims >= 2 && canonical->dst_stride[0] == unit && canonical->src_stride[0] == unit);
        return;
    case LEAT_LAYOUT_CLASS_TRANSPOSE:
        MUST(canonical->dims >= 2 && canonical->dst_stride[0] == unit && leati_canonical_dense_src(canonical) > 0);
        return;
    case LEAT_LAYOUT_CLASS_ND_TILE:
        MUST(canonical->dims >= 2 && canonical->dst_stride[0] == unit &&
             leati_canonical_dense_src(canonical) >= 0);
        return;
    case LEAT_LAYOUT_CLASS_FILL:
        MUST(canonical->dst_stride[0] == unit &&
             (!canonical->src_stride[0] || (canonical->dims >= 2 && !canonical->src_stride[1])));
        return;
    case LEAT_LAYOUT_CLASS_ELEMENTS:
        MUST(canonical->dims >= 1);
        return;
    }
    MUST(false);
}

static void check_plan(const leat_layout *dst, size_t dst_align, const leat_layout *src, size_t src_align)
{
    struct leati_layout_plan *plan, *again;
    struct leati_layout_start start;
    uint64_t read, written;
    char text[600];

    MUST(leati_layout_plan_get(dst, dst_align, src, src_align, &plan, &start) == LEAT_OK);
    read = leati_layout_plan_reads(plan, &start);
    written = leati_layout_plan_writes(plan, &start);
    check_class(&plan->canonical, plan->class_of_plan);
    /* Each sector contains at least one byte of the copy, and each written byte is in a sector. */
    MUST(written <= plan->canonical.payload_bytes && read <= plan->canonical.payload_bytes);
    MUST(plan->canonical.index_dim >= 0 ||
         written >= (plan->canonical.payload_bytes + LEATI_SECTOR_BYTES - 1) / LEATI_SECTOR_BYTES);
    leati_layout_plan_text(plan, &start, false, text, sizeof text);
    leati_layout_plan_text(plan, &start, true, text, 1 + dst_align % 100);
    MUST(leati_layout_plan_get(dst, dst_align, src, src_align, &again, &start) == LEAT_OK && again == plan);
    leati_layout_plan_drop(again);
    leati_layout_plan_drop(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    leat_layout dst, src;
    struct leati_canonical canonical;
    size_t dst_align, src_align;
    leat_status status;
    uintptr_t base = (uintptr_t)1 << 62;

    next_layout(&input, &dst);
    next_layout(&input, &src);
    if (next_byte(&input) % 8) {
        src.dims = dst.dims;
        src.element_bytes = dst.element_bytes;
        memcpy(src.size, dst.size, sizeof src.size);
    }
    for (uint8_t changes = next_byte(&input) % 4; changes; changes--)
        change(&input, next_byte(&input) % 2 ? &dst : &src);
    dst_align = next_byte(&input) % 16 ? (size_t)1 << next_byte(&input) % 10 : (size_t)next_number(&input);
    src_align = (size_t)1 << next_byte(&input) % 10;
    status = leati_canonical_make(&dst, dst_align, &src, src_align, &canonical);
    if (status != LEAT_OK) {
        MUST((status == LEAT_ERROR_INVALID || status == LEAT_ERROR_RANGE) && leat_last_error()[0]);
        return 0;
    }
    check_shape(&canonical);
    check_elements(&canonical, &dst, &src);
    check_plan(&dst, dst_align, &src, src_align);
    for (int i = 0; i < 3; i++) {
        uintptr_t other = base + (uintptr_t)next_number(&input);

        MUST(!leati_canonical_may_overlap(&canonical, (void *)base, (void *)other) || !canonical.empty);
    }
    return 0;
}

#ifndef LEAT_LIBFUZZER

/* Draws inputs that get further than plain random bytes: most numbers are small, and the numbers of dimensions and
 * the element sizes are valid. */
static size_t draw(uint64_t *random, uint8_t *data, size_t most)
{
    size_t size = 1 + (size_t)layouts_random(random, most);

    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)layouts_random(random, layouts_random(random, 4) ? 160 : 256);
    return size;
}

int main(int argc, char **argv)
{
    uint64_t seed = test_seed(), inputs = 200000, random;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seed"))
            seed = strtoull(argv[i + 1], NULL, 0);
        else if (!strcmp(argv[i], "--inputs"))
            inputs = strtoull(argv[i + 1], NULL, 0);
    }
    printf("fuzz_layout: --seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    random = seed * 2 + 1;
    for (uint64_t i = 0; i < inputs; i++) {
        uint8_t data[200];
        size_t size = draw(&random, data, sizeof data);

        LLVMFuzzerTestOneInput(data, size);
    }
    printf("fuzz_layout: %llu inputs\n", (unsigned long long)inputs);
    return 0;
}

#endif
