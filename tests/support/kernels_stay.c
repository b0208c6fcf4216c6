/*
 * kernels_stay.c - a kernel for the CPU device in a shared object that is linked with -z nodelete: dlclose() does
 * not unload it.
 */
#include <leat/device_code.h>

LEAT_KERNEL(user_stay, uint32_t *, out)
{
    *out = 1;
}
