/*
 * region.c - regions: memory that the other end of a link may read or write.
 *
 * The loop and leat's workers read requests from the sockets, and must not make calls of leat that start copies.
 * So a second thread, the server, does: it starts with the first region and ends with the last one. Each request
 * becomes a job: a send or a receive like those of the program (message.c), whose ticket the server keeps until
 * the copy is complete. Then it answers a put, and leat_unexpose() may return.
 *
 * Locks, in their order: lifetime_lock, regions_lock, locks of leat's, link->lock, requests_lock.
 */
#include "message.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_LEAST_NS                                                                                             \
    UINT64_C(50000) /* how long the server rests between two looks at copies that are about to end */
#define LOOK_MOST_NS UINT64_C(2000000)

/* A get or a put of the other end that the server has not looked at yet. */
struct request {
    struct request *next;
    leat_link *link; /* a reference */
    struct leatn_frame frame;
    char name[LEATN_NAME_MAX + 1];
};

/* A copy of the other end. */
struct job {
    struct job *next;
    struct leatn_op *op; /* a reference */
    leat_ticket *ticket;
    uint64_t put; /* 0: a get */
};

struct leat_region {
    struct leat_region *next;
    leat_link *link; /* a reference */
    leat_stream *stream;
    char name[LEATN_NAME_MAX + 1];
    char *at;
    size_t bytes;
    leat_access access;
    struct job *jobs;
    unsigned starting; /* jobs that are being made, without the lock */
    bool ending;       /* gets no more jobs */
};

/* Held while the server starts and ends; the server does not take it. */
static pthread_mutex_t lifetime_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned region_count; /* protected by lifetime_lock; the server runs while it is not 0 */
static pthread_t server;

/* Protects the list of regions, and all but the constant fields of each. */
static pthread_mutex_t regions_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t regions_changed = PTHREAD_COND_INITIALIZER; /* a job is over, for leat_unexpose() */
static struct leat_region *regions;

/* Protects the fields of requests. No other lock is taken while it is held. */
static pthread_mutex_t requests_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    pthread_cond_t changed; /* something for the server; uses the monotonic clock */
    bool ready;             /* changed was initialised */
    bool running;           /* takes requests */
    bool ended;             /* some op of a job has ended */
    struct request *first, **end;
} requests = {.end = &requests.first};

/* ---- requests ---- */

leat_status leatn_region_request(leat_link *link, const struct leatn_frame *frame, const char *name)
{
    struct request *request = calloc(1, sizeof *request);
    bool running;

    if (!request)
        return LEAT_ERROR_LINK;
    request->link = link;
    request->frame = *frame;
    memcpy(request->name, name, frame->tail_bytes);
    pthread_mutex_lock(&requests_lock);
    running = requests.running;
    if (running) {
        leatn_link_hold(link);
        *requests.end = request;
        requests.end = &request->next;
        pthread_cond_signal(&requests.changed);
    }
    pthread_mutex_unlock(&requests_lock);
    if (!running)
        free(request);
    return running ? LEAT_OK : LEAT_ERROR_NOT_FOUND;
}

void leatn_region_op_ended(void)
{
    pthread_mutex_lock(&requests_lock);
    requests.ended = true;
    if (requests.running)
        pthread_cond_signal(&requests.changed);
    pthread_mutex_unlock(&requests_lock);
}

/* Says that a request failed. */
static void refuse(const struct request *request, leat_status status)
{
    switch (status) {
    case LEAT_ERROR_NOT_FOUND:
    case LEAT_ERROR_RANGE:
    case LEAT_ERROR_NOT_PERMITTED:
        break;
    default:
        status = LEAT_ERROR_LINK;
    }
    if (request->frame.type == LEATN_FRAME_GET)
        leatn_get_refuse(request->link, request->frame.receive, status);
    else
        leatn_put_end(request->link, request->frame.put, status);
}

/* ---- jobs ---- */

