/*
 * test_pool_order.c - tests which stream may reuse freed memory, and when.
 *
 * Most tests are scenes. Old work on a block waits behind a gate: it reads the block, then overwrites it. The
 * program frees the block and makes another request to the pool. The new owner fills its block, then the gate
 * opens. The old reader must find the old bytes, and the new owner must keep its new bytes. A pool that reuses
 * memory too early fails one of these two checks, whatever its policy is. Each scene runs in pools of every policy
 * and kind.
 */
#include "pool_scene.h"
#include "temporary.h"

#include <stdio.h>
#include <unistd.h>

static leat_stream *wrapped(struct scene *x, leat_stream *stream)
{
    leat_stream *alias;
    void *native;

    OK(leat_stream_native(stream, &native));
    OK(leat_stream_wrap(x->t->device, native, &alias));
    return alias;
}

/* Writes a plan for eight streams. The list of each has one block of BYTES at offset 0. */
static void write_plan(char path[TEMPORARY_PATH])
{
    int descriptor = temporary_file(path);
    FILE *file;

    assert_true(descriptor >= 0);
    file = fdopen(descriptor, "w");
    assert_non_null(file);
    fprintf(file, "leat-plan 1\nbytes %zu\n", (size_t)BYTES);
    for (int stream = 0; stream < 8; stream++)
        fprintf(file, "stream 1\n%zu 0\n", (size_t)BYTES);
    assert_int_equal(fclose(file), 0);
}

/* Runs a scene for every kind of pool, with every policy, with and without a limit. */
static void play(void **state, void (*scene)(struct scene *x))
{
    struct test_state *t = *state;
    leat_module *module;

    /* Load the kernels of fills now: loading them could wait for the closed gate. */
    OK(leat_module_builtin(t->device, &module));
    for (int kind = 0; kind < SCENE_KINDS; kind++) {
        for (int way = 0; way < 5; way++) {
            void *between[2] = {NULL, NULL};
            char plan[TEMPORARY_PATH] = "";
            struct scene x = {.t = t, .s = t->stream, .u = t->second, .limited = way % 2};
            leat_pool_options options = {.size = sizeof options,
                                         .reuse = (leat_pool_reuse)(way / 2),
                                         .no_virtual_memory = kind == PLAIN,
                                         .dedicated = kind == DEDICATED,
                                         .kind = kind == PINNED ? LEAT_KIND_PINNED : LEAT_KIND_DEVICE,
                                         .limit_bytes = way % 2 ? BYTES : 0};

            if (kind >= STITCHED && !test_has_virtual_memory(t->device))
                continue;
            if (kind == STITCHED) {
                options.packing = LEAT_POOL_PACKING_TIGHT;
                options.limit_bytes *= 2;
            }
            if (kind == PLANNED) {
                /* The limited pool has no memory besides the plan's. It would have to take that back, for which
                 * the host must wait. */
                if (x.limited)
                    continue;
                write_plan(plan);
                options.plan = plan;
            }
            x.pool = test_pool_try(t->device, &options);
            if (options.plan)
                assert_int_equal(unlink(plan), 0);
            if (!x.pool)
                continue;
            if (kind == STITCHED) {
                take_every_second_page(&x, between);
                x.between_bytes = BYTES;
            }
            x.kept = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
            memset(x.kept, 0, BYTES);
            scene(&x);
            OK(leat_device_synchronize(t->device));
            assert_true(kind != STITCHED || test_statistics(x.pool).stitches);
            assert_true(kind != PLANNED || test_statistics(x.pool).planned);
            for (int i = 0; i < 2; i++)
                OK(leat_free(x.s, between[i]));
            assert_int_equal(test_statistics(x.pool).live_blocks, 0);
            assert_int_equal(test_statistics(x.pool).host_waits, 0);
            OK(leat_pool_destroy(x.pool));
            OK(leat_memory_free(x.kept));
        }
    }
}

#define SCENE_TEST(name)                                                                                          \
    static void name(void **state)                                                                                \
    {                                                                                                             \
        play(state, name##_scene);                                                                                \
    }

/* ---- freed on one stream, requested on another -------------------------------------------------------------- */

static void another_stream_takes_what_was_freed_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);

    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
}
SCENE_TEST(another_stream_takes_what_was_freed)

