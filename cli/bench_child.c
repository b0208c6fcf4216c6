/*
 * bench_child.c - runs a program that prints JSON in a child process; see bench_child.h.
 */
#include "bench_child.h"
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Returns true if child->variables has a variable with the same name as this "NAME=value". */
static bool is_replaced(const struct bench_child *child, const char *variable)
{
    size_t length = strcspn(variable, "=") + 1;
    unsigned i;

    for (i = 0; child->variables[i]; i++)
        if (!strncmp(child->variables[i], variable, length))
            return true;
    return false;
}

/* Returns the environment of the child, or NULL if memory is short. */
static const char **make_environment(const struct bench_child *child)
{
    size_t count = 0, used = 0, i;
    const char **made;

    while (environ[count])
        count++;
    made = calloc(count + BENCH_CHILD_VARIABLES_MAX + 1, sizeof *made);
    if (!made)
        return NULL;
    for (i = 0; i < count; i++)
        if (!is_replaced(child, environ[i]))
            made[used++] = environ[i];
    for (i = 0; child->variables[i]; i++)
        made[used++] = child->variables[i];
    return made;
}

/* Starts the program. Returns the end of the pipe from which its standard output can be read, or NULL. */
static FILE *start(const struct bench_child *child, pid_t *pid)
{
    const char *words[BENCH_CHILD_WORDS_MAX + 1] = {child->program ? child->program : "leat"};
    const char **environment = make_environment(child);
    posix_spawn_file_actions_t actions;
    FILE *output = NULL;
    int ends[2];

    memcpy(words + 1, child->words, sizeof child->words);
    if (!environment || pipe2(ends, O_CLOEXEC) != 0) {
        free(environment);
        return NULL;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    /* The casts remove const, which the declaration of posix_spawnp() lacks. It writes to neither array. */
    errno = posix_spawnp(pid, child->program ? child->program : "/proc/self/exe", &actions, NULL,
                         (char *const *)(uintptr_t)words, (char *const *)(uintptr_t)environment);
    if (errno == 0)
        output = fdopen(ends[0], "r");
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (!output)
        close(ends[0]);
    free(environment);
    return output;
}

json_t *bench_child_run(struct bench *bench, const struct bench_child *child)
{
    json_t *json;
    int status = 0;
    pid_t pid;
    FILE *file = start(child, &pid);

    if (!file) {
        snprintf(bench->error, sizeof bench->error, "%s cannot be started: %s",
                 child->program ? child->program : "a second leat", strerror(errno));
        return NULL;
    }
    json = json_loadf(file, 0, NULL);
    fclose(file);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (json && WIFEXITED(status) && WEXITSTATUS(status) == CLI_OK)
        return json;
    snprintf(bench->error, sizeof bench->error, "the child process %s ended with %s %d",
             child->program ? child->program : "leat", WIFEXITED(status) ? "exit status" : "signal",
             WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    json_decref(json);
    return NULL;
}
