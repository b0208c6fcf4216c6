/*
 * exec_update.c - changes executable graphs: sets the parameters of one node, or takes those of all nodes from
 * another graph.
 */
#include "base/lock.h"
#include "engine/exec.h"

#include <stdlib.h>
#include <string.h>

/* ---- changes of single nodes ---- */

static bool is_row(const leat_copy_region *region)
{
    return region->height == 1 && region->depth == 1;
}

static bool same_copy(const struct leatc_task *old, const struct leatc_task *next)
{
    const struct leatc_copy_places *a = (const void *)old->payload, *b = (const void *)next->payload;

    return a->dst == b->dst && a->src == b->src;
}

static bool same_fill(const struct leatc_task *old, const struct leatc_task *next)
{
    const struct leatc_fill_place *a = (const void *)old->payload, *b = (const void *)next->payload;
    const struct leatc_fill_task *x = &a->fill, *y = &b->fill;

    if (a->dst != b->dst)
        return false;
    if (x->height == 1 && y->height == 1)
        return true;
    return x->pitch_bytes == y->pitch_bytes && x->unit_bytes == y->unit_bytes && x->width == y->width &&
           x->height == y->height;
}

/* Returns LEATC_UPDATE_OK if the task next may replace the task old, else the reason why not. */
static int check_change(const struct leatc_task *old, const struct leatc_task *next)
{
    if (old->type != next->type)
        return LEATC_UPDATE_TYPE;
    switch (old->type) {
    case LEATC_NODE_KERNEL:
        return old->ordinal == next->ordinal ? LEATC_UPDATE_OK : LEATC_UPDATE_OTHER_FUNCTION;
    case LEATC_NODE_COPY:
        return same_copy(old, next) ? LEATC_UPDATE_OK : LEATC_UPDATE_PARAMETERS;
    case LEATC_NODE_FILL:
        return same_fill(old, next) ? LEATC_UPDATE_OK : LEATC_UPDATE_PARAMETERS;
    case LEATC_NODE_ALLOC:
    case LEATC_NODE_FREE:
        return old == next ? LEATC_UPDATE_OK : LEATC_UPDATE_NOT_SUPPORTED;
    default:
        return LEATC_UPDATE_OK;
    }
}

/* Returns true if leatc_exec_set() may replace the task old by the task next. It is stricter than check_change():
 * both copies must have a single row, and nodes that allocate or free cannot be changed. */
static bool may_set(const struct leatc_task *old, const struct leatc_task *next)
{
    if (next->type == LEATC_NODE_COPY && old->type == LEATC_NODE_COPY) {
        const struct leatc_copy_places *a = (const void *)old->payload, *b = (const void *)next->payload;

        if (!is_row(&a->copy.region) || !is_row(&b->copy.region))
            return false;
    }
    return next->type != LEATC_NODE_ALLOC && next->type != LEATC_NODE_FREE &&
           check_change(old, next) == LEATC_UPDATE_OK;
}

/* Returns the node of the executable graph that is a copy of node, or NULL. The caller holds the lock of
 * graphs. */
static struct leatc_node *made_from(const struct leatc_exec *exec, const struct leatc_node *node)
    LEATI_REQUIRES(leatc_graph_lock)
{
    const struct leatc_graph *graph = exec->graph;

    leati_assert_locked(&leatc_graph_lock);
    if (node->graph->parent) {
        const struct leatc_node *parent = made_from(exec, node->graph->parent);

        if (!parent || !parent->child)
            return NULL;
        graph = parent->child;
    }
    if (node->index < graph->count && graph->nodes[node->index]->origin == node->id)
        return graph->nodes[node->index];
    for (size_t i = 0; i < graph->count; i++)
        if (graph->nodes[i]->origin == node->id)
            return graph->nodes[i];
    return NULL;
}

/* Finds the executable graph's copy of node, and returns it with both locks held; end_change() releases them.
 * Returns NULL, without locks, if either handle is not live or there is no copy of node. */
static struct leatc_node *begin_change(struct leatc_exec *exec, struct leatc_node *node)
    LEATI_TRY_ACQUIRE(true, exec->lock, leatc_graph_lock) LEATI_NO_THREAD_SAFETY
{
    struct leatc_node *own;

    if (!leatc_exec_acquire(exec))
        return NULL;
    leati_lock(&exec->lock);
    leatc_graphs_lock();
    own = leatc_node_live(node) ? made_from(exec, node) : NULL;
    if (own)
        return own;
    leatc_graphs_unlock();
    leati_unlock(&exec->lock);
    leatc_exec_release(exec);
    return NULL;
}

