/*
 * mem_limit.h - how much host memory this process can still get before the system has to end some process.
 *
 * Linux grants addresses freely and counts only when pages are touched, and the answer to too many is a killed
 * process and no error. Who touches gigabytes at once asks here first.
 */
#ifndef LEATI_MEM_LIMIT_H
#define LEATI_MEM_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct leati_mem_limit {
    uint64_t bytes;  /* UINT64_MAX where nothing says */
    char whose[256]; /* who has the least: "this machine", "the control group /jobs/7" */
    bool is_group;   /* that is a control group */
};

/*
 * The least of what the kernel expects to be available and what is left below the limits of the control groups
 * (version 1 and 2) that this process is in, file cache that can be dropped included. The answer may be too low
 * where it is above enough_bytes: who knows that there is enough needs no exact figure, and that costs less. root:
 * "", or a folder with proc/ and sys/ of its own.
 */
void leati_mem_limit_get(const char *root, uint64_t enough_bytes, struct leati_mem_limit *available);

/* The same of the control groups alone; UINT64_MAX where none has a limit. */
void leati_mem_limit_of_groups(const char *root, struct leati_mem_limit *available);

#endif
