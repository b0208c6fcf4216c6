/*
 * unit_cpu.c - tests internals of the CPU device: which thread runs the work of a stream, when the record of a
 * stream is freed, what counts against the device's memory, frees that the system refuses, the guard page after a
 * block, and the return of pages to the system.
 */
#include "harness.h"

#include "core/core.h"
#include "driver/cpu/cpu.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define MOMENT_US 100000

static struct cpu_device *cpu_of(leat_device *device)
{
    return device->native;
}

/* ---- the calling thread runs the stream's work ---- */

struct step {
    struct cpu_work work;
    void *stream;
    struct step *second;
    atomic_int *running, *both, *ran;
};

/* The first piece of work, which the calling thread runs, submits the second piece. No thread may run the second
 * piece before the first one has ended. */
static void run_step(struct cpu_work *work)
{
    struct step *step = (struct step *)(void *)work;

    if (atomic_fetch_add(step->running, 1))
        atomic_store(step->both, 1);
    if (step->second) {
        cpu_stream_push(step->stream, &step->second->work);
        test_sleep_us(MOMENT_US);
    }
    atomic_fetch_sub(step->running, 1);
    atomic_fetch_add(step->ran, 1);
}

static void work_waits_for_a_caller_in_the_streams_place(void **state)
{
    struct test_state *t = *state;
    struct step *first = test_buffer(sizeof *first), *second = test_buffer(sizeof *second);
    atomic_int running = 0, both = 0, ran = 0;

    *second = (struct step){.work.run = run_step, .running = &running, .both = &both, .ran = &ran};
    *first = *second;
    first->stream = t->stream->native;
    first->second = second;
    OK(leat_stream_synchronize(t->stream));
    assert_true(cpu_stream_run_here(t->stream->native, &first->work));
    OK(leat_stream_synchronize(t->stream));
    assert_int_equal(atomic_load(&ran), 2);
    assert_int_equal(atomic_load(&both), 0);
}

/* ---- streams that are destroyed while a thread waits for them ---- */

/* With --wrap the linker directs calls of pthread_cond_wait() to __wrap_pthread_cond_wait(). In a thread that has
 * set stays_behind, it pauses after the wait, without the lock, until the test sets may_go. */
int __real_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock);

static _Thread_local bool stays_behind;
static atomic_int is_waiting, is_behind, may_go;

int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock)
{
    int result;

    if (stays_behind)
        atomic_store(&is_waiting, 1);
    result = __real_pthread_cond_wait(condition, lock);
    if (stays_behind) {
        stays_behind = false;
        pthread_mutex_unlock(lock);
        atomic_store(&is_behind, 1);
        (void)test_wait_for(&may_go, 1);
        pthread_mutex_lock(lock);
    }
    return result;
}

/* With --wrap the linker directs calls of pthread_join() to __wrap_pthread_join(). */
int __real_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result);

static atomic_int joins;

int __wrap_pthread_join(pthread_t thread, void **result)
{
    atomic_fetch_add(&joins, 1);
    return __real_pthread_join(thread, result);
}

static void *synchronize_device(void *device)
{
    stays_behind = true;
    return (void *)(intptr_t)leat_device_synchronize(device);
}

/* A thread synchronizes the device and waits for a stream. Meanwhile that stream is destroyed and completes its
 * work. The stream's record must stay until the thread has released it, and must then be freed. */
static void a_stream_that_is_waited_for_stays(void **state)
{
    struct test_state *t = *state;
    leat_stream *ended, *second, *third;
    struct test_gate *gate;
    pthread_t thread;
    void *status;
    int before;

    OK(leat_stream_create(t->device, &ended));
    gate = test_gate_close(ended);
    assert_int_equal(pthread_create(&thread, NULL, synchronize_device, t->device), 0);
    /* The thread waits for the newest stream first, and that stream is "ended". */
    assert_true(test_wait_for(&is_waiting, 1));
    OK(leat_stream_destroy(ended));
    test_gate_open(gate);
    assert_true(test_wait_for(&is_behind, 1));
    /* The creation of a stream joins the threads of destroyed streams and frees their records. */
    before = atomic_load(&joins);
    OK(leat_stream_create(t->device, &second));
    assert_int_equal(atomic_load(&joins), before);
    atomic_store(&may_go, 1);
    pthread_join(thread, &status);
    assert_int_equal((intptr_t)status, LEAT_OK);
    before = atomic_load(&joins);
    OK(leat_stream_create(t->device, &third));
    assert_int_equal(atomic_load(&joins), before + 1);
    OK(leat_stream_destroy(second));
    OK(leat_stream_destroy(third));
}

/* ---- what counts against the device's memory ---- */

/* With --wrap the linker directs calls of cpu_managed_add() to __wrap_cpu_managed_add(). */
leat_status __real_cpu_managed_add(void *ptr, size_t bytes);
leat_status __wrap_cpu_managed_add(void *ptr, size_t bytes);

static bool refuse_managed;

leat_status __wrap_cpu_managed_add(void *ptr, size_t bytes)
{
    if (refuse_managed)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "the test has no memory for records");
    return __real_cpu_managed_add(ptr, bytes);
}

