// The part of HPTT's interface (hptt.h) that the programs here use, so that the library without its headers is enough.
#pragma once

#include <memory>

namespace hptt
{
enum SelectionMethod { ESTIMATE, MEASURE, PATIENT, CRAZY };
template <typename T> class Transpose
{
  public:
    void execute() noexcept;
};
std::shared_ptr<Transpose<float>> create_plan(const int *perm, int dim, float alpha, const float *a,
                                              const int *size_a, const int *outer_a, float beta, float *b,
                                              const int *outer_b, SelectionMethod method, int threads,
                                              const int *thread_ids, bool row_major);
std::shared_ptr<Transpose<double>> create_plan(const int *perm, int dim, double alpha, const double *a,
                                               const int *size_a, const int *outer_a, double beta, double *b,
                                               const int *outer_b, SelectionMethod method, int threads,
                                               const int *thread_ids, bool row_major);
} // namespace hptt
