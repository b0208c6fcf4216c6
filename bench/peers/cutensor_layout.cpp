/*
 * cutensor_layout.cpp - runs cuTENSOR's permutations, verifies them, and compares them with cudaMemcpyAsync of the
 * same number of bytes. cutensor_layout.py builds and runs it; README.md says what it needs.
 *
 * Reads one case per line: the bytes of an element, of the payload, of the source's array and of the destination's
 * array, the offsets of both views in bytes, the number of dimensions, their sizes, and the strides of both views
 * in bytes. All cases use the same memory, since allocating and filling it takes longer than measuring a case.
 */
#include <cuda_runtime_api.h>
#include <cutensor.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace
{

/* The total size of the buffers that take turns, so large that no cache holds them, and the shortest time of a
 * sample. */
constexpr std::size_t COLD_BYTES = 512ul << 20;
constexpr double SAMPLE_SECONDS = 0.002;
constexpr unsigned BUFFERS_MAX = 64;
constexpr std::size_t BUFFER_ALIGNMENT = 512;
/* An idle GPU needs this long to raise its clocks. */
constexpr double WARM_SECONDS = 0.3;

void check(cudaError_t result, const char *what)
{
    if (result != cudaSuccess)
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(result));
}

void check(cutensorStatus_t result, const char *what)
{
    if (result != CUTENSOR_STATUS_SUCCESS)
        throw std::runtime_error(std::string(what) + ": " + cutensorGetErrorString(result));
}

double now()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::size_t round_up(std::size_t bytes)
{
    return (bytes + BUFFER_ALIGNMENT - 1) / BUFFER_ALIGNMENT * BUFFER_ALIGNMENT;
}

struct Case {
    std::size_t element_bytes, payload, src_total, dst_total;
    std::int64_t src_offset, dst_offset;
    std::vector<std::int64_t> sizes, src_strides, dst_strides;

    /* A step must also be large enough for both sides of the plain copy. */
    std::size_t src_step() const
    {
        return round_up(std::max(src_total, payload));
    }
    std::size_t dst_step() const
    {
        return round_up(std::max(dst_total, payload));
    }
    unsigned buffers() const
    {
        std::size_t both = src_step() + dst_step();

        return static_cast<unsigned>(std::clamp<std::size_t>((COLD_BYTES + both - 1) / both, 1, BUFFERS_MAX));
    }
};

bool read_numbers(std::istream &line, std::size_t count, std::vector<std::int64_t> &numbers)
{
    numbers.resize(count);
    for (std::int64_t &number : numbers)
        line >> number;
    return bool(line);
}

Case read_case(const std::string &text)
{
    std::istringstream line(text);
    std::size_t dims = 0;
    Case c;

    line >> c.element_bytes >> c.payload >> c.src_total >> c.dst_total >> c.src_offset >> c.dst_offset >> dims;
    if (!line || !dims || !read_numbers(line, dims, c.sizes) || !read_numbers(line, dims, c.src_strides) ||
        !read_numbers(line, dims, c.dst_strides))
        throw std::runtime_error("no case: " + text);
    return c;
}

/* Owns memory of the device or page-locked memory of the host. */
class Memory
{
  public:
    Memory(std::size_t size, bool on_host) : bytes(size), on_host_(on_host)
    {
        check(on_host ? cudaMallocHost(&ptr_, bytes) : cudaMalloc(&ptr_, bytes), "allocation");
    }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    ~Memory()
    {
        on_host_ ? cudaFreeHost(ptr_) : cudaFree(ptr_);
    }
    char *at(std::size_t offset) const
    {
        return static_cast<char *>(ptr_) + offset;
    }

    const std::size_t bytes;

  private:
    void *ptr_ = nullptr;
    bool on_host_;
};

cudaDataType_t type_of(std::size_t element_bytes)
{
    return element_bytes == 2   ? CUDA_R_16F
           : element_bytes == 4 ? CUDA_R_32F
           : element_bytes == 8 ? CUDA_R_64F
                                : CUDA_C_64F;
}

/* The contents of the sources: numbers that no conversion changes, that are no NaN, and that repeat after a prime
 * number of elements, so that an element from a wrong place has a wrong value. */
