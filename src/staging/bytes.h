/*
 * bytes.h - how workers move bytes between ordinary memory and pinned slots.
 *
 * A copy uses either cached stores (the C library's memcpy()) or streaming stores that bypass the caches. Which is
 * faster depends on the machine, the direction and the number of threads, so leati_staging_choose() measures it at
 * the first use.
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

/* Copies; any size and alignment, no overlap. Includes the fence that streaming stores need: other threads see all
 * of the copy before they see later stores of this thread. */
void leati_staging_copy(void *dst, const void *src, size_t bytes, enum leati_store_policy policy);

/*
 * The same for memory that the program may unmap or protect meanwhile. Returns how many bytes were copied, from
 * the start. If that is fewer than bytes, an access has faulted (unmapped, protected, or a mapped file that became
 * shorter): *fault is the address of the first byte that could not be accessed, and dst is undefined from there
 * on. base/fault_handler.h describes the interplay with the program's own handlers of SIGSEGV and SIGBUS.
 */
size_t leati_staging_copy_guarded(void *dst, const void *src, size_t bytes, enum leati_store_policy policy,
                                  uintptr_t *fault);

/* ---- pages ---- */

/* Returns true if the pages are probably present: checks only a few of them. */
bool leati_staging_resident(const void *ptr, size_t bytes);

/* Prefaults the pages for writing; their contents do not change. If the system cannot do it, nothing happens, and
 * each page faults at its first write as usual. */
void leati_staging_prefault(void *ptr, size_t bytes);

/* Reads the missing pages of a file mapping into memory, many at a time instead of one fault each. Ignores pages
 * that cannot be read. */
void leati_staging_fetch(const void *ptr, size_t bytes);

/* Returns true if this thread can read all pages of a range, or write them: tries one byte of each page. */
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
 * own, in parts of the size that jobs use. Streaming is chosen out of slots if it is 5 % faster, and into slots,
 * which a DMA reads next, if it is 50 % faster. If memory or threads are short, fewer threads measure, or cached
 * is chosen. INVALID, with a message: LEAT_COPY_STORE_POLICY has another value.
 */
leat_status leati_staging_choose(struct leati_workers *workers, void *slot, size_t slot_bytes, unsigned threads,
                                 struct leati_staging_choice *choice);

/* Only the measurement. If threads is above 1, workers must have threads reserved for copies. */
void leati_staging_probe(struct leati_workers *workers, void *slot, size_t slot_bytes, unsigned threads,
                         struct leati_staging_choice *choice);

#endif
