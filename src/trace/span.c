/* span.c - see span.h and thread_ring.h: what the threads of the program do while a trace is recorded. */
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/quick.h"
#include "trace/lanes.h"
#include "trace/thread_ring.h"
#include "trace/trace_strings.h"

#include <leat/trace.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FOREIGN_THREADS = 1024, ENDED_THREADS = 256 };

_Atomic uint32_t leati_trace_number;
static _Atomic bool wants_times; /* relaxed: a switch; the number above says which trace an operation belongs to */

/* This thread's ring; NULL: none yet. */
static LEATI_QUICK_TLS struct leati_thread_ring *ring;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool have_key;

/* Guards what follows. Held only for some instructions. */
static struct leati_lock lock = LEATI_LOCK_INITIALIZER;
static struct leati_thread_ring *rings LEATI_GUARDED_BY(lock);
static uint32_t last_ring LEATI_GUARDED_BY(lock);
/* Threads of which another recorder has told and that had no ring then. */
static struct {
    uint32_t system_id, id;
} foreign_threads[FOREIGN_THREADS] LEATI_GUARDED_BY(lock);
static unsigned foreign_thread_count LEATI_GUARDED_BY(lock);
/* The latest threads of this trace that have ended, since another recorder may tell of their calls later. An id of
 * 0 is an empty place. */
static struct {
    uint32_t system_id, id;
} ended_threads[ENDED_THREADS] LEATI_GUARDED_BY(lock);
static unsigned ended_thread_count LEATI_GUARDED_BY(lock); /* that were ever added */

/* ---- rings ---- */

static void end_thread(void *ended)
{
    ring = NULL;
    atomic_store_explicit(&((struct leati_thread_ring *)ended)->ended, true, memory_order_release);
    leati_recorder_thread_ends();
}

static void make_key(void)
{
    have_key = pthread_key_create(&key, end_thread) == 0;
}

/* Returns the id that the file has for a thread already, and forgets it; 0: none. *in_trace receives the number
 * of the trace. */
static uint32_t take_foreign_thread(uint32_t system_id, uint32_t *in_trace) LEATI_REQUIRES(lock)
{
    for (unsigned i = 0; i < foreign_thread_count; i++)
        if (foreign_threads[i].system_id == system_id) {
            uint32_t id = foreign_threads[i].id;

            foreign_threads[i] = foreign_threads[--foreign_thread_count];
            *in_trace = atomic_load_explicit(&leati_trace_number, memory_order_relaxed);
            return id;
        }
    return 0;
}

static void remember_ended_thread(const struct leati_thread_ring *over) LEATI_REQUIRES(lock)
{
    unsigned at = ended_thread_count++ % ENDED_THREADS;

    ended_threads[at].system_id = over->system_id;
    ended_threads[at].id = over->id;
}

/* Returns the id of a thread that has ended; 0: it is not known. */
static uint32_t find_ended_thread(uint32_t system_id) LEATI_REQUIRES(lock)
{
    for (unsigned i = 0; i < ENDED_THREADS; i++)
        if (ended_threads[i].id && ended_threads[i].system_id == system_id)
            return ended_threads[i].id;
    return 0;
}

/* The system has given the number of a thread to another one. */
static void forget_ended_thread(uint32_t system_id) LEATI_REQUIRES(lock)
{
    for (unsigned i = 0; i < ENDED_THREADS; i++)
        if (ended_threads[i].system_id == system_id)
            ended_threads[i].id = 0;
}

/* Makes the ring of this thread; NULL if there is no memory, and then the operation is not recorded. */
static struct leati_thread_ring *make_ring(void)
{
    struct leati_thread_ring *made = NULL;

    pthread_once(&once, make_key);
    if (!have_key || posix_memalign((void **)&made, 64, sizeof *made))
        return NULL;
    memset(made, 0, offsetof(struct leati_thread_ring, entries));
    if (pthread_setspecific(key, made)) {
        free(made);
        return NULL;
    }
    made->system_id = (uint32_t)syscall(SYS_gettid);
    (void)pthread_getname_np(pthread_self(), made->name, sizeof made->name);
    leati_lock(&lock);
    forget_ended_thread(made->system_id);
    made->id = take_foreign_thread(made->system_id, &made->defined);
    if (!made->id)
        made->id = ++last_ring;
    made->next = rings;
    rings = made;
    leati_unlock(&lock);
    ring = made;
    return made;
}

