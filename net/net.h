/*
 * net.h - the internal interface of libleat-net: what its files share. All external names begin with leatn_, or
 * leatc_ for those that libleat-files has too (report.h), so that they cannot collide with those of libleat or of
 * a program that links it statically.
 */
#ifndef LEATN_NET_H
#define LEATN_NET_H

#include "cipher.h"
#include "report.h"

#include <leat/link.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The library sends numbers as they are in memory. */
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error libleat-net supports only little-endian machines
#endif

/* ---- options ---- */

enum { LEATN_KEY_MIN = 16, LEATN_KEY_MAX = 4096 };

/* The defaults of leat_link_options, for fields that are 0. */
#define LEATN_SETUP_TIMEOUT_NS (10 * UINT64_C(1000000000))
#define LEATN_IDLE_TIMEOUT_NS (30 * UINT64_C(1000000000))
#define LEATN_WINDOW_BYTES (UINT64_C(8) << 20)
#define LEATN_MEMORY_BYTES (UINT64_C(256) << 20) /* or four windows, if that is more */

/* ---- connections ---- */

/* A connection whose two ends have proved that they know the key. */
struct net_connection {
    int fd;                        /* a connected, non-blocking, close-on-exec stream socket */
    bool connected;                /* this end called leat_connect() */
    const char *transport;         /* "tcp", "unix", "ucx"; constant text */
    char peer[128];                /* the address of the other end, for messages and leat_link_info */
    int64_t peer_process;          /* unix: only, otherwise -1 */
    int64_t peer_user;             /* unix: only, otherwise -1 */
    uint64_t idle_timeout_ns;      /* of this end */
    uint64_t peer_idle_timeout_ns; /* of the other end: signs of life are sent three times in that time */
    uint64_t window_bytes;         /* of this end */
    uint64_t memory_bytes;         /* of this end */
    bool ucx;                      /* both ends have UCX, and the address was ucx: */
    bool encrypted;                /* with these keys, which the caller of leatn_link_create() erases */
    struct leatn_session_keys keys;
};

/* Makes a link of a connection, which is copied. Takes the descriptor only on success. */
leat_status leatn_link_create(const struct net_connection *connection, leat_link **link);

/* ---- helpers ---- */

/* Fails with NOT_PERMITTED inside a host function, and in a child of fork() whose parent has a device open. call
 * is the name of the public call, for the message. */
leat_status leatn_check_permitted(const char *call);

/* Returns the milliseconds until end_ns for poll() and epoll_wait(), rounded up; -1 for UINT64_MAX. */
int leatn_poll_ms(uint64_t end_ns);

#endif
