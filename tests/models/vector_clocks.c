/*
 * vector_clocks.c - the model of order_model: vector clocks, checks of results, waits of the host, and how the
 * model orders a step after earlier accesses.
 */
#include "clock_graph.h"

#include <string.h>

/* ---- clocks ----------------------------------------------------------------------------------- */

void join(struct clock *into, const struct clock *from)
{
    for (int i = 0; i < AGENTS_MAX; i++)
        if (from->at[i] > into->at[i])
            into->at[i] = from->at[i];
}

static bool covers(const struct clock *clock, struct moment moment)
{
    return clock->at[moment.agent] >= moment.tick;
}

/* Joins the host's clock into a stream's clock, as the stream's next work will. Returns the stream's clock. */
static const struct clock *coming(struct stream *s)
{
    join(&s->clock, &g.host);
    return &s->clock;
}

struct moment advance(struct stream *s)
{
    join(&s->clock, &g.host);
    return (struct moment){s->agent, ++s->clock.at[s->agent]};
}

struct moment advance_host(void)
{
    return (struct moment){HOST, ++g.host.at[HOST]};
}

/* ---- checks of results ------------------------------------------------------------------------ */

void look(struct result *result)
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

void look_at_results(const struct clock *clock)
{
    for (int i = 0; i < RESULTS_MAX; i++)
        if (g.results[i].used && covers(clock, g.results[i].done))
            look(&g.results[i]);
}

leat_stream *handle_of(const struct stream *s)
{
    return s->alias && chance(50) ? s->alias : s->handle;
}

/* ---- the host waits --------------------------------------------------------------------------- */

int index_of(const struct stream *s)
{
    return (int)(s - g.streams);
}

void synchronize_stream(struct stream *s)
{
    if (chance(50)) {
        note("synchronize stream %d", index_of(s));
        DO(leat_stream_synchronize(handle_of(s)));
    } else {
        leat_stream *handle = handle_of(s); /* drawn once, however long the wait takes */
        leat_status status;

        note("query stream %d until it is ready", index_of(s));
        while ((status = leat_stream_query(handle)) == LEAT_NOT_READY)
            continue;
        DO(status);
    }
    join(&g.host, &s->clock);
    look_at_results(&g.host);
}

void synchronize_event(struct event *e)
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

void synchronize_device(enum home device)
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

void synchronize_all(void)
{
    for (int i = 0; i < 2; i++)
        if (g.devices[i])
            synchronize_device((enum home)i);
}

void ask(void)
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

void record(struct event *e, struct stream *s)
{
    note("record event %d on stream %d", (int)(e - g.events), index_of(s));
    DO(leat_event_record(handle_of(s), e->handle));
    e->recorded = true;
    e->clock = *coming(s);
}

void wait_for(struct stream *s, struct event *e)
{
    note("stream %d waits for event %d", index_of(s), (int)(e - g.events));
    DO(leat_stream_wait(handle_of(s), e->handle));
    if (e->recorded)
        join(&s->clock, &e->clock);
}

void renew_event(struct event *e)
{
    note("destroy event %d and create it anew", (int)(e - g.events));
    DO(leat_event_destroy(e->handle));
    DO(leat_event_create(g.devices[e->device], &e->handle));
    e->recorded = false;
}

/* Returns an event that was recorded after the access at moment, in the happens-before order, or NULL. */
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

struct event *event_of_device(enum home device)
{
    int first = pick(EVENTS);

    for (int i = 0; i < EVENTS; i++)
        if (g.events[(first + i) % EVENTS].device == device)
            return &g.events[(first + i) % EVENTS];
    return NULL;
}

/* Orders the host after the access at moment. */
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

/* Orders the next work of s after the access at moment. */
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
        /* Sometimes record the event twice. The first record, which no stream waits for, must have no effect. */
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

void host_may(struct cell *c, bool write)
{
    host_after(c->write);
    for (int agent = 1; write && agent < g.agents; agent++)
        if (c->read_tick[agent])
            host_after((struct moment){agent, c->read_tick[agent]});
}

void stream_may(struct stream *s, struct cell *c, bool write)
{
    stream_after(s, c->write);
    for (int agent = 1; write && agent < g.agents; agent++)
        if (c->read_tick[agent])
            stream_after(s, (struct moment){agent, c->read_tick[agent]});
}

void was_read(struct cell *c, struct moment now)
{
    c->read_tick[now.agent] = now.tick;
}

void was_written(struct cell *c, struct moment now, uint64_t value)
{
    c->write = now;
    memset(c->read_tick, 0, sizeof c->read_tick);
    c->value = value;
}
