/*
 * unit_copy_waits.c - tests each wait of the copy engine separately. Each test holds up the work that a copy must
 * wait for (held.h), so that a copy that does not wait moves wrong bytes or returns too early every time, and not
 * only when the timing is unlucky. The CPU device stages pageable memory here as a GPU does.
 */
#include "copy_waits.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define STAGED_BYTES (8 * MIB) /* so long that leat stages the copy even if the stream is idle */
#define MEMORY_BYTES (4 * MIB) /* value of LEAT_COPY_MEMORY, the limit of the memory of staged copies */

/* ---- memory ---- */

struct room {
    size_t bytes;
    unsigned char *in, *out;        /* pageable memory */
    unsigned char *pinned, *memory; /* pinned and device memory */
};

static struct room make_room(leat_device *device, size_t bytes)
{
    struct room room = {.bytes = bytes, .in = test_buffer(bytes), .out = test_buffer(bytes)};

    room.pinned = test_alloc(device, LEAT_KIND_PINNED, bytes);
    room.memory = test_alloc(device, LEAT_KIND_DEVICE, bytes);
    memset(room.in, 0, bytes);
    memset(room.out, 0, bytes);
    memset(room.pinned, 0, bytes);
    return room;
}

static void end_room(struct room *room)
{
    held_before_copy = NULL;
    OK(leat_memory_free(room->memory));
    OK(leat_memory_free(room->pinned));
    free(room->in);
    free(room->out);
}

/* Fails unless device memory holds the pattern. Reads it through another stream. */
static void expect_there(struct test_state *t, struct room *room, uint64_t seed)
{
    held_before_copy = NULL;
    memset(room->pinned, 0xee, room->bytes);
    OK(leat_copy(t->second, room->pinned, room->memory, room->bytes));
    OK(leat_stream_synchronize(t->second));
    EXPECT_PATTERN(room->pinned, room->bytes, seed);
}

/* ---- short copies ---- */

static void delay_all(void *stream, struct leati_location dst, struct leati_location src, size_t bytes)
{
    (void)dst;
    (void)src;
    (void)bytes;
    held_delay(stream);
}

/* Makes more copies than the stream's ring has slots. Each slot must keep its bytes until its DMA has read
 * them. */
static void short_copies_keep_their_place_in_the_ring(void **state)
{
    enum { COUNT = 24 };
    const size_t each = LEATI_EAGER_SHORT_BYTES;
    struct test_state *t = *state;
    struct room room = make_room(t->device, COUNT * each);

    for (uint64_t round = 0; round < 3; round++) {
        /* In the first round the whole stream is held up. In the later rounds copies run while others are
         * submitted, and the first copy uses the middle of a quarter of the ring. */
        struct test_gate *gate = round ? NULL : held_close(t->stream->native);

        held_before_copy = round ? delay_all : NULL;
        test_pattern(room.in, room.bytes, round);
        for (size_t i = 0; i < COUNT; i++)
            OK(leat_copy(t->stream, room.memory + i * each, room.in + i * each, each));
        assert_non_null(atomic_load(&t->stream->staging));
        if (gate) {
            EXPECT_HELD(t->stream, gate);
            test_gate_open(gate);
        }
        OK(leat_stream_synchronize(t->stream));
        expect_there(t, &room, round);
    }
    end_room(&room);
}

static void two_threads_fill_one_ring(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, 64 * KIB);

    test_pattern(room.in, room.bytes, 1);
    for (int i = 0; i < 2; i++)
        halves[i] = (struct half){.stream = t->stream,
                                  .dst = room.memory + (size_t)i * 32 * KIB,
                                  .src = room.in + (size_t)i * 32 * KIB,
                                  .bytes = 32 * KIB,
                                  .stop = room.memory};
    held_before_copy = let_the_other_go_first;
    copy_halves();
    OK(leat_stream_synchronize(t->stream));
    expect_there(t, &room, 1);
    end_room(&room);
}

