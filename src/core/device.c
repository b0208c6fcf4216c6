/* device.c - opens, closes and describes devices, and makes the checks at the start of every API function. */
#include "core/core.h"
#include "core/virtual.h"

#include "base/fault_handler.h"
#include "base/lock.h"
#include "base/options.h"
#include "base/quick.h"
#include "base/record.h"
#include "base/sized.h"
#include "driver/registry.h"
#include "trace/recorder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct leati_handles leati_device_handles = LEATI_HANDLES(struct leat_device);

/* Serializes opening and closing of devices. Guards each device's count of opens. */
static struct leati_lock open_lock = LEATI_LOCK_INITIALIZER;

/* Guards the list of devices. May be taken inside open_lock, and is held only briefly, so that looking up an
 * address never waits for a device that is being closed. */
static struct leati_lock list_lock = LEATI_LOCK_INITIALIZER;
static struct leat_device *list LEATI_GUARDED_BY(list_lock);

static LEATI_QUICK_TLS unsigned host_function_depth;

/* True in a child of fork() whose parent had a device open. leat fails there, because its threads and the vendor's
 * threads do not exist in the child. */
static bool forked;

/* Runs in a child of fork(), which has only this thread, so it takes no lock. */
static void begin_child(void) LEATI_NO_THREAD_SAFETY
{
    forked |= list != NULL;
}

static void begin_process(void)
{
    (void)pthread_atfork(NULL, NULL, begin_child);
    leati_record_begin();
    leati_trace_begin();
}

void leati_host_function_enter(void)
{
    host_function_depth++;
}

void leati_host_function_leave(void)
{
    host_function_depth--;
    leati_fault_handler_recheck_mask();
}

LEATI_HOT leat_status leati_check_permitted(const char *what)
{
    leati_fault_handler_recheck_mask();
    if (host_function_depth)
        return leati_fail(LEAT_ERROR_NOT_PERMITTED,
                          "%s: called from inside a host function; its stream waits for the function, so the call could wait for itself. Give the work from another thread",
                          what);
    if (forked)
        return leati_fail(
            LEAT_ERROR_NOT_PERMITTED,
            "%s: called in a child process of fork(), whose parent had a device open; such a child may only exec() or end. Fork before any device is opened",
            what);
    return LEAT_OK;
}

LEATI_HOT leat_status leati_check_device(const char *what, const leat_device *device)
{
    if (leati_handle_live(&leati_device_handles, device))
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_HANDLE, "%s: device %p is not open: it was closed, or never came from leat", what,
                      (const void *)device);
}

leat_status leati_check_not_null(const char *what, const char *name, const void *pointer)
{
    if (pointer)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_INVALID, "%s: %s is NULL", what, name);
}

void leati_link_add(struct leati_link *head, struct leati_link *link)
{
    link->next = head;
    link->previous = head->previous;
    head->previous->next = link;
    head->previous = link;
}

void leati_link_remove(struct leati_link *link)
{
    link->next->previous = link->previous;
    link->previous->next = link->next;
}

static void link_init(struct leati_link *head)
{
    head->next = head->previous = head;
}

/* ---- names ---- */

/* Lists the existing devices, for the message about a device name that does not exist. */
static void describe_devices(char *text, size_t bytes)
{
    struct leati_driver *driver;
    size_t used = 0;
    leat_status status;

    text[0] = '\0';
    for (unsigned i = 0; (driver = leati_registry_driver(i, &status, NULL)) && used < bytes; i++) {
        int n;

        if (status != LEAT_OK)
            n = snprintf(text + used, bytes - used, "%sno %s device", used ? ", " : "", driver->name);
        else if (driver->device_count == 1)
            n = snprintf(text + used, bytes - used, "%s%s:0", used ? ", " : "", driver->name);
        else
            n = snprintf(text + used, bytes - used, "%s%s:0 to %s:%d", used ? ", " : "", driver->name,
                         driver->name, driver->device_count - 1);
        if (n > 0)
            used += (size_t)n;
    }
}

/* Splits "cuda:1" or "cuda" into driver and ordinal. Returns false if the name has another form. */
static bool parse_name(const char *name, size_t *driver_length, int *ordinal)
{
    size_t length = strcspn(name, ":");
    char *end;
    long number;

    *driver_length = length;
    *ordinal = 0;
    if (!length || length > 7)
        return false;
    if (!name[length])
        return true;
    if (name[length + 1] < '0' || name[length + 1] > '9')
        return false;
    number = strtol(name + length + 1, &end, 10);
    if (*end || number > 4095)
        return false;
    *ordinal = (int)number;
    return true;
}

