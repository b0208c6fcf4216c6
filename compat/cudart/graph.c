/* graph.c - graphs: capturing streams, nodes and edges, executable graphs, user objects, memory of graphs. */
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

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    return note(leatc_capture_begin(stream_of(stream), (int)mode));
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t *dependencies,
                                          const cudaGraphEdgeData *dependencyData, size_t numDependencies,
                                          enum cudaStreamCaptureMode mode)
{
    return note(leatc_capture_begin_to(stream_of(stream), graph_of(graph), node_list(dependencies), dependencyData,
                                       numDependencies, (int)mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph)
{
    return note(leatc_capture_end(stream_of(stream), (struct leatc_graph **)(void *)pGraph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus)
{
    int status = 0,
        result = pCaptureStatus ? leatc_capture_status(stream_of(stream), &status, NULL) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *pCaptureStatus = (enum cudaStreamCaptureStatus)status;
    return note(result);
}

/* Edges have no data here. */
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
                                     unsigned long long *id_out, cudaGraph_t *graph_out,
                                     const cudaGraphNode_t **dependencies_out,
                                     const cudaGraphEdgeData **edgeData_out, size_t *numDependencies_out)
{
    struct leatc_capture_info info;
    int result;

    if (!captureStatus_out || (edgeData_out && !dependencies_out))
        return note(LEATC_INVALID_VALUE);
    result = leatc_capture_info(stream_of(stream), &info);
    if (result != LEATC_OK)
        return note(result);
    *captureStatus_out = (enum cudaStreamCaptureStatus)info.status;
    if (info.status != LEATC_CAPTURE_ACTIVE)
        return cudaSuccess;
    if (id_out)
        *id_out = info.id;
    if (graph_out)
        *graph_out = (cudaGraph_t)(void *)info.graph;
    if (dependencies_out)
        *dependencies_out = (const cudaGraphNode_t *)(void *)info.ends;
    if (edgeData_out)
        *edgeData_out = NULL;
    if (numDependencies_out)
        *numDependencies_out = info.end_count;
    return cudaSuccess;
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *dependencies,
                                                const cudaGraphEdgeData *dependencyData, size_t numDependencies,
                                                unsigned int flags)
{
    return note(
        leatc_capture_update(stream_of(stream), node_list(dependencies), dependencyData, numDependencies, flags));
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    int exchanged = mode ? (int)*mode : -1, result = leatc_capture_exchange_mode(&exchanged);

    if (result == LEATC_OK && mode)
        *mode = (enum cudaStreamCaptureMode)exchanged;
    return note(result);
}

/* ---- graphs ---- */

cudaError_t cudaGraphCreate(cudaGraph_t *pGraph, unsigned int flags)
{
    return note(flags ? LEATC_INVALID_VALUE : leatc_graph_create((struct leatc_graph **)(void *)pGraph));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    return note(leatc_graph_destroy(graph_of(graph)));
}

cudaError_t cudaGraphClone(cudaGraph_t *pGraphClone, cudaGraph_t originalGraph)
{
    return note(leatc_graph_clone(graph_of(originalGraph), (struct leatc_graph **)(void *)pGraphClone));
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *pNode, cudaGraphNode_t originalNode, cudaGraph_t clonedGraph)
{
    return note(leatc_node_in_clone(node_of(originalNode), graph_of(clonedGraph), nodes_of(pNode)));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes)
{
    return note(leatc_graph_nodes(graph_of(graph), false, nodes_of(nodes), numNodes));
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *pRootNodes, size_t *pNumRootNodes)
{
    return note(leatc_graph_nodes(graph_of(graph), true, nodes_of(pRootNodes), pNumRootNodes));
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *pType)
{
    int type = 0, result = pType ? leatc_node_type(node_of(node), &type) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *pType = (enum cudaGraphNodeType)type;
    return note(result);
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node)
{
    return note(leatc_node_destroy(node_of(node)));
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned int flags)
{
    return note(leatc_graph_print(graph_of(graph), path, flags));
}

/* ---- edges ---- */

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                              cudaGraphEdgeData *edgeData, size_t *numEdges)
{
    return note(leatc_graph_edges(graph_of(graph), nodes_of(from), nodes_of(to), edgeData, numEdges));
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *pDependencies,
                                         cudaGraphEdgeData *edgeData, size_t *pNumDependencies)
{
    return note(leatc_node_neighbours(node_of(node), false, nodes_of(pDependencies), edgeData, pNumDependencies));
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *pDependentNodes,
                                           cudaGraphEdgeData *edgeData, size_t *pNumDependentNodes)
{
    return note(
        leatc_node_neighbours(node_of(node), true, nodes_of(pDependentNodes), edgeData, pNumDependentNodes));
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                     const cudaGraphEdgeData *edgeData, size_t numDependencies)
{
    return note(leatc_edges_add(graph_of(graph), node_list(from), node_list(to), edgeData, numDependencies));
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                        const cudaGraphEdgeData *edgeData, size_t numDependencies)
{
    return note(leatc_edges_remove(graph_of(graph), node_list(from), node_list(to), edgeData, numDependencies));
}

/* ---- executable graphs ---- */

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags)
{
    return note(leatc_graph_instantiate(graph_of(graph), flags, (struct leatc_exec **)(void *)pGraphExec, NULL));
}

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

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams *instantiateParams)
{
    return note(cudart_instantiate(pGraphExec, graph, instantiateParams,
                                   instantiateParams ? stream_of(instantiateParams->uploadStream) : NULL));
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t graphExec, unsigned long long *flags)
{
    return note(leatc_exec_flags(exec_of(graphExec), flags));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    return note(leatc_exec_upload(exec_of(graphExec), stream_of(stream)));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    return note(leatc_exec_launch(exec_of(graphExec), stream_of(stream)));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec)
{
    return note(leatc_exec_destroy(exec_of(graphExec)));
}

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

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int isEnabled)
{
    return note(leatc_exec_enable(exec_of(hGraphExec), node_of(hNode), isEnabled));
}

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

cudaError_t cudaUserObjectCreate(cudaUserObject_t *object_out, void *ptr, cudaHostFn_t destroy,
                                 unsigned int initialRefcount, unsigned int flags)
{
    if (flags != cudaUserObjectNoDestructorSync)
        return note(LEATC_INVALID_VALUE);
    return note(leatc_object_create(ptr, destroy, initialRefcount, (struct leatc_object **)(void *)object_out));
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count)
{
    return note(leatc_object_retain(object_of(object), count));
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count)
{
    return note(leatc_object_release(object_of(object), count));
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count,
                                      unsigned int flags)
{
    if (flags & ~(unsigned)cudaGraphUserObjectMove)
        return note(LEATC_INVALID_VALUE);
    return note(leatc_graph_retain(graph_of(graph), object_of(object), count, flags));
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count)
{
    return note(leatc_graph_release(graph_of(graph), object_of(object), count));
}

/* ---- memory ---- */

cudaError_t cudaDeviceGraphMemTrim(int device)
{
    return note(leatc_graph_memory_trim(device));
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attr, void *value)
{
    return note(leatc_graph_memory_get(device, (int)attr, value));
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attr, void *value)
{
    return note(leatc_graph_memory_set(device, (int)attr, value));
}

/* ---- what is not there ---- */

/* Only a device decides what runs next in a graph with conditional nodes. */
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
