/*
 * activity.c - keeps a recorded run in memory: activities, and the names, devices, threads and streams that they
 * refer to by index.
 */
#include "activity.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const activity_kind_names[ACTIVITY_KIND_COUNT] = {
    [ACTIVITY_COPY] = "copy",
    [ACTIVITY_FILL] = "fill",
    [ACTIVITY_KERNEL] = "kernel",
    [ACTIVITY_HOST_FUNCTION] = "host function",
    [ACTIVITY_STREAM_WAIT] = "stream wait",
    [ACTIVITY_HOST_WAIT] = "host wait",
    [ACTIVITY_ALLOC] = "alloc",
    [ACTIVITY_FREE] = "free",
    [ACTIVITY_FILE_READ] = "file read",
    [ACTIVITY_FILE_WRITE] = "file write",
    [ACTIVITY_PAGE_MOVE] = "page move",
    [ACTIVITY_RANGE] = "range",
    [ACTIVITY_OTHER] = "call",
};

const char *const activity_memory_names[ACTIVITY_MEMORY_COUNT] = {
    [ACTIVITY_MEMORY_UNKNOWN] = "unknown", [ACTIVITY_MEMORY_PAGEABLE] = "pageable",
    [ACTIVITY_MEMORY_PINNED] = "pinned",   [ACTIVITY_MEMORY_DEVICE] = "device",
    [ACTIVITY_MEMORY_MANAGED] = "managed", [ACTIVITY_MEMORY_FILE] = "file",
};

struct activity_log *activity_log_create(void)
{
    return calloc(1, sizeof(struct activity_log));
}

void activity_log_destroy(struct activity_log *log)
{
    size_t i;

    if (!log)
        return;
    for (i = 0; i < log->name_count; i++)
        free(log->names[i]);
    free(log->names);
    free(log->name_table);
    free(log->changes);
    free(log->pools);
    free(log->devices);
    free(log->threads);
    free(log->streams);
    free(log->list);
    free(log);
}

/* Makes room for one more element. Returns false if memory is short. */
static bool grow(void **list, size_t count, size_t *room, size_t size)
{
    size_t wanted = *room ? *room * 2 : 64;
    void *grown;

    if (count < *room)
        return true;
    if (wanted > SIZE_MAX / size)
        return false;
    grown = realloc(*list, wanted * size);
    if (!grown)
        return false;
    *list = grown;
    *room = wanted;
    return true;
}

/* Makes room in a list of the log. A pointer to a pointer to struct may not be used as a void **. */
#define GROW(list, count, room)                                                                                   \
    (grow_list = (list), grow(&grow_list, (count), (room), sizeof *(list)) ? ((list) = grow_list, true) : false)

bool activity_log_add(struct activity_log *log, const struct activity *activity)
{
    void *grow_list;

    if (!GROW(log->list, log->count, &log->room))
        return false;
    log->list[log->count] = *activity;
    if (activity->bytes > ACTIVITY_BYTES_MAX)
        log->list[log->count].bytes = ACTIVITY_BYTES_MAX;
    log->count++;
    return true;
}

/* ---- names ---- */

static size_t hash_text(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    while (*text)
        hash = (hash ^ (unsigned char)*text++) * UINT64_C(0x100000001b3);
    return (size_t)(hash ^ hash >> 29);
}

/* Returns the element of the table that has the name, or the empty one where it belongs. */
static uint32_t *find_name(struct activity_log *log, const char *name)
{
    size_t at = hash_text(name) & (log->name_table_size - 1);

    while (log->name_table[at] && strcmp(log->names[log->name_table[at] - 1], name) != 0)
        at = (at + 1) & (log->name_table_size - 1);
    return &log->name_table[at];
}

static bool grow_name_table(struct activity_log *log)
{
    size_t size = log->name_table_size ? log->name_table_size * 2 : 256, i;
    uint32_t *table = calloc(size, sizeof *table);

    if (!table)
        return false;
    free(log->name_table);
    log->name_table = table;
    log->name_table_size = size;
    for (i = 0; i < log->name_count; i++)
        *find_name(log, log->names[i]) = (uint32_t)i + 1;
    return true;
}

