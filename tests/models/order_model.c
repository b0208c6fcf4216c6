/*
 * order_model.c - random graphs of work over several streams and devices, against a model of what happens before
 * what.
 *
 * The model. Host and streams are agents with vector clocks. Giving work to a stream joins the host's clock into
 * the stream's and moves the stream one tick on; recording an event keeps a copy of the stream's clock; waiting
 * for the event joins that copy, as it is then, into the waiting stream's; synchronizing joins a stream's or an
 * event's clock into the host's. An access at (agent, tick) happened before all that is done under a clock that
 * has reached tick for that agent.
 *
 * Memory is cells of one size. Every write fills a cell with a value of its own. Before an access the model looks
 * for earlier ones that it needs to come after, and where no order holds yet it makes one: an event of before, a
 * new record and a wait, or a host that waits. So there is no edge too few and the value of every read is known;
 * and if the library loses an edge, the reader sees an older or a younger value, because slow work stands in front
 * of many steps.
 *
 * Pageable cells are used in stream order like all others. A ticket that says LEAT_COPY_STAGED lets the host come
 * after one read and nothing else; LEAT_COPY_DONE brings the stream's clock of that copy. A copy that is cancelled
 * leaves its destination undefined, so that is written again, by the same stream or by one that comes after.
 *
 * A failure prints the graph step by step and the arguments that make it again.
 *
 *     order_model [--seed N] [--graphs N] [--seconds N] [--steps N] [--device NAME] [--verbose]
 */
#include "harness.h"
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HOST = 0,        /* the host's place in a clock; streams follow */
    AGENTS_MAX = 32, /* over a graph's life */
    STREAMS_MAX = 6, /* at a time */
    EVENTS = 6,
    TEMPORARY_MAX = 4,
    RESULTS_MAX = 64,
    TICKETS = 12,
    WORDS_MAX = 32768,
    SCRATCH_WORDS = 1 << 15
};

enum home { DEVICE, OTHER, PINNED, REGISTERED, PAGEABLE, HOMES };

static const char *const home_names[] = {"device", "other", "pinned", "registered", "pageable"};
enum { CELLS_EACH = 3, CELLS_FIXED = HOMES * CELLS_EACH, CELLS_MAX = CELLS_FIXED + TEMPORARY_MAX };

struct clock {
    uint32_t at[AGENTS_MAX];
};

/* One access. */
struct moment {
    int agent;
    uint32_t tick;
};

struct cell {
    bool there;
    enum home home;
    int number;
    uint64_t *ptr;
    uint64_t *kernel_ptr; /* what a kernel uses for it */
    uint64_t value;
    struct moment write;            /* the last one */
    uint32_t read_tick[AGENTS_MAX]; /* the last read of each agent since then; 0 for none */
};

struct stream {
    bool there;
    leat_stream *handle, *alias; /* alias: the same stream, wrapped; or NULL */
    enum home device;            /* DEVICE or OTHER */
    int agent;
    struct clock clock;
    uint32_t *scratch;
};

struct event {
    leat_event *handle;
    enum home device;
    bool recorded;
    struct clock clock;
};

/* What a read brought, to be looked at once it is done. */
struct result {
    bool used;
    struct moment done;
    const uint64_t *words;
    uint64_t seen; /* for a host function, which looks at the words itself */
    uint64_t expected;
    int step;
};

/* A copy that was started with a ticket. */
struct ticket {
    leat_ticket *handle; /* NULL: a free place */
    bool cancelled;      /* so it may end as CANCELLED */
    struct cell *src;
    struct moment read, write; /* of src: this copy's read, and the write before it */
    uint32_t read_before;      /* the tick of the stream's read of src before this one; 0 for none */
    struct clock clock;        /* of the stream, with this copy */
};

/* What one host function does. Lives to the end of the graph. */
struct errand {
    uint64_t *words;
    size_t count;
    bool write;
    uint64_t value;
    uint64_t *seen; /* the first word that is not value, or value */
    long sleep_us;
};

static struct {
    /* of the process */
    leat_device *devices[2];
    uint64_t *arena[HOMES];
    uint64_t *results_arena, *pageable_results;
    leat_kernel *vector_add[2], *add[2];
    uint64_t checked, steps_done;
    bool keep_memory; /* free late, so that lost order shows as a wrong value and not as a crash */

    /* of the graph */
    size_t words; /* of each cell */
    bool delays;
    int agents;
    struct clock host;
    enum home agent_device[AGENTS_MAX];
    struct clock ended[AGENTS_MAX]; /* the last clocks of streams that were destroyed; zeros for the others */
    struct cell cells[CELLS_MAX];
    struct stream streams[STREAMS_MAX];
    struct event events[EVENTS];
    struct result results[RESULTS_MAX];
    struct ticket tickets[TICKETS];
    struct errand *errands;
    int errand_count;
    void **leftover; /* memory that goes when the graph ends */
    int leftovers;
} g;

/* ---- clocks ----------------------------------------------------------------------------------- */

static void join(struct clock *into, const struct clock *from)
{
    for (int i = 0; i < AGENTS_MAX; i++)
        if (from->at[i] > into->at[i])
            into->at[i] = from->at[i];
}

