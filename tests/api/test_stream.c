/* test_stream.c - tests streams: order within one stream, independence of others, waits, host functions. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

struct note {
    atomic_int *next;
    int number, seen;
};

static void take_number(void *argument)
{
    struct note *note = argument;

    note->seen = atomic_fetch_add(note->next, 1);
}

static void host_functions_run_once_and_in_order(void **state)
{
    enum { COUNT = 500 };
    struct test_state *t = *state;
    atomic_int next = 0;
    struct note *notes = test_buffer(COUNT * sizeof *notes);

    for (int i = 0; i < COUNT; i++) {
        notes[i] = (struct note){.next = &next, .number = i, .seen = -1};
        OK(leat_launch_host(t->stream, take_number, &notes[i]));
    }
    OK(leat_stream_synchronize(t->stream));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(notes[i].seen, i);
    assert_int_equal(next, COUNT);
    free(notes);
}

struct watch {
    const uint32_t *word;
    uint32_t seen;
};

static void read_word(void *argument)
{
    struct watch *watch = argument;

    watch->seen = *watch->word;
}

static void all_kinds_of_work_keep_one_order(void **state)
{
    enum { ROUNDS = 100 };
    struct test_state *t = *state;
    uint32_t *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 4096), one = 1;
    uint32_t *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 4096);
    leat_kernel *add = test_kernel(t->device, "leat_add_u32");
    struct watch watches[ROUNDS];
    uint64_t count = 1024;
    void *args[] = {&memory, &count, &one};

    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t value = i * 10;

        watches[i] = (struct watch){.word = pinned + 1023};
        OK(leat_fill_pattern(t->stream, memory, &value, sizeof value, 4096));
        OK(leat_launch(t->stream, add, leat_dim(4, 1, 1), leat_dim(64, 1, 1), 0, args, 3));
        OK(leat_copy(t->stream, pinned, memory, 4096));
        OK(leat_launch_host(t->stream, read_word, &watches[i]));
    }
    OK(leat_stream_synchronize(t->stream));
    for (uint32_t i = 0; i < ROUNDS; i++)
        assert_int_equal(watches[i].seen, i * 10 + 1);
    OK(leat_memory_free(memory));
    OK(leat_memory_free(pinned));
}

static void streams_run_beside_each_other(void **state)
{
    struct test_state *t = *state;
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 64);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 64);
    struct test_gate *gate = test_gate_close(t->stream);

    /* A gate holds the first stream up. The second stream must complete its work nevertheless. */
    memset(pinned, 0, 64);
    OK(leat_fill(t->second, memory, 3, 64));
    OK(leat_copy(t->second, pinned, memory, 64));
    OK(leat_stream_synchronize(t->second));
    EXPECT_BYTES(pinned, 64, 3);
    assert_int_equal(atomic_load(&gate->passed), 0);
    assert_int_equal(leat_stream_query(t->stream), LEAT_NOT_READY);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    assert_int_equal(atomic_load(&gate->passed), 1);
    OK(leat_stream_query(t->stream));
    OK(leat_memory_free(memory));
    OK(leat_memory_free(pinned));
}

static void many_streams_run_beside_each_other(void **state)
{
    enum { COUNT = 24 };
    struct test_state *t = *state;
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, COUNT * 64);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, COUNT * 64);
    struct test_gate *gate = test_gate_close(t->stream);
    leat_stream *streams[COUNT];

    memset(pinned, 0, COUNT * 64);
    for (size_t i = 0; i < COUNT; i++) {
        OK(leat_stream_create(t->device, &streams[i]));
        OK(leat_fill(streams[i], memory + i * 64, (uint8_t)(i + 1), 64));
        OK(leat_copy(streams[i], pinned + i * 64, memory + i * 64, 64));
    }
    for (size_t i = 0; i < COUNT; i++) {
        OK(leat_stream_synchronize(streams[i]));
        EXPECT_BYTES(pinned + i * 64, 64, (unsigned char)(i + 1));
        OK(leat_stream_destroy(streams[i]));
    }
    assert_int_equal(atomic_load(&gate->passed), 0);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_memory_free(memory));
    OK(leat_memory_free(pinned));
}

