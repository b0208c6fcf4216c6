/* plan.c - plans and submits transfers, see plan.h. Has the table of protocols and the option that forces one. */
#include "copy/plan.h"

#include "base/assert.h"
#include "base/fault_handler.h"
#include "base/options.h"
#include "base/quick.h"
#include "copy/eager.h"
#include "copy/rails.h"

#include <string.h>

/* For copies from the device up to this size, leat asks the driver whether the stream is idle. For larger copies
 * the driver call costs more than it can save. */
#define ASK_IDLE_BYTES ((size_t)8 << 20)

const struct leati_protocol *const leati_protocols[LEATI_PROTOCOLS] = {
    [LEATI_PROTOCOL_DRIVER] = &leati_proto_driver, [LEATI_PROTOCOL_EAGER] = &leati_proto_eager,
    [LEATI_PROTOCOL_STAGED] = &leati_proto_staged, [LEATI_PROTOCOL_KERNEL] = &leati_proto_kernel,
    [LEATI_PROTOCOL_RAILS] = &leati_proto_rails,   [LEATI_PROTOCOL_HOST] = &leati_proto_host,
};

/* ---- the option ---- */

/* The forced protocol + 1; 0: the option was not read yet. Relaxed: all threads that read the option store the
 * same value. */
static atomic_uint forced_protocol;

static leat_status read_option(enum leati_protocol_id *forced)
{
    const char *word = leati_option(LEATI_OPTION_COPY_PROTOCOL);
    enum leati_protocol_id id = 0;

    if (!word || !strcmp(word, "auto"))
        id = LEATI_PROTOCOLS;
    while (id < LEATI_PROTOCOLS && strcmp(word, leati_protocols[id]->name))
        if (++id == LEATI_PROTOCOLS)
            return leati_fail(LEAT_ERROR_INVALID,
                              "LEAT_COPY_PROTOCOL is set to '%s', and takes auto, driver, eager, staged, kernel, rails or host",
                              word);
    leati_protocol_force(id);
    *forced = id;
    return LEAT_OK;
}

LEATI_HOT leat_status leati_protocol_forced(enum leati_protocol_id *forced)
{
    unsigned kept = atomic_load_explicit(&forced_protocol, memory_order_relaxed);

    *forced = (enum leati_protocol_id)(kept - 1);
    return kept ? LEAT_OK : read_option(forced);
}

void leati_protocol_force(enum leati_protocol_id forced)
{
    leati_assert((unsigned)forced <= LEATI_PROTOCOLS);
    atomic_store_explicit(&forced_protocol, (unsigned)forced + 1, memory_order_relaxed);
}

/* ---- the inputs of the choice ---- */

/* Returns true if the driver's calls and the device's kernels can access pageable memory directly. */
LEATI_HOT static bool is_one_pass(const struct leati_transfer *transfer)
{
    const struct leati_capabilities *can = transfer->stream->device->driver->can;

    if (transfer->shape == LEATI_SHAPE_LAYOUT)
        return can->host_kernels && !leati_option_flag(LEATI_OPTION_LAYOUT_AS_GPU);
    /* leat's threads move the bytes of files, and they cannot access device memory in strict mode. */
    if (transfer->shape == LEATI_SHAPE_FILE && leati_option_flag(LEATI_OPTION_STRICT))
        return false;
    return can->reaches_pageable && !leati_option_flag(LEATI_OPTION_COPY_STAGE);
}

/* Gets the device's stager, or sets plan->unstaged if there is none. Fails only if an environment variable has a
 * wrong value. wait: see find_stager(). */
