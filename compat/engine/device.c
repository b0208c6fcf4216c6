/* device.c - finds, opens and resets the devices of the compatibility libraries; knows each thread's current
 * device, and peer access. */
#include "base/lock.h"
#include "engine/inside.h"

#include <stdio.h>
#include <string.h>

static struct leatc_device devices[LEATC_DEVICES_MAX];
static leat_device_info infos[LEATC_DEVICES_MAX];
static int device_count;
static int found = LEATC_NO_DEVICE;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Serializes opening and resetting devices. */
static struct leati_lock open_lock = LEATI_LOCK_INITIALIZER;

atomic_bool leatc_is_child;

static _Thread_local int current;

/* True after a device was opened for the first time. A thread that reads true also sees the list of devices. */
static atomic_bool opened;

/* Writes the name of the driver that LEAT_DEVICE selects, or "" if it selects none. */
static void wanted_driver(char *name, size_t bytes)
{
    leat_option_info option = LEAT_OPTION_INFO_INIT;

    name[0] = '\0';
    for (unsigned i = 0; leat_option_list(i, &option) == LEAT_OK; i++)
        if (!strcmp(option.name, "LEAT_DEVICE") && option.value) {
            size_t length = strcspn(option.value, ":");

            snprintf(name, bytes, "%.*s", (int)(length < bytes ? length : bytes - 1), option.value);
        }
}

/* Lists all devices of a driver. If driver is "", lists those of the first driver that has any. */
static int list_devices(const char *driver)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    char taken[sizeof info.driver] = "";
    int count = 0;

    snprintf(taken, sizeof taken, "%s", driver);
    for (unsigned i = 0; count < LEATC_DEVICES_MAX && leat_device_list(i, &info) == LEAT_OK; i++) {
        if (!taken[0])
            memcpy(taken, info.driver, sizeof taken);
        if (!strcmp(taken, info.driver))
            infos[count++] = info;
    }
    return count;
}

static void add_devices(int count)
{
    for (int i = 0; i < count; i++) {
        devices[i].ordinal = i;
        leati_lock_init(&devices[i].lock);
    }
    device_count = count;
}

/* Runs in a child of fork(). If the parent has opened a device, makes all calls fail with NOT_INITIALIZED, as the
 * vendors' libraries do. */
static void begin_child(void)
{
    for (int i = 0; i < device_count; i++)
        if (atomic_load(&devices[i].ready)) {
            found = LEATC_NOT_INITIALIZED;
            atomic_store(&leatc_is_child, true);
        }
}

static void find_devices(void)
{
    char driver[16];
    leat_driver_info why = LEAT_DRIVER_INFO_INIT;
    int count;

    (void)pthread_atfork(NULL, NULL, begin_child);
    wanted_driver(driver, sizeof driver);
    count = list_devices(driver);
    if (!count && driver[0])
        count = list_devices("");
    add_devices(leatc_visible(infos, count));
    if (device_count)
        found = LEATC_OK;
    else if (!count && leat_driver_list(0, &why) == LEAT_OK && why.status != LEAT_OK)
        found = leatc_result_of(why.status);
}

int leatc_init(void)
{
    pthread_once(&once, find_devices);
    return found;
}

int leatc_device_count(int *count)
{
    int result = leatc_init();

    if (!count)
        return LEATC_INVALID_VALUE;
    *count = device_count;
    return result;
}

static int check_ordinal(int ordinal)
{
    LEATC_TRY(leatc_init());
    return ordinal >= 0 && ordinal < device_count ? LEATC_OK : LEATC_INVALID_DEVICE;
}

struct leatc_device *leatc_device_known(int ordinal)
{
    return ordinal >= 0 && ordinal < device_count ? &devices[ordinal] : NULL;
}

/* On the CPU device, creates the pool from which leatc_alloc() allocates sharable memory. */
static void make_shared_pool(struct leatc_device *device, leat_device *native)
{
    leat_pool_options options = {
        .size = sizeof options, .name = "shared", .kind = LEAT_KIND_DEVICE, .dedicated = 1, .exportable = 1};

    device->shared = NULL;
    atomic_store(&device->small_shared, 0);
    if (!strcmp(infos[device->ordinal].driver, "cpu"))
        (void)leat_pool_create(native, &options, &device->shared);
}

/* Opens a device, unless it is open. The caller holds open_lock. */
static int open_device(struct leatc_device *device)
{
    leat_device *native = NULL;
    int result;

    if (atomic_load(&device->ready))
        return LEATC_OK;
    LEATC_TRY(leatc_result_of(leat_device_open(infos[device->ordinal].name, &native)));
    atomic_fetch_add(&device->generation, 1);
    make_shared_pool(device, native);
    atomic_store_explicit(&device->native, native, memory_order_release);
    result = leatc_streams_open(device);
    if (result == LEATC_OK) {
        /* For leatc_device_at(): a thread that reads ready as true also sees the streams and the pool. */
        atomic_store(&device->ready, true);
        atomic_store(&opened, true);
        leatc_note_again();
    } else {
        atomic_store(&device->native, NULL);
        leat_device_close(native);
    }
    return result;
}

