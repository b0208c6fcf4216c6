/*
 * leat/link.h - moves bytes between processes and machines, in stream order at both ends.
 *
 * These calls are in the library libleat-net (cc program.c $(pkg-config --cflags --libs leat-net)).
 *
 * Model. A link connects two processes, on one machine or on two. One of them listens, the other connects. Each
 * then sends and receives messages with tags, from and to any memory that leat_copy() can reach:
 *
 *     leat_listen("tcp:0.0.0.0:7000", &options, &listener);          leat_connect("tcp:node1:7000", &options, &link);
 *     leat_accept(listener, LEAT_FOREVER, &link);
 *     leat_receive(stream, weights, link, 1, bytes);                 leat_send(stream, link, 1, weights, bytes);
 *     leat_launch(stream, ...);      // runs when the bytes are there
 *
 * All calls that move bytes return at once and run in stream order, after all earlier work of the stream, which
 * continues when the copy is complete. leat's threads move the bytes between the network and a ring of pinned
 * memory, while the device's DMA engine moves other parts between the ring and the device (leat/storage.h). No
 * message is ever stored for a receive that was not made yet: the receiver tells the sender which messages it
 * wants, and the sender then sends them. So neither side needs memory for messages of the other.
 *
 * Matching. A send and a receive of the two ends belong together if they have the same tag and the same number of
 * bytes. With one tag, the first send meets the first receive, and so on, in the order of the calls. If their
 * sizes differ, both fail with LEAT_ERROR_RANGE. A send is complete when the operating system has taken all its
 * bytes, and that is only after the other end has made its receive.
 *
 * A stream waits for its copies. So two processes that both first send and then receive on one stream wait for
 * each other for ever, unless the messages are small: use one stream for each direction.
 *
 * Streams that wait on a GPU hold others up. CUDA passes the work of all streams to the device through a few queues. On
 * an H200 (driver 580.159.04) copies of other streams stood still while four streams waited for messages to come into
 * the device, and all work of other streams while eight did. If a message waits for that work, all wait for ever. So
 * let at most three streams of a device wait for messages that depend on its other streams, for instance by receiving
 * on few streams. With CUDA_DEVICE_MAX_CONNECTIONS=32 in the environment before the device is opened 24 waiting
 * streams held nothing up, but four did with staged copies behind their waits. Some driver calls also wait for
 * streams that wait, such as loading a module, cuMemFree and registering memory. leat loads its own kernels before
 * the first message on a device; load and launch yours, and register memory, before you receive.
 *
 * Regions. A process can also expose memory under a name. The other end of the link then reads it (leat_get) and
 * writes it (leat_put) without a call at this end for each message.
 *
 * Addresses.
 *
 *     tcp:HOST:PORT     HOST is a name, an IPv4 address, or an IPv6 address in brackets. PORT 0 of a listener: any
 *     unix:PATH         a socket in the file system; unix:@NAME in the abstract namespace of Linux
 *     ucx:HOST:PORT     as tcp:, and the bytes of messages go by UCX, where both ends have it (leat_link_get_info
 *                       says which transport it is). Without libucp.so.0 the call fails, and says what to install
 *
 * UCX. leat loads libucp.so.0, or the file that the environment variable LEAT_UCX_LIBRARY names. Both ends need the
 * same minor version, 1.13 or newer; otherwise the link fails. UCX chooses its network cards and its own ports, which
 * a firewall must not block: the variables UCX_TLS, UCX_NET_DEVICES and UCX_TCP_PORT_RANGE restrict them. It listens
 * there without asking for a key. leat keeps UCX from installing signal handlers, from patching functions of the C
 * library and from printing, unless a variable UCX_... asks for that.
 *
 * Who may connect. Nothing listens unless a program asks for it. A tcp: or ucx: address needs a key that both ends
 * know; each end proves to the other that it knows the key, and the key is never sent. Unless one end asks for
 * encryption (options.encrypt), the bytes themselves are neither encrypted nor authenticated: use such links on
 * networks that you trust (docs/links.md). A unix: address accepts processes of the same user, and of root; a key
 * is optional. A process of root connects to a process of another user only with a key.
 *
 * Encryption. With options.encrypt at one end or both, all bytes of the link are encrypted and authenticated, by
 * ChaCha20-Poly1305 with keys that are made for this connection only (X25519, bound to the key that both ends know).
 * A recorded connection stays secret even if that key becomes known later. One thread at each end encrypts or decrypts
 * the bytes of a link, which bounds its rate (docs/links.md has figures). A complete send may have up to 256 KiB in
 * leat's memory that the operating system has not taken yet; leat_link_close() sends them, so call it before the
 * process ends. A call with a ucx: address and encrypt fails; if only the other end asks for it, the link is encrypted
 * and uses TCP.
 *
 * Memory. The other end may send a window of each message ahead. leat keeps these bytes while the receiver's
 * stream is blocked: at most memory_bytes for all receives and gets of this end and all puts of the other. A receive
 * for whose window there is no room lets the other end send only as much as leat can move on at once: into host
 * memory nothing before its stream reaches it, into device memory what fits into its ring of pinned memory. So it
 * waits for a round trip more often, but the limit holds up no receive whose stream has reached it. It gets a
 * window when others are complete. If memory_bytes is less than window_bytes, all larger messages are received in this
 * way. The other end cannot make leat keep more: the link fails if it sends what it may not. With UCX the limit
 * counts payload too, but leat takes 1 MiB of memory for each part of more than 64 KiB, as the other end cuts it,
 * and such memory also for the parts that leat moves on at once. Small parts cost some hundred bytes more each; the
 * link fails at 65,536 of them and as many as 4 KiB fit into memory_bytes.
 *
 * Failures. A link fails as a whole: the other process ended, or was silent for idle_timeout_ns; the network
 * failed; a message broke the protocol. Every copy on the link then fails with LEAT_ERROR_LINK, and so does every
 * later call, with the reason. The ticket of a copy returns its failure, and so does the next
 * leat_stream_synchronize() of its stream, once. No byte outside of a destination is ever written.
 *
 * Threads. Any thread may call, and several may use one link. Close must be the last call on a handle. Handles are
 * pointers that leat does not check, except for NULL (LEAT_ERROR_HANDLE). The first link starts a thread of leat's that
 * watches the sockets; the last one ends it.
 *
 * Children of fork() must not use links of the parent.
 *
 * Experimental: all of this header may still change (leat/version.h).
 */
