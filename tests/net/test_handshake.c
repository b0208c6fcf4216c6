/*
 * test_handshake.c - tests the proofs of the key against other programs and other keys: foreign clients and
 * servers, silence, cut and changed messages, replays, reflections, other versions, and many slow clients at once.
 *
 * The plain sockets of this file speak the protocol of net/handshake.h byte by byte.
 */
#include "net_room.h"

#include "handshake.h"

#include <openssl/hmac.h>

enum { HELLO = LEATN_HELLO_BYTES, PROOF = LEATN_PROOF_BYTES };

/* Makes a hello as the end that connects (role 1) or listens (role 2) sends it, with a nonce of this byte. */
static void make_hello(unsigned char *hello, uint32_t version, unsigned char role, unsigned char flags, int nonce)
{
    const uint64_t idle = 30 * SECOND;

    memset(hello, 0, HELLO);
    memcpy(hello, "leat-net", 8);
    memcpy(hello + 8, &version, sizeof version);
    hello[12] = role;
    hello[13] = flags;
    memcpy(hello + 16, &idle, sizeof idle);
    memset(hello + 32, nonce, 32);
}

/* ---- keys ---- */

static void keys_that_differ(void **state)
{
    leat_listener *listener = listen_with("tcp:127.0.0.1:0", good_key);
    struct call accept, connect;

    (void)state;
    begin_refuse(&accept, listener);
    begin_connect(&connect, address_of(listener), other_key);
    end_refused(&connect, "the keys of the two ends differ");
    end_refused(&accept, "the keys of the two ends differ");
    expect_good(listener, good_key);
    OK(leat_listener_close(listener));
}

/* A key is all its bytes: one that is longer or shorter is another one. */
static void keys_of_other_lengths(void **state)
{
    leat_listener *listener = listen_with("tcp:127.0.0.1:0", good_key);
    leat_link_options options = options_with(good_key);
    struct call accept;
    leat_link *link = NULL;

    (void)state;
    begin_refuse(&accept, listener);
    options.key_bytes -= 1;
    REFUSED(leat_connect(address_of(listener), &options, &link), LEAT_ERROR_LINK,
            "the keys of the two ends differ");
    options.key_bytes += 2; /* and the terminating 0 */
    REFUSED(leat_connect(address_of(listener), &options, &link), LEAT_ERROR_LINK,
            "the keys of the two ends differ");
    end_refused(&accept, "the keys of the two ends differ");
    OK(leat_listener_close(listener));
}

static void one_end_without_key(void **state)
{
    char address[64];
    leat_listener *listener;
    struct call accept, connect;

    (void)state;
    snprintf(address, sizeof address, "unix:@leat-test-key-%d", (int)getpid());
    listener = listen_with(address, good_key);
    begin_refuse(&accept, listener);
    begin_connect(&connect, address, NULL);
    end_refused(&connect, "the other end has a key, and this end has none");
    end_refused(&accept, "this end has a key, and the other end has none");
    OK(leat_listener_close(listener));

    listener = listen_with(address, NULL);
    begin_refuse(&accept, listener);
    begin_connect(&connect, address, good_key);
    end_refused(&connect, "this end has a key, and the other end has none");
    end_refused(&accept, "the other end has a key, and this end has none");
    OK(leat_listener_close(listener));
}

/* ---- foreign clients ---- */

/* Sends bytes to the listener, which must drop the connection with these words, and answer nothing. */
static void foreign_client(leat_listener *listener, const void *bytes, size_t count, const char *words)
{
    int fd = plain_connect(port_in(address_of(listener)));
    char answer[HELLO];

    send_bytes(fd, bytes, count);
    expect_dropped(listener, words);
    assert_int_equal(receive_bytes(fd, answer, sizeof answer), 0);
    close(fd);
}

