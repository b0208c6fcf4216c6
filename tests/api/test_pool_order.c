/*
 * test_pool_order.c - pools: who may have freed memory, and when.
 *
 * Most tests are scenes. Old work on a block stands behind a gate, or is slow: it reads the block, then writes
 * over it. The block goes back, and the pool is asked again. Whoever gets memory then fills it, and the gate
 * opens: the old reader must find the old bytes, and the new owner must keep the new ones. A pool that hands
 * memory out too early fails at one of the two, whatever its policy is. Each scene is played in pools of every
 * policy and kind.
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

/* A plan by which all blocks of BYTES, of each of eight streams, have one and the same place. */
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

/* Plays a scene with every policy, with and without a limit, for every kind. */
static void play(void **state, void (*scene)(struct scene *x))
{
    struct test_state *t = *state;
    leat_module *module;

    /* Fills load kernels the first time, which may wait for the device. */
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
                options.packing = LEAT_POOL_TIGHT;
                options.limit_bytes *= 2;
            }
            if (kind == PLANNED) {
                /* What is full has to take the memory away from the plan, for which the host must wait. */
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

/* ---- freed here, wanted there ------------------------------------------------------------------------------- */

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

/* Three streams: the memory goes from one to the next, and each is held up by the one before. */
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

/* The wait was for a place before the free. */
static void an_older_wait_is_not_enough_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);

    order(x, x->s, x->u);
    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
}
SCENE_TEST(an_older_wait_is_not_enough)

/* The wait was for the record before; the record after the free was waited for by nobody. */
static void a_record_that_nobody_waits_for_is_not_enough_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);
    leat_event *event;

    OK(leat_event_create(x->t->device, &event));
    OK(leat_event_record(event, x->s));
    OK(leat_stream_wait(x->u, event));
    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    OK(leat_event_record(event, x->s));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
    OK(leat_event_destroy(event));
}
SCENE_TEST(a_record_that_nobody_waits_for_is_not_enough)

/* The mark that was waited for is on another stream by then. */
static void a_mark_that_was_moved_is_not_enough_scene(struct scene *x)
{
    leat_stream *idle = new_stream(x);
    void *block = test_block(x->pool, x->s, BYTES);
    leat_event *event;

    OK(leat_event_create(x->t->device, &event));
    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    OK(leat_event_record(event, x->s));
    OK(leat_event_record(event, idle));
    OK(leat_stream_wait(x->u, event));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
    OK(leat_event_destroy(event));
    OK(leat_stream_destroy(idle));
}
SCENE_TEST(a_mark_that_was_moved_is_not_enough)

/* The mark was on a stream that comes after the work, and moved to one that does not. */
static void a_mark_that_moved_takes_nothing_along_scene(struct scene *x)
{
    leat_stream *after = new_stream(x), *idle = new_stream(x);
    void *block = test_block(x->pool, x->s, BYTES);
    leat_event *event;

    OK(leat_event_create(x->t->device, &event));
    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    order(x, x->s, after);
    OK(leat_event_record(event, after));
    OK(leat_event_record(event, idle));
    OK(leat_stream_wait(x->u, event));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
    OK(leat_event_destroy(event));
    OK(leat_stream_destroy(after));
    OK(leat_stream_destroy(idle));
}
SCENE_TEST(a_mark_that_moved_takes_nothing_along)

/* The same by the user's own code, which moves the mark by the vendor's handle: leat does not see that. */
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
    OK(leat_event_record(event, x->s));
    OK(leat_event_record(same, idle));
    OK(leat_stream_wait(x->u, event));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
    OK(leat_event_destroy(same));
    OK(leat_event_destroy(event));
    OK(leat_stream_destroy(idle));
}
SCENE_TEST(a_mark_that_the_user_moved_is_not_enough)

/* And when the handle was given out only after leat's own record. */
static void a_mark_that_the_user_moved_later_is_not_enough_scene(struct scene *x)
{
    leat_stream *idle = new_stream(x);
    void *block = test_block(x->pool, x->s, BYTES), *native;
    leat_event *event, *same;

    OK(leat_event_create(x->t->device, &event));
    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    OK(leat_event_record(event, x->s));
    OK(leat_event_native(event, &native));
    OK(leat_event_wrap(x->t->device, native, &same));
    OK(leat_event_record(same, idle));
    OK(leat_stream_wait(x->u, event));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
    OK(leat_event_destroy(same));
    OK(leat_event_destroy(event));
    OK(leat_stream_destroy(idle));
}
SCENE_TEST(a_mark_that_the_user_moved_later_is_not_enough)

/* The host saw an older mark of the stream: what came after it is still on its way. */
static void an_older_mark_that_was_reached_is_not_enough_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);
    leat_event *event;

    OK(leat_event_create(x->t->device, &event));
    OK(leat_fill(x->s, block, 1, BYTES));
    OK(leat_event_record(event, x->s));
    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    OK(leat_event_synchronize(event));
    OK(leat_event_query(event));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
    OK(leat_event_destroy(event));
}
SCENE_TEST(an_older_mark_that_was_reached_is_not_enough)

