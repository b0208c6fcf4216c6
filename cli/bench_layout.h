/*
 * bench_layout.h - declares the parts of the group "layout": the suites and their cases, the ladder, the picture.
 */
#ifndef CLI_BENCH_LAYOUT_H
#define CLI_BENCH_LAYOUT_H

#include "layout_lab.h"

enum layout_suite {
    SUITE_TRANSPOSE,
    SUITE_PERMUTE,
    SUITE_LEARNING,
    SUITE_PIXELS,
    SUITE_SHUFFLE,
    SUITE_DIMS,
    SUITE_GATHER,
    SUITE_BROADCAST,
    SUITE_SLICE,
    SUITE_HOST,
    SUITE_CALL,
    SUITE_BATCH, /* the last one: it has no cases, but bench_layout_batch() */
    SUITE_COUNT
};

/* The names for "--suite", and the titles of the suites. */
extern const char *const layout_suite_words[SUITE_COUNT];
extern const char *const layout_suite_texts[SUITE_COUNT];

/* A function that layout_suite_cases() calls for each case. It may change the case. If it returns false, no
 * further case follows. */
typedef bool (*layout_visit)(void *state, enum layout_suite suite, struct layout_case *made, leat_kind from,
                             leat_kind to);

/* Makes the cases of a suite, or only its main cases, and passes them to visit. Each case has about this number of
 * bytes if its shape allows that. Returns false if visit has returned false, or, with error set, if a case could
 * not be made. */
bool layout_suite_cases(enum layout_suite suite, uint64_t bytes, bool main_only, layout_visit visit, void *state,
                        char error[LAYOUT_ERROR_MAX]);

/* Measures the suite "batch". */
void bench_layout_batch(struct bench *bench);

/* Measures how much each optimization of a transpose gains, from one copy for each column to the whole kernel. */
void bench_layout_ladder(struct bench *bench);

/* Another program whose figures the scripts in bench/peers/ add to a record: its name for output, and the keys of
 * its figures. */
struct layout_peer {
    const char *name, *rate_key, *share_key;
};

enum { LAYOUT_PEER_COUNT = 2 };

extern const struct layout_peer layout_peers[LAYOUT_PEER_COUNT];

/* Draws each case's share of the rate of a plain copy, as SVG. Returns false after printing what failed. */
bool bench_layout_picture(const json_t *record, const char *path);

#endif
