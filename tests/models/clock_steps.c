/* clock_steps.c - makes the random steps of order_model. Each step first creates the order that it needs, then
 * calls leat. */
#include "clock_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- steps ------------------------------------------------------------------------------------ */

const char *cell_name(const struct cell *c)
{
    static char names[4][32];
    static int next;
    char *name = names[next++ % 4];

    snprintf(name, sizeof names[0], "%s[%d]", c - g.cells >= CELLS_FIXED ? "temporary" : home_names[c->home],
             c->number);
    return name;
}

static void run_errand(void *argument)
{
    struct errand *errand = argument;

    if (errand->sleep_us)
        test_sleep_us(errand->sleep_us);
    if (!errand->words)
        return;
    *errand->seen = errand->value;
    for (size_t i = 0; i < errand->count; i++) {
        if (errand->write)
            errand->words[i] = errand->value;
        else if (errand->words[i] != errand->value)
            *errand->seen = errand->words[i];
    }
}

static struct errand *new_errand(void)
{
    struct errand *errand = &g.errands[g.errand_count++];

    memset(errand, 0, sizeof *errand);
    return errand;
}

/* Sometimes submits slow work to a stream, so that its next work starts late. */
static void maybe_delay(struct stream *s)
{
    if (!g.delays || !chance(30))
        return;
    if (chance(60)) {
        struct errand *errand = new_errand();

        errand->sleep_us = 50 + pick(1200);
        note("stream %d sleeps %ld us", index_of(s), errand->sleep_us);
        DO(leat_launch_host(handle_of(s), run_errand, errand));
    } else {
        uint64_t count = SCRATCH_WORDS;
        uint32_t one = 1;
        void *args[] = {&s->scratch, &count, &one};

        note("stream %d runs a slow kernel", index_of(s));
        DO(leat_launch(handle_of(s), g.add[s->device], leat_dim(1, 1, 1), leat_dim(32, 1, 1), 0, args, 3));
    }
}

static struct stream *any_stream(void)
{
    int first = pick(STREAMS_MAX);

    for (int i = 0; i < STREAMS_MAX; i++)
        if (g.streams[(first + i) % STREAMS_MAX].there)
            return &g.streams[(first + i) % STREAMS_MAX];
    give_up("the model itself is wrong: no stream left");
}

/* Returns a random cell in one of these kinds of memory. */
static struct cell *any_cell(unsigned homes)
{
    int first = pick(CELLS_MAX);

    for (int i = 0; i < CELLS_MAX; i++) {
        struct cell *c = &g.cells[(first + i) % CELLS_MAX];

        if (c->there && homes & 1u << c->home)
            return c;
    }
    give_up("the model itself is wrong: no cell for 0x%x", homes);
}

#define ON_DEVICE (1u << DEVICE | 1u << OTHER)
#define IN_PINNED (1u << PINNED | 1u << REGISTERED)
#define IN_HOST (IN_PINNED | 1u << PAGEABLE)

/* Returns the kinds of memory that a kernel or a fill on this stream can access. */
static unsigned near(const struct stream *s)
{
    return 1u << s->device | IN_PINNED;
}

/* Returns a free entry for a ticket, or NULL. */
static struct ticket *new_ticket(void)
{
    for (int i = 0; i < TICKETS; i++)
        if (!g.tickets[i].handle)
            return &g.tickets[i];
    return NULL;
}

/* A ticket reported that a copy has read src. So the host is ordered after this read and after the write before
 * it, and after nothing else. If src was used again meanwhile, its ticks differ, and the model does not change. */
static void was_staged(struct cell *src, struct moment now, uint32_t read_before, struct moment write)
{
    if (src->read_tick[now.agent] == now.tick)
        src->read_tick[now.agent] = read_before;
    if (src->write.agent == write.agent && src->write.tick == write.tick)
        src->write = (struct moment){HOST, g.host.at[HOST]};
}

static bool is_far(const struct stream *s, const struct cell *c)
{
    return (c->home == DEVICE || c->home == OTHER) && c->home != s->device;
}

/* Returns true if a layout copy on this stream is supported: at most one of the two cells may be pageable or on
 * the other device, or both may be pageable. */
static bool can_turn(const struct stream *s, const struct cell *dst, const struct cell *src)
{
    return is_far(s, dst) + is_far(s, src) + (dst->home == PAGEABLE) + (src->home == PAGEABLE) < 2 ||
           (dst->home == PAGEABLE && src->home == PAGEABLE);
}

