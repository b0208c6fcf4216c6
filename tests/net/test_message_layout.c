/*
 * test_message_layout.c - tests messages between layouts: random layouts at one end or at both, packed arrays,
 * kinds of memory, failures and ends, and the memory of packed arrays.
 */
#include "link_room.h"

#include "layouts.h"

static const struct link_setup setups[] = {
    {.transport = TRANSPORT_UNIX},
    {.transport = TRANSPORT_TCP, .window_bytes = 64 * KIB},
};

/* ---- arrays in memory ---- */

/* An array of one end. pointer is what a call gets with the layout. */
struct array {
    struct memory memory; /* from the first byte of the array to its last */
    char *pointer;
    const leat_layout *layout;
    int64_t low;
};

static struct array make_array(const struct test_state *room, leat_kind kind, const leat_layout *layout,
                               int64_t low, int64_t high, size_t misaligned)
{
    struct array array = {.layout = layout, .low = low};

    array.memory = make_memory(room->device, room->stream, kind, (size_t)(high - low), misaligned);
    array.pointer = (char *)((uintptr_t)array.memory.at - (uintptr_t)low);
    return array;
}

/* Returns the bytes of an array, which the caller frees. Fails if a guard was written. */
static unsigned char *bytes_of(const struct test_state *room, const struct array *array)
{
    unsigned char *bytes = test_buffer(array->memory.bytes);

    expect_guards(room->stream, &array->memory);
    copy_now(room->stream, bytes, array->memory.at, array->memory.bytes);
    return bytes;
}

/* Fails if the array and the gaps in it are not those of wanted. */
static void expect_array(const struct test_state *room, const struct array *array, const unsigned char *wanted)
{
    unsigned char *got = bytes_of(room, array);

    if (memcmp(got, wanted, array->memory.bytes)) {
        char text[500];

        layouts_print(array->layout, text, sizeof text);
        print_error("wrong bytes in %s\n", text);
        fail();
    }
    free(got);
}

static void free_array(struct array *array)
{
    free_memory(&array->memory);
}

/* ---- random layouts ---- */

static uint64_t random_state = 4711;

enum way { BOTH_STRIDED, PLAIN_RECEIVE, PLAIN_SEND, WAYS };

/* Sends the source of a pair, and receives its destination. With PLAIN_RECEIVE the receiver gets the packed array
 * by leat_receive(), with PLAIN_SEND the sender has it packed and calls leat_send(). */
static void move_pair(const struct test_state *room, const struct ends *ends, struct layouts_pair *pair,
                      enum way way, leat_kind from, leat_kind to, bool tickets)
{
    size_t bytes = (size_t)pair->elements * pair->dst.element_bytes;
    leat_layout dense;
    struct array src, dst;
    leat_ticket *sent = NULL, *received = NULL;
    unsigned char *read, *wanted;

    OK(leat_layout_dense(&dense, pair->dst.dims, pair->dst.size, pair->dst.element_bytes));
    if (way == PLAIN_RECEIVE)
        pair->dst = dense;
    if (way == PLAIN_SEND)
        pair->src = dense;
    layouts_measure(pair);
    src = make_array(room, from, &pair->src, pair->src_low, pair->src_high, layouts_random(&random_state, 20));
    dst = make_array(room, to, &pair->dst, pair->dst_low, pair->dst_high, layouts_random(&random_state, 20));
    fill_memory(room->stream, &src.memory, bytes);
    read = bytes_of(room, &src);
    wanted = test_buffer(dst.memory.bytes);
    memset(wanted, GUARD_VALUE, dst.memory.bytes);
    layouts_copy(pair, wanted, read);
    if (tickets) {
        OK(leat_receive_layout_start(room->second, dst.pointer, dst.layout, ends->two, 9, NULL, &received));
        OK(leat_send_layout_start(room->stream, ends->one, 9, src.pointer, src.layout, NULL, &sent));
        assert_int_equal(test_ticket_info(received).bytes, bytes);
        assert_int_equal(test_ticket_info(sent).bytes, bytes);
        ENDS_WITH(sent, LEAT_OK);
        ENDS_WITH(received, LEAT_OK);
    } else {
        OK(way == PLAIN_SEND ? leat_send(room->stream, ends->one, 9, src.memory.at, bytes)
                             : leat_send_layout(room->stream, ends->one, 9, src.pointer, src.layout));
        OK(way == PLAIN_RECEIVE ? leat_receive(room->second, dst.memory.at, ends->two, 9, bytes)
                                : leat_receive_layout(room->second, dst.pointer, dst.layout, ends->two, 9));
        OK(leat_stream_synchronize(room->stream));
        OK(leat_stream_synchronize(room->second));
    }
    expect_array(room, &dst, wanted);
    free(read);
    free(wanted);
    free_array(&src);
    free_array(&dst);
}

