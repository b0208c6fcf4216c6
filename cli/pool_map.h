/*
 * pool_map.h - declares what the parts of "leat pool-map" share: the snapshot of a pool, which is read from JSON,
 * and the rows in which its addresses are drawn.
 */
#ifndef CLI_POOL_MAP_H
#define CLI_POOL_MAP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The state of a range of addresses. */
enum pool_map_state {
    POOL_MAP_LIVE,      /* a block that the program has allocated and not freed */
    POOL_MAP_CACHED,    /* a freed block that the pool keeps for the stream that freed it */
    POOL_MAP_PENDING,   /* a freed block that other streams may still use */
    POOL_MAP_FREE,      /* free memory */
    POOL_MAP_IN_STITCH, /* memory that a stitched block uses at its own addresses */
    POOL_MAP_STALE,     /* addresses that the pool has given up while a stream may still use them */
    POOL_MAP_DORMANT,   /* addresses of a stitched block that is not in use; the snapshot lists its memory as idle
                         * in the range to which the memory belongs */
    POOL_MAP_HOLE,      /* addresses without memory */
    POOL_MAP_STATE_COUNT
};

/* Returns true if the addresses have memory that can be used now. Rows without such memory are not drawn. */
static inline bool pool_map_has_memory(enum pool_map_state state)
{
    return state != POOL_MAP_HOLE && state != POOL_MAP_STALE && state != POOL_MAP_DORMANT;
}

extern const char *const pool_map_state_names[POOL_MAP_STATE_COUNT];

enum { POOL_MAP_NO_TAG = -1, POOL_MAP_ERROR_MAX = 512 };

/* A piece of a range in one state. Texts are owned by the snapshot's JSON. */
struct pool_map_extent {
    uint64_t offset, bytes; /* offset from the base of its range */
    enum pool_map_state state;
    uint64_t requested_bytes; /* bytes that the program requested; only for live blocks */
    uint64_t stream;          /* number of the stream to which it belongs; 0: none */
    int tag;                  /* index of tags, or POOL_MAP_NO_TAG */
    const json_t *stack;      /* call stack as a list of texts, or NULL */
};

struct pool_map_range {
    const char *name;
    uint64_t base, bytes;
    bool stitched;                   /* addresses of stitched blocks, whose memory belongs to other ranges */
    struct pool_map_extent *extents; /* in address order, without gaps */
    size_t extent_count;
};

/* Returns the reason in words why rows of the range are not drawn. */
static inline const char *pool_map_gap_text(const struct pool_map_range *range)
{
    return range->stitched ? "not in use" : "without memory";
}

struct pool_map_share {
    const char *name; /* name of a tag; NULL: this is a stream */
    uint64_t number;  /* number of a stream */
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

    /* Figures that are computed from the extents. */
    uint64_t state_bytes[POOL_MAP_STATE_COUNT], state_extents[POOL_MAP_STATE_COUNT];
    uint64_t largest_free_bytes; /* the largest sum of adjacent extents in state FREE */
    uint64_t partly_used_pages;  /* pages with both memory in use and idle memory */
    uint64_t partly_idle_bytes;  /* idle bytes in these pages */
    uint64_t rounding_bytes;     /* bytes of live blocks beyond the bytes that the program requested */
};

/* ---- pool_map_read.c ---- */

/* Reads the snapshot in a file (-: standard input). Returns NULL with error set if something is wrong with it. */
struct pool_map *pool_map_read(const char *path, char error[POOL_MAP_ERROR_MAX]);
void pool_map_destroy(struct pool_map *map);

/* ---- pool_map_rows.c ---- */

/* One row of addresses, or a gap, which replaces consecutive rows without memory. */
struct pool_map_row {
    uint64_t begin, end; /* offsets in the range */
    bool gap;
};

struct pool_map_rows {
    uint64_t row_bytes; /* addresses in one row: smallest_row_bytes times a power of two */
    struct pool_map_row *rows;
    size_t row_count; /* rows and gaps together */
};

/* Cuts a range into at most rows_max rows and the gaps between them. Returns false if memory is short. */
bool pool_map_make_rows(const struct pool_map_range *range, uint64_t smallest_row_bytes, size_t rows_max,
                        struct pool_map_rows *rows);

/* Finds the end of the piece of a row that begins at offset at, and the extent to which the piece belongs. Returns
 * false at the end of the row. Set *index to 0 before the first call for a range, and do not change it between the
 * calls for that range. */
bool pool_map_next_piece(const struct pool_map_range *range, const struct pool_map_row *row, size_t *index,
                         uint64_t at, uint64_t *end, const struct pool_map_extent **extent);

/* ---- pool_map_svg.c, pool_map_text.c, pool_map_json.c ---- */

/* Write the picture, or the sums as JSON. They return false if memory is short. The caller must check by ferror()
 * whether everything was written. */
bool pool_map_write_svg(const struct pool_map *map, FILE *file);
bool pool_map_write_text(const struct pool_map *map, FILE *file);
bool pool_map_write_json(const struct pool_map *map, FILE *file);

#endif
