/*
 * test_pool_full.c - tests the message of a full pool: one line with the bytes that are requested, idle, held and
 * pending, and one line with advice for the cause. Each cause has a test.
 */
#include "test_pool.h"

#include <stdio.h>

/* ---- parsing the message ---- */

struct error {
    char facts[2048], advice[512];
};

/* Makes an allocation that must fail, and splits its message into two lines. */
static struct error full_aligned(leat_pool *pool, leat_stream *stream, size_t bytes, size_t alignment)
{
    struct error error = {"", ""};
    void *block = &block;
    const char *words, *line;

    assert_int_not_equal(leat_pool_alloc_aligned(stream, pool, bytes, alignment, &block), LEAT_OK);
    assert_ptr_equal(block, &block);
    words = leat_last_error();
    line = strchr(words, '\n');
    assert_non_null(line);
    assert_null(strchr(line + 1, '\n'));
    assert_int_equal(strncmp(line, "\nAdvice: ", 9), 0);
    snprintf(error.facts, sizeof error.facts, "%.*s", (int)(line - words), words);
    snprintf(error.advice, sizeof error.advice, "%s", line + 9);
    return error;
}

static struct error full(leat_pool *pool, leat_stream *stream, size_t bytes)
{
    return full_aligned(pool, stream, bytes, 0);
}

#define PRINTS(text, words) says((text), (words), __LINE__)
#define NEVER_PRINTS(text, words) never_says((text), (words), __LINE__)

static void says(const char *text, const char *words, int line)
{
    if (!strstr(text, words))
        fail_msg("line %d: '%s' is missing in: %s", line, words, text);
}

static void never_says(const char *text, const char *words, int line)
{
    if (strstr(text, words))
        fail_msg("line %d: '%s' is in: %s", line, words, text);
}

/* Returns the number in decimal. The text is valid until the fourth later call. */
static const char *number(uint64_t bytes)
{
    static char text[4][24];
    static unsigned next;
    char *at = text[next++ % 4];

    snprintf(at, sizeof text[0], "%llu", (unsigned long long)bytes);
    return at;
}

static uint64_t free_bytes_of(leat_device *device)
{
    uint64_t bytes;

    OK(leat_pool_trim(test_default_pool(device, LEAT_KIND_DEVICE), 0, NULL, NULL));
    OK(leat_device_memory(device, &bytes, NULL));
    return bytes;
}

/* ---- limits and budgets ---- */

static void live_blocks_reach_the_limit(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = 32 * MIB, .name = "limited");
    struct error error;
    void *blocks[4];

    OK(leat_thread_set_tag("results"));
    for (int i = 0; i < 4; i++)
        blocks[i] = test_block(pool, t->stream, (size_t)(i + 1) * 2 * MIB);
    OK(leat_thread_set_tag(NULL));
    error = full(pool, t->stream, 24 * MIB);
    /* The message has the request and the pool that refused it. */
    PRINTS(error.facts, "leat_pool_alloc_aligned of 25165824 bytes from limited on ");
    PRINTS(error.facts, "the limit of 33554432 bytes is reached");
    PRINTS(error.facts, "none are idle");
    PRINTS(error.facts, "4 blocks with 20971520 bytes are live");
    PRINTS(error.facts, "with 8388608 bytes; tag 'results' has 20971520 bytes");
    PRINTS(error.facts, "nothing is pending");
    assert_string_equal(error.advice, "free blocks of this pool, or raise its limit (leat_pool_set_limits)");
    /* The advice is different for a request larger than the limit. */
    error = full(pool, t->stream, 40 * MIB);
    assert_string_equal(error.advice, "ask for at most 33554432 bytes, or raise the limit (leat_pool_set_limits)");
    for (int i = 0; i < 4; i++)
        OK(leat_free(t->stream, blocks[i]));
    OK(leat_pool_destroy(pool));
}

