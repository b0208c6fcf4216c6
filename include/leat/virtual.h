/*
 * leat/virtual.h - addresses and physical memory apart: reserve, create, map, say who may use it, share.
 *
 * Model. A reservation is a range of addresses with nothing behind it. Physical memory belongs to a device and has
 * no address. Mapping puts one behind a part of the other, and access says which devices may use it there. So an
 * array can grow without being copied, one piece of memory can be seen at two addresses, and memory moves from one
 * place to another without a copy. leat's own pools (leat/pool.h) are built so, and do all of this by themselves:
 * most programs need nothing of this header.
 *
 * Sizes and addresses are multiples of leat_virtual_granularity(), 2 MiB on most devices. What is mapped and
 * accessible is device memory as any other: leat_pointer_query() knows it, copies and fills accept it, kernels use
 * it; neighbouring mappings of one device count as one piece there. What is only reserved, or mapped without
 * access, is refused with LEAT_ERROR_POINTER, and a kernel that touches it faults.
 *
 * Call order.
 *
 *     leat_virtual_granularity(dev, &unit);
 *     leat_virtual_reserve(dev, 64 * unit, 0, &base);                       // addresses
 *     leat_physical_create(dev, unit, 0, &memory);                          // memory
 *     leat_virtual_map(base, unit, memory);                                 // together
 *     leat_virtual_set_access(base, unit, dev, LEAT_ACCESS_READ_WRITE);
 *     leat_copy(stream, base, data, unit);
 *     ...
 *     leat_virtual_unmap(base, unit);
 *     leat_physical_release(memory);
 *     leat_virtual_unreserve(base);
 *
 * Nothing here is in stream order: all of it happens before the call returns, and nothing waits for streams. The
 * caller must know that no work still uses what is unmapped or loses its access. The last close of a device ends
 * its reservations and its physical memory, wherever that is mapped.
 *
 * Threads. Any thread may call anything here. Calls that change mappings take turns.
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

/* What all sizes and addresses of the device must be multiples of. Errors: HANDLE, INVALID (bytes NULL),
 * UNSUPPORTED (the device has no virtual memory), DRIVER. */
LEAT_API leat_status leat_virtual_granularity(leat_device *device, size_t *bytes);

/*
 * Reserves bytes of addresses. alignment_bytes: 0, or a power of two that the start shall be a multiple of. Memory
 * of every device of device's driver can be mapped there. Costs no memory. Errors: HANDLE, INVALID (ptr NULL;
 * bytes 0 or not a multiple of the granularity; alignment_bytes no power of two), DEVICE_MEMORY (no such range of
 * addresses is left), HOST_MEMORY, UNSUPPORTED, DRIVER, NOT_PERMITTED (inside a host function).
 */
LEAT_API leat_status leat_virtual_reserve(leat_device *device, size_t bytes, size_t alignment_bytes, void **ptr);

/* Gives a whole reservation back; ptr is its start. NULL does nothing. Errors: POINTER (not the start of a
 * reservation), BUSY (something is still mapped there), DRIVER (it is gone anyway), NOT_PERMITTED. */
LEAT_API leat_status leat_virtual_unreserve(void *ptr);

/* The reservation that ptr lies in: its start and its size; either may be NULL. Errors: POINTER (not reserved). */
LEAT_API leat_status leat_virtual_query(const void *ptr, void **base, size_t *bytes);

/* For leat_physical_create(). */
enum { LEAT_PHYSICAL_EXPORTABLE = 1 /* leat_physical_export() shall work */ };

/*
 * Takes physical memory from the device, past its pools. Its contents are undefined. flags: 0 or
 * LEAT_PHYSICAL_EXPORTABLE.
 * Errors: HANDLE, INVALID (physical NULL; bytes 0 or not a multiple of the granularity; unknown flags),
 * DEVICE_MEMORY, HOST_MEMORY, UNSUPPORTED (also where memory cannot be exported), DRIVER, NOT_PERMITTED.
 */
LEAT_API leat_status leat_physical_create(leat_device *device, size_t bytes, unsigned flags,
                                          leat_physical **physical);

/* Gives the handle up once. The memory goes back to the device when it was given up as often as it was created,
 * imported or retained, and its last mapping is gone. NULL does nothing. Errors: HANDLE, DRIVER (it is given up
 * anyway), NOT_PERMITTED. */
