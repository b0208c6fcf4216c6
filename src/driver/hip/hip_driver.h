/*
 * hip_driver.h - what the files of the HIP driver share: its objects, its table of functions, and how a call gets
 * to the right device.
 *
 * Not run on AMD hardware so far: nothing here has met a GPU, only a made library (tests/fake/fake_hip.c) and
 * leat's own libleat-hip.
 *
 * Devices. HIP has no contexts that matter: each thread has a current device, and calls work on it. leat never
 * leaves a thread with another device than it came with: LEATI_HIP_TRY looks which one is current, and only when
 * it is not the wanted one sets it for the length of one call. A thread that works on one device alone pays a
 * single look-up.
 *
 * Errors. A call that fails also sets what hipGetLastError gives to this thread, as any caller's does.
 */
#ifndef LEATI_HIP_DRIVER_H
#define LEATI_HIP_DRIVER_H

#include "base/error.h"
#include "base/ranges.h"
#include "driver/driver.h"
#include "driver/hip/hip_symbols.h"
#include "driver/hip/hip_types.h"

#include <pthread.h>

/* The functions of libamdhip64.so. Optional ones may be NULL. */
struct hip_api {
#define LEATI_HIP_FIELD(field, name, need, parameters) hi_result(*field) parameters;
    LEATI_HIP_SYMBOL_LIST(LEATI_HIP_FIELD)
#undef LEATI_HIP_FIELD
#define LEATI_HIP_FIELD(field, name, need, parameters) const char *(*field)parameters;
    LEATI_HIP_TEXT_LIST(LEATI_HIP_FIELD)
#undef LEATI_HIP_FIELD
    int version; /* what hipRuntimeGetVersion says; compare with LEATI_HIP_VERSION */
};

/* The exported name of each, for sentences. */
struct hip_names {
#define LEATI_HIP_FIELD(field, name, need, parameters) const char *field;
    LEATI_HIP_SYMBOL_LIST(LEATI_HIP_FIELD)
    LEATI_HIP_TEXT_LIST(LEATI_HIP_FIELD)
#undef LEATI_HIP_FIELD
};
extern const struct hip_names leati_hip_names;

enum { LEATI_HIP_PEERS_MAX = 32 };

struct hip_device {
    const struct hip_api *api;
    hi_context context; /* the device's only one, which we retained; calls do not need it */
    hi_device number;   /* the ordinal */
    bool pools, managed, concurrent, virtual_memory, values;
    int max_shared_bytes;    /* of one block, static and dynamic together */
    char architecture[64];   /* "gfx90a", features left off */
    struct hip_device *next; /* under open_lock of struct hip_driver */

    /* Virtual memory is reachable only for the devices that each mapping names (hip_virtual.c). */
    pthread_mutex_t maps_lock; /* guards the rest, and is held while mappings change */
    struct leati_ranges maps;  /* what is accessible */
    hi_device peers[LEATI_HIP_PEERS_MAX];
    unsigned peer_count;
};

struct hip_driver {
    struct leati_driver base;
    struct hip_api api; /* filled by load, constant afterwards */
    void *library;

    /* Guards the list of open devices, which pointer_query walks to name the device of an address. */
    pthread_mutex_t open_lock;
    struct hip_device *open;
};

/* The vendor's stream does not tell its device when it is a default stream, so streams and events carry theirs. */
struct hip_stream {
    hi_stream handle;
    struct hip_device *device;
    bool owned;
};

struct hip_event {
    hi_event handle;
    struct hip_device *device;
    bool owned;
};

static inline struct hip_driver *leati_hip_of(struct leati_driver *driver)
{
    return (struct hip_driver *)(void *)driver;
}

/* ---- errors (hip_error.c) ---- */

/* What a result of the vendor's means in leat. */
leat_status leati_hip_status(hi_result code);

/* Sets the sentence "<call>: <vendor's name> (<vendor's text>)", with what to do where that is known, and returns
 * leati_hip_status(code). Says nothing for NOT_READY. */
leat_status leati_hip_fail(const struct hip_api *api, const char *call, hi_result code);

/* The same where the call itself says more than the code does. */
leat_status leati_hip_fail_as(const struct hip_api *api, leat_status status, const char *call, hi_result code);

