/*
 * graph.c - implements graphs: their nodes and edges.
 *
 * One lock guards all graphs. A thread holds it only to change pointers and to allocate memory, never while it
 * submits work to a stream or calls a function of the program.
 */
#include "base/lock.h"
#include "engine/inside.h"

#include <stdlib.h>
#include <string.h>

struct leati_lock leatc_graph_lock = LEATI_LOCK_INITIALIZER;
static struct leati_handles graphs = LEATI_HANDLES(struct leatc_graph);
static struct leati_handles nodes = LEATI_HANDLES(struct leatc_node);
static unsigned long long latest_id LEATI_GUARDED_BY(leatc_graph_lock);

void leatc_graphs_lock(void)
{
    leati_lock(&leatc_graph_lock);
}

void leatc_graphs_unlock(void)
{
    leati_unlock(&leatc_graph_lock);
}

int leatc_graphs_unlock_with(int result)
{
    leati_unlock(&leatc_graph_lock);
    return result;
}

/* ---- lists of nodes ---- */

void leatc_ends_clear(struct leatc_ends *ends)
{
    free(ends->nodes);
    *ends = (struct leatc_ends){NULL, 0};
}

static size_t find_end(const struct leatc_ends *ends, const struct leatc_node *node)
{
    size_t i = 0;

    while (i < ends->count && ends->nodes[i] != node)
        i++;
    return i;
}

static bool make_room(struct leatc_ends *ends, size_t more)
{
    struct leatc_node **larger = realloc(ends->nodes, (ends->count + more) * sizeof(struct leatc_node *));

    if (larger)
        ends->nodes = larger;
    return larger != NULL;
}

bool leatc_ends_join(struct leatc_ends *ends, struct leatc_node *const *others, size_t count)
{
    if (!count)
        return true;
    if (!make_room(ends, count))
        return false;
    leati_assert(ends->nodes);
    for (size_t i = 0; i < count; i++)
        if (find_end(ends, others[i]) == ends->count)
            ends->nodes[ends->count++] = others[i];
    leati_assert(ends->nodes && ends->count);
    return true;
}

static void take_end(struct leatc_ends *ends, const struct leatc_node *node)
{
    size_t i = find_end(ends, node);

    if (i == ends->count)
        return;
    leati_assert(ends->nodes[i] == node);
    ends->count--;
    memmove(ends->nodes + i, ends->nodes + i + 1, (ends->count - i) * sizeof(struct leatc_node *));
}

/* ---- nodes, with the lock held ---- */

bool leatc_graph_live(const struct leatc_graph *graph)
{
    leati_assert_locked(&leatc_graph_lock);
    return leati_handle_live(&graphs, graph);
}

bool leatc_node_live(const struct leatc_node *node)
{
    leati_assert_locked(&leatc_graph_lock);
    return leati_handle_live(&nodes, node);
}

static void free_node(struct leatc_node *node)
{
    leati_assert(!node->marked);
    leatc_task_drop(node->task);
    leatc_ends_clear(&node->before);
    leatc_ends_clear(&node->after);
    free(node->attributes);
    if (node->graph->hidden)
        free(node);
    else
        leati_handle_free(&nodes, node);
}

/* Appends a node without edges to a graph. NULL: out of memory. */
static struct leatc_node *new_node(struct leatc_graph *graph) LEATI_REQUIRES(leatc_graph_lock)
{
    struct leatc_node *node;

    leati_assert_locked(&leatc_graph_lock);
    leati_assert(graph->count <= graph->room);
    if (graph->count == graph->room) {
        size_t room = graph->room ? graph->room * 2 : 16;
        struct leatc_node **larger = realloc(graph->nodes, room * sizeof(struct leatc_node *));

        if (!larger)
            return NULL;
        graph->nodes = larger;
        graph->room = room;
    }
    node = graph->hidden ? calloc(1, sizeof *node) : leati_handle_new(&nodes);
    if (!node)
        return NULL;
    node->graph = graph;
    node->id = ++latest_id;
    node->index = graph->count;
    graph->nodes[graph->count++] = node;
    return node;
}

