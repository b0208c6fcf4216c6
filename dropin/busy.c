/*
 * busy.c - tells whether the processors have other things to do than leat's copies.
 *
 * leat's threads copy in parallel. Where each processor already runs a thread, they wait for their turn, and a
 * copy waits for the slowest of them: on a busy machine leat was slower than the driver, whose copy needs only the
 * calling thread. Programs cause that themselves: OpenMP's threads, such as PyTorch's, spin for some ms after each
 * parallel loop.
 */
#include "dropin.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* leat makes copies from this size on anyway: also beside 16 spinning threads on 16 processors it was 1.1 to 1.2
 * times as fast as the driver. Below, it was up to a third slower. */
#define BUSY_MOST_BYTES (UINT64_C(64) << 20)

/* leat's threads spin too, for 200 us after a copy, and must not count. */
#define AWAKE_NS 300000u

/* When leat's last copy ended. Relaxed: a thread that sees an older time asks the system once more. */
static atomic_uint_least64_t last_ns;

void dropin_copy_ended(void)
{
    atomic_store_explicit(&last_ns, dropin_clock_ns(), memory_order_relaxed);
}

/* Returns the name of the file with the system's load. Reads the environment only once, because the program may
 * change it in another thread. */
static const char *load_file(void)
{
    static const char usual[] = "/proc/loadavg";
    static _Atomic(const char *) known;
    const char *path = atomic_load_explicit(&known, memory_order_acquire), *none = NULL, *given;
    char *copy;

    if (path)
        return path;
    given = secure_getenv(RUN_LOAD_VARIABLE);
    copy = given ? strdup(given) : NULL;
    path = copy ? copy : usual;
    if (atomic_compare_exchange_strong(&known, &none, path))
        return path;
    free(copy); /* another thread was first */
    return none;
}

/* Returns the number of threads of this machine that run or wait for a processor; 0 if the system does not tell.
 * The file is opened each time, because a program may close descriptors that are not its own. */
static unsigned count_running(void)
{
    int fd = open(load_file(), O_RDONLY | O_CLOEXEC);
    unsigned running = 0;
    char text[100];
    ssize_t bytes;

    if (fd < 0)
        return 0;
    bytes = read(fd, text, sizeof text - 1);
    close(fd);
    text[bytes > 0 ? bytes : 0] = 0;
    return sscanf(text, "%*s %*s %*s %u/", &running) == 1 ? running : 0;
}

static unsigned count_processors(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 0;
}

bool dropin_is_busy(uint64_t bytes)
{
    unsigned processors;

    if (bytes >= BUSY_MOST_BYTES || dropin_least_is_chosen() ||
        dropin_clock_ns() - atomic_load_explicit(&last_ns, memory_order_relaxed) < AWAKE_NS)
        return false;
    processors = count_processors();
    return processors && count_running() > processors / 2 + 1;
}
