/*
 * test_cufile_batch.c - batches of cuFile: bytes, status with limits and times, operations that fail, and batches
 * that are cancelled, destroyed and used by several threads.
 */
#include "../support/bad_disk.h"
#include "cufile_room.h"
#include "lost_device.h"

#include <errno.h>
#include <leat/leat.h>
#include <pthread.h>

#define OPERATIONS 40
#define PART (200 * KIB + 3)

static CUfileIOParams_t operation(CUfileHandle_t file, CUfileOpcode_t opcode, void *memory, size_t size,
                                  off_t offset, size_t cookie)
{
    CUfileIOParams_t made;

    memset(&made, 0, sizeof made);
    made.mode = CUFILE_BATCH;
    made.u.batch.devPtr_base = memory;
    made.u.batch.size = size;
    made.u.batch.file_offset = offset;
    made.fh = file;
    made.opcode = opcode;
    made.cookie = (void *)(uintptr_t)cookie;
    return made;
}

static CUfileBatchHandle_t make_batch(unsigned most)
{
    CUfileBatchHandle_t batch = NULL;

    CUFILE_OK(cuFileBatchIOSetUp(&batch, most));
    assert_non_null(batch);
    return batch;
}

/* Waits for `count` operations, which must be complete with `bytes` each. Each cookie of 1 to count comes once. */
static void expect_all(CUfileBatchHandle_t batch, unsigned count, size_t bytes)
{
    CUfileIOEvents_t events[OPERATIONS];
    bool seen[OPERATIONS + 1] = {false};

    for (unsigned found = 0; found < count;) {
        unsigned some = OPERATIONS;

        CUFILE_OK(cuFileBatchIOGetStatus(batch, 1, &some, events, NULL));
        assert_in_range(some, 1, count - found);
        for (unsigned i = 0; i < some; i++) {
            size_t cookie = (size_t)(uintptr_t)events[i].cookie;

            assert_in_range(cookie, 1, count);
            assert_false(seen[cookie]);
            seen[cookie] = true;
            assert_int_equal(events[i].status, CUFILE_COMPLETE);
            assert_int_equal(events[i].ret, bytes);
        }
        found += some;
    }
}

/* Writes a file by a batch, and reads it by another; the batches are used again and again. */
static void files_are_written_and_read(void **state)
{
    CUfileBatchHandle_t batch = make_batch(OPERATIONS);

    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        int fd = make_file("batch", 0, 0, O_RDWR);
        CUfileHandle_t file = register_fd(fd);
        unsigned char *memory = make_memory((enum kind)kind, OPERATIONS * PART), *content;
        CUfileIOParams_t operations[OPERATIONS];

        fill_pattern(memory, OPERATIONS * PART, 5);
        for (size_t i = 0; i < OPERATIONS; i++) {
            operations[i] = operation(file, CUFILE_WRITE, memory, PART, (off_t)(i * PART), i + 1);
            operations[i].u.batch.devPtr_offset = (off_t)(i * PART);
        }
        CUFILE_OK(cuFileBatchIOSubmit(batch, OPERATIONS, operations, 0));
        expect_all(batch, OPERATIONS, PART);
        content = content_of(fd, OPERATIONS * PART);
        HAS_PATTERN(content, OPERATIONS * PART, 5);
        free(content);
        fill_memory(memory, 0, OPERATIONS * PART);
        /* Last first, in two submissions. */
        for (size_t i = 0; i < OPERATIONS; i++) {
            operations[i] =
                operation(file, CUFILE_READ, memory, PART, (off_t)((OPERATIONS - 1 - i) * PART), i + 1);
            operations[i].u.batch.devPtr_offset = operations[i].u.batch.file_offset;
        }
        CUFILE_OK(cuFileBatchIOSubmit(batch, 10, operations, 0));
        CUFILE_OK(cuFileBatchIOSubmit(batch, OPERATIONS - 10, operations + 10, 0));
        expect_all(batch, OPERATIONS, PART);
        content = copy_of(memory, OPERATIONS * PART);
        HAS_PATTERN(content, OPERATIONS * PART, 5);
        free(content);
        cuFileHandleDeregister(file);
        assert_int_equal(close(fd), 0);
        end_memory((enum kind)kind, memory);
    }
    cuFileBatchIODestroy(batch);
}

