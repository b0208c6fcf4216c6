/*
 * handshake.h - what the two ends of a new connection exchange before it becomes a link: who they are, proofs that
 * both know the key, parameters, and the halves of the keys of an encrypted link.
 *
 * The messages have fixed sizes, and numbers are little-endian. C is the end that connects, L the end that
 * listens.
 *
 *     C to L   hello, 96 bytes
 *     L to C   hello
 *     C to L   proof, 40 bytes
 *     L to C   proof, or the reason of a refusal
 *
 *     hello:  0 "leat-net"   8 u32 version   12 u8 role: 1 C, 2 L   13 u8 flags: 1 has a key, 2 wants and has UCX,
 *             4 wants encryption   14 u16 0   16 u64 idle timeout in ns   24 u64 0   32 nonce, 32 random bytes
 *             64 the public key of a pair that is made for this connection, of X25519, 32 bytes
 *     proof:  0 u32 verdict: 0 accepted, 1 another key   4 u32 0   8 proof, 32 bytes
 *
 * The first 12 bytes of a hello are the same in all versions, so that ends of two versions can name both of them.
 *
 * A proof is HMAC-SHA-256, with a key that is derived from the user's, of the sender's role and of both hellos.
 * So a proof is worth nothing on another connection, whose nonces differ, nor for the other end, whose role
 * differs, and a hello that was changed on its way makes the proofs fail. C proves first: whoever only connects to
 * a listener gets nothing that he could use to try keys.
 *
 * If one end wants encryption, and it needs a key for that, the link is encrypted (cipher.h). The keys of its two
 * directions are keyed hashes of the role of the sender, of the secret that the two pairs have in common, and of
 * both hellos. So a recorded connection cannot be decrypted even if the user's key becomes known later. The proofs
 * cover the hellos, so nobody can replace a public key or a flag.
 *
 * The state machine below knows no socket: it says what to read and what to write. It keeps no memory.
 */
#ifndef LEATN_HANDSHAKE_H
#define LEATN_HANDSHAKE_H

#include "cipher.h"
#include "crypto.h"

#include <leat/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LEATN_VERSION = 3, LEATN_HELLO_BYTES = 96, LEATN_PROOF_BYTES = 40, LEATN_NONCE_BYTES = 32 };

/* What the proofs need of the user's key. */
struct leatn_secret {
    bool given; /* false: there is no key, and the proofs use one that is known to everybody */
    unsigned char key[LEATN_HASH_BYTES]; /* derived from the user's key */
};

enum leatn_handshake_step {
    LEATN_HANDSHAKE_HELLO,  /* the hello of the other end is next */
    LEATN_HANDSHAKE_PROOF,  /* the proof of the other end is next */
    LEATN_HANDSHAKE_DONE,   /* successful when all bytes are written */
    LEATN_HANDSHAKE_FAILED, /* failed, as why says; what is left to write tells the other end the reason */
};

struct leatn_handshake {
    const struct leatn_secret *secret;
    bool connected; /* this end is C */
    enum leatn_handshake_step step;
    unsigned char connector[LEATN_HELLO_BYTES], listener[LEATN_HELLO_BYTES]; /* the hellos */
    unsigned char in[LEATN_HELLO_BYTES], out[LEATN_HELLO_BYTES];
    size_t in_bytes, out_at, out_bytes;
    struct leatn_pair pair; /* of this connection; erased at the end */
    char why[240];          /* why it failed */
    /* Of the other end, valid when it is done. */
    uint64_t peer_idle_timeout_ns;
    bool ucx;                       /* both ends want and have UCX */
    bool encrypt;                   /* one end wants encryption */
    struct leatn_session_keys keys; /* if so; leatn_handshake_erase() */
};

/* Derives the secret. key NULL: there is none. Returns 0 or a negative errno (crypto.h). */
int leatn_secret_derive(struct leatn_secret *secret, const void *key, size_t key_bytes);

/* What an end says of itself. */
struct leatn_handshake_wishes {
    uint64_t idle_timeout_ns;
    bool ucx;     /* wants and has UCX */
    bool encrypt; /* wants encryption; the secret is then given */
};

/* Starts a handshake. It has failed at once if libcrypto fails. The secret must live as long. */
void leatn_handshake_start(struct leatn_handshake *shake, const struct leatn_secret *secret, bool connected,
                           const struct leatn_handshake_wishes *wishes);

/* Erases the keys of a handshake that is not needed any more. */
void leatn_handshake_erase(struct leatn_handshake *shake);

/* Return how many bytes to read or write next, and their place; 0: none. Nothing is read while there is something
 * to write. */
size_t leatn_handshake_to_read(struct leatn_handshake *shake, void **at);
size_t leatn_handshake_to_write(const struct leatn_handshake *shake, const void **at);

/* Tell that bytes were read or written; not more than the functions above have returned. */
void leatn_handshake_was_read(struct leatn_handshake *shake, size_t bytes);
void leatn_handshake_was_written(struct leatn_handshake *shake, size_t bytes);

/* Tell that the other end has closed the connection, or that the socket failed with this errno. */
void leatn_handshake_was_closed(struct leatn_handshake *shake, int error);

/* Ends the handshake because its time is over. */
void leatn_handshake_was_late(struct leatn_handshake *shake, uint64_t after_ns);

/* Returns LEAT_OK: it is done; LEAT_NOT_READY: there is more to read or write; LINK: it has failed. */
leat_status leatn_handshake_state(const struct leatn_handshake *shake);

/* Reads and writes on a non-blocking socket until it would have to wait. Returns the state, and sets no message.
 */
leat_status leatn_handshake_run(struct leatn_handshake *shake, int fd);

/* Returns the event to poll() for. */
short leatn_handshake_event(const struct leatn_handshake *shake);

#endif
