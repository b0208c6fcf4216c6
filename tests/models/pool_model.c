/*
 * pool_model.c - random programs that allocate, use and free blocks of several pools on several streams, against a
 * model of who may have which memory.
 *
 * The model. Each live block has a value that fills it, the stream that wrote it last, and the streams that read
 * it since then. Before a stream uses a block it is made to come after those, by events or by a host that waits;
 * before a block is freed, the freeing stream comes after them, or the pool is told of them (leat_pool_use,
 * leat_pool_use_until). A block that nobody used is freed anywhere without any of that. So the program keeps the
 * rules of leat/pool.h, and the value that a read brings is known. Two things can go wrong: two live blocks
 * overlap, which is looked at when a block comes; or a pool hands memory out while work of its last owner is still
 * on its way. Slow work stands in front of many reads and writes, also of the last ones before a free, so that
 * such work lands in the next owner's block, or finds the next owner's value.
 *
 * Pools are small, so that streams take each other's memory all the time. Choices of a step are drawn anew from
 * the seed and the step's number, because what a pool answers depends on how quick the machine is.
 *
 * Some graphs have several threads, each with blocks and streams of its own, on the same pools. A failure prints
 * the steps of its thread, and the arguments that make the graph again.
 *
 *     pool_model [--seed N] [--graphs N] [--seconds N] [--steps N] [--threads N] [--device NAME] [--verbose]
 */
#include "harness.h"
#include "model.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HOST = -1, /* a place among the streams: done, as far as the host knows */
    STREAMS_MAX = 6,
    EVENTS = 6,
    BLOCKS = 24,
    POOLS = 4,
    RESULTS = 48,
    RESULT_WORDS = 1024,
    THREADS_MAX = 16,
    PAGE_BYTES = 2 << 20,
    PLANNED_MAX = 30,
    PLAN_PATH = 40
};

struct stream {
    leat_stream *handle, *alias; /* alias: the same stream, wrapped; or NULL */
    bool far;                    /* of the other device: it may read blocks, and that is all */
};

struct event {
    leat_event *handle, *alias;
    bool far;
};

struct pool {
    leat_pool *handle;
    char words[128];
    leat_kind kind;
    uint64_t limit_bytes, most_bytes; /* most: the highest limit so far; 0: none */
    bool has_pages;              /* pages that lie apart make one block: requests fit whatever the sizes were */
    atomic_uint_least64_t pages; /* in bytes: of live blocks, each rounded up */
    size_t planned[PLANNED_MAX]; /* the sizes of the first list of its plan */
    int planned_count;           /* 0: it has no plan */
    atomic_uint planned_next;
};

struct block {
    uint64_t *ptr; /* NULL: there is none */
    size_t bytes;
    struct pool *pool;
    uint64_t value;
    bool filled; /* it holds value */
    bool used;   /* some work used it */
    bool sealed; /* its last users cannot be waited for any more, but the pool knows of them: it may be freed */
    int writer;  /* a stream, or HOST */
    unsigned readers; /* a bit for each stream */
    unsigned told;    /* streams that the pool was told of */
};

/* What a read brought, to be looked at once its stream was waited for. */
struct result {
    bool used;
    int stream;
    size_t words;
    uint64_t *seen, expected;
    int step;
};

/* One thread's program. */
struct worker {
    struct model_thread thread;
    uint64_t seed;
    int stream_count;
    struct stream streams[STREAMS_MAX];
    struct event events[EVENTS];
    struct block blocks[BLOCKS];
    struct result results[RESULTS];
    uint64_t *arena; /* pinned: RESULTS times RESULT_WORDS */
    bool delays;
    uint64_t checked;
};

/* A live block of any thread. */
struct interval {
    uintptr_t start, end;
};

static struct {
    bool virtual_memory, managed_memory;
    struct pool pools[POOLS];
    struct worker workers[THREADS_MAX];
    pthread_mutex_t lock; /* guards the live blocks */
    struct interval live[THREADS_MAX * BLOCKS];
    int live_count;
    uint64_t allocations, refusals;
} g = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The program of this thread. */
static _Thread_local struct worker *w;

/* ---- drawing ---------------------------------------------------------------------------------- */

