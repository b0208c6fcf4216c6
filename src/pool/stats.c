/*
 * stats.c - tells what a pool holds: statistics, tags, history, snapshot, and the holders of live blocks.
 *
 * Statistics are sums over the figures of the magazines and the pool. They are read without locks, so they may be
 * slightly inconsistent while other threads allocate.
 */
#include "pool/pool.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/options.h"
#include "base/sized.h"
#include "base/strbuf.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ring of the most recent events of a pool. */
struct leati_ring {
    struct leati_lock lock; /* guards all other fields */
    uint64_t written;
    uint32_t places;
    leat_pool_event events[];
};

/* ---- tags ---- */

enum { TAG_OTHER = LEATI_TAGS - 1 };

static struct leati_lock tags_lock = LEATI_LOCK_INITIALIZER;
static char tag_names[LEATI_TAGS][32] = {[TAG_OTHER] = "other"};
static _Atomic uint32_t tag_count = 1; /* tag 0 means "no tag" */
static LEATI_QUICK_TLS uint16_t thread_tag;

const char *leati_stats_tag_name(uint32_t tag)
{
    return tag_names[tag];
}

uint16_t leati_stats_thread_tag(void)
{
    return thread_tag;
}

leat_status leat_thread_set_tag(const char *tag)
{
    char name[32];
    uint32_t i, count;

    if (!tag || !*tag) {
        thread_tag = 0;
        return LEAT_OK;
    }
    leati_utf8_copy(name, sizeof name, tag);
    leati_lock(&tags_lock);
    count = atomic_load_explicit(&tag_count, memory_order_relaxed);
    for (i = 1; i < count && strcmp(tag_names[i], name) != 0; i++)
        ;
    if (i == count && count < TAG_OTHER) {
        memcpy(tag_names[i], name, sizeof name);
        /* Release: a reader that sees the count also sees the name. */
        atomic_store_explicit(&tag_count, count + 1, memory_order_release);
    }
    leati_unlock(&tags_lock);
    thread_tag = (uint16_t)(i < TAG_OTHER ? i : TAG_OTHER);
    return LEAT_OK;
}

/* ---- sums ---- */

struct sums {
    int64_t requested_bytes, used_bytes, live_blocks, cached_bytes, requested_peak_bytes;
    uint64_t allocations, frees, hits;
    unsigned magazines;
};

static void add_cache(struct leati_stream_cache *cache, struct sums *sums)
{
    struct leati_magazine *magazine;

    for (unsigned left = leati_magazines_of(cache); (magazine = leati_magazine_next(cache, &left));) {
        struct leati_magazine_figures *figures = &magazine->figures;
        int64_t peak;

        /* Relaxed in this function: no other data depends on figures. */
        sums->requested_bytes += atomic_load_explicit(&figures->requested_bytes, memory_order_relaxed);
        sums->used_bytes += atomic_load_explicit(&figures->used_bytes, memory_order_relaxed);
        sums->live_blocks += atomic_load_explicit(&figures->live_blocks, memory_order_relaxed);
        sums->cached_bytes += atomic_load_explicit(&figures->cached_bytes, memory_order_relaxed);
        sums->allocations += atomic_load_explicit(&figures->allocations, memory_order_relaxed);
        sums->frees += atomic_load_explicit(&figures->frees, memory_order_relaxed);
        sums->hits += atomic_load_explicit(&figures->hits, memory_order_relaxed);
        /* If there is a single magazine, its peak is the peak of the pool. With several magazines the peak is
         * unknown (0), because one magazine may count an allocation and another one its free. */
        peak = atomic_load_explicit(&figures->requested_peak_bytes, memory_order_relaxed);
        sums->requested_peak_bytes = sums->magazines++ ? 0 : peak;
    }
}

/* Returns 0 for a negative sum. A sum can be negative for a moment, because other threads may change the figures
 * while they are added up. */
static uint64_t positive(int64_t value)
{
    return value > 0 ? (uint64_t)value : 0;
}

static struct sums sum_up(struct leat_pool *pool)
{
    struct sums sums = {0};

    for (struct leati_stream_cache *cache = atomic_load_explicit(&pool->caches, memory_order_acquire); cache;
         cache = cache->next)
        add_cache(cache, &sums);
    return sums;
}

