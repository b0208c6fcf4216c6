/*
 * unit_staging.c - staged copies by themselves: linked with src/staging and src/base and nothing else. The device
 * is the test's own: a thread that plays a stream, and malloc() for memory of every kind. What a wait waits for is
 * held up, by a gate in the stream or by a worker that is kept busy, so that a copy that goes on all the same
 * moves wrong bytes each time.
 */
#include "base/fault_handler.h"
#include "base/clock.h"
#include "staging/staging.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define PATIENCE_NS ((uint64_t)60 * 1000000000)
#define MOMENT_US 20000 /* in which what does not wait is through */

/* ---- the device: hooks that can fail ---- */

enum hook { NO_HOOK, TAKE, HEALTH, CREATE, DESTROY, SYNCHRONIZE, FLAGS, MOVE, HOOKS };

static atomic_uint armed[HOOKS]; /* so many calls from now on, the hook fails once; 0: never */
static atomic_bool fired;

static void fail_at(enum hook hook, unsigned number)
{
    atomic_store(&fired, false);
    atomic_store(&armed[hook], number);
}

static void fail_nowhere(void)
{
    for (enum hook hook = NO_HOOK; hook < HOOKS; hook++)
        atomic_store(&armed[hook], 0);
}

static leat_status may_fail(enum hook hook, leat_status status)
{
    if (!atomic_load(&armed[hook]) || atomic_fetch_sub(&armed[hook], 1) != 1)
        return LEAT_OK;
    atomic_store(&fired, true);
    return leati_fail(status, "the test's device refuses");
}

/* ---- the device: a stream ---- */

enum op_kind { OP_VALUE, OP_COPY, OP_ROWS, OP_GATE, OP_MARK };

struct op {
    enum op_kind kind;
    struct leati_mem_op value;
    char *dst;
    const char *src;
    size_t bytes, width, dst_pitch, src_pitch; /* of OP_ROWS: rows that are packed in bytes */
    atomic_int *mark;
    struct op *next;
};

struct stream {
    pthread_t thread;
    pthread_mutex_t lock; /* guards the next three */
    struct op *first, **end;
    unsigned long given;
    atomic_ulong done;
    atomic_bool ending;
    atomic_uint delay_us; /* before each DMA */
};

static void run_rows(const struct op *op)
{
    for (size_t row = 0; row < op->bytes / op->width; row++)
        memcpy(op->dst + row * op->dst_pitch, op->src + row * op->src_pitch, op->width);
}

static void run_op(struct stream *stream, struct op *op)
{
    switch (op->kind) {
    case OP_VALUE:
        while (op->value.wait &&
               (int32_t)(atomic_load_explicit(op->value.flag, memory_order_acquire) - op->value.value) < 0)
            sched_yield();
        if (!op->value.wait)
            atomic_store_explicit(op->value.flag, op->value.value, memory_order_release);
        break;
    case OP_COPY:
    case OP_ROWS:
        if (atomic_load(&stream->delay_us))
            usleep(atomic_load(&stream->delay_us));
        if (op->kind == OP_COPY)
            memcpy(op->dst, op->src, op->bytes);
        else
            run_rows(op);
        break;
    case OP_GATE:
        while (!atomic_load(op->mark))
            sched_yield();
        break;
    case OP_MARK:
        atomic_store(op->mark, 1);
        break;
    }
}

static void *run_stream(void *argument)
{
    struct stream *stream = argument;

    for (;;) {
        struct op *op;

        pthread_mutex_lock(&stream->lock);
        op = stream->first;
        pthread_mutex_unlock(&stream->lock);
        if (!op && atomic_load(&stream->ending))
            return NULL;
        if (!op) {
            sched_yield();
            continue;
        }
        run_op(stream, op);
        pthread_mutex_lock(&stream->lock);
        stream->first = op->next;
        if (!op->next)
            stream->end = &stream->first;
        pthread_mutex_unlock(&stream->lock);
        free(op);
        atomic_fetch_add(&stream->done, 1);
    }
}

static void give(struct stream *stream, struct op op)
{
    struct op *given = malloc(sizeof *given);

    assert_non_null(given);
    *given = op;
    given->next = NULL;
    pthread_mutex_lock(&stream->lock);
    *stream->end = given;
    stream->end = &given->next;
    stream->given++;
    pthread_mutex_unlock(&stream->lock);
}

static struct stream *new_stream(void)
{
    struct stream *stream = calloc(1, sizeof *stream);

    assert_non_null(stream);
    stream->end = &stream->first;
    pthread_mutex_init(&stream->lock, NULL);
    assert_int_equal(pthread_create(&stream->thread, NULL, run_stream, stream), 0);
    return stream;
}

static void wait_for_stream(struct stream *stream)
{
    uint64_t end_ns = leati_clock_ns() + PATIENCE_NS;

    while (atomic_load(&stream->done) != stream->given) {
        assert_true(leati_clock_ns() < end_ns);
        sched_yield();
    }
}

