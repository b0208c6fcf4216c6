/*
 * pool_graph.h - shared by the files of pool_model: the state of a graph, and what they call of each other. The
 * model is explained in pool_model.c.
 */
#ifndef POOL_GRAPH_H
#define POOL_GRAPH_H

#include "harness.h"
#include "model.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum {
    HOST = -1, /* a place among the streams: done, as far as the host knows */
    STREAMS_MAX = 6,
    EVENTS = 6,
    BLOCKS = 24,
    POOLS = 4,
    RESULTS = 48,
    RESULT_WORDS = 1024,
    THREADS_MAX = 16,
    PAGE_BYTES = 2 << 20,
    PLANNED_MAX = 30,
    PLAN_PATH = 40
};

struct stream {
    leat_stream *handle, *alias; /* alias: the same stream, wrapped; or NULL */
    bool far;                    /* of the other device: it may read blocks, and that is all */
};

struct event {
    leat_event *handle, *alias;
    bool far;
};

struct pool {
    leat_pool *handle;
    char words[128];
    leat_kind kind;
    uint64_t limit_bytes, most_bytes; /* most: the highest limit so far; 0: none */
    bool has_pages;              /* pages that lie apart make one block: requests fit whatever the sizes were */
    atomic_uint_least64_t pages; /* in bytes: of live blocks, each rounded up */
    size_t planned[PLANNED_MAX]; /* the sizes of the first list of its plan */
    int planned_count;           /* 0: it has no plan */
    atomic_uint planned_next;
};

struct block {
    uint64_t *ptr; /* NULL: there is none */
    size_t bytes;
    struct pool *pool;
    uint64_t value;
    bool filled; /* it holds value */
    bool used;   /* some work used it */
    bool sealed; /* its last users cannot be waited for any more, but the pool knows of them: it may be freed */
    int writer;  /* a stream, or HOST */
    unsigned readers; /* a bit for each stream */
    unsigned told;    /* streams that the pool was told of */
};

/* What a read brought, to be looked at once its stream was waited for. */
struct result {
    bool used;
    int stream;
    size_t words;
    uint64_t *seen, expected;
    int step;
};

/* One thread's program. */
struct worker {
    struct model_thread thread;
    uint64_t seed;
    int stream_count;
    struct stream streams[STREAMS_MAX];
    struct event events[EVENTS];
    struct block blocks[BLOCKS];
    struct result results[RESULTS];
    uint64_t *arena; /* pinned: RESULTS times RESULT_WORDS */
    bool delays;
    uint64_t checked;
};

/* A live block of any thread. */
struct interval {
    uintptr_t start, end;
};

extern struct pool_graph {
    bool virtual_memory, managed_memory;
    struct pool pools[POOLS];
    struct worker workers[THREADS_MAX];
    pthread_mutex_t lock; /* guards the live blocks */
    struct interval live[THREADS_MAX * BLOCKS];
    int live_count;
    uint64_t allocations, refusals;
} g;

/* The program of this thread. */
extern _Thread_local struct worker *w;

/* ---- pool_checks.c ---- */

/* What a pool answered before has no say in what the next step draws. */
void begin_step(int step);

/* A value that no other block has. */
uint64_t fresh_value(void);

leat_stream *handle_of(int stream);
int any_stream(void);

/* A stream of the pools' device. The first one always is. */
int near_stream(void);

/* A block that is there and can be used, or NULL. */
struct block *any_block(bool sealed_too);

int index_of(const struct block *b);
void enter_live(const struct block *b);

/* Before the block is freed: afterwards another thread may have its memory. */
void leave_live(const struct block *b);

uint64_t in_pages(size_t bytes);

/* The pages that a block touches: one more than it needs, where it lies across an end of one. */
uint64_t pages_of(const struct block *b);

void look(struct result *r);

/* The host knows that all work of a stream so far is done. */
void stream_is_done(int stream);

void record(struct event *e, int stream);
void wait_for(int stream, struct event *e);
void open_event(struct event *e, bool far);
struct event *event_for(int stream);

/* What has nothing to do with what the events are used for: marks that are moved, waits for old ones. */
void disturb(struct event *e);

void host_waits_for(int stream);

/* New work of a stream comes after all that another one, or the host, was given so far. */
void stream_after(int stream, int earlier);

/* A stream, or the host, comes after the block's last write, and after all reads since if it is to write. */
void come_after_users(int agent, struct block *b, bool write);

void was_written(struct block *b, int agent, uint64_t value);

/* Puts slow work in front of what comes next on a stream. */
void delay(int stream, int percent);

void fill_with(struct block *b, int stream);

/* Copies a piece of a block that holds its value, most often one of its ends. */
void read_piece(struct block *b, int stream);

/* ---- pool_steps.c ---- */

void forget(struct block *b);
void open_stream(struct stream *s, bool far);

/* Called by a pool that is full: gives one block back, or gives up. */
int make_room(void *argument, leat_pool *pool, uint64_t bytes);

void any_step(void);

#endif
