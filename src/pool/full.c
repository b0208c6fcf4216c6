/*
 * full.c - writes the error message when a pool has no memory for a request: one line of facts, and one line of
 * advice.
 *
 * The facts are what the pool holds, who uses it, and why the pool cannot grow. The advice is derived from the
 * facts and names only what would help: for example, it suggests to raise a limit only if one is set.
 */
#include "pool/pool.h"

#include "base/mem_limit.h"
#include "base/strbuf.h"

#include <inttypes.h>

/* CALL_BYTES_MAX: the maximum number of bytes that the failed call adds in front of the facts. */
enum { CALL_BYTES_MAX = 200, ADVICE_BYTES = 400 };

/* The facts from which the error message is made. */
struct facts {
    struct leat_pool *pool;
    size_t asked_bytes, alignment;
    struct leati_idle idle;
    struct leati_others others;
    bool memory_known;
    uint64_t free_bytes, total_bytes; /* memory of the device */
    uint64_t outside_bytes;           /* used by other processes, or by this process outside of pools */
};

/* ---- gathering the facts ---- */

static void add_pending(struct leati_idle *idle, uint64_t stream, uint64_t bytes)
{
    unsigned i;

    idle->pending_bytes += bytes;
    for (i = 0; i < idle->stream_count && idle->streams[i].serial != stream; i++)
        ;
    if (i == LEATI_PENDING_STREAMS) {
        idle->more_bytes += bytes;
        return;
    }
    idle->stream_count = i < idle->stream_count ? idle->stream_count : i + 1;
    idle->streams[i].serial = stream;
    idle->streams[i].bytes += bytes;
}

/* Adds one extent to *idle. Call for the extents in address order. *piece_bytes is the size of the contiguous idle
 * memory directly below this extent. If this extent is idle, adds its size to *piece_bytes; otherwise sets it
 * to 0. */
static void look_at(const struct leati_block *block, const struct leati_stream_cache *cache, size_t *piece_bytes,
                    struct leati_idle *idle)
{
    uint32_t state = leati_state(block);
    size_t bytes = leati_bytes(block);

    if (state == LEATI_BLOCK_PENDING)
        add_pending(idle, block->uses && block->uses->timeline ? block->uses->timeline->serial : 0, bytes);
    else if (state == LEATI_BLOCK_FREE && !leati_usable(block, cache))
        add_pending(idle, block->cache->timeline->serial, bytes);
    if (state != LEATI_BLOCK_FREE || !leati_usable(block, cache)) {
        *piece_bytes = 0;
        return;
    }
    if (block->whole)
        *piece_bytes = 0;
    idle->pieces += !*piece_bytes;
    idle->bytes += bytes;
    *piece_bytes += bytes;
    idle->largest_bytes = *piece_bytes > idle->largest_bytes ? *piece_bytes : idle->largest_bytes;
    if (block->whole)
        *piece_bytes = 0;
}

void leati_full_look(struct leat_pool *pool, const struct leati_stream_cache *cache, struct leati_idle *idle)
{
    leati_assert_locked(&pool->lock);
    *idle = (struct leati_idle){0};
    for (struct leati_span *span = pool->spans; span; span = span->next) {
        size_t piece_bytes = 0;

        for (struct leati_block *block = span->first; block; block = block->after)
            look_at(block, cache, &piece_bytes, idle);
    }
}

static uint64_t own_bytes(const struct leat_pool *pool)
{
    return atomic_load_explicit(&pool->figures.reserved_bytes, memory_order_relaxed);
}

/* Returns true if no limit of leat was reached, so the device or, for pinned memory, the host is full. */
static bool is_device_full(const struct leat_pool *pool)
{
    return pool->refusal == LEATI_REFUSED_NOT;
}

static void find_facts(struct facts *facts, const struct leati_stream_cache *cache)
{
    struct leat_pool *pool = facts->pool;
    struct leat_device *device = pool->device;
    uint64_t held_bytes;

    leati_assert_locked(&pool->lock);
    leati_full_look(pool, cache, &facts->idle);
    leati_pool_look_at_others(pool, &facts->others);
    facts->memory_known = pool->kind != LEAT_KIND_PINNED &&
                          device->driver->ops->device_memory(device->driver, device->native, &facts->free_bytes,
                                                             &facts->total_bytes) == LEAT_OK;
    if (!facts->memory_known)
        return;
    held_bytes = own_bytes(pool) + facts->others.held_bytes + facts->free_bytes;
    if (is_device_full(pool) && facts->total_bytes > held_bytes)
        facts->outside_bytes = facts->total_bytes - held_bytes;
}

/* ---- writing the facts ---- */