/* A short copy from the device must be complete when the call returns, even if its DMA is slow. */
static void a_short_copy_out_is_waited_for(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, 10000);

    test_pattern(room.pinned, room.bytes, 2);
    OK(leat_copy(t->stream, room.memory, room.pinned, room.bytes));
    OK(leat_stream_synchronize(t->stream));
    held_before_copy = delay_all;
    OK(leat_copy(t->stream, room.out, room.memory, room.bytes));
    EXPECT_PATTERN(room.out, room.bytes, 2);
    end_room(&room);
}

static struct test_gate *held_copy;
static void *slots[2];
static unsigned slot_count;

static void hold_first_copy(void *stream, struct leati_location dst, struct leati_location src, size_t bytes)
{
    (void)src;
    (void)bytes;
    if (slot_count < 2)
        slots[slot_count++] = dst.ptr;
    if (!held_copy)
        held_copy = held_close(stream);
}

/* If the wait for the stream fails, the DMA may still write to its slot. So no other copy may get that slot. */
static void a_place_that_was_not_waited_for_is_lost(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, 10000);
    leat_status status;

    test_pattern(room.pinned, room.bytes, 3);
    OK(leat_copy(t->second, room.memory, room.pinned, room.bytes));
    /* The first short copy from the device creates the stream's staging memory. */
    OK(leat_copy(t->second, room.out, room.memory, room.bytes));
    OK(leat_stream_synchronize(t->second));
    held_copy = NULL;
    slot_count = 0;
    held_before_copy = hold_first_copy;
    leati_fault_arm(held_driver, LEATI_FAULT_FAIL, "stream_synchronize", 1);
    status = leat_copy(t->stream, room.out, room.memory, room.bytes);
    leati_fault_arm(held_driver, LEATI_FAULT_NONE, NULL, 0);
    assert_int_equal(status, LEAT_ERROR_DRIVER);
    OK(leat_copy(t->second, room.out, room.memory, room.bytes));
    EXPECT_PATTERN(room.out, room.bytes, 3);
    assert_int_equal(slot_count, 2);
    assert_ptr_not_equal(slots[0], slots[1]);
    test_gate_open(held_copy);
    OK(leat_stream_synchronize(t->stream));
    end_room(&room);
}

/* Makes copies that would reuse a ring that was freed too early: short copies on new streams, and long copies,
 * which reclaim memory. */
static void use_other_rings(struct test_state *t, struct room *room)
{
    for (int round = 0; round < 3; round++) {
        leat_stream *stream;

        OK(leat_copy_sync(t->second, room->memory, room->in, room->bytes));
        OK(leat_copy_sync(t->second, room->out, room->memory, room->bytes));
        OK(leat_stream_create(t->device, &stream));
        for (size_t i = 0; i < 8; i++)
            OK(leat_copy(stream, room->memory, room->in + i * 32 * KIB, 32 * KIB));
        OK(leat_stream_synchronize(stream));
        OK(leat_stream_destroy(stream));
    }
}

/* The ring of a destroyed stream must stay until the stream's work is done, and must be freed then. before: number
 * of copies that complete before the stream is held up; five copies use more than a quarter of the ring. */
static void the_ring_of_a_stream_that_ends_stays(void **state)
{
    const size_t each = 32 * KIB;
    struct test_state *t = *state;
    struct room room = make_room(t->device, 8 * each), other = make_room(t->device, STAGED_BYTES);
    struct leati_stager *stager;

    for (size_t before = 0; before <= 5; before += 5) {
        struct test_gate *gate = NULL;
        leat_stream *stream;

        OK(leat_stream_create(t->device, &stream));
        test_pattern(room.in, room.bytes, 4 + before);
        for (size_t i = 0; i < 8; i++) {
            if (i == before) {
                OK(leat_stream_synchronize(stream));
                gate = held_close(stream->native);
            }
            OK(leat_copy(stream, room.memory + i * each, room.in + i * each, each));
        }
        assert_non_null(atomic_load(&stream->staging));
        OK(leat_stream_destroy(stream));
        use_other_rings(t, &other);
        assert_int_equal(atomic_load(&gate->passed), 0);
        test_gate_open(gate);
        OK(leat_device_synchronize(t->device));
        expect_there(t, &room, 4 + before);
        /* This copy removes finished jobs from the list, so the list must then contain this copy only. */
        OK(leati_stager_get(t->device, &stager));
        OK(leat_copy(t->second, other.memory, other.in, STAGED_BYTES));
        assert_non_null(stager->issued);
        assert_null(stager->issued->next_issued);
        OK(leat_stream_synchronize(t->second));
    }
    end_room(&other);
    end_room(&room);
}

