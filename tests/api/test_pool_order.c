/*
 * test_pool_order.c - pools: who may have freed memory, and when.
 *
 * Most tests are scenes. Old work on a block stands behind a gate, or is slow: it reads the block, then writes
 * over it. The block goes back, and the pool is asked again. Whoever gets memory then fills it, and the gate
 * opens: the old reader must find the old bytes, and the new owner must keep the new ones. A pool that hands
 * memory out too early fails at one of the two, whatever its policy is. Each scene is played in pools of every
 * policy and kind.
 */
#include "test_pool.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { OLD = 0x11, LATE = 0x22, NEW = 0x33 };
#define BYTES (4 * MIB)

struct scene {
    struct test_state *t;
    leat_stream *s, *u; /* the test's two streams */
    leat_pool *pool;
    bool limited;         /* the pool holds one block of BYTES and no more */
    size_t between_bytes; /* in pages between those of the block, which are in use all the time */
    unsigned char *kept;
    struct test_gate *gate;
};

/* The old work of a block: reads it, then writes over it, once the gate is open. */
static void work_late(struct scene *x, leat_stream *stream, void *block)
{
    OK(leat_fill(stream, block, OLD, BYTES));
    x->gate = test_gate_close(stream);
    OK(leat_copy(stream, x->kept, block, BYTES));
    OK(leat_fill(stream, block, LATE, BYTES));
}

/* Waits a moment for a stream to end its work; one that is held up does not. */
static void give_a_chance(leat_stream *stream)
{
    for (int i = 0; i < 30 && leat_stream_query(stream) == LEAT_NOT_READY; i++)
        test_sleep_us(1000);
}

/* Fills the new owner's block, before the gate opens if nothing holds its stream up, and looks at both ends. */
static void both_are_right(struct scene *x, leat_stream *stream, void *block)
{
    OK(leat_fill(stream, block, NEW, BYTES));
    give_a_chance(stream);
    test_gate_open(x->gate);
    OK(leat_device_synchronize(x->t->device));
    EXPECT_BYTES(x->kept, BYTES, OLD);
    test_block_holds(stream, block, BYTES, NEW);
    OK(leat_free(stream, block));
    OK(leat_stream_synchronize(stream));
}

/* Work given to later from now on comes after all that earlier was given. */
static void order(struct scene *x, leat_stream *earlier, leat_stream *later)
{
    leat_event *event;

    OK(leat_event_create(x->t->device, &event));
    OK(leat_event_record(event, earlier));
    OK(leat_stream_wait(later, event));
    OK(leat_event_destroy(event));
}

static leat_stream *new_stream(struct scene *x)
{
    leat_stream *stream;

    OK(leat_stream_create(x->t->device, &stream));
    return stream;
}

static leat_stream *wrapped(struct scene *x, leat_stream *stream)
{
    leat_stream *alias;
    void *native;

    OK(leat_stream_native(stream, &native));
    OK(leat_stream_wrap(x->t->device, native, &alias));
    return alias;
}

enum { DEFAULT_KIND, PLAIN, ONE_HANDLE, PINNED, KINDS, STITCHED = KINDS, PLANNED, SCENE_KINDS };

/* A plan by which all blocks of BYTES, of each of eight streams, have one and the same place. */
static void write_plan(char path[32])
{
    int descriptor;
    FILE *file;

    strcpy(path, "/tmp/test_pool_plan_XXXXXX");
    descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    file = fdopen(descriptor, "w");
    assert_non_null(file);
    fprintf(file, "leat-plan 1\nbytes %zu\n", (size_t)BYTES);
    for (int stream = 0; stream < 8; stream++)
        fprintf(file, "stream 1\n%zu 0\n", (size_t)BYTES);
    assert_int_equal(fclose(file), 0);
}

