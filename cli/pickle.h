/*
 * pickle.h - reads the plain data of a file that Python's pickle module wrote (protocols 2 to 5). Runs no code.
 *
 * A pickle is a program for a stack machine. This reader implements only the opcodes that build data: None,
 * booleans, numbers, texts, bytes, lists, tuples, dicts, sets, and references to earlier values. It refuses
 * opcodes that name or call Python code. So a file can only use memory, and most_bytes limits that.
 */
#ifndef CLI_PICKLE_H
#define CLI_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

enum { PICKLE_ERROR_MAX = 256, PICKLE_TEXT_MAX = 64 };

struct pickle;       /* owns all values */
struct pickle_value; /* a list may contain itself */

/*
 * Reads one pickle from the current position of file, which may be compressed by gzip. The values take at most
 * most_bytes of memory. Returns NULL on failure; error says at which byte and why. For errors of the file itself
 * the caller must ask gzerror().
 */
struct pickle *pickle_load(gzFile file, size_t most_bytes, char error[PICKLE_ERROR_MAX]);

/* Frees all values. NULL does nothing. */
void pickle_destroy(struct pickle *pickle);

const struct pickle_value *pickle_root(const struct pickle *pickle);

/* These functions return false, NULL or 0 if the value is NULL or of another type. A text longer than
 * PICKLE_TEXT_MAX is not kept; pickle_text() then returns "". */
bool pickle_is_list(const struct pickle_value *value); /* a list or a tuple */
bool pickle_is_dict(const struct pickle_value *value);
bool pickle_integer(const struct pickle_value *value, int64_t *integer); /* false, too, for integers of more than
                                                                          * 64 bits */
const char *pickle_text(const struct pickle_value *value);

/* Return the number of elements of a list or tuple, and one element. */
size_t pickle_count(const struct pickle_value *list);
const struct pickle_value *pickle_item(const struct pickle_value *list, size_t index);

/* Returns the value of a dict for a key that is a text, or NULL if there is none. */
const struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key);

#endif
