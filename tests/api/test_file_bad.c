/*
 * test_file_bad.c - tests copies between files and memory on bad disks, on old systems, and with odd files: holes,
 * large offsets, files that change, and paths of other things than regular files.
 */
#include "bad_disk.h"
#include "file_room.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define NEW (LEAT_FILE_WRITE | LEAT_FILE_TEMPORARY)

static void set_rule(enum bad_disk_call call, uint64_t first, uint64_t every, int error, uint64_t most_bytes)
{
    struct bad_disk_rule rule = {
        .call = call, .first = first, .every = every, .error = error, .most_bytes = most_bytes};

    bad_disk_set(&rule, 1);
}

static int end_rules(void **state)
{
    (void)bad_disk_end();
    bad_disk_set_hook(NULL);
    return test_teardown(state);
}

/* Opens a file for direct access (past the system's cache). Skips the test if the file system refuses that. */
static leat_file *open_direct(const char *path, unsigned flags)
{
    leat_file *file = NULL;

    if (leat_file_open(path, flags | LEAT_FILE_DIRECT, &file) != LEAT_OK)
        SKIP_OTHER("the file system of the tests' folder has no direct access");
    return file;
}

/* Reads a range into each kind of memory and compares the bytes. Those around the destination must not change. */
static void expect_range(struct test_state *t, leat_file *file, uint64_t offset, const void *content, size_t bytes)
{
    unsigned char *out = test_buffer(bytes + 2);

    for (size_t k = 0; k < KINDS; k++) {
        unsigned char *memory = make_memory(t, kinds[k], bytes + 2);

        memset(out, 0xee, bytes + 2);
        OK(leat_copy(t->stream, memory, out, bytes + 2));
        OK(leat_file_read(t->stream, memory + 1, file, offset, bytes));
        OK(leat_copy_sync(t->stream, out, memory, bytes + 2));
        OK(leat_stream_synchronize(t->stream));
        assert_memory_equal(out + 1, content, bytes);
        assert_int_equal(out[0], 0xee);
        assert_int_equal(out[bytes + 1], 0xee);
        end_memory(kinds[k], memory);
    }
    free(out);
}

static unsigned count_names(void)
{
    DIR *directory = opendir(folder);
    unsigned count = 0;

    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count - 2; /* without "." and ".." */
}

/* ---- a bad disk ---- */

/* A direct read begins at a block border, which may lie before the range. A short read may therefore return no
 * byte of the range, and leat must continue. */
static void short_direct_reads_go_on(void **state)
{
    static const size_t offsets[] = {0, 1, 600, 4095, 4096 + 3000};
    struct test_state *t = *state;
    const size_t bytes = MIB + 77;
    const char *path = make_file("short", bytes, 1);
    unsigned char *content = file_content(path, bytes);
    leat_file *file = open_direct(path, LEAT_FILE_READ);

    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        set_rule(BAD_DISK_READ_DIRECT, 1, 1, 0, 512);
        expect_range(t, file, offsets[i], content + offsets[i], bytes - offsets[i]);
        assert_true(bad_disk_end() > 0);
    }
    OK(leat_file_close(file));
    free(content);
}

static int writes_nothing(enum bad_disk_call call, uint64_t offset)
{
    (void)offset;
    return call == BAD_DISK_WRITE ? -1 : 0;
}

/* The system never returns 0 for a write of at least one byte. If it does, leat must not repeat the write for
 * ever, and must not report the end of the file. */
static void a_write_that_moves_nothing_is_told(void **state)
{
    struct test_state *t = *state;
    leat_file *file = open_file(make_file("nothing", 10, 1), LEAT_FILE_WRITE);

    bad_disk_set_hook(writes_nothing);
    OK(leat_file_write(t->stream, file, 0, "words", 5));
    REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_FILE, strerror(ENOSPC));
    OK(leat_file_close(file));
}

/* Parts of a copy may fail in any order. The message must have the failed part with the lowest offset, and its
 * error. Here the part at MIB fails with EIO and a later one with ENOSPC, in both orders. Each of the two waits
 * until the other one has begun. */
static atomic_int first_entered, last_entered;
static bool last_fails_first;

static int two_errors(enum bad_disk_call call, uint64_t offset)
{
    if (call != BAD_DISK_READ || offset < MIB)
        return 0;
    atomic_store(offset == MIB ? &first_entered : &last_entered, 1);
    (void)test_wait_for(offset == MIB ? &last_entered : &first_entered, 1);
    if (last_fails_first == (offset == MIB))
        test_sleep_us(20000);
    return offset == MIB ? EIO : ENOSPC;
}

