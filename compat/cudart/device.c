/* device.c - devices of the CUDA runtime. */
#include "engine/engine.h"

int cudaGetDeviceCount(int *count);
int cudaGetDeviceCount(int *count)
{
    return leatc_note(leatc_device_count(count));
}
