/* handshake.c - the messages that prove a key at the start of a connection (handshake.h). */
#include "handshake.h"

#include "net.h"
#include "net_socket.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static const unsigned char magic[8] = {'l', 'e', 'a', 't', '-', 'n', 'e', 't'};

/* Offsets in the messages. */
enum {
    AT_VERSION = 8,
    AT_ROLE = 12,
    AT_FLAGS = 13,
    AT_IDLE = 16,
    AT_NONCE = 32,
    AT_PUBLIC = 64,
    PREFIX_BYTES = 12, /* of a hello, the same in all versions */
    AT_VERDICT = 0,
    AT_PROOF = 8
};
enum { ROLE_CONNECTOR = 1, ROLE_LISTENER = 2 };
enum { FLAG_KEY = 1, FLAG_UCX = 2, FLAG_ENCRYPT = 4 };
enum { VERDICT_ACCEPTED = 0, VERDICT_OTHER_KEY = 1 };

_Static_assert((int)LEATN_HASH_BYTES == LEATN_PROOF_BYTES - AT_PROOF, "a proof is a keyed hash");
_Static_assert((int)LEATN_HASH_BYTES == LEATN_SESSION_KEY_BYTES, "the keys of the records are keyed hashes");
_Static_assert(LEATN_PAIR_BYTES == LEATN_HELLO_BYTES - AT_PUBLIC, "a hello ends with a public key");

/* A text for each use of the hash, so that none can stand in for one of another use. */
static const unsigned char use_secret[] = "leat-net: key of the proofs", use_proof[] = "leat-net: proof",
                           use_records[] = "leat-net: key of the records";

/* A part of what is hashed. */
static struct iovec part(const void *bytes, size_t count)
{
    return (struct iovec){(void *)bytes, count};
}

int leatn_secret_derive(struct leatn_secret *secret, const void *key, size_t key_bytes)
{
    const struct iovec given = part(key, key ? key_bytes : 0);

    secret->given = key != NULL;
    return leatn_crypto_hash(use_secret, sizeof use_secret, &given, 1, secret->key);
}

static void __attribute__((format(printf, 2, 3))) fail(struct leatn_handshake *shake, const char *format, ...)
{
    va_list args;

    shake->step = LEATN_HANDSHAKE_FAILED;
    va_start(args, format);
    vsnprintf(shake->why, sizeof shake->why, format, args);
    va_end(args);
}

/* Fails if this is an errno of crypto.h. Returns true if it is 0. */
static bool worked(struct leatn_handshake *shake, int failed, const char *what)
{
    if (failed)
        fail(shake, "OpenSSL's libcrypto could not make %s: %s", what, strerror(-failed));
    return !failed;
}

/* ---- messages of this end ---- */

static void set_out(struct leatn_handshake *shake, const void *bytes, size_t count)
{
    memcpy(shake->out, bytes, count);
    shake->out_at = 0;
    shake->out_bytes = count;
}

static void make_hello(struct leatn_handshake *shake, unsigned char *hello,
                       const struct leatn_handshake_wishes *wishes)
{
    const uint32_t version = LEATN_VERSION;
    int failed;

    memset(hello, 0, LEATN_HELLO_BYTES);
    memcpy(hello, magic, sizeof magic);
    memcpy(hello + AT_VERSION, &version, sizeof version);
    hello[AT_ROLE] = shake->connected ? ROLE_CONNECTOR : ROLE_LISTENER;
    hello[AT_FLAGS] = (unsigned char)((shake->secret->given ? FLAG_KEY : 0) | (wishes->ucx ? FLAG_UCX : 0) |
                                      (wishes->encrypt ? FLAG_ENCRYPT : 0));
    memcpy(hello + AT_IDLE, &wishes->idle_timeout_ns, sizeof wishes->idle_timeout_ns);
    failed = leatn_crypto_random(hello + AT_NONCE, LEATN_NONCE_BYTES);
    if (failed)
        fail(shake, "the system gave no random bytes: getrandom(): %s", strerror(-failed));
    else if (worked(shake, leatn_crypto_make_pair(&shake->pair), "a pair of keys"))
        memcpy(hello + AT_PUBLIC, shake->pair.open, LEATN_PAIR_BYTES);
}

