/* share.c - shares device memory with another process, and hands it over in stream order. See share.h. */
#include "pool/share.h"

#include "base/sized.h"
#include "core/counter.h"
#include "core/virtual.h"
#include "pool/pool.h"
#include "pool/track.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static_assert(sizeof(struct leati_share_page) <= LEATI_SHARE_PAGE_BYTES, "the page of counters");
static_assert(sizeof(struct leati_share_private) <= LEATI_SHARE_PRIVATE_BYTES, "the private counters");
static_assert(LEAT_ACCESS_READ == 1 && LEAT_ACCESS_READ_WRITE == 3, "numbers in messages");

#define PAGE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static struct leati_handles share_handles = LEATI_HANDLES(struct leat_share);

static leat_status check_share(const char *what, const leat_share *share)
{
    if (leati_handle_live(&share_handles, share))
        return LEAT_OK;
    return leati_fail(
        LEAT_ERROR_HANDLE,
        "%s: share %p is not a live share: it was destroyed, its device was closed, or it never came from leat",
        what, (const void *)share);
}

static uint32_t slot_of(uint64_t number)
{
    return (uint32_t)(number % LEATI_SHARE_SLOTS);
}

/* Returns true if a counter has reached a number, as streams compare them. */
static bool has_reached(uint32_t counter, uint64_t number)
{
    return (int32_t)(counter - (uint32_t)number) >= 0;
}

/* Returns true if this process's stream has executed operation number. Acquire: pairs with the stream's write, so
 * that afterwards nothing of the operation uses the page any more. */
static bool is_executed(const _Atomic uint32_t *slots, uint64_t number)
{
    return atomic_load_explicit(&slots[slot_of(number)], memory_order_acquire) == (uint32_t)number;
}

/* Returns the first number whose operation may still be under way; older slots have been used again since. */
static uint64_t oldest(uint64_t latest)
{
    return latest > LEATI_SHARE_SLOTS ? latest - LEATI_SHARE_SLOTS + 1 : 1;
}

/* Counts the operations up to latest that streams have executed. */
static uint64_t count_executed(const _Atomic uint32_t *slots, uint64_t latest)
{
    uint64_t count = latest;

    for (uint64_t number = oldest(latest); number <= latest; number++)
        count -= !is_executed(slots, number);
    return count;
}

/* ---- the end of the other side ---- */

/* Returns true if the other side abandoned the share before its hand-over number was complete. Acquire: pairs with
 * publish_broken(). */
static bool is_broken(const struct leat_share *share, uint64_t number)
{
    const struct leati_share_page *page = share->page;
    unsigned other = !share->side;

    return atomic_load_explicit(&page->broken[other], memory_order_acquire) &&
           (int32_t)((uint32_t)number - atomic_load_explicit(&page->broken_from[other], memory_order_relaxed)) >=
               0;
}

/* Returns true if the other side has made its hand-over number, which can be relied on. */
static bool is_handed(const struct leat_share *share, uint64_t number)
{
    uint32_t counter =
        atomic_load_explicit(&share->page->handed[!share->side][slot_of(number)], memory_order_acquire);

    return has_reached(counter, number) && !is_broken(share, number);
}

/* Tells the other side from which number on hand-overs of this side count for nothing. From now on streams of this
 * side may run on without having been handed anything, so later hand-overs may be made of garbage. */
static void publish_broken(struct leat_share *share)
{
    uint64_t number = oldest(share->handed);

    while (number <= share->handed && is_executed(share->counters->handed, number))
        number++;
    atomic_store_explicit(&share->page->broken_from[share->side], (uint32_t)number, memory_order_relaxed);
    /* Release: see is_broken(). Sequentially consistent, so that it also comes before the counters that end waits.
     */
    atomic_store(&share->page->broken[share->side], 1);
}

static void fail_stream(const struct leat_share *share, leat_stream *stream, uint64_t number)
{
    char message[256];

    snprintf(
        message, sizeof message,
        "leat_share_take_over: the process that shares %p ended, destroyed its share or was abandoned before its hand-over %llu, so what this stream did afterwards used memory that was not handed over",
        share->ptr, (unsigned long long)number);
    leati_timeline_failed(stream->timeline, LEAT_ERROR_LINK, message);
}