static void the_first_place_that_failed_is_told(void **state)
{
    struct test_state *t = *state;
    const char *path = make_file("places", 2 * MIB, 1);
    leat_file *file = open_file(path, LEAT_FILE_READ | LEAT_FILE_CACHED);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_PINNED, 2 * MIB);
    leat_ticket *ticket;
    char wanted[400];

    for (int i = 0; i < 4; i++) {
        leat_file_op op = {file, 0, memory, 2 * MIB};
        bool batch = i % 2;

        last_fails_first = i < 2;
        atomic_store(&first_entered, 0);
        atomic_store(&last_entered, 0);
        bad_disk_set_hook(two_errors);
        if (batch)
            OK(leat_file_read_batch_start(t->stream, &op, 1, NULL, &ticket));
        else
            OK(leat_file_read_start(t->stream, memory, file, 0, 2 * MIB, NULL, &ticket));
        snprintf(wanted, sizeof wanted, "offset %zu of %s: %s", MIB, path, strerror(EIO));
        REFUSED(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER), LEAT_ERROR_FILE, wanted);
        REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_FILE, wanted);
        OK(leat_stream_synchronize(t->stream));
        OK(leat_ticket_destroy(ticket));
        bad_disk_set_hook(NULL);
    }
    OK(leat_file_close(file));
    OK(leat_memory_free(memory));
}

/* Two reads in a row. The end of the first one is read when the second one has begun, or after a second. */
enum { ROW_BYTES = 3 << 20, ROW_END_BYTES = 256 << 10 };

static atomic_int second_begun, second_missed;

static int hold_the_first(enum bad_disk_call call, uint64_t offset)
{
    if (call == BAD_DISK_READ && offset >= ROW_BYTES)
        atomic_store(&second_begun, 1);
    if (call != BAD_DISK_READ || offset >= ROW_BYTES || offset < ROW_BYTES - ROW_END_BYTES)
        return 0;
    for (int i = 0; i < 10000 && !atomic_load(&second_begun); i++)
        test_sleep_us(100);
    if (!atomic_load(&second_begun))
        atomic_store(&second_missed, 1);
    return 0;
}

/* Lets t->stream wait for an event, and waits until it has. If the host asked t->stream instead of t->second, leat would
 * know it. */
static void wait_for_event_of_other(struct test_state *t)
{
    leat_event *events[2];

    for (int i = 0; i < 2; i++) {
        OK(leat_event_create(t->device, &events[i]));
        OK(leat_event_record(i ? t->stream : t->second, events[i]));
        OK(leat_stream_wait(i ? t->second : t->stream, events[i]));
    }
    OK(leat_stream_synchronize(t->second));
    for (int i = 0; i < 2; i++)
        OK(leat_event_destroy(events[i]));
}

/* Staged reads in a row on a stream that is idle, but has waited for another one: leat's threads read the second one
 * before the stream has reached it. The stream may become idle a moment later than the test sees, so the test tries
 * it several times. */
static void reads_behind_a_wait_that_is_over_overlap(void **state)
{
    struct test_state *t = *state;
    const char *path = make_file("row", 2 * ROW_BYTES, 1);
    unsigned char *content = file_content(path, 2 * ROW_BYTES);
    leat_file *file = open_file(path, LEAT_FILE_READ | LEAT_FILE_CACHED);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 2 * ROW_BYTES);
    leat_ticket_info info = LEAT_TICKET_INFO_INIT;
    leat_ticket *ticket;
    int tries = 0;

    OK(leat_file_read_start(t->stream, memory, file, 0, ROW_BYTES, NULL, &ticket));
    OK(leat_ticket_get_info(ticket, &info));
    OK(leat_ticket_destroy(ticket));
    if (!strcmp(info.protocol, "staged"))
        bad_disk_set_hook(hold_the_first);
    do {
        wait_for_event_of_other(t);
        atomic_store(&second_begun, 0);
        atomic_store(&second_missed, 0);
        OK(leat_file_read(t->stream, memory, file, 0, ROW_BYTES));
        OK(leat_file_read(t->stream, memory + ROW_BYTES, file, ROW_BYTES, ROW_BYTES));
        OK(leat_stream_synchronize(t->stream));
    } while (atomic_load(&second_missed) && ++tries < 10);
    assert_false(atomic_load(&second_missed));
    bad_disk_set_hook(NULL);
    expect_range(t, file, 0, content, 2 * ROW_BYTES);
    OK(leat_file_close(file));
    OK(leat_memory_free(memory));
    free(content);
}

/* One system call of a write or of its commit fails because the disk is full. The file must not get its name, and
 * no temporary file may stay. */
