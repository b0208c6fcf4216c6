/*
 * unit_staging_ends.c - tests staged copies that do not complete. They are cancelled, miss their deadline, meet
 * memory that faults, or use a device whose hooks fail one after another. The program is linked like unit_staging.
 */
#include "staging_device.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- copies that are cancelled, late or faulty ---- */

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
    /* leat reports a cancelled copy only to its ticket, and not to the timeline. */
    assert_int_equal(atomic_load(&device.timeline.failures), 0);
    free(in);
    free(memory);
}

/* Makes a copy to the device. Each DMA takes a tenth of the time until the copy's deadline. The bytes that arrived
 * before the deadline must be right. Returns their number, which may be 0 on a busy machine. */
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

/* A page in the middle is inaccessible. The timeline must learn of the failure before the stream passes the copy,
 * and the stream must then continue. */
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

static size_t fail_at_two(void *object, uint64_t offset, void *memory, size_t bytes, bool write, int *error)
{
    (void)object, (void)memory, (void)write;
    if (offset != 2)
        return bytes;
    *error = EIO;
    return 0;
}

static void tell_place(const void *object, uint64_t offset, bool write, int error, char *text, size_t text_bytes)
{
    (void)object, (void)write;
    snprintf(text, text_bytes, "error %d at place %d", error, (int)offset);
}

static void count_failure(void *timeline, leat_status status, const char *message)
{
    (void)message;
    assert_int_equal(status, LEAT_ERROR_FILE);
    ++*(int *)timeline;
}

/* A copy stops because its storage fails at part 2, while another thread has taken an earlier part and not copied
 * it. The message must state how many bytes have arrived, and where the storage failed. */
static void a_failed_storage_is_told_with_its_place(void **state)
{
    static const struct leati_storage_ops ops = {.move = fail_at_two, .describe = tell_place};
    int failures = 0;
    struct leati_flags flags;
    struct leati_chunk chunk = {.bytes = 4, .parts = 4, .part_bytes = 1};
    struct leati_job job = {.direction = LEATI_DIRECTION_HOST,
                            .early = true,
                            .bytes = 4,
                            .timeline_failed = count_failure,
                            .timeline = &failures,
                            .storage = {.ops = &ops},
                            .flags = &flags,
                            .chunks = &chunk,
                            .count = 1,
                            .failed_at = SIZE_MAX};
    char message[LEATI_JOB_MESSAGE_BYTES], expected[100];

    (void)state;
    atomic_init(&flags.staged_chunks, 0);
    atomic_init(&flags.completed_chunks, 0);
    atomic_init(&job.stopped_at, 4);
    leati_job_prepare(&job, 1);
    leati_job_work(&job);
    assert_true(leati_job_staged(&job));
    assert_int_equal(atomic_load(&job.stopped_at), 2);
    assert_int_equal(failures, 1);
    /* Do what a thread would have done that took the first part and did not copy it. */
    atomic_store(&job.stopped_at, 0);
    leati_job_message(&job, message, sizeof message);
    snprintf(expected, sizeof expected, "stopped after 0 bytes: error %d at place 2", EIO);
    assert_non_null(strstr(message, expected));
}

/* ---- storage ---- */

/* Storage in memory. */
struct shelf {
    atomic_int holders;
    char *bytes;
    bool fails;
};

static size_t shelf_move(void *object, uint64_t offset, void *memory, size_t bytes, bool write, int *error)
{
    struct shelf *shelf = object;

    assert_true(atomic_load(&shelf->holders) > 0);
    if (shelf->fails) {
        *error = EIO;
        return 0;
    }
    memcpy(write ? shelf->bytes + offset : memory, write ? memory : shelf->bytes + offset, bytes);
    return bytes;
}

static void shelf_describe(const void *object, uint64_t offset, bool write, int error, char *text,
                           size_t text_bytes)
{
    const struct shelf *shelf = object;

    (void)write;
    assert_true(atomic_load(&shelf->holders) > 0);
    snprintf(text, text_bytes, "error %d at place %d", error, (int)offset);
}

static void shelf_hold(void *object)
{
    atomic_fetch_add(&((struct shelf *)object)->holders, 1);
}

static void shelf_release(void *object)
{
    assert_true(atomic_fetch_sub(&((struct shelf *)object)->holders, 1) > 0);
}

static const struct leati_storage_ops shelf_ops = {
    .move = shelf_move, .describe = shelf_describe, .hold = shelf_hold, .release = shelf_release};

/* Ends all jobs. */
static void start_again(void)
{
    leati_stager_end(&device.stager);
    assert_int_equal(leati_stager_init(&device.stager, &hooks, &device), LEAT_OK);
    assert_int_equal(leati_stager_start(&device.stager, -1, 1), LEAT_OK);
}

static void set_up_write(struct copy *copy, struct shelf *shelf, char *memory, size_t bytes)
{
    assert_int_equal(leati_stager_start_files(&device.stager), LEAT_OK);
    set_up(copy, LEATI_DIRECTION_OUT, NULL, memory, bytes);
    copy->request.storage = (struct leati_storage){.ops = &shelf_ops, .object = shelf, .write = true};
}

