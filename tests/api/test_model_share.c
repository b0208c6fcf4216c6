/*
 * test_model_share.c - tests loads in which several items want the same bytes: the bytes are read once, every
 * destination is right, the streams wait for each other where they must, and failures reach all of them.
 *
 * The second stream belongs to another device of the driver, if there is one.
 */
#include "bad_disk.h"
#include "model_room.h"
#include "seed.h"

#include <leat/file.h>
#include <leat/pool.h>

#include <errno.h>

#define MIB ((size_t)1 << 20)

enum { LANES = 3 };

struct room {
    leat_device *device, *other; /* other: another device if there is one, or the same */
    leat_stream *streams[LANES]; /* [0] and [2] on device, [1] on other */
};

static int begin(void **state)
{
    struct room *room = test_buffer(sizeof *room);

    room->device = test_open();
    room->other = test_open_other();
    if (!room->other)
        room->other = test_open();
    for (int i = 0; i < LANES; i++)
        OK(leat_stream_create(i == 1 ? room->other : room->device, &room->streams[i]));
    *state = room;
    return 0;
}

static int finish_room(void **state)
{
    struct room *room = *state;

    bad_disk_set_hook(NULL);
    (void)bad_disk_end();
    for (int i = 0; i < LANES; i++)
        OK(leat_stream_destroy(room->streams[i]));
    OK(leat_device_close(room->other));
    OK(leat_device_close(room->device));
    free(room);
    return 0;
}

static leat_model_item item_on(const struct room *room, int lane, size_t tensor, void *dst, size_t dst_bytes)
{
    leat_model_item item = LEAT_MODEL_ITEM_INIT;

    item.tensor = tensor;
    item.dst = dst;
    item.dst_bytes = dst_bytes;
    item.stream = room->streams[lane];
    return item;
}

static leat_device *device_of(const struct room *room, int lane)
{
    return lane == 1 ? room->other : room->device;
}

/* Returns how many bytes leat's threads have asked the system for since bad_disk_set(). */
static uint64_t bytes_asked(void)
{
    return bad_disk_asked(BAD_DISK_READ) + bad_disk_asked(BAD_DISK_READ_DIRECT);
}

#define EXPECT_READ_ONCE(wanted)                                                                                  \
    assert_in_range(bytes_asked(), (wanted), (uint64_t)((double)(wanted)*1.02) + 2 * 4096)

/* Fails unless device memory has these bytes. Waits for the stream. */
static void check_memory(leat_stream *stream, const void *memory, const void *wanted, size_t bytes)
{
    unsigned char *out = test_buffer(bytes + 1);

    OK(leat_copy_sync(stream, out, memory, bytes));
    OK(leat_stream_synchronize(stream));
    assert_memory_equal(out, wanted, bytes);
    free(out);
}

/* ---- bytes ---- */

