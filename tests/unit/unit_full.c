/*
 * unit_full.c - tests the error message of a full pool when the driver fails or the process is in a control group,
 * and the order of a page that changes heaps.
 */
#include "harness.h"

#include "base/mem_limit.h"
#include "driver/fault/fault.h"
#include "driver/registry.h"

#include <leat/pool.h>

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MIB = 1 << 20 };

static struct leati_driver *wrapper(void)
{
    struct leati_driver *driver;

    for (unsigned i = 0; (driver = leati_registry_driver(i, NULL, NULL)); i++)
        if (!strcmp(driver->name, "cpu"))
            return driver;
    fail_msg("no cpu driver");
    return NULL;
}

/* The pool has enough memory that another stream has freed, but the wait for that stream fails. */
static void own_memory_is_pending(void **state)
{
    struct test_state *t = *state;
    leat_pool_options options = {.size = sizeof options, .limit_bytes = 32 * MIB, .name = "pending"};
    struct test_gate *gate;
    leat_pool *pool;
    void *block, *more = &more;

    OK(leat_pool_create(t->device, &options, &pool));
    OK(leat_pool_alloc(t->second, pool, 32 * MIB, &block));
    gate = test_gate_close(t->second);
    OK(leat_free(t->second, block));
    leati_fault_arm(wrapper(), LEATI_FAULT_FAIL, "stream_wait", 1);
    REFUSED(leat_pool_alloc(t->stream, pool, 16 * MIB, &more), LEAT_ERROR_DEVICE_MEMORY,
            "; of 33554432 bytes held none are idle; 0 blocks with 0 bytes are live; 33554432 bytes are pending: "
            "33554432 on stream ");
    assert_true(leati_fault_fired(wrapper()));
    assert_non_null(strstr(leat_last_error(), "\nAdvice: memory that was freed is still in use on stream "));
    assert_non_null(strstr(leat_last_error(), "leat_stream_synchronize"));
    assert_null(strstr(leat_last_error(), "raise"));
    leati_fault_arm(wrapper(), LEATI_FAULT_NONE, NULL, 0);
    /* The advice of the message must help. */
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->second));
    OK(leat_pool_alloc(t->stream, pool, 16 * MIB, &more));
    OK(leat_free(t->stream, more));
    OK(leat_pool_destroy(pool));
}

/* Two streams use a freed block. A third stream waits for the first of them, but its wait for the other fails. The
 * block's own stream must still wait for both. */
static void a_failed_wait_drops_no_uses(void **state)
{
    struct test_state *t = *state;
    leat_pool_options options = {.size = sizeof options, .reuse = LEAT_POOL_REUSE_WAIT};
    leat_stream *users[2], *third;
    struct test_gate *gates[2];
    void *block, *other, *again[2];
    leat_pool *pool;

    OK(leat_pool_create(t->device, &options, &pool));
    OK(leat_stream_create(t->device, &third));
    OK(leat_pool_alloc(t->stream, pool, 8 * MIB, &block));
    for (int i = 0; i < 2; i++) {
        OK(leat_stream_create(t->device, &users[i]));
        gates[i] = test_gate_close(users[i]);
        OK(leat_block_use(users[i], block));
    }
    OK(leat_free(t->stream, block));
    leati_fault_arm(wrapper(), LEATI_FAULT_FAIL, "stream_wait", 2);
    OK(leat_pool_alloc(third, pool, 8 * MIB, &other));
    assert_true(leati_fault_fired(wrapper()));
    leati_fault_arm(wrapper(), LEATI_FAULT_NONE, NULL, 0);
    assert_ptr_not_equal(other, block);
    OK(leat_pool_set_reuse_methods(pool, LEAT_POOL_REUSE_METHOD_ORDERED | LEAT_POOL_REUSE_METHOD_FINISHED));
    for (int i = 0; i < 2; i++) {
        test_gate_open(gates[i]);
        OK(leat_stream_synchronize(users[i]));
        OK(leat_pool_alloc(t->stream, pool, 8 * MIB, &again[i]));
        assert_int_equal(again[i] == block, i == 1);
    }
    for (int i = 0; i < 2; i++) {
        OK(leat_free(t->stream, again[i]));
        OK(leat_stream_destroy(users[i]));
    }
    OK(leat_free(third, other));
    OK(leat_stream_destroy(third));
    OK(leat_pool_destroy(pool));
}

static bool is_in_group;

