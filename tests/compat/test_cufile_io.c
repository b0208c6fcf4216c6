/*
 * test_cufile_io.c - cuFileRead() and cuFileWrite(): bytes of all sizes, offsets and kinds of memory, the end of
 * the file, arguments that are refused; and the registration of files and buffers.
 */
#include "cufile_room.h"

#include <leat/leat.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define MOST (9 * MIB)

/* ---- bytes ---- */

static const size_t sizes[] = {1, 7, 4095, 4096, 64 * KIB + 1, MIB, 8 * MIB + 3};
static const off_t offsets[] = {0, 1, 4095, 4096, 70001};
#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* Reads a range by the handle, and checks the bytes of it and around its place in memory. */
static void read_range(CUfileHandle_t file, unsigned char *memory, size_t size, off_t offset, off_t at,
                       const unsigned char *whole)
{
    unsigned char *out;

    fill_memory(memory, 0xee, size + (size_t)at + 2);
    MOVES(size, cuFileRead(file, memory, size, offset, at));
    out = copy_of(memory, size + (size_t)at + 2);
    HAS_BYTES(out, (size_t)at, 0xee);
    assert_memory_equal(out + at, whole + offset, size);
    HAS_BYTES(out + at + size, 2, 0xee);
    free(out);
}

static void ranges_are_read(void **state)
{
    int fd = make_file("read", MOST, 1, O_RDONLY);
    unsigned char *whole = content_of(fd, MOST);
    CUfileHandle_t file = register_fd(fd);

    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        unsigned char *memory = make_memory((enum kind)kind, MOST + 100);

        for (size_t i = 0; i < COUNT(sizes); i++)
            for (size_t k = 0; k < COUNT(offsets); k++)
                read_range(file, memory, sizes[i], offsets[k], k % 2 ? 3 : 0, whole);
        end_memory((enum kind)kind, memory);
    }
    cuFileHandleDeregister(file);
    assert_int_equal(close(fd), 0);
    free(whole);
}

/* The program's flags of open() do not matter to the bytes: also O_DIRECT takes any alignment. */
static void ranges_are_written(void **state)
{
    static const int how[] = {O_RDWR, O_WRONLY, O_RDWR | O_DIRECT};

    (void)state;
    for (size_t i = 0; i < COUNT(how); i++)
        for (int kind = 0; kind < KINDS; kind++) {
            int reading = make_file("written", MIB, 1, O_RDONLY), fd = open(path_of("written"), how[i]);
            unsigned char *memory = make_memory((enum kind)kind, 3 * MIB), *content, *before;
            CUfileHandle_t file;

            if (fd < 0) {
                end_memory((enum kind)kind, memory);
                assert_int_equal(close(reading), 0);
                continue; /* a file system without O_DIRECT */
            }
            before = content_of(reading, MIB);
            file = register_fd(fd);
            fill_pattern(memory, 3 * MIB, 7);
            MOVES(10001, cuFileWrite(file, memory, 10001, 4099, 0));
            content = content_of(reading, MIB);
            assert_memory_equal(content, before, 4099);
            HAS_PATTERN(content + 4099, 10001, 7);
            assert_memory_equal(content + 14100, before + 14100, MIB - 14100);
            free(content);
            /* The file grows; what is between reads as zeros. */
            MOVES(2 * MIB, cuFileWrite(file, memory, 2 * MIB, (off_t)MIB + 5, 0));
            content = content_of(reading, 3 * MIB + 5);
            HAS_BYTES(content + MIB, 5, 0);
            HAS_PATTERN(content + MIB + 5, 2 * MIB, 7);
            MOVES(0, cuFileWrite(file, memory, 0, 0, 0));
            cuFileHandleDeregister(file);
            assert_int_equal(close(fd) | close(reading), 0);
            end_memory((enum kind)kind, memory);
            free(content);
            free(before);
        }
}

