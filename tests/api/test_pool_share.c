/*
 * test_pool_share.c - tests pools with one physical allocation for each block, which other processes can import.
 * LEAT_TEST_DEVICE names the device. The program runs itself again to import in another process.
 */
#include "temporary.h"
#include "test_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <leat/virtual.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void each_block_has_a_handle_of_its_own(void **state)
{
    static const size_t sizes[] = {1, 5000, 2 * MIB, 2 * MIB + 1, 17 * MIB};
    struct test_state *t = *state;
    leat_pool *pool;
    uint64_t created = 0;
    void *blocks[5];

    NEEDS_VIRTUAL_MEMORY(t);
    pool = POOL(t->device, .dedicated = 1);
    for (int i = 0; i < 5; i++) {
        blocks[i] = test_block(pool, t->stream, sizes[i]);
        /* Each block has pages of its own. */
        assert_true(test_statistics(pool).pages_created >= created + sizes[i]);
        created = test_statistics(pool).pages_created;
        OK(leat_fill(t->stream, blocks[i], (uint8_t)(i + 1), sizes[i]));
    }
    for (int i = 0; i < 5; i++) {
        test_block_holds(t->stream, blocks[i], sizes[i], (unsigned char)(i + 1));
        OK(leat_free(t->stream, blocks[i]));
    }
    /* The pool must keep freed blocks and reuse them. */
    for (int i = 0; i < 5; i++)
        OK(leat_free(t->stream, test_block(pool, t->stream, sizes[i])));
    assert_int_equal(test_statistics(pool).pages_created, created);
    OK(leat_pool_destroy(pool));
}

/* Imports memory, checks that it holds expected, fills it with written, and frees the import. */
static void use_import(leat_device *device, leat_stream *stream, int fd, size_t bytes, unsigned char expected,
                       unsigned char written)
{
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    void *ptr = NULL;

    OK(leat_block_import(device, fd, bytes, &ptr));
    assert_non_null(ptr);
    OK(leat_pointer_get_info((char *)ptr + bytes - 1, &info));
    assert_int_equal(info.kind, LEAT_KIND_DEVICE);
    assert_ptr_equal(info.base, ptr);
    assert_int_equal(info.bytes, bytes);
    test_block_holds(stream, ptr, 5000, expected);
    OK(leat_fill(stream, ptr, written, 5000));
    OK(leat_stream_synchronize(stream));
    OK(leat_memory_free(ptr));
    REFUSED(leat_memory_free(ptr), LEAT_ERROR_POINTER, "");
}

/* Calls use_import() in another process: runs this program again. */
static void import_elsewhere(int fd, size_t bytes, int expected, int written)
{
    char words[4][32];
    int status;
    pid_t child;

    snprintf(words[0], sizeof words[0], "%d", fd);
    snprintf(words[1], sizeof words[1], "%zu", bytes);
    snprintf(words[2], sizeof words[2], "%d", expected);
    snprintf(words[3], sizeof words[3], "%d", written);
    assert_int_equal(fcntl(fd, F_SETFD, 0), 0);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "test_pool_share", "--import", words[0], words[1], words[2], words[3],
              (char *)NULL);
        _exit(126);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void blocks_are_shared_with_other_processes(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool;
    size_t bytes = 0;
    void *block;
    int fd = -1;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = POOL(t->device, .dedicated = 1, .exportable = 1);
    block = test_block(pool, t->stream, 5000);
    OK(leat_fill(t->stream, block, 1, 5000));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_block_export(block, &fd, &bytes));
    assert_true(fd >= 0);
    assert_true(bytes >= 5000);
    import_elsewhere(fd, bytes, 1, 2);
    test_block_holds(t->stream, block, 5000, 2);
    /* The memory can be imported again, and also in this process. */
    use_import(t->device, t->stream, fd, bytes, 2, 3);
    import_elsewhere(fd, bytes, 3, 4);
    test_block_holds(t->stream, block, 5000, 4);
    close(fd);
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* Physical memory lives as long as any process maps it. */
static void exported_memory_outlives_its_pool(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool;
    size_t bytes = 0;
    void *block, *ptr = NULL;
    int fd = -1;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = POOL(t->device, .dedicated = 1, .exportable = 1);
    block = test_block(pool, t->stream, 5000);
    OK(leat_fill(t->stream, block, 5, 5000));
    OK(leat_block_export(block, &fd, &bytes));
    OK(leat_block_import(t->device, fd, bytes, &ptr));
    close(fd);
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
    test_block_holds(t->stream, ptr, 5000, 5);
    OK(leat_memory_free(ptr));
}

/* Closing the device frees imported memory. */
static void imported_memory_is_left_to_the_close(void **state)
{
    struct test_state *t = *state;
    leat_device *other = test_open_other();
    leat_pool *pool;
    size_t bytes = 0;
    void *block, *ptr = NULL;
    int fd = -1;

    if (!other)
        SKIP_OTHER("needs two devices of one driver");
    NEEDS_VIRTUAL_MEMORY(t);
    pool = POOL(other, .dedicated = 1, .exportable = 1);
    block = test_block(pool, NULL, 5000);
    OK(leat_block_export(block, &fd, &bytes));
    OK(leat_block_import(other, fd, bytes, &ptr));
    close(fd);
    OK(leat_device_close(other));
    REFUSED(leat_memory_free(ptr), LEAT_ERROR_POINTER, "");
}

/* ---- what a process cannot do to a received descriptor, on the CPU device ---- */