uint32_t activity_log_name(struct activity_log *log, const char *name)
{
    uint32_t *slot;
    void *grow_list;
    char *copy;

    if (log->name_count * 2 >= log->name_table_size && !grow_name_table(log))
        return ACTIVITY_NONE;
    slot = find_name(log, name);
    if (*slot)
        return *slot - 1;
    if (log->name_count >= ACTIVITY_NONE - 1 || !GROW(log->names, log->name_count, &log->name_room))
        return ACTIVITY_NONE;
    copy = strdup(name);
    if (!copy)
        return ACTIVITY_NONE;
    log->names[log->name_count++] = copy;
    *slot = (uint32_t)log->name_count;
    return *slot - 1;
}

const char *activity_name(const struct activity_log *log, uint32_t name)
{
    return name < log->name_count ? log->names[name] : "";
}

/* ---- devices, threads, streams: few, and the newest is the likeliest ---- */

uint32_t activity_log_device(struct activity_log *log, uint64_t number, const char *name)
{
    void *grow_list;
    size_t i;

    for (i = log->device_count; i-- > 0;)
        if (log->devices[i].number == number)
            return (uint32_t)i;
    if (log->device_count >= ACTIVITY_DEVICES_MAX || !GROW(log->devices, log->device_count, &log->device_room))
        return ACTIVITY_NONE;
    log->devices[log->device_count] =
        (struct activity_device){.number = number, .name = activity_log_name(log, name)};
    return (uint32_t)log->device_count++;
}

uint32_t activity_log_thread(struct activity_log *log, uint64_t number)
{
    void *grow_list;
    size_t i;

    for (i = log->thread_count; i-- > 0;)
        if (log->threads[i].number == number)
            return (uint32_t)i;
    if (log->thread_count >= ACTIVITY_THREADS_MAX || !GROW(log->threads, log->thread_count, &log->thread_room))
        return ACTIVITY_NONE;
    log->threads[log->thread_count] = (struct activity_thread){.number = number, .name = ACTIVITY_NONE};
    return (uint32_t)log->thread_count++;
}

uint32_t activity_log_stream(struct activity_log *log, uint32_t device, uint64_t number)
{
    void *grow_list;
    size_t i;

    for (i = log->stream_count; i-- > 0;)
        if (log->streams[i].number == number && log->streams[i].device == device)
            return (uint32_t)i;
    if (log->stream_count >= ACTIVITY_STREAMS_MAX || !GROW(log->streams, log->stream_count, &log->stream_room))
        return ACTIVITY_NONE;
    log->streams[log->stream_count] = (struct activity_stream){.number = number, .device = device};
    return (uint32_t)log->stream_count++;
}

uint32_t activity_log_pool(struct activity_log *log, const struct activity_pool *pool)
{
    void *grow_list;

    if (log->pool_count >= ACTIVITY_POOLS_MAX || !GROW(log->pools, log->pool_count, &log->pool_room))
        return ACTIVITY_NONE;
    log->pools[log->pool_count] = *pool;
    return (uint32_t)log->pool_count++;
}

bool activity_log_change(struct activity_log *log, const struct activity_memory_change *change)
{
    void *grow_list;

    if (!GROW(log->changes, log->change_count, &log->change_room))
        return false;
    log->changes[log->change_count++] = *change;
    return true;
}

uint32_t activity_device(const struct activity_log *log, const struct activity *activity)
{
    return activity->stream < log->stream_count ? log->streams[activity->stream].device : ACTIVITY_NONE;
}

/* ---- the whole ---- */

static int compare_activities(const void *a, const void *b)
{
    const struct activity *one = a, *other = b;
    uint64_t x = activity_begin_ns(one), y = activity_begin_ns(other);

    if (x != y)
        return x < y ? -1 : 1;
    /* A range begins before what is in it. */
    if ((one->kind == ACTIVITY_RANGE) != (other->kind == ACTIVITY_RANGE))
        return one->kind == ACTIVITY_RANGE ? -1 : 1;
    x = one->flags & ACTIVITY_FLAG_HOST ? one->host_end_ns : one->device_end_ns;
    y = other->flags & ACTIVITY_FLAG_HOST ? other->host_end_ns : other->device_end_ns;
    if (x != y)
        return x > y ? -1 : 1;
    /* The rest makes the order the same for each C library. */
    if (one->thread != other->thread)
        return one->thread < other->thread ? -1 : 1;
    if (one->device_begin_ns != other->device_begin_ns)
        return one->device_begin_ns < other->device_begin_ns ? -1 : 1;
    return one->stream == other->stream ? 0 : one->stream < other->stream ? -1 : 1;
}

