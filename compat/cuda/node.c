/*
 * node.c - implements the calls for nodes of graphs, by type. Each type has a function that makes a task from
 * CUDA's struct. The calls that add a node, set its parameters, or set those of an executable graph's node all use
 * this function.
 */
#include "cuda/names.h"

#include <string.h>

/* The address of this variable is the tag under which this library stores data with a task (leatc_task_keep()). */
static const char copy_tag;

/* Each of the next three functions passes a task to the engine. made is the result of making the task; if it is a
 * failure, they only return it. */
static CUresult add(CUresult made, struct leatc_task **task, CUgraph graph, const CUgraphNode *before,
                    size_t count, CUgraphNode *node)
{
    CU_TRY(made);
    return leatcu_result(leatc_graph_add(leatcu_graph(graph), leatcu_node_list(before), count, *task,
                                         (struct leatc_node **)(void *)node));
}

static CUresult set(CUresult made, struct leatc_task **task, CUgraphNode node)
{
    CU_TRY(made);
    return leatcu_result(leatc_node_set(leatcu_node(node), *task));
}

static CUresult set_exec(CUresult made, struct leatc_task **task, CUgraphExec executable, CUgraphNode node)
{
    CU_TRY(made);
    return leatcu_result(leatc_exec_set(leatcu_exec(executable), leatcu_node(node), *task));
}

static CUresult get(CUgraphNode node, int type, const void *out, const struct leatc_task **task)
{
    CU_TRY(leatcu_started());
    CU_CHECK(out);
    return leatcu_result(leatc_node_task(leatcu_node(node), type, task));
}

/* Returns the device of a context, or of the current context if context is NULL. */
static CUresult ordinal_of(CUcontext context, int *ordinal)
{
    CUcontext current;

    if (!context) {
        CU_TRY(leatcu_enter(&current));
        context = current;
    }
    CU_TRY(leatcu_started());
    CU_TRY(leatcu_check_context(context));
    *ordinal = context->ordinal;
    return CUDA_SUCCESS;
}

static CUresult keep(struct leatc_task *task, const void *tag, const void *kept, size_t bytes)
{
    CUresult result = leatcu_result(leatc_task_keep(task, tag, kept, bytes));

    if (result != CUDA_SUCCESS)
        leatc_task_drop(task);
    return result;
}

/* Defines a function whose `call` makes a task in the variable `task` and passes it to the engine. */
#define FORWARD_TASK(prototype, call)                                                                             \
    prototype                                                                                                     \
    {                                                                                                             \
        struct leatc_task *task = NULL;                                                                           \
                                                                                                                  \
        return call;                                                                                              \
    }

/* ---- kernels ---- */

static CUresult make_kernel(const CUDA_KERNEL_NODE_PARAMS *p, struct leatc_task **task)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(p && !(p->kernelParams && p->extra));
    if (p->extra)
        return CUDA_ERROR_NOT_SUPPORTED;
    return leatcu_kernel_make(
        p->func ? p->func : (CUfunction)(void *)p->kern, leat_dim(p->gridDimX, p->gridDimY, p->gridDimZ),
        leat_dim(p->blockDimX, p->blockDimY, p->blockDimZ), p->sharedMemBytes, p->kernelParams, task);
}

/* The first version of the struct does not have the fields kernel and context at the end. */
static CUresult make_kernel_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *p, struct leatc_task **task)
{
    CUDA_KERNEL_NODE_PARAMS longer = {.func = NULL};

    if (p)
        memcpy(&longer, p, sizeof *p);
    return make_kernel(p ? &longer : NULL, task);
}

FORWARD_TASK(CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before,
                                              size_t count, const CUDA_KERNEL_NODE_PARAMS *p),
             add(make_kernel(p, &task), &task, graph, before, count, node))
