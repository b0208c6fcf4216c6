/*
 * unit_copy_help.c - tests that threads that wait for a stream, an event or a ticket help to copy if there are few
 * workers. There is one worker here, and it is stuck in a copy, so waiting threads must do all copying. A wait
 * must return when its event is complete, neither before nor later. With a number as its argument the program
 * has that many workers, and runs the tests of many workers instead.
 */
#include "held.h"

#include "base/clock.h"
#include "base/error.h"
#include "copy/copy.h"
#include "driver/fault/fault.h"

#include <leat/copy.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STAGED_BYTES ((size_t)8 << 20) /* so long that leat stages the copy even if the stream is idle */
#define PATIENCE_NS ((uint64_t)60 * 1000000000)

enum { MANY_THREADS = 4, MORE_THREADS = 6, SHARE = 4, PARTS = 1000, WAITERS = 5, WAITERS_WHO_COPY = 3 };

/* A job whose parts are calls of copy_part(). */
struct scene {
    struct leati_job job;
    struct leati_chunk chunk;
    struct leati_flags flags;
    struct leati_stager *stager;
    atomic_int stuck;            /* number of workers that wait inside a part */
    atomic_int open;             /* set to let these workers continue */
    atomic_int copied;           /* number of parts that waiting threads copied */
    void (*in_part)(int number); /* called in each part that a waiting thread copies, with its number from 1 */
};
static struct scene scenes[2];

static bool is_worker(void)
{
    char name[16] = "";

    return !pthread_getname_np(pthread_self(), name, sizeof name) && !strcmp(name, "leat worker");
}

static size_t copy_part(const void *list, size_t first, size_t count, uintptr_t *fault)
{
    struct scene *scene = &scenes[list == &scenes[1]];

    (void)first;
    (void)fault;
    if (!is_worker()) {
        int number = 1 + atomic_fetch_add(&scene->copied, 1);

        if (scene->in_part)
            scene->in_part(number);
        return count;
    }
    atomic_fetch_add(&scene->stuck, 1);
    (void)test_wait_for(&scene->open, 1);
    return count;
}

static unsigned worker_threads(struct test_state *t)
{
    struct leati_stager *stager;

    OK(leati_stager_get(t->device, &stager));
    return stager->threads;
}

/* Gives the workers a job of PARTS parts. passed: the job's stream has already reached the job. */
static struct scene *begin_scene(struct test_state *t, int which, bool passed, void (*in_part)(int number))
{
    struct scene *scene = &scenes[which];
    struct leati_stager *stager;

    OK(leati_stager_get(t->device, &stager));
    memset(scene, 0, sizeof *scene);
    scene->in_part = in_part;
    scene->stager = stager;
    scene->chunk = (struct leati_chunk){.bytes = PARTS, .parts = PARTS, .part_bytes = 1};
    scene->job.direction = LEATI_DIRECTION_HOST;
    scene->job.early = passed;
    scene->job.bytes = PARTS;
    scene->job.copy_list = copy_part;
    scene->job.list = scene;
    scene->job.flags = &scene->flags;
    scene->job.chunks = &scene->chunk;
    scene->job.count = 1;
    scene->job.timeline = t->stream->timeline;
    atomic_store(&scene->job.stopped_at, PARTS);
    atomic_store(&scene->job.fault, UINTPTR_MAX);
    leati_job_prepare(&scene->job, SHARE);
    leati_workers_add(stager->workers, &scene->job.task, 1);
    return scene;
}

/* Gives the workers a job, and waits until all of them are stuck in it. */
static struct scene *stick_workers(struct test_state *t, void (*in_part)(int number))
{
    struct scene *scene = begin_scene(t, 0, true, in_part);

    assert_true(test_wait_for(&scene->stuck, (int)worker_threads(t)));
    return scene;
}

/* Lets stuck workers continue, and ends the job after every thread has left it. */
static void end_scene(struct scene *scene)
{
    atomic_store(&scene->open, 1);
    leati_workers_remove(scene->stager->workers, &scene->job.task);
    assert_int_equal(scene->job.task.workers, 0);
}

