/*
 * test_cufile_async.c - cuFileReadAsync() and cuFileWriteAsync(): the order of streams, the end of the file,
 * failures, and files and descriptors that go before their operations have run.
 */
#include "cufile_room.h"
#include "lost_device.h"

#include <dlfcn.h>
#include <leat/leat.h>
#include <pthread.h>

#define BYTES (3 * MIB + 11)

struct arguments {
    size_t size;
    off_t file_offset, offset;
    ssize_t bytes;
};

static CUfileError_t read_async(CUfileHandle_t file, void *memory, struct arguments *a, cudaStream_t stream)
{
    return cuFileReadAsync(file, memory, &a->size, &a->file_offset, &a->offset, &a->bytes, (CUstream)stream);
}

static CUfileError_t write_async(CUfileHandle_t file, void *memory, struct arguments *a, cudaStream_t stream)
{
    return cuFileWriteAsync(file, memory, &a->size, &a->file_offset, &a->offset, &a->bytes, (CUstream)stream);
}

static cudaStream_t make_stream(void)
{
    cudaStream_t stream;

    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

/* Earlier work of the stream changes the memory first, and later work sees the bytes. All of it waits at a gate.
 */
static void the_order_of_the_stream_is_kept(void **state)
{
    (void)state;
    for (int kind = 0; kind < MANAGED; kind++) {
        int fd = make_file("in", BYTES, 1, O_RDONLY), out = make_file("out", 0, 0, O_RDWR);
        CUfileHandle_t in_file = register_fd(fd), out_file = register_fd(out);
        unsigned char *memory = make_memory((enum kind)kind, BYTES + 100), *content;
        struct arguments first = {BYTES, 0, 7, 0}, second = {BYTES, 5, 7, 0}, third = {100, 0, 0, 0};
        cudaStream_t stream = make_stream();
        gate open = 0;

        CUFILE_OK(cuFileStreamRegister((CUstream)stream, 15));
        OK(cudaLaunchHostFunc(stream, wait_at_gate, &open));
        OK(cudaMemsetAsync(memory, 0xee, BYTES + 100, stream));
        CUFILE_OK(read_async(in_file, memory, &first, stream));
        CUFILE_OK(write_async(out_file, memory, &second, stream));
        OK(cudaMemsetAsync(memory, 0x11, BYTES + 100, stream));
        CUFILE_OK(read_async(in_file, memory, &third, stream));
        assert_int_equal(first.bytes, 0);
        assert_int_equal(second.bytes, 0);
        atomic_store(&open, 1);
        OK(cudaStreamSynchronize(stream));
        assert_int_equal(first.bytes, BYTES);
        assert_int_equal(second.bytes, BYTES);
        assert_int_equal(third.bytes, 100);
        content = content_of(out, BYTES + 5);
        HAS_BYTES(content, 5, 0);
        HAS_PATTERN(content + 5, BYTES, 1);
        free(content);
        content = copy_of(memory, BYTES + 100);
        HAS_PATTERN(content, 100, 1);
        HAS_BYTES(content + 100, BYTES, 0x11);
        free(content);
        CUFILE_OK(cuFileStreamDeregister((CUstream)stream));
        OK(cudaStreamDestroy(stream));
        cuFileHandleDeregister(in_file);
        cuFileHandleDeregister(out_file);
        assert_int_equal(close(fd) | close(out), 0);
        end_memory((enum kind)kind, memory);
    }
}

/* A read behind a write of its stream sees what that appends, also by another handle; other reads end with the
 * file. */
static void reads_end_with_the_file(void **state)
{
    int fd = make_file("end", 1000, 1, O_RDWR), only_read = open(path_of("end"), O_RDONLY);
    CUfileHandle_t file = register_fd(fd), reader = register_fd(only_read);
    unsigned char *memory = make_memory(DEVICE, 8192), *back = make_memory(DEVICE, 8192), *content;
    struct arguments write = {4000, 1000, 0, 0}, read = {8192, 0, 0, 0}, past = {10, 1 << 20, 0, -5},
                     short_read = {100, 990, 0, 0};
    cudaStream_t stream = make_stream();

    (void)state;
    CUFILE_OK(read_async(reader, back, &short_read, stream));
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(short_read.bytes, 10);
    fill_pattern(memory, 8192, 9);
    for (int i = 0; i < 2; i++) {
        CUFILE_OK(write_async(file, memory, &write, stream));
        read.bytes = 0;
        CUFILE_OK(read_async(i ? file : reader, back, &read, stream));
        CUFILE_OK(read_async(file, back, &past, stream));
        OK(cudaStreamSynchronize(stream));
        assert_int_equal(write.bytes, 4000);
        assert_int_equal(read.bytes, 5000);
        assert_int_equal(past.bytes, 0);
        content = copy_of(back, 5000);
        HAS_PATTERN(content, 1000, 1);
        HAS_PATTERN(content + 1000, 4000, 9);
        free(content);
        assert_int_equal(ftruncate(fd, 1000), 0);
    }
    OK(cudaStreamDestroy(stream));
    cuFileHandleDeregister(file);
    cuFileHandleDeregister(reader);
    assert_int_equal(close(fd) | close(only_read), 0);
    end_memory(DEVICE, memory);
    end_memory(DEVICE, back);
}

/* In the default stream the call returns when the operation is over. */
static void the_default_stream_waits(void **state)
{
    int fd = make_file("default", BYTES, 2, O_RDONLY);
    CUfileHandle_t file = register_fd(fd);

    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        unsigned char *memory = make_memory((enum kind)kind, BYTES), *content;
        struct arguments a = {BYTES, 0, 0, 0};

        if (kind != PAGEABLE)
            OK(cudaMemsetAsync(memory, 0xee, BYTES, NULL));
        CUFILE_OK(read_async(file, memory, &a, NULL));
        assert_int_equal(a.bytes, BYTES);
        content = copy_of(memory, BYTES);
        HAS_PATTERN(content, BYTES, 2);
        free(content);
        end_memory((enum kind)kind, memory);
    }
    cuFileHandleDeregister(file);
    assert_int_equal(close(fd), 0);
}

