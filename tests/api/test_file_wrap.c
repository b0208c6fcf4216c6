/*
 * test_file_wrap.c - leat_file_wrap(): handles for files that the program has open: who owns the descriptor, what
 * the handle can do, and descriptors that are refused.
 */
#include "file_room.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES (3 * MIB + 5)

static int open_fd(const char *path, int how)
{
    int fd = open(path, how, 0666);

    assert_true(fd >= 0);
    return fd;
}

static leat_file *wrap_file(int fd, unsigned flags)
{
    leat_file *file = NULL;

    OK(leat_file_wrap(fd, flags, &file));
    assert_non_null(file);
    return file;
}

/* Reads the whole file by the handle, and compares it with the pattern of the seed. */
static void expect_content(struct test_state *t, leat_file *file, uint64_t seed)
{
    for (size_t k = 0; k < KINDS; k++) {
        unsigned char *memory = make_memory(t, kinds[k], BYTES), *out = test_buffer(BYTES);

        OK(leat_file_read(t->stream, memory, file, 0, BYTES));
        OK(leat_copy_sync(t->stream, out, memory, BYTES));
        OK(leat_stream_synchronize(t->stream));
        EXPECT_PATTERN(out, BYTES, seed);
        end_memory(kinds[k], memory);
        free(out);
    }
}

/* The handle works after the program has closed its descriptor, and closing the handle leaves the program's
 * descriptor and its position alone. */
static void the_program_keeps_its_descriptor(void **state)
{
    struct test_state *t = *state;
    const char *path = make_file("owned", BYTES, 3);
    int fd = open_fd(path, O_RDONLY);
    leat_file *file;

    assert_int_equal(lseek(fd, 77, SEEK_SET), 77);
    file = wrap_file(fd, 0);
    expect_content(t, file, 3);
    OK(leat_file_close(file));
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 77);
    file = wrap_file(fd, LEAT_FILE_READ | LEAT_FILE_CACHED);
    assert_int_equal(close(fd), 0);
    expect_content(t, file, 3);
    OK(leat_file_close(file));
}

/* Writes and reads an unaligned range. how: the program's flags of open(). */
static void write_and_read(struct test_state *t, const char *name, int how)
{
    const char *path = make_file(name, BYTES, 4);
    int fd = open(path, how);
    unsigned char *memory, *content, *out;
    leat_file *file;

    if (fd < 0)
        return; /* a file system without O_DIRECT */
    file = wrap_file(fd, 0);
    memory = test_alloc(t->device, LEAT_KIND_DEVICE, 70 * KIB);
    out = test_buffer(70 * KIB);
    OK(leat_fill(t->stream, memory, 0x5a, 70 * KIB));
    OK(leat_file_write(t->stream, file, 4099, memory + 1, 9001));
    OK(leat_stream_synchronize(t->stream));
    content = file_content(path, BYTES);
    EXPECT_BYTES(content + 4099, 9001, 0x5a);
    test_pattern(out, 4099, 4);
    assert_memory_equal(content, out, 4099);
    if ((how & O_ACCMODE) == O_RDWR) {
        OK(leat_file_read(t->stream, memory + 3, file, 4097, 10007));
        OK(leat_copy_sync(t->stream, out, memory + 3, 10007));
        OK(leat_stream_synchronize(t->stream));
        assert_memory_equal(content + 4097, out, 10007);
    } else {
        REFUSED(leat_file_read(t->stream, memory, file, 0, 10), LEAT_ERROR_FILE, "");
    }
    OK(leat_file_close(file));
    assert_int_equal(close(fd), 0);
    OK(leat_memory_free(memory));
    free(out);
    free(content);
}

/* O_DIRECT and O_APPEND of the program's descriptor change nothing: ranges may have any alignment, and writes go
 * to their offset. */
static void any_range_is_written(void **state)
{
    write_and_read(*state, "plain", O_RDWR);
    write_and_read(*state, "only-written", O_WRONLY);
    write_and_read(*state, "append", O_RDWR | O_APPEND);
    write_and_read(*state, "direct", O_RDWR | O_DIRECT);
    write_and_read(*state, "direct-append", O_WRONLY | O_DIRECT | O_APPEND);
}

/* Flags that the program sets later on its own descriptor do not change where and how leat writes. */
static void flags_set_later_have_no_effect(void **state)
{
    struct test_state *t = *state;
    const char *path = make_file("later", BYTES, 4);
    int fd = open_fd(path, O_RDWR);
    leat_file *file = wrap_file(fd, 0);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 70 * KIB), *content;

    OK(leat_fill(t->stream, memory, 0x5a, 70 * KIB));
    assert_int_equal(fcntl(fd, F_SETFL, O_APPEND), 0);
    OK(leat_file_write(t->stream, file, 4099, memory, 9001));
    OK(leat_stream_synchronize(t->stream));
    (void)fcntl(fd, F_SETFL, O_DIRECT); /* fails on a file system without O_DIRECT */
    OK(leat_file_write(t->stream, file, 20001, memory + 1, 3));
    OK(leat_stream_synchronize(t->stream));
    content = file_content(path, BYTES);
    EXPECT_BYTES(content + 4099, 9001, 0x5a);
    EXPECT_BYTES(content + 20001, 3, 0x5a);
    OK(leat_file_close(file));
    assert_int_equal(close(fd), 0);
    OK(leat_memory_free(memory));
    free(content);
}

