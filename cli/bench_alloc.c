/*
 * bench_alloc.c - measures the group "alloc": how long it takes to allocate and free device and pinned memory, and
 * to register and unregister memory.
 */
#include "bench_measure.h"
#include "bench_verify.h"

#include <stdlib.h>

enum alloc_method { ALLOC_STREAM, ALLOC_DEVICE, ALLOC_PINNED, ALLOC_REGISTER, ALLOC_METHOD_COUNT };

struct alloc_case {
    struct bench *bench;
    enum alloc_method method;
    size_t bytes;
    unsigned batch; /* pairs in one sample */
    void *pageable; /* the memory that the case registers */
};

static const char *const method_names[ALLOC_METHOD_COUNT] = {
    "device memory, stream order", "device memory, at once", "pinned memory", "register ordinary memory"};

static bool leat_pair(struct alloc_case *c)
{
    struct bench *bench = c->bench;
    leat_stream *stream = bench->streams[0];
    void *ptr;

    switch (c->method) {
    case ALLOC_STREAM:
        return bench_check(bench, leat_alloc(stream, c->bytes, &ptr)) &&
               bench_check(bench, leat_free(stream, ptr));
    case ALLOC_REGISTER:
        return bench_check(bench, leat_register(bench->device, c->pageable, c->bytes)) &&
               bench_check(bench, leat_unregister(c->pageable));
    default:
        return bench_check(bench,
                           leat_memory_alloc(bench->device,
                                             c->method == ALLOC_PINNED ? LEAT_KIND_PINNED : LEAT_KIND_DEVICE,
                                             c->bytes, &ptr)) &&
               bench_check(bench, leat_memory_free(ptr));
    }
}

static int driver_pair(struct alloc_case *c)
{
    struct bench_peer *peer = c->bench->peer;
    void *stream = c->bench->native_streams[0];
    void *ptr;
    int result;

    switch (c->method) {
    case ALLOC_STREAM:
        result = peer->alloc_async(peer, stream, c->bytes, &ptr);
        return result ? result : peer->free_async(peer, stream, ptr);
    case ALLOC_DEVICE:
        result = peer->alloc(peer, c->bytes, &ptr);
        return result ? result : peer->free(peer, ptr);
    case ALLOC_PINNED:
        result = peer->host_alloc(peer, c->bytes, &ptr);
        return result ? result : peer->host_free(peer, ptr);
    default:
        result = peer->host_register(peer, c->pageable, c->bytes);
        return result ? result : peer->host_unregister(peer, c->pageable);
    }
}

static bool driver_has(const struct bench_peer *peer, enum alloc_method method)
{
    if (!peer)
        return false;
    switch (method) {
    case ALLOC_STREAM:
        return peer->alloc_async != NULL;
    case ALLOC_DEVICE:
        return peer->alloc != NULL;
    case ALLOC_PINNED:
        return peer->host_alloc != NULL;
    default:
        return peer->host_register != NULL;
    }
}

static bool sample_pairs(void *state, enum bench_side side, double *seconds)
{
    struct alloc_case *c = state;
    double begin = bench_now();
    unsigned i;

    for (i = 0; i < c->batch; i++)
        if (side == BENCH_LEAT ? !leat_pair(c)
                               : !bench_check_peer(c->bench, method_names[c->method], driver_pair(c)))
            return false;
    *seconds = (bench_now() - begin) / c->batch;

    /* Wait for frees in stream order, so that the next sample starts on an idle stream. */
    return bench_check(c->bench, leat_stream_synchronize(c->bench->streams[0]));
}

/* Verifies pinned or registered memory: copies its first MiB to the device and from there to its last MiB. All
 * sizes of these cases are well above 2 MiB, so the two do not overlap. */
