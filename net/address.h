/* address.h - addresses of links: "tcp:HOST:PORT", "ucx:HOST:PORT", "unix:PATH" and "unix:@NAME". */
#ifndef LEATN_ADDRESS_H
#define LEATN_ADDRESS_H

#include <leat/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum leatn_scheme { LEATN_TCP, LEATN_UCX, LEATN_UNIX };

/* The longest path or name of a Unix socket: struct sockaddr_un has 108 bytes, one of them for a 0. */
enum { LEATN_HOST_MAX = 255, LEATN_PATH_MAX = 107, LEATN_ADDRESS_MAX = 400 };

struct leatn_address {
    enum leatn_scheme scheme;
    char host[LEATN_HOST_MAX + 1]; /* tcp and ucx; an IPv6 address without its brackets */
    bool brackets;                 /* the host is an IPv6 address */
    uint16_t port;
    char path[LEATN_PATH_MAX + 1]; /* unix: the path, or the name without its '@' */
    bool abstract;                 /* unix: the name is in the abstract namespace */
};

/* Parses an address. call is the name of the public call, for the message. listening: the port may be 0. */
leat_status leatn_address_parse(const char *call, const char *text, bool listening, struct leatn_address *address);

/* Writes an address as text that leatn_address_parse() accepts. Longer text is truncated. */
void leatn_address_print(const struct leatn_address *address, char *text, size_t bytes);

/* Returns "tcp", "ucx" or "unix". */
const char *leatn_scheme_name(enum leatn_scheme scheme);

#endif