static inline struct leati_thread_ring *own_ring(void)
{
    return ring ? ring : make_ring();
}

/* Returns true if the ring has room for count more entries. */
static bool has_room(const struct leati_thread_ring *own, unsigned count)
{
    /* Acquire: the recorder has read the entries before tail, so they may be written again. */
    uint64_t tail = atomic_load_explicit(&own->tail, memory_order_acquire);

    return atomic_load_explicit(&own->head, memory_order_relaxed) - tail + count <= LEATI_RING_ENTRIES;
}

static void count_lost(struct leati_thread_ring *own)
{
    atomic_fetch_add_explicit(&own->lost, 1, memory_order_relaxed);
}

/* Writes an entry, for which there is room. */
static void push(struct leati_thread_ring *own, const struct leati_ring_entry *entry)
{
    uint64_t head = atomic_load_explicit(&own->head, memory_order_relaxed);

    own->entries[head % LEATI_RING_ENTRIES] = *entry;
    atomic_store_explicit(&own->head, head + 1, memory_order_release);
    /* Relaxed: only a hint, since the recorder also looks by itself every few milliseconds. */
    if (head + 1 - atomic_load_explicit(&own->tail, memory_order_relaxed) == LEATI_RING_ENTRIES / 2)
        leati_recorder_wake();
}

/* Sets how long a call took. */
static void set_host_time(struct leati_trace_op *op, uint64_t end_ns)
{
    uint64_t time_ns = end_ns - op->host_start_ns;

    if (time_ns > UINT32_MAX) {
        op->how |= LEATI_TRACE_LONG;
        time_ns = time_ns / 1024 < UINT32_MAX ? time_ns / 1024 : UINT32_MAX;
    }
    op->host_time = (uint32_t)time_ns;
}

struct leati_thread_ring *leati_rings_first(void)
{
    struct leati_thread_ring *first;

    leati_lock(&lock);
    first = rings;
    leati_unlock(&lock);
    return first;
}

struct leati_thread_ring *leati_rings_find(uint32_t system_id)
{
    struct leati_thread_ring *found;

    leati_lock(&lock);
    for (found = rings; found && found->system_id != system_id; found = found->next)
        continue;
    leati_unlock(&lock);
    return found;
}

uint32_t leati_rings_foreign_thread(uint32_t system_id, bool *is_new)
{
    unsigned i;
    uint32_t id = 0;

    leati_lock(&lock);
    for (i = 0; i < foreign_thread_count && foreign_threads[i].system_id != system_id; i++)
        continue;
    if (i == foreign_thread_count)
        id = find_ended_thread(system_id);
    *is_new = !id && i == foreign_thread_count && i < FOREIGN_THREADS;
    if (*is_new) {
        foreign_threads[i].system_id = system_id;
        foreign_threads[i].id = ++last_ring;
        foreign_thread_count++;
    }
    if (!id && i < FOREIGN_THREADS)
        id = foreign_threads[i].id;
    leati_unlock(&lock);
    return id;
}

/* Acquire: pairs with the release in end_thread(), after which the owner does not touch the ring. */
static bool is_over(const struct leati_thread_ring *other)
{
    return atomic_load_explicit(&other->ended, memory_order_acquire) &&
           atomic_load_explicit(&other->head, memory_order_relaxed) ==
               atomic_load_explicit(&other->tail, memory_order_relaxed);
}

uint64_t leati_rings_remove(void)
{
    struct leati_thread_ring **place, *over;
    uint32_t number = atomic_load_explicit(&leati_trace_number, memory_order_relaxed);
    uint64_t lost = 0;

    leati_lock(&lock);
    for (place = &rings; (over = *place);) {
        if (is_over(over)) {
            lost += atomic_load_explicit(&over->lost, memory_order_relaxed) - over->lost_before;
            if (number && over->defined == number)
                remember_ended_thread(over);
            *place = over->next;
            free(over);
        } else {
            place = &over->next;
        }
    }
    leati_unlock(&lock);
    return lost;
}

void leati_rings_trace(uint32_t number, bool device_times)
{
    leati_lock(&lock);
    if (number) {
        foreign_thread_count = 0;
        memset(ended_threads, 0, sizeof ended_threads);
        atomic_store_explicit(&wants_times, device_times, memory_order_relaxed);
    }
    leati_lanes_trace(number);
    atomic_store_explicit(&leati_trace_number, number, memory_order_relaxed);
    leati_unlock(&lock);
}

