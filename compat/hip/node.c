/*
 * node.c - implements the calls for nodes of graphs, by type. Each type has a function that makes a task from
 * HIP's struct, and a function that fills the struct from a task. The calls that add a node, set its parameters,
 * or set those of an executable graph's node all use the first function.
 */
#include "hip/copy.h"

#include <string.h>

/* The addresses of these variables are the tags under which this library stores data with tasks
 * (leatc_task_keep()). */
static const char copy_tag, driver_copy_tag;

/* Each of the next three functions passes a task to the engine. made is the result of making the task; if it is a
 * failure, they only return it. */
static int add(int made, struct leatc_task **task, hipGraph_t graph, const hipGraphNode_t *before, size_t count,
               hipGraphNode_t *node)
{
    LEATC_TRY(made);
    return leatc_graph_add(graph_of(graph), node_list(before), count, *task, nodes_of(node));
}

static int set(int made, struct leatc_task **task, hipGraphNode_t node)
{
    LEATC_TRY(made);
    return leatc_node_set(node_of(node), *task);
}

static int set_exec(int made, struct leatc_task **task, hipGraphExec_t executable, hipGraphNode_t node)
{
    LEATC_TRY(made);
    return leatc_exec_set(exec_of(executable), node_of(node), *task);
}

static int get(hipGraphNode_t node, int type, const void *out, const struct leatc_task **task)
{
    return out ? leatc_node_task(node_of(node), type, task) : LEATC_INVALID_VALUE;
}

/* Defines a function whose `call` makes a task in the variable `task` and passes it to the engine. */
#define FORWARD_TASK(prototype, call)                                                                             \
    prototype                                                                                                     \
    {                                                                                                             \
        struct leatc_task *task = NULL;                                                                           \
                                                                                                                  \
        return note(call);                                                                                        \
    }

/* ---- kernels ---- */

FORWARD_TASK(hipError_t hipGraphAddKernelNode(hipGraphNode_t *node, hipGraph_t graph,
                                              const hipGraphNode_t *dependencies, size_t count,
                                              const hipKernelNodeParams *params),
             add(leatc_hip_kernel_make(params, &task), &task, graph, dependencies, count, node))

hipError_t hipGraphKernelNodeGetParams(hipGraphNode_t node, hipKernelNodeParams *params)
{
    const struct leatc_task *task;
    const struct leatc_kernel_task *kernel;
    int result = get(node, LEATC_NODE_KERNEL, params, &task);

    if (result != LEATC_OK)
        return note(result);
    kernel = leatc_task_payload(task);
    *params = (hipKernelNodeParams){.func = leatc_hip_kernel_function(task),
                                    .gridDim = {kernel->grid.x, kernel->grid.y, kernel->grid.z},
                                    .blockDim = {kernel->block.x, kernel->block.y, kernel->block.z},
                                    .sharedMemBytes = (unsigned)kernel->shared_bytes,
                                    .kernelParams = kernel->parameters ? kernel->args : NULL};
    return hipSuccess;
}

FORWARD_TASK(hipError_t hipGraphKernelNodeSetParams(hipGraphNode_t node, const hipKernelNodeParams *params),
             set(leatc_hip_kernel_make(params, &task), &task, node))
FORWARD_TASK(hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                                        const hipKernelNodeParams *params),
             set_exec(leatc_hip_kernel_make(params, &task), &task, executable, node))

/* HIP's call takes the source first, but the engine's call takes the destination first. */
FORWARD(hipError_t hipGraphKernelNodeCopyAttributes(hipGraphNode_t src, hipGraphNode_t dst),
        leatc_node_copy_attributes(node_of(dst), node_of(src)))

/* Copies only the first member of the union, which is the longest one: in programs compiled with older headers,
 * the union is not longer than this member. */
hipError_t hipGraphKernelNodeGetAttribute(hipGraphNode_t node, hipKernelNodeAttrID attribute,
                                          hipKernelNodeAttrValue *value)
{
    hipKernelNodeAttrValue whole;
    int result = value ? leatc_node_attribute(node_of(node), (int)attribute, &whole) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        memcpy(value, &whole, sizeof value->accessPolicyWindow);
    return note(result);
}