static leat_status find_named(const char *what, const char *name, struct leati_driver **found, int *ordinal)
{
    struct leati_driver *driver;
    const char *reason;
    leat_status status;
    size_t length;
    char there[200];

    if (!parse_name(name, &length, ordinal))
        return leati_fail(LEAT_ERROR_INVALID, "%s: '%s' is not a device name; it should look like cuda:0 or cpu:1",
                          what, name);
    for (unsigned i = 0; (driver = leati_registry_driver(i, &status, &reason)); i++) {
        if (strlen(driver->name) != length || strncmp(driver->name, name, length))
            continue;
        if (status != LEAT_OK)
            return leati_fail(status, "%s: no device '%s': %s", what, name, reason);
        if (*ordinal >= driver->device_count)
            break;
        *found = driver;
        return LEAT_OK;
    }
    describe_devices(there, sizeof there);
    return leati_fail(LEAT_ERROR_NO_DEVICE, "%s: there is no device '%s'; there is: %s ('leat info' says more)",
                      what, name, there[0] ? there : "nothing, because LEAT_DRIVERS names no known driver");
}

static leat_status find_best(const char *what, struct leati_driver **found, int *ordinal)
{
    const char *reason, *wrong_setting = NULL;
    struct leati_driver *driver;
    leat_status status;
    char there[200];

    for (unsigned i = 0; (driver = leati_registry_driver(i, &status, &reason)); i++) {
        if (status == LEAT_OK && driver->device_count > 0) {
            *found = driver;
            *ordinal = 0;
            return LEAT_OK;
        }
        if (status == LEAT_ERROR_INVALID && !wrong_setting)
            wrong_setting = reason;
    }
    if (wrong_setting)
        return leati_fail(LEAT_ERROR_INVALID, "%s: there is no device: %s", what, wrong_setting);
    describe_devices(there, sizeof there);
    return leati_fail(LEAT_ERROR_NO_DEVICE, "%s: there is no device: %s ('leat info' says more)", what,
                      there[0] ? there : "LEAT_DRIVERS names no known driver");
}

static leat_status find_driver(const char *what, const char *name, struct leati_driver **driver, int *ordinal)
{
    LEATI_TRY(leati_registry_check(what));
    if (!name)
        name = leati_option(LEATI_OPTION_DEVICE);
    return name ? find_named(what, name, driver, ordinal) : find_best(what, driver, ordinal);
}

/* Chooses driver and ordinal from the name or, if it is NULL, from the environment. On failure the message also
 * lists LEAT_ variables that leat does not know, because a misspelt variable may be the one that should choose the
 * device. */
static leat_status choose_driver(const char *what, const char *name, struct leati_driver **driver, int *ordinal)
{
    leat_status status = leati_options_check(what);
    struct leati_message message;
    char unknown[512];

    if (status == LEAT_OK)
        status = find_driver(what, name, driver, ordinal);
    if (status == LEAT_OK)
        return LEAT_OK;
    leati_options_unknown(unknown, sizeof unknown);
    if (!unknown[0])
        return status;
    leati_error_keep(&message);
    return leati_fail(status, "%s%s", message.text, unknown);
}

/* ---- open and close ---- */

/* Returns the open device, or NULL. Call under open_lock, which prevents changes of the list. */
static struct leat_device *find_open(const struct leati_driver *driver, int ordinal)
    LEATI_REQUIRES(open_lock) LEATI_NO_THREAD_SAFETY
{
    leati_assert_locked(&open_lock);
    for (struct leat_device *device = list; device; device = device->next)
        if (device->driver == driver && device->ordinal == ordinal && !device->wrapped)
            return device;
    return NULL;
}

struct leat_device *leati_device_of(const struct leati_driver *driver, const void *native)
{
    struct leat_device *device;

    leati_lock(&list_lock);
    for (device = list; device; device = device->next)
        if (device->driver == driver && device->native == native)
            break;
    leati_unlock(&list_lock);
    return device;
}

