/*
 * unit_rails_waits.c - tests the waits of copies over several host links (rails). Each test holds up one copy of a
 * chunk (held.h), so that a copy that does not wait for it moves wrong bytes every time, and not only when the
 * timing is unlucky.
 */
#include "copy_waits.h"

#include <stdlib.h>
#include <string.h>

/* ---- copies over several links ---- */

/* A rail copies this many chunks, which is more than it has slots. */
enum { RAIL_CHUNKS = 4 };
#define LINK_BYTES (7 * LEATI_RAIL_CHUNK_BYTES + 4099)

enum held { NOBODY, OWN, ARRIVING, LEAVING };

struct links {
    leat_device *other;
    unsigned char *pinned, *memory;
};

/* Selects the copy that the gate holds up. */
static struct {
    void *helper, *own; /* driver handles of the helper's device and of the copy's stream */
    enum held sort;
    unsigned left; /* number of copies of this sort that pass before the one that is held up */
    struct test_gate *gate;
    bool held;
} link_plan;

static void hold_one(void *stream, struct leati_location dst, struct leati_location src, size_t bytes)
{
    enum held sort = dst.device == link_plan.helper   ? ARRIVING
                     : src.device == link_plan.helper ? LEAVING
                     : stream == link_plan.own        ? OWN
                                                      : NOBODY;

    (void)bytes;
    if (link_plan.held || sort != link_plan.sort || link_plan.left--)
        return;
    link_plan.held = true;
    held_put(stream, link_plan.gate);
}

static struct test_gate *hold_copy(leat_stream *stream, enum held sort, unsigned number)
{
    link_plan.own = stream->native;
    link_plan.sort = sort;
    link_plan.left = number;
    link_plan.held = false;
    link_plan.gate = held_gate();
    held_before_copy = hold_one;
    return link_plan.gate;
}

static struct links set_rails(struct test_state *t)
{
    struct links links = {.other = test_open_other()};

    assert_non_null(links.other);
    OK(leat_copy_set_rails(t->device, &links.other, 1));
    link_plan.helper = links.other->native;
    links.pinned = test_alloc(t->device, LEAT_KIND_PINNED, LINK_BYTES);
    links.memory = test_alloc(t->device, LEAT_KIND_DEVICE, LINK_BYTES);
    return links;
}

static void end_links(struct links *links)
{
    held_before_copy = NULL;
    held_before_free = NULL;
    OK(leat_memory_free(links->memory));
    OK(leat_memory_free(links->pinned));
    OK(leat_device_close(links->other));
}

static void expect_links(leat_stream *stream, struct links *links, uint64_t seed)
{
    held_before_copy = NULL;
    OK(leat_stream_synchronize(stream));
    memset(links->pinned, 0, LINK_BYTES);
    OK(leat_copy(stream, links->pinned, links->memory, LINK_BYTES));
    OK(leat_stream_synchronize(stream));
    EXPECT_PATTERN(links->pinned, LINK_BYTES, seed);
}

/* Holds up one copy of a chunk: over the device's own link, to the helper, or from the helper. A slot must be
 * filled before it is read, and read before it is filled again, and the copy's stream must wait for all rails. */
static void slow_rails_lose_nothing(void **state)
{
    struct test_state *t = *state;
    struct links links = set_rails(t);

    for (enum held sort = OWN; sort <= LEAVING; sort++) {
        for (unsigned number = 0; number < RAIL_CHUNKS; number += RAIL_CHUNKS - 1) {
            struct test_gate *gate = hold_copy(t->stream, sort, number);
            uint64_t seed = 2 * sort + (number > 0);

            test_pattern(links.pinned, LINK_BYTES, seed);
            OK(leat_copy(t->stream, links.memory, links.pinned, LINK_BYTES));
            assert_true(link_plan.held);
            held_moment();
            EXPECT_HELD(t->stream, gate);
            test_gate_open(gate);
            expect_links(t->stream, &links, seed);
        }
    }
    end_links(&links);
}

static void stop_in_the_middle(void *stream, struct leati_location dst, struct leati_location src, size_t bytes)
{
    hold_one(stream, dst, src, bytes);
    let_the_other_go_first(stream, dst, src, bytes);
}

