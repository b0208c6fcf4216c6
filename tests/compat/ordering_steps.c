/* ordering_steps.c - makes the random steps of ordering.c: copies, sets, host functions, events and waits. */
#include "ordering_graph.h"

#include <stdio.h>

/* ---- steps ------------------------------------------------------------------------------------ */

const char *cell_name(const struct cell *c)
{
    static const char *const sorts[] = {"device", "array", "pinned", "pageable", "managed", "symbol"};
    static char names[4][32];
    static int next;
    char *name = names[next++ % 4];

    snprintf(name, sizeof names[0], IN(c->sort) & ON_DEVICE ? "%s[%d] of device %d" : "%s[%d]", sorts[c->sort],
             c->number, c->device);
    return name;
}

/* Returns a cell whose sort is in the set, or NULL if there is none. In many cases it is the cell that was written
 * last. */
static struct use *any_cell(unsigned sorts)
{
    int first = g.latest && chance(30) ? (int)(g.latest - g.cells) : pick(CELLS_MAX);

    for (int i = 0; i < CELLS_MAX; i++) {
        struct use *c = &g.cells[(first + i) % CELLS_MAX];

        if (c->there && sorts & IN(c->cell.sort))
            return c;
    }
    return NULL;
}

/* At random, puts a gate into the stream, which holds up later work of the stream. */
static void maybe_hold(struct stream *s)
{
    struct gate *gate = &g.gates[g.gate_count];

    if (!chance(35) || g.held_count == HELD_MAX || g.gate_count == GATES_MAX)
        return;
    g.gate_count++;
    note("%s stands at a gate", stream_name(s));
    atomic_store(&gate->open, 0);
    CALL(g.names->host_function(handle_of(s), wait_at_gate, gate));
    gate->moment = advance(s, none);
    gate->held = true;
    g.held_count++;
}

/* Opens a gate for which no call waits yet. */
static void open_a_gate(void)
{
    for (int i = 0; i < g.gate_count; i++)
        if (g.gates[i].held && chance(50)) {
            note("a gate opens");
            g.gates[i].held = false;
            g.held_count--;
            atomic_store(&g.gates[i].open, 1);
            return;
        }
}

static bool takes_stream(enum order order)
{
    return order == STREAM || order == WAITING;
}

/* Returns the stream of a call: a random one if the call has a stream argument, otherwise a default stream. */
static struct stream *stream_for(enum order order, bool mine)
{
    return takes_stream(order) ? any_stream() : &g.streams[(mine ? MINE : LEGACY) + g.current];
}

static unsigned device_of(const struct cell *c)
{
    return IN(c->sort) & ON_DEVICE ? 1u << c->device : 0;
}

static struct partners partners_of(const struct stream *s, enum order order, unsigned devices)
{
    unsigned here = 1u << s->device;

    if (order == STREAM)
        return none;
    if (order == PEER || (is_legacy(s) && devices == (1u << DEVICES) - 1))
        return (struct partners){devices | here, true};
    return (struct partners){devices & ~here, false};
}

/* Returns a random form of copy. In a quarter of the calls it is a form with order PEER, because there are few of
 * these. */
static const struct form *any_form(void)
{
    bool peer = chance(25);
    const struct form *form;

    do
        form = &g.names->forms[pick((int)g.names->form_count)];
    while (peer && form->order != PEER);
    return form;
}

bool has_arrays(const struct form *form)
{
    return g.rows == 1 || !((form->dst | form->src) & ONE_ROW);
}

static bool is_ordinary(const struct cell *c)
{
    return c->sort == PAGEABLE || c->sort == SYMBOL;
}

/* Returns true if the call returns only after the copy is complete. Calls for which it returns false do not wait
 * for a gate. */
static bool waits(const struct form *form, const struct cell *dst, const struct cell *src)
{
    bool host_to_host =
        !(IN(dst->sort) & (ON_DEVICE | IN(MANAGED))) && !(IN(src->sort) & (ON_DEVICE | IN(MANAGED)));

    if (form->order == STREAM)
        return is_ordinary(dst) || host_to_host;
    return form->order == WAITING || !(IN(dst->sort) & ON_DEVICE) || !(IN(src->sort) & ON_DEVICE);
}

