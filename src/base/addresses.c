/* addresses.c - see addresses.h. */
#include "base/addresses.h"
#include "base/assert.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* Returns how many bytes of addresses this process uses (the first number of /proc/self/statm), or 0 if unknown.
 * Does not use the heap, because it is also called when memory is short. */
static uint64_t used_bytes(void)
{
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    char line[64] = "";
    ssize_t length;

    if (fd < 0)
        return 0;
    length = read(fd, line, sizeof line - 1);
    close(fd);
    return length > 0 ? strtoull(line, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static bool read_limit(uint64_t *limit)
{
    struct rlimit addresses;

    if (getrlimit(RLIMIT_AS, &addresses) || addresses.rlim_cur == RLIM_INFINITY)
        return false;
    *limit = addresses.rlim_cur;
    return true;
}

uint64_t leati_addresses_left(void)
{
    uint64_t limit, used;

    if (!read_limit(&limit))
        return UINT64_MAX;
    used = used_bytes();
    return limit > used ? limit - used : 0;
}

size_t leati_addresses_share(size_t wanted_bytes, unsigned parts, size_t least_bytes)
{
    uint64_t share = leati_addresses_left();

    leati_assert(parts && wanted_bytes);
    if (share == UINT64_MAX)
        return wanted_bytes;
    share /= parts;
    share = share > least_bytes ? share : least_bytes;
    return wanted_bytes < share ? wanted_bytes : (size_t)share;
}

const char *leati_addresses_hint(struct leati_addresses_hint *hint)
{
    int before = errno;
    uint64_t limit;

    hint->text[0] = '\0';
    if (read_limit(&limit))
        snprintf(
            hint->text, sizeof hint->text,
            "; 'ulimit -v' limits this process to %llu KiB of addresses, %llu are in use: raise it if that is what is missing",
            (unsigned long long)limit >> 10, (unsigned long long)used_bytes() >> 10);
    errno = before;
    return hint->text;
}
