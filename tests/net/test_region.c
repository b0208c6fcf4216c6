/* test_region.c - tests regions: leat_expose(), leat_get() and leat_put() between two ends of a link in one
 * process. */
#include "link_room.h"

static const struct link_setup setups[] = {
    {.transport = TRANSPORT_UNIX},
    {.transport = TRANSPORT_TCP, .window_bytes = 100000},
};
#define SETUPS (sizeof setups / sizeof setups[0])

#define REGION_BYTES (20 * MIB + 5)

/* A link whose second end exposes memory on a stream of its own. */
struct scene {
    const struct test_state *room;
    struct ends ends;
    leat_stream *server;
    struct memory memory;
    leat_region *region;
};

static struct scene make_scene(const struct test_state *room, const struct link_setup *setup, leat_kind kind,
                               leat_access access)
{
    struct scene scene = {.room = room, .ends = make_ends(setup)};

    OK(leat_stream_create(room->device, &scene.server));
    scene.memory = make_memory(room->device, room->stream, kind, REGION_BYTES, 3);
    fill_memory(room->stream, &scene.memory, 1);
    OK(leat_expose(scene.server, scene.ends.two, "weights", scene.memory.at, REGION_BYTES, access, &scene.region));
    return scene;
}

static void free_scene(struct scene *scene)
{
    OK(leat_unexpose(scene->region));
    take_failures(scene->server);
    OK(leat_stream_destroy(scene->server));
    close_ends(&scene->ends);
    free_memory(&scene->memory);
}

static leat_ticket *get_start(struct scene *scene, void *dst, uint64_t offset, size_t bytes)
{
    leat_ticket *ticket = NULL;

    OK(leat_get_start(scene->room->stream, dst, scene->ends.one, "weights", offset, bytes, NULL, &ticket));
    return ticket;
}

static leat_ticket *put_start(struct scene *scene, uint64_t offset, const void *src, size_t bytes)
{
    leat_ticket *ticket = NULL;

    OK(leat_put_start(scene->room->second, scene->ends.one, "weights", offset, src, bytes, NULL, &ticket));
    return ticket;
}

static void test_get(void **state)
{
    const struct test_state *room = *state;

    for (unsigned i = 0; i < MEMORY_KINDS; i++) {
        struct scene scene = make_scene(room, &setups[i % SETUPS], memory_kinds[i], LEAT_ACCESS_READ);
        struct memory dst = make_memory(room->device, room->stream, memory_kinds[(i + 1) % 3], REGION_BYTES, 1);
        struct memory part = make_memory(room->device, room->stream, LEAT_KIND_PAGEABLE, 1, 0);
        unsigned char expected[16];

        OK(leat_get(room->stream, dst.at, scene.ends.one, "weights", 0, REGION_BYTES));
        OK(leat_stream_synchronize(room->stream));
        expect_message(room->stream, &dst, 1);
        test_pattern(expected, sizeof expected, 1);
        ENDS_WITH(get_start(&scene, part.at, 13, 1), LEAT_OK);
        assert_int_equal(part.at[0], expected[13]);
        ENDS_WITH(get_start(&scene, part.at, REGION_BYTES, 0), LEAT_OK);
        free_memory(&part);
        free_memory(&dst);
        free_scene(&scene);
    }
}

static void test_put(void **state)
{
    const struct test_state *room = *state;

    for (unsigned i = 0; i < MEMORY_KINDS; i++) {
        struct scene scene = make_scene(room, &setups[i % SETUPS], memory_kinds[i], LEAT_ACCESS_READ_WRITE);
        struct memory src = make_memory(room->device, room->stream, memory_kinds[(i + 1) % 3], REGION_BYTES, 1);
        unsigned char byte = 0x5a, *read = test_buffer(REGION_BYTES);

        fill_memory(room->stream, &src, 2);
        OK(leat_put(room->second, scene.ends.one, "weights", 0, src.at, REGION_BYTES));
        OK(leat_stream_synchronize(room->second));
        /* Complete means that the bytes are in the region. */
        expect_message(room->stream, &scene.memory, 2);
        ENDS_WITH(put_start(&scene, REGION_BYTES - 1, &byte, 1), LEAT_OK);
        copy_now(room->stream, read, scene.memory.at, REGION_BYTES);
        assert_int_equal(read[REGION_BYTES - 1], byte);
        EXPECT_PATTERN(read, REGION_BYTES - 1, 2);
        free(read);
        free_memory(&src);
        free_scene(&scene);
    }
}

