/*
 * cutensor_layout.cpp - cuTENSOR's permutations of given cases, verified, beside cudaMemcpyAsync of as many bytes.
 * cutensor_layout.py builds and runs it; README.md says what it needs.
 *
 * Reads one case a line: bytes of an element, of the payload, of the source's and of the destination's array, the
 * offsets of both views in bytes, the number of dimensions, their sizes, and the strides of both views in bytes.
 */
#include <cuda_runtime_api.h>
#include <cutensor.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

/* What several buffers in turns have together, so that no cache helps, and how long a sample takes at least. */
constexpr std::size_t COLD_BYTES = 512ul << 20;
constexpr double SAMPLE_SECONDS = 0.002;
constexpr unsigned BUFFERS_MAX = 64;

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

struct Case {
    std::size_t element_bytes, payload, src_total, dst_total;
    std::int64_t src_offset, dst_offset;
    std::vector<std::int64_t> sizes, src_strides, dst_strides;
};

bool read_numbers(std::istream &line, std::size_t count, std::vector<std::int64_t> &numbers)
{
    numbers.resize(count);
    for (std::int64_t &number : numbers)
        line >> number;
    return bool(line);
}

bool read_case(const std::string &text, Case &c)
{
    std::istringstream line(text);
    std::size_t dims = 0;

    line >> c.element_bytes >> c.payload >> c.src_total >> c.dst_total >> c.src_offset >> c.dst_offset >> dims;
    return line && read_numbers(line, dims, c.sizes) && read_numbers(line, dims, c.src_strides) &&
           read_numbers(line, dims, c.dst_strides);
}

/* Device memory that goes back by itself. */
class Memory
{
  public:
    explicit Memory(std::size_t bytes)
    {
        check(cudaMalloc(&ptr, bytes), "cudaMalloc");
    }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    ~Memory()
    {
        cudaFree(ptr);
    }

    void *ptr = nullptr;
};

cudaDataType_t type_of(std::size_t element_bytes)
{
    return element_bytes == 2   ? CUDA_R_16F
           : element_bytes == 4 ? CUDA_R_32F
           : element_bytes == 8 ? CUDA_R_64F
                                : CUDA_C_64F;
}

/* Numbers that no conversion changes: small, and never a NaN. */
void fill(std::vector<unsigned char> &bytes, std::size_t element_bytes)
{
    for (std::size_t i = 0; i + element_bytes <= bytes.size(); i += element_bytes) {
        std::uint64_t number = i / element_bytes % 997;
        float single = static_cast<float>(number);
        double whole = static_cast<double>(i / element_bytes);
        std::uint16_t half = static_cast<std::uint16_t>(0x3c00 + number); /* from 1 on, all normal */

        if (element_bytes == 2)
            std::memcpy(&bytes[i], &half, 2);
        else if (element_bytes == 4)
            std::memcpy(&bytes[i], &single, 4);
        else
            std::memcpy(&bytes[i], &whole, 8);
    }
}

