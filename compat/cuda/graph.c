/* graph.c - implements the calls for stream capture, graphs, edges, executable graphs, user objects, and memory of
 * graphs. */
#include "cuda/names.h"

#include <stdio.h>

static struct leatc_node **engine_nodes(CUgraphNode *nodes)
{
    return (struct leatc_node **)(void *)nodes;
}

/* ---- capture ---- */

/* Returns the state of a capture. *edges becomes NULL, because the engine's edges have no data. */
static CUresult capture_info(struct leatc_stream *on, CUstreamCaptureStatus *status, cuuint64_t *id,
                             CUgraph *graph, const CUgraphNode **ends, const CUgraphEdgeData **edges,
                             size_t *end_count)
{
    struct leatc_capture_info info;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(status && (ends || !edges));
    CU_TRY(leatcu_result(leatc_capture_info(on, &info)));
    *status = (CUstreamCaptureStatus)info.status;
    if (info.status != LEATC_CAPTURE_ACTIVE)
        return CUDA_SUCCESS;
    if (id)
        *id = info.id;
    if (graph)
        *graph = (CUgraph)(void *)info.graph;
    if (ends)
        *ends = (const CUgraphNode *)(void *)info.ends;
    if (edges)
        *edges = NULL;
    if (end_count)
        *end_count = info.end_count;
    return CUDA_SUCCESS;
}

static CUresult is_capturing(struct leatc_stream *on, CUstreamCaptureStatus *status)
{
    return capture_info(on, status, NULL, NULL, NULL, NULL, NULL);
}

static CUresult update_capture(struct leatc_stream *on, CUgraphNode *nodes, const CUgraphEdgeData *data,
                               size_t count, unsigned flags)
{
    CU_TRY(leatcu_enter(NULL));
    return leatcu_result(leatc_capture_update(on, leatcu_node_list(nodes), data, count, flags));
}

FORWARD_STREAM(cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz, (CUstream stream, CUstreamCaptureMode mode),
               leatc_capture_begin(on, (int)mode))
FORWARD_STREAM(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz,
               (CUstream stream, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *data,
                size_t count, CUstreamCaptureMode mode),
               leatc_capture_begin_to(on, leatcu_graph(graph), leatcu_node_list(before), data, count, (int)mode))
FORWARD_STREAM(cuStreamEndCapture, cuStreamEndCapture_ptsz, (CUstream stream, CUgraph *graph),
               leatc_capture_end(on, (struct leatc_graph **)(void *)graph))
BOTH(cuStreamIsCapturing, cuStreamIsCapturing_ptsz, (CUstream stream, CUstreamCaptureStatus *status),
     is_capturing(on, status))
BOTH(leatcu_capture_info_v1, leatcu_capture_info_v1_ptsz,
     (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id),
     capture_info(on, status, id, NULL, NULL, NULL, NULL))
BOTH(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz,
     (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **ends,
      size_t *end_count),
     capture_info(on, status, id, graph, ends, NULL, end_count))
BOTH(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz,
     (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **ends,
      const CUgraphEdgeData **edges, size_t *end_count),
     capture_info(on, status, id, graph, ends, edges, end_count))
BOTH(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_ptsz,
     (CUstream stream, CUgraphNode *nodes, size_t count, unsigned flags),
     update_capture(on, nodes, NULL, count, flags))
BOTH(cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies_v2_ptsz,
     (CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *data, size_t count, unsigned flags),
     update_capture(on, nodes, data, count, flags))

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    int exchanged;

    CU_TRY(leatcu_started());
    CU_CHECK(mode);
    exchanged = (int)*mode;
    CU_TRY(leatcu_result(leatc_capture_exchange_mode(&exchanged)));
    *mode = (CUstreamCaptureMode)exchanged;
    return CUDA_SUCCESS;
}

/* ---- graphs ---- */

FORWARD_STARTED(CUresult cuGraphCreate(CUgraph *graph, unsigned flags),
                flags ? LEATC_INVALID_VALUE : leatc_graph_create((struct leatc_graph **)(void *)graph))
FORWARD_STARTED(CUresult cuGraphDestroy(CUgraph graph), leatc_graph_destroy(leatcu_graph(graph)))
FORWARD_STARTED(CUresult cuGraphClone(CUgraph *clone, CUgraph graph),
                leatc_graph_clone(leatcu_graph(graph), (struct leatc_graph **)(void *)clone))
FORWARD_STARTED(CUresult cuGraphNodeFindInClone(CUgraphNode *node, CUgraphNode original, CUgraph clone),
                leatc_node_in_clone(leatcu_node(original), leatcu_graph(clone), engine_nodes(node)))
FORWARD_STARTED(CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count),
                leatc_graph_nodes(leatcu_graph(graph), false, engine_nodes(nodes), count))
