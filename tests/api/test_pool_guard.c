/*
 * test_pool_guard.c - tests the guard mode of pools: red zones around blocks, and freed blocks in quarantine.
 *
 * Kernels do the out-of-bounds writes, because they can write to all mapped memory on every device.
 */
#include "pool_guard.h"
#include "temporary.h"

#include <stdio.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#if defined(UNDER_ASAN)
#include <sanitizer/asan_interface.h>
#endif

/* ---- out-of-bounds writes, and the text of reports ---------------------------------------------------------- */

static void be_slow(void *unused)
{
    (void)unused;
    test_sleep_us(30000);
}

/* Captures what leat prints on standard error between catch_words() and caught_words(). */
struct caught {
    int file;
};

/* Descriptor of the original standard error while it is captured, else -1. If a test fails in between, the next
 * test restores it. */
static int own_words = -1;

static void give_words_back(void)
{
    fflush(stderr);
    if (own_words < 0)
        return;
    dup2(own_words, STDERR_FILENO);
    close(own_words);
    own_words = -1;
}

static struct caught catch_words(void)
{
    char name[TEMPORARY_PATH];
    struct caught caught;

    give_words_back();
    own_words = dup(STDERR_FILENO);
    caught.file = temporary_file(name);
    assert_true(own_words >= 0 && caught.file >= 0);
    unlink(name);
    dup2(caught.file, STDERR_FILENO);
    return caught;
}

static const char *caught_words(struct caught *caught)
{
    static char text[1 << 16];
    ssize_t length;

    give_words_back();
    length = pread(caught->file, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    close(caught->file);
    return text;
}

/* ---- red zones ---------------------------------------------------------------------------------------------- */

/* Checks that the free finds the damage: it returns the error, counts a report and leaves the block live. A second
 * free must succeed. */
static void expect_damage(leat_pool *pool, leat_stream *stream, void *block, const char *words)
{
    leat_pool_stats before = test_statistics(pool), after;

    if (stream)
        REFUSED(leat_free(stream, block), LEAT_ERROR_RANGE, words);
    else
        REFUSED(leat_memory_free(block), LEAT_ERROR_RANGE, words);
    expect_words(leat_last_error(), "allocated at ");
    expect_words(leat_last_error(), "freed at ");
    /* Each of the two backtraces names this program at least once. */
    assert_true(count_words(leat_last_error(), "test_pool_guard") >= 2);
    after = test_statistics(pool);
    assert_int_equal(after.guard_reports, before.guard_reports + 1);
    assert_int_equal(after.live_blocks, before.live_blocks);
    assert_int_equal(after.frees, before.frees);
    OK(stream ? leat_free(stream, block) : leat_memory_free(block));
    assert_int_equal(test_statistics(pool).live_blocks, before.live_blocks - 1);
    assert_int_equal(test_statistics(pool).guard_reports, before.guard_reports + 1);
}

static void writes_outside_a_block_are_found(void **state)
{
    static const size_t sizes[] = {1, 511, 512, 513, 1000, 70000, 3 * MIB};
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);

        for (size_t size = 0; pool && size < sizeof sizes / sizeof sizes[0]; size++) {
            size_t bytes = sizes[size];
            unsigned char *block;
            char words[160];

            block = test_block(pool, t->stream, bytes);
            scribble(t, t->stream, block + bytes, 1, 0x5a);
            snprintf(words, sizeof words, "1 byte behind it is overwritten, the first, at offset %zu, with 0x5a",
                     bytes);
            expect_damage(pool, t->stream, block, words);

            block = test_block(pool, t->stream, bytes);
            scribble(t, t->stream, block - 2, 2, 7);
            OK(leat_stream_synchronize(t->stream));
            expect_damage(pool, NULL, block,
                          "2 bytes in front of it are overwritten, the first, at offset -2, with 0x07");

            block = test_block(pool, NULL, bytes);
            scribble(t, t->stream, block - 512, 1, 1);
            scribble(t, t->stream, block + bytes + 300, 9, 2);
            snprintf(words, sizeof words,
                     "has %zu bytes, and 1 byte in front of it is overwritten, the first, at offset -512, with "
                     "0x01, and 9 bytes behind it are",
                     bytes);
            expect_damage(pool, t->stream, block, words);
        }
        OK(leat_pool_destroy(pool));
    }
}

