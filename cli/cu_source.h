/*
 * cu_source.h - translates CUDA C++ to C++ for the host compiler.
 */
#ifndef CLI_CU_SOURCE_H
#define CLI_CU_SOURCE_H

#include <stddef.h>

/* A construct that cannot be translated, and its position in the source. */
struct cu_error {
    char file[256];
    unsigned line;
    char text[256];
};

/*
 * Translates preprocessed CUDA C++ to C++ for use with leat/compat/cuda_runtime.h:
 *
 * - kernel<<<grid, block>>>(arguments) becomes calls of leat_cuda_configure() and of kernel.
 * - The body of a `__global__` function moves into a local class, and the function launches it. Declarations and
 *   explicit instantiations only lose `__global__`.
 * - `__shared__` variables become thread_local; `extern __shared__` variables become pointers to dynamic shared
 * memory.
 * - `__noinline__` becomes an attribute, assert() calls leat_kernel_assert(), and pragmas of nvcc are removed.
 *
 * Code from system headers is not changed. Line markers keep the positions of the source. Returns the C++ text,
 * which the caller frees, or NULL and *error.
 */
char *cu_source_translate(const char *text, size_t bytes, struct cu_error *error);

#endif
