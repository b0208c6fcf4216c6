/*
 * virtual.h - for the rest of the core: looks up mappings in reserved addresses (virtual.c), and releases them
 * when a device closes.
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

#endif
