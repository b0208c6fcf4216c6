/* crypto.c - the calls of OpenSSL's libcrypto (crypto.h). */
#include "crypto.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>

/* Once made, it stays until the process ends. All methods are fetched at the beginning: a context in which a fetch
 * failed for lack of memory may not find the method later either. */
struct library {
    OSSL_LIB_CTX *context;
    EVP_CIPHER *cipher;
    EVP_MAC *hmac;
    EVP_MD *sha256;
    EVP_KEYMGMT *keys;
    EVP_KEYEXCH *agreement;
};

static _Atomic(struct library *) shared;

static void free_library(struct library *library)
{
    if (!library)
        return;
    EVP_KEYEXCH_free(library->agreement);
    EVP_KEYMGMT_free(library->keys);
    EVP_MD_free(library->sha256);
    EVP_MAC_free(library->hmac);
    EVP_CIPHER_free(library->cipher);
    OSSL_LIB_CTX_free(library->context);
    free(library);
}

static struct library *make_library(void)
{
    struct library *made = calloc(1, sizeof *made);

    if (!made) {
        ERR_raise(ERR_LIB_CRYPTO, ERR_R_MALLOC_FAILURE); /* for end_failed() */
        return NULL;
    }
    made->context = OSSL_LIB_CTX_new();
    if (made->context) { /* NULL would stand for the program's */
        made->cipher = EVP_CIPHER_fetch(made->context, "ChaCha20-Poly1305", NULL);
        made->hmac = EVP_MAC_fetch(made->context, "HMAC", NULL);
        made->sha256 = EVP_MD_fetch(made->context, "SHA256", NULL);
        made->keys = EVP_KEYMGMT_fetch(made->context, "X25519", NULL);
        made->agreement = EVP_KEYEXCH_fetch(made->context, "X25519", NULL);
    }
    if (made->cipher && made->hmac && made->sha256 && made->keys && made->agreement)
        return made;
    free_library(made);
    return NULL;
}

/* Returns NULL if it cannot be made now; the next call tries again. */
static const struct library *get_library(void)
{
    struct library *made, *present = atomic_load_explicit(&shared, memory_order_acquire);

    if (present)
        return present;
    made = make_library();
    if (!made)
        return NULL;
    if (atomic_compare_exchange_strong_explicit(&shared, &present, made, memory_order_acq_rel,
                                                memory_order_acquire))
        return made;
    free_library(made); /* another thread was faster */
    return present;
}

/* Returns the errno of the failure that this thread's queue of errors ends with, and removes what came after
 * ERR_set_mark() from the queue. */
static int end_failed(void)
{
    int failed = ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_MALLOC_FAILURE ? -ENOMEM : -ENOTSUP;

    ERR_pop_to_mark();
    return failed;
}

static int end(bool worked)
{
    if (!worked)
        return end_failed();
    ERR_pop_to_mark();
    return 0;
}

int leatn_crypto_random(void *bytes, size_t count)
{
    ssize_t made;

    do
        made = getrandom(bytes, count, 0);
    while (made < 0 && errno == EINTR);
    return made == (ssize_t)count ? 0 : made < 0 ? -errno : -EIO;
}

/* ---- keyed hashes ---- */

static bool hash_parts(EVP_MAC_CTX *context, const void *key, size_t key_bytes, const struct iovec *parts,
                       size_t count, unsigned char *hash)
{
    const OSSL_PARAM how[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)"SHA256", 0),
                              OSSL_PARAM_construct_end()};
    size_t bytes = 0;

    if (EVP_MAC_init(context, key, key_bytes, how) <= 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (EVP_MAC_update(context, parts[i].iov_base, parts[i].iov_len) <= 0)
            return false;
    return EVP_MAC_final(context, hash, &bytes, LEATN_HASH_BYTES) > 0 && bytes == LEATN_HASH_BYTES;
}

int leatn_crypto_hash(const void *key, size_t key_bytes, const struct iovec *parts, size_t count,
                      unsigned char hash[LEATN_HASH_BYTES])
{
    const struct library *library;
    EVP_MAC_CTX *context;
    bool worked;

    ERR_set_mark();
    library = get_library();
    context = library ? EVP_MAC_CTX_new(library->hmac) : NULL;
    worked = context && hash_parts(context, key, key_bytes, parts, count, hash);
    EVP_MAC_CTX_free(context);
    return end(worked);
}