static void a_pinned_pool_reaches_its_limit(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = 16 * MIB, .kind = LEAT_KIND_PINNED, .name = "pinned one");
    void *block = test_block(pool, t->stream, 9 * MIB), *more;
    struct error error = full(pool, t->stream, 8 * MIB);

    STATUS(leat_pool_alloc(t->stream, pool, 8 * MIB, &more), LEAT_ERROR_HOST_MEMORY);
    PRINTS(error.facts, "the limit of 16777216 bytes is reached");
    assert_string_equal(error.advice, "free blocks of this pool, or raise its limit (leat_pool_set_limits)");
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* Three causes exhaust the budget: the pool itself, another pool, and memory that another pool's stream still uses
 * after its free. */
static void a_budget_is_used_up(void **state)
{
    struct test_state *t = *state;
    struct test_gate *gate;
    leat_budget *budget;
    leat_pool *first, *second;
    struct error error;
    void *block, *own;

    OK(leat_budget_create(64 * MIB, &budget));
    first = POOL(t->device, .budget = budget, .name = "the greedy one");
    second = POOL(t->device, .budget = budget, .name = "the modest one");
    block = test_block(first, t->stream, 48 * MIB);
    own = test_block(second, t->stream, 2 * MIB);
    error = full(second, t->stream, 32 * MIB);
    PRINTS(error.facts, "the budget of 67108864 bytes is reached");
    PRINTS(error.facts, "other pools on the same budget hold 50331648, most of it the greedy one (50331648)");
    PRINTS(error.advice, "free blocks of the greedy one, which holds 50331648 bytes of the budget");
    NEVER_PRINTS(error.advice, "raise");
    error = full(first, t->stream, 32 * MIB);
    PRINTS(error.advice, "free blocks of this pool, or make a larger budget");
    error = full(first, t->stream, 80 * MIB);
    PRINTS(error.advice, "ask for at most 67108864 bytes, or make a larger budget");
    if (test_has_virtual_memory(t->device)) {
        gate = test_gate_close(t->second);
        OK(leat_free(t->second, block));
        error = full(second, t->stream, 32 * MIB);
        PRINTS(error.advice, "the greedy one has 50331648 bytes that were freed and are still in use on stream ");
        PRINTS(error.advice, "leat_stream_synchronize");
        test_gate_open(gate);
        OK(leat_stream_synchronize(t->second));
        OK(leat_free(t->stream, test_block(second, t->stream, 32 * MIB)));
    } else {
        OK(leat_free(t->second, block));
    }
    OK(leat_free(t->stream, own));
    OK(leat_pool_destroy(first));
    OK(leat_pool_destroy(second));
    OK(leat_budget_destroy(budget));
}

/* ---- idle memory in pieces that do not fit ---- */

/* Fills the pool with blocks of this size and frees every second one. Returns the number of allocated blocks. */
static int leave_holes(leat_pool *pool, leat_stream *stream, size_t bytes, void **blocks, int most)
{
    int count = 0;

    while (count < most && leat_pool_alloc(stream, pool, bytes, &blocks[count]) == LEAT_OK)
        count++;
    assert_true(count >= 6 && count < most);
    for (int i = 0; i < count; i += 2)
        OK(leat_free(stream, blocks[i]));
    return count;
}

static void free_the_others(leat_stream *stream, void **blocks, int count)
{
    for (int i = 1; i < count; i += 2)
        OK(leat_free(stream, blocks[i]));
}

/* The idle pieces are smaller than a page, so no block can be stitched from them. */
static void parts_of_pages_are_idle(void **state)
{
    static const leat_pool_packing packings[] = {LEAT_POOL_PACKING_AUTO, LEAT_POOL_PACKING_STILL,
                                                 LEAT_POOL_PACKING_TIGHT};
    enum { BYTES = 3 << 19 };
    struct test_state *t = *state;
    void *blocks[64];

    NEEDS_VIRTUAL_MEMORY(t);
    for (int i = 0; i < 3; i++) {
        leat_pool *pool = POOL(t->device, .limit_bytes = 48 * MIB, .packing = packings[i], .name = "parts");
        int count = leave_holes(pool, t->stream, BYTES, blocks, 64);
        struct error error = full(pool, t->stream, 8 * MIB);

        assert_int_equal(count, 32);
        PRINTS(error.facts, "of 50331648 bytes held 25165824 are idle in 16 pieces, the largest of 1572864");
        PRINTS(error.facts, "16 blocks with 25165824 bytes are live");
        PRINTS(error.advice, "free blocks beside the idle pieces");
        NEVER_PRINTS(error.advice, "raise");
        free_the_others(t->stream, blocks, count);
        OK(leat_pool_destroy(pool));
    }
}

