/*
 * cuda_driver.h - what the files of the CUDA driver share: its objects, its table of functions, and how a call
 * gets into the right context.
 *
 * Contexts. A driver-API call works in the context that is current for the calling thread. leat never leaves a
 * thread with another context than it came with: LEATI_CUDA_TRY looks which one is current, and only when it is
 * not the device's pushes the device's for the length of one call. A thread with the device's context pays a
 * single look-up, any other the push and the pop: it looks at every sixteenth call only.
 */
#ifndef LEATI_CUDA_DRIVER_H
#define LEATI_CUDA_DRIVER_H

#include "base/error.h"
#include "base/ranges.h"
#include "driver/cuda/cuda_symbols.h"
#include "driver/cuda/cuda_types.h"
#include "driver/driver.h"

#include <pthread.h>

/* The functions of libcuda.so.1. Optional ones may be NULL. */
struct cuda_api {
#define LEATI_CUDA_FIELD(field, name, need, parameters) cu_result(*field) parameters;
    LEATI_CUDA_SYMBOL_LIST(LEATI_CUDA_FIELD)
    LEATI_CUDA_FIRST_SYMBOL_LIST(LEATI_CUDA_FIELD)
#undef LEATI_CUDA_FIELD
};

/* The exported name of each, for sentences. */
struct cuda_names {
#define LEATI_CUDA_FIELD(field, name, need, parameters) const char *field;
    LEATI_CUDA_SYMBOL_LIST(LEATI_CUDA_FIELD)
    LEATI_CUDA_FIRST_SYMBOL_LIST(LEATI_CUDA_FIELD)
#undef LEATI_CUDA_FIELD
};
extern const struct cuda_names leati_cuda_names;

enum { LEATI_CUDA_PEERS_MAX = 32 };

struct cuda_device {
    const struct cuda_api *cu;
    cu_context context;
    cu_device number;
    int ordinal;
    bool primary; /* the context is the primary one, which we retained */
    bool pools, managed, concurrent, virtual_memory, exportable;
    int max_shared_bytes;     /* of one block, static and dynamic together */
    struct cuda_device *next; /* under open_lock of struct cuda_driver */

    /* Virtual memory is reachable only for the devices that each mapping names (cuda_virtual.c). */
    pthread_mutex_t maps_lock; /* guards the rest, and is held while mappings change */
    struct leati_ranges maps;  /* what is accessible */
    cu_device peers[LEATI_CUDA_PEERS_MAX];
    unsigned peer_count;
};

struct cuda_driver {
    struct leati_driver base;
    struct cuda_api cu; /* filled by load, constant afterwards */
    void *library;

    /* Guards the list of open devices, which pointer_query walks to name the device of an address. */
    pthread_mutex_t open_lock;
    struct cuda_device *open;
};

/* The vendor's stream does not tell its device when it is a default stream, so streams and events carry theirs. */
struct cuda_stream {
    cu_stream handle;
    struct cuda_device *device;
    bool owned;
};

struct cuda_event {
    cu_event handle;
    struct cuda_device *device;
    bool owned;
};

static inline struct cuda_driver *leati_cuda_of(struct leati_driver *driver)
{
    return (struct cuda_driver *)(void *)driver;
}

/* Addresses are numbers to the vendor. */
static inline cu_deviceptr leati_cuda_address(const void *ptr)
{
    return (cu_deviceptr)(uintptr_t)ptr;
}

static inline void *leati_cuda_pointer(cu_deviceptr address)
{
    return (void *)(uintptr_t)address;
}

/* ---- errors (cuda_error.c) ---- */

/* What a result of the vendor's means in leat. */
leat_status leati_cuda_status(cu_result code);

/* Sets the sentence "<call>: <vendor's name> (<vendor's text>)", with what to do where that is known, and returns
 * leati_cuda_status(code). Says nothing for NOT_READY. */
leat_status leati_cuda_fail(const struct cuda_api *cu, const char *call, cu_result code);

/* The same where the call itself says more than the code does. */
leat_status leati_cuda_fail_as(const struct cuda_api *cu, leat_status status, const char *call, cu_result code);

/* ---- contexts (cuda_device.c) ---- */

