/*
 * cpu.h - what the files of the CPU device share.
 *
 * The CPU device is a real device in the process: memory of its own in one reserved range of addresses, streams
 * that run in order on a thread each and overlap with one another, events with time stamps, kernels and large
 * copies spread over all cores. It is the judge of all tests, so it keeps the promises of driver.h to the letter
 * and takes no short cuts that a GPU could not take.
 *
 * Locks: cpu_event.lock, then cpu_device.streams_lock, then cpu_stream.lock; cpu_space.lock stands alone, and so
 * does that of cpu_managed.c.
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
#define CPU_SHARED_BYTES_MAX 232448u /* of a block; as much as NVIDIA's GPUs of compute capability 9.0 have */
#define CPU_BLOCKS_TOGETHER_MAX 16u  /* for each worker */
#define CPU_WORKERS_MAX 1024

/* ---- memory (cpu_memory.c) ---- */

/* A block of a space: an allocation, or a reservation of virtual memory. */
struct cpu_block {
    leat_kind kind;
    size_t asked_bytes;   /* before rounding up to pages */
    size_t charged_bytes; /* what it counts against the device's memory */
    bool going;           /* given to a stream to be freed: nobody may find it any more */
    bool reserved;        /* of virtual memory: only what is mapped there is memory */
};

/* One reserved range of addresses and what lives in it. Small blocks are below the middle; large ones and those of
 * virtual memory, on huge page boundaries, are above. */
struct cpu_space {
    struct leati_lock lock; /* guards all of it */
    uintptr_t base;         /* 0: not reserved */
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
    struct leati_lock streams_lock; /* guards the list, and who holds a stream in it */
    struct cpu_stream *streams;
    int virtual_fd;                      /* physical pages of virtual memory, -1 before the first */
    struct leati_lock virtual_lock;      /* guards virtual_fd and the next three */
    struct leati_ranges virtual_handles; /* by offset in virtual_fd; value: struct cpu_handle */
    uintptr_t virtual_cursor;
    struct leati_ranges virtual_maps; /* by address; value: struct cpu_handle */
};

/* The addresses that a space gets where nothing limits them. */
#define CPU_SPACE_BYTES ((size_t)1 << 43)

/* Both with the space's lock held. Under a limit on addresses a space gets one part in parts of what is left. */
leat_status cpu_space_reserve(struct cpu_space *space, size_t wanted_bytes, unsigned parts)
    LEATI_REQUIRES(space->lock);
void cpu_space_release(struct cpu_space *space) LEATI_REQUIRES(space->lock);

/* Puts a mapping, as mmap() describes it, over addresses of a space. HOST_MEMORY, SYSTEM. */
leat_status cpu_space_map(void *ptr, size_t bytes, int protection, int flags, int fd, off_t offset);

/* Makes what cpu_space_map() put there unreachable, and gives private pages to the system. Works with any number
 * of mappings in the process. */
leat_status cpu_space_unmap(void *ptr, size_t bytes);

/* Finds and enters room for a block of bytes (whole pages), with a page behind it that stays unreachable. */
leat_status cpu_space_take(struct cpu_space *space, size_t bytes, const struct cpu_block *block, uintptr_t *base);

/* Takes the block that starts at base out again, and makes its addresses unreachable. */
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

/* Counts bytes against the device's memory, or gives them back. */
leat_status cpu_charge(struct cpu_device *device, size_t bytes);
void cpu_uncharge(struct cpu_device *device, size_t bytes);

/* The pinned and managed memory of all CPU devices; reserved while one of them is open. */
leat_status cpu_host_space_open(void);
bool cpu_host_space_close(void); /* was it the last of them? */

/* A device, open or not: closed ones have no space. */
struct cpu_device *cpu_device_number(int ordinal);

/* Why devices have less memory than the machine and what to do, for the end of a message; "" where they do not. */
const char *cpu_memory_reason(void);

/* ---- managed memory (cpu_managed.c) ---- */

#define CPU_HOST_SIDE (-1) /* beside the devices' numbers */

/* A managed allocation of whole pages begins, and ends. */
leat_status cpu_managed_add(void *ptr, size_t bytes);
void cpu_managed_remove(const void *ptr);

/* For whom the calling thread works: a device's number or CPU_HOST_SIDE. take_side returns the earlier one. */
int cpu_managed_side(void);
int cpu_managed_take_side(int side);

/* Around work of a device that may touch managed memory. leave takes what enter returned. */
int cpu_managed_enter(const struct cpu_device *device);
void cpu_managed_leave(int earlier);

/* The calling thread is about to touch this memory, of whatever kind it is, on behalf of its side. */
void cpu_managed_touch(const void *ptr, size_t bytes, bool write);

/* The last device closes: gives the record back. */
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
                              leat_managed_counts *counts);
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

/* What is mapped at an address of reserved virtual memory; false when nothing is. */
bool cpu_vm_find(struct cpu_device *device, const void *ptr, uintptr_t *base, size_t *bytes);

/* ---- streams and events (cpu_stream.c) ---- */

struct cpu_stream;

