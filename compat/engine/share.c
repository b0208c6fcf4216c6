/*
 * share.c - shares memory, pools and events with other processes.
 *
 * A handle of 64 bytes contains a number for the process that made it, and an id. A process that has the handle
 * connects to the maker by a socket in the abstract namespace, and asks for the file descriptor with this id: a
 * descriptor of exported memory, or of the page with an event's counters. A thread of the maker answers; the first
 * handle starts it. So a handle is valid as long as the maker and the shared object exist.
 *
 * Both sides check each other: the thread answers only processes of its own user and of root, and the asking
 * process accepts an answer only from the process that made the handle. No call hangs: the asking process gives up
 * after PATIENCE_MS, and the thread polls all connections, so a silent client does not delay others. If the maker
 * has no free descriptors, the thread pauses and tries again; it needs none to send an answer.
 *
 * The descriptor of a pool is a small file that identifies the process and the pool. It is sealed, so that no
 * process can change it.
 */
#include "base/lock.h"
#include "engine/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x3274656cu
#define PATIENCE_MS 5000
#define REST_MS 10
#define CLIENTS_MAX 64
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* The content of a handle. */
struct handle {
    uint32_t magic, what;
    uint64_t process; /* a random number of the process that made the handle */
    uint64_t id;
    uint64_t bytes;
    uint64_t pool;      /* the id of the pool of shared memory, or 0 */
    uint64_t pid_space; /* the PID namespace to which pid belongs; 0: unknown */
    int64_t pid;
};
_Static_assert(sizeof(struct handle) <= LEATC_SHARE_BYTES, "a handle has room in what the vendors give it");

/* A descriptor that other processes may ask for. */
struct offer {
    struct offer *next;
    uint64_t id, bytes, pool;
    uint32_t what;
    int fd;
};

/* Memory that this process has imported from another one. */
struct import {
    struct import *next;
    struct handle from;
    void *ptr;
    int ordinal;
    unsigned opened;
};

static struct leati_lock lock = LEATI_LOCK_INITIALIZER; /* guards the lists below and the start of the thread */
static struct offer *offers LEATI_GUARDED_BY(lock);
static struct import *imports LEATI_GUARDED_BY(lock);
static atomic_uint offer_count;
static int listening = -1; /* the thread's listening socket; -1: the thread does not run */
static pid_t server_pid;   /* the process that started the thread; a child of fork() does not have the thread */
static uint64_t process;

/* ---- both sides ---- */

static socklen_t address_of(uint64_t number, struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                       (size_t)snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "leat-share-%016llx",
                                        (unsigned long long)number));
}

static bool same_user(int connection, struct ucred *peer)
{
    socklen_t length = sizeof *peer;

    return !getsockopt(connection, SOL_SOCKET, SO_PEERCRED, peer, &length) &&
           (peer->uid == geteuid() || peer->uid == 0);
}

