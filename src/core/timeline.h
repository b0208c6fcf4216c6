/*
 * timeline.h - tracks the order of work across streams: each stream's timeline, and the waits that leat remembers.
 *
 * A stream's timeline has a sequence number (seq) that increases with every fence (an event) recorded in the
 * stream. Work that is submitted while the sequence number is t precedes the fence that ends t. So "the work of
 * stream S up to t" needs no event until a caller asks about it, and one event answers for all earlier work. leat
 * remembers three things to save driver calls: which sequence numbers are known to be complete, which fences were
 * recorded, and, for each stream, which sequence numbers of other streams it waits for, directly or transitively.
 * To forget a wait is safe, because it only costs another wait.
 *
 * A timeline is reference-counted (holders): it outlives its stream while a pool or an event refers to it.
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

/* A position in a stream's timeline: all work before the fence that ends seq. */
struct leati_point {
    uint64_t serial; /* serial of the timeline, unique for the life of the process; 0: none */
    uint64_t seq;
};

enum { LEATI_POINTS_MAX = 8, LEATI_FENCES = 4 };

/* The positions that a stream is known to be ordered after; at most one for each timeline, the latest. */
struct leati_points {
    struct leati_point at[LEATI_POINTS_MAX];
    unsigned next; /* index of the next entry to overwrite */
    bool more;     /* true: the stream may be ordered after further positions that are not listed */
};

/* A fence recorded by leat itself. */
struct leati_fence {
    uint64_t seq;     /* sequence number that the fence ends; 0: unused */
    void *event;      /* the driver's event */
    unsigned waiters; /* number of host waits for the event that are in progress without the timeline's lock */
};

struct leati_failure {
    leat_status status;
    char message[512];
};

/* The outcome of one copy, for the timelines of further streams that report its failure. It refers to no device,
 * so the copy, its ticket and the timelines may end in any order. */
struct leati_outcome {
    atomic_uint holders;                     /* reference count: the copy, its ticket, timelines */
    atomic_uint copies;                      /* parts of the copy that may still fail */
    _Atomic(struct leati_failure *) failure; /* NULL: the copy has not failed */
};

/* A subscription of a timeline to an outcome. */
struct leati_subscription {
    struct leati_subscription *next;
    struct leati_outcome *outcome;
};

struct leati_timeline {
    atomic_uint holders;
    uint64_t serial;
    struct leati_timeline *next, *back; /* list of all timelines (timeline.c) */
    struct leat_device *device;         /* NULL after leati_timelines_close(): then no work is pending */

    _Atomic uint64_t seq;       /* the current sequence number; starts at 1 */
    _Atomic uint64_t done;      /* all work up to this seq is known to be complete */
    _Atomic uint64_t submitted; /* number of submitted pieces of work */
    _Atomic uint64_t waited_at; /* value of submitted when a copy last waited for the stream; 0: none */
    _Atomic uint64_t idle_at;   /* value of submitted when the stream was last seen idle */
    _Atomic(struct leati_failure *) failure; /* failure of a copy that worker threads made, until it is reported */
    struct leati_lock lock;                  /* guards the fields below; held while an event is recorded */
    void *stream;                            /* the driver's stream; NULL once it is destroyed */
    atomic_bool takes_over; /* takes memory over from another process: see stream_waited in core.h */
    bool per_thread; /* the handle means another stream in each thread, so a fence of one thread says nothing about
                        others */
    struct leati_fence fences[LEATI_FENCES];
    struct leati_points waits;
    /* Outcomes of copies of other streams; changed under the lock. Atomic, because leati_timeline_take_failure()
     * looks without the lock whether there are any. */
    _Atomic(struct leati_subscription *) subscriptions;
    size_t subscription_count, prune_at; /* at this count the next subscription removes those that are settled */
};

/* Counters for statistics. Functions that take a pointer to it accept NULL. */
struct leati_timeline_counts {
    _Atomic uint64_t events, queries, waits, host_waits;
};

/* Creates a timeline with one holder. Returns NULL when out of memory. */
struct leati_timeline *leati_timeline_new(struct leat_device *device, void *native_stream);
void leati_timeline_hold(struct leati_timeline *timeline);
void leati_timeline_release(struct leati_timeline *timeline);

/* Call before the device is closed, after its streams were destroyed and their work has ended: records that all
 * work of the device's timelines is complete and destroys their fences. A timeline may outlive its device. */
void leati_timelines_close(struct leat_device *device);

/* Call before the stream is destroyed: records a last fence if anybody else holds the timeline. finished: all
 * work of the stream is known to be complete. Never fails: if the fence cannot be recorded, it waits for the
 * stream. */
void leati_timeline_stream_ends(struct leati_timeline *timeline, bool finished);

/* Call this after submitting work, even if submission failed half-way. Until then another thread may still
 * consider the stream idle. This and the next two functions use relaxed accesses, because a stale value only costs
 * or saves a driver query. */
static inline void leati_timeline_submitted(struct leati_timeline *timeline)
{
    atomic_fetch_add_explicit(&timeline->submitted, 1, memory_order_relaxed);
}

