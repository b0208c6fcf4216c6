/*
 * order_model.c - runs random graphs of work over several streams and devices, and checks them against a model of
 * the happens-before order.
 *
 * The model. The host and the streams are agents with vector clocks. Submitting work joins the host's clock into
 * the stream's, and advances the stream by one tick. Recording an event copies the stream's clock. A wait for the
 * event joins that copy into the waiting stream's clock. Synchronizing joins the clock of a stream or of an event
 * into the host's. An access at (agent, tick) happened before all work whose clock has reached tick for that
 * agent.
 *
 * All cells of memory have one size. Every write fills a cell with a unique value. Before an access the model
 * looks for earlier accesses that must precede it. Where no order exists yet the model creates it: by an event
 * that was recorded before, by a new record and a wait, or by a wait of the host. So no dependency is missing, and
 * the value of every read is known. If leat loses a dependency, the reader sees an older or a younger value,
 * because slow work precedes many steps.
 *
 * Pageable cells are used in stream order like all others. A ticket that has reached LEAT_COPY_POINT_STAGED orders
 * the host after the copy's read of its source and nothing else. LEAT_COPY_POINT_DONE joins the stream's clock of
 * that copy into the host's. A cancelled copy leaves its destination undefined, so the same stream or a later one
 * writes the destination again.
 *
 * A failure prints the steps of the graph and the arguments that repeat it.
 *
 *     order_model [--seed N] [--graphs N] [--seconds N] [--steps N] [--device NAME] [--verbose]
 */
#include "clock_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const home_names[] = {"device", "other", "pinned", "registered", "pageable"};
struct clock_graph g;

/* ---- a graph ---------------------------------------------------------------------------------- */

static void make_cells(void)
{
    for (int home = 0; home < HOMES; home++) {
        for (int i = 0; i < CELLS_EACH; i++) {
            struct cell *c = &g.cells[home * CELLS_EACH + i];
            leat_pointer_info info = LEAT_POINTER_INFO_INIT;

            if (!g.arena[home])
                continue;
            c->there = true;
            c->home = (enum home)home;
            c->number = i;
            c->ptr = g.arena[home] + (size_t)i * g.words;
            DO(leat_pointer_get_info(c->ptr, &info));
            c->kernel_ptr = info.device_pointer;
        }
    }
}

/* Writes the first value of each cell. One stream copies it from pageable memory. */
static void fill_cells(void)
{
    uint64_t *words = malloc(g.words * 8);

    if (!words)
        give_up("no memory");
    for (int i = 0; i < CELLS_FIXED; i++) {
        struct cell *c = &g.cells[i];
        uint64_t value = draw();

        if (!c->there)
            continue;
        for (size_t k = 0; k < g.words; k++)
            words[k] = value;
        DO(leat_copy_sync(g.streams[0].handle, c->ptr, words, g.words * 8));
        advance(&g.streams[0]);
        was_written(c, advance_host(), value);
    }
    DO(leat_stream_synchronize(g.streams[0].handle));
    free(words);
    join(&g.host, &g.streams[0].clock);
}

static void begin_graph(void)
{
    static const size_t sizes[] = {1, 8, 100, 512, 4096, WORDS_MAX};

    model_thread_begin(model_self, 0);
    draw_from(model.seed);
    g.agents = 1;
    g.errand_count = 0;
    g.leftovers = 0;
    memset(&g.host, 0, sizeof g.host);
    memset(g.ended, 0, sizeof g.ended);
    memset(g.cells, 0, sizeof g.cells);
    memset(g.streams, 0, sizeof g.streams);
    memset(g.results, 0, sizeof g.results);
    memset(g.tickets, 0, sizeof g.tickets);
    g.words = sizes[pick(6)];
    g.delays = chance(75);
    note("cells of %zu words, %s", g.words, g.delays ? "with slow work in between" : "without slow work");
    for (int i = 0, count = 2 + pick(STREAMS_MAX - 1); i < count; i++)
        open_stream(&g.streams[i]);
    for (int i = 0; i < EVENTS; i++) {
        struct event *e = &g.events[i];

        memset(e, 0, sizeof *e);
        e->device = g.devices[OTHER] && i % 2 ? OTHER : DEVICE;
        DO(leat_event_create(g.devices[e->device], &e->handle));
    }
    make_cells();
    fill_cells();
}