/* With --wrap the linker directs calls of leati_mem_limit_get(), which asks the system, to the second function. */
void __real_leati_mem_limit_get(const char *root, uint64_t enough_bytes, struct leati_mem_limit *available);
void __wrap_leati_mem_limit_get(const char *root, uint64_t enough_bytes, struct leati_mem_limit *available);

void __wrap_leati_mem_limit_get(const char *root, uint64_t enough_bytes, struct leati_mem_limit *available)
{
    if (is_in_group)
        *available =
            (struct leati_mem_limit){.bytes = 32 * MIB, .whose = "the control group /jobs/7", .is_group = true};
    else
        __real_leati_mem_limit_get(root, enough_bytes, available);
}

static void a_control_group_has_no_more_to_pin(void **state)
{
    struct test_state *t = *state;
    leat_pool_options options = {.size = sizeof options, .kind = LEAT_KIND_PINNED, .name = "grouped"};
    leat_pool *pool;
    void *block;

    OK(leat_pool_create(t->device, &options, &pool));
    is_in_group = true;
    REFUSED(leat_pool_alloc(NULL, pool, 64 * MIB, &block), LEAT_ERROR_HOST_MEMORY,
            "of the 33554432 bytes that the control group /jobs/7 has available");
    is_in_group = false;
    assert_non_null(strstr(leat_last_error(), "\nAdvice: free host memory, ask for less, or let the control group "
                                              "/jobs/7 have more"));
    OK(leat_pool_destroy(pool));
}

/* The driver refuses memory although the device is not full. So the message must not say that the device is full,
 * but must state the driver's error. */
static void a_driver_refuses_what_is_free(void **state)
{
    struct test_state *t = *state;
    leat_pool_options options = {.size = sizeof options, .name = "refused"};
    struct rlimit old, limit;
    leat_pool *pool;
    void *block;

    OK(leat_pool_create(t->device, &options, &pool));
    OK(leat_pool_alloc(t->stream, pool, MIB, &block));
    OK(leat_free(t->stream, block));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = old;
    limit.rlim_cur = MIB;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    REFUSED(leat_pool_alloc(t->stream, pool, 512 * MIB, &block), LEAT_ERROR_DEVICE_MEMORY, "ulimit -f");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_non_null(strstr(leat_last_error(), "\nAdvice: ask for less: the driver gives no more, though "));
    OK(leat_pool_destroy(pool));
}

/* A page moves from the heap of large blocks to the heap of small blocks while work on the page is held up. It
 * moves at the first attempt, or at the second one because its mapping failed at the first. The unused rest of the
 * page must still belong to its stream. */
static void a_page_that_changes_heaps_keeps_its_order(void **state)
{
    struct test_state *t = *state;
    leat_pool_options options = {.size = sizeof options, .limit_bytes = 2 * MIB, .name = "change"};

    for (int fails = 0; fails < 2; fails++) {
        struct test_gate *gate;
        leat_pool *pool;
        void *block, *other;

        OK(leat_pool_create(t->device, &options, &pool));
        OK(leat_pool_set_reuse_methods(pool, 0));
        OK(leat_pool_alloc(t->stream, pool, 2 * MIB, &block));
        gate = test_gate_close(t->stream);
        OK(leat_free(t->stream, block));
        if (fails) {
            leati_fault_arm(wrapper(), LEATI_FAULT_FAIL, "vm_map", 1);
            assert_int_equal(leat_pool_alloc(t->stream, pool, 1000, &block), LEAT_ERROR_DRIVER);
            assert_true(leati_fault_fired(wrapper()));
            leati_fault_arm(wrapper(), LEATI_FAULT_NONE, NULL, 0);
        }
        OK(leat_pool_alloc(t->stream, pool, 1000, &block));
        REFUSED(leat_pool_alloc(t->second, pool, 1000, &other), LEAT_ERROR_DEVICE_MEMORY, "the limit");
        test_gate_open(gate);
        OK(leat_stream_synchronize(t->stream));
        OK(leat_pool_alloc(t->second, pool, 1000, &other));
        OK(leat_free(t->second, other));
        OK(leat_free(t->stream, block));
        OK(leat_pool_destroy(pool));
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        STATE_TEST(own_memory_is_pending), STATE_TEST(a_failed_wait_drops_no_uses),
        STATE_TEST(a_control_group_has_no_more_to_pin), STATE_TEST(a_driver_refuses_what_is_free),
        STATE_TEST(a_page_that_changes_heaps_keeps_its_order)};

    setenv("LEAT_FAULT", "none", 1);
    setenv("LEAT_TEST_DEVICE", "cpu:0", 1);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
