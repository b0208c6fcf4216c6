/*
 * model_share.c - reads bytes that several items want once, and copies them to the other destinations.
 *
 * leat cuts the reads into pieces that the same reads want. Of each piece the read of the item with the lowest
 * number is the source: it is filled from the file. Copies from there fill the other destinations, on their own
 * streams. A lane is a stream of the load.
 *
 * Order. No call here waits, with the exceptions of leat_file_read() and leat_copy(). Streams wait for events:
 *
 *     source stream       read batch 1, event 1, read batch 2, event 2, ...    wait for "behind"
 *     destination stream  wait for event 1, copy, wait for event 2, copy, ...  event "behind"
 *
 * So a destination is filled while the source reads the next batch. Later work of the source's stream may write
 * the source, or free it, so that work waits until the copies from there are complete. If a call fails half-way,
 * the copies that were started still need this wait (close_lanes()).
 */
#include "model_load.h"

#include <leat/memory.h>

#include <stdlib.h>
#include <string.h>

/* The bytes of one batch of shared reads: a share of all, within limits. Batches of one stream do not overlap, and
 * each needs about a millisecond until the link is busy (64 MiB each: 29 GB/s, one read: 49, on an H200). The
 * copies of the last one begin when everything has been read, so it must not be too long either. */
#define BATCH_SHARE 8
#define BATCH_BYTES_LEAST ((uint64_t)64 << 20)
#define BATCH_BYTES_MOST ((uint64_t)1 << 30)

struct lane {
    leat_stream *stream;
    leat_device *device;
    char driver[8];
    leat_event *behind; /* follows the lane's copies; NULL: no other lane is a source of the lane */
    bool copied;        /* a copy from another lane was started on this one */
};

/* A destination of a piece, other than its source. */
struct target {
    uint32_t lane;
    char *dst;
};

/* A range of a file that is read once. */
struct piece {
    struct leatm_read source;
    size_t first, count; /* its targets */
};

/* Consecutive pieces of one lane that are read as one batch. */
struct share_batch {
    size_t first, count; /* pieces */
    size_t ticket;       /* index in the load */
    leat_event *read;    /* recorded behind the batch; NULL: no other lane is a target */
};

struct share {
    leat_model_load *load;
    uint64_t batch_bytes;
    struct lane *lanes;
    size_t lane_count, lane_room;
    bool *feeds; /* [source * lane_count + target]: the first lane has a source for the second one */
    struct piece *pieces;
    size_t piece_count, piece_room;
    struct target *targets;
    size_t target_count, target_room;
    struct leatm_read *alone; /* reads, and parts of reads, of bytes that no other read wants */
    size_t alone_count, alone_room;
    const struct leatm_read **active; /* while pieces are cut: the reads that want the present bytes */
    size_t active_count;
    struct share_batch *batches;
    size_t batch_count, batch_room;
};

/* ---- lanes ---- */

/* Finds the lane of a stream, or makes it. */
static leat_status find_lane(struct share *share, leat_stream *stream, uint32_t *number)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    struct lane lane = {.stream = stream};
    size_t i;

    for (i = 0; i < share->lane_count && share->lanes[i].stream != stream; i++)
        continue;
    *number = (uint32_t)i;
    if (i < share->lane_count)
        return LEAT_OK;
    TRY(leatm_model_room(&share->lanes, &share->lane_room, share->lane_count, sizeof *share->lanes));
    TRY(leat_stream_device(stream, &lane.device));
    TRY(leat_device_get_info(lane.device, &info));
    memcpy(lane.driver, info.driver, sizeof lane.driver);
    share->lanes[share->lane_count++] = lane;
    return LEAT_OK;
}

static leat_status find_lanes(struct share *share, struct leatm_read *reads, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i && reads[i].stream == reads[i - 1].stream)
            reads[i].lane = reads[i - 1].lane;
        else
            TRY(find_lane(share, reads[i].stream, &reads[i].lane));
    }
    share->feeds = calloc(share->lane_count * share->lane_count + 1, sizeof *share->feeds);
    return share->feeds ? LEAT_OK
                        : leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for %zu streams", share->lane_count);
}

