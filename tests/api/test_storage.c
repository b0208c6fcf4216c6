/*
 * test_storage.c - tests copies from and to a program's own storage (leat/storage.h): bytes, order, waiting, tickets,
 * failures, and the end of the storage.
 *
 * On the CPU device the workers call the storage with device memory. With LEAT_COPY_STAGE=1 or LEAT_STRICT=1 they use
 * the staging ring as for a GPU.
 */
#include "test_pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <leat/storage.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static const size_t sizes[] = {1, 4095, 64 * KIB + 1, MIB, 5 * MIB + 3, 40 * MIB};
#define SIZES (sizeof sizes / sizeof sizes[0])
#define MOST (40 * MIB)

static const leat_kind kinds[] = {LEAT_KIND_DEVICE, LEAT_KIND_PINNED, LEAT_KIND_PAGEABLE};
#define KINDS (sizeof kinds / sizeof kinds[0])

/* A storage in memory, which moves only what it is let. */
struct tap {
    unsigned char *bytes;
    bool write;
    size_t step;            /* moves at most so many bytes in a call; 0: any number */
    _Atomic size_t let;     /* moves no byte behind this one */
    _Atomic size_t moved;
    atomic_int inside;      /* number of threads in move(); never above 1 */
    atomic_int waits;       /* how often move() could not go on */
    size_t fails_at;        /* 0: never */
    leat_status failure;
    atomic_int releases;
    atomic_int stops;
    pthread_t mover; /* the thread of the last move() */
};

static size_t tap_move(void *object, uint64_t offset, void *memory, size_t bytes, leat_status *status)
{
    struct tap *tap = object;
    size_t some = atomic_load(&tap->let) - (size_t)offset;

    assert_int_equal(atomic_fetch_add(&tap->inside, 1), 0);
    assert_int_equal(atomic_load(&tap->releases), 0);
    assert_int_equal(offset, tap->moved);
    some = some < bytes ? some : bytes;
    some = tap->step && tap->step < some ? tap->step : some;
    *status = LEAT_NOT_READY;
    if (tap->fails_at && offset + some >= tap->fails_at) {
        some = tap->fails_at - (size_t)offset;
        *status = tap->failure;
    }
    memcpy(tap->write ? tap->bytes + offset : memory, tap->write ? memory : tap->bytes + offset, some);
    tap->mover = pthread_self();
    tap->moved += some;
    if (some < bytes)
        atomic_fetch_add(&tap->waits, 1);
    assert_int_equal(atomic_fetch_sub(&tap->inside, 1), 1);
    return some;
}

static int tap_ready(const void *object)
{
    const struct tap *tap = object;

    return tap->moved < atomic_load(&tap->let) || (tap->fails_at && tap->moved >= tap->fails_at);
}

static void tap_describe(const void *object, uint64_t offset, leat_status status, char *text, size_t text_bytes)
{
    (void)object;
    snprintf(text, text_bytes, "the tap broke at %d with %s", (int)offset, leat_status_name(status));
}

static void tap_release(void *object)
{
    atomic_fetch_add(&((struct tap *)object)->releases, 1);
}

static void tap_stop(void *object)
{
    struct tap *tap = object;

    assert_int_equal(atomic_load(&tap->releases), 0);
    atomic_fetch_add(&tap->stops, 1);
}

static const leat_storage_ops tap_ops = {.size = sizeof tap_ops,
                                         .move = tap_move,
                                         .ready = tap_ready,
                                         .describe = tap_describe,
                                         .release = tap_release,
                                         .stop = tap_stop};

/* Small copies are moved on the thread of a call. */
static const leat_storage_ops here_ops = {.size = sizeof here_ops,
                                          .move = tap_move,
                                          .ready = tap_ready,
                                          .describe = tap_describe,
                                          .release = tap_release,
                                          .stop = tap_stop,
                                          .here_bytes = 64 * KIB};

static void let(struct tap *tap, size_t bytes)
{
    atomic_store(&tap->let, bytes);
    leat_storage_wake();
}

static unsigned char *make_memory(struct test_state *t, leat_kind kind, size_t bytes)
{
    return kind == LEAT_KIND_PAGEABLE ? test_buffer(bytes) : test_alloc(t->device, kind, bytes);
}

