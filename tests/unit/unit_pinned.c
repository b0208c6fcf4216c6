/*
 * unit_pinned.c - where pools of pinned memory get their chunks from, and how much host memory there is to get.
 *
 * LEAT_TEST_DEVICE names the device. What a kernel refuses is refused here by a filter of system calls, which
 * would stay for ever; so for that this program runs itself again. It measures, too:
 *
 *     unit_pinned measure cuda:0 2147483648
 */
#include "harness.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/mem_limit.h"
#include "driver/fault/fault.h"
#include "driver/registry.h"
#include "pool/pinned.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/mempolicy.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* ---- what the tests share ---------------------------------------------------------------------------------- */

static struct leati_driver *wrapper(const struct test_state *t)
{
    return t->device->driver;
}

/* The bytes of [ptr, ptr + bytes) that have a page; -1 where something is not mapped. */
static long long resident_bytes(const void *ptr, size_t bytes)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), pages = bytes / page_bytes;
    unsigned char *there = test_buffer(pages);
    long long count = 0;

    if (mincore((void *)(uintptr_t)ptr, bytes, there)) {
        free(there);
        return -1;
    }
    for (size_t i = 0; i < pages; i++)
        count += there[i] & 1;
    free(there);
    return count * (long long)page_bytes;
}

/* Do no others come and go, a checker's or a vendor's? */
static bool addresses_are_ours(void)
{
    return !SANITIZED && test_on_cpu();
}

/* The bytes of addresses that this process has; 0 where they say nothing. */
static size_t address_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    size_t pages = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu", &pages), 1);
    fclose(file);
    return addresses_are_ours() ? pages * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

/* Takes a chunk that is as it should be, and fills it. */
static void *take(leat_device *device, size_t bytes, uint64_t seed)
{
    void *ptr = NULL;

    OK(leati_pinned_take(device, bytes, &ptr));
    assert_non_null(ptr);
    assert_int_equal((uintptr_t)ptr % LEATI_PINNED_UNIT, 0);
    assert_int_equal(resident_bytes(ptr, bytes), bytes);
    test_pattern(ptr, bytes, seed);
    return ptr;
}

static void give_back(leat_device *device, void *ptr, size_t bytes, uint64_t seed)
{
    EXPECT_PATTERN(ptr, bytes, seed);
    OK(leati_pinned_give_back(device, ptr, bytes));
}

/* The messages here begin below the call, which the pool puts in front. */
static void refused(leat_status status, leat_status wanted, const char *words)
{
    assert_int_equal(status, wanted);
    if (!strstr(leat_last_error(), words))
        fail_msg("\"%s\" is not in: %s", words, leat_last_error());
}

/* ---- a driver that is odd in some way, and otherwise the one under test ----------------------------------- */

struct odd_driver {
    struct leati_driver base;
    struct leati_driver_ops ops;
    struct leati_driver *real;
    struct leat_device device;
    bool refuses_to_register, refuses_to_allocate, refuses_info;
    size_t device_offset; /* between the address for the host and that for the device */
    size_t skew;          /* of what host_alloc gives */
    int node;
    void (*during_info)(struct odd_driver *odd);
    unsigned registered, allocated, asked; /* calls that succeeded; device_info */
};

static struct odd_driver *odd_of(struct leati_driver *driver)
{
    return (struct odd_driver *)(void *)driver;
}

static leat_status odd_info(struct leati_driver *driver, int ordinal, leat_device_info *info)
{
    struct odd_driver *odd = odd_of(driver);

    odd->asked++;
    if (odd->during_info) {
        /* It reads messages, and the call may be a quiet one. */
        unsigned quiet = leati_error_loud_begin();

        odd->during_info(odd);
        leati_error_loud_end(quiet);
    }
    if (odd->refuses_info)
        return leati_fail(LEAT_ERROR_DRIVER, "the driver does not know its device");
    LEATI_TRY(odd->real->ops->device_info(odd->real, ordinal, info));
    info->numa_node = odd->node;
    return LEAT_OK;
}

static leat_status odd_register(struct leati_driver *driver, void *device, void *ptr, size_t bytes)
{
    struct odd_driver *odd = odd_of(driver);

    if (odd->refuses_to_register)
        return leati_fail(LEAT_ERROR_DRIVER, "the limit of locked memory is reached");
    LEATI_TRY(odd->real->ops->host_register(odd->real, device, ptr, bytes));
    odd->registered++;
    return LEAT_OK;
}

static leat_status odd_unregister(struct leati_driver *driver, void *device, void *ptr)
{
    struct odd_driver *odd = odd_of(driver);

    LEATI_TRY(odd->real->ops->host_unregister(odd->real, device, ptr));
    odd->registered--;
    return LEAT_OK;
}

