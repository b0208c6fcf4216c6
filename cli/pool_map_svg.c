/*
 * pool_map_svg.c - draws a pool as SVG: one self-contained file that a browser shows in light or dark colours.
 *
 * The picture cuts each range of addresses into rows of equal length and draws them to scale. Lines mark the pages
 * if they are far enough apart. Adjacent pieces of one state that are too narrow to be seen are joined. A live
 * block has the colour of its tag; a larger block is darker. A stitched block is hatched, and so is the memory
 * that it uses.
 */
#include "pool_map.h"
#include "svg.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Lengths in pixels. */
enum {
    MAP_LEFT = 120, /* room for the addresses to the left of the rows */
    MAP_WIDTH = 1024,
    MARGIN = 20,
    ROW_HEIGHT = 16,
    ROW_STEP = 18,
    LINE_STEP = 18,   /* distance between two lines of text */
    PAGE_MARK_MIN = 4 /* smallest distance between two marks of pages */
};

enum { ROWS_MAX = 64, SHARES_MAX = 32, TAG_MAX = 80, HUES = 8, SHADES = 4 };

/* Widths in pixels. Pieces narrower than narrow are joined. A block at least as wide as block_min has an edge, and
 * a block at least as wide as label_min has a label with its size. */
static const double narrow = 0.4, block_min = 4, label_min = 64;

/* The darkest shade of each hue; lighter shades are mixed with white. People with colour blindness can tell these
 * hues apart. */
static const unsigned char hue_rgb[HUES + 1][3] = {
    {0xe6, 0x9f, 0x00}, {0x2f, 0xae, 0x86}, {0xd9, 0x82, 0xb0}, {0x8c, 0x8f, 0xd9}, {0xc9, 0xbb, 0x2a},
    {0xe0, 0x7b, 0x4a}, {0x6f, 0xb7, 0x4d}, {0xb0, 0x8d, 0x6a}, {0x56, 0x9a, 0xd8} /* for blocks without a tag */};

/* The largest block size of each shade except the last. */
static const uint64_t shade_bytes[SHADES - 1] = {64 << 10, 1 << 20, 16 << 20};
static const char *const shade_texts[SHADES] = {"up to 64 KiB", "1 MiB", "16 MiB", "more"};

struct picture {
    const struct pool_map *map;
    struct pool_map_rows *rows; /* the rows of each range */
    FILE *file;
    unsigned y; /* vertical position of the next element */
};

/* Pieces of one state that are drawn as one rectangle. */
struct group {
    uint64_t begin, end; /* offsets in the range */
    uint64_t pieces;
    const struct pool_map_extent *extent; /* the extent of the first piece */
};

/* ---- text ---- */

/* Writes a text. If it is longer than the rows, it is shortened. */
static void write_text(struct picture *picture, unsigned x, const char *style, const char *text)
{
    enum svg_size size = !strcmp(style, "title") ? SVG_TITLE : SVG_TEXT;

    svg_write_text_within(picture->file, x, picture->y, style, text, size, MAP_LEFT + MAP_WIDTH - (double)x);
}

static unsigned shade_of(uint64_t bytes)
{
    unsigned shade = 0;

    while (shade < SHADES - 1 && bytes > shade_bytes[shade])
        shade++;
    return shade;
}

static unsigned hue_of(int tag)
{
    return tag == POOL_MAP_NO_TAG ? HUES : (unsigned)tag % HUES;
}

/* Writes the CSS class of an extent: for a live block its hue and shade, otherwise the name of its state. */
static void write_class(FILE *file, const struct pool_map_extent *extent)
{
    if (extent->state == POOL_MAP_LIVE)
        fprintf(file, "h%us%u", hue_of(extent->tag), shade_of(extent->bytes));
    else
        fputs(pool_map_state_names[extent->state], file);
}

/* ---- the sheet of styles ---- */