static void random_layouts(void **state)
{
    const struct test_state *room = *state;

    for (unsigned s = 0; s < 2; s++) {
        struct ends ends = make_ends(&setups[s]);

        for (unsigned i = 0; i < 240; i++) {
            enum layouts_list list = i % 5 == 3 ? LAYOUTS_GATHER : i % 5 == 4 ? LAYOUTS_SCATTER : LAYOUTS_NO_LIST;
            leat_kind from = memory_kinds[i % MEMORY_KINDS], to = memory_kinds[i / MEMORY_KINDS % MEMORY_KINDS];
            enum way way = (enum way)(i % 7 % WAYS);
            struct layouts_pair pair;

            layouts_draw(&random_state, 1 + (uint32_t)layouts_random(&random_state, 16), i % 12 ? 20000 : 3 * MIB,
                         list, &pair);
            move_pair(room, &ends, &pair, way, from, to, i % 2);
        }
        assert_int_equal(info_of(ends.one).sends, 0);
        assert_int_equal(info_of(ends.two).receives, 0);
        close_ends(&ends);
    }
}

/* ---- known shapes ---- */

/* The example of link.h: the other end receives the transpose. The sender's matrix is packed, so it needs no
 * memory.
 */
static void a_matrix_arrives_transposed(void **state)
{
    enum { ROWS = 700, COLUMNS = 901 };
    const struct test_state *room = *state;
    struct ends ends = make_ends(&setups[1]);
    const size_t bytes = sizeof(uint32_t) * ROWS * COLUMNS;
    struct memory src = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, bytes, 0);
    struct memory dst = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, bytes, 0);
    uint32_t *sent = test_buffer(bytes), *got = test_buffer(bytes);
    leat_layout a, b;

    for (uint32_t i = 0; i < ROWS * COLUMNS; i++)
        sent[i] = i * 7919;
    copy_now(room->stream, src.at, sent, bytes);
    OK(leat_layout_dense(&a, 2, (int64_t[]){ROWS, COLUMNS}, 4));
    OK(leat_layout_dense(&b, 2, (int64_t[]){COLUMNS, ROWS}, 4));
    OK(leat_layout_transpose(&b, 0, 1));
    for (unsigned packed_receiver = 0; packed_receiver < 2; packed_receiver++) {
        OK(leat_fill(room->stream, dst.at, 0, bytes));
        OK(leat_stream_synchronize(room->stream));
        if (packed_receiver) {
            /* The sender sends its columns as rows. */
            leat_layout columns = a;

            OK(leat_layout_transpose(&columns, 0, 1));
            OK(leat_send_layout(room->stream, ends.one, 1, src.at, &columns));
            OK(leat_receive(room->second, dst.at, ends.two, 1, bytes));
        } else {
            OK(leat_send_layout(room->stream, ends.one, 1, src.at, &a));
            OK(leat_receive_layout(room->second, dst.at, &b, ends.two, 1));
        }
        /* Later work of the stream sees the elements. */
        OK(leat_copy(room->second, got, dst.at, bytes));
        OK(leat_stream_synchronize(room->second));
        for (uint32_t row = 0; row < ROWS; row++)
            for (uint32_t column = 0; column < COLUMNS; column++)
                assert_int_equal(got[column * ROWS + row], sent[row * COLUMNS + column]);
        OK(leat_stream_synchronize(room->stream));
    }
    free(sent);
    free(got);
    free_memory(&src);
    free_memory(&dst);
    close_ends(&ends);
}

