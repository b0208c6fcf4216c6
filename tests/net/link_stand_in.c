/* link_stand_in.c - leatn_link_create() and leat_link_close() without messages (link_stand_in.h). */
#include "link_stand_in.h"

#include <stdlib.h>
#include <unistd.h>

atomic_int links_fail;

leat_status leatn_link_create(const struct net_connection *connection, leat_link **link)
{
    leat_link *made = links_fail ? NULL : malloc(sizeof *made);

    if (!made)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a link");
    made->connection = *connection;
    *link = made;
    return LEAT_OK;
}

LEAT_API leat_status leat_link_close(leat_link *link)
{
    if (link)
        close(link->connection.fd);
    free(link);
    return LEAT_OK;
}
