/*
 * inside.h - what the files of libleat-cufile share: errors, registered files, and operations on them.
 *
 *   driver.c       opening, properties and limits, version; errors
 *   file.c         registered files and buffers
 *   operation.c    one read or write: its checks, its device, cuFileRead() and cuFileWrite()
 *   async.c        operations in the order of a CUDA stream
 *   batch.c        batches of operations
 *
 * Every operation is a leat_file_read_start() or leat_file_write_start(), or is one of a list of them. Operations
 * without a stream of the program run on streams of this library's own.
 */
#ifndef LEAT_CUFILE_INSIDE_H
#define LEAT_CUFILE_INSIDE_H

#include "engine/engine.h"

#include <leat/compat/cufile.h>
#include <leat/file.h>

#include <stdatomic.h>
#include <sys/stat.h>

/* ---- errors (driver.c) ---- */

static inline CUfileError_t leatcf_error(CUfileOpError error)
{
    return (CUfileError_t){error, CUDA_SUCCESS};
}

/* The error of a result of the engine. */
CUfileError_t leatcf_error_of(int result);

/* The error of a status of leat that is not LEAT_OK. */
CUfileError_t leatcf_error_of_status(leat_status status);

/* Converts it to the result of cuFileRead(). For LEAT_ERROR_FILE that is -1, and errno is EIO. */
ssize_t leatcf_bytes_of_status(leat_status status);

/* ---- the driver (driver.c) ---- */

/* Opens the driver if it is not open. */
void leatcf_driver_use(void);

/* Counts operations under way, while which the driver cannot be closed. */
void leatcf_operation_begins(void);
void leatcf_operation_ends(void);

/* ---- registered files and buffers (file.c) ---- */

struct leatcf_file {
    atomic_uint holders; /* reference count: its registration, and operations */
    leat_file *file;
    int fd; /* the program's; only compared */
    bool readable, writable;
    dev_t device;
    ino_t inode;
    struct leatcf_file *next, *next_of_fd; /* in the tables */
};

/* Returns the file of a handle, which the caller releases; NULL: not registered. */
struct leatcf_file *leatcf_file_hold(CUfileHandle_t handle);
void leatcf_file_release(struct leatcf_file *file);

/* Returns true if a buffer is registered that starts at base, and its length. */
bool leatcf_buffer_find(const void *base, size_t *bytes);

/* Removes all registrations. */
void leatcf_files_forget(void);
void leatcf_buffers_forget(void);

/* Ends the operations in stream order (async.c) whose device is lost or was reset. Their host functions may never
 * be called. The caller holds no lock. */
void leatcf_asyncs_give_up(void);

/* ---- operations (operation.c) ---- */

/* The largest number of operations of one batch. */
#define LEATCF_BATCH_MOST 4096

struct leatcf_operation {
    struct leatcf_file *file;
    char *memory;
    uint64_t offset;
    size_t bytes; /* of a read: at most up to the end of the file, once leatcf_operation_clip() was called */
    bool write;
};

/*
 * Checks the arguments of an operation. Returns 0, and the operation must be ended; or the negative result that
 * cuFileRead() has then.
 */
ssize_t leatcf_operation_make(CUfileHandle_t handle, const void *base, size_t bytes, off_t file_offset,
                              off_t buffer_offset, bool write, struct leatcf_operation *operation);
void leatcf_operation_end(struct leatcf_operation *operation);

/* Cuts a read at the present end of the file. *cut: it was longer. */
leat_status leatcf_operation_clip(struct leatcf_operation *operation, bool *cut);

/* Starts the operation on a stream. */
leat_status leatcf_operation_start(const struct leatcf_operation *operation, leat_stream *stream,
                                   leat_ticket **ticket);

/* Finds the device that has this memory, and opens it; for unknown and pageable memory the current device. Returns
 * a result of the engine. */
int leatcf_device_of(const void *memory, int *ordinal);

/* Returns true if the device is open and lost: then its copies may never be complete. */
bool leatcf_device_is_lost(int ordinal);

/* A stream of this library's own. It is taken for one operation or batch, and then given back. */
struct leatcf_stream {
    struct leatc_stream *stream;
    unsigned long long id;
    int ordinal;
};

int leatcf_stream_take(int ordinal, struct leatcf_stream *stream);

/* Returns false if a reset of the device has destroyed the stream. */
bool leatcf_stream_is_alive(const struct leatcf_stream *stream);

/* failed: an operation on it has failed, so that the stream still has a failure to report. */
void leatcf_stream_give(const struct leatcf_stream *stream, bool failed);

/* Starts the operation on such a stream. Returns a status of leat; *result is one of the engine, and not OK if the
 * stream cannot be used. */
leat_status leatcf_stream_start(const struct leatcf_stream *stream, const struct leatcf_operation *operation,
                                leat_ticket **ticket, int *result);

/* The same for a list of reads, or of writes, as one copy. */
leat_status leatcf_stream_start_list(const struct leatcf_stream *stream, const leat_file_op *ops, size_t count,
                                     bool write, leat_ticket **ticket, int *result);

#endif
