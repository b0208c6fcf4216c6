/* rails.c - keeps the rails of devices, and copies chunks over them. See rails.h. */
#include "copy/rails.h"
#include "base/lock.h"

#include "copy/staged.h"

#include <leat/copy.h>

#include <stdlib.h>
#include <string.h>

#define SLOTS 3
#define RAIL_SETS_MAX 4

struct leati_rail {
    leat_device *helper;
    void *in, *out;      /* streams of the helper: in copies from the host, out copies to the target */
    void *bounce;        /* buffer for SLOTS chunks in the helper's memory */
    void *landed[SLOTS]; /* event of each slot: in has copied a chunk into the slot */
    void *gone[SLOTS];   /* event of each slot: out has copied the chunk to the target, so the slot is free */
    void *finished;      /* event: all work of the stream out is complete */
    uint64_t count;      /* chunks of the present copy that were submitted so far */
};

struct leati_rails {
    struct leati_helper_set *set;
    bool taken;         /* a call is submitting a copy */
    bool used;          /* the event over was recorded */
    void *start, *over; /* events on the copy's stream: start before the copy, over after the copy */
    struct leati_rail rail[LEATI_RAILS_MAX];
};

struct leati_helper_set {
    leat_device *target;
    unsigned count;
    leat_device *helpers[LEATI_RAILS_MAX];
    struct leati_rails *rails[RAIL_SETS_MAX];
    unsigned taken; /* number of rails that a call has taken */
    bool ended;     /* the set is in ended_list: the call that gives back the last rails frees it */
    struct leati_helper_set *next;
};

/* Protects the lists and all their sets and rails. It is held while rails are created. */
static struct leati_lock sets_lock = LEATI_LOCK_INITIALIZER;
static struct leati_helper_set *list LEATI_GUARDED_BY(sets_lock);
static struct leati_helper_set *ended_list LEATI_GUARDED_BY(sets_lock); /* removed sets that are in use */
static pthread_cond_t set_freed = PTHREAD_COND_INITIALIZER;             /* a set of ended_list was freed */
static atomic_uint set_count; /* length of the list; if it is 0, copies do not take the lock */

/* ---- creating and destroying rails ---- */

static void end_rail(struct leati_rail *rail)
{
    leat_device *helper = rail->helper;
    const struct leati_driver_ops *ops = helper->driver->ops;
    struct leati_driver *driver = helper->driver;

    leati_assert(helper);
    /* Ignore failures, because no caller can handle them, and a destroyed object is gone even if the call fails.
     */
    leati_error_quiet_begin();
    if (rail->out)
        (void)ops->stream_synchronize(driver, rail->out);
    /* After its last chunk a staged share writes a flag, for which out does not wait. */
    if (rail->in)
        (void)ops->stream_synchronize(driver, rail->in);
    for (int i = 0; i < SLOTS; i++) {
        if (rail->landed[i])
            (void)ops->event_destroy(driver, rail->landed[i]);
        if (rail->gone[i])
            (void)ops->event_destroy(driver, rail->gone[i]);
    }
    if (rail->finished)
        (void)ops->event_destroy(driver, rail->finished);
    if (rail->in)
        (void)ops->stream_destroy(driver, rail->in);
    if (rail->out)
        (void)ops->stream_destroy(driver, rail->out);
    if (rail->bounce)
        (void)ops->mem_free(driver, helper->native, rail->bounce);
    leati_error_quiet_end();
}

static leat_status make_rail(struct leati_rail *rail, leat_device *helper)
{
    struct leati_driver *driver = helper->driver;
    const struct leati_driver_ops *ops = driver->ops;

    leati_assert(!rail->helper);
    rail->helper = helper;
    LEATI_TRY(ops->mem_alloc(driver, helper->native, SLOTS * LEATI_RAIL_CHUNK_BYTES, &rail->bounce));
    LEATI_TRY(ops->stream_create(driver, helper->native, &rail->in));
    LEATI_TRY(ops->stream_create(driver, helper->native, &rail->out));
    LEATI_TRY(ops->event_create(driver, helper->native, &rail->finished));
    for (int i = 0; i < SLOTS; i++) {
        LEATI_TRY(ops->event_create(driver, helper->native, &rail->landed[i]));
        LEATI_TRY(ops->event_create(driver, helper->native, &rail->gone[i]));
    }
    return LEAT_OK;
}

