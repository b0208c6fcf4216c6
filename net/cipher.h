/*
 * cipher.h - encrypts what the two ends of a link send after the handshake.
 *
 * All bytes of one direction, frames and payload alike, are cut into records:
 *
 *     u32 bytes of the text, 1 to 65536, little-endian; the text, encrypted; 16 bytes that authenticate both
 *
 * by ChaCha20-Poly1305 (RFC 8439) with a key for each direction, which the handshake makes anew for each
 * connection (handshake.h). The nonce is the number of the record. So a record that was changed, left out,
 * repeated or moved does not decrypt, and the link fails. A connection that is cut is detected too: the last
 * frame, BYE, is missing.
 *
 * A child of fork() has the keys and the number of the next record too. It must not send, since two records with
 * one nonce give their texts away; leatn_cipher_send() refuses it.
 *
 * One thread at a time may send, and one may receive: those that may use the socket for it (net_link.h).
 */
#ifndef LEATN_CIPHER_H
#define LEATN_CIPHER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { LEATN_RECORD_TEXT_MAX = 64 << 10, LEATN_SESSION_KEY_BYTES = 32 };

/* The keys of one connection, as one end uses them. */
struct leatn_session_keys {
    unsigned char send[LEATN_SESSION_KEY_BYTES], receive[LEATN_SESSION_KEY_BYTES];
};

struct leatn_cipher;

/* Copies the keys. NULL: no memory, or libcrypto fails. */
struct leatn_cipher *leatn_cipher_create(const struct leatn_session_keys *keys);

/* Erases the keys and what was not fetched. NULL does nothing. */
void leatn_cipher_free(struct leatn_cipher *cipher);

/* Encrypts bytes of the parts, 256 KiB at most, and sends them on a non-blocking socket. What the socket does not
 * take is kept, and the next call or leatn_cipher_flush() sends it. Returns how many bytes of the parts were
 * taken, at least 1, or a negative errno: -EAGAIN if bytes of earlier calls are still kept; -EPERM in a child of
 * fork(); -EIO if libcrypto fails, or has failed before. */
ssize_t leatn_cipher_send(struct leatn_cipher *cipher, int fd, const struct iovec *parts, size_t count);

/* Sends what is kept. Returns 0 if nothing is kept any more, or a negative errno. */
int leatn_cipher_flush(struct leatn_cipher *cipher, int fd);

/* Returns true if bytes are kept. */
bool leatn_cipher_keeps(const struct leatn_cipher *cipher);

/* Receives and decrypts at most bytes bytes, of which there is at least one. Returns their number; 0 if the other
 * end sends nothing more; or a negative errno: -EAGAIN if nothing is left that could be decrypted without waiting
 * for the socket, -EBADMSG if a record is wrong, -EIO if libcrypto fails. Until the call returns, memory may hold
 * text that is not authentic; then zeros are in its place. */
ssize_t leatn_cipher_receive(struct leatn_cipher *cipher, int fd, void *memory, size_t bytes);

/* Returns true if bytes came from the socket since the last call, also such that do not complete a record. */
bool leatn_cipher_heard(struct leatn_cipher *cipher);

#endif
