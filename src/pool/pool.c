/* pool.c - creates and destroys pools; checks options, limits and budgets. */
#include "pool/pool.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/options.h"
#include "base/sized.h"
#include "base/strbuf.h"
#include "core/virtual.h"
#include "pool/share.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct leati_handles leati_pool_handles = LEATI_HANDLES(struct leat_pool);
struct leati_handles leati_budget_handles = LEATI_HANDLES(struct leat_budget);

/* The list of all pools, and its lock. */
static struct leati_lock list_lock = LEATI_LOCK_INITIALIZER;
static struct leat_pool *list LEATI_GUARDED_BY(list_lock);

static const char *const own_names[] = {
    [LEAT_KIND_PINNED] = "leat's own pinned memory", [LEAT_KIND_DEVICE] = "leat's own device memory"};
static const char *const packing_words[] = {
    [LEAT_POOL_PACKING_AUTO] = "auto", [LEAT_POOL_PACKING_STILL] = "still", [LEAT_POOL_PACKING_TIGHT] = "tight"};
static const char *const default_names[] = {[LEAT_KIND_PINNED] = "the pinned pool",
                                            [LEAT_KIND_DEVICE] = "the device pool",
                                            [LEAT_KIND_MANAGED] = "the managed pool"};

leat_status leati_check_pool(const char *what, const leat_pool *pool)
{
    if (leati_handle_live(&leati_pool_handles, pool))
        return LEAT_OK;
    return leati_fail(
        LEAT_ERROR_HANDLE,
        "%s: pool %p is not a live pool: it was destroyed, its device was closed, or it never came from leat",
        what, (const void *)pool);
}

static leat_status check_budget(const char *what, const leat_budget *budget)
{
    if (leati_handle_live(&leati_budget_handles, budget))
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_HANDLE,
                      "%s: budget %p is not a live budget: it was destroyed, or never came from leat", what,
                      (const void *)budget);
}

/* ---- limits ---- */