static void end_stream(struct stream *stream)
{
    atomic_store(&stream->ending, true);
    pthread_join(stream->thread, NULL);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

static void moment(void)
{
    usleep(MOMENT_US);
}

static bool wait_for(atomic_int *value)
{
    uint64_t end_ns = leati_clock_ns() + PATIENCE_NS;

    while (!atomic_load(value) && leati_clock_ns() < end_ns)
        sched_yield();
    return atomic_load(value);
}

/* ---- the hooks ---- */

/* An order that counts its holders. */
struct timeline {
    atomic_int holders, failures;
    leat_status status;
    char message[256];
};

/* One test's device. */
static struct {
    struct leati_stager stager;
    struct stream *stream;
    struct timeline timeline;
    atomic_int blocks; /* of pinned memory that were taken and not given back */
    atomic_int pieces;
} device;

/* A block that goes back must not be in use by the stream. */
static void expect_unused(const char *block, size_t bytes)
{
    struct stream *stream = device.stream;

    pthread_mutex_lock(&stream->lock);
    for (struct op *op = stream->first; op; op = op->next) {
        assert_false((uintptr_t)op->dst - (uintptr_t)block < bytes);
        assert_false((uintptr_t)op->src - (uintptr_t)block < bytes);
        /* The last flag may be written, and its op not be gone yet. */
        assert_false(op != stream->first && (uintptr_t)op->value.flag - (uintptr_t)block < bytes);
    }
    pthread_mutex_unlock(&stream->lock);
}

/* In front of each block is a page with its size. */
static void *take(void *context, enum leati_store_policy policy, size_t bytes)
{
    char *block;

    (void)context;
    assert_true(policy == LEATI_STORE_POLICY_CACHED || policy == LEATI_STORE_POLICY_STREAMING);
    if (may_fail(TAKE, LEAT_ERROR_HOST_MEMORY) != LEAT_OK)
        return NULL;
    bytes = (bytes + 4095) / 4096 * 4096;
    block = aligned_alloc(4096, bytes + 4096);
    assert_non_null(block);
    memset(block, 0xee, bytes + 4096);
    memcpy(block, &bytes, sizeof bytes);
    atomic_fetch_add(&device.blocks, 1);
    return block + 4096;
}

static void give_back(void *context, void *block)
{
    size_t bytes;

    (void)context;
    memcpy(&bytes, (char *)block - 4096, sizeof bytes);
    expect_unused(block, bytes);
    free((char *)block - 4096);
    atomic_fetch_sub(&device.blocks, 1);
}

static leat_status health(void *context)
{
    (void)context;
    return may_fail(HEALTH, LEAT_ERROR_DEVICE_LOST);
}

static leat_status stream_create(void *context, void **stream)
{
    leat_status status = may_fail(CREATE, LEAT_ERROR_DRIVER);

    (void)context;
    if (status == LEAT_OK)
        *stream = new_stream();
    return status;
}

static leat_status stream_synchronize(void *context, void *stream)
{
    leat_status status = may_fail(SYNCHRONIZE, LEAT_ERROR_DRIVER);

    (void)context;
    if (status == LEAT_OK)
        wait_for_stream(stream);
    return status;
}

static leat_status stream_destroy(void *context, void *stream)
{
    (void)context;
    wait_for_stream(stream);
    end_stream(stream);
    return may_fail(DESTROY, LEAT_ERROR_DRIVER);
}

static leat_status flags(void *context, void *stream, const struct leati_mem_op *values, unsigned count)
{
    leat_status status = may_fail(FLAGS, LEAT_ERROR_DRIVER);

    (void)context;
    assert_true(count >= 1 && count <= 4);
    for (unsigned i = 0; i < count && status == LEAT_OK; i++)
        give(stream, (struct op){.kind = OP_VALUE, .value = values[i]});
    return status;
}

static void timeline_hold(void *timeline)
{
    atomic_fetch_add(&((struct timeline *)timeline)->holders, 1);
}

static void timeline_release(void *timeline)
{
    atomic_fetch_sub(&((struct timeline *)timeline)->holders, 1);
}

static void timeline_failed(void *timeline, leat_status status, const char *message)
{
    struct timeline *failed = timeline;

    moment(); /* the stream must not go on meanwhile */
    failed->status = status;
    snprintf(failed->message, sizeof failed->message, "%s", message);
    atomic_fetch_add(&failed->failures, 1);
}

static const struct leati_staging_hooks hooks = {.take = take,
                                                 .give_back = give_back,
                                                 .health = health,
                                                 .stream_create = stream_create,
                                                 .stream_destroy = stream_destroy,
                                                 .stream_synchronize = stream_synchronize,
                                                 .flags = flags,
                                                 .timeline_hold = timeline_hold,
                                                 .timeline_release = timeline_release,
                                                 .timeline_failed = timeline_failed};

/* ---- one copy ---- */

struct copy {
    struct leati_staging_request request;
    struct leati_job *job;
    char *memory; /* the device's side */
    size_t pitch; /* of rows there; 0: no rows */
    size_t moved; /* so many bytes were given to the stream, in order */
    bool inside;  /* between begin and end */
    leat_status status;
    atomic_int past; /* the stream is past it */
};

static void begin(void *context)
{
    struct copy *copy = context;

    assert_false(copy->inside);
    copy->inside = true;
    atomic_fetch_add(&device.pieces, 1);
}

static void end(void *context)
{
    struct copy *copy = context;

    assert_true(copy->inside);
    copy->inside = false;
}

static leat_status move(void *context, size_t offset, size_t bytes, void *ring_place)
{
    struct copy *copy = context;
    size_t unit = copy->request.unit_bytes;
    bool in = copy->request.direction == LEATI_DIRECTION_IN;
    leat_status status = may_fail(MOVE, LEAT_ERROR_DRIVER);
    char *placed = copy->memory + (unit ? offset / unit * copy->pitch : offset);
    struct op op = {.kind = unit ? OP_ROWS : OP_COPY,
                    .dst = in ? placed : ring_place,
                    .src = in ? ring_place : placed,
                    .bytes = bytes,
                    .width = unit,
                    .dst_pitch = in ? copy->pitch : unit,
                    .src_pitch = in ? unit : copy->pitch};

    assert_true(copy->inside);
    assert_int_equal(offset, copy->moved);
    assert_true(bytes && offset + bytes <= copy->request.bytes);
    assert_true(!unit || (offset % unit == 0 && bytes % unit == 0));
    assert_true(!copy->request.chunk_most_bytes || bytes <= copy->request.chunk_most_bytes);
    copy->moved += bytes;
    if (status == LEAT_OK)
        give(device.stream, op);
    return status;
}

/* host: the pageable side; memory: the other one. */
static void set_up(struct copy *copy, enum leati_direction direction, char *host, char *memory, size_t bytes)
{
    *copy = (struct copy){.memory = memory};
    copy->request = (struct leati_staging_request){.direction = direction,
                                                   .dst = direction == LEATI_DIRECTION_IN ? memory : host,
                                                   .src = direction == LEATI_DIRECTION_IN ? host : memory,
                                                   .bytes = bytes,
                                                   .stream = device.stream,
                                                   .timeline = &device.timeline,
                                                   .context = copy,
                                                   .begin = begin,
                                                   .end = end,
                                                   .move = move};
}

static leat_status copy_now(struct copy *copy, struct leati_job **started)
{
    struct leati_job *job;
    leat_status status = leati_stager_reserve(&device.stager, &copy->request, &job);

    return status == LEAT_OK ? leati_stager_submit(&device.stager, &copy->request, job, started) : status;
}

static void start(struct copy *copy)
{
    int pieces = atomic_load(&device.pieces);

    copy->request.context = copy;
    copy->status = copy_now(copy, &copy->job);
    if (copy->status != LEAT_OK)
        return;
    assert_int_equal(atomic_load(&device.pieces), pieces + 1);
    assert_true(copy->request.direction == LEATI_DIRECTION_HOST || copy->moved == copy->request.bytes);
    give(device.stream, (struct op){.kind = OP_MARK, .mark = &copy->past});
}

static struct leati_job_state look(const struct copy *copy)
{
    struct leati_job_state state;

    leati_job_look(copy->job, &state);
    return state;
}

static bool is_staged(const struct copy *copy)
{
    uint64_t end_ns = leati_clock_ns() + PATIENCE_NS;

    while (!look(copy).staged && leati_clock_ns() < end_ns)
        sched_yield();
    return look(copy).staged;
}

/* Waits for it; fails unless it ended so. */
static struct leati_job_state finish(struct copy *copy, leat_status status)
{
    struct leati_job_state state;

    assert_int_equal(copy->status, LEAT_OK);
    assert_true(wait_for(&copy->past));
    state = look(copy);
    assert_true(state.staged && state.done);
    assert_int_equal(state.status, status);
    leati_job_release(copy->job);
    return state;
}

static char *buffer(size_t bytes)
{
    char *made = malloc(bytes);

    assert_non_null(made);
    memset(made, 0x55, bytes);
    return made;
}

/* Each word has its own offset, mixed with the seed. */
static void fill(char *ptr, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        ptr[i] = (char)((i >> 2) * 2654435761u >> (8 * (i & 3)) ^ seed * 37);
}

static void expect(const char *ptr, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (ptr[i] != (char)((i >> 2) * 2654435761u >> (8 * (i & 3)) ^ seed * 37))
            fail_msg("byte %zu of %zu is wrong", i, bytes);
}

/* ---- what is held up ---- */

static atomic_int gate;

static void close_gate(void)
{
    atomic_store(&gate, 0);
    give(device.stream, (struct op){.kind = OP_GATE, .mark = &gate});
}

static void open_gate(void)
{
    atomic_store(&gate, 1);
}

static atomic_int worker_entered, worker_open;

static size_t wait_in_part(const void *list, size_t first, size_t count, uintptr_t *fault)
{
    (void)list, (void)first, (void)fault;
    atomic_store(&worker_entered, 1);
    (void)wait_for(&worker_open);
    return count;
}

static struct stream *other_stream; /* of the copy that keeps the worker busy */

/* The one worker is kept busy until it is let go. */
static void hold_worker(struct copy *busy)
{
    static const struct leati_list list = {.copy = wait_in_part, .count = 1};

    atomic_store(&worker_entered, 0);
    atomic_store(&worker_open, 0);
    set_up(busy, LEATI_DIRECTION_HOST, NULL, NULL, 1);
    busy->request.list = &list;
    busy->request.early = true;
    busy->request.stream = other_stream;
    busy->status = copy_now(busy, &busy->job);
    assert_int_equal(busy->status, LEAT_OK);
    give(other_stream, (struct op){.kind = OP_MARK, .mark = &busy->past});
    assert_true(wait_for(&worker_entered));
}

static void free_worker(struct copy *busy)
{
    atomic_store(&worker_open, 1);
    finish(busy, LEAT_OK);
}

/* ---- set-up and teardown ---- */

static int setup(void **state)
{
    (void)state;
    fail_nowhere();
    memset(&device, 0, sizeof device);
    device.stream = new_stream();
    other_stream = new_stream();
    assert_int_equal(leati_stager_init(&device.stager, &hooks, &device), LEAT_OK);
    assert_int_equal(leati_stager_start(&device.stager, -1, 1), LEAT_OK);
    assert_int_equal(device.stager.threads, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fail_nowhere();
    wait_for_stream(device.stream);
    wait_for_stream(other_stream);
    leati_stager_end(&device.stager);
    assert_int_equal(atomic_load(&device.blocks), 0);
    assert_int_equal(atomic_load(&device.timeline.holders), 0);
    end_stream(device.stream);
    end_stream(other_stream);
    return 0;
}

#define STAGING_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

/* ---- bytes ---- */

static const size_t sizes[] = {1, 4095, 4097, 300 * KIB + 3, 5 * MIB + 17};

static void bytes_go_in_and_out(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *in = buffer(sizes[i]), *out = buffer(sizes[i]), *memory = buffer(sizes[i]);
        struct copy copies[2];

        fill(in, sizes[i], i);
        for (int early = 0; early < 2; early++) {
            memset(out, 0, sizes[i]);
            memset(memory, 0, sizes[i]);
            set_up(&copies[0], LEATI_DIRECTION_IN, in, memory, sizes[i]);
            copies[0].request.early = early;
            set_up(&copies[1], LEATI_DIRECTION_OUT, out, memory, sizes[i]);
            start(&copies[0]);
            start(&copies[1]);
            assert_int_equal(finish(&copies[0], LEAT_OK).arrived_bytes, sizes[i]);
            assert_int_equal(finish(&copies[1], LEAT_OK).arrived_bytes, sizes[i]);
            expect(memory, sizes[i], i);
            expect(out, sizes[i], i);
        }
        free(in);
        free(out);
        free(memory);
    }
    assert_int_equal(atomic_load(&device.timeline.failures), 0);
}

static void bytes_go_from_host_to_host(void **state)
{
    const size_t bytes = 3 * MIB + 5;
    char *from = buffer(bytes), *to = buffer(bytes);
    struct copy copy;

    (void)state;
    fill(from, bytes, 3);
    set_up(&copy, LEATI_DIRECTION_HOST, to, from, bytes);
    close_gate();
    start(&copy);
    moment();
    assert_int_equal(to[0], 0x55);
    assert_false(look(&copy).staged);
    open_gate();
    finish(&copy, LEAT_OK);
    expect(to, bytes, 3);
    assert_int_equal(copy.moved, 0);
    free(from);
    free(to);
}

/* Rows with gaps on the host's side; on the device's side too, where a chunk must be whole rows. */
static void rows_go_in_and_out(void **state)
{
    enum { WIDTH = 1000, PITCH = 1024, PLACED = 1536, ROWS = 900 };
    char *in = buffer(PITCH * ROWS), *out = buffer(PITCH * ROWS), *memory = buffer(PLACED * ROWS);
    struct leati_rows host = {.width = WIDTH, .pitch = PITCH, .height = ROWS}, placed = host;

    (void)state;
    fill(in, PITCH * ROWS, 5);
    for (int gaps = 0; gaps < 2; gaps++) {
        struct copy copies[2];

        memset(out, 0, PITCH * ROWS);
        placed.pitch = gaps ? PLACED : WIDTH;
        for (int i = 0; i < 2; i++) {
            set_up(&copies[i], i ? LEATI_DIRECTION_OUT : LEATI_DIRECTION_IN, i ? out : in, memory, WIDTH * ROWS);
            host.base = i ? out : in;
            placed.base = memory;
            copies[i].request.to_rows = i ? &host : &placed;
            copies[i].request.from_rows = i ? &placed : &host;
            copies[i].request.unit_bytes = gaps ? WIDTH : 0;
            copies[i].request.chunk_most_bytes = gaps ? 20 * WIDTH : 0;
            copies[i].pitch = PLACED;
            start(&copies[i]);
        }
        for (int i = 0; i < 2; i++)
            finish(&copies[i], LEAT_OK);
        for (size_t row = 0; row < ROWS; row++) {
            assert_memory_equal(out + row * PITCH, in + row * PITCH, WIDTH);
            assert_true(row == ROWS - 1 || out[row * PITCH + WIDTH] == 0);
        }
    }
    free(in);
    free(out);
    free(memory);
}

static size_t copy_entries(const void *list, size_t first, size_t count, uintptr_t *fault)
{
    char *bytes = *(char *const *)list;

    for (size_t i = first; i < first + count; i++) {
        if (bytes[i] == 'x') {
            *fault = i;
            return i - first;
        }
        bytes[i] = 'b';
    }
    return count;
}

/* At once, without a stream: the caller and the worker. */
static void lists_are_copied_now(void **state)
{
    char entries[5000], *all = entries;
    const struct leati_list list = {.copy = copy_entries, .list = &all, .count = sizeof entries};
    uintptr_t fault = 0;

    (void)state;
    for (int round = 0; round < 20; round++) {
        memset(entries, 'a', sizeof entries);
        assert_int_equal(leati_stager_copy_now(&device.stager, &list, MIB, 64 * KIB, &fault), sizeof entries);
        for (size_t i = 0; i < sizeof entries; i++)
            assert_int_equal(entries[i], 'b');
    }
    memset(entries, 'a', sizeof entries);
    entries[3333] = entries[4444] = 'x';
    assert_int_equal(leati_stager_copy_now(&device.stager, &list, MIB, 64 * KIB, &fault), 3333);
    assert_int_equal(fault, 3333);
}

/* ---- who waits for whom ---- */

/* The stream is held up: what is early is staged meanwhile, and nothing else is touched. */
static void only_early_copies_are_staged_before_their_stream(void **state)
{
    const size_t bytes = 200 * KIB; /* in the ring as a whole */

    (void)state;
    for (int early = 0; early < 2; early++) {
        char *in = buffer(bytes), *memory = buffer(bytes);
        struct copy copy;

        fill(in, bytes, 6);
        set_up(&copy, LEATI_DIRECTION_IN, in, memory, bytes);
        copy.request.early = early;
        close_gate();
        start(&copy);
        if (early) {
            assert_true(is_staged(&copy));
        } else {
            moment();
            assert_false(look(&copy).staged);
        }
        assert_false(look(&copy).done);
        assert_int_equal(look(&copy).arrived_bytes, 0);
        /* Work in front of it writes what is to be copied. */
        fill(in, bytes, 7);
        open_gate();
        finish(&copy, LEAT_OK);
        expect(memory, bytes, early ? 6 : 7);
        free(in);
        free(memory);
    }
}

/* The worker comes late: the stream waits with each DMA, in and out, and does not get past the copy. */
static void the_stream_waits_for_the_workers(void **state)
{
    const size_t bytes = 2 * MIB; /* several times round the ring */

    (void)state;
    for (int direction = LEATI_DIRECTION_IN; direction <= LEATI_DIRECTION_HOST; direction++) {
        char *host = buffer(bytes), *memory = buffer(bytes);
        struct copy busy, copy;

        fill(direction == LEATI_DIRECTION_IN ? host : memory, bytes, 8);
        hold_worker(&busy);
        set_up(&copy, (enum leati_direction)direction, host, memory, bytes);
        start(&copy);
        moment();
        assert_false(atomic_load(&copy.past));
        assert_false(look(&copy).staged);
        free_worker(&busy);
        finish(&copy, LEAT_OK);
        expect(host, bytes, 8);
        expect(memory, bytes, 8);
        free(host);
        free(memory);
    }
}

/* The DMA comes late: the workers leave its place in the ring alone until then. */
static void the_workers_wait_for_the_stream(void **state)
{
    const size_t bytes = MIB;

    (void)state;
    for (int direction = LEATI_DIRECTION_IN; direction <= LEATI_DIRECTION_OUT; direction++) {
        char *host = buffer(bytes), *memory = buffer(bytes);
        struct copy copy;

        fill(direction == LEATI_DIRECTION_IN ? host : memory, bytes, 9);
        atomic_store(&device.stream->delay_us, 3000);
        set_up(&copy, (enum leati_direction)direction, host, memory, bytes);
        copy.request.early = true;
        start(&copy);
        finish(&copy, LEAT_OK);
        expect(host, bytes, 9);
        expect(memory, bytes, 9);
        atomic_store(&device.stream->delay_us, 0);
        free(host);
        free(memory);
    }
}

/* ---- copies that end before their end ---- */

static void a_cancelled_copy_copies_nothing_more(void **state)
{
    const size_t bytes = MIB;
    char *in = buffer(bytes), *memory = buffer(bytes);
    struct leati_job_state ended;
    struct copy copy;

    (void)state;
    set_up(&copy, LEATI_DIRECTION_IN, in, memory, bytes);
    close_gate();
    start(&copy);
    leati_job_stop(copy.job, LEAT_ERROR_CANCELLED);
    leati_job_stop(copy.job, LEAT_ERROR_DEADLINE); /* the first reason stays */
    open_gate();
    ended = finish(&copy, LEAT_ERROR_CANCELLED);
    assert_int_equal(ended.arrived_bytes, 0);
    /* It is told by the ticket only. */
    assert_int_equal(atomic_load(&device.timeline.failures), 0);
    free(in);
    free(memory);
}

/* A copy in that its deadline ends, while each of its parts takes a tenth of that time: what came before the deadline
 * is there. Returns the bytes that came, which may be none where others use the machine. */
static size_t end_by_deadline(char *in, char *memory, size_t bytes, unsigned deadline_ms)
{
    struct leati_job_state ended;
    struct copy copy;
    char message[256];

    memset(memory, 0, bytes);
    set_up(&copy, LEATI_DIRECTION_IN, in, memory, bytes);
    copy.request.early = true;
    copy.request.deadline_ns = leati_clock_ns() + (uint64_t)deadline_ms * 1000000;
    atomic_store(&device.stream->delay_us, deadline_ms * 100);
    start(&copy);
    assert_true(wait_for(&copy.past));
    leati_job_message(copy.job, message, sizeof message);
    assert_non_null(strstr(message, leat_status_text(LEAT_ERROR_DEADLINE)));
    ended = finish(&copy, LEAT_ERROR_DEADLINE);
    assert_true(ended.arrived_bytes < bytes);
    expect(memory, ended.arrived_bytes, 10);
    atomic_store(&device.stream->delay_us, 0);
    return ended.arrived_bytes;
}

static void a_deadline_ends_a_copy_in_the_middle(void **state)
{
    const size_t bytes = 2 * MIB;
    char *in = buffer(bytes), *memory = buffer(bytes);
    size_t arrived_bytes = 0;

    (void)state;
    fill(in, bytes, 10);
    for (unsigned deadline_ms = 100; !arrived_bytes && deadline_ms <= 6400; deadline_ms *= 4)
        arrived_bytes = end_by_deadline(in, memory, bytes, deadline_ms);
    assert_true(arrived_bytes > 0);
    free(in);
    free(memory);
}

/* What leat installs before cmocka puts its own handlers in their place, which end the test. */
static struct sigaction on_segv, on_bus;

/* A page in the middle goes away: the order knows before the stream is past the copy, which holds it up no longer
 * than that. */
static void a_fault_in_the_middle_is_told(void **state)
{
    const size_t bytes = 2 * MIB, bad = MIB + 8192;
    char *memory = buffer(bytes);

    (void)state;
    sigaction(SIGSEGV, &on_segv, NULL);
    sigaction(SIGBUS, &on_bus, NULL);
    for (int direction = LEATI_DIRECTION_IN; direction <= LEATI_DIRECTION_OUT; direction++) {
        char *host = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), address[32];
        struct leati_job_state ended;
        struct copy copy;

        assert_true(host != MAP_FAILED);
        fill(direction == LEATI_DIRECTION_IN ? host : memory, bytes, 11);
        assert_int_equal(mprotect(host + bad, 4096, PROT_NONE), 0);
        atomic_store(&device.timeline.failures, 0);
        set_up(&copy, (enum leati_direction)direction, host, memory, bytes);
        start(&copy);
        assert_true(wait_for(&copy.past));
        assert_int_equal(atomic_load(&device.timeline.failures), 1);
        assert_int_equal(device.timeline.status, LEAT_ERROR_POINTER);
        snprintf(address, sizeof address, "%p", (void *)(host + bad));
        assert_non_null(strstr(device.timeline.message, address));
        ended = finish(&copy, LEAT_ERROR_POINTER);
        assert_int_equal(ended.arrived_bytes, bad);
        expect(direction == LEATI_DIRECTION_IN ? memory : host, bad, 11);
        munmap(host, bytes);
    }
    free(memory);
}

