/* carrier.c - the payload of a link by UCX. See carrier.h. */
#include "carrier.h"

#include "ucx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The end that closes waits so long for the other one (net_link.c). */
#define BYE_NS (UINT64_C(5) * 1000000000)

enum {
    SMALL_BYTES = 65536, /* fragments up to this size get memory of their size, which is not registered or kept */
    SENDS_MAX = 8,       /* blocks of one link that UCX sends at a time */
    /* Bounds the number of incomplete parts, each of which costs some hundred bytes besides its payload: one for each
     * receive, and as many as fit into the link's memory at this size. */
    PART_LEAST_BYTES = 4096,
    FREE_MAX = 16        /* free blocks that are kept */
};

/* The memory of a fragment, and UCX's request for it. */
struct leatn_block {
    struct leatn_block *next; /* in a list of the carrier */
    unsigned char *at;
    struct leatn_ucx_memory *memory; /* that at is in; NULL: at is malloc()ed */
    struct leatn_ucx_request request;
    size_t bytes;
    /* Of a receive: where the bytes belong. Both NULL: they are dropped. */
    struct leatn_op *op; /* has a reference */
    struct leatn_stash *stash;
};

struct leatn_carrier {
    struct leatn_source source; /* first: of UCX's descriptor. The loop has a reference to the link for it. */
    leat_link *link;

    /* Protected by link->lock. */
    struct leatn_ucx_worker *worker; /* NULL: ended */
    bool begun;                      /* the loop knows the source */
    bool ending;                     /* the loop shall end the worker */
    bool has_peer;                   /* the address of the other end has come */
    bool connected;
    uint64_t setup_end_ns; /* when the ends must be connected */
    uint64_t bye_end_ns;   /* after BYE: when the payload of earlier frames must be there; 0: no BYE */
    struct leatn_block *free, *sent, *received;
    unsigned free_count, sent_count, received_count;
    uint64_t last_sent, last_received; /* numbers of blocks */
};

/* Lets the loop call on_timer() soon. */
static void poke(struct leatn_carrier *carrier)
{
    if (carrier->begun)
        leatn_loop_poke(&carrier->source);
}

/* ---- blocks ---- */

static void free_block(struct leatn_block *block)
{
    if (!block->memory)
        free(block->at);
    leatn_ucx_memory_destroy(block->memory);
    free(block);
}

/* Returns a block with memory for bytes bytes, or NULL. */
static struct leatn_block *take_block(struct leatn_carrier *carrier, size_t bytes)
{
    struct leatn_block *block = carrier->free;

    if (bytes > SMALL_BYTES && block) {
        carrier->free = block->next;
        carrier->free_count--;
        return block;
    }
    block = calloc(1, sizeof *block);
    if (!block)
        return NULL;
    if (bytes <= SMALL_BYTES)
        block->at = malloc(bytes);
    else if (leatn_ucx_memory_create(LEATN_FRAGMENT_MAX, &block->memory) == LEAT_OK)
        block->at = leatn_ucx_memory_address(block->memory);
    if (block->at)
        return block;
    free(block);
    return NULL;
}

static void put_block(struct leatn_carrier *carrier, struct leatn_block *block)
{
    if (!block->memory || carrier->free_count == FREE_MAX) {
        free_block(block);
        return;
    }
    block->op = NULL;
    block->stash = NULL;
    block->next = carrier->free;
    carrier->free = block;
    carrier->free_count++;
}

void leatn_carrier_give_back(leat_link *link, struct leatn_stash *stash)
{
    put_block(link->carrier, stash->block);
}

/* ---- connecting ---- */

static void check_connection(leat_link *link)
{
    struct leatn_carrier *carrier = link->carrier;
    char reason[200];

    if (link->failed || !carrier->worker)
        return;
    if (leatn_ucx_has_failed(carrier->worker, reason, sizeof reason)) {
        leatn_link_fail(link, "%s", reason);
    } else if (!carrier->connected && carrier->has_peer && leatn_ucx_is_connected(carrier->worker)) {
        carrier->connected = true;
        leatn_message_may_send(link);
    } else if (!carrier->connected && leatc_now_ns() >= carrier->setup_end_ns) {
        leatn_link_fail(
            link,
            "UCX has not connected the two ends in %llu seconds; check that its ports are not blocked (UCX_TCP_PORT_RANGE), or use a tcp: address",
            (unsigned long long)(LEATN_SETUP_TIMEOUT_NS / 1000000000));
    }
}

