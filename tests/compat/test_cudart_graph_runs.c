/*
 * test_cudart_graph_runs.c - tests how graphs run: nodes in the order of their edges, independent nodes
 * concurrently, launches one after the other. It also tests when user objects are destroyed.
 */
#include <cuda_runtime.h>

#include "compat.h"

#include <leat/device_code.h>

#define BYTES ((size_t)4096)

static cudaStream_t stream, other;
static unsigned char *device, *pinned;

/* ---- random graphs, against a model ---- */

enum { NODES_MOST = 40, BEFORE_MOST = 4 };

/* Each node computes its own cell from the cells of the nodes before it, so a node that runs too early computes a
 * wrong value. All cells are in pinned memory, so that host functions can be nodes too. */
struct cell_node {
    uint32_t *cells;
    const uint32_t *salt;
    uint32_t number, before_count, reads[BEFORE_MOST]; /* numbers of the cells to read, one for each node before
                                                        * this one */
    gate *held;                                        /* the gate at which a host function waits, or NULL */
};

static struct cell_node *plan;
static uint32_t *cells, *salt;

static inline uint32_t mixed(uint32_t value, uint32_t with)
{
    return (value ^ with) * 0x9e3779b1u + (value >> 15);
}

LEAT_KERNEL(mix_cells, 1, const struct cell_node *, node)
{
    uint32_t value;

    if (leat_global_index() != 0)
        return;
    value = *node->salt;
    for (uint32_t i = 0; i < node->before_count; i++) {
        uint32_t with = node->cells[node->reads[i]];

        value = (value ^ with) * 0x9e3779b1u + (value >> 15);
    }
    node->cells[node->number] = value + node->number;
}

static void mix_on_host(void *argument)
{
    const struct cell_node *node = argument;
    uint32_t value = *node->salt;

    if (node->held)
        wait_at_gate(node->held);
    for (uint32_t i = 0; i < node->before_count; i++)
        value = mixed(value, node->cells[node->reads[i]]);
    node->cells[node->number] = value + node->number;
}

static uint64_t seed = 12345;

static uint32_t any(uint32_t limit)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % limit;
}

enum kind { KERNEL, HOST, COPY, FILL, EMPTY, CHILD, KINDS };

static void add_kernel(cudaGraph_t graph, const cudaGraphNode_t *before, size_t count, struct cell_node *node,
                       cudaGraphNode_t *made)
{
    void *args[] = {&node};
    struct cudaKernelNodeParams params = {.func = (void *)(uintptr_t)&leat_cpu_kernel_mix_cells,
                                          .gridDim = {1, 1, 1},
                                          .blockDim = {1, 1, 1},
                                          .kernelParams = args};

    OK(cudaGraphAddKernelNode(made, graph, before, count, &params));
}

static void add_of_kind(cudaGraph_t graph, enum kind kind, const cudaGraphNode_t *before, struct cell_node *node,
                        cudaGraphNode_t *made)
{
    struct cudaHostNodeParams host = {mix_on_host, node};
    struct cudaMemsetParams fill = {
        .dst = &cells[node->number], .value = node->number, .elementSize = 4, .width = 1, .height = 1};
    size_t count = node->before_count;
    cudaGraphNode_t inner;
    cudaGraph_t child;

    switch (kind) {
    case KERNEL:
        add_kernel(graph, before, count, node, made);
        break;
    case HOST:
        OK(cudaGraphAddHostNode(made, graph, before, count, &host));
        break;
    case COPY:
        OK(cudaGraphAddMemcpyNode1D(made, graph, before, count, &cells[node->number], &cells[node->reads[0]], 4,
                                    cudaMemcpyDefault));
        break;
    case FILL:
        OK(cudaGraphAddMemsetNode(made, graph, before, count, &fill));
        break;
    case CHILD:
        OK(cudaGraphCreate(&child, 0));
        add_kernel(child, NULL, 0, node, &inner);
        OK(cudaGraphAddChildGraphNode(made, graph, before, count, child));
        OK(cudaGraphDestroy(child));
        break;
    default:
        OK(cudaGraphAddEmptyNode(made, graph, before, count));
    }
}