static bool charge_budget(leat_budget *budget, uint64_t bytes)
{
    uint64_t limit = atomic_load_explicit(&budget->limit_bytes, memory_order_relaxed);
    uint64_t used = atomic_load_explicit(&budget->used_bytes, memory_order_relaxed);

    /* Relaxed: no other data depends on used_bytes. */
    do {
        if (bytes > limit || used > limit - bytes)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&budget->used_bytes, &used, used + bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

leat_status leati_pool_charge(struct leat_pool *pool, uint64_t bytes)
{
    uint64_t limit = atomic_load_explicit(&pool->limit_bytes, memory_order_relaxed);
    uint64_t reserved = atomic_load_explicit(&pool->figures.reserved_bytes, memory_order_relaxed);
    leat_status full = pool->kind == LEAT_KIND_PINNED ? LEAT_ERROR_HOST_MEMORY : LEAT_ERROR_DEVICE_MEMORY;

    if (limit && (bytes > limit || reserved > limit - bytes)) {
        pool->refusal = LEATI_REFUSED_LIMIT;
        return leati_fail(full, "the limit of %llu bytes is reached", (unsigned long long)limit);
    }
    if (pool->budget && !charge_budget(pool->budget, bytes)) {
        pool->refusal = LEATI_REFUSED_BUDGET;
        return leati_fail(
            full, "the budget of %llu bytes is reached",
            (unsigned long long)atomic_load_explicit(&pool->budget->limit_bytes, memory_order_relaxed));
    }
    pool->refusal = LEATI_REFUSED_NOT;
    reserved += bytes;
    atomic_store_explicit(&pool->figures.reserved_bytes, reserved, memory_order_relaxed);
    if (reserved > atomic_load_explicit(&pool->figures.reserved_peak_bytes, memory_order_relaxed))
        atomic_store_explicit(&pool->figures.reserved_peak_bytes, reserved, memory_order_relaxed);
    return LEAT_OK;
}

void leati_pool_uncharge(struct leat_pool *pool, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&pool->figures.reserved_bytes, bytes, memory_order_relaxed);
    if (pool->budget)
        atomic_fetch_sub_explicit(&pool->budget->used_bytes, bytes, memory_order_relaxed);
}

/* Tries to take a lock for a short while, but does not block, because the thread that holds the lock may wait for
 * a lock that this thread holds. Pool locks are usually held briefly, so this mostly succeeds. */
static bool try_lock(struct leati_lock *lock) LEATI_TRY_ACQUIRE(true, *lock) LEATI_NO_THREAD_SAFETY
{
    for (int tries = 0; tries < 1000; tries++) {
        if (leati_trylock(lock))
            return true;
        sched_yield();
    }
    return false;
}

static uint64_t take_from(struct leat_pool *other, uint64_t bytes) LEATI_REQUIRES(other->lock)
{
    uint64_t reserved = atomic_load_explicit(&other->figures.reserved_bytes, memory_order_relaxed);
    uint64_t released = 0, pending;

    leati_guard_drain_quarantine(other);
    leati_stream_caches_drain(other);
    leati_slow_path_poll(other, NULL);
    (void)leati_pages_trim(other, reserved > bytes ? reserved - bytes : 0, UINT64_MAX, &released, &pending);
    return released;
}

/* Returns true if both pools use the same memory: the memory of one device, or pinned memory for one device. */
static bool share_memory(const struct leat_pool *pool, const struct leat_pool *other)
{
    return other->device == pool->device && (other->kind == LEAT_KIND_PINNED) == (pool->kind == LEAT_KIND_PINNED);
}

static bool share_budget(const struct leat_pool *pool, const struct leat_pool *other)
{
    return pool->budget && other->budget == pool->budget;
}

/* Returns true if memory that other releases may help pool, whose last request for new memory was refused. */
static bool may_help(const struct leat_pool *pool, const struct leat_pool *other)
{
    return other != pool && (pool->refusal == LEATI_REFUSED_BUDGET ? share_budget : share_memory)(pool, other);
}

bool leati_pool_take_from_others(struct leat_pool *pool, uint64_t bytes)
{
    uint64_t taken = 0;

    leati_assert_locked(&pool->lock);
    if (pool->refusal == LEATI_REFUSED_LIMIT || !try_lock(&list_lock))
        return false;
    for (struct leat_pool *other = list; other && taken < bytes; other = other->next) {
        if (!may_help(pool, other) || !try_lock(&other->lock))
            continue;
        taken += take_from(other, bytes - taken);
        leati_unlock(&other->lock);
    }
    leati_unlock(&list_lock);
    return taken > 0;
}

static void look_at(struct leat_pool *other, struct leati_others *others)
{
    uint64_t held_bytes = atomic_load_explicit(&other->figures.reserved_bytes, memory_order_relaxed);
    struct leati_idle idle;

    others->held_bytes += held_bytes;
    if (held_bytes > others->most_bytes) {
        others->most_bytes = held_bytes;
        memcpy(others->most_name, other->name, sizeof other->name);
    }
    if (!try_lock(&other->lock))
        return;
    leati_full_look(other, other->host, &idle);
    leati_unlock(&other->lock);
    if (idle.pending_bytes > others->pending_bytes) {
        others->pending_bytes = idle.pending_bytes;
        others->pending_stream = idle.streams[0].serial;
        memcpy(others->pending_name, other->name, sizeof other->name);
    }
}

void leati_pool_look_at_others(struct leat_pool *pool, struct leati_others *others)
{
    leati_assert_locked(&pool->lock);
    *others = (struct leati_others){0};
    if (pool->refusal == LEATI_REFUSED_LIMIT || !try_lock(&list_lock))
        return;
    for (struct leat_pool *other = list; other; other = other->next)
        if (may_help(pool, other))
            look_at(other, others);
    leati_unlock(&list_lock);
}

/* ---- creating pools ---- */

static void hook_stream_ends(struct leat_stream *stream);
static leat_status hook_device_closes(struct leat_device *device);

static const struct leati_pool_hooks hooks = {.stream_ends = hook_stream_ends,
                                              .device_ends = leati_shares_abandon,
                                              .device_closes = hook_device_closes,
                                              .stream_waited = leati_shares_stream_waited};

void leati_pool_set_hooks(struct leat_device *device)
{
    /* Release: a thread that sees the hooks also sees what made this call necessary. */
    atomic_store_explicit(&device->pool_hooks, &hooks, memory_order_release);
}

/* Checks the caller's options and copies them. Fields that the caller's version of the struct lacks become 0. */
static leat_status read_options(const char *what, leat_device *device, const leat_pool_options *given,
                                leat_pool_options *options)
{
    const struct leati_driver_ops *ops = device->driver->ops;

    memset(options, 0, sizeof *options);
    if (given) {
        LEATI_TRY(LEATI_SIZED_CHECK(what, "options", leat_pool_options, given));
        LEATI_SIZED_READ(options, given);
    }
    if (!options->kind)
        options->kind = LEAT_KIND_DEVICE;
    if (options->kind != LEAT_KIND_DEVICE && options->kind != LEAT_KIND_PINNED &&
        options->kind != LEAT_KIND_MANAGED)
        return leati_fail(LEAT_ERROR_INVALID, "%s: memory of kind %d cannot be pooled", what, (int)options->kind);
    if ((unsigned)options->reuse > LEAT_POOL_REUSE_WAIT_NEVER)
        return leati_fail(LEAT_ERROR_INVALID, "%s: there is no reuse policy %d", what, (int)options->reuse);
    if ((unsigned)options->packing > LEAT_POOL_PACKING_TIGHT)
        return leati_fail(LEAT_ERROR_INVALID, "%s: there is no packing %d", what, (int)options->packing);
    if (options->limit_bytes && options->soft_limit_bytes > options->limit_bytes)
        return leati_fail(LEAT_ERROR_INVALID, "%s: the soft limit of %llu bytes is above the limit of %llu", what,
                          (unsigned long long)options->soft_limit_bytes, (unsigned long long)options->limit_bytes);
    if (options->exportable && !options->dedicated)
        return leati_fail(LEAT_ERROR_INVALID, "%s: exportable needs dedicated", what);
    if (options->dedicated && options->no_virtual_memory)
        return leati_fail(LEAT_ERROR_INVALID,
                          "%s: dedicated needs virtual memory, so it does not go with no_virtual_memory", what);
    if (options->plan && (options->kind != LEAT_KIND_DEVICE || options->dedicated || options->no_virtual_memory))
        return leati_fail(LEAT_ERROR_INVALID,
                          "%s: a plan is for pools of device memory without dedicated and no_virtual_memory",
                          what);
    if (options->budget)
        LEATI_TRY(check_budget(what, options->budget));
    if (options->kind == LEAT_KIND_MANAGED && !ops->managed_alloc)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "%s: the %s driver has no managed memory", what,
                          device->driver->name);
    return LEAT_OK;
}