static void end_rails(struct leati_rails *rails)
{
    leat_device *target = rails->set->target;

    for (unsigned i = 0; i < rails->set->count && rails->rail[i].helper; i++)
        end_rail(&rails->rail[i]);
    if (rails->start)
        (void)LEATI_QUIETLY(target->driver->ops->event_destroy(target->driver, rails->start));
    if (rails->over)
        (void)LEATI_QUIETLY(target->driver->ops->event_destroy(target->driver, rails->over));
    free(rails);
}

static leat_status fill_rails(struct leati_rails *rails)
{
    leat_device *target = rails->set->target;
    const struct leati_driver_ops *ops = target->driver->ops;

    leati_assert(!rails->start && !rails->over && rails->set->count <= LEATI_RAILS_MAX);
    LEATI_TRY(ops->event_create(target->driver, target->native, &rails->start));
    LEATI_TRY(ops->event_create(target->driver, target->native, &rails->over));
    for (unsigned i = 0; i < rails->set->count; i++)
        LEATI_TRY(make_rail(&rails->rail[i], rails->set->helpers[i]));
    return LEAT_OK;
}

/* Creates a set of rails. Returns NULL if this fails; the copy then uses another protocol. */
static struct leati_rails *make_rails(struct leati_helper_set *set)
{
    struct leati_rails *rails = calloc(1, sizeof *rails);

    if (!rails)
        return NULL;
    rails->set = set;
    if (LEATI_QUIETLY(fill_rails(rails)) == LEAT_OK)
        return rails;
    end_rails(rails);
    return NULL;
}

static void end_set(struct leati_helper_set *set)
{
    for (int i = 0; i < RAIL_SETS_MAX; i++)
        if (set->rails[i])
            end_rails(set->rails[i]);
    free(set);
}

static bool concerns(const struct leati_helper_set *set, const leat_device *device, bool as_helper)
{
    if (set->target == device)
        return true;
    for (unsigned i = 0; as_helper && i < set->count; i++)
        if (set->helpers[i] == device)
            return true;
    return false;
}

/* Removes all sets of helpers whose target is device, and with as_helper also those with device as a helper.
 * Destroys those that no call uses. */
static void end_all(const leat_device *device, bool as_helper) LEATI_REQUIRES(sets_lock)
{
    struct leati_helper_set **place = &list, *set;

    leati_assert_locked(&sets_lock);
    while ((set = *place)) {
        if (!concerns(set, device, as_helper)) {
            place = &set->next;
            continue;
        }
        *place = set->next;
        atomic_fetch_sub_explicit(&set_count, 1, memory_order_relaxed);
        if (set->taken) {
            set->ended = true;
            set->next = ended_list;
            ended_list = set;
        } else {
            end_set(set);
        }
    }
}

/* Returns true if a removed set that a call still uses concerns the device. */
static bool is_in_use(const leat_device *device) LEATI_REQUIRES(sets_lock)
{
    for (const struct leati_helper_set *set = ended_list; set; set = set->next)
        if (concerns(set, device, true))
            return true;
    return false;
}

void leati_rails_close(leat_device *device)
{
    leati_lock(&sets_lock);
    end_all(device, true);
    while (is_in_use(device))
        leati_cond_wait(&set_freed, &sets_lock);
    leati_unlock(&sets_lock);
}

