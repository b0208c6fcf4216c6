/*
 * leat/share.h - shares device memory with another process of the machine, and hands it over in stream order.
 *
 * Model. A share connects two processes that map the same device memory, without a copy. One of them creates the
 * share and sends it over a Unix socket, the other receives it. Then either side hands the memory over and takes
 * it over, in stream order and without a wait of the host:
 *
 *     // the process that has the memory                      // the other process
 *     leat_pool_alloc(stream, pool, bytes, &weights);
 *     leat_share_create(stream, weights, NULL, &share);
 *     leat_share_send(share, socket);                         leat_share_receive(device, socket, &share);
 *                                                             leat_share_get_pointer(share, &weights, &bytes);
 *     leat_copy(stream, weights, ...);                        leat_share_take_over(stream, share);   // waits
 *     leat_share_hand_over(stream, share);        ------->    leat_launch(stream, ...);           // reads weights
 *     leat_share_take_over(stream, share);        <-------    leat_share_hand_over(stream, share);
 *     leat_copy(stream, weights, ...);        // the next weights
 *
 * Order. The calls of one side are counted: its n-th leat_share_take_over() waits for the n-th
 * leat_share_hand_over() of the other side. It makes no difference which of the two calls comes first. Hand-overs
 * of different streams may become visible in any order; a stream that takes over relies only on the stream that
 * made this one hand-over. So a side that takes over with one stream and uses the memory with another needs an
 * event between the two, as always. Both sides must agree on how often they hand over. 1024 hand-overs, and as
 * many take-overs, of one side may be under way; one more is refused with BUSY until the oldest has been executed. A
 * CUDA stream has room for fewer: with about 1000 operations under way, each further call waits in the driver.
 *
 * leat does not use this order to pass other memory from stream to stream (leat/stream.h, "What leat knows").
 *
 * Which memory. A block of a pool with exportable (leat/pool.h), or physical memory with LEAT_PHYSICAL_EXPORTABLE
 * that is mapped (leat/virtual.h). Other memory is refused: the driver cannot export a part of an allocation, nor
 * memory of cudaMalloc() or leat_alloc_driver(). Both processes must use the same device. One share connects two
 * processes; create several shares of the same memory for several processes.
 *
 * Life. The physical memory lives until every process has released it: the one that owns the block has freed it
 * and its pool has returned the pages, and the other one has destroyed its share. Freeing the block does not end
 * the other process's access: the pages may then serve another block of the pool, and the other process can still
 * see them. So free the block when the other side has destroyed its share (leat_share_get_info() says so), or let
 * leat_pool_trim() return the pages before the pool serves others.
 *
 * The end of a process. Each side notices when the other one destroys its share, ends or is killed, by a socket
 * that the share has for this. From then on take-overs for which there is no hand-over cannot wait for ever: waits
 * of streams end, and the next leat_stream_synchronize() of each such stream returns LEAT_ERROR_LINK, once; what
 * the stream did after its take-over used memory that was not handed over. Hand-overs that were complete before
 * stay valid: the process that loads weights may hand them over and end. leat_share_abandon() has the same effect
 * without the end of a process. A thread of leat's watches the sockets; the first share starts it, the last one
 * ends it. A child of the other process that was made by fork() without exec() keeps the socket open: if that process
 * ends without destroying its share, this is noticed only when the child ends too. On a GPU, a process that is killed
 * may be noticed before the driver has ended its work. So give pages that it could write back to the driver
 * (leat_free(), leat_pool_trim()), before a block of them is used for anything else.
 *
 * Rights. The other process gets the memory and nothing else of the pool: leat clears the bytes between the end of
 * the block and the end of its pages before it exports them. Bytes of the block that the program has not written
 * yet are visible too, so write them first or let the pool clear its blocks (scrub). With LEAT_ACCESS_READ the CPU
 * device gives a descriptor that can never be mapped for writing, by no process; for later blocks on these pages
 * too. On CUDA a descriptor always carries full rights: there LEAT_ACCESS_READ only keeps the mapping of the other
 * process from being written, and a hostile process could map the descriptor itself. On HIP it is UNSUPPORTED.
 * Everything received is checked, so a hostile process can neither crash the other one nor make it write outside the
 * memory; but while it runs it can change the memory at any time, withhold a hand-over or pretend one, and undo what
 * has ended a wait: leat_share_abandon() and leat_device_close() end waits again. On CUDA it can make a stream wait for
 * ever: if it punches a hole into the file of counters (fallocate()), the GPU keeps the old page, and no host can write
 * that any more. So share on CUDA only with processes that you trust.
 *
 * GPUs. The tests of this header pass on the CPU device and on NVIDIA GPUs. Of AMD's, leat's driver for HIP was
 * tested only with a library that stands for the vendor's. docs/sharing.md has figures.
 *
 * Threads. Any thread may call. leat_share_destroy() must be the last call with a share.
 *
 * Experimental: all of this header may still change (leat/version.h).
 */
