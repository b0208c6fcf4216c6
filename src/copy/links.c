/* links.c - see links.h. */
#include "base/lock.h"
#include "copy/links.h"

#include "copy/staged.h"

#include <leat/copy.h>

#include <stdlib.h>
#include <string.h>

#define SLOTS 3
#define FLEETS_MAX 4

struct leati_route {
    leat_device *helper;
    void *in, *out;      /* streams of the helper: from the host, to the target */
    void *bounce;        /* SLOTS chunks in the helper's memory */
    void *landed[SLOTS]; /* events: a chunk is in its slot */
    void *gone[SLOTS];   /* and has left it */
    void *finished;      /* all that was given to out is done */
    uint64_t count;      /* chunks so far */
};

struct leati_fleet {
    struct leati_links *links;
    bool taken;
    bool used;          /* over was recorded */
    void *start, *over; /* events of the target */
    struct leati_route routes[LEATI_LINKS_MAX];
};

struct leati_links {
    leat_device *target;
    unsigned count;
    leat_device *helpers[LEATI_LINKS_MAX];
    struct leati_fleet *fleets[FLEETS_MAX];
    struct leati_links *next;
};

/* Guards the list and what hangs on it. Held while a fleet is made. */
static struct leati_lock links_lock = LEATI_LOCK_INITIALIZER;
static struct leati_links *list LEATI_GUARDED_BY(links_lock);
static atomic_uint link_sets; /* in the list: without any, copies do not ask for the lock */

/* ---- making and ending ---- */

static void end_route(struct leati_route *route)
{
    leat_device *helper = route->helper;
    const struct leati_driver_ops *ops = helper->driver->ops;
    struct leati_driver *driver = helper->driver;

    leati_assert(helper);
    /* A failure here has nobody to go to, and the driver takes the thing as gone. */
    leati_error_quiet_begin();
    if (route->out)
        (void)ops->stream_synchronize(driver, route->out);
    for (int i = 0; i < SLOTS; i++) {
        if (route->landed[i])
            (void)ops->event_destroy(driver, route->landed[i]);
        if (route->gone[i])
            (void)ops->event_destroy(driver, route->gone[i]);
    }
    if (route->finished)
        (void)ops->event_destroy(driver, route->finished);
    if (route->in)
        (void)ops->stream_destroy(driver, route->in);
    if (route->out)
        (void)ops->stream_destroy(driver, route->out);
    if (route->bounce)
        (void)ops->mem_free(driver, helper->native, route->bounce);
    leati_error_quiet_end();
}

static leat_status make_route(struct leati_route *route, leat_device *helper)
{
    struct leati_driver *driver = helper->driver;
    const struct leati_driver_ops *ops = driver->ops;

    leati_assert(!route->helper);
    route->helper = helper;
    LEATI_TRY(ops->mem_alloc(driver, helper->native, SLOTS * LEATI_LINK_CHUNK_BYTES, &route->bounce));
    LEATI_TRY(ops->stream_create(driver, helper->native, &route->in));
    LEATI_TRY(ops->stream_create(driver, helper->native, &route->out));
    LEATI_TRY(ops->event_create(driver, helper->native, &route->finished));
    for (int i = 0; i < SLOTS; i++) {
        LEATI_TRY(ops->event_create(driver, helper->native, &route->landed[i]));
        LEATI_TRY(ops->event_create(driver, helper->native, &route->gone[i]));
    }
    return LEAT_OK;
}

static void end_fleet(struct leati_fleet *fleet)
{
    leat_device *target = fleet->links->target;

    for (unsigned i = 0; i < fleet->links->count && fleet->routes[i].helper; i++)
        end_route(&fleet->routes[i]);
    if (fleet->start)
        (void)LEATI_QUIETLY(target->driver->ops->event_destroy(target->driver, fleet->start));
    if (fleet->over)
        (void)LEATI_QUIETLY(target->driver->ops->event_destroy(target->driver, fleet->over));
    free(fleet);
}

static leat_status fill_fleet(struct leati_fleet *fleet)
{
    leat_device *target = fleet->links->target;
    const struct leati_driver_ops *ops = target->driver->ops;

    leati_assert(!fleet->start && !fleet->over && fleet->links->count <= LEATI_LINKS_MAX);
    LEATI_TRY(ops->event_create(target->driver, target->native, &fleet->start));
    LEATI_TRY(ops->event_create(target->driver, target->native, &fleet->over));
    for (unsigned i = 0; i < fleet->links->count; i++)
        LEATI_TRY(make_route(&fleet->routes[i], fleet->links->helpers[i]));
    return LEAT_OK;
}