/* Returns the value that the node's cell must have after a run. */
static uint32_t modelled(const struct cell_node *node, enum kind kind, const uint32_t *model)
{
    uint32_t value = *salt;

    if (kind == COPY)
        return model[node->reads[0]];
    if (kind == FILL)
        return node->number;
    if (kind == EMPTY)
        return 0;
    for (uint32_t i = 0; i < node->before_count; i++)
        value = mixed(value, model[node->reads[i]]);
    return value + node->number;
}

/* Builds a graph of count nodes with edges from lower to higher numbers. Some edges are added after their
 * nodes. */
static void make_random(cudaGraph_t graph, uint32_t count, enum kind *kinds, gate *held)
{
    cudaGraphNode_t nodes[NODES_MOST], before[BEFORE_MOST];
    uint32_t gated = any(count);

    for (uint32_t i = 0; i < count; i++) {
        struct cell_node *node = &plan[i];
        uint32_t wanted = any(BEFORE_MOST + 1), ones[BEFORE_MOST];
        bool later = !any(4);

        *node = (struct cell_node){.cells = cells, .salt = salt, .number = i};
        for (uint32_t j = 0; j < wanted && i; j++) {
            uint32_t one = any(3) ? i - 1 - any(i < 5 ? i : 5) : any(i);
            bool there = false;

            for (uint32_t k = 0; k < node->before_count; k++)
                there |= ones[k] == one;
            if (there)
                continue;
            ones[node->before_count] = one;
            before[node->before_count] = nodes[one];
            /* An empty node has no cell, so a node after it reads the cell of the empty node's first
             * predecessor. */
            node->reads[node->before_count++] =
                kinds[one] == EMPTY && plan[one].before_count ? plan[one].reads[0] : one;
        }
        kinds[i] = (enum kind)any(KINDS);
        if (i == gated) {
            kinds[i] = HOST;
            node->held = held;
        }
        if (kinds[i] == COPY && !node->before_count)
            kinds[i] = FILL;
        if (later && kinds[i] != COPY) {
            cudaGraphNode_t to[BEFORE_MOST];
            uint32_t edges = node->before_count;

            node->before_count = 0;
            add_of_kind(graph, kinds[i], NULL, node, &nodes[i]);
            node->before_count = edges;
            for (uint32_t j = 0; j < edges; j++)
                to[j] = nodes[i];
            OK(cudaGraphAddDependencies(graph, before, to, NULL, edges));
        } else {
            add_of_kind(graph, kinds[i], before, node, &nodes[i]);
        }
    }
}

/* Launches the graph and checks all cells. The gate opens late, so that a node computes a wrong value if it does
 * not wait for the gate. */
static void runs_as_modelled(cudaGraphExec_t exec, uint32_t count, const enum kind *kinds, gate *held)
{
    uint32_t model[NODES_MOST];

    ++*salt;
    memset(cells, 0, NODES_MOST * sizeof *cells);
    for (uint32_t i = 0; i < count; i++)
        model[i] = modelled(&plan[i], kinds[i], model);
    atomic_store(held, 0);
    OK(cudaGraphLaunch(exec, any(2) ? stream : other));
    sleep_ms(1);
    atomic_store(held, 1);
    OK(cudaDeviceSynchronize());
    for (uint32_t i = 0; i < count; i++)
        if (cells[i] != model[i]) {
            print_error("node %u of %u, of kind %d, is %u instead of %u\n", i, count, (int)kinds[i], cells[i],
                        model[i]);
            fail();
        }
}

static void random_graphs_keep_their_edges(void **state)
{
    enum kind kinds[NODES_MOST];
    cudaGraph_t graph, clone;
    cudaGraphExec_t exec;
    gate held = 0;

    (void)state;
    for (int round = 0; round < 150; round++) {
        uint32_t count = 1 + any(NODES_MOST);

        OK(cudaGraphCreate(&graph, 0));
        make_random(graph, count, kinds, &held);
        if (round % 3 == 0) {
            OK(cudaGraphClone(&clone, graph));
            OK(cudaGraphDestroy(graph));
            graph = clone;
        }
        OK(cudaGraphInstantiate(&exec, graph, 0));
        OK(cudaGraphDestroy(graph));
        runs_as_modelled(exec, count, kinds, &held);
        runs_as_modelled(exec, count, kinds, &held);
        OK(cudaGraphExecDestroy(exec));
    }
}

