/*
 * ucx.h - UCX as the carrier of payload: the part of UCX that libleat-net uses, behind calls that never wait.
 *
 * Model. A link has one worker of UCX and one endpoint, which leads to the worker of the other end. The two ends
 * exchange the addresses of their workers over the link's control socket, then each connects. From then on both
 * send and receive blocks of bytes. A send meets the receive with the same id. Ids must be unique among the blocks
 * of a link that are under way in one direction:
 *
 *     leatn_ucx_worker_create(on_change, link, &worker);                   // also loads UCX, for the first worker
 *     address = leatn_ucx_worker_address(worker, &bytes);                  // to the other end
 *     leatn_ucx_connect(worker, peer_address, peer_bytes, is_first);       // then until leatn_ucx_is_connected()
 *     leatn_ucx_receive(worker, &request, memory, NULL, 1 << 20, id);
 *     ...                                                                  // until leatn_ucx_state() is not
 * RUNNING leatn_ucx_close(worker, true);                                       // until leatn_ucx_is_closed()
 *     leatn_ucx_worker_destroy(worker);
 *
 * Progress. UCX moves bytes only inside calls. The thread that watches the link's sockets also watches
 * leatn_ucx_descriptor() for reading, once (EPOLLONESHOT), and calls leatn_ucx_progress() when it is readable.
 * What that returns says whether to watch it again at once or after a time. No thread needs to poll: polling takes
 * the processor from the other end where cores are few. Sends and receives also let UCX work, on the thread that
 * calls them.
 *
 * Threads. Any thread may call, except that destroy must be the last call on a worker. Each worker has one lock of
 * ours, and UCX is told that calls come one at a time (UCS_THREAD_MODE_SERIALIZED). The states of requests need
 * the lock anyway, and with UCS_THREAD_MODE_MULTI UCX would take a second one inside. Workers of different links
 * work at the same time.
 *
 * Memory. The bytes of a request belong to UCX until its state is not RUNNING, also after leatn_ucx_cancel(). So a
 * caller whose memory may go away earlier, such as the memory that move() of leat/storage.h gets, needs memory of
 * its own in between (leatn_ucx_memory_create). That memory is registered with the network card once. All memory
 * is host memory, and UCX is told so: it never asks a GPU's driver what an address is.
 *
 * What is left in the process. UCX is loaded so that it installs no signal handlers, patches no functions of the C
 * library, and prints nothing; ucx.c says how. Variables of the environment that the user sets, such as UCX_TLS or
 * UCX_LOG_LEVEL, keep their effect. UCX stays loaded until the process ends. While a worker lives, UCX has one
 * thread, with signals blocked. Its descriptors are not close-on-exec.
 *
 * Security. A worker listens at a TCP port of each network device, and UCX does not ask who connects. So this
 * carrier is for networks that the user trusts. UCX_NET_DEVICES restricts the devices.
 *
 * fork(). A child must not use the workers of its parent, and cannot create workers of its own while its parent's
 * copy of them is in its memory.
 */
#ifndef LEATN_UCX_H
#define LEATN_UCX_H

#include <leat/status.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most bytes that leat gives to one request: a fragment of a message. */
#define LEATN_UCX_FRAGMENT_MAX ((size_t)1 << 20)

/* The most bytes of a worker's address that leatn_ucx_connect() accepts. Real ones have 200 bytes to a few
 * thousand. */
#define LEATN_UCX_ADDRESS_MAX 65536u

/* What leatn_ucx_progress() returns if the descriptor alone tells when to call again. */
#define LEATN_UCX_ARMED UINT64_MAX

struct leatn_ucx_worker;
struct leatn_ucx_memory;

enum leatn_ucx_state {
    LEATN_UCX_IDLE,    /* never started: all bytes 0 */
    LEATN_UCX_RUNNING, /* UCX may read or write the memory */
    LEATN_UCX_DONE,
    LEATN_UCX_FAILED, /* leatn_ucx_describe() says why */
};

/* One send or receive. The caller owns the struct and sets all its bytes to 0 before the first use. It may be used
 * again, or freed, when the state is not RUNNING. Only ucx.c uses the fields. */
struct leatn_ucx_request {
    atomic_int state; /* the last field that ucx.c writes at the end of a request: release, and acquire to read */
    bool receive;
    int8_t code;  /* UCX's status, after a failure */
    size_t bytes; /* what was asked */
    size_t moved; /* of a receive: the size of the block that came */
    void *handle; /* UCX's request; NULL: not started, or complete */
    struct leatn_ucx_worker *worker;
    struct leatn_ucx_request *next, **link; /* in the list of the worker's requests that are RUNNING */
};

/*
 * Creates a worker. Loads and starts UCX if no other worker exists. changed(object) is called when the state of a
 * request has changed, or the endpoint has connected, failed or closed: on any thread that calls a function of
 * this file, and without locks. It must not call functions of this file. Errors: UNSUPPORTED (no UCX, or one that
 * leat cannot use: the message says what to install), HOST_MEMORY, SYSTEM, NOT_PERMITTED (a child of fork()).
 */
LEAT_NODISCARD leat_status leatn_ucx_worker_create(void (*changed)(void *object), void *object,
                                                   struct leatn_ucx_worker **worker);

/* Ends everything at once, and frees the worker. Requests that are still RUNNING fail, and UCX does not touch
 * their memory after this call. changed() is not called any more. NULL does nothing. */
