/*
 * unit_copy_calls.c - tests every form of copy of pageable memory, before and after every other form.
 *
 * The forms are leat_copy() of several sizes, 3-D copies, batches, and layouts with and without an index list.
 * Each copy must see what earlier work wrote, later work must see the bytes of the copy, the memory that the copy
 * uses must stay until the stream has completed it, and guard mode must know which blocks it uses. The tests hold
 * up the work that a copy must wait for (held.h). "make check" runs this program four times: as it is, with
 * pageable memory staged, with layouts also copied as on a GPU, and on a driver whose streams cannot wait for
 * flags.
 */
#include "held.h"

#include "copy/staged.h"
#include "driver/fault/fault.h"

#include <leat/copy.h>
#include <leat/kernel.h>
#include <leat/layout.h>
#include <leat/memory.h>
#include <leat/native.h>
#include <leat/pool.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define BYTES (8 * MIB) /* size of the pageable buffer */
#define OLD 0x11

enum how { ONE, REGION, MANY, LAYOUT, LISTED, TURNED };

/* A form of copy. It copies rows of pageable memory, which are packed on the device. */
struct form {
    const char *name;
    enum how how;
    size_t width, pitch, rows;
};

static const struct form forms[] = {
    {"a short copy", ONE, 1000, 1000, 1},
    {"a copy that suits the driver", ONE, 100 * KIB, 100 * KIB, 1},
    {"a long copy", ONE, BYTES, BYTES, 1},
    {"a small region", REGION, 40, 64, 100},
    {"a region", REGION, 1000, 2048, 1000},
    {"many", MANY, 200, 512, 300},
    {"many that the threads pack", MANY, 4000, 4096, 300},
    {"a layout with gaps", LAYOUT, 8, 64, 5000},
    {"a layout with few gaps", LAYOUT, 48, 64, 5000},
    {"a layout with a list", LISTED, 8, 64, 5000},
    {"a transposed layout", TURNED, 512, 512, 300},
};
#define CALLS (sizeof forms / sizeof forms[0])

static size_t packed_bytes(const struct form *form)
{
    return form->width * form->rows;
}

static size_t reach_of(const struct form *form)
{
    return form->rows * form->pitch;
}

/* Does with memcpy() what a copy of this form does between the rows on the host and the packed bytes of the
 * device. */
static void move(const struct form *form, bool out, unsigned char *host, unsigned char *packed)
{
    size_t width = form->how == TURNED ? 8 : form->width, columns = form->width / width;

    for (size_t row = 0; row < form->rows; row++) {
        for (size_t column = 0; column < columns; column++) {
            unsigned char *far = host + row * form->pitch + column * width;
            unsigned char *near = packed + (column * form->rows + row) * width;

            memcpy(out ? far : near, out ? near : far, width);
        }
    }
}

static leat_status copy_region(const struct form *form, leat_stream *stream, bool out, void *host, void *memory)
{
    leat_copy_region region = {.width_bytes = form->width, .height = form->rows, .depth = 1};

    region.dst_pitch_bytes = out ? form->pitch : form->width;
    region.src_pitch_bytes = out ? form->width : form->pitch;
    return leat_copy_3d(stream, out ? host : memory, out ? memory : host, &region);
}

static leat_status copy_batch(const struct form *form, leat_stream *stream, bool out, char *host, char *memory)
{
    leat_copy_op *ops = test_buffer(form->rows * sizeof *ops);
    leat_status status;

    for (size_t i = 0; i < form->rows; i++) {
        char *near = memory + i * form->width, *far = host + i * form->pitch;

        ops[i] = (leat_copy_op){.dst = out ? far : near, .src = out ? near : far, .bytes = form->width};
    }
    status = leat_copy_batch(stream, ops, form->rows);
    memset(ops, 0xff, form->rows * sizeof *ops);
    free(ops);
    return status;
}