static int end_change(struct leatc_exec *exec, int result) LEATI_RELEASE(exec->lock, leatc_graph_lock)
{
    leatc_graphs_unlock();
    leati_unlock(&exec->lock);
    leatc_exec_release(exec);
    return result;
}

static bool can_be_off(const struct leatc_node *node)
{
    return node->task->type == LEATC_NODE_KERNEL || node->task->type == LEATC_NODE_COPY ||
           node->task->type == LEATC_NODE_FILL;
}

int leatc_exec_enable(struct leatc_exec *exec, struct leatc_node *node, bool on)
{
    struct leatc_node *own = begin_change(exec, node);

    if (!own)
        return LEATC_INVALID_VALUE;
    if (!can_be_off(own))
        return end_change(exec, LEATC_INVALID_VALUE);
    own->off = !on;
    return end_change(exec, LEATC_OK);
}

int leatc_exec_enabled(struct leatc_exec *exec, struct leatc_node *node, bool *on)
{
    struct leatc_node *own = begin_change(exec, node);

    if (!own)
        return LEATC_INVALID_VALUE;
    if (!can_be_off(own))
        return end_change(exec, LEATC_INVALID_VALUE);
    *on = !own->off;
    return end_change(exec, LEATC_OK);
}

int leatc_exec_set(struct leatc_exec *exec, struct leatc_node *node, struct leatc_task *task)
{
    struct leatc_node *own = begin_change(exec, node);
    struct leatc_task *other = task;
    int result = LEATC_INVALID_VALUE;

    if (own) {
        if (may_set(own->task, task)) {
            other = own->task;
            own->task = task;
            exec->lanes_for = -1; /* the new task may belong to another device */
            result = LEATC_OK;
        }
        (void)end_change(exec, result);
    }
    leatc_task_drop(other);
    return result;
}

/* ---- updates ---- */

/* Pairs two nodes at corresponding places of two graphs if they have the same type and the same number of
 * dependencies. */
static int pair(struct leatc_node *own, struct leatc_node *given, struct leatc_update *update)
{
    update->node = given;
    if (own->task->type != given->task->type)
        return LEATC_UPDATE_TYPE;
    if (own->before.count != given->before.count)
        return LEATC_UPDATE_TOPOLOGY;
    own->peer = given;
    given->peer = own;
    return LEATC_UPDATE_OK;
}

/* Pairs the dependencies of two paired nodes, in order, and appends the new pairs to the list. */
static int pair_before(struct leatc_node *own, struct leatc_node **list, size_t *count,
                       struct leatc_update *update)
{
    struct leatc_node *given = own->peer;

    for (size_t i = 0; i < own->before.count; i++) {
        struct leatc_node *mine = own->before.nodes[i], *theirs = given->before.nodes[i];
        int why;

        if (mine->peer == theirs && theirs->peer == mine)
            continue;
        if (mine->peer || theirs->peer) {
            update->node = given;
            update->from = theirs;
            return LEATC_UPDATE_TOPOLOGY;
        }
        why = pair(mine, theirs, update);
        if (why != LEATC_UPDATE_OK)
            return why;
        list[(*count)++] = mine;
    }
    return LEATC_UPDATE_OK;
}

/* Returns the next node without dependents, at index *at or later, or NULL. */
static struct leatc_node *next_end(const struct leatc_graph *graph, size_t *at)
{
    while (*at < graph->count)
        if (!graph->nodes[(*at)++]->after.count)
            return graph->nodes[*at - 1];
    return NULL;
}

/* Pairs the nodes of two graphs. It starts at the nodes without dependents and follows the edges backwards. The
 * list has room for all nodes. */
static int pair_nodes(const struct leatc_graph *own, const struct leatc_graph *given, struct leatc_node **list,
                      struct leatc_update *update)
{
    size_t count = 0, paired = 0, at = 0, given_at = 0;
    struct leatc_node *end, *given_end;
    int why = LEATC_UPDATE_OK;

    do {
        end = next_end(own, &at);
        given_end = next_end(given, &given_at);
        if (!end != !given_end) {
            update->node = given_end;
            return LEATC_UPDATE_TOPOLOGY;
        }
        if (end)
            why = pair(end, given_end, update);
        if (end && why == LEATC_UPDATE_OK)
            list[count++] = end;
    } while (end && why == LEATC_UPDATE_OK);
    for (; paired < count && why == LEATC_UPDATE_OK; paired++)
        why = pair_before(list[paired], list, &count, update);
    if (why == LEATC_UPDATE_OK && paired < own->count) {
        update->node = NULL;
        why = LEATC_UPDATE_TOPOLOGY;
    }
    return why;
}

