/*
 * leat/compat/cufile.h - the cuFile API over leat: the declarations that a program needs, in place of the
 * vendor's.
 *
 * Model. A program registers an open file (cuFileHandleRegister()), and then reads it into GPU or host memory, or
 * writes it from there: in the calling thread (cuFileRead(), cuFileWrite()), as a batch of independent operations
 * (cuFileBatchIO...), or in the order of a CUDA stream (cuFileReadAsync(), cuFileWriteAsync()). leat's threads
 * read and write the file through pinned memory, as for leat_file_read(). GPUDirect Storage is never used.
 *
 * Compile with -I.../include/leat/compat and link with -lleat-cufile. Names, numbers and layouts are those of
 * NVIDIA's "cuFile API Reference Guide", version 1.13. docs/compatibility.md lists every name and what differs.
 *
 * Errors. Most calls return a CUfileError_t: err is 0 or a CUfileOpError, and cu_err is a CUresult if err is
 * CU_FILE_CUDA_DRIVER_ERROR. Calls that return a number of bytes return -1 if the system refused the access, with
 * the reason in errno, and another failure as a negative CUfileOpError.
 *
 * Threads. Any thread may call any function.
 */
#if !defined(LEAT_COMPAT_CUFILE_H) && !defined(__CUFILE_H_)
#define LEAT_COMPAT_CUFILE_H
/* The vendor's header is guarded by this name, so that a file never has both. */
#define __CUFILE_H_

#include <leat/compat/cuda.h>

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sockaddr;
struct timespec;

/* ---- errors ------------------------------------------------------------------------------------------------- */

#define CUFILEOP_BASE_ERR 5000