static bool covers(const struct clock *clock, struct moment moment)
{
    return clock->at[moment.agent] >= moment.tick;
}

/* The clock that new work of a stream would have. */
static const struct clock *coming(struct stream *s)
{
    join(&s->clock, &g.host);
    return &s->clock;
}

static struct moment advance(struct stream *s)
{
    join(&s->clock, &g.host);
    return (struct moment){s->agent, ++s->clock.at[s->agent]};
}

static struct moment advance_host(void)
{
    return (struct moment){HOST, ++g.host.at[HOST]};
}

/* ---- looking at results ----------------------------------------------------------------------- */

static void look(struct result *result)
{
    uint64_t seen = result->seen;
    size_t index = 0;

    result->used = false;
    if (result->words) {
        while (index < g.words - 1 && result->words[index] == result->expected)
            index++;
        seen = result->words[index];
    }
    g.checked++;
    if (seen != result->expected)
        give_up(
            "the read of step %d saw 0x%016llx in word %zu of %zu; what happened before it allows 0x%016llx only",
            result->step, (unsigned long long)seen, index, g.words, (unsigned long long)result->expected);
}

/* Looks at every result that is there under clock. */
static void look_at_results(const struct clock *clock)
{
    for (int i = 0; i < RESULTS_MAX; i++)
        if (g.results[i].used && covers(clock, g.results[i].done))
            look(&g.results[i]);
}

static leat_stream *handle_of(const struct stream *s)
{
    return s->alias && chance(50) ? s->alias : s->handle;
}

/* ---- the host waits --------------------------------------------------------------------------- */

static int index_of(const struct stream *s)
{
    return (int)(s - g.streams);
}

static void synchronize_stream(struct stream *s)
{
    if (chance(50)) {
        note("synchronize stream %d", index_of(s));
        DO(leat_stream_synchronize(handle_of(s)));
    } else {
        leat_stream *handle = handle_of(s); /* drawn once, however long it takes */
        leat_status status;

        note("query stream %d until it is ready", index_of(s));
        while ((status = leat_stream_query(handle)) == LEAT_NOT_READY)
            continue;
        DO(status);
    }
    join(&g.host, &s->clock);
    look_at_results(&g.host);
}

static void synchronize_event(struct event *e)
{
    if (chance(50)) {
        note("synchronize event %d", (int)(e - g.events));
        DO(leat_event_synchronize(e->handle));
    } else {
        leat_status status;

        note("query event %d until it is ready", (int)(e - g.events));
        while ((status = leat_event_query(e->handle)) == LEAT_NOT_READY)
            continue;
        DO(status);
    }
    if (e->recorded)
        join(&g.host, &e->clock);
    look_at_results(&g.host);
}

/* Streams that were destroyed are included: the device knows their work. */
static void synchronize_device(enum home device)
{
    note("synchronize the %s", device == DEVICE ? "device" : "other device");
    DO(leat_device_synchronize(g.devices[device]));
    for (int agent = 1; agent < g.agents; agent++)
        if (g.agent_device[agent] == device)
            join(&g.host, &g.ended[agent]);
    for (int i = 0; i < STREAMS_MAX; i++)
        if (g.streams[i].there && g.streams[i].device == device)
            join(&g.host, &g.streams[i].clock);
    look_at_results(&g.host);
}

static void synchronize_all(void)
{
    for (int i = 0; i < 2; i++)
        if (g.devices[i])
            synchronize_device((enum home)i);
}

/* A single question; only when the answer is yes there is something to look at. It changes nothing in the model,
 * so that the graph does not depend on how quick the machine is. */
static void ask(void)
{
    struct stream *s = &g.streams[pick(STREAMS_MAX)];
    struct event *e = &g.events[pick(EVENTS)];

    if (chance(50) && s->there) {
        leat_status status = leat_stream_query(handle_of(s));

        note("query stream %d", index_of(s));
        if (status != LEAT_NOT_READY) {
            DO(status);
            look_at_results(&s->clock);
        }
    } else {
        leat_status status = leat_event_query(e->handle);

        note("query event %d", (int)(e - g.events));
        if (status != LEAT_NOT_READY) {
            DO(status);
            if (e->recorded)
                look_at_results(&e->clock);
        }
    }
}

/* ---- making order ----------------------------------------------------------------------------- */

static struct stream *stream_of_agent(int agent)
{
    for (int i = 0; i < STREAMS_MAX; i++)
        if (g.streams[i].there && g.streams[i].agent == agent)
            return &g.streams[i];
    return NULL;
}

static void record(struct event *e, struct stream *s)
{
    note("record event %d on stream %d", (int)(e - g.events), index_of(s));
    DO(leat_event_record(e->handle, handle_of(s)));
    e->recorded = true;
    e->clock = *coming(s);
}

static void wait_for(struct stream *s, struct event *e)
{
    note("stream %d waits for event %d", index_of(s), (int)(e - g.events));
    DO(leat_stream_wait(handle_of(s), e->handle));
    if (e->recorded)
        join(&s->clock, &e->clock);
}

static void renew_event(struct event *e)
{
    note("destroy event %d and create it anew", (int)(e - g.events));
    DO(leat_event_destroy(e->handle));
    DO(leat_event_create(g.devices[e->device], &e->handle));
    e->recorded = false;
}

