/* cipher.c - the records of an encrypted link (cipher.h). */
#include "cipher.h"

#include "crypto.h"
#include "net_socket.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HEAD_BYTES = 4,
    TAG_BYTES = 16,
    NONCE_BYTES = 12,
    RECORD_MAX = HEAD_BYTES + LEATN_RECORD_TEXT_MAX + TAG_BYTES,
    OUT_RECORDS = 4,          /* are sent at once, since each send() may wake the other end */
    IN_BYTES = 4 * RECORD_MAX /* one recv() may bring several records */
};

_Static_assert((int)LEATN_CIPHER_KEY_BYTES == LEATN_SESSION_KEY_BYTES, "the handshake makes such keys");

struct leatn_cipher {
    pid_t process; /* that made it */

    /* Sending. */
    EVP_CIPHER_CTX *encrypts; /* has the key, as decrypts below */
    uint64_t sent;            /* records */
    bool broken;              /* libcrypto has failed: a record is missing, so nothing may follow */
    size_t out_start, out_end;
    unsigned char out[OUT_RECORDS * RECORD_MAX]; /* what is being sent: bytes from out_start to out_end are left */

    /* Receiving. */
    EVP_CIPHER_CTX *decrypts;
    uint64_t received; /* records */
    bool heard;
    size_t text_start, text_end, in_start, in_end;
    unsigned char text[LEATN_RECORD_TEXT_MAX]; /* of a record that did not fit where the caller wanted it */
    unsigned char in[IN_BYTES];                /* records, of which the last may be incomplete */
};

struct leatn_cipher *leatn_cipher_create(const struct leatn_session_keys *keys)
{
    struct leatn_cipher *cipher = calloc(1, sizeof *cipher);

    if (!cipher)
        return NULL;
    cipher->process = getpid();
    cipher->encrypts = leatn_crypto_cipher(keys->send, true);
    cipher->decrypts = leatn_crypto_cipher(keys->receive, false);
    if (cipher->encrypts && cipher->decrypts)
        return cipher;
    leatn_cipher_free(cipher);
    return NULL;
}

void leatn_cipher_free(struct leatn_cipher *cipher)
{
    if (!cipher)
        return;
    EVP_CIPHER_CTX_free(cipher->encrypts);
    EVP_CIPHER_CTX_free(cipher->decrypts);
    OPENSSL_cleanse(cipher->text, sizeof cipher->text);
    free(cipher);
}

/* Begins the record with this number, whose head is authenticated too. A link never has 2^64 records, so no nonce
 * is used twice. */
static bool begin_record(EVP_CIPHER_CTX *context, uint64_t number, const unsigned char *head)
{
    unsigned char nonce[NONCE_BYTES] = {0};
    int done;

    memcpy(nonce, &number, sizeof number);
    return EVP_CipherInit_ex(context, NULL, NULL, NULL, nonce, -1) > 0 &&
           EVP_CipherUpdate(context, NULL, &done, head, HEAD_BYTES) > 0;
}

/* ---- sending ---- */

bool leatn_cipher_keeps(const struct leatn_cipher *cipher)
{
    return cipher->out_start < cipher->out_end;
}

int leatn_cipher_flush(struct leatn_cipher *cipher, int fd)
{
    while (leatn_cipher_keeps(cipher)) {
        struct iovec left = {cipher->out + cipher->out_start, cipher->out_end - cipher->out_start};
        ssize_t sent = leatn_socket_send(fd, &left, 1);

        if (sent < 0)
            return (int)sent;
        cipher->out_start += (size_t)sent;
    }
    return 0;
}

/* What is left of the parts that leatn_cipher_send() got. */
struct rest {
    const struct iovec *part; /* the next one */
    size_t taken;             /* bytes of it */
    size_t bytes;             /* of all parts that may still be taken */
};

/* Returns all of the parts, but not more than one call takes. */
static struct rest all_of(const struct iovec *parts, size_t count)
{
    struct rest rest = {.part = parts};

    for (size_t i = 0; i < count; i++) {
        size_t room = OUT_RECORDS * LEATN_RECORD_TEXT_MAX - rest.bytes;

        rest.bytes += parts[i].iov_len < room ? parts[i].iov_len : room;
    }
    return rest;
}

/* Encrypts the next bytes of one part, most at most, and returns how many. 0: libcrypto fails. */
static uint32_t encrypt_part(EVP_CIPHER_CTX *context, struct rest *rest, unsigned char *to, uint32_t most)
{
    const unsigned char *from;
    size_t some;
    int done;

    while (rest->taken == rest->part->iov_len) {
        rest->part++;
        rest->taken = 0;
    }
    from = (const unsigned char *)rest->part->iov_base + rest->taken;
    some = rest->part->iov_len - rest->taken;
    some = some < most ? some : most;
    if (EVP_EncryptUpdate(context, to, &done, from, (int)some) <= 0)
        return 0;
    rest->taken += some;
    rest->bytes -= some;
    return (uint32_t)some;
}

/* Appends the next record to out. Returns false if libcrypto fails. */
static bool encrypt(struct leatn_cipher *cipher, struct rest *rest)
{
    uint32_t bytes = rest->bytes < LEATN_RECORD_TEXT_MAX ? (uint32_t)rest->bytes : LEATN_RECORD_TEXT_MAX, some;
    unsigned char *record = cipher->out + cipher->out_end, *to = record + HEAD_BYTES;
    EVP_CIPHER_CTX *context = cipher->encrypts;
    int done;

    memcpy(record, &bytes, HEAD_BYTES);
    if (!begin_record(context, cipher->sent++, record))
        return false;
    for (; bytes; to += some, bytes -= some) {
        some = encrypt_part(context, rest, to, bytes);
        if (!some)
            return false;
    }
    if (EVP_EncryptFinal_ex(context, to, &done) <= 0 ||
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES, to) <= 0)
        return false;
    cipher->out_end = (size_t)(to + TAG_BYTES - cipher->out);
    return true;
}