/* ---- pieces ---- */

static int compare(uint64_t left, uint64_t right)
{
    return left < right ? -1 : left > right;
}

/* By file, offset and item. */
static int compare_reads(const void *a, const void *b)
{
    const struct leatm_read *left = a, *right = b;
    int files = compare(left->file_number, right->file_number), offsets = compare(left->offset, right->offset);

    return files ? files : offsets ? offsets : compare(left->order, right->order);
}

/* By lane of the source, file and offset. */
static int compare_pieces(const void *a, const void *b)
{
    const struct piece *left = a, *right = b;
    int lanes = compare(left->source.lane, right->source.lane);
    int files = compare(left->source.file_number, right->source.file_number);

    return lanes ? lanes : files ? files : compare(left->source.offset, right->source.offset);
}

static uint64_t end_of(const struct leatm_read *read)
{
    return read->offset + read->bytes;
}

/* Returns a part of a read: bytes bytes from an offset in the file on. */
static struct leatm_read part_of(const struct leatm_read *read, uint64_t offset, uint64_t bytes)
{
    struct leatm_read part = *read;

    part.dst += offset - read->offset;
    part.offset = offset;
    part.bytes = bytes;
    return part;
}

static leat_status add_alone(struct share *share, struct leatm_read read)
{
    TRY(leatm_model_room(&share->alone, &share->alone_room, share->alone_count, sizeof *share->alone));
    share->alone[share->alone_count++] = read;
    return LEAT_OK;
}

/* Adds the piece that the active reads of one driver want, whose first one in the order of the items is source. */
static leat_status add_piece(struct share *share, const struct leatm_read *source, uint64_t offset, uint64_t bytes)
{
    const char *driver = share->lanes[source->lane].driver;
    struct piece piece = {.source = part_of(source, offset, bytes), .first = share->target_count};

    for (size_t i = 0; i < share->active_count; i++) {
        const struct leatm_read *read = share->active[i];

        if (read == source || strcmp(share->lanes[read->lane].driver, driver))
            continue;
        TRY(leatm_model_room(&share->targets, &share->target_room, share->target_count, sizeof *share->targets));
        share->targets[share->target_count++] = (struct target){read->lane, read->dst + (offset - read->offset)};
        share->feeds[source->lane * share->lane_count + read->lane] = true;
        share->load->copied_bytes += bytes;
    }
    piece.count = share->target_count - piece.first;
    if (!piece.count)
        return add_alone(share, piece.source);
    TRY(leatm_model_room(&share->pieces, &share->piece_room, share->piece_count, sizeof *share->pieces));
    share->pieces[share->piece_count++] = piece;
    return LEAT_OK;
}

/* Adds the bytes that all active reads want. Streams of different drivers cannot wait for each other, so each
 * driver has a source of its own. */
static leat_status add_pieces(struct share *share, uint64_t offset, uint64_t bytes)
{
    for (size_t i = 0; i < share->active_count; i++) {
        const struct leatm_read *source = NULL;

        for (size_t j = 0; j < share->active_count; j++) {
            const struct leatm_read *read = share->active[j];

            if (strcmp(share->lanes[read->lane].driver, share->lanes[share->active[i]->lane].driver))
                continue;
            if (!source || read->order < source->order)
                source = read;
        }
        if (source == share->active[i])
            TRY(add_piece(share, source, offset, bytes));
    }
    return LEAT_OK;
}

/* Removes the active reads that end at an offset. */
static void retire(struct share *share, uint64_t offset)
{
    size_t kept = 0;

    for (size_t i = 0; i < share->active_count; i++)
        if (end_of(share->active[i]) > offset)
            share->active[kept++] = share->active[i];
    share->active_count = kept;
}