static void write_shades(FILE *file)
{
    static const unsigned white_percent[SHADES] = {66, 44, 22, 0};
    unsigned hue, shade, i, rgb[3];

    for (hue = 0; hue <= HUES; hue++)
        for (shade = 0; shade < SHADES; shade++) {
            for (i = 0; i < 3; i++)
                rgb[i] = (hue_rgb[hue][i] * (100 - white_percent[shade]) + 255 * white_percent[shade]) / 100;
            fprintf(file, ".h%us%u{fill:#%02x%02x%02x}\n", hue, shade, rgb[0], rgb[1], rgb[2]);
        }
}

static void write_styles(FILE *file)
{
    fputs("<style>\n"
          "text{font:12px sans-serif;fill:#1f2328}\n"
          ".title{font-size:18px;font-weight:bold}\n"
          ".head{font-size:14px;font-weight:bold}\n"
          ".address{font-family:monospace;font-size:11px;text-anchor:end;fill:#59636e}\n"
          ".quiet{fill:#59636e}\n"
          ".label{font-size:11px;fill:#101418;pointer-events:none}\n"
          ".paper{fill:#ffffff}\n"
          ".frame{fill:none;stroke:#8c959f;stroke-width:0.5}\n"
          ".block{stroke:#ffffff;stroke-width:0.6}\n"
          ".page{stroke:#1f2328;stroke-opacity:0.35;stroke-width:0.5}\n"
          ".cached{fill:#c9d3b6}\n.free{fill:#dfe3e8}\n.hole{fill:#ffffff}\n.pending{fill:url(#pending)}\n"
          ".stale{fill:url(#stale)}\n.stale-line{stroke:#aab2bb;stroke-width:1}\n"
          ".in_stitch{fill:url(#in_stitch)}\n.in_stitch-paper{fill:#c3dcf1}\n.stitched{fill:url(#stitched);"
          "pointer-events:none}\n"
          ".stitch-line{stroke:#1f4e79;stroke-width:1}\n"
          ".dormant{fill:url(#dormant)}\n.dormant-dot{fill:#7d93a8}\n"
          ".pending-paper{fill:#f6e3c3}\n.pending-line{stroke:#b35900;stroke-width:1.5}\n",
          file);
    write_shades(file);
    fputs("@media (prefers-color-scheme: dark){\n"
          "text{fill:#e6edf3}\n.address,.quiet{fill:#9198a1}\n.label{fill:#101418}\n.paper,.hole{fill:#14181d}\n"
          ".block{stroke:#14181d}\n.page{stroke:#e6edf3}\n"
          ".stale-line{stroke:#59636e}\n.cached{fill:#66704f}\n.free{fill:#3a424b}\n.pending-paper{fill:#4d3a1d}\n"
          ".pending-line{stroke:#e8a23c}\n.in_stitch-paper{fill:#27435c}\n.stitch-line{stroke:#a9cdec}\n"
          ".dormant-dot{fill:#6d8296}\n"
          "}\n"
          "</style>\n",
          file);
    fputs("<defs><pattern id=\"pending\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
          "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" class=\"pending-paper\"/>"
          "<line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" class=\"pending-line\"/></pattern>"
          "<pattern id=\"stale\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
          "patternTransform=\"rotate(-45)\"><line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"5\" class=\"stale-line\"/>"
          "</pattern>"
          "<pattern id=\"in_stitch\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\" "
          "patternTransform=\"rotate(45)\"><rect width=\"8\" height=\"8\" class=\"in_stitch-paper\"/>"
          "<line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"8\" class=\"stitch-line\"/></pattern>"
          "<pattern id=\"stitched\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\" "
          "patternTransform=\"rotate(45)\"><line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"8\" "
          "class=\"stitch-line\"/></pattern>"
          "<pattern id=\"dormant\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
          "<circle cx=\"3\" cy=\"3\" r=\"1\" class=\"dormant-dot\"/></pattern></defs>\n",
          file);
}

/* ---- head: figures and legend ---- */

