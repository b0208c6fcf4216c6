/* bench_net_start.c - see bench_net.h. */
#include "bench_measure.h"
#include "bench_net.h"
#include "temporary_file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { KEY_BYTES = 32, UCX_PORT = 13650, UCX_TRIES = 40 };

/* How long the server waits for its client, and this process for the end of a child. */
#define SERVER_TIMEOUT "60"
static const double end_seconds = 10;

/* ---- the other end ---- */

/* Makes a file with a random key. Returns its name in path. */
static bool make_key(struct bench *bench, struct link_key *key, char *path, size_t path_bytes)
{
    int file;
    bool fine;

    snprintf(path, path_bytes, "%s/leat-key-XXXXXX", cli_temporary_folder());
    key->count = KEY_BYTES;
    file = mkostemp(path, O_CLOEXEC); /* with mode 0600 */
    fine = file >= 0 && getentropy(key->bytes, KEY_BYTES) == 0 && write(file, key->bytes, KEY_BYTES) == KEY_BYTES;
    if (!fine)
        snprintf(bench->error, sizeof bench->error, "no file for a key in %s: %s", cli_temporary_folder(),
                 strerror(errno));
    if (file >= 0)
        close(file);
    else
        path[0] = '\0';
    return fine;
}

/* Starts "leat serve" with its standard error going to server->messages. */
static bool spawn_server(struct bench *bench, const char *address, const char *key_path, struct net_server *server)
{
    const char *const words[] = {"leat",     "serve",          address,      "--once", "--timeout", SERVER_TIMEOUT,
                                 "--device", bench->info.name, "--key-file", key_path, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2], error;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        snprintf(bench->error, sizeof bench->error, "pipe: %s", strerror(errno));
        return false;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    /* The cast removes const, which the declaration of posix_spawn() lacks. */
    error =
        posix_spawn(&server->process, "/proc/self/exe", &actions, NULL, (char *const *)(uintptr_t)words, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    server->messages = ends[0];
    if (error == 0)
        return true;
    server->process = 0;
    snprintf(bench->error, sizeof bench->error, "a second leat cannot be started: %s", strerror(error));
    return false;
}

/* Reads the line by which the server says where it listens. */
static bool read_address(struct bench *bench, struct net_server *server)
{
    static const char begin[] = "leat: listening at ";
    char line[1024];
    size_t used = 0;

    while (used + 1 < sizeof line) {
        ssize_t some = read(server->messages, line + used, 1);

        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0 || line[used] == '\n')
            break;
        used++;
    }
    line[used] = '\0';
    if (!strncmp(line, begin, sizeof begin - 1)) {
        snprintf(server->address, sizeof server->address, "%.159s", line + sizeof begin - 1);
        return true;
    }
    snprintf(bench->error, sizeof bench->error, "the second leat does not listen: %.900s",
             used ? line : "it has ended");
    return false;
}

bool net_server_start(struct bench *bench, const char *transport, struct net_server *server)
{
    char address[64], path[4096];
    uint64_t number = 0;
    bool fine;

    *server = (struct net_server){.messages = -1};
    (void)!getentropy(&number, sizeof number);
    if (!strcmp(transport, "unix"))
        snprintf(address, sizeof address, "unix:@leat-bench-%016llx", (unsigned long long)number);
    else
        snprintf(address, sizeof address, "%.8s:127.0.0.1:0", transport);
    fine = make_key(bench, &server->key, path, sizeof path) && spawn_server(bench, address, path, server) &&
           read_address(bench, server);
    if (path[0])
        unlink(path); /* the server has read it */
    return fine;
}

/* Waits for a child for a while, then ends it. Returns its status. */
static int reap(pid_t process)
{
    double give_up = bench_now() + end_seconds;
    const struct timespec moment = {.tv_nsec = 10000000};
    int status = 0;

    while (waitpid(process, &status, WNOHANG) == 0) {
        if (bench_now() > give_up) {
            kill(process, SIGKILL);
            while (waitpid(process, &status, 0) < 0 && errno == EINTR)
                ;
            break;
        }
        nanosleep(&moment, NULL);
    }
    return status;
}