static void give_copy(const struct form *form, struct stream *s, struct partners with, const struct cell *dst,
                      struct use *src, struct moment *done)
{
    struct clock before = coming(s, with);
    bool wait = waits(form, dst, &src->cell);

    note("%s copies %s to %s on %s: 0x%016llx", form->name, cell_name(&src->cell), cell_name(dst), stream_name(s),
         (unsigned long long)src->value);
    if (wait)
        let_pass(&before);
    CALL(form->copy(dst, &src->cell, handle_of(s)));
    *done = advance(s, with);
    if (wait && !takes_stream(form->order) && is_ordinary(&src->cell) && IN(dst->sort) & ON_DEVICE)
        host_joins(&before); /* the call waited for earlier work and read the source; the DMA may still run */
    else if (wait)
        host_joins(&s->clock);
    was_read(src, is_ordinary(&src->cell) ? host_now() : *done);
}

void copy(void)
{
    const struct form *form = any_form();
    struct stream *s = stream_for(form->order, form->mine);
    struct use *dst = any_cell(form->dst), *src = any_cell(form->src);
    struct partners with;
    struct moment done;

    if (!dst || !src || dst == src || !has_arrays(form))
        return;
    with = partners_of(s, form->order, device_of(&dst->cell) | device_of(&src->cell));
    /* The call, or one of leat's threads, reads a pageable source, so its order with the host matters too. */
    work_may(s, with, src, false);
    if (form->order == STREAM && is_ordinary(&src->cell))
        host_may(src, false);
    work_may(s, with, dst, true);
    maybe_hold(s);
    set_device(takes_stream(form->order) ? g.current : s->device);
    give_copy(form, s, with, &dst->cell, src, &done);
    was_written(dst, done, src->value);
}

static uint64_t spread(uint32_t value, unsigned unit)
{
    uint64_t all = unit == 1 ? (value & 0xff) * 0x01010101u : unit == 2 ? (value & 0xffff) * 0x00010001u : value;

    return all << 32 | all;
}

static void give_set(const struct set *set, struct stream *s, struct use *dst)
{
    struct partners with = partners_of(s, set->order, device_of(&dst->cell));
    bool wait = set->order != STREAM && dst->cell.sort != DEVICE;
    uint32_t value = (uint32_t)draw();
    struct moment done;
    struct clock before;

    work_may(s, with, dst, true);
    maybe_hold(s);
    set_device(takes_stream(set->order) ? g.current : s->device);
    before = coming(s, with);
    note("%s sets %s on %s: 0x%016llx", set->name, cell_name(&dst->cell), stream_name(s),
         (unsigned long long)spread(value, set->unit));
    if (wait)
        let_pass(&before);
    CALL(set->fill(&dst->cell, value, handle_of(s)));
    done = advance(s, with);
    join(&g.foreign[dst->cell.device], &s->clock);
    if (wait)
        host_joins(&s->clock);
    was_written(dst, done, spread(value, set->unit));
}

static void set(void)
{
    const struct set *set = &g.names->sets[pick((int)g.names->set_count)];

    give_set(set, stream_for(set->order, set->mine),
             any_cell(IN(DEVICE) | (chance(20) ? IN(PINNED) | IN(MANAGED) : 0)));
}

/* Destroys a stream, often with a set still queued in it, and creates another one in its place. */
static void renew_stream(void)
{
    struct stream *s = &g.streams[OTHERS + pick(STREAMS_MAX - OTHERS)];
    const struct set *set = &g.names->sets[pick((int)g.names->set_count)];

    if (g.agents == AGENTS_MAX)
        return;
    if (set->order == STREAM)
        give_set(set, s, any_cell(IN(DEVICE)));
    note("destroy %s", stream_name(s));
    CALL(g.names->stream_destroy(s->handle));
    join(&g.ended[s->device][s->blocking], &s->clock);
    open_stream(s, pick(DEVICES), chance(50));
}

/* Returns an unused result. If there is none, waits for all devices first, which frees all results. */
static struct result *new_result(void)
{
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < RESULTS_MAX; i++)
            if (!g.results[i].used)
                return &g.results[i];
        for (int device = 0; device < DEVICES; device++)
            synchronize_device(device);
    }
    give_up("the model itself is wrong: no place for a result");
}