static int set_attribute(hipGraphNode_t node, hipKernelNodeAttrID attribute, const hipKernelNodeAttrValue *value)
{
    const hipAccessPolicyWindow *window;
    hipKernelNodeAttrValue whole;

    if (!value)
        return LEATC_INVALID_VALUE;
    window = &value->accessPolicyWindow;
    if (attribute == hipKernelNodeAttributeAccessPolicyWindow)
        LEATC_TRY(leatc_window_check(window->hitRatio, (int)window->hitProp, (int)window->missProp));
    memset(&whole, 0, sizeof whole);
    memcpy(&whole, value, sizeof *window);
    return leatc_node_set_attribute(node_of(node), (int)attribute, &whole);
}

FORWARD(hipError_t hipGraphKernelNodeSetAttribute(hipGraphNode_t node, hipKernelNodeAttrID attribute,
                                                  const hipKernelNodeAttrValue *value),
        set_attribute(node, attribute, value))

/* ---- copies ---- */

static int keep_copy(int made, const void *tag, const void *p, size_t bytes, struct leatc_task *task)
{
    int result;

    LEATC_TRY(made);
    result = leatc_task_keep(task, tag, p, bytes);
    if (result != LEATC_OK)
        leatc_task_drop(task);
    return result;
}

static int make_copy(const hipMemcpy3DParms *p, struct leatc_task **task)
{
    struct leatc_copy_task copy;
    int result;

    LEATC_TRY(leatc_hip_region_3d(p, &copy));
    result = leatc_copy_make(copy.dst, copy.src, &copy.region, copy.direction, task);
    return keep_copy(result, &copy_tag, p, sizeof *p, *task);
}

static int make_range(void *dst, const void *src, size_t bytes, hipMemcpyKind kind, struct leatc_task **task)
{
    leat_copy_region region = {.width_bytes = bytes, .height = 1, .depth = 1};

    LEATC_TRY(check_kind(kind));
    return leatc_copy_make(dst, src, &region, LEATC_DEFAULT, task);
}

static int make_to_symbol(const void *symbol, const void *src, size_t bytes, size_t offset, hipMemcpyKind kind,
                          struct leatc_task **task)
{
    void *at;

    LEATC_TRY(leatc_hip_symbol(symbol, offset, bytes, true, kind, &at));
    return make_range(at, src, bytes, hipMemcpyDefault, task);
}

static int make_from_symbol(void *dst, const void *symbol, size_t bytes, size_t offset, hipMemcpyKind kind,
                            struct leatc_task **task)
{
    void *at;

    LEATC_TRY(leatc_hip_symbol(symbol, offset, bytes, false, kind, &at));
    return make_range(dst, at, bytes, hipMemcpyDefault, task);
}

/* Describes the source or the destination of a copy that was captured or made from a range: either an array and a
 * position in it, or a pointer. */
static void describe_side(const void *ptr, const leat_copy_region *region, size_t pitch, size_t slice,
                          hipArray_t *array, hipPos *position, hipPitchedPtr *pitched, unsigned *unit)
{
    struct leatc_array_place place;

    if (!pitch)
        pitch = region->width_bytes;
    if (leatc_array_at(ptr, &place)) {
        *array = (hipArray_t)(void *)place.array;
        *position = (hipPos){place.x_bytes / place.element_bytes, place.y, place.z};
        *unit = place.element_bytes;
    } else {
        *pitched = (hipPitchedPtr){.ptr = (void *)(uintptr_t)ptr,
                                   .pitch = pitch,
                                   .xsize = region->width_bytes,
                                   .ysize = region->depth > 1 ? slice / pitch : region->height};
    }
}

static void describe_copy(const struct leatc_copy_task *copy, hipMemcpy3DParms *p)
{
    const leat_copy_region *region = &copy->region;
    unsigned unit = 1;

    *p = (hipMemcpy3DParms){.kind = (hipMemcpyKind)copy->direction};
    describe_side(copy->dst, region, region->dst_pitch_bytes, region->dst_slice_bytes, &p->dstArray, &p->dstPos,
                  &p->dstPtr, &unit);
    describe_side(copy->src, region, region->src_pitch_bytes, region->src_slice_bytes, &p->srcArray, &p->srcPos,
                  &p->srcPtr, &unit);
    p->extent = (hipExtent){region->width_bytes / unit, region->height, region->depth};
}

