/* attribute.c - returns the attributes of devices, which CUDA's attribute numbers select. */
#include "engine/inside.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The highest attribute number of the CUDA version that the compatibility libraries implement. */
#define LAST_ATTRIBUTE 147

struct constant {
    int number, value;
};

/* Values of attributes that leat does not know for any device. They are those of NVIDIA's GPUs since compute
 * capability 7.5, because programs size their work by them. Attributes that this file does not list are 0. */
static const struct constant constants[] = {
    {2, 1024},     /* maximum x size of a block */
    {3, 1024},     /* maximum y size of a block */
    {4, 64},       /* maximum z size of a block */
    {5, INT_MAX},  /* maximum x size of a grid */
    {6, 65535},    /* maximum y size of a grid */
    {7, 65535},    /* maximum z size of a grid */
    {9, 65536},    /* bytes of constant memory */
    {10, 32},      /* threads of a warp */
    {11, INT_MAX}, /* maximum pitch of a copy, in bytes */
    {12, 65536},   /* maximum registers of a block */
    {14, 512},     /* alignment of textures, in bytes */
    {15, 1},       /* 1: copies can run concurrently with kernels */
    {19, 1},       /* 1: the device can access host memory */
    {30, 512},     /* alignment of surfaces, in bytes */
    {31, 1},       /* 1: kernels can run concurrently */
    {39, 2048},    /* maximum threads of a multiprocessor */
    {41, 1},       /* 1: host and device share one address space */
    {51, 32},      /* alignment of a texture's pitch, in bytes */
    {78, 1},       /* 1: streams have priorities */
    {82, 65536},   /* registers of a multiprocessor */
    {87, 2},       /* ratio of single-precision to double-precision speed */
    {91, 1},       /* 1: the device uses registered memory at the host's address */
    {99, 1},       /* 1: host memory can be registered */
    {106, 32},     /* maximum blocks of a multiprocessor */
    {113, 1},      /* 1: host memory can be registered as read-only */
    {115, 1},      /* 1: pools are supported */
    {126, 1},      /* memory synchronization domains */
};

/* Size limits of textures and surfaces. Devices report 0 for them, because leat has no textures, but
 * leatc_array_limit() applies the values to arrays. */
#define HAS_TEXTURES 0
static const struct constant textures[] = {
    {21, 131072}, {22, 131072}, {23, 65536},     {24, 16384},  {25, 16384},  {26, 16384},   {27, 32768},
    {28, 32768},  {29, 2048},   {42, 32768},     {43, 2048},   {45, 131072}, {46, 65536},   {52, 32768},
    {53, 32768},  {54, 2048},   {55, 32768},     {56, 131072}, {57, 65536},  {58, 16384},   {59, 16384},
    {60, 16384},  {61, 32768},  {62, 2048},      {63, 32768},  {64, 32768},  {65, 2048},    {66, 32768},
    {67, 32768},  {68, 2046},   {69, 268435456}, {70, 131072}, {71, 65000},  {72, 2097120}, {73, 32768},
    {74, 32768},  {77, 32768},
};

/* Returns the size of the L3 cache. If the system does not report that size, returns the size of the L2 cache, or
 * 1 MiB if the size of the L2 cache is unknown too. */
static int cache_bytes(void)
{
    const int levels[] = {_SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE};

    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        long bytes = sysconf(levels[i]);

        if (bytes > 0)
            return bytes < INT_MAX ? (int)bytes : INT_MAX;
    }
    return 1 << 20;
}

/* Sets *value for attributes whose value on the CPU device is special, because its kernels run on the host's
 * processors. Returns false for other attributes. */
static bool on_cpu(int number, int *value)
{
    switch (number) {
    case 13:
        *value = 1000000; /* kHz: the rate at which clock64() counts, once per nanosecond */
        break;
    case 36:
        *value = 1600000; /* kHz: a nominal memory clock; with the bus width of 64 bits below, it describes one
                           * channel of DDR4-3200 */
        break;
    case 37:
        *value = 64;
        break;
    case 38:
        *value = cache_bytes();
        break;
    case 75:
    case 76:
        *value = 9; /* The CPU device has the features of compute capability 9.0, but reports 9.9. No GPU has 9.9,
                     * so programs do not mistake the device for a GPU. */
        break;
    case 86:
    case 89:
    case 95:
    case 101:
        *value = 1; /* the device supports native atomics on host memory, concurrent managed access, cooperative
                     * launches, and host access to managed memory */
        break;
    case LEATC_ATTRIBUTE_UNIT_BLOCKS:
        *value = 16; /* the limit for cooperative kernels, which LEAT_CPU_KERNEL_TOGETHER marks */
        break;
    default:
        return false;
    }
    return true;
}

static bool on_gpu(const leat_device_info *info, int number, int *value)
{
    unsigned capability = 0;

    switch (number) {
    case 36:
        *value = (int)info->memory_clock_khz;
        break;
    case 37:
        *value = (int)info->memory_bus_bits;
        break;
    case 75:
    case 76:
        (void)sscanf(info->architecture, "sm_%u", &capability);
        *value = (int)(number == 75 ? capability / 10 : capability % 10);
        break;
    case 89:
        *value = info->managed_memory;
        break;
    default:
        return false;
    }
    return true;
}

static bool from_info(const leat_device_info *info, int ordinal, int number, int *value)
{
    int address[3] = {0, 0, 0};

    switch (number) {
    case 1:
        *value = (int)info->max_block_threads;
        break;
    case 8:
        *value = (int)(info->max_shared_bytes < 49152 ? info->max_shared_bytes : 49152);
        break;
    case 16:
        *value = (int)info->compute_units;
        break;
    case 33:
    case 34:
    case 50:
        (void)leatc_device_address(ordinal, &address[0], &address[1], &address[2]);
        *value = address[number == 50 ? 0 : number - 32];
        break;
    case 40:
        *value = (int)info->copy_engines;
        break;
    case 81:
    case 97:
        *value = (int)info->max_shared_bytes;
        break;
    case 83:
        *value = info->managed_memory;
        break;
    case 85:
        *value = ordinal;
        break;
    case 102:
    case 103:
    case 119:
        *value = info->virtual_memory;
        break; /* the value of 119 is a bit set of handle types, in which bit 0 means file descriptors */
    case 131:
    case 134:
        *value = info->numa_node;
        break;
    default:
        return false;
    }
    return true;
}

static int constant_of(const struct constant *list, size_t count, int number)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].number == number)
            return list[i].value;
    return 0;
}

int leatc_array_limit(int number)
{
    return constant_of(textures, sizeof textures / sizeof textures[0], number);
}

int leatc_device_attribute(int ordinal, int number, int *value)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    LEATC_TRY(leatc_device_describe(ordinal, &info));
    if (!value || number < 1 || number > LAST_ATTRIBUTE)
        return LEATC_INVALID_VALUE;
    if (from_info(&info, ordinal, number, value) ||
        (strcmp(info.driver, "cpu") ? on_gpu(&info, number, value) : on_cpu(number, value)))
        return LEATC_OK;
    *value = constant_of(constants, sizeof constants / sizeof constants[0], number);
    if (HAS_TEXTURES && !*value)
        *value = leatc_array_limit(number);
    return LEATC_OK;
}