/* Returns a number that identifies this process's PID namespace, or 0. */
static uint64_t pid_space(void)
{
    struct stat space;

    return stat("/proc/self/ns/pid", &space) ? 0 : (uint64_t)space.st_ino;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void rest(void)
{
    struct timespec time = {.tv_nsec = REST_MS * 1000000};

    (void)nanosleep(&time, NULL);
}

/* Space in a message for exactly one descriptor. */
union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

/* ---- the process that shares ---- */

/* A connection whose request has not been received completely. */
struct client {
    int connection;
    size_t received;
    int64_t deadline;
    struct handle wanted;
};

/* Sends the answer to a request: fd, or no descriptor if fd is -1. The caller holds the lock, so that the
 * descriptor stays open. The connection is non-blocking, so the call never waits. */
static void send_descriptor(int connection, int fd) LEATI_REQUIRES(lock)
{
    char byte = fd >= 0;
    struct iovec part = {&byte, 1};
    union control control = {.bytes = {0}};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_LEN(sizeof fd);
        control.header =
            (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    }
    (void)sendmsg(connection, &message, MSG_NOSIGNAL);
}

static void answer(const struct client *client)
{
    const struct handle *wanted = &client->wanted;
    const struct offer *offer;

    leati_lock(&lock);
    offer = offers;
    while (offer && (offer->id != wanted->id || offer->what != wanted->what || offer->bytes != wanted->bytes ||
                     offer->pool != wanted->pool || wanted->process != process))
        offer = offer->next;
    send_descriptor(client->connection, offer ? offer->fd : -1);
    leati_unlock(&lock);
}

/* Reads the available part of a request, and answers a complete one. Returns true if the connection can be closed,
 * because it was answered or is broken. */
static bool hear(struct client *client)
{
    ssize_t got = recv(client->connection, (char *)&client->wanted + client->received,
                       sizeof client->wanted - client->received, 0);

    if (got < 0)
        return errno != EAGAIN && errno != EINTR;
    client->received += (size_t)got;
    if (got && client->received < sizeof client->wanted)
        return false;
    if (got)
        answer(client);
    return true;
}

static void forget(struct client *clients, size_t *count, size_t number)
{
    close(clients[number].connection);
    memmove(&clients[number], &clients[number + 1], (--*count - number) * sizeof *clients);
}

/* Accepts a connection. If the table is full, drops the oldest connection. Returns false if the listening socket
 * is closed. */
static bool greet(int fd, struct client *clients, size_t *count)
{
    int connection = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct ucred peer;

    if (connection < 0) {
        if (errno == EBADF || errno == ENOTSOCK || errno == EINVAL)
            return false;
        /* Descriptors or memory are exhausted (EMFILE, ENFILE, ENOBUFS, ENOMEM). The connection stays in the
         * queue; pause and try again. */
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            rest();
        return true;
    }
    if (!same_user(connection, &peer)) {
        close(connection);
        return true;
    }
    if (*count == CLIENTS_MAX)
        forget(clients, count, 0);
    clients[(*count)++] = (struct client){.connection = connection, .deadline = now_ms() + PATIENCE_MS};
    return true;
}

/* Main function of the thread. It waits only in poll() and rest(), so no client can block it. */
static void *serve(void *unused)
{
    struct client clients[CLIENTS_MAX];
    struct pollfd polled[CLIENTS_MAX + 1];
    size_t count = 0;
    int fd;

    (void)unused;
    leati_lock(&lock);
    fd = listening;
    leati_unlock(&lock);
    for (;;) {
        size_t heard = count;
        /* The connections are sorted by deadline. */
        int64_t left = count ? clients[0].deadline - now_ms() : -1;

        for (size_t i = 0; i < heard; i++)
            polled[i] = (struct pollfd){.fd = clients[i].connection, .events = POLLIN};
        polled[heard] = (struct pollfd){.fd = fd, .events = POLLIN};
        if (poll(polled, heard + 1, count && left < 0 ? 0 : (int)left) < 0) {
            rest();
            continue;
        }
        /* Go from the last entry to the first, because forget() moves the entries behind the removed one. */
        for (size_t i = heard; i-- > 0;)
            if ((polled[i].revents && hear(&clients[i])) || clients[i].deadline <= now_ms())
                forget(clients, &count, i);
        if (polled[heard].revents && !greet(fd, clients, &count))
            break;
    }
    while (count)
        forget(clients, &count, count - 1);
    leati_lock(&lock);
    listening = -1;
    leati_unlock(&lock);
    return NULL;
}

/* Starts the thread. It blocks all signals, so that signal handlers run on threads of the program. */
static bool start_thread(void)
{
    sigset_t all, before;
    pthread_attr_t detached;
    pthread_t thread;
    bool started;

    (void)sigfillset(&all);
    (void)pthread_attr_init(&detached);
    (void)pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    started = !pthread_create(&thread, &detached, serve, NULL);
    if (started)
        (void)pthread_setname_np(thread, "leat share");
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&detached);
    return started;
}

/* Runs in a child of fork(), which does not have the thread. Closes the socket: otherwise processes could still
 * connect to it after the parent has ended. */
static void close_in_child(void)
{
    if (listening >= 0)
        close(listening);
    listening = -1;
}