/* Reports the failure to a stream, if it is still there. */
static void report(struct leat_share *share, uint64_t stream_serial, uint64_t number)
{
    struct leat_device *device = share->device;

    leati_lock(&device->lock);
    for (struct leati_link *at = device->streams.next; at != &device->streams; at = at->next) {
        leat_stream *stream = LEATI_CONTAINER_OF(at, leat_stream);

        if (stream->timeline->serial == stream_serial)
            fail_stream(share, stream, number);
    }
    leati_unlock(&device->lock);
}

/* Ends the wait of take-over number, if the hand-over has not been made. tells: reports it, but each take-over once. */
static void end_wait(struct leat_share *share, uint64_t number, bool tells)
{
    _Atomic uint32_t *counter = &share->page->handed[!share->side][slot_of(number)];
    bool passed = is_executed(share->counters->taken, number);

    if (is_handed(share, number))
        return;
    if (tells && (!passed || is_broken(share, number))) {
        report(share, share->takers[slot_of(number)], number);
        share->takers[slot_of(number)] = 0;
    }
    /* A hand-over that the other side's stream still makes writes this number too, so it undoes nothing. */
    if (!has_reached(atomic_load_explicit(counter, memory_order_relaxed), number))
        atomic_store_explicit(counter, (uint32_t)number, memory_order_release);
}

void leati_share_lost(struct leat_share *share, bool by_us)
{
    bool first;

    leati_lock(&share->lock);
    first = !share->gone;
    /* Before streams run on: also if the other side gave this one up, because it may still take over what they hand
     * over then. */
    if (first)
        publish_broken(share);
    share->gone = true;
    /* Every time: the other process may write the counters as long as it lives. The watching thread reports the first
     * time only, because the device may be closing and its streams may end then. */
    for (uint64_t number = oldest(share->taken); number <= share->taken; number++)
        end_wait(share, number, first || by_us);
    if (by_us && share->life >= 0)
        (void)shutdown(share->life, SHUT_RDWR);
    leati_unlock(&share->lock);
}

/* A stream was waited for. Reports its take-overs of which the other side has said meanwhile that they count for
 * nothing: it says so before its own streams run on, but the thread that watches it may not have noticed yet. */
static void settle_take_overs(struct leat_share *share, void *argument)
{
    leat_stream *stream = argument;

    leati_lock(&share->lock);
    if (atomic_load_explicit(&share->page->broken[!share->side], memory_order_acquire))
        for (uint64_t number = oldest(share->taken); number <= share->taken; number++)
            if (share->takers[slot_of(number)] == stream->timeline->serial &&
                is_executed(share->counters->taken, number) && is_broken(share, number)) {
                fail_stream(share, stream, number);
                share->takers[slot_of(number)] = 0;
            }
    leati_unlock(&share->lock);
}

void leati_shares_stream_waited(struct leat_stream *stream)
{
    leati_share_each(stream->device, settle_take_overs, stream);
}

static void abandon(struct leat_share *share, void *unused)
{
    (void)unused;
    leati_share_lost(share, true);
}

leat_status leat_share_abandon(leat_share *share)
{
    if (!share)
        return LEAT_OK;
    LEATI_TRY(check_share("leat_share_abandon", share));
    leati_share_lost(share, true);
    return LEAT_OK;
}

/* ---- the counters ---- */

static leat_status fail_system(const char *call)
{
    return leati_fail(LEAT_ERROR_SYSTEM, "%s: %s", call, strerror(errno));
}

/* Maps memory for counters. fd -1: private memory. */
static leat_status map_counters(int fd, size_t bytes, void **mapped)
{
    int kind = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, kind, fd, 0);

    if (ptr == MAP_FAILED)
        return fail_system("mmap of counters");
    *mapped = ptr;
    return LEAT_OK;
}

/* Creates the memory file of the page. */
static leat_status create_page(struct leat_share *share)
{
    /* The seal against executing needs a newer Linux, and some systems require a choice. */
    const unsigned noexec = 8; /* MFD_NOEXEC_SEAL */
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    void *mapped = NULL;

    share->page_fd = (int)syscall(SYS_memfd_create, "leat share", flags | noexec);
    if (share->page_fd < 0 && errno == EINVAL)
        share->page_fd = (int)syscall(SYS_memfd_create, "leat share", flags);
    if (share->page_fd < 0)
        return fail_system("memfd_create");
    if (ftruncate(share->page_fd, LEATI_SHARE_PAGE_BYTES))
        return fail_system("ftruncate of a memory file");
    if (fcntl(share->page_fd, F_ADD_SEALS, PAGE_SEALS))
        return fail_system("fcntl to seal a memory file");
    LEATI_TRY(map_counters(share->page_fd, LEATI_SHARE_PAGE_BYTES, &mapped));
    share->page = mapped;
    atomic_store_explicit(&share->page->magic, LEATI_SHARE_MAGIC, memory_order_relaxed);
    return LEAT_OK;
}