struct leatc_device *(leatc_device_at)(int ordinal, int *result)
{
    struct leatc_device *device;

    *result = check_ordinal(ordinal);
    if (*result != LEATC_OK)
        return NULL;
    device = &devices[ordinal];
    if (__builtin_expect(atomic_load_explicit(&device->ready, memory_order_acquire), 1))
        return device;
    leati_lock(&open_lock);
    *result = open_device(device);
    leati_unlock(&open_lock);
    return *result == LEATC_OK ? device : NULL;
}

struct leatc_device *(leatc_device_here)(int *result)
{
    return leatc_device_at(current, result);
}

int leatc_device_open(int ordinal, leat_device **native)
{
    int result;
    struct leatc_device *device = leatc_device_at(ordinal, &result);

    if (device && native)
        *native = atomic_load_explicit(&device->native, memory_order_relaxed);
    return result;
}

bool leatc_device_is_open(int ordinal)
{
    return check_ordinal(ordinal) == LEATC_OK && atomic_load(&devices[ordinal].ready);
}

int leatc_device_get(int *ordinal)
{
    LEATC_TRY(leatc_init());
    if (!ordinal)
        return LEATC_INVALID_VALUE;
    *ordinal = current;
    return LEATC_OK;
}

int leatc_device_set(int ordinal)
{
    int result;

    if (leatc_device_at(ordinal, &result))
        current = ordinal;
    return result;
}

int leatc_device_return(int ordinal)
{
    LEATC_TRY(check_ordinal(ordinal));
    current = ordinal;
    return LEATC_OK;
}

bool leatc_note_device(void)
{
    bool all = true;

    if (!atomic_load(&opened))
        return true;
    for (int i = 0; i < device_count; i++) {
        if (!atomic_load(&devices[i].ready) || atomic_load(&devices[i].noted))
            continue;
        if (i == current)
            atomic_store(&devices[i].noted, true);
        else
            all = false;
    }
    return all;
}

bool leatc_device_is_noted(int ordinal)
{
    return check_ordinal(ordinal) == LEATC_OK && atomic_load(&devices[ordinal].noted);
}

int leatc_device_ordinal(const leat_device *native)
{
    for (int i = 0; i < device_count; i++)
        if (native && atomic_load(&devices[i].native) == native)
            return i;
    return -1;
}

int leatc_ordinal_of(int native_ordinal)
{
    for (int i = 0; i < device_count; i++)
        if ((int)infos[i].ordinal == native_ordinal)
            return i;
    return -1;
}

int leatc_device_wait(struct leatc_device *device)
{
    int result = leatc_result_of(leat_device_synchronize(atomic_load(&device->native)));

    leatc_pools_waited(device);
    return result;
}

int leatc_device_synchronize(int ordinal)
{
    int result;
    struct leatc_device *device = leatc_device_at(ordinal, &result);

    if (!device)
        return result;
    LEATC_TRY(leatc_capture_refuse_device(device));
    return leatc_device_wait(device);
}

void leatc_device_if_open(int ordinal, uint64_t generation, int (*end)(struct leatc_stream *stream),
                          struct leatc_stream *stream)
{
    struct leatc_device *device = &devices[ordinal];

    leati_lock(&open_lock);
    if (atomic_load(&device->ready) && atomic_load(&device->generation) == generation)
        (void)end(stream);
    leati_unlock(&open_lock);
}

int leatc_device_reset(int ordinal)
{
    struct leatc_device *device;
    leat_device *native;

    LEATC_TRY(check_ordinal(ordinal));
    device = &devices[ordinal];
    leati_lock(&open_lock);
    native = atomic_load(&device->native);
    if (native) {
        /* First wait for pending work, because it uses the objects that are destroyed below. Ignore a failure of
         * this wait: it may be the reason for the reset. */
        (void)leat_device_synchronize(native);
        leatc_captures_close(device);
        leatc_kernels_close(device);
        leatc_events_close(device);
        leatc_arrays_close(device);
        leatc_pools_close(device);
        leatc_streams_close(device);
        leatc_imports_close(device);
        leatc_graph_memory_close(device);
        leatc_memory_close(device);
        atomic_store(&device->ready, false);
        atomic_store(&device->noted, false);
        atomic_store(&device->native, NULL);
        atomic_store(&device->peers, 0);
        device->flags = 0;
        (void)leat_device_close(native);
    }
    leati_unlock(&open_lock);
    leatc_error_clear();
    return LEATC_OK;
}

int leatc_device_describe(int ordinal, leat_device_info *info)
{
    LEATC_TRY(check_ordinal(ordinal));
    *info = infos[ordinal];
    return LEATC_OK;
}

/* Returns the number of bytes that a pool holds but no live block uses. */
static uint64_t idle_bytes(leat_pool *pool)
{
    leat_pool_stats figures = {.size = sizeof figures};

    if (leat_pool_get_stats(pool, &figures) != LEAT_OK || figures.reserved_bytes < figures.used_bytes)
        return 0;
    return figures.reserved_bytes - figures.used_bytes;
}

