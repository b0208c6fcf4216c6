/*
 * bench_copy_picture.c - draws the rates of the group "copy" over the size, as SVG: one panel for each direction,
 * one hue for each kind of memory, leat's line solid and the driver's dashed. It reads the record as JSON, so that
 * a new run and a stored record give the same picture.
 */
#include "bench_copy.h"
#include "bench_report.h"
#include "cli.h"
#include "svg.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Lengths in pixels. */
enum {
    HEAD = 128, /* height of the title, the description and the legend */
    AXIS_LEFT = 44,
    PANEL_WIDTH = 380,
    PANEL_HEIGHT = 300,
    PANEL_GAP = 24,
    FOOT = 58, /* height of the labels and the name of the x axis */
    WIDTH =
        2 * SVG_MARGIN + COPY_DIRECTION_COUNT * (AXIS_LEFT + PANEL_WIDTH) + (COPY_DIRECTION_COUNT - 1) * PANEL_GAP,
    HEIGHT = HEAD + SVG_LINE_STEP + PANEL_HEIGHT + FOOT + SVG_MARGIN
};

enum { POINTS_MAX = 64 };

/* The kinds of memory that are drawn, the uppermost line last. Other kinds have too few sizes, or their line would
 * cover one of these lines; the picture's head names them. */
static const struct {
    enum copy_memory memory;
    const char *text;
} drawn[] = {{COPY_PINNED, "pinned"},
             {COPY_FILE_WARM, "file mapping, in the page cache"},
             {COPY_HUGE, "pageable, huge pages"},
             {COPY_PAGEABLE, "pageable, 4 KiB pages"}};

enum { DRAWN_COUNT = sizeof drawn / sizeof drawn[0] };

struct point {
    uint64_t bytes;
    double leat, driver; /* GB/s; NAN: not measured */
};

struct line {
    struct point points[POINTS_MAX];
    unsigned count;
};

struct picture {
    FILE *file;
    struct line lines[COPY_DIRECTION_COUNT][DRAWN_COUNT];
    unsigned first, last; /* smallest and largest size, as powers of 2 */
    bool any, any_driver;
    char left_out[256]; /* names of the kinds of memory that the record has and the picture does not draw */
};

static void leave_out(struct picture *picture, const char *text)
{
    size_t used = strlen(picture->left_out);

    snprintf(picture->left_out + used, sizeof picture->left_out - used, "%s%s", used ? " and " : "", text);
}

/* Returns true if the record has sizes of this direction and kind of memory. */
static bool has_sizes(const json_t *rows, unsigned direction, unsigned memory)
{
    const json_t *row;
    size_t index;
    char name[96];

    snprintf(name, sizeof name, "%s, %s", copy_direction_texts[direction], copy_memory_texts[memory].label);
    json_array_foreach(rows, index, row)
    {
        if (!strcmp(record_text(row, "group"), "copy") && !strcmp(record_text(row, "case"), name) &&
            json_integer_value(json_object_get(row, "bytes")) > 0)
            return true;
    }
    return false;
}

/* Names the kinds of memory that the record has and the picture does not draw. */
static void find_left_out(struct picture *picture, const json_t *rows)
{
    unsigned memory, kind, direction;

    for (memory = 0; memory < COPY_MEMORY_COUNT; memory++) {
        bool there = false;

        for (kind = 0; kind < DRAWN_COUNT; kind++)
            if (drawn[kind].memory == memory)
                break;
        for (direction = 0; kind == DRAWN_COUNT && direction < COPY_DIRECTION_COUNT; direction++)
            there = there || has_sizes(rows, direction, memory);
        if (there)
            leave_out(picture, copy_memory_texts[memory].label);
    }
}

/* Collects the points of a line from the record. The case's name is the direction and the kind of memory. */
static void read_line(struct picture *picture, const json_t *rows, unsigned direction, unsigned kind)
{
    struct line *line = &picture->lines[direction][kind];
    const json_t *row;
    size_t index;
    char name[96];

    snprintf(name, sizeof name, "%s, %s", copy_direction_texts[direction],
             copy_memory_texts[drawn[kind].memory].label);
    json_array_foreach(rows, index, row)
    {
        struct point point = {(uint64_t)json_integer_value(json_object_get(row, "bytes")),
                              record_number(row, "value"), record_number(row, "driver_value")};

        if (strcmp(record_text(row, "group"), "copy") || strcmp(record_text(row, "case"), name) ||
            point.bytes == 0 || !isfinite(point.leat))
            continue;
        if (line->count == POINTS_MAX) {
            char text[64];

            snprintf(text, sizeof text, "sizes beyond the first %d of a line", POINTS_MAX);
            if (!strstr(picture->left_out, text))
                leave_out(picture, text);
            continue;
        }
        line->points[line->count++] = point;
        picture->any = true;
        picture->any_driver = picture->any_driver || isfinite(point.driver);
        if (log2((double)point.bytes) < picture->first)
            picture->first = (unsigned)floor(log2((double)point.bytes));
        if (log2((double)point.bytes) > picture->last)
            picture->last = (unsigned)ceil(log2((double)point.bytes));
    }
}

