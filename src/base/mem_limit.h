/*
 * mem_limit.h - finds how much host memory this process can still use before the kernel runs out of memory and
 * kills a process.
 *
 * Linux overcommits: allocating addresses succeeds, and memory is taken only when pages are touched. If there is
 * not enough memory at that moment, the kernel kills a process, and no call returns an error. So code that touches
 * gigabytes at once must ask here first.
 */
#ifndef LEATI_MEM_LIMIT_H
#define LEATI_MEM_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct leati_mem_limit {
    uint64_t bytes;  /* memory that is left; UINT64_MAX if unknown */
    char whose[256]; /* whose limit this is: "this machine", "the control group /jobs/7" */
    bool is_group;   /* true: the limit of a control group */
};

/*
 * Fills *available with the minimum of two values: what the kernel expects to be available, and what the control
 * groups (version 1 and 2) of this process still allow. Both count file cache that can be dropped as available. If
 * the result is above enough_bytes, the true value may be even higher, because leat then saves the time for an
 * exact answer. root: "", or a folder with its own proc/ and sys/, for tests.
 */
void leati_mem_limit_get(const char *root, uint64_t enough_bytes, struct leati_mem_limit *available);

/* Like leati_mem_limit_get(), but for the control groups only; bytes is UINT64_MAX if no group has a limit. */
void leati_mem_limit_of_groups(const char *root, struct leati_mem_limit *available);

#endif