/* The handle can do less than the descriptor, but not more. */
static void flags_select_what_the_handle_can_do(void **state)
{
    struct test_state *t = *state;
    const char *path = make_file("flags", BYTES, 5);
    int both = open_fd(path, O_RDWR), read_only = open_fd(path, O_RDONLY), write_only = open_fd(path, O_WRONLY);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 10);
    leat_file *file = wrap_file(both, LEAT_FILE_READ), *none = NULL;

    REFUSED(leat_file_write(t->stream, file, 0, memory, 10), LEAT_ERROR_FILE, "");
    OK(leat_file_read(t->stream, memory, file, 0, 10));
    OK(leat_file_close(file));
    file = wrap_file(both, LEAT_FILE_WRITE);
    REFUSED(leat_file_read(t->stream, memory, file, 0, 10), LEAT_ERROR_FILE, "");
    OK(leat_stream_synchronize(t->stream));
    OK(leat_file_close(file));
    REFUSED(leat_file_wrap(read_only, LEAT_FILE_WRITE, &none), LEAT_ERROR_FILE, "");
    REFUSED(leat_file_wrap(read_only, LEAT_FILE_READ | LEAT_FILE_WRITE, &none), LEAT_ERROR_FILE, "");
    REFUSED(leat_file_wrap(write_only, LEAT_FILE_READ, &none), LEAT_ERROR_FILE, "");
    REFUSED(leat_file_wrap(both, LEAT_FILE_WRITE | LEAT_FILE_CREATE, &none), LEAT_ERROR_INVALID, "");
    REFUSED(leat_file_wrap(both, LEAT_FILE_WRITE | LEAT_FILE_TRUNCATE, &none), LEAT_ERROR_INVALID, "");
    REFUSED(leat_file_wrap(both, LEAT_FILE_WRITE | LEAT_FILE_TEMPORARY, &none), LEAT_ERROR_INVALID, "");
    REFUSED(leat_file_wrap(both, LEAT_FILE_CACHED | LEAT_FILE_DIRECT, &none), LEAT_ERROR_INVALID, "");
    REFUSED(leat_file_wrap(both, 1u << 20, &none), LEAT_ERROR_INVALID, "");
    REFUSED(leat_file_wrap(both, 0, NULL), LEAT_ERROR_INVALID, "");
    assert_null(none);
    OK(leat_memory_free(memory));
    assert_int_equal(close(both) | close(read_only) | close(write_only), 0);
}

static void other_descriptors_are_refused(void **state)
{
    leat_file *file = NULL;
    int pair[2], fd;

    (void)state;
    REFUSED(leat_file_wrap(-1, 0, &file), LEAT_ERROR_FILE, "");
    REFUSED(leat_file_wrap(1 << 20, 0, &file), LEAT_ERROR_FILE, "");
    assert_int_equal(pipe(pair), 0);
    REFUSED(leat_file_wrap(pair[0], 0, &file), LEAT_ERROR_FILE, "");
    REFUSED(leat_file_wrap(pair[1], LEAT_FILE_WRITE, &file), LEAT_ERROR_FILE, "");
    assert_int_equal(close(pair[0]) | close(pair[1]), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    REFUSED(leat_file_wrap(pair[0], 0, &file), LEAT_ERROR_FILE, "");
    assert_int_equal(close(pair[0]) | close(pair[1]), 0);
    fd = open_fd("/dev/zero", O_RDONLY);
    REFUSED(leat_file_wrap(fd, 0, &file), LEAT_ERROR_FILE, "");
    assert_int_equal(close(fd), 0);
    fd = open_fd("/", O_RDONLY | O_DIRECTORY);
    REFUSED(leat_file_wrap(fd, 0, &file), LEAT_ERROR_FILE, "");
    assert_int_equal(close(fd), 0);
    fd = open_fd(make_file("path", 10, 1), O_PATH);
    REFUSED(leat_file_wrap(fd, 0, &file), LEAT_ERROR_FILE, "");
    assert_int_equal(close(fd), 0);
    assert_null(file);
}

/* A file that was removed has no name any more, and can be read. */
static void a_removed_file_is_read(void **state)
{
    struct test_state *t = *state;
    const char *path = make_file("removed", BYTES, 6);
    int fd = open_fd(path, O_RDONLY);
    leat_file *file;

    assert_int_equal(unlink(path), 0);
    file = wrap_file(fd, 0);
    assert_int_equal(close(fd), 0);
    expect_content(t, file, 6);
    OK(leat_file_close(file));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(the_program_keeps_its_descriptor), STATE_TEST(any_range_is_written),
    STATE_TEST(flags_set_later_have_no_effect),   STATE_TEST(flags_select_what_the_handle_can_do),
    STATE_TEST(other_descriptors_are_refused),    STATE_TEST(a_removed_file_is_read),
};

FILE_TEST_MAIN(tests)