/* The other stream is idle and the host knows it: that says nothing of this one. */
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

/* A wait for an old place of a stream brings nothing of what that stream waited for since then. The pool marks
 * that place before: a second pool asks for it. */
static void a_wait_for_an_old_place_is_for_no_more(void **state)
{
    struct test_state *t = *state;
    struct scene x = {.t = t, .s = t->stream, .u = t->second};
    leat_pool *asking = POOL(t->device, .reuse = LEAT_POOL_WAIT_NEVER);
    leat_stream *third = new_stream(&x);
    struct test_gate *first_gate;
    void *old, *large, *block, *small;

    x.pool = POOL(t->device, .reuse = LEAT_POOL_WAIT);
    x.kept = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
    old = test_block(asking, x.s, BYTES);
    large = test_block(x.pool, x.s, 2 * BYTES);
    block = test_block(x.pool, x.u, BYTES);
    first_gate = test_gate_close(x.s);
    OK(leat_free(x.s, old));
    OK(leat_free(x.s, large));
    small = test_block(asking, third, BYTES);
    /* The mark is there. From here on the first stream comes after the second, which is held up. */
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

/* ---- blocks that were never used ------------------------------------------------------------------------------
 */

/* The stream's older work is still in the memory of its new block. Nobody uses that, so any stream may free it,
 * and must not get it before the older work is done. */
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

/* The host frees it: no work of the program uses the new block, but work of before uses its memory. */
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

/* The second stream was made to wait for the first one's work; a third one frees and gets the memory. */
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

/* ---- use ------------------------------------------------------------------------------------------------------
 */

static void a_user_is_waited_for_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);

    order(x, x->s, x->u);
    work_late(x, x->u, block);
    OK(leat_pool_use(block, x->u));
    OK(leat_free(x->s, block));
    both_are_right(x, x->s, test_block(x->pool, x->s, BYTES));
}
SCENE_TEST(a_user_is_waited_for)

/* What counts is where the user is when the block is freed. */
static void work_after_use_counts_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);

    order(x, x->s, x->u);
    OK(leat_pool_use(block, x->u));
    work_late(x, x->u, block);
    OK(leat_free(x->s, block));
    both_are_right(x, x->s, test_block(x->pool, x->s, BYTES));
}
SCENE_TEST(work_after_use_counts)

/* The freeing stream, the user, and a third one that gets the memory; the user is not the last that was named. */
static void all_users_are_waited_for_scene(struct scene *x)
{
    leat_stream *users[5];
    void *block = test_block(x->pool, x->s, BYTES);

    for (int i = 0; i < 5; i++) {
        users[i] = new_stream(x);
        order(x, x->s, users[i]);
        OK(leat_pool_use(block, users[i]));
        OK(leat_pool_use(block, x->s));
        OK(leat_pool_use(block, users[0]));
    }
    work_late(x, users[2], block);
    OK(leat_free(x->s, block));
    both_are_right(x, users[4], test_block(x->pool, users[4], BYTES));
    for (int i = 0; i < 5; i++)
        OK(leat_stream_destroy(users[i]));
}
SCENE_TEST(all_users_are_waited_for)

/* The stream that used the block gets its memory: it needs to wait for nobody, but for the stream that freed. */
static void the_user_gets_the_memory_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);

    order(x, x->s, x->u);
    OK(leat_pool_use(block, x->u));
    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    both_are_right(x, x->u, test_block(x->pool, x->u, BYTES));
}
SCENE_TEST(the_user_gets_the_memory)

/* A block that no stream used, freed by the host, and one user behind a gate. */
static void a_user_of_a_block_without_a_stream_scene(struct scene *x)
{
    void *block = test_block(x->pool, NULL, BYTES);

    work_late(x, x->u, block);
    OK(leat_pool_use(block, x->u));
    OK(leat_free(x->s, block));
    both_are_right(x, x->s, test_block(x->pool, x->s, BYTES));
}
SCENE_TEST(a_user_of_a_block_without_a_stream)

/* The freeing stream came after the user in the end, but later than a third one came after the free. */
static void what_a_stream_waited_for_later_does_not_count_for_others_scene(struct scene *x)
{
    leat_stream *third = new_stream(x);
    void *block = test_block(x->pool, x->s, BYTES), *small;

    order(x, x->s, x->u);
    OK(leat_pool_use(block, x->u));
    work_late(x, x->u, block);
    OK(leat_free(x->s, block));
    order(x, x->s, third);
    order(x, x->u, x->s);
    /* Has the pool look at what waits for the first stream's sake. */
    if (!x->limited) {
        small = test_block(x->pool, x->s, 100);
        OK(leat_free(x->s, small));
    }
    both_are_right(x, third, test_block(x->pool, third, BYTES));
    OK(leat_stream_destroy(third));
}
SCENE_TEST(what_a_stream_waited_for_later_does_not_count_for_others)

