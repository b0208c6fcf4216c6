/*
 * test_file.c - tests copies between files and memory: bytes, order, failures, tickets, and calls that are
 * refused.
 *
 * On the CPU device the workers read directly into device memory. With LEAT_COPY_STAGE=1 or LEAT_STRICT=1 they use
 * the staging ring as for a GPU.
 */
#include "file_room.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const size_t sizes[] = {1, 4095, 64 * KIB + 1, MIB, 5 * MIB + 3, 40 * MIB};
#define SIZES (sizeof sizes / sizeof sizes[0])
#define MOST (40 * MIB)

/* ---- bytes ---- */

/* Reads every size from the start of the file and from an unaligned offset. The bytes around the destination must
 * not change. */
static void files_are_read(void **state)
{
    struct test_state *t = *state;
    const char *path = make_file("read", MOST + 4096, 1);
    leat_file *file = open_file(path, LEAT_FILE_READ);
    unsigned char *whole = file_content(path, MOST + 4096), *out = test_buffer(MOST + 2);
    uint64_t bytes;

    OK(leat_file_size(file, &bytes));
    assert_int_equal(bytes, MOST + 4096);
    /* The file was written just now, so all of it is in the cache. Before Linux 6.5 leat tests three bytes of the
     * range, and the result may be up to 2 bytes too small. */
    OK(leat_file_cached(file, 0, MOST + 4096, &bytes));
    assert_in_range(bytes, MOST + 4096 - 2, MOST + 4096);
    OK(leat_file_cached(file, MOST + 4096, 0, &bytes));
    assert_int_equal(bytes, 0);
    for (size_t k = 0; k < KINDS; k++) {
        unsigned char *memory = make_memory(t, kinds[k], MOST + 2);

        for (size_t i = 0; i < 2 * SIZES; i++) {
            size_t size = sizes[i / 2], offset = i % 2 ? 4096 : 0;

            memset(out, 0xee, size + 2);
            OK(leat_copy(t->stream, memory, out, size + 2));
            OK(leat_file_read(t->stream, memory + 1, file, i % 2 ? 4093 : 0, size));
            offset = i % 2 ? 4093 : 0;
            OK(leat_copy_sync(t->stream, out, memory, size + 2));
            OK(leat_stream_synchronize(t->stream));
            assert_memory_equal(out + 1, whole + offset, size);
            assert_int_equal(out[0], 0xee);
            assert_int_equal(out[size + 1], 0xee);
        }
        end_memory(kinds[k], memory);
    }
    OK(leat_file_close(file));
    free(whole);
    free(out);
}

static void files_are_written(void **state)
{
    struct test_state *t = *state;
    unsigned char *in = test_buffer(MOST);

    for (size_t k = 0; k < KINDS; k++) {
        unsigned char *memory = make_memory(t, kinds[k], MOST);

        for (size_t i = 0; i < SIZES; i++) {
            const char *path = make_file("written", 5000, 9);
            leat_file *file = open_file(path, LEAT_FILE_WRITE | LEAT_FILE_TRUNCATE);
            unsigned char *content;

            test_pattern(in, sizes[i], i + 2);
            OK(leat_copy(t->stream, memory, in, sizes[i]));
            OK(leat_file_write(t->stream, file, 77, memory, sizes[i]));
            OK(leat_file_close(file)); /* the copy keeps the file open */
            OK(leat_stream_synchronize(t->stream));
            content = file_content(path, sizes[i] + 77);
            EXPECT_BYTES(content, 77, 0);
            EXPECT_PATTERN(content + 77, sizes[i], i + 2);
            free(content);
        }
        end_memory(kinds[k], memory);
    }
    free(in);
}