/* Sets *yes to whether the device has virtual memory with a granularity that divides LEATI_PAGE_BYTES. */
static leat_status find_virtual_memory(leat_device *device, bool *yes)
{
    const struct leati_driver_ops *ops = device->driver->ops;
    size_t granularity_bytes = 0;
    leat_status status;

    *yes = false;
    if (!ops->vm_granularity)
        return LEAT_OK;
    status = ops->vm_granularity(device->driver, device->native, &granularity_bytes);
    if (status == LEAT_ERROR_UNSUPPORTED)
        return LEAT_OK;
    *yes = status == LEAT_OK && granularity_bytes && LEATI_PAGE_BYTES % granularity_bytes == 0;
    return status;
}

/* Sets *packing to the packing of the options. If this is "auto", uses LEAT_POOL_PACKING instead, if it is set. */
static leat_status choose_packing(const char *what, const leat_pool_options *options, leat_pool_packing *packing)
{
    const char *word = leati_option(LEATI_OPTION_POOL_PACKING);

    *packing = options->packing;
    if (*packing != LEAT_POOL_PACKING_AUTO || !word)
        return LEAT_OK;
    for (int i = LEAT_POOL_PACKING_AUTO; i <= LEAT_POOL_PACKING_TIGHT; i++)
        if (!strcmp(word, packing_words[i])) {
            *packing = (leat_pool_packing)i;
            return LEAT_OK;
        }
    return leati_fail(LEAT_ERROR_INVALID, "%s: LEAT_POOL_PACKING is '%.40s'; it takes auto, still or tight", what,
                      word);
}

/* Fills in a new pool from its options. own: the pool is for leat's internal blocks, so LEAT_POOL_GUARD does not
 * apply to it. */
static void fill(struct leat_pool *pool, leat_device *device, const leat_pool_options *options, bool own,
                 uint64_t history)
{
    static atomic_uint made;
    static _Atomic uint64_t last_serial;

    pool->serial = 1 + atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed);
    pool->device = device;
    pool->kind = options->kind;
    pool->reuse = options->reuse;
    pool->reuse_flags = LEAT_POOL_REUSE_METHOD_ALL;
    atomic_init(&pool->planned_reuse_flags, LEAT_POOL_REUSE_METHOD_ALL);
    pool->budget = options->budget;
    atomic_init(&pool->limit_bytes, options->limit_bytes);
    atomic_init(&pool->soft_limit_bytes, options->soft_limit_bytes);
    pool->dedicated = options->dedicated;
    pool->exportable = options->exportable;
    pool->guard = options->guard || (!own && leati_option_flag(LEATI_OPTION_POOL_GUARD));
    pool->scrub = options->scrub || leati_option_flag(LEATI_OPTION_SCRUB);
    pool->backtraces = pool->guard || leati_option_flag(LEATI_OPTION_POOL_BACKTRACES);
    pool->checked = pool->guard || pool->scrub || pool->backtraces || history;
    pool->made_ns = leati_clock_ns();
    if (options->name)
        leati_utf8_copy(pool->name, sizeof pool->name, options->name);
    else
        snprintf(pool->name, sizeof pool->name, "pool %u",
                 1 + atomic_fetch_add_explicit(&made, 1, memory_order_relaxed));
}