static void publish(struct leatc_node *node)
{
    if (!node->graph->hidden)
        leati_handle_publish(node);
}

/* Removes a node and its edges from its graph. If the node has a child graph, the caller must end that graph. */
static void remove_node(struct leatc_node *node)
{
    struct leatc_graph *graph = node->graph;

    leati_assert_locked(&leatc_graph_lock);
    leati_assert(node->index < graph->count && graph->nodes[node->index] == node);
    for (size_t i = 0; i < node->before.count; i++)
        take_end(&node->before.nodes[i]->after, node);
    for (size_t i = 0; i < node->after.count; i++)
        take_end(&node->after.nodes[i]->before, node);
    graph->count--;
    for (size_t i = node->index; i < graph->count; i++) {
        graph->nodes[i] = graph->nodes[i + 1];
        graph->nodes[i]->index = i;
    }
    (void)leati_handle_retire(&nodes, node);
    free_node(node);
}

static bool join(struct leatc_node *before, struct leatc_node *after)
{
    if (!make_room(&before->after, 1) || !make_room(&after->before, 1))
        return false;
    leati_assert(before != after && before->graph == after->graph);
    before->after.nodes[before->after.count++] = after;
    after->before.nodes[after->before.count++] = before;
    return true;
}

static void part(struct leatc_node *before, struct leatc_node *after)
{
    take_end(&before->after, after);
    take_end(&after->before, before);
}

bool leatc_nodes_belong(const struct leatc_graph *graph, struct leatc_node *const *list, size_t count)
{
    bool belong = !count || list;
    size_t looked = 0;

    leati_assert_locked(&leatc_graph_lock);
    for (; belong && looked < count; looked++) {
        /* A node that is marked already was found earlier in the list, so the list names it twice. */
        belong = leatc_node_live(list[looked]) && list[looked]->graph == graph && !list[looked]->marked;
        if (!belong)
            break;
        list[looked]->marked = true;
    }
    for (size_t i = 0; i < looked; i++)
        list[i]->marked = false;
    return belong;
}

/* ---- graphs, with the lock held ---- */

static struct leatc_graph *new_graph(bool hidden) LEATI_REQUIRES(leatc_graph_lock)
{
    struct leatc_graph *graph = hidden ? calloc(1, sizeof *graph) : leati_handle_new(&graphs);

    if (graph) {
        graph->hidden = hidden;
        graph->id = ++latest_id;
    }
    return graph;
}

void leatc_graph_end(struct leatc_graph *graph, struct leatc_holding **holdings)
{
    leati_assert_locked(&leatc_graph_lock);
    leatc_exec_forget(graph);
    if (!graph->hidden)
        (void)leati_handle_retire(&graphs, graph);
    for (size_t i = 0; i < graph->count; i++) {
        struct leatc_node *node = graph->nodes[i];

        (void)leati_handle_retire(&nodes, node);
        if (node->child)
            leatc_graph_end(node->child, holdings);
        free_node(node);
    }
    leati_assert(!graph->capturing || graph->hidden);
    free(graph->nodes);
    leatc_holdings_move(holdings, &graph->holdings);
    if (graph->hidden)
        free(graph);
    else
        leati_handle_free(&graphs, graph);
}

bool leatc_graph_has_memory(const struct leatc_graph *graph)
{
    leati_assert_locked(&leatc_graph_lock);
    for (size_t i = 0; i < graph->count; i++) {
        const struct leatc_node *node = graph->nodes[i];

        if (node->task->type == LEATC_NODE_ALLOC || node->task->type == LEATC_NODE_FREE ||
            (node->child && leatc_graph_has_memory(node->child)))
            return true;
    }
    return false;
}

