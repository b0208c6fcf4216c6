/*
 * pool_map_read.c - reads the JSON that leat_pool_snapshot() writes, and computes the figures that the pictures
 * show.
 */
#include "pool_map.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *const pool_map_state_names[POOL_MAP_STATE_COUNT] = {
    [POOL_MAP_LIVE] = "live",           [POOL_MAP_CACHED] = "cached",
    [POOL_MAP_PENDING] = "pending",     [POOL_MAP_FREE] = "free",
    [POOL_MAP_IN_STITCH] = "in_stitch", [POOL_MAP_STALE] = "stale",
    [POOL_MAP_DORMANT] = "dormant",     [POOL_MAP_HOLE] = "hole"};

enum { WHERE_MAX = 64 };

struct reader {
    struct pool_map *map;
    const char *path;
    char *error;
    char where[WHERE_MAX]; /* for messages: the part of the file that is read now, such as
                            * "ranges[0].extents[17]: " */
};

static bool complain(struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool complain(struct reader *reader, const char *format, ...)
{
    va_list list;
    int used = snprintf(reader->error, POOL_MAP_ERROR_MAX, "%.200s: %s", reader->path, reader->where);

    va_start(list, format);
    vsnprintf(reader->error + used, POOL_MAP_ERROR_MAX - (size_t)used, format, list);
    va_end(list);
    return false;
}

/* ---- values ---- */

static bool get_number(struct reader *reader, const json_t *object, const char *key, uint64_t *number)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return complain(reader, "'%s' is missing or no whole number from 0 up", key);
    *number = (uint64_t)json_integer_value(value);
    return true;
}

/* Reads the number of a key like get_number(), but returns 0 in *number if the key is missing. */
static bool get_number_if_any(struct reader *reader, const json_t *object, const char *key, uint64_t *number)
{
    *number = 0;
    return !json_object_get(object, key) || get_number(reader, object, key, number);
}

static bool get_text(struct reader *reader, const json_t *object, const char *key, const char **text)
{
    *text = json_string_value(json_object_get(object, key));
    return *text || complain(reader, "'%s' is missing or no text", key);
}

static bool get_list(struct reader *reader, const json_t *object, const char *key, const json_t **list)
{
    *list = json_object_get(object, key);
    return json_is_array(*list) || complain(reader, "'%s' is missing or no list", key);
}

static void *make_array(struct reader *reader, size_t count, size_t size)
{
    void *array = calloc(count ? count : 1, size);

    if (!array)
        complain(reader, "out of host memory");
    return array;
}

/* ---- extents ---- */

static bool get_state(struct reader *reader, const json_t *object, enum pool_map_state *state)
{
    const char *text;
    int i;

    if (!get_text(reader, object, "state", &text))
        return false;
    for (i = 0; i < POOL_MAP_STATE_COUNT; i++)
        if (!strcmp(text, pool_map_state_names[i])) {
            *state = (enum pool_map_state)i;
            return true;
        }
    return complain(reader, "there is no state '%.40s'", text);
}

static int find_tag(const struct pool_map *map, const char *name)
{
    size_t i;

    for (i = 0; name && name[0] && i < map->tag_count; i++)
        if (!strcmp(map->tags[i].name, name))
            return (int)i;
    return POOL_MAP_NO_TAG;
}

static bool read_extent(struct reader *reader, const json_t *object, const struct pool_map_range *range,
                        uint64_t begin, struct pool_map_extent *extent)
{
    if (!get_number(reader, object, "offset", &extent->offset) ||
        !get_number(reader, object, "bytes", &extent->bytes) || !get_state(reader, object, &extent->state) ||
        !get_number_if_any(reader, object, "requested_bytes", &extent->requested_bytes) ||
        !get_number_if_any(reader, object, "stream", &extent->stream))
        return false;
    if (extent->offset != begin)
        return complain(reader, "it begins at %llu, and the one before it ends at %llu",
                        (unsigned long long)extent->offset, (unsigned long long)begin);
    if (extent->bytes == 0 || extent->bytes > range->bytes - extent->offset)
        return complain(reader, "%llu bytes at %llu are nothing, or more than the %llu bytes of the range",
                        (unsigned long long)extent->bytes, (unsigned long long)extent->offset,
                        (unsigned long long)range->bytes);
    extent->tag = find_tag(reader->map, json_string_value(json_object_get(object, "tag")));
    extent->stack = json_object_get(object, "stack");
    return true;
}

/* Extends a stitched block in use to the beginning of the next extent, and returns its end. This is needed because
 * the snapshot lists such a block up to the end of its request, and not to the end of its last page. */
