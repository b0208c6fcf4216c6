/* device_times.c - see device_times.h. */
#include "trace/device_times.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/quick.h"
#include "driver/driver.h"

#include <sched.h>
#include <stdlib.h>

enum {
    SLOTS = 4096,    /* operations of a device whose times are being waited for */
    LANES_SEEN = 64, /* streams that one look remembers as busy */
    ROUNDS_FIRST = 8,
    ROUNDS = 3, /* of a measurement of the clock; the shortest one counts */
    BASES = 3,
    COST_EVERY = 8 /* operations of a thread, of which one is timed */
};

#define CLOCK_NS 500000000u      /* how often the clock is measured: a float of 0.5 s has steps of 60 ns */
#define ROUND_MOST_NS 100000000u /* a round that takes longer is given up */
#define ROUND_SPIN_NS                                                                                             \
    50000u                  /* after that the thread lets others run, which a stream of the CPU device may need   \
                             */
#define FUTURE_NS 10000000u /* a time later than this from now is wrong */

struct leati_time_slot {
    struct leati_device_times *times;
    _Atomic uint64_t start_ns, end_ns; /* stamps; 0: not written yet */
    void *start, *end;                 /* events; NULL: not created yet */
    bool unended;                      /* the driver has refused the end */
    bool timed;                        /* for the cost of marks */
    uint32_t next_free;                /* index + 1 of the next free slot */
    struct leati_kept kept;            /* of a kept slot, as the next field */
    struct leati_time_slot *next;
};

struct leati_device_times {
    const struct leati_traced_device *traced;
    struct leati_driver *driver;
    void *device;
    /* The free slots, as a stack: low half, index + 1 of the first; high half, a count of changes, without which a
     * thread could take a slot that others have taken and put back meanwhile, with a stale next_free. */
    _Atomic uint64_t free;
    _Atomic uint32_t used; /* slots that were ever used; those behind it are free too */
    /* What marks cost: relaxed, since an estimate is enough. */
    _Atomic uint64_t cost_samples, cost_ns;

    /* Under the recorder's lock: the kept slots, the oldest first. */
    struct leati_time_slot *first, **last;

    /* The clock, also under that lock. bases[0] is the base event, the others serve to measure the next one. */
    void *stream, *bases[BASES];
    uint64_t base_ns, measured_ns; /* time of the base event; when it was measured, 0: never */
    struct leati_trace_clock latest;
    bool refused; /* the driver cannot do it */

    unsigned mode_before; /* of the thread's captures, also under that lock */
    bool has_entered;

    struct leati_time_slot slots[SLOTS];
};

static bool is_ending; /* under the recorder's lock */

/* ---- slots ---- */

static struct leati_device_times *make(struct leati_traced_device *device)
{
    struct leati_device_times *made = calloc(1, sizeof *made), *other = NULL;

    if (!made)
        return NULL;
    made->traced = device;
    made->driver = device->driver;
    made->device = device->native;
    made->last = &made->first;
    /* Release: other threads load with acquire and see all fields. */
    if (atomic_compare_exchange_strong_explicit(&device->times, &other, made, memory_order_release,
                                                memory_order_acquire))
        return made;
    free(made);
    return other;
}

/* Takes a free slot; NULL: there is none. */
static struct leati_time_slot *take(struct leati_device_times *times)
{
    /* Acquire, in both: pairs with the release in put(), so that next_free and the slot's fields are visible. */
    uint64_t head = atomic_load_explicit(&times->free, memory_order_acquire);
    uint32_t fresh;

    while ((uint32_t)head) {
        struct leati_time_slot *slot = &times->slots[(uint32_t)head - 1];
        /* Another thread may take the slot and write its next_free meanwhile. Then the exchange fails. */
        uint32_t next = __atomic_load_n(&slot->next_free, __ATOMIC_RELAXED);

        if (atomic_compare_exchange_weak_explicit(&times->free, &head, ((head >> 32) + 1) << 32 | next,
                                                  memory_order_acquire, memory_order_acquire))
            return slot;
    }
    fresh = atomic_load_explicit(&times->used, memory_order_relaxed);
    while (fresh < SLOTS && !atomic_compare_exchange_weak_explicit(&times->used, &fresh, fresh + 1,
                                                                   memory_order_relaxed, memory_order_relaxed))
        continue;
    if (fresh == SLOTS)
        return NULL;
    times->slots[fresh].times = times;
    return &times->slots[fresh];
}

