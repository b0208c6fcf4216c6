/*
 * rmm_pool.cpp - measures RMM's allocators: pairs of allocate and deallocate, with 1, 4 and 16 threads, each on
 * its own stream. rmm_pool.py builds and runs it; README.md says what it needs.
 */
#include "measure.hpp"

#include <rmm/cuda_device.hpp>
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

namespace
{

/* The size of a pool or an arena, large enough that it does not grow while pairs are timed: 16 threads with 1 GiB
 * each, and a reserve. */
constexpr std::size_t POOL_BYTES = 32ul << 30;
constexpr std::size_t ALIGNMENT = 256;

/* Each case creates a new resource, because RMM's pools never shrink. */
template <typename Resource, typename Make> class Rmm : public peers::Allocator
{
  public:
    Rmm(std::string name, std::vector<cudaStream_t> streams, Make make)
        : Allocator(std::move(name)), streams_(std::move(streams)), make_(std::move(make))
    {
    }

    void *take(unsigned stream, std::size_t bytes) override
    {
        return resource_->allocate(cuda::stream_ref{streams_[stream]}, bytes, ALIGNMENT);
    }
    void give(unsigned stream, void *ptr, std::size_t bytes) override
    {
        resource_->deallocate(cuda::stream_ref{streams_[stream]}, ptr, bytes, ALIGNMENT);
    }
    void trim() override
    {
        resource_.reset();
        resource_ = make_();
    }

  private:
    std::vector<cudaStream_t> streams_;
    Make make_;
    std::unique_ptr<Resource> resource_ = make_();
};

template <typename Make> auto make_rmm(const char *name, const std::vector<cudaStream_t> &streams, Make make)
{
    using Resource = typename decltype(make())::element_type;

    return std::make_unique<Rmm<Resource, Make>>(name, streams, std::move(make));
}

} // namespace

/* Argument: the number of repeats (optional). Prints rows of JSON. */
int main(int argc, char **argv)
{
    try {
        std::vector<std::unique_ptr<peers::Allocator>> allocators;

        peers::check(cudaSetDevice(0), "cudaSetDevice");
        peers::check(cudaFree(nullptr), "making the context");
        std::vector<cudaStream_t> streams = peers::make_streams(peers::STREAMS);

        allocators.push_back(make_rmm("RMM pool_memory_resource over cuda_memory_resource", streams, [] {
            return std::make_unique<rmm::mr::pool_memory_resource>(rmm::mr::cuda_memory_resource{}, POOL_BYTES);
        }));
        allocators.push_back(make_rmm("RMM arena_memory_resource over cuda_memory_resource", streams, [] {
            return std::make_unique<rmm::mr::arena_memory_resource>(rmm::mr::cuda_memory_resource{}, POOL_BYTES);
        }));
        allocators.push_back(make_rmm("RMM cuda_async_memory_resource", streams,
                                      [] { return std::make_unique<rmm::mr::cuda_async_memory_resource>(); }));
        peers::add_driver_and_leat(allocators, streams);
        peers::measure_pairs(allocators, peers::repeats_of(argc, argv));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "rmm_pool: %s\n", error.what());
        return 1;
    }
    return 0;
}
