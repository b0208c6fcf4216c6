/*
 * pinned.c - allocates the chunks of pinned memory pools (pinned.h).
 *
 * Nearly all of the time goes into clearing pages. The kernel clears a page in the thread that first touches it,
 * so several threads touch pages in parallel. The driver then only has to look up existing pages, and with huge
 * pages there are few of them.
 */
#include "pool/pinned.h"

#include "base/lock.h"
#include "base/mem_limit.h"
#include "base/workers.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE /* new in Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

#define SLICE_BYTES ((size_t)32 << 20)

/* claim() leaves 1/32 of the available memory unused, but at most so many bytes. */
#define SPARED_BYTES_MAX ((uint64_t)1 << 30)

enum { THREADS_MAX = 16, NODES_MAX = 1024, DEVICES_MAX = 64 };

/* A chunk in use. */
struct pinned_chunk {
    void *ptr;
    size_t bytes;
    void *from_driver; /* the driver's allocation, for host_free(); NULL: leat mapped and registered the chunk */
    struct pinned_chunk *next;
};

/* Guards the list of chunks and the table of nodes below; never held during a driver call. A chunk is removed from
 * the list before it is freed, so the system or the driver may reuse its address at once. */
static struct leati_lock lock = LEATI_LOCK_INITIALIZER;
static struct pinned_chunk *chunks LEATI_GUARDED_BY(lock);

/* The NUMA nodes of devices. They are cached, because the driver's query takes longer than mapping a small
 * chunk. */
static struct {
    const struct leati_driver *driver;
    int ordinal, node;
} nodes[DEVICES_MAX];
static unsigned node_count;

/* The number of bytes that calls in progress have still to populate. The system counts these bytes as available,
 * so claim() subtracts them. Relaxed: no other data depends on the number. */
static _Atomic uint64_t claimed_bytes;

static void list_chunk(struct pinned_chunk *chunk)
{
    leati_lock(&lock);
    chunk->next = chunks;
    chunks = chunk;
    leati_unlock(&lock);
}

static struct pinned_chunk *unlist_chunk(const void *ptr, size_t bytes)
{
    struct pinned_chunk **place, *found;

    leati_lock(&lock);
    place = &chunks;
    while ((found = *place) && !(found->ptr == ptr && found->bytes == bytes))
        place = &found->next;
    if (found)
        *place = found->next;
    leati_unlock(&lock);
    return found;
}

/* ---- limiting the use of memory --------------------------------------------------------------------------- */

static void unclaim(size_t bytes)
{
    atomic_fetch_sub_explicit(&claimed_bytes, bytes, memory_order_relaxed);
}

/* Claims bytes of the available memory; the claim lasts until unclaim(). Fails if the system might have to kill a
 * process when so many bytes are populated. */
static leat_status claim(size_t bytes)
{
    uint64_t others = atomic_fetch_add_explicit(&claimed_bytes, bytes, memory_order_relaxed);
    struct leati_mem_limit available;
    uint64_t spared, left;

    leati_mem_limit_get("", bytes + others + SPARED_BYTES_MAX, &available);
    if (available.bytes == UINT64_MAX)
        return LEAT_OK;
    spared = available.bytes / 32 < SPARED_BYTES_MAX ? available.bytes / 32 : SPARED_BYTES_MAX;
    left = available.bytes - spared;
    left = left > others ? left - others : 0;
    if (bytes <= left)
        return LEAT_OK;
    unclaim(bytes);
    return leati_fail(
        LEAT_ERROR_HOST_MEMORY,
        "%zu bytes of pinned memory are too many: of the %llu bytes that %s has available, %llu may be pinned",
        bytes, (unsigned long long)available.bytes, available.whose, (unsigned long long)left);
}

/* ---- populating ------------------------------------------------------------------------------------------- */

/* A chunk that several threads populate; lives on the stack of the thread that allocates it. */
struct touch {
    struct leati_loop loop; /* loop over the slices, which can be populated in any order */
    char *start;
    size_t bytes, slices;
    atomic_int error; /* the errno of a slice that failed, or 0; relaxed, because no other data depends on it */
};

/* Writes one byte per page, for kernels without MADV_POPULATE_WRITE. The pages are fresh, so no data is lost. */
static void write_bytes(char *start, size_t bytes)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);

    for (size_t i = 0; i < bytes; i += page_bytes)
        ((volatile char *)start)[i] = 0;
}