/* Leaves the pool idle pages that lie apart, so that the next block of BYTES must be stitched. */
static void take_every_second_page(struct scene *x, void *kept[2])
{
    void *freed[2];

    for (int i = 0; i < 2; i++) {
        freed[i] = test_block(x->pool, x->s, BYTES / 2);
        kept[i] = test_block(x->pool, x->s, BYTES / 2);
    }
    for (int i = 0; i < 2; i++)
        OK(leat_free(x->s, freed[i]));
    OK(leat_device_synchronize(x->t->device));
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
            char plan[32] = "";
            struct scene x = {.t = t, .s = t->stream, .u = t->second, .limited = way % 2};
            leat_pool_options options = {.size = sizeof options,
                                         .reuse = (leat_pool_reuse)(way / 2),
                                         .plain = kind == PLAIN,
                                         .one_handle = kind == ONE_HANDLE,
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

/* ---- memory comes back ----------------------------------------------------------------------------------------
 */

/* With one block's worth of memory, and streams that may never wait: each must find that the last owner is done.
 */
static void memory_comes_back(void **state)
{
    struct test_state *t = *state;
    struct scene x = {.t = t, .s = t->stream, .u = t->second};
    leat_event *event;

    OK(leat_event_create(t->device, &event));
    x.pool = POOL(t->device, .limit_bytes = BYTES, .reuse = LEAT_POOL_WAIT_NEVER);
    for (int i = 0; i < 12; i++) {
        leat_stream *stream = i % 2 ? x.s : x.u, *next = i % 2 ? x.u : x.s;
        void *block = test_block(x.pool, stream, BYTES);

        OK(leat_fill(stream, block, (uint8_t)i, BYTES));
        OK(leat_free(stream, block));
        switch (i % 4) {
        case 0: /* ordered by the program */
            order(&x, stream, next);
            break;
        case 1: /* the program knows that it is done */
            OK(leat_stream_synchronize(stream));
            break;
        case 2:
            OK(leat_event_record(event, stream));
            OK(leat_event_synchronize(event));
            break;
        case 3:
            OK(leat_device_synchronize(t->device));
            break;
        }
    }
    assert_int_equal(test_statistics(x.pool).host_waits, 0);
    assert_int_equal(test_statistics(x.pool).stream_waits, 0);
    assert_true(test_statistics(x.pool).reserved_peak_bytes <= BYTES);
    OK(leat_event_destroy(event));
    OK(leat_pool_destroy(x.pool));
}

/* By the waits that the program made, also over a third stream, while the first is still held up. */
static void ordered_memory_is_taken_while_its_work_is_pending(void **state)
{
    struct test_state *t = *state;
    struct scene x = {.t = t, .s = t->stream, .u = t->second};

    for (int hops = 1; hops <= 2; hops++) {
        leat_stream *third = new_stream(&x);
        void *block, *again;

        x.pool = POOL(t->device, .limit_bytes = BYTES, .reuse = LEAT_POOL_WAIT_NEVER);
        x.kept = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
        block = test_block(x.pool, x.s, BYTES);
        work_late(&x, x.s, block);
        OK(leat_free(x.s, block));
        order(&x, x.s, hops == 1 ? x.u : third);
        if (hops == 2)
            order(&x, third, x.u);
        /* The pool has no other memory, and this call must not wait. */
        again = test_block(x.pool, x.u, BYTES);
        EXPECT_HELD(x.u, x.gate);
        assert_int_equal(test_statistics(x.pool).host_waits, 0);
        assert_int_equal(test_statistics(x.pool).stream_waits, 0);
        both_are_right(&x, x.u, again);
        OK(leat_stream_destroy(third));
        OK(leat_pool_destroy(x.pool));
        OK(leat_memory_free(x.kept));
    }
}

/* What a policy may do while the first stream is held up. */
static void policies_decide_who_waits(void **state)
{
    struct test_state *t = *state;

    for (int way = 0; way < 4; way++) {
        struct scene x = {.t = t, .s = t->stream, .u = t->second};
        bool limited = way == 3, waits = way == 1 || limited;
        void *block, *again;

        x.pool = POOL(t->device, .reuse = (leat_pool_reuse)(way % 3), .limit_bytes = limited ? BYTES : 0);
        x.kept = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
        block = test_block(x.pool, x.s, BYTES);
        work_late(&x, x.s, block);
        OK(leat_free(x.s, block));
        again = test_block(x.pool, x.u, BYTES);
        OK(leat_fill(x.u, again, NEW, BYTES));
        if (waits) {
            EXPECT_HELD(x.u, x.gate);
            assert_true(test_statistics(x.pool).stream_waits > 0);
            assert_true(test_statistics(x.pool).reserved_bytes < 2 * BYTES);
        } else {
            OK(leat_stream_synchronize(x.u));
            assert_int_equal(test_statistics(x.pool).stream_waits, 0);
            assert_true(test_statistics(x.pool).reserved_bytes >= 2 * BYTES);
        }
        assert_true(test_statistics(x.pool).host_waits == 0);
        both_are_right(&x, x.u, again);
        OK(leat_pool_destroy(x.pool));
        OK(leat_memory_free(x.kept));
    }
}

static void raise_flag(void *flag)
{
    atomic_store((atomic_int *)flag, 1);
}

/* Frees BYTES on the first stream, and does what lets the second have them in one way: 0 orders it after the free,
 * 1 finishes the first stream's work unseen by leat, 2 does nothing. Whatever holds the first stream is opened by
 * the caller; NULL: nothing does. */
static struct test_gate *free_elsewhere(struct scene *x, int way)
{
    void *block = test_block(x->pool, x->s, BYTES);
    struct test_gate *gate = NULL;
    atomic_int done = 0;

    if (way == 1) {
        OK(leat_launch_host(x->s, raise_flag, &done));
        while (!atomic_load(&done))
            test_sleep_us(100);
    } else {
        gate = test_gate_close(x->s);
    }
    OK(leat_free(x->s, block));
    if (way == 0)
        order(x, x->s, x->u);
    return gate;
}

/* With a way switched off the memory is not taken in that way, and no other stands in for it. */
static void ways_of_reuse_can_be_switched_off(void **state)
{
    static const uint32_t ways[] = {LEAT_POOL_REUSE_ORDERED, LEAT_POOL_REUSE_FINISHED, LEAT_POOL_REUSE_WAITING};
    struct test_state *t = *state;

    for (int way = 0; way < 3; way++) {
        struct scene x = {.t = t, .s = t->stream, .u = new_stream(&(struct scene){.t = t})};
        leat_status status = LEAT_ERROR_DEVICE_MEMORY;
        struct test_gate *gate;
        void *block = NULL;

        x.pool = POOL(t->device, .limit_bytes = BYTES);
        gate = free_elsewhere(&x, way);
        OK(leat_pool_set_reuse(x.pool, LEAT_POOL_REUSE_ALL & ~ways[way] & ~(uint32_t)LEAT_POOL_REUSE_WAITING));
        for (int i = 0; i < 3; i++) /* asking again changes nothing */
            REFUSED(leat_pool_alloc(x.pool, x.u, BYTES, &block), LEAT_ERROR_DEVICE_MEMORY, "limit");
        assert_int_equal(test_statistics(x.pool).stream_waits, 0);
        OK(leat_pool_set_reuse(x.pool, ways[way]));
        for (int i = 0; i < 10000 && status == LEAT_ERROR_DEVICE_MEMORY; i++) { /* way 1: finished any time now */
            status = leat_pool_alloc(x.pool, x.u, BYTES, &block);
            if (status != LEAT_OK)
                test_sleep_us(1000);
        }
        assert_int_equal(status, LEAT_OK);
        assert_int_equal(test_statistics(x.pool).stream_waits, way == 2);
        assert_int_equal(test_statistics(x.pool).host_waits, 0);
        OK(leat_fill(x.u, block, NEW, BYTES));
        if (gate) {
            EXPECT_HELD(x.u, gate);
            test_gate_open(gate);
        }
        test_block_holds(x.u, block, BYTES, NEW);
        OK(leat_free(x.u, block));
        OK(leat_device_synchronize(t->device));
        OK(leat_pool_destroy(x.pool));
        OK(leat_stream_destroy(x.u));
    }
}

/* New memory joins idle memory that a stream's work still uses: what is left of that is that stream's. */
static void new_memory_takes_on_its_neighbours_order(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .packing = LEAT_POOL_STILL, .limit_bytes = 8 * MIB);
    struct test_gate *gate;
    char *low, *high;
    void *joined, *other;

    NEEDS_VIRTUAL_MEMORY(t);
    OK(leat_pool_set_reuse(pool, 0));
    low = test_block(pool, t->stream, 3 * MIB);
    high = test_block(pool, t->stream, 3 * MIB);
    assert_ptr_equal(high, low + 3 * MIB);
    gate = test_gate_close(t->stream);
    OK(leat_free(t->stream, high));
    OK(leat_pool_alloc_aligned(pool, t->stream, 4 * MIB, 2 * MIB, &joined));
    assert_ptr_equal(joined, low + 4 * MIB);
    assert_int_equal(test_statistics(pool).reserved_bytes, 8 * MIB);
    REFUSED(leat_pool_alloc(pool, t->second, 1 * MIB, &other), LEAT_ERROR_DEVICE_MEMORY, "limit");
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_pool_alloc(pool, t->second, 1 * MIB, &other));
    assert_ptr_equal(other, high);
    OK(leat_free(t->second, other));
    OK(leat_free(t->stream, joined));
    OK(leat_free(t->stream, low));
    OK(leat_pool_destroy(pool));
}

