/*
 * block.c - scheduler for the threads of a block on the CPU device (kernel_support.h).
 *
 * A host thread that runs a block has a struct runner on its stack. Fibers that can run are in the ready queue.
 * All other fibers wait in leat_warp_active(), in a warp operation, at the block barrier, or at the grid barrier.
 * When the ready queue is empty and all threads have started, the scheduler ends one kind of wait: the first in
 * this order that has waiting fibers.
 */
#include "engine/stack.h"

#include "engine/inside.h"

#include <leat/compat/kernel_support.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define WARPS_MAX 32 /* maximum number of warps in a block */

struct queue {
    struct leatc_fiber *first, **end;
};

struct warp {
    uint32_t meeting, asking; /* bit masks: the lanes that wait in a warp operation, and those that wait in
                               * leat_warp_active() */
    leat_lane *lane[LEAT_WARP_THREADS];
    struct leatc_fiber *fiber[LEAT_WARP_THREADS];
};

struct runner {
    leat_block_job *job;
    struct leatc_fiber *current;
    struct leatc_fiber native;
    struct leatc_home home;
    struct queue ready, barrier, grid;
    leat_block_votes votes;  /* votes of the threads that have reached the current barrier */
    leat_block_votes result; /* result of the latest barrier; all threads read it before the next barrier can
                              * end */
    unsigned waiting_lanes, warp_count;
    struct warp warps[WARPS_MAX]; /* the first warp_count are in use; lane and fiber are set only for waiting
                                   * lanes */
};

/* The runner of the block that this host thread runs, or NULL. */
static _Thread_local __attribute__((tls_model("initial-exec"))) struct runner *here;

/* ---- queues ------------------------------------------------------------------------------------------------ */

static void queue_clear(struct queue *queue)
{
    queue->first = NULL;
    queue->end = &queue->first;
}

static void queue_add(struct queue *queue, struct leatc_fiber *fiber)
{
    fiber->next = NULL;
    *queue->end = fiber;
    queue->end = &fiber->next;
}

static struct leatc_fiber *queue_take(struct queue *queue)
{
    struct leatc_fiber *fiber = queue->first;

    if (fiber && !(queue->first = fiber->next))
        queue->end = &queue->first;
    return fiber;
}

/* Moves all of one queue to the end of another. */
static void queue_move(struct queue *to, struct queue *from)
{
    if (from->first) {
        *to->end = from->first;
        to->end = from->end;
        queue_clear(from);
    }
}

/* ---- failure ----------------------------------------------------------------------------------------------- */

/* Gives back a fiber whose thread of the block has not ended. Skips the current fiber, which may be in a queue
 * too: abandon_all() gives it back last. */
static void abandon(struct runner *runner, struct leatc_fiber *fiber)
{
    if (fiber != &runner->native && fiber != runner->current)
        leatc_fiber_give_back(fiber, true);
}

static void abandon_queue(struct runner *runner, struct queue *queue)
{
    struct leatc_fiber *fiber;

    while ((fiber = queue_take(queue)))
        abandon(runner, fiber);
}

static void abandon_all(struct runner *runner)
{
    abandon_queue(runner, &runner->ready);
    abandon_queue(runner, &runner->barrier);
    abandon_queue(runner, &runner->grid);
    for (unsigned i = 0; i < runner->warp_count; i++)
        for (unsigned lane = 0; lane < LEAT_WARP_THREADS; lane++)
            if ((runner->warps[i].meeting | runner->warps[i].asking) >> lane & 1)
                abandon(runner, runner->warps[i].fiber[lane]);
    if (runner->current != &runner->native)
        leatc_fiber_give_back(runner->current, true);
}

/* Reports result as the failure of the launch, and ends the block. */
static _Noreturn void fail(struct runner *runner, int result)
{
    leatc_lose(result);
    leatc_fiber_go_home(&runner->home, runner->current);
}

/* ---- scheduling -------------------------------------------------------------------------------------------- */

/* Returns the lanes of the warp that wait in a warp operation with this mask. */
static uint32_t same_meeting(const struct warp *warp, uint32_t mask)
{
    uint32_t same = 0;

    for (uint32_t lanes = warp->meeting; lanes; lanes &= lanes - 1) {
        unsigned lane = (unsigned)__builtin_ctz(lanes);

        same |= (uint32_t)(warp->lane[lane]->mask == mask) << lane;
    }
    return same;
}

