/*
 * eager.h - copies of pageable memory that the caller's thread makes at once.
 *
 * Up to 2 MiB nobody is faster than the thread that is there already: a worker that sleeps takes 30 to 70 us to
 * come. Workers that are awake help, and larger copies wake some. In: the bytes go into pinned memory, from which
 * DMAs read them; the call returns when the source has been read. Out: on a stream that is idle, the caller waits
 * for the DMAs and takes the bytes out; the call returns when they are there.
 *
 * Pinned memory is kept for the next copy: a ring for each stream that makes short copies in, and a few larger
 * rings for each device. Where none is free, a longer copy takes one of the stager's.
 */
#ifndef LEATI_EAGER_H
#define LEATI_EAGER_H

#include "base/lock.h"
#include "copy/staged.h"

#define LEATI_EAGER_SHORT_BYTES ((size_t)64 << 10) /* by the stream's own ring */
#define LEATI_EAGER_MOST_BYTES ((size_t)2 << 20)

enum { LEATI_EAGER_RINGS = 4 };

/* A ring of a device, for one copy at a time. */
struct leati_eager_ring {
    struct leati_lock lock;      /* only tried: whoever finds it taken does without. Guards the rest */
    struct leati_flags *block;   /* flags and ring; made at the first use */
    struct leati_timeline *user; /* of the stream whose DMAs read it last; NULL: none do */
    uint64_t seq;                /* to which they belong */
};

/*
 * Copies pageable memory in, at most LEATI_EAGER_MOST_BYTES; what comes before on the stream does not write the
 * source. The source has been read when it returns. POINTER: it cannot be read; dst is undefined then, unless the
 * copy is a short one. DECLINED: there is no room or no memory, and nothing was done.
 */
leat_status leati_eager_in(struct leati_stager *stager, leat_stream *stream, const struct leati_endpoint *to,
                           const struct leati_endpoint *from, size_t bytes);

/* Copies out of device memory, complete at its return; for a stream that is idle. POINTER: dst cannot be written.
 * DECLINED as above. Both tell the stream's timeline that work was given to it. */
leat_status leati_eager_out(struct leati_stager *stager, leat_stream *stream, const struct leati_endpoint *to,
                            const struct leati_endpoint *from, size_t bytes);

/* Sets the rings of a device up; gives their memory back, when all work of the device is done. */
void leati_eager_rings_init(struct leati_eager_ring rings[LEATI_EAGER_RINGS]);
void leati_eager_rings_end(struct leati_eager_ring rings[LEATI_EAGER_RINGS], struct leati_stager *stager);

/* Gives the ring of a stream that ends back, once its work is done. */
void leati_eager_stream_ends(struct leat_stream *stream);

#endif
