/*
 * test_pool_threads.c - tests pools that 16 threads use: each on its own stream, or all on one, and freeing each
 * other's blocks, while other threads query and trim the pool, and create and destroy pools. Every block is filled
 * and checked. Most useful under the thread sanitizer.
 */
#include "test_pool.h"

#include <pthread.h>
#include <stdio.h>

enum { THREADS = 16, BLOCKS = 12, LOOK_BYTES = 2048 };

/* A block that one thread passes to another. */
struct parcel {
    unsigned char *block;
    size_t bytes;
    unsigned char value;
    leat_stream *from;
    leat_event *filled;
};

/* The blocks that other threads have passed to one thread. */
struct mailbox {
    pthread_mutex_t lock; /* protects the other members */
    struct parcel parcels[64];
    int count;
};

struct shared {
    struct test_state *t;
    leat_pool *pool;
    leat_pool *more[3]; /* pools of other sorts */
    struct mailbox boxes[THREADS];
    atomic_int busy; /* number of threads that still run */
    int rounds;
};

struct job {
    struct shared *shared;
    int number;
    leat_stream *stream;
    unsigned char *seen, *unseen; /* pinned buffers; the content of unseen is never checked */
    char failure[512];            /* empty: no failure */
};

/* A thread cannot end a cmocka test, so it records its first failure and stops. */
#define STEP(job, call)                                                                                           \
    do {                                                                                                          \
        if ((call) != LEAT_OK) {                                                                                  \
            snprintf((job)->failure, sizeof(job)->failure, "%s: %s", #call, leat_last_error());                   \
            return false;                                                                                         \
        }                                                                                                         \
    } while (0)

static size_t some_size(uint64_t number)
{
    static const size_t most[] = {200, 4096, 60000, MIB, 3 * MIB};

    return 1 + (size_t)leat_pattern_value(number, 11) % most[leat_pattern_value(number, 12) % 5];
}

/* Waits for the thread's stream. Returns true if the first and last bytes of the block are value. */
static bool holds(struct job *job, const unsigned char *block, size_t bytes, unsigned char value)
{
    size_t part = bytes < LOOK_BYTES ? bytes : LOOK_BYTES;

    memset(job->seen, (unsigned char)~value, 2 * part);
    STEP(job, leat_copy(job->stream, job->seen, block, part));
    STEP(job, leat_copy(job->stream, job->seen + part, block + bytes - part, part));
    STEP(job, leat_stream_synchronize(job->stream));
    for (size_t i = 0; i < 2 * part; i++) {
        if (job->seen[i] == value)
            continue;
        snprintf(job->failure, sizeof job->failure, "byte %zu of %zu is 0x%02x and not 0x%02x", i, bytes,
                 job->seen[i], value);
        return false;
    }
    return true;
}

struct mine {
    unsigned char *block;
    size_t bytes;
    unsigned char value;
};

/* Allocates and fills a block if m has none. Otherwise checks the block and frees it. */
static bool come_or_go(struct job *job, struct mine *m, uint64_t number, leat_pool *pool)
{
    void *block;

    if (m->block) {
        if (!holds(job, m->block, m->bytes, m->value))
            return false;
        STEP(job, leat_free(job->stream, m->block));
        m->block = NULL;
        return true;
    }
    m->bytes = some_size(number);
    m->value = (unsigned char)leat_pattern_value(number, 13);
    STEP(job, leat_pool_alloc(job->stream, pool, m->bytes, &block));
    m->block = block;
    STEP(job, leat_fill(job->stream, m->block, m->value, m->bytes));
    return true;
}

static bool all_go(struct job *job, struct mine *mine)
{
    for (int i = 0; i < BLOCKS; i++) {
        if (!mine[i].block)
            continue;
        if (!holds(job, mine[i].block, mine[i].bytes, mine[i].value))
            return false;
        STEP(job, leat_free(job->stream, mine[i].block));
    }
    return true;
}

static bool churn(struct job *job)
{
    struct mine mine[BLOCKS];

    memset(mine, 0, sizeof mine);
    for (int round = 0; round < job->shared->rounds; round++) {
        uint64_t number = (uint64_t)job->number * 100000 + (uint64_t)round;

        if (!come_or_go(job, &mine[leat_pattern_value(number, 14) % BLOCKS], number, job->shared->pool))
            return false;
    }
    return all_go(job, mine);
}

/* Passes a block to another thread. Returns false if its mailbox is full. */
static bool post(struct mailbox *box, const struct parcel *parcel)
{
    bool room;

    pthread_mutex_lock(&box->lock);
    room = box->count < (int)(sizeof box->parcels / sizeof box->parcels[0]);
    if (room)
        box->parcels[box->count++] = *parcel;
    pthread_mutex_unlock(&box->lock);
    return room;
}

static bool collect(struct mailbox *box, struct parcel *parcel)
{
    bool any;

    pthread_mutex_lock(&box->lock);
    any = box->count > 0;
    if (any)
        *parcel = box->parcels[--box->count];
    pthread_mutex_unlock(&box->lock);
    return any;
}

static bool send_one(struct job *job, uint64_t number)
{
    struct parcel parcel = {.bytes = some_size(number), .value = (unsigned char)number, .from = job->stream};
    int to = (int)(leat_pattern_value(number, 15) % THREADS);
    void *block;

    STEP(job, leat_pool_alloc(job->stream, job->shared->pool, parcel.bytes, &block));
    parcel.block = block;
    STEP(job, leat_fill(job->stream, block, parcel.value, parcel.bytes));
    STEP(job, leat_event_create(job->shared->t->device, &parcel.filled));
    STEP(job, leat_event_record(job->stream, parcel.filled));
    if (post(&job->shared->boxes[to], &parcel))
        return true;
    STEP(job, leat_event_destroy(parcel.filled));
    STEP(job, leat_free(job->stream, block));
    return true;
}

/* Checks a block of another thread and frees it: on this thread's stream, on the block's first stream, or by the
 * host. */
static bool take_one(struct job *job, uint64_t number)
{
    struct parcel parcel;

    if (!collect(&job->shared->boxes[job->number], &parcel))
        return true;
    STEP(job, leat_stream_wait(job->stream, parcel.filled));
    STEP(job, leat_event_destroy(parcel.filled));
    switch (number % 4) {
    case 0:
        /* The copy from the block may still run, so tell the pool about its stream. */
        STEP(job, leat_copy(job->stream, job->unseen, parcel.block, parcel.bytes < 100 ? parcel.bytes : 100));
        STEP(job, leat_block_use(job->stream, parcel.block));
        STEP(job, leat_free(parcel.from, parcel.block));
        return true;
    case 1:
        if (!holds(job, parcel.block, parcel.bytes, parcel.value))
            return false;
        STEP(job, leat_memory_free(parcel.block));
        return true;
    case 2:
        if (!holds(job, parcel.block, parcel.bytes, parcel.value))
            return false;
        STEP(job, leat_free(parcel.from, parcel.block));
        return true;
    default:
        STEP(job, leat_copy(job->stream, job->unseen, parcel.block, parcel.bytes < 100 ? parcel.bytes : 100));
        STEP(job, leat_free(job->stream, parcel.block));
        return true;
    }
}

static bool exchange(struct job *job)
{
    struct mine mine[BLOCKS];

    memset(mine, 0, sizeof mine);
    for (int round = 0; round < job->shared->rounds; round++) {
        uint64_t number = (uint64_t)job->number * 100000 + (uint64_t)round;
        bool good;

        if (round % 3 == 0)
            good = send_one(job, number);
        else if (round % 3 == 1)
            good = take_one(job, leat_pattern_value(number, 16));
        else
            good = come_or_go(job, &mine[leat_pattern_value(number, 14) % BLOCKS], number, job->shared->pool);
        if (!good)
            return false;
    }
    return all_go(job, mine);
}

static void count_text(void *argument, const char *text, size_t bytes)
{
    (void)text;
    *(size_t *)argument += bytes;
}

/* Queries and trims the pool while other threads use it. */
static bool look_on(struct job *job)
{
    leat_pool *pool = job->shared->pool;

    for (int round = 0; round < job->shared->rounds; round++) {
        leat_pool_stats figures = {.size = sizeof figures};
        leat_pool_share share = LEAT_POOL_SHARE_INIT;
        leat_pool_event events[16];
        size_t count = 16, bytes = 0;

        STEP(job, leat_pool_get_stats(pool, &figures));
        for (unsigned i = 0; leat_pool_get_stream_share(pool, i, &share) == LEAT_OK; i++)
            continue;
        for (unsigned i = 0; leat_pool_get_tag_share(pool, i, &share) == LEAT_OK; i++)
            continue;
        STEP(job, leat_pool_history(pool, events, &count));
        if (round % 16 == 0)
            STEP(job, leat_pool_snapshot(pool, count_text, &bytes));
        if (round % 4 == 0)
            STEP(job, leat_pool_trim(pool, MIB, NULL, NULL));
        if (round % 8 == 0)
            STEP(job, leat_pool_trim_idle(pool, 1, NULL, NULL));
        if (round % 32 == 0)
            STEP(job, leat_pool_set_limits(pool, 0, round % 64 ? 4 * MIB : 0));
    }
    return true;
}

/* Creates streams and pools, and destroys them while they have cached blocks. */
static bool make_and_end(struct job *job)
{
    leat_device *device = job->shared->t->device;

    for (int round = 0; round < job->shared->rounds / 4; round++) {
        leat_pool_options options = {.size = sizeof options, .no_virtual_memory = round % 2 == 0};
        leat_stream *stream;
        leat_pool *pool;
        void *block, *shared;

        STEP(job, leat_stream_create(device, &stream));
        STEP(job, leat_pool_create(device, &options, &pool));
        STEP(job, leat_pool_alloc(stream, pool, 5000, &block));
        STEP(job, leat_pool_alloc(stream, job->shared->pool, 70000, &shared));
        STEP(job, leat_fill(stream, block, 1, 5000));
        STEP(job, leat_fill(stream, shared, 2, 70000));
        STEP(job, leat_free(stream, block));
        STEP(job, leat_free(stream, shared));
        STEP(job, round % 3 ? leat_stream_destroy(stream) : leat_pool_destroy(pool));
        STEP(job, round % 3 ? leat_pool_destroy(pool) : leat_stream_destroy(stream));
    }
    return true;
}

/* Allocates from the default pools and from pools of other sorts. */
static bool other_pools(struct job *job)
{
    for (int round = 0; round < job->shared->rounds; round++) {
        leat_pool *pool = job->shared->more[round % 3];
        uint64_t number = (uint64_t)job->number * 100000 + (uint64_t)round;
        struct mine mine = {NULL, 0, 0};
        void *block;

        STEP(job, leat_thread_set_tag(round % 2 ? "others" : NULL));
        for (int i = 0; pool && i < 2; i++)
            if (!come_or_go(job, &mine, number, pool))
                return false;
        STEP(job, leat_memory_alloc(job->shared->t->device, LEAT_KIND_PINNED, some_size(number), &block));
        *(unsigned char *)block = 1;
        STEP(job, leat_memory_free(block));
        STEP(job, leat_alloc(job->stream, some_size(number), &block));
        STEP(job, leat_free(job->stream, block));
    }
    STEP(job, leat_thread_set_tag(NULL));
    return true;
}

struct start {
    struct job job;
    bool (*work)(struct job *job);
};

static void *run_job(void *argument)
{
    struct start *start = argument;

    if (!start->work(&start->job) && !start->job.failure[0])
        snprintf(start->job.failure, sizeof start->job.failure, "failed without a word");
    atomic_fetch_sub(&start->job.shared->busy, 1);
    return NULL;
}

/* Frees the blocks that no thread has collected. */
static void empty_boxes(struct shared *shared)
{
    struct parcel parcel;

    OK(leat_device_synchronize(shared->t->device));
    for (int i = 0; i < THREADS; i++) {
        while (collect(&shared->boxes[i], &parcel)) {
            test_block_holds(shared->t->stream, parcel.block, parcel.bytes, parcel.value);
            OK(leat_event_destroy(parcel.filled));
            OK(leat_memory_free(parcel.block));
        }
    }
}

/* Runs the functions on all threads at once. Thread i runs works[i % count]. */
static void run(struct test_state *t, bool one_stream, bool (*const works[])(struct job *job), int count)
{
    struct start *starts = test_buffer(THREADS * sizeof *starts);
    struct shared *shared = test_buffer(sizeof *shared);
    pthread_t threads[THREADS];
    leat_pool_options plain = {.size = sizeof plain, .no_virtual_memory = 1},
                      alone = {.size = sizeof alone, .dedicated = 1};

    memset(starts, 0, THREADS * sizeof *starts);
    memset(shared, 0, sizeof *shared);
    shared->t = t;
    shared->rounds = 300;
    shared->pool = POOL(t->device, .name = "threads", .history = 1000, .reuse = LEAT_POOL_REUSE_WAIT);
    shared->more[0] = test_pool_try(t->device, &plain);
    shared->more[1] = test_pool_try(t->device, &alone);
    shared->more[2] = POOL(t->device, .limit_bytes = GIB, .reuse = LEAT_POOL_REUSE_WAIT_NEVER);
    atomic_store(&shared->busy, THREADS);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_mutex_init(&shared->boxes[i].lock, NULL), 0);
        starts[i].work = works[i % count];
        starts[i].job.shared = shared;
        starts[i].job.number = i;
        starts[i].job.seen = test_alloc(t->device, LEAT_KIND_PINNED, 2 * LOOK_BYTES + 100);
        starts[i].job.unseen = starts[i].job.seen + 2 * LOOK_BYTES;
        starts[i].job.stream = t->stream;
        if (!one_stream)
            OK(leat_stream_create(t->device, &starts[i].job.stream));
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_job, &starts[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        if (starts[i].job.failure[0])
            fail_msg("thread %d: %s", i, starts[i].job.failure);
    empty_boxes(shared);
    for (int i = 0; i < THREADS; i++) {
        if (!one_stream)
            OK(leat_stream_destroy(starts[i].job.stream));
        OK(leat_memory_free(starts[i].job.seen));
        pthread_mutex_destroy(&shared->boxes[i].lock);
    }
    assert_int_equal(test_statistics(shared->pool).live_blocks, 0);
    assert_int_equal(test_statistics(shared->pool).requested_bytes, 0);
    assert_int_equal(test_statistics(shared->pool).allocations, test_statistics(shared->pool).frees);
    OK(leat_pool_destroy(shared->pool));
    for (int i = 0; i < 3; i++)
        OK(leat_pool_destroy(shared->more[i]));
    free(shared);
    free(starts);
}

static void every_thread_its_own_stream(void **state)
{
    bool (*const works[])(struct job * job) = {churn};

    run(*state, false, works, 1);
}

static void all_threads_one_stream(void **state)
{
    bool (*const works[])(struct job * job) = {churn};

    run(*state, true, works, 1);
}

static void threads_free_what_others_allocated(void **state)
{
    bool (*const works[])(struct job * job) = {exchange};

    run(*state, false, works, 1);
}

static void threads_free_what_others_allocated_on_one_stream(void **state)
{
    bool (*const works[])(struct job * job) = {exchange};

    run(*state, true, works, 1);
}

static void all_things_at_once(void **state)
{
    bool (*const works[])(struct job * job) = {exchange, look_on, make_and_end, other_pools, churn};

    run(*state, false, works, 5);
}

/* Two threads free the same block. Exactly one of them must succeed. */
struct race {
    leat_stream *stream;
    void *block;
    atomic_int ready;
    int freed[2];
};

static void *free_at_the_same_time(void *argument)
{
    struct race *race = ((void **)argument)[0];
    int *freed = ((void **)argument)[1];

    atomic_fetch_add(&race->ready, 1);
    while (atomic_load(&race->ready) < 2)
        continue;
    *freed = leat_free(race->stream, race->block) == LEAT_OK;
    return NULL;
}

static void a_block_is_freed_once(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "race");

    for (int round = 0; round < 200; round++) {
        struct race race = {.stream = t->stream, .block = test_block(pool, t->stream, 1000 + (size_t)round * 999)};
        void *arguments[2][2] = {{&race, &race.freed[0]}, {&race, &race.freed[1]}};
        pthread_t threads[2];

        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, free_at_the_same_time, arguments[i]), 0);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(race.freed[0] + race.freed[1], 1);
    }
    assert_int_equal(test_statistics(pool).frees, 200);
    assert_int_equal(test_statistics(pool).live_blocks, 0);
    OK(leat_pool_destroy(pool));
}