int leatc_device_memory(int ordinal, size_t *free_bytes, size_t *total_bytes)
{
    uint64_t free_now = 0, total = 0;
    int result;
    struct leatc_device *device = leatc_device_at(ordinal, &result);
    leat_device *native;
    leat_pool *pool;

    if (!device)
        return result;
    native = atomic_load(&device->native);
    LEATC_TRY(leatc_result_of(leat_device_memory(native, &free_now, &total)));
    if (device->shared)
        free_now += idle_bytes(device->shared);
    if (leat_pool_default(native, LEAT_KIND_DEVICE, &pool) == LEAT_OK)
        free_now += idle_bytes(pool);
    if (free_bytes)
        *free_bytes = free_now < total ? free_now : total;
    if (total_bytes)
        *total_bytes = total;
    return LEATC_OK;
}

int leatc_device_set_flags(int ordinal, unsigned flags)
{
    LEATC_TRY(check_ordinal(ordinal));
    devices[ordinal].flags = flags;
    return LEATC_OK;
}

int leatc_device_flags(int ordinal, unsigned *flags)
{
    LEATC_TRY(check_ordinal(ordinal));
    *flags = devices[ordinal].flags;
    return LEATC_OK;
}

/* ---- peers ---- */

int leatc_peer_possible(int ordinal, int peer, int *possible)
{
    LEATC_TRY(check_ordinal(ordinal));
    LEATC_TRY(check_ordinal(peer));
    /* CPU devices have no link between them, but all threads can access the memory of each CPU device. */
    *possible =
        ordinal != peer && (!strcmp(infos[ordinal].driver, "cpu") ||
                            (infos[peer].ordinal < 64 && (infos[ordinal].peer_mask >> infos[peer].ordinal & 1)));
    return LEATC_OK;
}

static int check_peer(int peer)
{
    LEATC_TRY(check_ordinal(peer));
    return peer == current ? LEATC_INVALID_DEVICE : LEATC_OK;
}

int leatc_peer_enable(int peer, unsigned flags)
{
    int result, possible = 0;
    struct leatc_device *device = leatc_device_here(&result);
    uint64_t bit;

    if (!device)
        return result;
    if (flags)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_peer(peer));
    LEATC_TRY(leatc_peer_possible(current, peer, &possible));
    if (!possible)
        return 217; /* CUDA's number for "peer access unsupported" */
    bit = (uint64_t)1 << peer;
    return atomic_fetch_or(&device->peers, bit) & bit ? LEATC_PEER_ENABLED : leatc_device_open(peer, NULL);
}

int leatc_peer_disable(int peer)
{
    int result;
    struct leatc_device *device = leatc_device_here(&result);
    uint64_t bit;

    if (!device)
        return result;
    LEATC_TRY(check_ordinal(peer));
    bit = (uint64_t)1 << peer;
    return atomic_fetch_and(&device->peers, ~bit) & bit ? LEATC_OK : LEATC_PEER_NOT_ENABLED;
}

/* ---- addresses and names ---- */

int leatc_device_address(int ordinal, int *domain, int *bus, int *slot)
{
    unsigned d = 0, b = 0, s = 0;

    LEATC_TRY(check_ordinal(ordinal));
    if (sscanf(infos[ordinal].pci_address, "%x:%x:%x", &d, &b, &s) != 3) {
        /* The device is not on a PCI bus. Invent an address whose bus number differs for each device of the
         * driver. */
        d = 0, b = (unsigned)infos[ordinal].ordinal + 1, s = 0;
    }
    *domain = (int)d, *bus = (int)b, *slot = (int)s;
    return LEATC_OK;
}

int leatc_device_by_address(const char *text, int *ordinal)
{
    unsigned wanted[3] = {0, 0, 0};
    int domain, bus, slot;

    LEATC_TRY(leatc_init());
    if (sscanf(text, "%x:%x:%x", &wanted[0], &wanted[1], &wanted[2]) != 3) {
        wanted[0] = 0; /* an address without a domain */
        if (sscanf(text, "%x:%x", &wanted[1], &wanted[2]) != 2)
            return LEATC_INVALID_VALUE;
    }
    for (int i = 0; i < device_count; i++) {
        LEATC_TRY(leatc_device_address(i, &domain, &bus, &slot));
        if (domain == (int)wanted[0] && bus == (int)wanted[1] && slot == (int)wanted[2]) {
            *ordinal = i;
            return LEATC_OK;
        }
    }
    return LEATC_INVALID_DEVICE;
}

/* Makes a UUID from the device's name, which is unique within the machine, because leat does not know a card's
 * real UUID. */
void leatc_uuid_of(const char *name, unsigned char uuid[16])
{
    memset(uuid, 0, 16);
    memcpy(uuid, name, strnlen(name, 16));
}

int leatc_device_uuid(int ordinal, unsigned char uuid[16])
{
    LEATC_TRY(check_ordinal(ordinal));
    leatc_uuid_of(infos[ordinal].name, uuid);
    return LEATC_OK;
}

uint64_t leatc_device_generation(int ordinal)
{
    return atomic_load(&leatc_device_known(ordinal)->generation);
}