/* What needs no way: the stream's own memory, and what the program has waited for. */
static void without_any_way_a_stream_has_its_own_memory(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = BYTES);
    leat_status status = LEAT_ERROR_DEVICE_MEMORY;
    struct test_gate *gate;
    atomic_int done = 0;
    void *block;

    OK(leat_pool_set_reuse(pool, 0));
    REFUSED(leat_pool_set_reuse(pool, 8), LEAT_ERROR_INVALID, "0x8");
    gate = test_gate_close(t->stream);
    for (int i = 0; i < 3; i++) {
        block = test_block(pool, t->stream, BYTES - (size_t)i * MIB); /* not from the cache of one size */
        OK(leat_free(t->stream, block));
    }
    REFUSED(leat_pool_alloc(pool, t->second, BYTES, &block), LEAT_ERROR_DEVICE_MEMORY, "limit");
    assert_int_equal(test_statistics(pool).host_waits, 0);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    block = test_block(pool, t->second, BYTES);
    /* Another stream uses it, and finishes unseen; it comes back to the one that frees it. */
    OK(leat_launch_host(t->stream, raise_flag, &done));
    OK(leat_pool_use(block, t->stream));
    OK(leat_free(t->second, block));
    for (int i = 0; i < 10000 && status == LEAT_ERROR_DEVICE_MEMORY; i++) {
        test_sleep_us(1000);
        status = leat_pool_alloc(pool, t->second, BYTES, &block);
    }
    OK(status);
    assert_int_equal(test_statistics(pool).host_waits, 0);
    OK(leat_free(t->second, block));
    OK(leat_pool_destroy(pool));
}

static void without_waiting_a_pool_that_would_wait_asks_for_more(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .reuse = LEAT_POOL_WAIT);
    struct test_gate *gate = test_gate_close(t->stream);
    void *block = test_block(pool, t->stream, BYTES);

    OK(leat_pool_set_reuse(pool, LEAT_POOL_REUSE_ORDERED | LEAT_POOL_REUSE_FINISHED));
    OK(leat_free(t->stream, block));
    block = test_block(pool, t->second, BYTES);
    assert_int_equal(test_statistics(pool).stream_waits, 0);
    test_gate_open(gate);
    OK(leat_free(t->second, block));
    OK(leat_pool_destroy(pool));
}

static void *open_later(void *gate)
{
    test_sleep_us(100000);
    test_gate_open(gate);
    return NULL;
}

/* A full pool whose streams may not wait: the host waits for the memory that another stream freed. Where the gate
 * opens before the pool looks, nobody waits, and the test passes without having tried anything. */