/* Completes a warp operation and makes its waiting lanes ready. */
static void end_meeting(struct runner *runner, struct warp *warp, uint32_t present)
{
    leat_lane *first = warp->lane[__builtin_ctz(present)];

    if (first->combine)
        first->combine(warp->lane, present);
    for (uint32_t lanes = present; lanes; lanes &= lanes - 1)
        warp->lane[__builtin_ctz(lanes)]->present = present;
    for (uint32_t lanes = present & warp->meeting; lanes; lanes &= lanes - 1) {
        queue_add(&runner->ready, warp->fiber[__builtin_ctz(lanes)]);
        runner->waiting_lanes--;
    }
    warp->meeting &= ~present;
}

/* Ends all waits in leat_warp_active(). Lanes that called it from the same place are reported as active
 * together. */
static void end_asking(struct runner *runner, struct warp *warp)
{
    while (warp->asking) {
        const void *caller = warp->lane[__builtin_ctz(warp->asking)]->caller;
        uint32_t same = 0;

        for (uint32_t lanes = warp->asking; lanes; lanes &= lanes - 1)
            same |= (uint32_t)(warp->lane[__builtin_ctz(lanes)]->caller == caller) << __builtin_ctz(lanes);
        for (uint32_t lanes = same; lanes; lanes &= lanes - 1) {
            warp->lane[__builtin_ctz(lanes)]->present = same;
            queue_add(&runner->ready, warp->fiber[__builtin_ctz(lanes)]);
            runner->waiting_lanes--;
        }
        warp->asking &= ~same;
    }
}

static void end_waits_of_lanes(struct runner *runner)
{
    bool asked = false;

    for (struct warp *warp = runner->warps; warp < runner->warps + runner->warp_count; warp++) {
        asked |= warp->asking != 0;
        end_asking(runner, warp);
    }
    for (struct warp *warp = runner->warps; !asked && warp < runner->warps + runner->warp_count; warp++)
        while (warp->meeting)
            end_meeting(runner, warp, same_meeting(warp, warp->lane[__builtin_ctz(warp->meeting)]->mask));
}

/* Called when no fiber can run. Ends one kind of wait, the first in the order of the file comment that has waiting
 * fibers. */
static void end_a_wait(struct runner *runner)
{
    const leat_cpu_block *block = runner->job->block;

    if (runner->waiting_lanes) {
        end_waits_of_lanes(runner);
    } else if (runner->barrier.first) {
        runner->result = runner->votes;
        runner->votes = (leat_block_votes){0, 0};
        queue_move(&runner->ready, &runner->barrier);
    } else if (runner->grid.first) {
        if (!block->wait_for_grid)
            fail(runner, LEATC_LAUNCH_FAILED);
        block->wait_for_grid(block);
        queue_move(&runner->ready, &runner->grid);
    }
}

/* Main function of a fiber: runs threads that have not started, then becomes idle. */
static void run_fiber(void);

/* Returns the fiber to run next: a ready fiber, or else a new fiber if some threads have not started, or else a
 * fiber whose wait has just been ended. Returns NULL if all threads have ended. */
static struct leatc_fiber *choose(struct runner *runner)
{
    struct leatc_fiber *fiber = queue_take(&runner->ready);

    if (!fiber && runner->job->next < runner->job->count) {
        fiber = leatc_fiber_take(run_fiber);
        if (!fiber)
            fail(runner, LEATC_OUT_OF_RESOURCES);
    }
    if (!fiber) {
        end_a_wait(runner);
        fiber = queue_take(&runner->ready);
    }
    return fiber;
}

static void switch_to(struct runner *runner, struct leatc_fiber *to)
{
    struct leatc_fiber *from = runner->current;

    if (to == from)
        return;
    runner->current = to;
    leatc_fiber_switch(from, to);
}

static void run_fiber(void)
{
    for (;;) {
        struct runner *runner = here;
        struct leatc_fiber *self = runner->current, *next;

        runner->job->threads(runner->job);
        next = choose(runner);
        leatc_fiber_give_back(self, false);
        switch_to(runner, next ? next : &runner->native);
    }
}

/* Runs threads on the host thread's own stack, then runs the other fibers until all threads have ended. */
static void run_native(void *argument)
{
    struct runner *runner = argument;
    struct leatc_fiber *next;

    runner->job->threads(runner->job);
    while ((next = choose(runner)))
        switch_to(runner, next);
}

