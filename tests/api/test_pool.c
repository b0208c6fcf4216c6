/* test_pool.c - pools: making them, their blocks, what can be asked of them, and their figures. */
#include "test_pool.h"

#include <ctype.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>

static const struct test_pool_sort sorts[] = TEST_POOL_SORTS;
enum { SORTS = sizeof sorts / sizeof sorts[0] };

/* ---- pools -------------------------------------------------------------------------------------------------- */

static void pools_come_and_go(void **state)
{
    struct test_state *t = *state;

    for (int i = 0; i < SORTS; i++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[i].options), *second;
        leat_pool_statistics figures;

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
    leat_pointer_info info;
    leat_pool *pool;
    void *block;

    OK(leat_pool_create(t->device, NULL, &pool));
    block = test_block(pool, t->stream, 1000);
    OK(leat_pointer_query(block, &info));
    assert_int_equal(info.kind, LEAT_KIND_DEVICE);
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* A program that was built with an older header has a shorter struct; what is behind its end is not looked at. */
static void a_shorter_struct_of_options_is_fine(void **state)
{
    struct test_state *t = *state;
    leat_pool_options options;
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
    leat_pool_statistics figures;
    void *block = test_block(pool, t->stream, 1000);

    memset(&figures, 0xee, sizeof figures);
    figures.size = offsetof(leat_pool_statistics, used_bytes);
    OK(leat_pool_query(pool, &figures));
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
    leat_device_info device;

    OK(leat_device_query(t->device, &device));
    for (int i = 0; i < 3; i++) {
        leat_pool *pool = NULL, *again = NULL;
        leat_pool_statistics before, after;
        leat_pointer_info info;
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
        OK(leat_pointer_query(block, &info));
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
    leat_pool_statistics before = test_statistics(pool), after;
    void *block, *plain;

    OK(leat_alloc(t->stream, 12345, &block));
    after = test_statistics(pool);
    assert_int_equal(after.allocations, before.allocations + 1);
    assert_int_equal(after.requested_bytes, before.requested_bytes + 12345);
    /* The driver's own call goes past the pool, and so does its free. */
    OK(leat_alloc_plain(t->stream, 12345, &plain));
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

/* Blocks of many sizes at once, each with a value of its own, in a pool of every sort. */
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

struct held {
    unsigned char *ptr;
    size_t bytes;
    unsigned char value;
};

/* A size between 1 byte and 4 MiB, small ones as often as large ones. */
static size_t random_size(uint64_t number)
{
    size_t scale = (size_t)1 << leat_pattern_value(number, 1) % 22;

    return 1 + scale + (size_t)leat_pattern_value(number, 2) % scale;
}

static void expect_apart(const struct held *held, int count, const struct held *fresh)
{
    for (int i = 0; i < count; i++)
        if (held[i].ptr && fresh != &held[i] && fresh->ptr < held[i].ptr + held[i].bytes &&
            held[i].ptr < fresh->ptr + fresh->bytes)
            fail_msg("a block of %zu bytes at %p lies in one of %zu bytes at %p", fresh->bytes, (void *)fresh->ptr,
                     held[i].bytes, (void *)held[i].ptr);
}

/* Random sizes that come and go; a block keeps its bytes for as long as it lives. */
static void live_blocks_never_overlap(void **state)
{
    enum { SLOTS = 48, STEPS = 800 };
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);
        struct held held[SLOTS];
        uint64_t live = 0;

        memset(held, 0, sizeof held);
        for (uint64_t step = 0; pool && step < STEPS; step++) {
            struct held *h = &held[leat_pattern_value(step, 3) % SLOTS];

            if (h->ptr) {
                test_block_holds(t->stream, h->ptr, h->bytes, h->value);
                OK(leat_free(t->stream, h->ptr));
                h->ptr = NULL;
                live -= h->bytes;
                continue;
            }
            h->bytes = random_size(step);
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
        /* Where there are no addresses without memory, an alignment costs as much memory. */
        size_t most = sorts[sort].options.kind || sorts[sort].options.plain ? 16 * MIB : GIB;

        for (size_t alignment = 0; pool && alignment <= most; alignment = alignment ? 2 * alignment : 1) {
            size_t sizes[] = {1000, alignment + 1, alignment / 2 + 1, 3 * MIB};

            for (int i = 0; i < 4; i++) {
                void *block = NULL;

                if (sizes[i] > 64 * MIB)
                    continue;
                OK(leat_pool_alloc_aligned(pool, t->stream, sizes[i], alignment, &block));
                assert_int_equal((uintptr_t)block % (alignment > 512 ? alignment : 512), 0);
                OK(leat_fill(t->stream, block, (uint8_t)i, sizes[i]));
                test_block_holds(t->stream, block, sizes[i], (unsigned char)i);
                OK(leat_free(t->stream, block));
            }
        }
        OK(leat_pool_destroy(pool));
    }
}

/* A freed block of the right size, at an address that is not aligned enough, must not be handed out again. */
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
        /* Blocks of 1536 bytes lie side by side, so some are at odd multiples of 512. */
        assert_true(cached > 0);
        OK(leat_pool_alloc_aligned(pool, t->stream, BLOCK_BYTES, alignment, &aligned));
        assert_int_equal((uintptr_t)aligned % alignment, 0);
        OK(leat_free(t->stream, aligned));
        for (int i = 0; i < COUNT; i++)
            OK(leat_free(t->stream, blocks[i]));
        OK(leat_pool_trim(pool, 0, NULL, NULL));
    }
    OK(leat_pool_destroy(pool));
}

