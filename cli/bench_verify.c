/*
 * bench_verify.c - writes known bytes and checks them: on the host with all threads, on the device with leat's
 * kernels.
 */
#include "bench_verify.h"

#include <stdatomic.h>
#include <string.h>

enum { PROBES = 1024 };

/* The arguments of one pass over host memory. Each thread handles a contiguous share of it. */
struct walk {
    void *ptr;
    size_t bytes;
    uint64_t seed, other_seed;
    uint64_t first;      /* index in the pattern of the first word */
    atomic_size_t wrong; /* number of wrong words; relaxed, because it is read after all workers have finished */
};

uint64_t bench_new_seed(struct bench *bench)
{
    return ++bench->seed;
}

/* Computes the share [*begin, *end) of count elements for thread index of threads. */
static void share(size_t count, unsigned index, unsigned threads, size_t *begin, size_t *end)
{
    size_t each = count / threads + 1;

    *begin = each * index < count ? each * index : count;
    *end = count - *begin < each ? count : *begin + each;
}

static void fill_words(void *argument, unsigned index, unsigned threads)
{
    struct walk *walk = argument;
    uint64_t *words = walk->ptr;
    size_t i, end;

    for (share(walk->bytes / 8, index, threads, &i, &end); i < end; i++)
        words[i] = leat_pattern_value(walk->first + i, walk->seed);
}

static void check_words(void *argument, unsigned index, unsigned threads)
{
    struct walk *walk = argument;
    const uint64_t *words = walk->ptr;
    size_t i, end, wrong = 0;

    for (share(walk->bytes / 8, index, threads, &i, &end); i < end; i++)
        wrong += words[i] != leat_pattern_value(walk->first + i, walk->seed);
    atomic_fetch_add_explicit(&walk->wrong, wrong, memory_order_relaxed);
}

static void poison(void *argument, unsigned index, unsigned threads)
{
    struct walk *walk = argument;
    size_t begin, end;

    share(walk->bytes, index, threads, &begin, &end);
    memset((char *)walk->ptr + begin, 0xff, end - begin);
}

static float float_value(size_t index, uint64_t seed)
{
    return (float)(leat_pattern_value(index, seed) >> 44);
}

static void fill_floats(void *argument, unsigned index, unsigned threads)
{
    struct walk *walk = argument;
    float *floats = walk->ptr;
    size_t i, end;

    for (share(walk->bytes / sizeof(float), index, threads, &i, &end); i < end; i++)
        floats[i] = float_value(i, walk->seed);
}

static void check_sums(void *argument, unsigned index, unsigned threads)
{
    struct walk *walk = argument;
    const float *floats = walk->ptr;
    size_t i, end, wrong = 0;

    for (share(walk->bytes / sizeof(float), index, threads, &i, &end); i < end; i++)
        wrong += !(floats[i] == float_value(i, walk->seed) + float_value(i, walk->other_seed));
    atomic_fetch_add_explicit(&walk->wrong, wrong, memory_order_relaxed);
}

static void walk_host(struct bench *bench, bench_work work, struct walk *walk)
{
    atomic_init(&walk->wrong, 0);
    if (walk->bytes < MIB)
        work(walk, 0, 1);
    else
        bench_workers_run(bench->workers, work, walk);
}

void bench_fill_host_part(struct bench *bench, void *ptr, size_t bytes, uint64_t first, uint64_t seed)
{
    struct walk walk = {.ptr = ptr, .bytes = bytes, .seed = seed, .first = first};
    uint64_t last = leat_pattern_value(first + bytes / 8, seed);

    walk_host(bench, fill_words, &walk);
    memcpy((char *)ptr + bytes / 8 * 8, &last, bytes % 8);
}

void bench_fill_host(struct bench *bench, void *ptr, size_t bytes, uint64_t seed)
{
    bench_fill_host_part(bench, ptr, bytes, 0, seed);
}

bool bench_host_part_holds(struct bench *bench, const void *ptr, size_t bytes, uint64_t first, uint64_t seed)
{
    struct walk walk = {.ptr = (void *)(uintptr_t)ptr, .bytes = bytes, .seed = seed, .first = first};
    uint64_t last = leat_pattern_value(first + bytes / 8, seed);

    walk_host(bench, check_words, &walk);
    return atomic_load_explicit(&walk.wrong, memory_order_relaxed) == 0 &&
           !memcmp((const char *)ptr + bytes / 8 * 8, &last, bytes % 8);
}

