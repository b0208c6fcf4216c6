/*
 * unit_plan.c - tests the planner: which protocol it chooses for made-up transfers and how it explains the choice,
 * which protocol it tries after one that declines, and that failures name their protocol.
 */
#include "held.h"

#include "copy/costs.h"
#include "copy/layout.h"
#include "copy/plan.h"
#include "driver/fault/fault.h"

#include <leat/copy.h>
#include <leat/memory.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define NOTHING LEATI_PROTOCOLS

/* ---- wrappers of functions, which make protocols decline or fail ---- */

enum outcome { AS_IT_IS, DECLINES, FAILS };
static enum outcome outcomes[LEATI_PROTOCOLS];
static unsigned tried[LEATI_PROTOCOLS];
static unsigned awake;

unsigned __wrap_leati_workers_awake(const struct leati_workers *workers);
unsigned __wrap_leati_workers_awake(const struct leati_workers *workers)
{
    (void)workers;
    return awake;
}

/* Counts a try of this protocol. Returns true if the wrapped call must return *status without doing anything. */
static bool ends(enum leati_protocol_id id, leat_status *status)
{
    tried[id]++;
    *status = outcomes[id] == FAILS ? leati_fail(LEAT_ERROR_DRIVER, "the test fails it") : LEATI_DECLINED;
    return outcomes[id] != AS_IT_IS;
}

#define EAGER_PARAMETERS                                                                                          \
    struct leati_stager *stager, leat_stream *stream, const struct leati_endpoint *to,                            \
        const struct leati_endpoint *from, size_t bytes
leat_status __real_leati_eager_in(EAGER_PARAMETERS);
leat_status __real_leati_eager_out(EAGER_PARAMETERS);
leat_status __wrap_leati_eager_in(EAGER_PARAMETERS);
leat_status __wrap_leati_eager_out(EAGER_PARAMETERS);

leat_status __wrap_leati_eager_in(EAGER_PARAMETERS)
{
    leat_status status;

    return ends(LEATI_PROTOCOL_EAGER, &status) ? status : __real_leati_eager_in(stager, stream, to, from, bytes);
}

leat_status __wrap_leati_eager_out(EAGER_PARAMETERS)
{
    leat_status status;

    return ends(LEATI_PROTOCOL_EAGER, &status) ? status : __real_leati_eager_out(stager, stream, to, from, bytes);
}

/* The protocols STAGED and HOST call this function. Eager copies call it too, and pass through unchanged. */
leat_status __real_leati_stage_start(EAGER_PARAMETERS, const struct leati_stage_request *request,
                                     struct leati_job **job);
leat_status __wrap_leati_stage_start(EAGER_PARAMETERS, const struct leati_stage_request *request,
                                     struct leati_job **job);

leat_status __wrap_leati_stage_start(EAGER_PARAMETERS, const struct leati_stage_request *request,
                                     struct leati_job **job)
{
    leat_status status;

    if (!request->eager && !request->list &&
        ends(request->direction == LEATI_DIRECTION_HOST ? LEATI_PROTOCOL_HOST : LEATI_PROTOCOL_STAGED, &status))
        return status;
    return __real_leati_stage_start(stager, stream, to, from, bytes, request, job);
}

bool __real_leati_region_has_kernel(leat_device *device, const struct leati_location *dst,
                                    const struct leati_location *src, const leat_copy_region *region);
bool __wrap_leati_region_has_kernel(leat_device *device, const struct leati_location *dst,
                                    const struct leati_location *src, const leat_copy_region *region);

bool __wrap_leati_region_has_kernel(leat_device *device, const struct leati_location *dst,
                                    const struct leati_location *src, const leat_copy_region *region)
{
    leat_status status;

    return !ends(LEATI_PROTOCOL_KERNEL, &status) && __real_leati_region_has_kernel(device, dst, src, region);
}