/* Nor may one that the host freed, which streams take as it is. */
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
        OK(leat_pool_alloc_aligned(pool, t->stream, BLOCK_BYTES, alignment, &aligned));
        assert_int_equal((uintptr_t)aligned % alignment, 0);
        OK(leat_free(t->stream, aligned));
        for (int i = 0; i < COUNT; i++)
            OK(leat_memory_free(blocks[i]));
        OK(leat_pool_trim(pool, 0, NULL, NULL));
    }
    OK(leat_pool_destroy(pool));
}

/* Aligned blocks lie beside others, and leave no hole that nobody can use. */
static void aligned_blocks_keep_their_bytes(void **state)
{
    enum { COUNT = 30 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "aligned");
    struct held held[COUNT];

    for (unsigned i = 0; i < COUNT; i++) {
        size_t alignment = (size_t)512 << i % 15;
        void *block;

        held[i].bytes = random_size(i + 1000);
        held[i].value = (unsigned char)(i + 1);
        OK(leat_pool_alloc_aligned(pool, t->stream, held[i].bytes, alignment, &block));
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
        OK(leat_pool_alloc(pool, t->stream, 0, &ptr));
        assert_null(ptr);
        ptr = &ptr;
        OK(leat_pool_alloc(pool, NULL, 0, &ptr));
        assert_null(ptr);
        ptr = &ptr;
        OK(leat_pool_alloc_aligned(pool, t->stream, 0, 4096, &ptr));
        assert_null(ptr);
        OK(leat_free(t->stream, ptr));
        assert_int_equal(test_statistics(pool).live_blocks, 0);
        assert_int_equal(test_statistics(pool).reserved_bytes, 0);
        OK(leat_pool_destroy(pool));
    }
}

/* Without a stream a block is ready for everyone at once: here for two streams that nothing orders. */
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

/* What the header of pools shows: the block is freed behind the copy into it. */
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

/* Every way back, for blocks of every sort. */
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
        OK(leat_event_record(event, t->stream));
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
                leat_pointer_info info;

                OK(leat_pointer_query(places[k], &info));
                assert_int_equal(info.kind,
                                 sorts[sort].options.kind ? sorts[sort].options.kind : LEAT_KIND_DEVICE);
                assert_ptr_equal(info.device, t->device);
                assert_ptr_equal(info.base, block);
                assert_int_equal(info.bytes, bytes);
                assert_non_null(info.device_pointer);
                assert_int_equal(info.owned, 1);
            }
            /* Each of the sizes leaves some bytes between the end of the block and the next one. */
            REFUSED(leat_pointer_query(block + bytes, &(leat_pointer_info){0}), LEAT_ERROR_POINTER,
                    "past the end");
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
        /* 1000 bytes in a room of 1024, and a neighbour that may lie right behind. */
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
                               .reuse = LEAT_POOL_WAIT);

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

