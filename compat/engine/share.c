/*
 * share.c - memory, pools and events for other processes.
 *
 * A handle of 64 bytes names the process that made it and a number. Whoever has it asks that process, over a
 * socket of the abstract namespace, for the file descriptor behind the number: of memory that a pool exports, or
 * of the page that an event's counts are in. A thread of the first process answers, started with the first handle,
 * so a handle works as long as its process and the thing itself live. Only processes of the same user are
 * answered.
 */
#include "engine/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAGIC 0x7461656cu

/* What a handle holds. */
struct handle {
    uint32_t magic, what;
    uint64_t process; /* a random number of the process that made it */
    uint64_t id;
    uint64_t bytes;
    int32_t pid, ordinal;
};
_Static_assert(sizeof(struct handle) <= LEATC_SHARE_BYTES, "a handle has room in what the vendors give it");

/* A descriptor that others may ask for. */
struct offer {
    struct offer *next;
    uint64_t id;
    uint32_t what;
    int fd;
};

/* Memory that came from another process. */
struct import {
    struct import *next;
    uint64_t process, id;
    void *ptr;
    int ordinal;
    unsigned opened;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the lists and the start of the thread */
static struct offer *offers;
static struct import *imports;
static atomic_uint offer_count;
static int server = -1;
static pid_t server_pid; /* a child process has its parent's memory, and no thread in it */
static uint64_t process;

/* ---- the socket ---- */

static socklen_t address_of(uint64_t number, struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                       (size_t)snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "leat-share-%016llx",
                                        (unsigned long long)number));
}

static bool same_user(int connection)
{
    struct ucred peer;
    socklen_t length = sizeof peer;

    return !getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) &&
           (peer.uid == geteuid() || peer.uid == 0);
}

static void send_descriptor(int connection, int fd)
{
    char byte = fd >= 0;
    struct iovec part = {&byte, 1};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        control.header =
            (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    }
    (void)sendmsg(connection, &message, MSG_NOSIGNAL);
}

static void answer(int connection)
{
    struct handle wanted;
    struct offer *offer;
    int fd = -1;

    if (!same_user(connection) || recv(connection, &wanted, sizeof wanted, MSG_WAITALL) != (ssize_t)sizeof wanted)
        return;
    pthread_mutex_lock(&lock);
    for (offer = offers; offer && (offer->id != wanted.id || offer->what != wanted.what); offer = offer->next)
        ;
    if (offer)
        fd = fcntl(offer->fd, F_DUPFD_CLOEXEC, 0);
    pthread_mutex_unlock(&lock);
    send_descriptor(connection, fd);
    if (fd >= 0)
        close(fd);
}

static void *serve(void *argument)
{
    int listening = *(int *)argument;

    for (;;) {
        struct timeval patience = {.tv_sec = 5};
        int connection = accept4(listening, NULL, NULL, SOCK_CLOEXEC);

        if (connection < 0) {
            if (errno == EINTR || errno == ECONNABORTED)
                continue;
            return NULL;
        }
        (void)setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        answer(connection);
        close(connection);
    }
}

/* Under the lock. */
static int start_server(void)
{
    struct sockaddr_un address;
    pthread_attr_t detached;
    pthread_t thread;
    socklen_t length;

    if (server >= 0 && server_pid == getpid())
        return LEATC_OK;
    if (getrandom(&process, sizeof process, 0) != (ssize_t)sizeof process)
        return LEATC_OPERATING_SYSTEM;
    server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    length = address_of(process, &address);
    server_pid = getpid();
    (void)pthread_attr_init(&detached);
    (void)pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    if (server < 0 || bind(server, (struct sockaddr *)&address, length) || listen(server, 64) ||
        pthread_create(&thread, &detached, serve, &server)) {
        if (server >= 0)
            close(server);
        server = -1;
    }
    (void)pthread_attr_destroy(&detached);
    return server >= 0 ? LEATC_OK : LEATC_OPERATING_SYSTEM;
}