static void write_figures(struct picture *picture)
{
    const struct pool_map *map = picture->map;
    char text[256], a[TEXT_MAX], b[TEXT_MAX], c[TEXT_MAX], d[TEXT_MAX];
    int used;

    used = snprintf(text, sizeof text, "requested %s in %" PRIu64 " blocks, reserved %s",
                    text_bytes(a, map->requested_bytes), map->state_extents[POOL_MAP_LIVE],
                    text_bytes(b, map->reserved_bytes));
    if (map->requested_bytes)
        snprintf(text + used, sizeof text - (size_t)used, ", ratio %.4f",
                 (double)map->reserved_bytes / (double)map->requested_bytes);
    write_text(picture, MARGIN, "", text);
    picture->y += LINE_STEP;
    if (map->reserved_peak_bytes) {
        snprintf(text, sizeof text, "at most so far: requested %s, reserved %s",
                 text_bytes(a, map->requested_peak_bytes), text_bytes(b, map->reserved_peak_bytes));
        write_text(picture, MARGIN, "", text);
        picture->y += LINE_STEP;
    }
    snprintf(text, sizeof text,
             "largest free extent %s; %" PRIu64
             " pages of %s are partly used, %s in them idle; %s lost to rounding",
             text_bytes(a, map->largest_free_bytes), map->partly_used_pages, text_bytes(b, map->page_bytes),
             text_bytes(c, map->partly_idle_bytes), text_bytes(d, map->rounding_bytes));
    write_text(picture, MARGIN, "", text);
    picture->y += LINE_STEP;
}

/* Writes one entry of the legend and returns the x coordinate of the next one. */
static unsigned write_swatch(struct picture *picture, unsigned x, const char *style, const char *text)
{
    fprintf(picture->file,
            "<rect x=\"%u\" y=\"%u\" width=\"14\" height=\"14\" class=\"%s\"/>"
            "<rect x=\"%u\" y=\"%u\" width=\"14\" height=\"14\" class=\"frame\"/>\n",
            x, picture->y - 11, style, x, picture->y - 11);
    write_text(picture, x + 20, "", text);
    return x + 44 + 7 * (unsigned)strlen(text);
}

static void write_legend(struct picture *picture)
{
    static const char *const texts[POOL_MAP_STATE_COUNT] = {[POOL_MAP_LIVE] = "live",
                                                            [POOL_MAP_CACHED] = "kept for a stream",
                                                            [POOL_MAP_PENDING] = "waits for streams",
                                                            [POOL_MAP_FREE] = "free",
                                                            [POOL_MAP_IN_STITCH] = "used by stitched blocks",
                                                            [POOL_MAP_STALE] = "given up",
                                                            [POOL_MAP_DORMANT] = "stitched, not in use",
                                                            [POOL_MAP_HOLE] = "no memory"};
    const struct pool_map *map = picture->map;
    char text[128], style[16], size[TEXT_MAX];
    unsigned x = MARGIN, shade;
    int state;

    picture->y += 6;
    for (shade = 0; shade < SHADES; shade++) {
        snprintf(style, sizeof style, "h%us%u", hue_of(POOL_MAP_NO_TAG), shade);
        snprintf(text, sizeof text, "%s%s", shade == 0 ? "live, " : "", shade_texts[shade]);
        x = write_swatch(picture, x, style, text);
    }
    snprintf(text, sizeof text, "together %s", text_bytes(size, map->state_bytes[POOL_MAP_LIVE]));
    write_text(picture, x, "quiet", text);
    picture->y += LINE_STEP + 4;
    x = MARGIN;
    for (state = POOL_MAP_CACHED; state < POOL_MAP_STATE_COUNT; state++) {
        snprintf(text, sizeof text, "%s, %s", texts[state], text_bytes(size, map->state_bytes[state]));
        if (state == POOL_MAP_STALE) { /* the states after this begin a second line */
            picture->y += LINE_STEP + 4;
            x = MARGIN;
        }
        x = write_swatch(picture, x, pool_map_state_names[state], text);
    }
    picture->y += LINE_STEP;
}

/* ---- rows ---- */

static double pixels(uint64_t bytes, uint64_t row_bytes)
{
    return (double)bytes * (double)MAP_WIDTH / (double)row_bytes;
}

static void write_stack(FILE *file, const json_t *stack)
{
    size_t i;

    for (i = 0; i < json_array_size(stack); i++) {
        const char *frame = json_string_value(json_array_get(stack, i));

        fputs("\n  ", file);
        svg_write_escaped(file, frame ? frame : "?");
    }
}

