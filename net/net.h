/*
 * net.h - the internal interface of libleat-net: what its files share. All external names begin with leatn_, so
 * that they cannot collide with those of libleat or of a program that links it statically.
 */
#ifndef LEATN_NET_H
#define LEATN_NET_H

#include "cipher.h"

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

/* ---- failures ---- */

/* Sets this thread's message and returns status. */
leat_status leatn_fail(leat_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "<formatted>: " in front of this thread's message and returns status. */
leat_status leatn_fail_in(leat_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define TRY(expression)                                                                                           \
    do {                                                                                                          \
        leat_status try_status_ = (expression);                                                                   \
        if (try_status_ != LEAT_OK)                                                                               \
            return try_status_;                                                                                   \
    } while (0)

/* Fails with NOT_PERMITTED inside a host function, and in a child of fork() whose parent has a device open. call
 * is the name of the public call, for the message. */
leat_status leatn_check_permitted(const char *call);

/* Returns a copy of text for messages, in shown: bytes that are not printable ASCII become '?', and long text is
 * truncated. */
struct leatn_shown {
    char text[160];
};
const char *leatn_shown(struct leatn_shown *shown, const char *text, size_t bytes);

/* ---- structs that can grow: leat/base.h ---- */

/* Returns LEAT_OK if a call can use the caller's struct, otherwise INVALID. field: the name of the size field for
 * the message, such as "leat_link_get_info: info->size"; known_bytes: the size of the struct in this version of
 * the library. */
leat_status leatn_sized_check(const char *field, const char *type, const void *given, size_t known_bytes);

/* Copies a checked struct of the caller to known, which has known_bytes, and sets its size to that. Fields that
 * the caller's version does not have become 0. */
void leatn_sized_read(void *known, size_t known_bytes, const void *given);

/* Copies filled, which has known_bytes, into a checked struct of the caller, but only the fields that the caller's
 * version has. The caller's size field keeps its value. */
void leatn_sized_write(void *given, const void *filled, size_t known_bytes);

/* ---- time ---- */

/* Returns the time of the monotonic clock in nanoseconds. */
uint64_t leatn_now_ns(void);

/* Returns the time on that clock after_ns from now; UINT64_MAX, which is never, if the sum overflows. */
uint64_t leatn_end_ns(uint64_t after_ns);

/* Returns the milliseconds until end_ns for poll() and epoll_wait(), rounded up; -1 for UINT64_MAX. */
int leatn_poll_ms(uint64_t end_ns);

#endif
