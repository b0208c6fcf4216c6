/*
 * ordering.c - random graphs of work by the compatibility libraries on two devices, against a model of what the
 * names promise to run before what. See ordering.h.
 *
 * The model. Host and streams are agents with vector clocks, as in order_model.c: work of a stream moves its clock
 * on, an access at (agent, tick) happened before all that is done under a clock that has reached that tick. Beside
 * events and waits, these rules join clocks:
 *
 * - Work of a legacy default stream comes after that of the device's blocking streams, and theirs after it.
 * - A synchronous copy or set comes after its own stream and, for each other device whose memory it uses, after
 * that device's legacy default stream and blocking streams; what they get later comes after it.
 * - A copy by a peer's name, or in the legacy default stream from one device's memory to another's, does so for
 * the current device and both others, and for non-blocking streams as well, those that were destroyed included.
 *
 * Every write fills a cell with a value of its own, and before an access the model makes the order that is
 * missing, by an event or a host that waits. So the value of each read is known, and a wait that is missing in the
 * library shows as an older or a younger value: gates, which are host functions that wait, hold streams up.
 *
 * A gate stays closed until the host is about to wait for something that comes after it; then another thread opens
 * it a moment later. So a call that returns too early is seen, and so is one that waits for what it need not: it
 * never returns, and the watchdog says so.
 */
#include "ordering.h"

#include "../support/model.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    DEVICES = 2,
    HOST = 0,
    AGENTS_MAX = 40, /* over a graph's life */
    LEGACY = 0, /* places in the list of streams: one legacy and one per-thread default stream of each device */
    MINE = DEVICES,
    OTHERS = 2 * DEVICES,
    STREAMS_MAX = OTHERS + 6,
    EVENTS = 6,
    RESULTS_MAX = 32,
    GATES_MAX = 400,
    HELD_MAX = 4,
    WORDS_MAX = 8192,
    CELLS_EACH = 2,
    CELLS_MAX = SORTS * CELLS_EACH * DEVICES,
    STEPS = 120,
    PATIENCE_SECONDS = 60
};

struct clock {
    uint32_t at[AGENTS_MAX];
};

struct moment {
    int agent;
    uint32_t tick;
};

/* A cell, and who used it last. */
struct use {
    struct cell cell;
    bool there;
    uint64_t value;
    struct moment write;
    uint32_t read_tick[AGENTS_MAX]; /* the last read of each agent since then; 0 for none */
};

struct stream {
    bool there, blocking;
    void *handle; /* of those that are no default streams */
    int device, agent;
    struct clock clock;
};

struct event {
    void *handle;
    int device;
    bool recorded;
    struct clock clock;
};

/* What a read brought, to be looked at once it is done. */
struct result {
    bool used;
    struct moment done;
    struct cell cell;
    uint64_t expected;
    int step;
};

struct gate {
    atomic_int open;
    bool held; /* until somebody must wait for what comes after it */
    struct moment moment;
};

/* What one host function does with a cell of the host. */
struct errand {
    uint64_t *words;
    size_t count;
    bool write;
    uint64_t value;
    int step;
    atomic_int wrong;
};

static struct {
    /* of the process */
    const struct names *names;
    void *memory[SORTS][DEVICES];
    void *pinned_results, *pageable_results;
    uint64_t checked, steps_done;

    /* of the graph */
    size_t words, rows;
    int current; /* device */
    int agents;
    struct clock host;
    struct clock ended[DEVICES][2]; /* of streams that were destroyed: non-blocking, blocking */
    struct clock fence[DEVICES];    /* what non-blocking streams come after */
    struct clock foreign[DEVICES];  /* what streams of other devices were given with this one's memory */
    struct use cells[CELLS_MAX];
    struct stream streams[STREAMS_MAX];
    struct event events[EVENTS];
    struct result results[RESULTS_MAX];
    struct gate gates[GATES_MAX];
    int gate_count, held_count;
    struct use *latest; /* the cell that was written last */
    struct errand errands[GATES_MAX];
    int errand_count;
} g;