#ifndef LEAT_LINK_H
#define LEAT_LINK_H

#include <leat/copy.h>
#include <leat/layout.h>
#include <leat/virtual.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef LEAT_NO_EXPERIMENTAL /* may still change: see leat/version.h */

/* A connection to another process. It belongs to no device. */
typedef struct leat_link leat_link;

/* A socket that accepts connections. */
typedef struct leat_listener leat_listener;

/* Memory that the other end of a link may read or write. */
typedef struct leat_region leat_region;

/* Options of links. Start with LEAT_LINK_OPTIONS_INIT: zero selects the default of each field. */
typedef struct leat_link_options {
    size_t size;               /* sizeof(leat_link_options): leat/base.h */
    const void *key;           /* bytes that both ends know, at least 16; NULL: none, for unix: addresses only */
    size_t key_bytes;          /* at most 4096 */
    uint64_t setup_timeout_ns; /* for connecting, and for the proofs of the key; 0: 10 seconds */
    uint64_t idle_timeout_ns;  /* a link fails if nothing came from the other end for so long; 0: 30 seconds. Both
                                  ends send a sign of life three times in that time */
    uint64_t window_bytes;     /* how many bytes of a message may be under way before the receiver has taken them;
                                  0: 8 MiB. A link needs at least bandwidth times round trip. leat keeps so many
                                  bytes of a message in host memory if the receiver's stream is blocked */
    uint64_t memory_bytes;     /* how many received bytes of all messages leat may hold in host memory for the
                                  link; 0: 256 MiB, or four windows if that is more. See "Memory" above */
    uint32_t encrypt;          /* 1: encrypt the link, also if only this end asks for it; it needs a key */
} leat_link_options;
#define LEAT_LINK_OPTIONS_INIT LEAT_SIZED_INIT_(leat_link_options)

/*
 * Listens at an address (see above). options may be NULL.
 * Errors: INVALID (address or listener NULL; an address of no known form; a key of less than 16 or more than 4096
 * bytes; a tcp: or ucx: address, or encrypt, without a key; encrypt above 1; the size of options); LINK (the
 * system's error: the address is in use, not of this machine, not allowed); UNSUPPORTED (ucx: without UCX, or with
 * encrypt); HOST_MEMORY; SYSTEM (no thread, no descriptor); NOT_PERMITTED (inside a host function). A socket file
 * that is left of a process that has ended is replaced; one that another process listens at is not.
 */
LEAT_NODISCARD LEAT_API leat_status leat_listen(const char *address, const leat_link_options *options,
                                                leat_listener **listener);

