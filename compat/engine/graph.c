/*
 * graph.c - graphs: what was captured, and launching it.
 *
 * A plan is a list of nodes in the order in which they were captured, which comes after all orders that events
 * demanded; so running it from first to last in one stream is right, if not as parallel as it could be. Graphs and
 * executable graphs are handles that share a plan, which never changes once its capture is over. A node is a
 * function of the engine with a copy of its arguments.
 *
 * Memory that is allocated in a capture is there from then on, at an address that does not change. If it is freed
 * in the same capture, it belongs to the plan and goes with it; otherwise it is the program's to free.
 */
#include "engine/inside.h"

#include <stdlib.h>
#include <string.h>

struct leatc_plan {
    atomic_uint references;
    size_t count, room;
    struct leatc_node **nodes;
};

/* Held while a graph gets a node or ends, so that leatc_node_type() may look through all of them. */
static pthread_mutex_t nodes_lock = PTHREAD_MUTEX_INITIALIZER;

static struct leatc_slots graphs = LEATC_SLOTS(struct leatc_graph);
static struct leatc_slots executables = LEATC_SLOTS(struct leatc_graph);

/* ---- ends ---- */

void leatc_ends_clear(struct leatc_ends *ends)
{
    free(ends->nodes);
    *ends = (struct leatc_ends){NULL, 0};
}

static bool has_end(const struct leatc_ends *ends, const struct leatc_node *node)
{
    for (size_t i = 0; i < ends->count; i++)
        if (ends->nodes[i] == node)
            return true;
    return false;
}

bool leatc_ends_join(struct leatc_ends *ends, const struct leatc_ends *others)
{
    struct leatc_node **nodes;

    if (!others->count)
        return true;
    nodes = realloc(ends->nodes, (ends->count + others->count) * sizeof *nodes);
    if (!nodes)
        return false;
    ends->nodes = nodes;
    for (size_t i = 0; i < others->count; i++)
        if (!has_end(ends, others->nodes[i]))
            nodes[ends->count++] = others->nodes[i];
    return true;
}

/* ---- plans ---- */

static struct leatc_plan *new_plan(void)
{
    struct leatc_plan *plan = calloc(1, sizeof *plan);

    if (plan)
        atomic_init(&plan->references, 1);
    return plan;
}

static void drop(struct leatc_plan *plan)
{
    if (atomic_fetch_sub(&plan->references, 1) > 1)
        return;
    for (size_t i = 0; i < plan->count; i++) {
        struct leatc_node *node = plan->nodes[i];

        if (node->end)
            node->end(node->payload);
        leatc_ends_clear(&node->before);
        free(node);
    }
    free(plan->nodes);
    free(plan);
}

static bool make_room(struct leatc_plan *plan)
{
    size_t room = plan->room ? plan->room * 2 : 16;
    struct leatc_node **nodes = plan->count < plan->room ? NULL : realloc(plan->nodes, room * sizeof *nodes);

    if (nodes) {
        plan->nodes = nodes;
        plan->room = room;
    }
    return plan->count < plan->room;
}

int leatc_plan_add(struct leatc_plan *plan, struct leatc_ends *ends, const struct leatc_node *like,
                   const void *payload, size_t bytes)
{
    struct leatc_node *node = malloc(sizeof *node + bytes), **end = malloc(sizeof(struct leatc_node *));
    bool added = false;

    if (node && end) {
        *node = *like;
        if (bytes)
            memcpy(node->payload, payload, bytes);
        /* It comes after all ends that the stream had, and is the only one now. */
        node->before = *ends;
        pthread_mutex_lock(&nodes_lock);
        added = make_room(plan);
        if (added)
            plan->nodes[plan->count++] = node;
        pthread_mutex_unlock(&nodes_lock);
    }
    if (!added) {
        free(node);
        free(end);
        return LEATC_OUT_OF_MEMORY;
    }
    *end = node;
    *ends = (struct leatc_ends){end, 1};
    return LEATC_OK;
}

