/*
 * ordering.c - runs random graphs of work on two devices with the calls of a compatibility library, and checks the
 * results against a model of the order that CUDA and HIP guarantee. See ordering.h.
 *
 * The model. The host and each stream are agents with vector clocks, as in order_model.c. Work of a stream
 * advances the stream's clock. An access at (agent, tick) happened before all work whose clock has reached that
 * tick of that agent. Events and waits join clocks, and so do these rules:
 *
 * - Work of a legacy default stream comes after earlier work of the device's blocking streams, and their later
 *   work comes after it.
 *   work comes after it.
 * - A synchronous copy or set comes after its own stream and, for each other device whose memory it uses, after
 *   that device's legacy default stream and blocking streams. Their later work comes after it.
 * - A copy by a call for peers (cudaMemcpyPeer), or a copy in the legacy default stream between the memory of two
 *   devices, is ordered in the same way with the current device and both devices of the copy, and also with their
 *   non-blocking streams, including destroyed streams.
 *   memory, does the same for the current device and both devices of the copy, and also for their non-blocking
 *   streams, including destroyed ones.
 *
 * Every write fills a cell with a unique value. Before an access, the model submits the events or waits that are
 * still needed to order it. So the model knows the value of each read, and if the library omits a wait, the read
 * returns an older or a younger value. Gates, which are host functions that wait, hold up streams so that such
 * errors become visible.
 *
 * A gate stays closed until the host is about to wait for work behind it; then another thread opens it a moment
 * later. So the model detects a call that returns too early. It also detects a call that waits for too much: that
 * call never returns, and the watchdog reports it.
 */
#include "ordering_graph.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ordering_graph g;

/* ---- a graph ---------------------------------------------------------------------------------- */

/* Each symbol is a variable of its own, because the libraries do not accept an address inside a variable as a
 * symbol. */
static uint64_t first_symbol[WORDS_MAX], second_symbol[WORDS_MAX];

static void make_cell(enum sort sort, int device, int number)
{
    struct use *c = &g.cells[((int)sort * DEVICES + device) * CELLS_EACH + number];
    uint64_t *words = g.memory[sort][device];

    c->cell = (struct cell){.sort = sort, .device = device, .number = number};
    c->there = true;
    if (sort == ARRAY)
        CALL(g.names->array_create(row_bytes(), g.rows, &c->cell.ptr));
    else if (sort == SYMBOL)
        c->cell.ptr = number ? second_symbol : first_symbol;
    else
        c->cell.ptr = words + (size_t)number * g.words;
}

static void make_cells(void)
{
    for (int device = 0; device < DEVICES; device++) {
        set_device(device);
        for (int number = 0; number < CELLS_EACH; number++)
            for (int sort = 0; sort < SORTS; sort++)
                if (IN(sort) & ON_DEVICE || (!device && g.memory[sort][0]))
                    make_cell((enum sort)sort, device, number);
    }
}

/* Returns a synchronous form of copy. A graph uses it to fill its cells at the start and to read them at the
 * end. */
static const struct form *plain_form(unsigned dst, unsigned src)
{
    for (size_t i = 0; i < g.names->form_count; i++) {
        const struct form *form = &g.names->forms[i];

        if (form->order == SYNC && has_arrays(form) && !form->mine && form->dst & dst && form->src & src)
            return form;
    }
    give_up("no form copies from 0x%x to 0x%x", src, dst);
}

/* Writes a random value into each cell. */
static void fill_cells(uint64_t *words)
{
    struct cell from = {.sort = PAGEABLE, .ptr = words};

    for (int i = 0; i < CELLS_MAX; i++) {
        struct use *c = &g.cells[i];
        uint64_t value = draw();

        if (!c->there)
            continue;
        for (size_t k = 0; k < g.words; k++)
            words[k] = value;
        if (IN(c->cell.sort) & BY_HOST)
            memcpy(c->cell.ptr, words, g.words * 8);
        else
            CALL(plain_form(IN(c->cell.sort), IN(PAGEABLE))->copy(&c->cell, &from, NULL));
        was_written(c, host_now(), value);
    }
    for (int device = 0; device < DEVICES; device++)
        synchronize_device(device);
}

