/*
 * own_kernel_device.c - the kernel of own_kernel.c: this file runs on the device.
 *
 * A kernel is a function that thousands of threads of the device run at the same time. Each thread must compute
 * which part of the data it processes; LEAT_FOR does that. The loop below looks like one over all elements, but
 * each thread executes only its share of the iterations.
 *
 * The same file is compiled for every kind of device; README.md in this folder has the commands.
 */
#include <leat/device_code.h>

/* y = a * x + y: "axpy", a common first kernel. LEAT_KERNEL takes the name of the kernel, then the type and the
 * name of each parameter. */
LEAT_KERNEL(axpy, float *, y, const float *, x, uint64_t, count, float, a)
{
    LEAT_FOR (i, count)
        y[i] = a * x[i] + y[i];
}
