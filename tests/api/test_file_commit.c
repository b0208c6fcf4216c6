/*
 * test_file_commit.c - tests commits, which give a file its name only when all its bytes are on the disk, and the
 * point LEAT_COPY_POINT_DURABLE of tickets.
 */
#include "file_room.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES (3 * MIB + 5)
#define WRITE (LEAT_FILE_WRITE | LEAT_FILE_TEMPORARY)

static unsigned count_names(void)
{
    DIR *directory = opendir(folder);
    unsigned count = 0;

    assert_non_null(directory);
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory))
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(directory);
    return count;
}

static void write_old(const char *path)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fputs("old", file) >= 0, 1);
    assert_int_equal(fclose(file), 0);
}

static void expect_content(const char *path, const void *content, size_t bytes)
{
    unsigned char *data = file_content(path, bytes);

    assert_memory_equal(data, content, bytes);
    free(data);
}

/* Returns device memory that holds a pattern. *content returns host memory with the same pattern. */
static unsigned char *make_content(struct test_state *t, unsigned char **content)
{
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, BYTES);

    *content = test_buffer(BYTES);
    test_pattern(*content, BYTES, 3);
    OK(leat_copy_sync(t->stream, memory, *content, BYTES));
    OK(leat_stream_synchronize(t->stream));
    return memory;
}

/* ---- commits ---- */

static void a_file_gets_its_name_at_the_end(void **state)
{
    struct test_state *t = *state;
    const char *path = path_of("file");
    unsigned char *content, *memory = make_content(t, &content), byte = 7;

    for (int replaces = 0; replaces < 2; replaces++) {
        leat_file *file = open_file(path, replaces ? WRITE | LEAT_FILE_CREATE | LEAT_FILE_TRUNCATE : WRITE);
        struct test_gate *gate = test_gate_close(t->stream);

        if (replaces)
            write_old(path);
        OK(leat_file_write(t->stream, file, 0, memory, BYTES));
        OK(leat_file_commit(t->stream, file));
        EXPECT_HELD(t->stream, gate);
        if (replaces)
            expect_content(path, "old", 3);
        else
            assert_int_equal(access(path, F_OK), -1);
        test_gate_open(gate);
        OK(leat_stream_synchronize(t->stream));
        expect_content(path, content, BYTES);
        REFUSED(leat_file_commit(t->stream, file), LEAT_ERROR_INVALID, "committed before");
        /* After the commit the file can be used like any other. */
        OK(leat_file_write(t->stream, file, 0, &byte, 1));
        OK(leat_file_sync(t->stream, file));
        OK(leat_file_close(file));
        OK(leat_stream_synchronize(t->stream));
        content[0] = byte;
        expect_content(path, content, BYTES);
        assert_int_equal(count_names(), 1);
        assert_int_equal(unlink(path), 0);
        test_pattern(content, BYTES, 3);
    }
    OK(leat_memory_free(memory));
    free(content);
}

static void nothing_stays_without_a_commit(void **state)
{
    struct test_state *t = *state;
    unsigned char *content, *memory = make_content(t, &content);

    for (int i = 0; i < 20; i++) {
        leat_file *file = open_file(path_of("none"), WRITE);

        OK(leat_file_write(t->stream, file, 0, memory, BYTES));
        if (i % 2)
            OK(leat_stream_synchronize(t->stream));
        OK(leat_file_close(file));
    }
    OK(leat_stream_synchronize(t->stream));
    assert_int_equal(count_names(), 0);
    OK(leat_memory_free(memory));
    free(content);
}

/* A path without a folder refers to the working directory at the time of the opening, even if the process changes
 * its directory before the commit. */
static void the_folder_is_that_of_the_opening(void **state)
{
    struct test_state *t = *state;
    char before[400];
    leat_file *file;

    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    file = open_file("plain", WRITE);
    assert_int_equal(chdir("/"), 0);
    OK(leat_file_write(t->stream, file, 0, "words", 5));
    OK(leat_file_commit(t->stream, file));
    OK(leat_file_close(file));
    OK(leat_stream_synchronize(t->stream));
    expect_content(path_of("plain"), "words", 5);
    assert_int_equal(unlink(path_of("plain")), 0);
    assert_int_equal(chdir(before), 0);
}

/* ---- tickets ---- */

