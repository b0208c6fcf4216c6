/*
 * recorder.c - see recorder.h: starts and stops traces, and has the thread that takes operations from the rings of
 * the program's threads (thread_ring.h), gets their device times (device_times.h) and writes them
 * (trace_writer.h).
 *
 * The thread exists only during a trace. It looks at the rings every LOOK_NS, and at once if a ring is half full.
 * So a process that is killed loses the operations of its last milliseconds. All memory is of fixed size, but for
 * 0.4 MB for each thread of the program, and 0.4 MB for each device.
 *
 * A child of fork() traces nothing, because the file belongs to its parent, until it starts a trace itself.
 */
#include "trace/recorder.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/options.h"
#include "base/sized.h"
#include "base/thread.h"
#include "trace/foreign.h"
#include "trace/lanes.h"
#include "trace/live.h"
#include "trace/pools.h"
#include "trace/thread_ring.h"
#include "trace/trace_strings.h"
#include "trace/trace_writer.h"

#include <leat/trace.h>

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define VARIABLE "LEAT_TRACE"

enum { LOOK_MS = 10, OPS = 1024, DEVICES = 64, PLACES = 1024, NAMES = 256 };
#define STATE_NS 1000000000u

/* What a trace needs while it is recorded. */
struct session {
    uint32_t number;
    bool by_variable; /* LEAT_TRACE has started it, so that failures are printed */
    bool is_broken;   /* a write has failed, which check_writer() has reported */
    uint64_t strings_lost_before, state_ns;
    uint64_t lost_ended; /* operations lost by rings that were removed */
    struct leati_trace_state state;
    struct leati_trace_op ops[OPS];
    struct leati_trace_times times[OPS];
    uint32_t times_count;
    uint64_t foreign;      /* foreign operations written */
    uint64_t lost_foreign; /* and lost */
    struct leati_defined defined;
    struct leati_live_counters live;
    struct leati_pool_list pools;
    /* Addresses of callers and their strings; a caller's place in the table depends on its address. */
    struct known {
        const void *address;
        uint32_t string;
    } places[PLACES], names[NAMES]; /* the same for the constants that are names of calls */
    struct leati_trace_writer writer;
};

/* Guards the starting and stopping of traces. Taken before lock. */
static struct leati_lock start_lock = LEATI_LOCK_INITIALIZER;
static pthread_t thread LEATI_GUARDED_BY(start_lock);
static bool is_running LEATI_GUARDED_BY(start_lock); /* the thread must be joined */

/* Guards what follows. Held while rings are read, times are got and the file is written. */
static struct leati_lock lock = LEATI_LOCK_INITIALIZER;
static struct session *session LEATI_GUARDED_BY(lock); /* NULL: none; entries of rings are then dropped */
static uint32_t last_number LEATI_GUARDED_BY(lock);
/* The devices whose slots were seen and that are not closed. in: number of the trace whose file has its clock. */
static struct {
    struct leati_device_times *times;
    uint32_t in;
} devices[DEVICES] LEATI_GUARDED_BY(lock);
static unsigned device_count LEATI_GUARDED_BY(lock);

/* Wakes the recorder's thread; -1: there is none. Atomic, because threads of the program use it. Relaxed: a
 * wake-up that is missed, or comes too late, does no harm. It stays open, so that nobody writes to another file.
 */
static _Atomic int wake_fd = -1;
static atomic_bool is_stopping; /* relaxed: the thread is also woken */

/* ---- writing; under the lock ---- */

/* Returns the text for a caller: "program(function+0x12)" or "program(+0x1234)". */
static uint32_t describe_caller(const void *caller)
{
    const char *base, *name;
    char text[512];
    Dl_info info;

    /* A return address may be behind the end of its function. */
    if (!dladdr((const char *)caller - 1, &info) || !info.dli_fname) {
        snprintf(text, sizeof text, "%p", caller);
        return leati_trace_string(text);
    }
    base = strrchr(info.dli_fname, '/');
    name = base ? base + 1 : info.dli_fname;
    if (info.dli_sname)
        snprintf(text, sizeof text, "%s(%s+0x%zx)", name, info.dli_sname,
                 (size_t)((const char *)caller - (const char *)info.dli_saddr));
    else
        snprintf(text, sizeof text, "%s(+0x%zx)", name,
                 (size_t)((const char *)caller - (const char *)info.dli_fbase));
    return leati_trace_string(text);
}