/* ---- waits for streams, events and tickets ---- */

enum waited { STREAM, EVENT, WAITED_COUNT };

static leat_event *event;

static struct test_gate *gate; /* this gate blocks the work that the tests wait for */

static void hold(struct test_state *t)
{
    gate = held_close(t->stream->native);
    OK(leat_event_create(t->device, &event));
    OK(leat_event_record(t->stream, event));
}

static leat_status wait_for(struct test_state *t, enum waited waited)
{
    return waited == STREAM ? leat_stream_synchronize(t->stream) : leat_event_synchronize(event);
}

/* Waits like wait_for(). Fails if the wait returned before the gate was open. */
static leat_status wait_watched(struct test_state *t, enum waited waited)
{
    struct held_watch watch = {.gate = gate};
    leat_status status;

    held_watch_start(&watch);
    status = wait_for(t, waited);
    held_watch_end(&watch);
    return status;
}

static void let_go(struct test_state *t)
{
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_event_destroy(event));
}

/* Waits once for a stream and once for an event, while the workers are stuck in a job. in_part is called in each
 * part that a waiting thread copies; around is called before and after the driver's wait; check examines the
 * result. */
static void wait_for_each(struct test_state *t, void (*in_part)(int number),
                          void (*around)(const char *entry, bool after), void (*check)(const struct scene *scene))
{
    for (enum waited waited = STREAM; waited < WAITED_COUNT; waited++) {
        struct scene *scene = stick_workers(t, in_part);

        hold(t);
        held_around = around;
        OK(wait_for(t, waited));
        held_around = NULL;
        check(scene);
        let_go(t);
        end_scene(scene);
    }
}

/* ---- waiting threads copy ---- */

static void open_gate(int number)
{
    if (number == 1)
        test_gate_open(gate);
}

static void check_that_some_was_copied(const struct scene *scene)
{
    assert_int_not_equal(atomic_load(&scene->copied), 0);
    assert_int_equal(atomic_load(&gate->passed), 1);
}

/* The gate opens only after the waiting thread has copied a part, so a thread that does not copy never returns. */
static void who_waits_copies(void **state)
{
    wait_for_each(*state, open_gate, NULL, check_that_some_was_copied);
}

static void open_at_wait(const char *entry, bool after)
{
    if (!after && strstr(entry, "_synchronize"))
        test_gate_open(gate);
}

static void check_that_all_was_copied(const struct scene *scene)
{
    assert_int_equal(atomic_load(&gate->passed), 1);
    /* The waiting thread has copied all parts except those in which the workers are stuck. */
    assert_int_equal(atomic_load(&scene->copied), PARTS - (int)scene->stager->threads);
}

/* The waiting thread copies all parts before the event is complete. It must then call the driver's wait, which
 * opens the gate. */
static void a_wait_does_not_end_with_the_copy(void **state)
{
    wait_for_each(*state, NULL, open_at_wait, check_that_all_was_copied);
}

static void *driver_stream;
static atomic_int bad_part;

/* This part takes longer than the interval at which a helping thread queries the event. */
static void slow_part(int number)
{
    if (number == 3) {
        test_gate_open(gate);
        if (held_driver->ops->stream_synchronize(held_driver, driver_stream) != LEAT_OK)
            atomic_store(&bad_part, number);
    }
    test_sleep_us(1000);
}

static void check_that_three_were_copied(const struct scene *scene)
{
    assert_int_equal(atomic_load(&scene->copied), 3);
    assert_int_equal(atomic_load(&bad_part), 0);
}

/* The event completes in the middle of the copy. The wait must return and leave the rest of the copy to other
 * threads. */
static void a_wait_ends_in_the_middle_of_a_copy(void **state)
{
    struct test_state *t = *state;

    driver_stream = t->stream->native;
    wait_for_each(t, slow_part, NULL, check_that_three_were_copied);
}

/* A copy whose stream is held up stays in the workers' list. No thread may copy a part of it before its stream
 * reaches it. */
