/* pools.c - see pools.h. */
#include "trace/pools.h"

#include "trace/trace_strings.h"

#include <stdio.h>

/* Release and acquire: what the function needs is ready when it is seen. */
static _Atomic(leati_pools_function) function;

void leati_trace_pools(leati_pools_function each)
{
    atomic_store_explicit(&function, each, memory_order_release);
}

/* What one look needs. */
struct look {
    struct leati_pool_list *list;
    struct leati_live_pool *places;
    uint64_t now_ns;
};

static void add_change(const struct look *look, unsigned place, uint64_t used_bytes, uint64_t reserved_bytes)
{
    struct leati_live_pool *pool = &look->places[place];

    if (pool->used_bytes == used_bytes && pool->reserved_bytes == reserved_bytes)
        return;
    pool->used_bytes = used_bytes;
    pool->reserved_bytes = reserved_bytes;
    look->list->changes[look->list->change_count++] = (struct leati_trace_pool_memory){
        .time_ns = look->now_ns, .pool = pool->id, .used_bytes = used_bytes, .reserved_bytes = reserved_bytes};
}

/* Gives a pool an empty place. Returns false if there is none. */
static bool add_pool(const struct look *look, const struct leati_traced_pool *pool, unsigned *place)
{
    struct leati_pool_list *list = look->list;
    struct leati_live_pool *empty;

    for (*place = 0; *place < LEATI_LIVE_POOLS && list->kept[*place].serial; (*place)++)
        continue;
    if (*place == LEATI_LIVE_POOLS)
        return false;
    list->kept[*place].serial = pool->serial;
    empty = &look->places[*place];
    *empty = (struct leati_live_pool){.id = ++list->last_id, .memory = leati_span_kind(pool->kind)};
    snprintf(empty->name, sizeof empty->name, "%s", pool->name);
    snprintf(empty->device, sizeof empty->device, "%s", pool->device);
    list->made[list->made_count++] = (struct leati_trace_pool){.id = empty->id,
                                                               .name = leati_trace_string(pool->name),
                                                               .device = leati_trace_string(pool->device),
                                                               .memory = empty->memory};
    return true;
}

/* See leati_pool_seen. */
static void see_pool(void *context, const struct leati_traced_pool *pool)
{
    const struct look *look = context;
    unsigned place = 0;

    while (place < LEATI_LIVE_POOLS && look->list->kept[place].serial != pool->serial)
        place++;
    if (place == LEATI_LIVE_POOLS && !add_pool(look, pool, &place))
        return;
    look->list->kept[place].is_seen = true;
    add_change(look, place, pool->used_bytes, pool->reserved_bytes);
}

void leati_pools_look(struct leati_pool_list *list, struct leati_live_pool places[LEATI_LIVE_POOLS],
                      uint64_t now_ns)
{
    leati_pools_function each = atomic_load_explicit(&function, memory_order_acquire);
    struct look look = {list, places, now_ns};

    list->made_count = list->change_count = 0;
    list->time_ns = now_ns;
    for (unsigned i = 0; i < LEATI_LIVE_POOLS; i++)
        list->kept[i].is_seen = false;
    if (!each || !each(see_pool, &look))
        return;
    for (unsigned i = 0; i < LEATI_LIVE_POOLS; i++)
        if (list->kept[i].serial && !list->kept[i].is_seen) {
            add_change(&look, i, 0, 0);
            list->kept[i].serial = 0;
            places[i].id = 0;
        }
}
