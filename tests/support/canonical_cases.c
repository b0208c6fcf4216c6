/* canonical_cases.c - see canonical_cases.h. */
#include "canonical_cases.h"
#include "harness.h"
#include "seed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

uint64_t cases_seed, cases_random;
unsigned cases_count;

void cases_begin(int argc, char **argv, const char *program, unsigned count)
{
    cases_seed = test_seed();
    cases_count = count;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seed"))
            cases_seed = strtoull(argv[i + 1], NULL, 10);
        if (!strcmp(argv[i], "--forms"))
            cases_count = (unsigned)strtoul(argv[i + 1], NULL, 10);
    }
    printf("%s: seed %llu, %u forms\n", program, (unsigned long long)cases_seed, cases_count);
    fflush(stdout);
}

void cases_draw_from(uint64_t number)
{
    cases_random = (cases_seed + 1) * 0x9e3779b97f4a7c15u + number * 0xbf58476d1ce4e5b9u;
    cases_random = cases_random ? cases_random : 1;
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

struct cases_rooms cases_make_rooms(size_t bytes)
{
    struct cases_rooms rooms = {bytes, make_room(bytes), make_room(bytes), make_room(bytes), make_room(bytes)};

    test_pattern(rooms.src, bytes, cases_seed);
    return rooms;
}

/* ---- drawing ---- */

uint64_t cases_size(void)
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

static uint64_t units_of(const struct leati_canonical *canonical)
{
    uint64_t units = 1;

    for (unsigned i = 0; i < canonical->dims; i++)
        units *= canonical->size[i];
    return units;
}

bool cases_add_dim(struct leati_canonical *canonical, uint64_t size, uint64_t most_units)
{
    if (units_of(canonical) * size > most_units)
        return false;
    canonical->size[canonical->dims++] = size;
    return true;
}

void cases_add_list(struct leati_canonical *canonical, bool distinct)
{
    uint64_t *size;

    canonical->index_dim = (int)chance(canonical->dims);
    size = &canonical->size[canonical->index_dim];
    canonical->index_on_dst = chance(3) == 0;
    canonical->index_bytes = chance(2) ? 4 : 8;
    canonical->index_bound = (int64_t)*size;
    if (!canonical->index_on_dst || !distinct)
        *size = chance(2) ? cases_size() : 1 + chance(5);
    else if (chance(2))
        *size = 1 + chance(*size);
}

void cases_shuffle(unsigned *order, unsigned count)
{
    for (unsigned i = count; i > 1; i--) {
        unsigned other = (unsigned)chance(i), was = order[i - 1];

        order[i - 1] = order[other];
        order[other] = was;
    }
}

/* Returns the number of places that a dimension has on one side. If the dimension has a list there, this is the
 * list's bound and not the dimension's size. */
static int64_t places_of(const struct leati_canonical *canonical, unsigned dim, bool on_dst)
{
    bool listed = (int)dim == canonical->index_dim && canonical->index_on_dst == on_dst;

    return listed ? canonical->index_bound : (int64_t)canonical->size[dim];
}

void cases_lay_out(struct leati_canonical *canonical, bool on_dst, const unsigned *order, bool gaps)
{
    int64_t *stride = on_dst ? canonical->dst_stride : canonical->src_stride, step = canonical->unit_bytes;

    for (unsigned i = 0; i < canonical->dims; i++) {
        if (gaps && chance(4) == 0)
            step += (int64_t)chance(5) * canonical->unit_bytes;
        if (gaps && chance(6) == 0)
            step = (step + 63) & ~(int64_t)63;
        stride[order[i]] = step;
        step *= places_of(canonical, order[i], on_dst);
    }
}

static void find_extent(const struct leati_canonical *canonical, bool on_dst, int64_t *low, int64_t *high)
{
    const int64_t *stride = on_dst ? canonical->dst_stride : canonical->src_stride;

    *low = 0;
    *high = canonical->unit_bytes;
    for (unsigned i = 0; i < canonical->dims; i++) {
        int64_t reach = (places_of(canonical, i, on_dst) - 1) * stride[i];

        *(reach < 0 ? low : high) += reach;
    }
}

bool cases_finish(struct leati_canonical *canonical, uint64_t most_units, size_t room_bytes)
{
    uint64_t units = units_of(canonical);

    for (unsigned i = 0; i < canonical->dims; i++) {
        if (chance(12) == 0)
            canonical->src_stride[i] = 0;
        if (chance(12) == 0)
            canonical->src_stride[i] = -canonical->src_stride[i];
    }
    canonical->payload_bytes = units * canonical->unit_bytes;
    find_extent(canonical, true, &canonical->dst_low, &canonical->dst_high);
    find_extent(canonical, false, &canonical->src_low, &canonical->src_high);
    return units <= most_units && (size_t)(canonical->dst_high - canonical->dst_low) <= room_bytes / 2 &&
           (size_t)(canonical->src_high - canonical->src_low) <= room_bytes / 2;
}

void *cases_make_list(const struct leati_canonical *canonical, bool distinct, uint64_t *wrong)
{
    static const int64_t off[] = {-1, INT32_MIN, INT32_MAX};
    uint64_t count = canonical->size[canonical->index_dim], bound = (uint64_t)canonical->index_bound,
             start = chance(bound);
    void *list = test_buffer(count * canonical->index_bytes);

    *wrong = 0;
    for (uint64_t i = 0; i < count; i++) {
        int64_t at = (int64_t)(canonical->index_on_dst && distinct ? (start + i) % bound : chance(bound));

        if (chance(50) == 0)
            at = chance(2) ? canonical->index_bound : off[chance(3)];
        *wrong += at < 0 || at >= canonical->index_bound;
        if (canonical->index_bytes == 4)
            ((int32_t *)list)[i] = (int32_t)at;
        else
            ((int64_t *)list)[i] = at;
    }
    return list;
}

/* ---- comparison with the plain loop ---- */

static int64_t list_at(const struct leati_canonical *canonical, const void *list, uint64_t i)
{
    return canonical->index_bytes == 4 ? ((const int32_t *)list)[i] : ((const int64_t *)list)[i];
}

void cases_judge(const struct leati_canonical *canonical, char *dst, const char *src, const void *list)
{
    uint64_t units = canonical->payload_bytes / canonical->unit_bytes;

    for (uint64_t u = 0; u < units; u++) {
        int64_t to = canonical->dst_offset, from = canonical->src_offset;
        bool wrong = false;
        uint64_t rest = u;

        /* The dimension with the list is the outermost loop. So if indices are equal, the last one wins. */
        for (unsigned i = 0; i < canonical->dims; i++) {
            int64_t at;

            if ((int)i == canonical->index_dim)
                continue;
            at = (int64_t)(rest % canonical->size[i]);
            rest /= canonical->size[i];
            to += at * canonical->dst_stride[i];
            from += at * canonical->src_stride[i];
        }
        if (canonical->index_dim >= 0) {
            int64_t at = list_at(canonical, list, rest);

            wrong = at < 0 || at >= canonical->index_bound;
            to += (canonical->index_on_dst ? at : (int64_t)rest) * canonical->dst_stride[canonical->index_dim];
            from += (canonical->index_on_dst ? (int64_t)rest : at) * canonical->src_stride[canonical->index_dim];
        }
        if (!wrong)
            memcpy(dst + to, src + from, canonical->unit_bytes);
    }
}

void cases_print(const struct leati_canonical *canonical, const char *words)
{
    fprintf(stderr, "unit %u; aligned %u, %u; %s; list on %d (%s)\n", canonical->unit_bytes, canonical->dst_align,
            canonical->src_align, words, canonical->index_dim, canonical->index_on_dst ? "dst" : "src");
    for (unsigned i = 0; i < canonical->dims; i++)
        fprintf(stderr, "  size %llu, dst %lld, src %lld\n", (unsigned long long)canonical->size[i],
                (long long)canonical->dst_stride[i], (long long)canonical->src_stride[i]);
}

bool cases_are_right(const struct cases_rooms *rooms, uint64_t counted, uint64_t wrong)
{
    return counted == wrong && !memcmp(rooms->dst, rooms->wanted, rooms->bytes);
}

void cases_fail(const struct cases_rooms *rooms, const char *dst, uint64_t number, uint64_t counted,
                uint64_t wrong)
{
    unsigned long long canonical = number, seed = cases_seed;

    for (size_t i = 0; i < rooms->bytes; i++)
        if (rooms->dst[i] != rooms->wanted[i])
            fail_msg("form %llu of seed %llu: byte %td from dst on is wrong", canonical, seed,
                     rooms->dst + i - dst);
    fail_msg("form %llu of seed %llu: %llu of %llu wrong indices are counted", canonical, seed,
             (unsigned long long)counted, (unsigned long long)wrong);
}
