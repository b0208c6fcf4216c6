/*
 * scratch.h - supplies pinned memory or device memory for one call. The stream and its host functions use the
 * memory until they have completed the work of the call.
 */
#ifndef LEATI_COPY_SCRATCH_H
#define LEATI_COPY_SCRATCH_H

#include "core/core.h"

/* Takes a block from the device's pool of this kind; the host, and every stream, may use it at once. Returns NULL,
 * without changing the error message, if there is no memory. Before any submitted work uses the block,
 * leat_memory_free() may free it. */
void *leati_scratch_take(leat_device *device, leat_kind kind, size_t bytes);

/* Frees the block in stream order, after the work that uses it. Returns status, and does not change the error
 * message. */
leat_status leati_scratch_release(leat_stream *stream, void *block, leat_status status);

#endif