void leatn_carrier_take_address(leat_link *link, const void *address, size_t bytes)
{
    struct leatn_carrier *carrier = link->carrier;

    if (!carrier || carrier->has_peer) {
        leatn_link_fail(link, "the other end sent a UCX address that it should not send");
        return;
    }
    carrier->has_peer = true;
    if (leatn_ucx_connect(carrier->worker, address, bytes, link->connection.connected) != LEAT_OK)
        leatn_link_fail(link, "%s", leat_last_error());
    poke(carrier);
}

/* ---- blocks that are complete ---- */

/* Takes the first block of a list that UCX does not use any more out of the list. */
static struct leatn_block *next_complete(struct leatn_block **list)
{
    for (; *list; list = &(*list)->next) {
        struct leatn_block *block = *list;

        if (leatn_ucx_state(&block->request) == LEATN_UCX_RUNNING)
            continue;
        *list = block->next;
        return block;
    }
    return NULL;
}

static void check_block(leat_link *link, const struct leatn_block *block)
{
    char reason[200];

    if (link->failed || leatn_ucx_state(&block->request) == LEATN_UCX_DONE)
        return;
    leatn_ucx_describe(&block->request, reason, sizeof reason);
    leatn_link_fail(link, "%s", reason);
}

static void end_received(leat_link *link, struct leatn_block *block)
{
    struct leatn_op *op = block->op;
    struct leatn_stash *stash = block->stash;
    size_t bytes = block->bytes; /* the block may be freed below */

    check_block(link, block);
    link->carrier->received_count--;
    block->op = NULL;
    if (!stash)
        put_block(link->carrier, block);
    if (!op)
        return;
    if (!link->failed)
        leatn_message_carried(link, op, stash, bytes);
    leatn_op_drop(op);
}

/* Ends the link when BYE has come and the payload of all earlier frames. */
static void check_bye(leat_link *link)
{
    struct leatn_carrier *carrier = link->carrier;

    if (carrier->bye_end_ns && (!carrier->received_count || leatc_now_ns() >= carrier->bye_end_ns))
        leatn_message_bye(link);
}

/* Acts on all requests that are complete. */
static void settle(leat_link *link)
{
    struct leatn_carrier *carrier = link->carrier;
    struct leatn_block *block;
    bool has_sent = false;

    while ((block = next_complete(&carrier->received)))
        end_received(link, block);
    while ((block = next_complete(&carrier->sent))) {
        check_block(link, block);
        carrier->sent_count--;
        put_block(carrier, block);
        has_sent = true;
    }
    if (has_sent)
        leatn_message_may_send(link);
    check_connection(link);
    check_bye(link);
}

/* ---- fragments ---- */

void leatn_carrier_take(leat_link *link, struct leatn_op *op, size_t bytes)
{
    struct leatn_carrier *carrier = link->carrier;
    struct leatn_block *block;

    if (carrier->received_count >= LEATN_RECEIVES_MAX + link->connection.memory_bytes / PART_LEAST_BYTES) {
        leatn_link_fail(link, "the other end cuts its payload into parts of a few bytes");
        return;
    }
    block = take_block(carrier, bytes);
    if (!block) {
        leatn_link_fail(link, "no memory for payload that UCX brings");
        return;
    }
    block->bytes = bytes;
    block->op = op;
    block->stash = NULL;
    if (op) {
        block->stash = leatn_message_stash_block(op, block->at, bytes);
        if (!block->stash) {
            block->op = NULL;
            put_block(carrier, block);
            leatn_link_fail(link, "no memory for payload that UCX brings");
            return;
        }
        block->stash->block = block;
        leatn_op_hold(op);
    }
    block->next = carrier->received;
    carrier->received = block;
    carrier->received_count++;
    (void)leatn_ucx_receive(carrier->worker, &block->request, block->at, block->memory, bytes,
                            ++carrier->last_received);
    poke(carrier); /* it may be complete */
}

bool leatn_carrier_defers_bye(leat_link *link)
{
    struct leatn_carrier *carrier = link->carrier;

    if (!carrier || !carrier->received_count)
        return false;
    carrier->bye_end_ns = leatc_end_ns(BYE_NS);
    poke(carrier);
    return true;
}

bool leatn_carrier_has_bye(const leat_link *link)
{
    return link->carrier && link->carrier->bye_end_ns;
}

/* Returns a block for a send, or NULL: the send must wait. Counts it as sent, so that others do not take its
 * place. */
