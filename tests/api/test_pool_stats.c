/* test_pool_stats.c - tests statistics, history and snapshots of pools. */
#include "test_pool.h"

#include <ctype.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>

static const struct test_pool_sort sorts[] = TEST_POOL_SORTS;
enum { SORTS = sizeof sorts / sizeof sorts[0] };

/* ---- statistics --------------------------------------------------------------------------------------------- */

static uint64_t rounded(size_t bytes)
{
    return (bytes + 511) / 512 * 512;
}

static void figures_add_up(void **state)
{
    static const size_t sizes[] = {1, 512, 513, 100000, MIB, 7 * MIB + 9, 64 * MIB};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool *pool = test_pool_try(t->device, &sorts[sort].options);
        uint64_t requested = 0, used = 0;
        leat_pool_stats figures = LEAT_POOL_STATS_INIT;
        void *blocks[COUNT];

        if (!pool)
            continue;
        for (unsigned i = 0; i < COUNT; i++) {
            blocks[i] = test_block(pool, t->stream, sizes[i]);
            requested += sizes[i];
            used += rounded(sizes[i]);
            figures = test_statistics(pool);
            assert_int_equal(figures.requested_bytes, requested);
            /* Red zones, or the rounding to whole pages, add to the used bytes. */
            if (sorts[sort].options.guard || sorts[sort].options.dedicated)
                assert_true(figures.used_bytes >= used);
            else if (!getenv("LEAT_POOL_GUARD"))
                assert_int_equal(figures.used_bytes, used);
            assert_true(figures.reserved_bytes >= used);
            assert_true(figures.reserved_peak_bytes >= figures.reserved_bytes);
            assert_int_equal(figures.live_blocks, i + 1);
            assert_int_equal(figures.allocations, i + 1);
        }
        assert_true(figures.driver_calls > 0);
        for (unsigned i = 0; i < COUNT; i++)
            OK(leat_free(t->stream, blocks[i]));
        figures = test_statistics(pool);
        assert_int_equal(figures.requested_bytes, 0);
        assert_int_equal(figures.used_bytes, 0);
        assert_int_equal(figures.live_blocks, 0);
        assert_int_equal(figures.frees, COUNT);
        assert_int_equal(figures.failures, 0);
        assert_int_equal(figures.callbacks, 0);
        assert_int_equal(figures.requested_peak_bytes, requested);
        assert_int_equal(figures.host_waits, 0);
        OK(leat_pool_destroy(pool));
    }
}

static void the_peak_is_exact_with_one_thread(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "peak");
    uint64_t live = 0, peak = 0;
    struct test_held_block held[16];

    memset(held, 0, sizeof held);
    for (uint64_t step = 0; step < 2000; step++) {
        struct test_held_block *h = &held[leat_pattern_value(step, 4) % 16];

        if (h->ptr) {
            OK(leat_free(t->stream, h->ptr));
            live -= h->bytes;
            h->ptr = NULL;
            continue;
        }
        h->bytes = test_random_size(step);
        h->ptr = test_block(pool, t->stream, h->bytes);
        live += h->bytes;
        peak = live > peak ? live : peak;
        if (step % 50 == 0)
            assert_int_equal(test_statistics(pool).requested_peak_bytes, peak);
    }
    assert_int_equal(test_statistics(pool).requested_peak_bytes, peak);
    for (int i = 0; i < 16; i++)
        OK(leat_free(t->stream, held[i].ptr));
    OK(leat_pool_destroy(pool));
}

/* Returns the share of a tag, or zeros if it has none. */
static leat_pool_share tag_share(leat_pool *pool, const char *name)
{
    leat_pool_share share = LEAT_POOL_SHARE_INIT, none = LEAT_POOL_SHARE_INIT;
    leat_status status;

    memset(&none, 0, sizeof none);
    for (unsigned i = 0; (status = leat_pool_get_tag_share(pool, i, &share)) == LEAT_OK; i++)
        if (!strcmp(share.name, name))
            return share;
    assert_int_equal(status, LEAT_ERROR_NOT_FOUND);
    return none;
}

static void *allocate_without_tag(void *pool)
{
    void *block = NULL;

    return leat_pool_alloc(NULL, pool, 50, &block) == LEAT_OK ? block : NULL;
}

