/*
 * ordering_clocks.c - implements the model of ordering.c: gates that hold up streams, vector clocks, checks of
 * results, waits of the host, and the events and waits that order a step after earlier accesses.
 */
#include "ordering_graph.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

atomic_ullong progress;
const struct partners none = {0, false};

size_t cell_bytes(void)
{
    return g.words * 8;
}

size_t cell_rows(void)
{
    return g.rows;
}

size_t row_bytes(void)
{
    return g.words * 8 / g.rows;
}

/* Returns whether the copy kind names the cell as device memory. For pinned and managed memory both are valid, so
 * the choice is random. */
static bool counts_as_device(const struct cell *cell)
{
    return IN(cell->sort) & ON_DEVICE || (IN(cell->sort) & (IN(PINNED) | IN(MANAGED)) && chance(50));
}

int kind_of_copy(const struct cell *dst, const struct cell *src)
{
    return chance(30) ? 4 : counts_as_device(dst) + 2 * counts_as_device(src);
}

static void rest_us(long us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000};

    while (nanosleep(&time, &time))
        continue;
}

/* ---- gates ------------------------------------------------------------------------------------ */

void wait_at_gate(void *argument)
{
    struct gate *gate = argument;

    for (int i = 0; i < 24000 && !atomic_load(&gate->open); i++)
        rest_us(20 + i / 10);
}

/* The gates that the thread open_gates() has to open, and the delay before it opens them. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t given;
    struct gate *gates[HELD_MAX];
    int count;
    long delay_us;
} opener = {.lock = PTHREAD_MUTEX_INITIALIZER, .given = PTHREAD_COND_INITIALIZER};

void *open_gates(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&opener.lock);
    for (;;) {
        long delay_us;

        while (!opener.count)
            pthread_cond_wait(&opener.given, &opener.lock);
        delay_us = opener.delay_us;
        pthread_mutex_unlock(&opener.lock);
        rest_us(delay_us);
        pthread_mutex_lock(&opener.lock);
        while (opener.count)
            atomic_store(&opener.gates[--opener.count]->open, 1);
    }
    return NULL;
}

static bool covers(const struct clock *clock, struct moment moment)
{
    return clock->at[moment.agent] >= moment.tick;
}

void let_pass(const struct clock *clock)
{
    bool any = false;

    pthread_mutex_lock(&opener.lock);
    for (int i = 0; i < g.gate_count; i++) {
        struct gate *gate = &g.gates[i];

        if (!gate->held || !covers(clock, gate->moment))
            continue;
        gate->held = false;
        g.held_count--;
        any = true;
        if (opener.count < HELD_MAX)
            opener.gates[opener.count++] = gate;
        else
            atomic_store(&gate->open, 1);
    }
    if (any) {
        opener.delay_us = 100 + pick(400);
        pthread_cond_signal(&opener.given);
    }
    pthread_mutex_unlock(&opener.lock);
}

void *watch(void *main_thread)
{
    unsigned long long seen = 0;

    model_self = main_thread;
    for (int idle = 0;; idle++) {
        unsigned long long now = atomic_load(&progress);

        if (now != seen)
            idle = 0;
        seen = now;
        if (idle > PATIENCE_SECONDS * 10)
            give_up("the step hangs: a call waits for what it need not come after, or for ever");
        rest_us(100000);
    }
    return NULL;
}

/* ---- clocks ----------------------------------------------------------------------------------- */

void join(struct clock *into, const struct clock *from)
{
    for (int i = 0; i < AGENTS_MAX; i++)
        if (from->at[i] > into->at[i])
            into->at[i] = from->at[i];
}

static int index_of(const struct stream *s)
{
    return (int)(s - g.streams);
}

bool is_legacy(const struct stream *s)
{
    return index_of(s) < MINE;
}

static bool is_default(const struct stream *s)
{
    return index_of(s) < OTHERS;
}

/* Joins the clocks of the device's blocking or non-blocking streams, including streams that were destroyed. */
static void join_streams(struct clock *into, int device, bool blocking)
{
    join(into, &g.ended[device][blocking]);
    for (int i = 0; i < STREAMS_MAX; i++)
        if (g.streams[i].there && g.streams[i].device == device && g.streams[i].blocking == blocking)
            join(into, &g.streams[i].clock);
}

struct clock coming(const struct stream *s, struct partners with)
{
    struct clock clock = s->clock;

