/*
 * leat/status.h - defines the status that calls return, and returns its message.
 *
 * Model. Every call that can fail returns a leat_status. LEAT_OK is 0 and failures are negative. LEAT_NOT_READY
 * (1) is an answer and not a failure. Results come through out pointers, which are written only when the call
 * returned LEAT_OK. On failure the caller still owns what it owned. No call ends the process, and none prints
 * unless an environment variable requests it.
 *
 *     if (leat_alloc(stream, bytes, &ptr) != LEAT_OK)
 *         fprintf(stderr, "%s\n", leat_last_error());
 *
 * The compiler warns if a program ignores a status (LEAT_NODISCARD), because a call that failed did nothing:
 * memory was not allocated, bytes were not copied. A cast to void says that the status does not matter. Calls that
 * end something (close, destroy, free, release, unload, unmap, unregister, unreserve, unwrap, unexpose, cancel,
 * abandon) are exempt, so that the cleanup on an error path stays short: there the first failure is the one to
 * report, and mostly the handle is gone even if the call fails. Read their status where the program can act on it:
 * leat_pool_destroy() (BUSY), leat_free() (RANGE in guard mode), leat_device_close() (work that failed).
 *
 * Threads. leat_last_error() belongs to the calling thread: it describes the latest failure that a leat call
 * returned on this thread. A successful call leaves it unchanged.
 *
 * Asynchronous failures. Work that was accepted can fail later, on the device. The next call that waits for that
 * work or queries it returns such a failure (synchronize, query, leat_device_close()). LEAT_ERROR_DEVICE_LOST is
 * permanent: every later call on the device returns it. The failure of a copy or wait of leat's own (POINTER,
 * FILE, LINK) is returned by its ticket, if it has one. It is also returned once, by leat_stream_synchronize() or
 * by the leat_device_close() that ends the stream, unless leat_stream_destroy() has ended the stream before.
 */
#ifndef LEAT_STATUS_H
#define LEAT_STATUS_H

#include <leat/base.h>
#include <leat/version.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef LEAT_API
#define LEAT_API __attribute__((visibility("default")))
#endif

/* For calls whose status must not be ignored. Empty if the compiler has no such attribute. With gcc [[nodiscard]]
 * is better than __warn_unused_result__, because gcc warns about the latter even after a cast to void. */
#if defined(__cplusplus) && (__cplusplus >= 201703L || (defined(__GNUC__) && __GNUC__ >= 7 && !defined(__clang__)))
#define LEAT_NODISCARD [[nodiscard]]
#elif defined(__GNUC__) && __GNUC__ >= 10 && !defined(__clang__) && !defined(__cplusplus)
#define LEAT_NODISCARD __extension__ [[nodiscard]]
#elif defined(__GNUC__)
#define LEAT_NODISCARD __attribute__((__warn_unused_result__))
#else
#define LEAT_NODISCARD
#endif

/* X(name, number, text). The meaning of a number never changes; new ones go at the end. */
// clang-format off
#define LEAT_STATUS_LIST(X)                                                                        \
    X(LEAT_OK, 0, "success")                                                                       \
    X(LEAT_NOT_READY, 1, "the work is not finished yet")                                           \
    X(LEAT_ERROR_INVALID, -1, "an argument is not valid")                                          \
    X(LEAT_ERROR_HANDLE, -2, "not a live handle: destroyed, or never created by leat")             \
    X(LEAT_ERROR_POINTER, -3, "the address is not memory that this call can use")                  \
    X(LEAT_ERROR_RANGE, -4, "the range goes past the end of its allocation")                       \
    X(LEAT_ERROR_OVERLAP, -5, "source and destination overlap")                                    \
    X(LEAT_ERROR_DEVICE_MEMORY, -6, "not enough device memory")                                    \
    X(LEAT_ERROR_HOST_MEMORY, -7, "not enough host memory")                                        \
    X(LEAT_ERROR_NO_DEVICE, -8, "no such device")                                                  \
    X(LEAT_ERROR_NO_DRIVER, -9, "the vendor's driver library is missing or unusable")              \
    X(LEAT_ERROR_DRIVER_TOO_OLD, -10, "the vendor's driver is too old")                            \
    X(LEAT_ERROR_NOT_FOUND, -11, "the name was not found")                                         \
    X(LEAT_ERROR_UNSUPPORTED, -12, "this device or driver cannot do that")                         \
    X(LEAT_ERROR_IMAGE, -13, "the kernel image cannot be loaded on this device")                   \
    X(LEAT_ERROR_REGISTERED, -14, "the memory is already registered")                              \
    X(LEAT_ERROR_NOT_PERMITTED, -15, "not allowed from here")                                      \
    X(LEAT_ERROR_DEVICE_LOST, -16, "the device failed and cannot be used any more")                \
    X(LEAT_ERROR_DRIVER, -17, "the vendor's driver refused the call")                              \
    X(LEAT_ERROR_SYSTEM, -18, "the operating system refused the call")                             \
    X(LEAT_ERROR_BUSY, -19, "still in use")                                                        \
    X(LEAT_ERROR_CANCELLED, -20, "the copy was cancelled")                                         \
    X(LEAT_ERROR_DEADLINE, -21, "the copy's deadline passed")                                      \
    X(LEAT_ERROR_FILE, -22, "the file cannot be opened, read or written as asked")                 \
    X(LEAT_ERROR_LINK, -23, "the link to the other process failed")
// clang-format on

typedef enum leat_status {
#define LEAT_STATUS_ENUM(name, number, text) name = number,
    LEAT_STATUS_LIST(LEAT_STATUS_ENUM)
#undef LEAT_STATUS_ENUM
} leat_status;

/*
 * Returns the latest failure on this thread as one message: what the call was asked, what failed, the vendor's own
 * error name, what to do. If a pool is full, what to do is on a second line, which begins with "Advice: ". Never
 * NULL; "" if nothing has failed yet; a constant message if there was no host memory for the message. The text
 * belongs to leat and is valid until the next failure on this thread.
 */
LEAT_API const char *leat_last_error(void);

/*
 * For libraries that are built on leat: sets this thread's message for leat_last_error() to a copy of message, and
 * returns status. leat truncates messages of more than 2000 bytes. message may be part of the text that
 * leat_last_error() returned; NULL counts as "".
 */
LEAT_API leat_status leat_error_set(leat_status status, const char *message);

/* Returns the name of a status ("LEAT_ERROR_RANGE"). Never NULL: an unknown number gives "LEAT_UNKNOWN". */
LEAT_API const char *leat_status_name(leat_status status);

/* Returns the text of a status, from the list above. Never NULL: an unknown number gives "unknown status". */
LEAT_API const char *leat_status_text(leat_status status);

#ifdef __cplusplus
}
#endif

#endif
