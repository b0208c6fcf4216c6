/*
 * unit_spread.c - tests copies between files and thousands of places on a device, which go through a buffer on the
 * device: how many copies the driver makes, and what happens if there is no kernel, no memory, or a call fails.
 */
#include "held.h"

#include "driver/fault/fault.h"
#include "test_folder.h"

#include <leat/file.h>
#include <leat/pool.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { RING = 512 << 10, RANGES = 1000, STEP = 2500, SHORTEST = 1000, GUARD = 0xee };
#define BYTES ((size_t)RANGES * STEP)

static atomic_uint copies; /* number of copies that the driver was given */

static void count_copy(void *stream, struct leati_location dst, struct leati_location src, size_t bytes)
{
    (void)stream;
    (void)dst;
    (void)src;
    (void)bytes;
    atomic_fetch_add(&copies, 1);
}

/* A file, device memory, and ranges whose order in memory is the reverse of that in the file. */
struct spread_room {
    leat_file *file;
    unsigned char *content, *memory;
    leat_file_op ops[RANGES];
};

static leat_file *open_new(const char *name, const void *content, size_t bytes)
{
    FILE *file = fopen(path_of(name), "wb");
    leat_file *opened;

    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    OK(leat_file_open(path_of(name), LEAT_FILE_READ | LEAT_FILE_WRITE, &opened));
    return opened;
}

static struct spread_room *make_room(struct test_state *t)
{
    struct spread_room *room = test_buffer(sizeof *room);

    room->content = test_buffer(BYTES);
    test_pattern(room->content, BYTES, 3);
    room->file = open_new("ranges", room->content, BYTES);
    room->memory = test_alloc(t->device, LEAT_KIND_DEVICE, BYTES);
    for (size_t i = 0; i < RANGES; i++)
        room->ops[i] = (leat_file_op){.file = room->file,
                                      .offset = i * STEP,
                                      .memory = room->memory + (RANGES - 1 - i) * STEP + 1,
                                      .bytes = SHORTEST + i};
    OK(leat_fill(t->stream, room->memory, GUARD, BYTES));
    OK(leat_stream_synchronize(t->stream));
    atomic_store(&copies, 0);
    held_before_copy = count_copy;
    return room;
}

static void end_room(struct spread_room *room)
{
    OK(leat_file_close(room->file));
    OK(leat_memory_free(room->memory));
    free(room->content);
    free(room);
}

/* Checks the ranges and the bytes between them. */
static void check_memory(struct test_state *t, const struct spread_room *room)
{
    unsigned char *seen = test_buffer(BYTES), *expected = test_buffer(BYTES);

    memset(expected, GUARD, BYTES);
    for (size_t i = 0; i < RANGES; i++)
        memcpy(expected + (RANGES - 1 - i) * STEP + 1, room->content + i * STEP, SHORTEST + i);
    OK(leat_copy_sync(t->stream, seen, room->memory, BYTES));
    assert_memory_equal(seen, expected, BYTES);
    free(seen);
    free(expected);
}

static void many_ranges_take_few_copies(void **state)
{
    struct test_state *t = *state;
    struct spread_room *room = make_room(t);
    unsigned char *zeros = test_buffer(BYTES), *seen = test_buffer(BYTES + 1);
    leat_file_op *back = test_buffer(sizeof room->ops);
    leat_file *copy;
    FILE *file;

    OK(leat_file_read_batch(t->stream, room->ops, RANGES));
    OK(leat_stream_synchronize(t->stream));
    assert_in_range(atomic_load(&copies), 1, RANGES / 20);
    check_memory(t, room);
    memset(zeros, 0, BYTES);
    copy = open_new("back", zeros, BYTES);
    memcpy(back, room->ops, sizeof room->ops);
    for (size_t i = 0; i < RANGES; i++)
        back[i].file = copy;
    atomic_store(&copies, 0);
    OK(leat_file_write_batch(t->stream, back, RANGES));
    OK(leat_stream_synchronize(t->stream));
    assert_in_range(atomic_load(&copies), 1, RANGES / 20);
    file = fopen(path_of("back"), "rb");
    assert_non_null(file);
    assert_int_equal(fread(seen, 1, BYTES + 1, file), BYTES);
    fclose(file);
    for (size_t i = 0; i < RANGES; i++) {
        assert_memory_equal(seen + i * STEP, room->content + i * STEP, SHORTEST + i);
        for (size_t at = i * STEP + SHORTEST + i; at < (i + 1) * STEP; at++)
            assert_int_equal(seen[at], 0);
    }
    OK(leat_file_close(copy));
    free(back);
    free(seen);
    free(zeros);
    end_room(room);
}