/* Deregistering the file and closing its descriptor end nothing that was submitted, and the driver says that it is
 * in use. */
static void files_go_before_their_operations(void **state)
{
    int fd = make_file("gone", BYTES, 3, O_RDONLY);
    CUfileHandle_t file = register_fd(fd);
    unsigned char *memory = make_memory(DEVICE, BYTES), *content;
    struct arguments a = {BYTES, 0, 0, 0};
    cudaStream_t stream = make_stream();
    gate open = 0;

    (void)state;
    while (cuFileUseCount() > 1)
        CUFILE_OK(cuFileDriverClose());
    CUFILE_OK(cuFileBufRegister(memory, BYTES, 0));
    OK(cudaLaunchHostFunc(stream, wait_at_gate, &open));
    CUFILE_OK(read_async(file, memory, &a, stream));
    CUFILE(CU_FILE_DRIVER_CLOSING, cuFileDriverClose());
    cuFileHandleDeregister(file);
    CUFILE_OK(cuFileBufDeregister(memory));
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path_of("gone")), 0);
    CUFILE(CU_FILE_HANDLE_NOT_REGISTERED, read_async(file, memory, &a, stream));
    atomic_store(&open, 1);
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(a.bytes, BYTES);
    content = copy_of(memory, BYTES);
    HAS_PATTERN(content, BYTES, 3);
    free(content);
    CUFILE_OK(cuFileDriverClose());
    assert_int_equal(cuFileUseCount(), 0);
    OK(cudaStreamDestroy(stream));
    end_memory(DEVICE, memory);
}

/* A file that is cut behind the call: the number of bytes is -1, and later work of the stream runs. */
static void failures_are_told(void **state)
{
    int fd = make_file("cut", BYTES, 3, O_RDWR);
    CUfileHandle_t file = register_fd(fd);
    unsigned char *memory = make_memory(PINNED, BYTES);
    struct arguments a = {BYTES, 0, 0, 0}, again = {1000, 0, 0, 0};
    cudaStream_t stream = make_stream();
    gate open = 0;

    (void)state;
    OK(cudaLaunchHostFunc(stream, wait_at_gate, &open));
    CUFILE_OK(read_async(file, memory, &a, stream));
    CUFILE_OK(read_async(file, memory, &again, stream));
    assert_int_equal(ftruncate(fd, 2000), 0);
    atomic_store(&open, 1);
    /* The stream tells of it too, once. */
    GIVES(cudaErrorUnknown, cudaStreamSynchronize(stream));
    (void)cudaGetLastError();
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(a.bytes, -1);
    assert_int_equal(again.bytes, 1000);
    HAS_PATTERN(memory, 1000, 3);
    OK(cudaStreamDestroy(stream));
    cuFileHandleDeregister(file);
    assert_int_equal(close(fd), 0);
    end_memory(PINNED, memory);
}

/* Leaves the failure of a copy in the stream: a read of a file that is cut behind the call. */
static void let_a_read_fail(unsigned char *memory, cudaStream_t stream)
{
    int fd = make_file("fails", BYTES, 3, O_RDWR);
    CUfileHandle_t file = register_fd(fd);
    static struct arguments a;
    gate open = 0;

    a = (struct arguments){BYTES, 0, 0, 0};
    OK(cudaLaunchHostFunc(stream, wait_at_gate, &open));
    CUFILE_OK(read_async(file, memory, &a, stream));
    assert_int_equal(ftruncate(fd, 2000), 0);
    atomic_store(&open, 1);
    while (cudaStreamQuery(stream) == cudaErrorNotReady)
        sleep_ms(1);
    assert_int_equal(a.bytes, -1);
    cuFileHandleDeregister(file);
    assert_int_equal(close(fd), 0);
}