static bool is_stitched(const struct pool_map_range *range, const struct pool_map_extent *extent)
{
    return range->stitched && extent->state != POOL_MAP_STALE && extent->state != POOL_MAP_HOLE;
}

/* Writes the tooltip of a group. */
static void write_tooltip(struct picture *picture, const struct pool_map_range *range, const struct group *group)
{
    const struct pool_map_extent *extent = group->extent;
    FILE *file = picture->file;
    char size[TEXT_MAX];

    fputs("<title>", file);
    if (group->pieces > 1) {
        fprintf(file, "%" PRIu64 " extents, %s, together %s at offset %" PRIu64 " of ", group->pieces,
                pool_map_state_names[extent->state], text_bytes(size, group->end - group->begin), group->begin);
        svg_write_escaped(file, range->name);
        fputs("</title>", file);
        return;
    }
    fprintf(file, "%s%s, %s (%" PRIu64 ") at offset %" PRIu64 " of ",
            is_stitched(range, extent) ? "stitched, " : "", pool_map_state_names[extent->state],
            text_bytes(size, extent->bytes), extent->bytes, extent->offset);
    svg_write_escaped(file, range->name);
    fprintf(file, ", address 0x%" PRIx64, range->base + extent->offset);
    if (extent->state == POOL_MAP_LIVE)
        fprintf(file, "\nrequested %" PRIu64 " bytes", extent->requested_bytes);
    if (extent->stream)
        fprintf(file, "\nstream %" PRIu64, extent->stream);
    if (extent->tag != POOL_MAP_NO_TAG) {
        fputs("\ntag ", file);
        svg_write_escaped(file, picture->map->tags[extent->tag].name);
    }
    write_stack(file, extent->stack);
    fputs("</title>", file);
}

/* Writes the label of a block. Three dots mean that the block began in an earlier row. */
static void write_label(struct picture *picture, const struct group *group, double x, double width)
{
    const struct pool_map_extent *extent = group->extent;
    const char *dots = group->begin > extent->offset ? "\u2026 " : "";
    char size[TEXT_MAX], text[80];

    text_bytes(size, extent->bytes);
    if (width >= 2 * label_min && extent->stream)
        snprintf(text, sizeof text, "%s%s, stream %" PRIu64, dots, size, extent->stream);
    else
        snprintf(text, sizeof text, "%s%s", dots, size);
    fprintf(picture->file, "<text x=\"%.2f\" y=\"%u\" class=\"label\">%s</text>\n", x + 4, picture->y + 12, text);
}

static void write_group(struct picture *picture, const struct pool_map_range *range,
                        const struct pool_map_row *row, uint64_t row_bytes, const struct group *group)
{
    double x = (double)MAP_LEFT + pixels(group->begin - row->begin, row_bytes);
    double width = pixels(group->end - group->begin, row_bytes);
    bool block = group->extent->state == POOL_MAP_LIVE && width >= block_min;

    if (group->extent->state == POOL_MAP_HOLE)
        return;
    fprintf(picture->file, "<rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%d\" class=\"", x, picture->y,
            width < narrow ? narrow : width, ROW_HEIGHT);
    write_class(picture->file, group->extent);
    fputs(block ? " block\">" : "\">", picture->file);
    write_tooltip(picture, range, group);
    fputs("</rect>\n", picture->file);
    if (block && range->stitched)
        fprintf(picture->file, "<rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%d\" class=\"stitched\"/>\n", x,
                picture->y, width, ROW_HEIGHT);
    if (width >= label_min && group->pieces == 1 && group->extent->state == POOL_MAP_LIVE)
        write_label(picture, group, x, width);
}