static leat_status copy_layout(const struct form *form, leat_stream *stream, bool out, void *host, void *memory)
{
    int64_t rows = (int64_t)form->rows, columns = (int64_t)form->width / 8;
    leat_layout far = {.dims = 2, .element_bytes = 8, .size = {rows, columns}}, near = far;
    int32_t *list = test_buffer(form->rows * sizeof *list);
    leat_status status;

    far.stride_bytes[0] = (int64_t)form->pitch;
    far.stride_bytes[1] = 8;
    near.stride_bytes[0] = form->how == TURNED ? 8 : (int64_t)form->width;
    near.stride_bytes[1] = form->how == TURNED ? 8 * rows : 8;
    for (size_t i = 0; i < form->rows; i++)
        list[i] = (int32_t)i;
    if (form->how == LISTED)
        OK(leat_layout_index(&far, 0, list, rows, 4, NULL));
    status =
        leat_copy_layout(stream, out ? host : memory, out ? &far : &near, out ? memory : host, out ? &near : &far);
    /* The copy has been submitted, so the caller may overwrite its index list. */
    memset(list, 0, form->rows * sizeof *list);
    free(list);
    return status;
}

/* Makes the copy and returns its status. When it returns, the arguments of the copy (region, ops, layouts) no
 * longer exist. */
static leat_status try_call(const struct form *form, leat_stream *stream, bool out, void *host, void *memory)
{
    switch (form->how) {
    case ONE:
        return leat_copy(stream, out ? host : memory, out ? memory : host, form->width);
    case REGION:
        return copy_region(form, stream, out, host, memory);
    case MANY:
        return copy_batch(form, stream, out, host, memory);
    default:
        return copy_layout(form, stream, out, host, memory);
    }
}

static void give(const struct form *form, leat_stream *stream, bool out, void *host, void *memory)
{
    leat_status status = try_call(form, stream, out, host, memory);

    if (status != LEAT_OK)
        fail_msg("%s %s: %s", form->name, out ? "out" : "in", leat_last_error());
}

/* ---- memory ---- */

struct room {
    size_t bytes;                   /* bytes of each buffer that a test uses */
    unsigned char *host, *wanted;   /* pageable memory, and its expected content */
    unsigned char *packed;          /* expected content of device memory */
    unsigned char *memory, *pinned; /* device memory, and a buffer to read it into */
    unsigned char *values;          /* source of copies to the host, all bytes equal; device or pinned memory */
};

static struct room make_room(leat_device *device, leat_kind values)
{
    return (struct room){.host = test_buffer(BYTES),
                         .wanted = test_buffer(BYTES),
                         .packed = test_buffer(BYTES),
                         .memory = test_alloc(device, LEAT_KIND_DEVICE, BYTES),
                         .pinned = test_alloc(device, LEAT_KIND_PINNED, BYTES),
                         .values = test_alloc(device, values, BYTES)};
}

static void end_room(struct room *room)
{
    OK(leat_memory_free(room->values));
    OK(leat_memory_free(room->pinned));
    OK(leat_memory_free(room->memory));
    free(room->packed);
    free(room->wanted);
    free(room->host);
}

/* Holds a stream up without leat's knowledge. Then submits a fill through leat, so that leat knows that the stream
 * is busy. */
static struct test_gate *hold(leat_stream *stream, struct room *room)
{
    struct test_gate *gate = held_close(stream->native);

    OK(leat_fill(stream, room->pinned, 0, 1));
    return gate;
}

/* Loads the kernels now, because loading them later could wait for streams that are held up. */
static void load_kernels(leat_device *device)
{
    leat_module *module;

    OK(leat_module_builtin(device, &module));
    OK(leat_module_layout(device, &module));
}

/* Fills the host buffer with OLD and the source with value, as far as the two forms reach. stream must be another
 * stream than the one under test. */
