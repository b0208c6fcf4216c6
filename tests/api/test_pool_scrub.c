/*
 * test_pool_scrub.c - tests pools that clear memory before another user gets it (leat_pool_options.scrub).
 */
#include "pool_guard.h"

#include <unistd.h>

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
                /* Without guard mode the bytes behind the requested size are cleared too. In guard mode they are a
                 * red zone. */
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

/* The allocating stream clears the block. This work may be pending when another stream frees the unused block. */
static void clearing_comes_before_the_next_user(void **state)
{
    struct test_state *t = *state;

    for (int kind = 0; kind < 2; kind++) {
        for (int way = 0; way < 2; way++) {
            leat_pool *pool = POOL(t->device, .scrub = 1, .limit_bytes = 8 * MIB, .reuse = LEAT_POOL_REUSE_WAIT,
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

/* The importing process sees the whole allocation, so all of it must be cleared. */
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
            OK(leat_block_export(block, &fd, &bytes));
            OK(leat_block_import(t->device, fd, bytes, &imported));
            close(fd);
            test_block_holds(t->stream, imported, bytes, 0);
            OK(leat_fill(t->stream, imported, 0xee, bytes));
            /* A process that imported the memory may write to all of it, even after the block was freed. */
            OK(leat_free(t->stream, block));
            OK(leat_fill(t->stream, imported, 0xef, bytes));
            OK(leat_stream_synchronize(t->stream));
            OK(leat_memory_free(imported));
        }
        assert_int_equal(reports(pool), 0);
        OK(leat_pool_destroy(pool));
    }
}

/* A small copy to pageable memory waits for its stream, so the program's next wait needs no driver call. But it
 * must wait for the work that a guarded or scrubbed pool submits in between. */
static void a_wait_after_a_copy_includes_the_pools_work(void **state)
{
    struct test_state *t = *state;
    void *dev = test_alloc(t->device, LEAT_KIND_DEVICE, 4096);
    unsigned char host[4096];

    for (int guard = 0; guard < 2; guard++) {
        leat_pool *pool =
            POOL(t->device, .kind = LEAT_KIND_PINNED, .guard = (uint8_t)guard, .scrub = (uint8_t)!guard);
        void *block;

        OK(leat_copy(t->stream, host, dev, sizeof host));
        block = test_block(pool, t->stream, 128 * MIB);
        OK(leat_stream_synchronize(t->stream));
        OK(leat_stream_query(t->stream));
        OK(leat_copy(t->stream, host, dev, sizeof host));
        OK(leat_free(t->stream, block));
        OK(leat_stream_synchronize(t->stream));
        OK(leat_stream_query(t->stream));
        OK(leat_pool_destroy(pool));
    }
    OK(leat_memory_free(dev));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(scrubbed_memory_is_clear_to_its_end),
    STATE_TEST(clearing_comes_before_the_next_user),
    STATE_TEST(exported_memory_is_clear),
    STATE_TEST(a_wait_after_a_copy_includes_the_pools_work),
};

int main(void)
{
    /* On the CPU device small copies wait for the stream only if they are staged, as on a GPU. */
    setenv("LEAT_COPY_STAGE", "1", 1);
    if (!test_device_there())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
