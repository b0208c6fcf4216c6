/*
 * virtual.h - for the rest of leat: looks up mappings in reserved addresses (virtual.c), exports and imports
 * physical memory, and releases what belongs to a device that closes.
 */
#ifndef LEATI_VIRTUAL_H
#define LEATI_VIRTUAL_H

#include "core/core.h"

/* Fills endpoint for an address in a reservation that the table of pointers has found. endpoint->base and
 * endpoint->bytes span the neighbouring mappings with the same device and the same access. Returns POINTER if
 * nothing is mapped there, or if no device has access. Call this with the lock of the table of pointers held. */
leat_status leati_virtual_find(const struct leati_memory *reserved, const void *ptr,
                               struct leati_endpoint *endpoint);

/* Releases what belongs to device: reservations, mappings of its memory in reservations of other devices, and
 * physical memory. Continues after a failure and returns the first failure. */
leat_status leati_virtual_close(struct leat_device *device);

/* Exports memory of the driver's handle with the narrowest rights for access (READ or READ_WRITE) that the driver
 * has. */
leat_status leati_export(struct leat_device *device, uint64_t native, leat_access access, int *fd);

/* Implement leat_physical_export() and leat_physical_import(), for leat/share.h too. The messages do not name the
 * call. The handle must be live. */
leat_status leati_physical_export(leat_physical *physical, leat_access access, int *fd);
leat_status leati_physical_import(struct leat_device *device, int fd, size_t bytes, leat_access access,
                                  leat_physical **physical);

/* The physical memory of a mapping. */
struct leati_mapped {
    leat_physical *physical;
    struct leat_device *device; /* the device that has the memory */
    size_t bytes;               /* size of the mapping */
    size_t physical_bytes;
    leat_access access; /* the widest access that any device has */
};

/* Finds the mapping that starts at ptr and adds a reference to its memory, as leat_physical_retain() does. */
leat_status leati_physical_at(const void *ptr, struct leati_mapped *mapped);

#endif