/* Reads end with the file, and operations that cannot start fail alone. */
static void operations_have_their_own_results(void **state)
{
    int fd = make_file("results", 5000, 1, O_RDONLY);
    CUfileHandle_t file = register_fd(fd);
    unsigned char *memory = make_memory(DEVICE, 4096), *other = make_memory(OTHER_DEVICE, 4096), *content;
    CUfileBatchHandle_t batch = make_batch(8);
    CUfileIOParams_t operations[5] = {
        operation(file, CUFILE_READ, memory, 1000, 4500, 0), operation(file, CUFILE_READ, other, 1000, 1, 1),
        operation(file, CUFILE_READ, memory, 5000, 0, 2),    operation(file, CUFILE_READ, memory, 10, 5000, 3),
        operation(file, CUFILE_READ, memory, 0, 0, 4),
    };
    static const ssize_t results[5] = {500, 1000, -CU_FILE_CUDA_POINTER_RANGE_ERROR, 0, 0};
    CUfileIOEvents_t events[8];
    unsigned count = 8;

    (void)state;
    CUFILE_OK(cuFileBatchIOSubmit(batch, 5, operations, 0));
    CUFILE_OK(cuFileBatchIOGetStatus(batch, 5, &count, events, NULL));
    assert_int_equal(count, 5);
    for (unsigned i = 0; i < count; i++) {
        size_t cookie = (size_t)(uintptr_t)events[i].cookie;

        assert_in_range(cookie, 0, 4);
        assert_int_equal((ssize_t)events[i].ret, results[cookie]);
        assert_int_equal(events[i].status, results[cookie] < 0 ? CUFILE_FAILED : CUFILE_COMPLETE);
    }
    content = copy_of(other, 1000);
    assert_int_equal(content[0], 7 + 1);
    free(content);
    /* Nothing is left: the call does not wait, whatever it is asked for. */
    count = 8;
    CUFILE_OK(cuFileBatchIOGetStatus(batch, 8, &count, events, NULL));
    assert_int_equal(count, 0);
    cuFileBatchIODestroy(batch);
    cuFileHandleDeregister(file);
    assert_int_equal(close(fd), 0);
    end_memory(DEVICE, memory);
    end_memory(OTHER_DEVICE, other);
}

/* At most *nr operations are returned, the rest by later calls; a timeout of 0 does not wait. */
static void the_status_has_limits(void **state)
{
    int fd = make_file("limits", MIB, 1, O_RDONLY);
    CUfileHandle_t file = register_fd(fd);
    unsigned char *memory = make_memory(DEVICE, MIB);
    CUfileBatchHandle_t batch = make_batch(4);
    CUfileIOParams_t operations[4];
    CUfileIOEvents_t events[4];
    struct timespec none = {0, 0}, wrong = {0, -1}, long_time = {100000, 0};
    unsigned count, found = 0;

    (void)state;
    for (size_t i = 0; i < 4; i++)
        operations[i] = operation(file, CUFILE_READ, memory, MIB, 0, i);
    CUFILE_OK(cuFileBatchIOSubmit(batch, 3, operations, 0));
    CUFILE(CU_FILE_BATCH_FULL, cuFileBatchIOSubmit(batch, 2, operations, 0));
    CUFILE_OK(cuFileBatchIOSubmit(batch, 1, operations + 3, 0));
    CUFILE(CU_FILE_BATCH_FULL, cuFileBatchIOSubmit(batch, 1, operations, 0));
    for (int i = 0; i < 4; i++) {
        count = 1;
        CUFILE_OK(cuFileBatchIOGetStatus(batch, 1, &count, events, i % 2 ? &long_time : NULL));
        assert_int_equal(count, 1);
    }
    CUFILE_OK(cuFileBatchIOSubmit(batch, 4, operations, 0));
    while (found < 4) {
        count = 4;
        CUFILE_OK(cuFileBatchIOGetStatus(batch, 4, &count, events, &none));
        found += count;
    }
    assert_int_equal(found, 4);

    count = 0;
    CUFILE(CU_FILE_INVALID_VALUE, cuFileBatchIOGetStatus(batch, 0, &count, events, NULL));
    count = 2;
    CUFILE(CU_FILE_INVALID_VALUE, cuFileBatchIOGetStatus(batch, 3, &count, events, NULL));
    CUFILE(CU_FILE_INVALID_VALUE, cuFileBatchIOGetStatus(batch, 1, NULL, events, NULL));
    CUFILE(CU_FILE_INVALID_VALUE, cuFileBatchIOGetStatus(batch, 1, &count, NULL, NULL));
    CUFILE(CU_FILE_INVALID_VALUE, cuFileBatchIOGetStatus(batch, 1, &count, events, &wrong));
    CUFILE(CU_FILE_INVALID_VALUE, cuFileBatchIOGetStatus(&batch, 1, &count, events, NULL));
    cuFileBatchIODestroy(batch);
    CUFILE(CU_FILE_INVALID_VALUE, cuFileBatchIOGetStatus(batch, 1, &count, events, NULL));
    cuFileHandleDeregister(file);
    assert_int_equal(close(fd), 0);
    end_memory(DEVICE, memory);
}