/* For RAILS. declining_share: number of the share that declines, counted from 1; 0: none. shares: number of shares
 * that were reserved. under_the_lock: how many of them while the stream's lock was held. */
static unsigned declining_share, shares, under_the_lock;

static void *try_lock(void *stream)
{
    struct leati_lock *lock = &((leat_stream *)stream)->piece_lock;

    if (!leati_trylock(lock)) {
        under_the_lock++;
        return NULL;
    }
    leati_unlock(lock);
    return NULL;
}

leat_status __real_leati_stage_reserve(struct leati_stage *stage, EAGER_PARAMETERS,
                                       const struct leati_stage_request *request);
leat_status __wrap_leati_stage_reserve(struct leati_stage *stage, EAGER_PARAMETERS,
                                       const struct leati_stage_request *request);

leat_status __wrap_leati_stage_reserve(struct leati_stage *stage, EAGER_PARAMETERS,
                                       const struct leati_stage_request *request)
{
    pthread_t thread;

    /* Try the lock in another thread, because this thread could take a lock that it already holds. */
    assert_int_equal(pthread_create(&thread, NULL, try_lock, stream), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return ++shares == declining_share
               ? LEATI_DECLINED
               : __real_leati_stage_reserve(stage, stager, stream, to, from, bytes, request);
}

struct leati_rails *__real_leati_rails_take(leat_device *device, unsigned count);
struct leati_rails *__wrap_leati_rails_take(leat_device *device, unsigned count);

struct leati_rails *__wrap_leati_rails_take(leat_device *device, unsigned count)
{
    leat_status status;

    return ends(LEATI_PROTOCOL_RAILS, &status) ? NULL : __real_leati_rails_take(device, count);
}

static int setup(void **state)
{
    memset(outcomes, 0, sizeof outcomes);
    memset(tried, 0, sizeof tried);
    awake = 0;
    leati_protocol_force(NOTHING);
    return held_setup(state);
}

static int teardown(void **state)
{
    leati_protocol_force(NOTHING);
    return held_teardown(state);
}
#define PLAN_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

/* ---- choices ---- */

/* Capabilities like those of a GPU, as far as the planner reads them. */
static const struct leati_capabilities of_gpu = {
    .dma_engines = true, .batch = {.fewest_ranges = 16, .largest_bytes = (size_t)128 << 10}};

enum {
    BUSY = 0,
    IDLE = 1,
    EARLY = 2,
    AWAKE = 4,
    FOLLOWED = 8,
    UNSTAGED = 16,
    ONE_PASS = 32,
    RAILS = 64,
    AT_HAND = 128
};

static const struct row {
    const char *name;
    enum leati_shape shape;
    leat_kind to, from;
    size_t bytes;
    size_t count; /* number of ranges or of rows */
    unsigned facts;
    enum leati_protocol_id forced, chosen;
    const char *words; /* text that the explanation must contain */
} rows[] = {
#define P LEAT_KIND_PAGEABLE
#define PIN LEAT_KIND_PINNED
#define D LEAT_KIND_DEVICE
#define RUN LEATI_SHAPE_RUN
#define REGION LEATI_SHAPE_REGION
#define BATCH LEATI_SHAPE_BATCH
#define FILES LEATI_SHAPE_FILE
#define DRIVER LEATI_PROTOCOL_DRIVER
#define EAGER LEATI_PROTOCOL_EAGER
#define STAGED LEATI_PROTOCOL_STAGED
#define KERNEL LEATI_PROTOCOL_KERNEL
#define HOST LEATI_PROTOCOL_HOST
    {"pinned in", RUN, D, PIN, MIB, 0, BUSY, NOTHING, DRIVER, "the device reaches both sides"},
    {"within the device", RUN, D, D, MIB, 0, IDLE, NOTHING, DRIVER, "the device's memory, read and written"},
    {"over rails", RUN, D, PIN, 64 * MIB, 0, RAILS, NOTHING, LEATI_PROTOCOL_RAILS,
     "over 3 host links, and across"},
    {"too short for rails", RUN, D, PIN, 64 * MIB - 1, 0, RAILS, NOTHING, DRIVER, "rails: it is for 64 MiB"},
    {"staged over rails", RUN, D, P, 64 * MIB, 0, RAILS | EARLY, NOTHING, LEATI_PROTOCOL_RAILS, "staged over 3"},
    {"rails out", RUN, P, D, 64 * MIB, 0, RAILS, NOTHING, STAGED, "rails: it is for 64 MiB and more from host"},

    {"short in", RUN, D, P, 4 * KIB, 0, IDLE | EARLY, NOTHING, EAGER, "the stream is idle: it is read at once"},
    {"short in on a busy stream", RUN, D, P, 4 * KIB, 0, EARLY, NOTHING, EAGER, "nothing before it on the stream"},
    {"short in behind a writer", RUN, D, P, 4 * KIB, 0, BUSY, NOTHING, STAGED,
     "eager: earlier work of the stream may write the source"},
    {"2 MiB in", RUN, D, P, 2 * MIB, 0, IDLE | EARLY, NOTHING, EAGER, "whom leat's threads help"},
    {"2 MiB in, with workers awake", RUN, D, P, 2 * MIB, 0, IDLE | EARLY | AWAKE, NOTHING, EAGER,
     "protocol  eager"},
    {"more than 2 MiB in", RUN, D, P, 2 * MIB + 1, 0, IDLE | EARLY, NOTHING, STAGED, "eager: more than 2 MiB"},
    {"followed, short", RUN, D, P, 64 * KIB, 0, IDLE | EARLY | FOLLOWED, NOTHING, EAGER, "driver if no other can"},
    {"followed", RUN, D, P, 64 * KIB + 1, 0, IDLE | EARLY | FOLLOWED, NOTHING, STAGED, "nothing could stop it"},
    {"short out", RUN, P, D, 4 * KIB, 0, IDLE, NOTHING, EAGER,
     "the destination is pageable, and the stream is idle"},
    {"short out of a busy stream", RUN, P, D, 4 * KIB, 0, BUSY, NOTHING, STAGED, "eager: the stream is busy"},
    {"out", RUN, P, D, 16 * MIB, 0, IDLE, NOTHING, STAGED, "chunks through a ring of 16 MiB of pinned memory"},
    {"nothing can be staged", RUN, D, P, 16 * MIB, 0, UNSTAGED, NOTHING, DRIVER,
     "eager and staged and host: for a test"},
    {"one pass", RUN, D, P, 16 * MIB, 0, ONE_PASS | UNSTAGED, NOTHING, DRIVER,
     "the device reads and writes pageable"},
    {"one pass, followed", RUN, D, P, 16 * MIB, 0, ONE_PASS | FOLLOWED, NOTHING, HOST, "which threads can stop"},
    {"within the host", RUN, P, P, 16 * MIB, 0, BUSY, NOTHING, HOST, "bound     the host's memory"},
    {"pinned to pageable", RUN, P, PIN, 4 * KIB, 0, BUSY, NOTHING, HOST, "both sides are in host memory"},

    {"the driver is asked for", RUN, D, P, 4 * KIB, 0, IDLE | EARLY, DRIVER, DRIVER, "LEAT_COPY_PROTOCOL asks"},
    {"the driver would wait", RUN, D, P, 4 * KIB, 0, EARLY, DRIVER, EAGER, "it might wait for the stream"},
    {"staged is asked for", RUN, P, D, 4 * KIB, 0, IDLE, STAGED, STAGED, "LEAT_COPY_PROTOCOL asks"},
    {"eager is asked for", RUN, P, D, 4 * MIB, 0, IDLE, EAGER, STAGED, "eager: more than 2 MiB"},
    {"a kernel is asked for", RUN, D, D, 4 * MIB, 0, IDLE, KERNEL, DRIVER, "kernel: it is for regions"},

    {"wide rows", REGION, D, D, 1024 * KIB, 100, IDLE, NOTHING, DRIVER, "the driver's call for rectangles"},
    {"narrow rows", REGION, D, D, 60 * 100, 100, IDLE, NOTHING, KERNEL, "the rows are narrow"},
    {"a few narrow rows", REGION, D, D, 10 * 63, 63, IDLE, NOTHING, DRIVER, "kernel 10"},
    {"narrow rows, the driver", REGION, D, D, 60 * 100, 100, IDLE, DRIVER, DRIVER, "LEAT_COPY_PROTOCOL asks"},
    {"rows in", REGION, D, P, 1024 * KIB, 64, EARLY, NOTHING, STAGED, "rows packed into a ring"},
    {"a few rows in", REGION, D, P, 16 * KIB, 64, EARLY, NOTHING, EAGER, "ring of pinned memory by the caller"},
    {"rows out", REGION, P, D, 16 * KIB, 64, IDLE, NOTHING, STAGED, "eager: the destination has gaps"},
    {"long rows in", REGION, D, P, 32 * MIB, 2, EARLY, NOTHING, DRIVER, "staged: a row fills too much of a ring"},
    {"rows within the host", REGION, P, P, 16 * KIB, 64, IDLE, NOTHING, HOST, "by leat's threads, in one pass"},

    {"a short file in", FILES, D, P, MIB, 0, EARLY | AT_HAND, NOTHING, EAGER, "eager: read by the caller, whom"},
    {"a file of the disk", FILES, D, P, MIB, 0, EARLY, NOTHING, STAGED, "eager: the caller would have to wait"},
    {"a longer file in", FILES, D, P, 2 * MIB + 1, 0, EARLY, NOTHING, STAGED, "eager: more than 2 MiB"},
    {"a short file behind a writer", FILES, D, P, MIB, 0, AT_HAND, NOTHING, STAGED,
     "eager: earlier work of the stream may write the source"},
    {"a short file, followed", FILES, D, P, MIB, 0, EARLY | AT_HAND | FOLLOWED, NOTHING, STAGED,
     "eager: nothing could stop it"},
    {"a short file out", FILES, P, D, MIB, 0, IDLE, NOTHING, STAGED, "eager: leat's threads write files"},

    {"many", BATCH, D, PIN, 64 * KIB, 16, IDLE, NOTHING, KERNEL, "gathers and scatters over mapped memory"},
    {"few", BATCH, D, PIN, 64 * KIB, 15, IDLE, NOTHING, DRIVER, "one by one"},
    {"many in", BATCH, D, P, 64 * KIB, 16, IDLE | EARLY, NOTHING, STAGED,
     "packed into pinned memory by the caller"},
    {"many behind a writer", BATCH, D, P, 64 * KIB, 16, BUSY, NOTHING, STAGED, "by a host function of the stream"},
    {"many out", BATCH, P, D, 64 * KIB, 16, BUSY, NOTHING, STAGED, "gathered into pinned memory"},
    {"many within the host", BATCH, P, PIN, 64 * KIB, 16, BUSY, NOTHING, HOST, "by a host function of the stream"},
};

static struct leati_endpoint endpoint_of(struct test_state *t, leat_kind kind, uintptr_t address)
{
    struct leati_endpoint target = {.location = {.ptr = (void *)address, .kind = kind}};

    if (kind == LEAT_KIND_PAGEABLE)
        return target;
    target.device = t->device;
    target.driver = t->device->driver;
    target.location.device = kind == LEAT_KIND_DEVICE ? t->device->native : NULL;
    return target;
}

static enum leati_direction direction_of(const struct row *row)
{
    if (row->to != P && row->from != P)
        return LEATI_DIRECTION_DEVICE;
    if (row->to != D && row->from != D)
        return LEATI_DIRECTION_HOST;
    return row->from == P ? LEATI_DIRECTION_IN : LEATI_DIRECTION_OUT;
}

static struct leati_plan make_plan(struct test_state *t, const struct row *row, struct leati_stager *stager)
{
    struct leati_plan plan = {.transfer = {.stream = t->stream,
                                           .to = endpoint_of(t, row->to, 0x100000),
                                           .from = endpoint_of(t, row->from, 0x200000000),
                                           .bytes = row->bytes,
                                           .shape = row->shape,
                                           .direction = direction_of(row),
                                           .followed = row->facts & FOLLOWED},
                              .forced = row->forced,
                              .stager = row->facts & UNSTAGED ? NULL : stager,
                              .unstaged = "for a test",
                              .one_pass = row->facts & ONE_PASS,
                              .early = row->facts & EARLY,
                              .idle = row->facts & IDLE,
                              .rails = row->facts & RAILS ? 2 : 0};

    if (row->shape == BATCH)
        plan.transfer.count = row->count;
    if (row->shape == FILES)
        plan.transfer.file = (struct leati_storage){.write = row->to == P, .at_hand = row->facts & AT_HAND};
    if (row->shape == REGION)
        plan.transfer.region = (leat_copy_region){.width_bytes = row->bytes / row->count,
                                                  .height = row->count,
                                                  .depth = 1,
                                                  .dst_pitch_bytes = row->bytes / row->count * 2,
                                                  .src_pitch_bytes = row->bytes / row->count * 4};
    return plan;
}

static void the_fastest_is_chosen(void **state)
{
    struct test_state *t = *state;
    const struct leati_capabilities *can = t->device->driver->can;
    struct leati_stager *stager;

    OK(leati_stager_get(t->device, &stager));
    stager->choice.probed = false; /* takes the constant rate: the measured one depends on what else runs here */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct leati_plan plan = make_plan(t, &rows[i], stager);
        char text[2000];
        struct leati_strbuf out = {.at = text, .left = sizeof text};

        text[0] = '\0';
        awake = rows[i].facts & AWAKE ? 4 : 0;
        t->device->driver->can = &of_gpu;
        OK(leati_plan_compare(&plan));
        leati_explain_plan(&out, &plan, NULL);
        t->device->driver->can = can;
        if (plan.protocol != rows[i].chosen || !strstr(text, rows[i].words))
            fail_msg("%s: not %s, or not '%s' in\n%s", rows[i].name, leati_protocols[rows[i].chosen]->name,
                     rows[i].words, text);
    }
}