/* Draws the pieces of a row. Adjacent narrow pieces of one state become one group. */
static void write_pieces(struct picture *picture, const struct pool_map_range *range,
                         const struct pool_map_row *row, uint64_t row_bytes, size_t *index)
{
    const struct pool_map_extent *extent;
    struct group group = {.pieces = 0};
    uint64_t at = row->begin, end;

    while (pool_map_next_piece(range, row, index, at, &end, &extent)) {
        bool join = group.pieces > 0 && group.extent->state == extent->state &&
                    pixels(group.end - group.begin, row_bytes) < narrow;

        if (group.pieces > 0 && !join)
            write_group(picture, range, row, row_bytes, &group);
        if (!join)
            group = (struct group){at, at, 0, extent};
        group.end = at = end;
        group.pieces++;
    }
    if (group.pieces > 0)
        write_group(picture, range, row, row_bytes, &group);
}

/* Draws marks between pages if they are far enough apart. */
static void write_page_marks(struct picture *picture, uint64_t row_bytes)
{
    uint64_t pages = row_bytes / picture->map->page_bytes, page;

    if (pages < 2 || MAP_WIDTH / pages < PAGE_MARK_MIN)
        return;
    fputs("<path class=\"page\" d=\"", picture->file);
    for (page = 1; page < pages; page++)
        fprintf(picture->file, "M%.2f %uv3", (double)MAP_LEFT + pixels(page * picture->map->page_bytes, row_bytes),
                picture->y + ROW_HEIGHT - 3);
    fputs("\"/>\n", picture->file);
}

static void write_row(struct picture *picture, const struct pool_map_range *range, const struct pool_map_row *row,
                      uint64_t row_bytes, size_t *index)
{
    uint64_t left_bytes = range->bytes > row->begin ? range->bytes - row->begin : 0;
    double width = pixels(left_bytes < row_bytes ? left_bytes : row_bytes, row_bytes);
    char size[TEXT_MAX];

    if (row->gap) {
        fprintf(picture->file,
                "<text x=\"%d\" y=\"%u\" class=\"quiet\">&#8942; %s of addresses %s &#8942;</text>\n", MAP_LEFT,
                picture->y + 12, text_bytes(size, row->end - row->begin), pool_map_gap_text(range));
        picture->y += ROW_STEP;
        return;
    }
    fprintf(picture->file, "<text x=\"%d\" y=\"%u\" class=\"address\">0x%012" PRIx64 "</text>\n", MAP_LEFT - 8,
            picture->y + 12, range->base + row->begin);
    write_pieces(picture, range, row, row_bytes, index);
    fprintf(picture->file, "<rect x=\"%d\" y=\"%u\" width=\"%.2f\" height=\"%d\" class=\"frame\"/>\n", MAP_LEFT,
            picture->y, width, ROW_HEIGHT);
    write_page_marks(picture, row_bytes);
    picture->y += ROW_STEP;
}

static void write_range(struct picture *picture, const struct pool_map_range *range,
                        const struct pool_map_rows *rows)
{
    char text[512], size[TEXT_MAX], row_size[TEXT_MAX];
    size_t index = 0, i;

    picture->y += LINE_STEP;
    snprintf(text, sizeof text, "%s: %s of addresses from 0x%" PRIx64 ", a row is %s%s", range->name,
             text_bytes(size, range->bytes), range->base, text_bytes(row_size, rows->row_bytes),
             range->stitched ? "; memory of the ranges above, mapped once more" : "");
    write_text(picture, MARGIN, "head", text);
    picture->y += 10;
    for (i = 0; i < rows->row_count; i++)
        write_row(picture, range, &rows->rows[i], rows->row_bytes, &index);
    picture->y += 4;
}

/* ---- streams and tags ---- */

static void write_share(struct picture *picture, const struct pool_map_share *share, int tag)
{
    char text[512], style[16], stream[32] = "no stream", a[TEXT_MAX], b[TEXT_MAX];

    if (share->number)
        snprintf(stream, sizeof stream, "stream %" PRIu64, share->number);
    if (share->name)
        snprintf(text, sizeof text, "%.*s%s: %s in %" PRIu64 " blocks", TAG_MAX,
                 share->name[0] ? share->name : "(no tag)", strlen(share->name) > TAG_MAX ? "\u2026" : "",
                 text_bytes(a, share->requested_bytes), share->live_blocks);
    else
        snprintf(text, sizeof text, "%s: %s in %" PRIu64 " blocks, %s kept for it", stream,
                 text_bytes(a, share->requested_bytes), share->live_blocks, text_bytes(b, share->cached_bytes));
    if (share->name) {
        snprintf(style, sizeof style, "h%us%d", hue_of(share->name[0] ? tag : POOL_MAP_NO_TAG), SHADES - 1);
        write_swatch(picture, MARGIN, style, text);
    } else {
        write_text(picture, MARGIN, "", text);
    }
    picture->y += LINE_STEP;
}

