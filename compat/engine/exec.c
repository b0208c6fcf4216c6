/*
 * exec.c - instantiates and launches executable graphs.
 *
 * An executable graph owns a private copy of its graph and a list of steps. The steps are the nodes of that copy
 * and of its child graphs, in a topological order. A launch submits the steps to lanes. The first lane is the
 * stream of the launch. The other lanes are streams of the executable graph, for steps that may run concurrently.
 * A step goes to the lane of a step that it depends on, if that step is the last in its lane, and waits for the
 * lanes of its other dependencies. So a chain of nodes stays in one stream.
 *
 * At the beginning of a launch the other lanes wait for the first lane, and at its end the first lane waits for
 * them. An event at the end of each launch makes the next launch wait for it.
 */
#include "engine/exec.h"
#include "base/lock.h"

#include <stdlib.h>
#include <string.h>

/* Maximum number of lanes on each device. If more steps than this could run concurrently, some of them share a
 * lane and run one after the other. */
#define LANES_MOST 4

#define NONE SIZE_MAX

struct step {
    struct leatc_node *node; /* NULL: this step is the beginning or the end of a child graph */
    size_t first, count;     /* the range of leatc_exec.before that has the numbers of the steps on which this step
                              * depends */
    size_t lane;
};

struct lane {
    struct leatc_stream *stream; /* NULL: the stream is not open */
    uint64_t generation;         /* generation of the device when the stream was opened */
    int ordinal;
    size_t tail;   /* number of the last step in this lane */
    bool followed; /* a step of another lane depends on the step tail */
};

static struct leati_handles executables = LEATI_HANDLES(struct leatc_exec);
static unsigned long long latest_id;

/* ---- steps ---- */

/* Writes the nodes of a graph to list in a topological order. Returns false if the edges form a cycle. */
static bool sort(const struct leatc_graph *graph, struct leatc_node **list)
{
    size_t count = 0;

    for (size_t i = 0; i < graph->count; i++) {
        /* Kahn's algorithm: place counts the dependencies of a node that are not in the list yet. */
        graph->nodes[i]->place = graph->nodes[i]->before.count;
        if (!graph->nodes[i]->place)
            list[count++] = graph->nodes[i];
    }
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < list[i]->after.count; j++)
            if (!--list[i]->after.nodes[j]->place)
                list[count++] = list[i]->after.nodes[j];
    return count == graph->count;
}

/* Called after sort() has failed: returns a node of a cycle. Each node with a place other than 0 depends on
 * another node with a place other than 0, so walking backwards from one of them ends in a cycle. */
static struct leatc_node *of_circle(const struct leatc_graph *graph)
{
    struct leatc_node *node = NULL;

    for (size_t i = 0; i < graph->count; i++)
        if (graph->nodes[i]->place)
            node = graph->nodes[i];
    for (size_t i = 0; i < graph->count; i++)
        for (size_t j = 0; j < node->before.count; j++)
            if (node->before.nodes[j]->place) {
                node = node->before.nodes[j];
                break;
            }
    return node;
}

/* Returns INVALID_VALUE if the edges of the graph or of one of its child graphs form a cycle, and sets *wrong to a
 * node of the cycle. The caller holds the lock of graphs. */
static int check_order(const struct leatc_graph *graph, struct leatc_node **wrong) LEATI_REQUIRES(leatc_graph_lock)
{
    struct leatc_node **list = leatc_node_list(graph);
    bool sorted = list && sort(graph, list);

    leati_assert_locked(&leatc_graph_lock);
    free(list);
    if (!list)
        return LEATC_OUT_OF_MEMORY;
    if (!sorted) {
        *wrong = of_circle(graph);
        return LEATC_INVALID_VALUE;
    }
    for (size_t i = 0; i < graph->count; i++)
        if (graph->nodes[i]->child)
            LEATC_TRY(check_order(graph->nodes[i]->child, wrong));
    return LEATC_OK;
}