static void a_ticket_tells_when_it_is_durable(void **state)
{
    struct test_state *t = *state;
    const char *path = path_of("durable");
    unsigned char *content, *memory = make_content(t, &content);
    leat_file *file = open_file(path, WRITE);
    struct test_gate *gate = test_gate_close(t->stream);
    leat_ticket *written, *synced, *committed;

    OK(leat_file_write_start(t->stream, file, 0, memory, BYTES, NULL, &written));
    OK(leat_file_sync_start(t->stream, file, NULL, &synced));
    OK(leat_file_commit_start(t->stream, file, NULL, &committed));
    OK(leat_file_close(file));
    REFUSED(leat_ticket_wait(written, LEAT_COPY_POINT_DURABLE, 0), LEAT_ERROR_INVALID,
            "leat_file_sync_start() and");
    REFUSED(leat_ticket_wait(written, (leat_copy_point)4, 0), LEAT_ERROR_INVALID, "no point 4");
    for (leat_copy_point point = LEAT_COPY_POINT_STAGED; point <= LEAT_COPY_POINT_DURABLE; point++)
        assert_int_equal(leat_ticket_wait(committed, point, 0), LEAT_NOT_READY);
    test_gate_open(gate);
    OK(leat_ticket_wait(committed, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    assert_int_equal(test_ticket_info(written).done, 1);
    OK(leat_ticket_wait(committed, LEAT_COPY_POINT_DURABLE, LEAT_FOREVER));
    expect_content(path, content, BYTES);
    OK(leat_ticket_wait(synced, LEAT_COPY_POINT_DURABLE, LEAT_FOREVER));
    assert_int_equal(test_ticket_info(committed).durable, 1);
    assert_int_equal(test_ticket_info(committed).bytes, 0);
    assert_int_equal(test_ticket_info(committed).arrived_bytes, 0);
    assert_int_equal(test_ticket_info(written).durable, 0);
    OK(leat_ticket_destroy(written));
    OK(leat_ticket_destroy(synced));
    OK(leat_ticket_destroy(committed));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_memory_free(memory));
    free(content);
    assert_int_equal(count_names(), 1);
    assert_int_equal(unlink(path), 0);
}

static void a_commit_can_be_cancelled(void **state)
{
    struct test_state *t = *state;
    leat_copy_options options = {.size = sizeof options, .deadline_ns = 1};
    leat_file *file = open_file(path_of("cancelled"), WRITE), *late = open_file(path_of("late"), WRITE);
    struct test_gate *gate = test_gate_close(t->stream);
    leat_ticket *cancelled, *too_late;

    OK(leat_file_commit_start(t->stream, file, NULL, &cancelled));
    OK(leat_file_commit_start(t->stream, late, &options, &too_late));
    OK(leat_ticket_cancel(cancelled));
    test_gate_open(gate);
    REFUSED(leat_ticket_wait(cancelled, LEAT_COPY_POINT_DURABLE, LEAT_FOREVER), LEAT_ERROR_CANCELLED, "");
    REFUSED(leat_ticket_wait(too_late, LEAT_COPY_POINT_DURABLE, LEAT_FOREVER), LEAT_ERROR_DEADLINE, "");
    OK(leat_ticket_destroy(cancelled));
    OK(leat_ticket_destroy(too_late));
    OK(leat_file_close(file));
    OK(leat_file_close(late));
    OK(leat_stream_synchronize(t->stream));
    assert_int_equal(count_names(), 0);
}

/* Closing the device must complete pending commits. The ticket can still be queried. */
static void a_device_that_closes_commits(void **state)
{
    leat_device *device = test_open();
    leat_file *file = open_file(path_of("closing"), WRITE);
    leat_stream *stream;
    leat_ticket *ticket;

    (void)state;
    OK(leat_stream_create(device, &stream));
    OK(leat_file_write(stream, file, 0, "words", 5));
    OK(leat_file_commit_start(stream, file, NULL, &ticket));
    OK(leat_stream_destroy(stream));
    OK(leat_device_close(device));
    OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DURABLE, 0));
    OK(leat_ticket_destroy(ticket));
    OK(leat_file_close(file));
    expect_content(path_of("closing"), "words", 5);
    assert_int_equal(unlink(path_of("closing")), 0);
}

/* ---- failures ---- */

/* If a write failed or was cancelled, a commit must not give the file its name. A limit on file sizes makes a
 * write fail as on a full disk. */
static void a_file_with_a_hole_gets_no_name(void **state)
{
    struct test_state *t = *state;
    const char *path = path_of("full");
    unsigned char *content, *memory = make_content(t, &content);
    struct rlimit before, less;

    write_old(path);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    less = before;
    less.rlim_cur = MIB;
    for (int i = 0; i < 4; i++) {
        leat_file *file = open_file(path, WRITE);
        leat_file_op op = {file, 0, memory, BYTES};
        struct test_gate *gate = test_gate_close(t->stream);
        leat_ticket *written = NULL, *committed;

        if (i < 2)
            assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
        if (i % 2)
            OK(leat_file_write_start(t->stream, file, 0, memory, BYTES, NULL, &written));
        else
            OK(leat_file_write_batch_start(t->stream, &op, 1, NULL, &written));
        if (i >= 2)
            OK(leat_ticket_cancel(written));
        OK(leat_file_commit_start(t->stream, file, NULL, &committed));
        test_gate_open(gate);
        REFUSED(leat_ticket_wait(committed, LEAT_COPY_POINT_DURABLE, LEAT_FOREVER), LEAT_ERROR_FILE,
                "not committed");
        REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_FILE, i < 2 ? strerror(EFBIG) : "not committed");
        OK(leat_stream_synchronize(t->stream));
        OK(leat_ticket_destroy(written));
        OK(leat_ticket_destroy(committed));
        OK(leat_file_close(file));
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        expect_content(path, "old", 3);
        assert_int_equal(count_names(), 1);
    }
    assert_int_equal(unlink(path), 0);
    OK(leat_memory_free(memory));
    free(content);
}

