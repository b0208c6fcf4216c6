/*
 * clock_graph.h - shared by the files of order_model: the state of a graph, and what they call of each other. The
 * model is explained in order_model.c.
 */
#ifndef CLOCK_GRAPH_H
#define CLOCK_GRAPH_H

#include "harness.h"
#include "model.h"

enum {
    HOST = 0,        /* the host's place in a clock; streams follow */
    AGENTS_MAX = 32, /* over a graph's life */
    STREAMS_MAX = 6, /* at a time */
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

/* One access. */
struct moment {
    int agent;
    uint32_t tick;
};

struct cell {
    bool there;
    enum home home;
    int number;
    uint64_t *ptr;
    uint64_t *kernel_ptr; /* what a kernel uses for it */
    uint64_t value;
    struct moment write;            /* the last one */
    uint32_t read_tick[AGENTS_MAX]; /* the last read of each agent since then; 0 for none */
};

struct stream {
    bool there;
    leat_stream *handle, *alias; /* alias: the same stream, wrapped; or NULL */
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

/* What a read brought, to be looked at once it is done. */
struct result {
    bool used;
    struct moment done;
    const uint64_t *words;
    uint64_t seen; /* for a host function, which looks at the words itself */
    uint64_t expected;
    int step;
};

/* A copy that was started with a ticket. */
struct ticket {
    leat_ticket *handle; /* NULL: a free place */
    bool cancelled;      /* so it may end as CANCELLED */
    struct cell *src;
    struct moment read, write; /* of src: this copy's read, and the write before it */
    uint32_t read_before;      /* the tick of the stream's read of src before this one; 0 for none */
    struct clock clock;        /* of the stream, with this copy */
};

/* What one host function does. Lives to the end of the graph. */
struct errand {
    uint64_t *words;
    size_t count;
    bool write;
    uint64_t value;
    uint64_t *seen; /* the first word that is not value, or value */
    long sleep_us;
};

extern struct clock_graph {
    /* of the process */
    leat_device *devices[2];
    uint64_t *arena[HOMES];
    uint64_t *results_arena, *pageable_results;
    leat_kernel *vector_add[2], *add[2];
    uint64_t checked, steps_done;
    bool keep_memory; /* free late, so that lost order shows as a wrong value and not as a crash */

    /* of the graph */
    size_t words; /* of each cell */
    bool delays;
    int agents;
    struct clock host;
    enum home agent_device[AGENTS_MAX];
    struct clock ended[AGENTS_MAX]; /* the last clocks of streams that were destroyed; zeros for the others */
    struct cell cells[CELLS_MAX];
    struct stream streams[STREAMS_MAX];
    struct event events[EVENTS];
    struct result results[RESULTS_MAX];
    struct ticket tickets[TICKETS];
    struct errand *errands;
    int errand_count;
    void **leftover; /* memory that goes when the graph ends */
    int leftovers;
} g;

/* ---- vector_clocks.c ---- */

void join(struct clock *into, const struct clock *from);
struct moment advance(struct stream *s);
struct moment advance_host(void);
void look(struct result *result);

/* Looks at every result that is there under clock. */
void look_at_results(const struct clock *clock);

leat_stream *handle_of(const struct stream *s);
int index_of(const struct stream *s);
void synchronize_stream(struct stream *s);
void synchronize_event(struct event *e);

/* Streams that were destroyed are included: the device knows their work. */
void synchronize_device(enum home device);

void synchronize_all(void);

/* A single question; only when the answer is yes there is something to look at. It changes nothing in the model,
 * so that the graph does not depend on how quick the machine is. */
void ask(void);

void record(struct event *e, struct stream *s);
void wait_for(struct stream *s, struct event *e);
void renew_event(struct event *e);
struct event *event_of_device(enum home device);

/* The host may read a cell, or write it. */
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
