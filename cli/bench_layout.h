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

/* The names for "--suite", and the titles of the suites. */
extern const char *const layout_suite_words[SUITE_COUNT];
extern const char *const layout_suite_texts[SUITE_COUNT];

/* Called for each case of a suite. The visitor may change the case. Returning false ends the suite. */
typedef bool (*layout_visit)(void *state, enum layout_suite suite, struct layout_case *made, leat_kind from,
                             leat_kind to);

/* Makes the cases of a suite, or only its main ones, of about so many bytes each as far as their shapes allow.
 * Returns false if the visitor ended the suite, or if a case could not be made; error then says why. */
bool layout_suite_cases(enum layout_suite suite, uint64_t bytes, bool main_only, layout_visit visit, void *state,
                        char error[LAYOUT_ERROR_MAX]);

/* Measures how much each optimization of a transpose gains, from one copy for each column to the whole kernel. */
void bench_layout_ladder(struct bench *bench);

/* Other programs whose figures the scripts in bench/peers/ add to a record: the name to print and the keys of the
 * record. */
struct layout_peer {
    const char *name, *rate_key, *share_key;
};

enum { LAYOUT_PEER_COUNT = 2 };

extern const struct layout_peer layout_peers[LAYOUT_PEER_COUNT];

/* Draws, as SVG, which share of a plain copy's rate each case reaches. Returns false after reporting what
 * failed. */
bool bench_layout_picture(const json_t *record, const char *path);

#endif