static void begin_graph(uint64_t *words)
{
    static const size_t sizes[] = {8, 512, WORDS_MAX};

    model_thread_begin(model_self, 0);
    draw_from(model.seed);
    g.agents = 1;
    g.gate_count = g.held_count = g.errand_count = 0;
    g.latest = NULL;
    memset(&g.host, 0, sizeof g.host);
    memset(g.ended, 0, sizeof g.ended);
    memset(g.fence, 0, sizeof g.fence);
    memset(g.foreign, 0, sizeof g.foreign);
    memset(g.cells, 0, sizeof g.cells);
    memset(g.streams, 0, sizeof g.streams);
    memset(g.results, 0, sizeof g.results);
    g.words = sizes[pick(3)];
    g.rows = chance(50) ? 1 : 4;
    set_device(0);
    note("cells of %zu words in %zu rows", g.words, g.rows);
    for (int i = 0; i < STREAMS_MAX; i++)
        open_stream(&g.streams[i], i % DEVICES, i < OTHERS || i % 4 < 2);
    for (int i = 0; i < EVENTS; i++) {
        g.events[i] = (struct event){.device = i % DEVICES};
        set_device(i % DEVICES);
        CALL(g.names->event_create(&g.events[i].handle));
    }
    make_cells();
    fill_cells(words);
}

/* Checks each cell once more, then destroys the arrays, events and streams of the graph. */
static void end_graph(uint64_t *words)
{
    struct cell to = {.sort = PAGEABLE, .ptr = words};

    for (int device = 0; device < DEVICES; device++)
        synchronize_device(device);
    for (int i = 0; i < CELLS_MAX; i++) {
        struct use *c = &g.cells[i];

        if (!c->there)
            continue;
        note("at the end: look at %s", cell_name(&c->cell));
        if (IN(c->cell.sort) & BY_HOST) {
            look(c->cell.ptr, c->value, model_self->step);
        } else {
            CALL(plain_form(IN(PAGEABLE), IN(c->cell.sort))->copy(&to, &c->cell, NULL));
            look(words, c->value, model_self->step);
        }
        if (c->cell.sort == ARRAY)
            CALL(g.names->array_destroy(c->cell.ptr));
    }
    for (int i = 0; i < g.errand_count; i++)
        if (atomic_load(&g.errands[i].wrong))
            give_up("the host function of step %d saw other words than 0x%016llx", g.errands[i].step,
                    (unsigned long long)g.errands[i].value);
    for (int i = 0; i < EVENTS; i++)
        CALL(g.names->event_destroy(g.events[i].handle));
    for (int i = OTHERS; i < STREAMS_MAX; i++)
        CALL(g.names->stream_destroy(g.streams[i].handle));
}

static void run_graph(void)
{
    static uint64_t words[WORDS_MAX];

    begin_graph(words);
    for (model_self->step = 1; model_self->step <= model.steps; model_self->step++)
        any_step();
    end_graph(words);
    g.steps_done += (uint64_t)model.steps;
}

/* ---- the process ------------------------------------------------------------------------------ */

static void set_up(void)
{
    static uint64_t pageable[CELLS_EACH * WORDS_MAX];
    size_t bytes = sizeof pageable;
    pthread_t thread;

    for (int device = 0; device < DEVICES; device++) {
        CALL(g.names->set_device(device));
        CALL(g.names->allocate(DEVICE, bytes, &g.memory[DEVICE][device]));
    }
    set_device(0);
    CALL(g.names->allocate(PINNED, bytes, &g.memory[PINNED][0]));
    CALL(g.names->allocate(MANAGED, bytes, &g.memory[MANAGED][0]));
    CALL(g.names->allocate(PINNED, (size_t)RESULTS_MAX * WORDS_MAX * 8, &g.pinned_results));
    g.pageable_results = malloc((size_t)RESULTS_MAX * WORDS_MAX * 8);
    g.memory[PAGEABLE][0] = pageable;
    g.memory[SYMBOL][0] = first_symbol;
    if (!g.pageable_results || pthread_create(&thread, NULL, open_gates, NULL) || pthread_detach(thread) ||
        pthread_create(&thread, NULL, watch, model_self) || pthread_detach(thread))
        give_up("no memory");
}

static void tear_down(void)
{
    CALL(g.names->release(PINNED, g.pinned_results));
    CALL(g.names->release(MANAGED, g.memory[MANAGED][0]));
    CALL(g.names->release(PINNED, g.memory[PINNED][0]));
    for (int device = 0; device < DEVICES; device++) {
        CALL(g.names->release(DEVICE, g.memory[DEVICE][device]));
        CALL(g.names->set_device(device));
        CALL(g.names->device_reset());
    }
    free(g.pageable_results);
    model_thread_end(model_self);
}

int run_ordering(const struct names *names, int argc, char **argv)
{
    long graphs;

    g.names = names;
    model_arguments(argc, argv, names->program, STEPS, 4, 0);
    printf("%s: seed %llu, %d steps a graph\n", names->program, (unsigned long long)model.seed, model.steps);
    fflush(stdout);
    set_up();
    graphs = model_run(run_graph);
    tear_down();
    printf("%s: %ld graphs, %llu steps, %llu reads saw what they may see\n", names->program, graphs,
           (unsigned long long)g.steps_done, (unsigned long long)g.checked);
    return 0;
}
