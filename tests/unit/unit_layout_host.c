/*
 * unit_layout_host.c - tests layout copies by the CPU against a plain loop: random canonical layouts, for every
 * instruction set of this machine, with and without streaming stores, between inaccessible pages.
 *
 * canonical_cases.h documents the arguments of the program.
 */
#include "canonical_cases.h"
#include "harness.h"

#include "base/stream_copy.h"
#include "layout/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_BYTES ((size_t)4 << 20) /* size of the memory of each side */
#define MOST_UNITS ((uint64_t)1 << 17)

#define SHORT_RUNS 5

/* Draws a size that suits one of the kernels. The families are: short and long dimensions in turns (0 and 1),
 * small inner dimensions (2), long dimensions (3), dimensions of size two (4), short runs (5), and any size. */
static uint64_t size_of_family(uint64_t family, unsigned dim)
{
    switch (family) {
    case 0:
        return dim % 2 ? 20 + chance(3000) : 2 + chance(6);
    case 1:
        return dim % 2 ? 2 + chance(6) : 20 + chance(3000);
    case 2:
        return dim < 2 ? 2 + chance(3) : 10 + chance(900);
    case 3:
        return 60 + chance(2500);
    case 4:
        return 2;
    case SHORT_RUNS:
        return dim ? 8 + chance(250) : 2 + chance(14);
    default:
        return cases_size();
    }
}

/* Draws a canonical layout. Returns false if it is too large. */
static bool random_canonical(struct leati_canonical *canonical)
{
    uint64_t family = chance(10);
    unsigned order[16], most = family == 4 ? 10 + (unsigned)chance(6) : 1 + (unsigned)chance(6);

    *canonical = (struct leati_canonical){.unit_bytes = 1u << chance(5), .index_dim = -1};
    canonical->element_bytes = canonical->unit_bytes << chance(2);
    while (canonical->dims < most && cases_add_dim(canonical, size_of_family(family, canonical->dims), MOST_UNITS))
        continue;
    for (unsigned i = 0; i < canonical->dims; i++)
        order[i] = i;
    if (canonical->dims && chance(4) == 0)
        cases_add_list(canonical, false);
    cases_lay_out(canonical, true, order, chance(2));
    if (canonical->dims > 1 && chance(4))
        cases_shuffle(order, family < 3 && chance(2) ? 2 : canonical->dims);
    for (unsigned i = 1; i < canonical->dims && family == SHORT_RUNS; i++) {
        if (order[i])
            continue;
        order[i] = order[0];
        order[0] = 0;
    }
    cases_lay_out(canonical, false, order, chance(2));
    return cases_finish(canonical, MOST_UNITS, ROOM_BYTES);
}

/* ---- one layout ---- */

static void tell(const struct leati_canonical *canonical, const struct leati_host_layout *host)
{
    char text[256];

    leati_host_layout_text(host, text, sizeof text);
    cases_print(canonical, text);
    for (unsigned i = 0; i < canonical->dims; i++)
        fprintf(stderr, "  loop %u is dimension %u in parts of %llu\n", i, host->order[i],
                (unsigned long long)host->part_size[i]);
}

static void run_canonical(const struct leati_canonical *canonical, const struct leati_host_layout *host,
                          const struct cases_rooms *r, const void *list, uint64_t wrong, uint64_t number)
{
    _Atomic uint64_t counted = 0;
    struct leati_indices indices = {list, chance(4) ? &counted : NULL};
    uint64_t middle = chance(host->parts + 1);
    size_t slack = ROOM_BYTES - (size_t)(canonical->dst_high - canonical->dst_low);
    /* Put the layout at the end of the memory, where an access past it faults, or somewhere before. Guard bytes
     * fill the rest. */
    size_t before = chance(3) ? slack / 64 * 64 : slack;
    char *dst, *wanted;
    const char *src;

    before -= chance(2) ? chance(8) * canonical->unit_bytes : 0;
    before -= before % canonical->unit_bytes;
    dst = r->dst + before - canonical->dst_low;
    wanted = r->wanted + before - canonical->dst_low;
    src = chance(4) ? r->src + ROOM_BYTES - canonical->src_high : r->src - canonical->src_low;
    memset(r->dst, 0xa5, ROOM_BYTES);
    memset(r->wanted, 0xa5, ROOM_BYTES);
    cases_judge(canonical, wanted, src, list);
    /* The parts run in any order. If equal indices were in different parts, any of them could write last, but the
     * plain loop takes the last index. So leat may divide the indexed dimension of a destination only if its units
     * are whole elements or the copy has no other dimension. In this case the test runs the parts in order. */
    for (unsigned k = 0; k < host->dims && canonical->index_on_dst; k++) {
        if ((int)host->order[k] != canonical->index_dim || host->part_count[k] == 1)
            continue;
        assert_true(canonical->dims == 1 ||
                    (canonical->unit_bytes >= canonical->element_bytes && canonical->element_bytes <= 8));
        middle = 0;
    }
    leati_host_layout_run(canonical, host, dst, src, &indices, middle, host->parts);
    leati_host_layout_run(canonical, host, dst, src, &indices, 0, middle);
    if (!cases_are_right(r, indices.wrong ? counted : wrong, wrong)) {
        tell(canonical, host);
        cases_fail(r, dst, number, counted, wrong);
    }
}

