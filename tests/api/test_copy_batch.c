/*
 * test_copy_batch.c - tests leat_copy_batch between all kinds of memory and mixtures of them against a plain loop:
 * which ops are merged, which are refused, and stream order.
 *
 * On the CPU device the kernel accesses pageable memory directly unless LEAT_COPY_STAGE=1 packs it as on a GPU.
 * "make check" runs this program both ways.
 */
#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum { PAGEABLE, PINNED, DEVICE, MANAGED, OTHER_PINNED, SIDES };

/* An arena in memory of one kind, and a host copy of its expected content. There are two of each kind, so that
 * sources and destinations can be in one allocation or in two. */
struct place {
    leat_kind kind;
    leat_device *device;
    unsigned char *ptr;    /* NULL: the kind is unavailable */
    unsigned char *wanted; /* the expected content, in host memory */
    bool plain;            /* allocated by malloc() */
};

struct room {
    leat_stream *stream;
    size_t bytes; /* size of each place */
    struct place places[2 * SIDES];
    unsigned char *pinned; /* buffer to read device memory into */
};

static uint64_t random_state;

static uint64_t random_below(uint64_t limit)
{
    return leat_pattern_value(random_state++, 77) % limit;
}

static void *managed_or_null(leat_device *device, size_t bytes)
{
    void *ptr = NULL;

    return leat_memory_alloc(device, LEAT_KIND_MANAGED, bytes, &ptr) == LEAT_OK ? ptr : NULL;
}

static void write_place(struct room *room, struct place *place)
{
    memcpy(room->pinned, place->wanted, room->bytes);
    OK(leat_copy(room->stream, place->ptr, room->pinned, room->bytes));
    OK(leat_stream_synchronize(room->stream));
}

static struct room make_room(struct test_state *t, size_t bytes)
{
    static const leat_kind kinds[SIDES] = {LEAT_KIND_PAGEABLE, LEAT_KIND_PINNED, LEAT_KIND_DEVICE,
                                           LEAT_KIND_MANAGED, LEAT_KIND_PINNED};
    struct room room = {.stream = t->stream, .bytes = bytes};

    room.pinned = test_alloc(t->device, LEAT_KIND_PINNED, bytes);
    for (int i = 0; i < 2 * SIDES; i++) {
        struct place *place = &room.places[i];

        place->kind = kinds[i % SIDES];
        place->device = t->device;
        place->plain = place->kind == LEAT_KIND_PAGEABLE;
        place->wanted = test_buffer(bytes);
        test_pattern(place->wanted, bytes, (uint64_t)i);
        if (place->plain)
            place->ptr = test_buffer(bytes);
        else if (place->kind == LEAT_KIND_MANAGED)
            place->ptr = managed_or_null(t->device, bytes);
        else
            place->ptr = test_alloc(t->device, place->kind, bytes);
        if (place->ptr)
            write_place(&room, place);
    }
    return room;
}

static void end_room(struct room *room)
{
    for (int i = 0; i < 2 * SIDES; i++) {
        if (room->places[i].plain)
            free(room->places[i].ptr);
        else
            OK(leat_memory_free(room->places[i].ptr));
        free(room->places[i].wanted);
    }
    OK(leat_memory_free(room->pinned));
}

/* Compares every byte of every place with its expected content, including the bytes between the ops. */
static void expect_room(struct room *room, const char *what)
{
    OK(leat_stream_synchronize(room->stream));
    for (int i = 0; i < 2 * SIDES; i++) {
        struct place *place = &room->places[i];

        if (!place->ptr)
            continue;
        memset(room->pinned, 0xee, room->bytes);
        OK(leat_copy(room->stream, room->pinned, place->ptr, room->bytes));
        OK(leat_stream_synchronize(room->stream));
        if (!memcmp(room->pinned, place->wanted, room->bytes))
            continue;
        for (size_t at = 0; at < room->bytes; at++)
            if (room->pinned[at] != place->wanted[at])
                fail_msg("%s: place %d (%s) has a wrong byte %zu: %02x, not %02x", what, i,
                         leat_kind_name(place->kind), at, room->pinned[at], place->wanted[at]);
    }
}

