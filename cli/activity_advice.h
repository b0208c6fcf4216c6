/*
 * activity_advice.h - declares what the rules of "leat trace" share: the activities in useful orders, the times at
 * which devices are busy, and the rates that forecasts count on.
 */
#ifndef CLI_ACTIVITY_ADVICE_H
#define CLI_ACTIVITY_ADVICE_H

#include "activity.h"

/* Times that some activities cover, without overlaps and in order. */
struct cover {
    uint64_t *begin_ns, *end_ns;
    uint64_t *before_ns; /* length of all pieces before this one */
    size_t count;
};

enum advice_direction { ADVICE_TO_DEVICE, ADVICE_FROM_DEVICE, ADVICE_ON_DEVICE, ADVICE_OTHER, ADVICE_DIRECTIONS };

struct advice_scene {
    const struct activity_log *log;
    const struct activity_breakdown *breakdown;
    const struct activity **by_stream; /* work with device times, by stream and then by time */
    size_t by_stream_count;
    size_t *stream_begins;             /* stream_count + 1 indices of by_stream */
    const struct activity **by_device; /* copies and computation, by device and then by time */
    size_t by_device_count;
    size_t *device_begins;
    const struct activity **by_thread; /* calls by thread and then by time, without ranges */
    size_t by_thread_count;
    size_t *thread_begins;
    uint32_t *stream_marks;              /* room for needless-sync: two for each stream, all zero */
    struct activity_interval *intervals; /* two for each member of by_thread */
    struct cover busy, compute, copies;  /* of all devices */
    double rate_gb_s[ADVICE_DIRECTIONS]; /* of large copies that no pageable memory slows down; 0: unknown */
    bool rate_given[ADVICE_DIRECTIONS];  /* the user gave the rate, and the trace does not tell it */
    uint64_t
        turn_ns; /* usual gap of a stream between two pieces of work of which the second was submitted in time */
    bool turn_known;
};

/* Finds the place that most of the activities of an advice have, by the majority vote of Boyer and Moore. */
struct advice_vote {
    const struct activity *usual; /* an activity of that place; NULL: there was none */
    size_t votes;
};
void advice_vote(struct advice_vote *vote, const struct activity *a);

/* Each rule fills advice if it finds something, and returns true then. advice is zero before. */
typedef bool advice_rule(const struct advice_scene *scene, struct activity_advice *advice);

advice_rule advice_strided_copies, advice_small_copies, advice_pageable_copies, advice_blocking_copies,
    advice_no_overlap;
advice_rule advice_managed_faults;
advice_rule advice_alloc_loop, advice_pinned_loop, advice_needless_sync, advice_launch_bound;

/* Returns how much of the time from begin to end is covered. */
uint64_t cover_within(const struct cover *cover, uint64_t begin_ns, uint64_t end_ns);

/* Returns the end of the last piece that begins before ns, or 0. */
uint64_t cover_last_end(const struct cover *cover, uint64_t ns);

enum advice_direction advice_direction_of(const struct activity *a);

/* Returns the time that a copy would take at the rate of its direction; 0 if that is not known. */
uint64_t advice_time_ns(const struct advice_scene *scene, enum advice_direction direction, uint64_t bytes);

/* Compares two uint64_t, for qsort(). */
int advice_compare(const void *a, const void *b);

/* Returns how long all devices idle from begin to end, less the time that a stream needs from one piece of work to
 * the next in any case. */
uint64_t advice_gap_ns(const struct advice_scene *scene, uint64_t begin_ns, uint64_t end_ns);

/* Sums up a length over times that may overlap: what one has counted, the next ones do not. Sorts the list. */
uint64_t advice_union(const struct advice_scene *scene, struct activity_interval *list, size_t count,
                      uint64_t (*length)(const struct advice_scene *scene, uint64_t begin_ns, uint64_t end_ns));

/* Writes to basis what advice_gap_ns() counts. what: the beginning of the sentence. */
void advice_gap_basis(const struct advice_scene *scene, const char *what, char basis[ACTIVITY_TEXT_MAX]);

/* Writes the rate of a direction and where it comes from, for advice->basis. Returns text. */
const char *advice_rate_text(const struct advice_scene *scene, enum advice_direction direction, char text[96]);

/* Returns the first copy or computation of a device that begins at ns or later, or NULL. */
const struct activity *advice_next_work(const struct advice_scene *scene, uint32_t device, uint64_t ns);

#endif
