/*
 * run_rates.c - a program of the CUDA driver API whose copies "leat run" serves: prints how long they take.
 *
 *     make run-rates
 *
 * runs it alone and under leat run and puts the two beside each other. Each line is NAME, then the median and the
 * longest time in microseconds, from the call until the stream was synchronized. Copies are repeated after rests,
 * calm, and beside a team of threads that fill the memory together before each copy and then spin for 10 ms, as
 * OpenMP's threads do. The bytes are compared after each kind of copy. The argument is the largest size in MiB
 * (1024 if there is none).
 */
#include <cuda.h>

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB ((size_t)1 << 20)
#define SPIN_NS 10000000u
#define THREADS_MAX 256
#define COPIES_MAX 4096
#define REPEATS_MAX 21

/* The driver is looked up, not linked, as the CUDA runtime does it. */
#define FUNCTIONS(X)                                                                                              \
    X(cuInit)                                                                                                     \
    X(cuDevicePrimaryCtxRetain)                                                                                   \
    X(cuCtxSetCurrent)                                                                                            \
    X(cuMemAlloc_v2)                                                                                              \
    X(cuMemHostAlloc)                                                                                             \
    X(cuMemFreeHost)                                                                                              \
    X(cuMemcpyHtoD_v2)                                                                                            \
    X(cuMemcpyDtoH_v2)                                                                                            \
    X(cuMemcpyHtoDAsync_v2)                                                                                       \
    X(cuMemcpyDtoHAsync_v2)                                                                                       \
    X(cuStreamCreate)                                                                                             \
    X(cuStreamSynchronize)
#define DEFINE(name) static __typeof__(&name) find_##name;
FUNCTIONS(DEFINE)
static __typeof__(&cuMemcpyBatchAsync_v2) find_cuMemcpyBatchAsync_v2; /* NULL: a driver before CUDA 13 */
#define CALL(name) find_##name

static size_t most_bytes = 1024 * MIB;
static CUdeviceptr device;
static unsigned char *host;
static CUstream stream;

static void must(bool is_right, const char *what)
{
    if (is_right)
        return;
    fprintf(stderr, "run_rates: %s failed\n", what);
    exit(1);
}
#define MUST(name, ...) must(CALL(name)(__VA_ARGS__) == CUDA_SUCCESS, #name)

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *found;

    must(library, "loading libcuda.so.1");
