/* unit_fault.c - tests the fault driver: which calls it counts, which byte it corrupts, which settings it
 * accepts. */
#include "harness.h"

#include "driver/fault/fault.h"
#include "driver/registry.h"

#include <stdlib.h>
#include <string.h>

static struct leati_driver *wrapper(void)
{
    struct leati_driver *driver;

    for (unsigned i = 0; (driver = leati_registry_driver(i, NULL, NULL)); i++)
        if (!strcmp(driver->name, "cpu"))
            return driver;
    fail_msg("no cpu driver");
    return NULL;
}

static void only_the_nth_call_fails(void **state)
{
    struct test_state *t = *state;
    leat_event *event;

    for (uint64_t n = 1; n <= 3; n++) {
        leati_fault_arm(wrapper(), LEATI_FAULT_FAIL, NULL, n);
        for (uint64_t call = 1; call <= 4; call++) {
            leat_status status = leat_stream_query(t->stream);

            assert_int_equal(status, call == n ? LEAT_ERROR_DRIVER : LEAT_OK);
            assert_int_equal(leati_fault_fired(wrapper()), call >= n);
            assert_int_equal(leati_fault_calls(wrapper()), call);
        }
        assert_string_equal(leati_fault_entry(wrapper()), "stream_query");
    }
    assert_non_null(strstr(leat_last_error(), "fault driver: call 3 (stream_query) was made to fail"));

    /* The fault driver counts only calls of the named entry. */
    leati_fault_arm(wrapper(), LEATI_FAULT_FAIL, "event_create", 2);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_event_create(t->device, &event));
    OK(leat_event_destroy(event));
    OK(leat_stream_synchronize(t->stream));
    assert_false(leati_fault_fired(wrapper()));
    REFUSED(leat_event_create(t->device, &event), LEAT_ERROR_DRIVER, "call 2 (event_create)");
    leati_fault_arm(wrapper(), LEATI_FAULT_NONE, NULL, 0);
    assert_false(leati_fault_fired(wrapper()));
    assert_null(leati_fault_entry(wrapper()));
}

static void what_takes_away_does_so(void **state)
{
    struct test_state *t = *state;
    uint64_t live = leati_fault_live(wrapper());
    leat_stream *stream;
    void *own = test_buffer(100);

    OK(leat_register(t->device, own, 100));
    OK(leat_stream_create(t->device, &stream));
    assert_int_equal(leati_fault_live(wrapper()), live + 2);
    leati_fault_arm(wrapper(), LEATI_FAULT_FAIL, "stream_destroy", 1);
    REFUSED(leat_stream_destroy(stream), LEAT_ERROR_DRIVER, "gone");
    assert_int_equal(leati_fault_live(wrapper()), live + 1);
    REFUSED(leat_stream_destroy(stream), LEAT_ERROR_HANDLE, "stream");
    /* The failed call has left the memory registered. */
    leati_fault_arm(wrapper(), LEATI_FAULT_FAIL, "host_unregister", 1);
    REFUSED(leat_unregister(own), LEAT_ERROR_DRIVER, "host_unregister");
    assert_int_equal(leati_fault_live(wrapper()), live + 1);
    OK(leat_unregister(own));
    free(own);
    assert_int_equal(leati_fault_live(wrapper()), live);
    leati_fault_arm(wrapper(), LEATI_FAULT_NONE, NULL, 0);
}

static unsigned count_wrong(const unsigned char *seen, size_t bytes, uint64_t seed)
{
    unsigned char *expected = test_buffer(bytes);
    unsigned wrong = 0;

    test_pattern(expected, bytes, seed);
    for (size_t i = 0; i < bytes; i++)
        wrong += seen[i] != expected[i];
    free(expected);
    return wrong;
}

static void the_nth_copy_has_one_wrong_byte(void **state)
{
    enum { BYTES = 1000 };
    struct test_state *t = *state;
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, BYTES), *own = test_buffer(BYTES);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, BYTES), in[BYTES], out[BYTES];
    unsigned char *places[] = {pinned, memory, own};

    test_pattern(in, BYTES, 6);
    for (int i = 0; i < 3; i++) {
        /* The fault driver corrupts the second of three copies. */
        leati_fault_arm(wrapper(), LEATI_FAULT_CORRUPT, NULL, 2);
        OK(leat_copy(t->stream, places[i], in, BYTES));
        assert_false(leati_fault_fired(wrapper()));
        OK(leat_copy(t->stream, places[i], in, BYTES));
        assert_true(leati_fault_fired(wrapper()));
        OK(leat_copy_sync(t->stream, out, places[i], BYTES));
        assert_int_equal(count_wrong(out, BYTES, 6), 1);
        OK(leat_copy(t->stream, places[i], in, BYTES));
        OK(leat_copy_sync(t->stream, out, places[i], BYTES));
        assert_int_equal(count_wrong(out, BYTES, 6), 0);
    }
    leati_fault_arm(wrapper(), LEATI_FAULT_NONE, NULL, 0);
    OK(leat_memory_free(pinned));
    OK(leat_memory_free(memory));
    free(own);
}

