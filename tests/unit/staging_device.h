/*
 * staging_device.h - shared by the tests of staged copies: a device that the test supplies to src/staging. A
 * thread executes the work of a stream, malloc() supplies memory of every kind, and a test can make each hook
 * fail.
 */
#ifndef STAGING_DEVICE_H
#define STAGING_DEVICE_H

#include "base/clock.h"
#include "base/fault_handler.h"
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
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define PATIENCE_NS ((uint64_t)60 * 1000000000)
#define MOMENT_US 20000 /* a call that does not wait returns within this time */

/* ---- the device: hooks that can fail ---- */

enum hook { NO_HOOK, TAKE, HEALTH, CREATE, DESTROY, SYNCHRONIZE, FLAGS, MOVE, HOOKS };

static atomic_uint armed[HOOKS]; /* n: the hook's n-th call from now fails, and no other; 0: none fails */
static atomic_bool fired;

static inline void fail_at(enum hook hook, unsigned number)
{
    atomic_store(&fired, false);
    atomic_store(&armed[hook], number);
}

static inline void fail_nowhere(void)
{
    for (enum hook hook = NO_HOOK; hook < HOOKS; hook++)
        atomic_store(&armed[hook], 0);
}

static inline leat_status may_fail(enum hook hook, leat_status status)
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
    size_t bytes, width, dst_pitch, src_pitch; /* OP_ROWS: bytes of all rows, without gaps */
    atomic_int *mark;
    struct op *next;
};

struct stream {
    pthread_t thread;
    pthread_mutex_t lock; /* guards the next three fields */
    struct op *first, **end;
    unsigned long given;
    atomic_ulong done;
    atomic_bool ending;
    atomic_uint delay_us; /* delay before each DMA */
};

static inline void run_rows(const struct op *op)
{
    for (size_t row = 0; row < op->bytes / op->width; row++)
        memcpy(op->dst + row * op->dst_pitch, op->src + row * op->src_pitch, op->width);
}

static inline void run_op(struct stream *stream, struct op *op)
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

static inline void *run_stream(void *argument)
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

static inline void give(struct stream *stream, struct op op)
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

static inline struct stream *new_stream(void)
{
    struct stream *stream = calloc(1, sizeof *stream);

    assert_non_null(stream);
    stream->end = &stream->first;
    pthread_mutex_init(&stream->lock, NULL);
    assert_int_equal(pthread_create(&stream->thread, NULL, run_stream, stream), 0);
    return stream;
}

static inline void wait_for_stream(struct stream *stream)
{
    uint64_t end_ns = leati_clock_ns() + PATIENCE_NS;

    while (atomic_load(&stream->done) != stream->given) {
        assert_true(leati_clock_ns() < end_ns);
        sched_yield();
    }
}