static leat_status odd_device_pointer(struct leati_driver *driver, void *device, void *ptr, void **device_pointer)
{
    struct odd_driver *odd = odd_of(driver);

    (void)device;
    *device_pointer = (char *)ptr + odd->device_offset;
    return LEAT_OK;
}

static leat_status odd_alloc(struct leati_driver *driver, void *device, size_t bytes, void **ptr)
{
    struct odd_driver *odd = odd_of(driver);
    void *memory;

    if (odd->refuses_to_allocate)
        return leati_fail(LEAT_ERROR_DEVICE_MEMORY, "the driver has none either");
    LEATI_TRY(odd->real->ops->host_alloc(odd->real, device, bytes + odd->skew, &memory));
    odd->allocated++;
    *ptr = (char *)memory + odd->skew;
    return LEAT_OK;
}

static leat_status odd_free(struct leati_driver *driver, void *device, void *ptr)
{
    struct odd_driver *odd = odd_of(driver);

    LEATI_TRY(odd->real->ops->host_free(odd->real, device, (char *)ptr - odd->skew));
    odd->allocated--;
    return LEAT_OK;
}

/* Kept to the end of the program, since what is known of a driver's devices is kept by the driver's address. */
static struct odd_driver *odd_driver(const leat_device *device)
{
    static struct odd_driver made[32];
    static unsigned count;
    struct odd_driver *odd = &made[count++];

    assert_true(count <= sizeof made / sizeof made[0]);
    odd->real = device->driver;
    odd->base = *device->driver;
    odd->base.ops = &odd->ops;
    odd->ops = (struct leati_driver_ops){
        .device_info = odd_info,
        .host_alloc = odd_alloc,
        .host_free = odd_free,
        .host_register = odd_register,
        .host_unregister = odd_unregister,
        .host_device_pointer = odd_device_pointer,
    };
    odd->device.driver = &odd->base;
    odd->device.native = device->native;
    odd->device.ordinal = device->ordinal;
    odd->node = -1;
    return odd;
}

/* ---- chunks ------------------------------------------------------------------------------------------------- */

static void chunks_are_all_there(void **state)
{
    static const size_t sizes[] = {2 * MIB, 6 * MIB, 64 * MIB, 98 * MIB};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    struct test_state *t = *state;
    uint64_t live = leati_fault_live(wrapper(t));
    void *ptrs[COUNT];

    for (unsigned i = 0; i < COUNT; i++)
        ptrs[i] = take(t->device, sizes[i], i);
    assert_int_equal(leati_fault_live(wrapper(t)), live + COUNT);
    /* In another order. */
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned j = (i * 3 + 2) % COUNT;

        give_back(t->device, ptrs[j], sizes[j], j);
        assert_int_equal(resident_bytes(ptrs[j], sizes[j]), -1);
    }
    assert_int_equal(leati_fault_live(wrapper(t)), live);
}

static void nothing_is_mapped_but_the_chunk(void **state)
{
    struct test_state *t = *state;
    void *first = take(t->device, 2 * MIB, 0);
    size_t before = address_bytes();
    void *second = take(t->device, 10 * MIB, 1);

    assert_int_equal(address_bytes() - before, addresses_are_ours() ? 10 * MIB : 0);
    give_back(t->device, second, 10 * MIB, 1);
    assert_int_equal(address_bytes(), before);
    give_back(t->device, first, 2 * MIB, 0);
}

static void odd_sizes_are_refused(void **state)
{
    static const size_t sizes[] = {0, 1, MIB, 3 * MIB, 2 * MIB + 1, SIZE_MAX, SIZE_MAX - 2 * MIB + 1};
    struct test_state *t = *state;
    void *ptr = &ptr;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        refused(leati_pinned_take(t->device, sizes[i], &ptr), LEAT_ERROR_INVALID, "2 MiB");
    assert_ptr_equal(ptr, &ptr);
}

static void only_whole_chunks_go_back(void **state)
{
    struct test_state *t = *state;
    char *ptr = take(t->device, 4 * MIB, 3);

    refused(leati_pinned_give_back(t->device, ptr + 2 * MIB, 2 * MIB), LEAT_ERROR_POINTER, "no chunk");
    refused(leati_pinned_give_back(t->device, ptr, 2 * MIB), LEAT_ERROR_POINTER, "no chunk");
    refused(leati_pinned_give_back(t->device, t, 2 * MIB), LEAT_ERROR_POINTER, "no chunk");
    give_back(t->device, ptr, 4 * MIB, 3);
    refused(leati_pinned_give_back(t->device, ptr, 4 * MIB), LEAT_ERROR_POINTER, "no chunk");
}