static struct leatn_block *block_to_send(leat_link *link, size_t bytes)
{
    struct leatn_carrier *carrier = link->carrier;
    struct leatn_block *block;

    if (!carrier->connected || carrier->sent_count >= SENDS_MAX)
        return NULL;
    block = take_block(carrier, bytes);
    if (block)
        carrier->sent_count++;
    else if (!carrier->sent_count)
        leatn_link_fail(link, "no memory for payload that UCX sends");
    return block;
}

size_t leatn_carrier_send(leat_link *link, struct leatn_op *op, const void *memory, size_t bytes)
{
    struct leatn_carrier *carrier = link->carrier;
    uint64_t credit = op->want->credit - op->sent;
    struct leatn_block *block;

    if (link->failed)
        return 0;
    bytes = bytes < LEATN_FRAGMENT_MAX ? bytes : LEATN_FRAGMENT_MAX;
    bytes = bytes < credit ? bytes : (size_t)credit;
    block = block_to_send(link, bytes);
    if (!block) {
        leatn_message_wait_to_send(link, op);
        return 0;
    }
    pthread_mutex_unlock(&link->lock);
    memcpy(block->at, memory, bytes);
    pthread_mutex_lock(&link->lock);
    if (link->failed || op->status != LEAT_OK || !op->want) {
        carrier->sent_count--;
        put_block(carrier, block);
        leatn_message_may_send(link);
        return 0;
    }
    block->bytes = bytes;
    block->next = carrier->sent;
    carrier->sent = block;
    leatn_link_queue(
        link,
        &(struct leatn_frame){
            .type = LEATN_FRAME_CARRIED, .receive = op->want->number, .offset = op->sent, .bytes = bytes},
        NULL, false);
    (void)leatn_ucx_send(carrier->worker, &block->request, block->at, block->memory, bytes, ++carrier->last_sent);
    (void)leatn_link_flush(link);
    return bytes;
}

/* ---- the end of the process ---- */

/*
 * When the process ends, UCX's destructors free what UCX uses, while the thread of the loop still runs. So exit()
 * first waits until the workers of closed links are destroyed, then keeps the loop from calling UCX for other
 * links.
 */
static pthread_mutex_t exit_lock = PTHREAD_MUTEX_INITIALIZER; /* protects the three variables below */
static pthread_cond_t exit_changed = PTHREAD_COND_INITIALIZER;
static unsigned ending_count; /* carriers whose worker the loop will destroy */
static pid_t exit_process;    /* the process of these carriers: a child of fork() has none */
static bool has_exit_handler;

/* Held by the loop while it calls UCX, and taken for ever by the end of the process. */
static pthread_mutex_t ucx_lock = PTHREAD_MUTEX_INITIALIZER;

static void on_exit_of_process(void)
{
    struct timespec end;
    bool own;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 6;
    pthread_mutex_lock(&exit_lock);
    own = exit_process == getpid();
    pthread_mutex_unlock(&exit_lock);
    if (!own)
        return;
    leatn_link_wait_for_lingering();
    pthread_mutex_lock(&exit_lock);
    while (ending_count)
        if (pthread_cond_timedwait(&exit_changed, &exit_lock, &end) == ETIMEDOUT)
            break;
    pthread_mutex_unlock(&exit_lock);
    pthread_mutex_lock(&ucx_lock);
}

/* exit() calls the handler before all destructors of libraries. */
static leat_status prepare_exit(void)
{
    leat_status status = LEAT_OK;

    pthread_mutex_lock(&exit_lock);
    if (exit_process != getpid())
        ending_count = 0;
    exit_process = getpid();
    if (!has_exit_handler && atexit(on_exit_of_process))
        status = leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a handler of exit()");
    else
        has_exit_handler = true;
    pthread_mutex_unlock(&exit_lock);
    return status;
}

static void count_ending(int change)
{
    pthread_mutex_lock(&exit_lock);
    ending_count += (unsigned)change;
    pthread_cond_broadcast(&exit_changed);
    pthread_mutex_unlock(&exit_lock);
}

/* ---- the loop ---- */

static struct leatn_carrier *carrier_of(struct leatn_source *source)
{
    return (struct leatn_carrier *)(void *)source;
}

/* Called by ucx.c on any thread, perhaps with link->lock. */
static void on_change(void *object)
{
    poke(object);
}

static void free_blocks(struct leatn_block *blocks)
{
    struct leatn_block *block;

    while ((block = blocks)) {
        blocks = block->next;
        free_block(block);
    }
}