/* Maps the page that another process has sent. The seals keep it from shrinking while it is mapped, which would
 * crash this process. */
static leat_status map_page(struct leat_share *share, int fd)
{
    int seals = fcntl(fd, F_GET_SEALS), flags = fcntl(fd, F_GETFL);
    struct stat file;
    void *mapped = NULL;

    if (seals < 0 || flags < 0 || (seals & PAGE_SEALS) != PAGE_SEALS ||
        (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) || (flags & O_ACCMODE) != O_RDWR || fstat(fd, &file) ||
        file.st_size != LEATI_SHARE_PAGE_BYTES)
        return leati_fail(LEAT_ERROR_INVALID,
                          "the second descriptor is not the counters of a share: a sealed memory file of %d bytes",
                          LEATI_SHARE_PAGE_BYTES);
    LEATI_TRY(map_counters(fd, LEATI_SHARE_PAGE_BYTES, &mapped));
    share->page = mapped;
    if (atomic_load_explicit(&share->page->magic, memory_order_relaxed) != LEATI_SHARE_MAGIC)
        return leati_fail(LEAT_ERROR_INVALID, "the second descriptor is not the counters of a share");
    return LEAT_OK;
}

static leat_status find_on_device(const void *ptr, char **on_device)
{
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;

    LEATI_TRY(leat_pointer_get_info(ptr, &info));
    *on_device = info.device_pointer;
    return LEAT_OK;
}

/* Makes the counters usable for streams. */
static leat_status register_counters(struct leat_share *share)
{
    struct leati_driver *driver = share->device->driver;
    void *mapped = NULL;

    if (!driver->ops->stream_mem_ops)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "streams of the %s driver cannot wait for counters",
                          driver->name);
    LEATI_TRY(map_counters(-1, LEATI_SHARE_PRIVATE_BYTES, &mapped));
    share->counters = mapped;
    share->takers = calloc(LEATI_SHARE_SLOTS, sizeof *share->takers);
    if (!share->takers)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the numbers of streams");
    LEATI_TRY(leat_register(share->device, share->page, LEATI_SHARE_PAGE_BYTES));
    share->page_registered = true;
    LEATI_TRY(leat_register(share->device, share->counters, LEATI_SHARE_PRIVATE_BYTES));
    share->counters_registered = true;
    LEATI_TRY(find_on_device(share->page, &share->page_on_device));
    return find_on_device(share->counters, &share->counters_on_device);
}

/* Returns the address for streams of a counter in the page or in the private counters. */
static _Atomic uint32_t *page_counter(struct leat_share *share, unsigned side, uint64_t number)
{
    size_t offset = (size_t)((char *)&share->page->handed[side][slot_of(number)] - (char *)share->page);

    return (_Atomic uint32_t *)(void *)(share->page_on_device + offset);
}

static _Atomic uint32_t *private_counter(struct leat_share *share, const _Atomic uint32_t *slots, uint64_t number)
{
    size_t offset = (size_t)((const char *)&slots[slot_of(number)] - (const char *)share->counters);

    return (_Atomic uint32_t *)(void *)(share->counters_on_device + offset);
}

/* ---- creating and ending ---- */

