/* record.h - LEAT_RECORD_ALLOCATIONS: writes what the hook is told to a file. docs/traces.md has the format. */
#ifndef LEATI_RECORD_H
#define LEATI_RECORD_H

/* Starts recording if the variable is set; called once, before anything is allocated. Never fails: what goes wrong
 * is said on standard error, once, and then nothing is recorded. */
void leati_record_begin(void);

#endif