#define CALL(call)                                                                                                \
    do {                                                                                                          \
        int call_result_ = (call);                                                                                \
        if (call_result_)                                                                                         \
            give_up("%s gave %d", #call, call_result_);                                                           \
    } while (0)

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

/* Pinned and managed memory is either. */
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

/* Gives up after half a minute. */
static void wait_at_gate(void *argument)
{
    struct gate *gate = argument;

    for (int i = 0; i < 24000 && !atomic_load(&gate->open); i++)
        rest_us(20 + i / 10);
}

/* Opens the gates of a list a moment after it was given one. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t given;
    struct gate *gates[HELD_MAX];
    int count;
    long delay_us;
} opener = {.lock = PTHREAD_MUTEX_INITIALIZER, .given = PTHREAD_COND_INITIALIZER};

static void *open_gates(void *unused)
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

/* The host is about to wait for all that this clock has reached. */
static void let_pass(const struct clock *clock)
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

/* Steps that the host has begun. */
static atomic_ullong progress;

static void *watch(void *main_thread)
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

static void join(struct clock *into, const struct clock *from)
{
    for (int i = 0; i < AGENTS_MAX; i++)
        if (from->at[i] > into->at[i])
            into->at[i] = from->at[i];
}

static int index_of(const struct stream *s)
{
    return (int)(s - g.streams);
}

static bool is_legacy(const struct stream *s)
{
    return index_of(s) < MINE;
}

static bool is_default(const struct stream *s)
{
    return index_of(s) < OTHERS;
}

/* What the device's streams of one sort were given. */
static void join_streams(struct clock *into, int device, bool blocking)
{
    join(into, &g.ended[device][blocking]);
    for (int i = 0; i < STREAMS_MAX; i++)
        if (g.streams[i].there && g.streams[i].device == device && g.streams[i].blocking == blocking)
            join(into, &g.streams[i].clock);
}

/* Devices that a call is ordered with beside its stream. */
struct partners {
    unsigned devices;
    bool all;
};

/* The clock of the next work of a stream, before its own tick. */
static struct clock coming(const struct stream *s, struct partners with)
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

static const struct partners none = {0, false};

/* Gives the stream work. */
static struct moment advance(struct stream *s, struct partners with)
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

static struct moment host_now(void)
{
    return (struct moment){HOST, ++g.host.at[HOST]};
}

/* ---- looking at results ----------------------------------------------------------------------- */

static void look(const uint64_t *words, uint64_t expected, int step)
{
    size_t i = 0;

    while (i < g.words && words[i] == expected)
        i++;
    g.checked++;
    if (i < g.words)
        give_up("the read of step %d saw 0x%016llx in word %zu of %zu; what comes before it allows 0x%016llx only",
                step, (unsigned long long)words[i], i, g.words, (unsigned long long)expected);
}

static void look_at_results(const struct clock *clock)
{
    for (int i = 0; i < RESULTS_MAX; i++) {
        struct result *result = &g.results[i];

        if (result->used && covers(clock, result->done)) {
            result->used = false;
            look(result->cell.ptr, result->expected, result->step);
        }
    }
}

/* The host comes after all that a clock has reached. */
static void host_joins(const struct clock *clock)
{
    join(&g.host, clock);
    look_at_results(&g.host);
}

/* ---- streams and devices ---------------------------------------------------------------------- */

static void set_device(int device)
{
    if (device != g.current)
        note("device %d is current", device);
    g.current = device;
    CALL(g.names->set_device(device));
}

/* How a call names the stream; a default stream is one of the current device. */
static void *handle_of(const struct stream *s)
{
    if (!is_default(s))
        return s->handle;
    if (s->device != g.current)
        set_device(s->device);
    return is_legacy(s) ? (void *)(uintptr_t)pick(2) : (void *)2;
}

static const char *stream_name(const struct stream *s)
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

static void open_stream(struct stream *s, int device, bool blocking)
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

static struct stream *any_stream(void)
{
    struct stream *s;

    do
        s = &g.streams[chance(35) ? pick(OTHERS) : OTHERS + pick(STREAMS_MAX - OTHERS)];
    while (!s->there);
    return s;
}

static void synchronize_stream(struct stream *s)
{
    struct clock clock = is_legacy(s) ? coming(s, none) : s->clock;

    note("synchronize %s", stream_name(s));
    let_pass(&clock);
    CALL(g.names->stream_synchronize(handle_of(s)));
    host_joins(&clock);
}

static void synchronize_event(struct event *e)
{
    note("synchronize event %d", (int)(e - g.events));
    if (e->recorded)
        let_pass(&e->clock);
    CALL(g.names->event_synchronize(e->handle));
    if (e->recorded)
        host_joins(&e->clock);
}

static void synchronize_device(int device)
{
    struct clock clock = g.streams[LEGACY + device].clock, most;

    join_streams(&clock, device, true);
    join_streams(&clock, device, false);
    set_device(device);
    note("synchronize device %d", device);
    /* A call may wait for work of others that uses the device. */
    most = clock;
    join(&most, &g.foreign[device]);
    let_pass(&most);
    CALL(g.names->device_synchronize());
    host_joins(&clock);
}

/* Only when the answer is yes there is something to look at. It changes nothing in the model, so that the graph
 * does not depend on how quick the machine is. */
static void ask(void)
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

static void record(struct event *e, struct stream *s)
{
    note("record event %d on %s", (int)(e - g.events), stream_name(s));
    CALL(g.names->event_record(e->handle, handle_of(s)));
    (void)advance(s, none);
    e->recorded = true;
    e->clock = s->clock;
}

static void wait_for(struct stream *s, struct event *e)
{
    note("%s waits for event %d", stream_name(s), (int)(e - g.events));
    CALL(g.names->stream_wait(handle_of(s), e->handle));
    (void)advance(s, none);
    if (e->recorded)
        join(&s->clock, &e->clock);
}

static struct event *event_of_device(int device)
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

/* A stream, of those that are there, whose work has reached the moment. */
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

/* The next work of s, with these partners, comes after moment. */
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

static void work_may(struct stream *s, struct partners with, struct use *c, bool write)
{
    work_after(s, with, c->write);
    for (int agent = 0; write && agent < g.agents; agent++)
        if (c->read_tick[agent])
            work_after(s, with, (struct moment){agent, c->read_tick[agent]});
}

static void host_may(struct use *c, bool write)
{
    host_after(c->write);
    for (int agent = 0; write && agent < g.agents; agent++)
        if (c->read_tick[agent])
            host_after((struct moment){agent, c->read_tick[agent]});
}

static void was_read(struct use *c, struct moment now)
{
    c->read_tick[now.agent] = now.tick;
}

static void was_written(struct use *c, struct moment now, uint64_t value)
{
    c->write = now;
    memset(c->read_tick, 0, sizeof c->read_tick);
    c->value = value;
    g.latest = c;
}

/* ---- steps ------------------------------------------------------------------------------------ */

static const char *cell_name(const struct cell *c)
{
    static const char *const sorts[] = {"device", "array", "pinned", "pageable", "managed", "symbol"};
    static char names[4][32];
    static int next;
    char *name = names[next++ % 4];

    snprintf(name, sizeof names[0], IN(c->sort) & ON_DEVICE ? "%s[%d] of device %d" : "%s[%d]", sorts[c->sort],
             c->number, c->device);
    return name;
}

/* Any cell of these sorts, or NULL; often the one that work has just been given for. */
static struct use *any_cell(unsigned sorts)
{
    int first = g.latest && chance(30) ? (int)(g.latest - g.cells) : pick(CELLS_MAX);

    for (int i = 0; i < CELLS_MAX; i++) {
        struct use *c = &g.cells[(first + i) % CELLS_MAX];

        if (c->there && sorts & IN(c->cell.sort))
            return c;
    }
    return NULL;
}

/* Holds up what comes next on a stream. */
static void maybe_hold(struct stream *s)
{
    struct gate *gate = &g.gates[g.gate_count];

    if (!chance(35) || g.held_count == HELD_MAX || g.gate_count == GATES_MAX)
        return;
    g.gate_count++;
    note("%s stands at a gate", stream_name(s));
    atomic_store(&gate->open, 0);
    CALL(g.names->host_function(handle_of(s), wait_at_gate, gate));
    gate->moment = advance(s, none);
    gate->held = true;
    g.held_count++;
}

/* Opens a gate though nobody waits yet. */
static void open_a_gate(void)
{
    for (int i = 0; i < g.gate_count; i++)
        if (g.gates[i].held && chance(50)) {
            note("a gate opens");
            g.gates[i].held = false;
            g.held_count--;
            atomic_store(&g.gates[i].open, 1);
            return;
        }
}

static bool takes_stream(enum order order)
{
    return order == STREAM || order == WAITING;
}

/* The stream that a call uses which is given one, or none. */
static struct stream *stream_for(enum order order, bool mine)
{
    return takes_stream(order) ? any_stream() : &g.streams[(mine ? MINE : LEGACY) + g.current];
}

static unsigned device_of(const struct cell *c)
{
    return IN(c->sort) & ON_DEVICE ? 1u << c->device : 0;
}

static struct partners partners_of(const struct stream *s, enum order order, unsigned devices)
{
    unsigned here = 1u << s->device;

    if (order == STREAM)
        return none;
    if (order == PEER || (is_legacy(s) && devices == (1u << DEVICES) - 1))
        return (struct partners){devices | here, true};
    return (struct partners){devices & ~here, false};
}

/* Any form of copy; often one of the few that are ordered with everything. */
static const struct form *any_form(void)
{
    bool peer = chance(25);
    const struct form *form;

    do
        form = &g.names->forms[pick((int)g.names->form_count)];
    while (peer && form->order != PEER);
    return form;
}

/* Has the graph the arrays that the form takes? */
static bool has_arrays(const struct form *form)
{
    return g.rows == 1 || !((form->dst | form->src) & ONE_ROW);
}

static bool is_ordinary(const struct cell *c)
{
    return c->sort == PAGEABLE || c->sort == SYMBOL;
}

/* May the call wait until the copy is done? And if so, does it promise that? */
static bool waits(const struct form *form, const struct cell *dst, const struct cell *src)
{
    bool host_to_host =
        !(IN(dst->sort) & (ON_DEVICE | IN(MANAGED))) && !(IN(src->sort) & (ON_DEVICE | IN(MANAGED)));

    if (form->order == STREAM)
        return is_ordinary(dst) || host_to_host;
    return form->order == WAITING || !(IN(dst->sort) & ON_DEVICE) || !(IN(src->sort) & ON_DEVICE);
}

static void give_copy(const struct form *form, struct stream *s, struct partners with, const struct cell *dst,
                      struct use *src, struct moment *done)
{
    struct clock before = coming(s, with);
    bool wait = waits(form, dst, &src->cell);

    note("%s copies %s to %s on %s: 0x%016llx", form->name, cell_name(&src->cell), cell_name(dst), stream_name(s),
         (unsigned long long)src->value);
    if (wait)
        let_pass(&before);
    CALL(form->copy(dst, &src->cell, handle_of(s)));
    *done = advance(s, with);
    if (wait && !takes_stream(form->order) && is_ordinary(&src->cell) && IN(dst->sort) & ON_DEVICE)
        host_joins(&before); /* the stream was waited for, and the source has been read */
    else if (wait)
        host_joins(&s->clock);
    was_read(src, is_ordinary(&src->cell) ? host_now() : *done);
}

static void copy(void)
{
    const struct form *form = any_form();
    struct stream *s = stream_for(form->order, form->mine);
    struct use *dst = any_cell(form->dst), *src = any_cell(form->src);
    struct partners with;
    struct moment done;

    if (!dst || !src || dst == src || !has_arrays(form))
        return;
    with = partners_of(s, form->order, device_of(&dst->cell) | device_of(&src->cell));
    /* A pageable source is read by the call, or by a thread that the host waits for. */
    work_may(s, with, src, false);
    if (form->order == STREAM && is_ordinary(&src->cell))
        host_may(src, false);
    work_may(s, with, dst, true);
    maybe_hold(s);
    set_device(takes_stream(form->order) ? g.current : s->device);
    give_copy(form, s, with, &dst->cell, src, &done);
    was_written(dst, done, src->value);
}

static uint64_t spread(uint32_t value, unsigned unit)
{
    uint64_t all = unit == 1 ? (value & 0xff) * 0x01010101u : unit == 2 ? (value & 0xffff) * 0x00010001u : value;

    return all << 32 | all;
}

static void give_set(const struct set *set, struct stream *s, struct use *dst)
{
    struct partners with = partners_of(s, set->order, device_of(&dst->cell));
    bool wait = set->order != STREAM && dst->cell.sort != DEVICE;
    uint32_t value = (uint32_t)draw();
    struct moment done;
    struct clock before;

    work_may(s, with, dst, true);
    maybe_hold(s);
    set_device(takes_stream(set->order) ? g.current : s->device);
    before = coming(s, with);
    note("%s sets %s on %s: 0x%016llx", set->name, cell_name(&dst->cell), stream_name(s),
         (unsigned long long)spread(value, set->unit));
    if (wait)
        let_pass(&before);
    CALL(set->fill(&dst->cell, value, handle_of(s)));
    done = advance(s, with);
    join(&g.foreign[dst->cell.device], &s->clock);
    if (wait)
        host_joins(&s->clock);
    was_written(dst, done, spread(value, set->unit));
}

static void set(void)
{
    const struct set *set = &g.names->sets[pick((int)g.names->set_count)];

    give_set(set, stream_for(set->order, set->mine),
             any_cell(IN(DEVICE) | (chance(20) ? IN(PINNED) | IN(MANAGED) : 0)));
}

/* Ends a stream with its work still queued, such as a set. */
static void renew_stream(void)
{
    struct stream *s = &g.streams[OTHERS + pick(STREAMS_MAX - OTHERS)];
    const struct set *set = &g.names->sets[pick((int)g.names->set_count)];

    if (g.agents == AGENTS_MAX)
        return;
    if (set->order == STREAM)
        give_set(set, s, any_cell(IN(DEVICE)));
    note("destroy %s", stream_name(s));
    CALL(g.names->stream_destroy(s->handle));
    join(&g.ended[s->device][s->blocking], &s->clock);
    open_stream(s, pick(DEVICES), chance(50));
}

/* A free place for a result; when there is none the host waits for all. */
static struct result *new_result(void)
{
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < RESULTS_MAX; i++)
            if (!g.results[i].used)
                return &g.results[i];
        for (int device = 0; device < DEVICES; device++)
            synchronize_device(device);
    }
    give_up("the model itself is wrong: no place for a result");
}