static void prepare(struct room *room, leat_stream *stream, unsigned char value, const struct form *one,
                    const struct form *other)
{
    room->bytes = reach_of(one) > reach_of(other) ? reach_of(one) : reach_of(other);
    memset(room->host, OLD, room->bytes);
    memset(room->wanted, OLD, room->bytes);
    OK(leat_fill(stream, room->values, value, room->bytes));
    OK(leat_fill(stream, room->memory, 0xee, room->bytes));
    OK(leat_stream_synchronize(stream));
}

/* Updates the expected content of the host buffer for a copy of this form from the device. */
static void want_out(struct room *room, const struct form *form, unsigned char value)
{
    memset(room->packed, value, packed_bytes(form));
    move(form, true, room->wanted, room->packed);
}

static void expect_same(const unsigned char *seen, const unsigned char *wanted, size_t bytes, const char *form,
                        const char *what)
{
    size_t at = 0;

    if (!memcmp(seen, wanted, bytes))
        return;
    while (seen[at] == wanted[at])
        at++;
    fail_msg("%s, %s: byte %zu is %02x and not %02x", form, what, at, seen[at], wanted[at]);
}

static void expect_host(const struct room *room, const struct form *form)
{
    expect_same(room->host, room->wanted, room->bytes, form->name, "on the host");
}

/* Checks that device memory holds the rows that a copy of this form read from the host buffer. */
static void expect_taken(struct room *room, leat_stream *stream, const struct form *form, const char *what)
{
    OK(leat_copy(stream, room->pinned, room->memory, packed_bytes(form)));
    OK(leat_stream_synchronize(stream));
    move(form, false, room->wanted, room->packed);
    expect_same(room->pinned, room->packed, packed_bytes(form), form->name, what);
}

/* ---- the order of the stream ---- */

/* State of the stream under test when the two copies are submitted. */
enum stream_is {
    STREAM_IDLE,    /* idle at first; each piece of work is delayed */
    STREAM_WATCHED, /* each piece is delayed; the host waits before it, so that leat may see the stream idle */
    STREAM_POOR,    /* each piece is delayed, and there is no pinned memory for the first copy */
    STREAM_HELD
};
static leat_stream *watched;

static void wait_and_delay(void *native)
{
    if (native == watched->native) {
        OK(leat_stream_synchronize(watched));
        held_delay(native);
    }
}

/* Gives the stream work and waits for it through the driver, so that the stream is idle and leat does not know
 * it. */
static void use_up(leat_stream *stream, struct room *room)
{
    OK(leat_fill(stream, room->pinned, 0, 1));
    OK(held_driver->ops->stream_synchronize(held_driver, stream->native));
}

/* The blocks with which use_up_memory() takes all free memory of staging. A gate holds up the latest copy, because
 * a later copy could otherwise reclaim its ring. The driver refuses to allocate more. */
static void *used_up[1 << 10];
static unsigned used_up_count;

static struct test_gate *use_up_memory(struct test_state *t, struct room *room)
{
    struct leati_stager *stager = atomic_load(&t->device->stager);
    struct test_gate *gate = NULL;

    if (stager) {
        gate = hold(t->second, room);
        OK(leat_copy(t->second, room->packed, room->values, MIB));
    }
    held_no_memory = true;
    for (int i = 0; stager && i < 2; i++)
        for (size_t bytes = MIB; bytes >= 4 * KIB; bytes /= 2)
            while (used_up_count < 1 << 10 &&
                   leat_pool_alloc(NULL, leati_stager_pool(stager, (enum leati_store_policy)i), bytes,
                                   &used_up[used_up_count]) == LEAT_OK)
                used_up_count++;
    return gate;
}

static void give_memory_back(struct test_gate *gate)
{
    held_no_memory = false;
    while (used_up_count)
        OK(leat_memory_free(used_up[--used_up_count]));
    if (gate)
        test_gate_open(gate);
}