/* Returns true if a stream is being captured into the graph, or into a child graph of it at any depth. */
static bool is_captured_into(const struct leatc_graph *graph) LEATI_REQUIRES(leatc_graph_lock)
{
    bool captured = graph->capturing;

    leati_assert_locked(&leatc_graph_lock);
    for (size_t i = 0; i < graph->count && !captured; i++)
        captured = graph->nodes[i]->child && is_captured_into(graph->nodes[i]->child);
    return captured;
}

static bool copy_node(struct leatc_graph *to, const struct leatc_node *from) LEATI_REQUIRES(leatc_graph_lock)
{
    struct leatc_node *node = new_node(to);

    if (!node)
        return false;
    node->origin = from->id;
    node->task = leatc_task_share(from->task);
    node->off = from->off;
    if (!leatc_attributes_copy(node, from))
        return false;
    if (from->child) {
        node->child = leatc_graph_copy(from->child, to->hidden);
        if (!node->child)
            return false;
        node->child->parent = node;
    }
    return true;
}

static bool copy_edges(struct leatc_ends *to, const struct leatc_ends *from, const struct leatc_graph *graph)
{
    if (!from->count)
        return true;
    if (!make_room(to, from->count))
        return false;
    for (size_t i = 0; i < from->count; i++)
        to->nodes[to->count++] = graph->nodes[from->nodes[i]->index];
    return true;
}

static bool copy_graph(struct leatc_graph *to, const struct leatc_graph *from) LEATI_REQUIRES(leatc_graph_lock)
{
    if (!leatc_holdings_copy(&to->holdings, from->holdings))
        return false;
    for (size_t i = 0; i < from->count; i++)
        if (!copy_node(to, from->nodes[i]))
            return false;
    for (size_t i = 0; i < from->count; i++)
        if (!copy_edges(&to->nodes[i]->before, &from->nodes[i]->before, to) ||
            !copy_edges(&to->nodes[i]->after, &from->nodes[i]->after, to))
            return false;
    return true;
}

struct leatc_graph *leatc_graph_copy(const struct leatc_graph *graph, bool hidden)
{
    struct leatc_graph *copy = new_graph(hidden);
    struct leatc_holding *holdings = NULL;
    struct leatc_object *ended = NULL;

    leati_assert_locked(&leatc_graph_lock);
    if (!copy)
        return NULL;
    if (!copy_graph(copy, graph)) {
        leatc_graph_end(copy, &holdings);
        leatc_holdings_release(holdings, &ended); /* no reference is the last one, because the original graph owns
                                                   * as many references */
        return NULL;
    }
    for (size_t i = 0; i < copy->count && !hidden; i++)
        publish(copy->nodes[i]);
    if (!hidden)
        leati_handle_publish(copy);
    return copy;
}

/* Adds a node that depends on the listed nodes. On success the node owns the task and the child graph. */
static struct leatc_node *add_node(struct leatc_graph *graph, struct leatc_node *const *before, size_t count,
                                   struct leatc_task *task, struct leatc_graph *child)
    LEATI_REQUIRES(leatc_graph_lock)
{
    struct leatc_node *node = new_node(graph);

    for (size_t i = 0; node && i < count; i++)
        if (!join(before[i], node)) {
            remove_node(node);
            node = NULL;
        }
    if (!node)
        return NULL;
    node->task = task;
    node->child = child;
    if (child)
        child->parent = node;
    publish(node);
    return node;
}

int leatc_graph_append(struct leatc_graph *graph, struct leatc_ends *ends, struct leatc_task *task,
                       struct leatc_graph *child)
{
    /* Allocate this first, because nothing may fail after the node was added. */
    struct leatc_node **end = malloc(sizeof(struct leatc_node *));
    struct leatc_node *node = end ? add_node(graph, ends->nodes, ends->count, task, child) : NULL;