static void the_first_stream_takes_what_another_freed_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);

    order(x, x->s, x->u);
    work_late(x, x->u, block);
    OK(leat_free(x->u, block));
    both_are_right(x, x->s, test_block(x->pool, x->s, BYTES));
}
SCENE_TEST(the_first_stream_takes_what_another_freed)

/* The memory goes from one stream to the next. The pool must make each stream wait for the previous one. */
static void memory_goes_from_stream_to_stream_scene(struct scene *x)
{
    leat_stream *third = new_stream(x);
    void *block = test_block(x->pool, x->s, BYTES);

    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    for (int i = 0; i < 6; i++) {
        leat_stream *stream = i % 2 ? x->u : third;

        block = test_block(x->pool, stream, BYTES);
        OK(leat_fill(stream, block, (uint8_t)(100 + i), BYTES));
        OK(leat_free(stream, block));
    }
    both_are_right(x, third, test_block(x->pool, third, BYTES));
    OK(leat_stream_destroy(third));
}
SCENE_TEST(memory_goes_from_stream_to_stream)

/* The second stream's wait for the first was submitted before the first stream's work on the block, so it does not
 * cover this work. */
static void an_older_wait_is_not_enough_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);

    order(x, x->s, x->u);
    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
}
SCENE_TEST(an_older_wait_is_not_enough)

/* The second stream waits for an earlier record of the event. The event is recorded again after the free, but no
 * stream waits for this record. */
static void a_record_that_nobody_waits_for_is_not_enough_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);
    leat_event *event;

    OK(leat_event_create(x->t->device, &event));
    OK(leat_event_record(x->s, event));
    OK(leat_stream_wait(x->u, event));
    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    OK(leat_event_record(x->s, event));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
    OK(leat_event_destroy(event));
}
SCENE_TEST(a_record_that_nobody_waits_for_is_not_enough)

/* The event is recorded on the freeing stream, and then on an idle stream before the second stream waits for
 * it. */
static void a_mark_that_was_moved_is_not_enough_scene(struct scene *x)
{
    leat_stream *idle = new_stream(x);
    void *block = test_block(x->pool, x->s, BYTES);
    leat_event *event;

    OK(leat_event_create(x->t->device, &event));
    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    OK(leat_event_record(x->s, event));
    OK(leat_event_record(idle, event));
    OK(leat_stream_wait(x->u, event));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
    OK(leat_event_destroy(event));
    OK(leat_stream_destroy(idle));
}
SCENE_TEST(a_mark_that_was_moved_is_not_enough)

/* The event is recorded on a stream that is ordered after the work, and then again on an idle stream. So waiting
 * for the event does not order a stream after the work. */
static void a_mark_that_moved_takes_nothing_along_scene(struct scene *x)
{
    leat_stream *after = new_stream(x), *idle = new_stream(x);
    void *block = test_block(x->pool, x->s, BYTES);
    leat_event *event;

    OK(leat_event_create(x->t->device, &event));
    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    order(x, x->s, after);
    OK(leat_event_record(after, event));
    OK(leat_event_record(idle, event));
    OK(leat_stream_wait(x->u, event));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
    OK(leat_event_destroy(event));
    OK(leat_stream_destroy(after));
    OK(leat_stream_destroy(idle));
}
SCENE_TEST(a_mark_that_moved_takes_nothing_along)

/* The event is recorded on the freeing stream, and then on an idle stream through the vendor's handle. leat does
 * not see the second record. */
static void a_mark_that_the_user_moved_is_not_enough_scene(struct scene *x)
{
    leat_stream *idle = new_stream(x);
    void *block = test_block(x->pool, x->s, BYTES), *native;
    leat_event *event, *same;

    OK(leat_event_create(x->t->device, &event));
    OK(leat_event_native(event, &native));
    OK(leat_event_wrap(x->t->device, native, &same));
    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    OK(leat_event_record(x->s, event));
    OK(leat_event_record(idle, same));
    OK(leat_stream_wait(x->u, event));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
    OK(leat_event_destroy(same));
    OK(leat_event_destroy(event));
    OK(leat_stream_destroy(idle));
}
SCENE_TEST(a_mark_that_the_user_moved_is_not_enough)