static void print_idle(const struct facts *facts, struct leati_strbuf *text)
{
    const struct leati_idle *idle = &facts->idle;

    leati_strbuf_add(text, "of %" PRIu64 " bytes held ", own_bytes(facts->pool));
    if (!idle->bytes)
        leati_strbuf_add(text, "none are idle");
    else
        leati_strbuf_add(text, "%" PRIu64 " are idle in %" PRIu64 " piece%s, the largest of %" PRIu64, idle->bytes,
                         idle->pieces, idle->pieces == 1 ? "" : "s", idle->largest_bytes);
}

static void print_stream(uint64_t serial, struct leati_strbuf *text)
{
    if (serial)
        leati_strbuf_add(text, "stream %" PRIu64, serial);
    else
        leati_strbuf_add(text, "another stream");
}

static void print_pending(const struct facts *facts, struct leati_strbuf *text)
{
    const struct leati_idle *idle = &facts->idle;

    if (!idle->pending_bytes) {
        leati_strbuf_add(text, "; nothing is pending");
        return;
    }
    leati_strbuf_add(text, "; %" PRIu64 " bytes are pending:", idle->pending_bytes);
    for (unsigned i = 0; i < idle->stream_count; i++) {
        leati_strbuf_add(text, "%s %" PRIu64 " on ", i ? "," : "", idle->streams[i].bytes);
        print_stream(idle->streams[i].serial, text);
    }
    if (idle->more_bytes)
        leati_strbuf_add(text, ", %" PRIu64 " on further streams", idle->more_bytes);
}

static void print_others(const struct facts *facts, struct leati_strbuf *text)
{
    const struct leati_others *others = &facts->others;

    if (facts->memory_known)
        leati_strbuf_add(text, "; %" PRIu64 " of %" PRIu64 " bytes of %s are free", facts->free_bytes,
                         facts->total_bytes, facts->pool->device->name);
    if (others->held_bytes)
        leati_strbuf_add(text, "; other pools on the same %s hold %" PRIu64 ", most of it %s (%" PRIu64 ")",
                         is_device_full(facts->pool) ? "device" : "budget", others->held_bytes, others->most_name,
                         others->most_bytes);
    if (facts->outside_bytes)
        leati_strbuf_add(text, "; %" PRIu64 " are held outside of leat's pools", facts->outside_bytes);
}

/* ---- the advice ---- */

/* Returns true if the request alone exceeds a limit, even in an empty pool. limit_bytes 0: there is no limit. */
static bool exceeds(const struct facts *facts, uint64_t limit_bytes)
{
    return limit_bytes && facts->asked_bytes > limit_bytes;
}

/* Writes the advice for a pool that has enough idle memory, but not in one piece. */
static void advise_pieces(const struct facts *facts, struct leati_strbuf *text)
{
    const struct leat_pool *pool = facts->pool;

    if (facts->idle.largest_bytes >= facts->asked_bytes)
        leati_strbuf_add(text,
                         "ask for a smaller alignment: no idle piece has room behind a multiple of %zu bytes",
                         facts->alignment);
    else if (pool->virtual_memory)
        leati_strbuf_add(text, "free blocks beside the idle pieces: a block is put together only from physical allocations that are idle as a whole, and live blocks have parts of these");
    else
        leati_strbuf_add(text,
                         "free the blocks between the idle pieces, or allocate the largest blocks first: a pool of %s memory cannot join pieces that lie apart",
                         pool->kind == LEAT_KIND_DEVICE ? "plain device" : leat_kind_name(pool->kind));
}

/* Writes the advice for the case that enough memory was freed, in this pool or another one, but streams may still
 * use it. Returns false if this is not the case. */
static bool advise_waiting(const struct facts *facts, struct leati_strbuf *text)
{
    const struct leati_idle *idle = &facts->idle;
    const struct leati_others *others = &facts->others;

    if (idle->pending_bytes && idle->bytes + idle->pending_bytes >= facts->asked_bytes) {
        leati_strbuf_add(text, "memory that was freed is still in use on ");
        print_stream(idle->streams[0].serial, text);
    } else if (others->pending_bytes && idle->bytes + others->pending_bytes >= facts->asked_bytes) {
        leati_strbuf_add(text, "%s has %" PRIu64 " bytes that were freed and are still in use on ",
                         others->pending_name, others->pending_bytes);
        print_stream(others->pending_stream, text);
    } else {
        return false;
    }
    leati_strbuf_add(text, ": wait for its work (leat_stream_synchronize) and ask again");
    return true;
}

static void advise_budget(const struct facts *facts, struct leati_strbuf *text)
{
    const struct leat_pool *pool = facts->pool;
    uint64_t limit = atomic_load_explicit(&pool->budget->limit_bytes, memory_order_relaxed);

    if (exceeds(facts, limit))
        leati_strbuf_add(text, "ask for at most %" PRIu64 " bytes, or make a larger budget", limit);
    else if (facts->others.held_bytes > own_bytes(pool))
        leati_strbuf_add(text,
                         "free blocks of %s, which holds %" PRIu64 " bytes of the budget, or make a larger one",
                         facts->others.most_name, facts->others.most_bytes);
    else
        leati_strbuf_add(text, "free blocks of this pool, or make a larger budget");
}

