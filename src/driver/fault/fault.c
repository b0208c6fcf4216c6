/*
 * fault.c - implements the wrappers of a driver's entries, which inject faults. See fault.h.
 *
 * Every entry of the table has a wrapper that counts the call and checks whether the call gets the fault. The
 * macro WRAP generates most wrappers from the entry's signature and its effect. The other wrappers are written
 * out, because a mode changes what they do.
 */
#include "driver/fault/fault.h"

#include "base/error.h"
#include "base/lock.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* All entries of struct leati_driver_ops, in the order of the struct. */
#define ENTRY_LIST(X)                                                                                             \
    X(load)                                                                                                       \
    X(device_info)                                                                                                \
    X(device_open)                                                                                                \
    X(device_close)                                                                                               \
    X(device_synchronize)                                                                                         \
    X(device_native)                                                                                              \
    X(device_memory)                                                                                              \
    X(peer_enable)                                                                                                \
    X(symbol)                                                                                                     \
    X(mem_alloc)                                                                                                  \
    X(mem_free)                                                                                                   \
    X(mem_alloc_async)                                                                                            \
    X(mem_free_async)                                                                                             \
    X(host_alloc)                                                                                                 \
    X(host_free)                                                                                                  \
    X(host_register)                                                                                              \
    X(host_unregister)                                                                                            \
    X(host_device_pointer)                                                                                        \
    X(managed_alloc)                                                                                              \
    X(managed_prefetch)                                                                                           \
    X(managed_advise)                                                                                             \
    X(managed_query)                                                                                              \
    X(managed_attach)                                                                                             \
    X(managed_record)                                                                                             \
    X(managed_count)                                                                                              \
    X(managed_history)                                                                                            \
    X(pointer_query)                                                                                              \
    X(vm_granularity)                                                                                             \
    X(vm_reserve)                                                                                                 \
    X(vm_unreserve)                                                                                               \
    X(vm_create)                                                                                                  \
    X(vm_release)                                                                                                 \
    X(vm_map)                                                                                                     \
    X(vm_set_access)                                                                                              \
    X(vm_set_rights)                                                                                              \
    X(vm_unmap)                                                                                                   \
    X(vm_export)                                                                                                  \
    X(vm_import)                                                                                                  \
    X(vm_export_read)                                                                                             \
    X(vm_import_read)                                                                                             \
    X(copy)                                                                                                       \
    X(copy_3d)                                                                                                    \
    X(fill)                                                                                                       \
    X(stream_create)                                                                                              \
    X(stream_destroy)                                                                                             \
    X(stream_adopt)                                                                                               \
    X(stream_native)                                                                                              \
    X(stream_query)                                                                                               \
    X(stream_synchronize)                                                                                         \
    X(stream_take_failure)                                                                                        \
    X(stream_wait)                                                                                                \
    X(stream_mem_ops)                                                                                             \
    X(stream_stamp)                                                                                               \
    X(capture_mode)                                                                                               \
    X(launch_host)                                                                                                \
    X(event_create)                                                                                               \
    X(event_destroy)                                                                                              \
    X(event_adopt)                                                                                                \
    X(event_native)                                                                                               \
    X(event_record)                                                                                               \
    X(event_query)                                                                                                \
    X(event_synchronize)                                                                                          \
    X(event_elapsed)                                                                                              \
    X(module_load)                                                                                                \
    X(module_builtin)                                                                                             \
    X(module_embedded)                                                                                            \
    X(module_unload)                                                                                              \
    X(kernel_get)                                                                                                 \
    X(kernel_parameter)                                                                                           \
    X(launch)

enum entry {
#define ENTRY_ENUM(name) ENTRY_##name,
    ENTRY_LIST(ENTRY_ENUM)
#undef ENTRY_ENUM
        ENTRY_COUNT,
    ENTRY_ANY = ENTRY_COUNT
};

static const char *const entry_names[] = {
#define ENTRY_NAME(name) #name,
    ENTRY_LIST(ENTRY_NAME)
#undef ENTRY_NAME
};

/* Compilation fails here if ENTRY_LIST lacks an entry, or later if an entry has no wrapper. */
_Static_assert(sizeof(struct leati_driver_ops) == ENTRY_COUNT * sizeof(void (*)(void)),
               "ENTRY_LIST has all entries of the driver table");

/*
 * The atomics below are independent counters and switches, so relaxed order is enough, with two exceptions. arm()
 * stores mode last, with release, and each call loads mode first, with acquire. So a thread that sees a mode also
 * sees the entry and n of this mode. In the same way, a thread that sees fired also sees fired_entry.
 */
struct fault {
    struct leati_driver base;
    struct leati_driver_ops ops;
    struct leati_driver *inner;

    _Atomic enum leati_fault_mode mode;
    _Atomic enum entry entry;
    _Atomic uint64_t n;
    _Atomic uint64_t calls;
    atomic_bool fired;
    _Atomic enum entry fired_entry;
    _Atomic uint64_t live;
    _Atomic uint64_t visits[ENTRY_COUNT];