static leat_status make_stager(struct leati_plan *plan, bool wait)
{
    leat_device *device = plan->transfer.stream->device;
    struct leati_message before;
    leat_status status;

    leati_error_keep(&before);
    status = wait ? leati_stager_get(device, &plan->stager) : leati_stager_find(device, &plan->stager);
    plan->first = status == LEATI_DECLINED;
    if (status == LEAT_OK || status == LEAT_ERROR_INVALID)
        return status;
    plan->stager = NULL;
    plan->unstaged = plan->first ? "pinned memory for staging is made behind the first copies of a process"
                                 : "there is no memory, or no thread, for staging";
    return leati_error_restore(LEAT_OK, &before);
}

/* Sets stager or unstaged, and first. If the stager does not exist yet, a call with wait waits until it exists,
 * and so does a call on a busy stream. On an idle stream the driver's call can make the copy instead, so a call
 * without wait sets plan->first and returns at once. */
LEATI_HOT static leat_status find_stager(struct leati_plan *plan, bool wait)
{
    /* Acquire: makes visible the fields that the thread in staged.c has set before it published the stager. */
    plan->stager = atomic_load_explicit(&plan->transfer.stream->device->stager, memory_order_acquire);
    if (!plan->stager)
        LEATI_TRY(make_stager(plan, wait || !leati_stream_is_idle(plan->transfer.stream)));
    if (plan->stager && plan->stager->refused[0]) {
        plan->unstaged = plan->stager->refused;
        plan->stager = NULL;
    }
    return LEAT_OK;
}

/* Sets plan->idle, and plan->early if a pageable source may be read at once. */
LEATI_HOT static void look_at_stream(struct leati_plan *plan)
{
    const struct leati_transfer *transfer = &plan->transfer;
    leat_stream *stream = transfer->stream;
    bool in = transfer->direction == LEATI_DIRECTION_IN;
    bool ask;

    leati_assert(transfer->direction == LEATI_DIRECTION_IN || transfer->direction == LEATI_DIRECTION_OUT);
    /* If the transfer is still unasked here, the stream is known to be idle, see may_stay_unasked(). */
    plan->early = plan->idle = transfer->unasked;
    if (transfer->unasked)
        return;
    /* leati_stream_reads_now() knows of work that writes pageable memory, but not of DMAs to registered memory. */
    plan->early = in && !transfer->from.mixed && leati_stream_reads_now(stream);
    ask = transfer->shape == LEATI_SHAPE_BATCH || (in ? !plan->early : transfer->bytes <= ASK_IDLE_BYTES);
    plan->idle = ask ? leati_stream_is_idle(stream) : leati_stream_known_idle(stream);
    /* Nothing on this stream writes what a storage in order reads. */
    plan->early |= in && (plan->idle || (transfer->shape == LEATI_SHAPE_FILE && transfer->file.in_order));
}

/* Asks the driver whether the stream is idle. leati_stream_is_idle() would not do: it knows nothing of fills
 * that a pool submits for a new block. Streams that the program got elsewhere may be ordered behind others
 * that are not idle. */
static bool may_begin_at_once(const struct leati_transfer *transfer)
{
    leat_stream *stream = transfer->stream;
    struct leati_driver *driver = stream->device->driver;

    return transfer->shape == LEATI_SHAPE_FILE && !transfer->file.detached && transfer->bytes <= ASK_IDLE_BYTES &&
           !atomic_load_explicit(&stream->foreign, memory_order_relaxed) && !stream->timeline->per_thread &&
           LEATI_QUIETLY(driver->ops->stream_query(driver, stream->native)) == LEAT_OK;
}