void leatn_ucx_worker_destroy(struct leatn_ucx_worker *worker);

/* Returns the address of the worker, with the version of UCX in front. It lives as long as the worker. */
const void *leatn_ucx_worker_address(const struct leatn_ucx_worker *worker, size_t *bytes);

/* Returns a descriptor that is readable when leatn_ucx_progress() has work. It belongs to the worker. */
int leatn_ucx_descriptor(const struct leatn_ucx_worker *worker);

/*
 * Begins to connect to the other end. Call it once for a worker. One end of the link is the first one, and the
 * other end is not. The call does not wait: leatn_ucx_is_connected() tells when sends may start,
 * leatn_ucx_has_failed() that they never will. UCX may need minutes to find out that it cannot connect, so the
 * caller sets a limit. UCX itself reads the address and does not expect a hostile one: the caller must have
 * checked who sent it. Errors: INVALID (bytes is too small, or more than LEATN_UCX_ADDRESS_MAX), LINK (the other
 * end has another minor version of UCX; no transport leads to it), SYSTEM (UCX's reason), HOST_MEMORY.
 */
LEAT_NODISCARD leat_status leatn_ucx_connect(struct leatn_ucx_worker *worker, const void *address, size_t bytes,
                                             bool first);

/* Returns true when both ends have heard of each other. */
bool leatn_ucx_is_connected(struct leatn_ucx_worker *worker);

/*
 * Start to send or to receive a block of bytes, at least 1 and at most LEATN_UCX_FRAGMENT_MAX. A receive may start
 * before the ends are connected. id: any number but UINT64_MAX. in: the registered memory that contains the bytes,
 * or NULL. Return false if the request failed at once; its state then tells too. A
 * receive fails if the block that comes has another size.
 */
bool leatn_ucx_send(struct leatn_ucx_worker *worker, struct leatn_ucx_request *request, const void *memory,
                    const struct leatn_ucx_memory *in, size_t bytes, uint64_t id);
bool leatn_ucx_receive(struct leatn_ucx_worker *worker, struct leatn_ucx_request *request, void *memory,
                       const struct leatn_ucx_memory *in, size_t bytes, uint64_t id);

static inline enum leatn_ucx_state leatn_ucx_state(const struct leatn_ucx_request *request)
{
    return (enum leatn_ucx_state)atomic_load_explicit(&request->state, memory_order_acquire);
}

/*
 * Asks UCX to end a request. A receive that no block has met yet fails at once. One whose block is coming ends as
 * if it had not been cancelled. A send cannot be cancelled: it ends when the other end has received the block, or
 * with the endpoint. So after a receive was given up, its sender must be told, and blocks that are under way must
 * still be received. Does nothing for a request that is not RUNNING.
 */
void leatn_ucx_cancel(struct leatn_ucx_request *request);

/* Writes why a request failed, also after its worker was destroyed, such as "the UCX transfer failed: Connection
 * reset by remote peer". */
void leatn_ucx_describe(const struct leatn_ucx_request *request, char *text, size_t text_bytes);

/*
 * Lets UCX work, until it has nothing to do or has had its share, then arms the descriptor. Returns
 * LEATN_UCX_ARMED if the descriptor tells when to call again. Otherwise the caller must not watch the descriptor
 * now, which may stay readable, and calls again after so many nanoseconds: UCX has work that no event announces,
 * such as bytes for a queue in shared memory that is full, or an event of which its own thread takes care.
 */
uint64_t leatn_ucx_progress(struct leatn_ucx_worker *worker);

/* Lets UCX work, and does not arm the descriptor. Returns true if UCX did something. For a thread that polls for a
 * short time; it must call leatn_ucx_progress() before it waits. */
bool leatn_ucx_poll(struct leatn_ucx_worker *worker);

/* Returns true if the endpoint has failed, and writes why. text may be NULL. All requests then fail. */
bool leatn_ucx_has_failed(struct leatn_ucx_worker *worker, char *text, size_t text_bytes);

/*
 * Begins to close the endpoint. flush: what was sent still reaches the other end, as far as it makes receives;
 * otherwise all requests fail. The end that closes first makes the endpoint of the other end fail, so the two ends
 * must agree over the control socket first that all blocks have come. Later calls: the first one with flush false
 * ends a flush that is under way.
 */
void leatn_ucx_close(struct leatn_ucx_worker *worker, bool flush);

/* Returns true when a close is complete, or there is no endpoint. */
bool leatn_ucx_is_closed(struct leatn_ucx_worker *worker);

/* Creates memory for blocks, bytes bytes, aligned to pages, and registers it with the devices that UCX uses. The
 * caller has a worker, and destroys the memory before its last worker. Errors: HOST_MEMORY, SYSTEM. */
LEAT_NODISCARD leat_status leatn_ucx_memory_create(size_t bytes, struct leatn_ucx_memory **memory);
void leatn_ucx_memory_destroy(struct leatn_ucx_memory *memory);
void *leatn_ucx_memory_address(const struct leatn_ucx_memory *memory);

/* Writes what UCX is and uses, as lines of text: its version and file, the kinds of memory that it can move and
 * why not more, and the transports of the worker's endpoint. worker may be NULL: then leat loads UCX for the
 * answer, or says why it cannot. */
void leatn_ucx_explain(struct leatn_ucx_worker *worker, char *text, size_t text_bytes);

#endif
