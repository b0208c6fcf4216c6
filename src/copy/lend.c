/* lend.c - see lend.h. */
#include "copy/lend.h"

#include "base/clock.h"
#include "copy/stage.h"

#include <sched.h>
#include <time.h>

/* For so long a thread that finds nothing to copy stays awake, as the team's do in the middle of a copy. */
#define AWAKE_NS 5000000u

/* The driver is asked no more often: a call takes a microsecond, and others may wait for the driver's locks. */
#define ASK_NS 20000u

/* There was nothing to copy for so long. */
static void rest(uint64_t idle_ns)
{
    struct timespec pause = {.tv_nsec = 20000};

    if (idle_ns < AWAKE_NS)
        sched_yield();
    else
        nanosleep(&pause, NULL);
}

/* What is waited for may have nothing to do with the jobs, whose streams may be held up: so it is asked after all
 * the time. Without jobs the driver's wait is the better one. */
static leat_status copy_until(struct leati_team *team, struct leati_driver *driver, leati_query_function query,
                              void *native)
{
    uint64_t worked = leati_clock_ns(), asked = 0, now;
    leat_status status = LEAT_NOT_READY;

    while (leati_team_has_jobs(team)) {
        now = leati_clock_ns();
        if (now - asked >= ASK_NS) {
            status = query(driver, native);
            asked = now;
        }
        if (status != LEAT_NOT_READY)
            break;
        if (leati_team_lend(team))
            worked = leati_clock_ns();
        else
            rest(now - worked);
    }
    return status;
}

void leati_lend_wait_begins(struct leat_device *device, leati_query_function query, void *native)
{
    /* Acquire: pairs with the release of who made it. */
    struct leati_stager *stager = atomic_load_explicit(&device->stager, memory_order_acquire);
    struct leati_team *team = stager ? stager->team : NULL;
    struct leati_sentence before;

    if (!team || !leati_team_has_jobs(team) || !leati_team_lend_begins(team))
        return;
    leati_error_keep(&before);
    /* A failure is for the driver's wait to tell. */
    if (copy_until(team, device->driver, query, native) < LEAT_OK)
        leati_error_restore(LEAT_OK, &before);
    leati_team_lend_ends(team);
}