/* The red zone extends to the end of the block's memory, up to the first byte of the next block. */
static void zones_reach_to_the_end_of_the_block(void **state)
{
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);
        leat_pool_stats before = LEAT_POOL_STATS_INIT;
        unsigned char *block;
        size_t behind;

        if (!pool)
            continue;
        before = test_statistics(pool);
        block = test_block(pool, t->stream, 1000);
        behind = test_statistics(pool).used_bytes - before.used_bytes - 512 - 1000;
        assert_true(behind >= 512);
        scribble(t, t->stream, block + 1000 + behind - 1, 1, 9);
        expect_damage(pool, t->stream, block, "1 byte behind it");
        OK(leat_pool_destroy(pool));
    }
}

static void a_write_that_comes_late_is_found(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .guard = 1);
    unsigned char *block = test_block(pool, t->stream, 1000);

    OK(leat_launch_host(t->stream, be_slow, NULL));
    scribble(t, t->stream, block + 1000, 3, 3);
    expect_damage(pool, t->stream, block, "3 bytes behind it");
    /* The write is pending on a stream that the pool knows only from leat_block_use(). */
    block = test_block(pool, t->stream, 1000);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_launch_host(t->second, be_slow, NULL));
    scribble(t, t->second, block - 1, 1, 3);
    OK(leat_block_use(t->second, block));
    expect_damage(pool, t->stream, block, "1 byte in front of it");
    OK(leat_pool_destroy(pool));
}

static void right_programs_are_left_alone(void **state)
{
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);
        struct caught caught = catch_words();

        for (int round = 0; pool && round < 200; round++) {
            size_t bytes = (size_t)(round * 7919 % 5000 + 1) << round % 9;
            leat_stream *stream = round % 2 ? t->stream : t->second;
            unsigned char *block = test_block(pool, round % 5 ? stream : NULL, bytes);

            scribble(t, stream, block, 1, 1);
            scribble(t, stream, block + bytes - 1, 1, 1);
            OK(leat_fill(stream, block, 0xee, bytes));
            test_block_holds(stream, block, bytes, 0xee);
            OK(round % 3 ? leat_free(stream, block) : leat_memory_free(block));
        }
        if (pool)
            assert_int_equal(reports(pool), 0);
        OK(leat_pool_destroy(pool));
        assert_string_equal(caught_words(&caught), "");
    }
}

/* A gate holds the allocating stream up. So the red zones are not written yet when another stream frees the
 * block. */
static void unused_blocks_are_freed_anywhere(void **state)
{
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        for (int way = 0; way < 2; way++) {
            leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);
            void *block;

            if (!pool)
                continue;
            OK(leat_launch_host(t->stream, be_slow, NULL));
            block = test_block(pool, t->stream, 1000);
            OK(way ? leat_memory_free(block) : leat_free(t->second, block));
            assert_int_equal(reports(pool), 0);
            OK(leat_pool_destroy(pool));
        }
    }
}

static void guarded_blocks_keep_their_alignment(void **state)
{
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);

        for (size_t alignment = 1; pool && alignment <= 4 * MIB; alignment *= 4) {
            leat_pool_stats before = test_statistics(pool), after;
            unsigned char *block = NULL;
            leat_pointer_info info = LEAT_POINTER_INFO_INIT;

            OK(leat_pool_alloc_aligned(t->stream, pool, 777, alignment, (void **)&block));
            assert_int_equal((uintptr_t)block % (alignment > 512 ? alignment : 512), 0);
            OK(leat_pointer_get_info(block + 100, &info));
            assert_ptr_equal(info.base, block);
            assert_int_equal(info.bytes, 777);
            after = test_statistics(pool);
            assert_int_equal(after.requested_bytes, before.requested_bytes + 777);
            assert_true(after.used_bytes >= before.used_bytes + 777 + 1024);
            scribble(t, t->stream, block - 512, 512, 3);
            expect_damage(pool, t->stream, block,
                          "512 bytes in front of it are overwritten, the first, at offset -512");
        }
        OK(leat_pool_destroy(pool));
    }
}

