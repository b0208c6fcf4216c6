/*
 * timeline.h - what is ordered after what: each stream's timeline, and the waits that are remembered.
 *
 * A stream's timeline has a sequence number (seq) that increases with every fence (an event) that is put into the
 * stream. Work that is submitted while the sequence number is t lies before the fence that ends t. So "the work of
 * stream S up to t" needs no event until somebody asks for it, and one event answers for all that came before.
 * Three things are remembered, so that the driver need not be asked: which sequence numbers are known to be
 * complete, which fences were put, and for each stream which sequence numbers of others it waits for, directly or
 * through what those waited for. Forgetting a wait is allowed: it only costs another one.
 *
 * A timeline lives longer than its stream while a pool or an event still holds it.
 */
#ifndef LEATI_TIMELINE_H
#define LEATI_TIMELINE_H

#include "base/lock.h"

#include <leat/status.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct leat_device;
struct leat_stream;
struct leati_driver;

/* The point in a stream's timeline that is before the fence of seq. */
struct leati_point {
    uint64_t serial; /* of the timeline, never used again; 0: none */
    uint64_t seq;
};

enum { LEATI_POINTS_MAX = 8, LEATI_FENCES = 4 };

/* What a stream is ordered after, the latest it is known of. */
struct leati_points {
    struct leati_point at[LEATI_POINTS_MAX];
    unsigned next; /* the place to overwrite when all are taken */
    bool more;     /* and perhaps after others, which are not listed */
};

/* A fence put by leat itself. */
struct leati_fence {
    uint64_t seq; /* 0: unused */
    void *event;  /* the driver's event */
};

struct leati_failure {
    leat_status status;
    char message[512];
};

struct leati_timeline {
    atomic_uint holders;
    uint64_t serial;
    struct leat_device *device;
    _Atomic uint64_t seq;                    /* from 1 */
    _Atomic uint64_t done;                   /* all work up to this seq is known to be finished */
    _Atomic uint64_t submitted;              /* counts pieces of work */
    _Atomic uint64_t waited_at;              /* with so many given, a copy waited for the stream; 0: none did */
    _Atomic uint64_t idle_at;                /* with so many given, the stream was seen idle */
    _Atomic(struct leati_failure *) failure; /* of a copy that leat's own threads made, until somebody takes it */
    struct leati_lock lock;                  /* guards the rest, and is held while an event is recorded */
    void *stream;                            /* the driver's stream; NULL once it is destroyed */
    bool per_thread; /* another stream for each thread, so that no fence of one thread says anything to others */
    struct leati_fence fences[LEATI_FENCES];
    struct leati_points waits;
};

/* Counters for statistics; NULL is fine. */
struct leati_timeline_counts {
    _Atomic uint64_t events, queries, waits, host_waits;
};

/* NULL when out of memory. One holder. */
struct leati_timeline *leati_timeline_new(struct leat_device *device, void *native_stream);
void leati_timeline_hold(struct leati_timeline *timeline);
void leati_timeline_release(struct leati_timeline *timeline);

/* The stream is about to be destroyed: puts a last fence, if anybody else holds the timeline. finished: all its
 * work is known to be done. Never fails: where no fence can be put, it waits for the stream. */
void leati_timeline_stream_ends(struct leati_timeline *timeline, bool finished);

/* Call after submitting work, even if submission failed half-way: until then another thread may see the stream
 * idle. Relaxed, as are the next two: they only save asking. */
static inline void leati_timeline_submitted(struct leati_timeline *timeline)
{
    atomic_fetch_add_explicit(&timeline->submitted, 1, memory_order_relaxed);
}

/* The stream was idle after so many submitted pieces. */
static inline void leati_timeline_seen_idle(struct leati_timeline *timeline, uint64_t submitted)
{
    atomic_store_explicit(&timeline->idle_at, submitted, memory_order_relaxed);
}

/* Returns true if nothing was submitted since it was idle. Only for streams that nobody gives work outside leat.
 */
static inline bool leati_timeline_is_idle(const struct leati_timeline *timeline)
{
    return atomic_load_explicit(&timeline->submitted, memory_order_relaxed) ==
           atomic_load_explicit(&timeline->idle_at, memory_order_relaxed);
}

/* Around the host's wait for a stream: what is known behind it. */
struct leati_caught_up {
    uint64_t seq, submitted;
};
void leati_timeline_wait_begins(struct leati_timeline *timeline, struct leati_caught_up *caught_up);
void leati_timeline_wait_ends(struct leati_timeline *timeline, const struct leati_caught_up *caught_up);

/* Returns true, once, if nothing was given since a copy waited for the stream: then the program's own wait, which
 * most often follows, need not ask the driver again. Only for streams that nobody gives work outside leat. */
bool leati_timeline_waited_already(struct leati_timeline *timeline);

/* The sequence number that work submitted now belongs to. */
uint64_t leati_timeline_now(const struct leati_timeline *timeline);

/* A fence is about to be put by the user, or the stream waited for: the seq that it ends. */
uint64_t leati_timeline_advance(struct leati_timeline *timeline);

/* The work up to seq is finished, the host saw it. */
void leati_timeline_complete(struct leati_timeline *timeline, uint64_t seq);

/* Returns true if the work up to seq is known to be complete. No driver call. */
bool leati_timeline_is_complete(const struct leati_timeline *timeline, uint64_t seq);

/* Returns true if its stream has ended. Then leati_timeline_query() gives that stream nothing more. */
bool leati_timeline_is_over(struct leati_timeline *timeline);

/* Asks the driver, with a fence of its own where there is none for seq. */
leat_status leati_timeline_query(struct leati_timeline *timeline, uint64_t seq, bool *done,
                                 struct leati_timeline_counts *counts);

/* Returns true if later work of stream is known to be ordered after timeline's work up to seq. No driver call. */
bool leati_timeline_is_ordered_after(struct leati_timeline *stream, struct leati_timeline *timeline, uint64_t seq);

/* Conservative: returns false only if every wait of the stream is known and this is not among them. */
bool leati_timeline_may_be_ordered_after(struct leati_timeline *stream, struct leati_timeline *timeline,
                                         uint64_t seq);

/* The stream waits for something that leat does not know, or may do so: the user has the vendor's handle. */
void leati_timeline_unknown_wait(struct leati_timeline *stream);

/* Makes stream wait for timeline's work up to seq, and remembers it. */
leat_status leati_timeline_wait(struct leati_timeline *stream, struct leati_timeline *timeline, uint64_t seq,
                                struct leati_timeline_counts *counts);

/* Makes the host wait for it. */
leat_status leati_timeline_host_wait(struct leati_timeline *timeline, uint64_t seq,
                                     struct leati_timeline_counts *counts);

/* A stream waits for an event that was recorded at *point when its stream had waited for *known. */
void leati_timeline_waited(struct leati_timeline *stream, const struct leati_point *point,
                           const struct leati_points *known);

/* Work of the stream failed past the driver: the first such failure is kept for leati_timeline_take_failure(),
 * which sets its message and returns its status once, and else LEAT_OK. */
void leati_timeline_failed(struct leati_timeline *timeline, leat_status status, const char *message);
leat_status leati_timeline_take_failure(struct leati_timeline *timeline);

/* What a stream waits for by now: for an event that is about to be recorded. */
void leati_timeline_get_waits(struct leati_timeline *stream, struct leati_points *known);

#endif