/* The bytes around the written range must not change. */
static void a_range_is_overwritten(void **state)
{
    struct test_state *t = *state;
    const char *path = make_file("range", MIB, 1);
    leat_file *file = open_file(path, LEAT_FILE_READ | LEAT_FILE_WRITE);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 100 * KIB), *content, *before;

    before = file_content(path, MIB);
    OK(leat_fill(t->stream, memory, 0x5a, 100 * KIB));
    OK(leat_file_write(t->stream, file, 4097, memory, 100 * KIB));
    OK(leat_stream_synchronize(t->stream));
    content = file_content(path, MIB);
    assert_memory_equal(content, before, 4097);
    EXPECT_BYTES(content + 4097, 100 * KIB, 0x5a);
    assert_memory_equal(content + 4097 + 100 * KIB, before + 4097 + 100 * KIB, MIB - 4097 - 100 * KIB);
    OK(leat_file_close(file));
    OK(leat_memory_free(memory));
    free(content);
    free(before);
}

/* Reads the same file directly and through the cache, from every offset to every kind of memory. The bytes must be
 * the same, and those around the destination must not change. Without a mode leat reads a file that is not cached
 * directly, if the file system allows it. */
static void the_cache_changes_no_byte(void **state)
{
    static const unsigned modes[] = {LEAT_FILE_DIRECT, LEAT_FILE_CACHED, 0};
    struct test_state *t = *state;
    const size_t places[] = {0, 1, 511, 4095, 4096, 70001}, most = 5 * MIB + 3;
    const char *path = make_file("cache", most, 11), *copy = path_of("copied");
    unsigned char *whole = file_content(path, most), *out = test_buffer(most + 2);

    for (size_t m = 0; m < 3; m++) {
        leat_file *file = NULL, *to;
        int fd = open(path, O_RDONLY);

        if (leat_file_open(path, LEAT_FILE_READ | modes[m], &file) != LEAT_OK)
            continue; /* this file system has no direct access */
        for (size_t i = 0; i < sizeof places / sizeof places[0] * KINDS; i++) {
            size_t at = places[i / KINDS], bytes = most - at - (i % 5) * 1000;
            unsigned char *memory = make_memory(t, kinds[i % KINDS], most + 2);

            assert_int_equal(fsync(fd), 0);
            assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
            memset(out, 0xee, most + 2);
            OK(leat_copy(t->stream, memory, out, most + 2));
            OK(leat_file_read(t->stream, memory + 1, file, at, bytes));
            OK(leat_copy_sync(t->stream, out, memory, most + 2));
            OK(leat_stream_synchronize(t->stream));
            assert_memory_equal(out + 1, whole + at, bytes);
            assert_int_equal(out[0], 0xee);
            assert_int_equal(out[bytes + 1], 0xee);

            to = open_file(copy, LEAT_FILE_WRITE | LEAT_FILE_CREATE | LEAT_FILE_TRUNCATE | modes[m]);
            OK(leat_file_write(t->stream, to, at, memory + 1, bytes));
            OK(leat_file_close(to));
            OK(leat_stream_synchronize(t->stream));
            {
                unsigned char *content = file_content(copy, at + bytes);

                EXPECT_BYTES(content, at, 0);
                assert_memory_equal(content + at, whole + at, bytes);
                free(content);
            }
            end_memory(kinds[i % KINDS], memory);
        }
        assert_int_equal(close(fd), 0);
        OK(leat_file_close(file));
    }
    free(whole);
    free(out);
}

/* ---- stream order ---- */

/* A write must not read device memory, and a read must not write it, before the stream reaches them. A read must
 * see what the stream wrote before, although the file was shorter when the read was called. */