static void a_full_disk_leaves_nothing(void **state)
{
    static const struct {
        enum bad_disk_call call;
        const char *words;
    } calls[] = {{BAD_DISK_WRITE, "not committed"},
                 {BAD_DISK_SYNC, "fsync: "},
                 {BAD_DISK_LINK, "linkat to a temporary name"},
                 {BAD_DISK_RENAME, "rename: "}};
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 2 * MIB);
    unsigned before = count_names();

    OK(leat_fill(t->stream, memory, 7, 2 * MIB));
    for (size_t i = 0; i < 2 * sizeof calls / sizeof calls[0]; i++) {
        /* In the second half files without a name are refused, so the file has a temporary name from the start. */
        bool named = i >= sizeof calls / sizeof calls[0];
        enum bad_disk_call call = calls[i % (sizeof calls / sizeof calls[0])].call;
        struct bad_disk_rule rules[] = {{.call = call, .first = call == BAD_DISK_WRITE ? 3 : 1, .error = ENOSPC},
                                        {.call = BAD_DISK_OPEN_TMPFILE, .first = 1, .error = EOPNOTSUPP}};
        leat_ticket *ticket;
        leat_file *file;

        if (named && call == BAD_DISK_LINK)
            continue;
        bad_disk_set(rules, named ? 2 : 1);
        file = open_file(path_of("whole"), NEW);
        assert_int_equal(count_names() - before, named);
        OK(leat_file_write(t->stream, file, 0, memory, 2 * MIB));
        OK(leat_file_commit_start(t->stream, file, NULL, &ticket));
        REFUSED(leat_ticket_wait(ticket, LEAT_COPY_POINT_DURABLE, LEAT_FOREVER), LEAT_ERROR_FILE,
                calls[i % (sizeof calls / sizeof calls[0])].words);
        REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_FILE, strerror(ENOSPC));
        OK(leat_stream_synchronize(t->stream));
        REFUSED(leat_file_commit(t->stream, file), LEAT_ERROR_INVALID, "committed before");
        assert_int_equal(count_names(), before);
        OK(leat_file_close(file));
        OK(leat_ticket_destroy(ticket));
        assert_true(bad_disk_end() > 0);
    }
    OK(leat_memory_free(memory));
}

/* The fsync() of the directory fails after the rename. The file then has its name, and the message must say so. */
static void a_directory_that_is_not_synced_is_told(void **state)
{
    struct test_state *t = *state;
    leat_file *file = open_file(path_of("named"), NEW);

    set_rule(BAD_DISK_SYNC, 2, 0, EIO, 0);
    OK(leat_file_write(t->stream, file, 0, "words", 5));
    OK(leat_file_commit(t->stream, file));
    REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_FILE,
            "the file has its name, but fsync of its directory");
    OK(leat_file_close(file));
    assert_int_equal(access(path_of("named"), F_OK), 0);
    assert_int_equal(unlink(path_of("named")), 0);
}

/* The same, and the commit is cancelled while that fsync() runs. The ticket must not say that the commit was
 * cancelled, because the file has its name. */
static void a_commit_fails_while_it_is_cancelled(void **state)
{
    struct test_state *t = *state;
    struct bad_disk_rule rule = {.call = BAD_DISK_SYNC, .first = 2, .error = EIO, .delay_us = 200000};
    const char *path = path_of("cancelled-late");
    leat_ticket *ticket;
    leat_file *file = open_file(path, NEW);

    OK(leat_file_write(t->stream, file, 0, "new", 3));
    bad_disk_set(&rule, 1);
    OK(leat_file_commit_start(t->stream, file, NULL, &ticket));
    while (access(path, F_OK))
        test_sleep_us(100);
    OK(leat_ticket_cancel(ticket));
    REFUSED(leat_ticket_wait(ticket, LEAT_COPY_POINT_DURABLE, LEAT_FOREVER), LEAT_ERROR_FILE,
            "the file has its name, but fsync of its directory");
    REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_FILE, "fsync of its directory");
    OK(leat_ticket_destroy(ticket));
    OK(leat_file_close(file));
    assert_int_equal(unlink(path), 0);
}

/* A path may have 4096 bytes. The message must still contain the reason. */
static void long_paths_leave_room_for_the_reason(void **state)
{
    struct test_state *t = *state;
    char path[TEMPORARY_PATH + 1000], name[201];
    unsigned char memory[100];
    leat_file *file;

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/%s/%s", folder, name, name);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/%s/%s/%.190s-file", folder, name, name, name);
    file = open_file(path, LEAT_FILE_READ | LEAT_FILE_WRITE | LEAT_FILE_CREATE);
    set_rule(BAD_DISK_WRITE, 1, 1, ENOSPC, 0);
    for (int batch = 0; batch < 2; batch++) {
        leat_file_op op = {file, 123456789, memory, sizeof memory};

        if (batch)
            OK(leat_file_write_batch(t->stream, &op, 1));
        else
            OK(leat_file_write(t->stream, file, 123456789, memory, sizeof memory));
        REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_FILE, strerror(ENOSPC));
        assert_non_null(strstr(leat_last_error(), "-file"));
        assert_non_null(strstr(leat_last_error(), "123456789"));
    }
    (void)bad_disk_end();
    set_rule(BAD_DISK_SYNC, 1, 1, EIO, 0);
    OK(leat_file_sync(t->stream, file));
    REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_FILE, strerror(EIO));
    OK(leat_file_close(file));
}

