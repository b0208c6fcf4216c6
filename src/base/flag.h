/* flag.h - lets a thread sleep until another thread of this process changes a flag: a number in memory. */
#ifndef LEATI_FLAG_H
#define LEATI_FLAG_H

#include <stdatomic.h>
#include <stdint.h>

/* Sleeps while *flag is seen, at most most_ns. May also return earlier. A writer that does not call
 * leati_flag_wake() is noticed at the end of most_ns. */
void leati_flag_sleep(_Atomic uint32_t *flag, uint32_t seen, uint32_t most_ns);

/* Wakes the threads that sleep for the flag. Call it after the change, which must be sequentially consistent.
 * Costs a load if no thread sleeps for any flag. Only uses the address, so the flag's memory may be gone. */
void leati_flag_wake(_Atomic uint32_t *flag);

#endif