/* The queue of a driver's stream is finite, so a long write must not take more work in it than 256 chunks and a
 * few small ones do, as far as its ring may grow. The stream is blocked meanwhile, and the call returns. */
static void long_writes_take_few_places_in_the_stream(void **state)
{
    enum { CHUNKS = 4 * 64, SMALL = 20, BYTES_OF_RING = 1 << 20 };
    const size_t bytes = 64 * (size_t)BYTES_OF_RING;
    struct shelf shelf = {.bytes = buffer(bytes)};
    char *memory = buffer(bytes);
    unsigned long before;
    struct copy copy;

    (void)state;
    for (int grown = 0; grown < 2; grown++) {
        fill(memory, bytes, 7u + (unsigned)grown);
        set_up_write(&copy, &shelf, memory, bytes);
        device.stager.limit_bytes = 8 * (uint64_t)BYTES_OF_RING + 64 * KIB;
        device.stager.write_ring_bytes = grown ? BYTES_OF_RING : device.stager.ring_bytes;
        close_gate();
        before = device.stream->given;
        start(&copy);
        assert_false(look(&copy).staged);
        assert_int_equal(copy.status, LEAT_OK);
        /* A DMA, a wait and a write of flags for each chunk. */
        if (grown)
            assert_true(device.stream->given - before <= 3 * (CHUNKS + SMALL));
        else
            assert_true(device.stream->given - before > 3 * 2 * CHUNKS);
        open_gate();
        finish(&copy, LEAT_OK);
        expect(shelf.bytes, bytes, 7u + (unsigned)grown);
    }
    free(shelf.bytes);
    free(memory);
}

/* The worker releases the storage behind the last part, while the ticket still holds the job. After a failure the
 * storage stays, because the message needs it. */
static void storage_is_released_behind_the_last_part(void **state)
{
    const size_t bytes = 300 * KIB;
    struct shelf shelf = {.bytes = buffer(bytes)};
    char *memory = buffer(bytes), message[LEATI_JOB_MESSAGE_BYTES];
    uint64_t end_ns = leati_clock_ns() + PATIENCE_NS;
    struct copy copy;

    (void)state;
    set_up_write(&copy, &shelf, memory, bytes);
    start(&copy);
    assert_true(wait_for(&copy.past));
    while (atomic_load(&shelf.holders) && leati_clock_ns() < end_ns)
        sched_yield();
    assert_int_equal(atomic_load(&shelf.holders), 0);
    finish(&copy, LEAT_OK);

    shelf.fails = true;
    set_up_write(&copy, &shelf, memory, bytes);
    start(&copy);
    assert_true(wait_for(&copy.past));
    moment();
    assert_int_equal(atomic_load(&shelf.holders), 1);
    leati_job_message(copy.job, message, sizeof message);
    assert_non_null(strstr(message, "at place 0"));
    finish(&copy, LEAT_ERROR_FILE);
    start_again();
    assert_int_equal(atomic_load(&shelf.holders), 0);
    free(shelf.bytes);
    free(memory);
}

/* ---- threads that wait for files ---- */

static atomic_int shelf_open;

/* Moves nothing, but not before the test allows it. */
static size_t wait_for_shelf(void *object, uint64_t offset, void *memory, size_t bytes, bool write, int *error)
{
    (void)object, (void)offset, (void)memory, (void)write, (void)error;
    assert_true(wait_for(&shelf_open));
    return bytes;
}

/* Counts calls, and returns LEAT_OK at the call with the number of *context, if that is not 0. At the fourth call,
 * lets the file be moved. */
static int asked;

static leat_status ask(void *context)
{
    if (++asked == 4)
        atomic_store(&shelf_open, 1);
    return asked == *(int *)context ? LEAT_OK : LEAT_NOT_READY;
}

static leat_status ask_in_vain(void *context)
{
    (void)context;
    asked++;
    return leati_fail(LEAT_ERROR_DRIVER, "the test's query fails");
}

/* A thread that waits for a stream sleeps while the stream waits for much of a file, and then no longer. */
static void who_waits_for_a_file_rests(void **state)
{
    static const struct leati_storage_ops ops = {
        .move = wait_for_shelf, .describe = shelf_describe, .hold = shelf_hold, .release = shelf_release};
    struct leati_stager *stager = &device.stager;
    struct shelf shelf = {.fails = false};
    int never = 0, third = 3;
    struct copy copy;

    (void)state;
    for (int slow = 0; slow < 3; slow++) {
        atomic_store(&shelf_open, 0);
        set_up_write(&copy, &shelf, NULL, slow == 1 ? 1 : slow ? 31 * MIB : 40 * MIB);
        copy.request.direction = LEATI_DIRECTION_HOST;
        copy.request.storage.ops = &ops;
        copy.request.storage.scattered = true;
        copy.request.storage.slow = slow == 1;
        asked = 0;
        leati_stager_rest_while_waiting(stager, device.stream, ask, &never);
        assert_int_equal(asked, 0);
        start(&copy);
        leati_stager_rest_while_waiting(stager, other_stream, ask, &never);
        assert_int_equal(asked, 0);
        if (slow < 2) {
            leati_stager_rest_while_waiting(stager, device.stream, ask_in_vain, NULL);
            assert_int_equal(asked, 1);
            leati_stager_rest_while_waiting(stager, device.stream, ask, &third);
            assert_int_equal(asked, 3);
            leati_stager_rest_while_waiting(stager, device.stream, ask, &never);
            assert_true(asked >= 4);
        } else {
            leati_stager_rest_while_waiting(stager, device.stream, ask, &never);
            assert_int_equal(asked, 0);
            atomic_store(&shelf_open, 1);
        }
        finish(&copy, LEAT_OK);
        start_again();
    }
}

