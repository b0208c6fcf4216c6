/* test_struct_size.c - tests structs that can grow (leat/base.h): program and library may have different
 * versions. */
#include "harness.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The objects that the calls below use. */
static struct {
    leat_device *device;
    leat_stream *stream;
    leat_pool *pool;
    leat_ticket *ticket;
    leat_layout_plan *plan;
    leat_physical *physical;
    void *pinned, *managed;
    char *pageable;
} here;

static leat_status device_get_info(void *given)
{
    return leat_device_get_info(here.device, given);
}

static leat_status device_list(void *given)
{
    return leat_device_list(0, given);
}

static leat_status driver_list(void *given)
{
    return leat_driver_list(0, given);
}

static leat_status option_list(void *given)
{
    return leat_option_list(0, given);
}

static leat_status pointer_get_info(void *given)
{
    return leat_pointer_get_info(here.pinned, given);
}

static leat_status layout_plan_get_info(void *given)
{
    return leat_layout_plan_get_info(here.plan, given);
}

static leat_status managed_get_info(void *given)
{
    return here.managed ? leat_managed_get_info(here.managed, 100, given) : LEAT_ERROR_UNSUPPORTED;
}

static leat_status managed_get_stats(void *given)
{
    return here.managed && test_on_cpu() ? leat_managed_get_stats(here.device, here.managed, 100, given)
                                         : LEAT_ERROR_UNSUPPORTED;
}

static leat_status ticket_get_info(void *given)
{
    return leat_ticket_get_info(here.ticket, given);
}

static leat_status pool_get_stats(void *given)
{
    return leat_pool_get_stats(here.pool, given);
}

static leat_status pool_get_stream_share(void *given)
{
    return leat_pool_get_stream_share(here.pool, 0, given);
}

static leat_status pool_get_tag_share(void *given)
{
    return leat_pool_get_tag_share(here.pool, 0, given);
}

static leat_status physical_get_info(void *given)
{
    return here.physical ? leat_physical_get_info(here.physical, given) : LEAT_ERROR_UNSUPPORTED;
}

static leat_status pool_create(void *given)
{
    leat_pool *pool = NULL;
    leat_status status = leat_pool_create(here.device, given, &pool);

    if (status == LEAT_OK)
        OK(leat_pool_destroy(pool));
    assert_true(status == LEAT_OK || !pool);
    return status;
}

static leat_status copy_start(void *given)
{
    leat_ticket *ticket = NULL;
    leat_status status = leat_copy_start(here.stream, here.pageable, here.pinned, 100, given, &ticket);

    if (status == LEAT_OK)
        OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    assert_true(status == LEAT_OK || !ticket);
    OK(leat_ticket_destroy(ticket));
    return status;
}

/* Each row is a struct that can grow, with a call that takes it. */
static const struct row {
    const char *call, *type;
    size_t bytes;
    leat_status (*make)(void *given);
    bool is_result;
} rows[] = {
#define ROW(call, type, is_result)                                                                                \
    {                                                                                                             \
        "leat_" #call, #type, sizeof(type), call, is_result                                                       \
    }
    ROW(device_get_info, leat_device_info, true),      ROW(device_list, leat_device_info, true),
    ROW(driver_list, leat_driver_info, true),          ROW(option_list, leat_option_info, true),
    ROW(pointer_get_info, leat_pointer_info, true),    ROW(layout_plan_get_info, leat_layout_plan_info, true),
    ROW(managed_get_info, leat_managed_info, true),    ROW(managed_get_stats, leat_managed_stats, true),
    ROW(ticket_get_info, leat_ticket_info, true),      ROW(pool_get_stats, leat_pool_stats, true),
    ROW(pool_get_stream_share, leat_pool_share, true), ROW(pool_get_tag_share, leat_pool_share, true),
    ROW(physical_get_info, leat_physical_info, true),  ROW(pool_create, leat_pool_options, false),
    ROW(copy_start, leat_copy_options, false),
};
enum { ROWS = sizeof rows / sizeof rows[0], ROOM = 4096 + 64, OTHER = 0xee };

