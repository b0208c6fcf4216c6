/*
 * test_pool_plan.c - tests pools with a plan: blocks that the plan expects get the planned addresses, other blocks
 * are allocated without the plan, and files that are no plans are refused.
 */
#include "test_pool.h"
#include "temporary.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Creates a temporary file with this text and returns its name in path. */
static void write_file(char path[TEMPORARY_PATH], const char *text)
{
    int descriptor = temporary_file(path);

    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(close(descriptor), 0);
}

/* Creates a pool with this plan. */
static leat_pool *planned_pool(struct test_state *t, const char *text, leat_pool_options options)
{
    leat_pool *pool = NULL;
    char path[TEMPORARY_PATH];

    write_file(path, text);
    options.size = sizeof options;
    options.plan = path;
    OK(leat_pool_create(t->device, &options, &pool));
    assert_int_equal(unlink(path), 0);
    return pool;
}

#define PLANNED(t, text, ...) planned_pool((t), (text), (leat_pool_options){__VA_ARGS__})

/* The plan has three blocks, of which the third overlaps the first two, and a block of half a page after it. */
static const char three_blocks[] = "leat-plan 1\n"
                                   "bytes 9437184\n"
                                   "stream 4\n"
                                   "4194304 0\n"
                                   "4194304 4194304\n"
                                   "8388608 0\n"
                                   "1048576 8388608\n";

static uint64_t planned(leat_pool *pool)
{
    return test_statistics(pool).planned;
}

static void *expect_at(leat_pool *pool, leat_stream *stream, size_t bytes, const char *base, size_t offset)
{
    uint64_t before = planned(pool);
    char *block = test_block(pool, stream, bytes);

    assert_int_equal(planned(pool), before + 1);
    assert_ptr_equal(block, base + offset);
    return block;
}

/* The program repeats the recorded run. Each block must get its planned address, and after the first round the
 * pool must not call the driver. */
static void a_repeated_run_has_its_places(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool;
    uint64_t calls = 0;
    char *base = NULL;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = PLANNED(t, three_blocks, .kind = LEAT_KIND_DEVICE);
    for (int round = 0; round < 4; round++) {
        char *first = test_block(pool, t->stream, 4 * MIB), *second, *both, *behind;

        base = base ? base : first;
        assert_ptr_equal(first, base);
        second = expect_at(pool, t->stream, 4 * MIB - 511, base, 4 * MIB); /* rounds up to the planned size */
        OK(leat_fill(t->stream, first, 1, 4 * MIB));
        OK(leat_fill(t->stream, second, 2, 4 * MIB - 511));
        test_block_holds(t->stream, first, 4 * MIB, 1);
        OK(leat_free(t->stream, first));
        OK(leat_free(t->stream, second));
        both = expect_at(pool, t->stream, 8 * MIB, base, 0);
        behind = expect_at(pool, t->stream, 1 * MIB, base, 8 * MIB);
        OK(leat_fill(t->stream, both, 3, 8 * MIB));
        OK(leat_fill(t->stream, behind, 4, 1 * MIB));
        test_block_holds(t->stream, both, 8 * MIB, 3);
        test_block_holds(t->stream, behind, 1 * MIB, 4);
        OK(leat_free(t->stream, both));
        OK(leat_free(t->stream, behind));
        if (round)
            assert_int_equal(test_statistics(pool).driver_calls, calls);
        calls = test_statistics(pool).driver_calls;
    }
    assert_int_equal(planned(pool), 16);
    assert_int_equal(test_statistics(pool).live_blocks, 0);
    assert_int_equal(test_statistics(pool).reserved_bytes, 10 * MIB);
    OK(leat_pool_destroy(pool));
}

