/*
 * test_pool_guard.c - pools that watch: scrubbing, guard mode, call stacks, leaks.
 *
 * Wrong writes come from kernels, which reach everything that is mapped, on every device. What needs an
 * environment variable, or driver calls that fail, runs in a child process: this program again, with a name as its
 * argument.
 */
#include "test_pool.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
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

enum { ZONE = 0xfd, FRESH = 0xcd, FREED = 0xdd };

/* All sorts of pools that can be guarded. */
static const struct test_pool_sort sorts[] = {
    {"device", {.size = sizeof(leat_pool_options), .guard = 1}},
    {"plain", {.size = sizeof(leat_pool_options), .guard = 1, .no_virtual_memory = 1}},
    {"one handle", {.size = sizeof(leat_pool_options), .guard = 1, .dedicated = 1}},
    {"pinned", {.size = sizeof(leat_pool_options), .guard = 1, .kind = LEAT_KIND_PINNED}},
    {"managed", {.size = sizeof(leat_pool_options), .guard = 1, .kind = LEAT_KIND_MANAGED}},
};
enum { SORTS = sizeof sorts / sizeof sorts[0] };

/* ---- wrong writes, and what was said ------------------------------------------------------------------------ */

/* Has a kernel write count bytes of value at ptr, whatever is there. */
static void scribble(struct test_state *t, leat_stream *stream, void *ptr, uint64_t count, uint8_t value)
{
    leat_kernel *kernel = test_kernel(t->device, "leat_fill_u8");
    void *args[] = {&ptr, &count, &value};

    OK(leat_launch(stream, kernel, leat_dim(1, 1, 1), leat_dim(32, 1, 1), 0, args, 3));
}

/* Reads bytes at ptr by a kernel, to where the host can see them: leat_copy() would refuse. */
static void peek(struct test_state *t, leat_stream *stream, const void *ptr, unsigned char *out, size_t bytes)
{
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, bytes);
    leat_kernel *kernel = test_kernel(t->device, "leat_vector_add_u32");
    uint64_t count = bytes / 4;
    unsigned char *zeros = test_alloc(t->device, LEAT_KIND_DEVICE, bytes);
    void *args[] = {&pinned, &ptr, &zeros, &count};

    assert_int_equal(bytes % 4, 0);
    OK(leat_fill(stream, zeros, 0, bytes));
    OK(leat_launch(stream, kernel, leat_dim(1, 1, 1), leat_dim(32, 1, 1), 0, args, 4));
    OK(leat_stream_synchronize(stream));
    memcpy(out, pinned, bytes);
    OK(leat_memory_free(pinned));
    OK(leat_memory_free(zeros));
}

static void be_slow(void *unused)
{
    (void)unused;
    test_sleep_us(30000);
}

/* What the library writes on standard error between the two. */
struct caught {
    int file;
};

/* A test that failed between them leaves the next one its standard error. */
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
    char name[] = "/tmp/leat-test-XXXXXX";
    struct caught caught;

    give_words_back();
    own_words = dup(STDERR_FILENO);
    caught.file = mkstemp(name);
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

static unsigned count_words(const char *text, const char *words)
{
    unsigned count = 0;

    for (; (text = strstr(text, words)); text += strlen(words))
        count++;
    return count;
}

static void expect_words(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("'%s' does not have the words '%s'", text, words);
}

static uint64_t reports(leat_pool *pool)
{
    return test_statistics(pool).guard_reports;
}

/* ---- zones -------------------------------------------------------------------------------------------------- */

/* A free that finds damage: the message, the count, a block that still lives, and a second free. */
static void expect_damage(leat_pool *pool, leat_stream *stream, void *block, const char *words)
{
    leat_pool_statistics before = test_statistics(pool), after;

    if (stream)
        REFUSED(leat_free(stream, block), LEAT_ERROR_RANGE, words);
    else
        REFUSED(leat_memory_free(block), LEAT_ERROR_RANGE, words);
    expect_words(leat_last_error(), "allocated at ");
    expect_words(leat_last_error(), "freed at ");
    /* Once for each call stack. */
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

/* To the very end of what the block takes, and right up to where the next one begins. */
static void zones_reach_to_the_end_of_the_block(void **state)
{
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);
        leat_pool_statistics before;
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
    /* On a stream that nobody waited for, of which the pool was told. */
    block = test_block(pool, t->stream, 1000);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_launch_host(t->second, be_slow, NULL));
    scribble(t, t->second, block - 1, 1, 3);
    OK(leat_pool_use(block, t->second));
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

