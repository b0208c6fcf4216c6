/*
 * library.h - checks a shared library's file before it is loaded.
 */
#ifndef LEATI_LIBRARY_H
#define LEATI_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

/* Returns true if the file that dlopen would load for name is shorter than its headers say; loading it would crash
 * the process. Sets *bytes to the size of the file, and *needed to the size that it should have. Returns false if
 * the sizes are unknown. */
bool leati_library_is_cut(const char *name, uint64_t *bytes, uint64_t *needed);

#endif
