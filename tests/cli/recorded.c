/*
 * recorded.c - programs whose allocations cli_record.sh records. They use only public headers.
 *
 * Usage: recorded PROGRAM. Each prints "allocations N peak BYTES" of device memory, as it counts them itself.
 */
#include <leat/leat.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

#define OK(call) must((call) == LEAT_OK, #call, __LINE__)

static void must(bool fine, const char *what, int line)
{
    if (fine)
        return;
    fprintf(stderr, "recorded: line %d: %s: %s\n", line, what, leat_last_error());
    exit(1);
}

/* ---- the program's own count ---- */

static _Atomic uint64_t allocations;
static uint64_t live_bytes, peak_bytes; /* counted only in programs with one thread */

static void *count_alloc(void *ptr, size_t bytes)
{
    allocations++;
    live_bytes += bytes;
    peak_bytes = live_bytes > peak_bytes ? live_bytes : peak_bytes;
    return ptr;
}

static void *take(leat_pool *pool, leat_stream *stream, size_t bytes)
{
    void *ptr;

    OK(leat_pool_alloc(stream, pool, bytes, &ptr));
    return count_alloc(ptr, bytes);
}

static void give(leat_stream *stream, void *ptr, size_t bytes)
{
    OK(stream ? leat_free(stream, ptr) : leat_memory_free(ptr));
    live_bytes -= bytes;
}

static void tell(void)
{
    printf("allocations %llu peak %llu\n", (unsigned long long)allocations, (unsigned long long)peak_bytes);
}

static leat_device *open_device(void)
{
    leat_device *device;

    OK(leat_device_open(getenv("LEAT_TEST_DEVICE"), &device));
    return device;
}

static leat_pool *make_pool(leat_device *device, const char *name, leat_kind kind, uint64_t limit_bytes)
{
    leat_pool_options options = {.size = sizeof options, .name = name, .kind = kind, .limit_bytes = limit_bytes};
    leat_pool *pool;

    OK(leat_pool_create(device, &options, &pool));
    return pool;
}

/* ---- scene: each call that a trace can have, on one thread ---- */

static void scene(void)
{
    leat_device *device = open_device();
    leat_pool *own = make_pool(device, "own, \"quoted\"", LEAT_KIND_DEVICE, 16 * MIB), *brief;
    leat_stream *first, *second;
    leat_event *event, *never;
    void *a, *b, *c, *pinned, *lost, *refused = NULL;

    OK(leat_stream_create(device, &first));
    OK(leat_stream_create(device, &second));
    OK(leat_event_create(device, &event));
    OK(leat_event_create(device, &never));
    /* Allocate from the default pools. */
    OK(leat_alloc(first, 3 * MIB, &a));
    count_alloc(a, 3 * MIB);
    OK(leat_memory_alloc(device, LEAT_KIND_PINNED, 1000, &pinned));
    OK(leat_memory_free(pinned));
    OK(leat_memory_alloc(device, LEAT_KIND_DEVICE, 5000, &b));
    count_alloc(b, 5000);
    give(NULL, b, 5000);
    /* Report uses by another stream with leat_block_use() and leat_block_use_until(). */
    OK(leat_event_record(second, event));
    OK(leat_block_use(second, a));
    OK(leat_block_use_until(event, a));
    OK(leat_block_use_until(never, a));
    give(first, a, 3 * MIB);
    OK(leat_stream_wait(first, event));
    OK(leat_stream_wait(first, never));
    /* Allocate an aligned block, free a block on another stream, and make an allocation fail. */
    OK(leat_pool_alloc_aligned(first, own, 700, 4096, &b));
    count_alloc(b, 700);
    c = take(own, first, 8 * MIB);
    OK(leat_event_record(first, event));
    OK(leat_stream_wait(second, event));
    give(second, c, 8 * MIB);
    if (leat_pool_alloc(first, own, 17 * MIB, &refused) != LEAT_ERROR_DEVICE_MEMORY)
        must(false, "a pool above its limit", __LINE__);
    /* Make the host wait in three ways. */
    OK(leat_event_synchronize(event));
    OK(leat_stream_synchronize(second));
    OK(leat_device_synchronize(device));
    give(first, b, 700);
    /* Make a driver allocation, destroy a stream and a pool, and leave a block live. */
    OK(leat_alloc_driver(first, 4096, &a));
    count_alloc(a, 4096);
    give(first, a, 4096);
    OK(leat_stream_destroy(second));
    OK(leat_stream_create(device, &second));
    brief = make_pool(device, "brief", LEAT_KIND_DEVICE, 0);
    a = take(brief, second, 2 * MIB);
    give(second, a, 2 * MIB);
    OK(leat_pool_destroy(brief));
    OK(leat_event_destroy(event));
    lost = take(own, second, 4 * MIB);
    (void)lost;
    OK(leat_device_close(device));
    live_bytes -= 4 * MIB;
    /* Open the device again. Closing it has freed the lost block. */
    device = open_device();
    OK(leat_memory_alloc(device, LEAT_KIND_DEVICE, 9 * MIB, &a));
    count_alloc(a, 9 * MIB);
    give(NULL, a, 9 * MIB);
    OK(leat_device_close(device));
    tell();
}