/* Where the allocating stream stands still, the zones are not there yet when another stream frees. */
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
            leat_pool_statistics before = test_statistics(pool), after;
            unsigned char *block = NULL;
            leat_pointer_info info;

            OK(leat_pool_alloc_aligned(pool, t->stream, 777, alignment, (void **)&block));
            assert_int_equal((uintptr_t)block % (alignment > 512 ? alignment : 512), 0);
            OK(leat_pointer_query(block + 100, &info));
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

/* 64 younger ones push a block out, and so do 64 MiB; until then nobody else gets the memory. */
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

/* What is kept is there when memory is needed: within a limit, for other pools, at the ends. */
static void kept_memory_is_not_lost(void **state)
{
    struct test_state *t = *state;
    leat_budget *budget;
    leat_pool *pool, *second;
    leat_pool_statistics figures;
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
    /* Larger than all that is kept. */
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

/* The same when the pool ends with its device. */
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

/* Of a block that was freed, and of one that is long gone, it is said where it came from. */
static void dead_pointers_are_explained(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .guard = 1);
    unsigned char *block = test_block(pool, t->stream, 1000), host[4] = {0};
    leat_pointer_info info;
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
        REFUSED(leat_pool_use(block, t->stream), LEAT_ERROR_POINTER, words);
        REFUSED(leat_pointer_query(block, &info), LEAT_ERROR_POINTER, words);
        /* The second time it is not kept any more. */
        OK(leat_pool_trim(pool, MIB * 64, NULL, NULL));
    }
    assert_int_equal(reports(pool), 0);
    OK(leat_pool_destroy(pool));
}

/* ---- who may still use a block ------------------------------------------------------------------------------ */

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
                OK(leat_pool_use(block, t->second));
                OK(leat_free(t->stream, block));
            } else if (way == 1) {
                OK(leat_event_create(t->device, &event));
                OK(leat_event_record(event, t->second));
                OK(leat_pool_use_until(block, event));
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

/* A free that found damage forgets nobody. */
static void users_survive_a_failed_free(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .guard = 1);
    unsigned char *kept = test_alloc(t->device, LEAT_KIND_PINNED, MIB);
    unsigned char *block = test_block(pool, t->stream, MIB);

    OK(leat_fill(t->stream, block, 0x42, MIB));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_pool_use(block, t->second));
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

/* ---- use before order --------------------------------------------------------------------------------------- */

static void order(struct test_state *t, leat_stream *earlier, leat_stream *later)
{
    leat_event *event;

    OK(leat_event_create(t->device, &event));
    OK(leat_event_record(event, earlier));
    OK(leat_stream_wait(later, event));
    OK(leat_event_destroy(event));
}

static void expect_early(const char *words)
{
    expect_words(leat_last_error(), words);
    assert_true(count_words(leat_last_error(), "test_pool_guard") >= 2);
}

static void use_before_the_allocation_is_refused(void **state)
{
    struct test_state *t = *state;
    const uint64_t eight = 1234567890123;

    test_kernel(t->device, "leat_fill_u64");
    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);
        unsigned char *block, *ready, host[8] = {0};
        struct test_gate *gate;

        if (!pool)
            continue;
        ready = test_block(pool, NULL, 1000);
        order(t, t->stream, t->second);
        gate = test_gate_close(t->stream);
        block = test_block(pool, t->stream, 1000);
        REFUSED(leat_fill(t->second, block, 1, 1000), LEAT_ERROR_NOT_PERMITTED, "was allocated on another stream");
        expect_early("allocated at ");
        expect_early("used at ");
        REFUSED(leat_fill_pattern(t->second, block, &eight, 8, 1000), LEAT_ERROR_NOT_PERMITTED, "dst");
        REFUSED(leat_copy(t->second, block, ready, 1000), LEAT_ERROR_NOT_PERMITTED, "dst");
        REFUSED(leat_copy(t->second, ready, block, 1000), LEAT_ERROR_NOT_PERMITTED, "src");
        REFUSED(leat_copy(t->second, host, block, 8), LEAT_ERROR_NOT_PERMITTED, "src");
        REFUSED(leat_copy(t->second, block, host, 8), LEAT_ERROR_NOT_PERMITTED, "dst");
        assert_int_equal(reports(pool), 6);
        /* Its own stream may, and what is ready for all. */
        OK(leat_fill(t->stream, block, 1, 1000));
        OK(leat_fill(t->second, ready, 2, 1000));
        order(t, t->stream, t->second);
        OK(leat_fill(t->second, block, 3, 1000));
        assert_int_equal(reports(pool), 6);
        test_gate_open(gate);
        test_block_holds(t->second, block, 1000, 3);
        OK(leat_free(t->second, block));
        OK(leat_free(t->second, ready));
        OK(leat_pool_destroy(pool));
    }
}

