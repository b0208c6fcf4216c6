/*
 * ucx.c - workers, endpoints and requests of UCX (ucx.h).
 *
 * Progress. ucp_worker_progress() moves bytes and calls the callbacks below, so all of them run under the worker's
 * lock. Before a thread waits for the descriptor, ucp_worker_progress() must have returned 0 and ucp_worker_arm()
 * must have succeeded after that. So a send or a receive that is not complete at once does both; if it cannot arm,
 * it makes the descriptor readable with ucp_worker_signal(), and the thread that watches it continues.
 *
 * Connecting. Both ends need an endpoint, but they must not make them at the same time: UCX 1.13 aborts the
 * process if two TCP connections between the same workers meet and one of the ends goes away at that moment. So
 * the first end makes its endpoint and sends a greeting of one byte. When this has come, the second end makes its
 * own, for which UCX uses the connection that is there, and sends a greeting too.
 *
 * Failures. UCX ends the sends of an endpoint that has failed, but not the receives, because a receive is not
 * bound to an endpoint. A worker of ours has one endpoint, so ucx.c then cancels all its receives.
 */
#include "ucx.h"

#include "net.h"
#include "ucx_load.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    ROUNDS = 64,         /* calls of ucp_worker_progress() before others get their turn */
    ROUNDS_TO_END = 1000 /* the same while a worker is destroyed */
};

/* The id of the blocks of one byte by which the two ends find out that they are connected. */
#define GREETING UINT64_MAX

#define UNREACHABLE_FORMAT                                                                                        \
    "UCX %s has no transport to the other end; check that UCX_TLS and UCX_NET_DEVICES allow one at both ends, or use a tcp: address"

/* A send before the ends are connected, or a request after leatn_ucx_close(). UCX's number for it. */
#define NOT_CONNECTED ((ucx_status)-24)

struct leatn_ucx_worker {
    const struct leatn_ucx_process *ucx;
    void (*changed)(void *object);
    void *object;
    ucx_worker worker;
    unsigned char *address; /* a version, see below, and UCX's address */
    size_t address_bytes;
    int descriptor;

    /* Guards all fields below, the fields of requests that are RUNNING, and all calls of UCX for this worker. */
    pthread_mutex_t lock;
    ucx_endpoint endpoint; /* NULL: not connected, or closed */
    void *peer;            /* the address of the other end, until this end connects */
    bool connected;
    struct leatn_ucx_request greeting_in, greeting_out;
    unsigned char greetings[2]; /* the bytes of these two */
    void *closing;              /* UCX's request; NULL: not begun, or complete */
    bool closed;                /* leatn_ucx_close() was called */
    ucx_status failure;         /* of the endpoint; LEATN_UCS_OK: none */
    bool receives_ended;        /* the receives were cancelled after the failure or the close */
    bool has_changed;           /* changed() must be called after the lock was released */
    unsigned idle_rounds;       /* calls of leatn_ucx_progress() in a row that did nothing and could not arm */
    struct leatn_ucx_request *running;
    const struct leatn_ucx_request *starting; /* its call of UCX has not returned */
};

/* In front of an address: different versions do not understand each other. Between 1.13 and 1.22 requests fail,
 * and processes are aborted. */
struct version {
    uint16_t major, minor;
};

struct leatn_ucx_memory {
    const struct leatn_ucx_process *ucx;
    void *address;
    size_t bytes;
    ucx_memory handle;
};

/* ---- statuses ---- */

static bool is_request(const void *pointer)
{
    return (uintptr_t)pointer - 1 < (uintptr_t)(intptr_t)LEATN_UCS_ERR_LAST - 1;
}

static ucx_status status_of(const void *pointer)
{
    return (ucx_status)(intptr_t)pointer;
}

static leat_status fail_call(const struct leatn_ucx_process *ucx, const char *call, ucx_status code)
{
    return leatc_fail(code == LEATN_UCS_ERR_NO_MEMORY ? LEAT_ERROR_HOST_MEMORY : LEAT_ERROR_SYSTEM,
                      "UCX %s: %s: %s", ucx->version, call, leatn_ucx_status_text(code));
}

/* ---- requests; the caller holds the worker's lock ---- */