/* X(number after CUFILEOP_BASE_ERR, name after CU_FILE_, text) */
#define LEAT_CUFILE_ERRORS(X)                                                                                     \
    X(1, DRIVER_NOT_INITIALIZED, "the cuFile driver is not open")                                                 \
    X(2, DRIVER_INVALID_PROPS, "a property of the driver is invalid")                                             \
    X(3, DRIVER_UNSUPPORTED_LIMIT, "the limit is out of range")                                                   \
    X(4, DRIVER_VERSION_MISMATCH, "library and kernel driver do not fit")                                         \
    X(5, DRIVER_VERSION_READ_ERROR, "the version of the kernel driver is unknown")                                \
    X(6, DRIVER_CLOSING, "operations are under way")                                                              \
    X(7, PLATFORM_NOT_SUPPORTED, "not supported on this platform")                                                \
    X(8, IO_NOT_SUPPORTED, "not supported for this file")                                                         \
    X(9, DEVICE_NOT_SUPPORTED, "not supported on this device")                                                    \
    X(10, NVFS_DRIVER_ERROR, "the kernel driver failed")                                                          \
    X(11, CUDA_DRIVER_ERROR, "a call of the CUDA driver failed")                                                  \
    X(12, CUDA_POINTER_INVALID, "the pointer is invalid")                                                         \
    X(13, CUDA_MEMORY_TYPE_INVALID, "the kind of memory is not supported")                                        \
    X(14, CUDA_POINTER_RANGE_ERROR, "the range is beyond the end of the allocation")                              \
    X(15, CUDA_CONTEXT_MISMATCH, "the memory belongs to another context")                                         \
    X(16, INVALID_MAPPING_SIZE, "the range is larger than what can be pinned")                                    \
    X(17, INVALID_MAPPING_RANGE, "the range is beyond the end of the registered buffer")                          \
    X(18, INVALID_FILE_TYPE, "it is not a regular file")                                                          \
    X(19, INVALID_FILE_OPEN_FLAG, "the file was opened with flags that are not supported")                        \
    X(20, DIO_NOT_SET, "the file was opened without O_DIRECT")                                                    \
    X(22, INVALID_VALUE, "an argument is invalid")                                                                \
    X(23, MEMORY_ALREADY_REGISTERED, "the buffer is registered already")                                          \
    X(24, MEMORY_NOT_REGISTERED, "the buffer is not registered")                                                  \
    X(25, PERMISSION_DENIED, "access to the driver or the file is denied")                                        \
    X(26, DRIVER_ALREADY_OPEN, "the driver is open already")                                                      \
    X(27, HANDLE_NOT_REGISTERED, "the file is not registered")                                                    \
    X(28, HANDLE_ALREADY_REGISTERED, "the file is registered already")                                            \
    X(29, DEVICE_NOT_FOUND, "there is no such device")                                                            \
    X(30, INTERNAL_ERROR, "internal error")                                                                       \
    X(31, GETNEWFD_FAILED, "no file descriptor could be made")                                                    \
    X(33, NVFS_SETUP_ERROR, "the kernel driver could not be set up")                                              \
    X(34, IO_DISABLED, "switched off for this file by the configuration")                                         \
    X(35, BATCH_SUBMIT_FAILED, "the batch could not be submitted")                                                \
    X(36, GPU_MEMORY_PINNING_FAILED, "memory of the device could not be pinned")                                  \
    X(37, BATCH_FULL, "the batch has no room for more operations")                                                \
    X(38, ASYNC_NOT_SUPPORTED, "operations in stream order are not supported")                                    \
    X(39, INTERNAL_BATCH_SETUP_ERROR, "internal error while a batch was set up")                                  \
    X(40, INTERNAL_BATCH_SUBMIT_ERROR, "internal error while a batch was submitted")                              \
    X(41, INTERNAL_BATCH_GETSTATUS_ERROR, "internal error in the status of a batch")                              \
    X(42, INTERNAL_BATCH_CANCEL_ERROR, "internal error while a batch was cancelled")                              \
    X(43, NOMEM_ERROR, "out of host memory")                                                                      \
    X(44, IO_ERROR, "reading or writing the file failed")                                                         \
    X(45, INTERNAL_BUF_REGISTER_ERROR, "internal error while a buffer was registered")                            \
    X(46, HASH_OPR_ERROR, "internal error in a table")                                                            \
    X(47, INVALID_CONTEXT_ERROR, "no valid context is current")                                                   \
    X(48, NVFS_INTERNAL_DRIVER_ERROR, "internal error of the kernel driver")                                      \
    X(49, BATCH_NOCOMPAT_ERROR, "the batch needs the compatibility mode")                                         \
    X(50, IO_MAX_ERROR, "the last error number")

typedef enum CUfileOpError {
    CU_FILE_SUCCESS = 0,
#define LEAT_CUFILE_ERROR_(number, name, text) CU_FILE_##name = CUFILEOP_BASE_ERR + number,
    LEAT_CUFILE_ERRORS(LEAT_CUFILE_ERROR_)
#undef LEAT_CUFILE_ERROR_
} CUfileOpError;

typedef struct CUfileError {
    CUfileOpError err;
    CUresult cu_err;
} CUfileError_t;

/* Returns the text of an error. */
static inline const char *cufileop_status_error(CUfileOpError error)
{
    switch ((int)error) {
    case CU_FILE_SUCCESS:
        return "success";
#define LEAT_CUFILE_ERROR_(number, name, text)                                                                    \
    case CUFILEOP_BASE_ERR + (number):                                                                            \
        return text;
        LEAT_CUFILE_ERRORS(LEAT_CUFILE_ERROR_)
#undef LEAT_CUFILE_ERROR_
    default:
        return "unknown cuFile error";
    }
}

/* They take positive and negative numbers. */
#define IS_CUFILE_ERR(err) ((err) > CUFILEOP_BASE_ERR || (err) < -CUFILEOP_BASE_ERR)
#define CUFILE_ERRSTR(err) cufileop_status_error((CUfileOpError)((err) < 0 ? -(err) : (err)))
#define IS_CUDA_ERR(status) ((status).err == CU_FILE_CUDA_DRIVER_ERROR)
#define CU_FILE_CUDA_ERR(status) ((status).cu_err)