/* If one operation is wrong, none is submitted. */
static void wrong_operations_are_refused(void **state)
{
    int fd = make_file("wrong", 5000, 1, O_RDONLY);
    CUfileHandle_t file = register_fd(fd);
    unsigned char *memory = make_memory(DEVICE, 4096), *content;
    CUfileBatchHandle_t batch = make_batch(4), none = NULL;
    CUfileIOParams_t operations[2] = {operation(file, CUFILE_READ, memory, 10, 0, 1),
                                      operation(file, CUFILE_READ, memory, 10, 0, 2)};
    CUfileIOEvents_t events[4];
    unsigned count = 4;

    (void)state;
    fill_memory(memory, 0xee, 4096);
    operations[1].mode = (CUfileBatchMode_t)0;
    CUFILE(CU_FILE_INVALID_VALUE, cuFileBatchIOSubmit(batch, 2, operations, 0));
    operations[1] = operation(file, (CUfileOpcode_t)2, memory, 10, 0, 2);
    CUFILE(CU_FILE_INVALID_VALUE, cuFileBatchIOSubmit(batch, 2, operations, 0));
    operations[1] = operation(file, CUFILE_WRITE, memory, 10, 0, 2);
    CUFILE(CU_FILE_INVALID_FILE_OPEN_FLAG, cuFileBatchIOSubmit(batch, 2, operations, 0));
    operations[1] = operation(&fd, CUFILE_READ, memory, 10, 0, 2);
    CUFILE(CU_FILE_HANDLE_NOT_REGISTERED, cuFileBatchIOSubmit(batch, 2, operations, 0));
    operations[1] = operation(file, CUFILE_READ, NULL, 10, 0, 2);
    CUFILE(CU_FILE_INVALID_VALUE, cuFileBatchIOSubmit(batch, 2, operations, 0));
    CUFILE(CU_FILE_INVALID_VALUE, cuFileBatchIOSubmit(batch, 1, operations, 1));
    CUFILE(CU_FILE_INVALID_VALUE, cuFileBatchIOSubmit(batch, 0, operations, 0));
    CUFILE(CU_FILE_INVALID_VALUE, cuFileBatchIOSubmit(batch, 1, NULL, 0));
    CUFILE(CU_FILE_INVALID_VALUE, cuFileBatchIOSubmit(NULL, 1, operations, 0));
    CUFILE(CU_FILE_INVALID_VALUE, cuFileBatchIOCancel(NULL));
    CUFILE(CU_FILE_INVALID_VALUE, cuFileBatchIOSetUp(&none, 0));
    CUFILE(CU_FILE_INVALID_VALUE, cuFileBatchIOSetUp(&none, 1u << 20));
    CUFILE(CU_FILE_INVALID_VALUE, cuFileBatchIOSetUp(NULL, 1));
    cuFileBatchIODestroy(NULL);
    cuFileBatchIODestroy(&fd);
    CUFILE_OK(cuFileBatchIOGetStatus(batch, 1, &count, events, NULL));
    assert_int_equal(count, 0);
    content = copy_of(memory, 4096);
    HAS_BYTES(content, 4096, 0xee);
    free(content);
    cuFileBatchIODestroy(batch);
    cuFileHandleDeregister(file);
    assert_int_equal(close(fd), 0);
    end_memory(DEVICE, memory);
}

