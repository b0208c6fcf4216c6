/*
 * pytorch_pool.cpp - measures PyTorch's caching allocator, called from C++: pairs of raw_alloc_with_stream and
 * raw_delete, with 1, 4 and 16 threads, each on its own stream. pytorch_pool.py builds and runs it.
 */
#include "measure.hpp"

#include <c10/cuda/CUDACachingAllocator.h>

namespace
{

namespace caching = c10::cuda::CUDACachingAllocator;

class PyTorch : public peers::Allocator
{
  public:
    explicit PyTorch(std::vector<cudaStream_t> streams)
        : Allocator("PyTorch " + caching::name()), streams_(std::move(streams))
    {
    }

    void *take(unsigned stream, std::size_t bytes) override
    {
        return caching::raw_alloc_with_stream(bytes, streams_[stream]);
    }
    void give(unsigned, void *ptr, std::size_t) override
    {
        caching::raw_delete(ptr);
    }
    void trim() override
    {
        caching::emptyCache();
    }

  private:
    std::vector<cudaStream_t> streams_;
};

/* Creates a stream with the CUDA runtime: streams of PyTorch's own pool would need all of libtorch. */
cudaStream_t own_stream()
{
    cudaStream_t stream;

    peers::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
    return stream;
}

} // namespace

/* Argument: the number of repeats (optional). Prints rows of JSON. */
int main(int argc, char **argv)
{
    try {
        std::vector<std::unique_ptr<peers::Allocator>> allocators;
        std::vector<cudaStream_t> streams;

        peers::check(cudaSetDevice(0), "cudaSetDevice");
        peers::check(cudaFree(nullptr), "making the context");
        caching::init(1);
        for (unsigned i = 0; i < peers::STREAMS; i++)
            streams.push_back(own_stream());
        allocators.push_back(std::make_unique<PyTorch>(streams));
        peers::add_driver_and_leat(allocators, streams);
        peers::measure_pairs(allocators, peers::repeats_of(argc, argv));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "pytorch_pool: %s\n", error.what());
        return 1;
    }
    return 0;
}