/* ---- the driver --------------------------------------------------------------------------------------------- */

/* Numbers of bits in the fields of CUfileDrvProps_t. */
typedef enum CUfileDriverStatusFlags {
    CU_FILE_LUSTRE_SUPPORTED = 0,
    CU_FILE_WEKAFS_SUPPORTED = 1,
    CU_FILE_NFS_SUPPORTED = 2,
    CU_FILE_GPFS_SUPPORTED = 3,
    CU_FILE_NVME_SUPPORTED = 4,
    CU_FILE_NVMEOF_SUPPORTED = 5,
    CU_FILE_SCSI_SUPPORTED = 6,
    CU_FILE_SCALEFLUX_CSD_SUPPORTED = 7,
    CU_FILE_NVMESH_SUPPORTED = 8,
    CU_FILE_BEEGFS_SUPPORTED = 9,
    CU_FILE_NVME_P2P_SUPPORTED = 11
} CUfileDriverStatusFlags_t;

typedef enum CUfileDriverControlFlags {
    CU_FILE_USE_POLL_MODE = 0,
    CU_FILE_ALLOW_COMPAT_MODE = 1
} CUfileDriverControlFlags_t;

typedef enum CUfileFeatureFlags {
    CU_FILE_DYN_ROUTING_SUPPORTED = 0,
    CU_FILE_BATCH_IO_SUPPORTED = 1,
    CU_FILE_STREAMS_SUPPORTED = 2,
    CU_FILE_PARALLEL_IO_SUPPORTED = 3
} CUfileFeatureFlags_t;

typedef struct CUfileDrvProps {
    struct {
        unsigned int major_version; /* of nvidia-fs: 0.0, there is none */
        unsigned int minor_version;
        size_t poll_thresh_size;   /* KiB */
        size_t max_direct_io_size; /* KiB */
        unsigned int dstatusflags; /* bits of CUfileDriverStatusFlags_t: none */
        unsigned int dcontrolflags;
    } nvfs;
    unsigned int fflags;
    unsigned int max_device_cache_size;      /* KiB */
    unsigned int per_buffer_cache_size;      /* KiB */
    unsigned int max_device_pinned_mem_size; /* KiB */
    unsigned int max_batch_io_size;          /* operations */
    unsigned int max_batch_io_timeout_msecs;
} CUfileDrvProps_t;

CUfileError_t cuFileDriverOpen(void);
CUfileError_t cuFileDriverClose(void);
CUfileError_t cuFileDriverClose_v2(void);
#define cuFileDriverClose cuFileDriverClose_v2
long cuFileUseCount(void);
CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t *props);
CUfileError_t cuFileDriverSetPollMode(bool poll, size_t poll_threshold_size);
CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t max_direct_io_size);
CUfileError_t cuFileDriverSetMaxCacheSize(size_t max_cache_size);
CUfileError_t cuFileDriverSetMaxPinnedMemSize(size_t max_pinned_size);
CUfileError_t cuFileGetVersion(int *version);

/* ---- files and buffers -------------------------------------------------------------------------------------- */

typedef void *CUfileHandle_t;

enum CUfileFileHandleType {
    CU_FILE_HANDLE_TYPE_OPAQUE_FD = 1,
    CU_FILE_HANDLE_TYPE_OPAQUE_WIN32 = 2,
    CU_FILE_HANDLE_TYPE_USERSPACE_FS = 3
};

typedef struct sockaddr sockaddr_t;

typedef struct cufileRDMAInfo {
    int version;
    int desc_len;
    const char *desc_str;
} cufileRDMAInfo_t;

/* A file system in user space. leat never calls its functions. */
typedef struct CUfileFSOps {
    const char *(*fs_type)(const void *handle);
    int (*getRDMADeviceList)(const void *handle, sockaddr_t **hostaddrs);
    int (*getRDMADevicePriority)(const void *handle, char *device, size_t length, off_t offset,
                                 const sockaddr_t *hostaddr);
    ssize_t (*read)(const void *handle, char *buffer, size_t bytes, off_t offset, const cufileRDMAInfo_t *info);
    ssize_t (*write)(const void *handle, const char *buffer, size_t bytes, off_t offset,
                     const cufileRDMAInfo_t *info);
} CUfileFSOps_t;