/* The unpack of a large receive may take the copy's memory for pieces, and then the call waits for the stream, and so
 * for the message (LEAT_COPY_MEMORY, in make check-net). The other end must know of the receive by then. */
static void a_call_that_waits_for_its_message(void **state)
{
    enum { SIDE = 5000, PITCH = SIDE + 3 };
    const struct test_state *room = *state;
    struct ends ends = make_ends(&setups[0]);
    uint32_t *sent = test_buffer(sizeof *sent * SIDE * SIDE), *got = test_buffer(sizeof *got * SIDE * PITCH);
    leat_layout layout;

    for (uint32_t i = 0; i < SIDE * SIDE; i++)
        sent[i] = i * 7919;
    OK(leat_layout_dense(&layout, 2, (int64_t[]){SIDE, PITCH}, 4));
    OK(leat_layout_slice(&layout, 1, 0, SIDE, 1));
    OK(leat_layout_transpose(&layout, 0, 1));
    OK(leat_send(room->stream, ends.one, 1, sent, sizeof *sent * SIDE * SIDE));
    OK(leat_receive_layout(room->second, got, &layout, ends.two, 1));
    OK(leat_stream_synchronize(room->second));
    OK(leat_stream_synchronize(room->stream));
    for (uint32_t row = 0; row < SIDE; row++)
        for (uint32_t column = 0; column < SIDE; column++)
            assert_int_equal(got[(size_t)column * PITCH + row], sent[(size_t)row * SIDE + column]);
    free(sent);
    free(got);
    close_ends(&ends);
}

/* ---- memory of the packed array ---- */

static leat_pool_stats pool_stats(const struct test_state *room)
{
    leat_pool_stats stats = LEAT_POOL_STATS_INIT;
    leat_pool *pool;

    OK(leat_pool_default(room->device, LEAT_KIND_DEVICE, &pool));
    OK(leat_pool_get_stats(pool, &stats));
    return stats;
}

/* A matrix of which a message has the left half of each row. */
enum { ROWS = 1024, ROW = 4096, PITCH = 2 * ROW };
#define HALF ((size_t)ROWS * ROW)
#define WHOLE ((size_t)ROWS * PITCH)

static leat_layout left_half(void)
{
    leat_layout layout;

    OK(leat_layout_dense(&layout, 2, (int64_t[]){ROWS, PITCH}, 1));
    OK(leat_layout_slice(&layout, 1, 0, ROW, 1));
    return layout;
}

/* The right halves must still be as make_memory() made them. */
static void expect_gaps(const struct test_state *room, const struct memory *memory)
{
    unsigned char *read = test_buffer(WHOLE);

    expect_guards(room->stream, memory);
    copy_now(room->stream, read, memory->at, WHOLE);
    for (size_t row = 0; row < ROWS; row++)
        EXPECT_BYTES(read + row * PITCH + ROW, ROW, GUARD_VALUE);
    free(read);
}

struct halves {
    struct ends ends;
    leat_layout layout, whole;
    struct memory src, dst;
};

static struct halves make_halves(const struct test_state *room, const struct link_setup *setup)
{
    struct halves halves = {.ends = make_ends(setup), .layout = left_half()};

    OK(leat_layout_dense(&halves.whole, 1, (int64_t[]){(int64_t)WHOLE}, 1));
    halves.src = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, WHOLE, 0);
    halves.dst = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, WHOLE, 0);
    fill_memory(room->stream, &halves.src, 3);
    return halves;
}

static void free_halves(struct halves *halves)
{
    free_memory(&halves->src);
    free_memory(&halves->dst);
    close_ends(&halves->ends);
}