static bool has_kind(const struct picture *picture, unsigned kind)
{
    unsigned direction;

    for (direction = 0; direction < COPY_DIRECTION_COUNT; direction++)
        if (picture->lines[direction][kind].count > 0)
            return true;
    return false;
}

/* One hue for each kind of memory. The last hue is for the legend. */
static const struct svg_hue hues[DRAWN_COUNT + 1] = {{"#6e7781", "#9aa4ae"},
                                                     {"#b3720a", "#e8a23c"},
                                                     {"#1a7f5a", "#3fbf8f"},
                                                     {"#1f6fc4", "#62a8ee"},
                                                     {"#1f2328", "#e6edf3"}};

/* ---- the head ---- */

/* Writes one entry of the legend and returns the x coordinate of the next one. */
static unsigned write_sample(FILE *file, unsigned x, unsigned y, const char *style, unsigned hue, const char *text)
{
    fprintf(file, "<line x1=\"%u\" y1=\"%u\" x2=\"%u\" y2=\"%u\" class=\"curve%s k%u\"/>\n", x, y - 4, x + 28,
            y - 4, style, hue);
    svg_write_text(file, x + 34, y, "", text);
    return x + 56 + 7 * (unsigned)strlen(text);
}

static void write_head(struct picture *picture, const json_t *record)
{
    const json_t *device = json_object_get(record, "device");
    const json_t *driver = json_object_get(record, "driver");
    const json_t *host = json_object_get(record, "host");
    const char *library = strrchr(record_text(driver, "library"), '/');
    const char *peer = record_text(driver, "compared_with");
    unsigned x = SVG_MARGIN, y, kind;
    char title[512], machine[512], measure[512];

    snprintf(title, sizeof title, "Copies between host and %s, %s, driver %s %s%s%s%s",
             record_text(device, "name"), record_text(device, "model"), record_text(driver, "name"),
             record_text(driver, "version"), library ? " (" : "", library ? library + 1 : "", library ? ")" : "");
    snprintf(machine, sizeof machine, "%s, %d logical processors, %s; leat %s, %s", record_text(host, "cpu"),
             (int)json_integer_value(json_object_get(host, "cores")), record_text(host, "kernel"),
             record_text(record, "version"), record_text(record, "date"));
    snprintf(measure, sizeof measure,
             "From the call to its completion, medians; GB/s is 10^9 bytes a second%s%s%s%s",
             picture->any_driver ? "; driver: " : "", picture->any_driver ? peer : "",
             picture->left_out[0] ? "; not drawn: " : "", picture->left_out);
    y = svg_write_head(picture->file, WIDTH, title, (const char *const[]){machine, measure, NULL});
    for (kind = DRAWN_COUNT; kind-- > 0;)
        if (has_kind(picture, kind))
            x = write_sample(picture->file, x, y, "", kind, drawn[kind].text);
    if (picture->any_driver) {
        x = write_sample(picture->file, x + 30, y, "", DRAWN_COUNT, "leat");
        write_sample(picture->file, x, y, " driver", DRAWN_COUNT, "driver");
    }
}

/* ---- a panel ---- */

/* Returns a step for the axis such that it has four to eight steps. */
static double step_for(double most)
{
    double step = pow(10, floor(log10(most)));

    if (most / step < 2)
        return step / 4;
    return most / step < 4 ? step / 2 : step;
}

static double highest(const struct picture *picture, unsigned direction)
{
    double most = 0;
    unsigned kind, i;

    for (kind = 0; kind < DRAWN_COUNT; kind++)
        for (i = 0; i < picture->lines[direction][kind].count; i++) {
            const struct point *point = &picture->lines[direction][kind].points[i];

            most = fmax(most, fmax(point->leat, point->driver)); /* fmax() ignores NAN */
        }
    return most;
}

struct panel {
    struct picture *picture;
    unsigned x, y; /* upper left corner of the frame */
    double top;    /* GB/s */
};

static double panel_x(const struct panel *panel, uint64_t bytes)
{
    const struct picture *picture = panel->picture;

    return panel->x +
           (double)PANEL_WIDTH * (log2((double)bytes) - picture->first) / (picture->last - picture->first);
}

static double panel_y(const struct panel *panel, double rate)
{
    return panel->y + (double)PANEL_HEIGHT * (1 - rate / panel->top);
}

