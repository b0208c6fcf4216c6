/*
 * ordering_graph.h - declares what the files of the ordering model share: the state of a graph, and the functions
 * that one file calls in another. ordering.c explains the model.
 */
#ifndef ORDERING_GRAPH_H
#define ORDERING_GRAPH_H

#include "ordering.h"

#include "../support/model.h"

#include <stdatomic.h>

enum {
    DEVICES = 2,
    HOST = 0,
    AGENTS_MAX = 40, /* maximum number of agents in the whole life of a graph */
    LEGACY = 0,      /* first index of the legacy default streams; MINE: of the per-thread default streams; OTHERS:
                      * of all other streams */
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

/* A cell and its latest accesses. */
struct use {
    struct cell cell;
    bool there;
    uint64_t value;
    struct moment write;
    uint32_t read_tick[AGENTS_MAX]; /* for each agent, the tick of its last read since the write; 0: none */
};

struct stream {
    bool there, blocking;
    void *handle; /* NULL for default streams */
    int device, agent;
    struct clock clock;
};

struct event {
    void *handle;
    int device;
    bool recorded;
    struct clock clock;
};

/* The destination of a read. It is checked when the read is complete. */
struct result {
    bool used;
    struct moment done;
    struct cell cell;
    uint64_t expected;
    int step;
};

struct gate {
    atomic_int open;
    bool held; /* the gate stays closed until a call is about to wait for work behind it */
    struct moment moment;
};

/* The access of one host function to a cell in host memory. */
struct errand {
    uint64_t *words;
    size_t count;
    bool write;
    uint64_t value;
    int step;
    atomic_int wrong;
};

extern struct ordering_graph {
    /* These fields belong to the process. */
    const struct names *names;
    void *memory[SORTS][DEVICES];
    void *pinned_results, *pageable_results;
    uint64_t checked, steps_done;

    /* The following fields belong to the current graph. */
    size_t words, rows;
    int current; /* ordinal of the current device */
    int agents;
    struct clock host;
    struct clock ended[DEVICES][2]; /* joined clocks of destroyed streams: [0] non-blocking, [1] blocking */
    struct clock fence[DEVICES];    /* the work after which later work of non-blocking streams comes */
    struct clock foreign[DEVICES];  /* sets of this device's memory in streams of any device */
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

/* Number of steps that the host has begun. The watchdog checks that it grows. */
extern atomic_ullong progress;

/* The devices with which a call is ordered besides its stream. all: also with their non-blocking streams. */
struct partners {
    unsigned devices;
    bool all;
};

extern const struct partners none;

#define BY_HOST (ON_HOST | IN(MANAGED) | IN(SYMBOL))

/* ---- ordering_clocks.c ---- */

size_t row_bytes(void);

/* A host function that waits until the gate opens, for at most 30 seconds. */
void wait_at_gate(void *argument);

void *open_gates(void *unused);

/* Called before the host waits for work that this clock covers: opens the gates in front of that work. */
void let_pass(const struct clock *clock);

void *watch(void *main_thread);
void join(struct clock *into, const struct clock *from);
bool is_legacy(const struct stream *s);

/* Returns the clock of the stream's next work, without the tick that the work itself will add. */
struct clock coming(const struct stream *s, struct partners with);

/* Records in the model that work was submitted to the stream. Returns the moment of that work. */
struct moment advance(struct stream *s, struct partners with);

struct moment host_now(void);
void look(const uint64_t *words, uint64_t expected, int step);
void look_at_results(const struct clock *clock);

/* Records in the model that the host has waited for everything that the clock covers, and checks the results. */
void host_joins(const struct clock *clock);

void set_device(int device);

/* Returns the handle to pass to a call. For a default stream it first makes the stream's device current. */
void *handle_of(const struct stream *s);

const char *stream_name(const struct stream *s);
void open_stream(struct stream *s, int device, bool blocking);
struct stream *any_stream(void);
void synchronize_stream(struct stream *s);
void synchronize_event(struct event *e);
void synchronize_device(int device);

/* Queries a stream or an event, and checks the results of work that the answer reports as complete. The query does
 * not change the model, so that the graph does not depend on the speed of the machine. */
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

/* Returns false if the form copies only arrays of one row and the arrays of this graph have several rows. */
bool has_arrays(const struct form *form);

void copy(void);
void any_step(void);

#endif
