/*
 * test_file_direct.c - tests which bytes leat reads and writes past the system's cache: each block of a range
 * exactly once, also if the range begins and ends inside a block. bad_disk.h counts the bytes of the system calls.
 */
#include "bad_disk.h"
#include "file_room.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK ((size_t)4096)
#define MOST (9 * MIB + 5)

static const struct {
    size_t offset, bytes;
} ranges[] = {{0, 4096},
              {0, MIB},
              {1, 1},
              {4095, 2},
              {512, 4 * MIB},
              {600, MIB + 4000},
              {4096, 300 * KIB + 1},
              {5000, 8 * MIB + 1},
              {8191, 9 * MIB - 9000}};
#define RANGES (sizeof ranges / sizeof ranges[0])

static leat_file *open_direct(const char *path, unsigned flags)
{
    leat_file *file = NULL;

    if (leat_file_open(path, flags | LEAT_FILE_DIRECT, &file) != LEAT_OK)
        SKIP_OTHER("the file system of the tests' folder has no direct access");
    return file;
}

/* Returns the size of all blocks that contain a byte of the range. */
static size_t block_bytes(size_t offset, size_t bytes)
{
    return (offset + bytes + BLOCK - 1) / BLOCK * BLOCK - offset / BLOCK * BLOCK;
}

static void blocks_are_read_once(void **state)
{
    struct test_state *t = *state;
    const char *path = make_file("read", MOST, 1);
    unsigned char *content = file_content(path, MOST), *out = test_buffer(MOST + 1);
    leat_file *file = open_direct(path, LEAT_FILE_READ);

    for (size_t k = 0; k < KINDS; k++) {
        unsigned char *memory = make_memory(t, kinds[k], MOST + 1);

        /* Three reads of each range: to aligned memory, to unaligned memory, and as a batch of two adjacent
         * ranges. */
        for (size_t i = 0; i < 3 * RANGES; i++) {
            size_t offset = ranges[i / 3].offset, bytes = ranges[i / 3].bytes, first = bytes / 3;
            unsigned char *dst = memory + (i % 3 == 1);
            leat_file_op ops[] = {{file, offset, dst, first}, {file, offset + first, dst + first, bytes - first}};

            bad_disk_set(NULL, 0);
            if (i % 3 == 2)
                OK(leat_file_read_batch(t->stream, ops, 2));
            else
                OK(leat_file_read(t->stream, dst, file, offset, bytes));
            OK(leat_stream_synchronize(t->stream));
            assert_int_equal(bad_disk_asked(BAD_DISK_READ), 0);
            assert_int_equal(bad_disk_asked(BAD_DISK_READ_DIRECT), block_bytes(offset, bytes));
            OK(leat_copy_sync(t->stream, out, dst, bytes));
            OK(leat_stream_synchronize(t->stream));
            assert_memory_equal(out, content + offset, bytes);
        }
        end_memory(kinds[k], memory);
    }
    OK(leat_file_close(file));
    free(content);
    free(out);
}

/* leat must write whole blocks past the cache. It must write the ends of the range through the cache, because
 * their blocks contain other bytes too. */
static void only_the_ends_are_written_through_the_cache(void **state)
{
    struct test_state *t = *state;
    const char *path = path_of("written");
    unsigned char *expected = test_buffer(MOST), *data = test_buffer(MOST), *content;

    test_pattern(data, MOST, 2);
    for (size_t k = 0; k < KINDS; k++) {
        unsigned char *memory = make_memory(t, kinds[k], MOST);

        OK(leat_copy_sync(t->stream, memory, data, MOST));
        OK(leat_stream_synchronize(t->stream));
        for (size_t i = 0; i < RANGES; i++) {
            size_t offset = ranges[i].offset, bytes = ranges[i].bytes;
            size_t blocks = (offset + bytes) / BLOCK * BLOCK, first = (offset + BLOCK - 1) / BLOCK * BLOCK;
            leat_file *file;

            (void)make_file("written", MOST, 3);
            test_pattern(expected, MOST, 3);
            memcpy(expected + offset, data, bytes);
            file = open_direct(path, LEAT_FILE_WRITE);
            bad_disk_set(NULL, 0);
            OK(leat_file_write(t->stream, file, offset, memory, bytes));
            OK(leat_stream_synchronize(t->stream));
            blocks = blocks > first ? blocks - first : 0;
            assert_int_equal(bad_disk_asked(BAD_DISK_WRITE_DIRECT), blocks);
            assert_int_equal(bad_disk_asked(BAD_DISK_WRITE), bytes - blocks);
            OK(leat_file_close(file));
            content = file_content(path, MOST);
            assert_memory_equal(content, expected, MOST);
            free(content);
        }
        end_memory(kinds[k], memory);
    }
    free(expected);
    free(data);
}

/* ---- LEAT_IO_CACHE ---- */

/* Runs in a child process, with the variable set to word: opens the file without a flag for the cache, with one,
 * and again where no file has direct access. Returns 0 if leat behaved as expected. */
