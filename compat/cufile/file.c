/*
 * file.c - registered files and buffers.
 *
 * A handle is the address of a struct leatcf_file that is in the table. A file that is deregistered leaves the
 * table at once, and is closed when its last operation has ended.
 */
#include "cufile/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define BUCKETS 256

static size_t bucket_of(const void *address)
{
    return (uintptr_t)address / 64 % BUCKETS;
}

/* ---- files ---- */

static pthread_rwlock_t files_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct leatcf_file *files[BUCKETS], *files_of_fd[BUCKETS]; /* guarded by files_lock */

struct leatcf_file *leatcf_file_hold(CUfileHandle_t handle)
{
    struct leatcf_file *file;

    pthread_rwlock_rdlock(&files_lock);
    for (file = files[bucket_of(handle)]; file && file != handle; file = file->next)
        continue;
    /* Relaxed: files_lock keeps the registration, and with it one holder, until the count is incremented. */
    if (file)
        atomic_fetch_add_explicit(&file->holders, 1, memory_order_relaxed);
    pthread_rwlock_unlock(&files_lock);
    return file;
}

void leatcf_file_release(struct leatcf_file *file)
{
    /* Release and acquire: the last holder closes the file after all uses by the others. */
    if (atomic_fetch_sub_explicit(&file->holders, 1, memory_order_acq_rel) != 1)
        return;
    (void)leat_file_close(file->file);
    free(file);
}

/* Returns true if both have the same descriptor, open for the same access to the same file. A program may have
 * closed a registered descriptor; the system then gives its number to a file that is opened later. */
static bool is_same(const struct leatcf_file *a, const struct leatcf_file *b)
{
    return a->fd == b->fd && a->device == b->device && a->inode == b->inode && a->readable == b->readable &&
           a->writable == b->writable;
}

/* Adds a file to the tables. Returns false if its descriptor is registered for the same file. */
static bool add(struct leatcf_file *file)
{
    struct leatcf_file **bucket = &files[bucket_of(file)];
    struct leatcf_file **of_fd = &files_of_fd[(unsigned)file->fd % BUCKETS];
    bool found = false;

    pthread_rwlock_wrlock(&files_lock);
    for (const struct leatcf_file *other = *of_fd; other && !found; other = other->next_of_fd)
        found = is_same(other, file);
    if (!found) {
        file->next = *bucket;
        *bucket = file;
        file->next_of_fd = *of_fd;
        *of_fd = file;
    }
    pthread_rwlock_unlock(&files_lock);
    return !found;
}

/* Removes a file from the tables. Returns false if it is not there. */
static bool take_out(const struct leatcf_file *file)
{
    struct leatcf_file **place;
    bool found;

    pthread_rwlock_wrlock(&files_lock);
    for (place = &files[bucket_of(file)]; *place && *place != file; place = &(*place)->next)
        continue;
    found = *place;
    if (found) {
        *place = file->next;
        for (place = &files_of_fd[(unsigned)file->fd % BUCKETS]; *place != file; place = &(*place)->next_of_fd)
            continue;
        *place = file->next_of_fd;
    }
    pthread_rwlock_unlock(&files_lock);
    return found;
}

static CUfileOpError describe(int fd, struct leatcf_file *file)
{
    int flags = fcntl(fd, F_GETFL);
    struct stat what;

    if (flags < 0 || fstat(fd, &what))
        return CU_FILE_INVALID_VALUE;
    if (!S_ISREG(what.st_mode))
        return CU_FILE_INVALID_FILE_TYPE;
    if (flags & O_PATH)
        return CU_FILE_INVALID_FILE_OPEN_FLAG;
    file->fd = fd;
    file->readable = (flags & O_ACCMODE) != O_WRONLY;
    file->writable = (flags & O_ACCMODE) != O_RDONLY;
    file->device = what.st_dev;
    file->inode = what.st_ino;
    return CU_FILE_SUCCESS;
}

static CUfileOpError register_file(int fd, struct leatcf_file *file)
{
    CUfileOpError error = describe(fd, file);
    leat_status status;

    if (error != CU_FILE_SUCCESS)
        return error;
    status = leat_file_wrap(fd, 0, &file->file);
    if (status == LEAT_ERROR_FILE)
        return CU_FILE_GETNEWFD_FAILED;
    if (status != LEAT_OK)
        return leatcf_error_of_status(status).err;
    if (add(file))
        return CU_FILE_SUCCESS;
    (void)leat_file_close(file->file);
    return CU_FILE_HANDLE_ALREADY_REGISTERED;
}