/* ---- an old system ---- */

/* If the system lacks direct access or the calls that tell what is in its cache, leat reads files through the
 * cache. */
static void old_systems_read_plainly(void **state)
{
    static const int errors[] = {ENOSYS, EPERM, EOPNOTSUPP};
    struct test_state *t = *state;
    const size_t bytes = MIB + 5;
    const char *path = make_file("old", bytes, 2);
    unsigned char *content = file_content(path, bytes);

    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        for (unsigned kinds_of_calls = 1; kinds_of_calls < 16; kinds_of_calls++) {
            static const enum bad_disk_call calls[] = {BAD_DISK_CACHESTAT, BAD_DISK_NOWAIT, BAD_DISK_STATX,
                                                       BAD_DISK_OPEN_DIRECT};
            struct bad_disk_rule rules[4];
            unsigned count = 0;
            leat_file *file;

            for (unsigned c = 0; c < 4; c++)
                if (kinds_of_calls >> c & 1)
                    rules[count++] =
                        (struct bad_disk_rule){.call = calls[c], .first = 1, .every = 1, .error = errors[i]};
            bad_disk_set(rules, count);
            file = open_file(path, LEAT_FILE_READ);
            expect_range(t, file, 3, content + 3, bytes - 3);
            if (kinds_of_calls & 8)
                assert_int_equal(bad_disk_count(BAD_DISK_READ_DIRECT), 0);
            OK(leat_file_close(file));
        }
    free(content);
}

/* A file system may open a file for direct access and still refuse direct reads. */
static void refused_direct_reads_go_through_the_cache(void **state)
{
    static const int errors[] = {EINVAL, EOPNOTSUPP};
    struct test_state *t = *state;
    const size_t bytes = MIB + 5;
    const char *path = make_file("refused", bytes, 2);
    unsigned char *content = file_content(path, bytes), memory[100];
    struct bad_disk_rule rules[] = {{.call = BAD_DISK_READ_DIRECT, .first = 3, .every = 1},
                                    {.call = BAD_DISK_CACHESTAT, .first = 1, .every = 1, .error = ENOSYS},
                                    {.call = BAD_DISK_NOWAIT, .first = 1, .every = 1, .error = EAGAIN}};
    leat_file *file;
    char text[2000];

    OK(leat_file_close(open_direct(path, LEAT_FILE_READ)));
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        rules[0].error = errors[i];
        bad_disk_set(rules, 3); /* rules 1 and 2: nothing is in the cache */
        file = open_file(path, LEAT_FILE_READ);
        expect_range(t, file, 3, content + 3, bytes - 3);
        if (!bad_disk_count(BAD_DISK_READ_DIRECT))
            SKIP_OTHER("the file system of the tests' folder is not read past the cache");
        OK(leat_file_explain(t->stream, memory, file, 0, sizeof memory, text, sizeof text));
        assert_non_null(strstr(text, "has refused a direct read"));
        OK(leat_file_close(file));
    }
    /* If the program asked for direct access, a refused direct read is a failure. */
    file = open_direct(path, LEAT_FILE_READ);
    bad_disk_set(rules, 1);
    OK(leat_file_read(t->stream, memory, file, 0, sizeof memory));
    OK(leat_file_read(t->stream, memory, file, 0, sizeof memory));
    OK(leat_file_read(t->stream, memory, file, 0, sizeof memory));
    REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_FILE, strerror(errors[1]));
    OK(leat_file_close(file));
    free(content);
}

/* ---- descriptors ---- */

/* Limits the process to count new descriptors. All descriptors below lowest are in use. */
static void leave_descriptors(int lowest, int count)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)(lowest + count);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Without a free descriptor, opening a file fails. With one, leat reads the file through the cache. A new file
 * needs two. */