static void query_says_when_results_can_be_read(void **state)
{
    struct test_state *t = *state;
    size_t bytes = 4 << 20;
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, bytes);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, bytes);

    for (int i = 1; i <= 20; i++) {
        leat_status status;

        OK(leat_fill(t->stream, memory, (uint8_t)i, bytes));
        OK(leat_copy(t->stream, pinned, memory, bytes));
        while ((status = leat_stream_query(t->stream)) == LEAT_NOT_READY)
            continue;
        OK(status);
        EXPECT_BYTES(pinned, bytes, (unsigned char)i);
    }
    OK(leat_memory_free(memory));
    OK(leat_memory_free(pinned));
}

static void a_wait_holds_later_work_only(void **state)
{
    struct test_state *t = *state;
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 128);
    struct test_gate *gate;
    leat_event *event;

    memset(pinned, 0, 128);
    OK(leat_event_create(t->device, &event));
    gate = test_gate_close(t->stream);
    OK(leat_fill(t->stream, pinned, 1, 64));
    OK(leat_event_record(t->stream, event));
    OK(leat_fill(t->second, pinned + 64, 2, 64));
    OK(leat_stream_synchronize(t->second));
    EXPECT_BYTES(pinned + 64, 64, 2);
    OK(leat_stream_wait(t->second, event));
    OK(leat_copy(t->second, pinned + 64, pinned, 64));
    EXPECT_HELD(t->second, gate);
    EXPECT_BYTES(pinned + 64, 64, 2);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->second));
    EXPECT_BYTES(pinned + 64, 64, 1);
    OK(leat_event_destroy(event));
    OK(leat_memory_free(pinned));
}

static void a_wait_is_for_the_record_at_its_time(void **state)
{
    struct test_state *t = *state;
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 64);
    struct test_gate *gate;
    leat_event *event;

    memset(pinned, 0, 64);
    OK(leat_event_create(t->device, &event));
    OK(leat_event_record(t->stream, event));
    OK(leat_stream_wait(t->second, event));
    gate = test_gate_close(t->stream);
    OK(leat_event_record(t->stream, event));
    /* The second stream waits only for the first record. The new record is behind the gate. */
    OK(leat_fill(t->second, pinned, 5, 64));
    OK(leat_stream_synchronize(t->second));
    EXPECT_BYTES(pinned, 64, 5);
    assert_int_equal(leat_event_query(event), LEAT_NOT_READY);
    /* A wait submitted now is for the new record. */
    OK(leat_stream_wait(t->second, event));
    OK(leat_fill(t->second, pinned, 6, 64));
    EXPECT_HELD(t->second, gate);
    EXPECT_BYTES(pinned, 64, 5);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->second));
    EXPECT_BYTES(pinned, 64, 6);
    OK(leat_event_destroy(event));
    OK(leat_memory_free(pinned));
}

static void an_event_never_recorded_holds_nothing_up(void **state)
{
    struct test_state *t = *state;
    leat_event *event;

    OK(leat_event_create(t->device, &event));
    OK(leat_stream_wait(t->stream, event));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_event_destroy(event));
}

static void a_stream_may_wait_for_itself(void **state)
{
    struct test_state *t = *state;
    leat_event *event;

    OK(leat_event_create(t->device, &event));
    OK(leat_event_record(t->stream, event));
    OK(leat_stream_wait(t->stream, event));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_event_destroy(event));
}

static void a_destroyed_event_is_still_waited_for(void **state)
{
    struct test_state *t = *state;
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 64);
    struct test_gate *gate;
    leat_event *event;

    memset(pinned, 0, 64);
    OK(leat_event_create(t->device, &event));
    gate = test_gate_close(t->stream);
    OK(leat_event_record(t->stream, event));
    OK(leat_stream_wait(t->second, event));
    OK(leat_event_destroy(event));
    OK(leat_fill(t->second, pinned, 7, 64));
    EXPECT_HELD(t->second, gate);
    EXPECT_BYTES(pinned, 64, 0);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->second));
    EXPECT_BYTES(pinned, 64, 7);
    OK(leat_memory_free(pinned));
}