/* As in the previous scene, but the program asks for the vendor's handle only after the first record. */
static void a_mark_that_the_user_moved_later_is_not_enough_scene(struct scene *x)
{
    leat_stream *idle = new_stream(x);
    void *block = test_block(x->pool, x->s, BYTES), *native;
    leat_event *event, *same;

    OK(leat_event_create(x->t->device, &event));
    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    OK(leat_event_record(x->s, event));
    OK(leat_event_native(event, &native));
    OK(leat_event_wrap(x->t->device, native, &same));
    OK(leat_event_record(idle, same));
    OK(leat_stream_wait(x->u, event));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
    OK(leat_event_destroy(same));
    OK(leat_event_destroy(event));
    OK(leat_stream_destroy(idle));
}
SCENE_TEST(a_mark_that_the_user_moved_later_is_not_enough)

/* The host waits for an earlier record of the first stream. Work submitted after this record is still pending. */
static void an_older_mark_that_was_reached_is_not_enough_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);
    leat_event *event;

    OK(leat_event_create(x->t->device, &event));
    OK(leat_fill(x->s, block, 1, BYTES));
    OK(leat_event_record(x->s, event));
    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    OK(leat_event_synchronize(event));
    OK(leat_event_query(event));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
    OK(leat_event_destroy(event));
}
SCENE_TEST(an_older_mark_that_was_reached_is_not_enough)

/* The host knows that the second stream is idle. That says nothing about the first stream's work. */
static void an_idle_stream_says_nothing_of_others_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);

    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    OK(leat_stream_synchronize(x->u));
    OK(leat_stream_query(x->u));
    assert_int_equal(leat_stream_query(x->s), LEAT_NOT_READY);
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
}
SCENE_TEST(an_idle_stream_says_nothing_of_others)

/* The third stream waits for an early point of the first stream. So it is not ordered after waits that the first
 * stream makes later. A second pool makes leat record the early point. */
static void a_wait_for_an_old_place_is_for_no_more(void **state)
{
    struct test_state *t = *state;
    struct scene x = {.t = t, .s = t->stream, .u = t->second};
    leat_pool *asking = POOL(t->device, .reuse = LEAT_POOL_REUSE_WAIT_NEVER);
    leat_stream *third = new_stream(&x);
    struct test_gate *first_gate;
    void *old, *large, *block, *small;

    x.pool = POOL(t->device, .reuse = LEAT_POOL_REUSE_WAIT);
    x.kept = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
    old = test_block(asking, x.s, BYTES);
    large = test_block(x.pool, x.s, 2 * BYTES);
    block = test_block(x.pool, x.u, BYTES);
    first_gate = test_gate_close(x.s);
    OK(leat_free(x.s, old));
    OK(leat_free(x.s, large));
    small = test_block(asking, third, BYTES);
    /* leat has now recorded the early point. From here on the first stream waits for the second, which a gate
     * holds up. */
    work_late(&x, x.u, block);
    OK(leat_free(x.u, block));
    order(&x, x.u, x.s);
    large = test_block(x.pool, third, 2 * BYTES);
    block = test_block(x.pool, third, BYTES);
    test_gate_open(first_gate);
    both_are_right(&x, third, block);
    OK(leat_free(third, large));
    OK(leat_free(third, small));
    OK(leat_pool_destroy(asking));
    OK(leat_pool_destroy(x.pool));
    OK(leat_memory_free(x.kept));
    OK(leat_stream_destroy(third));
}

/* ---- blocks that were never used ---------------------------------------------------------------------------- */

/* The first stream's older work still uses the memory of its new block. No work uses the new block, so the second
 * stream may free it. But it may reuse the memory only after the older work. */
static void an_unused_block_is_freed_elsewhere_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);

    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    block = test_block(x->pool, x->s, BYTES);
    OK(leat_free(x->u, block));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
}
SCENE_TEST(an_unused_block_is_freed_elsewhere)

/* The host frees the new block, which no work of the program uses. But older work of the first stream still uses
 * its memory. */
static void an_unused_block_is_freed_by_the_host_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);

    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    block = test_block(x->pool, x->s, BYTES);
    OK(leat_memory_free(block));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
}
SCENE_TEST(an_unused_block_is_freed_by_the_host)

