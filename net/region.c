/* region.c - regions: memory that the other end of a link may read or write. */
#include "link.h"

void leatn_region_take(leat_link *link, const struct leatn_frame *frame, const char *name)
{
    (void)frame;
    leatn_link_fail(link, "no region %s", name);
}

void leatn_regions_close(leat_link *link)
{
    (void)link;
}