static void begin(struct leatn_ucx_worker *worker, struct leatn_ucx_request *request, bool receive, size_t bytes)
{
    *request = (struct leatn_ucx_request){
        .receive = receive, .bytes = bytes, .worker = worker, .next = worker->running, .link = &worker->running};
    if (worker->running)
        worker->running->link = &request->next;
    worker->running = request;
    atomic_store_explicit(&request->state, LEATN_UCX_RUNNING, memory_order_relaxed);
}

/* Ends a request. Its owner may free it as soon as the state is stored, so nothing may use it after that. */
static void finish(struct leatn_ucx_request *request, ucx_status code, size_t moved)
{
    bool done = code == LEATN_UCS_OK && moved == request->bytes;

    *request->link = request->next;
    if (request->next)
        request->next->link = request->link;
    request->handle = NULL;
    request->code = code;
    request->moved = moved;
    request->worker->has_changed = true;
    /* Release: whoever sees the state sees the bytes of a receive and the fields above. */
    atomic_store_explicit(&request->state, done ? LEATN_UCX_DONE : LEATN_UCX_FAILED, memory_order_release);
}

/* Called by UCX. It frees its request, unless the call that started it has not returned: then start() does. */
static void end(void *handle, struct leatn_ucx_request *request, ucx_status code, size_t moved)
{
    struct leatn_ucx_worker *worker = request->worker;
    bool starting = worker->starting == request;

    finish(request, code, moved);
    if (starting)
        worker->starting = NULL;
    else
        worker->ucx->api.request_free(handle);
}

static void on_sent(void *handle, ucx_status code, void *user_data)
{
    struct leatn_ucx_request *request = user_data;

    end(handle, request, code, request->bytes);
}

static void on_received(void *handle, ucx_status code, const ucx_tag_info *info, void *user_data)
{
    end(handle, user_data, code, code == LEATN_UCS_OK ? info->bytes : 0);
}

/* Calls UCX for a request that has begun. Returns its answer. */
static void *call(struct leatn_ucx_worker *worker, struct leatn_ucx_request *request, void *memory,
                  const struct leatn_ucx_memory *in, uint64_t id)
{
    ucx_request_parameters parameters = {
        .mask = LEATN_UCP_OP_ATTR_FIELD_CALLBACK | LEATN_UCP_OP_ATTR_FIELD_USER_DATA |
                LEATN_UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .user_data = request,
        .memory_type = LEATN_UCS_MEMORY_TYPE_HOST,
    };

    if (in) {
        parameters.mask |= LEATN_UCP_OP_ATTR_FIELD_MEMH;
        parameters.memory = in->handle;
    }
    if (!request->receive) {
        parameters.call.sent = on_sent;
        return worker->ucx->api.tag_send(worker->endpoint, memory, request->bytes, id, &parameters);
    }
    /* A block may be there already. Then UCX calls on_received() at once, which gets the size of the block;
     * without this flag it would report the size in another way, which not all paths of 1.13 do. */
    parameters.mask |= LEATN_UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    parameters.call.received = on_received;
    return worker->ucx->api.tag_receive(worker->worker, memory, request->bytes, id, UINT64_MAX, &parameters);
}

/* Starts a request. Returns false if it has failed at once. */
static bool post(struct leatn_ucx_worker *worker, struct leatn_ucx_request *request, void *memory,
                 const struct leatn_ucx_memory *in, uint64_t id)
{
    ucx_status code = LEATN_UCS_OK;
    void *answer;

    worker->starting = request;
    answer = call(worker, request, memory, in, id);
    if (!is_request(answer)) {
        code = status_of(answer);
        finish(request, code, request->bytes); /* only a send completes like this */
    } else if (worker->starting) {
        request->handle = answer;
    } else {
        worker->ucx->api.request_free(answer); /* a callback has ended the request */
    }
    worker->starting = NULL;
    return code == LEATN_UCS_OK;
}

static void cancel(struct leatn_ucx_worker *worker, struct leatn_ucx_request *request)
{
    if (request->receive && request->handle)
        worker->ucx->api.request_cancel(worker->worker, request->handle);
}

/* Cancelling may call on_received() at once, which removes that request from the list, and no other. */
static void cancel_receives(struct leatn_ucx_worker *worker)
{
    struct leatn_ucx_request *next;

    worker->receives_ended = true;
    for (struct leatn_ucx_request *request = worker->running; request; request = next) {
        next = request->next;
        cancel(worker, request);
    }
}

/* ---- connecting; the caller holds the worker's lock ---- */

