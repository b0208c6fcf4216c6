/*
 * gpu_driver.h - declares what the GPU drivers share: objects, the table of the vendor's functions, the entries.
 *
 * CUDA and HIP have nearly the same calls under two sets of names. The common code is written once, in
 * src/driver/gpu/, and compiled once for each vendor. For example gpu_stream.h has the streams and events of both:
 * cuda_stream.c includes it after cuda_driver.h, hip_stream.c after hip_driver.h. Code that differs is in the
 * vendor's file, next to the #include.
 *
 * Before it includes this file, the vendor's header defines:
 * - GPU(name): adds the vendor's prefix to a name. GPU(stream_create) is leati_cuda_stream_create or
 *   leati_hip_stream_create; debuggers show these names;
 * - GPU_SYMBOL_LIST(X) and GPU_TEXT_LIST(X): the functions to load from the vendor's library, as cuda_symbols.h
 *   and hip_symbols.h list them; the functions of the second list return strings, and that list may be empty;
 * - gpu_result and the other gpu_ types, the GPU_ constants, and the words for messages, all as in cuda_driver.h.
 *
 * Calls. GPU_TRY(device, stream_query, handle) calls the function in the field stream_query of struct gpu_api; if
 * it fails, the message has the vendor's name of the function. GPU(enter) and GPU(leave) select the device for the
 * call, and restore the thread's previous device.
 */
#ifndef LEATI_GPU_DRIVER_H
#define LEATI_GPU_DRIVER_H

#include "base/error.h"
#include "base/lock.h"
#include "base/ranges.h"
#include "driver/driver.h"

#include <stdatomic.h>

/* The functions of the vendor's library. Optional ones may be NULL. */
struct gpu_api {
#define GPU_FIELD(field, name, need, parameters) gpu_result(*field) parameters;
    GPU_SYMBOL_LIST(GPU_FIELD)
#undef GPU_FIELD
#define GPU_FIELD(field, name, need, parameters) const char *(*field)parameters;
    GPU_TEXT_LIST(GPU_FIELD)
#undef GPU_FIELD
    int number; /* version of the library, as the vendor numbers it */
};

/* The exported name of each function, for messages. */
struct gpu_names {
#define GPU_FIELD(field, name, need, parameters) const char *field;
    GPU_SYMBOL_LIST(GPU_FIELD)
    GPU_TEXT_LIST(GPU_FIELD)
#undef GPU_FIELD
};
extern const struct gpu_names GPU(names);

enum { GPU_PEERS_MAX = 32 };

struct gpu_device {
    const struct gpu_api *api;
    gpu_context context;
    gpu_number number;
    int ordinal;
    bool primary;    /* leat has retained this context, the primary one */
    bool pools;      /* supports mem_alloc_async */
    bool managed;    /* supports managed memory */
    bool concurrent; /* device and host can access managed memory at the same time */
    bool virtual_memory, exportable;
    bool mem_ops;            /* supports stream_mem_ops */
    int max_shared_bytes;    /* largest shared memory of a block, static and dynamic together */
    char architecture[64];   /* HIP: "gfx90a", without features; CUDA: "" */
    struct gpu_device *next; /* next open device; protected by open_lock of struct gpu_driver */

    /* Only devices that were given access to a mapping can use the mapping. With the list of mappings leat can
     * give a new peer access to existing mappings (gpu_virtual.h). */
    struct leati_lock maps_lock; /* protects the fields below; held while mappings change */
    struct leati_ranges maps;    /* the mappings to which devices were given access */
    gpu_number peers[GPU_PEERS_MAX];
    unsigned peer_count;
};

struct gpu_driver {
    struct leati_driver base;
    struct gpu_api api; /* filled by GPU(load); constant afterwards */
    void *library;

    /* Protects the list of open devices, in which pointer_query finds the device of an address. */
    struct leati_lock open_lock;
    struct gpu_device *open;

    /* CUDA: bit n: device n has refused leat's machine code, so its kernels are compiled from PTX. */
    _Atomic uint64_t refused_code;
};

/* The vendor does not report the device of a default stream, so streams and events store their device. */
struct gpu_stream {
    gpu_stream_handle handle;
    struct gpu_device *device;
    bool owned;
};

struct gpu_event {
    gpu_event_handle handle;
    struct gpu_device *device;
    bool owned;
};

static inline struct gpu_driver *gpu_of(struct leati_driver *driver)
{
    return (struct gpu_driver *)(void *)driver;
}

/* CUDA's addresses are numbers, HIP's are pointers. */
static inline gpu_address gpu_address_of(const void *ptr)
{
    return (gpu_address)(uintptr_t)ptr;
}