/* Populates a slice. Returns 0, or the errno of the failure. */
static int touch_slice(char *start, size_t bytes)
{
    while (madvise(start, bytes, MADV_POPULATE_WRITE)) {
        if (errno == EINTR || errno == EAGAIN)
            continue;
        /* The system has no pages, so writing a byte instead would kill the process. */
        if (errno == ENOMEM || errno == EFAULT || errno == EHWPOISON)
            return errno;
        write_bytes(start, bytes);
        return 0;
    }
    return 0;
}

/* Populates one slice and ends the claim for it. If an earlier slice failed, only ends the claim. */
static void touch_part(void *context, uint64_t i)
{
    struct touch *touch = context;
    size_t first = i * SLICE_BYTES, bytes = i + 1 < touch->slices ? SLICE_BYTES : touch->bytes - first;
    int error = atomic_load_explicit(&touch->error, memory_order_relaxed);

    if (!error && (error = touch_slice(touch->start + first, bytes)))
        atomic_store_explicit(&touch->error, error, memory_order_relaxed);
    unclaim(bytes);
}

static const struct leati_task_type touch_type = {
    .class = LEATI_WORK_PAGES, .work = leati_loop_work, .look = leati_loop_look};

unsigned leati_pinned_threads(size_t bytes)
{
    size_t slices = bytes / SLICE_BYTES;
    cpu_set_t set;
    long processors = sched_getaffinity(0, sizeof set, &set) ? sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
    unsigned threads = slices < THREADS_MAX ? (unsigned)slices : THREADS_MAX;

    if (processors < (long)threads)
        threads = processors > 0 ? (unsigned)processors : 1;
    return threads ? threads : 1;
}

/* Populates a chunk with several threads. Ends the claim for the chunk, even if it fails. */
static leat_status touch_all(void *ptr, size_t bytes)
{
    struct touch touch = {.start = ptr, .bytes = bytes, .slices = bytes / SLICE_BYTES};
    unsigned wanted = leati_pinned_threads(bytes) - 1;
    struct leati_workers *workers = NULL;
    int error;

    if (!touch.slices)
        touch.slices = 1;
    touch.loop = (struct leati_loop){.part = touch_part, .context = &touch, .count = touch.slices};
    /* If fewer threads start than wanted, each takes more slices. Start all of them before any thread populates
     * pages, because the creation of a thread would have to wait for that. */
    if (wanted)
        (void)leati_workers_get(-1, LEATI_WORK_PAGES, wanted, &workers);
    leati_workers_loop(workers, &touch_type, &touch.loop, workers ? wanted : 0);
    if (workers)
        leati_workers_put(workers, LEATI_WORK_PAGES);
    error = atomic_load_explicit(&touch.error, memory_order_relaxed);
    if (!error)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_HOST_MEMORY,
                      "madvise: %s: the system could not find pages for all of %zu bytes of pinned memory",
                      strerror(error), bytes);
}

/* ---- mapping ---------------------------------------------------------------------------------------------- */

static void unmap(void *ptr, size_t bytes)
{
    /* munmap() in the middle of a mapping splits the mapping, which fails if the process has vm.max_map_count
     * mappings already. Then free only the pages, and leak the addresses, which are plentiful. */
    if (munmap(ptr, bytes))
        (void)madvise(ptr, bytes, MADV_DONTNEED);
}

/* Maps bytes of memory at a multiple of LEATI_PINNED_UNIT. If this fails, returns NULL with errno set. */
static void *map_aligned(size_t bytes)
{
    size_t mapped_bytes = bytes + LEATI_PINNED_UNIT, before;
    char *mapped = mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (mapped == MAP_FAILED)
        return NULL;
    before = -(uintptr_t)mapped & (LEATI_PINNED_UNIT - 1);
    if (before)
        unmap(mapped, before);
    unmap(mapped + before + bytes, LEATI_PINNED_UNIT - before);
    /* A kernel without huge pages refuses this call, and the chunk gets small pages. */
    (void)madvise(mapped + before, bytes, MADV_HUGEPAGE);
    return mapped + before;
}

