/*
 * fake_cuda_partial.c - a libcuda.so.1 for tests that reports a good version but lacks most functions.
 */
#define EXPORT __attribute__((visibility("default")))

EXPORT unsigned int cuInit(unsigned int flags);
EXPORT unsigned int cuDriverGetVersion(int *version);

unsigned int cuInit(unsigned int flags)
{
    return flags;
}

unsigned int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}