#ifndef LEAT_SHARE_H
#define LEAT_SHARE_H

#include <leat/stream.h>
#include <leat/virtual.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef LEAT_NO_EXPERIMENTAL /* may still change: see leat/version.h */

/* One side of a share. */
typedef struct leat_share leat_share;

/* Options of a share. Start with LEAT_SHARE_OPTIONS_INIT: zero selects the default of each field. */
typedef struct leat_share_options {
    size_t size;        /* sizeof(leat_share_options): leat/base.h */
    leat_access access; /* what the other process may do: LEAT_ACCESS_READ or, the default, READ_WRITE */
} leat_share_options;
#define LEAT_SHARE_OPTIONS_INIT LEAT_SIZED_INIT_(leat_share_options)

/*
 * Creates a share of the memory at ptr: the start of a live block of an exportable pool, or the start of a mapping
 * of exportable physical memory. options may be NULL. stream must be ordered after the allocation of the block; if
 * the block does not fill its last page, leat clears the rest in stream order. It waits for
 * stream then, and if the pool clears its blocks (scrub). The memory
 * keeps its owner: leat_share_destroy() does not free it. Memory that was shared with LEAT_ACCESS_READ on the CPU
 * device cannot be shared for writing any more.
 * Errors: HANDLE; INVALID (share NULL; the size of options; another access; memory of another device than the
 * stream's; physical memory that is not exportable); POINTER (ptr is not the start of such memory); UNSUPPORTED
 * (the driver has no virtual memory, streams cannot wait for counters; HIP: LEAT_ACCESS_READ); those of
 * leat_stream_synchronize(); HOST_MEMORY, SYSTEM (descriptors, memory files, threads), DRIVER, DEVICE_LOST,
 * NOT_PERMITTED (inside a host function).
 */
LEAT_NODISCARD LEAT_API leat_status leat_share_create(leat_stream *stream, void *ptr,
                                                      const leat_share_options *options, leat_share **share);

/*
 * Sends a share over a Unix socket, as one message of 256 bytes with three descriptors. A share can be sent once.
 * The caller keeps the socket, which may be of the type stream or seqpacket. Returns LEAT_NOT_READY, and can be
 * called again, if the socket does not block and has no room. The other side may hand over before or after this
 * call.
 * Errors: HANDLE; INVALID (no Unix socket; the share was sent before, or was received); LINK (the other end of the
 * socket is closed; part of the message could not be sent); SYSTEM, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_share_send(leat_share *share, int socket_fd);

/*
 * Receives a share and maps its memory on device, which must be the sender's device: the same PCI address or,
 * where the driver reports none, the same number. MIG devices of one GPU have the same address; there the driver
 * refuses memory of another one. Waits as the socket does: LEAT_NOT_READY if it does not block and nothing has
 * arrived. A message that was read is consumed even if the call fails; the sender then sees that the other side is
 * gone.
 * Errors: HANDLE; INVALID (share NULL; no Unix socket; the message is not a share, or of another version; a
 * descriptor or a number in it is wrong; another device); BUSY (the share was received before); LINK (the other
 * end of the socket is closed); UNSUPPORTED, HOST_MEMORY, DEVICE_MEMORY, SYSTEM, DRIVER, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_share_receive(leat_device *device, int socket_fd, leat_share **share);

/* Returns the address of the memory in this process and the size that was shared (for a block the size that was
 * requested). ptr and bytes may each be NULL. A received address is valid until leat_share_destroy(). Errors:
 * HANDLE. */
