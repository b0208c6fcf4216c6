/*
 * two_streams.c - adds two vectors over two streams, and times the kernels with events.
 *
 *     cc two_streams.c -o two_streams $(pkg-config --cflags --libs leat)
 *     ./two_streams [device]
 *
 * A GPU can copy in, compute and copy out at the same time, but a stream does one thing after the other. So the
 * program divides the work into two halves with a stream each: while a kernel adds the first half, the second
 * stream copies the second half in. The work of different streams has no order. If one stream must wait for
 * another, it waits for an event.
 */
#include <leat/leat.h>

#include <stdio.h>

#define COUNT ((size_t)8 << 20) /* 8 Mi elements of each vector, 32 MiB */
#define BYTES (COUNT * sizeof(float))
#define HALF (COUNT / 2)
#define HALF_BYTES (HALF * sizeof(float))

/* One half of the work: its stream, and the events before and after its kernel. */
struct half {
    leat_stream *stream;
    leat_event *kernel_start, *kernel_end;
};

struct work {
    leat_device *device;
    leat_kernel *add;
    struct half half[2];
    leat_event *start, *end, *half_done; /* start and end of the whole work; the end of the second half */
    float *a, *b, *sum;                  /* pinned host memory */
    float *device_a, *device_b, *device_sum;
};

static int failed(const char *step)
{
    fprintf(stderr, "two_streams: cannot %s: %s\n", step, leat_last_error());
    return 1;
}

static int allocate(leat_device *device, leat_kind kind, float **vector)
{
    void *memory;

    if (leat_memory_alloc(device, kind, BYTES, &memory) != LEAT_OK)
        return failed(kind == LEAT_KIND_PINNED ? "allocate pinned memory" : "allocate on the device");
    *vector = memory;
    return 0;
}

static int prepare(struct work *w)
{
    leat_module *module;

    if (leat_module_builtin(w->device, &module) != LEAT_OK)
        return failed("load the built-in kernels");
    if (leat_kernel_get(module, "leat_vector_add_f32", &w->add) != LEAT_OK)
        return failed("find the kernel");
    for (int i = 0; i < 2; i++)
        if (leat_stream_create(w->device, &w->half[i].stream) != LEAT_OK ||
            leat_event_create(w->device, &w->half[i].kernel_start) != LEAT_OK ||
            leat_event_create(w->device, &w->half[i].kernel_end) != LEAT_OK)
            return failed("create a stream and its events");
    if (leat_event_create(w->device, &w->start) != LEAT_OK || leat_event_create(w->device, &w->end) != LEAT_OK ||
        leat_event_create(w->device, &w->half_done) != LEAT_OK)
        return failed("create the events");

    /* Allocate pinned memory, because the device can copy it while the host does other work; see
     * pinned_async.c. */
    if (allocate(w->device, LEAT_KIND_PINNED, &w->a) || allocate(w->device, LEAT_KIND_PINNED, &w->b) ||
        allocate(w->device, LEAT_KIND_PINNED, &w->sum) || allocate(w->device, LEAT_KIND_DEVICE, &w->device_a) ||
        allocate(w->device, LEAT_KIND_DEVICE, &w->device_b) ||
        allocate(w->device, LEAT_KIND_DEVICE, &w->device_sum))
        return 1;

    /* Small integers, which float adds exactly, so the check can compare for equality. */
    for (size_t i = 0; i < COUNT; i++) {
        w->a[i] = (float)(i % 1000);
        w->b[i] = (float)(2 * (i % 777));
        w->sum[i] = -1;
    }
    return 0;
}