static inline void *gpu_pointer_of(gpu_address address)
{
    return (void *)(uintptr_t)address;
}

/* ---- errors (gpu_error.h) ---- */

/* Maps one result of the vendor's calls to a status. Results that are in no table become LEAT_ERROR_DRIVER. */
struct gpu_meaning {
    gpu_result code;
    leat_status status;
    const char *advice; /* text "; ..." that follows the vendor's text and says what to do; NULL: none */
};

/* Converts a vendor's result to a status. */
leat_status GPU(status)(gpu_result code);

/* Sets the message "<call>: <vendor's name> (<vendor's text>)", with the advice for this code if there is one.
 * Returns GPU(status)(code). NOT_READY gets no message. */
leat_status GPU(fail)(const struct gpu_api *api, const char *call, gpu_result code);

/* Does the same as GPU(fail), but returns the given status, for callers that know more than the code tells. */
leat_status GPU(fail_as)(const struct gpu_api *api, leat_status status, const char *call, gpu_result code);

/* ---- the thread's device (the vendor's file) ---- */

/* GPU(enter) makes the device the thread's current device, and stores the previous one in *before. GPU(leave)
 * restores it. GPU(enter) fails only if the driver or the context no longer exists. All objects of the context are
 * then gone too, so the caller need not release them. */
leat_status GPU(enter)(const struct gpu_device *device, gpu_before *before);
void GPU(leave)(const struct gpu_device *device, gpu_before before);

/* Makes device the thread's current device, calls one vendor function, and assigns its result to code. If
 * GPU(enter) fails, returns from the enclosing function. */
#define GPU_CALL(device, code, field, ...)                                                                        \
    do {                                                                                                          \
        gpu_before gpu_before_ = {0};                                                                             \
                                                                                                                  \
        LEATI_TRY(GPU(enter)(device, &gpu_before_));                                                              \
        (code) = (device)->api->field(__VA_ARGS__);                                                               \
        GPU(leave)(device, gpu_before_);                                                                          \
    } while (0)

/* Like GPU_CALL, but if the vendor's function fails, returns from the enclosing function with a message. */
#define GPU_TRY(device, field, ...)                                                                               \
    do {                                                                                                          \
        gpu_result gpu_code_;                                                                                     \
                                                                                                                  \
        GPU_CALL(device, gpu_code_, field, __VA_ARGS__);                                                          \
        if (gpu_code_ != GPU_SUCCESS)                                                                             \
            return GPU(fail)((device)->api, GPU(names).field, gpu_code_);                                         \
    } while (0)

/* ---- the entries, in the order of the table; "vendor": defined in the vendor's file ---- */

/* gpu_load.h */
leat_status GPU(load)(struct leati_driver *driver);
void *GPU(symbol)(struct leati_driver *driver, const char *name);

/* gpu_info.h */
leat_status GPU(device_info)(struct leati_driver *driver, int ordinal, leat_device_info *info);

/* gpu_device.h */
leat_status GPU(device_open)(struct leati_driver *driver, int ordinal, void *native_context, void **device);
leat_status GPU(device_close)(struct leati_driver *driver, void *device);
leat_status GPU(device_synchronize)(struct leati_driver *driver, void *device);
void *GPU(device_native)(struct leati_driver *driver, void *device);
leat_status GPU(device_memory)(struct leati_driver *driver, void *device, uint64_t *free_bytes,
                               uint64_t *total_bytes);
leat_status GPU(peer_enable)(struct leati_driver *driver, void *device, void *peer); /* vendor */

