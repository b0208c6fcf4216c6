/*
 * compat_cost.c - measures how much longer a call of the CUDA compatibility library takes than leat's own call.
 *
 *     make compat-cost
 *
 * The two calls of each pair take turns, in 41 samples of 200 calls; the program waits for the streams after each
 * sample and prints the medians. Run it on the CPU device, where no vendor's driver adds to the times. At the end
 * it compares the bytes of the copies.
 */
#include <leat/leat.h>

#include <cuda_runtime.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAMPLES 41
#define CALLS 200
#define BYTES 4096

static struct {
    leat_device *device;
    leat_stream *stream;
    leat_event *event;
    void *to, *from;
} ours;

static struct {
    cudaStream_t stream;
    cudaEvent_t event;
    void *to, *from;
} theirs;

/* Ends the program if a call fails. */
static void must(int failed, const char *call)
{
    if (!failed)
        return;
    fprintf(stderr, "compat_cost: %s failed: %s; %s\n", call, leat_last_error(),
            cudaGetErrorString(cudaGetLastError()));
    exit(1);
}

#define MUST(call) must((call) != 0, #call)

/* ---- the pairs ---- */

static void query_stream(void)
{
    (void)leat_stream_query(ours.stream);
}

static void cuda_query_stream(void)
{
    (void)cudaStreamQuery(theirs.stream);
}

static void query_event(void)
{
    (void)leat_event_query(ours.event);
}

static void cuda_query_event(void)
{
    (void)cudaEventQuery(theirs.event);
}

static void record(void)
{
    MUST(leat_event_record(ours.stream, ours.event));
}

static void cuda_record(void)
{
    MUST(cudaEventRecord(theirs.event, theirs.stream));
}

static void wait_for_event(void)
{
    MUST(leat_stream_wait(ours.stream, ours.event));
}

static void cuda_wait_for_event(void)
{
    MUST(cudaStreamWaitEvent(theirs.stream, theirs.event, 0));
}

static void fill(void)
{
    MUST(leat_fill(ours.stream, ours.from, 0x5a, BYTES));
}

static void cuda_fill(void)
{
    MUST(cudaMemsetAsync(theirs.from, 0x5a, BYTES, theirs.stream));
}

static void copy(void)
{
    MUST(leat_copy(ours.stream, ours.to, ours.from, BYTES));
}

static void cuda_copy(void)
{
    MUST(cudaMemcpyAsync(theirs.to, theirs.from, BYTES, cudaMemcpyDeviceToDevice, theirs.stream));
}

static void cuda_copy_here(void)
{
    MUST(cudaMemcpy(theirs.to, theirs.from, BYTES, cudaMemcpyDeviceToDevice));
}

static void allocate(void)
{
    void *ptr;

    MUST(leat_alloc(ours.stream, BYTES, &ptr));
    MUST(leat_free(ours.stream, ptr));
}

static void cuda_allocate(void)
{
    void *ptr;

    MUST(cudaMallocAsync(&ptr, BYTES, theirs.stream));
    MUST(cudaFreeAsync(ptr, theirs.stream));
}

static void allocate_at_once(void)
{
    void *ptr;

    MUST(leat_memory_alloc(ours.device, LEAT_KIND_DEVICE, BYTES, &ptr));
    MUST(leat_memory_free(ptr));
}

static void cuda_allocate_at_once(void)
{
    void *ptr;

    MUST(cudaMalloc(&ptr, BYTES));
    MUST(cudaFree(ptr));
}

static const struct {
    const char *name;
    void (*ours)(void), (*theirs)(void);
    unsigned calls; /* calls that each of the two functions makes */
} pairs[] = {
    {"cudaStreamQuery", query_stream, cuda_query_stream, 1},
    {"cudaEventQuery", query_event, cuda_query_event, 1},
    {"cudaEventRecord", record, cuda_record, 1},
    {"cudaStreamWaitEvent", wait_for_event, cuda_wait_for_event, 1},
    {"cudaMemsetAsync, 4 KiB", fill, cuda_fill, 1},
    {"cudaMemcpyAsync, 4 KiB on the device", copy, cuda_copy, 1},
    {"cudaMemcpy, 4 KiB on the device", copy, cuda_copy_here, 1},
    {"cudaMallocAsync, cudaFreeAsync", allocate, cuda_allocate, 2},
    {"cudaMalloc, cudaFree", allocate_at_once, cuda_allocate_at_once, 2},
};

/* ---- measuring ---- */

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double sample(void (*turn)(void))
{
    double start = now_ns(), took;

    for (int i = 0; i < CALLS; i++)
        turn();
    took = now_ns() - start;
    MUST(leat_stream_synchronize(ours.stream));
    MUST(cudaStreamSynchronize(theirs.stream));
    MUST(cudaStreamSynchronize(NULL));
    return took / CALLS;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *samples)
{
    qsort(samples, SAMPLES, sizeof *samples, compare);
    return samples[SAMPLES / 2];
}

static void check_bytes(void)
{
    unsigned char got[2][BYTES], wanted[BYTES];

    memset(wanted, 0x5a, BYTES);
    MUST(leat_copy_sync(ours.stream, got[0], ours.to, BYTES));
    MUST(cudaMemcpy(got[1], theirs.to, BYTES, cudaMemcpyDeviceToHost));
    must(memcmp(got[0], wanted, BYTES) != 0 || memcmp(got[1], wanted, BYTES) != 0, "comparing the copies' bytes");
}

int main(void)
{
    setenv("LEAT_DEVICE", "cpu:0", 1);
    MUST(leat_device_open("cpu:0", &ours.device));
    MUST(leat_stream_create(ours.device, &ours.stream));
    MUST(leat_event_create(ours.device, &ours.event));
    MUST(leat_alloc(ours.stream, BYTES, &ours.to));
    MUST(leat_alloc(ours.stream, BYTES, &ours.from));
    MUST(cudaStreamCreateWithFlags(&theirs.stream, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&theirs.event, cudaEventDisableTiming));
    MUST(cudaMalloc(&theirs.to, BYTES));
    MUST(cudaMalloc(&theirs.from, BYTES));

    printf("%-38s %10s %10s %18s\n", "median ns", "leat", "by name", "more, for each call");
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
        double leat[SAMPLES], name[SAMPLES], leat_ns, name_ns;

        for (int s = 0; s < SAMPLES; s++) {
            leat[s] = sample(pairs[p].ours);
            name[s] = sample(pairs[p].theirs);
        }
        leat_ns = median(leat);
        name_ns = median(name);
        printf("%-38s %10.1f %10.1f %18.1f\n", pairs[p].name, leat_ns, name_ns,
               (name_ns - leat_ns) / pairs[p].calls);
    }
    check_bytes();
    MUST(cudaDeviceReset());
    MUST(leat_free(ours.stream, ours.to));
    MUST(leat_free(ours.stream, ours.from));
    MUST(leat_event_destroy(ours.event));
    MUST(leat_stream_destroy(ours.stream));
    MUST(leat_device_close(ours.device));
    return 0;
}