/* Copies a cell to memory of its own, of the sorts that the form can write. */
static void read_cell(void)
{
    const struct form *form = any_form();
    struct stream *s = stream_for(form->order, form->mine);
    struct use *src = any_cell(form->src);
    struct result *result;
    struct partners with;
    uint64_t *words;
    bool pinned;

    if (!(form->dst & ON_HOST) || !src || !has_arrays(form))
        return;
    result = new_result();
    pinned = form->dst & IN(PINNED) && chance(50);
    words = pinned ? g.pinned_results : g.pageable_results;
    words += (size_t)(result - g.results) * g.words;
    for (size_t i = 0; i < g.words; i++)
        words[i] = 0xbadbadbadbadbadbu;
    with = partners_of(s, form->order, device_of(&src->cell));
    work_may(s, with, src, false);
    if (form->order == STREAM && is_ordinary(&src->cell))
        host_may(src, false);
    maybe_hold(s);
    set_device(takes_stream(form->order) ? g.current : s->device);
    *result = (struct result){.cell = {.sort = pinned ? PINNED : PAGEABLE, .number = 99, .ptr = words},
                              .expected = src->value,
                              .step = model_self->step};
    give_copy(form, s, with, &result->cell, src, &result->done);
    result->used = true;
    look_at_results(&g.host);
}