/* An event of before that marks a place at or after moment. */
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

static struct event *event_of_device(enum home device)
{
    int first = pick(EVENTS);

    for (int i = 0; i < EVENTS; i++)
        if (g.events[(first + i) % EVENTS].device == device)
            return &g.events[(first + i) % EVENTS];
    return NULL;
}

/* The host comes after moment. */
static void host_after(struct moment moment)
{
    struct stream *from = stream_of_agent(moment.agent);
    struct event *e;

    if (covers(&g.host, moment))
        return;
    e = covering_event(moment);
    if (e && chance(40)) {
        synchronize_event(e);
    } else if (from && chance(30)) {
        e = event_of_device(from->device);
        record(e, from);
        synchronize_event(e);
    } else if (from && chance(80)) {
        synchronize_stream(from);
    } else {
        synchronize_device(g.agent_device[moment.agent]);
    }
    if (!covers(&g.host, moment))
        give_up("the model itself is wrong: no order made for agent %d", moment.agent);
}

/* New work of s comes after moment. */
static void stream_after(struct stream *s, struct moment moment)
{
    struct stream *from = stream_of_agent(moment.agent);
    struct event *e;

    if (covers(coming(s), moment))
        return;
    e = covering_event(moment);
    if (e && chance(50)) {
        wait_for(s, e);
    } else if (from && chance(92)) {
        e = event_of_device(from->device);
        /* A mark that is replaced before anyone waits for it holds nobody up. */
        if (chance(20))
            record(e, from);
        record(e, from);
        wait_for(s, e);
        if (chance(20))
            renew_event(e);
    } else {
        host_after(moment);
    }
    if (!covers(coming(s), moment))
        give_up("the model itself is wrong: no order made for agent %d", moment.agent);
}

/* The host may read a cell, or write it. */
static void host_may(struct cell *c, bool write)
{
    host_after(c->write);
    for (int agent = 1; write && agent < g.agents; agent++)
        if (c->read_tick[agent])
            host_after((struct moment){agent, c->read_tick[agent]});
}

static void stream_may(struct stream *s, struct cell *c, bool write)
{
    stream_after(s, c->write);
    for (int agent = 1; write && agent < g.agents; agent++)
        if (c->read_tick[agent])
            stream_after(s, (struct moment){agent, c->read_tick[agent]});
}

static void was_read(struct cell *c, struct moment now)
{
    c->read_tick[now.agent] = now.tick;
}

static void was_written(struct cell *c, struct moment now, uint64_t value)
{
    c->write = now;
    memset(c->read_tick, 0, sizeof c->read_tick);
    c->value = value;
}

/* ---- steps ------------------------------------------------------------------------------------ */

static const char *cell_name(const struct cell *c)
{
    static char names[4][32];
    static int next;
    char *name = names[next++ % 4];

    snprintf(name, sizeof names[0], "%s[%d]", c - g.cells >= CELLS_FIXED ? "temporary" : home_names[c->home],
             c->number);
    return name;
}

static void run_errand(void *argument)
{
    struct errand *errand = argument;

    if (errand->sleep_us)
        test_sleep_us(errand->sleep_us);
    if (!errand->words)
        return;
    *errand->seen = errand->value;
    for (size_t i = 0; i < errand->count; i++) {
        if (errand->write)
            errand->words[i] = errand->value;
        else if (errand->words[i] != errand->value)
            *errand->seen = errand->words[i];
    }
}

static struct errand *new_errand(void)
{
    struct errand *errand = &g.errands[g.errand_count++];

    memset(errand, 0, sizeof *errand);
    return errand;
}

/* Puts slow work in front of what comes next on a stream. */
static void maybe_delay(struct stream *s)
{
    if (!g.delays || !chance(30))
        return;
    if (chance(60)) {
        struct errand *errand = new_errand();

        errand->sleep_us = 50 + pick(1200);
        note("stream %d sleeps %ld us", index_of(s), errand->sleep_us);
        DO(leat_launch_host(handle_of(s), run_errand, errand));
    } else {
        uint64_t count = SCRATCH_WORDS;
        uint32_t one = 1;
        void *args[] = {&s->scratch, &count, &one};

        note("stream %d runs a slow kernel", index_of(s));
        DO(leat_launch(handle_of(s), g.add[s->device], leat_dim(1, 1, 1), leat_dim(32, 1, 1), 0, args, 3));
    }
}

static struct stream *any_stream(void)
{
    int first = pick(STREAMS_MAX);

    for (int i = 0; i < STREAMS_MAX; i++)
        if (g.streams[(first + i) % STREAMS_MAX].there)
            return &g.streams[(first + i) % STREAMS_MAX];
    give_up("the model itself is wrong: no stream left");
}

/* Any cell of the homes in the set. */
static struct cell *any_cell(unsigned homes)
{
    int first = pick(CELLS_MAX);

    for (int i = 0; i < CELLS_MAX; i++) {
        struct cell *c = &g.cells[(first + i) % CELLS_MAX];

        if (c->there && homes & 1u << c->home)
            return c;
    }
    give_up("the model itself is wrong: no cell for 0x%x", homes);
}