/* ---- the thread's device (hip_device.c) ---- */

/* Makes the device current; before is the one to go back to. Fails only when the runtime is gone, and then all
 * that was in it is gone too: nobody need be told to end it. */
leat_status leati_hip_enter(const struct hip_device *device, int *before);
void leati_hip_leave(const struct hip_device *device, int before);

/* Calls one function of the vendor's on device and puts its hi_result into code. Returns from the function around
 * it when the device cannot be made current. */
#define LEATI_HIP_CALL(device, code, field, ...)                                                                  \
    do {                                                                                                          \
        int leati_before_;                                                                                        \
                                                                                                                  \
        LEATI_TRY(leati_hip_enter(device, &leati_before_));                                                       \
        (code) = (device)->api->field(__VA_ARGS__);                                                               \
        leati_hip_leave(device, leati_before_);                                                                   \
    } while (0)

/* The same, and forwards a failure to the caller. */
#define LEATI_HIP_TRY(device, field, ...)                                                                         \
    do {                                                                                                          \
        hi_result leati_code_;                                                                                    \
                                                                                                                  \
        LEATI_HIP_CALL(device, leati_code_, field, __VA_ARGS__);                                                  \
        if (leati_code_ != LEATI_hipSuccess)                                                                      \
            return leati_hip_fail((device)->api, leati_hip_names.field, leati_code_);                             \
    } while (0)

/* A device's architecture, such as "gfx90a", without features such as ":sramecc+"; "" where the library does not
 * tell. */
void leati_hip_architecture(const struct hip_api *api, int ordinal, char *text, size_t text_bytes);

/* ---- the entries of the table, in its order ---- */

/* hip_load.c */
leat_status leati_hip_load(struct leati_driver *driver);
void *leati_hip_symbol(struct leati_driver *driver, const char *name);

/* hip_info.c */
leat_status leati_hip_device_info(struct leati_driver *driver, int ordinal, leat_device_info *info);

/* hip_device.c */
leat_status leati_hip_device_open(struct leati_driver *driver, int ordinal, void *native_context, void **device);
leat_status leati_hip_device_close(struct leati_driver *driver, void *device);
leat_status leati_hip_device_synchronize(struct leati_driver *driver, void *device);
void *leati_hip_device_native(struct leati_driver *driver, void *device);
leat_status leati_hip_device_memory(struct leati_driver *driver, void *device, uint64_t *free_bytes,
                                    uint64_t *total_bytes);
leat_status leati_hip_peer_enable(struct leati_driver *driver, void *device, void *peer);