/* Starts the thread if this process has not started it. The caller holds the lock. */
static int start_server(void) LEATI_REQUIRES(lock)
{
    struct sockaddr_un address;
    socklen_t length;

    leati_assert_locked(&lock);
    if (listening >= 0 && server_pid == getpid())
        return LEATC_OK;
    /* This is the first call in this process, which may be a child of fork(). Choose a new number, because the
     * parent answers for the old one. */
    if (server_pid != getpid()) {
        if (getrandom(&process, sizeof process, 0) != (ssize_t)sizeof process)
            return LEATC_OPERATING_SYSTEM;
        if (!server_pid)
            (void)pthread_atfork(NULL, NULL, close_in_child);
        server_pid = getpid();
    }
    length = address_of(process, &address);
    listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listening >= 0 && !bind(listening, (struct sockaddr *)&address, length) &&
        !listen(listening, CLIENTS_MAX) && start_thread())
        return LEATC_OK;
    if (listening >= 0)
        close(listening);
    listening = -1;
    return LEATC_OPERATING_SYSTEM;
}

/* Sets the fields of a handle that identify this process. The caller holds the lock. */
static void sign(struct handle *handle) LEATI_REQUIRES(lock)
{
    leati_assert_locked(&lock);
    handle->magic = MAGIC;
    handle->process = process;
    handle->pid = getpid();
    handle->pid_space = pid_space();
}

/* ---- the process that opens ---- */

/* Connects to the process that made a handle. INVALID_VALUE: that process has ended. OPERATING_SYSTEM: no free
 * descriptor, or the deadline has passed. */
static int reach(const struct handle *handle, int64_t deadline, int *connection)
{
    struct sockaddr_un address;
    socklen_t length = address_of(handle->process, &address);

    *connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*connection < 0)
        return LEATC_OPERATING_SYSTEM;
    /* EAGAIN means that the queue of the listening socket is full. */
    while (connect(*connection, (struct sockaddr *)&address, length)) {
        int reason = errno;

        if ((reason != EAGAIN && reason != EINTR) || now_ms() >= deadline)
            return reason == ECONNREFUSED ? LEATC_INVALID_VALUE : LEATC_OPERATING_SYSTEM;
        rest();
    }
    return LEATC_OK;
}

/* Returns true if the process at the other end of the connection made the handle. Process ids are compared only if
 * both processes have the same PID namespace. */
static bool is_maker(int connection, const struct handle *handle)
{
    struct ucred peer;

    return same_user(connection, &peer) &&
           (peer.pid == handle->pid || !handle->pid_space || handle->pid_space != pid_space());
}

static int receive_descriptor(int connection, int64_t deadline, int *fd)
{
    char byte = 0;
    struct iovec part = {&byte, 1};
    union control control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_LEN(sizeof *fd)};
    struct pollfd polled = {.fd = connection, .events = POLLIN};
    const struct cmsghdr *header;
    ssize_t got;

    do {
        int64_t left = deadline - now_ms();

        if (left <= 0 || (poll(&polled, 1, (int)left) < 0 && errno != EINTR))
            return LEATC_OPERATING_SYSTEM;
        got = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && (errno == EAGAIN || errno == EINTR));
    if (got != 1 || !byte)
        return LEATC_INVALID_VALUE;
    header = CMSG_FIRSTHDR(&message);
    /* The kernel drops the descriptor if this process has no free descriptor. */
    if (!header || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof *fd))
        return LEATC_OPERATING_SYSTEM;
    memcpy(fd, CMSG_DATA(header), sizeof *fd);
    return LEATC_OK;
}

/* Asks the process that made a handle for the descriptor. INVALID_VALUE: the process or the shared object no
 * longer exists, or another process answers. OPERATING_SYSTEM: no answer in time, or no free descriptor. */
static int ask(const struct handle *handle, int *fd)
{
    int64_t deadline = now_ms() + PATIENCE_MS;
    int connection, result = reach(handle, deadline, &connection);

    if (result == LEATC_OK && !is_maker(connection, handle))
        result = LEATC_INVALID_VALUE;
    if (result == LEATC_OK && send(connection, handle, sizeof *handle, MSG_NOSIGNAL) != (ssize_t)sizeof *handle)
        result = LEATC_INVALID_VALUE;
    if (result == LEATC_OK)
        result = receive_descriptor(connection, deadline, fd);
    if (connection >= 0)
        close(connection);
    return result;
}