/* ---- loop: many allocations on two streams, one thread ---- */

static void loop(void)
{
    enum { BLOCKS = 40, ROUNDS = 3000 };
    leat_device *device = open_device();
    leat_stream *streams[2];
    leat_event *event;
    leat_pool *pool;
    unsigned random = 7;
    struct {
        void *ptr;
        size_t bytes;
        unsigned stream;
    } blocks[BLOCKS] = {{NULL, 0, 0}};

    OK(leat_pool_default(device, LEAT_KIND_DEVICE, &pool));
    for (int i = 0; i < 2; i++)
        OK(leat_stream_create(device, &streams[i]));
    OK(leat_event_create(device, &event));
    for (int round = 0; round < ROUNDS; round++) {
        unsigned at = (random = random * 1103515245 + 12345) >> 8 & 0xffffff, stream = at >> 8 & 1;

        at %= BLOCKS;
        if (blocks[at].ptr) {
            if (stream != blocks[at].stream) {
                OK(leat_event_record(streams[stream], event));
                OK(leat_stream_wait(streams[blocks[at].stream], event));
            }
            give(streams[blocks[at].stream], blocks[at].ptr, blocks[at].bytes);
            blocks[at].ptr = NULL;
            continue;
        }
        blocks[at].bytes = (size_t)1 << ((random >> 12) % 23);
        blocks[at].stream = stream;
        blocks[at].ptr = take(pool, streams[stream], blocks[at].bytes);
    }
    OK(leat_device_close(device));
    tell();
}

/* ---- threads: each thread frees blocks that other threads allocated ---- */

enum { THREADS = 4, HANDED = 64, TURNS = 4000 };

static leat_device *shared_device;
static _Atomic(void *) handed[HANDED];

static void *run_thread(void *argument)
{
    unsigned random = 1 + (unsigned)(uintptr_t)argument;
    leat_stream *stream;
    void *old, *block;

    OK(leat_stream_create(shared_device, &stream));
    for (int turn = 0; turn < TURNS; turn++) {
        random = random * 1103515245 + 12345;
        OK(leat_alloc(stream, 1 + (random >> 8) % 20000, &block));
        allocations++;
        if (turn % 3 == 0) {
            OK(leat_free(stream, block));
            continue;
        }
        old = atomic_exchange(&handed[(random >> 16) % HANDED], block);
        /* No stream has used the block, so any stream may free it. */
        if (old)
            OK(leat_free(stream, old));
    }
    OK(leat_stream_synchronize(stream));
    OK(leat_stream_destroy(stream));
    return NULL;
}

static void threads(void)
{
    pthread_t thread[THREADS];

    shared_device = open_device();
    for (uintptr_t i = 0; i < THREADS; i++)
        must(!pthread_create(&thread[i], NULL, run_thread, (void *)i), "pthread_create", __LINE__);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < HANDED; i++)
        if (handed[i])
            OK(leat_memory_free(handed[i]));
    OK(leat_device_close(shared_device));
    tell();
}

/* ---- crowd: on one stream, half of the threads allocate blocks that the other half frees ---- */

static leat_stream *shared_stream;

static void *run_in_crowd(void *argument)
{
    bool allocates = (uintptr_t)argument % 2;
    void *block;

    for (int turn = 0, at = 0; turn < TURNS; at = (at + 1) % HANDED) {
        void *none = NULL;

        if (!allocates) {
            block = atomic_exchange(&handed[at], NULL);
            if (block)
                OK(leat_free(shared_stream, block));
            turn += block != NULL;
        } else if (!atomic_load(&handed[at])) {
            OK(leat_alloc(shared_stream, 1000, &block));
            if (!atomic_compare_exchange_strong(&handed[at], &none, block))
                OK(leat_free(shared_stream, block));
            allocations++;
            turn += !none;
        }
        if (!at)
            sched_yield();
    }
    return NULL;
}

static void crowd(void)
{
    pthread_t thread[THREADS];

    shared_device = open_device();
    OK(leat_stream_create(shared_device, &shared_stream));
    for (uintptr_t i = 0; i < THREADS; i++)
        must(!pthread_create(&thread[i], NULL, run_in_crowd, (void *)i), "pthread_create", __LINE__);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    OK(leat_device_close(shared_device));
    tell();
}

