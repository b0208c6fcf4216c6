/*
 * bench_side.h - the calls that are measured, by leat or by the driver: groups name the side and make one call.
 *
 * stream is a number: that of a stream of the bench. False: bench->error says what failed.
 */
#ifndef CLI_BENCH_SIDE_H
#define CLI_BENCH_SIDE_H

#include "bench_measure.h"
#include "bench_peer.h"

/* Makes the device current for the driver's calls of this thread, and undoes it. Nothing for leat. Never timed. */
bool bench_side_enter(struct bench *bench, enum bench_side side);
bool bench_side_leave(struct bench *bench, enum bench_side side);

bool bench_side_copy(struct bench *bench, enum bench_side side, unsigned stream, enum bench_direction direction,
                     void *dst, const void *src, size_t bytes);
bool bench_side_wait(struct bench *bench, enum bench_side side, unsigned stream);

#endif
