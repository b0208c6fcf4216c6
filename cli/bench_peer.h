/*
 * bench_peer.h - declares the table of a driver's own calls (the peer), which "leat bench" compares with leat's.
 *
 * The calls get the native handles of streams and events that leat has created, so that both sides use the same
 * objects. Entries return 0 or the driver's error number. An entry is NULL if the driver has no such call; the
 * record then contains null.
 */
#ifndef CLI_BENCH_PEER_H
#define CLI_BENCH_PEER_H

#include "bench_threads.h"

#include <leat/leat.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bench_direction { BENCH_TO_DEVICE, BENCH_TO_HOST, BENCH_ON_DEVICE };

struct bench_peer {
    char text[96]; /* description of the calls for the record, such as "calls of libcuda.so.1" */

    /* Make the device current for this thread, and undo that. Not timed. */
    int (*enter)(struct bench_peer *peer);
    int (*leave)(struct bench_peer *peer);

    /* Copies in stream order. A peer may postpone the copy until wait(). */
    int (*copy)(struct bench_peer *peer, void *stream, enum bench_direction direction, void *dst, const void *src,
                size_t bytes);

    /* Copies, and returns when the copy is complete, as simple programs do with pageable memory. */
    int (*copy_at_once)(struct bench_peer *peer, enum bench_direction direction, void *dst, const void *src,
                        size_t bytes);

    /* Makes the driver's synchronous copy. When it returns, the source may change, and a destination on the host
     * is complete. */
    int (*copy_plain)(struct bench_peer *peer, enum bench_direction direction, void *dst, const void *src,
                      size_t bytes);
    int (*wait)(struct bench_peer *peer, void *stream);

    /* Makes many copies with one call, in stream order. The copies have no order among themselves. */
    int (*copy_batch)(struct bench_peer *peer, void *stream, void **dsts, void **srcs, size_t *sizes,
                      size_t count);

    int (*alloc)(struct bench_peer *peer, size_t bytes, void **ptr);
    int (*free)(struct bench_peer *peer, void *ptr);
    int (*alloc_async)(struct bench_peer *peer, void *stream, size_t bytes, void **ptr);
    int (*free_async)(struct bench_peer *peer, void *stream, void *ptr);

    /* Calls for the driver's pool from which alloc_async allocates. pool_watch() resets the pool's high-water mark
     * and, with keep, lets the pool keep all freed memory. pool_peak() reads the mark. pool_unwatch() restores the
     * pool's settings. pool_trim() releases the pool's idle memory to the device. All four are NULL if the driver
     * does not report a high-water mark. */
    int (*pool_watch)(struct bench_peer *peer, bool keep);
    int (*pool_peak)(struct bench_peer *peer, uint64_t *bytes);
    int (*pool_unwatch)(struct bench_peer *peer);
    int (*pool_trim)(struct bench_peer *peer);

    /* From pool_own() to pool_disown(), alloc_async uses a new, empty pool that holds at most limit_bytes (0: no
     * limit) and keeps all freed memory. Meanwhile pool_peak() reads the high-water mark of this pool. Free all
     * its blocks before pool_disown(). An allocation above the limit fails with the error number full. */
    int (*pool_own)(struct bench_peer *peer, uint64_t limit_bytes);
    int (*pool_disown)(struct bench_peer *peer);
    int full;

    int (*host_alloc)(struct bench_peer *peer, size_t bytes, void **ptr);
    int (*host_free)(struct bench_peer *peer, void *ptr);
    int (*host_register)(struct bench_peer *peer, void *ptr, size_t bytes);
    int (*host_unregister)(struct bench_peer *peer, void *ptr);

    int (*event_record)(struct bench_peer *peer, void *event, void *stream);
    int (*event_query)(struct bench_peer *peer, void *event);

    /* Launches one thread of the kernel in image, which has the same parameters as leat_add_u32. */
    int (*launch)(struct bench_peer *peer, void *stream, void *const *args);

    /* The module that contains launch's kernel. leat loads it too, so that both sides launch the same code. NULL:
     * leat launches leat_add_u32. */
    const char *image;
    const char *image_kernel;

    /* True if pageable copies block their caller, so that two copies at once need two threads. */
    bool copies_block;

    void (*destroy)(struct bench_peer *peer);
};

/* Returns a peer with the CUDA driver's calls for an open device, or NULL with *why set to the reason.
 * with_kernel: also load the module that launch needs. */
struct bench_peer *bench_peer_cuda(leat_device *device, bool with_kernel, const char **why);

/* Returns a peer for the CPU device: it copies by memcpy() on the threads of workers, and allocates by malloc().
 * workers must have as many threads as the device uses, and must outlive the peer. */
struct bench_peer *bench_peer_cpu(struct bench_workers *workers, const leat_device_info *info, const char **why);

#endif