static int use_option(const char *word, const char *path)
{
    static const unsigned flags[] = {0, LEAT_FILE_CACHED, LEAT_FILE_DIRECT};
    leat_device *device = test_open();
    unsigned char *memory = aligned_alloc(BLOCK, MIB);
    leat_stream *stream;
    leat_file *file;

    if (!memory || leat_stream_create(device, &stream) != LEAT_OK)
        return 2;
    memset(memory, 1, MIB);
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        bool direct = flags[i] ? flags[i] == LEAT_FILE_DIRECT : !strcmp(word, "direct");

        bad_disk_set(NULL, 0);
        if (leat_file_open(path, LEAT_FILE_READ | LEAT_FILE_WRITE | flags[i], &file) != LEAT_OK ||
            leat_file_write(stream, file, 0, memory, MIB) != LEAT_OK ||
            leat_file_read(stream, memory, file, 0, MIB) != LEAT_OK ||
            leat_stream_synchronize(stream) != LEAT_OK || leat_file_close(file) != LEAT_OK)
            return 3;
        if (bad_disk_asked(BAD_DISK_WRITE_DIRECT) != (direct ? MIB : 0) ||
            bad_disk_asked(BAD_DISK_READ_DIRECT) != (direct ? MIB : 0))
            return 4;
    }
    /* A device without direct access: the flag fails, the option does not. */
    bad_disk_set(&(struct bad_disk_rule){.call = BAD_DISK_OPEN_DIRECT, .first = 1, .every = 1, .error = EINVAL},
                 1);
    if (leat_file_open(path, LEAT_FILE_WRITE | LEAT_FILE_DIRECT, &file) != LEAT_ERROR_FILE)
        return 5;
    if (leat_file_open(path, LEAT_FILE_WRITE, &file) != LEAT_OK ||
        leat_file_write(stream, file, 0, memory, MIB) != LEAT_OK || leat_stream_synchronize(stream) != LEAT_OK ||
        leat_file_close(file) != LEAT_OK)
        return 6;
    /* A file system that refuses direct access only when it is used. */
    bad_disk_set(&(struct bad_disk_rule){.call = BAD_DISK_WRITE_DIRECT, .first = 1, .every = 1, .error = EINVAL},
                 1);
    if (leat_file_open(path, LEAT_FILE_WRITE, &file) != LEAT_OK ||
        leat_file_write(stream, file, 0, memory, MIB) != LEAT_OK || leat_stream_synchronize(stream) != LEAT_OK ||
        leat_file_close(file) != LEAT_OK)
        return 7;
    bad_disk_set(NULL, 0);
    free(memory);
    return leat_device_close(device) == LEAT_OK ? 0 : 8;
}

/* A descriptor with O_DIRECT whose file cannot be opened again, such as one whose permissions have changed, can
 * read any range, and write whole blocks. */
static void files_that_cannot_be_opened_again_are_wrapped(void **state)
{
    static const struct bad_disk_rule rules[] = {
        {.call = BAD_DISK_OPEN, .first = 1, .every = 1, .error = EACCES},
        {.call = BAD_DISK_OPEN_DIRECT, .first = 1, .every = 1, .error = EACCES}};
    struct test_state *t = *state;
    const char *path = make_file("again", MIB + 5, 7);
    int fd = open(path, O_RDWR | O_DIRECT);
    leat_file *file = NULL, *none = NULL, *reader = NULL;
    unsigned char *memory, *out, *content;

    if (fd < 0)
        SKIP_OTHER("the file system of the tests' folder has no direct access");
    memory = test_alloc(t->device, LEAT_KIND_DEVICE, 2 * MIB);
    out = test_buffer(MIB + 5);
    content = file_content(path, MIB + 5);
    bad_disk_set(rules, 2);
    OK(leat_file_wrap(fd, 0, &file));
    assert_int_equal(fcntl(fd, F_SETFL, O_DIRECT | O_APPEND), 0);
    REFUSED(leat_file_wrap(fd, 0, &none), LEAT_ERROR_FILE, "O_APPEND");
    OK(leat_file_wrap(fd, LEAT_FILE_READ | LEAT_FILE_CACHED, &reader));
    assert_int_equal(fcntl(fd, F_SETFL, O_DIRECT), 0);
    bad_disk_set(NULL, 0);
    OK(leat_file_read(t->stream, memory + 1, file, 0, MIB + 5));
    OK(leat_copy_sync(t->stream, out, memory + 1, MIB + 5));
    assert_memory_equal(out, content, MIB + 5);
    OK(leat_file_read(t->stream, memory, reader, 4097, 10007));
    OK(leat_copy_sync(t->stream, out, memory, 10007));
    assert_memory_equal(out, content + 4097, 10007);
    free(content);
    OK(leat_fill(t->stream, memory, 0x5a, 8192));
    OK(leat_file_write(t->stream, file, 4096, memory, 8192));
    OK(leat_stream_synchronize(t->stream));
    content = file_content(path, MIB + 5);
    EXPECT_BYTES(content + 4096, 8192, 0x5a);
    OK(leat_file_close(file));
    OK(leat_file_close(reader));
    assert_int_equal(close(fd), 0);
    OK(leat_memory_free(memory));
    free(content);
    free(out);
}

static void the_option_is_the_default_of_the_flags(void **state)
{
    static const char *const words[] = {"cached", "direct"};
    const char *path = make_file("option", MIB, 1);
    leat_file *file = open_direct(path, LEAT_FILE_READ);

    (void)state;
    OK(leat_file_close(file));
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        int status;

        assert_true(child >= 0);
        if (child == 0) {
            setenv("LEAT_IO_CACHE", words[i], 1);
            setenv("LEAT_IO_MAP", "never", 1);
            execl("/proc/self/exe", "test_file_direct", "--option", words[i], path, (char *)NULL);
            _exit(126);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(blocks_are_read_once),
    STATE_TEST(only_the_ends_are_written_through_the_cache),
    STATE_TEST(files_that_cannot_be_opened_again_are_wrapped),
    cmocka_unit_test(the_option_is_the_default_of_the_flags),
};

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "--option"))
        return use_option(argv[2], argv[3]);
    if (!test_device_there())
        return 77;
    test_keep_handlers();
    return cmocka_run_group_tests(tests, make_folder, remove_folder) ? 1 : 0;
}
