/*
 * bytes.h - copies bytes between ordinary memory and slots (pinned memory), and survives memory that disappears.
 *
 * A copy uses either cached stores (the C library's memcpy()) or streaming stores, which bypass the caches. Which
 * of them is faster depends on the machine, the direction and the number of threads, so leati_staging_choose()
 * measures both.
 */
#ifndef LEATI_BYTES_H
#define LEATI_BYTES_H

#include "base/workers.h"

#include <leat/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- copying ---- */

enum leati_store_policy { LEATI_STORE_POLICY_CACHED, LEATI_STORE_POLICY_STREAMING };

/* Returns "cached" or "streaming". */
const char *leati_store_policy_name(enum leati_store_policy policy);

/* Returns the instruction set of streaming stores on this processor: "AVX-512", "AVX2", or "memcpy" for none. */
const char *leati_staging_streaming_by(void);

/* Copies bytes of any size and alignment; the ranges must not overlap. Includes the fence that streaming stores
 * need, so other threads see the whole copy before they see later stores of this thread. */
void leati_staging_copy(void *dst, const void *src, size_t bytes, enum leati_store_policy policy);

/*
 * Copies like leati_staging_copy(), but returns normally even if the program unmaps or protects the memory, or
 * truncates a mapped file, during the copy. Returns how many bytes were copied, from the start. If the result is
 * below bytes, *fault is the address of the first byte that could not be accessed, and the rest of dst is
 * undefined. base/fault_handler.h describes how this works together with the program's own handlers of SIGSEGV and
 * SIGBUS.
 */
size_t leati_staging_copy_guarded(void *dst, const void *src, size_t bytes, enum leati_store_policy policy,
                                  uintptr_t *fault);

/* ---- pages ---- */

/* Checks a few pages of the range. Returns true if all these pages are in memory. */
bool leati_staging_resident(const void *ptr, size_t bytes);

/* Prefaults the pages for writing, without a change of their contents. If the system cannot prefault, each page
 * faults at its first write as usual. */
void leati_staging_prefault(void *ptr, size_t bytes);

/* Reads the missing pages of a file mapping into memory, with one madvise() instead of a fault for each page.
 * Ignores pages that cannot be read. */
void leati_staging_fetch(const void *ptr, size_t bytes);

/* Accesses one byte of each page. Returns true if this thread can read all pages, or with write can write them. */
bool leati_staging_usable(const void *ptr, size_t bytes, bool write);

/* ---- choosing ---- */

struct leati_staging_choice {
    enum leati_store_policy in, out; /* in: ordinary memory to slot; out: slot to ordinary memory */
    bool probed;                     /* the rates below were measured */
    double in_gbps[2], out_gbps[2];  /* GB/s of all threads together, by enum leati_store_policy */
};

/*
 * Chooses the store policies as LEAT_COPY_STORE_POLICY says. By default it measures: the given number of threads
 * (the caller and workers) copy for some milliseconds between the slot, which they overwrite, and memory of their
 * own, in parts of the size that jobs use. Copies out of slots use streaming stores if these are 5 % faster.
 * Copies into slots, which a DMA reads next, use them if they are 50 % faster. If memory or threads are short,
 * fewer threads measure, or the result is cached. INVALID, with a message: LEAT_COPY_STORE_POLICY has an unknown
 * value.
 */
leat_status leati_staging_choose(struct leati_workers *workers, void *slot, size_t slot_bytes, unsigned threads,
                                 struct leati_staging_choice *choice);

/* The measurement of leati_staging_choose(). If threads is above 1, workers must have threads reserved for copies.
 */
void leati_staging_probe(struct leati_workers *workers, void *slot, size_t slot_bytes, unsigned threads,
                         struct leati_staging_choice *choice);

#endif
