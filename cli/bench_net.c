/*
 * bench_net.c - measures the group "net": messages between this process and a "leat serve", with memory of each
 * kind at both ends. This is compared with a plain socket between the same processes, in turns with it, and with
 * ucx_perftest where it is installed.
 */
#include "bench_net.h"
#include "bench_measure.h"
#include "bench_verify.h"
#include "net_end.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const row_names[NET_DIRECTION_COUNT][NET_KIND_COUNT] = {
    [NET_OUT] = {"to the other end, pageable", "to the other end, pinned", "to the other end, device"},
    [NET_IN] = {"from the other end, pageable", "from the other end, pinned", "from the other end, device"},
    [NET_BOTH] = {"both directions, pageable", "both directions, pinned", "both directions, device"},
};

static const char *const ping_names[NET_KIND_COUNT] = {"there and back, pageable", "there and back, pinned",
                                                       "there and back, device"};

/* Bytes of small messages that one sample sends one after the other. */
static const size_t sample_bytes = 16 * MIB;

enum { SAMPLE_MESSAGES_MAX = 16 };

struct net_state {
    struct net_end end;
    struct net_server server;   /* process 0: the user has started the other end */
    const char *address;        /* of the other end */
    bool tcp;                   /* the link is over TCP */
    bool ucx_missing;           /* ucx_perftest does not run */
    struct net_command command; /* of the current row */
    double gap_ms;
    double cpu_seconds[2]; /* of both processes */
    double cpu_bytes[2];
    bool holds; /* of the last run with a seed */
};

/* ---- commands ---- */

static bool other_failed(struct net_state *state, const char *text)
{
    if (!state->end.bench->error[0])
        snprintf(state->end.bench->error, sizeof state->end.bench->error, "the other end: %s", text);
    return false;
}

static bool check_reply(struct net_state *state, struct net_reply *reply)
{
    reply->text[sizeof reply->text - 1] = '\0';
    if (reply->magic != NET_MAGIC)
        return other_failed(state, "it is not leat serve of this version");
    return reply->ok || other_failed(state, reply->text);
}

static bool ask(struct net_state *state, const struct net_command *command, struct net_reply *reply)
{
    return net_put(&state->end, NET_TAG_COMMAND, command, sizeof *command) &&
           net_take(&state->end, NET_TAG_REPLY, reply, sizeof *reply) && check_reply(state, reply);
}

static struct net_command command_of(enum net_op op)
{
    return (struct net_command){.magic = NET_MAGIC, .version = NET_VERSION, .op = op};
}

static void rest(double milliseconds)
{
    const struct timespec time = {.tv_sec = (time_t)(milliseconds / 1000),
                                  .tv_nsec = (long)(fmod(milliseconds, 1000) * 1e6)};

    if (milliseconds > 0)
        nanosleep(&time, NULL);
}

/* Returns the bytes that a run moves, in all directions. */
static double moved_bytes(const struct net_command *command)
{
    bool twice = command->op == NET_PING || command->direction == NET_BOTH;

    return (double)command->bytes * command->count * (twice ? 2 : 1);
}