static void on_failure(void *argument, ucx_endpoint endpoint, ucx_status code)
{
    struct leatn_ucx_worker *worker = argument;

    (void)endpoint;
    worker->failure = code;
    worker->has_changed = true;
}

/* Makes the endpoint and sends the greeting. */
static ucx_status create_endpoint(struct leatn_ucx_worker *worker)
{
    /* PEER: sends end when the other end is gone, and closing by force is allowed. */
    ucx_endpoint_parameters parameters = {
        .field_mask = LEATN_UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | LEATN_UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      LEATN_UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = worker->peer,
        .error_mode = LEATN_UCP_ERR_HANDLING_MODE_PEER,
        .error_handler = {on_failure, worker},
    };
    ucx_status code;
    sigset_t before;

    leatn_ucx_block_signals(&before);
    code = worker->ucx->api.endpoint_create(worker->worker, &parameters, &worker->endpoint);
    leatn_ucx_restore_signals(&before);
    free(worker->peer);
    worker->peer = NULL;
    if (code != LEATN_UCS_OK) {
        worker->endpoint = NULL;
        return code;
    }
    begin(worker, &worker->greeting_out, false, 1);
    (void)post(worker, &worker->greeting_out, &worker->greetings[1], NULL, GREETING);
    return LEATN_UCS_OK;
}

/* Looks whether the greeting of the other end has come. The second end then makes its endpoint. */
static void continue_connecting(struct leatn_ucx_worker *worker)
{
    ucx_status code;

    if (worker->connected || worker->closed || worker->failure != LEATN_UCS_OK ||
        leatn_ucx_state(&worker->greeting_in) != LEATN_UCX_DONE)
        return;
    if (!worker->endpoint) {
        code = create_endpoint(worker);
        if (code != LEATN_UCS_OK)
            on_failure(worker, NULL, code);
    }
    if (leatn_ucx_state(&worker->greeting_out) == LEATN_UCX_DONE) {
        worker->connected = true;
        worker->has_changed = true;
    }
}

/* ---- progress; the caller holds the worker's lock ---- */

static void look_at_close(struct leatn_ucx_worker *worker)
{
    if (!worker->closing || worker->ucx->api.request_status(worker->closing) == LEATN_UCS_INPROGRESS)
        return;
    worker->ucx->api.request_free(worker->closing);
    worker->closing = NULL;
    worker->endpoint = NULL;
    worker->has_changed = true;
}

/* Lets UCX work. Returns true if it has nothing more to do now. */
static bool work(struct leatn_ucx_worker *worker, bool *did)
{
    unsigned round = 0;

    while (round < ROUNDS && worker->ucx->api.worker_progress(worker->worker))
        round++;
    *did = round > 0;
    continue_connecting(worker);
    look_at_close(worker);
    if (worker->failure != LEATN_UCS_OK && !worker->receives_ended)
        cancel_receives(worker);
    return round < ROUNDS;
}

/* Releases the lock and tells the owner of the worker if something has changed. */
static void unlock(struct leatn_ucx_worker *worker)
{
    bool has_changed = worker->has_changed;

    worker->has_changed = false;
    pthread_mutex_unlock(&worker->lock);
    if (has_changed)
        worker->changed(worker->object);
}

/* After a request that is not complete: see "Progress" at the top. */
static void work_and_arm(struct leatn_ucx_worker *worker)
{
    bool did;

    if (!work(worker, &did) || worker->ucx->api.worker_arm(worker->worker) != LEATN_UCS_OK)
        (void)worker->ucx->api.worker_signal(worker->worker);
}

/* ---- sends and receives ---- */

/* Why a request cannot start, or LEATN_UCS_OK. A receive may start before this end is connected. */
static ucx_status refusal(const struct leatn_ucx_worker *worker, bool receive)
{
    if (worker->failure != LEATN_UCS_OK)
        return worker->failure;
    return worker->closed || (!receive && !worker->connected) ? NOT_CONNECTED : LEATN_UCS_OK;
}

static bool start(struct leatn_ucx_worker *worker, struct leatn_ucx_request *request, bool receive, void *memory,
                  const struct leatn_ucx_memory *in, size_t bytes, uint64_t id)
{
    ucx_status code;
    bool started = false;

    pthread_mutex_lock(&worker->lock);
    begin(worker, request, receive, bytes);
    code = refusal(worker, receive);
    if (code == LEATN_UCS_OK)
        started = post(worker, request, memory, in, id);
    else
        finish(request, code, 0);
    if (started)
        work_and_arm(worker);
    unlock(worker);
    return started;
}