static void random_layouts_are_copied(void **unused)
{
    /* runs[kernel][instruction set] counts the copies. */
    unsigned runs[LEATI_HOST_FILL + 1][LEATI_HOST_VBMI + 1] = {{0}};
    struct cases_rooms rooms = cases_make_rooms(ROOM_BYTES);

    (void)unused;
    for (uint64_t i = 0; i < cases_count; i++) {
        struct leati_host_layout host;
        struct leati_canonical canonical;
        uint64_t wrong = 0;
        void *list = NULL;

        cases_draw_from(i);
        if (!random_canonical(&canonical))
            continue;
        if (canonical.index_dim >= 0)
            list = cases_make_list(&canonical, false, &wrong);
        leati_host_layout_make(&canonical, LEAT_LAYOUT_CLASS_ELEMENTS, &host);
        host.level = (enum leati_host_level)chance((uint64_t)leati_host_level() + 1);
        host.streaming = chance(2);
        run_canonical(&canonical, &host, &rooms, list, wrong, i);
        runs[host.kernel][host.level]++;
        free(list);
    }
    for (unsigned i = 0; cases_count >= 1000 && i <= LEATI_HOST_FILL; i++)
        for (unsigned j = 0; j <= leati_host_level(); j++)
            if (!runs[i][j])
                fail_msg("kernel %u was never run with instructions %u", i, j);
}

/* The source rows begin in few sets of the first-level cache, so tiles may copy them into a buffer first. */
static void rows_in_few_cache_sets_are_copied(void **unused)
{
    struct cases_rooms rooms = cases_make_rooms(ROOM_BYTES);

    (void)unused;
    for (uint64_t i = 0; i < 200; i++) {
        unsigned unit = 1u << i % 5;
        struct leati_canonical canonical = {.dims = 2, .unit_bytes = unit, .element_bytes = unit, .index_dim = -1};
        struct leati_host_layout host;

        cases_draw_from(i);
        canonical.size[0] = 200 + chance(500);
        canonical.size[1] = 100 + chance(200);
        canonical.dst_stride[0] = canonical.src_stride[1] = unit;
        canonical.dst_stride[1] = (int64_t)((canonical.size[0] + chance(3)) * unit);
        canonical.src_stride[0] = (int64_t)(4096 + chance(3) * unit);
        canonical.payload_bytes = canonical.size[0] * canonical.size[1] * unit;
        canonical.dst_high =
            (int64_t)(canonical.size[1] - 1) * canonical.dst_stride[1] + (int64_t)(canonical.size[0] * unit);
        canonical.src_high =
            (int64_t)(canonical.size[0] - 1) * canonical.src_stride[0] + (int64_t)(canonical.size[1] * unit);
        leati_host_layout_make(&canonical, LEAT_LAYOUT_CLASS_ELEMENTS, &host);
        assert_int_equal(host.kernel, LEATI_HOST_TILES);
        host.level = (enum leati_host_level)chance((uint64_t)leati_host_level() + 1);
        host.streaming = chance(4);
        run_canonical(&canonical, &host, &rooms, NULL, 0, i);
    }
}

/* Elements of 8 bytes are copied in units of 4 bytes. If two threads wrote the same element, each of them could
 * write one half last. So leat must not divide the indexed dimension, even if a tile's unit has 48 bytes and
 * contains whole elements. */
static void split_elements_of_a_list_have_one_thread(void **unused)
{
    static const struct leati_canonical canonical = {.dims = 5,
                                                     .unit_bytes = 4,
                                                     .element_bytes = 8,
                                                     .size = {12, 4, 64, 8, 2},
                                                     .dst_stride = {4, 48, 192, 12288, 36864},
                                                     .src_stride = {4, 49152, 768, 96, 48},
                                                     .index_dim = 3,
                                                     .index_on_dst = true,
                                                     .index_bytes = 4,
                                                     .index_bound = 3,
                                                     .payload_bytes = 196608,
                                                     .dst_high = 73728,
                                                     .src_high = 196608};
    struct leati_canonical whole = canonical;
    struct leati_host_layout host;

    (void)unused;
    leati_host_layout_make(&canonical, LEAT_LAYOUT_CLASS_ELEMENTS, &host);
    assert_int_equal(host.kernel, LEATI_HOST_TILES);
    assert_int_equal(host.unit_bytes, 48);
    for (unsigned i = 0; i < host.dims; i++)
        assert_true((int)host.order[i] != canonical.index_dim || host.part_count[i] == 1);
    whole.element_bytes = 4;
    leati_host_layout_make(&whole, LEAT_LAYOUT_CLASS_ELEMENTS, &host);
    assert_int_equal(host.parts, 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_layouts_are_copied),
                                       cmocka_unit_test(rows_in_few_cache_sets_are_copied),
                                       cmocka_unit_test(split_elements_of_a_list_have_one_thread)};

    cases_begin(argc, argv, "unit_layout_host", 2000);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