/* Returns the address of the listener as text, with its real port: another process can connect to it, if the host
 * is not 0.0.0.0 or [::]. Errors: HANDLE; INVALID (text NULL or text_bytes 0). Longer text is truncated. */
LEAT_NODISCARD LEAT_API leat_status leat_listener_get_address(leat_listener *listener, char *text,
                                                              size_t text_bytes);

/*
 * Waits for a process that connects and knows the key, for at most timeout_ns nanoseconds (0: only checks;
 * LEAT_FOREVER: no limit). Returns LEAT_NOT_READY if none came. Processes that do not know the key, or do not prove
 * it in time, are dropped and change nothing for the others; at most 64 may try at once, and a further one takes the
 * place of the oldest. If some were dropped and none is left, leat_last_error() says why the last of them was.
 * Connections are made inside this call only: until a program makes it, processes that connect wait.
 * Errors: HANDLE; INVALID (link NULL); LINK (the system's error); HOST_MEMORY, SYSTEM, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_accept(leat_listener *listener, uint64_t timeout_ns, leat_link **link);

/* Stops listening. Links that were accepted live on. NULL does nothing. Errors: HANDLE. */
LEAT_API leat_status leat_listener_close(leat_listener *listener);

/*
 * Connects to a listener. Waits at most options->setup_timeout_ns; only the lookup of a host's name may take longer.
 * Errors: as leat_listen(); LINK (nobody listens there; the name is not known; the other end is no leat, or of
 * another version; the key is not the same; it took too long).
 */
LEAT_NODISCARD LEAT_API leat_status leat_connect(const char *address, const leat_link_options *options,
                                                 leat_link **link);

/*
 * Closes the link. Copies that are not complete at this moment fail with LINK: wait for their tickets or streams
 * first. Bytes that complete sends have given to the operating system still reach the other end. The call does not
 * wait for that; its regions end as with leat_unexpose(). NULL does nothing. Errors: HANDLE.
 */
LEAT_API leat_status leat_link_close(leat_link *link);

/* What is known about a link. */
typedef struct leat_link_info {
    size_t size;                   /* sizeof(leat_link_info): leat/base.h */
    leat_status status;            /* LEAT_OK, or LINK: the link has failed */
    char peer[128];                /* the address of the other end */
    const char *transport;         /* "tcp", "unix", or "ucx"; constant text */
    uint64_t sent_bytes;           /* payload */
    uint64_t received_bytes;       /* payload */
    uint32_t sends, receives;      /* not complete yet */
    int64_t peer_process;          /* unix: only: its process number and user, as of the connection; otherwise -1 */
    int64_t peer_user;
    uint32_t encrypted;            /* 1: all bytes of the link are encrypted */
} leat_link_info;
#define LEAT_LINK_INFO_INIT LEAT_SIZED_INIT_(leat_link_info)

/* Errors: HANDLE; INVALID (info NULL, or its size). */
LEAT_NODISCARD LEAT_API leat_status leat_link_get_info(leat_link *link, leat_link_info *info);

/* ---- messages -------------------------------------------------------------------------------------------- */

/*
 * Sends bytes bytes at src, in stream order; see "Matching" above. bytes 0 does nothing, and sends no message.
 * leat_send_start() returns a ticket too, which the caller destroys; options may be NULL. leat_ticket_cancel() and a
 * deadline stop the copy: the receive at the other end then fails with LINK, and the link lives on.
 * Errors: HANDLE; POINTER, RANGE (as leat_copy(), for src); LINK (the link has failed, and why); UNSUPPORTED,
 * HOST_MEMORY, DEVICE_LOST, DRIVER, NOT_PERMITTED (as leat_copy()); INVALID (ticket NULL, options->size).
 */
LEAT_NODISCARD LEAT_API leat_status leat_send(leat_stream *stream, leat_link *link, uint64_t tag, const void *src,
                                              size_t bytes);
LEAT_NODISCARD LEAT_API leat_status leat_send_start(leat_stream *stream, leat_link *link, uint64_t tag,
                                                    const void *src, size_t bytes,
                                                    const leat_copy_options *options, leat_ticket **ticket);

/*
 * Receives the next message with this tag into dst, in stream order; see "Matching" above. The other end may send
 * from the moment of this call, also before the stream reaches it. leat_ticket_cancel() and a deadline stop the
 * copy: the send at the other end, if there is one, then fails with LINK, and the link lives on.
 * Errors: as leat_send(), for dst.
 */
