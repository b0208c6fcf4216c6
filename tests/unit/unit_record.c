/* unit_record.c - tests the recorder of allocations when write() is interrupted, writes less than requested, or
 * fails. */
#include "harness.h"
#include "temporary.h"

#include "base/hooks.h"
#include "base/record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINES = 4000, LINE_BYTES_MAX = 200 };

/* With --wrap the linker directs calls of write() to __wrap_write(), where every third call is interrupted and
 * long writes are cut in half. After full_at bytes all writes fail. */
static size_t full_at, written_bytes;
static unsigned turn;

ssize_t __real_write(int fd, const void *buffer, size_t bytes);
ssize_t __wrap_write(int fd, const void *buffer, size_t bytes);

ssize_t __wrap_write(int fd, const void *buffer, size_t bytes)
{
    size_t room = full_at - written_bytes;
    ssize_t count;

    if (turn++ % 3 == 1) {
        errno = EINTR;
        return -1;
    }
    bytes = bytes > 1000 ? bytes / 2 : bytes;
    bytes = bytes < room ? bytes : room;
    if (!bytes) {
        errno = ENOSPC;
        return -1;
    }
    count = __real_write(fd, buffer, bytes);
    written_bytes += count > 0 ? (size_t)count : 0;
    return count;
}

/* Records lines in a child process, whose file has room for full bytes. Returns the content of the file. */
static char *record_lines(size_t full, size_t *bytes)
{
    char path[TEMPORARY_PATH], *text = test_buffer((size_t)LINES * LINE_BYTES_MAX);
    int fd = temporary_file(path), status;
    pid_t child;
    FILE *file;

    assert_true(fd >= 0);
    close(fd);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (!child) {
        full_at = full;
        setenv("LEAT_RECORD_ALLOCATIONS", path, 1);
        if (!freopen("/dev/null", "w", stderr))
            _exit(1);
        leati_record_begin();
        for (uint64_t i = 1; i <= LINES; i++)
            LEATI_RECORD(.op = LEATI_RECORD_ALLOC, .block = i, .bytes = i * i, .stream = 1);
        LEATI_RECORD(.op = LEATI_RECORD_DEVICE_CLOSE);
        _exit(leati_recorded() ? 0 : 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, full < SIZE_MAX ? 2 << 8 : 0);
    file = fopen(path, "re");
    assert_non_null(file);
    *bytes = fread(text, 1, (size_t)LINES * LINE_BYTES_MAX - 1, file);
    text[*bytes] = '\0';
    fclose(file);
    unlink(path);
    return text;
}

/* Fails unless each line of the file is complete, and the lines are in order. Returns the number of lines. */
static unsigned count_lines(char *text)
{
    unsigned count = 0;
    char *line, *rest = text;

    line = strsep(&rest, "\n");
    assert_int_equal(strncmp(line, "t_us,op,id,", 11), 0);
    while ((line = strsep(&rest, "\n")) && *line) {
        char wanted[64];

        count++;
        snprintf(wanted, sizeof wanted, ",alloc,%u,%u,1,,,,,,", count, count * count);
        assert_non_null(strstr(line, wanted));
    }
    assert_null(rest);
    return count;
}

static void short_writes_lose_nothing(void **state)
{
    size_t bytes;
    char *text = record_lines(SIZE_MAX, &bytes);

    (void)state;
    assert_int_equal(count_lines(text), LINES);
    free(text);
}

/* The file must contain complete lines only, wherever the disk becomes full. */
static void a_full_disk_leaves_whole_lines(void **state)
{
    static const size_t rooms[] = {10, 100, 1000, 50001, 65536, 70000, 100003};

    (void)state;
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        size_t bytes;
        char *text = record_lines(rooms[i], &bytes);

        assert_true(bytes <= rooms[i] && bytes + LINE_BYTES_MAX > rooms[i]);
        assert_true(!bytes || text[bytes - 1] == '\n');
        if (bytes)
            assert_true(count_lines(text) < LINES);
        free(text);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(short_writes_lose_nothing),
                                              cmocka_unit_test(a_full_disk_leaves_whole_lines)};

    full_at = SIZE_MAX;
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