/* The ops of one batch. add_op() appends an op and applies it to the expected content. */
struct plan {
    leat_copy_op *ops;
    size_t count, room;
};

static void add_op(struct plan *plan, struct place *to, size_t to_at, struct place *from, size_t from_at,
                   size_t bytes)
{
    assert_true(plan->count < plan->room);
    plan->ops[plan->count++] = (leat_copy_op){.dst = to->ptr + to_at, .src = from->ptr + from_at, .bytes = bytes};
    memcpy(to->wanted + to_at, from->wanted + from_at, bytes);
}

static void shuffle(struct plan *plan)
{
    for (size_t i = plan->count; i > 1; i--) {
        size_t other = random_below(i);
        leat_copy_op kept = plan->ops[i - 1];

        plan->ops[i - 1] = plan->ops[other];
        plan->ops[other] = kept;
    }
}

static struct plan new_plan(size_t room)
{
    return (struct plan){.ops = test_buffer(room * sizeof(leat_copy_op)), .room = room};
}

/* Submits the batch, and overwrites and frees the ops as soon as the call returns, as a caller may. */
static void copy_plan(struct room *room, struct plan *plan)
{
    leat_copy_op *ops = test_buffer((plan->count + 1) * sizeof *ops);

    memcpy(ops, plan->ops, plan->count * sizeof *ops);
    OK(leat_copy_batch(room->stream, ops, plan->count));
    memset(ops, 0xff, plan->count * sizeof *ops);
    free(ops);
    plan->count = 0;
}

/* ---- all kinds ---- */

/* Adds ops whose destinations are in ascending order in one place, with or without gaps. Their sources are at
 * random offsets of another place. */
static void fill_plan(struct plan *plan, struct room *room, int to, int from, size_t count, size_t most)
{
    size_t at = random_below(64);

    for (size_t i = 0; i < count; i++) {
        size_t bytes = random_below(8) ? random_below(most) : random_below(40);

        if (at + bytes > room->bytes)
            break;
        add_op(plan, &room->places[to], at, &room->places[from], random_below(room->bytes - bytes), bytes);
        at += bytes + (random_below(3) ? random_below(100) : 0);
    }
}

static void every_kind_to_every_kind(void **state)
{
    static const size_t counts[] = {1, 3, 40, 300};
    struct test_state *t = *state;
    struct room room = make_room(t, 3 * MIB);
    struct plan plan = new_plan(1000);
    char what[80];

    for (int to = 0; to < SIDES; to++) {
        for (int from = SIDES; from < 2 * SIDES; from++) {
            for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
                if (!room.places[to].ptr || !room.places[from].ptr)
                    continue;
                fill_plan(&plan, &room, to, from, counts[i], 20000);
                shuffle(&plan);
                copy_plan(&room, &plan);
                snprintf(what, sizeof what, "%zu ops from %d to %d", counts[i], from, to);
                expect_room(&room, what);
            }
        }
    }
    free(plan.ops);
    end_room(&room);
}

/* Source and destination are in one allocation: the lower half receives bytes of the upper half. */
static void within_one_allocation(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t, 2 * MIB);
    struct plan plan = new_plan(500);

    for (int i = 0; i < SIDES; i++) {
        struct place *place = &room.places[i];

        if (!place->ptr)
            continue;
        for (size_t at = 0; at < MIB; at += 8 * KIB)
            add_op(&plan, place, at + 5, place, at + MIB + 11, 3000 + random_below(5000));
        shuffle(&plan);
        copy_plan(&room, &plan);
        expect_room(&room, "within one allocation");
        /* The ranges are interleaved: each destination lies between two sources. */
        for (size_t at = 0; at < MIB; at += 8 * KIB)
            add_op(&plan, place, at, place, at + 4 * KIB, 4 * KIB);
        shuffle(&plan);
        copy_plan(&room, &plan);
        expect_room(&room, "interleaved");
    }
    free(plan.ops);
    end_room(&room);
}