/* Calls that wait for the stream leave earlier failures to the program's next synchronization. */
static void waiting_calls_leave_failures(void **state)
{
    int fd = make_file("waits", 1000, 3, O_RDWR);
    CUfileHandle_t file = register_fd(fd);
    unsigned char *memory = make_memory(PINNED, BYTES);
    struct arguments write = {1000, 1000, 0, 0}, read = {4000, 0, 0, 0}, other = {1000, 0, 0, 0};
    cudaStream_t writing = make_stream(), stream = make_stream();
    gate open = 0;

    (void)state;
    /* The read reaches beyond the end of a file that is being written, and so waits for its stream. */
    let_a_read_fail(memory, stream);
    OK(cudaLaunchHostFunc(writing, wait_at_gate, &open));
    CUFILE_OK(write_async(file, memory, &write, writing));
    CUFILE_OK(read_async(file, memory, &read, stream));
    GIVES(cudaErrorUnknown, cudaStreamSynchronize(stream));
    assert_int_equal(read.bytes, 1000);
    atomic_store(&open, 1);
    OK(cudaStreamSynchronize(writing));
    assert_int_equal(write.bytes, 1000);
    OK(cudaStreamSynchronize(stream));
    /* Reads in the default stream wait for it. */
    let_a_read_fail(memory, cudaStreamLegacy);
    CUFILE_OK(read_async(file, memory, &other, NULL));
    assert_int_equal(other.bytes, 1000);
    GIVES(cudaErrorUnknown, cudaStreamSynchronize(NULL));
    OK(cudaStreamSynchronize(NULL));
    (void)cudaGetLastError();
    OK(cudaStreamDestroy(stream));
    OK(cudaStreamDestroy(writing));
    cuFileHandleDeregister(file);
    assert_int_equal(close(fd), 0);
    end_memory(PINNED, memory);
}

/* ---- lost devices ---- */

static atomic_int calls_kept;
static void (*kept_function)(void *);
static void *kept_argument;

/* Stands in for leat's. A lost device calls no host functions. */
leat_status leat_launch_host(leat_stream *stream, void (*function)(void *), void *argument)
{
    leat_status (*real)(leat_stream *, void (*)(void *), void *) = NULL;

    if (atomic_load(&device_is_lost)) {
        kept_function = function;
        kept_argument = argument;
        atomic_fetch_add(&calls_kept, 1);
        return LEAT_OK;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "leat_launch_host");
    return real ? real(stream, function, argument) : LEAT_ERROR_DRIVER;
}

/* The driver can be closed though the operations of a lost device never end, and nothing happens if they end
 * later. */
static void operations_of_lost_devices_do_not_hold_the_driver(void **state)
{
    int fd = make_file("lost", 1000, 3, O_RDWR);
    CUfileHandle_t file = register_fd(fd);
    unsigned char *memory = make_memory(DEVICE, 1000);
    struct arguments a = {1000, 0, 0, 0};
    cudaStream_t stream = make_stream();

    (void)state;
    while (cuFileUseCount() > 1)
        CUFILE_OK(cuFileDriverClose());
    atomic_store(&device_is_lost, true);
    CUFILE_OK(write_async(file, memory, &a, stream));
    assert_int_equal(atomic_load(&calls_kept), 1);
    atomic_store(&device_is_lost, false);
    CUFILE(CU_FILE_DRIVER_CLOSING, cuFileDriverClose());
    atomic_store(&device_is_lost, true);
    CUFILE_OK(cuFileDriverClose());
    assert_int_equal(cuFileUseCount(), 0);
    atomic_store(&device_is_lost, false);
    kept_function(kept_argument);
    assert_int_equal(a.bytes, 0);
    OK(cudaStreamDestroy(stream));
    assert_int_equal(close(fd), 0);
    end_memory(DEVICE, memory);
}

/* ---- arguments ---- */