static void put(struct leati_time_slot *slot)
{
    struct leati_device_times *times = slot->times;
    uint64_t head = atomic_load_explicit(&times->free, memory_order_relaxed);
    uint32_t index = (uint32_t)(slot - times->slots);

    do
        __atomic_store_n(&slot->next_free, (uint32_t)head, __ATOMIC_RELAXED);
    while (!atomic_compare_exchange_weak_explicit(&times->free, &head, ((head >> 32) + 1) << 32 | (index + 1),
                                                  memory_order_release, memory_order_relaxed));
}

/* Marks a moment of the stream. */
static leat_status mark(const struct leati_device_times *times, void *stream, _Atomic uint64_t *ns, void **event)
{
    struct leati_driver *driver = times->driver;

    if (driver->ops->stream_stamp)
        return LEATI_QUIETLY(driver->ops->stream_stamp(driver, stream, ns));
    if (!*event)
        LEATI_TRY(LEATI_QUIETLY(driver->ops->event_create(driver, times->device, event)));
    return LEATI_QUIETLY(driver->ops->event_record(driver, *event, stream));
}

/* The same for the begin or the end of a slot, with its cost if the slot is timed. */
static leat_status mark_slot(struct leati_time_slot *slot, void *stream, _Atomic uint64_t *ns, void **event)
{
    uint64_t start_ns = slot->timed ? leati_clock_ns() : 0;
    leat_status status = mark(slot->times, stream, ns, event);

    if (slot->timed)
        atomic_fetch_add_explicit(&slot->times->cost_ns, leati_clock_ns() - start_ns, memory_order_relaxed);
    return status;
}

struct leati_time_slot *leati_time_slot_begin(struct leati_traced_stream *lane)
{
    struct leati_device_times *times = atomic_load_explicit(&lane->device->times, memory_order_acquire);
    static LEATI_QUICK_TLS unsigned operations;
    struct leati_time_slot *slot;

    leati_assert(lane->stream);
    if (!times)
        times = make(lane->device);
    slot = times ? take(times) : NULL;
    if (!slot)
        return NULL;
    /* Relaxed: nobody else has the slot. */
    atomic_store_explicit(&slot->start_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->end_ns, 0, memory_order_relaxed);
    slot->unended = true;
    slot->timed = ++operations % COST_EVERY == 0;
    if (slot->timed)
        atomic_fetch_add_explicit(&times->cost_samples, 1, memory_order_relaxed);
    if (mark_slot(slot, lane->stream, &slot->start_ns, &slot->start) == LEAT_OK)
        return slot;
    put(slot);
    return NULL;
}

bool leati_time_slot_end(struct leati_time_slot *slot, const struct leati_traced_stream *lane)
{
    slot->unended = mark_slot(slot, lane->stream, &slot->end_ns, &slot->end) != LEAT_OK;
    return !slot->unended;
}

/* ---- captures ---- */

void leati_device_times_enter(struct leati_device_times *times)
{
    struct leati_driver *driver = times->driver;

    times->mode_before = LEATI_CAPTURE_RELAXED;
    times->has_entered = !is_ending && driver->ops->capture_mode &&
                         LEATI_QUIETLY(driver->ops->capture_mode(driver, &times->mode_before)) == LEAT_OK;
}

void leati_device_times_leave(struct leati_device_times *times)
{
    struct leati_driver *driver = times->driver;

    if (times->has_entered)
        (void)LEATI_QUIETLY(driver->ops->capture_mode(driver, &times->mode_before));
    times->has_entered = false;
}

/* ---- the clock ---- */

/* Creates the stream and the events of the clock, what is missing of them. */
static leat_status make_clock(struct leati_device_times *times)
{
    struct leati_driver *driver = times->driver;

    if (!times->stream)
        LEATI_TRY(driver->ops->stream_create(driver, times->device, &times->stream));
    for (unsigned i = 0; i < BASES; i++)
        if (!times->bases[i])
            LEATI_TRY(driver->ops->event_create(driver, times->device, &times->bases[i]));
    return LEAT_OK;
}

/* Records the event on the idle stream. *after_ns - *before_ns is how exactly its time on the host is known. */
static leat_status measure_round(const struct leati_device_times *times, void *event, uint64_t *before_ns,
                                 uint64_t *after_ns)
{
    struct leati_driver *driver = times->driver;
    leat_status status;

    *before_ns = leati_clock_ns();
    LEATI_TRY(driver->ops->event_record(driver, event, times->stream));
    do {
        status = driver->ops->event_query(driver, event);
        *after_ns = leati_clock_ns();
        if (status == LEAT_NOT_READY && *after_ns - *before_ns > ROUND_SPIN_NS)
            sched_yield();
    } while (status == LEAT_NOT_READY && *after_ns - *before_ns < ROUND_MOST_NS);
    return status;
}