static void the_order_of_the_stream_is_kept(void **state)
{
    struct test_state *t = *state;
    const size_t bytes = 3 * MIB;
    const char *path = make_file("order", 0, 0);
    leat_file *file = open_file(path, LEAT_FILE_READ | LEAT_FILE_WRITE);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, bytes), *in = test_buffer(bytes);
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, bytes);
    struct test_gate *gate;
    uint64_t size;

    for (unsigned round = 0; round < 3; round++) {
        memset(pinned, 1, bytes);
        OK(leat_copy_sync(t->stream, memory, pinned, bytes));
        test_pattern(in, bytes, 30 + round);
        OK(leat_stream_synchronize(t->stream));
        gate = test_gate_close(t->stream);
        OK(leat_copy(t->stream, memory, in, bytes));
        OK(leat_file_write(t->stream, file, 0, memory, bytes));
        OK(leat_fill(t->stream, memory, 0, bytes));
        OK(leat_file_read(t->stream, memory, file, 0, bytes));
        OK(leat_copy(t->stream, pinned, memory, bytes));
        EXPECT_HELD(t->stream, gate);
        if (!round) {
            OK(leat_file_size(file, &size));
            assert_int_equal(size, 0);
        }
        test_gate_open(gate);
        OK(leat_stream_synchronize(t->stream));
        EXPECT_PATTERN(pinned, bytes, 30 + round);
    }
    OK(leat_file_close(file));
    OK(leat_memory_free(memory));
    OK(leat_memory_free(pinned));
    free(in);
}

/* One stream writes a file. The other waits for its event and reads the file, with all kinds of memory. */
static void streams_hand_files_over(void **state)
{
    struct test_state *t = *state;
    const size_t bytes = 2 * MIB + 5;
    const char *path = make_file("handed", bytes, 0);
    leat_file *to = open_file(path, LEAT_FILE_WRITE), *from = open_file(path, LEAT_FILE_READ);
    leat_event *event;

    OK(leat_event_create(t->device, &event));
    for (size_t k = 0; k < KINDS; k++) {
        unsigned char *in = make_memory(t, kinds[k], bytes), *out = make_memory(t, kinds[k], bytes);
        unsigned char *check = test_buffer(bytes);
        struct test_gate *gate;

        test_pattern(check, bytes, 50 + k);
        OK(leat_copy_sync(t->stream, in, check, bytes));
        OK(leat_stream_synchronize(t->stream));
        memset(check, 0, bytes);
        gate = test_gate_close(t->stream);
        OK(leat_file_write(t->stream, to, 0, in, bytes));
        OK(leat_event_record(t->stream, event));
        OK(leat_stream_wait(t->second, event));
        OK(leat_file_read(t->second, out, from, 0, bytes));
        EXPECT_HELD(t->second, gate);
        test_gate_open(gate);
        OK(leat_stream_synchronize(t->second));
        OK(leat_copy_sync(t->second, check, out, bytes));
        OK(leat_stream_synchronize(t->second));
        EXPECT_PATTERN(check, bytes, 50 + k);
        OK(leat_stream_synchronize(t->stream));
        end_memory(kinds[k], in);
        end_memory(kinds[k], out);
        free(check);
    }
    OK(leat_event_destroy(event));
    OK(leat_file_close(to));
    OK(leat_file_close(from));
}

/* ---- failures while a copy runs ---- */

/* The file is truncated while a gate holds the stream up. The stream and the ticket must each report the failure,
 * the stream only once, and the stream must continue. */
static void a_file_that_is_cut_is_a_failure(void **state)
{
    struct test_state *t = *state;
    const size_t bytes = 6 * MIB;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, bytes);
    leat_ticket *ticket;

    for (int with_ticket = 0; with_ticket < 2; with_ticket++) {
        const char *path = make_file("cut", bytes, 3);
        leat_file *file = open_file(path, LEAT_FILE_READ);
        leat_file *writer = open_file(path, LEAT_FILE_WRITE);
        struct test_gate *gate = test_gate_close(t->stream);
        unsigned char in[100] = {0};

        /* Submit a write first: then leat does not read the file ahead. */
        OK(leat_file_write(t->stream, writer, 0, in, sizeof in));
        if (with_ticket)
            OK(leat_file_read_start(t->stream, memory, file, 0, bytes, NULL, &ticket));
        else
            OK(leat_file_read(t->stream, memory, file, 0, bytes));
        assert_int_equal(truncate(path, MIB + 1000), 0);
        test_gate_open(gate);
        if (with_ticket) {
            REFUSED(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER), LEAT_ERROR_FILE, "cut");
            assert_int_equal(test_ticket_info(ticket).status, LEAT_ERROR_FILE);
            assert_true(test_ticket_info(ticket).arrived_bytes <= MIB + 1000);
        }
        REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_FILE, "now ends at 1049576");
        OK(leat_stream_synchronize(t->stream));
        if (with_ticket) {
            OK(leat_file_close(file));
            file = NULL;
            REFUSED(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, 0), LEAT_ERROR_FILE, path);
            OK(leat_ticket_destroy(ticket));
        }
        OK(leat_file_close(file));
        OK(leat_file_close(writer));
    }
    OK(leat_memory_free(memory));
}

