/* graph.c - implements the calls for stream capture, graphs, edges, executable graphs, user objects, and memory of
 * graphs. */
#include "hip/layer.h"

#include <stdio.h>

/* ---- capture ---- */

FORWARD_STREAM(hipStreamBeginCapture, hipStreamBeginCapture_spt, (hipStream_t stream, hipStreamCaptureMode mode),
               of_stream(leatc_capture_begin(on, (int)mode)))

/* Captures into an existing graph. It refuses edge data as AMD's runtime does; the engine's edges have no data. */
hipError_t hipStreamBeginCaptureToGraph(hipStream_t stream, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                        const hipGraphEdgeData *dependencyData, size_t count,
                                        hipStreamCaptureMode mode)
{
    int result = dependencyData ? LEATC_NOT_SUPPORTED : check_stream(stream_of(stream));

    return note(result == LEATC_OK ? leatc_capture_begin_to(stream_of(stream), graph_of(graph),
                                                            node_list(dependencies), NULL, count, (int)mode)
                                   : result);
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

FORWARD_STREAM(hipStreamEndCapture, hipStreamEndCapture_spt, (hipStream_t stream, hipGraph_t *graph),
               end(on, graph))

static int get_status(struct leatc_stream *stream, hipStreamCaptureStatus *status, unsigned long long *id)
{
    int now = 0;

    if (!status)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(of_stream(leatc_capture_status(stream, &now, id)));
    *status = (hipStreamCaptureStatus)now;
    return LEATC_OK;
}

FORWARD_STREAM(hipStreamIsCapturing, hipStreamIsCapturing_spt,
               (hipStream_t stream, hipStreamCaptureStatus *status), get_status(on, status, NULL))
FORWARD_STREAM(hipStreamGetCaptureInfo, hipStreamGetCaptureInfo_spt,
               (hipStream_t stream, hipStreamCaptureStatus *status, unsigned long long *id),
               get_status(on, status, id))

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

FORWARD_STREAM(hipStreamGetCaptureInfo_v2, hipStreamGetCaptureInfo_v2_spt,
               (hipStream_t stream, hipStreamCaptureStatus *status, unsigned long long *id, hipGraph_t *graph,
                const hipGraphNode_t **dependencies, size_t *count),
               get_info(on, status, id, graph, dependencies, count))

hipError_t hipStreamUpdateCaptureDependencies(hipStream_t stream, hipGraphNode_t *dependencies, size_t count,
                                              unsigned int flags)
{
    int result = check_stream(stream_of(stream));

    return note(result == LEATC_OK
                    ? leatc_capture_update(stream_of(stream), node_list(dependencies), NULL, count, flags)
                    : result);
}

hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode)
{
    int exchanged = mode ? (int)*mode : -1, result = leatc_capture_exchange_mode(&exchanged);

    if (result == LEATC_OK && mode)
        *mode = (hipStreamCaptureMode)exchanged;
    return note(result);
}

/* ---- graphs ---- */

FORWARD(hipError_t hipGraphCreate(hipGraph_t *graph, unsigned int flags),
        flags ? LEATC_INVALID_VALUE : leatc_graph_create((struct leatc_graph **)(void *)graph))
FORWARD(hipError_t hipGraphDestroy(hipGraph_t graph), leatc_graph_destroy(graph_of(graph)))
FORWARD(hipError_t hipGraphClone(hipGraph_t *clone, hipGraph_t graph),
        leatc_graph_clone(graph_of(graph), (struct leatc_graph **)(void *)clone))
FORWARD(hipError_t hipGraphNodeFindInClone(hipGraphNode_t *found, hipGraphNode_t node, hipGraph_t clone),
        leatc_node_in_clone(node_of(node), graph_of(clone), nodes_of(found)))
FORWARD(hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count),
        leatc_graph_nodes(graph_of(graph), false, nodes_of(nodes), count))
FORWARD(hipError_t hipGraphGetRootNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count),
        leatc_graph_nodes(graph_of(graph), true, nodes_of(nodes), count))