static void memory_that_was_refused_counts_for_nothing(void **state)
{
    struct test_state *t = *state;
    struct cpu_device *cpu = cpu_of(t->device);
    uint64_t before = atomic_load(&cpu->used_bytes);
    void *ptr = NULL;

    refuse_managed = true;
    assert_int_equal(cpu_managed_alloc(cpu->driver, cpu, 3 * MIB, &ptr), LEAT_ERROR_HOST_MEMORY);
    refuse_managed = false;
    assert_int_equal(atomic_load(&cpu->used_bytes), before);
    OK(cpu_managed_alloc(cpu->driver, cpu, 3 * MIB, &ptr));
    assert_int_equal(atomic_load(&cpu->used_bytes), before + 3 * MIB);
    OK(cpu_mem_free(cpu->driver, cpu, ptr));
    assert_int_equal(atomic_load(&cpu->used_bytes), before);
}

/* ---- memory that the system does not take back ---- */

/* With --wrap the linker directs calls of mmap() and mprotect() in leat to these functions. They refuse to change
 * the mapping that starts at stuck. */
void *__real_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_mprotect(void *address, size_t bytes, int protection);
int __wrap_mprotect(void *address, size_t bytes, int protection);

static void *stuck;

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (address && address == stuck) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return __real_mmap(address, bytes, protection, flags, fd, offset);
}

int __wrap_mprotect(void *address, size_t bytes, int protection)
{
    if (address && address == stuck) {
        errno = ENOMEM;
        return -1;
    }
    return __real_mprotect(address, bytes, protection);
}

/* After a failed free the caller still owns the managed memory, and all calls still accept it. */
static void managed_memory_that_stays_is_still_known(void **state)
{
    struct test_state *t = *state;
    struct cpu_device *cpu = cpu_of(t->device);
    leat_managed_info info;
    void *ptr = NULL;

    OK(cpu_managed_alloc(cpu->driver, cpu, MIB, &ptr));
    stuck = ptr;
    assert_int_equal(cpu_mem_free(cpu->driver, cpu, ptr), LEAT_ERROR_SYSTEM);
    stuck = NULL;
    OK(cpu_managed_advise(cpu->driver, cpu, ptr, MIB, LEAT_ADVICE_READ_MOSTLY, NULL));
    OK(cpu_managed_prefetch(cpu->driver, t->stream->native, ptr, MIB, cpu));
    OK(leat_stream_synchronize(t->stream));
    OK(cpu_mem_free(cpu->driver, cpu, ptr));
    assert_int_equal(cpu_managed_query(cpu->driver, cpu, ptr, MIB, &info), LEAT_ERROR_POINTER);
}

/* ---- addresses ---- */

/* Memory that was freed in stream order no longer belongs to the program, even before the stream reaches the
 * free. */
static void memory_on_its_way_back_is_gone(void **state)
{
    struct test_state *t = *state;
    struct test_gate *gate = test_gate_close(t->stream);
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    char own[16] = {0};
    char *block;

    OK(leat_alloc_driver(t->stream, 4096, (void **)(void *)&block));
    OK(leat_fill(t->stream, block, 1, 4096));
    OK(leat_pointer_get_info(block, &info));
    assert_int_equal(info.kind, LEAT_KIND_DEVICE);
    OK(leat_free(t->stream, block));
    REFUSED(leat_pointer_get_info(block, &info), LEAT_ERROR_POINTER, "not allocated");
    REFUSED(leat_pointer_get_info(block + 100, &info), LEAT_ERROR_POINTER, "not allocated");
    REFUSED(leat_copy(t->stream, own, block, sizeof own), LEAT_ERROR_POINTER, "not allocated");
    REFUSED(leat_copy(t->second, block + 1, own, sizeof own), LEAT_ERROR_POINTER, "not allocated");
    REFUSED(leat_fill(t->stream, block, 2, 10), LEAT_ERROR_POINTER, "not allocated");
    REFUSED(leat_free(t->stream, block), LEAT_ERROR_POINTER, "freed already");
    assert_int_equal(atomic_load(&gate->passed), 0);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
}

/* Returns true if this byte can be read. Passes it to a system call, which fails where a load would crash. */
static bool is_readable(const void *byte)
{
    int ends[2];
    bool yes;

    assert_int_equal(pipe(ends), 0);
    yes = write(ends[1], byte, 1) == 1;
    assert_true(yes || errno == EFAULT);
    close(ends[0]);
    close(ends[1]);
    return yes;
}

/* The size of these blocks is a multiple of the page size, and blocks are adjacent. Nevertheless the byte after
 * each block must be inaccessible. */
