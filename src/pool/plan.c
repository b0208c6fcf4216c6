/*
 * plan.c - places the large blocks of a pool by a recorded plan.
 *
 * The command `leat plan` makes a plan from a recorded run (docs/pools.md). It knows the lifetimes of all blocks
 * of that run, so the large blocks can be placed with almost no wasted memory and need not be moved. A plan has
 * one range of addresses, the arena, and for each stream the list of its requests in order. Each entry has a size
 * and an offset in the arena.
 *
 * If a request matches the next entry of its stream's list, and the planned place is free, the request gets that
 * place. All other requests take the ordinary path. If two requests in succession do not match, the pool searches
 * the list for an entry of the second size that follows an entry of the first size, and continues from there. The
 * program need not follow the plan: a bitmap records which parts of the arena are occupied. The starts and ends of
 * all planned blocks cut the arena into pieces, and the bitmap has one bit for each piece. Memory that another
 * stream has freed is reused only if the usual ordering rules allow it.
 *
 * Physical memory is mapped into a part of the arena when a block needs it for the first time.
 */
#include "base/lock.h"
#include "pool/pool.h"

#include "pool/track.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STREAMS_MAX = 8, WORD_BITS = 64 };

/* A place in the arena, used by successive blocks of one stream. */
struct leati_planned {
    uint64_t offset, bytes;
    uint32_t first, count;            /* the pieces of the arena that it covers: [first, first + count) */
    bool mapped;                      /* memory is mapped at the whole place */
    struct leati_block *block;        /* record of the place, created on first use */
    struct leati_stream_cache *cache; /* cache of the place's stream, set on first use */
    /* If another stream freed the block: that stream's work up to late_seq may still use the place. */
    struct leati_timeline *late; /* timeline of that stream, held; else NULL */
    uint64_t late_seq;
    struct leati_planned *next_late;
    bool earlier_pending; /* the stream got the place only because it is ordered after work of other streams that
                             may still use it */
};

/* An entry of a list, as a key for the search by its size and the size of the entry before it. */
struct pair {
    uint64_t before_bytes, bytes;
    uint32_t entry;
};

/* The planned requests of one stream, in order. */
struct list {
    uint32_t count, next; /* number of entries, and index of the entry that is expected next */
    uint32_t *places;     /* for each entry, the index of its place */
    struct pair *pairs;   /* all entries, sorted by before_bytes, bytes and entry */
    struct leati_stream_cache *cache;
    uint64_t previous_bytes; /* size of the previous request if it did not match the list, else 0 */
    uint64_t freed_seq;      /* the stream's seq when it last freed a planned block */
    uint64_t *freed;         /* bitmap of the pieces that this stream freed and may still use */
};

struct leati_pool_plan {
    struct leati_lock lock; /* guards the fields that change; taken after the locks of the pool and of magazines */
    uint64_t bytes;         /* size of the arena */
    uintptr_t base;         /* base of the arena; 0: no addresses yet */
    struct leati_planned *places;
    uint64_t *ends; /* bounds of the pieces: piece n is [ends[n], ends[n + 1]) of the arena */
    uint32_t place_count, piece_count;
    uint64_t *used;             /* bitmap of the occupied pieces */
    struct leati_planned *late; /* list of places that other streams freed; still occupied */
    struct list lists[STREAMS_MAX];
    unsigned list_count;
};

/* ---- reading ---- */

struct plan_reader {
    FILE *file;
    const char *path;
    unsigned line;
    char text[128];
};

static leat_status complain(const struct plan_reader *reader, const char *what)
{
    return leati_fail(LEAT_ERROR_INVALID, "plan %s, line %u: %s; plans are made by 'leat plan'", reader->path,
                      reader->line, what);
}

static bool next_line(struct plan_reader *reader)
{
    reader->line++;
    return fgets(reader->text, sizeof reader->text, reader->file) && strchr(reader->text, '\n');
}

/* Reads the numbers of a line: word followed by *a and, if b is not NULL, a space and *b. Returns false if the
 * line differs from that. */