bool bench_host_holds(struct bench *bench, const void *ptr, size_t bytes, uint64_t seed)
{
    return bench_host_part_holds(bench, ptr, bytes, 0, seed);
}

void bench_poison_host(struct bench *bench, void *ptr, size_t bytes)
{
    struct walk walk = {.ptr = ptr, .bytes = bytes};

    walk_host(bench, poison, &walk);
}

void bench_fill_floats(struct bench *bench, float *ptr, size_t count, uint64_t seed)
{
    struct walk walk = {.ptr = ptr, .bytes = count * sizeof(float), .seed = seed};

    walk_host(bench, fill_floats, &walk);
}

bool bench_holds_sums(struct bench *bench, const float *ptr, size_t count, uint64_t seed_a, uint64_t seed_b)
{
    struct walk walk = {
        .ptr = (void *)(uintptr_t)ptr, .bytes = count * sizeof(float), .seed = seed_a, .other_seed = seed_b};

    walk_host(bench, check_sums, &walk);
    return atomic_load_explicit(&walk.wrong, memory_order_relaxed) == 0;
}

bool bench_fill_device(struct bench *bench, void *ptr, size_t bytes, uint64_t seed)
{
    uint64_t count = (bytes + 7) / 8;
    void *args[] = {&ptr, &count, &seed};

    return bench_launch(bench, 0, bench->pattern, count, args, 3) &&
           bench_check(bench, leat_stream_synchronize(bench->streams[0]));
}

/* Copies the bytes of the last, incomplete word to the host and compares them there. */
static bool tail_holds(struct bench *bench, void *ptr, size_t bytes, uint64_t seed, bool *holds)
{
    uint64_t last = leat_pattern_value(bytes / 8, seed);

    if (!bench_check(bench,
                     leat_copy(bench->streams[0], bench->wrong_host, (char *)ptr + bytes / 8 * 8, bytes % 8)) ||
        !bench_check(bench, leat_stream_synchronize(bench->streams[0])))
        return false;
    *holds = !memcmp(bench->wrong_host, &last, bytes % 8);
    return true;
}

/*
 * Verifies device memory by a kernel that counts wrong words. To make sure that the kernel really reads the
 * memory, it first compares some words with the pattern of another seed, and must count exactly these words as
 * wrong.
 */
bool bench_device_holds(struct bench *bench, void *ptr, size_t bytes, uint64_t seed, bool *holds)
{
    leat_stream *stream = bench->streams[0];
    uint64_t count = bytes / 8;
    uint64_t probes = count < PROBES ? count : PROBES;
    uint64_t other_seed = ~seed;
    void *args[] = {&ptr, &count, &seed, &bench->wrong_device};
    void *probe_args[] = {&ptr, &probes, &other_seed, &bench->wrong_device};

    *bench->wrong_host = UINT64_MAX;
    if (!bench_check(bench, leat_fill(stream, bench->wrong_device, 0, sizeof(uint64_t))) ||
        (count && !bench_launch(bench, 0, bench->verify, count, args, 4)) ||
        (count && !bench_launch(bench, 0, bench->verify, probes, probe_args, 4)) ||
        !bench_check(bench, leat_copy(stream, bench->wrong_host, bench->wrong_device, sizeof(uint64_t))) ||
        !bench_check(bench, leat_stream_synchronize(stream)))
        return false;
    *holds = *bench->wrong_host == probes;
    return *holds && bytes % 8 ? tail_holds(bench, ptr, bytes, seed, holds) : true;
}

static bool part_usable(struct bench *bench, char *ptr, size_t bytes, bool *usable)
{
    uint64_t seed = bench_new_seed(bench);

    return bench_fill_device(bench, ptr, bytes, seed) && bench_device_holds(bench, ptr, bytes, seed, usable);
}

bool bench_device_usable(struct bench *bench, void *ptr, size_t bytes, bool *usable)
{
    size_t part = bytes < MIB ? bytes : MIB;
    bool first = false, last = false;

    if (!part_usable(bench, ptr, part, &first) || !part_usable(bench, (char *)ptr + (bytes - part), part, &last))
        return false;
    *usable = first && last;
    return true;
}
