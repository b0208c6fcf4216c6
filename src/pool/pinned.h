/*
 * pinned.h - allocates the chunks of pinned memory pools.
 *
 * A chunk is ordinary memory of this process. leat maps it in huge pages on the NUMA node of the device, populates
 * it with several threads in parallel, and registers it with the driver in one call. This takes a tenth of the
 * time of the driver's own allocation call, which populates pages one by one on a single thread. If the driver
 * refuses to register the memory, leat uses the driver's allocation call.
 *
 * Every function may be called from any thread. No lock is held during driver calls, so concurrent calls do not
 * wait for each other's driver calls.
 */
#ifndef LEATI_PINNED_H
#define LEATI_PINNED_H

#include "base/fresh_pages.h"
#include "core/core.h"

/* The address and the size of a chunk are multiples of this. */
#define LEATI_PINNED_UNIT LEATI_FRESH_UNIT

/*
 * Allocates a chunk of pinned memory. It is fully populated, and mapped for all devices of the driver at the same
 * address as on the host. bytes is a multiple of LEATI_PINNED_UNIT and not 0. The chunk is not entered into the
 * core's table of memory.
 * Errors: HOST_MEMORY if the machine, or a control group of this process, has too little memory available. Then
 * nothing is populated, so the kernel's out-of-memory killer does not run. Also HOST_MEMORY if the system refuses
 * to map or populate the memory. The driver's error if the driver can neither register nor allocate memory.
 */
leat_status leati_pinned_take(struct leat_device *device, size_t bytes, void **ptr);

/*
 * Frees a whole chunk; may wait for the device. If this fails, the chunk stays valid and still belongs to the
 * caller, which may free it again later.
 * Errors: POINTER if no chunk of this size starts at ptr, or the driver's error.
 */
leat_status leati_pinned_give_back(struct leat_device *device, void *ptr, size_t bytes);

#endif