/* ---- staged copies that fail in the middle ---- */

/* If the driver refuses a call in the middle of a copy, earlier calls still use the ring and the caller's memory.
 * These calls must be complete before leat reports the failure. n: number of the driver call that fails. */
static void a_staged_copy_that_fails_is_waited_for(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, STAGED_BYTES);

    for (int out = 0; out < 2; out++) {
        for (uint64_t n = 2; n <= 3; n++) {
            struct held_watch watch = {.until_fault = true};
            leat_status status;

            OK(leat_copy_sync(t->stream, room.memory, room.in, room.bytes));
            watch.gate = held_close(t->stream->native);
            leati_fault_arm(held_driver, LEATI_FAULT_FAIL, "stream_mem_ops", n);
            held_watch_start(&watch);
            status = out ? leat_copy(t->stream, room.out, room.memory, room.bytes)
                         : leat_copy(t->stream, room.memory, room.in, room.bytes);
            held_watch_end(&watch);
            leati_fault_arm(held_driver, LEATI_FAULT_NONE, NULL, 0);
            assert_int_equal(status, LEAT_ERROR_DRIVER);
        }
    }
    end_room(&room);
}

/* When leat_copy_sync() from the device returns, the stream must be idle and have no more flags to write. */
static void a_synchronous_copy_waits_for_its_stream(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, STAGED_BYTES);

    for (int round = 0; round < 3; round++) {
        held_slow_flags = true;
        OK(leat_copy_sync(t->stream, room.out, room.memory, room.bytes));
        held_slow_flags = false;
        OK(held_driver->ops->stream_query(held_driver, t->stream->native));
    }
    end_room(&room);
}

/* ---- the limit of staging memory ---- */

/* Submits more bytes than LEAT_COPY_MEMORY to a stream that is held up. A call must then wait. */
static void long_copies_wait_for_memory(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, STAGED_BYTES);
    struct held_watch watch = {.gate = held_close(t->stream->native)};

    test_pattern(room.in, room.bytes, 40);
    held_watch_start(&watch);
    for (int i = 0; i < 100; i++)
        OK(leat_copy(t->stream, room.memory, room.in, room.bytes));
    held_watch_end(&watch);
    OK(leat_stream_synchronize(t->stream));
    expect_there(t, &room, 40);
    end_room(&room);
}

static void many_copies_wait_for_memory(void **state)
{
    enum { PAIRS = 2000 };
    static leat_copy_op pairs[PAIRS];
    struct test_state *t = *state;
    struct room room = make_room(t->device, 2 * MEMORY_BYTES);
    size_t each = room.bytes / PAIRS;
    struct held_watch watch = {0};

    /* The pairs are in descending order on the device, so that leat cannot merge them. */
    test_pattern(room.in, room.bytes, 41);
    for (size_t i = 0; i < PAIRS; i++)
        pairs[i] = (leat_copy_op){room.memory + (PAIRS - 1 - i) * each, room.in + i * each, each};
    OK(leat_copy_batch(t->second, pairs, PAIRS));
    OK(leat_stream_synchronize(t->second));
    watch.gate = held_close(t->stream->native);
    held_watch_start(&watch);
    OK(leat_copy_batch(t->stream, pairs, PAIRS));
    held_watch_end(&watch);
    OK(leat_copy(t->stream, room.pinned, room.memory, room.bytes));
    OK(leat_stream_synchronize(t->stream));
    for (size_t i = 0; i < PAIRS; i++)
        assert_memory_equal(room.pinned + (PAIRS - 1 - i) * each, room.in + i * each, each);
    end_room(&room);
}