static void the_host_waits_where_streams_may_not(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = BYTES, .reuse = LEAT_POOL_WAIT_NEVER);
    void *block = test_block(pool, t->stream, BYTES), *again;
    struct test_gate *gate = test_gate_close(t->stream);
    pthread_t opener;

    OK(leat_fill(t->stream, block, LATE, BYTES));
    OK(leat_free(t->stream, block));
    assert_int_equal(pthread_create(&opener, NULL, open_later, gate), 0);
    again = test_block(pool, t->second, BYTES);
    assert_int_equal(test_statistics(pool).stream_waits, 0);
    pthread_join(opener, NULL);
    OK(leat_fill(t->second, again, NEW, BYTES));
    OK(leat_device_synchronize(t->device));
    test_block_holds(t->second, again, BYTES, NEW);
    OK(leat_free(t->second, again));
    OK(leat_pool_destroy(pool));
}

/* leat_memory_free() says that no work uses the block any more, whatever leat_pool_use() was told of it. */
static void memory_that_the_host_frees_has_no_users(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = BYTES);
    struct test_gate *gate = test_gate_close(t->second);

    for (int kind = 0; kind < 3; kind++) {
        void *block = test_block(pool, kind == 1 ? NULL : t->stream, BYTES);
        leat_event *event;

        OK(leat_event_create(t->device, &event));
        OK(leat_event_record(event, t->second));
        if (kind == 2)
            OK(leat_pool_use_until(block, event));
        else
            OK(leat_pool_use(block, t->second));
        OK(leat_memory_free(block));
        OK(leat_event_destroy(event));
        /* There is no other memory, and the stream that was named is held up. */
        block = test_block(pool, t->stream, BYTES);
        OK(leat_fill(t->stream, block, NEW, BYTES));
        OK(leat_stream_synchronize(t->stream));
        assert_int_equal(atomic_load(&gate->passed), 0);
        OK(leat_free(t->stream, block));
        OK(leat_stream_synchronize(t->stream));
    }
    assert_int_equal(test_statistics(pool).pending_bytes, 0);
    assert_int_equal(test_statistics(pool).host_waits, 0);
    test_gate_open(gate);
    OK(leat_pool_destroy(pool));
}

/* The pool asks the device by itself: the program never waits for anything. */
static void finished_memory_is_found_without_the_programs_help(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .reuse = LEAT_POOL_WAIT_NEVER);
    uint64_t released = 0, pending = 1;
    void *block;

    block = test_block(pool, t->stream, BYTES);
    OK(leat_fill(t->stream, block, 1, BYTES));
    OK(leat_pool_use(block, t->second));
    OK(leat_free(t->stream, block));
    for (int i = 0; i < 10000 && test_statistics(pool).reserved_bytes; i++) {
        OK(leat_pool_trim(pool, 0, &released, &pending));
        test_sleep_us(1000);
    }
    assert_int_equal(test_statistics(pool).reserved_bytes, 0);
    assert_int_equal(test_statistics(pool).host_waits, 0);
    OK(leat_pool_destroy(pool));
}

/* The stream goes on after the mark and is held up there; the memory comes back all the same. */
static void use_until_does_not_wait_for_later_work(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = BYTES, .reuse = LEAT_POOL_WAIT_NEVER);
    void *block = test_block(pool, NULL, BYTES), *again;
    struct test_gate *gate;
    leat_event *event, *never;

    OK(leat_event_create(t->device, &event));
    OK(leat_event_create(t->device, &never));
    OK(leat_fill(t->second, block, 1, BYTES));
    OK(leat_event_record(event, t->second));
    OK(leat_pool_use_until(block, event));
    OK(leat_pool_use_until(block, never));
    OK(leat_event_synchronize(event));
    gate = test_gate_close(t->second);
    OK(leat_free(t->stream, block));
    OK(leat_stream_synchronize(t->stream));
    again = test_block(pool, t->stream, BYTES);
    OK(leat_fill(t->stream, again, NEW, BYTES));
    OK(leat_stream_synchronize(t->stream));
    assert_int_equal(test_statistics(pool).host_waits, 0);
    assert_int_equal(atomic_load(&gate->passed), 0);
    test_gate_open(gate);
    test_block_holds(t->stream, again, BYTES, NEW);
    OK(leat_free(t->stream, again));
    OK(leat_event_destroy(event));
    OK(leat_event_destroy(never));
    OK(leat_pool_destroy(pool));
}

/* One block waits for a mark behind the gate; another one's mark is reached, and its memory is there. */
static void marks_do_not_wait_for_each_other(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = 2 * BYTES, .reuse = LEAT_POOL_WAIT_NEVER);
    void *held = test_block(pool, NULL, BYTES), *block = test_block(pool, NULL, BYTES);
    struct test_gate *gate = test_gate_close(t->second);
    leat_event *late, *reached;
    leat_stream *third;

    OK(leat_stream_create(t->device, &third));
    OK(leat_event_create(t->device, &late));
    OK(leat_event_create(t->device, &reached));
    OK(leat_event_record(late, t->second));
    OK(leat_pool_use_until(held, late));
    OK(leat_fill(third, block, 1, BYTES));
    OK(leat_event_record(reached, third));
    OK(leat_pool_use_until(block, reached));
    OK(leat_event_synchronize(reached));
    OK(leat_free(t->stream, held));
    OK(leat_free(t->stream, block));
    OK(leat_stream_synchronize(t->stream));
    block = test_block(pool, t->stream, BYTES);
    assert_int_equal(atomic_load(&gate->passed), 0);
    assert_int_equal(test_statistics(pool).host_waits, 0);
    test_gate_open(gate);
    OK(leat_free(t->stream, block));
    OK(leat_event_destroy(late));
    OK(leat_event_destroy(reached));
    OK(leat_stream_destroy(third));
    OK(leat_pool_destroy(pool));
}