/* ---- copies that the caller makes ---- */

static leat_status copy_eagerly(struct copy *copy)
{
    copy->request.context = copy;
    copy->request.eager = copy->request.early = true;
    return copy_now(copy, NULL);
}

/* With a worker that helps, and with one that is busy; through a ring of the stager's and through one of the
 * caller's. The source has been read when the call returns, although the stream is held up. */
static void eager_copies_are_made_by_the_caller(void **state)
{
    static const size_t eager_sizes[] = {1, 4095, 4097, 100 * KIB + 3, 250 * KIB, 900 * KIB + 1};
    const size_t last = sizeof eager_sizes / sizeof eager_sizes[0] - 1; /* too long for the stager's rings */

    (void)state;
    for (unsigned i = 0; i <= last; i++) {
        char *in = buffer(eager_sizes[i]), *memory = buffer(eager_sizes[i]);
        struct leati_flags *block = aligned_alloc(4096, leati_stager_block_bytes(eager_sizes[i]));
        struct copy busy, copy;

        assert_non_null(block);
        for (int way = i == last ? 2 : 0; way < 4; way++) {
            if (way & 1)
                hold_worker(&busy);
            fill(in, eager_sizes[i], 20 + i);
            set_up(&copy, LEATI_DIRECTION_IN, in, memory, eager_sizes[i]);
            copy.request.block = way & 2 ? block : NULL;
            close_gate();
            assert_int_equal(copy_eagerly(&copy), LEAT_OK);
            memset(in, 0, eager_sizes[i]);
            open_gate();
            wait_for_stream(device.stream);
            expect(memory, eager_sizes[i], 20 + i);
            if (way & 1)
                free_worker(&busy);
        }
        free(in);
        free(memory);
        free(block);
    }
}

