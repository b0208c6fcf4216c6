/* test_pool.h - helpers for the tests of pools: creating pools and blocks that must exist, statistics, and checks
 * of block contents. Uses public headers only. */
#ifndef TEST_POOL_H
#define TEST_POOL_H

#include "harness.h"

#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* The call must return status. Unlike REFUSED() this does not check the message. */
#define STATUS(call, status) assert_int_equal((call), (status))

/* Creates a pool with these options, which must succeed: POOL(device, .limit_bytes = 4 * MIB). */
#define POOL(device, ...)                                                                                         \
    test_pool_make((device), &(leat_pool_options){.size = sizeof(leat_pool_options), __VA_ARGS__})

static inline leat_pool *test_pool_make(leat_device *device, const leat_pool_options *options)
{
    leat_pool *pool = NULL;

    OK(leat_pool_create(device, options, &pool));
    assert_non_null(pool);
    return pool;
}

/* Creates a pool like POOL(), but returns NULL if the device does not support such a pool. */
static inline leat_pool *test_pool_try(leat_device *device, const leat_pool_options *options)
{
    leat_pool *pool = NULL;
    leat_status status = leat_pool_create(device, options, &pool);

    if (status == LEAT_ERROR_UNSUPPORTED)
        return NULL;
    OK(status);
    assert_non_null(pool);
    return pool;
}

static inline void *test_block(leat_pool *pool, leat_stream *stream, size_t bytes)
{
    void *ptr = NULL;

    OK(leat_pool_alloc(stream, pool, bytes, &ptr));
    assert_non_null(ptr);
    return ptr;
}

static inline leat_pool_stats test_statistics(leat_pool *pool)
{
    leat_pool_stats figures = {.size = sizeof figures};

    OK(leat_pool_get_stats(pool, &figures));
    return figures;
}

static inline leat_pool *test_default_pool(leat_device *device, leat_kind kind)
{
    leat_pool *pool = NULL;

    OK(leat_pool_default(device, kind, &pool));
    assert_non_null(pool);
    return pool;
}

static inline bool test_has_virtual_memory(leat_device *device)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    OK(leat_device_get_info(device, &info));
    return info.virtual_memory;
}

#define NEEDS_VIRTUAL_MEMORY(t)                                                                                   \
    do {                                                                                                          \
        if (!test_has_virtual_memory((t)->device))                                                                \
            SKIP_OTHER("this driver has no virtual memory");                                                      \
    } while (0)

/* Waits for stream and checks that each byte of the block is value. A failure names the first wrong byte. */
static inline void test_block_holds(leat_stream *stream, const void *block, size_t bytes, unsigned char value)
{
    unsigned char *out = (unsigned char *)test_buffer(bytes);

    memset(out, (unsigned char)~value, bytes);
    OK(leat_copy_sync(stream, out, block, bytes));
    EXPECT_BYTES(out, bytes, value);
    free(out);
}

/* A named sort of pool. test_pool_try() returns NULL for sorts that the device does not support. */
struct test_pool_sort {
    const char *words;
    leat_pool_options options;
};

#define TEST_POOL_SORTS                                                                                           \
    {                                                                                                             \
        {"device", {.size = sizeof(leat_pool_options)}},                                                          \
            {"device, made to wait", {.size = sizeof(leat_pool_options), .reuse = LEAT_POOL_REUSE_WAIT}},         \
            {"device, never made to wait",                                                                        \
             {.size = sizeof(leat_pool_options), .reuse = LEAT_POOL_REUSE_WAIT_NEVER}},                           \
            {"plain", {.size = sizeof(leat_pool_options), .no_virtual_memory = 1}},                               \
            {"one handle", {.size = sizeof(leat_pool_options), .dedicated = 1}},                                  \
            {"pinned", {.size = sizeof(leat_pool_options), .kind = LEAT_KIND_PINNED}},                            \
            {"managed", {.size = sizeof(leat_pool_options), .kind = LEAT_KIND_MANAGED}},                          \
            {"scrubbed", {.size = sizeof(leat_pool_options), .scrub = 1}},                                        \
            {"guarded", {.size = sizeof(leat_pool_options), .guard = 1}},                                         \
    }

/* A live block and the value that it was filled with. */
struct test_held_block {
    unsigned char *ptr;
    size_t bytes;
    unsigned char value;
};

/* Returns a random size from 2 bytes to 4 MiB. Each interval between two powers of two is equally likely. */
static inline size_t test_random_size(uint64_t number)
{
    size_t scale = (size_t)1 << leat_pattern_value(number, 1) % 22;

    return 1 + scale + (size_t)leat_pattern_value(number, 2) % scale;
}

/* Orders one stream after another: its work after this call waits for the work that the other stream has now. */
static inline void test_order(struct test_state *t, leat_stream *earlier, leat_stream *later)
{
    leat_event *event;

    OK(leat_event_create(t->device, &event));
    OK(leat_event_record(earlier, event));
    OK(leat_stream_wait(later, event));
    OK(leat_event_destroy(event));
}

#endif