static void end_memory(leat_kind kind, void *memory)
{
    if (kind == LEAT_KIND_PAGEABLE)
        free(memory);
    else
        OK(leat_memory_free(memory));
}

static void expect_released(struct tap *tap)
{
    assert_true(test_wait_for(&tap->releases, 1));
    assert_int_equal(atomic_load(&tap->stops), 0);
}

/* The copy ended early. */
static void expect_stopped(struct tap *tap)
{
    assert_true(test_wait_for(&tap->stops, 1));
    assert_true(test_wait_for(&tap->releases, 1));
    assert_int_equal(atomic_load(&tap->stops), 1);
}

static leat_ticket *read_start(struct test_state *t, void *dst, struct tap *tap, size_t bytes, uint64_t deadline_ns)
{
    leat_copy_options options = LEAT_COPY_OPTIONS_INIT;
    leat_ticket *ticket = NULL;

    options.deadline_ns = deadline_ns;
    OK(leat_storage_read_start(t->stream, dst, &tap_ops, tap, bytes, &options, &ticket));
    assert_non_null(ticket);
    return ticket;
}

static leat_ticket *write_start(struct test_state *t, struct tap *tap, const void *src, size_t bytes)
{
    leat_ticket *ticket = NULL;

    OK(leat_storage_write_start(t->stream, &tap_ops, tap, src, bytes, NULL, &ticket));
    assert_non_null(ticket);
    return ticket;
}

static void finish(leat_ticket *ticket, leat_status wanted)
{
    assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER), wanted);
    OK(leat_ticket_destroy(ticket));
}

/* The storages of stopped copies end with a later copy, as files do (leat/file.h). */
static void copy_later(struct test_state *t, unsigned char *source, void *memory)
{
    struct tap tap = {.bytes = source, .let = 1};

    finish(read_start(t, memory, &tap, 1, 0), LEAT_OK);
    expect_released(&tap);
}

/* ---- bytes ---- */

/* Reads every size to memory of every kind. The bytes around the destination must not change. */
static void storages_are_read(void **state)
{
    struct test_state *t = *state;
    unsigned char *source = test_buffer(MOST), *out = test_buffer(MOST + 2);

    for (size_t k = 0; k < KINDS; k++) {
        unsigned char *memory = make_memory(t, kinds[k], MOST + 2);

        for (size_t i = 0; i < SIZES; i++) {
            struct tap tap = {.bytes = source, .let = sizes[i], .step = i % 2 ? 0 : 100 * KIB + 7};

            test_pattern(source, sizes[i], i + 1);
            memset(out, 0xee, sizes[i] + 2);
            OK(leat_copy(t->stream, memory, out, sizes[i] + 2));
            finish(read_start(t, memory + 1, &tap, sizes[i], 0), LEAT_OK);
            OK(leat_copy_sync(t->stream, out, memory, sizes[i] + 2));
            EXPECT_PATTERN(out + 1, sizes[i], i + 1);
            assert_int_equal(out[0], 0xee);
            assert_int_equal(out[sizes[i] + 1], 0xee);
            expect_released(&tap);
        }
        end_memory(kinds[k], memory);
    }
    free(source);
    free(out);
}

static void storages_are_written(void **state)
{
    struct test_state *t = *state;
    unsigned char *in = test_buffer(MOST), *sink = test_buffer(MOST + 1);

    for (size_t k = 0; k < KINDS; k++) {
        unsigned char *memory = make_memory(t, kinds[k], MOST);

        for (size_t i = 0; i < SIZES; i++) {
            struct tap tap = {.bytes = sink, .write = true, .let = sizes[i], .step = i % 2 ? 0 : 100 * KIB + 7};

            test_pattern(in, sizes[i], i + 9);
            memset(sink, 0xee, sizes[i] + 1);
            OK(leat_copy(t->stream, memory, in, sizes[i]));
            finish(write_start(t, &tap, memory, sizes[i]), LEAT_OK);
            EXPECT_PATTERN(sink, sizes[i], i + 9);
            assert_int_equal(sink[sizes[i]], 0xee);
            expect_released(&tap);
        }
        end_memory(kinds[k], memory);
    }
    free(in);
    free(sink);
}

/* ---- order and waiting ---- */

