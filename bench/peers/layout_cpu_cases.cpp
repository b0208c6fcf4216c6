// The peers of layout_cpu_cases.py that Python cannot call itself, as a shared library: OpenBLAS's omatcopy on
// several threads, and HPTT. Both transpose `count` dense matrices of rows x columns that lie one after the other.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#ifdef WITH_HPTT
#include "hptt_calls.hpp"
#endif

namespace
{

// cblas_somatcopy and cblas_domatcopy with integers of 64 bits, as the wheels of NumPy have them.
template <typename T>
using omatcopy = void (*)(int order, int trans, int64_t rows, int64_t columns, T alpha, const T *a, int64_t lda,
                          T *b, int64_t ldb);

constexpr int row_major = 101, transposed = 112;

// Cuts all rows of all matrices into one piece for each thread.
template <typename T>
void blas(omatcopy<T> call, T *dst, const T *src, int64_t count, int64_t rows, int64_t columns, int threads)
{
    auto work = [=](int64_t first, int64_t end) {
        while (first < end) {
            int64_t matrix = first / rows, row = first % rows, some = std::min(rows - row, end - first);

            call(row_major, transposed, some, columns, T{1}, src + (matrix * rows + row) * columns, columns,
                 dst + matrix * rows * columns + row, rows);
            first += some;
        }
    };
    std::vector<std::thread> workers;

    for (int i = 1; i < threads; i++)
        workers.emplace_back(work, count * rows * i / threads, count * rows * (i + 1) / threads);
    work(0, count * rows / threads);
    for (std::thread &worker : workers)
        worker.join();
}

} // namespace

extern "C" void peer_omatcopy(void *call, unsigned bytes, void *dst, const void *src, int64_t count, int64_t rows,
                              int64_t columns, int threads)
{
    if (bytes == 4)
        blas(reinterpret_cast<omatcopy<float>>(call), static_cast<float *>(dst), static_cast<const float *>(src),
             count, rows, columns, threads);
    else
        blas(reinterpret_cast<omatcopy<double>>(call), static_cast<double *>(dst),
             static_cast<const double *>(src), count, rows, columns, threads);
}

#ifdef WITH_HPTT
namespace
{

struct plan {
    std::shared_ptr<hptt::Transpose<float>> floats;
    std::shared_ptr<hptt::Transpose<double>> doubles;
};

} // namespace

extern "C" void *peer_hptt_plan(unsigned bytes, void *dst, const void *src, int64_t count, int64_t rows,
                                int64_t columns, int threads)
{
    // HPTT's first dimension is the fastest.
    const int perm[] = {1, 0, 2};
    const int size[] = {static_cast<int>(columns), static_cast<int>(rows), static_cast<int>(count)};
    int dims = count == 1 ? 2 : 3;
    auto *made = new plan;

    if (bytes == 4)
        made->floats = hptt::create_plan(perm, dims, 1.0f, static_cast<const float *>(src), size, nullptr, 0.0f,
                                         static_cast<float *>(dst), nullptr, hptt::ESTIMATE, threads, nullptr,
                                         false);
    else
        made->doubles = hptt::create_plan(perm, dims, 1.0, static_cast<const double *>(src), size, nullptr, 0.0,
                                          static_cast<double *>(dst), nullptr, hptt::ESTIMATE, threads, nullptr,
                                          false);
    return made;
}

extern "C" void peer_hptt(void *made)
{
    auto *p = static_cast<plan *>(made);

    if (p->floats)
        p->floats->execute();
    else
        p->doubles->execute();
}

extern "C" void peer_hptt_free(void *made)
{
    delete static_cast<plan *>(made);
}
#endif
