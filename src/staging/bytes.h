/*
 * bytes.h - how workers move bytes between ordinary memory and pinned slots.
 *
 * A copy goes through the caches, by the C library's memcpy(), or past them. Which is faster depends on the
 * machine, the direction and the number of threads at it, so that is measured at the first use
 * (leati_staging_choose()).
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

/* "cached", "streaming". */
const char *leati_store_policy_name(enum leati_store_policy policy);

/* What streaming means on this processor: "AVX-512", "AVX2"; "memcpy" where it has no such stores. */
const char *leati_staging_streaming_by(void);

/* Copies; any size and alignment, no overlap. What the calling thread writes next is seen after all of it. */
void leati_staging_copy(void *dst, const void *src, size_t bytes, enum leati_store_policy policy);

/*
 * The same with memory that may go away meanwhile. Returns how many bytes were copied, from the start: bytes, or
 * fewer when one side could not be reached: not mapped, no right to read or write it, a mapped file that has
 * become shorter. *fault is then the address of the first byte that could not; what dst holds from there on is
 * undefined. base/fault_handler.h says what a program's own handlers of SIGSEGV and SIGBUS make of that.
 */
size_t leati_staging_copy_guarded(void *dst, const void *src, size_t bytes, enum leati_store_policy policy,
                                  uintptr_t *fault);

/* ---- pages ---- */

/* Returns true if the pages are present. Looks at a few of them. */
bool leati_staging_resident(const void *ptr, size_t bytes);

/* Makes the pages present for writing and leaves what they hold as it is. Where that is not possible nothing
 * happens, and the pages come one by one when they are written. */
void leati_staging_prefault(void *ptr, size_t bytes);

/* Reads the pages of a file mapping that are not in memory yet, many at a time instead of one after the other.
 * What cannot be read stays as it is. */
void leati_staging_fetch(const void *ptr, size_t bytes);

/* Returns true if this thread can read all pages of a range, or write them: tries one byte of each page. */
bool leati_staging_usable(const void *ptr, size_t bytes, bool write);

/* ---- choosing ---- */

struct leati_staging_choice {
    enum leati_store_policy in, out; /* ordinary memory to slot; slot to ordinary memory */
    bool probed;                     /* the rest was measured: GB/s of all threads together */
    double in_gbps[2], out_gbps[2];  /* by enum leati_store_policy */
};

/*
 * Chooses as LEAT_COPY_STORE_POLICY says, which by default is to measure: so many threads, this one and workers,
 * copy in parts of a job's size for some milliseconds between the slot's memory, which they overwrite, and memory
 * of their own. To be chosen, streaming has to be 5 % faster, and 50 % into slots, which a DMA reads. Where there
 * is no memory or no thread to be had for it, fewer take part, or cached is chosen. INVALID, with a message:
 * LEAT_COPY_STORE_POLICY holds some other word.
 */
leat_status leati_staging_choose(struct leati_workers *workers, void *slot, size_t slot_bytes, unsigned threads,
                                 struct leati_staging_choice *choice);

/* The measurement alone. The workers have threads for copies, or threads is 1. */
void leati_staging_probe(struct leati_workers *workers, void *slot, size_t slot_bytes, unsigned threads,
                         struct leati_staging_choice *choice);

#endif