static void a_rename_that_fails_is_told(void **state)
{
    struct test_state *t = *state;
    const char *path = path_of("taken");
    leat_file *file = open_file(path, WRITE);

    assert_int_equal(mkdir(path, 0700), 0);
    OK(leat_file_commit(t->stream, file));
    REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_FILE, "rename");
    OK(leat_file_close(file));
    assert_int_equal(count_names(), 1);
    assert_int_equal(rmdir(path), 0);
}

/* A file of this name that another program makes while the commit is on its way. */
static void an_existing_file_is_kept(void **state)
{
    struct test_state *t = *state;
    const char *path = path_of("kept");
    unsigned char *content, *memory = make_content(t, &content);

    for (int exists = 0; exists < 2; exists++) {
        leat_file *file = open_file(path, WRITE | LEAT_FILE_KEEP);
        struct test_gate *gate = test_gate_close(t->stream);

        OK(leat_file_write(t->stream, file, 0, memory, BYTES));
        OK(leat_file_commit(t->stream, file));
        if (exists)
            write_old(path);
        test_gate_open(gate);
        if (exists)
            REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_FILE, strerror(EEXIST));
        else
            OK(leat_stream_synchronize(t->stream));
        OK(leat_file_close(file));
        if (exists)
            expect_content(path, "old", 3);
        else
            expect_content(path, content, BYTES);
        assert_int_equal(count_names(), 1);
        assert_int_equal(unlink(path), 0);
    }
    OK(leat_memory_free(memory));
    free(content);
}

static void wrong_commits_are_refused(void **state)
{
    struct test_state *t = *state;
    leat_file *file = NULL, *gone;
    leat_ticket *ticket;

    write_old(path_of("plain"));
    REFUSED(leat_file_open(path_of("x"), LEAT_FILE_READ | LEAT_FILE_TEMPORARY, &file), LEAT_ERROR_INVALID,
            "LEAT_FILE_TEMPORARY");
    REFUSED(leat_file_open(path_of("x"), LEAT_FILE_WRITE | LEAT_FILE_KEEP, &file), LEAT_ERROR_INVALID,
            "LEAT_FILE_TEMPORARY");
    REFUSED(leat_file_open(folder, WRITE, &file), LEAT_ERROR_FILE, "not a regular file");
    REFUSED(leat_file_open("/", WRITE, &file), LEAT_ERROR_FILE, "not a regular file");
    REFUSED(leat_file_open("", WRITE, &file), LEAT_ERROR_FILE, "not a regular file");
    REFUSED(leat_file_open(path_of("no/folder"), WRITE, &file), LEAT_ERROR_FILE, strerror(ENOENT));
    assert_null(file);
    file = open_file(path_of("plain"), LEAT_FILE_WRITE);
    REFUSED(leat_file_commit(t->stream, file), LEAT_ERROR_INVALID, "without LEAT_FILE_TEMPORARY");
    REFUSED(leat_file_commit_start(t->stream, file, NULL, NULL), LEAT_ERROR_INVALID, "ticket");
    REFUSED(leat_file_sync_start(t->stream, file, NULL, NULL), LEAT_ERROR_INVALID, "ticket");
    REFUSED(leat_file_sync(NULL, file), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_file_commit(NULL, file), LEAT_ERROR_HANDLE, "stream");
    gone = file;
    OK(leat_file_close(file));
    REFUSED(leat_file_sync(t->stream, gone), LEAT_ERROR_HANDLE, "not live");
    REFUSED(leat_file_commit(t->stream, gone), LEAT_ERROR_HANDLE, "not live");
    file = open_file(path_of("plain"), LEAT_FILE_READ);
    REFUSED(leat_file_sync(t->stream, file), LEAT_ERROR_FILE, "without LEAT_FILE_WRITE");
    REFUSED(leat_file_commit_start(t->stream, file, NULL, &ticket), LEAT_ERROR_FILE, "without LEAT_FILE_WRITE");
    OK(leat_file_close(file));
    assert_int_equal(unlink(path_of("plain")), 0);
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(a_file_gets_its_name_at_the_end),
    STATE_TEST(nothing_stays_without_a_commit),
    STATE_TEST(an_existing_file_is_kept),
    STATE_TEST(the_folder_is_that_of_the_opening),
    STATE_TEST(a_ticket_tells_when_it_is_durable),
    STATE_TEST(a_commit_can_be_cancelled),
    cmocka_unit_test(a_device_that_closes_commits),
    STATE_TEST(a_file_with_a_hole_gets_no_name),
    STATE_TEST(a_rename_that_fails_is_told),
    STATE_TEST(wrong_commits_are_refused),
};

FILE_TEST_MAIN(tests)
