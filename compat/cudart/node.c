/*
 * node.c - implements the calls for nodes of graphs, by type. Each type has a function that makes a task from
 * CUDA's struct, and a function that fills the struct from a task. The calls that add a node, set its parameters,
 * or set those of an executable graph's node all use the first function.
 */
#include "cudart/cudart.h"

#include <string.h>

/* The address of this variable is the tag under which this library stores data with a task (leatc_task_keep()). */
static const char copy_tag;

static struct leatc_exec *exec_of(cudaGraphExec_t executable)
{
    return (struct leatc_exec *)(void *)executable;
}

/* Each of the next three functions passes a task to the engine. made is the result of making the task; if it is a
 * failure, they only return it. */
static int add(int made, struct leatc_task **task, cudaGraph_t graph, const cudaGraphNode_t *before, size_t count,
               cudaGraphNode_t *node)
{
    LEATC_TRY(made);
    return leatc_graph_add(graph_of(graph), node_list(before), count, *task, (struct leatc_node **)(void *)node);
}

static int set(int made, struct leatc_task **task, cudaGraphNode_t node)
{
    LEATC_TRY(made);
    return leatc_node_set(node_of(node), *task);
}

static int set_exec(int made, struct leatc_task **task, cudaGraphExec_t executable, cudaGraphNode_t node)
{
    LEATC_TRY(made);
    return leatc_exec_set(exec_of(executable), node_of(node), *task);
}

static int get(cudaGraphNode_t node, int type, const void *out, const struct leatc_task **task)
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

static int make_kernel(const struct cudaKernelNodeParams *p, struct leatc_task **task)
{
    if (!p || (p->kernelParams && p->extra))
        return LEATC_INVALID_VALUE;
    if (p->extra)
        return LEATC_NOT_SUPPORTED;
    return leatc_kernel_make(
        &(struct leatc_kernel_task){.function = p->func,
                                    .grid = leat_dim(p->gridDim.x, p->gridDim.y, p->gridDim.z),
                                    .block = leat_dim(p->blockDim.x, p->blockDim.y, p->blockDim.z),
                                    .shared_bytes = p->sharedMemBytes,
                                    .args = p->kernelParams},
        task);
}

FORWARD_TASK(cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                                const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                                const struct cudaKernelNodeParams *pNodeParams),
             add(make_kernel(pNodeParams, &task), &task, graph, pDependencies, numDependencies, pGraphNode))

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *pNodeParams)
{
    const struct leatc_task *task;
    const struct leatc_kernel_task *kernel;
    int result = get(node, LEATC_NODE_KERNEL, pNodeParams, &task);

    if (result != LEATC_OK)
        return note(result);
    kernel = leatc_task_payload(task);
    *pNodeParams = (struct cudaKernelNodeParams){.func = (void *)(uintptr_t)kernel->function,
                                                 .gridDim = {kernel->grid.x, kernel->grid.y, kernel->grid.z},
                                                 .blockDim = {kernel->block.x, kernel->block.y, kernel->block.z},
                                                 .sharedMemBytes = (unsigned)kernel->shared_bytes,
                                                 .kernelParams = kernel->parameters ? kernel->args : NULL};
    return cudaSuccess;
}

FORWARD_TASK(cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                                      const struct cudaKernelNodeParams *pNodeParams),
             set(make_kernel(pNodeParams, &task), &task, node))
FORWARD_TASK(cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                          const struct cudaKernelNodeParams *pNodeParams),
             set_exec(make_kernel(pNodeParams, &task), &task, hGraphExec, node))
FORWARD(cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t hDst, cudaGraphNode_t hSrc),
        leatc_node_copy_attributes(node_of(hDst), node_of(hSrc)))
FORWARD(cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t hNode, cudaKernelNodeAttrID attr,
                                                    cudaKernelNodeAttrValue *value_out),
        leatc_node_attribute(node_of(hNode), (int)attr, value_out))

cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t hNode, cudaKernelNodeAttrID attr,
                                            const cudaKernelNodeAttrValue *value)
{
    const struct cudaAccessPolicyWindow *window = value ? &value->accessPolicyWindow : NULL;
    int result = window && (int)attr == LEATC_ATTRIBUTE_WINDOW
                     ? leatc_window_check(window->hitRatio, (int)window->hitProp, (int)window->missProp)
                     : LEATC_OK;

    return note(result == LEATC_OK ? leatc_node_set_attribute(node_of(hNode), (int)attr, value) : result);
}

/* ---- copies ---- */

static int keep_copy(int made, const struct cudaMemcpy3DParms *p, struct leatc_task **task)
{
    int result;

    LEATC_TRY(made);
    result = leatc_task_keep(*task, &copy_tag, p, sizeof *p);
    if (result != LEATC_OK)
        leatc_task_drop(*task);
    return result;
}

static int make_copy(const struct cudaMemcpy3DParms *p, struct leatc_task **task)
{
    leat_copy_region region;
    struct end dst, src;

    LEATC_TRY(cudart_region_3d(p, &dst, &src, &region));
    return keep_copy(leatc_copy_make(dst.ptr, src.ptr, &region, (int)p->kind, task), p, task);
}

static int make_range(void *dst, const void *src, size_t count, int direction, struct leatc_task **task)
{
    leat_copy_region region = {.width_bytes = count, .height = 1, .depth = 1};

    return leatc_copy_make(dst, src, &region, direction, task);
}

static int make_to_symbol(const void *symbol, const void *src, size_t count, size_t offset,
                          enum cudaMemcpyKind kind, struct leatc_task **task)
{
    void *at;

    LEATC_TRY(cudart_symbol(symbol, offset, count, true, kind, &at));
    return make_range(at, src, count, LEATC_DEFAULT, task);
}

static int make_from_symbol(void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind,
                            struct leatc_task **task)
{
    void *at;

    LEATC_TRY(cudart_symbol(symbol, offset, count, false, kind, &at));
    return make_range(dst, at, count, LEATC_DEFAULT, task);
}

/* Describes the source or the destination of a copy that was captured or made from a range: either an array and a
 * position in it, or a pointer. */
static void describe_side(const void *ptr, const leat_copy_region *region, size_t pitch, size_t slice,
                          cudaArray_t *array, struct cudaPos *position, struct cudaPitchedPtr *pitched,
                          unsigned *unit)
{
    struct leatc_array_place place;

    if (!pitch)
        pitch = region->width_bytes;
    if (leatc_array_at(ptr, &place)) {
        *array = (cudaArray_t)(void *)place.array;
        *position = (struct cudaPos){place.x_bytes / place.element_bytes, place.y, place.z};
        *unit = place.element_bytes;
    } else {
        *pitched = (struct cudaPitchedPtr){.ptr = (void *)(uintptr_t)ptr,
                                           .pitch = pitch,
                                           .xsize = region->width_bytes,
                                           .ysize = region->depth > 1 ? slice / pitch : region->height};
    }
}

static void describe_copy(const struct leatc_copy_task *copy, struct cudaMemcpy3DParms *p)
{
    const leat_copy_region *region = &copy->region;
    unsigned unit = 1;

    *p = (struct cudaMemcpy3DParms){.kind = (enum cudaMemcpyKind)copy->direction};
    describe_side(copy->dst, region, region->dst_pitch_bytes, region->dst_slice_bytes, &p->dstArray, &p->dstPos,
                  &p->dstPtr, &unit);
    describe_side(copy->src, region, region->src_pitch_bytes, region->src_slice_bytes, &p->srcArray, &p->srcPos,
                  &p->srcPtr, &unit);
    p->extent = (struct cudaExtent){region->width_bytes / unit, region->height, region->depth};
}

FORWARD_TASK(cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                                const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                                const struct cudaMemcpy3DParms *pCopyParams),
             add(make_copy(pCopyParams, &task), &task, graph, pDependencies, numDependencies, pGraphNode))
FORWARD_TASK(cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                                  const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                                  void *dst, const void *src, size_t count,
                                                  enum cudaMemcpyKind kind),
             add(make_range(dst, src, count, (int)kind, &task), &task, graph, pDependencies, numDependencies,
                 pGraphNode))
