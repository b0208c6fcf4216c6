/*
 * pinned_async.c - copies in, runs a kernel and copies back on one stream, while the host does something else.
 *
 *     cc pinned_async.c -o pinned_async $(pkg-config --cflags --libs leat)
 *     ./pinned_async [device]
 *
 * Memory from malloc is pageable: the system may move it or swap it out, so a GPU cannot read it directly, and
 * leat's threads copy the bytes through pinned memory, which stays at its place. A program that keeps its data
 * in pinned memory saves this step: the device reads and writes the data directly, and no processor is busy with
 * the copy.
 */
#include <leat/leat.h>

#include <stdio.h>

#define COUNT ((size_t)4 << 20) /* 4 Mi numbers, 16 MiB */
#define BYTES (COUNT * sizeof(uint32_t))
#define ADDEND 42u

static int failed(const char *step)
{
    fprintf(stderr, "pinned_async: cannot %s: %s\n", step, leat_last_error());
    return 1;
}

/* Submits all three steps to the stream. None of the calls waits for the device. */
static int enqueue(leat_device *device, leat_stream *stream, uint32_t *pinned, void *device_numbers)
{
    uint64_t count = COUNT;
    uint32_t addend = ADDEND;
    void *args[] = {&device_numbers, &count, &addend};
    leat_module *module;
    leat_kernel *kernel;

    if (leat_module_builtin(device, &module) != LEAT_OK)
        return failed("load the built-in kernels");
    if (leat_kernel_get(module, "leat_add_u32", &kernel) != LEAT_OK)
        return failed("find the kernel");

    if (leat_copy(stream, device_numbers, pinned, BYTES) != LEAT_OK)
        return failed("copy to the device");
    if (leat_launch(stream, kernel, leat_dim(1024, 1, 1), leat_dim(256, 1, 1), 0, args, 3) != LEAT_OK)
        return failed("launch the kernel");
    if (leat_copy(stream, pinned, device_numbers, BYTES) != LEAT_OK)
        return failed("copy back");
    return 0;
}

/* Does other work on the host until the stream is idle, and counts its steps. The host must not use the numbers in
 * pinned memory meanwhile, because the device reads and writes them. */
static int work_meanwhile(leat_stream *stream, unsigned long *steps)
{
    leat_status status;

    *steps = 0;
    while ((status = leat_stream_query(stream)) == LEAT_NOT_READY)
        ++*steps;
    if (status != LEAT_OK)
        return failed("ask how far the stream is");
    return 0;
}

static int check(const uint32_t *numbers)
{
    for (size_t i = 0; i < COUNT; i++)
        if (numbers[i] != (uint32_t)i + ADDEND) {
            fprintf(stderr, "pinned_async: number %zu is %u, not %u\n", i, numbers[i], (uint32_t)i + ADDEND);
            return 1;
        }
    return 0;
}

static int run(leat_device *device)
{
    leat_stream *stream;
    void *memory, *device_numbers;
    uint32_t *pinned;
    unsigned long steps;

    if (leat_stream_create(device, &stream) != LEAT_OK)
        return failed("create a stream");
    /* Pinning takes time, so a real program pins memory once and reuses it. */
    if (leat_memory_alloc(device, LEAT_KIND_PINNED, BYTES, &memory) != LEAT_OK)
        return failed("allocate pinned memory");
    if (leat_alloc(stream, BYTES, &device_numbers) != LEAT_OK)
        return failed("allocate on the device");

    pinned = memory;
    for (size_t i = 0; i < COUNT; i++)
        pinned[i] = (uint32_t)i;

    if (enqueue(device, stream, pinned, device_numbers) || work_meanwhile(stream, &steps))
        return 1;
    /* After this call the results are in pinned memory. (In this program work_meanwhile() has already waited.) */
    if (leat_stream_synchronize(stream) != LEAT_OK)
        return failed("finish the work");
    if (check(pinned))
        return 1;

    printf("%zu numbers went there, had %u added and came back; the host looked %lu times meanwhile\n", COUNT,
           ADDEND, steps);
    if (leat_free(stream, device_numbers) != LEAT_OK)
        return failed("free the device memory");
    if (leat_memory_free(pinned) != LEAT_OK)
        return failed("free the pinned memory");
    return 0;
}

int main(int argc, char **argv)
{
    leat_device *device;
    int wrong;

    if (leat_device_open(argc > 1 ? argv[1] : NULL, &device) != LEAT_OK)
        return failed("open the device");
    wrong = run(device);
    /* Closing destroys the stream, and frees what a failed step left behind. */
    if (leat_device_close(device) != LEAT_OK)
        wrong = failed("close the device");
    return wrong;
}
