/*
 * unit_staging.c - tests staged copies without the rest of leat: the program is linked with src/staging and
 * src/base only, and supplies the device itself (staging_device.h). It tests the bytes, the waits between the
 * stream, the workers and the caller, and the limit of staging memory.
 *
 * Each test of a wait blocks the event that the wait is for, by a gate in the stream or by keeping the worker
 * busy. So a copy that does not wait moves wrong bytes every time.
 */
#include "staging_device.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- one copy ---- */

static bool is_staged(const struct copy *copy)
{
    uint64_t end_ns = leati_clock_ns() + PATIENCE_NS;

    while (!look(copy).staged && leati_clock_ns() < end_ns)
        sched_yield();
    return look(copy).staged;
}

/* ---- streams and workers that are held up ---- */

static atomic_int worker_entered, worker_open;

static size_t wait_in_part(const void *list, size_t first, size_t count, uintptr_t *fault)
{
    (void)list, (void)first, (void)fault;
    atomic_store(&worker_entered, 1);
    (void)wait_for(&worker_open);
    return count;
}

/* Keeps the only worker busy until free_worker() is called. */
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

/* Copies rows with gaps on the host. If there are gaps on the device too, each chunk must consist of whole
 * rows. */
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

/* Copies a list without a stream. The calling thread and the worker copy its entries. */
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

/* ---- waits between the stream and the workers ---- */

/* While the stream is held up, workers must stage an early copy, and must not touch another copy. */
static void only_early_copies_are_staged_before_their_stream(void **state)
{
    const size_t bytes = 200 * KIB; /* fits into the ring */

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
        /* Overwrites the source, as work of the stream that precedes the copy could. */
        fill(in, bytes, 7);
        open_gate();
        finish(&copy, LEAT_OK);
        expect(memory, bytes, early ? 6 : 7);
        free(in);
        free(memory);
    }
}

/* The worker is late. In every direction the stream must wait for it before each DMA, and before it passes the
 * copy. */
