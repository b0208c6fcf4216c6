/*
 * library.h - a look at a shared library's file before it is loaded.
 */
#ifndef LEATI_LIBRARY_H
#define LEATI_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

/* Is the file that dlopen would take for name shorter than its headers say? Then opening it would end the process.
 * bytes: what it has, needed: what it should have. False when that cannot be told. */
bool leati_library_is_cut(const char *name, uint64_t *bytes, uint64_t *needed);

#endif