static void one_thread_for_each_32_mib(void **state)
{
    unsigned processors;
    cpu_set_t before, one;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    processors = (unsigned)CPU_COUNT(&before);
    assert_int_equal(leati_pinned_threads(2 * MIB), 1);
    assert_int_equal(leati_pinned_threads(62 * MIB), 1);
    assert_int_equal(leati_pinned_threads(64 * MIB), processors < 2 ? 1 : 2);
    assert_int_equal(leati_pinned_threads(510 * MIB), processors < 15 ? processors : 15);
    assert_int_equal(leati_pinned_threads((size_t)1 << 40), processors < 16 ? processors : 16);
    /* What this thread may use, not what there is. */
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(leati_pinned_threads((size_t)1 << 40), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

/* Work of the device reads and writes the memory as it would any pinned memory, behind the caller's back. */
static void the_device_works_in_it(void **state)
{
    enum { PART = 1000001 };
    struct test_state *t = *state;
    char *host = take(t->device, 6 * MIB, 5), *memory = test_alloc(t->device, LEAT_KIND_DEVICE, PART);
    struct leati_memory known = {
        .device = t->device, .base = (uintptr_t)host, .bytes = 6 * MIB, .kind = LEAT_KIND_PINNED};
    struct test_gate *gate;
    leat_pointer_info info;

    OK(leati_pointers_add(&known));
    OK(leat_pointer_query(host + PART, &info));
    assert_int_equal(info.kind, LEAT_KIND_PINNED);
    assert_ptr_equal(info.device_pointer, host + PART);
    gate = test_gate_close(t->stream);
    /* These would wait if the memory were taken for pageable. */
    OK(leat_copy(t->stream, memory, host + 8, PART));
    OK(leat_copy(t->stream, host + 3 * MIB, memory, PART));
    OK(leat_fill(t->stream, host + 5 * MIB, 0x5a, MIB));
    EXPECT_HELD(t->stream, gate);
    EXPECT_PATTERN(host, 6 * MIB, 5);
    memset(host + 8, 0x77, PART);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    EXPECT_BYTES(host + 3 * MIB, PART, 0x77);
    EXPECT_BYTES(host + 5 * MIB, MIB, 0x5a);
    OK(leati_pointers_take("test", host, LEATI_ALLOCATED, NULL, &known));
    OK(leati_pinned_give_back(t->device, host, 6 * MIB));
    OK(leat_memory_free(memory));
}

/* ---- drivers that refuse -------------------------------------------------------------------------------- */

/* One call of the entry fails. What is got all the same must be whole. */
static void a_refused_step_is_taken_another_way(void **state)
{
    static const char *const entries[] = {"host_register", "host_device_pointer"};
    struct test_state *t = *state;
    uint64_t live = leati_fault_live(wrapper(t));
    void *ptr;

    for (unsigned i = 0; i < (wrapper(t)->ops->host_device_pointer ? 2 : 1); i++) {
        refused(leati_pinned_take(t->device, 1, &ptr), LEAT_ERROR_INVALID, "a chunk of 1 bytes");
        leati_fault_arm(wrapper(t), LEATI_FAULT_FAIL, entries[i], 1);
        ptr = take(t->device, 4 * MIB, i);
        assert_true(leati_fault_fired(wrapper(t)));
        assert_int_equal(leati_fault_live(wrapper(t)), live + 1);
        /* A call that succeeds leaves the message of an earlier one. */
        assert_non_null(strstr(leat_last_error(), "a chunk of 1 bytes"));
        /* It came from the driver's own call, so it goes back there. */
        leati_fault_arm(wrapper(t), LEATI_FAULT_FAIL, "host_free", 1);
        refused(leati_pinned_give_back(t->device, ptr, 4 * MIB), LEAT_ERROR_DRIVER, "host_free");
        give_back(t->device, ptr, 4 * MIB, i);
        assert_int_equal(leati_fault_live(wrapper(t)), live);
    }
    leati_fault_arm(wrapper(t), LEATI_FAULT_NONE, NULL, 0);
}

static void what_the_driver_keeps_stays(void **state)
{
    struct test_state *t = *state;
    uint64_t live = leati_fault_live(wrapper(t));
    void *ptr = take(t->device, 2 * MIB, 9);

    leati_fault_arm(wrapper(t), LEATI_FAULT_FAIL, "host_unregister", 1);
    refused(leati_pinned_give_back(t->device, ptr, 2 * MIB), LEAT_ERROR_DRIVER, "host_unregister");
    assert_int_equal(leati_fault_live(wrapper(t)), live + 1);
    give_back(t->device, ptr, 2 * MIB, 9);
    leati_fault_arm(wrapper(t), LEATI_FAULT_NONE, NULL, 0);
    assert_int_equal(leati_fault_live(wrapper(t)), live);
    assert_int_equal(resident_bytes(ptr, 2 * MIB), -1);
}

static void when_both_ways_fail_both_are_said(void **state)
{
    struct test_state *t = *state;
    struct odd_driver *odd = odd_driver(t->device);
    uint64_t live = leati_fault_live(wrapper(t));
    void *ptr = &ptr;
    size_t before;

    odd->refuses_to_register = true;
    odd->refuses_to_allocate = true;
    refused(leati_pinned_take(&odd->device, 4 * MIB, &ptr), LEAT_ERROR_HOST_MEMORY, "the driver has none either");
    refused(LEAT_OK, LEAT_OK, "the limit of locked memory is reached");
    before = address_bytes();
    /* The fault driver's own words and status come through. */
    odd->refuses_to_allocate = false;
    leati_fault_arm(wrapper(t), LEATI_FAULT_FAIL, "host_alloc", 1);
    refused(leati_pinned_take(&odd->device, 4 * MIB, &ptr), LEAT_ERROR_DRIVER, "(host_alloc) was made to fail");
    refused(LEAT_OK, LEAT_OK, "the limit of locked memory is reached");
    leati_fault_arm(wrapper(t), LEATI_FAULT_NONE, NULL, 0);
    assert_ptr_equal(ptr, &ptr);
    assert_int_equal(leati_fault_live(wrapper(t)), live);
    assert_int_equal(address_bytes(), before);
}

static void another_address_on_the_device_will_not_do(void **state)
{
    struct test_state *t = *state;
    struct odd_driver *odd = odd_driver(t->device);
    void *ptr;

    odd->device_offset = 4096;
    ptr = take(&odd->device, 2 * MIB, 1);
    assert_int_equal(odd->registered, 0);
    assert_int_equal(odd->allocated, 1);
    give_back(&odd->device, ptr, 2 * MIB, 1);
    assert_int_equal(odd->allocated, 0);

    /* And the same one does, or that of a driver that has one address for all. */
    odd->device_offset = 0;
    for (unsigned i = 0; i < 2; i++) {
        ptr = take(&odd->device, 2 * MIB, 1);
        assert_int_equal(odd->registered, 1);
        assert_int_equal(odd->allocated, 0);
        give_back(&odd->device, ptr, 2 * MIB, 1);
        assert_int_equal(odd->registered, 0);
        odd->ops.host_device_pointer = NULL;
    }
}

static void the_driver_s_memory_is_aligned_too(void **state)
{
    static const size_t skews[] = {0, 4096, 2 * MIB - 4096, 2 * MIB};
    struct test_state *t = *state;
    struct odd_driver *odd = odd_driver(t->device);
    void *ptr;

    odd->ops.host_register = NULL;
    odd->ops.host_unregister = NULL;
    for (size_t i = 0; i < sizeof skews / sizeof skews[0]; i++) {
        odd->skew = skews[i];
        ptr = take(&odd->device, 4 * MIB, i);
        assert_int_equal(odd->allocated, 1);
        give_back(&odd->device, ptr, 4 * MIB, i);
        assert_int_equal(odd->allocated, 0);
    }
}

/* ---- NUMA nodes --------------------------------------------------------------------------------------------- */

static int policy_at(void *ptr, unsigned long *mask)
{
    unsigned long nodes[16] = {0};
    int policy = -1;

    if (syscall(SYS_get_mempolicy, &policy, nodes, 1024ul, ptr, (unsigned long)MPOL_F_ADDR))
        return -1;
    *mask = nodes[0];
    return policy;
}

#define NEEDS_POLICIES()                                                                                          \
    do {                                                                                                          \
        if (syscall(SYS_get_mempolicy, NULL, NULL, 0, NULL, 0))                                                   \
            SKIP_OTHER("this kernel has no memory policies");                                                     \
    } while (0)

static void pages_come_from_the_device_s_node(void **state)
{
    struct test_state *t = *state;
    struct odd_driver *odd = odd_driver(t->device);
    unsigned long mask;
    void *ptr;

    NEEDS_POLICIES();
    odd->node = 0;
    for (unsigned i = 0; i < 2; i++) {
        ptr = take(&odd->device, 2 * MIB, 1);
        assert_int_equal(policy_at(ptr, &mask), MPOL_PREFERRED);
        assert_int_equal(mask, 1);
        give_back(&odd->device, ptr, 2 * MIB, 1);
        /* The node does not change, and asking for it takes time. */
        assert_int_equal(odd->asked, 1);
    }
}

static void an_unknown_node_is_no_error(void **state)
{
    static const int unknown[] = {-1, 1, 63, 64, 1023, 1024, 1 << 30};
    struct test_state *t = *state;
    unsigned long mask;

    NEEDS_POLICIES();
    for (size_t i = 0; i <= sizeof unknown / sizeof unknown[0]; i++) {
        struct odd_driver *odd = odd_driver(t->device);
        void *ptr;

        if (i < sizeof unknown / sizeof unknown[0])
            odd->node = unknown[i];
        else
            odd->refuses_info = true;
        ptr = take(&odd->device, 2 * MIB, i);
        if (odd->node == -1)
            assert_int_equal(policy_at(ptr, &mask), MPOL_DEFAULT);
        give_back(&odd->device, ptr, 2 * MIB, i);
    }
}

static void the_program_s_own_policy_stays(void **state)
{
    struct test_state *t = *state;
    struct odd_driver *odd = odd_driver(t->device);
    unsigned long mask = 1;
    void *ptr;

    NEEDS_POLICIES();
    odd->node = 0;
    assert_int_equal(syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, &mask, 64ul), 0);
    ptr = take(&odd->device, 2 * MIB, 4);
    /* The memory has none of its own. */
    assert_int_equal(policy_at(ptr, &mask), MPOL_DEFAULT);
    assert_int_equal(syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0ul), 0);
    give_back(&odd->device, ptr, 2 * MIB, 4);
}