/* Nobody tells the caller when a part of a short ring is free again, so that it could wait for ever. */
static void eager_copies_need_a_whole_ring(void **state)
{
    const size_t bytes = 300 * KIB;
    char *in = buffer(bytes), *memory = buffer(bytes);
    struct copy copy;

    (void)state;
    set_up(&copy, LEATI_DIRECTION_IN, in, memory, bytes);
    assert_int_equal(copy_eagerly(&copy), LEATI_DECLINED);
    assert_int_equal(device.stager.held_bytes, 0);
    assert_int_equal(copy.moved, 0);
    free(in);
    free(memory);
}

/* What goes wrong is the call's failure, and not the order's; the memory goes back. */
static void eager_copies_return_their_failures(void **state)
{
    const size_t bytes = 200 * KIB, bad = 100 * KIB;
    char *host = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *memory = buffer(bytes);
    struct copy copy;

    (void)state;
    assert_true(host != MAP_FAILED);
    sigaction(SIGSEGV, &on_segv, NULL);
    sigaction(SIGBUS, &on_bus, NULL);
    memset(host, 1, bytes);
    assert_int_equal(mprotect(host + bad, 4096, PROT_NONE), 0);
    set_up(&copy, LEATI_DIRECTION_IN, host, memory, bytes);
    assert_int_equal(copy_eagerly(&copy), LEAT_ERROR_POINTER);
    assert_non_null(strstr(leat_last_error(), "could not be reached"));
    wait_for_stream(device.stream);
    assert_int_equal(mprotect(host + bad, 4096, PROT_READ | PROT_WRITE), 0);
    for (enum hook hook = FLAGS; hook <= MOVE; hook++) {
        set_up(&copy, LEATI_DIRECTION_IN, host, memory, bytes);
        fail_at(hook, 1);
        assert_int_equal(copy_eagerly(&copy), LEAT_ERROR_DRIVER);
        assert_true(atomic_load(&fired));
        assert_string_equal(leat_last_error(), "the test's device refuses");
        assert_int_equal(atomic_load(&device.stream->done), device.stream->given);
        assert_int_equal(device.stager.held_bytes, 0);
    }
    assert_int_equal(atomic_load(&device.timeline.failures), 0);
    munmap(host, bytes);
    free(memory);
}