    leati_assert_locked(&leatc_graph_lock);
    if (!node) {
        free(end);
        return LEATC_OUT_OF_MEMORY;
    }
    node->captured = true;
    *end = node;
    leatc_ends_clear(ends);
    *ends = (struct leatc_ends){end, 1};
    return LEATC_OK;
}

/* Marks a node and all nodes on which it depends, directly or indirectly. The list has room for all nodes of the
 * graph. */
static void mark_all_before(struct leatc_node *node, struct leatc_node **list)
{
    size_t count = 0;

    if (node->marked)
        return;
    node->marked = true;
    list[count++] = node;
    while (count) {
        const struct leatc_node *next = list[--count];

        for (size_t i = 0; i < next->before.count; i++)
            if (!next->before.nodes[i]->marked) {
                next->before.nodes[i]->marked = true;
                list[count++] = next->before.nodes[i];
            }
    }
}

bool leatc_graph_is_joined(const struct leatc_graph *graph, const struct leatc_ends *ends)
{
    struct leatc_node **list = malloc(graph->count * sizeof(struct leatc_node *) + 1);
    bool joined = list != NULL;

    leati_assert_locked(&leatc_graph_lock);
    for (size_t i = 0; list && i < ends->count; i++)
        mark_all_before(ends->nodes[i], list);
    for (size_t i = 0; list && i < graph->count; i++)
        if (graph->nodes[i]->excused)
            mark_all_before(graph->nodes[i], list);
    for (size_t i = 0; i < graph->count; i++) {
        joined &= graph->nodes[i]->marked || !graph->nodes[i]->captured;
        graph->nodes[i]->marked = false;
    }
    free(list);
    return joined;
}

/* ---- calls for graphs ---- */

int leatc_graph_create(struct leatc_graph **graph)
{
    struct leatc_graph *made;

    if (!graph)
        return LEATC_INVALID_VALUE;
    leatc_graphs_lock();
    made = new_graph(false);
    if (made)
        leati_handle_publish(made);
    leatc_graphs_unlock();
    if (!made)
        return LEATC_OUT_OF_MEMORY;
    *graph = made;
    return LEATC_OK;
}

int leatc_graph_destroy(struct leatc_graph *graph)
{
    struct leatc_holding *holdings = NULL;
    struct leatc_object *ended = NULL;

    leatc_graphs_lock();
    if (!leatc_graph_live(graph) || graph->parent || is_captured_into(graph))
        return leatc_graphs_unlock_with(LEATC_INVALID_VALUE);
    leatc_graph_end(graph, &holdings);
    leatc_holdings_release(holdings, &ended);
    leatc_graphs_unlock();
    leatc_objects_destroy(ended);
    return LEATC_OK;
}

int leatc_graph_clone(struct leatc_graph *graph, struct leatc_graph **clone)
{
    struct leatc_graph *made;

    leatc_graphs_lock();
    if (!clone || !leatc_graph_live(graph))
        return leatc_graphs_unlock_with(LEATC_INVALID_VALUE);
    if (leatc_graph_has_memory(graph))
        return leatc_graphs_unlock_with(LEATC_NOT_SUPPORTED);
    made = leatc_graph_copy(graph, false);
    leatc_graphs_unlock();
    if (!made)
        return LEATC_OUT_OF_MEMORY;
    *clone = made;
    return LEATC_OK;
}

/* ---- calls for nodes ---- */

int leatc_graph_add(struct leatc_graph *graph, struct leatc_node *const *before, size_t count,
                    struct leatc_task *task, struct leatc_node **node)
{
    struct leatc_node *made = NULL;
    int result = LEATC_INVALID_VALUE;

    leatc_graphs_lock();
    if (node && leatc_graph_live(graph) && leatc_nodes_belong(graph, before, count)) {
        made = add_node(graph, before, count, task, NULL);
        result = made ? LEATC_OK : LEATC_OUT_OF_MEMORY;
    }
    leatc_graphs_unlock();
    if (made)
        *node = made;
    else
        leatc_task_drop(task);
    return result;
}

