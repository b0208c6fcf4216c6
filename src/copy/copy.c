/*
 * copy.c - leat_copy(): what the pointers are, whether the ranges are sound, and which way the bytes go.
 *
 * Memory that the driver knows is moved by the driver's own call. Pageable memory goes through pinned memory:
 * short copies by the caller's hand (small.h), others by worker threads (staged.h), and by the driver's call
 * for pageable memory where neither can be had, or where that is the fastest.
 */
#include "copy/copy.h"

#include "base/quick.h"
#include "base/catch.h"
#include "base/clock.h"
#include "base/options.h"
#include "copy/links.h"
#include "copy/eager.h"

#include <leat/copy.h>

#include <sched.h>
#include <string.h>
#include <time.h>

/*
 * Where the driver's own call for pageable memory is the fastest on an idle stream: below these sizes always, and
 * below the last one when leat's threads have had nothing to do for a while: they sleep then, and waking them
 * takes some 150 us in a virtual machine. Measured on an H200; see docs/copies.md.
 */
#define DRIVER_IN_BYTES ((size_t)256 << 10)
#define DRIVER_OUT_BYTES ((size_t)448 << 10)
#define DRIVER_BY_FEW_BYTES ((size_t)512 << 10) /* either way where few threads copy */
#define DRIVER_AT_FIRST_BYTES ((size_t)8 << 20)
#define TINY_IN_BYTES ((size_t)32 << 10) /* leat's own hand is slower than the driver at 16 KiB, not at 64 */
#define SOON_NS 1000000u

#define LINKS_BYTES ((size_t)64 << 20) /* from here on over several links; leat/copy.h says so too */
#define ASK_NS 1000000u

LEATI_HOT static leat_status check_overlap(const void *dst, const void *src, size_t bytes)
{
    uintptr_t d = (uintptr_t)dst, s = (uintptr_t)src;

    if (d - s < bytes || s - d < bytes)
        return leati_fail(LEAT_ERROR_OVERLAP, "dst %p and src %p overlap within %zu bytes; use a third place", dst,
                          src, bytes);
    return LEAT_OK;
}

/* ---- choosing ---- */

LEATI_HOT static void choose(struct leati_plan *plan, enum leati_path path, const char *why)
{
    plan->path = path;
    plan->why = why;
}

static bool is_idle(leat_stream *stream)
{
    struct leati_driver *driver = stream->device->driver;
    struct leati_order *order = stream->order;
    struct leati_sentence before;
    leat_status status;
    uint64_t given;

    if (leati_stream_known_idle(stream))
        return true;
    given = atomic_load_explicit(&order->given, memory_order_relaxed);
    leati_error_keep(&before);
    status = driver->ops->stream_query(driver, stream->native);
    if (status == LEAT_OK)
        leati_order_seen_idle(order, given);
    else if (status < LEAT_OK)
        leati_error_restore(status, &before);
    return status == LEAT_OK;
}

static const char reaches_both_why[] = "the driver reaches both ends by itself";
__attribute__((unused)) static const char suits_driver_why[] = "the stream is idle, and at this size the driver's own call is the fastest";

static void choose_in(leat_stream *stream, struct leati_plan *plan)
{
    bool idle;

    plan->direction = LEATI_DIRECTION_IN;
    plan->early = leati_stream_reads_now(stream);
    if (plan->bytes <= LEATI_EAGER_SHORT_BYTES && plan->early) {
        choose(plan, LEATI_PATH_EAGER, "it is short, and nothing before it on the stream writes host memory");
        plan->direction = LEATI_DIRECTION_IN;
        return;
    }
    idle = (!plan->early || plan->bytes < DRIVER_AT_FIRST_BYTES) && is_idle(stream);
    plan->early = plan->early || idle;
    if (plan->bytes <= LEATI_EAGER_SHORT_BYTES && idle)
        choose(plan, LEATI_PATH_EAGER, "it is short, and the stream is idle");
    else if (plan->early && !plan->followed && plan->bytes <= LEATI_EAGER_MOST_BYTES)
        choose(plan, LEATI_PATH_EAGER, "eager");
    else if (plan->early)
        choose(plan, LEATI_PATH_STAGED,
               "the source is pageable, and nothing before it on the stream writes host memory: staging starts at "
               "once");
    else
        choose(plan, LEATI_PATH_STAGED,
               "the source is pageable, and earlier work of the stream may write it: staging starts when the "
               "stream gets there");
}