/* Memory of leat's own calls, and memory that leat does not know. */
static void leat_memory_is_read_into(void **state)
{
    int fd = make_file("leat", MIB, 2, O_RDONLY);
    CUfileHandle_t file = register_fd(fd);
    leat_device *device;
    leat_stream *stream;
    void *memory;
    unsigned char *out = malloc(MIB);

    (void)state;
    assert_non_null(out);
    OK(leat_device_open(NULL, &device));
    OK(leat_stream_create(device, &stream));
    OK(leat_alloc(stream, MIB, &memory));
    MOVES(MIB, cuFileRead(file, memory, MIB, 0, 0));
    OK(leat_copy_sync(stream, out, memory, MIB));
    HAS_PATTERN(out, MIB, 2);
    OK(leat_free(stream, memory));
    OK(leat_stream_destroy(stream));
    OK(leat_device_close(device));
    cuFileHandleDeregister(file);
    assert_int_equal(close(fd), 0);
    free(out);
}

static void a_read_ends_with_the_file(void **state)
{
    static const int how[] = {O_RDONLY, O_RDWR};

    (void)state;
    for (size_t i = 0; i < COUNT(how); i++)
        for (int kind = 0; kind < KINDS; kind++) {
            int fd = make_file("short", 5001, 3, how[i]);
            CUfileHandle_t file = register_fd(fd);
            unsigned char *memory = make_memory((enum kind)kind, 8192), *out, *whole = content_of(fd, 5001);

            fill_memory(memory, 0xee, 8192);
            MOVES(5001, cuFileRead(file, memory, 8192, 0, 0));
            MOVES(1, cuFileRead(file, memory, 100, 5000, 6000));
            MOVES(0, cuFileRead(file, memory, 100, 5001, 0));
            MOVES(0, cuFileRead(file, memory, 100, 1 << 30, 0));
            MOVES(0, cuFileRead(file, memory, 0, 0, 0));
            out = copy_of(memory, 8192);
            HAS_PATTERN(out, 5001, 3);
            HAS_BYTES(out + 5001, 999, 0xee);
            assert_int_equal(out[6000], whole[5000]);
            HAS_BYTES(out + 6001, 8192 - 6001, 0xee);
            /* The file may change its size. */
            assert_int_equal(truncate(path_of("short"), 10), 0);
            MOVES(10, cuFileRead(file, memory, 100, 0, 0));
            assert_int_equal(truncate(path_of("short"), 50), 0);
            MOVES(50, cuFileRead(file, memory, 100, 0, 0));
            cuFileHandleDeregister(file);
            assert_int_equal(close(fd), 0);
            end_memory((enum kind)kind, memory);
            free(out);
            free(whole);
        }
}

static atomic_bool cutting;

static void *cut_in_steps(void *argument)
{
    const int *fd = argument;

    for (off_t size = 2 * MIB; size >= 1000; size -= 2500)
        if (ftruncate(*fd, size))
            break;
    atomic_store(&cutting, false);
    return NULL;
}

/* A file that is cut during a read is shorter, and no failure. */
static void files_are_cut_while_they_are_read(void **state)
{
    static const int how[] = {O_RDONLY, O_RDWR};

    (void)state;
    for (size_t i = 0; i < COUNT(how); i++) {
        int other = make_file("cut", 2 * MIB, 3, O_RDWR), fd = open(path_of("cut"), how[i]);
        CUfileHandle_t file = register_fd(fd);
        unsigned char *memory = make_memory(DEVICE, 2 * MIB), *out;
        pthread_t thread;

        atomic_store(&cutting, true);
        assert_int_equal(pthread_create(&thread, NULL, cut_in_steps, &other), 0);
        do
            assert_in_range(cuFileRead(file, memory, 2 * MIB, 0, 0), 1000, 2 * MIB);
        while (atomic_load(&cutting));
        assert_int_equal(pthread_join(thread, NULL), 0);
        out = copy_of(memory, 1000);
        HAS_PATTERN(out, 1000, 3);
        free(out);
        cuFileHandleDeregister(file);
        assert_int_equal(close(fd) | close(other), 0);
        end_memory(DEVICE, memory);
    }
}