LEATI_HOT static leat_status look(struct leati_plan *plan, bool wait)
{
    const struct leati_transfer *transfer = &plan->transfer;

    leati_assert(transfer->bytes || transfer->shape == LEATI_SHAPE_BATCH);
    plan->stager = NULL;
    plan->unstaged = "no side is pageable";
    plan->first = plan->one_pass = plan->early = plan->idle = plan->at_once = false;
    plan->rails = transfer->shape == LEATI_SHAPE_RUN && transfer->bytes >= LEATI_RAILS_BYTES
                      ? leati_rails_count(transfer->stream->device)
                      : 0;
    LEATI_TRY(leati_protocol_forced(&plan->forced));
    if (transfer->direction == LEATI_DIRECTION_DEVICE && transfer->shape != LEATI_SHAPE_LAYOUT)
        return LEAT_OK;
    plan->one_pass = is_one_pass(transfer);
    if (transfer->direction == LEATI_DIRECTION_DEVICE)
        return LEAT_OK;
    plan->unstaged = "the device reaches pageable memory by itself";
    if (plan->one_pass && transfer->shape != LEATI_SHAPE_FILE &&
        (!transfer->followed || leati_option_flag(LEATI_OPTION_STRICT)))
        return LEAT_OK;
    LEATI_TRY(find_stager(plan, wait || transfer->followed || transfer->shape != LEATI_SHAPE_RUN));
    if (plan->stager && transfer->shape == LEATI_SHAPE_FILE)
        LEATI_TRY(transfer->file.in_order ? leati_stager_start_storage(plan->stager)
                                          : leati_stager_start_files(plan->stager));
    leati_assert(!plan->stager || (!plan->stager->refused[0] && plan->stager->workers));
    if (plan->stager && transfer->direction != LEATI_DIRECTION_HOST)
        look_at_stream(plan);
    if (plan->stager && (plan->one_pass || transfer->direction == LEATI_DIRECTION_HOST))
        plan->at_once = may_begin_at_once(transfer);
    return LEAT_OK;
}

leat_status leati_plan_look(struct leati_plan *plan)
{
    return look(plan, false);
}

/* ---- choosing ---- */

/* Returns the forced protocol if it is possible, else the fastest candidate that has not declined, or
 * LEATI_PROTOCOLS if no candidate is left. */
LEATI_HOT static enum leati_protocol_id next_protocol(const struct leati_plan *plan)
{
    enum leati_protocol_id best = LEATI_PROTOCOLS;

    if (plan->forced < LEATI_PROTOCOLS && plan->candidates[plan->forced].cost_ns < LEATI_COST_LAST)
        return plan->forced;
    for (enum leati_protocol_id id = 0; id < LEATI_PROTOCOLS; id++)
        if (plan->candidates[id].cost_ns != LEATI_COST_NONE &&
            (best == LEATI_PROTOCOLS || plan->candidates[id].cost_ns < plan->candidates[best].cost_ns))
            best = id;
    return best;
}

static leat_status fail_unsupported(const struct leati_plan *plan)
{
    const struct leati_candidate *candidates = plan->candidates;

    return leati_fail(LEAT_ERROR_HOST_MEMORY, "no protocol can make this copy now: driver: %s; staged: %s",
                      candidates[LEATI_PROTOCOL_DRIVER].why_not, candidates[LEATI_PROTOCOL_STAGED].why_not);
}

LEATI_HOT leat_status leati_plan_compare(struct leati_plan *plan)
{
    unsigned shape = LEATI_BIT(plan->transfer.shape), direction = LEATI_BIT(plan->transfer.direction);

    for (enum leati_protocol_id id = 0; id < LEATI_PROTOCOLS; id++) {
        const struct leati_protocol *protocol = leati_protocols[id];
        struct leati_candidate *candidate = &plan->candidates[id];

        leati_assert(protocol && protocol->name && protocol->supports && protocol->cost_ns && protocol->submit);
        candidate->cost_ns = LEATI_COST_NONE;
        candidate->why_not = plan->transfer.shape == LEATI_SHAPE_FILE
                                 ? "files are read and written by leat's threads"
                                 : protocol->is_for;
        if (!(protocol->shapes & shape) || !(protocol->directions & direction))
            continue;
        candidate->why_not = NULL;
        if (protocol->supports(plan, &candidate->why_not))
            candidate->cost_ns = candidate->why_not ? LEATI_COST_LAST : protocol->cost_ns(plan);
        leati_assert(candidate->cost_ns != LEATI_COST_NONE || candidate->why_not);
    }
    plan->protocol = next_protocol(plan);
    leati_assert(plan->protocol == LEATI_PROTOCOLS || plan->candidates[plan->protocol].cost_ns != LEATI_COST_NONE);
    return plan->protocol < LEATI_PROTOCOLS ? LEAT_OK : fail_unsupported(plan);
}

