/*
 * cufile_room.h - shared by the tests of libleat-cufile: files in a temporary folder, registered handles, and
 * buffers of each kind of memory.
 */
#ifndef CUFILE_ROOM_H
#define CUFILE_ROOM_H

#include <cuda_runtime.h>
#include <cufile.h>

#include "../support/temporary.h"
#include "compat.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* The call must return this error. */
#define CUFILE(wanted, call) expect_result((int)(call).err, (int)(wanted), #call, __FILE__, __LINE__)
#define CUFILE_OK(call) CUFILE(CU_FILE_SUCCESS, call)

/* The call must return this number of bytes, or this negative error. */
#define MOVES(wanted, call) expect_result((int)(call), (int)(wanted), #call, __FILE__, __LINE__)

static char folder[TEMPORARY_PATH];

static inline int make_folder(void **state)
{
    (void)state;
    return temporary_folder(folder) ? 0 : -1;
}

static inline int remove_folder(void **state)
{
    int devices = 0;

    (void)state;
    /* Ends the threads of streams, which ThreadSanitizer would report. */
    (void)cudaGetDeviceCount(&devices);
    for (int i = 0; i < devices; i++)
        if (cudaSetDevice(i) == cudaSuccess)
            (void)cudaDeviceReset();
    return temporary_folder_remove(folder) ? 0 : -1;
}

/* Returns the path of a file in the folder, until the next call. */
static inline const char *path_of(const char *name)
{
    static char path[TEMPORARY_PATH + 64];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Makes a file that holds the pattern of the seed, and returns a descriptor that was opened with `how`. */
static inline int make_file(const char *name, size_t bytes, unsigned seed, int how)
{
    unsigned char *data = malloc(bytes ? bytes : 1);
    int fd = open(path_of(name), O_RDWR | O_CREAT | O_TRUNC, 0666);

    assert_non_null(data);
    assert_true(fd >= 0);
    write_pattern(data, bytes, seed);
    assert_int_equal(write(fd, data, bytes), bytes);
    assert_int_equal(close(fd), 0);
    free(data);
    fd = open(path_of(name), how);
    assert_true(fd >= 0);
    return fd;
}

/* Returns the content of an open file, which must have this size. The caller frees it. */
static inline unsigned char *content_of(int fd, size_t bytes)
{
    unsigned char *data = malloc(bytes + 1);

    assert_non_null(data);
    assert_int_equal(pread(fd, data, bytes + 1, 0), bytes);
    return data;
}

static inline CUfileHandle_t register_fd(int fd)
{
    CUfileDescr_t descr;
    CUfileHandle_t handle = NULL;

    memset(&descr, 0, sizeof descr);
    descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    descr.handle.fd = fd;
    CUFILE_OK(cuFileHandleRegister(&handle, &descr));
    assert_non_null(handle);
    return handle;
}

/* The kinds of memory that files are read into and written from. */
enum kind { DEVICE, OTHER_DEVICE, PINNED, MANAGED, PAGEABLE, KINDS };

static inline unsigned char *make_memory(enum kind kind, size_t bytes)
{
    void *memory = NULL;
    int devices;

    switch (kind) {
    case DEVICE:
        OK(cudaMalloc(&memory, bytes));
        break;
    case OTHER_DEVICE:
        OK(cudaGetDeviceCount(&devices));
        OK(cudaSetDevice(devices - 1));
        OK(cudaMalloc(&memory, bytes));
        OK(cudaSetDevice(0));
        break;
    case PINNED:
        OK(cudaMallocHost(&memory, bytes));
        break;
    case MANAGED:
        OK(cudaMallocManaged(&memory, bytes, cudaMemAttachGlobal));
        break;
    default:
        memory = malloc(bytes);
        break;
    }
    assert_non_null(memory);
    return memory;
}

static inline void end_memory(enum kind kind, void *memory)
{
    if (kind == PAGEABLE)
        free(memory);
    else if (kind == PINNED)
        OK(cudaFreeHost(memory));
    else
        OK(cudaFree(memory));
}

static inline void fill_memory(void *memory, int value, size_t bytes)
{
    unsigned char *data = malloc(bytes);

    assert_non_null(data);
    memset(data, value, bytes);
    OK(cudaMemcpy(memory, data, bytes, cudaMemcpyDefault));
    OK(cudaDeviceSynchronize());
    free(data);
}

static inline void fill_pattern(void *memory, size_t bytes, unsigned seed)
{
    unsigned char *data = malloc(bytes);

    assert_non_null(data);
    write_pattern(data, bytes, seed);
    OK(cudaMemcpy(memory, data, bytes, cudaMemcpyDefault));
    OK(cudaDeviceSynchronize());
    free(data);
}

/* Returns a copy in host memory. The caller frees it. */
static inline unsigned char *copy_of(const void *memory, size_t bytes)
{
    unsigned char *data = malloc(bytes);

    assert_non_null(data);
    OK(cudaMemcpy(data, memory, bytes, cudaMemcpyDefault));
    return data;
}

#endif
