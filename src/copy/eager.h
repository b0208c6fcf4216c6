/*
 * eager.h - makes copies of pageable memory on the caller's thread, during the call.
 *
 * Up to 2 MiB the caller's thread is fastest, because waking a sleeping worker takes 30 to 70 us. Workers that are
 * awake help, and copies of 512 KiB and more wake one or two. For a copy in (to the device) the caller copies the
 * source to pinned memory, from which DMAs read it. The call returns when the source has been read. A copy out
 * (from the device) needs an idle stream. The caller waits for the DMAs, copies from pinned memory to the
 * destination, and returns.
 *
 * leat keeps the pinned memory for the next copy: one ring for each stream that makes short copies in, and a few
 * larger rings for each device. If no ring is free, a longer copy in takes a block from the stager.
 */
#ifndef LEATI_EAGER_H
#define LEATI_EAGER_H

#include "base/lock.h"
#include "copy/staged.h"

#define LEATI_EAGER_SHORT_BYTES ((size_t)64 << 10) /* copies in up to this size use the ring of their stream */
#define LEATI_EAGER_MOST_BYTES ((size_t)2 << 20)

enum { LEATI_EAGER_RINGS = 4 };

/* A ring of a device, for one copy at a time. */
struct leati_eager_ring {
    struct leati_lock lock;      /* protects the fields below; only leati_trylock() takes it, so no thread waits */
    struct leati_flags *block;   /* flags and ring; allocated at the first use */
    struct leati_timeline *user; /* timeline of the stream whose DMAs may still use the ring; NULL: none */
    uint64_t seq;                /* the ring is free when user has completed this sequence number */
};

/*
 * Copies pageable memory to the device, at most LEATI_EAGER_MOST_BYTES. Earlier work on the stream must not write
 * the source, because this call reads the source at once. POINTER: the source cannot be read; dst is then
 * undefined, or unchanged if the copy has at most LEATI_EAGER_SHORT_BYTES. DECLINED: the rings are in use, or
 * there is no memory; nothing was done.
 */
leat_status leati_eager_in(struct leati_stager *stager, leat_stream *stream, const struct leati_endpoint *to,
                           const struct leati_endpoint *from, size_t bytes);

/* Copies device memory to pageable memory; the stream must be idle. The copy is complete when this call returns.
 * POINTER: dst cannot be written. DECLINED: as for leati_eager_in(). Both functions report the submitted work to
 * the stream's timeline. */
leat_status leati_eager_out(struct leati_stager *stager, leat_stream *stream, const struct leati_endpoint *to,
                            const struct leati_endpoint *from, size_t bytes);

/* leati_eager_rings_init() initialises the rings of a device. leati_eager_rings_end() frees their memory; the
 * device must be idle or lost. */
void leati_eager_rings_init(struct leati_eager_ring rings[LEATI_EAGER_RINGS]);
void leati_eager_rings_end(struct leati_eager_ring rings[LEATI_EAGER_RINGS], struct leati_stager *stager);

/* Called when a stream ends. leat then frees the stream's ring as soon as the stream's work is complete. */
void leati_eager_stream_ends(struct leat_stream *stream);

#endif
