/* serve.c - "leat serve": the other end of "leat bench net". */
#include "bench_measure.h"
#include "cli.h"
#include "host_facts.h"
#include "link_key.h"
#include "net_end.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char cli_serve_help[] =
    "Usage: leat serve ADDRESS [--device NAME] [--key-file FILE] [--encrypt] [--once] [--timeout S]\n\n"
    "Listens at ADDRESS, prints the address with its real port to standard error, and is the other end of the group\n"
    "net of leat bench, for one client after the other, until it is interrupted (Ctrl+C, exit status 0). Addresses are\n"
    "tcp:HOST:PORT (0.0.0.0 for all interfaces, port 0 for any port), unix:PATH, unix:@NAME and ucx:HOST:PORT.\n"
    "For the comparison with a plain socket it also listens at a port of the same host, for five seconds at a time,\n"
    "for the client that has connected.\n\n"
    "Options:\n"
    "  --device NAME    the device whose memory takes part, such as cuda:1; without it the best there is\n"
    "  --key-file FILE  the key that both ends know, for tcp: and ucx:; without it LEAT_LINK_KEY_FILE names the\n"
    "                   file. Make a key with: head -c 32 /dev/urandom > FILE; chmod 600 FILE\n"
    LINK_ENCRYPT_HELP
    "  --once           ends after one client\n"
    "  --timeout S      ends if no client has come for so many seconds\n"
    "  --help           this text\n";

struct serve_options {
    const char *address, *device, *key_file;
    double timeout; /* seconds; 0: none */
    bool once, encrypt;
};

static volatile sig_atomic_t interrupted;

static const uint64_t look_ns = 100000000; /* between two looks at interrupted */

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* The second interrupt ends the process at once, also in the middle of a copy. */
static void catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- commands ---- */

/* Returns NULL if a command can be done, otherwise what is wrong with it. */
static const char *problem_of(const struct net_end *end, const struct net_command *command)
{
    if (command->magic != NET_MAGIC || command->version != NET_VERSION || command->op >= NET_OP_COUNT)
        return "the client is not leat bench net of this version";
    if (command->op == NET_HELLO)
        return command->bytes && command->bytes <= NET_BYTES_MAX ? NULL : "the largest size is 1 GiB";
    if (command->op != NET_RUN && command->op != NET_PING)
        return NULL;
    if (command->kind >= NET_KIND_COUNT || command->direction >= NET_DIRECTION_COUNT || command->plain > 1 ||
        !command->count || command->count > NET_COUNT_MAX || !command->bytes ||
        command->bytes > end->bench->largest)
        return "a field of the command is out of range";
    return command->plain && end->plain < 0 ? "there is no plain socket yet" : NULL;
}

static void begin_reply(struct net_reply *reply, bool ok, const char *text)
{
    memset(reply, 0, sizeof *reply);
    reply->magic = NET_MAGIC;
    reply->ok = ok;
    snprintf(reply->text, sizeof reply->text, "%s", text);
}

static bool send_reply(struct net_end *end, const struct net_reply *reply)
{
    return net_put(end, NET_TAG_REPLY, reply, sizeof *reply);
}

static bool answer_hello(struct net_end *end, const struct net_command *command)
{
    struct bench *bench = end->bench;
    struct host_facts facts;
    struct net_reply reply;
    char text[NET_TEXT_MAX];
    bool fits = command->bytes <= end->room_bytes;

    if (fits)
        bench_resize(bench, (command->bytes + 4095) / 4096 * 4096);
    host_facts_read(&facts);
    snprintf(text, sizeof text, "%.40s, %.80s, %.80s, leat %s", bench->info.name, facts.cpu, facts.kernel,
             leat_version());
    begin_reply(&reply, command->bytes <= bench->largest, text);
    if (!reply.ok)
        snprintf(reply.text, sizeof reply.text, "this end has room for messages of %zu bytes only",
                 bench->largest);
    return send_reply(end, &reply);
}

static bool open_plain(struct net_end *end, const char *address)
{
    struct net_reply reply;
    int listener;

    if (end->plain >= 0)
        close(end->plain);
    end->plain = -1;
    begin_reply(&reply, true, "");
    listener = net_plain_listen(end, address, &reply);
    if (listener < 0)
        return false;
    if (!send_reply(end, &reply)) {
        close(listener);
        return false;
    }
    return net_plain_accept(end, listener, &reply) && send_reply(end, &reply);
}

static bool do_run(struct net_end *end, const struct net_command *command)
{
    struct net_reply reply;
    bool holds = false;
    double cpu;

    begin_reply(&reply, true, "");
    if (!net_prepare(end, command) || !send_reply(end, &reply))
        return false;
    cpu = bench_cpu_now();
    if (!net_run(end, command))
        return false;
    reply.cpu_seconds = bench_cpu_now() - cpu;
    if (!net_check(end, command, &holds))
        return false;
    reply.holds = holds;
    return send_reply(end, &reply);
}