/* leat packs this layout in two pieces, which are far apart in pageable memory. The second piece must wait for
 * memory. */
static void layouts_wait_for_memory(void **state)
{
    const int64_t row = 2100000;
    struct test_state *t = *state;
    leat_layout near = {.dims = 2, .element_bytes = 16, .size = {2, row}, .stride_bytes = {16 * row, 16}};
    leat_layout far = near;
    char *host = mmap(NULL, (size_t)row * 96, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *memory = test_alloc(t->device, LEAT_KIND_DEVICE, (size_t)row * 32);
    struct held_watch watch = {.gate = NULL};
    leat_module *module;

    assert_true(host != MAP_FAILED);
    OK(leat_module_layout(t->device, &module));
    far.stride_bytes[0] = 48 * row;
    far.stride_bytes[1] = 48;
    watch.gate = held_close(t->stream->native);
    held_watch_start(&watch);
    OK(leat_copy_layout(t->stream, memory, &near, host, &far));
    held_watch_end(&watch);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_memory_free(memory));
    munmap(host, (size_t)row * 96);
}

/* Without pinned memory the driver makes the copies. These copies must not count against the limit of staging
 * memory. */
static void copies_without_memory_use_up_no_limit(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, STAGED_BYTES);
    struct leati_stager *stager;

    OK(leati_stager_get(t->device, &stager));
    for (int i = 0; i < 2; i++)
        OK(leat_pool_trim(leati_stager_pool(stager, (enum leati_store_policy)i), 0, NULL, NULL));
    for (uint64_t round = 0; round < 3; round++) {
        held_no_memory = true;
        test_pattern(room.in, room.bytes, 42 + round);
        OK(leat_copy(t->stream, room.memory, room.in, room.bytes));
        OK(leat_stream_synchronize(t->stream));
        assert_int_equal(stager->held_bytes, 0);
        held_no_memory = false;
        expect_there(t, &room, 42 + round);
    }
    end_room(&room);
}

/* A stream's first short copy allocates the stream's ring. Without pinned memory another protocol makes the copy. */
static void a_short_copy_without_memory_is_made(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, 4 * KIB);
    struct leati_stager *stager;
    leat_stream *fresh;

    OK(leati_stager_get(t->device, &stager));
    for (int i = 0; i < 2; i++)
        OK(leat_pool_trim(leati_stager_pool(stager, (enum leati_store_policy)i), 0, NULL, NULL));
    OK(leat_stream_create(t->device, &fresh));
    held_no_memory = true;
    test_pattern(room.in, room.bytes, 77);
    OK(leat_copy(fresh, room.memory, room.in, room.bytes));
    OK(leat_copy(fresh, room.out, room.memory, room.bytes));
    OK(leat_stream_synchronize(fresh));
    held_no_memory = false;
    EXPECT_PATTERN(room.out, room.bytes, 77);
    expect_there(t, &room, 77);
    OK(leat_stream_destroy(fresh));
    end_room(&room);
}

/* A cancel after the copy was staged is too late: all bytes are staged, so the copy must succeed. */
static void a_cancel_of_what_is_staged_is_too_late(void **state)
{
    enum { BYTES = 128 << 10 }; /* fits into the ring */
    struct test_state *t = *state;
    struct room room = make_room(t->device, BYTES);
    struct test_gate *gate = held_close(t->stream->native);
    leat_ticket_info info = LEAT_TICKET_INFO_INIT;
    leat_ticket *ticket;

    test_pattern(room.in, BYTES, 43);
    /* After this fill, leat knows that the stream has pending work that does not write the source. */
    OK(leat_fill(t->stream, room.memory, 0, BYTES));
    ticket = test_copy_start(t->stream, room.memory, room.in, BYTES);
    OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_STAGED, LEAT_FOREVER));
    OK(leat_ticket_cancel(ticket));
    info = test_ticket_info(ticket);
    assert_true(info.staged && !info.done && info.status == LEAT_OK);
    OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_STAGED, 0));
    test_gate_open(gate);
    OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    info = test_ticket_info(ticket);
    assert_true(info.done && info.status == LEAT_OK && info.arrived_bytes == BYTES);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_ticket_destroy(ticket));
    expect_there(t, &room, 43);
    end_room(&room);
}