FORWARD_TASK(CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before,
                                           size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *p),
             add(make_kernel_v1(p, &task), &task, graph, before, count, node))

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p)
{
    const struct leatc_task *task;
    const struct leatc_kernel_task *kernel;

    CU_TRY(get(node, LEATC_NODE_KERNEL, p, &task));
    kernel = leatc_task_payload(task);
    *p = (CUDA_KERNEL_NODE_PARAMS){.func = (CUfunction)(uintptr_t)kernel->function,
                                   .gridDimX = kernel->grid.x,
                                   .gridDimY = kernel->grid.y,
                                   .gridDimZ = kernel->grid.z,
                                   .blockDimX = kernel->block.x,
                                   .blockDimY = kernel->block.y,
                                   .blockDimZ = kernel->block.z,
                                   .sharedMemBytes = (unsigned)kernel->shared_bytes,
                                   .kernelParams = kernel->parameters ? kernel->args : NULL};
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    CUDA_KERNEL_NODE_PARAMS longer;

    CU_TRY(leatcu_started());
    CU_CHECK(p);
    CU_TRY(cuGraphKernelNodeGetParams_v2(node, &longer));
    memcpy(p, &longer, sizeof *p);
    return CUDA_SUCCESS;
}

FORWARD_TASK(CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p),
             set(make_kernel(p, &task), &task, node))
FORWARD_TASK(CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *p),
             set(make_kernel_v1(p, &task), &task, node))
FORWARD_TASK(CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node,
                                                        const CUDA_KERNEL_NODE_PARAMS *p),
             set_exec(make_kernel(p, &task), &task, executable, node))
FORWARD_TASK(CUresult cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                     const CUDA_KERNEL_NODE_PARAMS_v1 *p),
             set_exec(make_kernel_v1(p, &task), &task, executable, node))
FORWARD_STARTED(CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src),
                leatc_node_copy_attributes(leatcu_node(dst), leatcu_node(src)))
FORWARD_STARTED(CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID number,
                                                       CUkernelNodeAttrValue *value),
                leatc_node_attribute(leatcu_node(node), (int)number, value))

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID number,
                                       const CUkernelNodeAttrValue *value)
{
    const CUaccessPolicyWindow *window = value ? &value->accessPolicyWindow : NULL;

    CU_TRY(leatcu_started());
    if (window && (int)number == LEATC_ATTRIBUTE_WINDOW)
        CU_TRY(leatcu_result(leatc_window_check(window->hitRatio, (int)window->hitProp, (int)window->missProp)));
    return leatcu_result(leatc_node_set_attribute(leatcu_node(node), (int)number, value));
}

/* ---- copies ---- */

static CUresult make_copy(const CUDA_MEMCPY3D *p, CUcontext context, struct leatc_task **task)
{
    int ordinal, direction;
    leat_copy_region region;
    void *dst, *src;

    CU_CHECK(p);
    CU_TRY(ordinal_of(context, &ordinal));
    CU_TRY(leatcu_region_3d(p, &dst, &src, &region, &direction));
    CU_TRY(leatcu_result(leatc_copy_make(dst, src, &region, direction, task)));
    leatc_task_set_device(*task, ordinal);
    return keep(*task, &copy_tag, p, sizeof *p);
}

/* The source or the destination of a copy that was captured or that another library made. */
struct side {
    CUmemorytype type;
    void *host;
    CUdeviceptr device;
    CUarray array;
    size_t x_bytes, y, z, pitch, height;
};

static struct side describe_side(const void *ptr, const leat_copy_region *region, size_t pitch, size_t slice)
{
    struct leatc_array_place place;
    struct leatc_memory memory = {.kind = LEATC_MEMORY_PAGEABLE};

    if (leatc_array_at(ptr, &place))
        return (struct side){.type = CU_MEMORYTYPE_ARRAY,
                             .array = (CUarray)(void *)place.array,
                             .x_bytes = place.x_bytes,
                             .y = place.y,
                             .z = place.z};
    if (!pitch)
        pitch = region->width_bytes;
    (void)leatc_memory_find(ptr, &memory);
    return (struct side){.type = memory.kind == LEATC_MEMORY_DEVICE    ? CU_MEMORYTYPE_DEVICE
                                 : memory.kind == LEATC_MEMORY_MANAGED ? CU_MEMORYTYPE_UNIFIED
                                                                       : CU_MEMORYTYPE_HOST,
                         .host = (void *)(uintptr_t)ptr,
                         .device = leatcu_address(ptr),
                         .pitch = pitch,
                         .height = region->depth > 1 ? slice / pitch : region->height};
}

