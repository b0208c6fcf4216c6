/* node_attribute.c - sets and returns attributes of kernel nodes, by the vendors' numbers. */
#include "base/lock.h"
#include "engine/inside.h"

#include <stdlib.h>
#include <string.h>

/* Returns true if the node is a live kernel node. The caller holds the lock of graphs. */
static bool is_kernel(const struct leatc_node *node) LEATI_REQUIRES(leatc_graph_lock)
{
    return leatc_node_live(node) && node->task->type == LEATC_NODE_KERNEL;
}

static struct leatc_attribute *find_attribute(const struct leatc_node *node, int number)
{
    for (unsigned i = 0; i < node->attribute_count; i++)
        if (node->attributes[i].number == number)
            return &node->attributes[i];
    return NULL;
}

static struct leatc_attribute *new_attribute(struct leatc_node *node, int number)
{
    struct leatc_attribute *larger =
        realloc(node->attributes, (node->attribute_count + 1) * sizeof *node->attributes);

    if (!larger)
        return NULL;
    node->attributes = larger;
    larger += node->attribute_count++;
    larger->number = number;
    return larger;
}

/* Attribute numbers that both vendors use. */
enum {
    ATTRIBUTE_COOPERATIVE = 2,
    ATTRIBUTE_CLUSTER = 4,
    ATTRIBUTE_CLUSTER_POLICY = 5,
    ATTRIBUTE_SYNC_MAP = 9,
    ATTRIBUTE_SYNC = 10,
    ATTRIBUTE_CARVEOUT = 14
};

static int check_number(int number)
{
    switch (number) {
    case LEATC_ATTRIBUTE_WINDOW:
    case ATTRIBUTE_COOPERATIVE:
    case ATTRIBUTE_CLUSTER:
    case ATTRIBUTE_CLUSTER_POLICY:
    case LEATC_ATTRIBUTE_PRIORITY:
    case ATTRIBUTE_SYNC_MAP:
    case ATTRIBUTE_SYNC:
    case ATTRIBUTE_CARVEOUT:
        return LEATC_OK;
    default:
        return LEATC_INVALID_VALUE;
    }
}

/* An access policy window asks caches to keep a range. leat cannot control caches, so this function only checks
 * the values. */
int leatc_window_check(float ratio, int hit, int miss)
{
    return ratio >= 0 && ratio <= 1 && hit >= 0 && hit <= 2 && miss >= 0 && miss <= 1 ? LEATC_OK
                                                                                      : LEATC_INVALID_VALUE;
}

static int check_attribute(int number, const void *value)
{
    uint32_t numbers[3];

    LEATC_TRY(check_number(number));
    memcpy(numbers, value, sizeof numbers);
    switch (number) {
    case ATTRIBUTE_COOPERATIVE:
        return numbers[0] ? LEATC_NOT_SUPPORTED : LEATC_OK;
    case ATTRIBUTE_CLUSTER:
        return numbers[0] > 1 || numbers[1] > 1 || numbers[2] > 1 ? LEATC_NOT_SUPPORTED : LEATC_OK;
    default:
        return LEATC_OK;
    }
}

int leatc_node_set_attribute(struct leatc_node *node, int number, const void *value)
{
    struct leatc_attribute *attribute;

    if (!value)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_attribute(number, value));
    leatc_graphs_lock();
    if (!is_kernel(node))
        return leatc_graphs_unlock_with(LEATC_INVALID_VALUE);
    attribute = find_attribute(node, number);
    if (!attribute)
        attribute = new_attribute(node, number);
    if (!attribute)
        return leatc_graphs_unlock_with(LEATC_OUT_OF_MEMORY);
    memcpy(attribute->value, value, LEATC_ATTRIBUTE_BYTES);
    return leatc_graphs_unlock_with(LEATC_OK);
}

int leatc_node_attribute(struct leatc_node *node, int number, void *value)
{
    const struct leatc_attribute *attribute;

    if (!value)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_number(number));
    leatc_graphs_lock();
    if (!is_kernel(node))
        return leatc_graphs_unlock_with(LEATC_INVALID_VALUE);
    attribute = find_attribute(node, number);
    memset(value, 0, LEATC_ATTRIBUTE_BYTES);
    if (attribute)
        memcpy(value, attribute->value, LEATC_ATTRIBUTE_BYTES);
    return leatc_graphs_unlock_with(LEATC_OK);
}

bool leatc_attributes_copy(struct leatc_node *to, const struct leatc_node *from)
{
    size_t bytes = from->attribute_count * sizeof *from->attributes;
    struct leatc_attribute *copy = bytes ? malloc(bytes) : NULL;

    if (bytes && !copy)
        return false;
    if (bytes)
        memcpy(copy, from->attributes, bytes);
    free(to->attributes);
    to->attributes = copy;
    to->attribute_count = from->attribute_count;
    return true;
}

int leatc_node_copy_attributes(struct leatc_node *dst, struct leatc_node *src)
{
    leatc_graphs_lock();
    if (!is_kernel(dst) || !is_kernel(src))
        return leatc_graphs_unlock_with(LEATC_INVALID_VALUE);
    return leatc_graphs_unlock_with(dst == src || leatc_attributes_copy(dst, src) ? LEATC_OK
                                                                                  : LEATC_OUT_OF_MEMORY);
}
