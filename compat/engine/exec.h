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
    unsigned references;    /* guarded by the lock of graphs; the last release frees the executable graph */
    struct leati_lock lock; /* held during a launch or an update; guards the fields below */
    unsigned long long id, flags;
    struct leatc_graph *graph;
    struct leatc_graph *source; /* if the original graph allocates or frees memory: that graph, which may have only
                                 * this executable graph; otherwise NULL; guarded by the lock of graphs */
    struct step *steps;
    size_t step_count;
    size_t *before;
    struct leatc_task **memory; /* the tasks of nodes that allocate or free, in the order of the steps */
    size_t memory_count;
    struct lane *lanes; /* lanes[0] is the stream of the launch */
    size_t lane_count;
    int lanes_for;    /* ordinal of the device for whose launches the lanes were chosen; -1: choose them again */
    size_t *waited;   /* waited[lane * lane_count + other]: 1 + the latest step of lane other that this lane waits
                       * for; 0: none */
    leat_event *done; /* recorded at the end of the latest launch; NULL before the first */
    leat_device *done_device;
};

/* Returns a list with room for all nodes of the graph, which the caller frees. Returns NULL if out of memory. */
static inline struct leatc_node **leatc_node_list(const struct leatc_graph *graph)
{
    return malloc(graph->count * sizeof(struct leatc_node *) + 1);
}

/* Returns true if exec is a live handle, and then keeps it alive until leatc_exec_release(). */
bool leatc_exec_acquire(struct leatc_exec *exec);
void leatc_exec_release(struct leatc_exec *exec);

/* Releases references to user objects when all launches so far have completed. The caller holds exec->lock or the
 * last reference to exec. */
void leatc_exec_release_later(const struct leatc_exec *exec, struct leatc_holding *holdings);

#endif