/* Counts the times from begin to end into the span. A pair that runs backwards, since two clocks differ a little,
 * becomes a moment. */
static void widen_span(struct activity_log *log, uint64_t begin, uint64_t *end, uint64_t *first, uint64_t *last)
{
    if (*end < begin) {
        *end = begin;
        log->backward++;
    }
    *first = begin < *first ? begin : *first;
    *last = *end > *last ? *end : *last;
}

/* Finds the beginning and the end of the span. Returns false if there is no activity with a time. */
static bool find_span(struct activity_log *log, uint64_t *first, uint64_t *last)
{
    size_t i;

    *first = UINT64_MAX;
    *last = 0;
    for (i = 0; i < log->count; i++) {
        struct activity *a = &log->list[i];

        if (a->flags & ACTIVITY_FLAG_HOST)
            widen_span(log, a->host_begin_ns, &a->host_end_ns, first, last);
        if (a->flags & ACTIVITY_FLAG_DEVICE)
            widen_span(log, a->device_begin_ns, &a->device_end_ns, first, last);
    }
    return *first <= *last;
}

enum { RANGE_DEPTH_MAX = 64 };

struct open_ranges {
    uint64_t end_ns[RANGE_DEPTH_MAX];
    uint32_t name[RANGE_DEPTH_MAX];
    int depth;
};

/* Gives each call the innermost range of its thread around it. Deeper ranges than RANGE_DEPTH_MAX do not count.
 * Returns false if memory is short. */
static bool find_ranges(struct activity_log *log)
{
    struct open_ranges *open = calloc(log->thread_count ? log->thread_count : 1, sizeof *open);
    size_t i;

    if (!open)
        return false;
    for (i = 0; i < log->count; i++) {
        struct activity *a = &log->list[i];
        struct open_ranges *of;

        a->range = ACTIVITY_NONE;
        if (a->thread >= log->thread_count || !(a->flags & ACTIVITY_FLAG_HOST))
            continue;
        of = &open[a->thread];
        while (of->depth > 0 && of->end_ns[of->depth - 1] <= a->host_begin_ns)
            of->depth--;
        if (of->depth > 0)
            a->range = of->name[of->depth - 1];
        if (a->kind == ACTIVITY_RANGE && of->depth < RANGE_DEPTH_MAX) {
            of->end_ns[of->depth] = a->host_end_ns;
            of->name[of->depth++] = a->name;
        }
    }
    free(open);
    return true;
}

/* ---- pools ---- */

static int compare_changes(const void *a, const void *b)
{
    const struct activity_memory_change *one = a, *other = b;

    if (one->ns != other->ns)
        return one->ns < other->ns ? -1 : 1;
    if (one->pool != other->pool)
        return one->pool < other->pool ? -1 : 1;
    if (one->reserved_bytes != other->reserved_bytes)
        return one->reserved_bytes < other->reserved_bytes ? -1 : 1;
    return one->used_bytes == other->used_bytes ? 0 : one->used_bytes < other->used_bytes ? -1 : 1;
}

/* Fills the figures of the pools from the changes, which are in order. */
static void count_changes(struct activity_log *log)
{
    size_t i;

    for (i = 0; i < log->change_count; i++) {
        const struct activity_memory_change *change = &log->changes[i];
        struct activity_pool *pool = &log->pools[change->pool];

        pool->changes++;
        pool->used_bytes = change->used_bytes;
        pool->reserved_bytes = change->reserved_bytes;
        if (change->used_bytes > pool->used_peak_bytes)
            pool->used_peak_bytes = change->used_bytes;
        if (change->reserved_bytes > pool->reserved_peak_bytes)
            pool->reserved_peak_bytes = change->reserved_bytes;
    }
}

/* Puts the changes in order, within the span, and fills the figures of the pools. */
static void finish_pools(struct activity_log *log)
{
    size_t i;

    for (i = 0; i < log->change_count; i++) {
        uint64_t ns = log->changes[i].ns > log->start_ns ? log->changes[i].ns - log->start_ns : 0;

        log->changes[i].ns = ns < log->span_ns ? ns : log->span_ns;
    }
    if (log->change_count)
        qsort(log->changes, log->change_count, sizeof *log->changes, compare_changes);
    count_changes(log);
    for (i = 0; i < log->pool_count; i++) {
        size_t device = 0;

        while (device < log->device_count && log->devices[device].name != log->pools[i].device_name)
            device++;
        log->pools[i].device = device < log->device_count ? (uint32_t)device : ACTIVITY_NONE;
    }
}

