/* held.c - see held.h. */
#include "held.h"

#include "base/error.h"
#include "driver/fault/fault.h"
#include "driver/registry.h"

#include <stdlib.h>
#include <string.h>

#define DELAY_US 2000
#define GATES 1024
#define PATIENCE_MS 30000

struct leati_driver *held_driver;
void (*held_before_work)(void *stream);
void (*held_before_copy)(void *stream, struct leati_location dst, struct leati_location src, size_t bytes);
void (*held_before_flags)(void *stream);
void (*held_before_free)(void *ptr);
bool (*held_refuse)(const char *entry, void *stream);
void (*held_around)(const char *entry, bool after);
bool held_slow_flags, held_no_memory;

static const struct leati_driver_ops *below;
static struct leati_driver_ops table;
static struct test_gate gates[GATES];
static unsigned gate_count;

static leat_status copy(struct leati_driver *driver, void *stream, struct leati_location dst,
                        struct leati_location src, size_t bytes)
{
    if (held_before_work)
        held_before_work(stream);
    if (held_before_copy)
        held_before_copy(stream, dst, src, bytes);
    return below->copy(driver, stream, dst, src, bytes);
}

static leat_status copy_3d(struct leati_driver *driver, void *stream, struct leati_location dst,
                           struct leati_location src, const leat_copy_region *region)
{
    if (held_before_work)
        held_before_work(stream);
    return below->copy_3d(driver, stream, dst, src, region);
}

static leat_status launch(struct leati_driver *driver, void *stream, void *kernel, leat_dim3 grid, leat_dim3 block,
                          size_t shared_bytes, void *const *args, unsigned argument_count)
{
    if (held_before_work)
        held_before_work(stream);
    return below->launch(driver, stream, kernel, grid, block, shared_bytes, args, argument_count);
}

static leat_status launch_host(struct leati_driver *driver, void *stream, void (*function)(void *), void *argument)
{
    if (held_before_work)
        held_before_work(stream);
    return below->launch_host(driver, stream, function, argument);
}

static leat_status mem_free(struct leati_driver *driver, void *device, void *ptr)
{
    if (held_before_free)
        held_before_free(ptr);
    return below->mem_free(driver, device, ptr);
}

static leat_status stream_mem_ops(struct leati_driver *driver, void *stream, const struct leati_mem_op *values,
                                  unsigned count)
{
    if (held_refuse && held_refuse("stream_mem_ops", stream))
        return leati_fail(LEAT_ERROR_DRIVER, "the test refuses words");
    if (held_before_flags)
        held_before_flags(stream);
    if (!held_slow_flags)
        return below->stream_mem_ops(driver, stream, values, count);
    for (unsigned i = 0; i < count; i++) {
        if (!values[i].wait)
            held_delay(stream);
        LEATI_TRY(below->stream_mem_ops(driver, stream, &values[i], 1));
    }
    return LEAT_OK;
}

static leat_status host_alloc(struct leati_driver *driver, void *device, size_t bytes, void **ptr)
{
    if (held_no_memory)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "the test has no pinned memory left");
    return below->host_alloc(driver, device, bytes, ptr);
}

static leat_status host_free(struct leati_driver *driver, void *device, void *ptr)
{
    if (held_before_free)
        held_before_free(ptr);
    return below->host_free(driver, device, ptr);
}

static leat_status host_unregister(struct leati_driver *driver, void *device, void *ptr)
{
    if (held_before_free)
        held_before_free(ptr);
    return below->host_unregister(driver, device, ptr);
}

static leat_status host_register(struct leati_driver *driver, void *device, void *ptr, size_t bytes)
{
    if (held_no_memory)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "the test pins no memory any more");
    return below->host_register(driver, device, ptr, bytes);
}

static void around(const char *entry, bool after)
{
    if (held_around)
        held_around(entry, after);
}

static leat_status stream_synchronize(struct leati_driver *driver, void *stream)
{
    leat_status status;

    if (held_refuse && held_refuse("stream_synchronize", stream))
        return leati_fail(LEAT_ERROR_DRIVER, "the test refuses to wait");
    around("stream_synchronize", false);
    status = below->stream_synchronize(driver, stream);
    around("stream_synchronize", true);
    return status;
}

static leat_status stream_query(struct leati_driver *driver, void *stream)
{
    leat_status status;

    around("stream_query", false);
    status = below->stream_query(driver, stream);
    around("stream_query", true);
    return status;
}

