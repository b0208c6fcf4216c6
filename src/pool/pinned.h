/*
 * pinned.h - allocates the chunks of pinned memory pools.
 *
 * A chunk is ordinary memory of this process: mapped in huge pages on the NUMA node of the device, populated by
 * several threads in parallel, then registered with the driver in one call. That takes a tenth of the time of the
 * driver's own allocation call, which populates pages one by one on a single thread. If the driver refuses to
 * register the memory, its own allocation call is used.
 *
 * Threads. Every function may be called from any thread. No lock is held during driver calls, so concurrent calls
 * do not block each other there.
 */
#ifndef LEATI_PINNED_H
#define LEATI_PINNED_H

#include "core/core.h"

/* Chunks start at a multiple of this and are a multiple of this long. */
#define LEATI_PINNED_UNIT ((size_t)2 << 20)

/*
 * Allocates a chunk of pinned memory: fully populated, mapped for all devices of the driver, at the same address
 * on host and device. bytes: a multiple of LEATI_PINNED_UNIT, not 0. The chunk is not entered into the core's
 * table of memory.
 * Errors: HOST_MEMORY: the machine, or a control group of this process, has too little memory available (then
 * nothing was populated, so the out-of-memory killer is not invoked), or the system refused; otherwise the
 * driver's error, if it can neither register nor allocate memory.
 */
leat_status leati_pinned_take(struct leat_device *device, size_t bytes, void **ptr);

/*
 * Frees a whole chunk; may wait for the device. If it fails, the chunk remains valid, still belongs to the caller,
 * and may be freed again later.
 * Errors: POINTER (no chunk of so many bytes starts at ptr), or the driver's error.
 */
leat_status leati_pinned_give_back(struct leat_device *device, void *ptr, size_t bytes);

/* Returns how many threads populate a chunk of bytes, including the caller's: one for every 32 MiB, at most 16,
 * and at most one for each processor that the process may use. */
unsigned leati_pinned_threads(size_t bytes);

#endif