/* State of copy_slowly(), which the threads of a job call. */
static atomic_int list_entered, list_left;

static size_t copy_slowly(const void *list, size_t first, size_t count, uintptr_t *fault)
{
    (void)list;
    (void)first;
    (void)fault;
    atomic_store(&list_entered, 1);
    held_moment();
    atomic_store(&list_left, 1);
    return count;
}

static bool refuse_in_the_middle(const char *entry, void *stream)
{
    (void)entry;
    (void)stream;
    (void)test_wait_for(&list_entered, 1);
    return true;
}

/* The driver refuses flags while a thread copies, and then also refuses to wait, as after the loss of a device.
 * The thread must have finished with the caller's memory before leat reports the failure. */
static void threads_have_left_what_failed(void **state)
{
    struct test_state *t = *state;
    struct leati_endpoint nowhere = {.location.kind = LEAT_KIND_PAGEABLE};
    struct leati_list list = {.copy = copy_slowly, .count = 1, .scratch = true};
    struct leati_stage_request request = {.direction = LEATI_DIRECTION_HOST, .early = true, .list = &list};
    struct leati_stager *stager;
    leat_status status;

    OK(leati_stager_get(t->device, &stager));
    atomic_store(&list_entered, 0);
    atomic_store(&list_left, 0);
    held_refuse = refuse_in_the_middle;
    status = leati_stage_start(stager, t->stream, &nowhere, &nowhere, 1, &request, NULL);
    held_refuse = NULL;
    assert_int_equal(atomic_load(&list_left), 1);
    assert_int_equal(status, LEAT_ERROR_DRIVER);
}

/* ---- objects that end with their device ---- */

/* hold_flags() puts this gate in front of the first flags that a stream receives. */
static struct test_gate *flags_gate;

static void hold_flags(void *stream)
{
    held_before_flags = NULL;
    held_put(stream, flags_gate);
}

/* Called before memory is freed. If the gate still holds flags up, the free is too early: records that, and opens
 * the gate. */
static void watch_flags_free(void *ptr)
{
    (void)ptr;
    if (atomic_load(&flags_gate->passed))
        return;
    freed_early = true;
    test_gate_open(flags_gate);
    (void)test_wait_for(&flags_gate->passed, 1);
    held_moment();
}

/* Closes a device while flags are held up. n: makes the n-th wait for the device fail; 0: makes none fail. */
static void close_behind_flags(leat_device *device, uint64_t n)
{
    struct held_watch watch = {.gate = flags_gate};
    leat_status status;

    freed_early = false;
    held_before_free = watch_flags_free;
    leati_fault_arm(held_driver, n ? LEATI_FAULT_FAIL : LEATI_FAULT_NONE, "device_synchronize", n);
    held_watch_start(&watch);
    status = leat_device_close(device);
    held_before_free = NULL;
    held_watch_end(&watch);
    leati_fault_arm(held_driver, LEATI_FAULT_NONE, NULL, 0);
    assert_int_equal(status, n ? LEAT_ERROR_DRIVER : LEAT_OK);
    assert_false(freed_early);
}

/* When a stream is destroyed during a close, it writes a last flag, after all work that the close has waited for
 * until then. The memory of the stream's ring must be freed after that flag. If the wait for the flag fails, leat
 * must repeat it. */
static void a_close_waits_for_last_flags(void **state)
{
    (void)state;
    for (uint64_t n = 0; n <= 2; n += 2) {
        leat_device *device = test_open_other();
        unsigned char bytes[4096] = {0};
        leat_stream *stream;
        void *memory;

        assert_non_null(device);
        OK(leat_stream_create(device, &stream));
        memory = test_alloc(device, LEAT_KIND_DEVICE, sizeof bytes);
        OK(leat_copy(stream, memory, bytes, sizeof bytes));
        OK(leat_stream_synchronize(stream));
        assert_non_null(atomic_load(&stream->staging));
        flags_gate = held_gate();
        held_before_flags = hold_flags;
        close_behind_flags(device, n);
        assert_null(held_before_flags);
    }
}

