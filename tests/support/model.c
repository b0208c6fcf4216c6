/* model.c - see model.h. */
#include "model.h"
#include "harness.h"
#include "seed.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct model model;

static struct model_thread only_thread;
_Thread_local struct model_thread *model_self = &only_thread;

static const char *program;
static bool verbose;
static long graphs_wanted; /* 0: --seconds limits the run instead */
static double seconds_wanted;

/* ---- the process ---- */

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Reads an argument that takes a value. Returns false if there is no such argument. */
static bool take(const char *name, const char *value, int most_threads)
{
    if (!strcmp(name, "--seed"))
        model.seed = strtoull(value, NULL, 10);
    else if (!strcmp(name, "--graphs"))
        graphs_wanted = strtol(value, NULL, 10);
    else if (!strcmp(name, "--seconds"))
        seconds_wanted = strtod(value, NULL);
    else if (!strcmp(name, "--steps"))
        model.steps = atoi(value);
    else if (!strcmp(name, "--threads") && most_threads)
        model.threads_wanted = atoi(value) > most_threads ? most_threads : atoi(value);
    else if (!strcmp(name, "--device"))
        setenv("LEAT_TEST_DEVICE", value, 1);
    else
        return false;
    return true;
}

static void read_arguments(int argc, char **argv, int most_threads)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--verbose")) {
            verbose = true;
        } else if (i + 1 < argc && take(argv[i], argv[i + 1], most_threads)) {
            i++;
        } else {
            fprintf(stderr,
                    "usage: %s [--seed N] [--graphs N] [--seconds N] [--steps N]%s [--device NAME] [--verbose]\n",
                    program, most_threads ? " [--threads N]" : "");
            exit(2);
        }
    }
}

void model_arguments(int argc, char **argv, const char *name, int steps, double seconds, int most_threads)
{
    const char *given = getenv("ORDER_MODEL_SECONDS");

    program = name;
    model.seed = test_seed() * 1000;
    model.steps = steps;
    seconds_wanted = given && *given ? strtod(given, NULL) : seconds;
    read_arguments(argc, argv, most_threads);
}

void model_begin(int argc, char **argv, const char *name, int steps, int most_threads)
{
    const char *require = getenv("LEAT_REQUIRE");

    model_arguments(argc, argv, name, steps, 10, most_threads);
    if (leat_device_open(test_device_name(), &model.device) != LEAT_OK) {
        fprintf(stderr, "%s: %s\n", program, leat_last_error());
        exit(require && *require ? 1 : 77);
    }
    model.other = test_open_other();
    printf("%s: seed %llu, %d steps a graph, on %s%s\n", program, (unsigned long long)model.seed, model.steps,
           test_device_name(), model.other ? " and another device" : "");
    fflush(stdout);
}

long model_run(void (*run_graph)(void))
{
    double start = seconds_now();
    long graphs = 0;

    for (; graphs_wanted ? graphs < graphs_wanted : seconds_now() - start < seconds_wanted; graphs++) {
        run_graph();
        model.seed++;
    }
    return graphs;
}

/* ---- one thread's part of a graph ---- */

void model_thread_begin(struct model_thread *thread, int number)
{
    thread->number = number;
    thread->step = 0;
    thread->log_used = 0;
    if (!thread->log) {
        thread->log_bytes = (size_t)model.steps * 2048 + 4096;
        thread->log = malloc(thread->log_bytes);
    }
    if (!thread->log)
        give_up("no memory");
    thread->log[0] = '\0';
}

void model_thread_end(struct model_thread *thread)
{
    free(thread->log);
    thread->log = NULL;
}

void model_any_step(const struct model_sort *sorts, size_t count)
{
    int total = 0, drawn;

    for (size_t i = 0; i < count; i++)
        total += sorts[i].weight;
    for (drawn = pick(total); drawn >= sorts->weight; sorts++)
        drawn -= sorts->weight;
    sorts->run();
}

void model_note(const char *format, ...)
{
    struct model_thread *self = model_self;
    char line[256];
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (verbose)
        printf("%d: %4d  %s\n", self->number, self->step, line);
    if (length < 0 || self->log_used + (size_t)length + 16 >= self->log_bytes)
        return;
    self->log_used += (size_t)snprintf(self->log + self->log_used, self->log_bytes - self->log_used, "%4d  %s\n",
                                       self->step, line);
}

void model_give_up(const char *format, ...)
{
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    const struct model_thread *self = model_self;
    va_list args;

    pthread_mutex_lock(&one_at_a_time);
    fflush(stdout);
    fprintf(stderr, "%sFAILED", self->log ? self->log : "");
    if (model.threads)
        fprintf(stderr, " in thread %d of %d", self->number, model.threads);
    fprintf(stderr, " at step %d: ", self->step);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nagain with: %s --seed %llu --graphs 1 --steps %d", program, (unsigned long long)model.seed,
            model.steps);
    if (model.threads)
        fprintf(stderr, " --threads %d", model.threads);
    fprintf(stderr, " --device %s\n", test_device_name());
    /* Pending work may still use our memory, so end without freeing it. */
    fflush(NULL);
    _exit(1);
}
