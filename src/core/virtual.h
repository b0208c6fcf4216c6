/*
 * virtual.h - what the rest of the core needs to know of reserved addresses: what is mapped at one, and the end of
 * it all when a device closes.
 */
#ifndef LEATI_VIRTUAL_H
#define LEATI_VIRTUAL_H

#include "core/core.h"

/* Fills target for an address in a reservation, which the table of pointers has found: base and bytes are those of
 * the neighbouring mappings that have the same device and the same access. POINTER when nothing is mapped there,
 * or no device has access. Called with the table's lock held. */
leat_status leati_virtual_find(const struct leati_memory *reserved, const void *ptr,
                               struct leati_endpoint *endpoint);

/* Ends what belongs to device: reservations, mappings of its memory in those of other devices, physical memory.
 * Goes on after a failure and returns the first. */
leat_status leati_virtual_close(struct leat_device *device);

#endif