/* No other copy may use the rails of a copy that is running, or that another thread is submitting. */
static void rails_under_way_are_not_shared(void **state)
{
    struct test_state *t = *state;
    struct links links = set_rails(t), more = links;

    more.pinned = test_alloc(t->device, LEAT_KIND_PINNED, LINK_BYTES);
    more.memory = test_alloc(t->device, LEAT_KIND_DEVICE, LINK_BYTES);
    for (uint64_t round = 0; round < 3; round++) {
        struct test_gate *gate = hold_copy(t->stream, LEAVING, 0);

        test_pattern(links.pinned, LINK_BYTES, 10 + round);
        test_pattern(more.pinned, LINK_BYTES, 20 + round);
        if (round < 2) {
            OK(leat_copy(t->stream, links.memory, links.pinned, LINK_BYTES));
            OK(leat_copy(t->second, more.memory, more.pinned, LINK_BYTES));
        } else {
            held_before_copy = stop_in_the_middle;
            for (int i = 0; i < 2; i++)
                halves[i] = (struct half){.stream = i ? t->second : t->stream,
                                          .dst = i ? more.memory : links.memory,
                                          .src = i ? more.pinned : links.pinned,
                                          .bytes = LINK_BYTES,
                                          .stop = links.memory + 4 * LEATI_RAIL_CHUNK_BYTES};
            copy_halves();
        }
        assert_true(link_plan.held);
        held_before_copy = NULL;
        held_moment();
        /* The second copy must not wait for the rails of the first one. */
        OK(leat_stream_synchronize(t->second));
        assert_int_equal(atomic_load(&gate->passed), 0);
        test_gate_open(gate);
        expect_links(t->stream, &links, 10 + round);
        expect_links(t->second, &more, 20 + round);
    }
    OK(leat_memory_free(more.memory));
    OK(leat_memory_free(more.pinned));
    end_links(&links);
}

/* The driver refuses a call in the middle of a copy over several links. When leat reports the failure, all earlier
 * calls of this copy must be complete, on all streams. */
static void rails_that_fail_are_waited_for(void **state)
{
    static const struct {
        enum held sort;
        const char *entry;
        uint64_t n;
    } faults[] = {
        {OWN, "copy", 2},              /* the first chunk over the device's own link has been submitted */
        {ARRIVING, "event_record", 2}, /* the next chunk has been submitted to the helper, and nothing after it */
        {LEAVING, "copy", 4},          /* that chunk's copy from the helper has been submitted too */
    };
    struct test_state *t = *state;
    struct links links = set_rails(t);

    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct held_watch watch = {.until_fault = true};
        leat_status status;

        /* This copy creates the rails. */
        held_before_copy = NULL;
        OK(leat_copy(t->stream, links.memory, links.pinned, LINK_BYTES));
        OK(leat_stream_synchronize(t->stream));
        watch.gate = hold_copy(t->stream, faults[i].sort, 0);
        leati_fault_arm(held_driver, LEATI_FAULT_FAIL, faults[i].entry, faults[i].n);
        held_watch_start(&watch);
        status = leat_copy(t->stream, links.memory, links.pinned, LINK_BYTES);
        held_watch_end(&watch);
        leati_fault_arm(held_driver, LEATI_FAULT_NONE, NULL, 0);
        assert_true(link_plan.held);
        assert_int_equal(status, LEAT_ERROR_DRIVER);
    }
    test_pattern(links.pinned, LINK_BYTES, 31);
    held_before_copy = NULL;
    OK(leat_copy(t->stream, links.memory, links.pinned, LINK_BYTES));
    expect_links(t->stream, &links, 31);
    end_links(&links);
}

/* Called before memory is freed. If the gate is still closed, the free is too early: records that, and opens the
 * gate. */
static void watch_free(void *ptr)
{
    (void)ptr;
    if (atomic_load(&link_plan.gate->passed))
        return;
    freed_early = true;
    test_gate_open(link_plan.gate);
    OK(held_driver->ops->device_synchronize(held_driver, link_plan.helper));
}

/* Destroys the rails while a copy uses them. leat must free their memory only after the copy. */
static void rails_that_end_are_waited_for(void **state)
{
    struct test_state *t = *state;
    struct links links = set_rails(t);
    struct held_watch watch = {.gate = hold_copy(t->stream, LEAVING, 0)};

    test_pattern(links.pinned, LINK_BYTES, 32);
    OK(leat_copy(t->stream, links.memory, links.pinned, LINK_BYTES));
    assert_true(link_plan.held);
    freed_early = false;
    held_before_free = watch_free;
    held_watch_start(&watch);
    OK(leat_copy_set_rails(t->device, NULL, 0));
    held_before_free = NULL;
    held_watch_end(&watch);
    assert_false(freed_early);
    expect_links(t->stream, &links, 32);
    end_links(&links);
}

static const struct CMUnitTest tests[] = {
    HELD_TEST(slow_rails_lose_nothing),
    HELD_TEST(rails_under_way_are_not_shared),
    HELD_TEST(rails_that_fail_are_waited_for),
    HELD_TEST(rails_that_end_are_waited_for),
};

int main(void)
{
    if (!test_only_on_cpu())
        return 77;
    begin_with_staging();
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