/* A cancelled operation either has all its bytes or says that it was cancelled. A destroyed batch writes no more,
 * and neither handles nor descriptors have to stay. */
static void batches_are_stopped(void **state)
{
    unsigned char *memory = make_memory(DEVICE, OPERATIONS * PART);

    (void)state;
    for (int round = 0; round < 10; round++) {
        int fd = make_file("stopped", OPERATIONS * PART, 1, O_RDONLY);
        CUfileHandle_t file = register_fd(fd);
        CUfileBatchHandle_t batch = make_batch(OPERATIONS);
        CUfileIOParams_t operations[OPERATIONS];
        CUfileIOEvents_t events[OPERATIONS];
        unsigned count = OPERATIONS;
        unsigned char *content;

        for (size_t i = 0; i < OPERATIONS; i++)
            operations[i] = operation(file, CUFILE_READ, memory + i * PART, PART, (off_t)(i * PART), i);
        CUFILE_OK(cuFileBatchIOSubmit(batch, OPERATIONS, operations, 0));
        cuFileHandleDeregister(file);
        assert_int_equal(close(fd), 0);
        if (round % 2) {
            CUFILE_OK(cuFileBatchIOCancel(batch));
            CUFILE_OK(cuFileBatchIOGetStatus(batch, OPERATIONS, &count, events, NULL));
            assert_int_equal(count, OPERATIONS);
            for (unsigned i = 0; i < count; i++)
                assert_true(events[i].status == CUFILE_COMPLETE ? events[i].ret == PART
                                                                : events[i].status == CUFILE_CANCELED);
        }
        cuFileBatchIODestroy(batch);
        fill_memory(memory, 0x77, OPERATIONS * PART);
        sleep_ms(2);
        content = copy_of(memory, OPERATIONS * PART);
        HAS_BYTES(content, OPERATIONS * PART, 0x77);
        free(content);
    }
    end_memory(DEVICE, memory);
}

/* ---- groups ---- */

enum { SMALL = 512, SMALL_BYTES = 4096 };

/* Reads of a group begin at the start of the file, and so does the first of its operations, which is the one that
 * fails. */
static int fails_at_start(enum bad_disk_call call, uint64_t offset)
{
    return (call == BAD_DISK_READ || call == BAD_DISK_READ_DIRECT) && !offset ? EIO : 0;
}

/* Collects all operations of a batch, and returns the result of each by its cookie. */
static void collect_results(CUfileBatchHandle_t batch, unsigned count, CUfileIOEvents_t *by_cookie)
{
    CUfileIOEvents_t *events = calloc(count, sizeof *events);

    assert_non_null(events);
    for (unsigned found = 0, some; found < count; found += some) {
        some = count;
        CUFILE_OK(cuFileBatchIOGetStatus(batch, 1, &some, events, NULL));
        assert_in_range(some, 1, count - found);
        for (unsigned i = 0; i < some; i++)
            by_cookie[(size_t)(uintptr_t)events[i].cookie] = events[i];
    }
    free(events);
}

/* Small operations that are adjacent in the file are read together, with a result for each. If one of them fails,
 * the others have their bytes nevertheless. */