#define ON_DEVICE (1u << DEVICE | 1u << OTHER)
#define IN_PINNED (1u << PINNED | 1u << REGISTERED)
#define IN_HOST (IN_PINNED | 1u << PAGEABLE)

/* What a kernel or a fill on this stream can reach. */
static unsigned near(const struct stream *s)
{
    return 1u << s->device | IN_PINNED;
}

/* A free place for a ticket, or NULL. */
static struct ticket *new_ticket(void)
{
    for (int i = 0; i < TICKETS; i++)
        if (!g.tickets[i].handle)
            return &g.tickets[i];
    return NULL;
}

/* The host knows that a copy has read src, at now, and so that the write before is done, but nothing else. A cell
 * that was used again meanwhile has other ticks. */
static void was_staged(struct cell *src, struct moment now, uint32_t read_before, struct moment write)
{
    if (src->read_tick[now.agent] == now.tick)
        src->read_tick[now.agent] = read_before;
    if (src->write.agent == write.agent && src->write.tick == write.tick)
        src->write = (struct moment){HOST, g.host.at[HOST]};
}

static bool is_far(const struct stream *s, const struct cell *c)
{
    return (c->home == DEVICE || c->home == OTHER) && c->home != s->device;
}

/* Can the stream's device rearrange what it copies from one cell to the other? One of them at the most may have to
 * be fetched or sent. */
static bool can_turn(const struct stream *s, const struct cell *dst, const struct cell *src)
{
    return is_far(s, dst) + is_far(s, src) + (dst->home == PAGEABLE) + (src->home == PAGEABLE) < 2 ||
           (dst->home == PAGEABLE && src->home == PAGEABLE);
}

/* A copy that turns the words of a cell, which are all the same, as a matrix of four rows. */
static leat_status turn(struct stream *s, struct cell *dst, const struct cell *src)
{
    int64_t rows = g.words % 4 ? 1 : 4, columns = (int64_t)g.words / rows;
    leat_layout to, from;

    DO(leat_layout_dense(&from, 2, (int64_t[]){rows, columns}, 8));
    DO(leat_layout_transpose(&from, 0, 1));
    DO(leat_layout_dense(&to, 2, from.size, 8));
    return leat_copy_layout(handle_of(s), dst->ptr, &to, src->ptr, &from);
}

/* Gives one copy to a stream that may use both cells. ticket: NULL for a copy without one. */
static void give_copy(struct stream *s, struct cell *dst, struct cell *src, struct ticket *ticket)
{
    struct moment write = src->write, now;
    uint32_t read_before = src->read_tick[s->agent];
    bool waits = !ticket && chance(8), turns = !ticket && !waits && can_turn(s, dst, src) && chance(30);

    note("stream %d %s %s to %s, 0x%016llx%s%s", index_of(s), turns ? "turns" : "copies", cell_name(src),
         cell_name(dst), (unsigned long long)src->value, ticket ? ", with a ticket" : "",
         waits ? ", and the host waits" : "");
    if (ticket)
        DO(leat_copy_start(handle_of(s), dst->ptr, src->ptr, g.words * 8, NULL, &ticket->handle));
    else if (waits)
        DO(leat_copy_sync(handle_of(s), dst->ptr, src->ptr, g.words * 8));
    else if (turns)
        DO(turn(s, dst, src));
    else
        DO(leat_copy(handle_of(s), dst->ptr, src->ptr, g.words * 8));
    now = advance(s);
    was_written(dst, now, src->value);
    was_read(src, now);
    if (waits && dst->home == PAGEABLE) {
        join(&g.host, &s->clock);
        look_at_results(&g.host);
    } else if (waits && src->home == PAGEABLE) {
        was_staged(src, now, read_before, write);
    }
    if (!ticket)
        return;
    ticket->cancelled = false;
    ticket->src = src;
    ticket->read = now;
    ticket->write = write;
    ticket->read_before = read_before;
    ticket->clock = s->clock;
}

static void copy(void)
{
    struct stream *s = any_stream();
    unsigned homes = ON_DEVICE | IN_PINNED | (chance(50) ? 1u << PAGEABLE : 0);
    struct cell *dst = any_cell(homes), *src = any_cell(homes);

    if (dst == src)
        return;
    stream_may(s, src, false);
    stream_may(s, dst, true);
    maybe_delay(s);
    give_copy(s, dst, src, chance(35) ? new_ticket() : NULL);
}

static void fill(void)
{
    struct stream *s = any_stream();
    struct cell *dst = any_cell(near(s));
    uint64_t value = draw();
    int size = pick(3);

    stream_may(s, dst, true);
    maybe_delay(s);
    if (size == 0)
        value = (value & 0xff) * 0x0101010101010101u;
    else if (size == 1)
        value = (value & 0xffffffff) * 0x0000000100000001u;
    note("stream %d fills %s with 0x%016llx", index_of(s), cell_name(dst), (unsigned long long)value);
    if (size == 0)
        DO(leat_fill(handle_of(s), dst->ptr, (uint8_t)value, g.words * 8));
    else
        DO(leat_fill_pattern(handle_of(s), dst->ptr, &value, size == 1 ? 4 : 8, g.words * 8));
    was_written(dst, advance(s), value);
}