/* Counts of a graph, including its child graphs: its steps, the dependencies between them, and its nodes that
 * allocate or free memory. */
struct sizes {
    size_t steps, before, memory;
};

static void count_steps(const struct leatc_graph *graph, struct sizes *sizes)
{
    for (size_t i = 0; i < graph->count; i++) {
        const struct leatc_node *node = graph->nodes[i];

        sizes->steps += node->child ? 2 : 1;
        sizes->before += node->before.count + 1;
        sizes->memory += node->task->type == LEATC_NODE_ALLOC || node->task->type == LEATC_NODE_FREE;
        if (node->child) {
            sizes->before += node->child->count + 1;
            count_steps(node->child, sizes);
        }
    }
}

static size_t begin_step(struct leatc_exec *exec, struct leatc_node *node)
{
    size_t first = 0;

    leati_assert(exec->steps);
    if (exec->step_count) {
        const struct step *previous = &exec->steps[exec->step_count - 1];

        first = previous->first + previous->count;
    }
    exec->steps[exec->step_count] = (struct step){.node = node, .first = first};
    return exec->step_count++;
}

/* Makes the step that was begun last depend on the step number other. */
static void come_after(struct leatc_exec *exec, size_t other)
{
    struct step *step = &exec->steps[exec->step_count - 1];

    exec->before[step->first + step->count++] = other;
}

/* Adds the steps of a graph. Nodes without dependencies depend on the step begin, unless begin is NONE. The place
 * of each node becomes the number of its last step. Returns false if out of memory. */
static bool add_steps(struct leatc_exec *exec, const struct leatc_graph *graph, size_t begin)
{
    struct leatc_node **list = leatc_node_list(graph);
    bool added = list && sort(graph, list);

    for (size_t i = 0; added && i < graph->count; i++) {
        struct leatc_node *node = list[i];
        size_t step = begin_step(exec, node->child ? NULL : node);

        for (size_t j = 0; j < node->before.count; j++)
            come_after(exec, node->before.nodes[j]->place);
        if (!node->before.count && begin != NONE)
            come_after(exec, begin);
        if (node->child) {
            /* A child graph has one step before its nodes and one step after them, so that the edges of its node
             * need only these two. */
            added = add_steps(exec, node->child, step);
            node->place = begin_step(exec, NULL);
            come_after(exec, step);
            for (size_t j = 0; j < node->child->count; j++)
                if (!node->child->nodes[j]->after.count)
                    come_after(exec, node->child->nodes[j]->place);
        } else {
            node->place = step;
        }
        if (node->task->type == LEATC_NODE_ALLOC || node->task->type == LEATC_NODE_FREE)
            exec->memory[exec->memory_count++] = node->task;
    }
    free(list);
    return added;
}

static bool make_steps(struct leatc_exec *exec)
{
    struct sizes sizes = {0, 0, 0};

    count_steps(exec->graph, &sizes);
    exec->step_count = exec->memory_count = 0;
    exec->steps = malloc(sizes.steps * sizeof *exec->steps + 1);
    exec->before = malloc(sizes.before * sizeof *exec->before + 1);
    exec->memory = malloc(sizes.memory * sizeof(struct leatc_task *) + 1);
    return exec->steps && exec->before && exec->memory && add_steps(exec, exec->graph, NONE);
}

/* ---- user objects ---- */

static void release_now(struct leatc_holding *holdings)
{
    struct leatc_object *ended = NULL;

    leatc_graphs_lock();
    leatc_holdings_release(holdings, &ended);
    leatc_graphs_unlock();
    leatc_objects_destroy(ended);
}

static void release_host(void *holdings)
{
    release_now(holdings);
}

static leat_status release_behind(leat_device *device, leat_event *event, struct leatc_holding *holdings)
{
    leat_stream *stream;
    leat_status status = leat_stream_create(device, &stream);

    if (status != LEAT_OK)
        return status;
    status = leat_stream_wait(stream, event);
    if (status == LEAT_OK)
        status = leat_launch_host(stream, release_host, holdings);
    /* The host function still runs, because destroying a stream does not cancel its work. */
    (void)leat_stream_destroy(stream);
    return status;
}

