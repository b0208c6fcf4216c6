/*
 * driver.c - opening and closing, properties and limits, version; and errors.
 *
 * There is no kernel driver, so opening only counts. Limits are stored and returned.
 */
#include "cufile/inside.h"

#include <errno.h>
#include <pthread.h>

#define VERSION 1130 /* 1.13: 1000 for a major number, 10 for a minor one */

/* ---- errors ---- */

CUfileError_t leatcf_error_of(int result)
{
    switch (result) {
    case LEATC_OK:
        return leatcf_error(CU_FILE_SUCCESS);
    case LEATC_NO_DEVICE:
        return leatcf_error(CU_FILE_DEVICE_NOT_FOUND);
    case LEATC_OUT_OF_MEMORY:
        return leatcf_error(CU_FILE_NOMEM_ERROR);
    default:
        return (CUfileError_t){CU_FILE_CUDA_DRIVER_ERROR, (CUresult)result};
    }
}

CUfileError_t leatcf_error_of_status(leat_status status)
{
    switch (status) {
    case LEAT_ERROR_INVALID:
        return leatcf_error(CU_FILE_INVALID_VALUE);
    case LEAT_ERROR_POINTER:
        return leatcf_error(CU_FILE_CUDA_POINTER_INVALID);
    case LEAT_ERROR_RANGE:
        return leatcf_error(CU_FILE_CUDA_POINTER_RANGE_ERROR);
    case LEAT_ERROR_UNSUPPORTED:
        return leatcf_error(CU_FILE_CUDA_MEMORY_TYPE_INVALID);
    case LEAT_ERROR_HOST_MEMORY:
        return leatcf_error(CU_FILE_NOMEM_ERROR);
    case LEAT_ERROR_FILE:
        return leatcf_error(CU_FILE_IO_ERROR);
    default:
        return leatcf_error_of(leatc_result_of(status));
    }
}

ssize_t leatcf_bytes_of_status(leat_status status)
{
    if (status == LEAT_ERROR_FILE) {
        errno = EIO;
        return -1;
    }
    return -(ssize_t)leatcf_error_of_status(status).err;
}

/* ---- opening ---- */

/* Any thread may open and close the driver, or start an operation. The locks of the registrations are taken with
 * this one held. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long opens;      /* guarded by lock: calls that opened it, and have not closed it */
static long operations; /* guarded by lock: under way */
static CUfileDrvProps_t properties = {
    .nvfs = {.poll_thresh_size = 4, .max_direct_io_size = 16384, .dcontrolflags = 1u << CU_FILE_ALLOW_COMPAT_MODE},
    .fflags =
        1u << CU_FILE_BATCH_IO_SUPPORTED | 1u << CU_FILE_STREAMS_SUPPORTED | 1u << CU_FILE_PARALLEL_IO_SUPPORTED,
    .max_device_cache_size = 131072,
    .per_buffer_cache_size = 1024,
    .max_device_pinned_mem_size = 33554432,
    .max_batch_io_size = LEATCF_BATCH_MOST,
    .max_batch_io_timeout_msecs = 5}; /* guarded by lock */

CUfileError_t cuFileDriverOpen(void)
{
    int result = leatc_init();

    if (result != LEATC_OK)
        return leatcf_error_of(result);
    pthread_mutex_lock(&lock);
    opens++;
    pthread_mutex_unlock(&lock);
    return leatcf_error(CU_FILE_SUCCESS);
}

void leatcf_driver_use(void)
{
    pthread_mutex_lock(&lock);
    if (!opens)
        opens = 1;
    pthread_mutex_unlock(&lock);
}

void leatcf_operation_begins(void)
{
    pthread_mutex_lock(&lock);
    operations++;
    pthread_mutex_unlock(&lock);
}

void leatcf_operation_ends(void)
{
    pthread_mutex_lock(&lock);
    operations--;
    pthread_mutex_unlock(&lock);
}

static CUfileError_t close_driver(void)
{
    CUfileOpError error = CU_FILE_SUCCESS;
    bool busy;

    pthread_mutex_lock(&lock);
    busy = opens == 1 && operations;
    pthread_mutex_unlock(&lock);
    if (busy)
        leatcf_asyncs_give_up();
    pthread_mutex_lock(&lock);
    if (!opens) {
        error = CU_FILE_DRIVER_NOT_INITIALIZED;
    } else if (opens == 1 && operations) {
        error = CU_FILE_DRIVER_CLOSING;
    } else if (!--opens) {
        /* With the lock held: afterwards another thread may have opened the driver again, and have registrations.
         */
        leatcf_files_forget();
        leatcf_buffers_forget();
    }
    pthread_mutex_unlock(&lock);
    return leatcf_error(error);
}

CUfileError_t cuFileDriverClose_v2(void)
{
    return close_driver();
}

#undef cuFileDriverClose
CUfileError_t cuFileDriverClose(void)
{
    return close_driver();
}

long cuFileUseCount(void)
{
    long count;

    pthread_mutex_lock(&lock);
    count = opens;
    pthread_mutex_unlock(&lock);
    return count;
}

/* ---- properties ---- */

CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t *props)
{
    if (!props)
        return leatcf_error(CU_FILE_INVALID_VALUE);
    pthread_mutex_lock(&lock);
    *props = properties;
    pthread_mutex_unlock(&lock);
    return leatcf_error(CU_FILE_SUCCESS);
}

/* Returns true if a limit in KiB is possible: whole pages, and it fits into the properties. */
static bool is_limit(size_t kib)
{
    return kib && kib % 4 == 0 && kib <= UINT32_MAX;
}

CUfileError_t cuFileDriverSetPollMode(bool poll, size_t poll_threshold_size)
{
    if (poll_threshold_size && !is_limit(poll_threshold_size))
        return leatcf_error(CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
    pthread_mutex_lock(&lock);
    properties.nvfs.dcontrolflags &= ~(1u << CU_FILE_USE_POLL_MODE);
    properties.nvfs.dcontrolflags |= (unsigned)poll << CU_FILE_USE_POLL_MODE;
    properties.nvfs.poll_thresh_size = poll_threshold_size;
    pthread_mutex_unlock(&lock);
    return leatcf_error(CU_FILE_SUCCESS);
}

CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t max_direct_io_size)
{
    if (!is_limit(max_direct_io_size))
        return leatcf_error(CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
    pthread_mutex_lock(&lock);
    properties.nvfs.max_direct_io_size = max_direct_io_size;
    pthread_mutex_unlock(&lock);
    return leatcf_error(CU_FILE_SUCCESS);
}

static CUfileError_t set_limit(unsigned *property, size_t kib)
{
    if (!is_limit(kib))
        return leatcf_error(CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
    pthread_mutex_lock(&lock);
    *property = (unsigned)kib;
    pthread_mutex_unlock(&lock);
    return leatcf_error(CU_FILE_SUCCESS);
}

CUfileError_t cuFileDriverSetMaxCacheSize(size_t max_cache_size)
{
    return set_limit(&properties.max_device_cache_size, max_cache_size);
}

CUfileError_t cuFileDriverSetMaxPinnedMemSize(size_t max_pinned_size)
{
    return set_limit(&properties.max_device_pinned_mem_size, max_pinned_size);
}

CUfileError_t cuFileGetVersion(int *version)
{
    if (!version)
        return leatcf_error(CU_FILE_INVALID_VALUE);
    *version = VERSION;
    return leatcf_error(CU_FILE_SUCCESS);
}
