/*
 * bench_peer.h - the driver's own calls, which "leat bench" measures beside leat's. One table for each vendor.
 *
 * Streams, events and memory are those that leat made, by their native handles, so that both sides work on the
 * same objects. Entries return 0 or the vendor's error number. An entry that the driver has no call for is NULL,
 * and the record then says null.
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
    char text[96]; /* what it is, for the record: "calls of libcuda.so.1" */

    /* Makes the device current for this thread, and undoes it. Never timed. */
    int (*enter)(struct bench_peer *peer);
    int (*leave)(struct bench_peer *peer);

    /* A copy in stream order. It may be put off until wait(). */
    int (*copy)(struct bench_peer *peer, void *stream, enum bench_direction direction, void *dst, const void *src,
                size_t bytes);

    /* A copy that is complete at the return: what a plain program does with ordinary memory. */
    int (*copy_at_once)(struct bench_peer *peer, enum bench_direction direction, void *dst, const void *src,
                        size_t bytes);

    /* The driver's plain call: when it returns, the source may change and a host's destination has its bytes. */
    int (*copy_plain)(struct bench_peer *peer, enum bench_direction direction, void *dst, const void *src,
                      size_t bytes);
    int (*wait)(struct bench_peer *peer, void *stream);

    /* Many copies in stream order by one call, with no order among them. NULL: the driver has no such call. */
    int (*copy_batch)(struct bench_peer *peer, void *stream, void **dsts, void **srcs, size_t *sizes,
                      size_t count);

    int (*alloc)(struct bench_peer *peer, size_t bytes, void **ptr);
    int (*free)(struct bench_peer *peer, void *ptr);
    int (*alloc_async)(struct bench_peer *peer, void *stream, size_t bytes, void **ptr);
    int (*free_async)(struct bench_peer *peer, void *stream, void *ptr);

    /* The driver's pool behind alloc_async: pool_watch() starts its high-water mark anew and, with keep, lets it
     * keep all memory that it gets; pool_peak() reads the mark; pool_unwatch() gives the pool its settings back;
     * pool_trim() gives the memory that it holds idle to the device. All NULL where the driver does not say. */
    int (*pool_watch)(struct bench_peer *peer, bool keep);
    int (*pool_peak)(struct bench_peer *peer, uint64_t *bytes);
    int (*pool_unwatch)(struct bench_peer *peer);
    int (*pool_trim)(struct bench_peer *peer);

    /* An empty pool of its own behind alloc_async, which keeps all memory that it gets, up to limit_bytes (0: no
     * limit), until pool_disown(), when nothing may be allocated from it. pool_peak() reads its mark meanwhile,
     * and what does not fit fails with the number full. NULL where the driver has none. */
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

    /* That kernel's module, which leat loads as well; NULL: the comparison is with leat_add_u32. */
    const char *image;
    const char *image_kernel;

    /* Pageable copies hold their caller up, so that two at once need two threads. */
    bool copies_block;

    void (*destroy)(struct bench_peer *peer);
};

/* The driver's calls for an open device, or NULL where there is nothing to compare with; why then says why.
 * with_kernel: also load the module that launch needs. */
struct bench_peer *bench_peer_cuda(leat_device *device, bool with_kernel, const char **why);

/* memcpy and malloc by the threads of workers, as many as the device uses. workers must outlive the peer. */
struct bench_peer *bench_peer_cpu(struct bench_workers *workers, const leat_device_info *info, const char **why);

#endif