/* Records that the stream was seen idle when submitted had this value. */
static inline void leati_timeline_seen_idle(struct leati_timeline *timeline, uint64_t submitted)
{
    atomic_store_explicit(&timeline->idle_at, submitted, memory_order_relaxed);
}

/* Returns true if nothing was submitted since the stream was last seen idle. Only valid if all work of the
 * stream is submitted through leat. */
static inline bool leati_timeline_is_idle(const struct leati_timeline *timeline)
{
    return atomic_load_explicit(&timeline->submitted, memory_order_relaxed) ==
           atomic_load_explicit(&timeline->idle_at, memory_order_relaxed);
}

/* Bracket a host wait for the stream. wait_begins stores which work will be complete. Call wait_ends after a
 * successful wait: it records that this work is complete. */
struct leati_caught_up {
    uint64_t seq, submitted;
};
void leati_timeline_wait_begins(struct leati_timeline *timeline, struct leati_caught_up *caught_up);
void leati_timeline_wait_ends(struct leati_timeline *timeline, const struct leati_caught_up *caught_up);

/* Returns true, but only once, if nothing was submitted since a copy waited for the stream. Then the program's own
 * wait, which usually follows, needs no driver call. Only valid if all work of the stream is submitted through
 * leat. */
bool leati_timeline_waited_already(struct leati_timeline *timeline);

/* Returns the current sequence number. Work submitted before this call belongs to it, or to an earlier one. */
uint64_t leati_timeline_now(const struct leati_timeline *timeline);

/* Ends the current sequence number and returns it. Call before a fence is recorded, or before the stream is
 * waited for or queried. */
uint64_t leati_timeline_advance(struct leati_timeline *timeline);

/* Records that the host has seen the work up to seq complete. */
void leati_timeline_complete(struct leati_timeline *timeline, uint64_t seq);

/* Returns true if the work up to seq is known to be complete. No driver call. */
bool leati_timeline_is_complete(const struct leati_timeline *timeline, uint64_t seq);

/* Returns true if the stream was destroyed. Then leati_timeline_query() submits nothing to it. */
bool leati_timeline_is_over(struct leati_timeline *timeline);

/* Asks the driver whether the work up to seq is complete. Records a fence if there is none that covers seq and
 * the stream is not idle. */
leat_status leati_timeline_query(struct leati_timeline *timeline, uint64_t seq, bool *done,
                                 struct leati_timeline_counts *counts);

/* Returns true if work submitted to stream from now on is known to be ordered after timeline's work up to seq.
 * No driver call. */
bool leati_timeline_is_ordered_after(struct leati_timeline *stream, struct leati_timeline *timeline, uint64_t seq);

/* Returns false only if every wait of the stream is known and none of them orders it after timeline's work up to
 * seq. */
bool leati_timeline_may_be_ordered_after(struct leati_timeline *stream, struct leati_timeline *timeline,
                                         uint64_t seq);

/* Records that the stream waits, or may wait, for something that leat does not know, such as a wait through the
 * vendor's handle. */
void leati_timeline_unknown_wait(struct leati_timeline *stream);

/* Makes stream wait for timeline's work up to seq, and remembers the wait. */
leat_status leati_timeline_wait(struct leati_timeline *stream, struct leati_timeline *timeline, uint64_t seq,
                                struct leati_timeline_counts *counts);

/* Makes the host wait for timeline's work up to seq. */
leat_status leati_timeline_host_wait(struct leati_timeline *timeline, uint64_t seq,
                                     struct leati_timeline_counts *counts);

/* Records that stream waits for an event. point: the event's position; known: what the event's stream was
 * ordered after when the event was recorded. */
void leati_timeline_waited(struct leati_timeline *stream, const struct leati_point *point,
                           const struct leati_points *known);

/* leati_timeline_failed() stores the failure of a copy that leat's threads made, because the driver does not know
 * of it. It keeps only the first failure. leati_timeline_take_failure() removes that failure, or the first failure
 * among the outcomes to which the timeline subscribes, sets its message and returns its status; without a failure
 * it returns LEAT_OK. */
void leati_timeline_failed(struct leati_timeline *timeline, leat_status status, const char *message);
leat_status leati_timeline_take_failure(struct leati_timeline *timeline);

/* Creates an outcome with one holder. Returns NULL when out of memory. */
struct leati_outcome *leati_outcome_new(void);
void leati_outcome_release(struct leati_outcome *outcome);

/* Bracket a part of the copy, which holds the outcome. After the last one has ended, the copy cannot fail any
 * more. */
void leati_outcome_copy_begins(struct leati_outcome *outcome);
void leati_outcome_copy_ends(struct leati_outcome *outcome);

/* Stores the failure of the copy. Only the first one counts. */
void leati_outcome_failed(struct leati_outcome *outcome, leat_status status, const char *message);

/* Lets leati_timeline_take_failure() return the failure of a copy of another stream too. */
leat_status leati_timeline_subscribe(struct leati_timeline *timeline, struct leati_outcome *outcome);

/* Copies to *known the positions that the stream is ordered after now. Call this before an event is recorded. */
void leati_timeline_get_waits(struct leati_timeline *stream, struct leati_points *known);

#endif