/* Makes the device's context current; pushed says whether leati_cuda_leave() has to undo it. Fails only when the
 * driver or the context is gone, and then all that was in it is gone too: nobody need be told to end it. */
leat_status leati_cuda_enter(const struct cuda_device *device, bool *pushed);
void leati_cuda_leave(const struct cuda_device *device, bool pushed);

/* Calls one function of the vendor's in device's context and puts its cu_result into code. Returns from the
 * function around it when the context cannot be entered. */
#define LEATI_CUDA_CALL(device, code, field, ...)                                                                 \
    do {                                                                                                          \
        bool leati_pushed_ = false;                                                                               \
                                                                                                                  \
        LEATI_TRY(leati_cuda_enter(device, &leati_pushed_));                                                      \
        (code) = (device)->cu->field(__VA_ARGS__);                                                                \
        leati_cuda_leave(device, leati_pushed_);                                                                  \
    } while (0)

/* The same, and forwards a failure to the caller. */
#define LEATI_CUDA_TRY(device, field, ...)                                                                        \
    do {                                                                                                          \
        cu_result leati_code_;                                                                                    \
                                                                                                                  \
        LEATI_CUDA_CALL(device, leati_code_, field, __VA_ARGS__);                                                 \
        if (leati_code_ != LEATI_CUDA_SUCCESS)                                                                    \
            return leati_cuda_fail((device)->cu, leati_cuda_names.field, leati_code_);                            \
    } while (0)

/* ---- the entries of the table, in its order ---- */

/* cuda_load.c */
leat_status leati_cuda_load(struct leati_driver *driver);
void *leati_cuda_symbol(struct leati_driver *driver, const char *name);

/* cuda_info.c */
leat_status leati_cuda_device_info(struct leati_driver *driver, int ordinal, leat_device_info *info);

/* cuda_device.c */
leat_status leati_cuda_device_open(struct leati_driver *driver, int ordinal, void *native_context, void **device);
leat_status leati_cuda_device_close(struct leati_driver *driver, void *device);
leat_status leati_cuda_device_synchronize(struct leati_driver *driver, void *device);
void *leati_cuda_device_native(struct leati_driver *driver, void *device);
leat_status leati_cuda_device_memory(struct leati_driver *driver, void *device, uint64_t *free_bytes,
                                     uint64_t *total_bytes);
leat_status leati_cuda_peer_enable(struct leati_driver *driver, void *device, void *peer);