static leat_share *new_share(leat_device *device, unsigned side)
{
    leat_share *share = leati_handle_new(&share_handles);

    if (!share)
        return NULL;
    share->device = device;
    share->side = side;
    share->life = share->memory_fd = share->page_fd = share->other_life = -1;
    leati_lock_init(&share->turn);
    leati_lock_init(&share->lock);
    return share;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static leat_status first_of(leat_status first, leat_status second)
{
    return first != LEAT_OK ? first : second;
}

/* Unmaps the counters. If the driver does not give them up, they stay mapped, because it may still use them. */
static leat_status end_counters(struct leat_share *share)
{
    leat_status status = LEAT_OK, ended;

    if (share->page_registered) {
        ended = leat_unregister(share->page);
        share->page = ended == LEAT_OK ? share->page : NULL;
        status = first_of(status, ended);
    }
    if (share->counters_registered) {
        ended = leat_unregister(share->counters);
        share->counters = ended == LEAT_OK ? share->counters : NULL;
        status = first_of(status, ended);
    }
    if (share->page)
        munmap(share->page, LEATI_SHARE_PAGE_BYTES);
    if (share->counters)
        munmap(share->counters, LEATI_SHARE_PRIVATE_BYTES);
    free(share->takers);
    return status;
}

/* Unmaps received memory. */
static leat_status end_memory(struct leat_share *share)
{
    leat_status status = LEAT_OK;

    if (share->side && share->ptr) {
        status = leat_virtual_unmap(share->ptr, share->memory_bytes);
        status = first_of(status, leat_virtual_unreserve(share->ptr));
    }
    if (share->physical)
        status = first_of(status, leat_physical_release(share->physical));
    return status;
}

/* Frees a share that is in no list. */
static leat_status end_share(struct leat_share *share)
{
    leat_status status = end_counters(share);

    status = first_of(status, end_memory(share));
    /* A child of this process may still have the socket. */
    if (share->life >= 0)
        (void)shutdown(share->life, SHUT_RDWR);
    close_fd(&share->life);
    close_fd(&share->memory_fd);
    close_fd(&share->page_fd);
    close_fd(&share->other_life);
    leati_lock_destroy(&share->turn);
    leati_lock_destroy(&share->lock);
    leati_handle_free(&share_handles, share);
    return status;
}

/* Frees a share that was not published, without changing this thread's message. */
static void drop_share(struct leat_share *share)
{
    (void)LEATI_QUIETLY(end_share(share));
}

/* Starts to watch the other side, and gives the share to the program. */
static leat_status publish(struct leat_share *made, leat_share **share)
{
    leati_pool_set_hooks(made->device);
    LEATI_TRY(leati_share_watch_begin(made));
    leati_handle_publish(made);
    *share = made;
    return LEAT_OK;
}

/* ---- creating ---- */

/* Exports a block, and clears the rest of its last page, which may hold what an earlier block left there. The
 * other process must not see the page before that is done. */
static leat_status export_block(struct leat_share *share, leat_stream *stream, void *ptr)
{
    struct leati_driver *driver = stream->device->driver;
    struct leati_exported exported = {.fd = -1};
    size_t rest_bytes;
    leat_status status;
    char *rest;

    LEATI_TRY(leati_block_export(ptr, share->access, &exported));
    share->memory_fd = exported.fd;
    share->ptr = ptr;
    share->bytes = exported.requested_bytes;
    share->memory_bytes = exported.bytes;
    rest = (char *)ptr + exported.requested_bytes;
    rest_bytes = exported.bytes - exported.requested_bytes;
    /* The pool may have submitted the work that clears the block. */
    if (!rest_bytes)
        return exported.pool->scrub ? leati_stream_finish(stream) : LEAT_OK;
    leati_track_forget(exported.pool, (uintptr_t)rest, rest_bytes);
    leati_stream_piece_begins(stream);
    status = driver->ops->fill(driver, stream->native, rest, 0, 1, rest_bytes);
    leati_stream_piece_ends(stream);
    leati_timeline_submitted(stream->timeline);
    LEATI_TRY(status);
    return leati_stream_finish(stream);
}

static leat_status export_physical(struct leat_share *share, void *ptr)
{
    struct leati_mapped mapped;
    leat_status status = LEAT_OK;

    LEATI_TRY(leati_physical_at(ptr, &mapped));
    if (mapped.device != share->device)
        status = leati_fail(LEAT_ERROR_INVALID, "%p is memory of %s; share it with a stream of that device", ptr,
                            mapped.device->name);
    else if (mapped.access == LEAT_ACCESS_NONE ||
             (mapped.access == LEAT_ACCESS_READ && share->access != LEAT_ACCESS_READ))
        status =
            leati_fail(LEAT_ERROR_INVALID,
                       "%p is mapped with less access than the share would give (leat_virtual_set_access)", ptr);
    if (status == LEAT_OK)
        status = leati_physical_export(mapped.physical, share->access, &share->memory_fd);
    (void)LEATI_QUIETLY(leat_physical_release(mapped.physical));
    share->ptr = ptr;
    share->bytes = mapped.bytes;
    share->memory_bytes = mapped.physical_bytes;
    return status;
}

static leat_status check_can_export(const struct leat_share *share)
{
    if (!share->device->driver->ops->vm_export)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "the %s driver cannot export memory",
                          share->device->driver->name);
    if (share->access == LEAT_ACCESS_READ && !share->device->driver->ops->vm_set_rights)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "the %s driver cannot map memory for reading only",
                          share->device->driver->name);
    return LEAT_OK;
}