static void replicas_are_read_once(void **state)
{
    static const uint32_t bytes_of[] = {4, 1, 2};
    static const char *const types[] = {"F32", "U8", "BF16"};
    struct room *room = *state;
    struct maker maker = {0};
    unsigned char *data[2];
    leat_model_set *sets[LANES];
    leat_model_load *load;
    const char *paths[2];
    leat_model *model;
    uint64_t at[2] = {0}, bytes = 0;
    size_t count = 0;

    for (int file = 0; file < 2; file++) {
        paths[file] = path_of(file ? "second" : "first");
        for (int i = 0; i < 600; i++) {
            char name[40];

            snprintf(name, sizeof name, "%d.%d", file, i);
            add(&maker, name, types[i / 200], bytes_of[i / 200], 1, (int64_t[]){1 + i * 37 % 5000});
        }
        add(&maker, file ? "none" : "empty", "F32", 4, 1, (int64_t[]){0});
        bytes += maker.data;
        data[file] = finish(&maker, paths[file]);
    }
    OK(leat_model_open(paths, 2, &model));
    bad_disk_set(NULL, 0);
    OK(leat_model_load_replicas(room->streams, LANES, model, NULL, NULL, sets));
    load = leat_model_set_get_load(sets[0]);
    assert_ptr_equal(load, leat_model_set_get_load(sets[2]));
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_STAGED, LEAT_FOREVER));
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, 0));
    EXPECT_READ_ONCE(bytes);
    assert_int_equal(load_info(load).bytes, bytes);
    assert_int_equal(load_info(load).arrived_bytes, bytes);
    assert_int_equal(load_info(load).copied_bytes, 2 * bytes);
    assert_int_equal(load_info(load).copied_arrived_bytes, 2 * bytes);
    assert_true(load_info(load).done);
    OK(leat_model_count(model, &count, NULL));
    for (size_t i = 0; i < count; i++) {
        leat_model_tensor_info info = info_of(model, i);

        for (int lane = 0; lane < LANES; lane++) {
            void *ptr;

            OK(leat_model_set_get_pointer(sets[lane], i, &ptr));
            if (info.bytes)
                check_memory(room->streams[lane], ptr, data[info.file] + at[info.file], info.bytes);
        }
        at[info.file] += info.bytes;
    }
    /* The load lives as long as one of the sets. */
    OK(leat_model_set_destroy(sets[0]));
    OK(leat_model_set_destroy(sets[2]));
    assert_true(load_info(leat_model_set_get_load(sets[1])).done);
    OK(leat_model_set_destroy(sets[1]));
    OK(leat_model_load_replicas(room->streams, 1, model, "1.*", NULL, sets));
    assert_int_equal(load_info(leat_model_set_get_load(sets[0])).copied_bytes, 0);
    OK(leat_model_set_destroy(sets[0]));
    REFUSED(leat_model_load_replicas(room->streams, 2, model, "c*", NULL, sets), LEAT_ERROR_NOT_FOUND,
            "no tensor matches 'c*'");
    REFUSED(leat_model_load_replicas(room->streams, 0, model, NULL, NULL, sets), LEAT_ERROR_INVALID, "count is 0");
    REFUSED(leat_model_load_replicas(NULL, 2, model, NULL, NULL, sets), LEAT_ERROR_INVALID, "streams is NULL");
    REFUSED(leat_model_load_replicas(room->streams, 2, NULL, NULL, NULL, sets), LEAT_ERROR_INVALID,
            "model is NULL");
    REFUSED(leat_model_load_replicas(room->streams, 2, model, NULL, NULL, NULL), LEAT_ERROR_INVALID,
            "sets is NULL");
    REFUSED(leat_model_load_replicas((leat_stream *const[]){room->streams[0], NULL}, 2, model, NULL, NULL, sets),
            LEAT_ERROR_INVALID, "streams[1] is NULL");
    OK(leat_model_close(model));
    free(data[0]);
    free(data[1]);
}

/* One destination of a random load: memory with bytes around the destination that must not change. */
struct place {
    leat_kind kind;
    int lane;
    unsigned char *memory, *wanted;
    size_t bytes; /* of the memory */
    leat_model_slice slices[2];
    leat_layout layout;
};

enum { AROUND = 64, PLACES = 10, TENSORS = 3 };

/* Draws an item, and fills place. at: the data of each tensor. */
static leat_model_item draw_item(const struct room *room, const leat_model *model, unsigned char *const *at,
                                 struct place *place)
{
    size_t tensor = (size_t)draw(TENSORS);
    leat_model_tensor_info info = info_of(model, tensor);
    bool with_layout = !draw(3);
    leat_model_item item;
    int64_t size[2], reach;

    place->lane = (int)draw(LANES);
    place->kind = draw(3) ? LEAT_KIND_DEVICE : draw(2) ? LEAT_KIND_PINNED : LEAT_KIND_PAGEABLE;
    for (int dim = 0; dim < 2; dim++) {
        int64_t whole = info.shape[dim], start = draw(4) * whole / 4;

        place->slices[dim] = (leat_model_slice){0, whole, 1};
        if (!draw(3)) /* often the same parts */
            place->slices[dim] =
                (leat_model_slice){start, start + whole / 2 > whole ? whole : start + whole / 2, 1};
        else if (!draw(8))
            place->slices[dim] = (leat_model_slice){draw(whole), whole, 1 + draw(3)};
        size[dim] = (place->slices[dim].stop - place->slices[dim].start + place->slices[dim].step - 1) /
                    place->slices[dim].step;
    }
    reach = size[0] * size[1] * info.block_bytes;
    if (with_layout)
        place->layout = draw_layout(2, size, info.block_bytes, &reach);
    place->bytes = (size_t)reach + 2 * AROUND;
    place->wanted = test_buffer(place->bytes);
    memset(place->wanted, 0xee, place->bytes);
    place->memory = place->kind == LEAT_KIND_PAGEABLE
                        ? test_buffer(place->bytes)
                        : test_alloc(device_of(room, place->lane), place->kind, place->bytes);
    OK(leat_copy_sync(room->streams[place->lane], place->memory, place->wanted, place->bytes));
    copy_slowly(place->wanted + AROUND, with_layout ? &place->layout : NULL, at[tensor], &info, place->slices);
    item = item_on(room, place->lane, tensor, place->memory + AROUND, (size_t)reach);
    item.slice = place->slices;
    item.layout = with_layout ? &place->layout : NULL;
    return item;
}