/* ---- figures ------------------------------------------------------------------------------------------------ */

static uint64_t rounded(size_t bytes)
{
    return (bytes + 511) / 512 * 512;
}

static void figures_add_up(void **state)
{
    static const size_t sizes[] = {1, 512, 513, 100000, MIB, 7 * MIB + 9, 64 * MIB};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);
        uint64_t requested = 0, used = 0;
        leat_pool_statistics figures;
        void *blocks[COUNT];

        if (!pool)
            continue;
        for (unsigned i = 0; i < COUNT; i++) {
            blocks[i] = test_block(pool, t->stream, sizes[i]);
            requested += sizes[i];
            used += rounded(sizes[i]);
            figures = test_statistics(pool);
            assert_int_equal(figures.requested_bytes, requested);
            /* Guards, or whole pages. */
            if (sorts[sort].options.guard || sorts[sort].options.one_handle)
                assert_true(figures.used_bytes >= used);
            else if (!getenv("LEAT_POOL_GUARD"))
                assert_int_equal(figures.used_bytes, used);
            assert_true(figures.reserved_bytes >= used);
            assert_true(figures.reserved_peak_bytes >= figures.reserved_bytes);
            assert_int_equal(figures.live_blocks, i + 1);
            assert_int_equal(figures.allocations, i + 1);
        }
        assert_true(figures.driver_calls > 0);
        for (unsigned i = 0; i < COUNT; i++)
            OK(leat_free(t->stream, blocks[i]));
        figures = test_statistics(pool);
        assert_int_equal(figures.requested_bytes, 0);
        assert_int_equal(figures.used_bytes, 0);
        assert_int_equal(figures.live_blocks, 0);
        assert_int_equal(figures.frees, COUNT);
        assert_int_equal(figures.failures, 0);
        assert_int_equal(figures.callbacks, 0);
        assert_int_equal(figures.requested_peak_bytes, requested);
        assert_int_equal(figures.host_waits, 0);
        OK(leat_pool_destroy(pool));
    }
}

static void the_peak_is_exact_with_one_thread(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "peak");
    uint64_t live = 0, peak = 0;
    struct held held[16];

    memset(held, 0, sizeof held);
    for (uint64_t step = 0; step < 2000; step++) {
        struct held *h = &held[leat_pattern_value(step, 4) % 16];

        if (h->ptr) {
            OK(leat_free(t->stream, h->ptr));
            live -= h->bytes;
            h->ptr = NULL;
            continue;
        }
        h->bytes = random_size(step);
        h->ptr = test_block(pool, t->stream, h->bytes);
        live += h->bytes;
        peak = live > peak ? live : peak;
        if (step % 50 == 0)
            assert_int_equal(test_statistics(pool).requested_peak_bytes, peak);
    }
    assert_int_equal(test_statistics(pool).requested_peak_bytes, peak);
    for (int i = 0; i < 16; i++)
        OK(leat_free(t->stream, held[i].ptr));
    OK(leat_pool_destroy(pool));
}

/* The tag's share, or one of zeros. */
static leat_pool_share tag_share(leat_pool *pool, const char *name)
{
    leat_pool_share share, none;
    leat_status status;

    memset(&none, 0, sizeof none);
    for (unsigned i = 0; (status = leat_pool_tag_share(pool, i, &share)) == LEAT_OK; i++)
        if (!strcmp(share.name, name))
            return share;
    assert_int_equal(status, LEAT_ERROR_NOT_FOUND);
    return none;
}

static void *allocate_without_tag(void *pool)
{
    void *block = NULL;

    return leat_pool_alloc(pool, NULL, 50, &block) == LEAT_OK ? block : NULL;
}