void net_server_end(struct net_server *server, bool show)
{
    char text[1024];
    ssize_t some;

    link_key_erase(&server->key);
    if (server->process)
        reap(server->process);
    while (server->messages >= 0 &&
           ((some = read(server->messages, text, sizeof text)) > 0 || (some < 0 && errno == EINTR)))
        if (show && some > 0)
            (void)!write(STDERR_FILENO, text, (size_t)some);
    if (server->messages >= 0)
        close(server->messages);
    *server = (struct net_server){.messages = -1};
}

/* ---- ucx_perftest ---- */

/* Starts ucx_perftest with these words. output: where its standard output goes; -1: nowhere. */
static bool spawn_ucx(const char *const *words, const char *transports, int output, pid_t *process)
{
    posix_spawn_file_actions_t actions;
    const char *environment[4096];
    size_t used = 0;
    int error;

    for (char **at = environ; *at && used < 4090; at++)
        if (strncmp(*at, "UCX_TLS=", 8) != 0)
            environment[used++] = *at;
    if (transports)
        environment[used++] = transports;
    environment[used] = NULL;
    posix_spawn_file_actions_init(&actions);
    if (output >= 0)
        posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    else
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    error = posix_spawnp(process, "ucx_perftest", &actions, NULL, (char *const *)(uintptr_t)words,
                         (char *const *)(uintptr_t)environment);
    posix_spawn_file_actions_destroy(&actions);
    errno = error;
    return error == 0;
}

/* Reads the last line of the final report: iterations; the median, average and overall time in microseconds; and
 * the average and overall rate in MiB/s. */
static bool read_report(FILE *file, double *microseconds, double *mib_s)
{
    char line[512];
    bool found = false;

    while (fgets(line, sizeof line, file)) {
        double median, average, overall;
        long iterations;

        if (sscanf(line, " %ld %lf %lf %lf %*f %lf", &iterations, &median, &average, &overall, mib_s) == 5) {
            *microseconds = overall;
            found = true;
        }
    }
    return found;
}

/* Runs the client once. Returns false if it found no server, or printed no figures. */
static bool run_client(const char *const *words, const char *transports, double *microseconds, double *mib_s)
{
    pid_t client;
    bool found = false;
    FILE *file;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    file = fdopen(ends[0], "r");
    if (file && spawn_ucx(words, transports, ends[1], &client)) {
        close(ends[1]);
        ends[1] = -1;
        found = read_report(file, microseconds, mib_s);
        reap(client);
    }
    if (ends[1] >= 0)
        close(ends[1]);
    if (file)
        fclose(file);
    else
        close(ends[0]);
    return found;
}

double net_ucx_measure(struct bench *bench, bool tcp, bool there_and_back, size_t bytes)
{
    static unsigned runs;
    const char *transports = tcp ? "UCX_TLS=tcp,self" : NULL;
    size_t count = (there_and_back ? 16 : 512) * MIB / bytes;
    char port[16], size[32], iterations[32];
    const char *const serve[] = {"ucx_perftest", "-p", port, "-E", "sleep", NULL};
    const char *const measure[] = {
        "ucx_perftest", "127.0.0.1", "-p", port,       "-t", there_and_back ? "tag_lat" : "tag_bw",
        "-s",           size,        "-n", iterations, "-w", "10",
        "-E",           "sleep",     "-f", NULL};
    const struct timespec moment = {.tv_nsec = 50000000};
    double microseconds = NAN, mib_s = NAN;
    bool found = false;
    pid_t server;

    snprintf(port, sizeof port, "%u", UCX_PORT + ((unsigned)getpid() + runs++) % 1000);
    snprintf(size, sizeof size, "%zu", bytes);
    snprintf(iterations, sizeof iterations, "%zu", count < 10 ? 10 : count > 2000 ? 2000 : count);
    if (!spawn_ucx(serve, transports, -1, &server)) {
        snprintf(bench->error, sizeof bench->error, "ucx_perftest cannot be started: %s", strerror(errno));
        return NAN;
    }
    for (unsigned i = 0; i < UCX_TRIES && !found; i++) {
        nanosleep(&moment, NULL);
        if (waitpid(server, NULL, WNOHANG) != 0) { /* the server has ended: the port is in use */
            server = 0;
            break;
        }
        found = run_client(measure, transports, &microseconds, &mib_s);
    }
    if (server) {
        if (!found)
            kill(server, SIGKILL);
        reap(server);
    }
    if (!found)
        snprintf(bench->error, sizeof bench->error, "ucx_perftest printed no figures");
    return there_and_back ? 2 * microseconds : mib_s * (double)MIB * 1e-9;
}