/* Computes the proof of the end with this role. Returns false if the handshake has failed. */
static bool make_proof(struct leatn_handshake *shake, unsigned char role, unsigned char *proof)
{
    const struct iovec parts[] = {part(use_proof, sizeof use_proof), part(&role, 1),
                                  part(shake->connector, LEATN_HELLO_BYTES),
                                  part(shake->listener, LEATN_HELLO_BYTES)};

    return worked(shake, leatn_crypto_hash(shake->secret->key, sizeof shake->secret->key, parts, 4, proof),
                  "a proof");
}

static void send_proof(struct leatn_handshake *shake, uint32_t verdict)
{
    unsigned char message[LEATN_PROOF_BYTES] = {0}, own = shake->connected ? ROLE_CONNECTOR : ROLE_LISTENER;

    memcpy(message + AT_VERDICT, &verdict, sizeof verdict);
    if (verdict != VERDICT_ACCEPTED || make_proof(shake, own, message + AT_PROOF))
        set_out(shake, message, sizeof message);
}

void leatn_handshake_start(struct leatn_handshake *shake, const struct leatn_secret *secret, bool connected,
                           const struct leatn_handshake_wishes *wishes)
{
    memset(shake, 0, sizeof *shake);
    shake->secret = secret;
    shake->connected = connected;
    shake->ucx = wishes->ucx;
    shake->encrypt = wishes->encrypt;
    make_hello(shake, connected ? shake->connector : shake->listener, wishes);
    if (connected && shake->step != LEATN_HANDSHAKE_FAILED)
        set_out(shake, shake->connector, LEATN_HELLO_BYTES);
}

/* ---- messages of the other end ---- */

/* Checks the part of the other end's hello that all versions have, as far as it has come, so that a foreign
 * program is noticed at its first wrong byte. */
static void check_prefix(struct leatn_handshake *shake)
{
    size_t known = shake->in_bytes < sizeof magic ? shake->in_bytes : sizeof magic;
    struct leatc_shown shown;
    uint32_t version;

    if (memcmp(shake->in, magic, known) != 0) {
        fail(shake, "the other end is no leat: it sent '%s'",
             leatc_shown(&shown, (const char *)shake->in, shake->in_bytes));
        return;
    }
    if (shake->in_bytes < PREFIX_BYTES)
        return;
    memcpy(&version, shake->in + AT_VERSION, sizeof version);
    if (version == LEATN_VERSION)
        return;
    fail(shake,
         "the other end has version %u of the protocol, and this end version %u: use the same leat at both ends",
         (unsigned)version, (unsigned)LEATN_VERSION);
    if (!shake->connected)
        set_out(shake, shake->listener, LEATN_HELLO_BYTES);
}

/* Takes the whole hello of the other end, whose prefix is right. */
static void take_hello(struct leatn_handshake *shake)
{
    unsigned char *hello = shake->connected ? shake->listener : shake->connector;
    bool key;

    memcpy(hello, shake->in, LEATN_HELLO_BYTES);
    shake->in_bytes = 0;
    memcpy(&shake->peer_idle_timeout_ns, hello + AT_IDLE, sizeof shake->peer_idle_timeout_ns);
    shake->encrypt = shake->encrypt || (hello[AT_FLAGS] & FLAG_ENCRYPT);
    shake->ucx = shake->ucx && (hello[AT_FLAGS] & FLAG_UCX) && !shake->encrypt;
    key = hello[AT_FLAGS] & FLAG_KEY;
    /* A listener also answers a hello that it refuses, so that the other end can tell the reason. */
    if (!shake->connected)
        set_out(shake, shake->listener, LEATN_HELLO_BYTES);
    if (hello[AT_ROLE] != (shake->connected ? ROLE_LISTENER : ROLE_CONNECTOR))
        fail(
            shake,
            "the other end says that it %s too: something sends this end's bytes back, or both ends have the same part",
            shake->connected ? "connects" : "listens");
    else if (key != shake->secret->given)
        fail(shake, "%s has a key, and %s has none: give both the same key, or none (unix: only)",
             key ? "the other end" : "this end", key ? "this end" : "the other end");
    else if (!shake->peer_idle_timeout_ns)
        fail(shake, "the other end sent an idle timeout of 0, which no leat does");
    else
        shake->step = LEATN_HANDSHAKE_PROOF;
    if (shake->step == LEATN_HANDSHAKE_PROOF && shake->connected)
        send_proof(shake, VERDICT_ACCEPTED);
}