FORWARD_TASK(hipError_t hipGraphAddMemcpyNode(hipGraphNode_t *node, hipGraph_t graph,
                                              const hipGraphNode_t *dependencies, size_t count,
                                              const hipMemcpy3DParms *params),
             add(make_copy(params, &task), &task, graph, dependencies, count, node))
FORWARD_TASK(hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t *node, hipGraph_t graph,
                                                const hipGraphNode_t *dependencies, size_t count, void *dst,
                                                const void *src, size_t bytes, hipMemcpyKind kind),
             add(make_range(dst, src, bytes, kind, &task), &task, graph, dependencies, count, node))
FORWARD_TASK(hipError_t hipGraphAddMemcpyNodeToSymbol(hipGraphNode_t *node, hipGraph_t graph,
                                                      const hipGraphNode_t *dependencies, size_t count,
                                                      const void *symbol, const void *src, size_t bytes,
                                                      size_t offset, hipMemcpyKind kind),
             add(make_to_symbol(symbol, src, bytes, offset, kind, &task), &task, graph, dependencies, count, node))
FORWARD_TASK(hipError_t hipGraphAddMemcpyNodeFromSymbol(hipGraphNode_t *node, hipGraph_t graph,
                                                        const hipGraphNode_t *dependencies, size_t count,
                                                        void *dst, const void *symbol, size_t bytes, size_t offset,
                                                        hipMemcpyKind kind),
             add(make_from_symbol(dst, symbol, bytes, offset, kind, &task), &task, graph, dependencies, count,
                 node))

hipError_t hipGraphMemcpyNodeGetParams(hipGraphNode_t node, hipMemcpy3DParms *params)
{
    const struct leatc_task *task;
    const hipMemcpy3DParms *kept;
    int result = get(node, LEATC_NODE_COPY, params, &task);

    if (result != LEATC_OK)
        return note(result);
    kept = leatc_task_kept(task, &copy_tag);
    if (kept)
        *params = *kept;
    else
        describe_copy(leatc_task_payload(task), params);
    return hipSuccess;
}

FORWARD_TASK(hipError_t hipGraphMemcpyNodeSetParams(hipGraphNode_t node, const hipMemcpy3DParms *params),
             set(make_copy(params, &task), &task, node))
FORWARD_TASK(hipError_t hipGraphMemcpyNodeSetParams1D(hipGraphNode_t node, void *dst, const void *src,
                                                      size_t bytes, hipMemcpyKind kind),
             set(make_range(dst, src, bytes, kind, &task), &task, node))
FORWARD_TASK(hipError_t hipGraphMemcpyNodeSetParamsToSymbol(hipGraphNode_t node, const void *symbol,
                                                            const void *src, size_t bytes, size_t offset,
                                                            hipMemcpyKind kind),
             set(make_to_symbol(symbol, src, bytes, offset, kind, &task), &task, node))
FORWARD_TASK(hipError_t hipGraphMemcpyNodeSetParamsFromSymbol(hipGraphNode_t node, void *dst, const void *symbol,
                                                              size_t bytes, size_t offset, hipMemcpyKind kind),
             set(make_from_symbol(dst, symbol, bytes, offset, kind, &task), &task, node))
FORWARD_TASK(hipError_t hipGraphExecMemcpyNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                                        hipMemcpy3DParms *params),
             set_exec(make_copy(params, &task), &task, executable, node))
FORWARD_TASK(hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t executable, hipGraphNode_t node,
                                                          void *dst, const void *src, size_t bytes,
                                                          hipMemcpyKind kind),
             set_exec(make_range(dst, src, bytes, kind, &task), &task, executable, node))