/* Cuts reads of one file, sorted by offset, of which each overlaps an earlier one, but the first. */
static leat_status cut(struct share *share, const struct leatm_read *reads, size_t count)
{
    uint64_t at = reads[0].offset, next;
    size_t begun = 0;

    share->active_count = 0;
    for (;;) {
        for (; begun < count && reads[begun].offset == at; begun++)
            share->active[share->active_count++] = &reads[begun];
        if (!share->active_count)
            return LEAT_OK;
        next = begun < count ? reads[begun].offset : UINT64_MAX;
        for (size_t i = 0; i < share->active_count; i++)
            if (end_of(share->active[i]) < next)
                next = end_of(share->active[i]);
        /* Pieces end where batches may end. A piece that only one read wants can be as long as the read. */
        if (share->active_count > 1 && (at / share->batch_bytes + 1) * share->batch_bytes < next)
            next = (at / share->batch_bytes + 1) * share->batch_bytes;
        TRY(add_pieces(share, at, next - at));
        retire(share, next);
        at = next;
    }
}

/* Cuts all reads into pieces. */
static leat_status cut_all(struct share *share, struct leatm_read *reads, size_t count)
{
    size_t end;

    share->active = malloc(count * sizeof *share->active);
    if (!share->active)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a list of %zu reads", count);
    qsort(reads, count, sizeof *reads, compare_reads);
    for (size_t first = 0; first < count; first = end) {
        uint64_t reach = end_of(&reads[first]);

        for (end = first + 1; end < count; end++) {
            if (reads[end].file_number != reads[first].file_number || reads[end].offset >= reach)
                break;
            reach = end_of(&reads[end]) > reach ? end_of(&reads[end]) : reach;
        }
        TRY(end - first == 1 ? add_alone(share, reads[first]) : cut(share, reads + first, end - first));
    }
    if (share->piece_count > 1)
        qsort(share->pieces, share->piece_count, sizeof *share->pieces, compare_pieces);
    return LEAT_OK;
}

/* ---- reads ---- */

static bool needs_event(const struct share *share, const struct share_batch *batch)
{
    for (size_t i = batch->first; i < batch->first + batch->count; i++) {
        const struct piece *piece = &share->pieces[i];

        for (size_t j = piece->first; j < piece->first + piece->count; j++)
            if (share->targets[j].lane != piece->source.lane)
                return true;
    }
    return false;
}

/* Starts the batch that begins at a piece. reads and ops have room for LEATM_BATCH_MAX. */
static leat_status read_batch(struct share *share, size_t first, struct leatm_read *reads, leat_file_op *ops)
{
    struct share_batch batch = {.first = first, .ticket = share->load->count};
    const struct leatm_read *source = &share->pieces[first].source;
    uint64_t bytes = 0;
    size_t taken;

    while (first + batch.count < share->piece_count && batch.count < LEATM_BATCH_MAX) {
        const struct leatm_read *next = &share->pieces[first + batch.count].source;

        if (next->lane != source->lane || (batch.count && bytes + next->bytes > share->batch_bytes))
            break;
        bytes += next->bytes;
        reads[batch.count++] = *next;
    }
    TRY(leatm_model_room(&share->batches, &share->batch_room, share->batch_count, sizeof *share->batches));
    if (needs_event(share, &batch))
        TRY(leat_event_create(share->lanes[source->lane].device, &batch.read));
    share->batches[share->batch_count++] = batch;
    TRY(leatm_load_batch(share->load, reads, batch.count, ops, &taken));
    return batch.read ? leat_event_record(source->stream, batch.read) : LEAT_OK;
}

static leat_status read_pieces(struct share *share)
{
    size_t room = share->piece_count < LEATM_BATCH_MAX ? share->piece_count : LEATM_BATCH_MAX;
    struct leatm_read *reads = malloc((room + 1) * sizeof *reads);
    leat_file_op *ops = malloc((room + 1) * sizeof *ops);
    leat_status status = LEAT_OK;

    if (!reads || !ops)
        status = leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a list of %zu reads", room);
    for (size_t i = 0; i < share->piece_count && status == LEAT_OK;) {
        status = read_batch(share, i, reads, ops);
        if (status == LEAT_OK)
            i += share->batches[share->batch_count - 1].count;
    }
    free(reads);
    free(ops);
    return status;
}