/* The pool must serve requests that the plan does not expect without the plan, and then follow the plan again. */
static void a_request_more_is_served_besides(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool;
    void *blocks[5];

    NEEDS_VIRTUAL_MEMORY(t);
    pool = PLANNED(t, three_blocks, .kind = LEAT_KIND_DEVICE);
    blocks[0] = test_block(pool, t->stream, 4 * MIB);
    blocks[1] = test_block(pool, t->stream, 3 * MIB);
    assert_int_equal(planned(pool), 1);
    blocks[2] = test_block(pool, t->stream, 4 * MIB);
    assert_int_equal(planned(pool), 2);
    blocks[3] = test_block(pool, t->stream, 1000); /* small blocks never use the plan */
    blocks[4] = test_block(pool, t->stream, 8 * MIB);
    assert_int_equal(planned(pool), 2); /* blocks 0 and 1 still use the planned place */
    for (int i = 0; i < 5; i++)
        OK(leat_free(t->stream, blocks[i]));
    assert_int_equal(test_statistics(pool).live_blocks, 0);
    OK(leat_pool_destroy(pool));
}

/* The program skips a part of the recording. After two requests that match again the pool follows the plan
 * again. */
static void the_plan_is_found_again(void **state)
{
    static const char plan[] = "leat-plan 1\nbytes 67108864\nstream 6\n"
                               "1048576 0\n2097152 1048576\n3145728 4194304\n4194304 8388608\n5242880 16777216\n"
                               "6291456 33554432\n";
    struct test_state *t = *state;
    leat_pool *pool;
    void *blocks[3];

    NEEDS_VIRTUAL_MEMORY(t);
    pool = PLANNED(t, plan, .kind = LEAT_KIND_DEVICE);
    for (int round = 0; round < 3; round++) {
        uint64_t before = planned(pool);

        /* In the first round the pool is at the first entry of the list, later it is past the last one. It must
         * behave the same. */
        blocks[0] = test_block(pool, t->stream, 4 * MIB);
        assert_int_equal(planned(pool), before);
        blocks[1] = test_block(pool, t->stream, 5 * MIB);
        assert_int_equal(planned(pool), before + 1);
        blocks[2] = test_block(pool, t->stream, 6 * MIB);
        assert_int_equal(planned(pool), before + 2);
        for (int i = 0; i < 3; i++)
            OK(leat_free(t->stream, blocks[i]));
    }
    OK(leat_pool_destroy(pool));
}