/* The second stream gets the block, because the pool makes it wait for the first stream's work. A third stream
 * frees the unused block and allocates the same memory. */
static void an_unused_block_of_a_held_stream_scene(struct scene *x)
{
    leat_stream *third = new_stream(x);
    void *block = test_block(x->pool, x->s, BYTES);

    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    block = test_block(x->pool, x->u, BYTES);
    OK(leat_free(third, block));
    both_are_right(x, third, test_block(x->pool, third, BYTES));
    OK(leat_stream_destroy(third));
}
SCENE_TEST(an_unused_block_of_a_held_stream)

/* ---- leat_block_use ----------------------------------------------------------------------------------------- */

static void a_user_is_waited_for_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);

    order(x, x->s, x->u);
    work_late(x, x->u, block);
    OK(leat_block_use(x->u, block));
    OK(leat_free(x->s, block));
    both_are_right(x, x->s, test_block(x->pool, x->s, BYTES));
}
SCENE_TEST(a_user_is_waited_for)

/* The free must consider all work that the using stream has at that time, not only the work before
 * leat_block_use(). */
static void work_after_use_counts_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);

    order(x, x->s, x->u);
    OK(leat_block_use(x->u, block));
    work_late(x, x->u, block);
    OK(leat_free(x->s, block));
    both_are_right(x, x->s, test_block(x->pool, x->s, BYTES));
}
SCENE_TEST(work_after_use_counts)

/* Five streams use the block. The one with pending work is not the last one passed to leat_block_use(), and
 * another one gets the memory. */
static void all_users_are_waited_for_scene(struct scene *x)
{
    leat_stream *users[5];
    void *block = test_block(x->pool, x->s, BYTES);

    for (int i = 0; i < 5; i++) {
        users[i] = new_stream(x);
        order(x, x->s, users[i]);
        OK(leat_block_use(users[i], block));
        OK(leat_block_use(x->s, block));
        OK(leat_block_use(users[0], block));
    }
    work_late(x, users[2], block);
    OK(leat_free(x->s, block));
    both_are_right(x, users[4], test_block(x->pool, users[4], BYTES));
    for (int i = 0; i < 5; i++)
        OK(leat_stream_destroy(users[i]));
}
SCENE_TEST(all_users_are_waited_for)

/* A stream that used the block gets its memory. It must wait for the freeing stream only. */
static void the_user_gets_the_memory_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);

    order(x, x->s, x->u);
    OK(leat_block_use(x->u, block));
    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
}
SCENE_TEST(the_user_gets_the_memory)

/* One stream uses, behind a gate, a block that was allocated without a stream. */
static void a_user_of_a_block_without_a_stream_scene(struct scene *x)
{
    void *block = test_block(x->pool, NULL, BYTES);

    work_late(x, x->u, block);
    OK(leat_block_use(x->u, block));
    OK(leat_free(x->s, block));
    both_are_right(x, x->s, test_block(x->pool, x->s, BYTES));
}
SCENE_TEST(a_user_of_a_block_without_a_stream)

/* The third stream waits for the freeing stream, which waits for the using stream only after that. So the third
 * stream is not ordered after the using stream. */
static void what_a_stream_waited_for_later_does_not_count_for_others_scene(struct scene *x)
{
    leat_stream *third = new_stream(x);
    void *block = test_block(x->pool, x->s, BYTES), *small;

    order(x, x->s, x->u);
    OK(leat_block_use(x->u, block));
    work_late(x, x->u, block);
    OK(leat_free(x->s, block));
    order(x, x->s, third);
    order(x, x->u, x->s);
    /* A request on the freeing stream makes the pool check this stream's pending memory. */
    if (!x->limited) {
        small = test_block(x->pool, x->s, 100);
        OK(leat_free(x->s, small));
    }
    both_are_right(x, third, test_block(x->pool, third, BYTES));
    OK(leat_stream_destroy(third));
}
SCENE_TEST(what_a_stream_waited_for_later_does_not_count_for_others)

/* leat_block_use_until() must keep the event's record at the time of the call. The program then records the event
 * again and destroys it before the free. */