FORWARD_TASK(cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                                        const cudaGraphNode_t *pDependencies,
                                                        size_t numDependencies, const void *symbol,
                                                        const void *src, size_t count, size_t offset,
                                                        enum cudaMemcpyKind kind),
             add(make_to_symbol(symbol, src, count, offset, kind, &task), &task, graph, pDependencies,
                 numDependencies, pGraphNode))
FORWARD_TASK(cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                                          const cudaGraphNode_t *pDependencies,
                                                          size_t numDependencies, void *dst, const void *symbol,
                                                          size_t count, size_t offset, enum cudaMemcpyKind kind),
             add(make_from_symbol(dst, symbol, count, offset, kind, &task), &task, graph, pDependencies,
                 numDependencies, pGraphNode))

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, struct cudaMemcpy3DParms *pNodeParams)
{
    const struct leatc_task *task;
    const struct cudaMemcpy3DParms *kept;
    int result = get(node, LEATC_NODE_COPY, pNodeParams, &task);

    if (result != LEATC_OK)
        return note(result);
    kept = leatc_task_kept(task, &copy_tag);
    if (kept)
        *pNodeParams = *kept;
    else
        describe_copy(leatc_task_payload(task), pNodeParams);
    return cudaSuccess;
}

FORWARD_TASK(cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node,
                                                      const struct cudaMemcpy3DParms *pNodeParams),
             set(make_copy(pNodeParams, &task), &task, node))
FORWARD_TASK(cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *dst, const void *src,
                                                        size_t count, enum cudaMemcpyKind kind),
             set(make_range(dst, src, count, (int)kind, &task), &task, node))
FORWARD_TASK(cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void *symbol,
                                                              const void *src, size_t count, size_t offset,
                                                              enum cudaMemcpyKind kind),
             set(make_to_symbol(symbol, src, count, offset, kind, &task), &task, node))
FORWARD_TASK(cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void *dst,
                                                                const void *symbol, size_t count, size_t offset,
                                                                enum cudaMemcpyKind kind),
             set(make_from_symbol(dst, symbol, count, offset, kind, &task), &task, node))
FORWARD_TASK(cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                          const struct cudaMemcpy3DParms *pNodeParams),
             set_exec(make_copy(pNodeParams, &task), &task, hGraphExec, node))
FORWARD_TASK(cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                            void *dst, const void *src, size_t count,
                                                            enum cudaMemcpyKind kind),
             set_exec(make_range(dst, src, count, (int)kind, &task), &task, hGraphExec, node))
FORWARD_TASK(cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                                  const void *symbol, const void *src,
                                                                  size_t count, size_t offset,
                                                                  enum cudaMemcpyKind kind),
             set_exec(make_to_symbol(symbol, src, count, offset, kind, &task), &task, hGraphExec, node))
FORWARD_TASK(cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t hGraphExec,
                                                                    cudaGraphNode_t node, void *dst,
                                                                    const void *symbol, size_t count,
                                                                    size_t offset, enum cudaMemcpyKind kind),
             set_exec(make_from_symbol(dst, symbol, count, offset, kind, &task), &task, hGraphExec, node))

/* ---- fills ---- */

static int make_fill(const struct cudaMemsetParams *p, struct leatc_task **task)
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

FORWARD_TASK(cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                                const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                                const struct cudaMemsetParams *pMemsetParams),
             add(make_fill(pMemsetParams, &task), &task, graph, pDependencies, numDependencies, pGraphNode))

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *pNodeParams)
{
    const struct leatc_task *task;
    const struct leatc_fill_task *fill;
    int result = get(node, LEATC_NODE_FILL, pNodeParams, &task);

    if (result != LEATC_OK)
        return note(result);
    fill = leatc_task_payload(task);
    *pNodeParams = (struct cudaMemsetParams){.dst = fill->dst,
                                             .pitch = fill->pitch_bytes,
                                             .value = fill->value,
                                             .elementSize = fill->unit_bytes,
                                             .width = fill->width,
                                             .height = fill->height};
    return cudaSuccess;
}