/* Ends UCX's part, which completes all requests, and leaves the loop. Unlocks, and may free the link and the
 * carrier. */
static void leave_loop(struct leatn_carrier *carrier)
{
    leat_link *link = carrier->link;
    struct leatn_ucx_worker *worker = carrier->worker;
    struct leatn_block *blocks;

    leatn_loop_remove(&carrier->source); /* before its descriptor ends */
    carrier->worker = NULL;
    leatn_link_unlock(link);
    pthread_mutex_lock(&ucx_lock);
    leatn_ucx_worker_destroy(worker);
    leatn_link_lock(link);
    settle(link);
    blocks = carrier->free;
    carrier->free = NULL;
    carrier->free_count = 0;
    leatn_link_unlock(link);
    free_blocks(blocks);
    leatn_link_release(link);
    pthread_mutex_unlock(&ucx_lock);
    count_ending(-1); /* the last step, because exit() may go on then */
}

static uint64_t on_timer(struct leatn_source *source, uint64_t now_ns)
{
    struct leatn_carrier *carrier = carrier_of(source);
    leat_link *link = carrier->link;
    uint64_t wait_ns, due_ns = UINT64_MAX;

    pthread_mutex_lock(&ucx_lock);
    wait_ns = leatn_ucx_progress(carrier->worker);
    pthread_mutex_unlock(&ucx_lock);
    leatn_link_lock(link);
    settle(link);
    if (carrier->ending) {
        leave_loop(carrier);
        return 0;
    }
    if (!carrier->connected && !link->failed)
        due_ns = carrier->setup_end_ns;
    if (carrier->bye_end_ns && !link->failed)
        due_ns = carrier->bye_end_ns < due_ns ? carrier->bye_end_ns : due_ns;
    leatn_link_unlock(link);
    if (wait_ns == LEATN_UCX_ARMED)
        leatn_loop_arm(source, EPOLLIN);
    else
        due_ns = now_ns + wait_ns < due_ns ? now_ns + wait_ns : due_ns;
    return due_ns;
}

/* timer() does the work, because it can say when it must be called again. */
static void on_event(struct leatn_source *source, uint32_t events)
{
    (void)events;
    leatn_loop_poke(source);
}

leat_status leatn_carrier_create(leat_link *link)
{
    struct leatn_carrier *carrier;
    leat_status status;

    TRY(prepare_exit());
    carrier = calloc(1, sizeof *carrier);
    if (!carrier)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the link to %s", link->connection.peer);
    status = leatn_ucx_worker_create(on_change, carrier, &carrier->worker);
    if (status != LEAT_OK) {
        free(carrier);
        return status;
    }
    carrier->link = link;
    carrier->setup_end_ns = leatc_end_ns(LEATN_SETUP_TIMEOUT_NS);
    carrier->source =
        (struct leatn_source){.fd = leatn_ucx_descriptor(carrier->worker), .event = on_event, .timer = on_timer};
    link->carrier = carrier;
    return LEAT_OK;
}

void leatn_carrier_begin(leat_link *link)
{
    struct leatn_carrier *carrier = link->carrier;
    const void *address;
    size_t bytes;

    address = leatn_ucx_worker_address(carrier->worker, &bytes);
    if (bytes > LEATN_ADDRESS_FRAME_MAX) {
        leatn_link_fail(
            link,
            "the UCX address of this process has %zu bytes, and a link can send %d; restrict its devices with UCX_NET_DEVICES",
            bytes, LEATN_ADDRESS_FRAME_MAX);
    } else {
        leatn_link_queue(link, &(struct leatn_frame){.type = LEATN_FRAME_ADDRESS, .tail_bytes = (uint32_t)bytes},
                         address, false);
        (void)leatn_link_flush(link);
    }
    if (leatn_loop_add(&carrier->source) != LEAT_OK) {
        leatn_link_fail(link, "%s", leat_last_error());
        return;
    }
    leatn_link_hold(link);
    carrier->begun = true;
}

void leatn_carrier_end(leat_link *link)
{
    struct leatn_carrier *carrier = link->carrier;

    if (!carrier || !carrier->begun)
        return;
    carrier->ending = true;
    count_ending(1);
    leatn_loop_poke(&carrier->source);
}

void leatn_carrier_free(struct leatn_carrier *carrier)
{
    if (!carrier)
        return;
    leatn_ucx_worker_destroy(carrier->worker);
    free_blocks(carrier->free);
    free(carrier);
}