static void descriptors_run_out(void **state)
{
    struct test_state *t = *state;
    const char *path = make_file("limit", MIB, 3), *fresh = path_of("fresh");
    unsigned char *content = file_content(path, MIB), byte;
    leat_file *file = open_file(path, LEAT_FILE_READ), *none = NULL;
    struct rlimit before;
    bool is_direct;
    int lowest;
    char text[2000];

    OK(leat_file_explain(t->stream, &byte, file, 0, 1, text, sizeof text));
    is_direct = strstr(text, "are read past it");
    OK(leat_file_close(file));
    lowest = dup(STDIN_FILENO);
    assert_true(lowest >= 0);
    assert_int_equal(close(lowest), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    leave_descriptors(lowest, 0);
    REFUSED(leat_file_open(path, LEAT_FILE_READ, &none), LEAT_ERROR_FILE, strerror(EMFILE));
    REFUSED(leat_file_open(fresh, NEW, &none), LEAT_ERROR_FILE, strerror(EMFILE));
    leave_descriptors(lowest, 1);
    REFUSED(leat_file_open(fresh, NEW, &none), LEAT_ERROR_FILE, strerror(EMFILE));
    if (is_direct)
        REFUSED(leat_file_open(path, LEAT_FILE_READ | LEAT_FILE_DIRECT, &none), LEAT_ERROR_FILE, strerror(EMFILE));
    file = open_file(path, LEAT_FILE_READ);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_null(none);
    OK(leat_file_explain(t->stream, &byte, file, 0, 1, text, sizeof text));
    assert_true(!is_direct || strstr(text, strerror(EMFILE)));
    expect_range(t, file, 1, content + 1, MIB - 1);
    OK(leat_file_close(file));
    assert_int_equal(access(fresh, F_OK), -1);
    free(content);
}

/* ---- odd files ---- */

/* A file of 5 GiB with two written ranges and holes. Single copies and batches use offsets above 2^32. */
static void offsets_beyond_4_gib(void **state)
{
    struct test_state *t = *state;
    const uint64_t border = UINT64_C(1) << 32, end = UINT64_C(5) << 30;
    const size_t bytes = 300 * KIB;
    const char *path = path_of("sparse");
    unsigned char *in = test_buffer(bytes), *zeros = calloc(1, bytes), *out = test_buffer(2 * bytes);
    leat_file *file = open_file(path, LEAT_FILE_READ | LEAT_FILE_WRITE | LEAT_FILE_CREATE);
    leat_file_op ops[2];
    struct stat what;
    uint64_t size;

    if (truncate(path, (off_t)end))
        SKIP_OTHER("the file system of the tests' folder has no files of 5 GiB");
    test_pattern(in, bytes, 5);
    OK(leat_file_write(t->stream, file, border - 1000, in, bytes));
    OK(leat_file_write(t->stream, file, end - bytes, in, bytes));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_file_size(file, &size));
    assert_true(size == end);
    expect_range(t, file, border - 1000, in, bytes);
    expect_range(t, file, end - bytes, in, bytes);
    expect_range(t, file, border + bytes, zeros, bytes);
    expect_range(t, file, 0, zeros, bytes);
    ops[0] = (leat_file_op){file, end - bytes, out, bytes};
    ops[1] = (leat_file_op){file, border - 1000, out + bytes, bytes};
    OK(leat_file_read_batch(t->stream, ops, 2));
    OK(leat_stream_synchronize(t->stream));
    assert_memory_equal(out, in, bytes);
    assert_memory_equal(out + bytes, in, bytes);
    OK(leat_file_write_batch(t->stream, ops, 2));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_file_close(file));
    file = open_file(path, LEAT_FILE_READ);
    REFUSED(leat_file_read(t->stream, out, file, end, 1), LEAT_ERROR_RANGE, "5368709120");
    OK(leat_file_close(file));
    assert_int_equal(stat(path, &what), 0);
    assert_true((uint64_t)what.st_blocks * 512 < 100 * MIB); /* leat has not filled the holes */
    assert_int_equal(unlink(path), 0);
    free(in);
    free(zeros);
    free(out);
}

/* The message has the path, the op, the number of bytes that were wanted, and the offset at which the file now
 * ends. */
static void files_that_are_cut_are_told(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 4 * MIB);

    for (size_t k = 0; k < KINDS; k++)
        for (int batch = 0; batch < 2; batch++) {
            const char *path = make_file("cut", 2 * MIB, 3);
            leat_file *file = open_file(path, LEAT_FILE_READ);
            unsigned char *to = make_memory(t, kinds[k], 2 * MIB);
            leat_file_op ops[] = {{file, MIB, to + MIB, MIB}, {file, 0, to, MIB - 10}};
            leat_file *writer = open_file(path, LEAT_FILE_WRITE);
            struct test_gate *gate = test_gate_close(t->stream);
            char wanted[100];

            /* Submit a write first: then leat does not read the file ahead. */
            OK(leat_file_write(t->stream, writer, 0, "words", 5));
            if (batch)
                OK(leat_file_read_batch(t->stream, ops, 2));
            else
                OK(leat_file_read(t->stream, to, file, 0, 2 * MIB));
            assert_int_equal(truncate(path, MIB + 1000), 0);
            test_gate_open(gate);
            snprintf(wanted, sizeof wanted, "reading %zu bytes", batch ? 2 * MIB - 10 : 2 * MIB);
            REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_FILE, wanted);
            assert_non_null(strstr(leat_last_error(), path));
            assert_non_null(strstr(leat_last_error(), "now ends at 1049576"));
            assert_true(!batch || strstr(leat_last_error(), "op 0: "));
            OK(leat_stream_synchronize(t->stream));
            OK(leat_file_close(file));
            OK(leat_file_close(writer));
            end_memory(kinds[k], to);
        }
    OK(leat_memory_free(memory));
}

