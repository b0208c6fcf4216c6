/*
 * svg.h - writes the parts of SVG files that all pictures of the command share.
 */
#ifndef CLI_SVG_H
#define CLI_SVG_H

#include <stdbool.h>
#include <stdio.h>

/* Writes text with XML's special characters escaped. Leaves out characters that XML forbids, and incomplete UTF-8
 * characters at the end of a shortened name. */
void svg_write_escaped(FILE *file, const char *text);

/* Writes a text element. style: one of the picture's CSS classes. */
void svg_write_text(FILE *file, double x, double y, const char *style, const char *text);

/* Writes a text element that is at most room pixels wide. A longer text is shortened and ends in three dots; its
 * tooltip has the whole text. */
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
 * Begin and end a file. svg_begin() writes the background and the style sheet. They return NULL or false after
 * reporting that the file cannot be written. Class kN of the style sheet has the N-th hue, for lines, rectangles,
 * and circles of class dot.
 */
FILE *svg_begin(const char *path, unsigned width, unsigned height, const struct svg_hue *hues, unsigned hue_count);
bool svg_end(FILE *file, const char *path);

/* Writes the title and the lines that describe the measurement. lines ends with NULL. width: the width of the
 * picture. Returns the y coordinate of the legend. */
unsigned svg_write_head(FILE *file, unsigned width, const char *title, const char *const *lines);

/* svg_write_grid() draws a horizontal grid line from (x, y) to the right, with its value on the left.
 * svg_write_frame() draws the frame of a panel. */
void svg_write_grid(FILE *file, double x, double y, double width, const char *value);
void svg_write_frame(FILE *file, double x, double y, double width, double height);

#endif