static uint64_t take_tail(const json_t *next, struct pool_map_extent *before)
{
    const json_t *value = json_object_get(next, "offset");
    uint64_t offset = json_is_integer(value) ? (uint64_t)json_integer_value(value) : 0;
    uint64_t end = before->offset + before->bytes;
    bool in_use =
        before->state == POOL_MAP_LIVE || before->state == POOL_MAP_CACHED || before->state == POOL_MAP_PENDING;

    if (in_use && json_is_integer(value) && json_integer_value(value) > 0 && offset > end) {
        before->bytes = offset - before->offset;
        return offset;
    }
    return end;
}

static bool read_extents(struct reader *reader, const json_t *list, size_t number, struct pool_map_range *range)
{
    size_t count = json_array_size(list), i;
    uint64_t at = 0;

    range->extents = make_array(reader, count, sizeof *range->extents);
    if (!range->extents)
        return false;
    for (i = 0; i < count; i++) {
        snprintf(reader->where, WHERE_MAX, "ranges[%zu].extents[%zu]: ", number, i);
        if (range->stitched && i > 0)
            at = take_tail(json_array_get(list, i), &range->extents[i - 1]);
        if (!read_extent(reader, json_array_get(list, i), range, at, &range->extents[i]))
            return false;
        at += range->extents[i].bytes;
        range->extent_count++;
    }
    return true;
}

static bool read_range(struct reader *reader, const json_t *object, size_t number, struct pool_map_range *range)
{
    const json_t *extents;
    const char *base;
    char *end;

    snprintf(reader->where, WHERE_MAX, "ranges[%zu]: ", number);
    if (!get_text(reader, object, "name", &range->name) || !get_text(reader, object, "base", &base) ||
        !get_number(reader, object, "bytes", &range->bytes) || !get_list(reader, object, "extents", &extents))
        return false;
    range->stitched = !strcmp(range->name, "stitched");
    range->base = strtoull(base, &end, 16);
    if (base[0] == '\0' || *end)
        return complain(reader, "'base' is '%.40s', and must be an address such as 0x7f0000000000", base);
    return read_extents(reader, extents, number, range);
}

/* Moves the ranges of stitched blocks behind the other ranges, whose memory the stitched blocks use. */
static void put_stitched_last(struct pool_map *map)
{
    size_t kept = 0, i;

    for (i = 0; i < map->range_count; i++) {
        struct pool_map_range range = map->ranges[i];

        if (range.stitched)
            continue;
        memmove(&map->ranges[kept + 1], &map->ranges[kept], (i - kept) * sizeof range);
        map->ranges[kept++] = range;
    }
}

static bool read_ranges(struct reader *reader)
{
    struct pool_map *map = reader->map;
    const json_t *list;
    size_t count, i;

    if (!get_list(reader, map->json, "ranges", &list))
        return false;
    count = json_array_size(list);
    map->ranges = make_array(reader, count, sizeof *map->ranges);
    if (!map->ranges)
        return false;
    for (i = 0; i < count; i++) {
        map->range_count++;
        if (!read_range(reader, json_array_get(list, i), i, &map->ranges[i]))
            return false;
    }
    put_stitched_last(map);
    return true;
}

/* ---- streams and tags ---- */

static bool read_share(struct reader *reader, const json_t *object, bool stream, struct pool_map_share *share)
{
    return (stream ? get_number(reader, object, "number", &share->number)
                   : get_text(reader, object, "name", &share->name)) &&
           get_number(reader, object, "requested_bytes", &share->requested_bytes) &&
           get_number(reader, object, "live_blocks", &share->live_blocks) &&
           get_number_if_any(reader, object, "cached_bytes", &share->cached_bytes);
}

/* Reads the list of streams or of tags. */
static bool read_shares(struct reader *reader, const char *key, struct pool_map_share **shares, size_t *count)
{
    bool stream = !strcmp(key, "streams");
    const json_t *list;
    size_t i;

    reader->where[0] = '\0';
    if (!get_list(reader, reader->map->json, key, &list))
        return false;
    *shares = make_array(reader, json_array_size(list), sizeof **shares);
    if (!*shares)
        return false;
    for (i = 0; i < json_array_size(list); i++) {
        snprintf(reader->where, WHERE_MAX, "%s[%zu]: ", key, i);
        if (!read_share(reader, json_array_get(list, i), stream, &(*shares)[i]))
            return false;
        ++*count;
    }
    reader->where[0] = '\0';
    return true;
}

/* ---- the whole snapshot ---- */

