/*
 * torch_allocator.c - makes leat's default pool the allocator of PyTorch
 * (torch.cuda.memory.CUDAPluggableAllocator). pytorch_programs.py builds and loads it.
 *
 * A block belongs to the stream for which PyTorch requests it, and is freed on that stream, as in PyTorch's own
 * allocator. Tensor.record_stream() calls leat_torch_use(). This interface cannot report an error to PyTorch, so
 * an error is printed and ends the program.
 */
#include <leat/interop/cuda.h>
#include <leat/leat.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

enum { DEVICES_MAX = 16, STREAMS_MAX = 128 };

/* A stream of PyTorch, and leat's handle of it. */
struct known_stream {
    CUstream cuda;
    leat_stream *stream;
};

/* A device and PyTorch's streams on it. Threads add streams under the lock and never change them. The release
 * store to count publishes a new stream, so a look-up takes no lock. */
struct device {
    leat_device *_Atomic handle;
    struct known_stream streams[STREAMS_MAX];
    atomic_uint count;
};

static struct device devices[DEVICES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held while a device is opened or a stream is added */

static void require(leat_status status)
{
    if (status == LEAT_OK)
        return;
    fprintf(stderr, "torch_allocator: %s\n", leat_last_error());
    abort();
}

static leat_stream *find(struct device *device, CUstream cuda)
{
    unsigned count = atomic_load_explicit(&device->count, memory_order_acquire);

    for (unsigned i = 0; i < count; i++)
        if (device->streams[i].cuda == cuda)
            return device->streams[i].stream;
    return NULL;
}

/* Opens the device and wraps the stream, unless another thread has just done so. */
static leat_stream *add(struct device *device, int index, CUstream cuda)
{
    leat_stream *stream;

    pthread_mutex_lock(&lock);
    stream = find(device, cuda);
    if (!stream) {
        unsigned count = atomic_load_explicit(&device->count, memory_order_relaxed);
        leat_device *handle = atomic_load_explicit(&device->handle, memory_order_relaxed);

        if (!handle) {
            char name[32];

            snprintf(name, sizeof name, "cuda:%d", index);
            require(leat_device_open(name, &handle));
            atomic_store_explicit(&device->handle, handle, memory_order_release);
        }
        if (count == STREAMS_MAX) {
            fprintf(stderr, "torch_allocator: more than %d streams\n", STREAMS_MAX);
            abort();
        }
        require(leat_cuda_stream_wrap(handle, cuda, &stream));
        device->streams[count] = (struct known_stream){cuda, stream};
        atomic_store_explicit(&device->count, count + 1, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return stream;
}

static leat_stream *stream_of(int index, CUstream cuda)
{
    leat_stream *stream;

    if (index < 0 || index >= DEVICES_MAX) {
        fprintf(stderr, "torch_allocator: device %d, of at most %d\n", index, DEVICES_MAX);
        abort();
    }
    stream = find(&devices[index], cuda);
    return stream ? stream : add(&devices[index], index, cuda);
}

void *leat_torch_alloc(ssize_t bytes, int device, CUstream stream)
{
    void *ptr = NULL;

    require(leat_alloc(stream_of(device, stream), (size_t)bytes, &ptr));
    return ptr;
}

void leat_torch_free(void *ptr, ssize_t bytes, int device, CUstream stream)
{
    (void)bytes;
    /* Ignore blocks that PyTorch frees after leat_torch_close(): they were freed with their device. */
    if (device >= 0 && device < DEVICES_MAX &&
        !atomic_load_explicit(&devices[device].handle, memory_order_acquire))
        return;
    require(leat_free(stream_of(device, stream), ptr));
}

/* Reports that a stream uses a block. PyTorch does not pass the stream's device; it is the device of the block. */
void leat_torch_use(void *ptr, CUstream stream)
{
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    int index = 0;

    require(leat_pointer_get_info(ptr, &info));
    while (index < DEVICES_MAX &&
           atomic_load_explicit(&devices[index].handle, memory_order_acquire) != info.device)
        index++;
    require(leat_block_use(stream_of(index, stream), ptr));
}

/* Closes all devices. After this the trace of LEAT_RECORD_ALLOCATIONS is complete. */
void leat_torch_close(void)
{
    for (int i = 0; i < DEVICES_MAX; i++) {
        leat_device *handle = atomic_exchange_explicit(&devices[i].handle, NULL, memory_order_acq_rel);

        if (handle)
            require(leat_device_close(handle));
    }
}

/* Writes the default pool's statistics as JSON. */
void leat_torch_statistics(int device, char *text, size_t bytes)
{
    leat_pool_stats figures = {.size = sizeof figures};
    leat_device *handle =
        device >= 0 && device < DEVICES_MAX ? atomic_load_explicit(&devices[device].handle, memory_order_acquire) : NULL;
    leat_pool *pool;

    if (!handle) {
        snprintf(text, bytes, "{}");
        return;
    }
    require(leat_pool_default(handle, LEAT_KIND_DEVICE, &pool));
    require(leat_pool_get_stats(pool, &figures));
    snprintf(text, bytes,
             "{\"requested_peak_bytes\": %" PRIu64 ", \"reserved_bytes\": %" PRIu64 ", \"reserved_peak_bytes\": %" PRIu64
             ", \"allocations\": %" PRIu64 ", \"cache_hits\": %" PRIu64 ", \"driver_calls\": %" PRIu64
             ", \"driver_ns\": %" PRIu64 ", \"pages_stitched_bytes\": %" PRIu64 ", \"events\": %" PRIu64
             ", \"queries\": %" PRIu64 ", \"stream_waits\": %" PRIu64 ", \"host_waits\": %" PRIu64
             ", \"stitches\": %" PRIu64 ", \"stitch_reuses\": %" PRIu64 ", \"planned\": %" PRIu64 "}",
             figures.requested_peak_bytes, figures.reserved_bytes, figures.reserved_peak_bytes, figures.allocations,
             figures.cache_hits, figures.driver_calls, figures.driver_ns, figures.pages_stitched, figures.events,
             figures.queries, figures.stream_waits, figures.host_waits, figures.stitches, figures.stitch_reuses,
             figures.planned);
}