    join(&clock, &g.host);
    if (is_legacy(s))
        join_streams(&clock, s->device, true);
    else
        join(&clock, s->blocking ? &g.streams[LEGACY + s->device].clock : &g.fence[s->device]);
    for (int device = 0; device < DEVICES; device++) {
        if (!(with.devices & 1u << device))
            continue;
        join(&clock, &g.streams[LEGACY + device].clock);
        join_streams(&clock, device, true);
        if (with.all)
            join_streams(&clock, device, false);
    }
    return clock;
}

struct moment advance(struct stream *s, struct partners with)
{
    s->clock = coming(s, with);
    s->clock.at[s->agent]++;
    for (int device = 0; device < DEVICES; device++) {
        if (with.devices & 1u << device)
            join(&g.streams[LEGACY + device].clock, &s->clock);
        if (with.devices & 1u << device && with.all)
            join(&g.fence[device], &s->clock);
    }
    return (struct moment){s->agent, s->clock.at[s->agent]};
}

struct moment host_now(void)
{
    return (struct moment){HOST, ++g.host.at[HOST]};
}

/* ---- looking at results ----------------------------------------------------------------------- */

void look(const uint64_t *words, uint64_t expected, int step)
{
    size_t i = 0;

    while (i < g.words && words[i] == expected)
        i++;
    g.checked++;
    if (i < g.words)
        give_up("the read of step %d saw 0x%016llx in word %zu of %zu; what comes before it allows 0x%016llx only",
                step, (unsigned long long)words[i], i, g.words, (unsigned long long)expected);
}

void look_at_results(const struct clock *clock)
{
    for (int i = 0; i < RESULTS_MAX; i++) {
        struct result *result = &g.results[i];

        if (result->used && covers(clock, result->done)) {
            result->used = false;
            look(result->cell.ptr, result->expected, result->step);
        }
    }
}

void host_joins(const struct clock *clock)
{
    join(&g.host, clock);
    look_at_results(&g.host);
}

/* ---- streams and devices ---------------------------------------------------------------------- */

void set_device(int device)
{
    if (device != g.current)
        note("device %d is current", device);
    g.current = device;
    CALL(g.names->set_device(device));
}

void *handle_of(const struct stream *s)
{
    if (!is_default(s))
        return s->handle;
    if (s->device != g.current)
        set_device(s->device);
    return is_legacy(s) ? (void *)(uintptr_t)pick(2) : (void *)2;
}

const char *stream_name(const struct stream *s)
{
    static char names[4][32];
    static int next;
    char *name = names[next++ % 4];

    if (is_default(s))
        snprintf(name, sizeof names[0], "the %s stream of device %d", is_legacy(s) ? "legacy" : "thread's",
                 s->device);
    else
        snprintf(name, sizeof names[0], "stream %d", index_of(s));
    return name;
}

void open_stream(struct stream *s, int device, bool blocking)
{
    memset(s, 0, sizeof *s);
    s->device = device;
    s->blocking = blocking;
    s->agent = g.agents++;
    s->there = true;
    if (is_default(s))
        return;
    set_device(device);
    CALL(g.names->stream_create(&s->handle, blocking));
    note("%s is a new %s one of device %d", stream_name(s), blocking ? "blocking" : "non-blocking", device);
}

struct stream *any_stream(void)
{
    struct stream *s;

    do
        s = &g.streams[chance(35) ? pick(OTHERS) : OTHERS + pick(STREAMS_MAX - OTHERS)];
    while (!s->there);
    return s;
}

void synchronize_stream(struct stream *s)
{
    struct clock clock = is_legacy(s) ? coming(s, none) : s->clock;

    note("synchronize %s", stream_name(s));
    let_pass(&clock);
    CALL(g.names->stream_synchronize(handle_of(s)));
    host_joins(&clock);
}

void synchronize_event(struct event *e)
{
    note("synchronize event %d", (int)(e - g.events));
    if (e->recorded)
        let_pass(&e->clock);
    CALL(g.names->event_synchronize(e->handle));
    if (e->recorded)
        host_joins(&e->clock);
}