static void use_is_judged_by_its_bytes(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .guard = 1);
    unsigned char *block = test_block(pool, NULL, 1000), *other = test_block(pool, NULL, 1000);
    struct test_gate *gate = test_gate_close(t->stream);

    /* Written there, and not here yet. */
    OK(leat_fill(t->stream, block, 1, 500));
    REFUSED(leat_copy(t->second, other, block + 499, 1), LEAT_ERROR_NOT_PERMITTED, "was last written");
    expect_early("the other use was at ");
    expect_early("used at ");
    expect_early("; allocated at ");
    REFUSED(leat_fill(t->second, block, 2, 1000), LEAT_ERROR_NOT_PERMITTED, "was last written");
    OK(leat_fill(t->second, block + 500, 2, 500));
    OK(leat_copy(t->second, other, block + 500, 500));
    test_gate_open(gate);
    OK(leat_device_synchronize(t->device));
    /* Read there: others may not write, but read. */
    gate = test_gate_close(t->stream);
    OK(leat_copy(t->stream, other + 500, block, 100));
    REFUSED(leat_fill(t->second, block + 99, 3, 1), LEAT_ERROR_NOT_PERMITTED, "was last read");
    OK(leat_fill(t->second, block + 100, 3, 100));
    OK(leat_copy(t->second, other, block, 100));
    assert_int_equal(reports(pool), 3);
    test_gate_open(gate);
    /* The host has seen it. */
    OK(leat_stream_synchronize(t->stream));
    OK(leat_fill(t->second, block, 4, 1000));
    OK(leat_fill(t->second, other, 4, 1000));
    OK(leat_stream_synchronize(t->second));
    OK(leat_free(t->stream, block));
    OK(leat_free(t->stream, other));
    assert_int_equal(reports(pool), 3);
    OK(leat_pool_destroy(pool));
}

/* Order may come through a third stream, and the host may have seen that one only. */
static void order_goes_through_others(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .guard = 1);
    struct test_gate *gate = test_gate_close(t->stream);
    unsigned char *block = test_block(pool, t->stream, 1000), host[1000];
    leat_stream *third;

    OK(leat_stream_create(t->device, &third));
    order(t, t->stream, third);
    REFUSED(leat_fill(t->second, block, 1, 1000), LEAT_ERROR_NOT_PERMITTED, "was allocated");
    order(t, third, t->second);
    OK(leat_fill(t->second, block, 1, 1000));
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->second));
    OK(leat_fill(third, block, 2, 1000));
    OK(leat_stream_synchronize(third));
    /* The host has waited for this copy, and so for all before it. */
    OK(leat_copy_sync(third, host, block, 1000));
    OK(leat_fill(t->second, block, 3, 1000));
    OK(leat_stream_synchronize(t->second));
    OK(leat_free(t->stream, block));
    assert_int_equal(reports(pool), 1);
    OK(leat_pool_destroy(pool));
    OK(leat_stream_destroy(third));
}