static leat_status export_memory(struct leat_share *share, leat_stream *stream, void *ptr)
{
    struct leat_pool *pool = NULL;
    struct leati_endpoint endpoint;

    (void)leati_block_find(ptr, &pool);
    if (pool && pool->device != stream->device)
        return leati_fail(LEAT_ERROR_INVALID, "%p is memory of %s; share it with a stream of that device", ptr,
                          pool->device->name);
    if (pool)
        return export_block(share, stream, ptr);
    if (leat_virtual_get_reservation(ptr, NULL, NULL) == LEAT_OK)
        return export_physical(share, ptr);
    LEATI_TRY(leati_pointers_find_unread(NULL, "ptr", ptr, 1, true, &endpoint));
    return leati_fail(
        LEAT_ERROR_POINTER,
        "%p is %s memory that the driver cannot export; use a block of a pool with exportable, or memory of leat_physical_create() with LEAT_PHYSICAL_EXPORTABLE",
        ptr, leat_kind_name(endpoint.location.kind));
}

static leat_status create(leat_share *made, leat_stream *stream, void *ptr)
{
    LEATI_TRY(check_can_export(made));
    LEATI_TRY(create_page(made));
    LEATI_TRY(register_counters(made));
    /* Last, because it may seal the memory against writes for ever. */
    return export_memory(made, stream, ptr);
}

leat_status leat_share_create(leat_stream *stream, void *ptr, const leat_share_options *options,
                              leat_share **share)
{
    leat_share_options given = LEAT_SHARE_OPTIONS_INIT;
    leat_status status;
    leat_share *made;

    LEATI_TRY(leati_check_permitted("leat_share_create"));
    LEATI_TRY(leati_check_stream("leat_share_create", stream));
    LEATI_TRY(leati_check_not_null("leat_share_create", "share", share));
    if (options) {
        LEATI_TRY(LEATI_SIZED_CHECK("leat_share_create", "options", leat_share_options, options));
        LEATI_SIZED_READ(&given, options);
    }
    if (!given.access)
        given.access = LEAT_ACCESS_READ_WRITE;
    if (given.access != LEAT_ACCESS_READ && given.access != LEAT_ACCESS_READ_WRITE)
        return leati_fail(LEAT_ERROR_INVALID, "leat_share_create: there is no access %d", (int)given.access);
    if (!ptr)
        return leati_fail(LEAT_ERROR_POINTER, "leat_share_create: ptr is NULL");
    made = new_share(stream->device, 0);
    if (!made)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "leat_share_create: no memory for the handle");
    made->access = given.access;
    status = create(made, stream, ptr);
    if (status == LEAT_OK)
        status = publish(made, share);
    if (status == LEAT_OK)
        return LEAT_OK;
    drop_share(made);
    return leati_fail_in(status, "leat_share_create of %p on %s", ptr, stream->device->name);
}

/* ---- sending and receiving ---- */

/* Describes the memory and its device. */
static leat_status describe(const struct leat_share *share, struct leati_share_message *message)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    LEATI_TRY(leat_device_get_info(share->device, &info));
    *message = (struct leati_share_message){.magic = LEATI_SHARE_MAGIC,
                                            .version = 1,
                                            .access = (uint32_t)share->access,
                                            .bytes = share->bytes,
                                            .memory_bytes = share->memory_bytes,
                                            .ordinal = info.ordinal};
    snprintf(message->driver, sizeof message->driver, "%s", info.driver);
    snprintf(message->pci_address, sizeof message->pci_address, "%s", info.pci_address);
    snprintf(message->model, sizeof message->model, "%s", info.model);
    /* A model with other characters than printable ones would be refused. */
    for (char *at = message->model; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
    return LEAT_OK;
}

/* Makes the two sockets by which the sides notice each other's end. No earlier than the share is sent: a child that
 * this process makes by fork() in between would keep the other side's end open. */