static leat_status event_record(struct leati_driver *driver, void *event, void *stream)
{
    leat_status status;

    around("event_record", false);
    status = below->event_record(driver, event, stream);
    around("event_record", true);
    return status;
}

static leat_status event_query(struct leati_driver *driver, void *event)
{
    leat_status status;

    around("event_query", false);
    status = below->event_query(driver, event);
    around("event_query", true);
    return status;
}

static leat_status event_synchronize(struct leati_driver *driver, void *event)
{
    leat_status status;

    around("event_synchronize", false);
    status = below->event_synchronize(driver, event);
    around("event_synchronize", true);
    return status;
}

void held_begin(void)
{
    setenv("LEAT_FAULT", "none", 1);
    for (unsigned i = 0; (held_driver = leati_registry_driver(i, NULL, NULL)); i++)
        if (!strcmp(held_driver->name, "cpu"))
            break;
    if (!held_driver)
        return;
    below = held_driver->ops;
    table = *below;
    table.copy = copy;
    table.copy_3d = copy_3d;
    table.launch = launch;
    table.launch_host = launch_host;
    table.mem_free = mem_free;
    table.stream_mem_ops = stream_mem_ops;
    table.host_alloc = host_alloc;
    table.host_free = host_free;
    table.host_register = host_register;
    table.host_unregister = host_unregister;
    table.stream_synchronize = stream_synchronize;
    table.stream_query = stream_query;
    table.event_record = event_record;
    table.event_query = event_query;
    table.event_synchronize = event_synchronize;
    if (getenv("HELD_WITHOUT_WORDS"))
        table.stream_mem_ops = NULL;
    held_driver->ops = &table;
}

int held_setup(void **state)
{
    held_before_work = NULL;
    held_before_copy = NULL;
    held_before_flags = NULL;
    held_before_free = NULL;
    held_refuse = NULL;
    held_around = NULL;
    held_slow_flags = false;
    held_no_memory = false;
    leati_fault_arm(held_driver, LEATI_FAULT_NONE, NULL, 0);
    return test_setup(state);
}

int held_teardown(void **state)
{
    /* A test that failed may have left hooks installed and gates closed. */
    held_before_work = NULL;
    held_before_copy = NULL;
    held_before_flags = NULL;
    held_before_free = NULL;
    held_refuse = NULL;
    held_around = NULL;
    leati_fault_arm(held_driver, LEATI_FAULT_NONE, NULL, 0);
    for (unsigned i = 0; i < gate_count; i++)
        test_gate_open(&gates[i]);
    return test_teardown(state);
}

static void stand_at_gate(void *argument)
{
    struct test_gate *gate = argument;

    (void)test_wait_for(&gate->open, 1);
    atomic_store(&gate->passed, 1);
}

struct test_gate *held_gate(void)
{
    assert_true(gate_count < GATES);
    return &gates[gate_count++];
}

void held_put(void *stream, struct test_gate *gate)
{
    held_call(stream, stand_at_gate, gate);
}

struct test_gate *held_close(void *stream)
{
    struct test_gate *gate = held_gate();

    held_put(stream, gate);
    return gate;
}

static void be_late(void *unused)
{
    (void)unused;
    test_sleep_us(DELAY_US);
}

void held_delay(void *stream)
{
    held_call(stream, be_late, NULL);
}

void held_call(void *stream, void (*function)(void *), void *argument)
{
    OK(below->launch_host(held_driver, stream, function, argument));
}

void held_moment(void)
{
    test_sleep_us(1000L * HELD_MOMENT_MS);
}

static void *watch_call(void *argument)
{
    struct held_watch *watch = argument;

    for (int i = 0; watch->until_fault && !leati_fault_fired(held_driver) && i < PATIENCE_MS; i++)
        test_sleep_us(1000);
    for (int i = 0; i < HELD_MOMENT_MS && !atomic_load(&watch->back); i++)
        test_sleep_us(1000);
    test_gate_open(watch->gate);
    return NULL;
}

void held_watch_start(struct held_watch *watch)
{
    assert_int_equal(pthread_create(&watch->thread, NULL, watch_call, watch), 0);
}

void held_watch_end(struct held_watch *watch)
{
    int waited = atomic_load(&watch->gate->passed);

    atomic_store(&watch->back, 1);
    pthread_join(watch->thread, NULL);
    assert_true(test_wait_for(&watch->gate->passed, 1));
    assert_true(waited);
}
