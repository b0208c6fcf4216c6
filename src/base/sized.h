/*
 * sized.h - public structs that can grow: the rule of leat/base.h about their first field, size.
 *
 * A new field goes behind the last one, and never into its padding: sizeof must grow, because size is all that
 * says which fields a caller has. No field is ever removed or moved.
 *
 * A call with options reads them with LEATI_SIZED_READ(), which makes a copy of the library's own version. A call
 * that returns a struct checks it with LEATI_SIZED_CHECK() before it does anything else, fills a struct of its own
 * and passes it to LEATI_SIZED_WRITE(), so that the caller's struct changes only on success.
 */
#ifndef LEATI_SIZED_H
#define LEATI_SIZED_H

#include <leat/status.h>

#include <stddef.h>

/* No struct of any version is larger. A size above this was never set. */
enum { LEATI_SIZED_MAX = 4096 };

/* Returns LEAT_OK if a call can use the caller's struct, otherwise LEAT_ERROR_INVALID. what: the call; name: its
 * parameter; type: of the struct; known_bytes: sizeof in this version of the library. */
leat_status leati_sized_check(const char *what, const char *name, const char *type, const void *given,
                              size_t known_bytes);

/* Copies a checked struct of the caller into one of known_bytes, which becomes its size; what the caller does not
 * have becomes 0. */
void leati_sized_read(void *known, size_t known_bytes, const void *given);

/* Copies filled, of known_bytes, into a checked struct of the caller, as far as the caller knows it. The caller's
 * size stays. */
void leati_sized_write(void *given, const void *filled, size_t known_bytes);

#define LEATI_SIZED_CHECK(what, name, type, given) leati_sized_check((what), (name), #type, (given), sizeof(type))
#define LEATI_SIZED_READ(known, given) leati_sized_read((known), sizeof *(known), (given))
#define LEATI_SIZED_WRITE(given, filled) leati_sized_write((given), (filled), sizeof *(filled))

#endif