static void small_operations_are_read_together(void **state)
{
    int fd = make_file("small", SMALL * SMALL_BYTES, 3, O_RDONLY);
    CUfileHandle_t file = register_fd(fd);
    unsigned char *memory = make_memory(DEVICE, SMALL * SMALL_BYTES), *content, *wanted;
    CUfileBatchHandle_t batch = make_batch(SMALL);
    CUfileIOParams_t *operations = calloc(SMALL, sizeof *operations);
    CUfileIOEvents_t *results = calloc(SMALL, sizeof *results);

    (void)state;
    assert_non_null(operations);
    assert_non_null(results);
    wanted = content_of(fd, SMALL * SMALL_BYTES);
    for (size_t i = 0; i < SMALL; i++)
        operations[i] =
            operation(file, CUFILE_READ, memory + i * SMALL_BYTES, SMALL_BYTES, (off_t)(i * SMALL_BYTES), i);
    bad_disk_set(NULL, 0);
    CUFILE_OK(cuFileBatchIOSubmit(batch, SMALL, operations, 0));
    collect_results(batch, SMALL, results);
    /* Parts of 256 KiB, and not 512 calls. */
    assert_in_range(bad_disk_count(BAD_DISK_READ) + bad_disk_count(BAD_DISK_READ_DIRECT), 1, 64);
    for (unsigned i = 0; i < SMALL; i++) {
        assert_int_equal(results[i].status, CUFILE_COMPLETE);
        assert_int_equal(results[i].ret, SMALL_BYTES);
    }
    content = copy_of(memory, SMALL * SMALL_BYTES);
    assert_memory_equal(content, wanted, SMALL * SMALL_BYTES);
    free(content);

    fill_memory(memory, 0, SMALL * SMALL_BYTES);
    bad_disk_set_hook(fails_at_start);
    CUFILE_OK(cuFileBatchIOSubmit(batch, SMALL, operations, 0));
    collect_results(batch, SMALL, results);
    bad_disk_set_hook(NULL);
    content = copy_of(memory, SMALL * SMALL_BYTES);
    for (size_t i = 0; i < SMALL; i++) {
        assert_int_equal(results[i].status, i == 0 ? CUFILE_FAILED : CUFILE_COMPLETE);
        assert_int_equal((ssize_t)results[i].ret, i == 0 ? -1 : SMALL_BYTES);
        if (i)
            assert_memory_equal(content + i * SMALL_BYTES, wanted + i * SMALL_BYTES, SMALL_BYTES);
    }
    free(content);
    cuFileBatchIODestroy(batch);
    cuFileHandleDeregister(file);
    assert_int_equal(close(fd), 0);
    end_memory(DEVICE, memory);
    free(wanted);
    free(operations);
    free(results);
}

/* Operations that cannot be one copy, because they use the same memory, or the same bytes of a file, have their
 * results too. */
static void operations_that_overlap_are_apart(void **state)
{
    int fd = make_file("overlap", MIB, 4, O_RDWR);
    CUfileHandle_t file = register_fd(fd);
    unsigned char *memory = make_memory(DEVICE, MIB);
    CUfileBatchHandle_t batch = make_batch(OPERATIONS);
    CUfileIOParams_t operations[OPERATIONS];
    CUfileIOEvents_t results[OPERATIONS];

    (void)state;
    for (int write = 0; write < 2; write++) {
        for (size_t i = 0; i < OPERATIONS; i++)
            operations[i] =
                operation(file, write ? CUFILE_WRITE : CUFILE_READ, memory + i * 100, 1000, (off_t)(i * 100), i);
        CUFILE_OK(cuFileBatchIOSubmit(batch, OPERATIONS, operations, 0));
        collect_results(batch, OPERATIONS, results);
        for (unsigned i = 0; i < OPERATIONS; i++) {
            assert_int_equal(results[i].status, CUFILE_COMPLETE);
            assert_int_equal(results[i].ret, 1000);
        }
    }
    cuFileBatchIODestroy(batch);
    cuFileHandleDeregister(file);
    assert_int_equal(close(fd), 0);
    end_memory(DEVICE, memory);
}

/* ---- host functions ---- */

/* Holds up reads of files until reads_may_go. */
static atomic_int reads_may_go;

static int hold_reads(enum bad_disk_call call, uint64_t offset)
{
    (void)offset;
    if (call == BAD_DISK_READ || call == BAD_DISK_READ_DIRECT)
        wait_at_gate(&reads_may_go);
    return 0;
}

struct other_thread {
    CUfileBatchHandle_t batch;
    CUfileError_t status;
    unsigned count;
    atomic_int begun;
    int done_when_destroyed;
};

static void get_status(void *argument)
{
    struct other_thread *f = argument;
    struct timespec none = {0, 0};
    CUfileIOEvents_t events[2];

    f->count = 2;
    f->status = cuFileBatchIOGetStatus(f->batch, 1, &f->count, events, &none);
}

static void destroy(void *argument)
{
    struct other_thread *f = argument;

    atomic_store(&f->begun, 1);
    cuFileBatchIODestroy(f->batch);
    f->done_when_destroyed = atomic_load(&reads_may_go);
}