/* ---- rates ---- */

static void rates_follow_what_is_seen(void **state)
{
    struct test_state *t = *state;
    const struct leati_capabilities *can = t->device->driver->can;
    uint64_t before = leati_cost_pageable(t->device, false, MIB), after;

    /* leat must not change the rates of the CPU device. */
    leati_costs_saw(t->device, LEATI_RATE_DRIVER_IN, MIB, leati_costs_start(t->device, MIB));
    assert_int_equal(leati_cost_pageable(t->device, false, MIB), before);
    t->device->driver->can = &of_gpu;
    assert_int_equal(leati_costs_start(t->device, KIB), 0);
    leati_costs_saw(t->device, LEATI_RATE_DRIVER_IN, MIB, leati_costs_start(t->device, MIB) - 1000000);
    after = leati_cost_pageable(t->device, false, MIB);
    assert_true(after > before && after < before + before / 4);
    for (int i = 0; i < 100; i++)
        leati_costs_saw(t->device, LEATI_RATE_DRIVER_IN, MIB, leati_costs_start(t->device, MIB) - 1000000);
    /* A measurement far from the usual rate may have another cause. So leat does not count it as slower than half
     * the usual rate. */
    after = leati_cost_pageable(t->device, false, MIB);
    assert_true(after > before + before / 2 && after < 2 * before);
    leati_costs_set(t->device, LEATI_RATE_DRIVER_IN, 0);
    assert_int_equal(leati_cost_pageable(t->device, false, MIB), before);
    t->device->driver->can = can;
}