void leat_block_run(leat_block_job *job)
{
    struct runner runner, *earlier = here;

    runner.job = job;
    runner.current = &runner.native;
    leatc_fiber_native(&runner.native);
    queue_clear(&runner.ready);
    queue_clear(&runner.barrier);
    queue_clear(&runner.grid);
    runner.votes = (leat_block_votes){0, 0};
    runner.waiting_lanes = 0;
    runner.warp_count = (job->count + LEAT_WARP_THREADS - 1) / LEAT_WARP_THREADS;
    for (unsigned i = 0; i < runner.warp_count; i++)
        runner.warps[i].meeting = runner.warps[i].asking = 0;
    here = &runner;
    if (leatc_fiber_call(&runner.home, &runner.native, run_native, &runner))
        abandon_all(&runner);
    here = earlier;
}

/* ---- functions that kernels call --------------------------------------------------------------------------- */

/* Suspends the current fiber. The caller has added it to a queue or to the waiting lanes of a warp. */
static void wait_there(struct runner *runner)
{
    switch_to(runner, choose(runner));
}

void leat_block_wait(void)
{
    struct runner *runner = here;

    if (!runner)
        return;
    queue_add(&runner->barrier, runner->current);
    wait_there(runner);
}

leat_block_votes leat_block_vote(int predicate)
{
    struct runner *runner = here;

    if (!runner)
        return (leat_block_votes){1, predicate != 0};
    runner->votes.threads++;
    runner->votes.in_favour += predicate != 0;
    leat_block_wait();
    return runner->result;
}

void leat_grid_wait(void)
{
    struct runner *runner = here;

    if (!runner)
        return;
    queue_add(&runner->grid, runner->current);
    wait_there(runner);
}

/* Returns the lanes that exist in a thread's warp: the last warp of a block may be partial. */
static uint32_t lanes_of(const struct runner *runner, uint32_t thread)
{
    uint32_t left = runner->job->count - thread / LEAT_WARP_THREADS * LEAT_WARP_THREADS;

    return left >= LEAT_WARP_THREADS ? UINT32_MAX : (UINT32_C(1) << left) - 1;
}

/* Records the caller's lane and returns its warp. */
static struct warp *enter(struct runner *runner, uint32_t thread, leat_lane *lane)
{
    struct warp *warp = &runner->warps[thread / LEAT_WARP_THREADS];

    warp->lane[thread % LEAT_WARP_THREADS] = lane;
    warp->fiber[thread % LEAT_WARP_THREADS] = runner->current;
    return warp;
}

void leat_warp_meet(uint32_t thread, leat_lane *lane)
{
    uint32_t self = UINT32_C(1) << thread % LEAT_WARP_THREADS, present;
    struct runner *runner = here;
    struct warp *warp;

    if (!runner) {
        /* This thread does not run in a block with fibers, so it is the only thread of its warp. */
        leat_lane *alone[LEAT_WARP_THREADS] = {[0] = NULL};

        alone[thread % LEAT_WARP_THREADS] = lane;
        lane->present = self;
        if (lane->combine)
            lane->combine(alone, self);
        return;
    }
    warp = enter(runner, thread, lane);
    present = same_meeting(warp, lane->mask) | self;
    if (!(lane->mask & lanes_of(runner, thread) & ~present)) {
        end_meeting(runner, warp, present);
        return;
    }
    warp->meeting |= self;
    runner->waiting_lanes++;
    wait_there(runner);
}

uint32_t leat_warp_active(uint32_t thread)
{
    leat_lane lane = {.caller = __builtin_return_address(0), .present = UINT32_C(1) << thread % LEAT_WARP_THREADS};
    struct runner *runner = here;

    if (runner) {
        enter(runner, thread, &lane)->asking |= lane.present;
        runner->waiting_lanes++;
        wait_there(runner);
    }
    return lane.present;
}

void leat_kernel_trap(void)
{
    if (!here)
        abort();
    fail(here, LEATC_LAUNCH_FAILED);
}

void leat_kernel_refuse(void)
{
    if (!here)
        abort();
    fail(here, LEATC_NOT_SUPPORTED);
}

void leat_kernel_assert(const char *assertion, const char *file, unsigned line, const char *function)
{
    const leat_cpu_block *block = here ? here->job->block : NULL;

    if (!here)
        __assert_fail(assertion, file, line, function);
    fprintf(stderr, "%s:%u: %s: block: [%u,%u,%u]: Assertion `%s` failed.\n", file, line, function, block->block.x,
            block->block.y, block->block.z, assertion);
    fail(here, LEATC_ASSERT);
}