static uint32_t place_of(const void *caller) LEATI_REQUIRES(lock)
{
    struct known *known = &session->places[((uintptr_t)caller ^ (uintptr_t)caller >> 10) % PLACES];

    if (!caller)
        return 0;
    if (known->address != caller)
        *known = (struct known){caller, describe_caller(caller)};
    return known->string;
}

static uint32_t name_of(const char *call) LEATI_REQUIRES(lock)
{
    struct known *known = &session->names[((uintptr_t)call ^ (uintptr_t)call >> 8) % NAMES];

    if (known->address != call)
        *known = (struct known){call, leati_trace_string(call)};
    return known->string;
}

/* Writes streams and devices that are new, and before them all new strings. */
static void write_defined(void) LEATI_REQUIRES(lock)
{
    struct leati_trace_writer *writer = &session->writer;

    leati_lanes_take(&session->defined);
    leati_writer_add_strings(writer);
    leati_writer_add(writer, LEATI_TRACE_CHUNK_DEVICES, session->defined.devices, session->defined.device_count,
                     sizeof session->defined.devices[0], 0, 0);
    leati_writer_add(writer, LEATI_TRACE_CHUNK_LANES, session->defined.lanes, session->defined.lane_count,
                     sizeof session->defined.lanes[0], 0, 0);
    leati_live_define(&session->live, &session->defined);
}

static void write_thread(struct leati_thread_ring *ring) LEATI_REQUIRES(lock)
{
    struct leati_trace_thread thread_record = {.id = ring->id, .system_id = ring->system_id};

    if (ring->name[0])
        thread_record.name = leati_trace_string(ring->name);
    leati_writer_add_strings(&session->writer);
    leati_writer_add(&session->writer, LEATI_TRACE_CHUNK_THREADS, &thread_record, 1, sizeof thread_record, 0, 0);
}

static void write_ops(const struct leati_thread_ring *ring, uint32_t count, uint64_t first) LEATI_REQUIRES(lock)
{
    if (!count)
        return;
    write_defined();
    leati_writer_add(&session->writer, LEATI_TRACE_CHUNK_OPS, session->ops, count, sizeof session->ops[0],
                     ring->id, first);
    leati_live_ops(&session->live, session->ops, count);
    session->state.ops += count;
}

static void write_times(void) LEATI_REQUIRES(lock)
{
    leati_writer_add(&session->writer, LEATI_TRACE_CHUNK_TIMES, session->times, session->times_count,
                     sizeof session->times[0], 0, 0);
    session->times_count = 0;
}

/* Writes the memory of the pools as far as it has changed. */
static void write_pools(uint64_t now_ns) LEATI_REQUIRES(lock)
{
    struct leati_pool_list *pools = &session->pools;

    leati_pools_look(pools, session->live.now.pools, now_ns);
    if (pools->made_count)
        leati_writer_add_strings(&session->writer);
    leati_writer_add(&session->writer, LEATI_TRACE_CHUNK_POOLS, pools->made, pools->made_count,
                     sizeof pools->made[0], 0, 0);
    leati_writer_add(&session->writer, LEATI_TRACE_CHUNK_POOL_MEMORY, pools->changes, pools->change_count,
                     sizeof pools->changes[0], 0, 0);
}

static void write_state(bool ended) LEATI_REQUIRES(lock)
{
    session->state.time_ns = session->state_ns = leati_clock_ns();
    session->state.lost_strings = leati_trace_strings_lost() - session->strings_lost_before;
    session->state.ended = ended;
    leati_writer_add(&session->writer, LEATI_TRACE_CHUNK_STATE, &session->state, 1, sizeof session->state, 0, 0);
}

/* ---- device times; under the lock ---- */

static void see_device(struct leati_device_times *times) LEATI_REQUIRES(lock)
{
    for (unsigned i = 0; i < device_count; i++)
        if (devices[i].times == times)
            return;
    if (device_count == DEVICES)
        return;
    devices[device_count].times = times;
    devices[device_count++].in = 0;
    leati_device_times_enter(times); /* see pass(), which alone reads rings */
}