static void choose_out(leat_stream *stream, struct leati_plan *plan)
{
    bool idle = plan->bytes < DRIVER_AT_FIRST_BYTES && is_idle(stream);

    plan->direction = LEATI_DIRECTION_OUT;
    if (plan->bytes <= LEATI_EAGER_SHORT_BYTES && idle)
        choose(plan, LEATI_PATH_EAGER, "it is short and the stream is idle: no thread could be faster");
    else if (idle && !plan->followed && plan->bytes <= LEATI_EAGER_MOST_BYTES)
        choose(plan, LEATI_PATH_EAGER, "eager");
    else
        choose(plan, LEATI_PATH_STAGED, "the destination is pageable");
}

/* On the CPU device the stream's own thread copies pageable memory in one pass; leat's threads do, in one pass
 * too, when the caller wants to follow the copy, unless strict mode keeps device memory from them. */
static bool is_one_pass(const leat_device *device)
{
    return device->is_cpu && !leati_option_flag(LEATI_OPTION_COPY_STAGE);
}

/* Staging failed to be made: only a wrong environment variable is the caller's business. */
static leat_status choose_pageable(leat_stream *stream, struct leati_plan *plan)
{
    bool one_pass = is_one_pass(stream->device);
    struct leati_sentence before;
    leat_status status;

    if (one_pass && (!plan->followed || leati_option_flag(LEATI_OPTION_STRICT))) {
        choose(plan, LEATI_PATH_PAGEABLE, "the CPU device reads and writes pageable memory itself");
        return LEAT_OK;
    }

    leati_error_keep(&before);
    status = plan->followed || !leati_stream_is_idle(stream) ? leati_stager_get(stream->device, &plan->stager)
                                                             : leati_stager_find(stream->device, &plan->stager);
    if (status == LEATI_DECLINED) {
        plan->stager = NULL;
        plan->first = true;
        choose(plan, LEATI_PATH_PAGEABLE, "leat's ring of pinned memory is made behind the first copies of a process");
        return LEAT_OK;
    }
    if (status == LEAT_ERROR_INVALID)
        return status;
    if (status != LEAT_OK) {
        leati_error_restore(status, &before);
        plan->stager = NULL;
        choose(plan, LEATI_PATH_PAGEABLE, "there is no memory, or no thread, for staging");
        return LEAT_OK;
    }
    if (plan->stager->refused[0]) {
        choose(plan, LEATI_PATH_PAGEABLE, plan->stager->refused);
    } else if (one_pass) {
        plan->direction = LEATI_DIRECTION_HOST;
        choose(plan, LEATI_PATH_STAGED, "the copy has a ticket: threads that can be stopped make it");
    } else if (leati_is_on_host(&plan->to) && leati_is_on_host(&plan->from)) {
        plan->direction = LEATI_DIRECTION_HOST;
        choose(plan, LEATI_PATH_STAGED, "both ends are in host memory: threads copy from one to the other");
    } else if (leati_is_pageable(&plan->from)) {
        choose_in(stream, plan);
    } else {
        choose_out(stream, plan);
    }
    return LEAT_OK;
}

/* Is it worth the helpers' while? */
static unsigned count_links(leat_stream *stream, const struct leati_plan *plan)
{
    bool in = plan->path == LEATI_PATH_DRIVER
                  ? plan->from.end.kind == LEAT_KIND_PINNED
                  : plan->path == LEATI_PATH_STAGED && plan->direction == LEATI_DIRECTION_IN;

    if (!in || plan->to.end.kind != LEAT_KIND_DEVICE || plan->to.device != stream->device ||
        plan->bytes < LINKS_BYTES)
        return 0;
    return leati_links_count(stream->device);
}

