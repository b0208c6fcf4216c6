/*
 * error.h - the status and its message, kept per thread for leat_last_error().
 *
 * The place that detects a failure calls leati_fail() once; callers forward the status, and the API call on top
 * puts what was asked in front with leati_fail_in(). Neither is for LEAT_OK, LEAT_NOT_READY
 * or LEATI_DECLINED.
 */
#ifndef LEATI_ERROR_H
#define LEATI_ERROR_H

#include "base/quick.h"

#include <leat/status.h>

/*
 * "This path declines: nothing was done, take another." An answer between functions of the library, like
 * LEAT_NOT_READY without a message; no call of the API returns it. LEAT_NOT_READY says only that work is not
 * finished yet.
 */
#ifndef __clang_analyzer__
#define LEATI_DECLINED ((leat_status)1000)
#else
#define LEATI_DECLINED LEAT_NOT_READY /* the analyzer wants a value of the enum */
#endif

/* Sets this thread's message and returns status. For HOST_MEMORY a limit on addresses (base/addresses.h), if
 * there is one, is named behind it. */
leat_status leati_fail(leat_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "<formatted>: " in front of this thread's message and returns status. */
leat_status leati_fail_in(leat_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- failures that are only answers ---- */

/* While this is above 0 on a thread, leati_fail() and leati_fail_in() return the status and write no message. */
extern LEATI_QUICK_TLS unsigned leati_error_quiet_depth;

/*
 * Begins and ends a quiet region, for calls whose failure the caller of the API must not see in leat_last_error().
 * Regions nest. Leave a region on every path; LEATI_QUIETLY() does so. Code of the program (callbacks) must run in
 * a loud region. leati_fault_handler_run() restores the depth after a fault.
 */
static inline void leati_error_quiet_begin(void)
{
    leati_error_quiet_depth++;
}

static inline void leati_error_quiet_end(void)
{
    leati_error_quiet_depth--;
}

/* For LEATI_QUIETLY(): ends the region behind the call that returned status. */
static inline leat_status leati_error_quiet_end_with(leat_status status)
{
    leati_error_quiet_end();
    return status;
}

/* Evaluates an expression of type leat_status in a quiet region and has its value. */
#define LEATI_QUIETLY(expression) (leati_error_quiet_begin(), leati_error_quiet_end_with(expression))

/* Begins a loud region inside of any quiet ones, and returns what leati_error_loud_end() takes. */
static inline unsigned leati_error_loud_begin(void)
{
    unsigned depth = leati_error_quiet_depth;

    leati_error_quiet_depth = 0;
    return depth;
}

static inline void leati_error_loud_end(unsigned depth)
{
    leati_error_quiet_depth = depth;
}

/* This thread's message, kept over calls that may replace it. */
struct leati_message {
    char text[2048];
};

void leati_error_keep(struct leati_message *message);

/* Puts a kept message back and returns status, which may be LEAT_OK. In a quiet region too. */
leat_status leati_error_restore(leat_status status, const struct leati_message *message);

/*
 * Around calls whose failure is only an answer, but whose message leat itself keeps, e.g. why staging is not
 * available. Between the two, leat_last_error() is that message, also inside of a quiet region.
 */
struct leati_hearing {
    struct leati_message before;
    unsigned quiet_depth;
};

void leati_error_hear_begin(struct leati_hearing *hearing);
void leati_error_hear_end(const struct leati_hearing *hearing);

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
#define leati_error_restore(status, message) ((void)leati_error_restore((status), (message)), (status))
#endif

/* Forwards a failure to the caller. LEAT_NOT_READY and LEATI_DECLINED are forwarded too. */
#define LEATI_TRY(expression)                                                                                     \
    do {                                                                                                          \
        leat_status leati_try_status_ = (expression);                                                             \
        if (leati_try_status_ != LEAT_OK)                                                                         \
            return leati_try_status_;                                                                             \
    } while (0)

#endif
