/*
 * graphs.h - defines functions that instantiate and run a graph, for the graph tests of all three libraries.
 *
 * The header of a library (cuda_graphs.h, cudart_graphs.h, hip_graphs.h) includes this file. Before that it
 * defines CALL(name), which adds the library's prefix to a name, the types graph_handle and exec_handle, and the
 * variable stream.
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
