/*
 * test_file_batch.c - tests copies of many ranges of files at once: bytes, order, tickets, failures, and calls
 * that are refused.
 */
#include "file_room.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILES 3
#define FILE_BYTES (6 * MIB)

static const char *const names[FILES] = {"0", "1", "2"};

/* Memory of one kind, its expected content, and a buffer to read it into. */
struct place {
    unsigned char *memory, *expected, *out;
    size_t used;
};

static void make_places(struct test_state *t, struct place *places, size_t bytes)
{
    for (size_t k = 0; k < KINDS; k++) {
        places[k] = (struct place){make_memory(t, kinds[k], bytes), test_buffer(bytes), test_buffer(bytes), 0};
        memset(places[k].expected, 0xee, bytes);
        OK(leat_copy(t->stream, places[k].memory, places[k].expected, bytes));
    }
    OK(leat_stream_synchronize(t->stream));
}

static void check_places(struct test_state *t, struct place *places, size_t bytes)
{
    for (size_t k = 0; k < KINDS; k++) {
        OK(leat_copy_sync(t->stream, places[k].out, places[k].memory, bytes));
        OK(leat_stream_synchronize(t->stream));
        assert_memory_equal(places[k].out, places[k].expected, bytes);
    }
}

static void end_places(struct place *places)
{
    for (size_t k = 0; k < KINDS; k++) {
        end_memory(kinds[k], places[k].memory);
        free(places[k].expected);
        free(places[k].out);
    }
}

/* ---- bytes ---- */

/* Reads ranges of every size from three files, in mixed order, into all kinds of memory. The bytes between the
 * ranges must not change. */
static void ranges_are_read(void **state)
{
    enum { OPS = 3000, MOST = 12000 };
    struct test_state *t = *state;
    const size_t bytes = OPS * (size_t)MOST / 2;
    leat_file_op *ops = malloc(OPS * sizeof *ops);
    unsigned char *contents[FILES];
    leat_file *files[FILES];
    struct place places[KINDS];
    unsigned random = 17;

    for (unsigned f = 0; f < FILES; f++) {
        const char *path = make_file(names[f], FILE_BYTES, f + 1);

        files[f] = open_file(path, LEAT_FILE_READ);
        contents[f] = file_content(path, FILE_BYTES);
    }
    make_places(t, places, bytes);
    for (unsigned i = 0; i < OPS; i++) {
        struct place *place;
        unsigned f, gap;

        random = random * 1103515245 + 12345;
        f = (random >> 8) % FILES;
        place = &places[(random >> 12) % KINDS];
        ops[i].bytes = (random >> 16) % 7 ? (random >> 4) % 4000 : (random >> 4) % MOST;
        ops[i].offset = (random >> 2) % (FILE_BYTES - MOST);
        gap = (random >> 20) % 3;
        /* Some ranges continue the previous range, both in the file and in memory, so that leat merges the two. */
        if (i && (random >> 24) % 3 == 0) {
            f = (unsigned)(ops[i - 1].file == files[1]) + 2u * (ops[i - 1].file == files[2]);
            ops[i].offset = ops[i - 1].offset + ops[i - 1].bytes;
            if (ops[i].offset + ops[i].bytes > FILE_BYTES)
                ops[i].bytes = 0;
            for (size_t k = 0; k < KINDS; k++)
                if ((unsigned char *)ops[i - 1].memory >= places[k].memory &&
                    (unsigned char *)ops[i - 1].memory < places[k].memory + bytes)
                    place = &places[k];
            gap = 0;
        }
        if (place->used + gap + ops[i].bytes > bytes)
            ops[i].bytes = 0;
        else
            place->used += gap;
        ops[i].file = files[f];
        ops[i].memory = place->memory + place->used;
        if (ops[i].bytes)
            memcpy(place->expected + place->used, contents[f] + ops[i].offset, ops[i].bytes);
        place->used += ops[i].bytes;
    }
    for (unsigned i = OPS / 2; i < OPS; i++) {
        leat_file_op op = ops[i];
        unsigned other;

        random = random * 1103515245 + 12345;
        other = OPS / 2 + (random >> 8) % (OPS / 2);
        ops[i] = ops[other];
        ops[other] = op;
    }
    OK(leat_file_read_batch(t->stream, ops, OPS));
    OK(leat_stream_synchronize(t->stream));
    check_places(t, places, bytes);
    for (unsigned f = 0; f < FILES; f++) {
        OK(leat_file_close(files[f]));
        free(contents[f]);
    }
    end_places(places);
    free(ops);
}

