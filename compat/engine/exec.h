/* exec.h - struct leatc_exec and its lifetime, shared by exec.c and exec_update.c. */
#ifndef LEATC_EXEC_H
#define LEATC_EXEC_H

#include "base/lock.h"
#include "engine/inside.h"

#include <stdlib.h>

struct step; /* exec.c */
struct lane; /* exec.c */

struct leatc_exec {
    struct leati_handle handle;
    unsigned references;    /* guarded by the lock of graphs; the last release frees it */
    struct leati_lock lock; /* held during a launch or a change; guards the fields below */
    unsigned long long id, flags;
    struct leatc_graph *graph;
    struct leatc_graph *source; /* if it has memory nodes: its graph, which may have only this instance; guarded by
                                 * the lock of graphs */
    struct step *steps;
    size_t step_count;
    size_t *before;
    struct leatc_task **memory; /* the tasks of nodes that allocate or free, in the order of the steps */
    size_t memory_count;
    struct lane *lanes; /* [0] is the stream of the launch */
    size_t lane_count;
    int lanes_for;    /* the device of the launch that the lanes were chosen for; -1: choose them again */
    size_t *waited;   /* [lane * lane_count + other]: one more than the latest step of other that lane waits for */
    leat_event *done; /* recorded at the end of the latest launch; NULL before the first */
    leat_device *done_device;
};

/* Returns a list with room for all nodes of a graph, which the caller frees. NULL: out of memory. */
static inline struct leatc_node **leatc_node_list(const struct leatc_graph *graph)
{
    return malloc(graph->count * sizeof(struct leatc_node *) + 1);
}

/* Returns true if exec is alive, and keeps it alive until leatc_exec_release(). */
bool leatc_exec_acquire(struct leatc_exec *exec);
void leatc_exec_release(struct leatc_exec *exec);

/* Releases references to user objects when the launches so far have completed. The caller holds
 * exec->lock or the last reference. */
void leatc_exec_release_later(const struct leatc_exec *exec, struct leatc_holding *holdings);

#endif
