/*
 * report.h - what libleat-files and libleat-net share: messages of failures, structs that can grow, the clock.
 * Both see only leat's public headers.
 */
#ifndef LEATC_REPORT_H
#define LEATC_REPORT_H

#include <leat/status.h>

#include <stddef.h>
#include <stdint.h>

/* ---- failures ---- */

/* Sets this thread's message and returns status. */
leat_status leatc_fail(leat_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "<formatted>: " in front of this thread's message and returns status. */
leat_status leatc_fail_in(leat_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define TRY(expression)                                                                                           \
    do {                                                                                                          \
        leat_status try_status_ = (expression);                                                                   \
        if (try_status_ != LEAT_OK)                                                                               \
            return try_status_;                                                                                   \
    } while (0)

/* Returns a copy of text for messages, in shown: bytes that are not printable ASCII become '?', and long text is
 * truncated. */
struct leatc_shown {
    char text[160];
};
const char *leatc_shown(struct leatc_shown *shown, const char *text, size_t bytes);

/* ---- structs that can grow: leat/base.h ---- */

/* Returns the first field, size, of a struct that can grow. */
size_t leatc_size_of(const void *given);

/* Returns LEAT_OK if a call can use the caller's struct, otherwise INVALID. field: the name of the size field for
 * the message, such as "leat_link_get_info: info->size"; known_bytes: the size of the struct in this version of
 * the library. */
leat_status leatc_sized_check(const char *field, const char *type, const void *given, size_t known_bytes);

/* Copies a checked struct of the caller to known, which has known_bytes, and sets its size to that. Fields that
 * the caller's version does not have become 0. */
void leatc_sized_read(void *known, size_t known_bytes, const void *given);

/* Copies filled, which has known_bytes, into a checked struct of the caller, but only the fields that the caller's
 * version has. The caller's size field keeps its value. */
void leatc_sized_write(void *given, const void *filled, size_t known_bytes);

/* ---- time ---- */

/* Returns the time of the monotonic clock in nanoseconds. */
uint64_t leatc_now_ns(void);

/* Returns the time on that clock after_ns from now; UINT64_MAX, which is never, if the sum overflows. */
uint64_t leatc_end_ns(uint64_t after_ns);

#endif