class Pattern
{
  public:
    explicit Pattern(std::size_t element_bytes)
        : period(element_bytes == 2 ? 30707 : 1048573), bytes(period * element_bytes)
    {
        for (std::size_t i = 0; i < period; i++) {
            std::uint16_t half = static_cast<std::uint16_t>(0x0400 + i); /* all of them normal and finite */
            float single = static_cast<float>(i);
            double whole[2] = {static_cast<double>(i), static_cast<double>(i) + 0.5};
            const void *value = element_bytes == 2   ? static_cast<const void *>(&half)
                                : element_bytes == 4 ? static_cast<const void *>(&single)
                                                     : whole;

            std::memcpy(&bytes[i * element_bytes], value, element_bytes);
        }
    }

    const std::size_t period;
    std::vector<unsigned char> bytes;
};

/* Returns true if these rows of the destination are right. A row runs along the last dimension. */
template <std::size_t ELEMENT_BYTES>
bool rows_right(const Case &c, const Pattern &pattern, const char *found, std::size_t begin, std::size_t end)
{
    std::size_t last = c.sizes.size() - 1, step = static_cast<std::size_t>(c.src_strides[last]) / ELEMENT_BYTES;

    step %= pattern.period;
    for (std::size_t row = begin; row < end; row++) {
        std::int64_t from = c.src_offset, to = c.dst_offset, rest = static_cast<std::int64_t>(row);

        for (std::size_t dim = last; dim-- > 0; rest /= c.sizes[dim]) {
            from += rest % c.sizes[dim] * c.src_strides[dim];
            to += rest % c.sizes[dim] * c.dst_strides[dim];
        }
        std::size_t place = static_cast<std::size_t>(from) / ELEMENT_BYTES % pattern.period;
        for (std::int64_t i = 0; i < c.sizes[last]; i++, to += c.dst_strides[last]) {
            if (std::memcmp(&pattern.bytes[place * ELEMENT_BYTES], found + to, ELEMENT_BYTES))
                return false;
            place += step;
            place -= place >= pattern.period ? pattern.period : 0;
        }
    }
    return true;
}

/* Sorts the dimensions so that the destination's fastest one is last; then the check reads contiguous memory. */
Case by_destination(const Case &c)
{
    std::vector<std::size_t> order(c.sizes.size());
    Case sorted = c;

    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return c.dst_strides[a] > c.dst_strides[b]; });
    for (std::size_t i = 0; i < order.size(); i++) {
        sorted.sizes[i] = c.sizes[order[i]];
        sorted.src_strides[i] = c.src_strides[order[i]];
        sorted.dst_strides[i] = c.dst_strides[order[i]];
    }
    return sorted;
}

/* Returns true if every element of the destination is right. All processors take part in the check. */
bool all_right(const Case &given, const Pattern &pattern, const char *found)
{
    Case c = by_destination(given);
    std::size_t rows = std::accumulate(c.sizes.begin(), c.sizes.end() - 1, std::size_t{1},
                                       [](std::size_t a, std::int64_t b) { return a * std::size_t(b); });
    auto look = c.element_bytes == 2   ? rows_right<2>
                : c.element_bytes == 4 ? rows_right<4>
                : c.element_bytes == 8 ? rows_right<8>
                                       : rows_right<16>;
    std::size_t count = std::max(1u, std::thread::hardware_concurrency());
    std::atomic<bool> right{true};
    std::vector<std::thread> threads;

    for (std::size_t i = 0; i < count; i++)
        threads.emplace_back([&, i] {
            if (!look(c, pattern, found, rows * i / count, rows * (i + 1) / count))
                right = false;
        });
    for (std::thread &thread : threads)
        thread.join();
    return right;
}

template <typename Measure> std::size_t largest(const std::vector<Case> &cases, Measure measure)
{
    std::size_t bytes = 1;

    for (const Case &c : cases)
        bytes = std::max(bytes, measure(c));
    return bytes;
}

/* The memory that all cases share: sources with the pattern, destinations, and host memory for one destination. */
class Pools
{
  public:
    explicit Pools(const std::vector<Case> &cases)
        : src(largest(cases, [](const Case &c) { return c.src_step() * c.buffers(); }), false),
          dst(largest(cases, [](const Case &c) { return c.dst_step() * c.buffers(); }), false),
          host(largest(cases, [](const Case &c) { return c.dst_total; }), true)
    {
        check(cudaMemset(src.at(0), 0, src.bytes), "cudaMemset");
        check(cudaMemset(dst.at(0), 0, dst.bytes), "cudaMemset");
    }

