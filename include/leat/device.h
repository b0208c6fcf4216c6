/*
 * leat/device.h - opens, closes, lists and describes devices and their drivers.
 *
 * Model. A driver controls the devices of one vendor: "cuda" (NVIDIA, through libcuda.so.1, loaded at run time),
 * "hip" (AMD, through libamdhip64.so, loaded at run time; not yet run on AMD hardware) and "cpu" (the machine
 * itself; always available). A device is one GPU or one CPU device and is named "<driver>:<ordinal>", for example
 * "cuda:0" or "cpu:1". There are two CPU devices unless LEAT_CPU_DEVICES says otherwise; they share the processor
 * but not memory, so a program for several devices runs anywhere.
 *
 * Call order. leat_device_open() first; all other calls take the device or an object made from it.
 * leat_device_close() last. There is no other set-up or tear-down.
 *
 *     leat_device *dev;
 *     if (leat_device_open(NULL, &dev))      // the best there is: a GPU, else "cpu:0"
 *         ...
 *     leat_device_close(dev);
 *
 * Threads. Any thread may make any call at any time, with one exception: no thread may use a handle while another
 * thread destroys it. A call with a destroyed handle returns LEAT_ERROR_HANDLE, but only until a few thousand
 * newer handles were created.
 *
 * Fork. A child process cannot use handles of its parent. It cannot open a device either if the parent had one
 * open (CUDA has the same rule): calls that submit work, wait, allocate or free return NOT_PERMITTED there. exec()
 * is allowed.
 */
#ifndef LEAT_DEVICE_H
#define LEAT_DEVICE_H

#include <leat/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leat_device leat_device;

/*
 * Opens a device. name: "cuda:1", "cpu:0"; "cuda" is short for "cuda:0". NULL selects the device that LEAT_DEVICE
 * names or, without that variable, the first device of the first driver that has one, in the order of LEAT_DRIVERS
 * ("cuda,hip,cpu"). Opening a device that is already open returns the same handle; each open needs its own close.
 *
 * On CUDA this retains the device's primary context, which the CUDA runtime uses too, so both work in one process;
 * leat never changes the calling thread's current context.
 * Errors: INVALID (device NULL, a malformed name, or an environment variable with an invalid value), NO_DRIVER,
 * DRIVER_TOO_OLD, NO_DEVICE (the message lists the devices), DEVICE_MEMORY, HOST_MEMORY, UNSUPPORTED
 * (LEAT_STRICT=1 on a processor without memory protection keys), DRIVER, SYSTEM, NOT_PERMITTED (inside a host
 * function, or in a child process of fork(), see above).
 */
LEAT_NODISCARD LEAT_API leat_status leat_device_open(const char *name, leat_device **device);

/*
 * Closes a device. Call it once for each leat_device_open(). The last close waits for all work of the device, then
 * destroys its streams, events, modules and pools, frees its memory and undoes its registrations. Handles and
 * pointers made from the device are then invalid, so work of another device must no longer use its memory. Wrapped
 * streams, events and memory of the user's own stay alive. With LEAT_LEAKS=1 the call lists on standard error what
 * was still allocated from pools. NULL does nothing.
 * Errors: HANDLE, NOT_PERMITTED (inside a host function); or the asynchronous failure of work that was still
 * outstanding, or that leat_stream_synchronize() would return for a stream of the device. The device is closed
 * anyway.
 */
LEAT_API leat_status leat_device_close(leat_device *device);

/* Waits until all work submitted to the device so far is complete, including work of destroyed streams. On CUDA
 * this is all work of the context, including work submitted by other code of the process.
 * Errors: HANDLE, DEVICE_LOST, DRIVER, NOT_PERMITTED (inside a host function). */
LEAT_NODISCARD LEAT_API leat_status leat_device_synchronize(leat_device *device);