/* The buffer on the device needs memory. Without it, each range has a copy of its own. */
static void without_device_memory_each_range_is_copied(void **state)
{
    enum { BLOCK = 64 << 10, BLOCKS_MOST = 1000 };
    struct test_state *t = *state;
    struct spread_room *room = make_room(t);
    leat_pool_stats stats = LEAT_POOL_STATS_INIT;
    void *blocks[BLOCKS_MOST];
    unsigned count = 0;
    leat_pool *pool;

    /* Fill what is idle in the pool, and do not let it grow. */
    OK(leat_pool_default(t->device, LEAT_KIND_DEVICE, &pool));
    OK(leat_pool_get_stats(pool, &stats));
    OK(leat_pool_set_limits(pool, stats.reserved_bytes, 0));
    while (count < BLOCKS_MOST && leat_pool_alloc(t->stream, pool, BLOCK, &blocks[count]) == LEAT_OK)
        count++;
    assert_in_range(count, 0, BLOCKS_MOST - 1);
    OK(leat_file_read_batch(t->stream, room->ops, RANGES));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_pool_set_limits(pool, 0, 0));
    assert_in_range(atomic_load(&copies), RANGES, RANGES + 20);
    check_memory(t, room);
    while (count)
        OK(leat_free(t->stream, blocks[--count]));
    end_room(room);
}

/* A write that is long for its ring gets chunks of half a ring, because each chunk takes entries of the driver's
 * queue. */
static void long_writes_take_few_copies(void **state)
{
    struct test_state *t = *state;
    const size_t bytes = (size_t)40 << 20;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, bytes), *data = test_buffer(bytes),
                  *seen = test_buffer(bytes);
    leat_file *file = open_new("long", "", 1);
    FILE *written;

    test_pattern(data, bytes, 5);
    OK(leat_copy_sync(t->stream, memory, data, bytes));
    OK(leat_stream_synchronize(t->stream));
    atomic_store(&copies, 0);
    held_before_copy = count_copy;
    OK(leat_file_write(t->stream, file, 0, memory, bytes));
    OK(leat_stream_synchronize(t->stream));
    assert_in_range(atomic_load(&copies), bytes / RING, bytes / RING * 2 + 10);
    written = fopen(path_of("long"), "rb");
    assert_non_null(written);
    assert_int_equal(fread(seen, 1, bytes, written), bytes);
    fclose(written);
    assert_memory_equal(seen, data, bytes);
    OK(leat_file_close(file));
    OK(leat_memory_free(memory));
    free(data);
    free(seen);
}

/* Each driver call of the copy fails once. The call must then fail and not hang, and the next one must succeed. */
static void calls_that_fail_are_told(void **state)
{
    static const char *const entries[] = {"copy", "launch", "stream_mem_ops"};
    struct test_state *t = *state;
    struct spread_room *room = make_room(t);

    for (size_t e = 0; e < sizeof entries / sizeof entries[0]; e++) {
        leati_fault_arm(held_driver, LEATI_FAULT_FAIL, entries[e], 1);
        REFUSED(leat_file_read_batch(t->stream, room->ops, RANGES), LEAT_ERROR_DRIVER, "leat_file_read_batch");
        leati_fault_arm(held_driver, LEATI_FAULT_NONE, NULL, 0);
        OK(leat_file_read_batch(t->stream, room->ops, RANGES));
        OK(leat_stream_synchronize(t->stream));
        check_memory(t, room);
    }
    end_room(room);
}

static const struct CMUnitTest tests[] = {
    HELD_TEST(many_ranges_take_few_copies),
    HELD_TEST(without_device_memory_each_range_is_copied),
    HELD_TEST(long_writes_take_few_copies),
    HELD_TEST(calls_that_fail_are_told),
};

int main(void)
{
    setenv("LEAT_TEST_DEVICE", "cpu:0", 1);
    setenv("LEAT_DRIVERS", "cpu", 1);
    setenv("LEAT_COPY_STAGE", "1", 1);
    unsetenv("LEAT_COPY_PROTOCOL");
    setenv("LEAT_COPY_RING", "512K", 1);
    held_begin();
    test_keep_handlers();
    return cmocka_run_group_tests(tests, make_folder, remove_folder) ? 1 : 0;
}