LEAT_NODISCARD LEAT_API leat_status leat_share_get_pointer(leat_share *share, void **ptr, size_t *bytes);

/*
 * Hands the memory over: when all work submitted to stream so far is complete, the other side's take-over with the
 * same number continues. The memory must not be written, or with LEAT_ACCESS_READ_WRITE at the other side not be
 * used, by this side until it has taken it over again; leat does not check that.
 * Errors: HANDLE; INVALID (a stream of another device); LINK (the other side is gone: it destroyed its share,
 * ended or was abandoned); BUSY (1024 hand-overs are under way); UNSUPPORTED (HIP: after 2^31 hand-overs);
 * HOST_MEMORY, DRIVER, DEVICE_LOST, NOT_PERMITTED (inside a host function).
 */
LEAT_NODISCARD LEAT_API leat_status leat_share_hand_over(leat_stream *stream, leat_share *share);

/*
 * Makes work that is submitted to stream from now on wait for the next hand-over of the other side. The host does
 * not wait. If the other side ends first, the stream continues, and its next leat_stream_synchronize() returns
 * LINK.
 * Errors: as leat_share_hand_over(); LINK (the other side is gone, and has not made this hand-over before).
 */
LEAT_NODISCARD LEAT_API leat_status leat_share_take_over(leat_stream *stream, leat_share *share);

/*
 * Gives up the other side, as if it had ended: ends all waits of this side for it, whose streams then report LINK.
 * The other side sees that this one is gone. Hand-overs of this side that were not complete count for nothing
 * there. leat_device_close() abandons the shares of its device before it waits for the device's work. NULL does
 * nothing.
 * Errors: HANDLE.
 */
LEAT_API leat_status leat_share_abandon(leat_share *share);

/* Properties and progress of one side of a share. */
typedef struct leat_share_info {
    size_t size; /* sizeof(leat_share_info): leat/base.h */
    leat_device *device;
    void *ptr;
    size_t bytes;             /* size that was shared */
    size_t memory_bytes;      /* size of the memory that both sides map: whole pages */
    leat_access access;       /* what the receiver may do */
    uint8_t received;         /* 1: this is the receiver's side */
    uint8_t sent;             /* 1: this is the sender's side, and the share was sent */
    uint8_t gone;             /* 1: the other side has destroyed its share or ended, or this side gave it up */
    uint64_t hand_overs;      /* calls of leat_share_hand_over() at this side */
    uint64_t hand_overs_done; /* how many of them the streams have executed */
    uint64_t take_overs;      /* calls of leat_share_take_over() at this side */
    uint64_t take_overs_done; /* how many of them the streams have passed */
} leat_share_info;
#define LEAT_SHARE_INFO_INIT LEAT_SIZED_INIT_(leat_share_info)

/* Returns the properties of a share. Errors: HANDLE, INVALID (info NULL, or its size). */
LEAT_NODISCARD LEAT_API leat_status leat_share_get_info(leat_share *share, leat_share_info *info);

/*
 * Destroys this side of a share. At the receiver this unmaps the memory, so all work that uses it must be
 * complete, as for leat_memory_free(). NULL does nothing. A stream that has not executed a hand-over or passed a
 * take-over yet still needs the share's counters; then the call returns BUSY and changes nothing: synchronize the
 * stream first, and if it waits for the other side, leat_share_abandon() first. leat_device_close() destroys the
 * shares of its device.
 * Errors: HANDLE, BUSY, NOT_PERMITTED; DRIVER (the share is gone anyway).
 */
LEAT_API leat_status leat_share_destroy(leat_share *share);

#endif /* LEAT_NO_EXPERIMENTAL */

#ifdef __cplusplus
}
#endif

#endif