/* Another file replaces the path while the file is open. Copies must still use the file that was opened. */
static void a_file_that_is_replaced_stays_open(void **state)
{
    struct test_state *t = *state;
    const char *path = make_file("replaced", MIB, 6), *other = make_file("other", 1000, 7);
    unsigned char *content = file_content(path, MIB);
    leat_file *file = open_file(path, LEAT_FILE_READ | LEAT_FILE_WRITE);

    assert_int_equal(rename(other, path), 0);
    expect_range(t, file, 0, content, MIB);
    OK(leat_file_write(t->stream, file, 0, "words", 5));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_file_close(file));
    free(content);
    content = file_content(path, 1000);
    EXPECT_PATTERN(content, 1000, 7);
    free(content);
}

static void a_file_that_grows_is_read_to_its_end(void **state)
{
    struct test_state *t = *state;
    const char *path = make_file("grows", 1000, 8);
    leat_file *file = open_file(path, LEAT_FILE_READ);
    unsigned char *content, memory[10];
    uint64_t size;

    REFUSED(leat_file_read(t->stream, memory, file, 1000, 10), LEAT_ERROR_RANGE, "beyond the end of");
    (void)make_file("grows", MIB, 8);
    OK(leat_file_size(file, &size));
    assert_int_equal(size, MIB);
    content = file_content(path, MIB);
    expect_range(t, file, 500, content + 500, MIB - 500);
    OK(leat_file_close(file));
    free(content);
}

/* Each path must be refused with the same message, whatever error open() returns. Opening a FIFO or a socket must
 * not wait for its other end. */
static void only_regular_files_are_opened(void **state)
{
    static const unsigned flags[] = {LEAT_FILE_READ,
                                     LEAT_FILE_WRITE,
                                     LEAT_FILE_READ | LEAT_FILE_WRITE,
                                     LEAT_FILE_WRITE | LEAT_FILE_CREATE | LEAT_FILE_TRUNCATE,
                                     NEW,
                                     LEAT_FILE_READ | LEAT_FILE_DIRECT};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *paths[] = {path_of("fifo"), path_of("socket"), "/dev/zero", "/dev/null", "/dev/full"};
    int end = socket(AF_UNIX, SOCK_STREAM, 0);
    leat_file *file = NULL;

    (void)state;
    assert_int_equal(mkfifo(paths[0], 0600), 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", paths[1]);
    assert_true(end >= 0);
    assert_int_equal(bind(end, (struct sockaddr *)&address, sizeof address), 0);
    for (size_t p = 0; p < sizeof paths / sizeof paths[0]; p++)
        for (size_t f = 0; f < sizeof flags / sizeof flags[0]; f++) {
            REFUSED(leat_file_open(paths[p], flags[f], &file), LEAT_ERROR_FILE, "not a regular file");
            assert_non_null(strstr(leat_last_error(), paths[p]));
        }
    assert_null(file);
    assert_int_equal(close(end), 0);
    assert_int_equal(unlink(paths[0]), 0);
    assert_int_equal(unlink(paths[1]), 0);
}

/* If one op of a batch is wrong, leat must copy none. */
static void a_batch_with_a_wrong_op_does_nothing(void **state)
{
    struct test_state *t = *state;
    const size_t bytes = 100 * KIB;
    const char *path = make_file("wrong", MIB, 9);
    leat_file *file = open_file(path, LEAT_FILE_READ);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_PINNED, bytes);
    leat_file_op small[] = {{file, 0, memory, 1000}, {file, 0, memory + 1000, bytes - 999}};
    leat_file_op far[] = {{file, 0, memory, 1000}, {file, MIB - 10, memory + 1000, 11}};
    leat_file_op same[] = {{file, 0, memory, 1000}, {file, 5000, memory + 999, 10}};

    memset(memory, 0xee, bytes);
    REFUSED(leat_file_read_batch(t->stream, small, 2), LEAT_ERROR_RANGE, "op 1");
    REFUSED(leat_file_read_batch(t->stream, far, 2), LEAT_ERROR_RANGE, "op 1");
    REFUSED(leat_file_read_batch(t->stream, same, 2), LEAT_ERROR_OVERLAP, "op 0 and op 1");
    REFUSED(leat_file_read(t->stream, memory + 1000, file, 0, bytes - 999), LEAT_ERROR_RANGE, "dst");
    OK(leat_stream_synchronize(t->stream));
    EXPECT_BYTES(memory, bytes, 0xee);
    OK(leat_file_close(file));
    OK(leat_memory_free(memory));
}

/* ---- a disk that is full ---- */

enum { SMALL_DISK = 4 << 20 };