/* Properties of a device. The strings are part of the struct; sizes are in bytes; 0 means unknown or none. */
typedef struct leat_device_info {
    size_t size;                /* sizeof(leat_device_info): leat/base.h */
    char name[16];              /* "cuda:0": the name for leat_device_open() */
    char driver[8];             /* "cuda", "hip" or "cpu" */
    int ordinal;                /* number within its driver */
    char model[96];             /* the vendor's name, for example "NVIDIA H200" */
    char architecture[32];      /* "sm_90", "gfx942", "x86-64" */
    uint64_t memory_bytes;      /* total memory */
    uint32_t compute_units;     /* multiprocessors; on the CPU device, threads */
    uint32_t max_block_threads; /* maximum of threads of a block */
    uint32_t max_shared_bytes;  /* maximum of dynamic shared memory of a block */
    uint32_t memory_clock_khz;  /* 0 if the driver does not report it */
    uint32_t memory_bus_bits;   /* 0 if the driver does not report it */
    char pci_address[20];       /* "0000:1b:00.0"; "": unknown */
    int numa_node;              /* node of the nearest host memory; -1: unknown */
    uint32_t link_gen;          /* PCIe generation in use; 0: unknown */
    uint32_t link_width;        /* PCIe lanes in use; 0: unknown */
    uint32_t copy_engines;      /* number of copies that run concurrently */
    uint64_t peer_mask;         /* bit n: device n of this driver can be accessed directly, over NVLink or PCIe */
    uint8_t unified_addressing; /* host and device share one address space: always 1 in leat */
    uint8_t managed_memory;     /* 1: leat_memory_alloc(LEAT_KIND_MANAGED) works */
    uint8_t virtual_memory;     /* 1: leat/virtual.h works, and pools can stitch memory */
    uint8_t strict;             /* 1: host threads cannot access device memory (LEAT_STRICT) */
    char kernel_code[16]; /* form in which leat loads its own kernels: "sm_90", "gfx942", ...: machine code for
                           * this architecture; "PTX": the driver compiles them at their first use, which takes
                           * up to a second; "": leat has none for this device */
} leat_device_info;
#define LEAT_DEVICE_INFO_INIT LEAT_SIZED_INIT_(leat_device_info)

/* Returns the properties of a device. Errors: HANDLE, INVALID (info NULL, or its size), DRIVER. */
LEAT_NODISCARD LEAT_API leat_status leat_device_get_info(leat_device *device, leat_device_info *info);

/* Returns the free and total bytes of device memory at this moment; other programs share the device. Memory that
 * leat's pools hold counts as used, live or idle: leat_pool_get_stats() returns how much that is, and
 * leat_pool_trim() releases the idle part. Either pointer may be NULL. Errors: HANDLE, DRIVER. */
LEAT_NODISCARD LEAT_API leat_status leat_device_memory(leat_device *device, uint64_t *free_bytes,
                                                       uint64_t *total_bytes);

/* Lists devices without opening them: index 0, 1, ... over all drivers in the order in which
 * leat_device_open(NULL) prefers them. Past the last device the call returns NO_DEVICE. Errors: INVALID (info
 * NULL, or its size), NO_DEVICE, DRIVER. */
LEAT_NODISCARD LEAT_API leat_status leat_device_list(unsigned index, leat_device_info *info);

/* The state of a driver, which shows why a GPU is not available. */
typedef struct leat_driver_info {
    size_t size;        /* sizeof(leat_driver_info): leat/base.h */
    char name[8];       /* "cuda", "hip" or "cpu" */
    leat_status status; /* LEAT_OK: usable; otherwise the reason */
    char reason[512];   /* the message for status, "" when usable */
    char library[256];  /* path of the loaded library, "" if none */
    char version[64];   /* the vendor's version, for example "13.0" */
    unsigned device_count;
} leat_driver_info;
#define LEAT_DRIVER_INFO_INIT LEAT_SIZED_INIT_(leat_driver_info)

/* Lists drivers: index 0, 1, ... in order of preference; past the last one the call returns NO_DRIVER. It loads
 * the driver if necessary. Errors: INVALID (info NULL, or its size), NO_DRIVER. */
LEAT_NODISCARD LEAT_API leat_status leat_driver_list(unsigned index, leat_driver_info *info);

/* One environment variable: one that leat reads, or one that begins with LEAT_ but is unknown to leat. */
typedef struct leat_option_info {
    size_t size;               /* sizeof(leat_option_info): leat/base.h */
    const char *name;          /* name of the variable, such as "LEAT_DEVICE" */
    const char *value;         /* value of the variable; NULL: not set */
    const char *default_value; /* the default, in words */
    const char *text;          /* what the variable does, one sentence */
    const char *problem;       /* what is wrong with the value or the name, one sentence; NULL: nothing */
    uint8_t debug;             /* 1: for debugging, not for production */
} leat_option_info;
#define LEAT_OPTION_INFO_INIT LEAT_SIZED_INIT_(leat_option_info)

/*
 * Lists the environment variables: index 0, 1, ...; past the last one the call returns NOT_FOUND. leat reads them
 * once, at the first leat call of the process. The list has the variables that leat knows, then those that are
 * set, begin with LEAT_ and are unknown, such as a name with a typo; their problem suggests the nearest known
 * name. A value with a problem makes leat_device_open() fail; an unknown name does not. A program that runs with
 * more rights than its caller (set-user-ID, set-group-ID, file capabilities) reads none of them: every value is
 * NULL. Errors: INVALID (info NULL, or its size), NOT_FOUND.
 */
LEAT_NODISCARD LEAT_API leat_status leat_option_list(unsigned index, leat_option_info *info);

#ifdef __cplusplus
}
#endif

#endif
