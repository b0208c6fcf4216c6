/* graph.c - implements the calls for stream capture, graphs, edges, executable graphs, user objects, and memory of
 * graphs. */
#include "cudart/cudart.h"

static struct leatc_exec *exec_of(cudaGraphExec_t executable)
{
    return (struct leatc_exec *)(void *)executable;
}

static struct leatc_node **nodes_of(cudaGraphNode_t *nodes)
{
    return (struct leatc_node **)(void *)nodes;
}

/* ---- capture ---- */

FORWARD_STREAM(cudaStreamBeginCapture, cudaStreamBeginCapture_ptsz,
               (cudaStream_t stream, enum cudaStreamCaptureMode mode), leatc_capture_begin(on, (int)mode))
FORWARD_STREAM(cudaStreamBeginCaptureToGraph, cudaStreamBeginCaptureToGraph_ptsz,
               (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                const cudaGraphEdgeData *dependencyData, size_t numDependencies, enum cudaStreamCaptureMode mode),
               leatc_capture_begin_to(on, graph_of(graph), node_list(dependencies), dependencyData,
                                      numDependencies, (int)mode))
FORWARD_STREAM(cudaStreamEndCapture, cudaStreamEndCapture_ptsz, (cudaStream_t stream, cudaGraph_t *pGraph),
               leatc_capture_end(on, (struct leatc_graph **)(void *)pGraph))

static int get_status(struct leatc_stream *stream, enum cudaStreamCaptureStatus *status)
{
    int now = 0;

    LEATC_TRY(status ? leatc_capture_status(stream, &now, NULL) : LEATC_INVALID_VALUE);
    *status = (enum cudaStreamCaptureStatus)now;
    return LEATC_OK;
}

/* Returns the state of a capture. *edges becomes NULL, because the engine's edges have no data. */
static int get_info(struct leatc_stream *stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                    cudaGraph_t *graph, const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges,
                    size_t *count)
{
    struct leatc_capture_info info;

    if (!status || (edges && !dependencies))
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_capture_info(stream, &info));
    *status = (enum cudaStreamCaptureStatus)info.status;
    if (info.status != LEATC_CAPTURE_ACTIVE)
        return LEATC_OK;
    if (id)
        *id = info.id;
    if (graph)
        *graph = (cudaGraph_t)(void *)info.graph;
    if (dependencies)
        *dependencies = (const cudaGraphNode_t *)(void *)info.ends;
    if (edges)
        *edges = NULL;
    if (count)
        *count = info.end_count;
    return LEATC_OK;
}

FORWARD_STREAM(cudaStreamIsCapturing, cudaStreamIsCapturing_ptsz,
               (cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus), get_status(on, pCaptureStatus))
FORWARD_STREAM(cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_ptsz,
               (cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out, unsigned long long *id_out,
                cudaGraph_t *graph_out, const cudaGraphNode_t **dependencies_out,
                const cudaGraphEdgeData **edgeData_out, size_t *numDependencies_out),
               get_info(on, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,
                        numDependencies_out))
FORWARD_STREAM(cudaStreamUpdateCaptureDependencies, cudaStreamUpdateCaptureDependencies_ptsz,
               (cudaStream_t stream, cudaGraphNode_t *dependencies, const cudaGraphEdgeData *dependencyData,
                size_t numDependencies, unsigned int flags),
               leatc_capture_update(on, node_list(dependencies), dependencyData, numDependencies, flags))

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    int exchanged = mode ? (int)*mode : -1, result = leatc_capture_exchange_mode(&exchanged);

    if (result == LEATC_OK && mode)
        *mode = (enum cudaStreamCaptureMode)exchanged;
    return note(result);
}

/* ---- graphs ---- */

FORWARD(cudaError_t cudaGraphCreate(cudaGraph_t *pGraph, unsigned int flags),
        flags ? LEATC_INVALID_VALUE : leatc_graph_create((struct leatc_graph **)(void *)pGraph))
FORWARD(cudaError_t cudaGraphDestroy(cudaGraph_t graph), leatc_graph_destroy(graph_of(graph)))
FORWARD(cudaError_t cudaGraphClone(cudaGraph_t *pGraphClone, cudaGraph_t originalGraph),
        leatc_graph_clone(graph_of(originalGraph), (struct leatc_graph **)(void *)pGraphClone))
FORWARD(cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *pNode, cudaGraphNode_t originalNode,
                                             cudaGraph_t clonedGraph),
        leatc_node_in_clone(node_of(originalNode), graph_of(clonedGraph), nodes_of(pNode)))
FORWARD(cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes),
        leatc_graph_nodes(graph_of(graph), false, nodes_of(nodes), numNodes))
FORWARD(cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *pRootNodes, size_t *pNumRootNodes),
        leatc_graph_nodes(graph_of(graph), true, nodes_of(pRootNodes), pNumRootNodes))

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *pType)
{
    int type = 0, result = pType ? leatc_node_type(node_of(node), &type) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *pType = (enum cudaGraphNodeType)type;
    return note(result);
}

FORWARD(cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node), leatc_node_destroy(node_of(node)))
FORWARD(cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned int flags),
        leatc_graph_print(graph_of(graph), path, flags))

/* ---- edges ---- */

FORWARD(cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                                      cudaGraphEdgeData *edgeData, size_t *numEdges),
        leatc_graph_edges(graph_of(graph), nodes_of(from), nodes_of(to), edgeData, numEdges))
FORWARD(cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *pDependencies,
                                                 cudaGraphEdgeData *edgeData, size_t *pNumDependencies),
        leatc_node_neighbours(node_of(node), false, nodes_of(pDependencies), edgeData, pNumDependencies))