/* Finds the region of a request, and counts the job that is to be made. */
static leat_status find_region(const struct request *request, struct leat_region **found)
{
    const struct leatn_frame *frame = &request->frame;
    struct leat_region *region;
    leat_status status = LEAT_OK;

    pthread_mutex_lock(&regions_lock);
    region = regions;
    while (region && (region->ending || region->link != request->link || strcmp(region->name, request->name) != 0))
        region = region->next;
    if (!region)
        status = LEAT_ERROR_NOT_FOUND;
    else if (frame->type == LEATN_FRAME_PUT && region->access != LEAT_ACCESS_READ_WRITE)
        status = LEAT_ERROR_NOT_PERMITTED;
    else if (frame->offset > region->bytes || frame->bytes > region->bytes - frame->offset)
        status = LEAT_ERROR_RANGE;
    else
        region->starting++;
    *found = region;
    pthread_mutex_unlock(&regions_lock);
    return status;
}

/* Starts the copy of a job. */
static leat_status start_job(const struct leat_region *region, const struct request *request, struct job *job)
{
    const struct leatn_frame *frame = &request->frame;
    bool get = frame->type == LEATN_FRAME_GET;
    struct leatn_op *op =
        leatn_op_create(request->link, get ? LEATN_OP_SERVE_GET : LEATN_OP_SERVE_PUT, 0, frame->bytes);
    leat_status status;

    if (!op)
        return LEAT_ERROR_HOST_MEMORY;
    op->served = get ? frame->receive : frame->put;
    op->offset = frame->offset;
    memcpy(op->name, region->name, sizeof op->name);
    if (get)
        status = leat_storage_write_start(region->stream, leatn_op_storage(op), op, region->at + frame->offset,
                                          (size_t)frame->bytes, NULL, &job->ticket);
    else
        status = leat_storage_read_start(region->stream, region->at + frame->offset, leatn_op_storage(op), op,
                                         (size_t)frame->bytes, NULL, &job->ticket);
    if (status != LEAT_OK) {
        leatn_op_storage(op)->release(op); /* leat has not taken its reference */
        leatn_op_release(op);
        return status;
    }
    job->op = op;
    job->put = frame->put;
    leatn_op_begin(op);
    return LEAT_OK;
}

/* Makes a job of a request, or refuses it. */
static void serve(const struct request *request)
{
    struct leat_region *region;
    struct job *job = NULL;
    leat_status status = find_region(request, &region);

    if (status != LEAT_OK) {
        refuse(request, status);
        return;
    }
    job = calloc(1, sizeof *job);
    status = job ? start_job(region, request, job) : LEAT_ERROR_HOST_MEMORY;
    pthread_mutex_lock(&regions_lock);
    region->starting--;
    if (status == LEAT_OK) {
        job->next = region->jobs;
        region->jobs = job;
        if (region->ending) {
            (void)leat_ticket_cancel(job->ticket);
            leatn_region_op_ended();
        }
    }
    pthread_cond_broadcast(&regions_changed);
    pthread_mutex_unlock(&regions_lock);
    if (status == LEAT_OK)
        return;
    free(job);
    refuse(request, status);
}

/* The copy of a job is complete, or has failed. */
static void end_job(struct job *job, leat_status status)
{
    if (job->put)
        leatn_put_end(job->op->link, job->put, status == LEAT_OK ? LEAT_OK : LEAT_ERROR_LINK);
    (void)leat_ticket_destroy(job->ticket);
    leatn_op_release(job->op);
    free(job);
}

/* Ends the jobs of a region that are complete. Returns the number of those that soon will be. The caller holds
 * regions_lock. */
static unsigned look_at_jobs(struct leat_region *region)
{
    struct job **place = &region->jobs, *job;
    unsigned soon = 0;

    while ((job = *place)) {
        leat_status status = LEAT_NOT_READY;

        /* A copy that was cancelled after its last byte was moved has no end that leat would report. */
        if (region->ending || atomic_load_explicit(&job->op->over, memory_order_relaxed)) {
            status = leat_ticket_wait(job->ticket, LEAT_COPY_POINT_DONE, 0);
            soon += status == LEAT_NOT_READY;
        }
        if (status == LEAT_NOT_READY) {
            place = &job->next;
            continue;
        }
        *place = job->next;
        end_job(job, status);
        pthread_cond_broadcast(&regions_changed);
    }
    return soon;
}

static unsigned look_at_regions(void)
{
    unsigned soon = 0;

    pthread_mutex_lock(&regions_lock);
    for (struct leat_region *region = regions; region; region = region->next)
        soon += look_at_jobs(region);
    pthread_mutex_unlock(&regions_lock);
    return soon;
}

/* ---- the server ---- */

/* Waits until there is something to do, for at most wait_ns; UINT64_MAX: no limit. The caller holds requests_lock.
 */