#define FIND(name)                                                                                                \
    found = dlsym(library, #name);                                                                                \
    must(found, #name);                                                                                           \
    memcpy(&find_##name, &found, sizeof found);
    FUNCTIONS(FIND)
    found = dlsym(library, "cuMemcpyBatchAsync_v2");
    memcpy(&find_cuMemcpyBatchAsync_v2, &found, sizeof found);
}

/* ---- times ---- */

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void rest(unsigned ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print(const char *name, double *times, unsigned count)
{
    qsort(times, count, sizeof times[0], compare);
    printf("%-36s %10.1f %10.1f\n", name, times[count / 2], times[count - 1]);
    fflush(stdout);
}

/* ---- the team ---- */

/* Threads that share a job and then spin while they wait for the next one. */
static struct {
    pthread_t threads[THREADS_MAX];
    unsigned count; /* with the main thread */
    size_t bytes;   /* what a job fills, from host on */
    atomic_uint job, left;
    atomic_bool ends;
} team;

static void fill_part(unsigned member)
{
    size_t part = team.bytes / team.count;

    memset(host + member * part, (int)atomic_load(&team.job), part);
}

static void *run_member(void *argument)
{
    unsigned member = (unsigned)(uintptr_t)argument, seen = 0;

    for (;;) {
        double since = now_us();

        while (atomic_load(&team.job) == seen && !atomic_load(&team.ends))
            if (now_us() - since > SPIN_NS / 1e3)
                nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        if (atomic_load(&team.ends))
            return NULL;
        seen = atomic_load(&team.job);
        fill_part(member);
        atomic_fetch_sub(&team.left, 1);
    }
}

static void team_begins(unsigned count)
{
    team.count = count < 2 ? 2 : count > THREADS_MAX ? THREADS_MAX : count;
    atomic_store(&team.job, 0);
    atomic_store(&team.ends, false);
    for (unsigned i = 1; i < team.count; i++)
        must(!pthread_create(&team.threads[i], NULL, run_member, (void *)(uintptr_t)i), "starting a thread");
}

static void team_fills(size_t bytes)
{
    team.bytes = bytes;
    atomic_store(&team.left, team.count - 1);
    atomic_fetch_add(&team.job, 1);
    fill_part(0);
    while (atomic_load(&team.left))
        ;
}

static void team_ends(void)
{
    atomic_store(&team.ends, true);
    for (unsigned i = 1; i < team.count; i++)
        pthread_join(team.threads[i], NULL);
    team.count = 0;
}

/* ---- copies ---- */

static double copy(bool in, size_t bytes)
{
    double begin = now_us();

    if (in)
        MUST(cuMemcpyHtoDAsync_v2, device, host, bytes, NULL);
    else
        MUST(cuMemcpyDtoHAsync_v2, host, device, bytes, NULL);
    MUST(cuStreamSynchronize, NULL);
    return now_us() - begin;
}

/* Writes a pattern, which depends on the round, to host memory. */
static void write_pattern(size_t bytes, unsigned round)
{
    for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
        ((uint64_t *)(void *)host)[i] = (i + round) * UINT64_C(0x9e3779b97f4a7c15);
}

static bool has_pattern(size_t bytes, unsigned round)
{
    for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
        if (((uint64_t *)(void *)host)[i] != (i + round) * UINT64_C(0x9e3779b97f4a7c15))
            return false;
    return true;
}

static void check(size_t bytes)
{
    static unsigned round;

    write_pattern(bytes, ++round);
    (void)copy(true, bytes);
    memset(host, 0xee, bytes);
    (void)copy(false, bytes);
    must(has_pattern(bytes, round), "comparing the bytes of a copy");
}

static unsigned repeats_of(size_t bytes, unsigned rest_ms)
{
    return bytes >= 1024 * MIB ? 3 : bytes >= 256 * MIB ? 5 : rest_ms >= 100 ? 3 : rest_ms >= 10 ? 9 : REPEATS_MAX;
}

static void measure_copies(const char *load, const unsigned *rests, unsigned rest_count)
{
    for (int out = 0; out < 2; out++)
        for (unsigned r = 0; r < rest_count; r++)
            for (size_t bytes = MIB; bytes <= most_bytes; bytes *= bytes < 64 * MIB ? 2 : 4) {
                unsigned repeats = repeats_of(bytes, rests[r]);
                double times[REPEATS_MAX];
                char name[80];

                if (rests[r] >= 10 && bytes > 64 * MIB)
                    continue;
                for (unsigned i = 0; i < repeats; i++) {
                    rest(rests[r]);
                    if (team.count)
                        team_fills(bytes);
                    times[i] = copy(!out, bytes);
                }
                snprintf(name, sizeof name, "%s,%s,rest-%u-ms,%zu-MiB", load, out ? "out" : "in", rests[r],
                         bytes / MIB);
                print(name, times, repeats);
            }
    for (size_t bytes = MIB; bytes <= most_bytes; bytes *= 4)
        check(bytes);
}

static void measure_batch(bool in, size_t count, size_t bytes)
{
    static CUdeviceptr dst[COPIES_MAX], src[COPIES_MAX];
    static size_t sizes[COPIES_MAX];
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    unsigned char *other = malloc(count * bytes);
    double times[9];
    size_t first = 0;
    char name[80];

    if (!find_cuMemcpyBatchAsync_v2 || count * bytes > most_bytes) {
        free(other);
        return;
    }
    must(other, "allocating memory");
    write_pattern(count * bytes, (unsigned)count);
    if (!in)
        (void)copy(true, count * bytes);
    for (size_t i = 0; i < count; i++) {
        dst[i] = in ? device + i * bytes : (CUdeviceptr)(uintptr_t)(other + i * bytes);
        src[i] = in ? (CUdeviceptr)(uintptr_t)(host + i * bytes) : device + i * bytes;
        sizes[i] = bytes;
    }
    for (unsigned i = 0; i < 9; i++) {
        double begin = now_us();

        MUST(cuMemcpyBatchAsync_v2, dst, src, sizes, count, &attributes, &first, 1, stream);
        MUST(cuStreamSynchronize, stream);
        times[i] = now_us() - begin;
    }
    if (in)
        (void)copy(false, count * bytes);
    else
        memcpy(host, other, count * bytes);
    must(has_pattern(count * bytes, (unsigned)count), "comparing the bytes of a batch");
    free(other);
    snprintf(name, sizeof name, "batch,%s,%zu-of-%zu-KiB", in ? "in" : "out", count, bytes / 1024);
    print(name, times, 9);
}

static void measure_batches(void)
{
    static const struct {
        size_t count, bytes;
    } batches[] = {{1024, 4096}, {4096, 4096}, {256, 65536}, {1024, 65536}, {64, MIB}, {4, 16 * MIB}};

    for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
        measure_batch(true, batches[i].count, batches[i].bytes);
        measure_batch(false, batches[i].count, batches[i].bytes);
    }
}

static void measure_pinned(void)
{
    for (size_t bytes = 4 * MIB; bytes <= most_bytes; bytes *= 4) {
        double allocs[5], frees[5];
        char name[80];

        for (unsigned i = 0; i < 5; i++) {
            void *memory;
            double begin = now_us();

            MUST(cuMemHostAlloc, &memory, bytes, 0);
            allocs[i] = now_us() - begin;
            begin = now_us();
            MUST(cuMemFreeHost, memory);
            frees[i] = now_us() - begin;
        }
        snprintf(name, sizeof name, "pinned,alloc,%zu-MiB", bytes / MIB);
        print(name, allocs, 5);
        snprintf(name, sizeof name, "pinned,free,%zu-MiB", bytes / MIB);
        print(name, frees, 5);
    }
}

/* The time of a call that does nothing, which leat run passes on. */
static void measure_empty_call(void)
{
    double times[20];

    for (unsigned i = 0; i < 20; i++) {
        double begin = now_us();

        for (unsigned n = 0; n < 2000; n++)
            (void)CALL(cuMemcpyHtoD_v2)(device, host, 0);
        times[i] = (now_us() - begin) / 2000;
    }
    qsort(times, 20, sizeof times[0], compare);
    printf("%-36s %10.4f %10.4f\n", "call-of-0-bytes", times[10], times[19]);
}

int main(int count, char **arguments)
{
    static const unsigned calm_rests[] = {0, 1, 10, 100}, busy_rests[] = {0, 10};
    unsigned processors;
    CUcontext context;
    cpu_set_t set;

    if (count > 1)
        most_bytes = (size_t)strtoul(arguments[1], NULL, 10) * MIB;
    must(most_bytes >= 16 * MIB && count <= 2, "reading the argument, which is 16 or more,");
    load();
    MUST(cuInit, 0);
    MUST(cuDevicePrimaryCtxRetain, &context, 0);
    MUST(cuCtxSetCurrent, context);
    MUST(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    MUST(cuMemAlloc_v2, &device, most_bytes);
    host = malloc(most_bytes);
    must(host, "allocating memory");
    memset(host, 1, most_bytes);
    for (unsigned i = 0; i < 3; i++)
        (void)copy(true, 16 * MIB); /* the first copies make threads and rings */
    measure_empty_call();
    measure_copies("calm", calm_rests, 4);
    must(!sched_getaffinity(0, sizeof set, &set), "counting processors");
    processors = (unsigned)CPU_COUNT(&set);
    for (unsigned part = 2; part >= 1; part--) {
        team_begins(processors / part);
        measure_copies(part == 2 ? "half-spin" : "spin", busy_rests, 2);
        team_ends();
    }
    measure_batches();
    measure_pinned();
    return 0;
}
