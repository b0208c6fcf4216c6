/*
 * leat/storage.h - copies between memory and a program's own source or sink of bytes, in stream order.
 *
 * Model. A program supplies a function that moves the next bytes: a socket, a decompressor, a store of objects.
 * leat_storage_read_start() copies what the function produces to any memory that leat_copy() can reach;
 * leat_storage_write_start() gives the function what is in memory. Both return at once and run in stream order,
 * after all earlier work of the stream. leat's threads call the function with memory of the copy's ring of pinned
 * memory, while the device's DMA engine moves other parts between the ring and the device; for host memory without
 * a ring they call it with the memory itself. libleat-net (leat/link.h) is built on these calls.
 *
 *     static const leat_storage_ops ops = {.size = sizeof ops, .move = receive_some, .ready = has_bytes,
 *                                          .describe = describe, .release = release};
 *
 *     leat_storage_read_start(stream, weights, &ops, connection, bytes, NULL, &ticket);     // returns at once
 *     leat_launch(stream, ...);                                    // runs when the bytes are there
 *     leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER);
 *     leat_ticket_destroy(ticket);
 *
 * Order of the bytes. Only one thread at a time calls the functions of a copy, and offset grows from 0 to the
 * copy's size without gaps. A read may be called before earlier work of the stream is complete, as far as the ring
 * has room; a write is called when the bytes are there.
 *
 * Waiting. move() must not block: the threads that call it also copy memory. If it cannot continue, it returns
 * with LEAT_NOT_READY, and leat calls it again when ready() returns a value other than 0. leat looks at ready()
 * again when the program calls leat_storage_wake(), and does not poll it, except for a copy that has a deadline.
 *
 * Small copies. To wake a thread of leat's takes longer than to move a few KiB. So for copies of at most
 * ops->here_bytes the call that makes the copy calls move() itself, if the bytes are there and the stream need
 * not be waited for. And leat_storage_work(), which a thread of the program calls in place of leat_storage_wake()
 * when it has noticed that bytes have come, moves the bytes of all such copies that are ready.
 *
 * Failures. If move() fails, the copy fails with that status: the ticket returns it, and so does the next
 * leat_stream_synchronize() of the stream, once. Later work of the stream runs anyway. The part of the destination
 * that the copy did not reach is then undefined.
 *
 * Pinned memory. A copy holds its ring from the call until its end, also while move() is not ready. So a program
 * with many such copies waits in the next call, or sets LEAT_COPY_MEMORY (docs/copies.md).
 *
 * GPUs. A stream that waits for move() can hold up other streams and driver calls: leat/link.h says which. The first
 * such copy on a device loads all of leat's kernels (about 5 ms on an H200; seconds where leat has no machine code
 * for the GPU), so that none is loaded while a stream waits. Like every load it waits for streams that wait already, for
 * instance for a host function.
 *
 * Threads. The functions are called on leat's threads; stop() and release() also on the thread of a call that
 * makes a copy or closes a device. With here_bytes, all of them are also called by the call that makes the copy,
 * and by leat_storage_work() on any thread, that of libleat-net too; so these threads must hold no lock that the
 * functions take. The caller may hold locks of leat's, so the functions must not call leat, except for
 * leat_storage_wake(), and ready() not even that. None of them may wait for a stream, or for a thread that waits
 * for one.
 *
 * Experimental: all of this header may still change (leat/version.h).
 */
#ifndef LEAT_STORAGE_H
#define LEAT_STORAGE_H

#include <leat/copy.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef LEAT_NO_EXPERIMENTAL /* may still change: see leat/version.h */