    /* For LEATI_FAULT_ORDER_LOOSE: the loose stream, its hidden second stream, and the number of submitted pieces
     * of work, all protected by loose_lock. The lock is held during calls of the wrapped driver on the hidden
     * stream, so that no thread destroys this stream meanwhile. */
    struct leati_lock loose_lock;
    void *loose;
    void *hidden;
    uint64_t loose_work;
};

/* On every driver the size of a mapping is a multiple of this. */
#define PAGE_BYTES ((size_t)4096)

/* The effect of a call on the number of live objects. MAKE adds an object if the call succeeds, GIVE_BACK removes
 * one if the call succeeds, and TAKE removes one even if the call fails. */
enum effect { SAME, MAKE, GIVE_BACK, TAKE };

static const struct fault *const_fault_of(const struct leati_driver *driver)
{
    return (const struct fault *)driver;
}

static struct fault *fault_of(struct leati_driver *driver)
{
    return (struct fault *)driver;
}

static enum leati_fault_mode mode_of(struct fault *fault)
{
    return atomic_load_explicit(&fault->mode, memory_order_acquire);
}

static void note_fired(struct fault *fault, enum entry entry)
{
    atomic_store_explicit(&fault->fired_entry, entry, memory_order_relaxed);
    atomic_store_explicit(&fault->fired, true, memory_order_release);
}

static void pause_a_moment(void)
{
    struct timespec moment = {.tv_nsec = 20000000};

    while (nanosleep(&moment, &moment))
        continue;
}

/* Counts a call. Returns its number among the calls that the armed fault counts, or 0 if the fault does not count
 * this entry. */
static uint64_t count_call(struct fault *fault, enum entry entry)
{
    enum leati_fault_mode mode = mode_of(fault);
    enum entry wanted = atomic_load_explicit(&fault->entry, memory_order_relaxed);

    atomic_fetch_add_explicit(&fault->visits[entry], 1, memory_order_relaxed);
    if (wanted != ENTRY_ANY && wanted != entry)
        return 0;
    if (mode == LEATI_FAULT_CORRUPT && entry != ENTRY_copy && entry != ENTRY_copy_3d && entry != ENTRY_fill)
        return 0;
    return atomic_fetch_add_explicit(&fault->calls, 1, memory_order_relaxed) + 1;
}

/* Returns true if mode is armed and the call with this number gets the fault. Then also records that the fault has
 * happened. */
static bool strikes(struct fault *fault, enum entry entry, enum leati_fault_mode mode, uint64_t number)
{
    if (!number || mode_of(fault) != mode || number != atomic_load_explicit(&fault->n, memory_order_relaxed))
        return false;
    note_fired(fault, entry);
    return true;
}

/* Counts a call, and delays it if it gets the fault DELAY. Returns the call's number if the call must fail, else
 * 0. */
static uint64_t enter(struct fault *fault, enum entry entry)
{
    uint64_t number = count_call(fault, entry);

    if (strikes(fault, entry, LEATI_FAULT_DELAY, number))
        pause_a_moment();
    return strikes(fault, entry, LEATI_FAULT_FAIL, number) ? number : 0;
}

static leat_status fail(enum entry entry, uint64_t number)
{
    return leati_fail(LEAT_ERROR_DRIVER, "fault driver: call %" PRIu64 " (%s) was made to fail", number,
                      entry_names[entry]);
}

static void settle(struct fault *fault, enum effect effect, leat_status status)
{
    if (effect == MAKE && status == LEAT_OK)
        atomic_fetch_add_explicit(&fault->live, 1, memory_order_relaxed);
    if (effect == TAKE || (effect == GIVE_BACK && status == LEAT_OK))
        atomic_fetch_sub_explicit(&fault->live, 1, memory_order_relaxed);
}

/* Each mapped page counts as a live object, because one call may unmap what several calls have mapped. */
static leat_status wrap_vm_map(struct leati_driver *driver, void *device, void *ptr, size_t bytes, uint64_t handle)
{
    struct fault *fault = fault_of(driver);
    uint64_t failing = enter(fault, ENTRY_vm_map);
    leat_status status;

    if (failing)
        return fail(ENTRY_vm_map, failing);
    status = fault->inner->ops->vm_map(fault->inner, device, ptr, bytes, handle);
    if (status == LEAT_OK)
        atomic_fetch_add_explicit(&fault->live, bytes / PAGE_BYTES, memory_order_relaxed);
    return status;
}

static leat_status wrap_vm_unmap(struct leati_driver *driver, void *device, void *ptr, size_t bytes)
{
    struct fault *fault = fault_of(driver);
    uint64_t failing = enter(fault, ENTRY_vm_unmap);
    leat_status status = fault->inner->ops->vm_unmap(fault->inner, device, ptr, bytes);

    atomic_fetch_sub_explicit(&fault->live, bytes / PAGE_BYTES, memory_order_relaxed);
    return failing ? fail(ENTRY_vm_unmap, failing) : status;
}