FORWARD_STARTED(CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count),
                leatc_graph_nodes(leatcu_graph(graph), true, engine_nodes(nodes), count))

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    int found;

    CU_TRY(leatcu_started());
    CU_CHECK(type);
    CU_TRY(leatcu_result(leatc_node_type(leatcu_node(node), &found)));
    *type = (CUgraphNodeType)found;
    return CUDA_SUCCESS;
}

FORWARD_STARTED(CUresult cuGraphDestroyNode(CUgraphNode node), leatc_node_destroy(leatcu_node(node)))
FORWARD_STARTED(CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned flags),
                leatc_graph_print(leatcu_graph(graph), path, flags))

/* ---- edges ---- */

FORWARD_STARTED(CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                                            CUgraphEdgeData *data, size_t *count),
                leatc_graph_edges(leatcu_graph(graph), engine_nodes(from), engine_nodes(to), data, count))
FORWARD_STARTED(CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count),
                leatc_graph_edges(leatcu_graph(graph), engine_nodes(from), engine_nodes(to), NULL, count))
FORWARD_STARTED(CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data,
                                                       size_t *count),
                leatc_node_neighbours(leatcu_node(node), false, engine_nodes(nodes), data, count))
FORWARD_STARTED(CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count),
                leatc_node_neighbours(leatcu_node(node), false, engine_nodes(nodes), NULL, count))
FORWARD_STARTED(CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes,
                                                         CUgraphEdgeData *data, size_t *count),
                leatc_node_neighbours(leatcu_node(node), true, engine_nodes(nodes), data, count))
FORWARD_STARTED(CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count),
                leatc_node_neighbours(leatcu_node(node), true, engine_nodes(nodes), NULL, count))
FORWARD_STARTED(CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                                   const CUgraphEdgeData *data, size_t count),
                leatc_edges_add(leatcu_graph(graph), leatcu_node_list(from), leatcu_node_list(to), data, count))
FORWARD_STARTED(CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                                size_t count),
                leatc_edges_add(leatcu_graph(graph), leatcu_node_list(from), leatcu_node_list(to), NULL, count))
FORWARD_STARTED(CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from,
                                                      const CUgraphNode *to, const CUgraphEdgeData *data,
                                                      size_t count),
                leatc_edges_remove(leatcu_graph(graph), leatcu_node_list(from), leatcu_node_list(to), data, count))
FORWARD_STARTED(CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                                   size_t count),
                leatc_edges_remove(leatcu_graph(graph), leatcu_node_list(from), leatcu_node_list(to), NULL, count))

/* ---- executable graphs ---- */

static CUresult instantiate(CUgraphExec *executable, CUgraph graph, unsigned long long flags,
                            struct leatc_node **wrong)
{
    CU_TRY(leatcu_started());
    return leatcu_result(
        leatc_graph_instantiate(leatcu_graph(graph), flags, (struct leatc_exec **)(void *)executable, wrong));
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    return instantiate(executable, graph, flags, NULL);
}

/* Instantiates a graph. This older version of the call also writes a text to log if it fails. */
CUresult cuGraphInstantiate_v2(CUgraphExec *executable, CUgraph graph, CUgraphNode *wrong, char *log,
                               size_t log_bytes)
{
    struct leatc_node *found = NULL;
    CUresult result = instantiate(executable, graph, 0, &found);

    if (wrong)
        *wrong = (CUgraphNode)(void *)found;
    if (log && log_bytes)
        (void)snprintf(log, log_bytes, "%s", found ? "the edges form a cycle" : "");
    return result;
}

CUresult cuGraphInstantiate(CUgraphExec *executable, CUgraph graph, CUgraphNode *wrong, char *log,
                            size_t log_bytes)
{
    return cuGraphInstantiate_v2(executable, graph, wrong, log, log_bytes);
}

static CUresult instantiate_with(CUgraphExec *executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p,
                                 struct leatc_stream *upload)
{
    struct leatc_node *wrong = NULL;
    CUresult result;
    int why;

