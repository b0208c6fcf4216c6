/*
 * round_trip.c - computes the squares of 1 to 10 on a device. It shows all steps of a round trip, and how to
 * handle their failures.
 *
 *     cc round_trip.c -o round_trip $(pkg-config --cflags --libs leat)
 *     ./round_trip             on the best device: a GPU, otherwise the CPU device
 *     ./round_trip cpu:0       on this device
 *
 * A GPU has its own memory. The processor (the host) cannot read it, and the GPU's kernels cannot access memory
 * from malloc, so each job has the same five steps: allocate on the device, copy in, compute there, copy back,
 * free.
 */
#include <leat/leat.h>

#include <stdio.h>
#include <stdlib.h>

#define COUNT 10

/* Prints the message of the last failed call and returns 1, so that a caller can write "return failed(...)". Every
 * call that can fail returns a status; leat_last_error() returns the message, which says what was asked, what was
 * wrong, and what to do. */
static int failed(const char *step)
{
    fprintf(stderr, "round_trip: cannot %s: %s\n", step, leat_last_error());
    return 1;
}

/* Finds the kernel that squares numbers, which is part of leat, and launches it in the stream. */
static int square(leat_device *device, leat_stream *stream, uint32_t *device_numbers)
{
    leat_module *module;
    leat_kernel *kernel;
    uint64_t count = COUNT;
    void *args[] = {&device_numbers, &count}; /* a pointer to each argument, in the kernel's order */

    if (leat_module_builtin(device, &module) != LEAT_OK)
        return failed("load the built-in kernels");
    if (leat_kernel_get(module, "leat_square_u32", &kernel) != LEAT_OK)
        return failed("find the kernel");

    /* Launch one block of 32 threads. leat's kernels work with any number of threads; threads without an element
     * do nothing. */
    if (leat_launch(stream, kernel, leat_dim(1, 1, 1), leat_dim(32, 1, 1), 0, args, 2) != LEAT_OK)
        return failed("launch the kernel");
    return 0;
}

/* Sends numbers to the device, squares them there and brings them back. */
static int round_trip(leat_device *device, uint32_t *numbers)
{
    size_t bytes = COUNT * sizeof *numbers;
    leat_stream *stream;
    void *device_numbers;

    /* A stream is a queue of work for the device, which runs it in order. */
    if (leat_stream_create(device, &stream) != LEAT_OK)
        return failed("create a stream");
    if (leat_alloc(stream, bytes, &device_numbers) != LEAT_OK)
        return failed("allocate on the device");

    /* The two addresses tell leat that this copy goes from the host to the device. */
    if (leat_copy(stream, device_numbers, numbers, bytes) != LEAT_OK)
        return failed("copy to the device");
    if (square(device, stream, device_numbers))
        return 1;
    if (leat_copy(stream, numbers, device_numbers, bytes) != LEAT_OK)
        return failed("copy back");
    if (leat_free(stream, device_numbers) != LEAT_OK)
        return failed("free the device memory");

    /* The device works asynchronously. Here the host waits for it, and learns whether something failed. */
    if (leat_stream_synchronize(stream) != LEAT_OK)
        return failed("finish the work");
    return 0;
}

static int check(const uint32_t *squares)
{
    for (uint32_t i = 0; i < COUNT; i++)
        if (squares[i] != (i + 1) * (i + 1)) {
            fprintf(stderr, "round_trip: the square of %u came back as %u\n", i + 1, squares[i]);
            return 1;
        }
    return 0;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL; /* NULL: the best device of this machine */
    uint32_t *numbers = malloc(COUNT * sizeof *numbers);
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    leat_device *device;
    int wrong;

    if (!numbers) {
        fprintf(stderr, "round_trip: no host memory\n");
        return 1;
    }
    for (uint32_t i = 0; i < COUNT; i++)
        numbers[i] = i + 1;

    if (leat_device_open(name, &device) != LEAT_OK) {
        free(numbers);
        return failed("open the device");
    }
    wrong = round_trip(device, numbers) || check(numbers);
    if (!wrong && leat_device_get_info(device, &info) != LEAT_OK)
        wrong = failed("ask what the device is");
    if (!wrong) {
        printf("%s (%s):", info.name, info.model);
        for (int i = 0; i < COUNT; i++)
            printf(" %u", numbers[i]);
        printf("\n");
    }

    /* Closing the device also destroys its streams and frees its memory, including what a failed step left
     * behind. */
    if (leat_device_close(device) != LEAT_OK)
        wrong = failed("close the device");
    free(numbers);
    return wrong;
}
