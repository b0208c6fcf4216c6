/*
 * test_broadcast.c - tests leat_broadcast() over trees of links in one process: bytes, kinds of memory, slow and failing
 * members, and calls that are refused.
 */
#include "link_room.h"

enum { MEMBERS_MAX = 8 };

/* A tree of links: member r > 0 has member parents[r] above it. */
struct tree {
    unsigned count;
    const unsigned *parents;
    leat_link *up[MEMBERS_MAX];                 /* the end at the member; NULL for the root */
    leat_link *down[MEMBERS_MAX][MEMBERS_MAX];  /* the ends at the member, to its children */
    unsigned children[MEMBERS_MAX];
    leat_stream *streams[MEMBERS_MAX];
    struct memory memory[MEMBERS_MAX];
};

static const unsigned chain[] = {0, 0, 1, 2, 3}, binary[] = {0, 0, 0, 1, 1, 2, 2}, star[] = {0, 0, 0, 0, 0};
static const struct {
    const unsigned *parents;
    unsigned count;
} shapes[] = {{chain, 2}, {chain, 5}, {binary, 7}, {star, 5}};
#define SHAPES (sizeof shapes / sizeof shapes[0])

static void plant(struct tree *tree, const struct test_state *room, size_t shape, const struct link_setup *setup,
                  size_t bytes)
{
    memset(tree, 0, sizeof *tree);
    tree->count = shapes[shape].count;
    tree->parents = shapes[shape].parents;
    for (unsigned r = 0; r < tree->count; r++) {
        unsigned above = tree->parents[r];

        OK(leat_stream_create(room->device, &tree->streams[r]));
        tree->memory[r] = make_memory(room->device, room->stream, memory_kinds[r % MEMORY_KINDS], bytes, r);
        if (r) {
            struct ends ends = make_ends(setup);

            tree->up[r] = ends.two;
            tree->down[above][tree->children[above]++] = ends.one;
        }
    }
}

static void fell(struct tree *tree)
{
    for (unsigned r = 0; r < tree->count; r++) {
        take_failures(tree->streams[r]);
        OK(leat_stream_destroy(tree->streams[r]));
        free_memory(&tree->memory[r]);
        OK(leat_link_close(tree->up[r]));
        for (unsigned i = 0; i < tree->children[r]; i++)
            OK(leat_link_close(tree->down[r][i]));
    }
}

static leat_ticket *start(struct tree *tree, unsigned r, uint64_t tag, size_t bytes)
{
    leat_ticket *ticket = NULL;

    OK(leat_broadcast_start(tree->streams[r], tree->memory[r].at, bytes, tag, tree->up[r], tree->down[r],
                            tree->children[r], NULL, &ticket));
    assert_non_null(ticket);
    return ticket;
}

/* Every member gets the bytes of the root, whatever the shape, the size and the kinds of memory, and whoever calls
 * first. */
static void all_members_get_the_bytes(void **state)
{
    static const size_t sizes[] = {1, 64 * KIB + 1, 3 * MIB + 5, 33 * MIB};
    static const struct link_setup setups[] = {{.transport = TRANSPORT_UNIX},
                                               {.transport = TRANSPORT_TCP},
                                               {.transport = TRANSPORT_TCP, .window_bytes = 64 * KIB},
                                               {.transport = TRANSPORT_UNIX}};
    const struct test_state *room = *state;

    for (size_t shape = 0; shape < SHAPES; shape++)
        for (size_t i = 0; i < 4; i++) {
            leat_ticket *tickets[MEMBERS_MAX];
            struct tree tree;

            plant(&tree, room, shape, &setups[i], sizes[i]);
            fill_memory(room->stream, &tree.memory[0], shape + i);
            for (unsigned k = 0; k < tree.count; k++) {
                unsigned r = i % 2 ? k : tree.count - 1 - k;

                tickets[r] = start(&tree, r, 7, sizes[i]);
            }
            for (unsigned r = 0; r < tree.count; r++)
                ENDS_WITH(tickets[r], LEAT_OK);
            for (unsigned r = 0; r < tree.count; r++)
                expect_message(room->stream, &tree.memory[r], shape + i);
            fell(&tree);
        }
}

/* Several broadcasts, one after the other on each stream, keep their order. */
static void broadcasts_keep_the_order_of_streams(void **state)
{
    const struct test_state *room = *state;
    const size_t bytes = 2 * MIB + 1;
    unsigned char *seen = test_buffer(6 * bytes);
    struct tree tree;

    plant(&tree, room, 2, &(struct link_setup){.transport = TRANSPORT_UNIX}, bytes);
    for (unsigned round = 0; round < 6; round++)
        for (unsigned r = 0; r < tree.count; r++) {
            /* The root is a device, so its fill is in the order of the stream. */
            if (!r)
                OK(leat_fill(tree.streams[0], tree.memory[0].at, (uint8_t)(round + 1), bytes));
            OK(leat_broadcast(tree.streams[r], tree.memory[r].at, bytes, round % 2, tree.up[r], tree.down[r],
                              tree.children[r]));
            if (r == 3)
                OK(leat_copy(tree.streams[r], seen + round * bytes, tree.memory[r].at, bytes));
        }
    for (unsigned r = 0; r < tree.count; r++)
        OK(leat_stream_synchronize(tree.streams[r]));
    for (unsigned round = 0; round < 6; round++)
        EXPECT_BYTES(seen + round * bytes, bytes, (unsigned char)(round + 1));
    free(seen);
    fell(&tree);
}

