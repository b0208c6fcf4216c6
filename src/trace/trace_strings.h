/* trace_strings.h - numbers the strings of traces: names of calls, kernels, ranges, callers and devices. */
#ifndef LEATI_TRACE_STRINGS_H
#define LEATI_TRACE_STRINGS_H

#include <stdint.h>

/* Returns the number of a text, for the life of the process; LEATI_TRACE_STRING_FULL if there is no room for
 * another one. Takes no lock if the text has a number. */
uint32_t leati_trace_string(const char *text);

/* The numbers are 1 to this. */
uint32_t leati_trace_string_count(void);

/* Returns the text with this number, and its length. */
const char *leati_trace_string_text(uint32_t number, uint32_t *bytes);

/* Returns how often there was no room. */
uint64_t leati_trace_strings_lost(void);

/* In a child of fork(), where another thread of the parent may have held the lock. */
void leati_trace_strings_fork(void);

#endif