/* Returns the type of a node. HIP has separate types for copies to and from symbols; these nodes are ordinary
 * copies in the engine, and have the type of copies. */
hipError_t hipGraphNodeGetType(hipGraphNode_t node, hipGraphNodeType *type)
{
    int found = 0, result = type ? leatc_node_type(node_of(node), &found) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *type = found == LEATC_NODE_BATCH ? hipGraphNodeTypeBatchMemOp : (hipGraphNodeType)found;
    return note(result);
}

FORWARD(hipError_t hipGraphDestroyNode(hipGraphNode_t node), leatc_node_destroy(node_of(node)))
FORWARD(hipError_t hipGraphDebugDotPrint(hipGraph_t graph, const char *path, unsigned int flags),
        leatc_graph_print(graph_of(graph), path, flags))

/* ---- edges ---- */

FORWARD(hipError_t hipGraphGetEdges(hipGraph_t graph, hipGraphNode_t *from, hipGraphNode_t *to, size_t *count),
        leatc_graph_edges(graph_of(graph), nodes_of(from), nodes_of(to), NULL, count))
FORWARD(hipError_t hipGraphNodeGetDependencies(hipGraphNode_t node, hipGraphNode_t *nodes, size_t *count),
        leatc_node_neighbours(node_of(node), false, nodes_of(nodes), NULL, count))
FORWARD(hipError_t hipGraphNodeGetDependentNodes(hipGraphNode_t node, hipGraphNode_t *nodes, size_t *count),
        leatc_node_neighbours(node_of(node), true, nodes_of(nodes), NULL, count))
FORWARD(hipError_t hipGraphAddDependencies(hipGraph_t graph, const hipGraphNode_t *from, const hipGraphNode_t *to,
                                           size_t count),
        leatc_edges_add(graph_of(graph), node_list(from), node_list(to), NULL, count))
FORWARD(hipError_t hipGraphRemoveDependencies(hipGraph_t graph, const hipGraphNode_t *from,
                                              const hipGraphNode_t *to, size_t count),
        leatc_edges_remove(graph_of(graph), node_list(from), node_list(to), NULL, count))

/* ---- executable graphs ---- */

static int instantiate(hipGraphExec_t *executable, hipGraph_t graph, unsigned long long flags,
                       struct leatc_node **wrong)
{
    return leatc_graph_instantiate(graph_of(graph), flags, (struct leatc_exec **)(void *)executable, wrong);
}

/* Instantiates a graph. If that fails, writes a text that describes the failure to log. */
hipError_t hipGraphInstantiate(hipGraphExec_t *executable, hipGraph_t graph, hipGraphNode_t *errorNode, char *log,
                               size_t logBytes)
{
    struct leatc_node *wrong = NULL;
    int result = instantiate(executable, graph, 0, &wrong);

    if (errorNode)
        *errorNode = (hipGraphNode_t)(void *)wrong;
    if (log && logBytes)
        (void)snprintf(log, logBytes, "%s", wrong ? "the edges form a cycle" : "");
    return note(result);
}

FORWARD(hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *executable, hipGraph_t graph,
                                                unsigned long long flags),
        instantiate(executable, graph, flags, NULL))

static int instantiate_with(hipGraphExec_t *executable, hipGraph_t graph, hipGraphInstantiateParams *p)
{
    struct leatc_node *wrong = NULL;
    int result, why;

    if (!p || !executable)
        return LEATC_INVALID_VALUE;
    result = leatc_graph_instantiate_with(graph_of(graph), p->flags, stream_of(p->uploadStream),
                                          (struct leatc_exec **)(void *)executable, &wrong, &why);
    p->errNode_out = (hipGraphNode_t)(void *)wrong;
    p->result_out = (hipGraphInstantiateResult)why;
    return of_stream(result);
}

FORWARD(hipError_t hipGraphInstantiateWithParams(hipGraphExec_t *executable, hipGraph_t graph,
                                                 hipGraphInstantiateParams *params),
        instantiate_with(executable, graph, params))