static leat_status check_helpers(leat_device *device, leat_device *const *helpers, unsigned count)
{
    if (count > LEATI_RAILS_MAX)
        return leati_fail(LEAT_ERROR_INVALID, "%u helpers; at most %d", count, LEATI_RAILS_MAX);
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
    struct leati_helper_set *set;

    LEATI_TRY(check_helpers(device, helpers, count));
    for (unsigned i = 0; i < count; i++)
        LEATI_TRY(leati_enable_peers(device, helpers[i]));
    set = count ? calloc(1, sizeof *set) : NULL;
    if (count && !set)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the list of helpers");
    leati_lock(&sets_lock);
    end_all(device, false);
    if (set) {
        set->target = device;
        set->count = count;
        memcpy(set->helpers, helpers, count * sizeof *helpers);
        set->next = list;
        list = set;
        atomic_fetch_add_explicit(&set_count, 1, memory_order_relaxed);
        /* The hooks destroy the rails when one of the devices is closed. */
        leati_copy_set_hooks(device);
        for (unsigned i = 0; i < count; i++)
            leati_copy_set_hooks(helpers[i]);
    }
    leati_unlock(&sets_lock);
    return LEAT_OK;
}

leat_status leat_copy_set_rails(leat_device *device, leat_device *const *helpers, unsigned count)
{
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_copy_set_rails"));
    LEATI_TRY(leati_check_device("leat_copy_set_rails", device));
    if (count)
        LEATI_TRY(leati_check_not_null("leat_copy_set_rails", "helpers", (const void *)helpers));
    status = share(device, helpers, count);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_copy_set_rails for %s", device->name);
}

/* ---- copying ---- */

static struct leati_helper_set *set_of(const leat_device *device) LEATI_REQUIRES(sets_lock)
{
    leati_assert_locked(&sets_lock);
    for (struct leati_helper_set *set = list; set; set = set->next)
        if (set->target == device)
            return set;
    return NULL;
}

unsigned leati_rails_count(leat_device *device)
{
    struct leati_helper_set *set;
    unsigned count;

    if (!atomic_load_explicit(&set_count, memory_order_relaxed))
        return 0;
    leati_lock(&sets_lock);
    set = set_of(device);
    count = set ? set->count : 0;
    leati_unlock(&sets_lock);
    return count;
}

/* Returns true if a new copy may use these rails: no call has taken them, and their latest copy is complete. */
static bool is_back(const struct leati_rails *rails)
{
    leat_device *target = rails->set->target;

    leati_assert_locked(&sets_lock);
    if (rails->taken)
        return false;
    return !rails->used || LEATI_QUIETLY(target->driver->ops->event_query(target->driver, rails->over)) == LEAT_OK;
}

struct leati_rails *leati_rails_take(leat_device *device, unsigned count)
{
    struct leati_rails *rails = NULL;
    struct leati_helper_set *set;

    leati_lock(&sets_lock);
    set = set_of(device);
    if (set && set->count != count)
        set = NULL;
    for (int i = 0; set && i < RAIL_SETS_MAX && !rails; i++) {
        if (!set->rails[i])
            set->rails[i] = make_rails(set);
        if (!set->rails[i])
            break;
        if (is_back(set->rails[i]))
            rails = set->rails[i];
    }
    if (rails) {
        rails->taken = true;
        rails->set->taken++;
    }
    leati_unlock(&sets_lock);
    return rails;
}

/* Destroys a removed set that no call uses any more. */
static void end_unused(struct leati_helper_set *set) LEATI_REQUIRES(sets_lock)
{
    struct leati_helper_set **place = &ended_list;

    leati_assert(set->ended && !set->taken);
    while (*place != set)
        place = &(*place)->next;
    *place = set->next;
    end_set(set);
    pthread_cond_broadcast(&set_freed);
}

void leati_rails_give_back(struct leati_rails *rails)
{
    struct leati_helper_set *set;

    leati_lock(&sets_lock);
    set = rails->set;
    leati_assert(rails->taken && set->taken);
    rails->taken = false;
    if (--set->taken == 0 && set->ended)
        end_unused(set);
    leati_unlock(&sets_lock);
}

