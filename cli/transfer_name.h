/*
 * transfer_name.h - checks the names of files that another process sends, and makes its texts printable.
 */
#ifndef CLI_TRANSFER_NAME_H
#define CLI_TRANSFER_NAME_H

#include <stddef.h>

enum { TRANSFER_NAME_MAX = 255 };

/* Returns NULL if a file may be stored under this name in a folder, otherwise why not. The other end chose the
 * name: it must not lead out of the folder, be hidden in it, or change what a terminal shows. */
const char *transfer_name_problem(const char *name);

/* Copies text of the other end to shown, with '?' for each byte of a control character and for each byte that is
 * not UTF-8. Longer text is truncated. Returns shown. */
const char *transfer_show(char *shown, size_t shown_bytes, const char *text);

#endif