/* A message must still go through, and nothing may be left of earlier ones. */
static void expect_alive(const struct test_state *room, struct halves *halves)
{
    unsigned char *sent = test_buffer(WHOLE), *got = test_buffer(WHOLE);
    leat_ticket *ticket;

    take_failures(room->stream);
    take_failures(room->second);
    settle(room, &halves->ends);
    OK(leat_receive_layout_start(room->second, halves->dst.at, &halves->layout, halves->ends.two, 9, NULL,
                                 &ticket));
    OK(leat_send_layout(room->stream, halves->ends.one, 9, halves->src.at, &halves->layout));
    ENDS_WITH(ticket, LEAT_OK);
    OK(leat_stream_synchronize(room->stream));
    copy_now(room->stream, sent, halves->src.at, WHOLE);
    copy_now(room->stream, got, halves->dst.at, WHOLE);
    for (size_t row = 0; row < ROWS; row++)
        assert_memory_equal(got + row * PITCH, sent + row * PITCH, ROW);
    expect_gaps(room, &halves->dst);
    assert_int_equal(info_of(halves->ends.one).sends, 0);
    assert_int_equal(info_of(halves->ends.two).receives, 0);
    free(sent);
    free(got);
}

/* Messages use the memory of the packed array one after the other, and give it back. A packed array needs none. */
static void memory_is_bounded_and_freed(void **state)
{
    const struct test_state *room = *state;
    struct halves halves = make_halves(room, &setups[0]);
    leat_pool_stats before = pool_stats(room), after;
    uint64_t allocations;

    for (unsigned i = 0; i < 20; i++) {
        OK(leat_receive_layout(room->second, halves.dst.at, &halves.layout, halves.ends.two, 9));
        OK(leat_send_layout(room->stream, halves.ends.one, 9, halves.src.at, &halves.layout));
    }
    OK(leat_stream_synchronize(room->stream));
    OK(leat_stream_synchronize(room->second));
    after = pool_stats(room);
    assert_int_equal(after.live_blocks, before.live_blocks);
    assert_int_equal(after.requested_bytes, before.requested_bytes);
    assert_true(after.requested_peak_bytes <= before.requested_peak_bytes + 2 * HALF);
    allocations = after.allocations;
    OK(leat_receive_layout(room->second, halves.dst.at, &halves.whole, halves.ends.two, 9));
    OK(leat_send_layout(room->stream, halves.ends.one, 9, halves.src.at, &halves.whole));
    OK(leat_stream_synchronize(room->stream));
    OK(leat_stream_synchronize(room->second));
    expect_message(room->stream, &halves.dst, 3);
    assert_int_equal(pool_stats(room).allocations, allocations);
    free_halves(&halves);
}

/* Without memory for the packed array the call fails, and the other end learns nothing of it. */
static void no_memory_for_the_packed_array(void **state)
{
    const struct test_state *room = *state;
    struct halves halves = make_halves(room, &setups[0]);
    void *blocks[256];
    unsigned count = 0;
    leat_pool *pool;

    OK(leat_pool_default(room->device, LEAT_KIND_DEVICE, &pool));
    OK(leat_pool_set_limits(pool, pool_stats(room).reserved_bytes, 0));
    while (leat_alloc(room->stream, MIB, &blocks[count]) == LEAT_OK)
        assert_true(++count < 256);
    REFUSED(leat_send_layout(room->stream, halves.ends.one, 9, halves.src.at, &halves.layout),
            LEAT_ERROR_DEVICE_MEMORY, "leat_send_layout");
    REFUSED(leat_receive_layout(room->second, halves.dst.at, &halves.layout, halves.ends.two, 9),
            LEAT_ERROR_DEVICE_MEMORY, "leat_receive_layout");
    assert_int_equal(info_of(halves.ends.one).sends, 0);
    assert_int_equal(info_of(halves.ends.two).receives, 0);
    OK(leat_pool_set_limits(pool, 0, 0));
    while (count)
        OK(leat_free(room->stream, blocks[--count]));
    expect_alive(room, &halves);
    free_halves(&halves);
}