/* Runs in a child process: mounts a small file system in memory on path, which no other process sees, and fills
 * it. Returns 0 if leat behaved as expected, 77 if this process may not mount. */
static int fill_small_disk(const char *path)
{
    char small[TEMPORARY_PATH + 20];
    leat_device *device;
    leat_stream *stream;
    leat_file *file;
    void *memory;

    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("leat", path, "tmpfs", 0, "size=4m"))
        return 77;
    snprintf(small, sizeof small, "%s/new", path);
    device = test_open();
    if (leat_stream_create(device, &stream) != LEAT_OK ||
        leat_memory_alloc(device, LEAT_KIND_DEVICE, 2 * SMALL_DISK, &memory) != LEAT_OK ||
        leat_file_open(small, NEW, &file) != LEAT_OK ||
        leat_file_write(stream, file, 0, memory, 2 * SMALL_DISK) != LEAT_OK ||
        leat_file_commit(stream, file) != LEAT_OK)
        return 2;
    if (leat_stream_synchronize(stream) != LEAT_ERROR_FILE || !strstr(leat_last_error(), strerror(ENOSPC)))
        return 3;
    if (leat_file_close(file) != LEAT_OK || leat_device_close(device) != LEAT_OK || !access(small, F_OK))
        return 4;
    /* The failed commit has deleted the unnamed file, so its space is free again. */
    device = test_open();
    if (leat_stream_create(device, &stream) != LEAT_OK || leat_file_open(small, NEW, &file) != LEAT_OK ||
        leat_memory_alloc(device, LEAT_KIND_DEVICE, SMALL_DISK / 2, &memory) != LEAT_OK ||
        leat_file_write(stream, file, 0, memory, SMALL_DISK / 2) != LEAT_OK ||
        leat_file_commit(stream, file) != LEAT_OK || leat_stream_synchronize(stream) != LEAT_OK)
        return 5;
    return leat_file_close(file) == LEAT_OK && leat_device_close(device) == LEAT_OK && !access(small, F_OK) ? 0
                                                                                                            : 6;
}

static void a_real_full_disk(void **state)
{
    const char *path = path_of("disk");
    int status;
    pid_t child;

    (void)state;
    assert_int_equal(mkdir(path, 0700), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "test_file_bad", "--small-disk", path, (char *)NULL);
        _exit(126);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(rmdir(path), 0);
    if (WEXITSTATUS(status) == 77)
        SKIP_OTHER("this process may not mount a small file system");
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int fails_at_one_mib(enum bad_disk_call call, uint64_t offset)
{
    return (call == BAD_DISK_READ || call == BAD_DISK_READ_DIRECT) && offset >= MIB ? EIO : 0;
}

/* A stream to which a ticket reports returns the failure of the copy once, also if it is asked to after the
 * failure, and after the copy's own stream is destroyed. Other streams, and copies that work, report nothing. */
static void failures_are_reported_to_other_streams(void **state)
{
    struct test_state *t = *state;
    unsigned char *out = test_buffer(4 * MIB);
    leat_file *file = open_file(make_file("reported", 4 * MIB, 9), LEAT_FILE_READ);
    leat_file_op op = {file, 0, out, 4 * MIB};
    leat_stream *own, *third;
    leat_ticket *ticket;
    char message[1000];

    OK(leat_stream_create(t->device, &third));
    for (int late = 0; late < 2; late++) {
        struct test_gate *gate;

        OK(leat_stream_create(t->device, &own));
        gate = test_gate_close(own);
        bad_disk_set_hook(fails_at_one_mib);
        OK(leat_file_read_batch_start(own, &op, 1, NULL, &ticket));
        if (!late) {
            OK(leat_ticket_report(ticket, t->stream));
            OK(leat_ticket_report(ticket, third));
            OK(leat_ticket_report(ticket, third)); /* one report is enough */
        }
        OK(leat_stream_synchronize(t->stream)); /* the read has not begun */
        test_gate_open(gate);
        REFUSED(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER), LEAT_ERROR_FILE, "reported");
        if (late) {
            OK(leat_ticket_report(ticket, t->stream));
            OK(leat_ticket_report(ticket, third));
        }
        OK(leat_ticket_destroy(ticket));
        REFUSED(leat_stream_synchronize(own), LEAT_ERROR_FILE, "reported");
        snprintf(message, sizeof message, "%s", leat_last_error());
        OK(leat_stream_destroy(own));
        assert_int_equal(leat_stream_synchronize(t->stream), LEAT_ERROR_FILE);
        assert_string_equal(leat_last_error(), message);
        assert_int_equal(leat_stream_synchronize(third), LEAT_ERROR_FILE);
        assert_string_equal(leat_last_error(), message);
        OK(leat_stream_synchronize(t->stream));
        OK(leat_stream_synchronize(third));
        OK(leat_stream_synchronize(t->second));
        bad_disk_set_hook(NULL);
        OK(leat_file_read_batch_start(t->second, &op, 1, NULL, &ticket));
        OK(leat_ticket_report(ticket, third));
        OK(leat_ticket_report(ticket, t->second));
        OK(leat_stream_synchronize(t->second));
        OK(leat_stream_synchronize(third));
        OK(leat_ticket_destroy(ticket));
    }
    ticket = test_copy_start(t->stream, out, out + MIB, 100);
    OK(leat_ticket_report(ticket, third));
    REFUSED(leat_ticket_report(NULL, third), LEAT_ERROR_HANDLE, "leat_ticket_report");
    OK(leat_stream_destroy(third));
    REFUSED(leat_ticket_report(ticket, third), LEAT_ERROR_HANDLE, "leat_ticket_report");
    OK(leat_ticket_destroy(ticket));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_file_close(file));
    free(out);
}