/* Does one run at both ends. */
static bool run(struct net_state *state, const struct net_command *command, enum bench_side side, double *seconds)
{
    struct net_end *end = &state->end;
    leat_ticket *last = NULL;
    struct net_reply reply;
    double begin, cpu;
    bool fine, holds = false;

    if (!net_prepare(end, command) || !ask(state, command, &reply) ||
        !net_take_start(end, NET_TAG_REPLY, &reply, sizeof reply, &last))
        return false;
    rest(state->gap_ms);
    cpu = bench_cpu_now();
    begin = bench_now();
    fine = net_run(end, command);
    /* A send is complete when the system has taken its bytes. The run is over when the other end has them. */
    if (command->op == NET_RUN && command->direction != NET_IN && !command->plain)
        fine = fine && bench_check(end->bench, leat_ticket_wait(last, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    *seconds = (bench_now() - begin) / command->count;
    cpu = bench_cpu_now() - cpu;
    if (!fine) {
        leat_ticket_cancel(last);
        leat_ticket_destroy(last);
        return false;
    }
    if (!net_wait(end, last) || !check_reply(state, &reply) || !net_check(end, command, &holds))
        return false;
    state->holds = holds && reply.holds;
    state->cpu_seconds[side] += cpu + reply.cpu_seconds;
    state->cpu_bytes[side] += moved_bytes(command);
    return true;
}

static bool sample_run(void *argument, enum bench_side side, double *seconds)
{
    struct net_state *state = argument;
    struct net_command command = state->command;

    command.plain = side == BENCH_DRIVER;
    return run(state, &command, side, seconds);
}

/* Sends new bytes by both ways, and checks that they arrived. */
static bool verify(struct net_state *state, bool *verified)
{
    double ignored;

    *verified = true;
    for (int side = BENCH_LEAT; side <= BENCH_DRIVER; side++) {
        struct net_command command = state->command;

        command.plain = side == BENCH_DRIVER;
        /* The seeds of the other end begin at 1 too, and its buffers hold their bytes. */
        command.seed = bench_new_seed(state->end.bench) | UINT64_C(1) << 40;
        command.count = 1;
        if (!run(state, &command, (enum bench_side)side, &ignored))
            return false;
        *verified = *verified && state->holds;
    }
    memset(state->cpu_seconds, 0, sizeof state->cpu_seconds);
    memset(state->cpu_bytes, 0, sizeof state->cpu_bytes);
    return true;
}

/* ---- rows ---- */

static double measure_ucx(struct net_state *state, bool there_and_back)
{
    struct bench *bench = state->end.bench;
    double value = NAN;

    if (state->ucx_missing || !state->server.process || state->command.kind == NET_DEVICE || state->gap_ms > 0)
        return NAN;
    value = net_ucx_measure(bench, state->tcp, there_and_back, state->command.bytes);
    if (isnan(value)) {
        bench_note(bench, "net: no figures of UCX: %s", bench->error);
        state->ucx_missing = true;
        bench->error[0] = '\0';
    }
    return value;
}

static void add_row(struct net_state *state, const char *name, const struct bench_result *result, bool verified)
{
    struct bench_rows rows = {.count = 0};
    bool ping = state->command.op == NET_PING;
    struct bench_row *row = bench_row_add(&rows, "net", name, state->command.bytes, ping ? BENCH_US : BENCH_GB_S);
    leat_link_info info = LEAT_LINK_INFO_INIT;
    double leat, plain;

    row->part = ping ? "there and back, after an idle gap" : "one after the other";
    row->result = *result;
    row->verified = verified;
    if (!ping && state->command.direction == NET_BOTH)
        row->moved_bytes *= 2;
    leat = bench_figure(row, result->leat.median);
    plain = bench_figure(row, result->driver.median);
    bench_row_extra(row, "socket_value", plain);
    bench_row_extra(row, "ratio_to_socket", leat / plain);
    if (!ping && state->command.direction == NET_OUT)
        bench_row_extra(row, "ucx_value", measure_ucx(state, false));
    if (ping) {
        bench_row_extra(row, "ucx_value", measure_ucx(state, true));
        bench_row_extra(row, "idle_ms", state->gap_ms);
    }
    bench_row_extra(row, "mean", bench_figure(row, result->leat.mean));
    bench_row_extra(row, "socket_mean", bench_figure(row, result->driver.mean));
    bench_row_extra(row, "p99", bench_figure(row, result->leat.p99));
    bench_row_extra(row, "socket_p99", bench_figure(row, result->driver.p99));
    bench_row_extra(row, "cpu_s_per_gb", state->cpu_seconds[BENCH_LEAT] / (state->cpu_bytes[BENCH_LEAT] * 1e-9));
    bench_row_extra(row, "socket_cpu_s_per_gb",
                    state->cpu_seconds[BENCH_DRIVER] / (state->cpu_bytes[BENCH_DRIVER] * 1e-9));
    if (leat_link_get_info(state->end.link, &info) == LEAT_OK)
        bench_row_extra_text(row, "transport", info.transport);
    bench_rows_commit(state->end.bench, &rows);
}

static void measure_row(struct net_state *state, const char *name)
{
    struct bench *bench = state->end.bench;
    struct bench_result result;
    bool verified;

    bench_progress(bench, "net", name, state->command.bytes);
    if (verify(state, &verified) && bench_measure(bench, sample_run, state, true, &result))
        add_row(state, name, &result, verified);
    else
        bench_case_failed(bench, "net", name, state->command.bytes);
}

static bool link_lives(const struct net_state *state)
{
    leat_link_info info = LEAT_LINK_INFO_INIT;

    return leat_link_get_info(state->end.link, &info) == LEAT_OK && info.status == LEAT_OK;
}

static bool is_wanted(const struct bench *bench, enum net_kind kind)
{
    return !bench->options->net_kinds || (bench->options->net_kinds >> kind & 1);
}

static void measure_runs(struct net_state *state, enum net_kind kind, size_t bytes)
{
    size_t count = sample_bytes / bytes;

    for (int direction = NET_OUT; direction < NET_DIRECTION_COUNT; direction++) {
        if (direction == NET_IN && state->end.bench->options->quick)
            continue;
        state->command = command_of(NET_RUN);
        state->command.kind = kind;
        state->command.direction = (uint32_t)direction;
        state->command.bytes = bytes;
        state->command.count = (uint32_t)(count < 1                     ? 1
                                          : count > SAMPLE_MESSAGES_MAX ? SAMPLE_MESSAGES_MAX
                                                                        : count);
        state->gap_ms = 0;
        if (link_lives(state))
            measure_row(state, row_names[direction][kind]);
    }
}

static void measure_pings(struct net_state *state, enum net_kind kind, size_t bytes)
{
    static const double default_gaps[] = {0, 1, 20};
    const struct bench_options *options = state->end.bench->options;
    const double *gaps = options->gap_count ? options->gaps_ms : default_gaps;
    unsigned count = options->gap_count ? options->gap_count : 3;
    static char names[BENCH_GAPS_MAX][64];

    for (unsigned i = 0; i < count; i++) {
        if (options->quick && !options->gap_count && i == 1)
            continue;
        state->command = command_of(NET_PING);
        state->command.kind = kind;
        state->command.bytes = bytes;
        state->command.count = 1;
        state->gap_ms = gaps[i];
        snprintf(names[i], sizeof names[i], "%s%s%g%s", ping_names[kind], gaps[i] > 0 ? ", after " : "", gaps[i],
                 " ms");
        if (link_lives(state))
            measure_row(state, gaps[i] > 0 ? names[i] : ping_names[kind]);
    }
}

static void measure_all(struct net_state *state)
{
    static const size_t full[] = {4 * KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB}, quick[] = {4 * KIB, MIB, 64 * MIB};
    const struct bench_options *options = state->end.bench->options;
    const size_t *sizes = options->size_count ? options->sizes : options->quick ? quick : full;
    unsigned count = options->size_count ? options->size_count : options->quick ? 3 : 5;

    for (int kind = 0; kind < NET_KIND_COUNT; kind++)
        for (unsigned i = 0; i < count && is_wanted(state->end.bench, (enum net_kind)kind); i++) {
            if (sizes[i] > state->end.bench->largest)
                continue;
            measure_runs(state, (enum net_kind)kind, sizes[i]);
            if (sizes[i] <= MIB)
                measure_pings(state, (enum net_kind)kind, sizes[i]);
        }
}

/* ---- the other end ---- */

/* Returns the largest size of the group. */
static size_t largest_size(const struct bench *bench)
{
    size_t largest = bench->options->quick ? 64 * MIB : 256 * MIB;

    if (bench->options->size_count)
        largest = 0;
    for (unsigned i = 0; i < bench->options->size_count; i++)
        largest = bench->options->sizes[i] > largest ? bench->options->sizes[i] : largest;
    largest = (largest + 4095) / 4096 * 4096;
    return largest < bench->largest ? largest : bench->largest;
}

/* Starts the other end if no address is given. Then connects. */
static bool connect_link(struct net_state *state)
{
    struct bench *bench = state->end.bench;
    const char *to = bench->options->to ? bench->options->to : "tcp";
    leat_link_options options;
    struct link_key key = {.count = 0};
    bool fine;

    if (!strchr(to, ':')) {
        if (!net_server_start(bench, to, &state->server))
            return false;
        to = state->server.address;
        key = state->server.key;
    } else if (!link_key_read("bench", to, bench->options->key_file, &key)) {
        return false;
    }
    state->address = to;
    state->tcp = strncmp(to, "tcp:", 4) == 0;
    options = link_key_options(&key, bench->options->encrypt);
    fine = bench_check(bench, leat_connect(to, &options, &state->end.link));
    link_key_erase(&key);
    return fine;
}

static bool exchange_hello(struct net_state *state)
{
    struct net_command command = command_of(NET_HELLO);
    leat_link_info info = LEAT_LINK_INFO_INIT;
    struct bench *bench = state->end.bench;
    struct net_reply reply;

    command.bytes = bench->largest;
    if (!ask(state, &command, &reply) || !bench_check(bench, leat_link_get_info(state->end.link, &info)))
        return false;
    bench_note(bench, "net: the other end is %s, over %s%s; the plain socket is %s", reply.text,
               info.encrypted ? "encrypted " : "", info.transport,
               strncmp(state->address, "unix:", 5) != 0 ? "TCP with TCP_NODELAY" : "a unix stream socket");
    command = command_of(NET_PLAIN);
    return ask(state, &command, &reply) && net_plain_connect(&state->end, state->address, &reply) &&
           net_take(&state->end, NET_TAG_REPLY, &reply, sizeof reply) && check_reply(state, &reply);
}

void bench_net_group(struct bench *bench)
{
    struct net_state state = {.end = {.bench = bench, .plain = -1}, .server = {.messages = -1}};
    struct net_command bye = command_of(NET_BYE);
    struct net_reply reply;
    /* The other side is a plain socket, which makes no call of the driver. */
    struct bench_peer *peer = bench->peer;
    const size_t usual_bytes = bench->largest;
    bool fine;

    bench->peer = NULL;
    bench_resize(bench, largest_size(bench));
    fine = connect_link(&state) && exchange_hello(&state);
    if (fine)
        measure_all(&state);
    else if (bench->error[0])
        bench_case_failed(bench, "net", "connecting", 0);
    bench->failed = bench->failed || !fine;
    if (fine && link_lives(&state))
        (void)ask(&state, &bye, &reply);
    bench->error[0] = '\0';
    if (state.end.plain >= 0)
        close(state.end.plain);
    leat_link_close(state.end.link);
    net_server_end(&state.server, bench->failed);
    bench->peer = peer;
    bench_resize(bench, usual_bytes);
}
