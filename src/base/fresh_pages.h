/*
 * fresh_pages.h - maps memory and populates it, which is nearly all of the work of allocating pinned memory.
 *
 * The kernel clears a page in the thread that first touches it, so several threads touch pages in parallel. A
 * driver that then registers the memory only has to look up existing pages, and with huge pages there are few of
 * them.
 *
 * Every function may be called from any thread.
 */
#ifndef LEATI_FRESH_PAGES_H
#define LEATI_FRESH_PAGES_H

#include <leat/status.h>
#include <stdbool.h>
#include <stddef.h>

/* The address of the memory is a multiple of this. */
#define LEATI_FRESH_UNIT ((size_t)2 << 20)

/*
 * Maps bytes of memory and populates all of it, if possible in huge pages and on a NUMA node (-1: on those of the
 * threads that touch it). bytes is a multiple of LEATI_FRESH_UNIT and not 0, and the caller has claimed them by
 * leati_fresh_claim(); this call ends the claim, also if it fails. If it fails, sets *hopeless to true if a
 * driver's own allocation call would fail too. Errors: HOST_MEMORY if the system refuses to map or populate the
 * memory.
 */
leat_status leati_fresh_map(size_t bytes, int node, void **ptr, bool *hopeless);

/* Unmaps memory of leati_fresh_map(), or a part of it. */
void leati_fresh_unmap(void *ptr, size_t bytes);

/* Claims bytes of the available memory; the claim lasts until leati_fresh_unclaim(). Errors: HOST_MEMORY if the
 * machine, or a control group of this process, has too little memory available, so that the system might have to
 * kill a process when so many bytes are populated. */
leat_status leati_fresh_claim(size_t bytes);
void leati_fresh_unclaim(size_t bytes);

/* Returns how many threads, including the calling thread, populate bytes: one for every 32 MiB, but at most 16 and
 * at most one for each processor that the process may use. */
unsigned leati_fresh_threads(size_t bytes);

#endif
