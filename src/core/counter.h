/*
 * counter.h - shared by leat/stream.h and leat/share.h: counters in memory that streams write and wait for.
 */
#ifndef LEATI_COUNTER_H
#define LEATI_COUNTER_H

#include "core/core.h"

/* Checks that streams of stream's device can use the counter at ptr, and returns the address that the driver needs
 * in struct leati_mem_op. */
leat_status leati_counter_find(leat_stream *stream, const void *ptr, bool write, _Atomic uint32_t **counter);

/* Submits up to 4 writes and waits as one piece of work. The order that the waits make stays unknown to leat. */
leat_status leati_counter_submit(leat_stream *stream, const struct leati_mem_op *ops, unsigned count);

#endif