static inline void end_stream(struct stream *stream)
{
    atomic_store(&stream->ending, true);
    pthread_join(stream->thread, NULL);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

static inline void moment(void)
{
    usleep(MOMENT_US);
}

static inline bool wait_for(atomic_int *value)
{
    uint64_t end_ns = leati_clock_ns() + PATIENCE_NS;

    while (!atomic_load(value) && leati_clock_ns() < end_ns)
        sched_yield();
    return atomic_load(value);
}

/* ---- the hooks ---- */

/* A stream's timeline. It counts its holders. */
struct timeline {
    atomic_int holders, failures;
    leat_status status;
    char message[256];
};

/* The device of one test. */
static struct {
    struct leati_stager stager;
    struct stream *stream;
    struct timeline timeline;
    atomic_int blocks; /* number of blocks of pinned memory that were taken and not given back */
    atomic_int pieces;
} device;

/* Fails if the stream still uses a block that is given back. */
static inline void expect_unused(const char *block, size_t bytes)
{
    struct stream *stream = device.stream;

    pthread_mutex_lock(&stream->lock);
    for (struct op *op = stream->first; op; op = op->next) {
        assert_false((uintptr_t)op->dst - (uintptr_t)block < bytes);
        assert_false((uintptr_t)op->src - (uintptr_t)block < bytes);
        /* The stream may already have written the last flag and still have that operation in its list. */
        assert_false(op != stream->first && (uintptr_t)op->value.flag - (uintptr_t)block < bytes);
    }
    pthread_mutex_unlock(&stream->lock);
}

/* Allocates a block. The page before the block stores its size. */
static inline void *take(void *context, enum leati_store_policy policy, size_t bytes)
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

static inline void give_back(void *context, void *block)
{
    size_t bytes;

    (void)context;
    memcpy(&bytes, (char *)block - 4096, sizeof bytes);
    expect_unused(block, bytes);
    free((char *)block - 4096);
    atomic_fetch_sub(&device.blocks, 1);
}

static inline leat_status health(void *context)
{
    (void)context;
    return may_fail(HEALTH, LEAT_ERROR_DEVICE_LOST);
}

static inline leat_status stream_create(void *context, void **stream)
{
    leat_status status = may_fail(CREATE, LEAT_ERROR_DRIVER);

    (void)context;
    if (status == LEAT_OK)
        *stream = new_stream();
    return status;
}

static inline leat_status stream_synchronize(void *context, void *stream)
{
    leat_status status = may_fail(SYNCHRONIZE, LEAT_ERROR_DRIVER);

    (void)context;
    if (status == LEAT_OK)
        wait_for_stream(stream);
    return status;
}

static inline leat_status stream_destroy(void *context, void *stream)
{
    (void)context;
    wait_for_stream(stream);
    end_stream(stream);
    return may_fail(DESTROY, LEAT_ERROR_DRIVER);
}

static inline leat_status flags(void *context, void *stream, const struct leati_mem_op *values, unsigned count)
{
    leat_status status = may_fail(FLAGS, LEAT_ERROR_DRIVER);

    (void)context;
    assert_true(count >= 1 && count <= 4);
    for (unsigned i = 0; i < count && status == LEAT_OK; i++)
        give(stream, (struct op){.kind = OP_VALUE, .value = values[i]});
    return status;
}

static inline void timeline_hold(void *timeline)
{
    atomic_fetch_add(&((struct timeline *)timeline)->holders, 1);
}

static inline void timeline_release(void *timeline)
{
    atomic_fetch_sub(&((struct timeline *)timeline)->holders, 1);
}

static inline void timeline_failed(void *timeline, leat_status status, const char *message)
{
    struct timeline *failed = timeline;

    moment(); /* a stream that does not wait for the report would continue in this time */
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
    char *memory; /* the device's side of the copy */
    size_t pitch; /* pitch of the rows on the device; 0: the copy is contiguous */
    size_t moved; /* bytes submitted to the stream so far, in order */
    bool inside;  /* true between begin() and end() */
    leat_status status;
    atomic_int past; /* set when the stream has completed the copy */
};

static inline void begin(void *context)
{
    struct copy *copy = context;

    assert_false(copy->inside);
    copy->inside = true;
    atomic_fetch_add(&device.pieces, 1);
}

static inline void end(void *context)
{
    struct copy *copy = context;

    assert_true(copy->inside);
    copy->inside = false;
}

static inline leat_status move(void *context, size_t offset, size_t bytes, void *ring_place)
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

/* Prepares a copy. host: the pageable side; memory: the device's side. */
static inline void set_up(struct copy *copy, enum leati_direction direction, char *host, char *memory,
                          size_t bytes)
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

static inline leat_status copy_now(struct copy *copy, struct leati_job **started)
{
    struct leati_job *job;
    leat_status status = leati_stager_reserve(&device.stager, &copy->request, &job);

    return status == LEAT_OK ? leati_stager_submit(&device.stager, &copy->request, job, started) : status;
}

static inline void start(struct copy *copy)
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

static inline struct leati_job_state look(const struct copy *copy)
{
    struct leati_job_state state;

    leati_job_look(copy->job, &state);
    return state;
}

/* Waits for the copy. Fails unless it ended with status. */
static inline struct leati_job_state finish(struct copy *copy, leat_status status)
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

static inline char *buffer(size_t bytes)
{
    char *made = malloc(bytes);

    assert_non_null(made);
    memset(made, 0x55, bytes);
    return made;
}

/* Fills memory with bytes that depend on their offset and on the seed. */
static inline void fill(char *ptr, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        ptr[i] = (char)((i >> 2) * 2654435761u >> (8 * (i & 3)) ^ seed * 37);
}

static inline void expect(const char *ptr, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (ptr[i] != (char)((i >> 2) * 2654435761u >> (8 * (i & 3)) ^ seed * 37))
            fail_msg("byte %zu of %zu is wrong", i, bytes);
}

/* ---- streams and workers that are held up ---- */

static atomic_int gate;

static inline void close_gate(void)
{
    atomic_store(&gate, 0);
    give(device.stream, (struct op){.kind = OP_GATE, .mark = &gate});
}

static inline void open_gate(void)
{
    atomic_store(&gate, 1);
}

static struct stream *other_stream; /* the stream of the copy that keeps the worker busy */

/* ---- set-up and teardown ---- */

static inline int setup(void **state)
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

static inline int teardown(void **state)
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

/* ---- copies that fail or are cancelled ---- */

/* The signal handlers that leat installed. cmocka replaces them in each test by handlers that end the test. */
static struct sigaction on_segv, on_bus;

/* Call before the first test. */
static inline void begin_staging_tests(void)
{
    setenv("LEAT_COPY_RING", "256K", 1);
    setenv("LEAT_COPY_WORKERS", "1", 1);
    setenv("LEAT_COPY_MEMORY", "4M", 1);
    setenv("LEAT_COPY_STORE_POLICY", "cached", 1);
    assert_true(leati_fault_handler_is_installed());
    sigaction(SIGSEGV, NULL, &on_segv);
    sigaction(SIGBUS, NULL, &on_bus);
}

#endif
