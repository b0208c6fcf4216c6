/*
 * unit_mem_limit.c - tests how leat computes the host memory that it may still allocate: from the figures of the
 * machine and of the control group. Two allocations at the same time must not count on the same memory.
 */
#include "pinned_chunks.h"
#include "temporary.h"

#include "base/mem_limit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- available memory --------------------------------------------------------------------------------------- */

static void too_much_is_an_error(void **state)
{
    struct test_state *t = *state;
    uint64_t live = leati_fault_live(wrapper(t)), calls = leati_fault_calls(wrapper(t));
    size_t bytes =
        (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) / (2 * MIB) * (2 * MIB) + 2 * MIB;
    struct leati_mem_limit available;
    void *ptr = &ptr;

    leati_mem_limit_get("", UINT64_MAX, &available);
    if (available.bytes == UINT64_MAX)
        SKIP_OTHER("this system does not say how much memory it has");
    refused(leati_pinned_take(t->device, bytes, &ptr), LEAT_ERROR_HOST_MEMORY,
            "bytes of pinned memory are too many");
    refused(leati_pinned_take(t->device, (size_t)1 << 62, &ptr), LEAT_ERROR_HOST_MEMORY, available.whose);
    assert_ptr_equal(ptr, &ptr);
    /* leat must refuse before it calls the driver. */
    assert_int_equal(leati_fault_calls(wrapper(t)), calls);
    assert_int_equal(leati_fault_live(wrapper(t)), live);
}

/* Reads two figures from the message of a refused allocation: the available memory, and how much of it may still
 * be pinned. */
static void read_figures(const struct leat_device *device, uint64_t *available, uint64_t *left)
{
    unsigned long long figures[2];
    const char *of;
    void *ptr;

    refused(leati_pinned_take((leat_device *)(uintptr_t)device, (size_t)1 << 62, &ptr), LEAT_ERROR_HOST_MEMORY,
            "of the ");
    of = strstr(leat_last_error(), "of the ");
    assert_int_equal(sscanf(of, "of the %llu", &figures[0]), 1);
    of = strstr(of, "available, ");
    assert_non_null(of);
    assert_int_equal(sscanf(of, "available, %llu", &figures[1]), 1);
    *available = figures[0];
    *left = figures[1];
}

static uint64_t promised_bytes;

/* Called in the middle of another allocation, which has passed the check of the limit but has not touched a page
 * yet. */
static void look_meanwhile(struct odd_driver *odd)
{
    uint64_t available, left, spared;

    read_figures(&odd->device, &available, &left);
    spared = available / 32 < (uint64_t)1 << 30 ? available / 32 : (uint64_t)1 << 30;
    promised_bytes = available - spared - left;
}

static void memory_is_promised_once(void **state)
{
    struct test_state *t = *state;
    struct odd_driver *odd = odd_driver(t->device);
    void *ptr;

    odd->during_info = look_meanwhile;
    ptr = take(&odd->device, 66 * MIB, 2);
    assert_int_equal(promised_bytes, 66 * MIB);
    give_back(&odd->device, ptr, 66 * MIB, 2);
    /* After a call has returned, leat must reserve nothing for it, whatever the result of the call. */
    look_meanwhile(odd);
    assert_int_equal(promised_bytes, 0);
    odd->refuses_to_register = true;
    odd->refuses_to_allocate = true;
    assert_int_equal(leati_pinned_take(&odd->device, 66 * MIB, &ptr), LEAT_ERROR_HOST_MEMORY);
    look_meanwhile(odd);
    assert_int_equal(promised_bytes, 0);
}

/* Writes a file below root. The test uses root in place of /, with the folders proc/ and sys/. */
static void put(const char *root, const char *path, const char *text)
{
    char full[512];
    FILE *file;

    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
    }
    file = fopen(full, "we");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

struct tree {
    char root[TEMPORARY_PATH];
};

static int make_tree(void **state)
{
    struct tree *tree = test_buffer(sizeof *tree);

    *state = tree;
    return temporary_folder(tree->root) ? 0 : -1;
}

static int remove_tree(void **state)
{
    struct tree *tree = *state;
    bool removed = temporary_folder_remove(tree->root);

    free(tree);
    return removed ? 0 : -1;
}

#define TREE_TEST(function) cmocka_unit_test_setup_teardown(function, make_tree, remove_tree)

static void expect_available(const struct tree *tree, uint64_t enough_bytes, uint64_t bytes, const char *whose)
{
    struct leati_mem_limit available;

    leati_mem_limit_get(tree->root, enough_bytes, &available);
    if (available.bytes != bytes || strcmp(available.whose, whose))
        fail_msg("%llu bytes of %s, not %llu of %s", (unsigned long long)available.bytes, available.whose,
                 (unsigned long long)bytes, whose);
}

