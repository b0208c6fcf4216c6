/*
 * carrier.h - moves the payload of a link by UCX (ucx.h) instead of its socket.
 *
 * The socket stays: it carries all frames but DATA. First each end sends ADDRESS, the address of its UCX worker.
 * Then a fragment is a frame CARRIED {receive, offset, bytes} on the socket and one block of these bytes by UCX.
 * Blocks have consecutive numbers in each direction, in the order of their CARRIED frames; both ends count.
 *
 * Memory. A block has 1 MiB of the carrier's own memory, which is registered with the network card once; a small
 * fragment has memory of its size. A worker
 * of leat's copies between it and the memory that move() gets. So move() can return while UCX still sends, several
 * blocks of one copy are under way, and memory of leat's is never in UCX's hands when a copy ends early. A receive
 * takes blocks as it takes the pieces of its stash, so it needs at most window_bytes of them.
 *
 * Ends. The payload that follows CARRIED always comes: a receive that has ended gets its blocks too, and drops
 * them. BYE takes effect when the payload of all earlier frames is there. The end that closes keeps its worker
 * until the other end has closed the socket.
 *
 * The caller of all functions holds link->lock, if a comment does not say otherwise.
 */
#ifndef LEATN_CARRIER_H
#define LEATN_CARRIER_H

#include "message.h"

/* Makes the carrier of a new link, which no other thread knows yet. leatn_carrier_begin() then lets it work, when
 * the loop knows the link. Without the lock. Errors: as leatn_ucx_worker_create(). */
leat_status leatn_carrier_create(leat_link *link);
void leatn_carrier_begin(leat_link *link);

/* Frees the carrier of a link that was not begun, or that the last holder releases. NULL does nothing. Without the
 * lock. */
void leatn_carrier_free(struct leatn_carrier *carrier);

/* The loop does not use the link any more: ends UCX's part, soon. */
void leatn_carrier_end(leat_link *link);

/* Acts on the frames of the other end. CARRIED: op may be NULL, then the payload is dropped;
 * leatn_message_carried() is called when the payload is there, and not at all if the link fails before. */
void leatn_carrier_take_address(leat_link *link, const void *address, size_t bytes);
void leatn_carrier_take(leat_link *link, struct leatn_op *op, size_t bytes);

/* BYE has come. Returns true if payload of earlier frames is not there yet: leatn_message_bye() is then called
 * later. */
bool leatn_carrier_defers_bye(leat_link *link);

/* Returns true between the two. */
bool leatn_carrier_has_bye(const leat_link *link);

/* Sends up to bytes bytes of a send as a fragment, and gives the lock up for a while. Returns how many, at most
 * LEATN_FRAGMENT_MAX and the credit; 0: the send waits in link->waiters for a free block, or has ended. */
size_t leatn_carrier_send(leat_link *link, struct leatn_op *op, const void *memory, size_t bytes);

/* Gives the block of a stash piece back. */
void leatn_carrier_give_back(leat_link *link, struct leatn_stash *stash);

#endif
