/*
 * test_cuda_names.c - compares leat/compat/cuda.h with NVIDIA's cuda.h, if it is installed.
 *
 * The compiler compares them: NVIDIA's header declares each function that leat's header declares too, and C
 * refuses two declarations with different types. "make compat-abi" compares constants and struct layouts.
 */
#include <stdio.h>

#if __has_include(<cuda.h>)

/* Makes cuda.h declare all versions of a function under their own names. */
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