/* Planned addresses are aligned to 512 bytes. Requests with a larger alignment are served without the plan. */
static void aligned_blocks_are_not_planned(void **state)
{
    static const char plan[] = "leat-plan 1\nbytes 9437184\nstream 2\n2097152 512\n2097152 4194816\n";
    struct test_state *t = *state;
    void *aligned, *block;
    leat_pool *pool;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = PLANNED(t, plan, .kind = LEAT_KIND_DEVICE);
    OK(leat_pool_alloc_aligned(t->stream, pool, 2 * MIB, 4096, &aligned));
    assert_int_equal((uintptr_t)aligned % 4096, 0);
    assert_int_equal(planned(pool), 0);
    OK(leat_pool_alloc_aligned(t->stream, pool, 2 * MIB, 512, &block));
    assert_int_equal(planned(pool), 1);
    OK(leat_free(t->stream, aligned));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* No request matches the plan. */
static void a_wrong_plan_changes_nothing(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = PLANNED(t, three_blocks, .kind = LEAT_KIND_DEVICE);
    for (int i = 1; i < 40; i++) {
        size_t bytes = (size_t)i * 700000;
        void *block = test_block(pool, t->stream, bytes);

        OK(leat_fill(t->stream, block, (unsigned char)i, bytes));
        test_block_holds(t->stream, block, bytes, (unsigned char)i);
        OK(leat_free(t->stream, block));
    }
    assert_int_equal(planned(pool), 0);
    OK(leat_pool_destroy(pool));
}

/* The plan has a list for each stream, in the order in which the streams make their first request. Blocks without
 * a stream have no list. */
static void streams_have_their_lists(void **state)
{
    static const char plan[] = "leat-plan 1\nbytes 8388608\nstream 1\n2097152 0\nstream 1\n4194304 4194304\n";
    struct test_state *t = *state;
    char *first, *second, *host;
    leat_stream *third;
    leat_pool *pool;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = PLANNED(t, plan, .kind = LEAT_KIND_DEVICE);
    OK(leat_stream_create(t->device, &third));
    host = test_block(pool, NULL, 2 * MIB);
    assert_int_equal(planned(pool), 0);
    first = test_block(pool, t->second, 2 * MIB);
    assert_int_equal(planned(pool), 1);
    second = test_block(pool, t->stream, 4 * MIB);
    assert_int_equal(planned(pool), 2);
    assert_ptr_equal(second, first + 4 * MIB);
    OK(leat_free(third, test_block(pool, third, 2 * MIB)));
    assert_int_equal(planned(pool), 2);
    OK(leat_memory_free(host));
    /* Another stream frees the first block, and the host the second. */
    OK(leat_free(t->stream, first));
    OK(leat_memory_free(second));
    assert_ptr_equal(test_block(pool, t->second, 2 * MIB), first);
    assert_ptr_equal(test_block(pool, t->stream, 4 * MIB), second);
    OK(leat_free(t->second, first));
    OK(leat_free(t->stream, second));
    OK(leat_stream_destroy(third));
    OK(leat_pool_destroy(pool));
}

/* Trimming releases the memory of free places. The pool allocates it again when it is needed. */
static void planned_memory_can_be_trimmed(void **state)
{
    struct test_state *t = *state;
    uint64_t released = 0, pending = 0;
    char *first, *second;
    leat_pool *pool;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = PLANNED(t, three_blocks, .kind = LEAT_KIND_DEVICE);
    first = test_block(pool, t->stream, 4 * MIB);
    second = test_block(pool, t->stream, 4 * MIB);
    OK(leat_fill(t->stream, first, 1, 4 * MIB));
    OK(leat_free(t->stream, second));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_pool_trim(pool, 0, &released, &pending));
    assert_int_equal(released, 4 * MIB);
    assert_int_equal(pending, 0);
    test_block_holds(t->stream, first, 4 * MIB, 1);
    OK(leat_free(t->stream, first));
    first = test_block(pool, t->stream, 8 * MIB);
    assert_int_equal(planned(pool), 3);
    OK(leat_fill(t->stream, first, 5, 8 * MIB));
    test_block_holds(t->stream, first, 8 * MIB, 5);
    OK(leat_free(t->stream, first));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_pool_trim(pool, 0, NULL, NULL));
    assert_int_equal(test_statistics(pool).reserved_bytes, 0);
    OK(leat_pool_destroy(pool));
}