FORWARD_TASK(hipError_t hipGraphExecMemcpyNodeSetParamsToSymbol(hipGraphExec_t executable, hipGraphNode_t node,
                                                                const void *symbol, const void *src, size_t bytes,
                                                                size_t offset, hipMemcpyKind kind),
             set_exec(make_to_symbol(symbol, src, bytes, offset, kind, &task), &task, executable, node))
FORWARD_TASK(hipError_t hipGraphExecMemcpyNodeSetParamsFromSymbol(hipGraphExec_t executable, hipGraphNode_t node,
                                                                  void *dst, const void *symbol, size_t bytes,
                                                                  size_t offset, hipMemcpyKind kind),
             set_exec(make_from_symbol(dst, symbol, bytes, offset, kind, &task), &task, executable, node))

/* ---- fills ---- */

static int make_fill(const hipMemsetParams *p, struct leatc_task **task)
{
    if (!p)
        return LEATC_INVALID_VALUE;
    return leatc_fill_make(&(struct leatc_fill_task){.dst = p->dst,
                                                     .pitch_bytes = p->pitch,
                                                     .value = p->value,
                                                     .unit_bytes = p->elementSize,
                                                     .width = p->width,
                                                     .height = p->height},
                           task);
}

FORWARD_TASK(hipError_t hipGraphAddMemsetNode(hipGraphNode_t *node, hipGraph_t graph,
                                              const hipGraphNode_t *dependencies, size_t count,
                                              const hipMemsetParams *params),
             add(make_fill(params, &task), &task, graph, dependencies, count, node))

hipError_t hipGraphMemsetNodeGetParams(hipGraphNode_t node, hipMemsetParams *params)
{
    const struct leatc_task *task;
    const struct leatc_fill_task *fill;
    int result = get(node, LEATC_NODE_FILL, params, &task);

    if (result != LEATC_OK)
        return note(result);
    fill = leatc_task_payload(task);
    *params = (hipMemsetParams){.dst = fill->dst,
                                .pitch = fill->pitch_bytes,
                                .value = fill->value,
                                .elementSize = fill->unit_bytes,
                                .width = fill->width,
                                .height = fill->height};
    return hipSuccess;
}

FORWARD_TASK(hipError_t hipGraphMemsetNodeSetParams(hipGraphNode_t node, const hipMemsetParams *params),
             set(make_fill(params, &task), &task, node))
FORWARD_TASK(hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                                        const hipMemsetParams *params),
             set_exec(make_fill(params, &task), &task, executable, node))

/* ---- host functions ---- */

static int make_host(const hipHostNodeParams *p, struct leatc_task **task)
{
    return p ? leatc_host_make(p->fn, p->userData, task) : LEATC_INVALID_VALUE;
}

FORWARD_TASK(hipError_t hipGraphAddHostNode(hipGraphNode_t *node, hipGraph_t graph,
                                            const hipGraphNode_t *dependencies, size_t count,
                                            const hipHostNodeParams *params),
             add(make_host(params, &task), &task, graph, dependencies, count, node))

hipError_t hipGraphHostNodeGetParams(hipGraphNode_t node, hipHostNodeParams *params)
{
    const struct leatc_task *task;
    const struct leatc_host_task *host;
    int result = get(node, LEATC_NODE_HOST, params, &task);

    if (result != LEATC_OK)
        return note(result);
    host = leatc_task_payload(task);
    *params = (hipHostNodeParams){host->function, host->argument};
    return hipSuccess;
}

FORWARD_TASK(hipError_t hipGraphHostNodeSetParams(hipGraphNode_t node, const hipHostNodeParams *params),
             set(make_host(params, &task), &task, node))
FORWARD_TASK(hipError_t hipGraphExecHostNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                                      const hipHostNodeParams *params),
             set_exec(make_host(params, &task), &task, executable, node))

/* ---- child graphs and empty nodes ---- */

FORWARD(hipError_t hipGraphAddChildGraphNode(hipGraphNode_t *node, hipGraph_t graph,
                                             const hipGraphNode_t *dependencies, size_t count, hipGraph_t child),
        leatc_graph_add_child(graph_of(graph), node_list(dependencies), count, graph_of(child), false,
                              nodes_of(node)))