static void the_page_behind_a_block_is_out_of_reach(void **state)
{
    enum { COUNT = 8 };
    static const size_t sizes[] = {4096, 3 * 4096, 2 * MIB};
    struct test_state *t = *state;
    struct cpu_device *cpu = cpu_of(t->device);

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *device[COUNT], *pinned[COUNT];

        for (int k = 0; k < COUNT; k++) {
            OK(cpu_mem_alloc(cpu->driver, cpu, sizes[i], (void **)(void *)&device[k]));
            OK(cpu_host_alloc(cpu->driver, cpu, sizes[i], (void **)(void *)&pinned[k]));
        }
        for (int k = 0; k < COUNT; k++) {
            assert_false(is_readable(device[k] + sizes[i]));
            assert_false(is_readable(pinned[k] + sizes[i]));
            assert_true(is_readable(pinned[k] + sizes[i] - 1));
        }
        for (int k = 0; k < COUNT; k++) {
            OK(cpu_mem_free(cpu->driver, cpu, device[k]));
            OK(cpu_host_free(cpu->driver, cpu, pinned[k]));
            assert_false(is_readable(device[k]));
            assert_false(is_readable(pinned[k]));
        }
    }
}

/* Sets the cursors so that the next search of the space starts inside this block, as after a wrap-around. */
static void search_from(struct cpu_space *space, const void *block)
{
    leati_lock(&space->lock);
    space->small_cursor = (uintptr_t)block < space->middle ? (uintptr_t)block : space->small_cursor;
    space->large_cursor = (uintptr_t)block < space->middle ? space->large_cursor : (uintptr_t)block;
    leati_unlock(&space->lock);
}

/* Neither an allocation nor a reservation may begin where another block ends: it would take the place of the guard
 * page, and large ones must start on a huge page. */
static void a_search_that_wrapped_around_keeps_the_guard_page(void **state)
{
    static const size_t sizes[] = {4096, 3 * 4096, 2 * MIB, 2 * MIB + 4096};
    struct test_state *t = *state;
    struct cpu_device *cpu = cpu_of(t->device);

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *first, *second;

        OK(leat_alloc_driver(t->stream, sizes[i], (void **)(void *)&first));
        search_from(&cpu->space, first);
        OK(leat_alloc_driver(t->stream, sizes[i], (void **)(void *)&second));
        assert_true(second > first);
        assert_false(is_readable(first + sizes[i]));
        if (sizes[i] >= 2 * MIB)
            assert_int_equal((uintptr_t)second % (2 * MIB), 0);
        OK(leat_free(t->stream, second));
        OK(leat_stream_synchronize(t->stream));
        search_from(&cpu->space, first);
        OK(leat_virtual_reserve(t->device, 4 * MIB, 0, (void **)(void *)&second));
        assert_int_equal((uintptr_t)second % (2 * MIB), 0);
        assert_true(second < first || second > first + sizes[i]);
        OK(leat_virtual_unreserve(second));
        OK(leat_free(t->stream, first));
        OK(leat_stream_synchronize(t->stream));
    }
}

/* ---- pages ---- */

/* Returns how many bytes the pages of the file behind the device's virtual memory take. */
static uint64_t file_bytes(const struct cpu_device *cpu)
{
    struct stat file;

    assert_int_equal(fstat(cpu->virtual_fd, &file), 0);
    return (uint64_t)file.st_blocks * 512;
}

/* A trim must return the free pages of a pool to the system, and keep the pages in use. */
static void a_trim_gives_pages_back_to_the_system(void **state)
{
    enum { BYTES = 16 << 20 };
    struct test_state *t = *state;
    leat_pool *pool;
    leat_pool_options options = {.size = sizeof options};
    void *gone, *kept;

    OK(leat_pool_create(t->device, &options, &pool));
    OK(leat_pool_alloc(t->stream, pool, BYTES, &gone));
    OK(leat_pool_alloc(t->stream, pool, BYTES, &kept));
    OK(leat_fill(t->stream, gone, 1, BYTES));
    OK(leat_fill(t->stream, kept, 2, BYTES));
    OK(leat_stream_synchronize(t->stream));
    assert_true(file_bytes(cpu_of(t->device)) >= 2 * (uint64_t)BYTES);
    OK(leat_free(t->stream, gone));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_pool_trim(pool, 0, NULL, NULL));
    assert_true(file_bytes(cpu_of(t->device)) < 2 * (uint64_t)BYTES);
    assert_true(file_bytes(cpu_of(t->device)) >= BYTES);
    OK(leat_free(t->stream, kept));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_pool_trim(pool, 0, NULL, NULL));
    assert_int_equal(file_bytes(cpu_of(t->device)), 0);
    OK(leat_pool_destroy(pool));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(work_waits_for_a_caller_in_the_streams_place),
    STATE_TEST(a_stream_that_is_waited_for_stays),
    STATE_TEST(memory_that_was_refused_counts_for_nothing),
    STATE_TEST(managed_memory_that_stays_is_still_known),
    STATE_TEST(memory_on_its_way_back_is_gone),
    STATE_TEST(the_page_behind_a_block_is_out_of_reach),
    STATE_TEST(a_trim_gives_pages_back_to_the_system),
    STATE_TEST(a_search_that_wrapped_around_keeps_the_guard_page),
};

int main(void)
{
    /* These tests use the CPU driver's own handles, so no other driver may wrap it. */
    unsetenv("LEAT_FAULT");
    unsetenv("LEAT_STRICT");
    if (!test_only_on_cpu())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
