/*
 * measure.hpp - shared by the programs of this folder: measures pairs of allocation and free with one thread or
 * several, compares each peer with the CUDA driver's stream-ordered calls and with leat in the same process, and
 * prints rows of JSON.
 *
 * A peer is an Allocator. Each thread uses its own stream, as programs with many threads do.
 */
#ifndef LEAT_PEERS_MEASURE_HPP
#define LEAT_PEERS_MEASURE_HPP

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#ifdef WITH_LEAT
#include <leat/interop/cuda.h>
#include <leat/leat.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace peers
{

inline void check(cudaError_t result, const char *what)
{
    if (result != cudaSuccess)
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(result));
}

inline double now_seconds()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/* An allocator to measure. stream: the index of the calling thread's stream. */
class Allocator
{
  public:
    explicit Allocator(std::string allocator_name) : name(std::move(allocator_name))
    {
    }
    Allocator(const Allocator &) = delete;
    Allocator &operator=(const Allocator &) = delete;
    virtual ~Allocator() = default;

    virtual void *take(unsigned stream, std::size_t bytes) = 0;
    virtual void give(unsigned stream, void *ptr, std::size_t bytes) = 0;

    /* Releases idle memory, so that the next allocator finds the device's memory free. */
    virtual void trim()
    {
    }

    const std::string name;
};

/* cuMemAllocAsync and cuMemFreeAsync with a pool that keeps freed memory, which is the fastest setting of the
 * driver. Looked up at run time, so that nothing has to be linked. */
class Driver : public Allocator
{
  public:
    explicit Driver(std::vector<cudaStream_t> streams)
        : Allocator("cuMemAllocAsync, release threshold at its maximum"), streams_(std::move(streams))
    {
        void *library = dlopen("libcuda.so.1", RTLD_NOW);
        std::uint64_t everything = UINT64_MAX;

        if (!library)
            throw std::runtime_error(dlerror());
        alloc_ = reinterpret_cast<decltype(alloc_)>(dlsym(library, "cuMemAllocAsync"));
        free_ = reinterpret_cast<decltype(free_)>(dlsym(library, "cuMemFreeAsync"));
        if (!alloc_ || !free_)
            throw std::runtime_error("the driver has no cuMemAllocAsync");
        check(cudaDeviceGetDefaultMemPool(&pool_, 0), "cudaDeviceGetDefaultMemPool");
        check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &usual_), "cudaMemPoolGetAttribute");
        check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &everything),
              "cudaMemPoolSetAttribute");
    }
    ~Driver() override
    {
        cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &usual_);
    }

    void *take(unsigned stream, std::size_t bytes) override
    {
        CUdeviceptr ptr = 0;

        if (alloc_(&ptr, bytes, streams_[stream]) != CUDA_SUCCESS)
            throw std::runtime_error("cuMemAllocAsync failed");
        return reinterpret_cast<void *>(ptr);
    }
    void give(unsigned stream, void *ptr, std::size_t) override
    {
        if (free_(reinterpret_cast<CUdeviceptr>(ptr), streams_[stream]) != CUDA_SUCCESS)
            throw std::runtime_error("cuMemFreeAsync failed");
    }
    void trim() override
    {
        check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        check(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo");
    }

  private:
    std::vector<cudaStream_t> streams_;
    CUresult (*alloc_)(CUdeviceptr *, std::size_t, CUstream);
    CUresult (*free_)(CUdeviceptr, CUstream);
    cudaMemPool_t pool_;
    std::uint64_t usual_ = 0;
};

#ifdef WITH_LEAT
/* leat_alloc and leat_free on the same streams, which leat wraps. */
class Leat : public Allocator
{
  public:
    explicit Leat(const std::vector<cudaStream_t> &streams) : Allocator(std::string("leat ") + leat_version())
    {
        require(leat_device_open("cuda:0", &device_));
        for (cudaStream_t stream : streams) {
            leat_stream *wrapped;

            require(leat_cuda_stream_wrap(device_, stream, &wrapped));
            streams_.push_back(wrapped);
        }
    }
    ~Leat() override
    {
        leat_device_close(device_);
    }

    void *take(unsigned stream, std::size_t bytes) override
    {
        void *ptr;

        require(leat_alloc(streams_[stream], bytes, &ptr));
        return ptr;
    }
    void give(unsigned stream, void *ptr, std::size_t) override
    {
        require(leat_free(streams_[stream], ptr));
    }
    void trim() override
    {
        leat_pool *pool;

        require(leat_device_synchronize(device_));
        require(leat_pool_default(device_, LEAT_KIND_DEVICE, &pool));
        require(leat_pool_trim(pool, 0, nullptr, nullptr));
    }

  private:
    static void require(leat_status status)
    {
        if (status != LEAT_OK)
            throw std::runtime_error(leat_last_error());
    }

    leat_device *device_ = nullptr;
    std::vector<leat_stream *> streams_;
};
#endif

