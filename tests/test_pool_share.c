/*
 * test_pool_share.c - pools: blocks that are one physical allocation each, and that other processes can use.
 * LEAT_TEST_DEVICE names the device. For the import in another process this program runs itself again.
 */
#include "test_pool.h"

#include <fcntl.h>
#include <stdio.h>
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
    pool = POOL(t->device, .one_handle = 1);
    for (int i = 0; i < 5; i++) {
        blocks[i] = test_block(pool, t->stream, sizes[i]);
        /* No two share a page. */
        assert_true(test_statistics(pool).pages_created >= created + sizes[i]);
        created = test_statistics(pool).pages_created;
        OK(leat_fill(t->stream, blocks[i], (uint8_t)(i + 1), sizes[i]));
    }
    for (int i = 0; i < 5; i++) {
        test_block_holds(t->stream, blocks[i], sizes[i], (unsigned char)(i + 1));
        OK(leat_free(t->stream, blocks[i]));
    }
    /* They are kept and used again. */
    for (int i = 0; i < 5; i++)
        OK(leat_free(t->stream, test_block(pool, t->stream, sizes[i])));
    assert_int_equal(test_statistics(pool).pages_created, created);
    OK(leat_pool_destroy(pool));
}

/* Looks at imported memory, writes to it, and gives it back. */
static void use_import(leat_device *device, leat_stream *stream, int fd, size_t bytes, unsigned char expected,
                       unsigned char written)
{
    leat_pointer_info info;
    void *ptr = NULL;

    OK(leat_pool_import(device, fd, bytes, &ptr));
    assert_non_null(ptr);
    OK(leat_pointer_query((char *)ptr + bytes - 1, &info));
    assert_int_equal(info.kind, LEAT_KIND_DEVICE);
    assert_ptr_equal(info.base, ptr);
    assert_int_equal(info.bytes, bytes);
    test_block_holds(stream, ptr, 5000, expected);
    OK(leat_fill(stream, ptr, written, 5000));
    OK(leat_stream_synchronize(stream));
    OK(leat_memory_free(ptr));
    REFUSED(leat_memory_free(ptr), LEAT_ERROR_POINTER, "");
}

/* Runs this program again, which imports fd as use_import() does. */
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
    pool = POOL(t->device, .one_handle = 1, .exportable = 1);
    block = test_block(pool, t->stream, 5000);
    OK(leat_fill(t->stream, block, 1, 5000));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_pool_export(block, &fd, &bytes));
    assert_true(fd >= 0);
    assert_true(bytes >= 5000);
    import_elsewhere(fd, bytes, 1, 2);
    test_block_holds(t->stream, block, 5000, 2);
    /* Twice, and in the same process. */
    use_import(t->device, t->stream, fd, bytes, 2, 3);
    import_elsewhere(fd, bytes, 3, 4);
    test_block_holds(t->stream, block, 5000, 4);
    close(fd);
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* The memory lives for as long as somebody has it. */
static void exported_memory_outlives_its_pool(void **state)
{
    struct test_state *t = *state;
    leat_pool *pool;
    size_t bytes = 0;
    void *block, *ptr = NULL;
    int fd = -1;

    NEEDS_VIRTUAL_MEMORY(t);
    pool = POOL(t->device, .one_handle = 1, .exportable = 1);
    block = test_block(pool, t->stream, 5000);
    OK(leat_fill(t->stream, block, 5, 5000));
    OK(leat_pool_export(block, &fd, &bytes));
    OK(leat_pool_import(t->device, fd, bytes, &ptr));
    close(fd);
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
    test_block_holds(t->stream, ptr, 5000, 5);
    OK(leat_memory_free(ptr));
}

/* The last close takes imported memory with it. */
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
    pool = POOL(other, .one_handle = 1, .exportable = 1);
    block = test_block(pool, NULL, 5000);
    OK(leat_pool_export(block, &fd, &bytes));
    OK(leat_pool_import(other, fd, bytes, &ptr));
    close(fd);
    OK(leat_device_close(other));
    REFUSED(leat_memory_free(ptr), LEAT_ERROR_POINTER, "");
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
        STATE_TEST(each_block_has_a_handle_of_its_own),
        STATE_TEST(blocks_are_shared_with_other_processes),
        STATE_TEST(exported_memory_outlives_its_pool),
        STATE_TEST(imported_memory_is_left_to_the_close),
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
