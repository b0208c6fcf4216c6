/* object.c - implements user objects: resources of the program that are destroyed when the last reference is
 * released. The program and its graphs own the references. */
#include "engine/inside.h"
#include "base/assert.h"

#include <limits.h>
#include <stdlib.h>

struct leatc_object {
    struct leati_handle handle;
    unsigned long long count;       /* number of all references; guarded by the lock of graphs */
    unsigned long long count_owned; /* number of references that the program owns, which count includes */
    void *ptr;
    void (*destroy)(void *ptr);
    struct leatc_object *next_ended;
};

static struct leati_handles objects = LEATI_HANDLES(struct leatc_object);

static bool is_count(unsigned count)
{
    return count && count <= INT_MAX;
}

int leatc_object_create(void *ptr, void (*destroy)(void *), unsigned count, struct leatc_object **object)
{
    struct leatc_object *made;

    if (!object || !destroy || !is_count(count))
        return LEATC_INVALID_VALUE;
    made = leati_handle_new(&objects);
    if (!made)
        return LEATC_OUT_OF_MEMORY;
    made->count = made->count_owned = count;
    made->ptr = ptr;
    made->destroy = destroy;
    leati_handle_publish(made);
    *object = made;
    return LEATC_OK;
}

/* ---- with the lock of graphs held ---- */

static void release(struct leatc_object *object, unsigned long long count, struct leatc_object **ended)
    LEATI_REQUIRES(leatc_graph_lock)
{
    leati_assert_locked(&leatc_graph_lock);
    leati_assert(object->count >= count && count);
    object->count -= count;
    if (object->count)
        return;
    (void)leati_handle_retire(&objects, object);
    object->next_ended = *ended;
    *ended = object;
}

static struct leatc_holding *find_holding(struct leatc_holding *holdings, const struct leatc_object *object)
    LEATI_REQUIRES(leatc_graph_lock)
{
    while (holdings && holdings->object != object)
        holdings = holdings->next;
    return holdings;
}

static bool hold(struct leatc_holding **holdings, struct leatc_object *object, unsigned long long count)
    LEATI_REQUIRES(leatc_graph_lock)
{
    struct leatc_holding *holding = find_holding(*holdings, object);

    leati_assert_locked(&leatc_graph_lock);
    if (!holding) {
        holding = malloc(sizeof *holding);
        if (!holding)
            return false;
        *holding = (struct leatc_holding){.next = *holdings, .object = object};
        *holdings = holding;
    }
    holding->count += count;
    return true;
}

bool leatc_holdings_copy(struct leatc_holding **to, const struct leatc_holding *from)
{
    leati_assert_locked(&leatc_graph_lock);
    for (; from; from = from->next) {
        if (!hold(to, from->object, from->count))
            return false;
        from->object->count += from->count;
    }
    return true;
}

void leatc_holdings_move(struct leatc_holding **to, struct leatc_holding **from)
{
    struct leatc_holding **end = from;

    leati_assert_locked(&leatc_graph_lock);
    while (*end)
        end = &(*end)->next;
    *end = *to;
    *to = *from;
    *from = NULL;
}

void leatc_holdings_release(struct leatc_holding *holdings, struct leatc_object **ended)
{
    leati_assert_locked(&leatc_graph_lock);
    for (struct leatc_holding *next; holdings; holdings = next) {
        next = holdings->next;
        release(holdings->object, holdings->count, ended);
        free(holdings);
    }
}

/* ---- without the lock of graphs ---- */

void leatc_objects_destroy(struct leatc_object *ended)
{
    leati_assert_unlocked(&leatc_graph_lock);
    for (struct leatc_object *next; ended; ended = next) {
        next = ended->next_ended;
        ended->destroy(ended->ptr);
        leati_handle_free(&objects, ended);
    }
}

int leatc_object_retain(struct leatc_object *object, unsigned count)
{
    int result = LEATC_INVALID_VALUE;

    leatc_graphs_lock();
    if (is_count(count) && leati_handle_live(&objects, object)) {
        object->count += count;
        object->count_owned += count;
        result = LEATC_OK;
    }
    leatc_graphs_unlock();
    return result;
}

int leatc_object_release(struct leatc_object *object, unsigned count)
{
    struct leatc_object *ended = NULL;
    int result = LEATC_INVALID_VALUE;

    leatc_graphs_lock();
    if (is_count(count) && leati_handle_live(&objects, object) && count <= object->count_owned) {
        object->count_owned -= count;
        release(object, count, &ended);
        result = LEATC_OK;
    }
    leatc_graphs_unlock();
    leatc_objects_destroy(ended);
    return result;
}

int leatc_graph_retain(struct leatc_graph *graph, struct leatc_object *object, unsigned count, bool move)
{
    int result = LEATC_INVALID_VALUE;

    leatc_graphs_lock();
    if (is_count(count) && leatc_graph_live(graph) && leati_handle_live(&objects, object) &&
        !(move && count > object->count_owned)) {
        result = hold(&graph->holdings, object, count) ? LEATC_OK : LEATC_OUT_OF_MEMORY;
        if (result == LEATC_OK && move)
            object->count_owned -= count;
        else if (result == LEATC_OK)
            object->count += count;
    }
    leatc_graphs_unlock();
    return result;
}

int leatc_graph_release(struct leatc_graph *graph, struct leatc_object *object, unsigned count)
{
    struct leatc_object *ended = NULL;
    struct leatc_holding **link, *holding = NULL;
    int result = LEATC_INVALID_VALUE;

    leatc_graphs_lock();
    if (is_count(count) && leatc_graph_live(graph)) {
        for (link = &graph->holdings; *link && (*link)->object != object;)
            link = &(*link)->next;
        holding = *link;
    }
    if (holding && count <= holding->count) {
        holding->count -= count;
        release(object, count, &ended);
        if (!holding->count) {
            *link = holding->next;
            free(holding);
        }
        result = LEATC_OK;
    }
    leatc_graphs_unlock();
    leatc_objects_destroy(ended);
    return result;
}