/* ---- copies ---- */

/* A copy under construction: pieces that continue each other on both sides, in the same allocations. */
struct run {
    char *dst;
    const char *src;
    uint64_t bytes;
    leat_pointer_info to, from;
};

/* Starts the copy of a run. *event_bytes counts the bytes that an event must follow. */
static leat_status copy_run(struct share *share, leat_stream *stream, const struct run *run, uint64_t *event_bytes)
{
    /* leat's threads make copies of pageable memory, and these can fail later, so they need a ticket. */
    bool followed = run->to.kind == LEAT_KIND_PAGEABLE || run->from.kind == LEAT_KIND_PAGEABLE;

    if (!run->bytes)
        return LEAT_OK;
    *event_bytes += followed ? 0 : run->bytes;
    return leatm_load_copy(share->load, stream, run->dst, run->src, (size_t)run->bytes, followed);
}

static bool same_block(const leat_pointer_info *one, const leat_pointer_info *two)
{
    return one->kind == two->kind && one->base == two->base && one->device == two->device;
}

/* Adds the copy of a piece to a run, which it may start anew. */
static leat_status add_to_run(struct share *share, leat_stream *stream, struct run *run, const struct piece *piece,
                              const struct target *target, uint64_t *event_bytes)
{
    struct run next = {target->dst, piece->source.dst, piece->source.bytes, LEAT_POINTER_INFO_INIT,
                       LEAT_POINTER_INFO_INIT};

    TRY(leat_pointer_get_info(next.dst, &next.to));
    TRY(leat_pointer_get_info(next.src, &next.from));
    if (run->bytes && run->dst + run->bytes == next.dst && run->src + run->bytes == next.src &&
        same_block(&run->to, &next.to) && same_block(&run->from, &next.from)) {
        run->bytes += next.bytes;
        return LEAT_OK;
    }
    TRY(copy_run(share, stream, run, event_bytes));
    *run = next;
    return LEAT_OK;
}

/* Copies the pieces of a batch that a lane wants. */
static leat_status copy_pieces(struct share *share, const struct share_batch *batch, uint32_t lane)
{
    leat_stream *stream = share->lanes[lane].stream;
    struct run run = {.bytes = 0};
    uint64_t event_bytes = 0;

    for (size_t i = batch->first; i < batch->first + batch->count; i++) {
        const struct piece *piece = &share->pieces[i];

        for (size_t j = piece->first; j < piece->first + piece->count; j++)
            if (share->targets[j].lane == lane)
                TRY(add_to_run(share, stream, &run, piece, &share->targets[j], &event_bytes));
    }
    TRY(copy_run(share, stream, &run, &event_bytes));
    return event_bytes ? leatm_load_mark(share->load, stream, event_bytes) : LEAT_OK;
}

/* Copies a batch to a lane. If the read fails, the lane's stream returns the failure too. */
static leat_status copy_batch(struct share *share, const struct share_batch *batch, uint32_t lane)
{
    uint32_t source = share->pieces[batch->first].source.lane;

    if (lane != source) {
        TRY(leat_ticket_report(share->load->tickets[batch->ticket], share->lanes[lane].stream));
        TRY(leat_stream_wait(share->lanes[lane].stream, batch->read));
        share->lanes[lane].copied = true;
    }
    return copy_pieces(share, batch, lane);
}

static bool is_wanted(const struct share *share, const struct share_batch *batch, uint32_t lane)
{
    for (size_t i = batch->first; i < batch->first + batch->count; i++) {
        const struct piece *piece = &share->pieces[i];

        for (size_t j = piece->first; j < piece->first + piece->count; j++)
            if (share->targets[j].lane == lane)
                return true;
    }
    return false;
}