static void end_place(struct place *place)
{
    if (place->kind == LEAT_KIND_PAGEABLE)
        free(place->memory);
    else
        OK(leat_memory_free(place->memory));
    free(place->wanted);
}

/* Loads slices of three tensors, with long and with short rows, to several streams and kinds of memory. The bytes
 * that are read are never more than without other items. */
static void random_slices_are_right(void **state)
{
    struct room *room = *state;
    struct maker maker = {0};
    const char *path = path_of("slices");
    unsigned char *data, *at[TENSORS];
    struct place places[PLACES];
    leat_model_item items[PLACES];
    leat_model_load *load;
    leat_model *model;

    add(&maker, "long", "U8", 1, 2, (int64_t[]){12, 140000});
    add(&maker, "short", "F32", 4, 2, (int64_t[]){400, 301});
    add(&maker, "far", "U8", 1, 2, (int64_t[]){9, 300001});
    data = finish(&maker, path);
    model = open_one(path);
    for (size_t i = 0; i < TENSORS; i++)
        at[i] = data + (info_of(model, i).offset - info_of(model, 0).offset);
    for (int round = 0; round < 25; round++) {
        size_t count = 2 + (size_t)draw(PLACES - 1);
        uint64_t most = 0;

        for (size_t i = 0; i < count; i++) {
            items[i] = draw_item(room, model, at, &places[i]);
            OK(leat_model_load_start(model, &items[i], 1, NULL, &load));
            most += load_info(load).bytes;
            OK(leat_model_load_cancel(load));
            (void)leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER);
            OK(leat_model_load_destroy(load));
        }
        OK(leat_model_load_start(model, items, count, NULL, &load));
        OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
        assert_in_range(load_info(load).bytes, 0, most);
        assert_int_equal(load_info(load).arrived_bytes, load_info(load).bytes);
        assert_int_equal(load_info(load).copied_arrived_bytes, load_info(load).copied_bytes);
        OK(leat_model_load_destroy(load));
        for (size_t i = 0; i < count; i++)
            check_memory(room->streams[places[i].lane], places[i].memory, places[i].wanted, places[i].bytes);
        for (size_t i = 0; i < count; i++)
            end_place(&places[i]);
    }
    OK(leat_model_close(model));
    free(data);
}

/* The left and the right half of the columns of a tensor, whose rows are short, need all of its bytes once. */
static void halves_are_read_once(void **state)
{
    enum { HEIGHT = 500, WIDTH = 4000, HALF = WIDTH / 2 };
    struct room *room = *state;
    struct maker maker = {0};
    const char *path = path_of("halves");
    leat_model_slice slices[2][2] = {{{0, HEIGHT, 1}, {0, HALF, 1}}, {{0, HEIGHT, 1}, {HALF, WIDTH, 1}}};
    unsigned char *data, *memory[2], *wanted = test_buffer(HEIGHT * HALF);
    leat_model_item items[2];
    leat_model_load *load;
    leat_model *model;

    add(&maker, "x", "U8", 1, 2, (int64_t[]){HEIGHT, WIDTH});
    data = finish(&maker, path);
    model = open_one(path);
    for (int lane = 0; lane < 2; lane++) {
        memory[lane] = test_alloc(device_of(room, lane), LEAT_KIND_DEVICE, HEIGHT * HALF);
        items[lane] = item_on(room, lane, 0, memory[lane], HEIGHT * HALF);
        items[lane].slice = slices[lane];
    }
    bad_disk_set(NULL, 0);
    OK(leat_model_load_start(model, items, 2, NULL, &load));
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    EXPECT_READ_ONCE(HEIGHT * WIDTH);
    assert_int_equal(load_info(load).bytes, HEIGHT * WIDTH);
    OK(leat_model_load_destroy(load));
    for (int lane = 0; lane < 2; lane++) {
        leat_model_tensor_info info = info_of(model, 0);

        copy_slowly(wanted, NULL, data, &info, slices[lane]);
        check_memory(room->streams[lane], memory[lane], wanted, HEIGHT * HALF);
        OK(leat_memory_free(memory[lane]));
    }
    OK(leat_model_close(model));
    free(wanted);
    free(data);
}

