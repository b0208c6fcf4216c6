/*
 * test_pool_packing.c - tests how much more than the requested bytes a pool holds, and that a program which
 * repeats its allocations no longer causes driver calls. Checks counts and bytes, no times.
 */
#include "test_pool.h"

#include <stdio.h>

enum { MOST = 4096 };

/* Checks that the pool holds at most 2 % more than requested, plus 4 MiB. */
static void expect_packed(leat_pool *pool, uint64_t requested_bytes)
{
    uint64_t held_bytes = test_statistics(pool).reserved_bytes;

    if (held_bytes > requested_bytes / 100 * 102 + 4 * MIB)
        fail_msg("%llu bytes are held for %llu", (unsigned long long)held_bytes,
                 (unsigned long long)requested_bytes);
}

/* For each of several sizes, the pool must pack blocks of that size without gaps. */
static void blocks_of_any_size_are_packed(void **state)
{
    static const size_t sizes[] = {600000,  1000000, 1048576, 1049088, 1500000, 2097152,
                                   2100000, 3300000, 5243003, 9000000, 33000000};
    struct test_state *t = *state;
    static void *blocks[MOST];

    NEEDS_VIRTUAL_MEMORY(t);
    for (size_t size = 0; size < sizeof sizes / sizeof sizes[0]; size++) {
        leat_pool *pool = POOL(t->device, .kind = LEAT_KIND_DEVICE);
        size_t rounded = (sizes[size] + 511) / 512 * 512, count = 300 * MIB / rounded;

        for (size_t i = 0; i < count; i++)
            blocks[i] = test_block(pool, t->stream, sizes[size]);
        expect_packed(pool, count * rounded);
        /* Free and allocate every second block again. */
        for (int round = 0; round < 2; round++) {
            for (size_t i = 0; i < count; i += 2)
                OK(leat_free(t->stream, blocks[i]));
            for (size_t i = 0; i < count; i += 2)
                blocks[i] = test_block(pool, t->stream, sizes[size]);
            expect_packed(pool, count * rounded);
        }
        for (size_t i = 0; i < count; i++)
            OK(leat_free(t->stream, blocks[i]));
        OK(leat_pool_destroy(pool));
    }
}

/* A pool that grows by more than one block leaves no gap between blocks. */
static void growth_leaves_no_gaps(void **state)
{
    struct test_state *t = *state;
    static void *blocks[MOST];
    size_t bytes = 6000000, rounded = (bytes + 511) / 512 * 512, count = 400;
    uint64_t free_bytes, total_bytes;
    leat_pool *pool;

    NEEDS_VIRTUAL_MEMORY(t);
    OK(leat_device_memory(t->device, &free_bytes, &total_bytes));
    if (total_bytes < (uint64_t)8 << 30)
        SKIP_OTHER("needs a device of 8 GiB");
    pool = POOL(t->device, .packing = LEAT_POOL_PACKING_STILL, .limit_bytes = (uint64_t)8 << 30);
    for (size_t i = 0; i < count; i++)
        blocks[i] = test_block(pool, t->stream, bytes);
    expect_packed(pool, count * rounded);
    for (size_t i = 0; i < count; i++)
        OK(leat_free(t->stream, blocks[i]));
    OK(leat_pool_destroy(pool));
}

/* The pool must use its limit up to the last block that fits. */
static void a_limit_is_filled(void **state)
{
    static const size_t sizes[] = {100000, 1049088, 1500000, 3300000, 7000001, 40000000};
    struct test_state *t = *state;
    static void *blocks[MOST];

    NEEDS_VIRTUAL_MEMORY(t);
    for (size_t size = 0; size < sizeof sizes / sizeof sizes[0]; size++) {
        leat_pool *pool = POOL(t->device, .limit_bytes = 256 * MIB);
        size_t count = 0;

        while (leat_pool_alloc(t->stream, pool, sizes[size], &blocks[count]) == LEAT_OK)
            count++;
        assert_true((count + 1) * sizes[size] > 256 * MIB / 100 * 97);
        for (size_t i = 0; i < count; i++)
            OK(leat_free(t->stream, blocks[i]));
        OK(leat_pool_destroy(pool));
    }
}

/* ---- no driver calls once a program repeats ---- */

/* One step of a program: allocates and frees blocks of sizes that depend on the step's number. */
static void step(leat_pool *pool, leat_stream *stream, unsigned number)
{
    void *held[24] = {NULL};

    for (unsigned i = 0; i < 200; i++) {
        unsigned mixed = (number * 200 + i) * 2654435761u;
        unsigned slot = mixed >> 8 & 15;

        if (held[slot])
            OK(leat_free(stream, held[slot]));
        held[slot] = test_block(pool, stream, (size_t)(mixed >> 16) * (i % 7 ? 400 : 40) + 1);
    }
    for (int i = 0; i < 24; i++)
        OK(leat_free(stream, held[i]));
}

