/* test_pool.c - tests pools: creating them, their blocks, and queries. */
#include "test_pool.h"

static const struct test_pool_sort sorts[] = TEST_POOL_SORTS;
enum { SORTS = sizeof sorts / sizeof sorts[0] };

/* ---- pools -------------------------------------------------------------------------------------------------- */

static void pools_come_and_go(void **state)
{
    struct test_state *t = *state;

    for (int i = 0; i < SORTS; i++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[i].options), *second;
        leat_pool_stats figures = LEAT_POOL_STATS_INIT;

        if (!pool)
            continue;
        second = test_pool_make(t->device, &sorts[i].options);
        assert_ptr_not_equal(pool, second);
        figures = test_statistics(pool);
        assert_int_equal(figures.reserved_bytes, 0);
        assert_int_equal(figures.live_blocks, 0);
        assert_int_equal(figures.allocations, 0);
        OK(leat_pool_destroy(pool));
        REFUSED(leat_pool_destroy(pool), LEAT_ERROR_HANDLE, "pool");
        OK(leat_pool_destroy(second));
    }
    OK(leat_pool_destroy(NULL));
}

static void no_options_mean_as_usual(void **state)
{
    struct test_state *t = *state;
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    leat_pool *pool;
    void *block;

    OK(leat_pool_create(t->device, NULL, &pool));
    block = test_block(pool, t->stream, 1000);
    OK(leat_pointer_get_info(block, &info));
    assert_int_equal(info.kind, LEAT_KIND_DEVICE);
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* A program that was built with an older header passes a shorter struct. leat must not read beyond the struct's
 * size. */
static void a_shorter_struct_of_options_is_fine(void **state)
{
    struct test_state *t = *state;
    leat_pool_options options = LEAT_POOL_OPTIONS_INIT;
    leat_pool *pool;
    void *block;

    memset(&options, 0xee, sizeof options);
    options.size = offsetof(leat_pool_options, reuse);
    options.name = "short";
    options.kind = LEAT_KIND_PINNED;
    OK(leat_pool_create(t->device, &options, &pool));
    block = test_block(pool, t->stream, 5 * MIB);
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

static void a_shorter_struct_of_statistics_is_fine(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "figures");
    leat_pool_stats figures = LEAT_POOL_STATS_INIT;
    void *block = test_block(pool, t->stream, 1000);

    memset(&figures, 0xee, sizeof figures);
    figures.size = offsetof(leat_pool_stats, used_bytes);
    OK(leat_pool_get_stats(pool, &figures));
    assert_int_equal(figures.requested_bytes, 1000);
    assert_int_equal(figures.used_bytes, 0xeeeeeeeeeeeeeeee);
    assert_int_equal(figures.callbacks, 0xeeeeeeeeeeeeeeee);
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

static void each_kind_has_a_default_pool(void **state)
{
    static const leat_kind kinds[] = {LEAT_KIND_DEVICE, LEAT_KIND_PINNED, LEAT_KIND_MANAGED};
    struct test_state *t = *state;
    leat_device_info device = LEAT_DEVICE_INFO_INIT;

    OK(leat_device_get_info(t->device, &device));
    for (int i = 0; i < 3; i++) {
        leat_pool *pool = NULL, *again = NULL;
        leat_pool_stats before = LEAT_POOL_STATS_INIT, after = LEAT_POOL_STATS_INIT;
        leat_pointer_info info = LEAT_POINTER_INFO_INIT;
        void *block;

        if (kinds[i] == LEAT_KIND_MANAGED && !device.managed_memory) {
            REFUSED(leat_pool_default(t->device, kinds[i], &pool), LEAT_ERROR_UNSUPPORTED, "managed");
            continue;
        }
        OK(leat_pool_default(t->device, kinds[i], &pool));
        OK(leat_pool_default(t->device, kinds[i], &again));
        assert_ptr_equal(pool, again);
        before = test_statistics(pool);
        block = test_alloc(t->device, kinds[i], 3000);
        after = test_statistics(pool);
        assert_int_equal(after.live_blocks, before.live_blocks + 1);
        assert_int_equal(after.requested_bytes, before.requested_bytes + 3000);
        OK(leat_pointer_get_info(block, &info));
        assert_int_equal(info.kind, kinds[i]);
        OK(leat_memory_free(block));
        after = test_statistics(pool);
        assert_int_equal(after.live_blocks, before.live_blocks);
        REFUSED(leat_pool_destroy(pool), LEAT_ERROR_NOT_PERMITTED, "default");
        block = test_block(pool, t->stream, 100);
        OK(leat_free(t->stream, block));
    }
}

static void leat_alloc_takes_from_the_default_pool(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = test_default_pool(t->device, LEAT_KIND_DEVICE);
    leat_pool_stats before = test_statistics(pool), after;
    void *block, *plain;

    OK(leat_alloc(t->stream, 12345, &block));
    after = test_statistics(pool);
    assert_int_equal(after.allocations, before.allocations + 1);
    assert_int_equal(after.requested_bytes, before.requested_bytes + 12345);
    /* leat_alloc_driver() and the free of its memory bypass the pool. */
    OK(leat_alloc_driver(t->stream, 12345, &plain));
    assert_int_equal(test_statistics(pool).allocations, before.allocations + 1);
    OK(leat_fill(t->stream, plain, 9, 12345));
    test_block_holds(t->stream, plain, 12345, 9);
    OK(leat_free(t->stream, plain));
    assert_int_equal(test_statistics(pool).frees, before.frees);
    OK(leat_free(t->stream, block));
    after = test_statistics(pool);
    assert_int_equal(after.frees, before.frees + 1);
    assert_int_equal(after.requested_bytes, before.requested_bytes);
}

/* ---- blocks ------------------------------------------------------------------------------------------------- */

/* In pools of every sort, blocks of many sizes are live at once. Each is filled with its own value and must keep
 * it. */
static void blocks_of_all_sizes(void **state)
{
    static const size_t sizes[] = {1,       2,       255,         256,          511,      512,         513,
                                   4095,    4096,    4097,        65535,        65537,    MIB - 1,     MIB,
                                   MIB + 1, 2 * MIB, 2 * MIB + 1, 3 * MIB + 77, 20 * MIB, 33 * MIB + 1};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);
        void *blocks[COUNT];

        for (int round = 0; pool && round < 2; round++) {
            for (int i = 0; i < COUNT; i++) {
                blocks[i] = test_block(pool, t->stream, sizes[i]);
                assert_int_equal((uintptr_t)blocks[i] % 512, 0);
                OK(leat_fill(t->stream, blocks[i], (uint8_t)(sort * 20 + round * 100 + i + 1), sizes[i]));
            }
            for (int i = 0; i < COUNT; i++) {
                test_block_holds(t->stream, blocks[i], sizes[i], (unsigned char)(sort * 20 + round * 100 + i + 1));
                OK(leat_free(t->stream, blocks[i]));
            }
        }
        OK(leat_pool_destroy(pool));
    }
}