/* State of threads that fill and empty a pool with a limit. Only one thread does so at a time, so no request may
 * fail. */
struct squeeze {
    leat_pool *pool;
    leat_stream *stream;
    pthread_mutex_t *one_at_a_time;
    int failures;
};

static void *fill_and_empty(void *argument)
{
    struct squeeze *s = argument;

    for (int round = 0; round < 100; round++) {
        void *blocks[8];
        int count = 0;

        pthread_mutex_lock(s->one_at_a_time);
        while (count < 8 && leat_pool_alloc(s->stream, s->pool, 4 * MIB, &blocks[count]) == LEAT_OK)
            count++;
        s->failures += count < 8;
        while (count)
            s->failures += leat_free(s->stream, blocks[--count]) != LEAT_OK;
        pthread_mutex_unlock(s->one_at_a_time);
    }
    return NULL;
}

/* The pool has no memory but the blocks that another thread freed on another stream. A thread must get these
 * blocks. */
static void caches_of_threads_are_no_islands(void **state)
{
    enum { COUNT = 4 };
    struct test_state *t = *state;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    leat_pool *pool = POOL(t->device, .limit_bytes = 32 * MIB, .reuse = LEAT_POOL_REUSE_WAIT);
    struct squeeze squeezes[COUNT];
    pthread_t threads[COUNT];

    for (int i = 0; i < COUNT; i++) {
        squeezes[i] = (struct squeeze){.pool = pool, .one_at_a_time = &lock};
        OK(leat_stream_create(t->device, &squeezes[i].stream));
        assert_int_equal(pthread_create(&threads[i], NULL, fill_and_empty, &squeezes[i]), 0);
    }
    for (int i = 0; i < COUNT; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(squeezes[i].failures, 0);
        OK(leat_stream_destroy(squeezes[i].stream));
    }
    OK(leat_pool_destroy(pool));
}