/* Writes small ranges from all kinds of memory. There are gaps between them, both in the file and in memory. */
static void ranges_are_written(void **state)
{
    enum { OPS = 900, STEP = 5000 };
    struct test_state *t = *state;
    const size_t bytes = OPS * (size_t)STEP;
    const char *path = make_file("out", bytes, 9);
    unsigned char *expected = file_content(path, bytes), *content, *data = test_buffer(bytes);
    leat_file *file = open_file(path, LEAT_FILE_WRITE);
    leat_file_op *ops = malloc(OPS * sizeof *ops);
    unsigned char *memory[KINDS];
    leat_ticket *ticket;

    test_pattern(data, bytes, 8);
    for (size_t k = 0; k < KINDS; k++) {
        memory[k] = make_memory(t, kinds[k], bytes);
        OK(leat_copy(t->stream, memory[k], data, bytes));
    }
    OK(leat_stream_synchronize(t->stream));
    for (unsigned i = 0; i < OPS; i++) {
        unsigned place = OPS - 1 - i;

        ops[i] = (leat_file_op){file, i * (uint64_t)STEP + i % 7, memory[i % KINDS] + place * (size_t)STEP,
                                STEP - i % 100 - 7};
        memcpy(expected + ops[i].offset, data + place * (size_t)STEP, ops[i].bytes);
    }
    OK(leat_file_write_batch_start(t->stream, ops, OPS, NULL, &ticket));
    OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_STAGED, LEAT_FOREVER));
    OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    assert_int_equal(test_ticket_info(ticket).arrived_bytes, test_ticket_info(ticket).bytes);
    OK(leat_ticket_destroy(ticket));
    content = file_content(path, bytes);
    assert_memory_equal(content, expected, bytes);
    OK(leat_file_close(file));
    for (size_t k = 0; k < KINDS; k++)
        end_memory(kinds[k], memory[k]);
    free(content);
    free(expected);
    free(data);
    free(ops);
}

/* Reads as many ranges as a large model has tensors. They are adjacent in the file; in memory they are adjacent or
 * have gaps. */
static void thousands_of_ranges_are_read(void **state)
{
    enum { OPS = 20000, BYTES = 1500 };
    struct test_state *t = *state;
    const size_t bytes = OPS * (size_t)BYTES;
    const char *path = make_file("0", bytes, 3);
    unsigned char *content = file_content(path, bytes), *out = test_buffer(bytes + OPS);
    leat_file *file = open_file(path, LEAT_FILE_READ);
    leat_file_op *ops = malloc(OPS * sizeof *ops);

    for (size_t k = 0; k < KINDS; k++) {
        unsigned char *memory = make_memory(t, kinds[k], bytes + OPS);

        for (unsigned gap = 0; gap < 2; gap++) {
            for (unsigned i = 0; i < OPS; i++)
                ops[i] = (leat_file_op){file, i * (uint64_t)BYTES, memory + i * (size_t)(BYTES + gap), BYTES};
            OK(leat_file_read_batch(t->stream, ops, OPS));
            OK(leat_copy_sync(t->stream, out, memory, bytes + OPS));
            OK(leat_stream_synchronize(t->stream));
            for (unsigned i = 0; i < OPS; i++)
                assert_memory_equal(out + i * (size_t)(BYTES + gap), content + i * (size_t)BYTES, BYTES);
        }
        end_memory(kinds[k], memory);
    }
    OK(leat_file_close(file));
    free(content);
    free(out);
    free(ops);
}

/* ---- stream order ---- */

static void the_order_of_the_stream_is_kept(void **state)
{
    struct test_state *t = *state;
    const size_t bytes = 600 * KIB;
    leat_file *file = open_file(make_file("out", 0, 0), LEAT_FILE_READ | LEAT_FILE_WRITE);
    unsigned char *device = test_alloc(t->device, LEAT_KIND_DEVICE, bytes), *in = test_buffer(bytes);
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, bytes);
    leat_file_op writes[2] = {{file, bytes / 2, device + bytes / 2, bytes / 2}, {file, 0, device, bytes / 2}};
    leat_file_op reads[2] = {{file, bytes / 2, pinned, bytes / 2}, {file, 0, device, bytes / 2}};
    struct test_gate *gate;

    test_pattern(in, bytes, 4);
    gate = test_gate_close(t->stream);
    OK(leat_copy(t->stream, device, in, bytes));
    OK(leat_file_write_batch(t->stream, writes, 2));
    OK(leat_fill(t->stream, device, 0, bytes));
    OK(leat_file_read_batch(t->stream, reads, 2));
    OK(leat_copy(t->stream, pinned + bytes / 2, device, bytes / 2));
    EXPECT_HELD(t->stream, gate);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    assert_memory_equal(pinned, in + bytes / 2, bytes / 2);
    assert_memory_equal(pinned + bytes / 2, in, bytes / 2);
    OK(leat_file_close(file));
    OK(leat_memory_free(device));
    OK(leat_memory_free(pinned));
    free(in);
}