static void all_kinds_in_one_call(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t, 3 * MIB);
    struct plan plan = new_plan(4000);

    for (int round = 0; round < 10; round++) {
        for (int to = 0; to < SIDES; to++) {
            size_t at = random_below(100);

            while (room.places[to].ptr && at + 30000 < room.bytes && plan.count + 1 < plan.room) {
                int from = SIDES + (int)random_below(SIDES);
                size_t bytes = random_below(20) ? random_below(12000) : 0;

                /* Sometimes add a range that is too large to be packed with the others. */
                if (!random_below(60) && at + 400000 < room.bytes)
                    bytes = 200000 + random_below(200000);
                if (room.places[from].ptr)
                    add_op(&plan, &room.places[to], at, &room.places[from], random_below(room.bytes - bytes),
                           bytes);
                at += bytes + random_below(3) * 50;
            }
        }
        shuffle(&plan);
        copy_plan(&room, &plan);
        expect_room(&room, "all kinds");
    }
    free(plan.ops);
    end_room(&room);
}

/* Copies with every alignment of source and destination, and with sizes around multiples of a word. */
static void every_alignment(void **state)
{
    static const size_t sizes[] = {1, 2, 3, 15, 16, 17, 31, 32, 33, 511, 512, 513, 4095, 4096, 4097, 16385};
    struct test_state *t = *state;
    struct room room = make_room(t, 3 * MIB);
    struct plan plan = new_plan(300);

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t at = 0;

        for (size_t k = 0; k < 17 * 16; k++) {
            size_t step = (sizes[i] + 40) / 16 * 16;

            if (at + step + 16 > room.bytes || 16 * k + 16 + sizes[i] > room.bytes)
                break;
            add_op(&plan, &room.places[DEVICE], at + k % 16, &room.places[SIDES + PINNED], 16 * k + k / 16 % 16,
                   sizes[i]);
            at += step;
        }
        copy_plan(&room, &plan);
        expect_room(&room, "alignments");
    }
    free(plan.ops);
    end_room(&room);
}

static void a_hundred_thousand_ops(void **state)
{
    enum { COUNT = 100000 };
    struct test_state *t = *state;
    struct room room = make_room(t, 13 * MIB);
    struct plan plan = new_plan(COUNT);
    const int kinds[][2] = {{DEVICE, SIDES + PINNED}, {DEVICE, SIDES + PAGEABLE}, {PAGEABLE, SIDES + DEVICE}};

    for (size_t k = 0; k < 3; k++) {
        for (size_t i = 0; i < COUNT; i++)
            add_op(&plan, &room.places[kinds[k][0]], i * 128 + i % 7, &room.places[kinds[k][1]],
                   (i * 7919 % COUNT) * 128, 100 + i % 20);
        copy_plan(&room, &plan);
        expect_room(&room, "a hundred thousand");
    }
    free(plan.ops);
    end_room(&room);
}

/* Copies more bytes than a small staging ring holds, so that packing needs several rounds. With a very small ring
 * it needs many. */
static void more_than_a_ring(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t, 12 * MIB);
    struct plan plan = new_plan(1000);

    for (int out = 0; out < 2; out++) {
        for (size_t i = 0; i < 1000; i++)
            add_op(&plan, &room.places[out ? PAGEABLE : DEVICE], i * 12000,
                   &room.places[SIDES + (out ? DEVICE : PAGEABLE)], (i * 769 % 1000) * 12000, 11000 + i);
        copy_plan(&room, &plan);
        expect_room(&room, "more than a ring");
    }
    free(plan.ops);
    end_room(&room);
}

/* ---- merging of adjacent ranges ---- */

static void explained(leat_stream *stream, const leat_copy_op *ops, size_t count, const char *words)
{
    char text[2000];

    OK(leat_copy_batch_explain(stream, ops, count, text, sizeof text));
    if (!strstr(text, words))
        fail_msg("leat_copy_batch_explain says: %s\nand not: %s", text, words);
}

