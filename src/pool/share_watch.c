/*
 * share_watch.c - the list of shares, and the thread that notices when the other side of a share is gone.
 *
 * Each side of a share has one end of a pair of connected sockets, through which nothing is ever sent. When the
 * other process closes its end, or ends in whatever way, the system reports it here.
 */
#include "pool/share.h"

#include "base/thread.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Serializes the start and the end of the thread, and guards thread, epoll_fd and wake_fd. The thread never takes
 * it, so the end can wait for the thread. */
static struct leati_lock turn = LEATI_LOCK_INITIALIZER;
static pthread_t thread LEATI_GUARDED_BY(turn);
static int epoll_fd LEATI_GUARDED_BY(turn) = -1, wake_fd LEATI_GUARDED_BY(turn) = -1;

/* Guards the list of shares and over. Never held during a driver call. */
static struct leati_lock list_lock = LEATI_LOCK_INITIALIZER;
static struct leat_share *list LEATI_GUARDED_BY(list_lock);
static bool over LEATI_GUARDED_BY(list_lock);

/* The serial of the event by which the thread is woken. */
enum { WAKE = 0 };

static void look_up_lost(uint64_t serial) LEATI_REQUIRES(list_lock)
{
    for (struct leat_share *share = list; share; share = share->next)
        if (share->serial == serial)
            leati_share_lost(share, false);
}

static void *watch(void *argument)
{
    int poll_fd = *(int *)argument;
    bool end = false;

    while (!end) {
        struct epoll_event events[16];
        int count = epoll_wait(poll_fd, events, 16, -1);

        leati_lock(&list_lock);
        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 == WAKE)
                continue;
            look_up_lost(events[i].data.u64);
        }
        end = over;
        leati_unlock(&list_lock);
    }
    return NULL;
}

static leat_status start(void) LEATI_REQUIRES(turn)
{
    struct epoll_event wake = {.events = EPOLLIN, .data.u64 = WAKE};
    int failed;

    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0)
        return leati_fail(LEAT_ERROR_SYSTEM, "epoll_create1: %s", strerror(errno));
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &wake))
        failed = errno;
    else {
        leati_lock(&list_lock);
        over = false;
        leati_unlock(&list_lock);
        failed = leati_thread_start(&thread, watch, &epoll_fd);
    }
    if (!failed)
        return LEAT_OK;
    if (wake_fd >= 0)
        close(wake_fd);
    close(epoll_fd);
    epoll_fd = wake_fd = -1;
    return leati_fail(LEAT_ERROR_SYSTEM, "the thread that watches other processes cannot start: %s",
                      strerror(failed));
}

/* Ends the thread if no share is left. */
static void stop_if_unused(void) LEATI_REQUIRES(turn)
{
    const uint64_t one = 1;
    bool used;

    leati_lock(&list_lock);
    used = list != NULL;
    over = !used;
    leati_unlock(&list_lock);
    if (used)
        return;
    /* Cannot fail: the counter is far from its limit. */
    while (write(wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
    pthread_join(thread, NULL);
    close(wake_fd);
    close(epoll_fd);
    epoll_fd = wake_fd = -1;
}

static leat_status watch_socket(struct leat_share *share) LEATI_REQUIRES(turn)
{
    /* Edge-triggered: the end is reported once, so the thread does not spin on it. */
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.u64 = share->serial};

    if (share->life < 0 || !epoll_ctl(epoll_fd, EPOLL_CTL_ADD, share->life, &event))
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_SYSTEM, "epoll_ctl: %s", strerror(errno));
}

leat_status leati_share_watch_socket(struct leat_share *share)
{
    leat_status status;

    leati_lock(&turn);
    status = watch_socket(share);
    leati_unlock(&turn);
    return status;
}

leat_status leati_share_watch_begin(struct leat_share *share)
{
    static uint64_t last_serial LEATI_GUARDED_BY(turn);
    leat_status status = LEAT_OK;

    leati_lock(&turn);
    if (epoll_fd < 0)
        status = start();
    if (status == LEAT_OK) {
        share->serial = ++last_serial;
        leati_lock(&list_lock);
        share->next = list;
        list = share;
        leati_unlock(&list_lock);
        status = watch_socket(share);
        if (status != LEAT_OK) {
            leati_lock(&list_lock);
            list = share->next;
            leati_unlock(&list_lock);
            stop_if_unused();
        }
    }
    leati_unlock(&turn);
    return status;
}

void leati_share_watch_end(struct leat_share *share)
{
    struct leat_share **place;

    leati_lock(&turn);
    leati_lock(&list_lock);
    place = &list;
    while (*place != share)
        place = &(*place)->next;
    *place = share->next;
    leati_unlock(&list_lock);
    if (share->life >= 0)
        (void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, share->life, NULL);
    stop_if_unused();
    leati_unlock(&turn);
}

void leati_share_each(struct leat_device *device, void (*visit)(struct leat_share *share, void *argument),
                      void *argument)
{
    leati_lock(&list_lock);
    for (struct leat_share *share = list; share; share = share->next)
        if (share->device == device)
            visit(share, argument);
    leati_unlock(&list_lock);
}

struct leat_share *leati_share_any_of(struct leat_device *device)
{
    struct leat_share *share;

    leati_lock(&list_lock);
    share = list;
    while (share && share->device != device)
        share = share->next;
    leati_unlock(&list_lock);
    return share;
}
