/* net_link.c - makes links, watches their sockets, sends control frames, and ends links. See net_link.h. */
#include "net_link.h"
#include "carrier.h"
#include "message.h"
#include "net_socket.h"

#include <leat/storage.h>

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TICK_NS UINT64_C(2000000)            /* after so long a worker counts as stalled, see net_link.h */
#define LINGER_NS (UINT64_C(5) * 1000000000) /* an end that closes waits so long for the other end */
#define RETRY_NS UINT64_C(10000000)
#define IDLE_TICKS_MAX 50u
#define READS_MAX 64u /* the loop then looks at other links */
#define ANSWERS_MAX (4u * LEATN_RECEIVES_MAX)
#define OUTPUT_KEPT_BYTES ((size_t)64 << 10)

/* ---- references and the lock ---- */

void leatn_link_hold(leat_link *link)
{
    atomic_fetch_add_explicit(&link->holders, 1, memory_order_relaxed);
}

void leatn_link_release(leat_link *link)
{
    if (atomic_fetch_sub_explicit(&link->holders, 1, memory_order_acq_rel) != 1)
        return;
    if (link->connection.fd >= 0)
        close(link->connection.fd);
    leatn_carrier_free(link->carrier);
    leatn_cipher_free(link->cipher);
    pthread_mutex_destroy(&link->lock);
    free(link->output.at);
    free(link);
}

void leatn_link_lock(leat_link *link)
{
    pthread_mutex_lock(&link->lock);
}

void leatn_link_unlock(leat_link *link)
{
    bool wake = link->wake;

    link->wake = false;
    pthread_mutex_unlock(&link->lock);
    if (wake)
        leatn_loop_wake_copies();
}

/* ---- waiting for the socket ---- */

static void arm(leat_link *link)
{
    if (!link->gone)
        leatn_loop_arm(&link->source, (link->want_in ? EPOLLIN : 0u) | (link->want_out ? EPOLLOUT : 0u));
}

void leatn_link_want_in(leat_link *link)
{
    if (link->want_in)
        return;
    link->want_in = true;
    arm(link);
}

void leatn_link_want_out(leat_link *link)
{
    if (link->want_out)
        return;
    link->want_out = true;
    arm(link);
}

void leatn_link_poke(leat_link *link)
{
    if (!link->gone)
        leatn_loop_poke(&link->source);
}

void leatn_link_tick(leat_link *link)
{
    link->idle_ticks = 0;
    if (link->ticking)
        return;
    link->ticking = true;
    leatn_link_poke(link);
}

/* ---- failures ---- */

void leatn_link_fail(leat_link *link, const char *format, ...)
{
    va_list args;

    if (link->failed)
        return;
    va_start(args, format);
    vsnprintf(link->reason, sizeof link->reason, format, args);
    va_end(args);
    link->failed = true;
    leatn_message_fail_all(link);
    leatn_link_poke(link);
}

/* The system refused to send. If the other end is gone, bytes that it has sent before may still wait in the
 * socket. So only sends fail, and the receiving side will see the end of the bytes. */
static void send_failed(leat_link *link, int error)
{
    link->output.start = link->output.end = 0;
    if (error != EPIPE && error != ECONNRESET) {
        leatn_link_fail(link, "send: %s", strerror(error));
        return;
    }
    link->tx_dead = true;
    leatn_message_sending_ends(link);
    leatn_link_poke(link);
}

/* ---- sending ---- */

ssize_t leatn_link_send(leat_link *link, int fd, const struct iovec *parts, size_t count)
{
    return link->cipher ? leatn_cipher_send(link->cipher, fd, parts, count) : leatn_socket_send(fd, parts, count);
}

/* Returns true if the socket has not taken all bytes that were encrypted. The link is not tx_busy. */
static bool keeps_record(const leat_link *link)
{
    return link->cipher && leatn_cipher_keeps(link->cipher);
}

bool leatn_link_was_sent(leat_link *link, ssize_t sent)
{
    if (sent > 0) {
        link->tx_progress++;
        if (keeps_record(link))
            leatn_link_want_out(link); /* for flush_record(), if nobody sends more before */
        return true;
    }
    if (sent == -EAGAIN || sent == -EWOULDBLOCK)
        leatn_link_want_out(link);
    else
        send_failed(link, (int)-sent);
    return false;
}