bool leati_driver_is_open(const struct leati_driver *driver)
{
    struct leat_device *device;

    leati_lock(&list_lock);
    for (device = list; device && device->driver != driver; device = device->next)
        continue;
    leati_unlock(&list_lock);
    return device != NULL;
}

/* Returns the lowest slot that no open device has. */
static unsigned free_slot(void) LEATI_REQUIRES(list_lock)
{
    uint64_t taken = 0;

    leati_assert_locked(&list_lock);
    for (const struct leat_device *device = list; device; device = device->next)
        taken |= device->slot < 64 ? UINT64_C(1) << device->slot : 0;
    return ~taken ? (unsigned)__builtin_ctzll(~taken) : 64;
}

/* Opens a device that is not open yet. Call under open_lock. */
static leat_status open_new(const char *what, struct leati_driver *driver, int ordinal, void *context,
                            leat_device **opened) LEATI_REQUIRES(open_lock)
{
    struct leat_device *device = leati_handle_new(&leati_device_handles);
    leat_status status;

    leati_assert_locked(&open_lock);
    if (!device)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "%s: no memory for the device handle", what);
    device->driver = driver;
    device->ordinal = ordinal;
    device->wrapped = context != NULL;
    device->opens = 1;
    atomic_init(&device->peers, 0);
    for (int i = 0; i < 4; i++)
        atomic_init(&device->copy_rates[i], 0);
    snprintf(device->name, sizeof device->name, "%.7s:%d", driver->name, ordinal);
    atomic_store_explicit(&leati_describe_address, leati_describe_pooled, memory_order_release);
    status = driver->ops->device_open(driver, ordinal, context, &device->native);
    if (status != LEAT_OK) {
        leati_fail_in(status, "%s: opening %s", what, device->name);
        leati_handle_free(&leati_device_handles, device);
        return status;
    }
    leati_lock_init(&device->lock);
    leati_lock_init(&device->module_lock);
    leati_lock_init(&device->pools_lock);
    leati_lock_init(&device->prefetch_lock);
    link_init(&device->streams);
    link_init(&device->events);
    link_init(&device->modules);
    device->traced = (struct leati_traced_device){
        .driver = driver, .native = device->native, .ordinal = ordinal, .name = device->name};
    device->traced_calls = (struct leati_traced_stream){.device = &device->traced};
    leati_lock(&list_lock);
    device->slot = free_slot();
    device->next = list;
    list = device;
    leati_unlock(&list_lock);
    leati_handle_publish(device);
    *opened = device;
    return LEAT_OK;
}

static leat_status open_device(const char *what, const char *name, void *context, leat_device **device)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct leati_driver *driver = NULL;
    struct leat_device *open;
    leat_status status = LEAT_OK;
    int ordinal = 0;

    LEATI_TRY(leati_check_permitted(what));
    LEATI_TRY(leati_check_not_null(what, "device", device));
    LEATI_TRY(choose_driver(what, name, &driver, &ordinal));
    pthread_once(&once, begin_process);
    leati_lock(&open_lock);
    open = context ? NULL : find_open(driver, ordinal);
    if (open) {
        open->opens++;
        *device = open;
    } else {
        status = open_new(what, driver, ordinal, context, device);
    }
    leati_unlock(&open_lock);
    return status;
}

leat_status leat_device_open(const char *name, leat_device **device)
{
    return open_device("leat_device_open", name, NULL, device);
}

leat_status leat_device_wrap(const char *name, void *native_context, leat_device **device)
{
    LEATI_TRY(leati_check_not_null("leat_device_wrap", "native_context", native_context));
    return open_device("leat_device_wrap", name, native_context, device);
}

static leat_status first_of(leat_status first, leat_status second)
{
    return first != LEAT_OK ? first : second;
}

static void list_remove(struct leat_device *device)
{
    struct leat_device **place = &list;

    leati_lock(&list_lock);
    while (*place != device)
        place = &(*place)->next;
    *place = device->next;
    /* Clear the device's bit in all other devices: the next device in its slot has another context, without peer
     * access from others. Relaxed: no other data depends on the bits. */
    for (struct leat_device *other = list; other && device->slot < 64; other = other->next)
        atomic_fetch_and_explicit(&other->peers, ~(UINT64_C(1) << device->slot), memory_order_relaxed);
    leati_unlock(&list_lock);
}

/* Enables access of device to peer, once. Relaxed accesses, because no other data depends on the bits: a copy
 * before access is enabled goes through host memory, which is also correct. */