FORWARD_TASK(cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node,
                                                      const struct cudaMemsetParams *pNodeParams),
             set(make_fill(pNodeParams, &task), &task, node))
FORWARD_TASK(cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                          const struct cudaMemsetParams *pNodeParams),
             set_exec(make_fill(pNodeParams, &task), &task, hGraphExec, node))

/* ---- host functions ---- */

static int make_host(const struct cudaHostNodeParams *p, struct leatc_task **task)
{
    return p ? leatc_host_make(p->fn, p->userData, task) : LEATC_INVALID_VALUE;
}

FORWARD_TASK(cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                              const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                              const struct cudaHostNodeParams *pNodeParams),
             add(make_host(pNodeParams, &task), &task, graph, pDependencies, numDependencies, pGraphNode))

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, struct cudaHostNodeParams *pNodeParams)
{
    const struct leatc_task *task;
    const struct leatc_host_task *host;
    int result = get(node, LEATC_NODE_HOST, pNodeParams, &task);

    if (result != LEATC_OK)
        return note(result);
    host = leatc_task_payload(task);
    *pNodeParams = (struct cudaHostNodeParams){host->function, host->argument};
    return cudaSuccess;
}

FORWARD_TASK(cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node,
                                                    const struct cudaHostNodeParams *pNodeParams),
             set(make_host(pNodeParams, &task), &task, node))
FORWARD_TASK(cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                        const struct cudaHostNodeParams *pNodeParams),
             set_exec(make_host(pNodeParams, &task), &task, hGraphExec, node))

/* ---- child graphs and empty nodes ---- */

FORWARD(cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                               const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                               cudaGraph_t childGraph),
        leatc_graph_add_child(graph_of(graph), node_list(pDependencies), numDependencies, graph_of(childGraph),
                              false, (struct leatc_node **)(void *)pGraphNode))
FORWARD(cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *pGraph),
        leatc_node_child(node_of(node), (struct leatc_graph **)(void *)pGraph))
FORWARD(cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                         cudaGraph_t childGraph),
        leatc_exec_set_child(exec_of(hGraphExec), node_of(node), graph_of(childGraph)))
FORWARD_TASK(cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                               const cudaGraphNode_t *pDependencies, size_t numDependencies),
             add(leatc_empty_make(&task), &task, graph, pDependencies, numDependencies, pGraphNode))

/* ---- events ---- */

static int get_event(cudaGraphNode_t node, int type, cudaEvent_t *event)
{
    const struct leatc_task *task;
    int result = get(node, type, event, &task);

    if (result == LEATC_OK)
        memcpy(event, leatc_task_payload(task), sizeof(cudaEvent_t));
    return result;
}

FORWARD_TASK(cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                                     const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                                     cudaEvent_t event),
             add(leatc_event_make(LEATC_NODE_RECORD, event_of(event), &task), &task, graph, pDependencies,
                 numDependencies, pGraphNode))
FORWARD(cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event_out),
        get_event(node, LEATC_NODE_RECORD, event_out))
FORWARD_TASK(cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event),
             set(leatc_event_make(LEATC_NODE_RECORD, event_of(event), &task), &task, node))
FORWARD_TASK(cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                                              cudaEvent_t event),
             set_exec(leatc_event_make(LEATC_NODE_RECORD, event_of(event), &task), &task, hGraphExec, hNode))
FORWARD_TASK(cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                                   const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                                   cudaEvent_t event),
             add(leatc_event_make(LEATC_NODE_WAIT, event_of(event), &task), &task, graph, pDependencies,
                 numDependencies, pGraphNode))
FORWARD(cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event_out),
        get_event(node, LEATC_NODE_WAIT, event_out))
FORWARD_TASK(cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event),
             set(leatc_event_make(LEATC_NODE_WAIT, event_of(event), &task), &task, node))
FORWARD_TASK(cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                                            cudaEvent_t event),
             set_exec(leatc_event_make(LEATC_NODE_WAIT, event_of(event), &task), &task, hGraphExec, hNode))

