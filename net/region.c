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

/* How many copies of a region are started at a time. They take pinned memory, and go one after another, because they
 * have one stream: so more of them would not be faster. */
enum { JOBS_MAX = 16 };

/* A get or a put of the other end whose copy is not started yet. */
struct request {
    struct request *next;
    leat_link *link;            /* a reference */
    struct leat_region *region; /* it has waited there, and is counted in its starting; NULL: it has not */
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
    unsigned job_count;
    unsigned starting; /* jobs that are being made, without the lock */
    struct request *waiting, **waiting_end; /* requests above JOBS_MAX */
    bool ending;       /* gets no more jobs */
    bool with_link;    /* ends because its link is closed */
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

/* Returns LEAT_OK, or why the region of a request, which may be NULL, refuses it. */
static leat_status check_request(const struct request *request, const struct leat_region *region)
{
    const struct leatn_frame *frame = &request->frame;

    if (!region)
        return LEAT_ERROR_NOT_FOUND;
    if (frame->type == LEATN_FRAME_PUT && region->access != LEAT_ACCESS_READ_WRITE)
        return LEAT_ERROR_NOT_PERMITTED;
    if (frame->offset > region->bytes || frame->bytes > region->bytes - frame->offset)
        return LEAT_ERROR_RANGE;
    return LEAT_OK;
}

/* Finds the region of a request, and counts the job that is to be made. Returns LEAT_OK; why the request is refused;
 * or LEAT_NOT_READY, if the region keeps it until other jobs have ended. */
static leat_status find_region(struct request *request, struct leat_region **found)
{
    struct leat_region *region;
    leat_status status;

    pthread_mutex_lock(&regions_lock);
    region = regions;
    while (region && (region->ending || region->link != request->link || strcmp(region->name, request->name) != 0))
        region = region->next;
    status = check_request(request, region);
    if (status == LEAT_OK && region->job_count + region->starting >= JOBS_MAX) {
        request->next = NULL;
        *region->waiting_end = request;
        region->waiting_end = &request->next;
        status = LEAT_NOT_READY;
    } else if (status == LEAT_OK) {
        region->starting++;
    }
    *found = region;
    pthread_mutex_unlock(&regions_lock);
    return status;
}

/* Gives requests that waited in a region back to the server: as many as may be started, or all if the region ends. They
 * stay in front of later ones. The caller holds regions_lock. */
static void give_requests_back(struct leat_region *region)
{
    struct request *request, *first = NULL, **end = &first;

    while ((request = region->waiting) && (region->ending || region->job_count + region->starting < JOBS_MAX)) {
        region->waiting = request->next;
        if (!region->waiting)
            region->waiting_end = &region->waiting;
        region->starting++;
        request->region = region;
        *end = request;
        end = &request->next;
    }
    if (!first)
        return;
    pthread_mutex_lock(&requests_lock);
    *end = requests.first;
    if (!requests.first)
        requests.end = end;
    requests.first = first;
    pthread_mutex_unlock(&requests_lock);
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

static bool is_ending(const struct leat_region *region)
{
    bool ending;

    pthread_mutex_lock(&regions_lock);
    ending = region->ending;
    pthread_mutex_unlock(&regions_lock);
    return ending;
}

/* Makes the job of a request that is counted in region->starting, or refuses it. */
static void start_counted(const struct request *request, struct leat_region *region)
{
    struct job *job = calloc(1, sizeof *job);
    leat_status status = LEAT_ERROR_HOST_MEMORY;

    if (job)
        status = is_ending(region) ? LEAT_ERROR_NOT_FOUND : start_job(region, request, job);
    pthread_mutex_lock(&regions_lock);
    region->starting--;
    if (status == LEAT_OK) {
        job->next = region->jobs;
        region->jobs = job;
        region->job_count++;
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

static void serve(struct request *request)
{
    struct leat_region *region = request->region;
    leat_status status = region ? LEAT_OK : find_region(request, &region);

    if (status == LEAT_NOT_READY)
        return;
    if (status == LEAT_OK)
        start_counted(request, region);
    else
        refuse(request, status);
    leatn_link_release(request->link);
    free(request);
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
 * regions_lock.
 *
 * Only a wait of more than 1 ms asks the driver whether the device is lost, and no copy of a lost device ends. So the
 * first copy that keeps a region from ending is waited for. */
static unsigned look_at_jobs(struct leat_region *region)
{
    struct job **place = &region->jobs, *job;
    unsigned soon = 0;

    while ((job = *place)) {
        leat_status status = LEAT_NOT_READY;

        /* A copy that was cancelled after its last byte was moved has no end that leat would report. */
        if (region->ending || atomic_load_explicit(&job->op->over, memory_order_relaxed)) {
            status = leat_ticket_wait(job->ticket, LEAT_COPY_POINT_DONE,
                                      region->ending && !soon ? LOOK_MOST_NS : 0);
            soon += status == LEAT_NOT_READY;
        }
        if (status == LEAT_NOT_READY) {
            place = &job->next;
            continue;
        }
        *place = job->next;
        region->job_count--;
        end_job(job, status);
        pthread_cond_broadcast(&regions_changed);
    }
    give_requests_back(region);
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
        if (request)
            serve(request);
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
    made->waiting_end = &made->waiting;
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

/* Lets a region get no more jobs, and cancels those that it has. The caller holds regions_lock. */
static void begin_end(struct leat_region *region)
{
    region->ending = true;
    for (struct job *job = region->jobs; job; job = job->next)
        (void)leat_ticket_cancel(job->ticket);
    leatn_region_op_ended(); /* the server then looks at all jobs */
}

/* Waits until the jobs of a region have ended, and frees it. */
static void end_region(struct leat_region *region)
{
    struct leat_region **place = &regions;

    pthread_mutex_lock(&regions_lock);
    while (region->jobs || region->starting || region->waiting)
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
    begin_end(region);
    pthread_mutex_unlock(&regions_lock);
    end_region(region);
    return LEAT_OK;
}

void leatn_regions_begin_close(leat_link *link)
{
    pthread_mutex_lock(&regions_lock);
    for (struct leat_region *region = regions; region; region = region->next)
        if (region->link == link && !region->ending) {
            region->with_link = true;
            begin_end(region);
        }
    pthread_mutex_unlock(&regions_lock);
}

void leatn_regions_close(leat_link *link)
{
    struct leat_region *region;

    do {
        pthread_mutex_lock(&regions_lock);
        region = regions;
        while (region && !(region->link == link && region->with_link))
            region = region->next;
        pthread_mutex_unlock(&regions_lock);
        if (region)
            end_region(region);
    } while (region);
}
