/*
 * test_pool_reports.c - tests what pools report: leaks with their backtraces, guard mode by LEAT_POOL_GUARD, and
 * backtraces in snapshots. Also tests guarded and scrubbed pools while driver calls fail.
 *
 * Tests that need an environment variable or failing driver calls run in a child process: this program again, with
 * the name of the case as its argument.
 */
#include "pool_guard.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- child processes ---------------------------------------------------------------------------------------- */

/* Runs this program again with name as its argument and with these environment variables. Returns its exit status;
 * text returns what it wrote to standard error. */
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
        execl("/proc/self/exe", "test_pool_reports", name, (char *)NULL);
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

/* State of a child in which one driver call fails. */
struct faulty {
    leat_device *device;
    leat_stream *stream, *asks; /* asks: allocates and frees blocks; NULL: blocks have no stream */
    leat_pool_options options;
    leat_pool *pool;
    unsigned failed; /* number of calls of leat that failed */
};

/* Makes the call. If it fails, the message must name the fault driver, and a second call must succeed. */
#define ONCE_MORE(f, call)                                                                                        \
    do {                                                                                                          \
        if ((call) != LEAT_OK) {                                                                                  \
            MUST(strstr(leat_last_error(), "fault driver"));                                                      \
            (f)->failed++;                                                                                        \
            MUST((call) == LEAT_OK);                                                                              \
        }                                                                                                         \
    } while (0)

static leat_pool_stats figures_of(leat_pool *pool)
{
    leat_pool_stats figures = {.size = sizeof figures};

    MUST(leat_pool_get_stats(pool, &figures) == LEAT_OK);
    return figures;
}

/* Allocates nearly the whole limit. If the first try fails, it must have released all its memory, so that the
 * second one succeeds. */
static void *take_much(struct faulty *f)
{
    void *untouched = f, *block = untouched;
    leat_pool_stats figures;

    if (leat_pool_alloc(f->asks, f->pool, 5 * MIB, &block) == LEAT_OK)
        return block;
    f->failed++;
    MUST(strstr(leat_last_error(), "fault driver") && block == untouched);
    figures = figures_of(f->pool);
    MUST(figures.live_blocks == 0 && figures.requested_bytes == 0 && figures.failures == 1);
    MUST(leat_pool_alloc(f->asks, f->pool, 5 * MIB, &block) == LEAT_OK);
    return block;
}

/* Frees the block. A free that fails must leave the block live, and a second one must succeed. */
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
    leat_pool_stats figures;
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
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    if (test_on_names())
        SKIP_OTHER("the faults would be in the leat beneath as well");
    OK(leat_device_get_info(((struct test_state *)*state)->device, &info));
    if (!info.managed_memory)
        SKIP_MISSING("no managed memory");
    for (int sort = 0; sort < 2; sort++)
        for (size_t entry = 0; entry < sizeof entries / sizeof entries[0]; entry++) {
            unsigned failed = 0;

            /* In each child the n-th call of this entry fails. If the child makes fewer calls, nothing fails. */
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

    MUST(leat_pool_alloc(stream, pool, bytes, &block) == LEAT_OK);
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

/* Leaks blocks in 31 groups, one of which has most of the bytes. */
static int child_with_leaks(void)
{
    volatile int three = 3, two = 2; /* volatile, so that no loop is unrolled into several call sites */
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
        MUST(leat_thread_set_tag(tag) == LEAT_OK);
        for (int count = 0; count < two; count++)
            allocate_there(pool, stream, 1000 + (size_t)i);
    }
    MUST(leat_thread_set_tag("much") == LEAT_OK);
    block = allocate_there(pool, NULL, 3 * MIB);
    MUST(leat_thread_set_tag(NULL) == LEAT_OK);
    MUST(leat_memory_free(allocate_there(pool, NULL, 3 * MIB)) == LEAT_OK);
    MUST(leat_pool_snapshot(pool, keep_snapshot, &used) == LEAT_OK);
    MUST(leat_pool_alloc(stream, pool, 7 * MIB, &block) == LEAT_ERROR_DEVICE_MEMORY);
    if (getenv("LEAT_POOL_BACKTRACES")) {
        MUST(count_words(snapshot, "\"stack\":[\"") == 62);
        MUST(strstr(snapshot, "test_pool_reports+0x"));
        MUST(strstr(leat_last_error(), "; most, 3145728 bytes in 1 blocks, was allocated at "));
        MUST(strstr(leat_last_error(), "test_pool_reports"));
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
    assert_true(strstr(most, "test_pool_reports") < strchr(most, '\n'));
    expect_words(text, "leat: leak: and 11 more places\n");
    /* The text has a summary, twenty groups, and the number of further groups. */
    assert_int_equal(count_words(text, "leat: leak: "), 22);

    expect_child("leaks", without, text, sizeof text);
    expect_words(text, "leat: leak: 3145728 bytes in 1 block, tag 'much'\n");
    assert_null(strstr(text, "allocated at"));

    expect_child("leaks", silent, text, sizeof text);
    assert_string_equal(text, "");
}

/* LEAT_POOL_GUARD turns on guard mode for the default pools. leat does not report blocks that are live at the
 * end. */
static int child_in_guard_mode(void)
{
    leat_pool_stats figures = {.size = sizeof figures};
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
    MUST(leat_pool_get_stats(pool, &figures) == LEAT_OK);
    MUST(figures.guard_reports == 0);
    MUST(leat_pool_alloc(t.stream, pool, 100, (void **)&block) == LEAT_OK);
    MUST(leat_pool_get_stats(pool, &figures) == LEAT_OK);
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

static const struct CMUnitTest tests[] = {
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