/* Sends what is left of the last record. Returns false if the socket does not take all of it. */
static bool flush_record(leat_link *link)
{
    int failed = keeps_record(link) ? leatn_cipher_flush(link->cipher, link->connection.fd) : 0;

    return !failed || leatn_link_was_sent(link, failed);
}

/* Makes room for bytes at the end of the output. */
static bool reserve_output(struct leatn_output *output, size_t bytes)
{
    size_t used = output->end - output->start, room = output->room;
    unsigned char *grown;

    if (bytes <= room - output->end)
        return true;
    if (used)
        memmove(output->at, output->at + output->start, used);
    output->start = 0;
    output->end = used;
    while (room - used < bytes)
        room = room ? 2 * room : 4096;
    if (room == output->room)
        return true;
    grown = realloc(output->at, room);
    if (!grown)
        return false;
    output->at = grown;
    output->room = room;
    return true;
}

void leatn_link_queue(leat_link *link, const struct leatn_frame *frame, const char *tail, bool answer)
{
    struct leatn_output *output = &link->output;

    if (link->tx_dead || (link->failed && !link->closing))
        return;
    if (answer && ++output->answers > ANSWERS_MAX) {
        leatn_link_fail(link, "the other end sends requests and does not read the answers");
        return;
    }
    if (!reserve_output(output, LEATN_HEADER_BYTES + frame->tail_bytes)) {
        leatn_link_fail(link, "no memory for the frames that are to be sent");
        return;
    }
    leatn_frame_encode(frame, output->at + output->end);
    if (frame->tail_bytes)
        memcpy(output->at + output->end + LEATN_HEADER_BYTES, tail, frame->tail_bytes);
    output->end += LEATN_HEADER_BYTES + frame->tail_bytes;
}

bool leatn_link_flush(leat_link *link)
{
    struct leatn_output *output = &link->output;

    if (link->tx_left)
        return false;
    while (output->start < output->end) {
        struct iovec part = {output->at + output->start, output->end - output->start};
        ssize_t sent;

        if (link->want_out)
            return false; /* the socket is full */
        sent = leatn_link_send(link, link->connection.fd, &part, 1);
        if (!leatn_link_was_sent(link, sent))
            return false;
        output->start += (size_t)sent;
    }
    output->start = output->end = 0;
    output->answers = 0;
    if (output->room > OUTPUT_KEPT_BYTES) {
        free(output->at);
        output->at = NULL;
        output->room = 0;
    }
    return true;
}

/* ---- receiving ---- */

ssize_t leatn_link_receive(leat_link *link, int fd, void *memory, size_t bytes)
{
    return link->cipher ? leatn_cipher_receive(link->cipher, fd, memory, bytes)
                        : leatn_socket_receive(fd, memory, bytes);
}

bool leatn_link_was_received(leat_link *link, ssize_t got)
{
    if (got > 0) {
        link->rx_progress++;
        return true;
    }
    if (link->cipher && leatn_cipher_heard(link->cipher))
        link->rx_progress++; /* a part of a record is a sign of life too */
    if (got == -EAGAIN || got == -EWOULDBLOCK)
        leatn_link_want_in(link);
    else if (got == 0 || got == -ECONNRESET)
        leatn_link_fail(link, "the other process ended, or was disconnected");
    else if (got == -EBADMSG)
        leatn_link_fail(link, "a record does not decrypt: bytes were changed, lost or repeated on their way");
    else
        leatn_link_fail(link, "recv: %s", strerror((int)-got));
    return false;
}

/* Receives more into the input. Returns false if there is nothing more. */
static bool receive_input(leat_link *link)
{
    size_t held = link->input_end - link->input_start;
    ssize_t got;

    memmove(link->input, link->input + link->input_start, held);
    link->input_start = 0;
    link->input_end = held;
    got = leatn_link_receive(link, link->connection.fd, link->input + held, sizeof link->input - held);
    if (!leatn_link_was_received(link, got))
        return false;
    link->input_end += (size_t)got;
    return true;
}