CUfileError_t cuFileHandleRegister(CUfileHandle_t *fh, CUfileDescr_t *descr)
{
    struct leatcf_file *file;
    CUfileOpError error;

    if (!fh || !descr)
        return leatcf_error(CU_FILE_INVALID_VALUE);
    if (descr->type == CU_FILE_HANDLE_TYPE_USERSPACE_FS)
        return leatcf_error(CU_FILE_IO_NOT_SUPPORTED);
    if (descr->type != CU_FILE_HANDLE_TYPE_OPAQUE_FD)
        return leatcf_error(CU_FILE_INVALID_VALUE);
    leatcf_driver_use();
    file = calloc(1, sizeof *file);
    if (!file)
        return leatcf_error(CU_FILE_NOMEM_ERROR);
    atomic_init(&file->holders, 1);
    error = register_file(descr->handle.fd, file);
    if (error == CU_FILE_SUCCESS)
        *fh = file;
    else
        free(file);
    return leatcf_error(error);
}

void cuFileHandleDeregister(CUfileHandle_t fh)
{
    if (fh && take_out(fh))
        leatcf_file_release(fh);
}

void leatcf_files_forget(void)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (;;) {
            struct leatcf_file *file;

            pthread_rwlock_rdlock(&files_lock);
            file = files[i];
            pthread_rwlock_unlock(&files_lock);
            if (!file)
                break;
            cuFileHandleDeregister(file);
        }
}

/* ---- buffers ---- */

struct buffer {
    const void *base;
    size_t bytes;
    struct buffer *next;
};

static pthread_rwlock_t buffers_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct buffer *buffers[BUCKETS]; /* guarded by buffers_lock */

/* Returns the place of a buffer in the table, or where it would be. The caller holds the lock. */
static struct buffer **place_of(const void *base)
{
    struct buffer **place = &buffers[bucket_of(base)];

    while (*place && (*place)->base != base)
        place = &(*place)->next;
    return place;
}

bool leatcf_buffer_find(const void *base, size_t *bytes)
{
    const struct buffer *buffer;

    pthread_rwlock_rdlock(&buffers_lock);
    buffer = *place_of(base);
    if (buffer)
        *bytes = buffer->bytes;
    pthread_rwlock_unlock(&buffers_lock);
    return buffer;
}

/* Checks that the range is within one allocation, if it is known. */
static CUfileError_t check_memory(const void *base, size_t bytes)
{
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    leat_status status;
    int ordinal, result;

    if (bytes > UINTPTR_MAX - (uintptr_t)base)
        return leatcf_error(CU_FILE_INVALID_VALUE);
    result = leatcf_device_of(base, &ordinal);
    if (result == LEATC_INVALID_VALUE)
        return leatcf_error(CU_FILE_CUDA_POINTER_INVALID);
    if (result != LEATC_OK)
        return leatcf_error_of(result);
    status = leat_pointer_get_info(base, &info);
    if (status != LEAT_OK)
        return leatcf_error_of_status(status);
    if (info.kind != LEAT_KIND_PAGEABLE && info.base && info.bytes &&
        bytes > info.bytes - (size_t)((const char *)base - (const char *)info.base))
        return leatcf_error(CU_FILE_CUDA_POINTER_RANGE_ERROR);
    return leatcf_error(CU_FILE_SUCCESS);
}

CUfileError_t cuFileBufRegister(const void *bufPtr_base, size_t length, int flags)
{
    struct buffer *buffer, **place;
    CUfileError_t error;

    if (!bufPtr_base || !length || flags & ~(CU_FILE_RDMA_REGISTER | CU_FILE_RDMA_RELAXED_ORDERING))
        return leatcf_error(CU_FILE_INVALID_VALUE);
    leatcf_driver_use();
    error = check_memory(bufPtr_base, length);
    if (error.err != CU_FILE_SUCCESS)
        return error;
    buffer = malloc(sizeof *buffer);
    if (!buffer)
        return leatcf_error(CU_FILE_NOMEM_ERROR);
    pthread_rwlock_wrlock(&buffers_lock);
    place = place_of(bufPtr_base);
    if (*place) {
        error = leatcf_error(CU_FILE_MEMORY_ALREADY_REGISTERED);
    } else {
        *buffer = (struct buffer){bufPtr_base, length, NULL};
        *place = buffer;
    }
    pthread_rwlock_unlock(&buffers_lock);
    if (error.err != CU_FILE_SUCCESS)
        free(buffer);
    return error;
}

CUfileError_t cuFileBufDeregister(const void *bufPtr_base)
{
    struct buffer *buffer, **place;

    if (!bufPtr_base)
        return leatcf_error(CU_FILE_INVALID_VALUE);
    pthread_rwlock_wrlock(&buffers_lock);
    place = place_of(bufPtr_base);
    buffer = *place;
    if (buffer)
        *place = buffer->next;
    pthread_rwlock_unlock(&buffers_lock);
    if (!buffer)
        return leatcf_error(CU_FILE_MEMORY_NOT_REGISTERED);
    free(buffer);
    return leatcf_error(CU_FILE_SUCCESS);
}

void leatcf_buffers_forget(void)
{
    pthread_rwlock_wrlock(&buffers_lock);
    for (size_t i = 0; i < BUCKETS; i++)
        while (buffers[i]) {
            struct buffer *next = buffers[i]->next;

            free(buffers[i]);
            buffers[i] = next;
        }
    pthread_rwlock_unlock(&buffers_lock);
}