/* Returns true if graph is other, or is nested in other as a child graph at any depth. */
static bool is_within(const struct leatc_graph *graph, const struct leatc_graph *other)
{
    while (graph && graph != other)
        graph = graph->parent ? graph->parent->graph : NULL;
    return graph != NULL;
}

/* Adds a node with a child graph: child itself if move is set, else a clone of child. The caller holds the lock of
 * graphs. */
static int add_child(struct leatc_graph *graph, struct leatc_node *const *before, size_t count,
                     struct leatc_graph *child, bool move, struct leatc_node **node)
    LEATI_REQUIRES(leatc_graph_lock)
{
    struct leatc_holding *holdings = NULL;
    struct leatc_object *ended = NULL;
    struct leatc_graph *made;
    struct leatc_task *task;

    if (!node || !leatc_graph_live(graph) || !leatc_graph_live(child) ||
        !leatc_nodes_belong(graph, before, count) ||
        (move && (child->parent || child->capturing || child->instance || is_within(graph, child))))
        return LEATC_INVALID_VALUE;
    if (!move && leatc_graph_has_memory(child))
        return LEATC_NOT_SUPPORTED;
    task = leatc_task_new(LEATC_NODE_GRAPH, NULL, NULL, 0);
    made = move ? child : leatc_graph_copy(child, false);
    *node = task && made ? add_node(graph, before, count, task, made) : NULL;
    if (*node)
        return LEATC_OK;
    leatc_task_drop(task);
    if (made && !move) {
        leatc_graph_end(made, &holdings);
        leatc_holdings_release(holdings, &ended);
    }
    return LEATC_OUT_OF_MEMORY;
}

int leatc_graph_add_child(struct leatc_graph *graph, struct leatc_node *const *before, size_t count,
                          struct leatc_graph *child, bool move, struct leatc_node **node)
{
    struct leatc_node *made = NULL;
    int result;

    if (!node)
        return LEATC_INVALID_VALUE;
    leatc_graphs_lock();
    result = add_child(graph, before, count, child, move, &made);
    leatc_graphs_unlock();
    if (result == LEATC_OK)
        *node = made;
    return result;
}

int leatc_node_destroy(struct leatc_node *node)
{
    struct leatc_holding *holdings = NULL;
    struct leatc_object *ended = NULL;

    leatc_graphs_lock();
    if (!leatc_node_live(node))
        return leatc_graphs_unlock_with(LEATC_INVALID_VALUE);
    if (node->graph->capturing || (node->child && is_captured_into(node->child)) ||
        leatc_graph_has_memory(node->graph))
        return leatc_graphs_unlock_with(LEATC_NOT_SUPPORTED);
    if (node->child)
        leatc_graph_end(node->child, &holdings);
    remove_node(node);
    leatc_holdings_release(holdings, &ended);
    leatc_graphs_unlock();
    leatc_objects_destroy(ended);
    return LEATC_OK;
}

int leatc_node_type(struct leatc_node *node, int *type)
{
    leatc_graphs_lock();
    if (!type || !leatc_node_live(node))
        return leatc_graphs_unlock_with(LEATC_INVALID_VALUE);
    *type = node->task->type;
    return leatc_graphs_unlock_with(LEATC_OK);
}

int leatc_node_child(struct leatc_node *node, struct leatc_graph **child)
{
    leatc_graphs_lock();
    if (!child || !leatc_node_live(node) || !node->child)
        return leatc_graphs_unlock_with(LEATC_INVALID_VALUE);
    *child = node->child;
    return leatc_graphs_unlock_with(LEATC_OK);
}

int leatc_node_task(struct leatc_node *node, int type, const struct leatc_task **task)
{
    leatc_graphs_lock();
    if (!leatc_node_live(node) || node->task->type != type)
        return leatc_graphs_unlock_with(LEATC_INVALID_VALUE);
    *task = node->task;
    return leatc_graphs_unlock_with(LEATC_OK);
}

