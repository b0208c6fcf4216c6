/*
 * links.h - one device filled over the host links of several.
 *
 * Each GPU has a link of its own to the host, and GPUs reach each other over much faster ones. A large copy into
 * one of them is therefore cut up: a part goes straight in, the others into bounce buffers of helping devices and
 * from there across. All of it is given to streams at once, ordered by events, so no thread follows it.
 */
#ifndef LEATI_LINKS_H
#define LEATI_LINKS_H

#include "core/core.h"

#define LEATI_LINKS_MAX 8
#define LEATI_RAILS_BYTES ((size_t)64 << 20) /* from here on copies go over them; leat/copy.h says so too */
#define LEATI_LINK_CHUNK_BYTES ((size_t)16 << 20)

/* What a copy needs of one helping device: two streams there, and buffers between them. */
struct leati_route;

/* A set of routes, one for each helper, for one copy at a time. */
struct leati_fleet;

/* How many helpers device has; 0: copies go over its own link only. */
unsigned leati_links_count(leat_device *device);

/* Takes a fleet for a copy into device; the caller gives it back. NULL when all are under way, or when one cannot
 * be made, which only makes the copy slower. */
struct leati_fleet *leati_fleet_take(leat_device *device);
void leati_fleet_give_back(struct leati_fleet *fleet);

/* The routes of a fleet start when stream gets here. On failure nothing depends on it, and nothing is reported.
 * end: stream goes on when all routes have come to their end. Each begin that succeeds needs an end, also when a
 * call between the two has failed; then the stream and all routes are waited for on the host. */
leat_status leati_fleet_begin(struct leati_fleet *fleet, leat_stream *stream);
leat_status leati_fleet_end(struct leati_fleet *fleet, leat_stream *stream, bool failed);

struct leati_route *leati_fleet_route(struct leati_fleet *fleet, unsigned index);

/* The driver's stream into the helper, for waits and flags. */
void *leati_route_stream(const struct leati_route *route);

/* Copies at most LEATI_LINK_CHUNK_BYTES of pinned memory to the target by this route. */
leat_status leati_route_copy(struct leati_route *route, struct leati_end dst, struct leati_end src, size_t bytes);

/* Ends all fleets that device is in, as target or as helper. Its work is done, or will never be. */
void leati_links_close(leat_device *device);

#endif