FORWARD(hipError_t hipGraphChildGraphNodeGetGraph(hipGraphNode_t node, hipGraph_t *graph),
        leatc_node_child(node_of(node), (struct leatc_graph **)(void *)graph))
FORWARD(hipError_t hipGraphExecChildGraphNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                                       hipGraph_t child),
        leatc_exec_set_child(exec_of(executable), node_of(node), graph_of(child)))
FORWARD_TASK(hipError_t hipGraphAddEmptyNode(hipGraphNode_t *node, hipGraph_t graph,
                                             const hipGraphNode_t *dependencies, size_t count),
             add(leatc_empty_make(&task), &task, graph, dependencies, count, node))

/* ---- events ---- */

static int make_event(int type, hipEvent_t event, struct leatc_task **task)
{
    if (!event)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_event(event));
    return leatc_event_make(type, event_of(event), task);
}

static int get_event(hipGraphNode_t node, int type, hipEvent_t *event)
{
    const struct leatc_task *task;
    int result = get(node, type, event, &task);

    if (result == LEATC_OK)
        memcpy(event, leatc_task_payload(task), sizeof(hipEvent_t));
    return result;
}

FORWARD_TASK(hipError_t hipGraphAddEventRecordNode(hipGraphNode_t *node, hipGraph_t graph,
                                                   const hipGraphNode_t *dependencies, size_t count,
                                                   hipEvent_t event),
             add(make_event(LEATC_NODE_RECORD, event, &task), &task, graph, dependencies, count, node))
FORWARD(hipError_t hipGraphEventRecordNodeGetEvent(hipGraphNode_t node, hipEvent_t *event),
        get_event(node, LEATC_NODE_RECORD, event))
FORWARD_TASK(hipError_t hipGraphEventRecordNodeSetEvent(hipGraphNode_t node, hipEvent_t event),
             set(make_event(LEATC_NODE_RECORD, event, &task), &task, node))
FORWARD_TASK(hipError_t hipGraphExecEventRecordNodeSetEvent(hipGraphExec_t executable, hipGraphNode_t node,
                                                            hipEvent_t event),
             set_exec(make_event(LEATC_NODE_RECORD, event, &task), &task, executable, node))
FORWARD_TASK(hipError_t hipGraphAddEventWaitNode(hipGraphNode_t *node, hipGraph_t graph,
                                                 const hipGraphNode_t *dependencies, size_t count,
                                                 hipEvent_t event),
             add(make_event(LEATC_NODE_WAIT, event, &task), &task, graph, dependencies, count, node))
FORWARD(hipError_t hipGraphEventWaitNodeGetEvent(hipGraphNode_t node, hipEvent_t *event),
        get_event(node, LEATC_NODE_WAIT, event))
FORWARD_TASK(hipError_t hipGraphEventWaitNodeSetEvent(hipGraphNode_t node, hipEvent_t event),
             set(make_event(LEATC_NODE_WAIT, event, &task), &task, node))
FORWARD_TASK(hipError_t hipGraphExecEventWaitNodeSetEvent(hipGraphExec_t executable, hipGraphNode_t node,
                                                          hipEvent_t event),
             set_exec(make_event(LEATC_NODE_WAIT, event, &task), &task, executable, node))

/* ---- stream memory operations ---- */

static int make_batch(const hipBatchMemOpNodeParams *p, struct leatc_task **task)
{
    if (!p || !p->ctx)
        return LEATC_INVALID_VALUE;
    return leatc_hip_batch_make(p, task);
}

FORWARD_TASK(hipError_t hipGraphAddBatchMemOpNode(hipGraphNode_t *node, hipGraph_t graph,
                                                  const hipGraphNode_t *dependencies, size_t count,
                                                  const hipBatchMemOpNodeParams *params),
             add(make_batch(params, &task), &task, graph, dependencies, count, node))

hipError_t hipGraphBatchMemOpNodeGetParams(hipGraphNode_t node, hipBatchMemOpNodeParams *params)
{
    const struct leatc_task *task;
    int result = get(node, LEATC_NODE_BATCH, params, &task);

    return note(result == LEATC_OK ? leatc_hip_batch_describe(task, params) : result);
}