int leatc_node_set(struct leatc_node *node, struct leatc_task *task)
{
    struct leatc_task *other = task;
    int result = LEATC_INVALID_VALUE;

    leatc_graphs_lock();
    if (leatc_node_live(node) && node->task->type == task->type && task->type != LEATC_NODE_ALLOC &&
        task->type != LEATC_NODE_FREE) {
        other = node->task;
        node->task = task;
        result = LEATC_OK;
    }
    leatc_graphs_unlock();
    leatc_task_drop(other);
    return result;
}

/* ---- calls for edges ---- */

#define EDGE_DATA_BYTES 8

int leatc_edge_data_check(const void *data, size_t count)
{
    const unsigned char *edge = data;
    bool empty = true;

    for (size_t i = 0; edge && i < count; i++, edge += EDGE_DATA_BYTES) {
        if (edge[0] > 2 || edge[1] || edge[2] > 1 || edge[3] || edge[4] || edge[5] || edge[6] || edge[7])
            return LEATC_INVALID_VALUE;
        empty &= !edge[0] && !edge[2];
    }
    return empty ? LEATC_OK : LEATC_NOT_SUPPORTED;
}

/* Returns true if an edge between the two nodes would be valid, even if it exists already. The caller holds the
 * lock of graphs. */
static bool could_join(const struct leatc_graph *graph, const struct leatc_node *from, const struct leatc_node *to)
    LEATI_REQUIRES(leatc_graph_lock)
{
    return leatc_node_live(from) && leatc_node_live(to) && from->graph == graph && to->graph == graph &&
           from != to;
}

static bool is_joined(const struct leatc_node *from, const struct leatc_node *to)
{
    return find_end(&to->before, from) < to->before.count;
}

static int add_edge(const struct leatc_graph *graph, struct leatc_node *from, struct leatc_node *to)
    LEATI_REQUIRES(leatc_graph_lock)
{
    if (!could_join(graph, from, to) || is_joined(from, to))
        return LEATC_INVALID_VALUE;
    return join(from, to) ? LEATC_OK : LEATC_OUT_OF_MEMORY;
}

int leatc_edges_add(struct leatc_graph *graph, struct leatc_node *const *from, struct leatc_node *const *to,
                    const void *data, size_t count)
{
    int result = LEATC_OK;
    size_t done = 0;

    LEATC_TRY(leatc_edge_data_check(data, count));
    leatc_graphs_lock();
    if (!leatc_graph_live(graph) || (count && (!from || !to)))
        return leatc_graphs_unlock_with(LEATC_INVALID_VALUE);
    for (; done < count && result == LEATC_OK; done++)
        result = add_edge(graph, from[done], to[done]);
    if (result != LEATC_OK)
        /* The edge with index done - 1 failed. Remove the edges before it again. */
        for (size_t i = 0; i + 1 < done; i++)
            part(from[i], to[i]);
    return leatc_graphs_unlock_with(result);
}

/* Removes an edge. Fails if the edge does not exist. */
static int remove_edge(const struct leatc_graph *graph, struct leatc_node *from, struct leatc_node *to)
    LEATI_REQUIRES(leatc_graph_lock)
{
    if (!could_join(graph, from, to) || !is_joined(from, to))
        return LEATC_INVALID_VALUE;
    part(from, to);
    return LEATC_OK;
}