static void foreign_clients(void **state)
{
    leat_listener *listener = listen_with("tcp:127.0.0.1:0", good_key);
    static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    unsigned char garbage[1000];

    (void)state;
    foreign_client(listener, http, sizeof http - 1, "the other end is no leat: it sent 'GET / HTTP/1.1??Host");
    foreign_client(listener, "x", 1, "it sent 'x'");
    foreign_client(listener, "leat-nex", 8, "it sent 'leat-nex'");
    foreign_client(listener, "leat_", 5, "it sent 'leat_'");
    memset(garbage, 0x80, sizeof garbage);
    foreign_client(listener, garbage, sizeof garbage, "it sent '????");
    memset(garbage, 0, sizeof garbage);
    foreign_client(listener, garbage, sizeof garbage, "it sent '????");
    expect_good(listener, good_key);
    OK(leat_listener_close(listener));
}

/* Clients that close early, at each byte of the hello. */
static void cut_hellos(void **state)
{
    leat_listener *listener = listen_with("tcp:127.0.0.1:0", good_key);
    unsigned char hello[HELLO];
    char words[64];

    (void)state;
    make_hello(hello, LEATN_VERSION, 1, 1, 7);
    for (size_t bytes = 0; bytes < HELLO; bytes++) {
        int fd = plain_connect(port_in(address_of(listener)));

        send_bytes(fd, hello, bytes);
        close(fd);
        snprintf(words, sizeof words, "of which %zu of 96 bytes came", bytes);
        expect_dropped(listener, words);
    }
    expect_good(listener, good_key);
    OK(leat_listener_close(listener));
}

/* Clients that send a part and then nothing are dropped at the deadline. */
static void silent_clients(void **state)
{
    leat_link_options options = options_with(good_key);
    leat_listener *listener = NULL;
    unsigned char hello[HELLO], answer[HELLO + 1];
    leat_link *link = NULL;
    int silent, half, whole;

    (void)state;
    make_hello(hello, LEATN_VERSION, 1, 1, 7);
    options.setup_timeout_ns = 200 * MILLISECOND;
    OK(leat_listen("tcp:127.0.0.1:0", &options, &listener));
    silent = plain_connect(port_in(address_of(listener)));
    half = plain_connect(port_in(address_of(listener)));
    whole = plain_connect(port_in(address_of(listener)));
    send_bytes(half, hello, 30);
    send_bytes(whole, hello, HELLO);
    expect_dropped(listener, "did not come within 200 ms");
    assert_int_equal(leat_accept(listener, 300 * MILLISECOND, &link), LEAT_NOT_READY); /* the other two */
    assert_int_equal(receive_bytes(silent, answer, sizeof answer), 0);
    assert_int_equal(receive_bytes(half, answer, sizeof answer), 0);
    assert_int_equal(receive_bytes(whole, answer, sizeof answer), HELLO);
    close(silent);
    close(half);
    close(whole);
    OK(leat_listener_close(listener));
}

/* The deadline is for all of the handshake: single bytes do not move it. */
static void dripping_client(void **state)
{
    leat_link_options options = options_with(good_key);
    leat_listener *listener = NULL;
    unsigned char hello[HELLO];
    size_t sent = 0;
    leat_link *link = NULL;
    int fd;

    (void)state;
    make_hello(hello, LEATN_VERSION, 1, 1, 7);
    options.setup_timeout_ns = 200 * MILLISECOND;
    OK(leat_listen("tcp:127.0.0.1:0", &options, &listener));
    fd = plain_connect(port_in(address_of(listener)));
    for (;;) {
        if (sent < HELLO - 1)
            send(fd, hello + sent++, 1, MSG_NOSIGNAL);
        assert_int_equal(leat_accept(listener, 10 * MILLISECOND, &link), LEAT_NOT_READY);
        if (strstr(leat_last_error(), "did not come within 200 ms"))
            break;
    }
    close(fd);
    OK(leat_listener_close(listener));
}

/* ---- hellos that are wrong ---- */

/* Sends a hello to the listener, which must answer with its own and drop the connection with these words. */
static void wrong_hello(leat_listener *listener, const unsigned char *hello, const char *words)
{
    int fd = plain_connect(port_in(address_of(listener)));
    unsigned char answer[HELLO + 1];

    send_bytes(fd, hello, HELLO);
    expect_dropped(listener, words);
    assert_int_equal(receive_bytes(fd, answer, sizeof answer), HELLO);
    assert_memory_equal(answer, "leat-net", 8);
    close(fd);
}