/* See leati_pools_function. */
static bool report_memory(leati_pool_seen seen, void *context)
{
    if (!leati_trylock(&list_lock))
        return false;
    for (struct leat_pool *pool = list; pool; pool = pool->next) {
        struct leati_traced_pool traced = {
            .serial = pool->serial,
            .name = pool->name,
            .device = pool->device->name,
            .kind = pool->kind,
            .used_bytes = leati_stats_used_bytes(pool),
            .reserved_bytes = atomic_load_explicit(&pool->figures.reserved_bytes, memory_order_relaxed)};

        seen(context, &traced);
    }
    leati_unlock(&list_lock);
    return true;
}

/* Adds a pool to the list of all pools and publishes its handle. Call with the device's pools_lock held. */
static void enlist(struct leat_pool *pool)
{
    leat_device *device = pool->device;

    pool->number = LEATI_FAST_POOLS;
    for (unsigned number = LEATI_FAST_POOLS; number--;)
        if (!(device->pool_numbers >> number & 1))
            pool->number = number;
    if (pool->number < LEATI_FAST_POOLS)
        device->pool_numbers |= 1u << pool->number;
    if (pool->budget)
        atomic_fetch_add_explicit(&pool->budget->pools, 1, memory_order_relaxed);
    LEATI_RECORD(.op = LEATI_RECORD_POOL_CREATE, .pool = pool->serial, .kind = leat_kind_name(pool->kind),
                 .device = device->name, .name = pool->name);
    leati_lock(&list_lock);
    pool->next = list;
    list = pool;
    leati_unlock(&list_lock);
    leati_trace_pools(report_memory);
    /* Release: a thread that sees the hooks also sees this pool in the list. */
    atomic_store_explicit(&device->pool_hooks, &hooks, memory_order_release);
    leati_handle_publish(pool);
}

/* Reads the pool's plan file. Checked pools, and pools without virtual memory, ignore the option. */
static leat_status read_plan(const char *what, struct leat_pool *pool, const leat_pool_options *options)
{
    leat_status status;

    if (pool->checked || !pool->virtual_memory)
        return LEAT_OK;
    status = leati_pool_plan_read(options->plan, &pool->plan);
    return status == LEAT_OK ? status : leati_fail_in(status, "%s on %s", what, pool->device->name);
}

/* Creates a pool. Call with the device's pools_lock held. */
static leat_status make(const char *what, leat_device *device, const leat_pool_options *options, bool own,
                        struct leat_pool **made)
{
    uint64_t history = options->history;
    leat_pool_packing packing;
    struct leat_pool *pool;
    leat_status status = LEAT_OK;

    if (!history)
        LEATI_TRY(leati_option_number(LEATI_OPTION_POOL_HISTORY, 0, &history));
    LEATI_TRY(choose_packing(what, options, &packing));
    pool = leati_handle_new(&leati_pool_handles);
    if (!pool)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "%s: no memory for the pool handle", what);
    fill(pool, device, options, own, history);
    pool->packing = packing;
    if (pool->kind == LEAT_KIND_DEVICE && !options->no_virtual_memory) {
        status = find_virtual_memory(device, &pool->virtual_memory);
        if (status != LEAT_OK)
            leati_fail_in(status, "%s on %s", what, device->name);
    }
    if (status == LEAT_OK && pool->dedicated && !pool->virtual_memory)
        status =
            leati_fail(LEAT_ERROR_UNSUPPORTED, "%s: dedicated needs virtual memory, which %s memory of %s has not",
                       what, leat_kind_name(pool->kind), device->name);
    if (status == LEAT_OK && options->plan)
        status = read_plan(what, pool, options);
    if (status == LEAT_OK) {
        leati_lock_init(&pool->lock);
        leati_lock(&pool->lock);
        pool->host = leati_stream_cache_get(pool, NULL);
        leati_unlock(&pool->lock);
        if (!pool->host)
            status = leati_fail(LEAT_ERROR_HOST_MEMORY, "%s: no memory for the pool", what);
        else
            status = leati_stats_start(pool, (uint32_t)history);
        if (status == LEAT_OK)
            status = leati_guard_start(pool);
        if (status != LEAT_OK) {
            leati_fail_in(status, "%s on %s", what, device->name);
            (void)leati_guard_end(pool);
            leati_stats_end(pool);
            leati_stream_caches_end(pool);
            leati_lock_destroy(&pool->lock);
        }
    }
    if (status != LEAT_OK) {
        leati_pool_plan_end(pool);
        leati_handle_free(&leati_pool_handles, pool);
        return status;
    }
    enlist(pool);
    *made = pool;
    return LEAT_OK;
}