/* ---- offers ---- */

/* If the object of the handle is offered already, completes the handle and returns true. The caller holds the
 * lock. */
static bool is_offered(struct handle *handle) LEATI_REQUIRES(lock)
{
    struct offer *offer = server_pid == getpid() ? offers : NULL;

    leati_assert_locked(&lock);
    while (offer && (offer->id != handle->id || offer->what != handle->what))
        offer = offer->next;
    if (!offer)
        return false;
    handle->bytes = offer->bytes;
    handle->pool = offer->pool;
    sign(handle);
    return true;
}

static bool find_offer(struct handle *handle)
{
    bool found;

    leati_lock(&lock);
    found = listening >= 0 && is_offered(handle);
    leati_unlock(&lock);
    return found;
}

/* Offers fd, and takes ownership of it on success. An object has at most one offer. If another thread has offered
 * it in the meantime, closes fd; the handle then refers to the existing offer. */
static int put_offer(struct handle *handle, int fd)
{
    struct offer *offer = malloc(sizeof *offer);
    bool known = false;
    int result;

    if (!offer)
        return LEATC_OUT_OF_MEMORY;
    leati_lock(&lock);
    result = start_server();
    if (result == LEATC_OK) {
        known = is_offered(handle);
        if (!known) {
            *offer = (struct offer){.next = offers,
                                    .id = handle->id,
                                    .bytes = handle->bytes,
                                    .pool = handle->pool,
                                    .what = handle->what,
                                    .fd = fd};
            offers = offer;
            atomic_fetch_add(&offer_count, 1);
            (void)is_offered(handle);
        }
    }
    leati_unlock(&lock);
    if (known)
        close(fd);
    if (known || result != LEATC_OK)
        free(offer);
    return result;
}

void leatc_share_end(unsigned what, unsigned long long id)
{
    if (!atomic_load_explicit(&offer_count, memory_order_relaxed))
        return;
    leati_lock(&lock);
    for (struct offer **link = &offers; *link; link = &(*link)->next)
        if ((*link)->id == id && (*link)->what == what) {
            struct offer *ended = *link;

            *link = ended->next;
            atomic_fetch_sub(&offer_count, 1);
            close(ended->fd);
            free(ended);
            break;
        }
    leati_unlock(&lock);
}

static void write_handle(const struct handle *handle, void *to)
{
    memset(to, 0, LEATC_SHARE_BYTES);
    memcpy(to, handle, sizeof *handle);
}

int leatc_share_offer(unsigned what, unsigned long long id, size_t bytes, int fd, void *handle)
{
    struct handle made = {.what = what, .id = id, .bytes = bytes};

    LEATC_TRY(put_offer(&made, fd));
    write_handle(&made, handle);
    return LEATC_OK;
}

static int read_handle(const void *from, unsigned what, struct handle *handle)
{
    memcpy(handle, from, sizeof *handle);
    return handle->magic == MAGIC && handle->what == what ? LEATC_OK : LEATC_INVALID_VALUE;
}

static bool is_own(const struct handle *handle)
{
    bool own;

    leati_lock(&lock);
    own = server_pid == getpid() && handle->process == process;
    leati_unlock(&lock);
    return own;
}

int leatc_share_ask(const void *from, unsigned what, size_t *bytes, int *fd)
{
    struct handle handle;
    int result;

    LEATC_TRY(leatc_init());
    LEATC_TRY(read_handle(from, what, &handle));
    if (is_own(&handle))
        return LEATC_INVALID_CONTEXT;
    *bytes = (size_t)handle.bytes;
    result = ask(&handle, fd);
    return result == LEATC_INVALID_VALUE ? LEATC_INVALID_HANDLE : result;
}

/* ---- memory ---- */

/* Makes the handle of an allocation of device memory. */
static int share(const struct leatc_memory *memory, void *handle)
{
    struct handle made = {
        .what = LEATC_SHARE_MEMORY, .id = memory->id, .pool = memory->pool ? leatc_pool_id(memory->pool) : 0};
    leat_status status;
    size_t bytes = 0;
    int fd = -1, result;

    if (!find_offer(&made)) {
        status = leat_block_export(memory->base, &fd, &bytes);
        if (status == LEAT_ERROR_POINTER)
            return LEATC_NOT_SUPPORTED; /* the block lies in the same memory as other blocks of a pool */
        LEATC_TRY(leatc_result_of(status));
        made.bytes = bytes;
        result = put_offer(&made, fd);
        if (result != LEATC_OK) {
            close(fd);
            return result;
        }
    }
    write_handle(&made, handle);
    return LEATC_OK;
}