/* Copies a cell as a transposed matrix with four rows. All words of a cell are equal, so the value stays. */
static leat_status turn(struct stream *s, struct cell *dst, const struct cell *src)
{
    int64_t rows = g.words % 4 ? 1 : 4, columns = (int64_t)g.words / rows;
    leat_layout to, from;

    DO(leat_layout_dense(&from, 2, (int64_t[]){rows, columns}, 8));
    DO(leat_layout_transpose(&from, 0, 1));
    DO(leat_layout_dense(&to, 2, from.size, 8));
    return leat_copy_layout(handle_of(s), dst->ptr, &to, src->ptr, &from);
}

/* Submits one copy to a stream that may use both cells. If ticket is NULL, the copy has no ticket. */
static void give_copy(struct stream *s, struct cell *dst, struct cell *src, struct ticket *ticket)
{
    struct moment write = src->write, now;
    uint32_t read_before = src->read_tick[s->agent];
    bool waits = !ticket && chance(8), turns = !ticket && !waits && can_turn(s, dst, src) && chance(30);

    note("stream %d %s %s to %s, 0x%016llx%s%s", index_of(s), turns ? "turns" : "copies", cell_name(src),
         cell_name(dst), (unsigned long long)src->value, ticket ? ", with a ticket" : "",
         waits ? ", and the host waits" : "");
    if (ticket)
        DO(leat_copy_start(handle_of(s), dst->ptr, src->ptr, g.words * 8, NULL, &ticket->handle));
    else if (waits)
        DO(leat_copy_sync(handle_of(s), dst->ptr, src->ptr, g.words * 8));
    else if (turns)
        DO(turn(s, dst, src));
    else
        DO(leat_copy(handle_of(s), dst->ptr, src->ptr, g.words * 8));
    now = advance(s);
    was_written(dst, now, src->value);
    was_read(src, now);
    if (waits && dst->home == PAGEABLE) {
        join(&g.host, &s->clock);
        look_at_results(&g.host);
    } else if (waits && src->home == PAGEABLE) {
        was_staged(src, now, read_before, write);
    }
    if (!ticket)
        return;
    ticket->cancelled = false;
    ticket->src = src;
    ticket->read = now;
    ticket->write = write;
    ticket->read_before = read_before;
    ticket->clock = s->clock;
}

static void copy(void)
{
    struct stream *s = any_stream();
    unsigned homes = ON_DEVICE | IN_PINNED | (chance(50) ? 1u << PAGEABLE : 0);
    struct cell *dst = any_cell(homes), *src = any_cell(homes);

    if (dst == src)
        return;
    stream_may(s, src, false);
    stream_may(s, dst, true);
    maybe_delay(s);
    give_copy(s, dst, src, chance(35) ? new_ticket() : NULL);
}

static void fill(void)
{
    struct stream *s = any_stream();
    struct cell *dst = any_cell(near(s));
    uint64_t value = draw();
    int size = pick(3);

    stream_may(s, dst, true);
    maybe_delay(s);
    if (size == 0)
        value = (value & 0xff) * 0x0101010101010101u;
    else if (size == 1)
        value = (value & 0xffffffff) * 0x0000000100000001u;
    note("stream %d fills %s with 0x%016llx", index_of(s), cell_name(dst), (unsigned long long)value);
    if (size == 0)
        DO(leat_fill(handle_of(s), dst->ptr, (uint8_t)value, g.words * 8));
    else
        DO(leat_fill_pattern(handle_of(s), dst->ptr, &value, size == 1 ? 4 : 8, g.words * 8));
    was_written(dst, advance(s), value);
}

/* Adds both 32-bit halves separately, as the kernels do. */
static uint64_t add_halves(uint64_t a, uint64_t b)
{
    return (uint64_t)((uint32_t)(a >> 32) + (uint32_t)(b >> 32)) << 32 | (uint32_t)((uint32_t)a + (uint32_t)b);
}