static void neighbours_are_merged(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t, MIB);
    struct plan plan = new_plan(200);

    for (size_t i = 0; i < 100; i++)
        add_op(&plan, &room.places[DEVICE], i * 1000, &room.places[SIDES + PINNED], i * 1000, 1000);
    shuffle(&plan);
    explained(t->stream, plan.ops, plan.count, "100 ops, 100000 bytes, merged into 1 range\n");
    copy_plan(&room, &plan);
    expect_room(&room, "merged into one");
    for (size_t i = 0; i < 100; i++)
        add_op(&plan, &room.places[DEVICE], i * 1000, &room.places[SIDES + PINNED], i * 1000 + i / 10, 1000);
    shuffle(&plan);
    explained(t->stream, plan.ops, plan.count, "merged into 10 ranges");
    copy_plan(&room, &plan);
    expect_room(&room, "merged into ten");
    /* In reverse order no two ranges are adjacent in both the source and the destination. */
    for (size_t i = 0; i < 100; i++)
        add_op(&plan, &room.places[DEVICE], i * 1000, &room.places[SIDES + PINNED], (99 - i) * 1000, 1000);
    explained(t->stream, plan.ops, plan.count, "merged into 100 ranges");
    copy_plan(&room, &plan);
    expect_room(&room, "not merged");
    free(plan.ops);
    end_room(&room);
}

static void explaining_copies_nothing(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t, MIB);
    leat_copy_op ops[64];
    char text[8];

    for (size_t i = 0; i < 64; i++)
        ops[i] = (leat_copy_op){room.places[DEVICE].ptr + 4 * KIB * i, room.places[PINNED].ptr + 5000 * i, 3000};
    explained(t->stream, ops, 64, "64 ranges");
    OK(leat_copy_batch_explain(t->stream, ops, 64, text, sizeof text));
    assert_int_equal(strlen(text), sizeof text - 1);
    OK(leat_copy_batch_explain(t->stream, ops, 0, text, sizeof text));
    OK(leat_copy_batch_explain(t->stream, NULL, 0, text, sizeof text));
    REFUSED(leat_copy_batch_explain(t->stream, ops, 64, text, 0), LEAT_ERROR_INVALID, "text_bytes");
    REFUSED(leat_copy_batch_explain(t->stream, ops, 64, NULL, 10), LEAT_ERROR_INVALID, "text");
    REFUSED(leat_copy_batch_explain(t->stream, NULL, 64, text, 8), LEAT_ERROR_INVALID, "ops");
    expect_room(&room, "explained");
    end_room(&room);
}

/* ---- refused batches, which must copy nothing ---- */

static void fill_ops(struct room *room, int to, int from, leat_copy_op *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ops[i] =
            (leat_copy_op){room->places[to].ptr + 4 * KIB * i, room->places[SIDES + from].ptr + 4100 * i, 3000};
}

static void overlaps_are_refused(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t, MIB);
    leat_copy_op ops[100];
    const size_t counts[] = {2, 20, 100};

    for (int to = 0; to < 3; to++) {
        for (size_t k = 0; k < 3; k++) {
            size_t count = counts[k];

            /* Two destinations overlap by one byte. */
            fill_ops(&room, to, DEVICE, ops, count);
            ops[count - 1].dst = (char *)ops[0].dst + 2999;
            REFUSED(leat_copy_batch(t->stream, ops, count), LEAT_ERROR_OVERLAP, "op 0");
            /* Two ops have the same destination. */
            ops[0].dst = ops[count - 1].dst;
            REFUSED(leat_copy_batch(t->stream, ops, count), LEAT_ERROR_OVERLAP, "overlaps the dst of op");
            /* One op's source overlaps another op's destination by one byte. */
            fill_ops(&room, to, DEVICE, ops, count);
            ops[count - 1].src = (char *)ops[0].dst + 2999;
            REFUSED(leat_copy_batch(t->stream, ops, count), LEAT_ERROR_OVERLAP, "src of op");
            /* The source of one op overlaps its own destination. */
            fill_ops(&room, to, DEVICE, ops, count);
            ops[count / 2].src = (char *)ops[count / 2].dst + 1;
            REFUSED(leat_copy_batch(t->stream, ops, count), LEAT_ERROR_OVERLAP, "overlap");
            ops[count / 2].src = ops[count / 2].dst;
            REFUSED(leat_copy_batch(t->stream, ops, count), LEAT_ERROR_OVERLAP, "overlap");
        }
    }
    expect_room(&room, "refused");
    end_room(&room);
}