static void use_until_keeps_the_mark_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);
    leat_stream *idle = new_stream(x);
    leat_event *event;

    OK(leat_event_create(x->t->device, &event));
    order(x, x->s, x->u);
    work_late(x, x->u, block);
    OK(leat_event_record(x->u, event));
    OK(leat_block_use_until(event, block));
    OK(leat_event_record(idle, event));
    OK(leat_event_destroy(event));
    OK(leat_free(x->s, block));
    both_are_right(x, x->s, test_block(x->pool, x->s, BYTES));
    OK(leat_stream_destroy(idle));
}
SCENE_TEST(use_until_keeps_the_mark)

/* leat_block_use() names the stream of the event too, so the stream's work after the event's record also
 * counts. */
static void use_counts_beside_use_until_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);
    leat_event *event;

    OK(leat_event_create(x->t->device, &event));
    order(x, x->s, x->u);
    OK(leat_event_record(x->u, event));
    OK(leat_block_use_until(event, block));
    OK(leat_event_destroy(event));
    OK(leat_block_use(x->u, block));
    work_late(x, x->u, block);
    OK(leat_free(x->s, block));
    both_are_right(x, x->s, test_block(x->pool, x->s, BYTES));
}
SCENE_TEST(use_counts_beside_use_until)

/* The program passes a wrapped event but records it through another handle, so leat does not see the record. */
static void use_until_takes_wrapped_events_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES), *native;
    leat_event *event, *own;

    OK(leat_event_create(x->t->device, &own));
    OK(leat_event_native(own, &native));
    OK(leat_event_wrap(x->t->device, native, &event));
    order(x, x->s, x->u);
    work_late(x, x->u, block);
    OK(leat_event_record(x->u, own));
    OK(leat_block_use_until(event, block));
    OK(leat_free(x->s, block));
    both_are_right(x, x->s, test_block(x->pool, x->s, BYTES));
    OK(leat_event_destroy(event));
    OK(leat_event_destroy(own));
}
SCENE_TEST(use_until_takes_wrapped_events)

/* The program passes several events. Only the second one is pending. */
static void use_until_takes_several_events_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);
    leat_stream *idle = new_stream(x);
    leat_event *events[4];

    order(x, x->s, x->u);
    work_late(x, x->u, block);
    for (int i = 0; i < 4; i++) {
        OK(leat_event_create(x->t->device, &events[i]));
        OK(leat_event_record(i == 1 ? x->u : idle, events[i]));
        OK(leat_block_use_until(events[i], block));
    }
    OK(leat_free(x->s, block));
    both_are_right(x, x->s, test_block(x->pool, x->s, BYTES));
    for (int i = 0; i < 4; i++)
        OK(leat_event_destroy(events[i]));
    OK(leat_stream_destroy(idle));
}
SCENE_TEST(use_until_takes_several_events)

/* ---- streams that are destroyed, and streams with two handles ----------------------------------------------- */

/* Under compute-sanitizer, destroying a CUDA stream waits for its work. In these scenes a gate holds that work up
 * and would never open. */
#define NEEDS_STREAMS_THAT_END_AT_ONCE                                                                            \
    do {                                                                                                          \
        if (getenv("LEAT_TEST_MEMCHECK"))                                                                         \
            SKIP_OTHER("here a stream's end waits for its work");                                                 \
    } while (0)

static void a_stream_ends_behind_its_free_scene(struct scene *x)
{
    leat_stream *gone = new_stream(x), *fresh;
    void *block = test_block(x->pool, gone, BYTES);

    work_late(x, gone, block);
    OK(leat_free(gone, block));
    OK(leat_stream_destroy(gone));
    /* The next stream may get the same slot in leat's table, and the same vendor handle. */
    fresh = new_stream(x);
    both_are_right(x, fresh, test_block(x->pool, fresh, BYTES));
    OK(leat_stream_destroy(fresh));
}

static void a_stream_ends_behind_its_free(void **state)
{
    NEEDS_STREAMS_THAT_END_AT_ONCE;
    play(state, a_stream_ends_behind_its_free_scene);
}

static void a_stream_ends_before_its_block_is_freed_scene(struct scene *x)
{
    leat_stream *gone = new_stream(x);
    void *block = test_block(x->pool, gone, BYTES);

    work_late(x, gone, block);
    order(x, gone, x->u);
    OK(leat_stream_destroy(gone));
    OK(leat_free(x->u, block));
    both_are_right(x, x->s, test_block(x->pool, x->s, BYTES));
}

