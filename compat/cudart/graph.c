/* graph.c - capturing streams, and launching what was captured. */
#include "cudart/cudart.h"

static struct leatc_graph *graph_of(cudaGraph_t graph)
{
    return (struct leatc_graph *)(void *)graph;
}

static struct leatc_graph *executable_of(cudaGraphExec_t executable)
{
    return (struct leatc_graph *)(void *)executable;
}

/* ---- capture ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    return note(leatc_capture_begin(stream_of(stream), (int)mode));
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

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes)
{
    return note(leatc_graph_nodes(graph_of(graph), false, (struct leatc_node **)(void *)nodes, numNodes));
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *pRootNodes, size_t *pNumRootNodes)
{
    return note(leatc_graph_nodes(graph_of(graph), true, (struct leatc_node **)(void *)pRootNodes, pNumRootNodes));
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *pType)
{
    int type = 0, result = pType ? leatc_node_type((struct leatc_node *)(void *)node, &type) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *pType = (enum cudaGraphNodeType)type;
    return note(result);
}

/* Nothing runs on a device but what the host launches. */
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags)
{
    if (flags &
        ~(unsigned long long)(cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUpload |
                              cudaGraphInstantiateFlagDeviceLaunch | cudaGraphInstantiateFlagUseNodePriority))
        return note(LEATC_INVALID_VALUE);
    if (flags & cudaGraphInstantiateFlagDeviceLaunch)
        return note(LEATC_NOT_SUPPORTED);
    return note(leatc_graph_instantiate(graph_of(graph), (struct leatc_graph **)(void *)pGraphExec));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags)
{
    return cudaGraphInstantiate(pGraphExec, graph, flags);
}

/* There is nothing to be brought to the device before. */
cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    int result = leatc_graph_exec_check(executable_of(graphExec));

    return note(result == LEATC_OK ? leatc_stream_check(stream_of(stream)) : result);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    return note(leatc_graph_launch(executable_of(graphExec), stream_of(stream)));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec)
{
    return note(leatc_graph_exec_destroy(executable_of(graphExec)));
}