static void large_blocks(void **state)
{
    static const size_t sizes[] = {100 * MIB, 256 * MIB, 300 * MIB + 4097};
    enum { COUNT = sizeof sizes / sizeof sizes[0], EDGE = 65536 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "large");
    char *blocks[COUNT];

    for (int i = 0; i < COUNT; i++) {
        blocks[i] = test_block(pool, t->stream, sizes[i]);
        OK(leat_fill(t->stream, blocks[i], (uint8_t)(i + 1), sizes[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        unsigned char value = (unsigned char)(i + 1);

        test_block_holds(t->stream, blocks[i], EDGE, value);
        test_block_holds(t->stream, blocks[i] + sizes[i] / 2, EDGE, value);
        test_block_holds(t->stream, blocks[i] + sizes[i] - EDGE, EDGE, value);
        OK(leat_free(t->stream, blocks[i]));
    }
    OK(leat_pool_destroy(pool));
}

static void expect_apart(const struct test_held_block *held, int count, const struct test_held_block *fresh)
{
    for (int i = 0; i < count; i++)
        if (held[i].ptr && fresh != &held[i] && fresh->ptr < held[i].ptr + held[i].bytes &&
            held[i].ptr < fresh->ptr + fresh->bytes)
            fail_msg("a block of %zu bytes at %p lies in one of %zu bytes at %p", fresh->bytes, (void *)fresh->ptr,
                     held[i].bytes, (void *)held[i].ptr);
}

/* Random sizes are allocated and freed; a live block must keep its bytes. */
static void live_blocks_never_overlap(void **state)
{
    enum { SLOTS = 48, STEPS = 800 };
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);
        struct test_held_block held[SLOTS];
        uint64_t live = 0;

        memset(held, 0, sizeof held);
        for (uint64_t step = 0; pool && step < STEPS; step++) {
            struct test_held_block *h = &held[leat_pattern_value(step, 3) % SLOTS];

            if (h->ptr) {
                test_block_holds(t->stream, h->ptr, h->bytes, h->value);
                OK(leat_free(t->stream, h->ptr));
                h->ptr = NULL;
                live -= h->bytes;
                continue;
            }
            h->bytes = test_random_size(step);
            h->value = (unsigned char)(1 + step % 255);
            h->ptr = test_block(pool, t->stream, h->bytes);
            expect_apart(held, SLOTS, h);
            OK(leat_fill(t->stream, h->ptr, h->value, h->bytes));
            live += h->bytes;
            assert_int_equal(test_statistics(pool).requested_bytes, live);
        }
        for (int i = 0; i < SLOTS; i++)
            OK(leat_free(t->stream, held[i].ptr));
        OK(leat_pool_destroy(pool));
    }
}

static void blocks_are_aligned_as_asked(void **state)
{
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);
        /* Without virtual memory an aligned block also occupies the memory in front of it, so test only smaller
         * alignments. */
        size_t most = sorts[sort].options.kind || sorts[sort].options.no_virtual_memory ? 16 * MIB : GIB;

        for (size_t alignment = 0; pool && alignment <= most; alignment = alignment ? 2 * alignment : 1) {
            size_t sizes[] = {1000, alignment + 1, alignment / 2 + 1, 3 * MIB};

            for (int i = 0; i < 4; i++) {
                void *block = NULL;

                if (sizes[i] > 64 * MIB)
                    continue;
                OK(leat_pool_alloc_aligned(t->stream, pool, sizes[i], alignment, &block));
                assert_int_equal((uintptr_t)block % (alignment > 512 ? alignment : 512), 0);
                OK(leat_fill(t->stream, block, (uint8_t)i, sizes[i]));
                test_block_holds(t->stream, block, sizes[i], (unsigned char)i);
                OK(leat_free(t->stream, block));
            }
        }
        OK(leat_pool_destroy(pool));
    }
}

