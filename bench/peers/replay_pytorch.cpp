/*
 * replay_pytorch.cpp - replays a trace through PyTorch's caching allocator, called from C++, for several rounds,
 * and prints the peak of reserved memory and the times of the calls. replay_pytorch.py makes the input, builds
 * this program and runs it.
 *
 * Each call is timed alone. The time of reading the clock twice, measured at the start, is subtracted, as "leat
 * replay" does. Blocks that the trace never frees are freed at the end of a round.
 *
 * Input: one record for each operation, in order. An allocation gives the block a number. A free stands where the
 * block could be used again (the trace's "freed"), which is the moment when PyTorch itself reuses a block that
 * record_stream() held up. The program touches no byte of a block.
 */
#include "measure.hpp"

#include <c10/cuda/CUDACachingAllocator.h>

#include <fstream>

namespace
{

namespace caching = c10::cuda::CUDACachingAllocator;

struct Record {
    std::uint64_t block;
    std::uint64_t bytes; /* 0 means a free */
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

/* Creates a stream with the CUDA runtime: streams of PyTorch's own pool would need all of libtorch. */
cudaStream_t own_stream()
{
    cudaStream_t stream;

    peers::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
    return stream;
}

/* Stream 0 is the default stream, as in the recorded programs. */
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

double clock_cost_ns()
{
    std::vector<double> samples;

    for (int i = 0; i < 1001; i++) {
        double begin = peers::now_seconds();

        samples.push_back((peers::now_seconds() - begin) * 1e9);
    }
    std::nth_element(samples.begin(), samples.begin() + 500, samples.end());
    return samples[500];
}

/* The times of all calls of one kind, in ns. */
class Times
{
  public:
    void add(double ns)
    {
        values.push_back(ns);
    }

    /* Prints the keys "<name>_ns_mean" and so on. */
    void print(const char *name)
    {
        double sum = 0;

        std::sort(values.begin(), values.end());
        for (double value : values)
            sum += value;
        std::printf("\"%s_ns_mean\": %.1f, \"%s_ns_p50\": %.0f, \"%s_ns_p99\": %.0f, \"%s_ns_p999\": %.0f, "
                    "\"%s_ns_worst\": %.0f",
                    name, values.empty() ? 0 : sum / static_cast<double>(values.size()), name, quantile(0.5), name,
                    quantile(0.99), name, quantile(0.999), name, quantile(1));
    }

  private:
    double quantile(double part) const
    {
        return values.empty() ? 0
                              : values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
    }

    std::vector<double> values;
};

/* PyTorch's counts of driver calls. */
struct Counts {
    Counts()
    {
        auto stats = caching::getDeviceStats(0);

        allocations = stats.num_device_alloc;
        frees = stats.num_device_free;
        retries = stats.num_alloc_retries;
    }

    std::int64_t allocations, frees, retries;
};

class Replay
{
  public:
    explicit Replay(std::vector<Record> trace) : records(std::move(trace)), streams(streams_for(records))
    {
        std::uint64_t highest = 0;

        for (const Record &record : records)
            highest = std::max(highest, record.block);
        blocks.resize(highest + 1);
        alloc_ns.resize(highest + 1);
    }

    /* Runs one round and prints it as JSON. */
    void run(const char *comma)
    {
        Counts before;
        Times alloc, free, pair;
        double total_ns = 0;

        for (const Record &record : records) {
            if (record.bytes) {
                alloc_ns[record.block] = take(record);
                alloc.add(alloc_ns[record.block]);
                total_ns += alloc_ns[record.block];
            } else {
                total_ns += end(record.block, free, pair);
            }
        }
        for (std::uint64_t block = 0; block < blocks.size(); block++)
            if (blocks[block])
                total_ns += end(block, free, pair);
        Counts after;
        std::printf(
            "%s{\"total_ns\": %.0f, \"driver_allocations\": %lld, \"driver_frees\": %lld, \"retries\": %lld, ",
            comma, total_ns, static_cast<long long>(after.allocations - before.allocations),
            static_cast<long long>(after.frees - before.frees),
            static_cast<long long>(after.retries - before.retries));
        alloc.print("alloc");
        std::printf(", ");
        free.print("free");
        std::printf(", ");
        pair.print("pair");
        std::printf("}");
    }

  private:
    double elapsed_ns(double begin) const
    {
        return std::max((peers::now_seconds() - begin) * 1e9 - cost_ns, 0.0);
    }

    double take(const Record &record)
    {
        double begin = peers::now_seconds();

        blocks[record.block] = caching::raw_alloc_with_stream(record.bytes, streams[record.stream]);
        return elapsed_ns(begin);
    }

    double end(std::uint64_t block, Times &free, Times &pair)
    {
        double begin = peers::now_seconds();

        caching::raw_delete(blocks[block]);
        double ns = elapsed_ns(begin);
        blocks[block] = nullptr;
        free.add(ns);
        pair.add(ns + alloc_ns[block]);
        return ns;
    }

    std::vector<Record> records;
    std::vector<cudaStream_t> streams;
    std::vector<void *> blocks;
    std::vector<double> alloc_ns;
    double cost_ns = clock_cost_ns();
};

} // namespace

/* Arguments: the file of records, and the number of rounds. Prints one line of JSON. */
int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    try {
        peers::check(cudaSetDevice(0), "cudaSetDevice");
        peers::check(cudaFree(nullptr), "making the context");
        caching::init(1);

        Replay replay(read_records(argv[1]));

        std::printf("{\"each_round\": [");
        for (int round = 0; round < std::atoi(argv[2]); round++)
            replay.run(round ? ", " : "");

        auto stats = caching::getDeviceStats(0);
        const auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
        std::printf("], \"peak_reserved_bytes\": %lld, \"peak_requested_by_its_statistics_bytes\": %lld}\n",
                    static_cast<long long>(stats.reserved_bytes[all].peak),
                    static_cast<long long>(stats.requested_bytes[all].peak));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "replay_pytorch: %s\n", error.what());
        return 1;
    }
    return 0;
}