FORWARD(hipError_t hipGraphExecGetFlags(hipGraphExec_t executable, unsigned long long *flags),
        leatc_exec_flags(exec_of(executable), flags))
FORWARD(hipError_t hipGraphUpload(hipGraphExec_t executable, hipStream_t stream),
        of_stream(leatc_exec_upload(exec_of(executable), stream_of(stream))))
FORWARD_STREAM(hipGraphLaunch, hipGraphLaunch_spt, (hipGraphExec_t executable, hipStream_t stream),
               of_stream(leatc_exec_launch(exec_of(executable), on)))
FORWARD(hipError_t hipGraphExecDestroy(hipGraphExec_t executable), leatc_exec_destroy(exec_of(executable)))

/* Converts the reason of a failed update to HIP's. HIP has no value for changed attributes. */
static hipGraphExecUpdateResult why_not(const struct leatc_update *update)
{
    return update->why == LEATC_UPDATE_ATTRIBUTES ? hipGraphExecUpdateErrorParametersChanged
                                                  : (hipGraphExecUpdateResult)update->why;
}

hipError_t hipGraphExecUpdate(hipGraphExec_t executable, hipGraph_t graph, hipGraphNode_t *errorNode,
                              hipGraphExecUpdateResult *why)
{
    struct leatc_update update;
    int result;

    if (!errorNode || !why)
        return note(LEATC_INVALID_VALUE);
    result = leatc_exec_update(exec_of(executable), graph_of(graph), &update);
    *errorNode = (hipGraphNode_t)(void *)update.node;
    *why = why_not(&update);
    return note(result);
}

FORWARD(hipError_t hipGraphNodeSetEnabled(hipGraphExec_t executable, hipGraphNode_t node, unsigned int isEnabled),
        leatc_exec_enable(exec_of(executable), node_of(node), isEnabled))

hipError_t hipGraphNodeGetEnabled(hipGraphExec_t executable, hipGraphNode_t node, unsigned int *isEnabled)
{
    bool on = false;
    int result = isEnabled ? leatc_exec_enabled(exec_of(executable), node_of(node), &on) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *isEnabled = on;
    return note(result);
}

/* ---- user objects ---- */

static struct leatc_object *object_of(hipUserObject_t object)
{
    return (struct leatc_object *)(void *)object;
}

FORWARD(hipError_t hipUserObjectCreate(hipUserObject_t *object, void *ptr, hipHostFn_t destroy,
                                       unsigned int references, unsigned int flags),
        flags != hipUserObjectNoDestructorSync
            ? LEATC_INVALID_VALUE
            : leatc_object_create(ptr, destroy, references, (struct leatc_object **)(void *)object))
FORWARD(hipError_t hipUserObjectRetain(hipUserObject_t object, unsigned int count),
        leatc_object_retain(object_of(object), count))
FORWARD(hipError_t hipUserObjectRelease(hipUserObject_t object, unsigned int count),
        leatc_object_release(object_of(object), count))
FORWARD(hipError_t hipGraphRetainUserObject(hipGraph_t graph, hipUserObject_t object, unsigned int count,
                                            unsigned int flags),
        flags & ~(unsigned)hipGraphUserObjectMove
            ? LEATC_INVALID_VALUE
            : leatc_graph_retain(graph_of(graph), object_of(object), count, flags))
FORWARD(hipError_t hipGraphReleaseUserObject(hipGraph_t graph, hipUserObject_t object, unsigned int count),
        leatc_graph_release(graph_of(graph), object_of(object), count))

/* ---- memory ---- */

FORWARD(hipError_t hipDeviceGraphMemTrim(int device), leatc_graph_memory_trim(device))
FORWARD(hipError_t hipDeviceGetGraphMemAttribute(int device, hipGraphMemAttributeType attribute, void *value),
        leatc_graph_memory_get(device, (int)attribute, value))
FORWARD(hipError_t hipDeviceSetGraphMemAttribute(int device, hipGraphMemAttributeType attribute, void *value),
        leatc_graph_memory_set(device, (int)attribute, value))