/* A freed block of the right size whose address is not aligned enough must not be reused. */
static void a_cached_block_is_reused_only_if_it_is_aligned(void **state)
{
    enum { COUNT = 8, BLOCK_BYTES = 1536 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "aligned");

    for (size_t alignment = 1024; alignment <= 4096; alignment *= 2) {
        void *blocks[COUNT], *aligned;
        int cached = 0;

        for (int i = 0; i < COUNT; i++)
            blocks[i] = test_block(pool, t->stream, BLOCK_BYTES);
        for (int i = 0; i < COUNT; i++) {
            if ((uintptr_t)blocks[i] % alignment == 0)
                continue;
            OK(leat_free(t->stream, blocks[i]));
            blocks[i] = NULL;
            cached++;
        }
        /* Blocks of 1536 bytes are adjacent, so some begin at odd multiples of 512. */
        assert_true(cached > 0);
        OK(leat_pool_alloc_aligned(t->stream, pool, BLOCK_BYTES, alignment, &aligned));
        assert_int_equal((uintptr_t)aligned % alignment, 0);
        OK(leat_free(t->stream, aligned));
        for (int i = 0; i < COUNT; i++)
            OK(leat_free(t->stream, blocks[i]));
        OK(leat_pool_trim(pool, 0, NULL, NULL));
    }
    OK(leat_pool_destroy(pool));
}