leat_status cpu_stream_create(struct leati_driver *driver, void *device, void **stream);
leat_status cpu_stream_destroy(struct leati_driver *driver, void *stream);
leat_status cpu_stream_adopt(struct leati_driver *driver, void *device, void *native, void **stream);
void *cpu_stream_native(struct leati_driver *driver, void *stream);
leat_status cpu_stream_query(struct leati_driver *driver, void *stream);
leat_status cpu_stream_synchronize(struct leati_driver *driver, void *stream);
leat_status cpu_stream_wait(struct leati_driver *driver, void *stream, void *event);
leat_status cpu_stream_mem_ops(struct leati_driver *driver, void *stream, const struct leati_mem_op *values,
                               unsigned count);
leat_status cpu_launch_host(struct leati_driver *driver, void *stream, void (*function)(void *), void *argument);
leat_status cpu_event_create(struct leati_driver *driver, void *device, void **event);
leat_status cpu_event_destroy(struct leati_driver *driver, void *event);
leat_status cpu_event_adopt(struct leati_driver *driver, void *device, void *native, void **event);
void *cpu_event_native(struct leati_driver *driver, void *event);
leat_status cpu_event_record(struct leati_driver *driver, void *event, void *stream);
leat_status cpu_event_query(struct leati_driver *driver, void *event);
leat_status cpu_event_synchronize(struct leati_driver *driver, void *event);
leat_status cpu_event_elapsed(struct leati_driver *driver, void *start, void *end, double *milliseconds);
leat_status cpu_device_synchronize(struct leati_driver *driver, void *device);

/* Work of a stream. run() is called on the stream's thread, then counted() under the stream's lock, at the moment
 * from which the work counts as done; one of the two may be NULL. The struct around it is freed afterwards. */
struct cpu_work {
    struct cpu_work *next;
    void (*run)(struct cpu_work *work);
    void (*counted)(struct cpu_work *work);
};

/* Gives work to a stream, in order. Cannot fail; the stream owns work from now on. */
void cpu_stream_push(void *stream, struct cpu_work *work);

/* Runs work on the caller's thread, in the stream's place, and frees it: for a caller that would wait for it
 * anyway. False, with nothing done, when the stream has other work first. */
bool cpu_stream_run_here(void *stream, struct cpu_work *work);

/* A copy of a stream could not reach its pageable memory at fault: for the next cpu_stream_synchronize(), once.
 * The handle may be gone by now, so stream is what cpu_stream_core() gave. */
void cpu_stream_lost(struct cpu_stream *stream, const void *dst, const void *src, size_t bytes, uintptr_t fault);
struct cpu_stream *cpu_stream_core(void *stream);

struct cpu_device *cpu_stream_device(void *stream);

/* Waits until all streams of a device are idle and their threads ended; every stream is destroyed already. */
void cpu_streams_join(struct cpu_device *device);

/* ---- moving and filling bytes (cpu_copy.c) ---- */

leat_status cpu_copy(struct leati_driver *driver, void *stream, struct leati_location dst,
                     struct leati_location src, size_t bytes);
leat_status cpu_copy_3d(struct leati_driver *driver, void *stream, struct leati_location dst,
                        struct leati_location src, const leat_copy_region *region); /* cpu_copy_3d.c */

/* Calls move_part(part), which accesses these ranges. Where one of them is gone, *unreachable, which other threads
 * lower as well, becomes the lowest of the addresses that nobody could reach. */
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

/* Reads how many threads there shall be. Once, when the driver is loaded. */
leat_status cpu_workers_load(void);

/* How many threads work on one job, the caller included. */
unsigned cpu_workers_threads(void);

/* Calls part(context, i) for i from 0 to count - 1, on the caller and the workers at once, and returns when all
 * calls have returned. Several callers share the workers. */
void cpu_workers_run(void (*part)(void *context, uint64_t i), void *context, uint64_t count);

/* Lets the workers go; no job may run or come meanwhile. The next job starts them again. */
void cpu_workers_stop(void);

/* ---- threads that run at the same time (cpu_gang.c) ---- */

/* Reserves the threads for one cpu_gang_run() with this count. SYSTEM: threads could not be started. */
leat_status cpu_gang_reserve(unsigned count);

/* Calls part(context, i) for i from 0 to count - 1 concurrently, the first on the calling thread, and returns when
 * all calls have returned. The parts may wait for one another. Releases the reservation. */
void cpu_gang_run(void (*part)(void *context, unsigned i), void *context, unsigned count);

/* Ends all threads; nothing may be reserved. */
void cpu_gang_stop(void);

/* ---- strict mode (cpu_strict.c) ---- */

/* Sets LEAT_STRICT up if it is asked for; UNSUPPORTED without protection keys. */
leat_status cpu_strict_open(void);

/* This thread is running a kernel: a fault is the kernel's, and its message says so. */
extern LEATI_QUICK_TLS bool cpu_in_kernel;

/* Installs the handler that names the pointer of a kernel that faults, if it is not there. It passes the fault on.
 */
void cpu_kernel_faults_open(void);

/* Makes memory, which has this protection (PROT_READ | PROT_WRITE), unreachable for host threads. Does nothing
 * when not strict. */
leat_status cpu_strict_protect(void *ptr, size_t bytes, int protection);

/* This thread may reach device memory (a device's thread), or may not (while it runs a host function). */
void cpu_strict_allow(void);
void cpu_strict_forbid(void);

/* Returns true if this thread was allowed to reach device memory by the call above. */
bool cpu_strict_allowed(void);

#endif