/* cuda_memory.c */
leat_status leati_cuda_mem_alloc(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
leat_status leati_cuda_mem_free(struct leati_driver *driver, void *device, void *ptr);
leat_status leati_cuda_mem_alloc_async(struct leati_driver *driver, void *stream, size_t bytes, void **ptr);
leat_status leati_cuda_mem_free_async(struct leati_driver *driver, void *stream, void *ptr);
leat_status leati_cuda_host_alloc(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
leat_status leati_cuda_host_free(struct leati_driver *driver, void *device, void *ptr);
leat_status leati_cuda_host_register(struct leati_driver *driver, void *device, void *ptr, size_t bytes);
leat_status leati_cuda_host_unregister(struct leati_driver *driver, void *device, void *ptr);
leat_status leati_cuda_host_device_pointer(struct leati_driver *driver, void *device, void *ptr,
                                           void **device_pointer);
leat_status leati_cuda_managed_alloc(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
leat_status leati_cuda_pointer_query(struct leati_driver *driver, const void *ptr, struct leati_place *place);

/* cuda_managed.c */
leat_status leati_cuda_managed_prefetch(struct leati_driver *driver, void *stream, void *ptr, size_t bytes,
                                        void *to);
leat_status leati_cuda_managed_advise(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                                      leat_advice advice, void *where);
leat_status leati_cuda_managed_query(struct leati_driver *driver, void *device, const void *ptr, size_t bytes,
                                     leat_managed_info *info);
leat_status leati_cuda_managed_attach(struct leati_driver *driver, void *stream, void *ptr, size_t bytes,
                                      leat_attach attach);

/* cuda_virtual.c */
leat_status leati_cuda_vm_granularity(struct leati_driver *driver, void *device, size_t *bytes);
leat_status leati_cuda_vm_reserve(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
leat_status leati_cuda_vm_unreserve(struct leati_driver *driver, void *device, void *ptr, size_t bytes);
leat_status leati_cuda_vm_create(struct leati_driver *driver, void *device, size_t bytes, bool exportable,
                                 uint64_t *handle);
leat_status leati_cuda_vm_release(struct leati_driver *driver, void *device, uint64_t handle);
leat_status leati_cuda_vm_map(struct leati_driver *driver, void *device, void *ptr, size_t bytes, uint64_t handle);
leat_status leati_cuda_vm_set_access(struct leati_driver *driver, void *device, void *ptr, size_t bytes);
/* Lets peer reach the device's virtual memory. */
leat_status leati_cuda_vm_set_rights(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                                     const struct leati_right *rights, unsigned count);
leat_status leati_cuda_vm_add_peer(struct cuda_device *self, const struct cuda_device *peer);
leat_status leati_cuda_vm_unmap(struct leati_driver *driver, void *device, void *ptr, size_t bytes);
leat_status leati_cuda_vm_export(struct leati_driver *driver, void *device, uint64_t handle, int *fd);
leat_status leati_cuda_vm_import(struct leati_driver *driver, void *device, int fd, size_t bytes,
                                 uint64_t *handle);

/* cuda_copy.c */
leat_status leati_cuda_copy(struct leati_driver *driver, void *stream, struct leati_end dst, struct leati_end src,
                            size_t bytes);
leat_status leati_cuda_copy_rectangle(struct leati_driver *driver, void *stream, struct leati_end dst,
                                      struct leati_end src, const leat_copy_box *box);
leat_status leati_cuda_fill(struct leati_driver *driver, void *stream, void *dst, uint32_t pattern,
                            unsigned pattern_bytes, size_t count);

/* cuda_stream.c */
leat_status leati_cuda_stream_create(struct leati_driver *driver, void *device, void **stream);
leat_status leati_cuda_stream_destroy(struct leati_driver *driver, void *stream);
leat_status leati_cuda_stream_adopt(struct leati_driver *driver, void *device, void *native, void **stream);
void *leati_cuda_stream_native(struct leati_driver *driver, void *stream);
leat_status leati_cuda_stream_query(struct leati_driver *driver, void *stream);
leat_status leati_cuda_stream_synchronize(struct leati_driver *driver, void *stream);
leat_status leati_cuda_stream_wait(struct leati_driver *driver, void *stream, void *event);
leat_status leati_cuda_stream_values(struct leati_driver *driver, void *stream, const struct leati_value *values,
                                     unsigned count);
leat_status leati_cuda_launch_host(struct leati_driver *driver, void *stream, void (*function)(void *),
                                   void *argument);
leat_status leati_cuda_event_create(struct leati_driver *driver, void *device, void **event);
leat_status leati_cuda_event_destroy(struct leati_driver *driver, void *event);
leat_status leati_cuda_event_adopt(struct leati_driver *driver, void *device, void *native, void **event);
void *leati_cuda_event_native(struct leati_driver *driver, void *event);
leat_status leati_cuda_event_record(struct leati_driver *driver, void *event, void *stream);
leat_status leati_cuda_event_query(struct leati_driver *driver, void *event);
leat_status leati_cuda_event_synchronize(struct leati_driver *driver, void *event);
leat_status leati_cuda_event_elapsed(struct leati_driver *driver, void *start, void *end, double *milliseconds);

/* cuda_module.c */
leat_status leati_cuda_module_load(struct leati_driver *driver, void *device, const void *image, size_t bytes,
                                   void **module);
leat_status leati_cuda_module_builtin(struct leati_driver *driver, void *device, enum leati_builtin which,
                                      void **module);
leat_status leati_cuda_module_unload(struct leati_driver *driver, void *device, void *module);
leat_status leati_cuda_kernel_get(struct leati_driver *driver, void *device, void *module, const char *name,
                                  void **kernel, struct leati_kernel_shape *shape);
leat_status leati_cuda_kernel_parameter(struct leati_driver *driver, void *device, void *kernel, unsigned index,
                                        size_t *bytes);
leat_status leati_cuda_launch(struct leati_driver *driver, void *stream, void *kernel, leat_dim3 grid,
                              leat_dim3 block, size_t shared_bytes, void *const *args, unsigned argument_count);

#endif