static void a_stream_ends_before_its_block_is_freed(void **state)
{
    NEEDS_STREAMS_THAT_END_AT_ONCE;
    play(state, a_stream_ends_before_its_block_is_freed_scene);
}

static void a_user_ends_before_the_block_is_freed_scene(struct scene *x)
{
    leat_stream *gone = new_stream(x), *fresh;
    void *block = test_block(x->pool, x->s, BYTES);

    order(x, x->s, gone);
    OK(leat_block_use(gone, block));
    work_late(x, gone, block);
    OK(leat_stream_destroy(gone));
    fresh = new_stream(x);
    OK(leat_free(x->s, block));
    both_are_right(x, x->s, test_block(x->pool, x->s, BYTES));
    OK(leat_stream_destroy(fresh));
}

static void a_user_ends_before_the_block_is_freed(void **state)
{
    NEEDS_STREAMS_THAT_END_AT_ONCE;
    play(state, a_user_ends_before_the_block_is_freed_scene);
}

/* The program creates and destroys thousands of streams. The pool must forget them and reuse their memory. */
static void streams_that_are_gone_leave_nothing_behind(void **state)
{
    enum { STREAMS = 3000 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .reuse = LEAT_POOL_REUSE_WAIT);
    leat_pool_share share = LEAT_POOL_SHARE_INIT;
    unsigned count = 0;

    for (int i = 0; i < STREAMS; i++) {
        leat_stream *stream;
        void *block;

        OK(leat_stream_create(t->device, &stream));
        block = test_block(pool, stream, 5000);
        OK(leat_free(stream, block));
        OK(leat_stream_destroy(stream));
        if (i % 100 == 0)
            OK(leat_device_synchronize(t->device));
    }
    while (leat_pool_get_stream_share(pool, count, &share) == LEAT_OK)
        count++;
    assert_true(count < STREAMS / 4);
    assert_true(test_statistics(pool).reserved_bytes <= 64 * MIB);
    OK(leat_device_synchronize(t->device));
    OK(leat_pool_trim(pool, 0, NULL, NULL));
    assert_int_equal(test_statistics(pool).reserved_bytes, 0);
    OK(leat_pool_destroy(pool));
}

/* A wrapping of a stream is passed to leat_block_use(), and the work is on the stream itself. Both are one stream
 * on the device. */
static void a_wrapped_stream_is_a_user_scene(struct scene *x)
{
    leat_stream *alias = wrapped(x, x->u);
    void *block = test_block(x->pool, x->s, BYTES);

    order(x, x->s, x->u);
    OK(leat_block_use(alias, block));
    work_late(x, x->u, block);
    OK(leat_free(x->s, block));
    both_are_right(x, x->s, test_block(x->pool, x->s, BYTES));
    OK(leat_stream_destroy(alias));
}
SCENE_TEST(a_wrapped_stream_is_a_user)

static void a_wrapped_stream_has_blocks_scene(struct scene *x)
{
    leat_stream *alias = wrapped(x, x->s);
    void *block = test_block(x->pool, alias, BYTES);

    work_late(x, alias, block);
    OK(leat_free(alias, block));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
    OK(leat_stream_destroy(alias));
}
SCENE_TEST(a_wrapped_stream_has_blocks)

/* The wrapping is destroyed after the free, but the stream and its work continue. */
static void a_wrapping_ends_behind_its_free_scene(struct scene *x)
{
    leat_stream *alias = wrapped(x, x->s);
    void *block = test_block(x->pool, alias, BYTES);

    work_late(x, x->s, block);
    OK(leat_free(alias, block));
    OK(leat_stream_destroy(alias));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
}
SCENE_TEST(a_wrapping_ends_behind_its_free)

static void both_names_of_a_stream_take_turns_scene(struct scene *x)
{
    leat_stream *alias = wrapped(x, x->s);
    void *block = test_block(x->pool, x->s, BYTES);

    work_late(x, x->s, block);
    OK(leat_free(alias, block));
    block = test_block(x->pool, x->s, BYTES);
    OK(leat_free(x->s, block));
    both_are_right(x, alias, test_block(x->pool, alias, BYTES));
    OK(leat_stream_destroy(alias));
}
SCENE_TEST(both_names_of_a_stream_take_turns)