static void the_machine_says(void **state)
{
    struct tree *tree = *state;

    expect_available(tree, 0, UINT64_MAX, "this machine");
    put(tree->root, "proc/meminfo", "MemTotal:       100 kB\n");
    expect_available(tree, 0, UINT64_MAX, "this machine");
    put(tree->root, "proc/meminfo", "MemTotal:       9000 kB\nMemAvailable:    8000 kB\nMemFree: 1 kB\n");
    expect_available(tree, 0, 8000 << 10, "this machine");
    /* A control group without a limit changes nothing. */
    put(tree->root, "proc/self/cgroup", "nonsense\n12:cpu:/a\n3:cpuset,memorystick:/b\n\n0::/c/d\n");
    put(tree->root, "sys/fs/cgroup/c/d/memory.max", "max\n");
    put(tree->root, "sys/fs/cgroup/c/memory.max", "9000000000\n");
    put(tree->root, "sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1\n");
    put(tree->root, "sys/fs/cgroup/memory/b/memory.limit_in_bytes", "1\n");
    expect_available(tree, UINT64_MAX, 8000 << 10, "this machine");
}

static void version_2_of_control_groups_says(void **state)
{
    struct tree *tree = *state;

    put(tree->root, "proc/meminfo", "MemAvailable: 8000000 kB\n");
    put(tree->root, "proc/self/cgroup", "0::/jobs/7/step\n");
    put(tree->root, "sys/fs/cgroup/jobs/7/step/memory.max", "5000000\n");
    put(tree->root, "sys/fs/cgroup/jobs/7/step/memory.current", "1000000\n");
    expect_available(tree, 0, 4000000, "the control group /jobs/7/step");
    /* The parent group has less memory left than the group itself. */
    put(tree->root, "sys/fs/cgroup/jobs/memory.max", "6000000\n");
    put(tree->root, "sys/fs/cgroup/jobs/memory.current", "5500000\n");
    expect_available(tree, 0, 500000, "the control group /jobs");
    /* The page cache counts as used memory, but the kernel reclaims it before it kills a process. leat reads it
     * only if the other figures are too small. */
    put(tree->root, "sys/fs/cgroup/jobs/memory.stat",
        "anon 300\nfile 900000\ninactive_file 100000\nactive_file 20000\nslab 5\ntotal_inactive_file 7\n");
    expect_available(tree, 0, 500000, "the control group /jobs");
    expect_available(tree, 600000, 620000, "the control group /jobs");
    /* Whatever the figures are, the result must not be above the limit or below 0. */
    put(tree->root, "sys/fs/cgroup/jobs/memory.stat", "inactive_file 9900000\n");
    put(tree->root, "sys/fs/cgroup/jobs/7/step/memory.max", "50000000\n");
    expect_available(tree, UINT64_MAX, 6000000, "the control group /jobs");
    put(tree->root, "sys/fs/cgroup/jobs/7/memory.max", "1000\n");
    put(tree->root, "sys/fs/cgroup/jobs/7/memory.current", "2000\n");
    expect_available(tree, UINT64_MAX, 0, "the control group /jobs/7");
}

static void version_1_of_control_groups_says(void **state)
{
    struct tree *tree = *state;

    put(tree->root, "proc/meminfo", "MemAvailable: 8000000 kB\n");
    put(tree->root, "proc/self/cgroup", "5:cpu:/x\n4:hugetlb,memory:/docker/ab\n0::/\n");
    put(tree->root, "sys/fs/cgroup/memory/docker/ab/memory.limit_in_bytes", "7000000\n");
    put(tree->root, "sys/fs/cgroup/memory/docker/ab/memory.usage_in_bytes", "6500000\n");
    put(tree->root, "sys/fs/cgroup/memory/docker/ab/memory.stat",
        "inactive_file 3\nactive_file 3\ntotal_inactive_file 200000\ntotal_active_file 300\n");
    put(tree->root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put(tree->root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "6600000\n");
    expect_available(tree, 0, 500000, "the control group /docker/ab");
    expect_available(tree, UINT64_MAX, 700300, "the control group /docker/ab");
}

/* In a container, /proc may show the group's path on the host, although the mounted group is the container's
 * own. */
static void a_container_s_own_group_says(void **state)
{
    struct tree *tree = *state;

    put(tree->root, "proc/meminfo", "MemAvailable: 8000000 kB\n");
    put(tree->root, "proc/self/cgroup", "4:memory:/docker/ab\n");
    put(tree->root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "7000000\n");
    put(tree->root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "6500000\n");
    expect_available(tree, 0, 500000, "the control group /");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        STATE_TEST(too_much_is_an_error),
        STATE_TEST(memory_is_promised_once),
        TREE_TEST(the_machine_says),
        TREE_TEST(version_2_of_control_groups_says),
        TREE_TEST(version_1_of_control_groups_says),
        TREE_TEST(a_container_s_own_group_says),
    };

    setenv("LEAT_FAULT", "none", 1);
    if (!test_device_there())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