static leat_status make_life(leat_share *share)
{
    int ends[2];

    if (share->life >= 0)
        return LEAT_OK;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return fail_system("socketpair");
    leati_lock(&share->lock);
    share->life = ends[0];
    if (share->gone) /* abandoned before */
        (void)shutdown(share->life, SHUT_RDWR);
    leati_unlock(&share->lock);
    share->other_life = ends[1];
    return leati_share_watch_socket(share);
}

static leat_status send_share(leat_share *share, int socket_fd)
{
    int fds[LEATI_SHARE_FDS] = {share->memory_fd, share->page_fd};
    struct leati_share_message message;

    if (share->side)
        return leati_fail(LEAT_ERROR_INVALID, "the share was received; only the side that created it sends it");
    if (share->sent)
        return leati_fail(LEAT_ERROR_INVALID,
                          "the share was sent before; it connects two processes: create another one");
    LEATI_TRY(describe(share, &message));
    LEATI_TRY(make_life(share));
    fds[2] = share->other_life;
    LEATI_TRY(leati_share_message_send(socket_fd, &message, fds));
    leati_lock(&share->lock);
    share->sent = true;
    leati_unlock(&share->lock);
    close_fd(&share->memory_fd);
    close_fd(&share->page_fd);
    /* Only the receiver has the other end now, so its end is noticed. */
    close_fd(&share->other_life);
    return LEAT_OK;
}

leat_status leat_share_send(leat_share *share, int socket_fd)
{
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_share_send"));
    LEATI_TRY(check_share("leat_share_send", share));
    leati_lock(&share->turn);
    status = send_share(share, socket_fd);
    leati_unlock(&share->turn);
    return status >= LEAT_OK ? status : leati_fail_in(status, "leat_share_send of %p", share->ptr);
}

/* Checks that the sender's device is this one. */
static leat_status check_device(leat_device *device, const struct leati_share_message *message)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    bool same;

    LEATI_TRY(leat_device_get_info(device, &info));
    same = !strcmp(info.driver, message->driver);
    if (info.pci_address[0] || message->pci_address[0])
        same = same && !strcmp(info.pci_address, message->pci_address);
    else
        same = same && info.ordinal == message->ordinal;
    if (same)
        return LEAT_OK;
    return leati_fail(
        LEAT_ERROR_INVALID,
        "the memory is on %s:%d of the sender (%s%s%s), and %s is another device (%s): receive it there",
        message->driver, message->ordinal, message->model, message->pci_address[0] ? ", " : "",
        message->pci_address, device->name, info.pci_address);
}

/* Takes the receiver's side, which only one process can have. */
static leat_status take_side(struct leat_share *share)
{
    uint32_t nobody = 0;

    if (atomic_compare_exchange_strong(&share->page->received, &nobody, 1))
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_BUSY, "the share was received before; it connects two processes only");
}

static leat_status map_memory(struct leat_share *share, int fd)
{
    leat_status status;
    void *reserved;

    LEATI_TRY(leati_physical_import(share->device, fd, share->memory_bytes, share->access, &share->physical));
    LEATI_TRY(leat_virtual_reserve(share->device, share->memory_bytes, 0, &reserved));
    status = leat_virtual_map(reserved, share->memory_bytes, share->physical);
    if (status != LEAT_OK) {
        (void)LEATI_QUIETLY(leat_virtual_unreserve(reserved));
        return status;
    }
    share->ptr = reserved;
    return leat_virtual_set_access(share->device, reserved, share->memory_bytes, share->access);
}

/* fds: memory, page, life. Takes only life. */
static leat_status receive(leat_share *made, const struct leati_share_message *message, int fds[LEATI_SHARE_FDS])
{
    int domain = 0;
    socklen_t bytes = sizeof domain;

    made->access = (leat_access)message->access;
    made->bytes = (size_t)message->bytes;
    made->memory_bytes = (size_t)message->memory_bytes;
    if (getsockopt(fds[2], SOL_SOCKET, SO_DOMAIN, &domain, &bytes) || domain != AF_UNIX)
        return leati_fail(LEAT_ERROR_INVALID, "the third descriptor is not the socket of a share");
    LEATI_TRY(check_device(made->device, message));
    LEATI_TRY(map_page(made, fds[1]));
    LEATI_TRY(take_side(made));
    LEATI_TRY(map_memory(made, fds[0]));
    LEATI_TRY(register_counters(made));
    made->life = fds[2];
    fds[2] = -1;
    return LEAT_OK;
}

