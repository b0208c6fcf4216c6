/* flag.c - see flag.h. */
#include "base/flag.h"

#include "base/assert.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Number of threads that sleep. Sequentially consistent, as the writers' changes are: either a writer sees that a
 * thread sleeps, or the kernel, which reads the flag after that, sees the change. */
static atomic_uint sleepers;

void leati_flag_sleep(_Atomic uint32_t *flag, uint32_t seen, uint32_t most_ns)
{
    struct timespec most = {.tv_nsec = most_ns};

    leati_assert(most_ns < 1000000000u);
    atomic_fetch_add(&sleepers, 1);
    (void)syscall(SYS_futex, flag, FUTEX_WAIT_PRIVATE, seen, &most, NULL, 0);
    atomic_fetch_sub(&sleepers, 1);
}

void leati_flag_wake(_Atomic uint32_t *flag)
{
    if (atomic_load(&sleepers))
        (void)syscall(SYS_futex, flag, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
