/* fault_pools.c - scenarios of fault_walk: pools. A call of a pool may succeed although a driver call failed, but
 * it must then have done its work. */
#include "fault_scenarios.h"

#include <string.h>
#include <unistd.h>

/* ---- pools ------------------------------------------------------------------------------------ */

/* Fails unless the pool still works after a failure. */
static void pool_must_work(struct world *w, leat_pool *pool)
{
    unsigned char in[3000], out[3000] = {0};
    void *block = NULL;
    bool good;

    test_pattern(in, sizeof in, 4);
    good = leat_pool_alloc(w->stream, pool, sizeof in, &block) == LEAT_OK &&
           leat_copy(w->stream, block, in, sizeof in) == LEAT_OK &&
           leat_copy_sync(w->stream, out, block, sizeof in) == LEAT_OK && leat_free(w->stream, block) == LEAT_OK;
    if (!good)
        give_up("the pool does not work any more: %s", leat_last_error());
    if (memcmp(in, out, sizeof in))
        give_up("the pool gives memory with wrong bytes after the failure");
}

/* Fills only the end of a block, which expect_end() checks. Filling whole blocks, some 100 MiB in each of a
 * thousand runs, would take minutes. */
static leat_status fill_end(leat_stream *stream, void *block, unsigned char value, size_t bytes)
{
    return leat_fill(stream, (char *)block + bytes - sizeof end_seen, value, sizeof end_seen);
}

/* Fails unless the last bytes of the block hold value. Other bytes mean that a call failed without returning an
 * error. */
static leat_status expect_end(leat_stream *stream, void *block, size_t bytes, unsigned char value)
{
    leat_status status;

    memset(end_seen, ~value, sizeof end_seen);
    status = leat_copy_sync(stream, end_seen, (char *)block + bytes - sizeof end_seen, sizeof end_seen);
    for (size_t i = 0; status == LEAT_OK && i < sizeof end_seen; i++)
        if (end_seen[i] != value)
            give_up("byte %zu of %zu is 0x%02x and not 0x%02x, without an error", i, bytes, end_seen[i], value);
    return status;
}

/* Converts MiB to bytes. The blocks of guarded pools are a quarter as large, because guard mode reads every byte
 * of a block. */
static size_t mib(size_t count)
{
    return now.pool.guard ? count * MIB / 4 : count * MIB;
}

static size_t block_bytes(void)
{
    return mib(3);
}

static bool make_pools(struct world *w)
{
    leat_pool_options options = now.pool;

    STEP(leat_device_open(test_device_name(), &w->device));
    STEP(leat_stream_create(w->device, &w->stream));
    STEP(leat_stream_create(w->device, &w->second));
    STEP(leat_event_create(w->device, &w->start));
    STEP(leat_event_create(w->device, &w->end));
    STEP(leat_budget_create(40 * MIB, &w->budget));
    options.budget = w->budget;
    STEP(leat_pool_create(w->device, &options, &w->pool));
    options.limit_bytes = 0;
    STEP(leat_pool_create(w->device, &options, &w->second_pool));
    return true;
}

/* Uses blocks of one stream on another stream, and lets freed blocks pass from stream to stream. */
static bool pass_blocks_around(struct world *w)
{
    void **b = w->blocks;

    STEP(leat_pool_alloc(w->stream, w->pool, block_bytes(), &b[0]));
    STEP(leat_pool_alloc(w->stream, w->pool, block_bytes(), &b[1]));
    STEP(leat_pool_alloc(w->stream, w->pool, 1000, &b[2]));
    STEP(fill_end(w->stream, b[0], 1, block_bytes()));
    STEP(fill_end(w->stream, b[1], 2, block_bytes()));
    STEP(leat_fill(w->stream, b[2], 3, 1000));
    STEP(leat_event_record(w->stream, w->start));
    STEP(leat_stream_wait(w->second, w->start));
    STEP(leat_launch_host(w->second, count_slowly, &w->host_calls));
    STEP(expect_end(w->second, b[1], block_bytes(), 2));
    STEP(fill_end(w->second, b[0], 4, block_bytes()));
    STEP(leat_block_use(w->second, b[0]));
    STEP(leat_event_record(w->second, w->end));
    STEP(leat_block_use_until(w->end, b[1]));
    FREE(leat_free(w->stream, b[0]));
    b[0] = NULL;
    STEP(leat_pool_alloc(w->stream, w->pool, block_bytes(), &b[3]));
    STEP(fill_end(w->stream, b[3], 5, block_bytes()));
    FREE(leat_free(w->stream, b[1]));
    b[1] = NULL;
    STEP(leat_pool_alloc(w->second, w->pool, block_bytes(), &b[4]));
    STEP(fill_end(w->second, b[4], 6, block_bytes()));
    STEP(expect_end(w->stream, b[3], block_bytes(), 5));
    STEP(expect_end(w->second, b[4], block_bytes(), 6));
    STEP(expect_end(w->stream, b[2], 1000, 3));
    return true;
}

