/*
 * ordering_graph.h - shared by the files of the ordering model: the state of a graph, and what they call of each
 * other. The model is explained in ordering.c.
 */
#ifndef ORDERING_GRAPH_H
#define ORDERING_GRAPH_H

#include "ordering.h"

#include "../support/model.h"

#include <stdatomic.h>

enum {
    DEVICES = 2,
    HOST = 0,
    AGENTS_MAX = 40, /* over a graph's life */
    LEGACY = 0, /* places in the list of streams: one legacy and one per-thread default stream of each device */
    MINE = DEVICES,
    OTHERS = 2 * DEVICES,
    STREAMS_MAX = OTHERS + 6,
    EVENTS = 6,
    RESULTS_MAX = 32,
    GATES_MAX = 400,
    HELD_MAX = 4,
    WORDS_MAX = 8192,
    CELLS_EACH = 2,
    CELLS_MAX = SORTS * CELLS_EACH * DEVICES,
    STEPS = 120,
    PATIENCE_SECONDS = 60
};

struct clock {
    uint32_t at[AGENTS_MAX];
};

struct moment {
    int agent;
    uint32_t tick;
};

/* A cell, and who used it last. */
struct use {
    struct cell cell;
    bool there;
    uint64_t value;
    struct moment write;
    uint32_t read_tick[AGENTS_MAX]; /* the last read of each agent since then; 0 for none */
};

struct stream {
    bool there, blocking;
    void *handle; /* of those that are no default streams */
    int device, agent;
    struct clock clock;
};

struct event {
    void *handle;
    int device;
    bool recorded;
    struct clock clock;
};

/* What a read brought, to be looked at once it is done. */
struct result {
    bool used;
    struct moment done;
    struct cell cell;
    uint64_t expected;
    int step;
};

struct gate {
    atomic_int open;
    bool held; /* until somebody must wait for what comes after it */
    struct moment moment;
};

/* What one host function does with a cell of the host. */
struct errand {
    uint64_t *words;
    size_t count;
    bool write;
    uint64_t value;
    int step;
    atomic_int wrong;
};

extern struct ordering_graph {
    /* of the process */
    const struct names *names;
    void *memory[SORTS][DEVICES];
    void *pinned_results, *pageable_results;
    uint64_t checked, steps_done;

    /* of the graph */
    size_t words, rows;
    int current; /* device */
    int agents;
    struct clock host;
    struct clock ended[DEVICES][2]; /* of streams that were destroyed: non-blocking, blocking */
    struct clock fence[DEVICES];    /* what non-blocking streams come after */
    struct clock foreign[DEVICES];  /* what streams of other devices were given with this one's memory */
    struct use cells[CELLS_MAX];
    struct stream streams[STREAMS_MAX];
    struct event events[EVENTS];
    struct result results[RESULTS_MAX];
    struct gate gates[GATES_MAX];
    int gate_count, held_count;
    struct use *latest; /* the cell that was written last */
    struct errand errands[GATES_MAX];
    int errand_count;
} g;

#define CALL(call)                                                                                                \
    do {                                                                                                          \
        int call_result_ = (call);                                                                                \
        if (call_result_)                                                                                         \
            give_up("%s gave %d", #call, call_result_);                                                           \
    } while (0)

/* Steps that the host has begun. */
extern atomic_ullong progress;

/* Devices that a call is ordered with beside its stream. */
struct partners {
    unsigned devices;
    bool all;
};

extern const struct partners none;

#define BY_HOST (ON_HOST | IN(MANAGED) | IN(SYMBOL))

/* ---- ordering_clocks.c ---- */

size_t row_bytes(void);

/* Gives up after half a minute. */
void wait_at_gate(void *argument);

void *open_gates(void *unused);

/* The host is about to wait for all that this clock has reached. */
void let_pass(const struct clock *clock);

void *watch(void *main_thread);
void join(struct clock *into, const struct clock *from);
bool is_legacy(const struct stream *s);

/* The clock of the next work of a stream, before its own tick. */
struct clock coming(const struct stream *s, struct partners with);

/* Gives the stream work. */
struct moment advance(struct stream *s, struct partners with);

struct moment host_now(void);
void look(const uint64_t *words, uint64_t expected, int step);
void look_at_results(const struct clock *clock);

/* The host comes after all that a clock has reached. */
void host_joins(const struct clock *clock);

void set_device(int device);

/* How a call names the stream; a default stream is one of the current device. */
void *handle_of(const struct stream *s);

const char *stream_name(const struct stream *s);
void open_stream(struct stream *s, int device, bool blocking);
struct stream *any_stream(void);
void synchronize_stream(struct stream *s);
void synchronize_event(struct event *e);
void synchronize_device(int device);

/* Only when the answer is yes there is something to look at. It changes nothing in the model, so that the graph
 * does not depend on how quick the machine is. */
void ask(void);

void record(struct event *e, struct stream *s);
void wait_for(struct stream *s, struct event *e);
struct event *event_of_device(int device);
void work_may(struct stream *s, struct partners with, struct use *c, bool write);
void host_may(struct use *c, bool write);
void was_read(struct use *c, struct moment now);
void was_written(struct use *c, struct moment now, uint64_t value);

/* ---- ordering_steps.c ---- */

const char *cell_name(const struct cell *c);

/* Has the graph the arrays that the form takes? */
bool has_arrays(const struct form *form);

void copy(void);
void any_step(void);

#endif
