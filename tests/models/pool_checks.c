/*
 * pool_checks.c - the model of pool_model. It knows which blocks are live and which value a read must have seen,
 * orders steps after earlier accesses, and submits work to streams.
 */
#include "pool_graph.h"

#include <string.h>

/* ---- drawing ---------------------------------------------------------------------------------- */

void begin_step(int step)
{
    w->thread.step = step;
    draw_from(w->seed + (uint64_t)step * 0x9e3779b97f4a7c15u);
}

uint64_t fresh_value(void)
{
    return draw() | 1;
}

leat_stream *handle_of(int stream)
{
    struct stream *s = &w->streams[stream];

    return s->alias && chance(50) ? s->alias : s->handle;
}

int any_stream(void)
{
    return pick(w->stream_count);
}

int near_stream(void)
{
    int first = any_stream();

    for (int i = 0; i < w->stream_count; i++)
        if (!w->streams[(first + i) % w->stream_count].far)
            return (first + i) % w->stream_count;
    give_up("the model itself is wrong: no stream on the device");
}

struct block *any_block(bool sealed_too)
{
    int first = pick(BLOCKS);

    for (int i = 0; i < BLOCKS; i++) {
        struct block *b = &w->blocks[(first + i) % BLOCKS];

        if (b->ptr && (sealed_too || !b->sealed))
            return b;
    }
    return NULL;
}

int index_of(const struct block *b)
{
    return (int)(b - w->blocks);
}

/* ---- live blocks ------------------------------------------------------------------------------ */

void enter_live(const struct block *b)
{
    struct interval fresh = {(uintptr_t)b->ptr, (uintptr_t)b->ptr + b->bytes};
    struct interval other = {0, 0};

    pthread_mutex_lock(&g.lock);
    for (int i = 0; i < g.live_count; i++)
        if (fresh.start < g.live[i].end && g.live[i].start < fresh.end)
            other = g.live[i];
    g.live[g.live_count++] = fresh;
    g.allocations++;
    pthread_mutex_unlock(&g.lock);
    if (other.end)
        give_up("block %d, %p to %p, overlaps a live one, %p to %p", index_of(b), (void *)fresh.start,
                (void *)fresh.end, (void *)other.start, (void *)other.end);
}

void leave_live(const struct block *b)
{
    pthread_mutex_lock(&g.lock);
    for (int i = 0; i < g.live_count; i++)
        if (g.live[i].start == (uintptr_t)b->ptr)
            g.live[i] = g.live[--g.live_count];
    pthread_mutex_unlock(&g.lock);
}

