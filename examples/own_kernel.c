/*
 * own_kernel.c - runs a kernel of your own, loaded from a file.
 *
 *     cc own_kernel.c -o own_kernel $(pkg-config --cflags --libs leat)
 *     cc -O3 -fPIC -shared $(pkg-config --cflags leat) own_kernel_device.c -o own_kernel_device.so
 *     ./own_kernel [device [module]]
 *
 * The kernel is in own_kernel_device.c. It must be compiled for the device that runs it: to PTX for an NVIDIA GPU,
 * to a shared object for the CPU device. Without the second argument this program loads own_kernel_device.ptx or
 * own_kernel_device.so from the current folder.
 */
#include <leat/leat.h>

#include <stdio.h>
#include <string.h>

#define COUNT 100000
#define FACTOR 3.0f

static int failed(const char *step)
{
    fprintf(stderr, "own_kernel: cannot %s: %s\n", step, leat_last_error());
    return 1;
}

/* Chooses the module file for this kind of device. */
static int pick_module(leat_device *device, const char **path)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    if (leat_device_get_info(device, &info) != LEAT_OK)
        return failed("ask what the device is");
    *path = strcmp(info.driver, "cuda") == 0 ? "own_kernel_device.ptx" : "own_kernel_device.so";
    return 0;
}

/* Computes y = FACTOR * x + y on the device. The arguments must have the types of the kernel's parameters y, x,
 * count and a: leat copies as many bytes from each address as the parameter has. */
static int axpy(leat_stream *stream, leat_kernel *kernel, float *y, const float *x)
{
    static const size_t bytes = COUNT * sizeof *y;
    void *device_y, *device_x;
    uint64_t count = COUNT;
    float factor = FACTOR;
    void *args[] = {&device_y, &device_x, &count, &factor};

    if (leat_alloc(stream, bytes, &device_y) != LEAT_OK || leat_alloc(stream, bytes, &device_x) != LEAT_OK)
        return failed("allocate on the device");
    if (leat_copy(stream, device_y, y, bytes) != LEAT_OK || leat_copy(stream, device_x, x, bytes) != LEAT_OK)
        return failed("copy to the device");
    if (leat_launch(stream, kernel, leat_dim(64, 1, 1), leat_dim(256, 1, 1), 0, args, 4) != LEAT_OK)
        return failed("launch the kernel");
    if (leat_copy(stream, y, device_y, bytes) != LEAT_OK)
        return failed("copy back");
    if (leat_free(stream, device_y) != LEAT_OK || leat_free(stream, device_x) != LEAT_OK)
        return failed("free the device memory");
    if (leat_stream_synchronize(stream) != LEAT_OK)
        return failed("finish the work");
    return 0;
}

static int run(leat_device *device, const char *path)
{
    static float x[COUNT], y[COUNT];
    leat_module *module;
    leat_kernel *kernel;
    leat_stream *stream;

    if (!path && pick_module(device, &path))
        return 1;
    if (leat_module_load_file(device, path, &module) != LEAT_OK)
        return failed("load the module");
    if (leat_kernel_get(module, "axpy", &kernel) != LEAT_OK)
        return failed("find the kernel");
    if (leat_stream_create(device, &stream) != LEAT_OK)
        return failed("create a stream");

    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)i;
        y[i] = 1;
    }
    if (axpy(stream, kernel, y, x))
        return 1;
    /* Compare for equality: all numbers are integers below 2^24, which float represents exactly. */
    for (int i = 0; i < COUNT; i++)
        if (y[i] != FACTOR * (float)i + 1) {
            fprintf(stderr, "own_kernel: element %d is %g, not %g\n", i, (double)y[i],
                    (double)(FACTOR * (float)i + 1));
            return 1;
        }
    printf("axpy from %s: %d elements are right\n", path, COUNT);

    /* The work of the module's kernel is complete, so the module and its kernel can be unloaded. */
    if (leat_module_unload(module) != LEAT_OK)
        return failed("unload the module");
    return 0;
}

int main(int argc, char **argv)
{
    leat_device *device;
    int wrong;

    if (leat_device_open(argc > 1 ? argv[1] : NULL, &device) != LEAT_OK)
        return failed("open the device");
    wrong = run(device, argc > 2 ? argv[2] : NULL);
    if (leat_device_close(device) != LEAT_OK)
        wrong = failed("close the device");
    return wrong;
}