bool leatn_ucx_send(struct leatn_ucx_worker *worker, struct leatn_ucx_request *request, const void *memory,
                    const struct leatn_ucx_memory *in, size_t bytes, uint64_t id)
{
    return start(worker, request, false, (void *)(uintptr_t)memory, in, bytes, id);
}

bool leatn_ucx_receive(struct leatn_ucx_worker *worker, struct leatn_ucx_request *request, void *memory,
                       const struct leatn_ucx_memory *in, size_t bytes, uint64_t id)
{
    return start(worker, request, true, memory, in, bytes, id);
}

void leatn_ucx_cancel(struct leatn_ucx_request *request)
{
    struct leatn_ucx_worker *worker = request->worker;

    if (leatn_ucx_state(request) != LEATN_UCX_RUNNING)
        return;
    pthread_mutex_lock(&worker->lock);
    if (leatn_ucx_state(request) == LEATN_UCX_RUNNING) /* it cannot change while the lock is held */
        cancel(worker, request);
    unlock(worker);
}

void leatn_ucx_describe(const struct leatn_ucx_request *request, char *text, size_t text_bytes)
{
    if (leatn_ucx_state(request) != LEATN_UCX_FAILED)
        snprintf(text, text_bytes, "the UCX transfer has not failed");
    else if (request->code == LEATN_UCS_OK)
        snprintf(text, text_bytes, "the UCX transfer brought %zu bytes instead of %zu", request->moved,
                 request->bytes);
    else
        snprintf(text, text_bytes, "the UCX transfer of %zu bytes failed: %s", request->bytes,
                 leatn_ucx_status_text(request->code));
}

/* ---- progress ---- */

/* UCX did nothing, but is not asleep. Returns how long to wait: at first not at all, since the reason is mostly an
 * event that has just come, then longer, since a peer whose queue is full may need long. */
static uint64_t idle_ns(unsigned rounds)
{
    static const uint64_t waits[] = {0, 0, 20000, 50000, 100000, 200000, 500000};
    unsigned last = sizeof waits / sizeof waits[0] - 1;

    return waits[rounds < last ? rounds : last];
}

/* Arms the descriptor. Returns false if UCX has more work. The descriptor may also be readable in spite of the
 * arming, for an event that only UCX's own thread handles, such as a connection that is being made; who waited for
 * the descriptor then would spin. */
static bool arm(struct leatn_ucx_worker *worker, bool did)
{
    struct pollfd watched = {.fd = worker->descriptor, .events = POLLIN};

    if (worker->ucx->api.worker_arm(worker->worker) != LEATN_UCS_OK)
        return false;
    return did || poll(&watched, 1, 0) == 0;
}

uint64_t leatn_ucx_progress(struct leatn_ucx_worker *worker)
{
    uint64_t wait_ns = 0;
    bool did;

    pthread_mutex_lock(&worker->lock);
    if (work(worker, &did)) {
        if (arm(worker, did))
            wait_ns = LEATN_UCX_ARMED;
        else if (!did)
            wait_ns = idle_ns(worker->idle_rounds++);
    }
    if (did || wait_ns == LEATN_UCX_ARMED)
        worker->idle_rounds = 0;
    unlock(worker);
    return wait_ns;
}

bool leatn_ucx_poll(struct leatn_ucx_worker *worker)
{
    bool did;

    pthread_mutex_lock(&worker->lock);
    (void)work(worker, &did);
    unlock(worker);
    return did;
}

/* ---- the endpoint ---- */

static leat_status check_version(const struct leatn_ucx_worker *worker, const void *address, size_t bytes)
{
    const struct leatn_ucx_process *ucx = worker->ucx;
    struct version version;

    if (bytes <= sizeof version || bytes > LEATN_UCX_ADDRESS_MAX)
        return leatc_fail(LEAT_ERROR_INVALID, "the other end's UCX address has %zu bytes; it needs %zu to %u",
                          bytes, sizeof version + 1, LEATN_UCX_ADDRESS_MAX);
    memcpy(&version, address, sizeof version);
    if (version.major == ucx->major && version.minor == ucx->minor)
        return LEAT_OK;
    return leatc_fail(
        LEAT_ERROR_LINK,
        "the other end has UCX %u.%u and this end has %u.%u, and these do not understand each other; install the same version at both ends, or use a tcp: address",
        version.major, version.minor, ucx->major, ucx->minor);
}

