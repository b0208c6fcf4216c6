/*
 * fake_hip_partial.c - a libamdhip64.so for tests that reports a good version but lacks most functions.
 */
#define EXPORT __attribute__((visibility("default")))

EXPORT unsigned int hipInit(unsigned int flags);
EXPORT unsigned int hipRuntimeGetVersion(int *version);

unsigned int hipInit(unsigned int flags)
{
    return flags;
}

unsigned int hipRuntimeGetVersion(int *version)
{
    *version = 60342134;
    return 0;
}