void leatc_exec_release_later(const struct leatc_exec *exec, struct leatc_holding *holdings)
{
    if (!holdings)
        return;
    if (exec->done && leat_event_query(exec->done) == LEAT_NOT_READY) {
        if (release_behind(exec->done_device, exec->done, holdings) == LEAT_OK)
            return;
        (void)leat_event_synchronize(exec->done);
    }
    release_now(holdings);
}

/* ---- lanes ---- */

static void end_lanes(struct leatc_exec *exec)
{
    for (size_t i = 1; i < exec->lane_count; i++)
        if (exec->lanes[i].stream)
            leatc_device_if_open(exec->lanes[i].ordinal, exec->lanes[i].generation, leatc_stream_destroy,
                                 exec->lanes[i].stream);
    free(exec->lanes);
    free(exec->waited);
    exec->lanes = NULL;
    exec->waited = NULL;
    exec->lane_count = 0;
    exec->lanes_for = -1;
}

static bool add_lane(struct leatc_exec *exec, int ordinal)
{
    struct lane *larger = realloc(exec->lanes, (exec->lane_count + 1) * sizeof *larger);

    if (!larger)
        return false;
    exec->lanes = larger;
    larger[exec->lane_count++] = (struct lane){.ordinal = ordinal, .tail = NONE};
    return true;
}

/* Returns a lane of the device for a step that cannot use the lane of a dependency. In this order: a lane without
 * steps, a lane whose last step has a dependent step in another lane, a new lane, the lane whose last step is the
 * oldest. Returns NONE if out of memory. */
static size_t other_lane(struct leatc_exec *exec, int ordinal)
{
    size_t oldest = NONE, count = 0;

    for (size_t i = 0; i < exec->lane_count; i++) {
        const struct lane *lane = &exec->lanes[i];

        if (lane->ordinal != ordinal)
            continue;
        if (lane->tail == NONE || lane->followed)
            return i;
        count++;
        if (oldest == NONE || lane->tail < exec->lanes[oldest].tail)
            oldest = i;
    }
    if (count < LANES_MOST)
        return add_lane(exec, ordinal) ? exec->lane_count - 1 : NONE;
    return oldest;
}

/* Returns the device whose stream runs the step. A step without device work can run in any stream, so it takes the
 * device of its first dependency. */
static int device_of(const struct leatc_exec *exec, const struct step *step)
{
    bool any = !step->node || step->node->task->type == LEATC_NODE_HOST || !step->node->task->run;

    if (!any)
        return step->node->task->ordinal;
    return exec->lanes[step->count ? exec->steps[exec->before[step->first]].lane : 0].ordinal;
}

static bool choose_lane(struct leatc_exec *exec, size_t number)
{
    struct step *step = &exec->steps[number];
    int ordinal = device_of(exec, step);

    step->lane = NONE;
    for (size_t i = 0; i < step->count && step->lane == NONE; i++) {
        size_t before = exec->before[step->first + i], lane = exec->steps[before].lane;

        /* Use the lane of a dependency only if the dependency is the last step of that lane. Otherwise this step
         * would also wait for a step that it does not depend on. */
        if (exec->lanes[lane].tail == before && exec->lanes[lane].ordinal == ordinal)
            step->lane = lane;
    }
    if (step->lane == NONE)
        step->lane = other_lane(exec, ordinal);
    if (step->lane == NONE)
        return false;
    for (size_t i = 0; i < step->count; i++) {
        size_t before = exec->before[step->first + i], lane = exec->steps[before].lane;

        if (lane != step->lane && exec->lanes[lane].tail == before)
            exec->lanes[lane].followed = true;
    }
    exec->lanes[step->lane].tail = number;
    exec->lanes[step->lane].followed = false;
    return true;
}

