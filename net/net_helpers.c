/* net_helpers.c - helpers of the library (net.h). */
#include "net.h"

#include <limits.h>
#include <stdio.h>

/* libleat has no public call for this question. leat_stream_wait() checks it before its arguments, so a call with
 * NULL answers it; the message of the refused arguments is then taken back. */
leat_status leatn_check_permitted(const char *call)
{
    char before[2001];
    leat_status status;

    snprintf(before, sizeof before, "%s", leat_last_error());
    status = leat_stream_wait(NULL, NULL);
    if (status != LEAT_ERROR_NOT_PERMITTED)
        return leat_error_set(LEAT_OK, before);
    return leatc_fail(
        status,
        "%s: called from inside a host function, whose stream waits for it, or in a child process of fork() whose parent had a device open. Call it from another thread, or fork before any device is opened",
        call);
}

int leatn_poll_ms(uint64_t end_ns)
{
    uint64_t now, left_ms;

    if (end_ns == UINT64_MAX)
        return -1;
    now = leatc_now_ns();
    if (end_ns <= now)
        return 0;
    left_ms = (end_ns - now - 1) / 1000000 + 1;
    return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}
