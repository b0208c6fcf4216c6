/*
 * top.h - declares what the parts of "leat top" share: what a process did between two readings of its counters.
 */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include "live_file.h"
#include "live_read.h"

#include <stdbool.h>
#include <stdio.h>

struct top_view {
    long pid;
    const char *program;
    struct leati_live before, now;
    uint64_t passed_ns; /* between the two, at least 1 */
};

extern const char *const top_kind_names[LEATI_LIVE_KINDS];
extern const char *const top_memory_names[LEATI_LIVE_MEMORIES];

/* Returns what was done between the readings. A hostile process can make counters shrink; that counts as 0. */
struct leati_live_work top_difference(const struct leati_live_work *before, const struct leati_live_work *now);

/* Returns the same for a stream, which may have another place than before. */
struct leati_live_work top_lane_difference(const struct top_view *view, const struct leati_live_lane *lane);

/* Returns count by second. */
double top_rate(const struct top_view *view, uint64_t count);

/* Returns the share of the time that busy_ns is, from 0 to 1. */
double top_share(const struct top_view *view, uint64_t busy_ns);

/* Returns the name of a device by its id, or "?". */
const char *top_device_name(const struct leati_live *live, uint32_t id);

/* Both return false if memory is short. */
bool top_write_text(const struct top_view *view);
bool top_write_json(const struct top_view *view, FILE *file, bool in_lines);

#endif