/* Takes a frame from the input. Returns false if it is not complete, or the link fails. */
static bool take_frame(leat_link *link)
{
    const unsigned char *at = link->input + link->input_start;
    size_t held = link->input_end - link->input_start, bytes = LEATN_HEADER_BYTES;
    char name[LEATN_NAME_MAX + 1] = "";
    struct leatn_frame frame;
    const char *wrong;

    if (held < bytes)
        return false;
    wrong = leatn_frame_decode(at, &frame);
    if (wrong) {
        leatn_link_fail(link, "the other end sent a wrong frame: %s", wrong);
        return false;
    }
    if (frame.type != LEATN_FRAME_DATA) {
        if (held - bytes < frame.tail_bytes)
            return false;
        if (frame.type != LEATN_FRAME_ADDRESS)
            memcpy(name, at + bytes, frame.tail_bytes);
        else
            leatn_carrier_take_address(link, at + bytes, frame.tail_bytes);
        bytes += frame.tail_bytes;
    }
    link->input_start += bytes;
    leatn_message_take(link, &frame, name);
    return true;
}

void leatn_link_read_frames(leat_link *link)
{
    unsigned reads = 0;

    while (!link->failed && !link->fragment_left && !leatn_carrier_has_bye(link)) {
        if (take_frame(link))
            continue;
        if (link->failed)
            return;
        if (reads++ == READS_MAX) {
            link->read_more = true;
            leatn_link_poke(link);
            return;
        }
        if (!receive_input(link))
            return;
    }
}

/* ---- the end ---- */

/* The links that were closed, and that the end of the process waits for. */
static pthread_mutex_t lingering_lock = PTHREAD_MUTEX_INITIALIZER; /* protects lingering */
static pthread_cond_t lingering_changed = PTHREAD_COND_INITIALIZER;
static unsigned lingering;
static pid_t lingering_process; /* a child of fork() has no loop, so nothing to wait for */

static void start_counting(leat_link *link)
{
    link->counted = true;
    pthread_mutex_lock(&lingering_lock);
    lingering++;
    lingering_process = getpid();
    pthread_mutex_unlock(&lingering_lock);
}

static void stop_counting(bool counted)
{
    if (!counted)
        return;
    pthread_mutex_lock(&lingering_lock);
    lingering--;
    pthread_cond_broadcast(&lingering_changed);
    pthread_mutex_unlock(&lingering_lock);
}

/* A process that ends with unread bytes in a TCP socket makes the system destroy bytes that the other end has not
 * received. So a process that has closed its links and ends waits until the other ends have closed too, for at
 * most LINGER_NS. */
__attribute__((destructor)) void leatn_link_wait_for_lingering(void)
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)(LINGER_NS / 1000000000) + 1;
    pthread_mutex_lock(&lingering_lock);
    while (lingering && lingering_process == getpid())
        if (pthread_cond_timedwait(&lingering_changed, &lingering_lock, &end) == ETIMEDOUT)
            break;
    pthread_mutex_unlock(&lingering_lock);
}

/* Closing: drops what the other end still sends, until it closes too. */
static void drain(leat_link *link)
{
    char dropped[16384];
    ssize_t got = -EAGAIN;

    if (link->rx_busy)
        return; /* that thread will call leatn_link_want_in() */
    for (unsigned i = 0; i < READS_MAX; i++) {
        got = leatn_link_receive(link, link->connection.fd, dropped, sizeof dropped);
        if (got <= 0)
            break;
    }
    if (got > 0 || got == -EAGAIN || got == -EWOULDBLOCK)
        leatn_link_want_in(link);
    else
        link->finished = true;
}

/* Closing: sends what is queued, then says that nothing follows. */
static void end_output(leat_link *link)
{
    if (link->tx_shut || link->tx_busy)
        return;
    if (!link->tx_dead && (link->tx_left || !leatn_link_flush(link) || !flush_record(link)))
        return;
    link->tx_shut = true;
    shutdown(link->connection.fd, SHUT_WR);
}

/* Returns true if the loop has nothing more to do for the link. */
static bool is_over(leat_link *link, uint64_t now_ns)
{
    if (!link->failed || link->rx_busy || link->tx_busy)
        return false;
    return !link->closing || link->finished || now_ns >= link->linger_ns;
}