/* A short range that is in the system's cache may be read by the calling thread. Even then the call succeeds, and
 * the stream returns the failure. The file is open for writing too, so the call does not know where it ends. */
static void a_short_read_that_fails_is_told_by_the_stream(void **state)
{
    struct test_state *t = *state;
    const size_t lengths[] = {3000, 300000, 2 * MIB - 100};
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 2 * MIB), *out = test_buffer(2 * MIB);

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        leat_file *file = open_file(make_file("short", lengths[i], 8), LEAT_FILE_READ | LEAT_FILE_WRITE);
        char ends[60];

        snprintf(ends, sizeof ends, "now ends at %zu", lengths[i]);
        OK(leat_file_read(t->stream, memory, file, 1, lengths[i]));
        REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_FILE, ends);
        OK(leat_stream_synchronize(t->stream));
        OK(leat_fill(t->stream, memory, 0, 2 * MIB));
        OK(leat_file_read(t->stream, memory + 5, file, 1, lengths[i] - 1));
        OK(leat_file_close(file));
        OK(leat_copy_sync(t->stream, out + 1, memory + 5, lengths[i] - 1));
        OK(leat_stream_synchronize(t->stream));
        test_pattern(out, 1, 8);
        EXPECT_PATTERN(out, lengths[i], 8);
    }
    OK(leat_memory_free(memory));
    free(out);
}

/* A limit on file sizes makes the write fail as on a full disk. */
static void a_write_that_fails_is_told(void **state)
{
    struct test_state *t = *state;
    const size_t bytes = 4 * MIB;
    const char *path = make_file("full", 0, 0);
    leat_file *file = open_file(path, LEAT_FILE_WRITE);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, bytes);
    struct rlimit before, less;
    leat_ticket *ticket;

    OK(leat_fill(t->stream, memory, 1, bytes));
    OK(leat_stream_synchronize(t->stream));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    less = before;
    less.rlim_cur = MIB;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
    OK(leat_file_write_start(t->stream, file, 0, memory, bytes, NULL, &ticket));
    REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_FILE, strerror(EFBIG));
    REFUSED(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER), LEAT_ERROR_FILE, path);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    OK(leat_ticket_destroy(ticket));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_file_write(t->stream, file, 0, memory, bytes));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_file_close(file));
    OK(leat_memory_free(memory));
}

/* Pageable memory becomes inaccessible before the stream reaches the copy. */
static void memory_that_is_gone_is_a_failure(void **state)
{
    struct test_state *t = *state;
    const size_t bytes = 2 * MIB;
    leat_file *file = open_file(make_file("gone", bytes, 4), LEAT_FILE_READ);
    unsigned char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct test_gate *gate = test_gate_close(t->stream);

    assert_true(memory != MAP_FAILED);
    OK(leat_file_read(t->stream, memory, file, 0, bytes));
    assert_int_equal(mprotect(memory + MIB, 4096, PROT_NONE), 0);
    test_gate_open(gate);
    REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_POINTER, "could not be reached");
    OK(leat_file_close(file));
    munmap(memory, bytes);
}

/* ---- tickets ---- */

