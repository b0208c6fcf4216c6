/*
 * leat/device.h - drivers, devices, and what they can do.
 *
 * Model. A driver speaks to one vendor's devices: "cuda" (NVIDIA, through libcuda.so.1, loaded at
 * run time), "hip" (AMD, through libamdhip64.so, loaded at run time; not yet run on AMD hardware) and
 * "cpu" (this machine itself; always there). A device is one GPU or one CPU device and is named
 * "<driver>:<ordinal>", for example "cuda:0" or "cpu:1". There are two CPU devices
 * unless LEAT_CPU_DEVICES says otherwise; they share the processor but not memory, so a program
 * for several devices runs anywhere.
 *
 * Call order. leat_device_open() first; everything else takes the device or something made from
 * it. leat_device_close() last. No other set-up or tear-down exists.
 *
 *     leat_device *dev;
 *     if (leat_device_open(NULL, &dev))      // the best there is: a GPU, else "cpu:0"
 *         ...
 *     leat_device_close(dev);
 *
 * Threads. Every call may come from any thread at any time. The one rule is the usual one: no
 * thread may still use a handle while another destroys it. A destroyed handle is recognised and
 * answered with LEAT_ERROR_HANDLE, but only until a few thousand newer ones were made.
 *
 * Fork. A child process cannot use handles of its parent, nor open a device when the parent had one open (CUDA
 * has the same rule): what gives work, waits, allocates or frees returns NOT_PERMITTED there. exec() is fine.
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
 * Opens a device. name: "cuda:1", "cpu:0"; "cuda" is short for "cuda:0"; NULL takes the value of
 * LEAT_DEVICE if that is set, else the first device of the first driver that has one, in the order
 * of LEAT_DRIVERS ("cuda,hip,cpu"). Opening a device that is open already gives the same handle again;
 * each open needs its own close.
 *
 * On CUDA this retains the device's primary context, the one that the CUDA runtime uses, so both
 * live side by side in one process; leat never changes the calling thread's current context.
 *
 * Errors: INVALID (device NULL, a name of another form, or an environment variable with a value that it
 * cannot have), NO_DRIVER, DRIVER_TOO_OLD, NO_DEVICE
 * (the message lists what there is), DEVICE_MEMORY, HOST_MEMORY, UNSUPPORTED (LEAT_STRICT=1 on a
 * processor without memory protection keys), DRIVER, SYSTEM, NOT_PERMITTED (inside a host function, or in a
 * child process of fork(), see above).
 */
LEAT_API leat_status leat_device_open(const char *name, leat_device **device);

/*
 * Gives one open back. The last close waits for all work of the device, then destroys its streams,
 * events, modules and pools, frees its memory and undoes its registrations: handles and pointers made from
 * it are dead afterwards, so no work of another device may still use its memory. Streams, events and
 * memory of the user's own that were wrapped stay alive. With LEAT_LEAKS=1 it says on standard error what was
 * still allocated from pools. NULL does nothing.
 * Errors: HANDLE, NOT_PERMITTED (inside a host function); or the asynchronous failure of work that was still
 * outstanding, in which case the device is closed anyway.
 */
LEAT_API leat_status leat_device_close(leat_device *device);

/* Waits until all work given to the device so far is done, that of destroyed streams too. On CUDA this is all work
 * of the context, so it includes what other code of the process gave it.
 * Errors: HANDLE, DEVICE_LOST, DRIVER, NOT_PERMITTED (inside a host function). */
LEAT_API leat_status leat_device_synchronize(leat_device *device);