static leat_status receive_share(leat_device *device, int socket_fd, leat_share **share)
{
    struct leati_share_message message;
    int fds[LEATI_SHARE_FDS];
    leat_share *made = NULL;
    leat_status status;

    if (!device->driver->ops->vm_import)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "the %s driver cannot import memory", device->driver->name);
    LEATI_TRY(leati_share_message_receive(socket_fd, &message, fds));
    made = new_share(device, 1);
    if (made)
        status = receive(made, &message, fds);
    else
        status = leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the handle");
    if (status == LEAT_OK)
        status = publish(made, share);
    for (int i = 0; i < LEATI_SHARE_FDS; i++)
        close_fd(&fds[i]);
    if (status != LEAT_OK && made)
        drop_share(made);
    return status;
}

leat_status leat_share_receive(leat_device *device, int socket_fd, leat_share **share)
{
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_share_receive"));
    LEATI_TRY(leati_check_device("leat_share_receive", device));
    LEATI_TRY(leati_check_not_null("leat_share_receive", "share", share));
    status = receive_share(device, socket_fd, share);
    return status >= LEAT_OK ? status : leati_fail_in(status, "leat_share_receive on %s", device->name);
}

/* ---- handing over ---- */

static leat_status check_use(const char *what, leat_stream *stream, leat_share *share)
{
    LEATI_TRY(leati_check_permitted(what));
    LEATI_TRY(leati_check_stream(what, stream));
    LEATI_TRY(check_share(what, share));
    if (stream->device != share->device)
        return leati_fail(LEAT_ERROR_INVALID, "%s: the memory is of %s, and the stream of %s", what,
                          share->device->name, stream->device->name);
    return LEAT_OK;
}

static leat_status fail_gone(const struct leat_share *share, const char *missing)
{
    return leati_fail(LEAT_ERROR_LINK,
                      "the other process that shares %p has ended, has destroyed its share or was abandoned%s",
                      share->ptr, missing);
}

/* Fails if the slot of number is still in use by an operation of this side. */
static leat_status check_room(const _Atomic uint32_t *slots, uint64_t number, const char *operations)
{
    if (number <= LEATI_SHARE_SLOTS || is_executed(slots, number - LEATI_SHARE_SLOTS))
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_BUSY,
                      "%d %s are under way and their streams have not executed the oldest; wait for the streams",
                      LEATI_SHARE_SLOTS, operations);
}

/* Numbers a hand-over. Call with the turn held. */
static leat_status begin_hand_over(leat_share *share, uint64_t *number)
{
    leat_status status = LEAT_OK;

    leati_assert_locked(&share->turn);
    leati_lock(&share->lock);
    if (share->gone)
        status = fail_gone(share, "");
    else
        status = check_room(share->counters->handed, share->handed + 1, "hand-overs");
    if (status == LEAT_OK)
        *number = ++share->handed;
    leati_unlock(&share->lock);
    return status;
}

/* Takes a number back whose operation the driver has refused. */
static void undo(leat_share *share, uint64_t *latest)
{
    leati_assert_locked(&share->turn);
    leati_lock(&share->lock);
    --*latest;
    leati_unlock(&share->lock);
}

static leat_status hand_over(leat_stream *stream, leat_share *share)
{
    struct leati_mem_op ops[2] = {{.wait = false}, {.wait = false}};
    uint64_t number = 0;
    leat_status status;

    LEATI_TRY(begin_hand_over(share, &number));
    ops[0].flag = page_counter(share, share->side, number);
    ops[1].flag = private_counter(share, share->counters->handed, number);
    ops[0].value = ops[1].value = (uint32_t)number;
    status = leati_counter_submit(stream, ops, 2);
    if (status != LEAT_OK)
        undo(share, &share->handed);
    return status;
}

leat_status leat_share_hand_over(leat_stream *stream, leat_share *share)
{
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_OTHER, "leat_share_hand_over");
    LEATI_TRY(check_use("leat_share_hand_over", stream, share));
    leati_lock(&share->turn);
    status = hand_over(stream, share);
    leati_unlock(&share->turn);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_share_hand_over on %s", stream->device->name);
}

/* Numbers a take-over, and keeps which stream makes it. Call with the turn held. */
static leat_status begin_take_over(leat_share *share, const leat_stream *stream, uint64_t *number)
{
    leat_status status;

    leati_assert_locked(&share->turn);
    leati_lock(&share->lock);
    *number = share->taken + 1;
    if (share->gone && !is_handed(share, *number))
        status = fail_gone(share, " before it handed the memory over");
    else
        status = check_room(share->counters->taken, *number, "take-overs");
    if (status == LEAT_OK) {
        share->taken = *number;
        share->takers[slot_of(*number)] = stream->timeline->serial;
    }
    leati_unlock(&share->lock);
    return status;
}