/* The sum of both halves, as the kernels do it. */
static uint64_t add_halves(uint64_t a, uint64_t b)
{
    return (uint64_t)((uint32_t)(a >> 32) + (uint32_t)(b >> 32)) << 32 | (uint32_t)((uint32_t)a + (uint32_t)b);
}

static void add_vectors(void)
{
    struct stream *s = any_stream();
    struct cell *dst = any_cell(near(s)), *a = any_cell(near(s)), *b = any_cell(near(s));
    uint64_t count = g.words * 2, value = add_halves(a->value, b->value);
    void *args[] = {&dst->kernel_ptr, &a->kernel_ptr, &b->kernel_ptr, &count};
    struct moment now;

    if (dst == a || dst == b)
        return;
    stream_may(s, a, false);
    stream_may(s, b, false);
    stream_may(s, dst, true);
    maybe_delay(s);
    note("stream %d adds %s and %s into %s, 0x%016llx", index_of(s), cell_name(a), cell_name(b), cell_name(dst),
         (unsigned long long)value);
    DO(leat_launch(handle_of(s), g.vector_add[s->device], leat_dim((uint32_t)(1 + pick(8)), 1, 1),
                   leat_dim(64, 1, 1), 0, args, 4));
    now = advance(s);
    was_read(a, now);
    was_read(b, now);
    was_written(dst, now, value);
}

static void add_in_place(void)
{
    struct stream *s = any_stream();
    struct cell *dst = any_cell(near(s));
    uint32_t number = (uint32_t)draw();
    uint64_t count = g.words * 2, value = add_halves(dst->value, number * 0x0000000100000001u);
    void *args[] = {&dst->kernel_ptr, &count, &number};

    stream_may(s, dst, true);
    maybe_delay(s);
    note("stream %d adds 0x%08x to %s, 0x%016llx", index_of(s), number, cell_name(dst), (unsigned long long)value);
    DO(leat_launch(handle_of(s), g.add[s->device], leat_dim((uint32_t)(1 + pick(8)), 1, 1), leat_dim(64, 1, 1), 0,
                   args, 3));
    was_written(dst, advance(s), value);
}

/* A free place for a result; when there is none the host waits for all. */
static struct result *new_result(void)
{
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < RESULTS_MAX; i++) {
            struct result *result = &g.results[i];

            if (result->used)
                continue;
            memset(result, 0, sizeof *result);
            result->used = true;
            result->step = model_self->step;
            /* Until it is filled in, it is after everything. */
            result->done = (struct moment){HOST, UINT32_MAX};
            return result;
        }
        synchronize_all();
    }
    give_up("the model itself is wrong: no place for a result");
}

static void read_cell(void)
{
    struct stream *s = any_stream();
    struct cell *src = any_cell(ON_DEVICE | IN_HOST);
    struct result *result = new_result();
    uint64_t *arena = chance(50) ? g.pageable_results : g.results_arena;
    uint64_t *words = arena + (size_t)(result - g.results) * g.words;

    stream_may(s, src, false);
    maybe_delay(s);
    for (size_t i = 0; i < g.words; i++)
        words[i] = 0xbadbadbadbadbadbu;
    note("stream %d reads %s into %s memory, 0x%016llx", index_of(s), cell_name(src),
         arena == g.results_arena ? "pinned" : "pageable", (unsigned long long)src->value);
    DO(leat_copy(handle_of(s), words, src->ptr, g.words * 8));
    result->words = words;
    result->expected = src->value;
    result->done = advance(s);
    was_read(src, result->done);
}

static void host_function(void)
{
    struct stream *s = any_stream();
    struct cell *c = any_cell(IN_HOST);
    struct result *result = new_result();
    struct errand *errand = new_errand();

    errand->write = chance(50);
    errand->value = errand->write ? draw() : c->value;
    errand->words = c->ptr;
    errand->count = g.words;
    errand->seen = &result->seen;
    errand->sleep_us = g.delays && chance(30) ? 50 + pick(500) : 0;
    stream_may(s, c, errand->write);
    maybe_delay(s);
    note("stream %d has the host %s %s, 0x%016llx", index_of(s), errand->write ? "write" : "read", cell_name(c),
         (unsigned long long)errand->value);
    DO(leat_launch_host(handle_of(s), run_errand, errand));
    result->expected = errand->value;
    result->done = advance(s);
    if (errand->write)
        was_written(c, result->done, errand->value);
    else
        was_read(c, result->done);
}

static void host_writes(struct cell *c)
{
    uint64_t value = draw();

    host_may(c, true);
    note("the host writes %s, 0x%016llx", cell_name(c), (unsigned long long)value);
    for (size_t i = 0; i < g.words; i++)
        c->ptr[i] = value;
    was_written(c, advance_host(), value);
}

static void host_access(void)
{
    struct cell *c = any_cell(IN_HOST);
    struct result now = {.words = c->ptr, .step = model_self->step};

    if (chance(60)) {
        host_writes(c);
        return;
    }
    host_may(c, false);
    note("the host reads %s, 0x%016llx", cell_name(c), (unsigned long long)c->value);
    now.expected = c->value;
    look(&now);
}

