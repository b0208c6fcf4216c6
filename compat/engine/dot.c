/* dot.c - writes graphs as text in the DOT language. It makes the text with the lock of graphs held, and writes
 * the file after it has released the lock. */
#include "engine/inside.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *type_name(int type)
{
    static const char *const names[] = {
        [LEATC_NODE_KERNEL] = "KERNEL", [LEATC_NODE_COPY] = "MEMCPY",       [LEATC_NODE_FILL] = "MEMSET",
        [LEATC_NODE_HOST] = "HOST",     [LEATC_NODE_GRAPH] = "GRAPH",       [LEATC_NODE_EMPTY] = "EMPTY",
        [LEATC_NODE_WAIT] = "WAIT",     [LEATC_NODE_RECORD] = "RECORD",     [LEATC_NODE_ALLOC] = "MEM_ALLOC",
        [LEATC_NODE_FREE] = "MEM_FREE", [LEATC_NODE_BATCH] = "BATCH_MEM_OP"};

    return type >= 0 && (size_t)type < sizeof names / sizeof names[0] && names[type] ? names[type] : "NODE";
}

/* Prints the name of a kernel: the symbol of its function or of its leat_cpu_kernel, without the prefix that
 * LEAT_KERNEL adds. Prints the address if there is no symbol. */
static void print_function(FILE *text, const void *function)
{
    static const char prefix[] = "leat_cpu_kernel_";
    Dl_info info;

    if (!dladdr(function, &info) || !info.dli_sname || info.dli_saddr != function)
        fprintf(text, "%p", function);
    else
        fputs(strncmp(info.dli_sname, prefix, sizeof prefix - 1) ? info.dli_sname
                                                                 : info.dli_sname + sizeof prefix - 1,
              text);
}

static void print_kernel(FILE *text, const struct leatc_kernel_task *kernel, bool details)
{
    fputs("\\n", text);
    print_function(text, kernel->function);
    if (details)
        fprintf(text, "\\ngrid %u x %u x %u, block %u x %u x %u, shared %zu bytes", kernel->grid.x, kernel->grid.y,
                kernel->grid.z, kernel->block.x, kernel->block.y, kernel->block.z, kernel->shared_bytes);
}

static const char *side_name(int place)
{
    return place == LEATC_PLACE_HOST ? "host" : place == LEATC_PLACE_MANAGED ? "managed" : "device";
}

static void print_copy(FILE *text, const struct leatc_copy_places *copy, bool details)
{
    const leat_copy_region *region = &copy->copy.region;

    fprintf(text, "\\n%s to %s", side_name(copy->src), side_name(copy->dst));
    if (!details)
        return;
    fprintf(text, "\\nfrom %p to %p, %zu x %zu x %zu bytes", copy->copy.src, copy->copy.dst, region->width_bytes,
            region->height, region->depth);
    if (region->height > 1 || region->depth > 1)
        fprintf(text, "\\nsource pitch %zu, slice %zu; destination pitch %zu, slice %zu", region->src_pitch_bytes,
                region->src_slice_bytes, region->dst_pitch_bytes, region->dst_slice_bytes);
}

static void print_fill(FILE *text, const struct leatc_fill_task *fill)
{
    fprintf(text, "\\n%p, %zu x %zu units of %u bytes, pitch %zu, value %u", fill->dst, fill->width, fill->height,
            fill->unit_bytes, fill->pitch_bytes, (unsigned)fill->value);
}

static void print_host(FILE *text, const struct leatc_host_task *host)
{
    void *function;

    memcpy(&function, &host->function, sizeof function);
    fputs("\\n", text);
    print_function(text, function);
    fprintf(text, "(%p)", host->argument);
}

static void print_task(FILE *text, const struct leatc_task *task, bool details)
{
    const void *payload = task->payload;

    switch (task->type) {
    case LEATC_NODE_KERNEL:
        print_kernel(text, payload, details);
        break;
    case LEATC_NODE_COPY:
        print_copy(text, payload, details);
        break;
    case LEATC_NODE_FILL:
        if (details)
            print_fill(text, payload);
        break;
    case LEATC_NODE_HOST:
        if (details)
            print_host(text, payload);
        break;
    case LEATC_NODE_ALLOC:
        if (details)
            fprintf(text, "\\n%p, %zu bytes", ((const struct leatc_alloc_task *)payload)->ptr,
                    ((const struct leatc_alloc_task *)payload)->bytes);
        break;
    case LEATC_NODE_FREE:
        if (details)
            fprintf(text, "\\n%p", ((const struct leatc_free_task *)payload)->ptr);
        break;
    default:
        break;
    }
}

/* Prints the nodes of a graph and of its child graphs, then its edges. */
static void print_graph(FILE *text, const struct leatc_graph *graph, bool details)
{
    fprintf(text, "subgraph cluster_%llu {\nlabel=\"graph_%llu\" graph[style=\"dashed\"];\n", graph->id,
            graph->id);
    for (size_t i = 0; i < graph->count; i++) {
        const struct leatc_node *node = graph->nodes[i];

        fprintf(text, "\"graph_%llu_node_%zu\"[style=\"bold\" shape=\"%s\" label=\"%zu\\n%s", graph->id, i,
                node->task->type == LEATC_NODE_KERNEL ? "octagon" : "rectangle", i, type_name(node->task->type));
        print_task(text, node->task, details);
        if (node->child)
            fprintf(text, "\\ngraph_%llu", node->child->id);
        fputs("\"];\n", text);
        if (node->child)
            print_graph(text, node->child, details);
    }
    for (size_t i = 0; i < graph->count; i++)
        for (size_t j = 0; j < graph->nodes[i]->after.count; j++)
            fprintf(text, "\"graph_%llu_node_%zu\" -> \"graph_%llu_node_%zu\";\n", graph->id, i, graph->id,
                    graph->nodes[i]->after.nodes[j]->index);
    fputs("}\n", text);
}

/* Makes the text of the whole graph in *made, which the caller frees. */
static int make_text(const struct leatc_graph *graph, bool details, char **made)
{
    size_t bytes = 0;
    FILE *text;
    bool failed;

    *made = NULL;
    text = open_memstream(made, &bytes);
    if (!text)
        return LEATC_OUT_OF_MEMORY;
    fputs("digraph dot {\n", text);
    print_graph(text, graph, details);
    fputs("}\n", text);
    failed = ferror(text);
    if (fclose(text) || failed) {
        free(*made);
        return LEATC_OUT_OF_MEMORY;
    }
    return LEATC_OK;
}

static int write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    bool failed;

    if (!file)
        return LEATC_OPERATING_SYSTEM;
    failed = fputs(text, file) < 0;
    return fclose(file) || failed ? LEATC_OPERATING_SYSTEM : LEATC_OK;
}

int leatc_graph_print(struct leatc_graph *graph, const char *path, bool details)
{
    int result = LEATC_INVALID_VALUE;
    char *text = NULL;

    leatc_graphs_lock();
    if (path && leatc_graph_live(graph))
        result = make_text(graph, details, &text);
    leatc_graphs_unlock();
    if (result == LEATC_OK) {
        result = write_text(path, text);
        free(text);
    }
    return result;
}