static void pending_memory_is_counted(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .reuse = LEAT_POOL_WAIT_NEVER);
    void *block = test_block(pool, t->stream, BYTES), *again;
    struct test_gate *gate;

    OK(leat_pool_use(block, t->second));
    gate = test_gate_close(t->second);
    OK(leat_free(t->stream, block));
    assert_true(test_statistics(pool).pending_bytes >= BYTES);
    test_gate_open(gate);
    OK(leat_device_synchronize(t->device));
    /* The next request finds it. */
    again = test_block(pool, t->stream, BYTES);
    assert_int_equal(test_statistics(pool).pending_bytes, 0);
    assert_true(test_statistics(pool).reserved_bytes < 2 * BYTES);
    OK(leat_free(t->stream, again));
    OK(leat_pool_destroy(pool));
}

/* Ten blocks of one stream, of which another takes one: the other nine stay. */
static void blocks_are_taken_one_by_one(void **state)
{
    enum { COUNT = 10 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .limit_bytes = COUNT * BYTES, .reuse = LEAT_POOL_WAIT_NEVER);
    void *blocks[COUNT], *taken;
    struct test_gate *gate;
    leat_pool_statistics before;

    for (int i = 0; i < COUNT; i++)
        blocks[i] = test_block(pool, t->stream, BYTES);
    for (int i = 0; i < COUNT; i++)
        OK(leat_free(t->stream, blocks[i]));
    OK(leat_stream_synchronize(t->stream));
    taken = test_block(pool, t->second, BYTES);
    /* The taker is held up now: the rest must be there for its own stream at once. */
    gate = test_gate_close(t->second);
    before = test_statistics(pool);
    for (int i = 0; i < COUNT - 1; i++)
        blocks[i] = test_block(pool, t->stream, BYTES);
    assert_int_equal(test_statistics(pool).stream_waits, before.stream_waits);
    assert_int_equal(test_statistics(pool).host_waits, 0);
    test_gate_open(gate);
    for (int i = 0; i < COUNT - 1; i++)
        OK(leat_free(t->stream, blocks[i]));
    OK(leat_free(t->second, taken));
    OK(leat_pool_destroy(pool));
}

/* ---- the fast loop --------------------------------------------------------------------------------------------
 */

/* Allocate, launch, free: the same address each time, and after the first time nothing for the driver to do. */
static void a_loop_gets_the_same_block_each_time(void **state)
{
    static const size_t sizes[] = {400, 100000, 3 * MIB, 64 * MIB};
    struct test_state *t = *state;
    leat_pool *pool = test_default_pool(t->device, LEAT_KIND_DEVICE);
    leat_kernel *add = test_kernel(t->device, "leat_add_u32");

    for (int size = 0; size < 4; size++) {
        leat_pool_statistics first = {0}, last;
        void *block, *seen = NULL;
        uint64_t count = 100;
        uint32_t one = 1;
        void *args[] = {&block, &count, &one};

        for (int i = 0; i < 100; i++) {
            OK(leat_alloc(t->stream, sizes[size], &block));
            OK(leat_launch(t->stream, add, leat_dim(1, 1, 1), leat_dim(64, 1, 1), 0, args, 3));
            OK(leat_free(t->stream, block));
            if (i == 0) {
                seen = block;
                first = test_statistics(pool);
            }
            assert_ptr_equal(block, seen);
        }
        last = test_statistics(pool);
        assert_int_equal(last.driver_calls, first.driver_calls);
        assert_int_equal(last.events, first.events);
        assert_int_equal(last.queries, first.queries);
        assert_int_equal(last.stream_waits, first.stream_waits);
        assert_int_equal(last.host_waits, 0);
        assert_int_equal(last.allocations, first.allocations + 99);
    }
}

/* The same while the stream stands still, so that no block is ever done. */
static void a_stream_that_stands_still_reuses_its_memory(void **state)
{
    struct test_state *t = *state;

    for (int sort = 0; sort < KINDS; sort++) {
        leat_pool_options options = {.size = sizeof options,
                                     .plain = sort == PLAIN,
                                     .one_handle = sort == ONE_HANDLE,
                                     .kind = sort == PINNED ? LEAT_KIND_PINNED : LEAT_KIND_DEVICE};
        leat_pool *pool = test_pool_try(t->device, &options);
        leat_pool_statistics first, last;
        struct test_gate *gate;
        void *block;

        if (!pool)
            continue;
        block = test_block(pool, t->stream, BYTES);
        first = test_statistics(pool);
        gate = test_gate_close(t->stream);
        OK(leat_free(t->stream, block));
        for (int i = 0; i < 200; i++) {
            void *again = test_block(pool, t->stream, BYTES);

            assert_ptr_equal(again, block);
            OK(leat_fill(t->stream, again, (uint8_t)i, BYTES));
            OK(leat_free(t->stream, again));
        }
        last = test_statistics(pool);
        assert_int_equal(last.driver_calls, first.driver_calls);
        assert_int_equal(last.events, first.events);
        assert_int_equal(last.reserved_bytes, first.reserved_bytes);
        test_gate_open(gate);
        OK(leat_stream_synchronize(t->stream));
        OK(leat_pool_destroy(pool));
    }
}