/* ---- concurrent branches ---- */

static void set_flag(void *argument)
{
    atomic_store((gate *)argument, 1);
}

/* Waits until the flag is set, for at most 30 seconds. */
static bool comes(gate *flag)
{
    wait_at_gate(flag);
    return atomic_load(flag);
}

static void branches_run_beside_each_other(void **state)
{
    gate held = 0, after_held = 0, free_one = 0;
    struct cudaHostNodeParams wait = {wait_at_gate, &held}, then = {set_flag, &after_held},
                              alone = {set_flag, &free_one};
    cudaGraphNode_t first, second, third;
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddHostNode(&first, graph, NULL, 0, &wait));
    OK(cudaGraphAddHostNode(&second, graph, &first, 1, &then));
    OK(cudaGraphAddHostNode(&third, graph, NULL, 0, &alone));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, stream));
    assert_true(comes(&free_one));
    assert_int_equal(atomic_load(&after_held), 0);
    GIVES(cudaErrorNotReady, cudaStreamQuery(stream));
    atomic_store(&held, 1);
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(atomic_load(&after_held), 1);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

/* A graph has more branches than its executable graph has streams. */
static void many_branches_are_all_run(void **state)
{
    enum { BRANCHES = 23 };
    struct cudaMemsetParams fill = {.value = 4, .elementSize = 1, .width = 64, .height = 1};
    cudaGraphNode_t ends[BRANCHES], node;
    gate held[BRANCHES] = {0};
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    gate done = 0;

    (void)state;
    memset(pinned, 0, BYTES);
    OK(cudaGraphCreate(&graph, 0));
    for (int i = 0; i < BRANCHES; i++) {
        struct cudaHostNodeParams wait = {wait_at_gate, &held[i]};

        OK(cudaGraphAddHostNode(&node, graph, NULL, 0, &wait));
        fill.dst = pinned + i * 64;
        OK(cudaGraphAddMemsetNode(&ends[i], graph, &node, 1, &fill));
    }
    OK(cudaGraphAddHostNode(&node, graph, ends, BRANCHES, &(struct cudaHostNodeParams){set_flag, &done}));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 0; round < 2; round++) {
        atomic_store(&done, 0);
        for (int i = 0; i < BRANCHES; i++)
            atomic_store(&held[i], 0);
        memset(pinned, 0, BYTES);
        OK(cudaGraphLaunch(exec, stream));
        for (int i = BRANCHES - 1; i >= 0; i--) {
            assert_int_equal(atomic_load(&done), 0);
            atomic_store(&held[i], 1);
        }
        OK(cudaStreamSynchronize(stream));
        assert_int_equal(atomic_load(&done), 1);
        HAS_BYTES(pinned, BRANCHES * 64, 4);
    }
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

/* ---- launch after launch ---- */

struct turns {
    gate open;
    atomic_int running, most, done;
};

static void take_turn(void *argument)
{
    struct turns *turns = argument;
    int now = atomic_fetch_add(&turns->running, 1) + 1;

    if (now > atomic_load(&turns->most))
        atomic_store(&turns->most, now);
    wait_at_gate(&turns->open);
    atomic_fetch_sub(&turns->running, 1);
    atomic_fetch_add(&turns->done, 1);
}

static void launches_take_turns(void **state)
{
    struct turns turns = {0};
    struct cudaHostNodeParams host = {take_turn, &turns};
    cudaStream_t streams[3] = {stream, other, NULL};
    cudaGraphNode_t node;
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddHostNode(&node, graph, NULL, 0, &host));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    for (int i = 0; i < 6; i++)
        OK(cudaGraphLaunch(exec, streams[i % 3]));
    while (!atomic_load(&turns.running))
        sleep_ms(1);
    sleep_ms(5);
    assert_int_equal(atomic_load(&turns.done), 0);
    atomic_store(&turns.open, 1);
    OK(cudaDeviceSynchronize());
    assert_int_equal(atomic_load(&turns.done), 6);
    assert_int_equal(atomic_load(&turns.most), 1);
    OK(cudaGraphExecDestroy(exec));
}