/* Blocks that the host freed are idle at once, and any stream may take them. One whose address is not aligned
 * enough must not be reused. */
static void a_block_that_the_host_freed_is_reused_only_if_it_is_aligned(void **state)
{
    enum { COUNT = 8, BLOCK_BYTES = 1536 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "aligned");

    for (size_t alignment = 1024; alignment <= 4096; alignment *= 2) {
        void *blocks[COUNT], *aligned;
        int cached = 0;

        for (int i = 0; i < COUNT; i++)
            blocks[i] = test_block(pool, NULL, BLOCK_BYTES);
        for (int i = 0; i < COUNT; i++) {
            if ((uintptr_t)blocks[i] % alignment == 0)
                continue;
            OK(leat_memory_free(blocks[i]));
            blocks[i] = NULL;
            cached++;
        }
        assert_true(cached > 0);
        OK(leat_pool_alloc_aligned(t->stream, pool, BLOCK_BYTES, alignment, &aligned));
        assert_int_equal((uintptr_t)aligned % alignment, 0);
        OK(leat_free(t->stream, aligned));
        for (int i = 0; i < COUNT; i++)
            OK(leat_memory_free(blocks[i]));
        OK(leat_pool_trim(pool, 0, NULL, NULL));
    }
    OK(leat_pool_destroy(pool));
}

/* Aligned blocks and their neighbours must keep their bytes. */
static void aligned_blocks_keep_their_bytes(void **state)
{
    enum { COUNT = 30 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "aligned");
    struct test_held_block held[COUNT];

    for (unsigned i = 0; i < COUNT; i++) {
        size_t alignment = (size_t)512 << i % 15;
        void *block;

        held[i].bytes = test_random_size(i + 1000);
        held[i].value = (unsigned char)(i + 1);
        OK(leat_pool_alloc_aligned(t->stream, pool, held[i].bytes, alignment, &block));
        held[i].ptr = block;
        assert_int_equal((uintptr_t)block % alignment, 0);
        expect_apart(held, (int)i, &held[i]);
        OK(leat_fill(t->stream, block, held[i].value, held[i].bytes));
    }
    for (unsigned i = 0; i < COUNT; i++) {
        test_block_holds(t->stream, held[i].ptr, held[i].bytes, held[i].value);
        OK(leat_free(t->stream, held[i].ptr));
    }
    OK(leat_pool_destroy(pool));
}

static void zero_bytes_give_no_block(void **state)
{
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);
        void *ptr = &ptr;

        if (!pool)
            continue;
        OK(leat_pool_alloc(t->stream, pool, 0, &ptr));
        assert_null(ptr);
        ptr = &ptr;
        OK(leat_pool_alloc(NULL, pool, 0, &ptr));
        assert_null(ptr);
        ptr = &ptr;
        OK(leat_pool_alloc_aligned(t->stream, pool, 0, 4096, &ptr));
        assert_null(ptr);
        OK(leat_free(t->stream, ptr));
        assert_int_equal(test_statistics(pool).live_blocks, 0);
        assert_int_equal(test_statistics(pool).reserved_bytes, 0);
        OK(leat_pool_destroy(pool));
    }
}

/* A block allocated without a stream is usable by all streams at once. Here two streams without any order use
 * it. */