void leati_stats_sample(struct leat_pool *pool)
{
    int64_t bytes = 0;
    struct leati_magazine *magazine;
    uint64_t now;

    leati_assert_locked(&pool->lock);
    for (struct leati_stream_cache *cache = pool->caches; cache; cache = cache->next)
        for (unsigned left = leati_magazines_of(cache); (magazine = leati_magazine_next(cache, &left));)
            bytes += atomic_load_explicit(&magazine->figures.requested_bytes, memory_order_relaxed);
    now = positive(bytes);
    if (now > atomic_load_explicit(&pool->figures.requested_peak_bytes, memory_order_relaxed))
        atomic_store_explicit(&pool->figures.requested_peak_bytes, now, memory_order_relaxed);
}

static uint64_t read_figure(const _Atomic uint64_t *figure)
{
    return atomic_load_explicit(figure, memory_order_relaxed);
}

static void fill_statistics(struct leat_pool *pool, leat_pool_stats *s)
{
    struct leati_figures *figures = &pool->figures;
    struct sums sums = sum_up(pool);
    uint64_t peak = read_figure(&figures->requested_peak_bytes);

    memset(s, 0, sizeof *s);
    s->requested_bytes = positive(sums.requested_bytes);
    peak = peak > positive(sums.requested_peak_bytes) ? peak : positive(sums.requested_peak_bytes);
    s->requested_peak_bytes = peak > s->requested_bytes ? peak : s->requested_bytes;
    s->used_bytes = positive(sums.used_bytes);
    s->reserved_bytes = read_figure(&figures->reserved_bytes);
    s->reserved_peak_bytes = read_figure(&figures->reserved_peak_bytes);
    s->pending_bytes = read_figure(&figures->pending_bytes);
    s->live_blocks = positive(sums.live_blocks);
    s->allocations = sums.allocations;
    s->frees = sums.frees;
    s->failures = read_figure(&figures->failures);
    s->cache_hits = sums.hits;
    s->driver_calls = read_figure(&figures->driver_calls);
    s->driver_ns = read_figure(&figures->driver_ns);
    s->pages_created = read_figure(&figures->created_bytes);
    s->pages_stitched = read_figure(&figures->stitched_bytes);
    s->stitches = read_figure(&figures->stitches);
    s->stitch_reuses = read_figure(&figures->stitch_reuses);
    s->planned = read_figure(&figures->planned);
    s->packing = atomic_load_explicit(&pool->is_tight, memory_order_relaxed) ? LEAT_POOL_PACKING_TIGHT
                                                                             : LEAT_POOL_PACKING_STILL;
    s->pages_released = read_figure(&figures->released_bytes);
    s->events = read_figure(&figures->timeline.events);
    s->queries = read_figure(&figures->timeline.queries);
    s->stream_waits = read_figure(&figures->timeline.waits);
    s->host_waits = read_figure(&figures->timeline.host_waits);
    s->callbacks = read_figure(&figures->callbacks);
    s->guard_reports = read_figure(&figures->guard_reports);
}

uint64_t leati_stats_used_bytes(struct leat_pool *pool)
{
    return positive(sum_up(pool).used_bytes);
}

leat_status leat_pool_get_stats(leat_pool *pool, leat_pool_stats *statistics)
{
    leat_pool_stats filled;

    LEATI_TRY(leati_check_pool("leat_pool_get_stats", pool));
    LEATI_TRY(LEATI_SIZED_CHECK("leat_pool_get_stats", "statistics", leat_pool_stats, statistics));
    fill_statistics(pool, &filled);
    LEATI_SIZED_WRITE(statistics, &filled);
    return LEAT_OK;
}

/* ---- shares ---- */

leat_status leat_pool_get_stream_share(leat_pool *pool, unsigned index, leat_pool_share *share)
{
    struct leati_stream_cache *cache;
    leat_pool_share filled = {0};
    struct sums sums = {0};
    unsigned left = index;

    LEATI_TRY(leati_check_pool("leat_pool_get_stream_share", pool));
    LEATI_TRY(LEATI_SIZED_CHECK("leat_pool_get_stream_share", "share", leat_pool_share, share));
    leati_lock(&pool->lock);
    for (cache = pool->caches; cache && left; cache = cache->next)
        left--;
    if (cache) {
        add_cache(cache, &sums);
        if (cache->timeline)
            snprintf(filled.name, sizeof filled.name, "stream %" PRIu64, cache->timeline->serial);
        else
            snprintf(filled.name, sizeof filled.name, "host");
        filled.stream = cache->stream;
        filled.requested_bytes = positive(sums.requested_bytes);
        filled.live_blocks = positive(sums.live_blocks);
        filled.cached_bytes = positive(sums.cached_bytes) + cache->bins[LEATI_HEAP_SMALL].bytes +
                              cache->bins[LEATI_HEAP_LARGE].bytes;
    }
    leati_unlock(&pool->lock);
    if (!cache)
        return leati_fail(LEAT_ERROR_NOT_FOUND, "leat_pool_get_stream_share: index %u is past the last stream",
                          index);
    LEATI_SIZED_WRITE(share, &filled);
    return LEAT_OK;
}

