/*
 * test_cipher.c - tests the records of encrypted links (net/cipher.h): pieces of all sizes, sockets that take little,
 * and records that somebody has changed, left out, repeated, moved or made up.
 */
#include "harness.h"
#include "seed.h"

#include "cipher.h"
#include "crypto.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HEAD = 4, TAG = 16, BYTES = 1 << 20 };

static unsigned drawn; /* the state of below() */

/* Returns a random number below end. */
static size_t below(size_t end)
{
    return ((size_t)rand_r(&drawn) << 16 ^ (size_t)rand_r(&drawn)) % end;
}

/* Two ends whose sockets are not connected with each other: what one sends is read, and given to the other one, by
 * the test. */
struct wire {
    struct leatn_cipher *from, *to;
    int out[2], in[2]; /* from writes to out[0], and to reads from in[1] */
};

static struct wire open_wire_with(const struct leatn_session_keys *keys)
{
    struct leatn_session_keys swapped;
    struct wire wire;

    memcpy(swapped.send, keys->receive, sizeof keys->receive);
    memcpy(swapped.receive, keys->send, sizeof keys->send);
    wire.from = leatn_cipher_create(keys);
    wire.to = leatn_cipher_create(&swapped);
    assert_true(wire.from && wire.to);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, wire.out), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, wire.in), 0);
    return wire;
}

static struct wire open_wire(void)
{
    struct leatn_session_keys keys;

    assert_int_equal(leatn_crypto_random(&keys, sizeof keys), 0);
    return open_wire_with(&keys);
}

static void close_wire(struct wire *wire)
{
    leatn_cipher_free(wire->from);
    leatn_cipher_free(wire->to);
    for (int i = 0; i < 2; i++) {
        close(wire->out[i]);
        close(wire->in[i]);
    }
}

/* Sends text as one record, and returns the bytes of the record, which the caller frees. */
static unsigned char *record_of(struct wire *wire, const void *text, size_t bytes)
{
    const struct iovec part = {(void *)text, bytes};
    unsigned char *record = malloc(HEAD + bytes + TAG);

    assert_non_null(record);
    assert_int_equal(leatn_cipher_send(wire->from, wire->out[0], &part, 1), bytes);
    assert_false(leatn_cipher_keeps(wire->from));
    assert_int_equal(recv(wire->out[1], record, HEAD + bytes + TAG, 0), HEAD + bytes + TAG);
    assert_int_equal(recv(wire->out[1], (char[1]){0}, 1, 0), -1);
    return record;
}

static void give(struct wire *wire, const void *bytes, size_t count)
{
    assert_int_equal(send(wire->in[0], bytes, count, 0), count);
}

static ssize_t take(struct wire *wire, void *text, size_t bytes)
{
    return leatn_cipher_receive(wire->to, wire->in[1], text, bytes);
}

/* ---- right bytes ---- */

/* Records that an implementation of RFC 8439 in Python has made, with the key 0, 1, ... 31. */
static void records_of_others(void **state)
{
    static const char texts[2][88] = {
        "the first record",
        "the second one, which has more than 64 bytes, so that it takes two blocks of the cipher"};
    static const char records[2][HEAD + 87 + TAG + 1] = {
        "\x10\x00\x00\x00\x6c\xd0\x27\x11\xcb\x8f\xd4\xa2\x67\x41\x2e\x04\xcc\x2c\x3c\x43"
        "\x7f\x5a\xb7\xfa\x3f\xa3\x06\x15\xf9\xfa\xac\x35\xb5\x89\x14\x45",
        "\x57\x00\x00\x00\xe0\x57\x1e\xce\xb7\x86\xff\x45\x19\x3f\xf3\x9c\x03\x5a\xf1\x7b"
        "\x56\xd0\x99\xbb\x45\xd9\xb1\x5c\xe6\x60\x9a\x36\x65\xc4\x31\xb9\x09\xcf\x32\x06"
        "\x76\xb3\x43\x4b\x42\x67\xe0\xa1\x2e\x96\x5d\x7f\x60\x6b\x15\xfa\x85\x32\x29\x59"
        "\x47\x88\x2b\x38\x07\x47\xf7\x2e\x3e\x34\xc3\xdf\x71\x67\x34\x27\xb5\x47\xfa\x17"
        "\x6d\xfc\x71\x95\x7d\xcb\xda\x39\x7f\x2c\xcc\x66\xb6\xb9\x63\x22\x78\x0a\x33\x28"
        "\xe3\x15\x06\x82\xc5\x94\xc9"};
    struct leatn_session_keys keys;
    struct wire wire;

    (void)state;
    for (unsigned char i = 0; i < LEATN_SESSION_KEY_BYTES; i++)
        keys.send[i] = keys.receive[i] = i;
    wire = open_wire_with(&keys);
    for (int i = 0; i < 2; i++) {
        size_t bytes = strlen(texts[i]);
        unsigned char *record = record_of(&wire, texts[i], bytes);
        char got[88];

        assert_memory_equal(record, records[i], HEAD + bytes + TAG);
        give(&wire, records[i], HEAD + bytes + TAG);
        assert_int_equal(take(&wire, got, bytes), bytes);
        assert_memory_equal(got, texts[i], bytes);
        free(record);
    }
    close_wire(&wire);
}

