/*
 * clock_graph.h - declares the state of a graph of order_model, and the functions that its files share.
 * order_model.c explains the model.
 */
#ifndef CLOCK_GRAPH_H
#define CLOCK_GRAPH_H

#include "harness.h"
#include "model.h"

enum {
    HOST = 0,        /* index of the host in a clock; the streams follow */
    AGENTS_MAX = 32, /* most agents in the whole life of a graph */
    STREAMS_MAX = 6, /* most streams at the same time */
    EVENTS = 6,
    TEMPORARY_MAX = 4,
    RESULTS_MAX = 64,
    TICKETS = 12,
    WORDS_MAX = 32768,
    SCRATCH_WORDS = 1 << 15
};

enum home { DEVICE, OTHER, PINNED, REGISTERED, PAGEABLE, HOMES };

extern const char *const home_names[];
enum { CELLS_EACH = 3, CELLS_FIXED = HOMES * CELLS_EACH, CELLS_MAX = CELLS_FIXED + TEMPORARY_MAX };

struct clock {
    uint32_t at[AGENTS_MAX];
};

/* The time of an access: an agent and its tick. */
struct moment {
    int agent;
    uint32_t tick;
};

struct cell {
    bool there;
    enum home home;
    int number;
    uint64_t *ptr;
    uint64_t *kernel_ptr; /* the cell's address for kernels */
    uint64_t value;
    struct moment write;            /* the last write */
    uint32_t read_tick[AGENTS_MAX]; /* tick of the last read by each agent since that write; 0: none */
};

struct stream {
    bool there;
    leat_stream *handle, *alias; /* alias: a wrapping of the same stream, or NULL */
    enum home device;            /* DEVICE or OTHER */
    int agent;
    struct clock clock;
    uint32_t *scratch;
};

struct event {
    leat_event *handle;
    enum home device;
    bool recorded;
    struct clock clock;
};

/* The result of a read. The model checks it once it knows that the read is complete. */
struct result {
    bool used;
    struct moment done;
    const uint64_t *words;
    uint64_t seen; /* the value that a host function read from the cell */
    uint64_t expected;
    int step;
};

/* A copy that was started with a ticket. */
struct ticket {
    leat_ticket *handle; /* NULL: this entry is free */
    bool cancelled;      /* LEAT_ERROR_CANCELLED is a valid result */
    struct cell *src;
    struct moment read, write; /* this copy's read of src, and the last write to src before it */
    uint32_t read_before;      /* tick of the stream's previous read of src; 0: none */
    struct clock clock;        /* clock of the stream after this copy */
};

/* The work of one host function. It lives until the graph ends. */
struct errand {
    uint64_t *words;
    size_t count;
    bool write;
    uint64_t value;
    uint64_t *seen; /* receives value, or the first word that differs from it */
    long sleep_us;
};

extern struct clock_graph {
    /* State of the process: */
    leat_device *devices[2];
    uint64_t *arena[HOMES];
    uint64_t *results_arena, *pageable_results;
    leat_kernel *vector_add[2], *add[2];
    uint64_t checked, steps_done;
    bool keep_memory; /* free memory late: a lost dependency then gives a wrong value, not a crash */

    /* State of the current graph: */
    size_t words; /* size of each cell in words of 8 bytes */
    bool delays;
    int agents;
    struct clock host;
    enum home agent_device[AGENTS_MAX];
    struct clock ended[AGENTS_MAX]; /* last clocks of destroyed streams; zeros for the others */
    struct cell cells[CELLS_MAX];
    struct stream streams[STREAMS_MAX];
    struct event events[EVENTS];
    struct result results[RESULTS_MAX];
    struct ticket tickets[TICKETS];
    struct errand *errands;
    int errand_count;
    void **leftover; /* memory to free when the graph ends */
    int leftovers;
} g;

/* ---- vector_clocks.c ---- */

void join(struct clock *into, const struct clock *from);
struct moment advance(struct stream *s);
struct moment advance_host(void);
void look(struct result *result);

/* Checks every result whose read happened before clock. */
void look_at_results(const struct clock *clock);

leat_stream *handle_of(const struct stream *s);
int index_of(const struct stream *s);
void synchronize_stream(struct stream *s);
void synchronize_event(struct event *e);

/* Makes the host wait for all work of a device, including that of destroyed streams. */
void synchronize_device(enum home device);

void synchronize_all(void);

/* Queries a stream or an event once, and checks results if it is complete. The model does not change, because the
 * graph must not depend on the speed of the machine. */
void ask(void);

void record(struct event *e, struct stream *s);
void wait_for(struct stream *s, struct event *e);
void renew_event(struct event *e);
struct event *event_of_device(enum home device);

/* Orders the host after earlier accesses, so that it may read or write the cell. */
void host_may(struct cell *c, bool write);

void stream_may(struct stream *s, struct cell *c, bool write);
void was_read(struct cell *c, struct moment now);
void was_written(struct cell *c, struct moment now, uint64_t value);

/* ---- clock_steps.c ---- */

const char *cell_name(const struct cell *c);
void free_ticket(struct ticket *ticket);
void open_stream(struct stream *s);
void any_step(void);

#endif
