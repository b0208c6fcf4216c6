/*
 * test_file_map.c - tests writes through shared mappings of files (LEAT_IO_MAP=always): that they are used, at
 * every place of a file, and what happens if the system refuses a mapping, the file is cut, or its disk is full.
 *
 * The linker replaces mmap() by a function that calls a hook when a file is mapped for writing. leat has then made
 * the file long enough, and has stored nothing yet.
 */
#include "bad_disk.h"
#include "file_room.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WINDOW ((uint64_t)256 * MIB) /* size of the mappings */

static int (*_Atomic mapping_hook)(int fd);
static atomic_uint mapping_count;

void *__real_mmap(void *address, size_t bytes, int access, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int access, int flags, int fd, off_t offset);

void *__wrap_mmap(void *address, size_t bytes, int access, int flags, int fd, off_t offset)
{
    int (*hook)(int fd) = atomic_load(&mapping_hook);

    if (fd >= 0 && flags & MAP_SHARED && access & PROT_WRITE && bytes == WINDOW) {
        atomic_fetch_add(&mapping_count, 1);
        errno = hook ? hook(fd) : 0;
        if (errno)
            return MAP_FAILED;
    }
    return __real_mmap(address, bytes, access, flags, fd, offset);
}

static int begin(void **state)
{
    atomic_store(&mapping_hook, NULL);
    atomic_store(&mapping_count, 0);
    bad_disk_set(NULL, 0);
    return test_setup(state);
}

/* Writes new bytes from each kind of memory, and compares the file. */
static void expect_written(struct test_state *t, leat_file *file, const char *path, uint64_t offset, size_t bytes)
{
    unsigned char *expected = test_buffer(bytes), *content = test_buffer(bytes);
    int fd = open(path, O_RDONLY);

    for (size_t k = 0; k < KINDS; k++) {
        unsigned char *memory = make_memory(t, kinds[k], bytes + 1);

        test_pattern(expected, bytes, offset + bytes + k);
        OK(leat_copy_sync(t->stream, memory + 1, expected, bytes));
        OK(leat_file_write(t->stream, file, offset, memory + 1, bytes));
        OK(leat_stream_synchronize(t->stream));
        assert_int_equal(pread(fd, content, bytes, (off_t)offset), bytes);
        assert_memory_equal(content, expected, bytes);
        end_memory(kinds[k], memory);
    }
    close(fd);
    free(expected);
    free(content);
}

static void bytes_are_stored(void **state)
{
    static const unsigned flags[] = {LEAT_FILE_WRITE | LEAT_FILE_CREATE,
                                     LEAT_FILE_WRITE | LEAT_FILE_CREATE | LEAT_FILE_READ,
                                     LEAT_FILE_WRITE | LEAT_FILE_CACHED};
    struct test_state *t = *state;
    const char *path = path_of("stored");

    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        leat_file *file = open_file(path, flags[i]);

        bad_disk_set(NULL, 0);
        expect_written(t, file, path, 0, 1);
        expect_written(t, file, path, 4095, 2);
        expect_written(t, file, path, 10001, 3 * MIB + 77);
        expect_written(t, file, path, 5, 4 * MIB);
        /* Only the last byte of each part of a copy is written. */
        assert_true(bad_disk_asked(BAD_DISK_WRITE) <= bad_disk_count(BAD_DISK_WRITE));
        OK(leat_file_close(file));
    }
    assert_int_equal(atomic_load(&mapping_count), sizeof flags / sizeof flags[0]);
}

/* A descriptor of the program may allow only writing, or refuse to be opened again for reading too. */
static void descriptors_of_the_program_are_stored_to(void **state)
{
    struct test_state *t = *state;
    const char *path = make_file("wrapped", 1000, 1);
    int fd = open(path, O_WRONLY | O_APPEND);
    leat_file *file;

    test_let_leat_catch_faults();
    OK(leat_file_wrap(fd, 0, &file));
    close(fd);
    expect_written(t, file, path, 3, MIB);
    assert_int_equal(atomic_load(&mapping_count), 1);
    OK(leat_file_close(file));
}