/* ---- protocols that decline, and protocols that fail ---- */

struct room {
    unsigned char *in, *out, *memory;
    size_t bytes;
};

static struct room make_room(struct test_state *t, size_t bytes)
{
    return (struct room){test_buffer(bytes), test_buffer(bytes), test_alloc(t->device, LEAT_KIND_DEVICE, bytes),
                         bytes};
}

static void end_room(struct room *room)
{
    OK(leat_memory_free(room->memory));
    free(room->in);
    free(room->out);
}

static void there_and_back(struct test_state *t, struct room *room, unsigned seed)
{
    test_pattern(room->in, room->bytes, seed);
    memset(room->out, 0, room->bytes);
    OK(leat_copy(t->stream, room->memory, room->in, room->bytes));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_copy(t->stream, room->out, room->memory, room->bytes));
    OK(leat_stream_synchronize(t->stream));
    EXPECT_PATTERN(room->out, room->bytes, seed);
}

/* The bytes must arrive, whichever protocol is forced and whichever protocols decline. */
static void another_comes_after_one_that_declines(void **state)
{
    static const size_t sizes[] = {4 * KIB, MIB, 4 * MIB};
    struct test_state *t = *state;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct room room = make_room(t, sizes[i]);

        for (enum leati_protocol_id forced = 0; forced <= NOTHING; forced++) {
            leati_protocol_force(forced);
            for (unsigned decline = 0; decline < 4; decline++) {
                outcomes[EAGER] = decline & 1 ? DECLINES : AS_IT_IS;
                outcomes[STAGED] = decline & 2 ? DECLINES : AS_IT_IS;
                there_and_back(t, &room, decline);
            }
        }
        end_room(&room);
    }
    assert_true(tried[EAGER] && tried[STAGED]);
}