leat_status leat_pool_create(leat_device *device, const leat_pool_options *given, leat_pool **pool)
{
    leat_pool_options options;
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_pool_create"));
    LEATI_TRY(leati_check_device("leat_pool_create", device));
    LEATI_TRY(leati_check_not_null("leat_pool_create", "pool", pool));
    LEATI_TRY(read_options("leat_pool_create", device, given, &options));
    leati_lock(&device->pools_lock);
    status = make("leat_pool_create", device, &options, false, pool);
    leati_unlock(&device->pools_lock);
    return status;
}

/* Returns the pool stored at *place. If there is none yet, creates it. */
static leat_status get(const char *what, leat_device *device, leat_kind kind, bool own,
                       _Atomic(struct leat_pool *) *place, leat_pool **pool)
{
    leat_pool_options wanted = {.size = sizeof wanted, .kind = kind}, options;
    struct leat_pool *found = atomic_load_explicit(place, memory_order_acquire);
    leat_status status = LEAT_OK;

    if (found) {
        *pool = found;
        return LEAT_OK;
    }
    LEATI_TRY(read_options(what, device, &wanted, &options));
    options.name = own ? own_names[kind] : default_names[kind];
    options.plan = kind == LEAT_KIND_DEVICE && !own ? leati_option(LEATI_OPTION_POOL_PLAN) : NULL;
    leati_lock(&device->pools_lock);
    found = atomic_load_explicit(place, memory_order_relaxed);
    if (!found) {
        status = make(what, device, &options, own, &found);
        if (status == LEAT_OK) {
            found->is_default = true;
            /* Release: a reader that finds the pool here sees it initialized. */
            atomic_store_explicit(place, found, memory_order_release);
        }
    }
    leati_unlock(&device->pools_lock);
    if (status == LEAT_OK)
        *pool = found;
    return status;
}

leat_status leati_pool_get_default(const char *what, leat_device *device, leat_kind kind, leat_pool **pool)
{
    return get(what, device, kind, false, &device->default_pools[kind], pool);
}

leat_status leati_pool_get_own(leat_device *device, leat_kind kind, leat_pool **pool)
{
    bool own = leati_option_flag(LEATI_OPTION_POOL_GUARD);

    return get("leat's own memory", device, kind, own,
               own ? &device->own_pools[kind] : &device->default_pools[kind], pool);
}

void *leati_pool_take(leat_pool *pool, size_t bytes)
{
    void *block;

    return LEATI_QUIETLY(leat_pool_alloc(NULL, pool, bytes, &block)) == LEAT_OK ? block : NULL;
}

leat_status leat_pool_default(leat_device *device, leat_kind kind, leat_pool **pool)
{
    LEATI_TRY(leati_check_permitted("leat_pool_default"));
    LEATI_TRY(leati_check_device("leat_pool_default", device));
    LEATI_TRY(leati_check_not_null("leat_pool_default", "pool", pool));
    if (kind != LEAT_KIND_DEVICE && kind != LEAT_KIND_PINNED && kind != LEAT_KIND_MANAGED)
        return leati_fail(LEAT_ERROR_INVALID, "leat_pool_default: there is no default pool of kind %d", (int)kind);
    return leati_pool_get_default("leat_pool_default", device, kind, pool);
}

/* ---- destroying pools ---- */

static void delist(struct leat_pool *pool)
{
    struct leat_pool **place = &list;

    leati_lock(&list_lock);
    while (*place != pool)
        place = &(*place)->next;
    *place = pool->next;
    leati_unlock(&list_lock);
    /* A thread that found the pool in the list may still hold the pool's lock, so wait for that thread. */
    leati_lock(&pool->lock);
    leati_unlock(&pool->lock);
}

/* Destroys a pool without pending work. Its handle must be retired already. */
static leat_status end(struct leat_pool *pool)
{
    struct leati_driver *driver = pool->device->driver;
    leat_status first = LEAT_OK, status;
    struct leati_block *block;

    LEATI_RECORD(.op = LEATI_RECORD_POOL_DESTROY, .pool = pool->serial);
    delist(pool);
    leati_lock(&pool->lock);
    leati_guard_drain_quarantine(pool);
    for (struct leati_span *span = pool->spans; span; span = span->next)
        for (block = span->first; block; block = block->after) {
            leati_stream_uses_drop(pool, block);
            leati_guard_forget(block);
        }
    for (uint32_t index = 0; (block = leati_pool_plan_block(pool, &index));)
        leati_stream_uses_drop(pool, block);
    for (int i = 0; i < LEATI_HELPERS; i++)
        if (pool->helpers[i]) {
            status = driver->ops->stream_destroy(driver, pool->helpers[i]);
            first = first != LEAT_OK ? first : status;
        }
    status = leati_guard_end(pool);
    first = first != LEAT_OK ? first : status;
    status = leati_pages_end(pool);
    first = first != LEAT_OK ? first : status;
    leati_unlock(&pool->lock);
    leati_stream_caches_end(pool);
    leati_stats_end(pool);
    if (pool->budget)
        atomic_fetch_sub_explicit(&pool->budget->pools, 1, memory_order_relaxed);
    if (pool->number < LEATI_FAST_POOLS)
        pool->device->pool_numbers &= ~(1u << pool->number);
    leati_lock_destroy(&pool->lock);
    leati_handle_free(&leati_pool_handles, pool);
    return first;
}