/* One sample: all threads make the given number of pairs at the same time, each on its own stream. Returns the
 * nanoseconds of a pair, as the mean over the threads. */
inline double sample_pairs(Allocator &allocator, unsigned threads, std::size_t bytes, unsigned pairs)
{
    std::atomic<unsigned> arrived{0};
    std::atomic<bool> failed{false};
    std::vector<double> seconds(threads);
    std::vector<std::thread> team;
    double sum = 0;

    auto work = [&](unsigned index) {
        try {
            check(cudaSetDevice(0), "cudaSetDevice");
            for (unsigned i = 0; i < 32; i++)
                allocator.give(index, allocator.take(index, bytes), bytes);
        } catch (const std::exception &error) {
            std::fprintf(stderr, "%s: %s\n", allocator.name.c_str(), error.what());
            failed = true;
        }
        arrived++;
        while (arrived < threads)
            std::this_thread::yield();
        if (failed)
            return;

        double begin = now_seconds();
        for (unsigned i = 0; i < pairs; i++)
            allocator.give(index, allocator.take(index, bytes), bytes);
        seconds[index] = now_seconds() - begin;
    };

    for (unsigned i = 1; i < threads; i++)
        team.emplace_back(work, i);
    work(0);
    for (std::thread &member : team)
        member.join();
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    if (failed)
        throw std::runtime_error(allocator.name + " failed");
    for (double time : seconds)
        sum += time;
    return sum / threads / pairs * 1e9;
}

/* Prints the median and the best of the samples as a row of JSON. */
inline void print_row(const std::string &allocator, std::size_t bytes, unsigned threads, unsigned pairs,
                      std::vector<double> &samples, bool first)
{
    std::sort(samples.begin(), samples.end());
    std::size_t count = samples.size();
    double median = count % 2 ? samples[count / 2] : (samples[count / 2 - 1] + samples[count / 2]) / 2;

    std::printf("%s\n    {\"allocator\": \"%s\", \"case\": \"pair\", \"bytes\": %zu, \"threads\": %u, "
                "\"unit\": \"ns\", \"median\": %.6g, \"p0\": %.6g, \"repeats\": %zu, \"pairs_a_sample\": %u}",
                first ? "" : ",", allocator.c_str(), bytes, threads, median, samples[0], count, pairs);
    std::fflush(stdout);
}

/* Returns the number of pairs for a sample of about 20 ms, with a lower bound. The first pairs, which allocate
 * from the driver, are not timed. */
inline unsigned choose_pairs(Allocator &allocator, unsigned threads, std::size_t bytes)
{
    sample_pairs(allocator, threads, bytes, 20);

    double ns = sample_pairs(allocator, threads, bytes, 200);

    return static_cast<unsigned>(std::clamp(20e6 / ns, 200.0, 200000.0));
}

/* Measures all sizes and thread counts. The allocators take turns sample by sample, so that drift affects all
 * alike. */
inline void measure_pairs(std::vector<std::unique_ptr<Allocator>> &allocators, unsigned repeats)
{
    const std::size_t sizes[] = {512,        4 << 10,    64 << 10,    std::size_t{1} << 20,
                                 16ul << 20, 64ul << 20, 256ul << 20, 1ul << 30};
    const unsigned thread_counts[] = {1, 4, 16};
    bool first = true;

    std::printf("[");
    for (unsigned threads : thread_counts)
        for (std::size_t bytes : sizes) {
            std::vector<std::vector<double>> samples(allocators.size());
            std::vector<unsigned> pairs(allocators.size());

            for (std::size_t i = 0; i < allocators.size(); i++)
                pairs[i] = choose_pairs(*allocators[i], threads, bytes);
            for (unsigned repeat = 0; repeat < repeats; repeat++)
                for (std::size_t i = 0; i < allocators.size(); i++)
                    samples[i].push_back(sample_pairs(*allocators[i], threads, bytes, pairs[i]));
            for (std::size_t i = 0; i < allocators.size(); i++) {
                print_row(allocators[i]->name, bytes, threads, pairs[i], samples[i], first);
                first = false;
                allocators[i]->trim();
            }
        }
    std::printf("\n]\n");
}

inline std::vector<cudaStream_t> make_streams(unsigned count)
{
    std::vector<cudaStream_t> streams(count);

    for (cudaStream_t &stream : streams)
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return streams;
}

enum { STREAMS = 16 };

/* Adds the two allocators that every program compares its peer with. */
inline void add_driver_and_leat(std::vector<std::unique_ptr<Allocator>> &allocators,
                                const std::vector<cudaStream_t> &streams)
{
    allocators.push_back(std::make_unique<Driver>(streams));
#ifdef WITH_LEAT
    allocators.push_back(std::make_unique<Leat>(streams));
#endif
}

inline unsigned repeats_of(int argc, char **argv)
{
    return argc > 1 ? static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10)) : 15;
}

} // namespace peers

#endif