/* A storage gives its bytes in pieces, at times that it chooses. The stream waits for them. */
static void a_copy_waits_for_its_storage(void **state)
{
    struct test_state *t = *state;
    unsigned char *source = test_buffer(MOST), *out = test_buffer(MOST), *memory;
    struct tap tap = {.bytes = source};
    leat_ticket *ticket;

    memory = test_alloc(t->device, LEAT_KIND_DEVICE, MOST);
    test_pattern(source, MOST, 3);
    ticket = read_start(t, memory, &tap, MOST, 0);
    OK(leat_copy(t->stream, out, memory, MOST));
    for (size_t some = 0; some < MOST; some += MOST / 8 + 1) {
        test_sleep_us(2000);
        assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, 0), LEAT_NOT_READY);
        assert_int_equal(leat_stream_query(t->stream), LEAT_NOT_READY);
        let(&tap, some);
    }
    let(&tap, MOST);
    finish(ticket, LEAT_OK);
    OK(leat_stream_synchronize(t->stream));
    EXPECT_PATTERN(out, MOST, 3);
    expect_released(&tap);
    OK(leat_memory_free(memory));
    free(source);
    free(out);
}

/* A write reads its memory when the stream reaches it, and not before. */
static void a_write_comes_after_earlier_work(void **state)
{
    struct test_state *t = *state;
    unsigned char *sink = test_buffer(5 * MIB), *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 5 * MIB);

    for (int round = 0; round < 10; round++) {
        struct tap tap = {.bytes = sink, .write = true, .let = 5 * MIB};
        struct test_gate *gate;
        leat_ticket *ticket;

        OK(leat_fill(t->stream, memory, 1, 5 * MIB));
        OK(leat_stream_synchronize(t->stream));
        gate = test_gate_close(t->stream);
        OK(leat_fill(t->stream, memory, 2, 5 * MIB));
        ticket = write_start(t, &tap, memory, 5 * MIB);
        OK(leat_fill(t->stream, memory, 3, 5 * MIB));
        test_expect_held(t->stream, gate, __FILE__, __LINE__);
        test_gate_open(gate);
        finish(ticket, LEAT_OK);
        EXPECT_BYTES(sink, 5 * MIB, 2);
        expect_released(&tap);
    }
    OK(leat_stream_synchronize(t->stream)); /* for the last fill */
    OK(leat_memory_free(memory));
    free(sink);
}

/* The destination must not change before the stream reaches a read, whatever the storage has. */
static void a_read_comes_after_earlier_work(void **state)
{
    struct test_state *t = *state;
    unsigned char *source = test_buffer(5 * MIB), *out = test_buffer(5 * MIB), *memory;

    memset(source, 9, 5 * MIB);
    for (size_t k = 0; k < KINDS; k++) {
        struct tap tap = {.bytes = source, .let = 5 * MIB};
        struct test_gate *gate;
        leat_ticket *ticket;

        memory = make_memory(t, kinds[k], 5 * MIB);
        gate = test_gate_close(t->stream);
        OK(leat_copy(t->stream, out, memory, 5 * MIB)); /* must not see what the storage has */
        ticket = read_start(t, memory, &tap, 5 * MIB, 0);
        test_sleep_us(2000);
        test_gate_open(gate);
        finish(ticket, LEAT_OK);
        OK(leat_copy_sync(t->stream, out, memory, 5 * MIB));
        EXPECT_BYTES(out, 5 * MIB, 9);
        end_memory(kinds[k], memory);
        expect_released(&tap);
    }
    free(source);
    free(out);
}

struct feeder {
    struct tap *tap;
    size_t bytes;
    unsigned seed;
};

/* Lets a storage go on in random steps. */
static void *feed(void *argument)
{
    struct feeder *feeder = argument;

    for (size_t some = 0; some < feeder->bytes;) {
        some += (size_t)rand_r(&feeder->seed) % (600 * KIB);
        if (rand_r(&feeder->seed) % 4 == 0)
            test_sleep_us(rand_r(&feeder->seed) % 2000);
        let(feeder->tap, some < feeder->bytes ? some : feeder->bytes);
    }
    return NULL;
}