/* Changing an executable graph after a launch affects only later launches. */
static void launches_keep_what_they_were_given(void **state)
{
    gate held = 0;
    struct cudaHostNodeParams wait = {wait_at_gate, &held};
    struct cudaMemsetParams fill = {.value = 1, .elementSize = 1, .width = 100, .height = 1};
    cudaGraphExecUpdateResultInfo info;
    cudaGraphNode_t first, second;
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    memset(pinned, 0, BYTES);
    fill.dst = pinned;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddHostNode(&first, graph, NULL, 0, &wait));
    OK(cudaGraphAddMemsetNode(&second, graph, &first, 1, &fill));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, stream));
    fill.dst = pinned + 100;
    fill.value = 2;
    OK(cudaGraphExecMemsetNodeSetParams(exec, second, &fill));
    OK(cudaGraphLaunch(exec, stream));
    fill.dst = pinned + 200;
    fill.value = 3;
    OK(cudaGraphMemsetNodeSetParams(second, &fill));
    OK(cudaGraphExecUpdate(exec, graph, &info));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaGraphNodeSetEnabled(exec, second, 0));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    HAS_BYTES(pinned, 400, 0);
    atomic_store(&held, 1);
    OK(cudaStreamSynchronize(stream));
    HAS_BYTES(pinned, 100, 1);
    HAS_BYTES(pinned + 100, 100, 2);
    HAS_BYTES(pinned + 200, 100, 3);
    HAS_BYTES(pinned + 300, 100, 0);
}

/* All branches of a graph come after earlier work and before later work of the stream in which it is launched. */
static void graphs_keep_their_place_in_the_stream(void **state)
{
    gate held = 0, late = 0;
    struct cudaMemsetParams fill = {.value = 7, .elementSize = 1, .width = 64, .height = 1};
    cudaGraphNode_t node;
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    memset(pinned, 0, BYTES);
    OK(cudaGraphCreate(&graph, 0));
    for (int i = 0; i < 3; i++) {
        fill.dst = pinned + i * 64;
        OK(cudaGraphAddMemsetNode(&node, graph, NULL, 0, &fill));
    }
    OK(cudaGraphAddHostNode(&node, graph, NULL, 0, &(struct cudaHostNodeParams){wait_at_gate, &late}));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaLaunchHostFunc(stream, wait_at_gate, &held));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaMemsetAsync(pinned + 500, 9, 100, stream));
    sleep_ms(2);
    HAS_BYTES(pinned, 600, 0);
    atomic_store(&held, 1);
    sleep_ms(2);
    HAS_BYTES(pinned + 500, 100, 0);
    atomic_store(&late, 1);
    OK(cudaStreamSynchronize(stream));
    HAS_BYTES(pinned, 3 * 64, 7);
    HAS_BYTES(pinned + 500, 100, 9);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

/* ---- devices ---- */

LEAT_KERNEL(add_to_all, 3, unsigned char *, data, uint64_t, count, uint8_t, what)
{
    LEAT_FOR (i, count)
        data[i] = (unsigned char)(data[i] + what);
}

static void nodes_run_on_their_devices(void **state)
{
    struct cudaMemsetParams fill = {.value = 5, .elementSize = 1, .width = BYTES, .height = 1};
    uint64_t count = BYTES;
    uint8_t what = 3;
    unsigned char *far;
    void *args[] = {&far, &count, &what};
    struct cudaKernelNodeParams kernel = {.func = (void *)(uintptr_t)&leat_cpu_kernel_add_to_all,
                                          .gridDim = {2, 1, 1},
                                          .blockDim = {64, 1, 1},
                                          .kernelParams = args};
    cudaGraphNode_t filled, copied, added, back;
    cudaStream_t there;
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    OK(cudaSetDevice(1));
    OK(cudaStreamCreate(&there));
    OK(cudaMalloc((void **)&far, BYTES));
    OK(cudaSetDevice(0));
    OK(cudaGraphCreate(&graph, 0));
    fill.dst = device;
    OK(cudaGraphAddMemsetNode(&filled, graph, NULL, 0, &fill));
    OK(cudaGraphAddMemcpyNode1D(&copied, graph, &filled, 1, far, device, BYTES, cudaMemcpyDeviceToDevice));
    OK(cudaSetDevice(1));
    OK(cudaGraphAddKernelNode(&added, graph, &copied, 1, &kernel));
    OK(cudaSetDevice(0));
    OK(cudaGraphAddMemcpyNode1D(&back, graph, &added, 1, pinned, far, BYTES, cudaMemcpyDeviceToHost));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    /* The current device is not the device of the node. */
    GIVES(cudaErrorInvalidValue, cudaGraphExecKernelNodeSetParams(exec, added, &kernel));
    for (int round = 0; round < 4; round++) { /* launched in streams of both devices in turn */
        memset(pinned, 0, BYTES);
        OK(cudaGraphLaunch(exec, round % 2 ? there : stream));
        OK(cudaStreamSynchronize(round % 2 ? there : stream));
        HAS_BYTES(pinned, BYTES, 8);
    }
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaSetDevice(1));
    OK(cudaStreamDestroy(there));
    OK(cudaFree(far));
    OK(cudaSetDevice(0));
}

