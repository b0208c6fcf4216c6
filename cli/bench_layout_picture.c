/*
 * bench_layout_picture.c - draws all cases of the group "layout" as SVG: a panel for each suite and element size,
 * a column for each case. The height of a dot is the share of a plain copy's rate that leat, or another program of
 * the record, reaches. It reads the record as JSON, so that a new run and a stored record give the same picture.
 */
#include "bench_layout.h"
#include "bench_report.h"
#include "cli.h"
#include "svg.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Lengths in pixels. */
enum {
    HEAD = 142, /* height of the title, the description and the legend */
    WIDTH_MIN = 1240,
    AXIS_LEFT = 40,
    PANEL_HEIGHT = 150,
    PANEL_HEAD = 24,
    PANEL_GAP = 18,
    COLUMN = 9, /* width of the column that shows one case */
    COLUMNS_MIN = 12
};

enum { PANELS_MAX = 96 };

/* The largest share that fits in a panel. It is above 1, because broadcasts read little and are therefore faster
 * than a plain copy. */
static const double TOP = 1.25;

struct panel {
    const char *part;
    json_int_t element_bytes;
    unsigned cases;
    unsigned x, y; /* upper left corner of the frame */
};

struct picture {
    FILE *file;
    const json_t *rows;
    struct panel panels[PANELS_MAX];
    unsigned panel_count;
    unsigned left_out; /* number of cases in panels for which there was no room */
    unsigned width, height;
    bool has_peer[LAYOUT_PEER_COUNT];
};

/* Returns true for the row of a case. Only such rows have the case's arguments; rows of means and of the ladder do
 * not. */
static bool is_case(const json_t *row)
{
    return !strcmp(record_text(row, "group"), "layout") && json_object_get(row, "arguments") &&
           isfinite(record_number(row, "share_of_copy"));
}

static bool is_in(const struct panel *panel, const json_t *row)
{
    return is_case(row) && !strcmp(record_text(row, "part"), panel->part) &&
           json_integer_value(json_object_get(row, "element_bytes")) == panel->element_bytes;
}

/* Counts the cases of each panel, in the order in which they were measured. */
static void find_panels(struct picture *picture)
{
    size_t index;
    const json_t *row;
    unsigned i;

    json_array_foreach(picture->rows, index, row)
    {
        if (!is_case(row))
            continue;
        for (i = 0; i < LAYOUT_PEER_COUNT; i++)
            picture->has_peer[i] = picture->has_peer[i] || isfinite(record_number(row, layout_peers[i].share_key));
        for (i = 0; i < picture->panel_count; i++)
            if (is_in(&picture->panels[i], row))
                break;
        if (i == PANELS_MAX) {
            picture->left_out++;
            continue;
        }
        if (i == picture->panel_count)
            picture->panels[picture->panel_count++] =
                (struct panel){.part = record_text(row, "part"),
                               .element_bytes = json_integer_value(json_object_get(row, "element_bytes"))};
        picture->panels[i].cases++;
    }
}

static unsigned panel_width(const struct panel *panel)
{
    return COLUMN * (panel->cases > COLUMNS_MIN ? panel->cases : COLUMNS_MIN);
}

/* Places the panels from left to right, in as many lines as they need. */
static void place_panels(struct picture *picture)
{
    unsigned x = SVG_MARGIN, y = HEAD, i;

    picture->width = WIDTH_MIN;
    for (i = 0; i < picture->panel_count; i++) {
        unsigned width = 2 * SVG_MARGIN + AXIS_LEFT + panel_width(&picture->panels[i]);

        picture->width = width > picture->width ? width : picture->width;
    }
    for (i = 0; i < picture->panel_count; i++) {
        unsigned width = AXIS_LEFT + panel_width(&picture->panels[i]);

        if (x > SVG_MARGIN && x + width > picture->width - SVG_MARGIN) {
            x = SVG_MARGIN;
            y += PANEL_HEAD + PANEL_HEIGHT + PANEL_GAP;
        }
        picture->panels[i].x = x + AXIS_LEFT;
        picture->panels[i].y = y + PANEL_HEAD;
        x += width + PANEL_GAP;
    }
    picture->height = y + PANEL_HEAD + PANEL_HEIGHT + SVG_MARGIN;
}

/* ---- the head ---- */

/* The hue of leat, then the hues of the other programs. */
static const struct svg_hue hues[LAYOUT_PEER_COUNT + 1] = {
    {"#1f6fc4", "#62a8ee"}, {"#c4421f", "#ee8562"}, {"#1a7f5a", "#3fbf8f"}};

/* Writes one entry of the legend and returns the x coordinate of the next one. */
static unsigned write_sample(FILE *file, unsigned x, unsigned y, unsigned hue, const char *text)
{
    fprintf(file, "<circle cx=\"%u\" cy=\"%u\" r=\"3.2\" class=\"%s k%u\"/>\n", x + 4, y - 4,
            hue ? "hollow" : "dot", hue);
    svg_write_text(file, x + 12, y, "", text);
    return x + 34 + 7 * (unsigned)strlen(text);
}