/* Many storages of both directions, on two streams, which all wait again and again. */
static void storages_take_turns(void **state)
{
    enum { COUNT = 6 };
    struct test_state *t = *state;
    struct tap taps[COUNT];
    struct feeder feeders[COUNT];
    pthread_t threads[COUNT];
    unsigned char *memory[COUNT];
    leat_ticket *tickets[COUNT];
    const size_t bytes = 9 * MIB + 5;
    unsigned char *out = test_buffer(bytes);

    for (unsigned i = 0; i < COUNT; i++) {
        bool write = i % 2;

        taps[i] = (struct tap){.bytes = test_buffer(bytes), .write = write, .step = i * 50 * KIB};
        memory[i] = test_alloc(t->device, LEAT_KIND_DEVICE, bytes);
        test_pattern(write ? out : taps[i].bytes, bytes, i);
        if (write)
            OK(leat_copy_sync(t->stream, memory[i], out, bytes));
        feeders[i] = (struct feeder){&taps[i], bytes, i + 77};
    }
    OK(leat_stream_synchronize(t->stream));
    for (unsigned i = 0; i < COUNT; i++) {
        leat_stream *stream = i < COUNT / 2 ? t->stream : t->second;

        if (taps[i].write)
            OK(leat_storage_write_start(stream, &tap_ops, &taps[i], memory[i], bytes, NULL, &tickets[i]));
        else
            OK(leat_storage_read_start(stream, memory[i], &tap_ops, &taps[i], bytes, NULL, &tickets[i]));
    }
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, feed, &feeders[i]), 0);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (unsigned i = 0; i < COUNT; i++) {
        finish(tickets[i], LEAT_OK);
        if (!taps[i].write)
            OK(leat_copy_sync(t->stream, out, memory[i], bytes));
        EXPECT_PATTERN(taps[i].write ? taps[i].bytes : out, bytes, i);
        expect_released(&taps[i]);
        free(taps[i].bytes);
        OK(leat_memory_free(memory[i]));
    }
    free(out);
}

/* Copies of memory go on while storages wait. */
static void waiting_storages_hold_nothing_up(void **state)
{
    struct test_state *t = *state;
    unsigned char *source = test_buffer(8 * MIB), *out = test_buffer(8 * MIB);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 8 * MIB),
                  *other = test_alloc(t->device, LEAT_KIND_DEVICE, 8 * MIB);
    struct tap taps[4];
    leat_ticket *tickets[4];

    for (int i = 0; i < 4; i++) {
        taps[i] = (struct tap){.bytes = source};
        tickets[i] = read_start(t, memory + (size_t)i * MIB, &taps[i], MIB, 0);
    }
    for (unsigned round = 0; round < 20; round++) {
        test_pattern(source, 8 * MIB, round);
        OK(leat_copy(t->second, other, source, 8 * MIB));
        OK(leat_copy(t->second, out, other, 8 * MIB));
        OK(leat_stream_synchronize(t->second));
        EXPECT_PATTERN(out, 8 * MIB, round);
    }
    for (int i = 0; i < 4; i++) {
        let(&taps[i], MIB);
        finish(tickets[i], LEAT_OK);
        expect_released(&taps[i]);
    }
    OK(leat_memory_free(memory));
    OK(leat_memory_free(other));
    free(source);
    free(out);
}

/* ---- copies on the thread of a call ---- */

static leat_ticket *start_here(struct test_state *t, struct tap *tap, void *memory, size_t bytes)
{
    leat_ticket *ticket = NULL;

    if (tap->write)
        OK(leat_storage_write_start(t->stream, &here_ops, tap, memory, bytes, NULL, &ticket));
    else
        OK(leat_storage_read_start(t->stream, memory, &here_ops, tap, bytes, NULL, &ticket));
    return ticket;
}

static bool was_moved_here(const struct tap *tap, size_t bytes)
{
    return atomic_load(&tap->moved) == bytes && pthread_equal(tap->mover, pthread_self());
}