static void wrong_hellos(void **state)
{
    leat_listener *listener = listen_with("tcp:127.0.0.1:0", good_key);
    unsigned char hello[HELLO];

    (void)state;
    make_hello(hello, LEATN_VERSION + 1, 1, 1, 7);
    wrong_hello(listener, hello, "the other end has version 4 of the protocol, and this end version 3");
    make_hello(hello, UINT32_MAX, 1, 1, 7);
    wrong_hello(listener, hello, "version 4294967295");
    make_hello(hello, LEATN_VERSION, 1, 0, 7);
    wrong_hello(listener, hello, "this end has a key, and the other end has none");
    make_hello(hello, LEATN_VERSION, 2, 1, 7);
    wrong_hello(listener, hello, "the other end says that it listens too");
    make_hello(hello, LEATN_VERSION, 0, 1, 7);
    wrong_hello(listener, hello, "the other end says that it listens too");
    make_hello(hello, LEATN_VERSION, 1, 1, 7);
    memset(hello + 16, 0, 8);
    wrong_hello(listener, hello, "an idle timeout of 0");
    expect_good(listener, good_key);
    OK(leat_listener_close(listener));
}

/* A client that knows the protocol, but not the key, and tries some proofs. None may be accepted, and none may be
 * answered with a proof. */
static void guessed_proofs(void **state)
{
    leat_listener *listener = listen_with("tcp:127.0.0.1:0", good_key);
    unsigned char hello[HELLO], theirs[HELLO], proof[PROOF], answer[PROOF + 1], nothing[32] = {0};

    (void)state;
    for (int guess = 0; guess < 4; guess++) {
        int fd = plain_connect(port_in(address_of(listener)));

        make_hello(hello, LEATN_VERSION, 1, 1, 7);
        send_bytes(fd, hello, HELLO);
        expect_answer(listener, fd, theirs, HELLO);
        memset(proof, 0, PROOF);
        if (guess == 1)
            memset(proof, 0xff, PROOF);
        else if (guess == 2)
            memcpy(proof + 8, theirs + 32, 32); /* the nonce */
        else if (guess == 3)
            proof[0] = 1; /* "the keys differ" */
        send_bytes(fd, proof, PROOF);
        expect_dropped(listener, guess == 1 ? "which this version does not know" : "keys");
        assert_int_equal(receive_bytes(fd, answer, sizeof answer), PROOF);
        assert_int_equal(answer[0], 1);
        assert_memory_equal(answer + 8, nothing, 32);
        close(fd);
    }
    OK(leat_listener_close(listener));
}

/* ---- foreign servers ---- */

/* Lets leat_connect() meet a server that sends these bytes and closes. It must fail with these words. */
static void foreign_server(const void *bytes, size_t count, const char *words)
{
    char address[64];
    int fd = plain_listen(address, sizeof address), accepted;
    struct call connect;
    unsigned char hello[HELLO];

    begin_connect(&connect, address, good_key);
    accepted = plain_accept(fd);
    assert_int_equal(receive_bytes(accepted, hello, HELLO), HELLO);
    send_bytes(accepted, bytes, count);
    shutdown(accepted, SHUT_WR);
    end_refused(&connect, words);
    close(accepted);
    close(fd);
}

static void foreign_servers(void **state)
{
    static const char http[] = "HTTP/1.1 400 Bad Request\r\nServer: test\r\n\r\n";
    unsigned char hello[HELLO + PROOF] = {0};

    (void)state;
    foreign_server(http, sizeof http - 1, "the other end is no leat: it sent 'HTTP/1.1 400 Bad Request");
    foreign_server("", 0, "closed the connection without an answer: it is no leat");
    foreign_server("SSH-2.0", 7, "it sent 'SSH-2.0'");
    make_hello(hello, 9, 2, 1, 7);
    foreign_server(hello, HELLO, "the other end has version 9 of the protocol");
    foreign_server(hello, 12, "the other end has version 9 of the protocol");
    make_hello(hello, LEATN_VERSION, 2, 1, 7);
    foreign_server(hello, 95, "of which 95 of 96 bytes came");
    foreign_server(hello, HELLO, "before the proof of the key, of which 0 of 40 bytes came");
    foreign_server(hello, HELLO + PROOF, "the keys of the two ends differ");
    hello[HELLO] = 77;
    foreign_server(hello, HELLO + PROOF, "with the reason 77");
    make_hello(hello, LEATN_VERSION, 2, 0, 7);
    foreign_server(hello, HELLO, "this end has a key, and the other end has none");
}