static void tags_say_whose_memory_it_is(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "tagged");
    void *weights, *more, *other, *unnamed, *by_thread;
    char long_name[64];
    pthread_t thread;

    OK(leat_thread_set_tag("weights"));
    weights = test_block(pool, t->stream, 1000);
    more = test_block(pool, t->stream, 5 * MIB);
    /* A tag applies only to the thread that set it. */
    assert_int_equal(pthread_create(&thread, NULL, allocate_without_tag, pool), 0);
    pthread_join(thread, &by_thread);
    assert_non_null(by_thread);
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[63] = '\0';
    OK(leat_thread_set_tag(long_name));
    other = test_block(pool, t->stream, 300);
    OK(leat_thread_set_tag(NULL));
    unnamed = test_block(pool, t->second, 20);

    assert_int_equal(tag_share(pool, "weights").requested_bytes, 1000 + 5 * MIB);
    assert_int_equal(tag_share(pool, "weights").live_blocks, 2);
    assert_int_equal(tag_share(pool, "weights").cached_bytes, 0);
    assert_null(tag_share(pool, "weights").stream);
    long_name[31] = '\0';
    assert_int_equal(tag_share(pool, long_name).requested_bytes, 300);
    assert_int_equal(tag_share(pool, "").requested_bytes, 70);
    assert_int_equal(tag_share(pool, "").live_blocks, 2);
    /* A block keeps its tag, whichever thread or stream frees it. */
    OK(leat_free(t->stream, more));
    assert_int_equal(tag_share(pool, "weights").requested_bytes, 1000);
    assert_int_equal(tag_share(pool, "weights").live_blocks, 1);
    OK(leat_free(t->stream, weights));
    OK(leat_free(t->stream, other));
    OK(leat_free(t->second, unnamed));
    OK(leat_memory_free(by_thread));
    assert_int_equal(tag_share(pool, "weights").live_blocks, 0);
    assert_int_equal(tag_share(pool, "").live_blocks, 0);
    OK(leat_pool_destroy(pool));
}

/* Must run last, because it uses up all tags that a process can have. */
static void further_tags_count_as_other(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "many tags");
    void *blocks[100];
    uint64_t live = 0;
    leat_pool_share share = LEAT_POOL_SHARE_INIT;

    for (int i = 0; i < 100; i++) {
        char name[32];

        snprintf(name, sizeof name, "tag %d", i);
        OK(leat_thread_set_tag(name));
        blocks[i] = test_block(pool, t->stream, 1000);
    }
    OK(leat_thread_set_tag(NULL));
    assert_int_equal(tag_share(pool, "tag 0").live_blocks, 1);
    assert_true(tag_share(pool, "other").live_blocks >= 37);
    for (unsigned i = 0; leat_pool_get_tag_share(pool, i, &share) == LEAT_OK; i++)
        live += share.live_blocks;
    assert_int_equal(live, 100);
    for (int i = 0; i < 100; i++)
        OK(leat_free(t->stream, blocks[i]));
    assert_int_equal(tag_share(pool, "other").live_blocks, 0);
    OK(leat_pool_destroy(pool));
}

/* Returns the share of one stream; *sum returns the sum over all streams. */
static leat_pool_share stream_share(leat_pool *pool, leat_stream *stream, leat_pool_share *sum)
{
    leat_pool_share share = LEAT_POOL_SHARE_INIT, found = LEAT_POOL_SHARE_INIT;
    leat_status status;

    memset(&found, 0, sizeof found);
    memset(sum, 0, sizeof *sum);
    for (unsigned i = 0; (status = leat_pool_get_stream_share(pool, i, &share)) == LEAT_OK; i++) {
        sum->requested_bytes += share.requested_bytes;
        sum->live_blocks += share.live_blocks;
        sum->cached_bytes += share.cached_bytes;
        assert_non_null(memchr(share.name, '\0', sizeof share.name));
        if (share.stream == stream)
            found = share;
    }
    assert_int_equal(status, LEAT_ERROR_NOT_FOUND);
    return found;
}

