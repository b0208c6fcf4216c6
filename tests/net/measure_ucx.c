/*
 * measure_ucx.c - measures net/ucx.h between two processes of this machine, beside plain sockets.
 *
 *     measure_ucx MODE [MIB]     prints "MODE N MB/s" (10^6 bytes), for MIB MiB in blocks of 1 MiB, 8 at a time
 *
 * Modes: ucx-sleep (waits for the descriptor, as the library does), ucx-poll (never waits), unix and tcp (blocking
 * sends and receives of 1 MiB). UCX_TLS selects the transports. The figure is that of the receiving end.
 * tools/measure-ucx.sh runs all modes beside ucx_perftest, and prints medians.
 */
#include "net.h"
#include "ucx.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK ((size_t)1 << 20)
enum { WINDOW = 8 };

#define NEED(condition)                                                                                           \
    do {                                                                                                          \
        if (!(condition)) {                                                                                       \
            fprintf(stderr, "measure_ucx.c:%d: %s: %s\n", __LINE__, #condition, leat_last_error());               \
            exit(1);                                                                                              \
        }                                                                                                         \
    } while (0)

static bool polls;
static atomic_uint changes;
static unsigned seen;

static void on_change(void *object)
{
    (void)object;
    atomic_fetch_add(&changes, 1);
}

static void step(struct leatn_ucx_worker *worker)
{
    struct pollfd watched = {.fd = leatn_ucx_descriptor(worker), .events = POLLIN};
    uint64_t wait_ns = polls ? 0 : leatn_ucx_progress(worker);
    struct timespec wait = {0, (long)wait_ns};
    unsigned now;

    if (polls)
        (void)leatn_ucx_poll(worker);
    now = atomic_load(&changes);
    if (now == seen && wait_ns)
        (void)ppoll(&watched, wait_ns == LEATN_UCX_ARMED, wait_ns == LEATN_UCX_ARMED ? NULL : &wait, NULL);
    seen = now;
}

static void transfer(int fd, void *memory, size_t bytes, bool out)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t some = out ? send(fd, (char *)memory + done, bytes - done, MSG_NOSIGNAL)
                           : recv(fd, (char *)memory + done, bytes - done, 0);

        NEED(some > 0);
        done += (size_t)some;
    }
}

static struct leatn_ucx_worker *open_worker(int control, bool first)
{
    struct leatn_ucx_worker *worker;
    char peer[LEATN_UCX_ADDRESS_MAX];
    size_t bytes, peer_bytes;
    const void *address;

    NEED(leatn_ucx_worker_create(on_change, NULL, &worker) == LEAT_OK);
    address = leatn_ucx_worker_address(worker, &bytes);
    transfer(control, &bytes, sizeof bytes, true);
    transfer(control, (void *)(uintptr_t)address, bytes, true);
    transfer(control, &peer_bytes, sizeof peer_bytes, false);
    NEED(peer_bytes <= sizeof peer);
    transfer(control, peer, peer_bytes, false);
    NEED(leatn_ucx_connect(worker, peer, peer_bytes, first) == LEAT_OK);
    while (!leatn_ucx_is_connected(worker)) {
        NEED(!leatn_ucx_has_failed(worker, NULL, 0));
        step(worker);
    }
    return worker;
}

static void move_ucx(struct leatn_ucx_worker *worker, unsigned char *memory, size_t count, bool out)
{
    static struct leatn_ucx_request requests[WINDOW];
    size_t started = 0, ended = 0;

    while (ended < count) {
        while (ended < started && leatn_ucx_state(&requests[ended % WINDOW]) != LEATN_UCX_RUNNING) {
            NEED(leatn_ucx_state(&requests[ended % WINDOW]) == LEATN_UCX_DONE);
            ended++;
        }
        for (; started < count && started - ended < WINDOW; started++) {
            unsigned char *at = memory + started % WINDOW * BLOCK;

            if (out)
                (void)leatn_ucx_send(worker, &requests[started % WINDOW], at, NULL, BLOCK, started);
            else
                (void)leatn_ucx_receive(worker, &requests[started % WINDOW], at, NULL, BLOCK, started);
        }
        if (ended < count)
            step(worker);
    }
}

static void make_tcp(int fds[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t at_bytes = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    NEED(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0);
    NEED(getsockname(listener, (struct sockaddr *)&at, &at_bytes) == 0);
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    NEED(connect(fds[0], (struct sockaddr *)&at, sizeof at) == 0);
    fds[1] = accept(listener, NULL, NULL);
    NEED(fds[1] >= 0);
    close(listener);
}

static void run_end(const char *mode, int fd, bool out, size_t count)
{
    unsigned char *memory = malloc(WINDOW * BLOCK);
    struct leatn_ucx_worker *worker = NULL;
    bool ucx = strncmp(mode, "ucx", 3) == 0;
    uint64_t begin, total;
    char byte = 0;

    NEED(memory);
    memset(memory, 1, WINDOW * BLOCK);
    if (ucx) {
        worker = open_worker(fd, out);
        move_ucx(worker, memory, WINDOW, out); /* warm up */
    }
    begin = leatc_now_ns();
    if (ucx)
        move_ucx(worker, memory, count, out);
    else
        for (size_t i = 0; i < count; i++)
            transfer(fd, memory + i % WINDOW * BLOCK, BLOCK, out);
    total = leatc_now_ns() - begin;
    if (!out)
        printf("%s %.0f MB/s\n", mode, (double)(count * BLOCK) * 1000 / (double)total);
    /* The receiving end says when it has everything. */
    if (out && ucx) {
        struct pollfd watched = {.fd = fd, .events = POLLIN};

        while (poll(&watched, 1, 1) == 0)
            (void)leatn_ucx_progress(worker);
    }
    transfer(fd, &byte, 1, !out);
    leatn_ucx_worker_destroy(worker);
    fflush(stdout);
}

int main(int count, char **arguments)
{
    const char *mode = count > 1 ? arguments[1] : "ucx-sleep";
    size_t blocks = count > 2 ? strtoul(arguments[2], NULL, 10) : 256;
    int fds[2], status;
    pid_t child;

    polls = strcmp(mode, "ucx-poll") == 0;
    if (strcmp(mode, "tcp") == 0)
        make_tcp(fds);
    else
        NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    child = fork();
    NEED(child >= 0);
    close(fds[!child]);
    run_end(mode, fds[child != 0], child != 0, blocks);
    return child && (waitpid(child, &status, 0) != child || status);
}
