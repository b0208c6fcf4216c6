/*
 * graphs.h - shared by the tests of graphs of all three libraries: instantiates and runs a graph.
 *
 * The header of a library (cuda_graphs.h, cudart_graphs.h, hip_graphs.h) includes this after it has defined
 * CALL(name), which adds the library's prefix to a name; the types graph_handle and exec_handle; and the variable
 * stream.
 */
#ifndef GRAPHS_H
#define GRAPHS_H

#include "compat.h"

static inline void count_up(void *argument)
{
    ++*(int *)argument;
}

static inline exec_handle instantiated(graph_handle graph)
{
    exec_handle exec;

    OK(CALL(GraphInstantiateWithFlags)(&exec, graph, 0));
    return exec;
}

static inline void run(exec_handle exec)
{
    OK(CALL(GraphLaunch)(exec, stream));
    OK(CALL(StreamSynchronize)(stream));
}

static inline void run_and_end(graph_handle graph)
{
    exec_handle exec = instantiated(graph);

    run(exec);
    OK(CALL(GraphExecDestroy)(exec));
}

#endif