/* NULL where there is no memory for it, which only makes the copy slower. */
static struct leati_fleet *make_fleet(struct leati_links *links)
{
    struct leati_fleet *fleet = calloc(1, sizeof *fleet);

    if (!fleet)
        return NULL;
    fleet->links = links;
    if (LEATI_QUIETLY(fill_fleet(fleet)) == LEAT_OK)
        return fleet;
    end_fleet(fleet);
    return NULL;
}

static void end_links(struct leati_links *links)
{
    for (int i = 0; i < FLEETS_MAX; i++)
        if (links->fleets[i])
            end_fleet(links->fleets[i]);
    free(links);
    atomic_fetch_sub_explicit(&link_sets, 1, memory_order_relaxed);
}

static bool concerns(const struct leati_links *links, const leat_device *device, bool as_helper)
{
    if (links->target == device)
        return true;
    for (unsigned i = 0; as_helper && i < links->count; i++)
        if (links->helpers[i] == device)
            return true;
    return false;
}

/* Under the lock. */
static void end_all(const leat_device *device, bool as_helper) LEATI_REQUIRES(links_lock)
{
    struct leati_links **place = &list, *links;

    leati_assert_locked(&links_lock);
    while ((links = *place)) {
        if (!concerns(links, device, as_helper)) {
            place = &links->next;
            continue;
        }
        *place = links->next;
        end_links(links);
    }
}

void leati_links_close(leat_device *device)
{
    leati_lock(&links_lock);
    end_all(device, true);
    leati_unlock(&links_lock);
}

static leat_status check_helpers(leat_device *device, leat_device *const *helpers, unsigned count)
{
    if (count > LEATI_LINKS_MAX)
        return leati_fail(LEAT_ERROR_INVALID, "%u helpers; at most %d", count, LEATI_LINKS_MAX);
    for (unsigned i = 0; i < count; i++) {
        LEATI_TRY(leati_check_device("a helper", helpers[i]));
        if (helpers[i]->driver != device->driver)
            return leati_fail(LEAT_ERROR_UNSUPPORTED, "%s is of another driver than %s", helpers[i]->name,
                              device->name);
        for (unsigned k = 0; k <= i; k++)
            if (helpers[i] == (k < i ? helpers[k] : device))
                return leati_fail(LEAT_ERROR_INVALID, "%s is there twice", helpers[i]->name);
    }
    return LEAT_OK;
}

static leat_status share(leat_device *device, leat_device *const *helpers, unsigned count)
{
    struct leati_links *links;

    LEATI_TRY(check_helpers(device, helpers, count));
    for (unsigned i = 0; i < count; i++)
        LEATI_TRY(leati_enable_peers(device, helpers[i]));
    links = count ? calloc(1, sizeof *links) : NULL;
    if (count && !links)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the list of helpers");
    leati_lock(&links_lock);
    end_all(device, false);
    if (links) {
        links->target = device;
        links->count = count;
        memcpy(links->helpers, helpers, count * sizeof *helpers);
        links->next = list;
        list = links;
        atomic_fetch_add_explicit(&link_sets, 1, memory_order_relaxed);
        /* Who closes one of them ends the fleets first. */
        leati_copy_set_hooks(device);
        for (unsigned i = 0; i < count; i++)
            leati_copy_set_hooks(helpers[i]);
    }
    leati_unlock(&links_lock);
    return LEAT_OK;
}

leat_status leat_copy_share_links(leat_device *device, leat_device *const *helpers, unsigned count)
{
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_copy_share_links"));
    LEATI_TRY(leati_check_device("leat_copy_share_links", device));
    if (count)
        LEATI_TRY(leati_check_not_null("leat_copy_share_links", "helpers", (const void *)helpers));
    status = share(device, helpers, count);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_copy_share_links for %s", device->name);
}

/* ---- copying ---- */

static struct leati_links *links_of(const leat_device *device) LEATI_REQUIRES(links_lock)
{
    leati_assert_locked(&links_lock);
    for (struct leati_links *links = list; links; links = links->next)
        if (links->target == device)
            return links;
    return NULL;
}

unsigned leati_links_count(leat_device *device)
{
    struct leati_links *links;
    unsigned count;

    if (!atomic_load_explicit(&link_sets, memory_order_relaxed))
        return 0;
    leati_lock(&links_lock);
    links = links_of(device);
    count = links ? links->count : 0;
    leati_unlock(&links_lock);
    return count;
}

/* Is the fleet's latest copy over? */
static bool is_back(const struct leati_fleet *fleet)
{
    leat_device *target = fleet->links->target;

    leati_assert_locked(&links_lock);
    if (fleet->taken)
        return false;
    return !fleet->used || LEATI_QUIETLY(target->driver->ops->event_query(target->driver, fleet->over)) == LEAT_OK;
}

