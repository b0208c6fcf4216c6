/*
 * pool_threshold.c - shows how much memory a pool keeps between the bursts of a loop, and the driver calls of the
 * loop.
 *
 *     cc pool_threshold.c -o pool_threshold $(pkg-config --cflags --libs leat)
 *     ./pool_threshold [device]
 *
 * Each round needs much memory for a moment (the burst), and little for the rest. With the driver's own calls each
 * round allocates and frees all its memory. A pool without a limit allocates it once and keeps it for ever. A
 * release threshold (the soft limit, to which the program also trims the pool after each round) makes the pool
 * release the memory above the threshold. Then others can use that memory between the bursts, and only the bursts
 * make driver calls.
 */
#include <leat/leat.h>

#include <stdio.h>

#define ROUNDS 4
#define SMALL_ROUNDS 20
#define BURST_BLOCKS 8
#define MIB ((size_t)1 << 20)
#define BLOCK (4 * MIB)
#define THRESHOLD (8 * MIB)

struct work {
    leat_device *device;
    leat_stream *stream;
    leat_pool *pool; /* NULL: allocate by the driver's own calls */
    uint64_t threshold;
};

static int failed(const char *step)
{
    fprintf(stderr, "pool_threshold: cannot %s: %s\n", step, leat_last_error());
    return 1;
}

static leat_status allocate(struct work *w, void **block)
{
    return w->pool ? leat_pool_alloc(w->stream, w->pool, BLOCK, block)
                   : leat_alloc_driver(w->stream, BLOCK, block);
}

/* Allocates count blocks, uses them and frees them, all in stream order. */
static int use_blocks(struct work *w, int count)
{
    void *blocks[BURST_BLOCKS];

    for (int i = 0; i < count; i++)
        if (allocate(w, &blocks[i]) != LEAT_OK || leat_fill(w->stream, blocks[i], 1, BLOCK) != LEAT_OK)
            return failed("use a block");
    for (int i = 0; i < count; i++)
        if (leat_free(w->stream, blocks[i]) != LEAT_OK)
            return failed("free a block");
    return 0;
}

static int run_round(struct work *w)
{
    if (use_blocks(w, BURST_BLOCKS))
        return 1;
    for (int i = 0; i < SMALL_ROUNDS; i++)
        if (use_blocks(w, 1))
            return 1;
    if (leat_stream_synchronize(w->stream) != LEAT_OK)
        return failed("finish the round");
    /* Release the memory above the threshold now, instead of when the pool next needs memory. */
    if (w->pool && w->threshold && leat_pool_trim(w->pool, w->threshold, NULL, NULL) != LEAT_OK)
        return failed("trim the pool");
    return 0;
}

static int run_loop(struct work *w, const char *name)
{
    leat_pool_stats figures = {.size = sizeof figures};

    for (int round = 0; round < ROUNDS; round++)
        if (run_round(w))
            return 1;
    if (!w->pool) {
        printf("%-28s  keeps nothing, and asks the driver for every block\n", name);
        return 0;
    }
    if (leat_pool_get_stats(w->pool, &figures) != LEAT_OK)
        return failed("ask the pool for its figures");
    printf("%-28s  keeps %3llu MiB between the bursts, after %llu driver calls\n", name,
           (unsigned long long)(figures.reserved_bytes / MIB), (unsigned long long)figures.driver_calls);
    if (w->threshold && figures.reserved_bytes > w->threshold) {
        fprintf(stderr, "pool_threshold: the pool holds more than its threshold\n");
        return 1;
    }
    return 0;
}

static int run_pool(struct work *w, const char *name, uint64_t threshold)
{
    leat_pool_options options = LEAT_POOL_OPTIONS_INIT;

    options.name = name;
    options.soft_limit_bytes = threshold;
    w->threshold = threshold;
    if (leat_pool_create(w->device, &options, &w->pool) != LEAT_OK)
        return failed("create a pool");
    if (run_loop(w, name))
        return 1;
    return leat_pool_destroy(w->pool) == LEAT_OK ? 0 : failed("destroy the pool");
}

static int run(struct work *w)
{
    if (leat_stream_create(w->device, &w->stream) != LEAT_OK)
        return failed("create a stream");
    printf("%d rounds of: %d blocks of %zu MiB at once, then %d times one\n", ROUNDS, BURST_BLOCKS, BLOCK / MIB,
           SMALL_ROUNDS);
    return run_loop(w, "the driver's own") || run_pool(w, "a pool", 0) ||
           run_pool(w, "a pool with a threshold", THRESHOLD);
}

int main(int argc, char **argv)
{
    struct work w = {0};
    int wrong;

    if (leat_device_open(argc > 1 ? argv[1] : NULL, &w.device) != LEAT_OK)
        return failed("open the device");
    wrong = run(&w);
    /* Closing destroys the stream, and the pools that a failed step left behind. */
    if (leat_device_close(w.device) != LEAT_OK)
        wrong = failed("close the device");
    return wrong;
}