static bool is_all_there(const struct leati_plan *plan)
{
    return leati_is_pageable(&plan->from) ? leati_staging_usable(plan->from.end.ptr, plan->bytes, false)
                                          : leati_staging_usable(plan->to.end.ptr, plan->bytes, true);
}

/* All but the ends, which are filled when they are found. */
LEATI_HOT static void begin_plan(struct leati_plan *plan, size_t bytes, bool followed)
{
    plan->bytes = bytes;
    plan->path = LEATI_PATH_DRIVER;
    plan->direction = LEATI_DIRECTION_IN;
    plan->helpers = 0;
    plan->followed = followed;
    plan->early = false;
    plan->first = false;
    plan->stager = NULL;
    plan->why = "";
}

/* Finds out what the ends are, asking drivers or not, and checks all but whether pageable memory is there. */
LEATI_HOT static leat_status find_ends(leat_stream *stream, void *dst, const void *src, bool ask, struct leati_plan *plan)
{
    struct leati_driver *driver = stream->device->driver;

    LEATI_TRY(leati_pointers_find_unread(driver, "dst", dst, plan->bytes, ask, &plan->to));
    LEATI_TRY(leati_pointers_find_unread(driver, "src", src, plan->bytes, ask, &plan->from));
    LEATI_TRY(leati_check_reach(stream, "dst", &plan->to));
    LEATI_TRY(leati_check_reach(stream, "src", &plan->from));
    return check_overlap(dst, src, plan->bytes);
}

/* Both ends are memory that a driver knows. */
static leat_status leave_to_driver(leat_stream *stream, struct leati_plan *plan)
{
    choose(plan, LEATI_PATH_DRIVER, reaches_both_why);
    plan->helpers = count_links(stream, plan);
    return LEAT_OK;
}

/*
 * What leat knows, it need not ask for. And on a stream with nothing under way it does not matter whether a host
 * end is pageable or was pinned past leat: the driver's own call does what is right for either, and at these sizes
 * it is the fastest. So the driver need not be asked first, which takes a good part of a short copy's time; that a
 * processor can use the memory is tried out.
 */
LEATI_HOT leat_status leati_plan_unasked(leat_stream *stream, void *dst, const void *src, size_t bytes,
                               struct leati_plan *plan)
{
    struct leati_end *unknown;

    begin_plan(plan, bytes, false);
    LEATI_TRY(find_ends(stream, dst, src, false, plan));
    if (!leati_is_pageable(&plan->to) && !leati_is_pageable(&plan->from))
        return leave_to_driver(stream, plan);
    if (leati_is_pageable(&plan->to) && leati_is_pageable(&plan->from))
        return LEAT_NOT_READY;
    unknown = leati_is_pageable(&plan->to) ? &plan->to.end : &plan->from.end;
    if (bytes > LEATI_EAGER_SHORT_BYTES || !leati_stream_known_idle(stream) || is_one_pass(stream->device))
        return LEAT_NOT_READY;
    plan->stager = atomic_load_explicit(&stream->device->stager, memory_order_acquire);
    if (!plan->stager || plan->stager->refused[0] || !leati_catch_ready())
        return LEAT_NOT_READY;
    plan->early = true;
    plan->direction = unknown == &plan->from.end ? LEATI_DIRECTION_IN : LEATI_DIRECTION_OUT;
    choose(plan, LEATI_PATH_EAGER, "short");
    return LEAT_OK;
}

