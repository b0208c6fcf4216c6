/*
 * layout_case.h - makes a copy between two layouts from its description on a command line: a dense array, and the
 * steps that make a view of it.
 */
#ifndef CLI_LAYOUT_CASE_H
#define CLI_LAYOUT_CASE_H

#include <leat/leat.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LAYOUT_STEPS_MAX = 32, LAYOUT_TEXT_MAX = 768, LAYOUT_ERROR_MAX = 512 };

/* The kinds of steps that make a view of the array, with the form of their values. */
enum layout_step_kind {
    LAYOUT_PERM,      /* 1,0 */
    LAYOUT_SLICE,     /* DIM:START:STOP[:STEP] */
    LAYOUT_FLIP,      /* DIM */
    LAYOUT_BROADCAST, /* DIM:SIZE */
    LAYOUT_INDEX,     /* DIM:COUNT[:BYTES]: gathers COUNT elements of dimension DIM */
    LAYOUT_SCATTER,   /* DIM:SIZE[:BYTES]: scatters into a dimension of SIZE elements */
    LAYOUT_STEP_KIND_COUNT
};

/* The names of the steps' options: "perm", "slice", ... */
extern const char *const layout_step_words[LAYOUT_STEP_KIND_COUNT];

/* A case as the command line describes it. The texts must outlive layout_case_make(). */
struct layout_words {
    const char *size; /* sizes of the dense array that is read, the slowest dimension first */
    uint32_t element_bytes;
    struct {
        enum layout_step_kind kind;
        const char *value;
    } steps[LAYOUT_STEPS_MAX];
    unsigned count;
};

struct layout_case {
    char text[LAYOUT_TEXT_MAX]; /* the options of "leat layout" that describe the case */
    char name[LAYOUT_TEXT_MAX]; /* a short name of the case to print */
    leat_layout dst, src;       /* the views; the caller sets the address of the index list */
    uint64_t dst_bytes;         /* size of the destination's dense array */
    uint64_t src_bytes;
    uint64_t payload_bytes;
    int64_t index_count; /* number of indices; 0: there is no list, or an empty one */
    bool index_on_dst;
};

/* Makes the case. Returns false with error set: a message without the sub-command's name. */
bool layout_case_make(struct layout_case *made, const struct layout_words *words, char error[LAYOUT_ERROR_MAX]);

/* Returns element i of the list of indices into a dimension of bound elements. The first bound indices are all
 * different. The scripts in bench/peers/ compute the same list. */
int64_t layout_case_index(int64_t i, int64_t bound);

/* Writes the list of indices: index_count numbers of index_bytes each. */
void layout_case_fill_list(const struct layout_case *made, void *list);

/* Returns the layout that has an index list, or NULL. */
leat_layout *layout_case_indexed(struct layout_case *made);

/* Writes numbers separated by commas. Returns text. */
const char *layout_numbers(char text[LAYOUT_TEXT_MAX], const int64_t *numbers, uint32_t count);

#endif