static void describe_copy(const struct leatc_copy_task *copy, CUDA_MEMCPY3D *p)
{
    const leat_copy_region *region = &copy->region;
    struct side dst = describe_side(copy->dst, region, region->dst_pitch_bytes, region->dst_slice_bytes);
    struct side src = describe_side(copy->src, region, region->src_pitch_bytes, region->src_slice_bytes);

    *p = (CUDA_MEMCPY3D){.srcMemoryType = src.type,
                         .srcHost = src.type == CU_MEMORYTYPE_HOST ? src.host : NULL,
                         .srcDevice = src.type == CU_MEMORYTYPE_HOST ? 0 : src.device,
                         .srcArray = src.array,
                         .srcXInBytes = src.x_bytes,
                         .srcY = src.y,
                         .srcZ = src.z,
                         .srcPitch = src.pitch,
                         .srcHeight = src.height,
                         .dstMemoryType = dst.type,
                         .dstHost = dst.type == CU_MEMORYTYPE_HOST ? dst.host : NULL,
                         .dstDevice = dst.type == CU_MEMORYTYPE_HOST ? 0 : dst.device,
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

FORWARD_TASK(CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before,
                                           size_t count, const CUDA_MEMCPY3D *p, CUcontext context),
             add(make_copy(p, context, &task), &task, graph, before, count, node))

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *p)
{
    const struct leatc_task *task;
    const CUDA_MEMCPY3D *kept;

    CU_TRY(get(node, LEATC_NODE_COPY, p, &task));
    kept = leatc_task_kept(task, &copy_tag);
    if (kept)
        *p = *kept;
    else
        describe_copy(leatc_task_payload(task), p);
    return CUDA_SUCCESS;
}

FORWARD_TASK(CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *p),
             set(make_copy(p, NULL, &task), &task, node))
FORWARD_TASK(CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                     const CUDA_MEMCPY3D *p, CUcontext context),
             set_exec(make_copy(p, context, &task), &task, executable, node))

/* ---- fills ---- */

static CUresult make_fill(const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context, struct leatc_task **task)
{
    int ordinal;

    CU_CHECK(p);
    CU_TRY(ordinal_of(context, &ordinal));
    CU_TRY(leatcu_result(leatc_fill_make(&(struct leatc_fill_task){.dst = leatcu_pointer(p->dst),
                                                                   .pitch_bytes = p->pitch,
                                                                   .value = p->value,
                                                                   .unit_bytes = p->elementSize,
                                                                   .width = p->width,
                                                                   .height = p->height},
                                         task)));
    leatc_task_set_device(*task, ordinal);
    return CUDA_SUCCESS;
}

FORWARD_TASK(CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before,
                                           size_t count, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context),
             add(make_fill(p, context, &task), &task, graph, before, count, node))

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *p)
{
    const struct leatc_task *task;
    const struct leatc_fill_task *fill;

    CU_TRY(get(node, LEATC_NODE_FILL, p, &task));
    fill = leatc_task_payload(task);
    *p = (CUDA_MEMSET_NODE_PARAMS){.dst = leatcu_address(fill->dst),
                                   .pitch = fill->pitch_bytes,
                                   .value = fill->value,
                                   .elementSize = fill->unit_bytes,
                                   .width = fill->width,
                                   .height = fill->height};
    return CUDA_SUCCESS;
}

FORWARD_TASK(CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *p),
             set(make_fill(p, NULL, &task), &task, node))
FORWARD_TASK(CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                     const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context),
             set_exec(make_fill(p, context, &task), &task, executable, node))

/* ---- host functions ---- */

