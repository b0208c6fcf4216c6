/* test_threads.c - tests one device that many threads use at once: memory, streams, copies, events, kernels,
 * queries. Most useful under the thread sanitizer. */
#include "harness.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, ROUNDS = 20, BYTES = 20000 };

struct job {
    struct test_state *t;
    int number;
    leat_event *event; /* shared by all threads */
    char failure[512]; /* empty: no failure */
};

/* A thread cannot end a cmocka test, so it records its first failure and stops. */
#define STEP(job, call)                                                                                           \
    do {                                                                                                          \
        if ((call) != LEAT_OK) {                                                                                  \
            snprintf((job)->failure, sizeof(job)->failure, "%s: %s", #call, leat_last_error());                   \
            return NULL;                                                                                          \
        }                                                                                                         \
    } while (0)

static void run(struct test_state *t, void *(*const functions[])(void *), int count)
{
    pthread_t threads[THREADS];
    struct job jobs[THREADS];
    leat_event *event;

    OK(leat_event_create(t->device, &event));
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < THREADS; i++) {
        jobs[i].t = t;
        jobs[i].number = i;
        jobs[i].event = event;
        assert_int_equal(pthread_create(&threads[i], NULL, functions[i % count], &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        if (jobs[i].failure[0])
            fail_msg("thread %d: %s", i, jobs[i].failure);
    OK(leat_event_destroy(event));
}

static void *own_stream(void *argument)
{
    struct job *job = argument;
    unsigned char *in = malloc(BYTES), *out = malloc(BYTES);
    leat_device *device = job->t->device;

    for (int round = 0; in && out && round < ROUNDS; round++) {
        leat_stream *stream;
        leat_event *event;
        leat_pointer_info info = LEAT_POINTER_INFO_INIT;
        void *memory, *pinned;

        STEP(job, leat_stream_create(device, &stream));
        STEP(job, leat_event_create(device, &event));
        STEP(job, leat_alloc(stream, BYTES, &memory));
        STEP(job, leat_memory_alloc(device, LEAT_KIND_PINNED, BYTES, &pinned));
        test_pattern(in, BYTES, (uint64_t)(job->number * ROUNDS + round));
        memcpy(pinned, in, BYTES);
        STEP(job, leat_copy(stream, memory, pinned, BYTES));
        STEP(job, leat_event_record(stream, event));
        STEP(job, leat_pointer_get_info(memory, &info));
        STEP(job, leat_event_synchronize(event));
        STEP(job, leat_copy_sync(stream, out, memory, BYTES));
        if (memcmp(in, out, BYTES))
            snprintf(job->failure, sizeof job->failure, "round %d: the bytes differ", round);
        STEP(job, leat_free(stream, memory));
        STEP(job, leat_event_destroy(event));
        STEP(job, leat_stream_synchronize(stream));
        STEP(job, leat_stream_destroy(stream));
        STEP(job, leat_memory_free(pinned));
    }
    free(in);
    free(out);
    return NULL;
}

static void every_thread_its_own_stream(void **state)
{
    void *(*const functions[])(void *) = {own_stream};

    run(*state, functions, 1);
}

static void count_up(void *argument)
{
    ++*(int *)argument; /* not atomic: host functions of one stream never run concurrently */
}

static int counted;

static void *one_stream(void *argument)
{
    struct job *job = argument;
    struct test_state *t = job->t;

    for (int round = 0; round < ROUNDS; round++) {
        STEP(job, leat_launch_host(t->stream, count_up, &counted));
        STEP(job, leat_event_record(t->stream, job->event));
        STEP(job, leat_stream_wait(t->second, job->event));
        if (round % 8 == 0)
            STEP(job, leat_stream_synchronize(t->stream));
        if (leat_event_query(job->event) < 0)
            STEP(job, leat_event_query(job->event));
    }
    return NULL;
}

static void all_threads_one_stream(void **state)
{
    void *(*const functions[])(void *) = {one_stream};
    struct test_state *t = *state;

    counted = 0;
    run(t, functions, 1);
    OK(leat_stream_synchronize(t->stream));
    assert_int_equal(counted, THREADS * ROUNDS);
}

static void *open_and_close(void *argument)
{
    struct job *job = argument;

    for (int round = 0; round < ROUNDS; round++) {
        leat_device *device;
        leat_device_info info = LEAT_DEVICE_INFO_INIT;

        STEP(job, leat_device_open(test_device_name(), &device));
        STEP(job, leat_device_get_info(device, &info));
        STEP(job, leat_device_synchronize(device));
        STEP(job, leat_device_close(device));
    }
    return NULL;
}

static void *kernels(void *argument)
{
    struct job *job = argument;
    leat_device *device = job->t->device;
    unsigned char *out = malloc(BYTES);

    for (int round = 0; out && round < ROUNDS; round++) {
        leat_module *module;
        leat_kernel *kernel;
        leat_stream *stream;
        uint64_t count = BYTES / 8, seed = (uint64_t)(job->number + round);
        void *memory, *args[] = {&memory, &count, &seed};

        STEP(job, leat_stream_create(device, &stream));
        STEP(job, leat_alloc(stream, BYTES, &memory));
        STEP(job, leat_module_builtin(device, &module));
        STEP(job, leat_kernel_get(module, "leat_pattern_u64", &kernel));
        STEP(job, leat_launch(stream, kernel, leat_dim(8, 1, 1), leat_dim(64, 1, 1), 0, args, 3));
        STEP(job, leat_copy_sync(stream, out, memory, BYTES));
        for (uint64_t i = 0; i < count; i++)
            if (((uint64_t *)(void *)out)[i] != leat_pattern_value(i, seed))
                snprintf(job->failure, sizeof job->failure, "round %d: word %d is wrong", round, (int)i);
        STEP(job, leat_free(stream, memory));
        STEP(job, leat_stream_destroy(stream));
    }
    free(out);
    return NULL;
}

static void *registrations(void *argument)
{
    struct job *job = argument;
    unsigned char *own = malloc(BYTES);

    for (int round = 0; own && round < ROUNDS; round++) {
        leat_pointer_info info = LEAT_POINTER_INFO_INIT;

        STEP(job, leat_register(job->t->device, own, BYTES));
        STEP(job, leat_pointer_get_info(own + round, &info));
        if (info.kind != LEAT_KIND_PINNED)
            snprintf(job->failure, sizeof job->failure, "registered memory is %s", leat_kind_name(info.kind));
        STEP(job, leat_unregister(own));
    }
    free(own);
    return NULL;
}

static void all_things_at_once(void **state)
{
    void *(*const functions[])(void *) = {own_stream, one_stream, open_and_close, kernels, registrations};
    struct test_state *t = *state;

    counted = 0;
    run(t, functions, 5);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_stream_synchronize(t->second));
}

static void *fail_in_its_own_way(void *argument)
{
    struct job *job = argument;
    char name[16], wanted[32];

    snprintf(name, sizeof name, "cpu:%d", 1000 + job->number);
    snprintf(wanted, sizeof wanted, "'%s'", name);
    for (int round = 0; round < ROUNDS * 10; round++) {
        leat_device *device;

        if (leat_device_open(name, &device) != LEAT_ERROR_NO_DEVICE || !strstr(leat_last_error(), wanted)) {
            snprintf(job->failure, sizeof job->failure, "%.400s does not have %s", leat_last_error(), wanted);
            return NULL;
        }
    }
    return NULL;
}

enum { WHOLE_WORDS = 1 << 20 };

/* One thread copies into pinned memory while another one submits host functions to the same stream. A host
 * function must see all bytes of a copy or none. */
struct whole {
    leat_stream *stream;
    uint64_t *pinned;
    atomic_int done;
    char failure[512];
    unsigned torn, seen;
};

static void look_at_both_ends(void *argument)
{
    struct whole *whole = argument;

    whole->seen++;
    if (whole->pinned[0] != whole->pinned[WHOLE_WORDS - 1] || whole->pinned[0] != whole->pinned[WHOLE_WORDS / 2])
        whole->torn++;
}

static void *look_again_and_again(void *argument)
{
    struct whole *whole = argument;

    while (!atomic_load(&whole->done)) {
        STEP(whole, leat_launch_host(whole->stream, look_at_both_ends, whole));
        test_sleep_us(50);
    }
    return NULL;
}

static void a_copy_is_one_piece_of_work(void **state)
{
    struct test_state *t = *state;
    size_t bytes = WHOLE_WORDS * sizeof(uint64_t);
    uint64_t *pageable = test_buffer(bytes);
    struct whole whole = {.stream = t->stream};
    pthread_t thread;

    whole.pinned = test_alloc(t->device, LEAT_KIND_PINNED, bytes);
    memset(whole.pinned, 0, bytes);
    assert_int_equal(pthread_create(&thread, NULL, look_again_and_again, &whole), 0);
    for (uint64_t round = 1; round <= 40; round++) {
        for (size_t i = 0; i < WHOLE_WORDS; i++)
            pageable[i] = round;
        OK(leat_copy_sync(t->stream, whole.pinned, pageable, bytes));
    }
    atomic_store(&whole.done, 1);
    pthread_join(thread, NULL);
    OK(leat_stream_synchronize(t->stream));
    assert_string_equal(whole.failure, "");
    assert_true(whole.seen > 0);
    assert_int_equal(whole.torn, 0);
    OK(leat_memory_free(whole.pinned));
    free(pageable);
}

/* One thread copies to the device, which a GPU receives in chunks, while another one copies back on the same
 * stream. The copy back must see all bytes of the other copy or none. */
struct whole_there {
    leat_stream *stream;
    uint64_t *there, *seen;
    atomic_int done;
    char failure[512];
    unsigned torn, looks;
};

static void *fetch_again_and_again(void *argument)
{
    struct whole_there *whole = argument;

    while (!atomic_load(&whole->done)) {
        STEP(whole, leat_copy(whole->stream, whole->seen, whole->there, WHOLE_WORDS * sizeof *whole->seen));
        STEP(whole, leat_stream_synchronize(whole->stream));
        whole->looks++;
        for (size_t i = 0; i < WHOLE_WORDS; i += WHOLE_WORDS / 64)
            whole->torn += whole->seen[i] != whole->seen[WHOLE_WORDS - 1];
    }
    return NULL;
}

static void a_copy_to_the_device_is_one_piece_of_work(void **state)
{
    struct test_state *t = *state;
    size_t bytes = WHOLE_WORDS * sizeof(uint64_t);
    uint64_t *source = test_buffer(bytes);
    struct whole_there whole = {.stream = t->stream};
    pthread_t thread;

    whole.there = test_alloc(t->device, LEAT_KIND_DEVICE, bytes);
    whole.seen = test_alloc(t->device, LEAT_KIND_PINNED, bytes);
    OK(leat_fill(t->stream, whole.there, 0, bytes));
    assert_int_equal(pthread_create(&thread, NULL, fetch_again_and_again, &whole), 0);
    for (uint64_t round = 1; round <= 40; round++) {
        for (size_t i = 0; i < WHOLE_WORDS; i++)
            source[i] = round;
        OK(leat_copy_sync(t->stream, whole.there, source, bytes));
    }
    atomic_store(&whole.done, 1);
    pthread_join(thread, NULL);
    assert_string_equal(whole.failure, "");
    assert_true(whole.looks > 0);
    assert_int_equal(whole.torn, 0);
    OK(leat_memory_free(whole.there));
    OK(leat_memory_free(whole.seen));
    free(source);
}

static void every_thread_its_own_message(void **state)
{
    void *(*const functions[])(void *) = {fail_in_its_own_way};

    run(*state, functions, 1);
}

/* Finds a line that starts with the given text in a /proc file of a thread of this process. Returns false if there
 * is none. */
static bool read_line(const char *thread, const char *file, const char *begins, char *line, int bytes)
{
    char path[300];
    FILE *opened;
    bool found = false;

    snprintf(path, sizeof path, "/proc/self/task/%s/%s", thread, file);
    opened = fopen(path, "re");
    while (opened && !found && fgets(line, bytes, opened))
        found = !strncmp(line, begins, strlen(begins));
    if (opened)
        fclose(opened);
    return found;
}

/* leat's threads that copy must block signals, so that the program's handlers do not run on them. */
static void threads_that_copy_block_signals(void **state)
{
    static const int signals[] = {SIGALRM, SIGPROF, SIGVTALRM, SIGIO, SIGCHLD, SIGUSR1, SIGUSR2, SIGINT, SIGTERM};
    enum { MANY_BYTES = 4 << 20 };
    struct test_state *t = *state;
    char *own = test_buffer(MANY_BYTES), line[256];
    void *memory = test_alloc(t->device, LEAT_KIND_DEVICE, MANY_BYTES);
    struct dirent *entry;
    leat_ticket *ticket;
    int copying = 0;
    DIR *threads;

    memset(own, 1, MANY_BYTES);
    ticket = test_copy_start(t->stream, memory, own, MANY_BYTES);
    OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    OK(leat_ticket_destroy(ticket));
    threads = opendir("/proc/self/task");
    assert_non_null(threads);
    while ((entry = readdir(threads))) {
        unsigned long long blocked;

        if (!read_line(entry->d_name, "comm", "leat worker", line, sizeof line) ||
            !read_line(entry->d_name, "status", "SigBlk:", line, sizeof line))
            continue;
        blocked = strtoull(line + strlen("SigBlk:"), NULL, 16);
        for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
            if (!(blocked >> (signals[i] - 1) & 1))
                fail_msg("a thread that copies takes signal %d: it blocks %llx", signals[i], blocked);
        copying++;
    }
    closedir(threads);
    OK(leat_memory_free(memory));
    free(own);
    if (!copying)
        SKIP_OTHER("no thread of leat's copies on this device");
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(every_thread_its_own_stream),
    STATE_TEST(all_threads_one_stream),
    STATE_TEST(all_things_at_once),
    STATE_TEST(a_copy_is_one_piece_of_work),
    STATE_TEST(a_copy_to_the_device_is_one_piece_of_work),
    STATE_TEST(every_thread_its_own_message),
    STATE_TEST(threads_that_copy_block_signals),
};

TEST_MAIN(tests)