static void *cache_blocks(void *argument)
{
    struct squeeze *s = argument;
    void *blocks[16];

    for (int i = 0; i < 16; i++)
        s->failures += leat_pool_alloc(s->stream, s->pool, MIB / 2, &blocks[i]) != LEAT_OK;
    for (int i = 0; i < 16; i++)
        s->failures += leat_free(s->stream, blocks[i]) != LEAT_OK;
    return NULL;
}

/* A thread whose magazine has no block of a size takes several from another magazine. It needs only one of them.
 * Other sizes occupy all slots of its own magazine, so the rest must go back to the pool. */
static void blocks_from_another_cache_find_a_place(void **state)
{
    enum { SIZES = 1000 };
    struct test_state *t = *state;
    struct squeeze squeeze = {.pool = POOL(t->device), .stream = t->stream};
    static void *blocks[SIZES];
    pthread_t other;
    void *block;

    for (int i = 0; i < SIZES; i++)
        blocks[i] = test_block(squeeze.pool, t->stream, (size_t)512 * (unsigned)(i + 1));
    for (int i = 0; i < SIZES; i++)
        OK(leat_free(t->stream, blocks[i]));
    /* At least one of two new threads uses another magazine than this thread. */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&other, NULL, cache_blocks, &squeeze), 0);
        pthread_join(other, NULL);
        block = test_block(squeeze.pool, t->stream, MIB / 2);
        OK(leat_free(t->stream, block));
    }
    assert_int_equal(squeeze.failures, 0);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_pool_trim(squeeze.pool, 0, NULL, NULL));
    assert_int_equal(test_statistics(squeeze.pool).reserved_bytes, 0);
    OK(leat_pool_destroy(squeeze.pool));
}