/* ---- memory ---- */

_Static_assert(sizeof(struct cudaMemAllocNodeParams) == sizeof(struct leatc_alloc_params) &&
                   sizeof(struct cudaMemAccessDesc) == sizeof(struct leatc_access_params),
               "as the engine reads them");

static int add_alloc(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before, size_t count,
                     void *params)
{
    return leatc_graph_add_alloc(graph_of(graph), node_list(before), count, params,
                                 (struct leatc_node **)(void *)node);
}

FORWARD(cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                             const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                             struct cudaMemAllocNodeParams *nodeParams),
        add_alloc(pGraphNode, graph, pDependencies, numDependencies, nodeParams))
FORWARD(cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node,
                                                   struct cudaMemAllocNodeParams *params_out),
        leatc_node_alloc_params(node_of(node), params_out))

static int add_free(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before, size_t count,
                    void *ptr)
{
    struct leatc_task *task = NULL;

    return add(leatc_free_make(graph_of(graph), ptr, &task), &task, graph, before, count, node);
}

FORWARD(cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                            const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                            void *dptr),
        add_free(pGraphNode, graph, pDependencies, numDependencies, dptr))

cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *dptr_out)
{
    const struct leatc_task *task;
    int result = get(node, LEATC_NODE_FREE, dptr_out, &task);

    if (result == LEATC_OK)
        *(void **)dptr_out = ((const struct leatc_free_task *)leatc_task_payload(task))->ptr;
    return note(result);
}

/* ---- nodes of any type ---- */

static int check_any(const struct cudaGraphNodeParams *p)
{
    return p && !p->reserved0[0] && !p->reserved0[1] && !p->reserved0[2] && !p->reserved2 &&
                   (unsigned)p->type < cudaGraphNodeTypeCount && p->type != 12
               ? LEATC_OK
               : LEATC_INVALID_VALUE;
}

/* Makes the task of a node whose parameters can be set. The other types of nodes have calls of their own, or are
 * not supported. */
static int make_any(struct cudaGraphNodeParams *p, struct leatc_task **task)
{
    LEATC_TRY(check_any(p));
    switch ((int)p->type) {
    case cudaGraphNodeTypeKernel:
        return make_kernel(&(struct cudaKernelNodeParams){p->kernel.func, p->kernel.gridDim, p->kernel.blockDim,
                                                          p->kernel.sharedMemBytes, p->kernel.kernelParams,
                                                          p->kernel.extra},
                           task);
    case cudaGraphNodeTypeMemcpy:
        return p->memcpy.flags || p->memcpy.reserved[0] || p->memcpy.reserved[1] || p->memcpy.reserved[2]
                   ? LEATC_INVALID_VALUE
                   : make_copy(&p->memcpy.copyParams, task);
    case cudaGraphNodeTypeMemset:
        return make_fill(&(struct cudaMemsetParams){p->memset.dst, p->memset.pitch, p->memset.value,
                                                    p->memset.elementSize, p->memset.width, p->memset.height},
                         task);
    case cudaGraphNodeTypeHost:
        return make_host(&(struct cudaHostNodeParams){p->host.fn, p->host.userData}, task);
    case cudaGraphNodeTypeEmpty:
        return leatc_empty_make(task);
    case cudaGraphNodeTypeWaitEvent:
        return leatc_event_make(LEATC_NODE_WAIT, event_of(p->eventWait.event), task);
    case cudaGraphNodeTypeEventRecord:
        return leatc_event_make(LEATC_NODE_RECORD, event_of(p->eventRecord.event), task);
    default:
        return LEATC_NOT_SUPPORTED;
    }
}

/* Adds a node of a type that make_any() does not handle. CUDA has two structs for allocations, with the same
 * layout. */
