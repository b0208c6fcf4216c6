/*
 * bench_side.h - declares the measured calls. Each function makes one call on the side that the group names: leat
 * or the driver.
 *
 * stream is the index of a stream of the bench. Calls return false with bench->error set.
 */
#ifndef CLI_BENCH_SIDE_H
#define CLI_BENCH_SIDE_H

#include "bench_measure.h"
#include "bench_peer.h"

/* Make the device current for the driver's calls in this thread, and undo that. They do nothing for leat. Not
 * timed. */
bool bench_side_enter(struct bench *bench, enum bench_side side);
bool bench_side_leave(struct bench *bench, enum bench_side side);

bool bench_side_copy(struct bench *bench, enum bench_side side, unsigned stream, enum bench_direction direction,
                     void *dst, const void *src, size_t bytes);
bool bench_side_wait(struct bench *bench, enum bench_side side, unsigned stream);

#endif