leat_status leat_pool_destroy(leat_pool *pool)
{
    leat_device *device;
    leat_status status;
    char holders[1100];
    bool live;

    if (!pool)
        return LEAT_OK;
    LEATI_TRY(leati_check_permitted("leat_pool_destroy"));
    LEATI_TRY(leati_check_pool("leat_pool_destroy", pool));
    if (pool->is_default)
        return leati_fail(LEAT_ERROR_NOT_PERMITTED,
                          "leat_pool_destroy: %s of %s is a default pool, which ends with its device", pool->name,
                          pool->device->name);
    leati_lock(&pool->lock);
    live = leati_stats_describe(pool, holders, sizeof holders);
    status = LEAT_OK;
    if (!live) {
        leati_guard_drain_quarantine(pool);
        leati_stream_caches_drain(pool);
        status = leati_slow_path_finish(pool);
    }
    leati_unlock(&pool->lock);
    if (live)
        return leati_fail(LEAT_ERROR_BUSY, "leat_pool_destroy: %s: free them first", holders);
    if (!leati_handle_retire(&leati_pool_handles, pool))
        return leati_check_pool("leat_pool_destroy", pool);
    device = pool->device;
    leati_lock(&device->pools_lock);
    {
        leat_status ended = end(pool);

        status = status != LEAT_OK ? status : ended;
    }
    leati_unlock(&device->pools_lock);
    return status == LEAT_OK ? status
                             : leati_fail_in(status, "leat_pool_destroy on %s: it is gone, but", device->name);
}

static struct leat_pool *any_pool_of(const leat_device *device)
{
    struct leat_pool *pool;

    leati_lock(&list_lock);
    for (pool = list; pool && pool->device != device; pool = pool->next)
        ;
    leati_unlock(&list_lock);
    return pool;
}

static void record_free(const struct leati_block *block)
{
    if (leati_state(block) == LEATI_BLOCK_LIVE && block->serial)
        LEATI_RECORD(.op = LEATI_RECORD_FREE, .block = block->serial, .bytes = leati_requested(block));
}

/* Records, for the recorder of allocations, a free of each block that is still live when its pool ends. */
static void record_lost(const struct leat_pool *pool)
{
    const struct leati_block *block;

    for (const struct leati_span *span = pool->spans; span; span = span->next)
        for (block = span->first; block; block = block->after)
            record_free(block);
    for (uint32_t index = 0; (block = leati_pool_plan_block(pool, &index));)
        record_free(block);
}

static leat_status hook_device_closes(struct leat_device *device)
{
    leat_status first = leati_shares_close(device), status;
    struct leat_pool *pool;

    while ((pool = any_pool_of(device))) {
        leati_stats_leaks(pool);
        if (leati_recorded())
            record_lost(pool);
        leati_handle_retire(&leati_pool_handles, pool);
        status = end(pool);
        first = first != LEAT_OK ? first : status;
    }
    return first;
}

/* The core calls this hook when a stream ends. Pools of other devices may have a cache for the stream too, so it
 * searches all pools. */
static void hook_stream_ends(struct leat_stream *stream)
{
    leati_lock(&list_lock);
    for (struct leat_pool *pool = list; pool; pool = pool->next) {
        leati_lock(&pool->lock);
        for (struct leati_stream_cache *cache = pool->caches; cache; cache = cache->next)
            if (cache->stream == stream) {
                leati_stream_cache_drain(cache);
                cache->stream = NULL;
            }
        leati_unlock(&pool->lock);
    }
    leati_unlock(&list_lock);
}

/* ---- the calls about reuse and limits ---- */

leat_status leat_pool_set_reuse_methods(leat_pool *pool, uint32_t methods)
{
    LEATI_TRY(leati_check_permitted("leat_pool_set_reuse_methods"));
    LEATI_TRY(leati_check_pool("leat_pool_set_reuse_methods", pool));
    if (methods & ~(uint32_t)LEAT_POOL_REUSE_METHOD_ALL)
        return leati_fail(
            LEAT_ERROR_INVALID,
            "leat_pool_set_reuse_methods: methods is 0x%x, and there are only LEAT_POOL_REUSE_METHOD_ORDERED, LEAT_POOL_REUSE_METHOD_FINISHED and LEAT_POOL_REUSE_METHOD_WAITING (0x%x in all)",
            methods, (unsigned)LEAT_POOL_REUSE_METHOD_ALL);
    leati_lock(&pool->lock);
    pool->reuse_flags = methods;
    /* Relaxed: a concurrent allocation may still use the old flags. */
    atomic_store_explicit(&pool->planned_reuse_flags, methods, memory_order_relaxed);
    leati_unlock(&pool->lock);
    return LEAT_OK;
}