/* Derives the key of what the end with this role sends. Returns false if the handshake has failed. */
static bool derive_key(struct leatn_handshake *shake, unsigned char role, const unsigned char *common,
                       unsigned char *key)
{
    const struct iovec parts[] = {part(use_records, sizeof use_records), part(&role, 1),
                                  part(common, LEATN_PAIR_BYTES), part(shake->connector, LEATN_HELLO_BYTES),
                                  part(shake->listener, LEATN_HELLO_BYTES)};

    return worked(shake, leatn_crypto_hash(shake->secret->key, sizeof shake->secret->key, parts, 5, key),
                  "the keys of the link");
}

/* Makes the keys of an encrypted link. Returns false if the handshake has failed. */
static bool make_keys(struct leatn_handshake *shake)
{
    const unsigned char *hello = shake->connected ? shake->listener : shake->connector;
    unsigned char common[LEATN_PAIR_BYTES], own = shake->connected ? ROLE_CONNECTOR : ROLE_LISTENER,
                                            other = shake->connected ? ROLE_LISTENER : ROLE_CONNECTOR;
    int failed = leatn_crypto_agree(&shake->pair, hello + AT_PUBLIC, common);
    bool made = false;

    if (failed == -EBADMSG)
        fail(shake, "the other end sent no public key for the encryption, which no leat does");
    else if (worked(shake, failed, "the keys of the link"))
        made = derive_key(shake, own, common, shake->keys.send) &&
               derive_key(shake, other, common, shake->keys.receive);
    OPENSSL_cleanse(common, sizeof common);
    OPENSSL_cleanse(&shake->pair, sizeof shake->pair);
    return made;
}

void leatn_handshake_erase(struct leatn_handshake *shake)
{
    OPENSSL_cleanse(&shake->pair, sizeof shake->pair);
    OPENSSL_cleanse(&shake->keys, sizeof shake->keys);
}

static void take_proof(struct leatn_handshake *shake)
{
    unsigned char wanted[LEATN_HASH_BYTES];
    uint32_t verdict;
    bool right;

    memcpy(&verdict, shake->in + AT_VERDICT, sizeof verdict);
    if (!make_proof(shake, shake->connected ? ROLE_LISTENER : ROLE_CONNECTOR, wanted))
        return;
    right = !CRYPTO_memcmp(shake->in + AT_PROOF, wanted, sizeof wanted);
    OPENSSL_cleanse(wanted, sizeof wanted);
    if (verdict == VERDICT_ACCEPTED && right) {
        if (shake->encrypt && !make_keys(shake))
            return;
        shake->step = LEATN_HANDSHAKE_DONE;
        if (!shake->connected)
            send_proof(shake, VERDICT_ACCEPTED);
        return;
    }
    if (verdict != VERDICT_ACCEPTED && verdict != VERDICT_OTHER_KEY)
        fail(shake, "the other end refused the connection with the reason %u, which this version does not know",
             (unsigned)verdict);
    else
        fail(shake, "the keys of the two ends differ");
    if (!shake->connected)
        send_proof(shake, VERDICT_OTHER_KEY);
}

/* ---- the steps ---- */

/* Returns the size of the message that this end waits for. */
static size_t message_bytes(const struct leatn_handshake *shake)
{
    return shake->step == LEATN_HANDSHAKE_HELLO   ? LEATN_HELLO_BYTES
           : shake->step == LEATN_HANDSHAKE_PROOF ? LEATN_PROOF_BYTES
                                                  : 0;
}

size_t leatn_handshake_to_write(const struct leatn_handshake *shake, const void **at)
{
    *at = shake->out + shake->out_at;
    return shake->out_bytes - shake->out_at;
}

void leatn_handshake_was_written(struct leatn_handshake *shake, size_t bytes)
{
    shake->out_at += bytes;
}