/* ---- order ---- */

/* A model with one tensor of 1 MiB, of short rows, and memory for it for two lanes. */
struct pair {
    unsigned char *data, *memory[2];
    leat_model_item items[2];
    leat_model *model;
};

enum { PAIR_BYTES = 1 << 20 };

static void make_pair(const struct room *room, struct pair *pair)
{
    struct maker maker = {0};
    const char *path = path_of("pair");

    add(&maker, "x", "U8", 1, 2, (int64_t[]){1024, 1024});
    pair->data = finish(&maker, path);
    pair->model = open_one(path);
    for (int lane = 0; lane < 2; lane++) {
        pair->memory[lane] = test_alloc(device_of(room, lane), LEAT_KIND_DEVICE, PAIR_BYTES);
        OK(leat_fill(room->streams[lane], pair->memory[lane], 0x11, PAIR_BYTES));
        OK(leat_stream_synchronize(room->streams[lane]));
        pair->items[lane] = item_on(room, lane, 0, pair->memory[lane], PAIR_BYTES);
    }
}

static void end_pair(struct pair *pair)
{
    OK(leat_memory_free(pair->memory[0]));
    OK(leat_memory_free(pair->memory[1]));
    OK(leat_model_close(pair->model));
    free(pair->data);
}

/* The destination's stream does not copy before the source is filled. */
static void copies_wait_for_the_source(void **state)
{
    struct room *room = *state;
    struct test_gate *gate;
    leat_model_load *load;
    struct pair pair;

    make_pair(room, &pair);
    gate = test_gate_close(room->streams[0]);
    OK(leat_model_load_start(pair.model, pair.items, 2, NULL, &load));
    EXPECT_HELD(room->streams[1], gate);
    assert_int_equal(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, 0), LEAT_NOT_READY);
    assert_int_equal(load_info(load).copied_arrived_bytes, 0);
    test_gate_open(gate);
    check_memory(room->streams[1], pair.memory[1], pair.data, PAIR_BYTES);
    OK(leat_model_load_destroy(load));
    end_pair(&pair);
}

/* Later work of the source's stream, which overwrites the source, waits for the copies from it. */
static void the_source_stays_until_it_is_copied(void **state)
{
    struct room *room = *state;
    struct test_gate *gate;
    leat_model_load *load;
    struct pair pair;

    make_pair(room, &pair);
    gate = test_gate_close(room->streams[1]);
    OK(leat_model_load_start(pair.model, pair.items, 2, NULL, &load));
    OK(leat_fill(room->streams[0], pair.memory[0], 0x22, PAIR_BYTES));
    EXPECT_HELD(room->streams[0], gate);
    assert_false(load_info(load).done);
    test_gate_open(gate);
    check_memory(room->streams[1], pair.memory[1], pair.data, PAIR_BYTES);
    OK(leat_stream_synchronize(room->streams[0])); /* end_pair() frees the memory that the fill writes */
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    OK(leat_model_load_destroy(load));
    end_pair(&pair);
}

/* The same for the temporary memory of slices: work that follows on the source's stream gets this memory from the
 * pool. */