FORWARD_TASK(hipError_t hipGraphBatchMemOpNodeSetParams(hipGraphNode_t node, hipBatchMemOpNodeParams *params),
             set(make_batch(params, &task), &task, node))
FORWARD_TASK(hipError_t hipGraphExecBatchMemOpNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                                            const hipBatchMemOpNodeParams *params),
             set_exec(make_batch(params, &task), &task, executable, node))

/* ---- memory ---- */

_Static_assert(sizeof(hipMemAllocNodeParams) == sizeof(struct leatc_alloc_params) &&
                   sizeof(hipMemAccessDesc) == sizeof(struct leatc_access_params),
               "as the engine reads them");

static int add_alloc(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *before, size_t count,
                     void *params)
{
    return leatc_graph_add_alloc(graph_of(graph), node_list(before), count, params, nodes_of(node));
}

FORWARD(hipError_t hipGraphAddMemAllocNode(hipGraphNode_t *node, hipGraph_t graph,
                                           const hipGraphNode_t *dependencies, size_t count,
                                           hipMemAllocNodeParams *params),
        add_alloc(node, graph, dependencies, count, params))
FORWARD(hipError_t hipGraphMemAllocNodeGetParams(hipGraphNode_t node, hipMemAllocNodeParams *params),
        leatc_node_alloc_params(node_of(node), params))

static int add_free(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *before, size_t count, void *ptr)
{
    struct leatc_task *task = NULL;

    return add(leatc_free_make(graph_of(graph), ptr, &task), &task, graph, before, count, node);
}

FORWARD(hipError_t hipGraphAddMemFreeNode(hipGraphNode_t *node, hipGraph_t graph,
                                          const hipGraphNode_t *dependencies, size_t count, void *ptr),
        add_free(node, graph, dependencies, count, ptr))

hipError_t hipGraphMemFreeNodeGetParams(hipGraphNode_t node, void *ptr)
{
    const struct leatc_task *task;
    int result = get(node, LEATC_NODE_FREE, ptr, &task);

    if (result == LEATC_OK)
        *(void **)ptr = ((const struct leatc_free_task *)leatc_task_payload(task))->ptr;
    return note(result);
}

/* ---- nodes of any type ---- */

static int check_any(const hipGraphNodeParams *p)
{
    return p && !p->reserved0[0] && !p->reserved0[1] && !p->reserved0[2] && !p->reserved2 &&
                   (unsigned)p->type < hipGraphNodeTypeCount
               ? LEATC_OK
               : LEATC_INVALID_VALUE;
}

/* Makes the task of a node whose parameters can be set. The other types of nodes have calls of their own, or are
 * not supported. */
static int make_any(hipGraphNodeParams *p, struct leatc_task **task)
{
    LEATC_TRY(check_any(p));
    switch ((int)p->type) {
    case hipGraphNodeTypeKernel:
        return leatc_hip_kernel_make(&p->kernel, task);
    case hipGraphNodeTypeMemcpy:
        return p->memcpy.flags || p->memcpy.reserved[0] || p->memcpy.reserved[1] || p->memcpy.reserved[2]
                   ? LEATC_INVALID_VALUE
                   : make_copy(&p->memcpy.copyParams, task);
    case hipGraphNodeTypeMemset:
        return make_fill(&p->memset, task);
    case hipGraphNodeTypeHost:
        return make_host(&p->host, task);
    case hipGraphNodeTypeEmpty:
        return leatc_empty_make(task);
    case hipGraphNodeTypeWaitEvent:
        return make_event(LEATC_NODE_WAIT, p->eventWait.event, task);
    case hipGraphNodeTypeEventRecord:
        return make_event(LEATC_NODE_RECORD, p->eventRecord.event, task);
    default:
        return LEATC_NOT_SUPPORTED;
    }
}