static void a_copy_that_cannot_go_on_holds_nobody(void **state)
{
    struct test_state *t = *state;

    for (enum waited waited = STREAM; waited < WAITED_COUNT; waited++) {
        struct scene *scene = begin_scene(t, 1, false, NULL);

        hold(t);
        OK(wait_watched(t, waited));
        assert_int_equal(atomic_load(&scene->copied), 0);
        assert_int_equal(atomic_load(&scene->stuck), 0);
        let_go(t);
        end_scene(scene);
    }
}

/* Reading data from a file may take any time. So waiting threads leave copies of such data (cold) to the
 * workers. */
static void what_is_not_in_memory_is_left_alone(void **state)
{
    struct test_state *t = *state;
    struct scene *scene = stick_workers(t, NULL);

    scene->job.cold = true;
    hold(t);
    OK(wait_watched(t, STREAM));
    assert_int_equal(atomic_load(&scene->copied), 0);
    let_go(t);
    end_scene(scene);
}

/* ---- many waiting threads ---- */

static atomic_int in_parts, in_driver, parts_open;

static void stay_in_part(int number)
{
    (void)number;
    atomic_fetch_add(&in_parts, 1);
    (void)test_wait_for(&parts_open, 1);
}

static void count_waits(const char *entry, bool after)
{
    if (!after && !strcmp(entry, "stream_synchronize"))
        atomic_fetch_add(&in_driver, 1);
}

static void *wait_too(void *argument)
{
    return leat_stream_synchronize(argument) == LEAT_OK ? argument : NULL;
}

/* At most four threads copy at once, including workers, and the other threads only wait. The second round checks
 * that threads that have returned leave their places to others. */
static void few_copy_at_once(void **state)
{
    struct test_state *t = *state;

    for (int round = 0; round < 2; round++) {
        struct scene *scene = stick_workers(t, stay_in_part);
        pthread_t waiters[WAITERS];
        void *waited;

        atomic_store(&in_parts, 0);
        atomic_store(&in_driver, 0);
        atomic_store(&parts_open, 0);
        hold(t);
        held_around = count_waits;
        for (int i = 0; i < WAITERS; i++)
            assert_int_equal(pthread_create(&waiters[i], NULL, wait_too, t->stream), 0);
        assert_true(test_wait_for(&in_parts, WAITERS_WHO_COPY));
        assert_true(test_wait_for(&in_driver, WAITERS - WAITERS_WHO_COPY));
        assert_int_equal(atomic_load(&in_parts), WAITERS_WHO_COPY);
        atomic_store(&parts_open, 1);
        test_gate_open(gate);
        for (int i = 0; i < WAITERS; i++) {
            assert_int_equal(pthread_join(waiters[i], &waited), 0);
            assert_ptr_equal(waited, t->stream);
        }
        held_around = NULL;
        let_go(t);
        end_scene(scene);
    }
}

/* ---- failed queries, and waits with nothing to copy ---- */

/* If the query of the event fails, the wait must still succeed, and the message must stay unchanged. */
static void the_driver_s_wait_has_the_last_word(void **state)
{
    static const char *const entries[] = {"stream_query", "event_query"};
    struct test_state *t = *state;

    for (enum waited waited = STREAM; waited < WAITED_COUNT; waited++) {
        struct scene *scene = stick_workers(t, NULL);

        hold(t);
        leati_fail(LEAT_ERROR_INVALID, "an earlier failure");
        leati_fault_arm(held_driver, LEATI_FAULT_FAIL, entries[waited], 1);
        assert_int_equal(wait_watched(t, waited), LEAT_OK);
        assert_true(leati_fault_fired(held_driver));
        assert_string_equal(leat_last_error(), "an earlier failure");
        leati_fault_arm(held_driver, LEATI_FAULT_NONE, NULL, 0);
        let_go(t);
        end_scene(scene);
    }
}

static atomic_int queries;

static void count_queries(const char *entry, bool after)
{
    if (!after && strstr(entry, "_query"))
        atomic_fetch_add(&queries, 1);
}