/* ---- how much there is ---------------------------------------------------------------------------------- */

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
    /* The driver was not even asked. */
    assert_int_equal(leati_fault_calls(wrapper(t)), calls);
    assert_int_equal(leati_fault_live(wrapper(t)), live);
}

/* The figures of the message above: what is available, what may be pinned. */
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

/* In the midst of another call, which has asked how much there is but not touched a page. */
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
    /* A call that is over promises nothing, whatever became of it. */
    look_meanwhile(odd);
    assert_int_equal(promised_bytes, 0);
    odd->refuses_to_register = true;
    odd->refuses_to_allocate = true;
    assert_int_equal(leati_pinned_take(&odd->device, 66 * MIB, &ptr), LEAT_ERROR_HOST_MEMORY);
    look_meanwhile(odd);
    assert_int_equal(promised_bytes, 0);
}

/* Writes a file of a tree that stands for proc/ and sys/. */
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
    char root[64];
};

static int make_tree(void **state)
{
    struct tree *tree = test_buffer(sizeof *tree);

    snprintf(tree->root, sizeof tree->root, "/tmp/leat-unit-pinned-XXXXXX");
    *state = tree;
    return mkdtemp(tree->root) ? 0 : -1;
}

static int remove_tree(void **state)
{
    struct tree *tree = *state;
    char command[128];
    int status;

    snprintf(command, sizeof command, "rm -rf '%s'", tree->root);
    status = system(command);
    free(tree);
    return status;
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
    /* No control group that limits anything changes that. */
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
    /* The one above has less left. */
    put(tree->root, "sys/fs/cgroup/jobs/memory.max", "6000000\n");
    put(tree->root, "sys/fs/cgroup/jobs/memory.current", "5500000\n");
    expect_available(tree, 0, 500000, "the control group /jobs");
    /* Cache of files counts as used, but goes before a process does. */
    put(tree->root, "sys/fs/cgroup/jobs/memory.stat",
        "anon 300\nfile 900000\ninactive_file 100000\nactive_file 20000\nslab 5\ntotal_inactive_file 7\n");
    expect_available(tree, 0, 500000, "the control group /jobs");
    expect_available(tree, 600000, 620000, "the control group /jobs");
    /* Never more than the limit, whatever the figures are by now; and less than nothing is nothing. */
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

/* In a container the path may be that of the host, while what is mounted is the container's own group. */
static void a_container_s_own_group_says(void **state)
{
    struct tree *tree = *state;

    put(tree->root, "proc/meminfo", "MemAvailable: 8000000 kB\n");
    put(tree->root, "proc/self/cgroup", "4:memory:/docker/ab\n");
    put(tree->root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "7000000\n");
    put(tree->root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "6500000\n");
    expect_available(tree, 0, 500000, "the control group /");
}

/* ---- threads ------------------------------------------------------------------------------------------------ */

struct worker {
    leat_device *device;
    unsigned seed;
    bool wrong;
};

/* Not with the macros of the tests, which belong to the main thread. */
static void *take_and_give_back(void *argument)
{
    struct worker *worker = argument;
    unsigned random = worker->seed;

    for (int round = 0; round < 12 && !worker->wrong; round++) {
        size_t bytes = (1 + (size_t)rand_r(&random) % 33) * 2 * MIB;
        unsigned mark = (unsigned)rand_r(&random);
        unsigned *words;
        void *ptr;

        worker->wrong = leati_pinned_take(worker->device, bytes, &ptr) != LEAT_OK;
        if (worker->wrong)
            break;
        words = ptr;
        for (size_t i = 0; i < bytes / sizeof *words; i += 256)
            words[i] = mark;
        sched_yield();
        for (size_t i = 0; i < bytes / sizeof *words; i += 256)
            worker->wrong = worker->wrong || words[i] != mark;
        worker->wrong = leati_pinned_give_back(worker->device, ptr, bytes) != LEAT_OK || worker->wrong;
    }
    return NULL;
}

static void threads_do_not_meet(void **state)
{
    enum { THREADS = 4 };
    struct test_state *t = *state;
    uint64_t live = leati_fault_live(wrapper(t));
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.device = t->device, .seed = i};
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give_back, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(workers[i].wrong);
    }
    assert_int_equal(leati_fault_live(wrapper(t)), live);
}

