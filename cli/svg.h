/*
 * svg.h - what the pictures of the command share.
 */
#ifndef CLI_SVG_H
#define CLI_SVG_H

#include <stdbool.h>
#include <stdio.h>

/* Writes text as XML has it. Characters that XML cannot have are left out, and so are those that were cut off when
 * a name was shortened. */
void svg_write_escaped(FILE *file, const char *text);

/* Such a text at a place. style: one of the picture's classes. */
void svg_write_text(FILE *file, double x, double y, const char *style, const char *text);

/* The same for a text that has only room pixels. A longer one ends in three dots, and pointing at it shows it
 * whole. */
enum svg_size { SVG_TEXT, SVG_TITLE };
void svg_write_text_within(FILE *file, double x, double y, const char *style, const char *text, enum svg_size size,
                           double room);

/* ---- pictures of "leat bench": one self-contained file each, light or dark ---- */

/* Lengths in pixels. */
enum { SVG_MARGIN = 20, SVG_LINE_STEP = 18 };

struct svg_hue {
    const char *light, *dark;
};

/*
 * Begins the file with the paper and the sheet of styles, and ends it. NULL, or false, after saying why it cannot
 * be written. Class kN of the sheet is the N-th hue, of lines and of what is filled: rectangles, and circles of
 * class dot.
 */
FILE *svg_begin(const char *path, unsigned width, unsigned height, const struct svg_hue *hues, unsigned hue_count);
bool svg_end(FILE *file, const char *path);

/* The title, and lines on what was measured (each one a string, the last one followed by NULL), for a picture of
 * this width. Returns where the legend goes. */
unsigned svg_write_head(FILE *file, unsigned width, const char *title, const char *const *lines);

/* A line of the grid from (x, y) to the right, with its value beside it; and the frame of a panel. */
void svg_write_grid(FILE *file, double x, double y, double width, const char *value);
void svg_write_frame(FILE *file, double x, double y, double width, double height);

#endif