static void contents_tell_their_story(void **state)
{
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);
        unsigned char seen[512];
        unsigned char *block;

        if (!pool)
            continue;
        for (int way = 0; way < 2; way++) {
            block = test_block(pool, way ? NULL : t->stream, 1000);
            test_block_holds(t->stream, block, 1000, FRESH);
            peek(t, t->stream, block - 512, seen, 512);
            EXPECT_BYTES(seen, 512, ZONE);
            peek(t, t->stream, block + 1000, seen, 512);
            EXPECT_BYTES(seen, 512, ZONE);
            OK(way ? leat_memory_free(block) : leat_free(t->stream, block));
            OK(leat_device_synchronize(t->device));
            peek(t, t->stream, block, seen, 512);
            EXPECT_BYTES(seen, 512, FREED);
        }
        OK(leat_pool_destroy(pool));
    }
}

/* ---- use after free ----------------------------------------------------------------------------------------- */

static void writes_into_freed_memory_are_found(void **state)
{
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);

        for (int way = 0; pool && way < 2; way++) {
            unsigned char *block = test_block(pool, way ? NULL : t->stream, 100000);
            uint64_t before = reports(pool);
            struct caught caught;
            const char *words;
            char name[100];

            OK(way ? leat_memory_free(block) : leat_free(t->stream, block));
            OK(leat_device_synchronize(t->device));
            scribble(t, t->stream, block + 99998, 2, 0x77);
            OK(leat_stream_synchronize(t->stream));
            caught = catch_words();
            OK(leat_pool_trim(pool, 0, NULL, NULL));
            words = caught_words(&caught);
            expect_words(words, "use after free");
            snprintf(name, sizeof name, "2 bytes of the freed block %p + 100000 are overwritten", (void *)block);
            expect_words(words, name);
            expect_words(words, "the first, at offset 99998, with 0x77 in place of 0xdd");
            expect_words(words, "; allocated at ");
            expect_words(words, "; freed at ");
            assert_true(count_words(words, "test_pool_guard") >= 2);
            assert_int_equal(count_words(words, "\n"), 1);
            assert_int_equal(reports(pool), before + 1);
            assert_int_equal(test_statistics(pool).live_blocks, 0);
        }
        OK(leat_pool_destroy(pool));
    }
}

/* A block leaves the quarantine when 64 later blocks or 64 MiB were freed. Until then its memory must not be
 * reused. */
static void freed_blocks_are_kept_for_a_while(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .guard = 1);
    unsigned char *block = test_block(pool, t->stream, 5000);
    struct caught caught;

    OK(leat_free(t->stream, block));
    scribble(t, t->stream, block, 1, 1);
    OK(leat_stream_synchronize(t->stream));
    for (int i = 0; i < 64; i++) {
        void *other = test_block(pool, t->stream, 5000);

        assert_ptr_not_equal(other, block);
        assert_int_equal(reports(pool), 0);
        if (i == 63)
            caught = catch_words();
        OK(leat_free(t->stream, other));
    }
    expect_words(caught_words(&caught), "use after free");
    assert_int_equal(reports(pool), 1);

    block = test_block(pool, t->stream, MIB);
    OK(leat_free(t->stream, block));
    scribble(t, t->stream, block, 1, 1);
    OK(leat_stream_synchronize(t->stream));
    caught = catch_words();
    for (int i = 0; i < 4; i++)
        OK(leat_free(t->stream, test_block(pool, t->stream, 16 * MIB)));
    expect_words(caught_words(&caught), "use after free");
    assert_int_equal(reports(pool), 2);
    OK(leat_pool_destroy(pool));
}