leat_status leatn_ucx_connect(struct leatn_ucx_worker *worker, const void *address, size_t bytes, bool first)
{
    const size_t skip = sizeof(struct version);
    ucx_status code;
    void *copy;

    TRY(check_version(worker, address, bytes));
    /* UCX reads numbers in it, so it must be aligned, and it does not know where the address ends: a damaged one
     * then meets zeros instead of other memory. */
    copy = calloc(1, 2 * bytes + 4096);
    if (!copy)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "out of host memory (the other end's UCX address)");
    memcpy(copy, (const char *)address + skip, bytes - skip);
    pthread_mutex_lock(&worker->lock);
    worker->peer = copy;
    begin(worker, &worker->greeting_in, true, 1);
    (void)post(worker, &worker->greeting_in, &worker->greetings[0], NULL, GREETING);
    code = first ? create_endpoint(worker) : LEATN_UCS_OK;
    if (code == LEATN_UCS_OK)
        work_and_arm(worker);
    unlock(worker);
    if (code == LEATN_UCS_ERR_UNREACHABLE)
        return leatc_fail(LEAT_ERROR_LINK, UNREACHABLE_FORMAT, worker->ucx->version);
    return code == LEATN_UCS_OK ? LEAT_OK : fail_call(worker->ucx, "ucp_ep_create", code);
}

bool leatn_ucx_is_connected(struct leatn_ucx_worker *worker)
{
    bool connected;

    pthread_mutex_lock(&worker->lock);
    connected = worker->connected;
    unlock(worker);
    return connected;
}

bool leatn_ucx_has_failed(struct leatn_ucx_worker *worker, char *text, size_t text_bytes)
{
    ucx_status failure;

    pthread_mutex_lock(&worker->lock);
    failure = worker->failure;
    unlock(worker);
    if (failure == LEATN_UCS_OK)
        return false;
    if (text)
        snprintf(text, text_bytes, "the UCX connection failed: %s", leatn_ucx_status_text(failure));
    return true;
}

static void close_endpoint(struct leatn_ucx_worker *worker, bool flush)
{
    ucx_request_parameters parameters = {.mask = LEATN_UCP_OP_ATTR_FIELD_FLAGS,
                                         .flags = flush ? 0 : LEATN_UCP_EP_CLOSE_FLAG_FORCE};
    void *answer;

    worker->closed = true;
    worker->has_changed = true;
    if (!flush && !worker->receives_ended)
        cancel_receives(worker);
    if (!worker->endpoint)
        return;
    answer = worker->ucx->api.endpoint_close(worker->endpoint, &parameters);
    if (is_request(answer))
        worker->closing = answer;
    else
        worker->endpoint = NULL;
}

void leatn_ucx_close(struct leatn_ucx_worker *worker, bool flush)
{
    pthread_mutex_lock(&worker->lock);
    if (!worker->closed) {
        /* Of a failed endpoint nothing can be flushed. */
        close_endpoint(worker, flush && worker->failure == LEATN_UCS_OK);
        work_and_arm(worker);
    }
    unlock(worker);
}

bool leatn_ucx_is_closed(struct leatn_ucx_worker *worker)
{
    bool closed;

    pthread_mutex_lock(&worker->lock);
    closed = !worker->endpoint;
    unlock(worker);
    return closed;
}

/* ---- workers ---- */

static unsigned char *copy_address(const struct leatn_ucx_process *ucx, const ucx_worker_attributes *attributes,
                                   size_t *bytes)
{
    struct version version = {(uint16_t)ucx->major, (uint16_t)ucx->minor};
    unsigned char *made = malloc(sizeof version + attributes->address_bytes);

    if (!made)
        return NULL;
    memcpy(made, &version, sizeof version);
    memcpy(made + sizeof version, attributes->address, attributes->address_bytes);
    *bytes = sizeof version + attributes->address_bytes;
    return made;
}

