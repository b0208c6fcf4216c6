/*
 * layout_case.c - makes a copy between two layouts from its description on a command line: a dense array, and the
 * steps that make a view of it.
 */
#include "layout_case.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const layout_step_words[LAYOUT_STEP_KIND_COUNT] = {"perm",      "slice", "flip",
                                                               "broadcast", "index", "scatter"};

static const char *const step_shapes[LAYOUT_STEP_KIND_COUNT] = {
    "the numbers of all dimensions, separated by commas",
    "DIM:START:STOP or DIM:START:STOP:STEP",
    "the number of a dimension",
    "DIM:SIZE",
    "DIM:COUNT or DIM:COUNT:BYTES",
    "DIM:SIZE or DIM:SIZE:BYTES"};

/* Placeholder for the address of the index list, which is set later. */
static const int64_t no_list_yet;

/* The distance between two indices of a list, modulo the size of the dimension. It is a prime, so that the list
 * visits each element once, and not in sequence. */
static const uint64_t index_step = 2654435761u;

int64_t layout_case_index(int64_t i, int64_t bound)
{
    return (int64_t)((uint64_t)i % (uint64_t)bound * (index_step % (uint64_t)bound) % (uint64_t)bound);
}

/* Reads whole numbers separated by mark. Returns their count, or 0 if text contains anything else. */
static unsigned parse_numbers(const char *text, char mark, int64_t *numbers, unsigned most)
{
    unsigned count = 0;
    char *end;

    for (;;) {
        if (count == most || (*text != '-' && (*text < '0' || *text > '9')))
            return 0;
        errno = 0;
        numbers[count++] = strtoll(text, &end, 10);
        if (errno || end == text)
            return 0;
        if (!*end)
            return count;
        if (*end != mark)
            return 0;
        text = end + 1;
    }
}

static bool refuse_library(const char *word, const char *value, char *error)
{
    snprintf(error, LAYOUT_ERROR_MAX, "--%s %s: %s", word, value, leat_last_error());
    return false;
}

static leat_status permute(leat_layout *view, const int64_t *numbers)
{
    uint32_t order[LEAT_LAYOUT_MAX_DIMS], i;

    /* Replace a number that is no dimension by UINT32_MAX, which leat_layout_permute() refuses. */
    for (i = 0; i < view->dims; i++)
        order[i] = numbers[i] >= 0 && numbers[i] < LEAT_LAYOUT_MAX_DIMS ? (uint32_t)numbers[i] : UINT32_MAX;
    return leat_layout_permute(view, order);
}

/* Returns in *least and *most how many numbers a step of the view may have. */
static void numbers_wanted(enum layout_step_kind kind, uint32_t dims, unsigned *least, unsigned *most)
{
    static const unsigned char wanted[LAYOUT_STEP_KIND_COUNT][2] = {{0, 0}, {3, 4}, {1, 1},
                                                                    {2, 2}, {2, 3}, {2, 3}};

    *least = kind == LAYOUT_PERM ? dims : wanted[kind][0];
    *most = kind == LAYOUT_PERM ? dims : wanted[kind][1];
}

/* The parameters of a scatter. layout_case_make() makes its destination last, when all sizes are known. */
struct scatter {
    bool wanted;
    uint32_t dim, index_bytes;
    int64_t size;
};

static leat_status apply(leat_layout *view, enum layout_step_kind kind, const int64_t *numbers, unsigned count,
                         struct scatter *scatter)
{
    uint32_t dim = numbers[0] >= 0 && numbers[0] < LEAT_LAYOUT_MAX_DIMS ? (uint32_t)numbers[0] : UINT32_MAX;
    uint32_t index_bytes = count < 3 ? 8 : numbers[2] > 0 && numbers[2] < UINT32_MAX ? (uint32_t)numbers[2] : 0;

    switch (kind) {
    case LAYOUT_PERM:
        return permute(view, numbers);
    case LAYOUT_SLICE:
        return leat_layout_slice(view, dim, numbers[1], numbers[2], count == 4 ? numbers[3] : 1);
    case LAYOUT_FLIP:
        return leat_layout_flip(view, dim);
    case LAYOUT_BROADCAST:
        return leat_layout_broadcast(view, dim, numbers[1]);
    case LAYOUT_INDEX:
        return leat_layout_index(view, dim, &no_list_yet, numbers[1], index_bytes, NULL);
    default:
        *scatter = (struct scatter){true, dim, index_bytes, numbers[1]};
        return LEAT_OK;
    }
}

static bool take_steps(const struct layout_words *words, leat_layout *view, struct scatter *scatter, char *error)
{
    unsigned i;

    for (i = 0; i < words->count; i++) {
        enum layout_step_kind kind = words->steps[i].kind;
        const char *value = words->steps[i].value;
        int64_t numbers[LEAT_LAYOUT_MAX_DIMS] = {0};
        unsigned least, most,
            count = parse_numbers(value, kind == LAYOUT_PERM ? ',' : ':', numbers, LEAT_LAYOUT_MAX_DIMS);

        numbers_wanted(kind, view->dims, &least, &most);
        if (!count || count < least || count > most) {
            snprintf(error, LAYOUT_ERROR_MAX, "--%s takes %s, not '%s'", layout_step_words[kind],
                     step_shapes[kind], value);
            return false;
        }
        if (apply(view, kind, numbers, count, scatter) != LEAT_OK)
            return refuse_library(layout_step_words[kind], value, error);
    }
    return true;
}

