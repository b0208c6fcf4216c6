/*
 * pool_model.c - runs random programs that allocate, use and free blocks of several pools on several streams, and
 * checks them against a model of who may use which memory.
 *
 * The model. Each live block has a value that fills it, the stream that wrote it last, and the streams that have
 * read it since. Before a stream uses a block, the program orders it after these, by events or by a wait of the
 * host. Before a block is freed, the program orders the freeing stream after them, or tells the pool of them
 * (leat_block_use, leat_block_use_until). Any stream can free a block that no work has used. So the program obeys
 * the rules of leat/pool.h, and the value of every read is known. A pool can make two errors. Two live blocks
 * overlap: the model checks this at each allocation. Or a pool reuses memory while work of its last owner still
 * runs: slow work precedes many reads and writes, also the last ones before a free, so such work writes into the
 * next owner's block or reads its value.
 *
 * Pools are small, so that streams take memory from each other all the time. The random numbers of each step start
 * from the seed and the number of the step, because the answers of a pool depend on the speed of the machine.
 *
 * Some graphs have several threads, which use the same pools, each with its own blocks and streams. A failure
 * prints the steps of its thread, and the arguments that repeat the graph.
 *
 *     pool_model [--seed N] [--graphs N] [--seconds N] [--steps N] [--threads N] [--device NAME] [--verbose]
 */
#include "pool_graph.h"
#include "temporary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pool_graph g = {.lock = PTHREAD_MUTEX_INITIALIZER};
_Thread_local struct worker *w;

/* ---- a graph ---------------------------------------------------------------------------------- */

/* Writes a plan with random places that overlap, so the plan is wrong most of the time, and the pool must check
 * whether a place is free. For a while the requests follow the first list of the plan. */
static void write_plan(struct pool *p, char path[TEMPORARY_PATH])
{
    uint64_t arena_bytes = (uint64_t)(6 + pick(12)) << 20;
    int lists = 1 + pick(3), descriptor;
    FILE *file;

    descriptor = temporary_file(path);
    file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    if (!file)
        give_up("no file for a plan");
    fprintf(file, "leat-plan 1\nbytes %llu\n", (unsigned long long)arena_bytes);
    for (int list = 0; list < lists; list++) {
        int count = 2 + pick(PLANNED_MAX - 1);

        fprintf(file, "stream %d\n", count);
        for (int i = 0; i < count; i++) {
            size_t bytes = chance(60) ? (size_t)(1 + pick(4)) << 20 : (1 << 20) + 512 * (size_t)pick(6000);

            fprintf(file, "%zu %llu\n", bytes, (unsigned long long)pick((int)((arena_bytes - bytes) / 512)) * 512);
            if (!list)
                p->planned[i] = bytes;
        }
        if (!list)
            p->planned_count = count;
    }
    if (fclose(file))
        give_up("a plan could not be written");
}

static void open_pool(struct pool *p, int number)
{
    char plan[TEMPORARY_PATH] = "";
    leat_pool_options options = {.size = sizeof options, .reuse = (leat_pool_reuse)pick(3)};
    int sort = pick(10);

    memset(p, 0, sizeof *p);
    /* The first two pools are of device memory; the others may be of any kind. */
    if (number >= 2 && sort < 2)
        options.no_virtual_memory = 1;
    else if (number >= 2 && sort < 5)
        options.kind = LEAT_KIND_PINNED;
    else if (number >= 2 && sort < 7 && g.virtual_memory)
        options.dedicated = 1;
    else if (number >= 2 && sort == 7 && g.managed_memory)
        options.kind = LEAT_KIND_MANAGED;
    if (chance(75))
        options.limit_bytes = (uint64_t)(6 + pick(26)) << 20;
    options.scrub = chance(10);
    options.guard = chance(8);
    options.history = chance(20) ? 64 : 0;
    options.packing = (leat_pool_packing)pick(3);
    if (!options.kind && !options.no_virtual_memory && !options.dedicated && g.virtual_memory && chance(50)) {
        write_plan(p, plan);
        options.plan = plan;
    }
    p->kind = options.kind ? options.kind : LEAT_KIND_DEVICE;
    p->limit_bytes = p->most_bytes = options.limit_bytes;
    p->has_pages = p->kind == LEAT_KIND_DEVICE && g.virtual_memory && !options.no_virtual_memory &&
                   !options.guard && options.packing != LEAT_POOL_PACKING_STILL;
    snprintf(p->words, sizeof p->words, "%s%s%s%s%s%s, policy %d, packing %d, limit %llu", leat_kind_name(p->kind),
             options.no_virtual_memory ? ", plain" : "", options.dedicated ? ", one handle" : "",
             options.scrub ? ", scrubbed" : "", options.guard ? ", guarded" : "", options.plan ? ", planned" : "",
             (int)options.reuse, (int)options.packing, (unsigned long long)options.limit_bytes);
    note("pool %d: %s", number, p->words);
    DO(leat_pool_create(model.device, &options, &p->handle));
    if (options.plan)
        unlink(plan);
    if (chance(25))
        DO(leat_pool_on_full(p->handle, make_room, NULL));
}