static void wait_for_requests(uint64_t wait_ns)
{
    uint64_t end_ns = leatc_end_ns(wait_ns);
    struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000), .tv_nsec = (long)(end_ns % 1000000000)};

    if (wait_ns == UINT64_MAX)
        pthread_cond_wait(&requests.changed, &requests_lock);
    else
        pthread_cond_timedwait(&requests.changed, &requests_lock, &end);
}

/* Returns the next request, or NULL. The caller holds requests_lock. */
static struct request *next_request(void)
{
    struct request *request = requests.first;

    if (!request)
        return NULL;
    requests.first = request->next;
    if (!requests.first)
        requests.end = &requests.first;
    return request;
}

/* Copies that are about to end are looked at in ever longer intervals: the stream of a region may have other work.
 */
static void *run(void *argument)
{
    uint64_t wait_ns = UINT64_MAX;
    struct request *request;

    (void)argument;
    pthread_mutex_lock(&requests_lock);
    while ((request = next_request()) || requests.running) {
        bool ended = requests.ended;

        if (!request && !ended)
            wait_for_requests(wait_ns);
        ended = ended || requests.ended;
        requests.ended = false;
        pthread_mutex_unlock(&requests_lock);
        if (request) {
            serve(request);
            leatn_link_release(request->link);
            free(request);
        }
        if (!look_at_regions())
            wait_ns = UINT64_MAX;
        else if (request || ended || wait_ns == UINT64_MAX)
            wait_ns = LOOK_LEAST_NS;
        else
            wait_ns = 2 * wait_ns < LOOK_MOST_NS ? 2 * wait_ns : LOOK_MOST_NS;
        pthread_mutex_lock(&requests_lock);
    }
    pthread_mutex_unlock(&requests_lock);
    return NULL;
}

/* Sets whether the server runs. */
static void set_running(bool running)
{
    pthread_condattr_t attributes;

    pthread_mutex_lock(&requests_lock);
    if (!requests.ready) {
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(&requests.changed, &attributes);
        pthread_condattr_destroy(&attributes);
        requests.ready = true;
    }
    requests.running = running;
    pthread_cond_signal(&requests.changed);
    pthread_mutex_unlock(&requests_lock);
}