static void temporary_memory_stays_until_it_is_copied(void **state)
{
    enum { HALF_BYTES = PAIR_BYTES / 2 };
    struct room *room = *state;
    leat_model_slice left[2] = {{0, 1024, 1}, {0, 512, 1}};
    leat_model_tensor_info info;
    struct test_gate *gate;
    leat_model_load *load;
    unsigned char *wanted = test_buffer(HALF_BYTES);
    void *blocks[8];
    struct pair pair;

    make_pair(room, &pair);
    info = info_of(pair.model, 0);
    copy_slowly(wanted, NULL, pair.data, &info, left);
    for (int lane = 0; lane < 2; lane++)
        pair.items[lane].slice = left;
    /* The first launch of a kernel loads it, and CUDA then waits for all work of the device, also for the gate. */
    OK(leat_model_load_start(pair.model, pair.items, 2, NULL, &load));
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    OK(leat_model_load_destroy(load));
    for (int lane = 0; lane < 2; lane++) {
        OK(leat_fill(room->streams[lane], pair.memory[lane], 0x11, PAIR_BYTES));
        OK(leat_stream_synchronize(room->streams[lane]));
    }
    gate = test_gate_close(room->streams[1]);
    OK(leat_model_load_start(pair.model, pair.items, 2, NULL, &load));
    for (int i = 0; i < 8; i++) {
        OK(leat_alloc(room->streams[0], PAIR_BYTES, &blocks[i]));
        OK(leat_fill(room->streams[0], blocks[i], 0x33, PAIR_BYTES));
    }
    EXPECT_HELD(room->streams[0], gate);
    test_gate_open(gate);
    for (int lane = 0; lane < 2; lane++)
        check_memory(room->streams[lane], pair.memory[lane], wanted, HALF_BYTES);
    for (int i = 0; i < 8; i++)
        OK(leat_free(room->streams[0], blocks[i]));
    OK(leat_model_load_destroy(load));
    free(wanted);
    end_pair(&pair);
}

/* ---- several batches ---- */

enum { LONG_BYTES = (64 << 20) + (8 << 20) };

static atomic_int end_may_be_read, end_was_reached;
static uint64_t long_offset;

/* Holds up reads of the second batch until the test allows them, for half a minute at most. */
static int hold_the_end(enum bad_disk_call call, uint64_t offset)
{
    if ((call != BAD_DISK_READ && call != BAD_DISK_READ_DIRECT) || offset < long_offset + (66 << 20))
        return 0;
    atomic_store(&end_was_reached, 1);
    (void)test_wait_for(&end_may_be_read, 1);
    return 0;
}

/* The first batch is copied while the second one is read. */
static void copies_run_during_the_reads(void **state)
{
    struct room *room = *state;
    struct maker maker = {0};
    const char *path = path_of("long");
    unsigned char *data, *memory[2];
    leat_model_item items[2];
    leat_model_load *load;
    leat_model *model;

    add(&maker, "x", "U8", 1, 1, (int64_t[]){LONG_BYTES});
    data = finish(&maker, path);
    model = open_one(path);
    long_offset = info_of(model, 0).offset;
    for (int lane = 0; lane < 2; lane++) {
        memory[lane] = test_alloc(device_of(room, lane), LEAT_KIND_DEVICE, LONG_BYTES);
        items[lane] = item_on(room, lane, 0, memory[lane], LONG_BYTES);
    }
    bad_disk_set(NULL, 0);
    bad_disk_set_hook(hold_the_end);
    OK(leat_model_load_start(model, items, 2, NULL, &load));
    for (int i = 0; i < 30000 && !load_info(load).copied_arrived_bytes; i++)
        test_sleep_us(1000);
    assert_in_range(load_info(load).copied_arrived_bytes, 1, LONG_BYTES - 1);
    assert_true(test_wait_for(&end_was_reached, 1));
    assert_int_equal(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, 0), LEAT_NOT_READY);
    atomic_store(&end_may_be_read, 1);
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    EXPECT_READ_ONCE(LONG_BYTES);
    OK(leat_model_load_destroy(load));
    for (int lane = 0; lane < 2; lane++) {
        check_memory(room->streams[lane], memory[lane], data, LONG_BYTES);
        OK(leat_memory_free(memory[lane]));
    }
    OK(leat_model_close(model));
    free(data);
}

/* ---- failures ---- */

static uint64_t fails_from;

static int fail_from(enum bad_disk_call call, uint64_t offset)
{
    return (call == BAD_DISK_READ || call == BAD_DISK_READ_DIRECT) && offset >= fails_from ? EIO : 0;
}

/* If a read fails, the load and each stream that wanted the bytes return one message, and a stream that did not
 * want them returns none. */