static void exported_files_keep_their_size(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool;
    size_t bytes = 0;
    struct stat file;
    void *block;
    int fd = -1;

    if (!test_on_cpu())
        SKIP_OTHER("a vendor's driver makes the descriptors");
    pool = POOL(t->device, .dedicated = 1, .exportable = 1);
    block = test_block(pool, t->stream, 5000);
    OK(leat_fill(t->stream, block, 6, 5000));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_block_export(block, &fd, &bytes));
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(fd, (off_t)(2 * bytes)), -1);
    assert_int_equal(fallocate(fd, 0, (off_t)bytes, 4096), -1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    assert_int_equal(fcntl(fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    /* The file contains only the pages of this block. */
    assert_int_equal(fstat(fd, &file), 0);
    assert_true(file.st_size >= 0 && (size_t)file.st_size == bytes);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    test_block_holds(t->stream, block, 5000, 6);
    close(fd);
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* Creates a memory file of this size with these seals. Returns its descriptor. */
static int memory_file(size_t bytes, int seals)
{
    int fd = memfd_create("leat test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static int opened(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

/* Checks that both import calls refuse fd, and closes it. */
static void no_import(leat_device *device, int fd, size_t bytes, const char *words)
{
    leat_physical *physical = NULL;
    void *ptr = NULL;

    REFUSED(leat_block_import(device, fd, bytes, &ptr), LEAT_ERROR_INVALID, words);
    REFUSED(leat_physical_import(device, fd, bytes, &physical), LEAT_ERROR_INVALID, words);
    assert_true(!ptr && !physical);
    close(fd);
}

static void other_files_are_not_imported(void **state)
{
    const int sealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    const char *not_exported = "is not exported memory";
    char path[TEMPORARY_PATH], again[64], content[6] = "";
    struct test_state *t = *state;
    size_t bytes = 2 * MIB;
    leat_pool *pool;
    int fd, ends[2];
    void *block;

    if (!test_on_cpu())
        SKIP_OTHER("a vendor's driver looks at the descriptors");
    fd = temporary_file(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(pwrite(fd, "kept", 5, 0), 5);
    no_import(t->device, fd, bytes, not_exported);
    fd = opened(path, O_RDWR);
    assert_int_equal(pread(fd, content, 5, 0), 5);
    assert_string_equal(content, "kept");
    close(fd);
    unlink(path);
    no_import(t->device, opened("/dev/zero", O_RDWR), bytes, not_exported);
    no_import(t->device, opened("/tmp", O_RDONLY | O_DIRECTORY), bytes, not_exported);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    no_import(t->device, ends[0], bytes, not_exported);
    no_import(t->device, ends[1], bytes, not_exported);
    no_import(t->device, -1, bytes, "it is not open");
    /* Both import calls must refuse memory files that could still change their size, or that cannot be written. */
    no_import(t->device, memory_file(bytes, 0), bytes, not_exported);
    no_import(t->device, memory_file(bytes, F_SEAL_GROW | F_SEAL_SEAL), bytes, not_exported);
    no_import(t->device, memory_file(bytes, F_SEAL_SHRINK | F_SEAL_SEAL), bytes, not_exported);
    no_import(t->device, memory_file(bytes, F_SEAL_SHRINK | F_SEAL_GROW), bytes, not_exported);
    no_import(t->device, memory_file(bytes, sealed | F_SEAL_WRITE), bytes, not_exported);
    no_import(t->device, memory_file(bytes, sealed | F_SEAL_FUTURE_WRITE), bytes, not_exported);
    /* They must also refuse exported memory with a wrong size, or with a descriptor that cannot be written. */
    pool = POOL(t->device, .dedicated = 1, .exportable = 1);
    block = test_block(pool, t->stream, 4 * MIB);
    OK(leat_fill(t->stream, block, 8, 4 * MIB));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_block_export(block, &fd, &bytes));
    snprintf(again, sizeof again, "/proc/self/fd/%d", fd);
    no_import(t->device, opened(again, O_RDONLY), bytes, not_exported);
    no_import(t->device, opened(again, O_RDWR), bytes - 2 * MIB, "give the size");
    no_import(t->device, opened(again, O_RDWR), bytes + 2 * MIB, "give the size");
    use_import(t->device, t->stream, fd, bytes, 8, 9);
    close(fd);
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

static struct {
    int fd, expected, written;
    size_t bytes;
} imported;

static void import_here(void **state)
{
    struct test_state *t = *state;

    use_import(t->device, t->stream, imported.fd, imported.bytes, (unsigned char)imported.expected,
               (unsigned char)imported.written);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        STATE_TEST(each_block_has_a_handle_of_its_own), STATE_TEST(blocks_are_shared_with_other_processes),
        STATE_TEST(exported_memory_outlives_its_pool),  STATE_TEST(imported_memory_is_left_to_the_close),
        STATE_TEST(exported_files_keep_their_size),     STATE_TEST(other_files_are_not_imported),
    };
    static const struct CMUnitTest import_tests[] = {STATE_TEST(import_here)};

    if (!test_device_there())
        return 77;
    if (argc == 6 && !strcmp(argv[1], "--import")) {
        imported.fd = atoi(argv[2]);
        imported.bytes = strtoull(argv[3], NULL, 10);
        imported.expected = atoi(argv[4]);
        imported.written = atoi(argv[5]);
        return cmocka_run_group_tests(import_tests, NULL, NULL) ? 1 : 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