void leati_rings_fork(void) LEATI_NO_THREAD_SAFETY
{
    struct leati_thread_ring *next;

    leati_lock_init(&lock);
    leati_lanes_fork();
    foreign_thread_count = 0;
    memset(ended_threads, 0, sizeof ended_threads);
    atomic_store_explicit(&leati_trace_number, 0, memory_order_relaxed);
    for (; rings; rings = next) {
        next = rings->next;
        free(rings);
    }
    ring = NULL;
    if (have_key)
        (void)pthread_setspecific(key, NULL);
}

/* ---- spans ---- */

bool leati_span_enter(enum leati_trace_kind kind, const char *call, const void *caller)
{
    struct leati_thread_ring *own = own_ring();

    if (!own)
        return false;
    if (own->depth++)
        return true;
    leati_error_latest = LEAT_OK;
    own->dropped = !has_room(own, 1);
    own->work_lane = NULL;
    own->now = (struct leati_ring_entry){
        .op = {.host_start_ns = leati_clock_ns(), .pieces = 1, .kind = (uint8_t)kind},
        .call = call,
        .caller = caller,
        .trace = atomic_load_explicit(&leati_trace_number, memory_order_relaxed),
    };
    return true;
}

void leati_span_end(void)
{
    struct leati_thread_ring *own = ring;

    leati_assert(own && own->depth);
    if (--own->depth)
        return;
    if (own->dropped) {
        count_lost(own);
        return;
    }
    own->now.op.status = (int8_t)leati_error_latest;
    set_host_time(&own->now.op, leati_clock_ns());
    leati_assert(has_room(own, 1));
    push(own, &own->now);
}

/* Returns the ring of this thread if it is in a span that is recorded, else NULL. outermost: not in an inner call.
 */
static inline struct leati_thread_ring *open_span(bool outermost)
{
    struct leati_thread_ring *own = ring;

    return own && own->depth && !own->dropped && (own->depth == 1 || !outermost) ? own : NULL;
}

void leati_span_stream(struct leati_traced_stream *lane)
{
    struct leati_thread_ring *own = open_span(true);

    if (own)
        own->now.op.lane = leati_trace_lane_id(lane, own->now.trace);
}

void leati_span_bytes(uint64_t bytes, const void *value)
{
    struct leati_thread_ring *own = open_span(true);

    if (!own)
        return;
    own->now.op.bytes = bytes;
    own->now.op.value = (uintptr_t)value;
}

void leati_span_kinds(enum leati_trace_memory source, enum leati_trace_memory destination)
{
    struct leati_thread_ring *own = open_span(true);

    if (own)
        own->now.op.kinds = (uint8_t)((unsigned)source | (unsigned)destination << 4);
}

void leati_span_name(const char *name, _Atomic uint32_t *known)
{
    struct leati_thread_ring *own = open_span(true);
    uint32_t number;

    if (!own)
        return;
    /* Relaxed: the string itself is passed by other means (trace_strings.c). */
    number = atomic_load_explicit(known, memory_order_relaxed);
    if (!number) {
        number = leati_trace_string(name);
        atomic_store_explicit(known, number, memory_order_relaxed);
    }
    own->now.op.name = number;
    own->now.call = NULL;
}

void leati_span_value(uint64_t value)
{
    struct leati_thread_ring *own = open_span(true);

    if (own)
        own->now.op.value = value;
}

void leati_span_pieces(uint32_t pieces)
{
    struct leati_thread_ring *own = open_span(true);

    if (own)
        own->now.op.pieces = pieces;
}

void leati_span_tag(const char *tag)
{
    struct leati_thread_ring *own = open_span(true);

    if (own)
        own->now.op.pieces = tag && *tag ? leati_trace_string(tag) : 0;
}

void leati_span_flag(enum leati_trace_how flag)
{
    struct leati_thread_ring *own = open_span(true);

    if (own)
        own->now.op.how |= (uint8_t)flag;
}

static unsigned join_kinds(unsigned before, enum leati_trace_memory kind)
{
    return before == (unsigned)kind ? before : LEATI_TRACE_MEMORY_MIXED;
}