static void failures_reach_all_destinations(void **state)
{
    struct room *room = *state;
    leat_model_load *load;
    struct pair pair;
    char message[2000];

    make_pair(room, &pair);
    fails_from = info_of(pair.model, 0).offset;
    bad_disk_set(NULL, 0);
    bad_disk_set_hook(fail_from);
    OK(leat_model_load_start(pair.model, pair.items, 2, NULL, &load));
    REFUSED(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER), LEAT_ERROR_FILE, "pair");
    assert_int_equal(load_info(load).status, LEAT_ERROR_FILE);
    assert_true(load_info(load).done);
    OK(leat_model_load_destroy(load));
    REFUSED(leat_stream_synchronize(room->streams[0]), LEAT_ERROR_FILE, "pair");
    snprintf(message, sizeof message, "%s", strstr(leat_last_error(), "reading"));
    REFUSED(leat_stream_synchronize(room->streams[1]), LEAT_ERROR_FILE, message);
    OK(leat_stream_synchronize(room->streams[2]));
    OK(leat_stream_synchronize(room->streams[0]));
    OK(leat_stream_synchronize(room->streams[1]));
    bad_disk_set_hook(NULL);
    /* The streams work afterwards. */
    OK(leat_model_load_start(pair.model, pair.items, 2, NULL, &load));
    OK(leat_model_load_destroy(load));
    for (int lane = 0; lane < 2; lane++)
        check_memory(room->streams[lane], pair.memory[lane], pair.data, PAIR_BYTES);
    end_pair(&pair);
}

static void shared_loads_are_cancelled(void **state)
{
    struct room *room = *state;
    leat_model_options options = LEAT_MODEL_OPTIONS_INIT;
    struct test_gate *gate;
    leat_model_load *load;
    struct pair pair;

    make_pair(room, &pair);
    /* Host memory, because a read into device memory may be complete before its stream reaches it. */
    pair.items[0].dst = test_buffer(PAIR_BYTES);
    for (int late = 0; late < 2; late++) {
        options.deadline_ns = late ? 1000000 : 0;
        gate = test_gate_close(room->streams[0]);
        OK(leat_model_load_start(pair.model, pair.items, 2, &options, &load));
        if (late)
            test_sleep_us(20000);
        else
            OK(leat_model_load_cancel(load));
        assert_int_equal(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, 1000), LEAT_NOT_READY);
        test_gate_open(gate);
        assert_int_equal(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER),
                         late ? LEAT_ERROR_DEADLINE : LEAT_ERROR_CANCELLED);
        OK(leat_model_load_destroy(load));
        (void)leat_stream_synchronize(room->streams[0]);
        (void)leat_stream_synchronize(room->streams[1]);
    }
    OK(leat_model_load_start(pair.model, pair.items, 2, NULL, &load));
    OK(leat_model_load_destroy(load));
    check_memory(room->streams[1], pair.memory[1], pair.data, PAIR_BYTES);
    OK(leat_stream_synchronize(room->streams[0]));
    free(pair.items[0].dst);
    end_pair(&pair);
}

/* Streams may be destroyed right after the call, and the load still completes. */
static void streams_may_be_destroyed(void **state)
{
    struct room *room = *state;
    leat_model_load *load;
    struct pair pair;

    make_pair(room, &pair);
    OK(leat_model_load_start(pair.model, pair.items, 2, NULL, &load));
    for (int lane = 0; lane < 2; lane++) {
        OK(leat_stream_destroy(room->streams[lane]));
        room->streams[lane] = NULL;
    }
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    assert_int_equal(load_info(load).copied_arrived_bytes, PAIR_BYTES);
    OK(leat_model_load_destroy(load));
    for (int lane = 0; lane < 2; lane++)
        check_memory(room->streams[2], pair.memory[lane], pair.data, PAIR_BYTES);
    end_pair(&pair);
}

#define SHARE_TEST(function) cmocka_unit_test_setup_teardown(function, begin, finish_room)

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        SHARE_TEST(replicas_are_read_once),
        SHARE_TEST(random_slices_are_right),
        SHARE_TEST(halves_are_read_once),
        SHARE_TEST(copies_wait_for_the_source),
        SHARE_TEST(the_source_stays_until_it_is_copied),
        SHARE_TEST(temporary_memory_stays_until_it_is_copied),
        SHARE_TEST(copies_run_during_the_reads),
        SHARE_TEST(failures_reach_all_destinations),
        SHARE_TEST(shared_loads_are_cancelled),
        SHARE_TEST(streams_may_be_destroyed),
    };

    random_state = argc > 2 && !strcmp(argv[1], "--seed") ? strtoull(argv[2], NULL, 0) : test_seed();
    printf("seed 0x%" PRIx64 "\n", random_state);
    random_state = random_state * 0x9e3779b97f4a7c15u + 1;
    if (!test_device_there())
        return 77;
    return cmocka_run_group_tests(tests, make_folder, remove_folder) ? 1 : 0;
}