static void run_errand(void *argument)
{
    struct errand *errand = argument;

    for (size_t i = 0; i < errand->count; i++)
        if (errand->write)
            errand->words[i] = errand->value;
        else if (errand->words[i] != errand->value)
            atomic_store(&errand->wrong, 1);
}

#define BY_HOST (ON_HOST | IN(MANAGED) | IN(SYMBOL))

static void host_function(void)
{
    struct stream *s = any_stream();
    struct use *c = any_cell(BY_HOST);
    struct errand *errand = &g.errands[g.errand_count];
    struct moment now;

    if (g.errand_count == GATES_MAX)
        return;
    g.errand_count++;
    errand->write = chance(50);
    errand->value = errand->write ? draw() : c->value;
    errand->words = c->cell.ptr;
    errand->count = g.words;
    errand->step = model_self->step;
    atomic_store(&errand->wrong, 0);
    work_may(s, none, c, errand->write);
    maybe_hold(s);
    note("%s has the host %s %s: 0x%016llx", stream_name(s), errand->write ? "write" : "read", cell_name(&c->cell),
         (unsigned long long)errand->value);
    CALL(g.names->host_function(handle_of(s), run_errand, errand));
    now = advance(s, none);
    if (errand->write)
        was_written(c, now, errand->value);
    else
        was_read(c, now);
}