/* ---- wrappers that only fail or delay -------------------------------------------------------- */

/* Defines the wrapper of an entry: WRAP(name, effect, its parameters, the arguments for the wrapped driver). */
#define WRAP(name, effect, parameters, arguments)                                                                 \
    static leat_status wrap_##name parameters                                                                     \
    {                                                                                                             \
        struct fault *fault = fault_of(driver);                                                                   \
        struct leati_driver *inner = fault->inner;                                                                \
        uint64_t failing = enter(fault, ENTRY_##name);                                                            \
        leat_status status;                                                                                       \
                                                                                                                  \
        if (failing && (effect) != TAKE)                                                                          \
            return fail(ENTRY_##name, failing);                                                                   \
        status = inner->ops->name arguments;                                                                      \
        settle(fault, effect, status);                                                                            \
        return failing ? fail(ENTRY_##name, failing) : status;                                                    \
    }

// clang-format off
WRAP(device_info, SAME, (struct leati_driver *driver, int ordinal, leat_device_info *info), (inner, ordinal, info))
WRAP(device_open, MAKE, (struct leati_driver *driver, int ordinal, void *native_context, void **device),
     (inner, ordinal, native_context, device))
WRAP(device_close, TAKE, (struct leati_driver *driver, void *device), (inner, device))
WRAP(device_synchronize, SAME, (struct leati_driver *driver, void *device), (inner, device))
WRAP(device_memory, SAME, (struct leati_driver *driver, void *device, uint64_t *free_bytes, uint64_t *total_bytes),
     (inner, device, free_bytes, total_bytes))
WRAP(peer_enable, SAME, (struct leati_driver *driver, void *device, void *peer), (inner, device, peer))

WRAP(mem_alloc, MAKE, (struct leati_driver *driver, void *device, size_t bytes, void **ptr),
     (inner, device, bytes, ptr))
WRAP(mem_free, GIVE_BACK, (struct leati_driver *driver, void *device, void *ptr), (inner, device, ptr))
WRAP(host_alloc, MAKE, (struct leati_driver *driver, void *device, size_t bytes, void **ptr),
     (inner, device, bytes, ptr))
WRAP(host_free, GIVE_BACK, (struct leati_driver *driver, void *device, void *ptr), (inner, device, ptr))
WRAP(host_register, MAKE, (struct leati_driver *driver, void *device, void *ptr, size_t bytes),
     (inner, device, ptr, bytes))
WRAP(host_unregister, GIVE_BACK, (struct leati_driver *driver, void *device, void *ptr), (inner, device, ptr))
WRAP(host_device_pointer, SAME, (struct leati_driver *driver, void *device, void *ptr, void **device_pointer),
     (inner, device, ptr, device_pointer))
WRAP(managed_alloc, MAKE, (struct leati_driver *driver, void *device, size_t bytes, void **ptr),
     (inner, device, bytes, ptr))
WRAP(managed_prefetch, SAME, (struct leati_driver *driver, void *stream, void *ptr, size_t bytes, void *to),
     (inner, stream, ptr, bytes, to))
WRAP(managed_advise, SAME,
     (struct leati_driver *driver, void *device, void *ptr, size_t bytes, leat_advice advice, void *where),
     (inner, device, ptr, bytes, advice, where))
WRAP(managed_query, SAME,
     (struct leati_driver *driver, void *device, const void *ptr, size_t bytes, leat_managed_info *info),
     (inner, device, ptr, bytes, info))
WRAP(managed_attach, SAME,
     (struct leati_driver *driver, void *stream, void *ptr, size_t bytes, leat_attach attach),
     (inner, stream, ptr, bytes, attach))
WRAP(managed_record, SAME, (struct leati_driver *driver, void *device, bool on), (inner, device, on))
WRAP(managed_count, SAME,
     (struct leati_driver *driver, void *device, const void *ptr, size_t bytes, leat_managed_stats *counts),
     (inner, device, ptr, bytes, counts))
WRAP(managed_history, SAME, (struct leati_driver *driver, void *device, leat_managed_move *moves, size_t *count),
     (inner, device, moves, count))
WRAP(pointer_query, SAME, (struct leati_driver *driver, const void *ptr, struct leati_pointer_info *place),
     (inner, ptr, place))

WRAP(vm_granularity, SAME, (struct leati_driver *driver, void *device, size_t *bytes), (inner, device, bytes))
WRAP(vm_reserve, MAKE, (struct leati_driver *driver, void *device, size_t bytes, void **ptr),
     (inner, device, bytes, ptr))
WRAP(vm_unreserve, TAKE, (struct leati_driver *driver, void *device, void *ptr, size_t bytes),
     (inner, device, ptr, bytes))
WRAP(vm_create, MAKE, (struct leati_driver *driver, void *device, size_t bytes, bool exportable, uint64_t *handle),
     (inner, device, bytes, exportable, handle))
WRAP(vm_release, TAKE, (struct leati_driver *driver, void *device, uint64_t handle), (inner, device, handle))
WRAP(vm_set_access, SAME, (struct leati_driver *driver, void *device, void *ptr, size_t bytes),
     (inner, device, ptr, bytes))
WRAP(vm_set_rights, SAME, (struct leati_driver *driver, void *device, void *ptr, size_t bytes,
     const struct leati_right *rights, unsigned count), (inner, device, ptr, bytes, rights, count))
WRAP(vm_export, SAME, (struct leati_driver *driver, void *device, uint64_t handle, int *fd),
     (inner, device, handle, fd))
WRAP(vm_import, MAKE, (struct leati_driver *driver, void *device, int fd, size_t bytes, uint64_t *handle),
     (inner, device, fd, bytes, handle))
WRAP(vm_export_read, SAME, (struct leati_driver *driver, void *device, uint64_t handle, int *fd),
     (inner, device, handle, fd))
WRAP(vm_import_read, MAKE, (struct leati_driver *driver, void *device, int fd, size_t bytes, uint64_t *handle),
     (inner, device, fd, bytes, handle))

WRAP(stream_adopt, MAKE, (struct leati_driver *driver, void *device, void *native, void **stream),
     (inner, device, native, stream))
WRAP(event_create, MAKE, (struct leati_driver *driver, void *device, void **event), (inner, device, event))
WRAP(event_destroy, TAKE, (struct leati_driver *driver, void *event), (inner, event))
WRAP(event_adopt, MAKE, (struct leati_driver *driver, void *device, void *native, void **event),
     (inner, device, native, event))
WRAP(event_record, SAME, (struct leati_driver *driver, void *event, void *stream), (inner, event, stream))
WRAP(stream_stamp, SAME, (struct leati_driver *driver, void *stream, _Atomic uint64_t *ns), (inner, stream, ns))
WRAP(capture_mode, SAME, (struct leati_driver *driver, unsigned *mode), (inner, mode))
WRAP(event_synchronize, SAME, (struct leati_driver *driver, void *event), (inner, event))
WRAP(event_elapsed, SAME, (struct leati_driver *driver, void *start, void *end, double *milliseconds),
     (inner, start, end, milliseconds))

WRAP(module_load, MAKE,
     (struct leati_driver *driver, void *device, const void *image, size_t bytes, void **module),
     (inner, device, image, bytes, module))
WRAP(module_builtin, MAKE,
     (struct leati_driver *driver, void *device, enum leati_builtin which, void **module),
     (inner, device, which, module))
WRAP(module_embedded, MAKE,
     (struct leati_driver *driver, void *device, const leat_embedded_kernel *kernels, size_t count, void **module),
     (inner, device, kernels, count, module))
WRAP(module_unload, TAKE, (struct leati_driver *driver, void *device, void *module), (inner, device, module))
WRAP(kernel_get, SAME,
     (struct leati_driver *driver, void *device, void *module, const char *name, void **kernel,
      struct leati_kernel_shape *shape),
     (inner, device, module, name, kernel, shape))
WRAP(kernel_parameter, SAME,
     (struct leati_driver *driver, void *device, void *kernel, unsigned index, size_t *bytes),
     (inner, device, kernel, index, bytes))
// clang-format on

static leat_status wrap_load(struct leati_driver *driver)
{
    struct fault *fault = fault_of(driver);
    uint64_t failing = enter(fault, ENTRY_load);

    if (failing)
        return fail(ENTRY_load, failing);
    LEATI_TRY(fault->inner->ops->load(fault->inner));
    memcpy(driver->library, fault->inner->library, sizeof driver->library);
    memcpy(driver->version, fault->inner->version, sizeof driver->version);
    driver->device_count = fault->inner->device_count;
    return LEAT_OK;
}

/* ---- entries that cannot fail ---------------------------------------------------------------- */

static void *wrap_device_native(struct leati_driver *driver, void *device)
{
    struct fault *fault = fault_of(driver);

    atomic_fetch_add_explicit(&fault->visits[ENTRY_device_native], 1, memory_order_relaxed);
    return fault->inner->ops->device_native(fault->inner, device);
}

static void *wrap_symbol(struct leati_driver *driver, const char *name)
{
    struct fault *fault = fault_of(driver);

    atomic_fetch_add_explicit(&fault->visits[ENTRY_symbol], 1, memory_order_relaxed);
    return fault->inner->ops->symbol(fault->inner, name);
}

static void *wrap_stream_native(struct leati_driver *driver, void *stream)
{
    struct fault *fault = fault_of(driver);

    atomic_fetch_add_explicit(&fault->visits[ENTRY_stream_native], 1, memory_order_relaxed);
    return fault->inner->ops->stream_native(fault->inner, stream);
}

static void *wrap_event_native(struct leati_driver *driver, void *event)
{
    struct fault *fault = fault_of(driver);

    atomic_fetch_add_explicit(&fault->visits[ENTRY_event_native], 1, memory_order_relaxed);
    return fault->inner->ops->event_native(fault->inner, event);
}

/* ---- the stream whose work is reordered ------------------------------------------------------ */

/* Chooses the stream for a piece of work: every second piece of the loose stream goes to the hidden stream.
 * Returns true if it has taken loose_lock. The caller submits the work, and then passes the result to end_work().
 */
static bool begin_work(struct fault *fault, void **stream) LEATI_NO_THREAD_SAFETY
{
    leati_lock(&fault->loose_lock);
    if (*stream == fault->loose && fault->hidden && mode_of(fault) == LEATI_FAULT_ORDER_LOOSE) {
        if (fault->loose_work++ % 2) {
            *stream = fault->hidden;
            note_fired(fault, ENTRY_copy);
        }
        return true;
    }
    leati_unlock(&fault->loose_lock);
    return false;
}

static void end_work(struct fault *fault, bool locked) LEATI_NO_THREAD_SAFETY
{
    if (locked)
        leati_unlock(&fault->loose_lock);
}

/* Waits for the hidden stream if stream is the loose one, because a wait for the loose stream must wait for all
 * its work. */
static leat_status drain_hidden(struct fault *fault, void *stream)
{
    struct leati_driver *inner = fault->inner;
    leat_status status = LEAT_OK;

    leati_lock(&fault->loose_lock);
    if (fault->hidden && stream == fault->loose)
        status = inner->ops->stream_synchronize(inner, fault->hidden);
    leati_unlock(&fault->loose_lock);
    return status;
}

static leat_status wrap_stream_create(struct leati_driver *driver, void *device, void **stream)
{
    struct fault *fault = fault_of(driver);
    struct leati_driver *inner = fault->inner;
    uint64_t failing = enter(fault, ENTRY_stream_create);
    leat_status status;

    if (failing)
        return fail(ENTRY_stream_create, failing);
    status = inner->ops->stream_create(inner, device, stream);
    settle(fault, MAKE, status);
    if (status != LEAT_OK || mode_of(fault) != LEATI_FAULT_ORDER_LOOSE)
        return status;
    leati_lock(&fault->loose_lock);
    if (!fault->hidden && inner->ops->stream_create(inner, device, &fault->hidden) == LEAT_OK) {
        fault->loose = *stream;
        fault->loose_work = 0;
    }
    leati_unlock(&fault->loose_lock);
    return LEAT_OK;
}

static leat_status wrap_stream_destroy(struct leati_driver *driver, void *stream)
{
    struct fault *fault = fault_of(driver);
    struct leati_driver *inner = fault->inner;
    uint64_t failing = enter(fault, ENTRY_stream_destroy);
    leat_status status;

    leati_lock(&fault->loose_lock);
    if (fault->hidden && stream == fault->loose) {
        inner->ops->stream_destroy(inner, fault->hidden);
        fault->hidden = NULL;
        fault->loose = NULL;
    }
    leati_unlock(&fault->loose_lock);
    status = inner->ops->stream_destroy(inner, stream);
    settle(fault, TAKE, status);
    return failing ? fail(ENTRY_stream_destroy, failing) : status;
}

static leat_status wrap_stream_synchronize(struct leati_driver *driver, void *stream)
{
    struct fault *fault = fault_of(driver);
    uint64_t failing = enter(fault, ENTRY_stream_synchronize);

    if (failing)
        return fail(ENTRY_stream_synchronize, failing);
    LEATI_TRY(fault->inner->ops->stream_synchronize(fault->inner, stream));
    return drain_hidden(fault, stream);
}

static leat_status wrap_stream_take_failure(struct leati_driver *driver, void *stream)
{
    struct fault *fault = fault_of(driver);
    struct leati_driver *inner = fault->inner;
    uint64_t failing = enter(fault, ENTRY_stream_take_failure);
    leat_status status;

    if (failing)
        return fail(ENTRY_stream_take_failure, failing);
    LEATI_TRY(inner->ops->stream_take_failure(inner, stream));
    leati_lock(&fault->loose_lock);
    status =
        fault->hidden && stream == fault->loose ? inner->ops->stream_take_failure(inner, fault->hidden) : LEAT_OK;
    leati_unlock(&fault->loose_lock);
    return status;
}

/* LEATI_FAULT_ORDER_LOOSE should break the order of work, but not access memory that is not allocated. So this
 * wrapper waits until the memory is usable on the hidden stream too, and wrap_mem_free_async() waits until the
 * hidden stream does not use it any more. */
static leat_status wrap_mem_alloc_async(struct leati_driver *driver, void *stream, size_t bytes, void **ptr)
{
    struct fault *fault = fault_of(driver);
    struct leati_driver *inner = fault->inner;
    uint64_t failing = enter(fault, ENTRY_mem_alloc_async);
    leat_status status;

    if (failing)
        return fail(ENTRY_mem_alloc_async, failing);
    status = inner->ops->mem_alloc_async(inner, stream, bytes, ptr);
    settle(fault, MAKE, status);
    if (status == LEAT_OK && mode_of(fault) == LEATI_FAULT_ORDER_LOOSE)
        (void)inner->ops->stream_synchronize(inner, stream);
    return status;
}

static leat_status wrap_mem_free_async(struct leati_driver *driver, void *stream, void *ptr)
{
    struct fault *fault = fault_of(driver);
    uint64_t failing = enter(fault, ENTRY_mem_free_async);
    leat_status status;

    if (failing)
        return fail(ENTRY_mem_free_async, failing);
    LEATI_TRY(drain_hidden(fault, stream));
    status = fault->inner->ops->mem_free_async(fault->inner, stream, ptr);
    settle(fault, GIVE_BACK, status);
    return status;
}

/* ---- wrappers that change the operation ------------------------------------------------------- */

static leat_status wrap_stream_query(struct leati_driver *driver, void *stream)
{
    struct fault *fault = fault_of(driver);
    struct leati_driver *inner = fault->inner;
    uint64_t failing = enter(fault, ENTRY_stream_query);
    leat_status status;

    if (failing)
        return fail(ENTRY_stream_query, failing);
    if (mode_of(fault) == LEATI_FAULT_QUERY_READY) {
        note_fired(fault, ENTRY_stream_query);
        return LEAT_OK;
    }
    LEATI_TRY(inner->ops->stream_query(inner, stream));
    leati_lock(&fault->loose_lock);
    status = fault->hidden && stream == fault->loose ? inner->ops->stream_query(inner, fault->hidden) : LEAT_OK;
    leati_unlock(&fault->loose_lock);
    return status;
}

static leat_status wrap_event_query(struct leati_driver *driver, void *event)
{
    struct fault *fault = fault_of(driver);
    uint64_t failing = enter(fault, ENTRY_event_query);

    if (failing)
        return fail(ENTRY_event_query, failing);
    if (mode_of(fault) == LEATI_FAULT_QUERY_READY) {
        note_fired(fault, ENTRY_event_query);
        return LEAT_OK;
    }
    return fault->inner->ops->event_query(fault->inner, event);
}

static leat_status wrap_stream_wait(struct leati_driver *driver, void *stream, void *event)
{
    struct fault *fault = fault_of(driver);
    uint64_t failing = enter(fault, ENTRY_stream_wait);

    if (failing)
        return fail(ENTRY_stream_wait, failing);
    if (mode_of(fault) == LEATI_FAULT_WAIT_NOTHING) {
        note_fired(fault, ENTRY_stream_wait);
        return LEAT_OK;
    }
    return fault->inner->ops->stream_wait(fault->inner, stream, event);
}

/* LEATI_FAULT_WAIT_NOTHING removes the waits for flags, but not the writes of flags. */
static leat_status wrap_stream_mem_ops(struct leati_driver *driver, void *stream,
                                       const struct leati_mem_op *values, unsigned count)
{
    struct fault *fault = fault_of(driver);
    uint64_t failing = enter(fault, ENTRY_stream_mem_ops);
    struct leati_mem_op kept[4];
    unsigned left = 0;

    if (failing)
        return fail(ENTRY_stream_mem_ops, failing);
    if (mode_of(fault) != LEATI_FAULT_WAIT_NOTHING)
        return fault->inner->ops->stream_mem_ops(fault->inner, stream, values, count);
    note_fired(fault, ENTRY_stream_mem_ops);
    for (unsigned i = 0; i < count; i++)
        if (!values[i].wait)
            kept[left++] = values[i];
    return left ? fault->inner->ops->stream_mem_ops(fault->inner, stream, kept, left) : LEAT_OK;
}

/* Corrupts the last byte of a copy that was just submitted: reads the byte, changes it, and writes it back. */
static leat_status spoil_copy(struct fault *fault, void *stream, struct leati_location dst, size_t bytes)
{
    struct leati_driver *inner = fault->inner;
    unsigned char byte;
    struct leati_location last = dst, host = {.ptr = &byte, .kind = LEAT_KIND_PAGEABLE};

    last.ptr = (unsigned char *)dst.ptr + bytes - 1;
    if (dst.kind == LEAT_KIND_PAGEABLE) {
        LEATI_TRY(inner->ops->stream_synchronize(inner, stream));
        *(unsigned char *)last.ptr ^= 0xff;
        return LEAT_OK;
    }
    LEATI_TRY(inner->ops->copy(inner, stream, host, last, 1));
    LEATI_TRY(inner->ops->stream_synchronize(inner, stream));
    byte ^= 0xff;
    LEATI_TRY(inner->ops->copy(inner, stream, last, host, 1));
    return inner->ops->stream_synchronize(inner, stream);
}

static leat_status wrap_copy(struct leati_driver *driver, void *stream, struct leati_location dst,
                             struct leati_location src, size_t bytes)
{
    struct fault *fault = fault_of(driver);
    uint64_t number = count_call(fault, ENTRY_copy);
    leat_status status;
    bool locked;

    if (strikes(fault, ENTRY_copy, LEATI_FAULT_DELAY, number))
        pause_a_moment();
    if (strikes(fault, ENTRY_copy, LEATI_FAULT_FAIL, number))
        return fail(ENTRY_copy, number);
    if (mode_of(fault) == LEATI_FAULT_COPY_SHORT) {
        note_fired(fault, ENTRY_copy);
        if (--bytes == 0)
            return LEAT_OK;
    }
    locked = begin_work(fault, &stream);
    status = fault->inner->ops->copy(fault->inner, stream, dst, src, bytes);
    end_work(fault, locked);
    if (status == LEAT_OK && strikes(fault, ENTRY_copy, LEATI_FAULT_CORRUPT, number))
        status = spoil_copy(fault, stream, dst, bytes);
    return status;
}

static leat_status wrap_copy_3d(struct leati_driver *driver, void *stream, struct leati_location dst,
                                struct leati_location src, const leat_copy_region *region)
{
    struct fault *fault = fault_of(driver);
    uint64_t number = count_call(fault, ENTRY_copy_3d);
    leat_copy_region given = *region;
    leat_status status;
    size_t last_row;
    bool locked;

    if (strikes(fault, ENTRY_copy_3d, LEATI_FAULT_DELAY, number))
        pause_a_moment();
    if (strikes(fault, ENTRY_copy_3d, LEATI_FAULT_FAIL, number))
        return fail(ENTRY_copy_3d, number);
    if (mode_of(fault) == LEATI_FAULT_COPY_SHORT) {
        note_fired(fault, ENTRY_copy_3d);
        if (--given.width_bytes == 0)
            return LEAT_OK;
    }
    locked = begin_work(fault, &stream);
    status = fault->inner->ops->copy_3d(fault->inner, stream, dst, src, &given);
    end_work(fault, locked);
    if (status != LEAT_OK || !strikes(fault, ENTRY_copy_3d, LEATI_FAULT_CORRUPT, number))
        return status;
    last_row = (region->height - 1) * region->dst_pitch_bytes;
    if (region->depth > 1)
        last_row += (region->depth - 1) * region->dst_slice_bytes;
    dst.ptr = (char *)dst.ptr + last_row;
    return spoil_copy(fault, stream, dst, region->width_bytes);
}

static leat_status wrap_fill(struct leati_driver *driver, void *stream, void *dst, uint32_t pattern,
                             unsigned pattern_bytes, size_t count)
{
    struct fault *fault = fault_of(driver);
    struct leati_driver *inner = fault->inner;
    uint64_t number = count_call(fault, ENTRY_fill);
    unsigned last_byte = 8 * (pattern_bytes - 1);
    leat_status status;
    bool locked;

    if (strikes(fault, ENTRY_fill, LEATI_FAULT_DELAY, number))
        pause_a_moment();
    if (strikes(fault, ENTRY_fill, LEATI_FAULT_FAIL, number))
        return fail(ENTRY_fill, number);
    if (mode_of(fault) == LEATI_FAULT_FILL_OFF) {
        note_fired(fault, ENTRY_fill);
        pattern++;
    }
    locked = begin_work(fault, &stream);
    status = inner->ops->fill(inner, stream, dst, pattern, pattern_bytes, count);
    end_work(fault, locked);
    if (status == LEAT_OK && strikes(fault, ENTRY_fill, LEATI_FAULT_CORRUPT, number))
        status = inner->ops->fill(inner, stream, (unsigned char *)dst + count * pattern_bytes - 1,
                                  ((pattern >> last_byte) & 0xff) ^ 0xff, 1, 1);
    return status;
}

static leat_status wrap_launch_host(struct leati_driver *driver, void *stream, void (*function)(void *),
                                    void *argument)
{
    struct fault *fault = fault_of(driver);
    uint64_t failing = enter(fault, ENTRY_launch_host);
    leat_status status;
    bool locked;

    if (failing)
        return fail(ENTRY_launch_host, failing);
    locked = begin_work(fault, &stream);
    status = fault->inner->ops->launch_host(fault->inner, stream, function, argument);
    end_work(fault, locked);
    return status;
}

static leat_status wrap_launch(struct leati_driver *driver, void *stream, void *kernel, leat_dim3 grid,
                               leat_dim3 block, size_t shared_bytes, void *const *args, unsigned argument_count)
{
    struct fault *fault = fault_of(driver);
    uint64_t failing = enter(fault, ENTRY_launch);
    leat_status status;
    bool locked;

    if (failing)
        return fail(ENTRY_launch, failing);
    locked = begin_work(fault, &stream);
    status =
        fault->inner->ops->launch(fault->inner, stream, kernel, grid, block, shared_bytes, args, argument_count);
    end_work(fault, locked);
    return status;
}

/* ---- creating and arming a wrapper ------------------------------------------------------------ */

struct leati_driver *leati_fault_wrap(struct leati_driver *inner)
{
    struct fault *fault = calloc(1, sizeof *fault);

    if (!fault)
        return NULL;
    if (leati_lock_init(&fault->loose_lock)) {
        free(fault);
        return NULL;
    }
    fault->base = *inner;
    fault->base.ops = &fault->ops;
    fault->inner = inner;
    fault->entry = ENTRY_ANY;
#define ENTRY_WRAP(name) fault->ops.name = inner->ops->name ? wrap_##name : NULL;
    ENTRY_LIST(ENTRY_WRAP)
#undef ENTRY_WRAP
    return &fault->base;
}

static enum entry entry_by_name(const char *name, size_t length)
{
    for (int i = 0; i < ENTRY_COUNT; i++)
        if (strlen(entry_names[i]) == length && !memcmp(entry_names[i], name, length))
            return (enum entry)i;
    return ENTRY_ANY;
}

static void arm(struct fault *fault, enum leati_fault_mode mode, enum entry entry, uint64_t n)
{
    atomic_store_explicit(&fault->mode, LEATI_FAULT_NONE, memory_order_relaxed);
    atomic_store_explicit(&fault->fired, false, memory_order_relaxed);
    atomic_store_explicit(&fault->calls, 0, memory_order_relaxed);
    atomic_store_explicit(&fault->entry, entry, memory_order_relaxed);
    atomic_store_explicit(&fault->n, n, memory_order_relaxed);
    atomic_store_explicit(&fault->mode, mode, memory_order_release);
}

void leati_fault_arm(struct leati_driver *wrapper, enum leati_fault_mode mode, const char *entry, uint64_t n)
{
    arm(fault_of(wrapper), mode, entry ? entry_by_name(entry, strlen(entry)) : ENTRY_ANY, n);
}

/* Reads "N" or "ENTRY:N", which follows the "=" of fail, delay and corrupt. Returns false if the text is wrong. */
static bool read_place(const char *text, enum entry *entry, uint64_t *n)
{
    const char *colon = strchr(text, ':');
    char *end;

    *entry = ENTRY_ANY;
    if (colon) {
        *entry = entry_by_name(text, (size_t)(colon - text));
        if (*entry == ENTRY_ANY)
            return false;
        text = colon + 1;
    }
    if (*text < '0' || *text > '9')
        return false;
    *n = strtoull(text, &end, 10);
    return !*end && *n > 0;
}

leat_status leati_fault_arm_text(struct leati_driver *wrapper, const char *text)
{
    static const struct {
        const char *word;
        enum leati_fault_mode mode;
    } words[] = {
        {"none", LEATI_FAULT_NONE},
        {"fail=", LEATI_FAULT_FAIL},
        {"delay=", LEATI_FAULT_DELAY},
        {"corrupt=", LEATI_FAULT_CORRUPT},
        {"copy-short", LEATI_FAULT_COPY_SHORT},
        {"fill-off", LEATI_FAULT_FILL_OFF},
        {"query-ready", LEATI_FAULT_QUERY_READY},
        {"wait-nothing", LEATI_FAULT_WAIT_NOTHING},
        {"order-loose", LEATI_FAULT_ORDER_LOOSE},
    };

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t length = strlen(words[i].word);
        enum entry entry = ENTRY_ANY;
        uint64_t n = 0;

        if (strncmp(text, words[i].word, length))
            continue;
        if (words[i].word[length - 1] == '=' ? !read_place(text + length, &entry, &n) : text[length] != '\0')
            continue;
        arm(fault_of(wrapper), words[i].mode, entry, n);
        return LEAT_OK;
    }
    return leati_fail(
        LEAT_ERROR_INVALID,
        "\"%s\" is no fault; use none, fail=N, fail=ENTRY:N, delay=N, corrupt=N, copy-short, fill-off, query-ready, wait-nothing or order-loose, where ENTRY is an entry of the driver table such as copy, and N is 1 or more",
        text);
}

uint64_t leati_fault_calls(const struct leati_driver *wrapper)
{
    return atomic_load_explicit(&const_fault_of(wrapper)->calls, memory_order_relaxed);
}

bool leati_fault_fired(const struct leati_driver *wrapper)
{
    return atomic_load_explicit(&const_fault_of(wrapper)->fired, memory_order_acquire);
}

const char *leati_fault_entry(const struct leati_driver *wrapper)
{
    if (!leati_fault_fired(wrapper))
        return NULL;
    return entry_names[atomic_load_explicit(&const_fault_of(wrapper)->fired_entry, memory_order_relaxed)];
}

uint64_t leati_fault_live(const struct leati_driver *wrapper)
{
    return atomic_load_explicit(&const_fault_of(wrapper)->live, memory_order_relaxed);
}

bool leati_fault_visited(const struct leati_driver *wrapper, unsigned index, struct leati_fault_visit *visit)
{
    const struct fault *fault = const_fault_of(wrapper);

    if (index >= ENTRY_COUNT)
        return false;
    visit->entry = entry_names[index];
#define ENTRY_PRESENT(name)                                                                                       \
    if (index == ENTRY_##name)                                                                                    \
        visit->present = fault->ops.name != NULL;
    ENTRY_LIST(ENTRY_PRESENT)
#undef ENTRY_PRESENT
    visit->calls = atomic_load_explicit(&fault->visits[index], memory_order_relaxed);
    return true;
}
