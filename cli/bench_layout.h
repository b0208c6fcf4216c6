/*
 * bench_layout.h - the parts of the group "layout": which cases there are, the ladder, the picture.
 */
#ifndef CLI_BENCH_LAYOUT_H
#define CLI_BENCH_LAYOUT_H

#include "layout_lab.h"

enum layout_suite {
    SUITE_TRANSPOSE,
    SUITE_PERMUTE,
    SUITE_LEARNING,
    SUITE_SHUFFLE,
    SUITE_DIMS,
    SUITE_GATHER,
    SUITE_BROADCAST,
    SUITE_SLICE,
    SUITE_HOST,
    SUITE_CALL,
    SUITE_COUNT
};

/* The words that "--suite" takes, and what they stand for. */
extern const char *const layout_suite_words[SUITE_COUNT];
extern const char *const layout_suite_texts[SUITE_COUNT];

/* Is given each case of a suite. The case is the visitor's to change. False ends the suite. */
typedef bool (*layout_visit)(void *state, enum layout_suite suite, struct layout_case *made, leat_kind from,
                             leat_kind to);

/* Makes the cases of a suite, of about bytes each as far as their shapes allow, or only its main ones. False: the
 * visitor ended it, or a case could not be made, which error then says. */
bool layout_suite_cases(enum layout_suite suite, uint64_t bytes, bool main_only, layout_visit visit, void *state,
                        char error[LAYOUT_ERROR_MAX]);

/* What each step of the way from a copy for each column to the whole kernel is worth. */
void bench_layout_ladder(struct bench *bench);

/* Other programs' figures that bench/peers/ puts into a record: the name for people, and what its keys begin with.
 */
struct layout_peer {
    const char *name, *rate_key, *share_key;
};

enum { LAYOUT_PEER_COUNT = 2 };

extern const struct layout_peer layout_peers[LAYOUT_PEER_COUNT];

/* Draws the share of the plain copy's rate of all cases, as SVG. False after saying what failed. */
bool bench_layout_picture(const json_t *record, const char *path);

#endif