size_t leatn_handshake_to_read(struct leatn_handshake *shake, void **at)
{
    size_t message = message_bytes(shake);

    *at = shake->in + shake->in_bytes;
    return !message || shake->out_at < shake->out_bytes ? 0 : message - shake->in_bytes;
}

void leatn_handshake_was_read(struct leatn_handshake *shake, size_t bytes)
{
    shake->in_bytes += bytes;
    if (shake->step == LEATN_HANDSHAKE_HELLO) {
        check_prefix(shake);
        if (shake->step == LEATN_HANDSHAKE_HELLO && shake->in_bytes == LEATN_HELLO_BYTES)
            take_hello(shake);
    } else if (shake->in_bytes == LEATN_PROOF_BYTES) {
        take_proof(shake);
    }
}

/* Returns a description of what this end waits for. */
static const char *awaited(const struct leatn_handshake *shake)
{
    if (shake->step == LEATN_HANDSHAKE_PROOF)
        return "the proof of the key";
    return shake->step == LEATN_HANDSHAKE_HELLO ? "its first message" : "taking the last message";
}

void leatn_handshake_was_closed(struct leatn_handshake *shake, int error)
{
    size_t wanted = message_bytes(shake);

    if (shake->step == LEATN_HANDSHAKE_FAILED)
        shake->out_at = shake->out_bytes; /* it failed before, and cannot be told the reason */
    else if (error && error != EPIPE && error != ECONNRESET)
        fail(shake, "the connection broke before %s: %s", awaited(shake), strerror(error));
    else if (shake->connected && shake->step == LEATN_HANDSHAKE_HELLO && !shake->in_bytes)
        fail(
            shake,
            "the other end closed the connection without an answer: it is no leat, it ended, it accepts only processes of its own user, or too many connected at once");
    else
        fail(shake, "the other end closed the connection before %s, of which %zu of %zu bytes came",
             awaited(shake), shake->in_bytes, wanted);
    shake->out_at = shake->out_bytes;
}

void leatn_handshake_was_late(struct leatn_handshake *shake, uint64_t after_ns)
{
    if (shake->step != LEATN_HANDSHAKE_FAILED)
        fail(shake, "%s did not come within %llu ms", awaited(shake), (unsigned long long)(after_ns / 1000000));
    shake->out_at = shake->out_bytes;
}

leat_status leatn_handshake_state(const struct leatn_handshake *shake)
{
    if (shake->out_at < shake->out_bytes || message_bytes(shake))
        return LEAT_NOT_READY;
    return shake->step == LEATN_HANDSHAKE_DONE ? LEAT_OK : LEAT_ERROR_LINK;
}

short leatn_handshake_event(const struct leatn_handshake *shake)
{
    return shake->out_at < shake->out_bytes ? POLLOUT : POLLIN;
}

/* ---- sockets ---- */

/* Writes or reads once. Returns false if the socket has to wait, or if the handshake is over. */
static bool move_once(struct leatn_handshake *shake, int fd)
{
    const void *from;
    void *to;
    size_t bytes;
    ssize_t moved;
    bool writes = (bytes = leatn_handshake_to_write(shake, &from)) > 0;

    if (!writes && (bytes = leatn_handshake_to_read(shake, &to)) == 0)
        return false;
    moved = writes ? leatn_socket_send(fd, &(struct iovec){(void *)from, bytes}, 1)
                   : leatn_socket_receive(fd, to, bytes);
    if (moved == -EAGAIN || moved == -EWOULDBLOCK)
        return false;
    if (moved <= 0)
        leatn_handshake_was_closed(shake, (int)-moved);
    else if (writes)
        leatn_handshake_was_written(shake, (size_t)moved);
    else
        leatn_handshake_was_read(shake, (size_t)moved);
    return true;
}

leat_status leatn_handshake_run(struct leatn_handshake *shake, int fd)
{
    char rest[4096];

    while (move_once(shake, fd))
        ;
    /* Unread bytes at close() make the system send a reset, which may overtake the reason that was just written.
     */
    if (leatn_handshake_state(shake) == LEAT_ERROR_LINK)
        (void)!recv(fd, rest, sizeof rest, MSG_DONTWAIT);
    return leatn_handshake_state(shake);
}