/* leat asks for the size of a file once in a call, and not for each op. A file that was cut before the call is
 * told, whichever op it concerns. */
static void a_batch_asks_once_for_the_size(void **state)
{
    enum { OPS = 300, OP_BYTES = 64 };
    struct test_state *t = *state;
    const char *path = make_file("batch", (size_t)OPS * OP_BYTES, 1);
    unsigned char *content = file_content(path, (size_t)OPS * OP_BYTES);
    unsigned char *memory = test_buffer(2 * (size_t)OPS * OP_BYTES);
    leat_file *file = open_file(path, LEAT_FILE_READ);
    leat_file_op ops[OPS];

    /* The places in memory have gaps, so that no two ops are merged. */
    for (size_t i = 0; i < OPS; i++)
        ops[i] = (leat_file_op){file, (OPS - 1 - i) * OP_BYTES, memory + 2 * i * OP_BYTES, OP_BYTES};
    bad_disk_set(NULL, 0);
    OK(leat_file_read_batch(t->stream, ops, OPS));
    assert_int_equal(bad_disk_count(BAD_DISK_STAT), 1);
    OK(leat_stream_synchronize(t->stream));
    for (size_t i = 0; i < OPS; i++)
        assert_memory_equal(memory + 2 * i * OP_BYTES, content + (OPS - 1 - i) * OP_BYTES, OP_BYTES);
    assert_int_equal(truncate(path, (OPS - 1) * OP_BYTES), 0);
    REFUSED(leat_file_read_batch(t->stream, ops, OPS), LEAT_ERROR_RANGE, "op 0: offset 19136 + 64 bytes");
    OK(leat_file_read_batch(t->stream, ops + 1, OPS - 1));
    OK(leat_stream_synchronize(t->stream));
    /* A file that grows between two calls is read to its new end. */
    assert_int_equal(truncate(path, OPS * OP_BYTES), 0);
    OK(leat_file_read_batch(t->stream, ops, OPS));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_file_close(file));
    free(memory);
    free(content);
}

#define BAD_TEST(function) cmocka_unit_test_setup_teardown(function, test_setup, end_rules)

static const struct CMUnitTest tests[] = {
    BAD_TEST(short_direct_reads_go_on),
    BAD_TEST(a_write_that_moves_nothing_is_told),
    BAD_TEST(the_first_place_that_failed_is_told),
    BAD_TEST(reads_behind_a_wait_that_is_over_overlap),
    BAD_TEST(a_full_disk_leaves_nothing),
    BAD_TEST(a_directory_that_is_not_synced_is_told),
    BAD_TEST(a_commit_fails_while_it_is_cancelled),
    BAD_TEST(long_paths_leave_room_for_the_reason),
    BAD_TEST(old_systems_read_plainly),
    BAD_TEST(refused_direct_reads_go_through_the_cache),
    BAD_TEST(descriptors_run_out),
    BAD_TEST(offsets_beyond_4_gib),
    BAD_TEST(files_that_are_cut_are_told),
    BAD_TEST(a_file_that_is_replaced_stays_open),
    BAD_TEST(a_file_that_grows_is_read_to_its_end),
    cmocka_unit_test(only_regular_files_are_opened),
    BAD_TEST(a_batch_with_a_wrong_op_does_nothing),
    BAD_TEST(failures_are_reported_to_other_streams),
    BAD_TEST(a_batch_asks_once_for_the_size),
    cmocka_unit_test(a_real_full_disk),
};

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--small-disk"))
        return fill_small_disk(argv[2]);
    /* Most of these tests make pwritev() fail, which leat calls for few bytes if it writes through mappings. Those
     * have tests of their own, test_file_map.c. */
    setenv("LEAT_IO_MAP", "never", 1);
    if (!test_device_there())
        return 77;
    return cmocka_run_group_tests(tests, make_folder, remove_folder) ? 1 : 0;
}