static void blocks_without_a_stream_are_ready_for_all(void **state)
{
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);

        for (int round = 0; pool && round < 4; round++) {
            unsigned char *block = test_block(pool, NULL, 8000);

            OK(leat_fill(t->stream, block, 1, 4000));
            OK(leat_fill(t->second, block + 4000, 2, 4000));
            test_block_holds(t->stream, block, 4000, 1);
            test_block_holds(t->second, block + 4000, 4000, 2);
            if (round % 2)
                OK(leat_memory_free(block));
            else
                OK(leat_free(t->stream, block));
        }
        OK(leat_pool_destroy(pool));
    }
}

static void the_host_may_use_pinned_blocks(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .kind = LEAT_KIND_PINNED);
    size_t sizes[] = {1, 5000, 3 * MIB + 5, 40 * MIB};

    for (int i = 0; i < 4; i++) {
        unsigned char *block = test_block(pool, NULL, sizes[i]);

        test_pattern(block, sizes[i], (uint64_t)i);
        EXPECT_PATTERN(block, sizes[i], (uint64_t)i);
        OK(leat_fill(t->stream, block, 3, sizes[i]));
        OK(leat_stream_synchronize(t->stream));
        EXPECT_BYTES(block, sizes[i], 3);
        OK(leat_memory_free(block));
    }
    OK(leat_pool_destroy(pool));
}

/* The example of leat/pool.h: the program frees a pinned block right after it has submitted the last copy from
 * it. */
static void a_pinned_block_may_be_freed_behind_its_last_copy(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = test_default_pool(t->device, LEAT_KIND_PINNED);
    unsigned char *staged = test_block(pool, t->stream, MIB), *kept = test_alloc(t->device, LEAT_KIND_PINNED, MIB);
    void *memory;

    OK(leat_alloc(t->stream, MIB, &memory));
    OK(leat_fill(t->stream, memory, 77, MIB));
    OK(leat_copy(t->stream, staged, memory, MIB));
    OK(leat_copy(t->stream, kept, staged, MIB));
    OK(leat_free(t->stream, staged));
    OK(leat_free(t->stream, memory));
    OK(leat_stream_synchronize(t->stream));
    EXPECT_BYTES(kept, MIB, 77);
    OK(leat_memory_free(kept));
}

/* Frees blocks in every way, in pools of every sort. */
static void blocks_go_back_in_every_way(void **state)
{
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);
        leat_event *event;
        void *block;

        if (!pool)
            continue;
        OK(leat_event_create(t->device, &event));
        block = test_block(pool, t->stream, 3 * MIB);
        OK(leat_fill(t->stream, block, 1, 3 * MIB));
        OK(leat_free(t->stream, block));
        block = test_block(pool, t->stream, 3 * MIB);
        OK(leat_fill(t->stream, block, 2, 3 * MIB));
        OK(leat_event_record(t->stream, event));
        OK(leat_stream_wait(t->second, event));
        OK(leat_free(t->second, block));
        block = test_block(pool, t->stream, 3 * MIB);
        OK(leat_fill(t->stream, block, 3, 3 * MIB));
        OK(leat_stream_synchronize(t->stream));
        OK(leat_memory_free(block));
        block = test_block(pool, NULL, 3 * MIB);
        OK(leat_free(t->second, block));
        assert_int_equal(test_statistics(pool).live_blocks, 0);
        assert_int_equal(test_statistics(pool).frees, 4);
        OK(leat_event_destroy(event));
        OK(leat_pool_destroy(pool));
    }
}

