/*
 * net_plain.c - the yardstick of "leat bench net": what a program without leat would write. A message is received
 * into ordinary memory as a whole, and then copied to the device; it is copied from the device as a whole, and
 * then sent.
 */
#include "bench_measure.h"
#include "net_end.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { CONNECT_MS = 5000, TOKEN_MS = 1000, SILENCE_SECONDS = 30 };

static bool failed(struct net_end *end, const char *what)
{
    pthread_mutex_lock(&end->bench->error_lock);
    if (!end->bench->error[0])
        snprintf(end->bench->error, sizeof end->bench->error, "the plain socket: %s: %s", what, strerror(errno));
    pthread_mutex_unlock(&end->bench->error_lock);
    return false;
}

/* ---- connecting ---- */

struct place {
    struct sockaddr_storage address;
    socklen_t length;
};

/* Makes the address of a plain socket at the host of a link's address. port 0: any. */
static bool host_place(struct net_end *end, const char *address, uint32_t port, struct place *place)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char host[256], service[16];
    const char *colon = strrchr(address, ':');

    address += strcspn(address, ":") + 1;
    if (!colon || colon < address)
        colon = address + strlen(address);
    snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    if (host[0] == '[') {
        memmove(host, host + 1, strlen(host));
        host[strcspn(host, "]")] = '\0';
    }
    snprintf(service, sizeof service, "%u", port);
    if (getaddrinfo(host, service, &hints, &found) != 0) {
        errno = EADDRNOTAVAIL;
        return failed(end, host);
    }
    memcpy(&place->address, found->ai_addr, found->ai_addrlen);
    place->length = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

static void unix_place(const char *name, struct place *place)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    /* The first byte 0 selects the abstract namespace. */
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%.90s", name);
    place->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(address.sun_path + 1));
    memcpy(&place->address, &address, sizeof address);
}

static bool is_unix(const char *address)
{
    return !strncmp(address, "unix:", 5);
}

static void set_up(int socket)
{
    const struct timeval silence = {.tv_sec = SILENCE_SECONDS};
    const int one = 1;

    /* These fail for unix sockets, or do no harm without effect. */
    (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence);
    (void)setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof silence);
}

static bool move_all(struct net_end *end, int socket, bool out, void *memory, size_t bytes)
{
    char *at = memory;

    while (bytes) {
        ssize_t some = out ? send(socket, at, bytes, MSG_NOSIGNAL) : recv(socket, at, bytes, 0);

        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0) {
            if (!some)
                errno = ECONNRESET;
            return failed(end, out ? "send" : "recv");
        }
        at += some;
        bytes -= (size_t)some;
    }
    return true;
}

int net_plain_listen(struct net_end *end, const char *address, struct net_reply *reply)
{
    struct place place;
    int listener;

    if (getentropy(reply->token, sizeof reply->token) != 0) {
        failed(end, "getentropy");
        return -1;
    }
    reply->port = 0;
    if (is_unix(address)) {
        uint64_t number = 0;

        (void)!getentropy(&number, sizeof number);
        snprintf(reply->text, sizeof reply->text, "leat-plain-%016llx", (unsigned long long)number);
        unix_place(reply->text, &place);
    } else if (!host_place(end, address, 0, &place)) {
        return -1;
    }
    listener = socket(place.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&place.address, place.length) != 0 ||
        listen(listener, 4) != 0 ||
        getsockname(listener, (struct sockaddr *)&place.address, &(socklen_t){sizeof place.address}) != 0) {
        failed(end, "listen");
        if (listener >= 0)
            close(listener);
        return -1;
    }
    if (!is_unix(address))
        reply->port =
            ntohs(place.address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&place.address)->sin6_port
                                                      : ((struct sockaddr_in *)&place.address)->sin_port);
    return listener;
}

/* Returns the milliseconds until a time, at least 0. */
static int left_ms(double until)
{
    double left = (until - bench_now()) * 1e3;

    return left > 0 ? (int)left + 1 : 0;
}

/* Returns true if what connected sends the token at once. A stranger that sends nothing, or sends it byte by byte,
 * must not keep the other end from connecting. */
static bool knows_token(int socket, const struct net_reply *reply, double give_up)
{
    double until = bench_now() + (double)TOKEN_MS * 1e-3;
    unsigned char token[NET_TOKEN_BYTES], different = 0;
    struct pollfd look = {.fd = socket, .events = POLLIN};
    size_t got = 0;

    until = until < give_up ? until : give_up;
    while (got < sizeof token) {
        int wait_ms = left_ms(until), ready = wait_ms ? poll(&look, 1, wait_ms) : 0;
        ssize_t some = ready > 0 ? recv(socket, token + got, sizeof token - got, MSG_DONTWAIT) : 0;

        if ((ready < 0 || some < 0) && (errno == EINTR || errno == EAGAIN))
            continue;
        if (some <= 0)
            return false;
        got += (size_t)some;
    }
    for (unsigned i = 0; i < sizeof token; i++)
        different |= token[i] ^ reply->token[i];
    return !different;
}