/* Reads of the two halves of a file. Both together are too long for the calling thread to make them. */
struct halves {
    int fd;
    CUfileHandle_t file;
    unsigned char *memory;
    CUfileIOParams_t operations[2];
};
#define HALF_BYTES (3 * MIB / 2)

static struct halves make_halves(const char *name)
{
    struct halves h = {.fd = make_file(name, 2 * HALF_BYTES, 1, O_RDONLY)};

    h.file = register_fd(h.fd);
    h.memory = make_memory(DEVICE, 2 * HALF_BYTES);
    for (size_t i = 0; i < 2; i++)
        h.operations[i] = operation(h.file, CUFILE_READ, h.memory + i * HALF_BYTES, HALF_BYTES,
                                    (off_t)(i * HALF_BYTES), i + 1);
    return h;
}

static void end_halves(const struct halves *h)
{
    cuFileHandleDeregister(h->file);
    assert_int_equal(close(h->fd), 0);
    end_memory(DEVICE, h->memory);
}

/* In a host function leat does not wait: there the status is an error and changes nothing, and a batch is
 * destroyed only when its operations have ended. */
static void host_functions_leave_operations(void **state)
{
    struct halves h = make_halves("host");
    struct other_thread f = {.batch = make_batch(2)};
    cudaStream_t stream;

    (void)state;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    atomic_store(&reads_may_go, 0);
    bad_disk_set_hook(hold_reads);
    CUFILE_OK(cuFileBatchIOSubmit(f.batch, 2, h.operations, 0));
    OK(cudaLaunchHostFunc(stream, get_status, &f));
    OK(cudaStreamSynchronize(stream));
    GIVES(CU_FILE_CUDA_DRIVER_ERROR, f.status.err);
    GIVES(cudaErrorNotPermitted, f.status.cu_err);
    assert_int_equal(f.count, 2);
    atomic_store(&reads_may_go, 1);
    expect_all(f.batch, 2, HALF_BYTES);

    atomic_store(&reads_may_go, 0);
    CUFILE_OK(cuFileBatchIOSubmit(f.batch, 2, h.operations, 0));
    OK(cudaLaunchHostFunc(stream, destroy, &f));
    wait_at_gate(&f.begun);
    sleep_ms(5);
    atomic_store(&reads_may_go, 1);
    OK(cudaStreamSynchronize(stream));
    assert_true(f.done_when_destroyed);
    bad_disk_set_hook(NULL);
    OK(cudaDeviceSynchronize());
    OK(cudaStreamDestroy(stream));
    end_halves(&h);
}

/* ---- lost devices ---- */

/* Operations of a lost device, which leat may never complete, fail: also for calls that do not wait. */
static void operations_of_lost_devices_fail(void **state)
{
    struct halves h = make_halves("lost");
    CUfileBatchHandle_t batch = make_batch(2);
    struct timespec none = {0, 0};
    CUfileIOEvents_t events[2];

    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        unsigned count = 0;

        atomic_store(&reads_may_go, 0);
        bad_disk_set_hook(hold_reads);
        CUFILE_OK(cuFileBatchIOSubmit(batch, 2, h.operations, 0));
        atomic_store(&device_is_lost, true);
        while (!count) {
            count = 2;
            CUFILE_OK(cuFileBatchIOGetStatus(batch, waits ? 2 : 1, &count, events, waits ? NULL : &none));
        }
        assert_int_equal(count, 2);
        for (unsigned i = 0; i < count; i++) {
            assert_int_equal(events[i].status, CUFILE_FAILED);
            MOVES(-CU_FILE_CUDA_DRIVER_ERROR, events[i].ret);
        }
        atomic_store(&device_is_lost, false);
        atomic_store(&reads_may_go, 1);
        OK(cudaDeviceSynchronize());
        bad_disk_set_hook(NULL);
    }
    cuFileBatchIODestroy(batch);
    end_halves(&h);
}

/* ---- threads ---- */

static void *wait_for_status(void *argument)
{
    struct other_thread *f = argument;
    CUfileIOEvents_t events[2];

    f->count = 2;
    atomic_store(&f->begun, 1);
    f->status = cuFileBatchIOGetStatus(f->batch, 2, &f->count, events, NULL);
    return NULL;
}