struct leati_fleet *leati_fleet_take(leat_device *device)
{
    struct leati_fleet *fleet = NULL;
    struct leati_links *links;

    leati_lock(&links_lock);
    links = links_of(device);
    for (int i = 0; links && i < FLEETS_MAX && !fleet; i++) {
        if (!links->fleets[i])
            links->fleets[i] = make_fleet(links);
        if (!links->fleets[i])
            break;
        if (is_back(links->fleets[i]))
            fleet = links->fleets[i];
    }
    if (fleet)
        fleet->taken = true;
    leati_unlock(&links_lock);
    return fleet;
}

void leati_fleet_give_back(struct leati_fleet *fleet)
{
    leati_lock(&links_lock);
    leati_assert(fleet->taken);
    fleet->taken = false;
    leati_unlock(&links_lock);
}

static leat_status start_routes(struct leati_fleet *fleet, leat_stream *stream)
{
    struct leati_driver *driver = stream->device->driver;

    LEATI_TRY(driver->ops->event_record(driver, fleet->start, stream->native));
    for (unsigned i = 0; i < fleet->links->count; i++) {
        fleet->routes[i].count = 0;
        LEATI_TRY(driver->ops->stream_wait(driver, fleet->routes[i].in, fleet->start));
    }
    return LEAT_OK;
}

leat_status leati_fleet_begin(struct leati_fleet *fleet, leat_stream *stream)
{
    return LEATI_QUIETLY(start_routes(fleet, stream));
}

struct leati_route *leati_fleet_route(struct leati_fleet *fleet, unsigned index)
{
    leati_assert(fleet->taken && index < fleet->links->count);
    return &fleet->routes[index];
}

void *leati_route_stream(const struct leati_route *route)
{
    return route->in;
}

leat_status leati_route_copy(struct leati_route *route, struct leati_end dst, struct leati_end src, size_t bytes)
{
    struct leati_driver *driver = route->helper->driver;
    const struct leati_driver_ops *ops = driver->ops;
    unsigned slot = (unsigned)(route->count % SLOTS);
    struct leati_end bounce = {.ptr = (char *)route->bounce + slot * LEATI_LINK_CHUNK_BYTES,
                               .kind = LEAT_KIND_DEVICE,
                               .device = route->helper->native};

    leati_assert(bytes && bytes <= LEATI_LINK_CHUNK_BYTES && src.kind == LEAT_KIND_PINNED);
    if (route->count >= SLOTS)
        LEATI_TRY(ops->stream_wait(driver, route->in, route->gone[slot]));
    LEATI_TRY(ops->copy(driver, route->in, bounce, src, bytes));
    LEATI_TRY(ops->event_record(driver, route->landed[slot], route->in));
    LEATI_TRY(ops->stream_wait(driver, route->out, route->landed[slot]));
    LEATI_TRY(ops->copy(driver, route->out, dst, bounce, bytes));
    LEATI_TRY(ops->event_record(driver, route->gone[slot], route->out));
    route->count++;
    return LEAT_OK;
}

static leat_status join_routes(struct leati_fleet *fleet, leat_stream *stream)
{
    struct leati_driver *driver = stream->device->driver;

    leati_assert(fleet->taken);
    for (unsigned i = 0; i < fleet->links->count; i++) {
        struct leati_route *route = &fleet->routes[i];

        LEATI_TRY(driver->ops->event_record(driver, route->finished, route->out));
        LEATI_TRY(driver->ops->stream_wait(driver, stream->native, route->finished));
    }
    return driver->ops->event_record(driver, fleet->over, stream->native);
}

/* What is on its way, over the stream's own link too, must not land in memory that the caller takes for its own
 * again. */
static void wait_for_all(struct leati_fleet *fleet, leat_stream *stream)
{
    leati_error_quiet_begin();
    (void)stream->device->driver->ops->stream_synchronize(stream->device->driver, stream->native);
    for (unsigned i = 0; i < fleet->links->count; i++) {
        struct leati_driver *driver = fleet->routes[i].helper->driver;

        (void)driver->ops->stream_synchronize(driver, fleet->routes[i].in);
        (void)driver->ops->stream_synchronize(driver, fleet->routes[i].out);
    }
    leati_error_quiet_end();
}

leat_status leati_fleet_end(struct leati_fleet *fleet, leat_stream *stream, bool failed)
{
    leat_status status = failed ? LEAT_ERROR_DRIVER : join_routes(fleet, stream);

    leati_assert(fleet->taken && fleet->links->target == stream->device);
    if (status != LEAT_OK)
        wait_for_all(fleet, stream);
    fleet->used = status == LEAT_OK;
    return status;
}