/* ---- steps: tickets --------------------------------------------------------------------------- */

static leat_status wait_at(const struct ticket *ticket, leat_copy_point point)
{
    leat_status status;
    leat_ticket_info info;

    if (chance(50))
        return leat_ticket_wait(ticket->handle, point, LEAT_FOREVER);
    if (chance(50)) {
        while ((status = leat_ticket_wait(ticket->handle, point, 20000)) == LEAT_NOT_READY)
            continue;
        return status;
    }
    do
        DO(leat_ticket_query(ticket->handle, &info));
    while (!(point == LEAT_COPY_DONE ? info.done : info.staged));
    return info.status;
}

/* The host waits until a copy is at point; what its end may be is known. */
static void reach(struct ticket *ticket, leat_copy_point point)
{
    leat_status status;

    note("wait until ticket %d is %s", (int)(ticket - g.tickets), point == LEAT_COPY_DONE ? "done" : "staged");
    status = wait_at(ticket, point);
    if (status != LEAT_ERROR_CANCELLED || !ticket->cancelled)
        DO(status);
    if (point == LEAT_COPY_DONE) {
        join(&g.host, &ticket->clock);
        look_at_results(&g.host);
        return;
    }
    was_staged(ticket->src, ticket->read, ticket->read_before, ticket->write);
}

static void free_ticket(struct ticket *ticket)
{
    note("free ticket %d", (int)(ticket - g.tickets));
    DO(leat_ticket_free(ticket->handle));
    ticket->handle = NULL;
}

static void use_ticket(void)
{
    int first = pick(TICKETS);
    struct ticket *ticket = NULL;

    for (int i = 0; i < TICKETS && !ticket; i++)
        if (g.tickets[(first + i) % TICKETS].handle)
            ticket = &g.tickets[(first + i) % TICKETS];
    if (!ticket)
        return;
    if (chance(85)) {
        bool done = chance(30);

        reach(ticket, done ? LEAT_COPY_DONE : LEAT_COPY_STAGED);
        /* At once, so that what is read late is read wrong. */
        if (!done && ticket->src->there && 1u << ticket->src->home & IN_HOST)
            host_writes(ticket->src);
    }
    if (chance(60))
        free_ticket(ticket);
}

/* What has arrived of a cancelled copy is right. The copy is done, and nobody else uses dst. */
static void look_at_prefix(struct stream *s, const struct ticket *ticket, const struct cell *dst)
{
    uint64_t *words = malloc(g.words * 8);
    leat_ticket_info info;

    if (!words)
        give_up("no memory");
    DO(leat_ticket_query(ticket->handle, &info));
    if (info.arrived_bytes > g.words * 8 || (info.status == LEAT_OK && info.arrived_bytes < g.words * 8))
        give_up("%llu bytes of %zu have arrived, and the status is %s", (unsigned long long)info.arrived_bytes,
                g.words * 8, leat_status_name(info.status));
    DO(leat_copy_sync(handle_of(s), words, dst->ptr, g.words * 8));
    for (size_t i = 0; i < info.arrived_bytes / 8; i++)
        if (words[i] != dst->value)
            give_up("word %zu of a cancelled copy is 0x%016llx and not 0x%016llx, and %llu bytes have arrived", i,
                    (unsigned long long)words[i], (unsigned long long)dst->value,
                    (unsigned long long)info.arrived_bytes);
    g.checked++;
    free(words);
}

/* Cancels a copy sooner or later, and has its destination written again. */
static void cancel_copy(void)
{
    struct stream *s = any_stream();
    struct cell *dst = any_cell(ON_DEVICE | IN_HOST), *src = any_cell(ON_DEVICE | IN_HOST);
    struct cell *from = any_cell(ON_DEVICE | IN_HOST);
    struct ticket *ticket = new_ticket();

    if (!ticket || dst == src || dst == from)
        return;
    stream_may(s, src, false);
    stream_may(s, dst, true);
    stream_may(s, from, false);
    maybe_delay(s);
    give_copy(s, dst, src, ticket);
    if (chance(50))
        test_sleep_us(pick(300));
    note("cancel ticket %d", (int)(ticket - g.tickets));
    DO(leat_ticket_cancel(ticket->handle));
    ticket->cancelled = dst->home == PAGEABLE || src->home == PAGEABLE;
    if (chance(40)) {
        reach(ticket, LEAT_COPY_DONE);
        look_at_prefix(s, ticket, dst);
        advance(s);
    }
    give_copy(s, dst, from, NULL);
    if (chance(50))
        free_ticket(ticket);
}

static void open_stream(struct stream *s)
{
    void *native;

    memset(s, 0, sizeof *s);
    s->device = g.devices[OTHER] && chance(40) ? OTHER : DEVICE;
    s->agent = g.agents++;
    g.agent_device[s->agent] = s->device;
    DO(leat_stream_create(g.devices[s->device], &s->handle));
    if (chance(30)) {
        DO(leat_stream_native(s->handle, &native));
        DO(leat_stream_wrap(g.devices[s->device], native, &s->alias));
    }
    DO(leat_memory_alloc(g.devices[s->device], LEAT_KIND_DEVICE, SCRATCH_WORDS * 4, (void **)&s->scratch));
    s->there = true;
    note("create stream %d on the %s%s", index_of(s), s->device == DEVICE ? "device" : "other device",
         s->alias ? ", and wrap it" : "");
}

