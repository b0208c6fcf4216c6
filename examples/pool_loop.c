/*
 * pool_loop.c - runs a loop that allocates, launches and frees, first by the driver's calls, then from a pool.
 *
 *     cc pool_loop.c -o pool_loop $(pkg-config --cflags --libs leat)
 *     ./pool_loop [device]
 *
 * Temporary memory inside a loop slows programs down: the driver's own allocation takes longer than a launch.
 * leat_alloc takes the memory from a pool. The next round gets the memory that this round freed on the same
 * stream, at the same address and without a driver call. It does not wait for this round's kernel, which may still
 * use the memory, because the next round's kernel runs after it in the stream.
 */
#include <leat/leat.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#define ROUNDS 100
#define COUNT ((size_t)1 << 20) /* 1 Mi numbers, 4 MiB */
#define BYTES (COUNT * sizeof(uint32_t))

typedef leat_status allocate_function(leat_stream *stream, size_t bytes, void **ptr);

struct work {
    leat_device *device;
    leat_stream *stream;
    leat_kernel *add;
    leat_pool *pool;     /* leat_alloc() allocates from it */
    void *sum;           /* device memory: the sum of all rounds */
    uint32_t *host;      /* pinned memory, for the check */
    void *place[ROUNDS]; /* the address of each round's temporary memory */
};

static int failed(const char *step)
{
    fprintf(stderr, "pool_loop: cannot %s: %s\n", step, leat_last_error());
    return 1;
}

static int prepare(struct work *w)
{
    leat_module *module;
    void *memory;

    if (leat_module_builtin(w->device, &module) != LEAT_OK)
        return failed("load the built-in kernels");
    if (leat_kernel_get(module, "leat_vector_add_u32", &w->add) != LEAT_OK)
        return failed("find the kernel");
    if (leat_stream_create(w->device, &w->stream) != LEAT_OK)
        return failed("create a stream");
    if (leat_pool_default(w->device, LEAT_KIND_DEVICE, &w->pool) != LEAT_OK)
        return failed("find the device's pool");
    /* Allocate this memory once, before the loop, because all rounds use it. */
    if (leat_memory_alloc(w->device, LEAT_KIND_DEVICE, BYTES, &w->sum) != LEAT_OK)
        return failed("allocate on the device");
    if (leat_memory_alloc(w->device, LEAT_KIND_PINNED, BYTES, &memory) != LEAT_OK)
        return failed("allocate pinned memory");
    w->host = memory;
    return 0;
}

/* One round: allocate temporary memory, fill it with the round's number, add it to the sum, free it. All four
 * calls only submit work; none waits for the device. */
static int run_round(struct work *w, allocate_function *allocate, uint32_t round)
{
    uint64_t count = COUNT;
    void *temporary;
    void *args[] = {&w->sum, &w->sum, &temporary, &count};

    if (allocate(w->stream, BYTES, &temporary) != LEAT_OK)
        return failed("allocate temporary memory");
    w->place[round] = temporary;
    if (leat_fill_pattern(w->stream, temporary, &round, sizeof round, BYTES) != LEAT_OK)
        return failed("fill the temporary memory");
    if (leat_launch(w->stream, w->add, leat_dim(256, 1, 1), leat_dim(256, 1, 1), 0, args, 4) != LEAT_OK)
        return failed("launch the kernel");
    if (leat_free(w->stream, temporary) != LEAT_OK)
        return failed("free the temporary memory");
    return 0;
}

static int check(struct work *w)
{
    uint32_t wanted = ROUNDS * (ROUNDS - 1) / 2;

    if (leat_copy(w->stream, w->host, w->sum, BYTES) != LEAT_OK || leat_stream_synchronize(w->stream) != LEAT_OK)
        return failed("copy the sum back");
    for (size_t i = 0; i < COUNT; i++)
        if (w->host[i] != wanted) {
            fprintf(stderr, "pool_loop: sum %zu is %u, not %u\n", i, w->host[i], wanted);
            return 1;
        }
    return 0;
}

static double seconds_now(void)
{
    struct timespec now;

    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static size_t count_places(const struct work *w)
{
    size_t count = 0;

    for (size_t i = 0; i < ROUNDS; i++) {
        size_t j = 0;

        while (w->place[j] != w->place[i])
            j++;
        count += j == i;
    }
    return count;
}

static int query(const struct work *w, leat_pool_stats *now)
{
    *now = (leat_pool_stats)LEAT_POOL_STATS_INIT;
    return leat_pool_get_stats(w->pool, now) == LEAT_OK ? 0 : failed("ask the pool for its figures");
}

/* Prints the time and the figures of one loop. The time is a single measurement in a new process; "leat bench"
 * measures more accurately. */
static void report(const struct work *w, const char *name, double seconds, const leat_pool_stats figures[3])
{
    size_t places = count_places(w);

    printf("%-16s  %8.2f us a round until all rounds were done\n", name, seconds * 1e6 / ROUNDS);
    printf("    addresses: %p, %p, %p ... %p: %s\n", w->place[0], w->place[1], w->place[2], w->place[ROUNDS - 1],
           places == 1 ? "the same each time" : "not always the same");
    printf("    the pool's driver calls: %llu before, %llu after the first round, %llu after the last; events: "
           "%llu\n",
           (unsigned long long)figures[0].driver_calls, (unsigned long long)figures[1].driver_calls,
           (unsigned long long)figures[2].driver_calls,
           (unsigned long long)(figures[2].events - figures[0].events));
}

static int run_loop(struct work *w, const char *name, allocate_function *allocate)
{
    leat_pool_stats figures[3];
    double start;

    if (leat_fill(w->stream, w->sum, 0, BYTES) != LEAT_OK || leat_stream_synchronize(w->stream) != LEAT_OK)
        return failed("clear the sum");
    if (query(w, &figures[0]))
        return 1;
    start = seconds_now();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        if (run_round(w, allocate, round))
            return 1;
        if (round == 0 && query(w, &figures[1]))
            return 1;
    }
    if (leat_stream_synchronize(w->stream) != LEAT_OK)
        return failed("finish the work");
    start = seconds_now() - start;
    if (query(w, &figures[2]) || check(w))
        return 1;
    report(w, name, start, figures);
    return 0;
}

static int run(struct work *w)
{
    if (prepare(w))
        return 1;
    printf("%d rounds of: allocate %zu bytes, fill, add, free\n", ROUNDS, BYTES);
    /* Both loops do the same work; the first is slower only because each round allocates from the driver. */
    if (run_loop(w, "leat_alloc_driver", leat_alloc_driver) || run_loop(w, "leat_alloc", leat_alloc))
        return 1;
    printf("all sums are right\n");
    if (leat_memory_free(w->sum) != LEAT_OK || leat_memory_free(w->host) != LEAT_OK)
        return failed("free memory");
    return 0;
}

int main(int argc, char **argv)
{
    struct work w = {0};
    int wrong;

    if (leat_device_open(argc > 1 ? argv[1] : NULL, &w.device) != LEAT_OK)
        return failed("open the device");
    wrong = run(&w);
    /* Closing destroys the stream, and frees what a failed step left behind. */
    if (leat_device_close(w.device) != LEAT_OK)
        wrong = failed("close the device");
    return wrong;
}