/* What a pool answered before has no say in what the next step draws. */
static void begin_step(int step)
{
    w->thread.step = step;
    draw_from(w->seed + (uint64_t)step * 0x9e3779b97f4a7c15u);
}

/* A value that no other block has. */
static uint64_t fresh_value(void)
{
    return draw() | 1;
}

static leat_stream *handle_of(int stream)
{
    struct stream *s = &w->streams[stream];

    return s->alias && chance(50) ? s->alias : s->handle;
}

static int any_stream(void)
{
    return pick(w->stream_count);
}

/* A stream of the pools' device. The first one always is. */
static int near_stream(void)
{
    int first = any_stream();

    for (int i = 0; i < w->stream_count; i++)
        if (!w->streams[(first + i) % w->stream_count].far)
            return (first + i) % w->stream_count;
    give_up("the model itself is wrong: no stream on the device");
}

/* A block that is there and can be used, or NULL. */
static struct block *any_block(bool sealed_too)
{
    int first = pick(BLOCKS);

    for (int i = 0; i < BLOCKS; i++) {
        struct block *b = &w->blocks[(first + i) % BLOCKS];

        if (b->ptr && (sealed_too || !b->sealed))
            return b;
    }
    return NULL;
}

static int index_of(const struct block *b)
{
    return (int)(b - w->blocks);
}

/* ---- live blocks ------------------------------------------------------------------------------ */

static void enter_live(const struct block *b)
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

/* Before the block is freed: afterwards another thread may have its memory. */
static void leave_live(const struct block *b)
{
    pthread_mutex_lock(&g.lock);
    for (int i = 0; i < g.live_count; i++)
        if (g.live[i].start == (uintptr_t)b->ptr)
            g.live[i] = g.live[--g.live_count];
    pthread_mutex_unlock(&g.lock);
}