static int set_up(void **state)
{
    int64_t size[] = {10, 10};
    leat_layout layout;
    size_t unit;

    (void)state;
    OK(leat_stream_create(here.device, &here.stream));
    OK(leat_pool_default(here.device, LEAT_KIND_DEVICE, &here.pool));
    here.pinned = test_alloc(here.device, LEAT_KIND_PINNED, 1000);
    here.pageable = test_buffer(1000);
    if (leat_memory_alloc(here.device, LEAT_KIND_MANAGED, 1000, &here.managed) != LEAT_OK)
        here.managed = NULL;
    OK(leat_copy_start(here.stream, here.pageable, here.pinned, 1000, NULL, &here.ticket));
    OK(leat_ticket_wait(here.ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    OK(leat_layout_dense(&layout, 2, size, 4));
    OK(leat_layout_plan_create(here.device, &layout, 16, &layout, 16, &here.plan));
    if (leat_virtual_granularity(here.device, &unit) != LEAT_OK ||
        leat_physical_create(here.device, unit, 0, &here.physical) != LEAT_OK)
        here.physical = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    OK(leat_ticket_destroy(here.ticket));
    OK(leat_layout_plan_destroy(here.plan));
    OK(leat_physical_release(here.physical));
    OK(leat_memory_free(here.managed));
    OK(leat_memory_free(here.pinned));
    OK(leat_stream_destroy(here.stream));
    OK(leat_device_close(here.device));
    free(here.pageable);
    return 0;
}

/* Prepares a struct of this size: the bytes of a result are OTHER, so that the call must replace them; those of
 * options are 0. */
static void prepare(unsigned char room[ROOM], const struct row *row, size_t size)
{
    memset(room, OTHER, ROOM);
    if (!row->is_result)
        memset(room, 0, size < ROOM ? size : ROOM);
    memcpy(room, &size, sizeof size);
}

/* Checks that the call has not changed the struct's size field. */
static void expect_size(const unsigned char room[ROOM], size_t wanted)
{
    size_t size;

    memcpy(&size, room, sizeof size);
    assert_int_equal(size, wanted);
}

/* Calls the row's function with a struct of this version's size. Returns false if the device does not support the
 * call. */
static bool works(const struct row *row)
{
    _Alignas(max_align_t) unsigned char room[ROOM];

    prepare(room, row, row->bytes);
    if (row->make(room) == LEAT_ERROR_UNSUPPORTED)
        return false;
    prepare(room, row, row->bytes);
    OK(row->make(room));
    expect_size(room, row->bytes);
    return true;
}

static void nothing_behind_the_struct_is_touched(void **state)
{
    _Alignas(max_align_t) unsigned char room[ROOM];

    (void)state;
    for (int i = 0; i < ROWS; i++) {
        if (!works(&rows[i]))
            continue;
        prepare(room, &rows[i], rows[i].bytes);
        OK(rows[i].make(room));
        for (size_t at = rows[i].bytes; at < ROOM; at++)
            assert_int_equal(room[at], OTHER);
    }
}

/* A program built with an older header passes a shorter struct. Tests each size that some version may have had. */
static void a_shorter_struct_works(void **state)
{
    _Alignas(max_align_t) unsigned char whole[ROOM], room[ROOM];

    (void)state;
    for (int i = 0; i < ROWS; i++) {
        if (!works(&rows[i]))
            continue;
        prepare(whole, &rows[i], rows[i].bytes);
        OK(rows[i].make(whole));
        for (size_t size = sizeof(size_t); size < rows[i].bytes; size += size < 64 ? 4 : 60) {
            prepare(room, &rows[i], size);
            OK(rows[i].make(room));
            expect_size(room, size);
            for (size_t at = size; at < ROOM; at++)
                assert_int_equal(room[at], OTHER);
        }
    }
}

/* A program built with a newer header passes a longer struct. If the added fields are 0, the call must succeed. */
static void a_longer_struct_with_zeros_works(void **state)
{
    _Alignas(max_align_t) unsigned char room[ROOM];

    (void)state;
    for (int i = 0; i < ROWS; i++) {
        if (!works(&rows[i]))
            continue;
        for (size_t more = 1; more <= 64; more++) {
            prepare(room, &rows[i], rows[i].bytes + more);
            memset(room + rows[i].bytes, 0, more);
            OK(rows[i].make(room));
            expect_size(room, rows[i].bytes + more);
            for (size_t at = 0; at < more; at++)
                assert_int_equal(room[rows[i].bytes + at], 0);
            assert_int_equal(room[rows[i].bytes + more], OTHER);
        }
    }
}

static void a_longer_struct_with_more_is_refused(void **state)
{
    _Alignas(max_align_t) unsigned char room[ROOM], before[ROOM];

    (void)state;
    for (int i = 0; i < ROWS; i++) {
        if (!works(&rows[i]))
            continue;
        for (size_t more = 1; more <= 64; more += 7) {
            prepare(room, &rows[i], rows[i].bytes + more);
            memset(room + rows[i].bytes, 0, more);
            room[rows[i].bytes + more - 1] = 1;
            memcpy(before, room, ROOM);
            assert_int_equal(rows[i].make(room), LEAT_ERROR_INVALID);
            assert_non_null(strstr(leat_last_error(), rows[i].type));
            assert_non_null(strstr(leat_last_error(), "newer"));
            assert_memory_equal(room, before, ROOM);
        }
    }
}

/* If the program has not set the size, the message must name the macro that sets it. */
static void a_size_of_nothing_is_refused(void **state)
{
    static const size_t sizes[] = {0, 1, sizeof(size_t) - 1, 4097, SIZE_MAX};
    _Alignas(max_align_t) unsigned char room[ROOM], before[ROOM];

    (void)state;
    for (int i = 0; i < ROWS; i++) {
        char init[64];

        snprintf(init, sizeof init, "%s_INIT", rows[i].type);
        for (char *c = init; *c; c++)
            *c = (char)toupper((unsigned char)*c);
        if (!works(&rows[i]))
            continue;
        for (int size = 0; size < 5; size++) {
            prepare(room, &rows[i], sizes[size]);
            memcpy(before, room, ROOM);
            assert_int_equal(rows[i].make(room), LEAT_ERROR_INVALID);
            if (!strstr(leat_last_error(), init))
                fail_msg("no %s in: %s", init, leat_last_error());
            assert_memory_equal(room, before, ROOM);
        }
    }
}

static void the_macros_set_size_and_nothing_else(void **state)
{
    (void)state;
#define EXPECT_INIT(type, macro)                                                                                  \
    do {                                                                                                          \
        type made = macro;                                                                                        \
        unsigned char *bytes = (unsigned char *)&made;                                                            \
                                                                                                                  \
        assert_int_equal(offsetof(type, size), 0);                                                                \
        assert_int_equal(made.size, sizeof made);                                                                 \
        made.size = 0;                                                                                            \
        for (size_t i = 0; i < sizeof made; i++)                                                                  \
            assert_int_equal(bytes[i], 0);                                                                        \
    } while (0)
    EXPECT_INIT(leat_device_info, LEAT_DEVICE_INFO_INIT);
    EXPECT_INIT(leat_driver_info, LEAT_DRIVER_INFO_INIT);
    EXPECT_INIT(leat_option_info, LEAT_OPTION_INFO_INIT);
    EXPECT_INIT(leat_pointer_info, LEAT_POINTER_INFO_INIT);
    EXPECT_INIT(leat_layout_plan_info, LEAT_LAYOUT_PLAN_INFO_INIT);
    EXPECT_INIT(leat_managed_info, LEAT_MANAGED_INFO_INIT);
    EXPECT_INIT(leat_managed_stats, LEAT_MANAGED_STATS_INIT);
    EXPECT_INIT(leat_ticket_info, LEAT_TICKET_INFO_INIT);
    EXPECT_INIT(leat_pool_stats, LEAT_POOL_STATS_INIT);
    EXPECT_INIT(leat_pool_share, LEAT_POOL_SHARE_INIT);
    EXPECT_INIT(leat_physical_info, LEAT_PHYSICAL_INFO_INIT);
    EXPECT_INIT(leat_pool_options, LEAT_POOL_OPTIONS_INIT);
    EXPECT_INIT(leat_copy_options, LEAT_COPY_OPTIONS_INIT);
    EXPECT_INIT(leat_conversion, LEAT_CONVERSION_INIT);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(nothing_behind_the_struct_is_touched), cmocka_unit_test(a_shorter_struct_works),
    cmocka_unit_test(a_longer_struct_with_zeros_works),     cmocka_unit_test(a_longer_struct_with_more_is_refused),
    cmocka_unit_test(a_size_of_nothing_is_refused),         cmocka_unit_test(the_macros_set_size_and_nothing_else),
};

int main(void)
{
    if (!test_device_there())
        return 77;
    here.device = test_open();
    /* The counts of managed memory need a record, which must start before cmocka installs its SIGSEGV handler. */
    if (test_on_cpu() &&
        (leat_managed_record(here.device, 1) != LEAT_OK || leat_managed_record(here.device, 0) != LEAT_OK)) {
        fprintf(stderr, "%s\n", leat_last_error());
        return 1;
    }
    return cmocka_run_group_tests(tests, set_up, tear_down) ? 1 : 0;
}