static leat_status enable_peer(struct leat_device *device, struct leat_device *peer)
{
    uint64_t bit = UINT64_C(1) << peer->slot;
    leat_status status;

    if (atomic_fetch_or_explicit(&device->peers, bit, memory_order_relaxed) & bit)
        return LEAT_OK;
    status = device->driver->ops->peer_enable(device->driver, device->native, peer->native);
    if (status != LEAT_OK)
        atomic_fetch_and_explicit(&device->peers, ~bit, memory_order_relaxed);
    return status;
}

leat_status leati_enable_peers(struct leat_device *first, struct leat_device *second)
{
    if (first == second || !first->driver->ops->peer_enable || first->slot > 63 || second->slot > 63)
        return LEAT_OK;
    LEATI_TRY(enable_peer(first, second));
    return enable_peer(second, first);
}

/* Closes a device that no user has open any more. Call under open_lock, so that no other thread can open the
 * device in the meantime. */
static leat_status close_last(struct leat_device *device)
{
    struct leati_driver *driver = device->driver;
    const struct leati_pool_hooks *hooks;
    const struct leati_copy_hooks *copies;
    leat_status status;

    list_remove(device);
    /* From here on calls with the handle fail. Calls that are still in progress are an error of the program. */
    leati_handle_retire(&leati_device_handles, device);
    hooks = atomic_load_explicit(&device->pool_hooks, memory_order_acquire);
    copies = atomic_load_explicit(&device->copy_hooks, memory_order_acquire);
    if (hooks)
        hooks->device_ends(device);
    if (copies)
        copies->device_ends(device);
    status = driver->ops->device_synchronize(driver, device->native);
    leati_trace_device_closes(&device->traced);
    status = first_of(status, leati_streams_close(device, status == LEAT_OK));
    status = first_of(status, leati_prefetch_close(device));
    if (copies)
        status = first_of(status, copies->device_closes(device));
    status = first_of(status, leati_events_close(device));
    status = first_of(status, leati_modules_close(device));
    if (hooks)
        status = first_of(status, hooks->device_closes(device));
    status = first_of(status, leati_virtual_close(device));
    status = first_of(status, leati_memory_close(device));
    leati_timelines_close(device);
    status = first_of(status, driver->ops->device_close(driver, device->native));
    /* Only now is it certain that no driver thread runs a host function, even if the wait above failed. */
    leati_host_calls_close(device);
    leati_trace_device_closed(&device->traced);
    LEATI_RECORD(.op = LEATI_RECORD_DEVICE_CLOSE, .device = device->name);
    if (status != LEAT_OK)
        leati_fail_in(status, "leat_device_close: %s is closed, but", device->name);
    leati_lock_destroy(&device->lock);
    leati_lock_destroy(&device->module_lock);
    leati_lock_destroy(&device->pools_lock);
    leati_lock_destroy(&device->prefetch_lock);
    leati_handle_free(&leati_device_handles, device);
    return status;
}

leat_status leat_device_close(leat_device *device)
{
    leat_status status = LEAT_OK;

    if (!device)
        return LEAT_OK;
    LEATI_TRY(leati_check_permitted("leat_device_close"));
    leati_lock(&open_lock);
    status = leati_check_device("leat_device_close", device);
    if (status == LEAT_OK && --device->opens == 0)
        status = close_last(device);
    leati_unlock(&open_lock);
    return status;
}

leat_status leat_device_synchronize(leat_device *device)
{
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_SYNCHRONIZE, "leat_device_synchronize");
    LEATI_TRY(leati_check_permitted("leat_device_synchronize"));
    LEATI_TRY(leati_check_device("leat_device_synchronize", device));
    if (leati_traced())
        leati_span_stream(&device->traced_calls);
    status = device->driver->ops->device_synchronize(device->driver, device->native);
    if (status != LEAT_OK)
        return leati_fail_in(status, "leat_device_synchronize on %s", device->name);
    LEATI_RECORD(.op = LEATI_RECORD_SYNC, .device = device->name);
    return LEAT_OK;
}

/* ---- describing ---- */