/* A full pool takes the memory of free places back from the plan, and uses it for other blocks. */
static void a_plan_does_not_fill_the_pool(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool;
    void *block;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = PLANNED(t, three_blocks, .limit_bytes = 8 * MIB);
    block = test_block(pool, t->stream, 4 * MIB);
    assert_int_equal(planned(pool), 1);
    OK(leat_fill(t->stream, block, 1, 4 * MIB));
    OK(leat_free(t->stream, block));
    block = test_block(pool, t->stream, 7 * MIB);
    OK(leat_fill(t->stream, block, 2, 7 * MIB));
    test_block_holds(t->stream, block, 7 * MIB, 2);
    STATUS(leat_pool_alloc(t->stream, pool, 4 * MIB, &(void *){NULL}), LEAT_ERROR_DEVICE_MEMORY);
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

static void live_planned_blocks_keep_the_pool(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool;
    void *block;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = PLANNED(t, three_blocks, .kind = LEAT_KIND_DEVICE);
    block = test_block(pool, t->stream, 4 * MIB);
    assert_int_equal(planned(pool), 1);
    REFUSED(leat_pool_destroy(pool), LEAT_ERROR_BUSY, "1 block");
    STATUS(leat_free(t->stream, (char *)block + 512), LEAT_ERROR_POINTER);
    OK(leat_free(t->stream, block));
    STATUS(leat_free(t->stream, block), LEAT_ERROR_POINTER);
    OK(leat_pool_destroy(pool));
}

/* ---- order ---- */

/* Fills the block behind a gate and frees it. */
static struct test_gate *free_held(leat_stream *stream, void *block, size_t bytes)
{
    struct test_gate *gate = test_gate_close(stream);

    OK(leat_fill(stream, block, 1, bytes));
    OK(leat_free(stream, block));
    return gate;
}

/* A stream is ordered after one of two streams that have freed parts of its place, so it does not get the place. A
 * stream without this order must not get a part of it. */
static void a_refused_place_keeps_its_order(void **state)
{
    static const char plan[] = "leat-plan 1\nbytes 8388608\n"
                               "stream 1\n4194304 0\n"
                               "stream 2\n4194304 4194304\n2097152 0\n"
                               "stream 1\n8388608 0\n";
    struct test_state *t = *state;
    void *first, *second, *both, *part;
    struct test_gate *gates[2];
    leat_stream *third;
    leat_pool *pool;

    NEEDS_VIRTUAL_MEMORY(t);
    OK(leat_stream_create(t->device, &third));
    pool = PLANNED(t, plan, .kind = LEAT_KIND_DEVICE);
    first = test_block(pool, t->stream, 4 * MIB);
    second = test_block(pool, t->second, 4 * MIB);
    assert_int_equal(planned(pool), 2);
    gates[0] = free_held(t->stream, first, 4 * MIB);
    gates[1] = free_held(t->second, second, 4 * MIB);
    test_order(t, t->stream, third);
    both = test_block(pool, third, 8 * MIB);
    part = test_block(pool, t->second, 2 * MIB);
    assert_int_equal(planned(pool), 2);
    assert_ptr_not_equal(part, first);
    for (int i = 0; i < 2; i++)
        test_gate_open(gates[i]);
    OK(leat_free(third, both));
    OK(leat_free(t->second, part));
    OK(leat_stream_destroy(third));
    OK(leat_pool_destroy(pool));
}

/* A stream gets a place because it is ordered after the work that uses it, and a third stream frees the unused
 * block. Without that order the third stream must not get the place. */
static void an_unused_block_keeps_its_order(void **state)
{
    static const char plan[] = "leat-plan 1\nbytes 4194304\n"
                               "stream 1\n4194304 0\nstream 1\n4194304 0\nstream 1\n4194304 0\n";
    struct test_state *t = *state;
    struct test_gate *gate;
    leat_stream *third;
    leat_pool *pool;
    void *block, *next;

    NEEDS_VIRTUAL_MEMORY(t);
    OK(leat_stream_create(t->device, &third));
    pool = PLANNED(t, plan, .kind = LEAT_KIND_DEVICE);
    block = test_block(pool, t->stream, 4 * MIB);
    gate = free_held(t->stream, block, 4 * MIB);
    test_order(t, t->stream, t->second);
    assert_ptr_equal(test_block(pool, t->second, 4 * MIB), block);
    OK(leat_free(third, block));
    next = test_block(pool, third, 4 * MIB);
    assert_ptr_not_equal(next, block);
    test_gate_open(gate);
    OK(leat_device_synchronize(t->device));
    OK(leat_free(third, next));
    /* Now the work is complete, so the place is free again. */
    assert_ptr_equal(test_block(pool, third, 4 * MIB), block);
    OK(leat_free(third, block));
    OK(leat_stream_destroy(third));
    OK(leat_pool_destroy(pool));
}

/* ---- bad plans ---- */

static void what_is_no_plan_is_refused(void **state)
{
    static const struct {
        const char *text, *words;
    } files[] = {
        {"", "line 1"},
        {"leat-plan 2\n", "line 1"},
        {"leat-plan 1\n", "line 2"},
        {"leat-plan 1\nbytes\n", "line 2"},
        {"leat-plan 1\nbytes 99999999999999999999\n", "line 2"},
        {"leat-plan 1\nbytes 2097152\nblock 1\n", "line 3"},
        {"leat-plan 1\nbytes 2097152\nstream -1\n", "line 3"},
        {"leat-plan 1\nbytes 2097152\nstream 1\n", "line 4"},
        {"leat-plan 1\nbytes 2097152\nstream 1\n2097152\n", "line 4"},
        {"leat-plan 1\nbytes 2097152\nstream 1\n2097152 0 0\n", "line 4"},
        {"leat-plan 1\nbytes 2097152\nstream 1\n2097152 512\n", "line 4"},
        {"leat-plan 1\nbytes 2097152\nstream 1\n4194304 0\n", "line 4"},
        {"leat-plan 1\nbytes 2097152\nstream 1\n1048577 0\n", "line 4"},
        {"leat-plan 1\nbytes 2097152\nstream 1\n1048576 100\n", "line 4"},
        {"leat-plan 1\nbytes 2097152\nstream 1\n512 0\n", "line 4"},
        {"leat-plan 1\nbytes 2097152\nstream 1\n1048576 0", "line 4"},
        {"leat-plan 1\nbytes 2097152\nstream 18446744073709551615\n", "line 3"},
        {"leat-plan 1\nbytes 2097152\nstream 4000000000\n1048576 0\n", "line 5"},
        {"leat-plan 1\nbytes 2097152\nstream 0\nstream 0\nstream 0\nstream 0\nstream 0\nstream 0\nstream "
         "0\nstream 0\n"
         "stream 0\n",
         "line 11"},
    };
    struct test_state *t = *state;
    leat_pool_options options = {.size = sizeof options};
    leat_pool *pool = (leat_pool *)77;
    char path[TEMPORARY_PATH];

    NEEDS_VIRTUAL_MEMORY(t);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        write_file(path, files[i].text);
        options.plan = path;
        REFUSED(leat_pool_create(t->device, &options, &pool), LEAT_ERROR_INVALID, files[i].words);
        assert_int_equal(unlink(path), 0);
    }
    options.plan = "/tmp";
    REFUSED(leat_pool_create(t->device, &options, &pool), LEAT_ERROR_SYSTEM, "/tmp");
    /* The path is a FIFO. A plain open() of it would wait for a writer. */
    write_file(path, "");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    options.plan = path;
    REFUSED(leat_pool_create(t->device, &options, &pool), LEAT_ERROR_SYSTEM, path);
    assert_int_equal(unlink(path), 0);
    options.plan = "/nowhere/plan";
    REFUSED(leat_pool_create(t->device, &options, &pool), LEAT_ERROR_SYSTEM, "/nowhere/plan");
    assert_ptr_equal(pool, (leat_pool *)77);
}