static bool verify_host(struct alloc_case *c, void *ptr, bool *verified)
{
    struct bench *bench = c->bench;
    leat_stream *stream = bench->streams[0];
    char *last = (char *)ptr + (c->bytes - MIB);
    void *device = bench_buffer(bench, BENCH_DEVICE_A);
    uint64_t seed = bench_new_seed(bench);

    if (!device)
        return false;
    bench_fill_host(bench, ptr, MIB, seed);
    bench_poison_host(bench, last, MIB);
    if (!bench_check(bench, leat_copy(stream, device, ptr, MIB)) ||
        !bench_check(bench, leat_copy(stream, last, device, MIB)) ||
        !bench_check(bench, leat_stream_synchronize(stream)))
        return false;
    *verified = bench_host_holds(bench, last, MIB, seed);
    return true;
}

static bool verify_pair(struct alloc_case *c, bool *verified)
{
    struct bench *bench = c->bench;
    leat_stream *stream = bench->streams[0];
    bool fine;
    void *ptr;

    switch (c->method) {
    case ALLOC_STREAM:
        if (!bench_check(bench, leat_alloc(stream, c->bytes, &ptr)))
            return false;
        fine = bench_device_usable(bench, ptr, c->bytes, verified);
        return bench_check(bench, leat_free(stream, ptr)) && fine;
    case ALLOC_REGISTER:
        if (!bench_check(bench, leat_register(bench->device, c->pageable, c->bytes)))
            return false;
        fine = verify_host(c, c->pageable, verified);
        return bench_check(bench, leat_unregister(c->pageable)) && fine;
    default:
        if (!bench_check(bench, leat_memory_alloc(bench->device,
                                                  c->method == ALLOC_PINNED ? LEAT_KIND_PINNED : LEAT_KIND_DEVICE,
                                                  c->bytes, &ptr)))
            return false;
        fine = c->method == ALLOC_PINNED ? verify_host(c, ptr, verified)
                                         : bench_device_usable(bench, ptr, c->bytes, verified);
        return bench_check(bench, leat_memory_free(ptr)) && fine;
    }
}

static void measure_case(struct bench *bench, struct bench_rows *rows, enum alloc_method method, size_t bytes)
{
    struct alloc_case c = {.bench = bench, .method = method, .bytes = bytes};
    bool with_driver = driver_has(bench->peer, method);
    struct bench_result result;
    struct bench_row *row;
    bool verified = false;

    bench_progress(bench, "alloc", method_names[method], bytes);
    /* A pair of a small size takes too little time for the clock's resolution, so a sample has several pairs. */
    c.batch = method == ALLOC_STREAM || bytes <= MIB ? 16 : 1;
    if (method == ALLOC_REGISTER)
        c.pageable = bench_buffer(bench, BENCH_PAGEABLE_IN);
    if ((method == ALLOC_REGISTER && !c.pageable) ||
        !bench_measure(bench, sample_pairs, &c, with_driver, &result) || !verify_pair(&c, &verified)) {
        bench_case_failed(bench, "alloc", method_names[method], bytes);
        return;
    }
    row = bench_row_add(rows, "alloc", method_names[method], bytes, BENCH_US);
    row->result = result;
    row->with_driver = with_driver;
    row->verified = verified;
}

void bench_alloc_group(struct bench *bench)
{
    static const size_t device_sizes[] = {512, MIB, 64 * MIB, GIB};
    static const size_t host_sizes[] = {64 * MIB, GIB};
    struct bench_rows rows = {.count = 0};
    unsigned method, i;

    for (method = ALLOC_STREAM; method <= ALLOC_DEVICE; method++)
        for (i = 0; i < sizeof device_sizes / sizeof device_sizes[0]; i++)
            if (device_sizes[i] <= bench->largest)
                measure_case(bench, &rows, (enum alloc_method)method, device_sizes[i]);
    for (method = ALLOC_PINNED; method <= ALLOC_REGISTER; method++)
        for (i = 0; i < sizeof host_sizes / sizeof host_sizes[0]; i++)
            if (host_sizes[i] <= bench->largest)
                measure_case(bench, &rows, (enum alloc_method)method, host_sizes[i]);
    bench_rows_commit(bench, &rows);
}