/* ---- hooks that fail ---- */

/* Each call of each hook that a copy makes. What the stream was given before is over when the failure is told, no
 * memory is lost, and the caller's message stays where the copy can be made in another way. */
static void every_hook_of_a_copy_may_fail(void **state)
{
    static const enum hook which[] = {TAKE, FLAGS, MOVE};
    const size_t bytes = 700 * KIB;
    char *host = buffer(bytes), *memory = buffer(bytes);
    struct copy copy;

    (void)state;
    for (int i = 0; i < 6; i++) {
        enum leati_direction direction = i % 2 ? LEATI_DIRECTION_OUT : LEATI_DIRECTION_IN;
        enum hook hook = which[i / 2];
        unsigned n = 0;

        for (;;) {
            n++;
            fill(direction == LEATI_DIRECTION_IN ? host : memory, bytes, n);
            set_up(&copy, direction, host, memory, bytes);
            leati_fail(LEAT_ERROR_INVALID, "an earlier failure");
            fail_at(hook, n);
            start(&copy);
            fail_nowhere();
            assert_false(copy.inside);
            if (!atomic_load(&fired))
                break;
            assert_int_equal(copy.status, hook == TAKE ? LEATI_DECLINED : LEAT_ERROR_DRIVER);
            assert_string_equal(leat_last_error(),
                                hook == TAKE ? "an earlier failure" : "the test's device refuses");
            assert_int_equal(atomic_load(&device.stream->done), device.stream->given);
            assert_int_equal(device.stager.held_bytes, 0);
            assert_int_equal(atomic_load(&device.blocks), 0);
            assert_int_equal(atomic_load(&device.timeline.holders), 0);
        }
        assert_true(n > (hook == TAKE ? 1 : 8));
        finish(&copy, LEAT_OK);
        expect(host, bytes, n);
        expect(memory, bytes, n);
    }
    assert_int_equal(atomic_load(&device.timeline.failures), 0);
    free(host);
    free(memory);
}