/* A write may cross the border of two mappings, and a file may need more mappings than leat keeps. */
static void writes_cross_mappings(void **state)
{
    struct test_state *t = *state;
    const char *path = path_of("far");
    leat_file *file = open_file(path, LEAT_FILE_WRITE | LEAT_FILE_CREATE);

    expect_written(t, file, path, WINDOW - 100 * KIB - 1, 300 * KIB);
    assert_int_equal(atomic_load(&mapping_count), 2);
    for (uint64_t i = 40; i > 0; i--)
        expect_written(t, file, path, i * WINDOW - 10, 20);
    expect_written(t, file, path, WINDOW - 10, 20);
    assert_true(atomic_load(&mapping_count) > 40);
    OK(leat_file_close(file));
    assert_int_equal(unlink(path), 0);
}

/* Stores to a mapping do not set the time of the last change, at least not on tmpfs, so leat has to. */
static void the_time_of_change_is_set(void **state)
{
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    struct test_state *t = *state;
    const char *path = make_file("time", MIB, 1);
    leat_file *file = open_file(path, LEAT_FILE_WRITE);
    struct stat what;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
        expect_written(t, file, path, 0, MIB / 2);
        assert_int_equal(stat(path, &what), 0);
        assert_true(what.st_mtim.tv_sec > 1000);
    }
    OK(leat_file_close(file));
}

static void batches_are_stored(void **state)
{
    enum { OPS = 200, OP_BYTES = 700 };
    struct test_state *t = *state;
    const char *path = path_of("batch");
    leat_file *file = open_file(path, LEAT_FILE_WRITE | LEAT_FILE_CREATE);
    unsigned char *memory = test_buffer((size_t)OPS * OP_BYTES), *content;
    leat_file_op ops[OPS];

    test_pattern(memory, (size_t)OPS * OP_BYTES, 5);
    for (size_t i = 0; i < OPS; i++)
        ops[i] = (leat_file_op){file, i * OP_BYTES, memory + (OPS - 1 - i) * OP_BYTES, OP_BYTES};
    bad_disk_set(NULL, 0);
    OK(leat_file_write_batch(t->stream, ops, OPS));
    OK(leat_stream_synchronize(t->stream));
    assert_true(bad_disk_asked(BAD_DISK_WRITE) <= bad_disk_count(BAD_DISK_WRITE));
    content = file_content(path, (size_t)OPS * OP_BYTES);
    for (size_t i = 0; i < OPS; i++)
        assert_memory_equal(content + i * OP_BYTES, memory + (OPS - 1 - i) * OP_BYTES, OP_BYTES);
    OK(leat_file_close(file));
    free(memory);
    free(content);
}

static int refuse(int fd)
{
    (void)fd;
    return ENODEV; /* as FUSE refuses shared mappings for writing */
}

static void refused_mappings_are_written_plainly(void **state)
{
    struct test_state *t = *state;
    const char *path = path_of("refused");
    leat_file *file = open_file(path, LEAT_FILE_WRITE | LEAT_FILE_CREATE);

    atomic_store(&mapping_hook, refuse);
    bad_disk_set(NULL, 0);
    expect_written(t, file, path, 7, MIB);
    assert_true(bad_disk_asked(BAD_DISK_WRITE) >= KINDS * MIB);
    /* leat does not ask again. */
    assert_int_equal(atomic_load(&mapping_count), 1);
    OK(leat_file_close(file));
}

static int cut_to_1000(int fd)
{
    return ftruncate(fd, 1000) ? errno : 0;
}

/* A file that another program cuts while leat writes it is an error, since its bytes are lost. A later write is
 * not concerned. */
static void a_cut_file_is_told(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_buffer(MIB);

    for (int batch = 0; batch < 2; batch++) {
        const char *path = path_of(batch ? "cut-batch" : "cut");
        leat_file *file = open_file(path, LEAT_FILE_WRITE | LEAT_FILE_CREATE);
        leat_file_op op = {file, 500, memory, 40 * KIB};
        leat_status status;

        atomic_store(&mapping_hook, cut_to_1000);
        status = batch ? leat_file_write_batch(t->stream, &op, 1)
                       : leat_file_write(t->stream, file, 500, memory, 40 * KIB);
        OK(status);
        REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_FILE,
                "now ends at 1000: it was cut while it was written");
        assert_non_null(strstr(leat_last_error(), path));
        assert_non_null(strstr(leat_last_error(), "writing 40960 bytes"));
        assert_non_null(strstr(leat_last_error(), "stopped after 500 bytes"));
        atomic_store(&mapping_hook, NULL);
        expect_written(t, file, path, 100, MIB);
        OK(leat_file_close(file));
    }
    free(memory);
}

/* A file that ends inside a page after a cut raises no signal: the bytes behind its end are lost in silence. */
static int cut_in_page(int fd)
{
    return ftruncate(fd, 100) ? errno : 0;
}