/* ---- user objects ---- */

static void count_up(void *argument)
{
    atomic_fetch_add((atomic_int *)argument, 1);
}

static void objects_end_with_their_last_reference(void **state)
{
    atomic_int ended = 0;
    cudaUserObject_t object;
    cudaGraph_t graph, clone;
    cudaGraphExec_t exec;

    (void)state;
    OK(cudaUserObjectCreate(&object, &ended, count_up, 2, cudaUserObjectNoDestructorSync));
    OK(cudaUserObjectRetain(object, 3));
    OK(cudaUserObjectRelease(object, 4));
    GIVES(cudaErrorInvalidValue, cudaUserObjectRelease(object, 2)); /* more references than the program owns */
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphRetainUserObject(graph, object, 2, 0));
    OK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove)); /* the last reference */
    GIVES(cudaErrorInvalidValue, cudaUserObjectRelease(object, 1));
    GIVES(cudaErrorInvalidValue, cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
    OK(cudaGraphReleaseUserObject(graph, object, 2));
    GIVES(cudaErrorInvalidValue, cudaGraphReleaseUserObject(graph, object, 2));
    OK(cudaGraphClone(&clone, graph));
    OK(cudaGraphReleaseUserObject(graph, object, 1));
    OK(cudaGraphDestroy(graph));
    assert_int_equal(ended, 0);
    OK(cudaGraphInstantiate(&exec, clone, 0));
    OK(cudaGraphDestroy(clone));
    assert_int_equal(ended, 0);
    OK(cudaGraphExecDestroy(exec));
    assert_int_equal(ended, 1);
    GIVES(cudaErrorInvalidValue, cudaUserObjectRetain(object, 1));
    GIVES(cudaErrorInvalidValue, cudaUserObjectRelease(object, 1));

    OK(cudaUserObjectCreate(&object, &ended, count_up, 1, cudaUserObjectNoDestructorSync));
    OK(cudaUserObjectRelease(object, 1));
    assert_int_equal(ended, 2);
    GIVES(cudaErrorInvalidValue, cudaUserObjectCreate(&object, &ended, count_up, 1, 0));
    GIVES(cudaErrorInvalidValue, cudaUserObjectCreate(&object, &ended, count_up, 0, 1));
    GIVES(cudaErrorInvalidValue, cudaUserObjectCreate(&object, &ended, NULL, 1, 1));
    GIVES(cudaErrorInvalidValue, cudaUserObjectCreate(NULL, &ended, count_up, 1, 1));
    GIVES(cudaErrorInvalidValue, cudaUserObjectCreate(&object, &ended, count_up, 1u << 31, 1));
    OK(cudaUserObjectCreate(&object, &ended, count_up, 1, 1));
    OK(cudaGraphCreate(&graph, 0));
    GIVES(cudaErrorInvalidValue, cudaGraphRetainUserObject(graph, object, 0, 0));
    GIVES(cudaErrorInvalidValue, cudaGraphRetainUserObject(graph, object, 1, 2));
    GIVES(cudaErrorInvalidValue, cudaGraphRetainUserObject(NULL, object, 1, 0));
    GIVES(cudaErrorInvalidValue, cudaGraphReleaseUserObject(graph, object, 1));
    OK(cudaUserObjectRelease(object, 1));
    assert_int_equal(ended, 3);
    OK(cudaGraphDestroy(graph));
}

