/* pool_steps.c - makes the random steps of pool_model: use, free, allocate, and all other calls. */
#include "pool_graph.h"

#include <string.h>

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

/* The host accesses a pinned block after the block's work is complete. */
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
    DO(leat_block_use(handle_of(stream), b->ptr));
    b->told |= 1u << stream;
}

/* Tells the pool of a stream before the stream's last work on the block. The pool must consider all work that the
 * stream has when the block is freed. */
static void tell_early(void)
{
    struct block *b = any_block(false);

    if (b)
        tell_of(b, any_stream());
}

/* ---- steps: free ------------------------------------------------------------------------------ */

/* Orders the freeing stream after one user of the block, or tells the pool of the user. */
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
        DO(leat_block_use_until(chance(80) || !e->alias ? e->handle : e->alias, b->ptr));
        disturb(e);
    }
}

void forget(struct block *b)
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

/* Submits the last work on a block behind slow work, so that it still runs after the free. */
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

    /* Often use one of a few sizes, so that freed blocks fit exactly. */
    if (chance(50))
        words = (size_t[]){64, 512, 8192, 131072, 262144, 524288}[pick(6)];
    return words * 8;
}

/* Returns a size for a block of this pool: often the next one of its plan. */
static size_t any_size_of(struct pool *p)
{
    if (!p->planned_count || chance(35))
        return any_size();
    return p->planned[atomic_fetch_add(&p->planned_next, 1) % (unsigned)p->planned_count];
}

/* Checks that a pool had a reason to refuse a request. With several threads, blocks of other threads may be the
 * reason. */
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

/* Allocates a block. If host is true, it has no stream. Returns NULL if the pool or the model's table is full. */
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
    status = leat_pool_alloc(host ? NULL : handle_of(stream), p->handle, bytes, &ptr);
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

/* Fills most new blocks at once, while late work of their last owner may still run. */
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

/* Frees a block whose work still runs, and at once allocates from the same pool a block of the same or another
 * size. */
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

void open_stream(struct stream *s, bool far)
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

/* A stream that used the block will be destroyed. Orders another stream after it, or tells the pool of it. In the
 * second case the block can only be freed. */
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
        /* No work has used the block, so the program cannot order other streams after its allocation on the
         * destroyed stream. */
        b->sealed = true;
        b->writer = HOST;
    }
}

/* Destroys a stream that still has queued work, and creates another one in its place. */
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

/* Queries a stream or an event once. The model does not change, because the answer depends on the speed of the
 * machine. */
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

/* Changes a pool's limits. A soft limit makes the pool release memory on its own. With several threads the hard
 * limit never changes, because the checks of other threads read it. */
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
    /* A pool refuses a new limit that is smaller than its memory in use, including memory with pending work. */
    if (status == LEAT_ERROR_BUSY && limit < p->limit_bytes)
        return;
    DO(status);
    if (limit == p->limit_bytes)
        return; /* always so with several threads, because other threads read both fields */
    p->limit_bytes = limit;
    p->most_bytes = limit > p->most_bytes ? limit : p->most_bytes;
}

int make_room(void *argument, leat_pool *pool, uint64_t bytes)
{
    struct block *b = any_block(true);

    (void)argument, (void)pool;
    note("no room for %llu bytes", (unsigned long long)bytes);
    if (!b || chance(40))
        return 0;
    free_block(b);
    return 1;
}

void any_step(void)
{
    static const struct model_sort sorts[] = {
        {14, allocate},  {22, hand_over},      {12, free_any},     {8, write_block},  {18, read_block},
        {4, tell_early}, {4, host_access_any}, {4, record_any},    {3, wait_for_any}, {5, ask},
        {2, trim},       {1, synchronize_any}, {1, change_limits}, {2, renew_stream},
    };
    model_any_step(sorts, sizeof sorts / sizeof sorts[0]);
}