    /* Fills the sources with elements of this size. */
    const Pattern &fill(std::size_t element_bytes)
    {
        if (element_bytes == element_bytes_)
            return *pattern_;
        pattern_ = std::make_unique<Pattern>(element_bytes);
        element_bytes_ = element_bytes;
        std::size_t done = std::min(src.bytes, pattern_->bytes.size());
        check(cudaMemcpy(src.at(0), pattern_->bytes.data(), done, cudaMemcpyHostToDevice), "cudaMemcpy");
        for (std::size_t more; done < src.bytes; done += more) {
            more = std::min(done, src.bytes - done);
            check(cudaMemcpy(src.at(done), src.at(0), more, cudaMemcpyDeviceToDevice), "cudaMemcpy");
        }
        return *pattern_;
    }

    void warm_up()
    {
        std::size_t bytes = std::min(src.bytes, dst.bytes);

        for (double start = now(); now() - start < WARM_SECONDS;) {
            check(cudaMemcpy(dst.at(0), src.at(0), bytes, cudaMemcpyDeviceToDevice), "cudaMemcpy");
            check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        }
    }

    Memory src, dst, host;

  private:
    std::size_t element_bytes_ = 0;
    std::unique_ptr<Pattern> pattern_;
};

/* One case: its plan and its buffers. */
class Work
{
  public:
    Work(cutensorHandle_t handle, const Case &c, Pools &pools)
        : handle_(handle), case_(c), pools_(pools), count_(c.buffers())
    {
        check(cudaEventCreate(&begin_), "cudaEventCreate");
        check(cudaEventCreate(&end_), "cudaEventCreate");
    }
    Work(const Work &) = delete;
    Work &operator=(const Work &) = delete;
    ~Work()
    {
        cudaEventDestroy(begin_);
        cudaEventDestroy(end_);
        cutensorDestroyPlan(plan_);
        cutensorDestroyPlanPreference(preference_);
        cutensorDestroyOperationDescriptor(operation_);
        cutensorDestroyTensorDescriptor(src_tensor_);
        cutensorDestroyTensorDescriptor(dst_tensor_);
    }

    void make_plan()
    {
        std::vector<std::int32_t> src_modes, dst_modes;

        make_tensor(&src_tensor_, case_.src_strides, case_.src_offset, src_modes);
        make_tensor(&dst_tensor_, case_.dst_strides, case_.dst_offset, dst_modes);
        check(cutensorCreatePermutation(handle_, &operation_, src_tensor_, src_modes.data(), CUTENSOR_OP_IDENTITY,
                                        dst_tensor_, dst_modes.data(),
                                        case_.element_bytes <= 4 ? CUTENSOR_COMPUTE_DESC_32F
                                                                 : CUTENSOR_COMPUTE_DESC_64F),
              "cutensorCreatePermutation");
        check(cutensorCreatePlanPreference(handle_, &preference_, CUTENSOR_ALGO_DEFAULT, CUTENSOR_JIT_MODE_NONE),
              "cutensorCreatePlanPreference");
        check(cutensorCreatePlan(handle_, &plan_, operation_, preference_, 0), "cutensorCreatePlan");
    }

    void move(unsigned i)
    {
        static const double one[2] = {1, 0};
        static const float single_one = 1;
        const void *alpha = case_.element_bytes <= 4 ? static_cast<const void *>(&single_one) : one;

        check(
            cutensorPermute(handle_, plan_, alpha, src(i) + case_.src_offset, dst(i) + case_.dst_offset, nullptr),
            "cutensorPermute");
    }
    void copy(unsigned i)
    {
        check(cudaMemcpyAsync(dst(i), src(i), case_.payload, cudaMemcpyDeviceToDevice, nullptr),
              "cudaMemcpyAsync");
    }

    /* Returns the seconds of one call, measured over a batch that uses the buffers in turns. */
    double time(bool plain, unsigned batch)
    {
        float milliseconds = 0;

        check(cudaEventRecord(begin_), "cudaEventRecord");
        for (unsigned i = 0; i < batch; i++, next_ = (next_ + 1) % count_)
            plain ? copy(next_) : move(next_);
        check(cudaEventRecord(end_), "cudaEventRecord");
        check(cudaEventSynchronize(end_), "cudaEventSynchronize");
        check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
        return milliseconds / 1e3 / batch;
    }

    /* Returns true if every element arrived. Before the run, the destination holds a value that is in no
     * source. */
    bool verified()
    {
        const Pattern &pattern = pools_.fill(case_.element_bytes);

        check(cudaMemset(dst(0), 0xff, case_.dst_total), "cudaMemset");
        move(0);
        check(cudaMemcpy(pools_.host.at(0), dst(0), case_.dst_total, cudaMemcpyDeviceToHost), "cudaMemcpy");
        return all_right(case_, pattern, pools_.host.at(0));
    }