/* Waits until the count is reached, for at most 30 seconds. */
static void comes_to(atomic_int *count, int wanted)
{
    for (int i = 0; i < 30000 && atomic_load(count) != wanted; i++)
        sleep_ms(1);
    assert_int_equal(atomic_load(count), wanted);
}

/* The user objects of an executable graph are destroyed after its launches are complete, not earlier. */
static void objects_outlive_the_launches_that_need_them(void **state)
{
    atomic_int ended = 0, replaced = 0;
    gate held = 0;
    struct cudaHostNodeParams wait = {wait_at_gate, &held};
    cudaGraphExecUpdateResultInfo info;
    cudaUserObject_t object, second;
    cudaGraphNode_t node;
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    OK(cudaUserObjectCreate(&object, &replaced, count_up, 1, 1));
    OK(cudaUserObjectCreate(&second, &ended, count_up, 1, 1));
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddHostNode(&node, graph, NULL, 0, &wait));
    OK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaGraphReleaseUserObject(graph, object, 1));
    OK(cudaGraphRetainUserObject(graph, second, 1, cudaGraphUserObjectMove));
    OK(cudaGraphExecUpdate(exec, graph, &info)); /* from now on the executable graph holds the second object */
    OK(cudaGraphDestroy(graph));
    sleep_ms(2);
    assert_int_equal(replaced, 0);
    atomic_store(&held, 1);
    comes_to(&replaced, 1);
    assert_int_equal(ended, 0);
    OK(cudaStreamSynchronize(stream));
    atomic_store(&held, 0);
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaGraphExecDestroy(exec));
    sleep_ms(2);
    assert_int_equal(ended, 0);
    atomic_store(&held, 1);
    comes_to(&ended, 1);
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(replaced, 1);
}

/* The user object of a child graph lives until its last copy ends: the copies in two nodes and in an executable
 * graph. */
static void objects_of_child_graphs_go_with_them(void **state)
{
    atomic_int ended = 0;
    cudaUserObject_t object;
    cudaGraph_t graph, child;
    cudaGraphNode_t first, second;
    cudaGraphExec_t exec;

    (void)state;
    OK(cudaUserObjectCreate(&object, &ended, count_up, 1, 1));
    OK(cudaGraphCreate(&child, 0));
    OK(cudaGraphRetainUserObject(child, object, 1, cudaGraphUserObjectMove));
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddChildGraphNode(&first, graph, NULL, 0, child));
    OK(cudaGraphAddChildGraphNode(&second, graph, NULL, 0, child));
    OK(cudaGraphDestroy(child));
    OK(cudaGraphDestroyNode(first));
    assert_int_equal(ended, 0);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroyNode(second));
    assert_int_equal(ended, 0);
    OK(cudaGraphExecDestroy(exec));
    assert_int_equal(ended, 1);
    OK(cudaGraphDestroy(graph));
}

static int set_up(void **state)
{
    (void)state;
    return cudaStreamCreate(&stream) || cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) ||
           cudaMalloc((void **)&device, BYTES) || cudaMallocHost((void **)&pinned, BYTES) ||
           cudaMallocHost((void **)&plan, NODES_MOST * sizeof *plan) ||
           cudaMallocHost((void **)&cells, (NODES_MOST + 1) * sizeof *cells) || !(salt = &cells[NODES_MOST]);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(random_graphs_keep_their_edges),
    cmocka_unit_test(branches_run_beside_each_other),
    cmocka_unit_test(many_branches_are_all_run),
    cmocka_unit_test(launches_take_turns),
    cmocka_unit_test(launches_keep_what_they_were_given),
    cmocka_unit_test(graphs_keep_their_place_in_the_stream),
    cmocka_unit_test(nodes_run_on_their_devices),
    cmocka_unit_test(objects_end_with_their_last_reference),
    cmocka_unit_test(objects_outlive_the_launches_that_need_them),
    cmocka_unit_test(objects_of_child_graphs_go_with_them),
};

int main(void)
{
    int wrong = cmocka_run_group_tests(tests, set_up, NULL);

    for (int i = 0; i < 2; i++)
        wrong += cudaSetDevice(i) || cudaDeviceReset();
    return wrong ? 1 : 0;
}