static void tags_say_whose_memory_it_is(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "tagged");
    void *weights, *more, *other, *unnamed, *by_thread;
    char long_name[64];
    pthread_t thread;

    OK(leat_pool_tag("weights"));
    weights = test_block(pool, t->stream, 1000);
    more = test_block(pool, t->stream, 5 * MIB);
    /* A tag is of one thread. */
    assert_int_equal(pthread_create(&thread, NULL, allocate_without_tag, pool), 0);
    pthread_join(thread, &by_thread);
    assert_non_null(by_thread);
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[63] = '\0';
    OK(leat_pool_tag(long_name));
    other = test_block(pool, t->stream, 300);
    OK(leat_pool_tag(NULL));
    unnamed = test_block(pool, t->second, 20);

    assert_int_equal(tag_share(pool, "weights").requested_bytes, 1000 + 5 * MIB);
    assert_int_equal(tag_share(pool, "weights").live_blocks, 2);
    assert_int_equal(tag_share(pool, "weights").cached_bytes, 0);
    assert_null(tag_share(pool, "weights").stream);
    long_name[31] = '\0';
    assert_int_equal(tag_share(pool, long_name).requested_bytes, 300);
    assert_int_equal(tag_share(pool, "").requested_bytes, 70);
    assert_int_equal(tag_share(pool, "").live_blocks, 2);
    /* The tag stays with its block, whoever frees it. */
    OK(leat_free(t->stream, more));
    assert_int_equal(tag_share(pool, "weights").requested_bytes, 1000);
    assert_int_equal(tag_share(pool, "weights").live_blocks, 1);
    OK(leat_free(t->stream, weights));
    OK(leat_free(t->stream, other));
    OK(leat_free(t->second, unnamed));
    OK(leat_memory_free(by_thread));
    assert_int_equal(tag_share(pool, "weights").live_blocks, 0);
    assert_int_equal(tag_share(pool, "").live_blocks, 0);
    OK(leat_pool_destroy(pool));
}

/* Runs last: the process has no free tag afterwards. */
static void further_tags_count_as_other(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "many tags");
    void *blocks[100];
    uint64_t live = 0;
    leat_pool_share share;

    for (int i = 0; i < 100; i++) {
        char name[32];

        snprintf(name, sizeof name, "tag %d", i);
        OK(leat_pool_tag(name));
        blocks[i] = test_block(pool, t->stream, 1000);
    }
    OK(leat_pool_tag(NULL));
    assert_int_equal(tag_share(pool, "tag 0").live_blocks, 1);
    assert_true(tag_share(pool, "other").live_blocks >= 37);
    for (unsigned i = 0; leat_pool_tag_share(pool, i, &share) == LEAT_OK; i++)
        live += share.live_blocks;
    assert_int_equal(live, 100);
    for (int i = 0; i < 100; i++)
        OK(leat_free(t->stream, blocks[i]));
    assert_int_equal(tag_share(pool, "other").live_blocks, 0);
    OK(leat_pool_destroy(pool));
}

/* The sum over all streams, and the share of one stream. */
static leat_pool_share stream_share(leat_pool *pool, leat_stream *stream, leat_pool_share *sum)
{
    leat_pool_share share, found;
    leat_status status;

    memset(&found, 0, sizeof found);
    memset(sum, 0, sizeof *sum);
    for (unsigned i = 0; (status = leat_pool_stream_share(pool, i, &share)) == LEAT_OK; i++) {
        sum->requested_bytes += share.requested_bytes;
        sum->live_blocks += share.live_blocks;
        sum->cached_bytes += share.cached_bytes;
        assert_non_null(memchr(share.name, '\0', sizeof share.name));
        if (share.stream == stream)
            found = share;
    }
    assert_int_equal(status, LEAT_ERROR_NOT_FOUND);
    return found;
}

static void streams_have_their_shares(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "shares");
    void *first = test_block(pool, t->stream, 1000), *second = test_block(pool, t->second, 3 * MIB);
    void *third = test_block(pool, t->second, 400), *host = test_block(pool, NULL, 77);
    leat_pool_share sum, share;

    share = stream_share(pool, t->stream, &sum);
    assert_int_equal(sum.requested_bytes, 1000 + 3 * MIB + 400 + 77);
    assert_int_equal(sum.live_blocks, 4);
    assert_int_equal(share.requested_bytes, 1000);
    assert_int_equal(share.live_blocks, 1);
    assert_non_null(strstr(share.name, "stream"));
    share = stream_share(pool, t->second, &sum);
    assert_int_equal(share.requested_bytes, 3 * MIB + 400);
    assert_int_equal(share.live_blocks, 2);
    OK(leat_free(t->stream, first));
    OK(leat_free(t->second, second));
    share = stream_share(pool, t->second, &sum);
    assert_int_equal(share.requested_bytes, 400);
    assert_true(sum.cached_bytes <= test_statistics(pool).reserved_bytes);
    OK(leat_free(t->second, third));
    OK(leat_memory_free(host));
    (void)stream_share(pool, t->second, &sum);
    assert_int_equal(sum.requested_bytes, 0);
    assert_int_equal(sum.live_blocks, 0);
    OK(leat_pool_destroy(pool));
}

