/* record.h - LEAT_RECORD_ALLOCATIONS: writes all calls of the hook (hooks.h) to a file. Format: docs/traces.md. */
#ifndef LEATI_RECORD_H
#define LEATI_RECORD_H

/* Starts recording if the variable is set. Call it once, before anything is allocated. It never fails: if
 * something goes wrong, it prints one message to standard error, and nothing is recorded. */
void leati_record_begin(void);

#endif