static void without_pinned_memory_the_driver_copies(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t, 16 * MIB);
    struct leati_stager *stager;

    there_and_back(t, &room, 1);
    held_no_memory = true;
    OK(leati_stager_get(t->device, &stager));
    for (int i = 0; i < 2; i++)
        OK(leat_pool_trim(leati_stager_pool(stager, (enum leati_store_policy)i), 0, NULL, NULL));
    there_and_back(t, &room, 2);
    held_no_memory = false;
    end_room(&room);
}

static void expect_failure(struct test_state *t, void *dst, const void *src, size_t bytes, const char *words)
{
    char prefix[100];

    snprintf(prefix, sizeof prefix, "leat_copy of %zu bytes on cpu:0: %s", bytes, words);
    assert_int_equal(leat_copy(t->stream, dst, src, bytes), LEAT_ERROR_DRIVER);
    if (strncmp(leat_last_error(), prefix, strlen(prefix)) != 0)
        fail_msg("'%s' instead of '%s'", leat_last_error(), prefix);
    OK(leat_stream_synchronize(t->stream));
}

static void failures_name_their_protocol(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t, 4 * MIB);
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, MIB);

    there_and_back(t, &room, 1);
    outcomes[EAGER] = outcomes[STAGED] = outcomes[HOST] = FAILS;
    expect_failure(t, room.memory, room.in, 4 * KIB, "eager: the test fails it");
    expect_failure(t, room.out, room.memory, MIB, "eager: the test fails it");
    expect_failure(t, room.memory, room.in, 4 * MIB, "staged: the test fails it");
    expect_failure(t, room.out, room.memory, 4 * MIB, "staged: the test fails it");
    expect_failure(t, room.out, room.in, 4 * MIB, "host: the test fails it");
    /* Here one protocol declines and the next one fails. */
    outcomes[EAGER] = DECLINES;
    leati_protocol_force(STAGED);
    expect_failure(t, room.memory, room.in, MIB, "staged: the test fails it");
    leati_fault_arm(held_driver, LEATI_FAULT_FAIL, "copy", 1);
    expect_failure(t, room.memory, pinned, MIB, "driver: ");
    OK(leat_memory_free(pinned));
    end_room(&room);
}