static void give_blocks_back(struct world *w)
{
    for (int i = 0; i < BLOCKS; i++) {
        if (w->blocks[i])
            FREE(leat_free(w->stream, w->blocks[i]));
        w->blocks[i] = NULL;
    }
}

/* Allocates so much that the first pool must stitch idle pages together, and that the second pool must take idle
 * memory of the first one because of the budget. */
static bool stitch_pages(struct world *w)
{
    void **b = w->blocks;

    for (int i = 0; i < 5; i++)
        STEP(leat_pool_alloc(w->stream, w->pool, mib(2), &b[i]));
    for (int i = 1; i < 5; i += 2) {
        FREE(leat_free(w->stream, b[i]));
        b[i] = NULL;
    }
    STEP(fill_end(w->stream, b[2], 7, mib(2)));
    STEP(leat_device_synchronize(w->device));
    STEP(leat_pool_alloc(w->second, w->pool, mib(4), &b[1]));
    STEP(fill_end(w->second, b[1], 8, mib(4)));
    STEP(leat_pool_alloc_aligned(w->stream, w->pool, mib(1), mib(4), &b[3]));
    STEP(fill_end(w->stream, b[3], 9, mib(1)));
    STEP(expect_end(w->stream, b[2], mib(2), 7));
    STEP(expect_end(w->second, b[1], mib(4), 8));
    STEP(expect_end(w->stream, b[3], mib(1), 9));
    STEP(leat_device_synchronize(w->device));
    give_blocks_back(w);
    STEP(leat_device_synchronize(w->device));
    STEP(leat_pool_alloc(w->stream, w->second_pool, mib(34), &b[0]));
    STEP(fill_end(w->stream, b[0], 10, mib(34)));
    STEP(expect_end(w->stream, b[0], mib(34), 10));
    give_blocks_back(w);
    /* The first pool takes these 34 MiB in its next steps. It takes only memory that no stream uses any more. */
    STEP(leat_device_synchronize(w->device));
    return true;
}

static bool trim_and_limit(struct world *w)
{
    void **b = w->blocks, *none = NULL;
    leat_status status;

    STEP(leat_pool_alloc(NULL, w->pool, block_bytes(), &b[0]));
    STEP(leat_pool_alloc(w->stream, w->pool, block_bytes(), &b[1]));
    STEP(fill_end(w->stream, b[0], 11, block_bytes()));
    STEP(fill_end(w->stream, b[1], 12, block_bytes()));
    FREE(leat_free(w->stream, b[1]));
    b[1] = NULL;
    STEP(leat_pool_trim(w->pool, 0, NULL, NULL));
    STEP(leat_stream_synchronize(w->stream));
    STEP(leat_pool_trim_idle(w->pool, 0, NULL, NULL));
    STEP(expect_end(w->stream, b[0], block_bytes(), 11));
    status = leat_pool_set_limits(w->pool, 6 * MIB, 4 * MIB);
    /* Pools without virtual memory cannot release a chunk that contains a live block, so they may stay above the
     * limit. */
    if (status != LEAT_ERROR_BUSY || (!now.pool.kind && !now.pool.no_virtual_memory))
        STEP(status);
    if (status == LEAT_OK && leat_pool_alloc(w->stream, w->pool, 30 * MIB, &none) >= LEAT_OK)
        give_up("30 MiB within a limit of 6");
    FREE(leat_memory_free(b[0]));
    b[0] = NULL;
    STEP(leat_pool_set_limits(w->pool, 0, 0));
    return true;
}