bool leatc_plan_is_joined(struct leatc_plan *plan, const struct leatc_ends *ends)
{
    bool joined = true;

    for (size_t i = 0; i < ends->count; i++)
        ends->nodes[i]->reached = true;
    /* A node comes after all that it depends on. */
    for (size_t i = plan->count; i-- > 0;) {
        struct leatc_node *node = plan->nodes[i];

        joined &= node->reached;
        for (size_t j = 0; node->reached && j < node->before.count; j++)
            node->before.nodes[j]->reached = true;
    }
    return joined;
}

/* ---- memory of plans ---- */

struct block {
    struct leatc_memory memory;
    uint64_t generation; /* of its device */
    bool owned;          /* by the plan: it is in no table any more */
};

static int run_nothing(void *payload, struct leatc_work *work)
{
    (void)payload, (void)work;
    return LEATC_OK;
}

static void end_block(void *payload)
{
    struct block block;
    struct leatc_device *device;

    memcpy(&block, payload, sizeof block);
    device = leatc_device_known(block.memory.ordinal);
    if (!block.owned || !atomic_load(&device->ready) || atomic_load(&device->generation) != block.generation)
        return;
    (void)leatc_device_wait(device);
    (void)leatc_pool_free(&block.memory, NULL);
}

int leatc_capture_block(struct leatc_work *work, const struct leatc_memory *memory)
{
    struct block block = {.memory = *memory,
                          .generation = atomic_load(&leatc_device_known(memory->ordinal)->generation)};

    return leatc_capture_add(work, LEATC_NODE_ALLOC, run_nothing, end_block, &block, sizeof block);
}

/* Makes the block at ptr the plan's. */
static bool own_block(struct leatc_node *node, const void *ptr)
{
    struct block block;

    if (node->type != LEATC_NODE_ALLOC)
        return false;
    memcpy(&block, node->payload, sizeof block);
    if (block.owned || (ptr && block.memory.base != ptr) ||
        !leatc_memory_take_id(block.memory.base, block.memory.id))
        return false;
    block.owned = true;
    memcpy(node->payload, &block, sizeof block);
    return true;
}

bool leatc_plan_take_block(struct leatc_plan *plan, void *ptr)
{
    for (size_t i = plan->count; i-- > 0;)
        if (own_block(plan->nodes[i], ptr))
            return true;
    return false;
}

/* ---- handles ---- */

static int new_handle(struct leatc_slots *table, struct leatc_plan *plan, struct leatc_graph **handle)
{
    *handle = leatc_slot_new(table);
    if (!*handle) {
        drop(plan);
        return LEATC_OUT_OF_MEMORY;
    }
    (*handle)->plan = plan;
    leatc_slot_publish(*handle);
    return LEATC_OK;
}

static int end_handle(struct leatc_slots *table, struct leatc_graph *handle)
{
    struct leatc_plan *plan;
    bool live;

    pthread_mutex_lock(&nodes_lock);
    live = leatc_slot_retire(table, handle);
    pthread_mutex_unlock(&nodes_lock);
    if (!live)
        return LEATC_INVALID_VALUE;
    plan = handle->plan;
    leatc_slot_free(table, handle);
    drop(plan);
    return LEATC_OK;
}

int leatc_graph_create(struct leatc_graph **graph)
{
    struct leatc_plan *plan = graph ? new_plan() : NULL;

    if (!graph)
        return LEATC_INVALID_VALUE;
    return plan ? new_handle(&graphs, plan, graph) : LEATC_OUT_OF_MEMORY;
}

int leatc_graph_destroy(struct leatc_graph *graph)
{
    return end_handle(&graphs, graph);
}

void leatc_graph_abandon(struct leatc_graph *graph)
{
    /* Nobody will launch it, so nobody may know of its memory. */
    for (size_t i = 0; i < graph->plan->count; i++)
        (void)own_block(graph->plan->nodes[i], NULL);
    (void)end_handle(&graphs, graph);
}

int leatc_graph_node_count(struct leatc_graph *graph, size_t *count)
{
    if (!count || !leatc_slot_live(&graphs, graph))
        return LEATC_INVALID_VALUE;
    *count = graph->plan->count;
    return LEATC_OK;
}