leat_status leati_plan_copy(leat_stream *stream, void *dst, const void *src, size_t bytes, bool followed,
                            struct leati_plan *plan)
{
    begin_plan(plan, bytes, followed);
    LEATI_TRY(find_ends(stream, dst, src, true, plan));
    if (!leati_is_pageable(&plan->to) && !leati_is_pageable(&plan->from))
        return leave_to_driver(stream, plan);
    LEATI_TRY(choose_pageable(stream, plan));
    plan->helpers = count_links(stream, plan);
    /* Short copies find out by themselves, which saves a system call or two. */
    if ((plan->path == LEATI_PATH_EAGER || plan->path == LEATI_PATH_EAGER) && leati_catch_ready())
        return LEAT_OK;
    /* The driver's call would end the program where a page in the middle is gone; leat's threads say which. */
    if (plan->path == LEATI_PATH_PAGEABLE && (plan->first || (plan->stager && !plan->stager->refused[0]))) {
        if (is_all_there(plan))
            return LEAT_OK;
        if (plan->first)
            LEATI_TRY(leati_stager_get(stream->device, &plan->stager));
        plan->first = false;
        choose(plan, LEATI_PATH_STAGED, "not all of the memory is there, which leat's threads tell");
    }
    if (leati_is_pageable(&plan->to))
        LEATI_TRY(leati_pointers_check_mapped("dst", dst, bytes, true));
    return leati_is_pageable(&plan->from) ? leati_pointers_check_mapped("src", src, bytes, false) : LEAT_OK;
}

/* ---- doing ---- */

static leat_status run_by_driver(leat_stream *stream, const struct leati_plan *plan)
{
    struct leati_driver *driver = stream->device->driver;
    /* A driver may wait for the stream before it touches pageable memory: others can give it work meanwhile. */
    bool waits = leati_is_pageable(&plan->to) || leati_is_pageable(&plan->from);
    leat_status status;

    if (!waits)
        leati_stream_piece_begins(stream);
    status = driver->ops->copy(driver, stream->native, plan->to.end, plan->from.end, plan->bytes);
    if (!waits)
        leati_stream_piece_ends(stream);
    if (leati_is_pageable(&plan->to))
        leati_stream_writes_host(stream);
    if (plan->first)
        leati_stager_prepare(stream->device);
    return status;
}

static struct leati_target move_target(struct leati_target target, size_t bytes)
{
    target.end.ptr = (char *)target.end.ptr + bytes;
    return target;
}

/* Chunk by chunk, each over the next link. */
static leat_status pinned_over_links(leat_stream *stream, const struct leati_plan *plan, struct leati_fleet *fleet)
{
    struct leati_driver *driver = stream->device->driver;
    unsigned link = 0;

    for (size_t at = 0; at < plan->bytes; at += LEATI_LINK_CHUNK_BYTES, link = (link + 1) % (plan->helpers + 1)) {
        size_t bytes = plan->bytes - at < LEATI_LINK_CHUNK_BYTES ? plan->bytes - at : LEATI_LINK_CHUNK_BYTES;
        struct leati_end to = move_target(plan->to, at).end, from = move_target(plan->from, at).end;

        if (link)
            LEATI_TRY(leati_route_copy(leati_fleet_route(fleet, link - 1), to, from, bytes));
        else
            LEATI_TRY(driver->ops->copy(driver, stream->native, to, from, bytes));
    }
    return LEAT_OK;
}

/* A share of the whole over each link, staged for itself. */
static leat_status staged_over_links(leat_stream *stream, const struct leati_plan *plan, struct leati_fleet *fleet,
                                     uint64_t deadline_ns)
{
    size_t share = plan->bytes / (plan->helpers + 1) & ~(size_t)4095;

    for (unsigned link = 0; link <= plan->helpers; link++) {
        struct leati_stage_request request = {
            .direction = plan->direction,
            .early = plan->early,
            .deadline_ns = deadline_ns,
            .route = link ? leati_fleet_route(fleet, link - 1) : NULL,
        };
        struct leati_target to = move_target(plan->to, link * share), from = move_target(plan->from, link * share);
        size_t bytes = link < plan->helpers ? share : plan->bytes - link * share;
        leat_status status = leati_stage_start(plan->stager, stream, &to, &from, bytes, &request, NULL);

        if (status == LEATI_DECLINED)
            return leati_fail(LEAT_ERROR_HOST_MEMORY, "no pinned memory for staging over %u links",
                              plan->helpers + 1);
        LEATI_TRY(status);
    }
    return LEAT_OK;
}

