/* address.c - parses and prints addresses of links (address.h). */
#include "address.h"

#include "net.h"

#include <stdio.h>
#include <string.h>

static const char forms[] =
    "addresses are tcp:HOST:PORT, tcp:[IPV6]:PORT, unix:PATH, unix:@NAME and ucx:HOST:PORT";

const char *leatn_scheme_name(enum leatn_scheme scheme)
{
    return scheme == LEATN_UNIX ? "unix" : scheme == LEATN_UCX ? "ucx" : "tcp";
}

/* Copies bytes bytes of text into a field with room for max bytes and a 0. what: "host" or "path". */
static leat_status copy_part(char *field, const char *what, size_t max, const char *text, size_t bytes)
{
    if (!bytes)
        return leatc_fail(LEAT_ERROR_INVALID, "its %s is empty; %s", what, forms);
    if (bytes > max)
        return leatc_fail(LEAT_ERROR_INVALID, "its %s has %zu bytes; at most %zu are possible", what, bytes, max);
    memcpy(field, text, bytes);
    field[bytes] = '\0';
    return LEAT_OK;
}

static leat_status parse_port(const char *text, bool listening, uint16_t *port)
{
    size_t digits = strspn(text, "0123456789");
    struct leatc_shown shown;
    unsigned value = 0;

    /* Leading zeros are refused too, so that each port has one text. */
    if (!digits || text[digits] || digits > 5 || (text[0] == '0' && digits > 1))
        return leatc_fail(LEAT_ERROR_INVALID, "its port '%s' is not a number from 0 to 65535",
                          leatc_shown(&shown, text, strlen(text)));
    for (size_t i = 0; i < digits; i++)
        value = value * 10 + (unsigned)(text[i] - '0');
    if (value > 65535)
        return leatc_fail(LEAT_ERROR_INVALID, "its port %u is more than 65535", value);
    if (!value && !listening)
        return leatc_fail(
            LEAT_ERROR_INVALID,
            "its port is 0, which only a listener may have: connect to the address that leat_listener_get_address() returns there");
    *port = (uint16_t)value;
    return LEAT_OK;
}

/* Parses "HOST:PORT" and "[IPV6]:PORT". */
static leat_status parse_host(const char *text, bool listening, struct leatn_address *address)
{
    const char *end, *colon;

    if (text[0] == '[') {
        end = strchr(text, ']');
        if (!end || end[1] != ':')
            return leatc_fail(LEAT_ERROR_INVALID, "']:PORT' must follow an IPv6 address in brackets");
        address->brackets = true;
        text++;
        colon = end + 1;
    } else {
        colon = end = strchr(text, ':');
        if (!colon)
            return leatc_fail(LEAT_ERROR_INVALID, "it has no port; %s", forms);
        if (strchr(colon + 1, ':'))
            return leatc_fail(LEAT_ERROR_INVALID,
                              "an IPv6 address needs brackets, as in tcp:[::1]:7000, and a port has no colon");
    }
    TRY(copy_part(address->host, "host", LEATN_HOST_MAX, text, (size_t)(end - text)));
    return parse_port(colon + 1, listening, &address->port);
}

static leat_status parse_path(const char *text, struct leatn_address *address)
{
    address->abstract = text[0] == '@';
    if (address->abstract)
        return copy_part(address->path, "name", LEATN_PATH_MAX, text + 1, strlen(text + 1));
    return copy_part(address->path, "path", LEATN_PATH_MAX, text, strlen(text));
}

static leat_status parse(const char *text, bool listening, struct leatn_address *address)
{
    if (!strncmp(text, "unix:", 5)) {
        address->scheme = LEATN_UNIX;
        return parse_path(text + 5, address);
    }
    if (strncmp(text, "tcp:", 4) != 0 && strncmp(text, "ucx:", 4) != 0)
        return leatc_fail(LEAT_ERROR_INVALID, "it has no known form; %s", forms);
    address->scheme = text[0] == 'u' ? LEATN_UCX : LEATN_TCP;
    return parse_host(text + 4, listening, address);
}

leat_status leatn_address_parse(const char *call, const char *text, bool listening, struct leatn_address *address)
{
    struct leatc_shown shown;
    leat_status status;

    memset(address, 0, sizeof *address);
    status = parse(text, listening, address);
    if (status != LEAT_OK)
        return leatc_fail_in(status, "%s: address '%s'", call, leatc_shown(&shown, text, strlen(text)));
    return LEAT_OK;
}

void leatn_address_print(const struct leatn_address *address, char *text, size_t bytes)
{
    if (address->scheme == LEATN_UNIX)
        snprintf(text, bytes, "unix:%s%s", address->abstract ? "@" : "", address->path);
    else
        snprintf(text, bytes, address->brackets ? "%s:[%s]:%u" : "%s:%s:%u", leatn_scheme_name(address->scheme),
                 address->host, (unsigned)address->port);
}