static int open_lane(struct lane *lane)
{
    int result = LEATC_OK;
    struct leatc_device *device = leatc_device_at(lane->ordinal, &result);
    uint64_t generation;

    if (!device)
        return result;
    generation = atomic_load(&device->generation);
    if (lane->stream && lane->generation == generation)
        return LEATC_OK;
    lane->stream = NULL;
    LEATC_TRY(leatc_stream_new_on(device, &lane->stream));
    lane->generation = generation;
    return LEATC_OK;
}

/* Chooses a lane for each step, for launches on this device, and opens the streams of the lanes. */
static int choose_lanes(struct leatc_exec *exec, int ordinal)
{
    if (exec->lanes_for != ordinal) {
        bool chosen;

        end_lanes(exec);
        chosen = add_lane(exec, ordinal);
        for (size_t i = 0; i < exec->step_count && chosen; i++)
            chosen = choose_lane(exec, i);
        if (chosen)
            exec->waited = malloc(exec->lane_count * exec->lane_count * sizeof *exec->waited);
        if (!exec->waited) {
            end_lanes(exec);
            return LEATC_OUT_OF_MEMORY;
        }
        exec->lanes_for = ordinal;
    }
    for (size_t i = 1; i < exec->lane_count; i++)
        LEATC_TRY(open_lane(&exec->lanes[i]));
    return LEATC_OK;
}

/* ---- launching ---- */

static int chain(const struct leatc_exec *exec, size_t first, size_t then)
{
    return leatc_result_of(leatc_stream_chain(exec->lanes[first].stream, exec->lanes[then].stream));
}

/* Makes a step's lane wait for the step's dependencies in other lanes, except where an earlier wait of the lane
 * includes them. */
static int await(struct leatc_exec *exec, const struct step *step)
{
    for (size_t i = 0; i < step->count; i++) {
        size_t before = exec->before[step->first + i], lane = exec->steps[before].lane;
        size_t *waited = &exec->waited[step->lane * exec->lane_count + lane];

        if (lane == step->lane || *waited > before)
            continue;
        LEATC_TRY(chain(exec, lane, step->lane));
        *waited = exec->lanes[lane].tail + 1;
    }
    return LEATC_OK;
}

static int run_step(struct leatc_exec *exec, size_t number)
{
    const struct step *step = &exec->steps[number];
    struct lane *lane = &exec->lanes[step->lane];
    struct leatc_work work = {
        .stream = lane->stream->native, .record = lane->stream, .ordinal = lane->ordinal, .captured = false};

    LEATC_TRY(await(exec, step));
    lane->tail = number;
    if (!step->node || step->node->off || !step->node->task->run)
        return LEATC_OK;
    return step->node->task->run(step->node->task->payload, &work);
}

static int run_steps(struct leatc_exec *exec)
{
    int result = LEATC_OK, joined;

    memset(exec->waited, 0, exec->lane_count * exec->lane_count * sizeof *exec->waited);
    for (size_t i = 1; i < exec->lane_count && result == LEATC_OK; i++)
        result = chain(exec, 0, i);
    for (size_t i = 0; i < exec->step_count && result == LEATC_OK; i++)
        result = run_step(exec, i);
    for (size_t i = 1; i < exec->lane_count; i++) {
        joined = chain(exec, i, 0);
        result = result == LEATC_OK ? joined : result;
    }
    return result;
}

static leat_status record_done(struct leatc_exec *exec, leat_stream *stream)
{
    leat_device *device = NULL;
    leat_status status = leat_stream_device(stream, &device);

    if (status == LEAT_OK && exec->done && exec->done_device == device &&
        leat_event_record(stream, exec->done) == LEAT_OK)
        return LEAT_OK;
    (void)leat_event_destroy(exec->done);
    exec->done = NULL;
    if (status == LEAT_OK)
        status = leat_event_create(device, &exec->done);
    exec->done_device = device;
    return status == LEAT_OK ? leat_event_record(stream, exec->done) : status;
}