static void a_cut_inside_a_page_is_told(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_buffer(4000);
    leat_file *file = open_file(path_of("page"), LEAT_FILE_WRITE | LEAT_FILE_CREATE);

    atomic_store(&mapping_hook, cut_in_page);
    OK(leat_file_write(t->stream, file, 0, memory, 4000));
    REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_FILE, "now ends at 100: it was cut");
    OK(leat_file_close(file));
    free(memory);
}

/* Memory that cannot be read is the error of the memory, not of the file. */
static int unreachable_at_mapping(int fd);
static unsigned char *unreachable;

static void unreachable_memory_is_told(void **state)
{
    struct test_state *t = *state;
    leat_file *file = open_file(path_of("memory"), LEAT_FILE_WRITE | LEAT_FILE_CREATE);

    unreachable = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(unreachable, MAP_FAILED);
    atomic_store(&mapping_hook, unreachable_at_mapping);
    OK(leat_file_write(t->stream, file, 0, unreachable, 60 * KIB));
    REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_POINTER, "could not be reached");
    OK(leat_file_close(file));
    munmap(unreachable, MIB);
}

static int unreachable_at_mapping(int fd)
{
    (void)fd;
    return mprotect(unreachable, MIB, PROT_NONE) ? errno : 0;
}

/* If SIGBUS does not reach leat's handler, a full disk would end the process, so leat does not store to mappings.
 */
static void mappings_need_the_handler(void **state)
{
    struct test_state *t = *state;
    const char *path = path_of("handler");
    leat_file *file = open_file(path, LEAT_FILE_WRITE | LEAT_FILE_CREATE);
    struct sigaction action = {.sa_handler = SIG_DFL}, earlier;

    assert_int_equal(sigaction(SIGBUS, &action, &earlier), 0);
    expect_written(t, file, path, 7, MIB);
    assert_int_equal(atomic_load(&mapping_count), 0);
    assert_int_equal(sigaction(SIGBUS, &earlier, NULL), 0);
    expect_written(t, file, path, 7, MIB);
    assert_int_equal(atomic_load(&mapping_count), 1);
    OK(leat_file_close(file));
}

static void explain_names_the_way(void **state)
{
    struct test_state *t = *state;
    leat_file *file = open_file(make_file("explained", 1000, 1), LEAT_FILE_WRITE | LEAT_FILE_READ);
    void *memory = test_alloc(t->device, LEAT_KIND_PINNED, 1000);
    char text[4096];

    OK(leat_file_explain(t->stream, memory, file, 0, 1000, text, sizeof text));
    assert_non_null(strstr(text, "writes    through a shared mapping of the file"));
    OK(leat_file_close(file));
    OK(leat_memory_free(memory));
}

/* ---- a disk that is full ---- */

enum { SMALL_DISK = 4 << 20 };

/* Runs in a child process: mounts a small file system in memory, which no other process sees. A sparse file is
 * long enough already, so that only the stores find the disk full. Returns 0 if leat behaved as expected, 77 if
 * this process may not mount. */
static int fill_small_disk(const char *path)
{
    char sparse[TEMPORARY_PATH + 20];
    struct stat what;
    leat_device *device;
    leat_stream *stream;
    leat_file *file;
    char *memory;

    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("leat", path, "tmpfs", 0, "size=4m"))
        return 77;
    snprintf(sparse, sizeof sparse, "%s/sparse", path);
    device = test_open();
    memory = test_buffer(2 * SMALL_DISK);
    memset(memory, 5, 2 * SMALL_DISK);
    if (leat_stream_create(device, &stream) != LEAT_OK ||
        leat_file_open(sparse, LEAT_FILE_WRITE | LEAT_FILE_CREATE, &file) != LEAT_OK ||
        truncate(sparse, 3 * SMALL_DISK) || leat_file_write(stream, file, 0, memory, 2 * SMALL_DISK) != LEAT_OK)
        return 2;
    if (leat_stream_synchronize(stream) != LEAT_ERROR_FILE || !strstr(leat_last_error(), strerror(ENOSPC)) ||
        !strstr(leat_last_error(), sparse) || atomic_load(&mapping_count) != 1)
        return 3;
    /* With room again the same handle writes again. */
    if (truncate(sparse, 0) || leat_file_write(stream, file, 0, memory, SMALL_DISK / 2) != LEAT_OK ||
        leat_stream_synchronize(stream) != LEAT_OK || stat(sparse, &what) || what.st_size != SMALL_DISK / 2)
        return 4;
    free(memory);
    return leat_file_close(file) == LEAT_OK && leat_device_close(device) == LEAT_OK ? 0 : 5;
}

