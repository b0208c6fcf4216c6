/*
 * bench_peer.h - the driver's own calls, which "leat bench" measures beside leat's: one table for each driver.
 *
 * Streams, events and memory are those that leat made, as native handles, so that both sides work on the same
 * objects. Entries return 0 or the driver's error number. An entry is NULL if the driver has no such call; the
 * record then says null.
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
    char text[96]; /* name of the compared calls for the record, such as "calls of libcuda.so.1" */

    /* Make the device current for this thread, and undo that. Not timed. */
    int (*enter)(struct bench_peer *peer);
    int (*leave)(struct bench_peer *peer);

    /* Copies in stream order. A peer may postpone the copy until wait(). */
    int (*copy)(struct bench_peer *peer, void *stream, enum bench_direction direction, void *dst, const void *src,
                size_t bytes);

    /* Copies, and returns when the copy is complete, as simple programs do with pageable memory. */
    int (*copy_at_once)(struct bench_peer *peer, enum bench_direction direction, void *dst, const void *src,
                        size_t bytes);

    /* The driver's synchronous copy: when it returns, the source may change, and a destination on the host has its
     * bytes. */
    int (*copy_plain)(struct bench_peer *peer, enum bench_direction direction, void *dst, const void *src,
                      size_t bytes);
    int (*wait)(struct bench_peer *peer, void *stream);

    /* Makes many copies with one call, in stream order but in any order among themselves. NULL: the driver has no
     * such call. */
    int (*copy_batch)(struct bench_peer *peer, void *stream, void **dsts, void **srcs, size_t *sizes,
                      size_t count);

    int (*alloc)(struct bench_peer *peer, size_t bytes, void **ptr);
    int (*free)(struct bench_peer *peer, void *ptr);
    int (*alloc_async)(struct bench_peer *peer, void *stream, size_t bytes, void **ptr);
    int (*free_async)(struct bench_peer *peer, void *stream, void *ptr);

    /* The driver's pool from which alloc_async allocates. pool_watch() resets its high-water mark and, with keep,
     * lets it keep all freed memory. pool_peak() reads the mark. pool_unwatch() restores the pool's settings.
     * pool_trim() releases the pool's idle memory to the device. All are NULL if the driver reports no mark. */
    int (*pool_watch)(struct bench_peer *peer, bool keep);
    int (*pool_peak)(struct bench_peer *peer, uint64_t *bytes);
    int (*pool_unwatch)(struct bench_peer *peer);
    int (*pool_trim)(struct bench_peer *peer);

    /* pool_own() lets alloc_async use a new, empty pool that keeps all freed memory, up to limit_bytes (0: no
     * limit), until pool_disown(). By then all of its blocks must be freed. pool_peak() reads the mark of this
     * pool meanwhile. An allocation above the limit fails with the error number full. NULL: the driver has no such
     * pools. */
    int (*pool_own)(struct bench_peer *peer, uint64_t limit_bytes);
    int (*pool_disown)(struct bench_peer *peer);
    int full;

    int (*host_alloc)(struct bench_peer *peer, size_t bytes, void **ptr);
    int (*host_free)(struct bench_peer *peer, void *ptr);
    int (*host_register)(struct bench_peer *peer, void *ptr, size_t bytes);
    int (*host_unregister)(struct bench_peer *peer, void *ptr);

    int (*event_record)(struct bench_peer *peer, void *event, void *stream);
    int (*event_query)(struct bench_peer *peer, void *event);

    /* Launches one thread of the kernel in image; its parameters are those of leat_add_u32. */
    int (*launch)(struct bench_peer *peer, void *stream, void *const *args);

    /* The module of that kernel, which leat loads too, so that both sides launch the same code; NULL: leat
     * launches leat_add_u32. */
    const char *image;
    const char *image_kernel;

    /* Pageable copies block their caller, so two at once need two threads. */
    bool copies_block;

    void (*destroy)(struct bench_peer *peer);
};

/* Returns the driver's calls for an open device, or NULL with *why set if they cannot be had. with_kernel: also
 * load the module that launch needs. */
struct bench_peer *bench_peer_cuda(leat_device *device, bool with_kernel, const char **why);

/* Returns a peer that uses memcpy() by the threads of workers, and malloc(). workers must have as many threads as
 * the device uses and must outlive the peer. */
struct bench_peer *bench_peer_cpu(struct bench_workers *workers, const leat_device_info *info, const char **why);

#endif