/* A copy of one form writes the host buffer, and a copy of the other form then reads it. */
static void bring_out_and_take_in(struct test_state *t, struct room *room, const struct form *from,
                                  const struct form *to, enum stream_is how, unsigned char value)
{
    struct test_gate *gate, *poor = NULL;
    leat_stream *stream;

    /* leat knows nothing yet about the order of a new stream. */
    OK(leat_stream_create(t->device, &stream));
    watched = stream;
    prepare(room, t->second, value, from, to);
    if (how == STREAM_IDLE)
        use_up(stream, room);
    if (how == STREAM_POOR)
        poor = use_up_memory(t, room);
    gate = how == STREAM_HELD ? hold(stream, room) : NULL;
    held_before_work = how == STREAM_HELD ? NULL : how == STREAM_WATCHED ? wait_and_delay : held_delay;
    give(from, stream, true, room->host, room->values);
    held_before_work = NULL;
    if (how == STREAM_POOR)
        give_memory_back(poor);
    give(to, stream, false, room->host, room->memory);
    if (gate) {
        assert_int_equal(atomic_load(&gate->passed), 0);
        test_gate_open(gate);
    }
    OK(leat_stream_synchronize(stream));
    OK(leat_stream_synchronize(t->second));
    want_out(room, from, value);
    expect_host(room, from);
    expect_taken(room, t->second, to, from->name);
    OK(leat_stream_destroy(stream));
}

static void each_behind_each(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, LEAT_KIND_DEVICE);
    unsigned char value = 0;

    load_kernels(t->device);
    for (size_t from = 0; from < CALLS; from++)
        for (size_t to = 0; to < CALLS; to++)
            for (enum stream_is how = STREAM_IDLE; how <= STREAM_HELD; how++)
                /* Batches and layouts need staging memory themselves, so they cannot come first here. */
                if (how != STREAM_POOR || forms[from].how <= REGION)
                    bring_out_and_take_in(t, &room, &forms[from], &forms[to], how, ++value);
    end_room(&room);
}

/* Like each_behind_each(), but the first copy goes from pinned to pageable memory. */
static void each_behind_copies_of_the_host(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, LEAT_KIND_PINNED);
    unsigned char value = 0;

    load_kernels(t->device);
    for (size_t from = 0; from < CALLS; from++) {
        for (size_t to = 0; to < CALLS; to++) {
            bring_out_and_take_in(t, &room, &forms[from], &forms[to], STREAM_IDLE, ++value);
            bring_out_and_take_in(t, &room, &forms[from], &forms[to], STREAM_WATCHED, ++value);
            bring_out_and_take_in(t, &room, &forms[from], &forms[to], STREAM_HELD, ++value);
        }
    }
    end_room(&room);
}

/* After any work leat must not consider the stream idle. A short copy from the device waits for its DMA if the
 * stream is idle, so here it must return while the stream is held up. */
static void work_makes_a_stream_busy(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, LEAT_KIND_DEVICE);

    load_kernels(t->device);
    for (size_t i = 0; i <= CALLS; i++) {
        struct test_gate *gate;
        leat_stream *stream;

        OK(leat_stream_create(t->device, &stream));
        prepare(&room, t->second, 0x44, &forms[0], &forms[i % CALLS]);
        gate = held_close(stream->native);
        if (i < CALLS)
            give(&forms[i], stream, false, room.host, room.memory);
        else
            OK(leat_fill(stream, room.memory, 1, 1000));
        give(&forms[0], stream, true, room.wanted, room.values);
        assert_int_equal(atomic_load(&gate->passed), 0);
        test_gate_open(gate);
        OK(leat_stream_synchronize(stream));
        EXPECT_BYTES(room.wanted, forms[0].width, 0x44);
        OK(leat_stream_destroy(stream));
    }
    end_room(&room);
}

/* The room whose host buffer write_host() overwrites. A test submits write_host() through the vendor's handle, so
 * leat does not know of it. */