static void a_pool_of_chunks_is_in_pieces(void **state)
{
    static const struct {
        leat_kind kind;
        const char *words;
    } sorts[] = {{LEAT_KIND_DEVICE, "plain device memory"}, {LEAT_KIND_PINNED, "pinned memory"}};
    struct test_state *t = *state;

    for (int sort = 0; sort < 2; sort++) {
        leat_pool *pool = POOL(t->device, .limit_bytes = 32 * MIB, .kind = sorts[sort].kind,
                               .no_virtual_memory = 1, .name = "chunks");
        void *blocks[64];
        int count = leave_holes(pool, t->stream, 2 * MIB, blocks, 64);
        struct error error = full(pool, t->stream, 4 * MIB);

        PRINTS(error.facts, "of 33554432 bytes held 16777216 are idle in 8 pieces, the largest of 2097152");
        PRINTS(error.advice, "free the blocks between the idle pieces");
        PRINTS(error.advice, sorts[sort].words);
        NEVER_PRINTS(error.advice, "raise");
        free_the_others(t->stream, blocks, count);
        OK(leat_pool_destroy(pool));
    }
}

/* The idle piece is large enough, but not aligned enough. The driver places chunks at random addresses, so the
 * test tries again if the piece happens to be aligned. */
static void the_alignment_is_too_large(void **state)
{
    struct test_state *t = *state;
    bool refused = false;

    for (int tries = 0; tries < 20 && !refused; tries++) {
        leat_pool *pool = POOL(t->device, .limit_bytes = 8 * MIB, .no_virtual_memory = 1, .name = "aligned");
        void *block = test_block(pool, t->stream, 2 * MIB), *aligned;
        struct error error;

        refused = leat_pool_alloc_aligned(t->stream, pool, 2 * MIB, GIB, &aligned) != LEAT_OK;
        if (refused) {
            error = full_aligned(pool, t->stream, 2 * MIB, GIB);
            PRINTS(error.advice, "ask for a smaller alignment");
            PRINTS(error.advice, "1073741824");
        } else {
            OK(leat_free(t->stream, aligned));
        }
        OK(leat_free(t->stream, block));
        OK(leat_pool_destroy(pool));
    }
    assert_true(refused);
}

/* ---- the device ---- */

/* The pool has no limit, so the advice must not be to raise it. */
static void live_blocks_fill_the_device(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "large");
    uint64_t free_bytes = free_bytes_of(t->device), total_bytes;
    void *block = test_block(pool, t->stream, (size_t)(free_bytes / 10 * 7) & ~(2 * MIB - 1));
    struct error error = full(pool, t->stream, (size_t)(free_bytes / 2));

    OK(leat_device_memory(t->device, NULL, &total_bytes));
    PRINTS(error.facts, "none are idle");
    PRINTS(error.facts, "1 block with ");
    PRINTS(error.facts, "nothing is pending");
    PRINTS(error.facts, number(total_bytes));
    PRINTS(error.facts, "are free");
    assert_string_equal(error.advice, "free blocks of this pool, or ask for less");
    error = full(pool, t->stream, (size_t)total_bytes + GIB);
    PRINTS(error.advice, "ask for less than the ");
    PRINTS(error.advice, number(total_bytes));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* Another pool has the memory: in live blocks, or in freed blocks whose stream has not reached the free yet. */
