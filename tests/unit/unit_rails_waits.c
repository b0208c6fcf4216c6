/*
 * unit_rails_waits.c - tests the waits of copies over several host links (rails). Each test holds up one copy of a
 * chunk (held.h), so that a copy that does not wait for it moves wrong bytes every time, and not only when the
 * timing is unlucky.
 */
#include "copy_waits.h"

#include "copy/plan.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

/* ---- helpers that are removed during a copy ---- */

static struct {
    leat_device *device, *closes; /* closes: the device that a thread closes; NULL: the test removes the helpers */
    unsigned left;                /* number of copies that are submitted before */
    bool inside;                  /* remove_helpers() runs */
    pthread_t thread;
    atomic_int closed;
} removal;

static void *close_helper(void *unused)
{
    (void)unused;
    OK(leat_device_close(removal.closes));
    atomic_store(&removal.closed, 1);
    return NULL;
}

static void remove_helpers(void *stream, struct leati_location dst, struct leati_location src, size_t bytes)
{
    (void)stream;
    (void)dst;
    (void)src;
    (void)bytes;
    if (removal.left-- != 1)
        return;
    removal.inside = true;
    if (removal.closes) {
        assert_int_equal(pthread_create(&removal.thread, NULL, close_helper, NULL), 0);
        held_moment();
        assert_int_equal(atomic_load(&removal.closed), 0);
    } else {
        OK(leat_copy_set_rails(removal.device, NULL, 0));
    }
    removal.inside = false;
}

static void watch_removal(void *ptr)
{
    (void)ptr;
    freed_early |= removal.inside;
}

/* Another thread removes the helpers, or closes one, in the middle of the submission of a copy. The rails must
 * stay until the submission is over. */
static void rails_stay_until_the_call_is_over(void **state)
{
    struct test_state *t = *state;

    for (int closes = 0; closes < 2; closes++) {
        struct links links = set_rails(t);

        test_pattern(links.pinned, LINK_BYTES, 40 + (uint64_t)closes);
        removal.device = t->device;
        removal.closes = closes ? links.other : NULL;
        removal.left = 4;
        atomic_store(&removal.closed, 0);
        freed_early = false;
        held_before_copy = remove_helpers;
        held_before_free = watch_removal;
        OK(leat_copy(t->stream, links.memory, links.pinned, LINK_BYTES));
        if (closes)
            pthread_join(removal.thread, NULL);
        held_before_free = NULL;
        assert_false(freed_early);
        expect_links(t->stream, &links, 40 + (uint64_t)closes);
        OK(leat_memory_free(links.memory));
        OK(leat_memory_free(links.pinned));
        if (!closes)
            OK(leat_device_close(links.other));
    }
}

/* The helpers were replaced by another number of them between the plan and the submission. */
static void rails_for_other_helpers_are_not_taken(void **state)
{
    struct test_state *t = *state;
    struct links links = set_rails(t);
    struct leati_rails *rails;

    assert_null(leati_rails_take(t->device, 2));
    rails = leati_rails_take(t->device, 1);
    assert_non_null(rails);
    leati_rails_give_back(rails);
    end_links(&links);
}

/* ---- pageable memory ---- */

/* The call that waits for the copy must report a page that cannot be read, not a later call. */
static void a_call_that_waits_tells_a_bad_page(void **state)
{
    struct test_state *t = *state;
    struct links links = set_rails(t);
    size_t bytes = LINK_BYTES / 4096 * 4096;
    char *from = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(from != MAP_FAILED);
    assert_int_equal(mprotect(from + bytes / 8192 * 4096, 4096, PROT_NONE), 0);
    test_let_leat_catch_faults();
    leati_protocol_force(LEATI_PROTOCOL_RAILS);
    assert_int_equal(leat_copy_sync(t->stream, links.memory, from, bytes), LEAT_ERROR_POINTER);
    leati_protocol_force(LEATI_PROTOCOLS);
    OK(leat_stream_synchronize(t->stream));
    assert_int_equal(munmap(from, bytes), 0);
    end_links(&links);
}

static struct {
    void *own;         /* the copy's stream */
    unsigned at, hold; /* flag operations of other streams so far; the one to hold up, 0: none */
    struct test_gate *gate;
} flag_plan;

static void hold_flag(void *stream)
{
    if (stream != flag_plan.own && ++flag_plan.at == flag_plan.hold)
        held_put(stream, flag_plan.gate);
}

static void watch_flag_free(void *ptr)
{
    (void)ptr;
    if (atomic_load(&flag_plan.gate->passed))
        return;
    freed_early = true;
    test_gate_open(flag_plan.gate);
    (void)test_wait_for(&flag_plan.gate->passed, 1);
    held_moment();
}

/* The last flag of a share is written by the helper's stream that copies from the host, after the last chunk. The
 * memory of the flag must stay until then. */
static void rails_end_after_their_last_flag(void **state)
{
    struct test_state *t = *state;
    leat_device *device = test_open_other();
    struct held_watch watch = {.gate = held_gate()};
    unsigned char *from = test_buffer(LINK_BYTES);
    leat_stream *stream;
    void *memory;

    assert_non_null(device);
    OK(leat_copy_set_rails(device, &t->device, 1));
    OK(leat_stream_create(device, &stream));
    memory = test_alloc(device, LEAT_KIND_DEVICE, LINK_BYTES);
    flag_plan.own = stream->native;
    flag_plan.gate = watch.gate;
    flag_plan.hold = 0;
    leati_protocol_force(LEATI_PROTOCOL_RAILS);
    /* The first copy makes the stager, the next ones count. The last one is held up, as soon as two in a row had the
     * same number of operations: on a busy machine the shares of the links change. If it had fewer, it was not held. */
    for (unsigned before = 0, i = 0; !flag_plan.hold || flag_plan.at < flag_plan.hold; i++) {
        OK(leat_stream_synchronize(stream));
        assert_true(i < 50);
        flag_plan.hold = i > 2 && flag_plan.at == before ? before : 0;
        before = flag_plan.at;
        flag_plan.at = 0;
        held_before_flags = hold_flag;
        OK(leat_copy(stream, memory, from, LINK_BYTES));
        held_before_flags = NULL;
        assert_true(flag_plan.at);
    }
    leati_protocol_force(LEATI_PROTOCOLS);
    /* If it had more, another operation than the last is held up, and the stream waits for that. Then this run shows
     * nothing. */
    if (flag_plan.at > flag_plan.hold)
        test_gate_open(watch.gate);
    OK(leat_stream_synchronize(stream));
    freed_early = false;
    held_before_free = watch_flag_free;
    held_watch_start(&watch);
    OK(leat_device_close(device));
    held_before_free = NULL;
    held_watch_end(&watch);
    assert_false(freed_early);
    free(from);
}

static const struct CMUnitTest tests[] = {
    HELD_TEST(slow_rails_lose_nothing),
    HELD_TEST(rails_under_way_are_not_shared),
    HELD_TEST(rails_that_fail_are_waited_for),
    HELD_TEST(rails_that_end_are_waited_for),
    HELD_TEST(rails_stay_until_the_call_is_over),
    HELD_TEST(rails_for_other_helpers_are_not_taken),
    HELD_TEST(a_call_that_waits_tells_a_bad_page),
    HELD_TEST(rails_end_after_their_last_flag),
};

int main(void)
{
    if (!test_only_on_cpu())
        return 77;
    begin_with_staging();
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