/* A member that comes late holds the others up, but loses nothing, and other messages on the links get through. */
static void a_late_member_is_waited_for(void **state)
{
    const struct test_state *room = *state;
    const size_t bytes = 40 * MIB;
    leat_ticket *tickets[MEMBERS_MAX];
    struct memory small = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, 1000, 0);
    struct tree tree;

    plant(&tree, room, 1, &(struct link_setup){.transport = TRANSPORT_TCP}, bytes);
    fill_memory(room->stream, &tree.memory[0], 5);
    for (unsigned r = 0; r < 4; r++)
        tickets[r] = start(&tree, r, 1, bytes);
    test_sleep_us(20000);
    assert_int_equal(leat_ticket_wait(tickets[0], LEAT_COPY_POINT_DONE, 0), LEAT_NOT_READY);
    /* Members 1 and 2 are in the middle of the chain. */
    fill_memory(room->stream, &small, 3);
    OK(leat_send(room->stream, tree.down[1][0], 2, small.at, 500));
    OK(leat_receive(room->second, small.at + 500, tree.up[2], 2, 500));
    OK(leat_stream_synchronize(room->second));
    tickets[4] = start(&tree, 4, 1, bytes);
    for (unsigned r = 0; r < tree.count; r++)
        ENDS_WITH(tickets[r], LEAT_OK);
    for (unsigned r = 0; r < tree.count; r++)
        expect_message(room->stream, &tree.memory[r], 5);
    fell(&tree);
    free_memory(&small);
}

/* A member ends, at different times: all others fail or are complete, none waits for ever, and no other byte is
 * written. */
static void a_member_that_ends_fails_the_others(void **state)
{
    const struct test_state *room = *state;
    const size_t bytes = 24 * MIB;

    for (unsigned round = 0; round < 8; round++) {
        leat_ticket *tickets[MEMBERS_MAX];
        struct tree tree;

        plant(&tree, room, 2, &(struct link_setup){.transport = (enum transport)(round % 2)}, bytes);
        for (unsigned r = 0; r < tree.count; r++)
            tickets[r] = start(&tree, r, 1, bytes);
        test_sleep_us((long)(round * 700));
        if (round < 4) {
            OK(leat_ticket_cancel(tickets[1]));
        } else {
            OK(leat_link_close(tree.up[1]));
            tree.up[1] = NULL;
        }
        for (unsigned r = 0; r < tree.count; r++) {
            leat_status status = end_of(tickets[r]);

            if (status != LEAT_OK && status != LEAT_ERROR_LINK)
                assert_int_equal(status, r == 1 ? LEAT_ERROR_CANCELLED : LEAT_OK);
        }
        for (unsigned r = 0; r < tree.count; r++)
            expect_guards(room->stream, &tree.memory[r]);
        fell(&tree);
    }
}

static void wrong_arguments_are_refused(void **state)
{
    const struct test_state *room = *state;
    struct ends ends = make_ends(&(struct link_setup){.transport = TRANSPORT_UNIX});
    leat_link *none[2] = {ends.one, NULL}, *most[65];
    struct memory memory = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, 100, 0);
    leat_ticket *ticket = NULL;

    for (unsigned i = 0; i < 65; i++)
        most[i] = ends.one;
    REFUSED(leat_broadcast(room->stream, memory.at, 100, 1, NULL, NULL, 0), LEAT_ERROR_INVALID, "neither");
    REFUSED(leat_broadcast(room->stream, memory.at, 100, 1, NULL, NULL, 1), LEAT_ERROR_INVALID, "children is NULL");
    REFUSED(leat_broadcast(room->stream, memory.at, 100, 1, NULL, none, 2), LEAT_ERROR_HANDLE, "children[1]");
    REFUSED(leat_broadcast(room->stream, memory.at, 100, 1, NULL, most, 65), LEAT_ERROR_INVALID, "64");
    REFUSED(leat_broadcast_start(room->stream, memory.at, 100, 1, NULL, most, 1, NULL, NULL), LEAT_ERROR_INVALID,
            "ticket");
    REFUSED(leat_broadcast(NULL, memory.at, 100, 1, NULL, most, 1), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_broadcast(room->stream, NULL, 100, 1, ends.one, NULL, 0), LEAT_ERROR_POINTER, "NULL");
    assert_int_equal(info_of(ends.one).sends, 0);
    assert_int_equal(info_of(ends.one).receives, 0);
    OK(leat_broadcast_start(room->stream, memory.at, 0, 1, NULL, most, 1, NULL, &ticket));
    ENDS_WITH(ticket, LEAT_OK);
    OK(leat_link_close(ends.two));
    wait_for_failure(ends.one);
    REFUSED(leat_broadcast(room->stream, memory.at, 100, 1, ends.one, NULL, 0), LEAT_ERROR_LINK, "has failed");
    REFUSED(leat_broadcast(room->stream, memory.at, 100, 1, NULL, most, 1), LEAT_ERROR_LINK, "has failed");
    free_memory(&memory);
    OK(leat_link_close(ends.one));
}

const struct CMUnitTest tests[] = {
    STATE_TEST(all_members_get_the_bytes),           STATE_TEST(broadcasts_keep_the_order_of_streams),
    STATE_TEST(a_late_member_is_waited_for),         STATE_TEST(a_member_that_ends_fails_the_others),
    STATE_TEST(wrong_arguments_are_refused),
};

TEST_MAIN(tests)