LEATI_HOT leat_status leati_plan_choose(struct leati_plan *plan)
{
    LEATI_TRY(leati_plan_look(plan));
    return leati_plan_compare(plan);
}

/* ---- contiguous copies ---- */

LEATI_HOT bool leati_plan_is_guarded(struct leati_plan *plan)
{
    leati_assert(plan->transfer.shape == LEATI_SHAPE_RUN);
    if (plan->guard == LEATI_PLAN_GUARD_UNKNOWN)
        plan->guard = leati_fault_handler_is_installed() ? LEATI_PLAN_GUARD_INSTALLED : LEATI_PLAN_GUARD_MISSING;
    return plan->guard == LEATI_PLAN_GUARD_INSTALLED;
}

/*
 * Returns true if leat need not ask the drivers about addresses that it does not know. Such an address is pageable
 * memory, or memory that was pinned without leat. If the stream is idle and the copy short, the caller's thread
 * can copy both kinds correctly, and detects unmapped pages. A driver's pointer query would take a large part of
 * the time of such a copy.
 */
LEATI_HOT static bool may_stay_unasked(struct leati_plan *plan)
{
    const struct leati_transfer *transfer = &plan->transfer;
    const struct leati_stager *stager =
        atomic_load_explicit(&transfer->stream->device->stager, memory_order_acquire);

    return transfer->direction < LEATI_DIRECTION_HOST && stager && !stager->refused[0] &&
           leati_stream_known_idle(transfer->stream) && leati_plan_is_guarded(plan);
}

/* Returns true if the chosen protocol detects pageable memory that is not mapped, so that no check is needed
 * before. */
LEATI_HOT static bool finds_out(struct leati_plan *plan)
{
    return plan->transfer.shape == LEATI_SHAPE_RUN &&
           ((plan->protocol == LEATI_PROTOCOL_EAGER && leati_plan_is_guarded(plan)) ||
            (plan->protocol == LEATI_PROTOCOL_DRIVER && !plan->one_pass &&
             (plan->first || (plan->stager && leati_plan_is_guarded(plan))) &&
             plan->candidates[LEATI_PROTOCOL_DRIVER].cost_ns < LEATI_COST_LAST));
}

/* Checks pageable memory before the driver's call copies it, because the driver's call crashes if a page in the
 * middle is not mapped. If a page is missing, plans again with a stager, whose threads report the address. */
static leat_status plan_first(struct leati_plan *plan)
{
    leati_assert(plan->first && plan->transfer.shape == LEATI_SHAPE_RUN);
    /* If another fault handler is installed, leat can only check the first and the last byte. */
    if (!leati_plan_is_guarded(plan))
        return leati_transfer_check_mapped(&plan->transfer);
    if (leati_transfer_is_usable(&plan->transfer))
        return LEAT_OK;
    LEATI_TRY(leati_transfer_check_mapped(&plan->transfer));
    LEATI_TRY(look(plan, true));
    if (!plan->stager)
        return leati_fail(LEAT_ERROR_POINTER,
                          "a page between the first and the last byte of %s %p + %zu is not there",
                          leati_is_pageable(&plan->transfer.from) ? "src" : "dst",
                          leati_is_pageable(&plan->transfer.from) ? plan->transfer.from.location.ptr
                                                                  : plan->transfer.to.location.ptr,
                          plan->transfer.bytes);
    return leati_plan_compare(plan);
}