LEAT_NODISCARD LEAT_API leat_status leat_receive(leat_stream *stream, void *dst, leat_link *link, uint64_t tag,
                                                 size_t bytes);
LEAT_NODISCARD LEAT_API leat_status leat_receive_start(leat_stream *stream, void *dst, leat_link *link,
                                                       uint64_t tag, size_t bytes,
                                                       const leat_copy_options *options, leat_ticket **ticket);

/* ---- messages between layouts ------------------------------------------------------------------------------- */

/*
 * Sends an array that lies at src as layout says (leat/layout.h), in stream order. The elements travel packed, in
 * the order of a C array of layout's sizes, and nothing else does. So the message is that of leat_send() for the
 * packed array, and every receive of so many bytes meets it: a leat_receive() gets the packed array, and a
 * leat_receive_layout() puts the elements where its own layout says. The layout of the other end may have other
 * strides, another order of the dimensions in memory, or other sizes with the same number of bytes. leat compares
 * only the bytes of the two ends; that both have the same element_bytes, and read the elements in the same order,
 * is for the two programs to agree on. This sends a matrix, which the other end receives as its transpose:
 *
 *     leat_layout_dense(&a, 2, (int64_t[]){rows, columns}, 4);        // the sender
 *     leat_send_layout(stream, link, 1, src, &a);
 *
 *     leat_layout_dense(&b, 2, (int64_t[]){columns, rows}, 4);        // the receiver: b has the sizes of a,
 *     leat_layout_transpose(&b, 0, 1);                                // and its columns are dense in memory
 *     leat_receive_layout(stream, dst, &b, link, 1);
 *
 * An array that is packed already is sent from its place, as by leat_send(). For any other one the call takes
 * device memory for the packed array from leat_alloc(), which is free again when the stream has completed the
 * message. To send a large array with less memory, send slices of it (leat_layout_slice()) as messages of their
 * own: on one stream they use the same memory, one after the other. The other end must then receive the same
 * slices.
 *
 * leat reads layout before the call returns, and a list of indices as leat_copy_layout() does. If a size is 0, no
 * message is sent, whatever src is. leat_send_layout_start() returns a ticket too, which the caller destroys;
 * options may be NULL. The ticket, cancelling and deadlines are as for leat_send_start(); its bytes are those of
 * the packed array. A failed call has sent nothing and keeps nothing.
 * Errors: as leat_send(); INVALID, RANGE, UNSUPPORTED (as leat_copy_layout(), for src and its layout);
 * DEVICE_MEMORY, HOST_MEMORY (for the packed array).
 */
LEAT_NODISCARD LEAT_API leat_status leat_send_layout(leat_stream *stream, leat_link *link, uint64_t tag,
                                                     const void *src, const leat_layout *layout);
LEAT_NODISCARD LEAT_API leat_status leat_send_layout_start(leat_stream *stream, leat_link *link, uint64_t tag,
                                                           const void *src, const leat_layout *layout,
                                                           const leat_copy_options *options, leat_ticket **ticket);

/*
 * Receives the next message with this tag, which has the bytes of the packed array, and puts its elements at dst
 * as layout says, in stream order. The other end may have called leat_send_layout() or leat_send(). An array that
 * is packed in memory is received in its place. For any other one the call takes device memory for the packed
 * array, as leat_send_layout() does, and the stream unpacks it when all bytes are there. The ticket is done when
 * the elements are at dst. Its arrived_bytes are those that have come.
 *
 * Bytes between the elements are not written. If the message fails, is cancelled or passes its deadline, all
 * elements at dst are undefined. A failed call keeps nothing. After DEVICE_LOST, DRIVER, HOST_MEMORY and SYSTEM the
 * send of the other end, if there is one, may fail with LINK; after other errors it did not learn of the call.
 * Errors: as leat_receive(); INVALID, RANGE, UNSUPPORTED (as leat_copy_layout(), for dst and its layout: the
 * strides must not write a byte twice); DEVICE_MEMORY, HOST_MEMORY (for the packed array).
 */
LEAT_NODISCARD LEAT_API leat_status leat_receive_layout(leat_stream *stream, void *dst, const leat_layout *layout,
                                                        leat_link *link, uint64_t tag);
LEAT_NODISCARD LEAT_API leat_status leat_receive_layout_start(leat_stream *stream, void *dst,
                                                              const leat_layout *layout, leat_link *link,
                                                              uint64_t tag, const leat_copy_options *options,
                                                              leat_ticket **ticket);

/* ---- one message to many processes ------------------------------------------------------------------------ */