static int compare_pools(const void *a, const void *b, void *pools)
{
    size_t i = *(const size_t *)a, j = *(const size_t *)b;
    const struct activity_pool *one = (const struct activity_pool *)pools + i;
    const struct activity_pool *other = (const struct activity_pool *)pools + j;

    if (one->reserved_peak_bytes != other->reserved_peak_bytes)
        return one->reserved_peak_bytes > other->reserved_peak_bytes ? -1 : 1;
    return i == j ? 0 : i < j ? -1 : 1;
}

size_t activity_pool_order(const struct activity_log *log, size_t *order)
{
    size_t count = 0, i;

    for (i = 0; i < log->pool_count; i++)
        if (log->pools[i].reserved_peak_bytes)
            order[count++] = i;
    qsort_r(order, count, sizeof *order, compare_pools, log->pools);
    return count;
}

/* 104 days: the pages and JSON have numbers of double precision. */
#define SPAN_MAX_NS (UINT64_C(1) << 53)

bool activity_log_finish(struct activity_log *log, char error[ACTIVITY_ERROR_MAX])
{
    uint64_t first, last;
    size_t i;

    if (!find_span(log, &first, &last)) {
        snprintf(error, ACTIVITY_ERROR_MAX, "it has no activity with a time");
        return false;
    }
    if (last - first > SPAN_MAX_NS) {
        snprintf(error, ACTIVITY_ERROR_MAX, "the file is damaged: its times span %" PRIu64 " ns", last - first);
        return false;
    }
    log->start_ns = first;
    log->span_ns = last - first;
    for (i = 0; i < log->count; i++) {
        struct activity *a = &log->list[i];

        if (a->flags & ACTIVITY_FLAG_HOST) {
            a->host_begin_ns -= first;
            a->host_end_ns -= first;
        }
        if (a->flags & ACTIVITY_FLAG_DEVICE) {
            a->device_begin_ns -= first;
            a->device_end_ns -= first;
        }
    }
    finish_pools(log);
    qsort(log->list, log->count, sizeof *log->list, compare_activities);
    if (!find_ranges(log)) {
        snprintf(error, ACTIVITY_ERROR_MAX, "out of host memory");
        return false;
    }
    return true;
}

/* Cuts a pair of times to the part of the span from begin to end. Returns false if they are outside of it. */
static bool cut(uint64_t *from, uint64_t *to, uint64_t begin, uint64_t end)
{
    if (*to < begin || *from > end)
        return false;
    *from = *from > begin ? *from - begin : 0;
    *to = (*to < end ? *to : end) - begin;
    return true;
}

/* Cuts the changes of pools to the span from begin to end. Each pool begins with the memory that it had then. */
static void cut_changes(struct activity_log *log, uint64_t begin, uint64_t end)
{
    size_t first = 0, kept = 0, i;

    for (i = 0; i < log->pool_count; i++) {
        struct activity_pool *pool = &log->pools[i];

        pool->changes = pool->used_peak_bytes = pool->reserved_peak_bytes = 0;
        pool->used_bytes = pool->reserved_bytes = 0;
    }
    for (; first < log->change_count && log->changes[first].ns < begin; first++) {
        struct activity_pool *pool = &log->pools[log->changes[first].pool];

        pool->changes = 1;
        pool->used_bytes = log->changes[first].used_bytes;
        pool->reserved_bytes = log->changes[first].reserved_bytes;
    }
    /* There is room: each of these pools has a change before first. */
    for (i = 0; i < log->pool_count; i++) {
        struct activity_pool *pool = &log->pools[i];

        if (pool->changes)
            log->changes[kept++] = (struct activity_memory_change){
                .used_bytes = pool->used_bytes, .reserved_bytes = pool->reserved_bytes, .pool = (uint32_t)i};
        pool->changes = 0;
    }
    for (i = first; i < log->change_count && log->changes[i].ns <= end; i++) {
        log->changes[kept] = log->changes[i];
        log->changes[kept++].ns -= begin;
    }
    log->change_count = kept;
    count_changes(log);
}