leat_status leat_pool_set_limits(leat_pool *pool, uint64_t limit_bytes, uint64_t soft_limit_bytes)
{
    uint64_t released, pending, reserved;
    leat_status status = LEAT_OK;

    LEATI_TRY(leati_check_permitted("leat_pool_set_limits"));
    LEATI_TRY(leati_check_pool("leat_pool_set_limits", pool));
    if (limit_bytes && soft_limit_bytes > limit_bytes)
        return leati_fail(LEAT_ERROR_INVALID,
                          "leat_pool_set_limits: the soft limit of %llu bytes is above the limit of %llu",
                          (unsigned long long)soft_limit_bytes, (unsigned long long)limit_bytes);
    leati_lock(&pool->lock);
    reserved = atomic_load_explicit(&pool->figures.reserved_bytes, memory_order_relaxed);
    if (limit_bytes && reserved > limit_bytes) {
        leati_guard_drain_quarantine(pool);
        leati_stream_caches_drain(pool);
        leati_slow_path_poll(pool, NULL);
        status = leati_pages_trim(pool, limit_bytes, UINT64_MAX, &released, &pending);
        reserved = atomic_load_explicit(&pool->figures.reserved_bytes, memory_order_relaxed);
        if (status == LEAT_OK && reserved > limit_bytes)
            status =
                leati_fail(LEAT_ERROR_BUSY,
                           "leat_pool_set_limits: %s has %llu bytes in use, which is more than the limit of %llu",
                           pool->name, (unsigned long long)reserved, (unsigned long long)limit_bytes);
    }
    if (status == LEAT_OK) {
        atomic_store_explicit(&pool->limit_bytes, limit_bytes, memory_order_relaxed);
        atomic_store_explicit(&pool->soft_limit_bytes, soft_limit_bytes, memory_order_relaxed);
    }
    leati_unlock(&pool->lock);
    return status;
}

/* Describes a trim to the trace. */
static void span_trim(const struct leat_pool *pool, uint64_t released_bytes)
{
    leati_span_stream(&pool->device->traced_calls);
    leati_span_bytes(released_bytes, NULL);
    leati_span_kinds(LEATI_TRACE_MEMORY_NONE, leati_span_kind(pool->kind));
}

static leat_status trim(const char *what, leat_pool *pool, uint64_t keep_bytes, uint64_t before_ns,
                        uint64_t *released_bytes, uint64_t *pending_bytes)
{
    uint64_t released = 0, pending = 0;
    leat_status status;

    LEATI_TRY(leati_check_permitted(what));
    LEATI_TRY(leati_check_pool(what, pool));
    leati_lock(&pool->lock);
    leati_guard_drain_quarantine(pool);
    leati_stream_caches_drain(pool);
    leati_slow_path_poll(pool, NULL);
    status = leati_pages_trim(pool, keep_bytes, before_ns, &released, &pending);
    leati_unlock(&pool->lock);
    if (leati_traced())
        span_trim(pool, released);
    if (status != LEAT_OK)
        return leati_fail_in(status, "%s of %s", what, pool->name);
    if (released_bytes)
        *released_bytes = released;
    if (pending_bytes)
        *pending_bytes = pending;
    return LEAT_OK;
}

leat_status leat_pool_trim(leat_pool *pool, uint64_t keep_bytes, uint64_t *released_bytes, uint64_t *pending_bytes)
{
    LEATI_SPAN(LEATI_TRACE_FREE, "leat_pool_trim");
    return trim("leat_pool_trim", pool, keep_bytes, UINT64_MAX, released_bytes, pending_bytes);
}

leat_status leat_pool_trim_idle(leat_pool *pool, uint64_t idle_ms, uint64_t *released_bytes,
                                uint64_t *pending_bytes)
{
    uint64_t now_ns = leati_clock_ns(), idle_ns = idle_ms < UINT64_MAX / 1000000 ? idle_ms * 1000000 : UINT64_MAX;

    LEATI_SPAN(LEATI_TRACE_FREE, "leat_pool_trim_idle");
    return trim("leat_pool_trim_idle", pool, 0, now_ns > idle_ns ? now_ns - idle_ns : 0, released_bytes,
                pending_bytes);
}