/* Gets the times of an entry's slot, or keeps the slot until they are known. */
static void get_times(const struct leati_ring_entry *entry, uint64_t id, struct leati_trace_op *op, bool is_mine)
    LEATI_REQUIRES(lock)
{
    struct leati_kept kept = {.id = id,
                              .bytes = entry->op.bytes,
                              .trace = is_mine ? entry->trace : 0,
                              .lane = entry->op.lane,
                              .kind = entry->op.kind,
                              .kinds = entry->op.kinds};
    struct leati_trace_times times = {.id = id};

    see_device(leati_time_slot_times(entry->slot));
    switch (leati_time_slot_get(entry->slot, &times)) {
    case LEATI_TIMES_LATER:
        leati_time_slot_keep(entry->slot, &kept);
        break;
    case LEATI_TIMES_LOST:
        op->how |= LEATI_TRACE_TIMES_LOST;
        break;
    case LEATI_TIMES_KNOWN:
        op->device_start_ns = times.device_start_ns;
        op->device_end_ns = times.device_end_ns;
        break;
    }
}

/* See leati_times_found. */
static void found_later(const struct leati_trace_times *times, const struct leati_kept *kept) LEATI_REQUIRES(lock)
{
    if (!session || kept->trace != session->number)
        return;
    if (!times->device_end_ns) {
        session->state.lost_times++;
        return;
    }
    leati_live_times(&session->live, kept, times->device_end_ns - times->device_start_ns);
    session->times[session->times_count++] = *times;
    if (session->times_count == OPS)
        write_times();
}

/* Writes what marks of this device cost so far. */
static void write_cost(unsigned at) LEATI_REQUIRES(lock)
{
    struct leati_device_times *times = devices[at].times;
    struct leati_trace_cost cost;

    if (devices[at].in != session->number || !leati_device_times_cost(times, &cost))
        return;
    /* Relaxed: the id was passed with the operations. */
    cost.device = (uint32_t)atomic_load_explicit(&leati_device_times_device(times)->known, memory_order_relaxed);
    leati_writer_add(&session->writer, LEATI_TRACE_CHUNK_COSTS, &cost, 1, sizeof cost, 0, 0);
}

/* See leati_times_waits. */
static void waits_still(const struct leati_kept *kept) LEATI_REQUIRES(lock)
{
    if (session && kept->trace == session->number)
        leati_live_in_flight(&session->live, kept);
}

static void look_at_device(unsigned at, bool last) LEATI_REQUIRES(lock)
{
    struct leati_device_times *times = devices[at].times;
    struct leati_trace_clock clock;
    uint64_t known;

    if (session && leati_device_times_clock(times, devices[at].in != session->number, &clock)) {
        /* Relaxed: the id was passed with the operations. */
        known = atomic_load_explicit(&leati_device_times_device(times)->known, memory_order_relaxed);
        if (known >> 32 == session->number) {
            clock.device = (uint32_t)known;
            devices[at].in = session->number;
            write_defined();
            leati_writer_add(&session->writer, LEATI_TRACE_CHUNK_CLOCKS, &clock, 1, sizeof clock, 0, 0);
        }
    }
    leati_device_times_look(times, last, found_later, waits_still);
}

static void write_costs_and_state(bool ended) LEATI_REQUIRES(lock)
{
    for (unsigned i = 0; i < device_count; i++)
        write_cost(i);
    write_state(ended);
}

/* ---- reading rings; under the lock ---- */

/* Makes the operation of an entry. Returns false if it is of another trace. */
static bool read_entry(const struct leati_ring_entry *entry, uint64_t id, struct leati_trace_op *op)
    LEATI_REQUIRES(lock)
{
    bool is_mine = session && entry->trace == session->number;

    *op = entry->op;
    if (entry->slot)
        get_times(entry, id, op, is_mine);
    if (!is_mine)
        return false;
    if (op->how & LEATI_TRACE_TIMES_LOST)
        session->state.lost_times++;
    if (entry->call)
        op->name = name_of(entry->call);
    op->place = place_of(entry->caller);
    return true;
}

