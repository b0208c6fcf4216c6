// Measures permutations of dense arrays on processors: leat's CPU device, OpenBLAS's omatcopy, HPTT, and a plain
// copy.
//
//     layout_cpu THREADS REPEATS SCALE ELEMENT_BYTES
//
// Runs the 57 cases of TTC, HPTT and cuTT. Prints JSON: for each case and library the median time of the calls,
// and the processor time of the whole process, which is the better figure on a busy machine. The libraries take
// turns, sample by sample. Every result is compared with leat's, which is compared with a plain loop.
//
// omatcopy supports only two dimensions: THREADS threads call it for each slice that is made of the fastest
// dimension of the source and that of the destination. If both are the same dimension, it copies rows.
#include <leat/leat.h>

#include <cblas.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <vector>

#ifdef WITH_HPTT
#include "hptt_calls.hpp"
#endif

namespace
{

struct shape {
    std::vector<int> perm; // dimension i of the result is perm[i] of the source; the first is the fastest
    std::vector<int> size[3];
};

const std::vector<shape> shapes = {
    {{1, 0}, {{7264, 7264}, {43408, 1216}, {1216, 43408}}},
    {{0, 2, 1}, {{368, 384, 384}, {2144, 64, 384}, {368, 64, 2307}}},
    {{1, 0, 2}, {{384, 384, 355}, {2320, 384, 59}, {384, 2320, 59}}},
    {{2, 1, 0}, {{384, 355, 384}, {2320, 59, 384}, {384, 59, 2320}}},
    {{0, 3, 2, 1}, {{80, 96, 75, 96}, {464, 16, 75, 96}, {80, 16, 75, 582}}},
    {{2, 1, 3, 0}, {{96, 75, 96, 75}, {608, 12, 96, 75}, {96, 12, 608, 75}}},
    {{2, 0, 3, 1}, {{96, 75, 96, 75}, {608, 12, 96, 75}, {96, 12, 608, 75}}},
    {{1, 0, 3, 2}, {{96, 96, 75, 75}, {608, 96, 12, 75}, {96, 608, 12, 75}}},
    {{3, 2, 1, 0}, {{96, 75, 75, 96}, {608, 12, 75, 96}, {96, 12, 75, 608}}},
    {{0, 4, 2, 1, 3}, {{32, 48, 28, 28, 48}, {176, 8, 28, 28, 48}, {32, 8, 28, 28, 298}}},
    {{3, 2, 1, 4, 0}, {{48, 28, 28, 48, 28}, {352, 4, 28, 48, 28}, {48, 4, 28, 352, 28}}},
    {{2, 0, 4, 1, 3}, {{48, 28, 48, 28, 28}, {352, 4, 48, 28, 28}, {48, 4, 352, 28, 28}}},
    {{1, 3, 0, 4, 2}, {{48, 48, 28, 28, 28}, {352, 48, 4, 28, 28}, {48, 352, 4, 28, 28}}},
    {{4, 3, 2, 1, 0}, {{48, 28, 28, 28, 48}, {352, 4, 28, 28, 48}, {48, 4, 28, 28, 352}}},
    {{0, 3, 2, 5, 4, 1}, {{16, 32, 15, 32, 15, 15}, {48, 10, 15, 32, 15, 15}, {16, 10, 15, 103, 15, 15}}},
    {{3, 2, 0, 5, 1, 4}, {{32, 15, 15, 32, 15, 15}, {112, 5, 15, 32, 15, 15}, {32, 5, 15, 112, 15, 15}}},
    {{2, 0, 4, 1, 5, 3}, {{32, 15, 32, 15, 15, 15}, {112, 5, 32, 15, 15, 15}, {32, 5, 112, 15, 15, 15}}},
    {{3, 2, 5, 1, 0, 4}, {{32, 15, 15, 32, 15, 15}, {112, 5, 15, 32, 15, 15}, {32, 5, 15, 112, 15, 15}}},
    {{5, 4, 3, 2, 1, 0}, {{32, 15, 15, 15, 15, 32}, {112, 5, 15, 15, 15, 32}, {32, 5, 15, 15, 15, 112}}},
};

int threads, repeats;
double scale;

void ok(leat_status status)
{
    if (status == LEAT_OK)
        return;
    std::fprintf(stderr, "layout_cpu: %s\n", leat_last_error());
    std::exit(1);
}

double now(clockid_t clock)
{
    timespec time;

    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct samples {
    std::vector<double> wall, processor;

    // Times the second of two calls, so that the caches hold what this library uses.
    void take(const std::function<void()> &call)
    {
        double wall_before, processor_before;

        call();
        wall_before = now(CLOCK_MONOTONIC);
        processor_before = now(CLOCK_PROCESS_CPUTIME_ID);
        call();
        wall.push_back(now(CLOCK_MONOTONIC) - wall_before);
        processor.push_back(now(CLOCK_PROCESS_CPUTIME_ID) - processor_before);
    }
};

double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

// Allocates memory for all libraries alike: huge pages if there are any, aligned to 2 MiB.
char *memory(size_t bytes)
{
    size_t huge = size_t{2} << 20;
    auto *all = static_cast<char *>(
        mmap(nullptr, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    auto *base = reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(all) + huge - 1) & ~(huge - 1));

    if (all == MAP_FAILED) {
        std::fprintf(stderr, "layout_cpu: no memory for %zu bytes\n", bytes);
        std::exit(1);
    }
    madvise(base, bytes, MADV_HUGEPAGE);
    std::memset(base, 1, bytes);
    return base;
}

// One case: strides in elements, for the dimensions of the result.
template <typename T> struct transpose {
    std::vector<int64_t> size, stride;
    std::vector<int> source_size, perm;
    size_t elements = 1;
    const T *a;
    T *b;

    transpose(const std::vector<int> &order, std::vector<int> sizes) : perm(order)
    {
        std::vector<int64_t> source(sizes.size());

        // The slowest dimension of the result.
        sizes[static_cast<size_t>(order.back())] =
            std::max(1, static_cast<int>(sizes[static_cast<size_t>(order.back())] * scale));
        for (size_t i = 0; i < sizes.size(); i++) {
            source[i] = static_cast<int64_t>(elements);
            elements *= static_cast<size_t>(sizes[i]);
        }
        for (int i : order) {
            size.push_back(sizes[static_cast<size_t>(i)]);
            stride.push_back(source[static_cast<size_t>(i)]);
        }
        source_size = sizes;
    }

    bool right() const
    {
        std::vector<int64_t> at(size.size(), 0);
        int64_t from = 0;

        for (size_t i = 0; i < elements; i++) {
            if (std::memcmp(&b[i], &a[from], sizeof(T)))
                return false;
            for (size_t k = 0; k < size.size(); k++) {
                from += stride[k];
                if (++at[k] < size[k])
                    break;
                from -= size[k] * stride[k];
                at[k] = 0;
            }
        }
        return true;
    }
};

void slice(char order, size_t rows, size_t columns, const float *a, size_t lda, float *b, size_t ldb)
{
    cblas_somatcopy(CblasRowMajor, order == 'T' ? CblasTrans : CblasNoTrans, static_cast<blasint>(rows),
                    static_cast<blasint>(columns), 1.0f, a, static_cast<blasint>(lda), b,
                    static_cast<blasint>(ldb));
}

void slice(char order, size_t rows, size_t columns, const double *a, size_t lda, double *b, size_t ldb)
{
    cblas_domatcopy(CblasRowMajor, order == 'T' ? CblasTrans : CblasNoTrans, static_cast<blasint>(rows),
                    static_cast<blasint>(columns), 1.0, a, static_cast<blasint>(lda), b,
                    static_cast<blasint>(ldb));
}

template <typename T> void omatcopy(const transpose<T> &t)
{
    size_t dims = t.size.size(), other = 1, outer = 1;
    bool rows = t.perm[0] == 0;
    std::vector<int64_t> result(dims, 1);
    std::vector<size_t> rest;
    std::vector<std::thread> workers;

    for (size_t i = 1; i < dims; i++)
        result[i] = result[i - 1] * t.size[i - 1];
    // The fastest dimension of the source. If it is also the result's fastest, the slices use the next dimension.
    while (!rows && t.stride[other] != 1)
        other++;
    for (size_t i = 1; i < dims; i++) {
        if (i != other) {
            rest.push_back(i);
            outer *= static_cast<size_t>(t.size[i]);
        }
    }
    // A single matrix can only be divided by its rows.
    size_t cut = rest.empty() ? static_cast<size_t>(threads) : 1, steps = outer * cut;
    std::atomic<size_t> next{0};
    auto work = [&] {
        for (size_t step; (step = next++) < steps;) {
            size_t index = step / cut, first = static_cast<size_t>(t.size[other]) * (step % cut) / cut;
            size_t count = static_cast<size_t>(t.size[other]) * (step % cut + 1) / cut - first;
            int64_t to = static_cast<int64_t>(first) * result[other],
                    from = static_cast<int64_t>(first) * t.stride[other];

            for (size_t i : rest) {
                auto at = static_cast<int64_t>(index % static_cast<size_t>(t.size[i]));

                index /= static_cast<size_t>(t.size[i]);
                to += at * result[i];
                from += at * t.stride[i];
            }
            if (rows)
                slice('N', count, static_cast<size_t>(t.size[0]), t.a + from, static_cast<size_t>(t.stride[other]),
                      t.b + to, static_cast<size_t>(result[other]));
            else
                slice('T', static_cast<size_t>(t.size[0]), count, t.a + from, static_cast<size_t>(t.stride[0]),
                      t.b + to, static_cast<size_t>(result[other]));
        }
    };
    for (int i = 1; i < threads; i++)
        workers.emplace_back(work);
    work();
    for (std::thread &worker : workers)
        worker.join();
}

void print(const char *separator, const std::string &name, const char *library, const samples &taken, size_t bytes,
           bool verified)
{
    double seconds = median(taken.wall), processor = median(taken.processor);

    std::printf("%s\n{\"case\": \"%s\", \"library\": \"%s\", \"bytes\": %zu, \"seconds\": %.9g, "
                "\"processor_seconds\": %.9g, \"verified\": %s}",
                separator, name.c_str(), library, bytes, seconds, processor, verified ? "true" : "false");
}

template <typename T> void measure()
{
    const char *separator = "";
    size_t most = 0;
    leat_device *device;
    leat_stream *stream;

    for (const shape &one : shapes)
        for (const auto &size : one.size)
            most = std::max(most, transpose<T>(one.perm, size).elements);
    T *a = reinterpret_cast<T *>(memory(most * sizeof(T))), *b = reinterpret_cast<T *>(memory(most * sizeof(T)));
    for (size_t i = 0; i < most; i++)
        a[i] = static_cast<T>(i * 2654435761u % 16777216u);
    ok(leat_device_open("cpu:0", &device));
    ok(leat_stream_create(device, &stream));
    openblas_set_num_threads(1);
    std::printf("[");
    for (const shape &one : shapes) {
        for (int k = 0; k < 3; k++) {
            transpose<T> t(one.perm, one.size[k]);
            auto dims = static_cast<uint32_t>(t.size.size());
            size_t bytes = t.elements * sizeof(T);
            leat_layout from, to;
            std::vector<int64_t> size(t.size.rbegin(), t.size.rend());
            samples copy, leat, blas, hptt_taken;
            std::string name;

            t.a = a, t.b = b;
            for (size_t i = 0; i < dims; i++)
                name += (i ? " " : "") + std::to_string(one.perm[i]);
            name += " of";
            for (size_t i = 0; i < dims; i++)
                name += " " + std::to_string(t.source_size[i]);
            ok(leat_layout_dense(&to, dims, size.data(), sizeof(T)));
            from = to;
            for (size_t i = 0; i < dims; i++)
                from.stride_bytes[dims - 1 - i] = t.stride[i] * static_cast<int64_t>(sizeof(T));
            auto by_leat = [&] {
                ok(leat_copy_layout(stream, b, &to, a, &from));
                ok(leat_stream_synchronize(stream));
            };
            auto by_copy = [&] {
                ok(leat_copy(stream, b, a, bytes));
                ok(leat_stream_synchronize(stream));
            };
            auto by_blas = [&] { omatcopy(t); };
#ifdef WITH_HPTT
            auto plan = hptt::create_plan(t.perm.data(), static_cast<int>(dims), T{1}, a, t.source_size.data(),
                                          nullptr, T{0}, b, nullptr, hptt::ESTIMATE, threads, nullptr, false);
            auto by_hptt = [&] { plan->execute(); };
#endif
            std::memset(b, 0xff, bytes);
            by_leat();
            bool leat_right = t.right(), blas_right, hptt_right = false;
            std::memset(b, 0xff, bytes);
            by_blas();
            blas_right = t.right();
#ifdef WITH_HPTT
            std::memset(b, 0xff, bytes);
            by_hptt();
            hptt_right = t.right();
#endif
            for (int i = 0; i < repeats; i++) {
                copy.take(by_copy);
                leat.take(by_leat);
                blas.take(by_blas);
#ifdef WITH_HPTT
                hptt_taken.take(by_hptt);
#endif
            }
            print(separator, name, "leat", leat, bytes, leat_right);
            separator = ",";
            print(separator, name, "leat_copy", copy, bytes, true);
            print(separator, name, "OpenBLAS omatcopy", blas, bytes, blas_right);
            if (!hptt_taken.wall.empty())
                print(separator, name, "HPTT", hptt_taken, bytes, hptt_right);
        }
    }
    std::printf("\n]\n");
    leat_device_close(device);
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 5) {
        std::fprintf(stderr, "usage: layout_cpu THREADS REPEATS SCALE ELEMENT_BYTES\n");
        return 2;
    }
    threads = std::atoi(argv[1]);
    repeats = std::atoi(argv[2]);
    scale = std::atof(argv[3]);
    if (std::atoi(argv[4]) == 8)
        measure<double>();
    else
        measure<float>();
    return 0;
}