static void write_axes(struct panel *panel, double step)
{
    struct picture *picture = panel->picture;
    unsigned spacing = picture->last - picture->first > 16 ? 4 : 2, power;
    char text[TEXT_MAX];
    double rate;

    for (rate = 0; rate <= panel->top * 1.001; rate += step) {
        snprintf(text, sizeof text, "%g", rate);
        svg_write_grid(picture->file, panel->x, panel_y(panel, rate), PANEL_WIDTH, text);
    }
    for (power = (picture->first + 1) / 2 * 2; power <= picture->last; power += spacing) {
        fprintf(picture->file, "<path d=\"M%.1f %uv%d\" class=\"grid\"/>\n", panel_x(panel, (uint64_t)1 << power),
                panel->y, PANEL_HEIGHT);
        svg_write_text(picture->file, panel_x(panel, (uint64_t)1 << power), panel->y + PANEL_HEIGHT + 16,
                       "tick middle", text_bytes(text, (uint64_t)1 << power));
    }
    svg_write_frame(picture->file, panel->x, panel->y, PANEL_WIDTH, PANEL_HEIGHT);
    svg_write_text(picture->file, panel->x + (double)PANEL_WIDTH / 2, panel->y + PANEL_HEIGHT + 36, "quiet middle",
                   "bytes of a copy");
}

static void write_curve(struct panel *panel, const struct line *line, unsigned kind, bool driver)
{
    FILE *file = panel->picture->file;
    char size[TEXT_MAX], rate[TEXT_MAX];
    bool begun = false;
    unsigned i;

    for (i = 0; i < line->count; i++) {
        double value = driver ? line->points[i].driver : line->points[i].leat;

        if (!isfinite(value))
            continue;
        fprintf(file, "%s%.1f %.1f", begun ? " L" : "<path d=\"M", panel_x(panel, line->points[i].bytes),
                panel_y(panel, value));
        begun = true;
    }
    if (!begun)
        return;
    fprintf(file, "\" class=\"curve%s k%u\"/>\n", driver ? " driver" : "", kind);
    for (i = 0; i < line->count; i++) {
        double value = driver ? line->points[i].driver : line->points[i].leat;

        if (!isfinite(value))
            continue;
        fprintf(file,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" class=\"%s k%u\"><title>%s, %s: %s, %s "
                "GB/s</title></circle>\n",
                panel_x(panel, line->points[i].bytes), panel_y(panel, value), driver ? "2.2" : "2.8",
                driver ? "hollow" : "dot", kind, driver ? "driver" : "leat", drawn[kind].text,
                text_bytes(size, line->points[i].bytes), text_figure(rate, value));
    }
}

static void write_panel(struct picture *picture, unsigned direction)
{
    static const char *const titles[COPY_DIRECTION_COUNT] = {"Host to device", "Device to host",
                                                             "Both directions at once, together"};
    struct panel panel = {.picture = picture,
                          .x = SVG_MARGIN + AXIS_LEFT + direction * (AXIS_LEFT + PANEL_WIDTH + PANEL_GAP),
                          .y = HEAD + SVG_LINE_STEP};
    double most = highest(picture, direction), step;
    unsigned kind;

    svg_write_text(picture->file, panel.x, panel.y - 8, "head", titles[direction]);
    if (most <= 0) {
        svg_write_text(picture->file, panel.x, panel.y + 20, "quiet", "not measured");
        return;
    }
    step = step_for(most);
    panel.top = ceil(most / step * 1.02) * step;
    svg_write_text(picture->file, panel.x - 6, panel.y - 8, "tick end", "GB/s");
    write_axes(&panel, step);
    for (kind = 0; kind < DRAWN_COUNT; kind++) {
        write_curve(&panel, &picture->lines[direction][kind], kind, true);
        write_curve(&panel, &picture->lines[direction][kind], kind, false);
    }
}

bool bench_copy_picture(const json_t *record, const char *path)
{
    static struct picture picture; /* too large for the stack */
    unsigned direction, kind;

    picture = (struct picture){.first = 63};
    for (direction = 0; direction < COPY_DIRECTION_COUNT; direction++)
        for (kind = 0; kind < DRAWN_COUNT; kind++)
            read_line(&picture, json_object_get(record, "rows"), direction, kind);
    if (!picture.any) {
        cli_complain("bench: there is nothing to draw: the record has no sizes of the group copy");
        return false;
    }
    find_left_out(&picture, json_object_get(record, "rows"));
    if (picture.last == picture.first)
        picture.last++;
    picture.file = svg_begin(path, WIDTH, HEIGHT, hues, DRAWN_COUNT + 1);
    if (!picture.file)
        return false;
    write_head(&picture, record);
    for (direction = 0; direction < COPY_DIRECTION_COUNT; direction++)
        write_panel(&picture, direction);
    return svg_end(picture.file, path);
}