/* A hole of 5 GiB with bytes behind 2^32. */
static void sparse_files_are_read(void **state)
{
    const off_t end = (off_t)5 << 30, at = ((off_t)1 << 32) + 4097;
    int fd = make_file("sparse", 0, 0, O_RDWR);
    CUfileHandle_t file = register_fd(fd);
    unsigned char *memory = make_memory(DEVICE, MIB), *out;

    (void)state;
    if (ftruncate(fd, end)) {
        cuFileHandleDeregister(file);
        assert_int_equal(close(fd), 0);
        end_memory(DEVICE, memory);
        skip();
    }
    fill_pattern(memory, 1000, 4);
    MOVES(1000, cuFileWrite(file, memory, 1000, at, 0));
    fill_memory(memory, 0xee, MIB);
    MOVES(MIB, cuFileRead(file, memory, MIB, at - 5000, 0));
    out = copy_of(memory, MIB);
    HAS_BYTES(out, 5000, 0);
    HAS_PATTERN(out + 5000, 1000, 4);
    HAS_BYTES(out + 6000, MIB - 6000, 0);
    free(out);
    MOVES(100, cuFileRead(file, memory, MIB, end - 100, 0));
    cuFileHandleDeregister(file);
    assert_int_equal(close(fd), 0);
    end_memory(DEVICE, memory);
}

/* ---- failures ---- */

static void wrong_arguments_are_refused(void **state)
{
    int fd = make_file("wrong", 5000, 1, O_RDWR), reading = open(path_of("wrong"), O_RDONLY),
        writing = open(path_of("wrong"), O_WRONLY);
    CUfileHandle_t file = register_fd(fd), only_read = register_fd(reading), only_write = register_fd(writing);
    unsigned char *memory = make_memory(DEVICE, 4096);

    (void)state;
    MOVES(-CU_FILE_HANDLE_NOT_REGISTERED, cuFileRead(NULL, memory, 10, 0, 0));
    MOVES(-CU_FILE_HANDLE_NOT_REGISTERED, cuFileRead(&fd, memory, 10, 0, 0));
    MOVES(-CU_FILE_INVALID_VALUE, cuFileRead(file, NULL, 10, 0, 0));
    MOVES(-CU_FILE_INVALID_VALUE, cuFileRead(file, memory, 10, -1, 0));
    MOVES(-CU_FILE_INVALID_VALUE, cuFileRead(file, memory, 10, 0, -1));
    MOVES(-CU_FILE_INVALID_VALUE, cuFileRead(file, memory, SIZE_MAX, 0, 0));
    MOVES(-CU_FILE_INVALID_VALUE, cuFileWrite(file, memory, 10, INT64_MAX - 5, 0));
    MOVES(-CU_FILE_CUDA_POINTER_RANGE_ERROR, cuFileRead(file, memory, 4097, 0, 0));
    MOVES(-CU_FILE_CUDA_POINTER_RANGE_ERROR, cuFileWrite(file, memory, 10, 0, 4090));
    errno = 0;
    MOVES(-1, cuFileWrite(only_read, memory, 10, 0, 0));
    assert_int_equal(errno, EBADF);
    errno = 0;
    MOVES(-1, cuFileRead(only_write, memory, 10, 0, 0));
    assert_int_equal(errno, EBADF);
    MOVES(10, cuFileRead(file, memory, 10, 0, 4086));
    end_memory(DEVICE, memory);
    MOVES(-CU_FILE_CUDA_POINTER_INVALID, cuFileRead(file, memory, 10, 0, 0));
    CUFILE(CU_FILE_CUDA_POINTER_INVALID, cuFileBufRegister(memory, 10, 0));
    cuFileHandleDeregister(file);
    MOVES(-CU_FILE_HANDLE_NOT_REGISTERED, cuFileRead(file, memory, 10, 0, 0));
    cuFileHandleDeregister(file);
    cuFileHandleDeregister(NULL);
    cuFileHandleDeregister(only_read);
    cuFileHandleDeregister(only_write);
    assert_int_equal(close(fd) | close(reading) | close(writing), 0);
}

