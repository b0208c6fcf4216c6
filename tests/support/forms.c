/* forms.c - see forms.h. */
#include "forms.h"
#include "harness.h"
#include "seed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

uint64_t forms_seed, forms_random;
unsigned forms_count;

void forms_begin(int argc, char **argv, const char *program, unsigned count)
{
    forms_seed = test_seed();
    forms_count = count;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seed"))
            forms_seed = strtoull(argv[i + 1], NULL, 10);
        if (!strcmp(argv[i], "--forms"))
            forms_count = (unsigned)strtoul(argv[i + 1], NULL, 10);
    }
    printf("%s: seed %llu, %u forms\n", program, (unsigned long long)forms_seed, forms_count);
    fflush(stdout);
}

void forms_draw_from(uint64_t number)
{
    forms_random = (forms_seed + 1) * 0x9e3779b97f4a7c15u + number * 0xbf58476d1ce4e5b9u;
    forms_random = forms_random ? forms_random : 1;
    chance(2);
}

/* ---- memory ---- */

static char *make_room(size_t bytes)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    char *all = mmap(NULL, bytes + 2 * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(all, MAP_FAILED);
    assert_return_code(mprotect(all + page_bytes, bytes, PROT_READ | PROT_WRITE), 0);
    return all + page_bytes;
}

struct forms_rooms forms_make_rooms(size_t bytes)
{
    struct forms_rooms rooms = {bytes, make_room(bytes), make_room(bytes), make_room(bytes)};

    test_pattern(rooms.src, bytes, forms_seed);
    return rooms;
}

/* ---- drawing ---- */

uint64_t forms_size(void)
{
    static const uint64_t near[] = {3,  4,  8,  12, 15, 16,  17,  24,  31,  32,  33,
                                    48, 63, 64, 65, 96, 127, 128, 129, 200, 256, 257};

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

static uint64_t units_of(const struct leati_form *form)
{
    uint64_t units = 1;

    for (unsigned i = 0; i < form->dims; i++)
        units *= form->size[i];
    return units;
}

bool forms_add_dim(struct leati_form *form, uint64_t size, uint64_t most_units)
{
    if (units_of(form) * size > most_units)
        return false;
    form->size[form->dims++] = size;
    return true;
}

void forms_add_list(struct leati_form *form, bool distinct)
{
    uint64_t *size;

    form->index_dim = (int)chance(form->dims);
    size = &form->size[form->index_dim];
    form->index_on_dst = chance(3) == 0;
    form->index_bytes = chance(2) ? 4 : 8;
    form->index_bound = (int64_t)*size;
    if (!form->index_on_dst || !distinct)
        *size = chance(2) ? forms_size() : 1 + chance(5);
    else if (chance(2))
        *size = 1 + chance(*size);
}

void forms_shuffle(unsigned *order, unsigned count)
{
    for (unsigned i = count; i > 1; i--) {
        unsigned other = (unsigned)chance(i), was = order[i - 1];

        order[i - 1] = order[other];
        order[other] = was;
    }
}

/* How many places a dimension has on a side: those of a list are not its size. */
static int64_t places_of(const struct leati_form *form, unsigned dim, bool on_dst)
{
    bool listed = (int)dim == form->index_dim && form->index_on_dst == on_dst;

    return listed ? form->index_bound : (int64_t)form->size[dim];
}

void forms_lay_out(struct leati_form *form, bool on_dst, const unsigned *order, bool gaps)
{
    int64_t *stride = on_dst ? form->dst_stride : form->src_stride, step = form->unit_bytes;

    for (unsigned i = 0; i < form->dims; i++) {
        if (gaps && chance(4) == 0)
            step += (int64_t)chance(5) * form->unit_bytes;
        if (gaps && chance(6) == 0)
            step = (step + 63) & ~(int64_t)63;
        stride[order[i]] = step;
        step *= places_of(form, order[i], on_dst);
    }
}

static void find_extent(const struct leati_form *form, bool on_dst, int64_t *low, int64_t *high)
{
    const int64_t *stride = on_dst ? form->dst_stride : form->src_stride;

    *low = 0;
    *high = form->unit_bytes;
    for (unsigned i = 0; i < form->dims; i++) {
        int64_t reach = (places_of(form, i, on_dst) - 1) * stride[i];

        *(reach < 0 ? low : high) += reach;
    }
}

bool forms_finish(struct leati_form *form, uint64_t most_units, size_t room_bytes)
{
    uint64_t units = units_of(form);

    for (unsigned i = 0; i < form->dims; i++) {
        if (chance(12) == 0)
            form->src_stride[i] = 0;
        if (chance(12) == 0)
            form->src_stride[i] = -form->src_stride[i];
    }
    form->payload_bytes = units * form->unit_bytes;
    find_extent(form, true, &form->dst_low, &form->dst_high);
    find_extent(form, false, &form->src_low, &form->src_high);
    return units <= most_units && (size_t)(form->dst_high - form->dst_low) <= room_bytes / 2 &&
           (size_t)(form->src_high - form->src_low) <= room_bytes / 2;
}

void *forms_make_list(const struct leati_form *form, bool distinct, uint64_t *wrong)
{
    static const int64_t off[] = {-1, INT32_MIN, INT32_MAX};
    uint64_t count = form->size[form->index_dim], bound = (uint64_t)form->index_bound, start = chance(bound);
    void *list = test_buffer(count * form->index_bytes);

    *wrong = 0;
    for (uint64_t i = 0; i < count; i++) {
        int64_t at = (int64_t)(form->index_on_dst && distinct ? (start + i) % bound : chance(bound));

        if (chance(50) == 0)
            at = chance(2) ? form->index_bound : off[chance(3)];
        *wrong += at < 0 || at >= form->index_bound;
        if (form->index_bytes == 4)
            ((int32_t *)list)[i] = (int32_t)at;
        else
            ((int64_t *)list)[i] = at;
    }
    return list;
}

/* ---- judging ---- */

static int64_t list_at(const struct leati_form *form, const void *list, uint64_t i)
{
    return form->index_bytes == 4 ? ((const int32_t *)list)[i] : ((const int64_t *)list)[i];
}

void forms_judge(const struct leati_form *form, char *dst, const char *src, const void *list)
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

void forms_tell(const struct leati_form *form, const char *words)
{
    fprintf(stderr, "unit %u; aligned %u, %u; %s; list on %d (%s)\n", form->unit_bytes, form->dst_align,
            form->src_align, words, form->index_dim, form->index_on_dst ? "dst" : "src");
    for (unsigned i = 0; i < form->dims; i++)
        fprintf(stderr, "  size %llu, dst %lld, src %lld\n", (unsigned long long)form->size[i],
                (long long)form->dst_stride[i], (long long)form->src_stride[i]);
}

bool forms_are_right(const struct forms_rooms *rooms, uint64_t counted, uint64_t wrong)
{
    return counted == wrong && !memcmp(rooms->dst, rooms->wanted, rooms->bytes);
}

void forms_fail(const struct forms_rooms *rooms, const char *dst, uint64_t number, uint64_t counted,
                uint64_t wrong)
{
    unsigned long long form = number, seed = forms_seed;

    for (size_t i = 0; i < rooms->bytes; i++)
        if (rooms->dst[i] != rooms->wanted[i])
            fail_msg("form %llu of seed %llu: byte %td from dst on is wrong", form, seed, rooms->dst + i - dst);
    fail_msg("form %llu of seed %llu: %llu of %llu wrong indices are counted", form, seed,
             (unsigned long long)counted, (unsigned long long)wrong);
}