/* What a device is. Strings belong to the struct; sizes are bytes; 0 means unknown or none. */
typedef struct leat_device_info {
    char name[16];              /* "cuda:0": what leat_device_open() takes */
    char driver[8];             /* "cuda", "hip" or "cpu" */
    int ordinal;                /* number within its driver */
    char model[96];             /* the vendor's name, for example "NVIDIA H200" */
    char architecture[32];      /* "sm_90", "gfx942", "x86-64" */
    uint64_t memory_bytes;      /* all of its memory */
    uint32_t compute_units;     /* multiprocessors; on the CPU device its threads */
    uint32_t max_block_threads; /* threads of one block at most */
    uint32_t max_shared_bytes;  /* dynamic shared memory of one block at most */
    uint32_t memory_clock_khz;  /* 0 where the driver does not say */
    uint32_t memory_bus_bits;   /* 0 where the driver does not say */
    char pci_address[20];       /* "0000:1b:00.0", or "" */
    int numa_node;              /* of the host memory nearest to it; -1 unknown */
    uint32_t link_gen;          /* PCIe generation in use, 0 unknown */
    uint32_t link_width;        /* PCIe lanes in use, 0 unknown */
    uint32_t copy_engines;      /* copies that run beside each other */
    uint64_t peer_mask;         /* bit n: device n of this driver is within direct reach, over NVLink or PCIe */
    uint8_t unified_addressing; /* host and device share one address space: always 1 in leat */
    uint8_t managed_memory;     /* leat_memory_alloc(LEAT_KIND_MANAGED) works */
    uint8_t virtual_memory;     /* reserve, create, map and unmap work, so pools can move memory */
    uint8_t strict;             /* device memory is unreachable for host threads (LEAT_STRICT) */
} leat_device_info;

/* Errors: HANDLE, INVALID (info NULL), DRIVER. */
LEAT_API leat_status leat_device_query(leat_device *device, leat_device_info *info);

/* Free and total device memory in bytes at this moment; other programs share the device. What leat's pools hold
 * counts as used, live or idle: leat_pool_query() says how much that is, leat_pool_trim() gives the idle part
 * back. Either pointer may be NULL. Errors: HANDLE, DRIVER. */
LEAT_API leat_status leat_device_memory(leat_device *device, uint64_t *free_bytes, uint64_t *total_bytes);

/*
 * Lists devices without opening them: index 0, 1, ... over all drivers in the order in which
 * leat_device_open(NULL) prefers them. Returns NO_DEVICE when index is past the last one, which
 * ends the loop. Errors: INVALID (info NULL).
 */
LEAT_API leat_status leat_device_list(unsigned index, leat_device_info *info);

/* What became of a driver: for people who wonder why their GPU is not there. */
typedef struct leat_driver_info {
    char name[8];       /* "cuda" */
    leat_status status; /* LEAT_OK: usable; else why not */
    char reason[512];   /* the message for status, "" when usable */
    char library[256];  /* path of what was loaded, "" when nothing was */
    char version[64];   /* the vendor's version, for example "13.0" */
    unsigned device_count;
} leat_driver_info;

/* Lists drivers: index 0, 1, ... in order of preference; NO_DRIVER past the last one. Loads the
 * driver if that has not happened yet. Errors: INVALID (info NULL). */
LEAT_API leat_status leat_driver_list(unsigned index, leat_driver_info *info);

/* One environment variable that leat reads, or that begins with LEAT_ and means nothing to leat. */
typedef struct leat_option_info {
    const char *name;          /* "LEAT_DEVICE" */
    const char *value;         /* as set, or NULL */
    const char *default_value; /* what holds when it is not set, in words */
    const char *text;          /* what it does, one message */
    const char *problem;       /* what is wrong with the value or the name, one message; NULL: nothing */
    uint8_t debug;             /* 1: for finding faults, not for use */
} leat_option_info;

/* Lists the environment variables: index 0, 1, ...; NOT_FOUND past the last one. They are read once,
 * at the first leat call of the process. Behind those that leat knows come the ones that are set, begin with
 * LEAT_, and are not known, such as a name with a typo; their problem suggests the nearest known name. A value
 * with a problem makes leat_device_open() fail; an unknown name does not. A program that runs with more rights than its caller (set-user-ID,
 * set-group-ID, file capabilities) reads none of them: every value is NULL. Errors: INVALID (info NULL). */
LEAT_API leat_status leat_option_list(unsigned index, leat_option_info *info);

#ifdef __cplusplus
}
#endif

#endif
