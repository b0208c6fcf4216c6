/*
 * leat/virtual.h - reserves addresses, creates physical memory, maps it, sets its access and shares it.
 *
 * Model. A reservation is a range of addresses without memory. Physical memory belongs to a device and has no
 * address. A mapping connects a part of a reservation with physical memory, and access says which devices may use
 * it there. So an array can grow without being copied, the same memory can appear at two addresses, and memory can
 * move to another address without a copy. leat's own pools (leat/pool.h) use the same mechanism and need no calls
 * of this header; neither do most programs.
 *
 * Sizes and addresses are multiples of leat_virtual_granularity(), 2 MiB on most devices. Mapped memory with
 * access is device memory like any other: leat_pointer_get_info() knows it, copies and fills accept it, kernels
 * use it; leat treats neighbouring mappings of one device as one piece. Addresses that are only reserved, or
 * mapped without access, are refused with LEAT_ERROR_POINTER, and a kernel that accesses them faults. Copies and
 * fills to memory with LEAT_ACCESS_READ only are refused with LEAT_ERROR_NOT_PERMITTED.
 *
 * Call order.
 *
 *     leat_virtual_granularity(dev, &unit);
 *     leat_virtual_reserve(dev, 64 * unit, 0, &base);                       // addresses
 *     leat_physical_create(dev, unit, 0, &memory);                          // memory
 *     leat_virtual_map(base, unit, memory);                                 // together
 *     leat_virtual_set_access(dev, base, unit, LEAT_ACCESS_READ_WRITE);
 *     leat_copy(stream, base, data, unit);
 *     ...
 *     leat_virtual_unmap(base, unit);
 *     leat_physical_release(memory);
 *     leat_virtual_unreserve(base);
 *
 * These calls are not stream-ordered: each takes effect before it returns, and none waits for streams. The caller
 * must ensure that no work still uses memory that is unmapped or loses its access. The last close of a device
 * releases its reservations and its physical memory, and unmaps this memory everywhere.
 *
 * Threads. Any thread may make any call here. Calls that change mappings run one at a time.
 */
#ifndef LEAT_VIRTUAL_H
#define LEAT_VIRTUAL_H

#include <leat/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Physical memory of a device. */
typedef struct leat_physical leat_physical;

typedef enum leat_access { LEAT_ACCESS_NONE = 0, LEAT_ACCESS_READ = 1, LEAT_ACCESS_READ_WRITE = 3 } leat_access;

/* Returns the granularity: all sizes and addresses of virtual memory of the device must be multiples of it.
 * Errors: HANDLE, INVALID (bytes NULL), UNSUPPORTED (the device has no virtual memory), DRIVER. */
LEAT_NODISCARD LEAT_API leat_status leat_virtual_granularity(leat_device *device, size_t *bytes);

/*
 * Reserves bytes of addresses; this costs no memory. alignment_bytes: 0, or a power of two to which the start is
 * aligned. Memory of every device of device's driver can be mapped there.
 * Errors: HANDLE, INVALID (ptr NULL; bytes 0 or not a multiple of the granularity; alignment_bytes not a power of
 * two), DEVICE_MEMORY (no such range of addresses is left), HOST_MEMORY, UNSUPPORTED, DRIVER, NOT_PERMITTED
 * (inside a host function).
 */
LEAT_NODISCARD LEAT_API leat_status leat_virtual_reserve(leat_device *device, size_t bytes, size_t alignment_bytes,
                                                         void **ptr);

/* Releases a whole reservation; ptr is its start. NULL does nothing.
 * Errors: POINTER (not the start of a reservation), BUSY (something is still mapped there), DRIVER (the
 * reservation is gone anyway), NOT_PERMITTED. */
LEAT_API leat_status leat_virtual_unreserve(void *ptr);

/* Returns the start and the size of the reservation that contains ptr; base and bytes may each be NULL.
 * Errors: POINTER (not reserved). */
LEAT_NODISCARD LEAT_API leat_status leat_virtual_get_reservation(const void *ptr, void **base, size_t *bytes);

/* Flags of leat_physical_create(). */
enum { LEAT_PHYSICAL_EXPORTABLE = 1 /* leat_physical_export() will accept the memory */ };

/*
 * Creates physical memory on the device, outside its pools. Its contents are undefined. flags: 0 or
 * LEAT_PHYSICAL_EXPORTABLE.
 * Errors: HANDLE, INVALID (physical NULL; bytes 0 or not a multiple of the granularity; unknown flags),
 * DEVICE_MEMORY, HOST_MEMORY, UNSUPPORTED (also if the device cannot export memory), DRIVER, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_physical_create(leat_device *device, size_t bytes, unsigned flags,
                                                         leat_physical **physical);

/* Drops one reference to the handle. leat_physical_create(), leat_physical_import() and leat_physical_retain()
 * each add one. The memory returns to the device when no reference and no mapping is left. NULL does nothing.
 * Errors: HANDLE, DRIVER (the reference is dropped anyway), NOT_PERMITTED. */