/* Measures a new base, which becomes bases[1]. */
static leat_status measure(struct leati_device_times *times, uint64_t *ns, uint64_t *uncertainty_ns)
{
    uint64_t best = UINT64_MAX, before, after;

    LEATI_TRY(make_clock(times));
    for (unsigned i = 0; i < (times->measured_ns ? ROUNDS : ROUNDS_FIRST); i++) {
        LEATI_TRY(measure_round(times, times->bases[2], &before, &after));
        if (after - before < best) {
            void *other = times->bases[1];

            times->bases[1] = times->bases[2];
            times->bases[2] = other;
            best = after - before;
            *ns = before + best / 2;
        }
    }
    *uncertainty_ns = best / 2 + 1;
    return LEAT_OK;
}

/* Follows the device's clock from the old base to the new one, and corrects it only as far as the measurement says
 * that it is certainly wrong, so that times do not jump back and forth by its uncertainty. */
static leat_status follow(struct leati_device_times *times, uint64_t measured, uint64_t uncertainty, int64_t *step)
{
    struct leati_driver *driver = times->driver;
    double milliseconds;
    int64_t off;

    LEATI_TRY(driver->ops->event_elapsed(driver, times->bases[0], times->bases[1], &milliseconds));
    times->base_ns += (uint64_t)(int64_t)(milliseconds * 1e6);
    off = (int64_t)(measured - times->base_ns);
    *step = off > (int64_t)uncertainty    ? off - (int64_t)uncertainty
            : off < -(int64_t)uncertainty ? off + (int64_t)uncertainty
                                          : 0;
    times->base_ns += (uint64_t)*step;
    return LEAT_OK;
}

static leat_status measure_clock(struct leati_device_times *times, struct leati_trace_clock *clock)
{
    uint64_t ns = 0, uncertainty = 0;
    void *old;

    LEATI_TRY(measure(times, &ns, &uncertainty));
    *clock = (struct leati_trace_clock){.host_ns = ns, .uncertainty_ns = uncertainty};
    if (times->measured_ns)
        LEATI_TRY(follow(times, ns, uncertainty, &clock->step_ns));
    else
        times->base_ns = ns;
    old = times->bases[0];
    times->bases[0] = times->bases[1];
    times->bases[1] = old;
    times->measured_ns = ns;
    return LEAT_OK;
}

static leat_status refresh_clock(struct leati_device_times *times, uint64_t now)
{
    if (!times->driver->ops->stream_stamp)
        return LEATI_QUIETLY(measure_clock(times, &times->latest));
    times->latest = (struct leati_trace_clock){.exact = 1, .host_ns = now};
    times->measured_ns = now;
    return LEAT_OK;
}

bool leati_device_times_clock(struct leati_device_times *times, bool first, struct leati_trace_clock *clock)
{
    bool exact = times->driver->ops->stream_stamp && times->measured_ns;
    uint64_t now = leati_clock_ns();
    leat_status status = LEATI_DECLINED;

    if (!times->refused && !is_ending && !exact && (!times->measured_ns || now - times->measured_ns >= CLOCK_NS)) {
        status = refresh_clock(times, now);
        /* If the stream did not get its turn, a later look tries again. An older base remains usable meanwhile. */
        times->refused = status < LEAT_OK && !times->measured_ns;
    }
    *clock = times->latest;
    return status == LEAT_OK || (first && times->measured_ns);
}

void leati_device_times_end(void)
{
    is_ending = true;
}

struct leati_device_times *leati_time_slot_times(struct leati_time_slot *slot)
{
    return slot->times;
}

const struct leati_traced_device *leati_device_times_device(const struct leati_device_times *times)
{
    return times->traced;
}

bool leati_device_times_cost(struct leati_device_times *times, struct leati_trace_cost *cost)
{
    *cost = (struct leati_trace_cost){
        .samples = atomic_load_explicit(&times->cost_samples, memory_order_relaxed),
        .host_ns = atomic_load_explicit(&times->cost_ns, memory_order_relaxed),
    };
    /* Another thread may have counted a slot whose marks it has not timed yet. */
    return cost->samples > 0 && cost->host_ns > 0;
}

/* ---- getting times ---- */

