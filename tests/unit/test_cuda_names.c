/*
 * test_cuda_names.c - holds leat/compat/cuda.h against NVIDIA's cuda.h, where there is one.
 *
 * The compiler compares: each function that leat declares is declared by NVIDIA's header as well, and C refuses two
 * declarations of different types. Constants and layouts are what "make compat-abi" looks at.
 */
#include <stdio.h>

#if __has_include(<cuda.h>)

/* All versions of a function under their own names. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define LEAT_COMPAT_DECLARATIONS
#include <leat/compat/cuda.h>

int main(void)
{
    printf("the functions have the types that CUDA %d.%d declares\n", CUDA_VERSION / 1000,
           CUDA_VERSION % 1000 / 10);
    return 0;
}

#else

int main(void)
{
    printf("skipped: there is no cuda.h to compare with; set CUDA_HOME to a CUDA toolkit\n");
    return 77;
}

#endif