/* Runs this program in a child process. Returns its exit status. */
static int run_child(const char *mode, const char *path)
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "test_file_map", mode, path, (char *)NULL);
        _exit(126);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_full_disk_is_an_error(void **state)
{
    const char *path = path_of("disk");
    int status;

    (void)state;
    assert_int_equal(mkdir(path, 0700), 0);
    status = run_child("--small-disk", path);
    assert_int_equal(rmdir(path), 0);
    if (status == 77)
        SKIP_OTHER("this process may not mount a small file system");
    assert_int_equal(status, 0);
}

/* ---- bytes that the cache does not have ---- */

/* Runs in a child process, with LEAT_IO_MAP=cached: new bytes and holes are written by pwrite(), others stored.
 * Returns 0 if leat behaved as expected, 77 if the cache's content cannot be told. */
static int write_what_is_cached(const char *path)
{
    leat_device *device = test_open();
    unsigned char *memory = test_buffer(MIB);
    leat_stream *stream;
    leat_file *file;
    uint64_t cached;

    memset(memory, 1, MIB);
    if (leat_stream_create(device, &stream) != LEAT_OK ||
        leat_file_open(path, LEAT_FILE_READ | LEAT_FILE_WRITE | LEAT_FILE_CREATE | LEAT_FILE_CACHED, &file) !=
            LEAT_OK)
        return 2;
    for (int i = 0; i < 3; i++) {
        /* 0: the file is empty; 1: it has all bytes; 2: it is a hole. */
        if (i == 2 && (truncate(path, 0) || truncate(path, MIB)))
            return 3;
        bad_disk_set(NULL, 0);
        if (leat_file_write(stream, file, 0, memory, MIB) != LEAT_OK || leat_stream_synchronize(stream) != LEAT_OK)
            return 4;
        if ((bad_disk_asked(BAD_DISK_WRITE) < MIB) != (i == 1))
            return 5;
        if (leat_file_cached(file, 0, MIB, &cached) != LEAT_OK)
            return 6;
        if (cached != MIB)
            return 77;
    }
    free(memory);
    return leat_file_close(file) == LEAT_OK && leat_device_close(device) == LEAT_OK ? 0 : 7;
}

static void only_cached_bytes_are_stored(void **state)
{
    int status = run_child("--cached", path_of("cached"));

    (void)state;
    if (status == 77)
        SKIP_OTHER("this system does not tell what is in its cache");
    assert_int_equal(status, 0);
}

#define MAP_TEST(function) cmocka_unit_test_setup_teardown(function, begin, test_teardown)

static const struct CMUnitTest tests[] = {
    MAP_TEST(bytes_are_stored),
    MAP_TEST(descriptors_of_the_program_are_stored_to),
    MAP_TEST(writes_cross_mappings),
    MAP_TEST(the_time_of_change_is_set),
    MAP_TEST(batches_are_stored),
    MAP_TEST(refused_mappings_are_written_plainly),
    MAP_TEST(a_cut_file_is_told),
    MAP_TEST(a_cut_inside_a_page_is_told),
    MAP_TEST(unreachable_memory_is_told),
    MAP_TEST(mappings_need_the_handler),
    MAP_TEST(explain_names_the_way),
    cmocka_unit_test(a_full_disk_is_an_error),
    cmocka_unit_test(only_cached_bytes_are_stored),
};

int main(int argc, char **argv)
{
    struct rlimit addresses;

    if (getrlimit(RLIMIT_AS, &addresses) || addresses.rlim_cur != RLIM_INFINITY) {
        printf("skipped: the address space is limited, so leat maps no files\n");
        return 77;
    }
    if (argc == 3 && !strcmp(argv[1], "--cached")) {
        setenv("LEAT_IO_MAP", "cached", 1);
        return write_what_is_cached(argv[2]);
    }
    setenv("LEAT_IO_MAP", "always", 1);
    if (argc == 3 && !strcmp(argv[1], "--small-disk"))
        return fill_small_disk(argv[2]);
    if (!test_device_there())
        return 77;
    test_keep_handlers();
    return cmocka_run_group_tests(tests, make_folder, remove_folder) ? 1 : 0;
}