/* A case with its plan and buffers. */
class Work
{
  public:
    Work(cutensorHandle_t handle, const Case &c) : handle_(handle), case_(c)
    {
        std::size_t src_bytes = std::max(c.src_total, c.payload), both = src_bytes + c.dst_total;
        std::size_t count = std::clamp<std::size_t>((COLD_BYTES + both - 1) / both, 1, BUFFERS_MAX);

        make_plan();
        src_step_ = (src_bytes + 511) / 512 * 512;
        dst_step_ = (c.dst_total + 511) / 512 * 512;
        src_ = std::make_unique<Memory>(src_step_ * count);
        dst_ = std::make_unique<Memory>(dst_step_ * count);
        check(cudaMemset(src_->ptr, 0, src_step_ * count), "cudaMemset");
        check(cudaMemset(dst_->ptr, 0, dst_step_ * count), "cudaMemset");
        count_ = static_cast<unsigned>(count);
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

    /* Seconds of one call, of a batch that goes through the buffers in turns. */
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

    /* Is every element there? */
    bool verified()
    {
        std::vector<unsigned char> in(case_.src_total), out(case_.dst_total);
        std::vector<std::int64_t> at(case_.sizes.size(), 0);
        std::int64_t from = case_.src_offset, to = case_.dst_offset;
        std::size_t dim;

        fill(in, case_.element_bytes);
        check(cudaMemcpy(src(0), in.data(), in.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
        move(0);
        check(cudaMemcpy(out.data(), dst(0), out.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
        do {
            if (std::memcmp(&in[static_cast<std::size_t>(from)], &out[static_cast<std::size_t>(to)],
                            case_.element_bytes))
                return false;
            for (dim = at.size(); dim-- > 0;) {
                from += case_.src_strides[dim];
                to += case_.dst_strides[dim];
                if (++at[dim] < case_.sizes[dim])
                    break;
                from -= case_.src_strides[dim] * at[dim];
                to -= case_.dst_strides[dim] * at[dim];
                at[dim] = 0;
            }
        } while (dim != static_cast<std::size_t>(-1));
        return true;
    }

  private:
    char *src(unsigned i)
    {
        return static_cast<char *>(src_->ptr) + src_step_ * i;
    }
    char *dst(unsigned i)
    {
        return static_cast<char *>(dst_->ptr) + dst_step_ * i;
    }

    /* Modes of one element, and on the source those that it repeats, are left out. */
    void make_tensor(cutensorTensorDescriptor_t *tensor, const std::vector<std::int64_t> &strides,
                     std::int64_t offset, std::vector<std::int32_t> &modes)
    {
        std::vector<std::int64_t> extents, steps;
        std::size_t i;

        for (i = 0; i < case_.sizes.size(); i++) {
            if (case_.sizes[i] == 1 || strides[i] == 0)
                continue;
            modes.push_back(static_cast<std::int32_t>(i + 1));
            extents.push_back(case_.sizes[i]);
            steps.push_back(strides[i] / static_cast<std::int64_t>(case_.element_bytes));
        }
        /* The base is aligned to 512 bytes. */
        std::uint32_t alignment = 256;
        while (offset % alignment)
            alignment /= 2;
        check(cutensorCreateTensorDescriptor(handle_, tensor, static_cast<std::uint32_t>(modes.size()),
                                             extents.data(), steps.data(), type_of(case_.element_bytes),
                                             alignment),
              "cutensorCreateTensorDescriptor");
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

    cutensorHandle_t handle_;
    const Case &case_;
    cutensorTensorDescriptor_t src_tensor_ = nullptr, dst_tensor_ = nullptr;
    cutensorOperationDescriptor_t operation_ = nullptr;
    cutensorPlanPreference_t preference_ = nullptr;
    cutensorPlan_t plan_ = nullptr;
    std::unique_ptr<Memory> src_, dst_;
    std::size_t src_step_ = 0, dst_step_ = 0;
    unsigned count_ = 1, next_ = 0;
    cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

void print_seconds(const char *name, const std::vector<double> &seconds)
{
    std::printf("\"%s\": [", name);
    for (std::size_t i = 0; i < seconds.size(); i++)
        std::printf("%s%.9g", i ? ", " : "", seconds[i]);
    std::printf("]");
}

void measure(cutensorHandle_t handle, const Case &c, int repeats)
{
    Work work(handle, c);
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

} // namespace

/* The number of repeats is given. JSON goes to the standard output. */
int main(int argc, char **argv)
{
    try {
        int repeats = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
        cutensorHandle_t handle;
        std::string line;
        Case c;

        check(cudaSetDevice(0), "cudaSetDevice");
        check(cutensorCreate(&handle), "cutensorCreate");
        std::printf("{\"version\": \"%zu\", \"rows\": [", cutensorGetVersion());
        for (bool first = true; std::getline(std::cin, line); first = false) {
            std::printf("%s", first ? "\n" : ",\n");
            if (!read_case(line, c))
                throw std::runtime_error("no case: " + line);
            try {
                measure(handle, c, repeats);
            } catch (const std::exception &error) {
                std::printf("{\"error\": \"%s\"}", error.what());
            }
            std::fflush(stdout);
        }
        std::printf("]}\n");
        check(cutensorDestroy(handle), "cutensorDestroy");
    } catch (const std::exception &error) {
        std::fprintf(stderr, "cutensor_layout: %s\n", error.what());
        return 1;
    }
    return 0;
}