/* ---- history ------------------------------------------------------------------------------------------------ */

static void a_pool_remembers_what_happened(void **state)
{
    enum { ROOM = 256 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .history = ROOM);
    leat_pool_event events[ROOM];
    void *first = test_block(pool, t->stream, 1000), *second = test_block(pool, t->second, 9 * MIB);
    size_t count = ROOM, seen = 0, grown = 0;
    uint64_t streams[2] = {0};

    OK(leat_free(t->stream, first));
    OK(leat_free(t->second, second));
    OK(leat_pool_history(pool, events, &count));
    assert_true(count >= 5 && count <= ROOM);
    for (size_t i = 0; i < count; i++) {
        const leat_pool_event *e = &events[i];

        assert_true(!i || e->time_ns >= events[i - 1].time_ns);
        if (e->action == LEAT_POOL_GROW) {
            grown += e->bytes;
            continue;
        }
        if (e->action != LEAT_POOL_ALLOC && e->action != LEAT_POOL_FREE)
            continue;
        /* Alloc, alloc, free, free. */
        assert_int_equal(e->action, seen < 2 ? LEAT_POOL_ALLOC : LEAT_POOL_FREE);
        assert_ptr_equal(e->ptr, seen % 2 ? second : first);
        assert_int_equal(e->bytes, seen % 2 ? 9 * MIB : 1000);
        if (seen < 2)
            streams[seen] = e->stream;
        assert_true(e->stream != 0 && e->stream == streams[seen % 2]);
        seen++;
    }
    assert_int_equal(seen, 4);
    assert_true(streams[0] != streams[1]);
    assert_true(grown >= 9 * MIB + 1000);
    /* Too little room: the latest ones. */
    count = 1;
    OK(leat_pool_history(pool, events, &count));
    assert_int_equal(count, 1);
    assert_int_equal(events[0].action, LEAT_POOL_FREE);
    assert_ptr_equal(events[0].ptr, second);
    count = 0;
    OK(leat_pool_history(pool, events, &count));
    assert_int_equal(count, 0);
    OK(leat_pool_destroy(pool));
}

static void history_forgets_the_oldest(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .history = 64);
    leat_pool_event events[1024];
    size_t count = 1024;
    void *block = NULL;

    for (size_t i = 1; i <= 1000; i++) {
        block = test_block(pool, t->stream, i);
        OK(leat_free(t->stream, block));
    }
    OK(leat_pool_history(pool, events, &count));
    assert_true(count >= 32 && count <= 64);
    assert_int_equal(events[count - 1].action, LEAT_POOL_FREE);
    assert_int_equal(events[count - 1].bytes, 1000);
    assert_int_equal(events[count - 2].action, LEAT_POOL_ALLOC);
    assert_int_equal(events[count - 2].bytes, 1000);
    assert_ptr_equal(events[count - 2].ptr, block);
    assert_int_equal(events[count - 4].bytes, 999);
    OK(leat_pool_destroy(pool));
}

static void a_failed_request_is_remembered(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .history = 64, .limit_bytes = 8 * MIB);
    leat_pool_event events[64];
    size_t count = 64;
    bool found = false;
    void *block = NULL;

    REFUSED(leat_pool_alloc(pool, t->stream, 64 * MIB, &block), LEAT_ERROR_DEVICE_MEMORY, "limit");
    OK(leat_pool_history(pool, events, &count));
    for (size_t i = 0; i < count; i++)
        found = found || (events[i].action == LEAT_POOL_FULL && events[i].bytes == 64 * MIB);
    assert_true(found);
    OK(leat_pool_destroy(pool));
}