/* ---- nothing waits --------------------------------------------------------------------------------------------
 */

/* Growing, freeing, moving and trimming, on the held stream and beside it. Every call comes back while the gate is
 * closed, which is looked at after each. */
static void nothing_waits_while_a_stream_is_held_up(void **state)
{
    enum { SLOTS = 12, STEPS = 400 };
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .reuse = LEAT_POOL_WAIT_NEVER);
    struct test_gate *gate = test_gate_close(t->stream);
    void *blocks[SLOTS] = {NULL};
    leat_stream *owners[SLOTS] = {NULL};

    for (uint64_t step = 0; step < STEPS; step++) {
        uint64_t slot = leat_pattern_value(step, 5) % SLOTS;
        leat_stream *stream = leat_pattern_value(step, 6) % 2 ? t->stream : t->second;

        if (blocks[slot]) {
            if (leat_pattern_value(step, 7) % 4 == 0)
                OK(leat_pool_use(blocks[slot], stream));
            OK(leat_free(owners[slot], blocks[slot]));
            blocks[slot] = NULL;
        } else {
            owners[slot] = stream;
            blocks[slot] = test_block(pool, stream, 1 + leat_pattern_value(step, 8) % (9 * MIB));
            OK(leat_fill(stream, blocks[slot], (uint8_t)step, 1));
        }
        if (step % 10 == 9)
            OK(leat_pool_trim(pool, step % 20 == 9 ? 0 : 16 * MIB, NULL, NULL));
        assert_int_equal(atomic_load(&gate->passed), 0);
    }
    assert_int_equal(test_statistics(pool).host_waits, 0);
    assert_int_equal(leat_stream_query(t->stream), LEAT_NOT_READY);
    OK(leat_stream_synchronize(t->second));
    assert_int_equal(atomic_load(&gate->passed), 0);
    test_gate_open(gate);
    for (int i = 0; i < SLOTS; i++)
        OK(leat_free(owners[i] ? owners[i] : t->stream, blocks[i]));
    OK(leat_device_synchronize(t->device));
    OK(leat_pool_destroy(pool));
}

/* Idle pages are stitched to a block while a stream is held up in a block that stays. */
static void pages_are_stitched_while_a_stream_is_held_up(void **state)
{
    enum { COUNT = 16 };
    struct test_state *t = *state;
    leat_pool *pool;
    struct test_gate *gate;
    void *kept, *blocks[COUNT], *large;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = POOL(t->device, .limit_bytes = (COUNT + 1) * BYTES);
    kept = test_block(pool, t->stream, BYTES);
    for (int round = 0; round < 3; round++) {
        OK(leat_fill(t->stream, kept, 1, BYTES));
        gate = test_gate_close(t->stream);
        OK(leat_fill(t->stream, kept, 2, BYTES));
        for (int i = 0; i < COUNT; i++) {
            blocks[i] = test_block(pool, t->second, BYTES);
            OK(leat_fill(t->second, blocks[i], 3, BYTES));
        }
        OK(leat_stream_synchronize(t->second));
        for (int i = 0; i < COUNT; i += 2)
            OK(leat_free(t->second, blocks[i]));
        OK(leat_stream_synchronize(t->second));
        large = test_block(pool, t->second, COUNT / 2 * BYTES);
        OK(leat_fill(t->second, large, 4, COUNT / 2 * BYTES));
        OK(leat_stream_synchronize(t->second));
        assert_int_equal(atomic_load(&gate->passed), 0);
        for (int i = 1; i < COUNT; i += 2) {
            test_block_holds(t->second, blocks[i], BYTES, 3);
            OK(leat_free(t->second, blocks[i]));
        }
        test_block_holds(t->second, large, COUNT / 2 * BYTES, 4);
        OK(leat_free(t->second, large));
        assert_int_equal(test_statistics(pool).host_waits, 0);
        test_gate_open(gate);
        test_block_holds(t->stream, kept, BYTES, 2);
        OK(leat_stream_synchronize(t->second));
    }
    assert_true(test_statistics(pool).pages_stitched > 0);
    OK(leat_free(t->stream, kept));
    OK(leat_pool_destroy(pool));
}

/* A request fails that had collected pages which its own stream still uses. In the callback another stream asks.
 */
struct collected {
    struct scene *x;
    void *block;
    leat_status status;
};

static int take_what_was_collected(void *argument, leat_pool *pool, uint64_t bytes)
{
    struct collected *c = argument;

    (void)bytes;
    c->status = leat_pool_alloc(pool, c->x->u, 2 * BYTES, &c->block);
    return 0;
}

