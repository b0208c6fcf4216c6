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
    HOST = -1, /* in place of the index of a stream: complete, as far as the host knows */
    STREAMS_MAX = 6,
    EVENTS = 6,
    BLOCKS = 24,
    POOLS = 4,
    RESULTS = 48,
    RESULT_WORDS = 1024,
    THREADS_MAX = 16,
    PAGE_BYTES = 2 << 20,
    PLANNED_MAX = 30
};

struct stream {
    leat_stream *handle, *alias; /* alias: a wrapper of the same stream; or NULL */
    bool far;                    /* of the other device: it may only read blocks */
};

struct event {
    leat_event *handle, *alias;
    bool far;
};

struct pool {
    leat_pool *handle;
    char words[128];
    leat_kind kind;
    uint64_t limit_bytes, most_bytes; /* most: the highest limit so far; 0: no limit */
    bool has_pages; /* the pool stitches pages, so a request fits whatever the sizes of the freed blocks were */
    atomic_uint_least64_t pages; /* bytes of all live blocks, each rounded up to pages */
    size_t planned[PLANNED_MAX]; /* the sizes of the first list of the pool's plan */
    int planned_count;           /* 0: no plan */
    atomic_uint planned_next;
};

struct block {
    uint64_t *ptr; /* NULL: this entry is free */
    size_t bytes;
    struct pool *pool;
    uint64_t value;
    bool filled; /* the block holds value */
    bool used;   /* some work has used the block */
    bool sealed; /* its last users cannot be waited for any more, but the pool knows them: the block may only be
                    freed */
    int writer;  /* a stream, or HOST */
    unsigned readers; /* one bit for each stream */
    unsigned told;    /* streams that the pool was told of by leat_block_use() */
};

/* The result of a read. It is checked after its stream was waited for. */
struct result {
    bool used;
    int stream;
    size_t words;
    uint64_t *seen, expected;
    int step;
};

/* The program of one thread. */
struct worker {
    struct model_thread thread;
    uint64_t seed;
    int stream_count;
    struct stream streams[STREAMS_MAX];
    struct event events[EVENTS];
    struct block blocks[BLOCKS];
    struct result results[RESULTS];
    uint64_t *arena; /* pinned memory for RESULTS times RESULT_WORDS */
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

/* Starts the random numbers of a step anew, so that they do not depend on what a pool answered before. */
void begin_step(int step);

/* Returns a value that no other block has. */
uint64_t fresh_value(void);

leat_stream *handle_of(int stream);
int any_stream(void);

/* Returns a random stream of the pools' device. At least the first stream always belongs to it. */
int near_stream(void);

/* Returns a random live block that can be used, or NULL. */
struct block *any_block(bool sealed_too);

int index_of(const struct block *b);
void enter_live(const struct block *b);

/* Call before the block is freed: afterwards another thread may have its memory. */
void leave_live(const struct block *b);

uint64_t in_pages(size_t bytes);

/* Returns the pages that a block touches: one more than its size needs if it crosses the end of a page. */
uint64_t pages_of(const struct block *b);

void look(struct result *r);

/* The host has learned that all work of a stream so far is complete. */
void stream_is_done(int stream);

void record(struct event *e, int stream);
void wait_for(int stream, struct event *e);
void open_event(struct event *e, bool far);
struct event *event_for(int stream);

/* Makes calls that must have no effect: moves events that nobody needs, waits for old ones. */
void disturb(struct event *e);

void host_waits_for(int stream);

/* Orders new work of a stream after all work of another stream, or of the host, so far. */
void stream_after(int stream, int earlier);

/* Orders a stream, or the host, after the block's last write; and after all reads since, if it is going to
 * write. */
void come_after_users(int agent, struct block *b, bool write);

void was_written(struct block *b, int agent, uint64_t value);

/* Sometimes puts slow work in front of the next work of a stream. */
void delay(int stream, int percent);

void fill_with(struct block *b, int stream);

/* Copies a part of a block that holds its value, most often one of its ends. */
void read_piece(struct block *b, int stream);

/* ---- pool_steps.c ---- */

void forget(struct block *b);
void open_stream(struct stream *s, bool far);

/* The callback of a full pool: frees one block, or gives up. */
int make_room(void *argument, leat_pool *pool, uint64_t bytes);

void any_step(void);

#endif
