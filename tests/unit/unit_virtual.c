/*
 * unit_virtual.c - tests virtual memory through the driver's table: reserve, create, map, set access, unmap,
 * release, export, import. LEAT_TEST_DEVICE names the device. To import in another process, the program runs
 * itself again.
 */
#include "harness.h"

#include "driver/registry.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct place {
    struct leati_driver *driver;
    const struct leati_driver_ops *ops;
    void *device, *stream;
    size_t unit;
};

static int open_place(void **state)
{
    struct place *p = test_buffer(sizeof *p);
    size_t length = strcspn(test_device_name(), ":");
    const char *reason = "no such driver";
    leat_status status = LEAT_ERROR_NO_DRIVER;

    for (unsigned i = 0; (p->driver = leati_registry_driver(i, &status, &reason)); i++)
        if (strlen(p->driver->name) == length && !strncmp(p->driver->name, test_device_name(), length))
            break;
    if (!p->driver || status != LEAT_OK) {
        print_message("no %s: %s\n", test_device_name(), reason);
        free(p);
        return -1;
    }
    p->ops = p->driver->ops;
    OK(p->ops->device_open(p->driver, atoi(test_device_name() + length + 1), NULL, &p->device));
    OK(p->ops->stream_create(p->driver, p->device, &p->stream));
    *state = p;
    if (p->ops->vm_granularity) {
        OK(p->ops->vm_granularity(p->driver, p->device, &p->unit));
        assert_true(p->unit > 0);
    }
    return 0;
}

static int close_place(void **state)
{
    struct place *p = *state;

    OK(p->ops->stream_destroy(p->driver, p->stream));
    OK(p->ops->device_close(p->driver, p->device));
    free(p);
    return 0;
}

#define NEEDS_VIRTUAL(p)                                                                                          \
    if (!(p)->ops->vm_reserve)                                                                                    \
    SKIP_OTHER("this driver has no virtual memory")

static void copy(struct place *p, void *dst, leat_kind dst_kind, void *src, leat_kind src_kind, size_t bytes)
{
    struct leati_location to = {
        .ptr = dst, .kind = dst_kind, .device = dst_kind == LEAT_KIND_DEVICE ? p->device : NULL};
    struct leati_location from = {
        .ptr = src, .kind = src_kind, .device = src_kind == LEAT_KIND_DEVICE ? p->device : NULL};

    OK(p->ops->copy(p->driver, p->stream, to, from, bytes));
}

static void put(struct place *p, void *memory, size_t bytes, uint64_t seed)
{
    unsigned char *in = test_buffer(bytes);

    test_pattern(in, bytes, seed);
    copy(p, memory, LEAT_KIND_DEVICE, in, LEAT_KIND_PAGEABLE, bytes);
    OK(p->ops->stream_synchronize(p->driver, p->stream));
    free(in);
}

static void expect(struct place *p, void *memory, size_t bytes, uint64_t seed)
{
    unsigned char *out = test_buffer(bytes);

    memset(out, 0, bytes);
    copy(p, out, LEAT_KIND_PAGEABLE, memory, LEAT_KIND_DEVICE, bytes);
    OK(p->ops->stream_synchronize(p->driver, p->stream));
    EXPECT_PATTERN(out, bytes, seed);
    free(out);
}

static void *reserve(struct place *p, size_t bytes)
{
    void *ptr = NULL;

    OK(p->ops->vm_reserve(p->driver, p->device, bytes, &ptr));
    assert_non_null(ptr);
    assert_int_equal((uintptr_t)ptr % p->unit, 0);
    return ptr;
}

static uint64_t create(struct place *p, size_t bytes, bool exportable)
{
    uint64_t handle = 0;

    OK(p->ops->vm_create(p->driver, p->device, bytes, exportable, &handle));
    return handle;
}

static void map(struct place *p, void *ptr, size_t bytes, uint64_t handle)
{
    OK(p->ops->vm_map(p->driver, p->device, ptr, bytes, handle));
    OK(p->ops->vm_set_access(p->driver, p->device, ptr, bytes));
}