/* hip_memory.c */
leat_status leati_hip_mem_alloc(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
leat_status leati_hip_mem_free(struct leati_driver *driver, void *device, void *ptr);
leat_status leati_hip_mem_alloc_async(struct leati_driver *driver, void *stream, size_t bytes, void **ptr);
leat_status leati_hip_mem_free_async(struct leati_driver *driver, void *stream, void *ptr);
leat_status leati_hip_host_alloc(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
leat_status leati_hip_host_free(struct leati_driver *driver, void *device, void *ptr);
leat_status leati_hip_host_register(struct leati_driver *driver, void *device, void *ptr, size_t bytes);
leat_status leati_hip_host_unregister(struct leati_driver *driver, void *device, void *ptr);
leat_status leati_hip_host_device_pointer(struct leati_driver *driver, void *device, void *ptr,
                                          void **device_pointer);
leat_status leati_hip_managed_alloc(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
leat_status leati_hip_pointer_query(struct leati_driver *driver, const void *ptr, struct leati_place *place);

/* hip_managed.c */
leat_status leati_hip_managed_prefetch(struct leati_driver *driver, void *stream, void *ptr, size_t bytes, void *to);
leat_status leati_hip_managed_advise(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                                     leat_advice advice, void *where);
leat_status leati_hip_managed_query(struct leati_driver *driver, void *device, const void *ptr, size_t bytes,
                                    leat_managed_info *info);
leat_status leati_hip_managed_attach(struct leati_driver *driver, void *stream, void *ptr, size_t bytes,
                                     leat_attach attach);

/* hip_virtual.c */
leat_status leati_hip_vm_granularity(struct leati_driver *driver, void *device, size_t *bytes);
leat_status leati_hip_vm_reserve(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
leat_status leati_hip_vm_unreserve(struct leati_driver *driver, void *device, void *ptr, size_t bytes);
leat_status leati_hip_vm_create(struct leati_driver *driver, void *device, size_t bytes, bool exportable,
                                uint64_t *handle);
leat_status leati_hip_vm_release(struct leati_driver *driver, void *device, uint64_t handle);
leat_status leati_hip_vm_map(struct leati_driver *driver, void *device, void *ptr, size_t bytes, uint64_t handle);
leat_status leati_hip_vm_set_access(struct leati_driver *driver, void *device, void *ptr, size_t bytes);
/* Lets peer reach the device's virtual memory. */
leat_status leati_hip_vm_add_peer(struct hip_device *self, const struct hip_device *peer);
leat_status leati_hip_vm_unmap(struct leati_driver *driver, void *device, void *ptr, size_t bytes);
leat_status leati_hip_vm_export(struct leati_driver *driver, void *device, uint64_t handle, int *fd);
leat_status leati_hip_vm_import(struct leati_driver *driver, void *device, int fd, size_t bytes, uint64_t *handle);

/* hip_copy.c */
leat_status leati_hip_copy(struct leati_driver *driver, void *stream, struct leati_end dst, struct leati_end src,
                           size_t bytes);
leat_status leati_hip_copy_rectangle(struct leati_driver *driver, void *stream, struct leati_end dst,
                                     struct leati_end src, const leat_copy_box *box);
leat_status leati_hip_fill(struct leati_driver *driver, void *stream, void *dst, uint32_t pattern,
                           unsigned pattern_bytes, size_t count);

/* hip_stream.c */
leat_status leati_hip_stream_create(struct leati_driver *driver, void *device, void **stream);
leat_status leati_hip_stream_destroy(struct leati_driver *driver, void *stream);
leat_status leati_hip_stream_adopt(struct leati_driver *driver, void *device, void *native, void **stream);
void *leati_hip_stream_native(struct leati_driver *driver, void *stream);
leat_status leati_hip_stream_query(struct leati_driver *driver, void *stream);
leat_status leati_hip_stream_synchronize(struct leati_driver *driver, void *stream);
leat_status leati_hip_stream_wait(struct leati_driver *driver, void *stream, void *event);
leat_status leati_hip_stream_values(struct leati_driver *driver, void *stream, const struct leati_value *values,
                                    unsigned count);
leat_status leati_hip_launch_host(struct leati_driver *driver, void *stream, void (*function)(void *),
                                  void *argument);
leat_status leati_hip_event_create(struct leati_driver *driver, void *device, void **event);
leat_status leati_hip_event_destroy(struct leati_driver *driver, void *event);
leat_status leati_hip_event_adopt(struct leati_driver *driver, void *device, void *native, void **event);
void *leati_hip_event_native(struct leati_driver *driver, void *event);
leat_status leati_hip_event_record(struct leati_driver *driver, void *event, void *stream);
leat_status leati_hip_event_query(struct leati_driver *driver, void *event);
leat_status leati_hip_event_synchronize(struct leati_driver *driver, void *event);
leat_status leati_hip_event_elapsed(struct leati_driver *driver, void *start, void *end, double *milliseconds);

/* hip_module.c */
leat_status leati_hip_module_load(struct leati_driver *driver, void *device, const void *image, size_t bytes,
                                  void **module);
leat_status leati_hip_module_builtin(struct leati_driver *driver, void *device, enum leati_builtin which,
                                     void **module);
leat_status leati_hip_module_unload(struct leati_driver *driver, void *device, void *module);
leat_status leati_hip_kernel_get(struct leati_driver *driver, void *device, void *module, const char *name,
                                 void **kernel, struct leati_kernel_shape *shape);
leat_status leati_hip_launch(struct leati_driver *driver, void *stream, void *kernel, leat_dim3 grid,
                             leat_dim3 block, size_t shared_bytes, void *const *args, unsigned argument_count);

#endif