/* The pool must release quarantined memory when it is needed: below a limit, for other pools, and when the pool is
 * destroyed. */
static void kept_memory_is_not_lost(void **state)
{
    struct test_state *t = *state;
    leat_budget *budget;
    leat_pool *pool, *second;
    leat_pool_stats figures = LEAT_POOL_STATS_INIT;
    uint64_t released;
    void *block;

    OK(leat_budget_create(16 * MIB, &budget));
    pool = POOL(t->device, .guard = 1, .limit_bytes = 12 * MIB, .budget = budget);
    second = POOL(t->device, .guard = 1, .budget = budget);
    for (int round = 0; round < 30; round++)
        OK(leat_free(round % 2 ? t->stream : t->second,
                     test_block(pool, round % 2 ? t->stream : t->second, 5 * MIB + (size_t)round)));
    assert_int_equal(test_statistics(pool).failures, 0);
    OK(leat_free(t->stream, test_block(second, t->stream, 15 * MIB)));
    OK(leat_free(t->stream, test_block(pool, t->stream, 9 * MIB)));
    OK(leat_pool_trim(pool, 0, &released, NULL));
    assert_true(released >= 9 * MIB);
    assert_int_equal(test_statistics(pool).reserved_bytes, 0);
    block = test_block(pool, t->stream, 9 * MIB);
    OK(leat_free(t->stream, block));
    OK(leat_pool_set_limits(pool, 4 * MIB, 0));
    OK(leat_pool_set_limits(pool, 0, 4 * MIB));
    assert_int_equal(reports(pool) + reports(second), 0);
    OK(leat_pool_destroy(second));
    OK(leat_pool_destroy(pool));
    OK(leat_budget_destroy(budget));
    /* These blocks are larger than the whole quarantine. */
    pool = POOL(t->device, .guard = 1);
    for (int round = 0; round < 3; round++)
        OK(leat_free(t->stream, test_block(pool, t->stream, 80 * MIB)));
    figures = test_statistics(pool);
    assert_int_equal(figures.guard_reports, 0);
    assert_true(figures.reserved_bytes <= 90 * MIB);
    assert_int_equal(figures.frees, 3);
    OK(leat_pool_destroy(pool));
}

static void damage_is_found_at_the_ends(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .guard = 1);
    unsigned char *block = test_block(pool, t->stream, 1000);
    struct caught caught = catch_words();

    OK(leat_free(t->stream, block));
    scribble(t, t->stream, block + 1, 1, 1);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_pool_destroy(pool));
    assert_int_equal(count_words(caught_words(&caught), "use after free"), 1);
}

/* Closing the device destroys the pool, which must find the damage too. */
static void damage_is_found_when_the_device_closes(void **state)
{
    leat_device *device = test_open_other();
    struct test_state far = {.device = device};
    struct caught caught;
    unsigned char *block;
    leat_pool *pool;

    (void)state;
    if (!device)
        SKIP_OTHER("needs two devices of one driver");
    OK(leat_stream_create(device, &far.stream));
    pool = POOL(device, .guard = 1);
    block = test_block(pool, far.stream, 1000);
    OK(leat_free(far.stream, block));
    scribble(&far, far.stream, block, 1, 1);
    caught = catch_words();
    OK(leat_device_close(device));
    assert_int_equal(count_words(caught_words(&caught), "use after free"), 1);
}

/* The message for a pointer into a freed block says where that block was allocated and freed, even if the block
 * has left the quarantine. */