int leatc_edges_remove(struct leatc_graph *graph, struct leatc_node *const *from, struct leatc_node *const *to,
                       const void *data, size_t count)
{
    int result = LEATC_OK;
    size_t done = 0;

    if (leatc_edge_data_check(data, count) != LEATC_OK)
        return LEATC_INVALID_VALUE;
    leatc_graphs_lock();
    if (!leatc_graph_live(graph) || (count && (!from || !to)))
        return leatc_graphs_unlock_with(LEATC_INVALID_VALUE);
    if (count && leatc_graph_has_memory(graph))
        return leatc_graphs_unlock_with(LEATC_NOT_SUPPORTED);
    for (; done < count && result == LEATC_OK; done++)
        result = remove_edge(graph, from[done], to[done]);
    /* A capture that added these nodes may end even if its origin no longer depends on them. */
    for (size_t i = 0; i < done && result == LEATC_OK; i++)
        from[i]->excused = true;
    if (result != LEATC_OK)
        /* The edge with index done - 1 failed. Put back the edges before it. */
        for (size_t i = done - 1; i-- > 0;)
            (void)join(from[i], to[i]); /* cannot fail, because the lists had room for this edge before */
    return leatc_graphs_unlock_with(result);
}

/* ---- queries that return lists ---- */

/* Completes an output list as the vendors' manuals define it: sets unused entries to NULL, and sets *count to the
 * number of entries written. If list is NULL, *count becomes the number of elements found. */
static void finish_list(struct leatc_node **list, size_t found, size_t *count)
{
    size_t room = *count;

    for (size_t i = found; list && i < room; i++)
        list[i] = NULL;
    *count = list && found > room ? room : found;
}

int leatc_graph_nodes(struct leatc_graph *graph, bool roots, struct leatc_node **list, size_t *count)
{
    size_t found = 0;

    leatc_graphs_lock();
    if (!count || !leatc_graph_live(graph))
        return leatc_graphs_unlock_with(LEATC_INVALID_VALUE);
    for (size_t i = 0; i < graph->count; i++) {
        if (roots && graph->nodes[i]->before.count)
            continue;
        if (list && found < *count)
            list[found] = graph->nodes[i];
        found++;
    }
    finish_list(list, found, count);
    return leatc_graphs_unlock_with(LEATC_OK);
}

int leatc_graph_edges(struct leatc_graph *graph, struct leatc_node **from, struct leatc_node **to, void *data,
                      size_t *count)
{
    size_t found = 0, room;

    leatc_graphs_lock();
    if (!count || !leatc_graph_live(graph) || !from != !to || (data && !from))
        return leatc_graphs_unlock_with(LEATC_INVALID_VALUE);
    room = *count;
    if (data)
        memset(data, 0, room * EDGE_DATA_BYTES);
    for (size_t i = 0; i < graph->count; i++)
        for (size_t j = 0; j < graph->nodes[i]->after.count; j++, found++)
            if (from && found < room) {
                from[found] = graph->nodes[i];
                to[found] = graph->nodes[i]->after.nodes[j];
            }
    finish_list(from, found, count);
    finish_list(to, found, &room);
    return leatc_graphs_unlock_with(LEATC_OK);
}

int leatc_node_neighbours(struct leatc_node *node, bool after, struct leatc_node **list, void *data, size_t *count)
{
    const struct leatc_ends *ends;

    leatc_graphs_lock();
    if (!count || !leatc_node_live(node) || (data && !list))
        return leatc_graphs_unlock_with(LEATC_INVALID_VALUE);
    if (data)
        memset(data, 0, *count * EDGE_DATA_BYTES);
    ends = after ? &node->after : &node->before;
    for (size_t i = 0; list && i < ends->count && i < *count; i++)
        list[i] = ends->nodes[i];
    finish_list(list, ends->count, count);
    return leatc_graphs_unlock_with(LEATC_OK);
}

int leatc_node_in_clone(struct leatc_node *node, struct leatc_graph *clone, struct leatc_node **found)
{
    leatc_graphs_lock();
    if (found && leatc_node_live(node) && leatc_graph_live(clone))
        for (size_t i = 0; i < clone->count; i++)
            if (clone->nodes[i]->origin == node->id) {
                *found = clone->nodes[i];
                return leatc_graphs_unlock_with(LEATC_OK);
            }
    return leatc_graphs_unlock_with(LEATC_INVALID_VALUE);
}