/* Ends a stream with its work still queued. Its scratch memory stays until the graph ends. */
static void renew_stream(void)
{
    struct stream *s = any_stream();

    if (g.agents == AGENTS_MAX)
        return;
    note("destroy stream %d", index_of(s));
    DO(leat_stream_destroy(s->alias));
    DO(leat_stream_destroy(s->handle));
    g.leftover[g.leftovers++] = s->scratch;
    g.ended[s->agent] = s->clock;
    open_stream(s);
}

static void allocate(void)
{
    struct stream *s = any_stream();
    int number = pick(TEMPORARY_MAX);
    struct cell *c = &g.cells[CELLS_FIXED + number];
    uint64_t value = draw();

    if (c->there)
        return;
    memset(c, 0, sizeof *c);
    c->home = s->device;
    c->number = number;
    note("stream %d allocates %s and fills it with 0x%016llx", index_of(s), cell_name(c),
         (unsigned long long)value);
    DO(leat_alloc(handle_of(s), g.words * 8, (void **)&c->ptr));
    c->kernel_ptr = c->ptr;
    DO(leat_fill_pattern(handle_of(s), c->ptr, &value, 8, g.words * 8));
    c->there = true;
    was_written(c, advance(s), value);
}

static void deallocate(void)
{
    struct stream *s = any_stream();
    struct cell *c = &g.cells[CELLS_FIXED + pick(TEMPORARY_MAX)];

    if (!c->there || c->home != s->device)
        return;
    stream_may(s, c, true);
    note("stream %d frees %s", index_of(s), cell_name(c));
    if (g.keep_memory)
        g.leftover[g.leftovers++] = c->ptr;
    else
        DO(leat_free(handle_of(s), c->ptr));
    advance(s);
    c->there = false;
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

static void renew_any_event(void)
{
    renew_event(&g.events[pick(EVENTS)]);
}

static void synchronize_any(void)
{
    if (chance(45))
        synchronize_stream(any_stream());
    else if (chance(80))
        synchronize_event(&g.events[pick(EVENTS)]);
    else
        synchronize_device(any_stream()->device);
}

static void any_step(void)
{
    static const struct model_sort sorts[] = {
        {24, copy},         {12, fill},       {10, add_vectors}, {8, add_in_place}, {20, read_cell},
        {8, host_function}, {4, host_access}, {8, record_any},   {5, wait_for_any}, {3, renew_any_event},
        {2, renew_stream},  {3, allocate},    {3, deallocate},   {8, ask},          {2, synchronize_any},
        {10, use_ticket},   {4, cancel_copy},
    };
    model_any_step(sorts, sizeof sorts / sizeof sorts[0]);
}

/* ---- a graph ---------------------------------------------------------------------------------- */

static void make_cells(void)
{
    for (int home = 0; home < HOMES; home++) {
        for (int i = 0; i < CELLS_EACH; i++) {
            struct cell *c = &g.cells[home * CELLS_EACH + i];
            leat_pointer_info info;

            if (!g.arena[home])
                continue;
            c->there = true;
            c->home = (enum home)home;
            c->number = i;
            c->ptr = g.arena[home] + (size_t)i * g.words;
            DO(leat_pointer_query(c->ptr, &info));
            c->kernel_ptr = info.device_pointer;
        }
    }
}

/* Gives each cell its first value, from pageable memory, on one stream. */
static void fill_cells(void)
{
    uint64_t *words = malloc(g.words * 8);

    if (!words)
        give_up("no memory");
    for (int i = 0; i < CELLS_FIXED; i++) {
        struct cell *c = &g.cells[i];
        uint64_t value = draw();

        if (!c->there)
            continue;
        for (size_t k = 0; k < g.words; k++)
            words[k] = value;
        DO(leat_copy_sync(g.streams[0].handle, c->ptr, words, g.words * 8));
        advance(&g.streams[0]);
        was_written(c, advance_host(), value);
    }
    DO(leat_stream_synchronize(g.streams[0].handle));
    free(words);
    join(&g.host, &g.streams[0].clock);
}

static void begin_graph(void)
{
    static const size_t sizes[] = {1, 8, 100, 512, 4096, WORDS_MAX};

    model_thread_begin(model_self, 0);
    draw_from(model.seed);
    g.agents = 1;
    g.errand_count = 0;
    g.leftovers = 0;
    memset(&g.host, 0, sizeof g.host);
    memset(g.ended, 0, sizeof g.ended);
    memset(g.cells, 0, sizeof g.cells);
    memset(g.streams, 0, sizeof g.streams);
    memset(g.results, 0, sizeof g.results);
    memset(g.tickets, 0, sizeof g.tickets);
    g.words = sizes[pick(6)];
    g.delays = chance(75);
    note("cells of %zu words, %s", g.words, g.delays ? "with slow work in between" : "without slow work");
    for (int i = 0, count = 2 + pick(STREAMS_MAX - 1); i < count; i++)
        open_stream(&g.streams[i]);
    for (int i = 0; i < EVENTS; i++) {
        struct event *e = &g.events[i];

        memset(e, 0, sizeof *e);
        e->device = g.devices[OTHER] && i % 2 ? OTHER : DEVICE;
        DO(leat_event_create(g.devices[e->device], &e->handle));
    }
    make_cells();
    fill_cells();
}

/* Looks at everything once more, and gives all back. */
static void end_graph(void)
{
    uint64_t *words = malloc(g.words * 8);
    leat_stream *stream;

    if (!words)
        give_up("no memory");
    model_self->step++;
    for (int i = 0; i < TICKETS / 2; i++)
        if (g.tickets[i].handle)
            free_ticket(&g.tickets[i]);
    synchronize_all();
    DO(leat_stream_create(g.devices[DEVICE], &stream));
    for (int i = 0; i < CELLS_MAX; i++) {
        struct cell *c = &g.cells[i];
        struct result now = {.words = words, .expected = c->value, .step = model_self->step};

        if (!c->there)
            continue;
        note("at the end: look at %s", cell_name(c));
        DO(leat_copy_sync(stream, words, c->ptr, g.words * 8));
        look(&now);
        if (i >= CELLS_FIXED)
            DO(leat_memory_free(c->ptr));
    }
    DO(leat_stream_destroy(stream));
    for (int i = 0; i < TICKETS; i++)
        if (g.tickets[i].handle)
            free_ticket(&g.tickets[i]);
    for (int i = 0; i < EVENTS; i++)
        DO(leat_event_destroy(g.events[i].handle));
    for (int i = 0; i < STREAMS_MAX; i++) {
        if (!g.streams[i].there)
            continue;
        DO(leat_stream_destroy(g.streams[i].alias));
        DO(leat_stream_destroy(g.streams[i].handle));
        DO(leat_memory_free(g.streams[i].scratch));
    }
    while (g.leftovers)
        DO(leat_memory_free(g.leftover[--g.leftovers]));
    free(words);
}

static void run_graph(void)
{
    begin_graph();
    for (model_self->step = 1; model_self->step <= model.steps; model_self->step++)
        any_step();
    end_graph();
    g.steps_done += (uint64_t)model.steps;
}

/* ---- the process ------------------------------------------------------------------------------ */

static void set_up(void)
{
    size_t arena_bytes = (size_t)CELLS_EACH * WORDS_MAX * 8;

    g.devices[DEVICE] = model.device;
    g.devices[OTHER] = model.other;
    g.keep_memory = getenv("ORDER_MODEL_KEEP_MEMORY") != NULL;
    /* A step has at most one host function of its own and a few delays. */
    g.errands = calloc((size_t)model.steps * 4 + 16, sizeof *g.errands);
    g.leftover = calloc((size_t)model.steps, sizeof *g.leftover);
    g.arena[PAGEABLE] = malloc(arena_bytes);
    g.arena[REGISTERED] = malloc(arena_bytes);
    g.pageable_results = malloc((size_t)RESULTS_MAX * WORDS_MAX * 8);
    if (!g.pageable_results || !g.errands || !g.leftover || !g.arena[PAGEABLE] || !g.arena[REGISTERED])
        give_up("no memory");
    for (int i = 0; i < 2; i++) {
        leat_module *module;

        if (!g.devices[i])
            continue;
        DO(leat_memory_alloc(g.devices[i], LEAT_KIND_DEVICE, arena_bytes, (void **)&g.arena[i]));
        DO(leat_module_builtin(g.devices[i], &module));
        DO(leat_kernel_get(module, "leat_vector_add_u32", &g.vector_add[i]));
        DO(leat_kernel_get(module, "leat_add_u32", &g.add[i]));
    }
    DO(leat_memory_alloc(g.devices[DEVICE], LEAT_KIND_PINNED, arena_bytes, (void **)&g.arena[PINNED]));
    DO(leat_memory_alloc(g.devices[DEVICE], LEAT_KIND_PINNED, (size_t)RESULTS_MAX * WORDS_MAX * 8,
                         (void **)&g.results_arena));
    DO(leat_register(g.devices[DEVICE], g.arena[REGISTERED], arena_bytes));
}

static void tear_down(void)
{
    DO(leat_unregister(g.arena[REGISTERED]));
    DO(leat_memory_free(g.results_arena));
    DO(leat_memory_free(g.arena[PINNED]));
    DO(leat_memory_free(g.arena[OTHER]));
    DO(leat_memory_free(g.arena[DEVICE]));
    DO(leat_device_close(g.devices[OTHER]));
    DO(leat_device_close(g.devices[DEVICE]));
    free(g.arena[REGISTERED]);
    free(g.arena[PAGEABLE]);
    free(g.pageable_results);
    free(g.errands);
    free(g.leftover);
    model_thread_end(model_self);
}

int main(int argc, char **argv)
{
    long graphs;

    model_begin(argc, argv, "order_model", 150, 0);
    set_up();
    graphs = model_run(run_graph);
    tear_down();
    printf("order_model: %ld graphs, %llu steps, %llu reads saw what they may see\n", graphs,
           (unsigned long long)g.steps_done, (unsigned long long)g.checked);
    return 0;
}