/* ---- the snapshot ------------------------------------------------------------------------------------------- */

struct text {
    char *words;
    size_t bytes;
};

static void keep_text(void *argument, const char *words, size_t bytes)
{
    struct text *text = argument;
    char *longer = realloc(text->words, text->bytes + bytes + 1);

    if (!longer)
        abort();
    memcpy(longer + text->bytes, words, bytes);
    text->words = longer;
    text->bytes += bytes;
    text->words[text->bytes] = '\0';
}

static const char *json_value(const char *at, int depth);

static const char *json_space(const char *at)
{
    while (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')
        at++;
    return at;
}

/* Behind the string that starts at at, or NULL. */
static const char *json_string(const char *at)
{
    if (*at++ != '"')
        return NULL;
    for (; *at != '"'; at++) {
        if ((unsigned char)*at < 0x20)
            return NULL;
        if (*at == '\\') {
            at++;
            if (!*at || !strchr("\"\\/bfnrtu", *at))
                return NULL;
            for (int i = 0; *at == 'u' && i < 4; i++)
                if (!isxdigit((unsigned char)at[i + 1]))
                    return NULL;
        }
    }
    return at + 1;
}

static const char *json_number(const char *at)
{
    const char *digits;

    if (*at == '-')
        at++;
    digits = at;
    while (isdigit((unsigned char)*at))
        at++;
    if (at == digits || (*digits == '0' && at > digits + 1))
        return NULL;
    if (*at == '.') {
        digits = ++at;
        while (isdigit((unsigned char)*at))
            at++;
        if (at == digits)
            return NULL;
    }
    return at;
}

/* Behind an object or an array, whose first character is at at. */
static const char *json_group(const char *at, int depth)
{
    char end = *at == '{' ? '}' : ']';

    at = json_space(at + 1);
    if (*at == end)
        return at + 1;
    for (;;) {
        if (end == '}') {
            at = json_string(json_space(at));
            if (!at)
                return NULL;
            at = json_space(at);
            if (*at++ != ':')
                return NULL;
        }
        at = json_value(at, depth + 1);
        if (!at)
            return NULL;
        at = json_space(at);
        if (*at == end)
            return at + 1;
        if (*at++ != ',')
            return NULL;
    }
}

/* Behind the value that starts at at, or NULL when none does. */
static const char *json_value(const char *at, int depth)
{
    static const char *const names[] = {"true", "false", "null"};

    at = json_space(at);
    if (depth > 50)
        return NULL;
    if (*at == '{' || *at == '[')
        return json_group(at, depth);
    if (*at == '"')
        return json_string(at);
    for (int i = 0; i < 3; i++)
        if (!strncmp(at, names[i], strlen(names[i])))
            return at + strlen(names[i]);
    return json_number(at);
}

static void expect_json(const char *words)
{
    const char *end = json_value(words, 0);

    if (!end || *json_space(end) || *json_space(words) != '{')
        fail_msg("this is no JSON object:\n%s", words);
}

static void a_snapshot_is_json(void **state)
{
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool_options options = sorts[sort].options;
        struct text text = {NULL, 0};
        leat_pool *pool;
        void *blocks[40];

        options.name = "a \"name\" \\ with\nall\tin \x01 it";
        pool = test_pool_try(t->device, &options);
        if (!pool)
            continue;
        OK(leat_pool_snapshot(pool, keep_text, &text));
        expect_json(text.words);
        OK(leat_pool_tag("in \"quotes\""));
        for (unsigned i = 0; i < 40; i++)
            blocks[i] = test_block(pool, i % 3 ? t->stream : t->second, random_size(i));
        OK(leat_pool_tag(NULL));
        for (unsigned i = 0; i < 40; i += 2)
            OK(leat_free(i % 3 ? t->stream : t->second, blocks[i]));
        free(text.words);
        text = (struct text){NULL, 0};
        OK(leat_pool_snapshot(pool, keep_text, &text));
        expect_json(text.words);
        assert_non_null(strstr(text.words, "a \\\"name\\\""));
        assert_non_null(strstr(text.words, "\"live\""));
        assert_non_null(strstr(text.words, "in \\\"quotes\\\""));
        for (unsigned i = 1; i < 40; i += 2)
            OK(leat_free(t->stream, blocks[i]));
        free(text.words);
        OK(leat_pool_destroy(pool));
    }
}