/* Makes what a worker needs of UCX. On failure the caller destroys what is there. */
static leat_status make_worker(struct leatn_ucx_worker *worker)
{
    const struct leatn_ucx_api *api = &worker->ucx->api;
    ucx_worker_parameters parameters = {.field_mask = LEATN_UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = LEATN_UCS_THREAD_MODE_SERIALIZED};
    ucx_worker_attributes attributes = {.field_mask = LEATN_UCP_WORKER_ATTR_FIELD_ADDRESS};
    sigset_t before;
    ucx_status code;

    leatn_ucx_block_signals(&before);
    code = api->worker_create(worker->ucx->context, &parameters, &worker->worker);
    leatn_ucx_restore_signals(&before);
    if (code != LEATN_UCS_OK) {
        worker->worker = NULL;
        return fail_call(worker->ucx, "ucp_worker_create", code);
    }
    code = api->worker_get_descriptor(worker->worker, &worker->descriptor);
    if (code != LEATN_UCS_OK)
        return fail_call(worker->ucx, "ucp_worker_get_efd", code);
    code = api->worker_query(worker->worker, &attributes);
    if (code != LEATN_UCS_OK)
        return fail_call(worker->ucx, "ucp_worker_query", code);
    worker->address = copy_address(worker->ucx, &attributes, &worker->address_bytes);
    api->worker_release_address(worker->worker, attributes.address);
    return worker->address ? LEAT_OK : leatc_fail(LEAT_ERROR_HOST_MEMORY, "out of host memory (a UCX address)");
}

static void destroy_worker(struct leatn_ucx_worker *worker)
{
    free(worker->address);
    if (worker->worker)
        worker->ucx->api.worker_destroy(worker->worker);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
    leatn_ucx_release();
}

leat_status leatn_ucx_worker_create(void (*changed)(void *object), void *object, struct leatn_ucx_worker **worker)
{
    struct leatn_ucx_worker *made;
    leat_status status;

    made = calloc(1, sizeof *made);
    if (!made)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "out of host memory (a UCX worker)");
    status = leatn_ucx_acquire(&made->ucx);
    if (status != LEAT_OK) {
        free(made);
        return status;
    }
    made->changed = changed;
    made->object = object;
    pthread_mutex_init(&made->lock, NULL);
    status = make_worker(made);
    if (status != LEAT_OK) {
        destroy_worker(made);
        return status;
    }
    *worker = made;
    return LEAT_OK;
}

void leatn_ucx_worker_destroy(struct leatn_ucx_worker *worker)
{
    if (!worker)
        return;
    pthread_mutex_lock(&worker->lock);
    if (!worker->closed)
        close_endpoint(worker, false);
    for (unsigned round = 0; round < ROUNDS_TO_END && (worker->closing || worker->running); round++) {
        (void)worker->ucx->api.worker_progress(worker->worker);
        look_at_close(worker);
    }
    if (worker->closing) /* UCX aborts the process if this is missing */
        worker->ucx->api.request_free(worker->closing);
    pthread_mutex_unlock(&worker->lock);
    worker->ucx->api.worker_destroy(worker->worker);
    worker->worker = NULL;
    while (worker->running) /* UCX has lost them with the worker */
        finish(worker->running, LEATN_UCS_ERR_CANCELED, 0);
    free(worker->peer);
    worker->peer = NULL;
    destroy_worker(worker);
}

const void *leatn_ucx_worker_address(const struct leatn_ucx_worker *worker, size_t *bytes)
{
    *bytes = worker->address_bytes;
    return worker->address;
}

int leatn_ucx_descriptor(const struct leatn_ucx_worker *worker)
{
    return worker->descriptor;
}

/* ---- memory ---- */

leat_status leatn_ucx_memory_create(size_t bytes, struct leatn_ucx_memory **memory)
{
    ucx_map_parameters parameters = {.field_mask = LEATN_UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                   LEATN_UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                   LEATN_UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                     .bytes = bytes,
                                     .memory_type = LEATN_UCS_MEMORY_TYPE_HOST};
    struct leatn_ucx_memory *made = calloc(1, sizeof *made);
    leat_status status;
    ucx_status code;

    if (!made)
        goto no_memory;
    made->bytes = bytes;
    made->address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made->address == MAP_FAILED)
        goto no_memory;
    status = leatn_ucx_acquire(&made->ucx);
    if (status != LEAT_OK)
        goto unmap;
    parameters.address = made->address;
    code = made->ucx->api.memory_map(made->ucx->context, &parameters, &made->handle);
    if (code != LEATN_UCS_OK) {
        status = fail_call(made->ucx, "ucp_mem_map", code);
        goto release;
    }
    *memory = made;
    return LEAT_OK;

release:
    leatn_ucx_release();
