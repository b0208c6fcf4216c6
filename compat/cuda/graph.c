/* graph.c - capturing streams, and launching what was captured. */
#include "cuda/names.h"

static struct leatc_graph *engine_graph(const void *graph)
{
    return (struct leatc_graph *)(uintptr_t)graph;
}

/* ---- capture ---- */

static CUresult begin_capture(struct leatc_stream *on, CUstreamCaptureMode mode)
{
    CU_TRY(leatcu_enter(NULL));
    return leatcu_result(leatc_capture_begin(on, (int)mode));
}

static CUresult end_capture(struct leatc_stream *on, CUgraph *graph)
{
    CU_TRY(leatcu_enter(NULL));
    return leatcu_result(leatc_capture_end(on, (struct leatc_graph **)(void *)graph));
}

/* Edges have no data here. */
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

// clang-format off
LEATCU_BOTH(cuStreamBeginCapture_v2, begin_capture, (CUstream stream, CUstreamCaptureMode mode), (on, mode))
LEATCU_BOTH(cuStreamEndCapture, end_capture, (CUstream stream, CUgraph *graph), (on, graph))
LEATCU_BOTH(cuStreamIsCapturing, is_capturing, (CUstream stream, CUstreamCaptureStatus *status), (on, status))
LEATCU_BOTH(cuStreamGetCaptureInfo_v2, capture_info,
            (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
             const CUgraphNode **ends, size_t *end_count),
            (on, status, id, graph, ends, NULL, end_count))
LEATCU_BOTH(cuStreamGetCaptureInfo_v3, capture_info,
            (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
             const CUgraphNode **ends, const CUgraphEdgeData **edges, size_t *end_count),
            (on, status, id, graph, ends, edges, end_count))
// clang-format on

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

CUresult cuGraphCreate(CUgraph *graph, unsigned flags)
{
    CU_TRY(leatcu_started());
    CU_CHECK(!flags);
    return leatcu_result(leatc_graph_create((struct leatc_graph **)(void *)graph));
}

CUresult cuGraphDestroy(CUgraph graph)
{
    CU_TRY(leatcu_started());
    return leatcu_result(leatc_graph_destroy(engine_graph(graph)));
}

static CUresult get_nodes(CUgraph graph, bool roots, CUgraphNode *nodes, size_t *count)
{
    CU_TRY(leatcu_started());
    return leatcu_result(
        leatc_graph_nodes(engine_graph(graph), roots, (struct leatc_node **)(void *)nodes, count));
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    return get_nodes(graph, false, nodes, count);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    return get_nodes(graph, true, nodes, count);
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    int found;

    CU_TRY(leatcu_started());
    CU_CHECK(type);
    CU_TRY(leatcu_result(leatc_node_type((struct leatc_node *)(void *)node, &found)));
    *type = (CUgraphNodeType)found;
    return CUDA_SUCCESS;
}

/* Nothing runs on a device but what the host launches. */
CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    const unsigned long long known =
        CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
        CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

    CU_TRY(leatcu_started());
    CU_CHECK(!(flags & ~known));
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
        return CUDA_ERROR_NOT_SUPPORTED;
    return leatcu_result(leatc_graph_instantiate(engine_graph(graph), (struct leatc_graph **)(void *)executable));
}

CUresult cuGraphExecDestroy(CUgraphExec executable)
{
    CU_TRY(leatcu_started());
    return leatcu_result(leatc_graph_exec_destroy(engine_graph(executable)));
}

/* There is nothing to be brought to the device before. */
static CUresult upload(CUgraphExec executable, struct leatc_stream *on)
{
    CU_TRY(leatcu_enter(NULL));
    CU_TRY(leatcu_result(leatc_graph_exec_check(engine_graph(executable))));
    return leatcu_result(leatc_stream_check(on));
}

static CUresult launch(CUgraphExec executable, struct leatc_stream *on)
{
    CU_TRY(leatcu_enter(NULL));
    return leatcu_result(leatc_graph_launch(engine_graph(executable), on));
}

// clang-format off
LEATCU_BOTH(cuGraphUpload, upload, (CUgraphExec executable, CUstream stream), (executable, on))
LEATCU_BOTH(cuGraphLaunch, launch, (CUgraphExec executable, CUstream stream), (executable, on))
// clang-format on