/* The threads of this process; those that end meanwhile may be missing. */
static unsigned list_threads(pid_t *threads, unsigned room)
{
    DIR *folder = opendir("/proc/self/task");
    struct dirent *entry;
    unsigned count = 0;

    assert_non_null(folder);
    while ((entry = readdir(folder)) && count < room)
        if (entry->d_name[0] != '.')
            threads[count++] = (pid_t)atoi(entry->d_name);
    closedir(folder);
    return count;
}

/* The signals that a thread keeps out, signal n as bit n - 1; all of them for one that has ended. */
static uint64_t blocked_signals(pid_t thread)
{
    char path[64], line[128];
    uint64_t blocked = UINT64_MAX;
    unsigned threads = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)thread);
    file = fopen(path, "re");
    if (!file)
        return blocked;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "Threads: %u", &threads) == 0 && sscanf(line, "SigBlk: %" SCNx64, &blocked) == 1)
            break;
    fclose(file);
    /* One that is ending says that its process has no threads and that it keeps nothing out. */
    return threads ? blocked : UINT64_MAX;
}

static _Atomic pid_t taker;
static atomic_int helpers_seen;

static void *take_until_seen(void *argument)
{
    struct worker *worker = argument;
    void *ptr;

    taker = (pid_t)syscall(SYS_gettid);
    for (int i = 0; i < 2000 && helpers_seen < 3 && !worker->wrong; i++)
        worker->wrong = leati_pinned_take(worker->device, 128 * MIB, &ptr) != LEAT_OK ||
                        leati_pinned_give_back(worker->device, ptr, 128 * MIB) != LEAT_OK;
    taker = 0;
    return NULL;
}