unmap:
    munmap(made->address, bytes);
    free(made);
    return status;
no_memory:
    free(made);
    return leatc_fail(LEAT_ERROR_HOST_MEMORY, "out of host memory (%zu bytes for blocks of UCX)", bytes);
}

void leatn_ucx_memory_destroy(struct leatn_ucx_memory *memory)
{
    if (!memory)
        return;
    (void)memory->ucx->api.memory_unmap(memory->ucx->context, memory->handle);
    leatn_ucx_release();
    munmap(memory->address, memory->bytes);
    free(memory);
}

void *leatn_ucx_memory_address(const struct leatn_ucx_memory *memory)
{
    return memory->address;
}

/* ---- explanations ---- */

enum { TRANSPORTS_MAX = 32 };

/* Adds "transport/device" to a list, unless it is in it. */
static void add_transport(char *list, size_t list_bytes, const char *name, size_t name_bytes)
{
    size_t used = strlen(list);

    for (const char *at = list; *at; at += strcspn(at, ","), at += strspn(at, ", "))
        if (strcspn(at, ",") == name_bytes && strncmp(at, name, name_bytes) == 0)
            return;
    snprintf(list + used, list_bytes - used, "%s%.*s", used ? ", " : "", (int)name_bytes, name);
}

/* From 1.14 an endpoint tells its transports. Older versions leave the entries as they are. */
static bool query_transports(struct leatn_ucx_worker *worker, char *list, size_t list_bytes)
{
    ucx_transport entries[TRANSPORTS_MAX] = {{0}};
    ucx_endpoint_attributes attributes = {
        .field_mask = LEATN_UCP_EP_ATTR_FIELD_TRANSPORTS,
        .transports = {.entries = entries, .count = TRANSPORTS_MAX, .entry_bytes = sizeof entries[0]},
    };

    if (worker->ucx->api.endpoint_query(worker->endpoint, &attributes) != LEATN_UCS_OK)
        return false;
    for (unsigned i = 0; i < attributes.transports.count && i < TRANSPORTS_MAX && entries[i].transport; i++) {
        char name[128];

        snprintf(name, sizeof name, "%s/%s", entries[i].transport, entries[i].device);
        add_transport(list, list_bytes, name, strlen(name));
    }
    return *list;
}

/* Older versions print a line "# lane[0]: 1:tcp/eth0 md[0] ..." for each transport. */
static void print_transports(struct leatn_ucx_worker *worker, char *list, size_t list_bytes)
{
    char *printed = NULL;
    size_t printed_bytes;
    FILE *stream = open_memstream(&printed, &printed_bytes);

    if (!stream)
        return;
    worker->ucx->api.endpoint_print(worker->endpoint, stream);
    if (fclose(stream) == 0)
        for (char *at = strstr(printed, "lane["); at; at = strstr(at, "lane[")) {
            at += strcspn(at, ":\n");
            at += strspn(at, ": ");
            at += strspn(at, "0123456789");
            at += strspn(at, ":");
            add_transport(list, list_bytes, at, strcspn(at, " \n"));
        }
    free(printed);
}

static void explain_worker(struct leatn_ucx_worker *worker, char *text, size_t text_bytes)
{
    char memory[800], list[1024] = "", link[1100] = "";

    leatn_ucx_explain_memory(worker->ucx, memory, sizeof memory);
    pthread_mutex_lock(&worker->lock);
    if (worker->endpoint && worker->failure == LEATN_UCS_OK) {
        if (!query_transports(worker, list, sizeof list))
            print_transports(worker, list, sizeof list);
        snprintf(link, sizeof link, "\nthis link uses: %s", *list ? list : "transports that UCX does not name");
    }
    unlock(worker);
    snprintf(text, text_bytes, "UCX %s (%s)\n%s%s", worker->ucx->version, worker->ucx->path, memory, link);
}

static void change_nothing(void *object)
{
    (void)object;
}

void leatn_ucx_explain(struct leatn_ucx_worker *worker, char *text, size_t text_bytes)
{
    struct leatn_ucx_worker *own = NULL;

    if (!worker && (leatn_ucx_worker_create(change_nothing, NULL, &own) != LEAT_OK || !own)) {
        snprintf(text, text_bytes, "%s", leat_last_error());
        return;
    }
    explain_worker(worker ? worker : own, text, text_bytes);
    leatn_ucx_worker_destroy(own);
}