/* ---- how programs end ---- */

static leat_device *open_until_exit;
static leat_stream *stream_until_exit;
static void *block_until_exit;

static void free_at_exit(void)
{
    give(stream_until_exit, block_until_exit, 3 * MIB);
}

static void *last_block;

/* Runs after the atexit() handlers of the program, and after those of the library. */
__attribute__((destructor)) static void free_last(void)
{
    if (last_block)
        give(stream_until_exit, last_block, MIB);
}

/* Closes neither the stream nor the device. Frees one block in an atexit() handler and one in a destructor. */
static void leave(void)
{
    leat_pool *pool;

    open_until_exit = open_device();
    OK(leat_pool_default(open_until_exit, LEAT_KIND_DEVICE, &pool));
    OK(leat_stream_create(open_until_exit, &stream_until_exit));
    block_until_exit = take(pool, stream_until_exit, 3 * MIB);
    last_block = take(pool, stream_until_exit, MIB);
    must(!atexit(free_at_exit), "atexit", __LINE__);
    tell();
}

/* A limit on file sizes stops the growth of the trace, as on a full disk. */
static void fill(void)
{
    struct rlimit limit = {.rlim_cur = 100000, .rlim_max = RLIM_INFINITY};
    leat_device *device = open_device();
    leat_stream *stream;
    leat_pool *pool;

    OK(leat_pool_default(device, LEAT_KIND_DEVICE, &pool));
    OK(leat_stream_create(device, &stream));
    give(stream, take(pool, stream, 777), 777);
    must(!setrlimit(RLIMIT_FSIZE, &limit), "setrlimit", __LINE__);
    for (int i = 0; i < 5000; i++)
        give(stream, take(pool, stream, 777), 777);
    OK(leat_device_close(device));
    tell();
}

/* Calls _exit() before the rest of the trace is written. The part that is in the file must consist of whole
 * lines. */
static void vanish(void)
{
    loop();
    leave();
    fflush(stdout);
    _exit(0);
}

/* Forks children, with and without an open device. No child may write to the trace. */
static void split(void)
{
    leat_device *device = open_device();
    /* A child of fork() cannot use a GPU driver that the parent has used. */
    const char *name = getenv("LEAT_TEST_DEVICE");
    bool forks = name && !strncmp(name, "cpu", 3);
    leat_stream *stream;
    void *block;
    pid_t child;

    OK(leat_device_close(device));
    for (int open = 0; open < 2; open++) {
        if (open)
            device = open_device();
        fflush(stdout);
        child = fork();
        must(child >= 0, "fork", __LINE__);
        if (!child) {
            if (!open && forks) {
                device = open_device();
                OK(leat_stream_create(device, &stream));
                for (int i = 0; i < 5000; i++) {
                    OK(leat_alloc(stream, 777, &block));
                    OK(leat_free(stream, block));
                }
                OK(leat_device_close(device));
            }
            exit(0);
        }
        must(waitpid(child, NULL, 0) == child, "waitpid", __LINE__);
    }
    OK(leat_stream_create(device, &stream));
    OK(leat_alloc(stream, 3 * MIB, &block));
    count_alloc(block, 3 * MIB);
    give(stream, block, 3 * MIB);
    OK(leat_device_close(device));
    tell();
}

/* Starts another recorded program. */
static void start(char *self)
{
    leat_device *device = open_device();
    leat_stream *stream;
    void *block;
    pid_t child;

    OK(leat_stream_create(device, &stream));
    fflush(stdout);
    child = fork();
    must(child >= 0, "fork", __LINE__);
    if (!child) {
        execl(self, self, "leave", (char *)NULL);
        _exit(1);
    }
    must(waitpid(child, NULL, 0) == child, "waitpid", __LINE__);
    OK(leat_alloc(stream, 3 * MIB, &block));
    count_alloc(block, 3 * MIB);
    give(stream, block, 3 * MIB);
    OK(leat_device_close(device));
    tell();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } programs[] = {{"scene", scene}, {"loop", loop}, {"threads", threads}, {"crowd", crowd},
                    {"leave", leave}, {"fill", fill}, {"vanish", vanish},   {"split", split}};

    if (argc == 2 && !strcmp(argv[1], "start")) {
        start(argv[0]);
        return 0;
    }
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
        if (argc == 2 && !strcmp(argv[1], programs[i].name)) {
            programs[i].run();
            return 0;
        }
    fprintf(stderr, "recorded: which program?\n");
    return 2;
}