/*
 * Passes bytes bytes from one process to all others of a tree of links, in stream order at each. Every process of the
 * tree makes this call once, with the same tag and the same number of bytes: the root with parent NULL, and its bytes
 * at ptr; every other process with the link to its parent, and gets the bytes at ptr; both with the links to their
 * children, at most 64. A process passes on what it receives at once and without another copy, so a chain of n
 * processes takes hardly longer than one. Each process receives no more than its slowest child takes. The call uses
 * tag on all these links as leat_send() and leat_receive() do.
 *
 * With the tree of process number r whose parent is (r - 1) / 2 and whose children are 2 r + 1 and 2 r + 2, no process
 * sends more than twice what it receives; with a chain none sends more than that (docs/machines.md).
 *
 * If a link of a process fails, its call fails, and so do those of all processes below it, and above it as soon as
 * they send the next bytes; after a failure the bytes at ptr are undefined, except at the root. To gather bytes from
 * many processes, make a leat_receive() for each of them: window_bytes bounds what each may send ahead.
 * bytes 0 does nothing. leat_broadcast_start() returns a ticket too; options may be NULL.
 * Errors: as leat_send(); HANDLE (a link in children is NULL); INVALID (children NULL with a count; more than 64;
 * neither parent nor children; ticket NULL).
 */
LEAT_NODISCARD LEAT_API leat_status leat_broadcast(leat_stream *stream, void *ptr, size_t bytes, uint64_t tag,
                                                   leat_link *parent, leat_link *const *children, unsigned count);
LEAT_NODISCARD LEAT_API leat_status leat_broadcast_start(leat_stream *stream, void *ptr, size_t bytes, uint64_t tag,
                                                         leat_link *parent, leat_link *const *children,
                                                         unsigned count, const leat_copy_options *options,
                                                         leat_ticket **ticket);

/* ---- regions --------------------------------------------------------------------------------------------- */

/*
 * Lets the other end of the link read (LEAT_ACCESS_READ), or read and write (LEAT_ACCESS_READ_WRITE), bytes bytes
 * at ptr under a name of at most 127 bytes. Each leat_get() and leat_put() of the other end is a copy on stream,
 * in the order of their arrival, after all work that the program has submitted to stream before. leat starts at most 16
 * of them at a time. The memory, the stream and the device must live until leat_unexpose().
 * Errors: HANDLE; INVALID (a NULL pointer; an empty or too long name; an access that is neither of the two);
 * POINTER, RANGE (as leat_copy(), for ptr); BUSY (the link has a region of this name); LINK; HOST_MEMORY, SYSTEM,
 * NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_expose(leat_stream *stream, leat_link *link, const char *name, void *ptr,
                                                size_t bytes, leat_access access, leat_region **region);

/* Ends a region. Waits until no copy of the other end uses the memory: copies that are under way are cancelled, and
 * fail at the other end with LINK. NULL does nothing. Errors: HANDLE, NOT_PERMITTED. */
LEAT_API leat_status leat_unexpose(leat_region *region);

/*
 * Copies bytes bytes of a region of the other end, starting at offset, to dst, in stream order.
 * Errors: as leat_receive(); INVALID (name NULL, empty or too long). Asynchronous failures: NOT_FOUND (no such
 * region), RANGE (beyond its end), NOT_PERMITTED (its access), LINK.
 */
LEAT_NODISCARD LEAT_API leat_status leat_get(leat_stream *stream, void *dst, leat_link *link, const char *name,
                                             uint64_t offset, size_t bytes);
LEAT_NODISCARD LEAT_API leat_status leat_get_start(leat_stream *stream, void *dst, leat_link *link,
                                                   const char *name, uint64_t offset, size_t bytes,
                                                   const leat_copy_options *options, leat_ticket **ticket);

/* Copies bytes bytes at src to a region of the other end, starting at offset, in stream order. The copy is complete
 * when the bytes are in the memory of the region. Errors: as leat_get(), for src. */
LEAT_NODISCARD LEAT_API leat_status leat_put(leat_stream *stream, leat_link *link, const char *name,
                                             uint64_t offset, const void *src, size_t bytes);
LEAT_NODISCARD LEAT_API leat_status leat_put_start(leat_stream *stream, leat_link *link, const char *name,
                                                   uint64_t offset, const void *src, size_t bytes,
                                                   const leat_copy_options *options, leat_ticket **ticket);

#endif /* LEAT_NO_EXPERIMENTAL */

#ifdef __cplusplus
}
#endif

#endif