/* On an idle stream the call itself reads what is there, and writes what is in host memory. */
static void small_copies_are_moved_by_the_call(void **state)
{
    struct test_state *t = *state;
    unsigned char *bytes = test_buffer(64 * KIB), *out = test_buffer(64 * KIB);

    for (size_t k = 0; k < KINDS; k++) {
        unsigned char *memory = make_memory(t, kinds[k], 64 * KIB);

        for (size_t size = 1; size <= 64 * KIB; size = size * 8 - 1) {
            struct tap from = {.bytes = bytes, .let = size}, to = {.bytes = out, .write = true, .let = size};
            leat_ticket *ticket;

            test_pattern(bytes, size, size);
            memset(out, 0xee, size);
            if (kinds[k] == LEAT_KIND_PAGEABLE)
                memset(memory, 0xdd, size);
            OK(leat_stream_synchronize(t->stream));
            ticket = start_here(t, &from, memory, size);
            assert_true(was_moved_here(&from, size));
            finish(ticket, LEAT_OK);
            expect_released(&from);
            OK(leat_stream_synchronize(t->stream));
            ticket = start_here(t, &to, memory, size);
            if (kinds[k] == LEAT_KIND_PAGEABLE)
                assert_true(was_moved_here(&to, size));
            finish(ticket, LEAT_OK);
            expect_released(&to);
            EXPECT_PATTERN(out, size, size);
        }
        end_memory(kinds[k], memory);
    }
    free(bytes);
    free(out);
}

/* A call on a stream with earlier work moves nothing that this work uses. */
static void small_copies_come_after_earlier_work(void **state)
{
    struct test_state *t = *state;
    unsigned char *bytes = test_buffer(64 * KIB), *other = test_buffer(64 * KIB);

    for (size_t k = 0; k < KINDS; k++) {
        unsigned char *memory = make_memory(t, kinds[k], 64 * KIB);

        for (int round = 0; round < 10; round++) {
            struct tap to = {.bytes = other, .write = true, .let = 5000}, from = {.bytes = bytes, .let = 5000};
            leat_ticket *written, *read;
            struct test_gate *gate;

            memset(bytes, 3, 5000);
            memset(other, 2, 5000);
            OK(leat_copy_sync(t->stream, memory, bytes, 5000));
            gate = test_gate_close(t->stream);
            OK(leat_copy(t->stream, memory, other, 5000));
            memset(bytes, 4, 5000);
            written = start_here(t, &to, memory, 5000);
            read = start_here(t, &from, memory, 5000);
            leat_storage_work();
            test_expect_held(t->stream, gate, __FILE__, __LINE__);
            assert_int_equal(atomic_load(&to.moved), 0);
            if (kinds[k] == LEAT_KIND_PAGEABLE)
                EXPECT_BYTES(memory, 5000, 3);
            test_gate_open(gate);
            finish(written, LEAT_OK);
            finish(read, LEAT_OK);
            EXPECT_BYTES(other, 5000, 2);
            OK(leat_copy_sync(t->stream, other, memory, 5000));
            EXPECT_BYTES(other, 5000, 4);
            expect_released(&to);
            expect_released(&from);
        }
        end_memory(kinds[k], memory);
    }
    free(bytes);
    free(other);
}

/* A pool that scrubs clears a new block on its stream. Bytes that come into the block must not be cleared. */
static void small_copies_come_after_scrubbing(void **state)
{
    struct test_state *t = *state;
    unsigned char source[4000], out[4000];

    for (int kind = 0; kind < 2; kind++) {
        leat_pool *pool =
            POOL(t->device, .name = "scrubbed", .scrub = 1, .kind = kind ? LEAT_KIND_PINNED : LEAT_KIND_DEVICE);

        for (unsigned round = 0; round < 20; round++) {
            struct tap tap = {.bytes = source, .let = sizeof source};
            unsigned char *block;

            test_pattern(source, sizeof source, round);
            OK(leat_stream_synchronize(t->stream));
            block = test_block(pool, t->stream, 32 * MIB);
            finish(start_here(t, &tap, block, sizeof source), LEAT_OK);
            expect_released(&tap);
            OK(leat_copy_sync(t->stream, out, block, sizeof out));
            EXPECT_PATTERN(out, sizeof out, round);
            OK(leat_free(t->stream, block));
        }
        OK(leat_pool_destroy(pool));
    }
}