static void streams_have_their_shares(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "shares");
    void *first = test_block(pool, t->stream, 1000), *second = test_block(pool, t->second, 3 * MIB);
    void *third = test_block(pool, t->second, 400), *host = test_block(pool, NULL, 77);
    leat_pool_share sum = LEAT_POOL_SHARE_INIT, share = LEAT_POOL_SHARE_INIT;

    share = stream_share(pool, t->stream, &sum);
    assert_int_equal(sum.requested_bytes, 1000 + 3 * MIB + 400 + 77);
    assert_int_equal(sum.live_blocks, 4);
    assert_int_equal(share.requested_bytes, 1000);
    assert_int_equal(share.live_blocks, 1);
    assert_non_null(strstr(share.name, "stream"));
    share = stream_share(pool, t->second, &sum);
    assert_int_equal(share.requested_bytes, 3 * MIB + 400);
    assert_int_equal(share.live_blocks, 2);
    OK(leat_free(t->stream, first));
    OK(leat_free(t->second, second));
    share = stream_share(pool, t->second, &sum);
    assert_int_equal(share.requested_bytes, 400);
    assert_true(sum.cached_bytes <= test_statistics(pool).reserved_bytes);
    OK(leat_free(t->second, third));
    OK(leat_memory_free(host));
    (void)stream_share(pool, t->second, &sum);
    assert_int_equal(sum.requested_bytes, 0);
    assert_int_equal(sum.live_blocks, 0);
    OK(leat_pool_destroy(pool));
}

/* A block that another stream frees no longer counts as a block of the stream that allocated it. */
static void shares_are_right_after_frees_elsewhere(void **state)
{
    struct test_state *t = *state;

    for (int checked = 0; checked < 2; checked++) {
        leat_pool *pool = POOL(t->device, .history = checked ? 16 : 0);
        leat_pool_share sum = LEAT_POOL_SHARE_INIT, share = LEAT_POOL_SHARE_INIT;
        void *last;

        for (int i = 0; i < 3; i++) {
            OK(leat_free(t->second, test_block(pool, t->stream, 5000)));
            OK(leat_free(t->second, test_block(pool, t->stream, 3 * MIB)));
            OK(leat_memory_free(test_block(pool, t->stream, 700)));
        }
        share = stream_share(pool, t->stream, &sum);
        assert_int_equal(share.requested_bytes, 0);
        assert_int_equal(share.live_blocks, 0);
        OK(leat_free(t->stream, test_block(pool, t->second, 5000)));
        last = test_block(pool, t->second, 600);
        share = stream_share(pool, t->second, &sum);
        assert_int_equal(share.requested_bytes, 600);
        assert_int_equal(share.live_blocks, 1);
        OK(leat_free(t->second, last));
        OK(leat_pool_destroy(pool));
    }
}

/* ---- history ------------------------------------------------------------------------------------------------ */

static void a_pool_remembers_what_happened(void **state)
{
    enum { ROOM = 256 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .history = ROOM);
    leat_pool_event events[ROOM];
    void *first = test_block(pool, t->stream, 1000), *second = test_block(pool, t->second, 9 * MIB);
    size_t count = ROOM, seen = 0, grown = 0;
    uint64_t streams[2] = {0};

    OK(leat_free(t->stream, first));
    OK(leat_free(t->second, second));
    OK(leat_pool_history(pool, events, &count));
    assert_true(count >= 5 && count <= ROOM);
    for (size_t i = 0; i < count; i++) {
        const leat_pool_event *e = &events[i];

        assert_true(!i || e->time_ns >= events[i - 1].time_ns);
        if (e->action == LEAT_POOL_ACTION_GROW) {
            grown += e->bytes;
            continue;
        }
        if (e->action != LEAT_POOL_ACTION_ALLOC && e->action != LEAT_POOL_ACTION_FREE)
            continue;
        /* The order of events is: alloc, alloc, free, free. */
        assert_int_equal(e->action, seen < 2 ? LEAT_POOL_ACTION_ALLOC : LEAT_POOL_ACTION_FREE);
        assert_ptr_equal(e->ptr, seen % 2 ? second : first);
        assert_int_equal(e->bytes, seen % 2 ? 9 * MIB : 1000);
        if (seen < 2)
            streams[seen] = e->stream;
        assert_true(e->stream != 0 && e->stream == streams[seen % 2]);
        seen++;
    }
    assert_int_equal(seen, 4);
    assert_true(streams[0] != streams[1]);
    assert_true(grown >= 9 * MIB + 1000);
    /* If the array is too small, the call returns the latest events. */
    count = 1;
    OK(leat_pool_history(pool, events, &count));
    assert_int_equal(count, 1);
    assert_int_equal(events[0].action, LEAT_POOL_ACTION_FREE);
    assert_ptr_equal(events[0].ptr, second);
    count = 0;
    OK(leat_pool_history(pool, events, &count));
    assert_int_equal(count, 0);
    OK(leat_pool_destroy(pool));
}

