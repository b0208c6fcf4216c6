/*
 * live_read.h - finds and reads the live counters of processes that record a trace (src/trace/live_file.h).
 *
 * The counters come from another process, which may be hostile: they are read by a system call and not mapped, and
 * all texts in them are ended and cleaned.
 */
#ifndef CLI_LIVE_READ_H
#define CLI_LIVE_READ_H

#include "live_file.h"

#include <stdbool.h>
#include <stddef.h>

enum { LIVE_ERROR_MAX = 256, LIVE_PROGRAM_MAX = 256 };

enum live_state {
    LIVE_READ,   /* *live is filled */
    LIVE_ABSENT, /* the process does not record a trace */
    LIVE_GONE,   /* there is no such process */
    LIVE_FAILED  /* something is wrong; error says what */
};

/* Reads the counters of a process. error is set unless LIVE_READ is returned. */
enum live_state live_read(long pid, struct leati_live *live, char error[LIVE_ERROR_MAX]);

/* Calls found for each process whose counters can be read. Returns false with error set if the processes cannot be
 * listed. */
bool live_each(void (*found)(void *context, long pid, const struct leati_live *live), void *context,
               char error[LIVE_ERROR_MAX]);

/* Writes the path of the program of a process; "?" if it cannot be read. Returns program. */
const char *live_program(long pid, char program[LIVE_PROGRAM_MAX]);

#endif