void leati_span_copy(const struct leati_span_part *part)
{
    struct leati_thread_ring *own = open_span(false);
    struct leati_trace_op *op = own ? &own->now.op : NULL;
    bool first;

    if (!own)
        return;
    first = !op->kinds;
    op->bytes += part->bytes;
    op->value = first ? (uintptr_t)part->source : 0;
    op->pieces = first ? part->pieces : op->pieces + part->pieces;
    if (first) {
        op->kinds = (uint8_t)((unsigned)part->from | (unsigned)part->to << 4);
        op->how |= (uint8_t)part->protocol;
        return;
    }
    op->kinds = (uint8_t)(join_kinds(op->kinds & 15u, part->from) | join_kinds(op->kinds >> 4, part->to) << 4);
    if ((op->how & LEATI_TRACE_PROTOCOL_MASK) != part->protocol)
        op->how &= (uint8_t)~LEATI_TRACE_PROTOCOL_MASK;
}

uint64_t leati_span_id(void)
{
    struct leati_thread_ring *own = open_span(true);

    return own ? leati_trace_op_id(own->id, atomic_load_explicit(&own->head, memory_order_relaxed)) : 0;
}

void leati_span_work_begins(struct leati_traced_stream *lane)
{
    struct leati_thread_ring *own = open_span(false);

    if (!own || own->work_lane || !atomic_load_explicit(&wants_times, memory_order_relaxed))
        return;
    own->work_lane = lane;
    own->now.slot = leati_time_slot_begin(lane);
    if (!own->now.slot)
        own->now.op.how |= LEATI_TRACE_TIMES_LOST;
}

void leati_span_work_ends(struct leati_traced_stream *lane)
{
    struct leati_thread_ring *own = open_span(false);

    if (!own || !own->now.slot || own->work_lane != lane)
        return;
    if (leati_time_slot_end(own->now.slot, lane))
        own->now.op.how &= (uint8_t)~LEATI_TRACE_TIMES_LOST;
    else
        own->now.op.how |= LEATI_TRACE_TIMES_LOST;
}

/* ---- ranges and marks ---- */

/* Writes an operation that is no span: a range that has ended, or a mark. The entry that the open span of this
 * thread needs must remain. */
static void push_apart(struct leati_thread_ring *own, const struct leati_ring_entry *entry)
{
    if (has_room(own, own->depth && !own->dropped ? 2 : 1))
        push(own, entry);
    else
        count_lost(own);
}

static void push_range(const char *name, const void *caller)
{
    struct leati_thread_ring *own = own_ring();

    if (!own)
        return;
    if (own->range_depth < LEATI_RANGE_DEPTH) {
        own->ranges[own->range_depth].name = leati_trace_string(name);
        own->ranges[own->range_depth].trace = atomic_load_explicit(&leati_trace_number, memory_order_relaxed);
        own->ranges[own->range_depth].caller = caller;
        own->ranges[own->range_depth].start_ns = leati_clock_ns();
    }
    own->range_depth++;
}

static void pop_range(void)
{
    struct leati_thread_ring *own = ring;
    struct leati_ring_entry entry;
    unsigned at;

    if (!own || !own->range_depth)
        return;
    at = --own->range_depth;
    if (at >= LEATI_RANGE_DEPTH || !leati_traced())
        return;
    entry = (struct leati_ring_entry){
        .op = {.host_start_ns = own->ranges[at].start_ns,
               .pieces = at + 1,
               .name = own->ranges[at].name,
               .kind = LEATI_TRACE_RANGE},
        .caller = own->ranges[at].caller,
        .trace = own->ranges[at].trace,
    };
    set_host_time(&entry.op, leati_clock_ns());
    push_apart(own, &entry);
}

static void mark(const char *name, uint64_t value, const void *caller)
{
    struct leati_thread_ring *own = own_ring();
    struct leati_ring_entry entry;

    if (!own)
        return;
    entry = (struct leati_ring_entry){
        .op = {.host_start_ns = leati_clock_ns(),
               .value = value,
               .pieces = 1,
               .name = leati_trace_string(name),
               .kind = LEATI_TRACE_MARK},
        .caller = caller,
        .trace = atomic_load_explicit(&leati_trace_number, memory_order_relaxed),
    };
    push_apart(own, &entry);
}

/* ---- the public calls ---- */

void leat_trace_range_push(const char *name)
{
    if (leati_traced())
        push_range(name ? name : "", __builtin_return_address(0));
}

void leat_trace_range_pop(void)
{
    pop_range();
}

void leat_trace_mark(const char *name, uint64_t value)
{
    if (leati_traced())
        mark(name ? name : "", value, __builtin_return_address(0));
}