static int receive_descriptor(int connection)
{
    char byte = 0;
    struct iovec part = {&byte, 1};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    int fd = -1;

    if (recvmsg(connection, &message, MSG_CMSG_CLOEXEC) == 1 && byte && CMSG_FIRSTHDR(&message) &&
        CMSG_FIRSTHDR(&message)->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* Asks the process that made a handle for its descriptor; -1 when it is not there any more. */
static int ask(const struct handle *handle)
{
    struct sockaddr_un address;
    socklen_t length = address_of(handle->process, &address);
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = -1;

    if (connection < 0)
        return -1;
    if (!connect(connection, (struct sockaddr *)&address, length) &&
        send(connection, handle, sizeof *handle, MSG_NOSIGNAL) == (ssize_t)sizeof *handle)
        fd = receive_descriptor(connection);
    close(connection);
    return fd;
}

/* ---- offers ---- */

/* Fills the handle of what is on offer already; false when it is not. Under the lock. */
static bool is_offered(struct handle *handle)
{
    struct offer *offer = server_pid == getpid() ? offers : NULL;

    while (offer && (offer->id != handle->id || offer->what != handle->what))
        offer = offer->next;
    if (!offer)
        return false;
    handle->magic = MAGIC;
    handle->process = process;
    handle->pid = (int32_t)getpid();
    return true;
}

static bool find_offer(struct handle *handle)
{
    bool found;

    pthread_mutex_lock(&lock);
    found = is_offered(handle);
    pthread_mutex_unlock(&lock);
    return found;
}

/* Takes fd over, unless it fails. What is on offer already, for another thread asked at the same time, or it was
 * asked for before, stays as it is: there is one offer to end. */
static int put_offer(struct handle *handle, int fd)
{
    struct offer *offer = malloc(sizeof *offer);
    bool known = false;
    int result;

    if (!offer)
        return LEATC_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    result = start_server();
    if (result == LEATC_OK) {
        known = is_offered(handle);
        if (!known) {
            *offer = (struct offer){.next = offers, .id = handle->id, .what = handle->what, .fd = fd};
            offers = offer;
            atomic_fetch_add(&offer_count, 1);
            (void)is_offered(handle);
        }
    }
    pthread_mutex_unlock(&lock);
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
    pthread_mutex_lock(&lock);
    for (struct offer **link = &offers; *link; link = &(*link)->next)
        if ((*link)->id == id && (*link)->what == what) {
            struct offer *ended = *link;

            *link = ended->next;
            atomic_fetch_sub(&offer_count, 1);
            close(ended->fd);
            free(ended);
            break;
        }
    pthread_mutex_unlock(&lock);
}

int leatc_share_offer(unsigned what, unsigned long long id, size_t bytes, int ordinal, int fd, void *handle)
{
    struct handle made = {.what = what, .id = id, .bytes = bytes, .ordinal = ordinal};

    LEATC_TRY(put_offer(&made, fd));
    memset(handle, 0, LEATC_SHARE_BYTES);
    memcpy(handle, &made, sizeof made);
    return LEATC_OK;
}

static int read_handle(const void *from, unsigned what, struct handle *handle)
{
    memcpy(handle, from, sizeof *handle);
    return handle->magic == MAGIC && handle->what == what ? LEATC_OK : LEATC_INVALID_VALUE;
}

int leatc_share_ask(const void *from, unsigned what, size_t *bytes, int *fd)
{
    struct handle handle;

    LEATC_TRY(read_handle(from, what, &handle));
    if (handle.pid == (int32_t)getpid())
        return LEATC_INVALID_CONTEXT;
    *bytes = (size_t)handle.bytes;
    *fd = ask(&handle);
    return *fd >= 0 ? LEATC_OK : LEATC_INVALID_HANDLE;
}

/* ---- memory ---- */

int leatc_share_memory(const void *ptr, void *handle)
{
    struct leatc_memory memory;
    struct handle made = {.what = LEATC_SHARE_MEMORY};
    leat_status status;
    size_t bytes = 0;
    int fd = -1, result;

    LEATC_TRY(leatc_init());
    LEATC_TRY(leatc_memory_find(ptr, &memory));
    if (memory.kind != LEATC_MEMORY_DEVICE)
        return LEATC_INVALID_VALUE;
    made.id = memory.id;
    made.ordinal = memory.ordinal;
    made.bytes = (memory.bytes + LEATC_SHARE_UNIT - 1) / LEATC_SHARE_UNIT * LEATC_SHARE_UNIT;
    if (!find_offer(&made)) {
        status = leat_pool_export(memory.base, &fd, &bytes);
        if (status == LEAT_ERROR_POINTER)
            return LEATC_NOT_SUPPORTED; /* it is of a pool that keeps several blocks together */
        LEATC_TRY(leatc_result_of(status));
        made.bytes = bytes;
        result = put_offer(&made, fd);
        if (result != LEATC_OK) {
            close(fd);
            return result;
        }
    }
    memset(handle, 0, LEATC_SHARE_BYTES);
    memcpy(handle, &made, sizeof made);
    return LEATC_OK;
}

static int map_memory(const struct handle *handle, struct import *import)
{
    struct leatc_memory memory = {.bytes = (size_t)handle->bytes, .kind = LEATC_MEMORY_DEVICE, .foreign = true};
    leat_status status;
    int result, fd;
    struct leatc_device *device = leatc_device_here(&result);

    if (!device)
        return result;
    fd = ask(handle);
    if (fd < 0)
        return LEATC_INVALID_VALUE;
    status = leat_pool_import(atomic_load(&device->native), fd, memory.bytes, &memory.base);
    close(fd);
    LEATC_TRY(leatc_result_of(status));
    memory.ordinal = device->ordinal;
    import->ordinal = memory.ordinal;
    import->ptr = memory.base;
    result = leatc_memory_add(&memory);
    if (result != LEATC_OK)
        leat_memory_free(memory.base);
    return result;
}

/* Another one of the same memory, opened once more, or NULL. Under the lock. */
static struct import *open_again(const struct handle *handle)
{
    struct import *import = imports;

    while (import && (import->process != handle->process || import->id != handle->id))
        import = import->next;
    if (import)
        import->opened++;
    return import;
}

int leatc_share_open(const void *from, bool own_too, void **ptr)
{
    struct handle handle;
    struct import *import, *made;
    int result = LEATC_OK;

    if (!ptr)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(read_handle(from, LEATC_SHARE_MEMORY, &handle));
    if (handle.pid == (int32_t)getpid() && !own_too)
        return LEATC_INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    import = open_again(&handle);
    if (import)
        *ptr = import->ptr;
    pthread_mutex_unlock(&lock);
    if (import)
        return LEATC_OK;
    made = malloc(sizeof *made);
    if (!made)
        return LEATC_OUT_OF_MEMORY;
    *made = (struct import){.process = handle.process, .id = handle.id, .opened = 1};
    result = map_memory(&handle, made);
    if (result != LEATC_OK) {
        free(made);
        return result;
    }
    pthread_mutex_lock(&lock);
    import = open_again(&handle);
    if (!import) {
        made->next = imports;
        imports = made;
    }
    *ptr = import ? import->ptr : made->ptr;
    pthread_mutex_unlock(&lock);
    if (import) {
        /* Another thread was faster, and all that open it get one address. */
        (void)leatc_memory_remove(made->ptr);
        (void)leat_memory_free(made->ptr);
        free(made);
    }
    return LEATC_OK;
}

void leatc_imports_close(struct leatc_device *device)
{
    pthread_mutex_lock(&lock);
    for (struct import **link = &imports, *import; (import = *link);) {
        if (import->ordinal == device->ordinal) {
            *link = import->next;
            free(import);
        } else {
            link = &import->next;
        }
    }
    pthread_mutex_unlock(&lock);
}

bool leatc_share_is_open(const void *ptr)
{
    struct import *import;

    pthread_mutex_lock(&lock);
    for (import = imports; import && import->ptr != ptr; import = import->next)
        ;
    pthread_mutex_unlock(&lock);
    return import != NULL;
}

int leatc_share_close(void *ptr)
{
    struct leatc_memory memory;
    struct import *ended = NULL;
    bool known = false;

    LEATC_TRY(leatc_init());
    pthread_mutex_lock(&lock);
    for (struct import **link = &imports; *link; link = &(*link)->next)
        if ((*link)->ptr == ptr) {
            known = true;
            if (!--(*link)->opened) {
                ended = *link;
                *link = ended->next;
            }
            break;
        }
    pthread_mutex_unlock(&lock);
    if (!ended)
        return known ? LEATC_OK : LEATC_INVALID_VALUE;
    free(ended);
    if (!leatc_memory_take(ptr, &memory))
        return LEATC_INVALID_VALUE;
    (void)leatc_device_wait(leatc_device_known(memory.ordinal));
    return leatc_result_of(leat_memory_free(ptr));
}

/* ---- pools ---- */

int leatc_share_pool(struct leatc_pool *pool, int *fd)
{
    struct handle handle = {.magic = MAGIC, .what = LEATC_SHARE_POOL, .pid = (int32_t)getpid()};

    LEATC_TRY(leatc_pool_check(pool));
    if (!leatc_pool_is_exportable(pool))
        return LEATC_INVALID_VALUE;
    /* Blocks have handles of their own; the pool's says no more than that it is one. */
    *fd = memfd_create("leat-pool", MFD_CLOEXEC);
    if (*fd < 0)
        return LEATC_OPERATING_SYSTEM;
    if (write(*fd, &handle, sizeof handle) != (ssize_t)sizeof handle) {
        close(*fd);
        return LEATC_OPERATING_SYSTEM;
    }
    return LEATC_OK;
}

int leatc_share_open_pool(int fd, struct leatc_pool **pool)
{
    struct handle handle;
    int ordinal = 0;

    if (!pool || pread(fd, &handle, sizeof handle, 0) != (ssize_t)sizeof handle || handle.magic != MAGIC ||
        handle.what != LEATC_SHARE_POOL)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_device_get(&ordinal));
    return leatc_pool_import(ordinal, pool);
}