/* The driver's call would crash because a page is inaccessible, so leat must not use it for this copy. */
static void what_is_gone_is_no_copy_for_the_driver(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t, MIB);
    unsigned char *hole = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    test_let_leat_catch_faults();
    there_and_back(t, &room, 1);
    assert_true(hole != MAP_FAILED);
    memset(hole, 1, MIB);
    assert_int_equal(mprotect(hole + MIB / 2, 4096, PROT_NONE), 0);
    leati_protocol_force(DRIVER);
    REFUSED(leat_copy(t->stream, room.memory, hole, MIB), LEAT_ERROR_POINTER, "eager: ");
    OK(leat_stream_synchronize(t->stream)); /* the stream must be idle for the next copy */
    REFUSED(leat_copy(t->stream, hole, room.memory, MIB), LEAT_ERROR_POINTER, "eager: ");
    assert_int_equal(munmap(hole, MIB), 0);
    OK(leat_stream_synchronize(t->stream));
    there_and_back(t, &room, 2);
    end_room(&room);
}

static void regions_without_their_kernel(void **state)
{
    leat_copy_region region = {
        .width_bytes = 20, .height = 100, .depth = 1, .dst_pitch_bytes = 32, .src_pitch_bytes = 64};
    struct test_state *t = *state;
    unsigned char *from = test_alloc(t->device, LEAT_KIND_DEVICE, 6400), *in = test_buffer(6400);
    unsigned char *to = test_alloc(t->device, LEAT_KIND_DEVICE, 3200), *out = test_buffer(3200);

    test_pattern(in, 6400, 1);
    OK(leat_copy_sync(t->stream, from, in, 6400));
    leati_protocol_force(KERNEL);
    for (unsigned i = 0; i < 3; i++) {
        outcomes[KERNEL] = i == 1 ? DECLINES : AS_IT_IS;
        if (i == 2) {
            leati_fault_arm(held_driver, LEATI_FAULT_FAIL, "launch", 1);
            REFUSED(leat_copy_3d(t->stream, to, from, &region), LEAT_ERROR_DRIVER, "kernel: ");
            break;
        }
        OK(leat_fill(t->stream, to, 0, 3200));
        OK(leat_copy_3d(t->stream, to, from, &region));
        OK(leat_copy_sync(t->stream, out, to, 3200));
        for (size_t y = 0; y < region.height; y++)
            assert_memory_equal(out + y * 32, in + y * 64, 20);
    }
    assert_int_equal(tried[KERNEL], 3);
    OK(leat_memory_free(from));
    OK(leat_memory_free(to));
    free(in);
    free(out);
}