static bool read_head(struct reader *reader)
{
    struct pool_map *map = reader->map;
    const char *format = json_string_value(json_object_get(map->json, "format"));
    const json_t *statistics = json_object_get(map->json, "statistics");

    if (!format || strcmp(format, "leat-pool-1"))
        return complain(reader, "this is no snapshot of a pool: 'format' is not \"leat-pool-1\"");
    if (!get_text(reader, map->json, "pool", &map->name) || !get_text(reader, map->json, "device", &map->device) ||
        !get_text(reader, map->json, "kind", &map->kind) ||
        !get_number(reader, map->json, "page_bytes", &map->page_bytes) ||
        !get_number_if_any(reader, map->json, "time_ns", &map->time_ns))
        return false;
    if (map->page_bytes == 0 || map->page_bytes > (uint64_t)1 << 40)
        return complain(reader, "'page_bytes' must be from 1 to 2^40");
    snprintf(reader->where, WHERE_MAX, "statistics: ");
    if (!get_number(reader, statistics, "requested_bytes", &map->requested_bytes) ||
        !get_number(reader, statistics, "reserved_bytes", &map->reserved_bytes) ||
        !get_number_if_any(reader, statistics, "requested_peak_bytes", &map->requested_peak_bytes) ||
        !get_number_if_any(reader, statistics, "reserved_peak_bytes", &map->reserved_peak_bytes))
        return false;
    reader->where[0] = '\0';
    return true;
}

/* The page that sum_pages() has reached, with its bytes in use and its idle bytes. */
struct page {
    uint64_t number, used_bytes, idle_bytes;
};

static void end_page(struct pool_map *map, struct page *page, uint64_t next)
{
    if (page->used_bytes && page->idle_bytes) {
        map->partly_used_pages++;
        map->partly_idle_bytes += page->idle_bytes;
    }
    *page = (struct page){.number = next};
}

static void add_to_page(struct pool_map *map, struct page *page, const struct pool_map_extent *extent,
                        uint64_t number)
{
    uint64_t page_begin = number * map->page_bytes, page_end = page_begin + map->page_bytes;
    uint64_t begin = extent->offset > page_begin ? extent->offset : page_begin;
    uint64_t end = extent->offset + extent->bytes;

    if (page->number != number)
        end_page(map, page, number);
    if (extent->state == POOL_MAP_LIVE || extent->state == POOL_MAP_IN_STITCH)
        page->used_bytes += (end < page_end ? end : page_end) - begin;
    else if (pool_map_has_memory(extent->state))
        page->idle_bytes += (end < page_end ? end : page_end) - begin;
}

/* Counts pages with both used and idle memory. It looks only at the first and the last page of each extent,
 * because only these can contain other extents too. */
static void sum_pages(struct pool_map *map, const struct pool_map_range *range)
{
    struct page page = {.number = 0};
    size_t i;

    for (i = 0; i < range->extent_count; i++) {
        const struct pool_map_extent *extent = &range->extents[i];
        uint64_t first = extent->offset / map->page_bytes;
        uint64_t last = (extent->offset + extent->bytes - 1) / map->page_bytes;

        add_to_page(map, &page, extent, first);
        if (last != first)
            add_to_page(map, &page, extent, last);
    }
    end_page(map, &page, 0);
}

static void sum_extents(struct pool_map *map, const struct pool_map_range *range)
{
    uint64_t run_bytes = 0;
    size_t i;

    for (i = 0; i < range->extent_count; i++) {
        const struct pool_map_extent *extent = &range->extents[i];

        map->state_bytes[extent->state] += extent->bytes;
        map->state_extents[extent->state]++;
        if (extent->state == POOL_MAP_LIVE && extent->bytes > extent->requested_bytes)
            map->rounding_bytes += extent->bytes - extent->requested_bytes;
        run_bytes = extent->state == POOL_MAP_FREE ? run_bytes + extent->bytes : 0;
        if (run_bytes > map->largest_free_bytes)
            map->largest_free_bytes = run_bytes;
    }
}

struct pool_map *pool_map_read(const char *path, char error[POOL_MAP_ERROR_MAX])
{
    struct pool_map *map = calloc(1, sizeof *map);
    struct reader reader = {.map = map, .path = path, .error = error};
    json_error_t json_error;
    size_t i;

    if (!map) {
        complain(&reader, "out of host memory");
        return NULL;
    }
    map->json = strcmp(path, "-") != 0 ? json_load_file(path, 0, &json_error) : json_loadf(stdin, 0, &json_error);
    if (!map->json) {
        if (json_error.line > 0)
            complain(&reader, "line %d: %s", json_error.line, json_error.text);
        else
            complain(&reader, "%s", json_error.text);
    } else if (read_head(&reader) && read_shares(&reader, "streams", &map->streams, &map->stream_count) &&
               read_shares(&reader, "tags", &map->tags, &map->tag_count) && read_ranges(&reader)) {
        for (i = 0; i < map->range_count; i++) {
            sum_extents(map, &map->ranges[i]);
            if (!map->ranges[i].stitched)
                sum_pages(map, &map->ranges[i]);
        }
        return map;
    }
    pool_map_destroy(map);
    return NULL;
}

void pool_map_destroy(struct pool_map *map)
{
    size_t i;

    if (!map)
        return;
    for (i = 0; i < map->range_count; i++)
        free(map->ranges[i].extents);
    free(map->ranges);
    free(map->streams);
    free(map->tags);
    json_decref(map->json);
    free(map);
}