static int add_other(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before, size_t count,
                     struct cudaGraphNodeParams *p)
{
    switch ((int)p->type) {
    case cudaGraphNodeTypeGraph:
        if ((unsigned)p->graph.ownership > cudaGraphChildGraphOwnershipMove)
            return LEATC_INVALID_VALUE;
        return leatc_graph_add_child(graph_of(graph), node_list(before), count, graph_of(p->graph.graph),
                                     p->graph.ownership == cudaGraphChildGraphOwnershipMove,
                                     (struct leatc_node **)(void *)node);
    case cudaGraphNodeTypeMemAlloc:
        return add_alloc(node, graph, before, count, &p->alloc);
    default:
        return add_free(node, graph, before, count, p->free.dptr);
    }
}

static int add_any(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                   const cudaGraphEdgeData *data, size_t count, struct cudaGraphNodeParams *p)
{
    struct leatc_task *task = NULL;

    LEATC_TRY(check_any(p));
    LEATC_TRY(leatc_edge_data_check(data, count));
    if (p->type == cudaGraphNodeTypeGraph || p->type == cudaGraphNodeTypeMemAlloc ||
        p->type == cudaGraphNodeTypeMemFree)
        return add_other(node, graph, before, count, p);
    return add(make_any(p, &task), &task, graph, before, count, node);
}

FORWARD(cudaError_t cudaGraphAddNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                     const cudaGraphNode_t *pDependencies, const cudaGraphEdgeData *dependencyData,
                                     size_t numDependencies, struct cudaGraphNodeParams *nodeParams),
        add_any(pGraphNode, graph, pDependencies, dependencyData, numDependencies, nodeParams))
FORWARD_TASK(cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, struct cudaGraphNodeParams *nodeParams),
             set(make_any(nodeParams, &task), &task, node))

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node,
                                       struct cudaGraphNodeParams *nodeParams)
{
    struct leatc_task *task = NULL;

    if (nodeParams && nodeParams->type == cudaGraphNodeTypeGraph)
        return cudaGraphExecChildGraphNodeSetParams(graphExec, node, nodeParams->graph.graph);
    return note(set_exec(make_any(nodeParams, &task), &task, graphExec, node));
}

/* ---- external semaphores (not supported) ---- */

static int no_semaphores(const void *params)
{
    return params ? LEATC_NOT_SUPPORTED : LEATC_INVALID_VALUE;
}

REFUSE(cudaError_t cudaGraphAddExternalSemaphoresSignalNode(
           cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
           size_t numDependencies, const struct cudaExternalSemaphoreSignalNodeParams *nodeParams),
       no_semaphores(nodeParams))

/* There are no nodes of this type, so these calls fail for every node. */
REFUSE(cudaError_t cudaGraphExternalSemaphoresSignalNodeGetParams(
           cudaGraphNode_t hNode, struct cudaExternalSemaphoreSignalNodeParams *params_out),
       LEATC_INVALID_VALUE)
REFUSE(cudaError_t cudaGraphExternalSemaphoresSignalNodeSetParams(
           cudaGraphNode_t hNode, const struct cudaExternalSemaphoreSignalNodeParams *nodeParams),
       LEATC_INVALID_VALUE)
REFUSE(cudaError_t cudaGraphExecExternalSemaphoresSignalNodeSetParams(
           cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
           const struct cudaExternalSemaphoreSignalNodeParams *nodeParams),
       LEATC_INVALID_VALUE)
REFUSE(cudaError_t cudaGraphAddExternalSemaphoresWaitNode(
           cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
           size_t numDependencies, const struct cudaExternalSemaphoreWaitNodeParams *nodeParams),
       no_semaphores(nodeParams))
REFUSE(cudaError_t cudaGraphExternalSemaphoresWaitNodeGetParams(
           cudaGraphNode_t hNode, struct cudaExternalSemaphoreWaitNodeParams *params_out),
       LEATC_INVALID_VALUE)
REFUSE(cudaError_t cudaGraphExternalSemaphoresWaitNodeSetParams(
           cudaGraphNode_t hNode, const struct cudaExternalSemaphoreWaitNodeParams *nodeParams),
       LEATC_INVALID_VALUE)
REFUSE(cudaError_t cudaGraphExecExternalSemaphoresWaitNodeSetParams(
           cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
           const struct cudaExternalSemaphoreWaitNodeParams *nodeParams),
       LEATC_INVALID_VALUE)