/* Submits copy in, add and copy out for the half that starts at element first. Does not wait for the device. */
static int enqueue_half(const struct work *w, const struct half *half, size_t first)
{
    float *sum = w->device_sum + first;
    float *a = w->device_a + first;
    float *b = w->device_b + first;
    uint64_t count = HALF;
    void *args[] = {&sum, &a, &b, &count};

    if (leat_copy(half->stream, a, w->a + first, HALF_BYTES) != LEAT_OK ||
        leat_copy(half->stream, b, w->b + first, HALF_BYTES) != LEAT_OK)
        return failed("copy to the device");

    /* An event is a mark in a stream. The device notes the time when it reaches the mark. */
    if (leat_event_record(half->stream, half->kernel_start) != LEAT_OK)
        return failed("mark the start");
    if (leat_launch(half->stream, w->add, leat_dim(1024, 1, 1), leat_dim(256, 1, 1), 0, args, 4) != LEAT_OK)
        return failed("launch the kernel");
    if (leat_event_record(half->stream, half->kernel_end) != LEAT_OK)
        return failed("mark the end");

    if (leat_copy(half->stream, w->sum + first, sum, HALF_BYTES) != LEAT_OK)
        return failed("copy back");
    return 0;
}

static int enqueue(const struct work *w)
{
    leat_stream *first = w->half[0].stream, *second = w->half[1].stream;

    /* The second stream starts after this event of the first, so that one time covers both streams. */
    if (leat_event_record(first, w->start) != LEAT_OK || leat_stream_wait(second, w->start) != LEAT_OK)
        return failed("mark the start");
    if (enqueue_half(w, &w->half[0], 0) || enqueue_half(w, &w->half[1], HALF))
        return 1;
    /* The first stream waits for the second, so that waiting for the first is enough to wait for both. The host
     * does not wait here. */
    if (leat_event_record(second, w->half_done) != LEAT_OK || leat_stream_wait(first, w->half_done) != LEAT_OK ||
        leat_event_record(first, w->end) != LEAT_OK)
        return failed("mark the end");
    return 0;
}

static int check(const struct work *w)
{
    for (size_t i = 0; i < COUNT; i++)
        if (w->sum[i] != w->a[i] + w->b[i]) {
            fprintf(stderr, "two_streams: sum %zu is %g, not %g\n", i, (double)w->sum[i],
                    (double)(w->a[i] + w->b[i]));
            return 1;
        }
    return 0;
}

/* Prints times and rates. For each sum the kernel reads two elements and writes one. The times are those of the
 * first run in a new process; "leat bench" measures more accurately. */
static int report(const struct work *w)
{
    double all, ms;

    for (int i = 0; i < 2; i++) {
        if (leat_event_elapsed(w->half[i].kernel_start, w->half[i].kernel_end, &ms) != LEAT_OK)
            return failed("read the time");
        printf("half %d: the kernel took %.3f ms in this run", i + 1, ms);
        if (ms > 0)
            printf(", %.1f GB/s of device memory", 3.0 * HALF_BYTES / (ms * 1e6));
        printf("\n");
    }
    if (leat_event_elapsed(w->start, w->end, &all) != LEAT_OK)
        return failed("read the time");
    printf("both, with the copies: %.3f ms in this run; all %zu sums are right\n", all, COUNT);
    return 0;
}

static int release(const struct work *w)
{
    void *const memory[] = {w->a, w->b, w->sum, w->device_a, w->device_b, w->device_sum};

    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        if (leat_memory_free(memory[i]) != LEAT_OK)
            return failed("free memory");
    return 0;
}

int main(int argc, char **argv)
{
    struct work w = {0};
    int wrong;

    if (leat_device_open(argc > 1 ? argv[1] : NULL, &w.device) != LEAT_OK)
        return failed("open the device");
    wrong = prepare(&w) || enqueue(&w);
    if (!wrong && leat_stream_synchronize(w.half[0].stream) != LEAT_OK)
        wrong = failed("finish the work");
    wrong = wrong || check(&w) || report(&w) || release(&w);

    /* Closing destroys the streams and events, and frees what a failed step left behind. */
    if (leat_device_close(w.device) != LEAT_OK)
        wrong = failed("close the device");
    return wrong;
}