/* LEAT_NOT_READY: the helpers are not to be had, and nothing was given to any stream. */
static leat_status over_links(leat_stream *stream, const struct leati_plan *plan, uint64_t deadline_ns)
{
    struct leati_fleet *fleet;
    leat_status status, ended;

    leati_stream_piece_begins(stream);
    fleet = leati_fleet_begin(stream);
    if (!fleet) {
        leati_stream_piece_ends(stream);
        return LEAT_NOT_READY;
    }
    status = plan->path == LEATI_PATH_DRIVER ? pinned_over_links(stream, plan, fleet)
                                             : staged_over_links(stream, plan, fleet, deadline_ns);
    ended = leati_fleet_end(fleet, stream, status != LEAT_OK);
    leati_stream_piece_ends(stream);
    return status != LEAT_OK ? status : ended;
}

static leat_status stage(leat_stream *stream, const struct leati_plan *plan, uint64_t deadline_ns,
                         struct leati_job **job)
{
    struct leati_stage_request request = {
        .direction = plan->direction, .early = plan->early, .deadline_ns = deadline_ns};

    leat_status status = leati_stage_start(plan->stager, stream, &plan->to, &plan->from, plan->bytes, &request, job);
    return status == LEATI_DECLINED ? LEAT_NOT_READY : status;
}

LEATI_HOT static leat_status run(leat_stream *stream, const struct leati_plan *plan, uint64_t deadline_ns,
                       struct leati_job **job)
{
    leat_status status = LEAT_NOT_READY;

    if (plan->helpers)
        status = over_links(stream, plan, deadline_ns);
    if (plan->path == LEATI_PATH_EAGER) {
        status = plan->direction == LEATI_DIRECTION_IN ? leati_eager_in(plan->stager, stream, &plan->to, &plan->from, plan->bytes)
                                                       : leati_eager_out(plan->stager, stream, &plan->to, &plan->from, plan->bytes);
        if (status == LEATI_DECLINED)
            status = LEAT_NOT_READY;
        else
            return status;
    }
    if (status == LEAT_NOT_READY && plan->path != LEATI_PATH_DRIVER && plan->path != LEATI_PATH_PAGEABLE)
        status = stage(stream, plan, deadline_ns, job);
    return status == LEAT_NOT_READY ? run_by_driver(stream, plan) : status;
}

LEATI_HOT leat_status leati_run_copy(leat_stream *stream, struct leati_plan *plan, uint64_t deadline_ns,
                           struct leati_job **job)
{
    struct leati_target *to = &plan->to, *from = &plan->from;
    struct leati_access written, read;
    leat_status status;

    if (job)
        *job = NULL;
    if (to->end.device && from->end.device && to->end.device != from->end.device)
        LEATI_TRY(leati_enable_peers(to->device, from->device));
    LEATI_TRY(leati_may_use(&written, stream, "dst", to, plan->bytes, true));
    LEATI_TRY(leati_may_use(&read, stream, "src", from, plan->bytes, false));
    status = run(stream, plan, deadline_ns, job);
    if (plan->path != LEATI_PATH_EAGER)
        leati_order_given(stream->order);
    LEATI_TRY(status);
    leati_was_used(&written, stream, to, plan->bytes, true);
    /* A short copy out is complete by now. */
    if (plan->path == LEATI_PATH_EAGER)
        read.tick = 0;
    leati_was_used(&read, stream, from, plan->bytes, false);
    return LEAT_OK;
}

/* ---- waiting ---- */

static leat_status device_health(leat_device *device)
{
    struct leati_driver *driver = device->driver;
    uint64_t free_bytes, total_bytes;

    if (leati_check_device("the copy's device", device) != LEAT_OK)
        return LEAT_ERROR_HANDLE;
    /* A call that needs the context and waits for nothing. */
    return driver->ops->device_memory(driver, device->native, &free_bytes, &total_bytes);
}