static leat_status take_over(leat_stream *stream, leat_share *share)
{
    struct leati_mem_op ops[2] = {{.wait = true}, {.wait = false}};
    uint64_t number = 0;
    leat_status status;

    LEATI_TRY(begin_take_over(share, stream, &number));
    atomic_store_explicit(&stream->timeline->takes_over, true, memory_order_relaxed);
    ops[0].flag = page_counter(share, !share->side, number);
    ops[1].flag = private_counter(share, share->counters->taken, number);
    ops[0].value = ops[1].value = (uint32_t)number;
    status = leati_counter_submit(stream, ops, 2);
    if (status != LEAT_OK)
        undo(share, &share->taken);
    return status;
}

leat_status leat_share_take_over(leat_stream *stream, leat_share *share)
{
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_EVENT_WAIT, "leat_share_take_over");
    LEATI_TRY(check_use("leat_share_take_over", stream, share));
    leati_lock(&share->turn);
    status = take_over(stream, share);
    leati_unlock(&share->turn);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_share_take_over on %s", stream->device->name);
}

/* ---- describing ---- */

leat_status leat_share_get_pointer(leat_share *share, void **ptr, size_t *bytes)
{
    LEATI_TRY(check_share("leat_share_get_pointer", share));
    if (ptr)
        *ptr = share->ptr;
    if (bytes)
        *bytes = share->bytes;
    return LEAT_OK;
}

leat_status leat_share_get_info(leat_share *share, leat_share_info *info)
{
    leat_share_info filled;

    LEATI_TRY(check_share("leat_share_get_info", share));
    LEATI_TRY(LEATI_SIZED_CHECK("leat_share_get_info", "info", leat_share_info, info));
    memset(&filled, 0, sizeof filled);
    filled.device = share->device;
    filled.ptr = share->ptr;
    filled.bytes = share->bytes;
    filled.memory_bytes = share->memory_bytes;
    filled.access = share->access;
    filled.received = share->side == 1;
    leati_lock(&share->lock);
    filled.sent = share->sent;
    filled.gone = share->gone;
    filled.hand_overs = share->handed;
    filled.hand_overs_done = count_executed(share->counters->handed, share->handed);
    filled.take_overs = share->taken;
    filled.take_overs_done = count_executed(share->counters->taken, share->taken);
    leati_unlock(&share->lock);
    LEATI_SIZED_WRITE(info, &filled);
    return LEAT_OK;
}

/* ---- the end ---- */

/* Fails if a stream still needs the counters. */
static leat_status check_unused(struct leat_share *share)
{
    uint64_t left;

    leati_lock(&share->lock);
    left = share->handed - count_executed(share->counters->handed, share->handed) + share->taken -
           count_executed(share->counters->taken, share->taken);
    leati_unlock(&share->lock);
    if (!left)
        return LEAT_OK;
    return leati_fail(
        LEAT_ERROR_BUSY,
        "streams have not executed %llu hand-overs and take-overs yet; wait for them, and if they wait for the other process call leat_share_abandon() first",
        (unsigned long long)left);
}

leat_status leat_share_destroy(leat_share *share)
{
    leat_status status;

    if (!share)
        return LEAT_OK;
    LEATI_TRY(leati_check_permitted("leat_share_destroy"));
    LEATI_TRY(check_share("leat_share_destroy", share));
    status = check_unused(share);
    if (status != LEAT_OK)
        return leati_fail_in(status, "leat_share_destroy of %p", share->ptr);
    if (!leati_handle_retire(&share_handles, share))
        return check_share("leat_share_destroy", share);
    leati_share_watch_end(share);
    status = end_share(share);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_share_destroy: it is gone, but");
}

void leati_shares_abandon(struct leat_device *device)
{
    leati_share_each(device, abandon, NULL);
}

leat_status leati_shares_close(struct leat_device *device)
{
    leat_status status = LEAT_OK;
    struct leat_share *share;

    while ((share = leati_share_any_of(device))) {
        leati_handle_retire(&share_handles, share);
        leati_share_watch_end(share);
        status = first_of(status, end_share(share));
    }
    return status;
}
