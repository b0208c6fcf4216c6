/*
 * svg.h - what the pictures of the command share.
 */
#ifndef CLI_SVG_H
#define CLI_SVG_H

#include <stdio.h>

/* Writes text as XML has it. Characters that XML cannot have are left out, and so are those that were cut off when
 * a name was shortened. */
void svg_write_escaped(FILE *file, const char *text);

#endif