static bool make_dst(struct layout_case *made, const struct scatter *scatter, char *error)
{
    int64_t size[LEAT_LAYOUT_MAX_DIMS];
    uint64_t elements;
    bool scattered = scatter->wanted && scatter->dim < made->src.dims;

    memcpy(size, made->src.size, sizeof size);
    if (scatter->wanted && (!scattered || scatter->size < size[scatter->dim])) {
        snprintf(error, LAYOUT_ERROR_MAX,
                 "--scatter takes a dimension of the view and a size no smaller than it: no element may be written twice");
        return false;
    }
    if (scattered)
        size[scatter->dim] = scatter->size;
    if (leat_layout_dense(&made->dst, made->src.dims, size, made->src.element_bytes) != LEAT_OK ||
        leat_layout_count(&made->dst, &elements, &made->dst_bytes) != LEAT_OK ||
        (scattered && leat_layout_index(&made->dst, scatter->dim, &no_list_yet, made->src.size[scatter->dim],
                                        scatter->index_bytes, NULL) != LEAT_OK)) {
        snprintf(error, LAYOUT_ERROR_MAX, "%s", leat_last_error());
        return false;
    }
    return true;
}

/* Writes text and name of the case. */
static void name_case(struct layout_case *made, const struct layout_words *words)
{
    size_t text = 0, name = 0;
    const char *at;
    unsigned i;

    name += (size_t)snprintf(made->name, sizeof made->name, "%u B, ", words->element_bytes);
    for (at = words->size; *at && name + 1 < sizeof made->name; at++)
        made->name[name++] = *at == ',' ? 'x' : *at;
    made->name[name] = '\0';
    text += (size_t)snprintf(made->text, sizeof made->text, "--size %s", words->size);
    for (i = 0; i < words->count && text < sizeof made->text && name < sizeof made->name; i++) {
        const char *word = layout_step_words[words->steps[i].kind], *value = words->steps[i].value;

        text += (size_t)snprintf(made->text + text, sizeof made->text - text, " --%s %s", word, value);
        name += (size_t)snprintf(made->name + name, sizeof made->name - name, ", %s %s", word, value);
    }
    if (text < sizeof made->text)
        snprintf(made->text + text, sizeof made->text - text, " --elem %u", words->element_bytes);
}

bool layout_case_make(struct layout_case *made, const struct layout_words *words, char error[LAYOUT_ERROR_MAX])
{
    int64_t size[LEAT_LAYOUT_MAX_DIMS];
    struct scatter scatter = {.wanted = false};
    unsigned dims = parse_numbers(words->size, ',', size, LEAT_LAYOUT_MAX_DIMS);
    uint64_t elements;

    memset(made, 0, sizeof *made);
    if (!dims) {
        snprintf(error, LAYOUT_ERROR_MAX, "--size takes 1 to %d whole numbers, separated by commas, not '%s'",
                 LEAT_LAYOUT_MAX_DIMS, words->size);
        return false;
    }
    if (leat_layout_dense(&made->src, dims, size, words->element_bytes) != LEAT_OK ||
        leat_layout_count(&made->src, &elements, &made->src_bytes) != LEAT_OK)
        return refuse_library("size", words->size, error);
    if (!take_steps(words, &made->src, &scatter, error) || !make_dst(made, &scatter, error))
        return false;
    if (leat_layout_count(&made->src, &elements, &made->payload_bytes) != LEAT_OK)
        return refuse_library("size", words->size, error);
    made->index_on_dst = made->dst.index != NULL;
    if (layout_case_indexed(made))
        made->index_count = made->src.size[layout_case_indexed(made)->index_dim];
    if (made->index_count && (layout_case_indexed(made)->index_bound < 1 ||
                              layout_case_indexed(made)->index_bound > (int64_t)1 << 32)) {
        snprintf(error, LAYOUT_ERROR_MAX, "a dimension with a list of indices has 1 to 2^32 elements, not %lld",
                 (long long)layout_case_indexed(made)->index_bound);
        return false;
    }
    name_case(made, words);
    return true;
}

leat_layout *layout_case_indexed(struct layout_case *made)
{
    return made->dst.index ? &made->dst : made->src.index ? &made->src : NULL;
}

void layout_case_fill_list(const struct layout_case *made, void *list)
{
    const leat_layout *indexed = made->index_on_dst ? &made->dst : &made->src;
    int64_t i;

    for (i = 0; i < made->index_count; i++) {
        int64_t index = layout_case_index(i, indexed->index_bound);

        if (indexed->index_bytes == 4)
            ((int32_t *)list)[i] = (int32_t)index;
        else
            ((int64_t *)list)[i] = index;
    }
}

const char *layout_numbers(char text[LAYOUT_TEXT_MAX], const int64_t *numbers, uint32_t count)
{
    size_t used = 0;
    uint32_t i;

    text[0] = '\0';
    for (i = 0; i < count && used < LAYOUT_TEXT_MAX; i++)
        used +=
            (size_t)snprintf(text + used, LAYOUT_TEXT_MAX - used, "%s%lld", i ? "," : "", (long long)numbers[i]);
    return text;
}