LEAT_API leat_status leat_physical_release(leat_physical *physical);

/* Properties of physical memory. */
typedef struct leat_physical_info {
    size_t size; /* sizeof(leat_physical_info): leat/base.h */
    leat_device *device;
    size_t bytes;
    uint8_t exportable; /* 1: leat_physical_export() works */
    uint8_t imported;   /* 1: from leat_physical_import() */
} leat_physical_info;
#define LEAT_PHYSICAL_INFO_INIT LEAT_SIZED_INIT_(leat_physical_info)

/* Returns the properties of physical memory. Errors: HANDLE, INVALID (info NULL, or its size). */
LEAT_NODISCARD LEAT_API leat_status leat_physical_get_info(leat_physical *physical, leat_physical_info *info);

/*
 * Returns the physical memory that is mapped at ptr, which may be any address of the mapping, and adds a
 * reference: release it with leat_physical_release(). This works even after the last release, as long as the
 * mapping exists.
 * Errors: INVALID (physical NULL), POINTER (leat_virtual_map() mapped nothing at ptr), NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_physical_retain(const void *ptr, leat_physical **physical);

/*
 * Creates a file descriptor for the memory, for another process (sent through a socket) or this one. The caller
 * closes it with close(); the memory lives as long as any process still holds it. On the CPU device the descriptor
 * is sealed: a process that receives it can read and write the memory, but not change its size.
 * Errors: HANDLE, INVALID (fd NULL; not created as exportable), UNSUPPORTED, DRIVER, SYSTEM, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_physical_export(leat_physical *physical, int *fd);

/*
 * Imports memory that leat_physical_export() exported from the same device, in this or another process. bytes: the
 * size at creation. The CPU device refuses another size. GPU drivers do not report the size: there a size that is
 * too large fails when the memory is mapped, and one that is too small is not noticed. The caller still owns the
 * descriptor and may close it at once; leat keeps a duplicate until the memory is released, so that it can be
 * exported again, which CUDA refuses. The CPU device accepts only memory files with the seals of an export,
 * because another file could be truncated while it is mapped.
 * Errors: HANDLE, INVALID (physical NULL; bytes 0 or not a multiple of the granularity; fd is not exported
 * memory, or on the CPU device not of that size), HOST_MEMORY, UNSUPPORTED, DRIVER, SYSTEM, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_physical_import(leat_device *device, int fd, size_t bytes,
                                                         leat_physical **physical);

/*
 * Maps the first bytes bytes of physical at ptr, inside a reservation. No device may use the mapping before
 * leat_virtual_set_access(). The same memory may be mapped at several places.
 * Errors: HANDLE, INVALID (bytes 0, ptr or bytes not a multiple of the granularity, more bytes than the memory
 * has), POINTER (ptr is not reserved), RANGE (the range goes past the end of its reservation), BUSY (something is
 * mapped in the range already), UNSUPPORTED (memory of another driver than the reservation's), HOST_MEMORY,
 * DRIVER, SYSTEM, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_virtual_map(void *ptr, size_t bytes, leat_physical *physical);

/* Unmaps a range; its addresses stay reserved. The range must consist of one or more whole mappings without a gap.
 * Errors: INVALID (bytes 0, or a part of a mapping), POINTER (not reserved, or a part of the range is not mapped),
 * RANGE, DRIVER (it is unmapped anyway), NOT_PERMITTED. */
LEAT_API leat_status leat_virtual_unmap(void *ptr, size_t bytes);

/*
 * Sets what device may do with the range, which must consist of whole mappings without a gap. Each device of the
 * driver has its own access, which is NONE until it is set. leat's own calls accept an access that at least one
 * device has. On the CPU devices, which share one processor, a kernel can do whatever any of them may do. After
 * UNSUPPORTED, DRIVER or SYSTEM the first mappings of the range may already have the new access.
 * Errors: HANDLE, INVALID (bytes 0, a part of a mapping, access is not one of the three), POINTER (not reserved,
 * or a part is not mapped), RANGE, UNSUPPORTED (device of another driver; access that this driver cannot set; more
 * than 32 devices), DRIVER, SYSTEM, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_virtual_set_access(leat_device *device, void *ptr, size_t bytes,
                                                            leat_access access);

/* Returns what device may do with the mapping at ptr, as leat_virtual_set_access() set it. Errors: HANDLE, INVALID
 * (access NULL), POINTER (not reserved, or nothing is mapped there). */
LEAT_NODISCARD LEAT_API leat_status leat_virtual_get_access(leat_device *device, const void *ptr,
                                                            leat_access *access);

#ifdef __cplusplus
}
#endif

#endif