/* A server that sends everything back. */
static void reflecting_server(void **state)
{
    char address[64], bytes[256];
    int fd = plain_listen(address, sizeof address), accepted;
    struct call connect;
    ssize_t got;

    (void)state;
    begin_connect(&connect, address, good_key);
    accepted = plain_accept(fd);
    while ((got = recv(accepted, bytes, sizeof bytes, 0)) > 0)
        send_bytes(accepted, bytes, (size_t)got);
    end_refused(&connect, "the other end says that it connects too");
    close(accepted);
    close(fd);
}

/* A server that does not know the key, changes the role in the hello that it sends back, and then sends the
 * client's own proof back. */
static void reflected_proof(void **state)
{
    char address[64];
    int fd = plain_listen(address, sizeof address), accepted;
    unsigned char hello[HELLO], proof[PROOF];
    struct call connect;

    (void)state;
    begin_connect(&connect, address, good_key);
    accepted = plain_accept(fd);
    assert_int_equal(receive_bytes(accepted, hello, HELLO), HELLO);
    hello[12] = 2;
    send_bytes(accepted, hello, HELLO);
    assert_int_equal(receive_bytes(accepted, proof, PROOF), PROOF);
    send_bytes(accepted, proof, PROOF);
    end_refused(&connect, "the keys of the two ends differ");
    close(accepted);
    close(fd);
}

/* ---- somebody between the two ends ---- */

/* Forwards a handshake between an end that connects and a listener, and records it. In one of the messages one
 * byte may be changed. */
struct between {
    pthread_t thread;
    int fd;
    uint16_t to;
    int message; /* 0 to 3, in their order; -1: changes nothing */
    size_t at;
    unsigned char messages[4][HELLO];
};

static void *forward(void *given)
{
    static const size_t sizes[4] = {HELLO, HELLO, PROOF, PROOF};
    struct between *between = given;
    int client = plain_accept(between->fd), server = plain_connect(between->to);

    for (int i = 0; i < 4; i++) {
        int from = i % 2 ? server : client, to = i % 2 ? client : server;
        unsigned char *message = between->messages[i];

        if (receive_bytes(from, message, sizes[i]) < sizes[i])
            break;
        if (i == between->message)
            message[between->at] ^= 1;
        send_bytes(to, message, sizes[i]);
    }
    close(client);
    close(server);
    return NULL;
}

/* Connects through somebody who changes one byte. Returns what both ends say. */
static void connect_between(leat_listener *listener, int message, size_t at, struct between *between,
                            struct call *accept, struct call *connect)
{
    char address[64];

    memset(between, 0, sizeof *between);
    between->fd = plain_listen(address, sizeof address);
    between->to = port_in(address_of(listener));
    between->message = message;
    between->at = at;
    assert_int_equal(pthread_create(&between->thread, NULL, forward, between), 0);
    if (message >= 0 && message < 3)
        begin_refuse(accept, listener);
    else
        begin_accept(accept, listener, 30 * SECOND);
    begin_connect(connect, address, good_key);
    end_call(connect);
    end_call(accept);
    pthread_join(between->thread, NULL);
    close(between->fd);
}

/* No change of any byte of the two hellos and of the first proof may go unnoticed. A change of the last proof is
 * noticed by the end that connects. */