static bool get_elapsed(const struct leati_device_times *times, void *event, uint64_t *ns)
{
    struct leati_driver *driver = times->driver;
    double milliseconds;

    if (LEATI_QUIETLY(driver->ops->event_elapsed(driver, times->bases[0], event, &milliseconds)) != LEAT_OK)
        return false;
    /* Negative if the event was reached before the base. */
    *ns = times->base_ns + (uint64_t)(int64_t)(milliseconds * 1e6);
    return true;
}

static enum leati_times_state get_events(const struct leati_time_slot *slot, struct leati_trace_times *found)
{
    const struct leati_device_times *times = slot->times;
    leat_status status;

    if (slot->unended || times->refused || is_ending)
        return LEATI_TIMES_LOST;
    status = LEATI_QUIETLY(times->driver->ops->event_query(times->driver, slot->end));
    if (status == LEAT_NOT_READY || (status == LEAT_OK && !times->measured_ns))
        return LEATI_TIMES_LATER;
    if (status != LEAT_OK || !get_elapsed(times, slot->start, &found->device_start_ns) ||
        !get_elapsed(times, slot->end, &found->device_end_ns))
        return LEATI_TIMES_LOST;
    return LEATI_TIMES_KNOWN;
}

static enum leati_times_state get_stamps(const struct leati_time_slot *slot, struct leati_trace_times *found)
{
    /* Relaxed: the numbers are all that the other thread wrote. */
    found->device_start_ns = atomic_load_explicit(&slot->start_ns, memory_order_relaxed);
    found->device_end_ns = atomic_load_explicit(&slot->end_ns, memory_order_relaxed);
    if (!found->device_start_ns)
        return LEATI_TIMES_LATER;
    if (slot->unended)
        return LEATI_TIMES_LOST;
    return found->device_end_ns ? LEATI_TIMES_KNOWN : LEATI_TIMES_LATER;
}

enum leati_times_state leati_time_slot_get(struct leati_time_slot *slot, struct leati_trace_times *found)
{
    bool stamps = slot->times->driver->ops->stream_stamp;
    enum leati_times_state state = stamps ? get_stamps(slot, found) : get_events(slot, found);

    if (state == LEATI_TIMES_LATER)
        return state;
    /* A driver that gives impossible times, such as the fault driver, must not spoil the trace. */
    if (state == LEATI_TIMES_KNOWN &&
        (found->device_start_ns > found->device_end_ns || found->device_end_ns > leati_clock_ns() + FUTURE_NS))
        state = LEATI_TIMES_LOST;
    if (state == LEATI_TIMES_LOST)
        found->device_start_ns = found->device_end_ns = 0;
    put(slot);
    return state;
}

void leati_time_slot_keep(struct leati_time_slot *slot, const struct leati_kept *kept)
{
    struct leati_device_times *times = slot->times;

    slot->kept = *kept;
    slot->next = NULL;
    *times->last = slot;
    times->last = &slot->next;
}

void leati_device_times_look(struct leati_device_times *times, bool last, leati_times_found found,
                             leati_times_waits waits)
{
    struct leati_time_slot **place = &times->first;
    uint32_t busy[LANES_SEEN] = {0};

    while (*place) {
        struct leati_time_slot *slot = *place;
        uint32_t lane = slot->kept.lane;
        struct leati_trace_times known = {.id = slot->kept.id};
        enum leati_times_state state = LEATI_TIMES_LATER;

        /* Later work of a stream that is busy need not be asked for. */
        if (busy[lane % LANES_SEEN] != lane || last)
            state = leati_time_slot_get(slot, &known);
        if (state == LEATI_TIMES_LATER && !last) {
            busy[lane % LANES_SEEN] = lane;
            waits(&slot->kept);
            place = &slot->next;
            continue;
        }
        *place = slot->next;
        found(&known, &slot->kept);
    }
    times->last = place;
}

void leati_device_times_close(struct leati_device_times *times)
{
    struct leati_driver *driver = times->driver;
    uint32_t used = atomic_load_explicit(&times->used, memory_order_acquire);

    for (uint32_t i = 0; i < used; i++) {
        if (times->slots[i].start)
            (void)LEATI_QUIETLY(driver->ops->event_destroy(driver, times->slots[i].start));
        if (times->slots[i].end)
            (void)LEATI_QUIETLY(driver->ops->event_destroy(driver, times->slots[i].end));
    }
    for (unsigned i = 0; i < BASES; i++)
        if (times->bases[i])
            (void)LEATI_QUIETLY(driver->ops->event_destroy(driver, times->bases[i]));
    if (times->stream)
        (void)LEATI_QUIETLY(driver->ops->stream_destroy(driver, times->stream));
}

void leati_device_times_free(struct leati_device_times *times)
{
    free(times);
}