static void blocks_can_be_looked_up(void **state)
{
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        static const size_t sizes[] = {1, 700, 70001, 5 * MIB + 3};
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);

        for (int i = 0; pool && i < 8; i++) {
            size_t bytes = sizes[i % 4];
            char *block = test_block(pool, i < 4 ? t->stream : NULL, bytes);
            const char *places[] = {block, block + bytes / 2, block + bytes - 1};

            for (int k = 0; k < 3; k++) {
                leat_pointer_info info = LEAT_POINTER_INFO_INIT;

                OK(leat_pointer_get_info(places[k], &info));
                assert_int_equal(info.kind,
                                 sorts[sort].options.kind ? sorts[sort].options.kind : LEAT_KIND_DEVICE);
                assert_ptr_equal(info.device, t->device);
                assert_ptr_equal(info.base, block);
                assert_int_equal(info.bytes, bytes);
                assert_non_null(info.device_pointer);
                assert_int_equal(info.owned, 1);
            }
            /* No size fills its block completely. A pointer to the unused bytes behind the requested ones must be
             * refused. */
            REFUSED(leat_pointer_get_info(block + bytes, &(leat_pointer_info)LEAT_POINTER_INFO_INIT),
                    LEAT_ERROR_POINTER, "past the end");
            REFUSED(leat_copy(t->stream, &(char){0}, block + bytes, 1), LEAT_ERROR_POINTER, "past the end");
            REFUSED(leat_fill(t->stream, block + bytes, 0, 1), LEAT_ERROR_POINTER, "past the end");
            OK(leat_free(t->stream, block));
        }
        OK(leat_pool_destroy(pool));
    }
}

static void copies_end_where_the_block_ends(void **state)
{
    struct test_state *t = *state;
    unsigned char own[4096] = {0};

    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);
        unsigned char *block, *neighbour;

        if (!pool)
            continue;
        /* A block of 1000 bytes occupies 1024 bytes. The neighbour may begin right behind these. */
        block = test_block(pool, t->stream, 1000);
        neighbour = test_block(pool, t->stream, 1000);
        OK(leat_fill(t->stream, neighbour, 5, 1000));
        OK(leat_copy(t->stream, block, own, 1000));
        REFUSED(leat_copy(t->stream, block, own, 1001), LEAT_ERROR_RANGE, "dst");
        REFUSED(leat_copy(t->stream, own, block, 1001), LEAT_ERROR_RANGE, "src");
        REFUSED(leat_copy(t->stream, block + 999, own, 2), LEAT_ERROR_RANGE, "dst");
        REFUSED(leat_fill(t->stream, block, 1, 1001), LEAT_ERROR_RANGE, "dst");
        REFUSED(leat_fill(t->stream, block + 1, 1, 1000), LEAT_ERROR_RANGE, "dst");
        REFUSED(leat_fill(t->stream, block, 1, SIZE_MAX), LEAT_ERROR_RANGE, "dst");
        test_block_holds(t->stream, neighbour, 1000, 5);
        OK(leat_free(t->stream, block));
        OK(leat_free(t->stream, neighbour));
        OK(leat_pool_destroy(pool));
    }
}

static void scrubbed_pools_give_zeros(void **state)
{
    struct test_state *t = *state;
    static const size_t sizes[] = {1, 1000, 100000, 3 * MIB};

    for (int kind = 0; kind < 2; kind++) {
        leat_pool *pool = POOL(t->device, .scrub = 1, .kind = kind ? LEAT_KIND_PINNED : LEAT_KIND_DEVICE,
                               .reuse = LEAT_POOL_REUSE_WAIT);

        for (int round = 0; round < 12; round++) {
            leat_stream *stream = round % 3 == 2 ? t->second : t->stream;
            size_t bytes = sizes[round % 4];
            void *block = test_block(pool, stream, bytes);

            test_block_holds(stream, block, bytes, 0);
            OK(leat_fill(stream, block, 0xff, bytes));
            OK(leat_free(stream, block));
            block = test_block(pool, NULL, bytes);
            test_block_holds(t->second, block, bytes, 0);
            OK(leat_fill(t->second, block, 0xee, bytes));
            OK(leat_stream_synchronize(t->second));
            OK(leat_memory_free(block));
        }
        OK(leat_pool_destroy(pool));
    }
}

/* ---- closing the device ------------------------------------------------------------------------------------- */

