/*
 * pool_map_json.c - writes the sums of a snapshot as JSON: the figures that the picture of "leat pool-map" shows
 * as text.
 */
#include "pool_map.h"
#include "text_json.h"

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *states_json(const struct pool_map *map)
{
    json_t *states = json_object();

    for (unsigned i = 0; i < POOL_MAP_STATE_COUNT; i++)
        json_object_set_new(states, pool_map_state_names[i],
                            json_pack("{s:o, s:o}", "bytes", number(map->state_bytes[i]), "extents",
                                      number(map->state_extents[i])));
    return states;
}

/* Returns the figures of streams or of tags as JSON. named: these are tags, which have names; streams have
 * numbers. */
static json_t *shares_json(const struct pool_map_share *shares, size_t count, bool named)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:o}", named ? "tag" : "stream",
                                              named ? text_json(shares[i].name) : number(shares[i].number),
                                              "requested_bytes", number(shares[i].requested_bytes), "live_blocks",
                                              number(shares[i].live_blocks), "cached_bytes",
                                              number(shares[i].cached_bytes)));
    return list;
}

static json_t *ranges_json(const struct pool_map *map)
{
    json_t *list = json_array();

    for (size_t i = 0; i < map->range_count; i++) {
        const struct pool_map_range *range = &map->ranges[i];

        json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:b, s:o}", "name", text_json(range->name), "base",
                                              number(range->base), "bytes", number(range->bytes), "stitched",
                                              range->stitched, "extents", number(range->extent_count)));
    }
    return list;
}

bool pool_map_write_json(const struct pool_map *map, FILE *file)
{
    json_t *json = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "pool",
        text_json(map->name), "device", text_json(map->device), "kind", text_json(map->kind), "requested_bytes",
        number(map->requested_bytes), "reserved_bytes", number(map->reserved_bytes), "requested_peak_bytes",
        number(map->requested_peak_bytes), "reserved_peak_bytes", number(map->reserved_peak_bytes),
        "largest_free_bytes", number(map->largest_free_bytes), "partly_used_pages", number(map->partly_used_pages),
        "partly_idle_bytes", number(map->partly_idle_bytes), "rounding_bytes", number(map->rounding_bytes),
        "states", states_json(map), "streams", shares_json(map->streams, map->stream_count, false), "tags",
        shares_json(map->tags, map->tag_count, true), "ranges", ranges_json(map));

    if (!json)
        return false;
    /* Ignore the result, because the caller checks by ferror(). */
    (void)json_dumpf(json, file, JSON_INDENT(2));
    fputc('\n', file);
    json_decref(json);
    return true;
}