/* Writes the advice for a full device. It names the largest holder of the device's memory. */
static void advise_device(const struct facts *facts, struct leati_strbuf *text)
{
    uint64_t own = own_bytes(facts->pool), others = facts->others.held_bytes, outside = facts->outside_bytes;

    if (facts->memory_known && exceeds(facts, facts->total_bytes))
        leati_strbuf_add(text, "ask for less than the %" PRIu64 " bytes that %s has", facts->total_bytes,
                         facts->pool->device->name);
    else if (facts->memory_known && facts->free_bytes >= facts->asked_bytes)
        leati_strbuf_add(text, "ask for less: the driver gives no more, though %" PRIu64 " bytes are free",
                         facts->free_bytes);
    else if (outside > own && outside > others)
        leati_strbuf_add(text,
                         "%" PRIu64 " bytes belong to other processes, or to this one by other calls (leat_alloc_driver, the vendor's): end those, free that, or use another device",
                         outside);
    else if (others > own)
        leati_strbuf_add(text, "free blocks of %s, which holds %" PRIu64 " bytes", facts->others.most_name,
                         facts->others.most_bytes);
    else
        leati_strbuf_add(text, "free blocks of this pool, or ask for less");
}

/* Writes the advice for a host that has too little memory for a pinned pool. */
static void advise_host(const struct facts *facts, struct leati_strbuf *text)
{
    struct leati_mem_limit available;

    leati_mem_limit_get("", facts->asked_bytes, &available);
    if (available.is_group && available.bytes - available.bytes / 32 < facts->asked_bytes)
        leati_strbuf_add(text, "free host memory, ask for less, or let %s have more", available.whose);
    else
        leati_strbuf_add(text, "free host memory of this or of other processes, or ask for less");
}

static void advise(const struct facts *facts, struct leati_strbuf *text)
{
    const struct leat_pool *pool = facts->pool;
    uint64_t limit = atomic_load_explicit(&pool->limit_bytes, memory_order_relaxed);

    if (pool->refusal == LEATI_REFUSED_LIMIT && exceeds(facts, limit))
        leati_strbuf_add(text, "ask for at most %" PRIu64 " bytes, or raise the limit (leat_pool_set_limits)",
                         limit);
    else if (facts->idle.bytes >= facts->asked_bytes)
        advise_pieces(facts, text);
    else if (advise_waiting(facts, text))
        return;
    else if (pool->refusal == LEATI_REFUSED_LIMIT)
        leati_strbuf_add(text, "free blocks of this pool, or raise its limit (leat_pool_set_limits)");
    else if (pool->refusal == LEATI_REFUSED_BUDGET)
        advise_budget(facts, text);
    else if (pool->kind == LEAT_KIND_PINNED)
        advise_host(facts, text);
    else
        advise_device(facts, text);
}

leat_status leati_full_explain(struct leat_pool *pool, const struct leati_stream_cache *cache, leat_status status,
                               size_t bytes, size_t alignment)
{
    struct facts facts = {.pool = pool, .asked_bytes = bytes, .alignment = alignment};
    struct leati_message refused;
    char words[sizeof refused.text], advice[ADVICE_BYTES];
    struct leati_strbuf text = {words, sizeof words - CALL_BYTES_MAX - sizeof advice},
                        end = {advice, sizeof advice};

    leati_assert_locked(&pool->lock);
    /* The host had no memory for records of the pool or the driver. The facts about the pool would not help then,
     * so keep the message as it is. */
    if (pool->kind != LEAT_KIND_PINNED && status == LEAT_ERROR_HOST_MEMORY)
        return status;
    if (leati_error_quiet_depth)
        return pool->kind == LEAT_KIND_PINNED ? LEAT_ERROR_HOST_MEMORY : LEAT_ERROR_DEVICE_MEMORY;
    leati_error_keep(&refused);
    find_facts(&facts, cache);
    leati_strbuf_add(&text, "%.700s; ", refused.text);
    print_idle(&facts, &text);
    leati_strbuf_add(&text, "; ");
    leati_stats_holders(pool, &text);
    if (leati_guarded(pool))
        leati_strbuf_add(&text, "; guard mode adds %d bytes or more to each", 2 * LEATI_GUARD_BYTES);
    print_pending(&facts, &text);
    print_others(&facts, &text);
    advise(&facts, &end);
    return leati_fail(pool->kind == LEAT_KIND_PINNED ? LEAT_ERROR_HOST_MEMORY : LEAT_ERROR_DEVICE_MEMORY,
                      "%s\nAdvice: %s", words, advice);
}