static void large_copies_without_rails(void **state)
{
    const size_t bytes = 64 * MIB;
    struct test_state *t = *state;
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, bytes);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, bytes);
    leat_device *helper;

    OK(leat_device_open("cpu:1", &helper));
    OK(leat_copy_set_rails(t->device, &helper, 1));
    for (unsigned i = 0; i < 2; i++) {
        outcomes[LEATI_PROTOCOL_RAILS] = i ? DECLINES : AS_IT_IS;
        test_pattern(pinned, bytes, i);
        OK(leat_copy(t->stream, memory, pinned, bytes));
        OK(leat_stream_synchronize(t->stream));
        memset(pinned, 0, bytes);
        OK(leat_copy_sync(t->stream, pinned, memory, bytes));
        OK(leat_stream_synchronize(t->stream));
        EXPECT_PATTERN(pinned, bytes, i);
    }
    assert_int_equal(tried[LEATI_PROTOCOL_RAILS], 2);
    OK(leat_device_close(helper));
    OK(leat_memory_free(pinned));
    OK(leat_memory_free(memory));
}

/* A copy that waits for staging memory must not hold the lock of its stream, because the thread that has the
 * memory may need that lock. If leat cannot reserve memory for one share, it must free the memory of the other
 * shares. */
static void shares_are_reserved_before_the_stream_is_locked(void **state)
{
    const size_t bytes = 64 * MIB;
    struct test_state *t = *state;
    struct room room = make_room(t, bytes);
    leat_device *helper;

    OK(leat_device_open("cpu:1", &helper));
    OK(leat_copy_set_rails(t->device, &helper, 1));
    leati_protocol_force(LEATI_PROTOCOL_RAILS);
    under_the_lock = 0;
    for (declining_share = 0; declining_share <= 2; declining_share++) {
        shares = 0;
        there_and_back(t, &room, declining_share);
        assert_int_equal(shares, declining_share == 1 ? 1 : 2);
    }
    assert_int_equal(under_the_lock, 0);
    declining_share = 0;
    OK(leat_device_close(helper));
    end_room(&room);
}