static void host_access(void)
{
    struct use *c = any_cell(BY_HOST);
    bool write = chance(60);
    uint64_t value = draw(), *words = c->cell.ptr;

    host_may(c, write);
    note("the host %s %s: 0x%016llx", write ? "writes" : "reads", cell_name(&c->cell),
         (unsigned long long)(write ? value : c->value));
    if (!write) {
        look(words, c->value, model_self->step);
        return;
    }
    for (size_t i = 0; i < g.words; i++)
        words[i] = value;
    was_written(c, host_now(), value);
}

static void record_any(void)
{
    struct stream *s = any_stream();

    record(event_of_device(s->device), s);
}

static void wait_for_any(void)
{
    wait_for(any_stream(), &g.events[pick(EVENTS)]);
}

static void switch_device(void)
{
    set_device(pick(DEVICES));
}

static void synchronize_any(void)
{
    if (chance(60))
        synchronize_stream(any_stream());
    else if (chance(80))
        synchronize_event(&g.events[pick(EVENTS)]);
    else
        synchronize_device(pick(DEVICES));
}

static void any_step(void)
{
    static const struct model_sort sorts[] = {
        {30, copy},         {14, set},       {20, read_cell},      {8, host_function},
        {4, host_access},   {4, record_any}, {3, wait_for_any},    {4, renew_stream},
        {8, switch_device}, {5, ask},        {2, synchronize_any}, {4, open_a_gate},
    };

    atomic_fetch_add(&progress, 1);
    model_any_step(sorts, sizeof sorts / sizeof sorts[0]);
}