/* A write beyond the limit for files fails with -1, and the library works afterwards. */
static void a_failed_write_is_told(void **state)
{
    int fd = make_file("limit", 100, 1, O_RDWR);
    CUfileHandle_t file = register_fd(fd);
    unsigned char *memory = make_memory(DEVICE, MIB);
    struct rlimit old, limit;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = (struct rlimit){64 * KIB, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    errno = 0;
    MOVES(-1, cuFileWrite(file, memory, MIB, 0, 0));
    assert_int_equal(errno, EIO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    MOVES(MIB, cuFileWrite(file, memory, MIB, 0, 0));
    OK(cudaDeviceSynchronize());
    cuFileHandleDeregister(file);
    assert_int_equal(close(fd), 0);
    end_memory(DEVICE, memory);
}

struct in_host_function {
    CUfileHandle_t file;
    unsigned char *memory;
    ssize_t moved;
};

static void read_in_host_function(void *argument)
{
    struct in_host_function *f = argument;

    f->moved = cuFileRead(f->file, f->memory, MIB, 0, 0);
}

/* Calls in a host function fail, and the streams on which the library reads stay: it makes no new ones later. The
 * ids of streams count all that were made. */
static void failed_calls_lose_no_streams(void **state)
{
    int fd = make_file("host", MIB, 1, O_RDONLY);
    struct in_host_function f = {register_fd(fd), make_memory(DEVICE, MIB), 0};
    unsigned long long before, after;
    cudaStream_t stream, other;

    (void)state;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MOVES(MIB, cuFileRead(f.file, f.memory, MIB, 0, 0));
    OK(cudaStreamGetId(stream, &before));
    for (int i = 0; i < 10; i++) {
        OK(cudaLaunchHostFunc(stream, read_in_host_function, &f));
        OK(cudaStreamSynchronize(stream));
        MOVES(-CU_FILE_CUDA_DRIVER_ERROR, f.moved);
        MOVES(MIB, cuFileRead(f.file, f.memory, MIB, 0, 0));
    }
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    OK(cudaStreamGetId(other, &after));
    assert_in_range(after - before, 1,
                    2); /* one more, if the first read has made the stream that the others use */
    OK(cudaStreamDestroy(stream));
    OK(cudaStreamDestroy(other));
    cuFileHandleDeregister(f.file);
    assert_int_equal(close(fd), 0);
    end_memory(DEVICE, f.memory);
}

/* ---- registration ---- */

static CUfileOpError register_kind(enum CUfileFileHandleType type, int fd)
{
    CUfileDescr_t descr = {.type = type, .handle = {.fd = fd}};
    CUfileHandle_t handle;
    CUfileError_t error = cuFileHandleRegister(&handle, &descr);

    if (error.err == CU_FILE_SUCCESS)
        cuFileHandleDeregister(handle);
    return error.err;
}

static void files_are_registered_once(void **state)
{
    CUfileDescr_t descr = {.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD};
    int fd = make_file("once", 5000, 1, O_RDWR), again = dup(fd), other, pair[2];
    CUfileHandle_t file = register_fd(fd), second, third, none = NULL;
    unsigned char bytes[10];

    (void)state;
    descr.handle.fd = fd;
    CUFILE(CU_FILE_HANDLE_ALREADY_REGISTERED, cuFileHandleRegister(&none, &descr));
    second = register_fd(again);
    assert_ptr_not_equal(file, second);
    cuFileHandleDeregister(file);
    file = register_fd(fd);
    /* Another file with the number of a closed descriptor is another file. */
    assert_int_equal(close(fd), 0);
    other = open(path_of("other"), O_RDWR | O_CREAT, 0666);
    assert_int_equal(other, fd);
    cuFileHandleDeregister(register_fd(other));
    /* So is the same file, if it is now open for something else. */
    assert_int_equal(close(other), 0);
    other = open(path_of("once"), O_RDONLY);
    assert_int_equal(other, fd);
    third = register_fd(other);
    MOVES(10, cuFileRead(third, bytes, 10, 0, 0));
    MOVES(-1, cuFileWrite(third, bytes, 10, 0, 0));
    MOVES(10, cuFileWrite(file, bytes, 10, 0, 0));
    CUFILE(CU_FILE_HANDLE_ALREADY_REGISTERED, cuFileHandleRegister(&none, &descr));
    cuFileHandleDeregister(third);
    cuFileHandleDeregister(file);
    cuFileHandleDeregister(second);

    CUFILE(CU_FILE_INVALID_VALUE, cuFileHandleRegister(NULL, &descr));
    CUFILE(CU_FILE_INVALID_VALUE, cuFileHandleRegister(&none, NULL));
    assert_null(none);
    assert_int_equal(register_kind(CU_FILE_HANDLE_TYPE_OPAQUE_FD, -1), CU_FILE_INVALID_VALUE);
    assert_int_equal(register_kind(CU_FILE_HANDLE_TYPE_OPAQUE_FD, 1 << 20), CU_FILE_INVALID_VALUE);
    assert_int_equal(register_kind(CU_FILE_HANDLE_TYPE_OPAQUE_WIN32, other), CU_FILE_INVALID_VALUE);
    assert_int_equal(register_kind(CU_FILE_HANDLE_TYPE_USERSPACE_FS, other), CU_FILE_IO_NOT_SUPPORTED);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(register_kind(CU_FILE_HANDLE_TYPE_OPAQUE_FD, pair[0]), CU_FILE_INVALID_FILE_TYPE);
    assert_int_equal(close(pair[0]) | close(pair[1]) | close(other) | close(again), 0);
    other = open(folder, O_RDONLY | O_DIRECTORY);
    assert_int_equal(register_kind(CU_FILE_HANDLE_TYPE_OPAQUE_FD, other), CU_FILE_INVALID_FILE_TYPE);
    assert_int_equal(close(other), 0);
    other = open(path_of("other"), O_PATH);
    assert_int_equal(register_kind(CU_FILE_HANDLE_TYPE_OPAQUE_FD, other), CU_FILE_INVALID_FILE_OPEN_FLAG);
    assert_int_equal(close(other), 0);
}

static void no_descriptor_is_left(void **state)
{
    int fd = make_file("full", 5000, 1, O_RDONLY);
    struct rlimit old, limit;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    limit = (struct rlimit){(rlim_t)fd + 1, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    GIVES(CU_FILE_GETNEWFD_FAILED, register_kind(CU_FILE_HANDLE_TYPE_OPAQUE_FD, fd));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    GIVES(CU_FILE_SUCCESS, register_kind(CU_FILE_HANDLE_TYPE_OPAQUE_FD, fd));
    assert_int_equal(close(fd), 0);
}

/* The descriptor may be closed while the handle is in use. */
static void the_descriptor_may_be_closed(void **state)
{
    int fd = make_file("closed", 5000, 6, O_RDONLY);
    CUfileHandle_t file = register_fd(fd);
    unsigned char *memory = make_memory(PAGEABLE, 5000);

    (void)state;
    assert_int_equal(close(fd), 0);
    MOVES(5000, cuFileRead(file, memory, 5000, 0, 0));
    HAS_PATTERN(memory, 5000, 6);
    cuFileHandleDeregister(file);
    end_memory(PAGEABLE, memory);
}

static void buffers_are_registered(void **state)
{
    int fd = make_file("buffers", 5000, 1, O_RDWR);
    CUfileHandle_t file = register_fd(fd);

    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        unsigned char *memory = make_memory((enum kind)kind, 8192);

        CUFILE(CU_FILE_MEMORY_NOT_REGISTERED, cuFileBufDeregister(memory));
        CUFILE_OK(cuFileBufRegister(memory, 4096, 0));
        CUFILE(CU_FILE_MEMORY_ALREADY_REGISTERED, cuFileBufRegister(memory, 4096, 0));
        CUFILE_OK(cuFileBufRegister(memory + 4096, 4096, CU_FILE_RDMA_REGISTER));
        MOVES(4096, cuFileRead(file, memory, 4096, 0, 0));
        MOVES(96, cuFileRead(file, memory, 96, 0, 4000));
        MOVES(-CU_FILE_INVALID_MAPPING_RANGE, cuFileRead(file, memory, 97, 0, 4000));
        MOVES(-CU_FILE_INVALID_MAPPING_RANGE, cuFileWrite(file, memory, 1, 0, 4097));
        /* Another base is not registered, and works. */
        MOVES(4096, cuFileRead(file, memory + 1, 4096, 0, 0));
        CUFILE_OK(cuFileBufDeregister(memory));
        MOVES(97, cuFileRead(file, memory, 97, 0, 4000));
        CUFILE(CU_FILE_MEMORY_NOT_REGISTERED, cuFileBufDeregister(memory));
        CUFILE_OK(cuFileBufDeregister(memory + 4096));
        CUFILE(CU_FILE_INVALID_VALUE, cuFileBufRegister(memory, 0, 0));
        CUFILE(CU_FILE_INVALID_VALUE, cuFileBufRegister(memory, 10, 64));
        if (kind != PAGEABLE)
            CUFILE(CU_FILE_CUDA_POINTER_RANGE_ERROR, cuFileBufRegister(memory + 1, 8192, 0));
        end_memory((enum kind)kind, memory);
    }
    CUFILE(CU_FILE_INVALID_VALUE, cuFileBufRegister(NULL, 10, 0));
    CUFILE(CU_FILE_INVALID_VALUE, cuFileBufDeregister(NULL));
    cuFileHandleDeregister(file);
    assert_int_equal(close(fd), 0);
}

/* ---- the driver ---- */

static void the_driver_counts(void **state)
{
    CUfileDrvProps_t properties;
    CUfileHandle_t file;
    int version = 0, fd;

    (void)state;
    while (cuFileUseCount())
        CUFILE_OK(cuFileDriverClose());
    CUFILE(CU_FILE_DRIVER_NOT_INITIALIZED, cuFileDriverClose());
    CUFILE_OK(cuFileDriverOpen());
    CUFILE_OK(cuFileDriverOpen());
    assert_int_equal(cuFileUseCount(), 2);
    CUFILE_OK(cuFileDriverClose());
    CUFILE_OK(cuFileDriverClose());
    assert_int_equal(cuFileUseCount(), 0);
    /* Registering opens it, and closing it ends all registrations. */
    fd = make_file("driver", 100, 1, O_RDONLY);
    file = register_fd(fd);
    CUFILE_OK(cuFileBufRegister(&version, sizeof version, 0));
    assert_int_equal(cuFileUseCount(), 1);
    CUFILE_OK(cuFileDriverClose());
    MOVES(-CU_FILE_HANDLE_NOT_REGISTERED, cuFileRead(file, &version, 1, 0, 0));
    CUFILE(CU_FILE_MEMORY_NOT_REGISTERED, cuFileBufDeregister(&version));
    cuFileHandleDeregister(file);
    cuFileHandleDeregister(register_fd(fd));
    assert_int_equal(close(fd), 0);

    CUFILE_OK(cuFileGetVersion(&version));
    assert_int_equal(version, 1130);
    CUFILE(CU_FILE_INVALID_VALUE, cuFileGetVersion(NULL));
    CUFILE(CU_FILE_INVALID_VALUE, cuFileDriverGetProperties(NULL));
    CUFILE_OK(cuFileDriverGetProperties(&properties));
    assert_int_equal(properties.nvfs.major_version, 0);
    assert_int_equal(properties.nvfs.dstatusflags, 0);
    assert_true(properties.nvfs.dcontrolflags & 1u << CU_FILE_ALLOW_COMPAT_MODE);
    assert_true(properties.fflags & 1u << CU_FILE_BATCH_IO_SUPPORTED);
    CUFILE_OK(cuFileDriverSetPollMode(true, 8));
    CUFILE_OK(cuFileDriverSetMaxDirectIOSize(1024));
    CUFILE_OK(cuFileDriverSetMaxCacheSize(2048));
    CUFILE_OK(cuFileDriverSetMaxPinnedMemSize(4096));
    CUFILE(CU_FILE_DRIVER_UNSUPPORTED_LIMIT, cuFileDriverSetMaxDirectIOSize(0));
    CUFILE(CU_FILE_DRIVER_UNSUPPORTED_LIMIT, cuFileDriverSetMaxCacheSize(5));
    CUFILE(CU_FILE_DRIVER_UNSUPPORTED_LIMIT, cuFileDriverSetMaxPinnedMemSize(SIZE_MAX));
    CUFILE_OK(cuFileDriverGetProperties(&properties));
    assert_int_equal(properties.nvfs.poll_thresh_size, 8);
    assert_true(properties.nvfs.dcontrolflags & 1u << CU_FILE_USE_POLL_MODE);
    assert_int_equal(properties.nvfs.max_direct_io_size, 1024);
    assert_int_equal(properties.max_device_cache_size, 2048);
    assert_int_equal(properties.max_device_pinned_mem_size, 4096);
    assert_string_equal(CUFILE_ERRSTR(-CU_FILE_INVALID_VALUE), "an argument is invalid");
    assert_true(IS_CUFILE_ERR(-CU_FILE_INVALID_VALUE) && !IS_CUFILE_ERR(-1));
}

/* ---- threads ---- */

#define THREADS 8
#define SLICE (300 * KIB + 17)

static CUfileHandle_t shared;
static atomic_int thread_failures;

/* Writes and reads a slice of its own of the shared file, and files and buffers of its own come and go. */
static void *work(void *argument)
{
    size_t number = (size_t)(uintptr_t)argument;
    unsigned char *memory = NULL, *out = malloc(SLICE);
    char path[TEMPORARY_PATH + 64];
    int fd;

    snprintf(path, sizeof path, "%s/thread-%zu", folder, number);
    fd = open(path, O_RDWR | O_CREAT, 0666);
    if (!out || fd < 0 || cudaSetDevice((int)number % 2) != cudaSuccess ||
        cudaMalloc((void **)&memory, SLICE) != cudaSuccess) {
        atomic_fetch_add(&thread_failures, 1);
        return NULL;
    }
    for (unsigned round = 0; round < 20; round++) {
        CUfileDescr_t descr = {.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD, .handle = {.fd = fd}};
        off_t at = (off_t)(number * SLICE);
        CUfileHandle_t own;
        bool good;

        write_pattern(out, SLICE, (unsigned)number * 20 + round);
        good = cudaMemcpy(memory, out, SLICE, cudaMemcpyDefault) == cudaSuccess &&
               cuFileHandleRegister(&own, &descr).err == CU_FILE_SUCCESS &&
               cuFileBufRegister(memory, SLICE, 0).err == CU_FILE_SUCCESS &&
               cudaStreamSynchronize(NULL) == cudaSuccess &&
               cuFileWrite(shared, memory, SLICE, at, 0) == (ssize_t)SLICE &&
               cuFileWrite(own, memory, SLICE, 5, 0) == (ssize_t)SLICE;
        if (good) {
            memset(out, 0, SLICE);
            good = cudaMemset(memory, 0, SLICE) == cudaSuccess && cudaStreamSynchronize(NULL) == cudaSuccess &&
                   cuFileRead(round % 2 ? own : shared, memory, SLICE, round % 2 ? 5 : at, 0) == (ssize_t)SLICE &&
                   cudaMemcpy(out, memory, SLICE, cudaMemcpyDefault) == cudaSuccess;
            for (size_t i = 0; good && i < SLICE; i++)
                good = out[i] == (unsigned char)(i * 7 + (i >> 8) * 13 + (unsigned)number * 20 + round);
            cuFileHandleDeregister(own);
            (void)cuFileBufDeregister(memory);
        }
        if (!good) {
            atomic_fetch_add(&thread_failures, 1);
            break;
        }
    }
    (void)cudaFree(memory);
    (void)close(fd);
    free(out);
    return NULL;
}

static void threads_share_a_file(void **state)
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

static atomic_bool over;

static void *read_always(void *argument)
{
    unsigned char *memory = malloc(MIB);

    (void)argument;
    while (!atomic_load(&over)) {
        ssize_t moved = cuFileRead(shared, memory, MIB, 0, 0);

        if (moved != (ssize_t)MIB && moved != -CU_FILE_HANDLE_NOT_REGISTERED)
            atomic_fetch_add(&thread_failures, 1);
    }
    free(memory);
    return NULL;
}

/* Deregistering a file ends only later calls. */
static void files_go_while_they_are_read(void **state)
{
    pthread_t threads[2];

    (void)state;
    for (int round = 0; round < 20; round++) {
        int fd = make_file("going", MIB, 1, O_RDONLY);

        shared = register_fd(fd);
        atomic_store(&over, false);
        for (size_t i = 0; i < COUNT(threads); i++)
            assert_int_equal(pthread_create(&threads[i], NULL, read_always, NULL), 0);
        sleep_ms(2);
        cuFileHandleDeregister(shared);
        assert_int_equal(close(fd), 0);
        sleep_ms(1);
        atomic_store(&over, true);
        for (size_t i = 0; i < COUNT(threads); i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&thread_failures), 0);
}

/* Keeps the driver open while a buffer of its own is registered. */
static void *open_and_close(void *argument)
{
    unsigned char *memory = argument;

    for (int round = 0; round < 20000 && !atomic_load(&thread_failures); round++) {
        bool good = cuFileDriverOpen().err == CU_FILE_SUCCESS;

        good = cuFileBufRegister(memory, 4096, 0).err == CU_FILE_SUCCESS && good;
        good = cuFileBufDeregister(memory).err == CU_FILE_SUCCESS && good;
        good = cuFileDriverClose().err == CU_FILE_SUCCESS && good;
        if (!good)
            atomic_fetch_add(&thread_failures, 1);
    }
    return NULL;
}

/* The last close of the driver by one thread leaves what another thread, which opens it again, registers then. */
static void the_driver_is_closed_while_others_open_it(void **state)
{
    unsigned char *memory = make_memory(PAGEABLE, THREADS * 4096);
    pthread_t threads[THREADS];

    (void)state;
    while (cuFileUseCount())
        CUFILE_OK(cuFileDriverClose());
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, memory + i * 4096), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&thread_failures), 0);
    assert_int_equal(cuFileUseCount(), 0);
    end_memory(PAGEABLE, memory);
}

