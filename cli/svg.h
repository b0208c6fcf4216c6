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

/* The file of a picture of "leat bench"; NULL, or false, after saying why it cannot be written. */
FILE *svg_open(const char *path);
bool svg_close(FILE *file, const char *path);

#endif