/* ---- order and points ---- */

/* The send reads what earlier work of its stream has written, and waits for that. */
static void a_send_waits_for_earlier_work(void **state)
{
    const struct test_state *room = *state;
    struct halves halves = make_halves(room, &setups[0]);
    struct test_gate *gate = test_gate_close(room->stream);
    leat_ticket *sent;

    OK(leat_fill(room->stream, halves.src.at, 7, WHOLE));
    OK(leat_send_layout_start(room->stream, halves.ends.one, 1, halves.src.at, &halves.layout, NULL, &sent));
    OK(leat_fill(room->stream, halves.src.at, 8, WHOLE));
    OK(leat_receive_layout(room->second, halves.dst.at, &halves.layout, halves.ends.two, 1));
    EXPECT_HELD(room->second, gate);
    assert_int_equal(leat_ticket_wait(sent, LEAT_COPY_POINT_STAGED, 0), LEAT_NOT_READY);
    test_gate_open(gate);
    ENDS_WITH(sent, LEAT_OK);
    OK(leat_stream_synchronize(room->second));
    expect_gaps(room, &halves.dst);
    for (size_t row = 0; row < ROWS; row += 100) {
        unsigned char read[ROW];

        copy_now(room->second, read, halves.dst.at + row * PITCH, ROW);
        EXPECT_BYTES(read, ROW, 7);
    }
    OK(leat_stream_synchronize(room->stream));
    free_halves(&halves);
}

/* ---- sizes ---- */

static void no_elements(void **state)
{
    const struct test_state *room = *state;
    struct ends ends = make_ends(&setups[0]);
    leat_layout none;
    leat_ticket *sent, *received;

    OK(leat_layout_dense(&none, 3, (int64_t[]){5, 0, 3}, 8));
    OK(leat_layout_transpose(&none, 0, 2));
    OK(leat_send_layout(room->stream, ends.one, 1, NULL, &none));
    OK(leat_receive_layout(room->stream, NULL, &none, ends.two, 1));
    OK(leat_send_layout_start(room->stream, ends.one, 1, NULL, &none, NULL, &sent));
    OK(leat_receive_layout_start(room->stream, NULL, &none, ends.two, 1, NULL, &received));
    ENDS_WITH(sent, LEAT_OK);
    ENDS_WITH(received, LEAT_OK);
    assert_int_equal(info_of(ends.one).sends, 0);
    close_ends(&ends);
}

static void different_sizes_fail_both(void **state)
{
    const struct test_state *room = *state;
    struct halves halves = make_halves(room, &setups[1]);
    leat_layout fewer = halves.layout;
    leat_ticket *sent, *received;

    OK(leat_layout_slice(&fewer, 0, 0, ROWS - 1, 1));
    OK(leat_send_layout_start(room->stream, halves.ends.one, 9, halves.src.at, &fewer, NULL, &sent));
    OK(leat_receive_layout_start(room->second, halves.dst.at, &halves.layout, halves.ends.two, 9, NULL,
                                 &received));
    ENDS_WITH(sent, LEAT_ERROR_RANGE);
    ENDS_WITH(received, LEAT_ERROR_RANGE);
    take_failures(room->stream);
    take_failures(room->second);
    expect_gaps(room, &halves.dst);
    expect_alive(room, &halves);
    free_halves(&halves);
}

/* ---- failures ---- */