  private:
    char *src(unsigned i)
    {
        return pools_.src.at(case_.src_step() * i);
    }
    char *dst(unsigned i)
    {
        return pools_.dst.at(case_.dst_step() * i);
    }

    /* Leaves out dimensions of one element, and on the source those with stride 0. cuTENSOR's order has the
     * fastest dimension first. */
    void make_tensor(cutensorTensorDescriptor_t *tensor, const std::vector<std::int64_t> &strides,
                     std::int64_t offset, std::vector<std::int32_t> &modes)
    {
        std::vector<std::int64_t> extents, steps;

        for (std::size_t i = 0; i < case_.sizes.size(); i++)
            if (case_.sizes[i] != 1 && strides[i] != 0)
                modes.push_back(static_cast<std::int32_t>(i));
        std::sort(modes.begin(), modes.end(), [&](std::int32_t a, std::int32_t b) {
            return strides[std::size_t(a)] < strides[std::size_t(b)];
        });
        for (std::int32_t mode : modes) {
            extents.push_back(case_.sizes[std::size_t(mode)]);
            steps.push_back(strides[std::size_t(mode)] / static_cast<std::int64_t>(case_.element_bytes));
        }
        /* every buffer is aligned to 512 bytes */
        std::uint32_t alignment = 256;
        while (offset % alignment)
            alignment /= 2;
        check(cutensorCreateTensorDescriptor(handle_, tensor, static_cast<std::uint32_t>(modes.size()),
                                             extents.data(), steps.data(), type_of(case_.element_bytes),
                                             alignment),
              "cutensorCreateTensorDescriptor");
    }

    cutensorHandle_t handle_;
    const Case &case_;
    Pools &pools_;
    cutensorTensorDescriptor_t src_tensor_ = nullptr, dst_tensor_ = nullptr;
    cutensorOperationDescriptor_t operation_ = nullptr;
    cutensorPlanPreference_t preference_ = nullptr;
    cutensorPlan_t plan_ = nullptr;
    unsigned count_, next_ = 0;
    cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

void print_seconds(const char *name, const std::vector<double> &seconds)
{
    std::printf("\"%s\": [", name);
    for (std::size_t i = 0; i < seconds.size(); i++)
        std::printf("%s%.9g", i ? ", " : "", seconds[i]);
    std::printf("]");
}

void measure(cutensorHandle_t handle, const Case &c, Pools &pools, int repeats)
{
    Work work(handle, c, pools);
    work.make_plan();
    bool verified = work.verified();
    double once = std::min(work.time(false, 1), work.time(false, 1));
    unsigned batch = static_cast<unsigned>(std::clamp(SAMPLE_SECONDS / once, 1.0, 1000.0));
    std::vector<double> own, copy;

    work.time(true, batch);
    for (int i = 0; i < repeats; i++) {
        own.push_back(work.time(false, batch));
        copy.push_back(work.time(true, batch));
    }
    std::printf("{");
    print_seconds("seconds", own);
    std::printf(", ");
    print_seconds("copy_seconds", copy);
    std::printf(", \"verified\": %s}", verified ? "true" : "false");
}

void measure_all(const std::vector<Case> &cases, int repeats, double seconds)
{
    double start = now();
    cutensorHandle_t handle;

    check(cudaSetDevice(0), "cudaSetDevice");
    check(cutensorCreate(&handle), "cutensorCreate");
    Pools pools(cases);
    pools.warm_up();
    std::printf("{\"version\": \"%zu\", \"rows\": [", cutensorGetVersion());
    for (const Case &c : cases) {
        std::printf("%s", &c == &cases.front() ? "\n" : ",\n");
        try {
            if (now() - start > seconds)
                throw std::runtime_error("left out: the time was up");
            measure(handle, c, pools, repeats);
        } catch (const std::exception &error) {
            std::printf("{\"error\": \"%s\"}", error.what());
        }
        std::fflush(stdout);
    }
    std::printf("]}\n");
    check(cutensorDestroy(handle), "cutensorDestroy");
}

} // namespace

/* Arguments: the number of repeats, and the seconds after which no further case begins. Prints JSON. */
int main(int argc, char **argv)
{
    try {
        std::vector<Case> cases;

        if (argc != 3)
            throw std::runtime_error("the number of repeats and the seconds are missing");
        for (std::string line; std::getline(std::cin, line);)
            cases.push_back(read_case(line));
        measure_all(cases, std::max(1, std::atoi(argv[1])), std::atof(argv[2]));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "cutensor_layout: %s\n", error.what());
        return 1;
    }
    return 0;
}