/* ---- pairs of keys ---- */

/* Returns a key of X25519: a pair, or only its public key if own is NULL; the public key is computed if open is
 * NULL. EVP_PKEY_new_raw_private_key_ex() would do the same, but ends the process after OpenSSL's cleanup at
 * exit(). */
static EVP_PKEY *import(const unsigned char *secret, const unsigned char *open)
{
    const struct library *library = get_library();
    EVP_PKEY_CTX *context = library ? EVP_PKEY_CTX_new_from_name(library->context, "X25519", NULL) : NULL;
    OSSL_PARAM given[3], *next = given;
    EVP_PKEY *key = NULL;

    if (secret)
        *next++ = OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PRIV_KEY, (void *)secret, LEATN_PAIR_BYTES);
    if (open)
        *next++ = OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, (void *)open, LEATN_PAIR_BYTES);
    *next = OSSL_PARAM_construct_end();
    if (!context || EVP_PKEY_fromdata_init(context) <= 0 ||
        EVP_PKEY_fromdata(context, &key, secret ? EVP_PKEY_KEYPAIR : EVP_PKEY_PUBLIC_KEY, given) <= 0)
        key = NULL;
    EVP_PKEY_CTX_free(context);
    return key;
}

int leatn_crypto_make_pair(struct leatn_pair *pair)
{
    int failed = leatn_crypto_random(pair->secret, sizeof pair->secret);
    size_t bytes = 0;
    EVP_PKEY *key;
    bool worked;

    if (failed)
        return failed;
    ERR_set_mark();
    key = import(pair->secret, NULL);
    worked = key && EVP_PKEY_get_octet_string_param(key, OSSL_PKEY_PARAM_PUB_KEY, pair->open, sizeof pair->open,
                                                    &bytes) > 0;
    EVP_PKEY_free(key);
    return end(worked && bytes == sizeof pair->open);
}

/* Returns 0, -1: libcrypto fails, or -EBADMSG. */
static int derive(EVP_PKEY *key, EVP_PKEY *other, unsigned char *common)
{
    const struct library *library = get_library();
    EVP_PKEY_CTX *context = library ? EVP_PKEY_CTX_new_from_pkey(library->context, key, NULL) : NULL;
    size_t bytes = LEATN_PAIR_BYTES;
    int failed = -1;

    if (context && EVP_PKEY_derive_init(context) > 0 && EVP_PKEY_derive_set_peer(context, other) > 0) {
        if (EVP_PKEY_derive(context, common, &bytes) > 0 && bytes == LEATN_PAIR_BYTES)
            failed = 0;
        else if (ERR_GET_REASON(ERR_peek_last_error()) != ERR_R_MALLOC_FAILURE)
            failed = -EBADMSG;
    }
    EVP_PKEY_CTX_free(context);
    return failed;
}

int leatn_crypto_agree(const struct leatn_pair *pair, const unsigned char open[LEATN_PAIR_BYTES],
                       unsigned char common[LEATN_PAIR_BYTES])
{
    EVP_PKEY *key, *other;
    int failed;

    ERR_set_mark();
    key = import(pair->secret, pair->open);
    other = import(NULL, open);
    failed = key && other ? derive(key, other, common) : -1;
    EVP_PKEY_free(key);
    EVP_PKEY_free(other);
    if (failed != -EBADMSG)
        return end(!failed);
    ERR_pop_to_mark();
    return failed;
}

/* ---- the cipher of the records ---- */

EVP_CIPHER_CTX *leatn_crypto_cipher(const unsigned char key[LEATN_CIPHER_KEY_BYTES], bool encrypts)
{
    const struct library *library;
    EVP_CIPHER_CTX *context;

    ERR_set_mark();
    library = get_library();
    context = library ? EVP_CIPHER_CTX_new() : NULL;
    if (context && EVP_CipherInit_ex2(context, library->cipher, key, NULL, encrypts, NULL) <= 0) {
        EVP_CIPHER_CTX_free(context);
        context = NULL;
    }
    ERR_pop_to_mark();
    return context;
}
