/*
 * unit_pinned.c - tests how pools of pinned memory allocate their chunks: addresses, pages, drivers that refuse a
 * step, NUMA nodes, and threads that touch the pages.
 *
 * LEAT_TEST_DEVICE names the device. The program can also measure the speed. The arguments are the device and the
 * number of bytes:
 *
 *     unit_pinned measure cuda:0 2147483648
 */
#include "pinned_chunks.h"

#include "base/clock.h"

#include <dirent.h>
#include <inttypes.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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
    /* Give the chunks back in another order. */
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
    assert_int_equal(leati_fresh_threads(2 * MIB), 1);
    assert_int_equal(leati_fresh_threads(62 * MIB), 1);
    assert_int_equal(leati_fresh_threads(64 * MIB), processors < 2 ? 1 : 2);
    assert_int_equal(leati_fresh_threads(510 * MIB), processors < 15 ? processors : 15);
    assert_int_equal(leati_fresh_threads((size_t)1 << 40), processors < 16 ? processors : 16);
    /* leat must count the processors that this thread may run on, and not those of the machine. */
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(leati_fresh_threads((size_t)1 << 40), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

/* Work of the device must read and write a chunk like other pinned memory: the calls must not wait. */
static void the_device_works_in_it(void **state)
{
    enum { PART = 1000001 };
    struct test_state *t = *state;
    char *host = take(t->device, 6 * MIB, 5), *memory = test_alloc(t->device, LEAT_KIND_DEVICE, PART);
    struct leati_memory known = {
        .device = t->device, .base = (uintptr_t)host, .bytes = 6 * MIB, .kind = LEAT_KIND_PINNED};
    struct test_gate *gate;
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;

    OK(leati_pointers_add(&known));
    OK(leat_pointer_get_info(host + PART, &info));
    assert_int_equal(info.kind, LEAT_KIND_PINNED);
    assert_ptr_equal(info.device_pointer, host + PART);
    gate = test_gate_close(t->stream);
    /* These calls would wait if leat considered the memory pageable. */
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

/* Makes one driver call fail. leat must then get usable memory in another way. */
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
        /* A successful call must leave the message of an earlier call unchanged. */
        assert_non_null(strstr(leat_last_error(), "a chunk of 1 bytes"));
        /* The driver's own call has allocated this memory, so the driver must free it. */
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
    /* The message must contain the fault driver's message, and the status must be the fault driver's. */
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

    /* leat uses registered memory if the device has the same address for it, or if the driver has no separate
     * device addresses. */
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
        /* leat queries the node only once, because it does not change and the query is slow. */
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
    /* The memory must have no policy of its own, so that the thread's policy applies. */
    assert_int_equal(policy_at(ptr, &mask), MPOL_DEFAULT);
    assert_int_equal(syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0ul), 0);
    give_back(&odd->device, ptr, 2 * MIB, 4);
}

/* ---- threads ------------------------------------------------------------------------------------------------ */

struct worker {
    leat_device *device;
    unsigned seed;
    bool wrong;
};

/* Runs in several threads. Does not use the macros of cmocka, because only the main thread may use them. */
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

/* Lists the threads of this process. A thread that starts or ends meanwhile may be missing. */
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

/* Returns the mask of the signals that a thread blocks, in which bit n - 1 is signal n. All bits are set if the
 * thread has ended. */
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
    /* The kernel reports 0 threads, and no blocked signals, for a thread that is ending. */
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

/* The program's signal handlers must not run on the threads with which leat touches pages. */
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
    if (leati_fresh_threads(128 * MIB) < 2)
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

/* ---- measuring ---------------------------------------------------------------------------------------------- */

static double milliseconds_since(uint64_t start_ns)
{
    return (double)(leati_clock_ns() - start_ns) / 1e6;
}

/* Measures leat's way and the driver's own call five times each, in turns, so that both see the same load of the
 * machine. */
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
           leati_fresh_threads(bytes), "take", "give back", "host_alloc", "host_free");
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
        STATE_TEST(threads_do_not_meet),
        STATE_TEST(helpers_take_no_signals),
    };

    if (argc == 4 && !strcmp(argv[1], "measure"))
        return measure(argv[2], strtoull(argv[3], NULL, 10));
    setenv("LEAT_FAULT", "none", 1);
    if (!test_device_there())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