/* While a thread waits for operations without a timeout, the timeouts of others count. */
static void timeouts_count_while_others_wait(void **state)
{
    struct halves h = make_halves("timeouts");
    struct other_thread f = {.batch = make_batch(2)};
    struct timespec none = {0, 0}, some = {0, 1000000};
    CUfileIOEvents_t events[2];
    pthread_t thread;
    unsigned count;

    (void)state;
    atomic_store(&reads_may_go, 0);
    bad_disk_set_hook(hold_reads);
    CUFILE_OK(cuFileBatchIOSubmit(f.batch, 2, h.operations, 0));
    assert_int_equal(pthread_create(&thread, NULL, wait_for_status, &f), 0);
    wait_at_gate(&f.begun);
    for (int i = 0; i < 30; i++) {
        count = 2;
        CUFILE_OK(cuFileBatchIOGetStatus(f.batch, 1, &count, events, &some));
        assert_int_equal(count, 0);
        count = 2;
        CUFILE_OK(cuFileBatchIOGetStatus(f.batch, 1, &count, events, &none));
        assert_int_equal(count, 0);
        count = 2;
        CUFILE_OK(cuFileBatchIOGetStatus(f.batch, 0, &count, events, NULL));
        assert_int_equal(count, 0);
    }
    atomic_store(&reads_may_go, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    GIVES(CU_FILE_SUCCESS, f.status.err);
    assert_int_equal(f.count, 2);
    bad_disk_set_hook(NULL);
    cuFileBatchIODestroy(f.batch);
    end_halves(&h);
}

static CUfileHandle_t shared;
static CUfileBatchHandle_t shared_batch;
static atomic_uint collected, failures;

/* Submits reads to the shared batch, and collects as many, whoever submitted them. */
static void *work(void *argument)
{
    unsigned char *memory = argument;

    for (int i = 0; i < 200; i++) {
        CUfileIOParams_t one = operation(shared, CUFILE_READ, memory, 4096, i * 100, 0);
        CUfileIOEvents_t events[4];
        unsigned count = 4;
        CUfileOpError error = cuFileBatchIOSubmit(shared_batch, 1, &one, 0).err;

        if (error != CU_FILE_SUCCESS && error != CU_FILE_BATCH_FULL)
            atomic_fetch_add(&failures, 1);
        i -= error == CU_FILE_BATCH_FULL;
        if (cuFileBatchIOGetStatus(shared_batch, 0, &count, events, NULL).err != CU_FILE_SUCCESS)
            atomic_fetch_add(&failures, 1);
        for (unsigned k = 0; k < count; k++)
            if (events[k].ret != 4096)
                atomic_fetch_add(&failures, 1);
        atomic_fetch_add(&collected, count);
    }
    return NULL;
}

static void threads_share_a_batch(void **state)
{
    int fd = make_file("threads", MIB, 1, O_RDONLY);
    unsigned char *memory = make_memory(PINNED, 4 * 4096);
    CUfileIOEvents_t events[16];
    pthread_t threads[4];
    unsigned count = 16;

    (void)state;
    shared = register_fd(fd);
    shared_batch = make_batch(16);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, memory + i * 4096), 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    CUFILE_OK(cuFileBatchIOGetStatus(shared_batch, 16, &count, events, NULL));
    assert_int_equal(atomic_load(&collected) + count, 800);
    assert_int_equal(atomic_load(&failures), 0);
    cuFileBatchIODestroy(shared_batch);
    cuFileHandleDeregister(shared);
    assert_int_equal(close(fd), 0);
    end_memory(PINNED, memory);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_written_and_read),
        cmocka_unit_test(operations_have_their_own_results),
        cmocka_unit_test(the_status_has_limits),
        cmocka_unit_test(wrong_operations_are_refused),
        cmocka_unit_test(batches_are_stopped),
        cmocka_unit_test(small_operations_are_read_together),
        cmocka_unit_test(operations_that_overlap_are_apart),
        cmocka_unit_test(host_functions_leave_operations),
        cmocka_unit_test(operations_of_lost_devices_fail),
        cmocka_unit_test(timeouts_count_while_others_wait),
        cmocka_unit_test(threads_share_a_batch),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder) ? 1 : 0;
}