void synchronize_device(int device)
{
    struct clock clock = g.streams[LEGACY + device].clock, most;

    join_streams(&clock, device, true);
    join_streams(&clock, device, false);
    set_device(device);
    note("synchronize device %d", device);
    /* The call may also wait for work of other devices that uses this device's memory, so open the gates in front
     * of that work too. */
    most = clock;
    join(&most, &g.foreign[device]);
    let_pass(&most);
    CALL(g.names->device_synchronize());
    host_joins(&clock);
}

void ask(void)
{
    struct stream *s = any_stream();
    struct event *e = &g.events[pick(EVENTS)];
    bool of_stream = chance(60);
    int answer;

    note(of_stream ? "query %s" : "query an event", stream_name(s));
    answer = of_stream ? g.names->stream_query(handle_of(s)) : g.names->event_query(e->handle);
    if (answer && answer != g.names->not_ready)
        give_up("the query gave %d", answer);
    if (answer)
        return;
    if (of_stream)
        look_at_results(&s->clock);
    else if (e->recorded)
        look_at_results(&e->clock);
}

/* ---- events, and making order ----------------------------------------------------------------- */

void record(struct event *e, struct stream *s)
{
    note("record event %d on %s", (int)(e - g.events), stream_name(s));
    CALL(g.names->event_record(e->handle, handle_of(s)));
    (void)advance(s, none);
    e->recorded = true;
    e->clock = s->clock;
}

void wait_for(struct stream *s, struct event *e)
{
    note("%s waits for event %d", stream_name(s), (int)(e - g.events));
    CALL(g.names->stream_wait(handle_of(s), e->handle));
    (void)advance(s, none);
    if (e->recorded)
        join(&s->clock, &e->clock);
}

struct event *event_of_device(int device)
{
    return &g.events[device + DEVICES * pick(EVENTS / DEVICES)];
}

static struct event *covering_event(struct moment moment)
{
    int first = pick(EVENTS);

    for (int i = 0; i < EVENTS; i++) {
        struct event *e = &g.events[(first + i) % EVENTS];

        if (e->recorded && covers(&e->clock, moment))
            return e;
    }
    return NULL;
}

/* Returns an existing stream whose submitted work includes the moment, or NULL. */
static struct stream *covering_stream(struct moment moment)
{
    for (int i = 0; i < STREAMS_MAX; i++)
        if (g.streams[i].there && covers(&g.streams[i].clock, moment))
            return &g.streams[i];
    return NULL;
}

static void host_after(struct moment moment)
{
    struct event *e = covering_event(moment);
    struct stream *from = covering_stream(moment);

    if (covers(&g.host, moment))
        return;
    if (e && chance(40))
        synchronize_event(e);
    else if (from && chance(80))
        synchronize_stream(from);
    for (int device = 0; device < DEVICES && !covers(&g.host, moment); device++)
        synchronize_device(device);
    if (!covers(&g.host, moment))
        give_up("the model itself is wrong: no order made for agent %d", moment.agent);
}

/* Makes the next work of s come after moment. If it does not come after it already, adds a wait for an event, or a
 * wait of the host. */
static void work_after(struct stream *s, struct partners with, struct moment moment)
{
    struct clock clock = coming(s, with);
    struct event *e = covering_event(moment);
    struct stream *from = covering_stream(moment);

    if (covers(&clock, moment))
        return;
    if (e && chance(60)) {
        wait_for(s, e);
    } else if (from && chance(90)) {
        e = event_of_device(from->device);
        record(e, from);
        wait_for(s, e);
    } else {
        host_after(moment);
    }
    clock = coming(s, with);
    if (!covers(&clock, moment))
        give_up("the model itself is wrong: no order made for agent %d", moment.agent);
}

void work_may(struct stream *s, struct partners with, struct use *c, bool write)
{
    work_after(s, with, c->write);
    for (int agent = 0; write && agent < g.agents; agent++)
        if (c->read_tick[agent])
            work_after(s, with, (struct moment){agent, c->read_tick[agent]});
}

void host_may(struct use *c, bool write)
{
    host_after(c->write);
    for (int agent = 0; write && agent < g.agents; agent++)
        if (c->read_tick[agent])
            host_after((struct moment){agent, c->read_tick[agent]});
}

void was_read(struct use *c, struct moment now)
{
    c->read_tick[now.agent] = now.tick;
}

void was_written(struct use *c, struct moment now, uint64_t value)
{
    c->write = now;
    memset(c->read_tick, 0, sizeof c->read_tick);
    c->value = value;
    g.latest = c;
}