/* Returns the NUMA node of a device, or -1 if it is not known. */
static int node_of(const struct leat_device *device)
{
    leat_device_info info = {.numa_node = -1};
    int node = -1;
    unsigned i;

    leati_lock(&lock);
    for (i = 0; i < node_count; i++)
        if (nodes[i].driver == device->driver && nodes[i].ordinal == device->ordinal)
            break;
    if (i < node_count)
        node = nodes[i].node;
    leati_unlock(&lock);
    if (i < node_count)
        return node;
    if (LEATI_QUIETLY(device->driver->ops->device_info(device->driver, device->ordinal, &info)) != LEAT_OK)
        return -1;
    /* Two threads may query the same device at the same time and both add an entry, which is harmless. */
    leati_lock(&lock);
    if (node_count < DEVICES_MAX) {
        nodes[node_count].driver = device->driver;
        nodes[node_count].ordinal = device->ordinal;
        nodes[node_count++].node = info.numa_node;
    }
    leati_unlock(&lock);
    return info.numa_node;
}

/*
 * Sets the device's NUMA node as the preferred node of a range. Call before the range is populated. If this node
 * has no free pages, or the process's container may not use it, the kernel takes pages of other nodes. A program
 * that was started with a policy of its own (numactl) keeps that policy.
 */
static void prefer_node(const struct leat_device *device, void *ptr, size_t bytes)
{
    enum { WORD_BITS = 8 * sizeof(unsigned long) };
    unsigned long mask[NODES_MAX / WORD_BITS] = {0};
    int node = node_of(device), policy = MPOL_DEFAULT;

    if (node < 0 || node >= NODES_MAX)
        return;
    if (!syscall(SYS_get_mempolicy, &policy, NULL, 0, NULL, 0) && policy != MPOL_DEFAULT)
        return;
    mask[node / WORD_BITS] = 1ul << (node % WORD_BITS);
    /* The kernel reads one bit less of the mask than maxnode, so pass one more. */
    (void)syscall(SYS_mbind, ptr, bytes, MPOL_PREFERRED, mask, (unsigned long)NODES_MAX + 1, 0);
}

/* ---- allocating a chunk ----------------------------------------------------------------------------------- */

/* Checks that registered memory has the same address on the device as on the host. This is not so on all
 * hardware. */
static leat_status check_address(const struct leat_device *device, void *ptr)
{
    const struct leati_driver_ops *ops = device->driver->ops;
    void *device_pointer = ptr;

    if (ops->host_device_pointer)
        LEATI_TRY(ops->host_device_pointer(device->driver, device->native, ptr, &device_pointer));
    if (device_pointer != ptr)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "registered memory at %p has the address %p on the device", ptr,
                          device_pointer);
    return LEAT_OK;
}

/* Registers mapped memory with the driver. If this fails, unmaps the memory. */
static leat_status register_or_unmap(const struct leat_device *device, void *ptr, size_t bytes)
{
    const struct leati_driver_ops *ops = device->driver->ops;
    leat_status status = ops->host_register(device->driver, device->native, ptr, bytes);

    if (status == LEAT_OK) {
        status = check_address(device, ptr);
        if (status == LEAT_OK)
            return LEAT_OK;
        /* If unregistering fails, the device is lost. Leak the memory then, because the device may still write to
         * it. */
        if (LEATI_QUIETLY(ops->host_unregister(device->driver, device->native, ptr)) != LEAT_OK)
            return status;
    }
    unmap(ptr, bytes);
    return status;
}

/* Maps and populates memory of the process. If it fails, sets *hopeless to true if the driver's own allocation
 * call would fail too or would run the system out of memory. */
static leat_status map_touched(const struct leat_device *device, size_t bytes, void **ptr, bool *hopeless)
{
    leat_status status;
    void *mapped;

    *hopeless = true;
    LEATI_TRY(claim(bytes));
    mapped = map_aligned(bytes);
    if (!mapped) {
        unclaim(bytes);
        *hopeless = false;
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "mmap: %s: no room for %zu bytes of pinned memory",
                          strerror(errno), bytes);
    }
    prefer_node(device, mapped, bytes);
    status = touch_all(mapped, bytes);
    if (status != LEAT_OK) {
        unmap(mapped, bytes);
        return status;
    }
    *ptr = mapped;
    return LEAT_OK;
}