static CUresult make_host(const CUDA_HOST_NODE_PARAMS *p, struct leatc_task **task)
{
    CU_TRY(leatcu_started());
    CU_CHECK(p);
    return leatcu_result(leatc_host_make(p->fn, p->userData, task));
}

FORWARD_TASK(CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                         const CUDA_HOST_NODE_PARAMS *p),
             add(make_host(p, &task), &task, graph, before, count, node))

CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *p)
{
    const struct leatc_task *task;
    const struct leatc_host_task *host;

    CU_TRY(get(node, LEATC_NODE_HOST, p, &task));
    host = leatc_task_payload(task);
    *p = (CUDA_HOST_NODE_PARAMS){host->function, host->argument};
    return CUDA_SUCCESS;
}

FORWARD_TASK(CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *p),
             set(make_host(p, &task), &task, node))
FORWARD_TASK(CUresult cuGraphExecHostNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                   const CUDA_HOST_NODE_PARAMS *p),
             set_exec(make_host(p, &task), &task, executable, node))

/* ---- child graphs and empty nodes ---- */

static CUresult add_child(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, CUgraph child,
                          bool move)
{
    CU_TRY(leatcu_started());
    return leatcu_result(leatc_graph_add_child(leatcu_graph(graph), leatcu_node_list(before), count,
                                               leatcu_graph(child), move, (struct leatc_node **)(void *)node));
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                  CUgraph child)
{
    return add_child(node, graph, before, count, child, false);
}

FORWARD_STARTED(CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph),
                leatc_node_child(leatcu_node(node), (struct leatc_graph **)(void *)graph))
FORWARD_STARTED(CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                            CUgraph child),
                leatc_exec_set_child(leatcu_exec(executable), leatcu_node(node), leatcu_graph(child)))

static CUresult make_empty(struct leatc_task **task)
{
    CU_TRY(leatcu_started());
    return leatcu_result(leatc_empty_make(task));
}

FORWARD_TASK(CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before,
                                          size_t count),
             add(make_empty(&task), &task, graph, before, count, node))

/* ---- events ---- */

static CUresult make_event(int type, CUevent event, struct leatc_task **task)
{
    CU_TRY(leatcu_started());
    return leatcu_result(leatc_event_make(type, (struct leatc_event *)event, task));
}

static CUresult get_event(CUgraphNode node, int type, CUevent *event)
{
    const struct leatc_task *task;

    CU_TRY(get(node, type, event, &task));
    memcpy(event, leatc_task_payload(task), sizeof(CUevent));
    return CUDA_SUCCESS;
}

/* Defines the four functions of one type of event nodes: wait or record. */
#define EVENT_NODES(name, type)                                                                                   \
    CUresult cuGraphAddEvent##name##Node(CUgraphNode *node, CUgraph graph, const CUgraphNode *before,             \
                                         size_t count, CUevent event)                                             \
    {                                                                                                             \
        struct leatc_task *task = NULL;                                                                           \
                                                                                                                  \
        return add(make_event(type, event, &task), &task, graph, before, count, node);                            \
    }                                                                                                             \
    CUresult cuGraphEvent##name##NodeGetEvent(CUgraphNode node, CUevent *event)                                   \
    {                                                                                                             \
        return get_event(node, type, event);                                                                      \
    }                                                                                                             \
    CUresult cuGraphEvent##name##NodeSetEvent(CUgraphNode node, CUevent event)                                    \
    {                                                                                                             \
        struct leatc_task *task = NULL;                                                                           \
                                                                                                                  \
        return set(make_event(type, event, &task), &task, node);                                                  \
    }                                                                                                             \
    CUresult cuGraphExecEvent##name##NodeSetEvent(CUgraphExec executable, CUgraphNode node, CUevent event)        \
    {                                                                                                             \
        struct leatc_task *task = NULL;                                                                           \
                                                                                                                  \
        return set_exec(make_event(type, event, &task), &task, executable, node);                                 \
    }
EVENT_NODES(Record, LEATC_NODE_RECORD)
EVENT_NODES(Wait, LEATC_NODE_WAIT)

/* ---- stream memory operations ---- */