static bool refuse_to_wait(const char *entry, void *stream)
{
    (void)stream;
    return !strcmp(entry, "stream_synchronize");
}

/* leat tests on a stream of its own whether streams can wait for flags. If the wait for that stream then fails,
 * the stream still has a flag to write. The flag's memory must stay until the close has waited for the flag, even
 * if the first wait of the close fails. */
static void flags_that_were_tried_are_kept(void **state)
{
    (void)state;
    for (uint64_t n = 0; n <= 1; n++) {
        leat_device *device = test_open_other();
        struct leati_stager *stager;

        assert_non_null(device);
        flags_gate = held_gate();
        held_before_flags = hold_flags;
        held_refuse = refuse_to_wait;
        freed_early = false;
        held_before_free = watch_flags_free;
        OK(leati_stager_get(device, &stager));
        assert_false(freed_early);
        held_refuse = NULL;
        assert_null(held_before_flags);
        assert_non_null(strstr(stager->refused, "the test refuses to wait"));
        close_behind_flags(device, n);
    }
}

/* ---- failures that worker threads report ---- */

/* With --wrap the linker directs calls of leati_timeline_failed() to the second function. */
void __real_leati_timeline_failed(struct leati_timeline *order, leat_status status, const char *message);
void __wrap_leati_timeline_failed(struct leati_timeline *order, leat_status status, const char *message);

static void (*before_failed)(void);

void __wrap_leati_timeline_failed(struct leati_timeline *order, leat_status status, const char *message)
{
    if (before_failed)
        before_failed();
    __real_leati_timeline_failed(order, status, message);
}

/* A worker needs some time to report a failure. The stream must not continue before the report. */
static void failures_are_told_first(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, STAGED_BYTES);
    unsigned char *lost;

    test_let_leat_catch_faults();
    for (int out = 0; out < 2; out++) {
        lost = mmap(NULL, STAGED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(lost != MAP_FAILED);
        flags_gate = held_close(t->stream->native);
        if (out)
            OK(leat_copy(t->stream, lost, room.memory, STAGED_BYTES));
        else
            OK(leat_copy(t->stream, room.memory, lost, STAGED_BYTES));
        before_failed = held_moment;
        assert_int_equal(mprotect(lost, STAGED_BYTES, PROT_NONE), 0);
        test_gate_open(flags_gate);
        REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_POINTER, "could not be reached");
        before_failed = NULL;
        munmap(lost, STAGED_BYTES);
    }
    end_room(&room);
}

/* A job of two chunks of one byte. Two threads work on it, and neither chunk can be copied. */
static struct {
    struct leati_job job;
    struct leati_chunk chunks[2];
    struct leati_flags flags;
    atomic_uint round, done;
    bool late;
} pair;

static void look_at_flag(void)
{
    test_sleep_us(50);
    pair.late = pair.late || atomic_load(&pair.flags.staged_chunks) == pair.job.count;
}

static size_t copy_nothing(const void *list, size_t first, size_t count, uintptr_t *fault)
{
    (void)list;
    (void)count;
    *fault = first + 1;
    return 0;
}

static void timeline_failed(void *order, leat_status status, const char *message)
{
    leati_timeline_failed(order, status, message);
}

enum { PAIR_ROUNDS = 1500 };

static void *help_pair(void *unused)
{
    (void)unused;
    for (unsigned round = 1; round <= PAIR_ROUNDS; round++) {
        while (atomic_load(&pair.round) != round)
            sched_yield();
        leati_job_work(&pair.job);
        atomic_store(&pair.done, round);
    }
    return NULL;
}

/* Two threads finish at the same time, and one of them reports the failure. The other thread must not let the
 * stream continue before that. */