static leat_status start_rails(struct leati_rails *rails, leat_stream *stream)
{
    struct leati_driver *driver = stream->device->driver;

    LEATI_TRY(driver->ops->event_record(driver, rails->start, stream->native));
    for (unsigned i = 0; i < rails->set->count; i++) {
        rails->rail[i].count = 0;
        LEATI_TRY(driver->ops->stream_wait(driver, rails->rail[i].in, rails->start));
    }
    return LEAT_OK;
}

leat_status leati_rails_begin(struct leati_rails *rails, leat_stream *stream)
{
    return LEATI_QUIETLY(start_rails(rails, stream));
}

struct leati_rail *leati_rails_at(struct leati_rails *rails, unsigned index)
{
    leati_assert(rails->taken && index < rails->set->count);
    return &rails->rail[index];
}

void *leati_rail_stream(const struct leati_rail *rail)
{
    return rail->in;
}

leat_status leati_rail_copy(struct leati_rail *rail, struct leati_location dst, struct leati_location src,
                            size_t bytes)
{
    struct leati_driver *driver = rail->helper->driver;
    const struct leati_driver_ops *ops = driver->ops;
    unsigned slot = (unsigned)(rail->count % SLOTS);
    struct leati_location bounce = {.ptr = (char *)rail->bounce + slot * LEATI_RAIL_CHUNK_BYTES,
                                    .kind = LEAT_KIND_DEVICE,
                                    .device = rail->helper->native};

    leati_assert(bytes && bytes <= LEATI_RAIL_CHUNK_BYTES && src.kind == LEAT_KIND_PINNED);
    if (rail->count >= SLOTS)
        LEATI_TRY(ops->stream_wait(driver, rail->in, rail->gone[slot]));
    LEATI_TRY(ops->copy(driver, rail->in, bounce, src, bytes));
    LEATI_TRY(ops->event_record(driver, rail->landed[slot], rail->in));
    LEATI_TRY(ops->stream_wait(driver, rail->out, rail->landed[slot]));
    LEATI_TRY(ops->copy(driver, rail->out, dst, bounce, bytes));
    LEATI_TRY(ops->event_record(driver, rail->gone[slot], rail->out));
    rail->count++;
    return LEAT_OK;
}

static leat_status join_rails(struct leati_rails *rails, leat_stream *stream)
{
    struct leati_driver *driver = stream->device->driver;

    leati_assert(rails->taken);
    for (unsigned i = 0; i < rails->set->count; i++) {
        struct leati_rail *rail = &rails->rail[i];

        LEATI_TRY(driver->ops->event_record(driver, rail->finished, rail->out));
        LEATI_TRY(driver->ops->stream_wait(driver, stream->native, rail->finished));
    }
    return driver->ops->event_record(driver, rails->over, stream->native);
}

/* Called after a failure. Waits for all DMAs of the copy, on the rails and on the copy's own stream, because the
 * program may reuse the memory when the call returns. */
static void wait_for_all(struct leati_rails *rails, leat_stream *stream)
{
    leati_error_quiet_begin();
    (void)stream->device->driver->ops->stream_synchronize(stream->device->driver, stream->native);
    for (unsigned i = 0; i < rails->set->count; i++) {
        struct leati_driver *driver = rails->rail[i].helper->driver;

        (void)driver->ops->stream_synchronize(driver, rails->rail[i].in);
        (void)driver->ops->stream_synchronize(driver, rails->rail[i].out);
    }
    leati_error_quiet_end();
}

leat_status leati_rails_end(struct leati_rails *rails, leat_stream *stream, bool failed)
{
    leat_status status = failed ? LEAT_ERROR_DRIVER : join_rails(rails, stream);

    leati_assert(rails->taken && rails->set->target == stream->device);
    if (status != LEAT_OK)
        wait_for_all(rails, stream);
    rails->used = status == LEAT_OK;
    return status;
}
