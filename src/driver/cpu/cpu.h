/*
 * cpu.h - declarations that the files of the CPU device share.
 *
 * The CPU device is a real device inside the process. Its memory is in one reserved address range. Each stream has
 * its own thread and runs in order; streams run concurrently. Events have time stamps. Kernels and large copies
 * use all cores. All tests rely on the CPU device. So it implements driver.h exactly, and does nothing that a GPU
 * could not do.
 *
 * Lock order: cpu_event.lock, cpu_device.streams_lock, cpu_stream.lock, cpu_fence.lock. A second order,
 * independent of the first: cpu_space.lock, then the lock of cpu_managed.c.
 */
#ifndef LEATI_CPU_H
#define LEATI_CPU_H

#include "base/error.h"
#include "base/fault_handler.h"
#include "base/lock.h"
#include "base/quick.h"
#include "base/ranges.h"
#include "driver/driver.h"

#include <stdatomic.h>

#define CPU_PAGE_BYTES ((size_t)4096)
#define CPU_HUGE_BYTES ((size_t)2 << 20)
#define CPU_DEVICES_MAX 16
#define CPU_BLOCK_THREADS_MAX 1024u
#define CPU_SHARED_BYTES_MAX 232448u /* per block, as on NVIDIA's GPUs of compute capability 9.0 */
#define CPU_BLOCKS_TOGETHER_MAX 16u  /* the most blocks of a cooperative launch, per worker */

/* ---- memory (cpu_memory.c) ---- */

/* A block of a space: an allocation, or a reservation of virtual memory. */
struct cpu_block {
    leat_kind kind;
    size_t asked_bytes;   /* requested size, before rounding up to pages */
    size_t charged_bytes; /* size that counts as the device's memory in use */
    bool going;           /* true: a stream will free it, so look-ups must not find it */
    bool reserved;        /* true: virtual memory, of which only the mapped parts are memory */
};

/* A reserved address range and its blocks. Small blocks are below the middle. Large blocks, and virtual memory,
 * are above it, on huge page boundaries. */
struct cpu_space {
    struct leati_lock lock; /* guards all fields */
    uintptr_t base;         /* start of the range; 0: not reserved */
    size_t bytes;
    uintptr_t middle;
    uintptr_t small_cursor, large_cursor;
    struct leati_ranges blocks;
};

struct cpu_device {
    struct leati_driver *driver;
    int ordinal;
    struct cpu_space space;
    uint64_t memory_bytes;
    atomic_uint_least64_t used_bytes;
    struct leati_lock streams_lock; /* guards the list streams, and holders of each stream */
    struct cpu_stream *streams;
    int virtual_fd;                      /* file with the pages of virtual memory; -1: none yet */
    struct leati_lock virtual_lock;      /* guards virtual_fd and the next three fields */
    struct leati_ranges virtual_handles; /* handles by offset in virtual_fd; value: struct cpu_handle */
    uintptr_t virtual_cursor;
    struct leati_ranges virtual_maps; /* mappings by address; value: struct cpu_handle */
};

/* The size of a space if address space is not limited. */
#define CPU_SPACE_BYTES ((size_t)1 << 43)

/* Call both with the space's lock held. If address space is limited, a space gets at most 1/parts of the addresses
 * that are left. */
leat_status cpu_space_reserve(struct cpu_space *space, size_t wanted_bytes, unsigned parts)
    LEATI_REQUIRES(space->lock);
void cpu_space_release(struct cpu_space *space) LEATI_REQUIRES(space->lock);

/* Maps memory over addresses of a space. Takes the arguments of mmap(). Fails with HOST_MEMORY or SYSTEM. */
leat_status cpu_space_map(void *ptr, size_t bytes, int protection, int flags, int fd, off_t offset);

/* Makes a mapping of cpu_space_map() inaccessible, and returns its private pages to the system. Works even if the
 * process is at the system's limit of mappings. */
leat_status cpu_space_unmap(void *ptr, size_t bytes);

/* Finds room for a block of bytes bytes (whole pages) and enters the block into the space. A block of
 * CPU_HUGE_BYTES or more starts on a huge page. The page after the block stays inaccessible. */
leat_status cpu_space_take(struct cpu_space *space, size_t bytes, const struct cpu_block *block, uintptr_t *base);

/* Removes the block that starts at base, makes its addresses inaccessible, and returns its description in *block
 * and its size in *bytes. */