/* leat_storage_work() moves small copies on its own thread, and wakes leat's threads for the others. */
static void work_moves_small_copies(void **state)
{
    struct test_state *t = *state;
    unsigned char *source = test_buffer(MIB), *memory = test_alloc(t->device, LEAT_KIND_DEVICE, MIB);
    const size_t sizes_here[] = {4000, 64 * KIB, 64 * KIB + 1, 4000};

    for (int i = 0; i < 4; i++) {
        size_t bytes = sizes_here[i];
        struct tap tap = {.bytes = source};
        leat_ticket *ticket;

        OK(leat_stream_synchronize(t->stream));
        ticket = i < 3 ? start_here(t, &tap, memory, bytes) : read_start(t, memory, &tap, bytes, 0);
        test_sleep_us(50000); /* so that leat's threads sleep */
        leat_storage_work();
        assert_int_equal(atomic_load(&tap.moved), 0);
        atomic_store(&tap.let, bytes);
        leat_storage_work();
        if (i < 2)
            assert_true(was_moved_here(&tap, bytes));
        assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, UINT64_C(30000000000)), LEAT_OK);
        OK(leat_ticket_destroy(ticket));
        expect_released(&tap);
        assert_int_equal(was_moved_here(&tap, bytes), i < 2);
    }
    OK(leat_memory_free(memory));
    free(source);
}

/* Moves what there is, and then has the rest before it returns. */
static size_t move_and_get_more(void *object, uint64_t offset, void *memory, size_t bytes, leat_status *status)
{
    struct tap *tap = object;
    size_t moved = tap_move(object, offset, memory, bytes, status);

    if (atomic_load(&tap->let) < 100) {
        let(tap, 100);
        test_sleep_us(20000); /* so that the thread that was woken has seen that the copy is in work, and sleeps */
    }
    return moved;
}

/* The rest of a small copy comes while a thread moves the first part that is not one of leat's workers: the call,
 * leat_storage_work(), or on the CPU device the thread of the stream. */
static void the_rest_of_a_small_copy_is_not_forgotten(void **state)
{
    struct test_state *t = *state;
    unsigned char bytes[100], memory[100];
    leat_storage_ops ops = here_ops;

    ops.move = move_and_get_more;
    for (int by = 0; by < 3; by++) {
        struct tap tap = {.bytes = bytes, .write = by == 2, .let = by == 1 ? 0 : 50};
        struct test_gate *gate = NULL;
        leat_ticket *ticket;

        memset(bytes, by, 100);
        memset(memory, by + 10, 100);
        OK(leat_stream_synchronize(t->stream));
        if (by == 2)
            gate = test_gate_close(t->stream);
        if (tap.write)
            OK(leat_storage_write_start(t->stream, &ops, &tap, memory, 100, NULL, &ticket));
        else
            OK(leat_storage_read_start(t->stream, memory, &ops, &tap, 100, NULL, &ticket));
        test_sleep_us(20000);
        if (by == 1) {
            atomic_store(&tap.let, 50);
            leat_storage_work();
        }
        if (gate)
            test_gate_open(gate);
        assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, UINT64_C(30000000000)), LEAT_OK);
        OK(leat_ticket_destroy(ticket));
        expect_released(&tap);
        assert_memory_equal(memory, bytes, 100);
    }
}

/* A storage that fails in the call. The call succeeds, and the failure is told as always. */
static void small_copies_tell_failures(void **state)
{
    struct test_state *t = *state;
    unsigned char *source = test_buffer(64 * KIB), *memory = test_buffer(64 * KIB);

    for (int i = 0; i < 4; i++) {
        struct tap tap = {.bytes = source, .write = i % 2, .let = 64 * KIB, .fails_at = 1000, .failure = LEAT_ERROR_LINK};
        leat_ticket *ticket = start_here(t, &tap, memory, 2000);

        REFUSED(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER), LEAT_ERROR_LINK, "the tap broke at 1000");
        REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_LINK, "the tap broke at 1000");
        OK(leat_stream_synchronize(t->stream));
        OK(leat_ticket_destroy(ticket));
        copy_later(t, source, memory);
        expect_stopped(&tap);
    }
    free(memory);
    free(source);
}

/* A storage that becomes ready just after ready() has said for the looks-th time that it is not. */
struct late_tap {
    struct tap tap;
    pthread_t maker; /* the thread whose looks count */
    int looks;
};