/* ---- after a reset ---- */

static void a_reset_of_the_device_is_survived(void **state)
{
    int fd = make_file("reset", MIB, 5, O_RDONLY);
    CUfileHandle_t file = register_fd(fd);

    (void)state;
    for (int i = 0; i < 3; i++) {
        unsigned char *memory = make_memory(DEVICE, MIB), *out;

        MOVES(MIB, cuFileRead(file, memory, MIB, 0, 0));
        out = copy_of(memory, MIB);
        HAS_PATTERN(out, MIB, 5);
        free(out);
        OK(cudaDeviceReset());
    }
    cuFileHandleDeregister(file);
    assert_int_equal(close(fd), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_read),
        cmocka_unit_test(ranges_are_written),
        cmocka_unit_test(leat_memory_is_read_into),
        cmocka_unit_test(a_read_ends_with_the_file),
        cmocka_unit_test(files_are_cut_while_they_are_read),
        cmocka_unit_test(sparse_files_are_read),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(a_failed_write_is_told),
        cmocka_unit_test(failed_calls_lose_no_streams),
        cmocka_unit_test(files_are_registered_once),
        cmocka_unit_test(no_descriptor_is_left),
        cmocka_unit_test(the_descriptor_may_be_closed),
        cmocka_unit_test(buffers_are_registered),
        cmocka_unit_test(the_driver_counts),
        cmocka_unit_test(threads_share_a_file),
        cmocka_unit_test(files_go_while_they_are_read),
        cmocka_unit_test(the_driver_is_closed_while_others_open_it),
        cmocka_unit_test(a_reset_of_the_device_is_survived),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder) ? 1 : 0;
}