static void add_vectors(void)
{
    struct stream *s = any_stream();
    struct cell *dst = any_cell(near(s)), *a = any_cell(near(s)), *b = any_cell(near(s));
    uint64_t count = g.words * 2, value = add_halves(a->value, b->value);
    void *args[] = {&dst->kernel_ptr, &a->kernel_ptr, &b->kernel_ptr, &count};
    struct moment now;

    if (dst == a || dst == b)
        return;
    stream_may(s, a, false);
    stream_may(s, b, false);
    stream_may(s, dst, true);
    maybe_delay(s);
    note("stream %d adds %s and %s into %s, 0x%016llx", index_of(s), cell_name(a), cell_name(b), cell_name(dst),
         (unsigned long long)value);
    DO(leat_launch(handle_of(s), g.vector_add[s->device], leat_dim((uint32_t)(1 + pick(8)), 1, 1),
                   leat_dim(64, 1, 1), 0, args, 4));
    now = advance(s);
    was_read(a, now);
    was_read(b, now);
    was_written(dst, now, value);
}

static void add_in_place(void)
{
    struct stream *s = any_stream();
    struct cell *dst = any_cell(near(s));
    uint32_t number = (uint32_t)draw();
    uint64_t count = g.words * 2, value = add_halves(dst->value, number * 0x0000000100000001u);
    void *args[] = {&dst->kernel_ptr, &count, &number};

    stream_may(s, dst, true);
    maybe_delay(s);
    note("stream %d adds 0x%08x to %s, 0x%016llx", index_of(s), number, cell_name(dst), (unsigned long long)value);
    DO(leat_launch(handle_of(s), g.add[s->device], leat_dim((uint32_t)(1 + pick(8)), 1, 1), leat_dim(64, 1, 1), 0,
                   args, 3));
    was_written(dst, advance(s), value);
}

/* Returns a free entry for a result. If there is none, the host waits for all work first. */
static struct result *new_result(void)
{
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < RESULTS_MAX; i++) {
            struct result *result = &g.results[i];

            if (result->used)
                continue;
            memset(result, 0, sizeof *result);
            result->used = true;
            result->step = model_self->step;
            /* The read is not submitted yet, so its time is later than all others. */
            result->done = (struct moment){HOST, UINT32_MAX};
            return result;
        }
        synchronize_all();
    }
    give_up("the model itself is wrong: no place for a result");
}

static void read_cell(void)
{
    struct stream *s = any_stream();
    struct cell *src = any_cell(ON_DEVICE | IN_HOST);
    struct result *result = new_result();
    uint64_t *arena = chance(50) ? g.pageable_results : g.results_arena;
    uint64_t *words = arena + (size_t)(result - g.results) * g.words;

    stream_may(s, src, false);
    maybe_delay(s);
    for (size_t i = 0; i < g.words; i++)
        words[i] = 0xbadbadbadbadbadbu;
    note("stream %d reads %s into %s memory, 0x%016llx", index_of(s), cell_name(src),
         arena == g.results_arena ? "pinned" : "pageable", (unsigned long long)src->value);
    DO(leat_copy(handle_of(s), words, src->ptr, g.words * 8));
    result->words = words;
    result->expected = src->value;
    result->done = advance(s);
    was_read(src, result->done);
}

static void host_function(void)
{
    struct stream *s = any_stream();
    struct cell *c = any_cell(IN_HOST);
    struct result *result = new_result();
    struct errand *errand = new_errand();

    errand->write = chance(50);
    errand->value = errand->write ? draw() : c->value;
    errand->words = c->ptr;
    errand->count = g.words;
    errand->seen = &result->seen;
    errand->sleep_us = g.delays && chance(30) ? 50 + pick(500) : 0;
    stream_may(s, c, errand->write);
    maybe_delay(s);
    note("stream %d has the host %s %s, 0x%016llx", index_of(s), errand->write ? "write" : "read", cell_name(c),
         (unsigned long long)errand->value);
    DO(leat_launch_host(handle_of(s), run_errand, errand));
    result->expected = errand->value;
    result->done = advance(s);
    if (errand->write)
        was_written(c, result->done, errand->value);
    else
        was_read(c, result->done);
}

static void host_writes(struct cell *c)
{
    uint64_t value = draw();

    host_may(c, true);
    note("the host writes %s, 0x%016llx", cell_name(c), (unsigned long long)value);
    for (size_t i = 0; i < g.words; i++)
        c->ptr[i] = value;
    was_written(c, advance_host(), value);
}

