/* exec.h - executable graphs, for exec.c and exec_update.c. */
#ifndef LEATC_EXEC_H
#define LEATC_EXEC_H

#include "base/lock.h"
#include "engine/inside.h"

#include <stdlib.h>

struct step; /* exec.c */
struct lane; /* exec.c */

struct leatc_exec {
    struct leati_handle handle;
    unsigned references;    /* under the lock of graphs */
    struct leati_lock lock; /* held while it is launched or changed: guards what follows */
    unsigned long long id, flags;
    struct leatc_graph *graph;
    struct leatc_graph *source; /* of which it is the only instance; under the lock of graphs */
    struct step *steps;
    size_t step_count;
    size_t *before;
    struct leatc_task **memory; /* the tasks that allocate and free, in the order of the steps */
    size_t memory_count;
    struct lane *lanes; /* the first is that of the launch */
    size_t lane_count;
    int lanes_for;  /* the device of the launch that they were chosen for; -1: to be chosen */
    size_t *waited; /* [lane * lane_count + other]: one more than the latest step of other that lane comes after */
    leat_event *done; /* behind the latest launch; NULL before the first */
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