static atomic_int release_entered, release_open;

static void release_slowly(void *object)
{
    atomic_store(&release_entered, 1);
    assert_true(wait_for(&release_open));
    shelf_release(object);
}

/* A worker that closes a file may need long. Meanwhile other copies start, and the job keeps its memory. */
static void a_slow_release_holds_up_no_other_copy(void **state)
{
    static const struct leati_storage_ops ops = {
        .move = shelf_move, .describe = shelf_describe, .hold = shelf_hold, .release = release_slowly};
    const size_t bytes = 300 * KIB;
    struct shelf shelf = {.bytes = buffer(bytes)};
    char *host = buffer(bytes), *memory = buffer(bytes);
    struct copy slow, copy;

    (void)state;
    atomic_store(&release_entered, 0);
    atomic_store(&release_open, 0);
    set_up_write(&slow, &shelf, memory, bytes);
    slow.request.storage.ops = &ops;
    /* The call that submits releases its own reference: let it pass. */
    close_gate();
    atomic_store(&release_open, 1);
    start(&slow);
    atomic_store(&release_open, 0);
    atomic_store(&release_entered, 0);
    open_gate();
    assert_true(wait_for(&slow.past));
    assert_true(wait_for(&release_entered));
    assert_int_equal(atomic_load(&device.blocks), 1);
    /* The only worker is busy, so this copy starts but is not complete. */
    set_up(&copy, LEATI_DIRECTION_IN, host, memory, bytes);
    start(&copy);
    assert_int_equal(copy.status, LEAT_OK);
    assert_int_equal(atomic_load(&device.blocks), 2);
    atomic_store(&release_open, 1);
    finish(&copy, LEAT_OK);
    finish(&slow, LEAT_OK);
    free(shelf.bytes);
    free(host);
    free(memory);
}

/* Makes each step of the submission of a write fail. The storage must stay as long as the submission needs it, and
 * must then be released. */
static void a_write_that_is_not_submitted_releases_its_storage(void **state)
{
    static const enum hook which[] = {TAKE, FLAGS, MOVE};
    const size_t bytes = 700 * KIB;
    struct shelf shelf = {.bytes = buffer(bytes)};
    char *memory = buffer(bytes);
    struct copy copy;

    (void)state;
    for (unsigned i = 0; i < sizeof which / sizeof which[0]; i++)
        for (unsigned number = 1;; number++) {
            set_up_write(&copy, &shelf, memory, bytes);
            fail_at(which[i], number);
            start(&copy);
            if (copy.status == LEAT_OK)
                finish(&copy, LEAT_OK);
            else
                assert_true(copy.status == LEATI_DECLINED || copy.status == LEAT_ERROR_DRIVER);
            if (!atomic_load(&fired))
                break;
        }
    start_again();
    assert_int_equal(atomic_load(&shelf.holders), 0);
    free(shelf.bytes);
    free(memory);
}

/* ---- hooks that fail ---- */

/* Makes each hook call of a copy fail. When leat reports the failure, the work that it submitted before must be
 * complete, and no memory may leak. If the copy can be made in another way, the caller's message must stay
 * unchanged. */
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

/* The stream refuses an operation in the middle of a copy, and the wait for the stream fails too. The stream may
 * still use the job's memory, so leat must keep this memory until the stager ends. */
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

/* A ticket keeps its completed job even after the stager has ended. */
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

/* Makes each hook call of the start of a stager fail. */
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

int main(void)
{
    static const struct CMUnitTest tests[] = {
        STAGING_TEST(a_cancelled_copy_copies_nothing_more),
        STAGING_TEST(a_deadline_ends_a_copy_in_the_middle),
        STAGING_TEST(a_fault_in_the_middle_is_told),
        STAGING_TEST(every_hook_of_a_copy_may_fail),
        STAGING_TEST(a_job_of_a_lost_stream_stays),
        STAGING_TEST(a_ticket_outlives_the_stager),
        STAGING_TEST(every_hook_of_a_start_may_fail),
        cmocka_unit_test(a_failed_storage_is_told_with_its_place),
        STAGING_TEST(long_writes_take_few_places_in_the_stream),
        STAGING_TEST(storage_is_released_behind_the_last_part),
        STAGING_TEST(a_slow_release_holds_up_no_other_copy),
        STAGING_TEST(a_write_that_is_not_submitted_releases_its_storage),
        STAGING_TEST(who_waits_for_a_file_rests),
    };

    begin_staging_tests();
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