static void streams_of_two_devices_wait_for_each_other(void **state)
{
    struct test_state *t = *state;
    leat_device *other = test_open_other();
    unsigned char *pinned, *far;
    struct test_gate *gate;
    leat_stream *stream;
    leat_event *event;

    if (!other)
        SKIP_OTHER("needs two devices of one driver");
    pinned = test_alloc(t->device, LEAT_KIND_PINNED, 1000);
    far = test_alloc(other, LEAT_KIND_DEVICE, 1000);
    memset(pinned, 0, 1000);
    OK(leat_stream_create(other, &stream));
    OK(leat_event_create(t->device, &event));
    gate = test_gate_close(t->stream);
    OK(leat_fill(t->stream, pinned, 8, 1000));
    OK(leat_event_record(t->stream, event));
    OK(leat_stream_wait(stream, event));
    OK(leat_copy(stream, far, pinned, 1000));
    EXPECT_HELD(stream, gate);
    test_gate_open(gate);
    OK(leat_stream_synchronize(stream));
    memset(pinned, 0, 1000);
    OK(leat_copy(stream, pinned, far, 1000));
    OK(leat_stream_synchronize(stream));
    EXPECT_BYTES(pinned, 1000, 8);
    OK(leat_event_destroy(event));
    OK(leat_memory_free(pinned));
    OK(leat_device_close(other));
}

static void a_destroyed_stream_finishes_its_work(void **state)
{
    struct test_state *t = *state;
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 64);
    struct test_gate *gate;
    leat_stream *stream;

    memset(pinned, 0, 64);
    OK(leat_stream_create(t->device, &stream));
    gate = test_gate_close(stream);
    OK(leat_fill(stream, pinned, 9, 64));
    OK(leat_stream_destroy(stream));
    /* Under compute-sanitizer CUDA waits for the stream's work before it destroys the stream. */
    if (!getenv("LEAT_TEST_MEMCHECK"))
        EXPECT_BYTES(pinned, 64, 0);
    test_gate_open(gate);
    OK(leat_device_synchronize(t->device));
    EXPECT_BYTES(pinned, 64, 9);
    OK(leat_memory_free(pinned));
}

static void device_synchronize_waits_for_all_streams(void **state)
{
    struct test_state *t = *state;
    size_t bytes = 1 << 20;
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 2 * bytes);

    for (int i = 1; i <= 10; i++) {
        OK(leat_fill(t->stream, pinned, (uint8_t)i, bytes));
        OK(leat_fill(t->second, pinned + bytes, (uint8_t)(100 + i), bytes));
        OK(leat_device_synchronize(t->device));
        EXPECT_BYTES(pinned, bytes, (unsigned char)i);
        EXPECT_BYTES(pinned + bytes, bytes, (unsigned char)(100 + i));
    }
    OK(leat_memory_free(pinned));
}

static void a_stream_knows_its_device(void **state)
{
    struct test_state *t = *state;
    leat_device *device = NULL;

    OK(leat_stream_device(t->stream, &device));
    assert_ptr_equal(device, t->device);
    OK(leat_stream_destroy(NULL));
}

/* The results of calls that a host function makes. */
struct forbidden {
    leat_device *device;
    leat_stream *stream;
    leat_event *event;
    leat_kernel *kernel;
    leat_module *module;
    void *memory, *own;
    int count, wrong;
    char message[2048];
};

static void nothing(void *argument)
{
    (void)argument;
}

