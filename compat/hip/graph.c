/* graph.c - capturing streams, and launching what was captured. */
#include "hip/layer.h"

static struct leatc_graph *graph_of(hipGraph_t graph)
{
    return (struct leatc_graph *)(void *)graph;
}

static struct leatc_graph *executable_of(hipGraphExec_t executable)
{
    return (struct leatc_graph *)(void *)executable;
}

/* ---- capture ---- */

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode)
{
    return note(of_stream(leatc_capture_begin(stream_of(stream), (int)mode)));
}

hipError_t hipStreamBeginCapture_spt(hipStream_t stream, hipStreamCaptureMode mode)
{
    return note(of_stream(leatc_capture_begin(leatc_per_thread(stream), (int)mode)));
}

static int end(struct leatc_stream *stream, hipGraph_t *graph)
{
    struct leatc_graph *made = NULL;
    int result;

    if (!graph)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_stream(stream));
    result = leatc_capture_end(stream, &made);
    *graph = (hipGraph_t)(void *)made;
    return result;
}

hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph)
{
    return note(end(stream_of(stream), graph));
}

hipError_t hipStreamEndCapture_spt(hipStream_t stream, hipGraph_t *graph)
{
    return note(end(leatc_per_thread(stream), graph));
}

static int get_status(struct leatc_stream *stream, hipStreamCaptureStatus *status, unsigned long long *id)
{
    int now = 0;

    if (!status)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(of_stream(leatc_capture_status(stream, &now, id)));
    *status = (hipStreamCaptureStatus)now;
    return LEATC_OK;
}

hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status)
{
    return note(get_status(stream_of(stream), status, NULL));
}

hipError_t hipStreamIsCapturing_spt(hipStream_t stream, hipStreamCaptureStatus *status)
{
    return note(get_status(leatc_per_thread(stream), status, NULL));
}

hipError_t hipStreamGetCaptureInfo(hipStream_t stream, hipStreamCaptureStatus *status, unsigned long long *id)
{
    return note(get_status(stream_of(stream), status, id));
}

hipError_t hipStreamGetCaptureInfo_spt(hipStream_t stream, hipStreamCaptureStatus *status, unsigned long long *id)
{
    return note(get_status(leatc_per_thread(stream), status, id));
}

static int get_info(struct leatc_stream *stream, hipStreamCaptureStatus *status, unsigned long long *id,
                    hipGraph_t *graph, const hipGraphNode_t **dependencies, size_t *count)
{
    struct leatc_capture_info info;

    if (!status)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(of_stream(leatc_capture_info(stream, &info)));
    *status = (hipStreamCaptureStatus)info.status;
    if (info.status != LEATC_CAPTURE_ACTIVE)
        return LEATC_OK;
    if (id)
        *id = info.id;
    if (graph)
        *graph = (hipGraph_t)(void *)info.graph;
    if (dependencies)
        *dependencies = (const hipGraphNode_t *)(void *)info.ends;
    if (count)
        *count = info.end_count;
    return LEATC_OK;
}

hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus *status, unsigned long long *id,
                                      hipGraph_t *graph, const hipGraphNode_t **dependencies, size_t *count)
{
    return note(get_info(stream_of(stream), status, id, graph, dependencies, count));
}

hipError_t hipStreamGetCaptureInfo_v2_spt(hipStream_t stream, hipStreamCaptureStatus *status,
                                          unsigned long long *id, hipGraph_t *graph,
                                          const hipGraphNode_t **dependencies, size_t *count)
{
    return note(get_info(leatc_per_thread(stream), status, id, graph, dependencies, count));
}

hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode)
{
    int exchanged = mode ? (int)*mode : -1, result = leatc_capture_exchange_mode(&exchanged);

    if (result == LEATC_OK && mode)
        *mode = (hipStreamCaptureMode)exchanged;
    return note(result);
}

/* ---- graphs ---- */

hipError_t hipGraphCreate(hipGraph_t *graph, unsigned int flags)
{
    return note(flags ? LEATC_INVALID_VALUE : leatc_graph_create((struct leatc_graph **)(void *)graph));
}

hipError_t hipGraphDestroy(hipGraph_t graph)
{
    return note(leatc_graph_destroy(graph_of(graph)));
}

hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count)
{
    return note(leatc_graph_nodes(graph_of(graph), false, (struct leatc_node **)(void *)nodes, count));
}

hipError_t hipGraphGetRootNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count)
{
    return note(leatc_graph_nodes(graph_of(graph), true, (struct leatc_node **)(void *)nodes, count));
}

hipError_t hipGraphNodeGetType(hipGraphNode_t node, hipGraphNodeType *type)
{
    int found = 0,
        result = type ? leatc_node_type((struct leatc_node *)(void *)node, &found) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *type = (hipGraphNodeType)found;
    return note(result);
}

static int instantiate(hipGraphExec_t *executable, hipGraph_t graph)
{
    struct leatc_graph *made = NULL;

    if (!executable)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_graph_instantiate(graph_of(graph), &made));
    *executable = (hipGraphExec_t)(void *)made;
    return LEATC_OK;
}

/* What was captured has no node that could be wrong, so nothing is written of one. */
hipError_t hipGraphInstantiate(hipGraphExec_t *executable, hipGraph_t graph, hipGraphNode_t *errorNode, char *log,
                               size_t logBytes)
{
    (void)errorNode, (void)log, (void)logBytes;
    return note(instantiate(executable, graph));
}

hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *executable, hipGraph_t graph, unsigned long long flags)
{
    if (flags &
        ~(unsigned long long)(hipGraphInstantiateFlagAutoFreeOnLaunch | hipGraphInstantiateFlagUpload |
                              hipGraphInstantiateFlagDeviceLaunch | hipGraphInstantiateFlagUseNodePriority))
        return note(LEATC_INVALID_VALUE);
    if (flags & hipGraphInstantiateFlagDeviceLaunch)
        return note(LEATC_NOT_SUPPORTED);
    return note(instantiate(executable, graph));
}

/* There is nothing to be brought to the device before. */
hipError_t hipGraphUpload(hipGraphExec_t executable, hipStream_t stream)
{
    int result = leatc_graph_exec_check(executable_of(executable));

    return note(result == LEATC_OK ? check_stream(stream_of(stream)) : result);
}

hipError_t hipGraphLaunch(hipGraphExec_t executable, hipStream_t stream)
{
    return note(of_stream(leatc_graph_launch(executable_of(executable), stream_of(stream))));
}

hipError_t hipGraphLaunch_spt(hipGraphExec_t executable, hipStream_t stream)
{
    return note(of_stream(leatc_graph_launch(executable_of(executable), leatc_per_thread(stream))));
}

hipError_t hipGraphExecDestroy(hipGraphExec_t executable)
{
    return note(leatc_graph_exec_destroy(executable_of(executable)));
}