static void tickets_follow_and_stop(void **state)
{
    struct test_state *t = *state;
    const size_t bytes = 20 * MIB;
    leat_copy_options options = {.size = sizeof options, .deadline_ns = 1};
    leat_file *file = open_file(make_file("followed", bytes, 5), LEAT_FILE_READ);
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, bytes);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, bytes);
    char text[4000], line[60];
    const char *protocol;
    struct test_gate *gate;
    leat_ticket *ticket;

    OK(leat_file_read_start(t->stream, memory, file, 0, bytes, NULL, &ticket));
    OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_STAGED, LEAT_FOREVER));
    OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    assert_int_equal(test_ticket_info(ticket).arrived_bytes, bytes);
    protocol = test_ticket_info(ticket).protocol;
    OK(leat_file_explain(t->stream, memory, file, 0, bytes, text, sizeof text));
    snprintf(line, sizeof line, "\n  protocol  %s: ", protocol);
    assert_non_null(strstr(text, line));
    OK(leat_ticket_destroy(ticket));
    OK(leat_copy_sync(t->stream, pinned, memory, bytes));
    OK(leat_stream_synchronize(t->stream));
    EXPECT_PATTERN(pinned, bytes, 5);

    /* A read into pinned memory must not begin before the stream reaches it. So close a gate first. */
    gate = test_gate_close(t->stream);
    OK(leat_file_read_start(t->stream, pinned, file, 0, bytes, NULL, &ticket));
    OK(leat_ticket_cancel(ticket));
    test_gate_open(gate);
    REFUSED(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER), LEAT_ERROR_CANCELLED, "after 0 bytes");
    OK(leat_ticket_destroy(ticket));
    OK(leat_file_read_start(t->stream, memory, file, 0, bytes, &options, &ticket));
    REFUSED(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER), LEAT_ERROR_DEADLINE, "leat_ticket_wait");
    OK(leat_ticket_destroy(ticket));
    OK(leat_file_read_start(t->stream, memory, file, 0, 0, NULL, &ticket));
    assert_int_equal(test_ticket_info(ticket).done, 1);
    assert_string_equal(test_ticket_info(ticket).protocol, "");
    OK(leat_ticket_destroy(ticket));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_file_close(file));
    OK(leat_memory_free(memory));
    OK(leat_memory_free(pinned));
}

/* ---- many copies at once ---- */

struct reader {
    struct test_state *t;
    leat_file *file;
    unsigned number;
    pthread_t thread;
};

static void *read_and_write(void *argument)
{
    enum { ROUNDS = 20 };
    struct reader *reader = argument;
    leat_device *device = reader->t->device;
    const size_t bytes = 300 * KIB + reader->number;
    uint64_t at = (uint64_t)reader->number * MIB;
    unsigned char *in = test_buffer(bytes), *out = test_buffer(bytes);
    unsigned char *memory = test_alloc(device, LEAT_KIND_DEVICE, bytes);
    leat_stream *stream;

    OK(leat_stream_create(device, &stream));
    for (unsigned i = 0; i < ROUNDS; i++) {
        test_pattern(in, bytes, reader->number * 100 + i);
        OK(leat_copy(stream, memory, in, bytes));
        OK(leat_file_write(stream, reader->file, at, memory, bytes));
        OK(leat_fill(stream, memory, 0, bytes));
        OK(leat_file_read(stream, memory, reader->file, at, bytes));
        OK(leat_copy_sync(stream, out, memory, bytes));
        OK(leat_stream_synchronize(stream));
        EXPECT_PATTERN(out, bytes, reader->number * 100 + i);
    }
    OK(leat_stream_destroy(stream));
    OK(leat_memory_free(memory));
    free(in);
    free(out);
    return NULL;
}

static void threads_share_a_file(void **state)
{
    enum { THREADS = 6 };
    struct test_state *t = *state;
    leat_file *file = open_file(make_file("shared", 0, 0), LEAT_FILE_READ | LEAT_FILE_WRITE);
    struct reader readers[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        readers[i] = (struct reader){.t = t, .file = file, .number = i};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_and_write, &readers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(readers[i].thread, NULL), 0);
    OK(leat_file_close(file));
}

/* ---- calls that are refused ---- */