/* If there is nothing to copy, a wait must call the driver's wait and no query. */
static void a_wait_without_copies_asks_nobody(void **state)
{
    struct test_state *t = *state;

    end_scene(begin_scene(t, 0, false, NULL)); /* begin_scene() creates the workers */
    for (enum waited waited = STREAM; waited < WAITED_COUNT; waited++) {
        hold(t);
        atomic_store(&queries, 0);
        held_around = count_queries;
        OK(wait_watched(t, waited));
        held_around = NULL;
        assert_int_equal(atomic_load(&queries), 0);
        let_go(t);
    }
}

/* ---- locks ---- */

static struct test_state *other_state;
static unsigned char *other_memory, *other_host;

static void *copy_elsewhere(void *unused)
{
    (void)unused;
    if (leat_copy(other_state->second, other_memory, other_host, STAGED_BYTES) != LEAT_OK ||
        leat_stream_synchronize(other_state->second) != LEAT_OK)
        return NULL;
    return other_state;
}

/* Lets another thread make a whole copy and wait for it. */
static void others_go_on(int number)
{
    pthread_t thread;
    void *done = NULL;

    if (number != 1)
        return;
    if (pthread_create(&thread, NULL, copy_elsewhere, NULL) || pthread_join(thread, &done) || !done)
        atomic_store(&bad_part, number);
    test_gate_open(gate);
}

/* Starts a job whose parts are calls of copy_part(), as a copy with a ticket does, and waits for it. */
static void wait_for_job(struct test_state *t)
{
    const struct leati_list list = {.copy = copy_part, .list = &scenes[1], .count = PARTS, .scratch = true};
    const struct leati_stage_request request = {.direction = LEATI_DIRECTION_HOST, .early = true, .list = &list};
    const struct leati_endpoint nowhere = {.base = 0};
    struct leati_stager *stager;
    struct leati_job *job;

    memset(&scenes[1], 0, sizeof scenes[1]);
    scenes[1].in_part = others_go_on;
    OK(leati_stager_get(t->device, &stager));
    OK(leati_stage_start(stager, t->stream, &nowhere, &nowhere, PARTS, &request, &job));
    OK(leati_job_wait(job, t->device, LEAT_COPY_POINT_DONE, leati_clock_ns() + PATIENCE_NS));
    leati_job_release(job);
    assert_int_not_equal(atomic_load(&scenes[1].copied), 0);
}

static void check_that_others_went_on(const struct scene *scene)
{
    (void)scene;
    assert_int_equal(atomic_load(&bad_part), 0);
}

/* A thread that helps to copy must hold no lock that other threads need. */
static void who_copies_holds_no_lock(void **state)
{
    struct test_state *t = *state;
    struct scene *stuck;

    other_state = t;
    other_host = test_buffer(STAGED_BYTES);
    other_memory = test_alloc(t->device, LEAT_KIND_DEVICE, STAGED_BYTES);
    test_pattern(other_host, STAGED_BYTES, 5);
    atomic_store(&bad_part, 0);
    /* The worker is stuck in the first job, so only the helping threads can make the copy of the other thread. */
    wait_for_each(t, others_go_on, NULL, check_that_others_went_on);
    stuck = stick_workers(t, NULL);
    stuck->job.cold = true; /* so no waiting thread takes a part of this job */
    hold(t);
    wait_for_job(t);
    assert_int_equal(atomic_load(&bad_part), 0);
    let_go(t);
    end_scene(stuck);
    memset(other_host, 0, STAGED_BYTES);
    OK(leat_copy_sync(t->second, other_host, other_memory, STAGED_BYTES));
    EXPECT_PATTERN(other_host, STAGED_BYTES, 5);
    OK(leat_memory_free(other_memory));
    free(other_host);
}

/* ---- tickets, and the contents of copies ---- */