/* A program repeats after five steps. After the first rounds a pool of any packing must neither call the driver
 * nor record events. */
static void a_program_that_repeats_stands_still(void **state)
{
    struct test_state *t = *state;

    NEEDS_VIRTUAL_MEMORY(t);
    for (int packing = LEAT_POOL_PACKING_AUTO; packing <= LEAT_POOL_PACKING_TIGHT; packing++) {
        leat_pool *pool = POOL(t->device, .packing = (leat_pool_packing)packing);
        void *weights[10];
        leat_pool_stats settled = {0}, end;

        for (int i = 0; i < 10; i++)
            weights[i] = test_block(pool, t->stream, (size_t)i * 777777 + 500000);
        for (unsigned period = 0; period < 6; period++) {
            if (period == 3)
                settled = test_statistics(pool);
            for (unsigned number = 0; number < 5; number++)
                step(pool, t->stream, number);
        }
        end = test_statistics(pool);
        assert_int_equal(end.driver_calls, settled.driver_calls);
        assert_int_equal(end.events, settled.events);
        assert_int_equal(end.stream_waits, 0);
        assert_int_equal(end.host_waits, 0);
        for (int i = 0; i < 10; i++)
            OK(leat_free(t->stream, weights[i]));
        OK(leat_pool_destroy(pool));
    }
}

/* ---- blocks stitched from pages that are not adjacent ---- */

/* Allocates pages and frees every second one, so that the idle pages are not adjacent. */
static void *every_second_page(leat_pool *pool, leat_stream *stream, void **kept, int count)
{
    void *freed[64];

    for (int i = 0; i < count; i++) {
        freed[i] = test_block(pool, stream, 2 * MIB);
        kept[i] = test_block(pool, stream, 2 * MIB);
    }
    for (int i = 0; i < count; i++)
        OK(leat_free(stream, freed[i]));
    return freed[0];
}

/* The idle pages suffice for a large block, wherever they are. The pool keeps the mapping and reuses it the second
 * time. In between, the pages can serve other blocks. */
static void idle_pages_make_one_block(void **state)
{
    enum { PAGES = 32 };
    struct test_state *t = *state;
    void *kept[PAGES], *large, *again, *small[PAGES];
    leat_pool_stats figures = LEAT_POOL_STATS_INIT;
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    leat_pool *pool;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = POOL(t->device, .limit_bytes = 2 * PAGES * 2 * MIB);
    every_second_page(pool, t->stream, kept, PAGES);
    for (int i = 0; i < PAGES; i++)
        OK(leat_fill(t->stream, kept[i], (unsigned char)i, 2 * MIB));
    large = test_block(pool, t->stream, PAGES * 2 * MIB);
    figures = test_statistics(pool);
    assert_int_equal(figures.stitches, 1);
    assert_int_equal(figures.stitch_reuses, 0);
    assert_int_equal(figures.pages_stitched, PAGES * 2 * MIB);
    assert_int_equal(figures.packing, LEAT_POOL_PACKING_TIGHT);
    assert_int_equal(figures.reserved_bytes, 2 * PAGES * 2 * MIB);
    OK(leat_fill(t->stream, large, 99, PAGES * 2 * MIB));
    test_block_holds(t->stream, large, PAGES * 2 * MIB, 99);
    for (int i = 0; i < PAGES; i++)
        test_block_holds(t->stream, kept[i], 2 * MIB, (unsigned char)i);
    /* leat must know the stitched pages as one block up to the last byte. */
    OK(leat_pointer_get_info((char *)large + PAGES * 2 * MIB - 1, &info));
    assert_ptr_equal(info.base, large);
    assert_int_equal(info.bytes, PAGES * 2 * MIB);
    STATUS(leat_pool_alloc(t->stream, pool, 2 * MIB, &small[0]), LEAT_ERROR_DEVICE_MEMORY);
    OK(leat_free(t->stream, large));
    STATUS(leat_free(t->stream, large), LEAT_ERROR_POINTER);
    for (int i = 0; i < PAGES; i++) {
        small[i] = test_block(pool, t->stream, 2 * MIB);
        OK(leat_fill(t->stream, small[i], (unsigned char)(100 + i), 2 * MIB));
    }
    STATUS(leat_pool_alloc(t->stream, pool, PAGES * 2 * MIB, &again), LEAT_ERROR_DEVICE_MEMORY);
    for (int i = 0; i < PAGES; i++) {
        test_block_holds(t->stream, small[i], 2 * MIB, (unsigned char)(100 + i));
        OK(leat_free(t->stream, small[i]));
    }
    figures = test_statistics(pool);
    again = test_block(pool, t->stream, PAGES * 2 * MIB - 1000);
    assert_ptr_equal(again, large);
    assert_int_equal(test_statistics(pool).stitch_reuses, 1);
    assert_int_equal(test_statistics(pool).driver_calls, figures.driver_calls);
    OK(leat_free(t->stream, again));
    for (int i = 0; i < PAGES; i++)
        OK(leat_free(t->stream, kept[i]));
    OK(leat_device_synchronize(t->device));
    OK(leat_pool_trim(pool, 0, NULL, NULL));
    assert_int_equal(test_statistics(pool).reserved_bytes, 0);
    OK(leat_pool_destroy(pool));
}

