/*
 * rails.h - copies to one device over the host links of several devices.
 *
 * Each GPU has its own link to the host, and the links between GPUs are much faster. So leat splits a large copy
 * to a GPU. One part goes directly to the GPU. The other parts go to bounce buffers on helper devices, and from
 * there to the GPU. The call submits all DMAs at once and orders them with events, so no thread has to follow the
 * copy.
 */
#ifndef LEATI_RAILS_H
#define LEATI_RAILS_H

#include "core/core.h"

#define LEATI_RAILS_MAX 8
#define LEATI_RAILS_BYTES ((size_t)64 << 20) /* the shortest copy that uses rails; documented in leat/copy.h */
#define LEATI_RAIL_CHUNK_BYTES ((size_t)16 << 20)

/* One rail: two streams on a helper device (host to buffer, buffer to target), and the buffers between them. */
struct leati_rail;

/* A set of rails, one for each helper. Only one copy uses it at a time. */
struct leati_rails;

/* Returns how many helpers a device has; 0: copies to the device use only its own link. */
unsigned leati_rails_count(leat_device *device);

/* Takes a set of rails for a copy to a device; the caller must give the set back. The rails stay until then, even
 * if another thread removes the helpers. Returns NULL if all sets are in use, a new set cannot be created, or the
 * device does not have count helpers any more; the copy then uses another protocol. */
struct leati_rails *leati_rails_take(leat_device *device, unsigned count);
void leati_rails_give_back(struct leati_rails *rails);

/* leati_rails_begin() makes the rails wait for all work that was submitted to stream before. If it fails, it sets
 * no message, and the caller can still use another protocol. leati_rails_end() makes stream wait for all rails.
 * Call it after each leati_rails_begin() that succeeds. If a call between the two has failed, pass failed: the
 * calling thread then waits for the stream and all rails. */
leat_status leati_rails_begin(struct leati_rails *rails, leat_stream *stream);
leat_status leati_rails_end(struct leati_rails *rails, leat_stream *stream, bool failed);

struct leati_rail *leati_rails_at(struct leati_rails *rails, unsigned index);

/* Returns the rail's stream that copies from the host to the helper. Staged copies submit waits for flags to it.
 */
void *leati_rail_stream(const struct leati_rail *rail);

/* Copies at most LEATI_RAIL_CHUNK_BYTES of pinned memory to the target device over this rail. */
leat_status leati_rail_copy(struct leati_rail *rail, struct leati_location dst, struct leati_location src,
                            size_t bytes);

/* Destroys all rails that use device as target or as helper. Waits for calls that use them. The device must be
 * idle or lost. */
void leati_rails_close(leat_device *device);

#endif