static void pages_are_used_where_they_are_mapped(void **state)
{
    struct place *p = *state;
    unsigned char *range;
    uint64_t handles[3];

    NEEDS_VIRTUAL(p);
    range = reserve(p, 3 * p->unit);
    for (size_t i = 0; i < 3; i++) {
        handles[i] = create(p, p->unit, false);
        map(p, range + i * p->unit, p->unit, handles[i]);
    }
    /* A copy may cross the borders of adjacent mappings. */
    put(p, range, 3 * p->unit, 11);
    expect(p, range, 3 * p->unit, 11);
    for (size_t i = 0; i < 3; i++) {
        OK(p->ops->vm_unmap(p->driver, p->device, range + i * p->unit, p->unit));
        OK(p->ops->vm_release(p->driver, p->device, handles[i]));
    }
    OK(p->ops->vm_unreserve(p->driver, p->device, range, 3 * p->unit));
}

static void pages_move_with_their_contents(void **state)
{
    struct place *p = *state;
    unsigned char *range;
    uint64_t first, second;

    NEEDS_VIRTUAL(p);
    range = reserve(p, 4 * p->unit);
    first = create(p, p->unit, false);
    second = create(p, p->unit, false);
    map(p, range, p->unit, first);
    map(p, range + p->unit, p->unit, second);
    put(p, range, p->unit, 21);
    put(p, range + p->unit, p->unit, 22);
    OK(p->ops->vm_unmap(p->driver, p->device, range, p->unit));
    OK(p->ops->vm_unmap(p->driver, p->device, range + p->unit, p->unit));
    /* Map each page where the other one was, or at a new address. Its contents must come with it. */
    map(p, range, p->unit, second);
    map(p, range + 3 * p->unit, p->unit, first);
    expect(p, range, p->unit, 22);
    expect(p, range + 3 * p->unit, p->unit, 21);
    OK(p->ops->vm_unmap(p->driver, p->device, range, p->unit));
    OK(p->ops->vm_unmap(p->driver, p->device, range + 3 * p->unit, p->unit));
    OK(p->ops->vm_release(p->driver, p->device, first));
    OK(p->ops->vm_release(p->driver, p->device, second));
    OK(p->ops->vm_unreserve(p->driver, p->device, range, 4 * p->unit));
}

static void one_page_at_two_addresses(void **state)
{
    struct place *p = *state;
    unsigned char *range;
    uint64_t handle;

    NEEDS_VIRTUAL(p);
    range = reserve(p, 2 * p->unit);
    handle = create(p, p->unit, false);
    map(p, range, p->unit, handle);
    map(p, range + p->unit, p->unit, handle);
    put(p, range, 1000, 31);
    expect(p, range + p->unit, 1000, 31);
    put(p, range + p->unit, 1000, 32);
    expect(p, range, 1000, 32);
    OK(p->ops->vm_unmap(p->driver, p->device, range, p->unit));
    OK(p->ops->vm_unmap(p->driver, p->device, range + p->unit, p->unit));
    OK(p->ops->vm_release(p->driver, p->device, handle));
    OK(p->ops->vm_unreserve(p->driver, p->device, range, 2 * p->unit));
}

static void a_released_page_lives_while_it_is_mapped(void **state)
{
    struct place *p = *state;
    uint64_t handle, before, after, with, total;
    unsigned char *range;

    NEEDS_VIRTUAL(p);
    range = reserve(p, p->unit);
    OK(p->ops->device_memory(p->driver, p->device, &before, &total));
    handle = create(p, p->unit, false);
    map(p, range, p->unit, handle);
    put(p, range, p->unit, 41);
    OK(p->ops->vm_release(p->driver, p->device, handle));
    expect(p, range, p->unit, 41);
    OK(p->ops->device_memory(p->driver, p->device, &with, &total));
    OK(p->ops->vm_unmap(p->driver, p->device, range, p->unit));
    OK(p->ops->device_memory(p->driver, p->device, &after, &total));
    if (test_on_cpu()) {
        /* On the CPU device the figures are exact, because no other process uses it. */
        assert_true(with < before);
        assert_true(after == before);
    }
    OK(p->ops->vm_unreserve(p->driver, p->device, range, p->unit));
}

static void too_much_is_refused(void **state)
{
    struct place *p = *state;
    uint64_t handle = 77, free_bytes, total_bytes;
    size_t bytes;

    NEEDS_VIRTUAL(p);
    OK(p->ops->device_memory(p->driver, p->device, &free_bytes, &total_bytes));
    bytes = (size_t)(total_bytes / p->unit + 1) * p->unit;
    assert_int_equal(p->ops->vm_create(p->driver, p->device, bytes, false, &handle), LEAT_ERROR_DEVICE_MEMORY);
    assert_true(strlen(leat_last_error()) > 0);
    assert_int_equal(handle, 77);
}

