/* unit_blocks.c - tests the table from addresses to blocks (core/blocks.c): failures of mmap(), and the memory
 * that the table keeps. */
#include "harness.h"

#include "core/blocks.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE LEATI_PAGE_BYTES
#define LEAF ((uintptr_t)16 << 30) /* size of the address range that one leaf of the table covers */

/* With --wrap the linker directs calls of mmap() in leat to __wrap_mmap(). */
void *__real_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
static long maps_left = -1; /* number of further calls that succeed; -1: all calls succeed */

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (maps_left == 0)
        return MAP_FAILED;
    if (maps_left > 0)
        maps_left--;
    return __real_mmap(address, bytes, protection, flags, fd, offset);
}

/* The table reads neither the pool nor the memory that it describes, so neither has to exist. */
static struct leat_pool *const pool = (struct leat_pool *)(uintptr_t)0x1000;

static struct leat_pool *pool_at(uintptr_t address)
{
    struct leat_pool *found;

    (void)leati_block_find((void *)address, &found);
    return found;
}

/* Covers a range that spans two leaves. The first attempts fail because mmap() fails; each attempt lets one more
 * mmap() succeed. A failed attempt must cover nothing. */
static void a_range_is_covered_whole_or_not_at_all(void **state)
{
    const uintptr_t base = 3 * LEAF - 2 * PAGE;
    const size_t bytes = 5 * PAGE;
    struct leati_block *block;
    struct leat_pool *found;
    unsigned failures = 0;
    bool ready = false;

    (void)state;
    while (!ready) {
        maps_left = failures;
        ready = leati_blocks_cover(pool, base, bytes, true);
        maps_left = -1;
        for (uintptr_t at = base; at < base + bytes; at += PAGE)
            assert_ptr_equal(pool_at(at), ready ? pool : NULL);
        if (ready)
            break;
        failures++;
        /* The failed attempt must leave nothing in the table that disturbs another pool with large blocks. */
        assert_true(leati_blocks_cover(pool, base, PAGE, false));
        block = leati_block_new();
        assert_non_null(block);
        atomic_store(&block->base, base);
        atomic_store(&block->bytes, PAGE);
        atomic_store(&block->state, LEATI_BLOCK_FREE);
        leati_blocks_enter(block, false);
        assert_ptr_equal(leati_block_find((void *)(base + PAGE - 1), &found), block);
        leati_blocks_uncover(base, PAGE);
        leati_block_give_back(block);
    }
    /* The range needs at least two leaves and granules for its first page, and later attempts reuse what earlier
     * ones have mapped. So at least three attempts must have failed. */
    assert_true(failures >= 3);
    leati_blocks_uncover(base, bytes);
    assert_null(pool_at(base));
}

/* ---- two blocks that share a page ---- */

enum { ENTRIES = 20000 };
static atomic_uint round_of[2];

/* Alternately enters two records of the same extent, in step with the other thread. */
static void *enter_in_turns(void *argument)
{
    struct leati_block **blocks = argument;
    unsigned mine = blocks[2] != NULL;

    for (unsigned i = 1; i <= ENTRIES; i++) {
        atomic_store(&round_of[mine], 2 * i);
        while (atomic_load(&round_of[!mine]) < 2 * i)
            continue;
        leati_blocks_enter(blocks[i % 2], false);
        atomic_store(&round_of[mine], 2 * i + 1);
        while (atomic_load(&round_of[!mine]) < 2 * i + 1)
            continue;
        assert_ptr_equal(
            leati_block_find((char *)blocks[0]->base + LEATI_WINDOW_BYTES - 1, &(struct leat_pool *){0}),
            blocks[i % 2]);
    }
    return NULL;
}

/* Both blocks extend into one window of a page. Neither thread may undo what the other thread enters. */
static void threads_enter_blocks_that_share_a_page(void **state)
{
    const uintptr_t page = 5 * LEAF + 7 * PAGE, half = LEATI_WINDOW_BYTES / 2;
    struct leati_block *blocks[2][3] = {{NULL}};
    pthread_t thread;

    (void)state;
    assert_true(leati_blocks_cover(pool, page - PAGE, 2 * PAGE, false));
    for (unsigned i = 0; i < 4; i++) {
        struct leati_block *block = blocks[i / 2][i % 2] = leati_block_new();

        assert_non_null(block);
        atomic_store(&block->base, i / 2 ? page + half : page - half);
        atomic_store(&block->bytes, LEATI_WINDOW_BYTES);
        atomic_store(&block->state, LEATI_BLOCK_FREE);
    }
    blocks[1][2] = blocks[1][0];
    assert_int_equal(pthread_create(&thread, NULL, enter_in_turns, blocks[1]), 0);
    (void)enter_in_turns(blocks[0]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    leati_blocks_uncover(page - PAGE, 2 * PAGE);
    for (unsigned i = 0; i < 4; i++)
        leati_block_give_back(blocks[i / 2][i % 2]);
}

static size_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    size_t all = 0, resident = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu %zu", &all, &resident), 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* Simulates pools that are created and destroyed at ever new addresses: each round uses a part of the table that
 * was never used before. */
static void what_is_uncovered_takes_no_memory(void **state)
{
    enum { ROUNDS = 8192 };
    const uintptr_t base = 8 * LEAF, step = 256 * PAGE;
    size_t before;

    (void)state;
    assert_true(leati_blocks_cover(pool, base, PAGE, false));
    before = resident_bytes();
    for (uintptr_t i = 1; i <= ROUNDS; i++) {
        assert_true(leati_blocks_cover(pool, base + i * step, PAGE, true));
        assert_ptr_equal(pool_at(base + i * step), pool);
        leati_blocks_uncover(base + i * step, PAGE);
        assert_null(pool_at(base + i * step));
    }
    /* If the table kept the memory of all rounds, this would be 32 MiB. */
    assert_true(resident_bytes() < before + ((size_t)8 << 20));
    assert_ptr_equal(pool_at(base), pool);
    leati_blocks_uncover(base, PAGE);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_is_covered_whole_or_not_at_all),
        cmocka_unit_test(threads_enter_blocks_that_share_a_page),
        cmocka_unit_test(what_is_uncovered_takes_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
