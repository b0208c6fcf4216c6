/*
 * order.h - what is ordered after what: each stream's ticks, and the waits that are remembered.
 *
 * A stream's order has a tick, a number that moves on with every mark (an event) that is put into the stream. What
 * is given to the stream while the tick is t lies before the mark that ends t. So "the work of stream S up to tick
 * t" needs no event until somebody asks for it, and one event answers for all that came before. Three things are
 * remembered, so that the driver need not be asked: which ticks are known to be done, which marks were put, and
 * for each stream which ticks of others it waits for, directly or through what those waited for. Forgetting a wait
 * is allowed: it only costs another one.
 *
 * An order lives longer than its stream while a pool or an event still holds it.
 */
#ifndef LEATI_ORDER_H
#define LEATI_ORDER_H

#include "base/lock.h"

#include <leat/status.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct leat_device;
struct leat_stream;
struct leati_driver;

/* The place in a stream's order that is before the mark of tick. */
struct leati_point {
    uint64_t serial; /* of the order, never used again; 0: none */
    uint64_t tick;
};

enum { LEATI_POINTS_MAX = 8, LEATI_MARKS = 4 };

/* What a stream is ordered after, the latest it is known of. */
struct leati_points {
    struct leati_point at[LEATI_POINTS_MAX];
    unsigned next; /* the place to overwrite when all are taken */
    bool more;     /* and perhaps after others, which are not listed */
};

/* A mark put by leat itself. */
struct leati_mark {
    uint64_t tick; /* 0: unused */
    void *event;   /* the driver's event */
};

struct leati_failure {
    leat_status status;
    char sentence[512];
};

struct leati_order {
    atomic_uint holders;
    uint64_t serial;
    struct leat_device *device;
    _Atomic uint64_t tick;                   /* from 1 */
    _Atomic uint64_t done;                   /* all work up to this tick is known to be finished */
    _Atomic uint64_t given;                  /* counts pieces of work */
    _Atomic uint64_t waited_at;              /* with so many given, a copy waited for the stream; 0: none did */
    _Atomic uint64_t idle_at;                /* with so many given, the stream was seen idle */
    _Atomic(struct leati_failure *) failure; /* of a copy that leat's own threads made, until somebody takes it */
    struct leati_lock lock;                  /* guards the rest, and is held while an event is recorded */
    void *stream;                            /* the driver's stream; NULL once it is destroyed */
    bool per_thread; /* another stream for each thread, so that no mark of one thread says anything to others */
    struct leati_mark marks[LEATI_MARKS];
    struct leati_points waits;
};

/* Counters for statistics; NULL is fine. */
struct leati_order_counts {
    _Atomic uint64_t events, queries, waits, host_waits;
};

/* NULL when out of memory. One holder. */
struct leati_order *leati_order_new(struct leat_device *device, void *native_stream);
void leati_order_hold(struct leati_order *order);
void leati_order_let_go(struct leati_order *order);

/* The stream is about to be destroyed: puts a last mark, if anybody else holds the order. finished: all its work
 * is known to be done. Never fails: where no mark can be put, it waits for the stream. */
void leati_order_stream_ends(struct leati_order *order, bool finished);

/* A piece of work was given to the stream, or giving it failed on the way: called behind it, since another thread
 * may see the stream idle until then. Relaxed, as are the next two: they only save asking. */
static inline void leati_order_given(struct leati_order *order)
{
    atomic_fetch_add_explicit(&order->given, 1, memory_order_relaxed);
}

/* The stream was idle after given pieces. */
static inline void leati_order_seen_idle(struct leati_order *order, uint64_t given)
{
    atomic_store_explicit(&order->idle_at, given, memory_order_relaxed);
}

/* Was nothing given since it was idle? Only for streams that nobody gives work past leat. */
static inline bool leati_order_is_idle(const struct leati_order *order)
{
    return atomic_load_explicit(&order->given, memory_order_relaxed) ==
           atomic_load_explicit(&order->idle_at, memory_order_relaxed);
}

/* Around the host's wait for a stream: what is known behind it. */
struct leati_caught_up {
    uint64_t tick, given;
};
void leati_order_wait_begins(struct leati_order *order, struct leati_caught_up *caught_up);
void leati_order_wait_ends(struct leati_order *order, const struct leati_caught_up *caught_up);

/* Returns true, once, if nothing was given since a copy waited for the stream: then the program's own wait, which
 * most often follows, need not ask the driver again. Only for streams that nobody gives work past leat. */
bool leati_order_waited_already(struct leati_order *order);

/* The tick that work given by now belongs to. */
uint64_t leati_order_now(const struct leati_order *order);

/* A mark is about to be put by the user, or the stream waited for: the tick that it ends. */
uint64_t leati_order_advance(struct leati_order *order);

/* The work up to tick is finished, the host saw it. */
void leati_order_finished(struct leati_order *order, uint64_t tick);

/* Is it known that the work up to tick is done? No driver call. */
bool leati_order_known(const struct leati_order *order, uint64_t tick);

/* Has its stream ended? Then leati_order_query() gives that stream nothing more. */
bool leati_order_is_over(struct leati_order *order);

/* Asks the driver, with a mark of its own where there is none for tick. */
leat_status leati_order_query(struct leati_order *order, uint64_t tick, bool *done,
                              struct leati_order_counts *counts);

/* Is later work of stream known to be ordered after order's work up to tick? No driver call. */
bool leati_order_follows(struct leati_order *stream, struct leati_order *order, uint64_t tick);

/* May it be, for all that leat can know? False only for streams whose waits have all been seen and kept. */
bool leati_order_may_follow(struct leati_order *stream, struct leati_order *order, uint64_t tick);

/* The stream waits for something that leat does not know, or may do so: the user has the vendor's handle. */
void leati_order_unseen(struct leati_order *stream);

/* Makes stream wait for order's work up to tick, and remembers it. */
leat_status leati_order_wait(struct leati_order *stream, struct leati_order *order, uint64_t tick,
                             struct leati_order_counts *counts);

/* Makes the host wait for it. */
leat_status leati_order_host_wait(struct leati_order *order, uint64_t tick, struct leati_order_counts *counts);

/* A stream waits for an event that was recorded at *point when its stream had waited for *known. */
void leati_order_waited(struct leati_order *stream, const struct leati_point *point,
                        const struct leati_points *known);

/* Work of the stream failed past the driver: the first such failure is kept for leati_order_take_failure(), which
 * sets its sentence and returns its status once, and else LEAT_OK. */
void leati_order_failed(struct leati_order *order, leat_status status, const char *sentence);
leat_status leati_order_take_failure(struct leati_order *order);

/* What a stream waits for by now: for an event that is about to be recorded. */
void leati_order_waits(struct leati_order *stream, struct leati_points *known);

#endif
