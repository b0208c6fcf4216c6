/* pool_guard.h - helpers for the tests of guarded pools: out-of-bounds accesses by kernels, and checks of the
 * reports. */
#ifndef POOL_GUARD_H
#define POOL_GUARD_H

#include "test_pool.h"

#include <unistd.h>

enum { ZONE = 0xfd, FRESH = 0xcd, FREED = 0xdd };

/* Each sort of pool that guard mode supports. */
static const struct test_pool_sort sorts[] = {
    {"device", {.size = sizeof(leat_pool_options), .guard = 1}},
    {"plain", {.size = sizeof(leat_pool_options), .guard = 1, .no_virtual_memory = 1}},
    {"one handle", {.size = sizeof(leat_pool_options), .guard = 1, .dedicated = 1}},
    {"pinned", {.size = sizeof(leat_pool_options), .guard = 1, .kind = LEAT_KIND_PINNED}},
    {"managed", {.size = sizeof(leat_pool_options), .guard = 1, .kind = LEAT_KIND_MANAGED}},
};
enum { SORTS = sizeof sorts / sizeof sorts[0] };

/* ---- out-of-bounds writes, and the text of reports --------------------------------------------------------- */

/* Writes count bytes of value at ptr by a kernel, because leat does not check where a kernel writes. */
static inline void scribble(struct test_state *t, leat_stream *stream, void *ptr, uint64_t count, uint8_t value)
{
    leat_kernel *kernel = test_kernel(t->device, "leat_fill_u8");
    void *args[] = {&ptr, &count, &value};

    OK(leat_launch(stream, kernel, leat_dim(1, 1, 1), leat_dim(32, 1, 1), 0, args, 3));
}

/* Reads bytes at ptr by a kernel, because leat_copy() refuses to read outside of blocks. bytes is a multiple of
 * 4. */
static inline void peek(struct test_state *t, leat_stream *stream, const void *ptr, unsigned char *out,
                        size_t bytes)
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

static inline unsigned count_words(const char *text, const char *words)
{
    unsigned count = 0;

    for (; (text = strstr(text, words)); text += strlen(words))
        count++;
    return count;
}

static inline void expect_words(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("'%s' does not have the words '%s'", text, words);
}

static inline uint64_t reports(leat_pool *pool)
{
    return test_statistics(pool).guard_reports;
}

#endif