/* The stream refuses in the middle and cannot be waited for either: it still uses the job's memory, which stays
 * until the end. */
static void a_job_of_a_lost_stream_stays(void **state)
{
    const size_t bytes = 700 * KIB;
    char *host = buffer(bytes), *memory = buffer(bytes);
    struct copy copy;

    (void)state;
    close_gate();
    set_up(&copy, LEATI_DIRECTION_IN, host, memory, bytes);
    fail_at(FLAGS, 3);
    fail_at(SYNCHRONIZE, 1);
    start(&copy);
    assert_int_equal(copy.status, LEAT_ERROR_DRIVER);
    assert_int_equal(atomic_load(&device.blocks), 1);
    assert_true(device.stager.held_bytes > 0);
    open_gate();
    wait_for_stream(device.stream);
    assert_int_equal(atomic_load(&device.blocks), 1);
    free(host);
    free(memory);
}

/* A job that is done is kept for its ticket when the stager ends. */
static void a_ticket_outlives_the_stager(void **state)
{
    const size_t bytes = 700 * KIB;
    char *host = buffer(bytes), *memory = buffer(bytes);
    struct leati_job_state ended;
    struct copy copy;

    (void)state;
    set_up(&copy, LEATI_DIRECTION_OUT, host, memory, bytes);
    start(&copy);
    assert_true(wait_for(&copy.past));
    wait_for_stream(device.stream);
    leati_stager_end(&device.stager);
    assert_int_equal(atomic_load(&device.blocks), 0);
    ended = look(&copy);
    assert_true(ended.staged && ended.done && ended.arrived_bytes == bytes);
    assert_false(leati_job_help(copy.job));
    leati_job_release(copy.job);
    assert_int_equal(leati_stager_init(&device.stager, &hooks, &device), LEAT_OK); /* for the teardown */
    free(host);
    free(memory);
}