static CUresult make_batch(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, struct leatc_task **task)
{
    int ordinal;

    CU_CHECK(p);
    CU_TRY(ordinal_of(p->ctx, &ordinal));
    CU_TRY(leatcu_batch_make(p, task));
    leatc_task_set_device(*task, ordinal);
    return CUDA_SUCCESS;
}

FORWARD_TASK(CUresult cuGraphAddBatchMemOpNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before,
                                               size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p),
             add(make_batch(p, &task), &task, graph, before, count, node))

/* Returns the operations of a node. NOT_SUPPORTED: another library captured them, so there is no list in CUDA's
 * form. */
CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
    const struct leatc_task *task;

    CU_TRY(get(node, LEATC_NODE_BATCH, p, &task));
    return leatcu_batch_describe(task, p);
}

FORWARD_TASK(CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p),
             set(make_batch(p, &task), &task, node))
FORWARD_TASK(CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                         const CUDA_BATCH_MEM_OP_NODE_PARAMS *p),
             set_exec(make_batch(p, &task), &task, executable, node))

/* ---- memory ---- */

_Static_assert(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS) == sizeof(struct leatc_alloc_params) &&
                   sizeof(CUmemAccessDesc) == sizeof(struct leatc_access_params),
               "as the engine reads them");

FORWARD_STARTED(CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before,
                                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *p),
                leatc_graph_add_alloc(leatcu_graph(graph), leatcu_node_list(before), count, p,
                                      (struct leatc_node **)(void *)node))
FORWARD_STARTED(CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *p),
                leatc_node_alloc_params(leatcu_node(node), p))

static CUresult make_free(CUgraph graph, CUdeviceptr address, struct leatc_task **task)
{
    CU_TRY(leatcu_started());
    return leatcu_result(leatc_free_make(leatcu_graph(graph), leatcu_pointer(address), task));
}

FORWARD_TASK(CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before,
                                            size_t count, CUdeviceptr address),
             add(make_free(graph, address, &task), &task, graph, before, count, node))

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *address)
{
    const struct leatc_task *task;

    CU_TRY(get(node, LEATC_NODE_FREE, address, &task));
    *address = leatcu_address(((const struct leatc_free_task *)leatc_task_payload(task))->ptr);
    return CUDA_SUCCESS;
}

/* ---- nodes of any type ---- */

static CUresult check_any(const CUgraphNodeParams *p)
{
    CU_TRY(leatcu_started());
    CU_CHECK(p && !p->reserved0[0] && !p->reserved0[1] && !p->reserved0[2] && !p->reserved2);
    CU_CHECK((unsigned)p->type <= CU_GRAPH_NODE_TYPE_CONDITIONAL);
    return CUDA_SUCCESS;
}

/* Makes the task of a kernel from a struct that differs from CUDA_KERNEL_NODE_PARAMS only in its name. */
static CUresult make_any_kernel(const CUDA_KERNEL_NODE_PARAMS_v3 *p, struct leatc_task **task)
{
    CUDA_KERNEL_NODE_PARAMS same;

    _Static_assert(sizeof same == sizeof *p, "the same struct");
    memcpy(&same, p, sizeof same);
    return make_kernel(&same, task);
}

static CUresult make_any_fill(const CUDA_MEMSET_NODE_PARAMS_v2 *p, struct leatc_task **task)
{
    CUDA_MEMSET_NODE_PARAMS shorter;

    memcpy(&shorter, p, sizeof shorter);
    return make_fill(&shorter, p->ctx, task);
}

/* Makes the task of a node whose parameters can be set. The other types of nodes have calls of their own, or are
 * not supported. */
