/*
 * addresses.h - handles a limit on this process's address space ('ulimit -v', RLIMIT_AS).
 *
 * leat reserves address ranges that are far larger than the memory it will use in them. Without a limit that costs
 * nothing. But a limit counts reserved addresses too, so under a limit each range gets only a share of the
 * addresses that are left.
 */
#ifndef LEATI_ADDRESSES_H
#define LEATI_ADDRESSES_H

#include <stddef.h>
#include <stdint.h>

/* Returns how many bytes of addresses this process may still map; UINT64_MAX without a limit. Makes system
 * calls. */
uint64_t leati_addresses_left(void);

/* Returns how many bytes of addresses to reserve. Without a limit this is wanted_bytes. Under a limit it is at
 * most 1/parts of the addresses that are left, or least_bytes if that is more. */
size_t leati_addresses_share(size_t wanted_bytes, unsigned parts, size_t least_bytes);

/* Returns text to append to a message: "; 'ulimit -v' limits this process to ... KiB of addresses, ... are in use:
 * raise it if that is what is missing", or "" without a limit. */
struct leati_addresses_hint {
    char text[200];
};
const char *leati_addresses_hint(struct leati_addresses_hint *hint);

#endif
