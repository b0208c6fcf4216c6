/* result.c - converts leat's statuses to results, and keeps the last error of each thread. */
#include "engine/inside.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* True if LEAT_LOG=error. Set once, before the first failure is reported. */
static bool log_errors;

/* Reads LEAT_LOG through leat's API, because the engine does not read leat's environment variables itself. */
static void read_log_option(void)
{
    leat_option_info info = LEAT_OPTION_INFO_INIT;

    /* Stop at LEAT_LOG. The call that goes beyond the last option fails, and its message would replace the one
     * that the program may ask for. */
    for (unsigned i = 0; leat_option_list(i, &info) == LEAT_OK; i++)
        if (!strcmp(info.name, "LEAT_LOG")) {
            log_errors = info.value && !strcmp(info.value, "error");
            return;
        }
}

/* With LEAT_LOG=error, prints leat's message to standard error, because a vendor's error code has no message. */
static void log_failure(leat_status status)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_log_option);
    if (log_errors)
        fprintf(stderr, "leat: %s: %s\n", leat_status_name(status), leat_last_error());
}

int(leatc_result_of)(leat_status status)
{
    if (status < LEAT_OK)
        log_failure(status);
    switch (status) {
    case LEAT_OK:
        return LEATC_OK;
    case LEAT_NOT_READY:
        return LEATC_NOT_READY;
    case LEAT_ERROR_INVALID:
    case LEAT_ERROR_POINTER:
    case LEAT_ERROR_RANGE:
    case LEAT_ERROR_OVERLAP:
        return LEATC_INVALID_VALUE;
    case LEAT_ERROR_HANDLE:
        return LEATC_INVALID_HANDLE;
    case LEAT_ERROR_DEVICE_MEMORY:
    case LEAT_ERROR_HOST_MEMORY:
        return LEATC_OUT_OF_MEMORY;
    case LEAT_ERROR_NO_DEVICE:
        return LEATC_INVALID_DEVICE;
    case LEAT_ERROR_NO_DRIVER:
    case LEAT_ERROR_DRIVER_TOO_OLD:
        return LEATC_INSUFFICIENT_DRIVER;
    case LEAT_ERROR_NOT_FOUND:
        return LEATC_NOT_FOUND;
    case LEAT_ERROR_UNSUPPORTED:
        return LEATC_NOT_SUPPORTED;
    case LEAT_ERROR_IMAGE:
        return LEATC_INVALID_IMAGE;
    case LEAT_ERROR_REGISTERED:
        return LEATC_REGISTERED;
    case LEAT_ERROR_NOT_PERMITTED:
        return LEATC_NOT_PERMITTED;
    case LEAT_ERROR_DEVICE_LOST:
        return LEATC_LAUNCH_FAILED;
    case LEAT_ERROR_SYSTEM:
        return LEATC_OPERATING_SYSTEM;
    case LEAT_ERROR_DRIVER:
    case LEAT_ERROR_BUSY:
    case LEAT_ERROR_CANCELLED:
    case LEAT_ERROR_DEADLINE:
    case LEAT_ERROR_FILE:
    case LEAT_ERROR_LINK:
        return LEATC_UNKNOWN;
    }
    return LEATC_UNKNOWN;
}

static _Thread_local int last;

/* The result of the failure that made a device unusable, or 0 (LEATC_OK). Until the device is reset, it is the
 * last error of every thread, and replaces OK. Relaxed order is sufficient: a thread that waits for the failed
 * kernel is ordered after this store by that wait. */
static atomic_int sticky;

/* Returns true if the vendors' manuals say that the process can no longer use the device after this result. */
static bool is_sticky(int result)
{
    return result == LEATC_ILLEGAL_ADDRESS || result == LEATC_LAUNCH_FAILED || result == LEATC_ASSERT ||
           result == 702 || (result >= 714 && result <= 718);
}

/* True if a layer has recorded a result. */
static atomic_bool noted;

/* False if a call may have to be noted: at first, and while an open device is not noted. */
static atomic_bool noted_all;

bool leatc_has_noted(void)
{
    return atomic_load_explicit(&noted, memory_order_relaxed);
}

void leatc_note_again(void)
{
    atomic_store(&noted_all, false);
}

static void note_use(void)
{
    atomic_store_explicit(&noted, true, memory_order_relaxed);
    /* Set the flag before looking at the devices. If another thread opens a device in between, it stays false. */
    atomic_store(&noted_all, true);
    if (!leatc_note_device())
        atomic_store(&noted_all, false);
}

int leatc_lost(void)
{
    return atomic_load_explicit(&sticky, memory_order_relaxed);
}

void leatc_lose(int result)
{
    int none = 0;

    /* If there is an earlier failure, keep it. */
    (void)atomic_compare_exchange_strong(&sticky, &none, result);
}

int leatc_note_launch(int result)
{
    /* Store only while something is new, so that calls do not write to a cache line that all threads read. */
    if (__builtin_expect(!atomic_load_explicit(&noted_all, memory_order_relaxed), 0))
        note_use();
    if (__builtin_expect(result == LEATC_OK || result == LEATC_NOT_READY, 1))
        return result;
    last = result;
    if (is_sticky(result))
        atomic_store_explicit(&sticky, result, memory_order_relaxed);
    return result;
}

int leatc_note(int result)
{
    result = leatc_note_launch(result);
    return __builtin_expect(result == LEATC_OK, 1) ? leatc_lost() : result;
}

int leatc_peek_error(void)
{
    int lost = atomic_load_explicit(&sticky, memory_order_relaxed);

    return lost ? lost : last;
}

int leatc_last_error(void)
{
    int result = leatc_peek_error();

    last = LEATC_OK;
    return result;
}

void leatc_error_clear(void)
{
    atomic_store_explicit(&sticky, 0, memory_order_relaxed);
    last = LEATC_OK;
}