leat_status leati_job_wait(struct leati_job *job, leat_device *device, bool done, uint64_t end_ns)
{
    struct timespec pause = {.tv_nsec = 20000};
    uint64_t start = leati_clock_ns(), asked = start, now;
    struct leati_job_state state;

    for (;;) {
        leati_job_look(job, &state);
        if (done ? state.done : state.staged)
            return LEAT_OK;
        now = leati_clock_ns();
        if (now >= end_ns)
            return LEAT_NOT_READY;
        if (now - asked > ASK_NS) {
            LEATI_TRY(device_health(device));
            asked = now;
        }
        if (leati_job_help(job))
            start = now;
        else if (now - start < 200000)
            sched_yield();
        else
            nanosleep(&pause, NULL);
    }
}

leat_status leati_job_result(struct leati_job *job)
{
    struct leati_job_state state;
    char sentence[256];

    leati_job_look(job, &state);
    if (state.status == LEAT_OK)
        return LEAT_OK;
    leati_job_sentence(job, sentence, sizeof sentence);
    return leati_fail(state.status, "%s", sentence);
}

/* ---- the public calls ---- */

LEATI_HOT static leat_status check(const char *what, leat_stream *stream)
{
    LEATI_TRY(leati_check_permitted(what));
    return leati_check_stream(what, stream);
}

static leat_status fail_copy(leat_status status, const char *what, leat_stream *stream, size_t bytes)
{
    return status == LEAT_OK ? status
                             : leati_fail_in(status, "%s of %zu bytes on %s", what, bytes, stream->device->name);
}

LEATI_HOT static leat_status plan(leat_stream *stream, void *dst, const void *src, size_t bytes, struct leati_plan *made)
{
    leat_status status = leati_plan_unasked(stream, dst, src, bytes, made);

    return status == LEAT_NOT_READY ? leati_plan_copy(stream, dst, src, bytes, false, made) : status;
}

LEATI_HOT leat_status leat_copy(leat_stream *stream, void *dst, const void *src, size_t bytes)
{
    struct leati_plan made;
    leat_status status;

    LEATI_TRY(check("leat_copy", stream));
    if (!bytes)
        return LEAT_OK;
    status = plan(stream, dst, src, bytes, &made);
    if (status == LEAT_OK)
        status = leati_run_copy(stream, &made, 0, NULL);
    return fail_copy(status, "leat_copy", stream, bytes);
}

/* The caller, who has nothing else to do, works on the job as well. */
LEATI_HOT static leat_status finish_now(leat_stream *stream, const struct leati_plan *plan, struct leati_job *job)
{
    struct leati_driver *driver = stream->device->driver;
    leat_status status;

    if (job) {
        leati_stager_join(plan->stager, job);
        status = leati_job_wait(job, stream->device, plan->direction != LEATI_DIRECTION_IN, UINT64_MAX);
        return status == LEAT_OK ? leati_job_result(job) : status;
    }
    if (plan->path == LEATI_PATH_DRIVER || plan->path == LEATI_PATH_EAGER)
        return LEAT_OK;
    return driver->ops->stream_synchronize(driver, stream->native);
}

LEATI_HOT leat_status leat_copy_sync(leat_stream *stream, void *dst, const void *src, size_t bytes)
{
    struct leati_job *job = NULL;
    struct leati_plan made;
    leat_status status;

    LEATI_TRY(check("leat_copy_sync", stream));
    if (!bytes)
        return LEAT_OK;
    status = plan(stream, dst, src, bytes, &made);
    if (status == LEAT_OK)
        status = leati_run_copy(stream, &made, 0, &job);
    if (status == LEAT_OK)
        status = finish_now(stream, &made, job);
    if (job)
        leati_job_release(job);
    return fail_copy(status, "leat_copy_sync", stream, bytes);
}