leat_status leat_pool_on_full(leat_pool *pool, leat_pool_full_function function, void *argument)
{
    LEATI_TRY(leati_check_pool("leat_pool_on_full", pool));
    leati_lock(&pool->lock);
    pool->on_full = function;
    pool->on_full_argument = argument;
    leati_unlock(&pool->lock);
    return LEAT_OK;
}

leat_status leat_budget_create(uint64_t limit_bytes, leat_budget **budget)
{
    leat_budget *made;

    LEATI_TRY(leati_check_not_null("leat_budget_create", "budget", budget));
    if (!limit_bytes)
        return leati_fail(LEAT_ERROR_INVALID, "leat_budget_create: a limit of 0 bytes lets nothing be allocated");
    made = leati_handle_new(&leati_budget_handles);
    if (!made)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "leat_budget_create: no memory for the budget handle");
    atomic_init(&made->limit_bytes, limit_bytes);
    leati_handle_publish(made);
    *budget = made;
    return LEAT_OK;
}

leat_status leat_budget_destroy(leat_budget *budget)
{
    unsigned pools;

    if (!budget)
        return LEAT_OK;
    LEATI_TRY(check_budget("leat_budget_destroy", budget));
    pools = atomic_load_explicit(&budget->pools, memory_order_relaxed);
    if (pools)
        return leati_fail(LEAT_ERROR_BUSY, "leat_budget_destroy: %u pools still have this budget", pools);
    if (!leati_handle_retire(&leati_budget_handles, budget))
        return check_budget("leat_budget_destroy", budget);
    leati_handle_free(&leati_budget_handles, budget);
    return LEAT_OK;
}

leat_status leat_budget_query(leat_budget *budget, uint64_t *limit_bytes, uint64_t *used_bytes)
{
    LEATI_TRY(check_budget("leat_budget_query", budget));
    if (limit_bytes)
        *limit_bytes = atomic_load_explicit(&budget->limit_bytes, memory_order_relaxed);
    if (used_bytes)
        *used_bytes = atomic_load_explicit(&budget->used_bytes, memory_order_relaxed);
    return LEAT_OK;
}

/* ---- exporting and importing blocks ---- */

leat_status leati_block_export(void *ptr, leat_access access, struct leati_exported *exported)
{
    struct leati_physical *physical;
    struct leati_block *block;
    struct leat_pool *pool;
    leat_status status;

    block = leati_block_find(ptr, &pool);
    if (!pool || !block || leati_user_base(block) != (uintptr_t)ptr || leati_state(block) != LEATI_BLOCK_LIVE)
        return leati_fail(LEAT_ERROR_POINTER, "%p is not the start of a live block of a pool", ptr);
    if (!pool->exportable)
        return leati_fail(LEAT_ERROR_POINTER, "%p is a block of %s, which was not made with exportable", ptr,
                          pool->name);
    leati_lock(&pool->lock);
    physical = leati_pages_physical(pool, leati_base(block));
    status = leati_export(pool->device, physical->handle, access, &exported->fd);
    leati_count(&pool->figures.driver_calls, 1);
    leati_unlock(&pool->lock);
    if (status != LEAT_OK)
        return leati_fail_in(status, "%p on %s", ptr, pool->device->name);
    exported->pool = pool;
    exported->bytes = leati_bytes(block);
    exported->requested_bytes = leati_requested(block);
    leati_assert(leati_base(block) == (uintptr_t)ptr);
    return LEAT_OK;
}

leat_status leat_block_export(void *ptr, int *fd, size_t *bytes)
{
    struct leati_exported exported;
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_block_export"));
    LEATI_TRY(leati_check_not_null("leat_block_export", "fd", fd));
    LEATI_TRY(leati_check_not_null("leat_block_export", "bytes", bytes));
    status = leati_block_export(ptr, LEAT_ACCESS_READ_WRITE, &exported);
    if (status != LEAT_OK)
        return leati_fail_in(status, "leat_block_export");
    *fd = exported.fd;
    *bytes = exported.bytes;
    return LEAT_OK;
}

leat_status leat_block_import(leat_device *device, int fd, size_t bytes, void **ptr)
{
    bool virtual_memory;
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_block_import"));
    LEATI_TRY(leati_check_device("leat_block_import", device));
    LEATI_TRY(leati_check_not_null("leat_block_import", "ptr", ptr));
    if (!bytes || bytes % LEATI_PAGE_BYTES)
        return leati_fail(LEAT_ERROR_INVALID,
                          "leat_block_import: %zu bytes is not a size that leat_block_export() gave", bytes);
    LEATI_TRY(find_virtual_memory(device, &virtual_memory));
    if (!virtual_memory)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "leat_block_import: %s has no virtual memory", device->name);
    status = leati_import(device, fd, bytes, ptr);
    return status == LEAT_OK ? status
                             : leati_fail_in(status, "leat_block_import of %zu bytes on %s", bytes, device->name);
}