/* The functions of a storage. leat reads the struct before the call returns. */
typedef struct leat_storage_ops {
    size_t size; /* sizeof(leat_storage_ops): leat/base.h */

    /*
     * Moves the next bytes of the copy: for a read into memory, for a write out of memory. offset: how many bytes
     * of the copy were moved before. Returns how many bytes it moved, from the start. If these are fewer than
     * bytes, it sets *status: LEAT_NOT_READY, if leat shall call again later, with the rest of these bytes; or the
     * reason of a failure, a negative value. LEAT_ERROR_POINTER means that the byte of memory behind those that were
     * moved cannot be accessed. DRIVER and DEVICE_LOST become SYSTEM; CANCELLED and DEADLINE are returned by the
     * ticket only. move() that returns more than bytes, or no status, fails with INVALID.
     */
    size_t (*move)(void *object, uint64_t offset, void *memory, size_t bytes, leat_status *status);

    /* Returns 1 if move() can move at least one byte, or can tell that it failed; 0: leat_storage_wake() will be
     * called when it can. leat calls it often and under a spin lock, so it may only load a few values. NULL: move()
     * is always ready. */
    int (*ready)(const void *object);

    /* Fills text with what failed, after a failure of move() at offset. NULL: leat prints the status only. */
    void (*describe)(const void *object, uint64_t offset, leat_status status, char *text, size_t text_bytes);

    /* leat has made the last call with object: all bytes were moved, or the copy ended before. NULL: object needs no
     * end. */
    void (*release)(void *object);

    /* The copy ends before all bytes were moved: it was cancelled, its deadline passed, its device is closed, or
     * move() failed. Called once, before release(), which may come much later: with a later copy of the device, or
     * when the device is closed. leat calls move() and ready() no more. For a write this may be after the stream has
     * reached the copy. Also called if the call that starts the copy fails with DRIVER or DEVICE_LOST half-way; then
     * release() is not called. NULL: object does not need it. */
    void (*stop)(void *object);

    /* Copies of at most so many bytes are small, see above. Such a storage needs ready(). 0: only leat's own
     * threads call move(). */
    size_t here_bytes;
} leat_storage_ops;
#define LEAT_STORAGE_OPS_INIT LEAT_SIZED_INIT_(leat_storage_ops)

/*
 * Copies the next bytes bytes that ops->move() produces to dst. The program gives object to leat: leat calls
 * ops->release() once, whatever becomes of the copy, but not if this call fails. bytes 0 does nothing: the ticket
 * is done, and release() was called. options may be NULL. leat_ticket_cancel() and a deadline stop the copy.
 * leat_device_close() cancels it too. ticket may be NULL; otherwise the caller destroys it.
 * Errors: HANDLE; POINTER, RANGE (as leat_copy(), for dst); INVALID (ops or ops->move NULL; the size of ops or
 * options, as leat/base.h says); UNSUPPORTED (memory of another driver than the stream's); HOST_MEMORY (also if
 * leat has no threads for staging: leat_copy_explain() says why); DEVICE_LOST, DRIVER, NOT_PERMITTED (inside a
 * host function). After an error nothing was copied, except after DEVICE_LOST and DRIVER: then dst is undefined.
 */
LEAT_NODISCARD LEAT_API leat_status leat_storage_read_start(leat_stream *stream, void *dst,
                                                            const leat_storage_ops *ops, void *object,
                                                            size_t bytes, const leat_copy_options *options,
                                                            leat_ticket **ticket);

/* Gives the bytes bytes at src to ops->move(). Otherwise as leat_storage_read_start(). The ticket reaches STAGED
 * when move() has taken all bytes, and DONE when the stream has completed the copy too. */
LEAT_NODISCARD LEAT_API leat_status leat_storage_write_start(leat_stream *stream, const leat_storage_ops *ops,
                                                             void *object, const void *src, size_t bytes,
                                                             const leat_copy_options *options,
                                                             leat_ticket **ticket);

/* Lets leat's threads look at ready() of all copies again. Cheap, and never waits for a copy. Call it after the
 * change that makes ready() return 1. */
LEAT_API void leat_storage_wake(void);

/* The same, but the calling thread moves the bytes of small copies that are ready, at most 64 of them, whoever
 * made them, and leat's threads are woken for the others. For a loop that watches sockets, for example. Not
 * from the functions of a storage. */
LEAT_API void leat_storage_work(void);

#endif /* LEAT_NO_EXPERIMENTAL */

#ifdef __cplusplus
}
#endif

#endif