static void history_forgets_the_oldest(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .history = 64);
    leat_pool_event events[1024];
    size_t count = 1024;
    void *block = NULL;

    for (size_t i = 1; i <= 1000; i++) {
        block = test_block(pool, t->stream, i);
        OK(leat_free(t->stream, block));
    }
    OK(leat_pool_history(pool, events, &count));
    assert_true(count >= 32 && count <= 64);
    assert_int_equal(events[count - 1].action, LEAT_POOL_ACTION_FREE);
    assert_int_equal(events[count - 1].bytes, 1000);
    assert_int_equal(events[count - 2].action, LEAT_POOL_ACTION_ALLOC);
    assert_int_equal(events[count - 2].bytes, 1000);
    assert_ptr_equal(events[count - 2].ptr, block);
    assert_int_equal(events[count - 4].bytes, 999);
    OK(leat_pool_destroy(pool));
}

static void a_failed_request_is_remembered(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .history = 64, .limit_bytes = 8 * MIB);
    leat_pool_event events[64];
    size_t count = 64;
    bool found = false;
    void *block = NULL;

    REFUSED(leat_pool_alloc(t->stream, pool, 64 * MIB, &block), LEAT_ERROR_DEVICE_MEMORY, "limit");
    OK(leat_pool_history(pool, events, &count));
    for (size_t i = 0; i < count; i++)
        found = found || (events[i].action == LEAT_POOL_ACTION_FULL && events[i].bytes == 64 * MIB);
    assert_true(found);
    OK(leat_pool_destroy(pool));
}

/* ---- the snapshot ------------------------------------------------------------------------------------------- */

struct text {
    char *words;
    size_t bytes;
};

static void keep_text(void *argument, const char *words, size_t bytes)
{
    struct text *text = argument;
    char *longer = realloc(text->words, text->bytes + bytes + 1);

    if (!longer)
        abort();
    memcpy(longer + text->bytes, words, bytes);
    text->words = longer;
    text->bytes += bytes;
    text->words[text->bytes] = '\0';
}

static const char *json_value(const char *at, int depth);