leat_status cpu_space_give_back(struct cpu_space *space, uintptr_t base, struct cpu_block *block, size_t *bytes);

leat_status cpu_mem_alloc(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
leat_status cpu_mem_free(struct leati_driver *driver, void *device, void *ptr);
leat_status cpu_mem_alloc_async(struct leati_driver *driver, void *stream, size_t bytes, void **ptr);
leat_status cpu_mem_free_async(struct leati_driver *driver, void *stream, void *ptr);
leat_status cpu_host_alloc(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
leat_status cpu_host_free(struct leati_driver *driver, void *device, void *ptr);
leat_status cpu_host_register(struct leati_driver *driver, void *device, void *ptr, size_t bytes);
leat_status cpu_host_unregister(struct leati_driver *driver, void *device, void *ptr);
leat_status cpu_managed_alloc(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
leat_status cpu_pointer_query(struct leati_driver *driver, const void *ptr, struct leati_pointer_info *place);

/* Add bytes to the device's memory in use, or subtract them. cpu_charge() fails if the device has not enough
 * memory left. */
leat_status cpu_charge(struct cpu_device *device, size_t bytes);
void cpu_uncharge(struct cpu_device *device, size_t bytes);

/* The space for pinned and managed memory of all CPU devices; it is reserved while at least one device is open. */
leat_status cpu_host_space_open(void);
bool cpu_host_space_close(void); /* returns true if the last device has closed */

/* Returns a device, which may be closed. A closed device has no space. */
struct cpu_device *cpu_device_number(int ordinal);

/* Returns a hint to append to a message: why devices have less memory than the machine, and how to change that.
 * Returns "" if they have as much. */
const char *cpu_memory_reason(void);

/* ---- managed memory (cpu_managed.c) ---- */

#define CPU_HOST_SIDE (-1) /* the side of host threads; the others are device numbers */

/* Call these after a managed block (of whole pages) was allocated, and before it is freed. The second one ignores
 * blocks without a record. */
leat_status cpu_managed_add(void *ptr, size_t bytes);
void cpu_managed_remove(const void *ptr);

/* Calls cpu_space_unmap() for a managed block, and removes its record, if it has one. If the call fails, the block
 * keeps its record. */
leat_status cpu_managed_unmap(void *ptr, size_t bytes);

/* cpu_managed_side() returns the side that the calling thread works for: a device's number or CPU_HOST_SIDE.
 * cpu_managed_take_side() sets it, and returns the earlier side. */
int cpu_managed_side(void);
int cpu_managed_take_side(int side);

/* Call these before and after work of a device that may access managed memory. Pass the result of
 * cpu_managed_enter() to cpu_managed_leave(). */
int cpu_managed_enter(const struct cpu_device *device);
void cpu_managed_leave(int earlier);

/* Call this before the calling thread accesses memory for its side. Does nothing for memory that is not
 * managed. */
void cpu_managed_touch(const void *ptr, size_t bytes, bool write);

/* Frees the record. Call this when the last device closes. */
void cpu_managed_end(void);

leat_status cpu_managed_prefetch(struct leati_driver *driver, void *stream, void *ptr, size_t bytes, void *to);
leat_status cpu_managed_advise(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                               leat_advice advice, void *where);
leat_status cpu_managed_query(struct leati_driver *driver, void *device, const void *ptr, size_t bytes,
                              leat_managed_info *info);
leat_status cpu_managed_attach(struct leati_driver *driver, void *stream, void *ptr, size_t bytes,
                               leat_attach attach);
leat_status cpu_managed_record(struct leati_driver *driver, void *device, bool on);
leat_status cpu_managed_count(struct leati_driver *driver, void *device, const void *ptr, size_t bytes,
                              leat_managed_stats *counts);
leat_status cpu_managed_history(struct leati_driver *driver, void *device, leat_managed_move *moves,
                                size_t *count);

/* ---- virtual memory (cpu_virtual.c) ---- */

leat_status cpu_vm_granularity(struct leati_driver *driver, void *device, size_t *bytes);
leat_status cpu_vm_reserve(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
leat_status cpu_vm_unreserve(struct leati_driver *driver, void *device, void *ptr, size_t bytes);
leat_status cpu_vm_create(struct leati_driver *driver, void *device, size_t bytes, bool exportable,
                          uint64_t *handle);
leat_status cpu_vm_release(struct leati_driver *driver, void *device, uint64_t handle);
leat_status cpu_vm_map(struct leati_driver *driver, void *device, void *ptr, size_t bytes, uint64_t handle);
leat_status cpu_vm_set_access(struct leati_driver *driver, void *device, void *ptr, size_t bytes);
leat_status cpu_vm_set_rights(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                              const struct leati_right *rights, unsigned count);
leat_status cpu_vm_unmap(struct leati_driver *driver, void *device, void *ptr, size_t bytes);
leat_status cpu_vm_export(struct leati_driver *driver, void *device, uint64_t handle, int *fd);
leat_status cpu_vm_import(struct leati_driver *driver, void *device, int fd, size_t bytes, uint64_t *handle);
leat_status cpu_vm_export_read(struct leati_driver *driver, void *device, uint64_t handle, int *fd);
leat_status cpu_vm_import_read(struct leati_driver *driver, void *device, int fd, size_t bytes, uint64_t *handle);

/* Finds the mapping at an address of reserved virtual memory. Returns false if nothing is mapped there. */
bool cpu_vm_find(struct cpu_device *device, const void *ptr, uintptr_t *base, size_t *bytes);

/* ---- streams and events (cpu_stream.c) ---- */

struct cpu_stream;

leat_status cpu_stream_create(struct leati_driver *driver, void *device, void **stream);
leat_status cpu_stream_destroy(struct leati_driver *driver, void *stream);
leat_status cpu_stream_adopt(struct leati_driver *driver, void *device, void *native, void **stream);
void *cpu_stream_native(struct leati_driver *driver, void *stream);
leat_status cpu_stream_query(struct leati_driver *driver, void *stream);
leat_status cpu_stream_synchronize(struct leati_driver *driver, void *stream);
leat_status cpu_stream_take_failure(struct leati_driver *driver, void *stream);
leat_status cpu_stream_wait(struct leati_driver *driver, void *stream, void *event);
leat_status cpu_stream_mem_ops(struct leati_driver *driver, void *stream, const struct leati_mem_op *values,
                               unsigned count);
leat_status cpu_launch_host(struct leati_driver *driver, void *stream, void (*function)(void *), void *argument);
leat_status cpu_event_create(struct leati_driver *driver, void *device, void **event);
leat_status cpu_event_destroy(struct leati_driver *driver, void *event);
leat_status cpu_event_adopt(struct leati_driver *driver, void *device, void *native, void **event);
void *cpu_event_native(struct leati_driver *driver, void *event);
leat_status cpu_event_record(struct leati_driver *driver, void *event, void *stream);
leat_status cpu_stream_stamp(struct leati_driver *driver, void *stream, _Atomic uint64_t *ns);
leat_status cpu_event_query(struct leati_driver *driver, void *event);
leat_status cpu_event_synchronize(struct leati_driver *driver, void *event);
leat_status cpu_event_elapsed(struct leati_driver *driver, void *start, void *end, double *milliseconds);
leat_status cpu_device_synchronize(struct leati_driver *driver, void *device);

/* Work of a stream. The stream's thread calls run(), then calls counted() under the stream's lock at the moment
 * when the work becomes complete. One of the two may be NULL. Finally the thread frees the struct that contains
 * the work, so the work must be its first member. */
struct cpu_work {
    struct cpu_work *next;
    void (*run)(struct cpu_work *work);
    void (*counted)(struct cpu_work *work);
};

/* Appends work to a stream. Cannot fail; the stream owns work from now on. */
void cpu_stream_push(void *stream, struct cpu_work *work);

/* Runs work on the calling thread and frees it, for a caller that would wait for the work anyway. counted() must
 * be NULL. Returns false, and does nothing, if other work of the stream must run first. */
bool cpu_stream_run_here(void *stream, struct cpu_work *work);

/* Reports that a copy of the stream could not access pageable memory at the address fault. Only the next
 * cpu_stream_take_failure() returns this failure. Pass the result of cpu_stream_core(), because the public handle
 * may already be destroyed. */
void cpu_stream_lost(struct cpu_stream *stream, const void *dst, const void *src, size_t bytes, uintptr_t fault);
struct cpu_stream *cpu_stream_core(void *stream);

struct cpu_device *cpu_stream_device(void *stream);

/* Waits until all streams of a device are idle and their threads have ended. Destroy all streams before this
 * call. */
void cpu_streams_join(struct cpu_device *device);

/* ---- moving and filling bytes (cpu_copy.c) ---- */

leat_status cpu_copy(struct leati_driver *driver, void *stream, struct leati_location dst,
                     struct leati_location src, size_t bytes);
leat_status cpu_copy_3d(struct leati_driver *driver, void *stream, struct leati_location dst,
                        struct leati_location src, const leat_copy_region *region); /* cpu_copy_3d.c */

/* Calls move_part(part), which accesses these ranges. If an access faults, sets *unreachable to the smaller of its
 * value and the address of the fault. Several threads may share *unreachable. */
void cpu_copy_guarded(const struct leati_fault_range ranges[2], void (*move_part)(void *part), void *part,
                      _Atomic uintptr_t *unreachable);

leat_status cpu_fill(struct leati_driver *driver, void *stream, void *dst, uint32_t pattern,
                     unsigned pattern_bytes, size_t count);

/* ---- kernels (cpu_kernel.c) ---- */

leat_status cpu_module_load(struct leati_driver *driver, void *device, const void *image, size_t bytes,
                            void **module);
leat_status cpu_module_builtin(struct leati_driver *driver, void *device, enum leati_builtin which, void **module);
leat_status cpu_module_embedded(struct leati_driver *driver, void *device, const leat_embedded_kernel *kernels,
                                size_t count, void **module);
leat_status cpu_module_unload(struct leati_driver *driver, void *device, void *module);
leat_status cpu_kernel_get(struct leati_driver *driver, void *device, void *module, const char *name,
                           void **kernel, struct leati_kernel_shape *shape);
leat_status cpu_kernel_parameter(struct leati_driver *driver, void *device, void *kernel, unsigned index,
                                 size_t *bytes);
leat_status cpu_launch(struct leati_driver *driver, void *stream, void *kernel, leat_dim3 grid, leat_dim3 block,
                       size_t shared_bytes, void *const *args, unsigned argument_count);

/* ---- work on all cores (cpu_workers.c) ---- */

/* Reads the option that sets the number of threads. Called once, when the driver is loaded. */
leat_status cpu_workers_load(void);

/* Returns the number of threads that work on one job, including the caller. */
unsigned cpu_workers_threads(void);

/* Calls part(context, i) for i from 0 to count - 1, on the caller and the workers concurrently, and returns when
 * all calls have returned. Concurrent callers share the workers. */
void cpu_workers_run(void (*part)(void *context, uint64_t i), void *context, uint64_t count);

/* Releases the workers. No job may run or start during this call; the next job gets new workers. */
void cpu_workers_stop(void);

/* ---- threads that run at the same time (cpu_gang.c) ---- */

/* Reserves the threads for one cpu_gang_run() with this count. Fails with SYSTEM if threads cannot be started. */
leat_status cpu_gang_reserve(unsigned count);

/* Calls part(context, i) for i from 0 to count - 1 concurrently, the first on the calling thread, and returns when
 * all calls have returned. The parts may wait for one another. Releases the reservation. */
void cpu_gang_run(void (*part)(void *context, unsigned i), void *context, unsigned count);

/* Ends all threads of the gang. No thread may be reserved. */
void cpu_gang_stop(void);

/* ---- strict mode (cpu_strict.c) ---- */

/* Sets up strict mode if LEAT_STRICT is on. Fails with UNSUPPORTED if the processor has no memory protection
 * keys. */
leat_status cpu_strict_open(void);

/* True while this thread runs a kernel, so that the message about a fault names the kernel as the cause. */
extern LEATI_QUICK_TLS bool cpu_in_kernel;

/* Installs the handler that prints the pointer when a kernel faults, unless it is already installed. The handler
 * passes the fault on to the handler that was installed before. */
void cpu_kernel_faults_open(void);

/* In strict mode, makes memory inaccessible for host threads; otherwise does nothing. protection: the page
 * protection that the memory keeps, such as PROT_READ | PROT_WRITE. */
leat_status cpu_strict_protect(void *ptr, size_t bytes, int protection);

/* Allow this thread to access device memory (a device's thread), or forbid it (while it runs a host function). */
void cpu_strict_allow(void);
void cpu_strict_forbid(void);

/* Returns true if cpu_strict_allow() is in effect on this thread. */
bool cpu_strict_allowed(void);

#endif