ssize_t leatn_cipher_send(struct leatn_cipher *cipher, int fd, const struct iovec *parts, size_t count)
{
    int failed = getpid() != cipher->process ? -EPERM : cipher->broken ? -EIO : leatn_cipher_flush(cipher, fd);
    struct rest rest = all_of(parts, count);
    size_t bytes = rest.bytes;
    bool made = true;

    if (failed)
        return failed;
    cipher->out_start = cipher->out_end = 0;
    ERR_set_mark();
    while (rest.bytes && made)
        made = encrypt(cipher, &rest);
    ERR_pop_to_mark();
    if (!made) {
        cipher->out_end = 0;
        cipher->broken = true;
        return -EIO;
    }
    failed = leatn_cipher_flush(cipher, fd);
    return failed && failed != -EAGAIN ? failed : (ssize_t)bytes;
}

/* ---- receiving ---- */

/* Makes room for all of the incomplete record. Moves it only if it would not fit where it is, which is rare. */
static void make_room(struct leatn_cipher *cipher)
{
    size_t held = cipher->in_end - cipher->in_start;

    if (held && sizeof cipher->in - cipher->in_start >= RECORD_MAX)
        return;
    memmove(cipher->in, cipher->in + cipher->in_start, held);
    cipher->in_start = 0;
    cipher->in_end = held;
}

/* Receives more. Returns the number of bytes, 0 at the end, or a negative errno. */
static ssize_t fill_in(struct leatn_cipher *cipher, int fd)
{
    ssize_t got;

    make_room(cipher);
    got = leatn_socket_receive(fd, cipher->in + cipher->in_end, sizeof cipher->in - cipher->in_end);
    if (got > 0)
        cipher->in_end += (size_t)got;
    cipher->heard = cipher->heard || got > 0;
    return got;
}

bool leatn_cipher_heard(struct leatn_cipher *cipher)
{
    bool heard = cipher->heard;

    cipher->heard = false;
    return heard;
}

/* Looks at the next record. Returns the bytes of its text; 0: it is not complete; -EBADMSG: it is none. */
static ssize_t next_record(const struct leatn_cipher *cipher)
{
    size_t held = cipher->in_end - cipher->in_start;
    uint32_t bytes;

    if (held < HEAD_BYTES)
        return 0;
    memcpy(&bytes, cipher->in + cipher->in_start, sizeof bytes);
    if (!bytes || bytes > LEATN_RECORD_TEXT_MAX)
        return -EBADMSG;
    return held < HEAD_BYTES + (size_t)bytes + TAG_BYTES ? 0 : (ssize_t)bytes;
}

/* Decrypts the next record, which is complete. Returns 0; -EBADMSG: it is not authentic; -EIO: libcrypto fails. */
static int decrypt_record(struct leatn_cipher *cipher, unsigned char *text, size_t bytes)
{
    unsigned char *record = cipher->in + cipher->in_start, *from = record + HEAD_BYTES;
    EVP_CIPHER_CTX *context = cipher->decrypts;
    int done;

    if (!begin_record(context, cipher->received, record) ||
        EVP_DecryptUpdate(context, text, &done, from, (int)bytes) <= 0 ||
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, TAG_BYTES, from + bytes) <= 0)
        return -EIO;
    return EVP_DecryptFinal_ex(context, text + bytes, &done) > 0 ? 0 : -EBADMSG;
}

/* The same, with a text of bytes bytes. If it fails, zeros are in place of the text. */
static int decrypt(struct leatn_cipher *cipher, unsigned char *text, size_t bytes)
{
    int failed;

    ERR_set_mark();
    failed = decrypt_record(cipher, text, bytes);
    ERR_pop_to_mark();
    if (failed) {
        memset(text, 0, bytes);
        return failed;
    }
    cipher->received++;
    cipher->in_start += HEAD_BYTES + bytes + TAG_BYTES;
    return 0;
}

/* Takes text that an earlier call has left. */
static size_t take_text(struct leatn_cipher *cipher, unsigned char *memory, size_t bytes)
{
    size_t left = cipher->text_end - cipher->text_start, some = left < bytes ? left : bytes;

    memcpy(memory, cipher->text + cipher->text_start, some);
    cipher->text_start += some;
    return some;
}

ssize_t leatn_cipher_receive(struct leatn_cipher *cipher, int fd, void *memory, size_t bytes)
{
    unsigned char *to = memory;
    size_t got = take_text(cipher, to, bytes);

    while (got < bytes) {
        ssize_t text = next_record(cipher), result = text;

        if (!text) {
            /* What there is goes to the caller first: an end or a failure of the socket is seen at the next call.
             */
            if (got)
                break;
            result = fill_in(cipher, fd);
            if (result <= 0)
                return result;
            continue;
        }
        if (text > 0 && (size_t)text <= bytes - got) {
            result = decrypt(cipher, to + got, (size_t)text);
            got += result ? 0 : (size_t)text;
        } else if (text > 0) {
            result = decrypt(cipher, cipher->text, (size_t)text);
            cipher->text_start = 0;
            cipher->text_end = result ? 0 : (size_t)text;
            got += take_text(cipher, to + got, bytes - got);
        }
        if (result < 0)
            return result;
    }
    return (ssize_t)got;
}
