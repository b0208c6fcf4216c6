/*
 * pytorch_packing.cpp - runs the sequences of "leat bench pool --part packing" through PyTorch's caching
 * allocator, called from C++, and prints how much memory it reserved. pytorch_packing.py makes the input, builds
 * this program and runs it.
 *
 * Input, as 64-bit numbers: the number of sizes; for each size its bytes, the number of blocks and the limit; the
 * number of mixes; for each mix the number of steps, how many of them belong to the fill, and the steps. A step
 * above 0 is the bytes of the next block to allocate; otherwise it is minus the number of the block to free.
 * Nothing runs on the GPU, and no block is touched.
 */
#include "measure.hpp"

#include <c10/cuda/CUDACachingAllocator.h>

#include <fstream>

namespace
{

namespace caching = c10::cuda::CUDACachingAllocator;

constexpr std::int64_t granule_bytes = 512;

std::int64_t rounded(std::int64_t bytes)
{
    return (bytes + granule_bytes - 1) / granule_bytes * granule_bytes;
}

class Input
{
  public:
    explicit Input(const char *path) : file(path, std::ios::binary)
    {
        if (!file)
            throw std::runtime_error(std::string(path) + " cannot be read");
    }

    std::int64_t number()
    {
        std::int64_t value;

        file.read(reinterpret_cast<char *>(&value), sizeof value);
        if (!file)
            throw std::runtime_error("the input ended early");
        return value;
    }

  private:
    std::ifstream file;
};

std::int64_t reserved_peak()
{
    const auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

    return caching::getDeviceStats(0).reserved_bytes[all].peak;
}

/* Releases all memory before the next sequence. */
void begin_again()
{
    peers::check(cudaDeviceSynchronize(), "waiting for the device");
    caching::emptyCache();
    caching::resetPeakStats(0);
}

/* Limits PyTorch to the fraction of the device's memory that corresponds to these bytes, or removes the limit. */
void set_limit(std::int64_t limit_bytes)
{
    std::size_t free_bytes, total_bytes;

    peers::check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for the device's memory");
    caching::setMemoryFraction(
        limit_bytes ? (static_cast<double>(limit_bytes) + 0.5) / static_cast<double>(total_bytes) : 1.0, 0);
}

void give_all(std::vector<void *> &blocks)
{
    for (void *block : blocks)
        if (block)
            caching::raw_delete(block);
    blocks.clear();
}

/* Returns nullptr if there is no memory. */
void *take_if_any(std::int64_t bytes, cudaStream_t stream)
{
    try {
        return caching::raw_alloc_with_stream(static_cast<std::size_t>(bytes), stream);
    } catch (const c10::OutOfMemoryError &) {
        return nullptr;
    }
}

void run_size(Input &input, cudaStream_t stream, const char *comma)
{
    std::int64_t bytes = input.number(), count = input.number(), limit_bytes = input.number();
    std::vector<void *> blocks;

    begin_again();
    for (std::int64_t i = 0; i < count; i++)
        blocks.push_back(caching::raw_alloc_with_stream(static_cast<std::size_t>(bytes), stream));
    std::int64_t reserved_bytes = reserved_peak();
    give_all(blocks);

    begin_again();
    set_limit(limit_bytes);
    while (void *block = take_if_any(bytes, stream))
        blocks.push_back(block);
    std::size_t fitting = blocks.size();
    give_all(blocks);
    set_limit(0);
    std::printf("%s{\"bytes\": %lld, \"reserved_bytes\": %lld, \"fitting_blocks\": %zu}", comma,
                static_cast<long long>(bytes), static_cast<long long>(reserved_bytes), fitting);
}

void run_mix(Input &input, cudaStream_t stream, const char *comma)
{
    std::int64_t steps = input.number(), fill_steps = input.number();
    std::int64_t live_bytes = 0, most_bytes = 0, filled_reserved = 0, filled_most = 0;
    std::vector<std::int64_t> sizes;
    std::vector<void *> blocks;

    begin_again();
    for (std::int64_t i = 0; i < steps; i++) {
        std::int64_t step = input.number();

        if (i == fill_steps) {
            filled_reserved = reserved_peak();
            filled_most = most_bytes;
        }
        if (step > 0) {
            blocks.push_back(caching::raw_alloc_with_stream(static_cast<std::size_t>(step), stream));
            sizes.push_back(rounded(step));
            live_bytes += sizes.back();
            most_bytes = std::max(most_bytes, live_bytes);
            continue;
        }
        std::size_t block = static_cast<std::size_t>(-step);
        caching::raw_delete(blocks.at(block));
        blocks[block] = nullptr;
        live_bytes -= sizes[block];
    }
    std::printf("%s{\"filled_rounded_bytes\": %lld, \"filled_reserved_bytes\": %lld, "
                "\"churned_rounded_bytes\": %lld, \"churned_reserved_bytes\": %lld}",
                comma, static_cast<long long>(filled_most), static_cast<long long>(filled_reserved),
                static_cast<long long>(most_bytes), static_cast<long long>(reserved_peak()));
    give_all(blocks);
}

} // namespace

/* Argument: the file of sequences. Prints JSON. */
int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    try {
        Input input(argv[1]);
        cudaStream_t stream;

        peers::check(cudaSetDevice(0), "cudaSetDevice");
        peers::check(cudaFree(nullptr), "making the context");
        peers::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
        caching::init(1);
        std::printf("{\"sizes\": [");
        for (std::int64_t i = 0, count = input.number(); i < count; i++)
            run_size(input, stream, i ? ", " : "");
        std::printf("], \"mixes\": [");
        for (std::int64_t i = 0, count = input.number(); i < count; i++)
            run_mix(input, stream, i ? ", " : "");
        std::printf("]}\n");
    } catch (const std::exception &error) {
        std::fprintf(stderr, "pytorch_packing: %s\n", error.what());
        return 1;
    }
    return 0;
}