/* Plans a contiguous copy that has a pageable side or may use rails. */
LEATI_HOT static leat_status plan_pageable(struct leati_plan *plan)
{
    struct leati_transfer *transfer = &plan->transfer;

    if (transfer->unasked && !may_stay_unasked(plan))
        LEATI_TRY(leati_transfer_ask(transfer));
    LEATI_TRY(look(plan, false));
    LEATI_TRY(leati_plan_compare(plan));
    if (transfer->unasked && plan->protocol > LEATI_PROTOCOL_EAGER) {
        LEATI_TRY(leati_transfer_ask(transfer));
        LEATI_TRY(leati_plan_choose(plan));
    }
    if (plan->first)
        LEATI_TRY(plan_first(plan));
    return finds_out(plan) ? LEAT_OK : leati_transfer_check_mapped(transfer);
}

/* Returns true if a first plan may do without asking the drivers about unknown addresses: the copy is short, or it
 * is of medium size and a driver has said recently that one side is pageable. */
LEATI_HOT static bool is_quick(const void *dst, const void *src, size_t bytes)
{
    return bytes <= LEATI_EAGER_SHORT_BYTES ||
           (bytes <= LEATI_EAGER_MOST_BYTES &&
            (leati_pointers_was_pageable(dst, bytes) || leati_pointers_was_pageable(src, bytes)));
}

LEATI_HOT leat_status leati_plan_copy(struct leati_plan *plan, leat_stream *stream, void *dst, const void *src,
                                      size_t bytes, bool followed, bool quick)
{
    struct leati_transfer *transfer = &plan->transfer;

    leati_assert(bytes);
    transfer->stream = stream;
    transfer->bytes = transfer->to_reach = transfer->from_reach = bytes;
    transfer->shape = LEATI_SHAPE_RUN;
    transfer->followed = followed;
    transfer->deadline_ns = 0;
    plan->guard = LEATI_PLAN_GUARD_UNKNOWN;
    LEATI_TRY(leati_transfer_resolve(transfer, dst, src, !quick || !is_quick(dst, src, bytes)));
    LEATI_TRY(leati_check_runs(dst, src, bytes));
    plan->protocol = LEATI_PROTOCOL_DRIVER;
    if (transfer->direction == LEATI_DIRECTION_DEVICE && bytes < LEATI_RAILS_BYTES)
        return LEAT_OK;
    return plan_pageable(plan);
}

leat_status leati_plan_file(struct leati_plan *plan, leat_stream *stream, void *memory,
                            const struct leati_storage *file, size_t bytes, bool followed)
{
    struct leati_transfer *transfer = &plan->transfer;

    transfer->stream = stream;
    transfer->bytes = bytes;
    transfer->to_reach = file->write ? 0 : bytes;
    transfer->from_reach = file->write ? bytes : 0;
    transfer->shape = LEATI_SHAPE_FILE;
    transfer->file = *file;
    transfer->scatter = NULL;
    transfer->followed = followed;
    transfer->deadline_ns = 0;
    LEATI_TRY(leati_transfer_resolve_file(transfer, memory));
    return leati_plan_choose(plan);
}

leat_status leati_plan_file_scattered(struct leati_plan *plan, leat_stream *stream, leat_kind kind,
                                      const struct leati_scatter *scatter, const struct leati_storage *file,
                                      size_t bytes, bool followed)
{
    struct leati_transfer *transfer = &plan->transfer;
    struct leati_endpoint memory = {.location = {.kind = kind}, .device = stream->device},
                          storage = {.location = {.kind = LEAT_KIND_PAGEABLE}};

    *transfer = (struct leati_transfer){.stream = stream,
                                        .bytes = bytes,
                                        .to = file->write ? storage : memory,
                                        .from = file->write ? memory : storage,
                                        .shape = LEATI_SHAPE_FILE,
                                        .direction = kind != LEAT_KIND_DEVICE ? LEATI_DIRECTION_HOST
                                                     : file->write            ? LEATI_DIRECTION_OUT
                                                                              : LEATI_DIRECTION_IN,
                                        .followed = followed,
                                        .scatter = scatter,
                                        .file = *file};
    return leati_plan_choose(plan);
}