static const char *json_space(const char *at)
{
    while (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')
        at++;
    return at;
}

/* Parses the JSON string at this pointer. Returns its end, or NULL if there is no valid string. */
static const char *json_string(const char *at)
{
    if (*at++ != '"')
        return NULL;
    for (; *at != '"'; at++) {
        if ((unsigned char)*at < 0x20)
            return NULL;
        if (*at == '\\') {
            at++;
            if (!*at || !strchr("\"\\/bfnrtu", *at))
                return NULL;
            for (int i = 0; *at == 'u' && i < 4; i++)
                if (!isxdigit((unsigned char)at[i + 1]))
                    return NULL;
        }
    }
    return at + 1;
}

static const char *json_number(const char *at)
{
    const char *digits;

    if (*at == '-')
        at++;
    digits = at;
    while (isdigit((unsigned char)*at))
        at++;
    if (at == digits || (*digits == '0' && at > digits + 1))
        return NULL;
    if (*at == '.') {
        digits = ++at;
        while (isdigit((unsigned char)*at))
            at++;
        if (at == digits)
            return NULL;
    }
    return at;
}

/* Parses the JSON object or array at this pointer. Returns its end, or NULL if it is malformed. */
static const char *json_group(const char *at, int depth)
{
    char end = *at == '{' ? '}' : ']';

    at = json_space(at + 1);
    if (*at == end)
        return at + 1;
    for (;;) {
        if (end == '}') {
            at = json_string(json_space(at));
            if (!at)
                return NULL;
            at = json_space(at);
            if (*at++ != ':')
                return NULL;
        }
        at = json_value(at, depth + 1);
        if (!at)
            return NULL;
        at = json_space(at);
        if (*at == end)
            return at + 1;
        if (*at++ != ',')
            return NULL;
    }
}

/* Parses the JSON value at this pointer. Returns its end, or NULL if there is no valid value. */
static const char *json_value(const char *at, int depth)
{
    static const char *const names[] = {"true", "false", "null"};

    at = json_space(at);
    if (depth > 50)
        return NULL;
    if (*at == '{' || *at == '[')
        return json_group(at, depth);
    if (*at == '"')
        return json_string(at);
    for (int i = 0; i < 3; i++)
        if (!strncmp(at, names[i], strlen(names[i])))
            return at + strlen(names[i]);
    return json_number(at);
}

static void expect_json(const char *words)
{
    const char *end = json_value(words, 0);

    if (!end || *json_space(end) || *json_space(words) != '{')
        fail_msg("this is no JSON object:\n%s", words);
}

static void a_snapshot_is_json(void **state)
{
    struct test_state *t = *state;

    for (int sort = 0; sort < SORTS; sort++) {
        leat_pool_options options = sorts[sort].options;
        struct text text = {NULL, 0};
        leat_pool *pool;
        void *blocks[40];

        options.name = "a \"name\" \\ with\nall\tin \x01 it";
        pool = test_pool_try(t->device, &options);
        if (!pool)
            continue;
        OK(leat_pool_snapshot(pool, keep_text, &text));
        expect_json(text.words);
        OK(leat_thread_set_tag("in \"quotes\""));
        for (unsigned i = 0; i < 40; i++)
            blocks[i] = test_block(pool, i % 3 ? t->stream : t->second, test_random_size(i));
        OK(leat_thread_set_tag(NULL));
        for (unsigned i = 0; i < 40; i += 2)
            OK(leat_free(i % 3 ? t->stream : t->second, blocks[i]));
        free(text.words);
        text = (struct text){NULL, 0};
        OK(leat_pool_snapshot(pool, keep_text, &text));
        expect_json(text.words);
        assert_non_null(strstr(text.words, "a \\\"name\\\""));
        assert_non_null(strstr(text.words, "\"live\""));
        assert_non_null(strstr(text.words, "in \\\"quotes\\\""));
        for (unsigned i = 1; i < 40; i += 2)
            OK(leat_free(t->stream, blocks[i]));
        free(text.words);
        OK(leat_pool_destroy(pool));
    }
}

/* Names may have arbitrary bytes, and leat cuts long ones. The snapshot must still be valid UTF-8, because JSON
 * requires it. */
static void a_snapshot_is_utf8(void **state)
{
    static const char *const tags[] = {
        /* 16 characters of 2 bytes; leat keeps 31 bytes of them */
        "\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9",
        "\xff\xfe",
        "half \xc3",
        "\xed\xa0\x80",
    };
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0), before;
    char name[60] = "";
    struct test_state *t = *state;
    struct text text = {NULL, 0};
    leat_pool *pool;
    void *blocks[4];
    size_t characters;

    if (!utf8)
        SKIP_OTHER("there is no locale C.UTF-8 to check with");
    /* This name is longer than leat keeps, and the cut is inside a character of 3 bytes. */
    while (strlen(name) < 54)
        strcat(name, "\u20ac");
    pool = POOL(t->device, .name = name);
    for (int i = 0; i < 4; i++) {
        OK(leat_thread_set_tag(tags[i]));
        blocks[i] = test_block(pool, t->stream, 1000);
    }
    OK(leat_thread_set_tag(NULL));
    OK(leat_pool_snapshot(pool, keep_text, &text));
    expect_json(text.words);
    before = uselocale(utf8);
    characters = mbstowcs(NULL, text.words, 0);
    uselocale(before);
    freelocale(utf8);
    assert_true(characters != (size_t)-1);
    /* The snapshot has 15 whole characters of the first tag. */
    assert_non_null(
        strstr(text.words,
               "\"\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\""));
    assert_non_null(strstr(text.words, "\"half \ufffd\""));
    assert_non_null(strstr(text.words, "\"\ufffd\ufffd\""));
    for (int i = 0; i < 4; i++)
        OK(leat_free(t->stream, blocks[i]));
    free(text.words);
    OK(leat_pool_destroy(pool));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(figures_add_up),
    STATE_TEST(the_peak_is_exact_with_one_thread),
    STATE_TEST(tags_say_whose_memory_it_is),
    STATE_TEST(streams_have_their_shares),
    STATE_TEST(shares_are_right_after_frees_elsewhere),
    STATE_TEST(a_pool_remembers_what_happened),
    STATE_TEST(history_forgets_the_oldest),
    STATE_TEST(a_failed_request_is_remembered),
    STATE_TEST(a_snapshot_is_json),
    STATE_TEST(a_snapshot_is_utf8),
    STATE_TEST(further_tags_count_as_other),
};

TEST_MAIN(tests)
