/*
 * eager.h - copies of pageable memory that the caller's thread makes during the call.
 *
 * Up to 2 MiB the caller's thread is fastest, because waking a sleeping worker takes 30 to 70 us. Workers that are
 * awake help, and larger copies wake some. In (to the device): the caller copies the source to pinned memory, from
 * which DMAs read it; the call returns when the source has been read. Out: only on an idle stream; the caller
 * waits for the DMAs, then copies from pinned memory to the destination; the call returns when that is done.
 *
 * Pinned memory is kept for the next copy: one ring for each stream that makes short copies in, and a few larger
 * rings for each device. If none of these is free, a longer copy in takes a block from the stager.
 */
#ifndef LEATI_EAGER_H
#define LEATI_EAGER_H

#include "base/lock.h"
#include "copy/staged.h"

#define LEATI_EAGER_SHORT_BYTES ((size_t)64 << 10) /* copies in up to this size use the stream's own ring */
#define LEATI_EAGER_MOST_BYTES ((size_t)2 << 20)

enum { LEATI_EAGER_RINGS = 4 };

/* A ring of a device, for one copy at a time. */
struct leati_eager_ring {
    struct leati_lock lock;      /* guards the rest; taken with trylock only, so nobody waits for a ring */
    struct leati_flags *block;   /* flags and ring; allocated at the first use */
    struct leati_timeline *user; /* of the stream whose DMAs may still use the ring; NULL: none */
    uint64_t seq;                /* the ring is free when user has completed this sequence number */
};

/*
 * Copies pageable memory to the device, at most LEATI_EAGER_MOST_BYTES. Earlier work on the stream must not write
 * the source, because the source is read during the call. POINTER: the source cannot be read; dst is undefined
 * then, but unchanged if the copy is at most LEATI_EAGER_SHORT_BYTES. DECLINED: no room or no memory; nothing was
 * done.
 */
leat_status leati_eager_in(struct leati_stager *stager, leat_stream *stream, const struct leati_endpoint *to,
                           const struct leati_endpoint *from, size_t bytes);

/* Copies device memory to pageable memory; the stream must be idle. The copy is complete when this returns.
 * POINTER: dst cannot be written. DECLINED: as above. Both functions report the submitted work to the stream's
 * timeline. */
leat_status leati_eager_out(struct leati_stager *stager, leat_stream *stream, const struct leati_endpoint *to,
                            const struct leati_endpoint *from, size_t bytes);

/* init: sets up the rings of a device. end: frees their memory; the device must be idle or lost. */
void leati_eager_rings_init(struct leati_eager_ring rings[LEATI_EAGER_RINGS]);
void leati_eager_rings_end(struct leati_eager_ring rings[LEATI_EAGER_RINGS], struct leati_stager *stager);

/* Called when a stream ends: frees its ring as soon as the stream's work is complete. */
void leati_eager_stream_ends(struct leat_stream *stream);

#endif