FORWARD(cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *pDependentNodes,
                                                   cudaGraphEdgeData *edgeData, size_t *pNumDependentNodes),
        leatc_node_neighbours(node_of(node), true, nodes_of(pDependentNodes), edgeData, pNumDependentNodes))
FORWARD(cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                             const cudaGraphNode_t *to, const cudaGraphEdgeData *edgeData,
                                             size_t numDependencies),
        leatc_edges_add(graph_of(graph), node_list(from), node_list(to), edgeData, numDependencies))
FORWARD(cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                                const cudaGraphNode_t *to, const cudaGraphEdgeData *edgeData,
                                                size_t numDependencies),
        leatc_edges_remove(graph_of(graph), node_list(from), node_list(to), edgeData, numDependencies))

/* ---- executable graphs ---- */

FORWARD(cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags),
        leatc_graph_instantiate(graph_of(graph), flags, (struct leatc_exec **)(void *)pGraphExec, NULL))

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags)
{
    return cudaGraphInstantiate(pGraphExec, graph, flags);
}

int cudart_instantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, cudaGraphInstantiateParams *p,
                       struct leatc_stream *upload)
{
    struct leatc_node *wrong = NULL;
    int result, why;

    if (!p || !pGraphExec)
        return LEATC_INVALID_VALUE;
    result = leatc_graph_instantiate_with(graph_of(graph), p->flags, upload,
                                          (struct leatc_exec **)(void *)pGraphExec, &wrong, &why);
    p->errNode_out = (cudaGraphNode_t)(void *)wrong;
    p->result_out = (cudaGraphInstantiateResult)why;
    return result;
}

FORWARD(cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                                   cudaGraphInstantiateParams *instantiateParams),
        cudart_instantiate(pGraphExec, graph, instantiateParams,
                           instantiateParams ? stream_of(instantiateParams->uploadStream) : NULL))
FORWARD(cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t graphExec, unsigned long long *flags),
        leatc_exec_flags(exec_of(graphExec), flags))
FORWARD_STREAM(cudaGraphUpload, cudaGraphUpload_ptsz, (cudaGraphExec_t graphExec, cudaStream_t stream),
               leatc_exec_upload(exec_of(graphExec), on))
FORWARD_STREAM(cudaGraphLaunch, cudaGraphLaunch_ptsz, (cudaGraphExec_t graphExec, cudaStream_t stream),
               leatc_exec_launch(exec_of(graphExec), on))
FORWARD(cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec), leatc_exec_destroy(exec_of(graphExec)))

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
                                cudaGraphExecUpdateResultInfo *resultInfo)
{
    struct leatc_update update;
    int result;

    if (!resultInfo)
        return note(LEATC_INVALID_VALUE);
    result = leatc_exec_update(exec_of(hGraphExec), graph_of(hGraph), &update);
    resultInfo->result = (enum cudaGraphExecUpdateResult)update.why;
    resultInfo->errorNode = (cudaGraphNode_t)(void *)update.node;
    resultInfo->errorFromNode = (cudaGraphNode_t)(void *)update.from;
    return note(result);
}

FORWARD(cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                            unsigned int isEnabled),
        leatc_exec_enable(exec_of(hGraphExec), node_of(hNode), isEnabled))

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int *isEnabled)
{
    bool on = false;
    int result = isEnabled ? leatc_exec_enabled(exec_of(hGraphExec), node_of(hNode), &on) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *isEnabled = on;
    return note(result);
}

/* ---- user objects ---- */

static struct leatc_object *object_of(cudaUserObject_t object)
{
    return (struct leatc_object *)(void *)object;
}

FORWARD(cudaError_t cudaUserObjectCreate(cudaUserObject_t *object_out, void *ptr, cudaHostFn_t destroy,
                                         unsigned int initialRefcount, unsigned int flags),
        flags != cudaUserObjectNoDestructorSync
            ? LEATC_INVALID_VALUE
            : leatc_object_create(ptr, destroy, initialRefcount, (struct leatc_object **)(void *)object_out))
FORWARD(cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count),
        leatc_object_retain(object_of(object), count))
FORWARD(cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count),
        leatc_object_release(object_of(object), count))
FORWARD(cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count,
                                              unsigned int flags),
        flags & ~(unsigned)cudaGraphUserObjectMove
            ? LEATC_INVALID_VALUE
            : leatc_graph_retain(graph_of(graph), object_of(object), count, flags))
FORWARD(cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count),
        leatc_graph_release(graph_of(graph), object_of(object), count))

/* ---- memory ---- */

FORWARD(cudaError_t cudaDeviceGraphMemTrim(int device), leatc_graph_memory_trim(device))
FORWARD(cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attr, void *value),
        leatc_graph_memory_get(device, (int)attr, value))
FORWARD(cudaError_t cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attr, void *value),
        leatc_graph_memory_set(device, (int)attr, value))

/* ---- not supported ---- */

/* Refuses conditional nodes: the device would decide whether they run, and leat's devices cannot do that. */
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *pHandle_out, cudaGraph_t graph,
                                             unsigned int defaultLaunchValue, unsigned int flags)
{
    size_t count;

    (void)defaultLaunchValue;
    if (!pHandle_out || flags & ~(unsigned)cudaGraphCondAssignDefault ||
        leatc_graph_nodes(graph_of(graph), false, NULL, &count) != LEATC_OK)
        return note(LEATC_INVALID_VALUE);
    return note(LEATC_NOT_SUPPORTED);
}