/* Reads entries from tail on, up to head, and writes their operations. Returns the new tail: it stops at an entry
 * of another trace, so that the operations of a chunk have consecutive numbers. */
static uint64_t read_some(struct leati_thread_ring *ring, uint64_t tail, uint64_t head) LEATI_REQUIRES(lock)
{
    uint64_t first = tail;
    struct leati_trace_op op;
    uint32_t count = 0;

    while (tail < head && count < OPS) {
        if (!read_entry(&ring->entries[tail % LEATI_RING_ENTRIES], leati_trace_op_id(ring->id, tail), &op)) {
            tail++;
            break;
        }
        session->ops[count++] = op;
        tail++;
    }
    write_ops(ring, count, first);
    return tail;
}

static void read_ring(struct leati_thread_ring *ring) LEATI_REQUIRES(lock)
{
    /* Acquire: pairs with the release in push() of span.c. Relaxed: only this function changes tail. */
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

    if (head == tail)
        return;
    if (session && ring->defined != session->number) {
        write_thread(ring);
        ring->defined = session->number;
    }
    while (tail < head) {
        tail = read_some(ring, tail, head);
        atomic_store_explicit(&ring->tail, tail, memory_order_release);
    }
}

/* Returns the operations that rings have lost since the trace began. */
static uint64_t count_lost(void) LEATI_REQUIRES(lock)
{
    uint64_t lost = 0;

    for (struct leati_thread_ring *ring = leati_rings_first(); ring; ring = ring->next)
        lost += atomic_load_explicit(&ring->lost, memory_order_relaxed) - ring->lost_before;
    return lost;
}

/* If the file cannot be written any more, ends the recording: leat_trace_stop() reports it, or, for LEAT_TRACE,
 * one line on standard error. */
static void check_writer(void) LEATI_REQUIRES(lock)
{
    const struct leati_trace_writer *writer = &session->writer;

    if (!writer->error || session->is_broken)
        return;
    session->is_broken = true;
    leati_rings_trace(0, false);
    if (session->by_variable)
        fprintf(stderr, "leat: " VARIABLE ": %s cannot be written: %s; it ends after %lld bytes\n", writer->path,
                strerror(writer->error), (long long)writer->written_bytes);
}

/* Shows viewers the counters. */
static void publish(uint64_t now_ns) LEATI_REQUIRES(lock)
{
    session->live.now.lost_ops = session->state.lost_ops;
    session->live.now.lost_times = session->state.lost_times;
    session->live.now.file_bytes = (uint64_t)session->writer.written_bytes;
    leati_live_publish(&session->live, now_ns);
}

/* Takes all that is there and writes it. */
static void pass(void) LEATI_REQUIRES(lock)
{
    uint64_t lost, now_ns;

    leati_assert_locked(&lock);
    for (unsigned i = 0; i < device_count; i++)
        leati_device_times_enter(devices[i].times);
    if (session)
        leati_live_in_flight_begin(&session->live);
    for (struct leati_thread_ring *ring = leati_rings_first(); ring; ring = ring->next)
        read_ring(ring);
    for (unsigned i = 0; i < device_count; i++)
        look_at_device(i, false);
    for (unsigned i = device_count; i--;)
        leati_device_times_leave(devices[i].times);
    lost = leati_rings_remove();
    if (!session)
        return;
    write_times();
    session->lost_ended += lost;
    session->state.lost_ops = session->lost_ended + session->lost_foreign + count_lost();
    now_ns = leati_clock_ns();
    if (now_ns - session->pools.time_ns >= LEATI_LIVE_NS)
        write_pools(now_ns);
    if (now_ns - session->state_ns > STATE_NS)
        write_costs_and_state(false);
    leati_writer_flush(&session->writer);
    check_writer();
    if (leati_live_is_due(&session->live, now_ns))
        publish(now_ns);
}

/* ---- foreign operations ---- */

