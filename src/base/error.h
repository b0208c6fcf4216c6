/*
 * error.h - reports failures: returns a status, and keeps its message per thread for leat_last_error().
 *
 * The function that detects a failure calls leati_fail() once. Its callers forward the status. The API call on top
 * prepends its own arguments with leati_fail_in(). Never pass LEAT_OK, LEAT_NOT_READY or LEATI_DECLINED to these
 * two functions.
 */
#ifndef LEATI_ERROR_H
#define LEATI_ERROR_H

#include "base/quick.h"

#include <leat/status.h>

/*
 * A function returns this if it cannot handle the case and has done nothing, so that its caller tries another way.
 * Only functions inside the library return it, and it has no message. Do not use LEAT_NOT_READY instead: that
 * status only means that work is not finished yet.
 */
#ifndef __clang_analyzer__
#define LEATI_DECLINED ((leat_status)1000)
#else
#define LEATI_DECLINED LEAT_NOT_READY /* the analyzer wants a value of the enum */
#endif

/* Sets this thread's message and returns status. For LEAT_ERROR_HOST_MEMORY the message also gets a hint if the
 * address space is limited (base/addresses.h). */
leat_status leati_fail(leat_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "<formatted>: " in front of this thread's message and returns status. */
leat_status leati_fail_in(leat_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The status of this thread's latest failure outside a quiet region; leati_error_restore() sets it too. Whoever
 * wants to know how a call of the API ends sets it to LEAT_OK before (trace/span.c). */
extern LEATI_QUICK_TLS leat_status leati_error_latest;

/* ---- failures that the API call does not report ---- */

/* While this is above 0 on a thread, leati_fail() and leati_fail_in() return the status and write no message. */
extern LEATI_QUICK_TLS unsigned leati_error_quiet_depth;

/*
 * Begin and end a quiet region, for calls whose failure must not appear in the program's leat_last_error().
 * Regions nest. Every path must leave its region; LEATI_QUIETLY() does so. Callbacks of the program must run in a
 * loud region. leati_fault_handler_run() restores the depth after a fault.
 */
static inline void leati_error_quiet_begin(void)
{
    leati_error_quiet_depth++;
}

static inline void leati_error_quiet_end(void)
{
    leati_error_quiet_depth--;
}

/* For LEATI_QUIETLY(): ends the region after the call that returned status. */
static inline leat_status leati_error_quiet_end_with(leat_status status)
{
    leati_error_quiet_end();
    return status;
}

/* Evaluates an expression of type leat_status in a quiet region, and has the value of that expression. */
#define LEATI_QUIETLY(expression) (leati_error_quiet_begin(), leati_error_quiet_end_with(expression))

/* Begins a loud region inside any number of quiet ones. Returns the argument for leati_error_loud_end(). */
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

/* A saved copy of this thread's message, for calls that may replace it. */
struct leati_message {
    char text[2048];
};

void leati_error_keep(struct leati_message *message);

/* Restores a saved message and returns status, which may be LEAT_OK. Works in a quiet region too. */
leat_status leati_error_restore(leat_status status, const struct leati_message *message);

/*
 * Bracket a call whose failure is not reported to the user, but whose message leat stores for later, e.g. the
 * reason why staging is not available. Between begin and end, leati_fail() writes messages even inside a quiet
 * region, and leat can read them with leat_last_error(). leati_error_hear_end() restores this thread's earlier
 * message and the quiet region.
 */
struct leati_hearing {
    struct leati_message before;
    unsigned quiet_depth;
};

void leati_error_hear_begin(struct leati_hearing *hearing);
void leati_error_hear_end(const struct leati_hearing *hearing);

#ifdef __clang_analyzer__
/* The analyzer sees one file at a time. These macros tell it that each function returns the status that it was
 * passed, and that leati_fail() and leati_fail_in() never return LEAT_OK. */
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
