/* registry.c - see registry.h. */
#include "driver/registry.h"

#include "base/error.h"
#include "base/options.h"
#include "driver/fault/fault.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* All drivers, in the default order of LEAT_DRIVERS. */
static struct leati_driver *(*const known[])(void) = {leati_cuda_driver, leati_hip_driver, leati_cpu_driver};

#define KNOWN_COUNT (sizeof known / sizeof known[0])

struct registry_entry {
    struct leati_driver *driver;
    leat_status status;
    char reason[512];
};

/* Written once, by pthread_once(); read-only afterwards. */
static struct registry_entry entries[KNOWN_COUNT];
static unsigned entry_count;
static char no_driver[32]; /* first name in LEAT_DRIVERS that is no driver's name, perhaps truncated; "": none */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool listed_already(const struct leati_driver *driver)
{
    for (unsigned i = 0; i < entry_count; i++)
        if (entries[i].driver == driver)
            return true;
    return false;
}

static void add_named(const char *name, size_t length)
{
    bool is_driver = length == 0; /* an empty name, as between two commas, is ignored */

    for (unsigned i = 0; i < KNOWN_COUNT; i++) {
        struct leati_driver *driver = known[i]();

        if (strlen(driver->name) != length || strncmp(driver->name, name, length) != 0)
            continue;
        is_driver = true;
        if (!listed_already(driver))
            entries[entry_count++].driver = driver;
    }
    if (!is_driver && !no_driver[0])
        snprintf(no_driver, sizeof no_driver, "%.*s", (int)(length < sizeof no_driver ? length : sizeof no_driver),
                 name);
}

/* Returns the faults that LEAT_FAULT sets for a driver, or NULL. If LEAT_FAULT begins with a driver's name, as in
 * "cuda:fail=copy:3", the rest is for that driver only. Otherwise all of it is for every driver. */
static const char *faults_for(const struct leati_driver *driver)
{
    const char *faults = leati_option(LEATI_OPTION_FAULT);

    for (unsigned i = 0; faults && i < KNOWN_COUNT; i++) {
        const struct leati_driver *named = known[i]();
        size_t length = strlen(named->name);

        if (!strncmp(faults, named->name, length) && faults[length] == ':')
            return named == driver ? faults + length + 1 : NULL;
    }
    return faults;
}

/* Wraps a driver in the fault driver if LEAT_FAULT sets faults for it. */
static leat_status add_faults(struct registry_entry *entry)
{
    const char *faults = faults_for(entry->driver);
    struct leati_driver *wrapper;

    if (!faults)
        return LEAT_OK;
    wrapper = leati_fault_wrap(entry->driver);
    if (!wrapper)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "LEAT_FAULT: no memory for the fault driver");
    entry->driver = wrapper;
    return leati_fault_arm_text(wrapper, faults);
}

static void load_all(void)
{
    const char *order = leati_option(LEATI_OPTION_DRIVERS);
    struct leati_hearing hearing;

    /* A missing driver is not an error of the call that loads the drivers, so the thread's last message must stay.
     */
    leati_error_hear_begin(&hearing);
    if (!order)
        order = "cuda,hip,cpu";
    while (*order) {
        size_t length = strcspn(order, ",");

        add_named(order, length);
        order += length + (order[length] == ',');
    }
    for (unsigned i = 0; i < entry_count; i++) {
        struct registry_entry *entry = &entries[i];

        entry->status = add_faults(entry);
        if (entry->status == LEAT_OK)
            entry->status = entry->driver->ops->load(entry->driver);
        if (entry->status != LEAT_OK) {
            entry->driver->device_count = 0;
            snprintf(entry->reason, sizeof entry->reason, "%s", leat_last_error());
        }
    }
    leati_error_hear_end(&hearing);
}

struct leati_driver *leati_registry_driver(unsigned index, leat_status *status, const char **reason)
{
    pthread_once(&once, load_all);
    if (index >= entry_count)
        return NULL;
    if (status)
        *status = entries[index].status;
    if (reason)
        *reason = entries[index].reason;
    return entries[index].driver;
}

leat_status leati_registry_check(const char *what)
{
    pthread_once(&once, load_all);
    if (!no_driver[0])
        return LEAT_OK;
    return leati_fail(
        LEAT_ERROR_INVALID,
        "%s: LEAT_DRIVERS is set to '%s', where '%s' is no driver; it takes cuda, hip and cpu, between commas",
        what, leati_option(LEATI_OPTION_DRIVERS), no_driver);
}