static void what_is_no_file_is_refused(void **state)
{
    const char *fifo = path_of("fifo");
    leat_file *file = (leat_file *)8;

    (void)state;
    assert_int_equal(mkfifo(fifo, 0600), 0);
    REFUSED(leat_file_open(NULL, LEAT_FILE_READ, &file), LEAT_ERROR_INVALID, "path");
    REFUSED(leat_file_open(folder, LEAT_FILE_READ, NULL), LEAT_ERROR_INVALID, "file");
    REFUSED(leat_file_open(path_of("nothing"), LEAT_FILE_READ, &file), LEAT_ERROR_FILE, strerror(ENOENT));
    REFUSED(leat_file_open(folder, LEAT_FILE_READ, &file), LEAT_ERROR_FILE, "not a regular file");
    REFUSED(leat_file_open(folder, LEAT_FILE_WRITE, &file), LEAT_ERROR_FILE, strerror(EISDIR));
    REFUSED(leat_file_open(fifo, LEAT_FILE_READ, &file), LEAT_ERROR_FILE, "not a regular file");
    REFUSED(leat_file_open("/dev/zero", LEAT_FILE_READ, &file), LEAT_ERROR_FILE, "not a regular file");
    REFUSED(leat_file_open(folder, 0, &file), LEAT_ERROR_INVALID, "flags are 0x0");
    REFUSED(leat_file_open(folder, 128 | LEAT_FILE_READ, &file), LEAT_ERROR_INVALID, "flags are 0x81");
    REFUSED(leat_file_open(folder, LEAT_FILE_READ | LEAT_FILE_CACHED | LEAT_FILE_DIRECT, &file),
            LEAT_ERROR_INVALID, "exclude each other");
    REFUSED(leat_file_open(folder, LEAT_FILE_CREATE, &file), LEAT_ERROR_INVALID, "flags are 0x4");
    REFUSED(leat_file_open(folder, LEAT_FILE_READ | LEAT_FILE_TRUNCATE, &file), LEAT_ERROR_INVALID, "go with");
    assert_ptr_equal(file, (leat_file *)8);
    OK(leat_file_close(NULL));
    assert_int_equal(unlink(fifo), 0);
}

static void wrong_ranges_are_refused(void **state)
{
    struct test_state *t = *state;
    leat_file *in = open_file(make_file("small", 1000, 6), LEAT_FILE_READ), *gone;
    leat_file *out = open_file(path_of("new"), LEAT_FILE_WRITE | LEAT_FILE_CREATE);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 1000);
    leat_copy_options options = {.size = 100000};
    leat_ticket *ticket;
    char text[2000];
    uint64_t size;

    REFUSED(leat_file_read(t->stream, memory, in, 0, 1001), LEAT_ERROR_RANGE, "");
    REFUSED(leat_file_read(t->stream, memory, in, 1, 1000), LEAT_ERROR_RANGE, "beyond the end of");
    REFUSED(leat_file_read(t->stream, memory, in, UINT64_MAX, 2), LEAT_ERROR_RANGE, "beyond the end of");
    REFUSED(leat_file_write(t->stream, out, INT64_MAX - 5, memory, 10), LEAT_ERROR_RANGE, "largest size");
    REFUSED(leat_file_write(t->stream, out, 0, memory, 1001), LEAT_ERROR_RANGE, "src");
    REFUSED(leat_file_write(t->stream, in, 0, memory, 10), LEAT_ERROR_FILE, "without LEAT_FILE_WRITE");
    REFUSED(leat_file_read(t->stream, memory, out, 0, 10), LEAT_ERROR_FILE, "without LEAT_FILE_READ");
    REFUSED(leat_file_read(t->stream, NULL, in, 0, 10), LEAT_ERROR_POINTER, "dst");
    REFUSED(leat_file_read(NULL, memory, in, 0, 10), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_file_read(t->stream, memory, NULL, 0, 10), LEAT_ERROR_HANDLE, "file");
    REFUSED(leat_file_read_start(t->stream, memory, in, 0, 10, NULL, NULL), LEAT_ERROR_INVALID, "ticket");
    REFUSED(leat_file_write_start(t->stream, out, 0, memory, 10, &options, &ticket), LEAT_ERROR_INVALID, "size");
    REFUSED(leat_file_size(in, NULL), LEAT_ERROR_INVALID, "bytes");
    REFUSED(leat_file_cached(in, 0, 10, NULL), LEAT_ERROR_INVALID, "cached_bytes");
    REFUSED(leat_file_cached(in, 1, 1000, &size), LEAT_ERROR_RANGE, "beyond the end of");
    REFUSED(leat_file_cached(in, UINT64_MAX, 1, &size), LEAT_ERROR_RANGE, "beyond the end of");
    REFUSED(leat_file_cached(NULL, 0, 10, &size), LEAT_ERROR_HANDLE, "file");
    REFUSED(leat_file_explain(t->stream, memory, in, 0, 10, text, 0), LEAT_ERROR_INVALID, "text_bytes");
    OK(leat_file_explain(t->stream, memory, in, 0, 1000, text, sizeof text));
    assert_non_null(strstr(text, "from a file to"));
    OK(leat_file_read(t->stream, NULL, in, 5000, 0));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_file_size(out, &size));
    assert_int_equal(size, 0);
    gone = in;
    OK(leat_file_close(in));
    REFUSED(leat_file_close(gone), LEAT_ERROR_HANDLE, "not live");
    REFUSED(leat_file_read(t->stream, memory, gone, 0, 10), LEAT_ERROR_HANDLE, "not live");
    REFUSED(leat_file_size(gone, &size), LEAT_ERROR_HANDLE, "not live");
    OK(leat_file_close(out));
    OK(leat_memory_free(memory));
}

