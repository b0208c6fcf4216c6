/*
 * memory_ways.c - gives a kernel access to numbers of the host in three ways: by explicit copies; in pinned
 * memory, which the kernel reads and writes in place (zero copy); and in managed memory.
 *
 *     cc memory_ways.c -o memory_ways $(pkg-config --cflags --libs leat)
 *     ./memory_ways [device]
 *
 * The kernel squares the numbers, with the same result in all three ways. Explicit copies are fastest for data
 * that a kernel reads more than once. With pinned memory only the bytes that the kernel accesses cross the link,
 * so it is best if these are few. Managed memory needs the least code and, with prefetch, is nearly as fast as
 * copies. "leat bench memory" measures which way is best on a machine.
 */
#include <leat/leat.h>

#include <stdio.h>
#include <stdlib.h>

#define COUNT ((size_t)1 << 20)
#define BYTES (COUNT * sizeof(uint32_t))

struct work {
    leat_device *device;
    leat_stream *stream;
    leat_kernel *square;
};

static int failed(const char *step)
{
    fprintf(stderr, "memory_ways: cannot %s: %s\n", step, leat_last_error());
    return 1;
}

/* Squares numbers, an address that the kernel can access. All three ways use this function. */
static int square(struct work *w, void *numbers)
{
    uint64_t count = COUNT;
    void *args[] = {&numbers, &count};

    return leat_launch(w->stream, w->square, leat_dim(256, 1, 1), leat_dim(256, 1, 1), 0, args, 2) == LEAT_OK
               ? 0
               : failed("launch the kernel");
}

static void fill(uint32_t *numbers)
{
    for (size_t i = 0; i < COUNT; i++)
        numbers[i] = (uint32_t)i;
}

static int check(const char *way, const uint32_t *numbers)
{
    for (size_t i = 0; i < COUNT; i++)
        if (numbers[i] != (uint32_t)i * (uint32_t)i) {
            fprintf(stderr, "memory_ways: %s: the square of %zu came back as %u\n", way, i, numbers[i]);
            return 1;
        }
    printf("%-9s  the square of %zu is %u\n", way, (size_t)65535, numbers[65535]);
    return 0;
}

/* First way: allocates device memory, copies the numbers there, squares them and copies them back. */
static int explicit_copies(struct work *w)
{
    uint32_t *numbers = malloc(BYTES);
    void *on_device;
    int wrong = 1;

    if (!numbers) {
        fprintf(stderr, "memory_ways: no host memory\n");
        return 1;
    }
    fill(numbers);
    if (leat_alloc(w->stream, BYTES, &on_device) != LEAT_OK) {
        failed("allocate on the device");
    } else if (leat_copy(w->stream, on_device, numbers, BYTES) != LEAT_OK || square(w, on_device) ||
               leat_copy(w->stream, numbers, on_device, BYTES) != LEAT_OK ||
               leat_free(w->stream, on_device) != LEAT_OK) {
        failed("copy, square and copy back");
    } else {
        wrong = 0;
    }
    /* Wait even after a failure: submitted copies may still use the host's memory. */
    if (leat_stream_synchronize(w->stream) != LEAT_OK)
        wrong = failed("finish the work");
    wrong = wrong || check("explicit", numbers);
    free(numbers);
    return wrong;
}

/* Second way: allocates pinned memory, which the device can access. The kernel reads and writes it over the link,
 * by the address that leat_pointer_get_info() returns. No copy is made. */
static int in_place(struct work *w)
{
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    void *numbers;

    if (leat_memory_alloc(w->device, LEAT_KIND_PINNED, BYTES, &numbers) != LEAT_OK)
        return failed("allocate pinned memory");
    fill(numbers);
    if (leat_pointer_get_info(numbers, &info) != LEAT_OK)
        return failed("ask for the device's address of it");
    if (square(w, info.device_pointer))
        return 1;
    if (leat_stream_synchronize(w->stream) != LEAT_OK)
        return failed("finish the work");
    if (check("in place", numbers))
        return 1;
    return leat_memory_free(numbers) == LEAT_OK ? 0 : failed("free pinned memory");
}

/* Third way: allocates managed memory, which has one address for host and device, and moves to the side that uses
 * it. The program works without the two prefetches; they only move the memory earlier. */
static int managed(struct work *w)
{
    void *numbers;

    if (leat_memory_alloc(w->device, LEAT_KIND_MANAGED, BYTES, &numbers) != LEAT_OK)
        return failed("allocate managed memory");
    fill(numbers);
    if (leat_managed_prefetch(w->stream, numbers, BYTES, w->device) != LEAT_OK)
        return failed("prefetch to the device");
    if (square(w, numbers))
        return 1;
    if (leat_managed_prefetch(w->stream, numbers, BYTES, LEAT_HOST) != LEAT_OK)
        return failed("prefetch to the host");
    if (leat_stream_synchronize(w->stream) != LEAT_OK)
        return failed("finish the work");
    if (check("managed", numbers))
        return 1;
    return leat_memory_free(numbers) == LEAT_OK ? 0 : failed("free managed memory");
}

static int run(struct work *w)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    leat_module *module;

    if (leat_device_get_info(w->device, &info) != LEAT_OK)
        return failed("ask what the device is");
    if (leat_module_builtin(w->device, &module) != LEAT_OK ||
        leat_kernel_get(module, "leat_square_u32", &w->square) != LEAT_OK)
        return failed("find the kernel");
    if (leat_stream_create(w->device, &w->stream) != LEAT_OK)
        return failed("create a stream");
    if (explicit_copies(w) || in_place(w))
        return 1;
    if (info.managed_memory)
        return managed(w);
    printf("managed    left out: %s has no managed memory\n", info.name);
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