static void wrong_arguments_are_refused(void **state)
{
    int fd = make_file("wrong", 5000, 1, O_RDONLY);
    CUfileHandle_t file = register_fd(fd);
    unsigned char *memory = make_memory(DEVICE, 4096);
    struct arguments a = {100, 0, 0, 0};
    cudaStream_t stream = make_stream();
    cudaGraph_t graph = NULL;

    (void)state;
    CUFILE(CU_FILE_HANDLE_NOT_REGISTERED, read_async(&a, memory, &a, stream));
    CUFILE(CU_FILE_INVALID_VALUE, read_async(file, NULL, &a, stream));
    CUFILE(CU_FILE_INVALID_VALUE,
           cuFileReadAsync(file, memory, NULL, &a.file_offset, &a.offset, &a.bytes, (CUstream)stream));
    CUFILE(CU_FILE_INVALID_VALUE,
           cuFileReadAsync(file, memory, &a.size, NULL, &a.offset, &a.bytes, (CUstream)stream));
    CUFILE(CU_FILE_INVALID_VALUE,
           cuFileReadAsync(file, memory, &a.size, &a.file_offset, NULL, &a.bytes, (CUstream)stream));
    CUFILE(CU_FILE_INVALID_VALUE,
           cuFileReadAsync(file, memory, &a.size, &a.file_offset, &a.offset, NULL, (CUstream)stream));
    CUFILE(CU_FILE_INVALID_FILE_OPEN_FLAG, write_async(file, memory, &a, stream));
    CUFILE(CU_FILE_CUDA_DRIVER_ERROR, read_async(file, memory, &a, (cudaStream_t)(void *)&a));
    a.offset = 4000;
    CUFILE(CU_FILE_CUDA_POINTER_RANGE_ERROR, read_async(file, memory, &a, stream));
    a.offset = -1;
    CUFILE(CU_FILE_INVALID_VALUE, read_async(file, memory, &a, stream));
    a.offset = 0;
    assert_int_equal(a.bytes, 0);
    CUFILE(CU_FILE_INVALID_VALUE, cuFileStreamRegister((CUstream)stream, 16));
    CUFILE(CU_FILE_CUDA_DRIVER_ERROR, cuFileStreamRegister((CUstream)(void *)&a, 0));
    CUFILE(CU_FILE_CUDA_DRIVER_ERROR, cuFileStreamDeregister((CUstream)(void *)&a));
    /* It cannot be captured. */
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    CUFILE(CU_FILE_CUDA_DRIVER_ERROR, read_async(file, memory, &a, stream));
    assert_true(cudaStreamEndCapture(stream, &graph) != cudaSuccess);
    (void)cudaGetLastError();
    CUFILE_OK(read_async(file, memory, &a, stream));
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(a.bytes, 100);
    OK(cudaStreamDestroy(stream));
    cuFileHandleDeregister(file);
    assert_int_equal(close(fd), 0);
    end_memory(DEVICE, memory);
}

/* ---- threads ---- */

#define THREADS 6
#define SLICE (100 * KIB + 13)
static CUfileHandle_t shared;
static atomic_int thread_failures;

/* Writes and reads a slice of the shared file again and again, in a stream of its own. */
static void *work(void *argument)
{
    size_t number = (size_t)(uintptr_t)argument;
    struct arguments to = {SLICE, (off_t)(number * SLICE), 0, 0}, from = to;
    unsigned char *memory = NULL, *out = malloc(SLICE);
    cudaStream_t stream = NULL;

    if (cudaMalloc((void **)&memory, SLICE) || cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) || !out)
        atomic_fetch_add(&thread_failures, 1);
    for (unsigned round = 0; round < 30 && !atomic_load(&thread_failures); round++) {
        to.bytes = from.bytes = 0;
        if (cudaMemsetAsync(memory, (int)(round + number), SLICE, stream) != cudaSuccess ||
            write_async(shared, memory, &to, stream).err || cudaMemsetAsync(memory, 0xff, SLICE, stream) ||
            read_async(shared, memory, &from, stream).err ||
            cudaMemcpyAsync(out, memory, SLICE, cudaMemcpyDefault, stream) || cudaStreamSynchronize(stream) ||
            to.bytes != (ssize_t)SLICE || from.bytes != (ssize_t)SLICE)
            atomic_fetch_add(&thread_failures, 1);
        for (size_t i = 0; i < SLICE; i++)
            if (out[i] != (unsigned char)(round + number)) {
                atomic_fetch_add(&thread_failures, 1);
                break;
            }
    }
    (void)cudaStreamDestroy(stream);
    (void)cudaFree(memory);
    free(out);
    return NULL;
}

static void threads_have_streams(void **state)
{
    int fd = make_file("shared", 0, 0, O_RDWR);
    pthread_t threads[THREADS];

    (void)state;
    shared = register_fd(fd);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&thread_failures), 0);
    cuFileHandleDeregister(shared);
    assert_int_equal(close(fd), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_the_stream_is_kept),
        cmocka_unit_test(reads_end_with_the_file),
        cmocka_unit_test(the_default_stream_waits),
        cmocka_unit_test(files_go_before_their_operations),
        cmocka_unit_test(failures_are_told),
        cmocka_unit_test(waiting_calls_leave_failures),
        cmocka_unit_test(operations_of_lost_devices_do_not_hold_the_driver),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(threads_have_streams),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder) ? 1 : 0;
}