static void plans_are_for_pools_of_pages(void **state)
{
    struct test_state *t = *state;
    leat_pool_options options = {.size = sizeof options, .plan = "/nowhere/plan"}, wrong;
    leat_pool *pool;

    for (int i = 0; i < 3; i++) {
        wrong = options;
        wrong.kind = i == 0 ? LEAT_KIND_PINNED : LEAT_KIND_DEVICE;
        wrong.no_virtual_memory = i == 1;
        wrong.dedicated = i == 2;
        REFUSED(leat_pool_create(t->device, &wrong, &pool), LEAT_ERROR_INVALID, "plan");
    }
}

/* One plan has no streams, the other one has streams with empty lists. */
static void empty_plans_are_followed_too(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool;

    NEEDS_VIRTUAL_MEMORY(t);
    for (int i = 0; i < 2; i++) {
        pool = PLANNED(t, i ? "leat-plan 1\nbytes 0\nstream 0\nstream 0\n" : "leat-plan 1\nbytes 0\n",
                       .kind = LEAT_KIND_DEVICE);
        OK(leat_free(t->stream, test_block(pool, t->stream, 3 * MIB)));
        assert_int_equal(planned(pool), 0);
        OK(leat_pool_trim(pool, 0, NULL, NULL));
        OK(leat_pool_destroy(pool));
    }
}

/* LEAT_POOL_PLAN gives the default device pool a plan. leat reads environment variables once, so a child process
 * checks this. */
static int child_with_a_plan(void)
{
    leat_pool_stats figures = {.size = sizeof figures};
    leat_device *device;
    leat_stream *stream;
    leat_pool *pool;
    void *block;

    if (leat_device_open(test_device_name(), &device) || leat_stream_create(device, &stream) ||
        leat_alloc(stream, 4 * MIB, &block) || leat_pool_default(device, LEAT_KIND_DEVICE, &pool) ||
        leat_pool_get_stats(pool, &figures) || leat_free(stream, block) || leat_device_close(device)) {
        fprintf(stderr, "%s\n", leat_last_error());
        return 1;
    }
    return figures.planned == 1 ? 0 : 2;
}