static struct room *written;

static void write_host(void *argument)
{
    test_sleep_us(2000);
    memset(written->host, *(unsigned char *)argument, written->bytes);
}

static void each_behind_work_past_leat(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, LEAT_KIND_DEVICE);
    static unsigned char value;

    load_kernels(t->device);
    written = &room;
    for (size_t to = 0; to < CALLS; to++) {
        leat_stream *stream;
        void *native;

        value = (unsigned char)(to + 1);
        OK(leat_stream_create(t->device, &stream));
        OK(leat_stream_native(stream, &native));
        prepare(&room, t->second, value, &forms[to], &forms[to]);
        held_call(stream->native, write_host, &value);
        give(&forms[to], stream, false, room.host, room.memory);
        OK(leat_stream_synchronize(stream));
        memset(room.wanted, value, room.bytes);
        expect_taken(&room, t->second, &forms[to], "behind work outside leat");
        OK(leat_stream_destroy(stream));
    }
    end_room(&room);
}

/* ---- memory that a copy uses ---- */

/* While a copy is held up, the same copies run on another stream, where they would overwrite memory that the first
 * copy has freed too early. The first stream is destroyed while its copy is pending. */
static void each_keeps_what_it_uses(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, LEAT_KIND_DEVICE), other = make_room(t->device, LEAT_KIND_DEVICE);

    load_kernels(t->device);
    for (size_t i = 0; i < CALLS; i++) {
        for (int out = 0; out < 2; out++) {
            struct test_gate *gate;
            leat_stream *stream;

            OK(leat_stream_create(t->device, &stream));
            prepare(&room, t->second, 0x22, &forms[i], &forms[i]);
            prepare(&other, t->second, 0x33, &forms[i], &forms[i]);
            test_pattern(room.host, room.bytes, i);
            memcpy(room.wanted, room.host, room.bytes);
            gate = hold(stream, &room);
            give(&forms[i], stream, out, room.host, out ? room.values : room.memory);
            for (int k = 0; k < 3; k++)
                give(&forms[i], t->second, out, other.host, out ? other.values : other.memory);
            OK(leat_stream_synchronize(t->second));
            assert_int_equal(atomic_load(&gate->passed), 0);
            OK(leat_stream_destroy(stream));
            test_gate_open(gate);
            OK(leat_device_synchronize(t->device));
            if (out)
                want_out(&room, &forms[i], 0x22);
            expect_host(&room, &forms[i]);
            if (!out)
                expect_taken(&room, t->second, &forms[i], "of a stream that has ended");
        }
    }
    end_room(&other);
    end_room(&room);
}

/* The host memory of a held-up copy becomes inaccessible, and in half of the cases the stream is destroyed. leat
 * must be able to record the failure even if the stream no longer exists. */
static void each_fails_behind_its_stream(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, LEAT_KIND_DEVICE);

    load_kernels(t->device);
    test_let_leat_catch_faults();
    for (size_t i = 0; i < CALLS; i++) {
        for (int ends = 0; ends < 2; ends++) {
            unsigned char *host = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            struct test_gate *gate;
            leat_stream *stream;

            assert_true(host != MAP_FAILED);
            OK(leat_stream_create(t->device, &stream));
            gate = hold(stream, &room);
            give(&forms[i], stream, true, host, room.values);
            if (ends)
                OK(leat_stream_destroy(stream));
            assert_int_equal(mprotect(host, BYTES, PROT_NONE), 0);
            test_gate_open(gate);
            if (!ends) {
                REFUSED(leat_stream_synchronize(stream), LEAT_ERROR_POINTER, "could not be reached");
                OK(leat_stream_destroy(stream));
            }
            OK(leat_device_synchronize(t->device));
            munmap(host, BYTES);
        }
    }
    end_room(&room);
}