static bool numbers(const struct plan_reader *reader, const char *word, uint64_t *a, uint64_t *b)
{
    const char *at = reader->text;
    char *end;

    if (strncmp(at, word, strlen(word)) != 0)
        return false;
    at += strlen(word);
    for (int i = 0; i < (b ? 2 : 1); i++) {
        if (*at < '0' || *at > '9')
            return false;
        errno = 0;
        *(i ? b : a) = strtoull(at, &end, 10);
        if (errno || *end != (b && !i ? ' ' : '\n'))
            return false;
        at = end + 1;
    }
    return true;
}

static int by_address(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* One entry of a list, as read from the file. make_places() turns entries into places. */
struct plan_entry {
    uint64_t bytes, offset;
    uint32_t list, number;
};

struct entries {
    struct plan_entry *all;
    size_t count, room;
};

static leat_status no_memory(const char *path)
{
    return leati_fail(LEAT_ERROR_HOST_MEMORY, "out of host memory (plan %s)", path);
}

static leat_status read_list(struct plan_reader *reader, struct leati_pool_plan *plan, uint64_t count,
                             struct entries *entries)
{
    for (uint64_t i = 0; i < count; i++) {
        struct plan_entry entry = {.list = plan->list_count, .number = (uint32_t)i};

        if (!next_line(reader) || !numbers(reader, "", &entry.bytes, &entry.offset))
            return complain(reader, "a size and an offset are expected");
        if (entry.bytes < LEATI_LARGE_BYTES || entry.bytes % LEATI_GRANULE_BYTES ||
            entry.offset % LEATI_GRANULE_BYTES || entry.offset > plan->bytes ||
            entry.bytes > plan->bytes - entry.offset)
            return complain(reader, "the size or the offset is none that a plan can have");
        if (entries->count == entries->room) {
            size_t room = entries->room ? entries->room * 2 : 1024;
            struct plan_entry *grown = realloc(entries->all, room * sizeof *grown);

            if (!grown)
                return no_memory(reader->path);
            entries->all = grown;
            entries->room = room;
        }
        entries->all[entries->count++] = entry;
    }
    return LEAT_OK;
}

static leat_status read_entries(struct plan_reader *reader, struct leati_pool_plan *plan, struct entries *entries)
{
    uint64_t count;

    if (!next_line(reader) || strcmp(reader->text, "leat-plan 1\n") != 0)
        return complain(reader, "the first line of a plan is 'leat-plan 1'");
    if (!next_line(reader) || !numbers(reader, "bytes ", &plan->bytes, NULL) || plan->bytes >> 48)
        return complain(reader, "'bytes' and the size of the arena are expected");
    while (next_line(reader)) {
        if (!numbers(reader, "stream ", &count, NULL) || count > UINT32_MAX)
            return complain(reader, "'stream' and a number of entries are expected");
        if (plan->list_count == STREAMS_MAX)
            return complain(reader, "a plan has at most 8 streams");
        LEATI_TRY(read_list(reader, plan, count, entries));
        plan->lists[plan->list_count++].count = (uint32_t)count;
    }
    if (ferror(reader->file) || reader->text[0] == '\0')
        return complain(reader, "the file could not be read");
    return LEAT_OK;
}

static int by_place(const void *a, const void *b)
{
    const struct plan_entry *x = a, *y = b;

    if (x->list != y->list)
        return (x->list > y->list) - (x->list < y->list);
    if (x->offset != y->offset)
        return (x->offset > y->offset) - (x->offset < y->offset);
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static uint32_t piece_of(const uint64_t *ends, size_t count, uint64_t offset)
{
    size_t low = 0, high = count;

    while (low + 1 < high) {
        size_t middle = (low + high) / 2;

        if (ends[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

/* Makes the places and pieces of the plan from the entries. Entries of one stream with equal offset and size share
 * a place. */
static bool make_places(struct leati_pool_plan *plan, struct entries *entries)
{
    uint64_t *ends = malloc((2 * entries->count + 1) * sizeof *ends);
    size_t end_count = 0, kept = 0;

    plan->places = calloc(entries->count + 1, sizeof *plan->places);
    for (unsigned i = 0; i < plan->list_count; i++) {
        plan->lists[i].places = calloc(plan->lists[i].count + 1u, sizeof(uint32_t));
        plan->lists[i].pairs = calloc(plan->lists[i].count + 1u, sizeof(struct pair));
        if (!plan->lists[i].places || !plan->lists[i].pairs) {
            free(ends);
            return false;
        }
    }
    if (!ends || !plan->places) {
        free(ends);
        return false;
    }
    if (entries->count)
        qsort(entries->all, entries->count, sizeof *entries->all, by_place);
    for (size_t i = 0; i < entries->count; i++) {
        const struct plan_entry *entry = &entries->all[i];

        if (!i || by_place(entry, entry - 1) != 0) {
            plan->places[plan->place_count++] =
                (struct leati_planned){.offset = entry->offset, .bytes = entry->bytes};
            ends[end_count++] = entry->offset;
            ends[end_count++] = entry->offset + entry->bytes;
        }
        plan->lists[entry->list].places[entry->number] = plan->place_count - 1;
    }
    qsort(ends, end_count, sizeof *ends, by_address);
    for (size_t i = 0; i < end_count; i++)
        if (!i || ends[i] != ends[kept - 1])
            ends[kept++] = ends[i];
    for (uint32_t i = 0; i < plan->place_count; i++) {
        struct leati_planned *place = &plan->places[i];

        place->first = piece_of(ends, kept, place->offset);
        place->count = piece_of(ends, kept, place->offset + place->bytes) - place->first;
    }
    plan->piece_count = (uint32_t)kept;
    plan->ends = ends;
    return true;
}

static uint64_t bytes_of(const struct leati_pool_plan *plan, const struct list *list, uint32_t entry)
{
    return plan->places[list->places[entry]].bytes;
}

static int by_pair(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;

    if (x->before_bytes != y->before_bytes)
        return (x->before_bytes > y->before_bytes) - (x->before_bytes < y->before_bytes);
    if (x->bytes != y->bytes)
        return (x->bytes > y->bytes) - (x->bytes < y->bytes);
    return (x->entry > y->entry) - (x->entry < y->entry);
}

static void sort_pairs(struct leati_pool_plan *plan)
{
    for (unsigned i = 0; i < plan->list_count; i++) {
        struct list *list = &plan->lists[i];

        for (uint32_t entry = 0; entry < list->count; entry++)
            list->pairs[entry] = (struct pair){.before_bytes = entry ? bytes_of(plan, list, entry - 1) : 0,
                                               .bytes = bytes_of(plan, list, entry),
                                               .entry = entry};
        qsort(list->pairs, list->count, sizeof *list->pairs, by_pair);
    }
}

static leat_status make(struct leati_pool_plan *plan, struct entries *entries, const char *path)
{
    size_t words;

    if (entries->count >= UINT32_MAX / 2 || !make_places(plan, entries))
        return no_memory(path);
    words = plan->piece_count / WORD_BITS + 1;
    plan->used = calloc(words, sizeof *plan->used);
    for (unsigned i = 0; i < plan->list_count; i++) {
        plan->lists[i].freed = calloc(words, sizeof *plan->used);
        if (!plan->lists[i].freed)
            return no_memory(path);
    }
    if (!plan->used)
        return no_memory(path);
    sort_pairs(plan);
    return LEAT_OK;
}

static void free_plan(struct leati_pool_plan *plan)
{
    for (unsigned i = 0; i < plan->list_count; i++) {
        free(plan->lists[i].places);
        free(plan->lists[i].pairs);
        free(plan->lists[i].freed);
    }
    free(plan->places);
    free(plan->ends);
    free(plan->used);
    leati_lock_destroy(&plan->lock);
    free(plan);
}

/* Opens a regular file. Returns NULL with errno set for any other file, because a read from a FIFO, for example,
 * could block. */
static FILE *open_regular(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat about;
    FILE *file = NULL;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &about) == 0 && !S_ISREG(about.st_mode))
        errno = S_ISDIR(about.st_mode) ? EISDIR : EINVAL;
    else
        file = fdopen(fd, "r");
    if (!file) {
        int error = errno;

        close(fd);
        errno = error;
    }
    return file;
}

leat_status leati_pool_plan_read(const char *path, struct leati_pool_plan **plan)
{
    FILE *file = open_regular(path);
    struct plan_reader reader = {.file = file, .path = path};
    struct entries entries = {.all = NULL};
    struct leati_pool_plan *made;
    leat_status status;

    if (!file)
        return leati_fail(LEAT_ERROR_SYSTEM, "plan %s cannot be opened: %s", path, strerror(errno));
    made = calloc(1, sizeof *made);
    if (!made) {
        fclose(file);
        return no_memory(path);
    }
    leati_lock_init(&made->lock);
    status = read_entries(&reader, made, &entries);
    fclose(file);
    if (status == LEAT_OK)
        status = make(made, &entries, path);
    free(entries.all);
    if (status != LEAT_OK) {
        free_plan(made);
        return status;
    }
    *plan = made;
    return LEAT_OK;
}

/* ---- occupied pieces: all under the plan's lock ---- */

/* Returns the bits of a place in one word of a bitmap. */
static uint64_t mask_of(const struct leati_planned *place, uint32_t word)
{
    uint32_t low = place->first > word * WORD_BITS ? place->first - word * WORD_BITS : 0;
    uint32_t end = place->first + place->count - word * WORD_BITS;

    return (end < WORD_BITS ? (UINT64_C(1) << end) - 1 : ~UINT64_C(0)) & ~UINT64_C(0) << low;
}

static uint32_t first_word(const struct leati_planned *place)
{
    return place->first / WORD_BITS;
}

static uint32_t last_word(const struct leati_planned *place)
{
    return (place->first + place->count - 1) / WORD_BITS;
}

static bool has_any(const uint64_t *bits, const struct leati_planned *place)
{
    for (uint32_t word = first_word(place); word <= last_word(place); word++)
        if (bits[word] & mask_of(place, word))
            return true;
    return false;
}

static void set_all(uint64_t *bits, const struct leati_planned *place)
{
    for (uint32_t word = first_word(place); word <= last_word(place); word++)
        bits[word] |= mask_of(place, word);
}

static void clear_all(uint64_t *bits, const struct leati_planned *place)
{
    for (uint32_t word = first_word(place); word <= last_word(place); word++)
        bits[word] &= ~mask_of(place, word);
}

/* ---- following the list ---- */

/* Returns the list for the stream of a cache. The n-th stream that requests planned memory from the pool gets the
 * n-th list of the plan. Returns NULL if the plan has no list for the stream. */
static struct list *list_of(struct leati_pool_plan *plan, struct leati_stream_cache *cache)
{
    unsigned i = 0;

    while (i < plan->list_count && plan->lists[i].cache && plan->lists[i].cache != cache)
        i++;
    if (i == plan->list_count)
        return NULL;
    plan->lists[i].cache = cache;
    return &plan->lists[i];
}

/* Finds the next entry of size bytes that follows an entry of size before_bytes. Starts at list->next and wraps
 * around at the end. Returns list->count if there is none. */
static uint32_t find_pair(const struct list *list, uint64_t before_bytes, uint64_t bytes)
{
    struct pair wanted = {.before_bytes = before_bytes, .bytes = bytes, .entry = list->next};
    uint32_t low = 0, high = list->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (by_pair(&list->pairs[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < list->count && list->pairs[low].before_bytes == before_bytes && list->pairs[low].bytes == bytes)
        return list->pairs[low].entry;
    /* There is no such entry at or after list->next, so go back to the first one. */
    while (low && list->pairs[low - 1].before_bytes == before_bytes && list->pairs[low - 1].bytes == bytes)
        low--;
    return low < list->count && list->pairs[low].before_bytes == before_bytes && list->pairs[low].bytes == bytes
               ? list->pairs[low].entry
               : list->count;
}

/* Returns the place that the plan has for a stream's request, and advances list->next. Returns NULL if the request
 * does not match. */
static struct leati_planned *next_place(struct leati_pool_plan *plan, struct list *list, uint64_t bytes)
{
    uint32_t entry = list->next;

    if (!list->count)
        return NULL;
    if (bytes_of(plan, list, entry) != bytes)
        entry = list->previous_bytes ? find_pair(list, list->previous_bytes, bytes) : list->count;
    if (entry == list->count) {
        list->previous_bytes = bytes;
        return NULL;
    }
    list->previous_bytes = 0;
    list->next = entry + 1 < list->count ? entry + 1 : 0;
    return &plan->places[list->places[entry]];
}

/* ---- stream order ---- */

/* Returns true if the pool allows this method of reuse (leat_pool_reuse_method). */
static bool allows(const struct leat_pool *pool, uint32_t reuse_flag)
{
    /* Relaxed: no other data depends on the flags. */
    return atomic_load_explicit(&pool->planned_reuse_flags, memory_order_relaxed) & reuse_flag;
}

/* Returns true if cache's stream may reuse memory that work of another stream, up to seq, has used, because that
 * work is complete or cache's stream is ordered after it. Queries the driver if necessary and allowed. */
static bool is_past(struct leat_pool *pool, const struct leati_stream_cache *cache,
                    struct leati_timeline *timeline, uint64_t seq)
{
    bool done = false;

    return leati_timeline_is_complete(timeline, seq) ||
           (allows(pool, LEAT_POOL_REUSE_METHOD_ORDERED) &&
            leati_timeline_is_ordered_after(cache->timeline, timeline, seq)) ||
           (allows(pool, LEAT_POOL_REUSE_METHOD_FINISHED) &&
            leati_timeline_query(timeline, seq, &done, &pool->figures.timeline) == LEAT_OK && done);
}

/* Frees the places of the late list whose work is complete. asks: queries the driver about work that is not known
 * to be complete. */
static void settle_late(struct leat_pool *pool, struct leati_pool_plan *plan, bool asks)
{
    struct leati_planned **link = &plan->late, *place;
    bool done;

    while ((place = *link)) {
        done = leati_timeline_is_complete(place->late, place->late_seq);
        if (!done && asks &&
            leati_timeline_query(place->late, place->late_seq, &done, &pool->figures.timeline) != LEAT_OK)
            done = false;
        if (!done) {
            link = &place->next_late;
            continue;
        }
        *link = place->next_late;
        leati_timeline_release(place->late);
        place->late = NULL;
        clear_all(plan->used, place);
    }
}

/* Returns true if the place is unoccupied and the stream of this list may use its memory. Sets *earlier_pending if
 * work of other streams, which this stream is ordered after, may still use the memory. */
static bool is_free(struct leat_pool *pool, struct leati_pool_plan *plan, const struct list *list,
                    const struct leati_planned *place, bool *earlier_pending)
{
    *earlier_pending = false;
    if (has_any(plan->used, place)) {
        settle_late(pool, plan, allows(pool, LEAT_POOL_REUSE_METHOD_FINISHED));
        if (has_any(plan->used, place))
            return false;
    }
    for (unsigned i = 0; i < plan->list_count; i++) {
        const struct list *other = &plan->lists[i];

        if (other == list || !other->cache || !has_any(other->freed, place))
            continue;
        if (!is_past(pool, list->cache, other->cache->timeline, other->freed_seq))
            return false;
        *earlier_pending =
            *earlier_pending || !leati_timeline_is_complete(other->cache->timeline, other->freed_seq);
    }
    return true;
}

/* ---- memory ---- */

/* Prepares the first use of a place: finds addresses for the arena, creates the record and maps the memory, if
 * this has not been done yet. Returns false if one of these steps fails. */
static bool prepare(struct leat_pool *pool, struct leati_pool_plan *plan, struct leati_planned *place,
                    struct leati_stream_cache *cache) LEATI_REQUIRES(pool->lock)
{
    if (!plan->base && !leati_pages_arena(pool, leati_round_up(plan->bytes, LEATI_PAGE_BYTES), &plan->base))
        return false;
    if (!place->block) {
        place->block = leati_block_new();
        if (!place->block)
            return false;
        leati_block_describe(pool, place->block, plan->base + place->offset, place->bytes, LEATI_HEAP_STITCHED);
        place->block->planned = place;
        place->cache = cache;
        leati_set_cache(place->block, cache);
        leati_set_state(place->block, LEATI_BLOCK_DORMANT);
    }
    if (!place->mapped)
        place->mapped = leati_pages_fill_arena(pool, cache, plan->base + place->offset, place->bytes) == LEAT_OK;
    return place->mapped;
}

/* Calls prepare() under the pool's lock. Leaves no error message if it fails, because the request then takes the
 * ordinary path. */
static bool make_ready(struct leat_pool *pool, struct leati_pool_plan *plan, struct leati_planned *place,
                       struct leati_stream_cache *cache)
{
    bool ready;

    leati_error_quiet_begin();
    leati_lock(&pool->lock);
    ready = prepare(pool, plan, place, cache);
    leati_unlock(&pool->lock);
    leati_error_quiet_end();
    return ready;
}

/* ---- taking and giving back ---- */

/* Marks a place as occupied. Returns false if it is not free. Call with the plan's lock held. */
static bool occupy(struct leat_pool *pool, struct leati_pool_plan *plan, struct list *list,
                   struct leati_planned *place)
{
    bool earlier_pending;

    if (!is_free(pool, plan, list, place, &earlier_pending))
        return false;
    /* Only now: if the place is refused, a stream without this order must still see who freed it. */
    for (unsigned i = 0; i < plan->list_count; i++)
        if (&plan->lists[i] != list)
            clear_all(plan->lists[i].freed, place);
    set_all(plan->used, place);
    place->earlier_pending = earlier_pending;
    return true;
}

/* Finds and occupies the place that the plan has for a request. Returns NULL if there is none, or if the place is
 * not free. */
static struct leati_planned *take_place(struct leat_pool *pool, struct leati_stream_cache *cache, uint64_t bytes)
{
    struct leati_pool_plan *plan = pool->plan;
    struct leati_planned *place = NULL;
    struct list *list;
    bool is_taken;

    leati_lock(&plan->lock);
    list = list_of(plan, cache);
    if (list)
        place = next_place(plan, list, bytes);
    is_taken = place && occupy(pool, plan, list, place);
    leati_unlock(&plan->lock);
    if (!place || is_taken)
        return place;
    /* A pending block may occupy the place, and its stream uses may be complete by now. Relaxed: a stale value
     * only makes this attempt useless, or skips it. */
    if (!atomic_load_explicit(&pool->figures.pending_bytes, memory_order_relaxed))
        return NULL;
    leati_lock(&pool->lock);
    leati_slow_path_settle(pool);
    leati_lock(&plan->lock);
    is_taken = occupy(pool, plan, list, place);
    leati_unlock(&plan->lock);
    leati_unlock(&pool->lock);
    return is_taken ? place : NULL;
}

/* Gives back a place that the stream of cache took and did not use. */
static void free_place(struct leati_pool_plan *plan, struct leati_planned *place, struct leati_stream_cache *cache)
{
    struct list *list;

    leati_lock(&plan->lock);
    list = list_of(plan, cache);
    /* Earlier work of other streams may still use the place. It is over when this stream has completed the work
     * that it has now. */
    if (list && place->earlier_pending) {
        set_all(list->freed, place);
        list->freed_seq = leati_timeline_now(cache->timeline);
    }
    clear_all(plan->used, place);
    leati_unlock(&plan->lock);
}

struct leati_block *leati_pool_plan_take(struct leat_pool *pool, struct leati_stream_cache *cache, size_t bytes,
                                         size_t requested_bytes)
{
    struct leati_planned *place = take_place(pool, cache, bytes);
    struct leati_magazine *magazine = place ? leati_magazine_of(cache, true) : NULL;
    struct leati_block *block;

    if (!place)
        return NULL;
    if (!magazine || (!place->mapped && !make_ready(pool, pool->plan, place, cache))) {
        free_place(pool->plan, place, cache);
        return NULL;
    }
    block = place->block;
    /* Earlier work of other streams is over when this stream has completed its work up to seq: see add_origin() of
     * alloc.c. Earlier work of this stream is in its freed bitmap. */
    block->seq = place->earlier_pending ? leati_timeline_now(cache->timeline) : 0;
    block->tag = leati_stats_thread_tag();
    leati_blocks_enter(block, false);
    leati_magazine_lock(magazine);
    atomic_store_explicit(&block->magazine, magazine, memory_order_relaxed);
    atomic_store_explicit(&block->requested_bytes, requested_bytes, memory_order_relaxed);
    leati_magazine_count_alloc(magazine, block, true);
    leati_track_live(pool, block, false);
    leati_set_state(block, LEATI_BLOCK_LIVE);
    leati_magazine_unlock(magazine);
    leati_count(&pool->figures.planned, 1);
    return block;
}

void leati_pool_plan_give_back(struct leati_block *block, struct leati_stream_cache *cache, uint64_t seq)
{
    struct leati_planned *place = block->planned;
    struct leati_pool_plan *plan = cache->pool->plan;
    struct list *list = plan->lists;

    leati_set_state(block, LEATI_BLOCK_DORMANT);
    /* If another stream freed the block, the caller took the slow path, so it holds the pool's lock here. */
    if (block->cache != place->cache)
        leati_set_cache(block, place->cache);
    leati_lock(&plan->lock);
    while (list->cache != place->cache)
        list++;
    if (cache == place->cache) {
        set_all(list->freed, place);
        list->freed_seq = seq > list->freed_seq ? seq : list->freed_seq;
        clear_all(plan->used, place);
    } else if (!cache->timeline || leati_timeline_is_complete(cache->timeline, seq)) {
        clear_all(plan->used, place);
    } else {
        leati_timeline_hold(cache->timeline);
        place->late = cache->timeline;
        place->late_seq = seq;
        place->next_late = plan->late;
        plan->late = place;
    }
    leati_unlock(&plan->lock);
}

/* ---- giving memory back ---- */

/* Returns the pieces that overlap [offset, offset + bytes) of the arena, as first and count of the result. */
static struct leati_planned pieces_in(const struct leati_pool_plan *plan, uint64_t offset, uint64_t bytes)
{
    struct leati_planned range = {.first = piece_of(plan->ends, plan->piece_count, offset)};

    range.count = piece_of(plan->ends, plan->piece_count, offset + bytes - 1) - range.first + 1;
    return range;
}

/* Returns true if [offset, offset + bytes) of the arena is unoccupied and no pending work uses it. Call with the
 * plan's lock held. */
static bool is_past_all(struct leat_pool *pool, struct leati_pool_plan *plan, uint64_t offset, uint64_t bytes)
{
    struct leati_planned range = pieces_in(plan, offset, bytes);

    if (has_any(plan->used, &range))
        return false;
    for (unsigned i = 0; i < plan->list_count; i++) {
        struct list *list = &plan->lists[i];
        bool done = false;

        if (list->cache && has_any(list->freed, &range) &&
            (leati_timeline_query(list->cache->timeline, list->freed_seq, &done, &pool->figures.timeline) !=
                 LEAT_OK ||
             !done))
            return false;
    }
    return true;
}

leat_status leati_pool_plan_trim(struct leat_pool *pool, uint64_t keep_bytes, uint64_t *released_bytes)
{
    struct leati_pool_plan *plan = pool->plan;
    leat_status status = LEAT_OK;
    uint64_t offset = 0;
    size_t bytes;

    leati_assert_locked(&pool->lock);
    if (!plan || !plan->base)
        return LEAT_OK;
    leati_lock(&plan->lock);
    settle_late(pool, plan, true);
    while (status == LEAT_OK && leati_pages_next(pool, plan->base, plan->bytes, &offset, &bytes) &&
           atomic_load_explicit(&pool->figures.reserved_bytes, memory_order_relaxed) > keep_bytes) {
        if (is_past_all(pool, plan, offset, bytes)) {
            for (uint32_t i = 0; i < plan->place_count; i++)
                if (plan->places[i].offset < offset + bytes &&
                    offset < plan->places[i].offset + plan->places[i].bytes)
                    plan->places[i].mapped = false;
            status = leati_pages_release_at(pool, plan->base + offset);
            *released_bytes += bytes;
        }
        offset += bytes;
    }
    leati_unlock(&plan->lock);
    return status;
}

uint64_t leati_pool_plan_pending_bytes(struct leat_pool *pool)
{
    struct leati_pool_plan *plan = pool->plan;
    uint64_t pending_bytes = 0, offset = 0;
    size_t bytes;

    leati_assert_locked(&pool->lock);
    if (!plan || !plan->base)
        return 0;
    leati_lock(&plan->lock);
    for (; leati_pages_next(pool, plan->base, plan->bytes, &offset, &bytes); offset += bytes) {
        struct leati_planned range = pieces_in(plan, offset, bytes);

        if (!has_any(plan->used, &range) && !is_past_all(pool, plan, offset, bytes))
            pending_bytes += bytes;
    }
    leati_unlock(&plan->lock);
    return pending_bytes;
}

leat_status leati_pool_plan_finish(struct leat_pool *pool)
{
    struct leati_pool_plan *plan = pool->plan;
    leat_status first = LEAT_OK, status;

    leati_assert_locked(&pool->lock);
    if (!plan)
        return LEAT_OK;
    leati_lock(&plan->lock);
    for (unsigned i = 0; i < plan->list_count; i++)
        if (plan->lists[i].cache && plan->lists[i].freed_seq) {
            status = leati_timeline_host_wait(plan->lists[i].cache->timeline, plan->lists[i].freed_seq,
                                              &pool->figures.timeline);
            first = first != LEAT_OK ? first : status;
        }
    for (struct leati_planned *place = plan->late; place; place = place->next_late) {
        status = leati_timeline_host_wait(place->late, place->late_seq, &pool->figures.timeline);
        first = first != LEAT_OK ? first : status;
    }
    leati_unlock(&plan->lock);
    return first;
}

size_t leati_pool_plan_places(const struct leat_pool *pool)
{
    return pool->plan ? pool->plan->place_count : 0;
}

bool leati_pool_plan_range(const struct leat_pool *pool, uintptr_t *base, size_t *bytes)
{
    if (!pool->plan || !pool->plan->base)
        return false;
    *base = pool->plan->base;
    *bytes = leati_round_up(pool->plan->bytes, LEATI_PAGE_BYTES);
    return true;
}

struct leati_block *leati_pool_plan_block(const struct leat_pool *pool, uint32_t *index)
{
    while (pool->plan && *index < pool->plan->place_count) {
        struct leati_block *block = pool->plan->places[(*index)++].block;

        if (block)
            return block;
    }
    return NULL;
}

void leati_pool_plan_end(struct leat_pool *pool)
{
    struct leati_pool_plan *plan = pool->plan;

    if (!plan)
        return;
    for (struct leati_planned *place = plan->late; place; place = place->next_late)
        leati_timeline_release(place->late);
    for (uint32_t i = 0; i < plan->place_count; i++)
        if (plan->places[i].block) {
            leati_set_cache(plan->places[i].block, NULL);
            leati_block_give_back(plan->places[i].block);
        }
    free_plan(plan);
    pool->plan = NULL;
}