static void another_pool_fills_the_device(void **state)
{
    struct test_state *t = *state;
    leat_pool *other = POOL(t->device, .name = "the other one"), *pool = POOL(t->device, .name = "mine");
    uint64_t free_bytes = free_bytes_of(t->device);
    void *block = test_block(other, t->stream, (size_t)(free_bytes / 10 * 7));
    uint64_t held_bytes = test_statistics(other).reserved_bytes;
    struct error error = full(pool, t->stream, (size_t)(free_bytes / 2));
    struct test_gate *gate;

    PRINTS(error.facts, "0 blocks with 0 bytes are live");
    PRINTS(error.facts, "other pools on the same device hold ");
    PRINTS(error.facts, number(held_bytes));
    PRINTS(error.advice, "free blocks of the other one, which holds ");
    PRINTS(error.advice, number(held_bytes));
    NEVER_PRINTS(error.advice, "limit");
    if (test_has_virtual_memory(t->device)) {
        gate = test_gate_close(t->second);
        OK(leat_free(t->second, block));
        error = full(pool, t->stream, (size_t)(free_bytes / 2));
        PRINTS(error.advice, "the other one has ");
        PRINTS(error.advice, "that were freed and are still in use on stream ");
        test_gate_open(gate);
        OK(leat_stream_synchronize(t->second));
        OK(leat_free(t->stream, test_block(pool, t->stream, (size_t)(free_bytes / 2))));
    } else {
        OK(leat_free(t->second, block));
    }
    OK(leat_pool_destroy(other));
    OK(leat_pool_destroy(pool));
}

/* Memory from the vendor's own calls belongs to no pool, like the memory of other processes. */
static void others_fill_the_device(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "inside");
    uint64_t free_bytes = free_bytes_of(t->device);
    struct error error;
    void *block;

    OK(leat_alloc_driver(t->stream, (size_t)(free_bytes / 10 * 7), &block));
    error = full(pool, t->stream, (size_t)(free_bytes / 2));
    PRINTS(error.facts, "are held outside of leat's pools");
    PRINTS(error.advice, "bytes belong to other processes, or to this one by other calls");
    NEVER_PRINTS(error.advice, "limit");
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* ---- the host ---- */

static void the_host_has_no_more_to_pin(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .kind = LEAT_KIND_PINNED, .name = "pinned without limit");
    struct error error = full(pool, t->stream, (size_t)1 << 50);

    PRINTS(error.facts, "pinned without limit");
    PRINTS(error.facts, "0 blocks with 0 bytes are live");
    NEVER_PRINTS(error.facts, "bytes of cpu");
    PRINTS(error.advice, "ask for less");
    PRINTS(error.advice, "host memory");
    NEVER_PRINTS(error.advice, "raise");
    OK(leat_pool_destroy(pool));
}

/* ---- long messages ---- */

/* However long the first line is, the advice must not be cut off. */
static void the_advice_is_never_cut(void **state)
{
    static const char name[] = "a pool whose name is as long as names can be, or";
    struct test_state *t = *state;
    struct error error;
    leat_pool *pool;
    void *block;

    pool = POOL(t->device, .limit_bytes = 8 * MIB, .guard = 1, .name = name);
    OK(leat_thread_set_tag("a tag of thirty-one characters."));
    block = test_block(pool, t->stream, 2 * MIB);
    OK(leat_thread_set_tag(NULL));
    error = full(pool, t->stream, 8 * MIB);
    PRINTS(error.facts, "a pool whose name is as long as names can be");
    PRINTS(error.facts, "was allocated at ");
    PRINTS(error.facts, "guard mode adds 1024 bytes or more to each");
    PRINTS(error.advice, "limit (leat_pool_set_limits)");
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(live_blocks_reach_the_limit),   STATE_TEST(a_pinned_pool_reaches_its_limit),
    STATE_TEST(a_budget_is_used_up),           STATE_TEST(parts_of_pages_are_idle),
    STATE_TEST(a_pool_of_chunks_is_in_pieces), STATE_TEST(the_alignment_is_too_large),
    STATE_TEST(live_blocks_fill_the_device),   STATE_TEST(another_pool_fills_the_device),
    STATE_TEST(others_fill_the_device),        STATE_TEST(the_host_has_no_more_to_pin),
    STATE_TEST(the_advice_is_never_cut),
};

TEST_MAIN(tests)