static void the_stream_waits_for_the_workers(void **state)
{
    const size_t bytes = 2 * MIB; /* several times the size of the ring */

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

/* The DMAs are late. The workers must not overwrite a part of the ring before its DMA is complete. */
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

/* ---- eager copies ---- */

static leat_status copy_eagerly(struct copy *copy)
{
    copy->request.context = copy;
    copy->request.eager = copy->request.early = true;
    return copy_now(copy, NULL);
}

/* Makes eager copies with a worker that helps and with a busy one, through a ring of the stager and through a
 * block of the caller. leat must have read the source when the call returns, although the stream is held up. */
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

/* The caller of an eager copy gets no signal when the stream has finished with a part of the ring, and could wait
 * for ever. So leat must decline a copy that is longer than the ring. */
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

/* If an eager copy fails, the call must return the error without reporting it to the timeline, and free the
 * memory. */
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

/* ---- staging memory ---- */

static void *start_copy(void *argument)
{
    start(argument);
    return NULL;
}

/* If a copy is not submitted, leat must free the memory that was reserved for it, and must have submitted nothing
 * to the stream. */
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

/* Copies of a stream share a ring, also if it is held up. A short one has a ring of its own if it follows no other. */
static void copies_share_a_ring(void **state)
{
    enum { COPIES = 9, FORMS = 2 };
    static struct copy copies[COPIES];
    static const size_t sizes_of[FORMS] = {2 * MIB, 100 * KIB};
    const size_t ring = 256 * KIB + LEATI_RING_JOBS * sizeof(struct leati_flags);
    char *host = buffer(COPIES * 2 * MIB), *memory = buffer(COPIES * 2 * MIB);

    (void)state;
    for (unsigned form = 0; form < FORMS; form++) {
        const size_t bytes = sizes_of[form], first = form ? bytes + 4096 : ring;

        fill(host, COPIES * bytes, 14);
        close_gate();
        for (unsigned i = 0; i < COPIES; i++) {
            set_up(&copies[i], LEATI_DIRECTION_IN, host + i * bytes, memory + i * bytes, bytes);
            copies[i].request.early = true;
            start(&copies[i]);
            assert_int_equal(copies[i].status, LEAT_OK);
            assert_int_equal(device.stager.held_bytes, !i ? first : form ? first + ring : ring);
        }
        moment();
        open_gate();
        for (unsigned i = 0; i < COPIES; i++)
            finish(&copies[i], LEAT_OK);
        assert_memory_equal(memory, host, COPIES * bytes);
    }
    free(host);
    free(memory);
}

/* While a copy is reserved in a ring, no other may join, because it could be submitted first; nor after one that was
 * dropped, whose chunks would never leave the ring. */
static void a_reserved_copy_closes_its_ring(void **state)
{
    enum { COPIES = 5 };
    static struct copy copies[COPIES];
    static const size_t rings[COPIES] = {1, 1, 2, 2, 3}; /* how many there are after each copy */
    const size_t bytes = 2 * MIB, ring = 256 * KIB + LEATI_RING_JOBS * sizeof(struct leati_flags);
    char *host = buffer(bytes), *memory = buffer(COPIES * bytes);
    struct leati_job *reserved[COPIES] = {NULL};

    (void)state;
    fill(host, bytes, 16);
    close_gate();
    for (unsigned i = 0; i < COPIES; i++) {
        set_up(&copies[i], LEATI_DIRECTION_IN, host, memory + i * bytes, bytes);
        copies[i].request.context = &copies[i];
        if (i % 2)
            assert_int_equal(leati_stager_reserve(&device.stager, &copies[i].request, &reserved[i]), LEAT_OK);
        else
            start(&copies[i]);
        assert_int_equal(device.stager.held_bytes, rings[i] * ring);
        if (i == 3)
            leati_stager_drop(&device.stager, reserved[3]);
    }
    leati_stager_drop(&device.stager, reserved[1]);
    open_gate();
    for (unsigned i = 0; i < COPIES; i += 2) {
        finish(&copies[i], LEAT_OK);
        expect(memory + i * bytes, bytes, 16);
    }
    free(host);
    free(memory);
}

/* An early copy behind one that must wait for the stream has another ring, and is staged while the stream is held up. */
static void an_early_copy_waits_for_none_that_is_not(void **state)
{
    static struct copy copies[2];
    const size_t bytes[] = {257 * KIB, 100 * KIB};
    const size_t ring = 256 * KIB + LEATI_RING_JOBS * sizeof(struct leati_flags);
    char *host = buffer(bytes[0]), *memory = buffer(2 * bytes[0]);

    (void)state;
    fill(host, bytes[0], 17);
    close_gate();
    for (unsigned i = 0; i < 2; i++) {
        set_up(&copies[i], LEATI_DIRECTION_IN, host, memory + i * bytes[0], bytes[i]);
        copies[i].request.early = i > 0;
        start(&copies[i]);
        assert_int_equal(copies[i].status, LEAT_OK);
        assert_int_equal(device.stager.held_bytes, (i + 1) * ring);
    }
    while (!look(&copies[1]).staged)
        moment();
    assert_false(look(&copies[0]).staged);
    open_gate();
    for (unsigned i = 0; i < 2; i++) {
        finish(&copies[i], LEAT_OK);
        expect(memory + i * bytes[0], bytes[i], 17);
    }
    free(host);
    free(memory);
}

/* More long copies than a ring has flags for. The flags of the first are not used again before the second is over, which
 * reads them. */
static void many_long_copies_find_flags(void **state)
{
    /* This copy finds no flags in the first ring, and takes a second one. */
    enum { COPIES = 1500, BOTH = LEATI_RING_JOBS - LEATI_RING_COPIES_BACK + 1 };
    static struct copy copies[COPIES];
    const size_t bytes = 257 * KIB, ring = 256 * KIB + LEATI_RING_JOBS * sizeof(struct leati_flags);
    char *host = buffer(bytes), *memory = buffer(bytes);

    (void)state;
    fill(host, bytes, 15);
    for (int i = 0; i < COPIES; i++) {
        set_up(&copies[i], LEATI_DIRECTION_IN, host, memory, bytes);
        copies[i].request.early = i > BOTH;
        start(&copies[i]);
        assert_int_equal(copies[i].status, LEAT_OK);
        if (i == 0)
            close_gate(); /* behind the first copy */
        if (i == 1)
            while (!look(&copies[0]).done)
                moment();
        if (i && i <= BOTH)
            assert_int_equal(device.stager.held_bytes, (i < BOTH ? 1 : 2) * ring);
        if (i == BOTH)
            open_gate();
    }
    for (int i = 0; i < COPIES; i++)
        finish(&copies[i], LEAT_OK);
    expect(memory, bytes, 15);
    free(host);
    free(memory);
}

/* Copies on a stream that is held up must not exceed the limit of memory. A copy that gets no memory must wait. These
 * have rings of their own. */
static void copies_wait_for_memory(void **state)
{
    enum { COPIES = 40 };
    static struct copy copies[COPIES];
    const size_t bytes = 192 * KIB;
    char *host = buffer(bytes), *memory = buffer(bytes);
    pthread_t thread;
    int count = 0;

    (void)state;
    fill(host, bytes, 12);
    close_gate();
    while (device.stager.held_bytes + bytes + 4096 <= device.stager.limit_bytes && count < COPIES - 1) {
        set_up(&copies[count], LEATI_DIRECTION_IN, host, memory, bytes);
        copies[count].request.own_ring = true;
        start(&copies[count]);
        assert_int_equal(copies[count++].status, LEAT_OK);
    }
    assert_true(count > 2 && count < COPIES - 1);
    assert_true(device.stager.held_bytes <= device.stager.limit_bytes);
    set_up(&copies[count], LEATI_DIRECTION_IN, host, memory, bytes);
    copies[count].request.own_ring = true;
    copies[count].request.no_wait = true;
    start(&copies[count]);
    assert_int_equal(copies[count].status, LEATI_DECLINED);
    set_up(&copies[count], LEATI_DIRECTION_IN, host, memory, bytes);
    copies[count].request.own_ring = true;
    copies[count].status = LEAT_ERROR_INVALID;
    assert_int_equal(pthread_create(&thread, NULL, start_copy, &copies[count]), 0);
    moment();
    assert_int_equal(copies[count].moved, 0);
    open_gate();
    pthread_join(thread, NULL);
    for (int i = 0; i <= count; i++)
        finish(&copies[i], LEAT_OK);
    expect(memory, bytes, 12);

    /* If the device is lost during this wait, leat must decline the copy. */
    close_gate();
    for (int i = 0; i < count; i++) {
        set_up(&copies[i], LEATI_DIRECTION_IN, host, memory, bytes);
        copies[i].request.own_ring = true;
        start(&copies[i]);
    }
    fail_at(HEALTH, 1);
    set_up(&copies[count], LEATI_DIRECTION_IN, host, memory, bytes);
    copies[count].request.own_ring = true;
    start(&copies[count]);
    assert_int_equal(copies[count].status, LEATI_DECLINED);
    open_gate();
    for (int i = 0; i < count; i++)
        finish(&copies[i], LEAT_OK);
    free(host);
    free(memory);
}

/* ---- waiting threads ---- */

static leat_status is_past(void *context)
{
    return atomic_load((atomic_int *)context) ? LEAT_OK : LEAT_NOT_READY;
}

/* The worker is busy, so a waiting thread must make the copy. */
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

/* A device of several gets its part of the threads for files, but enough for its link, and past the cache all. */
static void a_read_gets_the_threads_of_its_device(void **state)
{
    static const struct leati_storage_ops ops;
    struct leati_storage cached = {.ops = &ops}, direct = {.ops = &ops, .part_bytes = MIB};
    struct leati_storage written = {.ops = &ops, .write = true};
    struct leati_stager *stager = &device.stager;
    unsigned threads = atomic_exchange(&stager->file_threads, 32);

    (void)state;
    assert_int_equal(leati_stager_share(stager, &cached, (size_t)1 << 30), 32);
    stager->devices = 2;
    assert_int_equal(leati_stager_share(stager, &cached, (size_t)1 << 30), 16);
    assert_int_equal(leati_stager_share(stager, &direct, (size_t)1 << 30), 32);
    assert_int_equal(leati_stager_share(stager, &written, (size_t)1 << 30), 32);
    stager->devices = 4;
    assert_int_equal(leati_stager_share(stager, &cached, (size_t)1 << 30), 12);
    atomic_store(&stager->file_threads, 8);
    assert_int_equal(leati_stager_share(stager, &cached, (size_t)1 << 30), 8);
    stager->devices = 1;
    atomic_store(&stager->file_threads, threads);
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
        STAGING_TEST(eager_copies_are_made_by_the_caller),
        STAGING_TEST(eager_copies_need_a_whole_ring),
        STAGING_TEST(eager_copies_return_their_failures),
        STAGING_TEST(reserved_memory_goes_back),
        STAGING_TEST(copies_share_a_ring),
        STAGING_TEST(a_reserved_copy_closes_its_ring),
        STAGING_TEST(an_early_copy_waits_for_none_that_is_not),
        STAGING_TEST(many_long_copies_find_flags),
        STAGING_TEST(copies_wait_for_memory),
        STAGING_TEST(who_waits_helps),
        STAGING_TEST(a_read_gets_the_threads_of_its_device),
    };

    begin_staging_tests();
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