/* Sources may overlap each other, and may be adjacent to destinations. */
static void sources_may_overlap(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t, MIB);
    struct plan plan = new_plan(200);
    struct place *place = &room.places[DEVICE];

    for (size_t i = 0; i < 100; i++)
        add_op(&plan, place, i * 2000, place, 100 * 2000 + i % 10 * 100, 1000 + i % 3 * 500);
    add_op(&plan, place, 500000, place, 100 * 2000, 300000);
    copy_plan(&room, &plan);
    expect_room(&room, "one source for all");
    free(plan.ops);
    end_room(&room);
}

static void the_wrong_op_is_named(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t, MIB);
    leat_copy_op ops[100], right[100];
    void *gone = mmap(NULL, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(gone != MAP_FAILED);
    test_let_leat_catch_faults();
    for (int kinds = 0; kinds < 9; kinds++) {
        fill_ops(&room, kinds % 3, kinds / 3, right, 100);
        memcpy(ops, right, sizeof ops);
        ops[37].dst = NULL;
        REFUSED(leat_copy_batch(t->stream, ops, 100), LEAT_ERROR_POINTER, "op 37");
        memcpy(ops, right, sizeof ops);
        ops[41].src = NULL;
        REFUSED(leat_copy_batch(t->stream, ops, 100), LEAT_ERROR_POINTER, "op 41");
        ops[41].src = gone;
        REFUSED(leat_copy_batch(t->stream, ops, 100), LEAT_ERROR_POINTER, "op 41");
        REFUSED(leat_copy_batch(t->stream, ops + 41, 2), LEAT_ERROR_POINTER, "op 0");
        memcpy(ops, right, sizeof ops);
        ops[99].dst = gone;
        REFUSED(leat_copy_batch(t->stream, ops, 100), LEAT_ERROR_POINTER, "op 99");
        memcpy(ops, right, sizeof ops);
        ops[12].bytes = SIZE_MAX - 100;
        REFUSED(leat_copy_batch(t->stream, ops, 100), LEAT_ERROR_RANGE, "op 12");
    }
    fill_ops(&room, DEVICE, PINNED, ops, 100);
    ops[3].bytes = MIB;
    REFUSED(leat_copy_batch(t->stream, ops, 100), LEAT_ERROR_RANGE, "op 3");
    fill_ops(&room, DEVICE, PINNED, ops, 100);
    ops[0].dst = room.places[DEVICE].ptr + MIB - 2999;
    REFUSED(leat_copy_batch(t->stream, ops, 100), LEAT_ERROR_RANGE, "op 0");
    ops[0].bytes = 0;
    ops[0].src = NULL;
    ops[1].bytes = 0;
    ops[1].dst = NULL;
    REFUSED(leat_copy_batch(t->stream, NULL, 1), LEAT_ERROR_INVALID, "ops");
    REFUSED(leat_copy_batch(NULL, ops, 1), LEAT_ERROR_HANDLE, "stream");
    OK(leat_copy_batch(t->stream, ops, 2));
    OK(leat_copy_batch(t->stream, NULL, 0));
    expect_room(&room, "refused");
    munmap(gone, MIB);
    end_room(&room);
}

static void from_a_host_function(void *argument)
{
    leat_copy_op op = {NULL, NULL, 0};

    REFUSED(leat_copy_batch(argument, &op, 1), LEAT_ERROR_NOT_PERMITTED, "");
}

static void not_from_host_functions(void **state)
{
    struct test_state *t = *state;

    OK(leat_launch_host(t->stream, from_a_host_function, t->stream));
    OK(leat_stream_synchronize(t->stream));
}

/* ---- stream order ---- */

static void on_a_held_stream(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t, 3 * MIB);
    struct plan plan = new_plan(500);
    leat_module *module;

    /* Load the kernels now: loading them could wait for the closed gate. */
    OK(leat_module_builtin(t->device, &module));
    for (int kinds = 0; kinds < 9; kinds++) {
        int to = kinds % 3, from = SIDES + kinds / 3;
        struct test_gate *gate = test_gate_close(t->stream);

        fill_plan(&plan, &room, to, from, 200, 8000);
        shuffle(&plan);
        copy_plan(&room, &plan);
        EXPECT_HELD(t->stream, gate);
        assert_int_equal(atomic_load(&gate->passed), 0);
        test_gate_open(gate);
        expect_room(&room, "held");
    }
    free(plan.ops);
    end_room(&room);
}