/* Each call of each hook by which a stager starts. */
static void every_hook_of_a_start_may_fail(void **state)
{
    static const struct {
        enum hook hook;
        unsigned number;
        bool lost;
    } failures[] = {{TAKE, 1, false},  {TAKE, 2, false},       {CREATE, 1, false},
                    {FLAGS, 1, false}, {SYNCHRONIZE, 1, true}, {DESTROY, 1, false}};

    (void)state;
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        struct leati_stager other;

        assert_int_equal(leati_stager_init(&other, &hooks, &device), LEAT_OK);
        fail_at(failures[i].hook, failures[i].number);
        assert_true(leati_stager_start(&other, -1, 1) < LEAT_OK);
        assert_string_equal(leat_last_error(), "the test's device refuses");
        fail_nowhere();
        assert_int_equal(other.lost != NULL, failures[i].lost);
        assert_int_equal(atomic_load(&device.blocks), failures[i].lost);
        leati_stager_end(&other);
        assert_int_equal(atomic_load(&device.blocks), 0);
    }
}

/* ---- memory ---- */

static void *start_copy(void *argument)
{
    start(argument);
    return NULL;
}

/* What was reserved for a copy that is not submitted goes back, and the stream was given nothing. */
static void reserved_memory_goes_back(void **state)
{
    const size_t bytes = 2 * MIB;
    char *host = buffer(bytes), *memory = buffer(bytes);
    struct leati_job *jobs[2];
    struct copy copy;

    (void)state;
    set_up(&copy, LEATI_DIRECTION_IN, host, memory, bytes);
    copy.request.context = &copy;
    for (int i = 0; i < 2; i++) {
        copy.request.no_wait = i > 0;
        assert_int_equal(leati_stager_reserve(&device.stager, &copy.request, &jobs[i]), LEAT_OK);
    }
    assert_true(device.stager.held_bytes > 0);
    for (int i = 0; i < 2; i++)
        leati_stager_drop(&device.stager, jobs[i]);
    assert_int_equal(device.stager.held_bytes, 0);
    assert_int_equal(copy.moved, 0);
    free(host);
    free(memory);
}