/* The workers are stuck, so the waiting thread must copy all bytes. */
static void who_waits_for_a_ticket_copies(void **state)
{
    struct test_state *t = *state;
    unsigned char *in = test_buffer(STAGED_BYTES), *out = test_buffer(STAGED_BYTES);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, STAGED_BYTES);
    struct scene *scene = stick_workers(t, NULL);
    leat_ticket *ticket;

    scene->job.cold = true; /* so no waiting thread takes a part of this job */
    test_pattern(in, STAGED_BYTES, 1);
    ticket = test_copy_start(t->stream, memory, in, STAGED_BYTES);
    OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_STAGED, PATIENCE_NS));
    memset(in, 0, STAGED_BYTES);
    OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, PATIENCE_NS));
    OK(leat_ticket_destroy(ticket));
    ticket = test_copy_start(t->stream, out, memory, STAGED_BYTES);
    OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, PATIENCE_NS));
    OK(leat_ticket_destroy(ticket));
    EXPECT_PATTERN(out, STAGED_BYTES, 1);
    assert_int_equal(atomic_load(&scene->copied), 0);

    /* A wait for the stream must copy the bytes too. */
    test_pattern(in, STAGED_BYTES, 2);
    OK(leat_copy(t->stream, memory, in, STAGED_BYTES));
    OK(leat_stream_synchronize(t->stream));
    memset(in, 0, STAGED_BYTES);
    OK(leat_copy(t->stream, out, memory, STAGED_BYTES));
    OK(leat_stream_synchronize(t->stream));
    EXPECT_PATTERN(out, STAGED_BYTES, 2);
    end_scene(scene);
    OK(leat_memory_free(memory));
    free(out);
    free(in);
}

/* Deadlines, cancellation and timeouts must work although the waiting thread copies. */
static void tickets_end_as_they_should(void **state)
{
    leat_copy_options options = {.size = sizeof options, .deadline_ns = 1};
    struct test_state *t = *state;
    unsigned char *in = test_buffer(STAGED_BYTES);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, STAGED_BYTES);
    struct scene *scene = stick_workers(t, NULL);
    leat_ticket *ticket;

    scene->job.cold = true;
    memset(in, 0, STAGED_BYTES);
    OK(leat_copy_start(t->stream, memory, in, STAGED_BYTES, &options, &ticket));
    REFUSED(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, PATIENCE_NS), LEAT_ERROR_DEADLINE, "after 0 bytes");
    OK(leat_ticket_destroy(ticket));
    ticket = test_copy_start(t->stream, memory, in, STAGED_BYTES);
    OK(leat_ticket_cancel(ticket));
    REFUSED(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, PATIENCE_NS), LEAT_ERROR_CANCELLED, "after 0 bytes");
    OK(leat_ticket_destroy(ticket));

    gate = held_close(t->stream->native);
    ticket = test_copy_start(t->stream, memory, in, STAGED_BYTES);
    assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, 1000000), LEAT_NOT_READY);
    OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_STAGED, PATIENCE_NS));
    assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, 1000000), LEAT_NOT_READY);
    test_gate_open(gate);
    OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, PATIENCE_NS));
    OK(leat_ticket_destroy(ticket));
    end_scene(scene);
    OK(leat_memory_free(memory));
    free(in);
}

/* ---- copies that need no worker ---- */

#define EAGER_BYTES ((size_t)2 << 20)

static void expect_eager(struct test_state *t, void *dst, const void *src, size_t bytes, bool eager)
{
    char text[1024];

    OK(leat_copy_explain(t->stream, dst, src, bytes, text, sizeof text));
    if (!strstr(text, "protocol  eager") == eager)
        fail_msg("%zu bytes:\n%s", bytes, text);
}

static void short_copies_are_the_callers(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, EAGER_BYTES + 1);
    unsigned char *host = test_buffer(EAGER_BYTES + 1);

    memset(host, 0, EAGER_BYTES + 1);
    for (size_t bytes = EAGER_BYTES; bytes <= EAGER_BYTES + 1; bytes++) {
        expect_eager(t, memory, host, bytes, bytes == EAGER_BYTES);
        expect_eager(t, host, memory, bytes, bytes == EAGER_BYTES);
    }
    OK(leat_memory_free(memory));
    free(host);
}

