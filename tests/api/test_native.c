/* test_native.c - tests the vendor's handles: a handle that leat returns can be wrapped again, and both wrappings
 * use the same object. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

static void a_wrapped_stream_is_the_same_stream(void **state)
{
    struct test_state *t = *state;
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 64);
    struct test_gate *gate;
    leat_stream *wrapped;
    leat_device *device;
    void *native = NULL, *again = NULL;

    OK(leat_stream_native(t->stream, &native));
    assert_non_null(native);
    OK(leat_stream_wrap(t->device, native, &wrapped));
    assert_ptr_not_equal(wrapped, t->stream);
    OK(leat_stream_native(wrapped, &again));
    assert_ptr_equal(native, again);
    OK(leat_stream_device(wrapped, &device));
    assert_ptr_equal(device, t->device);

    /* A gate that is closed through one handle holds up work submitted through the other. */
    memset(pinned, 0, 64);
    gate = test_gate_close(t->stream);
    OK(leat_fill(wrapped, pinned, 4, 64));
    EXPECT_HELD(wrapped, gate);
    EXPECT_BYTES(pinned, 64, 0);
    test_gate_open(gate);
    OK(leat_stream_synchronize(wrapped));
    EXPECT_BYTES(pinned, 64, 4);

    /* Destroying the wrapping must not destroy the stream. */
    OK(leat_stream_destroy(wrapped));
    REFUSED(leat_stream_query(wrapped), LEAT_ERROR_HANDLE, "stream");
    OK(leat_fill(t->stream, pinned, 5, 64));
    OK(leat_stream_synchronize(t->stream));
    EXPECT_BYTES(pinned, 64, 5);
    OK(leat_memory_free(pinned));
}

/* The CPU device keeps the record of a destroyed stream until it has completed its work. */
static void a_destroyed_stream_cannot_be_wrapped(void **state)
{
    struct test_state *t = *state;
    leat_stream *ended, *wrapped;
    struct test_gate *gate;
    void *native;

    if (!test_on_cpu())
        SKIP_OTHER("only the CPU device can tell that a native stream is destroyed");
    OK(leat_stream_create(t->device, &ended));
    OK(leat_stream_native(ended, &native));
    gate = test_gate_close(ended);
    OK(leat_stream_destroy(ended));
    REFUSED(leat_stream_wrap(t->device, native, &wrapped), LEAT_ERROR_INVALID, "no stream");
    test_gate_open(gate);
    OK(leat_device_synchronize(t->device));
    REFUSED(leat_stream_wrap(t->device, native, &wrapped), LEAT_ERROR_INVALID, "no stream");
}

static void device_synchronize_includes_wrapped_streams(void **state)
{
    struct test_state *t = *state;
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 1 << 20);
    leat_stream *wrapped;
    void *native;

    OK(leat_stream_native(t->stream, &native));
    OK(leat_stream_wrap(t->device, native, &wrapped));
    for (int i = 1; i <= 10; i++) {
        OK(leat_fill(wrapped, pinned, (uint8_t)i, 1 << 20));
        OK(leat_device_synchronize(t->device));
        EXPECT_BYTES(pinned, 1 << 20, (unsigned char)i);
    }
    OK(leat_stream_destroy(wrapped));
    OK(leat_memory_free(pinned));
}

static void the_default_streams_of_cuda(void **state)
{
    struct test_state *t = *state;
    void *const natives[] = {NULL, (void *)(uintptr_t)1, (void *)(uintptr_t)2};

    if (test_on_cpu())
        SKIP_OTHER("the CPU device has no default stream");
    for (int i = 0; i < 3; i++) {
        leat_stream *wrapped;
        unsigned char out[100];
        void *memory;

        OK(leat_stream_wrap(t->device, natives[i], &wrapped));
        OK(leat_alloc(wrapped, sizeof out, &memory));
        OK(leat_fill(wrapped, memory, (uint8_t)(i + 1), sizeof out));
        OK(leat_copy_sync(wrapped, out, memory, sizeof out));
        EXPECT_BYTES(out, sizeof out, (unsigned char)(i + 1));
        OK(leat_free(wrapped, memory));
        OK(leat_stream_synchronize(wrapped));
        OK(leat_stream_destroy(wrapped));
    }
}

static void a_wrapped_event_is_the_same_event(void **state)
{
    struct test_state *t = *state;
    leat_event *event, *wrapped;
    struct test_gate *gate;
    void *native = NULL, *again = NULL;

    OK(leat_event_create(t->device, &event));
    gate = test_gate_close(t->stream);
    OK(leat_event_record(t->stream, event));
    OK(leat_event_native(event, &native));
    assert_non_null(native);
    OK(leat_event_wrap(t->device, native, &wrapped));
    OK(leat_event_native(wrapped, &again));
    assert_ptr_equal(native, again);
    assert_int_equal(leat_event_query(wrapped), LEAT_NOT_READY);
    OK(leat_stream_wait(t->second, wrapped));
    EXPECT_HELD(t->second, gate);
    test_gate_open(gate);
    OK(leat_event_synchronize(wrapped));
    assert_int_equal(atomic_load(&gate->passed), 1);
    OK(leat_event_destroy(wrapped));
    OK(leat_event_record(t->stream, event));
    OK(leat_event_synchronize(event));
    OK(leat_event_destroy(event));
    OK(leat_stream_synchronize(t->second));
}

/* The program may record a native event without leat, here through a wrapping. Then each call with the event must
 * see the record. */