static void many_pages_come_and_go(void **state)
{
    enum { SLOTS = 16, ROUNDS = 300 };
    struct place *p = *state;
    uint64_t handles[SLOTS] = {0}, seeds[SLOTS] = {0};
    unsigned char *range;

    NEEDS_VIRTUAL(p);
    range = reserve(p, SLOTS * p->unit);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        size_t slot = leat_pattern_value(round, 3) % SLOTS;
        unsigned char *place = range + slot * p->unit;

        if (seeds[slot]) {
            expect(p, place, 4096, seeds[slot]);
            OK(p->ops->vm_unmap(p->driver, p->device, place, p->unit));
            OK(p->ops->vm_release(p->driver, p->device, handles[slot]));
            seeds[slot] = 0;
        } else {
            handles[slot] = create(p, p->unit, round % 5 == 0);
            map(p, place, p->unit, handles[slot]);
            seeds[slot] = round + 1;
            put(p, place, 4096, seeds[slot]);
        }
    }
    for (size_t slot = 0; slot < SLOTS; slot++) {
        if (!seeds[slot])
            continue;
        OK(p->ops->vm_unmap(p->driver, p->device, range + slot * p->unit, p->unit));
        OK(p->ops->vm_release(p->driver, p->device, handles[slot]));
    }
    OK(p->ops->vm_unreserve(p->driver, p->device, range, SLOTS * p->unit));
}

/* Imports the memory of fd, maps it, checks its bytes and overwrites them. */
static void use_import(struct place *p, int fd, uint64_t expected, uint64_t written)
{
    unsigned char *range = reserve(p, p->unit);
    uint64_t handle;

    OK(p->ops->vm_import(p->driver, p->device, fd, p->unit, &handle));
    map(p, range, p->unit, handle);
    expect(p, range, p->unit, expected);
    put(p, range, p->unit, written);
    OK(p->ops->vm_unmap(p->driver, p->device, range, p->unit));
    OK(p->ops->vm_release(p->driver, p->device, handle));
    OK(p->ops->vm_unreserve(p->driver, p->device, range, p->unit));
}

static void export_and_import(void **state)
{
    struct place *p = *state;
    unsigned char *range;
    uint64_t handle;
    char number[16];
    int fd = -1, status;
    pid_t child;

    NEEDS_VIRTUAL(p);
    range = reserve(p, p->unit);
    handle = create(p, p->unit, true);
    map(p, range, p->unit, handle);
    put(p, range, p->unit, 51);
    OK(p->ops->vm_export(p->driver, p->device, handle, &fd));
    assert_true(fd >= 0);
    use_import(p, fd, 51, 52);
    expect(p, range, p->unit, 52);

    /* Import the memory in another process. */
    assert_int_equal(fcntl(fd, F_SETFD, 0), 0);
    snprintf(number, sizeof number, "%d", fd);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "unit_virtual", "--import", number, (char *)NULL);
        _exit(126);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    expect(p, range, p->unit, 53);

    close(fd);
    OK(p->ops->vm_unmap(p->driver, p->device, range, p->unit));
    OK(p->ops->vm_release(p->driver, p->device, handle));
    OK(p->ops->vm_unreserve(p->driver, p->device, range, p->unit));
}

static int imported_fd;

static void import_in_another_process(void **state)
{
    use_import(*state, imported_fd, 52, 53);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_used_where_they_are_mapped),
        cmocka_unit_test(pages_move_with_their_contents),
        cmocka_unit_test(one_page_at_two_addresses),
        cmocka_unit_test(a_released_page_lives_while_it_is_mapped),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(many_pages_come_and_go),
        cmocka_unit_test(export_and_import),
    };
    static const struct CMUnitTest import_tests[] = {cmocka_unit_test(import_in_another_process)};

    if (!test_device_there())
        return 77;
    if (argc == 3 && !strcmp(argv[1], "--import")) {
        imported_fd = atoi(argv[2]);
        return cmocka_run_group_tests(import_tests, open_place, close_place) ? 1 : 0;
    }
    return cmocka_run_group_tests(tests, open_place, close_place) ? 1 : 0;
}
