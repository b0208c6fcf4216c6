/*
 * pool_full.c - keeps results in a list until the memory is full, handles the error, frees them, and continues.
 *
 *     cc pool_full.c -o pool_full $(pkg-config --cflags --libs leat)
 *     ./pool_full [device]
 *
 * Programs run out of device memory if they keep results that they no longer need. Here a pool with a limit
 * stands for a full device, so that the error comes soon and affects no other program. The error is a status
 * like any other: its message says what holds the memory, no memory is lost, and after a free the same call
 * succeeds.
 */
#include <leat/leat.h>

#include <stdio.h>
#include <stdlib.h>

#define LIMIT_BYTES ((uint64_t)64 << 20)
#define RESULT_COUNT ((size_t)1 << 20) /* numbers in each result, 4 MiB */
#define RESULT_BYTES (RESULT_COUNT * sizeof(uint32_t))
#define RESULTS 100 /* number of results, far more than the pool can hold at once */

struct result {
    struct result *next;
    void *memory; /* device memory */
    uint32_t number;
};

struct work {
    leat_device *device;
    leat_stream *stream;
    leat_pool *pool;
    uint32_t *host;         /* pinned memory for one result */
    struct result *results; /* newest first */
};

static int failed(const char *step)
{
    fprintf(stderr, "pool_full: cannot %s: %s\n", step, leat_last_error());
    return 1;
}

static int prepare(struct work *w)
{
    leat_pool_options options = {.size = sizeof options, .name = "results", .limit_bytes = LIMIT_BYTES};
    void *memory;

    if (leat_stream_create(w->device, &w->stream) != LEAT_OK)
        return failed("create a stream");
    if (leat_pool_create(w->device, &options, &w->pool) != LEAT_OK)
        return failed("create a pool");
    if (leat_memory_alloc(w->device, LEAT_KIND_PINNED, RESULT_BYTES, &memory) != LEAT_OK)
        return failed("allocate pinned memory");
    w->host = memory;
    return 0;
}

/* Allocates memory, fills it with the result's number, and puts the result at the head of the list. Returns
 * LEAT_ERROR_DEVICE_MEMORY if the pool is full; the caller handles that. */
static leat_status add_result(struct work *w, uint32_t number)
{
    struct result *result = malloc(sizeof *result);
    leat_status status;

    if (!result)
        return LEAT_ERROR_HOST_MEMORY;
    status = leat_pool_alloc(w->stream, w->pool, RESULT_BYTES, &result->memory);
    if (status != LEAT_OK) {
        free(result);
        return status;
    }
    result->number = number;
    result->next = w->results;
    w->results = result;
    return leat_fill_pattern(w->stream, result->memory, &number, sizeof number, RESULT_BYTES);
}

static int check(const struct work *w, const struct result *result)
{
    if (leat_copy(w->stream, w->host, result->memory, RESULT_BYTES) != LEAT_OK ||
        leat_stream_synchronize(w->stream) != LEAT_OK)
        return failed("copy a result back");
    for (size_t i = 0; i < RESULT_COUNT; i++)
        if (w->host[i] != result->number) {
            fprintf(stderr, "pool_full: result %u has %u at %zu\n", result->number, w->host[i], i);
            return 1;
        }
    return 0;
}

/* Checks the newest result, removes it from the list, and returns its memory to the pool. */
static int use_result(struct work *w)
{
    struct result *result = w->results;

    if (check(w, result))
        return 1;
    if (leat_free(w->stream, result->memory) != LEAT_OK)
        return failed("free a result");
    w->results = result->next;
    free(result);
    return 0;
}

/* Makes the mistake of keeping every result, until the pool is full. *kept returns the number of results that
 * fitted. */
static int collect(struct work *w, uint32_t *kept)
{
    leat_status status = LEAT_OK;
    uint32_t number = 0;

    while (number < RESULTS && (status = add_result(w, number)) == LEAT_OK)
        number++;
    if (status != LEAT_ERROR_DEVICE_MEMORY) {
        if (status != LEAT_OK)
            return failed("compute a result");
        fprintf(stderr, "pool_full: %u results fitted into %llu bytes\n", number, (unsigned long long)LIMIT_BYTES);
        return 1;
    }
    *kept = number;
    printf("%u results of %zu bytes fit; for the next one leat says:\n    %s\n", number, RESULT_BYTES,
           leat_last_error());
    return 0;
}

static int run(struct work *w)
{
    uint32_t kept = 0;

    if (prepare(w) || collect(w, &kept))
        return 1;

    /* The error has destroyed nothing: all results so far can be used and freed. */
    for (uint32_t i = 0; i < kept; i++)
        if (use_result(w))
            return 1;
    printf("all %u were right and are freed; on to the same work, one result at a time\n", kept);

    /* Correct the mistake: free each result after its use. Then any number of results can be computed. */
    for (uint32_t number = 0; number < RESULTS; number++)
        if (add_result(w, number) != LEAT_OK)
            return failed("compute a result after memory was freed");
        else if (use_result(w))
            return 1;
    printf("%d results, one after the other, all right\n", RESULTS);

    if (leat_memory_free(w->host) != LEAT_OK)
        return failed("free the pinned memory");
    /* A pool can be destroyed only when none of its blocks is in use. */
    if (leat_pool_destroy(w->pool) != LEAT_OK)
        return failed("destroy the pool");
    return 0;
}

int main(int argc, char **argv)
{
    struct work w = {0};
    int wrong;

    if (leat_device_open(argc > 1 ? argv[1] : NULL, &w.device) != LEAT_OK)
        return failed("open the device");
    wrong = run(&w);
    while (w.results) {
        struct result *result = w.results;

        w.results = result->next;
        free(result);
    }
    /* Closing destroys the stream and the pool, and frees what a failed step left behind. */
    if (leat_device_close(w.device) != LEAT_OK)
        wrong = failed("close the device");
    return wrong;
}