/* ---- a graph ---------------------------------------------------------------------------------- */

/* Each symbol is a variable of its own: an address inside of one is no symbol. */
static uint64_t first_symbol[WORDS_MAX], second_symbol[WORDS_MAX];

static void make_cell(enum sort sort, int device, int number)
{
    struct use *c = &g.cells[((int)sort * DEVICES + device) * CELLS_EACH + number];
    uint64_t *words = g.memory[sort][device];

    c->cell = (struct cell){.sort = sort, .device = device, .number = number};
    c->there = true;
    if (sort == ARRAY)
        CALL(g.names->array_create(row_bytes(), g.rows, &c->cell.ptr));
    else if (sort == SYMBOL)
        c->cell.ptr = number ? second_symbol : first_symbol;
    else
        c->cell.ptr = words + (size_t)number * g.words;
}

static void make_cells(void)
{
    for (int device = 0; device < DEVICES; device++) {
        set_device(device);
        for (int number = 0; number < CELLS_EACH; number++)
            for (int sort = 0; sort < SORTS; sort++)
                if (IN(sort) & ON_DEVICE || (!device && g.memory[sort][0]))
                    make_cell((enum sort)sort, device, number);
    }
}

/* The copy to begin and to end with. */
static const struct form *plain_form(unsigned dst, unsigned src)
{
    for (size_t i = 0; i < g.names->form_count; i++) {
        const struct form *form = &g.names->forms[i];

        if (form->order == SYNC && has_arrays(form) && !form->mine && form->dst & dst && form->src & src)
            return form;
    }
    give_up("no form copies from 0x%x to 0x%x", src, dst);
}

/* Gives each cell its first value. */
static void fill_cells(uint64_t *words)
{
    struct cell from = {.sort = PAGEABLE, .ptr = words};

    for (int i = 0; i < CELLS_MAX; i++) {
        struct use *c = &g.cells[i];
        uint64_t value = draw();

        if (!c->there)
            continue;
        for (size_t k = 0; k < g.words; k++)
            words[k] = value;
        if (IN(c->cell.sort) & BY_HOST)
            memcpy(c->cell.ptr, words, g.words * 8);
        else
            CALL(plain_form(IN(c->cell.sort), IN(PAGEABLE))->copy(&c->cell, &from, NULL));
        was_written(c, host_now(), value);
    }
    for (int device = 0; device < DEVICES; device++)
        synchronize_device(device);
}

static void begin_graph(uint64_t *words)
{
    static const size_t sizes[] = {8, 512, WORDS_MAX};

    model_thread_begin(model_self, 0);
    draw_from(model.seed);
    g.agents = 1;
    g.gate_count = g.held_count = g.errand_count = 0;
    g.latest = NULL;
    memset(&g.host, 0, sizeof g.host);
    memset(g.ended, 0, sizeof g.ended);
    memset(g.fence, 0, sizeof g.fence);
    memset(g.foreign, 0, sizeof g.foreign);
    memset(g.cells, 0, sizeof g.cells);
    memset(g.streams, 0, sizeof g.streams);
    memset(g.results, 0, sizeof g.results);
    g.words = sizes[pick(3)];
    g.rows = chance(50) ? 1 : 4;
    set_device(0);
    note("cells of %zu words in %zu rows", g.words, g.rows);
    for (int i = 0; i < STREAMS_MAX; i++)
        open_stream(&g.streams[i], i % DEVICES, i < OTHERS || i % 4 < 2);
    for (int i = 0; i < EVENTS; i++) {
        g.events[i] = (struct event){.device = i % DEVICES};
        set_device(i % DEVICES);
        CALL(g.names->event_create(&g.events[i].handle));
    }
    make_cells();
    fill_cells(words);
}

