/*
 * own_kernel_device.c - the kernel of own_kernel.c: this file runs on the device.
 *
 * A kernel is a function that thousands of threads of the device run at the same time. Each thread must find out
 * which part of the data is its own; LEAT_FOR does that. The loop below reads like one that visits every element,
 * and it does, but all threads together: each takes its share.
 *
 * The same file is compiled for every kind of device; README.md beside it has the commands.
 */
#include <leat/device_code.h>

/* y = a * x + y: "axpy", the kernel that most people write first. LEAT_KERNEL takes the name, the number of
 * parameters, then each parameter's type and name. */
LEAT_KERNEL(axpy, float *, y, const float *, x, uint64_t, count, float, a)
{
    LEAT_FOR (i, count)
        y[i] = a * x[i] + y[i];
}