static void the_environment_names_a_plan(void **state)
{
    struct test_state *t = *state;
    char path[TEMPORARY_PATH], command[TEMPORARY_PATH + 200], self[100];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    NEEDS_VIRTUAL_MEMORY(t);
    assert_true(length > 0);
    self[length] = '\0';
    write_file(path, three_blocks);
    snprintf(command, sizeof command, "LEAT_POOL_PLAN=%s %s child", path, self);
    assert_int_equal(system(command), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_not_equal(system(strcat(command, " 2>/dev/null")), 0);
}

static void raise_flag(void *flag)
{
    atomic_store((atomic_int *)flag, 1);
}

/* Another stream may get a planned place only by the reuse methods that the pool allows. */
static void places_change_streams_by_the_allowed_ways(void **state)
{
    static const char one_place_for_two[] =
        "leat-plan 1\nbytes 4194304\nstream 1\n4194304 0\nstream 1\n4194304 0\n";
    static const uint32_t ways[] = {LEAT_POOL_REUSE_METHOD_FINISHED, LEAT_POOL_REUSE_METHOD_ORDERED};
    struct test_state *t = *state;

    NEEDS_VIRTUAL_MEMORY(t);
    for (int way = 0; way < 2; way++) {
        leat_pool *pool = PLANNED(t, one_place_for_two, .kind = LEAT_KIND_DEVICE);
        struct test_gate *gate = NULL;
        atomic_int done = 0;
        leat_event *event;
        char *first, *other;

        OK(leat_event_create(t->device, &event));
        OK(leat_pool_set_reuse_methods(pool, LEAT_POOL_REUSE_METHOD_ALL & ~ways[way]));
        first = test_block(pool, t->stream, 4 * MIB);
        assert_int_equal(planned(pool), 1);
        OK(leat_fill(t->stream, first, 1, 4 * MIB));
        OK(leat_free(t->stream, first));
        if (way == 0) {
            /* The work completes, but no call tells leat. */
            OK(leat_launch_host(t->stream, raise_flag, &done));
            while (!atomic_load(&done))
                test_sleep_us(1000);
        } else {
            gate = test_gate_close(t->stream);
            OK(leat_event_record(t->stream, event));
            OK(leat_stream_wait(t->second, event));
        }
        other = test_block(pool, t->second, 4 * MIB);
        assert_ptr_not_equal(other, first);
        OK(leat_free(t->second, other));
        OK(leat_pool_set_reuse_methods(pool, ways[way]));
        other = expect_at(pool, t->second, 4 * MIB, first, 0);
        if (gate)
            test_gate_open(gate);
        OK(leat_fill(t->second, other, 2, 4 * MIB));
        test_block_holds(t->second, other, 4 * MIB, 2);
        OK(leat_free(t->second, other));
        OK(leat_event_destroy(event));
        OK(leat_pool_destroy(pool));
    }
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(a_repeated_run_has_its_places),
    STATE_TEST(a_request_more_is_served_besides),
    STATE_TEST(the_plan_is_found_again),
    STATE_TEST(aligned_blocks_are_not_planned),
    STATE_TEST(a_wrong_plan_changes_nothing),
    STATE_TEST(streams_have_their_lists),
    STATE_TEST(planned_memory_can_be_trimmed),
    STATE_TEST(a_plan_does_not_fill_the_pool),
    STATE_TEST(live_planned_blocks_keep_the_pool),
    STATE_TEST(a_refused_place_keeps_its_order),
    STATE_TEST(an_unused_block_keeps_its_order),
    STATE_TEST(what_is_no_plan_is_refused),
    STATE_TEST(plans_are_for_pools_of_pages),
    STATE_TEST(places_change_streams_by_the_allowed_ways),
    STATE_TEST(empty_plans_are_followed_too),
    STATE_TEST(the_environment_names_a_plan),
};

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "child"))
        return child_with_a_plan();
    if (!test_device_there())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