/* ---- tickets and failures ---- */

static void a_ticket_stops_all(void **state)
{
    struct test_state *t = *state;
    const size_t bytes = 3 * MIB;
    leat_copy_options options = {.size = sizeof options, .deadline_ns = 1};
    leat_file *file = open_file(make_file("0", bytes, 5), LEAT_FILE_READ);
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, bytes);
    unsigned char *device = test_alloc(t->device, LEAT_KIND_DEVICE, bytes);
    leat_file_op ops[2] = {{file, 0, device, bytes}, {file, 0, pinned, bytes}};
    struct test_gate *gate = test_gate_close(t->stream);
    leat_ticket *ticket;

    OK(leat_file_read_batch_start(t->stream, ops, 2, NULL, &ticket));
    assert_int_equal(test_ticket_info(ticket).bytes, 2 * bytes);
    /* Only the CPU device reaches files and its memory without a ring. */
    assert_true(!strcmp(test_ticket_info(ticket).protocol, "staged and host") ||
                !strcmp(test_ticket_info(ticket).protocol, "host"));
    assert_int_equal(test_ticket_info(ticket).done, 0);
    assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, 0), LEAT_NOT_READY);
    OK(leat_ticket_cancel(ticket));
    test_gate_open(gate);
    REFUSED(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER), LEAT_ERROR_CANCELLED,
            "leat_ticket_wait");
    assert_int_equal(test_ticket_info(ticket).done, 1);
    assert_true(test_ticket_info(ticket).arrived_bytes <= bytes);
    OK(leat_ticket_destroy(ticket));
    OK(leat_file_read_batch_start(t->stream, ops, 2, &options, &ticket));
    REFUSED(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER), LEAT_ERROR_DEADLINE, "leat_ticket_wait");
    OK(leat_ticket_destroy(ticket));
    OK(leat_file_read_batch_start(t->stream, ops, 0, NULL, &ticket));
    assert_int_equal(test_ticket_info(ticket).done, 1);
    OK(leat_ticket_destroy(ticket));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_file_close(file));
    OK(leat_memory_free(device));
    OK(leat_memory_free(pinned));
}

/* The message must name the op that failed and its file. The bytes of the other ops must be right. */
static void a_file_that_is_cut_is_a_failure(void **state)
{
    struct test_state *t = *state;
    const char *path = make_file("short", MIB, 6);
    leat_file *whole = open_file(make_file("0", MIB, 7), LEAT_FILE_READ), *cut = open_file(path, LEAT_FILE_READ);

    for (size_t k = 0; k < KINDS; k++) {
        unsigned char *memory = make_memory(t, kinds[k], 2 * MIB);
        leat_file_op ops[2] = {{cut, 0, memory + MIB, MIB}, {whole, 0, memory, MIB}};
        leat_file *writer = open_file(path, LEAT_FILE_WRITE);
        unsigned char in[10] = {0};
        struct test_gate *gate;
        leat_ticket *ticket;

        assert_int_equal(truncate(path, (off_t)MIB), 0);
        gate = test_gate_close(t->stream);
        OK(leat_file_write(t->stream, writer, 0, in, sizeof in));
        OK(leat_file_read_batch_start(t->stream, ops, 2, NULL, &ticket));
        assert_int_equal(truncate(path, 5000), 0);
        test_gate_open(gate);
        REFUSED(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER), LEAT_ERROR_FILE, "op 0");
        REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_FILE, "now ends at 5000");
        OK(leat_stream_synchronize(t->stream));
        OK(leat_ticket_destroy(ticket));
        OK(leat_file_close(writer));
        end_memory(kinds[k], memory);
    }
    OK(leat_file_close(whole));
    OK(leat_file_close(cut));
}