/* Returns the id of a thread, which the file then has. */
static uint32_t foreign_thread(uint32_t system_id) LEATI_REQUIRES(lock)
{
    struct leati_trace_thread record = {.system_id = system_id};
    struct leati_thread_ring *ring = leati_rings_find(system_id);
    bool is_new = false;

    if (ring) {
        if (ring->defined != session->number)
            write_thread(ring);
        ring->defined = session->number;
        return ring->id;
    }
    record.id = leati_rings_foreign_thread(system_id, &is_new);
    if (is_new)
        leati_writer_add(&session->writer, LEATI_TRACE_CHUNK_THREADS, &record, 1, sizeof record, 0, 0);
    return record.id;
}

/* Adds operations of one thread, at most OPS of them. */
static void add_foreign(const char *driver, const struct leati_foreign_op *list, uint32_t count)
    LEATI_REQUIRES(lock)
{
    uint32_t thread_id = list->system_thread ? foreign_thread(list->system_thread) : 0;

    for (uint32_t i = 0; i < count; i++) {
        struct leati_trace_op *op = &session->ops[i];

        *op = list[i].op;
        op->how |= LEATI_TRACE_FOREIGN;
        op->name = list[i].name ? leati_trace_string(list[i].name) : 0;
        if (list[i].device >= 0)
            op->lane = leati_trace_lane_id_foreign(driver, list[i].device, list[i].stream, session->number);
        if (op->how & LEATI_TRACE_TIMES_LOST)
            session->state.lost_times++;
    }
    write_defined();
    leati_writer_add(&session->writer, LEATI_TRACE_CHUNK_OPS, session->ops, count, sizeof session->ops[0],
                     thread_id, LEATI_TRACE_FOREIGN_NUMBER | session->foreign);
    session->foreign += count;
    session->state.ops += count;
}

bool leati_foreign_is_traced(void)
{
    return leati_traced();
}

void leati_foreign_add(const char *driver, const struct leati_foreign_op *list, uint32_t count, uint64_t lost)
{
    leati_lock(&lock);
    if (session && !session->is_broken) {
        for (uint32_t at = 0, length; at < count; at += length) {
            for (length = 1; at + length < count && length < OPS; length++)
                if (list[at + length].system_thread != list[at].system_thread)
                    break;
            add_foreign(driver, list + at, length);
        }
        session->lost_foreign += lost;
        session->state.lost_ops += lost;
        leati_writer_flush(&session->writer);
        check_writer();
    }
    leati_unlock(&lock);
}

void leati_foreign_source(enum leati_trace_source_by by, const char *detail)
{
    struct leati_trace_source source = {.by = by, .detail = leati_trace_string(detail)};

    leati_lock(&lock);
    if (session) {
        leati_writer_add_strings(&session->writer);
        leati_writer_add(&session->writer, LEATI_TRACE_CHUNK_SOURCE, &source, 1, sizeof source, 0, 0);
        leati_writer_flush(&session->writer);
        check_writer();
    }
    leati_unlock(&lock);
}

/* ---- the thread ---- */

void leati_recorder_wake(void)
{
    int fd = atomic_load_explicit(&wake_fd, memory_order_relaxed);
    uint64_t one = 1;

    if (fd >= 0)
        (void)!write(fd, &one, sizeof one);
}

void leati_recorder_thread_ends(void)
{
    leati_lock(&lock);
    if (!session)
        (void)leati_rings_remove();
    leati_unlock(&lock);
}

static void *run(void *unused)
{
    struct pollfd wake = {.fd = atomic_load_explicit(&wake_fd, memory_order_relaxed), .events = POLLIN};
    uint64_t count;
    bool last;

    (void)unused;
    pthread_setname_np(pthread_self(), "leat-trace");
    do {
        if (poll(&wake, 1, LOOK_MS) > 0)
            (void)!read(wake.fd, &count, sizeof count);
        last = atomic_load_explicit(&is_stopping, memory_order_relaxed);
        leati_lock(&lock);
        pass();
        leati_unlock(&lock);
    } while (!last);
    return NULL;
}

/* ---- starting and stopping ---- */

/* In a child of fork(), which has only this thread and takes no lock. The parent's memory and file stay as they
 * are. */
static void begin_child(void) LEATI_NO_THREAD_SAFETY
{
    int fd = atomic_load_explicit(&wake_fd, memory_order_relaxed);

    leati_rings_fork();
    leati_trace_strings_fork();
    leati_lock_init(&lock);
    leati_lock_init(&start_lock);
    if (session) {
        leati_writer_close(&session->writer);
        leati_live_close(&session->live);
    }
    free(session);
    if (fd >= 0)
        close(fd);
    atomic_store_explicit(&wake_fd, -1, memory_order_relaxed);
    session = NULL;
    is_running = false;
    device_count = 0;
}