/* Closes the socket, and leaves the loop. Unlocks and may free the link. */
static void leave_loop(leat_link *link)
{
    bool counted = link->counted;

    leatn_loop_remove(&link->source);
    leatn_carrier_end(link);
    link->gone = true;
    close(link->connection.fd);
    link->connection.fd = -1;
    leatn_link_unlock(link);
    stop_counting(counted);
    leatn_link_release(link);
}

/* ---- the loop's calls ---- */

static void on_event(struct leatn_source *source, uint32_t events)
{
    leat_link *link = leatn_link_of(source);
    bool in, out;

    leatn_link_lock(link);
    in = link->want_in && (events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP));
    out = link->want_out && (events & (EPOLLOUT | EPOLLHUP | EPOLLERR));
    link->want_in = link->want_in && !in;
    link->want_out = link->want_out && !out;
    if (out && !link->tx_busy && !flush_record(link))
        out = false; /* waits for the next event */
    if (out)
        leatn_message_writable(link);
    if (in && link->closing)
        drain(link);
    else if (in)
        leatn_message_readable(link);
    if (link->closing) {
        end_output(link);
        leatn_link_poke(link);
    }
    if (link->want_in || link->want_out)
        arm(link); /* an event disarms both */
    leatn_link_unlock(link);
}

static uint64_t after(uint64_t now_ns, uint64_t wait_ns)
{
    return wait_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + wait_ns;
}