static void memory_that_is_gone_is_a_failure(void **state)
{
    struct test_state *t = *state;
    leat_file *file = open_file(make_file("0", MIB, 8), LEAT_FILE_READ);
    unsigned char *memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct test_gate *gate = test_gate_close(t->stream);
    leat_file_op ops[2] = {{file, 0, memory, 4096}, {file, 8192, memory + 8192, MIB - 8192}};

    assert_true(memory != MAP_FAILED);
    OK(leat_file_read_batch(t->stream, ops, 2));
    assert_int_equal(mprotect(memory + MIB / 2, 4096, PROT_NONE), 0);
    test_gate_open(gate);
    REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_POINTER, "op 1: the memory at");
    OK(leat_file_close(file));
    munmap(memory, MIB);
}

/* ---- calls that are refused ---- */

static void wrong_ops_are_refused(void **state)
{
    struct test_state *t = *state;
    leat_file *file = open_file(make_file("0", 1000, 9), LEAT_FILE_READ), *gone;
    leat_file *out = open_file(path_of("out"), LEAT_FILE_WRITE | LEAT_FILE_CREATE);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 1000);
    leat_file_op ops[3] = {{file, 0, memory, 100}, {file, 0, NULL, 0}, {file, 0, memory + 200, 100}};
    leat_ticket *ticket;

    OK(leat_file_read_batch(t->stream, NULL, 0));
    REFUSED(leat_file_read_batch(t->stream, NULL, 1), LEAT_ERROR_INVALID, "ops");
    REFUSED(leat_file_read_batch(NULL, ops, 3), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_file_read_batch_start(t->stream, ops, 3, NULL, NULL), LEAT_ERROR_INVALID, "ticket");
    REFUSED(leat_file_read_batch_start(t->stream, NULL, 3, NULL, &ticket), LEAT_ERROR_INVALID, "ops");
    ops[0].file = NULL;
    REFUSED(leat_file_read_batch(t->stream, ops, 3), LEAT_ERROR_HANDLE, "op 0");
    ops[0].file = file;
    ops[2].memory = memory + 99;
    REFUSED(leat_file_read_batch(t->stream, ops, 3), LEAT_ERROR_OVERLAP, "op 0 and op 2");
    ops[2].memory = memory + 901;
    REFUSED(leat_file_read_batch(t->stream, ops, 3), LEAT_ERROR_RANGE, "op 2");
    ops[2].memory = NULL;
    REFUSED(leat_file_read_batch(t->stream, ops, 3), LEAT_ERROR_POINTER, "op 2");
    ops[2] = (leat_file_op){file, 901, memory + 200, 100};
    REFUSED(leat_file_read_batch(t->stream, ops, 3), LEAT_ERROR_RANGE, "op 2");
    ops[2].file = NULL;
    REFUSED(leat_file_read_batch(t->stream, ops, 3), LEAT_ERROR_HANDLE, "op 2");
    ops[2].file = out;
    REFUSED(leat_file_read_batch(t->stream, ops, 3), LEAT_ERROR_FILE, "without LEAT_FILE_READ");
    for (unsigned i = 0; i < 3; i++)
        ops[i] = (leat_file_op){out, i * 100, memory, 101};
    REFUSED(leat_file_write_batch(t->stream, ops, 3), LEAT_ERROR_OVERLAP, "op 0 and op 1");
    for (unsigned i = 0; i < 3; i++)
        ops[i].bytes = 100;
    OK(leat_file_write_batch(t->stream, ops, 3)); /* three ranges may have the same source */
    OK(leat_stream_synchronize(t->stream));
    gone = file;
    OK(leat_file_close(file));
    ops[1].file = gone;
    REFUSED(leat_file_write_batch(t->stream, ops, 3), LEAT_ERROR_HANDLE, "op 1");
    OK(leat_file_close(out));
    OK(leat_memory_free(memory));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(ranges_are_read),
    STATE_TEST(ranges_are_written),
    STATE_TEST(thousands_of_ranges_are_read),
    STATE_TEST(the_order_of_the_stream_is_kept),
    STATE_TEST(a_ticket_stops_all),
    STATE_TEST(a_file_that_is_cut_is_a_failure),
    STATE_TEST(memory_that_is_gone_is_a_failure),
    STATE_TEST(wrong_ops_are_refused),
};

FILE_TEST_MAIN(tests)