/* The program ends, and drivers still work: gets the device times of all that is complete. */
static void exit_begins(void)
{
    leati_lock(&lock);
    if (session)
        pass();
    leati_unlock(&lock);
}

static void register_once(void)
{
    (void)pthread_atfork(NULL, NULL, begin_child);
    (void)atexit(exit_begins);
}

static leat_status fail_open(const char *what, const char *path, const char *why)
{
    return leati_fail(LEAT_ERROR_FILE, "%s: %s cannot be written: %s", what, path, why);
}

/* Makes the session and opens its file. */
static leat_status open_session(const char *what, const char *path, struct session **made)
{
    struct session *opened = calloc(1, sizeof *opened);
    const char *why;
    int fd;

    if (!opened)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "%s: no memory for the trace", what);
    if (!leati_writer_open(&opened->writer, path, &why)) {
        free(opened);
        return fail_open(what, path, why);
    }
    fd = atomic_load_explicit(&wake_fd, memory_order_relaxed);
    if (fd < 0)
        fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        leati_writer_close(&opened->writer);
        free(opened);
        return leati_fail(LEAT_ERROR_SYSTEM, "%s: eventfd: %s", what, strerror(errno));
    }
    atomic_store_explicit(&wake_fd, fd, memory_order_relaxed);
    *made = opened;
    return LEAT_OK;
}

/* Makes the session the current one. */
static void enter_session(struct session *made, bool device_times)
{
    leati_lock(&lock);
    session = NULL;
    pass(); /* drops what earlier traces have left */
    for (struct leati_thread_ring *ring = leati_rings_first(); ring; ring = ring->next)
        ring->lost_before = atomic_load_explicit(&ring->lost, memory_order_relaxed);
    last_number += last_number == UINT32_MAX ? 2 : 1;
    made->number = last_number;
    made->strings_lost_before = leati_trace_strings_lost();
    session = made;
    (void)leati_trace_string(VARIABLE); /* so that the file has the known strings, even without operations */
    leati_rings_trace(made->number, device_times);
    leati_unlock(&lock);
}

/* Ends the current session and writes the end of its file. All that follows is dropped. */
static struct session *leave_session(void)
{
    struct session *ended;

    leati_lock(&lock);
    ended = session;
    if (ended) {
        write_pools(leati_clock_ns());
        write_costs_and_state(true);
        leati_writer_flush(&ended->writer);
    }
    session = NULL;
    leati_unlock(&lock);
    return ended;
}

static leat_status start(const char *what, const char *path, bool device_times, bool by_variable)
    LEATI_REQUIRES(start_lock)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct session *made = NULL;
    int error;

    if (is_running)
        return leati_fail(LEAT_ERROR_BUSY, "%s: a trace is being recorded already; stop it with leat_trace_stop()",
                          what);
    pthread_once(&once, register_once);
    LEATI_TRY(open_session(what, path, &made));
    made->by_variable = by_variable;
    leati_live_open(&made->live, made->writer.path, !device_times);
    atomic_store_explicit(&is_stopping, false, memory_order_relaxed);
    enter_session(made, device_times);
    error = leati_thread_start(&thread, run, NULL);
    if (!error) {
        is_running = true;
        return LEAT_OK;
    }
    leati_rings_trace(0, false);
    (void)leave_session();
    leati_live_close(&made->live);
    leati_writer_close(&made->writer);
    free(made);
    return leati_fail(LEAT_ERROR_SYSTEM, "%s: pthread_create: %s", what, strerror(error));
}