static void cancelled_and_late(void **state)
{
    const struct test_state *room = *state;
    struct halves halves = make_halves(room, &setups[0]);
    leat_copy_options options = LEAT_COPY_OPTIONS_INIT;
    leat_ticket *sent, *received;

    OK(leat_send_layout_start(room->stream, halves.ends.one, 9, halves.src.at, &halves.layout, NULL, &sent));
    OK(leat_ticket_cancel(sent));
    ENDS_WITH(sent, LEAT_ERROR_CANCELLED);
    OK(leat_receive_layout_start(room->second, halves.dst.at, &halves.layout, halves.ends.two, 9, NULL,
                                 &received));
    ENDS_WITH(received, LEAT_ERROR_LINK);
    expect_alive(room, &halves);
    OK(leat_receive_layout_start(room->second, halves.dst.at, &halves.layout, halves.ends.two, 9, NULL,
                                 &received));
    OK(leat_ticket_cancel(received));
    ENDS_WITH(received, LEAT_ERROR_CANCELLED);
    expect_alive(room, &halves);
    options.deadline_ns = 5000000;
    OK(leat_receive_layout_start(room->second, halves.dst.at, &halves.layout, halves.ends.two, 9, &options,
                                 &received));
    ENDS_WITH(received, LEAT_ERROR_DEADLINE);
    expect_alive(room, &halves);
    OK(leat_send_layout_start(room->stream, halves.ends.one, 9, halves.src.at, &halves.layout, &options, &sent));
    ENDS_WITH(sent, LEAT_ERROR_DEADLINE);
    OK(leat_receive_layout_start(room->second, halves.dst.at, &halves.layout, halves.ends.two, 9, NULL,
                                 &received));
    ENDS_WITH(received, LEAT_ERROR_LINK);
    expect_alive(room, &halves);
    free_halves(&halves);
}

/* One end stops, or its link ends, in the middle of a message. No byte between the elements is written. */
static void ends_in_the_middle(void **state)
{
    const struct test_state *room = *state;

    for (unsigned round = 0; round < 24; round++) {
        struct halves halves = make_halves(room, &setups[round % 2]);
        leat_ticket *sent, *received;
        leat_status one, two;

        OK(leat_receive_layout_start(room->second, halves.dst.at, &halves.layout, halves.ends.two, 9, NULL,
                                     &received));
        OK(leat_send_layout_start(room->stream, halves.ends.one, 9, halves.src.at, &halves.layout, NULL, &sent));
        while (info_of(halves.ends.one).sends && test_ticket_info(received).arrived_bytes < round % 4 * MIB)
            test_sleep_us(20);
        switch (round / 4 % 4) {
        case 0:
            OK(leat_ticket_cancel(sent));
            break;
        case 1:
            OK(leat_ticket_cancel(received));
            break;
        default:
            OK(leat_link_close(round / 4 % 4 == 2 ? halves.ends.one : halves.ends.two));
            *(round / 4 % 4 == 2 ? &halves.ends.one : &halves.ends.two) = NULL;
        }
        one = end_of(sent);
        two = end_of(received);
        assert_true(one == LEAT_OK || one == LEAT_ERROR_LINK || one == LEAT_ERROR_CANCELLED);
        assert_true(two == LEAT_OK || two == LEAT_ERROR_LINK || two == LEAT_ERROR_CANCELLED);
        take_failures(room->stream);
        take_failures(room->second);
        expect_gaps(room, &halves.dst);
        if (halves.ends.one && halves.ends.two)
            expect_alive(room, &halves);
        free_halves(&halves);
    }
}

/* ---- bad calls ---- */