/* gpu_memory.h */
leat_status GPU(mem_alloc)(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
leat_status GPU(mem_free)(struct leati_driver *driver, void *device, void *ptr);
leat_status GPU(mem_alloc_async)(struct leati_driver *driver, void *stream, size_t bytes, void **ptr);
leat_status GPU(mem_free_async)(struct leati_driver *driver, void *stream, void *ptr);
leat_status GPU(host_alloc)(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
leat_status GPU(host_free)(struct leati_driver *driver, void *device, void *ptr);
leat_status GPU(host_register)(struct leati_driver *driver, void *device, void *ptr, size_t bytes);
leat_status GPU(host_unregister)(struct leati_driver *driver, void *device, void *ptr);
leat_status GPU(host_device_pointer)(struct leati_driver *driver, void *device, void *ptr, void **device_pointer);
leat_status GPU(managed_alloc)(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
leat_status GPU(pointer_query)(struct leati_driver *driver, const void *ptr,
                               struct leati_pointer_info *place); /* vendor */

/* gpu_managed.h */
leat_status GPU(managed_prefetch)(struct leati_driver *driver, void *stream, void *ptr, size_t bytes,
                                  void *to); /* vendor */
leat_status GPU(managed_advise)(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                                leat_advice advice, void *where); /* vendor */
leat_status GPU(managed_query)(struct leati_driver *driver, void *device, const void *ptr, size_t bytes,
                               leat_managed_info *info);
leat_status GPU(managed_attach)(struct leati_driver *driver, void *stream, void *ptr, size_t bytes,
                                leat_attach attach);

/* gpu_virtual.h */
leat_status GPU(vm_granularity)(struct leati_driver *driver, void *device, size_t *bytes);
leat_status GPU(vm_reserve)(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
leat_status GPU(vm_unreserve)(struct leati_driver *driver, void *device, void *ptr, size_t bytes);
leat_status GPU(vm_create)(struct leati_driver *driver, void *device, size_t bytes, bool exportable,
                           uint64_t *handle);
leat_status GPU(vm_release)(struct leati_driver *driver, void *device, uint64_t handle);
leat_status GPU(vm_map)(struct leati_driver *driver, void *device, void *ptr, size_t bytes, uint64_t handle);
leat_status GPU(vm_set_access)(struct leati_driver *driver, void *device, void *ptr, size_t bytes);
leat_status GPU(vm_unmap)(struct leati_driver *driver, void *device, void *ptr, size_t bytes);
leat_status GPU(vm_export)(struct leati_driver *driver, void *device, uint64_t handle, int *fd);
leat_status GPU(vm_import)(struct leati_driver *driver, void *device, int fd, size_t bytes, uint64_t *handle);
/* Not an entry. Gives the peer device access to all existing and future mappings. */
leat_status GPU(vm_add_peer)(struct gpu_device *self, const struct gpu_device *peer);

/* gpu_copy.h */
leat_status GPU(copy)(struct leati_driver *driver, void *stream, struct leati_location dst,
                      struct leati_location src, size_t bytes); /* vendor */
leat_status GPU(copy_3d)(struct leati_driver *driver, void *stream, struct leati_location dst,
                         struct leati_location src, const leat_copy_region *region);
leat_status GPU(fill)(struct leati_driver *driver, void *stream, void *dst, uint32_t pattern,
                      unsigned pattern_bytes, size_t count);

/* gpu_stream.h */
leat_status GPU(stream_create)(struct leati_driver *driver, void *device, void **stream);
leat_status GPU(stream_destroy)(struct leati_driver *driver, void *stream);
leat_status GPU(stream_adopt)(struct leati_driver *driver, void *device, void *native, void **stream);
void *GPU(stream_native)(struct leati_driver *driver, void *stream);
leat_status GPU(stream_query)(struct leati_driver *driver, void *stream);
leat_status GPU(stream_synchronize)(struct leati_driver *driver, void *stream);
leat_status GPU(stream_wait)(struct leati_driver *driver, void *stream, void *event);
leat_status GPU(stream_mem_ops)(struct leati_driver *driver, void *stream, const struct leati_mem_op *ops,
                                unsigned count); /* vendor */
leat_status GPU(launch_host)(struct leati_driver *driver, void *stream, void (*function)(void *),
                             void *argument); /* vendor */
leat_status GPU(event_create)(struct leati_driver *driver, void *device, void **event);
leat_status GPU(event_destroy)(struct leati_driver *driver, void *event);
leat_status GPU(event_adopt)(struct leati_driver *driver, void *device, void *native, void **event);
void *GPU(event_native)(struct leati_driver *driver, void *event);
leat_status GPU(capture_mode)(struct leati_driver *driver, unsigned *mode);
leat_status GPU(event_record)(struct leati_driver *driver, void *event, void *stream);
leat_status GPU(event_query)(struct leati_driver *driver, void *event);
leat_status GPU(event_synchronize)(struct leati_driver *driver, void *event);
leat_status GPU(event_elapsed)(struct leati_driver *driver, void *start, void *end, double *milliseconds);

/* the vendor's file; launch is in gpu_module.h */
leat_status GPU(module_load)(struct leati_driver *driver, void *device, const void *image, size_t bytes,
                             void **module);
leat_status GPU(module_builtin)(struct leati_driver *driver, void *device, enum leati_builtin which,
                                void **module);
leat_status GPU(module_unload)(struct leati_driver *driver, void *device, void *module);
leat_status GPU(kernel_get)(struct leati_driver *driver, void *device, void *module, const char *name,
                            void **kernel, struct leati_kernel_shape *shape);
leat_status GPU(launch)(struct leati_driver *driver, void *stream, void *kernel, leat_dim3 grid, leat_dim3 block,
                        size_t shared_bytes, void *const *args, unsigned argument_count);

#endif