/* ---- the host ----------------------------------------------------------------------------------------------- */

/* When a block is allocated without a stream, no earlier work may still use its memory. */
static void a_block_without_a_stream_is_idle_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);

    if (x->limited) {
        /* The limited pool has no other memory. The host would have to wait, which the pool does only before it
         * returns an error. */
        OK(leat_free(x->s, block));
        return;
    }
    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    both_are_right(x, x->u, test_block(x->pool, NULL, BYTES));
}
SCENE_TEST(a_block_without_a_stream_is_idle)

/* Trimming must not release memory that pending work uses, and must return the size of this memory. */
static void trimming_keeps_what_is_in_use_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);
    uint64_t released = 77, pending = 77, all;

    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    OK(leat_pool_trim(x->pool, 0, &released, &pending));
    assert_true(pending >= BYTES);
    assert_true(test_statistics(x->pool).reserved_bytes >= BYTES);
    OK(leat_pool_trim_idle(x->pool, 0, NULL, NULL));
    assert_true(test_statistics(x->pool).reserved_bytes >= BYTES);
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
    /* Once the device is idle, trimming must release all memory. */
    OK(leat_device_synchronize(x->t->device));
    all = test_statistics(x->pool).reserved_bytes;
    OK(leat_pool_trim(x->pool, 0, &released, &pending));
    assert_int_equal(released, all - x->between_bytes);
    assert_int_equal(pending, 0);
    assert_int_equal(test_statistics(x->pool).reserved_bytes, x->between_bytes);
}
SCENE_TEST(trimming_keeps_what_is_in_use)

static const struct CMUnitTest tests[] = {
    STATE_TEST(another_stream_takes_what_was_freed),
    STATE_TEST(the_first_stream_takes_what_another_freed),
    STATE_TEST(memory_goes_from_stream_to_stream),
    STATE_TEST(an_older_wait_is_not_enough),
    STATE_TEST(a_record_that_nobody_waits_for_is_not_enough),
    STATE_TEST(a_mark_that_was_moved_is_not_enough),
    STATE_TEST(a_mark_that_moved_takes_nothing_along),
    STATE_TEST(a_mark_that_the_user_moved_is_not_enough),
    STATE_TEST(a_mark_that_the_user_moved_later_is_not_enough),
    STATE_TEST(an_older_mark_that_was_reached_is_not_enough),
    STATE_TEST(an_idle_stream_says_nothing_of_others),
    STATE_TEST(a_wait_for_an_old_place_is_for_no_more),
    STATE_TEST(an_unused_block_is_freed_elsewhere),
    STATE_TEST(an_unused_block_is_freed_by_the_host),
    STATE_TEST(an_unused_block_of_a_held_stream),
    STATE_TEST(a_user_is_waited_for),
    STATE_TEST(work_after_use_counts),
    STATE_TEST(all_users_are_waited_for),
    STATE_TEST(the_user_gets_the_memory),
    STATE_TEST(a_user_of_a_block_without_a_stream),
    STATE_TEST(what_a_stream_waited_for_later_does_not_count_for_others),
    STATE_TEST(use_until_keeps_the_mark),
    STATE_TEST(use_counts_beside_use_until),
    STATE_TEST(use_until_takes_wrapped_events),
    STATE_TEST(use_until_takes_several_events),
    STATE_TEST(a_stream_ends_behind_its_free),
    STATE_TEST(a_stream_ends_before_its_block_is_freed),
    STATE_TEST(a_user_ends_before_the_block_is_freed),
    STATE_TEST(streams_that_are_gone_leave_nothing_behind),
    STATE_TEST(a_wrapped_stream_is_a_user),
    STATE_TEST(a_wrapped_stream_has_blocks),
    STATE_TEST(a_wrapping_ends_behind_its_free),
    STATE_TEST(both_names_of_a_stream_take_turns),
    STATE_TEST(a_block_without_a_stream_is_idle),
    STATE_TEST(trimming_keeps_what_is_in_use),
};

TEST_MAIN(tests)