/* The mark is what counts, not the event: that is moved and destroyed before the block is freed. */
static void use_until_keeps_the_mark_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);
    leat_stream *idle = new_stream(x);
    leat_event *event;

    OK(leat_event_create(x->t->device, &event));
    order(x, x->s, x->u);
    work_late(x, x->u, block);
    OK(leat_event_record(event, x->u));
    OK(leat_pool_use_until(block, event));
    OK(leat_event_record(event, idle));
    OK(leat_event_destroy(event));
    OK(leat_free(x->s, block));
    both_are_right(x, x->s, test_block(x->pool, x->s, BYTES));
    OK(leat_stream_destroy(idle));
}
SCENE_TEST(use_until_keeps_the_mark)

/* The stream of the mark is named as well: work that it was given after the mark counts too. */
static void use_counts_beside_use_until_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);
    leat_event *event;

    OK(leat_event_create(x->t->device, &event));
    order(x, x->s, x->u);
    OK(leat_event_record(event, x->u));
    OK(leat_pool_use_until(block, event));
    OK(leat_event_destroy(event));
    OK(leat_pool_use(block, x->u));
    work_late(x, x->u, block);
    OK(leat_free(x->s, block));
    both_are_right(x, x->s, test_block(x->pool, x->s, BYTES));
}
SCENE_TEST(use_counts_beside_use_until)

/* An event of the user's own, recorded where leat did not see it. */
static void use_until_takes_wrapped_events_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES), *native;
    leat_event *event, *own;

    OK(leat_event_create(x->t->device, &own));
    OK(leat_event_native(own, &native));
    OK(leat_event_wrap(x->t->device, native, &event));
    order(x, x->s, x->u);
    work_late(x, x->u, block);
    OK(leat_event_record(own, x->u));
    OK(leat_pool_use_until(block, event));
    OK(leat_free(x->s, block));
    both_are_right(x, x->s, test_block(x->pool, x->s, BYTES));
    OK(leat_event_destroy(event));
    OK(leat_event_destroy(own));
}
SCENE_TEST(use_until_takes_wrapped_events)

/* Several marks, the late one in the middle. */
static void use_until_takes_several_events_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);
    leat_stream *idle = new_stream(x);
    leat_event *events[4];

    order(x, x->s, x->u);
    work_late(x, x->u, block);
    for (int i = 0; i < 4; i++) {
        OK(leat_event_create(x->t->device, &events[i]));
        OK(leat_event_record(events[i], i == 1 ? x->u : idle));
        OK(leat_pool_use_until(block, events[i]));
    }
    OK(leat_free(x->s, block));
    both_are_right(x, x->s, test_block(x->pool, x->s, BYTES));
    for (int i = 0; i < 4; i++)
        OK(leat_event_destroy(events[i]));
    OK(leat_stream_destroy(idle));
}
SCENE_TEST(use_until_takes_several_events)

/* ---- streams that come, go and have two names -----------------------------------------------------------------
 */

/* compute-sanitizer makes CUDA wait for a stream before it destroys it, and the gate would not open meanwhile. */
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
    /* The next stream may have the same place in leat's tables, and in the vendor's. */
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
    OK(leat_pool_use(block, gone));
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

/* Streams come and go by the thousand: the pool forgets them, and has their memory. */
static void streams_that_are_gone_leave_nothing_behind(void **state)
{
    enum { STREAMS = 3000 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .reuse = LEAT_POOL_WAIT);
    leat_pool_share share;
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
    while (leat_pool_stream_share(pool, count, &share) == LEAT_OK)
        count++;
    assert_true(count < STREAMS / 4);
    assert_true(test_statistics(pool).reserved_bytes <= 64 * MIB);
    OK(leat_device_synchronize(t->device));
    OK(leat_pool_trim(pool, 0, NULL, NULL));
    assert_int_equal(test_statistics(pool).reserved_bytes, 0);
    OK(leat_pool_destroy(pool));
}

/* A stream and its wrapping are one stream to the device. */
static void a_wrapped_stream_is_a_user_scene(struct scene *x)
{
    leat_stream *alias = wrapped(x, x->u);
    void *block = test_block(x->pool, x->s, BYTES);

    order(x, x->s, x->u);
    OK(leat_pool_use(block, alias));
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

/* The wrapping ends, the stream and its work do not. */
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

/* ---- the host -------------------------------------------------------------------------------------------------
 */

/* A block for the host is free of all work, whoever had its memory before. */
static void a_block_without_a_stream_is_idle_scene(struct scene *x)
{
    void *block = test_block(x->pool, x->s, BYTES);

    if (x->limited) {
        /* There is no other memory: the host would have to wait, which is its last step before an error. */
        OK(leat_free(x->s, block));
        return;
    }
    work_late(x, x->s, block);
    OK(leat_free(x->s, block));
    both_are_right(x, x->u, test_block(x->pool, NULL, BYTES));
}
SCENE_TEST(a_block_without_a_stream_is_idle)

/* Trimming leaves memory alone that is in use, and says how much. */
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
    /* And once the device is idle, all goes back. */
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
