/*
 * unit_layout_host.c - layouts by processors against a plain loop: random forms, for every set of instructions
 * that this machine has, with and without stores past the caches, between pages that cannot be touched.
 *
 * The seed is printed and can be given: unit_layout_host --seed N, and with how many forms: --forms N.
 */
#include "harness.h"
#include "seed.h"

#include "base/stream_copy.h"
#include "layout/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROOM_BYTES ((size_t)4 << 20) /* of each side */
#define MOST_UNITS ((uint64_t)1 << 17)

static uint64_t seed;
static unsigned forms = 2000;

/* ---- chance ---- */

static uint64_t state;

static uint64_t chance(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % below;
}

/* ---- places: memory between pages that cannot be touched ---- */

struct place {
    char *base; /* ROOM_BYTES of it */
};

static struct place make_place(void)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    char *all = mmap(NULL, ROOM_BYTES + 2 * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(all, MAP_FAILED);
    assert_return_code(mprotect(all + page_bytes, ROOM_BYTES, PROT_READ | PROT_WRITE), 0);
    return (struct place){all + page_bytes};
}

/* ---- random forms ---- */

static uint64_t random_size(void)
{
    static const uint64_t near[] = {3, 4, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 200, 256, 257};

    switch (chance(4)) {
    case 0:
        return 2 + chance(3);
    case 1:
        return near[chance(sizeof near / sizeof *near)];
    case 2:
        return 2 + chance(14);
    default:
        return 2 + chance(chance(2) ? 70 : 700);
    }
}

/* Strides that lay the dimensions out in some order, with gaps now and then. */
static void lay_out(const struct leati_form *form, int64_t *stride, const unsigned *order, bool listed, bool gaps)
{
    int64_t step = form->unit_bytes;

    for (unsigned i = 0; i < form->dims; i++) {
        if (gaps && chance(4) == 0)
            step += (int64_t)chance(5) * form->unit_bytes;
        if (gaps && chance(8) == 0)
            step = (step + 63) & ~(int64_t)63;
        stride[order[i]] = step;
        step *= listed && (int)order[i] == form->index_dim ? form->index_bound : (int64_t)form->size[order[i]];
    }
}

static void extent(const struct leati_form *form, const int64_t *stride, bool listed, int64_t *low, int64_t *high)
{
    *low = 0;
    *high = form->unit_bytes;
    for (unsigned i = 0; i < form->dims; i++) {
        int64_t count = listed && (int)i == form->index_dim ? form->index_bound : (int64_t)form->size[i];
        int64_t reach = (count - 1) * stride[i];

        *(reach < 0 ? low : high) += reach;
    }
}

static void add_list(struct leati_form *form)
{
    form->index_dim = (int)chance(form->dims);
    form->index_on_dst = chance(3) == 0;
    form->index_bytes = chance(2) ? 4 : 8;
    form->index_bound = (int64_t)form->size[form->index_dim];
    form->size[form->index_dim] = chance(2) ? random_size() : 1 + chance(5);
}

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
        return random_size();
    }
}

/* False when it came out too large. */
static bool random_form(struct leati_form *form)
{
    uint64_t units = 1, family = chance(10);
    unsigned order[16], most = family == 4 ? 10 + (unsigned)chance(6) : 1 + (unsigned)chance(6);

    *form = (struct leati_form){.unit_bytes = 1u << chance(5), .index_dim = -1};
    form->element_bytes = form->unit_bytes << chance(2);
    while (form->dims < most) {
        uint64_t size = size_of_family(family, form->dims);

        if (units * size > MOST_UNITS)
            break;
        units *= size;
        form->size[form->dims++] = size;
    }
    for (unsigned i = 0; i < form->dims; i++)
        order[i] = i;
    if (form->dims && chance(4) == 0)
        add_list(form);
    lay_out(form, form->dst_stride, order, form->index_on_dst, chance(2));
    for (unsigned i = family < 3 && chance(2) ? 2 : form->dims; i > 1 && i <= form->dims && chance(8); i--) {
        unsigned other = (unsigned)chance(i), was = order[i - 1];

        order[i - 1] = order[other];
        order[other] = was;
    }
    for (unsigned i = 1; i < form->dims && family == SHORT_RUNS; i++) {
        if (order[i])
            continue;
        order[i] = order[0];
        order[0] = 0;
    }
    lay_out(form, form->src_stride, order, !form->index_on_dst, chance(2));
    for (unsigned i = 0; i < form->dims; i++) {
        if (chance(12) == 0)
            form->src_stride[i] = 0;
        if (chance(12) == 0)
            form->src_stride[i] = -form->src_stride[i];
    }
    units = 1;
    for (unsigned i = 0; i < form->dims; i++)
        units *= form->size[i];
    form->payload_bytes = units * form->unit_bytes;
    extent(form, form->dst_stride, form->index_on_dst, &form->dst_low, &form->dst_high);
    extent(form, form->src_stride, !form->index_on_dst, &form->src_low, &form->src_high);
    return units <= MOST_UNITS && (size_t)(form->dst_high - form->dst_low) <= ROOM_BYTES / 2 &&
           (size_t)(form->src_high - form->src_low) <= ROOM_BYTES / 2;
}

/* ---- the judge: a plain loop, with a division for each dimension of each unit ---- */

static int64_t list_at(const struct leati_form *form, const void *list, uint64_t i)
{
    return form->index_bytes == 4 ? ((const int32_t *)list)[i] : ((const int64_t *)list)[i];
}