int leatc_graph_nodes(struct leatc_graph *graph, bool roots, struct leatc_node **nodes, size_t *count)
{
    size_t room = count ? *count : 0, found = 0;

    if (!count || !leatc_slot_live(&graphs, graph))
        return LEATC_INVALID_VALUE;
    for (size_t i = 0; i < graph->plan->count; i++) {
        if (roots && graph->plan->nodes[i]->before.count)
            continue;
        if (nodes && found < room)
            nodes[found] = graph->plan->nodes[i];
        found++;
    }
    for (size_t i = found; nodes && i < room; i++)
        nodes[i] = NULL;
    *count = nodes && found > room ? room : found;
    return LEATC_OK;
}

struct search {
    const struct leatc_node *node;
    bool found;
};

static void look_for(void *graph, void *argument)
{
    const struct leatc_plan *plan = ((struct leatc_graph *)graph)->plan;
    struct search *search = argument;

    for (size_t i = 0; i < plan->count; i++)
        search->found |= plan->nodes[i] == search->node;
}

int leatc_node_type(const struct leatc_node *node, int *type)
{
    struct search search = {node, false};

    pthread_mutex_lock(&nodes_lock);
    leatc_slots_each(&graphs, look_for, &search);
    pthread_mutex_unlock(&nodes_lock);
    if (!type || !search.found)
        return LEATC_INVALID_VALUE;
    *type = node->type;
    return LEATC_OK;
}

int leatc_graph_instantiate(struct leatc_graph *graph, struct leatc_graph **executable)
{
    if (!executable || !leatc_slot_live(&graphs, graph))
        return LEATC_INVALID_VALUE;
    atomic_fetch_add(&graph->plan->references, 1);
    return new_handle(&executables, graph->plan, executable);
}

int leatc_graph_exec_check(struct leatc_graph *executable)
{
    return leatc_slot_live(&executables, executable) ? LEATC_OK : LEATC_INVALID_VALUE;
}

int leatc_graph_exec_destroy(struct leatc_graph *executable)
{
    return end_handle(&executables, executable);
}

/* ---- launching ---- */

/* A node of a stream of another device runs on that device, and in the order of this stream all the same. */
static int run_elsewhere(struct leatc_node *node, struct leatc_work *work)
{
    int result;
    struct leatc_device *device = leatc_device_at(node->ordinal, &result);
    struct leatc_work there;

    if (!device)
        return result;
    there =
        (struct leatc_work){.stream = device->legacy->native, .record = device->legacy, .ordinal = node->ordinal};
    LEATC_TRY(leatc_result_of(leatc_stream_chain(work->record, there.record)));
    LEATC_TRY(node->run(node->payload, &there));
    return leatc_result_of(leatc_stream_chain(there.record, work->record));
}

static int run_plan(const struct leatc_plan *plan, struct leatc_work *work)
{
    for (size_t i = 0; i < plan->count; i++)
        LEATC_TRY(plan->nodes[i]->ordinal == work->ordinal ? plan->nodes[i]->run(plan->nodes[i]->payload, work)
                                                           : run_elsewhere(plan->nodes[i], work));
    return LEATC_OK;
}

static struct leatc_plan *child_of(const void *payload)
{
    struct leatc_plan *plan;

    memcpy(&plan, payload, sizeof plan);
    return plan;
}

static int run_child(void *payload, struct leatc_work *work)
{
    return run_plan(child_of(payload), work);
}

static void end_child(void *payload)
{
    drop(child_of(payload));
}

static int capture_child(struct leatc_plan *plan, struct leatc_work *work)
{
    int result;

    atomic_fetch_add(&plan->references, 1);
    result = leatc_capture_add(work, LEATC_NODE_GRAPH, run_child, end_child, &plan, sizeof(struct leatc_plan *));
    if (result != LEATC_OK)
        drop(plan);
    return result;
}

int leatc_graph_launch(struct leatc_graph *executable, struct leatc_stream *stream)
{
    struct leatc_work work;
    int result, ended;

    LEATC_TRY(leatc_graph_exec_check(executable));
    LEATC_TRY(leatc_work_begin_capturable(stream, &work));
    if (work.captured)
        return capture_child(executable->plan, &work);
    result = run_plan(executable->plan, &work);
    ended = leatc_work_end(&work, LEAT_OK);
    return result != LEATC_OK ? result : ended;
}