static void changed_messages(void **state)
{
    leat_listener *listener = listen_with("tcp:127.0.0.1:0", good_key);
    struct between between;
    struct call accept, connect;

    (void)state;
    connect_between(listener, -1, 0, &between, &accept, &connect);
    assert_int_equal(connect.status, LEAT_OK);
    assert_int_equal(accept.status, LEAT_OK);
    OK(leat_link_close(connect.link));
    OK(leat_link_close(accept.link));
    for (int message = 0; message < 4; message++) {
        size_t bytes = message < 2 ? HELLO : PROOF;

        for (size_t at = 0; at < bytes; at++) {
            /* These four bytes of a proof have no meaning. */
            if (message >= 2 && at >= 4 && at < 8)
                continue;
            connect_between(listener, message, at, &between, &accept, &connect);
            assert_int_equal(connect.status, LEAT_ERROR_LINK);
            if (message < 3)
                assert_int_equal(accept.status, LEAT_NOT_READY);
            OK(leat_link_close(accept.link));
        }
    }
    expect_good(listener, good_key);
    OK(leat_listener_close(listener));
}

/* Records a good handshake, and plays both sides of it again. */
static void replayed_handshake(void **state)
{
    leat_listener *listener = listen_with("tcp:127.0.0.1:0", good_key);
    unsigned char hello[HELLO], answer[PROOF + 1], recorded[HELLO + PROOF];
    struct between between;
    struct call accept, connect;
    int fd;

    (void)state;
    connect_between(listener, -1, 0, &between, &accept, &connect);
    assert_int_equal(accept.status, LEAT_OK);
    OK(leat_link_close(connect.link));
    OK(leat_link_close(accept.link));

    fd = plain_connect(port_in(address_of(listener)));
    send_bytes(fd, between.messages[0], HELLO);
    send_bytes(fd, between.messages[2], PROOF);
    expect_dropped(listener, "the keys of the two ends differ");
    assert_int_equal(receive_bytes(fd, hello, HELLO), HELLO);
    assert_memory_not_equal(hello + 32, between.messages[1] + 32, 32);
    assert_int_equal(receive_bytes(fd, answer, sizeof answer), PROOF);
    close(fd);

    memcpy(recorded, between.messages[1], HELLO);
    memcpy(recorded + HELLO, between.messages[3], PROOF);
    foreign_server(recorded, sizeof recorded, "the keys of the two ends differ");
    OK(leat_listener_close(listener));
}

/* A connection to one listener cannot be used to prove the key to another one: the second listener's nonce
 * differs. */
static void relayed_proof(void **state)
{
    leat_listener *first = listen_with("tcp:127.0.0.1:0", good_key),
                  *second = listen_with("tcp:127.0.0.1:0", good_key);
    unsigned char hello[HELLO], theirs[HELLO], proof[PROOF], answer[HELLO];
    char address[64];
    int fd = plain_listen(address, sizeof address), victim, to_first, to_second;
    struct call connect, accept;

    (void)state;
    begin_connect(&connect, address, good_key);
    victim = plain_accept(fd);
    to_first = plain_connect(port_in(address_of(first)));
    to_second = plain_connect(port_in(address_of(second)));
    assert_int_equal(receive_bytes(victim, hello, HELLO), HELLO);
    send_bytes(to_first, hello, HELLO);
    send_bytes(to_second, hello, HELLO);
    begin_refuse(&accept, first);
    assert_int_equal(receive_bytes(to_first, theirs, HELLO), HELLO);
    send_bytes(victim, theirs, HELLO);
    assert_int_equal(receive_bytes(victim, proof, PROOF), PROOF);
    send_bytes(to_second, proof, PROOF);
    expect_dropped(second, "the keys of the two ends differ");
    assert_int_equal(receive_bytes(to_second, answer, HELLO), HELLO);
    close(victim);
    close(to_first);
    close(to_second);
    close(fd);
    assert_int_equal(end_call(&connect), LEAT_ERROR_LINK);
    assert_int_equal(end_call(&accept), LEAT_NOT_READY);
    OK(leat_listener_close(first));
    OK(leat_listener_close(second));
}

/* ---- many at once ---- */

enum { SLOW = 65 };

/* Clients that send nothing, or half a hello, or a whole one, do not hold up one with the key, before or after
 * them. */
