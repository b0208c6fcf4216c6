/*
 * addresses.h - the limit on this process's address space ('ulimit -v', RLIMIT_AS).
 *
 * leat reserves address ranges that are far larger than the memory it will use in them. That costs nothing, unless
 * such a limit counts reserved addresses too. Then each range gets only a share of what the limit leaves.
 */
#ifndef LEATI_ADDRESSES_H
#define LEATI_ADDRESSES_H

#include <stddef.h>
#include <stdint.h>

/* The bytes that this process may still map; UINT64_MAX without a limit. Asks the system. */
uint64_t leati_addresses_left(void);

/* wanted_bytes, but under a limit at most one part in parts of what is left, and never less than least_bytes. */
size_t leati_addresses_share(size_t wanted_bytes, unsigned parts, size_t least_bytes);

/* For the end of a message: "; 'ulimit -v' limits this process to ... KiB of addresses, ... are in use: raise it
 * if that is what is missing", or "" without a limit. */
struct leati_addresses_hint {
    char text[200];
};
const char *leati_addresses_hint(struct leati_addresses_hint *hint);

#endif