static void records_of_a_native_event_count(void **state)
{
    struct test_state *t = *state;
    leat_event *event, *wrapped;
    struct test_gate *gate;
    double milliseconds;
    void *native, *block, *next;

    OK(leat_event_create(t->device, &event));
    OK(leat_event_native(event, &native));
    OK(leat_event_query(event));
    OK(leat_event_synchronize(event));
    OK(leat_stream_wait(t->second, event));
    OK(leat_stream_synchronize(t->second));
    REFUSED(leat_event_elapsed(event, event, &milliseconds), LEAT_ERROR_INVALID, "never recorded");
    OK(leat_event_wrap(t->device, native, &wrapped));
    OK(leat_alloc(t->second, 4096, &block));
    gate = test_gate_close(t->stream);
    OK(leat_event_record(t->stream, wrapped));
    assert_int_equal(leat_event_query(event), LEAT_NOT_READY);
    OK(leat_block_use_until(event, block));
    OK(leat_free(t->second, block));
    OK(leat_alloc(t->second, 4096, &next));
    if (next == block)
        EXPECT_HELD(t->second, gate);
    OK(leat_stream_wait(t->second, event));
    EXPECT_HELD(t->second, gate);
    test_gate_open(gate);
    OK(leat_event_synchronize(event));
    assert_int_equal(atomic_load(&gate->passed), 1);
    OK(leat_free(t->second, next));
    OK(leat_event_destroy(wrapped));
    OK(leat_event_destroy(event));
    OK(leat_stream_synchronize(t->second));
}

static void wrapped_memory_is_known(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 4096), *own = test_buffer(4096);
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;

    /* Wrap the memory as managed memory, the only kind that leat does not check with the vendor's driver. */
    OK(leat_pointer_wrap(t->device, LEAT_KIND_MANAGED, own, 4096));
    OK(leat_pointer_get_info(own + 4095, &info));
    assert_int_equal(info.kind, LEAT_KIND_MANAGED);
    assert_ptr_equal(info.base, own);
    assert_int_equal(info.bytes, 4096);
    assert_int_equal(info.owned, 0);
    /* leat must check ranges against the wrapped allocation, and must refuse to free it. */
    REFUSED(leat_copy(t->stream, memory, own + 1, 4096), LEAT_ERROR_RANGE, "src");
    REFUSED(leat_memory_free(own), LEAT_ERROR_POINTER, "leat_pointer_unwrap");
    REFUSED(leat_pointer_wrap(t->device, LEAT_KIND_MANAGED, own + 4095, 1), LEAT_ERROR_REGISTERED, "overlaps");
    REFUSED(leat_pointer_unwrap(own + 1), LEAT_ERROR_POINTER, "start");
    REFUSED(leat_pointer_unwrap(memory), LEAT_ERROR_POINTER, "leat_free");
    OK(leat_pointer_unwrap(own));
    REFUSED(leat_pointer_unwrap(own), LEAT_ERROR_POINTER, "leat_pointer_unwrap");
    OK(leat_pointer_get_info(own, &info));
    assert_int_equal(info.kind, LEAT_KIND_PAGEABLE);
    OK(leat_memory_free(memory));
    free(own);
}

static void a_device_has_a_context(void **state)
{
    struct test_state *t = *state;
    void *context = NULL;

    OK(leat_device_native(t->device, &context));
    assert_non_null(context);
}

static void a_context_of_the_users_own(void **state)
{
    struct test_state *t = *state;
    leat_device *wrapped = NULL;
    leat_stream *stream;
    unsigned char out[64];
    void *context, *again, *memory;

    OK(leat_device_native(t->device, &context));
    if (test_on_cpu()) {
        REFUSED(leat_device_wrap(test_device_name(), context, &wrapped), LEAT_ERROR_UNSUPPORTED, "context");
        assert_null(wrapped);
        return;
    }
    OK(leat_device_wrap(test_device_name(), context, &wrapped));
    assert_ptr_not_equal(wrapped, t->device);
    OK(leat_device_native(wrapped, &again));
    assert_ptr_equal(context, again);
    OK(leat_stream_create(wrapped, &stream));
    OK(leat_alloc(stream, sizeof out, &memory));
    OK(leat_fill(stream, memory, 3, sizeof out));
    OK(leat_copy_sync(stream, out, memory, sizeof out));
    EXPECT_BYTES(out, sizeof out, 3);
    OK(leat_device_close(wrapped));
    /* Closing the wrapping must not destroy the context. */
    OK(leat_fill(t->stream, test_alloc(t->device, LEAT_KIND_DEVICE, 64), 1, 64));
}

static void functions_of_the_vendors_library(void **state)
{
    struct test_state *t = *state;
    const char *name = strncmp(test_device_name(), "hip", 3) ? "cuMemcpyAsync" : "hipMemcpyAsync";
    void *symbol = NULL;

    if (test_on_cpu()) {
        REFUSED(leat_native_symbol(t->device, "cuMemcpyAsync", &symbol), LEAT_ERROR_UNSUPPORTED, "library");
        return;
    }
    OK(leat_native_symbol(t->device, name, &symbol));
    assert_non_null(symbol);
    REFUSED(leat_native_symbol(t->device, "cuNoSuchThing", &symbol), LEAT_ERROR_NOT_FOUND, "cuNoSuchThing");
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(a_wrapped_stream_is_the_same_stream),
    STATE_TEST(a_destroyed_stream_cannot_be_wrapped),
    STATE_TEST(device_synchronize_includes_wrapped_streams),
    STATE_TEST(the_default_streams_of_cuda),
    STATE_TEST(a_wrapped_event_is_the_same_event),
    STATE_TEST(records_of_a_native_event_count),
    STATE_TEST(wrapped_memory_is_known),
    STATE_TEST(a_device_has_a_context),
    STATE_TEST(a_context_of_the_users_own),
    STATE_TEST(functions_of_the_vendors_library),
};

TEST_MAIN(tests)