/* A stream that waited for more than leat remembers, or that the program may order by the vendor's calls. */
static void what_is_not_known_is_not_judged(void **state)
{
    enum { MANY = 20 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .guard = 1);
    struct test_gate *gate = test_gate_close(t->stream);
    unsigned char *block = test_block(pool, t->stream, 1000);
    leat_stream *many[MANY], *fresh, *wrapped;
    leat_event *event;
    void *native;

    order(t, t->stream, t->second);
    for (int i = 0; i < MANY; i++) {
        OK(leat_stream_create(t->device, &many[i]));
        order(t, many[i], t->second);
    }
    OK(leat_fill(t->second, block, 1, 1000));
    OK(leat_stream_create(t->device, &fresh));
    REFUSED(leat_fill(fresh, block, 2, 1000), LEAT_ERROR_NOT_PERMITTED, "not ordered");
    /* An event that is recorded outside leat, perhaps. */
    OK(leat_event_create(t->device, &event));
    OK(leat_event_native(event, &native));
    OK(leat_event_record(event, t->second));
    OK(leat_stream_wait(fresh, event));
    OK(leat_fill(fresh, block, 2, 1000));
    OK(leat_event_destroy(event));
    /* What follows it does not know either. */
    REFUSED(leat_fill(many[0], block, 3, 1000), LEAT_ERROR_NOT_PERMITTED, "not ordered");
    order(t, fresh, many[0]);
    OK(leat_fill(many[0], block, 3, 1000));
    /* A stream with two names. */
    REFUSED(leat_fill(many[1], block, 3, 1000), LEAT_ERROR_NOT_PERMITTED, "not ordered");
    OK(leat_stream_native(many[0], &native));
    OK(leat_stream_wrap(t->device, native, &wrapped));
    OK(leat_fill(wrapped, block, 4, 1000));
    OK(leat_fill(many[0], block, 5, 1000));
    test_gate_open(gate);
    OK(leat_device_synchronize(t->device));
    OK(leat_stream_destroy(wrapped));
    OK(leat_stream_destroy(fresh));
    for (int i = 0; i < MANY; i++)
        OK(leat_stream_destroy(many[i]));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* One stream with two names: order that was seen under one of them counts for the other. */
static void a_stream_may_have_two_names(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .guard = 1);
    struct test_gate *gate;
    unsigned char *block;
    leat_stream *alias;
    void *native;

    OK(leat_stream_native(t->stream, &native));
    OK(leat_stream_wrap(t->device, native, &alias));
    gate = test_gate_close(t->stream);
    block = test_block(pool, alias, 1000);
    OK(leat_fill(alias, block, 1, 1000));
    order(t, t->stream, t->second);
    OK(leat_fill(t->second, block, 2, 1000));
    test_gate_open(gate);
    test_block_holds(t->second, block, 1000, 2);
    OK(leat_free(t->second, block));
    OK(leat_stream_destroy(alias));
    OK(leat_pool_destroy(pool));
}

/* Notes know streams that are gone. */
static void streams_end_before_their_blocks(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .guard = 1);

    for (int round = 0; round < 10; round++) {
        unsigned char *block;
        leat_stream *gone;

        OK(leat_stream_create(t->device, &gone));
        block = test_block(pool, gone, 1000);
        OK(leat_fill(gone, block, 1, 1000));
        if (round % 2) {
            OK(leat_free(gone, block));
            OK(leat_stream_destroy(gone));
        } else {
            OK(leat_stream_destroy(gone));
            OK(leat_device_synchronize(t->device));
            OK(leat_fill(t->stream, block, 2, 1000));
            OK(leat_free(t->stream, block));
        }
    }
    OK(leat_pool_trim(pool, 0, NULL, NULL));
    assert_int_equal(reports(pool), 0);
    OK(leat_pool_destroy(pool));
}

/* ---- scrubbing ---------------------------------------------------------------------------------------------- */

static void scrubbed_memory_is_clear_to_its_end(void **state)
{
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        for (int guard = 0; guard < 2; guard++) {
            leat_pool_options options = sorts[sort].options;
            leat_pool *pool;

            options.guard = (uint8_t)guard;
            options.scrub = 1;
            options.limit_bytes = 16 * MIB;
            pool = test_pool_try(t->device, &options);
            for (int round = 0; pool && round < 8; round++) {
                leat_stream *stream = round % 2 ? t->stream : t->second;
                size_t bytes = round % 4 < 2 ? 3 * MIB - 100 : 5000;
                unsigned char *block = test_block(pool, round % 3 ? stream : NULL, bytes), seen[100];

                test_block_holds(stream, block, bytes, 0);
                /* Up to where the block ends for all; in guard mode there are zones. */
                if (!guard) {
                    peek(t, stream, block + bytes, seen, bytes % 512 == 0 ? 0 : 100);
                    EXPECT_BYTES(seen, bytes % 512 == 0 ? 0 : 100, 0);
                }
                OK(leat_fill(stream, block, 0xff, bytes));
                OK(leat_stream_synchronize(stream));
                OK(round % 3 ? leat_free(stream, block) : leat_memory_free(block));
            }
            OK(leat_pool_destroy(pool));
        }
    }
}