static void one_of_two_tells(void **state)
{
    struct test_state *t = *state;
    pthread_t helper;

    pair.late = false;
    atomic_store(&pair.round, 0);
    assert_int_equal(pthread_create(&helper, NULL, help_pair, NULL), 0);
    before_failed = look_at_flag;
    for (unsigned round = 1; round <= PAIR_ROUNDS; round++) {
        memset(&pair.job, 0, sizeof pair.job);
        atomic_store(&pair.flags.staged_chunks, 0);
        for (uint32_t c = 0; c < 2; c++)
            pair.chunks[c] = (struct leati_chunk){.offset = c, .bytes = 1, .parts = 1, .part_bytes = 1};
        pair.job.direction = LEATI_DIRECTION_HOST;
        pair.job.early = true;
        pair.job.bytes = 2;
        pair.job.copy_list = copy_nothing;
        pair.job.flags = &pair.flags;
        pair.job.chunks = pair.chunks;
        pair.job.count = 2;
        pair.job.timeline = t->stream->timeline;
        pair.job.timeline_failed = timeline_failed;
        leati_job_prepare(&pair.job, 2);
        atomic_store(&pair.job.stopped_at, 2);
        atomic_store(&pair.job.fault, UINTPTR_MAX);
        atomic_store(&pair.round, round);
        leati_job_work(&pair.job);
        while (atomic_load(&pair.done) != round)
            sched_yield();
        assert_int_equal(leati_timeline_take_failure(t->stream->timeline), LEAT_ERROR_POINTER);
    }
    before_failed = NULL;
    pthread_join(helper, NULL);
    assert_false(pair.late);
}

/* ---- memory that is registered in part ---- */

/* The source begins in pageable memory and ends in registered memory, which an earlier DMA of the stream writes.
 * The copy must not read the source before that. */
static void a_source_that_is_registered_in_part_is_read_in_order(void **state)
{
    static const size_t sizes[] = {32 * KIB, MIB, STAGED_BYTES};
    struct test_state *t = *state;
    unsigned char *from = mmap(NULL, STAGED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct room room = make_room(t->device, STAGED_BYTES);

    assert_true(from != MAP_FAILED);
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
        size_t bytes = sizes[i / 2], half = bytes / 2;
        bool batch = i % 2;
        struct test_gate *gate;

        OK(leat_register(t->device, from + half, half));
        test_pattern(room.in, bytes, 60 + i);
        OK(leat_copy_sync(t->stream, room.memory, room.in, bytes));
        OK(leat_stream_synchronize(t->stream));
        memcpy(from, room.in, half);
        memset(from + half, 0, half);
        gate = held_close(t->stream->native);
        OK(leat_copy(t->stream, from + half, room.memory + half, half));
        if (batch) {
            leat_copy_op ops[33];

            /* The last source is registered in part. */
            for (size_t k = 0; k < 32; k++)
                ops[k] = (leat_copy_op){room.memory + k * (half / 64), from + k * (half / 64), half / 128};
            ops[32] = (leat_copy_op){room.memory + half - 512, from + half - 512, 1024};
            OK(leat_copy_batch(t->stream, ops, 33));
        } else {
            OK(leat_copy(t->stream, room.memory, from, bytes));
        }
        held_moment();
        test_gate_open(gate);
        OK(leat_stream_synchronize(t->stream));
        OK(leat_copy_sync(t->stream, room.out, room.memory, bytes));
        EXPECT_PATTERN(room.out, bytes, 60 + i);
        OK(leat_unregister(from + half));
    }
    assert_int_equal(munmap(from, STAGED_BYTES), 0);
    end_room(&room);
}

/* ---- device memory from outside leat ---- */

/* Device memory that leat does not know: programs use the address hidden, which host threads cannot access, and
 * kernels use shown. */
static struct {
    unsigned char *hidden, *shown;
    size_t bytes;
    const struct leati_driver_ops *below;
    void *device;
} foreign;