struct writer {
    unsigned char *ptr;
    size_t bytes;
    uint64_t seed;
};

static void write_late(void *argument)
{
    struct writer *writer = argument;

    test_sleep_us(5000);
    test_pattern(writer->ptr, writer->bytes, writer->seed);
}

/* The batch must copy what a host function and a copy before it wrote, and nothing that later work writes. */
static void between_earlier_and_later_work(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t, MIB);
    struct plan plan = new_plan(200);

    for (int from = SIDES; from < SIDES + 3; from++) {
        for (int to = 0; to < 3; to++) {
            struct place *source = &room.places[from], *target = &room.places[to];
            unsigned char *late = from == SIDES + DEVICE ? room.pinned : source->ptr;
            struct writer writer = {late, room.bytes, random_below(1 << 20)};

            OK(leat_launch_host(t->stream, write_late, &writer));
            test_pattern(source->wanted, room.bytes, writer.seed);
            if (from == SIDES + DEVICE)
                OK(leat_copy(t->stream, source->ptr, room.pinned, room.bytes));
            for (size_t i = 0; i < 100; i++)
                add_op(&plan, target, i * 5000, source, i * 4111, 4000);
            copy_plan(&room, &plan);
            /* Later work reads the destinations, and then overwrites the sources. */
            for (size_t i = 0; i < 100; i++)
                add_op(&plan, &room.places[SIDES + OTHER_PINNED], i * 5001, target, i * 5000, 4000);
            copy_plan(&room, &plan);
            if (from == SIDES + DEVICE) {
                OK(leat_fill(t->stream, source->ptr, 0x77, room.bytes));
                memset(source->wanted, 0x77, room.bytes);
            }
            expect_room(&room, "in order");
        }
    }
    free(plan.ops);
    end_room(&room);
}

/* On an idle stream the call packs a pageable source itself; on a busy stream the packing happens later. In both
 * cases later copies of the stream must see the data. */
static void one_after_the_other(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t, MIB);
    struct plan plan = new_plan(100);

    for (int round = 0; round < 50; round++) {
        int to = (int)random_below(3), from = SIDES + (int)random_below(3);

        for (size_t i = 0; i < 60; i++)
            add_op(&plan, &room.places[to], i * 17000 + random_below(5000), &room.places[from],
                   random_below(MIB - 12000), random_below(12000));
        copy_plan(&room, &plan);
        /* Then copy from the destinations of these ops to a third place. */
        for (size_t i = 0; i < 60; i++)
            add_op(&plan, &room.places[SIDES + to], i * 17000 + random_below(5000), &room.places[to],
                   random_below(MIB - 12000), random_below(12000));
        copy_plan(&room, &plan);
    }
    expect_room(&room, "one after the other");
    free(plan.ops);
    end_room(&room);
}

/* The program frees the destination in stream order right after the copies. */
static void blocks_freed_behind(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t, MIB);
    struct plan plan = new_plan(100);

    for (int round = 0; round < 20; round++) {
        leat_copy_op there[100];
        void *block;

        OK(leat_alloc(t->stream, MIB, &block));
        for (size_t i = 0; i < 100; i++)
            there[i] = (leat_copy_op){(char *)block + i * 5000, room.places[PINNED].ptr + i * 4999, 4000};
        OK(leat_copy_batch(t->stream, there, 100));
        for (size_t i = 0; i < 100; i++) {
            there[i].src = there[i].dst;
            there[i].dst = room.places[DEVICE].ptr + i * 6000;
            memcpy(room.places[DEVICE].wanted + i * 6000, room.places[PINNED].wanted + i * 4999, 4000);
        }
        OK(leat_copy_batch(t->stream, there, 100));
        OK(leat_free(t->stream, block));
    }
    expect_room(&room, "freed behind");
    free(plan.ops);
    end_room(&room);
}

/* ---- another device ---- */

