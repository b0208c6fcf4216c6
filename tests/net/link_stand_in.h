/* link_stand_in.h - links that only keep their connection, for tests of listeners and handshakes alone. */
#ifndef LINK_STAND_IN_H
#define LINK_STAND_IN_H

#include "net.h"

#include <stdatomic.h>

struct leat_link {
    struct net_connection connection;
};

/* If this is not 0, leatn_link_create() fails with HOST_MEMORY. */
extern atomic_int links_fail;

#endif