/* Submits all steps. The caller holds exec->lock. */
static int launch(struct leatc_exec *exec, struct leatc_work *work)
{
    int result;

    LEATC_TRY(choose_lanes(exec, work->ordinal));
    exec->lanes[0].stream = work->record;
    LEATC_TRY(leatc_graph_memory_launch(exec->memory, exec->memory_count, exec->flags & LEATC_GRAPH_AUTO_FREE,
                                        exec->id, work->stream));
    /* Launches of one executable graph run one after the other, even if they are in different streams. */
    if (exec->done && leat_event_query(exec->done) == LEAT_NOT_READY)
        (void)leat_stream_wait(work->stream, exec->done);
    result = run_steps(exec);
    /* If the event cannot be recorded, later launches cannot wait for this launch, so wait for it now. */
    if (record_done(exec, work->stream) != LEAT_OK)
        (void)leat_stream_synchronize(work->stream);
    leatc_graph_memory_busy(exec->memory, exec->memory_count, exec->id, work->stream);
    return result;
}

/* ---- handles ---- */

bool leatc_exec_acquire(struct leatc_exec *exec)
{
    bool live;

    leatc_graphs_lock();
    live = leati_handle_live(&executables, exec);
    if (live)
        exec->references++;
    leatc_graphs_unlock();
    return live;
}

static void end_exec(struct leatc_exec *exec)
{
    struct leatc_holding *holdings = NULL;

    end_lanes(exec);
    leatc_graphs_lock();
    if (exec->source)
        exec->source->instance = NULL;
    leatc_graph_end(exec->graph, &holdings);
    leatc_graphs_unlock();
    leatc_exec_release_later(exec, holdings);
    (void)leat_event_destroy(exec->done);
    free(exec->steps);
    free(exec->before);
    free(exec->memory);
    leati_lock_destroy(&exec->lock);
    leati_handle_free(&executables, exec);
}

void leatc_exec_release(struct leatc_exec *exec)
{
    bool last;

    leatc_graphs_lock();
    last = !--exec->references;
    leatc_graphs_unlock();
    if (last)
        end_exec(exec);
}

void leatc_exec_forget(struct leatc_graph *graph)
{
    leati_assert_locked(&leatc_graph_lock);
    if (graph->instance)
        graph->instance->source = NULL;
    graph->instance = NULL;
}

/* Makes the private copy and the steps of an executable graph. The caller holds the lock of graphs. */
static int instantiate(struct leatc_graph *graph, unsigned long long flags, struct leatc_exec *exec,
                       struct leatc_node **wrong) LEATI_REQUIRES(leatc_graph_lock)
{
    bool has_memory = leatc_graph_has_memory(graph);

    leati_assert_locked(&leatc_graph_lock);
    if (has_memory && (graph->instance || graph->parent))
        return LEATC_NOT_SUPPORTED;
    LEATC_TRY(check_order(graph, wrong));
    exec->graph = leatc_graph_copy(graph, true);
    if (!exec->graph)
        return LEATC_OUT_OF_MEMORY;
    exec->id = ++latest_id;
    exec->flags = flags;
    exec->references = 1;
    exec->lanes_for = -1;
    if (has_memory) {
        exec->source = graph;
        graph->instance = exec;
    }
    return make_steps(exec) ? LEATC_OK : LEATC_OUT_OF_MEMORY;
}

int leatc_graph_instantiate(struct leatc_graph *graph, unsigned long long flags, struct leatc_exec **exec,
                            struct leatc_node **wrong)
{
    const unsigned long long known =
        LEATC_GRAPH_AUTO_FREE | LEATC_GRAPH_UPLOAD | LEATC_GRAPH_DEVICE_LAUNCH | LEATC_GRAPH_PRIORITY;
    struct leatc_node *offender = NULL;
    struct leatc_exec *made;
    int result = LEATC_INVALID_VALUE;

