/*
 * fuzz_handshake.c - gives random bytes to the handshake and to the parser of addresses.
 *
 * An input is one of three things: bytes for one end of a handshake; changes of what two ends with the same key
 * send to each other, in pieces of random sizes; or the text of an address. No end may be done unless both ends
 * got what the other one has sent, and an address that is accepted must print as text that gives the same address.
 *
 * A build for libFuzzer (make fuzz-handshake) gets its inputs from libFuzzer. The test program makes them at
 * random: fuzz_handshake [--seed N] [--rounds N] [--seconds N].
 */
#include "seed.h"

#include "address.h"
#include "handshake.h"
#include "net.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(what)                                                                                                \
    do {                                                                                                          \
        if (!(what)) {                                                                                            \
            fprintf(stderr, "fuzz_handshake.c:%d: not %s\n", __LINE__, #what);                                    \
            abort();                                                                                              \
        }                                                                                                         \
    } while (0)

static uint64_t done; /* handshakes that succeeded */

/* The rest of an input. */
struct input {
    const uint8_t *at;
    size_t left;
};

/* Returns the next byte, or 0 at the end. */
static uint8_t next(struct input *input)
{
    if (!input->left)
        return 0;
    input->left--;
    return *input->at++;
}

static struct leatn_secret secret_of(bool given)
{
    static const char key[] = "a key of the fuzzer";
    struct leatn_secret secret;

    MUST(!leatn_secret_derive(&secret, given ? key : NULL, given ? sizeof key : 0));
    return secret;
}

/* ---- what must hold after each step ---- */

static void check(struct leatn_handshake *shake)
{
    const void *from;
    void *to;
    size_t writes = leatn_handshake_to_write(shake, &from), reads = leatn_handshake_to_read(shake, &to);
    leat_status state = leatn_handshake_state(shake);

    MUST(shake->out_at <= shake->out_bytes && shake->out_bytes <= sizeof shake->out);
    MUST(!writes || ((const unsigned char *)from >= shake->out &&
                     (const unsigned char *)from + writes <= shake->out + sizeof shake->out));
    MUST(!reads ||
         ((unsigned char *)to >= shake->in && (unsigned char *)to + reads <= shake->in + sizeof shake->in));
    MUST(!writes || !reads);
    MUST((state == LEAT_NOT_READY) == (writes || reads));
    MUST((state == LEAT_ERROR_LINK) == (shake->step == LEATN_HANDSHAKE_FAILED && !writes));
    MUST(state != LEAT_ERROR_LINK || shake->why[0]);
    MUST(memchr(shake->why, 0, sizeof shake->why));
}

/* ---- one end that gets any bytes ---- */

static void feed(struct input *input, bool connected, bool key)
{
    struct leatn_secret secret = secret_of(key);
    struct leatn_handshake shake;
    const void *from;
    void *to;

    leatn_handshake_start(&shake, &secret, connected,
                          &(struct leatn_handshake_wishes){.idle_timeout_ns = 1000, .encrypt = key});
    check(&shake);
    while (leatn_handshake_state(&shake) == LEAT_NOT_READY) {
        size_t most = leatn_handshake_to_write(&shake, &from), bytes = 1 + next(input) % 64;

        if (most) {
            leatn_handshake_was_written(&shake, bytes < most ? bytes : most);
        } else if (!input->left) {
            if (connected)
                leatn_handshake_was_closed(&shake, 0);
            else
                leatn_handshake_was_late(&shake, 1);
        } else {
            most = leatn_handshake_to_read(&shake, &to);
            bytes = bytes < most ? bytes : most;
            bytes = bytes < input->left ? bytes : input->left;
            memcpy(to, input->at, bytes);
            input->at += bytes;
            input->left -= bytes;
            leatn_handshake_was_read(&shake, bytes);
        }
        check(&shake);
    }
    MUST(leatn_handshake_state(&shake) == LEAT_ERROR_LINK);
}

/* ---- two ends, and somebody who changes what they send ---- */

enum { MESSAGES_BYTES = LEATN_HELLO_BYTES + LEATN_PROOF_BYTES };

/* What one end has sent and the other one has not read. */
struct way {
    unsigned char bytes[MESSAGES_BYTES];
    size_t sent, read;
    uint8_t change[MESSAGES_BYTES]; /* bits that are changed in each byte */
};

/* Four bytes of a proof mean nothing. */
static bool has_meaning(size_t at)
{
    return at < LEATN_HELLO_BYTES + 4 || at >= LEATN_HELLO_BYTES + 8;
}

/* Moves some bytes from an end into its way, or from the other end's way into it. Returns false if it can do
 * neither. */
static bool step(struct leatn_handshake *shake, struct way *out, struct way *in, size_t most)
{
    const void *from;
    void *to;
    size_t bytes = leatn_handshake_to_write(shake, &from);

    if (bytes) {
        bytes = bytes < most ? bytes : most;
        MUST(bytes <= MESSAGES_BYTES - out->sent);
        for (size_t i = 0; i < bytes; i++)
            out->bytes[out->sent + i] = ((const unsigned char *)from)[i] ^ out->change[out->sent + i];
        out->sent += bytes;
        leatn_handshake_was_written(shake, bytes);
    } else {
        bytes = leatn_handshake_to_read(shake, &to);
        bytes = bytes < most ? bytes : most;
        bytes = bytes < in->sent - in->read ? bytes : in->sent - in->read;
        if (!bytes)
            return false;
        memcpy(to, in->bytes + in->read, bytes);
        in->read += bytes;
        leatn_handshake_was_read(shake, bytes);
    }
    check(shake);
    return true;
}

static void change(struct way *way, struct input *input, unsigned count)
{
    for (unsigned i = 0; i < count && input->left; i++) {
        size_t at = next(input) % MESSAGES_BYTES;

        way->change[at] ^= next(input);
    }
}

/* Returns true if a change of a byte that means something has reached the other end, before its first bytes bytes.
 */
static bool changed(const struct way *way, size_t bytes)
{
    for (size_t i = 0; i < way->read && i < bytes; i++)
        if (way->change[i] && has_meaning(i))
            return true;
    return false;
}

static void connect_both(struct input *input, bool key, bool ucx)
{
    struct leatn_secret secret = secret_of(key);
    struct leatn_handshake connects, listens;
    struct way there, back;
    bool moved = true;
    uint8_t counts = next(input);

    memset(&there, 0, sizeof there);
    memset(&back, 0, sizeof back);
    change(&there, input, counts & 7);
    change(&back, input, counts >> 3 & 7);
    leatn_handshake_start(&connects, &secret, true,
                          &(struct leatn_handshake_wishes){.idle_timeout_ns = 1000, .ucx = ucx});
    leatn_handshake_start(&listens, &secret, false,
                          &(struct leatn_handshake_wishes){
                              .idle_timeout_ns = 2000, .ucx = counts >> 6 & 1, .encrypt = key && counts >> 7});
    while (moved) {
        moved = step(&connects, &there, &back, 1 + next(input) % 64);
        moved |= step(&listens, &back, &there, 1 + next(input) % 64);
    }
    /* The listener is done before its own proof is read, so a change of that does not concern it. */
    if (leatn_handshake_state(&listens) == LEAT_OK)
        MUST(!changed(&there, MESSAGES_BYTES) && !changed(&back, LEATN_HELLO_BYTES));
    if (leatn_handshake_state(&connects) == LEAT_OK) {
        MUST(!changed(&there, MESSAGES_BYTES) && !changed(&back, MESSAGES_BYTES));
        MUST(leatn_handshake_state(&listens) == LEAT_OK);
        MUST(connects.peer_idle_timeout_ns == 2000 && listens.peer_idle_timeout_ns == 1000);
        MUST(connects.encrypt == listens.encrypt && connects.encrypt == (key && counts >> 7));
        MUST(connects.ucx == listens.ucx && connects.ucx == (ucx && (counts >> 6 & 1) && !connects.encrypt));
        MUST(!memcmp(connects.keys.send, listens.keys.receive, LEATN_SESSION_KEY_BYTES));
        MUST(!memcmp(connects.keys.receive, listens.keys.send, LEATN_SESSION_KEY_BYTES));
        done++;
    }
    if (!(counts & 63))
        MUST(leatn_handshake_state(&connects) == LEAT_OK && leatn_handshake_state(&listens) == LEAT_OK);
}

/* ---- addresses ---- */

static void parse(struct input *input, bool listening)
{
    struct leatn_address address, again;
    char *text = malloc(input->left + 1), printed[LEATN_ADDRESS_MAX];

    MUST(text);
    memcpy(text, input->at, input->left);
    text[input->left] = '\0';
    if (leatn_address_parse("call", text, listening, &address) == LEAT_OK) {
        leatn_address_print(&address, printed, sizeof printed);
        MUST(!strcmp(printed, text));
        MUST(leatn_address_parse("call", printed, listening, &again) == LEAT_OK);
        MUST(!memcmp(&address, &again, sizeof address));
    } else {
        MUST(!strncmp(leat_last_error(), "call: address '", 15));
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    uint8_t kind = next(&input);

    switch (kind & 3) {
    case 0:
        connect_both(&input, kind >> 2 & 1, kind >> 3 & 1);
        break;
    case 1:
    case 2:
        feed(&input, kind & 1, kind >> 2 & 1);
        break;
    default:
        parse(&input, kind >> 2 & 1);
    }
    return 0;
}

#ifndef LEAT_LIBFUZZER

static uint64_t random_state;

/* Returns a random number below limit. */
static uint64_t draw(uint64_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state >> 11) % limit;
}

/* Makes an input. Random bytes alone would never pass the first check, so most begin as what is right. */
static size_t make(uint8_t *data)
{
    static const char *const addresses[] = {"tcp:127.0.0.1:7000", "tcp:[::1]:0", "unix:/run/leat", "unix:@leat",
                                            "ucx:node1:65535"};
    const uint32_t version = LEATN_VERSION;
    uint8_t *at = data;
    size_t size;

    *at++ = (uint8_t)draw(256);
    if ((data[0] & 3) == 3) {
        const char *text = addresses[draw(5)];

        size = strlen(text);
        memcpy(at, text, size);
    } else {
        size = (size_t)draw(300);
        for (size_t i = 0; i < size; i++)
            at[i] = (uint8_t)draw(256);
        if (!(data[0] & 3) && draw(2))
            at[0] &= draw(2) ? 0x40 : 0x49; /* no change, or at most two */
        /* With one byte for the size of a piece in front: a hello as its receiver expects it. */
        if ((data[0] & 3) && size > 80 && draw(4)) {
            memset(at + 1, 0, 64);
            at[0] = 63;
            memcpy(at + 1, "leat-net", 8);
            memcpy(at + 9, &version, sizeof version);
            at[13] = data[0] & 1 ? 2 : 1;
            at[14] = data[0] >> 2 & 1;
            at[17] = 1;
        }
    }
    for (uint64_t changes = draw(4); changes && size; changes--)
        at[draw(size)] = (uint8_t)(draw(2) ? draw(256) : (uint64_t) "[]:@%/0159"[draw(10)]);
    return 1 + size;
}

static uint64_t seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec;
}

int main(int argc, char **argv)
{
    uint64_t seed = test_seed(), rounds = 20000, seconds = 0, end, round = 0;
    uint8_t data[400];

    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 0);

        if (!strcmp(argv[i], "--seed"))
            seed = value;
        else if (!strcmp(argv[i], "--rounds"))
            rounds = value;
        else if (!strcmp(argv[i], "--seconds"))
            seconds = value;
    }
    printf("fuzz_handshake: --seed %" PRIu64 "\n", seed);
    fflush(stdout);
    random_state = (seed + 1) * 0x9e3779b97f4a7c15u | 1;
    end = seconds_now() + seconds;
    for (; seconds ? seconds_now() < end : round < rounds; round++)
        LLVMFuzzerTestOneInput(data, make(data));
    MUST(seconds || done);
    printf("fuzz_handshake: %" PRIu64 " rounds, %" PRIu64 " handshakes succeeded\n", round, done);
    return 0;
}

#endif
