/*
 * crypto.h - the calls of OpenSSL's libcrypto that the handshake and the records need.
 *
 * The program may use OpenSSL too. So that neither notices the other:
 *
 * - leat has a library context of its own. The program's configuration, providers and default properties do not
 *   change what links use. The context is never freed, because threads of links run until the process ends, and
 *   OpenSSL's cleanup at exit() does not free it either.
 * - The functions below leave the thread's queue of errors as it was.
 * - Random bytes are the kernel's: a program can replace or clean up OpenSSL's generator.
 *
 * Unless it says otherwise, a function returns 0 or a negative errno: -ENOMEM, or -ENOTSUP if libcrypto fails for
 * another reason, such as an algorithm that it was built without. All functions may be called by any thread.
 */
#ifndef LEATN_CRYPTO_H
#define LEATN_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include <openssl/types.h>

enum { LEATN_HASH_BYTES = 32, LEATN_PAIR_BYTES = 32, LEATN_CIPHER_KEY_BYTES = 32 };

/* A pair of keys of X25519. */
struct leatn_pair {
    unsigned char secret[LEATN_PAIR_BYTES], open[LEATN_PAIR_BYTES]; /* the private and the public key */
};

/* Makes random bytes, at most 256. Returns 0, or the negative errno of getrandom(). */
int leatn_crypto_random(void *bytes, size_t count);

/* Computes HMAC-SHA-256 of the parts, one after the other. The key has at least one byte. */
int leatn_crypto_hash(const void *key, size_t key_bytes, const struct iovec *parts, size_t count,
                      unsigned char hash[LEATN_HASH_BYTES]);

/* Makes a new pair. */
int leatn_crypto_make_pair(struct leatn_pair *pair);

/* Computes the secret that two pairs have in common, from one of them and the public key of the other one.
 * -EBADMSG: that is no public key, because the secret would be 0 with each pair. */
int leatn_crypto_agree(const struct leatn_pair *pair, const unsigned char open[LEATN_PAIR_BYTES],
                       unsigned char common[LEATN_PAIR_BYTES]);

/* Returns a context of ChaCha20-Poly1305 (RFC 8439) with this key, to encrypt or to decrypt. It needs only a nonce
 * for each message. Free it by EVP_CIPHER_CTX_free(), which erases the key. NULL: no memory, or libcrypto fails.
 */
EVP_CIPHER_CTX *leatn_crypto_cipher(const unsigned char key[LEATN_CIPHER_KEY_BYTES], bool encrypts);

#endif