static void judge(const struct leati_form *form, char *dst, const char *src, const void *list)
{
    uint64_t units = form->payload_bytes / form->unit_bytes;

    for (uint64_t u = 0; u < units; u++) {
        int64_t to = form->dst_offset, from = form->src_offset;
        bool wrong = false;
        uint64_t rest = u;

        /* The list's dimension is the slowest, so that of equal indices the last one counts. */
        for (unsigned i = 0; i < form->dims; i++) {
            int64_t at;

            if ((int)i == form->index_dim)
                continue;
            at = (int64_t)(rest % form->size[i]);
            rest /= form->size[i];
            to += at * form->dst_stride[i];
            from += at * form->src_stride[i];
        }
        if (form->index_dim >= 0) {
            int64_t at = list_at(form, list, rest);

            wrong = at < 0 || at >= form->index_bound;
            to += (form->index_on_dst ? at : (int64_t)rest) * form->dst_stride[form->index_dim];
            from += (form->index_on_dst ? (int64_t)rest : at) * form->src_stride[form->index_dim];
        }
        if (!wrong)
            memcpy(dst + to, src + from, form->unit_bytes);
    }
}

/* ---- one form ---- */

static void *make_list(const struct leati_form *form, uint64_t *wrong)
{
    uint64_t count = form->size[form->index_dim];
    void *list = malloc(count * form->index_bytes);

    assert_non_null(list);
    for (uint64_t i = 0; i < count; i++) {
        int64_t at = (int64_t)chance((uint64_t)form->index_bound);

        if (chance(50) == 0) {
            static const int64_t off[] = {-1, INT32_MIN, INT32_MAX};

            at = chance(2) ? form->index_bound : off[chance(3)];
        }
        *wrong += at < 0 || at >= form->index_bound;
        if (form->index_bytes == 4)
            ((int32_t *)list)[i] = (int32_t)at;
        else
            ((int64_t *)list)[i] = at;
    }
    return list;
}

static void tell(const struct leati_form *form, const struct leati_host_layout *host)
{
    char text[256];

    leati_host_layout_text(host, text, sizeof text);
    fprintf(stderr, "unit %u; %s; list on %d (%s)\n", form->unit_bytes, text, form->index_dim,
            form->index_on_dst ? "dst" : "src");
    for (unsigned i = 0; i < form->dims; i++)
        fprintf(stderr, "  size %llu, dst %lld, src %lld; loop %u is dimension %u in parts of %llu\n",
                (unsigned long long)form->size[i], (long long)form->dst_stride[i], (long long)form->src_stride[i],
                i, host->order[i], (unsigned long long)host->part_size[i]);
}

struct places {
    struct place dst, src, wanted;
};

static void run_form(const struct leati_form *form, const struct leati_host_layout *host, const struct places *p,
                     const void *list, uint64_t wrong, uint64_t number)
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
    dst = p->dst.base + before - form->dst_low;
    wanted = p->wanted.base + before - form->dst_low;
    src = chance(4) ? p->src.base + ROOM_BYTES - form->src_high : p->src.base - form->src_low;
    memset(p->dst.base, 0xa5, ROOM_BYTES);
    memset(p->wanted.base, 0xa5, ROOM_BYTES);
    judge(form, wanted, src, list);
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
    if (memcmp(p->dst.base, p->wanted.base, ROOM_BYTES) || (indices.wrong && counted != wrong)) {
        size_t at = 0;

        tell(form, host);
        while (at < ROOM_BYTES && p->dst.base[at] == p->wanted.base[at])
            at++;
        fail_msg("form %llu of seed %llu: byte %zd of dst is wrong, %llu of %llu wrong indices",
                 (unsigned long long)number, (unsigned long long)seed, (ssize_t)at - (ssize_t)before,
                 (unsigned long long)counted, (unsigned long long)wrong);
    }
}

static void random_forms_are_copied(void **unused)
{
    /* Of each kernel by each set of instructions. */
    unsigned runs[LEATI_HOST_FILL + 1][LEATI_HOST_VBMI + 1] = {{0}};
    struct places p = {make_place(), make_place(), make_place()};

    (void)unused;
    test_pattern(p.src.base, ROOM_BYTES, seed);
    for (uint64_t i = 0; i < forms; i++) {
        struct leati_host_layout host;
        struct leati_form form;
        uint64_t wrong = 0;
        void *list = NULL;

        state = (seed + 1) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;
        state = state ? state : 1;
        chance(2);
        if (!random_form(&form))
            continue;
        if (form.index_dim >= 0)
            list = make_list(&form, &wrong);
        leati_host_layout_make(&form, LEAT_LAYOUT_ELEMENTS, &host);
        host.level = (enum leati_host_level)chance((uint64_t)leati_host_level() + 1);
        host.streaming = chance(2);
        run_form(&form, &host, &p, list, wrong, i);
        runs[host.kernel][host.level]++;
        free(list);
    }
    for (unsigned i = 0; forms >= 1000 && i <= LEATI_HOST_FILL; i++)
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

    seed = test_seed();
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seed"))
            seed = strtoull(argv[i + 1], NULL, 10);
        if (!strcmp(argv[i], "--forms"))
            forms = (unsigned)strtoul(argv[i + 1], NULL, 10);
    }
    printf("unit_layout_host: seed %llu, %u forms\n", (unsigned long long)seed, forms);
    fflush(stdout);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