static void try_all(void *argument)
{
    struct forbidden *f = argument;
    leat_device *device;
    leat_stream *stream;
    leat_event *event;
    leat_module *module;
    leat_kernel *kernel;
    leat_ticket *ticket;
    void *ptr, *args[] = {NULL};
    const char byte = 0;
    leat_status seen[] = {
        leat_device_open("cpu:0", &device),
        leat_device_close(f->device),
        leat_device_synchronize(f->device),
        leat_alloc(f->stream, 100, &ptr),
        leat_free(f->stream, f->memory),
        leat_memory_alloc(f->device, LEAT_KIND_PINNED, 100, &ptr),
        leat_memory_free(f->memory),
        leat_register(f->device, f->own, 100),
        leat_unregister(f->own),
        leat_copy(f->stream, f->memory, f->own, 1),
        leat_copy_sync(f->stream, f->memory, f->own, 1),
        leat_copy_start(f->stream, f->memory, f->own, 1, NULL, &ticket),
        leat_fill(f->stream, f->memory, 1, 1),
        leat_fill_pattern(f->stream, f->memory, &byte, 1, 1),
        leat_stream_create(f->device, &stream),
        leat_stream_destroy(f->stream),
        leat_stream_wrap(f->device, f, &stream),
        leat_stream_synchronize(f->stream),
        leat_stream_wait(f->stream, f->event),
        leat_launch_host(f->stream, nothing, NULL),
        leat_event_create(f->device, &event),
        leat_event_destroy(f->event),
        leat_event_wrap(f->device, f, &event),
        leat_event_record(f->stream, f->event),
        leat_event_synchronize(f->event),
        leat_module_load(f->device, "x", 1, &module),
        leat_module_load_file(f->device, "x", &module),
        leat_module_builtin(f->device, &module),
        leat_module_unload(f->module),
        leat_kernel_get(f->module, "leat_fill_u8", &kernel),
        leat_launch(f->stream, f->kernel, leat_dim(1, 1, 1), leat_dim(1, 1, 1), 0, args, 1),
    };

    f->count = (int)(sizeof seen / sizeof seen[0]);
    f->wrong = -1;
    for (int i = f->count; i-- > 0;)
        if (seen[i] != LEAT_ERROR_NOT_PERMITTED)
            f->wrong = i;
    strncpy(f->message, leat_last_error(), sizeof f->message - 1);
}

static void host_functions_may_not_give_work(void **state)
{
    struct test_state *t = *state;
    struct forbidden f = {.device = t->device, .stream = t->stream, .own = &f};
    unsigned char out = 0;

    OK(leat_event_create(t->device, &f.event));
    OK(leat_alloc(t->stream, 100, &f.memory));
    OK(leat_fill(t->stream, f.memory, 6, 100));
    OK(leat_module_builtin(t->device, &f.module));
    OK(leat_kernel_get(f.module, "leat_fill_u8", &f.kernel));
    OK(leat_launch_host(t->stream, try_all, &f));
    OK(leat_stream_synchronize(t->stream));
    if (f.wrong >= 0)
        fail_msg("call %d of %d in the list did not return NOT_PERMITTED", f.wrong, f.count);
    assert_non_null(strstr(f.message, "host function"));
    /* None of the refused calls had an effect. */
    OK(leat_copy_sync(t->stream, &out, f.memory, 1));
    assert_int_equal(out, 6);
    OK(leat_free(t->stream, f.memory));
    OK(leat_event_destroy(f.event));
}

static void ask_questions(void *argument)
{
    struct forbidden *f = argument;
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    leat_device *device;

    f->wrong = leat_pointer_get_info(f->memory, &info) != LEAT_OK || info.kind != LEAT_KIND_DEVICE ||
               leat_stream_device(f->stream, &device) != LEAT_OK || device != f->device;
}

static void host_functions_may_ask(void **state)
{
    struct test_state *t = *state;
    struct forbidden f = {.device = t->device, .stream = t->stream, .wrong = 2};

    OK(leat_alloc(t->stream, 100, &f.memory));
    OK(leat_launch_host(t->stream, ask_questions, &f));
    OK(leat_stream_synchronize(t->stream));
    assert_int_equal(f.wrong, 0);
    OK(leat_free(t->stream, f.memory));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(host_functions_run_once_and_in_order),
    STATE_TEST(all_kinds_of_work_keep_one_order),
    STATE_TEST(streams_run_beside_each_other),
    STATE_TEST(many_streams_run_beside_each_other),
    STATE_TEST(query_says_when_results_can_be_read),
    STATE_TEST(a_wait_holds_later_work_only),
    STATE_TEST(a_wait_is_for_the_record_at_its_time),
    STATE_TEST(an_event_never_recorded_holds_nothing_up),
    STATE_TEST(a_stream_may_wait_for_itself),
    STATE_TEST(a_destroyed_event_is_still_waited_for),
    STATE_TEST(streams_of_two_devices_wait_for_each_other),
    STATE_TEST(a_destroyed_stream_finishes_its_work),
    STATE_TEST(device_synchronize_waits_for_all_streams),
    STATE_TEST(a_stream_knows_its_device),
    STATE_TEST(host_functions_may_not_give_work),
    STATE_TEST(host_functions_may_ask),
};

TEST_MAIN(tests)