/* Cuts the work of an activity. Its bytes become the share of the time that is left, so that its rate stays. */
static void cut_work(struct activity *a, uint64_t begin, uint64_t end)
{
    uint64_t length = a->device_end_ns - a->device_begin_ns, left;

    if (!cut(&a->device_begin_ns, &a->device_end_ns, begin, end)) {
        a->flags &= (uint8_t)~ACTIVITY_FLAG_DEVICE;
        return;
    }
    left = a->device_end_ns - a->device_begin_ns;
    if (left == length)
        return;
    a->bytes = (uint64_t)((double)a->bytes * ((double)left / (double)length));
    a->flags |= ACTIVITY_FLAG_CUT;
}

bool activity_log_cut(struct activity_log *log, const char *range, char error[ACTIVITY_ERROR_MAX])
{
    uint64_t begin = UINT64_MAX, end = 0;
    size_t i, kept = 0;

    for (i = 0; i < log->count; i++) {
        const struct activity *a = &log->list[i];

        if (a->kind == ACTIVITY_RANGE && (a->flags & ACTIVITY_FLAG_HOST) &&
            !strcmp(activity_name(log, a->name), range)) {
            begin = a->host_begin_ns < begin ? a->host_begin_ns : begin;
            end = a->host_end_ns > end ? a->host_end_ns : end;
        }
    }
    if (begin > end) {
        snprintf(error, ACTIVITY_ERROR_MAX, "it has no range '%.200s'", range);
        return false;
    }
    for (i = 0; i < log->count; i++) {
        struct activity a = log->list[i];

        if ((a.flags & ACTIVITY_FLAG_HOST) && !cut(&a.host_begin_ns, &a.host_end_ns, begin, end))
            a.flags &= (uint8_t)~ACTIVITY_FLAG_HOST;
        if (a.flags & ACTIVITY_FLAG_DEVICE)
            cut_work(&a, begin, end);
        if (a.flags & (ACTIVITY_FLAG_HOST | ACTIVITY_FLAG_DEVICE))
            log->list[kept++] = a;
    }
    log->count = kept;
    /* An activity of which only the work is left has another place in the order. */
    if (kept)
        qsort(log->list, kept, sizeof *log->list, compare_activities);
    cut_changes(log, begin, end);
    log->start_ns += begin;
    log->span_ns = end - begin;
    return true;
}

/* ---- texts ---- */

const char *activity_thread_name(const struct activity_log *log, size_t thread, char text[ACTIVITY_THREAD_MAX])
{
    const char *name = activity_name(log, log->threads[thread].name);

    snprintf(text, ACTIVITY_THREAD_MAX, "thread %" PRIu64 "%s%.40s", log->threads[thread].number,
             name[0] ? " " : "", name);
    return text;
}

const char *activity_pool_name(const struct activity_log *log, size_t pool, char text[ACTIVITY_POOL_NAME_MAX])
{
    snprintf(text, ACTIVITY_POOL_NAME_MAX, "%.60s on %.40s", activity_name(log, log->pools[pool].name),
             activity_name(log, log->pools[pool].device_name));
    return text;
}

const char *activity_duration(char text[32], uint64_t ns)
{
    static const struct {
        uint64_t ns;
        const char *unit;
    } units[] = {{UINT64_C(1000000000), "s"}, {1000000, "ms"}, {1000, "us"}, {1, "ns"}};
    char figure[TEXT_MAX];
    size_t i = 0;

    while (ns < units[i].ns && i < 3)
        i++;
    if (units[i].ns == 1)
        snprintf(text, 32, "%" PRIu64 " ns", ns);
    else
        snprintf(text, 32, "%.20s %s", text_figure(figure, (double)ns / (double)units[i].ns), units[i].unit);
    return text;
}

const char *activity_place(const struct activity_log *log, const struct activity *activity,
                           char text[ACTIVITY_PLACE_MAX])
{
    bool caller = activity->place < log->name_count, range = activity->range < log->name_count;

    snprintf(text, ACTIVITY_PLACE_MAX, "%.100s%s%.120s%s%.60s%s",
             activity->name < log->name_count ? activity_name(log, activity->name)
                                              : activity_kind_names[activity->kind],
             caller ? " at " : "", caller ? activity_name(log, activity->place) : "", range ? " in '" : "",
             range ? activity_name(log, activity->range) : "", range ? "'" : "");
    return text;
}
