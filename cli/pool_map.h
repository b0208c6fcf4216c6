/*
 * pool_map.h - what the parts of "leat pool-map" share: the snapshot of a pool as read from its JSON, and the rows
 * that its addresses are drawn in.
 */
#ifndef CLI_POOL_MAP_H
#define CLI_POOL_MAP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What a piece of addresses is. */
enum pool_map_state {
    POOL_MAP_LIVE,      /* a block of the program's */
    POOL_MAP_CACHED,    /* freed, kept for the stream that freed it */
    POOL_MAP_PENDING,   /* freed, waiting for other streams */
    POOL_MAP_FREE,      /* memory that nobody has */
    POOL_MAP_IN_STITCH, /* memory that a stitched block is using, at addresses of its own */
    POOL_MAP_STALE,     /* addresses that were given up, and a stream may still use them */
    POOL_MAP_DORMANT,   /* addresses of a stitched block that is not in use; its memory is idle where it belongs */
    POOL_MAP_HOLE,      /* addresses without memory */
    POOL_MAP_STATE_COUNT
};

/* Returns true if there is memory that can be used at these addresses now. Rows without any are not drawn. */
static inline bool pool_map_has_memory(enum pool_map_state state)
{
    return state != POOL_MAP_HOLE && state != POOL_MAP_STALE && state != POOL_MAP_DORMANT;
}

extern const char *const pool_map_state_names[POOL_MAP_STATE_COUNT];

enum { POOL_MAP_NO_TAG = -1, POOL_MAP_ERROR_MAX = 512 };

/* Texts belong to the snapshot's JSON. */
struct pool_map_extent {
    uint64_t offset, bytes; /* from the base of its range */
    enum pool_map_state state;
    uint64_t requested_bytes; /* of live blocks */
    uint64_t stream;          /* its number; 0: none */
    int tag;                  /* index of tags */
    const json_t *stack;      /* call stack as a list of texts, or NULL */
};

struct pool_map_range {
    const char *name;
    uint64_t base, bytes;
    bool stitched;                   /* addresses of stitched blocks, whose memory belongs to other ranges */
    struct pool_map_extent *extents; /* in address order, without gaps */
    size_t extent_count;
};

/* Why rows are left out. */
static inline const char *pool_map_gap_text(const struct pool_map_range *range)
{
    return range->stitched ? "not in use" : "without memory";
}

struct pool_map_share {
    const char *name; /* of a tag */
    uint64_t number;  /* of a stream */
    uint64_t requested_bytes, live_blocks, cached_bytes;
};

struct pool_map {
    json_t *json;
    const char *name, *device, *kind;
    uint64_t page_bytes, time_ns;
    uint64_t requested_bytes, reserved_bytes, requested_peak_bytes, reserved_peak_bytes;
    struct pool_map_range *ranges;
    size_t range_count;
    struct pool_map_share *streams, *tags;
    size_t stream_count, tag_count;

    /* What follows from the extents. */
    uint64_t state_bytes[POOL_MAP_STATE_COUNT], state_extents[POOL_MAP_STATE_COUNT];
    uint64_t largest_free_bytes; /* one after the other, in state FREE */
    uint64_t partly_used_pages;  /* pages that live blocks and idle memory share ... */
    uint64_t partly_idle_bytes;  /* ... and what is idle in them */
    uint64_t rounding_bytes;     /* that live blocks have beyond what was asked for */
};

/* ---- pool_map_read.c ---- */

/* The snapshot in a file, or NULL; error then says what is wrong with it. */
struct pool_map *pool_map_read(const char *path, char error[POOL_MAP_ERROR_MAX]);
void pool_map_destroy(struct pool_map *map);

/* ---- pool_map_rows.c ---- */

/* One row of addresses, or, as a gap, the rows of addresses without memory that are left out here. */
struct pool_map_row {
    uint64_t begin, end; /* offsets */
    bool gap;
};

struct pool_map_rows {
    uint64_t row_bytes; /* addresses in one row: smallest_row_bytes times a power of two */
    struct pool_map_row *rows;
    size_t row_count; /* gaps count as well */
};

/* Cuts a range into at most rows_max rows and the gaps between them. False when memory is short. */
bool pool_map_make_rows(const struct pool_map_range *range, uint64_t smallest_row_bytes, size_t rows_max,
                        struct pool_map_rows *rows);

/* The piece of a row that begins at offset at: where it ends, and the extent that it is of. False at the end of
 * the row. *index is 0 for the first row of a range and goes on from piece to piece and from row to row. */
bool pool_map_next_piece(const struct pool_map_range *range, const struct pool_map_row *row, size_t *index,
                         uint64_t at, uint64_t *end, const struct pool_map_extent **extent);

/* ---- pool_map_svg.c, pool_map_text.c, pool_map_json.c ---- */

/* False when memory is short; what could not be written is seen by the file's error mark. */
bool pool_map_write_svg(const struct pool_map *map, FILE *file);
bool pool_map_write_text(const struct pool_map *map, FILE *file);
bool pool_map_write_json(const struct pool_map *map, FILE *file);

#endif