static void slow_clients(void **state)
{
    leat_listener *listener = listen_with("tcp:127.0.0.1:0", good_key);
    unsigned char hello[HELLO], answer[HELLO + 1];
    int slow[SLOW];
    size_t dropped = 0;

    (void)state;
    make_hello(hello, LEATN_VERSION, 1, 1, 7);
    for (int i = 0; i < SLOW; i++) {
        slow[i] = plain_connect(port_in(address_of(listener)));
        send_bytes(slow[i], hello, i % 3 == 0 ? 0 : i % 3 == 1 ? 20 : HELLO);
    }
    expect_good(listener, good_key);
    expect_good(listener, good_key);
    /* The 65th took the place of the first; each good one took one more place. */
    for (int i = 0; i < SLOW; i++) {
        struct pollfd polled = {.fd = slow[i], .events = POLLIN};

        if (poll(&polled, 1, 0) == 1 && !recv(slow[i], answer, sizeof answer, MSG_PEEK))
            dropped++;
    }
    assert_in_range(dropped, 1, 3);
    assert_int_equal(receive_bytes(slow[0], answer, sizeof answer), 0);
    OK(leat_listener_close(listener));
    for (int i = 0; i < SLOW; i++)
        close(slow[i]);
}

/* The 65th of those that are silent: the message says why the first was dropped. */
static void oldest_makes_room(void **state)
{
    leat_listener *listener = listen_with("tcp:127.0.0.1:0", good_key);
    int silent[SLOW];
    char byte;

    (void)state;
    for (int i = 0; i < SLOW; i++)
        silent[i] = plain_connect(port_in(address_of(listener)));
    expect_dropped(listener, "64 later connections came");
    assert_int_equal(receive_bytes(silent[0], &byte, 1), 0);
    for (int i = 1; i < SLOW; i++)
        assert_int_equal(recv(silent[i], &byte, 1, MSG_DONTWAIT), -1);
    for (int i = 0; i < SLOW; i++)
        close(silent[i]);
    OK(leat_listener_close(listener));
}

enum { GOOD = 30 };

/* Clients with the key among clients with another one, all at once, and fewer than there are places. */
static void crowd(void **state)
{
    leat_listener *listener = listen_with("tcp:127.0.0.1:0", good_key);
    struct call good[GOOD], bad[GOOD];
    leat_link *link;

    (void)state;
    for (int i = 0; i < GOOD; i++) {
        begin_connect(&good[i], address_of(listener), good_key);
        begin_connect(&bad[i], address_of(listener), other_key);
    }
    for (int i = 0; i < GOOD; i++) {
        OK(leat_accept(listener, 60 * SECOND, &link));
        OK(leat_link_close(link));
    }
    OK(leat_listener_close(listener));
    for (int i = 0; i < GOOD; i++) {
        assert_int_equal(end_call(&good[i]), LEAT_OK);
        OK(leat_link_close(good[i].link));
        assert_int_equal(end_call(&bad[i]), LEAT_ERROR_LINK);
    }
}

/* ---- keys of encrypted links ---- */

/* Connects two ends, of which some want encryption. */
static void connect_wishing(bool connector, bool listener_wish, struct call *connect, struct call *accept)
{
    leat_link_options options = options_with(good_key);
    leat_listener *listener = NULL;

    options.encrypt = listener_wish;
    OK(leat_listen("tcp:127.0.0.1:0", &options, &listener));
    begin_accept(accept, listener, 30 * SECOND);
    memset(connect, 0, sizeof *connect);
    snprintf(connect->address, sizeof connect->address, "%s", address_of(listener));
    connect->options = options_with(good_key);
    connect->options.encrypt = connector;
    assert_int_equal(pthread_create(&connect->thread, NULL, run_call, connect), 0);
    OK(end_call(connect));
    OK(end_call(accept));
    OK(leat_listener_close(listener));
}