/* The CPU device's own threads copy this layout, and the driver refuses the host function that follows the kernel.
 * leat must wait for the kernel before it returns the error. */
static void a_layout_that_fails_is_waited_for(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, LEAT_KIND_DEVICE);
    struct held_watch watch = {.until_fault = true};
    leat_layout dense, turned;
    const char *as_gpu = getenv("LEAT_LAYOUT_AS_GPU");
    leat_status status;

    if (as_gpu && !strcmp(as_gpu, "1")) {
        end_room(&room);
        SKIP_OTHER("layouts go the ways of a GPU");
    }
    memset(room.host, 1, MIB);
    OK(leat_layout_dense(&dense, 2, (int64_t[]){256, 512}, 8));
    turned = dense;
    OK(leat_layout_transpose(&turned, 0, 1));
    OK(leat_layout_dense(&dense, 2, turned.size, 8));
    OK(leat_copy_layout(t->stream, room.memory, &dense, room.host, &turned));
    OK(leat_stream_synchronize(t->stream));
    watch.gate = held_close(t->stream->native);
    leati_fault_arm(held_driver, LEATI_FAULT_FAIL, "launch_host", 1);
    held_watch_start(&watch);
    status = leat_copy_layout(t->stream, room.memory, &dense, room.host, &turned);
    held_watch_end(&watch);
    leati_fault_arm(held_driver, LEATI_FAULT_NONE, NULL, 0);
    assert_int_equal(status, LEAT_ERROR_DRIVER);
    end_room(&room);
}

/* ---- guard mode ---- */

static void expect_refused(leat_status status, const struct form *form, const char *words)
{
    if (status != LEAT_ERROR_NOT_PERMITTED || !strstr(leat_last_error(), words))
        fail_msg("%s: %s is not refused: %s", form->name, words, status ? leat_last_error() : "it is OK");
}

/* While a held-up stream writes a block of a guarded pool, leat must refuse a copy of this block on another
 * stream. While a copy on the held-up stream uses the block, leat must refuse a fill on another stream. */
static void guard_mode_sees_each(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, LEAT_KIND_DEVICE);
    leat_pool_options options = {.size = sizeof options, .guard = 1};
    leat_pool *pool;
    void *block;

    load_kernels(t->device);
    OK(leat_pool_create(t->device, &options, &pool));
    OK(leat_pool_alloc(NULL, pool, BYTES, &block));
    for (size_t i = 0; i < CALLS; i++) {
        for (int out = 0; out < 2; out++) {
            struct test_gate *gate = hold(t->stream, &room);
            size_t last = packed_bytes(&forms[i]) - 1;

            OK(leat_fill(t->stream, block, 1, BYTES));
            expect_refused(try_call(&forms[i], t->second, out, room.host, block), &forms[i], "was last written");
            test_gate_open(gate);
            OK(leat_stream_synchronize(t->stream));
            gate = hold(t->stream, &room);
            give(&forms[i], t->stream, out, room.host, block);
            expect_refused(leat_fill(t->second, (char *)block + last, 1, 1), &forms[i],
                           out ? "was last read" : "was last written");
            test_gate_open(gate);
            OK(leat_stream_synchronize(t->stream));
        }
    }
    OK(leat_memory_free(block));
    OK(leat_pool_destroy(pool));
    end_room(&room);
}

static const struct CMUnitTest tests[] = {
    HELD_TEST(each_behind_each),
    HELD_TEST(each_behind_copies_of_the_host),
    HELD_TEST(work_makes_a_stream_busy),
    HELD_TEST(each_behind_work_past_leat),
    HELD_TEST(each_keeps_what_it_uses),
    HELD_TEST(each_fails_behind_its_stream),
    HELD_TEST(a_layout_that_fails_is_waited_for),
    HELD_TEST(guard_mode_sees_each),
};

int main(void)
{
    if (!test_only_on_cpu())
        return 77;
    held_begin();
    test_keep_handlers();
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