/* Many gets and puts at once, beside messages in both directions. */
static void test_together(void **state)
{
    const struct test_state *room = *state;
    enum { COPIES = 60 };
    struct scene scene = make_scene(room, &setups[1], LEAT_KIND_DEVICE, LEAT_ACCESS_READ_WRITE);
    struct memory src = make_memory(room->device, room->stream, LEAT_KIND_PINNED, MIB, 0);
    struct memory dst = make_memory(room->device, room->stream, LEAT_KIND_PINNED, MIB, 0);
    leat_ticket *tickets[COPIES];
    unsigned char *bytes = test_buffer(COPIES * 1000), *got = test_buffer(COPIES * 1000);

    fill_memory(room->stream, &src, 4);
    test_pattern(bytes, COPIES * 1000, 8);
    OK(leat_receive(scene.server, dst.at, scene.ends.two, 1, MIB));
    for (size_t i = 0; i < COPIES; i++)
        tickets[i] = put_start(&scene, i * 1000, bytes + i * 1000, 1000);
    OK(leat_send(room->stream, scene.ends.one, 1, src.at, MIB));
    for (size_t i = 0; i < COPIES; i++)
        ENDS_WITH(tickets[i], LEAT_OK);
    for (size_t i = 0; i < COPIES; i++)
        tickets[i] = get_start(&scene, got + i * 1000, i * 1000, 1000);
    for (size_t i = 0; i < COPIES; i++)
        ENDS_WITH(tickets[i], LEAT_OK);
    EXPECT_PATTERN(got, COPIES * 1000, 8);
    OK(leat_stream_synchronize(scene.server));
    expect_message(scene.server, &dst, 4);
    free(bytes);
    free(got);
    free_memory(&src);
    free_memory(&dst);
    free_scene(&scene);
}

static void test_refusals(void **state)
{
    const struct test_state *room = *state;
    struct scene scene = make_scene(room, &setups[0], LEAT_KIND_DEVICE, LEAT_ACCESS_READ);
    char bytes[8];
    leat_ticket *ticket;

    OK(leat_get_start(room->stream, bytes, scene.ends.one, "nothing", 0, 8, NULL, &ticket));
    ENDS_WITH(ticket, LEAT_ERROR_NOT_FOUND);
    ENDS_WITH(get_start(&scene, bytes, REGION_BYTES - 7, 8), LEAT_ERROR_RANGE);
    ENDS_WITH(get_start(&scene, bytes, (uint64_t)INT64_MAX - 8, 8), LEAT_ERROR_RANGE);
    ENDS_WITH(put_start(&scene, 0, bytes, 8), LEAT_ERROR_NOT_PERMITTED);
    take_failures(room->stream);
    take_failures(room->second);
    /* The first end exposes nothing, so it refuses too. */
    OK(leat_put_start(room->stream, scene.ends.two, "weights", 0, bytes, 8, NULL, &ticket));
    ENDS_WITH(ticket, LEAT_ERROR_NOT_FOUND);
    take_failures(room->stream);
    ENDS_WITH(get_start(&scene, bytes, REGION_BYTES - 8, 8), LEAT_OK);
    assert_int_equal(info_of(scene.ends.one).status, LEAT_OK);
    free_scene(&scene);
}