/* Adds a node of a type that make_any() does not handle. */
static int add_other(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *before, size_t count,
                     hipGraphNodeParams *p)
{
    switch ((int)p->type) {
    case hipGraphNodeTypeGraph:
        return leatc_graph_add_child(graph_of(graph), node_list(before), count, graph_of(p->graph.graph), false,
                                     nodes_of(node));
    case hipGraphNodeTypeMemAlloc:
        return add_alloc(node, graph, before, count, &p->alloc);
    default:
        return add_free(node, graph, before, count, p->free.dptr);
    }
}

static int add_any(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *before, size_t count,
                   hipGraphNodeParams *p)
{
    struct leatc_task *task = NULL;

    LEATC_TRY(check_any(p));
    if (p->type == hipGraphNodeTypeGraph || p->type == hipGraphNodeTypeMemAlloc ||
        p->type == hipGraphNodeTypeMemFree)
        return add_other(node, graph, before, count, p);
    return add(make_any(p, &task), &task, graph, before, count, node);
}

FORWARD(hipError_t hipGraphAddNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                   size_t count, hipGraphNodeParams *params),
        add_any(node, graph, dependencies, count, params))
FORWARD_TASK(hipError_t hipGraphNodeSetParams(hipGraphNode_t node, hipGraphNodeParams *params),
             set(make_any(params, &task), &task, node))

hipError_t hipGraphExecNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node, hipGraphNodeParams *params)
{
    struct leatc_task *task = NULL;

    if (params && params->type == hipGraphNodeTypeGraph)
        return hipGraphExecChildGraphNodeSetParams(executable, node, params->graph.graph);
    return note(set_exec(make_any(params, &task), &task, executable, node));
}

/* ---- the driver API's functions, with a context ---- */

static int check_context(hipCtx_t context, int *ordinal)
{
    int devices = 0;

    LEATC_TRY(leatc_device_count(&devices));
    for (*ordinal = 0; *ordinal < devices; ++*ordinal)
        if (context && context == leatc_hip_context(*ordinal))
            return LEATC_OK;
    return LEATC_INVALID_VALUE;
}

static int make_driver_copy(const HIP_MEMCPY3D *p, struct leatc_task **task)
{
    struct leatc_copy_task copy;
    int result;

    LEATC_TRY(leatc_hip_region_driver(p, &copy));
    result = leatc_copy_make(copy.dst, copy.src, &copy.region, copy.direction, task);
    return keep_copy(result, &driver_copy_tag, p, sizeof *p, *task);
}

static int make_copy_in(const HIP_MEMCPY3D *p, hipCtx_t context, struct leatc_task **task)
{
    int ordinal;

    LEATC_TRY(check_context(context, &ordinal));
    LEATC_TRY(make_driver_copy(p, task));
    leatc_task_set_device(*task, ordinal);
    return LEATC_OK;
}

FORWARD_TASK(hipError_t hipDrvGraphAddMemcpyNode(hipGraphNode_t *node, hipGraph_t graph,
                                                 const hipGraphNode_t *dependencies, size_t count,
                                                 const HIP_MEMCPY3D *params, hipCtx_t context),
             add(make_copy_in(params, context, &task), &task, graph, dependencies, count, node))
FORWARD_TASK(hipError_t hipDrvGraphExecMemcpyNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                                           const HIP_MEMCPY3D *params, hipCtx_t context),
             set_exec(make_copy_in(params, context, &task), &task, executable, node))
FORWARD_TASK(hipError_t hipDrvGraphMemcpyNodeSetParams(hipGraphNode_t node, const HIP_MEMCPY3D *params),
             set(make_driver_copy(params, &task), &task, node))

/* The source or the destination of a copy that was not made from the driver API's struct. */
struct side {
    hipMemoryType type;
    void *ptr;
    hipArray_t array;
    size_t x_bytes, y, z, pitch, height;
};

static struct side describe_place(const void *ptr, const leat_copy_region *region, size_t pitch, size_t slice)
{
    struct leatc_memory memory = {.kind = LEATC_MEMORY_PAGEABLE};
    struct leatc_array_place place;