static void what_a_failed_request_collected_is_still_in_use(void **state)
{
    struct test_state *t = *state;

    NEEDS_VIRTUAL_MEMORY(t);
    for (int reuse = 0; reuse < 2; reuse++) {
        struct scene x = {.t = t, .s = t->stream, .u = t->second};
        struct collected c = {.x = &x};
        void *live, *block, *behind, *more;

        x.pool = POOL(t->device, .limit_bytes = 4 * BYTES, .reuse = (leat_pool_reuse)reuse);
        x.kept = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
        OK(leat_pool_on_full(x.pool, take_what_was_collected, &c));
        live = test_block(x.pool, x.s, BYTES);
        /* Between live ones, so that its pages must move. */
        block = test_block(x.pool, x.s, BYTES);
        behind = test_block(x.pool, x.s, BYTES);
        work_late(&x, x.s, block);
        OK(leat_free(x.s, block));
        STATUS(leat_pool_alloc(x.pool, x.s, 3 * BYTES, &more), LEAT_ERROR_DEVICE_MEMORY);
        OK(c.status);
        OK(leat_fill(x.u, c.block, NEW, 2 * BYTES));
        give_a_chance(x.u);
        test_gate_open(x.gate);
        OK(leat_device_synchronize(t->device));
        EXPECT_BYTES(x.kept, BYTES, OLD);
        test_block_holds(x.u, c.block, 2 * BYTES, NEW);
        OK(leat_free(x.u, c.block));
        OK(leat_free(x.s, live));
        OK(leat_free(x.s, behind));
        OK(leat_pool_destroy(x.pool));
        OK(leat_memory_free(x.kept));
    }
}

/* An aligned block grows out of memory that its stream still uses. What the alignment leaves of that in front
 * stays in use. Where it lies depends on where the addresses begin, so there are two tries. */
static void what_an_alignment_leaves_is_still_in_use(void **state)
{
    struct test_state *t = *state;

    for (int reuse = 0; reuse < 3; reuse++) {
        for (size_t front = 1; front <= 2; front++) {
            struct scene x = {.t = t, .s = t->stream, .u = t->second};
            void *first, *block, *aligned, *pieces[2];

            x.pool = POOL(t->device, .reuse = (leat_pool_reuse)reuse);
            x.kept = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
            first = test_block(x.pool, x.s, front * BYTES / 2);
            block = test_block(x.pool, x.s, BYTES);
            work_late(&x, x.s, block);
            OK(leat_free(x.s, block));
            OK(leat_pool_alloc_aligned(x.pool, x.s, 2 * BYTES, BYTES, &aligned));
            for (int i = 0; i < 2; i++) {
                pieces[i] = test_block(x.pool, x.u, BYTES / 2);
                OK(leat_fill(x.u, pieces[i], NEW, BYTES / 2));
            }
            give_a_chance(x.u);
            test_gate_open(x.gate);
            OK(leat_device_synchronize(t->device));
            EXPECT_BYTES(x.kept, BYTES, OLD);
            for (int i = 0; i < 2; i++) {
                test_block_holds(x.u, pieces[i], BYTES / 2, NEW);
                OK(leat_free(x.u, pieces[i]));
            }
            OK(leat_free(x.s, aligned));
            OK(leat_free(x.s, first));
            OK(leat_pool_destroy(x.pool));
            OK(leat_memory_free(x.kept));
        }
    }
}

/* A page of a stitched block goes to small blocks while old work on the stitched block is still on its way: the
 * old addresses stay until that is done. */
static void a_page_leaves_a_stitched_block_behind_its_work(void **state)
{
    struct test_state *t = *state;
    struct scene x = {.t = t, .s = t->stream, .u = t->second};
    void *between[2], *block, *small;

    NEEDS_VIRTUAL_MEMORY(t);
    x.pool = POOL(t->device, .limit_bytes = 2 * BYTES);
    x.kept = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
    take_every_second_page(&x, between);
    block = test_block(x.pool, x.s, BYTES);
    assert_int_equal(test_statistics(x.pool).stitches, 1);
    work_late(&x, x.s, block);
    OK(leat_free(x.s, block));
    small = test_block(x.pool, x.s, 4096);
    OK(leat_fill(x.s, small, NEW, 4096));
    test_gate_open(x.gate);
    OK(leat_device_synchronize(t->device));
    EXPECT_BYTES(x.kept, BYTES, OLD);
    test_block_holds(x.s, small, 4096, NEW);
    OK(leat_free(x.s, small));
    for (int i = 0; i < 2; i++)
        OK(leat_free(x.s, between[i]));
    OK(leat_pool_destroy(x.pool));
    OK(leat_memory_free(x.kept));
}

/* ---- slow work ------------------------------------------------------------------------------------------------
 */

static void be_slow(void *unused)
{
    (void)unused;
    test_sleep_us(40000);
}

/* Two blocks of a stream that is slow are wanted as one by another: their pages cannot move before the work is
 * done, and there are no others. That is the one time when the host waits. */