/* A call that is refused keeps nothing, and its receive is not announced: the next one meets the send. */
static void bad_calls(void **state)
{
    const struct test_state *room = *state;
    struct halves halves = make_halves(room, &setups[0]);
    struct ends ends = halves.ends;
    leat_layout bad = halves.layout, folded = halves.layout;
    leat_copy_options wrong = {.size = 3};
    leat_ticket *ticket = NULL;
    uint64_t blocks = pool_stats(room).live_blocks;
    unsigned char *at = halves.dst.at, *near_end = halves.dst.all + halves.dst.bytes;

    bad.element_bytes = 17;
    folded.stride_bytes[0] = 0;
    REFUSED(leat_send_layout(room->stream, NULL, 9, at, &halves.layout), LEAT_ERROR_HANDLE, "link is NULL");
    REFUSED(leat_receive_layout(room->stream, at, &halves.layout, NULL, 9), LEAT_ERROR_HANDLE, "link is NULL");
    REFUSED(leat_send_layout(NULL, ends.one, 9, at, &halves.layout), LEAT_ERROR_HANDLE, "leat_send_layout");
    REFUSED(leat_receive_layout(NULL, at, &halves.layout, ends.two, 9), LEAT_ERROR_HANDLE, "leat_receive_layout");
    REFUSED(leat_send_layout(room->stream, ends.one, 9, at, NULL), LEAT_ERROR_INVALID, "leat_send_layout");
    REFUSED(leat_receive_layout(room->stream, at, NULL, ends.two, 9), LEAT_ERROR_INVALID, "leat_receive_layout");
    REFUSED(leat_send_layout(room->stream, ends.one, 9, at, &bad), LEAT_ERROR_INVALID, "leat_send_layout");
    REFUSED(leat_receive_layout(room->stream, at, &bad, ends.two, 9), LEAT_ERROR_INVALID, "leat_receive_layout");
    REFUSED(leat_send_layout(room->stream, ends.one, 9, NULL, &halves.layout), LEAT_ERROR_POINTER,
            "leat_send_layout");
    REFUSED(leat_receive_layout(room->second, NULL, &halves.layout, ends.two, 9), LEAT_ERROR_POINTER,
            "leat_receive_layout");
    REFUSED(leat_send_layout(room->stream, ends.one, 9, near_end, &halves.layout), LEAT_ERROR_RANGE,
            "leat_send_layout");
    REFUSED(leat_receive_layout(room->second, near_end, &halves.layout, ends.two, 9), LEAT_ERROR_RANGE,
            "leat_receive_layout");
    REFUSED(leat_receive_layout(room->second, at, &folded, ends.two, 9), LEAT_ERROR_INVALID,
            "leat_receive_layout");
    REFUSED(leat_send_layout_start(room->stream, ends.one, 9, at, &halves.layout, NULL, NULL), LEAT_ERROR_INVALID,
            "ticket is NULL");
    REFUSED(leat_receive_layout_start(room->stream, at, &halves.layout, ends.two, 9, NULL, NULL),
            LEAT_ERROR_INVALID, "ticket is NULL");
    REFUSED(leat_send_layout_start(room->stream, ends.one, 9, at, &halves.layout, &wrong, &ticket),
            LEAT_ERROR_INVALID, "leat_send_layout_start");
    REFUSED(leat_receive_layout_start(room->second, at, &halves.layout, ends.two, 9, &wrong, &ticket),
            LEAT_ERROR_INVALID, "leat_receive_layout_start");
    assert_null(ticket);
    OK(leat_stream_synchronize(room->stream));
    OK(leat_stream_synchronize(room->second));
    assert_int_equal(pool_stats(room).live_blocks, blocks);
    expect_bytes(room->stream, &halves.dst, GUARD_VALUE);
    expect_alive(room, &halves);
    OK(leat_link_close(ends.two));
    halves.ends.two = NULL;
    wait_for_failure(ends.one);
    REFUSED(leat_send_layout(room->stream, ends.one, 9, at, &halves.layout), LEAT_ERROR_LINK, "leat_send_layout");
    REFUSED(leat_receive_layout(room->stream, at, &halves.layout, ends.one, 9), LEAT_ERROR_LINK,
            "leat_receive_layout");
    free_halves(&halves);
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(random_layouts),
    STATE_TEST(a_matrix_arrives_transposed),
    STATE_TEST(a_call_that_waits_for_its_message),
    STATE_TEST(memory_is_bounded_and_freed),
    STATE_TEST(no_memory_for_the_packed_array),
    STATE_TEST(a_send_waits_for_earlier_work),
    STATE_TEST(no_elements),
    STATE_TEST(different_sizes_fail_both),
    STATE_TEST(cancelled_and_late),
    STATE_TEST(ends_in_the_middle),
    STATE_TEST(bad_calls),
};

LINK_TEST_MAIN(tests)