/* Fills *info, whose size field the caller has checked. */
static leat_status fill_info(struct leati_driver *driver, int ordinal, leat_device_info *info)
{
    leat_device_info filled;

    memset(&filled, 0, sizeof filled);
    filled.numa_node = -1;
    LEATI_TRY(driver->ops->device_info(driver, ordinal, &filled));
    filled.ordinal = ordinal;
    snprintf(filled.driver, sizeof filled.driver, "%s", driver->name);
    snprintf(filled.name, sizeof filled.name, "%.7s:%d", driver->name, ordinal);
    filled.unified_addressing = 1;
    LEATI_SIZED_WRITE(info, &filled);
    return LEAT_OK;
}

leat_status leat_device_get_info(leat_device *device, leat_device_info *info)
{
    leat_status status;

    LEATI_TRY(leati_check_device("leat_device_get_info", device));
    LEATI_TRY(LEATI_SIZED_CHECK("leat_device_get_info", "info", leat_device_info, info));
    status = fill_info(device->driver, device->ordinal, info);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_device_get_info of %s", device->name);
}

leat_status leat_device_memory(leat_device *device, uint64_t *free_bytes, uint64_t *total_bytes)
{
    uint64_t free_now, total;
    leat_status status;

    LEATI_TRY(leati_check_device("leat_device_memory", device));
    status = device->driver->ops->device_memory(device->driver, device->native, &free_now, &total);
    if (status != LEAT_OK)
        return leati_fail_in(status, "leat_device_memory of %s", device->name);
    if (free_bytes)
        *free_bytes = free_now;
    if (total_bytes)
        *total_bytes = total;
    return LEAT_OK;
}

leat_status leat_device_list(unsigned index, leat_device_info *info)
{
    struct leati_driver *driver;
    leat_status status;
    unsigned past = index;

    LEATI_TRY(LEATI_SIZED_CHECK("leat_device_list", "info", leat_device_info, info));
    for (unsigned i = 0; (driver = leati_registry_driver(i, &status, NULL)); i++) {
        if (status != LEAT_OK)
            continue;
        if (past < (unsigned)driver->device_count) {
            status = fill_info(driver, (int)past, info);
            return status == LEAT_OK ? status : leati_fail_in(status, "leat_device_list(%u)", index);
        }
        past -= (unsigned)driver->device_count;
    }
    return leati_fail(LEAT_ERROR_NO_DEVICE, "leat_device_list: index %u is past the last device", index);
}

leat_status leat_driver_list(unsigned index, leat_driver_info *info)
{
    struct leati_driver *driver;
    leat_driver_info filled;
    leat_status status;
    const char *reason;

    LEATI_TRY(LEATI_SIZED_CHECK("leat_driver_list", "info", leat_driver_info, info));
    driver = leati_registry_driver(index, &status, &reason);
    if (!driver)
        return leati_fail(LEAT_ERROR_NO_DRIVER, "leat_driver_list: index %u is past the last driver", index);
    memset(&filled, 0, sizeof filled);
    snprintf(filled.name, sizeof filled.name, "%s", driver->name);
    filled.status = status;
    snprintf(filled.reason, sizeof filled.reason, "%s", status == LEAT_OK ? "" : reason);
    snprintf(filled.library, sizeof filled.library, "%s", driver->library);
    snprintf(filled.version, sizeof filled.version, "%s", driver->version);
    filled.device_count = (unsigned)driver->device_count;
    LEATI_SIZED_WRITE(info, &filled);
    return LEAT_OK;
}

leat_status leat_device_native(leat_device *device, void **native_context)
{
    LEATI_TRY(leati_check_device("leat_device_native", device));
    LEATI_TRY(leati_check_not_null("leat_device_native", "native_context", native_context));
    *native_context = device->driver->ops->device_native(device->driver, device->native);
    return LEAT_OK;
}

leat_status leat_native_symbol(leat_device *device, const char *name, void **symbol)
{
    void *found;

    LEATI_TRY(leati_check_device("leat_native_symbol", device));
    LEATI_TRY(leati_check_not_null("leat_native_symbol", "name", name));
    LEATI_TRY(leati_check_not_null("leat_native_symbol", "symbol", symbol));
    if (!device->driver->ops->symbol)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "leat_native_symbol: %s has no vendor's library behind it",
                          device->name);
    found = device->driver->ops->symbol(device->driver, name);
    if (!found)
        return leati_fail(LEAT_ERROR_NOT_FOUND, "leat_native_symbol: %s does not export '%s'",
                          device->driver->library, name);
    *symbol = found;
    return LEAT_OK;
}