/* If the driver has no call for regions, leat must copy row by row. */
static void regions_without_the_drivers_call(void **state)
{
    leat_copy_region region = {
        .width_bytes = 20, .height = 10, .depth = 1, .dst_pitch_bytes = 32, .src_pitch_bytes = 64};
    struct test_state *t = *state;
    const struct leati_driver_ops *ops = t->device->driver->ops;
    struct leati_driver_ops without = *ops;
    unsigned char *from = test_alloc(t->device, LEAT_KIND_DEVICE, 640), *in = test_buffer(640);
    unsigned char *to = test_alloc(t->device, LEAT_KIND_DEVICE, 320), *out = test_buffer(320);
    char text[1000];

    without.copy_3d = NULL;
    leati_protocol_force(DRIVER);
    t->device->driver->ops = &without;
    test_pattern(in, 640, 1);
    OK(leat_copy_sync(t->stream, from, in, 640));
    OK(leat_copy_3d_explain(t->stream, to, from, &region, text, sizeof text));
    assert_non_null(strstr(text, "the driver's call for each row"));
    OK(leat_copy_3d(t->stream, to, from, &region));
    OK(leat_copy_sync(t->stream, out, to, 320));
    for (size_t y = 0; y < region.height; y++)
        assert_memory_equal(out + y * 32, in + y * 64, 20);
    OK(leat_memory_free(from));
    OK(leat_memory_free(to));
    free(in);
    free(out);
    t->device->driver->ops = ops;
}

static void each_protocol_may_be_asked_for(void **state)
{
    enum leati_protocol_id forced;

    (void)state;
    for (enum leati_protocol_id id = 0; id <= NOTHING; id++) {
        leati_protocol_force(id);
        OK(leati_protocol_forced(&forced));
        assert_int_equal(forced, id);
    }
}

static const struct CMUnitTest tests[] = {
    PLAN_TEST(the_fastest_is_chosen),
    PLAN_TEST(rates_follow_what_is_seen),
    PLAN_TEST(another_comes_after_one_that_declines),
    PLAN_TEST(without_pinned_memory_the_driver_copies),
    PLAN_TEST(failures_name_their_protocol),
    PLAN_TEST(what_is_gone_is_no_copy_for_the_driver),
    PLAN_TEST(regions_without_their_kernel),
    PLAN_TEST(large_copies_without_rails),
    PLAN_TEST(shares_are_reserved_before_the_stream_is_locked),
    PLAN_TEST(regions_without_the_drivers_call),
    PLAN_TEST(each_protocol_may_be_asked_for),
};

int main(void)
{
    setenv("LEAT_TEST_DEVICE", "cpu:0", 1);
    setenv("LEAT_DRIVERS", "cpu", 1);
    setenv("LEAT_COPY_STAGE", "1", 1);
    setenv("LEAT_COPY_WORKERS", "3", 1);
    unsetenv("LEAT_COPY_PROTOCOL");
    unsetenv("LEAT_COPY_RING");
    held_begin();
    test_keep_handlers();
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