static void test_bad_calls(void **state)
{
    const struct test_state *room = *state;
    struct scene scene = make_scene(room, &setups[0], LEAT_KIND_DEVICE, LEAT_ACCESS_READ);
    leat_link *link = scene.ends.two;
    leat_region *region;
    char byte = 0, name[200];

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    REFUSED(leat_expose(room->stream, NULL, "a", &byte, 1, LEAT_ACCESS_READ, &region), LEAT_ERROR_HANDLE, "link");
    REFUSED(leat_expose(NULL, link, "a", &byte, 1, LEAT_ACCESS_READ, &region), LEAT_ERROR_HANDLE, "leat_expose");
    REFUSED(leat_expose(room->stream, link, NULL, &byte, 1, LEAT_ACCESS_READ, &region), LEAT_ERROR_INVALID,
            "name");
    REFUSED(leat_expose(room->stream, link, "", &byte, 1, LEAT_ACCESS_READ, &region), LEAT_ERROR_INVALID, "name");
    REFUSED(leat_expose(room->stream, link, name, &byte, 1, LEAT_ACCESS_READ, &region), LEAT_ERROR_INVALID, "127");
    REFUSED(leat_expose(room->stream, link, "a", NULL, 1, LEAT_ACCESS_READ, &region), LEAT_ERROR_INVALID, "ptr");
    REFUSED(leat_expose(room->stream, link, "a", &byte, 1, LEAT_ACCESS_NONE, &region), LEAT_ERROR_INVALID,
            "access");
    REFUSED(leat_expose(room->stream, link, "a", &byte, 1, LEAT_ACCESS_READ, NULL), LEAT_ERROR_INVALID, "region");
    REFUSED(leat_expose(room->stream, link, "a", scene.memory.at, 100 * MIB, LEAT_ACCESS_READ, &region),
            LEAT_ERROR_RANGE, "leat_expose");
    REFUSED(leat_expose(room->stream, link, "weights", &byte, 1, LEAT_ACCESS_READ, &region), LEAT_ERROR_BUSY,
            "weights");
    REFUSED(leat_get(room->stream, &byte, link, NULL, 0, 1), LEAT_ERROR_INVALID, "leat_get");
    REFUSED(leat_put(room->stream, link, name, 0, &byte, 1), LEAT_ERROR_INVALID, "127");
    OK(leat_unexpose(NULL));
    free_scene(&scene);
}

/* Ends a region while copies use it, or wait for its stream. */
static void test_unexpose(void **state)
{
    const struct test_state *room = *state;

    for (unsigned round = 0; round < 30; round++) {
        struct scene scene = make_scene(room, &setups[round % SETUPS], LEAT_KIND_DEVICE, LEAT_ACCESS_READ_WRITE);
        struct memory memory = make_memory(room->device, room->stream, LEAT_KIND_PINNED, REGION_BYTES, 1);
        bool put = round / 2 % 2, again = round % 3 == 0;
        leat_ticket *ticket =
            put ? put_start(&scene, 0, memory.at, REGION_BYTES) : get_start(&scene, memory.at, 0, REGION_BYTES);
        leat_status status;

        test_sleep_us(round * 150);
        if (round % 5 == 4) {
            OK(leat_link_close(scene.ends.two)); /* ends the region too */
            scene.region = NULL;
            scene.ends.two = NULL;
        } else {
            OK(leat_unexpose(scene.region));
            scene.region = NULL;
        }
        status = end_of(ticket);
        assert_true(status == LEAT_OK || status == LEAT_ERROR_LINK || status == LEAT_ERROR_NOT_FOUND);
        take_failures(room->stream);
        take_failures(room->second);
        expect_guards(room->stream, &memory);
        if (again && scene.ends.two) {
            OK(leat_expose(scene.server, scene.ends.two, "weights", scene.memory.at, REGION_BYTES,
                           LEAT_ACCESS_READ_WRITE, &scene.region));
            ENDS_WITH(get_start(&scene, memory.at, 0, 100), LEAT_OK);
        }
        free_memory(&memory);
        free_scene(&scene);
    }
}

/* Cancels gets and puts at different moments. The link lives on. */
static void test_cancel(void **state)
{
    const struct test_state *room = *state;
    struct scene scene = make_scene(room, &setups[1], LEAT_KIND_DEVICE, LEAT_ACCESS_READ_WRITE);
    struct memory memory = make_memory(room->device, room->stream, LEAT_KIND_PINNED, REGION_BYTES, 1);

    for (unsigned round = 0; round < 40; round++) {
        leat_ticket *ticket = round % 2 ? put_start(&scene, 0, memory.at, REGION_BYTES)
                                        : get_start(&scene, memory.at, 0, REGION_BYTES);
        leat_status status;

        test_sleep_us(round / 2 * 200);
        OK(leat_ticket_cancel(ticket));
        status = end_of(ticket);
        assert_true(status == LEAT_OK || status == LEAT_ERROR_CANCELLED);
        ENDS_WITH(get_start(&scene, memory.at, 5, 100), LEAT_OK);
        ENDS_WITH(put_start(&scene, 5, memory.at, 100), LEAT_OK);
    }
    take_failures(scene.server);
    assert_int_equal(info_of(scene.ends.one).sends, 0);
    assert_int_equal(info_of(scene.ends.one).receives, 0);
    free_memory(&memory);
    free_scene(&scene);
}