static void dead_pointers_are_explained(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .guard = 1);
    unsigned char *block = test_block(pool, t->stream, 1000), host[4] = {0};
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    char words[100];

    snprintf(words, sizeof words, "the block %p + 1000, allocated at ", (void *)block);
    REFUSED(leat_copy(t->stream, host, block + 1100, 4), LEAT_ERROR_POINTER, "100 bytes past the end of");
    expect_words(leat_last_error(), words);
    REFUSED(leat_fill(t->stream, block - 5, 1, 4), LEAT_ERROR_POINTER, "5 bytes in front of");
    assert_null(strstr(leat_last_error(), "freed at"));
    OK(leat_free(t->stream, block));
    for (int round = 0; round < 2; round++) {
        REFUSED(leat_free(t->stream, block), LEAT_ERROR_POINTER, words);
        expect_words(leat_last_error(), "; freed at ");
        assert_true(count_words(leat_last_error(), "test_pool_guard") >= 2);
        REFUSED(leat_memory_free(block), LEAT_ERROR_POINTER, words);
        REFUSED(leat_copy(t->stream, block + 10, host, 4), LEAT_ERROR_POINTER, "dst");
        expect_words(leat_last_error(), "10 bytes into the block");
        expect_words(leat_last_error(), "; freed at ");
        REFUSED(leat_copy(t->stream, host, block, 4), LEAT_ERROR_POINTER, words);
        REFUSED(leat_fill(t->stream, block, 0, 4), LEAT_ERROR_POINTER, words);
        REFUSED(leat_block_use(t->stream, block), LEAT_ERROR_POINTER, words);
        REFUSED(leat_pointer_get_info(block, &info), LEAT_ERROR_POINTER, words);
        /* Trim the pool, so that the block has left the quarantine in the second round. */
        OK(leat_pool_trim(pool, MIB * 64, NULL, NULL));
    }
    assert_int_equal(reports(pool), 0);
    OK(leat_pool_destroy(pool));
}

/* ---- stream uses of a block --------------------------------------------------------------------------------- */

static void poison_comes_after_all_users(void **state)
{
    struct test_state *t = *state;
    unsigned char *kept = test_alloc(t->device, LEAT_KIND_PINNED, MIB);

    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);

        for (int way = 0; pool && way < 3; way++) {
            void *block = test_block(pool, t->stream, MIB);
            leat_event *event;

            OK(leat_fill(t->stream, block, 0x42, MIB));
            OK(leat_stream_synchronize(t->stream));
            OK(leat_launch_host(t->second, be_slow, NULL));
            OK(leat_copy(t->second, kept, block, MIB));
            if (way == 0) {
                OK(leat_block_use(t->second, block));
                OK(leat_free(t->stream, block));
            } else if (way == 1) {
                OK(leat_event_create(t->device, &event));
                OK(leat_event_record(t->second, event));
                OK(leat_block_use_until(event, block));
                OK(leat_event_destroy(event));
                OK(leat_free(t->stream, block));
            } else {
                OK(leat_free(t->second, block));
            }
            OK(leat_stream_synchronize(t->second));
            EXPECT_BYTES(kept, MIB, 0x42);
            assert_int_equal(reports(pool), 0);
        }
        OK(leat_pool_destroy(pool));
    }
    OK(leat_memory_free(kept));
}

/* A free that finds damage must keep the block's list of stream uses. */
static void users_survive_a_failed_free(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .guard = 1);
    unsigned char *kept = test_alloc(t->device, LEAT_KIND_PINNED, MIB);
    unsigned char *block = test_block(pool, t->stream, MIB);

    OK(leat_fill(t->stream, block, 0x42, MIB));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_block_use(t->second, block));
    scribble(t, t->stream, block + MIB, 1, 1);
    REFUSED(leat_free(t->stream, block), LEAT_ERROR_RANGE, "behind");
    OK(leat_launch_host(t->second, be_slow, NULL));
    OK(leat_copy(t->second, kept, block, MIB));
    OK(leat_free(t->stream, block));
    OK(leat_stream_synchronize(t->second));
    EXPECT_BYTES(kept, MIB, 0x42);
    OK(leat_pool_destroy(pool));
    OK(leat_memory_free(kept));
}

/* ---- sanitizers --------------------------------------------------------------------------------------------- */

#if defined(UNDER_ASAN)