uint64_t in_pages(size_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

uint64_t pages_of(const struct block *b)
{
    uintptr_t start = (uintptr_t)b->ptr;

    return b->pool->has_pages ? in_pages(start % PAGE_BYTES + b->bytes) : in_pages(b->bytes);
}

/* ---- checks of results ------------------------------------------------------------------------ */

void look(struct result *r)
{
    r->used = false;
    w->checked++;
    for (size_t i = 0; i < r->words; i++)
        if (r->seen[i] != r->expected)
            give_up("the read of step %d saw 0x%016llx in word %zu of %zu, and not 0x%016llx", r->step,
                    (unsigned long long)r->seen[i], i, r->words, (unsigned long long)r->expected);
}

void stream_is_done(int stream)
{
    for (int i = 0; i < BLOCKS; i++) {
        struct block *b = &w->blocks[i];

        if (b->writer == stream)
            b->writer = HOST;
        b->readers &= ~(1u << stream);
    }
    for (int i = 0; i < RESULTS; i++)
        if (w->results[i].used && w->results[i].stream == stream)
            look(&w->results[i]);
}

/* ---- making order ----------------------------------------------------------------------------- */

void record(struct event *e, int stream)
{
    note("record event %d on stream %d", (int)(e - w->events), stream);
    DO(leat_event_record(handle_of(stream), e->alias && chance(40) ? e->alias : e->handle));
}

void wait_for(int stream, struct event *e)
{
    note("stream %d waits for event %d", stream, (int)(e - w->events));
    DO(leat_stream_wait(handle_of(stream), e->alias && chance(40) ? e->alias : e->handle));
}

void open_event(struct event *e, bool far)
{
    void *native;

    memset(e, 0, sizeof *e);
    e->far = far;
    DO(leat_event_create(far ? model.other : model.device, &e->handle));
    if (!far && chance(25)) {
        DO(leat_event_native(e->handle, &native));
        DO(leat_event_wrap(model.device, native, &e->alias));
        /* Record the event through the first handle, so that leat knows a record of this handle and none of the
         * alias. */
        DO(leat_event_record(w->streams[near_stream()].handle, e->handle));
    }
}

static void renew_event(struct event *e)
{
    note("destroy event %d and create it anew", (int)(e - w->events));
    DO(leat_event_destroy(e->alias));
    DO(leat_event_destroy(e->handle));
    open_event(e, e->far);
}

struct event *event_for(int stream)
{
    int first = pick(EVENTS);

    for (int i = 0; i < EVENTS; i++)
        if (w->events[(first + i) % EVENTS].far == w->streams[stream].far)
            return &w->events[(first + i) % EVENTS];
    give_up("the model itself is wrong: no event of that device");
}

void disturb(struct event *e)
{
    if (chance(25)) {
        int stream = any_stream();

        if (w->streams[stream].far == e->far)
            record(e, stream);
    } else if (chance(15)) {
        renew_event(e);
    }
}

void host_waits_for(int stream)
{
    struct event *e = event_for(stream);

    switch (pick(3)) {
    case 0:
        note("synchronize stream %d", stream);
        DO(leat_stream_synchronize(handle_of(stream)));
        break;
    case 1:
        record(e, stream);
        note("synchronize event %d", (int)(e - w->events));
        DO(leat_event_synchronize(e->handle));
        break;
    default: {
        leat_status status;

        note("query stream %d until it is ready", stream);
        while ((status = leat_stream_query(handle_of(stream))) == LEAT_NOT_READY)
            continue;
        DO(status);
        break;
    }
    }
    stream_is_done(stream);
}

void stream_after(int stream, int earlier)
{
    struct event *e;

    if (earlier == HOST || earlier == stream)
        return;
    if (chance(12)) {
        host_waits_for(earlier);
        return;
    }
    e = event_for(earlier);
    record(e, earlier);
    wait_for(stream, e);
    disturb(e);
}

void come_after_users(int agent, struct block *b, bool write)
{
    for (int s = 0; s < w->stream_count; s++) {
        if (s == agent || (b->writer != s && !(write && b->readers >> s & 1)))
            continue;
        if (agent == HOST)
            host_waits_for(s);
        else
            stream_after(agent, s);
    }
}

void was_written(struct block *b, int agent, uint64_t value)
{
    b->writer = agent;
    b->readers = 0;
    b->value = value;
    b->filled = b->used = true;
}

static void was_read(struct block *b, int stream)
{
    b->readers |= 1u << stream;
    b->used = true;
}

/* ---- work ------------------------------------------------------------------------------------- */

static void be_slow(void *microseconds)
{
    test_sleep_us((long)(intptr_t)microseconds);
}

void delay(int stream, int percent)
{
    intptr_t microseconds;

    if (!w->delays || !chance(percent))
        return;
    microseconds = 50 + pick(chance(15) ? 4000 : 900);
    note("stream %d sleeps %d us", stream, (int)microseconds);
    DO(leat_launch_host(handle_of(stream), be_slow, (void *)microseconds));
}

void fill_with(struct block *b, int stream)
{
    uint64_t value = fresh_value();
    int size = pick(3);

    if (size == 0)
        value = (value & 0xff) * 0x0101010101010101u;
    else if (size == 1)
        value = (value & 0xffffffff) * 0x0000000100000001u;
    note("stream %d fills block %d with 0x%016llx", stream, index_of(b), (unsigned long long)value);
    if (size == 0)
        DO(leat_fill(handle_of(stream), b->ptr, (uint8_t)value, b->bytes));
    else
        DO(leat_fill_pattern(handle_of(stream), b->ptr, &value, size == 1 ? 4 : 8, b->bytes));
    was_written(b, stream, value);
}

/* Returns a free entry for a result. If there is none, the host waits until one is free. */
static struct result *new_result(void)
{
    struct result *oldest = &w->results[pick(RESULTS)];

    for (int i = 0; i < RESULTS; i++) {
        if (w->results[i].used)
            continue;
        return &w->results[i];
    }
    note("no place for a result: synchronize the device");
    DO(leat_device_synchronize(model.device));
    if (model.other)
        DO(leat_device_synchronize(model.other));
    for (int i = 0; i < w->stream_count; i++)
        stream_is_done(i);
    for (int i = 0; i < RESULTS; i++)
        if (w->results[i].used)
            look(&w->results[i]);
    return oldest;
}

void read_piece(struct block *b, int stream)
{
    struct result *r = new_result();
    size_t words = b->bytes / 8, most = words < RESULT_WORDS ? words : RESULT_WORDS, first;

    r->seen = w->arena + (size_t)(r - w->results) * RESULT_WORDS;
    r->words = chance(50) ? most : 1 + (size_t)draw() % most;
    first = chance(40) ? 0 : chance(50) ? words - r->words : (size_t)draw() % (words - r->words + 1);
    for (size_t i = 0; i < r->words; i++)
        r->seen[i] = 0xbadbadbadbadbadbu;
    r->used = true;
    r->stream = stream;
    r->expected = b->value;
    r->step = w->thread.step;
    note("stream %d reads block %d, 0x%016llx", stream, index_of(b), (unsigned long long)b->value);
    DO(leat_copy(handle_of(stream), r->seen, b->ptr + first, r->words * 8));
    was_read(b, stream);
}
