/*
 * pinned.h - where pools of pinned memory get their chunks from.
 *
 * A chunk is ordinary memory of this process: mapped in huge pages on the NUMA node of the device, touched by
 * several threads at once, then registered with the driver in one call. That takes a tenth of the time of the
 * driver's own call for pinned memory, which touches page after page on one thread. Where the driver refuses to
 * register, its own call it is.
 *
 * Threads. Every call may come from any thread; two that take or give back do not wait for each other's driver
 * calls.
 */
#ifndef LEATI_PINNED_H
#define LEATI_PINNED_H

#include "core/core.h"

/* Chunks start at a multiple of this and are a multiple of this long. */
#define LEATI_PINNED_UNIT ((size_t)2 << 20)

/*
 * A chunk of pinned memory, mapped for all devices of the driver, at one address for host and device, all of its
 * pages there. bytes: a multiple of LEATI_PINNED_UNIT, not 0. The memory is not entered into the core's table.
 * Errors: HOST_MEMORY: the machine, or a control group that this process is in, has less available (nothing was
 * touched, and no process is in danger), or the system refused; and the driver's own where it neither registers
 * memory nor has any.
 */
leat_status leati_pinned_take(struct leat_device *device, size_t bytes, void **ptr);

/*
 * Gives a whole chunk back; may wait for the device. When it fails, the chunk is still there and the caller's,
 * who may try again.
 * Errors: POINTER (no chunk of so many bytes starts at ptr), the driver's.
 */
leat_status leati_pinned_give_back(struct leat_device *device, void *ptr, size_t bytes);

/* How many threads touch a chunk of bytes, the caller's among them: one for every 32 MiB, at most 16, and at most
 * one for each processor that the caller may use. */
unsigned leati_pinned_threads(size_t bytes);

#endif