/* Two parts of random sizes at one end, pieces of other random sizes at the other one, through a socket that often is
 * full. */
static void pieces_of_all_sizes(void **state)
{
    unsigned char *sent = malloc(BYTES), *got = malloc(BYTES);
    struct wire wire = open_wire();
    int small = 4096;
    size_t out = 0, in = 0;

    (void)state;
    assert_true(sent && got);
    setsockopt(wire.out[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    for (size_t i = 0; i < BYTES; i++)
        sent[i] = (unsigned char)below(256);
    memset(got, 0, BYTES);
    while (in < BYTES) {
        size_t one = below(2) ? below(100) : below(200000), other = below(300);
        ssize_t moved;

        one = one < BYTES - out ? one : BYTES - out;
        other = other < BYTES - out - one ? other : BYTES - out - one;
        if (one + other) {
            const struct iovec parts[2] = {{sent + out, one}, {sent + out + one, other}};

            moved = leatn_cipher_send(wire.from, wire.out[0], parts, 2);
            assert_true(moved > 0 ? (size_t)moved <= one + other : moved == -EAGAIN);
            out += moved > 0 ? (size_t)moved : 0;
        } else {
            moved = leatn_cipher_flush(wire.from, wire.out[0]);
            assert_true(moved == 0 || moved == -EAGAIN);
        }
        one = 1 + (below(2) ? below(100) : below(200000));
        one = one < BYTES - in ? one : BYTES - in;
        moved = leatn_cipher_receive(wire.to, wire.out[1], got + in, one);
        assert_true(moved > 0 ? (size_t)moved <= one : moved == -EAGAIN);
        in += moved > 0 ? (size_t)moved : 0;
    }
    assert_memory_equal(sent, got, BYTES);
    assert_false(leatn_cipher_keeps(wire.from));
    close(wire.out[0]);
    wire.out[0] = -1;
    assert_int_equal(leatn_cipher_receive(wire.to, wire.out[1], got, 1), 0);
    close_wire(&wire);
    free(sent);
    free(got);
}

static bool contains(const unsigned char *all, size_t bytes, const void *part, size_t part_bytes)
{
    return memmem(all, bytes, part, part_bytes) != NULL;
}

/* The text is not in the record, and the same text makes another record the next time. */
static void text_is_not_to_be_seen(void **state)
{
    static const char text[] = "a text that nobody may read, and that is long enough to be found";
    struct wire wire = open_wire();
    unsigned char *one = record_of(&wire, text, sizeof text), *two = record_of(&wire, text, sizeof text);
    char got[2 * sizeof text];

    (void)state;
    for (size_t i = 0; i + 8 <= sizeof text; i++)
        assert_false(contains(one, HEAD + sizeof text + TAG, text + i, 8));
    assert_memory_not_equal(one + HEAD, two + HEAD, sizeof text + TAG);
    give(&wire, one, HEAD + sizeof text + TAG);
    give(&wire, two, HEAD + sizeof text + TAG);
    assert_int_equal(take(&wire, got, sizeof got), sizeof got);
    assert_memory_equal(got, text, sizeof text);
    assert_memory_equal(got + sizeof text, text, sizeof text);
    assert_true(leatn_cipher_heard(wire.to));
    assert_false(leatn_cipher_heard(wire.to));
    close_wire(&wire);
    free(one);
    free(two);
}

/* A part of a record gives no text, but is heard; an end of the socket then is an end. */
static void half_a_record(void **state)
{
    static const char text[] = "half of this";
    struct wire wire = open_wire();
    unsigned char *record = record_of(&wire, text, sizeof text);
    char got[100];

    (void)state;
    for (size_t i = 0; i + 1 < HEAD + sizeof text + TAG; i++) {
        give(&wire, record + i, 1);
        assert_int_equal(take(&wire, got, sizeof got), -EAGAIN);
        assert_true(leatn_cipher_heard(wire.to));
    }
    close(wire.in[0]);
    wire.in[0] = -1;
    assert_int_equal(take(&wire, got, sizeof got), 0);
    close_wire(&wire);
    free(record);
}

/* A child of fork() would use the nonces of its parent once more. */
static void children_do_not_send(void **state)
{
    struct wire wire = open_wire();
    const struct iovec part = {"text", 4};
    int ended;
    pid_t child = fork();

    (void)state;
    if (!child)
        _exit(leatn_cipher_send(wire.from, wire.out[0], &part, 1) == -EPERM ? 0 : 1);
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    assert_int_equal(recv(wire.out[1], (char[1]){0}, 1, 0), -1);
    close_wire(&wire);
}

/* ---- wrong bytes ---- */

/* Each bit of a record that changes makes it wrong, and the text is not given out. */
static void changed_bits(void **state)
{
    static const char text[] = "0123456789";
    char got[sizeof text], nothing[sizeof text] = {0};

    (void)state;
    for (size_t bit = 0; bit < 8 * (HEAD + sizeof text + TAG); bit++) {
        struct wire wire = open_wire();
        unsigned char *record = record_of(&wire, text, sizeof text);
        ssize_t result;

        record[bit / 8] ^= (unsigned char)(1u << bit % 8);
        give(&wire, record, HEAD + sizeof text + TAG);
        memset(got, 0, sizeof got);
        result = take(&wire, got, sizeof got);
        /* A larger length waits for more bytes, which never make a right record. */
        if (result == -EAGAIN) {
            static const char more[LEATN_RECORD_TEXT_MAX];

            assert_true(bit < 8 * HEAD);
            give(&wire, more, sizeof more);
            result = take(&wire, got, sizeof got);
        }
        assert_int_equal(result, -EBADMSG);
        assert_memory_equal(got, nothing, sizeof got);
        close_wire(&wire);
        free(record);
    }
}

static void records_out_of_order(void **state)
{
    static const int orders[][3] = {{1, 0, 2}, {0, 0, 1}, {0, 2, 1}, {1, 2, 2}, {2, 2, 2}};
    static const char text[] = "record";
    char got[3 * sizeof text];

    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        struct wire wire = open_wire();
        unsigned char *records[3];
        ssize_t result = 0;

        for (int k = 0; k < 3; k++)
            records[k] = record_of(&wire, text, sizeof text);
        for (int k = 0; k < 3 && result >= 0; k++) {
            give(&wire, records[orders[i][k]], HEAD + sizeof text + TAG);
            result = take(&wire, got, sizeof text);
            assert_int_equal(result, orders[i][k] == k ? (ssize_t)sizeof text : -EBADMSG);
        }
        assert_int_equal(result, -EBADMSG);
        for (int k = 0; k < 3; k++)
            free(records[k]);
        close_wire(&wire);
    }
}

/* What an end has sent is not taken by itself, nor by an end with other keys. */
static void other_keys(void **state)
{
    static const char text[] = "record";
    struct wire wire = open_wire(), other = open_wire();
    unsigned char *record = record_of(&wire, text, sizeof text);
    char got[sizeof text];

    (void)state;
    give(&other, record, HEAD + sizeof text + TAG);
    assert_int_equal(take(&other, got, sizeof got), -EBADMSG);
    give(&wire, record, HEAD + sizeof text + TAG);
    assert_int_equal(leatn_cipher_receive(wire.from, wire.in[1], got, sizeof got), -EBADMSG);
    close_wire(&wire);
    close_wire(&other);
    free(record);
}

static void random_bytes(void **state)
{
    unsigned char bytes[400], got[1000];

    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct wire wire = open_wire();
        size_t count = 1 + below(sizeof bytes);
        ssize_t result;

        for (size_t i = 0; i < count; i++)
            bytes[i] = (unsigned char)below(256);
        if (count >= HEAD && below(2))
            memcpy(bytes, &(uint32_t){(uint32_t)below(500)}, HEAD);
        give(&wire, bytes, count);
        result = take(&wire, got, 1 + below(sizeof got));
        assert_true(result == -EAGAIN || result == -EBADMSG);
        close_wire(&wire);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_of_others),
        cmocka_unit_test(pieces_of_all_sizes), cmocka_unit_test(text_is_not_to_be_seen),
        cmocka_unit_test(half_a_record),       cmocka_unit_test(changed_bits),
        cmocka_unit_test(children_do_not_send),
        cmocka_unit_test(records_out_of_order), cmocka_unit_test(other_keys),
        cmocka_unit_test(random_bytes),
    };

    drawn = (unsigned)test_seed();
    printf("TEST_SEED=%u\n", drawn);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
