/*
 * error.h - the status and its sentence, kept per thread for leat_last_error().
 *
 * The place that detects a failure calls leati_fail() once; callers forward the status, and the API call on top
 * puts what was asked in front with leati_fail_in(). Neither is for LEAT_OK or LEAT_NOT_READY.
 */
#ifndef LEATI_ERROR_H
#define LEATI_ERROR_H

#include <leat/status.h>

/* Sets this thread's sentence and returns status. For HOST_MEMORY a limit on addresses (base/addresses.h), if
 * there is one, is named behind it. */
leat_status leati_fail(leat_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "<formatted>: " in front of this thread's sentence and returns status. */
leat_status leati_fail_in(leat_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* This thread's sentence, kept over calls that may replace it. */
struct leati_sentence {
    char text[2048];
};

void leati_error_keep(struct leati_sentence *sentence);

/* Puts a kept sentence back and returns status, which may be LEAT_OK. */
leat_status leati_error_restore(leat_status status, const struct leati_sentence *sentence);

#ifdef __clang_analyzer__
/* The analyzer sees one file at a time. These tell it that what comes back is what was given, and no LEAT_OK where
 * something failed. */
#define LEATI_FAILURE(call, status)                                                                               \
    ({                                                                                                            \
        leat_status leati_failure_ = (status);                                                                    \
        (void)(call);                                                                                             \
        if (leati_failure_ >= LEAT_OK)                                                                            \
            __builtin_unreachable();                                                                              \
        leati_failure_;                                                                                           \
    })
#define leati_fail(status, ...) LEATI_FAILURE(leati_fail((status), __VA_ARGS__), (status))
#define leati_fail_in(status, ...) LEATI_FAILURE(leati_fail_in((status), __VA_ARGS__), (status))
#define leati_error_restore(status, sentence) ((void)leati_error_restore((status), (sentence)), (status))
#endif

/* Forwards a failure to the caller. LEAT_NOT_READY is forwarded too. */
#define LEATI_TRY(expression)                                                                                     \
    do {                                                                                                          \
        leat_status leati_try_status_ = (expression);                                                             \
        if (leati_try_status_ != LEAT_OK)                                                                         \
            return leati_try_status_;                                                                             \
    } while (0)

#endif