int leatc_share_memory(const void *ptr, void *handle)
{
    struct leatc_memory memory;

    LEATC_TRY(leatc_init());
    LEATC_TRY(leatc_memory_find(ptr, &memory));
    return memory.kind == LEATC_MEMORY_DEVICE ? share(&memory, handle) : LEATC_INVALID_VALUE;
}

int leatc_share_pointer(const void *ptr, void *data)
{
    struct leatc_memory memory;
    int result;

    LEATC_TRY(leatc_init());
    LEATC_TRY(leatc_memory_find(ptr, &memory));
    result = memory.pool ? share(&memory, data) : LEATC_INVALID_VALUE;
    return result == LEATC_NOT_SUPPORTED ? LEATC_INVALID_VALUE : result;
}

static int map_memory(const struct handle *handle, struct leatc_device *device, struct import *import)
{
    struct leatc_memory memory = {
        .bytes = (size_t)handle->bytes, .kind = LEATC_MEMORY_DEVICE, .ordinal = device->ordinal, .foreign = true};
    leat_status status;
    int result, fd;

    LEATC_TRY(ask(handle, &fd));
    status = leat_block_import(atomic_load(&device->native), fd, memory.bytes, &memory.base);
    close(fd);
    LEATC_TRY(leatc_result_of(status));
    import->ordinal = memory.ordinal;
    import->ptr = memory.base;
    result = leatc_memory_add(&memory);
    if (result != LEATC_OK)
        leat_memory_free(memory.base);
    return result;
}

/* Finds the import of a handle that is open already, and counts one more opening. Returns NULL if the handle is
 * not open. The caller holds the lock. */
static struct import *open_again(const struct handle *handle) LEATI_REQUIRES(lock)
{
    struct import *import = imports;

    leati_assert_locked(&lock);
    while (import && memcmp(&import->from, handle, sizeof *handle) != 0)
        import = import->next;
    if (import)
        import->opened++;
    return import;
}

/* Maps the memory of a handle, or returns the address of the existing mapping. */
static int open_handle(const struct handle *handle, struct leatc_device *device, void **ptr)
{
    struct import *import, *made;
    int result;

    leati_lock(&lock);
    import = open_again(handle);
    if (import)
        *ptr = import->ptr;
    leati_unlock(&lock);
    if (import)
        return LEATC_OK;
    made = malloc(sizeof *made);
    if (!made)
        return LEATC_OUT_OF_MEMORY;
    *made = (struct import){.from = *handle, .opened = 1};
    result = map_memory(handle, device, made);
    if (result != LEATC_OK) {
        free(made);
        return result;
    }
    leati_lock(&lock);
    import = open_again(handle);
    if (!import) {
        made->next = imports;
        imports = made;
    }
    *ptr = import ? import->ptr : made->ptr;
    leati_unlock(&lock);
    if (import) {
        /* Another thread has mapped the memory in the meantime. All openings must return the same address, so drop
         * this mapping. */
        (void)leatc_memory_remove(made->ptr);
        (void)leat_memory_free(made->ptr);
        free(made);
    }
    return LEATC_OK;
}

int leatc_share_open(const void *from, void **ptr)
{
    struct leatc_device *device;
    struct handle handle;
    int result;

    LEATC_TRY(leatc_init());
    if (!ptr)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(read_handle(from, LEATC_SHARE_MEMORY, &handle));
    if (is_own(&handle))
        return LEATC_INVALID_CONTEXT;
    device = leatc_device_here(&result);
    return device ? open_handle(&handle, device, ptr) : result;
}