static leat_status query_foreign(struct leati_driver *driver, const void *ptr, struct leati_pointer_info *info)
{
    if ((uintptr_t)ptr - (uintptr_t)foreign.hidden >= foreign.bytes)
        return foreign.below->pointer_query(driver, ptr, info);
    *info = (struct leati_pointer_info){.kind = LEAT_KIND_DEVICE,
                                        .device = foreign.device,
                                        .base = (uintptr_t)foreign.hidden,
                                        .bytes = foreign.bytes,
                                        .device_pointer =
                                            foreign.shown + ((const unsigned char *)ptr - foreign.hidden)};
    return LEAT_OK;
}

/* A batch on an idle stream assumes that sources which leat does not know are pageable. If such a source is device
 * memory, and the destination is pageable, leat must ask the drivers. */
static void a_batch_asks_about_foreign_memory(void **state)
{
    enum { OPS = 32, OP_BYTES = 4096, STEP = 2 * OP_BYTES };
    struct test_state *t = *state;
    const struct leati_driver_ops *before = held_driver->ops;
    static struct leati_driver_ops changed;
    unsigned char *out = test_buffer(OPS * STEP), *in = test_buffer(MIB);
    void *memory = test_alloc(t->device, LEAT_KIND_DEVICE, MIB);
    leat_copy_op ops[OPS];

    foreign.bytes = OPS * STEP;
    foreign.hidden = mmap(NULL, foreign.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(foreign.hidden != MAP_FAILED);
    foreign.shown = test_buffer(foreign.bytes);
    foreign.below = before;
    foreign.device = t->device->native;
    changed = *before;
    changed.pointer_query = query_foreign;
    held_driver->ops = &changed;
    test_pattern(foreign.shown, foreign.bytes, 71);
    /* This makes the stager. */
    OK(leat_copy_sync(t->stream, memory, in, MIB));
    OK(leat_stream_synchronize(t->stream));
    for (int i = 0; i < OPS; i++)
        ops[i] = (leat_copy_op){.dst = out + i * STEP, .src = foreign.hidden + i * STEP, .bytes = OP_BYTES};
    memset(out, 0, OPS * STEP);
    test_let_leat_catch_faults();
    OK(leat_copy_batch(t->stream, ops, OPS));
    OK(leat_stream_synchronize(t->stream));
    for (size_t i = 0; i < OPS; i++)
        assert_memory_equal(out + i * STEP, foreign.shown + i * STEP, OP_BYTES);
    held_driver->ops = before;
    assert_int_equal(munmap(foreign.hidden, foreign.bytes), 0);
    free(foreign.shown);
    OK(leat_memory_free(memory));
    free(out);
    free(in);
}

static const struct CMUnitTest tests[] = {
    HELD_TEST(short_copies_keep_their_place_in_the_ring),
    HELD_TEST(two_threads_fill_one_ring),
    HELD_TEST(a_short_copy_out_is_waited_for),
    HELD_TEST(a_place_that_was_not_waited_for_is_lost),
    HELD_TEST(the_ring_of_a_stream_that_ends_stays),
    HELD_TEST(a_staged_copy_that_fails_is_waited_for),
    HELD_TEST(threads_have_left_what_failed),
    HELD_TEST(a_synchronous_copy_waits_for_its_stream),
    HELD_TEST(long_copies_wait_for_memory),
    HELD_TEST(many_copies_wait_for_memory),
    HELD_TEST(layouts_wait_for_memory),
    HELD_TEST(copies_without_memory_use_up_no_limit),
    HELD_TEST(a_short_copy_without_memory_is_made),
    HELD_TEST(a_cancel_of_what_is_staged_is_too_late),
    HELD_TEST(a_close_waits_for_last_flags),
    HELD_TEST(flags_that_were_tried_are_kept),
    HELD_TEST(failures_are_told_first),
    HELD_TEST(one_of_two_tells),
    HELD_TEST(a_source_that_is_registered_in_part_is_read_in_order),
    HELD_TEST(a_batch_asks_about_foreign_memory),
};

int main(void)
{
    if (!test_only_on_cpu())
        return 77;
    begin_with_staging();
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