static bool export_and_import(struct world *w)
{
    size_t bytes = 0;

    if (!now.pool.exportable)
        return true;
    STEP(leat_pool_alloc(w->stream, w->pool, block_bytes(), &w->blocks[0]));
    STEP(fill_end(w->stream, w->blocks[0], 13, block_bytes()));
    STEP(leat_block_export(w->blocks[0], &w->fd, &bytes));
    STEP(leat_block_import(w->device, w->fd, bytes, &w->imported));
    STEP(expect_end(w->stream, w->imported, block_bytes(), 13));
    return true;
}

/* Destroys a stream with live and freed blocks on it. */
static bool end_a_stream(struct world *w)
{
    leat_stream *gone = NULL;

    STEP(leat_stream_create(w->device, &gone));
    if (keep(w, "leat_pool_alloc", leat_pool_alloc(gone, w->pool, block_bytes(), &w->blocks[1])) == LEAT_OK &&
        keep(w, "leat_pool_alloc", leat_pool_alloc(gone, w->pool, block_bytes(), &w->blocks[2])) == LEAT_OK &&
        keep(w, "leat_fill", fill_end(gone, w->blocks[2], 14, block_bytes())) == LEAT_OK) {
        FREE(leat_free(gone, w->blocks[2]));
        w->blocks[2] = NULL;
    }
    END(leat_stream_destroy(gone));
    if (w->failed)
        return false;
    STEP(leat_pool_alloc(w->second, w->pool, block_bytes(), &w->blocks[3]));
    STEP(fill_end(w->second, w->blocks[3], 15, block_bytes()));
    STEP(expect_end(w->second, w->blocks[3], block_bytes(), 15));
    return true;
}

static void pool_steps(struct world *w)
{
    w->fd = -1;
    if (make_pools(w) && pass_blocks_around(w) && (give_blocks_back(w), stitch_pages(w)) && trim_and_limit(w) &&
        export_and_import(w))
        end_a_stream(w);
    if (w->fd >= 0)
        close(w->fd);
}

void pool_scenario(struct world *w)
{
    pool_steps(w);
    if (w->device)
        FREE(leat_device_synchronize(w->device));
    give_blocks_back(w);
    /* leat_memory_free() ends the mapping even if the driver reports an error, so it is not called a second
     * time. */
    END(leat_memory_free(w->imported));
    for (int i = 0; i < 2; i++) {
        leat_pool *pool = i ? w->second_pool : w->pool;

        if (!pool)
            continue;
        /* Check the pool only after the fault, which would otherwise hit a call of this check. */
        if (w->stream && leati_fault_fired(wrapper))
            pool_must_work(w, pool);
        END(leat_pool_destroy(pool));
    }
    if (w->budget && leat_budget_destroy(w->budget) != LEAT_OK)
        give_up("the budget cannot be destroyed: %s", leat_last_error());
    END(leat_event_destroy(w->start));
    END(leat_event_destroy(w->end));
    END(leat_stream_destroy(w->second));
    END(leat_stream_destroy(w->stream));
    END(leat_device_close(w->device));
}

void lazy_pool_scenario(struct world *w)
{
    pool_steps(w);
    if (w->device)
        FREE(leat_device_synchronize(w->device));
    if (w->second)
        END(leat_launch_host(w->second, count_slowly, &w->host_calls));
    if (w->second && w->blocks[3]) {
        FREE(leat_free(w->second, w->blocks[3]));
        w->blocks[3] = NULL;
    }
    END(leat_device_close(w->device));
    if (w->budget && leat_budget_destroy(w->budget) != LEAT_OK)
        give_up("the budget cannot be destroyed: %s", leat_last_error());
}