/* Starts the server for the first region. It gets no signals. */
static leat_status count_region(void)
{
    sigset_t all, before;
    int error = 0;

    pthread_mutex_lock(&lifetime_lock);
    if (!region_count) {
        set_running(true);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        error = pthread_create(&server, NULL, run, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (error)
            set_running(false);
    }
    region_count += !error;
    pthread_mutex_unlock(&lifetime_lock);
    return error ? leatc_fail(LEAT_ERROR_SYSTEM, "leat_expose: pthread_create: %s: regions need a thread",
                              strerror(error))
                 : LEAT_OK;
}

/* Ends the server with the last region. It still answers all requests. */
static void uncount_region(void)
{
    pthread_mutex_lock(&lifetime_lock);
    if (!--region_count) {
        set_running(false);
        pthread_join(server, NULL);
    }
    pthread_mutex_unlock(&lifetime_lock);
}

/* ---- regions ---- */

/* Adds a region to the list, unless its link has one of this name. */
static leat_status add_region(struct leat_region *region)
{
    leat_status status = LEAT_OK;

    pthread_mutex_lock(&regions_lock);
    for (struct leat_region *other = regions; other && status == LEAT_OK; other = other->next)
        if (other->link == region->link && !strcmp(other->name, region->name))
            status = leatc_fail(LEAT_ERROR_BUSY, "leat_expose: the link has a region %s already", region->name);
    if (status == LEAT_OK) {
        region->next = regions;
        regions = region;
    }
    pthread_mutex_unlock(&regions_lock);
    return status;
}

/* The memory may be of any kind. The extent of pageable memory is not known. */
static leat_status check_memory(void *ptr, size_t bytes)
{
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    size_t offset;
    leat_status status = leat_pointer_get_info(ptr, &info);

    if (status != LEAT_OK)
        return leatc_fail_in(status, "leat_expose of %zu bytes at %p", bytes, ptr);
    if (bytes > UINTPTR_MAX - (uintptr_t)ptr)
        return leatc_fail(LEAT_ERROR_RANGE, "leat_expose: %zu bytes at %p go past the end of all addresses", bytes,
                          ptr);
    offset = info.base ? (size_t)((char *)ptr - (char *)info.base) : 0;
    if (info.base && bytes > info.bytes - offset)
        return leatc_fail(LEAT_ERROR_RANGE,
                          "leat_expose: %zu bytes at %p go past the end of the allocation, which has %zu more",
                          bytes, ptr, info.bytes - offset);
    return LEAT_OK;
}

static leat_status check_link(leat_link *link)
{
    leat_status status = LEAT_OK;

    leatn_link_lock(link);
    if (link->failed)
        status = leatc_fail(LEAT_ERROR_LINK, "leat_expose: the link to %s has failed: %s", link->connection.peer,
                            link->reason);
    leatn_link_unlock(link);
    return status;
}

static leat_status check(leat_stream *stream, leat_link *link, const char *name, void *ptr, size_t bytes,
                         leat_access access)
{
    leat_device *device;

    if (!link)
        return leatc_fail(LEAT_ERROR_HANDLE, "leat_expose: link is NULL");
    TRY(leatn_check_permitted("leat_expose"));
    if (leat_stream_device(stream, &device) != LEAT_OK)
        return leatc_fail_in(LEAT_ERROR_HANDLE, "leat_expose");
    if (!name || !name[0] || strlen(name) > LEATN_NAME_MAX)
        return leatc_fail(LEAT_ERROR_INVALID, "leat_expose: the name of a region must have 1 to %d bytes",
                          LEATN_NAME_MAX);
    if (!ptr)
        return leatc_fail(LEAT_ERROR_INVALID, "leat_expose: ptr is NULL");
    if (access != LEAT_ACCESS_READ && access != LEAT_ACCESS_READ_WRITE)
        return leatc_fail(LEAT_ERROR_INVALID,
                          "leat_expose: access is %d; use LEAT_ACCESS_READ or LEAT_ACCESS_READ_WRITE",
                          (int)access);
    TRY(check_memory(ptr, bytes));
    return check_link(link);
}

leat_status leat_expose(leat_stream *stream, leat_link *link, const char *name, void *ptr, size_t bytes,
                        leat_access access, leat_region **region)
{
    struct leat_region *made;
    leat_status status;

    if (!region)
        return leatc_fail(LEAT_ERROR_INVALID, "leat_expose: region is NULL");
    TRY(check(stream, link, name, ptr, bytes, access));
    made = calloc(1, sizeof *made);
    if (!made)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "leat_expose: no memory for the region");
    made->link = link;
    made->stream = stream;
    memcpy(made->name, name, strlen(name));
    made->at = ptr;
    made->bytes = bytes;
    made->access = access;
    status = count_region();
    if (status != LEAT_OK) {
        free(made);
        return status;
    }
    status = add_region(made);
    if (status != LEAT_OK) {
        uncount_region();
        free(made);
        return status;
    }
    leatn_link_hold(link);
    *region = made;
    return LEAT_OK;
}

/* Ends a region that is marked as ending, and frees it. */
static void end_region(struct leat_region *region)
{
    struct leat_region **place = &regions;

    pthread_mutex_lock(&regions_lock);
    for (struct job *job = region->jobs; job; job = job->next)
        (void)leat_ticket_cancel(job->ticket);
    leatn_region_op_ended(); /* the server then looks at all jobs */
    while (region->jobs || region->starting)
        pthread_cond_wait(&regions_changed, &regions_lock);
    while (*place != region)
        place = &(*place)->next;
    *place = region->next;
    pthread_mutex_unlock(&regions_lock);
    leatn_link_release(region->link);
    free(region);
    uncount_region();
}

leat_status leat_unexpose(leat_region *region)
{
    if (!region)
        return LEAT_OK;
    TRY(leatn_check_permitted("leat_unexpose"));
    pthread_mutex_lock(&regions_lock);
    region->ending = true;
    pthread_mutex_unlock(&regions_lock);
    end_region(region);
    return LEAT_OK;
}

void leatn_regions_close(leat_link *link)
{
    struct leat_region *region;

    do {
        pthread_mutex_lock(&regions_lock);
        region = regions;
        while (region && (region->link != link || region->ending))
            region = region->next;
        if (region)
            region->ending = true;
        pthread_mutex_unlock(&regions_lock);
        if (region)
            end_region(region);
    } while (region);
}
