/*
 * bench_copy_workers.c - copies of pageable memory by different numbers of leat's copying threads.
 *
 * leat reads its environment variables once in a process, so each number is measured by a process of its own: this
 * command again, whose record's rows are taken over.
 */
#include "bench_copy.h"
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS_MAX = 16, ARGUMENTS_MAX = 20 };

extern char **environ;

static const char part[] = "pageable memory, by the number of copying threads";

/* The environment with the number of threads. On the CPU device, where a copy is one pass over memory, copies take
 * the way of other devices. NULL when memory is short. */
static char **make_environment(const struct bench *bench, unsigned workers, char text[32])
{
    static char stage[] = "LEAT_COPY_STAGE=1";
    size_t count = 0, used = 0, i;
    char **made;

    while (environ[count])
        count++;
    made = calloc(count + 3, sizeof *made);
    if (!made)
        return NULL;
    for (i = 0; i < count; i++)
        if (strncmp(environ[i], "LEAT_COPY_WORKERS=", 18) && strncmp(environ[i], "LEAT_COPY_STAGE=", 16))
            made[used++] = environ[i];
    snprintf(text, 32, "LEAT_COPY_WORKERS=%u", workers);
    made[used++] = text;
    if (!strcmp(bench->info.driver, "cpu"))
        made[used++] = stage;
    return made;
}

static void list_sizes(const struct bench *bench, char *text, size_t room)
{
    const struct bench_options *options = bench->options;
    size_t used = 0;
    unsigned i;

    if (!options->size_count)
        snprintf(text, room, "%s",
                 !strcmp(bench->info.driver, "cpu") ? "64M"
                 : options->full                    ? "1M,8M,64M,2G"
                                                    : "64M,256M");
    for (i = 0; i < options->size_count && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%zu", i ? "," : "", options->sizes[i]);
}

/* Starts the command again; returns the end of the pipe that its record comes from, or NULL. */
static FILE *start(struct bench *bench, unsigned workers, pid_t *child)
{
    char sizes[BENCH_SIZES_MAX * 24], repeat[16], variable[32];
    const char *words[ARGUMENTS_MAX] = {"leat",     "bench",    "copy",    "--json", "--part",  "sizes",
                                        "--memory", "pageable", "--bytes", sizes,    "--device"};
    char **environment = make_environment(bench, workers, variable);
    posix_spawn_file_actions_t actions;
    unsigned count = 11;
    FILE *record = NULL;
    int ends[2];

    if (!environment || pipe2(ends, O_CLOEXEC) != 0) {
        free(environment);
        return NULL;
    }
    list_sizes(bench, sizes, sizeof sizes);
    words[count++] = bench->info.name;
    if (bench->options->quick)
        words[count++] = "--quick";
    if (bench->options->repeat) {
        snprintf(repeat, sizeof repeat, "%u", bench->options->repeat);
        words[count++] = "--repeat";
        words[count++] = repeat;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    /* The words are not written to; the interface is older than const. */
    errno = posix_spawn(child, "/proc/self/exe", &actions, NULL, (char *const *)(uintptr_t)words, environment);
    if (errno == 0)
        record = fdopen(ends[0], "r");
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (!record)
        close(ends[0]);
    free(environment);
    return record;
}

/* Takes over one row of the other process's record. */
static bool take_row(struct bench *bench, json_t *row, unsigned workers)
{
    const char *old_name = json_string_value(json_object_get(row, "case"));
    char name[96];

    snprintf(name, sizeof name, "%s, %u thread%s", old_name ? old_name : "?", workers, workers == 1 ? "" : "s");
    if (!json_is_true(json_object_get(row, "verified")))
        bench->failed = true;
    return json_object_set_new(row, "case", json_string(name)) == 0 &&
           json_object_set_new(row, "part", json_string(part)) == 0 &&
           json_object_set_new(row, "workers", json_integer(workers)) == 0 &&
           json_array_append(bench->rows, row) == 0;
}

static bool measure(struct bench *bench, unsigned workers)
{
    json_t *record = NULL, *row;
    bool fine = true;
    int status = 0;
    size_t index;
    pid_t child;
    FILE *file = start(bench, workers, &child);

    if (!file) {
        snprintf(bench->error, sizeof bench->error, "the command cannot be started again: %s", strerror(errno));
        return false;
    }
    record = json_loadf(file, 0, NULL);
    fclose(file);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    json_array_foreach(json_object_get(record, "rows"), index, row) fine = take_row(bench, row, workers) && fine;
    if (!record || !WIFEXITED(status) || WEXITSTATUS(status) != CLI_OK || !fine) {
        snprintf(bench->error, sizeof bench->error, "the process of its own ended with %s %d",
                 WIFEXITED(status) ? "exit status" : "signal",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        fine = false;
    }
    json_decref(record);
    return fine;
}

void bench_copy_workers(struct bench *bench)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned most = online > 0 && online < WORKERS_MAX ? (unsigned)online : WORKERS_MAX, workers;
    bool each = bench->options->full;

    /* A quick run has no time for processes of their own, unless they are asked for. */
    if (bench->options->quick && !bench->options->copy_parts)
        return;
    for (workers = 1; workers <= most; workers = each ? workers + 1 : workers * 2) {
        bench_progress(bench, "copy", part, 0);
        if (!measure(bench, workers))
            bench_case_failed(bench, "copy", part, 0);
    }
}
