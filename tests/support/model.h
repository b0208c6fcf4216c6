/*
 * model.h - shared by the programs that run random graphs of work against a model: arguments, the device, random
 * numbers, and the list of steps. A failure prints that list and the arguments that repeat the graph. Uses public
 * headers only.
 */
#ifndef MODEL_H
#define MODEL_H

#include <leat/leat.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern struct model {
    leat_device *device, *other; /* other: another device of the same driver; NULL if there is none */
    int steps;                   /* number of steps in each graph */
    int threads_wanted;          /* number of threads; 0: each graph draws it */
    uint64_t seed;               /* seed of the current graph */
    int threads;                 /* threads of the current graph; 0 in a program without threads */
} model;

/* Reads the arguments. seconds is how long to run if neither an argument nor ORDER_MODEL_SECONDS sets it.
 * most_threads is 0 in a program without the argument --threads. */
void model_arguments(int argc, char **argv, const char *program, int steps, double seconds, int most_threads);

/* Reads the arguments, opens the device and prints the seed. Ends the process if the device does not exist. */
void model_begin(int argc, char **argv, const char *program, int steps, int most_threads);

/* Runs graphs until the number or the time that the arguments set is reached. Returns the number of graphs. */
long model_run(void (*run_graph)(void));

/* ---- one thread's part of a graph ---- */

struct model_thread {
    int number, step;
    uint64_t random, draws;
    char *log;
    size_t log_used, log_bytes;
};

/* The state of this thread. A program without threads uses only one. */
extern _Thread_local struct model_thread *model_self;

/* The first sets up an empty list of steps; the second frees the list. */
void model_thread_begin(struct model_thread *thread, int number);
void model_thread_end(struct model_thread *thread);

static inline void draw_from(uint64_t random)
{
    model_self->random = random;
    model_self->draws = 0;
}

static inline uint64_t draw(void)
{
    return leat_pattern_value(model_self->draws++, model_self->random);
}

/* Returns a random number from 0 to below - 1. */
static inline int pick(int below)
{
    return (int)(draw() % (uint64_t)below);
}

static inline bool chance(int percent)
{
    return pick(100) < percent;
}

/* A kind of step. weight says how often it is chosen, relative to the others. */
struct model_sort {
    int weight;
    void (*run)(void);
};
void model_any_step(const struct model_sort *sorts, size_t count);

/* Adds one line to the list of steps. */
#define note(...) model_note(__VA_ARGS__)
void model_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints the list and the failure, and ends the process. */
#define give_up(...) model_give_up(__VA_ARGS__)
void model_give_up(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#define DO(call)                                                                                                  \
    do {                                                                                                          \
        leat_status do_status_ = (call);                                                                          \
        if (do_status_ != LEAT_OK)                                                                                \
            give_up("%s returned %s: %s", #call, leat_status_name(do_status_), leat_last_error());                \
    } while (0)

#endif