leat_status leat_trace_start(const char *path, const leat_trace_options *given)
{
    leat_trace_options options = LEAT_TRACE_OPTIONS_INIT;
    leat_status status;

    if (!path || !*path)
        return leati_fail(LEAT_ERROR_INVALID, "leat_trace_start: path is %s", path ? "empty" : "NULL");
    if (given) {
        LEATI_TRY(LEATI_SIZED_CHECK("leat_trace_start", "options", leat_trace_options, given));
        LEATI_SIZED_READ(&options, given);
    }
    if (options.flags & ~(uint32_t)LEAT_TRACE_HOST_ONLY)
        return leati_fail(LEAT_ERROR_INVALID, "leat_trace_start: flags 0x%x; only LEAT_TRACE_HOST_ONLY is defined",
                          options.flags);
    leati_lock(&start_lock);
    status = start("leat_trace_start", path, !(options.flags & LEAT_TRACE_HOST_ONLY), false);
    leati_unlock(&start_lock);
    return status;
}

/* Closes the file and fills *stats. Returns FILE if not all could be written. ended: NULL if the program ends. */
static leat_status finish(struct session *ended, leat_trace_stats *stats)
{
    struct leati_trace_writer *writer;

    memset(stats, 0, sizeof *stats);
    if (!ended)
        return LEAT_OK;
    writer = &ended->writer;
    stats->ops = ended->state.ops;
    stats->lost_ops = ended->state.lost_ops;
    stats->lost_times = ended->state.lost_times;
    stats->file_bytes = (uint64_t)writer->written_bytes;
    leati_live_close(&ended->live);
    leati_writer_close(writer);
    if (!writer->error)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_FILE, "%s cannot be written: %s; the trace ends after %llu bytes", writer->path,
                      strerror(writer->error), (unsigned long long)writer->written_bytes);
}

leat_status leat_trace_stop(leat_trace_stats *stats)
{
    leat_trace_stats filled;
    struct session *ended;
    leat_status status;

    if (stats)
        LEATI_TRY(LEATI_SIZED_CHECK("leat_trace_stop", "stats", leat_trace_stats, stats));
    leati_lock(&start_lock);
    if (!is_running) {
        leati_unlock(&start_lock);
        return leati_fail(LEAT_ERROR_INVALID, "leat_trace_stop: no trace is being recorded");
    }
    leati_rings_trace(0, false);
    atomic_store_explicit(&is_stopping, true, memory_order_relaxed);
    leati_recorder_wake();
    pthread_join(thread, NULL);
    is_running = false;
    ended = leave_session();
    status = finish(ended, &filled);
    free(ended);
    leati_unlock(&start_lock);
    if (status != LEAT_OK)
        return leati_fail_in(status, "leat_trace_stop");
    if (stats)
        LEATI_SIZED_WRITE(stats, &filled);
    return LEAT_OK;
}

void leati_trace_begin(void)
{
    const char *path = leati_option(LEATI_OPTION_TRACE);
    struct leati_hearing hearing;

    if (!path)
        return;
    leati_error_hear_begin(&hearing);
    leati_lock(&start_lock);
    if (start(VARIABLE, path, true, true) != LEAT_OK)
        fprintf(stderr, "leat: %s; nothing is traced\n", leat_last_error());
    leati_unlock(&start_lock);
    leati_error_hear_end(&hearing);
}

/* Runs after the functions that the program gave to atexit(). The thread stays until the process is gone. */
__attribute__((destructor)) static void end_with_program(void)
{
    struct session *ended;
    leat_trace_stats stats;

    leati_lock(&lock);
    leati_device_times_end();
    leati_rings_trace(0, false);
    if (session)
        pass();
    leati_unlock(&lock);
    ended = leave_session();
    (void)LEATI_QUIETLY(finish(ended, &stats));
    free(ended);
}

/* ---- devices ---- */

void leati_trace_device_closes(struct leati_traced_device *device)
{
    struct leati_device_times *times = atomic_load_explicit(&device->times, memory_order_acquire);

    if (!times)
        return;
    leati_lock(&lock);
    pass();
    for (unsigned i = 0; i < device_count; i++)
        if (devices[i].times == times) {
            look_at_device(i, true);
            if (session)
                write_cost(i);
            devices[i--] = devices[--device_count];
        }
    if (session)
        write_times();
    leati_device_times_close(times);
    leati_unlock(&lock);
}

void leati_trace_device_closed(struct leati_traced_device *device)
{
    leati_device_times_free(atomic_exchange_explicit(&device->times, NULL, memory_order_acquire));
}