/* A program's handler may rely on the thread that it runs on. */
static void helpers_take_no_signals(void **state)
{
    static const int wanted[] = {SIGINT, SIGTERM, SIGUSR1, SIGPROF, SIGCHLD};
    struct test_state *t = *state;
    struct worker worker = {.device = t->device};
    pid_t before[256], now[256];
    unsigned count_before, count;
    bool let_in = false;
    pthread_t thread;

    if (!test_on_cpu())
        SKIP_OTHER("a vendor's driver has threads of its own");
    if (leati_pinned_threads(128 * MIB) < 2)
        SKIP_OTHER("there is one processor");
    count_before = list_threads(before, 256);
    taker = -1;
    assert_int_equal(pthread_create(&thread, NULL, take_until_seen, &worker), 0);
    while (taker) {
        count = list_threads(now, 256);
        for (unsigned i = 0; i < count; i++) {
            bool known = now[i] == taker || taker <= 0;
            uint64_t blocked;

            for (unsigned j = 0; j < count_before; j++)
                known = known || now[i] == before[j];
            blocked = known ? UINT64_MAX : blocked_signals(now[i]);
            helpers_seen += blocked != UINT64_MAX;
            for (size_t j = 0; j < sizeof wanted / sizeof wanted[0]; j++)
                let_in = let_in || !(blocked >> (wanted[j] - 1) & 1);
        }
    }
    pthread_join(thread, NULL);
    assert_false(worker.wrong);
    assert_true(helpers_seen > 0);
    assert_false(let_in);
}

/* ---- kernels that refuse: in a process of its own --------------------------------------------------------- */

/* From now on the kernel answers this call of this thread, and of those that it starts, with an error. When
 * argument is not -1, only where that argument is value. error 0: the process ends. */
static bool refuse_call(unsigned call, int argument, uint32_t value, int error)
{
    uint32_t action = error ? SECCOMP_RET_ERRNO | (uint32_t)error : SECCOMP_RET_KILL_PROCESS;
    uint32_t place = (uint32_t)offsetof(struct seccomp_data, args) + 8 * (uint32_t)(argument < 0 ? 0 : argument);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, (uint8_t)(argument < 0 ? 1 : 3)),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, place),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_filter without_argument[] = {filter[0], filter[1], filter[4], filter[5]};
    struct sock_fprog program = {.len = argument < 0 ? 4 : 6, .filter = argument < 0 ? without_argument : filter};

    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { CHILD_CANNOT = 70, CHILD_WRONG = 71 };

static void child_needs(bool true_here, int code, int line)
{
    if (true_here)
        return;
    fprintf(stderr, "unit_pinned.c:%d: %s\n", line, leat_last_error());
    _exit(code);
}

#define CHILD_CHECK(true_here) child_needs((true_here), CHILD_WRONG, __LINE__)
#define CHILD_CAN(true_here) child_needs((true_here), CHILD_CANNOT, __LINE__)