int leatc_share_open_pointer(struct leatc_pool *pool, const void *data, void **ptr)
{
    struct leatc_device *device;
    struct handle handle;
    int result, ordinal;

    LEATC_TRY(leatc_init());
    if (!ptr || !data)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(read_handle(data, LEATC_SHARE_MEMORY, &handle));
    if (!handle.pool || !leatc_pool_stands_for(pool, handle.process, handle.pool, &ordinal))
        return LEATC_INVALID_VALUE;
    device = leatc_device_at(ordinal, &result);
    return device ? open_handle(&handle, device, ptr) : result;
}

void leatc_imports_close(struct leatc_device *device)
{
    leati_lock(&lock);
    for (struct import **link = &imports, *import; (import = *link);) {
        if (import->ordinal == device->ordinal) {
            *link = import->next;
            free(import);
        } else {
            link = &import->next;
        }
    }
    leati_unlock(&lock);
}

bool leatc_share_is_open(const void *ptr)
{
    struct import *import;

    leati_lock(&lock);
    for (import = imports; import && import->ptr != ptr; import = import->next)
        ;
    leati_unlock(&lock);
    return import != NULL;
}

int leatc_share_close(void *ptr)
{
    struct leatc_memory memory;
    struct import *ended = NULL;
    bool known = false;

    LEATC_TRY(leatc_init());
    leati_lock(&lock);
    for (struct import **link = &imports; *link; link = &(*link)->next)
        if ((*link)->ptr == ptr) {
            known = true;
            if (!--(*link)->opened) {
                ended = *link;
                *link = ended->next;
            }
            break;
        }
    leati_unlock(&lock);
    if (!ended)
        return known ? LEATC_OK : LEATC_INVALID_VALUE;
    free(ended);
    if (!leatc_memory_take(ptr, &memory))
        return LEATC_INVALID_VALUE;
    (void)leatc_device_wait(leatc_device_known(memory.ordinal));
    return leatc_result_of(leat_memory_free(ptr));
}

/* ---- pools ---- */

/* The content of a pool's descriptor. The blocks of the pool have handles of their own. */
struct pool_file {
    struct handle handle;
    struct leatc_pool_export description;
};

int leatc_share_pool(struct leatc_pool *pool, int *fd)
{
    struct pool_file file = {.handle = {.what = LEATC_SHARE_POOL}};
    int result, made;

    LEATC_TRY(leatc_pool_check(pool));
    if (!leatc_pool_is_exportable(pool))
        return LEATC_INVALID_VALUE;
    file.handle.id = leatc_pool_id(pool);
    leatc_pool_describe(pool, &file.description);
    leati_lock(&lock);
    result = start_server();
    if (result == LEATC_OK)
        sign(&file.handle);
    leati_unlock(&lock);
    LEATC_TRY(result);
    made = memfd_create("leat-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0)
        return LEATC_OPERATING_SYSTEM;
    if (write(made, &file, sizeof file) != (ssize_t)sizeof file || fcntl(made, F_ADD_SEALS, SEALS)) {
        close(made);
        return LEATC_OPERATING_SYSTEM;
    }
    *fd = made;
    return LEATC_OK;
}

int leatc_share_open_pool(int fd, bool with_access, struct leatc_pool **pool)
{
    struct pool_file file;
    int ordinal = 0;

    if (!pool || !leatc_is_sealed(fd, SEALS) || pread(fd, &file, sizeof file, 0) != (ssize_t)sizeof file ||
        file.handle.magic != MAGIC || file.handle.what != LEATC_SHARE_POOL)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_device_get(&ordinal));
    return leatc_pool_import(ordinal, file.handle.process, file.handle.id, with_access ? &file.description : NULL,
                             pool);
}

bool leatc_is_sealed(int fd, int seals)
{
    int found = fcntl(fd, F_GET_SEALS);

    return found >= 0 && (found & seals) == seals;
}

static bool is_open(int fd)
{
    return fd >= 0 && fcntl(fd, F_GETFD) >= 0;
}

int leatc_share_descriptor(const void *handle, int *fd)
{
    int value = (int)(uintptr_t)handle;

    if (!is_open(value) &&
        ((uintptr_t)handle % sizeof value || !leatc_read_safely(handle, &value, sizeof value) || !is_open(value)))
        return LEATC_INVALID_VALUE;
    *fd = value;
    return LEATC_OK;
}
