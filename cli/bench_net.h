/*
 * bench_net.h - the processes that "leat bench net" starts: the other end, and ucx_perftest.
 */
#ifndef CLI_BENCH_NET_H
#define CLI_BENCH_NET_H

#include "bench.h"
#include "link_key.h"

#include <sys/types.h>

/* A "leat serve" that this process has started. */
struct net_server {
    pid_t process;     /* 0: none */
    int messages;      /* its standard error */
    char address[160]; /* at which it listens */
    struct link_key key;
};

/* Starts a "leat serve" over this transport, "tcp", "unix" or "ucx", with a random key. Returns false with
 * bench->error set. Call net_server_end() in both cases. */
bool net_server_start(struct bench *bench, const char *transport, struct net_server *server);

/* Waits for the end of the server, after its client has gone, and prints its messages if show is true. */
void net_server_end(struct net_server *server, bool show);

/* Measures messages of host memory by ucx_perftest between two processes: GB/s in one direction, or with
 * there_and_back the microseconds there and back. tcp: only over TCP. Returns NAN, with bench->error set, if it
 * does not run. */
double net_ucx_measure(struct bench *bench, bool tcp, bool there_and_back, size_t bytes);

#endif