static CUresult make_any(CUgraphNodeParams *p, struct leatc_task **task)
{
    CU_TRY(check_any(p));
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return make_any_kernel(&p->kernel, task);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        CU_CHECK(!p->memcpy.flags && !p->memcpy.reserved);
        return make_copy(&p->memcpy.copyParams, p->memcpy.copyCtx, task);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return make_any_fill(&p->memset, task);
    case CU_GRAPH_NODE_TYPE_HOST:
        return make_host(&(CUDA_HOST_NODE_PARAMS){p->host.fn, p->host.userData}, task);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return make_empty(task);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return make_event(LEATC_NODE_WAIT, p->eventWait.event, task);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return make_event(LEATC_NODE_RECORD, p->eventRecord.event, task);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return make_batch(
            &(CUDA_BATCH_MEM_OP_NODE_PARAMS){p->memOp.ctx, p->memOp.count, p->memOp.paramArray, p->memOp.flags},
            task);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before,
                           const CUgraphEdgeData *data, size_t count, CUgraphNodeParams *p)
{
    struct leatc_task *task = NULL;

    CU_TRY(check_any(p));
    CU_TRY(leatcu_result(leatc_edge_data_check(data, count)));
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_GRAPH:
        CU_CHECK((unsigned)p->graph.ownership <= CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE);
        return add_child(node, graph, before, count, p->graph.graph,
                         p->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return cuGraphAddMemAllocNode(node, graph, before, count, (CUDA_MEM_ALLOC_NODE_PARAMS *)(void *)&p->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return cuGraphAddMemFreeNode(node, graph, before, count, p->free.dptr);
    default:
        return add(make_any(p, &task), &task, graph, before, count, node);
    }
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                        CUgraphNodeParams *p)
{
    return cuGraphAddNode_v2(node, graph, before, NULL, count, p);
}

FORWARD_TASK(CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *p),
             set(make_any(p, &task), &task, node))

CUresult cuGraphExecNodeSetParams(CUgraphExec executable, CUgraphNode node, CUgraphNodeParams *p)
{
    struct leatc_task *task = NULL;

    if (p && p->type == CU_GRAPH_NODE_TYPE_GRAPH)
        return cuGraphExecChildGraphNodeSetParams(executable, node, p->graph.graph);
    return set_exec(make_any(p, &task), &task, executable, node);
}

/* ---- external semaphores (not supported) ---- */

/* There are no nodes of these types, so these calls fail for every node. */
REFUSE_STARTED(CUresult cuGraphAddExternalSemaphoresSignalNode(CUgraphNode *node, CUgraph graph,
                                                               const CUgraphNode *before, size_t count,
                                                               const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *p),
               p ? LEATC_NOT_SUPPORTED : LEATC_INVALID_VALUE)
REFUSE_STARTED(CUresult cuGraphExternalSemaphoresSignalNodeGetParams(CUgraphNode node,
                                                                     CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *p),
               LEATC_INVALID_VALUE)
REFUSE_STARTED(CUresult cuGraphExternalSemaphoresSignalNodeSetParams(CUgraphNode node,
                                                                     const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *p),
               LEATC_INVALID_VALUE)
REFUSE_STARTED(CUresult cuGraphExecExternalSemaphoresSignalNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                                         const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *p),
               LEATC_INVALID_VALUE)
REFUSE_STARTED(CUresult cuGraphAddExternalSemaphoresWaitNode(CUgraphNode *node, CUgraph graph,
                                                             const CUgraphNode *before, size_t count,
                                                             const CUDA_EXT_SEM_WAIT_NODE_PARAMS *p),
               p ? LEATC_NOT_SUPPORTED : LEATC_INVALID_VALUE)
REFUSE_STARTED(CUresult cuGraphExternalSemaphoresWaitNodeGetParams(CUgraphNode node,
                                                                   CUDA_EXT_SEM_WAIT_NODE_PARAMS *p),
               LEATC_INVALID_VALUE)
REFUSE_STARTED(CUresult cuGraphExternalSemaphoresWaitNodeSetParams(CUgraphNode node,
                                                                   const CUDA_EXT_SEM_WAIT_NODE_PARAMS *p),
               LEATC_INVALID_VALUE)
REFUSE_STARTED(CUresult cuGraphExecExternalSemaphoresWaitNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                                       const CUDA_EXT_SEM_WAIT_NODE_PARAMS *p),
               LEATC_INVALID_VALUE)