static void write_head(struct picture *picture, const json_t *record)
{
    const json_t *device = json_object_get(record, "device");
    const json_t *driver = json_object_get(record, "driver");
    unsigned x = SVG_MARGIN, y, i;
    char title[512], machine[512], marks[256];

    snprintf(title, sizeof title, "Copies between layouts on %s, %s, driver %s %s", record_text(device, "name"),
             record_text(device, "model"), record_text(driver, "name"), record_text(driver, "version"));
    snprintf(machine, sizeof machine, "leat %s, %s; %s", record_text(record, "version"),
             record_text(record, "date"), record_text(record, "command"));
    snprintf(
        marks, sizeof marks,
        "A dash is the bound: 32-byte sectors that must be moved. A triangle or an angle at the upper edge is a "
        "figure or a bound above the panel.");
    if (picture->left_out)
        snprintf(marks + strlen(marks), sizeof marks - strlen(marks), " %u cases of further suites are not drawn.",
                 picture->left_out);
    y = svg_write_head(picture->file, picture->width, title,
                       (const char *const[]){machine,
                                             "A column is a case, its height the share of the rate at which as "
                                             "many bytes are plainly copied there; "
                                             "medians.",
                                             marks, NULL});
    x = write_sample(picture->file, x, y, 0, "leat");
    for (i = 0; i < LAYOUT_PEER_COUNT; i++)
        if (picture->has_peer[i])
            x = write_sample(picture->file, x, y, i + 1, layout_peers[i].name);
}

/* ---- a panel ---- */

static double height_of(const struct panel *panel, double share)
{
    return panel->y + (double)PANEL_HEIGHT * (1 - fmin(share, TOP) / TOP);
}

static void write_frame(struct picture *picture, const struct panel *panel)
{
    unsigned width = panel_width(panel), percent, shown;
    char text[256], size[TEXT_MAX];

    /* A narrow panel has room only for the suite's name. A tooltip shows the whole title. */
    shown = width > 300 ? (unsigned)strlen(panel->part) : (unsigned)strcspn(panel->part, ":");
    text_bytes(size, (uint64_t)panel->element_bytes);
    fprintf(picture->file, "<text x=\"%u\" y=\"%u\" class=\"name\">", panel->x, panel->y - 7);
    if (panel->part[shown]) {
        fputs("<title>", picture->file);
        svg_write_escaped(picture->file, panel->part);
        fprintf(picture->file, ", %s</title>", size);
    }
    snprintf(text, sizeof text, "%.*s%s, %s", (int)shown, panel->part, panel->part[shown] ? "\u2026" : "", size);
    svg_write_escaped(picture->file, text);
    fputs("</text>\n", picture->file);
    for (percent = 0; percent <= 100; percent += 25) {
        snprintf(text, sizeof text, "%u %%", percent);
        svg_write_grid(picture->file, panel->x, height_of(panel, percent / 100.0), width, text);
    }
    svg_write_frame(picture->file, panel->x, panel->y, width, PANEL_HEIGHT);
}

static void write_dot(struct picture *picture, const struct panel *panel, double x, const json_t *row,
                      const char *name, unsigned hue, double share, double rate)
{
    const char *shape = hue ? "hollow" : "dot";
    bool clipped = share > TOP;
    char figure[TEXT_MAX];

    if (!isfinite(share))
        return;
    /* Draw a figure above TOP as a triangle at the panel's upper edge. */
    if (clipped)
        fprintf(picture->file, "<path d=\"M%.1f %.1fl3.5 7h-7z\" class=\"%s k%u\"><title>", x,
                height_of(panel, share), shape, hue);
    else
        fprintf(picture->file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" class=\"%s k%u\"><title>", x,
                height_of(panel, share), hue ? "2.4" : "3", shape, hue);
    svg_write_escaped(picture->file, name);
    fputs(": ", picture->file);
    svg_write_escaped(picture->file, record_text(row, "case"));
    fprintf(picture->file, ": %.1f %%, %s GB/s%s</title></%s>\n", 100 * share, text_figure(figure, rate),
            clipped ? ", above the panel" : "", clipped ? "path" : "circle");
}

/* Draws the bound of a case as a dash, or, if it is above TOP, as an angle at the panel's upper edge. bound: a
 * share of the plain copy's rate; NAN: the case has no bound. */
static void write_bound(struct picture *picture, const struct panel *panel, double x, double bound)
{
    if (isfinite(bound) && bound <= TOP)
        fprintf(picture->file, "<path d=\"M%.1f %.1fh6\" class=\"bound\"/>\n", x - 3, height_of(panel, bound));
    else if (isfinite(bound))
        fprintf(picture->file,
                "<path d=\"M%.1f %.1fl3 -3l3 3\" class=\"curve bound\"><title>the bound: %.1f %%, above the "
                "panel</title></path>\n",
                x - 3, (double)panel->y - 2, 100 * bound);
}

static void write_panel(struct picture *picture, const struct panel *panel)
{
    double x = panel->x + (double)COLUMN / 2;
    size_t index;
    const json_t *row;
    unsigned i;

    write_frame(picture, panel);
    json_array_foreach(picture->rows, index, row)
    {
        double bound = record_number(row, "bound") / record_number(row, "copy_gb_s");

        if (!is_in(panel, row))
            continue;
        write_bound(picture, panel, x, bound);
        for (i = 0; i < LAYOUT_PEER_COUNT; i++)
            write_dot(picture, panel, x, row, layout_peers[i].name, i + 1,
                      record_number(row, layout_peers[i].share_key), record_number(row, layout_peers[i].rate_key));
        write_dot(picture, panel, x, row, "leat", 0, record_number(row, "share_of_copy"),
                  record_number(row, "value"));
        x += (double)COLUMN;
    }
}

bool bench_layout_picture(const json_t *record, const char *path)
{
    static struct picture picture; /* too large for the stack */

    picture = (struct picture){.rows = json_object_get(record, "rows")};
    find_panels(&picture);
    if (!picture.panel_count) {
        cli_complain("bench: there is nothing to draw: the record has no cases of the group layout");
        return false;
    }
    place_panels(&picture);
    picture.file = svg_begin(path, picture.width, picture.height, hues, LAYOUT_PEER_COUNT + 1);
    if (!picture.file)
        return false;
    write_head(&picture, record);
    for (unsigned i = 0; i < picture.panel_count; i++)
        write_panel(&picture, &picture.panels[i]);
    return svg_end(picture.file, path);
}
