/*
 * pool_graph.h - declares the state of a graph of pool_model, and the functions that its files share. pool_model.c
 * explains the model.
 */
#ifndef POOL_GRAPH_H
#define POOL_GRAPH_H

#include "harness.h"
#include "model.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum {
    HOST = -1, /* in place of a stream's index: the host, whose own work is complete */
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
    leat_stream *handle, *alias; /* alias: a wrapping of the same stream, or NULL */
    bool far;                    /* a stream of the other device, which may only read blocks */
};

struct event {
    leat_event *handle, *alias;
    bool far;
};

struct pool {
    leat_pool *handle;
    char words[128];
    leat_kind kind;
    uint64_t limit_bytes, most_bytes; /* most_bytes: the highest limit so far; 0: no limit */
    bool has_pages;              /* the pool stitches pages, so freed blocks of any sizes can serve a request */
    atomic_uint_least64_t pages; /* bytes of all live blocks, each rounded up to pages */
    size_t planned[PLANNED_MAX]; /* sizes in the first list of the pool's plan */
    int planned_count;           /* 0: no plan */
    atomic_uint planned_next;
};

struct block {
    uint64_t *ptr; /* NULL: this entry is free */
    size_t bytes;
    struct pool *pool;
    uint64_t value;
    bool filled;      /* the block holds value */
    bool used;        /* some work has used the block */
    bool sealed;      /* no stream can wait for its last users any more: the block may only be freed */
    int writer;       /* a stream's index, or HOST */
    unsigned readers; /* streams that have read the block since the last write, as bits */
    unsigned told;    /* streams that leat_block_use() has named, as bits */
};

/* The result of a read. The model checks it after the host has waited for the stream. */
struct result {
    bool used;
    int stream;
    size_t words;
    uint64_t *seen, expected;
    int step;
};

/* The state of one thread's program. */
struct worker {
    struct model_thread thread;
    uint64_t seed;
    int stream_count;
    struct stream streams[STREAMS_MAX];
    struct event events[EVENTS];
    struct block blocks[BLOCKS];
    struct result results[RESULTS];
    uint64_t *arena; /* pinned memory for RESULTS results of RESULT_WORDS words */
    bool delays;
    uint64_t checked;
};

/* The addresses of a live block of any thread. */
struct interval {
    uintptr_t start, end;
};

extern struct pool_graph {
    bool virtual_memory, managed_memory;
    struct pool pools[POOLS];
    struct worker workers[THREADS_MAX];
    pthread_mutex_t lock; /* protects live, live_count, allocations and refusals */
    struct interval live[THREADS_MAX * BLOCKS];
    int live_count;
    uint64_t allocations, refusals;
} g;

/* The state of this thread's program. */
extern _Thread_local struct worker *w;

/* ---- pool_checks.c ---- */

/* Seeds the random numbers of a step, so that they do not depend on earlier answers of a pool. */
void begin_step(int step);

/* Returns a value that no other block has. */
uint64_t fresh_value(void);

leat_stream *handle_of(int stream);
int any_stream(void);

/* Returns a random stream of the pools' device. The first stream always belongs to this device. */
int near_stream(void);

/* Returns a random live block that can be used, or NULL. */
struct block *any_block(bool sealed_too);

int index_of(const struct block *b);
void enter_live(const struct block *b);

/* Removes a block from the live blocks. Must be called before the free, because then another thread may get the
 * memory. */
void leave_live(const struct block *b);

uint64_t in_pages(size_t bytes);

/* Returns the bytes of all pages that a block touches. A block that crosses the end of a page may touch one page
 * more than its size needs. */
uint64_t pages_of(const struct block *b);

void look(struct result *r);

/* Updates the model: the host has learned that all work of the stream so far is complete. */
void stream_is_done(int stream);

void record(struct event *e, int stream);
void wait_for(int stream, struct event *e);
void open_event(struct event *e, bool far);
struct event *event_for(int stream);

/* Makes calls that must have no effect on the order: records events that are no longer needed, and waits for old
 * records. */
void disturb(struct event *e);

void host_waits_for(int stream);

/* Orders the next work of a stream after all work that another stream, or the host, has so far. */
void stream_after(int stream, int earlier);

/* Orders a stream, or the host, after the block's last write. If write is true, also after all reads since
 * then. */
void come_after_users(int agent, struct block *b, bool write);

void was_written(struct block *b, int agent, uint64_t value);

/* Sometimes submits slow work to a stream, so that its next work starts late. */
void delay(int stream, int percent);

void fill_with(struct block *b, int stream);

/* Submits a copy of a part of a block that holds its value. The part is most often one end of the block. */
void read_piece(struct block *b, int stream);

/* ---- pool_steps.c ---- */

void forget(struct block *b);
void open_stream(struct stream *s, bool far);

/* The callback of a full pool: frees one block and returns 1, or returns 0. */
int make_room(void *argument, leat_pool *pool, uint64_t bytes);

void any_step(void);

#endif
