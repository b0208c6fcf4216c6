/*
 * bench_memory_picture.c - draws the table of strategies of the group "memory" as SVG: a block of bars for each
 * access, and a bar for each strategy. The scale is logarithmic, because for sparse accesses the slowest strategy
 * has only a thousandth of the fastest one's rate. It reads the record as JSON, so that a new run and a stored
 * record give the same picture.
 */
#include "bench_memory.h"
#include "bench_report.h"
#include "cli.h"
#include "svg.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Lengths in pixels. */
enum {
    HEAD = 146, /* height of the title, the description and the legend */
    AXIS_LEFT = 56,
    BAR = 36,
    BAR_GAP = 4,
    BLOCK_GAP = 30,
    BLOCK = MEMORY_STRATEGY_COUNT * (BAR + BAR_GAP) + BLOCK_GAP,
    PLOT_WIDTH = MEMORY_ACCESS_COUNT * BLOCK,
    PLOT_HEIGHT = 320,
    FOOT = 40,
    WIDTH = 2 * SVG_MARGIN + AXIS_LEFT + PLOT_WIDTH,
    HEIGHT = HEAD + PLOT_HEIGHT + FOOT + SVG_MARGIN
};

struct picture {
    FILE *file;
    double rates[MEMORY_ACCESS_COUNT][MEMORY_STRATEGY_COUNT]; /* GB/s; NAN: not measured */
    uint64_t bytes;
    double low, high; /* ends of the scale, powers of 10 */
    bool any;
};

static void read_rate(struct picture *picture, const json_t *rows, unsigned access, unsigned strategy)
{
    const json_t *row;
    size_t index;
    char name[96];

    picture->rates[access][strategy] = NAN;
    snprintf(name, sizeof name, "%s, %s", memory_strategy_labels[strategy], memory_access_labels[access]);
    json_array_foreach(rows, index, row)
    {
        double rate = json_number_value(json_object_get(row, "value"));

        if (strcmp(record_text(row, "group"), "memory") || strcmp(record_text(row, "case"), name) || rate <= 0)
            continue;
        picture->rates[access][strategy] = rate;
        picture->bytes = (uint64_t)json_integer_value(json_object_get(row, "bytes"));
        picture->low = fmin(picture->low, floor(log10(rate)));
        picture->high = fmax(picture->high, ceil(log10(rate)));
        picture->any = true;
    }
}

static const struct svg_hue hues[MEMORY_STRATEGY_COUNT] = {{"#8c959f", "#9aa4ae"},
                                                           {"#1f6fc4", "#62a8ee"},
                                                           {"#1a7f5a", "#3fbf8f"},
                                                           {"#b3720a", "#e8a23c"},
                                                           {"#a0468c", "#d67fc4"}};

static void write_head(struct picture *picture, const json_t *record)
{
    const json_t *device = json_object_get(record, "device");
    const json_t *driver = json_object_get(record, "driver");
    const json_t *host = json_object_get(record, "host");
    unsigned x = SVG_MARGIN, y;
    char title[512], machine[512], size[TEXT_MAX];

    snprintf(title, sizeof title, "Bytes that a kernel reads of %s at the host: %s, %s",
             text_bytes(size, picture->bytes), record_text(device, "name"), record_text(device, "model"));
    snprintf(machine, sizeof machine, "Driver %s %s; %s, %d logical processors; leat %s, %s",
             record_text(driver, "name"), record_text(driver, "version"), record_text(host, "cpu"),
             (int)json_integer_value(json_object_get(host, "cores")), record_text(record, "version"),
             record_text(record, "date"));
    y = svg_write_head(picture->file, WIDTH, title,
                       (const char *const[]){machine,
                                             "From data at the host to the end of the kernel, medians; GB/s "
                                             "counts the bytes that the kernel reads, "
                                             "whatever was moved for them",
                                             NULL});
    for (unsigned i = 0; i < MEMORY_STRATEGY_COUNT; i++) {
        fprintf(picture->file, "<rect x=\"%u\" y=\"%u\" width=\"12\" height=\"12\" class=\"k%u\"/>\n", x, y - 11,
                i);
        svg_write_text(picture->file, x + 18, y, "", memory_strategy_labels[i]);
        x += 40 + 7 * (unsigned)strlen(memory_strategy_labels[i]);
    }
    svg_write_text(picture->file, SVG_MARGIN + AXIS_LEFT - 6, HEAD - 10, "tick end", "GB/s");
}

static double height_of(const struct picture *picture, double rate)
{
    return (double)PLOT_HEIGHT * (log10(rate) - picture->low) / (picture->high - picture->low);
}

static void write_axis(const struct picture *picture)
{
    char text[TEXT_MAX];

    for (double power = picture->low; power <= picture->high; power++) {
        double y = HEAD + PLOT_HEIGHT - height_of(picture, pow(10, power));

        snprintf(text, sizeof text, "%g", pow(10, power));
        svg_write_grid(picture->file, SVG_MARGIN + AXIS_LEFT, y, PLOT_WIDTH, text);
    }
}

static void write_block(const struct picture *picture, unsigned access)
{
    double left = SVG_MARGIN + AXIS_LEFT + access * (double)BLOCK + (double)BLOCK_GAP / 2;
    char rate[TEXT_MAX];

    for (unsigned i = 0; i < MEMORY_STRATEGY_COUNT; i++) {
        double value = picture->rates[access][i], x = left + i * (double)(BAR + BAR_GAP), height;

        if (!isfinite(value))
            continue;
        height = fmax(height_of(picture, value), 1);
        text_figure(rate, value);
        fprintf(picture->file,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" class=\"k%u\"><title>%s, %s: %s "
                "GB/s</title></rect>\n",
                x, HEAD + PLOT_HEIGHT - height, BAR, height, i, memory_strategy_labels[i],
                memory_access_labels[access], rate);
        svg_write_text(picture->file, x + (double)BAR / 2, HEAD + PLOT_HEIGHT - height - 4, "tick middle", rate);
    }
    svg_write_text(picture->file, left + (double)(BLOCK - BLOCK_GAP) / 2, HEAD + PLOT_HEIGHT + 20, "middle",
                   memory_access_labels[access]);
}

bool bench_memory_picture(const json_t *record, const char *path)
{
    struct picture picture = {.low = 99, .high = -99};

    for (unsigned access = 0; access < MEMORY_ACCESS_COUNT; access++)
        for (unsigned strategy = 0; strategy < MEMORY_STRATEGY_COUNT; strategy++)
            read_rate(&picture, json_object_get(record, "rows"), access, strategy);
    if (!picture.any) {
        cli_complain("bench: there is nothing to draw: the record has no strategies of the group memory");
        return false;
    }
    if (picture.low >= picture.high)
        picture.high = picture.low + 1;
    picture.file = svg_begin(path, WIDTH, HEIGHT, hues, MEMORY_STRATEGY_COUNT);
    if (!picture.file)
        return false;
    write_head(&picture, record);
    write_axis(&picture);
    for (unsigned access = 0; access < MEMORY_ACCESS_COUNT; access++)
        write_block(&picture, access);
    return svg_end(picture.file, path);
}