/* Looks at everything once more, and gives all back. */
static void end_graph(uint64_t *words)
{
    struct cell to = {.sort = PAGEABLE, .ptr = words};

    for (int device = 0; device < DEVICES; device++)
        synchronize_device(device);
    for (int i = 0; i < CELLS_MAX; i++) {
        struct use *c = &g.cells[i];

        if (!c->there)
            continue;
        note("at the end: look at %s", cell_name(&c->cell));
        if (IN(c->cell.sort) & BY_HOST) {
            look(c->cell.ptr, c->value, model_self->step);
        } else {
            CALL(plain_form(IN(PAGEABLE), IN(c->cell.sort))->copy(&to, &c->cell, NULL));
            look(words, c->value, model_self->step);
        }
        if (c->cell.sort == ARRAY)
            CALL(g.names->array_destroy(c->cell.ptr));
    }
    for (int i = 0; i < g.errand_count; i++)
        if (atomic_load(&g.errands[i].wrong))
            give_up("the host function of step %d saw other words than 0x%016llx", g.errands[i].step,
                    (unsigned long long)g.errands[i].value);
    for (int i = 0; i < EVENTS; i++)
        CALL(g.names->event_destroy(g.events[i].handle));
    for (int i = OTHERS; i < STREAMS_MAX; i++)
        CALL(g.names->stream_destroy(g.streams[i].handle));
}

static void run_graph(void)
{
    static uint64_t words[WORDS_MAX];

    begin_graph(words);
    for (model_self->step = 1; model_self->step <= model.steps; model_self->step++)
        any_step();
    end_graph(words);
    g.steps_done += (uint64_t)model.steps;
}

/* ---- the process ------------------------------------------------------------------------------ */

static void set_up(void)
{
    static uint64_t pageable[CELLS_EACH * WORDS_MAX];
    size_t bytes = sizeof pageable;
    pthread_t thread;

    for (int device = 0; device < DEVICES; device++) {
        CALL(g.names->set_device(device));
        CALL(g.names->allocate(DEVICE, bytes, &g.memory[DEVICE][device]));
    }
    set_device(0);
    CALL(g.names->allocate(PINNED, bytes, &g.memory[PINNED][0]));
    CALL(g.names->allocate(MANAGED, bytes, &g.memory[MANAGED][0]));
    CALL(g.names->allocate(PINNED, (size_t)RESULTS_MAX * WORDS_MAX * 8, &g.pinned_results));
    g.pageable_results = malloc((size_t)RESULTS_MAX * WORDS_MAX * 8);
    g.memory[PAGEABLE][0] = pageable;
    g.memory[SYMBOL][0] = first_symbol;
    if (!g.pageable_results || pthread_create(&thread, NULL, open_gates, NULL) || pthread_detach(thread) ||
        pthread_create(&thread, NULL, watch, model_self) || pthread_detach(thread))
        give_up("no memory");
}

static void tear_down(void)
{
    CALL(g.names->release(PINNED, g.pinned_results));
    CALL(g.names->release(MANAGED, g.memory[MANAGED][0]));
    CALL(g.names->release(PINNED, g.memory[PINNED][0]));
    for (int device = 0; device < DEVICES; device++) {
        CALL(g.names->release(DEVICE, g.memory[DEVICE][device]));
        CALL(g.names->set_device(device));
        CALL(g.names->device_reset());
    }
    free(g.pageable_results);
    model_thread_end(model_self);
}

int run_ordering(const struct names *names, int argc, char **argv)
{
    long graphs;

    g.names = names;
    model_arguments(argc, argv, names->program, STEPS, 4, 0);
    printf("%s: seed %llu, %d steps a graph\n", names->program, (unsigned long long)model.seed, model.steps);
    fflush(stdout);
    set_up();
    graphs = model_run(run_graph);
    tear_down();
    printf("%s: %ld graphs, %llu steps, %llu reads saw what they may see\n", names->program, graphs,
           (unsigned long long)g.steps_done, (unsigned long long)g.checked);
    return 0;
}