/* Names of any bytes, and such as are cut; JSON that is not UTF-8 is none. */
static void a_snapshot_is_utf8(void **state)
{
    static const char *const tags[] = {
        /* 32 bytes in characters of 2, of which 31 bytes count. */
        "\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9",
        "\xff\xfe",
        "half \xc3",
        "\xed\xa0\x80",
    };
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0), before;
    char name[60] = "";
    struct test_state *t = *state;
    struct text text = {NULL, 0};
    leat_pool *pool;
    void *blocks[4];
    size_t characters;

    if (!utf8)
        SKIP_OTHER("there is no locale C.UTF-8 to check with");
    /* Cut in the middle of a character of 3. */
    while (strlen(name) < 54)
        strcat(name, "\u20ac");
    pool = POOL(t->device, .name = name);
    for (int i = 0; i < 4; i++) {
        OK(leat_pool_tag(tags[i]));
        blocks[i] = test_block(pool, t->stream, 1000);
    }
    OK(leat_pool_tag(NULL));
    OK(leat_pool_snapshot(pool, keep_text, &text));
    expect_json(text.words);
    before = uselocale(utf8);
    characters = mbstowcs(NULL, text.words, 0);
    uselocale(before);
    freelocale(utf8);
    assert_true(characters != (size_t)-1);
    /* 15 characters of the first tag, and no half of one. */
    assert_non_null(
        strstr(text.words,
               "\"\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\""));
    assert_non_null(strstr(text.words, "\"half \ufffd\""));
    assert_non_null(strstr(text.words, "\"\ufffd\ufffd\""));
    for (int i = 0; i < 4; i++)
        OK(leat_free(t->stream, blocks[i]));
    free(text.words);
    OK(leat_pool_destroy(pool));
}

/* ---- the device's end -----------------------------------------------------------------------------------------
 */

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
        leat_pool_statistics figures = {.size = sizeof figures};

        OK(leat_stream_create(device, &stream));
        pool = POOL(device, .name = "left behind");
        def = test_default_pool(device, LEAT_KIND_DEVICE);
        live = test_block(pool, stream, 5 * MIB);
        freed = test_block(pool, stream, 5 * MIB);
        OK(leat_alloc(stream, 3 * MIB, &in_default));
        /* Work that still uses what was freed, and what was not. */
        OK(leat_fill(stream, freed, 1, 5 * MIB));
        OK(leat_free(stream, freed));
        OK(leat_fill(stream, live, 1, 5 * MIB));
        OK(leat_device_close(device));
        REFUSED(leat_pool_query(pool, &figures), LEAT_ERROR_HANDLE, "pool");
        REFUSED(leat_pool_query(def, &figures), LEAT_ERROR_HANDLE, "pool");
        REFUSED(leat_pool_alloc(pool, NULL, 100, &freed), LEAT_ERROR_HANDLE, "pool");
        REFUSED(leat_memory_free(live), LEAT_ERROR_POINTER, "");
        REFUSED(leat_memory_free(in_default), LEAT_ERROR_POINTER, "");
        device = test_open_other();
        assert_non_null(device);
        assert_int_equal(test_statistics(test_default_pool(device, LEAT_KIND_DEVICE)).live_blocks, 0);
    }
    OK(leat_device_close(device));
}

/* What a pool took from the device goes back to it when the pool ends. */
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
    STATE_TEST(figures_add_up),
    STATE_TEST(the_peak_is_exact_with_one_thread),
    STATE_TEST(tags_say_whose_memory_it_is),
    STATE_TEST(streams_have_their_shares),
    STATE_TEST(a_pool_remembers_what_happened),
    STATE_TEST(history_forgets_the_oldest),
    STATE_TEST(a_failed_request_is_remembered),
    STATE_TEST(a_snapshot_is_json),
    STATE_TEST(a_snapshot_is_utf8),
    STATE_TEST(closing_the_device_ends_its_pools),
    STATE_TEST(a_pool_gives_all_back),
    STATE_TEST(further_tags_count_as_other),
};

TEST_MAIN(tests)