/* If the idle pages do not suffice, the pool must request only the missing bytes from the driver. */
static void new_memory_makes_up_what_is_missing(void **state)
{
    enum { PAGES = 16 };
    struct test_state *t = *state;
    void *kept[PAGES], *large;
    leat_pool *pool;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = POOL(t->device, .packing = LEAT_POOL_PACKING_TIGHT);
    every_second_page(pool, t->stream, kept, PAGES);
    large = test_block(pool, t->stream, (PAGES + 4) * 2 * MIB);
    assert_int_equal(test_statistics(pool).stitches, 1);
    assert_true(test_statistics(pool).reserved_bytes <= (2 * PAGES + 4) * 2 * MIB);
    OK(leat_fill(t->stream, large, 5, (PAGES + 4) * 2 * MIB));
    test_block_holds(t->stream, large, (PAGES + 4) * 2 * MIB, 5);
    OK(leat_free(t->stream, large));
    for (int i = 0; i < PAGES; i++)
        OK(leat_free(t->stream, kept[i]));
    OK(leat_pool_destroy(pool));
}

/* With LEAT_POOL_PACKING_STILL the pool does not stitch, but allocates new memory. */
static void a_still_pool_stitches_nothing(void **state)
{
    enum { PAGES = 16 };
    struct test_state *t = *state;
    void *kept[PAGES], *large;
    leat_pool *pool;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = POOL(t->device, .packing = LEAT_POOL_PACKING_STILL);
    every_second_page(pool, t->stream, kept, PAGES);
    large = test_block(pool, t->stream, PAGES * 2 * MIB);
    assert_int_equal(test_statistics(pool).stitches, 0);
    assert_int_equal(test_statistics(pool).packing, LEAT_POOL_PACKING_STILL);
    OK(leat_free(t->stream, large));
    for (int i = 0; i < PAGES; i++)
        OK(leat_free(t->stream, kept[i]));
    OK(leat_pool_destroy(pool));
}

/* Creates more stitched blocks of different sizes than a pool keeps when they are freed. */
static void old_stitched_blocks_are_given_up(void **state)
{
    enum { PAGES = 32, ROUNDS = 600 };
    struct test_state *t = *state;
    void *kept[PAGES], *large, *hole;
    leat_pool *pool;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = POOL(t->device, .limit_bytes = 2 * PAGES * 2 * MIB);
    every_second_page(pool, t->stream, kept, PAGES);
    for (int i = 0; i < ROUNDS; i++) {
        /* Take another idle page in each round, so that the stitched block consists of other pages. */
        hole = test_block(pool, t->stream, 2 * MIB);
        large = test_block(pool, t->stream, (size_t)(2 + i * 7 % (PAGES - 3)) * 2 * MIB);
        OK(leat_fill(t->stream, large, (unsigned char)i, 4 * MIB));
        test_block_holds(t->stream, large, 4 * MIB, (unsigned char)i);
        OK(leat_free(t->stream, hole));
        hole = test_block(pool, t->stream, (size_t)(1 + i % 3) * 100000);
        OK(leat_free(t->stream, large));
        OK(leat_free(t->stream, hole));
    }
    for (int i = 0; i < PAGES; i++)
        OK(leat_free(t->stream, kept[i]));
    OK(leat_pool_destroy(pool));
}

static void there_are_three_packings(void **state)
{
    struct test_state *t = *state;
    leat_pool_options options = {.size = sizeof options, .packing = (leat_pool_packing)3};
    leat_pool *pool;

    REFUSED(leat_pool_create(t->device, &options, &pool), LEAT_ERROR_INVALID, "packing 3");
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(blocks_of_any_size_are_packed),
    STATE_TEST(growth_leaves_no_gaps),
    STATE_TEST(a_limit_is_filled),
    STATE_TEST(a_program_that_repeats_stands_still),
    STATE_TEST(idle_pages_make_one_block),
    STATE_TEST(new_memory_makes_up_what_is_missing),
    STATE_TEST(a_still_pool_stitches_nothing),
    STATE_TEST(old_stitched_blocks_are_given_up),
    STATE_TEST(there_are_three_packings),
};

TEST_MAIN(tests)
