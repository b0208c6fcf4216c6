/*
 * proto_rails.c - makes large copies to a device over the host links of several devices (rails.h).
 *
 * Chunks of pinned memory go over the links in turn. Pageable memory is split into one share for each link, and
 * each share is a staged copy.
 */
#include "base/assert.h"
#include "base/quick.h"
#include "copy/costs.h"
#include "copy/plan.h"
#include "copy/rails.h"

LEATI_HOT static bool supports(const struct leati_plan *plan, const char **why_not)
{
    const struct leati_transfer *transfer = &plan->transfer;
    leat_device *device = transfer->stream->device;

    if (transfer->bytes < LEATI_RAILS_BYTES)
        *why_not = leati_proto_rails.is_for;
    else if (transfer->to.location.kind != LEAT_KIND_DEVICE || transfer->to.device != device)
        *why_not = "the destination is not memory of the stream's device";
    else if (transfer->from.location.kind != LEAT_KIND_PINNED && transfer->direction != LEATI_DIRECTION_IN)
        *why_not = "the source is not in host memory";
    else if (transfer->direction != LEATI_DIRECTION_DEVICE && (!plan->stager || plan->one_pass))
        *why_not = plan->unstaged;
    else if (transfer->direction != LEATI_DIRECTION_DEVICE && transfer->followed)
        *why_not = "a ticket follows one job, and each link would have its own";
    else if (!plan->rails)
        *why_not = "there are no helpers";
    return !*why_not;
}

/* Returns the expected time. Staged copies gain less than copies of pinned memory, because all links share the
 * worker threads and the host's memory. */
static uint64_t cost_ns(const struct leati_plan *plan)
{
    const struct leati_transfer *transfer = &plan->transfer;
    unsigned links = plan->rails + 1;

    if (transfer->direction == LEATI_DIRECTION_DEVICE)
        return leati_cost_link(transfer->bytes, links);
    return leati_cost_staged(transfer->stream->device, plan->stager, false, transfer->bytes / links);
}

static leat_status copy_pinned(const struct leati_plan *plan, struct leati_rails *rails)
{
    const struct leati_transfer *transfer = &plan->transfer;
    struct leati_driver *driver = transfer->stream->device->driver;
    size_t bytes = transfer->bytes;
    unsigned link = 0;

    leati_assert(plan->rails && rails && transfer->direction == LEATI_DIRECTION_DEVICE);
    for (size_t at = 0; at < bytes; at += LEATI_RAIL_CHUNK_BYTES, link = (link + 1) % (plan->rails + 1)) {
        size_t chunk = bytes - at < LEATI_RAIL_CHUNK_BYTES ? bytes - at : LEATI_RAIL_CHUNK_BYTES;
        struct leati_location to = leati_location_at(transfer->to.location, at),
                              from = leati_location_at(transfer->from.location, at);

        if (link)
            LEATI_TRY(leati_rail_copy(leati_rails_at(rails, link - 1), to, from, chunk));
        else
            LEATI_TRY(driver->ops->copy(driver, transfer->stream->native, to, from, chunk));
    }
    return LEAT_OK;
}

/* A share of pageable memory for each link. */
struct shares {
    unsigned count; /* number of shares whose memory is reserved */
    struct leati_stage_request requests[LEATI_RAILS_MAX + 1];
    struct leati_stage stages[LEATI_RAILS_MAX + 1];
};

static void drop_shares(struct shares *shares, unsigned from)
{
    for (unsigned link = from; link < shares->count; link++)
        leati_stage_drop(&shares->stages[link]);
}

/* Reserves the memory of all shares. The caller must not hold the stream's lock, because the reservation may wait
 * for memory of another copy, whose submission may need this lock. Only the first share may wait, because a later
 * share would wait while the earlier shares hold memory. */
static leat_status reserve_shares(const struct leati_plan *plan, struct leati_rails *rails, struct shares *shares)
{
    const struct leati_transfer *transfer = &plan->transfer;
    size_t share = transfer->bytes / (plan->rails + 1) & ~(size_t)4095;

    leati_assert(plan->stager && plan->rails && share && transfer->direction == LEATI_DIRECTION_IN);
    for (unsigned link = 0; link <= plan->rails; link++) {
        struct leati_endpoint to = leati_endpoint_at(transfer->to, link * share);
        struct leati_endpoint from = leati_endpoint_at(transfer->from, link * share);
        size_t bytes = link < plan->rails ? share : transfer->bytes - link * share;
        leat_status status;

        shares->requests[link] = (struct leati_stage_request){
            .direction = LEATI_DIRECTION_IN,
            .early = plan->early,
            .no_wait = link > 0,
            .deadline_ns = transfer->deadline_ns,
            .rail = link ? leati_rails_at(rails, link - 1) : NULL,
        };
        status = leati_stage_reserve(&shares->stages[link], plan->stager, transfer->stream, &to, &from, bytes,
                                     &shares->requests[link]);
        if (status != LEAT_OK) {
            drop_shares(shares, 0);
            return status;
        }
        shares->count++;
    }
    return LEAT_OK;
}

static leat_status submit_shares(struct shares *shares)
{
    for (unsigned link = 0; link < shares->count; link++) {
        leat_status status = leati_stage_submit(&shares->stages[link], NULL);

        if (status != LEAT_OK) {
            drop_shares(shares, link + 1);
            return status;
        }
    }
    return LEAT_OK;
}

static leat_status submit(struct leati_plan *plan, struct leati_job **job)
{
    leat_stream *stream = plan->transfer.stream;
    bool pinned = plan->transfer.direction == LEATI_DIRECTION_DEVICE;
    struct shares shares = {.count = 0};
    struct leati_rails *rails;
    leat_status status, ended;

    (void)job;
    rails = leati_rails_take(stream->device, plan->rails);
    if (!rails)
        return LEATI_DECLINED;
    status = pinned ? LEAT_OK : reserve_shares(plan, rails, &shares);
    if (status != LEAT_OK) {
        leati_rails_give_back(rails);
        return status;
    }
    leati_stream_piece_begins(stream);
    if (leati_rails_begin(rails, stream) != LEAT_OK) {
        leati_stream_piece_ends(stream);
        drop_shares(&shares, 0);
        leati_rails_give_back(rails);
        return LEATI_DECLINED;
    }
    status = pinned ? copy_pinned(plan, rails) : submit_shares(&shares);
    ended = leati_rails_end(rails, stream, status != LEAT_OK);
    leati_stream_piece_ends(stream);
    leati_rails_give_back(rails);
    return status != LEAT_OK ? status : ended;
}

static void explain(const struct leati_plan *plan, struct leati_strbuf *text)
{
    leati_strbuf_add(text, "%s over %u host links, and across from %u other device%s",
                     plan->transfer.direction == LEATI_DIRECTION_DEVICE ? "by DMA" : "staged", plan->rails + 1,
                     plan->rails, plan->rails > 1 ? "s" : "");
}

const struct leati_protocol leati_proto_rails = {
    .name = "rails",
    .shapes = LEATI_BIT(LEATI_SHAPE_RUN),
    .directions = LEATI_BIT(LEATI_DIRECTION_IN) | LEATI_BIT(LEATI_DIRECTION_DEVICE),
    .is_for = "it is for 64 MiB and more from host memory",
    .supports = supports,
    .cost_ns = cost_ns,
    .submit = submit,
    .explain = explain,
};