static uint64_t least(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

/* Sends a sign of life if nothing was sent for a while, and checks that the other end does. The silence of the
 * other end counts only while the loop waits for it. Returns when to look again. */
static uint64_t check_life(leat_link *link, uint64_t now_ns)
{
    uint64_t idle_ns = link->connection.idle_timeout_ns, peer_ns = link->connection.peer_idle_timeout_ns;
    uint64_t period_ns = least(idle_ns, peer_ns) / 12;
    uint64_t late_ns = idle_ns / 2;
    bool late;

    period_ns = period_ns > 1000000 ? period_ns : 1000000;
    /* This process may have been stopped. It must then first read what has come meanwhile. */
    late_ns = late_ns > 4 * period_ns ? late_ns : 4 * period_ns;
    late = now_ns - link->checked_ns > late_ns;
    link->checked_ns = now_ns;
    if (!link->want_in || late || link->rx_progress != link->rx_seen)
        link->heard_ns = now_ns;
    else if (now_ns - link->heard_ns > idle_ns)
        leatn_link_fail(link, "the other end was silent for %llu ms (idle_timeout_ns)",
                        (unsigned long long)((now_ns - link->heard_ns) / 1000000));
    link->rx_seen = link->rx_progress;
    if (link->tx_progress != link->tx_seen) {
        link->spoke_ns = now_ns;
    } else if (now_ns - link->spoke_ns >= peer_ns / 4 && !link->tx_left &&
               link->output.start == link->output.end) {
        link->spoke_ns = now_ns;
        leatn_link_queue(link, &(struct leatn_frame){.type = LEATN_FRAME_ALIVE}, NULL, false);
        (void)leatn_link_flush(link);
    }
    link->tx_seen = link->tx_progress;
    return after(now_ns, period_ns);
}

/* Every 2 ms while there are fragments: looks for a worker that does not come. */
static void check_fragment(leat_link *link)
{
    if (!link->fragment_left)
        link->ticking = ++link->idle_ticks < IDLE_TICKS_MAX;
    else if (link->rx_progress == link->fragment_seen)
        leatn_message_stalled(link);
    link->fragment_seen = link->rx_progress;
}

static uint64_t on_timer(struct leatn_source *source, uint64_t now_ns)
{
    leat_link *link = leatn_link_of(source);
    uint64_t due_ns;

    leatn_link_lock(link);
    if (link->closing)
        end_output(link);
    if (!link->failed && link->read_more) {
        link->read_more = false;
        leatn_message_readable(link);
    }
    if (!link->failed && now_ns >= link->check_ns)
        link->check_ns = check_life(link, now_ns);
    if (!link->failed && link->ticking)
        check_fragment(link);
    if (is_over(link, now_ns)) {
        leave_loop(link);
        return 0;
    }
    due_ns = link->failed ? after(now_ns, RETRY_NS) : link->check_ns;
    if (link->closing)
        due_ns = link->linger_ns > now_ns ? link->linger_ns : due_ns;
    else if (link->ticking)
        due_ns = least(due_ns, after(now_ns, TICK_NS));
    leatn_link_unlock(link);
    return due_ns;
}

/* ---- calls ---- */

leat_status leatn_link_create(const struct net_connection *connection, leat_link **made)
{
    leat_link *link = calloc(1, sizeof *link);
    int on = 1;
    leat_status status;

    if (!link)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the link to %s", connection->peer);
    link->connection = *connection;
    link->source = (struct leatn_source){.fd = connection->fd, .event = on_event, .timer = on_timer};
    pthread_mutex_init(&link->lock, NULL);
    atomic_init(&link->holders, 2); /* the handle and the loop */
    leatn_message_init(link);
    link->heard_ns = link->spoke_ns = link->checked_ns = leatc_now_ns();
    /* A frame must not wait until the other end has acknowledged older bytes. Fails for unix sockets. */
    (void)setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    OPENSSL_cleanse(&link->connection.keys, sizeof link->connection.keys);
    if (connection->encrypted) {
        link->cipher = leatn_cipher_create(&connection->keys);
        status = link->cipher
                     ? LEAT_OK
                     : leatc_fail(LEAT_ERROR_HOST_MEMORY,
                                  "no memory for the ciphers of the link to %s, or OpenSSL's libcrypto fails",
                                  connection->peer);
    } else {
        status = connection->ucx ? leatn_carrier_create(link) : LEAT_OK;
    }
    if (status != LEAT_OK)
        goto free_link;
    leatn_link_lock(link); /* so that the loop waits until all is ready */
    status = leatn_loop_add(&link->source);
    if (status != LEAT_OK) {
        leatn_link_unlock(link);
        goto free_link;
    }
    if (link->carrier)
        leatn_carrier_begin(link);
    if (!link->failed)
        leatn_link_want_in(link);
    leatn_link_unlock(link);
    *made = link;
    return LEAT_OK;

free_link:
    leatn_carrier_free(link->carrier);
    leatn_cipher_free(link->cipher);
    pthread_mutex_destroy(&link->lock);
    free(link);
    return status;
}

/* Ends the link at this end, unless it has failed before. */
static void close_live(leat_link *link)
{
    link->closing = true; /* before the failure, so that the frames which it causes are still sent */
    link->linger_ns = leatc_now_ns() + LINGER_NS;
    start_counting(link);
    leatn_link_fail(link, "this process has closed the link");
    leatn_link_queue(link, &(struct leatn_frame){.type = LEATN_FRAME_BYE}, NULL, false);
    if (!link->rx_busy)
        leatn_link_want_in(link);
    end_output(link);
    leatn_link_poke(link);
}

leat_status leat_link_close(leat_link *link)
{
    if (!link)
        return LEAT_OK;
    leatn_regions_begin_close(link);
    leatn_link_lock(link);
    if (!link->failed)
        close_live(link);
    leatn_link_unlock(link);
    leatn_regions_close(link);
    leatn_link_release(link);
    return LEAT_OK;
}

leat_status leat_link_get_info(leat_link *link, leat_link_info *info)
{
    leat_link_info known = LEAT_LINK_INFO_INIT;

    if (!link)
        return leatc_fail(LEAT_ERROR_HANDLE, "leat_link_get_info: link is NULL");
    if (!info)
        return leatc_fail(LEAT_ERROR_INVALID, "leat_link_get_info: info is NULL");
    TRY(leatc_sized_check("leat_link_get_info: info->size", "leat_link_info", info, sizeof known));
    leatn_link_lock(link);
    known.status = link->failed ? LEAT_ERROR_LINK : LEAT_OK;
    memcpy(known.peer, link->connection.peer, sizeof known.peer);
    known.transport = link->connection.transport;
    known.sent_bytes = link->sent_bytes;
    known.received_bytes = link->received_bytes;
    known.sends = link->sends;
    known.receives = link->receives;
    known.peer_process = link->connection.peer_process;
    known.peer_user = link->connection.peer_user;
    known.encrypted = link->cipher != NULL;
    leatn_link_unlock(link);
    leatc_sized_write(info, &known, sizeof known);
    return LEAT_OK;
}