/* ---- submitting ---- */

/* Called when the chosen protocol has declined: tries the other candidates. DECLINED: the transfer is unasked, so
 * the caller must plan again and ask the drivers. */
static leat_status submit_next(struct leati_plan *plan, struct leati_job **job)
{
    leat_status status = LEATI_DECLINED;

    while (status == LEATI_DECLINED && !plan->transfer.unasked) {
        struct leati_candidate *candidate = &plan->candidates[plan->protocol];
        enum leati_protocol_id next;

        *candidate = (struct leati_candidate){LEATI_COST_NONE, "it declined"};
        next = next_protocol(plan);
        if (next == LEATI_PROTOCOLS)
            return fail_unsupported(plan);
        leati_assert(next != plan->protocol);
        plan->protocol = next;
        /* The memory of a copy of a file was checked when it was resolved. */
        if (plan->transfer.shape != LEATI_SHAPE_FILE && !finds_out(plan))
            LEATI_TRY(leati_transfer_check_mapped(&plan->transfer));
        status = leati_protocols[next]->submit(plan, job);
    }
    return status;
}

void leati_plan_trace(const struct leati_plan *plan)
{
    const struct leati_transfer *transfer = &plan->transfer;
    bool file = transfer->shape == LEATI_SHAPE_FILE, writes = file && transfer->file.write;
    struct leati_span_part part = {
        .bytes = transfer->bytes,
        .source = transfer->from.location.ptr,
        .from = file && !writes ? LEATI_TRACE_MEMORY_FILE : leati_span_kind(transfer->from.location.kind),
        .to = writes ? LEATI_TRACE_MEMORY_FILE : leati_span_kind(transfer->to.location.kind),
        .protocol = (enum leati_trace_how)(LEATI_TRACE_PROTOCOL_DRIVER + (unsigned)plan->protocol),
        .pieces = 1,
    };

    if (transfer->shape == LEATI_SHAPE_REGION)
        part.pieces = (uint32_t)(transfer->region.height * transfer->region.depth);
    leati_span_copy(&part);
}

/* Describes a submitted transfer to the trace. */
__attribute__((noinline)) static void span_submitted(const struct leati_plan *plan, leat_status status)
{
    leati_span_work_ends(&plan->transfer.stream->traced);
    leati_span_stream(&plan->transfer.stream->traced);
    if (status == LEAT_OK)
        leati_plan_trace(plan);
}

LEATI_HOT leat_status leati_plan_submit(struct leati_plan *plan, struct leati_job **job)
{
    const struct leati_transfer *transfer = &plan->transfer;
    struct leati_transfer_use use;
    leat_status status;

    leati_assert(plan->protocol < LEATI_PROTOCOLS && transfer->shape != LEATI_SHAPE_BATCH);
    if (job)
        *job = NULL;
    LEATI_TRY(leati_transfer_may_start(transfer, &use));
    if (leati_traced())
        leati_span_work_begins(&transfer->stream->traced);
    status = leati_protocols[plan->protocol]->submit(plan, job);
    if (status == LEATI_DECLINED)
        status = submit_next(plan, job);
    if (leati_traced())
        span_submitted(plan, status);
    if (plan->protocol != LEATI_PROTOCOL_EAGER)
        leati_timeline_submitted(transfer->stream->timeline);
    if (status < LEAT_OK)
        return leati_fail_in(status, "%s", leati_protocols[plan->protocol]->name);
    leati_assert(!job || !*job || plan->stager);
    if (status != LEAT_OK)
        return status;
    leati_transfer_was_submitted(
        transfer, &use, plan->protocol == LEATI_PROTOCOL_EAGER && transfer->direction == LEATI_DIRECTION_OUT);
    return LEAT_OK;
}