static uint64_t in_pages(size_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* The pages that a block touches: one more than it needs, where it lies across an end of one. */
static uint64_t pages_of(const struct block *b)
{
    uintptr_t start = (uintptr_t)b->ptr;

    return b->pool->has_pages ? in_pages(start % PAGE_BYTES + b->bytes) : in_pages(b->bytes);
}

/* ---- looking at results ----------------------------------------------------------------------- */

static void look(struct result *r)
{
    r->used = false;
    w->checked++;
    for (size_t i = 0; i < r->words; i++)
        if (r->seen[i] != r->expected)
            give_up("the read of step %d saw 0x%016llx in word %zu of %zu, and not 0x%016llx", r->step,
                    (unsigned long long)r->seen[i], i, r->words, (unsigned long long)r->expected);
}

/* The host knows that all work of a stream so far is done. */
static void stream_is_done(int stream)
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

static void record(struct event *e, int stream)
{
    note("record event %d on stream %d", (int)(e - w->events), stream);
    DO(leat_event_record(e->alias && chance(40) ? e->alias : e->handle, handle_of(stream)));
}

static void wait_for(int stream, struct event *e)
{
    note("stream %d waits for event %d", stream, (int)(e - w->events));
    DO(leat_stream_wait(handle_of(stream), e->alias && chance(40) ? e->alias : e->handle));
}

static void open_event(struct event *e, bool far)
{
    void *native;

    memset(e, 0, sizeof *e);
    e->far = far;
    DO(leat_event_create(far ? model.other : model.device, &e->handle));
    if (!far && chance(25)) {
        DO(leat_event_native(e->handle, &native));
        DO(leat_event_wrap(model.device, native, &e->alias));
        /* To leat the wrapped one was recorded, and the other was not. */
        DO(leat_event_record(e->handle, w->streams[near_stream()].handle));
    }
}

static void renew_event(struct event *e)
{
    note("destroy event %d and create it anew", (int)(e - w->events));
    DO(leat_event_destroy(e->alias));
    DO(leat_event_destroy(e->handle));
    open_event(e, e->far);
}

static struct event *event_for(int stream)
{
    int first = pick(EVENTS);

    for (int i = 0; i < EVENTS; i++)
        if (w->events[(first + i) % EVENTS].far == w->streams[stream].far)
            return &w->events[(first + i) % EVENTS];
    give_up("the model itself is wrong: no event of that device");
}

/* What has nothing to do with what the events are used for: marks that are moved, waits for old ones. */
static void disturb(struct event *e)
{
    if (chance(25)) {
        int stream = any_stream();

        if (w->streams[stream].far == e->far)
            record(e, stream);
    } else if (chance(15)) {
        renew_event(e);
    }
}

static void host_waits_for(int stream)
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

/* New work of a stream comes after all that another one, or the host, was given so far. */
static void stream_after(int stream, int earlier)
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

/* A stream, or the host, comes after the block's last write, and after all reads since if it is to write. */
static void come_after_users(int agent, struct block *b, bool write)
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

static void was_written(struct block *b, int agent, uint64_t value)
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

/* Puts slow work in front of what comes next on a stream. */
static void delay(int stream, int percent)
{
    intptr_t microseconds;

    if (!w->delays || !chance(percent))
        return;
    microseconds = 50 + pick(chance(15) ? 4000 : 900);
    note("stream %d sleeps %d us", stream, (int)microseconds);
    DO(leat_launch_host(handle_of(stream), be_slow, (void *)microseconds));
}

static void fill_with(struct block *b, int stream)
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

/* A free place for a result; when there is none the host waits for one. */
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

/* Copies a piece of a block that holds its value, most often one of its ends. */
static void read_piece(struct block *b, int stream)
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

/* ---- steps: use ------------------------------------------------------------------------------- */

static void write_block(void)
{
    struct block *b = any_block(false);
    int stream = b && b->writer >= 0 && !w->streams[b->writer].far && chance(70) ? b->writer : near_stream();

    if (!b)
        return;
    come_after_users(stream, b, true);
    delay(stream, 30);
    fill_with(b, stream);
}

static void read_block(void)
{
    struct block *b = any_block(false);
    int stream = b && b->writer >= 0 && chance(50) ? b->writer : any_stream();

    if (!b || !b->filled)
        return;
    come_after_users(stream, b, false);
    delay(stream, 35);
    read_piece(b, stream);
}

/* The host has pinned blocks at hand, once their work is done. */
static void host_access(struct block *b)
{
    bool write = !b->filled || chance(60);

    come_after_users(HOST, b, write);
    note("the host %s block %d", write ? "writes" : "reads", index_of(b));
    if (write) {
        uint64_t value = fresh_value();

        for (size_t i = 0; i < b->bytes / 8; i++)
            b->ptr[i] = value;
        was_written(b, HOST, value);
        return;
    }
    w->checked++;
    for (size_t i = 0; i < b->bytes / 8; i++)
        if (b->ptr[i] != b->value)
            give_up("the host saw 0x%016llx in word %zu of block %d, and not 0x%016llx",
                    (unsigned long long)b->ptr[i], i, index_of(b), (unsigned long long)b->value);
}

static void host_access_any(void)
{
    struct block *b = any_block(false);

    if (b && b->pool->kind == LEAT_KIND_PINNED && b->bytes <= 1 << 18)
        host_access(b);
}

static void tell_of(struct block *b, int stream)
{
    note("tell the pool that stream %d uses block %d", stream, index_of(b));
    DO(leat_pool_use(b->ptr, handle_of(stream)));
    b->told |= 1u << stream;
}

/* Ahead of time: what counts is what the stream was given when the block is freed. */
static void tell_early(void)
{
    struct block *b = any_block(false);

    if (b)
        tell_of(b, any_stream());
}

/* ---- steps: free ------------------------------------------------------------------------------ */

/* The work of one user is known to the pool, or the freeing stream comes after it. */
static void settle_user(struct block *b, int user, int stream)
{
    struct event *e;

    if (user == stream || b->told >> user & 1)
        return;
    if (chance(40)) {
        stream_after(stream, user);
    } else if (chance(60)) {
        tell_of(b, user);
    } else {
        e = event_for(user);
        record(e, user);
        note("block %d is used until event %d", index_of(b), (int)(e - w->events));
        DO(leat_pool_use_until(b->ptr, chance(80) || !e->alias ? e->handle : e->alias));
        disturb(e);
    }
}

static void forget(struct block *b)
{
    leave_live(b);
    atomic_fetch_sub(&b->pool->pages, pages_of(b));
}

static void free_by_host(struct block *b)
{
    if (b->used)
        come_after_users(HOST, b, true);
    note("the host frees block %d%s", index_of(b), b->used ? "" : ", which nobody used");
    forget(b);
    DO(leat_memory_free(b->ptr));
    b->ptr = NULL;
}

static void free_block(struct block *b)
{
    int stream = near_stream();

    if (b->writer >= 0 && !w->streams[b->writer].far && chance(50))
        stream = b->writer;
    if (!b->sealed && chance(8)) {
        free_by_host(b);
        return;
    }
    if (b->used || chance(50)) {
        for (int s = 0; s < w->stream_count; s++)
            if (b->writer == s || b->readers >> s & 1)
                settle_user(b, s, stream);
    }
    note("stream %d frees block %d%s", stream, index_of(b), b->used ? "" : ", which nobody used");
    forget(b);
    DO(leat_free(handle_of(stream), b->ptr));
    b->ptr = NULL;
}

/* The last work on a block: late, so that it is still on its way when the block is gone. */
static void part_from(struct block *b)
{
    int stream = b->writer >= 0 && !w->streams[b->writer].far && chance(60) ? b->writer : near_stream();

    if (b->sealed)
        return;
    if (b->filled && chance(60)) {
        int reader = chance(40) ? any_stream() : stream;

        come_after_users(reader, b, false);
        delay(reader, 80);
        read_piece(b, reader);
    }
    if (chance(75)) {
        come_after_users(stream, b, true);
        delay(stream, 80);
        fill_with(b, stream);
    }
}

static void free_any(void)
{
    struct block *b = any_block(true);

    if (!b)
        return;
    if (chance(50))
        part_from(b);
    free_block(b);
}

/* ---- steps: allocate -------------------------------------------------------------------------- */

static size_t any_size(void)
{
    static const int most[] = {60, 500, 8000, 60000, 130000, 260000, 700000};
    size_t words = 1 + (size_t)draw() % (size_t)most[pick(7)];

    /* Often one of a few sizes, so that blocks fit exactly. */
    if (chance(50))
        words = (size_t[]){64, 512, 8192, 131072, 262144, 524288}[pick(6)];
    return words * 8;
}

/* A size for one of this pool's blocks: often the next one of its plan. */
static size_t any_size_of(struct pool *p)
{
    if (!p->planned_count || chance(35))
        return any_size();
    return p->planned[atomic_fetch_add(&p->planned_next, 1) % (unsigned)p->planned_count];
}

/* A pool may refuse what its limit does not hold, and what other threads are in the way of. */
static void expect_refusal(struct pool *p, leat_status status, size_t bytes)
{
    uint64_t pages = atomic_load(&p->pages);

    if (status != LEAT_ERROR_DEVICE_MEMORY && status != LEAT_ERROR_HOST_MEMORY)
        give_up("an allocation of %zu bytes from pool %d returned %s: %s", bytes, (int)(p - g.pools),
                leat_status_name(status), leat_last_error());
    if (model.threads > 1 || (!p->has_pages && pages))
        return;
    if (!p->limit_bytes || pages + in_pages(bytes) <= p->limit_bytes)
        give_up("pool %d refuses %zu bytes, though its live blocks take %llu of %llu at most: %s",
                (int)(p - g.pools), bytes, (unsigned long long)pages, (unsigned long long)p->limit_bytes,
                leat_last_error());
}

/* A block of these bytes; NULL where the pool has no room. host: without a stream. */
static struct block *new_block(struct pool *p, size_t bytes, int stream, bool host)
{
    struct block *b = NULL;
    leat_status status;
    void *ptr = NULL;

    for (int i = 0; i < BLOCKS && !b; i++)
        if (!w->blocks[i].ptr)
            b = &w->blocks[i];
    if (!b)
        return NULL;
    status = leat_pool_alloc(p->handle, host ? NULL : handle_of(stream), bytes, &ptr);
    note("%s %d allocates block %d of %zu bytes from pool %d: %p", host ? "the host" : "stream", host ? 0 : stream,
         index_of(b), bytes, (int)(p - g.pools), ptr);
    if (status != LEAT_OK) {
        expect_refusal(p, status, bytes);
        pthread_mutex_lock(&g.lock);
        g.refusals++;
        pthread_mutex_unlock(&g.lock);
        return NULL;
    }
    *b = (struct block){.ptr = ptr, .bytes = bytes, .pool = p, .writer = host ? HOST : stream};
    atomic_fetch_add(&p->pages, pages_of(b));
    enter_live(b);
    return b;
}

/* Most blocks are filled at once, before late work of their last owner can be done. */
static void begin_with(struct block *b, int stream, bool host)
{
    if (host && b->pool->kind == LEAT_KIND_PINNED && b->bytes <= 1 << 18 && chance(70)) {
        host_access(b);
        return;
    }
    if (chance(12))
        return;
    delay(stream, 10);
    fill_with(b, stream);
    if (!chance(50))
        return;
    delay(stream, 50);
    read_piece(b, stream);
}

static void allocate(void)
{
    int stream = near_stream();
    bool host = chance(12);
    struct pool *p = &g.pools[pick(POOLS)];
    struct block *b = new_block(p, any_size_of(p), stream, host);

    if (b)
        begin_with(b, stream, host);
}

/* A block goes, with work still on its way, and one of the same or another size comes from the same pool at once.
 */
static void hand_over(void)
{
    struct block *b = any_block(true);
    int stream = near_stream();
    bool host = chance(12);
    struct pool *p;
    size_t bytes;

    if (!b)
        return;
    p = b->pool;
    bytes = chance(75) ? b->bytes : any_size_of(p);
    part_from(b);
    free_block(b);
    b = new_block(p, bytes, stream, host);
    if (b)
        begin_with(b, stream, host);
}

/* ---- steps: the rest -------------------------------------------------------------------------- */

static void open_stream(struct stream *s, bool far)
{
    void *native;

    memset(s, 0, sizeof *s);
    s->far = far;
    DO(leat_stream_create(far ? model.other : model.device, &s->handle));
    if (chance(30)) {
        DO(leat_stream_native(s->handle, &native));
        DO(leat_stream_wrap(far ? model.other : model.device, native, &s->alias));
    }
}

/* Before a stream ends: another one stands in for it, or the pool knows of it and the block can only be freed. */
static void replace_user(struct block *b, int gone)
{
    int stand_in = near_stream();

    if (!(b->told >> gone & 1) && stand_in != gone && chance(50)) {
        stream_after(stand_in, gone);
        if (b->writer == gone)
            b->writer = stand_in;
        if (b->readers >> gone & 1)
            b->readers |= 1u << stand_in;
    } else if (b->used) {
        if (!(b->told >> gone & 1))
            tell_of(b, gone);
        b->sealed = true;
        if (b->writer == gone)
            b->writer = HOST;
    } else {
        /* Nobody used it, and its stream is gone: nobody can come after its allocation. */
        b->sealed = true;
        b->writer = HOST;
    }
}

/* Ends a stream with its work still queued, and makes another in its place. */
static void renew_stream(void)
{
    int gone = any_stream();
    struct stream *s = &w->streams[gone];

    for (int i = 0; i < BLOCKS; i++) {
        struct block *b = &w->blocks[i];

        if (b->ptr && (b->writer == gone || b->readers >> gone & 1))
            replace_user(b, gone);
        b->readers &= ~(1u << gone);
        b->told &= ~(1u << gone);
    }
    for (int i = 0; i < RESULTS; i++)
        if (w->results[i].used && w->results[i].stream == gone)
            w->results[i].stream = HOST;
    note("destroy stream %d and create it anew", gone);
    DO(leat_stream_destroy(s->alias));
    DO(leat_stream_destroy(s->handle));
    open_stream(s, gone && model.other && chance(20));
}

static void record_any(void)
{
    int stream = any_stream();

    record(event_for(stream), stream);
}

static void wait_for_any(void)
{
    wait_for(any_stream(), &w->events[pick(EVENTS)]);
}

/* A single question, which changes nothing in the model. */
static void ask(void)
{
    leat_status status;

    if (chance(50)) {
        int stream = any_stream();

        status = leat_stream_query(handle_of(stream));
        note("query stream %d: %s", stream, leat_status_name(status));
    } else {
        int event = pick(EVENTS);

        status = leat_event_query(w->events[event].handle);
        note("query event %d: %s", event, leat_status_name(status));
    }
    if (status != LEAT_NOT_READY)
        DO(status);
}

static void synchronize_any(void)
{
    if (chance(80)) {
        host_waits_for(any_stream());
        return;
    }
    note("synchronize the device");
    DO(leat_device_synchronize(model.device));
    for (int i = 0; i < w->stream_count; i++)
        if (!w->streams[i].far)
            stream_is_done(i);
}

static void trim(void)
{
    struct pool *p = &g.pools[pick(POOLS)];
    uint64_t keep_bytes = chance(50) ? 0 : draw() % (16 << 20);

    note("trim pool %d to %llu bytes", (int)(p - g.pools), (unsigned long long)keep_bytes);
    if (chance(30))
        DO(leat_pool_trim_idle(p->handle, (uint64_t)pick(3), NULL, NULL));
    else
        DO(leat_pool_trim(p->handle, keep_bytes, NULL, NULL));
}

/* A soft limit makes the pool give memory back by itself. The hard one stays where several threads go by it. */
static void change_limits(void)
{
    struct pool *p = &g.pools[pick(POOLS)];
    uint64_t limit = p->limit_bytes, soft;
    leat_status status;

    if (limit && model.threads == 1 && chance(50))
        limit = (uint64_t)(6 + pick(26)) << 20;
    soft = chance(40) ? 0 : 1 + draw() % (limit ? limit : 64 << 20);
    status = leat_pool_set_limits(p->handle, limit, soft);
    note("pool %d has a limit of %llu bytes, and a soft one of %llu: %s", (int)(p - g.pools),
         (unsigned long long)limit, (unsigned long long)soft, leat_status_name(status));
    /* What is in use, or has work on its way, may be more. */
    if (status == LEAT_ERROR_BUSY && limit < p->limit_bytes)
        return;
    DO(status);
    if (limit == p->limit_bytes)
        return; /* always so beside other threads, which read both */
    p->limit_bytes = limit;
    p->most_bytes = limit > p->most_bytes ? limit : p->most_bytes;
}

/* Called by a pool that is full: gives one block back, or gives up. */
static int make_room(void *argument, leat_pool *pool, uint64_t bytes)
{
    struct block *b = any_block(true);

    (void)argument, (void)pool;
    note("no room for %llu bytes", (unsigned long long)bytes);
    if (!b || chance(40))
        return 0;
    free_block(b);
    return 1;
}

static void any_step(void)
{
    static const struct model_sort sorts[] = {
        {14, allocate},  {22, hand_over},      {12, free_any},     {8, write_block},  {18, read_block},
        {4, tell_early}, {4, host_access_any}, {4, record_any},    {3, wait_for_any}, {5, ask},
        {2, trim},       {1, synchronize_any}, {1, change_limits}, {2, renew_stream},
    };
    model_any_step(sorts, sizeof sorts / sizeof sorts[0]);
}

/* ---- a graph ---------------------------------------------------------------------------------- */

/*
 * A plan with places that overlap at random, so that it is wrong most of the time: whether a place is free is the
 * pool's business. The pool's requests keep to its first list for a while.
 */
static void write_plan(struct pool *p, char path[PLAN_PATH])
{
    uint64_t arena_bytes = (uint64_t)(6 + pick(12)) << 20;
    int lists = 1 + pick(3), descriptor;
    FILE *file;

    snprintf(path, PLAN_PATH, "/tmp/pool_model_plan_XXXXXX");
    descriptor = mkstemp(path);
    file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    if (!file)
        give_up("no file for a plan");
    fprintf(file, "leat-plan 1\nbytes %llu\n", (unsigned long long)arena_bytes);
    for (int list = 0; list < lists; list++) {
        int count = 2 + pick(PLANNED_MAX - 1);

        fprintf(file, "stream %d\n", count);
        for (int i = 0; i < count; i++) {
            size_t bytes = chance(60) ? (size_t)(1 + pick(4)) << 20 : (1 << 20) + 512 * (size_t)pick(6000);

            fprintf(file, "%zu %llu\n", bytes, (unsigned long long)pick((int)((arena_bytes - bytes) / 512)) * 512);
            if (!list)
                p->planned[i] = bytes;
        }
        if (!list)
            p->planned_count = count;
    }
    if (fclose(file))
        give_up("a plan could not be written");
}

static void open_pool(struct pool *p, int number)
{
    char plan[PLAN_PATH] = "";
    leat_pool_options options = {.size = sizeof options, .reuse = (leat_pool_reuse)pick(3)};
    int sort = pick(10);

    memset(p, 0, sizeof *p);
    /* Two device pools in each graph; the others are of any sort. */
    if (number >= 2 && sort < 2)
        options.no_virtual_memory = 1;
    else if (number >= 2 && sort < 5)
        options.kind = LEAT_KIND_PINNED;
    else if (number >= 2 && sort < 7 && g.virtual_memory)
        options.dedicated = 1;
    else if (number >= 2 && sort == 7 && g.managed_memory)
        options.kind = LEAT_KIND_MANAGED;
    if (chance(75))
        options.limit_bytes = (uint64_t)(6 + pick(26)) << 20;
    options.scrub = chance(10);
    options.guard = chance(8);
    options.history = chance(20) ? 64 : 0;
    options.packing = (leat_pool_packing)pick(3);
    if (!options.kind && !options.no_virtual_memory && !options.dedicated && g.virtual_memory && chance(50)) {
        write_plan(p, plan);
        options.plan = plan;
    }
    p->kind = options.kind ? options.kind : LEAT_KIND_DEVICE;
    p->limit_bytes = p->most_bytes = options.limit_bytes;
    p->has_pages = p->kind == LEAT_KIND_DEVICE && g.virtual_memory && !options.no_virtual_memory &&
                   !options.guard && options.packing != LEAT_POOL_STILL;
    snprintf(p->words, sizeof p->words, "%s%s%s%s%s%s, policy %d, packing %d, limit %llu", leat_kind_name(p->kind),
             options.no_virtual_memory ? ", plain" : "", options.dedicated ? ", one handle" : "",
             options.scrub ? ", scrubbed" : "", options.guard ? ", guarded" : "", options.plan ? ", planned" : "",
             (int)options.reuse, (int)options.packing, (unsigned long long)options.limit_bytes);
    note("pool %d: %s", number, p->words);
    DO(leat_pool_create(model.device, &options, &p->handle));
    if (options.plan)
        unlink(plan);
    if (chance(25))
        DO(leat_pool_on_full(p->handle, make_room, NULL));
}

static void begin_worker(void)
{
    begin_step(0);
    for (int i = 0; w->thread.number && i < POOLS; i++)
        note("pool %d: %s", i, g.pools[i].words);
    memset(w->blocks, 0, sizeof w->blocks);
    memset(w->results, 0, sizeof w->results);
    w->delays = chance(85);
    w->stream_count = 2 + pick(STREAMS_MAX - 1);
    note("%d streams, %s", w->stream_count, w->delays ? "with slow work in between" : "without slow work");
    for (int i = 0; i < w->stream_count; i++)
        open_stream(&w->streams[i], i && model.other && chance(15));
    for (int i = 0; i < EVENTS; i++)
        open_event(&w->events[i], model.other && i >= EVENTS - 2);
}

/* Looks at everything once more, and gives all back. */
static void end_worker(void)
{
    begin_step(w->thread.step + 1);
    for (int i = 0; i < BLOCKS; i++)
        if (w->blocks[i].ptr && w->blocks[i].filled && !w->blocks[i].sealed) {
            int stream = near_stream();

            come_after_users(stream, &w->blocks[i], false);
            read_piece(&w->blocks[i], stream);
        }
    DO(leat_device_synchronize(model.device));
    if (model.other)
        DO(leat_device_synchronize(model.other));
    for (int i = 0; i < RESULTS; i++)
        if (w->results[i].used)
            look(&w->results[i]);
    for (int i = 0; i < BLOCKS; i++) {
        if (!w->blocks[i].ptr)
            continue;
        forget(&w->blocks[i]);
        DO(leat_memory_free(w->blocks[i].ptr));
    }
    for (int i = 0; i < EVENTS; i++) {
        DO(leat_event_destroy(w->events[i].alias));
        DO(leat_event_destroy(w->events[i].handle));
    }
    for (int i = 0; i < w->stream_count; i++) {
        DO(leat_stream_destroy(w->streams[i].alias));
        DO(leat_stream_destroy(w->streams[i].handle));
    }
}

static void *run_worker(void *argument)
{
    w = argument;
    model_self = &w->thread;
    begin_worker();
    for (int step = 1; step <= model.steps; step++) {
        begin_step(step);
        any_step();
    }
    end_worker();
    return NULL;
}

static void set_up_worker(struct worker *worker, int number)
{
    w = worker;
    model_self = &w->thread;
    model_thread_begin(model_self, number);
    if (!w->arena)
        DO(leat_memory_alloc(model.device, LEAT_KIND_PINNED, (size_t)RESULTS * RESULT_WORDS * 8,
                             (void **)&w->arena));
    w->seed = model.seed + (uint64_t)number * 0x2545f4914f6cdd1du;
    begin_step(-1);
}

static void close_pool(struct pool *p, int number)
{
    leat_pool_statistics figures = {.size = sizeof figures};

    DO(leat_pool_query(p->handle, &figures));
    if (figures.live_blocks || figures.requested_bytes || figures.allocations != figures.frees)
        give_up("pool %d counts %llu live blocks at the end, %llu bytes, %llu allocations and %llu frees", number,
                (unsigned long long)figures.live_blocks, (unsigned long long)figures.requested_bytes,
                (unsigned long long)figures.allocations, (unsigned long long)figures.frees);
    if (p->most_bytes && figures.reserved_peak_bytes > p->most_bytes)
        give_up("pool %d held %llu bytes, and its limit was never above %llu", number,
                (unsigned long long)figures.reserved_peak_bytes, (unsigned long long)p->most_bytes);
    DO(leat_pool_destroy(p->handle));
}

static void run_graph(void)
{
    pthread_t threads[THREADS_MAX];

    set_up_worker(&g.workers[0], 0);
    model.threads = chance(20) ? 4 : 1;
    if (model.threads_wanted)
        model.threads = model.threads_wanted;
    for (int i = 0; i < POOLS; i++)
        open_pool(&g.pools[i], i);
    for (int i = 1; i < model.threads; i++) {
        set_up_worker(&g.workers[i], i);
        if (pthread_create(&threads[i], NULL, run_worker, &g.workers[i]))
            give_up("no thread");
    }
    run_worker(&g.workers[0]);
    for (int i = 1; i < model.threads; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < POOLS; i++)
        close_pool(&g.pools[i], i);
}

/* ---- the process ------------------------------------------------------------------------------ */

static void set_up(void)
{
    leat_device_info info;
    leat_module *module;

    DO(leat_device_query(model.device, &info));
    g.virtual_memory = info.virtual_memory;
    g.managed_memory = info.managed_memory;
    /* Fills load kernels the first time, which may wait for the device, and so would hide that nothing else does.
     */
    DO(leat_module_builtin(model.device, &module));
}

static void tear_down(void)
{
    for (int i = 0; i < THREADS_MAX; i++) {
        DO(leat_memory_free(g.workers[i].arena));
        model_thread_end(&g.workers[i].thread);
    }
    DO(leat_device_close(model.other));
    DO(leat_device_close(model.device));
}

int main(int argc, char **argv)
{
    uint64_t checked = 0;
    long graphs;

    model_begin(argc, argv, "pool_model", 250, THREADS_MAX);
    set_up();
    graphs = model_run(run_graph);
    for (int i = 0; i < THREADS_MAX; i++)
        checked += g.workers[i].checked;
    tear_down();
    printf("pool_model: %ld graphs, %llu blocks, %llu refused, %llu reads saw what they may see\n", graphs,
           (unsigned long long)g.allocations, (unsigned long long)g.refusals, (unsigned long long)checked);
    return 0;
}