static void child_takes(leat_device *device, size_t bytes)
{
    void *ptr = NULL;

    CHILD_CHECK(leati_pinned_take(device, bytes, &ptr) == LEAT_OK);
    CHILD_CHECK(resident_bytes(ptr, bytes) == (long long)bytes);
    memset(ptr, 1, bytes);
    CHILD_CHECK(leati_pinned_give_back(device, ptr, bytes) == LEAT_OK);
}

static void child_is_refused(leat_device *device, size_t bytes, const char *words)
{
    size_t before = address_bytes();
    void *ptr = NULL;

    CHILD_CHECK(leati_pinned_take(device, bytes, &ptr) == LEAT_ERROR_HOST_MEMORY);
    CHILD_CHECK(strstr(leat_last_error(), words) != NULL);
    CHILD_CHECK(!ptr);
    CHILD_CHECK(address_bytes() == before);
}

static void kernel_without_populate(leat_device *device)
{
    CHILD_CAN(refuse_call(SYS_madvise, 2, MADV_POPULATE_WRITE, EINVAL));
    /* Each of the small pages needs a touch of its own. */
    CHILD_CAN(!prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
    child_takes(device, 98 * MIB);
}

static void kernel_without_pages(leat_device *device)
{
    CHILD_CAN(refuse_call(SYS_madvise, 2, MADV_POPULATE_WRITE, ENOMEM));
    child_is_refused(device, 2 * MIB, "Cannot allocate memory");
}

static void kernel_with_bad_pages(leat_device *device)
{
    CHILD_CAN(refuse_call(SYS_madvise, 2, MADV_POPULATE_WRITE, EHWPOISON));
    child_is_refused(device, 2 * MIB, "madvise: ");
}

static void kernel_without_huge_pages(leat_device *device)
{
    CHILD_CAN(refuse_call(SYS_madvise, 2, MADV_HUGEPAGE, EINVAL));
    child_takes(device, 2 * MIB);
}

static void kernel_without_threads(leat_device *device)
{
    CHILD_CAN(refuse_call(SYS_clone3, -1, 0, EAGAIN) && refuse_call(SYS_clone, -1, 0, EAGAIN));
    child_takes(device, 98 * MIB);
}

/* Registering is not reached; the driver has addresses set aside. */
static void kernel_without_addresses(leat_device *device)
{
    CHILD_CAN(refuse_call(SYS_mmap, 1, 6 * MIB, ENOMEM));
    child_takes(device, 4 * MIB);
    child_takes(device, 2 * MIB);
}

static void kernel_without_policies(leat_device *device)
{
    struct odd_driver *odd = odd_driver(device);

    odd->node = 0;
    CHILD_CAN(refuse_call(SYS_get_mempolicy, -1, 0, ENOSYS) && refuse_call(SYS_mbind, -1, 0, EPERM));
    child_takes(&odd->device, 2 * MIB);
}

/* A small chunk is not worth a thread. */
static void kernel_that_ends_who_starts_threads(leat_device *device)
{
    CHILD_CAN(refuse_call(SYS_clone3, -1, 0, 0) && refuse_call(SYS_clone, -1, 0, 0));
    child_takes(device, 62 * MIB);
}

/* A large one is, and so this one does not return. */
static void kernel_that_ends_who_starts_threads_again(leat_device *device)
{
    CHILD_CAN(leati_pinned_threads(64 * MIB) == 2);
    CHILD_CAN(refuse_call(SYS_clone3, -1, 0, 0) && refuse_call(SYS_clone, -1, 0, 0));
    child_takes(device, 64 * MIB);
    _exit(CHILD_WRONG);
}

static void limit_of_addresses(leat_device *device)
{
    struct rlimit limit;

    CHILD_CAN(!SANITIZED);
    CHILD_CHECK(!getrlimit(RLIMIT_AS, &limit));
    limit.rlim_cur = address_bytes() + 4 * MIB;
    CHILD_CHECK(!setrlimit(RLIMIT_AS, &limit));
    child_takes(device, 30 * MIB);
}

/* Registering is the driver's business, and the CPU device locks nothing. */
static void limit_of_locked_memory(leat_device *device)
{
    struct rlimit limit;

    CHILD_CHECK(!getrlimit(RLIMIT_MEMLOCK, &limit));
    limit.rlim_cur = 0;
    CHILD_CHECK(!setrlimit(RLIMIT_MEMLOCK, &limit));
    child_takes(device, 30 * MIB);
}

static const struct child {
    const char *name;
    void (*run)(leat_device *device);
    int signal; /* that it must end by; 0: none */
} children[] = {
    {"without-populate", kernel_without_populate, 0},
    {"without-pages", kernel_without_pages, 0},
    {"with-bad-pages", kernel_with_bad_pages, 0},
    {"without-huge-pages", kernel_without_huge_pages, 0},
    {"without-threads", kernel_without_threads, 0},
    {"without-addresses", kernel_without_addresses, 0},
    {"without-policies", kernel_without_policies, 0},
    {"no-threads-for-small", kernel_that_ends_who_starts_threads, 0},
    {"threads-for-large", kernel_that_ends_who_starts_threads_again, SIGSYS},
    {"limit-of-addresses", limit_of_addresses, 0},
    {"limit-of-locked-memory", limit_of_locked_memory, 0},
};

static int run_child(const char *name)
{
    leat_device *device = test_open();

    for (size_t i = 0; i < sizeof children / sizeof children[0]; i++)
        if (!strcmp(children[i].name, name)) {
            children[i].run(device);
            /* Not exit(): what a checker does at the end may need what is refused. */
            _exit(0);
        }
    return CHILD_WRONG;
}

static void kernels_that_refuse_do_no_harm(void **state)
{
    (void)state;
    if (!test_on_cpu())
        SKIP_OTHER("a vendor's driver makes system calls of its own");
    for (size_t i = 0; i < sizeof children / sizeof children[0]; i++) {
        int status;
        pid_t child;

        fflush(NULL);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            execl("/proc/self/exe", "unit_pinned", "child", children[i].name, (char *)NULL);
            _exit(126);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_CANNOT)
            print_message("           left out here: %s\n", children[i].name);
        else if (children[i].signal ? !WIFSIGNALED(status) || WTERMSIG(status) != children[i].signal
                                    : !WIFEXITED(status) || WEXITSTATUS(status))
            fail_msg("%s: wait status 0x%x", children[i].name, (unsigned)status);
    }
}