static void test_blocked_stream(void **state)
{
    const struct test_state *room = *state;
    struct scene scene = make_scene(room, &setups[0], LEAT_KIND_DEVICE, LEAT_ACCESS_READ_WRITE);
    struct test_gate *gate = test_gate_close(scene.server);
    char bytes[100] = "";
    leat_ticket *put = put_start(&scene, 0, bytes, sizeof bytes), *get = get_start(&scene, bytes, 0, sizeof bytes);

    assert_int_equal(leat_ticket_wait(put, LEAT_COPY_POINT_DONE, 20000000), LEAT_NOT_READY);
    assert_int_equal(leat_ticket_wait(get, LEAT_COPY_POINT_DONE, 0), LEAT_NOT_READY);
    test_gate_open(gate);
    ENDS_WITH(put, LEAT_OK);
    ENDS_WITH(get, LEAT_OK);
    free_scene(&scene);
}

/* Ends a region while more copies than it starts at a time wait for its stream. */
static void test_unexpose_with_many(void **state)
{
    enum { COPIES = 50 };
    const struct test_state *room = *state;

    for (unsigned round = 0; round < 4; round++) {
        struct scene scene = make_scene(room, &setups[0], LEAT_KIND_DEVICE, LEAT_ACCESS_READ_WRITE);
        struct test_gate *gate = test_gate_close(scene.server);
        unsigned char bytes[COPIES];
        leat_ticket *tickets[COPIES];

        for (unsigned i = 0; i < COPIES; i++)
            tickets[i] = i % 2 ? put_start(&scene, i, &bytes[i], 1) : get_start(&scene, &bytes[i], i, 1);
        test_sleep_us(5000);
        test_gate_open(gate);
        test_sleep_us(round * 50);
        OK(leat_unexpose(scene.region));
        scene.region = NULL;
        for (unsigned i = 0; i < COPIES; i++) {
            leat_status status = end_of(tickets[i]);

            assert_true(status == LEAT_OK || status == LEAT_ERROR_LINK || status == LEAT_ERROR_NOT_FOUND);
        }
        take_failures(room->stream);
        take_failures(room->second);
        assert_int_equal(info_of(scene.ends.one).status, LEAT_OK);
        free_scene(&scene);
    }
}

/* The stream of a region waits for a message of the same link that never comes: closing the link ends the receive
 * before it waits for the get. */
static void test_close_with_a_receive_in_front(void **state)
{
    const struct test_state *room = *state;
    struct scene scene = make_scene(room, &setups[0], LEAT_KIND_DEVICE, LEAT_ACCESS_READ);
    char bytes[100], never[100];
    leat_ticket *ticket;

    OK(leat_receive(scene.server, never, scene.ends.two, 5, sizeof never));
    ticket = get_start(&scene, bytes, 0, sizeof bytes);
    assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, 20000000), LEAT_NOT_READY);
    OK(leat_link_close(scene.ends.two)); /* ends the region too */
    scene.ends.two = NULL;
    scene.region = NULL;
    ENDS_WITH(ticket, LEAT_ERROR_LINK);
    take_failures(room->stream);
    free_scene(&scene);
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(test_get),       STATE_TEST(test_put),
    STATE_TEST(test_together),  STATE_TEST(test_refusals),
    STATE_TEST(test_bad_calls), STATE_TEST(test_unexpose),
    STATE_TEST(test_cancel),    STATE_TEST(test_blocked_stream),
    STATE_TEST(test_unexpose_with_many),
    STATE_TEST(test_close_with_a_receive_in_front),
};

LINK_TEST_MAIN(tests)