/* Clearing is work too, of a stream that may not have got there when an unused block is freed on another one. */
static void clearing_comes_before_the_next_user(void **state)
{
    struct test_state *t = *state;

    for (int kind = 0; kind < 2; kind++) {
        for (int way = 0; way < 2; way++) {
            leat_pool *pool = POOL(t->device, .scrub = 1, .limit_bytes = 8 * MIB, .reuse = LEAT_POOL_WAIT,
                                   .kind = kind ? LEAT_KIND_PINNED : LEAT_KIND_DEVICE);
            struct test_gate *gate = test_gate_close(t->stream);
            void *block = test_block(pool, t->stream, 8 * MIB);

            OK(way ? leat_memory_free(block) : leat_free(t->second, block));
            block = test_block(pool, t->second, 8 * MIB);
            OK(leat_fill(t->second, block, 0x33, 8 * MIB));
            for (int i = 0; i < 30 && leat_stream_query(t->second) == LEAT_NOT_READY; i++)
                test_sleep_us(1000);
            test_gate_open(gate);
            OK(leat_device_synchronize(t->device));
            test_block_holds(t->second, block, 8 * MIB, 0x33);
            OK(leat_free(t->second, block));
            OK(leat_pool_destroy(pool));
        }
    }
}

/* The other process sees all of the memory, not only what was asked for. */
static void exported_memory_is_clear(void **state)
{
    struct test_state *t = *state;

    NEEDS_VIRTUAL_MEMORY(t);
    for (int guard = 0; guard < 2; guard++) {
        leat_pool *pool = POOL(t->device, .dedicated = 1, .exportable = 1, .scrub = 1, .guard = (uint8_t)guard);

        for (int round = 0; round < 3; round++) {
            void *block = test_block(pool, t->stream, 1000), *imported;
            size_t bytes;
            int fd;

            OK(leat_stream_synchronize(t->stream));
            OK(leat_pool_export(block, &fd, &bytes));
            OK(leat_pool_import(t->device, fd, bytes, &imported));
            close(fd);
            test_block_holds(t->stream, imported, bytes, 0);
            OK(leat_fill(t->stream, imported, 0xee, bytes));
            /* Whoever imports it may write everywhere, and later. */
            OK(leat_free(t->stream, block));
            OK(leat_fill(t->stream, imported, 0xef, bytes));
            OK(leat_stream_synchronize(t->stream));
            OK(leat_memory_free(imported));
        }
        assert_int_equal(reports(pool), 0);
        OK(leat_pool_destroy(pool));
    }
}

/* ---- checkers ----------------------------------------------------------------------------------------------- */

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
                /* Until the stream has passed it may still be used. */
                OK(leat_stream_synchronize(t->stream));
                OK(leat_pool_trim(pool, UINT64_MAX, NULL, NULL));
            }
            if (options->guard)
                OK(leat_pool_trim(pool, UINT64_MAX, NULL, NULL));
            assert_int_equal(__asan_address_is_poisoned(block), reaches);
            assert_int_equal(__asan_address_is_poisoned(block + 1000), reaches);
            block = test_block(pool, t->stream, 1001);
            assert_null(__asan_region_is_poisoned(block, 1001));
            /* The rest of the block is nobody's, where no guard has it. */
            if (reaches && !options->guard && !options->scrub)
                assert_true(__asan_address_is_poisoned(block + 1001));
            OK(leat_free(t->stream, block));
        }
        OK(leat_pool_destroy(pool));
    }
}

#endif

/* Work that was given before the free goes on in the block: no checker may blame it. */
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

/* ---- child processes ---------------------------------------------------------------------------------------- */