static leat_status copy_batches(struct share *share)
{
    for (size_t i = 0; i < share->batch_count; i++)
        for (uint32_t lane = 0; lane < share->lane_count; lane++)
            if (share->feeds[share->pieces[share->batches[i].first].source.lane * share->lane_count + lane] &&
                is_wanted(share, &share->batches[i], lane))
                TRY(copy_batch(share, &share->batches[i], lane));
    return LEAT_OK;
}

/* ---- the end of the copies ---- */

/* Creates the events that close_lanes() records, because it must not fail for lack of memory. */
static leat_status make_events(struct share *share)
{
    for (size_t source = 0; source < share->lane_count; source++)
        for (size_t lane = 0; lane < share->lane_count; lane++)
            if (source != lane && share->feeds[source * share->lane_count + lane] && !share->lanes[lane].behind)
                TRY(leat_event_create(share->lanes[lane].device, &share->lanes[lane].behind));
    return LEAT_OK;
}

/* Lets the sources of a lane wait for its copies. */
static leat_status close_lane(struct share *share, size_t lane)
{
    leat_status status = leat_event_record(share->lanes[lane].stream, share->lanes[lane].behind);

    for (size_t source = 0; source < share->lane_count && status == LEAT_OK; source++)
        if (source != lane && share->feeds[source * share->lane_count + lane])
            status = leat_stream_wait(share->lanes[source].stream, share->lanes[lane].behind);
    return status;
}

/* Lets each source wait for the copies from it, also those of a load that has failed half-way. If that fails,
 * which only a failing driver does, the host waits for the copies. Returns status, or the first failure. */
static leat_status close_lanes(struct share *share, leat_status status)
{
    char message[1024] = "";

    if (status != LEAT_OK)
        strncpy(message, leat_last_error(), sizeof message - 1);
    for (size_t lane = 0; lane < share->lane_count; lane++) {
        leat_status closed = share->lanes[lane].copied ? close_lane(share, lane) : LEAT_OK;

        if (closed == LEAT_OK)
            continue;
        if (status == LEAT_OK) {
            status = closed;
            strncpy(message, leat_last_error(), sizeof message - 1);
        }
        (void)leat_stream_synchronize(share->lanes[lane].stream);
    }
    return status == LEAT_OK ? status : leat_error_set(status, message);
}

static void end(struct share *share)
{
    /* Streams that wait for an event continue to wait when it is destroyed. */
    for (size_t i = 0; i < share->batch_count; i++)
        (void)leat_event_destroy(share->batches[i].read);
    for (size_t i = 0; i < share->lane_count; i++)
        (void)leat_event_destroy(share->lanes[i].behind);
    free(share->lanes);
    free(share->feeds);
    free(share->pieces);
    free(share->targets);
    free(share->alone);
    free(share->active);
    free(share->batches);
}

/* Takes it that each stream reads the same bytes, as replicas do. */
static uint64_t choose_batch_bytes(const struct share *share, const struct leatm_read *reads, size_t count)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += reads[i].bytes;
    bytes /= BATCH_SHARE * (share->lane_count > 1 ? share->lane_count : 1);
    if (bytes < BATCH_BYTES_LEAST)
        return BATCH_BYTES_LEAST;
    return bytes < BATCH_BYTES_MOST ? bytes : BATCH_BYTES_MOST;
}

leat_status leatm_load_shared(leat_model_load *load, struct leatm_read *reads, size_t count)
{
    struct share share = {.load = load};
    leat_status status = find_lanes(&share, reads, count);

    if (status == LEAT_OK)
        share.batch_bytes = choose_batch_bytes(&share, reads, count);
    if (status == LEAT_OK)
        status = cut_all(&share, reads, count);
    if (status == LEAT_OK)
        status = make_events(&share);
    if (status == LEAT_OK)
        status = read_pieces(&share);
    /* Before the copies: a read that follows a wait of its stream does not begin before the wait is over. */
    if (status == LEAT_OK)
        status = leatm_load_apart(load, share.alone, share.alone_count);
    if (status == LEAT_OK)
        status = copy_batches(&share);
    status = close_lanes(&share, status);
    end(&share);
    return status;
}