static void memory_of_two_devices(void **state)
{
    struct test_state *t = *state;
    leat_device *other = test_open_other();
    struct room room = make_room(t, MIB);
    unsigned char *far, *wanted = test_buffer(MIB);
    leat_copy_op ops[120];

    if (!other) {
        end_room(&room);
        free(wanted);
        SKIP_OTHER("one device only");
    }
    far = test_alloc(other, LEAT_KIND_DEVICE, MIB);
    OK(leat_copy(t->stream, far, room.places[PAGEABLE].ptr, MIB));
    OK(leat_stream_synchronize(t->stream));
    memcpy(wanted, room.places[PAGEABLE].wanted, MIB);
    /* The ops copy to the other device, from it, and within this device. */
    for (size_t i = 0; i < 40; i++) {
        ops[i] = (leat_copy_op){far + i * 5000, room.places[DEVICE].ptr + i * 7000, 4000};
        memcpy(wanted + i * 5000, room.places[DEVICE].wanted + i * 7000, 4000);
        ops[40 + i] = (leat_copy_op){room.places[SIDES + DEVICE].ptr + i * 9000, far + MIB / 2 + i * 5000, 4500};
        memcpy(room.places[SIDES + DEVICE].wanted + i * 9000, wanted + MIB / 2 + i * 5000, 4500);
        ops[80 + i] =
            (leat_copy_op){room.places[SIDES + PINNED].ptr + i * 9000, room.places[DEVICE].ptr + i, 4500};
        memcpy(room.places[SIDES + PINNED].wanted + i * 9000, room.places[DEVICE].wanted + i, 4500);
    }
    OK(leat_copy_batch(t->stream, ops, 120));
    expect_room(&room, "two devices");
    OK(leat_copy(t->stream, room.pinned, far, MIB));
    OK(leat_stream_synchronize(t->stream));
    assert_memory_equal(room.pinned, wanted, MIB);
    OK(leat_memory_free(far));
    OK(leat_device_close(other));
    free(wanted);
    end_room(&room);
}

/* ---- memory that becomes inaccessible ---- */

/* The call or the stream must report an unreadable source. */
static void a_source_in_the_middle_is_gone(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t, MIB);
    size_t page = 4096;
    char *holed = mmap(NULL, 200 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    leat_copy_op ops[50];
    leat_status status;

    assert_true(holed != MAP_FAILED);
    test_let_leat_catch_faults();
    memset(holed, 1, 200 * page);
    for (size_t i = 0; i < 50; i++)
        ops[i] = (leat_copy_op){room.places[DEVICE].ptr + i * 3 * page, holed + i * 4 * page, 3 * page - 16};
    /* The first byte of op 20's source is unmapped. The call probes the first byte of each op, so it fails with
     * every protocol. */
    assert_int_equal(munmap(holed + 80 * page, page), 0);
    REFUSED(leat_copy_batch(t->stream, ops, 50), LEAT_ERROR_POINTER, "op 20");
    expect_room(&room, "a source is gone");
    ops[20].bytes = 0;
    assert_int_equal(munmap(holed + 121 * page, page), 0);
    status = leat_copy_batch(t->stream, ops, 50);
    if (status == LEAT_OK)
        status = leat_stream_synchronize(t->stream);
    assert_int_equal(status, LEAT_ERROR_POINTER);
    assert_non_null(strstr(leat_last_error(), "op 30"));
    OK(leat_stream_synchronize(t->stream));
    munmap(holed, 200 * page);
    end_room(&room);
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(every_kind_to_every_kind), STATE_TEST(within_one_allocation),
    STATE_TEST(all_kinds_in_one_call),    STATE_TEST(every_alignment),
    STATE_TEST(a_hundred_thousand_ops),   STATE_TEST(more_than_a_ring),
    STATE_TEST(neighbours_are_merged),    STATE_TEST(explaining_copies_nothing),
    STATE_TEST(overlaps_are_refused),     STATE_TEST(sources_may_overlap),
    STATE_TEST(the_wrong_op_is_named),    STATE_TEST(not_from_host_functions),
    STATE_TEST(on_a_held_stream),         STATE_TEST(between_earlier_and_later_work),
    STATE_TEST(one_after_the_other),      STATE_TEST(blocks_freed_behind),
    STATE_TEST(memory_of_two_devices),    STATE_TEST(a_source_in_the_middle_is_gone),
};

int main(void)
{
    if (!test_device_there())
        return 77;
    test_keep_handlers();
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