static void pages_in_use_do_not_move(void **state)
{
    struct test_state *t = *state;
    unsigned char *kept = test_alloc(t->device, LEAT_KIND_PINNED, 2 * BYTES);

    for (int reuse = 0; reuse < 3; reuse++) {
        leat_pool *pool = POOL(t->device, .limit_bytes = 3 * BYTES, .reuse = (leat_pool_reuse)reuse);
        char *first = test_block(pool, t->stream, BYTES), *between = test_block(pool, t->stream, BYTES);
        char *last = test_block(pool, t->stream, BYTES), *both;

        OK(leat_fill(t->stream, first, 1, BYTES));
        OK(leat_fill(t->stream, last, 2, BYTES));
        OK(leat_launch_host(t->stream, be_slow, NULL));
        OK(leat_copy(t->stream, kept, first, BYTES));
        OK(leat_copy(t->stream, kept + BYTES, last, BYTES));
        OK(leat_fill(t->stream, first, 3, BYTES));
        OK(leat_fill(t->stream, last, 3, BYTES));
        OK(leat_free(t->stream, first));
        OK(leat_free(t->stream, last));
        if (test_has_virtual_memory(t->device)) {
            both = test_block(pool, t->second, 2 * BYTES);
            OK(leat_fill(t->second, both, 5, 2 * BYTES));
            OK(leat_device_synchronize(t->device));
            test_block_holds(t->second, both, 2 * BYTES, 5);
            OK(leat_free(t->second, both));
        }
        OK(leat_device_synchronize(t->device));
        EXPECT_BYTES(kept, BYTES, 1);
        EXPECT_BYTES(kept + BYTES, BYTES, 2);
        OK(leat_free(t->stream, between));
        OK(leat_pool_destroy(pool));
    }
    OK(leat_memory_free(kept));
}

/* The end of a pool waits for what its freed blocks are still used for. */
static void a_pool_ends_after_its_work(void **state)
{
    struct test_state *t = *state;
    unsigned char *kept = test_alloc(t->device, LEAT_KIND_PINNED, 2 * BYTES);

    for (int kind = 0; kind < KINDS; kind++) {
        leat_pool_options options = {.size = sizeof options,
                                     .plain = kind == PLAIN,
                                     .one_handle = kind == ONE_HANDLE,
                                     .kind = kind == PINNED ? LEAT_KIND_PINNED : LEAT_KIND_DEVICE};
        leat_pool *pool = test_pool_try(t->device, &options);
        void *freed, *used;

        if (!pool)
            continue;
        memset(kept, 0, 2 * BYTES);
        freed = test_block(pool, t->stream, BYTES);
        used = test_block(pool, t->stream, BYTES);
        OK(leat_fill(t->stream, freed, 1, BYTES));
        OK(leat_launch_host(t->stream, be_slow, NULL));
        OK(leat_copy(t->stream, kept, freed, BYTES));
        OK(leat_free(t->stream, freed));
        OK(leat_fill(t->second, used, 2, BYTES));
        OK(leat_launch_host(t->second, be_slow, NULL));
        OK(leat_copy(t->second, kept + BYTES, used, BYTES));
        OK(leat_pool_use(used, t->second));
        OK(leat_free(t->stream, used));
        OK(leat_pool_destroy(pool));
        OK(leat_device_synchronize(t->device));
        EXPECT_BYTES(kept, BYTES, 1);
        EXPECT_BYTES(kept + BYTES, BYTES, 2);
    }
    OK(leat_memory_free(kept));
}

/* Pages that were freed elsewhere, and are still in use, are not given back by a smaller limit. */
static void a_smaller_limit_spares_what_is_in_use(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool = POOL(t->device, .name = "shrinking");
    unsigned char *kept = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
    void *block = test_block(pool, t->stream, BYTES);
    leat_status status;

    OK(leat_fill(t->stream, block, 1, BYTES));
    OK(leat_launch_host(t->stream, be_slow, NULL));
    OK(leat_copy(t->stream, kept, block, BYTES));
    OK(leat_free(t->stream, block));
    status = leat_pool_set_limits(pool, 1, 0);
    assert_true(status == LEAT_OK || status == LEAT_ERROR_BUSY);
    OK(leat_device_synchronize(t->device));
    EXPECT_BYTES(kept, BYTES, 1);
    OK(leat_pool_set_limits(pool, 1, 0));
    assert_int_equal(test_statistics(pool).reserved_bytes, 0);
    OK(leat_pool_destroy(pool));
    OK(leat_memory_free(kept));
}

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
    STATE_TEST(memory_comes_back),
    STATE_TEST(ordered_memory_is_taken_while_its_work_is_pending),
    STATE_TEST(policies_decide_who_waits),
    STATE_TEST(ways_of_reuse_can_be_switched_off),
    STATE_TEST(without_any_way_a_stream_has_its_own_memory),
    STATE_TEST(new_memory_takes_on_its_neighbours_order),
    STATE_TEST(without_waiting_a_pool_that_would_wait_asks_for_more),

    STATE_TEST(the_host_waits_where_streams_may_not),
    STATE_TEST(memory_that_the_host_frees_has_no_users),
    STATE_TEST(finished_memory_is_found_without_the_programs_help),
    STATE_TEST(use_until_does_not_wait_for_later_work),
    STATE_TEST(marks_do_not_wait_for_each_other),
    STATE_TEST(pending_memory_is_counted),
    STATE_TEST(blocks_are_taken_one_by_one),
    STATE_TEST(a_loop_gets_the_same_block_each_time),
    STATE_TEST(a_stream_that_stands_still_reuses_its_memory),
    STATE_TEST(nothing_waits_while_a_stream_is_held_up),
    STATE_TEST(pages_are_stitched_while_a_stream_is_held_up),
    STATE_TEST(what_a_failed_request_collected_is_still_in_use),
    STATE_TEST(what_an_alignment_leaves_is_still_in_use),
    STATE_TEST(a_page_leaves_a_stitched_block_behind_its_work),
    STATE_TEST(pages_in_use_do_not_move),
    STATE_TEST(a_pool_ends_after_its_work),
    STATE_TEST(a_smaller_limit_spares_what_is_in_use),
};

TEST_MAIN(tests)
