/* cipher.c - the records of an encrypted link (cipher.h). */
#include "cipher.h"

#include "net_socket.h"

#include <errno.h>
#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HEAD_BYTES = 4,
    TAG_BYTES = crypto_aead_chacha20poly1305_ietf_ABYTES,
    RECORD_MAX = HEAD_BYTES + LEATN_RECORD_TEXT_MAX + TAG_BYTES,
    IN_BYTES = 4 * RECORD_MAX /* one recv() may bring several records */
};

_Static_assert(crypto_aead_chacha20poly1305_ietf_KEYBYTES == LEATN_SESSION_KEY_BYTES, "the handshake makes such keys");

struct leatn_cipher {
    struct leatn_session_keys keys;
    pid_t process; /* that made it */

    /* Sending. */
    uint64_t sent; /* records */
    size_t out_start, out_end;
    unsigned char out[RECORD_MAX]; /* the record that is being sent: bytes from out_start to out_end are left */

    /* Receiving. */
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
    cipher->keys = *keys;
    cipher->process = getpid();
    return cipher;
}

void leatn_cipher_free(struct leatn_cipher *cipher)
{
    if (!cipher)
        return;
    sodium_memzero(&cipher->keys, sizeof cipher->keys);
    sodium_memzero(cipher->text, sizeof cipher->text);
    free(cipher);
}

/* Writes the nonce of the record with this number. A link never has 2^64 records, so no nonce is used twice. */
static void make_nonce(uint64_t number, unsigned char nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES])
{
    memset(nonce, 0, crypto_aead_chacha20poly1305_ietf_NPUBBYTES);
    memcpy(nonce, &number, sizeof number);
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

/* Copies bytes of the parts to the text of a new record. Returns how many. */
static uint32_t gather(struct leatn_cipher *cipher, const struct iovec *parts, size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count && bytes < LEATN_RECORD_TEXT_MAX; i++) {
        size_t room = LEATN_RECORD_TEXT_MAX - bytes, some = parts[i].iov_len < room ? parts[i].iov_len : room;

        if (some)
            memcpy(cipher->out + HEAD_BYTES + bytes, parts[i].iov_base, some);
        bytes += some;
    }
    return (uint32_t)bytes;
}

ssize_t leatn_cipher_send(struct leatn_cipher *cipher, int fd, const struct iovec *parts, size_t count)
{
    unsigned char nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES], *text = cipher->out + HEAD_BYTES;
    int failed = getpid() == cipher->process ? leatn_cipher_flush(cipher, fd) : -EPERM;
    uint32_t bytes;

    if (failed)
        return failed;
    bytes = gather(cipher, parts, count);
    memcpy(cipher->out, &bytes, HEAD_BYTES);
    make_nonce(cipher->sent++, nonce);
    crypto_aead_chacha20poly1305_ietf_encrypt(text, NULL, text, bytes, cipher->out, HEAD_BYTES, NULL, nonce,
                                              cipher->keys.send);
    cipher->out_start = 0;
    cipher->out_end = HEAD_BYTES + (size_t)bytes + TAG_BYTES;
    failed = leatn_cipher_flush(cipher, fd);
    return failed && failed != -EAGAIN ? failed : (ssize_t)bytes;
}

/* ---- receiving ---- */

/* Receives more. Returns the number of bytes, 0 at the end, or a negative errno. */
static ssize_t fill_in(struct leatn_cipher *cipher, int fd)
{
    size_t held = cipher->in_end - cipher->in_start;
    ssize_t got;

    memmove(cipher->in, cipher->in + cipher->in_start, held);
    cipher->in_start = 0;
    cipher->in_end = held;
    got = leatn_socket_receive(fd, cipher->in + held, sizeof cipher->in - held);
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

/* Decrypts the next record, which is complete and has a text of bytes bytes. Returns 0, or -EBADMSG: it is not
 * authentic, and zeros are in place of the text. */
static int decrypt(struct leatn_cipher *cipher, void *text, size_t bytes)
{
    unsigned char nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES], *record = cipher->in + cipher->in_start;

    make_nonce(cipher->received, nonce);
    if (crypto_aead_chacha20poly1305_ietf_decrypt(text, NULL, NULL, record + HEAD_BYTES, bytes + TAG_BYTES, record,
                                                  HEAD_BYTES, nonce, cipher->keys.receive))
        return -EBADMSG;
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
            /* What there is goes to the caller first: an end or a failure of the socket is seen at the next call. */
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
