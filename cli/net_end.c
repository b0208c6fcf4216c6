/* net_end.c - the measured copies of "leat bench net" over a link; see net_end.h. */
#include "net_end.h"
#include "bench_verify.h"

#include <stdio.h>

/* The streams of the bench: for what comes in, what goes out, and messages. Stream 0 fills and checks. */
enum { STREAM_IN = 1, STREAM_OUT = 2, STREAM_MESSAGES = 3 };

const char *const net_kind_words[NET_KIND_COUNT] = {"pageable", "pinned", "device"};

/* ---- messages ---- */

bool net_wait(struct net_end *end, leat_ticket *ticket)
{
    leat_status status = leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER);
    bool fine = bench_check(end->bench, status);

    leat_ticket_destroy(ticket);
    return fine;
}

bool net_put(struct net_end *end, enum net_tag tag, const void *message, size_t bytes)
{
    leat_ticket *ticket = NULL;

    return bench_check(end->bench, leat_send_start(end->bench->streams[STREAM_MESSAGES], end->link, tag, message,
                                                   bytes, NULL, &ticket)) &&
           net_wait(end, ticket);
}

bool net_take_start(struct net_end *end, enum net_tag tag, void *message, size_t bytes, leat_ticket **ticket)
{
    return bench_check(end->bench, leat_receive_start(end->bench->streams[STREAM_MESSAGES], message, end->link,
                                                      tag, bytes, NULL, ticket));
}

bool net_take(struct net_end *end, enum net_tag tag, void *message, size_t bytes)
{
    leat_ticket *ticket = NULL;

    return net_take_start(end, tag, message, bytes, &ticket) && net_wait(end, ticket);
}

/* ---- buffers ---- */

void *net_buffer(struct net_end *end, enum net_kind kind, bool out)
{
    static const enum bench_buffer buffers[NET_KIND_COUNT][2] = {
        [NET_PAGEABLE] = {BENCH_PAGEABLE_IN, BENCH_PAGEABLE_OUT},
        [NET_PINNED] = {BENCH_PINNED_IN, BENCH_PINNED_OUT},
        [NET_DEVICE] = {BENCH_DEVICE_A, BENCH_DEVICE_B},
    };

    return bench_buffer(end->bench, buffers[kind][out]);
}

/* The served end sends what comes in at the other one. */
static bool sends(const struct net_end *end, const struct net_command *command)
{
    return command->op == NET_PING
               ? !end->served
               : command->direction == NET_BOTH || (command->direction == (end->served ? NET_IN : NET_OUT));
}

static bool receives(const struct net_end *end, const struct net_command *command)
{
    return command->op == NET_PING || command->direction == NET_BOTH ||
           (command->direction == (end->served ? NET_OUT : NET_IN));
}

static bool fill(struct net_end *end, const struct net_command *command)
{
    void *buffer = net_buffer(end, command->kind, true);

    if (!buffer)
        return false;
    if (command->kind == NET_DEVICE)
        return bench_fill_device(end->bench, buffer, command->bytes, command->seed);
    bench_fill_host(end->bench, buffer, command->bytes, command->seed);
    return true;
}

bool net_check(struct net_end *end, const struct net_command *command, bool *holds)
{
    void *buffer = net_buffer(end, command->kind, false);

    *holds = true;
    if (!command->seed || !receives(end, command))
        return true;
    if (!buffer)
        return false;
    if (command->kind == NET_DEVICE)
        return bench_device_holds(end->bench, buffer, command->bytes, command->seed, holds);
    *holds = bench_host_holds(end->bench, buffer, command->bytes, command->seed);
    return true;
}

/* ---- runs over a link ---- */

static bool submit_receives(struct net_end *end, const struct net_command *command)
{
    struct bench *bench = end->bench;
    void *buffer = net_buffer(end, command->kind, false);
    enum net_tag tag = end->served ? NET_TAG_OUT : NET_TAG_IN;

    if (!buffer)
        return false;
    for (unsigned i = 0; i < command->count; i++)
        if (!bench_check(bench, leat_receive(bench->streams[STREAM_IN], buffer, end->link, tag, command->bytes)))
            return false;
    return true;
}

/* echo: sends what was received, on the stream that received it. */
static bool submit_sends(struct net_end *end, const struct net_command *command, bool echo)
{
    struct bench *bench = end->bench;
    void *buffer = net_buffer(end, command->kind, !echo);
    enum net_tag tag = end->served ? NET_TAG_IN : NET_TAG_OUT;
    leat_stream *stream = bench->streams[echo ? STREAM_IN : STREAM_OUT];

    if (!buffer)
        return false;
    for (unsigned i = 0; i < command->count; i++)
        if (!bench_check(bench, leat_send(stream, end->link, tag, buffer, command->bytes)))
            return false;
    return true;
}

static bool submit(struct net_end *end, const struct net_command *command)
{
    if (receives(end, command) && !submit_receives(end, command))
        return false;
    if (command->op == NET_PING && end->served)
        return submit_sends(end, command, true);
    return !sends(end, command) || submit_sends(end, command, false);
}

bool net_prepare(struct net_end *end, const struct net_command *command)
{
    /* All buffers are made here, so that no run pays for them. */
    if ((sends(end, command) && !net_buffer(end, command->kind, true)) ||
        (receives(end, command) && !net_buffer(end, command->kind, false)) ||
        (command->plain && (!net_buffer(end, NET_PAGEABLE, true) || !net_buffer(end, NET_PAGEABLE, false))))
        return false;
    if (command->seed && sends(end, command) && !fill(end, command))
        return false;
    /* The served end submits first. What it sends waits for the bench's receives. */
    return command->plain || !end->served || submit(end, command);
}

bool net_run(struct net_end *end, const struct net_command *command)
{
    struct bench *bench = end->bench;

    if (command->plain)
        return net_plain_run(end, command);
    if (!end->served && !submit(end, command))
        return false;
    return (!receives(end, command) || bench_check(bench, leat_stream_synchronize(bench->streams[STREAM_IN]))) &&
           (!sends(end, command) || bench_check(bench, leat_stream_synchronize(bench->streams[STREAM_OUT])));
}
