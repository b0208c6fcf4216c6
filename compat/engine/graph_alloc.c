/*
 * graph_alloc.c - makes nodes that allocate memory from the vendors' parameters, which all have the same layout.
 * graph_memory.c manages the allocations.
 */
#include "base/lock.h"
#include "engine/inside.h"

#include <stdlib.h>
#include <string.h>

/* Memory types, kinds of location and access rights, with the numbers that both vendors use. */
enum { TYPE_PINNED = 1, TYPE_MANAGED = 2, PLACE_INVALID = 0, PLACE_DEVICE = 1, ACCESS_READ = 1, ACCESS_BOTH = 3 };

static const char alloc_tag;

/* A copy of the vendor's parameters, followed by a copy of the access list. */
struct kept_params {
    struct leatc_alloc_params params;
    struct leatc_access_params access[];
};

static int check_alloc(const struct kept_params *kept, uint64_t *peers)
{
    const struct leatc_alloc_params *p = &kept->params;
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    *peers = 0;
    if (p->allocation_type != TYPE_PINNED)
        return p->allocation_type == TYPE_MANAGED ? LEATC_NOT_SUPPORTED : LEATC_INVALID_VALUE;
    if (p->location_type != PLACE_DEVICE)
        return p->location_type == PLACE_INVALID ? LEATC_INVALID_VALUE : LEATC_NOT_SUPPORTED;
    if (p->handle_types)
        return LEATC_NOT_SUPPORTED;
    if (leatc_device_describe(p->location_id, &info) != LEATC_OK)
        return LEATC_INVALID_VALUE;
    for (size_t i = 0; i < p->access_count; i++) {
        const struct leatc_access_params *access = &kept->access[i];

        if (access->location_type != PLACE_DEVICE || leatc_device_describe(access->location_id, &info) != LEATC_OK)
            return LEATC_INVALID_VALUE;
        if (access->flags != ACCESS_BOTH)
            return access->flags == ACCESS_READ ? LEATC_NOT_SUPPORTED : LEATC_INVALID_VALUE;
        *peers |= (uint64_t)1 << access->location_id;
    }
    return LEATC_OK;
}

/* Returns the id of a graph, or 0 if the handle is not live. */
static unsigned long long id_of(struct leatc_graph *graph)
{
    unsigned long long id;

    leatc_graphs_lock();
    id = leatc_graph_live(graph) ? graph->id : 0;
    leatc_graphs_unlock();
    return id;
}

static int make_alloc(struct leatc_graph *graph, const struct kept_params *kept, struct leatc_task **task)
{
    unsigned long long id;
    uint64_t peers;
    int result;

    LEATC_TRY(check_alloc(kept, &peers));
    id = id_of(graph);
    if (!id)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_graph_alloc(id, kept->params.location_id, peers, kept->params.bytes, task));
    result =
        leatc_task_keep(*task, &alloc_tag, kept, sizeof *kept + kept->params.access_count * sizeof *kept->access);
    if (result != LEATC_OK)
        leatc_task_drop(*task);
    return result;
}

int leatc_graph_add_alloc(struct leatc_graph *graph, struct leatc_node *const *before, size_t count, void *params,
                          struct leatc_node **node)
{
    struct leatc_alloc_params asked;
    struct kept_params *kept;
    struct leatc_task *task;
    int result;

    if (!params)
        return LEATC_INVALID_VALUE;
    memcpy(&asked, params, sizeof asked);
    if (asked.access_count && !asked.access)
        return LEATC_INVALID_VALUE;
    if (asked.access_count > SIZE_MAX / 2 / sizeof *kept->access)
        return LEATC_OUT_OF_MEMORY;
    kept = malloc(sizeof *kept + asked.access_count * sizeof *kept->access);
    if (!kept)
        return LEATC_OUT_OF_MEMORY;
    kept->params = asked;
    if (asked.access_count)
        memcpy(kept->access, asked.access, asked.access_count * sizeof *kept->access);
    result = make_alloc(graph, kept, &task);
    free(kept);
    LEATC_TRY(result);
    asked.ptr = ((const struct leatc_alloc_task *)leatc_task_payload(task))->ptr;
    LEATC_TRY(leatc_graph_add(graph, before, count, task, node));
    memcpy(params, &asked, sizeof asked);
    return LEATC_OK;
}

int leatc_node_alloc_params(struct leatc_node *node, void *params)
{
    const struct leatc_alloc_task *alloc;
    struct leatc_alloc_params given;
    const struct kept_params *kept;
    const struct leatc_task *task;

    if (!params)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_node_task(node, LEATC_NODE_ALLOC, &task));
    alloc = leatc_task_payload(task);
    kept = leatc_task_kept(task, &alloc_tag);
    if (kept) {
        given = kept->params;
        given.access = given.access_count ? kept->access : NULL;
    } else {
        given = (struct leatc_alloc_params){.allocation_type = TYPE_PINNED,
                                            .location_type = PLACE_DEVICE,
                                            .location_id = alloc->ordinal,
                                            .bytes = alloc->bytes};
    }
    given.ptr = alloc->ptr;
    memcpy(params, &given, sizeof given);
    return LEATC_OK;
}