static void the_checker_knows_what_is_held_back(void **state)
{
    struct test_state *t = *state;
    static const struct test_pool_sort plain[] = TEST_POOL_SORTS;

    for (size_t sort = 0; sort < sizeof plain / sizeof plain[0]; sort++) {
        const leat_pool_options *options = &plain[sort].options;
        bool reaches = test_on_cpu() || options->kind == LEAT_KIND_PINNED || options->kind == LEAT_KIND_MANAGED;
        leat_pool *pool = test_pool_try(t->device, options);

        for (int way = 0; pool && way < 2; way++) {
            unsigned char *block = test_block(pool, way ? NULL : t->stream, 1001);

            assert_null(__asan_region_is_poisoned(block, 1001));
            OK(way ? leat_memory_free(block) : leat_free(t->stream, block));
            if (!way) {
                /* The block may be used until the stream has reached the free. */
                OK(leat_stream_synchronize(t->stream));
                OK(leat_pool_trim(pool, UINT64_MAX, NULL, NULL));
            }
            if (options->guard)
                OK(leat_pool_trim(pool, UINT64_MAX, NULL, NULL));
            assert_int_equal(__asan_address_is_poisoned(block), reaches);
            assert_int_equal(__asan_address_is_poisoned(block + 1000), reaches);
            block = test_block(pool, t->stream, 1001);
            assert_null(__asan_region_is_poisoned(block, 1001));
            /* Without guard mode the bytes after the requested size are poisoned. */
            if (reaches && !options->guard && !options->scrub)
                assert_true(__asan_address_is_poisoned(block + 1001));
            OK(leat_free(t->stream, block));
        }
        OK(leat_pool_destroy(pool));
    }
}

#endif

/* Work that was submitted before the free still uses the block. A sanitizer must not report this use. */
static void pending_work_may_finish(void **state)
{
    struct test_state *t = *state;
    static const struct test_pool_sort all[] = TEST_POOL_SORTS;
    unsigned char *kept = test_alloc(t->device, LEAT_KIND_PINNED, 3 * MIB);

    for (size_t sort = 0; sort < sizeof all / sizeof all[0]; sort++) {
        leat_pool *pool = all[sort].options.guard ? NULL : test_pool_try(t->device, &all[sort].options);
        struct test_gate *gate;
        void *block;

        if (!pool)
            continue;
        block = test_block(pool, t->stream, 3 * MIB);
        OK(leat_fill(t->stream, block, 0x21, 3 * MIB));
        gate = test_gate_close(t->stream);
        OK(leat_copy(t->stream, kept, block, 3 * MIB));
        OK(leat_fill(t->stream, block, 0x22, 3 * MIB));
        OK(leat_free(t->stream, block));
        OK(leat_pool_trim(pool, 0, NULL, NULL));
        test_gate_open(gate);
        OK(leat_stream_synchronize(t->stream));
        EXPECT_BYTES(kept, 3 * MIB, 0x21);
        OK(leat_pool_destroy(pool));
    }
    OK(leat_memory_free(kept));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(writes_outside_a_block_are_found),
    STATE_TEST(zones_reach_to_the_end_of_the_block),
    STATE_TEST(a_write_that_comes_late_is_found),
    STATE_TEST(right_programs_are_left_alone),
    STATE_TEST(unused_blocks_are_freed_anywhere),
    STATE_TEST(guarded_blocks_keep_their_alignment),
    STATE_TEST(contents_tell_their_story),
    STATE_TEST(writes_into_freed_memory_are_found),
    STATE_TEST(freed_blocks_are_kept_for_a_while),
    STATE_TEST(kept_memory_is_not_lost),
    STATE_TEST(damage_is_found_at_the_ends),
    STATE_TEST(damage_is_found_when_the_device_closes),
    STATE_TEST(dead_pointers_are_explained),
    STATE_TEST(poison_comes_after_all_users),
    STATE_TEST(users_survive_a_failed_free),
#if defined(UNDER_ASAN)
    STATE_TEST(the_checker_knows_what_is_held_back),
#endif
    STATE_TEST(pending_work_may_finish),
};

TEST_MAIN(tests)