/* No descriptor may stay open after copies, tickets and handles have ended. */
static void nothing_stays_open(void **state)
{
    struct test_state *t = *state;
    const char *path = make_file("closed", MIB, 7);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, MIB);
    int next, now = -1;

    next = open(path, O_RDONLY);
    assert_true(next >= 0);
    close(next);
    for (int i = 0; i < 50; i++) {
        leat_file *file = open_file(path, LEAT_FILE_READ);
        leat_ticket *ticket = NULL;

        if (i % 2)
            OK(leat_file_read_start(t->stream, memory, file, 0, MIB, NULL, &ticket));
        else
            OK(leat_file_read(t->stream, memory, file, 0, MIB));
        OK(leat_file_close(file));
        OK(leat_stream_synchronize(t->stream));
        OK(leat_ticket_destroy(ticket));
    }
    /* A later copy cleans up completed jobs, which closes their files. A worker may still hold a job for a moment
     * after the stream has completed it, so try again. A descriptor that leaks would stay open in all tries. */
    for (int i = 0; i < 1000; i++) {
        leat_file *file = open_file(path, LEAT_FILE_READ);

        OK(leat_file_read(t->stream, memory, file, 0, MIB));
        OK(leat_stream_synchronize(t->stream));
        OK(leat_file_close(file));
        now = open(path, O_RDONLY);
        assert_true(now >= 0);
        close(now);
        if (now <= next + 2)
            break;
        test_sleep_us(1000);
    }
    assert_true(now <= next + 2);
    OK(leat_memory_free(memory));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(files_are_read),
    STATE_TEST(files_are_written),
    STATE_TEST(a_range_is_overwritten),
    STATE_TEST(the_cache_changes_no_byte),
    STATE_TEST(the_order_of_the_stream_is_kept),
    STATE_TEST(streams_hand_files_over),
    STATE_TEST(a_file_that_is_cut_is_a_failure),
    STATE_TEST(a_short_read_that_fails_is_told_by_the_stream),
    STATE_TEST(a_write_that_fails_is_told),
    STATE_TEST(memory_that_is_gone_is_a_failure),
    STATE_TEST(tickets_follow_and_stop),
    STATE_TEST(threads_share_a_file),
    STATE_TEST(what_is_no_file_is_refused),
    STATE_TEST(wrong_ranges_are_refused),
    STATE_TEST(nothing_stays_open),
};

FILE_TEST_MAIN(tests)