    if (leatc_array_at(ptr, &place))
        return (struct side){.type = hipMemoryTypeArray,
                             .array = (hipArray_t)(void *)place.array,
                             .x_bytes = place.x_bytes,
                             .y = place.y,
                             .z = place.z};
    if (!pitch)
        pitch = region->width_bytes;
    (void)leatc_memory_find(ptr, &memory);
    return (struct side){.type = memory.kind == LEATC_MEMORY_DEVICE    ? hipMemoryTypeDevice
                                 : memory.kind == LEATC_MEMORY_MANAGED ? hipMemoryTypeUnified
                                                                       : hipMemoryTypeHost,
                         .ptr = (void *)(uintptr_t)ptr,
                         .pitch = pitch,
                         .height = region->depth > 1 ? slice / pitch : region->height};
}

static void describe_driver_copy(const struct leatc_copy_task *copy, HIP_MEMCPY3D *p)
{
    const leat_copy_region *region = &copy->region;
    struct side dst = describe_place(copy->dst, region, region->dst_pitch_bytes, region->dst_slice_bytes);
    struct side src = describe_place(copy->src, region, region->src_pitch_bytes, region->src_slice_bytes);

    *p = (HIP_MEMCPY3D){.srcMemoryType = src.type,
                        .srcHost = src.type == hipMemoryTypeHost ? src.ptr : NULL,
                        .srcDevice = src.type == hipMemoryTypeHost ? NULL : src.ptr,
                        .srcArray = src.array,
                        .srcXInBytes = src.x_bytes,
                        .srcY = src.y,
                        .srcZ = src.z,
                        .srcPitch = src.pitch,
                        .srcHeight = src.height,
                        .dstMemoryType = dst.type,
                        .dstHost = dst.type == hipMemoryTypeHost ? dst.ptr : NULL,
                        .dstDevice = dst.type == hipMemoryTypeHost ? NULL : dst.ptr,
                        .dstArray = dst.array,
                        .dstXInBytes = dst.x_bytes,
                        .dstY = dst.y,
                        .dstZ = dst.z,
                        .dstPitch = dst.pitch,
                        .dstHeight = dst.height,
                        .WidthInBytes = region->width_bytes,
                        .Height = region->height,
                        .Depth = region->depth};
}

hipError_t hipDrvGraphMemcpyNodeGetParams(hipGraphNode_t node, HIP_MEMCPY3D *params)
{
    const struct leatc_task *task;
    const HIP_MEMCPY3D *kept;
    int result = get(node, LEATC_NODE_COPY, params, &task);

    if (result != LEATC_OK)
        return note(result);
    kept = leatc_task_kept(task, &driver_copy_tag);
    if (kept)
        *params = *kept;
    else
        describe_driver_copy(leatc_task_payload(task), params);
    return hipSuccess;
}

static int make_fill_in(const HIP_MEMSET_NODE_PARAMS *p, hipCtx_t context, struct leatc_task **task)
{
    int ordinal;

    LEATC_TRY(p ? check_context(context, &ordinal) : LEATC_INVALID_VALUE);
    LEATC_TRY(make_fill(&(hipMemsetParams){.dst = p->dst,
                                           .elementSize = p->elementSize,
                                           .height = p->height,
                                           .pitch = p->pitch,
                                           .value = p->value,
                                           .width = p->width},
                        task));
    leatc_task_set_device(*task, ordinal);
    return LEATC_OK;
}

FORWARD_TASK(hipError_t hipDrvGraphAddMemsetNode(hipGraphNode_t *node, hipGraph_t graph,
                                                 const hipGraphNode_t *dependencies, size_t count,
                                                 const HIP_MEMSET_NODE_PARAMS *params, hipCtx_t context),
             add(make_fill_in(params, context, &task), &task, graph, dependencies, count, node))
FORWARD_TASK(hipError_t hipDrvGraphExecMemsetNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                                           const HIP_MEMSET_NODE_PARAMS *params, hipCtx_t context),
             set_exec(make_fill_in(params, context, &task), &task, executable, node))
FORWARD(hipError_t hipDrvGraphAddMemFreeNode(hipGraphNode_t *node, hipGraph_t graph,
                                             const hipGraphNode_t *dependencies, size_t count, hipDeviceptr_t ptr),
        add_free(node, graph, dependencies, count, ptr))