bool net_plain_accept(struct net_end *end, int listener, const struct net_reply *reply)
{
    double give_up = bench_now() + (double)CONNECT_MS * 1e-3;
    struct pollfd look = {.fd = listener, .events = POLLIN};
    int socket = -1;

    while (socket < 0 && bench_now() < give_up && poll(&look, 1, left_ms(give_up)) > 0) {
        socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (socket < 0)
            continue;
        set_up(socket);
        if (!knows_token(socket, reply, give_up)) {
            close(socket);
            socket = -1;
        }
    }
    close(listener);
    if (socket < 0) {
        errno = ETIMEDOUT;
        return failed(end, "accept");
    }
    end->plain = socket;
    return true;
}

bool net_plain_connect(struct net_end *end, const char *address, const struct net_reply *reply)
{
    unsigned char token[NET_TOKEN_BYTES];
    struct place place;
    int plain;

    if (is_unix(address))
        unix_place(reply->text, &place);
    else if (!host_place(end, address, reply->port, &place))
        return false;
    plain = socket(place.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(token, reply->token, sizeof token);
    if (plain < 0 || connect(plain, (struct sockaddr *)&place.address, place.length) != 0) {
        failed(end, "connect");
        if (plain >= 0)
            close(plain);
        return false;
    }
    set_up(plain);
    end->plain = plain;
    return move_all(end, plain, true, token, sizeof token);
}

/* ---- runs ---- */

/* One direction of a run. */
struct lane {
    struct net_end *end;
    const struct net_command *command;
    bool fine[2]; /* [0]: receiving, [1]: sending; each thread of a run in both directions writes one */
};

/* The stream of leat's copies, which the streams of the link's runs leave alone. */
static leat_stream *stream_of(struct net_end *end, bool out)
{
    return end->bench->driver_streams[out];
}

static bool send_one(struct net_end *end, const struct net_command *command, void *from)
{
    void *memory = from;

    if (command->kind == NET_DEVICE) {
        memory = net_buffer(end, NET_PAGEABLE, true);
        if (!bench_check(end->bench, leat_copy_sync(stream_of(end, true), memory, from, command->bytes)))
            return false;
    }
    return move_all(end, end->plain, true, memory, command->bytes);
}

static bool receive_one(struct net_end *end, const struct net_command *command)
{
    void *to = net_buffer(end, command->kind, false);
    void *memory = command->kind == NET_DEVICE ? net_buffer(end, NET_PAGEABLE, false) : to;

    if (!move_all(end, end->plain, false, memory, command->bytes) ||
        (memory != to &&
         (!bench_check(end->bench, leat_copy_sync(stream_of(end, false), to, memory, command->bytes)) ||
          !bench_check(end->bench, leat_stream_synchronize(stream_of(end, false))))))
        return false;
    return true;
}

static bool send_all(struct net_end *end, const struct net_command *command)
{
    void *from = net_buffer(end, command->kind, true);

    for (unsigned i = 0; i < command->count; i++)
        if (!send_one(end, command, from))
            return false;
    return true;
}

static bool receive_all(struct net_end *end, const struct net_command *command)
{
    for (unsigned i = 0; i < command->count; i++)
        if (!receive_one(end, command))
            return false;
    return true;
}

static void run_lane(void *argument, unsigned index, unsigned count)
{
    struct lane *lane = argument;

    (void)count;
    lane->fine[index] = index ? send_all(lane->end, lane->command) : receive_all(lane->end, lane->command);
}

static bool run_both(struct net_end *end, const struct net_command *command)
{
    struct lane lane = {.end = end, .command = command};

    bench_workers_run(end->bench->pair, run_lane, &lane);
    return lane.fine[0] && lane.fine[1];
}

/* Sends or receives the byte by which one end tells the other that it may begin, or that it has all bytes. */
static bool signal_byte(struct net_end *end, bool out)
{
    char byte = 1;

    return move_all(end, end->plain, out, &byte, 1);
}

bool net_plain_run(struct net_end *end, const struct net_command *command)
{
    bool served = end->served;

    if (command->op == NET_PING)
        return served ? receive_one(end, command) && send_one(end, command, net_buffer(end, command->kind, false))
                      : send_one(end, command, net_buffer(end, command->kind, true)) && receive_one(end, command);
    switch (command->direction) {
    case NET_OUT:
        return (served ? receive_all(end, command) : send_all(end, command)) && signal_byte(end, served);
    case NET_IN:
        return signal_byte(end, !served) && (served ? send_all(end, command) : receive_all(end, command));
    default:
        return run_both(end, command) && signal_byte(end, served);
    }
}