static void the_nth_fill_has_one_wrong_byte(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 1000), out[1000];
    const uint32_t pattern = 0x81726354;

    for (size_t size = 1; size <= 4; size *= 2) {
        unsigned wrong = 0;

        leati_fault_arm(wrapper(), LEATI_FAULT_CORRUPT, "fill", 1);
        OK(leat_fill_pattern(t->stream, memory, &pattern, size, 1000));
        assert_true(leati_fault_fired(wrapper()));
        OK(leat_copy_sync(t->stream, out, memory, 1000));
        for (size_t i = 0; i < 1000; i++)
            wrong += out[i] != ((const unsigned char *)&pattern)[i % size];
        assert_int_equal(wrong, 1);
    }
    leati_fault_arm(wrapper(), LEATI_FAULT_NONE, NULL, 0);
    OK(leat_memory_free(memory));
}

static void a_delay_changes_nothing(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 1000), in[1000], out[1000];

    test_pattern(in, sizeof in, 3);
    leati_fault_arm(wrapper(), LEATI_FAULT_DELAY, "copy", 1);
    OK(leat_copy(t->stream, memory, in, sizeof in));
    assert_true(leati_fault_fired(wrapper()));
    OK(leat_copy_sync(t->stream, out, memory, sizeof out));
    EXPECT_PATTERN(out, sizeof out, 3);
    leati_fault_arm(wrapper(), LEATI_FAULT_NONE, NULL, 0);
    OK(leat_memory_free(memory));
}

static void words_arm_it(void **state)
{
    static const char *const good[] = {
        "none",     "fail=1",       "fail=copy:3",  "fail=vm_map:18446744073709551615",
        "delay=2",  "delay=fill:1", "corrupt=7",    "copy-short",
        "fill-off", "query-ready",  "wait-nothing", "order-loose"};
    static const char *const bad[] = {"",
                                      "nonsense",
                                      "none ",
                                      "fail",
                                      "fail=",
                                      "fail=0",
                                      "fail=-1",
                                      "fail=x",
                                      "fail=1x",
                                      "fail=:1",
                                      "fail=copy",
                                      "fail=copy:",
                                      "fail=copy:0",
                                      "fail=no_such:1",
                                      "copy-short=1",
                                      "order-looser",
                                      "fail=COPY:1"};

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        OK(leati_fault_arm_text(wrapper(), good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(leati_fault_arm_text(wrapper(), bad[i]), LEAT_ERROR_INVALID);
        assert_non_null(strstr(leat_last_error(), bad[i]));
        assert_non_null(strstr(leat_last_error(), "fail=ENTRY:N"));
    }
    OK(leati_fault_arm_text(wrapper(), "none"));
}

static void it_is_the_driver_that_it_wraps(void **state)
{
    struct leati_fault_visit visit;
    struct test_state *t = *state;
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    unsigned count = 0;
    bool loaded = false;

    OK(leat_device_get_info(t->device, &info));
    assert_string_equal(info.driver, "cpu");
    while (leati_fault_visited(wrapper(), count, &visit)) {
        count++;
        loaded = loaded || (!strcmp(visit.entry, "load") && visit.present && visit.calls == 1);
    }
    assert_int_equal(count, sizeof(struct leati_driver_ops) / sizeof(void (*)(void)));
    assert_true(loaded);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        STATE_TEST(only_the_nth_call_fails),         STATE_TEST(what_takes_away_does_so),
        STATE_TEST(the_nth_copy_has_one_wrong_byte), STATE_TEST(the_nth_fill_has_one_wrong_byte),
        STATE_TEST(a_delay_changes_nothing),         STATE_TEST(words_arm_it),
        STATE_TEST(it_is_the_driver_that_it_wraps),
    };

    setenv("LEAT_FAULT", "none", 1);
    setenv("LEAT_TEST_DEVICE", "cpu:0", 1);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