/* If one end wants encryption, both have the keys of both directions, and no key is there twice. */
static void encryption_that_is_wanted(void **state)
{
    unsigned char seen[6][LEATN_SESSION_KEY_BYTES];
    size_t count = 0;

    (void)state;
    for (int wishes = 0; wishes < 4; wishes++) {
        struct call connect, accept;
        const struct net_connection *one, *two;

        connect_wishing(wishes & 1, wishes & 2, &connect, &accept);
        one = &connect.link->connection;
        two = &accept.link->connection;
        assert_int_equal(one->encrypted, wishes != 0);
        assert_int_equal(two->encrypted, wishes != 0);
        if (wishes) {
            assert_memory_equal(one->keys.send, two->keys.receive, LEATN_SESSION_KEY_BYTES);
            assert_memory_equal(one->keys.receive, two->keys.send, LEATN_SESSION_KEY_BYTES);
            memcpy(seen[count++], one->keys.send, LEATN_SESSION_KEY_BYTES);
            memcpy(seen[count++], two->keys.send, LEATN_SESSION_KEY_BYTES);
        }
        OK(leat_link_close(connect.link));
        OK(leat_link_close(accept.link));
    }
    assert_int_equal(count, 6);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(seen[i], seen[k], LEATN_SESSION_KEY_BYTES);
}

static void encryption_that_is_refused(void **state)
{
    leat_link_options options = options_with(NULL);
    leat_listener *listener = NULL;
    leat_link *link = NULL;

    (void)state;
    options.encrypt = 1;
    REFUSED(leat_listen("unix:@leat-test-encrypt", &options, &listener), LEAT_ERROR_INVALID, "encrypt needs a key");
    REFUSED(leat_connect("unix:@leat-test-encrypt", &options, &link), LEAT_ERROR_INVALID, "encrypt needs a key");
    options = options_with(good_key);
    options.encrypt = 2;
    REFUSED(leat_listen("tcp:127.0.0.1:0", &options, &listener), LEAT_ERROR_INVALID, "encrypt is 2");
    options.encrypt = 1;
    REFUSED(leat_listen("ucx:127.0.0.1:0", &options, &listener), LEAT_ERROR_UNSUPPORTED, "UCX does not encrypt");
}

/* A client that knows the key, wants encryption and sends no point of the curve as its public key. */
static void encryption_without_public_key(void **state)
{
    leat_listener *listener = listen_with("tcp:127.0.0.1:0", good_key);
    static const char use[] = "leat-net: proof";
    unsigned char hello[HELLO], proven[sizeof use + 1 + 2 * HELLO], proof[PROOF] = {0};
    unsigned char *role = proven + sizeof use;
    struct leatn_secret secret;
    int fd = plain_connect(port_in(address_of(listener)));
    struct call accept;

    (void)state;
    make_hello(hello, LEATN_VERSION, 1, 1 | 4, 7);
    begin_refuse(&accept, listener);
    send_bytes(fd, hello, HELLO);
    memcpy(proven, use, sizeof use);
    *role = 1;
    memcpy(role + 1, hello, HELLO);
    assert_int_equal(receive_bytes(fd, role + 1 + HELLO, HELLO), HELLO);
    assert_int_equal(leatn_secret_derive(&secret, good_key, strlen(good_key)), 0);
    assert_non_null(HMAC(EVP_sha256(), secret.key, sizeof secret.key, proven, sizeof proven, proof + 8, NULL));
    send_bytes(fd, proof, PROOF);
    end_refused(&accept, "no public key for the encryption");
    close(fd);
    expect_good(listener, good_key);
    OK(leat_listener_close(listener));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROOM_TEST(keys_that_differ),    ROOM_TEST(keys_of_other_lengths),
        ROOM_TEST(one_end_without_key), ROOM_TEST(foreign_clients),
        ROOM_TEST(cut_hellos),          ROOM_TEST(silent_clients),
        ROOM_TEST(dripping_client),     ROOM_TEST(wrong_hellos),
        ROOM_TEST(guessed_proofs),      ROOM_TEST(foreign_servers),
        ROOM_TEST(reflecting_server),   ROOM_TEST(reflected_proof),
        ROOM_TEST(changed_messages),    ROOM_TEST(replayed_handshake),
        ROOM_TEST(relayed_proof),       ROOM_TEST(slow_clients),
        ROOM_TEST(oldest_makes_room),   ROOM_TEST(crowd),
        ROOM_TEST(encryption_that_is_wanted),
        ROOM_TEST(encryption_that_is_refused),
        ROOM_TEST(encryption_without_public_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