static void sum_tag(struct leat_pool *pool, uint32_t tag, int64_t *bytes, int64_t *blocks)
{
    struct leati_magazine *magazine;

    *bytes = *blocks = 0;
    for (struct leati_stream_cache *cache = pool->caches; cache; cache = cache->next)
        for (unsigned left = leati_magazines_of(cache); (magazine = leati_magazine_next(cache, &left));) {
            *bytes += atomic_load_explicit(&magazine->figures.tag_bytes[tag], memory_order_relaxed);
            *blocks += atomic_load_explicit(&magazine->figures.tag_blocks[tag], memory_order_relaxed);
        }
}

leat_status leat_pool_get_tag_share(leat_pool *pool, unsigned index, leat_pool_share *share)
{
    uint32_t count = atomic_load_explicit(&tag_count, memory_order_acquire);
    leat_pool_share filled = {0};
    int64_t bytes, blocks;
    uint32_t tag = index;

    LEATI_TRY(leati_check_pool("leat_pool_get_tag_share", pool));
    LEATI_TRY(LEATI_SIZED_CHECK("leat_pool_get_tag_share", "share", leat_pool_share, share));
    /* The last index stands for TAG_OTHER, the tag that names beyond the limit share. */
    if (index == count)
        tag = TAG_OTHER;
    if (index > count)
        return leati_fail(LEAT_ERROR_NOT_FOUND, "leat_pool_get_tag_share: index %u is past the last tag", index);
    if (tag) {
        memcpy(filled.name, tag_names[tag], sizeof filled.name);
        sum_tag(pool, tag, &bytes, &blocks);
    } else {
        struct sums sums = sum_up(pool);

        bytes = sums.requested_bytes;
        blocks = sums.live_blocks;
        for (uint32_t other = 1; other < LEATI_TAGS; other++) {
            int64_t other_bytes, other_blocks;

            sum_tag(pool, other, &other_bytes, &other_blocks);
            bytes -= other_bytes;
            blocks -= other_blocks;
        }
    }
    filled.requested_bytes = positive(bytes);
    filled.live_blocks = positive(blocks);
    LEATI_SIZED_WRITE(share, &filled);
    return LEAT_OK;
}

/* ---- history ---- */

leat_status leati_stats_start(struct leat_pool *pool, uint32_t history)
{
    if (!history)
        return LEAT_OK;
    pool->ring = calloc(1, sizeof *pool->ring + history * sizeof pool->ring->events[0]);
    if (!pool->ring)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a history of %u events", history);
    pool->ring->places = history;
    leati_lock_init(&pool->ring->lock);
    return LEAT_OK;
}

void leati_stats_end(struct leat_pool *pool)
{
    if (pool->ring)
        leati_lock_destroy(&pool->ring->lock);
    free(pool->ring);
}

void leati_stats_event(struct leat_pool *pool, leat_pool_action action, const void *ptr, uint64_t bytes,
                       const struct leati_timeline *timeline, uint32_t tag)
{
    struct leati_ring *ring = pool->ring;

    if (!ring)
        return;
    leati_lock(&ring->lock);
    ring->events[ring->written++ % ring->places] = (leat_pool_event){
        .time_ns = leati_clock_ns() - pool->made_ns,
        .ptr = (void *)(uintptr_t)ptr,
        .bytes = bytes,
        .stream = timeline ? timeline->serial : 0,
        .action = action,
        .tag = tag,
    };
    leati_unlock(&ring->lock);
}

leat_status leat_pool_history(leat_pool *pool, leat_pool_event *events, size_t *count)
{
    struct leati_ring *ring;
    size_t given;

    LEATI_TRY(leati_check_pool("leat_pool_history", pool));
    LEATI_TRY(leati_check_not_null("leat_pool_history", "events", events));
    LEATI_TRY(leati_check_not_null("leat_pool_history", "count", count));
    ring = pool->ring;
    if (!ring)
        return leati_fail(LEAT_ERROR_UNSUPPORTED,
                          "leat_pool_history: %s remembers no events; set LEAT_POOL_HISTORY or options.history",
                          pool->name);
    leati_lock(&ring->lock);
    given = ring->written < ring->places ? (size_t)ring->written : ring->places;
    given = *count < given ? *count : given;
    for (size_t i = 0; i < given; i++)
        events[i] = ring->events[(ring->written - given + i) % ring->places];
    leati_unlock(&ring->lock);
    *count = given;
    return LEAT_OK;
}

