/*
 * unit_layout_host.c - layouts by processors against a plain loop: random forms, for every set of instructions
 * that this machine has, with and without stores past the caches, between pages that cannot be touched.
 *
 * forms.h says which arguments there are.
 */
#include "forms.h"
#include "harness.h"

#include "base/stream_copy.h"
#include "layout/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_BYTES ((size_t)4 << 20) /* of each side */
#define MOST_UNITS ((uint64_t)1 << 17)

#define SHORT_RUNS 5

/* Sizes for which there are kernels: few and many, many and few, a small group, two long ones, all alike, and
 * short runs. */
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
        return forms_size();
    }
}

/* False when it came out too large. */
static bool random_form(struct leati_form *form)
{
    uint64_t family = chance(10);
    unsigned order[16], most = family == 4 ? 10 + (unsigned)chance(6) : 1 + (unsigned)chance(6);

    *form = (struct leati_form){.unit_bytes = 1u << chance(5), .index_dim = -1};
    form->element_bytes = form->unit_bytes << chance(2);
    while (form->dims < most && forms_add_dim(form, size_of_family(family, form->dims), MOST_UNITS))
        continue;
    for (unsigned i = 0; i < form->dims; i++)
        order[i] = i;
    if (form->dims && chance(4) == 0)
        forms_add_list(form, false);
    forms_lay_out(form, true, order, chance(2));
    if (form->dims > 1 && chance(4))
        forms_shuffle(order, family < 3 && chance(2) ? 2 : form->dims);
    for (unsigned i = 1; i < form->dims && family == SHORT_RUNS; i++) {
        if (order[i])
            continue;
        order[i] = order[0];
        order[0] = 0;
    }
    forms_lay_out(form, false, order, chance(2));
    return forms_finish(form, MOST_UNITS, ROOM_BYTES);
}

/* ---- one form ---- */

static void tell(const struct leati_form *form, const struct leati_host_layout *host)
{
    char text[256];

    leati_host_layout_text(host, text, sizeof text);
    forms_tell(form, text);
    for (unsigned i = 0; i < form->dims; i++)
        fprintf(stderr, "  loop %u is dimension %u in parts of %llu\n", i, host->order[i],
                (unsigned long long)host->part_size[i]);
}

static void run_form(const struct leati_form *form, const struct leati_host_layout *host,
                     const struct forms_rooms *r, const void *list, uint64_t wrong, uint64_t number)
{
    _Atomic uint64_t counted = 0;
    struct leati_indices indices = {list, chance(4) ? &counted : NULL};
    uint64_t middle = chance(host->parts + 1);
    size_t slack = ROOM_BYTES - (size_t)(form->dst_high - form->dst_low);
    /* At the end, or somewhere; guard bytes on what is left of the room. */
    size_t before = chance(3) ? slack / 64 * 64 : slack;
    char *dst, *wanted;
    const char *src;

    before -= chance(2) ? chance(8) * form->unit_bytes : 0;
    before -= before % form->unit_bytes;
    dst = r->dst + before - form->dst_low;
    wanted = r->wanted + before - form->dst_low;
    src = chance(4) ? r->src + ROOM_BYTES - form->src_high : r->src - form->src_low;
    memset(r->dst, 0xa5, ROOM_BYTES);
    memset(r->wanted, 0xa5, ROOM_BYTES);
    forms_judge(form, wanted, src, list);
    /* Parts in any order. But of equal indices that are in different parts either may win, and the judge takes the
     * last. That is for single units, and for units of whole elements. */
    for (unsigned k = 0; k < host->dims && form->index_on_dst; k++) {
        if ((int)host->order[k] != form->index_dim || host->part_count[k] == 1)
            continue;
        assert_true(form->dims == 1 || (form->unit_bytes >= form->element_bytes && form->element_bytes <= 8));
        middle = 0;
    }
    leati_host_layout_run(form, host, dst, src, &indices, middle, host->parts);
    leati_host_layout_run(form, host, dst, src, &indices, 0, middle);
    if (!forms_are_right(r, indices.wrong ? counted : wrong, wrong)) {
        tell(form, host);
        forms_fail(r, dst, number, counted, wrong);
    }
}

static void random_forms_are_copied(void **unused)
{
    /* Of each kernel by each set of instructions. */
    unsigned runs[LEATI_HOST_FILL + 1][LEATI_HOST_VBMI + 1] = {{0}};
    struct forms_rooms rooms = forms_make_rooms(ROOM_BYTES);

    (void)unused;
    for (uint64_t i = 0; i < forms_count; i++) {
        struct leati_host_layout host;
        struct leati_form form;
        uint64_t wrong = 0;
        void *list = NULL;

        forms_draw_from(i);
        if (!random_form(&form))
            continue;
        if (form.index_dim >= 0)
            list = forms_make_list(&form, false, &wrong);
        leati_host_layout_make(&form, LEAT_LAYOUT_ELEMENTS, &host);
        host.level = (enum leati_host_level)chance((uint64_t)leati_host_level() + 1);
        host.streaming = chance(2);
        run_form(&form, &host, &rooms, list, wrong, i);
        runs[host.kernel][host.level]++;
        free(list);
    }
    for (unsigned i = 0; forms_count >= 1000 && i <= LEATI_HOST_FILL; i++)
        for (unsigned j = 0; j <= leati_host_level(); j++)
            if (!runs[i][j])
                fail_msg("kernel %u was never run with instructions %u", i, j);
}

/* Elements of 8 bytes as units of 4: of two threads that write the same one, each may bring a half, also where 48
 * bytes are a tile's unit. */
static void split_elements_of_a_list_have_one_thread(void **unused)
{
    static const struct leati_form form = {.dims = 5,
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
    struct leati_form whole = form;
    struct leati_host_layout host;

    (void)unused;
    leati_host_layout_make(&form, LEAT_LAYOUT_ELEMENTS, &host);
    assert_int_equal(host.kernel, LEATI_HOST_TILES);
    assert_int_equal(host.unit_bytes, 48);
    for (unsigned i = 0; i < host.dims; i++)
        assert_true((int)host.order[i] != form.index_dim || host.part_count[i] == 1);
    whole.element_bytes = 4;
    leati_host_layout_make(&whole, LEAT_LAYOUT_ELEMENTS, &host);
    assert_int_equal(host.parts, 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_forms_are_copied),
                                       cmocka_unit_test(split_elements_of_a_list_have_one_thread)};

    forms_begin(argc, argv, "unit_layout_host", 2000);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