static void begin_worker(void)
{
    begin_step(0);
    for (int i = 0; w->thread.number && i < POOLS; i++)
        note("pool %d: %s", i, g.pools[i].words);
    memset(w->blocks, 0, sizeof w->blocks);
    memset(w->results, 0, sizeof w->results);
    w->delays = chance(85);
    w->stream_count = 2 + pick(STREAMS_MAX - 1);
    note("%d streams, %s", w->stream_count, w->delays ? "with slow work in between" : "without slow work");
    for (int i = 0; i < w->stream_count; i++)
        open_stream(&w->streams[i], i && model.other && chance(15));
    for (int i = 0; i < EVENTS; i++)
        open_event(&w->events[i], model.other && i >= EVENTS - 2);
}

/* Checks all blocks and results a last time, and frees everything. */
static void end_worker(void)
{
    begin_step(w->thread.step + 1);
    for (int i = 0; i < BLOCKS; i++)
        if (w->blocks[i].ptr && w->blocks[i].filled && !w->blocks[i].sealed) {
            int stream = near_stream();

            come_after_users(stream, &w->blocks[i], false);
            read_piece(&w->blocks[i], stream);
        }
    DO(leat_device_synchronize(model.device));
    if (model.other)
        DO(leat_device_synchronize(model.other));
    for (int i = 0; i < RESULTS; i++)
        if (w->results[i].used)
            look(&w->results[i]);
    for (int i = 0; i < BLOCKS; i++) {
        if (!w->blocks[i].ptr)
            continue;
        forget(&w->blocks[i]);
        DO(leat_memory_free(w->blocks[i].ptr));
    }
    for (int i = 0; i < EVENTS; i++) {
        DO(leat_event_destroy(w->events[i].alias));
        DO(leat_event_destroy(w->events[i].handle));
    }
    for (int i = 0; i < w->stream_count; i++) {
        DO(leat_stream_destroy(w->streams[i].alias));
        DO(leat_stream_destroy(w->streams[i].handle));
    }
}

static void *run_worker(void *argument)
{
    w = argument;
    model_self = &w->thread;
    begin_worker();
    for (int step = 1; step <= model.steps; step++) {
        begin_step(step);
        any_step();
    }
    end_worker();
    return NULL;
}

static void set_up_worker(struct worker *worker, int number)
{
    w = worker;
    model_self = &w->thread;
    model_thread_begin(model_self, number);
    if (!w->arena)
        DO(leat_memory_alloc(model.device, LEAT_KIND_PINNED, (size_t)RESULTS * RESULT_WORDS * 8,
                             (void **)&w->arena));
    w->seed = model.seed + (uint64_t)number * 0x2545f4914f6cdd1du;
    begin_step(-1);
}

static void close_pool(struct pool *p, int number)
{
    leat_pool_stats figures = {.size = sizeof figures};

    DO(leat_pool_get_stats(p->handle, &figures));
    if (figures.live_blocks || figures.requested_bytes || figures.allocations != figures.frees)
        give_up("pool %d counts %llu live blocks at the end, %llu bytes, %llu allocations and %llu frees", number,
                (unsigned long long)figures.live_blocks, (unsigned long long)figures.requested_bytes,
                (unsigned long long)figures.allocations, (unsigned long long)figures.frees);
    if (p->most_bytes && figures.reserved_peak_bytes > p->most_bytes)
        give_up("pool %d held %llu bytes, and its limit was never above %llu", number,
                (unsigned long long)figures.reserved_peak_bytes, (unsigned long long)p->most_bytes);
    DO(leat_pool_destroy(p->handle));
}

static void run_graph(void)
{
    pthread_t threads[THREADS_MAX];

    set_up_worker(&g.workers[0], 0);
    model.threads = chance(20) ? 4 : 1;
    if (model.threads_wanted)
        model.threads = model.threads_wanted;
    for (int i = 0; i < POOLS; i++)
        open_pool(&g.pools[i], i);
    for (int i = 1; i < model.threads; i++) {
        set_up_worker(&g.workers[i], i);
        if (pthread_create(&threads[i], NULL, run_worker, &g.workers[i]))
            give_up("no thread");
    }
    run_worker(&g.workers[0]);
    for (int i = 1; i < model.threads; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < POOLS; i++)
        close_pool(&g.pools[i], i);
}

/* ---- the process ------------------------------------------------------------------------------ */

static void set_up(void)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    leat_module *module;

    DO(leat_device_get_info(model.device, &info));
    g.virtual_memory = info.virtual_memory;
    g.managed_memory = info.managed_memory;
    /* Load the kernels for fills now. Loading may wait for the device, which would hide that another call fails to
     * wait. */
    DO(leat_module_builtin(model.device, &module));
}

static void tear_down(void)
{
    for (int i = 0; i < THREADS_MAX; i++) {
        DO(leat_memory_free(g.workers[i].arena));
        model_thread_end(&g.workers[i].thread);
    }
    DO(leat_device_close(model.other));
    DO(leat_device_close(model.device));
}

int main(int argc, char **argv)
{
    uint64_t checked = 0;
    long graphs;

    model_begin(argc, argv, "pool_model", 250, THREADS_MAX);
    set_up();
    graphs = model_run(run_graph);
    for (int i = 0; i < THREADS_MAX; i++)
        checked += g.workers[i].checked;
    tear_down();
    printf("pool_model: %ld graphs, %llu blocks, %llu refused, %llu reads saw what they may see\n", graphs,
           (unsigned long long)g.allocations, (unsigned long long)g.refusals, (unsigned long long)checked);
    return 0;
}