/* ---- holders of live blocks ---- */

bool leati_stats_holders(struct leat_pool *pool, struct leati_strbuf *text)
{
    struct sums sums = sum_up(pool);
    struct leati_block *found = NULL, *block;
    size_t largest = 0;
    int64_t most = 0;
    uint32_t tag = 0;

    leati_assert_locked(&pool->lock);
    for (struct leati_span *span = pool->spans; span; span = span->next)
        for (block = span->first; block; block = block->after)
            if (leati_state(block) == LEATI_BLOCK_LIVE && leati_requested(block) >= largest) {
                largest = leati_requested(block);
                found = block;
            }
    for (uint32_t index = 0; (block = leati_pool_plan_block(pool, &index));)
        if (leati_state(block) == LEATI_BLOCK_LIVE && leati_requested(block) >= largest) {
            largest = leati_requested(block);
            found = block;
        }
    leati_strbuf_add(text, "%" PRIu64 " block%s with %" PRIu64 " bytes %s live", positive(sums.live_blocks),
                     sums.live_blocks == 1 ? "" : "s", positive(sums.requested_bytes),
                     sums.live_blocks == 1 ? "is" : "are");
    for (uint32_t i = 1; i < LEATI_TAGS; i++) {
        int64_t tag_bytes, blocks;

        sum_tag(pool, i, &tag_bytes, &blocks);
        if (tag_bytes > most) {
            most = tag_bytes;
            tag = i;
        }
    }
    if (found)
        leati_strbuf_add(text, "; the largest is %p with %zu bytes", (void *)leati_user_base(found), largest);
    if (tag)
        leati_strbuf_add(text, "; tag '%s' has %" PRId64 " bytes", tag_names[tag], most);
    leati_guard_holders(pool, text);
    return found != NULL;
}

bool leati_stats_describe(struct leat_pool *pool, char *words, size_t bytes)
{
    struct leati_strbuf text = {words, bytes};
    bool live;

    leati_assert_locked(&pool->lock);
    leati_strbuf_add(&text, "%s of %s holds %" PRIu64 " bytes: ", pool->name, pool->device->name,
                     read_figure(&pool->figures.reserved_bytes));
    live = leati_stats_holders(pool, &text);
    leati_strbuf_add(&text, "; %" PRIu64 " bytes wait for other streams",
                     read_figure(&pool->figures.pending_bytes));
    if (read_figure(&pool->limit_bytes))
        leati_strbuf_add(&text, "; its limit is %" PRIu64 " bytes", read_figure(&pool->limit_bytes));
    return live;
}

void leati_stats_leaks(struct leat_pool *pool)
{
    char text[1100];
    bool live;

    if (!leati_option_flag(LEATI_OPTION_LEAKS))
        return;
    leati_lock(&pool->lock);
    live = leati_stats_describe(pool, text, sizeof text);
    leati_unlock(&pool->lock);
    if (!live)
        return;
    fprintf(stderr, "leat: leak: %s is closed and %s\n", pool->device->name, text);
    leati_guard_leaks(pool);
}

/* ---- snapshot ---- */

struct writer {
    void (*write)(void *argument, const char *text, size_t bytes);
    void *argument;
};