static void closing_the_device_ends_its_pools(void **state)
{
    leat_device *device = test_open_other();
    leat_pool *pool, *def;
    leat_stream *stream;
    void *live, *freed, *in_default;

    (void)state;
    if (!device)
        SKIP_OTHER("needs two devices of one driver");
    for (int round = 0; round < 2; round++) {
        leat_pool_stats figures = {.size = sizeof figures};

        OK(leat_stream_create(device, &stream));
        pool = POOL(device, .name = "left behind");
        def = test_default_pool(device, LEAT_KIND_DEVICE);
        live = test_block(pool, stream, 5 * MIB);
        freed = test_block(pool, stream, 5 * MIB);
        OK(leat_alloc(stream, 3 * MIB, &in_default));
        /* Pending work uses a freed block and a live one. */
        OK(leat_fill(stream, freed, 1, 5 * MIB));
        OK(leat_free(stream, freed));
        OK(leat_fill(stream, live, 1, 5 * MIB));
        OK(leat_device_close(device));
        REFUSED(leat_pool_get_stats(pool, &figures), LEAT_ERROR_HANDLE, "pool");
        REFUSED(leat_pool_get_stats(def, &figures), LEAT_ERROR_HANDLE, "pool");
        REFUSED(leat_pool_alloc(NULL, pool, 100, &freed), LEAT_ERROR_HANDLE, "pool");
        REFUSED(leat_memory_free(live), LEAT_ERROR_POINTER, "");
        REFUSED(leat_memory_free(in_default), LEAT_ERROR_POINTER, "");
        device = test_open_other();
        assert_non_null(device);
        assert_int_equal(test_statistics(test_default_pool(device, LEAT_KIND_DEVICE)).live_blocks, 0);
    }
    OK(leat_device_close(device));
}

/* A pool that is destroyed must give all its memory back to the device. */
static void a_pool_gives_all_back(void **state)
{
    struct test_state *t = *state;
    uint64_t before, during, after;

    if (!test_on_cpu())
        SKIP_OTHER("others use a GPU's memory as well");
    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool;

        OK(leat_device_memory(t->device, &before, NULL));
        pool = test_pool_try(t->device, &sorts[sort].options);
        if (!pool)
            continue;
        for (int i = 0; i < 10; i++)
            OK(leat_free(i % 2 ? t->stream : t->second, test_block(pool, t->stream, 30 * MIB)));
        OK(leat_device_memory(t->device, &during, NULL));
        if (!sorts[sort].options.kind)
            assert_true(before - during >= test_statistics(pool).reserved_bytes);
        OK(leat_pool_destroy(pool));
        OK(leat_device_memory(t->device, &after, NULL));
        assert_int_equal(after, before);
    }
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(pools_come_and_go),
    STATE_TEST(no_options_mean_as_usual),
    STATE_TEST(a_shorter_struct_of_options_is_fine),
    STATE_TEST(a_shorter_struct_of_statistics_is_fine),
    STATE_TEST(each_kind_has_a_default_pool),
    STATE_TEST(leat_alloc_takes_from_the_default_pool),
    STATE_TEST(blocks_of_all_sizes),
    STATE_TEST(large_blocks),
    STATE_TEST(live_blocks_never_overlap),
    STATE_TEST(blocks_are_aligned_as_asked),
    STATE_TEST(a_cached_block_is_reused_only_if_it_is_aligned),
    STATE_TEST(a_block_that_the_host_freed_is_reused_only_if_it_is_aligned),
    STATE_TEST(aligned_blocks_keep_their_bytes),
    STATE_TEST(zero_bytes_give_no_block),
    STATE_TEST(blocks_without_a_stream_are_ready_for_all),
    STATE_TEST(the_host_may_use_pinned_blocks),
    STATE_TEST(a_pinned_block_may_be_freed_behind_its_last_copy),
    STATE_TEST(blocks_go_back_in_every_way),
    STATE_TEST(blocks_can_be_looked_up),
    STATE_TEST(copies_end_where_the_block_ends),
    STATE_TEST(scrubbed_pools_give_zeros),
    STATE_TEST(closing_the_device_ends_its_pools),
    STATE_TEST(a_pool_gives_all_back),
};

TEST_MAIN(tests)
