/*
 * sized.h - reads and fills the public structs that can grow. leat/base.h has the rule about their first field,
 * size.
 *
 * A new field goes behind the last one, and never into the padding after it: sizeof must grow, because only size
 * says which fields the caller's struct has. No field is ever removed or moved.
 *
 * A call with options reads them with LEATI_SIZED_READ(), which copies them to the library's own version of the
 * struct. A call that returns a struct checks it with LEATI_SIZED_CHECK() before it does anything else, fills a
 * struct of its own and passes it to LEATI_SIZED_WRITE(), so that the caller's struct changes only on success.
 */
#ifndef LEATI_SIZED_H
#define LEATI_SIZED_H

#include <leat/status.h>

#include <stddef.h>

/* No struct of any version is larger than this. A larger size means that the caller did not set the field. */
enum { LEATI_SIZED_MAX = 4096 };

/* Returns LEAT_OK if a call can use the caller's struct, otherwise LEAT_ERROR_INVALID. For the message, what is
 * the name of the API call, name that of the parameter, type that of the struct. known_bytes: sizeof the struct in
 * this version of the library. */
leat_status leati_sized_check(const char *what, const char *name, const char *type, const void *given,
                              size_t known_bytes);

/* Copies a checked struct of the caller into known, and sets known's size to known_bytes. Fields that the caller's
 * struct does not have become 0. */
void leati_sized_read(void *known, size_t known_bytes, const void *given);

/* Copies filled, whose size is known_bytes, to a checked struct of the caller. Omits fields that the caller's
 * struct does not have, and does not change its size field. */
void leati_sized_write(void *given, const void *filled, size_t known_bytes);

#define LEATI_SIZED_CHECK(what, name, type, given) leati_sized_check((what), (name), #type, (given), sizeof(type))
#define LEATI_SIZED_READ(known, given) leati_sized_read((known), sizeof *(known), (given))
#define LEATI_SIZED_WRITE(given, filled) leati_sized_write((given), (filled), sizeof *(filled))

#endif