/* Runs this program again as name, with three more settings; returns its exit status, and what it wrote. */
static int run_child(const char *name, const char *const settings[][2], char *text, size_t text_bytes)
{
    size_t used = 0;
    ssize_t length;
    int ends[2], status;
    pid_t child;

    fflush(NULL);
    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (!child) {
        for (int i = 0; settings[i][0]; i++)
            setenv(settings[i][0], settings[i][1], 1);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", "test_pool_guard", name, (char *)NULL);
        _exit(120);
    }
    close(ends[1]);
    while ((length = read(ends[0], text + used, text_bytes - 1 - used)) > 0)
        used += (size_t)length;
    text[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void expect_child(const char *name, const char *const settings[][2], char *text, size_t text_bytes)
{
    int status = run_child(name, settings, text, text_bytes);

    if (status)
        fail_msg("child %s ends with %d and says: %s", name, status, text);
}

#define MUST(condition)                                                                                           \
    do {                                                                                                          \
        if (!(condition)) {                                                                                       \
            fprintf(stderr, "line %d: not so: %s; the last message is: %s\n", __LINE__, #condition,               \
                    leat_last_error());                                                                           \
            fflush(NULL);                                                                                         \
            _exit(3);                                                                                             \
        }                                                                                                         \
    } while (0)

/* What a child does where one driver call fails. */
struct faulty {
    leat_device *device;
    leat_stream *stream, *asks; /* asks: NULL for blocks without a stream */
    leat_pool_options options;
    leat_pool *pool;
    unsigned failed; /* calls */
};

/* The call works, or says that the driver failed, and then works the second time. */
#define ONCE_MORE(f, call)                                                                                        \
    do {                                                                                                          \
        if ((call) != LEAT_OK) {                                                                                  \
            MUST(strstr(leat_last_error(), "fault driver"));                                                      \
            (f)->failed++;                                                                                        \
            MUST((call) == LEAT_OK);                                                                              \
        }                                                                                                         \
    } while (0)

static leat_pool_statistics figures_of(leat_pool *pool)
{
    leat_pool_statistics figures = {.size = sizeof figures};

    MUST(leat_pool_query(pool, &figures) == LEAT_OK);
    return figures;
}

/* All that the pool may hold, twice if the first time fails: then it was given back. */
static void *take_much(struct faulty *f)
{
    void *untouched = f, *block = untouched;
    leat_pool_statistics figures;

    if (leat_pool_alloc(f->pool, f->asks, 5 * MIB, &block) == LEAT_OK)
        return block;
    f->failed++;
    MUST(strstr(leat_last_error(), "fault driver") && block == untouched);
    figures = figures_of(f->pool);
    MUST(figures.live_blocks == 0 && figures.requested_bytes == 0 && figures.failures == 1);
    MUST(leat_pool_alloc(f->pool, f->asks, 5 * MIB, &block) == LEAT_OK);
    return block;
}

/* A free that fails leaves the block to its user. */
static void give_much(struct faulty *f, void *block)
{
    if ((f->asks ? leat_free(f->asks, block) : leat_memory_free(block)) == LEAT_OK)
        return;
    f->failed++;
    MUST(strstr(leat_last_error(), "fault driver"));
    MUST(figures_of(f->pool).live_blocks == 1);
    MUST((f->asks ? leat_free(f->asks, block) : leat_memory_free(block)) == LEAT_OK);
}

static void use_faulty_pool(struct faulty *f)
{
    leat_pool_statistics figures;
    unsigned char seen[3000];

    ONCE_MORE(f, leat_pool_create(f->device, &f->options, &f->pool));
    for (int round = 0; round < 4; round++) {
        void *block = take_much(f);

        ONCE_MORE(f, leat_copy_sync(f->stream, seen, block, sizeof seen));
        for (size_t at = 0; at < sizeof seen; at++)
            MUST(seen[at] == (f->options.scrub ? 0 : FRESH));
        ONCE_MORE(f, leat_fill(f->stream, block, 0x31, 5 * MIB));
        ONCE_MORE(f, leat_stream_synchronize(f->stream));
        give_much(f, block);
    }
    figures = figures_of(f->pool);
    MUST(figures.live_blocks == 0 && figures.used_bytes == 0 && figures.guard_reports == 0);
    f->failed += leat_pool_destroy(f->pool) != LEAT_OK;
}

static int child_with_a_fault(void)
{
    static const leat_kind kinds[] = {LEAT_KIND_DEVICE, LEAT_KIND_PINNED, LEAT_KIND_MANAGED};
    bool guard = !strcmp(getenv("TEST_SORT"), "guard");
    struct faulty f = {.failed = 0};

    MUST(leat_device_open(test_device_name(), &f.device) == LEAT_OK);
    MUST(leat_stream_create(f.device, &f.stream) == LEAT_OK);
    for (int i = 0; i < 6; i++) {
        f.asks = i < 3 ? f.stream : NULL;
        f.options = (leat_pool_options){.size = sizeof f.options,
                                        .kind = kinds[i % 3],
                                        .limit_bytes = 8 * MIB,
                                        .guard = guard,
                                        .scrub = !guard};
        use_faulty_pool(&f);
    }
    MUST(leat_stream_destroy(f.stream) == LEAT_OK);
    MUST(leat_device_close(f.device) == LEAT_OK);
    return f.failed ? 1 : 0;
}

static void driver_calls_may_fail(void **state)
{
    static const char *const entries[] = {
        "fill", "copy", "event_record", "event_create", "stream_synchronize", "event_synchronize"};
    leat_device_info info;

    if (test_on_names())
        SKIP_OTHER("the faults would be in the leat beneath as well");
    OK(leat_device_query(((struct test_state *)*state)->device, &info));
    if (!info.managed_memory)
        SKIP_MISSING("no managed memory");
    for (int sort = 0; sort < 2; sort++)
        for (size_t entry = 0; entry < sizeof entries / sizeof entries[0]; entry++) {
            unsigned failed = 0;

            /* The n-th such call, for some; past the last one nothing fails. */
            for (unsigned n = 1; n < 60; n += 1 + n / 2) {
                char fault[60], text[4096];
                const char *settings[][2] = {
                    {"LEAT_FAULT", fault}, {"TEST_SORT", sort ? "scrub" : "guard"}, {NULL, NULL}};
                int status;

                snprintf(fault, sizeof fault, "%.*s:fail=%s:%u", (int)strcspn(test_device_name(), ":"),
                         test_device_name(), entries[entry], n);
                status = run_child("fault", settings, text, sizeof text);
                if (status > 1)
                    fail_msg("%s, %s: status %d: %s", fault, sort ? "scrub" : "guard", status, text);
                failed += status == 1;
            }
            if (entry == 0)
                assert_true(failed > 5);
        }
}

static void *allocate_there(leat_pool *pool, leat_stream *stream, size_t bytes)
{
    void *block = NULL;

    MUST(leat_pool_alloc(pool, stream, bytes, &block) == LEAT_OK);
    return block;
}

static char snapshot[1 << 20];

static void keep_snapshot(void *argument, const char *text, size_t bytes)
{
    size_t *used = argument;

    MUST(*used + bytes < sizeof snapshot);
    memcpy(snapshot + *used, text, bytes);
    *used += bytes;
    snapshot[*used] = '\0';
}

/* Leaves blocks behind in 30 groups, one of which has most. */
static int child_with_leaks(void)
{
    volatile int three = 3, two = 2; /* so that each loop stays one place in the program */
    leat_pool *pool;
    leat_device *device;
    leat_stream *stream;
    size_t used = 0;
    void *block;

    MUST(leat_device_open(test_device_name(), &device) == LEAT_OK);
    MUST(leat_stream_create(device, &stream) == LEAT_OK);
    MUST(leat_pool_create(
             device,
             &(leat_pool_options){.size = sizeof(leat_pool_options), .name = "leaky", .limit_bytes = 8 * MIB},
             &pool) == LEAT_OK);
    for (int i = 0; i < three; i++)
        allocate_there(pool, stream, 100);
    for (int i = 0; i < 29; i++) {
        char tag[20];

        snprintf(tag, sizeof tag, "tag %d", i);
        MUST(leat_pool_tag(tag) == LEAT_OK);
        for (int count = 0; count < two; count++)
            allocate_there(pool, stream, 1000 + (size_t)i);
    }
    MUST(leat_pool_tag("much") == LEAT_OK);
    block = allocate_there(pool, NULL, 3 * MIB);
    MUST(leat_pool_tag(NULL) == LEAT_OK);
    MUST(leat_memory_free(allocate_there(pool, NULL, 3 * MIB)) == LEAT_OK);
    MUST(leat_pool_snapshot(pool, keep_snapshot, &used) == LEAT_OK);
    MUST(leat_pool_alloc(pool, stream, 7 * MIB, &block) == LEAT_ERROR_DEVICE_MEMORY);
    if (getenv("LEAT_POOL_BACKTRACES")) {
        MUST(count_words(snapshot, "\"stack\":[\"") == 62);
        MUST(strstr(snapshot, "test_pool_guard+0x"));
        MUST(strstr(leat_last_error(), "; most, 3145728 bytes in 1 blocks, was allocated at "));
        MUST(strstr(leat_last_error(), "test_pool_guard"));
    } else {
        MUST(!strstr(snapshot, "\"stack\""));
        MUST(!strstr(leat_last_error(), "allocated at"));
    }
    MUST(leat_device_close(device) == LEAT_OK);
    return 0;
}

static void leaks_are_listed(void **state)
{
    static const char *const with[][2] = {{"LEAT_LEAKS", "1"}, {"LEAT_POOL_BACKTRACES", "1"}, {NULL, NULL}};
    static const char *const without[][2] = {{"LEAT_LEAKS", "1"}, {NULL, NULL}};
    static const char *const silent[][2] = {{"LEAT_POOL_BACKTRACES", "1"}, {NULL, NULL}};
    static char text[1 << 16];
    const char *most, *second;

    (void)state;
    expect_child("leaks", with, text, sizeof text);
    expect_words(text, "is closed and leaky of ");
    expect_words(text, "62 blocks with 3204840 bytes are live");
    most = strstr(text, "leat: leak: 3145728 bytes in 1 block, tag 'much', allocated at ");
    second = strstr(text, "leat: leak: 2056 bytes in 2 blocks, tag 'tag 28', allocated at ");
    assert_true(most && second && most < second);
    assert_true(strstr(most, "test_pool_guard") < strchr(most, '\n'));
    expect_words(text, "leat: leak: and 11 more places\n");
    /* The summary, twenty places, and how many more. */
    assert_int_equal(count_words(text, "leat: leak: "), 22);

    expect_child("leaks", without, text, sizeof text);
    expect_words(text, "leat: leak: 3145728 bytes in 1 block, tag 'much'\n");
    assert_null(strstr(text, "allocated at"));

    expect_child("leaks", silent, text, sizeof text);
    assert_string_equal(text, "");
}

/* Default pools are guarded by the environment; and what is live at the end goes without a word. */
static int child_in_guard_mode(void)
{
    leat_pool_statistics figures = {.size = sizeof figures};
    struct test_state t;
    leat_pool *pool;
    unsigned char *block, *pinned;
    leat_pool_options options = {.size = sizeof options};

    MUST(leat_device_open(test_device_name(), &t.device) == LEAT_OK);
    MUST(leat_stream_create(t.device, &t.stream) == LEAT_OK);
    MUST(leat_alloc(t.stream, 1000, (void **)&block) == LEAT_OK);
    scribble(&t, t.stream, block + 1000, 1, 1);
    MUST(leat_free(t.stream, block) == LEAT_ERROR_RANGE);
    MUST(leat_memory_alloc(t.device, LEAT_KIND_PINNED, 1000, (void **)&pinned) == LEAT_OK);
    pinned[-1] = 1;
    MUST(leat_memory_free(pinned) == LEAT_ERROR_RANGE);
    MUST(leat_pool_create(t.device, &options, &pool) == LEAT_OK);
    MUST(leat_pool_query(pool, &figures) == LEAT_OK);
    MUST(figures.guard_reports == 0);
    MUST(leat_pool_alloc(pool, t.stream, 100, (void **)&block) == LEAT_OK);
    MUST(leat_pool_query(pool, &figures) == LEAT_OK);
    MUST(figures.used_bytes >= 100 + 1024);
    MUST(leat_device_close(t.device) == LEAT_OK);
    return 0;
}

static void guard_mode_by_the_environment(void **state)
{
    static const char *const settings[][2] = {{"LEAT_POOL_GUARD", "1"}, {NULL, NULL}};
    char text[4096];

    (void)state;
    expect_child("guard", settings, text, sizeof text);
    assert_string_equal(text, "");
}

static void freed_backtraces_are_in_the_snapshot(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .guard = 1);
    size_t used = 0;

    OK(leat_free(t->stream, test_block(pool, t->stream, 1000)));
    test_block(pool, t->stream, 1000);
    OK(leat_pool_snapshot(pool, keep_snapshot, &used));
    assert_int_equal(count_words(snapshot, "\"stack\":[\""), 2);
    assert_int_equal(count_words(snapshot, "\"freed_stack\":[\""), 1);
    expect_words(snapshot, "\"guard_reports\":0");
}

/* ---- all ---------------------------------------------------------------------------------------------------- */

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
    STATE_TEST(use_before_the_allocation_is_refused),
    STATE_TEST(use_is_judged_by_its_bytes),
    STATE_TEST(order_goes_through_others),
    STATE_TEST(what_is_not_known_is_not_judged),
    STATE_TEST(a_stream_may_have_two_names),
    STATE_TEST(streams_end_before_their_blocks),
    STATE_TEST(scrubbed_memory_is_clear_to_its_end),
    STATE_TEST(clearing_comes_before_the_next_user),
    STATE_TEST(exported_memory_is_clear),
#if defined(UNDER_ASAN)
    STATE_TEST(the_checker_knows_what_is_held_back),
#endif
    STATE_TEST(pending_work_may_finish),
    STATE_TEST(driver_calls_may_fail),
    STATE_TEST(leaks_are_listed),
    STATE_TEST(guard_mode_by_the_environment),
    STATE_TEST(freed_backtraces_are_in_the_snapshot),
};

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "fault"))
        return child_with_a_fault();
    if (argc > 1 && !strcmp(argv[1], "leaks"))
        return child_with_leaks();
    if (argc > 1 && !strcmp(argv[1], "guard"))
        return child_in_guard_mode();
    if (!test_device_there())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