static void host_access(void)
{
    struct cell *c = any_cell(IN_HOST);
    struct result now = {.words = c->ptr, .step = model_self->step};

    if (chance(60)) {
        host_writes(c);
        return;
    }
    host_may(c, false);
    note("the host reads %s, 0x%016llx", cell_name(c), (unsigned long long)c->value);
    now.expected = c->value;
    look(&now);
}

/* ---- steps: tickets --------------------------------------------------------------------------- */

static leat_status wait_at(const struct ticket *ticket, leat_copy_point point)
{
    leat_status status;
    leat_ticket_info info = LEAT_TICKET_INFO_INIT;

    if (chance(50))
        return leat_ticket_wait(ticket->handle, point, LEAT_FOREVER);
    if (chance(50)) {
        while ((status = leat_ticket_wait(ticket->handle, point, 20000)) == LEAT_NOT_READY)
            continue;
        return status;
    }
    do
        DO(leat_ticket_get_info(ticket->handle, &info));
    while (!(point == LEAT_COPY_POINT_DONE ? info.done : info.staged));
    return info.status;
}

/* Makes the host wait until a copy has reached point, and checks its status. */
static void reach(struct ticket *ticket, leat_copy_point point)
{
    leat_status status;

    note("wait until ticket %d is %s", (int)(ticket - g.tickets),
         point == LEAT_COPY_POINT_DONE ? "done" : "staged");
    status = wait_at(ticket, point);
    if (status != LEAT_ERROR_CANCELLED || !ticket->cancelled)
        DO(status);
    if (point == LEAT_COPY_POINT_DONE) {
        join(&g.host, &ticket->clock);
        look_at_results(&g.host);
        return;
    }
    was_staged(ticket->src, ticket->read, ticket->read_before, ticket->write);
}

void free_ticket(struct ticket *ticket)
{
    note("free ticket %d", (int)(ticket - g.tickets));
    DO(leat_ticket_destroy(ticket->handle));
    ticket->handle = NULL;
}

static void use_ticket(void)
{
    int first = pick(TICKETS);
    struct ticket *ticket = NULL;

    for (int i = 0; i < TICKETS && !ticket; i++)
        if (g.tickets[(first + i) % TICKETS].handle)
            ticket = &g.tickets[(first + i) % TICKETS];
    if (!ticket)
        return;
    if (chance(85)) {
        bool done = chance(30);

        reach(ticket, done ? LEAT_COPY_POINT_DONE : LEAT_COPY_POINT_STAGED);
        /* Write the source at once. If the copy still reads it, the copy gets the wrong value. */
        if (!done && ticket->src->there && 1u << ticket->src->home & IN_HOST)
            host_writes(ticket->src);
    }
    if (chance(60))
        free_ticket(ticket);
}

/* Checks the bytes of a cancelled copy that have arrived according to its ticket. The copy is done, and no other
 * work uses dst. */
static void look_at_prefix(struct stream *s, const struct ticket *ticket, const struct cell *dst)
{
    uint64_t *words = malloc(g.words * 8);
    leat_ticket_info info = LEAT_TICKET_INFO_INIT;

    if (!words)
        give_up("no memory");
    DO(leat_ticket_get_info(ticket->handle, &info));
    if (info.arrived_bytes > g.words * 8 || (info.status == LEAT_OK && info.arrived_bytes < g.words * 8))
        give_up("%llu bytes of %zu have arrived, and the status is %s", (unsigned long long)info.arrived_bytes,
                g.words * 8, leat_status_name(info.status));
    DO(leat_copy_sync(handle_of(s), words, dst->ptr, g.words * 8));
    for (size_t i = 0; i < info.arrived_bytes / 8; i++)
        if (words[i] != dst->value)
            give_up("word %zu of a cancelled copy is 0x%016llx and not 0x%016llx, and %llu bytes have arrived", i,
                    (unsigned long long)words[i], (unsigned long long)dst->value,
                    (unsigned long long)info.arrived_bytes);
    g.checked++;
    free(words);
}