/* ---- measuring ---------------------------------------------------------------------------------------------- */

static double milliseconds_since(uint64_t start_ns)
{
    return (double)(leati_clock_ns() - start_ns) / 1e6;
}

/* Five times each, in turns, so that both meet the same machine. */
static int measure(const char *name, size_t bytes)
{
    leat_device *device;
    const struct leati_driver_ops *ops;

    if (leat_device_open(name, &device) != LEAT_OK) {
        fprintf(stderr, "unit_pinned: %s\n", leat_last_error());
        return 77;
    }
    ops = device->driver->ops;
    printf("%zu bytes on %s, %u threads; milliseconds\n%10s %10s %12s %10s\n", bytes, name,
           leati_pinned_threads(bytes), "take", "give back", "host_alloc", "host_free");
    for (int i = 0; i < 5; i++) {
        double taken, given_back, allocated;
        uint64_t start_ns = leati_clock_ns();
        void *ptr;

        OK(leati_pinned_take(device, bytes, &ptr));
        taken = milliseconds_since(start_ns);
        start_ns = leati_clock_ns();
        OK(leati_pinned_give_back(device, ptr, bytes));
        given_back = milliseconds_since(start_ns);
        start_ns = leati_clock_ns();
        OK(ops->host_alloc(device->driver, device->native, bytes, &ptr));
        allocated = milliseconds_since(start_ns);
        start_ns = leati_clock_ns();
        OK(ops->host_free(device->driver, device->native, ptr));
        printf("%10.3f %10.3f %12.3f %10.3f\n", taken, given_back, allocated, milliseconds_since(start_ns));
    }
    return leat_device_close(device) == LEAT_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        STATE_TEST(chunks_are_all_there),
        STATE_TEST(nothing_is_mapped_but_the_chunk),
        STATE_TEST(odd_sizes_are_refused),
        STATE_TEST(only_whole_chunks_go_back),
        cmocka_unit_test(one_thread_for_each_32_mib),
        STATE_TEST(the_device_works_in_it),
        STATE_TEST(a_refused_step_is_taken_another_way),
        STATE_TEST(what_the_driver_keeps_stays),
        STATE_TEST(when_both_ways_fail_both_are_said),
        STATE_TEST(another_address_on_the_device_will_not_do),
        STATE_TEST(the_driver_s_memory_is_aligned_too),
        STATE_TEST(pages_come_from_the_device_s_node),
        STATE_TEST(an_unknown_node_is_no_error),
        STATE_TEST(the_program_s_own_policy_stays),
        STATE_TEST(too_much_is_an_error),
        STATE_TEST(memory_is_promised_once),
        TREE_TEST(the_machine_says),
        TREE_TEST(version_2_of_control_groups_says),
        TREE_TEST(version_1_of_control_groups_says),
        TREE_TEST(a_container_s_own_group_says),
        STATE_TEST(threads_do_not_meet),
        STATE_TEST(helpers_take_no_signals),
        cmocka_unit_test(kernels_that_refuse_do_no_harm),
    };

    if (argc == 4 && !strcmp(argv[1], "measure"))
        return measure(argv[2], strtoull(argv[3], NULL, 10));
    setenv("LEAT_FAULT", "none", 1);
    if (argc == 3 && !strcmp(argv[1], "child"))
        return run_child(argv[2]);
    if (!test_device_there())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