/* Copies a cell to pageable or pinned memory of a result, which is checked after the copy is complete. */
static void read_cell(void)
{
    const struct form *form = any_form();
    struct stream *s = stream_for(form->order, form->mine);
    struct use *src = any_cell(form->src);
    struct result *result;
    struct partners with;
    uint64_t *words;
    bool pinned;

    if (!(form->dst & ON_HOST) || !src || !has_arrays(form))
        return;
    result = new_result();
    pinned = form->dst & IN(PINNED) && chance(50);
    words = pinned ? g.pinned_results : g.pageable_results;
    words += (size_t)(result - g.results) * g.words;
    for (size_t i = 0; i < g.words; i++)
        words[i] = 0xbadbadbadbadbadbu;
    with = partners_of(s, form->order, device_of(&src->cell));
    work_may(s, with, src, false);
    if (form->order == STREAM && is_ordinary(&src->cell))
        host_may(src, false);
    maybe_hold(s);
    set_device(takes_stream(form->order) ? g.current : s->device);
    *result = (struct result){.cell = {.sort = pinned ? PINNED : PAGEABLE, .number = 99, .ptr = words},
                              .expected = src->value,
                              .step = model_self->step};
    give_copy(form, s, with, &result->cell, src, &result->done);
    result->used = true;
    look_at_results(&g.host);
}

static void run_errand(void *argument)
{
    struct errand *errand = argument;

    for (size_t i = 0; i < errand->count; i++)
        if (errand->write)
            errand->words[i] = errand->value;
        else if (errand->words[i] != errand->value)
            atomic_store(&errand->wrong, 1);
}

static void host_function(void)
{
    struct stream *s = any_stream();
    struct use *c = any_cell(BY_HOST);
    struct errand *errand = &g.errands[g.errand_count];
    struct moment now;

    if (g.errand_count == GATES_MAX)
        return;
    g.errand_count++;
    errand->write = chance(50);
    errand->value = errand->write ? draw() : c->value;
    errand->words = c->cell.ptr;
    errand->count = g.words;
    errand->step = model_self->step;
    atomic_store(&errand->wrong, 0);
    work_may(s, none, c, errand->write);
    maybe_hold(s);
    note("%s has the host %s %s: 0x%016llx", stream_name(s), errand->write ? "write" : "read", cell_name(&c->cell),
         (unsigned long long)errand->value);
    CALL(g.names->host_function(handle_of(s), run_errand, errand));
    now = advance(s, none);
    if (errand->write)
        was_written(c, now, errand->value);
    else
        was_read(c, now);
}

static void host_access(void)
{
    struct use *c = any_cell(BY_HOST);
    bool write = chance(60);
    uint64_t value = draw(), *words = c->cell.ptr;

    host_may(c, write);
    note("the host %s %s: 0x%016llx", write ? "writes" : "reads", cell_name(&c->cell),
         (unsigned long long)(write ? value : c->value));
    if (!write) {
        look(words, c->value, model_self->step);
        return;
    }
    for (size_t i = 0; i < g.words; i++)
        words[i] = value;
    was_written(c, host_now(), value);
}

static void record_any(void)
{
    struct stream *s = any_stream();

    record(event_of_device(s->device), s);
}

static void wait_for_any(void)
{
    wait_for(any_stream(), &g.events[pick(EVENTS)]);
}

static void switch_device(void)
{
    set_device(pick(DEVICES));
}

static void synchronize_any(void)
{
    if (chance(60))
        synchronize_stream(any_stream());
    else if (chance(80))
        synchronize_event(&g.events[pick(EVENTS)]);
    else
        synchronize_device(pick(DEVICES));
}

void any_step(void)
{
    static const struct model_sort sorts[] = {
        {30, copy},         {14, set},       {20, read_cell},      {8, host_function},
        {4, host_access},   {4, record_any}, {3, wait_for_any},    {4, renew_stream},
        {8, switch_device}, {5, ask},        {2, synchronize_any}, {4, open_a_gate},
    };

    atomic_fetch_add(&progress, 1);
    model_any_step(sorts, sizeof sorts / sizeof sorts[0]);
}