typedef struct CUfileDescr_t {
    enum CUfileFileHandleType type;
    union {
        int fd;
        void *handle;
    } handle;
    const CUfileFSOps_t *fs_ops;
} CUfileDescr_t;

CUfileError_t cuFileHandleRegister(CUfileHandle_t *fh, CUfileDescr_t *descr);
void cuFileHandleDeregister(CUfileHandle_t fh);

#define CU_FILE_RDMA_REGISTER 1
#define CU_FILE_RDMA_RELAXED_ORDERING (1 << 1)

CUfileError_t cuFileBufRegister(const void *bufPtr_base, size_t length, int flags);
CUfileError_t cuFileBufDeregister(const void *bufPtr_base);

/* ---- reading and writing ------------------------------------------------------------------------------------ */

ssize_t cuFileRead(CUfileHandle_t fh, void *bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset);
ssize_t cuFileWrite(CUfileHandle_t fh, const void *bufPtr_base, size_t size, off_t file_offset,
                    off_t bufPtr_offset);

/* ---- batches ------------------------------------------------------------------------------------------------ */

typedef void *CUfileBatchHandle_t;

typedef enum CUfileOpcode { CUFILE_READ = 0, CUFILE_WRITE = 1 } CUfileOpcode_t;

typedef enum CUFILEStatus_enum {
    CUFILE_WAITING = 1,
    CUFILE_PENDING = 2,
    CUFILE_INVALID = 4,
    CUFILE_CANCELED = 8,
    CUFILE_COMPLETE = 16,
    CUFILE_TIMEOUT = 32,
    CUFILE_FAILED = 64
} CUfileStatus_t;

typedef enum cufileBatchMode { CUFILE_BATCH = 1 } CUfileBatchMode_t;

typedef struct CUfileIOParams {
    CUfileBatchMode_t mode;
    union {
        struct {
            void *devPtr_base;
            off_t file_offset;
            off_t devPtr_offset;
            size_t size;
        } batch;
    } u;
    CUfileHandle_t fh;
    CUfileOpcode_t opcode;
    void *cookie;
} CUfileIOParams_t;

typedef struct CUfileIOEvents {
    void *cookie;
    CUfileStatus_t status;
    size_t ret; /* bytes, or a negative result of cuFileRead() converted to size_t */
} CUfileIOEvents_t;

CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t *batch_idp, unsigned nr);
CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t batch_idp, unsigned nr, CUfileIOParams_t *iocbp,
                                  unsigned int flags);
CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t batch_idp, unsigned min_nr, unsigned *nr,
                                     CUfileIOEvents_t *iocbp, struct timespec *timeout);
CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t batch_idp);
void cuFileBatchIODestroy(CUfileBatchHandle_t batch_idp);

/* ---- in stream order ---------------------------------------------------------------------------------------- */

#define CU_FILE_STREAM_FIXED_BUF_OFFSET 1
#define CU_FILE_STREAM_FIXED_FILE_OFFSET 2
#define CU_FILE_STREAM_FIXED_FILE_SIZE 4
#define CU_FILE_STREAM_PAGE_ALIGNED_INPUTS 8

CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void *bufPtr_base, size_t *size_p, off_t *file_offset_p,
                              off_t *bufPtr_offset_p, ssize_t *bytes_read_p, CUstream stream);
CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void *bufPtr_base, size_t *size_p, off_t *file_offset_p,
                               off_t *bufPtr_offset_p, ssize_t *bytes_written_p, CUstream stream);
CUfileError_t cuFileStreamRegister(CUstream stream, unsigned flags);
CUfileError_t cuFileStreamDeregister(CUstream stream);

#ifdef __cplusplus
}
#endif

#endif
