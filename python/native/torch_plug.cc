/*
 * torch_plug.cc - the functions that PyTorch's CUDAPluggableAllocator calls, over pools of leat.
 *
 * pyleat.torch hands them to PyTorch. A block belongs to the stream for which PyTorch requests it, and is freed in the
 * order of that stream, as in PyTorch's own allocator. Only leat's public API is used, and nothing of PyTorch.
 *
 * Failures. pyleat_torch_alloc() returns NULL; PyTorch's caching allocator, which calls it for a MemPool, then
 * releases what it has cached, tries again, and raises its error for a full device. As the allocator of all of
 * PyTorch nobody checks for NULL, so pyleat_torch_alloc_or_throw() throws an exception, which PyTorch passes on to
 * Python with its text. The other functions cannot report a failure; they count it for pyleat_torch_failures().
 *
 * Threads. Any thread may call any function.
 */
#include <leat/leat.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <sys/types.h>
#include <utility>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

std::mutex lock; /* guards all that follows, except failures */
std::string driver = "cuda";
std::map<int, leat_device *> devices;                          /* opened once, until the process ends */
std::map<int, leat_pool *> pools;                              /* set by pyleat_torch_set_pool() */
std::map<std::pair<leat_device *, void *>, leat_stream *> streams; /* PyTorch's streams live as long as the process */
std::atomic<uint64_t> failures{0}; /* only counted, so no order is needed */

/* Returns the device. The lock must be held. */
leat_status find_device(int number, leat_device **device)
{
    auto found = devices.find(number);

    if (found == devices.end()) {
        leat_status status = leat_device_open((driver + ":" + std::to_string(number)).c_str(), device);

        if (status == LEAT_OK)
            devices[number] = *device;
        return status;
    }
    *device = found->second;
    return LEAT_OK;
}

/* Returns leat's handle of one of PyTorch's streams. The lock must be held. */
leat_status find_stream(leat_device *device, void *native, leat_stream **stream)
{
    auto key = std::make_pair(device, native);
    auto found = streams.find(key);

    if (found == streams.end()) {
        leat_status status = leat_stream_wrap(device, native, stream);

        if (status == LEAT_OK)
            streams[key] = *stream;
        return status;
    }
    *stream = found->second;
    return LEAT_OK;
}

/* Finds everything for an allocation, under the lock, and allocates without it. *pool NULL: the default pool. */
leat_status allocate(size_t bytes, int number, void *native, void **ptr)
{
    leat_device *device = nullptr;
    leat_stream *stream = nullptr;
    leat_pool *pool = nullptr;
    leat_status status;

    {
        std::lock_guard<std::mutex> held(lock);

        status = find_device(number, &device);
        if (status == LEAT_OK)
            status = find_stream(device, native, &stream);
        if (status == LEAT_OK && pools.count(number))
            pool = pools[number];
    }
    if (status == LEAT_OK)
        status = pool ? leat_pool_alloc(stream, pool, bytes, ptr) : leat_alloc(stream, bytes, ptr);
    return status;
}

void count_failure(leat_status status)
{
    if (status != LEAT_OK)
        failures.fetch_add(1, std::memory_order_relaxed);
}

} // namespace

/* Sets the driver of PyTorch's devices: "cuda", "hip", or "cpu" for tests. Call it before the first allocation. */
EXPORT void pyleat_torch_set_driver(const char *name)
{
    std::lock_guard<std::mutex> held(lock);

    driver = name;
}

/* Selects the pool for device number; NULL: its default pool. Blocks of the former pool stay valid. */
EXPORT void pyleat_torch_set_pool(int number, leat_pool *pool)
{
    std::lock_guard<std::mutex> held(lock);

    if (pool)
        pools[number] = pool;
    else
        pools.erase(number);
}

EXPORT void *pyleat_torch_alloc(ssize_t bytes, int number, void *native)
{
    void *ptr = nullptr;
    leat_status status = LEAT_ERROR_HOST_MEMORY;

    try {
        status = allocate((size_t)bytes, number, native, &ptr);
    } catch (const std::bad_alloc &) {
        /* No memory for the tables above. */
    }
    count_failure(status);
    return status == LEAT_OK ? ptr : nullptr;
}

EXPORT void *pyleat_torch_alloc_or_throw(ssize_t bytes, int number, void *native)
{
    void *ptr = nullptr;
    leat_status status = allocate((size_t)bytes, number, native, &ptr);

    if (status != LEAT_OK) {
        count_failure(status);
        throw std::runtime_error(leat_last_error());
    }
    return ptr;
}

EXPORT void pyleat_torch_free(void *ptr, ssize_t bytes, int number, void *native)
{
    leat_device *device = nullptr;
    leat_stream *stream = nullptr;
    leat_status status = LEAT_ERROR_HOST_MEMORY;

    (void)bytes;
    try {
        std::lock_guard<std::mutex> held(lock);

        status = find_device(number, &device);
        if (status == LEAT_OK)
            status = find_stream(device, native, &stream);
    } catch (const std::bad_alloc &) {
        /* The block stays allocated. */
    }
    count_failure(status == LEAT_OK ? leat_free(stream, ptr) : status);
}

/* Reports that the work of another stream uses the block, so that its memory is not reused before that work is
 * complete. PyTorch does not pass the device: it is the device of the block. */
EXPORT void pyleat_torch_record_stream(void *ptr, void *native)
{
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    leat_stream *stream = nullptr;
    leat_status status = leat_pointer_get_info(ptr, &info);

    if (status == LEAT_OK) {
        try {
            std::lock_guard<std::mutex> held(lock);

            status = find_stream(info.device, native, &stream);
        } catch (const std::bad_alloc &) {
            status = LEAT_ERROR_HOST_MEMORY;
        }
    }
    if (status == LEAT_OK)
        status = leat_block_use(stream, info.base);
    count_failure(status);
}

/* Returns how many calls have failed. */
EXPORT uint64_t pyleat_torch_failures(void)
{
    return failures.load(std::memory_order_relaxed);
}