static int late_ready(const void *object)
{
    struct late_tap *late = (struct late_tap *)(uintptr_t)object;
    int ready = tap_ready(&late->tap);

    if (!ready && pthread_equal(late->maker, pthread_self()) && --late->looks == 0) {
        let(&late->tap, 100);
        test_sleep_us(20000); /* so that the thread that was woken sleeps again */
    }
    return ready;
}

/* A storage becomes ready while the call hands its copy over to the threads: none is forgotten. */
static void small_copies_are_not_forgotten(void **state)
{
    struct test_state *t = *state;
    unsigned char bytes[100], memory[100] = {0};
    leat_storage_ops ops = here_ops;
    int seen = 0;

    ops.ready = late_ready;
    for (int looks = 1; looks <= 5; looks++) {
        struct late_tap late = {.tap.bytes = bytes, .maker = pthread_self(), .looks = looks};
        leat_ticket *ticket;

        memset(bytes, looks, 100);
        OK(leat_stream_synchronize(t->stream));
        OK(leat_storage_read_start(t->stream, memory, &ops, &late, 100, NULL, &ticket));
        seen += late.looks <= 0;
        if (late.looks > 0)
            let(&late.tap, 100); /* the call did not look so often */
        assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, UINT64_C(30000000000)), LEAT_OK);
        assert_memory_equal(memory, bytes, 100);
        OK(leat_ticket_destroy(ticket));
        expect_released(&late.tap);
    }
    assert_true(seen >= 2);
}

/* ---- the end of copies ---- */

static void copies_that_wait_are_stopped(void **state)
{
    struct test_state *t = *state;
    unsigned char *source = test_buffer(MOST), *memory = test_alloc(t->device, LEAT_KIND_DEVICE, MOST);

    for (size_t had = 0; had <= 5 * MIB + 3; had += 5 * MIB + 3) {
        struct tap cancelled = {.bytes = source, .let = had}, late = {.bytes = source, .let = had};
        leat_ticket *ticket = read_start(t, memory, &cancelled, MOST, 0);
        leat_ticket_info info;

        test_sleep_us(1000);
        OK(leat_ticket_cancel(ticket));
        assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER), LEAT_ERROR_CANCELLED);
        info = test_ticket_info(ticket);
        assert_true(info.arrived_bytes <= had);
        assert_true(test_wait_for(&cancelled.stops, 1));
        OK(leat_ticket_destroy(ticket));
        OK(leat_stream_synchronize(t->stream));
        finish(read_start(t, memory, &late, MOST, 3000000), LEAT_ERROR_DEADLINE);
        OK(leat_stream_synchronize(t->stream));
        copy_later(t, source, memory);
        expect_stopped(&cancelled);
        expect_stopped(&late);
    }
    OK(leat_memory_free(memory));
    free(source);
}

static void failures_are_told(void **state)
{
    struct test_state *t = *state;
    unsigned char *source = test_buffer(MOST), *memory = test_alloc(t->device, LEAT_KIND_DEVICE, MOST);
    const leat_status failures[] = {LEAT_ERROR_LINK, LEAT_ERROR_NOT_FOUND, LEAT_ERROR_FILE, LEAT_ERROR_POINTER};

    for (size_t i = 0; i < 8; i++) {
        struct tap tap = {
            .bytes = source, .write = i % 2, .let = MOST, .fails_at = 3 * MIB + i, .failure = failures[i / 2]};
        leat_ticket *ticket =
            i % 2 ? write_start(t, &tap, memory, MOST) : read_start(t, memory, &tap, MOST, 0);
        char words[100];

        snprintf(words, sizeof words, "stopped after %zu bytes: the tap broke at %zu with %s", tap.fails_at,
                 tap.fails_at, leat_status_name(tap.failure));
        REFUSED(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER), tap.failure, words);
        REFUSED(leat_stream_synchronize(t->stream), tap.failure, words);
        OK(leat_stream_synchronize(t->stream));
        OK(leat_ticket_destroy(ticket));
        copy_later(t, source, memory);
        expect_stopped(&tap);
    }
    OK(leat_memory_free(memory));
    free(source);
}