/* Copies of a stream that is held up take no more than they may: one that finds no memory waits. */
static void copies_wait_for_memory(void **state)
{
    enum { COPIES = 40 };
    static struct copy copies[COPIES];
    const size_t bytes = 2 * MIB;
    char *host = buffer(bytes), *memory = buffer(bytes);
    pthread_t thread;
    int count = 0;

    (void)state;
    fill(host, bytes, 12);
    close_gate();
    while (device.stager.held_bytes + 256 * KIB + 4096 <= device.stager.limit_bytes && count < COPIES - 1) {
        set_up(&copies[count], LEATI_DIRECTION_IN, host, memory, bytes);
        start(&copies[count]);
        assert_int_equal(copies[count++].status, LEAT_OK);
    }
    assert_true(count > 2 && count < COPIES - 1);
    assert_true(device.stager.held_bytes <= device.stager.limit_bytes);
    set_up(&copies[count], LEATI_DIRECTION_IN, host, memory, bytes);
    copies[count].request.no_wait = true;
    start(&copies[count]);
    assert_int_equal(copies[count].status, LEATI_DECLINED);
    set_up(&copies[count], LEATI_DIRECTION_IN, host, memory, bytes);
    copies[count].status = LEAT_ERROR_INVALID;
    assert_int_equal(pthread_create(&thread, NULL, start_copy, &copies[count]), 0);
    moment();
    assert_int_equal(copies[count].moved, 0);
    open_gate();
    pthread_join(thread, NULL);
    for (int i = 0; i <= count; i++)
        finish(&copies[i], LEAT_OK);
    expect(memory, bytes, 12);

    /* The same on a device that is lost meanwhile. */
    close_gate();
    for (int i = 0; i < count; i++) {
        set_up(&copies[i], LEATI_DIRECTION_IN, host, memory, bytes);
        start(&copies[i]);
    }
    fail_at(HEALTH, 1);
    set_up(&copies[count], LEATI_DIRECTION_IN, host, memory, bytes);
    start(&copies[count]);
    assert_int_equal(copies[count].status, LEATI_DECLINED);
    open_gate();
    for (int i = 0; i < count; i++)
        finish(&copies[i], LEAT_OK);
    free(host);
    free(memory);
}

/* ---- threads that wait ---- */

static leat_status is_past(void *context)
{
    return atomic_load((atomic_int *)context) ? LEAT_OK : LEAT_NOT_READY;
}

/* The worker is busy elsewhere: a thread that waits makes the copy. */
static void who_waits_helps(void **state)
{
    const size_t bytes = 2 * MIB;
    char *host = buffer(bytes), *memory = buffer(bytes);
    struct copy busy, copy;

    (void)state;
    for (int way = 0; way < 3; way++) {
        fill(memory, bytes, 13 + (unsigned)way);
        hold_worker(&busy);
        set_up(&copy, LEATI_DIRECTION_OUT, host, memory, bytes);
        start(&copy);
        while (!atomic_load(&copy.past))
            if (way == 0)
                leati_stager_help_while_waiting(&device.stager, is_past, &copy.past);
            else if (way == 1)
                (void)leati_job_help(copy.job);
            else
                leati_stager_join(&device.stager, copy.job);
        finish(&copy, LEAT_OK);
        expect(host, bytes, 13 + (unsigned)way);
        free_worker(&busy);
    }
    free(host);
    free(memory);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        STAGING_TEST(bytes_go_in_and_out),
        STAGING_TEST(bytes_go_from_host_to_host),
        STAGING_TEST(rows_go_in_and_out),
        STAGING_TEST(lists_are_copied_now),
        STAGING_TEST(only_early_copies_are_staged_before_their_stream),
        STAGING_TEST(the_stream_waits_for_the_workers),
        STAGING_TEST(the_workers_wait_for_the_stream),
        STAGING_TEST(a_cancelled_copy_copies_nothing_more),
        STAGING_TEST(a_deadline_ends_a_copy_in_the_middle),
        STAGING_TEST(a_fault_in_the_middle_is_told),
        STAGING_TEST(eager_copies_are_made_by_the_caller),
        STAGING_TEST(eager_copies_need_a_whole_ring),
        STAGING_TEST(eager_copies_return_their_failures),
        STAGING_TEST(every_hook_of_a_copy_may_fail),
        STAGING_TEST(a_job_of_a_lost_stream_stays),
        STAGING_TEST(a_ticket_outlives_the_stager),
        STAGING_TEST(every_hook_of_a_start_may_fail),
        STAGING_TEST(reserved_memory_goes_back),
    STAGING_TEST(copies_wait_for_memory),
        STAGING_TEST(who_waits_helps),
    };

    setenv("LEAT_COPY_RING", "256K", 1);
    setenv("LEAT_COPY_WORKERS", "1", 1);
    setenv("LEAT_COPY_MEMORY", "4M", 1);
    setenv("LEAT_COPY_STORE_POLICY", "cached", 1);
    assert_true(leati_fault_handler_is_installed());
    sigaction(SIGSEGV, NULL, &on_segv);
    sigaction(SIGBUS, NULL, &on_bus);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