LEAT_API leat_status leat_physical_release(leat_physical *physical);

typedef struct leat_physical_info {
    leat_device *device;
    size_t bytes;
    uint8_t exportable; /* 1: leat_physical_export() works */
    uint8_t imported;   /* 1: from leat_physical_import() */
} leat_physical_info;

/* Errors: HANDLE, INVALID (info NULL). */
LEAT_API leat_status leat_physical_query(leat_physical *physical, leat_physical_info *info);

/* The physical memory that is mapped at ptr, any address of the mapping; it is retained by this and must be
 * released once more. Works after the last release too, while the mapping is there. Errors: INVALID (physical
 * NULL), POINTER (nothing is mapped at ptr by leat_virtual_map()), NOT_PERMITTED. */
LEAT_API leat_status leat_physical_retain(const void *ptr, leat_physical **physical);

/*
 * A file descriptor that stands for the memory, for another process (sent through a socket) or this one; closed by
 * the caller with close(), which the memory survives while somebody else holds it. On the CPU device it is sealed:
 * whoever gets it can read and write the memory, and not change its size.
 * Errors: HANDLE, INVALID (fd NULL; not created to be exported), UNSUPPORTED, DRIVER, SYSTEM, NOT_PERMITTED.
 */
LEAT_API leat_status leat_physical_export(leat_physical *physical, int *fd);

/*
 * Memory of leat_physical_export() of the same device, in this or another process. bytes: as it was created. The
 * descriptor stays the caller's and may be closed at once. The CPU device takes no file that could be cut off while
 * it is mapped: memory files with the seals of an export only.
 * Errors: HANDLE, INVALID (physical NULL; bytes 0 or not a multiple of the granularity; fd is not exported memory
 * of so many bytes), HOST_MEMORY, UNSUPPORTED, DRIVER, SYSTEM, NOT_PERMITTED.
 */
LEAT_API leat_status leat_physical_import(leat_device *device, int fd, size_t bytes, leat_physical **physical);

/*
 * Puts the first bytes bytes of physical at ptr, within a reservation. Nobody may use it before
 * leat_virtual_set_access(). One piece of memory may be mapped at several places.
 * Errors: HANDLE, INVALID (bytes 0, ptr or bytes not a multiple of the granularity, more bytes than the memory
 * has), POINTER (ptr is not reserved), RANGE (the range goes past the end of its reservation), BUSY (something is
 * mapped in the range already), UNSUPPORTED (memory of another driver than the reservation's), HOST_MEMORY,
 * DRIVER, SYSTEM, NOT_PERMITTED.
 */
LEAT_API leat_status leat_virtual_map(void *ptr, size_t bytes, leat_physical *physical);

/* Takes what is mapped out of the addresses, which stay reserved. The range must be of whole mappings, one or
 * several, without a gap. Errors: INVALID (bytes 0, or a part of a mapping), POINTER (not reserved, or a part of
 * the range is not mapped), RANGE, DRIVER (it is unmapped anyway), NOT_PERMITTED. */
LEAT_API leat_status leat_virtual_unmap(void *ptr, size_t bytes);

/*
 * Says what device may do with the range, which is of whole mappings without a gap. Each device of the driver has
 * an access of its own, which is NONE until it is set. On the CPU devices, which share one processor, kernels can
 * do what any device may; leat's own calls look at all of them. Errors: HANDLE, INVALID (bytes 0, a part of a
 * mapping, access is not one of the three), POINTER (not reserved, or a part is not mapped), RANGE, UNSUPPORTED
 * (device of another driver; access that this driver cannot set; more than 32 devices), DRIVER, SYSTEM (what was
 * mapped first may have the access already), NOT_PERMITTED.
 */
LEAT_API leat_status leat_virtual_set_access(void *ptr, size_t bytes, leat_device *device, leat_access access);

/* What device may do with the mapping at ptr, as it was set. Errors: HANDLE, INVALID (access NULL), POINTER (not
 * reserved, or nothing is mapped there). */
LEAT_API leat_status leat_virtual_get_access(const void *ptr, leat_device *device, leat_access *access);

#ifdef __cplusplus
}
#endif

#endif
