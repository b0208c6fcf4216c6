/*
 * containers.cc - C++ containers in leat's memory: a std::pmr::vector in pinned memory, from which copies run at the
 * speed of the link, and device memory in the order of a stream by the interface of CCCL's and RMM's resources.
 */
#include <leat/interop/memory_resource.hpp>
#include <leat/leat.h>

#include <cstdio>
#include <memory_resource>
#include <vector>

/* Returns the vendor's handle of a stream, as code that uses CUDA's runtime has it. */
static void *native_of(leat_stream *stream)
{
    void *native = nullptr;

    return leat_stream_native(stream, &native) == LEAT_OK ? native : nullptr;
}

/* Sends numbers to the device and back. */
static bool there_and_back(leat_device *device, leat_stream *stream)
{
    const std::size_t count = 1 << 20, bytes = count * sizeof(float);
    leat::pmr_resource pinned(device);
    leat::resource memory(device);
    std::pmr::vector<float> in(count, &pinned), out(count, &pinned);
    void *native = native_of(stream);

    for (std::size_t i = 0; i < count; i++)
        in[i] = static_cast<float>(i);
    void *there = memory.allocate(native, bytes, 256);
    leat_status status = leat_copy(stream, there, in.data(), bytes);
    if (status == LEAT_OK)
        status = leat_copy(stream, out.data(), there, bytes);
    memory.deallocate(native, there, bytes, 256); /* in stream order: after the copies */

    /* The vectors free their memory at once, so the copies must be complete, also after a failure. */
    leat_status waited = leat_stream_synchronize(stream);
    return status == LEAT_OK && waited == LEAT_OK && in == out;
}

int main(int argc, char **argv)
{
    leat_device *device = nullptr;
    leat_stream *stream = nullptr;
    bool right = false;

    if (leat_device_open(argc > 1 ? argv[1] : nullptr, &device) != LEAT_OK) {
        std::fprintf(stderr, "%s\n", leat_last_error());
        return 1;
    }
    try {
        right = leat_stream_create(device, &stream) == LEAT_OK && there_and_back(device, stream);
        if (!right)
            std::fprintf(stderr, "%s\n", leat_last_error());
    } catch (const leat::allocation_error &error) {
        std::fprintf(stderr, "%s\n", error.what());
    }
    leat_device_close(device);
    std::printf("containers: %s\n", right ? "the numbers came back" : "failed");
    return right ? 0 : 1;
}