/* ---- many workers ---- */

/* With many workers, a waiting thread does not help. */
static void nobody_helps_many(void **state)
{
    struct test_state *t = *state;
    unsigned char *in = test_buffer(STAGED_BYTES);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, STAGED_BYTES);
    leat_ticket *ticket;

    memset(in, 0, STAGED_BYTES);
    for (enum waited waited = STREAM; waited < WAITED_COUNT; waited++) {
        struct scene *stuck = stick_workers(t, NULL), *scene = begin_scene(t, 1, true, NULL);

        hold(t);
        OK(wait_watched(t, waited));
        assert_int_equal(atomic_load(&scene->copied), 0);
        ticket = test_copy_start(t->stream, memory, in, STAGED_BYTES);
        assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_POINT_STAGED, 20000000), LEAT_NOT_READY);
        assert_int_equal(test_ticket_info(ticket).arrived_bytes, 0);
        end_scene(scene);
        end_scene(stuck);
        OK(leat_ticket_destroy(ticket));
        let_go(t);
    }
    OK(leat_memory_free(memory));
    free(in);
}

/* A job must get no more threads than its share, so that the other threads are free for the next job. */
static void a_job_leaves_threads_to_others(void **state)
{
    struct test_state *t = *state;
    struct scene *first, *second;
    bool others_came;

    assert_int_equal(worker_threads(t), MORE_THREADS);
    first = begin_scene(t, 0, true, NULL);
    assert_true(test_wait_for(&first->stuck, SHARE));
    second = begin_scene(t, 1, true, NULL);
    others_came = test_wait_for(&second->stuck, MORE_THREADS - SHARE);
    end_scene(second);
    end_scene(first);
    assert_true(others_came);
}

static const struct CMUnitTest tests[] = {
    HELD_TEST(who_waits_copies),
    HELD_TEST(a_wait_does_not_end_with_the_copy),
    HELD_TEST(a_wait_ends_in_the_middle_of_a_copy),
    HELD_TEST(a_copy_that_cannot_go_on_holds_nobody),
    HELD_TEST(what_is_not_in_memory_is_left_alone),
    HELD_TEST(few_copy_at_once),
    HELD_TEST(the_driver_s_wait_has_the_last_word),
    HELD_TEST(a_wait_without_copies_asks_nobody),
    HELD_TEST(who_copies_holds_no_lock),
    HELD_TEST(who_waits_for_a_ticket_copies),
    HELD_TEST(tickets_end_as_they_should),
    HELD_TEST(short_copies_are_the_callers),
};

static const struct CMUnitTest tests_of_many[] = {HELD_TEST(nobody_helps_many)};

static const struct CMUnitTest tests_of_more[] = {HELD_TEST(a_job_leaves_threads_to_others)};

/* Runs this program again with another number of workers. That needs another process, because leat reads the
 * number only once. */
static int run_with(int threads)
{
    char number[16];
    pid_t child = fork();
    int ended;

    if (!child) {
        snprintf(number, sizeof number, "%d", threads);
        execl("/proc/self/exe", "unit_copy_help", number, (char *)NULL);
        _exit(1);
    }
    if (child < 0 || waitpid(child, &ended, 0) != child)
        return 1;
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : 1;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    int failed;

    if (!test_only_on_cpu())
        return 77;
    if (threads == 1 && (run_with(MANY_THREADS) || run_with(MORE_THREADS)))
        return 1;
    setenv("LEAT_COPY_STAGE", "1", 1);
    setenv("LEAT_COPY_WORKERS", argc > 1 ? argv[1] : "1", 1);
    held_begin();
    failed = threads == MORE_THREADS   ? cmocka_run_group_tests(tests_of_more, NULL, NULL)
             : threads == MANY_THREADS ? cmocka_run_group_tests(tests_of_many, NULL, NULL)
                                       : cmocka_run_group_tests(tests, NULL, NULL);
    return failed ? 1 : 0;
}