static void write_shares(struct picture *picture, const char *title, const struct pool_map_share *shares,
                         size_t count)
{
    char text[64];
    size_t i;

    if (count == 0)
        return;
    picture->y += LINE_STEP;
    write_text(picture, MARGIN, "head", title);
    picture->y += LINE_STEP;
    for (i = 0; i < count && i < SHARES_MAX; i++)
        write_share(picture, &shares[i], (int)i);
    if (count > SHARES_MAX) {
        snprintf(text, sizeof text, "and %zu more", count - SHARES_MAX);
        write_text(picture, MARGIN, "quiet", text);
        picture->y += LINE_STEP;
    }
}

/* ---- the whole picture ---- */

static unsigned shares_height(size_t count)
{
    return count == 0
               ? 0
               : (unsigned)(2 + (count < SHARES_MAX ? count : SHARES_MAX) + (count > SHARES_MAX)) * LINE_STEP;
}

/* Computes the height of the picture, which the first line of the file contains. */
static unsigned picture_height(const struct picture *picture)
{
    const struct pool_map *map = picture->map;
    unsigned height =
        2 * MARGIN + 9 * LINE_STEP + 4 + shares_height(map->stream_count) + shares_height(map->tag_count);
    size_t i;

    for (i = 0; i < map->range_count; i++)
        height += LINE_STEP + 14 + (unsigned)picture->rows[i].row_count * ROW_STEP;
    return height;
}

static void write_picture(struct picture *picture)
{
    const struct pool_map *map = picture->map;
    unsigned width = MAP_LEFT + MAP_WIDTH + MARGIN, height = picture_height(picture);
    char text[512];
    size_t i;

    fprintf(picture->file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" viewBox=\"0 0 %u %u\">\n",
            width, height, width, height);
    write_styles(picture->file);
    fprintf(picture->file, "<rect width=\"%u\" height=\"%u\" class=\"paper\"/>\n", width, height);
    picture->y = MARGIN + 12;
    snprintf(text, sizeof text, "Pool %s on %s, %s memory", map->name, map->device, map->kind);
    write_text(picture, MARGIN, "title", text);
    picture->y += LINE_STEP + 6;
    write_figures(picture);
    write_legend(picture);
    for (i = 0; i < map->range_count; i++)
        write_range(picture, &map->ranges[i], &picture->rows[i]);
    write_shares(picture, "By stream", map->streams, map->stream_count);
    write_shares(picture, "By tag", map->tags, map->tag_count);
    fputs("</svg>\n", picture->file);
}

bool pool_map_write_svg(const struct pool_map *map, FILE *file)
{
    struct picture picture = {.map = map, .file = file};
    uint64_t longest_row_bytes = map->page_bytes;
    bool fine = true;
    size_t i;

    picture.rows = calloc(map->range_count + 1, sizeof *picture.rows);
    if (!picture.rows)
        return false;
    for (i = 0; i < map->range_count && fine; i++) {
        uint64_t least_bytes = map->ranges[i].stitched ? longest_row_bytes : map->page_bytes;

        /* Ranges of stitched blocks come last. Their rows have at least as many bytes as those of the other
         * ranges, whose memory they use. */
        fine = pool_map_make_rows(&map->ranges[i], least_bytes, ROWS_MAX, &picture.rows[i]);
        if (fine && picture.rows[i].row_bytes > longest_row_bytes)
            longest_row_bytes = picture.rows[i].row_bytes;
    }
    if (fine)
        write_picture(&picture);
    for (i = 0; i < map->range_count; i++)
        free(picture.rows[i].rows);
    free(picture.rows);
    return fine;
}