/* Starts a copy and cancels it at once or a little later, then writes its destination again. */
static void cancel_copy(void)
{
    struct stream *s = any_stream();
    struct cell *dst = any_cell(ON_DEVICE | IN_HOST), *src = any_cell(ON_DEVICE | IN_HOST);
    struct cell *from = any_cell(ON_DEVICE | IN_HOST);
    struct ticket *ticket = new_ticket();

    if (!ticket || dst == src || dst == from)
        return;
    stream_may(s, src, false);
    stream_may(s, dst, true);
    stream_may(s, from, false);
    maybe_delay(s);
    give_copy(s, dst, src, ticket);
    if (chance(50))
        test_sleep_us(pick(300));
    note("cancel ticket %d", (int)(ticket - g.tickets));
    DO(leat_ticket_cancel(ticket->handle));
    ticket->cancelled = dst->home == PAGEABLE || src->home == PAGEABLE;
    if (chance(40)) {
        reach(ticket, LEAT_COPY_POINT_DONE);
        look_at_prefix(s, ticket, dst);
        advance(s);
    }
    give_copy(s, dst, from, NULL);
    if (chance(50))
        free_ticket(ticket);
}

void open_stream(struct stream *s)
{
    void *native;

    memset(s, 0, sizeof *s);
    s->device = g.devices[OTHER] && chance(40) ? OTHER : DEVICE;
    s->agent = g.agents++;
    g.agent_device[s->agent] = s->device;
    DO(leat_stream_create(g.devices[s->device], &s->handle));
    if (chance(30)) {
        DO(leat_stream_native(s->handle, &native));
        DO(leat_stream_wrap(g.devices[s->device], native, &s->alias));
    }
    DO(leat_memory_alloc(g.devices[s->device], LEAT_KIND_DEVICE, SCRATCH_WORDS * 4, (void **)&s->scratch));
    s->there = true;
    note("create stream %d on the %s%s", index_of(s), s->device == DEVICE ? "device" : "other device",
         s->alias ? ", and wrap it" : "");
}

/* Destroys a stream that still has queued work, and creates another. The old stream's scratch memory stays until
 * the graph ends. */
static void renew_stream(void)
{
    struct stream *s = any_stream();

    if (g.agents == AGENTS_MAX)
        return;
    note("destroy stream %d", index_of(s));
    DO(leat_stream_destroy(s->alias));
    DO(leat_stream_destroy(s->handle));
    g.leftover[g.leftovers++] = s->scratch;
    g.ended[s->agent] = s->clock;
    open_stream(s);
}

static void allocate(void)
{
    struct stream *s = any_stream();
    int number = pick(TEMPORARY_MAX);
    struct cell *c = &g.cells[CELLS_FIXED + number];
    uint64_t value = draw();

    if (c->there)
        return;
    memset(c, 0, sizeof *c);
    c->home = s->device;
    c->number = number;
    note("stream %d allocates %s and fills it with 0x%016llx", index_of(s), cell_name(c),
         (unsigned long long)value);
    DO(leat_alloc(handle_of(s), g.words * 8, (void **)&c->ptr));
    c->kernel_ptr = c->ptr;
    DO(leat_fill_pattern(handle_of(s), c->ptr, &value, 8, g.words * 8));
    c->there = true;
    was_written(c, advance(s), value);
}

static void deallocate(void)
{
    struct stream *s = any_stream();
    struct cell *c = &g.cells[CELLS_FIXED + pick(TEMPORARY_MAX)];

    if (!c->there || c->home != s->device)
        return;
    stream_may(s, c, true);
    note("stream %d frees %s", index_of(s), cell_name(c));
    if (g.keep_memory)
        g.leftover[g.leftovers++] = c->ptr;
    else
        DO(leat_free(handle_of(s), c->ptr));
    advance(s);
    c->there = false;
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

static void renew_any_event(void)
{
    renew_event(&g.events[pick(EVENTS)]);
}

static void synchronize_any(void)
{
    if (chance(45))
        synchronize_stream(any_stream());
    else if (chance(80))
        synchronize_event(&g.events[pick(EVENTS)]);
    else
        synchronize_device(any_stream()->device);
}

void any_step(void)
{
    static const struct model_sort sorts[] = {
        {24, copy},         {12, fill},       {10, add_vectors}, {8, add_in_place}, {20, read_cell},
        {8, host_function}, {4, host_access}, {8, record_any},   {5, wait_for_any}, {3, renew_any_event},
        {2, renew_stream},  {3, allocate},    {3, deallocate},   {8, ask},          {2, synchronize_any},
        {10, use_ticket},   {4, cancel_copy},
    };
    model_any_step(sorts, sizeof sorts / sizeof sorts[0]);
}
