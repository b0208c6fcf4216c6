/*
 * scratch.h - pinned memory for one call: what its stream and its host functions look at until they have got past
 * it.
 */
#ifndef LEATI_COPY_SCRATCH_H
#define LEATI_COPY_SCRATCH_H

#include "core/core.h"

/* From the device's pool of pinned memory, ready for the host; NULL when there is none, with the message
 * as it was. Goes back by leat_memory_free() as long as nobody was given it. */
void *leati_scratch_take(leat_device *device, size_t bytes);

/* Gives it back when stream has got past it. Returns status, and leaves the message as it is. */
leat_status leati_scratch_release(leat_stream *stream, void *block, leat_status status);

#endif
