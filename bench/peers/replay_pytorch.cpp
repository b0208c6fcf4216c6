/*
 * replay_pytorch.cpp - replays a trace through PyTorch's caching allocator, called from C++, and says how much
 * memory it reserved at most. replay_pytorch.py makes the input, builds this and runs it.
 *
 * Input: one record for each operation, in order. An allocation gives the block a number; a free is made when the
 * block may be used again (the trace's "freed"), which is where PyTorch itself takes a block back that
 * record_stream() held up. No byte of a block is touched.
 */
#include "measure.hpp"

#include <c10/cuda/CUDACachingAllocator.h>

#include <fstream>

namespace
{

namespace caching = c10::cuda::CUDACachingAllocator;

struct Record {
    std::uint64_t block;
    std::uint64_t bytes; /* 0: a free */
    std::uint64_t stream;
};

std::vector<Record> read_records(const char *path)
{
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    std::vector<Record> records;

    if (!file)
        throw std::runtime_error(std::string(path) + " cannot be read");
    records.resize(static_cast<std::size_t>(file.tellg()) / sizeof(Record));
    file.seekg(0);
    file.read(reinterpret_cast<char *>(records.data()),
              static_cast<std::streamsize>(records.size() * sizeof(Record)));
    if (!file)
        throw std::runtime_error(std::string(path) + " ended early");
    return records;
}

/* A stream of the program's own: those of PyTorch's pool need the whole of libtorch. */
cudaStream_t own_stream()
{
    cudaStream_t stream;

    peers::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
    return stream;
}

/* Stream 0 is the default stream, as in the programs that were recorded. */
std::vector<cudaStream_t> streams_for(const std::vector<Record> &records)
{
    std::vector<cudaStream_t> streams{cudaStream_t{nullptr}};
    std::uint64_t highest = 0;

    for (const Record &record : records)
        highest = std::max(highest, record.stream);
    while (streams.size() <= highest)
        streams.push_back(own_stream());
    return streams;
}

void replay(const std::vector<Record> &records, std::vector<float> &alloc_ns, std::vector<float> &free_ns)
{
    std::vector<cudaStream_t> streams = streams_for(records);
    std::uint64_t highest = 0;

    for (const Record &record : records)
        highest = std::max(highest, record.block);
    std::vector<void *> blocks(highest + 1);
    for (const Record &record : records) {
        double begin = peers::now_seconds();

        if (record.bytes)
            blocks[record.block] = caching::raw_alloc_with_stream(record.bytes, streams[record.stream]);
        else
            caching::raw_delete(blocks[record.block]);
        (record.bytes ? alloc_ns : free_ns).push_back(static_cast<float>((peers::now_seconds() - begin) * 1e9));
    }
}

float quantile(std::vector<float> &values, double part)
{
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

} // namespace

/* The file of records. One line of JSON goes to the standard output. */
int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    try {
        std::vector<Record> records = read_records(argv[1]);
        std::vector<float> alloc_ns, free_ns;

        peers::check(cudaSetDevice(0), "cudaSetDevice");
        peers::check(cudaFree(nullptr), "making the context");
        caching::init(1);
        replay(records, alloc_ns, free_ns);

        auto stats = caching::getDeviceStats(0);
        const auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
        std::printf(
            "{\"peak_reserved_bytes\": %lld, \"peak_requested_by_its_statistics_bytes\": %lld, "
            "\"driver_allocations\": %lld, \"driver_frees\": %lld, \"retries\": %lld, "
            "\"alloc_ns_p50\": %.0f, \"alloc_ns_p999\": %.0f, \"free_ns_p50\": %.0f, \"free_ns_p999\": %.0f}\n",
            static_cast<long long>(stats.reserved_bytes[all].peak),
            static_cast<long long>(stats.requested_bytes[all].peak),
            static_cast<long long>(stats.num_device_alloc), static_cast<long long>(stats.num_device_free),
            static_cast<long long>(stats.num_alloc_retries), quantile(alloc_ns, 0.5), quantile(alloc_ns, 0.999),
            quantile(free_ns, 0.5), quantile(free_ns, 0.999));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "replay_pytorch: %s\n", error.what());
        return 1;
    }
    return 0;
}