/* Checks all cells and results a last time, and frees everything. */
static void end_graph(void)
{
    uint64_t *words = malloc(g.words * 8);
    leat_stream *stream;

    if (!words)
        give_up("no memory");
    model_self->step++;
    for (int i = 0; i < TICKETS / 2; i++)
        if (g.tickets[i].handle)
            free_ticket(&g.tickets[i]);
    synchronize_all();
    DO(leat_stream_create(g.devices[DEVICE], &stream));
    for (int i = 0; i < CELLS_MAX; i++) {
        struct cell *c = &g.cells[i];
        struct result now = {.words = words, .expected = c->value, .step = model_self->step};

        if (!c->there)
            continue;
        note("at the end: look at %s", cell_name(c));
        DO(leat_copy_sync(stream, words, c->ptr, g.words * 8));
        look(&now);
        if (i >= CELLS_FIXED)
            DO(leat_memory_free(c->ptr));
    }
    DO(leat_stream_destroy(stream));
    for (int i = 0; i < TICKETS; i++)
        if (g.tickets[i].handle)
            free_ticket(&g.tickets[i]);
    for (int i = 0; i < EVENTS; i++)
        DO(leat_event_destroy(g.events[i].handle));
    for (int i = 0; i < STREAMS_MAX; i++) {
        if (!g.streams[i].there)
            continue;
        DO(leat_stream_destroy(g.streams[i].alias));
        DO(leat_stream_destroy(g.streams[i].handle));
        DO(leat_memory_free(g.streams[i].scratch));
    }
    while (g.leftovers)
        DO(leat_memory_free(g.leftover[--g.leftovers]));
    free(words);
}

static void run_graph(void)
{
    begin_graph();
    for (model_self->step = 1; model_self->step <= model.steps; model_self->step++)
        any_step();
    end_graph();
    g.steps_done += (uint64_t)model.steps;
}

/* ---- the process ------------------------------------------------------------------------------ */

static void set_up(void)
{
    size_t arena_bytes = (size_t)CELLS_EACH * WORDS_MAX * 8;

    g.devices[DEVICE] = model.device;
    g.devices[OTHER] = model.other;
    g.keep_memory = getenv("ORDER_MODEL_KEEP_MEMORY") != NULL;
    /* Each step needs at most one errand for a host function, and a few for delays. */
    g.errands = calloc((size_t)model.steps * 4 + 16, sizeof *g.errands);
    g.leftover = calloc((size_t)model.steps, sizeof *g.leftover);
    g.arena[PAGEABLE] = malloc(arena_bytes);
    g.arena[REGISTERED] = malloc(arena_bytes);
    g.pageable_results = malloc((size_t)RESULTS_MAX * WORDS_MAX * 8);
    if (!g.pageable_results || !g.errands || !g.leftover || !g.arena[PAGEABLE] || !g.arena[REGISTERED])
        give_up("no memory");
    for (int i = 0; i < 2; i++) {
        leat_module *module;

        if (!g.devices[i])
            continue;
        DO(leat_memory_alloc(g.devices[i], LEAT_KIND_DEVICE, arena_bytes, (void **)&g.arena[i]));
        DO(leat_module_builtin(g.devices[i], &module));
        DO(leat_kernel_get(module, "leat_vector_add_u32", &g.vector_add[i]));
        DO(leat_kernel_get(module, "leat_add_u32", &g.add[i]));
    }
    DO(leat_memory_alloc(g.devices[DEVICE], LEAT_KIND_PINNED, arena_bytes, (void **)&g.arena[PINNED]));
    DO(leat_memory_alloc(g.devices[DEVICE], LEAT_KIND_PINNED, (size_t)RESULTS_MAX * WORDS_MAX * 8,
                         (void **)&g.results_arena));
    DO(leat_register(g.devices[DEVICE], g.arena[REGISTERED], arena_bytes));
}

static void tear_down(void)
{
    DO(leat_unregister(g.arena[REGISTERED]));
    DO(leat_memory_free(g.results_arena));
    DO(leat_memory_free(g.arena[PINNED]));
    DO(leat_memory_free(g.arena[OTHER]));
    DO(leat_memory_free(g.arena[DEVICE]));
    DO(leat_device_close(g.devices[OTHER]));
    DO(leat_device_close(g.devices[DEVICE]));
    free(g.arena[REGISTERED]);
    free(g.arena[PAGEABLE]);
    free(g.pageable_results);
    free(g.errands);
    free(g.leftover);
    model_thread_end(model_self);
}

int main(int argc, char **argv)
{
    long graphs;

    model_begin(argc, argv, "order_model", 150, 0);
    set_up();
    graphs = model_run(run_graph);
    tear_down();
    printf("order_model: %ld graphs, %llu steps, %llu reads saw what they may see\n", graphs,
           (unsigned long long)g.steps_done, (unsigned long long)g.checked);
    return 0;
}