static int priority_of(const struct leatc_node *node)
{
    int priority = 0;

    for (unsigned i = 0; i < node->attribute_count; i++)
        if (node->attributes[i].number == LEATC_ATTRIBUTE_PRIORITY)
            memcpy(&priority, node->attributes[i].value, sizeof priority);
    return priority;
}

static int check_update(const struct leatc_exec *exec, const struct leatc_graph *own,
                        const struct leatc_graph *given, struct leatc_update *update)
{
    struct leatc_node **list = leatc_node_list(own);
    int why = LEATC_UPDATE_TOPOLOGY;

    if (!list)
        return LEATC_UPDATE_ERROR;
    for (size_t i = 0; i < own->count; i++)
        own->nodes[i]->peer = NULL;
    for (size_t i = 0; i < given->count; i++)
        given->nodes[i]->peer = NULL;
    if (own->count == given->count)
        why = pair_nodes(own, given, list, update);
    free(list);
    for (size_t i = 0; i < own->count && why == LEATC_UPDATE_OK; i++) {
        const struct leatc_node *node = own->nodes[i];

        update->node = node->peer;
        why = check_change(node->task, node->peer->task);
        if (why == LEATC_UPDATE_OK && exec->flags & LEATC_GRAPH_PRIORITY &&
            priority_of(node) != priority_of(node->peer))
            why = LEATC_UPDATE_ATTRIBUTES;
        if (why == LEATC_UPDATE_OK && node->child)
            why = check_update(exec, node->child, node->peer->child, update);
    }
    return why;
}

/* Replaces all tasks of own by those of given, after check_update() has paired the nodes. Moves the user objects
 * that own has held to *holdings. */
static void apply_update(struct leatc_graph *own, const struct leatc_graph *given, struct leatc_holding **holdings)
    LEATI_REQUIRES(leatc_graph_lock)
{
    struct leatc_holding *replaced = own->holdings;

    leati_assert_locked(&leatc_graph_lock);
    own->holdings = NULL;
    if (leatc_holdings_copy(&own->holdings, given->holdings))
        leatc_holdings_move(holdings, &replaced);
    else
        leatc_holdings_move(&own->holdings, &replaced); /* out of memory: the executable graph keeps its old user
                                                         * objects */
    for (size_t i = 0; i < own->count; i++) {
        struct leatc_node *node = own->nodes[i];
        struct leatc_task *old = node->task;

        node->task = leatc_task_share(node->peer->task);
        leatc_task_drop(old);
        if (node->child)
            apply_update(node->child, node->peer->child, holdings);
    }
}

static int update_graph(struct leatc_exec *exec, struct leatc_graph *own, const struct leatc_graph *given,
                        struct leatc_update *update, struct leatc_holding **holdings)
    LEATI_REQUIRES(leatc_graph_lock)
{
    *update = (struct leatc_update){.why = LEATC_UPDATE_OK};
    update->why = check_update(exec, own, given, update);
    if (update->why != LEATC_UPDATE_OK)
        return LEATC_GRAPH_UPDATE;
    update->node = update->from = NULL;
    apply_update(own, given, holdings);
    exec->lanes_for = -1;
    return LEATC_OK;
}

int leatc_exec_update(struct leatc_exec *exec, struct leatc_graph *graph, struct leatc_update *update)
{
    struct leatc_holding *holdings = NULL;
    int result = LEATC_INVALID_VALUE;

    *update = (struct leatc_update){.why = LEATC_UPDATE_ERROR};
    if (!leatc_exec_acquire(exec))
        return LEATC_INVALID_VALUE;
    leati_lock(&exec->lock);
    leatc_graphs_lock();
    if (leatc_graph_live(graph))
        result = update_graph(exec, exec->graph, graph, update, &holdings);
    leatc_graphs_unlock();
    leatc_exec_release_later(exec, holdings);
    leati_unlock(&exec->lock);
    leatc_exec_release(exec);
    return result;
}

int leatc_exec_set_child(struct leatc_exec *exec, struct leatc_node *node, struct leatc_graph *child)
{
    struct leatc_holding *holdings = NULL;
    struct leatc_update update;
    struct leatc_node *own = begin_change(exec, node);
    int result = LEATC_INVALID_VALUE;

    if (!own)
        return LEATC_INVALID_VALUE;
    if (own->child && leatc_graph_live(child) &&
        update_graph(exec, own->child, child, &update, &holdings) == LEATC_OK)
        result = LEATC_OK;
    leatc_graphs_unlock();
    leatc_exec_release_later(exec, holdings);
    leati_unlock(&exec->lock);
    leatc_exec_release(exec);
    return result;
}