/* Does one command. Returns false if the client is gone or must go. */
static bool do_command(struct net_end *end, const struct net_command *command, const char *address)
{
    const char *problem = problem_of(end, command);
    struct net_reply reply;

    if (problem) {
        begin_reply(&reply, false, problem);
        (void)send_reply(end, &reply);
        snprintf(end->bench->error, sizeof end->bench->error, "%s", problem);
        return false;
    }
    switch ((enum net_op)command->op) {
    case NET_HELLO:
        return answer_hello(end, command);
    case NET_PLAIN:
        return open_plain(end, address);
    case NET_RUN:
    case NET_PING:
        return do_run(end, command);
    default:
        begin_reply(&reply, true, "");
        (void)send_reply(end, &reply);
        return false;
    }
}

/* Receives the next command. Returns false if there is none: the client has gone, or the user interrupts. */
static bool take_command(struct net_end *end, struct net_command *command)
{
    leat_ticket *ticket = NULL;
    leat_status status;

    if (!net_take_start(end, NET_TAG_COMMAND, command, sizeof *command, &ticket))
        return false;
    do
        status = leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, look_ns);
    while (status == LEAT_NOT_READY && !interrupted);
    if (status == LEAT_NOT_READY)
        leat_ticket_cancel(ticket);
    else
        (void)bench_check(end->bench, status);
    leat_ticket_destroy(ticket);
    return status == LEAT_OK;
}

/* ---- clients ---- */

static void serve_client(struct bench *bench, leat_link *link, const char *address, size_t room_bytes)
{
    struct net_end end = {.bench = bench, .link = link, .served = true, .plain = -1, .room_bytes = room_bytes};
    leat_link_info info = LEAT_LINK_INFO_INIT;
    struct net_command command = {0};
    unsigned long runs = 0;

    bench->error[0] = '\0';
    if (leat_link_get_info(link, &info) != LEAT_OK)
        return;
    fprintf(stderr, "leat: %s has connected\n", info.peer);
    while (!interrupted && take_command(&end, &command) && do_command(&end, &command, address))
        runs++;
    if (command.op == NET_BYE || interrupted)
        fprintf(stderr, "leat: %s has ended after %lu commands\n", info.peer, runs);
    else
        cli_complain("serve: %s after %lu commands: %s", info.peer, runs, bench->error);
    if (end.plain >= 0)
        close(end.plain);
    leat_link_close(link);
    for (unsigned i = 0; i < BENCH_STREAM_COUNT; i++) /* their failures are those of this client */
        (void)leat_stream_synchronize(bench->streams[i]);
}

/* Accepts clients. Returns false after an error message. */
static bool serve_clients(struct bench *bench, leat_listener *listener, const struct serve_options *options)
{
    const size_t room_bytes = bench->largest;
    double idle = bench_now();

    while (!interrupted) {
        leat_link *link = NULL;
        leat_status status = leat_accept(listener, look_ns, &link);

        if (status == LEAT_OK) {
            serve_client(bench, link, options->address, room_bytes);
            if (options->once)
                return true;
            idle = bench_now();
        } else if (status != LEAT_NOT_READY) {
            cli_complain("serve: %s", leat_last_error());
            return false;
        } else if (options->timeout > 0 && bench_now() - idle > options->timeout) {
            cli_complain("serve: no client has come for %g s", options->timeout);
            return false;
        }
    }
    return true;
}

static int run_serve(const struct serve_options *options)
{
    struct bench_options bench_options = {.device = options->device};
    leat_listener *listener = NULL;
    struct bench bench;
    bool fine = false;

    catch_interrupts();
    if (!bench_open(&bench, &bench_options))
        cli_complain("serve: %s", bench.error);
    else
        fine = link_listen("serve", options->address, options->key_file, options->encrypt, &listener) &&
               serve_clients(&bench, listener, options);
    leat_listener_close(listener);
    bench_close(&bench);
    return fine ? CLI_OK : CLI_FAILED;
}

static bool parse_timeout(const char *text, double *seconds)
{
    char *end;

    *seconds = strtod(text, &end);
    if (text[0] >= '0' && text[0] <= '9' && !*end && *seconds > 0 && *seconds <= 1e6)
        return true;
    cli_complain("serve: --timeout takes a number of seconds above 0, at most 1000000, not '%s'", text);
    return false;
}

static int parse(int argc, char **argv, struct serve_options *options)
{
    static const struct option names[] = {
        {"device", required_argument, NULL, 'd'}, {"key-file", required_argument, NULL, 'k'},
        {"once", no_argument, NULL, 'o'},         {"timeout", required_argument, NULL, 't'},
        {"encrypt", no_argument, NULL, 'e'},      {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, ":h", names, NULL)) != -1) {
        switch (option) {
        case 'd':
            options->device = optarg;
            break;
        case 'k':
            options->key_file = optarg;
            break;
        case 'e':
            options->encrypt = true;
            break;
        case 'o':
            options->once = true;
            break;
        case 't':
            if (!parse_timeout(optarg, &options->timeout))
                return CLI_USAGE;
            break;
        case 'h':
            fputs(cli_serve_help, stdout);
            return -1;
        default:
            return cli_bad_option(argc, argv, option);
        }
    }
    if (argc - optind != 1) {
        cli_complain("serve: at which address? leat serve tcp:0.0.0.0:7000; see leat help serve");
        return CLI_USAGE;
    }
    options->address = argv[optind];
    return CLI_OK;
}

int cli_serve(int argc, char **argv)
{
    struct serve_options options = {0};
    int status = parse(argc, argv, &options);

    return status == CLI_OK ? run_serve(&options) : status < 0 ? CLI_OK : status;
}
