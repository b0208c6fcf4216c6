/* lanes.c - see lanes.h. */
#include "trace/lanes.h"

#include "base/error.h"
#include "base/lock.h"
#include "driver/driver.h"
#include "trace/trace_strings.h"

#include <stdio.h>
#include <string.h>

enum {
    DEVICES_KNOWN = 256,
    LANES_KNOWN = 8192, /* further lanes are defined anew each time; a power of two */
    PROBES = 64
};

struct known_lane {
    uint64_t serial;
    uint32_t device, id; /* id 0: none */
};

/* Guards what follows. Held only for some instructions, except for a driver's device_info() at the first use of a
 * device in a trace. */
static struct leati_lock lock = LEATI_LOCK_INITIALIZER;
static uint32_t current LEATI_GUARDED_BY(lock),
    last_device LEATI_GUARDED_BY(lock), last_lane LEATI_GUARDED_BY(lock);
static struct leati_defined defined LEATI_GUARDED_BY(lock);
static uint32_t devices[DEVICES_KNOWN] LEATI_GUARDED_BY(lock); /* strings of the names, by id - 1 */
static struct known_lane lanes[LANES_KNOWN] LEATI_GUARDED_BY(lock);

/* Returns the id in this trace that known has; 0 if it has none. Relaxed: the definition is passed under the lock.
 */
static uint32_t id_of(_Atomic uint64_t *known, uint32_t trace)
{
    uint64_t kept = atomic_load_explicit(known, memory_order_relaxed);

    return kept >> 32 == trace ? (uint32_t)kept : 0;
}

/* ---- devices ---- */

static uint32_t find_device(uint32_t name) LEATI_REQUIRES(lock)
{
    for (uint32_t i = 0; i < last_device && i < DEVICES_KNOWN; i++)
        if (devices[i] == name)
            return i + 1;
    return 0;
}

/* Defines a device; *made has all but the id. */
static uint32_t add_device(struct leati_trace_device *made) LEATI_REQUIRES(lock)
{
    if (defined.device_count == LEATI_DEFINED_MAX)
        return 0;
    made->id = ++last_device;
    if (made->id <= DEVICES_KNOWN)
        devices[made->id - 1] = made->name;
    defined.devices[defined.device_count++] = *made;
    return made->id;
}

static uint32_t device_id(struct leati_traced_device *device, uint32_t trace) LEATI_REQUIRES(lock)
{
    struct leati_trace_device made = {.name = 0};
    uint32_t id = id_of(&device->known, trace);
    leat_device_info info;

    if (id)
        return id;
    made.name = leati_trace_string(device->name);
    id = find_device(made.name);
    if (!id) {
        memset(&info, 0, sizeof info);
        if (LEATI_QUIETLY(device->driver->ops->device_info(device->driver, device->ordinal, &info)) != LEAT_OK)
            memset(&info, 0, sizeof info);
        made.product = info.model[0] ? leati_trace_string(info.model) : 0;
        made.driver = leati_trace_string(device->driver->name);
        made.memory_bytes = info.memory_bytes;
        id = add_device(&made);
    }
    if (id)
        atomic_store_explicit(&device->known, (uint64_t)trace << 32 | id, memory_order_relaxed);
    return id;
}

/* The same for a device that leat need not have opened. */
static uint32_t foreign_device_id(const char *driver, int ordinal) LEATI_REQUIRES(lock)
{
    struct leati_trace_device made = {.driver = leati_trace_string(driver)};
    char name[48];
    uint32_t id;

    snprintf(name, sizeof name, "%.30s:%d", driver, ordinal);
    made.name = leati_trace_string(name);
    id = find_device(made.name);
    return id ? id : add_device(&made);
}

/* ---- lanes ---- */

/* Returns where a lane is known, or is to be known; NULL: the table has no room for it. */
static struct known_lane *find_lane(uint32_t device, uint64_t serial) LEATI_REQUIRES(lock)
{
    size_t at = (size_t)((serial ^ (uint64_t)device << 32) * UINT64_C(0x9e3779b97f4a7c15) >> 48);

    for (unsigned i = 0; i < PROBES; i++) {
        struct known_lane *known = &lanes[(at + i) % LANES_KNOWN];

        if (!known->id || (known->device == device && known->serial == serial))
            return known;
    }
    return NULL;
}

static uint32_t find_or_add_lane(uint32_t device, uint64_t serial) LEATI_REQUIRES(lock)
{
    struct known_lane *known = device ? find_lane(device, serial) : NULL;
    uint32_t id;

    if (!device)
        return 0;
    if (known && known->id)
        return known->id;
    if (defined.lane_count == LEATI_DEFINED_MAX)
        return 0;
    id = ++last_lane;
    defined.lanes[defined.lane_count++] = (struct leati_trace_lane){.id = id, .device = device, .serial = serial};
    if (known)
        *known = (struct known_lane){.serial = serial, .device = device, .id = id};
    return id;
}

static uint32_t define_lane(struct leati_traced_stream *lane, uint32_t trace)
{
    uint32_t id = 0;

    leati_lock(&lock);
    if (current == trace) {
        id = id_of(&lane->known, trace);
        if (!id)
            id = find_or_add_lane(device_id(lane->device, trace), lane->serial);
        if (id)
            atomic_store_explicit(&lane->known, (uint64_t)trace << 32 | id, memory_order_relaxed);
    }
    leati_unlock(&lock);
    return id;
}

uint32_t leati_trace_lane_id(struct leati_traced_stream *lane, uint32_t trace)
{
    uint32_t id = id_of(&lane->known, trace);

    return id ? id : define_lane(lane, trace);
}

uint32_t leati_trace_lane_id_foreign(const char *driver, int ordinal, uint64_t serial, uint32_t trace)
{
    uint32_t id = 0;

    leati_lock(&lock);
    if (current == trace)
        id = find_or_add_lane(foreign_device_id(driver, ordinal), serial);
    leati_unlock(&lock);
    return id;
}

/* ---- for the recorder ---- */

void leati_lanes_trace(uint32_t number)
{
    leati_lock(&lock);
    current = number;
    if (number) {
        last_device = last_lane = 0;
        defined.device_count = defined.lane_count = 0;
        memset(lanes, 0, sizeof lanes);
    }
    leati_unlock(&lock);
}

void leati_lanes_take(struct leati_defined *taken)
{
    leati_lock(&lock);
    *taken = defined;
    defined.device_count = defined.lane_count = 0;
    leati_unlock(&lock);
}

void leati_lanes_fork(void)
{
    leati_lock_init(&lock);
}