static leat_status map_chunk(const struct leat_device *device, struct pinned_chunk *chunk, bool *hopeless)
{
    void *mapped = NULL;

    *hopeless = false;
    if (!device->driver->ops->host_register)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "the %s driver cannot register memory", device->driver->name);
    LEATI_TRY(map_touched(device, chunk->bytes, &mapped, hopeless));
    *hopeless = false;
    LEATI_TRY(register_or_unmap(device, mapped, chunk->bytes));
    chunk->ptr = mapped;
    return LEAT_OK;
}

/* Allocates a chunk by the driver's own call, which is slower. If the memory is not aligned, frees it and
 * allocates a longer piece that contains an aligned chunk. */
static leat_status allocate_chunk(const struct leat_device *device, struct pinned_chunk *chunk)
{
    const struct leati_driver_ops *ops = device->driver->ops;
    void *memory;

    LEATI_TRY(ops->host_alloc(device->driver, device->native, chunk->bytes, &memory));
    if ((uintptr_t)memory & (LEATI_PINNED_UNIT - 1)) {
        LEATI_TRY(ops->host_free(device->driver, device->native, memory));
        LEATI_TRY(ops->host_alloc(device->driver, device->native, chunk->bytes + LEATI_PINNED_UNIT, &memory));
    }
    chunk->from_driver = memory;
    chunk->ptr = (char *)memory + (-(uintptr_t)memory & (LEATI_PINNED_UNIT - 1));
    return LEAT_OK;
}

/* Allocates a chunk by the driver's own call after mapping or registering memory failed. On entry this thread's
 * error message has the reason of that failure. */
static leat_status fall_back(const struct leat_device *device, struct pinned_chunk *chunk)
{
    struct leati_message reason, message;
    leat_status status;

    leati_error_keep(&reason);
    status = claim(chunk->bytes);
    if (status == LEAT_OK) {
        status = allocate_chunk(device, chunk);
        unclaim(chunk->bytes);
    }
    if (status == LEAT_OK)
        return LEAT_OK;
    leati_error_keep(&message);
    /* Pinned memory is host memory, so do not return the status for device memory that some drivers use. */
    if (status == LEAT_ERROR_DEVICE_MEMORY)
        status = LEAT_ERROR_HOST_MEMORY;
    return leati_fail(status, "%.900s; the driver was asked for the memory because of this: %.900s", message.text,
                      reason.text);
}

leat_status leati_pinned_take(struct leat_device *device, size_t bytes, void **ptr)
{
    struct leati_message before;
    struct pinned_chunk *chunk;
    leat_status status;
    bool hopeless;

    if (!bytes || bytes % LEATI_PINNED_UNIT || bytes > PTRDIFF_MAX - LEATI_PINNED_UNIT)
        return leati_fail(LEAT_ERROR_INVALID, "a chunk of %zu bytes of pinned memory is not whole units of 2 MiB",
                          bytes);
    chunk = malloc(sizeof *chunk);
    if (!chunk)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory to describe a chunk of pinned memory");
    *chunk = (struct pinned_chunk){.bytes = bytes};
    leati_error_keep(&before);
    status = map_chunk(device, chunk, &hopeless);
    if (status != LEAT_OK && !hopeless)
        status = fall_back(device, chunk);
    if (status != LEAT_OK) {
        free(chunk);
        return status;
    }
    *ptr = chunk->ptr;
    list_chunk(chunk);
    /* If the first attempt failed and the second succeeded, drop the message of the first. */
    return leati_error_restore(LEAT_OK, &before);
}

leat_status leati_pinned_give_back(struct leat_device *device, void *ptr, size_t bytes)
{
    const struct leati_driver_ops *ops = device->driver->ops;
    struct pinned_chunk *chunk = unlist_chunk(ptr, bytes);
    leat_status status;

    if (!chunk)
        return leati_fail(LEAT_ERROR_POINTER, "no chunk of %zu bytes of pinned memory starts at %p", bytes, ptr);
    if (chunk->from_driver)
        status = ops->host_free(device->driver, device->native, chunk->from_driver);
    else
        status = ops->host_unregister(device->driver, device->native, ptr);
    if (status != LEAT_OK) {
        list_chunk(chunk);
        return status;
    }
    if (!chunk->from_driver)
        unmap(ptr, bytes);
    free(chunk);
    return LEAT_OK;
}