    if (wrong)
        *wrong = NULL;
    if (!exec || flags & ~known)
        return LEATC_INVALID_VALUE;
    if (flags & LEATC_GRAPH_DEVICE_LAUNCH)
        return LEATC_NOT_SUPPORTED;
    made = leati_handle_new(&executables);
    if (!made)
        return LEATC_OUT_OF_MEMORY;
    leati_lock_init(&made->lock);
    leatc_graphs_lock();
    if (leatc_graph_live(graph))
        result = instantiate(graph, flags, made, &offender);
    if (result == LEATC_OK)
        leati_handle_publish(made);
    leatc_graphs_unlock();
    if (result == LEATC_OK) {
        *exec = made;
        return LEATC_OK;
    }
    if (wrong)
        *wrong = offender;
    if (made->graph) {
        end_exec(made);
    } else {
        leati_lock_destroy(&made->lock);
        leati_handle_free(&executables, made);
    }
    return result;
}

int leatc_graph_instantiate_with(struct leatc_graph *graph, unsigned long long flags, struct leatc_stream *stream,
                                 struct leatc_exec **exec, struct leatc_node **wrong, int *why)
{
    struct leatc_exec *made = NULL;
    int result = leatc_graph_instantiate(graph, flags, &made, wrong);

    *why = result == LEATC_OK ? LEATC_INSTANTIATE_OK
           : *wrong           ? LEATC_INSTANTIATE_STRUCTURE
                              : LEATC_INSTANTIATE_ERROR;
    LEATC_TRY(result);
    if (flags & LEATC_GRAPH_UPLOAD)
        result = leatc_exec_upload(made, stream);
    if (result == LEATC_OK) {
        *exec = made;
        return LEATC_OK;
    }
    *why = LEATC_INSTANTIATE_ERROR;
    (void)leatc_exec_destroy(made);
    return result;
}

int leatc_exec_check(struct leatc_exec *exec)
{
    return leati_handle_live(&executables, exec) ? LEATC_OK : LEATC_INVALID_VALUE;
}

int leatc_exec_flags(struct leatc_exec *exec, unsigned long long *flags)
{
    if (!flags || !leatc_exec_acquire(exec))
        return LEATC_INVALID_VALUE;
    *flags = exec->flags;
    leatc_exec_release(exec);
    return LEATC_OK;
}

int leatc_exec_destroy(struct leatc_exec *exec)
{
    bool live;

    leatc_graphs_lock();
    live = leati_handle_retire(&executables, exec);
    leatc_graphs_unlock();
    if (!live)
        return LEATC_INVALID_VALUE;
    leatc_exec_release(exec);
    return LEATC_OK;
}

static int launch_in(struct leatc_exec *exec, struct leatc_stream *stream)
{
    struct leatc_work work;
    int result, ended;

    LEATC_TRY(leatc_work_begin_capturable(stream, &work));
    if (work.captured)
        return leatc_capture_child(&work, exec->graph);
    leati_lock(&exec->lock);
    result = launch(exec, &work);
    leati_unlock(&exec->lock);
    ended = leatc_work_end(&work, LEAT_OK);
    return result != LEATC_OK ? result : ended;
}

int leatc_exec_launch(struct leatc_exec *exec, struct leatc_stream *stream)
{
    int result;

    if (!leatc_exec_acquire(exec))
        return LEATC_INVALID_VALUE;
    result = launch_in(exec, stream);
    leatc_exec_release(exec);
    return result;
}

int leatc_exec_upload(struct leatc_exec *exec, struct leatc_stream *stream)
{
    int result;

    if (!leatc_exec_acquire(exec))
        return LEATC_INVALID_VALUE;
    result = leatc_stream_check(stream);
    if (result == LEATC_OK)
        result = leatc_graph_memory_map(exec->memory, exec->memory_count);
    leatc_exec_release(exec);
    return result;
}