static void write_text(const struct writer *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void write_text(const struct writer *writer, const char *format, ...)
{
    char text[1024];
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length > 0)
        writer->write(writer->argument, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

static void write_string(const struct writer *writer, const char *text)
{
    leati_json_string(text, writer->write, writer->argument);
}

static const char *state_name(uint32_t state)
{
    switch (state) {
    case LEATI_BLOCK_LIVE:
        return "live";
    case LEATI_BLOCK_LEAVING:
    case LEATI_BLOCK_CACHED:
    case LEATI_BLOCK_POISONED:
        return "cached";
    case LEATI_BLOCK_PENDING:
        return "pending";
    case LEATI_BLOCK_FREE:
        return "free";
    case LEATI_BLOCK_STALE:
        return "stale";
    case LEATI_BLOCK_IN_STITCH:
        return "in_stitch";
    case LEATI_BLOCK_DORMANT:
        return "dormant";
    default: /* also LEATI_BLOCK_ARENA, because write_planned() writes the blocks of the arena */
        return "hole";
    }
}

static void write_extent(const struct writer *writer, uintptr_t base, struct leati_block *block)
{
    uint32_t state = leati_state(block);
    struct leati_stream_cache *cache = block->cache;

    write_text(writer, "{\"offset\":%zu,\"bytes\":%zu,\"state\":\"%s\"", (size_t)(leati_base(block) - base),
               leati_bytes(block), state_name(state));
    if (state == LEATI_BLOCK_LIVE)
        write_text(writer, ",\"requested_bytes\":%zu", leati_requested(block));
    write_text(writer, ",\"stream\":%" PRIu64, cache && cache->timeline ? cache->timeline->serial : 0);
    if (state == LEATI_BLOCK_LIVE && block->tag) {
        write_text(writer, ",\"tag\":");
        write_string(writer, tag_names[block->tag]);
    }
    leati_guard_snapshot(block, writer->write, writer->argument);
    write_text(writer, "}");
}

static void write_ranges(const struct writer *writer, struct leat_pool *pool)
{
    const char *between = "";

    for (struct leati_span *span = pool->spans; span; span = span->next) {
        struct leati_block *last = NULL;

        for (struct leati_block *block = span->first; block; block = block->after)
            if (leati_state(block) != LEATI_BLOCK_HOLE && leati_state(block) != LEATI_BLOCK_ARENA)
                last = block;
        write_text(writer, "%s{\"name\":\"%s\",\"base\":\"%p\",\"bytes\":%zu,\"extents\":[", between,
                   span->heap == LEATI_HEAP_SMALL   ? "small"
                   : span->heap == LEATI_HEAP_LARGE ? "large"
                                                    : "stitched",
                   (void *)span->base, span->bytes);
        for (struct leati_block *block = span->first; last && block; block = block->after) {
            write_extent(writer, span->base, block);
            if (block == last)
                break;
            write_text(writer, ",\n");
        }
        write_text(writer, "]}");
        between = ",\n";
    }
}

/* Writes [at, end) of the arena, which no block uses, as extents: each mapped part as "free", each unmapped part
 * as "hole". base is the start of the arena. */
static void write_idle(const struct writer *writer, struct leat_pool *pool, uintptr_t base, uintptr_t at,
                       uintptr_t end, const char **between) LEATI_REQUIRES(pool->lock)
{
    while (at < end) {
        bool mapped = leati_pages_physical(pool, at);
        uintptr_t run = at;

        while (run < end && !leati_pages_physical(pool, run) == !mapped)
            run = (run | (LEATI_PAGE_BYTES - 1)) + 1;
        run = run < end ? run : end;
        write_text(writer, "%s{\"offset\":%zu,\"bytes\":%zu,\"state\":\"%s\",\"stream\":0}", *between,
                   (size_t)(at - base), (size_t)(run - at), mapped ? "free" : "hole");
        *between = ",\n";
        at = run;
    }
}

/* Writes the extents of the arena. live is an array for temporary use, with room for all records of planned
 * blocks. */
static void write_planned(const struct writer *writer, struct leat_pool *pool, uintptr_t base, size_t bytes,
                          struct leati_block **live) LEATI_REQUIRES(pool->lock)
{
    struct leati_block *block;
    const char *between = "";
    uintptr_t at = base;
    size_t count = 0;
    uint32_t index = 0;

    while ((block = leati_pool_plan_block(pool, &index)))
        if (leati_state(block) == LEATI_BLOCK_LIVE)
            live[count++] = block;
    qsort(live, count, sizeof *live, leati_by_address);
    write_text(writer, ",\n{\"name\":\"planned\",\"base\":\"%p\",\"bytes\":%zu,\"extents\":[", (void *)base,
               bytes);
    for (size_t i = 0; i < count; i++) {
        /* This block overlaps the one before. So it was freed meanwhile, and its place was reused. */
        if (leati_base(live[i]) < at)
            continue;
        write_idle(writer, pool, base, at, leati_base(live[i]), &between);
        write_text(writer, "%s", between);
        write_extent(writer, base, live[i]);
        between = ",\n";
        at = leati_base(live[i]) + leati_bytes(live[i]);
    }
    write_idle(writer, pool, base, at, base + bytes, &between);
    write_text(writer, "]}");
}

static void write_statistics(const struct writer *writer, struct leat_pool *pool)
{
    leat_pool_stats s;

    fill_statistics(pool, &s);
#define FIELD(name) write_text(writer, ",\"" #name "\":%" PRIu64, s.name)
    write_text(writer, "\"statistics\":{\"requested_bytes\":%" PRIu64, s.requested_bytes);
    FIELD(requested_peak_bytes);
    FIELD(used_bytes);
    FIELD(reserved_bytes);
    FIELD(reserved_peak_bytes);
    FIELD(pending_bytes);
    FIELD(live_blocks);
    FIELD(allocations);
    FIELD(frees);
    FIELD(failures);
    FIELD(cache_hits);
    FIELD(driver_calls);
    FIELD(driver_ns);
    FIELD(pages_created);
    FIELD(pages_stitched);
    FIELD(stitches);
    FIELD(stitch_reuses);
    FIELD(planned);
    FIELD(pages_released);
    FIELD(events);
    FIELD(queries);
    FIELD(stream_waits);
    FIELD(host_waits);
    FIELD(callbacks);
    FIELD(guard_reports);
#undef FIELD
    write_text(writer, "},\n");
}

static void write_shares(const struct writer *writer, struct leat_pool *pool)
{
    const char *between = "";

    write_text(writer, "\"streams\":[");
    for (struct leati_stream_cache *cache = pool->caches; cache; cache = cache->next) {
        struct sums sums = {0};

        add_cache(cache, &sums);
        write_text(writer,
                   "%s{\"number\":%" PRIu64 ",\"requested_bytes\":%" PRIu64 ",\"live_blocks\":%" PRIu64
                   ",\"cached_bytes\":%" PRIu64 "}",
                   between, cache->timeline ? cache->timeline->serial : 0, positive(sums.requested_bytes),
                   positive(sums.live_blocks),
                   positive(sums.cached_bytes) + cache->bins[LEATI_HEAP_SMALL].bytes +
                       cache->bins[LEATI_HEAP_LARGE].bytes);
        between = ",";
    }
    write_text(writer, "],\n\"tags\":[");
    between = "";
    for (uint32_t tag = 1; tag < LEATI_TAGS; tag++) {
        int64_t bytes, blocks;

        sum_tag(pool, tag, &bytes, &blocks);
        if (!blocks)
            continue;
        write_text(writer, "%s{\"name\":", between);
        write_string(writer, tag_names[tag]);
        write_text(writer, ",\"requested_bytes\":%" PRIu64 ",\"live_blocks\":%" PRIu64 "}", positive(bytes),
                   positive(blocks));
        between = ",";
    }
    write_text(writer, "],\n");
}

leat_status leat_pool_snapshot(leat_pool *pool, void (*write)(void *argument, const char *text, size_t bytes),
                               void *argument)
{
    struct writer writer = {.write = write, .argument = argument};
    struct leati_block **planned = NULL;
    uintptr_t base;
    size_t bytes;

    LEATI_TRY(leati_check_permitted("leat_pool_snapshot"));
    LEATI_TRY(leati_check_pool("leat_pool_snapshot", pool));
    if (!write)
        return leati_fail(LEAT_ERROR_INVALID, "leat_pool_snapshot: write is NULL");
    if (pool->plan) {
        planned = malloc((leati_pool_plan_places(pool) + 1) * sizeof(struct leati_block *));
        if (!planned)
            return leati_fail(LEAT_ERROR_HOST_MEMORY,
                              "leat_pool_snapshot: no memory for the list of planned blocks");
    }
    leati_lock(&pool->lock);
    write_text(&writer, "{\"format\":\"leat-pool-1\",\"pool\":");
    write_string(&writer, pool->name);
    write_text(&writer, ",\"device\":\"%s\",\"kind\":\"%s\",\"page_bytes\":%zu,\"time_ns\":%" PRIu64 ",\n",
               pool->device->name, leat_kind_name(pool->kind), LEATI_PAGE_BYTES, leati_clock_ns() - pool->made_ns);
    write_statistics(&writer, pool);
    write_shares(&writer, pool);
    write_text(&writer, "\"ranges\":[");
    write_ranges(&writer, pool);
    if (planned && leati_pool_plan_range(pool, &base, &bytes))
        write_planned(&writer, pool, base, bytes, planned);
    write_text(&writer, "]}\n");
    leati_unlock(&pool->lock);
    free(planned);
    return LEAT_OK;
}