    CU_TRY(leatcu_started());
    CU_CHECK(p && executable);
    if (p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
        CU_TRY(leatcu_enter(NULL));
    result = leatcu_result(leatc_graph_instantiate_with(leatcu_graph(graph), p->flags, upload,
                                                        (struct leatc_exec **)(void *)executable, &wrong, &why));
    p->hErrNode_out = (CUgraphNode)(void *)wrong;
    p->result_out = (CUgraphInstantiateResult)why;
    return result;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
    return instantiate_with(executable, graph, p, p ? leatcu_stream(p->hUploadStream) : NULL);
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *executable, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
    return instantiate_with(executable, graph, p, p ? leatc_per_thread(p->hUploadStream) : NULL);
}

CUresult cuGraphExecGetFlags(CUgraphExec executable, cuuint64_t *flags)
{
    unsigned long long found;

    CU_TRY(leatcu_started());
    CU_CHECK(flags);
    CU_TRY(leatcu_result(leatc_exec_flags(leatcu_exec(executable), &found)));
    *flags = found;
    return CUDA_SUCCESS;
}

FORWARD_STARTED(CUresult cuGraphExecDestroy(CUgraphExec executable), leatc_exec_destroy(leatcu_exec(executable)))

FORWARD_STREAM(cuGraphUpload, cuGraphUpload_ptsz, (CUgraphExec executable, CUstream stream),
               leatc_exec_upload(leatcu_exec(executable), on))
FORWARD_STREAM(cuGraphLaunch, cuGraphLaunch_ptsz, (CUgraphExec executable, CUstream stream),
               leatc_exec_launch(leatcu_exec(executable), on))

CUresult cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    struct leatc_update update;
    CUresult result;

    CU_TRY(leatcu_started());
    CU_CHECK(info);
    result = leatcu_result(leatc_exec_update(leatcu_exec(executable), leatcu_graph(graph), &update));
    info->result = (CUgraphExecUpdateResult)update.why;
    info->errorNode = (CUgraphNode)(void *)update.node;
    info->errorFromNode = (CUgraphNode)(void *)update.from;
    return result;
}

CUresult cuGraphExecUpdate(CUgraphExec executable, CUgraph graph, CUgraphNode *wrong, CUgraphExecUpdateResult *why)
{
    CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    CUresult result = wrong && why ? cuGraphExecUpdate_v2(executable, graph, &info) : CUDA_ERROR_INVALID_VALUE;

    if (wrong)
        *wrong = info.errorNode;
    if (why)
        *why = info.result;
    return result;
}

FORWARD_STARTED(CUresult cuGraphNodeSetEnabled(CUgraphExec executable, CUgraphNode node, unsigned on),
                leatc_exec_enable(leatcu_exec(executable), leatcu_node(node), on))

CUresult cuGraphNodeGetEnabled(CUgraphExec executable, CUgraphNode node, unsigned *on)
{
    bool found;

    CU_TRY(leatcu_started());
    CU_CHECK(on);
    CU_TRY(leatcu_result(leatc_exec_enabled(leatcu_exec(executable), leatcu_node(node), &found)));
    *on = found;
    return CUDA_SUCCESS;
}

/* ---- user objects ---- */

static struct leatc_object *engine_object(CUuserObject object)
{
    return (struct leatc_object *)(void *)object;
}

FORWARD_STARTED(CUresult cuUserObjectCreate(CUuserObject *object, void *ptr, CUhostFn destroy, unsigned count,
                                            unsigned flags),
                flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
                    ? leatc_object_create(ptr, destroy, count, (struct leatc_object **)(void *)object)
                    : LEATC_INVALID_VALUE)
FORWARD_STARTED(CUresult cuUserObjectRetain(CUuserObject object, unsigned count),
                leatc_object_retain(engine_object(object), count))
FORWARD_STARTED(CUresult cuUserObjectRelease(CUuserObject object, unsigned count),
                leatc_object_release(engine_object(object), count))
FORWARD_STARTED(CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count,
                                                 unsigned flags),
                flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE
                    ? LEATC_INVALID_VALUE
                    : leatc_graph_retain(leatcu_graph(graph), engine_object(object), count, flags))
FORWARD_STARTED(CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count),
                leatc_graph_release(leatcu_graph(graph), engine_object(object), count))

/* ---- memory ---- */

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    CU_TRY(leatcu_started());
    CU_TRY(leatcu_check_device(device));
    return leatcu_result(leatc_graph_memory_trim(device));
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    CU_TRY(leatcu_started());
    CU_TRY(leatcu_check_device(device));
    return leatcu_result(leatc_graph_memory_get(device, (int)attribute, value));
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    CU_TRY(leatcu_started());
    CU_TRY(leatcu_check_device(device));
    return leatcu_result(leatc_graph_memory_set(device, (int)attribute, value));
}

/* ---- not supported ---- */

/* Refuses conditional nodes: the device would decide whether they run, and leat's devices cannot do that. */
CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *handle, CUgraph graph, CUcontext context,
                                        unsigned value, unsigned flags)
{
    size_t count;

    (void)value;
    CU_TRY(leatcu_started());
    CU_CHECK(handle && flags <= 1 && leatc_graph_nodes(leatcu_graph(graph), false, NULL, &count) == LEATC_OK);
    if (context)
        CU_TRY(leatcu_check_context(context));
    return CUDA_ERROR_NOT_SUPPORTED;
}