/* A device is closed while copies wait for storages that will never be ready. */
static void closing_a_device_stops_its_copies(void **state)
{
    unsigned char *source = test_buffer(MIB), *host = test_buffer(4 * MIB);
    struct tap taps[3] = {{.bytes = source}, {.bytes = source, .write = true}, {.bytes = source}};
    struct test_state own = {.device = test_open_other()};
    leat_ticket *tickets[3];
    unsigned char *memory;

    (void)state;
    if (!own.device) {
        free(source);
        free(host);
        test_skip_missing("there is one device", __FILE__, __LINE__);
        return;
    }
    OK(leat_stream_create(own.device, &own.stream));
    memory = test_alloc(own.device, LEAT_KIND_DEVICE, 4 * MIB);
    tickets[0] = read_start(&own, memory, &taps[0], 4 * MIB, 0);
    tickets[1] = write_start(&own, &taps[1], memory, MIB);
    tickets[2] = read_start(&own, host, &taps[2], 4 * MIB, 0);
    OK(leat_device_close(own.device));
    for (int i = 0; i < 3; i++) {
        finish(tickets[i], LEAT_ERROR_CANCELLED);
        expect_stopped(&taps[i]);
    }
    free(source);
    free(host);
}

/* ---- arguments ---- */

static size_t move_too_much(void *object, uint64_t offset, void *memory, size_t bytes, leat_status *status)
{
    (void)object;
    (void)offset;
    (void)memory;
    (void)status;
    return bytes + 1;
}

static void wrong_arguments_are_refused(void **state)
{
    struct test_state *t = *state;
    struct tap tap = {.let = MIB};
    leat_storage_ops wrong = tap_ops;
    leat_ticket *ticket = NULL;
    char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 64);

    wrong.move = NULL;
    REFUSED(leat_storage_read_start(t->stream, memory, &wrong, &tap, 64, NULL, &ticket), LEAT_ERROR_INVALID,
            "ops->move is NULL");
    wrong = tap_ops;
    wrong.size = 3;
    REFUSED(leat_storage_read_start(t->stream, memory, &wrong, &tap, 64, NULL, &ticket), LEAT_ERROR_INVALID, "size");
    REFUSED(leat_storage_read_start(t->stream, memory, NULL, &tap, 64, NULL, &ticket), LEAT_ERROR_INVALID, "ops");
    REFUSED(leat_storage_read_start(NULL, memory, &tap_ops, &tap, 64, NULL, &ticket), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_storage_read_start(t->stream, NULL, &tap_ops, &tap, 64, NULL, &ticket), LEAT_ERROR_POINTER, "NULL");
    REFUSED(leat_storage_write_start(t->stream, &tap_ops, &tap, memory, (size_t)1 << 40, NULL, &ticket),
            LEAT_ERROR_RANGE, "bytes");
    assert_null(ticket);
    assert_int_equal(atomic_load(&tap.releases), 0);

    /* A ticket is optional, and so are all functions but move(). */
    tap.bytes = (unsigned char *)memory;
    OK(leat_storage_read_start(t->stream, memory, &tap_ops, &tap, 0, NULL, NULL));
    expect_released(&tap);
    assert_int_equal(tap.moved, 0);
    wrong = (leat_storage_ops){.size = sizeof wrong, .move = move_too_much};
    OK(leat_storage_read_start(t->stream, memory, &wrong, &tap, 64, NULL, NULL));
    REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_INVALID, "at offset 0");
    OK(leat_memory_free(memory));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(storages_are_read),
    STATE_TEST(storages_are_written),
    STATE_TEST(a_copy_waits_for_its_storage),
    STATE_TEST(a_write_comes_after_earlier_work),
    STATE_TEST(a_read_comes_after_earlier_work),
    STATE_TEST(storages_take_turns),
    STATE_TEST(waiting_storages_hold_nothing_up),
    STATE_TEST(small_copies_are_moved_by_the_call),
    STATE_TEST(small_copies_come_after_earlier_work),
    STATE_TEST(small_copies_come_after_scrubbing),
    STATE_TEST(work_moves_small_copies),
    STATE_TEST(the_rest_of_a_small_copy_is_not_forgotten),
    STATE_TEST(small_copies_tell_failures),
    STATE_TEST(small_copies_are_not_forgotten),
    STATE_TEST(copies_that_wait_are_stopped),
    STATE_TEST(failures_are_told),
    STATE_TEST(closing_a_device_stops_its_copies),
    STATE_TEST(wrong_arguments_are_refused),
};

int main(void)
{
    if (!test_device_there())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