/* ---- one event, two threads --------------------------------------------------------------------------------- */

struct asking {
    leat_event *event;
    atomic_int done;
    leat_status status;
};

static void *ask_again_and_again(void *argument)
{
    struct asking *a = argument;

    while (!atomic_load(&a->done) && a->status == LEAT_OK) {
        leat_status status = leat_event_query(a->event);

        if (status != LEAT_NOT_READY)
            a->status = status;
    }
    return NULL;
}

static void wait_for_host(void *open)
{
    (void)test_wait_for(open, 1);
}

/* Another thread queries an event in a loop while this thread records it again. A query that sees the old
 * record complete must not mark the new one as complete, because work before the new record still uses the
 * freed block. */
static void a_mark_moves_while_it_is_asked_for(void **state)
{
    enum { ROUNDS = 400 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .reuse = LEAT_POOL_REUSE_WAIT_NEVER);
    unsigned char *kept = test_alloc(t->device, LEAT_KIND_PINNED, 4096);
    struct asking asking = {.status = LEAT_OK};
    pthread_t thread;

    OK(leat_event_create(t->device, &asking.event));
    assert_int_equal(pthread_create(&thread, NULL, ask_again_and_again, &asking), 0);
    for (int round = 0; round < ROUNDS; round++) {
        void *block = test_block(pool, t->stream, 4 * MIB), *next;
        atomic_int open = 0;

        OK(leat_fill(t->stream, block, 1, 4096));
        OK(leat_event_record(t->stream, asking.event));
        OK(leat_event_synchronize(asking.event));
        OK(leat_launch_host(t->stream, wait_for_host, &open));
        OK(leat_copy(t->stream, kept, block, 4096));
        OK(leat_free(t->stream, block));
        OK(leat_event_record(t->stream, asking.event));
        next = test_block(pool, t->second, 4 * MIB);
        OK(leat_fill(t->second, next, 2, 4096));
        OK(leat_stream_synchronize(t->second));
        atomic_store(&open, 1);
        OK(leat_stream_synchronize(t->stream));
        EXPECT_BYTES(kept, 4096, 1);
        OK(leat_free(t->second, next));
        /* Release all idle memory, so that the next round cannot get memory whose work is known to be complete. */
        OK(leat_stream_synchronize(t->second));
        OK(leat_pool_trim(pool, 0, NULL, NULL));
    }
    atomic_store(&asking.done, 1);
    pthread_join(thread, NULL);
    OK(asking.status);
    OK(leat_event_destroy(asking.event));
    OK(leat_pool_destroy(pool));
    OK(leat_memory_free(kept));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(every_thread_its_own_stream),
    STATE_TEST(all_threads_one_stream),
    STATE_TEST(threads_free_what_others_allocated),
    STATE_TEST(threads_free_what_others_allocated_on_one_stream),
    STATE_TEST(all_things_at_once),
    STATE_TEST(a_block_is_freed_once),
    STATE_TEST(caches_of_threads_are_no_islands),
    STATE_TEST(blocks_from_another_cache_find_a_place),
    STATE_TEST(a_mark_moves_while_it_is_asked_for),
};

TEST_MAIN(tests)
