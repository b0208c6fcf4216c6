/*
 * rails.h - one device filled over the host links of several.
 *
 * Each GPU has a link of its own to the host, and GPUs reach each other over much faster ones. A large copy into
 * one of them is therefore cut up: a part goes straight in, the others into bounce buffers of helping devices and
 * from there across. All of it is given to streams at once, ordered by events, so no thread follows it.
 */
#ifndef LEATI_RAILS_H
#define LEATI_RAILS_H

#include "core/core.h"

#define LEATI_RAILS_MAX 8
#define LEATI_RAILS_BYTES ((size_t)64 << 20) /* from here on copies go over them; leat/copy.h says so too */
#define LEATI_RAIL_CHUNK_BYTES ((size_t)16 << 20)

/* What a copy needs of one helping device: two streams there, and buffers between them. */
struct leati_rail;

/* The rails of one copy at a time, one for each helper. */
struct leati_rails;

/* How many helpers device has; 0: copies go over its own link only. */
unsigned leati_rails_count(leat_device *device);

/* Takes rails for a copy into device; the caller gives them back. NULL when all are under way, or when one cannot
 * be made, which only makes the copy slower. */
struct leati_rails *leati_rails_take(leat_device *device);
void leati_rails_give_back(struct leati_rails *rails);

/* The rails start when stream gets here. On failure nothing depends on it, and nothing is reported.
 * end: stream goes on when all rails are done. Each begin that succeeds needs an end, also when a
 * call between the two has failed; then the host waits for the stream and all rails. */
leat_status leati_rails_begin(struct leati_rails *rails, leat_stream *stream);
leat_status leati_rails_end(struct leati_rails *rails, leat_stream *stream, bool failed);

struct leati_rail *leati_rails_at(struct leati_rails *rails, unsigned index);

/* The driver's stream into the helper, for waits and flags. */
void *leati_rail_stream(const struct leati_rail *rail);

/* Copies at most LEATI_RAIL_CHUNK_BYTES of pinned memory to the target over this rail. */
leat_status leati_rail_copy(struct leati_rail *rail, struct leati_location dst, struct leati_location src,
                            size_t bytes);

/* Ends all rails that device is part of, as target or as helper. Its work is done, or will never be. */
void leati_rails_close(leat_device *device);

#endif
